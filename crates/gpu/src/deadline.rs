//! Deadlines: when a batch that is not answered counts as hung.
//!
//! A batch should take what batches of its kernel took before, a key, times the keys that are
//! under way on the device with it, and not less than the slowest of them took: few keys that do
//! not fill a card take as long as many that do. It is late after twice that and the slack. The
//! first batches, of which nothing is known, have a second.
//!
//! Time is handed in: nothing here has a clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::kernels::Kernel;

/// What a batch may take of which nothing is known, and a call that is no lookup.
const FIRST: Duration = Duration::from_secs(1);

/// When a batch is late.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// Beyond what it should take.
    pub slack: Duration,
    /// The time since some moment that stays the same.
    pub now: fn() -> Duration,
}

impl Deadline {
    /// The slack that commands use: a driver's hiccups are shorter, and no packet waits longer
    /// before the host takes over.
    pub const SLACK: Duration = Duration::from_millis(10);
}

/// A batch that is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    at: Duration,
    due: Duration,
    /// Its keys, and those that were under way with it.
    keys: u64,
    all_keys: u64,
}

/// What a device's batches take, and which are under way.
///
/// Threads: any. Numbers are hints about speed; nothing is handed over with them, so their order
/// does not matter.
#[derive(Debug)]
pub(crate) struct Watch {
    deadline: Deadline,
    under_way: AtomicU64,
    /// Picoseconds a key by kernel, 0 for unknown: the slowest of late, slowly forgotten.
    per_key_ps: [AtomicU64; Kernel::COUNT],
    /// Nanoseconds a batch, likewise.
    batch_ns: [AtomicU64; Kernel::COUNT],
}

impl Watch {
    pub(crate) fn new(deadline: Deadline) -> Self {
        Self {
            deadline,
            under_way: AtomicU64::new(0),
            per_key_ps: Default::default(),
            batch_ns: Default::default(),
        }
    }

    fn per_key(&self, kernel: Kernel) -> &AtomicU64 {
        &self.per_key_ps[kernel.index()]
    }

    /// A batch of `len` keys begins.
    pub(crate) fn begin(&self, kernel: Kernel, len: usize) -> Begun {
        let keys = len as u64;
        let all_keys = self.under_way.fetch_add(keys, Ordering::Relaxed) + keys;
        let at = (self.deadline.now)();
        let expected = match self.per_key(kernel).load(Ordering::Relaxed) {
            0 => FIRST,
            per_key => {
                let batch = self.batch_ns[kernel.index()].load(Ordering::Relaxed);
                Duration::from_nanos(2 * batch.max(per_key * all_keys / 1000))
            }
        };
        Begun { at, due: at + expected + self.deadline.slack, keys, all_keys }
    }

    /// It was answered.
    pub(crate) fn end(&self, kernel: Kernel, begun: Begun) {
        self.under_way.fetch_sub(begun.keys, Ordering::Relaxed);
        let took = (self.deadline.now)().saturating_sub(begun.at).as_nanos() as u64;
        let note = |slowest: &AtomicU64, measured: u64| {
            let former = slowest.load(Ordering::Relaxed);
            slowest.store(measured.max(former - former / 16), Ordering::Relaxed);
        };
        note(self.per_key(kernel), took * 1000 / begun.all_keys.max(1) + 1);
        note(&self.batch_ns[kernel.index()], took);
    }

    /// It will not be answered by the device any more.
    pub(crate) fn leave(&self, begun: Begun) {
        self.under_way.fetch_sub(begun.keys, Ordering::Relaxed);
    }

    /// When something that is no lookup, and begins now, is late.
    pub(crate) fn begin_call(&self) -> Duration {
        (self.deadline.now)() + FIRST + self.deadline.slack
    }

    pub(crate) fn is_late(&self, due: Duration) -> bool {
        (self.deadline.now)() > due
    }

    pub(crate) fn is_batch_late(&self, begun: &Begun) -> bool {
        self.is_late(begun.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    use crate::image::Algorithm;

    const TURBO: Kernel = Kernel::Rules(Algorithm::Turbo);

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(5) };
    }

    fn at(us: u64) {
        NOW.set(us);
    }

    #[test]
    fn a_batch_is_late_after_twice_what_it_should_take_and_the_slack() {
        let now = || Duration::from_micros(NOW.get());
        let watch = Watch::new(Deadline { slack: Duration::from_millis(10), now });
        at(1000);
        let first = watch.begin(TURBO, 1000);
        at(1_010_900);
        assert!(!watch.is_batch_late(&first), "nothing is known yet");
        at(1_011_001);
        assert!(watch.is_batch_late(&first));
        watch.leave(first);
        at(2_000_000);
        let second = watch.begin(TURBO, 1000);
        at(2_000_100);
        watch.end(TURBO, second);
        // 100 ns a key: with 3000 keys under way 2 * 300 us, and the slack.
        let others = watch.begin(TURBO, 2000);
        let third = watch.begin(TURBO, 1000);
        at(2_000_100 + 10_590);
        assert!(!watch.is_batch_late(&third));
        at(2_000_100 + 10_610);
        assert!(watch.is_batch_late(&third));
        watch.end(TURBO, others);
        assert_eq!(watch.under_way.load(Ordering::Relaxed), 1000);
    }

    /// Rules one by one: eight batches at once take as long as one alone.
    #[test]
    fn few_keys_may_take_as_long_as_many() {
        let now = || Duration::from_micros(NOW.get());
        let watch = Watch::new(Deadline { slack: Duration::from_millis(10), now });
        at(0);
        let batches: Vec<Begun> = (0..8).map(|_| watch.begin(TURBO, 8192)).collect();
        at(27_000);
        batches.into_iter().for_each(|begun| watch.end(TURBO, begun));
        let alone = watch.begin(TURBO, 8192);
        at(27_000 + 2 * 27_000 + 9000);
        assert!(!watch.is_batch_late(&alone));
        at(27_000 + 2 * 27_000 + 10_001);
        assert!(watch.is_batch_late(&alone));
    }
}
