//! Sends ICMP echo requests periodically and reports the replies, like `ping`.
//!
//! # Synopsis
//! `ICMPPingSource(SRC, DST, INTERVAL, IDENTIFIER, LIMIT, DATA, ACTIVE, VERBOSE, STOP)`
//!
//! # Ports
//! Zero or one input, push: replies, with the IP header annotation set. Output 0, push or pull:
//! echo requests that start with the IP header. A pull output generates a request per pulled
//! packet, without `INTERVAL`.
//!
//! # Configuration
//! - `SRC`, `DST`: source and destination address; `DST` is also written to the destination
//!   annotation
//! - `INTERVAL`: time before each request; default: 1 s
//! - `IDENTIFIER`: ICMP identifier, default: 0. Sequence numbers count up from 1 and skip 0
//! - `LIMIT`: number of requests; default: -1 (unlimited)
//! - `DATA`: data after the ICMP header; default: none
//! - `ACTIVE`: whether to send requests; default: true
//! - `VERBOSE`: whether to report each reply, and a summary at the end of the run, if the input is
//!   connected; default: true
//! - `STOP`: whether to stop the run `INTERVAL` after the last request; default: false
//!
//! Packets that are no reply to one of the requests are ignored. A round-trip time ends at the
//! timestamp of the reply, or when the reply arrives at the element if it has no timestamp.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active`, `limit`, `interval`, `src`, `dst` | read, write | as the arguments |
//! | `count` | read | requests sent |
//! | `reset_counts` | write | sets all counters to 0 |
//! | `summary` | read | requests, replies, loss, and times in ms; with an input only |
//! | `rtt_min`, `rtt_avg`, `rtt_max` | read | round-trip time, with its unit; with an input only |
//!
//! # Drops
//! None: received packets are consumed.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! ping :: ICMPPingSource(0.0.0.0, 10.0.0.2, IDENTIFIER 7) -> Queue -> RawSocket(ICMP, 7)
//!     -> ping;
//! ```
//!
//! # Source
//! RFC 792.

use std::net::Ipv4Addr;
use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, Bytes, FromArg};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::icmp::{self, Icmp, TYPE_ECHO_REPLY, TYPE_ECHO_REQUEST};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{self, Ipv4, Ipv4Repr};

use super::ping_statistics::PingStatistics;
use super::support::{get_u16, ipv4, transport};
use warpswitch_elements_support::format;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ICMPPingSource", "0-1/1", "h/a", || Box::<IcmpPingSource>::default())
        .consumes_as("received")
        .flow("x/y")
        .wakes();

/// Time to live of requests.
const TTL: u8 = 200;
/// Bytes of data in the longest IPv4 packet.
const DATA_BYTES_MAX: usize = u16::MAX as usize - ipv4::HEADER_BYTES - icmp::HEADER_BYTES;
const INTERVAL: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct IcmpPingSource {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    interval: Duration,
    identifier: u16,
    limit: i64,
    data: Vec<u8>,
    active: bool,
    verbose: bool,
    stop: bool,
    count: u64,
    /// When the next request is sent; `None` if the timer is not set.
    next: Option<Time>,
    /// Exists if the input is connected.
    statistics: Option<PingStatistics>,
}

impl Default for IcmpPingSource {
    fn default() -> Self {
        Self {
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            interval: INTERVAL,
            identifier: 0,
            limit: -1,
            data: Vec::new(),
            active: true,
            verbose: true,
            stop: false,
            count: 0,
            next: None,
            statistics: None,
        }
    }
}

impl IcmpPingSource {
    /// Requests until the limit.
    fn remaining(&self) -> u64 {
        u64::try_from(self.limit).map_or(u64::MAX, |limit| limit.saturating_sub(self.count))
    }

