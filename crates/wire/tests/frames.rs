//! Crafted frames: what one pass finds in each, or why it refuses them.

mod common;

use common::*;
use warpswitch_wire::ParseError;
use warpswitch_wire::ethernet::EtherType;
use warpswitch_wire::ip::{Fragment, IpProto};
use warpswitch_wire::ipv6_ext::EXTENSIONS_MAX;
use warpswitch_wire::link::LinkType;
use warpswitch_wire::parse::{
    MPLS_LABELS_MAX, Network, ParsedFrame, Transport, VLAN_TAGS_MAX, parse, parse_ethernet,
};
use warpswitch_wire::tcp::TcpFlags;

const TCP: Transport = Transport::Tcp { src: 4660, dst: 443, flags: TcpFlags(0x142) };
const UDP: Transport = Transport::Udp { src: 53, dst: 1024 };

fn found(frame: &[u8]) -> ParsedFrame {
    parse_ethernet(frame).unwrap_or_else(|error| panic!("{error}: {frame:x?}"))
}

/// Checks network, protocol, transport and payload of an Ethernet frame.
fn check(frame: &[u8], network: Network, proto: IpProto, transport: Transport, payload: &[u8]) {
    let found = found(frame);
    assert_eq!((found.network, found.ip_proto), (network, proto), "{frame:x?}");
    assert_eq!((found.transport, found.payload(frame)), (transport, payload), "{frame:x?}");
    assert_eq!(found.ipv4(frame).is_some(), network == Network::Ipv4);
    assert_eq!(found.ipv6(frame).is_some(), network == Network::Ipv6);
    assert_eq!(found.arp(frame).is_some(), network == Network::Arp);
    let is_tcp = matches!(transport, Transport::Tcp { .. });
    assert_eq!(found.tcp(frame).is_some(), is_tcp);
    assert_eq!(found.ethernet(frame).unwrap().src().0[5], 1);
}

fn check_error(frame: &[u8], error: ParseError) {
    assert_eq!(parse_ethernet(frame), Err(error), "{frame:x?}");
}

#[test]
fn ip_and_transport() {
    use IpProto as P;
    let v4 = |packet: Vec<u8>| eth(0x0800, &packet);
    let v6 = |packet: Vec<u8>| eth(0x86dd, &packet);
    let segment = tcp(&V4, &[1, 1, 1, 0], b"abc");
    check(&v4(ipv4(P::TCP, &segment)), Network::Ipv4, P::TCP, TCP, b"abc");
    let datagram = udp(&V4, b"abc");
    check(&v4(ipv4(P::UDP, &datagram)), Network::Ipv4, P::UDP, UDP, b"abc");
    let options = ipv4_with(P::UDP, &datagram, |ip| ip.options = &[7; 40]);
    check(&v4(options), Network::Ipv4, P::UDP, UDP, b"abc");
    let icmp = Transport::Icmp { kind: 3, code: 13 };
    check(&v4(ipv4(P::ICMP, &[3, 13, 0, 0, 0, 0, 0, 0, 9])), Network::Ipv4, P::ICMP, icmp, &[9]);
    let sctp = Transport::Sctp { src: 80, dst: 256 };
    let packet = [0, 80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5];
    check(&v4(ipv4(P::SCTP, &packet)), Network::Ipv4, P::SCTP, sctp, &[5]);
    check(&v4(ipv4(P(47), &[1, 2])), Network::Ipv4, P(47), Transport::None, &[1, 2]);
    check(&v6(ipv6(P::TCP, &segment)), Network::Ipv6, P::TCP, TCP, b"abc");
    let icmpv6 = Transport::Icmpv6 { kind: 128, code: 1 };
    check(&v6(ipv6(P::ICMPV6, &[128, 1, 0, 0])), Network::Ipv6, P::ICMPV6, icmpv6, &[]);
    check(&v6(ipv6(P::NO_NEXT, &[])), Network::Ipv6, P::NO_NEXT, Transport::None, &[]);
    check(&v6(ipv6(P::ESP, &[1; 9])), Network::Ipv6, P::ESP, Transport::None, &[1; 9]);
    // Each family has its own ICMP.
    check(&v6(ipv6(P::ICMP, &[1])), Network::Ipv6, P::ICMP, Transport::None, &[1]);
    check(&v4(ipv4(P::ICMPV6, &[1])), Network::Ipv4, P::ICMPV6, Transport::None, &[1]);
    check(&eth(0x0806, &arp()), Network::Arp, P(0), Transport::None, &[]);
    check(&eth(0x88cc, &[1, 2]), Network::None, P(0), Transport::None, &[1, 2]);
}

