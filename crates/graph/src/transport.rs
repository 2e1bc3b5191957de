//! Sockets that packets come from and go to.
//!
//! ```text
//! element ─Transport─► Console::open ─► Box<dyn Wire> ◄─ receive, send ─ the element's task
//! ```
//! This crate opens no socket. An element says what it wants; what runs the configuration opens it
//! and hands back a [`Wire`], which never waits.

use std::net::Ipv4Addr;
use std::path::PathBuf;

/// What carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A stream to one peer at a time.
    Tcp,
    /// Datagrams.
    Udp,
    /// A stream through the file system.
    Unix,
    /// Datagrams through the file system.
    UnixDatagram,
    /// Datagrams to a group, and from all others of it.
    Multicast,
    /// IPv4 packets of a protocol over IP, with their header. The port of the place, if it is not
    /// 0, selects what is received; see the element.
    RawIp(u8),
}

impl Protocol {
    /// Whether there is one peer at a time, whose bytes are a stream without bounds
    /// between packets.
    pub fn is_stream(self) -> bool {
        matches!(self, Protocol::Tcp | Protocol::Unix)
    }
}

/// A place that sockets are bound or connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address and a port.
    Ip(Ipv4Addr, u16),
    /// A path in the file system.
    Path(PathBuf),
}

/// A socket that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// What carries packets.
    pub protocol: Protocol,
    /// Where a server is, or whom a client talks to.
    pub place: Place,
    /// Where a client sends from; the system's choice if none.
    pub local: Option<Place>,
    /// Whether it talks to `place`, rather than waiting there.
    pub is_client: bool,
    /// Whether a stream sends every packet at once.
    pub no_delay: bool,
    /// Bytes that the system may hold that are to be sent.
    pub send_bytes: Option<u32>,
    /// Bytes that the system may hold that came.
    pub receive_bytes: Option<u32>,
    /// Whether a group's members on this machine get what is sent to it.
    pub loops: bool,
}

/// What was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, cut if there was no room for more.
    Bytes(usize),
    /// Something else happened; there may be more.
    Passed,
    /// What comes next is of another peer, if anything comes: it is to be asked for in a later
    /// task, when what came has been handed on.
    PeerChanges,
    /// Nothing now.
    Nothing,
}

/// What became of bytes that were to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// So many of them are sent; of a datagram all.
    Bytes(usize),
    /// This datagram cannot be sent: it is too long, or there is no way.
    Refused,
    /// None now, but later.
    Later,
    /// There is nobody to send to, or not any more.
    NoPeer,
}

/// A socket. Never waits.
pub trait Wire: Send {
    /// Receives into `bytes`; of a server's peers those that `is_allowed`.
    fn receive(
        &mut self,
        bytes: &mut [u8],
        is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool,
    ) -> Received;

    /// Sends `bytes`; a datagram may be for `to` rather than for whom the socket talks to.
    fn send(&mut self, bytes: &[u8], to: Option<Ipv4Addr>) -> Sent;

    /// Whether there is somebody to send to.
    fn has_peer(&self) -> bool;

    /// How many peers it has had one after the other: what was for one is not for the next.
    fn peers(&self) -> u64;

    /// Whether the peer of a stream has said its last, and may still hear: it is to be told what
    /// there is for it, and then [`Wire::close`]d.
    fn has_ended(&self) -> bool {
        false
    }

    /// Whether a stream has taken a part of what it was last given to send.
    fn is_within(&self) -> bool {
        false
    }

    /// Ends the connection with the peer of a stream, if there is one, and tells `why`.
    fn close(&mut self, why: &str) {
        _ = why;
    }

    /// Where it is: `ADDRESS:PORT` or a path.
    fn local(&self) -> String;

    /// Whom it talks to; empty if nobody.
    fn peer(&self) -> String;

    /// What is to be told next of peers that came and went.
    fn news(&mut self) -> Option<String>;
}
