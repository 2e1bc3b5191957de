//! Time as elements see it. It is handed in: this crate reads no clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since 1970, or since whatever the clock that was handed in counts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// Nanoseconds in a second.
    pub const SECOND: i64 = 1_000_000_000;

    /// Seconds as a floating point number, for rates.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / Self::SECOND as f64
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// How long from `earlier` to this; nothing if `earlier` is later.
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Seconds with nine digits behind the point.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0.div_euclid(Self::SECOND), self.0.rem_euclid(Self::SECOND));
        write!(f, "{seconds}.{rest:09}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_and_subtract_without_overflow() {
        let time = Time(5 * Time::SECOND + 7);
        assert_eq!(time.to_string(), "5.000000007");
        assert_eq!(time + Duration::from_secs(1) - time, Duration::from_secs(1));
        assert_eq!(time - (time + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(Time(i64::MAX) + Duration::MAX, Time(i64::MAX));
        assert_eq!(Time(-1).to_string(), "-1.999999999");
    }
}
