//! Generates ICMPv6 errors in response to packets.
//!
//! # Synopsis
//! `ICMP6Error(SRC, TYPE [, CODE], MTU, PMTU, USE_FIX_ANNO)`
//!
//! # Ports
//! One input, one output; agnostic. Input: offending packets, network header set. Output: ICMPv6
//! errors to their senders, starting with the IPv6 header, with the destination annotation set. The
//! fix-source annotation requests the source address of the outgoing interface, see `FixIP6Src`.
//!
//! # Configuration
//! - `SRC`: source address of errors
//! - `TYPE`: `unreachable`, `packettoobig`, `timeexceeded`, `parameterproblem`, `redirect`, or the
//!   number of one of these. "Packet too big" carries the MTU annotation of `CheckIP6MTU`, a
//!   parameter problem the ICMP pointer annotation, a redirect the destination annotation as the
//!   better router.
//! - `CODE`: a number, or a name: for `unreachable` `noroute`, `adminprohibited`, `beyondscope`,
//!   `address`, `port`, `policy`, `rejectroute`; for `timeexceeded` `transit`, `reassembly`; for
//!   `parameterproblem` `erroratptr`, `nextheader`, `option`. Default: 0.
//! - `MTU`: maximum bytes of an error, clamped to 320 to 32768, default: 1280
//! - `PMTU`: MTU in "packet too big" if the MTU annotation is not set, default: 1280
//! - `USE_FIX_ANNO`: whether to set the fix-source annotation, default: true
//!
//! Errors are not rate-limited here. Routers must limit their rate (RFC 4443, 2.4 (f)): place a
//! `RatedSplitter` after all of them, as `conf/ipv6-router.click` does.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `src` | read, write | address |
//! | `pmtu` | read, write | bytes |
//!
//! # Drops
//! Packets that must not be answered:
//! - `no header`: no IPv6 header
//! - `ICMP error`: an ICMPv6 error or redirect, or an ICMPv6 message of unreadable type
//! - `group`: to a multicast address, or received as link-layer broadcast or multicast; except for
//!   "packet too big" and for unrecognized options that require an answer
//! - `bad source`: the source is unspecified, multicast or loopback
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! dec :: DecIP6HLIM; dec[1] -> ICMP6Error(2001:db8::1, timeexceeded) -> [0]rt;
//! ```
//!
//! # Source
//! RFC 4443, 2.4 and 3; RFC 4861, 4.5 and 4.6.3 for redirects.

use std::net::Ipv6Addr;

use warpswitch_graph::language::args::{Args, ArgsError, Word};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::packet::{Header, PacketType, annotation};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::icmpv6::Icmpv6;
use warpswitch_wire::ip::{Fragment, IpProto};
use warpswitch_wire::ipv6::{HEADER_BYTES, Ipv6, Ipv6Repr};

use super::names::{
    ERROR_TYPES_END, PACKET_TOO_BIG, PARAMETER_PROBLEM, REDIRECT, TYPES, codes, number,
};
use super::support::{
    HOP_LIMIT_MAX, MTU_ANNOTATION, Transport, ipv6, is_one_host, set_ipv6_header,
};
use warpswitch_elements_support::format::parse_seen;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ICMP6Error", "1/1", "a/a", || Box::new(Icmp6Error::new()))
        .consumes_as("answered")
        .drops(&["no header", "ICMP error", "group", "bad source"]);

/// Reasons for drops, by number.
const NO_HEADER: usize = 0;
const ABOUT_ERROR: usize = 1;
const GROUP: usize = 2;
const BAD_SOURCE: usize = 3;

/// The code of a parameter problem that means an option.
const UNKNOWN_OPTION: u8 = 2;
/// Bytes of an ICMPv6 header with its second word.
const ICMP_BYTES: usize = 8;
/// Bytes of a redirect in front of its options: two addresses more.
const REDIRECT_BYTES: usize = 40;
/// Bytes of the option of a redirect that quotes the packet, in front of the packet.
const QUOTE_OPTION_BYTES: usize = 8;
/// The kind of that option.
const QUOTE_OPTION: u8 = 4;
/// What every link can carry.
const MTU_MIN: u32 = 1280;

