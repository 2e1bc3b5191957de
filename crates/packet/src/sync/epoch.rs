//! When may memory that readers might still look at be used again?
//!
//! A reader *pins* the current epoch while it follows references. A writer that has made a block
//! unreachable tags it with [`Epochs::now`]; once [`Epochs::advance`] tells that every pinned epoch
//! is later than the tag, no reader can hold the block.
//!
//! # Invariants
//! - E1: a slot is taken before its reader loads any reference, and freed after its last one, with
//!   a sequentially consistent exchange and a release store.
//! - E2: a reader whose epoch is later than a block's tag loaded `now` after the writer advanced
//!   it, hence after the block was made unreachable: it cannot find it. A reader that took its
//!   slot late but loaded `now` early holds blocks back longer than needed, never shorter.
//!
//! Nothing here owns or frees memory; it only answers the question, so there is no `unsafe`.

use super::primitives::{AtomicU64, AtomicUsize, Ordering, fence, pause};

/// Readers at one time; a further one waits until a slot is free.
const SLOTS: usize = if cfg!(loom) { 2 } else { 128 };

/// A slot that no reader holds.
const FREE: u64 = 0;

/// The epochs that readers have pinned.
#[derive(Debug)]
pub struct Epochs {
    /// Starts at 1 and never goes back. Stored by [`Epochs::advance`], loaded by [`Epochs::pin`].
    now: AtomicU64,
    slots: Box<[Slot]>,
    /// Where the next reader starts to look for a slot.
    hint: AtomicUsize,
}

/// A reader's epoch, or [`FREE`]; alone on its cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(AtomicU64);

/// A reader's hold on an epoch.
#[derive(Debug)]
pub struct Pin<'a> {
    slot: &'a Slot,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        // Partner: the scan in `oldest`. All loads under the pin come before.
        self.slot.0.store(FREE, Ordering::Release);
    }
}

impl Default for Epochs {
    fn default() -> Self {
        Self::new()
    }
}

impl Epochs {
    /// No reader, epoch 1.
    pub fn new() -> Self {
        let slots = (0..SLOTS).map(|_| Slot(AtomicU64::new(FREE))).collect();
        Self { now: AtomicU64::new(1), slots, hint: AtomicUsize::new(0) }
    }

    /// A place to start from, for a thread that will pin often: threads with different places do
    /// not meet.
    pub fn place(&self) -> usize {
        self.hint.fetch_add(1, Ordering::Relaxed)
    }

    /// Holds the current epoch until the pin is dropped; looks for a slot from `place` on.
    ///
    /// Cost: one atomic exchange. Threads: waits only while all 128 slots are taken.
    pub fn pin(&self, place: usize) -> Pin<'_> {
        loop {
            for step in 0..self.slots.len() {
                let slot = &self.slots[(place.wrapping_add(step)) % self.slots.len()];
                let now = self.now.load(Ordering::SeqCst);
                let taken = slot.0.compare_exchange(FREE, now, Ordering::SeqCst, Ordering::Relaxed);
                if taken.is_ok() {
                    // No load of a reference may come before the slot is seen taken.
                    fence(Ordering::SeqCst);
                    return Pin { slot };
                }
            }
            pause();
        }
    }

    /// The tag for blocks that become unreachable now.
    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Starts the next epoch and tells the oldest one pinned: blocks with a smaller tag are
    /// nobody's. `u64::MAX` if there is no reader.
    ///
    /// Cost: a scan of the slots; for one writer at a time.
    pub fn advance(&self) -> u64 {
        // What was made unreachable before comes before the new epoch, and before the scan.
        fence(Ordering::SeqCst);
        self.now.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let pinned = self.slots.iter().map(|slot| slot.0.load(Ordering::SeqCst));
        pinned.filter(|&epoch| epoch != FREE).min().unwrap_or(u64::MAX)
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.slots.len() * size_of::<Slot>()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_back_what_was_retired_under_it() {
        let epochs = Epochs::new();
        let tag = epochs.now();
        assert!(epochs.advance() > tag, "no reader");
        let tag = epochs.now();
        let pin = epochs.pin(0);
        assert!(epochs.advance() <= tag);
        let later = epochs.pin(0);
        drop(pin);
        assert!(epochs.advance() > tag, "the later reader cannot have found it");
        drop(later);
        assert_eq!(epochs.advance(), u64::MAX);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    /// A reader follows a reference to one of two blocks; the writer swaps the reference and writes
    /// into the old block as soon as `advance` allows. The reader must never see that write.
    #[test]
    fn a_block_is_used_again_only_after_its_readers_left() {
        loom::model(|| {
            let epochs = Arc::new(Epochs::new());
            let reference = Arc::new(AtomicUsize::new(0));
            let blocks = Arc::new([AtomicUsize::new(10), AtomicUsize::new(11)]);
            let reader = {
                let (epochs, reference, blocks) =
                    (epochs.clone(), reference.clone(), blocks.clone());
                loom::thread::spawn(move || {
                    let _pin = epochs.pin(0);
                    let at = reference.load(Ordering::Acquire);
                    assert_ne!(blocks[at].load(Ordering::Relaxed), 99);
                })
            };
            reference.store(1, Ordering::Release);
            let tag = epochs.now();
            if epochs.advance() > tag {
                blocks[0].store(99, Ordering::Relaxed);
            }
            reader.join().expect("the reader");
        });
    }
}
