//! One slot for the last key that a worker offered: sampling without a queue.
//!
//! ```text
//! workers ── offer ─►  EMPTY ─► BUSY ─► FULL  ◄─ take ── updater
//!                        ▲───────────────┘ last offer wins
//! ```
//! # Invariants
//! - W1: only the thread that changed the state to busy reads or writes the words, and it ends with
//!   a release store. A thread that finds the slot busy goes on without it: nobody waits, and a
//!   sample that is lost is one of many.

use super::primitives::{AtomicU32, Ordering};

const EMPTY: u32 = 0;
const BUSY: u32 = 1;
const FULL: u32 = 2;

/// A slot for one key. Threads: any number of them, each call never blocks.
#[derive(Debug)]
pub struct SampleSlot {
    /// Changed with acquire by [`SampleSlot::enter`], stored with release by its callers.
    state: AtomicU32,
    words: Box<[AtomicU32]>,
}

impl SampleSlot {
    /// An empty slot for keys of so many words.
    pub fn new(words: usize) -> Self {
        let words = (0..words).map(|_| AtomicU32::new(0)).collect();
        Self { state: AtomicU32::new(EMPTY), words }
    }

    /// Leaves a key, over one that nobody took. Returns whether it did: not if another thread is
    /// at the slot.
    ///
    /// # Panics
    /// If the key has another length: a caller bug.
    pub fn offer(&self, key: &[u32]) -> bool {
        assert_eq!(key.len(), self.words.len(), "words of a key");
        if !self.enter(FULL) && !self.enter(EMPTY) {
            return false;
        }
        for (word, &value) in self.words.iter().zip(key) {
            word.store(value, Ordering::Relaxed);
        }
        // Partner: `enter`.
        self.state.store(FULL, Ordering::Release);
        true
    }

    /// Moves the last key to `key`. Returns whether there was one.
    ///
    /// # Panics
    /// If `key` has another length: a caller bug.
    pub fn take(&self, key: &mut [u32]) -> bool {
        assert_eq!(key.len(), self.words.len(), "words of a key");
        if !self.enter(FULL) {
            return false;
        }
        for (value, word) in key.iter_mut().zip(&self.words) {
            *value = word.load(Ordering::Relaxed);
        }
        // Partner: `enter`. The loads above come before.
        self.state.store(EMPTY, Ordering::Release);
        true
    }

    /// Makes the slot busy if its state is `from`.
    fn enter(&self, from: u32) -> bool {
        // A look first: a failed exchange would take the line from the others.
        self.state.load(Ordering::Relaxed) == from
            && self.state.compare_exchange(from, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_offer_wins_and_is_taken_once() {
        let slot = SampleSlot::new(2);
        let mut key = [0; 2];
        assert!(!slot.take(&mut key));
        assert!(slot.offer(&[1, 2]));
        assert!(slot.offer(&[3, 4]));
        assert!(slot.take(&mut key));
        assert_eq!(key, [3, 4]);
        assert!(!slot.take(&mut key));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    /// Two workers offer while the updater takes: keys are whole.
    #[test]
    fn keys_are_never_torn() {
        loom::model(|| {
            let slot = Arc::new(SampleSlot::new(2));
            let workers = [1, 2].map(|n| {
                let slot = slot.clone();
                loom::thread::spawn(move || slot.offer(&[n, n]))
            });
            let mut key = [0; 2];
            let mut taken = slot.take(&mut key);
            assert!(!taken || key[0] == key[1] && key[0] != 0);
            let mut offered = false;
            for worker in workers {
                offered |= worker.join().expect("a worker");
            }
            taken |= slot.take(&mut key);
            assert_eq!(taken, offered);
            assert!(key[0] == key[1]);
        });
    }
}
