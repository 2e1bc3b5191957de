//! Emits, or pulls and discards, one packet per interval.
//!
//! # Synopsis
//! `TimedSource([INTERVAL, DATA], LIMIT, ACTIVE, STOP, HEADROOM)`, `TimedSink([INTERVAL])`
//!
//! # Ports
//! `TimedSource`: one push output. `TimedSink`: one pull input.
//!
//! # Configuration
//! - `INTERVAL`: time between two packets; default: 0.5 s
//! - `DATA`: packet data; default: the 69 bytes of text that Click uses
//! - `LIMIT`: number of packets to emit; default: -1 (unlimited)
//! - `ACTIVE`: whether to emit packets; default: true
//! - `STOP`: whether to stop the run one interval after the last packet; default: false
//! - `HEADROOM`: minimum headroom in bytes, at most 65536; default: 64
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `interval` | read, write | time |
//! | `data`, `limit`, `active`, `headroom` | read, write | as the arguments, `TimedSource` only |
//! | `count` | read | packets |
//! | `reset` | write | sets `count` to 0 and restarts, `TimedSource` only |
//!
//! # Drops
//! None: packets that `TimedSink` discards are counted by `count`.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! TimedSource(0.1s, LIMIT 10) -> Queue -> TimedSink(0.2s);
//! ```

use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, Bytes};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::packet::{HEADROOM_BYTES, PACKET_BYTES_MAX};

use super::infinite_source::DATA;
use warpswitch_elements_support::format;

/// The class `TimedSource`.
pub static CLASS: ElementClass =
    ElementClass::new("TimedSource", "0/1", "h", || Box::<TimedSource>::default());
/// The class `TimedSink`.
pub static SINK: ElementClass =
    ElementClass::new("TimedSink", "1/0", "l", || Box::<TimedSink>::default())
        .consumes_as("discarded");

const INTERVAL: Duration = Duration::from_millis(500);
/// The most bytes of headroom.
const HEADROOM_BYTES_MAX: u32 = 1 << 16;

/// Reads an interval that a handler was given.
fn parse_interval(value: &str) -> Result<Duration, HandlerError> {
    let bad = || HandlerError::failed("bad interval");
    format::parse(value).ok().filter(|interval: &Duration| !interval.is_zero()).ok_or_else(bad)
}

/// See the module.
#[derive(Debug)]
pub struct TimedSource {
    interval: Duration,
    data: Vec<u8>,
    limit: i64,
    count: i64,
    active: bool,
    stop: bool,
    headroom: u32,
    /// When the timer runs next; none if it is not set.
    next: Option<Time>,
}

impl Default for TimedSource {
    fn default() -> Self {
        Self {
            interval: INTERVAL,
            data: DATA.to_vec(),
            limit: -1,
            count: 0,
            active: true,
            stop: false,
            headroom: HEADROOM_BYTES as u32,
            next: None,
        }
    }
}

impl TimedSource {
    fn schedule(&mut self, cx: &mut Context<'_>, at: Time) {
        self.next = Some(at);
        cx.set_timer(0, at);
    }
}

