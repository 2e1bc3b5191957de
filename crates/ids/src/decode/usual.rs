//! Fast decoding of the usual packet: whole, IPv4 without options, TCP, UDP or ICMP.

use warpswitch_wire::link::LinkType;
use warpswitch_wire::tcp::{self, Tcp};
use warpswitch_wire::udp::{self, Udp};
use warpswitch_wire::{icmp, ipv4, ipv4::Ipv4};

use super::{Carried, Decoded, TcpPart, of_ipv4};

/// Bytes of an Ethernet header without VLAN tags.
const ETHERNET_BYTES: usize = 14;
const IPV4_TYPE: [u8; 2] = [0x08, 0x00];
/// Version 4, header of 20 bytes.
const VERSION_AND_LENGTH: u8 = 0x45;
/// Reserved bit, more fragments, offset: zero in a packet that is no fragment.
const FRAGMENT_BITS: u16 = 0xbfff;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Bytes of a transport header up to the end of its length: UDP's length, or TCP's data offset.
const LENGTH_END: usize = 13;

/// The header of a protocol over IPv4.
struct Above {
    carried: Carried,
    /// All ones for TCP, which has the length of its header, and for UDP, which has its own.
    tcp: usize,
    udp: usize,
    /// That length for others, and its lower bound.
    told_bytes: usize,
    least_bytes: usize,
    /// Bytes of the header if it has no length.
    header_bytes: usize,
}

impl Above {
    const fn new(carried: Carried, least_bytes: usize) -> Self {
        Self { carried, tcp: 0, udp: 0, told_bytes: 0, least_bytes, header_bytes: 0 }
    }
}

/// By protocol, in place of branches: which protocol comes next would be mispredicted.
static ABOVE: [Above; 256] = {
    // A length of 0 is below the bound: such packets are decoded in the general way.
    let mut above = [const { Above::new(Carried::Other, 1) }; 256];
    above[TCP as usize] = Above { tcp: usize::MAX, ..Above::new(Carried::Tcp, tcp::HEADER_BYTES) };
    let udp = Above::new(Carried::Udp, udp::HEADER_BYTES);
    above[UDP as usize] = Above { udp: usize::MAX, header_bytes: udp::HEADER_BYTES, ..udp };
    let (told_bytes, header_bytes) = (icmp::HEADER_BYTES, icmp::HEADER_BYTES);
    let icmp = Above::new(Carried::Icmp, icmp::HEADER_BYTES);
    above[ICMP as usize] = Above { told_bytes, header_bytes, ..icmp };
    above
};

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
    #[inline(always)]
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
        let bytes = end.checked_sub(transport)?;
        // Behind a short datagram other bytes follow, or it is decoded in the general way.
        let head_above: &[u8; LENGTH_END] = frame.get(transport..)?.first_chunk()?;
        let above = &ABOVE[usize::from(head[9])];
        let tcp_bytes = usize::from(head_above[12] >> 4) * 4;
        let udp_bytes = usize::from(u16::from_be_bytes([head_above[4], head_above[5]]));
        let told_bytes = tcp_bytes & above.tcp | udp_bytes & above.udp | above.told_bytes;
        if (told_bytes < above.least_bytes) | (told_bytes > bytes) {
            return None;
        }
        let header_bytes = tcp_bytes & above.tcp | above.header_bytes;
        let payload_bytes = (bytes & !above.udp | told_bytes & above.udp) - header_bytes;
        let payload = transport + header_bytes;
        Some(Self { carried: above.carried, network, transport, payload, payload_bytes })
    }

    /// Decodes the packet, which is of TCP or UDP.
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

    /// A frame of a protocol with `payload` bytes of payload.
    fn frame(proto: u8, payload: usize, padding: usize) -> Vec<u8> {
        let header_bytes = if proto == TCP { tcp::HEADER_BYTES } else { udp::HEADER_BYTES };
        let total = ipv4::HEADER_BYTES + header_bytes + payload;
        let mut frame = vec![0; ETHERNET_BYTES];
        frame[12..14].copy_from_slice(&IPV4_TYPE);
        frame.extend([0x45, 3]);
        frame.extend((total as u16).to_be_bytes());
        frame.extend([1, 2, 0x40, 0, 64, proto, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 0, 80]);
        if proto == TCP {
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
        for (proto, payload, padding) in [(TCP, 0, 6), (TCP, 30, 0), (UDP, 5, 13), (ICMP, 9, 2)] {
            let frame = frame(proto, payload, padding);
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
            proto in prop::sample::select(vec![TCP, UDP, ICMP, 47]),
            payload in 0usize..40,
            padding in 0usize..20,
            changes in prop::collection::vec((0usize..60, any::<u8>()), 0..3),
            cut in 0usize..4,
            beyond in 0usize..3,
            is_raw in any::<bool>(),
        ) {
            let mut frame = frame(proto, payload, padding);
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
