//! When frames are due: an absolute schedule.
//!
//! The due time follows from all frames before, not from the last one, so neither rounding nor a
//! late sender changes the mean rate. A late sender catches up at twice the rate: all at once
//! would be a burst, which a device under test can only queue or drop.

use super::rate::Rate;

const NS_PER_S: u128 = 1_000_000_000;
/// How many times its rate a late sender has. A device at half of its throughput keeps up with
/// that, and a sender that gets a core for half of the time keeps its rate.
const CATCH_UP: u64 = 2;
/// Frames that fell due within so long may leave together: a sender that sleeps is late by as much.
const TOGETHER_NS: u64 = 100_000;

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
    /// Until when the next frame is held back while a late sender catches up.
    held_ns: u64,
}

impl Schedule {
    /// Starts at `start_ns`. Frames come in bursts of `burst`, at least 1, at the same mean rate.
    pub fn new(rate: Rate, burst: u64, start_ns: u64) -> Self {
        let burst = burst.max(1);
        let (due_ns, held_ns) = (start_ns, start_ns);
        Self { rate, start_ns, units: 0, burst, in_burst: 0, due_ns, held_ns }
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

    /// When the next frame may leave: when it is due, or later if the sender is late.
    pub fn ready_ns(&self, now_ns: u64) -> u64 {
        self.due_ns(now_ns).max(self.held_ns)
    }

    /// Moves on to the frame after one that leaves now and takes `wire_bytes` bytes of the wire.
    pub fn advance(&mut self, wire_bytes: u64, now_ns: u64) {
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
            let due_ns = self.start_ns.saturating_add(elapsed as u64);
            let held_ns = (due_ns - self.due_ns) / CATCH_UP;
            // A bucket that holds what fell due within `TOGETHER_NS`.
            self.held_ns = self.held_ns.max(now_ns.saturating_sub(TOGETHER_NS)) + held_ns;
            self.due_ns = due_ns;
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
            schedule.advance(wire_bytes, schedule.due_ns(end));
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
            let due_ns = frame / 10 * 10_000_000;
            assert_eq!((schedule.due_ns(0), schedule.ready_ns(0)), (due_ns, due_ns), "{frame}");
            schedule.advance(84, due_ns);
        }
    }

    /// A sender that sleeps and stalls: it leaves out nothing and sends no burst.
    #[test]
    fn a_late_sender_catches_up_at_twice_the_rate() {
        let (rate, sleep_ns, stall) = (100_000, 50_000, 20_000_000..30_000_000);
        let mut schedule = Schedule::new(Rate::Packets(rate), 1, 0);
        let mut counts = Vec::new();
        for now_ns in (0..1_000_000_000).step_by(sleep_ns) {
            let mut count = 0;
            while !stall.contains(&now_ns) && schedule.ready_ns(now_ns) <= now_ns {
                schedule.advance(84, now_ns);
                count += 1;
            }
            counts.push(count);
        }
        // Five frames fall due within a sleep. After a stall there may be twice as many, and at
        // first twice what falls due within `TOGETHER_NS`.
        let after = stall.end as usize / sleep_ns;
        assert!(counts[..stall.start as usize / sleep_ns].iter().all(|&count| count <= 6));
        assert!((20..=21).contains(&counts[after]), "{} frames", counts[after]);
        let late = &counts[after + 1..];
        assert!(late.iter().all(|&count| count <= 10));
        assert!(late[..190].iter().all(|&count| count == 10), "10 ms late, caught up in 10 ms");
        assert_eq!(counts.iter().sum::<u64>(), rate - 4, "all that were due at the last look");
    }

    #[test]
    fn without_a_rate_frames_are_always_due() {
        let mut schedule = Schedule::new(Rate::Max, 1, 100);
        schedule.advance(84, 100);
        assert_eq!((schedule.due_ns(7), schedule.ready_ns(1_000)), (100, 1_000));
    }
}
