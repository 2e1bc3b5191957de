//! Limits the packet rate, with bursts.
//!
//! # Synopsis
//! `RatedUnqueue(RATE, BURST_DURATION, BURST_SIZE)`,
//! `BandwidthRatedUnqueue(RATE, BURST_DURATION, BURST_BYTES)`,
//! `RatedSplitter(RATE, BURST_DURATION, BURST_SIZE)`,
//! `BandwidthRatedSplitter(RATE, BURST_DURATION, BURST_BYTES)`
//!
//! # Ports
//! Unqueues: one pull input, one push output. Splitters: one push input; packets within the rate
//! are emitted on output 0, others on the optional output 1.
//!
//! # Configuration
//! - `RATE`: packets per second, or a bandwidth; 0 for no limit
//! - `BURST_DURATION`: burst size as time at `RATE`; default: 20 ms
//! - `BURST_SIZE`: burst size in packets, in place of `BURST_DURATION`
//! - `BURST_BYTES`: burst size in bytes, in place of `BURST_DURATION`
//!
//! A token bucket is refilled every millisecond; it starts full. If tokens are bytes, a packet
//! passes if any tokens are left; later packets wait until its excess is refilled.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `rate` | read, write | packets per second, or a bandwidth |
//! | `config` | read | the rate |
//! | `calls` | read | statistics of task runs, unqueues only |
//! | `active` | read, write | whether packets pass, unqueues only |
//! | `scheduled` | read | whether the task is scheduled, unqueues only |
//!
//! # Drops
//! - `over rate`: packet beyond the rate in a splitter without output 1
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! InfiniteSource -> Queue -> RatedUnqueue(1000) -> Discard;
//! ```

use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, Bandwidth};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec,
};
use warpswitch_packet::{BATCH_LEN_MAX, Batch};

use warpswitch_elements_support::bucket::TokenBucket;
use warpswitch_elements_support::format;

/// The class `RatedUnqueue`.
pub static UNQUEUE: ElementClass =
    ElementClass::new("RatedUnqueue", "1/1", "l/h", || Box::new(RatedUnqueue::new(false)));
/// The class `BandwidthRatedUnqueue`.
pub static BANDWIDTH_UNQUEUE: ElementClass =
    ElementClass::new("BandwidthRatedUnqueue", "1/1", "l/h", || Box::new(RatedUnqueue::new(true)));
/// The class `RatedSplitter`.
pub static SPLITTER: ElementClass =
    ElementClass::new("RatedSplitter", "1/1-2", "h/h", || Box::new(RatedSplitter::new(false)))
        .drops(&["over rate"]);
/// The class `BandwidthRatedSplitter`.
pub static BANDWIDTH_SPLITTER: ElementClass =
    ElementClass::new("BandwidthRatedSplitter", "1/1-2", "h/h", || {
        Box::new(RatedSplitter::new(true))
    })
    .drops(&["over rate"]);

/// Tokens of a bucket for bytes that never pass: a packet may take them, and then they are missing.
/// No smaller than any packet that is usual.
const DEBT_BYTES: u32 = 131_072;
/// Default length of a burst.
const BURST_DURATION: Duration = Duration::from_millis(20);

/// A bucket and what it was made from.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bucket: TokenBucket,
    is_bandwidth: bool,
    burst: Option<u32>,
    duration: Duration,
}

impl Limit {
    fn new(is_bandwidth: bool) -> Self {
        let bucket = TokenBucket::default();
        Self { bucket, is_bandwidth, burst: None, duration: BURST_DURATION }
    }

    fn configure(&mut self, args: &mut Args<'_>) -> Result<(), ArgsError> {
        let mut duration = None::<Duration>;
        let rate = if self.is_bandwidth {
            let mut rate = Bandwidth::default();
            args.read_mp("RATE", &mut rate);
            rate.bytes_per_second.min(u32::MAX.into()) as u32
        } else {
            let mut rate = 0u32;
            args.read_mp("RATE", &mut rate);
            rate
        };
        args.read("BURST_DURATION", &mut duration);
        args.read(if self.is_bandwidth { "BURST_BYTES" } else { "BURST_SIZE" }, &mut self.burst);
        if duration.is_some() && self.burst.is_some() {
            args.error_at("", "cannot specify both BURST_DURATION and BURST_SIZE");
        }
        self.duration = duration.unwrap_or(BURST_DURATION);
        self.set_rate(rate);
        args.complete()
    }

    fn set_rate(&mut self, rate: u32) {
        let of_duration = u128::from(rate) * self.duration.as_millis() / 1_000;
        let of_duration = u32::try_from(of_duration).unwrap_or(u32::MAX);
        let mut burst = self.burst.unwrap_or(of_duration);
        if self.is_bandwidth {
            burst = burst.saturating_add(DEBT_BYTES);
        }
        self.bucket.assign(rate, burst.max(1));
    }

