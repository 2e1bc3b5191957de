//! The search for throughput: the highest rate without loss (RFC 2544, 26.1).
//!
//! ```text
//! phase 1   short trials    bounds 4 widths apart
//! phase 2   longer trials   bounds measured again, 2 widths apart
//! phase 3   full trials     bounds measured again, 1 width apart ─► lower bound
//! ```
//! Phases follow MLRsearch (draft-ietf-bmwg-mlrsearch): most bisection is done by short trials, and
//! both bounds of a phase are valid for the trial duration of that phase. A bound that does not
//! hold is moved outwards until it does. A rate passes the last phase if several full trials pass,
//! one after the other: a device whose capacity varies passes a single trial at rates that it does
//! not keep.
//!
//! Simplified: one goal, whose exceed ratio is 0: one failed trial fails the rate.

use std::time::Duration;

/// Rates of one search, a bound for devices that change while they are measured.
const RATES_MAX: usize = 60;
/// Parts of a full trial that the phases last, and the distance of their bounds in widths.
const PHASES: [(f64, f64); 3] = [(0.1, 4.0), (0.35, 2.0), (1.0, 1.0)];

/// Result of a trial, as the search sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// No more loss than allowed.
    Yes,
    /// Too much loss.
    No,
    /// The sender did not reach the rate, or the sink did not keep up.
    TesterTooSlow,
}

/// What bounds the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The device under test loses frames at higher rates.
    Device,
    /// Higher rates were not measured: they are beyond sender, sink or the maximum.
    Tester,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Packets per second, 0 if every rate lost frames.
    pub pps: f64,
    /// What bounds it.
    pub limit: Limit,
    /// Number of trials.
    pub trials: usize,
}

/// Options of a search.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// The highest rate, in packets per second.
    pub pps_max: f64,
    /// The lowest rate worth a trial.
    pub pps_min: f64,
    /// Relative distance of the bounds at the end.
    pub width: f64,
    /// Duration of a full trial.
    pub trial: Duration,
    /// Full trials that a rate must pass.
    pub repeat: usize,
}

/// A phase of a search.
#[derive(Clone, Copy, Debug)]
struct Phase {
    /// Duration of its trials.
    duration: Duration,
    /// Relative distance of the bounds at its end.
    width: f64,
    /// Trials that a rate must pass.
    repeat: usize,
}

/// A search in progress.
struct Search<'a, E> {
    goal: Goal,
    /// A rate that passes.
    low: f64,
    /// A rate that fails, and the duration of that trial.
    high: Option<(f64, Duration)>,
    limit: Limit,
    rates: usize,
    trials: usize,
    measure: &'a mut dyn FnMut(f64, Duration) -> Result<Passed, E>,
}

/// Searches; `measure` runs a trial at a rate for a time.
///
/// # Errors
/// Those of `measure`.
pub fn search<E>(
    goal: Goal,
    measure: &mut dyn FnMut(f64, Duration) -> Result<Passed, E>,
) -> Result<Throughput, E> {
    let limit = Limit::Tester;
    let low = goal.pps_max;
    let mut search = Search { goal, low, high: None, limit, rates: 0, trials: 0, measure };
    for (part, widths) in PHASES {
        search.run(Phase {
            duration: goal.trial.mul_f64(part),
            width: goal.width * widths,
            repeat: if part < 1.0 { 1 } else { goal.repeat },
        })?;
    }
    Ok(Throughput { pps: search.low, limit: search.limit, trials: search.trials })
}

