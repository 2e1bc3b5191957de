//! Non-blocking sockets for packets. They survive the replacement of a configuration.
//!
//! # Invariants
//! - W1: no call blocks. A call that would block returns a retryable result.
//! - W2: a stream has one peer; others wait in the backlog of the system.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags,
    SocketType, sockopt,
};
use warpswitch_graph::transport::{Place, Protocol, Received, Sent, Transport, Wire};

use crate::control_server::replace_stale;
use crate::datagrams::{DatagramSocket, MulticastSocket};
use crate::raw_ip::RawIpSocket;
use crate::streams::StreamSocket;

/// All packet sockets of a run.
#[derive(Default)]
pub(crate) struct PacketSockets {
    entries: Vec<SocketEntry>,
}

struct SocketEntry {
    transport: Transport,
    wire: Weak<Mutex<Box<dyn Wire>>>,
    /// The last generation of configurations that requested it.
    requested_by: u32,
}

impl PacketSockets {
    /// Opens `transport` for configuration `generation`, or reuses the socket of the previous one.
    pub fn open(&mut self, transport: &Transport, generation: u32) -> io::Result<Box<dyn Wire>> {
        self.entries.retain(|entry| entry.wire.strong_count() > 0);
        let is_reusable = |entry: &&mut SocketEntry| {
            entry.transport == *transport && entry.requested_by != generation
        };
        if let Some(entry) = self.entries.iter_mut().find(is_reusable)
            && let Some(wire) = entry.wire.upgrade()
        {
            entry.requested_by = generation;
            return Ok(Box::new(SharedSocket(wire)));
        }
        let wire: Box<dyn Wire> = match transport.protocol {
            Protocol::Tcp | Protocol::Unix => Box::new(StreamSocket::open(transport)?),
            Protocol::Udp | Protocol::UnixDatagram => Box::new(DatagramSocket::open(transport)?),
            Protocol::Multicast => Box::new(MulticastSocket::open(transport)?),
            Protocol::RawIp(protocol) => Box::new(RawIpSocket::open(transport, protocol)?),
        };
        let wire = Arc::new(Mutex::new(wire));
        let (transport, weak) = (transport.clone(), Arc::downgrade(&wire));
        self.entries.push(SocketEntry { transport, wire: weak, requested_by: generation });
        Ok(Box::new(SharedSocket(wire)))
    }

    /// Assigns all open sockets to configuration `generation` after the switch to it, or after its
    /// failure.
    pub fn settle(&mut self, generation: u32) {
        self.entries.iter_mut().for_each(|entry| entry.requested_by = generation);
    }
}

/// A socket that elements of the old and the new configuration share during the switch.
struct SharedSocket(Arc<Mutex<Box<dyn Wire>>>);

impl SharedSocket {
    fn lock(&self) -> MutexGuard<'_, Box<dyn Wire>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wire for SharedSocket {
    fn receive(
        &mut self,
        bytes: &mut [u8],
        is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool,
    ) -> Received {
        self.lock().receive(bytes, is_allowed)
    }

    fn send(&mut self, bytes: &[u8], to: Option<Ipv4Addr>) -> Sent {
        self.lock().send(bytes, to)
    }

    fn has_peer(&self) -> bool {
        self.lock().has_peer()
    }

    fn peers(&self) -> u64 {
        self.lock().peers()
    }

    fn has_ended(&self) -> bool {
        self.lock().has_ended()
    }

    fn is_within(&self) -> bool {
        self.lock().is_within()
    }

    fn close(&mut self, why: &str) {
        self.lock().close(why);
    }

    fn local(&self) -> String {
        self.lock().local()
    }

    fn peer(&self) -> String {
        self.lock().peer()
    }

    fn news(&mut self) -> Option<String> {
        self.lock().news()
    }
}

/// An IPv4 or Unix address of a socket.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum SocketAddress {
    Ip(SocketAddrV4),
    Unix(SocketAddrUnix),
}

impl SocketAddress {
    pub(crate) fn of(place: &Place) -> io::Result<Self> {
        Ok(match place {
            Place::Ip(ip, port) => SocketAddress::Ip(SocketAddrV4::new(*ip, *port)),
            Place::Path(path) => SocketAddress::Unix(SocketAddrUnix::new(path)?),
        })
    }

