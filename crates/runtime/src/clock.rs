//! The clock of a run: real time, scaled real time, or simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use warpswitch_graph::Time;
use warpswitch_graph::simulate::{SIMULATED_START, SimulatedClock};

/// Source of the current time.
#[derive(Clone, Debug)]
pub enum RunClock {
    /// Real time; a configuration can scale it.
    Real(Arc<ScaledClock>),
    /// Jumps to the next timer while no task is runnable, see [`warpswitch_graph::simulate`].
    Simulated(SimulatedClock),
}

impl RunClock {
    /// Starts at the current time of day.
    pub fn real() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::Real(Arc::new(ScaledClock::new(Time::default() + since)))
    }

    /// Starts `seconds` after 1970, by default at [`SIMULATED_START`].
    pub fn simulated(seconds: Option<f64>) -> Self {
        Self::Simulated(SimulatedClock::new(match seconds {
            Some(seconds) => Time((seconds * Time::SECOND as f64) as i64),
            None => SIMULATED_START,
        }))
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        match self {
            RunClock::Real(clock) => clock.now(),
            RunClock::Simulated(clock) => clock.now(),
        }
    }

    /// Ends a round of the scheduler in which a task did work.
    pub(crate) fn end_busy_round(&mut self) {
        if let RunClock::Simulated(clock) = self {
            clock.end_busy_round();
        }
    }

    /// The scaled clock of real time; `None` in simulated time.
    pub(crate) fn scaled(&self) -> Option<Arc<ScaledClock>> {
        match self {
            RunClock::Real(clock) => Some(clock.clone()),
            RunClock::Simulated(_) => None,
        }
    }
}

/// A monotonic clock with an adjustable rate.
///
/// Threads: any number read it. [`ScaledClock::set_rate`] requires that no other thread reads: the
/// router calls it while the other workers are parked. Parking and unparking order the store before
/// later reads, so the fields need no common atomic update.
#[derive(Debug)]
pub struct ScaledClock {
    start: Instant,
    /// The time, in nanoseconds, at `since_ns` after the start.
    base_ns: AtomicI64,
    since_ns: AtomicI64,
    /// The bits of the rate after that, relative to real time.
    rate: AtomicU64,
}

impl ScaledClock {
    /// A clock that shows `now` and advances at the rate of real time.
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

    /// Returns the current time.
    pub fn now(&self) -> Time {
        let elapsed = i64::try_from(self.start.elapsed().as_nanos()).unwrap_or(i64::MAX);
        self.at(elapsed)
    }

    /// The time `elapsed_ns` after the start.
    fn at(&self, elapsed_ns: i64) -> Time {
        let passed = elapsed_ns - self.since_ns.load(Ordering::Relaxed);
        let passed = match self.rate() {
            1.0 => passed,
            rate => (passed as f64 * rate) as i64,
        };
        Time(self.base_ns.load(Ordering::Relaxed).saturating_add(passed))
    }

    /// Sets the rate relative to real time; `rate` is positive.
    pub fn set_rate(&self, rate: f64) {
        let elapsed = i64::try_from(self.start.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let now = self.at(elapsed);
        self.base_ns.store(now.0, Ordering::Relaxed);
        self.since_ns.store(elapsed, Ordering::Relaxed);
        self.rate.store(rate.to_bits(), Ordering::Relaxed);
    }

    /// The real time until the clock shows `until`.
    pub fn real_until(&self, until: Time) -> Duration {
        let wait = (until - self.now()).as_secs_f64() / self.rate();
        Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_rate_continues_from_the_current_time() {
        let clock = ScaledClock::new(Time(5_000));
        assert_eq!(clock.at(700), Time(5_700));
        clock.since_ns.store(700, Ordering::Relaxed);
        clock.base_ns.store(5_700, Ordering::Relaxed);
        clock.rate.store(2f64.to_bits(), Ordering::Relaxed);
        assert_eq!(clock.at(1_000), Time(6_300));
        let before = clock.now();
        clock.set_rate(1000.0);
        assert!(clock.now() >= before);
        assert!(
            clock.real_until(clock.now() + Duration::from_secs(1000)) <= Duration::from_secs(1)
        );
        assert_eq!(clock.real_until(Time(0)), Duration::ZERO);
        clock.set_rate(1e-300);
        assert_eq!(clock.real_until(Time(i64::MAX)), Duration::MAX);
    }
}
