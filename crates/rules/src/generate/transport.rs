//! Transport headers of made frames, with their checksums.

use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::icmp::{self, Icmp, IcmpRepr};
use warpswitch_wire::icmpv6::{self, Icmpv6, Icmpv6Repr};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::sctp::{self, Sctp, SctpRepr};
use warpswitch_wire::tcp::{self, Tcp, TcpFlags, TcpRepr};
use warpswitch_wire::udp::{self, Udp, UdpRepr};

/// The fields of a transport header.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransportHeader {
    pub proto: IpProto,
    /// Ports, or type and code of ICMP.
    pub ports: [u16; 2],
    pub flags: u16,
}

impl TransportHeader {
    /// Bytes of the header; 0 for protocols that have none here.
    pub fn bytes(&self) -> usize {
        match self.proto {
            IpProto::TCP => tcp::HEADER_BYTES,
            IpProto::UDP => udp::HEADER_BYTES,
            IpProto::SCTP => sctp::HEADER_BYTES,
            IpProto::ICMP => icmp::HEADER_BYTES,
            IpProto::ICMPV6 => icmpv6::HEADER_BYTES,
            _ => 0,
        }
    }

    /// Writes the header in front of its payload, and the checksum of both.
    pub fn emit(&self, pseudo: &PseudoHeader, packet: &mut [u8]) {
        let [src_port, dst_port] = self.ports;
        let (kind, code) = (src_port as u8, dst_port as u8);
        let is_ipv4 = matches!(pseudo, PseudoHeader::V4 { .. });
        match self.proto {
            IpProto::TCP => {
                let (flags, window) = (TcpFlags(self.flags), u16::MAX);
                let repr = TcpRepr { src_port, dst_port, flags, window, ..TcpRepr::default() };
                let mut view = Tcp::new_unchecked(packet);
                repr.emit(&mut view);
                view.fill_checksum(pseudo);
            }
            IpProto::UDP => {
                let payload_bytes = packet.len() - udp::HEADER_BYTES;
                let mut view = Udp::new_unchecked(packet);
                UdpRepr { src_port, dst_port, payload_bytes }.emit(&mut view);
                view.fill_checksum(pseudo);
            }
            IpProto::SCTP => {
                let mut view = Sctp::new_unchecked(packet);
                SctpRepr { src_port, dst_port, verification_tag: 1 }.emit(&mut view);
                view.fill_checksum();
            }
            IpProto::ICMP if is_ipv4 => {
                let mut view = Icmp::new_unchecked(packet);
                IcmpRepr { kind, code, rest: 0 }.emit(&mut view);
                view.fill_checksum();
            }
            IpProto::ICMPV6 if !is_ipv4 => {
                let mut view = Icmpv6::new_unchecked(packet);
                Icmpv6Repr { kind, code }.emit(&mut view);
                view.fill_checksum(pseudo);
            }
            _ => {}
        }
    }
}
