//! The steps of a lookup for any processor. Defines what the others must give.
//!
//! Many addresses go through a step before the next one begins, and a step has no branch that
//! depends on what was found: the loads of different addresses do not wait for each other.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::hop::NextHop;
use crate::lpm::entry::{COUNTS, Entry, HOP_AT, INNER, LEAF, SHIFT_AT};

/// Addresses that go through a step together.
const GROUP: usize = 32;

/// Looks up addresses given as numbers aligned to the left of 128 bits.
pub(super) fn lookup<A: Copy>(
    words: &[AtomicU64],
    addrs: &[A],
    left: impl Fn(A) -> u128,
    out: &mut [NextHop],
) {
    let mut entries = [Entry(0); GROUP];
    let mut rest = [0u128; GROUP];
    for (addrs, out) in addrs.chunks(GROUP).zip(out.chunks_mut(GROUP)) {
        let entries = &mut entries[..addrs.len()];
        let mut kinds = 0;
        for ((entry, rest), &addr) in entries.iter_mut().zip(&mut rest).zip(addrs) {
            let bits = left(addr);
            // Partner: the release store that publishes a first entry.
            *entry = Entry(words[(bits >> 112) as usize].load(Ordering::Acquire));
            *rest = bits << 16;
            kinds |= entry.0;
        }
        while kinds & (LEAF | INNER) != 0 {
            kinds = 0;
            for (entry, rest) in entries.iter_mut().zip(&mut rest) {
                *entry = step(words, *entry, (*rest >> 120) as u8);
                *rest <<= 8;
                kinds |= entry.0;
            }
        }
        for (out, entry) in out.iter_mut().zip(entries) {
            *out = NextHop(entry.hop_number());
        }
    }
}

/// Follows `entry` by the bytes of `rest`, the first at the top, to a hop.
pub(super) fn walk(words: &[AtomicU64], mut entry: Entry, mut rest: u128) -> NextHop {
    while !entry.is_hop() {
        entry = step(words, entry, (rest >> 120) as u8);
        rest <<= 8;
    }
    NextHop(entry.hop_number())
}

/// One step; a hop stays what it is.
#[inline(always)]
fn step(words: &[AtomicU64], entry: Entry, byte: u8) -> Entry {
    let Entry(bits) = entry;
    let is_leaf = bits & LEAF != 0;
    let slot = usize::from(byte) >> ((bits >> SHIFT_AT) & 3);
    // An entry that is a hop has index 0: it reads words 0 and 1 and forgets them.
    let word_idx = if entry.is_hop() { 0 } else { slot / 64 };
    let word = words[entry.at() - word_idx].load(Ordering::Relaxed);
    let here = (word << (!slot & 63)).count_ones();
    let before = ((bits & COUNTS) >> (24 + 8 * word_idx)) as u8;
    let run = (usize::from(before) + here as usize).wrapping_sub(1);
    let (ahead, shift) = if is_leaf { (run / 4, 16 * (run % 4)) } else { (run, 0) };
    let at = if entry.is_hop() { 0 } else { entry.at() + 1 + ahead };
    // Partner, in an inner block: the release store that publishes a child.
    let value = words[at].load(Ordering::Acquire);
    let hop = u64::from((value >> shift) as u16) << HOP_AT;
    let next = if is_leaf { hop } else { value };
    Entry(if entry.is_hop() { bits } else { next })
}
