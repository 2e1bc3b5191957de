//! Passes packets whose timestamps are within a time span.
//!
//! # Synopsis
//! `TimeFilter([START, END], START_DELAY, END_DELAY, START_AFTER, END_AFTER, INTERVAL, STOP,
//! END_CALL)`
//!
//! # Ports
//! One input, one or two outputs; push or pull. Packets outside of the span are emitted on output 1
//! if it is connected.
//!
//! # Configuration
//! - `START`, `END`: start (inclusive) and end (exclusive) of the span, in seconds since 1970;
//!   default: from the timestamp of the first packet, without end
//! - `START_DELAY`, `END_DELAY`: same, relative to the start of the run
//! - `START_AFTER`, `END_AFTER`: same, relative to the timestamp of the first packet
//! - `INTERVAL`: length of the span
//! - `STOP`: whether to stop the run at the first packet after the span; default: false
//! - `END_CALL`: write handler to call at the first packet after the span, with each `$t` replaced
//!   by the packet's timestamp; not with `STOP`. It may extend the span.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `start`, `end` | write | time |
//! | `interval` | read, write | length of the span |
//! | `extend_interval` | write | time to add to the end of the span |
//!
//! # Drops
//! - `outside of the span`: timestamp outside of the span
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> TimeFilter(START_AFTER 10s, INTERVAL 1m, STOP true) -> Discard;
//! ```

use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, Packet};

use warpswitch_elements_support::calls::wrong_call;
use warpswitch_elements_support::format;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("TimeFilter", "1/1-2", "a/ah", || Box::<TimeFilter>::default())
        .drops(&["outside of the span"]);

/// What an end of the span is counted from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum From {
    #[default]
    Epoch,
    Run,
    FirstPacket,
    /// The other end.
    Start,
}

/// See the module.
#[derive(Debug, Default)]
pub struct TimeFilter {
    start: (From, i64),
    end: (From, i64),
    stop: bool,
    end_call: String,
    /// Whether the call is yet to be made.
    calls: bool,
    /// Whether both ends are counted from 1970.
    ready: bool,
}

fn ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// The one of `choices` that was given.
fn choose(choices: &[(From, Duration)]) -> Result<Option<(From, i64)>, ()> {
    let mut given = choices.iter().filter(|(_, time)| !time.is_zero());
    let first = given.next().map(|&(from, time)| (from, ns(time)));
    if given.next().is_some() { Err(()) } else { Ok(first) }
}

impl TimeFilter {
    fn see_first(&mut self, packet: &Packet) {
        let seen = packet.timestamp_ns();
        if self.start.0 == From::FirstPacket {
            self.start.1 = self.start.1.saturating_add(seen);
        }
        match self.end.0 {
            From::FirstPacket => self.end.1 = self.end.1.saturating_add(seen),
            From::Start => self.end.1 = self.end.1.saturating_add(self.start.1),
            From::Epoch | From::Run => {}
        }
        self.ready = true;
    }

    /// Does what is to be done behind the span, of a packet whose time is `at`.
    #[cold]
    fn pass_end(&mut self, cx: &mut Context<'_>, at: i64) {
        if !std::mem::take(&mut self.calls) {
            return;
        }
        if self.stop {
            cx.stop_driver();
        } else {
            let call = self.end_call.replace("$t", &format::timestamp(at));
            cx.lend(self, |cx| cx.call_handler(&call));
        }
    }
}

/// What to do where there are several times of one end.
const ONE_OF_TIMES: &str = "leave all but one out: START and END are times, …_DELAY count from the \
    start of the run, …_AFTER from the first packet, INTERVAL from the start of the span";

