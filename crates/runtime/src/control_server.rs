//! Sockets of a run. Control connections: listening, accepting, reading and writing without ever
//! waiting.
//!
//! # Invariants
//! - K1: a client costs a bounded part of each look at it: so many bytes, so many commands. One
//!   that does not read what it is sent is not served, and nobody waits for it.
//! - K2: there are at most [`CLIENTS_MAX`] clients; more wait outside until one goes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use warpswitch_graph::control::{Address, Connection, Controlled, Endpoint};
use warpswitch_graph::transport::{Transport, Wire};

use warpswitch_io::name_folder;

use super::wires::{Wires, is_later, plain};

/// The most clients at a time.
pub const CLIENTS_MAX: usize = 64;
/// The most bytes that are taken of a client at a look.
const READ_BYTES: usize = 1 << 16;
/// The most commands of a client that are obeyed at a look.
const COMMANDS_PER_LOOK: usize = 16;
/// Ports that are tried for `N+`.
const PORTS_TRIED: u16 = 12;

/// All sockets of a run.
#[derive(Default)]
pub struct Sockets {
    listeners: Vec<Listener>,
    clients: Vec<Client>,
    /// Which configuration asked for listeners last.
    generation: u32,
    made: u64,
    wires: Wires,
}

struct Listener {
    endpoint: Endpoint,
    place: String,
    socket: Door,
    /// The generation that opened it, and the last that asked for it.
    born: u32,
    wanted: u32,
}

enum Door {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A client, and what it said.
pub struct Client {
    stream: Stream,
    connection: Connection,
    number: u64,
    owner: String,
    is_verbose: bool,
    /// Whether a command may be waiting that was not obeyed yet.
    has_more: bool,
    /// Whether it went away.
    gone: bool,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Sockets {
    /// Listens at `endpoint`, or goes on to; the place.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn listen(&mut self, endpoint: &Endpoint) -> Result<String, String> {
        let is_same = |listener: &&mut Listener| listener.endpoint.address == endpoint.address;
        if let Some(listener) = self.listeners.iter_mut().find(is_same)
            && listener.wanted != self.generation
        {
            listener.wanted = self.generation;
            listener.endpoint = endpoint.clone();
            return Ok(listener.place.clone());
        }
        let (socket, place) =
            open(&endpoint.address).map_err(|error| format!("bind: {}", plain(&error)))?;
        let (born, wanted) = (self.generation, self.generation);
        let endpoint = endpoint.clone();
        self.listeners.push(Listener { endpoint, place: place.clone(), socket, born, wanted });
        Ok(place)
    }

    /// Opens a socket for packets, or hands on that of the configuration before.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn open(&mut self, transport: &Transport) -> Result<Box<dyn Wire>, String> {
        let opened = self.wires.open(transport, self.generation);
        opened.map_err(|error| format!("socket: {}", plain(&error)))
    }

    /// Another configuration is about to ask for listeners.
    pub fn begin_generation(&mut self) {
        self.generation += 1;
    }

    /// The other configuration runs, and listeners that it did not ask for are closed; or it does
    /// not (`taken`), and those that it alone asked for are.
    pub fn end_generation(&mut self, taken: bool) {
        let now = self.generation;
        self.listeners.retain(|door| if taken { door.wanted == now } else { door.born != now });
        self.listeners.iter_mut().for_each(|door| door.wanted = now);
        self.wires.settle(now);
    }

