//! Datagram sockets: UDP and Unix, and multicast groups.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{self, sockopt};
use warpswitch_graph::transport::{Place, Received, Sent, Transport, Wire};

use crate::packet_sockets::{
    BoundPath, SocketAddress, bind, is_retryable, new_socket, receive_from,
};

/// A UDP or Unix datagram socket. A server replies to the sender of its last datagram.
pub(crate) struct DatagramSocket {
    socket: OwnedFd,
    _path: Option<BoundPath>,
    is_client: bool,
    /// The peer; for a server, the sender of the last returned datagram.
    peer: Option<SocketAddress>,
    peers: u64,
    /// The first datagram of another peer, held back until replies to the previous peer are sent.
    held: Option<(Vec<u8>, Option<SocketAddress>)>,
}

impl DatagramSocket {
    /// Binds a server, or a client with a local address.
    pub(crate) fn open(transport: &Transport) -> io::Result<Self> {
        let socket = new_socket(transport)?;
        let is_client = transport.is_client;
        let own = if is_client { transport.local.as_ref() } else { Some(&transport.place) };
        let path = match own {
            Some(own) => bind(transport, &socket, own)?,
            None => None,
        };
        let peer = if is_client { Some(SocketAddress::of(&transport.place)?) } else { None };
        Ok(Self { socket, _path: path, is_client, peer, peers: 0, held: None })
    }

    /// Sets the peer.
    fn set_peer(&mut self, from: Option<SocketAddress>) {
        if self.peers == 0 || self.peer != from {
            (self.peer, self.peers) = (from, self.peers + 1);
        }
    }
}

impl Wire for DatagramSocket {
    fn receive(
        &mut self,
        bytes: &mut [u8],
        is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool,
    ) -> Received {
        if let Some((held, from)) = self.held.take() {
            self.set_peer(from);
            let len = held.len().min(bytes.len());
            bytes[..len].copy_from_slice(&held[..len]);
            return Received::Bytes(len);
        }
        match receive_from(&self.socket, bytes) {
            Ok((_, Some(from)))
                if !self.is_client && from.ip().is_some_and(|ip| !is_allowed(ip)) =>
            {
                Received::Passed
            }
            Ok((len, from)) if !self.is_client && self.peers > 0 && self.peer != from => {
                self.held = Some((bytes[..len].to_vec(), from));
                Received::PeerChanges
            }
            Ok((len, from)) => {
                if !self.is_client {
                    self.set_peer(from);
                }
                Received::Bytes(len)
            }
            Err(error) if is_retryable(&error) => Received::Nothing,
            // The system reports once that an earlier datagram could not be delivered.
            Err(_) => Received::Passed,
        }
    }

    fn send(&mut self, bytes: &[u8], to: Option<Ipv4Addr>) -> Sent {
        let to = match (&self.peer, to) {
            (Some(SocketAddress::Ip(peer)), Some(to)) => {
                Some(SocketAddress::Ip(SocketAddrV4::new(to, peer.port())))
            }
            (peer, _) => peer.clone(),
        };
        to.map_or(Sent::NoPeer, |to| send_datagram(&self.socket, bytes, &to))
    }

    fn has_peer(&self) -> bool {
        self.peer.is_some()
    }

    fn peers(&self) -> u64 {
        self.peers
    }

    fn local(&self) -> String {
        name_of(&self.socket)
    }

    fn peer(&self) -> String {
        self.peer.as_ref().map(SocketAddress::to_string).unwrap_or_default()
    }

    fn news(&mut self) -> Option<String> {
        None
    }
}

fn name_of(socket: &OwnedFd) -> String {
    let address = net::getsockname(socket).ok().and_then(SocketAddress::of_any);
    address.map(|address| address.to_string()).unwrap_or_default()
}

fn send_datagram(socket: &OwnedFd, bytes: &[u8], to: &SocketAddress) -> Sent {
    match to.send(socket, bytes) {
        Ok(len) => Sent::Bytes(len),
        Err(error) if is_retryable(&error) => Sent::Later,
        Err(_) => Sent::Refused,
    }
}

/// A member of a multicast group.
pub(crate) struct MulticastSocket {
    receiver: OwnedFd,
    sender: OwnedFd,
    group: SocketAddress,
    /// Source address of own datagrams, which are ignored; `None` if not bound.
    own: Option<SocketAddrV4>,
}

impl MulticastSocket {
    /// Joins the group.
    pub(crate) fn open(transport: &Transport) -> io::Result<Self> {
        let group = SocketAddress::of(&transport.place)?;
        let Some(group_ip) = group.ip() else {
            return Err(io::Error::other("a multicast group requires an IPv4 address"));
        };
        let (receiver, sender) = (new_socket(transport)?, new_socket(transport)?);
        // Other processes of this machine may be members, too.
        sockopt::set_socket_reuseaddr(&receiver, true)?;
        group.bind(&receiver)?;
        let interface = match transport.local {
            Some(Place::Ip(source, _)) => source,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        sockopt::set_ip_add_membership(&receiver, &group_ip, &interface)?;
        let mut own = None;
        if let Some(local) = &transport.local {
            SocketAddress::of(local)?.bind(&sender)?;
            sockopt::set_ip_multicast_if(&sender, &interface)?;
            own = SocketAddrV4::try_from(net::getsockname(&sender)?).ok();
        }
        sockopt::set_ip_multicast_loop(&sender, transport.loops)?;
        Ok(Self { receiver, sender, group, own })
    }
}

impl Wire for MulticastSocket {
    fn receive(
        &mut self,
        bytes: &mut [u8],
        _is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool,
    ) -> Received {
        match receive_from(&self.receiver, bytes) {
            Ok((_, Some(SocketAddress::Ip(from)))) if Some(from) == self.own => Received::Passed,
            Ok((len, _)) => Received::Bytes(len),
            Err(error) if is_retryable(&error) => Received::Nothing,
            Err(_) => Received::Passed,
        }
    }

    fn send(&mut self, bytes: &[u8], _to: Option<Ipv4Addr>) -> Sent {
        send_datagram(&self.sender, bytes, &self.group)
    }

    fn has_peer(&self) -> bool {
        true
    }

    fn peers(&self) -> u64 {
        0
    }

    fn local(&self) -> String {
        name_of(&self.sender)
    }

    fn peer(&self) -> String {
        self.group.to_string()
    }

    fn news(&mut self) -> Option<String> {
        None
    }
}
