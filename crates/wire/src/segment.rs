//! Segmentation of TCP and UDP packets, and partial checksums: the work that a sender leaves to
//! its network card.
//!
//! A *partial checksum* is the folded sum of the pseudo header, in the place of the checksum. A
//! packet to be segmented has headers for one packet of any length, up to 64 KiB:
//!
//! ```text
//! whole      │ headers │ payload .................................... │
//! segments   │ headers'│ payload │   │ headers'│ payload │   │ headers'│ rest │
//! ```
//! # Source
//! Linux, `net/ipv4/tcp_offload.c`, `net/ipv4/udp_offload.c`.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum::{PseudoHeader, checksum};
use crate::ip::IpProto;

/// Bytes of an IPv6 header.
const IPV6_BYTES: usize = 40;
/// Bytes of the shortest IPv4 and TCP headers.
const IPV4_BYTES_MIN: usize = 20;
const TCP_BYTES_MIN: usize = 20;
/// Bytes of a UDP header.
const UDP_BYTES: usize = 8;

/// Where the headers of a TCP or UDP packet start in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The IPv4 or IPv6 header.
    pub network_at: usize,
    /// The TCP or UDP header.
    pub transport_at: usize,
    /// UDP, or TCP.
    pub is_udp: bool,
}

impl Layout {
    /// Whether the network header is IPv6.
    ///
    /// # Panics
    /// If it starts behind the frame: call [`Layout::headers_end`] before.
    fn is_v6(&self, frame: &[u8]) -> bool {
        frame[self.network_at] >> 4 == 6
    }

    /// Where the payload starts; `None` if the headers are not in the frame.
    pub fn headers_end(&self, frame: &[u8]) -> Option<usize> {
        let network_bytes = match frame.get(self.network_at)? {
            first if first >> 4 == 6 => IPV6_BYTES,
            first if first >> 4 == 4 => usize::from(first & 15) * 4,
            _ => return None,
        };
        let transport_bytes = match self.is_udp {
            true => UDP_BYTES,
            false => usize::from(frame.get(self.transport_at + 12)? >> 4) * 4,
        };
        let end = self.transport_at + transport_bytes;
        let is_sound = network_bytes >= IPV4_BYTES_MIN
            && self.transport_at >= self.network_at + network_bytes
            && (self.is_udp || transport_bytes >= TCP_BYTES_MIN)
            && end <= frame.len();
        is_sound.then_some(end)
    }

    /// Where the checksum is.
    pub fn checksum_at(&self) -> usize {
        self.transport_at + if self.is_udp { 6 } else { 16 }
    }

    /// Completes a partial checksum. The packet reaches to the end of `frame`. Returns whether the
    /// headers are in the frame; it is unchanged otherwise.
    pub fn complete_checksum(&self, frame: &mut [u8]) -> bool {
        if self.headers_end(frame).is_none() {
            return false;
        }
        // The field has the sum of the pseudo header, which so becomes part of the sum.
        let sum = nonzero(checksum(&frame[self.transport_at..]));
        self.set_checksum(frame, sum);
        true
    }

    /// The segments of `frame`, with `segment_bytes` bytes of payload each; `None` if the headers
    /// are not in the frame, or there is no payload.
    pub fn segments<'f>(&self, frame: &'f [u8], segment_bytes: usize) -> Option<Segments<'f>> {
        let end = self.headers_end(frame).filter(|&end| end < frame.len())?;
        let (headers, payload) = frame.split_at(end);
        let is_v6 = self.is_v6(frame);
        (segment_bytes > 0).then_some(Segments {
            layout: *self,
            is_v6,
            headers,
            payload,
            segment_bytes,
        })
    }

    fn set_checksum(&self, frame: &mut [u8], sum: u16) {
        let at = self.checksum_at();
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A checksum of zero stands for none in UDP; the other zero is valid everywhere.
pub fn nonzero(sum: u16) -> u16 {
    if sum == 0 { 0xffff } else { sum }
}

/// A frame to be segmented. See [`Layout::segments`].
#[derive(Clone, Copy, Debug)]
pub struct Segments<'f> {
    layout: Layout,
    is_v6: bool,
    headers: &'f [u8],
    payload: &'f [u8],
    segment_bytes: usize,
}

