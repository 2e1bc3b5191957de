//! Generates UDP packets with the same Ethernet, IPv4 and UDP headers, at a fixed rate.
//!
//! # Synopsis
//! `FastUDPSource(RATE, LIMIT, LENGTH, SRCETH, SRCIP, SPORT, DSTETH, DSTIP, DPORT [, CHECKSUM,
//! INTERVAL, ACTIVE])`
//!
//! # Ports
//! One pull output.
//!
//! # Configuration
//! - `RATE`: packets per second, 0 for no limit
//! - `LIMIT`: number of packets to generate, negative for no limit
//! - `LENGTH`: bytes of a packet from the Ethernet header on, at least 60
//! - `SRCETH`, `SRCIP`, `SPORT`: source of the packets: addresses and UDP port
//! - `DSTETH`, `DSTIP`, `DPORT`: their destination; `DSTIP` is also written to the destination
//!   annotation
//! - `CHECKSUM`: whether to set the UDP checksum; default: true
//! - `INTERVAL`: number of packets after which both ports are increased by 1; default: 0 (never)
//! - `ACTIVE`: whether to generate packets; default: true
//!
//! The headers are built once, and again when the ports change. Packets depart as those of
//! `RatedSource`. The payload is zero.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `count` | read | packets |
//! | `rate` | read | packets per second from the first to the last packet, 0 before the last one |
//! | `rate` | write | as the argument |
//! | `limit` | read, write | as the argument |
//! | `active` | read, write | true or false; `true` resets, too |
//! | `reset` | write | sets `count` and the ports to their first values and starts over |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! FastUDPSource(100000, 500000, 60, 2:0:0:0:0:1, 10.0.0.1, 1234, 2:0:0:0:0:2, 10.0.0.2, 1234)
//!     -> ToDevice(eth0);
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{self, Ipv4, Ipv4Repr};
use warpswitch_wire::udp::{self, Udp, UdpRepr};

use warpswitch_elements_lookup::names::{Port, UDP};
use warpswitch_elements_support::format;
use warpswitch_elements_support::pacer::Pacer;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("FastUDPSource", "0/1", "l", || Box::<FastUdpSource>::default()).wakes();

/// Bytes of the shortest Ethernet frame, without its checksum.
const LENGTH_MIN: usize = 60;
/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Bytes of a frame with the longest IPv4 packet.
const LENGTH_MAX: usize = ETHERNET_BYTES + u16::MAX as usize;
/// Where the UDP header starts.
const UDP_AT: usize = ETHERNET_BYTES + ipv4::HEADER_BYTES;
/// The EtherType of IPv4.
const IPV4: [u8; 2] = [8, 0];
/// Time to live of packets.
const TTL: u8 = 250;
/// Shortest span that a measured rate is computed from.
const SPAN_NS_MIN: i64 = 1_000_000;

/// One end of the flow.
#[derive(Clone, Copy, Debug)]
struct Endpoint {
    ether: EtherAddress,
    ip: Ipv4Addr,
    port: Port<UDP>,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self { ether: EtherAddress([0; 6]), ip: Ipv4Addr::UNSPECIFIED, port: Port(0) }
    }
}

/// See the module.
#[derive(Debug)]
pub struct FastUdpSource {
    pacer: Pacer,
    limit: i64,
    length: usize,
    src: Endpoint,
    dst: Endpoint,
    has_checksum: bool,
    interval: u32,
    active: bool,
    count: u64,
    /// Added to both ports.
    port_shift: u16,
    /// The prebuilt packet.
    frame: Vec<u8>,
    first: Option<Time>,
    last: Option<Time>,
}

impl Default for FastUdpSource {
    fn default() -> Self {
        Self {
            pacer: Pacer::new(0),
            limit: -1,
            length: LENGTH_MIN,
            src: Endpoint::default(),
            dst: Endpoint::default(),
            has_checksum: true,
            interval: 0,
            active: true,
            count: 0,
            port_shift: 0,
            frame: Vec::new(),
            first: None,
            last: None,
        }
    }
}

