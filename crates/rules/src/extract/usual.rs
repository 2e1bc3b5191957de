//! The usual shape: untagged Ethernet, an IP header of its least size, TCP or UDP, no fragment.
//!
//! All fields lie at fixed offsets. The checks are those of the parser, so that a frame is taken
//! here only if the parser would take it, and with the same findings; whatever looks different,
//! and every broken frame, is left to the parser.

use warpswitch_wire::ethernet::EtherType;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::parse::Network;
use warpswitch_wire::{ethernet, icmp, ipv4, ipv6, sctp, tcp, udp};

use super::Found;

/// Where the IP header starts.
const IP: usize = ethernet::HEADER_BYTES;
/// Where the transport header of an IPv4 packet starts.
const IPV4_END: usize = IP + ipv4::HEADER_BYTES;
/// Where the transport header of an IPv6 packet starts.
const IPV6_END: usize = IP + ipv6::HEADER_BYTES;

#[inline(always)]
fn half_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Four bytes as a word of a key.
#[inline(always)]
pub(super) fn word_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// What is found in a sound frame of the usual shape; none for any other frame. `wire_bytes` is
/// at least `frame.len()`.
#[inline(always)]
pub(super) fn find(frame: &[u8], wire_bytes: usize) -> Option<Found> {
    let head: &[u8; IPV4_END] = frame.first_chunk()?;
    let ether_type = EtherType(half_at(head, 12));
    match ether_type {
        EtherType::IPV4 => {
            let total_bytes = usize::from(half_at(head, IP + 2));
            let is_usual = head[IP] == 0x45
                && half_at(head, IP + 6) & 0x3fff == 0
                && (ipv4::HEADER_BYTES..=wire_bytes - IP).contains(&total_bytes);
            let payload_bytes = is_usual.then(|| total_bytes - ipv4::HEADER_BYTES)?;
            let l4 = transport(head[IP + 9], &frame[IPV4_END..], payload_bytes)?;
            Some(l4.found(ether_type, Network::Ipv4, head[IP + 1]))
        }
        EtherType::IPV6 => {
            let head: &[u8; IPV6_END] = frame.first_chunk()?;
            let payload_bytes = usize::from(half_at(head, IP + 4));
            let is_usual = head[IP] >> 4 == 6 && payload_bytes <= wire_bytes - IPV6_END;
            let payload_bytes = is_usual.then_some(payload_bytes)?;
            let l4 = transport(head[IP + 6], &frame[IPV6_END..], payload_bytes)?;
            Some(l4.found(ether_type, Network::Ipv6, head[IP] << 4 | head[IP + 1] >> 4))
        }
        _ => None,
    }
}

/// What the header of a protocol over IPv4 is like.
#[derive(Clone, Copy)]
struct Above {
    /// All ones for those that it has: ports; TCP's length of its own and flags; UDP's length of
    /// all that follows.
    ports: u32,
    tcp: u32,
    udp: u32,
    /// Bytes that it takes if it says no length, and at least.
    fixed_bytes: u16,
    least_bytes: u16,
}

impl Above {
    const fn new(ports: u32, least_bytes: usize) -> Self {
        let bytes = least_bytes as u16;
        Self { ports, tcp: 0, udp: 0, fixed_bytes: bytes, least_bytes: bytes }
    }
}

/// By protocol: in place of branches and comparisons, four rows of this are in use.
static ABOVE: [Above; 256] = {
    let mut above = [Above::new(0, 0); 256];
    let tcp = Above::new(u32::MAX, tcp::HEADER_BYTES);
    above[IpProto::TCP.0 as usize] = Above { tcp: u32::MAX, fixed_bytes: 0, ..tcp };
    let udp = Above::new(u32::MAX, udp::HEADER_BYTES);
    above[IpProto::UDP.0 as usize] = Above { udp: u32::MAX, fixed_bytes: 0, ..udp };
    above[IpProto::SCTP.0 as usize] = Above::new(u32::MAX, sctp::HEADER_BYTES);
    above[IpProto::ICMP.0 as usize] = Above::new(0, icmp::HEADER_BYTES);
    above
};

