//! Sockets of a run. Control connections: non-blocking listen, accept, read and write.
//!
//! # Invariants
//! - K1: each poll of a client is bounded in bytes and commands. A client that does not read its
//!   replies is not served and blocks nothing.
//! - K2: at most [`CLIENTS_MAX`] clients are connected; others wait in the backlog.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use warpswitch_graph::control::{Address, Connection, Controlled, Endpoint};
use warpswitch_graph::transport::{Protocol, Transport, Wire};
use warpswitch_io::{capability_fix, name_folder};
use warpswitch_packet::{PortSpec, RxPort, TxPort};

use crate::packet_sockets::{PacketSockets, is_retryable, message_of};
use crate::ports::RunPorts;

/// The limit of connected clients.
pub const CLIENTS_MAX: usize = 64;
/// Bytes read from a client per poll.
const READ_BYTES: usize = 1 << 16;
/// Commands of a client executed per poll.
const COMMANDS_PER_POLL: usize = 16;
/// Ports tried for `N+`.
const PORTS_TRIED: u16 = 12;

/// All sockets of a run.
#[derive(Default)]
pub(crate) struct RunSockets {
    listeners: Vec<ControlListener>,
    sessions: Vec<ControlSession>,
    /// Counts configurations. Sockets that the next one does not request are closed.
    generation: u32,
    sessions_opened: u64,
    packet_sockets: PacketSockets,
    ports: RunPorts,
}

struct ControlListener {
    endpoint: Endpoint,
    address: String,
    socket: ListeningSocket,
    /// The generation that opened it, and the last one that requested it.
    opened_by: u32,
    requested_by: u32,
    /// Whether it stays when a configuration is replaced.
    is_permanent: bool,
}

enum ListeningSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connected client and its protocol state.
pub(crate) struct ControlSession {
    stream: Stream,
    connection: Connection,
    number: u64,
    owner: String,
    is_verbose: bool,
    /// Whether received bytes may contain another command.
    has_more: bool,
    /// Whether the client disconnected.
    is_closed: bool,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl RunSockets {
    /// Listens at `endpoint`, or reuses the listener of the previous configuration. Returns the
    /// port or path.
    ///
    /// # Errors
    /// If the address is in use or not permitted.
    pub fn listen(&mut self, endpoint: &Endpoint) -> Result<String, String> {
        let is_same =
            |listener: &&mut ControlListener| listener.endpoint.address == endpoint.address;
        if let Some(listener) = self.listeners.iter_mut().find(is_same)
            && listener.requested_by != self.generation
            && !listener.is_permanent
        {
            listener.requested_by = self.generation;
            listener.endpoint = endpoint.clone();
            return Ok(listener.address.clone());
        }
        let (socket, address) =
            open(&endpoint.address).map_err(|error| format!("bind: {}", message_of(&error)))?;
        self.listeners.push(ControlListener {
            endpoint: endpoint.clone(),
            address: address.clone(),
            socket,
            opened_by: self.generation,
            requested_by: self.generation,
            is_permanent: false,
        });
        Ok(address)
    }

    /// The same for a listener that no configuration requests, and that stays when one is replaced.
    ///
    /// # Errors
    /// As [`RunSockets::listen`].
    pub fn listen_throughout(&mut self, endpoint: &Endpoint) -> Result<String, String> {
        let address = self.listen(endpoint)?;
        if let Some(listener) = self.listeners.last_mut() {
            listener.is_permanent = true;
        }
        Ok(address)
    }

    /// Opens a socket for packets, or reuses that of the previous configuration.
    ///
    /// # Errors
    /// If the address is in use, not permitted or unreachable.
    pub fn open(&mut self, transport: &Transport) -> Result<Box<dyn Wire>, String> {
        let opened = self.packet_sockets.open(transport, self.generation);
        opened.map_err(|error| match (transport.protocol, error.kind()) {
            (Protocol::RawIp(_), io::ErrorKind::PermissionDenied) => {
                format!("socket: not permitted; {}", capability_fix("cap_net_raw"))
            }
            _ => format!("socket: {}", message_of(&error)),
        })
    }

    /// Opens a receiving port, or reuses that of the previous configuration.
    ///
    /// # Errors
    /// If there is no such interface, or a privilege is missing.
    pub fn open_rx(&mut self, spec: &PortSpec) -> Result<Box<dyn RxPort>, String> {
        self.ports.open_rx(spec, self.generation).map_err(|error| error.to_string())
    }

    /// Opens a sending port, or reuses that of the previous configuration.
    ///
    /// # Errors
    /// As [`RunSockets::open_rx`].
    pub fn open_tx(&mut self, spec: &PortSpec) -> Result<Box<dyn TxPort>, String> {
        self.ports.open_tx(spec, self.generation).map_err(|error| error.to_string())
    }

    /// Begins the generation of a new configuration.
    pub fn begin_generation(&mut self) {
        self.generation += 1;
    }

    /// Ends the switch to a new configuration. If it `succeeded`, closes the listeners that the new
    /// configuration did not request; otherwise those that only the new one requested.
    pub fn end_generation(&mut self, succeeded: bool) {
        let now = self.generation;
        self.listeners.retain(|listener| match succeeded {
            true => listener.requested_by == now || listener.is_permanent,
            false => listener.opened_by != now,
        });
        self.listeners.iter_mut().for_each(|listener| listener.requested_by = now);
        self.packet_sockets.settle(now);
        self.ports.settle(now);
    }

    /// Whether no client is or can be connected.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.sessions.is_empty()
    }

    /// Whether a client has pending commands.
    pub fn has_work(&self) -> bool {
        self.sessions.iter().any(|session| session.has_more)
    }