impl Segments<'_> {
    /// How many there are, at least one.
    pub fn count(&self) -> usize {
        self.payload.len().div_ceil(self.segment_bytes)
    }

    /// Bytes of the headers of each.
    pub fn headers_bytes(&self) -> usize {
        self.headers.len()
    }

    /// Bytes of segment `number`, headers included.
    pub fn bytes_of(&self, number: usize) -> usize {
        let start = number * self.segment_bytes;
        self.headers.len() + (self.payload.len() - start).min(self.segment_bytes)
    }

    /// Writes segment `number` to `out`.
    ///
    /// # Panics
    /// If there is no such segment, or `out` has not [`Segments::bytes_of`] it.
    pub fn write(&self, number: usize, out: &mut [u8]) {
        let start = number * self.segment_bytes;
        let end = self.payload.len().min(start + self.segment_bytes);
        let (headers, payload) = out.split_at_mut(self.headers.len());
        headers.copy_from_slice(self.headers);
        payload.copy_from_slice(&self.payload[start..end]);
        self.write_network(&mut out[self.layout.network_at..], number);
        let is_last = end == self.payload.len();
        self.write_transport(&mut out[self.layout.transport_at..], number, start, is_last);
        let pseudo = pseudo_header(&out[self.layout.network_at..], self.is_v6);
        let transport = &mut out[self.layout.transport_at..];
        let proto = if self.layout.is_udp { IpProto::UDP } else { IpProto::TCP };
        let sum = pseudo.sum(proto, transport.len()).add_bytes(transport);
        self.layout.set_checksum(out, nonzero(sum.checksum()));
    }

    /// Length, identification and checksum of the IP header.
    fn write_network(&self, network: &mut [u8], number: usize) {
        let bytes = network.len();
        if self.is_v6 {
            network[4..6].copy_from_slice(&((bytes - IPV6_BYTES) as u16).to_be_bytes());
            return;
        }
        network[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
        let first = u16::from_be_bytes([network[4], network[5]]);
        network[4..6].copy_from_slice(&first.wrapping_add(number as u16).to_be_bytes());
        network[10..12].fill(0);
        let sum = checksum(&network[..usize::from(network[0] & 15) * 4]);
        network[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    /// What differs between segments in the transport header; clears the checksum. The payload
    /// starts `offset` bytes into that of the whole.
    fn write_transport(&self, transport: &mut [u8], number: usize, offset: usize, is_last: bool) {
        if self.layout.is_udp {
            let bytes = transport.len() as u16;
            transport[4..6].copy_from_slice(&bytes.to_be_bytes());
            transport[6..8].fill(0);
            return;
        }
        let first = u32::from_be_bytes([4, 5, 6, 7].map(|at| transport[at]));
        transport[4..8].copy_from_slice(&first.wrapping_add(offset as u32).to_be_bytes());
        // Only the last one may end the flow or push, only the first one reports a reduced window.
        const FIN_AND_PSH: u8 = 0x01 | 0x08;
        const CWR: u8 = 0x80;
        transport[13] &= !if is_last { 0 } else { FIN_AND_PSH };
        transport[13] &= !if number == 0 { 0 } else { CWR };
        transport[16..18].fill(0);
    }
}

/// The pseudo header of a packet that starts with a whole IP header.
pub fn pseudo_header(network: &[u8], is_v6: bool) -> PseudoHeader {
    if is_v6 {
        let address = |at: usize| {
            let bytes: [u8; 16] = network[at..at + 16].try_into().expect("sixteen bytes");
            Ipv6Addr::from(bytes)
        };
        return PseudoHeader::V6 { src: address(8), dst: address(24) };
    }
    let address =
        |at: usize| Ipv4Addr::new(network[at], network[at + 1], network[at + 2], network[at + 3]);
    PseudoHeader::V4 { src: address(12), dst: address(16) }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::checksum::is_intact;

    /// A frame of `payload` bytes behind Ethernet, IP and TCP or UDP, with its layout.
    fn frame(is_v6: bool, is_udp: bool, payload: usize) -> (Vec<u8>, Layout) {
        let proto = if is_udp { 17 } else { 6 };
        let mut frame = std::vec![0; 12];
        if is_v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, proto, 64]);
            frame.extend((0..32).map(|n| n as u8));
        } else {
            frame.extend([8, 0, 0x45, 0, 0, 0, 0, 9, 0, 0, 64, proto, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 1, 1]);
        }
        let at = frame.len();
        frame.resize(at + if is_udp { 8 } else { 20 }, 0);
        if !is_udp {
            frame[at + 4..at + 8].copy_from_slice(&0xffff_ff00u32.to_be_bytes());
            (frame[at + 12], frame[at + 13]) = (0x50, 0x80 | 0x10 | 0x08 | 0x01);
        }
        frame.extend((0..payload).map(|n| n as u8));
        (frame, Layout { network_at: 14, transport_at: at, is_udp })
    }

    fn is_checksum_right(frame: &[u8], layout: &Layout) -> bool {
        let pseudo = pseudo_header(&frame[14..], layout.is_v6(frame));
        let transport = &frame[layout.transport_at..];
        let proto = if layout.is_udp { IpProto::UDP } else { IpProto::TCP };
        pseudo.sum(proto, transport.len()).add_bytes(transport).fold() == 0xffff
    }

    fn check(is_v6: bool, is_udp: bool) {
        let (whole, layout) = frame(is_v6, is_udp, 2500);
        let headers_bytes = layout.headers_end(&whole).expect("whole headers");
        let segments = layout.segments(&whole, 1000).expect("three segments");
        assert_eq!(segments.count(), 3);
        let pieces: Vec<Vec<u8>> = (0..3)
            .map(|number| {
                let mut piece = std::vec![0xee; segments.bytes_of(number)];
                segments.write(number, &mut piece);
                piece
            })
            .collect();
        let payload: Vec<u8> =
            pieces.iter().flat_map(|piece| piece[headers_bytes..].to_vec()).collect();
        assert_eq!(payload, whole[headers_bytes..]);
        for (number, piece) in pieces.iter().enumerate() {
            let (ip, segment) = (&piece[14..layout.transport_at], &piece[layout.transport_at..]);
            assert!(is_checksum_right(piece, &layout), "segment {number}");
            if is_v6 {
                assert_eq!(u16::from_be_bytes([ip[4], ip[5]]) as usize, segment.len());
            } else {
                assert!(is_intact(ip));
                assert_eq!(u16::from_be_bytes([ip[2], ip[3]]) as usize, ip.len() + segment.len());
                assert_eq!(ip[5], 9 + number as u8);
            }
            if is_udp {
                assert_eq!(u16::from_be_bytes([segment[4], segment[5]]) as usize, segment.len());
            } else {
                let sequence = u32::from_be_bytes([4, 5, 6, 7].map(|at| segment[at]));
                assert_eq!(sequence, 0xffff_ff00u32.wrapping_add(1000 * number as u32));
                assert_eq!(segment[13], [0x90, 0x10, 0x19][number], "flags of segment {number}");
            }
        }
    }

    #[test]
    fn segments_are_valid_packets() {
        for (is_v6, is_udp) in [(false, false), (true, false), (false, true), (true, true)] {
            check(is_v6, is_udp);
        }
    }

    #[test]
    fn completes_partial_checksums() {
        for (is_v6, is_udp) in [(false, false), (true, false), (false, true), (true, true)] {
            let (mut frame, layout) = frame(is_v6, is_udp, 101);
            let proto = if is_udp { IpProto::UDP } else { IpProto::TCP };
            let bytes = frame.len() - layout.transport_at;
            let sum = pseudo_header(&frame[14..], is_v6).sum(proto, bytes).fold();
            layout.set_checksum(&mut frame, sum);
            assert!(layout.complete_checksum(&mut frame));
            assert!(is_checksum_right(&frame, &layout), "{is_v6} {is_udp}");
        }
    }

    #[test]
    fn rejects_layouts_that_do_not_fit_the_frame() {
        let (whole, layout) = frame(false, false, 100);
        for bytes in [0, 12, 14, 33, 46, 53] {
            assert!(layout.segments(&whole[..bytes], 10).is_none(), "{bytes} bytes");
            assert!(!layout.complete_checksum(&mut whole.clone()[..bytes]), "{bytes} bytes");
        }
        assert!(layout.segments(&whole[..54], 10).is_none(), "no payload");
        assert!(layout.segments(&whole, 0).is_none(), "no length");
        let moved = |network_at, transport_at| Layout { network_at, transport_at, ..layout };
        for other in [moved(14, 20), moved(14, 9000), moved(13, 34), moved(9000, 9020)] {
            assert!(other.segments(&whole, 10).is_none(), "{other:?}");
        }
    }
}
