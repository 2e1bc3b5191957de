//! Building blocks of crafted frames, shared by the tests of this folder.
#![allow(dead_code, reason = "each test file uses its part")]

use std::net::{Ipv4Addr, Ipv6Addr};

use warpswitch_wire::arp::{Arp, ArpRepr};
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::ethernet::{EtherType, Ethernet, EthernetRepr, MacAddr};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{Ipv4, Ipv4Repr};
use warpswitch_wire::ipv6::{Ipv6, Ipv6Repr};
use warpswitch_wire::tcp::{Tcp, TcpFlags, TcpRepr};
use warpswitch_wire::udp::{Udp, UdpRepr};

pub const V4_SRC: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
pub const V4_DST: Ipv4Addr = Ipv4Addr::new(192, 168, 5, 6);
pub const V6_SRC: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub const V6_DST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 2);
pub const V4: PseudoHeader = PseudoHeader::V4 { src: V4_SRC, dst: V4_DST };
pub const V6: PseudoHeader = PseudoHeader::V6 { src: V6_SRC, dst: V6_DST };

pub fn eth(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let repr = EthernetRepr { src, dst, ether_type: EtherType(ether_type) };
    let mut frame = vec![0; repr.header_bytes()];
    repr.emit(&mut Ethernet::new_unchecked(&mut frame));
    frame.extend(payload);
    frame
}

/// A VLAN tag in front of what `ether_type` says: the payload of a frame of a tag's EtherType.
pub fn tag(tci: u16, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&tci.to_be_bytes(), &ether_type.to_be_bytes(), payload].concat()
}

pub fn ipv4_with(proto: IpProto, payload: &[u8], set: impl FnOnce(&mut Ipv4Repr<'_>)) -> Vec<u8> {
    let mut repr = Ipv4Repr::new(V4_SRC, V4_DST, proto, payload.len());
    set(&mut repr);
    let mut packet = vec![0; repr.header_bytes()];
    repr.emit(&mut Ipv4::new_unchecked(&mut packet));
    packet.extend(payload);
    packet
}

pub fn ipv4(proto: IpProto, payload: &[u8]) -> Vec<u8> {
    ipv4_with(proto, payload, |_| {})
}

pub fn ipv6(next: IpProto, payload: &[u8]) -> Vec<u8> {
    let repr = Ipv6Repr::new(V6_SRC, V6_DST, next, payload.len());
    let mut packet = vec![0; repr.header_bytes()];
    repr.emit(&mut Ipv6::new_unchecked(&mut packet));
    packet.extend(payload);
    packet
}

pub fn tcp(pseudo: &PseudoHeader, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let flags = TcpFlags::SYN | TcpFlags::ECE | TcpFlags::NS;
    let repr = TcpRepr { src_port: 4660, dst_port: 443, flags, options, ..TcpRepr::default() };
    let mut segment = vec![0; repr.header_bytes()];
    repr.emit(&mut Tcp::new_unchecked(&mut segment));
    segment.extend(payload);
    Tcp::new_unchecked(&mut segment).fill_checksum(pseudo);
    segment
}

pub fn udp(pseudo: &PseudoHeader, payload: &[u8]) -> Vec<u8> {
    let repr = UdpRepr { src_port: 53, dst_port: 1024, payload_bytes: payload.len() };
    let mut datagram = vec![0; repr.header_bytes()];
    repr.emit(&mut Udp::new_unchecked(&mut datagram));
    datagram.extend(payload);
    Udp::new_unchecked(&mut datagram).fill_checksum(pseudo);
    datagram
}

pub fn arp() -> Vec<u8> {
    let repr = ArpRepr {
        operation: 2,
        sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        sender_ip: V4_SRC,
        target_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        target_ip: V4_DST,
    };
    let mut packet = vec![0; repr.header_bytes()];
    repr.emit(&mut Arp::new_unchecked(&mut packet));
    packet
}

/// Sound frames of every kind that is read, to start mutations from.
pub fn frames() -> Vec<Vec<u8>> {
    let v4_tcp = ipv4(IpProto::TCP, &tcp(&V4, &[2, 4, 5, 0xb4], b"hello, world"));
    let v6_udp = ipv6(IpProto::UDP, &udp(&V6, b"hello"));
    let chain = [
        &[60, 0, 5, 2, 0, 0, 0, 0][..],
        &[43, 0, 1, 4, 0, 0, 0, 0],
        &[44, 0, 0, 0, 0, 0, 0, 0],
        &[51, 0, 0, 0, 0, 0, 0, 7],
        &[6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &tcp(&V6, &[], b"x"),
    ];
    let sctp = [0, 80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    vec![
        eth(0x0800, &v4_tcp),
        eth(0x86dd, &v6_udp),
        eth(0x0800, &ipv4(IpProto::UDP, &udp(&V4, b"data"))),
        eth(0x0800, &ipv4_with(IpProto::UDP, &udp(&V4, b"data"), |ip| ip.options = &[1; 12])),
        eth(0x0800, &ipv4_with(IpProto::UDP, &udp(&V4, b"dat"), |ip| ip.more_fragments = true)),
        eth(0x0800, &ipv4_with(IpProto::UDP, &udp(&V4, b"dat"), |ip| ip.fragment_offset = 9)),
        eth(0x0800, &ipv4(IpProto::ICMP, &[8, 0, 0, 0, 0, 1, 0, 2, 3, 4])),
        eth(0x0800, &ipv4(IpProto::SCTP, &sctp)),
        eth(0x86dd, &ipv6(IpProto::TCP, &tcp(&V6, &[1; 8], b"data"))),
        eth(0x86dd, &ipv6(IpProto::ICMPV6, &[128, 0, 0, 0, 0, 1, 0, 2])),
        eth(0x86dd, &ipv6(IpProto::HOP_BY_HOP, &chain.concat())),
        eth(0x0806, &arp()),
        eth(0x8100, &tag(0x2064, 0x0800, &v4_tcp)),
        eth(0x88a8, &tag(0x0001, 0x8100, &tag(0x2064, 0x86dd, &v6_udp))),
        eth(0x8847, &[&[0, 1, 0x10, 64, 0, 2, 0x01, 64], &v4_tcp[..]].concat()),
        eth(8 + 20, &[&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &ipv4(IpProto(47), &[])[..]].concat()),
        eth(7, &[0x42, 0x42, 3, 0, 0, 0, 0]),
    ]
}

/// A small generator with a seed: the same frames on any machine.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (((self.next() >> 32) * end as u64) >> 32) as usize
    }

    /// Values at which lengths, versions and flags change their meaning, or any.
    pub fn edge(&mut self) -> u8 {
        let edges = [0, 1, 2, 4, 5, 8, 17, 20, 0x20, 0x40, 0x44, 0x45, 0x46, 0x50, 0x60, 0xff];
        match self.below(2) {
            0 => edges[self.below(edges.len())],
            _ => self.next() as u8,
        }
    }

    /// Changes a few bytes of `frame`, and perhaps its length.
    pub fn mutate(&mut self, frame: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            if !frame.is_empty() {
                let at = self.below(frame.len().min(90));
                frame[at] = self.edge();
            }
        }
        match self.below(8) {
            0 => frame.truncate(self.below(frame.len() + 1)),
            1 => frame.resize(frame.len() + self.below(20), 0xee),
            _ => {}
        }
    }
}