    fn request(&mut self, cx: &mut Context<'_>) -> Packet {
        let sequence = (self.count % u64::from(u16::MAX)) as u16 + 1;
        let mut message = vec![0; icmp::HEADER_BYTES];
        message[0] = TYPE_ECHO_REQUEST;
        message[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        message[6..8].copy_from_slice(&sequence.to_be_bytes());
        message.extend_from_slice(&self.data);
        Icmp::new_unchecked(&mut message[..]).fill_checksum();
        let header = Ipv4Repr {
            ttl: TTL,
            identification: sequence,
            ..Ipv4Repr::new(self.src, self.dst, IpProto::ICMP, message.len())
        };
        let mut bytes = vec![0; ipv4::HEADER_BYTES];
        header.emit(&mut Ipv4::new_unchecked(&mut bytes[..]));
        bytes.extend_from_slice(&message);
        let now = cx.now();
        let mut packet = cx.pool().packet_of(&bytes);
        packet.set_header(Header::Network, 0);
        packet.set_header(Header::Transport, ipv4::HEADER_BYTES);
        packet.set_dst_ipv4(self.dst.octets());
        packet.set_timestamp_ns(now.0);
        if let Some(statistics) = &mut self.statistics {
            statistics.note_request(sequence, now.0);
        }
        self.count += 1;
        packet
    }

    /// Schedules the next request or the end of the run, or wakes who pulls requests.
    fn schedule(&mut self, cx: &mut Context<'_>, at: Time) {
        if !self.active || self.remaining() == 0 && !self.stop {
            return;
        }
        if cx.output_is_push(0) {
            self.next = Some(at);
            cx.set_timer(0, at);
        } else {
            cx.wake();
        }
    }

    /// Ends the run after the last request, with `STOP`.
    fn end(&mut self, cx: &mut Context<'_>) {
        if self.stop && self.active {
            cx.stop_driver();
        }
    }

    /// Counts `packet` if it is a reply to one of the requests, and reports it.
    fn receive(&mut self, cx: &mut Context<'_>, packet: &Packet) {
        let message = transport(packet);
        let Some(view) = ipv4(packet) else { return };
        let is_reply = view.proto() == IpProto::ICMP
            && view.fragment_offset() == 0
            && message.len() >= icmp::HEADER_BYTES
            && message[0] == TYPE_ECHO_REPLY
            && get_u16(message, 4) == self.identifier;
        let Some(statistics) = self.statistics.as_mut().filter(|_| is_reply) else { return };
        let sequence = get_u16(message, 6);
        let at = match packet.timestamp_ns() {
            0 => cx.now().0,
            at => at,
        };
        let Some(time_us) = statistics.note_reply(sequence, at) else { return };
        if self.verbose {
            let line = format!(
                "{}: {} bytes from {}: icmp_seq={sequence} ttl={} time={}.{:03} ms",
                cx.declaration(),
                message.len() - icmp::HEADER_BYTES,
                view.src(),
                view.ttl(),
                time_us / 1_000,
                time_us % 1_000
            );
            cx.say(&line);
        }
    }
}

/// Parses a handler value that must not be zero.
fn parse_interval(value: &str) -> Result<Duration, HandlerError> {
    let interval: Duration = format::parse(value)?;
    match interval.is_zero() {
        true => Err(HandlerError::failed("invalid interval 0; expected a time above 0")),
        false => Ok(interval),
    }
}

impl Element for IcmpPingSource {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut data = Bytes::default();
        args.read_mp("SRC", &mut self.src)
            .read_mp("DST", &mut self.dst)
            .read("INTERVAL", &mut self.interval)
            .read("IDENTIFIER", &mut self.identifier)
            .read("LIMIT", &mut self.limit)
            .read("DATA", &mut data)
            .read("ACTIVE", &mut self.active)
            .read("VERBOSE", &mut self.verbose)
            .read("STOP", &mut self.stop);
        if self.interval.is_zero() {
            args.error_at("INTERVAL", "must be above 0");
        }
        if data.0.len() > DATA_BYTES_MAX {
            args.error_at("DATA", "too many bytes for a packet");
        }
        self.data = data.0;
        self.statistics = (context.inputs > 0).then(PingStatistics::new);
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let first = cx.now() + self.interval;
        self.schedule(cx, first);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        let due = self.next.take().unwrap_or(cx.now());
        if !self.active || self.remaining() == 0 {
            return self.end(cx);
        }
        let request = self.request(cx);
        cx.emit(0, request);
        let next = due + self.interval;
        self.schedule(cx, if next < cx.now() { cx.now() + self.interval } else { next });
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pool().batch();
        if self.remaining() == 0 {
            self.end(cx);
        } else if self.active {
            for _ in 0..self.remaining().min(packets_max as u64) {
                batch.push(self.request(cx));
            }
        }
        batch
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        for packet in batch.iter() {
            self.receive(cx, packet);
        }
        cx.consume_batch(batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const ALL: &[HandlerSpec] = &[
            HandlerSpec::both("active"),
            HandlerSpec::both("limit"),
            HandlerSpec::both("interval"),
            HandlerSpec::both("src"),
            HandlerSpec::both("dst"),
            HandlerSpec::read("count"),
            HandlerSpec::button("reset_counts"),
            HandlerSpec::read("summary"),
            HandlerSpec::read("rtt_min"),
            HandlerSpec::read("rtt_avg"),
            HandlerSpec::read("rtt_max"),
        ];
        /// Handlers of a source without input.
        const WITHOUT_INPUT: usize = 7;
        if self.statistics.is_some() { ALL } else { &ALL[..WITHOUT_INPUT] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match (name, &self.statistics) {
            ("active", _) => self.active.to_string(),
            ("limit", _) => self.limit.to_string(),
            ("interval", _) => format::interval(self.interval),
            ("src", _) => self.src.to_string(),
            ("dst", _) => self.dst.to_string(),
            ("count", _) => self.count.to_string(),
            ("summary", Some(statistics)) => statistics.summary(self.count),
            ("rtt_min", Some(statistics)) => statistics.min(),
            ("rtt_avg", Some(statistics)) => statistics.average(),
            ("rtt_max", Some(statistics)) => statistics.max(),
            _ => return Err(HandlerError::Missing),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let mut delay = self.interval;
        match name {
            "active" => {
                self.active = bool::from_arg(value.trim(), &cx.names())
                    .map_err(|error| HandlerError::failed(error.to_string()))?;
                delay = Duration::ZERO;
            }
            "limit" => self.limit = format::parse(value)?,
            "interval" => {
                self.interval = parse_interval(value)?;
                return Ok(String::new());
            }
            "src" => self.src = format::parse_seen(cx, value)?,
            "dst" => self.dst = format::parse_seen(cx, value)?,
            _ => {
                self.count = 0;
                self.statistics = self.statistics.as_ref().map(|_| PingStatistics::new());
            }
        }
        if !self.active {
            self.next = None;
            cx.clear_timer(0);
        } else if self.next.is_none() {
            let next = cx.now() + delay;
            self.schedule(cx, next);
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.count = old.count;
            if self.statistics.is_some() && old.statistics.is_some() {
                self.statistics = old.statistics.take();
            }
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if let Some(statistics) = self.statistics.as_ref().filter(|_| self.verbose) {
            for line in statistics.summary(self.count).lines() {
                cx.say(&format!("{}: {line}", cx.declaration()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, router, run_until};

    use super::super::testing::{errors, run};
    use super::*;

    #[test]
    fn requests_are_whole_and_numbered() {
        let (shown, said, _) =
            run("ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 3, IDENTIFIER 258, DATA abc)
             -> CheckIPHeader -> CheckICMPHeader -> Show(0);");
        assert_eq!((shown.len(), &said[..]), (3, &[][..]));
        for (idx, shown) in shown.iter().enumerate() {
            let view = shown.ipv4();
            assert_eq!((view.src().octets(), view.ttl()), ([1, 0, 0, 1], 200));
            assert_eq!((view.dst(), shown.dst()), (shown.dst(), [2, 0, 0, 2].into()));
            let sequence = idx as u8 + 1;
            assert_eq!(view.identification(), u16::from(sequence));
            assert_eq!(view.payload()[..2], [8, 0]);
            assert_eq!(view.payload()[4..], [1, 2, 0, sequence, b'a', b'b', b'c']);
        }
    }

    #[test]
    fn reports_replies_and_a_summary() {
        let config = "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 0.5, LIMIT 3, DATA abcde)
            -> ICMPPingResponder -> Queue -> DelayUnqueue(0.02) -> p;";
        let host = SimulatedHost::running(0, 10 * Time::SECOND);
        let (mut made, transcript) = run_until(config, &crate::registry(), host);
        let said = transcript.said();
        let lines: Vec<&str> = said.lines().collect();
        let [first, _, third, summary, times] = lines[..] else { panic!("{said}") };
        let reply = "p :: ICMPPingSource: 5 bytes from 2.0.0.2: icmp_seq=1 ttl=255 time=20.000 ms";
        assert_eq!((first, third), (reply, &*reply.replace("seq=1", "seq=3")));
        let report = "p :: ICMPPingSource: 3 packets transmitted, 3 received, 0% packet loss";
        assert_eq!(summary, report);
        let report = "p :: ICMPPingSource: rtt min/avg/max/mdev = 20.000/20.000/20.000/0.000";
        assert_eq!(times, report);
        let read = ["count", "rtt_min", "rtt_avg", "rtt_max"];
        let read = read.map(|name| made.read(&format!("p.{name}")));
        assert_eq!(read, ["3", "0.02s", "0.02s", "0.02s"].map(|text| Ok(text.to_owned())));
    }

    #[test]
    fn ignores_other_packets() {
        let reply = |identifier: u8, kind: u8| {
            format!(
                "InfiniteSource(DATA x, LIMIT 1)
                 -> ICMPIPEncap(2.0.0.2, 1.0.0.1, {kind}, IDENTIFIER {identifier}) -> p;"
            )
        };
        let check = |others: &str, expected: &str| {
            let config = format!(
                "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, IDENTIFIER 7, LIMIT 1, VERBOSE false)
                 -> Discard; {others}"
            );
            // The replies arrive before the request is sent, and after it again.
            let host = SimulatedHost::running(0, 2 * Time::SECOND);
            let (mut made, transcript) = run_until(&config, &crate::registry(), host);
            let summary = made.read("p.summary").expect("it has an input");
            assert_eq!(summary.lines().next(), Some(expected), "{others}");
            assert_eq!(transcript.said(), "");
        };
        let late = |packets: &str| packets.replace("-> p;", "-> Queue -> DelayUnqueue(1.5) -> p;");
        let none = "1 packets transmitted, 0 received, 100% packet loss";
        check(&reply(7, 0), none);
        check(&late(&reply(8, 0)), none);
        check(&late(&reply(7, 8)), none);
        check("InfiniteSource(DATA x, LIMIT 1) -> p;", none);
        let one = "1 packets transmitted, 1 received, 0% packet loss";
        check(&late(&reply(7, 0)), one);
    }

    #[test]
    fn handlers_control_it() {
        let config = "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 2, ACTIVE false) -> Discard;";
        let (mut made, _) = router(config, &crate::registry()).expect("it is valid");
        let run = |made: &mut warpswitch_graph::Router, from: i64, until: i64| {
            made.run(&mut SimulatedHost::running(from * Time::SECOND, until * Time::SECOND - 1));
            made.read("p.count").expect("it has the handler")
        };
        assert_eq!(run(&mut made, 0, 5), "0");
        made.write("p.active", "true").expect("it obeys");
        assert_eq!(run(&mut made, 5, 9), "2");
        made.write("p.interval", "0.5").expect("it obeys");
        made.write("p.limit", "-1").expect("it obeys");
        assert_eq!(run(&mut made, 9, 10), "4");
        assert_eq!(run(&mut made, 10, 11), "6");
        made.write("p.reset_counts", "").expect("it obeys");
        assert_eq!(run(&mut made, 11, 12), "2");
        for (name, value) in [("interval", "0"), ("limit", "x"), ("dst", "nowhere")] {
            assert!(made.write(&format!("p.{name}"), value).is_err(), "{name}");
        }
        assert!(made.read("p.summary").is_err(), "it has no input");
    }

    #[test]
    fn a_pull_output_sends_a_request_per_packet() {
        let config = "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 40) -> c :: Counter -> Unqueue
            -> Discard;";
        let host = SimulatedHost::running(0, Time::SECOND);
        let (mut made, _) = run_until(config, &crate::registry(), host);
        assert_eq!(made.read("c.count"), Ok("40".into()));
        made.write("p.limit", "50").expect("it obeys");
        made.run(&mut SimulatedHost::running(Time::SECOND, 2 * Time::SECOND));
        assert_eq!(made.read("c.count"), Ok("50".into()));
    }

    #[test]
    fn stops_the_run_after_the_last_request() {
        for output in ["Discard", "Unqueue -> Discard"] {
            let config = format!(
                "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 3, STOP true) -> {output};
                 RatedSource(RATE 1) -> Discard;"
            );
            // Without the stop it would never end.
            let (_, _, mut made) = run(&config);
            assert_eq!(made.read("p.count"), Ok("3".into()), "{output}");
        }
    }

    #[test]
    fn rejects_values_out_of_range() {
        let zero = errors("ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 0) -> Discard");
        assert!(zero.contains("INTERVAL: must be above 0"), "{zero}");
        assert!(errors("ICMPPingSource(1.0.0.1) -> Discard").contains("DST"));
    }
}
