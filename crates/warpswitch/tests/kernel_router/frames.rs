//! Frames that scenarios send, and who sends them.
//!
//! | | lan0 | lan1 |
//! | --- | --- | --- |
//! | router | `10.0.0.1`, `2001:db8:0:a::1`, `02:00:00:00:00:00` | `10.0.1.1`, `2001:db8:0:b::1`, `02:00:00:00:01:00` |
//! | host N | `10.0.0.N`, `2001:db8:0:a::N`, `02:00:00:00:00:N` | `10.0.1.N`, `2001:db8:0:b::N`, `02:00:00:00:01:N` |

use std::net::{Ipv4Addr, Ipv6Addr};

use warpswitch_wire::arp::{Arp, ArpRepr};
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::ethernet::{EtherType, Ethernet, EthernetRepr, HEADER_BYTES, MacAddr};
use warpswitch_wire::icmp::Icmp;
use warpswitch_wire::icmpv6::Icmpv6;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{Ipv4, Ipv4Repr};
use warpswitch_wire::ipv6::{Ipv6, Ipv6Repr};
use warpswitch_wire::tcp::{Tcp, TcpFlags, TcpRepr};
use warpswitch_wire::udp::{Udp, UdpRepr};

/// Which IP a router forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// A frame, and the link through which it comes to the router. Without bytes, time passes: as much
/// as it takes to give a neighbour up.
#[derive(Clone, Debug)]
pub struct Step {
    pub lan: usize,
    pub frame: Vec<u8>,
}

/// Time passes.
pub const PAUSE: Step = Step { lan: 0, frame: Vec::new() };

/// A host.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub lan: usize,
    pub mac: MacAddr,
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

/// Host `number` of a link.
pub const fn host(lan: usize, number: u8) -> Host {
    Host {
        lan,
        mac: MacAddr([2, 0, 0, 0, lan as u8, number]),
        v4: Ipv4Addr::new(10, 0, lan as u8, number),
        v6: Ipv6Addr::new(0x2001, 0xdb8, 0, 0xa + lan as u16, 0, 0, 0, number as u16),
    }
}

/// The router's Ethernet address on a link.
pub const fn router_mac(lan: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, lan as u8, 0])
}

/// A frame from `from` to the router.
pub fn to_router(from: Host, ether_type: EtherType, payload: &[u8]) -> Step {
    to_mac(from, router_mac(from.lan), ether_type, payload)
}

/// A frame from `from` to `dst`.
pub fn to_mac(from: Host, dst: MacAddr, ether_type: EtherType, payload: &[u8]) -> Step {
    let mut frame = vec![0; HEADER_BYTES + payload.len()];
    let repr = EthernetRepr { dst, src: from.mac, ether_type };
    repr.emit(&mut Ethernet::new_unchecked(&mut frame[..]));
    frame[HEADER_BYTES..].copy_from_slice(payload);
    Step { lan: from.lan, frame }
}

/// An IPv4 packet with these bytes behind its header, changed by `edit`.
pub fn packet_v4(
    src: Ipv4Addr,
    dst: Ipv4Addr,
    proto: IpProto,
    payload: &[u8],
    edit: impl FnOnce(&mut Ipv4Repr<'_>),
) -> Vec<u8> {
    let mut repr = Ipv4Repr::new(src, dst, proto, payload.len());
    repr.identification = 0x1234;
    edit(&mut repr);
    let header_bytes = repr.header_bytes();
    let mut bytes = vec![0; header_bytes + payload.len()];
    repr.emit(&mut Ipv4::new_unchecked(&mut bytes[..]));
    bytes[header_bytes..].copy_from_slice(payload);
    bytes
}

/// An IPv4 packet of `from` in a frame to the router.
pub fn v4(
    from: Host,
    dst: Ipv4Addr,
    (proto, payload): (IpProto, Vec<u8>),
    edit: impl FnOnce(&mut Ipv4Repr<'_>),
) -> Step {
    to_router(from, EtherType::IPV4, &packet_v4(from.v4, dst, proto, &payload, edit))
}

/// The same, with the packet's bytes changed at the end; its header has a right checksum then if
/// `is_summed`.
pub fn v4_broken(from: Host, dst: Ipv4Addr, is_summed: bool, edit: impl FnOnce(&mut [u8])) -> Step {
    let (proto, payload) = udp_v4(from.v4, dst, 32);
    let mut bytes = packet_v4(from.v4, dst, proto, &payload, |_| {});
    edit(&mut bytes);
    if is_summed {
        Ipv4::new_unchecked(&mut bytes[..]).fill_checksum();
    }
    to_router(from, EtherType::IPV4, &bytes)
}

/// An IPv6 packet of `from` in a frame to the router.
pub fn v6(
    from: Host,
    dst: Ipv6Addr,
    (next_header, payload): (IpProto, Vec<u8>),
    edit: impl FnOnce(&mut Ipv6Repr),
) -> Step {
    to_router(from, EtherType::IPV6, &packet_v6(from.v6, dst, next_header, &payload, edit))
}

/// An IPv6 packet with these bytes behind its header, changed by `edit`.
pub fn packet_v6(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    next_header: IpProto,
    payload: &[u8],
    edit: impl FnOnce(&mut Ipv6Repr),
) -> Vec<u8> {
    let mut repr = Ipv6Repr::new(src, dst, next_header, payload.len());
    edit(&mut repr);
    let header_bytes = repr.header_bytes();
    let mut bytes = vec![0; header_bytes + payload.len()];
    repr.emit(&mut Ipv6::new_unchecked(&mut bytes[..]));
    bytes[header_bytes..].copy_from_slice(payload);
    bytes
}

/// Bytes of which no two neighbouring runs are equal, so that what is cut shows where.
pub fn filling(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at ^ ((at >> 8) * 7)) as u8).collect()
}

