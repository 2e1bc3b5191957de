//! Longest-prefix match on a device, with routes that change while it is used.
//!
//! ```text
//! changes ─► Writer: prefixes, words ─► patch ─► the copy that no batch uses ─► published
//! addresses ─► slots ─► kernel or its twin over the published copy ─► hops, 2 bytes each
//! ```
//! The answers are those of [`RouteTable`](warpswitch_routes::RouteTable) and of the cores'
//! [`Lpm`](warpswitch_routes::Lpm), for batches of one version each. Slots, their order, deadlines
//! and what happens when a card fails are those of rules ([`crate::work`]).
//!
//! # Why not the cores' blocks
//! Theirs count bits to find a run, as what limits a core is a cache of 2 MB and its instructions.
//! A card has 50 MB of cache in front of thousands of lookups under way, and moves 32 bytes at
//! least, so plain arrays, one load a byte of the address, are the least work; only what has few
//! runs is packed, into just those 32 bytes. `docs/routes.md` has figures.

mod headers;
mod image;
mod rib;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use warpswitch_routes::{Address, NextHop, Prefix, RouteChange, RouteError};

use crate::copies::{COPIES, Copies, Idle};
use crate::device::{Device, Loaded};
use crate::engine::pass;
use crate::image::Patch;
use crate::ring::{Ring, Rings};
use crate::work::Form;
pub use headers::{HeaderImage, SLICE_BYTES, SLICE_WORDS, Slice, Verdict};
pub use image::{RouteImage, RouteWork};
use rib::Place;
use writer::Writer;

/// A group of changes that was not made whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutesRefused {
    /// So many were made, in order.
    pub made: usize,
    /// Why the next one was not.
    pub error: RouteError,
}

/// What [`LiveRoutes::stats`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteStats {
    /// Routes.
    pub routes: usize,
    /// Bytes of what lookups can reach.
    pub lookup_bytes: usize,
    /// Bytes of an image, with room for changes.
    pub image_bytes: usize,
    /// Bytes of everything: all copies, and what changes need.
    pub bytes: usize,
    /// Versions that were published.
    pub versions: usize,
    /// Those that were new copies and no patches.
    pub whole_copies: usize,
    /// Bytes of patches: the units, and where each goes.
    pub patched_bytes: usize,
}

/// Routes of one family on a device, for lookups of addresses or for other work over them. Threads:
/// any number look up, changes are put in order by a lock.
pub struct LiveRoutes<A: Address, W: RouteWork = RouteImage<A>> {
    device: Arc<Device>,
    copies: Copies<W>,
    rings: Rings<W>,
    writer: Mutex<Held<W>>,
    /// Mirrors the writer's count, so that asking does not wait for a change.
    routes: AtomicUsize,
    family: PhantomData<A>,
}

/// IPv4 routes on a device that whole headers go to.
pub type LiveHeaders = LiveRoutes<u32, HeaderImage>;

/// What whoever changes routes holds.
#[derive(Debug)]
struct Held<W: RouteWork> {
    writer: Writer,
    idle: Idle<W>,
    patch: Patch,
    versions: usize,
    whole_copies: usize,
    patched_units: usize,
}

impl<A: Address, W: RouteWork> fmt::Debug for LiveRoutes<A, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRoutes").field("routes", &self.len()).finish_non_exhaustive()
    }
}

/// Why a structure of `bytes` bytes was refused.
fn too_large(writer: &Writer, bytes: usize) -> RouteError {
    RouteError::memory_bound(bytes, writer.bytes_max())
}

impl<A: Address> LiveRoutes<A> {
    /// Lays `routes` out on `device`, in at most `bytes_max` bytes for all copies; of several of a
    /// prefix the last one counts. A card that fails, now or later, is retired, and the host
    /// answers.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryBound`](warpswitch_routes::ErrorKind::MemoryBound), and
    /// [`ErrorKind::BadNextHop`](warpswitch_routes::ErrorKind::BadNextHop) for [`NextHop::NONE`].
    pub fn build(
        device: &Arc<Device>,
        routes: impl IntoIterator<Item = (Prefix<A>, NextHop)>,
        bytes_max: usize,
    ) -> Result<Self, RouteError> {
        Self::lay_out(device, routes, bytes_max)
    }

