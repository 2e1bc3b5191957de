//! The device of a configuration: shared state of all chains that offload to it.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use warpswitch_elements_support::cached::{Clock, LookupCosts};
use warpswitch_gpu::auto::policy::Policy;
use warpswitch_gpu::device::Loaded;
use warpswitch_gpu::scan::ScanImage;
use warpswitch_gpu::{Device, HostMemory};
use warpswitch_graph::Context;
use warpswitch_kit::OffloadDevice;
use warpswitch_packet::Frames;
use warpswitch_scan::Patterns;

use super::texts::LentBytes;

/// Smaller frame buffers are copied: their pages may hold other data, too.
const REACHED_BYTES_MIN: usize = 1 << 20;
/// Limit of buffers mapped for a device.
const REACHED_MAX: usize = 256;

/// A frame buffer mapped for the device; `memory` is `None` if the mapping failed.
#[derive(Debug)]
struct Reached {
    frames: Arc<Frames>,
    memory: Option<Arc<HostMemory>>,
}

impl Reached {
    /// Whether the frames are referenced elsewhere.
    fn is_used(&self) -> bool {
        let own = 1 + usize::from(self.memory.is_some());
        Arc::strong_count(&self.frames) > own
            || self.memory.as_ref().is_some_and(|memory| Arc::strong_count(memory) > 1)
    }
}

/// Patterns on the device, shared by the chains that search for them.
#[derive(Debug)]
struct Searched {
    patterns: Patterns,
    image: Weak<Loaded<ScanImage>>,
}

/// A device for the elements of a configuration. The host of the run passes it to them by
/// [`warpswitch_graph::Console::device`]. Without one, or when it is retired, workers do the
/// lookups.
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

    /// Offloads to `device` where that is cheaper. Decides for each wide batch of chains whose
    /// members all have `FOR`. `clock` returns the time since a fixed moment.
    pub fn where_cheaper(device: Arc<Device>, clock: fn() -> Duration) -> Arc<Self> {
        Self::new(device, Some(clock))
    }

    pub(crate) fn new(device: Arc<Device>, clock: Option<Clock>) -> Arc<Self> {
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

    /// The policy, with counts of its choices; empty unless created by [`Offload::where_cheaper`].
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Measured costs of lookups.
    pub fn costs(&self) -> &Arc<LookupCosts> {
        &self.costs
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Maps frames for in-place reads of the device. Cost of the first call: 1 ms for 32 MB.
    /// Unmapped once nothing else references the frames. `None` if the buffer is small, the device
    /// rejects it, or the device has no memory of its own.
    pub(super) fn reach(&self, frames: &Arc<Frames>) -> Option<Arc<HostMemory>> {
        if !self.device.is_card() || frames.bytes().len() < REACHED_BYTES_MIN {
            return None;
        }
        // A panic cannot leave the list inconsistent.
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

    /// The image of `patterns` on the device, shared by all chains that search for the same ones.
    /// Cost of the first call: building the image.
    pub(super) fn search_image(&self, patterns: Patterns) -> Arc<Loaded<ScanImage>> {
        // A panic cannot leave the list inconsistent.
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

    /// The device of the run; `None` without one.
    pub(crate) fn of(cx: &mut Context<'_>) -> Option<Arc<Self>> {
        cx.console().device()?.downcast().ok()
    }

    /// Whether the device accepts work.
    pub(crate) fn is_ready(&self) -> bool {
        self.device.retired().is_none()
    }
}

impl OffloadDevice for Offload {
    fn device(&self) -> &Arc<Device> {
        &self.device
    }

    fn policy(&self) -> &Policy {
        &self.policy
    }
}