impl Element for TimeFilter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let [mut start, mut end, mut start_delay, mut end_delay] = [Duration::ZERO; 4];
        let [mut start_after, mut end_after, mut interval] = [Duration::ZERO; 3];
        let mut end_call = Raw(String::new());
        args.read_p("START", &mut start)
            .read_p("END", &mut end)
            .read("START_DELAY", &mut start_delay)
            .read("END_DELAY", &mut end_delay)
            .read("START_AFTER", &mut start_after)
            .read("END_AFTER", &mut end_after)
            .read("INTERVAL", &mut interval)
            .read("STOP", &mut self.stop)
            .read("END_CALL", &mut end_call);
        args.complete()?;
        let starts =
            [(From::Epoch, start), (From::Run, start_delay), (From::FirstPacket, start_after)];
        match choose(&starts) {
            Ok(start) => self.start = start.unwrap_or((From::FirstPacket, 0)),
            Err(()) => {
                let names = "START, START_DELAY, and START_AFTER";
                args.error_at("", &format!("{names} are mutually exclusive"));
                args.help(ONE_OF_TIMES);
            }
        }
        let ends = [
            (From::Epoch, end),
            (From::Run, end_delay),
            (From::FirstPacket, end_after),
            (From::Start, interval),
        ];
        match choose(&ends) {
            Ok(end) => self.end = end.unwrap_or((From::Epoch, i64::MAX)),
            Err(()) => {
                let names = "END, END_DELAY, END_AFTER, and INTERVAL";
                args.error_at("", &format!("{names} are mutually exclusive"));
                args.help(ONE_OF_TIMES);
            }
        }
        self.end_call = end_call.0;
        if self.stop && !self.end_call.is_empty() {
            args.error_by("END_CALL", "END_CALL and STOP are mutually exclusive");
            args.help(warpswitch_elements_support::calls::STOP_OR_CALL);
        }
        self.calls = self.stop || !self.end_call.is_empty();
        args.consume()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let now = cx.now().0;
        for (from, at) in [&mut self.start, &mut self.end] {
            if *from == From::Run {
                *at = at.saturating_add(now);
            }
        }
        Ok(())
    }

    fn wrong_calls(&self, cx: &mut Context<'_>) -> Vec<String> {
        wrong_call(cx, "END_CALL", &self.end_call, self.handlers()).into_iter().collect()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |cx, packet| {
            if !self.ready {
                self.see_first(packet);
            }
            let at = packet.timestamp_ns();
            if at >= self.start.1 && at >= self.end.1 {
                // The call may make room for this packet, and be called for again.
                let mut before = i64::MIN;
                while at >= self.end.1 && self.calls && self.end.1 > before {
                    before = self.end.1;
                    self.pass_end(cx, at);
                }
            }
            let passes = (self.start.1..self.end.1).contains(&at);
            if passes { Fate::Pass } else { Fate::EmitOrDrop(1, 0) }
        });
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::write("start"),
                HandlerSpec::write("end"),
                HandlerSpec::both("interval"),
                HandlerSpec::write("extend_interval"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(format::timestamp(self.end.1.saturating_sub(self.start.1)))
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let time = format::parse(value).map_err(|_| HandlerError::failed("expected time"))?;
        match name {
            "start" => self.start = (From::Epoch, ns(time)),
            "end" => self.end = (From::Epoch, ns(time)),
            "interval" => self.end.1 = self.start.1.saturating_add(ns(time)),
            "extend_interval" => self.end.1 = self.end.1.saturating_add(ns(time)),
            _ => return Err(HandlerError::Missing),
        }
        if name != "start" {
            self.calls = self.stop || !self.end_call.is_empty();
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>()
            && old.ready
        {
            (self.start, self.end) = (old.start, old.end);
            (self.ready, self.calls) = (true, old.calls);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    /// Packets that pass, and that do not, of ten that are a second apart.
    fn counts(arguments: &str) -> (String, String) {
        let config = format!(
            "RatedSource(RATE 1, LIMIT 10) -> f :: TimeFilter({arguments}) -> a :: Counter
             -> Discard; f[1] -> b :: Counter -> Discard;"
        );
        let (mut router, _) = run(&config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        (read("a.count"), read("b.count"))
    }

    #[test]
    fn packets_pass_within_the_span() {
        for (arguments, passed, others) in [
            ("", "10", "0"),
            ("1000000003", "7", "3"),
            ("1000000003, 1000000005", "2", "8"),
            ("START_DELAY 2.5s, END_DELAY 7s", "4", "6"),
            ("START_AFTER 1, INTERVAL 4", "4", "6"),
            ("END_AFTER 3s", "3", "7"),
            ("INTERVAL 3s, STOP true", "3", "1"),
            ("INTERVAL 3s, END_CALL f.extend_interval 2s", "10", "0"),
            ("INTERVAL 3s, END_CALL f.extend_interval 0s", "3", "7"),
        ] {
            assert_eq!(counts(arguments), (passed.into(), others.into()), "{arguments}");
        }
    }

    #[test]
    fn a_script_that_is_called_reaches_the_filter() {
        let config = "RatedSource(RATE 1, LIMIT 10) -> f :: TimeFilter(INTERVAL 3s,
                END_CALL s.run $t) -> a :: Counter -> Discard;
            s :: Script(TYPE PASSIVE, print $1, write f.extend_interval 2s, print $(f.interval))";
        let (mut router, transcript) = run(config, &crate::registry());
        assert_eq!(router.read("a.count").expect("it is there"), "10");
        let printed = String::from_utf8(transcript.printed()).expect("text");
        let expected = "1000000003.000000\n5.000000\n1000000005.000000\n7.000000\n\
            1000000007.000000\n9.000000\n1000000009.000000\n11.000000\n";
        assert_eq!(printed, expected);
    }

    #[test]
    fn an_end_is_told_once() {
        for (arguments, message) in [
            ("START 1, START_AFTER 2", "START, START_DELAY, and START_AFTER are mutually"),
            ("END 1, INTERVAL 2", "and INTERVAL are mutually exclusive"),
            ("STOP true, END_CALL stop", "END_CALL and STOP are mutually exclusive"),
        ] {
            let config = format!("Idle -> TimeFilter({arguments}) -> Discard");
            let errors = router(&config, &crate::registry()).err().expect("it is wrong");
            assert!(errors.to_click().contains(message), "{}", errors.to_click());
        }
    }
}
