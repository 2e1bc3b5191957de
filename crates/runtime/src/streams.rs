//! Streams of bytes, to one peer at a time.
//!
//! ```text
//! server   nobody ─accept─► peer ─it said its last─► peer that hears ─close─► nobody
//!                             └────────it went────────────┴─────────────────►
//! client   calling ─answer─► peer ─it went─► waits a second ─► calling
//! ```
//!
//! # Invariants
//! - S1: a call tells of a peer that went before any call accepts the next.

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags, sockopt};
use warpswitch_graph::transport::{Protocol, Received, Sent, Transport, Wire};

use super::wires::{Addr, OwnPath, bind, is_later, new_socket, plain};

/// Between two calls of a client.
const CALL_INTERVAL: Duration = Duration::from_secs(1);
/// Peers that may wait for their turn.
const BACKLOG: i32 = 16;
/// News that are kept.
const NEWS_MAX: usize = 8;
/// Peers that are turned away at a look.
const TURNED_AWAY_MAX: usize = 16;

/// See the module.
pub(super) struct Streams {
    transport: Transport,
    /// Where a server waits.
    door: Option<(OwnedFd, Option<OwnPath>)>,
    state: State,
    peers: u64,
    /// Whether the peer said its last, and whether it has a part of what it was sent last.
    has_ended: bool,
    is_within: bool,
    news: VecDeque<String>,
}

/// A connection, and the path that it has.
type Line = (OwnedFd, Option<OwnPath>);

enum State {
    Nobody,
    Calling(Line),
    Peer(Line, String),
    /// It calls again then.
    Waits(Instant),
}

impl Streams {
    /// Listens, or calls.
    pub(super) fn open(transport: &Transport) -> io::Result<Self> {
        let (transport, state) = (transport.clone(), State::Nobody);
        let mut streams = Self {
            transport,
            door: None,
            state,
            peers: 0,
            has_ended: false,
            is_within: false,
            news: VecDeque::new(),
        };
        if streams.transport.is_client {
            streams.state = streams.call()?;
            return Ok(streams);
        }
        let door = new_socket(&streams.transport)?;
        if streams.transport.protocol == Protocol::Tcp {
            // Connections of a run that ended may linger.
            sockopt::set_socket_reuseaddr(&door, true)?;
        }
        let path = bind(&streams.transport, &door, &streams.transport.place)?;
        net::listen(&door, BACKLOG)?;
        streams.door = Some((door, path));
        Ok(streams)
    }

    fn call(&mut self) -> io::Result<State> {
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
        let line = (socket, path);
        match Addr::of(&self.transport.place)?.connect(&line.0) {
            Ok(()) => Ok(self.connected(line)),
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) =>
            {
                Ok(State::Calling(line))
            }
            Err(error) => Err(error),
        }
    }

    fn connected(&mut self, line: Line) -> State {
        if self.transport.protocol == Protocol::Tcp && self.transport.no_delay {
            _ = sockopt::set_tcp_nodelay(&line.0, true);
        }
        let who = net::getpeername(&line.0).ok().flatten().and_then(Addr::of_any);
        let who = who.map(|address| address.to_string()).unwrap_or_default();
        self.peers += 1;
        (self.has_ended, self.is_within) = (false, false);
        let from = if who.is_empty() { String::new() } else { format!(" with {who}") };
        self.tell(format!("opened connection {}{from}", self.peers));
        State::Peer(line, who)
    }

    /// Keeps `news`, the last ones if nobody asks for them.
    fn tell(&mut self, news: String) {
        if self.news.len() >= NEWS_MAX {
            self.news.pop_front();
        }
        self.news.push_back(news);
    }

    /// The peer went, or did not answer.
    fn lose(&mut self, why: &str) {
        let number = self.peers;
        (self.has_ended, self.is_within) = (false, false);
        self.tell(match self.state {
            State::Peer(..) => format!("closed connection {number}{why}"),
            _ => format!("no connection{why}"),
        });
        self.state = match self.transport.is_client {
            true => State::Waits(Instant::now() + CALL_INTERVAL),
            false => State::Nobody,
        };
    }

    /// Goes on with what is under way, without waiting for it.
    fn advance(&mut self, is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool) {
        match std::mem::replace(&mut self.state, State::Nobody) {
            State::Nobody => self.accept(is_allowed),
            State::Waits(until) if Instant::now() < until => self.state = State::Waits(until),
            State::Waits(_) => match self.call() {
                Ok(state) => self.state = state,
                Err(error) => self.lose(&format!(": {}", plain(&error))),
            },
            State::Calling(line) => {
                let mut fds = [PollFd::new(&line.0, PollFlags::OUT)];
                if !poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
                    self.state = State::Calling(line);
                    return;
                }
                match sockopt::socket_error(&line.0) {
                    Ok(Ok(())) => self.state = self.connected(line),
                    Ok(Err(error)) | Err(error) => {
                        self.lose(&format!(": {}", plain(&error.into())));
                    }
                }
            }
            peer @ State::Peer(..) => self.state = peer,
        }
    }

    fn accept(&mut self, is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool) {
        for _ in 0..TURNED_AWAY_MAX {
            let Some((door, _)) = &self.door else { return };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let Ok((socket, from)) = net::acceptfrom_with(door, flags) else { return };
            let from = from.and_then(Addr::of_any).and_then(|from| from.ip());
            if from.is_none_or(&mut *is_allowed) {
                self.state = self.connected((socket, None));
                return;
            }
        }
    }
}

impl Wire for Streams {
    fn receive(
        &mut self,
        bytes: &mut [u8],
        is_allowed: &mut dyn FnMut(Ipv4Addr) -> bool,
    ) -> Received {
        self.advance(is_allowed);
        let State::Peer((socket, _), _) = &self.state else { return Received::Nothing };
        if self.has_ended {
            return Received::Nothing;
        }
        match net::recv(socket, &mut *bytes, RecvFlags::empty()).map_err(io::Error::from) {
            // A client's peer is called again, and told what waits then.
            Ok((0, _)) if self.transport.is_client => self.lose(""),
            Ok((0, _)) => self.has_ended = true,
            Ok((len, _)) => return Received::Bytes(len),
            Err(error) if is_later(&error) => return Received::Nothing,
            Err(error) => self.lose(&format!(": {}", plain(&error))),
        }
        Received::PeerChanges
    }

    fn send(&mut self, bytes: &[u8], _to: Option<Ipv4Addr>) -> Sent {
        let State::Peer((socket, _), _) = &self.state else { return Sent::NoPeer };
        match net::send(socket, bytes, SendFlags::NOSIGNAL).map_err(io::Error::from) {
            Ok(len) => {
                self.is_within = len < bytes.len();
                return Sent::Bytes(len);
            }
            Err(error) if is_later(&error) => return Sent::Later,
            Err(error) => self.lose(&format!(": {}", plain(&error))),
        }
        Sent::NoPeer
    }

    fn has_peer(&self) -> bool {
        matches!(self.state, State::Peer(..))
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
        let line = match &self.state {
            State::Peer((socket, _), _) | State::Calling((socket, _)) => Some(socket),
            _ => self.door.as_ref().map(|(door, _)| door),
        };
        let own = self.door.as_ref().map(|(door, _)| door).or(line);
        let address = own.and_then(|socket| net::getsockname(socket).ok()).and_then(Addr::of_any);
        address.map(|address| address.to_string()).unwrap_or_default()
    }

    fn peer(&self) -> String {
        match &self.state {
            State::Peer(_, who) => who.clone(),
            _ => String::new(),
        }
    }

    fn news(&mut self) -> Option<String> {
        self.news.pop_front()
    }
}