    /// Whether anybody may come.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.clients.is_empty()
    }

    /// Whether a client has commands waiting that could be obeyed at once.
    pub fn has_work(&self) -> bool {
        self.clients.iter().any(|client| client.has_more)
    }

    /// What to wait for.
    pub fn poll_fds(&self) -> Vec<PollFd<'_>> {
        let has_room = self.clients.len() < CLIENTS_MAX;
        let doors = self.listeners.iter().filter(|_| has_room);
        let doors = doors.map(|door| PollFd::from_borrowed_fd(door.socket.fd(), PollFlags::IN));
        let clients = self.clients.iter().map(|client| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, client.connection.wants_input());
            flags.set(PollFlags::OUT, !client.connection.output().is_empty());
            PollFd::from_borrowed_fd(client.stream.fd(), flags)
        });
        doors.chain(clients).collect()
    }

    /// Lets in who waits, and gives all clients out, to be served and put back; what there is to
    /// tell of it goes to `told`.
    pub fn take_clients(&mut self, told: &mut Vec<String>) -> Vec<Client> {
        for listener in &self.listeners {
            while self.clients.len() < CLIENTS_MAX {
                let Some((stream, from)) = listener.socket.accept() else { break };
                self.made += 1;
                let Endpoint { is_read_only, is_verbose, owner, .. } = &listener.endpoint;
                if *is_verbose {
                    told.push(format!("{owner}: opened connection {}{from}", self.made));
                }
                self.clients.push(Client {
                    stream,
                    connection: Connection::new(*is_read_only),
                    number: self.made,
                    owner: owner.clone(),
                    is_verbose: *is_verbose,
                    has_more: true,
                    gone: false,
                });
            }
        }
        std::mem::take(&mut self.clients)
    }

    /// Takes clients back; those that are done go.
    pub fn put_back(&mut self, clients: Vec<Client>, told: &mut Vec<String>) {
        for client in clients {
            if !client.gone {
                self.clients.push(client);
            } else if client.is_verbose {
                told.push(format!("{}: closed connection {}", client.owner, client.number));
            }
        }
    }
}

impl Client {
    /// Reads, obeys and writes as much as can be at once, within bounds.
    pub fn serve(&mut self, target: &mut dyn Controlled) {
        let mut bytes = [0; READ_BYTES];
        if self.connection.wants_input() {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.connection.end(),
                Ok(len) => self.connection.feed(&bytes[..len]),
                Err(error) if is_later(&error) => {}
                Err(_) => self.gone = true,
            }
        }
        self.has_more = true;
        for _ in 0..COMMANDS_PER_LOOK {
            if !self.connection.obey(target) {
                self.has_more = false;
                break;
            }
        }
        while !self.gone && !self.connection.output().is_empty() {
            match self.stream.write(self.connection.output()) {
                Ok(len) if len > 0 => self.connection.sent(len),
                Err(error) if is_later(&error) => break,
                _ => self.gone = true,
            }
        }
        self.gone |= self.connection.is_over();
    }
}

fn open(address: &Address) -> io::Result<(Door, String)> {
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
            let place = socket.local_addr()?.port().to_string();
            Ok((Door::Tcp(socket), place))
        }
        Address::Unix(path) => {
            let answers = || UnixStream::connect(path).map(drop);
            let socket = take_over(path, || UnixListener::bind(path), answers)
                .map_err(|error| name_folder(path, error))?;
            socket.set_nonblocking(true)?;
            Ok((Door::Unix(socket), path.display().to_string()))
        }
    }
}

/// Binds `path` by `bind`; takes the place of a socket there which nobody `answers` any more.
pub(super) fn take_over<T>(
    path: &Path,
    bind: impl Fn() -> io::Result<T>,
    answers: impl Fn() -> io::Result<()>,
) -> io::Result<T> {
    let bound = bind();
    let Err(error) = bound else { return bound };
    let is_socket = || std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if error.kind() != io::ErrorKind::AddrInUse || !is_socket() {
        return Err(error);
    }
    match answers() {
        Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)?;
            bind()
        }
        Ok(()) => Err(io::Error::other(format!("{}: somebody answers there", plain(&error)))),
        Err(_) => Err(error),
    }
}

impl Door {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Door::Tcp(socket) => socket.as_fd(),
            Door::Unix(socket) => socket.as_fd(),
        }
    }

    /// Who waits, and where from.
    fn accept(&self) -> Option<(Stream, String)> {
        match self {
            Door::Tcp(socket) => {
                let (stream, from) = socket.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                // Replies are small, and waited for.
                _ = stream.set_nodelay(true);
                Some((Stream::Tcp(stream), format!(" from {from}")))
            }
            Door::Unix(socket) => {
                let (stream, _) = socket.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                Some((Stream::Unix(stream), String::new()))
            }
        }
    }
}

impl Drop for Listener {
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
