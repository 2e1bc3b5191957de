//! Raw IPv4 sockets: packets of one protocol, with their IP header.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{self, SendFlags, sockopt};
use warpswitch_graph::transport::{Place, Protocol, Received, Sent, Transport, Wire};
use warpswitch_wire::icmp::{Icmp, TYPE_ECHO_REPLY, TYPE_ECHO_REQUEST};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{HEADER_BYTES, Ipv4};

use crate::packet_sockets::{SocketAddress, bind, is_retryable, new_socket, receive_from};

/// Bytes that the socket which reserves a port may hold: the kernel raises it to its minimum.
const RESERVATION_BYTES: usize = 0;
/// The protocol of a socket that sends packets with their header (`IPPROTO_RAW`).
const WITH_HEADER: u8 = 255;
/// Flags of a GRE header: it has a checksum, it has a key.
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_KEY: u16 = 0x2000;

/// A raw IPv4 socket.
pub(crate) struct RawIpSocket {
    receiver: OwnedFd,
    /// Takes packets with their header, of any protocol.
    sender: OwnedFd,
    /// Reserves the port, so the kernel sends no errors for packets to it.
    _reservation: Option<OwnedFd>,
    protocol: IpProto,
    /// Selects received packets, unless it is 0.
    port: u16,
}

impl RawIpSocket {
    /// Opens a socket for packets of `protocol`.
    pub(crate) fn open(transport: &Transport, protocol: u8) -> io::Result<Self> {
        let protocol = IpProto(protocol);
        let port = match transport.place {
            Place::Ip(_, port) => port,
            Place::Path(_) => 0,
        };
        let sender = Transport { protocol: Protocol::RawIp(WITH_HEADER), ..transport.clone() };
        let sender = new_socket(&sender)?;
        sockopt::set_socket_broadcast(&sender, true)?;
        let receiver = new_socket(transport)?;
        let reservation = match protocol {
            IpProto::TCP | IpProto::UDP if port != 0 => Some(reserve(transport, protocol)?),
            _ => None,
        };
        Ok(Self { receiver, sender, _reservation: reservation, protocol, port })
    }

    /// Whether the port of the packet, or what its protocol has in place of one, is that of the
    /// socket.
    fn is_selected(&self, packet: &[u8]) -> bool {
        if self.port == 0 {
            return true;
        }
        let view = Ipv4::new_unchecked(packet);
        // The packet may be cut to the buffer, but not within its header.
        if view.check_header().is_err() || view.fragment_offset() != 0 {
            return false;
        }
        let payload = &packet[view.header_bytes()..];
        let selector = match self.protocol {
            IpProto::TCP | IpProto::UDP => word(payload, 2),
            IpProto::ICMP => echo_identifier(payload),
            _ => gre_key(payload),
        };
        selector == Some(self.port)
    }
}

/// Binds an ordinary socket of `protocol` to the port of `transport`.
fn reserve(transport: &Transport, protocol: IpProto) -> io::Result<OwnedFd> {
    let protocol = if protocol == IpProto::TCP { Protocol::Tcp } else { Protocol::Udp };
    let transport =
        Transport { protocol, send_bytes: None, receive_bytes: None, ..transport.clone() };
    let socket = new_socket(&transport)?;
    sockopt::set_socket_recv_buffer_size(&socket, RESERVATION_BYTES)?;
    bind(&transport, &socket, &transport.place)?;
    Ok(socket)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

/// Identifier of an echo message.
fn echo_identifier(message: &[u8]) -> Option<u16> {
    let view = Icmp::new_checked(message).ok()?;
    let is_echo = matches!(view.kind(), TYPE_ECHO_REPLY | TYPE_ECHO_REQUEST);
    is_echo.then(|| (view.rest() >> 16) as u16)
}

/// Key of a GRE packet, or call identifier of PPTP, if it has 16 bits.
fn gre_key(packet: &[u8]) -> Option<u16> {
    let flags = word(packet, 0)?;
    let at = if flags & GRE_CHECKSUM != 0 { 8 } else { 4 };
    let is_pptp = flags & 7 == 1;
    match flags & GRE_KEY != 0 && (is_pptp || word(packet, at)? == 0) {
        // The first half of a key of PPTP is a length.
        true => word(packet, at + 2),
        false => None,
    }
}

impl Wire for RawIpSocket {
    fn receive(
        &mut self,
        bytes: &mut [u8],
        _is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool,
    ) -> Received {
        match receive_from(&self.receiver, bytes) {
            Ok((len, _)) if self.is_selected(&bytes[..len]) => Received::Bytes(len),
            Err(error) if is_retryable(&error) => Received::Nothing,
            Ok(_) | Err(_) => Received::Passed,
        }
    }

    fn send(&mut self, bytes: &[u8], _to: Option<Ipv4Addr>) -> Sent {
        if bytes.len() < HEADER_BYTES {
            return Sent::Refused;
        }
        let to = SocketAddrV4::new(Ipv4::new_unchecked(bytes).dst(), 0);
        match net::sendto(&self.sender, bytes, SendFlags::NOSIGNAL, &to) {
            Ok(len) => Sent::Bytes(len),
            Err(rustix::io::Errno::NOBUFS) => Sent::Later,
            Err(error) if is_retryable(&error.into()) => Sent::Later,
            Err(_) => Sent::Refused,
        }
    }

    fn has_peer(&self) -> bool {
        true
    }

    fn peers(&self) -> u64 {
        0
    }

    fn local(&self) -> String {
        let address = net::getsockname(&self.receiver).ok().and_then(SocketAddress::of_any);
        address.and_then(|address| address.ip()).map(|ip| ip.to_string()).unwrap_or_default()
    }

    fn peer(&self) -> String {
        String::new()
    }

    fn news(&mut self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_selector_of_each_protocol() {
        for (bytes, expected) in [
            (&[8, 0, 0, 0, 1, 2, 0, 1][..], Some(0x102)),
            (&[0, 0, 0, 0, 1, 3, 0, 1], Some(0x103)),
            (&[3, 0, 0, 0, 1, 2, 0, 1], None),
            (&[8, 0, 0, 0, 1, 2, 0], None),
        ] {
            assert_eq!(echo_identifier(bytes), expected, "{bytes:?}");
        }
        for (bytes, expected) in [
            (&[0x20, 0, 8, 0, 0, 0, 0, 7][..], Some(7)),
            (&[0x20, 0, 8, 0, 0, 1, 0, 7], None),
            (&[0xa0, 0, 8, 0, 9, 9, 9, 9, 0, 0, 0, 7], Some(7)),
            (&[0x30, 1, 0x88, 0x0b, 0, 99, 1, 7], Some(0x107)),
            (&[0, 0, 8, 0, 0, 0, 0, 7], None),
            (&[0x20, 0, 8, 0, 0, 0, 0], None),
            (&[0x20], None),
        ] {
            assert_eq!(gre_key(bytes), expected, "{bytes:?}");
        }
        assert_eq!((word(&[0, 1, 0, 53], 2), word(&[0, 1, 0], 2)), (Some(53), None));
    }
}
