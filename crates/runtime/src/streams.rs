//! Stream sockets: TCP and Unix, with one peer at a time.
//!
//! ```text
//! server   idle ─accept─► connected ─peer shuts down─► half closed ─close─► idle
//!                             └─────peer disconnects───────┴──────────────►
//! client   connecting ─► connected ─peer disconnects─► one second ─► connecting
//! ```
//!
//! # Invariants
//! - S1: a call reports a lost peer before any call accepts the next.

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags, sockopt};
use warpswitch_graph::transport::{Protocol, Received, Sent, Transport, Wire};

use crate::packet_sockets::{BoundPath, SocketAddress, bind, is_retryable, message_of, new_socket};

/// Interval between two connection attempts of a client.
const CONNECT_INTERVAL: Duration = Duration::from_secs(1);
/// Connections in the backlog.
const BACKLOG: i32 = 16;
/// Limit of stored messages about peers.
const NEWS_MAX: usize = 8;
/// Connections rejected per call.
const REJECTED_MAX: usize = 16;

/// A stream socket, of a server or a client.
pub(crate) struct StreamSocket {
    transport: Transport,
    /// The listening socket of a server.
    listener: Option<BoundSocket>,
    state: StreamState,
    peers: u64,
    /// Whether the peer shut down its side, and whether the last send was partial.
    has_ended: bool,
    is_within: bool,
    news: VecDeque<String>,
}

/// A socket, and its path if it is bound to one.
type BoundSocket = (OwnedFd, Option<BoundPath>);

enum StreamState {
    Idle,
    Connecting(BoundSocket),
    /// With the address of the peer.
    Connected(BoundSocket, String),
    /// The time of the next connection attempt.
    RetryAt(Instant),
}

impl StreamSocket {
    /// Listens, or starts to connect.
    pub(super) fn open(transport: &Transport) -> io::Result<Self> {
        let (transport, state) = (transport.clone(), StreamState::Idle);
        let mut stream = Self {
            transport,
            listener: None,
            state,
            peers: 0,
            has_ended: false,
            is_within: false,
            news: VecDeque::new(),
        };
        if stream.transport.is_client {
            stream.state = stream.connect()?;
            return Ok(stream);
        }
        let listener = new_socket(&stream.transport)?;
        if stream.transport.protocol == Protocol::Tcp {
            // Connections of an ended run may be in TIME_WAIT.
            sockopt::set_socket_reuseaddr(&listener, true)?;
        }
        let path = bind(&stream.transport, &listener, &stream.transport.place)?;
        net::listen(&listener, BACKLOG)?;
        stream.listener = Some((listener, path));
        Ok(stream)
    }

    fn connect(&mut self) -> io::Result<StreamState> {
        let socket = new_socket(&self.transport)?;
        let path = match &self.transport.local {
            Some(local) => {
                if self.transport.protocol == Protocol::Tcp {
                    sockopt::set_socket_reuseaddr(&socket, true)?;
                }
                bind(&self.transport, &socket, local)?
            }
            None => None,
        };
        let socket = (socket, path);
        match SocketAddress::of(&self.transport.place)?.connect(&socket.0) {
            Ok(()) => Ok(self.connected(socket)),
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
            {
                Ok(StreamState::Connecting(socket))
            }
            Err(error) => Err(error),
        }
    }

    fn connected(&mut self, socket: BoundSocket) -> StreamState {
        if self.transport.protocol == Protocol::Tcp && self.transport.no_delay {
            _ = sockopt::set_tcp_nodelay(&socket.0, true);
        }
        let peer = net::getpeername(&socket.0).ok().flatten().and_then(SocketAddress::of_any);
        let peer = peer.map(|address| address.to_string()).unwrap_or_default();
        self.peers += 1;
        (self.has_ended, self.is_within) = (false, false);
        let from = if peer.is_empty() { String::new() } else { format!(" with {peer}") };
        self.report(format!("opened connection {}{from}", self.peers));
        StreamState::Connected(socket, peer)
    }

    /// Stores a message about a peer; drops the oldest one beyond [`NEWS_MAX`].
    fn report(&mut self, message: String) {
        if self.news.len() >= NEWS_MAX {
            self.news.pop_front();
        }
        self.news.push_back(message);
    }

