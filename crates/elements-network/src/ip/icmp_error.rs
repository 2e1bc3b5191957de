//! Creates ICMP errors in reply to packets.
//!
//! # Synopsis
//! `ICMPError(SRC, TYPE [, CODE, BADADDRS], MTU, PMTU, SET_FIX_ANNO)`
//!
//! # Ports
//! One input, one output; push or pull. Input: faulty packets, starting at the IPv4 header. Output:
//! ICMP errors to their senders, starting at the IPv4 header. The destination annotation of an
//! error is set, and its fix-source annotation, so that `FixIPSrc` inserts the address of the
//! sending interface.
//!
//! # Configuration
//! - `SRC`: source address of the errors
//! - `TYPE`: `unreachable`, `sourcequench`, `redirect`, `timeexceeded`, `parameterproblem`, or the
//!   number of one of these. A redirect contains the destination annotation as gateway, a parameter
//!   problem with code 0 the pointer from the ICMP pointer annotation.
//! - `CODE`: a number or a name; default: 0. Names for `unreachable`: `net`, `host`, `protocol`,
//!   `port`, `needfrag` and others; for `redirect`: `net`, `host`; for `timeexceeded`: `transit`,
//!   `reassembly`; for `parameterproblem`: `erroratptr`, `missingopt`, `length`
//! - `BADADDRS`: broadcast addresses; packets from or to these are not answered
//! - `MTU`: maximum length of an error in bytes, at least 28; default: 576. A reversed source route
//!   that does not fit is left out
//! - `PMTU`: MTU of the next link, for `unreachable` with code `needfrag`; default: 0
//! - `SET_FIX_ANNO`: set the fix-source annotation of errors; default: true. `USE_FIX_ANNO` is a
//!   synonym
//!
//! The element does not limit the rate of errors, which RFC 1812, 4.3.2.8 requires of routers. Put
//! one `RatedSplitter` behind all `ICMPError` elements, as `conf/ip-router.click` does.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `src` | read, write | address |
//! | `mtu`, `pmtu` | read, write | bytes |
//!
//! # Drops
//! Packets that must not be answered (RFC 1812, 4.3.2.7):
//! - `no header`: no IPv4 header
//! - `ICMP error`: an ICMP error, or a truncated ICMP message
//! - `broadcast`: sent to a broadcast address, `BADADDRS` included, or a multicast address, or
//!   received as such on the link
//! - `bad source`: the source is not the address of a single host
//! - `fragment`: not the first fragment
//! - `source route`: a redirect for a source-routed packet
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! dt :: DecIPTTL; dt[1] -> ICMPError(10.0.0.1, timeexceeded) -> [0]rt;
//! ```
//!
//! # Source
//! RFC 792; RFC 1191 for `PMTU`; RFC 1812, 4.3.2 and 5.2.7. An error for a source-routed packet
//! takes the reversed route, unless the error is in the route option itself.

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError, Saturating, Word};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec,
};
use warpswitch_packet::packet::{PACKET_BYTES_MAX, annotation};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::icmp::Icmp;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{HEADER_BYTES, Ipv4, OPTIONS_BYTES_MAX};

use super::drop_broadcasts::is_broadcast;
use super::support::{ipv4, numbers, transport};
use warpswitch_elements_lookup::names::{ICMP_TYPES, icmp_codes, number};
use warpswitch_elements_support::format::parse_seen;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ICMPError", "1/1", "a/a", || Box::new(IcmpError::new()))
        .consumes_as("answered")
        .drops(&["no header", "ICMP error", "broadcast", "bad source", "fragment", "source route"]);

/// Reasons for drops, by number.
const NO_HEADER: usize = 0;
const ABOUT_ERROR: usize = 1;
const BROADCAST: usize = 2;
const BAD_SOURCE: usize = 3;
const FRAGMENT: usize = 4;
const SOURCE_ROUTE: usize = 5;

/// Types of messages, and codes.
const UNREACHABLE: u8 = 3;
const NEED_FRAGMENTS: u8 = 4;
const REDIRECT: u8 = 5;
const PARAMETER_PROBLEM: u8 = 12;
const ERROR_AT_POINTER: u8 = 0;

/// Bytes of an ICMP header.
const ICMP_BYTES: usize = 8;
/// Time to live of errors.
const TTL: u8 = 200;
/// The shortest error: its headers, without options or a quoted packet.
const MTU_MIN: u32 = (HEADER_BYTES + ICMP_BYTES) as u32;

