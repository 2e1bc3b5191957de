//! Rate limiters.
//!
//! [`TokenBucket`] allows bursts; [`Gaps`] spreads packets evenly over each second. Both use
//! integer arithmetic, and with simulated time a run emits the same packets as Click.

use warpswitch_graph::Time;

/// Nanoseconds between two fillings of a bucket.
pub const EPOCH_NS: i64 = 1_000_000;
const EPOCHS_PER_SECOND: u64 = 1_000_000_000 / EPOCH_NS as u64;
/// What a full bucket holds, in its own fractions of a token.
const FULL: u32 = u32::MAX;

/// A bucket that fills with tokens at a rate, up to a capacity.
///
/// The arithmetic is Click's: a full bucket holds the largest 32-bit number of fractions, a token
/// is that number divided by the capacity, and every millisecond adds a whole number of fractions,
/// rounded down. So the rate may fall short by the rounding error, and a bucket for a single token
/// is full one millisecond late: configure bursts of two or more to reach the full rate.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: u32,
    /// Fractions of a token.
    scale: u32,
    per_epoch: u32,
    tokens: u32,
    epoch: Option<i64>,
}

impl Default for TokenBucket {
    /// Unlimited.
    fn default() -> Self {
        Self { rate: 0, scale: 0, per_epoch: 0, tokens: FULL, epoch: None }
    }
}

impl TokenBucket {
    /// Sets tokens a second and the most that it holds; what it holds now stays the same share of
    /// that. No rate at all is no limit.
    pub fn assign(&mut self, rate: u32, capacity: u32) {
        let scale = FULL / capacity.max(1);
        let per_epoch = u64::from(rate) * u64::from(scale) / EPOCHS_PER_SECOND;
        (self.rate, self.scale) = (rate, if rate == 0 { 0 } else { scale });
        self.per_epoch = u32::try_from(per_epoch).unwrap_or(FULL).max(1);
    }

    /// Tokens a second.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    fn is_unlimited(&self) -> bool {
        self.scale == 0
    }

    /// Fills it up to `now`; the first time to the brim.
    pub fn refill(&mut self, now: Time) {
        let epoch = now.0.div_euclid(EPOCH_NS);
        let old = self.epoch.replace(epoch);
        let passed = old.map_or(u64::MAX, |old| u64::try_from(epoch - old).unwrap_or(0));
        let more = passed.saturating_mul(u64::from(self.per_epoch));
        self.tokens = u32::try_from(more.saturating_add(u64::from(self.tokens))).unwrap_or(FULL);
    }

    /// Whole tokens in it.
    pub fn size(&self) -> u32 {
        self.tokens.checked_div(self.scale).unwrap_or(u32::MAX)
    }

    fn fractions(&self, tokens: u32) -> u64 {
        u64::from(tokens) * u64::from(self.scale)
    }

    /// Whether there are so many tokens in it.
    pub fn contains(&self, tokens: u32) -> bool {
        self.fractions(tokens) <= u64::from(self.tokens)
    }

    /// Takes tokens out, all there are if there are fewer.
    pub fn remove(&mut self, tokens: u32) {
        let left = u64::from(self.tokens).saturating_sub(self.fractions(tokens));
        self.tokens = u32::try_from(left).unwrap_or(FULL);
    }

    /// When there will be so many tokens in it.
    pub fn time_of(&self, tokens: u32) -> Time {
        let epoch = self.epoch.unwrap_or(0);
        if self.is_unlimited() || self.contains(tokens) {
            return Time(epoch.saturating_mul(EPOCH_NS));
        }
        let missing = self.fractions(tokens) - u64::from(self.tokens);
        let epochs = missing.div_ceil(u64::from(self.per_epoch)) as i64;
        Time((epoch + epochs).saturating_mul(EPOCH_NS))
    }
}

/// Packets, or bytes, spread evenly over each second: the n-th of a second is due at n divided by
/// the rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    rate: u64,
    /// The second, and how many of it are used.
    second: Option<i64>,
    used: i64,
}

impl Gaps {
    /// Sets how many there are a second.
    pub fn set_rate(&mut self, rate: u64) {
        (self.rate, self.second) = (rate, None);
    }

