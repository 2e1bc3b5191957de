//! Packed keys of the frames that most traffic consists of: TCP and UDP over IPv4 without options
//! or IPv6 without extension headers, with at most one VLAN tag, not fragmented.
//!
//! The headers of these frames are at fixed places, so their words are read without the branches
//! of [`super::parse`]. It reads all other frames, and those that are cut off or whose lengths
//! disagree.
//!
//! # Invariants
//! - K1: a key that [`pack`] returns is the one that [`super::parse`] gives, packed.

use warpswitch_flow::{PackedKey, Shape};
use warpswitch_wire::ethernet::EtherType;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::{ipv4, ipv6};

use super::parse::{
    IPV4_WORDS, IPV6_WORDS, Network, TYPE_AT, Transport, ether_shape_number, half, parse, word,
};
use crate::output::Ingress;

/// Bytes of an IPv4 header without options.
const IPV4_BYTES: usize = ipv4::HEADER_BYTES;
/// Bytes of an IPv6 header.
const IPV6_BYTES: usize = ipv6::HEADER_BYTES;
/// Bytes of the shortest TCP header.
const TCP_BYTES: usize = 20;
/// Bytes of a UDP header.
const UDP_BYTES: usize = 8;

/// Shapes by protocol, TCP first, and VLAN tags.
type Shapes = [[Shape; 2]; 2];

const IPV4: Shapes = shapes(Network::Ipv4, IPV4_WORDS);
const IPV6: Shapes = shapes(Network::Ipv6, IPV6_WORDS);

const fn shapes(network: Network, words: &'static [u8]) -> Shapes {
    const fn shape(network: Network, tags: u8, tcp: bool, words: &'static [u8]) -> Shape {
        let transport = if tcp { Transport::Tcp } else { Transport::Udp };
        Shape { number: ether_shape_number(tags, network, transport), words }
    }
    [
        [shape(network, 0, true, words), shape(network, 1, true, words)],
        [shape(network, 0, false, words), shape(network, 1, false, words)],
    ]
}

/// Reads a frame into a packed key.
#[inline]
pub(crate) fn pack(frame: &[u8], ingress: &Ingress, packed: &mut PackedKey) {
    if ingress.is_tunneled() || !is_packed(frame, ingress, packed) {
        pack_any(frame, ingress, packed);
    }
}

/// Reads any frame.
#[cold]
fn pack_any(frame: &[u8], ingress: &Ingress, packed: &mut PackedKey) {
    let mut key = ingress.key();
    let layout = parse(frame, &mut key);
    packed.pack(&key, layout.shape(ingress.is_tunneled()));
}

/// Reads a frame of the usual kinds; whether it is one.
#[inline]
fn is_packed(frame: &[u8], ingress: &Ingress, packed: &mut PackedKey) -> bool {
    let ports = [ingress.port, ingress.phy_port];
    // Room for one tag and the shortest IP header.
    if frame.len() < TYPE_AT + 2 + 4 + IPV4_BYTES {
        return false;
    }
    match EtherType(half(frame, TYPE_AT)) {
        EtherType::IPV4 => pack_ipv4::<0>(frame, ports, packed),
        EtherType::IPV6 => pack_ipv6::<0>(frame, ports, packed),
        EtherType::VLAN => match EtherType(half(frame, TYPE_AT + 4)) {
            EtherType::IPV4 => pack_ipv4::<1>(frame, ports, packed),
            EtherType::IPV6 => pack_ipv6::<1>(frame, ports, packed),
            _ => false,
        },
        _ => false,
    }
}

/// Which of the shapes the protocol has, and whether its header is there.
#[inline]
fn protocol(proto: u8, bytes: usize) -> Option<usize> {
    match IpProto(proto) {
        IpProto::TCP if bytes >= TCP_BYTES => Some(0),
        IpProto::UDP if bytes >= UDP_BYTES => Some(1),
        _ => None,
    }
}

/// EtherType and VLAN tag.
#[inline]
fn type_word<const TAGS: usize>(frame: &[u8], ether_type: EtherType) -> u32 {
    let tci = if TAGS == 0 { 0 } else { half(frame, TYPE_AT + 2) | 0x1000 };
    u32::from(ether_type.0) << 16 | u32::from(tci)
}

/// Ports, and the flags of TCP.
#[inline]
fn transport_words(header: &[u8], proto: u8) -> (u32, u32) {
    let flags =
        if IpProto(proto) == IpProto::TCP { u32::from(half(header, 12) & 0xfff) } else { 0 };
    (word(header, 0), flags)
}

