//! From frame bytes to the header fields of a flow key, and the places of the headers.
//!
//! | frame | key |
//! | --- | --- |
//! | VLAN tags | the outermost; the EtherType is that behind all of them |
//! | 802.3 | EtherType `0x05ff`, with a SNAP header of organisation zero the one that SNAP names |
//! | MPLS | the outermost label; nothing behind it |
//! | PBB | the outer addresses and VLAN tag, service id and UCA; nothing behind them |
//! | a header that is cut off or impossible | zero in all its fields and those behind it |
//! | a later fragment | no ports |
//!
//! # Source
//! OpenFlow Switch Specification 1.3.5, 5.3 and 7.2.3.7; RFC 8200, 4.1 for the order of extension
//! headers.

use warpswitch_flow::Shape;
use warpswitch_rules::openflow::FlowKey;
use warpswitch_wire::arp::Arp;
use warpswitch_wire::ethernet::{ETHER_TYPE_MIN, EtherType, LENGTH_MAX};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::Ipv4;
use warpswitch_wire::llc::Llc;
use warpswitch_wire::parse::VLAN_TAGS_MAX;

use super::ext::walk_extensions;

/// First word of a key that is read from the frame; those before it belong to the pipeline.
pub(crate) const HEADER_WORDS_START: usize = 25;
/// Where the EtherType or the first tag stands.
pub(crate) const TYPE_AT: usize = 12;
/// Bytes of a PBB service tag in front of the customer addresses.
pub(crate) const I_TAG_BYTES: usize = 4;
/// EtherType of provider backbone bridging.
pub(crate) const ETHER_TYPE_PBB: u16 = 0x88e7;

/// The header behind the EtherType, where it can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Network {
    /// None that is known.
    #[default]
    None,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// ARP or RARP.
    Arp,
    /// A label stack.
    Mpls,
    /// A PBB service tag.
    Pbb,
}

/// The header behind IP, where it can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transport {
    /// None that is known.
    #[default]
    None,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ICMP.
    Icmp,
    /// ICMP for IPv6.
    Icmpv6,
}

/// Where the headers of a frame are. An offset is valid if the member beside it names a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Whether the frame is long enough for an Ethernet header.
    pub(crate) has_addresses: bool,
    /// VLAN tags, the outermost at [`TYPE_AT`].
    pub(crate) vlan_tags: u8,
    /// Where the EtherType of the payload stands; absent in 802.3 frames without one.
    pub(crate) ether_at: Option<u32>,
    /// The header at `network_at`.
    pub(crate) network: Network,
    /// Behind the EtherType.
    pub(crate) network_at: u32,
    /// The byte with the protocol of what is at `transport_at`.
    pub(crate) proto_at: u32,
    /// The header at `transport_at`.
    pub(crate) transport: Transport,
    /// Behind the IP header and its extensions.
    pub(crate) transport_at: u32,
    /// End of the IP packet; what is behind it is padding.
    pub(crate) end: u32,
    /// Whether the IP packet is all there and no fragment.
    pub(crate) is_whole: bool,
    /// Whether the transport checksum covers the destination address: not where a source route
    /// has a further one.
    pub(crate) is_dst_covered: bool,
    /// Whether there is the target of neighbour discovery.
    pub(crate) has_nd_target: bool,
    /// Where the link-layer address of a neighbour solicitation is.
    pub(crate) nd_sll_at: Option<u32>,
    /// Where that of a neighbour advertisement is.
    pub(crate) nd_tll_at: Option<u32>,
}

impl Layout {
    /// Whether the EtherType is where tags go: not inside a SNAP header.
    pub(crate) fn is_type_behind_tags(&self) -> bool {
        self.ether_at == Some(TYPE_AT as u32 + 4 * u32::from(self.vlan_tags))
    }

    /// Which headers are there: two frames of equal key and shape have the same fields, so actions
    /// find and change the same. `is_tunneled`: whether words of a tunnel or a mark may be set.
    pub(crate) fn shape(&self, is_tunneled: bool) -> Shape {
        let number = self.number() | u32::from(is_tunneled) << 31;
        Shape { number, words: words(self.network, self.has_nd_target, is_tunneled) }
    }

