//! An image on a device in three copies, so that what a batch sees never changes.
//!
//! ```text
//!                    ┌─► copy A: version v, published ◄─ batches
//! changes ─► model ──┼   copy B: version v-1, its last batches end
//!                    └─► copy C: version v-2 ─ no batch in it ─ patch ─► v+1, published
//! ```
//! A writer changes a model of its own. When a group of changes is done, the copy that was
//! published longest ago gets a patch and is published, once the last batch that began on it has
//! ended. So a batch sees one version, readers never wait, and the writer waits for batches that
//! began three groups ago at most.
//!
//! # Why three copies
//! A patch that is written between batches of one copy would have to hold up all streams of a card:
//! they overlap, and are never at rest together. With two copies nothing is held up, but between
//! two publications lies the time of a batch from its start to its end; with three there are two of
//! them. The price is memory (three images on the card, four on the host, one of them the model),
//! that each unit is sent three times, and that the card's cache has to load what is looked up
//! often once more after a publication: for an image of 10 MB 3 us of its memory's time.
//! Publications come as fast as batches end, some thousands a second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use warpswitch_packet::sync::LeftRight;

use crate::device::{Device, Loaded};
use crate::image::Patch;
use crate::work::{PatchWork, Work};

/// Copies of an image whose rules or routes change; the first changes make those behind the first.
pub const COPIES: usize = 3;

/// Looks at whether the last batch has left a copy, before a new copy is made instead: some 20 ms.
const LOOKS_MAX: usize = 450;
/// Looks at whether the batches of the version before have ended, too: some 20 us, so that patches
/// do not hold up short batches more than is gained.
const LOOKS_APART: usize = 60;
/// Looks that only let other threads run, before it sleeps between them.
const LOOKS_AWAKE: usize = 200;
/// Between two looks then.
const LOOK_SLEEP: Duration = Duration::from_micros(20);

/// The copy that is published.
#[derive(Debug)]
pub(crate) struct Copies<W: Work> {
    published: LeftRight<Arc<Loaded<W>>>,
}

/// The writer's: the copies that are not published, the oldest version first, each one version
/// behind the next.
#[derive(Debug)]
pub(crate) struct Idle<W: Work>(VecDeque<Arc<Loaded<W>>>);

impl<W: Work> Idle<W> {
    /// None: the next versions are new copies.
    pub(crate) fn none() -> Self {
        Self(VecDeque::with_capacity(COPIES))
    }
}

impl<W: PatchWork> Copies<W> {
    pub(crate) fn new(loaded: Arc<Loaded<W>>) -> Self {
        Self { published: LeftRight::new(loaded.clone(), loaded) }
    }

    /// What a batch that begins now is looked up in.
    pub(crate) fn current(&self) -> Arc<Loaded<W>> {
        self.published.read().clone()
    }

    /// Publishes a copy; the former one is idle then.
    pub(crate) fn publish(&self, idle: &mut Idle<W>, loaded: Arc<Loaded<W>>) {
        idle.0.push_back(self.current());
        self.published.change_always(|side| *side = loaded.clone());
    }

    /// Publishes the version that `patch` makes of the oldest idle copy; where that cannot be had,
    /// or there are fewer copies yet than there may be, a new copy, `whole`. Tells whether it was a
    /// new one.
    pub(crate) fn publish_patch(
        &self,
        device: &Device,
        idle: &mut Idle<W>,
        patch: &Patch,
        whole: impl FnOnce() -> W,
    ) -> bool {
        let oldest = if idle.0.len() == COPIES - 1 { idle.0.pop_front() } else { None };
        let patched = oldest.and_then(|mut copy| {
            wait_until_alone(&mut copy, LOOKS_MAX).then_some(())?;
            idle.0.back_mut().map(|newer| wait_until_alone(newer, LOOKS_APART));
            let loaded = Arc::get_mut(&mut copy)?;
            device.patch(loaded, patch).then_some(copy)
        });
        let is_new = patched.is_none();
        let loaded = patched.unwrap_or_else(|| device.load_or_retire(Arc::new(whole())));
        self.publish(idle, loaded);
        is_new
    }
}

/// Waits until nobody else holds a copy that is not published any more, for so many looks; tells
/// whether that came.
fn wait_until_alone<W: Work>(loaded: &mut Arc<Loaded<W>>, looks: usize) -> bool {
    for look in 0..looks {
        // New holders do not come: what is not published cannot be had.
        if Arc::get_mut(loaded).is_some() {
            return true;
        }
        if look < LOOKS_AWAKE {
            thread::yield_now();
        } else {
            thread::sleep(LOOK_SLEEP);
        }
    }
    false
}
