//! Agreement with another parser and builder, the `etherparse` crate, on random frames.
//!
//! Frames that it builds must be read here with the fields that went in and right checksums.
//! Mutated frames must be accepted or refused by both, with equal findings, except where the two
//! differ on purpose: see [`differs_on_purpose`].

mod common;

use common::{Rng, frames};
use etherparse::{
    ArpPacketSlice, LinkExtSlice, NetSlice, PacketBuilder, SlicedPacket, TransportSlice,
};
use warpswitch_wire::ParseError;
use warpswitch_wire::ethernet::EtherType;
use warpswitch_wire::ip::{Fragment, IpProto};
use warpswitch_wire::link::LinkType;
use warpswitch_wire::parse::{Network, ParsedFrame, Transport, parse, parse_ethernet};

/// Whether no comparison can be made: what one side reads and the other does not, or takes for
/// an error and the other does not.
///
/// - It knows neither LLC nor MPLS, RARP, SCTP, mobility, HIP and shim6, and stops at three tags.
/// - We know no MACsec and no IGMP, and no authentication header of IPv4.
/// - It takes an IPv6 payload length of zero, and a UDP length of zero, for "the rest"; here only
///   a jumbo option can say so.
/// - It reads no transport of first fragments, and follows IPv6 headers into later ones.
/// - It wants eight bytes of ICMPv6, and whole messages of the ICMP timestamps; takes ICMP of one
///   family in the other; and wants all of an ARP packet of a foreign format.
fn differs_on_purpose(
    frame: &[u8],
    ours: &Result<ParsedFrame, ParseError>,
    theirs: &Option<SlicedPacket<'_>>,
) -> bool {
    use ParseError as E;
    let Some((ether_type, at, tags)) = ether_type(frame) else { return false };
    let packet = &frame[at..];
    let byte = |at: usize| packet.get(at).copied().unwrap_or(0);
    let is_ether_type_foreign = ether_type.0 < 0x600
        || ether_type.is_mpls()
        || [EtherType::RARP, EtherType(0x88e5)].contains(&ether_type)
        || tags > 3;
    let is_arp_foreign = ether_type == EtherType::ARP && !packet.starts_with(&[0, 1, 8, 0, 6, 4]);
    let is_ipv4_foreign = ether_type == EtherType::IPV4 && [2, 51, 58, 132].contains(&byte(9));
    let is_ipv6_foreign = ether_type == EtherType::IPV6 && byte(4) == 0 && byte(5) == 0;
    if is_ether_type_foreign || is_arp_foreign || is_ipv4_foreign || is_ipv6_foreign {
        return true;
    }
    let their_ip = theirs.as_ref().and_then(|packet| packet.ip_payload());
    let is_their_end_foreign =
        their_ip.is_some_and(|ip| [1, 2, 132, 135, 139, 140].contains(&ip.ip_number.0));
    let is_our_end_foreign = ours.is_ok_and(|found| {
        found.fragment != Fragment::No || [1, 2, 58].contains(&found.ip_proto.0)
    });
    let is_v6 = ether_type == EtherType::IPV6;
    match (ours, theirs) {
        (Ok(found), None) => {
            let is_timestamp = matches!(found.transport, Transport::Icmp { kind: 13 | 14, .. });
            is_timestamp || is_v6 && is_our_end_foreign
        }
        (Ok(found), Some(_)) => is_v6 && (found.fragment != Fragment::No || is_their_end_foreign),
        (Err(E::UdpLength), Some(packet)) => {
            let is_zero = matches!(&packet.transport, Some(TransportSlice::Udp(udp))
                if udp.length() == 0);
            is_zero || packet.is_ip_payload_fragmented()
        }
        (Err(_), Some(packet)) => {
            packet.is_ip_payload_fragmented() || is_v6 && is_their_end_foreign
        }
        (Err(_), None) => false,
    }
}

/// EtherType behind the tags, where its payload starts, and the number of tags; none if truncated.
fn ether_type(frame: &[u8]) -> Option<(EtherType, usize, usize)> {
    let mut at = 12;
    loop {
        let bytes = frame.get(at..at + 2)?;
        let found = EtherType(u16::from_be_bytes([bytes[0], bytes[1]]));
        if !found.is_vlan() {
            return Some((found, at + 2, (at - 12) / 4));
        }
        at += 4;
    }
}