    fn number(&self) -> u32 {
        let flags = [
            self.has_addresses,
            self.ether_at.is_some(),
            self.is_type_behind_tags(),
            self.is_dst_covered,
            self.has_nd_target,
            self.nd_sll_at.is_some(),
            self.nd_tll_at.is_some(),
        ];
        let flags = flags.iter().fold(0, |bits, &flag| bits << 1 | u32::from(flag));
        shape_number(flags, self.vlan_tags, self.network, self.transport)
    }
}

/// The EtherType of frames of a shape ([`Shape::number`]), where the shape decides it: RARP counts
/// as ARP, and multicast MPLS as MPLS.
pub fn shape_ether_type(number: u32) -> Option<u16> {
    let has = |network: Network| number >> 4 & 0xf == network as u32;
    let types = [
        (Network::Ipv4, 0x0800),
        (Network::Ipv6, 0x86dd),
        (Network::Arp, 0x0806),
        (Network::Mpls, 0x8847),
        (Network::Pbb, 0x88e7),
    ];
    types.into_iter().find(|(network, _)| has(*network)).map(|(_, ether_type)| ether_type)
}

const fn shape_number(flags: u32, tags: u8, network: Network, transport: Transport) -> u32 {
    flags << 16 | (tags as u32) << 8 | (network as u32) << 4 | transport as u32
}

/// Number of the shape of an Ethernet II frame whose IP packet has no source route.
pub(super) const fn ether_shape_number(tags: u8, network: Network, transport: Transport) -> u32 {
    shape_number(0b111_1000, tags, network, transport)
}

/// The words of IPv4 frames.
pub(super) const IPV4_WORDS: &[u8] = &[0, 1, 25, 26, 27, 28, 29, 30, 34, 38, 39, 40];
/// The words of IPv6 frames, but for neighbour discovery.
pub(super) const IPV6_WORDS: &[u8] =
    &[0, 1, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41];

/// The words that a key may have set, by the header behind the EtherType.
fn words(network: Network, has_nd_target: bool, is_tunneled: bool) -> &'static [u8] {
    let [plain, tunneled]: [&[u8]; 2] = match network {
        Network::None => [&[0, 1, 25, 26, 27, 28], &[0, 1, 4, 5, 6, 7, 24, 25, 26, 27, 28]],
        Network::Ipv4 => {
            [IPV4_WORDS, &[0, 1, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 34, 38, 39, 40]]
        }
        Network::Ipv6 if has_nd_target => [
            &[
                0, 1, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 43, 44,
                45, 46, 47, 48, 49,
            ],
            &[
                0, 1, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39,
                40, 41, 43, 44, 45, 46, 47, 48, 49,
            ],
        ],
        Network::Ipv6 => [
            IPV6_WORDS,
            &[
                0, 1, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39,
                40, 41,
            ],
        ],
        Network::Arp => [
            &[0, 1, 25, 26, 27, 28, 34, 38, 42, 43, 44, 45],
            &[0, 1, 4, 5, 6, 7, 24, 25, 26, 27, 28, 34, 38, 42, 43, 44, 45],
        ],
        Network::Mpls => [&[0, 1, 25, 26, 27, 28, 29], &[0, 1, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29]],
        Network::Pbb => {
            [&[0, 1, 25, 26, 27, 28, 30, 42], &[0, 1, 4, 5, 6, 7, 24, 25, 26, 27, 28, 30, 42]]
        }
    };
    if is_tunneled { tunneled } else { plain }
}

