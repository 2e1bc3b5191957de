//! Where a field stands in a frame, and which checksums cover it.
//!
//! Every settable header field is some bits of a run of at most 16 bytes. So one function sets all
//! of them: it reads the run as a number, replaces the bits, writes it, and brings the checksums
//! from the old run to the new one (RFC 1624).

use warpswitch_rules::openflow::{MatchField, Oxm};
use warpswitch_wire::checksum::update_bytes;

use super::parse::{Layout, Network, TYPE_AT, Transport, half, word};

/// Bits of a frame, and the checksums over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Where the run starts.
    at: usize,
    /// Its bytes; at an even offset of whatever sums it, or one byte.
    len: usize,
    /// Bits of the run behind the field.
    shift: usize,
    /// Bits of the field.
    bits: usize,
    /// Where the checksum of the IPv4 header over it is.
    header_sum_at: Option<usize>,
    /// How the transport checksum covers it.
    cover: Cover,
}

/// How a transport checksum covers a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cover {
    /// Not at all.
    None,
    /// As part of the pseudo header.
    Pseudo,
    /// As part of the packet.
    Body,
}

impl Spot {
    fn new(at: u32, len: usize, shift: usize, bits: usize) -> Self {
        Self { at: at as usize, len, shift, bits, header_sum_at: None, cover: Cover::None }
    }

    /// The same run, covered by the transport checksum.
    fn covered(self, cover: Cover) -> Self {
        Self { cover, ..self }
    }

    /// The same run, covered by the checksum of the IPv4 header at `header_at`.
    fn in_ipv4(self, header_at: u32) -> Self {
        Self { header_sum_at: Some(header_at as usize + 10), ..self }
    }

    /// The bits.
    pub(super) fn read(self, frame: &[u8]) -> u128 {
        self.run(frame) >> self.shift & self.ones()
    }

    fn ones(self) -> u128 {
        if self.bits == 128 { u128::MAX } else { (1 << self.bits) - 1 }
    }

    fn run(self, frame: &[u8]) -> u128 {
        frame[self.at..self.at + self.len].iter().fold(0, |run, &byte| run << 8 | u128::from(byte))
    }

    /// Sets the bits and updates the checksums.
    pub(super) fn write(self, frame: &mut [u8], layout: &Layout, value: u128) {
        let old = self.run(frame);
        let new = old & !(self.ones() << self.shift) | (value & self.ones()) << self.shift;
        if old == new {
            return;
        }
        let crc = if self.cover == Cover::Body { Crc::before(frame, layout) } else { None };
        let (old, new) = (old.to_be_bytes(), new.to_be_bytes());
        frame[self.at..self.at + self.len].copy_from_slice(&new[16 - self.len..]);
        // A single byte counts as the low half of a 16-bit word.
        let summed = 16 - self.len.next_multiple_of(2)..16;
        let (old, new) = (&old[summed.clone()], &new[summed]);
        if let Some(at) = self.header_sum_at {
            let sum = update_bytes(half(frame, at), old, new);
            frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        if let Some(at) = sum_at(layout, self.cover) {
            let sum = half(frame, at);
            let updated = match (layout.transport, sum) {
                (Transport::Udp, 0) => 0,
                (Transport::Udp, sum) => match update_bytes(sum, old, new) {
                    0 => 0xffff,
                    sum => sum,
                },
                (_, sum) => update_bytes(sum, old, new),
            };
            frame[at..at + 2].copy_from_slice(&updated.to_be_bytes());
        }
        if let Some(crc) = crc {
            crc.update(frame, layout);
        }
    }
}

/// Where the one's-complement checksum of the transport header is that covers a run so.
fn sum_at(layout: &Layout, cover: Cover) -> Option<usize> {
    let at = layout.transport_at as usize;
    match (layout.transport, cover) {
        (_, Cover::None) | (Transport::None | Transport::Sctp, _) => None,
        (Transport::Tcp, _) => Some(at + 16),
        (Transport::Udp, _) => Some(at + 6),
        (Transport::Icmp, Cover::Pseudo) => None,
        (Transport::Icmp | Transport::Icmpv6, _) => Some(at + 2),
    }
}

/// The CRC32c of an SCTP packet that is about to change. A wrong checksum stays as wrong as it
/// was, so that a broken packet is not made whole.
struct Crc {
    error: u32,
}

impl Crc {
    fn before(frame: &[u8], layout: &Layout) -> Option<Self> {
        if layout.transport != Transport::Sctp || !layout.is_whole {
            return None;
        }
        Some(Self { error: Self::sum(frame, layout) ^ Self::stored(frame, layout) })
    }

