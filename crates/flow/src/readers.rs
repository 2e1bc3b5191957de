//! State of the threads that look up, on cache lines of their own: no lookup waits for a line that
//! another thread writes to.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Threads with lines of their own. Further threads share as many other lines.
const OWNERS: usize = 32;

/// Alone on its cache lines (two, for cores that fetch pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// The state of one thread. Threads that share it only disturb each other's pace, and accesses hand
/// nothing over, so all are relaxed.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Whether several threads may use it.
    is_shared: bool,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Keys since the last sample.
    pub(crate) since: AtomicUsize,
    /// Batches that still bypass the cache.
    pub(crate) bypass: AtomicUsize,
    /// The last number of them.
    pub(crate) bypass_len: AtomicUsize,
    /// Whether nearly all keys of the last batch hit.
    pub(crate) is_hitting: AtomicBool,
    /// Mean share of hits of the batches before, and whether less than half of it hits now.
    pub(crate) hits_mean: AtomicUsize,
    pub(crate) is_shifted: AtomicBool,
    /// Batches until the next one that the gate times.
    untimed: AtomicUsize,
}

impl Reader {
    /// Counts keys.
    pub(crate) fn count(&self, hits: usize, misses: usize) {
        self.add(&self.hits, hits);
        self.count_misses(misses);
    }

    /// Counts keys that miss.
    pub(crate) fn count_misses(&self, misses: usize) {
        self.add(&self.misses, misses);
    }

    fn add(&self, count: &AtomicU64, more: usize) {
        if self.is_shared {
            count.fetch_add(more as u64, Ordering::Relaxed);
        } else {
            // An atomic addition costs as much as some lookups.
            count.store(count.load(Ordering::Relaxed) + more as u64, Ordering::Relaxed);
        }
    }

    /// Whether the next batch passes without the gate; else it is for [`Reader::is_timed`].
    pub(crate) fn passes_untimed(&self) -> bool {
        let left = self.untimed.load(Ordering::Relaxed);
        if left > 0 {
            self.untimed.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    /// Whether the gate times the next batch; one in `every`.
    pub(crate) fn is_timed(&self, every: usize) -> bool {
        let left = self.untimed.load(Ordering::Relaxed);
        // The path may have changed to one that is timed more often.
        let next = if left == 0 { every } else { left.min(every) };
        self.untimed.store(next - 1, Ordering::Relaxed);
        left == 0
    }

    /// The gate times the next batch as well.
    pub(crate) fn time_next(&self) {
        self.untimed.store(0, Ordering::Relaxed);
    }

    /// Whether the next batch bypasses the cache.
    pub(crate) fn bypasses(&self) -> bool {
        let left = self.bypass.load(Ordering::Relaxed);
        if left > 0 {
            self.bypass.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}

/// The state of all threads: lines of the first threads, then lines that others share.
#[derive(Debug)]
pub(crate) struct Readers([Padded<Reader>; 2 * OWNERS]);

/// The number of the calling thread, from 0 on, which no other thread of the process has or gets.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Without an initializer that runs: each lookup reads it several times.
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    match NUMBER.get() {
        usize::MAX => {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            NUMBER.set(number);
            number
        }
        number => number,
    }
}

impl Default for Readers {
    fn default() -> Self {
        let reader = |at| Reader { is_shared: at >= OWNERS, ..Reader::default() };
        Self(std::array::from_fn(|at| Padded(reader(at))))
    }
}

impl Readers {
    /// That of the calling thread.
    pub(crate) fn own(&self) -> &Reader {
        let number = thread_number();
        let at = if number < OWNERS { number } else { OWNERS + number % OWNERS };
        &self.0[at].0
    }

    /// Hits and misses of all threads.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.0.iter().fold((0, 0), |(hits, misses), Padded(reader)| {
            let (more_hits, more_misses) = (&reader.hits, &reader.misses);
            let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
            (hits + load(more_hits), misses + load(more_misses))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn lines_of_several_threads_lose_no_count() {
        const TIMES: u64 = 200_000;
        let readers = Readers::default();
        let shared = &readers.0[OWNERS].0;
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..TIMES).for_each(|_| shared.count(1, 2)));
            }
        });
        assert_eq!(readers.counts(), (4 * TIMES, 8 * TIMES));
    }

    #[test]
    fn later_threads_get_shared_lines() {
        let readers = Readers::default();
        for _ in 0..2 * OWNERS {
            let check = || (thread_number() >= OWNERS, readers.own().is_shared);
            let (is_late, is_shared) = thread::scope(|scope| scope.spawn(check).join().unwrap());
            assert_eq!(is_late, is_shared);
        }
    }
}