/// Reads a frame: fills the header words of `key` and returns the places of the headers.
pub(crate) fn parse(frame: &[u8], key: &mut FlowKey) -> Layout {
    key[HEADER_WORDS_START..].fill(0);
    let mut layout = Layout::default();
    let Some(addresses) = frame.first_chunk::<14>() else { return layout };
    layout.has_addresses = true;
    key[25] = word(addresses, 0);
    key[26] = word(addresses, 4);
    key[27] = word(addresses, 8);
    let Some(ether_type) = find_ether_type(frame, key, &mut layout) else {
        key[28] |= u32::from(EtherType::NONE.0) << 16;
        return layout;
    };
    key[28] |= u32::from(ether_type) << 16;
    let at = layout.network_at as usize;
    let rest = frame.get(at..).unwrap_or_default();
    match EtherType(ether_type) {
        EtherType::IPV4 => ipv4(rest, key, &mut layout),
        EtherType::IPV6 => ipv6(rest, key, &mut layout),
        EtherType::ARP | EtherType::RARP => arp(rest, key, &mut layout),
        EtherType::MPLS | EtherType::MPLS_MULTICAST if rest.len() >= 4 => {
            key[29] = word(rest, 0) & !0xff;
            layout.network = Network::Mpls;
        }
        EtherType(ETHER_TYPE_PBB) if rest.len() >= I_TAG_BYTES => {
            let tag = word(rest, 0);
            key[30] = tag << 8;
            key[42] = tag >> 27 & 1;
            layout.network = Network::Pbb;
        }
        _ => {}
    }
    layout
}

/// Steps over VLAN tags and a SNAP header; none for an 802.3 frame without EtherType.
fn find_ether_type(frame: &[u8], key: &mut FlowKey, layout: &mut Layout) -> Option<u16> {
    let mut at = TYPE_AT;
    let mut ether_type = half(frame, at);
    while EtherType(ether_type).is_vlan()
        && frame.len() >= at + 6
        && usize::from(layout.vlan_tags) < VLAN_TAGS_MAX
    {
        if layout.vlan_tags == 0 {
            key[28] = u32::from(half(frame, at + 2) | 0x1000);
        }
        layout.vlan_tags += 1;
        at += 4;
        ether_type = half(frame, at);
    }
    if ether_type < ETHER_TYPE_MIN {
        let llc = Llc::new_checked(&frame[at + 2..]).ok()?;
        ether_type = llc.ether_type().filter(|_| half(frame, at) <= LENGTH_MAX)?.0;
        at += llc.header_bytes();
    }
    layout.ether_at = Some(at as u32);
    layout.network_at = at as u32 + 2;
    Some(ether_type)
}

fn ipv4(rest: &[u8], key: &mut FlowKey, layout: &mut Layout) {
    if rest.len() < 20 || rest[0] >> 4 != 4 {
        return;
    }
    let header_bytes = usize::from(rest[0] & 15) * 4;
    let total_bytes = usize::from(half(rest, 2));
    if header_bytes < 20 || total_bytes < header_bytes || rest.len() < header_bytes {
        return;
    }
    let fragment = half(rest, 6);
    let (is_later, has_more) = (fragment & 0x1fff != 0, fragment & 0x2000 != 0);
    key[29] = u32::from(rest[8]);
    key[30] = u32::from(is_later || has_more) | u32::from(is_later) << 1;
    key[34] = word(rest, 12);
    key[38] = word(rest, 16);
    key[40] = u32::from(rest[9]) << 24 | u32::from(rest[1]) << 16;
    layout.network = Network::Ipv4;
    layout.proto_at = layout.network_at + 9;
    let view = Ipv4::new_unchecked(rest);
    layout.is_dst_covered = header_bytes == 20 || view.final_dst() == view.dst();
    layout.is_whole = key[30] == 0 && total_bytes <= rest.len();
    let end = total_bytes.min(rest.len());
    layout.end = layout.network_at + end as u32;
    layout.transport_at = layout.network_at + header_bytes as u32;
    if !is_later {
        transport(&rest[header_bytes..end], IpProto(rest[9]), key, layout);
    }
}