#[test]
fn padding_is_no_payload() {
    for mut frame in frames() {
        let (packet, length) = (found(&frame), frame.len());
        // A frame without length field cannot tell padding from payload.
        if packet.network == Network::None && packet.ether_type != EtherType::NONE {
            continue;
        }
        frame.extend([0xee; 9]);
        assert_eq!(found(&frame), packet);
        assert_eq!(packet.packet_end, length);
    }
}

#[test]
fn fragments() {
    let whole = udp(&V4, &[7; 30]);
    let part = |offset, more| {
        let ip = ipv4_with(IpProto::UDP, &whole[..16], |ip| {
            (ip.fragment_offset, ip.more_fragments) = (offset, more);
        });
        found(&eth(0x0800, &ip))
    };
    // The first one has a UDP length that passes its own end.
    let first = part(0, true);
    assert_eq!((first.fragment, first.transport), (Fragment::First, UDP));
    for (offset, more) in [(2, true), (2, false)] {
        let later = part(offset, more);
        assert_eq!((later.fragment, later.transport), (Fragment::Later, Transport::None));
        assert_eq!((later.ip_proto, later.transport_offset), (IpProto::UDP, 34));
    }
    let v6 = |header: [u8; 8]| {
        found(&eth(0x86dd, &ipv6(IpProto::FRAGMENT, &[&header, &whole[..16]].concat())))
    };
    let first = v6([17, 0, 0, 1, 0, 0, 0, 1]);
    assert_eq!((first.fragment, first.transport), (Fragment::First, UDP));
    let later = v6([17, 0, 0, 0x10, 0, 0, 0, 1]);
    assert_eq!((later.fragment, later.transport), (Fragment::Later, Transport::None));
    assert_eq!((later.ip_proto, later.transport_offset), (IpProto::UDP, 62));
}

#[test]
fn tags_up_to_the_bound() {
    let packet = ipv4(IpProto::UDP, &udp(&V4, b""));
    let stacked = |tags: usize| {
        let mut payload = packet.clone();
        let mut ether_type = 0x0800;
        for i in 0..tags {
            payload = tag(i as u16 + 1, ether_type, &payload);
            ether_type = [0x8100, 0x88a8, 0x9100][i % 3];
        }
        eth(ether_type, &payload)
    };
    for tags in 0..=VLAN_TAGS_MAX {
        let found = found(&stacked(tags));
        assert_eq!((usize::from(found.vlan_tags), found.transport), (tags, UDP));
        assert_eq!(found.vlan_tci, (tags > 0).then_some(tags as u16));
        assert_eq!(found.ether_type, EtherType::IPV4);
    }
    check_error(&stacked(VLAN_TAGS_MAX + 1), ParseError::VlanTooMany);
    check_error(&eth(0x8100, &[0, 1, 8]), ParseError::VlanTruncated);
}

#[test]
fn labels_up_to_the_bound() {
    let labelled = |labels: usize, payload: &[u8]| {
        let mut stack = [0, 1, 0x10, 64].repeat(labels);
        stack[labels * 4 - 2] |= 1;
        eth(0x8847, &[&stack, payload].concat())
    };
    let packet = ipv6(IpProto::UDP, &udp(&V6, b""));
    for labels in 1..=MPLS_LABELS_MAX {
        let found = found(&labelled(labels, &packet));
        assert_eq!((usize::from(found.mpls_labels), found.transport), (labels, UDP));
        assert_eq!(found.ether_type, EtherType::MPLS);
    }
    check_error(&labelled(MPLS_LABELS_MAX + 1, &packet), ParseError::MplsTooMany);
    check_error(&eth(0x8848, &[0, 1, 0x10, 64, 0]), ParseError::MplsTruncated);
    // A pseudowire may look like IP at first; then the payload is all that is known.
    for payload in [&[0x45, 0, 1][..], &[0x60], &[0, 0, 0, 0, 1], &[]] {
        let frame = labelled(1, payload);
        let found = found(&frame);
        assert_eq!((found.network, found.payload(&frame)), (Network::None, payload));
    }
}

