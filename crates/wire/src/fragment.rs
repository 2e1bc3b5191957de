//! Parts of IP packets: where the data of one belong, and what goes in front of the whole.
//!
//! [`fragment`] reads a fragment of IPv4 (RFC 791, 3.2) or IPv6 (RFC 8200, 4.5) as far as whoever
//! puts packets together needs it. Unlike [`parse`](crate::parse::parse) it asks for no transport
//! header: the first part may hold only some of it, and of IPv6 extension headers.

use crate::ip::IpProto;
use crate::ipv4::Ipv4;
use crate::ipv6::{HEADER_BYTES, Ipv6};
use crate::ipv6_ext::{EXTENSION_BYTES_MIN, EXTENSIONS_MAX, Ipv6Fragment, extension_bytes};
use crate::link::LinkType;
use crate::parse::{Network, ParsedFrame, parse_network};

/// Where the next header is told in an IPv6 header.
const NEXT_HEADER_AT: usize = 6;

/// One part of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpFragment<'a> {
    /// The headers that go in front of the data of the whole packet: of IPv4 as they are here; of
    /// IPv6 all up to the fragment header, which is left out of the whole.
    pub front: &'a [u8],
    /// Where in `front` the byte stands that says what follows it.
    pub next_at: usize,
    /// What the data of the whole packet begin with.
    pub proto: IpProto,
    /// Equal in all parts of a packet; 16 bits of IPv4.
    pub id: u32,
    /// Where the data belong: bytes from the start of the whole packet's data.
    pub start: usize,
    /// Whether others follow.
    pub more: bool,
    /// The data, as far as they were captured.
    pub data: &'a [u8],
    /// Bytes of them on the wire.
    pub data_wire_bytes: usize,
}

/// The part of an IP packet in `frame`, which had `wire_bytes` bytes when it was captured, and
/// what was found in front of it. `None` if the frame holds a whole packet, or none that can be
/// read.
///
/// Cost: that of [`parse`](crate::parse::parse) at most.
pub fn fragment(
    link: LinkType,
    frame: &[u8],
    wire_bytes: usize,
) -> Option<(ParsedFrame, IpFragment<'_>)> {
    let parsed = parse_network(link, frame, wire_bytes).ok()?;
    let network = parsed.network_bytes(frame);
    let fragment = match parsed.network {
        Network::Ipv4 => of_ipv4(network),
        Network::Ipv6 => of_ipv6(network),
        Network::None | Network::Arp => None,
    };
    Some((parsed, fragment?))
}

fn of_ipv4(packet: &[u8]) -> Option<IpFragment<'_>> {
    let header = Ipv4::new_unchecked(packet);
    header.check_header().ok()?;
    if header.fragment_offset() == 0 && !header.more_fragments() {
        return None;
    }
    let (front, data) = packet.split_at_checked(header.header_bytes())?;
    Some(IpFragment {
        front,
        next_at: 9,
        proto: header.proto(),
        id: header.identification().into(),
        start: usize::from(header.fragment_offset()) * 8,
        more: header.more_fragments(),
        data,
        data_wire_bytes: header.total_bytes().saturating_sub(front.len()),
    })
}

