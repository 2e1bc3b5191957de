//! Loss and round-trip times of echo requests.

use warpswitch_elements_support::format::decimal;

/// Sequence numbers of ICMP.
const SEQUENCES: usize = 1 << 16;

/// The last request with a sequence number.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    /// When it was sent, in nanoseconds since 1970; 0 if it was not.
    sent_ns: i64,
    is_answered: bool,
}

/// See the module. Takes 1 MiB.
#[derive(Debug)]
pub(super) struct PingStatistics {
    /// By sequence number.
    requests: Vec<Request>,
    /// Answered requests.
    received: u64,
    /// Further replies to answered requests.
    duplicates: u64,
    /// Of all replies, duplicates included; `min_us` is `u64::MAX` before the first one.
    min_us: u64,
    max_us: u64,
    sum_us: u64,
    squares: u128,
}

impl PingStatistics {
    /// Statistics without requests.
    pub(super) fn new() -> Self {
        Self {
            requests: vec![Request::default(); SEQUENCES],
            received: 0,
            duplicates: 0,
            min_us: u64::MAX,
            max_us: 0,
            sum_us: 0,
            squares: 0,
        }
    }

    /// Records a request that is sent at `now_ns`.
    pub(super) fn note_request(&mut self, sequence: u16, now_ns: i64) {
        let request = Request { sent_ns: now_ns, is_answered: false };
        self.requests[usize::from(sequence)] = request;
    }

    /// Records a reply that arrived at `at_ns`; returns the round-trip time in microseconds, or
    /// `None` if no such request was sent.
    pub(super) fn note_reply(&mut self, sequence: u16, at_ns: i64) -> Option<u64> {
        let request = &mut self.requests[usize::from(sequence)];
        if request.sent_ns == 0 {
            return None;
        }
        match std::mem::replace(&mut request.is_answered, true) {
            true => self.duplicates += 1,
            false => self.received += 1,
        }
        let time_us = u64::try_from(at_ns.saturating_sub(request.sent_ns)).unwrap_or(0) / 1_000;
        self.min_us = self.min_us.min(time_us);
        self.max_us = self.max_us.max(time_us);
        self.sum_us = self.sum_us.saturating_add(time_us);
        let square = u128::from(time_us) * u128::from(time_us);
        self.squares = self.squares.saturating_add(square);
        Some(time_us)
    }

    fn replies(&self) -> u64 {
        self.received + self.duplicates
    }

    fn average_us(&self) -> u64 {
        self.sum_us / self.replies().max(1)
    }

    fn min_us(&self) -> u64 {
        if self.replies() == 0 { 0 } else { self.min_us }
    }

    /// Standard deviation.
    fn deviation_us(&self) -> u64 {
        let average = u128::from(self.average_us());
        let mean_square = self.squares / u128::from(self.replies().max(1));
        u64::try_from(mean_square.saturating_sub(average * average).isqrt()).unwrap_or(u64::MAX)
    }

    /// Loss after `sent` requests, and times in milliseconds, in the format of `ping`.
    pub(super) fn summary(&self, sent: u64) -> String {
        let mut text = format!("{sent} packets transmitted, {} received", self.received);
        if self.duplicates > 0 {
            text.push_str(&format!(", +{} duplicates", self.duplicates));
        }
        if let Some(lost) = (sent.saturating_sub(self.received) * 100).checked_div(sent) {
            text.push_str(&format!(", {lost}% packet loss"));
        }
        if self.replies() > 0 {
            let ms = |us: u64| format!("{}.{:03}", us / 1_000, us % 1_000);
            let times = [self.min_us(), self.average_us(), self.max_us, self.deviation_us()];
            let times = times.map(ms).join("/");
            text.push_str(&format!("\nrtt min/avg/max/mdev = {times}"));
        }
        text
    }

    /// The shortest round-trip time, 0 if there is none.
    pub(super) fn min(&self) -> String {
        time(self.min_us())
    }

    /// The mean round-trip time.
    pub(super) fn average(&self) -> String {
        time(self.average_us())
    }

    /// The longest round-trip time.
    pub(super) fn max(&self) -> String {
        time(self.max_us)
    }
}

/// A time with its unit.
fn time(us: u64) -> String {
    match us {
        1..1_000 => format!("{us}us"),
        us => format!("{}s", decimal(us, 6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn counts_loss_duplicates_and_times() {
        let mut statistics = PingStatistics::new();
        assert_eq!(statistics.summary(0), "0 packets transmitted, 0 received");
        assert_eq!((statistics.min(), statistics.average()), ("0s".into(), "0s".into()));
        for sequence in 1..=4 {
            statistics.note_request(sequence, 1_000 * MS);
        }
        assert_eq!(statistics.note_reply(1, 1_002 * MS), Some(2_000));
        assert_eq!(statistics.note_reply(2, 1_006 * MS + 500_000), Some(6_500));
        assert_eq!(statistics.note_reply(9, 1_006 * MS), None, "no such request");
        let lines = "4 packets transmitted, 2 received, 50% packet loss\n\
                     rtt min/avg/max/mdev = 2.000/4.250/6.500/2.250";
        assert_eq!(statistics.summary(4), lines);
        assert_eq!(statistics.note_reply(2, 999 * MS), Some(0), "a clock may be set back");
        assert!(
            statistics
                .summary(4)
                .starts_with("4 packets transmitted, 2 received, +1 duplicates, 50% packet loss\n")
        );
        let times = (statistics.min(), statistics.average(), statistics.max());
        assert_eq!(times, ("0s".into(), "0.002833s".into(), "0.0065s".into()));
        // A sequence number in use again.
        statistics.note_request(1, 2_000 * MS);
        assert_eq!(statistics.note_reply(1, 2_000 * MS + 7_000), Some(7));
        assert!(statistics.summary(5).contains("3 received, +1"));
    }
}
