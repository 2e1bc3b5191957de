//! The usual shape: untagged Ethernet, an IP header of its least size, TCP or UDP, no fragment.
//!
//! All fields lie at fixed offsets. The checks are those of the parser, so that a frame is taken
//! here only if the parser would take it, and with the same findings; whatever looks different,
//! and every broken frame, is left to the parser.

use warpswitch_wire::ethernet::EtherType;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::parse::Network;
use warpswitch_wire::{ethernet, ipv4, ipv6, tcp, udp};

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

/// The key under `ipv4_5tuple` of a sound frame of the usual shape that has room for a TCP header,
/// without a branch on its protocol: which of them comes next cannot be foretold, and to guess
/// wrongly costs as much as the rest. None for any other frame.
#[inline(always)]
pub(super) fn ipv4_tuple(frame: &[u8]) -> Option<[u32; 4]> {
    let head: &[u8; IPV4_END + tcp::HEADER_BYTES] = frame.first_chunk()?;
    let is_plain = (EtherType(half_at(head, 12)) == EtherType::IPV4)
        & (head[IP] == 0x45)
        & (half_at(head, IP + 6) & 0x3fff == 0);
    let total_bytes = usize::from(half_at(head, IP + 2));
    let payload_bytes = total_bytes.wrapping_sub(ipv4::HEADER_BYTES);
    let is_whole = payload_bytes <= frame.len() - IPV4_END;
    let proto = IpProto(head[IP + 9]);
    // All ones for the one that it is, and zero: TCP and UDP have ports and a length to check.
    let [tcp, udp] = [IpProto::TCP, IpProto::UDP].map(|one| u32::from(proto == one).wrapping_neg());
    let is_read_otherwise = (proto == IpProto::ICMP) | (proto == IpProto::SCTP);
    let tcp_bytes = u32::from(head[IPV4_END + 12] >> 4) * 4;
    let udp_bytes = u32::from(half_at(head, IPV4_END + 4));
    let told_bytes = (tcp_bytes & tcp | udp_bytes & udp) as usize;
    let least_bytes = (tcp::HEADER_BYTES as u32 & tcp | udp::HEADER_BYTES as u32 & udp) as usize;
    let is_sound = (told_bytes >= least_bytes) & (told_bytes <= payload_bytes);
    let tcp_flags = u32::from(half_at(head, IPV4_END + 12)) & 0x0fff & tcp;
    (is_plain & is_whole & is_sound & !is_read_otherwise).then_some([
        word_at(head, IP + 12),
        word_at(head, IP + 16),
        word_at(head, IPV4_END) & (tcp | udp),
        u32::from(proto.0) << 24 | tcp_flags,
    ])
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
