//! Routes as flat words, and the kernels' lookup in Rust.
//!
//! ```text
//! address ─ first 16 bits ─► entries[65,536] ─┬─► hop
//!                                             └─► block ─ next byte ─┬─► hop
//!                                                                    └─► block ─ next byte …
//!
//! bits of an entry   31 30   29 … 0
//! hop                 0 0    number of the hop, 16 bits
//! leaf                0 1    unit of 256 hops of 16 bits, the even one in the lower half
//! inner               1 0    unit of 256 entries
//! line                1 1    unit of 5 starts (bytes), 3 bytes of padding, 6 entries
//! ```
//! A unit is eight words. A block answers for the 256 values of one byte of an address; neighbours
//! that lead to the same place are a *run*. Up to six runs are a line: a value has the entry at the
//! number of starts up to it. More are a leaf where no prefix goes on below, else an inner block.
//!
//! # Invariants
//! - R1: hops fill an entry's lower half and nothing else, so an entry of kind 0 is an answer.
//! - R2: a block has the kind that its runs ask for, whatever changes led to it.
//! - R3: starts that a line does not need are 255, and its further entries those of the last run.

use std::marker::PhantomData;

use warpswitch_routes::{Address, NextHop};

use crate::driver::LaunchShape;
use crate::image::Patch;
use crate::image::abi::{
    ROUTE_INNER, ROUTE_KIND_SHIFT, ROUTE_LEAF, ROUTE_LINE, ROUTE_PLACE, UNIT_WORDS,
};
use crate::kernels::Kernel;
use crate::work::{Form, Lookup, PatchWork, Work};

/// Threads of a block.
const THREADS: usize = 256;

/// Addresses a thread: `WS_ROUTE_KEYS` of `route4.cu`.
const IPV4_PER_THREAD: usize = 4;

/// The kind of an entry; 0 for a hop.
pub(super) fn kind(entry: u32) -> u32 {
    entry >> ROUTE_KIND_SHIFT
}

/// The entry of a block that begins with this unit.
pub(super) fn entry(kind: u32, unit: u32) -> u32 {
    kind << ROUTE_KIND_SHIFT | unit
}

/// The unit that an entry leads to.
pub(super) fn place(entry: u32) -> u32 {
    entry & ROUTE_PLACE
}

/// The hop for an address, aligned to the left of 128 bits.
fn hop(words: &[u32], left: u128) -> u16 {
    let mut entry = words[(left >> 112) as usize];
    let mut rest = left << 16;
    while kind(entry) != 0 {
        let byte = (rest >> 120) as u8;
        let block = &words[place(entry) as usize * UNIT_WORDS..];
        entry = match kind(entry) {
            ROUTE_LEAF => block[usize::from(byte / 2)] >> (16 * (byte & 1)) & 0xffff,
            ROUTE_INNER => block[usize::from(byte)],
            _ => {
                let starts = u64::from(block[0]) | u64::from(block[1]) << 32;
                let starts = starts.to_le_bytes();
                block[2 + starts[..5].iter().filter(|&&start| start <= byte).count()]
            }
        };
        rest <<= 8;
    }
    entry as u16
}

/// Routes of one family, laid out for its kernel.
#[derive(Clone, Debug)]
pub struct RouteImage<A> {
    words: Vec<u32>,
    family: PhantomData<A>,
}

/// Work over the words of routes.
pub trait RouteWork: PatchWork {
    /// Over these words, as the writer lays them out.
    fn new(words: Vec<u32>) -> Self;
}

impl<A: Address> PatchWork for RouteImage<A> {
    fn patch(&mut self, patch: &Patch) {
        patch.apply(&mut self.words);
    }
}

impl<A: Address> RouteWork for RouteImage<A> {
    fn new(words: Vec<u32>) -> Self {
        Self { words, family: PhantomData }
    }
}

impl<A: Address> RouteImage<A> {
    /// Words of an address.
    pub const ADDRESS_WORDS: usize = A::BITS as usize / 32;

    /// How wide addresses and hops are.
    pub const FORM: Form = Form { key_words: Self::ADDRESS_WORDS, answer_bytes: 2, packed: false };

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.words.len() * 4
    }

    /// Writes addresses as words of keys: the first 32 bits of each come first.
    ///
    /// # Panics
    /// If `room` has fewer words: a caller bug.
    pub fn write_addresses(addrs: &[A], room: &mut [u32]) {
        assert!(room.len() >= addrs.len() * Self::ADDRESS_WORDS, "no room for the addresses");
        for (addr, words) in addrs.iter().zip(room.chunks_exact_mut(Self::ADDRESS_WORDS)) {
            let mut left = addr.to_left();
            for word in words {
                *word = (left >> 96) as u32;
                left <<= 32;
            }
        }
    }

    /// Answers an address on this thread.
    pub fn lookup(&self, addr: A) -> NextHop {
        NextHop(hop(&self.words, addr.to_left()))
    }

    /// Answers addresses on this thread. No allocation.
    ///
    /// # Panics
    /// If `out` is shorter than `addrs`: a caller bug.
    pub fn lookup_batch(&self, addrs: &[A], out: &mut [NextHop]) {
        assert!(out.len() >= addrs.len(), "{} answers for {}", out.len(), addrs.len());
        for (&addr, out) in addrs.iter().zip(out) {
            *out = self.lookup(addr);
        }
    }
}

impl<A: Address> Lookup for RouteImage<A> {
    fn answer(&self, keys: &[u32], out: &mut [u32]) {
        let one = |words: &[u32]| {
            let left = words.iter().fold(0, |left, &word| left << 32 | u128::from(word));
            u32::from(hop(&self.words, left << (128 - A::BITS)))
        };
        for (pair, out) in keys.chunks(2 * Self::ADDRESS_WORDS).zip(out) {
            let (first, second) = pair.split_at(Self::ADDRESS_WORDS);
            *out = one(first);
            if !second.is_empty() {
                *out |= one(second) << 16;
            }
        }
    }
}

impl<A: Address> Work for RouteImage<A> {
    type Answer = NextHop;

    fn form(&self) -> Form {
        Self::FORM
    }

    fn kernel(&self) -> Kernel {
        if Self::ADDRESS_WORDS == 1 { Kernel::Route4 } else { Kernel::Route6 }
    }

    fn launch_shape(&self, _: usize) -> LaunchShape {
        let per_thread = if Self::ADDRESS_WORDS == 1 { IPV4_PER_THREAD } else { 1 };
        LaunchShape {
            threads: THREADS,
            keys_per_block: THREADS * per_thread,
            shared_bytes: 0,
            persistent: false,
        }
    }

    fn words(&self) -> &[u32] {
        &self.words
    }

    fn unpack(words: &[u32], out: &mut [NextHop]) {
        let (pairs, last) = out.as_chunks_mut();
        for ([first, second], &word) in pairs.iter_mut().zip(words) {
            (*first, *second) = (NextHop(word as u16), NextHop((word >> 16) as u16));
        }
        if let ([last], Some(&word)) = (last, words.get(pairs.len())) {
            *last = NextHop(word as u16);
        }
    }
}

/// Kinds of blocks, and units of each.
pub(super) const BLOCKS: [(u32, usize); 3] =
    [(ROUTE_LEAF, 128 / UNIT_WORDS), (ROUTE_INNER, 256 / UNIT_WORDS), (ROUTE_LINE, 1)];