    /// Finds the next hop of every address of a batch, all in one version.
    ///
    /// `out[i]` answers `addrs[i]`, with [`NextHop::NONE`] where no route matches; `out` behind
    /// that is untouched. Threads: any number; never waits for a change. No allocation, once each
    /// thread has had a ring of slots.
    ///
    /// # Panics
    /// If `out` is shorter than `addrs`: a caller bug.
    pub fn lookup_batch(&self, addrs: &[A], out: &mut [NextHop]) {
        assert!(out.len() >= addrs.len(), "{} answers for {}", out.len(), addrs.len());
        let out = &mut out[..addrs.len()];
        let fill = |from: usize, room: &mut [u32]| {
            let len = room.len() / RouteImage::<A>::ADDRESS_WORDS;
            RouteImage::write_addresses(&addrs[from..from + len], room);
        };
        if let Some(image) = self.pass(RouteImage::<A>::FORM, &fill, out) {
            image.image().lookup_batch(addrs, out);
        }
    }
}

impl LiveHeaders {
    /// The same as [`LiveRoutes::build`], for whole headers.
    ///
    /// # Errors
    /// As there.
    pub fn build_for_headers(
        device: &Arc<Device>,
        routes: impl IntoIterator<Item = (Prefix<u32>, NextHop)>,
        bytes_max: usize,
    ) -> Result<Self, RouteError> {
        Self::lay_out(device, routes, bytes_max)
    }

    /// Checks, routes and sends on every packet of a batch, all by one version of the routes;
    /// `out[i]` is what became of `slices[i]`. Threads and allocations: as for
    /// [`LiveRoutes::lookup_batch`].
    ///
    /// # Panics
    /// If `out` is of another length: a caller bug.
    pub fn forward_batch(&self, slices: &[Slice], out: &mut [Slice]) {
        assert_eq!(out.len(), slices.len(), "room for another number of slices");
        let fill = |from: usize, room: &mut [u32]| {
            for (words, slice) in room.as_chunks_mut().0.iter_mut().zip(&slices[from..]) {
                *words = *slice.words();
            }
        };
        if let Some(image) = self.pass(HeaderImage::FORM, &fill, out) {
            out.copy_from_slice(slices);
            out.iter_mut().for_each(|slice| image.image().forward(slice));
        }
    }
}