    /// The descriptors to poll.
    pub fn poll_fds(&self) -> Vec<PollFd<'_>> {
        let has_room = self.sessions.len() < CLIENTS_MAX;
        let listeners = self
            .listeners
            .iter()
            .filter(|_| has_room)
            .map(|listener| PollFd::from_borrowed_fd(listener.socket.fd(), PollFlags::IN));
        let sessions = self.sessions.iter().map(|session| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, session.connection.wants_input());
            flags.set(PollFlags::OUT, !session.connection.output().is_empty());
            PollFd::from_borrowed_fd(session.stream.fd(), flags)
        });
        listeners.chain(sessions).collect()
    }

    /// Accepts new clients and detaches all sessions, to be served and put back. Appends messages
    /// about new connections to `messages`.
    pub fn take_clients(&mut self, messages: &mut Vec<String>) -> Vec<ControlSession> {
        for listener in &self.listeners {
            while self.sessions.len() < CLIENTS_MAX {
                let Some((stream, from)) = listener.socket.accept() else { break };
                self.sessions_opened += 1;
                let Endpoint { is_read_only, is_verbose, owner, .. } = &listener.endpoint;
                if *is_verbose {
                    let number = self.sessions_opened;
                    messages.push(format!("{owner}: opened connection {number}{from}"));
                }
                self.sessions.push(ControlSession {
                    stream,
                    connection: Connection::new(*is_read_only),
                    number: self.sessions_opened,
                    owner: owner.clone(),
                    is_verbose: *is_verbose,
                    has_more: true,
                    is_closed: false,
                });
            }
        }
        std::mem::take(&mut self.sessions)
    }

    /// Puts sessions back and drops the closed ones.
    pub fn put_back(&mut self, sessions: Vec<ControlSession>, messages: &mut Vec<String>) {
        for session in sessions {
            if !session.is_closed {
                self.sessions.push(session);
            } else if session.is_verbose {
                let ControlSession { owner, number, .. } = &session;
                messages.push(format!("{owner}: closed connection {number}"));
            }
        }
    }
}

impl ControlSession {
    /// Reads, executes and writes as much as possible without blocking, within bounds.
    pub fn serve(&mut self, target: &mut dyn Controlled) {
        let mut bytes = [0; READ_BYTES];
        if self.connection.wants_input() {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.connection.end(),
                Ok(len) => self.connection.feed(&bytes[..len]),
                Err(error) if is_retryable(&error) => {}
                Err(_) => self.is_closed = true,
            }
        }
        self.has_more = true;
        for _ in 0..COMMANDS_PER_POLL {
            if !self.connection.obey(target) {
                self.has_more = false;
                break;
            }
        }
        while !self.is_closed && !self.connection.output().is_empty() {
            match self.stream.write(self.connection.output()) {
                Ok(len) if len > 0 => self.connection.sent(len),
                Err(error) if is_retryable(&error) => break,
                _ => self.is_closed = true,
            }
        }
        self.is_closed |= self.connection.is_over();
    }
}

fn open(address: &Address) -> io::Result<(ListeningSocket, String)> {
    match address {
        Address::Tcp { port, or_above, host } => {
            let last = if *or_above { port.saturating_add(PORTS_TRIED) } else { *port };
            let try_port = |port| TcpListener::bind(SocketAddr::new(*host, port));
            let mut found = try_port(*port);
            for port in *port..last {
                if found.is_ok() {
                    break;
                }
                found = try_port(port + 1);
            }
            let socket = found?;
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?.port().to_string();
            Ok((ListeningSocket::Tcp(socket), address))
        }
        Address::Unix(path) => {
            let probe = || UnixStream::connect(path).map(drop);
            let socket = replace_stale(path, || UnixListener::bind(path), probe)
                .map_err(|error| name_folder(path, error))?;
            socket.set_nonblocking(true)?;
            Ok((ListeningSocket::Unix(socket), path.display().to_string()))
        }
    }
}

/// Binds `path` with `bind`; replaces a stale socket, to which `probe` cannot connect.
pub(crate) fn replace_stale<T>(
    path: &Path,
    bind: impl Fn() -> io::Result<T>,
    probe: impl Fn() -> io::Result<()>,
) -> io::Result<T> {
    let bound = bind();
    let Err(error) = bound else { return bound };
    let is_socket = || std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if error.kind() != io::ErrorKind::AddrInUse {
        return Err(error);
    }
    if !is_socket() {
        let why = format!("{}: a file that is no socket has this path", message_of(&error));
        return Err(io::Error::other(why));
    }
    match probe() {
        Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)?;
            bind()
        }
        Ok(()) => Err(io::Error::other(format!(
            "{}: it is open, here or in another process",
            message_of(&error)
        ))),
        Err(_) => Err(error),
    }
}

impl ListeningSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            ListeningSocket::Tcp(socket) => socket.as_fd(),
            ListeningSocket::Unix(socket) => socket.as_fd(),
        }
    }

    /// The next pending client, and its address for messages.
    fn accept(&self) -> Option<(Stream, String)> {
        match self {
            ListeningSocket::Tcp(socket) => {
                let (stream, from) = socket.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                // Replies are small and clients wait for them.
                _ = stream.set_nodelay(true);
                Some((Stream::Tcp(stream), format!(" from {from}")))
            }
            ListeningSocket::Unix(socket) => {
                let (stream, _) = socket.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                Some((Stream::Unix(stream), String::new()))
            }
        }
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.endpoint.address {
            _ = std::fs::remove_file(path);
        }
    }
}

impl Stream {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }
}
