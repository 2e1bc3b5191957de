//! Time that passes as real time does, or faster, or slower.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warpswitch_graph::Time;

/// A clock whose pace can be changed. It never goes back.
///
/// Threads: any number read it. The pace is changed while no other thread reads, between the shifts
/// of workers, and what starts and ends a shift orders it before and behind; so its parts need not
/// change in one step.
#[derive(Debug)]
pub struct Pace {
    start: Instant,
    /// The time, in nanoseconds, that it was `since_ns` after the start.
    base_ns: AtomicI64,
    since_ns: AtomicI64,
    /// The bits of how much faster than real time it goes from then on.
    rate: AtomicU64,
}

impl Pace {
    /// A clock that shows `now` and goes as real time does.
    pub fn new(now: Time) -> Self {
        Self {
            start: Instant::now(),
            base_ns: AtomicI64::new(now.0),
            since_ns: AtomicI64::new(0),
            rate: AtomicU64::new(1f64.to_bits()),
        }
    }

    fn rate(&self) -> f64 {
        f64::from_bits(self.rate.load(Ordering::Relaxed))
    }

    /// The time.
    pub fn now(&self) -> Time {
        let elapsed = i64::try_from(self.start.elapsed().as_nanos()).unwrap_or(i64::MAX);
        self.at(elapsed)
    }

    /// The time so long after the start.
    fn at(&self, elapsed_ns: i64) -> Time {
        let passed = elapsed_ns - self.since_ns.load(Ordering::Relaxed);
        let passed = match self.rate() {
            1.0 => passed,
            rate => (passed as f64 * rate) as i64,
        };
        Time(self.base_ns.load(Ordering::Relaxed).saturating_add(passed))
    }

    /// Lets time pass `rate` times as fast as real time from now on; a positive number.
    pub fn set(&self, rate: f64) {
        let elapsed = i64::try_from(self.start.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let now = self.at(elapsed);
        self.base_ns.store(now.0, Ordering::Relaxed);
        self.since_ns.store(elapsed, Ordering::Relaxed);
        self.rate.store(rate.to_bits(), Ordering::Relaxed);
    }

    /// How long real time takes to get to `until`.
    pub fn real_until(&self, until: Time) -> Duration {
        let wait = (until - self.now()).as_secs_f64() / self.rate();
        Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_from_where_it_was() {
        let pace = Pace::new(Time(5_000));
        assert_eq!(pace.at(700), Time(5_700));
        pace.since_ns.store(700, Ordering::Relaxed);
        pace.base_ns.store(5_700, Ordering::Relaxed);
        pace.rate.store(2f64.to_bits(), Ordering::Relaxed);
        assert_eq!(pace.at(1_000), Time(6_300));
        let before = pace.now();
        pace.set(1000.0);
        assert!(pace.now() >= before);
        assert!(pace.real_until(pace.now() + Duration::from_secs(1000)) <= Duration::from_secs(1));
        assert_eq!(pace.real_until(Time(0)), Duration::ZERO);
        pace.set(1e-300);
        assert_eq!(pace.real_until(Time(i64::MAX)), Duration::MAX);
    }
}
