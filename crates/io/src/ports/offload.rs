//! Work that a sender left to its device: checksums and segmentation (`struct virtio_net_hdr`).
//!
//! # Source
//! Linux, `include/uapi/linux/virtio_net.h`; segmentation as in `net/ipv4/tcp_offload.c`.

use std::net::{Ipv4Addr, Ipv6Addr};

use warpswitch_wire::checksum::{PseudoHeader, Sum, checksum};
use warpswitch_wire::ip::IpProto;

/// Flag: the checksum field has the sum of the pseudo header only.
const NEEDS_CHECKSUM: u8 = 1;
/// Kinds of segmentation.
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
/// Flag of the kind: TCP with congestion notification.
const WITH_ECN: u8 = 0x80;

/// What is to be done to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offload {
    needs_checksum: bool,
    /// Kind of segmentation; 0 for none.
    kind: u8,
    /// Bytes of payload of each piece.
    piece_bytes: usize,
    /// Where the transport header starts.
    transport: usize,
    /// Where in it the checksum is.
    checksum_at: usize,
}

/// Transport protocols that can be split.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Udp,
}

impl Offload {
    /// Reads the header; `None` if there is nothing to do.
    #[inline]
    pub(super) fn parse(header: &[u8]) -> Option<Self> {
        let [flags, kind, _, _, size_a, size_b, start_a, start_b, offset_a, offset_b] =
            *header.first_chunk::<10>()?;
        let needs_checksum = flags & NEEDS_CHECKSUM != 0;
        if !needs_checksum && kind == 0 {
            return None;
        }
        Some(Self {
            needs_checksum,
            kind: kind & !WITH_ECN,
            piece_bytes: u16::from_ne_bytes([size_a, size_b]).into(),
            transport: u16::from_ne_bytes([start_a, start_b]).into(),
            checksum_at: u16::from_ne_bytes([offset_a, offset_b]).into(),
        })
    }

    /// Whether the frame is to be split.
    pub(super) fn is_segmented(&self) -> bool {
        self.kind != 0
    }