    /// How many there are a second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Forgets what was used.
    pub fn reset(&mut self) {
        self.second = None;
    }

    fn due(&self, ns: i64) -> i64 {
        let due = u128::from(self.rate) * ns as u128 / Time::SECOND as u128;
        i64::try_from(due).unwrap_or(i64::MAX - 1)
    }

    /// How many are due at `now`; the first one is at once.
    pub fn due_at(&mut self, now: Time) -> u64 {
        if self.rate == 0 {
            return 0;
        }
        let (second, ns) = (now.0.div_euclid(Time::SECOND), now.0.rem_euclid(Time::SECOND));
        let due = self.due(ns);
        match self.second.replace(second) {
            None => self.used = due,
            Some(old) if second > old => {
                // What was used too much in one second is missing in the next one.
                if self.used > 0 {
                    let rate = i64::try_from(self.rate).unwrap_or(i64::MAX);
                    let seconds = (second - old).min((self.used - 1) / rate + 1);
                    self.used -= seconds.saturating_mul(rate);
                }
            }
            Some(_) => {}
        }
        u64::try_from(due - self.used + 1).unwrap_or(0)
    }

    /// Uses so many.
    pub fn take(&mut self, count: u64) {
        self.used = self.used.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// When the next one is due; never without a rate.
    pub fn next(&self) -> Option<Time> {
        let second = self.second.filter(|_| self.rate > 0)?;
        let (mut second, mut used) = (i128::from(second), i128::from(self.used));
        let rate = i128::from(self.rate);
        if used >= rate {
            // Not in this second any more; each one brings a second's worth.
            let seconds = used / rate;
            (second, used) = (second + seconds, used - seconds * rate);
        }
        let nanos = i128::from(Time::SECOND);
        let ns = second * nanos + (used.max(0) * nanos + rate - 1) / rate;
        i64::try_from(ns).ok().map(Time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens that are taken one by one in `seconds`, as soon as they are there.
    fn taken(rate: u32, capacity: u32, seconds: i64) -> u64 {
        let start = Time(1_000_000_000 * Time::SECOND);
        let (mut bucket, mut now, mut taken) = (TokenBucket::default(), start, 0);
        bucket.assign(rate, capacity);
        while now.0 < start.0 + seconds * Time::SECOND {
            bucket.refill(now);
            if bucket.contains(1) {
                bucket.remove(1);
                taken += 1;
            } else {
                now = bucket.time_of(1);
            }
        }
        taken
    }

    #[test]
    fn a_bucket_gives_its_rate_after_its_burst() {
        for (rate, capacity, seconds, expected) in [
            (2, 1, 10, 20),
            (2, 50, 10, 69),
            (1_000, 20, 10, 10_019),
            (250_000, 5_000, 2, 504_750),
            // A bucket for a single token is full one millisecond late.
            (100, 1, 10, 910),
        ] {
            assert_eq!(taken(rate, capacity, seconds), expected, "{rate} {capacity}");
        }
        let mut unlimited = TokenBucket::default();
        unlimited.refill(Time(5));
        unlimited.remove(u32::MAX);
        assert!(unlimited.contains(u32::MAX) && unlimited.size() == u32::MAX);
    }

    #[test]
    fn gaps_spread_a_rate_over_every_second() {
        for (rate, start_ns) in [(3u64, 0), (1_000, 999_000_000), (7, 123_456_789)] {
            let mut gaps = Gaps::default();
            gaps.set_rate(rate);
            let (mut now, mut times) = (Time(start_ns), Vec::new());
            while times.len() < 3 * rate as usize {
                for _ in 0..gaps.due_at(now) {
                    gaps.take(1);
                    times.push(now.0);
                }
                now = gaps.next().expect("there is a rate").max(now);
            }
            let most =
                times.windows(rate as usize + 1).filter(|w| w[rate as usize] - w[0] < Time::SECOND);
            // The first one of all comes at once, out of turn.
            assert!(most.count() <= 1, "{rate}: {times:?}");
            let last = times[times.len() - 1] - start_ns;
            assert!((2 * Time::SECOND..3 * Time::SECOND).contains(&last), "{rate}: {last}");
        }
        let mut none = Gaps::default();
        assert_eq!((none.due_at(Time(1)), none.next()), (0, None));
    }
}