    /// What must be in the bucket for a packet to pass.
    fn needed(&self) -> u32 {
        if self.is_bandwidth { DEBT_BYTES } else { 1 }
    }

    /// Takes a packet of so many bytes out, if it may pass.
    #[inline]
    fn pass(&mut self, bytes: usize) -> bool {
        let passes = self.bucket.contains(self.needed());
        if passes {
            self.take(bytes);
        }
        passes
    }

    #[inline]
    fn take(&mut self, bytes: usize) {
        self.bucket.remove(if self.is_bandwidth { bytes as u32 } else { 1 });
    }

    fn read(&self) -> String {
        match self.is_bandwidth {
            true => format::bandwidth(self.bucket.rate().into()),
            false => self.bucket.rate().to_string(),
        }
    }

    fn write(&mut self, value: &str) -> Result<(), HandlerError> {
        let rate = if self.is_bandwidth {
            let rate: Bandwidth = format::parse(value)?;
            rate.bytes_per_second.min(u32::MAX.into()) as u32
        } else {
            format::parse(value)?
        };
        self.set_rate(rate);
        Ok(())
    }
}

/// See the module.
#[derive(Debug)]
pub struct RatedUnqueue {
    limit: Limit,
    active: bool,
    is_woken: bool,
    runs: u64,
    packets: u64,
    pushes: u64,
    failed_pulls: u64,
    empty_runs: u64,
}

impl RatedUnqueue {
    fn new(is_bandwidth: bool) -> Self {
        Self {
            limit: Limit::new(is_bandwidth),
            active: true,
            is_woken: false,
            runs: 0,
            packets: 0,
            pushes: 0,
            failed_pulls: 0,
            empty_runs: 0,
        }
    }

    /// Pulls as many packets as may pass. Returns whether there may be more.
    fn fill(&mut self, cx: &mut Context<'_>, batch: &mut Batch) -> bool {
        if !self.limit.is_bandwidth {
            let packets_max = (self.limit.bucket.size() as usize).min(BATCH_LEN_MAX);
            let mut got = cx.pull(0, packets_max);
            self.limit.bucket.remove(got.len() as u32);
            batch.append(&mut got);
            cx.pool().recycle_empty(got);
            return !batch.is_empty();
        }
        // How many may pass shows only as they come.
        while batch.len() < BATCH_LEN_MAX && self.limit.bucket.contains(DEBT_BYTES) {
            let mut got = cx.pull(0, 1);
            let bytes = got.bytes() as usize;
            let is_empty = got.is_empty();
            batch.append(&mut got);
            cx.pool().recycle_empty(got);
            if is_empty {
                return !batch.is_empty();
            }
            self.limit.take(bytes);
        }
        true
    }
}

impl Element for RatedUnqueue {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.limit.configure(args)
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.is_woken = cx.listen_upstream(0);
        cx.schedule_task();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        self.runs += 1;
        if !self.active {
            return false;
        }
        self.limit.bucket.refill(cx.now());
        if !self.limit.bucket.contains(self.limit.needed()) {
            self.empty_runs += 1;
            cx.set_timer(0, self.limit.bucket.time_of(self.limit.needed()));
            return false;
        }
        let mut batch = cx.pool().batch();
        let has_more = self.fill(cx, &mut batch);
        let worked = !batch.is_empty();
        self.packets += batch.len() as u64;
        self.pushes += u64::from(worked);
        self.failed_pulls += u64::from(!worked);
        cx.emit_batch(0, batch);
        if has_more || !self.is_woken {
            cx.schedule_task();
        }
        worked
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        cx.schedule_task();
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("calls"),
                HandlerSpec::both("rate"),
                HandlerSpec::both("active"),
                HandlerSpec::read("config"),
                HandlerSpec::read("scheduled"),
            ]
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "calls" => format!(
                "{} calls to run_task()\n{} empty runs\n{} pushes\n{} failed pulls\n{} packets\n",
                self.runs, self.empty_runs, self.pushes, self.failed_pulls, self.packets
            ),
            "active" => self.active.to_string(),
            "scheduled" => cx.task_is_scheduled().to_string(),
            _ => self.limit.read(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "active" => self.active = format::parse(value)?,
            _ => self.limit.write(value)?,
        }
        cx.schedule_task();
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            let rate = self.limit.bucket.rate();
            self.limit.bucket = old.limit.bucket;
            self.limit.set_rate(rate);
            (self.packets, self.pushes) = (old.packets, old.pushes);
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct RatedSplitter {
    limit: Limit,
}

impl RatedSplitter {
    fn new(is_bandwidth: bool) -> Self {
        Self { limit: Limit::new(is_bandwidth) }
    }
}