    /// Completes the checksum of a frame. A place outside of the frame changes nothing.
    pub(super) fn complete_checksum(&self, frame: &mut [u8]) {
        let at = self.transport + self.checksum_at;
        if self.needs_checksum && at + 2 <= frame.len() {
            // The field has the sum of the pseudo header, which so becomes part of the sum.
            let sum = nonzero(checksum(&frame[self.transport..]));
            frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Splits `frame` and passes each piece, built in `piece`, to `emit`. Returns whether it could:
    /// `emit` is not called otherwise.
    pub(super) fn split(
        &self,
        frame: &[u8],
        piece: &mut Vec<u8>,
        mut emit: impl FnMut(&[u8]),
    ) -> bool {
        let Some(plan) = Plan::new(self, frame) else { return false };
        let (headers, payload) = frame.split_at(plan.headers_bytes);
        let pieces = payload.len().div_ceil(self.piece_bytes);
        for (number, chunk) in payload.chunks(self.piece_bytes).enumerate() {
            piece.clear();
            piece.extend_from_slice(headers);
            piece.extend_from_slice(chunk);
            plan.finish(piece, number, number * self.piece_bytes, number + 1 == pieces);
            emit(piece);
        }
        true
    }
}

/// A checksum of zero stands for none in UDP; the other zero is valid everywhere.
fn nonzero(sum: u16) -> u16 {
    if sum == 0 { 0xffff } else { sum }
}

/// Where the headers of a frame that is split are.
struct Plan {
    is_v6: bool,
    transport: Transport,
    network_at: usize,
    transport_at: usize,
    /// All headers.
    headers_bytes: usize,
}

impl Plan {
    fn new(offload: &Offload, frame: &[u8]) -> Option<Self> {
        let transport = match offload.kind {
            TCP_V4 | TCP_V6 => Transport::Tcp,
            UDP => Transport::Udp,
            _ => return None,
        };
        let (network_at, is_v6) = find_network(frame)?;
        let network_bytes = match is_v6 {
            true => 40,
            false => usize::from(frame.get(network_at)? & 15) * 4,
        };
        if network_bytes < 20 {
            return None;
        }
        let transport_at = match offload.needs_checksum {
            true => offload.transport,
            false => network_at + network_bytes,
        };
        let transport_bytes = match transport {
            Transport::Tcp => usize::from(frame.get(transport_at + 12)? >> 4) * 4,
            Transport::Udp => 8,
        };
        let headers_bytes = transport_at + transport_bytes;
        let is_sound = transport_at >= network_at + network_bytes
            && (transport == Transport::Udp || transport_bytes >= 20)
            && headers_bytes < frame.len()
            && offload.piece_bytes > 0;
        is_sound.then_some(Self { is_v6, transport, network_at, transport_at, headers_bytes })
    }

    /// Makes headers and payload of piece `number` a packet; its payload is `offset` bytes into
    /// that of the whole.
    fn finish(&self, piece: &mut [u8], number: usize, offset: usize, is_last: bool) {
        let network_bytes = piece.len() - self.network_at;
        let network = &mut piece[self.network_at..];
        if self.is_v6 {
            network[4..6].copy_from_slice(&((network_bytes - 40) as u16).to_be_bytes());
        } else {
            network[2..4].copy_from_slice(&(network_bytes as u16).to_be_bytes());
            let first = u16::from_be_bytes([network[4], network[5]]);
            network[4..6].copy_from_slice(&first.wrapping_add(number as u16).to_be_bytes());
            network[10..12].fill(0);
            let sum = checksum(&network[..usize::from(network[0] & 15) * 4]);
            network[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let pseudo = pseudo_header(&piece[self.network_at..], self.is_v6);
        let transport = &mut piece[self.transport_at..];
        let (proto, checksum_at) = match self.transport {
            Transport::Tcp => {
                let first = u32::from_be_bytes([4, 5, 6, 7].map(|at| transport[at]));
                let sequence = first.wrapping_add(offset as u32);
                transport[4..8].copy_from_slice(&sequence.to_be_bytes());
                // Only the last piece may end the flow or push, only the first one reports a
                // reduced window.
                let (not_last, not_first) = (0x01 | 0x08, 0x80);
                transport[13] &= !if is_last { 0 } else { not_last };
                transport[13] &= !if number == 0 { 0 } else { not_first };
                (IpProto::TCP, 16)
            }
            Transport::Udp => {
                let bytes = transport.len() as u16;
                transport[4..6].copy_from_slice(&bytes.to_be_bytes());
                (IpProto::UDP, 6)
            }
        };
        transport[checksum_at..checksum_at + 2].fill(0);
        let sum: Sum = pseudo.sum(proto, transport.len()).add_bytes(transport);
        let sum = nonzero(sum.checksum());
        transport[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The pseudo header of a packet that starts with a whole IP header.
fn pseudo_header(network: &[u8], is_v6: bool) -> PseudoHeader {
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

/// Completes the checksum of a TCP or UDP packet whose field has the sum of the pseudo header only,
/// where nothing else records that. Returns whether it was so. A valid checksum of this value is
/// computed again, to the same value.
pub(super) fn complete_partial(frame: &mut [u8]) -> bool {
    let Some((network_at, is_v6)) = find_network(frame) else { return false };
    let network = &mut frame[network_at..];
    let half =
        |at: usize| network.get(at..at + 2).map(|b| usize::from(b[0]) << 8 | usize::from(b[1]));
    let (header_bytes, total_bytes, proto) = match (is_v6, half(2), half(4), half(6)) {
        (true, _, Some(payload_bytes), Some(_)) => (40, 40 + payload_bytes, network[6]),
        // Only the first fragment has the field, and it never is partial.
        (false, Some(total), _, Some(fragment))
            if fragment & 0x3fff == 0 && network.len() >= 20 =>
        {
            (usize::from(network[0] & 15) * 4, total, network[9])
        }
        _ => return false,
    };
    let (proto, checksum_at) = match proto {
        6 => (IpProto::TCP, 16),
        17 => (IpProto::UDP, 6),
        _ => return false,
    };
    let is_whole = header_bytes >= 20
        && header_bytes + checksum_at + 2 <= total_bytes
        && total_bytes <= network.len();
    if !is_whole {
        return false;
    }
    let pseudo = pseudo_header(network, is_v6);
    let transport = &mut network[header_bytes..total_bytes];
    let field = u16::from_be_bytes([transport[checksum_at], transport[checksum_at + 1]]);
    if field != pseudo.sum(proto, transport.len()).fold() {
        return false;
    }
    let sum = nonzero(checksum(transport));
    transport[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Finds the IP header behind Ethernet and VLAN tags, and whether it is IPv6.
fn find_network(frame: &[u8]) -> Option<(usize, bool)> {
    let mut at = 12;
    loop {
        match frame.get(at..at + 2)? {
            [0x08, 0x00] => return Some((at + 2, false)),
            [0x86, 0xdd] => return Some((at + 2, true)),
            [0x81, 0x00] | [0x88, 0xa8] => at += 4,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_wire::checksum::is_intact;

    use super::*;

    /// A frame of `payload` bytes behind Ethernet, IP and TCP or UDP.
    fn frame(is_v6: bool, proto: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; 12];
        let transport_bytes = if proto == 6 { 20 } else { 8 };
        if is_v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, proto, 64]);
            frame.extend((0..32).map(|n| n as u8));
        } else {
            frame.extend([8, 0, 0x45, 0, 0, 0, 0, 9, 0, 0, 64, proto, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 1, 1]);
        }
        let at = frame.len();
        frame.extend(vec![0; transport_bytes]);
        if proto == 6 {
            frame[at + 4..at + 8].copy_from_slice(&0xffff_ff00u32.to_be_bytes());
            (frame[at + 12], frame[at + 13]) = (0x50, 0x80 | 0x10 | 0x08 | 0x01);
        }
        frame.extend((0..payload).map(|n| n as u8));
        frame
    }

    fn offload(kind: u8, transport: usize, checksum_at: usize, piece_bytes: usize) -> Offload {
        Offload { needs_checksum: true, kind, piece_bytes, transport, checksum_at }
    }

    fn check(is_v6: bool, proto: u8, kind: u8) {
        let (network, transport) = (14, if is_v6 { 54 } else { 34 });
        let checksum_at = if proto == 6 { 16 } else { 6 };
        let whole = frame(is_v6, proto, 2500);
        let headers_bytes = transport + if proto == 6 { 20 } else { 8 };
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        let offload = offload(kind, transport, checksum_at, 1000);
        assert!(offload.split(&whole, &mut Vec::new(), |piece| pieces.push(piece.to_vec())));
        let payload: Vec<u8> =
            pieces.iter().flat_map(|piece| piece[headers_bytes..].to_vec()).collect();
        assert_eq!((pieces.len(), &payload[..]), (3, &whole[headers_bytes..]));
        for (number, piece) in pieces.iter().enumerate() {
            let (ip, segment) = (&piece[network..transport], &piece[transport..]);
            let proto = IpProto(proto);
            let sum = pseudo_header(ip, is_v6).sum(proto, segment.len()).add_bytes(segment);
            assert_eq!(sum.fold(), 0xffff, "piece {number}");
            if is_v6 {
                assert_eq!(u16::from_be_bytes([ip[4], ip[5]]) as usize, segment.len());
            } else {
                assert!(is_intact(ip));
                assert_eq!(u16::from_be_bytes([ip[2], ip[3]]) as usize, ip.len() + segment.len());
                assert_eq!(ip[5], 9 + number as u8);
            }
            if proto == IpProto::TCP {
                let sequence = u32::from_be_bytes([4, 5, 6, 7].map(|at| segment[at]));
                assert_eq!(sequence, 0xffff_ff00u32.wrapping_add(1000 * number as u32));
                assert_eq!(segment[13], [0x90, 0x10, 0x19][number], "flags of piece {number}");
            } else {
                assert_eq!(u16::from_be_bytes([segment[4], segment[5]]) as usize, segment.len());
            }
        }
    }

    #[test]
    fn splits_into_valid_packets() {
        check(false, 6, TCP_V4);
        check(true, 6, TCP_V6);
        check(false, 17, UDP);
        check(true, 17, UDP);
    }

    #[test]
    fn rejects_frames_that_are_not_what_the_offload_describes() {
        let whole = frame(false, 6, 2500);
        let split = |offload: Offload, frame: &[u8]| {
            offload.split(frame, &mut Vec::new(), |_| panic!("nothing is emitted"))
        };
        assert!(!split(offload(3, 34, 16, 1000), &whole), "unknown kind");
        assert!(!split(offload(TCP_V4, 34, 16, 0), &whole), "no length");
        assert!(!split(offload(TCP_V4, 20, 16, 1000), &whole), "within the IP header");
        assert!(!split(offload(TCP_V4, 9000, 16, 1000), &whole), "behind the frame");
        for bytes in [0, 12, 14, 33, 46, 54] {
            assert!(!split(offload(TCP_V4, 34, 16, 1000), &whole[..bytes]), "{bytes} bytes");
        }
        let mut short = [1; 40];
        offload(0, 34, 16, 0).complete_checksum(&mut short);
        assert_eq!(short, [1; 40]);
    }

    /// A whole packet with a partial checksum, as a kernel leaves it to its device.
    fn partial(is_v6: bool, proto: u8) -> (Vec<u8>, usize) {
        let (mut frame, at) = (frame(is_v6, proto, 101), if is_v6 { 54 } else { 34 });
        let bytes = frame.len() - at;
        let total = (if is_v6 { bytes } else { bytes + 20 }) as u16;
        let length_at = if is_v6 { 18 } else { 16 };
        frame[length_at..length_at + 2].copy_from_slice(&total.to_be_bytes());
        let sum = pseudo_header(&frame[14..], is_v6).sum(IpProto(proto), bytes).fold();
        let field = at + if proto == 6 { 16 } else { 6 };
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        (frame, at)
    }

    #[test]
    fn completes_partial_checksums_and_no_others() {
        for (is_v6, proto) in [(false, 6), (false, 17), (true, 6), (true, 17)] {
            let (mut frame, at) = partial(is_v6, proto);
            assert!(complete_partial(&mut frame), "{is_v6} {proto}");
            let sum = pseudo_header(&frame[14..], is_v6).sum(IpProto(proto), frame.len() - at);
            assert_eq!(sum.add_bytes(&frame[at..]).fold(), 0xffff, "{is_v6} {proto}");
            let complete = frame.clone();
            assert!(!complete_partial(&mut frame), "it is complete");
            assert_eq!(frame, complete);
            for bytes in 0..frame.len() {
                let (mut cut, _) = partial(is_v6, proto);
                cut.truncate(bytes);
                assert!(!complete_partial(&mut cut), "{bytes} bytes");
            }
        }
    }

    #[test]
    fn parses_the_header() {
        assert_eq!(Offload::parse(&[0; 10]), None);
        assert_eq!(Offload::parse(&[1; 9]), None);
        let mut header = [0; 10];
        (header[0], header[1]) = (1, TCP_V4 | WITH_ECN);
        header[4..6].copy_from_slice(&1448u16.to_ne_bytes());
        header[6..8].copy_from_slice(&34u16.to_ne_bytes());
        header[8..10].copy_from_slice(&16u16.to_ne_bytes());
        assert_eq!(Offload::parse(&header), Some(offload(TCP_V4, 34, 16, 1448)));
    }
}
