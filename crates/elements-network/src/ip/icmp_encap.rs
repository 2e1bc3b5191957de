//! Encapsulates packets in ICMP and IPv4 headers.
//!
//! # Synopsis
//! `ICMPPingEncap(SRC, DST, IDENTIFIER)`, `ICMPIPEncap(SRC, DST, TYPE [, CODE], IDENTIFIER)`
//!
//! # Ports
//! One input, one output; push or pull. `ICMPPingEncap` creates echo requests.
//!
//! # Configuration
//! - `SRC`, `DST`: source and destination address; `DST` is also written to the destination
//!   annotation
//! - `TYPE`, `CODE`: ICMP type and code, as numbers or names; default code: 0
//! - `IDENTIFIER`: identifier of echo, timestamp, information and address mask messages; default:
//!   0. Their sequence numbers count up from 1 and skip 0
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `src`, `dst` | read, write | address |
//!
//! # Drops
//! - `too long`: the result would exceed the maximum IPv4 length
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 9) -> ICMPPingEncap(10.0.0.1, 10.0.0.2) -> ...;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError, Word};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec,
};
use warpswitch_packet::Batch;
use warpswitch_wire::icmp::{HEADER_BYTES, Icmp};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::Ipv4Repr;

use super::ip_encap::encapsulate;
use warpswitch_elements_lookup::names::{ICMP_TYPES, icmp_codes, number};
use warpswitch_elements_support::format::parse_seen;

/// The class `ICMPPingEncap`.
pub static PING: ElementClass =
    ElementClass::new("ICMPPingEncap", "1/1", "a/a", || Box::new(IcmpEncap::new(true)))
        .drops(&["too long"]);
/// The class `ICMPIPEncap`.
pub static ANY: ElementClass =
    ElementClass::new("ICMPIPEncap", "1/1", "a/a", || Box::new(IcmpEncap::new(false)))
        .drops(&["too long"]);

/// Reasons for drops, by number.
const TOO_LONG: usize = 0;
/// Time to live of packets.
const TTL: u8 = 255;
const ECHO_REQUEST: u8 = 8;

/// See the module.
#[derive(Debug)]
pub struct IcmpEncap {
    is_ping: bool,
    src: Ipv4Addr,
    dst: Ipv4Addr,
    kind: u8,
    code: u8,
    identifier: u16,
    /// Counts packets: 1, 2, … without 0.
    id: u16,
}

impl IcmpEncap {
    fn new(is_ping: bool) -> Self {
        let (src, dst) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED);
        Self { is_ping, src, dst, kind: ECHO_REQUEST, code: 0, identifier: 0, id: 1 }
    }

    /// Whether messages of this type have an identifier and a sequence number.
    fn is_numbered(&self) -> bool {
        matches!(self.kind, 0 | 8 | 13..=18)
    }
}

impl Element for IcmpEncap {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("SRC", &mut self.src).read_mp("DST", &mut self.dst);
        if !self.is_ping {
            let (mut kind, mut code) = (Word::default(), Word("0".to_owned()));
            args.read_mp("TYPE", &mut kind).read_p("CODE", &mut code);
            match number(ICMP_TYPES, &kind.0, context.names) {
                Ok(kind) => self.kind = kind,
                Err(_) if kind.0.is_empty() => {}
                Err(_) => args.error_at("", "ICMP type must be between 0 and 255"),
            }
            match number(icmp_codes(self.kind), &code.0, context.names) {
                Ok(code) => self.code = code,
                Err(_) => args.error_at("", "ICMP code must be between 0 and 255"),
            }
        }
        args.read("IDENTIFIER", &mut self.identifier).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| {
            let header = Ipv4Repr {
                ttl: TTL,
                identification: self.id,
                ..Ipv4Repr::new(self.src, self.dst, IpProto::ICMP, 0)
            };
            let Some(message) = encapsulate(packet, header, HEADER_BYTES) else {
                return Fate::Drop(TOO_LONG);
            };
            message[..HEADER_BYTES].fill(0);
            message[..2].copy_from_slice(&[self.kind, self.code]);
            if self.is_numbered() {
                message[4..6].copy_from_slice(&self.identifier.to_be_bytes());
                message[6..8].copy_from_slice(&self.id.to_be_bytes());
            }
            Icmp::new_unchecked(message).fill_checksum();
            packet.set_dst_ipv4(self.dst.octets());
            self.id = self.id.checked_add(1).unwrap_or(1);
            Fate::Pass
        });
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("src"), HandlerSpec::both("dst")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(if name == "src" { self.src.to_string() } else { self.dst.to_string() })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "src" => self.src = parse_seen(cx, value)?,
            _ => self.dst = parse_seen(cx, value)?,
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
    use super::super::testing::run;
    use super::*;

    #[test]
    fn pings_pass_the_checks_and_are_answered() {
        let (shown, said, _) =
            run("InfiniteSource(DATA '', LIMIT 2) -> ICMPPingEncap(1.0.0.1, 2.0.0.2, IDENTIFIER 3)
             -> CheckICMPHeader -> CheckIPHeader -> t :: Tee -> Show(0);
             t[1] -> ICMPPingResponder -> CheckIPHeader -> CheckICMPHeader -> Show(1);");
        assert_eq!(said, [""; 0]);
        let of = |label: &str, idx: usize| {
            let mut of = shown.iter().filter(|shown| shown.label == label);
            of.nth(idx).expect("two of each").clone()
        };
        let request = of("0", 1);
        assert_eq!(request.ipv4().payload()[..2], [8, 0]);
        assert_eq!(request.ipv4().payload()[4..], [0, 3, 0, 2]);
        assert_eq!((request.dst().octets(), request.ipv4().ttl()), ([2, 0, 0, 2], 255));
        let reply = of("1", 0);
        assert_eq!((reply.ipv4().src().octets(), reply.ipv4().payload()[0]), ([2, 0, 0, 2], 0));
        assert_eq!(reply.ipv4().payload()[4..], [0, 3, 0, 1]);
    }

    #[test]
    fn any_message_can_be_made() {
        let check = |arguments: &str, start: [u8; 2], numbers: [u8; 4]| {
            let config = format!(
                "InfiniteSource(DATA x, LIMIT 1) -> ICMPIPEncap(1.0.0.1, 2.0.0.2, {arguments})
                 -> Show(0);"
            );
            let shown = &run(&config).0[0];
            let view = shown.ipv4();
            let message = Icmp::new_unchecked(view.payload());
            assert!(message.is_checksum_right());
            assert_eq!([message.kind(), message.code()], start);
            assert_eq!(view.payload()[4..], [&numbers[..], b"x"].concat());
        };
        check("TYPE 8, CODE 0", [8, 0], [0, 0, 0, 1]);
        check("TYPE 3, CODE 1", [3, 1], [0; 4]);
        check("redirect, tosnet", [5, 2], [0; 4]);
        check("echo-reply, IDENTIFIER 258", [0, 0], [1, 2, 0, 1]);
    }
}
