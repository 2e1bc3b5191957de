//! A thread in the kernel's place: the same memory, tags and answers, so that everything around it
//! runs, and is tested, without a card. It is also what the kernel does, in Rust.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use warpswitch_rules::{KeyBatch, RuleId, Schema};

use super::layout::{LANES, Layout, TAG_NUMBER, TAG_RELOAD, next_number};
use crate::device::Loaded;

/// Rounds over all chunks in vain after which the thread lets others run between them.
const HOT_ROUNDS: usize = 64;
/// Rounds after which it sleeps.
const WARM_ROUNDS: usize = 512;
/// How long.
const SLEEP: Duration = Duration::from_micros(50);

/// The memory, and what a card finds through the address in a head.
#[derive(Debug)]
pub(super) struct HostMemory {
    pub(super) words: Box<[AtomicU64]>,
    heads: Vec<Mutex<Option<Arc<Loaded>>>>,
    is_running: AtomicBool,
}

impl HostMemory {
    pub(super) fn new(layout: &Layout) -> Arc<Self> {
        Arc::new(Self {
            words: (0..layout.len()).map(|_| AtomicU64::new(0)).collect(),
            heads: (0..layout.frames).map(|_| Mutex::default()).collect(),
            is_running: AtomicBool::new(false),
        })
    }

    fn head(&self, frame: usize) -> MutexGuard<'_, Option<Arc<Loaded>>> {
        self.heads[frame].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names the image of a frame, or lets go of it: whoever changes an image in place has to be
    /// its only holder.
    pub(super) fn put_head(&self, frame: usize, loaded: Option<&Arc<Loaded>>) {
        *self.head(frame) = loaded.cloned();
    }

    pub(super) fn is_running(&self) -> bool {
        // Pairs with the release when the thread leaves.
        self.is_running.load(Ordering::Acquire)
    }

    pub(super) fn set_running(&self) {
        self.is_running.store(true, Ordering::Release);
    }
}

/// What a warp keeps from one frame to the next.
struct Warp {
    seen: u32,
    /// The serial number of the image that the head named when it was read last.
    view: Option<u64>,
}

/// Tells that the thread has left, however it did.
struct Leaving<'a>(&'a AtomicBool);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Answers frames until it is told to leave, or no beat came for `idle`.
pub(super) fn serve(memory: &HostMemory, layout: &Layout, schema: &'static Schema, idle: Duration) {
    let _leaving = Leaving(&memory.is_running);
    let words = &memory.words;
    let start = |warp| Warp { seen: layout.seen(words, warp), view: None };
    let mut warps: Vec<Warp> = (0..layout.warps()).map(start).collect();
    let mut keys = vec![0; LANES * layout.key_words];
    let mut answers = [RuleId::NONE; LANES];
    let (mut in_vain, mut beats, mut slept) = (0, 0, Duration::ZERO);
    while let Some(beat) = layout.beats(words).filter(|_| slept < idle) {
        let mut is_idle = true;
        for (warp, state) in warps.iter_mut().enumerate() {
            // As the kernel: no other frame than the next one.
            if layout.first_tag(words, warp) & TAG_NUMBER != next_number(state.seen) {
                continue;
            }
            let Some(tag) = layout.chunk(words, warp, &mut keys) else { continue };
            let head = memory.head(warp / layout.chunks);
            // Nobody waits for a frame without one: the host answered it.
            let Some(named) = head.as_ref() else { continue };
            if tag & TAG_RELOAD != 0 || state.view.is_none() {
                state.view = Some(named.serial());
            }
            // A kernel would go on with the former image.
            assert_eq!(state.view, Some(named.serial()), "the tag said nothing of a new image");
            named.image().classify(KeyBatch::new(schema, &keys), &mut answers);
            drop(head);
            state.seen = tag & TAG_NUMBER;
            layout.put_answers(words, warp, &answers, state.seen);
            is_idle = false;
        }
        if !is_idle || beat != beats {
            (in_vain, beats, slept) = (0, beat, Duration::ZERO);
            continue;
        }
        in_vain += 1;
        match in_vain {
            ..HOT_ROUNDS => std::hint::spin_loop(),
            HOT_ROUNDS..WARM_ROUNDS => thread::yield_now(),
            _ => {
                thread::sleep(SLEEP);
                slept += SLEEP;
            }
        }
    }
}