impl<E> Search<'_, E> {
    /// Makes both bounds hold for `phase`, then bisects.
    fn run(&mut self, phase: Phase) -> Result<(), E> {
        self.confirm_low(phase)?;
        self.confirm_high(phase)?;
        while let Some((high, _)) = self.high {
            let is_close = high - self.low <= phase.width * high || high <= self.goal.pps_min;
            if is_close || self.rates >= RATES_MAX {
                break;
            }
            // In ratios the middle is the geometric mean; from zero there is none.
            let middle = match self.low > 0.0 {
                true => (self.low * high).sqrt(),
                false => high / 2.0,
            };
            if self.passes(middle, phase)? {
                self.low = middle;
            }
        }
        Ok(())
    }

    /// Moves the lower bound down until it passes.
    fn confirm_low(&mut self, phase: Phase) -> Result<(), E> {
        let mut step = phase.width;
        while self.low > 0.0 && !self.passes(self.low, phase)? {
            let next = self.low * (1.0 - step.min(0.5));
            let is_over = next < self.goal.pps_min || self.rates >= RATES_MAX;
            self.low = if is_over { 0.0 } else { next };
            step *= 2.0;
        }
        Ok(())
    }

    /// Moves the upper bound up until it fails; without one, the lower one is the maximum.
    fn confirm_high(&mut self, phase: Phase) -> Result<(), E> {
        let mut step = phase.width;
        while let Some((high, measured)) = self.high {
            let holds = measured == phase.duration || self.rates >= RATES_MAX;
            if holds || !self.passes(high, phase)? {
                break;
            }
            self.low = high;
            let next = (high * (1.0 + step)).min(self.goal.pps_max);
            self.high = (next > high).then_some((next, Duration::ZERO));
            if self.high.is_none() {
                self.limit = Limit::Tester;
            }
            step *= 2.0;
        }
        Ok(())
    }

    /// Runs trials until one fails; a failed rate becomes the upper bound.
    fn passes(&mut self, pps: f64, phase: Phase) -> Result<bool, E> {
        self.rates += 1;
        for _ in 0..phase.repeat {
            self.trials += 1;
            let passed = (self.measure)(pps, phase.duration)?;
            if passed != Passed::Yes {
                self.high = Some((pps, phase.duration));
                let is_tester = passed == Passed::TesterTooSlow;
                self.limit = if is_tester { Limit::Tester } else { Limit::Device };
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const GOAL: Goal = Goal {
        pps_max: 1e6,
        pps_min: 10.0,
        width: 0.01,
        trial: Duration::from_secs(10),
        repeat: 1,
    };

    /// Searches with a device whose capacity depends on the duration of a trial.
    fn find(capacity: impl Fn(Duration) -> f64) -> Throughput {
        let mut measure = |pps, duration| {
            let passed = if pps <= capacity(duration) { Passed::Yes } else { Passed::No };
            Ok::<_, Infallible>(passed)
        };
        let Ok(found) = search(GOAL, &mut measure);
        found
    }

    #[test]
    fn finds_the_capacity_within_the_width() {
        for capacity in [999_999.0, 500_000.0, 123_456.0, 1_000.0, 50.0] {
            let found = find(|_| capacity);
            assert!(found.pps <= capacity, "{found:?}");
            assert!(found.pps >= capacity * 0.98, "{capacity}: {found:?}");
            assert_eq!(found.limit, Limit::Device);
            assert!(found.trials <= 40, "{found:?}");
        }
    }

    #[test]
    fn the_maximum_is_a_limit_of_the_tester() {
        let found = find(|_| 2e6);
        assert_eq!((found.pps, found.limit, found.trials), (1e6, Limit::Tester, 3));
        let mut measure = |pps, _| {
            let is_slow = pps > 4e5;
            Ok::<_, Infallible>(if is_slow { Passed::TesterTooSlow } else { Passed::Yes })
        };
        let Ok(found) = search(GOAL, &mut measure);
        assert_eq!(found.limit, Limit::Tester);
        assert!((3.9e5..=4e5).contains(&found.pps), "{found:?}");
    }

    #[test]
    fn long_trials_correct_short_ones_both_ways() {
        // A buffer hides the loss of short trials, or a cold start makes short trials lose.
        for long in [300_000.0, 700_000.0] {
            let is_full = |duration| duration >= GOAL.trial;
            let found = find(|duration| if is_full(duration) { long } else { 500_000.0 });
            assert!(found.pps <= long && found.pps >= long * 0.98, "{long}: {found:?}");
        }
    }

    #[test]
    fn repeated_trials_find_what_a_device_always_keeps() {
        // Every fifth full trial meets a slow moment of the device.
        let mut number = 0;
        let mut measure = |pps, duration| {
            let is_slow = duration == GOAL.trial && number % 5 == 4;
            number += usize::from(duration == GOAL.trial);
            let capacity = if is_slow { 300_000.0 } else { 500_000.0 };
            Ok::<_, Infallible>(if pps <= capacity { Passed::Yes } else { Passed::No })
        };
        let Ok(found) = search(Goal { repeat: 5, ..GOAL }, &mut measure);
        assert!(found.pps <= 300_000.0 && found.pps >= 0.98 * 300_000.0, "{found:?}");
    }

    #[test]
    fn a_device_that_always_loses_has_no_throughput() {
        let found = find(|_| 0.0);
        assert_eq!((found.pps, found.limit), (0.0, Limit::Device));
        assert!(found.trials < RATES_MAX, "{found:?}");
    }

    #[test]
    fn a_device_without_a_stable_capacity_ends_the_search() {
        let mut number = 0u32;
        let mut measure = |_, _| {
            number += 1;
            let passed = number.wrapping_mul(2_654_435_761) >> 31 == 0;
            Ok::<_, Infallible>(if passed { Passed::Yes } else { Passed::No })
        };
        let Ok(found) = search(GOAL, &mut measure);
        assert!(found.trials <= RATES_MAX + 3, "{found:?}");
    }
}