#[test]
fn ieee_802_3() {
    let ether_type = |frame: &[u8]| found(frame).ether_type.0;
    assert_eq!(ether_type(&eth(3, &[0x42, 0x42, 3])), 0x05ff);
    assert_eq!(ether_type(&eth(8, &[0xaa, 0xaa, 3, 0, 0, 0, 0x88, 0xcc])), 0x88cc);
    assert_eq!(ether_type(&eth(8, &[0xaa, 0xaa, 3, 0, 0, 0xc, 0x20, 0])), 0x05ff);
    // Between the largest length and the smallest EtherType.
    assert_eq!(ether_type(&eth(1501, &[])), 0x05ff);
    assert_eq!(ether_type(&eth(0x05ff, &[])), 0x05ff);
    assert_eq!(ether_type(&eth(0x8100, &tag(1, 3, &[0x42, 0x42, 3]))), 0x05ff);
    let packet = ipv4(IpProto::UDP, &udp(&V4, b"abc"));
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &packet[..]].concat();
    let frame = eth(snap.len() as u16, &snap);
    check(&frame, Network::Ipv4, IpProto::UDP, UDP, b"abc");
    // The 802.3 length limits the packet in it.
    check_error(&eth(snap.len() as u16 - 1, &snap), ParseError::Ipv4PayloadTruncated);
    check_error(&eth(4, &[0x42, 0x42, 3]), ParseError::LlcLength);
    check_error(&eth(2, &[0x42, 0x42, 3]), ParseError::LlcTruncated);
    check_error(&eth(0, &[0x42, 0x42, 3]), ParseError::LlcTruncated);
}

#[test]
fn refusals() {
    use ParseError as E;
    let v4 = |packet: &[u8]| eth(0x0800, packet);
    let segment = tcp(&V4, &[], b"");
    let packet = ipv4(IpProto::TCP, &segment);
    let with = |at: usize, value: u8| {
        let mut packet = packet.clone();
        packet[at] = value;
        v4(&packet)
    };
    check_error(&[0; 13], E::EthernetTruncated);
    check_error(&[], E::EthernetTruncated);
    check_error(&v4(&[]), E::Ipv4Truncated);
    check_error(&v4(&packet[..19]), E::Ipv4Truncated);
    check_error(&v4(&packet[..39]), E::Ipv4PayloadTruncated);
    check_error(&with(0, 0x65), E::Ipv4Version);
    check_error(&with(0, 0x44), E::Ipv4HeaderLength);
    check_error(&with(3, 19), E::Ipv4TotalLength);
    check_error(&with(3, 39), E::TcpTruncated);
    check_error(&with(32, 0x40), E::TcpHeaderLength);
    check_error(&with(32, 0x60), E::TcpTruncated);
    let mut datagram = udp(&V4, b"abc");
    check_error(&v4(&ipv4(IpProto::UDP, &datagram[..7])), E::UdpTruncated);
    for length in [0, 7, 12] {
        datagram[5] = length;
        check_error(&v4(&ipv4(IpProto::UDP, &datagram)), E::UdpLength);
    }
    check_error(&v4(&ipv4(IpProto::SCTP, &[0; 11])), E::SctpTruncated);
    check_error(&v4(&ipv4(IpProto::ICMP, &[0; 7])), E::IcmpTruncated);
    let v6 = |next: IpProto, payload: &[u8]| eth(0x86dd, &ipv6(next, payload));
    check_error(&v6(IpProto::ICMPV6, &[0; 3]), E::Icmpv6Truncated);
    check_error(&v6(IpProto::TCP, &segment)[..14 + 59], E::Ipv6PayloadTruncated);
    check_error(&eth(0x86dd, &packet), E::Ipv6Version);
    check_error(&eth(0x86dd, &[0x60; 39]), E::Ipv6Truncated);
    check_error(&v6(IpProto::ROUTING, &[6, 1, 0, 0, 0, 0, 0, 0]), E::Ipv6ExtensionTruncated);
    let chain = [60, 0, 1, 4, 0, 0, 0, 0].repeat(EXTENSIONS_MAX + 1);
    check_error(&v6(IpProto::DESTINATION, &chain), E::Ipv6ExtensionTooMany);
    check_error(&v6(IpProto::AH, &[6, 0, 0, 0, 0, 0, 0, 0]), E::Ipv6ExtensionLength);
    let late = [0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0];
    check_error(&v6(IpProto::DESTINATION, &late), E::Ipv6HopByHopOrder);
    check_error(&eth(0x0806, &arp()[..27]), E::ArpTruncated);
    let raw = |frame: &[u8], error: E| {
        assert_eq!(parse(LinkType::RawIp, frame, frame.len()), Err(error));
    };
    raw(&[], E::IpVersion);
    raw(&[0x55; 40], E::IpVersion);
    assert_eq!(parse(LinkType::Sll, &[0; 15], 15), Err(E::LinkTruncated));
    assert_eq!(parse(LinkType::Unsupported(9), &[0; 99], 99), Err(E::LinkUnsupported));
}