/// See the module.
#[derive(Clone, Debug)]
pub struct Icmp6Error {
    src: Ipv6Addr,
    kind: u8,
    code: u8,
    mtu: u32,
    pmtu: u32,
    sets_fix_src: bool,
}

impl Icmp6Error {
    fn new() -> Self {
        let src = Ipv6Addr::UNSPECIFIED;
        Self { src, kind: 0, code: 0, mtu: MTU_MIN, pmtu: MTU_MIN, sets_fix_src: true }
    }

    /// Why no answer may be given to `packet`.
    fn refusal(&self, packet: &Packet) -> Option<usize> {
        let Some(view) = ipv6(packet) else { return Some(NO_HEADER) };
        if is_about_error(&view) {
            return Some(ABOUT_ERROR);
        }
        let link = packet.packet_type();
        let is_group = view.dst().is_multicast()
            || matches!(link, PacketType::Broadcast | PacketType::Multicast);
        if is_group && !self.may_answer_group(packet, &view) {
            return Some(GROUP);
        }
        let is_host = is_one_host(view.src()) && !view.src().is_loopback();
        (!is_host).then_some(BAD_SOURCE)
    }

    fn may_answer_group(&self, packet: &Packet, view: &Ipv6<&[u8]>) -> bool {
        if (self.kind, self.code) == (PARAMETER_PROBLEM, UNKNOWN_OPTION) {
            let pointer = usize::from(packet.anno_u8(annotation::ICMP_POINTER));
            // The upper two bits of an option's kind say so.
            return view.into_inner().get(pointer).is_some_and(|option| option >> 6 == 0b10);
        }
        self.kind == PACKET_TOO_BIG
    }

    /// The second word of the message.
    fn second_word(&self, packet: &Packet) -> [u8; 4] {
        match self.kind {
            PACKET_TOO_BIG => match packet.anno_u16(MTU_ANNOTATION) {
                0 => self.pmtu.to_be_bytes(),
                mtu => u32::from(mtu).to_be_bytes(),
            },
            PARAMETER_PROBLEM => u32::from(packet.anno_u8(annotation::ICMP_POINTER)).to_be_bytes(),
            _ => [0; 4],
        }
    }

    /// The error for `packet`, which may be answered and has this header.
    fn answer(&self, cx: &mut Context<'_>, packet: &Packet) -> Option<Packet> {
        let view = ipv6(packet)?;
        let (sender, original) = (view.src(), packet.from_header(Header::Network));
        let is_redirect = self.kind == REDIRECT;
        let quoted_at = match is_redirect {
            true => REDIRECT_BYTES + QUOTE_OPTION_BYTES,
            false => ICMP_BYTES,
        };
        let room = (self.mtu as usize).saturating_sub(HEADER_BYTES + quoted_at);
        let mut quoted = original.len().min(room);
        if is_redirect {
            // Options are whole words of eight bytes.
            quoted -= quoted % 8;
        }
        let mut answer = cx.pool().packet();
        let bytes = answer.put(HEADER_BYTES + quoted_at + quoted);
        let (header, message) = bytes.split_at_mut(HEADER_BYTES);
        let repr = Ipv6Repr {
            hop_limit: HOP_LIMIT_MAX,
            ..Ipv6Repr::new(self.src, sender, IpProto::ICMPV6, message.len())
        };
        repr.emit(&mut Ipv6::new_unchecked(header));
        message[..2].copy_from_slice(&[self.kind, self.code]);
        message[4..8].copy_from_slice(&self.second_word(packet));
        if is_redirect {
            message[8..24].copy_from_slice(&packet.dst_ipv6());
            message[24..40].copy_from_slice(&view.dst().octets());
            message[40..42].copy_from_slice(&[QUOTE_OPTION, (1 + quoted / 8) as u8]);
        }
        message[quoted_at..].copy_from_slice(&original[..quoted]);
        let pseudo = PseudoHeader::V6 { src: self.src, dst: sender };
        Icmpv6::new_unchecked(message).fill_checksum(&pseudo);

        set_ipv6_header(&mut answer, 0);
        answer.set_dst_ipv6(sender.octets());
        answer.set_anno_u8(annotation::FIX_SRC, u8::from(self.sets_fix_src));
        answer.set_timestamp_ns(cx.now().0);
        answer.trace_as(packet);
        Some(answer)
    }
}

