//! Recent rates: exponentially weighted averages.

use warpswitch_graph::Time;

/// Time after which a count weighs about a third.
const MEMORY_NS: f64 = 1e9;
/// Counts are put together over this long.
const STEP_NS: i64 = 50_000_000;

/// Events a second, averaged exponentially over about the last second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    began: Option<Time>,
    since: u64,
    per_second: f64,
    steps: u32,
}

impl Rate {
    /// Counts `events` at `now`.
    #[inline]
    pub fn add(&mut self, now: Time, events: u64) {
        let began = *self.began.get_or_insert(now);
        if now.0 - began.0 >= STEP_NS {
            self.step(now);
        }
        self.since += events;
    }

    /// A rate of a copy, which [`Rate::absorb`] adds: an average of sums is the sum of averages.
    pub fn fresh(&self) -> Self {
        Self { since: 0, per_second: 0.0, ..*self }
    }

    /// Adds what a copy counted, which was [`Rate::fresh`] when its counting began.
    pub fn absorb(&mut self, copy: &Rate) {
        if let Some(began) = copy.began
            && self.began.is_none_or(|own| own < began)
        {
            self.step(began);
            self.began = Some(began);
        }
        self.since += copy.since;
        self.per_second += copy.per_second;
        self.steps = self.steps.max(copy.steps);
    }

    fn step(&mut self, now: Time) {
        let Some(began) = self.began else { return };
        let elapsed = (now.0 - began.0) as f64;
        let current = self.since as f64 * Time::SECOND as f64 / elapsed;
        // The first step knows nothing to average with.
        let weight = if self.steps == 0 { 1.0 } else { elapsed / (elapsed + MEMORY_NS) };
        self.per_second += weight * (current - self.per_second);
        self.steps = self.steps.saturating_add(1);
        (self.began, self.since) = (Some(now), 0);
    }

    /// Events a second, of late.
    pub fn per_second(&mut self, now: Time) -> u64 {
        if self.began.is_some_and(|began| now.0 - began.0 >= STEP_NS) {
            self.step(now);
        }
        self.per_second.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_and_forgotten() {
        let mut rate = Rate::default();
        for ms in 0..5000 {
            rate.add(Time(ms * 1_000_000), 7);
        }
        let found = rate.per_second(Time(5 * Time::SECOND));
        assert!((6_900..7_100).contains(&found), "{found}");
        assert!(rate.per_second(Time(20 * Time::SECOND)) < 700);
        assert_eq!(Rate::default().per_second(Time(1)), 0);
    }
}
