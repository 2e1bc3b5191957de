//! Work that a sender left to its device, as the kernel describes it beside a frame
//! (`struct virtio_net_hdr`): checksums and segmentation.
//!
//! # Source
//! Linux, `include/uapi/linux/virtio_net.h`.

use warpswitch_packet::{Gso, Packet};
use warpswitch_wire::checksum::checksum;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::segment::{Layout, nonzero, pseudo_header};

/// Bytes of the header.
pub(crate) const VNET_BYTES: usize = 10;
/// Flag: the checksum field has the sum of the pseudo header only.
const NEEDS_CHECKSUM: u8 = 1;
/// Kinds of segmentation.
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP: u8 = 5;
/// Flag of the kind: TCP with congestion notification.
const WITH_ECN: u8 = 0x80;
/// Where the checksum is in headers of TCP and UDP.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// What is left to do to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vnet {
    pub(crate) needs_checksum: bool,
    /// Kind of segmentation; 0 for none.
    kind: u8,
    has_ecn: bool,
    /// Bytes of payload of each segment.
    segment_bytes: u16,
    /// Where the transport header starts.
    transport_at: usize,
    /// Where in it the checksum is.
    checksum_at: usize,
}

impl Vnet {
    /// Reads the header; `None` if there is nothing to do.
    #[inline]
    pub(crate) fn parse(header: &[u8]) -> Option<Self> {
        let [flags, kind, _, _, size_a, size_b, start_a, start_b, offset_a, offset_b] =
            *header.first_chunk::<VNET_BYTES>()?;
        let needs_checksum = flags & NEEDS_CHECKSUM != 0;
        if !needs_checksum && kind == 0 {
            return None;
        }
        Some(Self {
            needs_checksum,
            kind: kind & !WITH_ECN,
            has_ecn: kind & WITH_ECN != 0,
            segment_bytes: u16::from_ne_bytes([size_a, size_b]),
            transport_at: u16::from_ne_bytes([start_a, start_b]).into(),
            checksum_at: u16::from_ne_bytes([offset_a, offset_b]).into(),
        })
    }

    /// Whether the frame is to be segmented.
    pub(crate) fn is_segmented(&self) -> bool {
        self.kind != 0
    }

    /// The same for the packet of `frame`, if that is a whole TCP or UDP packet as the header
    /// describes. Without Ethernet header it starts with the IP header.
    pub(crate) fn gso(&self, frame: &[u8], has_ethernet: bool) -> Option<Gso> {
        let (is_udp, proto) = match self.checksum_at {
            TCP_CHECKSUM => (false, IpProto::TCP),
            UDP_CHECKSUM => (true, IpProto::UDP),
            _ => return None,
        };
        let network_at = if has_ethernet { find_network(frame)?.0 } else { 0 };
        let layout = Layout { network_at, transport_at: self.transport_at, is_udp };
        let headers_end = layout.headers_end(frame)?;
        let network = &frame[network_at..];
        let is_whole = match network[0] >> 4 {
            // Options may be longer than they are, other headers of IPv6 in between.
            4 => {
                let total = u16::from_be_bytes([network[2], network[3]]);
                usize::from(total) == network.len() && network[9] == proto.0
            }
            _ => {
                let payload = u16::from_be_bytes([network[4], network[5]]);
                40 + usize::from(payload) == network.len()
            }
        };
        let is_known = match self.kind {
            0 => true,
            TCP_V4 | TCP_V6 => !is_udp,
            UDP => is_udp,
            _ => false,
        };
        let is_long = self.segment_bytes > 0 && headers_end < frame.len();
        let is_right = self.needs_checksum && is_whole && is_known;
        (is_right && (self.kind == 0 || is_long)).then_some(Gso {
            network_at,
            transport_at: self.transport_at,
            is_udp,
            segment_bytes: if self.kind == 0 { 0 } else { self.segment_bytes },
            has_ecn: self.has_ecn,
        })
    }