    /// Converts an address of the system; `None` for a socket without a name.
    pub(crate) fn of_any(any: SocketAddrAny) -> Option<Self> {
        let unix =
            || SocketAddrUnix::try_from(any.clone()).ok().filter(|unix| unix.path().is_some());
        SocketAddrV4::try_from(any.clone())
            .ok()
            .map(SocketAddress::Ip)
            .or_else(|| unix().map(SocketAddress::Unix))
    }

    pub(crate) fn ip(&self) -> Option<Ipv4Addr> {
        match self {
            SocketAddress::Ip(address) => Some(*address.ip()),
            SocketAddress::Unix(_) => None,
        }
    }

    pub(crate) fn bind(&self, socket: &OwnedFd) -> io::Result<()> {
        let bound = match self {
            SocketAddress::Ip(address) => net::bind(socket, address),
            SocketAddress::Unix(path) => net::bind(socket, path),
        };
        bound.map_err(io::Error::from)
    }

    pub(crate) fn connect(&self, socket: &OwnedFd) -> io::Result<()> {
        let connected = match self {
            SocketAddress::Ip(address) => net::connect(socket, address),
            SocketAddress::Unix(path) => net::connect(socket, path),
        };
        connected.map_err(io::Error::from)
    }

    /// Sends a datagram to this address.
    pub(crate) fn send(&self, socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
        let sent = match self {
            SocketAddress::Ip(address) => net::sendto(socket, bytes, SendFlags::NOSIGNAL, address),
            SocketAddress::Unix(path) => net::sendto(socket, bytes, SendFlags::NOSIGNAL, path),
        };
        sent.map_err(io::Error::from)
    }
}

impl std::fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SocketAddress::Ip(address) => address.fmt(f),
            SocketAddress::Unix(path) => {
                f.write_str(&path.path().unwrap_or_default().to_string_lossy())
            }
        }
    }
}

/// Removes the path of a bound Unix socket when it is dropped.
pub(crate) struct BoundPath(PathBuf);

impl Drop for BoundPath {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// Creates an unbound socket for `transport`.
pub(crate) fn new_socket(transport: &Transport) -> io::Result<OwnedFd> {
    let (family, kind) = match transport.protocol {
        Protocol::Tcp => (AddressFamily::INET, SocketType::STREAM),
        Protocol::Udp | Protocol::Multicast => (AddressFamily::INET, SocketType::DGRAM),
        Protocol::Unix => (AddressFamily::UNIX, SocketType::STREAM),
        Protocol::UnixDatagram => (AddressFamily::UNIX, SocketType::DGRAM),
        Protocol::RawIp(_) => (AddressFamily::INET, SocketType::RAW),
    };
    let protocol = match transport.protocol {
        Protocol::RawIp(number) => NonZeroU32::new(number.into()).map(net::Protocol::from_raw),
        _ => None,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, kind, flags, protocol)?;
    if let Some(bytes) = transport.send_bytes {
        sockopt::set_socket_send_buffer_size(&socket, bytes as usize)?;
    }
    if let Some(bytes) = transport.receive_bytes {
        sockopt::set_socket_recv_buffer_size(&socket, bytes as usize)?;
    }
    Ok(socket)
}

/// Binds `socket` to `place`; replaces a stale Unix socket.
pub(crate) fn bind(
    transport: &Transport,
    socket: &OwnedFd,
    place: &Place,
) -> io::Result<Option<BoundPath>> {
    let address = SocketAddress::of(place)?;
    let Place::Path(path) = place else { return address.bind(socket).map(|()| None) };
    replace_stale(
        path,
        || address.bind(socket),
        || {
            let probe = new_socket(transport)?;
            address.connect(&probe)
        },
    )?;
    Ok(Some(BoundPath(path.clone())))
}

/// Whether the same call can succeed later.
pub(crate) fn is_retryable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The message of a system error, without its number.
pub(crate) fn message_of(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

/// Receives a datagram; returns its length and sender.
pub(crate) fn receive_from(
    socket: &OwnedFd,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<SocketAddress>)> {
    let (len, _, from) = net::recvfrom(socket, &mut *bytes, RecvFlags::empty())?;
    Ok((len, from.and_then(SocketAddress::of_any)))
}