/// The MTU to use for a configured one, which may be larger than any packet.
fn allowed_mtu(mtu: u32) -> Result<u32, String> {
    match mtu {
        ..MTU_MIN => Err(format!("{mtu} bytes have no room for the headers, minimum {MTU_MIN}")),
        _ => Ok(mtu.min(PACKET_BYTES_MAX as u32 / 8)),
    }
}

/// Whether messages of this type are errors.
pub(super) fn is_error_type(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 5 | 11 | 12)
}

/// A source route option that makes sense: where it is among the options, and its bytes.
fn source_route(options: &[u8]) -> Option<(usize, &[u8])> {
    const LOOSE: u8 = 131;
    const STRICT: u8 = 137;
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let option_bytes = match kind {
            0 => return None,
            1 => 1,
            _ => usize::from(*options.get(at + 1)?),
        };
        if kind != 1 && option_bytes < 2 {
            return None;
        }
        let option = options.get(at..at + option_bytes)?;
        if matches!(kind, LOOSE | STRICT) {
            let pointer = usize::from(option.get(2).copied().unwrap_or(0));
            if pointer >= 4 && pointer.is_multiple_of(4) && pointer <= option_bytes + 1 {
                return Some((at, option));
            }
        }
        at += option_bytes;
    }
    None
}

/// Writes the way back along `route` to `out`; its bytes, whole words.
fn reverse(route: &[u8], out: &mut [u8; OPTIONS_BYTES_MAX]) -> usize {
    let option_bytes = usize::from(route[2]) - 1;
    out[..3].copy_from_slice(&[route[0], option_bytes as u8, 4]);
    let visited = route[3..option_bytes].chunks_exact(4).rev();
    for (to, from) in out[3..].chunks_exact_mut(4).zip(visited) {
        to.copy_from_slice(from);
    }
    // The pointer is a multiple of four: one byte ends the options.
    option_bytes + 1
}

/// See the module.
#[derive(Debug)]
pub struct IcmpError {
    src: Ipv4Addr,
    kind: u8,
    code: u8,
    bad: Vec<u32>,
    mtu: u32,
    pmtu: u32,
    sets_fix_src: bool,
    id: u16,
}

impl IcmpError {
    fn new() -> Self {
        Self {
            src: Ipv4Addr::UNSPECIFIED,
            kind: 0,
            code: 0,
            bad: Vec::new(),
            mtu: 576,
            pmtu: 0,
            sets_fix_src: true,
            id: 0,
        }
    }

    /// Whether the address is one of one host, as far as can be known.
    fn is_unicast(&self, address: Ipv4Addr) -> bool {
        !address.is_broadcast()
            && !address.is_multicast()
            && !self.bad.contains(&u32::from(address))
    }

    fn is_source(&self, address: Ipv4Addr) -> bool {
        let first = address.octets()[0];
        self.is_unicast(address) && first != 0 && first != 127 && first < 0xf0
    }

    /// Why no answer may be given to `packet`.
    fn refusal(&self, packet: &Packet) -> Option<usize> {
        let Some(view) = ipv4(packet) else { return Some(NO_HEADER) };
        let is_first = view.fragment_offset() == 0;
        if view.proto() == IpProto::ICMP && is_first {
            let message = transport(packet);
            if message.len() < 4 || is_error_type(message[0]) {
                return Some(ABOUT_ERROR);
            }
        }
        if !self.is_unicast(view.dst()) || is_broadcast(packet) {
            Some(BROADCAST)
        } else if !self.is_source(view.src()) {
            Some(BAD_SOURCE)
        } else if !is_first {
            Some(FRAGMENT)
        } else if self.kind == REDIRECT && source_route(view.options()).is_some() {
            Some(SOURCE_ROUTE)
        } else {
            None
        }
    }

    /// The second word of the ICMP header.
    fn rest_of_header(&self, packet: &Packet) -> [u8; 4] {
        match (self.kind, self.code) {
            (PARAMETER_PROBLEM, ERROR_AT_POINTER) => {
                [packet.anno_u8(annotation::ICMP_POINTER), 0, 0, 0]
            }
            (REDIRECT, _) => packet.dst_ipv4(),
            (UNREACHABLE, NEED_FRAGMENTS) => {
                let mtu = u16::try_from(self.pmtu).unwrap_or(u16::MAX).to_be_bytes();
                [0, 0, mtu[0], mtu[1]]
            }
            _ => [0; 4],
        }
    }

