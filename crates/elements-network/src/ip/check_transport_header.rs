//! Checks TCP, UDP and ICMP headers.
//!
//! # Synopsis
//! `CheckTCPHeader(VERBOSE, DETAILS)`, `CheckUDPHeader(VERBOSE, DETAILS)`,
//! `CheckICMPHeader(VERBOSE, DETAILS)`
//!
//! # Ports
//! One input, one or two outputs; push or pull, output 1 is push. Valid packets are emitted on
//! output 0, invalid packets on output 1 if it is connected.
//!
//! # Configuration
//! - `VERBOSE`: report every invalid packet, not only the first; default: false
//! - `DETAILS`: enable the handler `drop_details`; default: false
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `drops` | read | invalid packets, also those on output 1 |
//! | `drop_details` | read | invalid packets by reason |
//!
//! # Drops
//! - `not TCP`, `not UDP`, `not ICMP`: another protocol, or no IPv4 header
//! - `bad packet length`: shorter than the transport header or than its length fields, or an ICMP
//!   message with a length that is invalid for its type
//! - `bad TCP checksum`, `bad UDP checksum`, `bad ICMP checksum`: wrong checksum; UDP packets
//!   without checksum are valid
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> CheckIPHeader -> CheckTCPHeader -> ...;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum::{self, PseudoHeader};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::tcp::Tcp;
use warpswitch_wire::udp::Udp;

use super::icmp_error::is_error_type;
use super::support::{Failures, ipv4};

/// The class `CheckTCPHeader`.
pub static TCP: ElementClass =
    class("CheckTCPHeader", || Box::new(CheckHeader::new(&TCP_CHECK))).drops(TCP_CHECK.reasons);
/// The class `CheckUDPHeader`.
pub static UDP: ElementClass =
    class("CheckUDPHeader", || Box::new(CheckHeader::new(&UDP_CHECK))).drops(UDP_CHECK.reasons);
/// The class `CheckICMPHeader`.
pub static ICMP: ElementClass =
    class("CheckICMPHeader", || Box::new(CheckHeader::new(&ICMP_CHECK))).drops(ICMP_CHECK.reasons);

const fn class(name: &'static str, make: fn() -> Box<dyn Element>) -> ElementClass {
    ElementClass::new(name, "1/1-2", "a/ah", make)
}

/// Reasons for drops, by number.
const OTHER: usize = 0;
const LENGTH: usize = 1;
const CHECKSUM: usize = 2;

/// How one protocol is checked.
#[derive(Debug)]
struct Check {
    protocol: &'static str,
    reasons: &'static [&'static str],
    check: fn(&Packet) -> Result<(), usize>,
}

const TCP_CHECK: Check = Check {
    protocol: "TCP",
    reasons: &["not TCP", "bad packet length", "bad TCP checksum"],
    check: check_tcp,
};
const UDP_CHECK: Check = Check {
    protocol: "UDP",
    reasons: &["not UDP", "bad packet length", "bad UDP checksum"],
    check: check_udp,
};
const ICMP_CHECK: Check = Check {
    protocol: "ICMP",
    reasons: &["not ICMP", "bad packet length", "bad ICMP checksum"],
    check: check_icmp,
};

/// Returns the bytes after the IPv4 header of a packet of this protocol, their number according to
/// that header, and the pseudo-header.
fn payload(packet: &Packet, proto: IpProto) -> Result<(&[u8], usize, PseudoHeader), usize> {
    let view = ipv4(packet).filter(|view| view.proto() == proto).ok_or(OTHER)?;
    let pseudo = view.pseudo_header();
    let bytes = &packet.from_header(Header::Network)[view.header_bytes()..];
    let said_bytes = view.total_bytes().checked_sub(view.header_bytes()).ok_or(LENGTH)?;
    Ok((bytes, said_bytes, pseudo))
}

fn check_tcp(packet: &Packet) -> Result<(), usize> {
    let (bytes, segment_bytes, pseudo) = payload(packet, IpProto::TCP)?;
    let segment = bytes.get(..segment_bytes).ok_or(LENGTH)?;
    let segment = Tcp::new_checked(segment).map_err(|_| LENGTH)?;
    if segment.is_checksum_right(&pseudo) { Ok(()) } else { Err(CHECKSUM) }
}

fn check_udp(packet: &Packet) -> Result<(), usize> {
    let (bytes, _, pseudo) = payload(packet, IpProto::UDP)?;
    let datagram = Udp::new_checked(bytes).map_err(|_| LENGTH)?;
    if datagram.is_checksum_right(&pseudo) { Ok(()) } else { Err(CHECKSUM) }
}