    fn update(self, frame: &mut [u8], layout: &Layout) {
        let sum = Self::sum(frame, layout) ^ self.error;
        let at = layout.transport_at as usize + 8;
        frame[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    }

    fn stored(frame: &[u8], layout: &Layout) -> u32 {
        word(frame, layout.transport_at as usize + 8).swap_bytes()
    }

    /// RFC 9260, 6.8: over the packet with a checksum of zero.
    fn sum(frame: &[u8], layout: &Layout) -> u32 {
        let packet = &frame[layout.transport_at as usize..layout.end as usize];
        let crc = crc32c::crc32c(&packet[..8]);
        crc32c::crc32c_append(crc32c::crc32c_append(crc, &[0; 4]), &packet[12..])
    }
}

/// Where `field` stands, if the frame has it. Not for `vlan_tci`, which adds and removes a tag.
pub(super) fn spot(field: &MatchField, layout: &Layout) -> Option<Spot> {
    match field.oxm.class {
        Oxm::BASIC => basic_spot(field.oxm.number, layout),
        Oxm::NICIRA if field.oxm.number == 29 => ttl_spot(layout),
        _ => None,
    }
}

/// Fields by their number in OpenFlow.
fn basic_spot(number: u8, layout: &Layout) -> Option<Spot> {
    match number {
        3 if layout.has_addresses => Some(Spot::new(0, 6, 0, 48)),
        4 if layout.has_addresses => Some(Spot::new(6, 6, 0, 48)),
        5 => layout.ether_at.map(|at| Spot::new(at, 2, 0, 16)),
        6 if layout.vlan_tags > 0 => Some(Spot::new(TYPE_AT as u32 + 2, 2, 0, 12)),
        7 if layout.vlan_tags > 0 => Some(Spot::new(TYPE_AT as u32 + 2, 2, 13, 3)),
        8..=12 | 26..=28 => ip_spot(number, layout),
        13..=20 | 29..=33 => transport_spot(number, layout),
        21..=25 => arp_spot(number, layout),
        34..=37 | 41 => tag_spot(number, layout),
        _ => None,
    }
}

fn ip_spot(number: u8, layout: &Layout) -> Option<Spot> {
    let at = layout.network_at;
    let dst_cover = if layout.is_dst_covered { Cover::Pseudo } else { Cover::None };
    match (layout.network, number) {
        (Network::Ipv4, 8) => Some(Spot::new(at, 2, 2, 6).in_ipv4(at)),
        (Network::Ipv4, 9) => Some(Spot::new(at, 2, 0, 2).in_ipv4(at)),
        (Network::Ipv4, 10) => Some(Spot::new(at + 8, 2, 0, 8).in_ipv4(at).covered(Cover::Pseudo)),
        (Network::Ipv4, 11) => {
            Some(Spot::new(at + 12, 4, 0, 32).in_ipv4(at).covered(Cover::Pseudo))
        }
        (Network::Ipv4, 12) => Some(Spot::new(at + 16, 4, 0, 32).in_ipv4(at).covered(dst_cover)),
        (Network::Ipv6, 8) => Some(Spot::new(at, 4, 22, 6)),
        (Network::Ipv6, 9) => Some(Spot::new(at, 4, 20, 2)),
        (Network::Ipv6, 10) => Some(Spot::new(layout.proto_at, 1, 0, 8).covered(Cover::Pseudo)),
        (Network::Ipv6, 26) => Some(Spot::new(at + 8, 16, 0, 128).covered(Cover::Pseudo)),
        (Network::Ipv6, 27) => Some(Spot::new(at + 24, 16, 0, 128).covered(dst_cover)),
        (Network::Ipv6, 28) => Some(Spot::new(at, 4, 0, 20)),
        _ => None,
    }
}

/// The TTL or hop limit of IP.
pub(super) fn ttl_spot(layout: &Layout) -> Option<Spot> {
    let at = layout.network_at;
    match layout.network {
        Network::Ipv4 => Some(Spot::new(at + 8, 2, 8, 8).in_ipv4(at)),
        Network::Ipv6 => Some(Spot::new(at + 7, 1, 0, 8)),
        _ => None,
    }
}

fn transport_spot(number: u8, layout: &Layout) -> Option<Spot> {
    let at = layout.transport_at;
    let spot = match (layout.transport, number) {
        (Transport::Tcp, 13) | (Transport::Udp, 15) | (Transport::Sctp, 17) => {
            Spot::new(at, 2, 0, 16)
        }
        (Transport::Tcp, 14) | (Transport::Udp, 16) | (Transport::Sctp, 18) => {
            Spot::new(at + 2, 2, 0, 16)
        }
        (Transport::Icmp, 19) | (Transport::Icmpv6, 29) => Spot::new(at, 2, 8, 8),
        (Transport::Icmp, 20) | (Transport::Icmpv6, 30) => Spot::new(at, 2, 0, 8),
        (Transport::Icmpv6, 31) if layout.has_nd_target => Spot::new(at + 8, 16, 0, 128),
        (Transport::Icmpv6, 32) => Spot::new(layout.nd_sll_at?, 6, 0, 48),
        (Transport::Icmpv6, 33) => Spot::new(layout.nd_tll_at?, 6, 0, 48),
        _ => return None,
    };
    Some(spot.covered(Cover::Body))
}

fn arp_spot(number: u8, layout: &Layout) -> Option<Spot> {
    let at = layout.network_at;
    if layout.network != Network::Arp {
        return None;
    }
    Some(match number {
        21 => Spot::new(at + 6, 2, 0, 16),
        22 => Spot::new(at + 14, 4, 0, 32),
        23 => Spot::new(at + 24, 4, 0, 32),
        24 => Spot::new(at + 8, 6, 0, 48),
        _ => Spot::new(at + 18, 6, 0, 48),
    })
}

/// MPLS and PBB.
fn tag_spot(number: u8, layout: &Layout) -> Option<Spot> {
    let (shift, bits) = match (layout.network, number) {
        (Network::Mpls, 34) => (12, 20),
        (Network::Mpls, 35) => (9, 3),
        (Network::Mpls, 36) => (8, 1),
        (Network::Pbb, 37) => (0, 24),
        (Network::Pbb, 41) => (27, 1),
        _ => return None,
    };
    Some(Spot::new(layout.network_at, 4, shift, bits))
}

/// The TTL of the outermost label.
pub(super) fn label_ttl_spot(layout: &Layout) -> Option<Spot> {
    (layout.network == Network::Mpls).then(|| Spot::new(layout.network_at, 4, 0, 8))
}

/// The TTL behind the outermost label: that of the next label, or of the IP packet that the first
/// half byte behind the stack names.
pub(super) fn inner_ttl_spot(frame: &[u8], layout: &Layout) -> Option<Spot> {
    label_ttl_spot(layout)?;
    let at = layout.network_at as usize;
    let is_bottom = frame[at + 2] & 1 != 0;
    let (rest, inner) = (frame.get(at + 4..)?, layout.network_at + 4);
    match rest.first()? >> 4 {
        _ if !is_bottom => (rest.len() >= 4).then(|| Spot::new(inner, 4, 0, 8)),
        4 if rest.len() >= 20 => Some(Spot::new(inner + 8, 2, 8, 8).in_ipv4(inner)),
        6 if rest.len() >= 40 => Some(Spot::new(inner + 7, 1, 0, 8)),
        _ => None,
    }
}
