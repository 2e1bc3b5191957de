//! When frames are due: an absolute schedule.
//!
//! The due time follows from all frames before, not from the last one, so neither rounding nor a
//! late sender changes the mean rate. A late sender catches up.

use super::rate::Rate;

const NS_PER_S: u128 = 1_000_000_000;

/// Due times of the frames of a run.
#[derive(Debug)]
pub struct Schedule {
    rate: Rate,
    start_ns: u64,
    /// Packets or bits before the next frame.
    units: u128,
    /// Frames of a burst, which are due together.
    burst: u64,
    /// Frames of the current burst that have been scheduled.
    in_burst: u64,
    due_ns: u64,
}

impl Schedule {
    /// Starts at `start_ns`. Frames come in bursts of `burst`, at least 1, at the same mean rate.
    pub fn new(rate: Rate, burst: u64, start_ns: u64) -> Self {
        let burst = burst.max(1);
        Self { rate, start_ns, units: 0, burst, in_burst: 0, due_ns: start_ns }
    }

    /// When the run started.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// When the next frame is due; without a rate it is now.
    pub fn due_ns(&self, now_ns: u64) -> u64 {
        match self.rate {
            Rate::Max => now_ns.max(self.start_ns),
            Rate::Packets(_) | Rate::Bits(_) => self.due_ns,
        }
    }

    /// Moves on to the frame after one that takes `wire_bytes` bytes of the wire.
    pub fn advance(&mut self, wire_bytes: u64) {
        let (units, per_s) = match self.rate {
            Rate::Packets(rate) => (1, rate),
            Rate::Bits(rate) => (u128::from(wire_bytes) * 8, rate),
            Rate::Max => return,
        };
        self.units += units;
        self.in_burst += 1;
        if self.in_burst == self.burst {
            self.in_burst = 0;
            let elapsed = self.units * NS_PER_S / u128::from(per_s);
            self.due_ns = self.start_ns.saturating_add(elapsed as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames due within `ns`.
    fn due_within(schedule: &mut Schedule, ns: u64, wire_bytes: u64) -> u64 {
        let end = schedule.start_ns() + ns;
        let mut count = 0;
        while schedule.due_ns(end) < end {
            schedule.advance(wire_bytes);
            count += 1;
        }
        count
    }

    #[test]
    fn keeps_the_rate_exactly_for_any_divisor() {
        for rate in [1, 3, 7, 999, 1_000_003] {
            let mut schedule = Schedule::new(Rate::Packets(rate), 1, 5);
            assert_eq!(due_within(&mut schedule, 3_000_000_000, 84), 3 * rate, "{rate}");
        }
    }

    #[test]
    fn bit_rates_count_the_bytes_between_frames() {
        // 672 bits per frame.
        let mut schedule = Schedule::new(Rate::Bits(672_000), 1, 0);
        assert_eq!(due_within(&mut schedule, 1_000_000_000, 84), 1_000);
    }

    #[test]
    fn bursts_are_due_together_at_the_same_mean_rate() {
        let mut schedule = Schedule::new(Rate::Packets(1_000), 10, 0);
        for frame in 0..30 {
            assert_eq!(schedule.due_ns(0), frame / 10 * 10_000_000, "{frame}");
            schedule.advance(84);
        }
    }

    #[test]
    fn without_a_rate_frames_are_always_due() {
        let mut schedule = Schedule::new(Rate::Max, 1, 100);
        schedule.advance(84);
        assert_eq!((schedule.due_ns(7), schedule.due_ns(1_000)), (100, 1_000));
    }
}
