//! Encapsulates packets in an IPv4 header.
//!
//! # Synopsis
//! `IPEncap(PROTO, SRC, DST, TOS, TTL, DSCP, ECT, CE, DF)`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `PROTO`: protocol of the payload, a number or a name
//! - `SRC`: source address
//! - `DST`: destination address, also written to the destination annotation; `DST_ANNO` takes the
//!   address from that annotation
//! - `TOS`: type-of-service byte; default: 0. Alternatively its parts:
//! - `DSCP`: 0 to 63
//! - `ECT`: `true` or `1` for ECT(1), `2` for ECT(0)
//! - `CE`: set the ECN field to congestion experienced; excludes `ECT`
//! - `TTL`: time to live; default: 250
//! - `DF`: set the don't-fragment flag; default: false
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `src` | read, write | address |
//! | `dst` | read, write | address, or `DST_ANNO` |
//!
//! # Drops
//! - `too long`: the result would exceed the maximum IPv4 length
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! ... -> IPEncap(ipip, 10.0.0.1, 10.0.0.2) -> ...;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{ArgError, Args, ArgsError, FromArg, Names};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{HEADER_BYTES, Ipv4, Ipv4Repr};

use warpswitch_elements_lookup::names::Protocol;
use warpswitch_elements_support::format::parse_seen;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("IPEncap", "1/1", "a/a", || Box::new(IpEncap::new())).drops(&["too long"]);

/// Reasons for drops, by number.
const TOO_LONG: usize = 0;

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// To an address.
    Address(Ipv4Addr),
    /// To the address in their annotation.
    Annotation,
}

impl FromArg for Destination {
    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        match text {
            "DST_ANNO" => Ok(Self::Annotation),
            text => Ipv4Addr::from_arg(text, names).map(Self::Address),
        }
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Annotation => f.write_str("DST_ANNO"),
        }
    }
}

impl Destination {
    /// Returns the address for `packet`; a fixed one is stored in its annotation too.
    pub(super) fn of(self, packet: &mut Packet) -> Ipv4Addr {
        match self {
            Self::Address(address) => {
                packet.set_dst_ipv4(address.octets());
                address
            }
            Self::Annotation => packet.dst_ipv4().into(),
        }
    }
}

/// Puts `header` in front of `packet`, `inner_bytes` of another header between it and the data:
/// these are given, to be written. None if the packet would be too long.
pub(super) fn encapsulate<'p>(
    packet: &'p mut Packet,
    header: Ipv4Repr<'_>,
    inner_bytes: usize,
) -> Option<&'p mut [u8]> {
    let payload_bytes = packet.len() + inner_bytes;
    u16::try_from(payload_bytes + HEADER_BYTES).ok()?;
    packet.push(HEADER_BYTES + inner_bytes);
    packet.set_ip_header(0, HEADER_BYTES);
    let header = Ipv4Repr { payload_bytes, ..header };
    let (outer, inner) = packet.data_mut().split_at_mut(HEADER_BYTES);
    header.emit(&mut Ipv4::new_unchecked(outer));
    Some(inner)
}

/// See the module.
#[derive(Debug)]
pub struct IpEncap {
    proto: u8,
    src: Ipv4Addr,
    dst: Destination,
    tos: u8,
    ttl: u8,
    dont_fragment: bool,
    id: u16,
}

/// The parts of the type-of-service byte, as they were given.
#[derive(Default)]
struct Service {
    tos: Option<u32>,
    dscp: Option<u32>,
    ect: Ect,
    ce: bool,
}

/// Which ends speak ECN: 0 for none, else the bits.
#[derive(Clone, Copy, Default)]
struct Ect(u8);

impl FromArg for Ect {
    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        match (bool::from_arg(text, names), text) {
            (Ok(is_set), _) => Ok(Self(u8::from(is_set))),
            (_, "2") => Ok(Self(2)),
            _ => Err(ArgError::new(format!("bad ECT value '{text}'"))),
        }
    }
}

impl Service {
    fn byte(&self) -> Result<u8, &'static str> {
        let has_ecn = self.ect.0 != 0 || self.ce;
        match (self.tos, self.dscp) {
            (Some(_), Some(_)) => Err("cannot set both TOS and DSCP"),
            (Some(_), None) if has_ecn => Err("cannot set both TOS and ECN bits"),
            (Some(256..), _) => Err("TOS too large; max 255"),
            (_, Some(64..)) => Err("DSCP too large; max 63"),
            _ if self.ect.0 != 0 && self.ce => Err("can set at most one ECN option"),
            (Some(tos), _) => Ok(tos as u8),
            (None, dscp) => {
                let ecn = if self.ce { 3 } else { self.ect.0 };
                Ok((dscp.unwrap_or(0) as u8) << 2 | ecn)
            }
        }
    }
}

