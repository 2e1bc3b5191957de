//! Encapsulates packets in UDP and IPv4 headers.
//!
//! # Synopsis
//! `UDPIPEncap(SRC, SPORT, DST, DPORT [, CHECKSUM])`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `SRC`: source address
//! - `SPORT`, `DPORT`: ports, as numbers or names
//! - `DST`: destination address, also written to the destination annotation; `DST_ANNO` takes the
//!   address from that annotation
//! - `CHECKSUM`: set the UDP checksum; default: true
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `src`, `dst` | read, write | address; for `dst` also `DST_ANNO` |
//! | `sport`, `dport` | read, write | port |
//!
//! # Drops
//! - `too long`: the result would exceed the maximum IPv4 length
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 9) -> UDPIPEncap(10.0.0.1, 1234, 10.0.0.2, domain) -> ...;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec,
};
use warpswitch_packet::Batch;
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::Ipv4Repr;
use warpswitch_wire::udp::{HEADER_BYTES, Udp};

use super::ip_encap::{Destination, encapsulate};
use warpswitch_elements_lookup::names::{Port, UDP};
use warpswitch_elements_support::format::parse_seen;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("UDPIPEncap", "1/1", "a/a", || Box::new(UdpIpEncap::new()))
        .drops(&["too long"]);

/// Reasons for drops, by number.
const TOO_LONG: usize = 0;
/// Time to live of packets.
const TTL: u8 = 250;

/// See the module.
#[derive(Debug)]
pub struct UdpIpEncap {
    src: Ipv4Addr,
    src_port: Port<UDP>,
    dst: Destination,
    dst_port: Port<UDP>,
    has_checksum: bool,
    id: u16,
}

impl UdpIpEncap {
    fn new() -> Self {
        Self {
            src: Ipv4Addr::UNSPECIFIED,
            src_port: Port(0),
            dst: Destination::Address(Ipv4Addr::UNSPECIFIED),
            dst_port: Port(0),
            has_checksum: true,
            id: 0,
        }
    }
}

impl Element for UdpIpEncap {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("SRC", &mut self.src)
            .read_mp("SPORT", &mut self.src_port)
            .read_mp("DST", &mut self.dst)
            .read_mp("DPORT", &mut self.dst_port)
            .read_p("CHECKSUM", &mut self.has_checksum)
            .complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| {
            let dst = self.dst.of(packet);
            let header = Ipv4Repr {
                ttl: TTL,
                identification: self.id,
                ..Ipv4Repr::new(self.src, dst, IpProto::UDP, 0)
            };
            let Some(datagram) = encapsulate(packet, header, HEADER_BYTES) else {
                return Fate::Drop(TOO_LONG);
            };
            self.id = self.id.wrapping_add(1);
            let datagram_bytes = (datagram.len() as u16).to_be_bytes();
            datagram[..2].copy_from_slice(&self.src_port.0.to_be_bytes());
            datagram[2..4].copy_from_slice(&self.dst_port.0.to_be_bytes());
            datagram[4..6].copy_from_slice(&datagram_bytes);
            datagram[6..8].fill(0);
            if self.has_checksum {
                let pseudo = PseudoHeader::V4 { src: self.src, dst };
                Udp::new_unchecked(datagram).fill_checksum(&pseudo);
            }
            Fate::Pass
        });
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("src"),
                HandlerSpec::both("sport"),
                HandlerSpec::both("dst"),
                HandlerSpec::both("dport"),
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
            "src" => self.src.to_string(),
            "sport" => self.src_port.0.to_string(),
            "dst" => self.dst.to_string(),
            _ => self.dst_port.0.to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "src" => self.src = parse_seen(cx, value)?,
            "sport" => self.src_port = parse_seen(cx, value)?,
            "dst" => self.dst = parse_seen(cx, value)?,
            _ => self.dst_port = parse_seen(cx, value)?,
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.id = old.id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, through};
    use super::*;

    #[test]
    fn both_headers_are_right() {
        let check = |arguments: &str, ports: (u16, u16), has_checksum: bool| {
            let element = format!("UDPIPEncap(1.0.0.1, {arguments})");
            let shown = through(b"odd", &element).expect("it passes");
            let view = shown.ipv4();
            let udp = Udp::new_checked(view.payload()).expect("a datagram");
            assert_eq!((udp.src_port(), udp.dst_port()), ports);
            assert_eq!((udp.payload(), udp.checksum() != 0), (&b"odd"[..], has_checksum));
            let pseudo = PseudoHeader::V4 { src: view.src(), dst: view.dst() };
            assert!(udp.is_checksum_right(&pseudo));
            assert_eq!((view.dst(), view.ttl()), (shown.dst(), 250));
        };
        check("20, 2.0.0.2, 30", (20, 30), true);
        check("ssh, 2.0.0.2, domain, true", (22, 53), true);
        check("20, 2.0.0.2, 30, CHECKSUM false", (20, 30), false);
        check("20, DST_ANNO, 30", (20, 30), true);
    }

    #[test]
    fn ports_may_have_names_of_the_configuration() {
        let (shown, ..) = run("PortInfo(foo 79/udp, bar 80/udp ssh);
             InfiniteSource(LIMIT 1) -> UDPIPEncap(1.0.0.1, foo, 2.0.0.2, ssh) -> Show(0);
             InfiniteSource(LIMIT 1) -> { input -> UDPIPEncap(1.0.0.1, foo, 2.0.0.2, ssh)
                 -> output; PortInfo(foo 81/udp) } -> Show(1);");
        let ports = shown.iter().map(|shown| shown.bytes[20..24].to_vec());
        assert_eq!(ports.collect::<Vec<_>>(), [[0, 79, 0, 80], [0, 81, 0, 80]]);
    }

    #[test]
    fn handlers_change_what_comes() {
        let (_, _, mut router) = run("Idle -> u :: UDPIPEncap(1.0.0.1, 1, 2.0.0.2, 2) -> Idle;");
        router.write("u.sport", "www").expect("it obeys");
        router.write("u.dst", "4.3.2.1").expect("it obeys");
        let read = ["src", "sport", "dst", "dport"].map(|name| router.read(&format!("u.{name}")));
        assert_eq!(read, ["1.0.0.1", "80", "4.3.2.1", "2"].map(|text| Ok(text.to_owned())));
        assert!(router.write("u.dport", "70000").is_err());
    }
}
