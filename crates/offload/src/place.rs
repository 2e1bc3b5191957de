//! The device that a configuration's lookups are offloaded to.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use warpswitch_elements::cached::{Clock, LookupCosts};
use warpswitch_gpu::auto::policy::Policy;
use warpswitch_gpu::device::Loaded;
use warpswitch_gpu::scan::ScanImage;
use warpswitch_gpu::{Device, HostMemory};
use warpswitch_graph::Context;
use warpswitch_packet::Frames;
use warpswitch_scan::Patterns;

use super::texts::LentBytes;

/// Frames of fewer bytes are copied: their pages may have others' bytes on them, too.
const REACHED_BYTES_MIN: usize = 1 << 20;
/// The most pieces of memory that a device is given to read.
const REACHED_MAX: usize = 256;

/// Frames that the device was given to read; none if it refused.
#[derive(Debug)]
struct Reached {
    frames: Arc<Frames>,
    memory: Option<Arc<HostMemory>>,
}

impl Reached {
    /// Whether others than the device still have the frames.
    fn is_used(&self) -> bool {
        let own = 1 + usize::from(self.memory.is_some());
        Arc::strong_count(&self.frames) > own
            || self.memory.as_ref().is_some_and(|memory| Arc::strong_count(memory) > 1)
    }
}

/// What chains search for, on the device for as long as one of them does.
#[derive(Debug)]
struct Searched {
    patterns: Patterns,
    image: Weak<Loaded<ScanImage>>,
}

/// A device for the elements of a configuration, which who runs it hands to them by
/// [`warpswitch_graph::Console::device`]. Without one, or when it is retired, elements do their
/// work themselves.
#[derive(Debug)]
pub struct Offload {
    device: Arc<Device>,
    costs: Arc<LookupCosts>,
    policy: Policy,
    reached: Mutex<Vec<Reached>>,
    searched: Mutex<Vec<Searched>>,
}

impl Offload {
    /// Offloads to `device`.
    pub fn to(device: Arc<Device>) -> Arc<Self> {
        Self::new(device, None)
    }

    /// Offloads to `device` where that is cheaper, by `clock`, which tells the time since some
    /// moment that stays the same: for each wide batch of a `Batcher` that looks up for others.
    pub fn where_cheaper(device: Arc<Device>, clock: fn() -> Duration) -> Arc<Self> {
        Self::new(device, Some(clock))
    }

    fn new(device: Arc<Device>, clock: Option<Clock>) -> Arc<Self> {
        let costs = Arc::new(LookupCosts::new(clock));
        let policy = Policy::new(Vec::new(), Vec::new());
        Arc::new(Self {
            device,
            costs,
            policy,
            reached: Mutex::default(),
            searched: Mutex::default(),
        })
    }

    /// What was chosen for wide batches, and why; nothing without a choice.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What lookups cost.
    pub fn costs(&self) -> &Arc<LookupCosts> {
        &self.costs
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Frames as memory that the device reads where it is: given to it the first time, which takes
    /// 1 ms for 32 MB, and taken back when nobody else has them any more. `None` if there is little
    /// of it, the device refuses, or it has no memory of its own.
    pub(super) fn reach(&self, frames: &Arc<Frames>) -> Option<Arc<HostMemory>> {
        if !self.device.is_card() || frames.bytes().len() < REACHED_BYTES_MIN {
            return None;
        }
        // Who panicked with the lock held left a whole list.
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = reached.iter().find(|known| Arc::ptr_eq(&known.frames, frames)) {
            return known.memory.clone();
        }
        reached.retain(Reached::is_used);
        if reached.len() == REACHED_MAX {
            return None;
        }
        let memory = self.device.reach(Arc::new(LentBytes(frames.clone())));
        let memory = memory.ok().flatten().map(Arc::new);
        reached.push(Reached { frames: frames.clone(), memory: memory.clone() });
        memory
    }

    /// Patterns on the device: once for all chains that search for the same ones, so that workers
    /// share its memory and caches. Cost: that of building a search, the first time.
    pub(super) fn search_image(&self, patterns: Patterns) -> Arc<Loaded<ScanImage>> {
        // Who panicked with the lock held left a whole list.
        let mut searched = self.searched.lock().unwrap_or_else(PoisonError::into_inner);
        searched.retain(|known| known.image.strong_count() > 0);
        let same = searched.iter().find(|known| known.patterns == patterns);
        if let Some(image) = same.and_then(|known| known.image.upgrade()) {
            return image;
        }
        let image = self.device.load_or_retire(Arc::new(ScanImage::new(&patterns)));
        searched.push(Searched { patterns, image: Arc::downgrade(&image) });
        image
    }

    /// What who runs the configuration has.
    pub(crate) fn of(cx: &mut Context<'_>) -> Option<Arc<Self>> {
        cx.console().device()?.downcast().ok()
    }

    /// Whether the device takes work.
    pub(crate) fn is_ready(&self) -> bool {
        self.device.retired().is_none()
    }
}