    /// The way back for a packet that came along a source route.
    fn return_route(&self, packet: &Packet, out: &mut [u8; OPTIONS_BYTES_MAX]) -> usize {
        let Some(view) = ipv4(packet) else { return 0 };
        let Some((at, route)) = source_route(view.options()) else { return 0 };
        // An error in the route itself is not answered along it.
        let pointer = usize::from(packet.anno_u8(annotation::ICMP_POINTER));
        let places = HEADER_BYTES + at..HEADER_BYTES + at + route.len();
        let is_about_pointer = (self.kind, self.code) == (PARAMETER_PROBLEM, ERROR_AT_POINTER);
        if is_about_pointer && places.contains(&pointer) { 0 } else { reverse(route, out) }
    }

    /// The error for `packet`, which may be answered.
    fn answer(&mut self, cx: &mut Context<'_>, packet: &Packet) -> Option<Packet> {
        let view = ipv4(packet)?;
        let (sender, quoted) = (view.src(), view.total_bytes().max(view.header_bytes()));
        let original = view.into_inner();
        let mut options = [0; OPTIONS_BYTES_MAX];
        let headers_max = self.mtu as usize - ICMP_BYTES;
        let options_len = self.return_route(packet, &mut options);
        let options_len = if HEADER_BYTES + options_len <= headers_max { options_len } else { 0 };
        let header_bytes = HEADER_BYTES + options_len;
        let room = headers_max - header_bytes;
        let quoted = &original[..quoted.min(original.len()).min(room)];

        let mut answer = cx.pool().packet();
        let bytes = answer.put(header_bytes + ICMP_BYTES + quoted.len());
        let total_bytes = (bytes.len() as u16).to_be_bytes();
        self.id = self.id.wrapping_add(1);
        bytes[0] = 0x40 | (header_bytes / 4) as u8;
        bytes[2..4].copy_from_slice(&total_bytes);
        bytes[4..6].copy_from_slice(&self.id.to_be_bytes());
        bytes[8..10].copy_from_slice(&[TTL, IpProto::ICMP.0]);
        bytes[12..16].copy_from_slice(&self.src.octets());
        bytes[16..20].copy_from_slice(&sender.octets());
        bytes[HEADER_BYTES..header_bytes].copy_from_slice(&options[..options_len]);
        let (header, message) = bytes.split_at_mut(header_bytes);
        Ipv4::new_unchecked(header).fill_checksum();
        message[..2].copy_from_slice(&[self.kind, self.code]);
        message[4..8].copy_from_slice(&self.rest_of_header(packet));
        message[ICMP_BYTES..].copy_from_slice(quoted);
        Icmp::new_unchecked(message).fill_checksum();

        answer.set_ip_header(0, header_bytes);
        answer.set_dst_ipv4(sender.octets());
        answer.set_anno_u8(annotation::FIX_SRC, u8::from(self.sets_fix_src));
        answer.set_timestamp_ns(cx.now().0);
        answer.trace_as(packet);
        Some(answer)
    }
}