fn udp(pseudo: &PseudoHeader, ports: (u16, u16), data: &[u8]) -> (IpProto, Vec<u8>) {
    let repr = UdpRepr { src_port: ports.0, dst_port: ports.1, payload_bytes: data.len() };
    let mut bytes = vec![0; repr.header_bytes() + data.len()];
    repr.emit(&mut Udp::new_unchecked(&mut bytes[..]));
    bytes[repr.header_bytes()..].copy_from_slice(data);
    Udp::new_unchecked(&mut bytes[..]).fill_checksum(pseudo);
    (IpProto::UDP, bytes)
}

/// A UDP datagram of so many bytes of data.
pub fn udp_v4(src: Ipv4Addr, dst: Ipv4Addr, bytes: usize) -> (IpProto, Vec<u8>) {
    udp(&PseudoHeader::V4 { src, dst }, (1000, 2000), &filling(bytes))
}

/// The same for IPv6.
pub fn udp_v6(src: Ipv6Addr, dst: Ipv6Addr, bytes: usize) -> (IpProto, Vec<u8>) {
    udp(&PseudoHeader::V6 { src, dst }, (1000, 2000), &filling(bytes))
}

/// The first segment of a connection, with options.
pub fn tcp(pseudo: &PseudoHeader) -> (IpProto, Vec<u8>) {
    let options = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7];
    let repr = TcpRepr {
        src_port: 40_000,
        dst_port: 80,
        seq: 0x1234_5678,
        flags: TcpFlags(2),
        window: 64_240,
        options: &options,
        ..TcpRepr::default()
    };
    let mut bytes = vec![0; repr.header_bytes()];
    repr.emit(&mut Tcp::new_unchecked(&mut bytes[..]));
    Tcp::new_unchecked(&mut bytes[..]).fill_checksum(pseudo);
    (IpProto::TCP, bytes)
}

/// An ICMP message with its second word and data.
pub fn icmp(kind: u8, code: u8, rest: &[u8]) -> (IpProto, Vec<u8>) {
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend_from_slice(rest);
    Icmp::new_unchecked(&mut bytes[..]).fill_checksum();
    (IpProto::ICMP, bytes)
}

/// A ping with so many bytes of data.
pub fn ping(bytes: usize) -> (IpProto, Vec<u8>) {
    icmp(8, 0, &[&[0, 7, 0, 1], &filling(bytes)[..]].concat())
}

/// An ICMPv6 message with its second word and data.
pub fn icmpv6(src: Ipv6Addr, dst: Ipv6Addr, kind: u8, rest: &[u8]) -> (IpProto, Vec<u8>) {
    let mut bytes = vec![kind, 0, 0, 0];
    bytes.extend_from_slice(rest);
    Icmpv6::new_unchecked(&mut bytes[..]).fill_checksum(&PseudoHeader::V6 { src, dst });
    (IpProto::ICMPV6, bytes)
}

/// A ping with so many bytes of data.
pub fn ping_v6(src: Ipv6Addr, dst: Ipv6Addr, bytes: usize) -> (IpProto, Vec<u8>) {
    icmpv6(src, dst, 128, &[&[0, 7, 0, 1], &filling(bytes)[..]].concat())
}

/// An ARP packet from `from`, in a frame to `dst`.
pub fn arp(from: Host, dst: MacAddr, operation: u16, target: (MacAddr, Ipv4Addr)) -> Step {
    let repr = ArpRepr {
        operation,
        sender_mac: from.mac,
        sender_ip: from.v4,
        target_mac: target.0,
        target_ip: target.1,
    };
    let mut bytes = vec![0; repr.header_bytes()];
    repr.emit(&mut Arp::new_unchecked(&mut bytes[..]));
    to_mac(from, dst, EtherType::ARP, &bytes)
}

/// An ARP reply of `from` to the router.
pub fn arp_reply(from: Host) -> Step {
    let router = (router_mac(from.lan), host(from.lan, 1).v4);
    arp(from, router.0, 2, router)
}

/// A neighbour advertisement of `from` to the router: an answer, and it holds.
pub fn advertisement(from: Host) -> Step {
    let link = [0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, (from.lan as u16) << 8];
    let dst = Ipv6Addr::from(link);
    let mut rest = vec![0x60, 0, 0, 0];
    rest.extend(from.v6.octets());
    rest.extend([2, 1]);
    rest.extend(from.mac.0);
    v6(from, dst, icmpv6(from.v6, dst, 136, &rest), |repr| repr.hop_limit = 255)
}

/// Where fences begin in their UDP data.
const FENCE_MARK: [u8; 8] = *b"a fence ";

/// A frame that comes through `lan` and is to be forwarded; `number` tells which it is.
pub fn fence(family: Family, lan: usize, number: u32) -> Vec<u8> {
    let (from, to) = (host(lan, 2), host(1 - lan, 2));
    let data = [&FENCE_MARK[..], &number.to_be_bytes()].concat();
    match family {
        Family::V4 => {
            let pseudo = PseudoHeader::V4 { src: from.v4, dst: to.v4 };
            v4(from, to.v4, udp(&pseudo, (9, 9), &data), |_| {}).frame
        }
        Family::V6 => {
            let pseudo = PseudoHeader::V6 { src: from.v6, dst: to.v6 };
            v6(from, to.v6, udp(&pseudo, (9, 9), &data), |_| {}).frame
        }
    }
}

/// The number of a fence, if it is one.
pub fn fence_number(frame: &[u8]) -> Option<u32> {
    let number = frame.last_chunk::<4>()?;
    let mark = frame[..frame.len() - 4].last_chunk::<8>()?;
    (*mark == FENCE_MARK).then(|| u32::from_be_bytes(*number))
}