    /// The peer disconnected, or the connection attempt failed.
    fn lose(&mut self, why: &str) {
        let number = self.peers;
        (self.has_ended, self.is_within) = (false, false);
        self.report(match self.state {
            StreamState::Connected(..) => format!("closed connection {number}{why}"),
            _ => format!("no connection{why}"),
        });
        self.state = match self.transport.is_client {
            true => StreamState::RetryAt(Instant::now() + CONNECT_INTERVAL),
            false => StreamState::Idle,
        };
    }

    /// Advances a pending accept or connect, without blocking.
    fn advance(&mut self, is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool) {
        match std::mem::replace(&mut self.state, StreamState::Idle) {
            StreamState::Idle => self.accept(is_allowed),
            StreamState::RetryAt(until) if Instant::now() < until => {
                self.state = StreamState::RetryAt(until)
            }
            StreamState::RetryAt(_) => match self.connect() {
                Ok(state) => self.state = state,
                Err(error) => self.lose(&format!(": {}", message_of(&error))),
            },
            StreamState::Connecting(socket) => {
                let mut fds = [PollFd::new(&socket.0, PollFlags::OUT)];
                if !poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
                    self.state = StreamState::Connecting(socket);
                    return;
                }
                match sockopt::socket_error(&socket.0) {
                    Ok(Ok(())) => self.state = self.connected(socket),
                    Ok(Err(error)) | Err(error) => {
                        self.lose(&format!(": {}", message_of(&error.into())));
                    }
                }
            }
            peer @ StreamState::Connected(..) => self.state = peer,
        }
    }

    fn accept(&mut self, is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool) {
        for _ in 0..REJECTED_MAX {
            let Some((listener, _)) = &self.listener else { return };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let Ok((socket, from)) = net::acceptfrom_with(listener, flags) else { return };
            let from = from.and_then(SocketAddress::of_any).and_then(|from| from.ip());
            if from.is_none_or(&mut *is_allowed) {
                self.state = self.connected((socket, None));
                return;
            }
        }
    }
}

impl Wire for StreamSocket {
    fn receive(
        &mut self,
        bytes: &mut [u8],
        is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool,
    ) -> Received {
        self.advance(is_allowed);
        let StreamState::Connected((socket, _), _) = &self.state else { return Received::Nothing };
        if self.has_ended {
            return Received::Nothing;
        }
        match net::recv(socket, &mut *bytes, RecvFlags::empty()).map_err(io::Error::from) {
            // A client reconnects and sends its pending bytes then.
            Ok((0, _)) if self.transport.is_client => self.lose(""),
            Ok((0, _)) => self.has_ended = true,
            Ok((len, _)) => return Received::Bytes(len),
            Err(error) if is_retryable(&error) => return Received::Nothing,
            Err(error) => self.lose(&format!(": {}", message_of(&error))),
        }
        Received::PeerChanges
    }

    fn send(&mut self, bytes: &[u8], _to: Option<Ipv4Addr>) -> Sent {
        let StreamState::Connected((socket, _), _) = &self.state else { return Sent::NoPeer };
        match net::send(socket, bytes, SendFlags::NOSIGNAL).map_err(io::Error::from) {
            Ok(len) => {
                self.is_within = len < bytes.len();
                return Sent::Bytes(len);
            }
            Err(error) if is_retryable(&error) => return Sent::Later,
            Err(error) => self.lose(&format!(": {}", message_of(&error))),
        }
        Sent::NoPeer
    }

    fn has_peer(&self) -> bool {
        matches!(self.state, StreamState::Connected(..))
    }

    fn peers(&self) -> u64 {
        self.peers
    }

    fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn is_within(&self) -> bool {
        self.is_within
    }

    fn close(&mut self, why: &str) {
        if self.has_peer() {
            self.lose(why);
        }
    }

    fn local(&self) -> String {
        let connected = match &self.state {
            StreamState::Connected((socket, _), _) | StreamState::Connecting((socket, _)) => {
                Some(socket)
            }
            _ => None,
        };
        let own = self.listener.as_ref().map(|(listener, _)| listener).or(connected);
        let address = own.and_then(|socket| net::getsockname(socket).ok());
        let address = address.and_then(SocketAddress::of_any);
        address.map(|address| address.to_string()).unwrap_or_default()
    }

    fn peer(&self) -> String {
        match &self.state {
            StreamState::Connected(_, peer) => peer.clone(),
            _ => String::new(),
        }
    }

    fn news(&mut self) -> Option<String> {
        self.news.pop_front()
    }
}
