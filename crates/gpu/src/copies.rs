//! An image on a device in two copies, so that what a batch sees never changes.
//!
//! ```text
//!                    ┌─► copy A: version v, published ◄─ batches
//! changes ─► model ──┤
//!                    └─► copy B: version v-1 ─ no batch left in it ─ patch ─► v+1, published
//! ```
//! A writer changes a model of its own. When a group of changes is done, the copy that is not
//! published gets a patch and is published; the other one is the next to be patched, once the last
//! batch that began on it has ended. So a batch sees one version, readers never wait, and the
//! writer waits for batches that began two groups ago at most.
//!
//! # Why two copies
//! A patch that is written between batches of one copy would have to hold up all streams of a card:
//! they overlap, and are never at rest together. With two copies nothing is held up. The price is
//! memory (two images on the card, three on the host, one of them the model) and that the card's
//! cache has to load what is looked up often once more after a publication: for an image of 10 MB
//! 3 us of its memory's time. Publications come as fast as batches end, some thousands a second.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use warpswitch_packet::sync::LeftRight;

use crate::device::{Device, Loaded};
use crate::image::Patch;
use crate::work::Work;

/// Looks at whether the last batch has left a copy, before a new copy is made instead: some 20 ms.
const LOOKS_MAX: usize = 400;
/// Looks that only let other threads run, before it sleeps between them.
const LOOKS_AWAKE: usize = 200;
/// Between two looks then.
const LOOK_SLEEP: Duration = Duration::from_micros(100);

/// The copy that is published.
#[derive(Debug)]
pub(crate) struct Copies<W: Work> {
    published: LeftRight<Arc<Loaded<W>>>,
}

/// The writer's: the copy that is not published, one version behind the one that is.
#[derive(Debug)]
pub(crate) struct Idle<W: Work>(Option<Arc<Loaded<W>>>);

impl<W: Work> Idle<W> {
    /// None: the next version is a new copy.
    pub(crate) fn none() -> Self {
        Self(None)
    }
}

impl<W: Work> Copies<W> {
    pub(crate) fn new(loaded: Arc<Loaded<W>>) -> Self {
        Self { published: LeftRight::new(loaded.clone(), loaded) }
    }

    /// What a batch that begins now is looked up in.
    pub(crate) fn current(&self) -> Arc<Loaded<W>> {
        self.published.read().clone()
    }

    /// Publishes a copy; the former one is idle then.
    pub(crate) fn publish(&self, idle: &mut Idle<W>, loaded: Arc<Loaded<W>>) {
        idle.0 = Some(self.current());
        self.published.change_always(|side| *side = loaded.clone());
    }

    /// Publishes the version that `patch` makes of the idle copy; where that cannot be had, a new
    /// copy, `whole`. Tells whether it was a new one.
    pub(crate) fn publish_patch(
        &self,
        device: &Device,
        idle: &mut Idle<W>,
        patch: &Patch,
        whole: impl FnOnce() -> W,
    ) -> bool {
        let patched = idle.0.take().and_then(|mut copy| {
            wait_until_alone(&mut copy).then_some(())?;
            let loaded = Arc::get_mut(&mut copy)?;
            device.patch(loaded, patch).then_some(copy)
        });
        let is_new = patched.is_none();
        let loaded = patched.unwrap_or_else(|| device.load_or_retire(Arc::new(whole())));
        self.publish(idle, loaded);
        is_new
    }
}

/// Waits until nobody else holds a copy that is not published any more; tells whether that came.
fn wait_until_alone<W: Work>(loaded: &mut Arc<Loaded<W>>) -> bool {
    for look in 0..LOOKS_MAX {
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