impl Element for IcmpError {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut kind, mut code) = (Word::default(), Word("0".to_owned()));
        let (mut bad, mut mtu) = (Vec::<Ipv4Addr>::new(), Saturating(self.mtu));
        args.read_mp("SRC", &mut self.src)
            .read_mp("TYPE", &mut kind)
            .read_p("CODE", &mut code)
            .read_p("BADADDRS", &mut bad)
            .read("MTU", &mut mtu)
            .read("PMTU", &mut self.pmtu)
            .read("USE_FIX_ANNO", &mut self.sets_fix_src)
            .read("SET_FIX_ANNO", &mut self.sets_fix_src);
        self.bad = numbers(&bad);
        match allowed_mtu(mtu.0) {
            Ok(mtu) => self.mtu = mtu,
            Err(message) => args.error_at("MTU", &message),
        }
        if !kind.0.is_empty() {
            match number(ICMP_TYPES, &kind.0, context.names) {
                Ok(kind) if is_error_type(kind) => self.kind = kind,
                Ok(kind) => args.error_at("", &format!("ICMP type {kind} is not an error type")),
                Err(_) => args.error_at("", "ICMP type must be between 0 and 255"),
            }
        }
        match number(icmp_codes(self.kind), &code.0, context.names) {
            Ok(code) => self.code = code,
            Err(_) if self.kind == 0 => {}
            Err(_) => {
                args.error_at("", "argument 2 takes ICMP code (integer between 0 and 255)");
            }
        }
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |cx, packet| {
            if let Some(reason) = self.refusal(packet) {
                return Fate::Drop(reason);
            }
            let Some(answer) = self.answer(cx, packet) else { return Fate::Drop(NO_HEADER) };
            let original = std::mem::replace(packet, answer);
            cx.consume(original);
            Fate::Pass
        });
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("src"), HandlerSpec::both("mtu"), HandlerSpec::both("pmtu")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "src" => self.src.to_string(),
            "mtu" => self.mtu.to_string(),
            _ => self.pmtu.to_string(),
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
            "mtu" => {
                self.mtu = allowed_mtu(parse_seen(cx, value)?).map_err(HandlerError::failed)?;
            }
            _ => self.pmtu = parse_seen(cx, value)?,
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
    use super::super::testing::{Shown, ipv4, run, source, through, unhex};
    use super::*;

    /// The error about a packet, and its ICMP message.
    fn error(bytes: &[u8], arguments: &str) -> Option<(Shown, Vec<u8>)> {
        let shown =
            through(bytes, &format!("MarkIPHeader -> ICMPError(19.19.19.19, {arguments})"))?;
        let view = shown.ipv4();
        let message = Icmp::new_checked(view.payload()).expect("a message");
        assert!(message.is_checksum_right());
        assert_eq!((view.src().octets(), view.proto()), ([19; 4], IpProto::ICMP));
        assert_eq!((view.dst(), view.ttl(), shown.annotations[19]), (shown.dst(), TTL, 1));
        let message = view.payload().to_vec();
        Some((shown, message))
    }

    #[test]
    fn errors_quote_what_they_are_about() {
        let bytes = ipv4(&[7; 1000], |repr| repr.ttl = 1);
        let (shown, message) = error(&bytes, "timeexceeded").expect("an error");
        assert_eq!((shown.bytes.len(), &message[..2]), (576, &[11, 0][..]));
        assert_eq!((shown.dst().octets(), message[4..8].to_vec()), ([18, 26, 4, 44], vec![0; 4]));
        assert_eq!(message[8..], bytes[..576 - 28]);
        let (shown, _) = error(&bytes, "timeexceeded, MTU 200").expect("an error");
        assert_eq!(shown.bytes.len(), 200);
        for mtu in [28, 29, 64, 127] {
            let (shown, message) =
                error(&bytes, &format!("timeexceeded, MTU {mtu}")).expect("an error");
            assert_eq!((shown.bytes.len(), &message[8..]), (mtu, &bytes[..mtu - 28]));
        }
        let mut padded = ipv4(&[7; 10], |_| {});
        padded.extend([0; 16]);
        let (_, message) = error(&padded, "unreachable, port").expect("an error");
        assert_eq!((&message[..2], &message[8..]), (&[3, 3][..], &padded[..30]));
    }

    #[test]
    fn the_second_word_says_what_it_should() {
        let bytes = ipv4(&[7; 100], |_| {});
        let (_, message) = error(&bytes, "3, needfrag, PMTU 1400").expect("an error");
        assert_eq!(message[..8][4..], [0, 0, 0x05, 0x78]);
        let source = source(&bytes);
        let (shown, ..) = run(&format!(
            "{source} -> CheckIPHeader -> StaticIPLookup(0/0 10.0.0.77 0)
             -> ICMPError(19.19.19.19, redirect, host) -> Show(0);"
        ));
        assert_eq!(shown[0].bytes[20..28][..2], [5, 1]);
        assert_eq!(shown[0].bytes[24..28], [10, 0, 0, 77]);
        let options = unhex("01070404");
        let bytes = ipv4(&[7; 100], |repr| repr.options = &options);
        let (_, message) = error(&bytes, "12").expect("an error");
        assert_eq!(message[..8], [12, 0, message[2], message[3], 0, 0, 0, 0]);
        let config = format!(
            "{} -> CheckIPHeader -> g :: IPGWOptions(1.1.1.1) -> Discard;
             g[1] -> ICMPError(19.19.19.19, parameterproblem) -> Show(0);",
            super::super::testing::source(&bytes)
        );
        let answer = &run(&config).0[0].bytes;
        assert_eq!((&answer[20..22], answer[24]), (&[12, 0][..], 22));
    }

    #[test]
    fn no_answer_is_given_where_none_may_be() {
        let check = |bytes: &[u8], arguments: &str, reason: &str| {
            let source = source(bytes);
            let (shown, _, mut router) = run(&format!(
                "{source} -> MarkIPHeader -> e :: ICMPError(19.19.19.19, {arguments}) -> Show(0);"
            ));
            assert_eq!(shown, [], "{reason}");
            let drops = router.read("e.drops_by_reason").expect("it is there");
            assert!(drops.contains(&format!("1\t{reason}\n")), "{drops}");
        };
        let with = |edit: fn(&mut warpswitch_wire::ipv4::Ipv4Repr<'_>)| ipv4(&[8; 40], edit);
        for kind in [3, 4, 5, 11, 12] {
            let about = ipv4(&[kind; 40], |repr| repr.proto = IpProto::ICMP);
            check(&about, "timeexceeded", "ICMP error");
        }
        let echo = ipv4(&[8; 40], |repr| repr.proto = IpProto::ICMP);
        assert!(error(&echo, "timeexceeded").is_some(), "a ping is no error");
        check(&ipv4(&[8; 3], |repr| repr.proto = IpProto::ICMP), "timeexceeded", "ICMP error");
        check(&with(|repr| repr.fragment_offset = 1), "timeexceeded", "fragment");
        assert!(error(&with(|repr| repr.more_fragments = true), "timeexceeded").is_some());
        for dst in [[255; 4], [224, 0, 0, 1], [10, 0, 0, 255]] {
            let bytes = ipv4(&[8; 40], |repr| repr.dst = dst.into());
            check(&bytes, "timeexceeded, BADADDRS 10.0.0.255 10.0.1.255", "broadcast");
        }
        for src in [[0, 0, 0, 7], [127, 0, 0, 1], [240, 0, 0, 1], [225, 0, 0, 1], [10, 0, 0, 255]] {
            let bytes = ipv4(&[8; 40], |repr| repr.src = src.into());
            check(&bytes, "timeexceeded, 0, 10.0.0.255", "bad source");
        }
        check(&echo[..19], "timeexceeded", "no header");
        let options = unhex("8307 08 01020304 00");
        let routed = ipv4(&[8; 40], |repr| repr.options = &options);
        check(&routed, "redirect, host", "source route");
        for packet_type in ["broadcast", "multicast"] {
            let source = source(&echo);
            let (shown, ..) = run(&format!(
                "{source} -> SetType({packet_type}) -> MarkIPHeader
                 -> ICMPError(19.19.19.19, timeexceeded) -> Show(0);"
            ));
            assert_eq!(shown, [], "{packet_type}");
        }
    }

    #[test]
    fn source_routes_are_gone_back() {
        // Two hops visited, one to go.
        let options = unhex("890f 0c 80042d3c 8004313d 01020304 00");
        let bytes = ipv4(&[8; 40], |repr| repr.options = &options);
        let (shown, _) = error(&bytes, "timeexceeded").expect("an error");
        assert_eq!(shown.ipv4().options(), unhex("890b 04 8004313d 80042d3c 00"));
        assert_eq!(shown.dst().octets(), [18, 26, 4, 44]);
        for (mtu, options_bytes) in [(39, 0), (40, 12), (41, 12)] {
            let (shown, _) = error(&bytes, &format!("timeexceeded, MTU {mtu}")).expect("an error");
            assert_eq!(shown.ipv4().options().len(), options_bytes, "{mtu}");
            assert_eq!(shown.bytes.len(), mtu);
        }
        let not_begun = unhex("8307 04 01020304 00");
        let bytes = ipv4(&[8; 40], |repr| repr.options = &not_begun);
        let (shown, _) = error(&bytes, "timeexceeded").expect("an error");
        assert_eq!(shown.ipv4().options(), unhex("8303 04 00"));
        for odd in ["8307 05 01020304 00", "8308 0c 01020304 05", "83ff 08 00"] {
            let odd = unhex(odd);
            let bytes = ipv4(&[8; 40], |repr| repr.options = &odd[..odd.len() / 4 * 4]);
            let (shown, _) = error(&bytes, "timeexceeded").expect("an error");
            assert!(shown.ipv4().options().is_empty(), "{odd:?}");
        }
    }

    #[test]
    fn wrong_arguments_are_told() {
        let check = |arguments: &str, message: &str| {
            let config = format!("Idle -> ICMPError({arguments}) -> Discard;");
            let errors = warpswitch_graph::simulate::router(&config, &crate::registry());
            let errors = errors.map(|_| ()).expect_err("it is wrong").to_click();
            assert!(errors.contains(message), "{errors}");
        };
        check("1.1.1.1", "TYPE: required argument missing");
        check("1.1.1.1, echo", "ICMP type 8 is not an error type");
        check("1.1.1.1, 300", "ICMP type must be between 0 and 255");
        check("1.1.1.1, 3, MTU 27", "MTU: 27 bytes have no room for the headers, minimum 28");
        check("1.1.1.1, redirect, port", "argument 2 takes ICMP code");
    }
}