impl<A: Address, W: RouteWork> LiveRoutes<A, W> {
    fn lay_out(
        device: &Arc<Device>,
        routes: impl IntoIterator<Item = (Prefix<A>, NextHop)>,
        bytes_max: usize,
    ) -> Result<Self, RouteError> {
        // The model, those that the host answers from, and as many on a card.
        let copies = 1 + if device.is_card() { 2 * COPIES } else { COPIES };
        let mut writer = Writer::new(copies, bytes_max);
        for (prefix, hop) in routes {
            if !hop.is_some() {
                return Err(RouteError::no_hop());
            }
            writer.set(Place::of(prefix), Some(hop.0));
            if let Some(bytes) = writer.excess() {
                return Err(too_large(&writer, bytes));
            }
        }
        writer.lay_out();
        if let Some(bytes) = writer.excess() {
            return Err(too_large(&writer, bytes));
        }
        let mut patch = Patch::default();
        writer.patch(&mut patch);
        let image = W::new(writer.words().to_vec());
        let loaded = device.load_or_retire(Arc::new(image));
        device.prepare_patches();
        let routes = AtomicUsize::new(writer.routes());
        let (idle, versions, whole_copies) = (Idle::none(), 1, 1);
        let held = Held { writer, idle, patch, versions, whole_copies, patched_units: 0 };
        Ok(Self {
            device: device.clone(),
            copies: Copies::new(loaded),
            rings: Rings::new(),
            writer: Mutex::new(held),
            routes,
            family: PhantomData,
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

    /// The image that is current: what a batch that begins now is looked up in, for those who drive
    /// slots themselves. Hold it for one batch, not longer: the third version after waits for it.
    pub fn current(&self) -> Arc<Loaded<W>> {
        self.copies.current()
    }

    /// Passes a batch through the device; gives the image that is to answer it on this thread if
    /// the device cannot.
    fn pass(
        &self,
        form: Form,
        fill: &dyn Fn(usize, &mut [u32]),
        out: &mut [W::Answer],
    ) -> Option<Arc<Loaded<W>>> {
        let loaded = self.current();
        let through = |ring: &mut Ring<W>| pass(ring, &loaded, fill, out);
        if self.device.retired().is_none() && self.rings.with(&self.device, form, through).is_some()
        {
            return None;
        }
        Some(loaded)
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHop> {
        self.held().writer.get(Place::of(prefix)).map(NextHop)
    }

    /// Makes changes that become visible at once, when this returns.
    ///
    /// Cost: about a microsecond for each prefix longer than 16 bits, some 10 us for the group, and
    /// waiting for the batches that began three groups ago. A shorter prefix costs a block for each
    /// node below it. Threads: writers take turns; lookups go on.
    ///
    /// # Errors
    /// At the first change that is refused, for the reasons of [`LiveRoutes::build`]; those before
    /// it are made and visible.
    pub fn change(&self, changes: &[RouteChange<A>]) -> Result<(), RoutesRefused> {
        let mut held = self.held();
        let mut changes = changes.iter().enumerate();
        let made = changes.try_for_each(|(made, change)| {
            Self::make(&mut held.writer, *change).map_err(|error| RoutesRefused { made, error })
        });
        self.publish(&mut held);
        made
    }

    /// Puts a route in; see [`LiveRoutes::change`].
    ///
    /// # Errors
    /// As there.
    pub fn insert(&self, prefix: Prefix<A>, hop: NextHop) -> Result<(), RouteError> {
        let one = [RouteChange::Insert(prefix, hop)];
        self.change(&one).map_err(|refused| refused.error)
    }

    /// Takes a route out, if it is there; see [`LiveRoutes::change`].
    ///
    /// # Errors
    /// As there: blocks can become another kind.
    pub fn remove(&self, prefix: Prefix<A>) -> Result<(), RouteError> {
        self.change(&[RouteChange::Remove(prefix)]).map_err(|refused| refused.error)
    }

    /// Figures about the structure.
    pub fn stats(&self) -> RouteStats {
        let held = self.held();
        RouteStats {
            routes: held.writer.routes(),
            lookup_bytes: held.writer.bytes_live(),
            image_bytes: held.writer.words().len() * 4,
            bytes: held.writer.bytes(),
            versions: held.versions,
            whole_copies: held.whole_copies,
            patched_bytes: held.patched_units * 36,
        }
    }

    fn held(&self) -> MutexGuard<'_, Held<W>> {
        self.writer.lock().expect("a change panicked")
    }

    fn make(writer: &mut Writer, change: RouteChange<A>) -> Result<(), RouteError> {
        let (prefix, hop) = match change {
            RouteChange::Insert(_, NextHop::NONE) => return Err(RouteError::no_hop()),
            RouteChange::Insert(prefix, hop) => (prefix, Some(hop.0)),
            RouteChange::Remove(prefix) => (prefix, None),
        };
        let made = writer.change(Place::of(prefix), hop);
        made.map(|_| ()).map_err(|bytes| too_large(writer, bytes))
    }

    /// Publishes what the writer has that the published copy has not.
    fn publish(&self, held: &mut Held<W>) {
        self.routes.store(held.writer.routes(), Ordering::Relaxed);
        let (is_changed, is_anew) = held.writer.is_changed();
        if !is_changed {
            return;
        }
        held.writer.patch(&mut held.patch);
        if is_anew {
            // The idle copies are of another length.
            held.idle = Idle::none();
        } else {
            held.patched_units += held.patch.units.len();
        }
        let whole = || W::new(held.writer.words().to_vec());
        let is_new = self.copies.publish_patch(&self.device, &mut held.idle, &held.patch, whole);
        held.whole_copies += usize::from(is_new);
        held.versions += 1;
        if is_anew {
            held.idle = Idle::none();
        }
    }
}
