//! Longest-prefix match for batches of addresses, changed while it is read.
//!
//! ```text
//! address ─ first 16 bits ─► entries[65,536] ─┬─► hop
//!                                             └─► block ─ next byte ─┬─► hop
//!                                                                    └─► block ─ next byte …
//! ```
//! A full IPv4 table takes one step or two, an IPv6 table two to four. What makes it fast is that
//! it is small: a block has a value for each run of neighbours that lead to the same place, found
//! by counting bits, so the IPv4 table of the Internet is 3 MB, and most of what traffic touches of
//! it stays in the second-level cache. Where processors gather slowly, or not at all, large IPv4
//! tables have a byte for each value of the first 24 bits, too. `docs/routes.md` has the figures.
//!
//! # Invariants
//! - L1: every answer is that of [`RouteTable`] for the routes before or after a change that runs
//!   meanwhile; once a change has returned, every later lookup sees it.
//! - L2: readers never wait and allocate nothing. Writers take turns.
//! - L3: memory stays below the bound; a change that would pass it is refused and changes nothing.
//!
//! # Source
//! Counting bits to find a value goes back to Degermark, Brodnik, Carlsson, Pink, "Small Forwarding
//! Tables for Fast Routing Lookups", SIGCOMM 1997, and Asai, Ohara, "Poptrie", SIGCOMM 2015. Ours
//! steps by bytes, keeps starts and the place of their values together, shrinks with the longest
//! prefix of a block, and has hops of one or two bytes.

mod arena;
mod block;
pub(crate) mod dir24;
pub(crate) mod entry;
mod place;
mod rib;
#[cfg(test)]
mod tests;
mod writer;

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use warpswitch_packet::sync::{Epochs, LeftRight};

use crate::address::Address;
use crate::arch::Kernel;
use crate::error::RouteError;
use crate::hop::NextHop;
use crate::prefix::Prefix;
use crate::table::RouteTable;
use entry::Image;
use rib::NO_HOP;
use writer::Writer;

/// Addresses that are looked up before a reader lets go of what a writer may be waiting for.
const READ_LEN_MAX: usize = 4096;

thread_local! {
    /// Where this thread looks first for a free place among the readers.
    static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Routes from which on a table of the first 24 bits is faster than the blocks alone: with fewer,
/// these mostly lie in the second-level cache.
const DIR24_ROUTES_MIN: usize = 1 << 16;

/// How IPv4 routes lie in memory; IPv6 routes are in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LpmForm {
    /// What is faster on this machine for so many routes.
    #[default]
    Auto,
    /// Blocks: 3 to 5 MB for the routes of the Internet.
    Blocks,
    /// Blocks, and a byte for each value of the first 24 bits: 16 MB more, one load for nearly all
    /// lookups. Blocks alone while a hop is 254 or above, or if that passed half of the bound.
    Dir24,
}

impl LpmForm {
    /// Its name: `auto`, `blocks` or `dir24`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Blocks => "blocks",
            Self::Dir24 => "dir24",
        }
    }
}

/// What a table may take, how it lies in memory, and which code looks up.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LpmOptions {
    /// The most bytes that a table may take, the old and the new one of a growth not counted
    /// together.
    pub bytes_max: usize,
    /// How IPv4 routes lie in memory.
    pub form: LpmForm,
    /// Which code looks up, by the name that [`LpmStats::kernel`] has; the fastest one if that is
    /// not given, or is none of this processor's.
    pub kernel: Option<&'static str>,
}

impl Default for LpmOptions {
    fn default() -> Self {
        Self { bytes_max: 1 << 30, form: LpmForm::Auto, kernel: None }
    }
}

impl LpmOptions {
    /// The names of what may look up on this machine, the fastest first.
    pub fn kernels() -> Vec<&'static str> {
        Kernel::available().map(Kernel::name).collect()
    }

    /// From how many routes on there is a table of the first 24 bits.
    fn dir24_min(&self, kernel: Kernel) -> Option<usize> {
        match self.form {
            LpmForm::Auto => kernel.prefers_dir24().then_some(DIR24_ROUTES_MIN),
            LpmForm::Blocks => None,
            LpmForm::Dir24 => Some(0),
        }
    }

    fn kernel(&self) -> Kernel {
        let named = Kernel::available().find(|kernel| Some(kernel.name()) == self.kernel);
        named.or_else(|| Kernel::available().next()).unwrap_or(Kernel::Portable)
    }
}

/// IPv4 routes for lookups.
pub type Ipv4Lpm = Lpm<u32>;

/// IPv6 routes for lookups.
pub type Ipv6Lpm = Lpm<u128>;

/// Routes for lookups by many threads, with changes by others.
pub struct Lpm<A> {
    kernel: Kernel,
    published: LeftRight<Arc<Image>>,
    epochs: Epochs,
    writer: Mutex<Writer>,
    /// Mirrors the writer's count, so that asking does not wait for a change.
    routes: AtomicUsize,
    family: std::marker::PhantomData<A>,
}

impl<A: Address> Lpm<A> {
    /// A table with the routes of `table`.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryBound`](crate::ErrorKind::MemoryBound).
    pub fn build(table: &RouteTable<A>, options: &LpmOptions) -> Result<Self, RouteError> {
        Self::from_routes(table.iter(), options)
    }

