//! Measures the latency of packets: the time since their timestamps.
//!
//! # Synopsis
//! `TimestampAccum`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `count` | read | packets |
//! | `time` | read | seconds, sum of all packets |
//! | `average_time` | read | seconds |
//! | `min_time`, `max_time` | read | seconds |
//! | `percentile P` | read | seconds that `P` percent of packets did not exceed |
//! | `reset_counts` | write | |
//!
//! Percentiles cover all packets, with an error of at most 0.1 %. They come from a histogram of
//! 260 KB for latencies up to one hour; longer ones count as one hour.
//!
//! # Drops
//! None. Packets without a timestamp are not counted; a timestamp in the future counts as latency
//! 0.
//!
//! # Threads
//! Runs on one worker. The clock is read once per batch.
//!
//! # Example
//! ```text
//! ... -> SetTimestamp -> Batcher -> ... -> Debatcher -> took :: TimestampAccum -> ...
//!
//! DriverManager(wait_stop, print "p99: $(took.percentile 99) s", stop);
//! ```

use hdrhistogram::Histogram;
use warpswitch_graph::{Context, Element, ElementClass, HandlerError, HandlerSpec};
use warpswitch_packet::Batch;

use warpswitch_elements_support::format;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("TimestampAccum", "1/1", "a/a", || Box::new(TimestampAccum::new()));

/// The longest time that the histogram distinguishes: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Digits of times that it keeps apart.
const DIGITS: u8 = 3;

/// See the module.
#[derive(Debug)]
pub struct TimestampAccum {
    times: Histogram<u64>,
    /// Of the most packets and the longest times that there can be, not more than this holds.
    total_ns: u128,
    /// Exact: the histogram rounds.
    min_ns: u64,
    max_ns: u64,
}

