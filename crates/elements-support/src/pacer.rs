//! Departure times of sources that emit packets at a fixed rate.
//!
//! Packet `n` departs `n / rate` seconds after the first one. Above 1000 packets per second, the
//! packets of a millisecond depart together, at its end. A source that is late catches up on at
//! most 10 ms or two packets, whichever is more.

use warpswitch_graph::Time;

use crate::bucket::EPOCH_NS;

/// Rate above which the packets of a millisecond depart together.
const SINGLE_RATE_MAX: u32 = 1_000;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// Packets per second, 0 for no limit.
    pub rate: u32,
    /// Departure of the first packet.
    start: Option<Time>,
    /// Packets that departed since `start`.
    departed: u64,
}

impl Pacer {
    /// A pacer for `rate` packets per second, 0 for no limit.
    pub fn new(rate: u32) -> Self {
        Self { rate, start: None, departed: 0 }
    }

    /// Starts over, with a packet at once.
    pub fn restart(&mut self) {
        *self = Self::new(self.rate);
    }

    /// Continues the schedule of `old` if the rates are the same.
    pub fn take_state(&mut self, old: &Self) {
        if old.rate == self.rate {
            *self = *old;
        }
    }

    /// Number of packets that are due at `now`, at most `packets_max`; counts them as departed.
    pub fn depart(&mut self, now: Time, packets_max: u64) -> u64 {
        let start = *self.start.get_or_insert(now);
        let packets = match self.rate {
            0 => packets_max,
            rate => self.due(start, now, rate.into()).min(packets_max),
        };
        self.departed += packets;
        packets
    }

    fn due(&mut self, start: Time, now: Time, rate: i128) -> u64 {
        let second = i128::from(Time::SECOND);
        let burst = if rate < 200 { 2 } else { rate / 100 };
        let due = i128::from(now.0 - start.0) * rate / second + 1 - i128::from(self.departed);
        if due > burst {
            // Later than the limit: the packets beyond it are skipped.
            let lost = ((due - burst) * second / rate) as i64;
            self.start = Some(Time(start.0 + lost));
        }
        u64::try_from(due.min(burst)).unwrap_or(0)
    }

    /// When the next packet is due.
    pub fn next(&self, now: Time) -> Time {
        let start = self.start.unwrap_or(now).0;
        let (rate, second) = (i128::from(self.rate.max(1)), i128::from(Time::SECOND));
        let at = (i128::from(self.departed) * second + rate - 1) / rate + i128::from(start);
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        let earliest = if self.rate > SINGLE_RATE_MAX { now.0 + EPOCH_NS } else { now.0 };
        Time(at.max(earliest))
    }
}
