//! Fast decoding of the usual packet: whole, IPv4 without options, TCP or UDP.

use warpswitch_wire::link::LinkType;
use warpswitch_wire::tcp::{self, Tcp};
use warpswitch_wire::udp::{self, Udp};
use warpswitch_wire::{ipv4, ipv4::Ipv4};

use super::{Carried, Decoded, TcpPart, of_ipv4};

/// Bytes of an Ethernet header without VLAN tags.
const ETHERNET_BYTES: usize = 14;
const IPV4_TYPE: [u8; 2] = [0x08, 0x00];
/// Version 4, header of 20 bytes.
const VERSION_AND_LENGTH: u8 = 0x45;
/// Reserved bit, more fragments, offset: zero in a packet that is no fragment.
const FRAGMENT_BITS: u16 = 0xbfff;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The transport header and the payload of a usual packet, as offsets in its frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    pub(super) carried: Carried,
    network: usize,
    transport: usize,
    pub(super) payload: usize,
    pub(super) payload_bytes: usize,
}

impl Usual {
    /// Finds the headers; `None` if the packet must be decoded in the general way.
    #[inline]
    pub(super) fn find(link: LinkType, frame: &[u8], wire_bytes: usize) -> Option<Self> {
        let network = match link {
            LinkType::Ethernet if frame.get(12..ETHERNET_BYTES)? == IPV4_TYPE => ETHERNET_BYTES,
            LinkType::RawIp => 0,
            _ => return None,
        };
        let head: &[u8; ipv4::HEADER_BYTES] = frame.get(network..)?.first_chunk()?;
        let number = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let end = network + usize::from(number(2));
        let is_whole = wire_bytes == frame.len() && end <= frame.len();
        if head[0] != VERSION_AND_LENGTH || number(6) & FRAGMENT_BITS != 0 || !is_whole {
            return None;
        }
        let transport = network + ipv4::HEADER_BYTES;
        let bytes = frame.get(transport..end)?;
        let (carried, header_bytes, end) = match head[9] {
            TCP if bytes.len() >= tcp::HEADER_BYTES => {
                let header_bytes = Tcp::new_unchecked(bytes).header_bytes();
                if header_bytes < tcp::HEADER_BYTES {
                    return None;
                }
                (Carried::Tcp, header_bytes, end)
            }
            UDP if bytes.len() >= udp::HEADER_BYTES => {
                let datagram_bytes = Udp::new_unchecked(bytes).datagram_bytes();
                if datagram_bytes < udp::HEADER_BYTES || datagram_bytes > bytes.len() {
                    return None;
                }
                (Carried::Udp, udp::HEADER_BYTES, transport + datagram_bytes)
            }
            _ => return None,
        };
        let payload = transport + header_bytes;
        let payload_bytes = end.checked_sub(payload)?;
        Some(Self { carried, network, transport, payload, payload_bytes })
    }

    /// Decodes the packet.
    #[inline]
    pub(super) fn decode<'f>(&self, frame: &'f [u8]) -> Decoded<'f> {
        let (network, transport) = (&frame[self.network..], &frame[self.transport..]);
        let (tcp, ports) = match self.carried {
            Carried::Tcp => {
                let tcp = Tcp::new_unchecked(transport);
                let (seq, ack, window, flags) = (tcp.seq(), tcp.ack(), tcp.window(), tcp.flags().0);
                (TcpPart { seq, ack, window, flags }, (tcp.src_port(), tcp.dst_port()))
            }
            _ => {
                let udp = Udp::new_unchecked(transport);
                (TcpPart::default(), (udp.src_port(), udp.dst_port()))
            }
        };
        Decoded {
            carried: self.carried,
            ip_proto: if self.carried == Carried::Tcp { TCP } else { UDP },
            src_port: ports.0,
            dst_port: ports.1,
            tcp,
            payload: &frame[self.payload..][..self.payload_bytes],
            payload_wire_bytes: self.payload_bytes,
            ..of_ipv4(&Ipv4::new_unchecked(network))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{decode, decode_any};
    use super::*;

    /// A TCP or UDP frame with `payload` bytes of payload.
    fn frame(is_tcp: bool, payload: usize, padding: usize) -> Vec<u8> {
        let header_bytes = if is_tcp { tcp::HEADER_BYTES } else { udp::HEADER_BYTES };
        let total = ipv4::HEADER_BYTES + header_bytes + payload;
        let mut frame = vec![0; ETHERNET_BYTES];
        frame[12..14].copy_from_slice(&IPV4_TYPE);
        frame.extend([0x45, 3]);
        frame.extend((total as u16).to_be_bytes());
        frame.extend([1, 2, 0x40, 0, 64, if is_tcp { TCP } else { UDP }, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 0, 80]);
        if is_tcp {
            frame.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x18, 2, 0, 0, 0, 0, 0]);
        } else {
            frame.extend(((header_bytes + payload) as u16).to_be_bytes());
            frame.extend([0, 0]);
        }
        frame.extend((0..payload).map(|byte| byte as u8));
        frame.resize(frame.len() + padding, 0);
        frame
    }

    #[test]
    fn finds_usual_packets() {
        for (is_tcp, payload, padding) in [(true, 0, 6), (true, 30, 0), (false, 5, 13)] {
            let frame = frame(is_tcp, payload, padding);
            let usual = Usual::find(LinkType::Ethernet, &frame, frame.len()).expect("usual");
            assert_eq!(usual.payload_bytes, payload);
            assert!(
                Usual::find(LinkType::RawIp, &frame[ETHERNET_BYTES..], frame.len() - 14).is_some()
            );
        }
    }

    proptest! {
        /// The fast way gives what the general way gives, whatever is wrong with the packet.
        #[test]
        fn decodes_as_the_general_way(
            is_tcp in any::<bool>(),
            payload in 0usize..40,
            padding in 0usize..20,
            changes in prop::collection::vec((0usize..60, any::<u8>()), 0..3),
            cut in 0usize..4,
            beyond in 0usize..3,
            is_raw in any::<bool>(),
        ) {
            let mut frame = frame(is_tcp, payload, padding);
            let len = frame.len();
            for (at, byte) in changes {
                frame[at % len] = byte;
            }
            frame.truncate(len - cut * cut * cut);
            let (link, frame) = match is_raw {
                true => (LinkType::RawIp, &frame[ETHERNET_BYTES..]),
                false => (LinkType::Ethernet, &frame[..]),
            };
            let wire_bytes = frame.len() + beyond;
            let expected = decode_any(link, frame, wire_bytes);
            let decoded = decode(link, frame, wire_bytes);
            prop_assert_eq!(format!("{decoded:?}"), format!("{expected:?}"));
            if let (Some(usual), Ok(expected)) = (Usual::find(link, frame, wire_bytes), expected) {
                let start = expected.payload.as_ptr().addr() - frame.as_ptr().addr();
                let found = (usual.payload, usual.payload_bytes);
                prop_assert_eq!(found, (start, expected.payload.len()));
            }
        }
    }
}