fn check_icmp(packet: &Packet) -> Result<(), usize> {
    const HEADER_BYTES: usize = 8;
    const TIMESTAMPS: [u8; 2] = [13, 14];
    const INFORMATION: [u8; 2] = [15, 16];
    let (bytes, ..) = payload(packet, IpProto::ICMP)?;
    let kind = *bytes.first().filter(|_| bytes.len() >= HEADER_BYTES).ok_or(LENGTH)?;
    let is_long_enough = match kind {
        // A header and eight bytes of what it is about.
        _ if is_error_type(kind) => bytes.len() >= HEADER_BYTES + 28,
        _ if TIMESTAMPS.contains(&kind) => bytes.len() == HEADER_BYTES + 12,
        _ if INFORMATION.contains(&kind) => bytes.len() == HEADER_BYTES,
        _ => true,
    };
    if !is_long_enough {
        return Err(LENGTH);
    }
    if checksum::is_intact(bytes) { Ok(()) } else { Err(CHECKSUM) }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct CheckHeader {
    check: &'static Check,
    failures: Failures,
}

impl CheckHeader {
    fn new(check: &'static Check) -> Self {
        Self { check, failures: Failures::default() }
    }
}

impl Element for CheckHeader {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read("VERBOSE", &mut self.failures.verbose)
            .read("DETAILS", &mut self.failures.details)
            .complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let Check { protocol, reasons, check } = self.check;
        cx.sort(batch, |cx, packet| match check(packet) {
            Ok(()) => Fate::Pass,
            Err(reason) => self.failures.fail(cx, reason, |cx| {
                let why = reasons[reason];
                format!("{}: {protocol} header check failed: {why}", cx.declaration())
            }),
        });
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        self.failures.handlers()
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.failures.read(name, self.check.reasons))
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.failures.take(&old.failures);
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self { failures: self.failures.fresh(), ..self.clone() })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.failures.absorb(&copy.failures);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ipv4, run, source};
    use super::*;
    use warpswitch_wire::icmp::Icmp;

    /// What `class` finds about a packet; `good` or the reason.
    fn verdict(class: &str, bytes: &[u8]) -> String {
        let source = source(bytes);
        let (shown, said, mut router) = run(&format!(
            "{source} -> MarkIPHeader -> c :: {class}(DETAILS true) -> Show(0); c[1] -> Show(1);"
        ));
        assert_eq!((shown.len(), &shown[0].bytes[..]), (1, bytes));
        if shown[0].label == "0" {
            assert_eq!(said, [""; 0]);
            return "good".to_owned();
        }
        assert_eq!(router.read("c.drops"), Ok("1".into()));
        let details = router.read("c.drop_details").expect("asked for");
        let line = details.lines().find(|line| line.starts_with("1\t")).expect("one is counted");
        let protocol = &class[5..class.len() - 6];
        let reason = &line[2..];
        assert_eq!(said, [format!("c :: {class}: {protocol} header check failed: {reason}")]);
        reason.to_owned()
    }

    fn pseudo() -> PseudoHeader {
        PseudoHeader::V4 { src: [18, 26, 4, 44].into(), dst: [10, 0, 0, 4].into() }
    }

    #[test]
    fn tcp_is_checked() {
        let mut segment = [9; 33];
        segment[12] = 0x60;
        Tcp::new_unchecked(&mut segment[..]).fill_checksum(&pseudo());
        let check = |segment: &[u8], reason: &str| {
            let bytes = ipv4(segment, |repr| repr.proto = IpProto::TCP);
            assert_eq!(verdict("CheckTCPHeader", &bytes), reason);
        };
        check(&segment, "good");
        check(&segment[..19], "bad packet length");
        check(&segment[..23], "bad packet length");
        check(&segment[..32], "bad TCP checksum");
        let with = |words: u8| {
            let mut segment = segment;
            segment[12] = words << 4;
            segment
        };
        check(&with(4), "bad packet length");
        check(&with(9), "bad packet length");
        check(&with(8), "bad TCP checksum");
        let bytes = ipv4(&segment, |repr| repr.proto = IpProto::TCP);
        assert_eq!(verdict("CheckTCPHeader", &bytes[..52]), "bad packet length");
        assert_eq!(verdict("CheckTCPHeader", &ipv4(&segment, |_| {})), "not TCP");
        assert_eq!(verdict("CheckTCPHeader", b"short"), "not TCP");
        let mut padded = bytes;
        padded.push(0x55);
        assert_eq!(verdict("CheckTCPHeader", &padded), "good");
    }

    #[test]
    fn udp_is_checked() {
        let mut datagram = [9; 20];
        datagram[4..6].copy_from_slice(&[0, 20]);
        Udp::new_unchecked(&mut datagram[..]).fill_checksum(&pseudo());
        let check = |datagram: &[u8], reason: &str| {
            assert_eq!(verdict("CheckUDPHeader", &ipv4(datagram, |_| {})), reason);
        };
        check(&datagram, "good");
        check(&datagram[..19], "bad packet length");
        check(&datagram[..7], "bad packet length");
        datagram[5] = 7;
        check(&datagram, "bad packet length");
        datagram[5] = 19;
        check(&datagram, "bad UDP checksum");
        datagram[6..8].fill(0);
        check(&datagram, "good");
        let other = ipv4(&datagram, |repr| repr.proto = IpProto(3));
        assert_eq!(verdict("CheckUDPHeader", &other), "not UDP");
    }

    #[test]
    fn icmp_is_checked() {
        let check = |kind: u8, bytes: usize, reason: &str| {
            let mut message = vec![3; bytes];
            message[0] = kind;
            if bytes >= 4 {
                Icmp::new_unchecked(&mut message[..]).fill_checksum();
            }
            let bytes = ipv4(&message, |repr| repr.proto = IpProto::ICMP);
            assert_eq!(verdict("CheckICMPHeader", &bytes), reason, "{kind}");
        };
        check(8, 8, "good");
        check(8, 7, "bad packet length");
        check(8, 1, "bad packet length");
        for kind in [3, 4, 5, 11, 12] {
            check(kind, 36, "good");
            check(kind, 35, "bad packet length");
        }
        check(13, 20, "good");
        check(14, 21, "bad packet length");
        check(15, 8, "good");
        check(16, 9, "bad packet length");
        let bytes = ipv4(&[8; 12], |repr| repr.proto = IpProto::ICMP);
        assert_eq!(verdict("CheckICMPHeader", &bytes), "bad ICMP checksum");
        assert_eq!(verdict("CheckICMPHeader", &ipv4(&[8; 12], |_| {})), "not ICMP");
    }
}
