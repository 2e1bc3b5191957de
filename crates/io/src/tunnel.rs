//! Sockets below tunnels: the kernel adds and removes the outer IP and UDP headers.
//!
//! UDP needs no privileges, GRE needs `CAP_NET_RAW`. Nothing here reads tunnel headers.
//!
//! # Source
//! The UDP source port of a flow is constant and differs among flows, for routers that distribute
//! packets over equal paths (RFC 7348, section 5; RFC 8926, section 3.3). A UDP socket has one
//! source port, so a sender has several sockets.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::libc::{c_int, in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt as nix_sockopt,
};
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType};

use crate::sys::option;

/// Sockets of a sender over UDP: its source ports.
const SOURCE_PORTS: usize = 16;
/// The receive buffer of a socket that only sends: the kernel raises it to its minimum.
const UNUSED_BYTES: usize = 0;
/// The receive buffer of a receiver, if the kernel allows it: 2 ms of 10 Gbit/s.
const RECEIVE_BYTES: usize = 4 << 20;
/// The number of GRE among IP protocols.
const GRE: u32 = 47;
/// The usual TTL and hop limit: others are set for each packet.
const TTL: u8 = 64;

/// What the outer headers of a tunnel are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OuterProtocol {
    /// UDP.
    Udp {
        /// The port of the receiver.
        port: u16,
    },
    /// GRE directly over IP.
    Gre,
}

impl OuterProtocol {
    fn port(self) -> u16 {
        match self {
            Self::Udp { port } => port,
            Self::Gre => 0,
        }
    }

    fn socket(self, is_ipv6: bool) -> io::Result<OwnedFd> {
        let family = if is_ipv6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let (kind, protocol) = match self {
            Self::Udp { .. } => (SocketType::DGRAM, None),
            Self::Gre => (SocketType::RAW, GRE.try_into().ok().map(Protocol::from_raw)),
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, kind, flags, protocol)?;
        // Raw sockets always belong to one version of IP.
        if is_ipv6 && self != Self::Gre {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        Ok(socket)
    }
}

/// A datagram that a [`TunnelReceiver`] received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelDatagram {
    /// Where the tunnel header and what follows it are in the buffer.
    pub payload: Range<usize>,
    /// The sender.
    pub src: IpAddr,
    /// The local address that it was sent to.
    pub dst: IpAddr,
    /// Its type of service or traffic class.
    pub tos: u8,
}

/// Receives the packets of tunnels.
#[derive(Debug)]
pub struct TunnelReceiver {
    socket: Arc<OwnedFd>,
    local: SocketAddr,
    has_ip_header: bool,
    /// Space for the local address and the type of service of a datagram.
    control: Vec<u8>,
}

impl TunnelReceiver {
    /// Receives what is sent to `local`, which may be the unspecified address.
    ///
    /// # Errors
    /// The port is in use, the address is not one of this machine, or privileges are missing.
    pub fn open(protocol: OuterProtocol, local: IpAddr) -> io::Result<Self> {
        let socket = protocol.socket(local.is_ipv6())?;
        match local {
            IpAddr::V4(_) => {
                setsockopt(&socket, nix_sockopt::Ipv4PacketInfo, &true)?;
                setsockopt(&socket, nix_sockopt::IpRecvTos, &true)?;
            }
            IpAddr::V6(_) => {
                setsockopt(&socket, nix_sockopt::Ipv6RecvPacketInfo, &true)?;
                setsockopt(&socket, nix_sockopt::Ipv6RecvTClass, &true)?;
            }
        }
        if local.is_ipv6() && protocol != OuterProtocol::Gre {
            // RFC 7348 and RFC 6935: tunnels over IPv6 may go without.
            option::accept_no_checksum(&socket)?;
        }
        if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES).is_err() {
            // Without privileges the kernel sets its own limit.
            _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES);
        }
        let address = SocketAddr::new(local, protocol.port());
        rustix::net::bind(&socket, &address)?;
        Ok(Self {
            socket: Arc::new(socket),
            local: address,
            has_ip_header: protocol == OuterProtocol::Gre && local.is_ipv4(),
            control: nix::cmsg_space!(in6_pktinfo, c_int),
        })
    }

    /// The address and port that it is bound to.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Receives a datagram, if one waits. One that `bytes` has no room for is dropped.
    pub fn receive(&mut self, bytes: &mut [u8]) -> Option<TunnelDatagram> {
        loop {
            match self.receive_once(bytes) {
                Ok(Some(datagram)) => return Some(datagram),
                Ok(None) => {}
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => return None,
            }
        }
    }

    fn receive_once(&mut self, bytes: &mut [u8]) -> nix::Result<Option<TunnelDatagram>> {
        let mut slices = [IoSliceMut::new(bytes)];
        // Every bit pattern is valid there; the capacity counts.
        self.control.resize(self.control.capacity(), 0);
        let message = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut slices,
            Some(&mut self.control[..]),
            MsgFlags::empty(),
        )?;
        let (mut dst, mut tos) = (self.local.ip(), 0);
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    dst = Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into();
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    dst = Ipv6Addr::from(info.ipi6_addr.s6_addr).into();
                }
                ControlMessageOwned::Ipv4Tos(value) => tos = value,
                ControlMessageOwned::Ipv6TClass(value) => tos = value as u8,
                _ => {}
            }
        }
        let (len, is_cut) = (message.bytes, message.flags.contains(MsgFlags::MSG_TRUNC));
        let src = message.address.and_then(ip_of);
        let start = match self.has_ip_header {
            true => bytes.first().map_or(0, |first| usize::from(first & 0xf) * 4),
            false => 0,
        };
        let datagram = src.map(|src| TunnelDatagram { payload: start..len, src, dst, tos });
        Ok(datagram.filter(|_| !is_cut && start <= len))
    }

    /// The descriptor that becomes readable when datagrams arrive.
    pub fn wake_fd(&self) -> Arc<OwnedFd> {
        self.socket.clone()
    }
}