/// Whether no error may be sent about it because it is one, or may be one.
fn is_about_error(view: &Ipv6<&[u8]>) -> bool {
    // Extension headers that cannot be followed may be what the answer is about.
    let Some(transport) = Transport::of(view) else { return false };
    if transport.proto != IpProto::ICMPV6 {
        return false;
    }
    let kind = view.into_inner()[..transport.end].get(transport.start).copied();
    match kind.filter(|_| transport.fragment != Fragment::Later) {
        Some(kind) => kind < ERROR_TYPES_END || kind == REDIRECT,
        None => true,
    }
}

impl Element for Icmp6Error {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut kind, mut code) = (Word::default(), Word("0".to_owned()));
        args.read_mp("SRC", &mut self.src)
            .read_mp("TYPE", &mut kind)
            .read_p("CODE", &mut code)
            .read("MTU", &mut self.mtu)
            .read("PMTU", &mut self.pmtu)
            .read("USE_FIX_ANNO", &mut self.sets_fix_src);
        self.mtu = self.mtu.clamp(MTU_MIN / 4, 1 << 15);
        if !kind.0.is_empty() {
            match number(TYPES, &kind.0, context.names) {
                Some(kind) if (1..=4).contains(&kind) || kind == REDIRECT => self.kind = kind,
                Some(kind) => {
                    let message = format!("ICMP6 type {kind} is not an error or redirect type");
                    args.error_at("", &message);
                }
                None => args.error_at("TYPE", "expected ICMP6 type"),
            }
        }
        match number(codes(self.kind), &code.0, context.names) {
            Some(code) => self.code = code,
            None if self.kind == 0 => {}
            None => args.error_at("CODE", "expected ICMP6 code"),
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
        const { &[HandlerSpec::both("src"), HandlerSpec::both("pmtu")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(if name == "src" { self.src.to_string() } else { self.pmtu.to_string() })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "src" => self.src = parse_seen(cx, value)?,
            _ => self.pmtu = parse_seen(cx, value)?,
        }
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Shown, addr, errors, icmp, ipv6, message, run, source, through};
    use super::*;

    /// The error about a packet, and its message.
    fn error(bytes: &[u8], arguments: &str) -> Option<(Shown, Vec<u8>)> {
        let chain = format!("MarkIP6Header -> ICMP6Error(2001:db8::99, {arguments})");
        let shown = through(bytes, &chain)?;
        let view = shown.ipv6(0);
        assert_eq!((view.src(), view.dst()), (addr("2001:db8::99"), shown.dst6()));
        assert_eq!((view.hop_limit(), shown.annotations[19]), (255, 1));
        let message = message(&view);
        Some((shown, message))
    }

    #[test]
    fn errors_quote_as_much_as_every_link_carries() {
        let bytes = ipv6(&[7; 1400], |repr| repr.hop_limit = 1);
        let (shown, message) = error(&bytes, "timeexceeded").expect("an error");
        assert_eq!(
            (shown.bytes.len(), &message[..2], &message[4..8]),
            (1280, &[3, 0][..], &[0; 4][..])
        );
        assert_eq!((shown.dst6(), &message[8..]), (addr("2001:db8::1"), &bytes[..1232]));
        let bytes = ipv6(&[7; 9], |_| {});
        let (_, message) = error(&bytes, "unreachable, address").expect("an error");
        assert_eq!((&message[..2], &message[8..]), (&[1, 3][..], &bytes[..]));
    }

    #[test]
    fn the_second_word_says_what_it_should() {
        let bytes = ipv6(&[7; 1400], |_| {});
        let (_, told) = error(&bytes, "packettoobig, PMTU 1400").expect("an error");
        assert_eq!((&told[..2], &told[4..8]), (&[2, 0][..], &1400u32.to_be_bytes()[..]));
        let config = format!(
            "{} -> MarkIP6Header -> m :: CheckIP6MTU(1300) -> Discard;
             m[1] -> ICMP6Error(::9, 2, 0) -> Show(0);",
            source(&bytes)
        );
        let (shown, ..) = run(&config);
        assert_eq!(message(&shown[0].ipv6(0))[4..8], 1300u32.to_be_bytes());
    }

    #[test]
    fn redirects_tell_the_better_router() {
        let bytes = ipv6(&[7; 21], |_| {});
        let chain = "MarkIP6Header -> SetIP6Address(fe80::7) -> ICMP6Error(fe80::1, redirect)";
        let shown = through(&bytes, chain).expect("a redirect");
        let message = message(&shown.ipv6(0));
        assert_eq!((message[0], &message[8..24]), (137, &addr("fe80::7").octets()[..]));
        assert_eq!(message[24..40], addr("2001:db8:1::2").octets());
        assert_eq!(
            (&message[40..48], &message[48..]),
            (&[4, 8, 0, 0, 0, 0, 0, 0][..], &bytes[..56])
        );
    }

    #[test]
    fn about_some_packets_nothing_is_said() {
        let (src, dst) = ("2001:db8::1", "2001:db8:1::2");
        let check = |bytes: &[u8], arguments: &str, is_answered: bool| {
            assert_eq!(error(bytes, arguments).is_some(), is_answered, "{bytes:02x?}");
        };
        let echo = icmp(src, dst, 64, &[128, 0, 0, 0, 1, 2, 3, 4]);
        check(&echo, "timeexceeded", true);
        for kind in [1, 2, 3, 4, 100, 127, 137] {
            check(&icmp(src, dst, 64, &[kind, 0, 0, 0, 1, 2, 3, 4]), "timeexceeded", false);
        }
        check(&icmp(src, dst, 64, &[0; 4])[..40], "timeexceeded", false);
        // An error behind an extension header; a fragment of what may be one.
        let hidden = [58, 0, 1, 4, 0, 0, 0, 0, 1, 0, 0, 0];
        check(&ipv6(&hidden, |r| r.next_header = IpProto::DESTINATION), "timeexceeded", false);
        let later = [58, 0, 0, 8, 0, 0, 0, 0, 128, 0, 0, 0];
        check(&ipv6(&later, |r| r.next_header = IpProto::FRAGMENT), "timeexceeded", false);
        let later = [17, 0, 0, 8, 0, 0, 0, 0, 128, 0, 0, 0];
        check(&ipv6(&later, |r| r.next_header = IpProto::FRAGMENT), "timeexceeded", true);
        let broken = [17, 200, 0, 0];
        check(&ipv6(&broken, |r| r.next_header = IpProto::DESTINATION), "paramprob", true);
        for bad in ["::", "ff02::1", "::1"] {
            check(&ipv6(&[], |repr| repr.src = addr(bad)), "timeexceeded", false);
        }
        check(&[0x60; 39], "timeexceeded", false);
    }

    #[test]
    fn groups_hear_only_of_packets_too_big_and_of_some_options() {
        let to_group = |option: u8| {
            let options = [17, 0, option, 4, 0, 0, 0, 0];
            ipv6(&options, |repr| {
                (repr.dst, repr.next_header) = (addr("ff0e::5"), IpProto::DESTINATION);
            })
        };
        let check = |option: u8, arguments: &str, is_answered: bool| {
            let arguments = format!("2001:db8::9, {arguments}");
            let chain = format!("SetAnno(17, 42) -> MarkIP6Header -> ICMP6Error({arguments})");
            let answer = through(&to_group(option), &chain);
            assert_eq!(answer.is_some(), is_answered, "{option} {arguments}");
        };
        check(0x05, "timeexceeded", false);
        check(0x05, "packettoobig", true);
        check(0x05, "parameterproblem, option", false);
        check(0x85, "parameterproblem, option", true);
        check(0xc5, "parameterproblem, option", false);
        check(0x85, "parameterproblem, nextheader", false);
        let bytes = ipv6(&[], |_| {});
        let answer = |kind: &str| {
            let chain = format!("SetType(multicast) -> MarkIP6Header -> ICMP6Error(::9, {kind})");
            through(&bytes, &chain).is_some()
        };
        assert_eq!((answer("timeexceeded"), answer("packettoobig")), (false, true));
    }

    #[test]
    fn what_is_no_error_is_told() {
        let told = errors(
            "Idle -> ICMP6Error(::1, 128) -> ICMP6Error(::1, strange)
             -> ICMP6Error(::1, timeexceeded, port) -> Discard;",
        );
        for line in [
            "ICMP6 type 128 is not an error or redirect type",
            "TYPE: expected ICMP6 type",
            "CODE: expected ICMP6 code",
        ] {
            assert!(told.contains(line), "{told}");
        }
    }
}