impl Element for RatedSplitter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.limit.configure(args)
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        self.limit.bucket.refill(cx.now());
        cx.sort(batch, |_, packet| match self.limit.pass(packet.len()) {
            true => Fate::Pass,
            false => Fate::EmitOrDrop(1, 0),
        });
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("rate"), HandlerSpec::read("config")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.limit.read())
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.limit.write(value).map(|()| String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            let rate = self.limit.bucket.rate();
            self.limit.bucket = old.limit.bucket;
            self.limit.set_rate(rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::Time;
    use warpswitch_graph::simulate::{SimulatedHost, router, run_until};

    /// Packets that `config` counts as `c` in ten seconds.
    fn passed(config: &str) -> String {
        let host = SimulatedHost::running(0, 10 * Time::SECOND - 1);
        let (mut router, _) = run_until(config, &crate::registry(), host);
        router.read("c.count").expect("it is there")
    }

    #[test]
    fn an_unqueue_passes_as_many_packets_as_in_click() {
        for (arguments, expected) in [
            ("2", "20"),
            ("RATE 2, BURST_SIZE 50", "69"),
            ("RATE 2, BURST_DURATION 25", "69"),
            ("RATE 100, BURST_SIZE 1", "910"),
            ("RATE 5000, BURST_SIZE 100", "50095"),
        ] {
            let unqueue = format!("RatedUnqueue({arguments}) -> c :: Counter -> Discard;");
            let config = format!("InfiniteSource -> Queue(10) -> {unqueue}");
            assert_eq!(passed(&config), expected, "{arguments}");
        }
        for (arguments, expected) in [
            ("RATE 200Bps", "21"),
            ("RATE 200Bps, BURST_BYTES 5000", "71"),
            ("RATE 200Bps, BURST_DURATION 25", "71"),
            ("RATE 10000Bps, BURST_BYTES 100", "1001"),
        ] {
            let unqueue = format!("BandwidthRatedUnqueue({arguments}) -> c :: Counter -> Discard;");
            let config = format!("InfiniteSource(LENGTH 100) -> Queue(10) -> {unqueue}");
            assert_eq!(passed(&config), expected, "{arguments}");
        }
    }

    #[test]
    fn a_splitter_passes_as_many_packets_as_in_click() {
        for (source, arguments, expected) in [
            ("10", "RATE 2", "20"),
            ("10", "RATE 2, BURST_SIZE 50", "69"),
            ("10", "RATE 2, BURST_DURATION 25", "69"),
            ("200", "RATE 100, BURST_SIZE 2", "1001"),
        ] {
            let split = format!("RatedSplitter({arguments}) -> c :: Counter -> Discard;");
            let config =
                format!("InfiniteSource -> Queue(10) -> RatedUnqueue({source}) -> {split}");
            assert_eq!(passed(&config), expected, "{arguments}");
        }
        for (source, arguments, expected) in [
            ("2000Bps", "RATE 200Bps", "20"),
            ("2000Bps", "RATE 200Bps, BURST_BYTES 5000", "70"),
            ("2000Bps", "RATE 200Bps, BURST_DURATION 25", "70"),
            ("20000Bps", "RATE 10000Bps, BURST_BYTES 100", "1001"),
        ] {
            let config = format!(
                "InfiniteSource(LENGTH 100) -> Queue(10) -> BandwidthRatedUnqueue(RATE {source})
                 -> s :: BandwidthRatedSplitter({arguments}) -> c :: Counter -> Discard;"
            );
            assert_eq!(passed(&config), expected, "{arguments}");
        }
    }

    #[test]
    fn what_a_splitter_does_not_pass_is_dropped_or_leaves_elsewhere() {
        let config = "InfiniteSource(LIMIT 10, BURST 10) -> s :: RatedSplitter(1, BURST_SIZE 3)
            -> c :: Counter -> Discard;";
        assert_eq!(passed(config), "3");
        let config = format!("{config} s[1] -> d :: Counter -> Discard;");
        let host = SimulatedHost::default();
        let (mut router, _) = run_until(&config, &crate::registry(), host);
        assert_eq!(
            (router.read("c.count"), router.read("d.count")),
            (Ok("3".into()), Ok("7".into()))
        );
        router.write("s.rate", "25").expect("it obeys");
        assert_eq!(router.read("s.rate"), Ok("25".into()));
    }

    #[test]
    fn two_ways_to_tell_a_burst_are_one_too_many() {
        let config = "Idle -> RatedUnqueue(1, BURST_SIZE 2, BURST_DURATION 1s) -> Discard";
        let errors = router(config, &crate::registry()).err().expect("it is wrong");
        let expected = "cannot specify both BURST_DURATION and BURST_SIZE";
        assert!(errors.to_click().contains(expected), "{}", errors.to_click());
    }
}