#[inline]
fn pack_ipv4<const TAGS: usize>(frame: &[u8], ports: [u32; 2], packed: &mut PackedKey) -> bool {
    let Some((ethernet, rest)) = frame.split_at_checked(TYPE_AT + 2 + 4 * TAGS) else {
        return false;
    };
    let Some(ip) = rest.first_chunk::<IPV4_BYTES>() else { return false };
    let end = rest.len().min(usize::from(half(ip, 2)));
    let is_fragment = half(ip, 6) & 0x3fff != 0;
    if ip[0] != 0x45 || is_fragment || end < IPV4_BYTES {
        return false;
    }
    let (proto, header) = (ip[9], &rest[IPV4_BYTES..end]);
    let Some(shape) = protocol(proto, header.len()) else { return false };
    let (l4, flags) = transport_words(header, proto);
    let words = packed.start(IPV4[shape][TAGS]);
    words[..2].copy_from_slice(&ports);
    words[2] = word(ethernet, 0);
    words[3] = word(ethernet, 4);
    words[4] = word(ethernet, 8);
    words[5] = type_word::<TAGS>(ethernet, EtherType::IPV4);
    words[6] = u32::from(ip[8]);
    words[8] = word(ip, 12);
    words[9] = word(ip, 16);
    words[10] = l4;
    words[11] = u32::from(proto) << 24 | u32::from(ip[1]) << 16 | flags;
    true
}

#[inline]
fn pack_ipv6<const TAGS: usize>(frame: &[u8], ports: [u32; 2], packed: &mut PackedKey) -> bool {
    let Some((ethernet, rest)) = frame.split_at_checked(TYPE_AT + 2 + 4 * TAGS) else {
        return false;
    };
    let Some(ip) = rest.first_chunk::<IPV6_BYTES>() else { return false };
    let payload_bytes = usize::from(half(ip, 4));
    let end = rest.len().min(IPV6_BYTES + payload_bytes);
    if ip[0] >> 4 != 6 || payload_bytes == 0 {
        return false;
    }
    let (proto, header) = (ip[6], &rest[IPV6_BYTES..end]);
    let Some(shape) = protocol(proto, header.len()) else { return false };
    let (l4, flags) = transport_words(header, proto);
    let first = word(ip, 0);
    let words = packed.start(IPV6[shape][TAGS]);
    words[..2].copy_from_slice(&ports);
    words[2] = word(ethernet, 0);
    words[3] = word(ethernet, 4);
    words[4] = word(ethernet, 8);
    words[5] = type_word::<TAGS>(ethernet, EtherType::IPV6);
    words[6] = u32::from(ip[7]);
    for part in 0..8 {
        words[8 + part] = word(ip, 8 + 4 * part);
    }
    words[16] = l4;
    words[17] = u32::from(proto) << 24 | (first >> 20 & 0xff) << 16 | flags;
    words[18] = (first & 0xf_ffff) << 12;
    true
}

#[cfg(test)]
mod tests {
    use warpswitch_testkit::random::Random;

    use super::*;
    use crate::testing::{ethernet, frames, ipv6};

    fn general(frame: &[u8], ingress: &Ingress) -> PackedKey {
        let mut packed = PackedKey::EMPTY;
        pack_any(frame, ingress, &mut packed);
        packed
    }

    /// Whether the frame is of the usual kinds; its key is that of the parser.
    fn check(frame: &[u8]) -> bool {
        let ingress = Ingress { port: 3, phy_port: 4, ..Ingress::default() };
        let mut packed = PackedKey::EMPTY;
        let is_quick = is_packed(frame, &ingress, &mut packed);
        let expected = general(frame, &ingress);
        if is_quick {
            assert_eq!(packed, expected, "{frame:02x?}");
        }
        let mut key = ingress.key();
        parse(frame, &mut key);
        assert_eq!(expected.to_key(), key, "{frame:02x?}");
        is_quick
    }

    #[test]
    fn keys_are_those_of_the_parser() {
        let mut random = Random::new(9);
        let (mut quick, mut others) = (0, 0);
        let tags: [&[u8]; 4] =
            [&[], &[0x81, 0, 0x2f, 0xff], &[0x88, 0xa8, 0, 1], &[0x81, 0, 0, 1, 0x81, 0, 0, 2]];
        let mut bare = ipv6(6);
        bare.drain(40..48);
        (bare[5], bare[6]) = (bare[5] - 8, 6);
        let bare = [ethernet(&[], 0x86dd, &bare), ethernet(&[], 0x0800, &ipv4_udp())];
        for frame in frames().into_iter().chain(bare) {
            for tags in tags {
                let tagged = [&frame[..TYPE_AT], tags, &frame[TYPE_AT..]].concat();
                for len in 0..=tagged.len() {
                    check(&tagged[..len]);
                }
                for _ in 0..500 {
                    let mut changed = tagged.clone();
                    for _ in 0..random.below(3) {
                        let at = random.below(changed.len().min(80));
                        changed[at] ^= 1 << random.below(8);
                    }
                    let is_quick = check(&changed);
                    quick += u32::from(is_quick);
                    others += u32::from(!is_quick);
                }
            }
        }
        assert!(quick > 1000 && others > 1000, "{quick} of the usual kinds, {others} others");
    }

    fn ipv4_udp() -> Vec<u8> {
        let mut packet =
            vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0, 7, 0, 9, 0, 8, 0, 0]);
        packet
    }

    #[test]
    fn packets_of_tunnels_have_further_words() {
        let ingress = Ingress { tun_id: 7, ..Ingress::from(1) };
        let frame = ethernet(&[], 0x0800, &ipv4_udp());
        let mut packed = PackedKey::EMPTY;
        pack(&frame, &ingress, &mut packed);
        assert_eq!(packed, general(&frame, &ingress));
        assert_eq!(packed.to_key()[5], 7);
    }
}