fn of_ipv6(packet: &[u8]) -> Option<IpFragment<'_>> {
    let header = Ipv6::new_unchecked(packet);
    header.check_header().ok()?;
    let (mut next_at, mut at) = (NEXT_HEADER_AT, HEADER_BYTES);
    for _ in 0..EXTENSIONS_MAX {
        let proto = IpProto(*packet.get(next_at)?);
        let rest = packet.get(at..)?;
        if proto == IpProto::FRAGMENT {
            let (_, data) = packet.split_at_checked(at + EXTENSION_BYTES_MIN)?;
            let part = Ipv6Fragment::new_unchecked(rest);
            if part.fragment_offset() == 0 && !part.more_fragments() {
                // A packet in one part; another header may stand behind.
                (next_at, at) = (at, at + EXTENSION_BYTES_MIN);
                continue;
            }
            let before = at + EXTENSION_BYTES_MIN - HEADER_BYTES;
            return Some(IpFragment {
                front: &packet[..at],
                next_at,
                proto: part.next_header(),
                id: part.identification(),
                start: usize::from(part.fragment_offset()) * 8,
                more: part.more_fragments(),
                data,
                data_wire_bytes: header.payload_bytes().saturating_sub(before),
            });
        }
        if !proto.is_ipv6_extension() {
            return None;
        }
        (next_at, at) = (at, at + extension_bytes(proto, rest)?);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// An IPv4 header for `data`, with the field of flags and offset.
    fn ipv4(field: u16, proto: u8, data: &[u8]) -> Vec<u8> {
        let mut packet = std::vec![0x45, 0];
        packet.extend((20 + data.len() as u16).to_be_bytes());
        packet.extend([0xab, 0xcd]);
        packet.extend(field.to_be_bytes());
        packet.extend([64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(data);
        packet
    }

    /// An IPv6 header in front of `rest`, which begins with `first`.
    fn ipv6(first: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = std::vec![0x60, 0, 0, 0];
        packet.extend((rest.len() as u16).to_be_bytes());
        packet.extend([first, 64]);
        packet.extend([0xfd; 32]);
        packet.extend(rest);
        packet
    }

    fn read(packet: &[u8]) -> Option<IpFragment<'_>> {
        fragment(LinkType::RawIp, packet, packet.len()).map(|(_, part)| part)
    }

    #[test]
    fn parts_of_ipv4() {
        // A first part with eight bytes of TCP is no frame that `parse` reads.
        let packet = ipv4(0x2000, 6, &[1; 8]);
        assert!(crate::parse::parse(LinkType::RawIp, &packet, packet.len()).is_err());
        let part = read(&packet).unwrap();
        assert_eq!((part.front, part.data), packet.split_at(20));
        assert_eq!((part.proto, part.id, part.start, part.more), (IpProto::TCP, 0xabcd, 0, true));
        assert_eq!(part.front[part.next_at], 6);
        let packet = ipv4(0x0003, 17, &[1; 5]);
        let part = read(&packet).unwrap();
        assert_eq!((part.start, part.more, part.data_wire_bytes), (24, false, 5));
        for whole in [0, 0x4000] {
            assert_eq!(read(&ipv4(whole, 17, &[0; 8])), None);
        }
    }

    #[test]
    fn parts_of_ipv6() {
        // Options of the way, then the fragment header of the second part of UDP.
        let mut rest = std::vec![44, 0, 1, 4, 0, 0, 0, 0];
        rest.extend([17, 0, 0, 0x10 | 1, 0, 0, 0, 9]);
        rest.extend([7; 8]);
        let packet = ipv6(0, &rest);
        let part = read(&packet).unwrap();
        assert_eq!((part.front.len(), part.next_at, part.front[40]), (48, 40, 44));
        assert_eq!((part.proto, part.id, part.start, part.more), (IpProto::UDP, 9, 16, true));
        assert_eq!((part.data, part.data_wire_bytes), (&[7; 8][..], 8));
        // Options that go on in the second part, behind a header of a packet in one part.
        let mut rest = std::vec![44, 0, 0, 0, 0, 0, 0, 8, 60, 0, 0, 1, 0, 0, 0, 9];
        rest.extend([17, 1, 1, 12, 0, 0, 0, 0]);
        let packet = ipv6(44, &rest);
        assert!(crate::parse::parse(LinkType::RawIp, &packet, packet.len()).is_err());
        let part = read(&packet).unwrap();
        assert_eq!((part.front.len(), part.next_at, part.id), (48, 40, 9));
        assert_eq!((part.proto, part.start, part.data.len()), (IpProto::DESTINATION, 0, 8));
        // A packet in one part, and one that has none.
        assert_eq!(read(&ipv6(44, &[17, 0, 0, 0, 0, 0, 0, 9, 7, 7])), None);
        assert_eq!(read(&ipv6(17, &[0; 8])), None);
    }

    #[test]
    fn what_was_cut_off_is_counted() {
        let packet = ipv4(0x2000, 17, &[1; 64]);
        let (_, part) = fragment(LinkType::RawIp, &packet[..40], packet.len()).unwrap();
        assert_eq!((part.data.len(), part.data_wire_bytes), (20, 64));
        for bytes in 0..20 {
            assert_eq!(fragment(LinkType::RawIp, &packet[..bytes], packet.len()), None);
        }
    }
}