impl FastUdpSource {
    /// Builds the packet for the current ports.
    fn build(&mut self) {
        let (src, dst) = (self.src, self.dst);
        self.frame.clear();
        self.frame.resize(self.length, 0);
        self.frame[..6].copy_from_slice(&dst.ether.0);
        self.frame[6..12].copy_from_slice(&src.ether.0);
        self.frame[12..ETHERNET_BYTES].copy_from_slice(&IPV4);
        let udp = UdpRepr {
            src_port: src.port.0.wrapping_add(self.port_shift),
            dst_port: dst.port.0.wrapping_add(self.port_shift),
            payload_bytes: self.length - UDP_AT - udp::HEADER_BYTES,
        };
        let ip = Ipv4Repr {
            ttl: TTL,
            ..Ipv4Repr::new(src.ip, dst.ip, IpProto::UDP, self.length - UDP_AT)
        };
        let (headers, datagram) = self.frame.split_at_mut(UDP_AT);
        ip.emit(&mut Ipv4::new_unchecked(&mut headers[ETHERNET_BYTES..]));
        udp.emit(&mut Udp::new_unchecked(&mut *datagram));
        if self.has_checksum {
            let pseudo = PseudoHeader::V4 { src: src.ip, dst: dst.ip };
            Udp::new_unchecked(datagram).fill_checksum(&pseudo);
        }
    }

    /// Packets until the limit.
    fn remaining(&self) -> u64 {
        u64::try_from(self.limit).map_or(u64::MAX, |limit| limit.saturating_sub(self.count))
    }

    fn packet(&mut self, cx: &mut Context<'_>) -> Packet {
        let mut packet = cx.pool().packet_of(&self.frame);
        packet.set_header(Header::Mac, 0);
        packet.set_header(Header::Network, ETHERNET_BYTES);
        packet.set_header(Header::Transport, UDP_AT);
        packet.set_dst_ipv4(self.dst.ip.octets());
        self.count += 1;
        if self.interval > 0 && self.count.is_multiple_of(self.interval.into()) {
            self.port_shift = self.port_shift.wrapping_add(1);
            self.build();
        }
        packet
    }

    fn reset(&mut self, cx: &mut Context<'_>) {
        (self.count, self.port_shift) = (0, 0);
        (self.first, self.last) = (None, None);
        self.build();
        self.restart(cx);
    }

    fn restart(&mut self, cx: &mut Context<'_>) {
        self.pacer.restart();
        if self.active {
            cx.wake();
        }
    }

    /// Packets per second between the first and the last packet; 0 before the last one.
    fn measured_rate(&self) -> u64 {
        let (Some(first), Some(last)) = (self.first, self.last) else { return 0 };
        let span_ns = (last.0 - first.0).max(SPAN_NS_MIN);
        let rate = u128::from(self.count) * Time::SECOND as u128 / span_ns as u128;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

impl Element for FastUdpSource {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut length, mut interval) = (0u32, 0u32);
        args.read_mp("RATE", &mut self.pacer.rate)
            .read_mp("LIMIT", &mut self.limit)
            .read_mp("LENGTH", &mut length)
            .read_mp("SRCETH", &mut self.src.ether)
            .read_mp("SRCIP", &mut self.src.ip)
            .read_mp("SPORT", &mut self.src.port)
            .read_mp("DSTETH", &mut self.dst.ether)
            .read_mp("DSTIP", &mut self.dst.ip)
            .read_mp("DPORT", &mut self.dst.port)
            .read_p("CHECKSUM", &mut self.has_checksum)
            .read_p("INTERVAL", &mut interval)
            .read_p("ACTIVE", &mut self.active);
        self.interval = interval;
        args.complete()?;
        self.length = length as usize;
        if self.length < LENGTH_MIN {
            args.warn_at("LENGTH", "packets have at least 60 bytes; using 60");
            self.length = LENGTH_MIN;
        } else if self.length > LENGTH_MAX {
            args.error_at("LENGTH", &format!("must be {LENGTH_MIN} to {LENGTH_MAX}"));
            return args.consume();
        }
        self.build();
        Ok(())
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pool().batch();
        let left = self.remaining().min(packets_max as u64);
        if !self.active || left == 0 {
            return batch;
        }
        let now = cx.now();
        for _ in 0..self.pacer.depart(now, left) {
            batch.push(self.packet(cx));
        }
        if batch.is_empty() {
            cx.set_timer(0, self.pacer.next(now));
            return batch;
        }
        self.first.get_or_insert(now);
        if self.remaining() == 0 {
            self.last = Some(now);
        }
        batch
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        cx.wake();
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("count"),
                HandlerSpec::both("rate"),
                HandlerSpec::both("limit"),
                HandlerSpec::both("active"),
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
            "count" => self.count.to_string(),
            "rate" => self.measured_rate().to_string(),
            "limit" => self.limit.to_string(),
            _ => self.active.to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "rate" => {
                self.pacer.rate = format::parse(value)?;
                self.restart(cx);
            }
            "limit" => {
                self.limit = format::parse(value)?;
                self.last = None;
                self.restart(cx);
            }
            "active" => {
                self.active = format::parse(value)?;
                if self.active {
                    self.reset(cx);
                }
            }
            _ => self.reset(cx),
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            (self.count, self.first, self.last) = (old.count, old.first, old.last);
            self.pacer.take_state(&old.pacer);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, run_until};