    /// A table with `routes`; the last one of a prefix counts.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryBound`](crate::ErrorKind::MemoryBound), or
    /// [`ErrorKind::BadNextHop`](crate::ErrorKind::BadNextHop) for [`NextHop::NONE`].
    pub fn from_routes(
        routes: impl IntoIterator<Item = (Prefix<A>, NextHop)>,
        options: &LpmOptions,
    ) -> Result<Self, RouteError> {
        let kernel = options.kernel();
        let mut writer = Writer::new(options.bytes_max, A::BITS, options.dir24_min(kernel));
        for (prefix, hop) in routes {
            if !hop.is_some() {
                return Err(RouteError::no_hop());
            }
            writer.enter(prefix, hop.0)?;
        }
        writer.write_anew(0, NO_HOP, 0)?;
        let image = writer.image().clone();
        Ok(Self {
            kernel,
            published: LeftRight::new(image.clone(), image),
            epochs: Epochs::new(),
            routes: AtomicUsize::new(writer.routes()),
            writer: Mutex::new(writer),
            family: std::marker::PhantomData,
        })
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.load(Ordering::Relaxed)
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds the next hop of every address of a batch.
    ///
    /// `out[i]` answers `addrs[i]`, with [`NextHop::NONE`] where no route matches; `out` behind
    /// that is untouched. Cost: two to six cache lines an address, and some 30 ns for the batch:
    /// give it hundreds. Threads: any number of readers; never blocks, allocates nothing.
    ///
    /// # Panics
    /// If `out` is shorter than `addrs`: a caller bug, not an input.
    pub fn lookup_batch(&self, addrs: &[A], out: &mut [NextHop]) {
        assert!(out.len() >= addrs.len(), "{} answers for {}", out.len(), addrs.len());
        let place = PLACE.get().unwrap_or_else(|| {
            let place = self.epochs.place();
            PLACE.set(Some(place));
            place
        });
        for (addrs, out) in addrs.chunks(READ_LEN_MAX).zip(out.chunks_mut(READ_LEN_MAX)) {
            let image = self.published.read();
            let _pin = self.epochs.pin(place);
            A::lookup(self.kernel, &image, addrs, out);
        }
    }

    /// The next hop of one address.
    pub fn lookup(&self, addr: A) -> NextHop {
        let mut out = [NextHop::NONE];
        self.lookup_batch(&[addr], &mut out);
        out[0]
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHop> {
        self.writer().get(prefix).map(NextHop)
    }

    /// Puts a route in; the next hop that its prefix had before.
    ///
    /// Cost: under a microsecond for a prefix longer than 16 bits; a shorter one costs up to ten
    /// for each of its values of 16 bits, so a default route half a second in a large table.
    /// Threads: writers take turns; readers go on.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryBound`](crate::ErrorKind::MemoryBound), or
    /// [`ErrorKind::BadNextHop`](crate::ErrorKind::BadNextHop) for [`NextHop::NONE`].
    pub fn insert(&self, prefix: Prefix<A>, hop: NextHop) -> Result<Option<NextHop>, RouteError> {
        if !hop.is_some() {
            return Err(RouteError::no_hop());
        }
        let mut writer = self.writer();
        self.make_room(&mut writer, prefix, hop.0)?;
        let old = writer.insert(prefix, hop.0, &self.epochs);
        self.routes.store(writer.routes(), Ordering::Relaxed);
        Ok(old.map(NextHop))
    }

    /// Takes a route out; the next hop that it had, or `None` if there was no such route.
    ///
    /// Cost and threads: as for [`Lpm::insert`].
    ///
    /// # Errors
    /// [`ErrorKind::MemoryBound`](crate::ErrorKind::MemoryBound): blocks are written anew before
    /// old ones are given up, which takes room.
    pub fn remove(&self, prefix: Prefix<A>) -> Result<Option<NextHop>, RouteError> {
        let mut writer = self.writer();
        self.make_room(&mut writer, prefix, NO_HOP)?;
        let old = writer.remove(prefix, &self.epochs);
        self.routes.store(writer.routes(), Ordering::Relaxed);
        Ok(old.map(NextHop))
    }

    fn make_room(
        &self,
        writer: &mut Writer,
        prefix: Prefix<A>,
        hop: u16,
    ) -> Result<(), RouteError> {
        if writer.make_room(prefix, hop)? {
            let image = writer.image().clone();
            self.published.change_always(|side| *side = image.clone());
        }
        Ok(())
    }

    /// Figures about the structure.
    pub fn stats(&self) -> LpmStats {
        let writer = self.writer();
        LpmStats {
            routes: writer.routes(),
            blocks: writer.nodes_len(),
            lookup_bytes: writer.bytes_live(),
            bytes: writer.bytes() + self.epochs.bytes(),
            form: if writer.image().dir24.is_some() { LpmForm::Dir24 } else { LpmForm::Blocks },
            kernel: self.kernel.name(),
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("a change panicked")
    }
}

impl<A: Address> fmt::Debug for Lpm<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lpm").field("routes", &self.len()).field("kernel", &self.kernel).finish()
    }
}

/// What [`Lpm::stats`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LpmStats {
    /// Routes.
    pub routes: usize,
    /// Blocks that lookups can reach, those that are one hop with them.
    pub blocks: usize,
    /// Bytes that lookups can reach.
    pub lookup_bytes: usize,
    /// Bytes of everything: free room, and what changes need.
    pub bytes: usize,
    /// How routes lie in memory now; never [`LpmForm::Auto`], which is decided anew when a table
    /// outgrows its memory.
    pub form: LpmForm,
    /// The code that looks up: `portable`, `bits` (the same with instructions for bits), `avx512`.
    pub kernel: &'static str,
}