/// The key under `ipv4_5tuple` of a frame of `frame_bytes` that begins with `head`, and whether it
/// is one: the frame is sound and of the usual shape. Without a branch, also on its protocol: which
/// of them comes next cannot be foretold, and to guess wrongly costs as much as the rest.
#[inline(always)]
pub(super) fn ipv4_tuple(
    head: &[u8; IPV4_END + tcp::HEADER_BYTES],
    frame_bytes: usize,
) -> ([u32; 4], bool) {
    // EtherType, version and header length; a fragment's offset and whether more follow.
    let type_and_version = word_at(head, 12) & 0xffff_ff00;
    let fragment_and_proto = word_at(head, IP + 6);
    let is_plain = ((type_and_version ^ 0x0800_4500) | fragment_and_proto & 0x3fff_0000) == 0;
    let total_bytes = usize::from(half_at(head, IP + 2));
    let payload_bytes = total_bytes.wrapping_sub(ipv4::HEADER_BYTES);
    let is_whole = payload_bytes <= frame_bytes.wrapping_sub(IPV4_END);
    let proto = fragment_and_proto & 0xff;
    let above = &ABOVE[proto as usize];
    let offset_and_flags = u32::from(half_at(head, IPV4_END + 12));
    let tcp_bytes = offset_and_flags >> 12 << 2;
    let udp_bytes = u32::from(half_at(head, IPV4_END + 4));
    let told_bytes = tcp_bytes & above.tcp | udp_bytes & above.udp | u32::from(above.fixed_bytes);
    let told_bytes = told_bytes as usize;
    let is_sound = (told_bytes >= above.least_bytes.into()) & (told_bytes <= payload_bytes);
    let key = [
        word_at(head, IP + 12),
        word_at(head, IP + 16),
        word_at(head, IPV4_END) & above.ports,
        proto << 24 | offset_and_flags & 0x0fff & above.tcp,
    ];
    (key, is_plain & is_whole & is_sound)
}

/// What a transport header adds.
struct L4 {
    proto: u8,
    ports: u32,
    tcp_flags: u16,
}

impl L4 {
    #[inline(always)]
    fn found(self, ether_type: EtherType, network: Network, tos: u8) -> Found {
        Found {
            ether_type,
            vlan_tci: 0,
            network,
            network_offset: IP,
            proto: self.proto,
            tos,
            tcp_flags: self.tcp_flags,
            ports: self.ports,
            icmp: 0,
        }
    }
}

/// TCP or UDP at the start of `captured`, in a packet with `payload_bytes` bytes from there on.
#[inline(always)]
fn transport(proto: u8, captured: &[u8], payload_bytes: usize) -> Option<L4> {
    match IpProto(proto) {
        IpProto::TCP => {
            let header: &[u8; tcp::HEADER_BYTES] = captured.first_chunk()?;
            let header_bytes = usize::from(header[12] >> 4) * 4;
            let bytes_max = payload_bytes.min(captured.len());
            let is_sound = (tcp::HEADER_BYTES..=bytes_max).contains(&header_bytes);
            let (ports, tcp_flags) = (word_at(header, 0), half_at(header, 12) & 0x0fff);
            is_sound.then_some(L4 { proto, ports, tcp_flags })
        }
        IpProto::UDP => {
            let header: &[u8; udp::HEADER_BYTES] = captured.first_chunk()?;
            let datagram_bytes = usize::from(half_at(header, 4));
            let is_sound = (udp::HEADER_BYTES..=payload_bytes).contains(&datagram_bytes);
            is_sound.then_some(L4 { proto, ports: word_at(header, 0), tcp_flags: 0 })
        }
        _ => None,
    }
}