impl Element for TimedSource {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut data = Bytes(self.data.clone());
        args.read_p("INTERVAL", &mut self.interval)
            .read_p("DATA", &mut data)
            .read("LIMIT", &mut self.limit)
            .read("ACTIVE", &mut self.active)
            .read("STOP", &mut self.stop)
            .read("HEADROOM", &mut self.headroom);
        self.data = data.0;
        if self.data.len() > PACKET_BYTES_MAX {
            args.error_at("DATA", "too many bytes for a packet");
        }
        if self.interval.is_zero() {
            args.error_at("INTERVAL", "bad interval");
        }
        if self.headroom > HEADROOM_BYTES_MAX {
            args.error_at("HEADROOM", &format!("out of range, bound {HEADROOM_BYTES_MAX}"));
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if self.active {
            self.schedule(cx, cx.now() + self.interval);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        let due = self.next.take().unwrap_or(cx.now());
        if !self.active {
            return;
        }
        if self.limit >= 0 && self.count >= self.limit {
            if self.stop {
                cx.stop_driver();
            }
            return;
        }
        let now = cx.now();
        let mut packet = cx.pool().packet_of(&self.data);
        if packet.headroom() < self.headroom as usize {
            packet.grow(self.headroom as usize, HEADROOM_BYTES);
        }
        packet.set_timestamp_ns(now.0);
        cx.emit(0, packet);
        self.count += 1;
        // From when it was due, so that delays do not add up; but what was missed is missed.
        self.schedule(cx, (due + self.interval).max(now));
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("data").as_is(),
                HandlerSpec::both("limit"),
                HandlerSpec::both("interval"),
                HandlerSpec::both("active"),
                HandlerSpec::both("headroom"),
                HandlerSpec::read("count"),
                HandlerSpec::button("reset"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "data" => String::from_utf8_lossy(&self.data).into_owned(),
            "limit" => self.limit.to_string(),
            "interval" => format::interval(self.interval),
            "active" => self.active.to_string(),
            "headroom" => self.headroom.to_string(),
            _ => self.count.to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "data" => self.data = format::packet_data(value)?,
            "limit" => self.limit = format::parse(value)?,
            "interval" => self.interval = parse_interval(value)?,
            "headroom" => {
                let headroom = format::parse(value).ok().filter(|&n| n <= HEADROOM_BYTES_MAX);
                self.headroom = headroom.ok_or_else(|| HandlerError::failed("bad headroom"))?;
            }
            "active" => {
                let bad = |_| HandlerError::failed("bad active");
                self.active = format::parse(value).map_err(bad)?;
            }
            _ => self.count = 0,
        }
        if matches!(name, "active" | "reset") && self.active && self.next.is_none() {
            self.schedule(cx, cx.now());
        }
        Ok(String::new())
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.count = old.count;
            if let Some(next) = old.next.filter(|_| self.active) {
                self.schedule(cx, next);
            }
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct TimedSink {
    interval: Duration,
    count: u64,
}

impl Default for TimedSink {
    fn default() -> Self {
        Self { interval: INTERVAL, count: 0 }
    }
}

impl Element for TimedSink {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("INTERVAL", &mut self.interval);
        if self.interval.is_zero() {
            args.error_at("INTERVAL", "bad interval");
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        cx.set_timer(0, cx.now() + self.interval);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        let batch = cx.pull(0, 1);
        self.count += batch.len() as u64;
        cx.consume_batch(batch);
        cx.set_timer(0, cx.now() + self.interval);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("interval"), HandlerSpec::read("count")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "interval" => format::interval(self.interval),
            _ => self.count.to_string(),
        })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.interval = parse_interval(value)?;
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.count = old.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::Time;
    use warpswitch_graph::simulate::{SimulatedHost, run, run_until};

    #[test]
    fn a_packet_leaves_at_every_interval() {
        let config = "TimedSource(0.25, abc, LIMIT 3, STOP true, HEADROOM 100)
            -> Print(TIMESTAMP true, HEADROOM true, CONTENTS NONE) -> Discard;";
        let (_, transcript) = run(config, &crate::registry());
        let said = transcript.said();
        let times: Vec<&str> = said.lines().filter_map(|line| line.split(':').next()).collect();
        assert_eq!(times, ["1000000000.250000", "1000000000.500000", "1000000000.750000"]);
        assert!(said.contains("(h100 t"), "{said}");
    }

    #[test]
    fn a_sink_takes_one_at_every_interval() {
        let config = "InfiniteSource(LIMIT 100) -> q :: Queue -> s :: TimedSink(10ms);";
        let host = SimulatedHost::running(0, Time::SECOND / 4);
        let (mut router, _) = run_until(config, &crate::registry(), host);
        assert_eq!(
            (router.read("s.count"), router.read("q.length")),
            (Ok("25".into()), Ok("75".into()))
        );
        assert_eq!(router.read("s.interval"), Ok("10ms".into()));
        assert!(router.write("s.interval", "0").is_err());
    }
}