fn ip_of(address: SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

/// What all packets of a [`TunnelSender`] have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterOptions {
    /// Whether nobody may fragment the packet.
    pub has_df: bool,
    /// Whether UDP headers over IPv4 have a checksum.
    pub has_checksum: bool,
}

/// The outer IP header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterFields {
    /// The local address; the kernel chooses if none.
    pub src: Option<IpAddr>,
    /// The receiver.
    pub dst: IpAddr,
    /// Type of service or traffic class.
    pub tos: u8,
    /// TTL or hop limit, at least 1.
    pub ttl: u8,
    /// Packets with the same hash have the same source port.
    pub flow_hash: u16,
}

/// Sends the packets of tunnels.
#[derive(Debug)]
pub struct TunnelSender {
    port: u16,
    /// By hash of the flow.
    sockets: Vec<OwnedFd>,
}

impl TunnelSender {
    /// A sender over IPv4 or IPv6.
    ///
    /// # Errors
    /// Privileges are missing, or descriptors.
    pub fn open(protocol: OuterProtocol, is_ipv6: bool, options: OuterOptions) -> io::Result<Self> {
        let count = if protocol == OuterProtocol::Gre { 1 } else { SOURCE_PORTS };
        let sockets = (0..count).map(|_| sender_socket(protocol, is_ipv6, options));
        Ok(Self { port: protocol.port(), sockets: sockets.collect::<io::Result<_>>()? })
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the socket is full; no route, or a datagram that is too
    /// long.
    pub fn send(&self, outer: &OuterFields, bytes: &[u8]) -> io::Result<()> {
        let OuterFields { src, dst, tos, ttl, flow_hash } = *outer;
        let socket = &self.sockets[usize::from(flow_hash) % self.sockets.len()];
        let address = SockaddrStorage::from(SocketAddr::new(dst, self.port));
        let (class, ttl_word) = (c_int::from(tos), c_int::from(ttl));
        let (v4, v6) = (src.and_then(ipv4_source), src.and_then(ipv6_source));
        let mut control = Vec::new();
        control.extend(v4.as_ref().map(ControlMessage::Ipv4PacketInfo));
        control.extend(v6.as_ref().map(ControlMessage::Ipv6PacketInfo));
        if tos != 0 {
            control.push(match dst {
                IpAddr::V4(_) => ControlMessage::Ipv4Tos(&tos),
                IpAddr::V6(_) => ControlMessage::Ipv6TClass(&class),
            });
        }
        if ttl != TTL {
            control.push(match dst {
                IpAddr::V4(_) => ControlMessage::Ipv4Ttl(&ttl_word),
                IpAddr::V6(_) => ControlMessage::Ipv6HopLimit(&ttl_word),
            });
        }
        let (slices, flags) = ([IoSlice::new(bytes)], MsgFlags::MSG_NOSIGNAL);
        sendmsg(socket.as_raw_fd(), &slices, &control, flags, Some(&address))?;
        Ok(())
    }
}

fn ipv4_source(ip: IpAddr) -> Option<in_pktinfo> {
    let IpAddr::V4(ip) = ip else { return None };
    Some(in_pktinfo {
        ipi_ifindex: 0,
        ipi_spec_dst: in_addr { s_addr: u32::from(ip).to_be() },
        ipi_addr: in_addr { s_addr: 0 },
    })
}

fn ipv6_source(ip: IpAddr) -> Option<in6_pktinfo> {
    let IpAddr::V6(ip) = ip else { return None };
    Some(in6_pktinfo { ipi6_ifindex: 0, ipi6_addr: in6_addr { s6_addr: ip.octets() } })
}

fn sender_socket(
    protocol: OuterProtocol,
    is_ipv6: bool,
    options: OuterOptions,
) -> io::Result<OwnedFd> {
    let socket = protocol.socket(is_ipv6)?;
    sockopt::set_socket_recv_buffer_size(&socket, UNUSED_BYTES)?;
    if is_ipv6 {
        let discovery = match options.has_df {
            true => Ipv6PathMtuDiscovery::DO,
            false => Ipv6PathMtuDiscovery::DONT,
        };
        sockopt::set_ipv6_mtu_discover(&socket, discovery)?;
        sockopt::set_ipv6_unicast_hops(&socket, Some(TTL))?;
    } else {
        let discovery = match options.has_df {
            true => Ipv4PathMtuDiscovery::DO,
            false => Ipv4PathMtuDiscovery::DONT,
        };
        sockopt::set_ip_mtu_discover(&socket, discovery)?;
        sockopt::set_ip_ttl(&socket, TTL.into())?;
    }
    if let OuterProtocol::Udp { .. } = protocol {
        if !options.has_checksum && !is_ipv6 {
            option::set_no_checksum(&socket)?;
        }
        // The kernel chooses a port that stays the same.
        let any: IpAddr =
            if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        rustix::net::bind(&socket, &SocketAddr::new(any, 0))?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn wait(receiver: &TunnelReceiver) {
        let fd = receiver.wake_fd();
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).expect("it is readable");
    }

    #[test]
    fn datagrams_pass_with_both_addresses() {
        for (local, peer) in [("127.0.0.1", "127.0.0.9"), ("0.0.0.0", "127.0.0.9"), ("::1", "::1")]
        {
            let (local, peer): (IpAddr, IpAddr) = (local.parse().unwrap(), peer.parse().unwrap());
            let mut probe = None;
            // A free port, which another process may take meanwhile.
            let mut receiver = loop {
                let any = std::net::UdpSocket::bind((local, 0));
                let Ok(any) = any else { break None };
                let port = any.local_addr().expect("bound").port();
                drop(any);
                if let Ok(receiver) = TunnelReceiver::open(OuterProtocol::Udp { port }, local) {
                    probe = Some(port);
                    break Some(receiver);
                }
            };
            let (Some(receiver), Some(port)) = (receiver.as_mut(), probe) else {
                continue; // A machine without IPv6.
            };
            let options = OuterOptions { has_df: true, has_checksum: false };
            let protocol = OuterProtocol::Udp { port };
            let sender = TunnelSender::open(protocol, local.is_ipv6(), options).unwrap();
            let to = if local.is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { local };
            let outer = OuterFields { src: Some(peer), dst: to, tos: 0x2e, ttl: 3, flow_hash: 5 };
            sender.send(&outer, b"tunnel").unwrap();
            wait(receiver);
            let mut bytes = [0; 100];
            let datagram = receiver.receive(&mut bytes).expect("it arrived");
            assert_eq!((datagram.src, datagram.dst, datagram.tos), (peer, to, 0x2e));
            assert_eq!(&bytes[datagram.payload], b"tunnel");
            let outer = OuterFields { src: None, tos: 0, ttl: TTL, ..outer };
            sender.send(&outer, b"too long for the buffer").unwrap();
            sender.send(&OuterFields { flow_hash: 6, ..outer }, b"next").unwrap();
            wait(receiver);
            let mut bytes = [0; 10];
            let datagram = receiver.receive(&mut bytes).expect("the one behind the long one");
            assert_eq!((&bytes[datagram.payload], datagram.tos), (&b"next"[..], 0));
        }
    }

    #[test]
    fn a_longer_datagram_than_ip_allows_is_an_error() {
        let options = OuterOptions { has_df: true, has_checksum: true };
        let sender = TunnelSender::open(OuterProtocol::Udp { port: 9 }, false, options).unwrap();
        let dst = Ipv4Addr::LOCALHOST.into();
        let outer = OuterFields { src: None, dst, tos: 0, ttl: TTL, flow_hash: 0 };
        let error = sender.send(&outer, &[0; 66_000]).unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