/// Checks that both sides found the same in a frame that both accept.
fn check_same(frame: &[u8], ours: &ParsedFrame, theirs: &SlicedPacket<'_>) {
    let tags: Vec<_> = theirs
        .link_exts
        .iter()
        .map(|ext| match ext {
            LinkExtSlice::Vlan(tag) => u16::from_be_bytes([tag.slice()[0], tag.slice()[1]]),
            LinkExtSlice::Macsec(_) => unreachable!("excluded above"),
        })
        .collect();
    assert_eq!(ours.inner_vlan_tci, tags.get(1).copied());
    assert_eq!((ours.vlan_tci, usize::from(ours.vlan_tags)), (tags.first().copied(), tags.len()));
    match &theirs.net {
        None => assert_eq!(ours.network, Network::None),
        Some(NetSlice::Arp(arp)) => check_arp(frame, ours, arp),
        Some(NetSlice::Ipv4(ip)) => {
            let view = ours.ipv4(frame).expect("IPv4 on both sides");
            let header = ip.header();
            assert_eq!((view.src(), view.dst()), (header.source_addr(), header.destination_addr()));
            assert_eq!((view.ttl(), view.proto().0), (header.ttl(), header.protocol().0));
            assert_eq!(view.total_bytes(), usize::from(header.total_len()));
            assert_eq!(view.identification(), header.identification());
            assert_eq!(view.tos(), header.dcp().value() << 2 | header.ecn().value());
            assert_eq!(view.fragment_offset(), header.fragments_offset().value());
            assert_eq!(view.more_fragments(), header.more_fragments());
            assert_eq!(view.dont_fragment(), header.dont_fragment());
            assert_eq!((view.options(), view.payload()), (header.options(), ip.payload().payload));
            assert_eq!(view.checksum(), header.header_checksum());
        }
        Some(NetSlice::Ipv6(ip)) => {
            let view = ours.ipv6(frame).expect("IPv6 on both sides");
            let header = ip.header();
            assert_eq!((view.src(), view.dst()), (header.source_addr(), header.destination_addr()));
            assert_eq!(view.hop_limit(), header.hop_limit());
            assert_eq!(view.traffic_class(), header.traffic_class());
            assert_eq!(view.flow_label(), header.flow_label().value());
            assert_eq!(ours.ip_proto.0, ip.payload().ip_number.0);
            assert_eq!(ours.transport_bytes(frame), ip.payload().payload);
        }
    }
    if ours.fragment == Fragment::No {
        check_transport(frame, ours, theirs);
    }
}

fn check_arp(frame: &[u8], ours: &ParsedFrame, theirs: &ArpPacketSlice<'_>) {
    let view = ours.arp(frame).expect("ARP on both sides");
    assert_eq!(view.operation(), theirs.operation().0);
    assert_eq!(view.sender_mac().0, theirs.sender_hw_addr());
    assert_eq!(view.sender_ip().octets(), theirs.sender_protocol_addr());
    assert_eq!(view.target_mac().0, theirs.target_hw_addr());
    assert_eq!(view.target_ip().octets(), theirs.target_protocol_addr());
}

fn check_transport(frame: &[u8], ours: &ParsedFrame, theirs: &SlicedPacket<'_>) {
    match (&theirs.transport, ours.transport) {
        (None, transport) => assert_eq!(transport, Transport::None),
        (Some(TransportSlice::Tcp(tcp)), Transport::Tcp { src, dst, flags }) => {
            assert_eq!((src, dst), (tcp.source_port(), tcp.destination_port()));
            let bits = [
                tcp.fin(),
                tcp.syn(),
                tcp.rst(),
                tcp.psh(),
                tcp.ack(),
                tcp.urg(),
                tcp.ece(),
                tcp.cwr(),
                tcp.ns(),
            ];
            let theirs = bits.iter().rev().fold(0, |all, &bit| all << 1 | u16::from(bit));
            assert_eq!(flags.0 & 0x1ff, theirs);
            let view = ours.tcp(frame).expect("TCP on both sides");
            assert_eq!(
                (view.seq(), view.ack()),
                (tcp.sequence_number(), tcp.acknowledgment_number())
            );
            assert_eq!((view.window(), view.urgent()), (tcp.window_size(), tcp.urgent_pointer()));
            assert_eq!((view.options(), view.payload()), (tcp.options(), tcp.payload()));
            assert_eq!(view.payload(), ours.payload(frame));
        }
        (Some(TransportSlice::Udp(udp)), Transport::Udp { src, dst }) => {
            assert_eq!((src, dst), (udp.source_port(), udp.destination_port()));
            let view = ours.udp(frame).expect("UDP on both sides");
            assert_eq!((view.payload(), view.checksum()), (udp.payload(), udp.checksum()));
        }
        (Some(TransportSlice::Icmpv4(icmp)), Transport::Icmp { kind, code }) => {
            assert_eq!((kind, code), (icmp.type_u8(), icmp.code_u8()));
        }
        (Some(TransportSlice::Icmpv6(icmp)), Transport::Icmpv6 { kind, code }) => {
            assert_eq!((kind, code), (icmp.type_u8(), icmp.code_u8()));
        }
        (theirs, ours) => panic!("{theirs:?} against {ours:?}"),
    }
}