fn ipv6(rest: &[u8], key: &mut FlowKey, layout: &mut Layout) {
    if rest.len() < 40 || rest[0] >> 4 != 6 {
        return;
    }
    let first = word(rest, 0);
    key[29] = u32::from(rest[7]);
    for part in 0..4 {
        key[31 + part] = word(rest, 8 + 4 * part);
        key[35 + part] = word(rest, 24 + 4 * part);
    }
    layout.network = Network::Ipv6;
    // A length of zero is that of a jumbogram: all that is there.
    let payload_bytes = match half(rest, 4) {
        0 => rest.len() - 40,
        bytes => usize::from(bytes),
    };
    let end = rest.len().min(40 + payload_bytes);
    layout.end = layout.network_at + end as u32;
    let walk = walk_extensions(IpProto(rest[6]), &rest[40..end]);
    key[30] = walk.fragment_bits();
    key[40] = u32::from(walk.proto.0) << 24 | (first >> 20 & 0xff) << 16;
    key[41] = (first & 0xf_ffff) << 12 | u32::from(walk.exthdr);
    layout.proto_at = layout.network_at + if walk.bytes == 0 { 6 } else { 40 + walk.proto_at };
    layout.transport_at = layout.network_at + 40 + walk.bytes;
    layout.is_dst_covered = !walk.has_segments_left;
    layout.is_whole = key[30] == 0 && 40 + payload_bytes <= rest.len();
    if !walk.is_cut && !walk.is_later {
        transport(&rest[40 + walk.bytes as usize..end], walk.proto, key, layout);
    }
}

fn arp(rest: &[u8], key: &mut FlowKey, layout: &mut Layout) {
    let Ok(arp) = Arp::new_checked(rest) else { return };
    layout.network = Network::Arp;
    key[34] = u32::from(arp.sender_ip());
    key[38] = u32::from(arp.target_ip());
    key[42] = u32::from(arp.operation()) << 16;
    key[43] = word(rest, 8);
    key[44] = u32::from(half(rest, 12)) << 16 | u32::from(half(rest, 18));
    key[45] = word(rest, 20);
}

fn transport(rest: &[u8], proto: IpProto, key: &mut FlowKey, layout: &mut Layout) {
    let is_v6 = layout.network == Network::Ipv6;
    let found = match proto {
        IpProto::TCP if rest.len() >= 20 => Transport::Tcp,
        IpProto::UDP if rest.len() >= 8 => Transport::Udp,
        IpProto::SCTP if rest.len() >= 12 => Transport::Sctp,
        IpProto::ICMP if rest.len() >= 4 && !is_v6 => Transport::Icmp,
        IpProto::ICMPV6 if rest.len() >= 4 && is_v6 => Transport::Icmpv6,
        _ => return,
    };
    layout.transport = found;
    match found {
        Transport::Icmp | Transport::Icmpv6 => {
            key[39] = u32::from(rest[0]) << 16 | u32::from(rest[1]);
        }
        _ => key[39] = word(rest, 0),
    }
    match found {
        Transport::Tcp => key[40] |= u32::from(half(rest, 12) & 0xfff),
        Transport::Icmpv6 => neighbour(rest, key, layout),
        _ => {}
    }
}

/// Target and link-layer addresses of neighbour discovery.
fn neighbour(rest: &[u8], key: &mut FlowKey, layout: &mut Layout) {
    const SOLICITATION: u8 = 135;
    const ADVERTISEMENT: u8 = 136;
    if !matches!(rest[0], SOLICITATION | ADVERTISEMENT) || rest[1] != 0 || rest.len() < 24 {
        return;
    }
    layout.has_nd_target = true;
    for part in 0..4 {
        key[46 + part] = word(rest, 8 + 4 * part);
    }
    let mut at = 24;
    while let Some(option) = rest.get(at..).filter(|option| option.len() >= 8) {
        let bytes = usize::from(option[1]) * 8;
        if bytes == 0 {
            break;
        }
        let address_at = layout.transport_at + at as u32 + 2;
        match option[0] {
            1 if rest[0] == SOLICITATION && layout.nd_sll_at.is_none() => {
                key[43] = word(option, 2);
                key[44] |= u32::from(half(option, 6)) << 16;
                layout.nd_sll_at = Some(address_at);
            }
            2 if rest[0] == ADVERTISEMENT && layout.nd_tll_at.is_none() => {
                key[44] |= u32::from(half(option, 2));
                key[45] = word(option, 4);
                layout.nd_tll_at = Some(address_at);
            }
            _ => {}
        }
        at += bytes;
    }
}

/// The 16 bits at `at`, in host order.
#[inline]
pub(crate) fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The 32 bits at `at`, in host order.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