impl IpEncap {
    fn new() -> Self {
        let src = Ipv4Addr::UNSPECIFIED;
        let dst = Destination::Address(src);
        Self { proto: 0, src, dst, tos: 0, ttl: 250, dont_fragment: false, id: 0 }
    }
}

impl Element for IpEncap {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut proto, mut service) = (Protocol::default(), Service::default());
        args.read_mp("PROTO", &mut proto)
            .read_mp("SRC", &mut self.src)
            .read_mp("DST", &mut self.dst)
            .read("TOS", &mut service.tos)
            .read("TTL", &mut self.ttl)
            .read("DSCP", &mut service.dscp)
            .read("ECT", &mut service.ect)
            .read("CE", &mut service.ce)
            .read("DF", &mut self.dont_fragment);
        self.proto = proto.0;
        match service.byte() {
            Ok(tos) => self.tos = tos,
            Err(message) => args.error_at("", message),
        }
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| {
            let dst = self.dst.of(packet);
            let header = Ipv4Repr {
                tos: self.tos,
                ttl: self.ttl,
                identification: self.id,
                dont_fragment: self.dont_fragment,
                ..Ipv4Repr::new(self.src, dst, IpProto(self.proto), 0)
            };
            match encapsulate(packet, header, 0) {
                Some(_) => {
                    self.id = self.id.wrapping_add(1);
                    Fate::Pass
                }
                None => Fate::Drop(TOO_LONG),
            }
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
    use super::super::testing::{run, through};

    #[test]
    fn headers_are_what_was_asked_for() {
        let check = |arguments: &str, tos: u8, ttl: u8, dont_fragment: bool| {
            let element = format!("IPEncap(udp, 1.2.3.4, 5.6.7.8{arguments})");
            let shown = through(b"payload", &element).expect("it passes");
            let view = shown.ipv4();
            assert_eq!((view.tos(), view.ttl(), view.dont_fragment()), (tos, ttl, dont_fragment));
            assert_eq!((view.src().octets(), view.dst().octets()), ([1, 2, 3, 4], [5, 6, 7, 8]));
            assert_eq!((view.proto().0, view.payload()), (17, &b"payload"[..]));
            assert_eq!(shown.dst(), view.dst());
        };
        check("", 0, 250, false);
        check(", TOS 7, TTL 9, DF true", 7, 9, true);
        check(", DSCP 63, ECT true", 0xfd, 250, false);
        check(", ECT 2", 2, 250, false);
        check(", CE true", 3, 250, false);
        let shown = through(b"", "SetIPAddress(9.8.7.6) -> IPEncap(4, 1.2.3.4, DST_ANNO)");
        assert_eq!(shown.expect("it passes").ipv4().dst().octets(), [9, 8, 7, 6]);
        let long = "InfiniteSource(LENGTH 65516, LIMIT 1) -> IPEncap(4, 1.1.1.1, 2.2.2.2)";
        assert_eq!(run(&format!("{long} -> Show(0);")).0, []);
    }

    #[test]
    fn identifications_count_and_addresses_can_be_changed() {
        let (shown, _, mut router) =
            run("InfiniteSource(LIMIT 3) -> e :: IPEncap(4, 1.1.1.1, DST_ANNO) -> Show(0);");
        let ids = shown.iter().map(|shown| shown.ipv4().identification());
        assert_eq!(ids.collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(router.read("e.dst"), Ok("DST_ANNO".into()));
        router.write("e.dst", "3.3.3.3").expect("it obeys");
        assert_eq!(router.read("e.dst"), Ok("3.3.3.3".into()));
    }

    #[test]
    fn wrong_arguments_are_told() {
        let check = |arguments: &str, message: &str| {
            let config = format!("Idle -> IPEncap({arguments}) -> Discard;");
            let errors = warpswitch_graph::simulate::router(&config, &crate::registry());
            let errors = errors.map(|_| ()).expect_err("it is wrong").to_click();
            assert!(errors.contains(message), "{errors}");
        };
        check("4, 1.1.1.1, here", "DST: parse error");
        check("4, 1.1.1.1, 2.2.2.2, TOS 1, DSCP 2", "cannot set both TOS and DSCP");
        check("4, 1.1.1.1, 2.2.2.2, TOS 256", "TOS too large; max 255");
        check("4, 1.1.1.1, 2.2.2.2, DSCP 64", "DSCP too large; max 63");
        check("4, 1.1.1.1, 2.2.2.2, ECT 2, CE true", "can set at most one ECN option");
        check("4, 1.1.1.1, 2.2.2.2, ECT 3", "bad ECT value '3'");
    }
}
