//! What travels with a wide batch: its keys and answers, and where they are.
//!
//! A load is one of a few that a `Batcher` made for its chain of elements. It goes from element to
//! element with the packets and back to the `Batcher` in the end, so their number bounds what is
//! under way, and memory.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use warpswitch_elements::cached::Clock;
use warpswitch_gpu::Chain;
use warpswitch_gpu::auto::policy::Choice;
use warpswitch_packet::{Batch, CACHED_RESULTS, CachedResult};

use super::place::Offload;
use super::slices::{Family, Slice};
use super::texts::BatchTexts;

/// Who looked something up, and where the answers are.
#[derive(Clone, Debug)]
pub struct Step {
    /// The element.
    pub(crate) element: usize,
    /// Its answers, words of the chain's.
    pub(crate) answers: Range<usize>,
    /// The version of the table that it read.
    pub(crate) version: u32,
    /// The destination annotations that it is about, if it is about these.
    pub(crate) destinations: Option<Family>,
    /// Whether it is about the paint annotation, too.
    pub(crate) sees_paints: bool,
}

impl Step {
    /// One that has no answers yet.
    pub(crate) fn new(element: usize) -> Self {
        Self { element, answers: 0..0, version: 0, destinations: None, sees_paints: false }
    }
}

/// What travels with a wide batch.
#[derive(Debug)]
pub struct Load {
    /// None if the batch passes by the device.
    pub(crate) chain: Option<Chain>,
    /// Whether it is a batch as it came, for which no element of the chain has anything to do.
    pub(crate) is_passing: bool,
    /// Where each slice's column begins.
    pub(crate) columns: Vec<(Slice, usize)>,
    /// Payloads that are searched on the way; none where no element asks for them.
    pub(crate) texts: Option<BatchTexts>,
    /// Words that are sent off.
    pub(crate) words: usize,
    /// Packets that have no key, by slice and place.
    pub(crate) keyless: Vec<(Slice, usize)>,
    pub(crate) steps: Vec<Step>,
    /// Packets of each batch that came, in order.
    pub(crate) lens: Vec<usize>,
    /// Bytes of packets whose batches were not deferred when they came.
    pub(crate) packet_lens: Vec<u32>,
    /// Results that go on with the packets.
    pub(crate) results: Vec<[CachedResult; CACHED_RESULTS]>,
    /// What keys of frames were made from, by packet, if there are results that go on.
    pub(crate) frame_keys: Vec<Option<u32>>,
    /// Where in a packet's buffer the destination of its IPv6 header was read, 0 if nowhere; if
    /// there are results that go on.
    pub(crate) places: Vec<u32>,
    /// Destinations before any member of the chain changed them, of a batch that passes by the
    /// device; else slices have them.
    pub(crate) destinations: Vec<u32>,
    /// The same of IPv6.
    pub(crate) destinations6: Vec<u128>,
    /// Paints, the same, if a member may see what one before it changed.
    pub(crate) paints: Vec<u8>,
    /// Why the device was taken, and what that has cost the worker so far; none without a choice.
    pub(crate) choice: Option<Choice>,
    pub(crate) began: Duration,
    pub(crate) cost: Duration,
    pub(crate) home: Arc<Home>,
}

impl Load {
    /// One that passes by the device, or the room of one that does not.
    pub(crate) fn new(home: &Arc<Home>, chain: Option<Chain>) -> Self {
        Self {
            chain,
            is_passing: false,
            columns: Vec::new(),
            texts: None,
            words: 0,
            keyless: Vec::new(),
            steps: Vec::new(),
            lens: Vec::new(),
            packet_lens: Vec::new(),
            results: Vec::new(),
            frame_keys: Vec::new(),
            places: Vec::new(),
            destinations: Vec::new(),
            destinations6: Vec::new(),
            paints: Vec::new(),
            choice: None,
            began: Duration::ZERO,
            cost: Duration::ZERO,
            home: home.clone(),
        }
    }

    /// The load of a wide batch; none if it is an ordinary one.
    pub(crate) fn of(batch: &mut Batch) -> Option<&mut Self> {
        batch.attachment_mut()?.downcast_mut()
    }

    /// Takes it off a wide batch.
    pub(crate) fn take(batch: &mut Batch) -> Option<Box<Self>> {
        batch.detach()?.downcast().ok()
    }

    /// Where a slice's column begins.
    pub(crate) fn column(&self, slice: Slice) -> Option<usize> {
        self.columns.iter().find(|(known, _)| *known == slice).map(|&(_, at)| at)
    }

    /// Forgets the batch that it was for.
    pub(crate) fn clear(&mut self) {
        self.columns.clear();
        self.keyless.clear();
        self.steps.clear();
        self.lens.clear();
        self.packet_lens.clear();
        self.results.clear();
        self.frame_keys.clear();
        self.places.clear();
        self.destinations.clear();
        self.destinations6.clear();
        self.paints.clear();
        (self.words, self.choice, self.is_passing) = (0, None, false);
        self.cost = Duration::ZERO;
    }
}

/// Loads without a chain that are kept: a few are on their way at a time.
const WITHOUT_MAX: usize = 16;

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    // Who panicked with the lock held left a whole list.
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the elements of a chain share: where loads go when they are done with.
#[derive(Debug, Default)]
pub(crate) struct Home {
    /// Who chooses the way of wide batches, if anybody does.
    chooser: OnceLock<Arc<Offload>>,
    #[expect(clippy::vec_box, reason = "loads travel in boxes, and come back in them")]
    free: Mutex<Vec<Box<Load>>>,
    /// Loads without a chain, to be used again.
    #[expect(clippy::vec_box, reason = "as above")]
    without: Mutex<Vec<Box<Load>>>,
    /// Packets that left the chain so far.
    left: AtomicU64,
    /// Whether packets of the chain wait for queues behind it, and none has left for long.
    is_stuck: AtomicBool,
}

impl Home {
    /// A load that is not in use.
    pub(crate) fn get(&self) -> Option<Box<Load>> {
        lock(&self.free).pop()
    }

    /// A load for a batch that passes by the device.
    pub(crate) fn get_without(self: &Arc<Self>) -> Box<Load> {
        let used = lock(&self.without).pop();
        used.unwrap_or_else(|| Box::new(Load::new(self, None)))
    }

    /// Puts one back.
    pub(crate) fn put(&self, mut load: Box<Load>) {
        load.clear();
        if load.chain.is_some() {
            return lock(&self.free).push(load);
        }
        let mut without = lock(&self.without);
        if without.len() < WITHOUT_MAX {
            without.push(load);
        }
    }

    /// Has the way of wide batches be chosen.
    pub(crate) fn choose_by(&self, offload: &Arc<Offload>) {
        _ = self.chooser.set(offload.clone());
    }

    /// Who chooses, and a clock.
    pub(crate) fn chooser(&self) -> Option<(&Offload, Clock)> {
        let offload = self.chooser.get()?;
        Some((offload, offload.costs().clock()?))
    }

    /// Counts packets that leave the chain.
    pub(crate) fn count_left(&self, packets: u64) {
        self.left.fetch_add(packets, Ordering::Relaxed);
    }

    /// Says whether packets wait behind the chain, and have done so for long.
    pub(crate) fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Ordering::Relaxed);
    }

    /// Whether they do.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    /// Packets that left the chain so far.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }
}
