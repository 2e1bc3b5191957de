//! Datagrams: to one place, to whoever asked last, or to a group.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{self, sockopt};
use warpswitch_graph::transport::{Place, Received, Sent, Transport, Wire};

use super::wires::{Addr, OwnPath, bind, is_later, new_socket, receive_from};

/// A socket for datagrams of UDP, or through the file system.
pub(super) struct Datagrams {
    socket: OwnedFd,
    _path: Option<OwnPath>,
    is_client: bool,
    /// Whom it talks to: of a server, who sent the last datagram that was handed out.
    peer: Option<Addr>,
    peers: u64,
    /// The first datagram of another peer, until answers to those before it had their turn.
    held: Option<(Vec<u8>, Option<Addr>)>,
}

impl Datagrams {
    /// Binds a server, or a client that has an address of its own.
    pub(super) fn open(transport: &Transport) -> io::Result<Self> {
        let socket = new_socket(transport)?;
        let is_client = transport.is_client;
        let own = if is_client { transport.local.as_ref() } else { Some(&transport.place) };
        let path = match own {
            Some(own) => bind(transport, &socket, own)?,
            None => None,
        };
        let peer = if is_client { Some(Addr::of(&transport.place)?) } else { None };
        Ok(Self { socket, _path: path, is_client, peer, peers: 0, held: None })
    }

    /// Talks to `from` now.
    fn turn_to(&mut self, from: Option<Addr>) {
        if self.peers == 0 || self.peer != from {
            (self.peer, self.peers) = (from, self.peers + 1);
        }
    }
}

impl Wire for Datagrams {
    fn receive(
        &mut self,
        bytes: &mut [u8],
        is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool,
    ) -> Received {
        if let Some((held, from)) = self.held.take() {
            self.turn_to(from);
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
                    self.turn_to(from);
                }
                Received::Bytes(len)
            }
            Err(error) if is_later(&error) => Received::Nothing,
            // Nobody was there for a datagram that was sent before: that is told once.
            Err(_) => Received::Passed,
        }
    }

    fn send(&mut self, bytes: &[u8], to: Option<Ipv4Addr>) -> Sent {
        let to = match (&self.peer, to) {
            (Some(Addr::Ip(peer)), Some(to)) => Some(Addr::Ip(SocketAddrV4::new(to, peer.port()))),
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
        self.peer.as_ref().map(Addr::to_string).unwrap_or_default()
    }

    fn news(&mut self) -> Option<String> {
        None
    }
}

fn name_of(socket: &OwnedFd) -> String {
    let address = net::getsockname(socket).ok().and_then(Addr::of_any);
    address.map(|address| address.to_string()).unwrap_or_default()
}

fn send_datagram(socket: &OwnedFd, bytes: &[u8], to: &Addr) -> Sent {
    match to.send(socket, bytes) {
        Ok(len) => Sent::Bytes(len),
        Err(error) if is_later(&error) => Sent::Later,
        Err(_) => Sent::Refused,
    }
}

/// A group of hosts, of which this is one.
pub(super) struct Group {
    hears: OwnedFd,
    says: OwnedFd,
    group: Addr,
    /// Where its own datagrams come from, if that is known: they are not heard.
    own: Option<SocketAddrV4>,
}

impl Group {
    /// Joins the group.
    pub(super) fn open(transport: &Transport) -> io::Result<Self> {
        let group = Addr::of(&transport.place)?;
        let Some(group_ip) = group.ip() else {
            return Err(io::Error::other("a group has an address"));
        };
        let (hears, says) = (new_socket(transport)?, new_socket(transport)?);
        // Others on this machine may be members, too.
        sockopt::set_socket_reuseaddr(&hears, true)?;
        group.bind(&hears)?;
        let interface = match transport.local {
            Some(Place::Ip(source, _)) => source,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        sockopt::set_ip_add_membership(&hears, &group_ip, &interface)?;
        let mut own = None;
        if let Some(local) = &transport.local {
            Addr::of(local)?.bind(&says)?;
            sockopt::set_ip_multicast_if(&says, &interface)?;
            own = SocketAddrV4::try_from(net::getsockname(&says)?).ok();
        }
        sockopt::set_ip_multicast_loop(&says, transport.loops)?;
        Ok(Self { hears, says, group, own })
    }
}

impl Wire for Group {
    fn receive(
        &mut self,
        bytes: &mut [u8],
        _is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool,
    ) -> Received {
        match receive_from(&self.hears, bytes) {
            Ok((_, Some(Addr::Ip(from)))) if Some(from) == self.own => Received::Passed,
            Ok((len, _)) => Received::Bytes(len),
            Err(error) if is_later(&error) => Received::Nothing,
            Err(_) => Received::Passed,
        }
    }

    fn send(&mut self, bytes: &[u8], _to: Option<Ipv4Addr>) -> Sent {
        send_datagram(&self.says, bytes, &self.group)
    }

    fn has_peer(&self) -> bool {
        true
    }

    fn peers(&self) -> u64 {
        0
    }

    fn local(&self) -> String {
        name_of(&self.says)
    }

    fn peer(&self) -> String {
        self.group.to_string()
    }

    fn news(&mut self) -> Option<String> {
        None
    }
}
