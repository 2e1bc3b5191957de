//! Helpers shared by the IPv6 elements: header access, address classes, handler values.

use std::net::Ipv6Addr;

use warpswitch_packet::Packet;
use warpswitch_packet::packet::Header;
use warpswitch_wire::ip::{Fragment, IpProto};
use warpswitch_wire::ipv6::{HEADER_BYTES, Ipv6};
use warpswitch_wire::ipv6_ext::walk_chain;

/// Where the MTU of a link that a packet was too long for is noted: two bytes.
pub(super) const MTU_ANNOTATION: usize = 22;
/// Hop limit of packets that must not come from beyond the link.
pub(super) const HOP_LIMIT_MAX: u8 = 255;

/// The packet from its IPv6 header on; none if the header is missing or truncated. The version is
/// not checked.
#[inline]
pub(super) fn ipv6(packet: &Packet) -> Option<Ipv6<&[u8]>> {
    let bytes = packet.from_header(Header::Network);
    (bytes.len() >= HEADER_BYTES).then(|| Ipv6::new_unchecked(bytes))
}

/// The same, to change.
#[inline]
pub(super) fn ipv6_mut(packet: &mut Packet) -> Option<Ipv6<&mut [u8]>> {
    let bytes = packet.from_header_mut(Header::Network);
    (bytes.len() >= HEADER_BYTES).then(|| Ipv6::new_unchecked(bytes))
}

/// Sets the offset of the IPv6 header to `at` bytes from the start of the data.
#[inline]
pub(super) fn set_ipv6_header(packet: &mut Packet, at: usize) {
    packet.set_header(Header::Network, at);
    if at + HEADER_BYTES <= packet.len() {
        packet.set_header(Header::Transport, at + HEADER_BYTES);
    } else {
        packet.clear_header(Header::Transport);
    }
}

/// What comes behind the extension headers.
pub(super) struct Transport {
    /// Which protocol it is.
    pub(super) proto: IpProto,
    /// Where it starts, from the start of the IPv6 header.
    pub(super) start: usize,
    /// Where it ends, limited to the length in the header.
    pub(super) end: usize,
    /// Whether this is a fragment, and which.
    pub(super) fragment: Fragment,
}

impl Transport {
    /// Finds it; none if the extension headers are broken.
    pub(super) fn of(view: &Ipv6<&[u8]>) -> Option<Self> {
        let bytes = view.into_inner();
        let end = bytes.len().min(HEADER_BYTES + view.payload_bytes());
        let chain = walk_chain(view.next_header(), bytes.get(HEADER_BYTES..end)?).ok()?;
        let start = HEADER_BYTES + chain.bytes;
        Some(Self { proto: chain.proto, start, end, fragment: chain.fragment })
    }
}

/// Whether `address` may be that of one host: neither `::` nor a group's.
pub(super) fn is_one_host(address: Ipv6Addr) -> bool {
    !address.is_unspecified() && !address.is_multicast()
}

/// The solicited-node group of `address`, which its owner joins to receive queries for its link
/// address (RFC 4291, 2.7.1).
pub(super) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let low = u128::from(address) & 0xff_ffff;
    Ipv6Addr::from(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}

/// The Ethernet address of an IPv6 group (RFC 2464, 7).
pub(super) fn group_ether(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}