impl TimestampAccum {
    fn new() -> Self {
        let times = Histogram::new_with_max(LONGEST_NS, DIGITS).expect("the bounds are fixed");
        Self { times, total_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    fn note(&mut self, ns: u64) {
        self.times.saturating_record(ns);
        self.total_ns += u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// The time that `percent` of packets did not exceed.
    fn percentile_ns(&self, percent: &str) -> Result<u64, HandlerError> {
        let percent = percent.trim().parse().ok().filter(|p| (0.0..=100.0).contains(p));
        let percent: f64 = percent
            .ok_or_else(|| HandlerError::failed("expected a percentile: a number from 0 to 100"))?;
        let ns = self.times.value_at_quantile(percent / 100.0);
        Ok(if self.times.is_empty() { 0 } else { ns.clamp(self.min_ns, self.max_ns) })
    }
}

impl Element for TimestampAccum {
    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let now = cx.read_clock().0;
        for packet in batch.iter() {
            let ns = packet.timestamp_ns();
            if ns != 0 {
                self.note(u64::try_from(now.saturating_sub(ns)).unwrap_or(0));
            }
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("count"),
                HandlerSpec::read("time"),
                HandlerSpec::read("average_time"),
                HandlerSpec::read("min_time"),
                HandlerSpec::read("max_time"),
                HandlerSpec::read("percentile").with_param(),
                HandlerSpec::button("reset_counts"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        let count = self.times.len();
        let ns = match name {
            "count" => return Ok(count.to_string()),
            "time" => self.total_ns,
            "average_time" => self.total_ns.checked_div(count.into()).unwrap_or(0),
            "min_time" => self.min_ns.min(self.max_ns).into(),
            "max_time" => self.max_ns.into(),
            _ => self.percentile_ns(param)?.into(),
        };
        Ok(format::timestamp(i128::try_from(ns).unwrap_or(i128::MAX)))
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _value: &str,
    ) -> Result<String, HandlerError> {
        self.times.reset();
        (self.total_ns, self.min_ns, self.max_ns) = (0, u64::MAX, 0);
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            std::mem::swap(self, old);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use warpswitch_graph::simulate::{router, run};
    use warpswitch_graph::{Clock, Host, Router, Time};

    fn read(router: &mut Router, handler: &str) -> String {
        router.read(handler).expect("it is there")
    }

    #[test]
    fn times_are_counted_from_where_packets_got_them() {
        // Four packets a second, the first at once; each takes longer by a quarter than the last.
        let config = "RatedSource(RATE 4, LIMIT 100) -> SetTimestamp(1000000000)
            -> took :: TimestampAccum -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        for (handler, expected) in [
            ("took.count", "100"),
            ("took.time", "1237.500000"),
            ("took.average_time", "12.375000"),
            ("took.min_time", "0.000000"),
            ("took.max_time", "24.750000"),
            ("took.percentile 0", "0.000000"),
            ("took.percentile 100", "24.750000"),
        ] {
            assert_eq!(read(&mut router, handler), expected, "{handler}");
        }
        for (percent, expected) in [("1", 0.0), ("50", 12.25), ("99", 24.5), ("99.9", 24.75)] {
            let text = read(&mut router, &format!("took.percentile {percent}"));
            let seconds: f64 = text.parse().expect("a number");
            assert!((seconds - expected).abs() <= expected / 1000.0, "{percent}: {text}");
        }
        for percent in ["", "half", "-1", "100.1", "NaN", "inf"] {
            let error = router.read(&format!("took.percentile {percent}")).expect_err(percent);
            assert!(error.to_string().contains("from 0 to 100"), "{percent}: {error}");
        }
        router.write("took.reset_counts", "").expect("it obeys");
        for handler in ["count", "time", "average_time", "min_time", "max_time", "percentile 50"] {
            let expected = if handler == "count" { "0" } else { "0.000000" };
            assert_eq!(read(&mut router, &format!("took.{handler}")), expected, "{handler}");
        }
    }

    #[test]
    fn no_time_is_not_counted_and_others_are_held_within_bounds() {
        for (source, count, min, max) in [
            ("RatedSource(LIMIT 5) -> SetTimestamp(0)", "0", "0.000000", "0.000000"),
            ("RatedSource(LIMIT 5, RATE 0) -> SetTimestamp", "5", "0.000000", "0.000000"),
            // In the future, and longer ago than the histogram covers.
            ("RatedSource(LIMIT 1) -> SetTimestamp(2000000000)", "1", "0.000000", "0.000000"),
            (
                "RatedSource(LIMIT 1) -> SetTimestamp(1)",
                "1",
                "999999999.000000",
                "999999999.000000",
            ),
        ] {
            let config = format!("{source} -> took :: TimestampAccum -> Discard;");
            let (mut router, _) = run(&config, &crate::registry());
            for (handler, expected) in [("count", count), ("min_time", min), ("max_time", max)] {
                let text = read(&mut router, &format!("took.{handler}"));
                assert_eq!(text, expected, "{source} {handler}");
            }
            let median = read(&mut router, "took.percentile 50");
            assert_eq!(median, max, "{source}");
        }
    }

    #[test]
    fn long_times_add_up() {
        // Simulated time begins at a billion seconds: 200 such ages are more nanoseconds than 64
        // bits hold.
        let config = "InfiniteSource(LIMIT 200) -> SetTimestamp(1) -> took :: TimestampAccum
            -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(read(&mut router, "took.time"), "199999999800.000000");
        assert_eq!(read(&mut router, "took.average_time"), "999999999.000000");
    }

    /// Each look at its clock takes a millisecond.
    struct SlowClock(Arc<AtomicI64>);

    impl Host for SlowClock {
        fn now(&mut self) -> Time {
            Time(self.0.load(Ordering::Relaxed))
        }

        fn wait(&mut self, _until: Option<Time>) -> bool {
            false
        }

        fn clock(&self) -> Option<Clock> {
            let ns = self.0.clone();
            Some(Arc::new(move || Time(ns.fetch_add(1_000_000, Ordering::Relaxed))))
        }
    }

    #[test]
    fn time_passes_within_a_task() {
        let config =
            "InfiniteSource(LIMIT 1) -> SetTimestamp -> took :: TimestampAccum -> Discard;";
        let (mut router, _) = router(config, &crate::registry()).expect("it is right");
        router.run(&mut SlowClock(Arc::new(AtomicI64::new(5))));
        assert_eq!(read(&mut router, "took.time"), "0.001000");
    }
}