#[test]
fn mutated_frames_are_judged_alike() {
    const FRAMES: usize = 200_000;
    let mut rng = Rng(42);
    let kinds = frames();
    let (mut both_accept, mut both_refuse) = (0, 0);
    for _ in 0..FRAMES {
        let mut frame = kinds[rng.below(kinds.len())].clone();
        rng.mutate(&mut frame);
        let ours = parse_ethernet(&frame);
        let theirs = SlicedPacket::from_ethernet(&frame);
        let refusal = theirs.as_ref().err().map(|error| error.to_string());
        let theirs = theirs.ok();
        if differs_on_purpose(&frame, &ours, &theirs) {
            continue;
        }
        match (&ours, &theirs) {
            (Ok(ours), Some(theirs)) => {
                check_same(&frame, ours, theirs);
                both_accept += 1;
            }
            (Err(_), None) => both_refuse += 1,
            _ => panic!("{ours:?} against {refusal:?} for {frame:x?}"),
        }
    }
    // The exclusions must not swallow the test.
    assert!(both_accept > FRAMES / 4 && both_refuse > FRAMES / 8, "{both_accept} {both_refuse}");
}

#[test]
fn cooked_frames_are_judged_alike() {
    let mut rng = Rng(7);
    for kind in frames() {
        for _ in 0..500 {
            let mut frame = [&[0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &kind[12..]].concat();
            let at = 14 + rng.below(frame.len() - 14);
            frame[at] = rng.edge();
            let ethernet = [&[0; 12], &frame[14..]].concat();
            let theirs = SlicedPacket::from_linux_sll(&frame).ok();
            let ours = parse(LinkType::Sll, &frame, frame.len());
            if differs_on_purpose(&ethernet, &ours, &theirs) {
                continue;
            }
            match (&ours, &theirs) {
                (Ok(ours), Some(theirs)) => check_same(&frame, ours, theirs),
                (Err(_), None) => {}
                _ => panic!("{ours:?} against {theirs:?} for {frame:x?}"),
            }
        }
    }
}

/// Checks a frame from the builder: accepted, the expected transport, the payload, and checksums.
fn check_built(frame: &[u8], transport: Transport, payload: &[u8]) {
    let found = parse_ethernet(frame).unwrap_or_else(|error| panic!("{error} {frame:x?}"));
    assert_eq!((found.transport, found.payload(frame)), (transport, payload));
    let (pseudo, is_header_right) = match (found.ipv4(frame), found.ipv6(frame)) {
        (Some(ip), None) => {
            let (src, dst) = (ip.src(), ip.dst());
            (warpswitch_wire::checksum::PseudoHeader::V4 { src, dst }, ip.is_checksum_right())
        }
        (None, Some(ip)) => {
            let (src, dst) = (ip.src(), ip.dst());
            (warpswitch_wire::checksum::PseudoHeader::V6 { src, dst }, true)
        }
        _ => panic!("one family"),
    };
    assert!(is_header_right);
    let is_right = match found.ip_proto {
        IpProto::TCP => found.tcp(frame).unwrap().is_checksum_right(&pseudo),
        IpProto::UDP => found.udp(frame).unwrap().is_checksum_right(&pseudo),
        IpProto::ICMP => {
            let view = warpswitch_wire::icmp::Icmp::new_checked(found.transport_bytes(frame));
            view.unwrap().is_checksum_right()
        }
        IpProto::ICMPV6 => {
            let view = warpswitch_wire::icmpv6::Icmpv6::new_checked(found.transport_bytes(frame));
            view.unwrap().is_checksum_right(&pseudo)
        }
        proto => panic!("protocol {proto}"),
    };
    assert!(is_right, "{frame:x?}");
}

#[test]
fn built_frames_are_read() {
    let mut rng = Rng(3);
    for round in 0..4000 {
        let n = rng.next();
        let bytes = n.to_be_bytes();
        let (src, dst) = (n as u16, (n >> 16) as u16);
        let payload = &[n as u8; 64][..rng.below(64)];
        let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let ip = if round % 2 == 0 {
            link.ipv4([bytes[0], bytes[1], bytes[2], bytes[3]], [10, 0, 0, 1], 64)
        } else {
            link.ipv6([bytes[4]; 16], [bytes[5]; 16], 64)
        };
        let mut frame = Vec::new();
        let transport = match round % 8 / 2 {
            0 => {
                ip.udp(src, dst).write(&mut frame, payload).unwrap();
                Transport::Udp { src, dst }
            }
            1 => {
                let tcp = ip.tcp(src, dst, n as u32, (n >> 40) as u16).syn().ack(9).ns();
                tcp.options_raw(&[1, 1, 1, 0]).unwrap().write(&mut frame, payload).unwrap();
                Transport::Tcp { src, dst, flags: warpswitch_wire::tcp::TcpFlags(0x112) }
            }
            _ if round % 2 == 0 => {
                ip.icmpv4_echo_request(src, dst).write(&mut frame, payload).unwrap();
                Transport::Icmp { kind: 8, code: 0 }
            }
            _ => {
                ip.icmpv6_echo_request(src, dst).write(&mut frame, payload).unwrap();
                Transport::Icmpv6 { kind: 128, code: 0 }
            }
        };
        // ICMPv6 counts identifier and sequence number to the body.
        let found = parse_ethernet(&frame).unwrap();
        let body = if matches!(transport, Transport::Icmpv6 { .. }) {
            &frame[found.transport_offset + 4..]
        } else {
            payload
        };
        check_built(&frame, transport, body);
    }
}