#[test]
fn jumbograms() {
    let payload = [&[17, 0, 0xc2, 4, 0, 1, 0, 0], &udp(&V6, &[0; 40])[..]].concat();
    let mut packet = ipv6(IpProto::HOP_BY_HOP, &payload);
    packet[4..6].fill(0);
    let frame = eth(0x86dd, &packet);
    // 65536 bytes were on the wire, the capture has the first ones.
    let found = parse(LinkType::Ethernet, &frame, 14 + 40 + 65536).unwrap();
    assert_eq!((found.network, found.transport), (Network::Ipv6, UDP));
    check_error(&frame, ParseError::Ipv6PayloadTruncated);
    // Without the option, length zero means zero.
    packet[42] = 1;
    check_error(&eth(0x86dd, &packet), ParseError::Ipv6ExtensionTruncated);
}

#[test]
fn captures_cut_short() {
    for (frame, headers) in [
        (eth(0x0800, &ipv4(IpProto::TCP, &tcp(&V4, &[1; 4], &[0; 100]))), 58),
        (eth(0x86dd, &ipv6(IpProto::UDP, &udp(&V6, &[0; 100]))), 62),
    ] {
        let whole = found(&frame);
        assert_eq!(whole.payload_offset, headers);
        for captured in 0..frame.len() {
            let outcome = parse(LinkType::Ethernet, &frame[..captured], frame.len());
            let expected = ParsedFrame { packet_end: captured, ..whole };
            assert_eq!(outcome.is_ok(), captured >= headers, "{captured}");
            assert!(outcome.is_err() || outcome == Ok(expected));
        }
    }
}

#[test]
fn link_types() {
    let packet = ipv4(IpProto::UDP, &udp(&V4, b"abc"));
    let sll = [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0], &packet[..]].concat();
    let sll2 =
        [&[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &packet[..]].concat();
    let tagged = [&sll[..14], &[0x81, 0], &tag(5, 0x0800, &packet)].concat();
    let llc = [&sll[..14], &[0, 4], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &packet[..]].concat();
    let check = |number: u32, frame: &[u8], tags: u8| {
        let found = parse(LinkType::from_capture(number), frame, frame.len()).unwrap();
        assert_eq!((found.ether_type, found.transport), (EtherType::IPV4, UDP), "{number}");
        assert_eq!((found.payload(frame), found.vlan_tags), (&b"abc"[..], tags), "{number}");
    };
    for number in [12, 14, 101, 228, 229] {
        check(number, &packet, 0);
    }
    check(113, &sll, 0);
    check(113, &tagged, 1);
    check(113, &llc, 0);
    check(276, &sll2, 0);
    check(0, &[&[2, 0, 0, 0], &packet[..]].concat(), 0);
    check(108, &[&[0, 0, 0, 2], &packet[..]].concat(), 0);
    // Linux's own protocol numbers and unknown families carry nothing that is read here.
    let own = [&sll[..14], &[0, 12], &packet[..]].concat();
    assert_eq!(parse(LinkType::Sll, &own, own.len()).unwrap().ether_type, EtherType::NONE);
    let family = [&[7, 0, 0, 0], &packet[..]].concat();
    let found = parse(LinkType::Loopback, &family, family.len()).unwrap();
    assert_eq!((found.network, found.ether_type), (Network::None, EtherType::NONE));
}
