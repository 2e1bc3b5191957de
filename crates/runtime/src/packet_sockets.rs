//! Sockets that packets come from and go to: opened, kept over configurations, never waited for.
//!
//! # Invariants
//! - W1: no call waits. What comes later is told as later.
//! - W2: a stream has one peer; others wait in the backlog of the system.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags,
    SocketType, sockopt,
};
use warpswitch_graph::transport::{Place, Protocol, Received, Sent, Transport, Wire};

use super::datagrams::{Datagrams, Group};
use super::sockets::take_over;
use super::streams::Streams;

/// All sockets for packets of a run.
#[derive(Default)]
pub struct Wires {
    entries: Vec<Entry>,
}

struct Entry {
    transport: Transport,
    wire: Weak<Mutex<Box<dyn Wire>>>,
    /// The configuration that asked for it last.
    wanted: u32,
}

impl Wires {
    /// Opens `transport` for configuration `generation`, or hands on what an earlier one had.
    pub fn open(&mut self, transport: &Transport, generation: u32) -> io::Result<Box<dyn Wire>> {
        self.entries.retain(|entry| entry.wire.strong_count() > 0);
        let is_left =
            |entry: &&mut Entry| entry.transport == *transport && entry.wanted != generation;
        if let Some(entry) = self.entries.iter_mut().find(is_left)
            && let Some(wire) = entry.wire.upgrade()
        {
            entry.wanted = generation;
            return Ok(Box::new(Shared(wire)));
        }
        let wire: Box<dyn Wire> = match transport.protocol {
            Protocol::Tcp | Protocol::Unix => Box::new(Streams::open(transport)?),
            Protocol::Udp | Protocol::UnixDatagram => Box::new(Datagrams::open(transport)?),
            Protocol::Multicast => Box::new(Group::open(transport)?),
        };
        let wire = Arc::new(Mutex::new(wire));
        let (transport, weak) = (transport.clone(), Arc::downgrade(&wire));
        self.entries.push(Entry { transport, wire: weak, wanted: generation });
        Ok(Box::new(Shared(wire)))
    }

    /// All that is open belongs to configuration `generation`: the one before it ended, or it did
    /// not come to be.
    pub fn settle(&mut self, generation: u32) {
        self.entries.iter_mut().for_each(|entry| entry.wanted = generation);
    }
}

/// A socket that the element of the configuration before has, too, until it goes.
struct Shared(Arc<Mutex<Box<dyn Wire>>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Box<dyn Wire>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wire for Shared {
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

/// An address of a socket.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Addr {
    Ip(SocketAddrV4),
    Unix(SocketAddrUnix),
}

impl Addr {
    pub(super) fn of(place: &Place) -> io::Result<Self> {
        Ok(match place {
            Place::Ip(ip, port) => Addr::Ip(SocketAddrV4::new(*ip, *port)),
            Place::Path(path) => Addr::Unix(SocketAddrUnix::new(path)?),
        })
    }

    /// What the system says; none for a socket without a name.
    pub(super) fn of_any(any: SocketAddrAny) -> Option<Self> {
        let unix =
            || SocketAddrUnix::try_from(any.clone()).ok().filter(|unix| unix.path().is_some());
        SocketAddrV4::try_from(any.clone()).ok().map(Addr::Ip).or_else(|| unix().map(Addr::Unix))
    }

    pub(super) fn ip(&self) -> Option<Ipv4Addr> {
        match self {
            Addr::Ip(address) => Some(*address.ip()),
            Addr::Unix(_) => None,
        }
    }

    pub(super) fn bind(&self, socket: &OwnedFd) -> io::Result<()> {
        let bound = match self {
            Addr::Ip(address) => net::bind(socket, address),
            Addr::Unix(path) => net::bind(socket, path),
        };
        bound.map_err(io::Error::from)
    }

    pub(super) fn connect(&self, socket: &OwnedFd) -> io::Result<()> {
        let connected = match self {
            Addr::Ip(address) => net::connect(socket, address),
            Addr::Unix(path) => net::connect(socket, path),
        };
        connected.map_err(io::Error::from)
    }

    /// Sends a datagram there.
    pub(super) fn send(&self, socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
        let sent = match self {
            Addr::Ip(address) => net::sendto(socket, bytes, SendFlags::NOSIGNAL, address),
            Addr::Unix(path) => net::sendto(socket, bytes, SendFlags::NOSIGNAL, path),
        };
        sent.map_err(io::Error::from)
    }
}

impl std::fmt::Display for Addr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Addr::Ip(address) => address.fmt(f),
            Addr::Unix(path) => f.write_str(&path.path().unwrap_or_default().to_string_lossy()),
        }
    }
}

/// A path that a socket has, until it goes.
pub(super) struct OwnPath(PathBuf);

impl Drop for OwnPath {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// A new socket of the kind that `transport` asks for.
pub(super) fn new_socket(transport: &Transport) -> io::Result<OwnedFd> {
    let (family, kind) = match transport.protocol {
        Protocol::Tcp => (AddressFamily::INET, SocketType::STREAM),
        Protocol::Udp | Protocol::Multicast => (AddressFamily::INET, SocketType::DGRAM),
        Protocol::Unix => (AddressFamily::UNIX, SocketType::STREAM),
        Protocol::UnixDatagram => (AddressFamily::UNIX, SocketType::DGRAM),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, kind, flags, None)?;
    if let Some(bytes) = transport.send_bytes {
        sockopt::set_socket_send_buffer_size(&socket, bytes as usize)?;
    }
    if let Some(bytes) = transport.receive_bytes {
        sockopt::set_socket_recv_buffer_size(&socket, bytes as usize)?;
    }
    Ok(socket)
}

/// Gives `socket` the address `place`. A path that a socket left behind, which is gone, is taken
/// over.
pub(super) fn bind(
    transport: &Transport,
    socket: &OwnedFd,
    place: &Place,
) -> io::Result<Option<OwnPath>> {
    let address = Addr::of(place)?;
    let Place::Path(path) = place else { return address.bind(socket).map(|()| None) };
    take_over(
        path,
        || address.bind(socket),
        || {
            let probe = new_socket(transport)?;
            address.connect(&probe)
        },
    )?;
    Ok(Some(own(path)))
}

fn own(path: &Path) -> OwnPath {
    OwnPath(path.to_owned())
}

/// Whether the same may do another time.
pub(super) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// What the system says, without its number.
pub(super) fn plain(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

/// Receives from `socket`: bytes and who sent them.
pub(super) fn receive_from(
    socket: &OwnedFd,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<Addr>)> {
    let (len, _, from) = net::recvfrom(socket, &mut *bytes, RecvFlags::empty())?;
    Ok((len, from.and_then(Addr::of_any)))
}