    use super::super::testing::{errors, run};
    use super::*;

    const FLOW: &str = "1:0:0:0:0:1, 1.0.0.1, 1234, 2:0:0:0:0:2, 2.0.0.2, 65535";

    #[test]
    fn packets_have_the_configured_headers() {
        let check = |arguments: &str, bytes: usize, has_checksum: bool, ports: &[(u16, u16)]| {
            let limit = ports.len();
            let config = format!(
                "FastUDPSource(0, {limit}, {bytes}, {FLOW}{arguments}) -> Unqueue
                 -> CheckIPHeader(OFFSET 14) -> CheckUDPHeader -> Show(0);"
            );
            let (shown, said, _) = run(&config);
            assert_eq!((shown.len(), &said[..]), (limit, &[][..]), "{arguments}");
            for (shown, ports) in shown.iter().zip(ports) {
                assert_eq!(shown.bytes.len(), bytes);
                assert_eq!(shown.bytes[..14], [2, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 1, 8, 0]);
                let ip = Ipv4::new_checked(&shown.bytes[14..]).expect("a whole packet");
                assert_eq!((ip.total_bytes(), ip.ttl()), (bytes - 14, 250));
                assert_eq!((ip.src().octets(), ip.dst().octets()), ([1, 0, 0, 1], [2, 0, 0, 2]));
                assert_eq!(shown.dst(), ip.dst());
                let udp = Udp::new_checked(ip.payload()).expect("a datagram");
                assert_eq!((udp.src_port(), udp.dst_port()), *ports);
                assert_eq!(udp.checksum() != 0, has_checksum);
            }
        };
        check("", 60, true, &[(1234, 65535); 3]);
        check(", false", 1500, false, &[(1234, 65535)]);
        let ports = [(1234, 65535), (1234, 65535), (1235, 0), (1235, 0), (1236, 1)];
        check(", true, 2, true", 61, true, &ports);
    }

    #[test]
    fn keeps_its_rate_until_the_limit() {
        let config = format!(
            "s :: FastUDPSource(100, 50, 60, {FLOW}) -> c :: Counter -> Unqueue -> Discard;"
        );
        let until = SimulatedHost::running(0, Time::SECOND / 4 - 1);
        let (mut router, _) = run_until(&config, &crate::registry(), until);
        let read = ["c.count", "s.rate"].map(|name| router.read(name));
        assert_eq!(read, ["25", "0"].map(|text| Ok(text.to_owned())));
        router.run(&mut SimulatedHost::running(Time::SECOND / 4, 2 * Time::SECOND));
        // 50 packets in 490 ms.
        let read = ["s.count", "c.count", "s.rate"].map(|name| router.read(name));
        assert_eq!(read, ["50", "50", "102"].map(|text| Ok(text.to_owned())));
    }

    #[test]
    fn handlers_stop_and_restart_it() {
        let config = format!(
            "s :: FastUDPSource(10, -1, 60, {FLOW}, true, 0, false) -> Unqueue -> Discard;"
        );
        let run = |router: &mut warpswitch_graph::Router, from: i64, until: i64| {
            router.run(&mut SimulatedHost::running(from * Time::SECOND, until * Time::SECOND - 1));
            router.read("s.count").expect("it has the handler")
        };
        let until = SimulatedHost::running(0, Time::SECOND);
        let (mut router, _) = run_until(&config, &crate::registry(), until);
        assert_eq!(router.read("s.count"), Ok("0".into()), "inactive");
        router.write("s.active", "true").expect("it obeys");
        assert_eq!(run(&mut router, 1, 2), "10");
        router.write("s.rate", "20").expect("it obeys");
        assert_eq!(run(&mut router, 2, 3), "30");
        router.write("s.limit", "33").expect("it obeys");
        assert_eq!(run(&mut router, 3, 4), "33");
        router.write("s.reset", "").expect("it obeys");
        assert_eq!(run(&mut router, 4, 5), "20");
        router.write("s.active", "false").expect("it obeys");
        assert_eq!(run(&mut router, 5, 6), "20");
        assert!(router.write("s.rate", "-1").is_err());
    }

    #[test]
    fn rejects_lengths_that_are_no_packets() {
        let with = |length: &str| errors(&format!("FastUDPSource(1, 1, {length}, {FLOW}) -> Idle"));
        assert!(with("65550").contains("LENGTH: must be 60 to 65549"), "{}", with("65550"));
        assert_eq!(with("65549"), "");
        assert!(with("-1").contains("LENGTH"), "{}", with("-1"));
        assert_eq!(with("20"), "");
        assert!(errors("FastUDPSource(1, 1, 60) -> Idle").contains("SRCETH"));
    }
}