    /// Completes the checksum of a frame. A place outside of the frame changes nothing.
    pub(crate) fn complete_checksum(&self, frame: &mut [u8]) {
        let at = self.transport_at + self.checksum_at;
        if self.needs_checksum && at + 2 <= frame.len() {
            // The field has the sum of the pseudo header, which so becomes part of the sum.
            let sum = nonzero(checksum(&frame[self.transport_at..]));
            frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// The header for sending `packet`; `None` if what is left to do no longer fits its headers.
#[inline]
pub(crate) fn header_of(packet: &Packet) -> Option<[u8; VNET_BYTES]> {
    if packet.has_gso() { header_of_gso(packet) } else { Some([0; VNET_BYTES]) }
}

fn header_of_gso(packet: &Packet) -> Option<[u8; VNET_BYTES]> {
    let (gso, data) = (packet.gso()?, packet.data());
    let Gso { network_at, transport_at, is_udp, segment_bytes, has_ecn } = gso;
    let headers_end = Layout { network_at, transport_at, is_udp }.headers_end(data)?;
    let mut header = [0; VNET_BYTES];
    header[0] = NEEDS_CHECKSUM;
    if segment_bytes > 0 && data.len() - headers_end > usize::from(segment_bytes) {
        header[1] = match data[network_at] >> 4 {
            _ if is_udp => UDP,
            4 => TCP_V4,
            _ => TCP_V6,
        };
        header[1] |= if has_ecn { WITH_ECN } else { 0 };
        header[2..4].copy_from_slice(&u16::try_from(headers_end).ok()?.to_ne_bytes());
        header[4..6].copy_from_slice(&segment_bytes.to_ne_bytes());
    }
    let checksum_at = if is_udp { UDP_CHECKSUM } else { TCP_CHECKSUM } as u16;
    header[6..8].copy_from_slice(&u16::try_from(transport_at).ok()?.to_ne_bytes());
    header[8..10].copy_from_slice(&checksum_at.to_ne_bytes());
    Some(header)
}

/// Completes the checksum of a TCP or UDP packet whose field has the sum of the pseudo header only,
/// where nothing else records that. Returns whether it was so. A valid checksum of this value is
/// computed again, to the same value.
pub(crate) fn complete_partial(frame: &mut [u8]) -> bool {
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
    use warpswitch_packet::Pool;

    use super::*;

    /// A frame of `payload` bytes behind Ethernet, IP and TCP or UDP, with a partial checksum, and
    /// where its transport header starts.
    fn partial(is_v6: bool, proto: u8, payload: usize) -> (Vec<u8>, usize) {
        let mut frame = vec![0; 12];
        let bytes = payload + if proto == 6 { 20 } else { 8 };
        if is_v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((bytes as u16).to_be_bytes());
            frame.extend([proto, 64]);
            frame.extend((0..32).map(|n| n as u8));
        } else {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((bytes as u16 + 20).to_be_bytes());
            frame.extend([0, 9, 0, 0, 64, proto, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 1, 1]);
        }
        let at = frame.len();
        frame.extend((0..bytes).map(|n| n as u8));
        if proto == 6 {
            (frame[at + 12], frame[at + 13]) = (0x50, 0x18);
        }
        let sum = pseudo_header(&frame[14..], is_v6).sum(IpProto(proto), bytes).fold();
        let field = at + if proto == 6 { 16 } else { 6 };
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        (frame, at)
    }

    /// The header of a frame to be segmented.
    fn header(kind: u8, transport_at: usize, checksum_at: usize) -> [u8; VNET_BYTES] {
        let mut header = [NEEDS_CHECKSUM, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        if kind != 0 {
            header[4..6].copy_from_slice(&1000u16.to_ne_bytes());
        }
        header[6..8].copy_from_slice(&(transport_at as u16).to_ne_bytes());
        header[8..10].copy_from_slice(&(checksum_at as u16).to_ne_bytes());
        header
    }

    /// What is received is sent as it was.
    #[test]
    fn headers_are_handed_on() {
        let mut pool = Pool::new();
        for (is_v6, proto, kind) in [
            (false, 6, TCP_V4),
            (false, 6, TCP_V4 | WITH_ECN),
            (true, 6, TCP_V6),
            (false, 17, UDP),
            (true, 17, UDP),
            (false, 6, 0),
            (true, 17, 0),
        ] {
            let (frame, at) = partial(is_v6, proto, 2500);
            let checksum_at = if proto == 6 { 16 } else { 6 };
            let received = header(kind, at, checksum_at);
            let vnet = Vnet::parse(&received).expect("something is left to do");
            let gso = vnet.gso(&frame, true).expect("a whole packet");
            assert_eq!(vnet.gso(&frame[14..], false), None, "another place");
            let mut packet = pool.packet_of(&frame);
            packet.set_gso(Some(gso));
            let mut sent = header_of(&packet).expect("it fits");
            sent[2..4].fill(0);
            assert_eq!(sent, received);
            // Behind a tag.
            packet.push(4);
            let sent = header_of(&packet).expect("it fits");
            assert_eq!(usize::from(u16::from_ne_bytes([sent[6], sent[7]])), at + 4);
        }
        assert_eq!(header_of(&pool.packet_of(&[0; 60])), Some([0; VNET_BYTES]));
    }

    #[test]
    fn rejects_frames_that_are_not_what_the_header_describes() {
        let (frame, _) = partial(false, 6, 2500);
        let check = |header: &[u8], frame: &[u8], what: &str| {
            let vnet = Vnet::parse(header).expect("something is left to do");
            assert_eq!(vnet.gso(frame, true), None, "{what}");
        };
        assert!(Vnet::parse(&header(TCP_V4, 34, 16)).unwrap().gso(&frame, true).is_some());
        check(&header(3, 34, 16), &frame, "unknown kind");
        check(&header(UDP, 34, 16), &frame, "UDP of TCP");
        check(&header(TCP_V4, 20, 16), &frame, "within the IP header");
        check(&header(TCP_V4, 9000, 16), &frame, "behind the frame");
        check(&header(TCP_V4, 34, 6), &frame, "another protocol");
        for bytes in [0, 12, 14, 33, 46, 54, 2000] {
            check(&header(TCP_V4, 34, 16), &frame[..bytes], "cut");
        }
        let mut without_length = header(TCP_V4, 34, 16);
        without_length[4..6].fill(0);
        check(&without_length, &frame, "no length");
        let mut without_checksum = header(TCP_V4, 34, 16);
        without_checksum[0] = 0;
        check(&without_checksum, &frame, "a complete checksum");
        let mut short = [1; 40];
        Vnet::parse(&header(0, 34, 16)).unwrap().complete_checksum(&mut short);
        assert_eq!(short, [1; 40]);
        assert!(Vnet::parse(&[0; 10]).is_none() && Vnet::parse(&[1; 9]).is_none());
    }

    #[test]
    fn completes_partial_checksums_and_no_others() {
        for (is_v6, proto) in [(false, 6), (false, 17), (true, 6), (true, 17)] {
            let (mut frame, at) = partial(is_v6, proto, 101);
            assert!(complete_partial(&mut frame), "{is_v6} {proto}");
            let sum = pseudo_header(&frame[14..], is_v6).sum(IpProto(proto), frame.len() - at);
            assert_eq!(sum.add_bytes(&frame[at..]).fold(), 0xffff, "{is_v6} {proto}");
            let complete = frame.clone();
            assert!(!complete_partial(&mut frame), "it is complete");
            assert_eq!(frame, complete);
            for bytes in 0..frame.len() {
                let (mut cut, _) = partial(is_v6, proto, 101);
                cut.truncate(bytes);
                assert!(!complete_partial(&mut cut), "{bytes} bytes");
            }
        }
    }
}
