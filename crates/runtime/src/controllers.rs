//! Connections with OpenFlow controllers: where the switch listens, and where it connects to.
//!
//! ```text
//! ptcp:PORT[:HOST]  listening ─accept─► connected ─► closed
//! tcp:HOST[:PORT]   connecting ─► connected ─lost─► 100 ms ─► connecting
//! ```
//! `pssl:` and `ssl:` are the same with TLS; such a connection is reported as open when the
//! handshake is over.
//!
//! Bytes only: the crate `openflow` understands them. Names of hosts are resolved once, by
//! [`Controllers::open`]; no other call blocks.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::control_address::ControlAddress;
use crate::error::{Error, ErrorKind};
use crate::tls::{ControllerStream, TlsIdentity};

/// The port of OpenFlow.
const DEFAULT_PORT: u16 = 6653;
/// Interval between two attempts to connect.
const RETRY: Duration = Duration::from_millis(100);
/// How long an attempt to connect may last.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes read from one connection at a time.
const READ_BYTES: usize = 64 << 10;
/// The most connections at once. A later one ends the oldest of which no hello message came; if all
/// peers sent one, the later one is closed.
const CONNECTIONS_MAX: usize = 64;

/// Where a controller is, in the notation of Open vSwitch.
///
/// ```
/// use warpswitch_runtime::controllers::ControllerAddress;
///
/// let listen: ControllerAddress = "ptcp:6653".parse().unwrap();
/// assert_eq!(listen.to_string(), "ptcp:6653:127.0.0.1");
/// assert!("tcp:controller.example:6653".parse::<ControllerAddress>().is_ok());
/// assert!("udp:10.0.0.1".parse::<ControllerAddress>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerAddress {
    /// Controllers connect to this address.
    Listen(SocketAddr),
    /// The switch connects to this host and port.
    Connect(String, u16),
    /// As [`ControllerAddress::Listen`], with TLS.
    ListenTls(SocketAddr),
    /// As [`ControllerAddress::Connect`], with TLS.
    ConnectTls(String, u16),
}

impl ControllerAddress {
    /// Whether it needs a [`TlsIdentity`].
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::ListenTls(_) | Self::ConnectTls(..))
    }
}

impl FromStr for ControllerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| -> Result<u16, String> {
            text.parse()
                .map_err(|_| format!("{text} is not a TCP port; expected a number up to 65535"))
        };
        let usage = "expected ptcp:PORT[:HOST], tcp:HOST[:PORT], or pssl and ssl instead";
        let (kind, rest) = text.split_once(':').ok_or(usage)?;
        match kind {
            "ptcp" | "pssl" => {
                let (port, host) = rest.split_once(':').unwrap_or((rest, "127.0.0.1"));
                let port = if port.is_empty() { DEFAULT_PORT } else { number(port)? };
                let host: IpAddr = unbracketed(host).parse().map_err(|_| {
                    format!("{host} is not an IP address; expected one of this machine")
                })?;
                let address = SocketAddr::new(host, port);
                Ok(if kind == "pssl" { Self::ListenTls(address) } else { Self::Listen(address) })
            }
            "tcp" | "ssl" => {
                let is_v6 = rest.starts_with('[');
                let (host, port) = match rest.rsplit_once(':') {
                    Some((host, port)) if !is_v6 || host.ends_with(']') => (host, number(port)?),
                    _ => (rest, DEFAULT_PORT),
                };
                if host.is_empty() {
                    return Err(usage.to_owned());
                }
                let host = unbracketed(host).to_owned();
                Ok(match kind {
                    "ssl" => Self::ConnectTls(host, port),
                    _ => Self::Connect(host, port),
                })
            }
            _ => Err(usage.to_owned()),
        }
    }
}

/// An IPv6 address without its brackets.
fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

impl fmt::Display for ControllerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.is_tls() { "ssl" } else { "tcp" };
        match self {
            Self::Listen(address) | Self::ListenTls(address) => match address.ip() {
                IpAddr::V6(ip) => write!(f, "p{protocol}:{}:[{ip}]", address.port()),
                IpAddr::V4(ip) => write!(f, "p{protocol}:{}:{ip}", address.port()),
            },
            Self::Connect(host, port) | Self::ConnectTls(host, port) => match host.contains(':') {
                true => write!(f, "{protocol}:[{host}]:{port}"),
                false => write!(f, "{protocol}:{host}:{port}"),
            },
        }
    }
}

/// A connection, by a number that is not used again.
pub type ConnectionNumber = u64;

/// What happened to a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum ControllerEvent<'a> {
    /// It is open; the controller's address if the switch made it, and not the peer.
    Opened(ConnectionNumber, Option<ControllerAddress>),
    /// Bytes came.
    Received(ConnectionNumber, &'a [u8]),
    /// It is closed; the reason is for people.
    Closed(ConnectionNumber, String),
    /// An attempt to reach a controller failed, for this reason; further attempts follow.
    Unreachable(ControllerAddress, String),
}

/// All connections of a switch. See the module.
pub struct Controllers {
    listeners: Vec<Listener>,
    tls: Option<TlsIdentity>,
    dials: Vec<Dial>,
    connections: Vec<Connection>,
    opened: ConnectionNumber,
    buffer: Vec<u8>,
}

struct Listener {
    socket: TcpListener,
    is_tls: bool,
}

/// A controller that the switch connects to.
struct Dial {
    address: ControllerAddress,
    resolved: SocketAddr,
    state: DialState,
}

enum DialState {
    /// Waits until this time.
    RetryAt(Duration),
    /// Connects, since this time.
    Connecting(OwnedFd, Duration),
    Connected(ConnectionNumber),
}

struct Connection {
    number: ConnectionNumber,
    stream: ControllerStream,
    /// The controller, if the switch made it.
    address: Option<ControllerAddress>,
    /// When it was made.
    since: Duration,
    /// Whether it was reported as open.
    is_reported: bool,
    /// Bytes that the peer did not take yet.
    unsent: Vec<u8>,
    /// Whether nothing is read.
    is_paused: bool,
    /// Whether a new connection may end it: the peer made it, and sent no hello message yet.
    is_silent: bool,
}

impl Dial {
    /// Whether its controller is behind this connection.
    fn is_for(&self, connection: ConnectionNumber) -> bool {
        matches!(self.state, DialState::Connected(number) if number == connection)
    }

    /// The state after a failed attempt to connect.
    fn failed(
        &mut self,
        now: Duration,
        why: String,
        event: &mut impl FnMut(ControllerEvent<'_>),
    ) -> DialState {
        event(ControllerEvent::Unreachable(self.address.clone(), why));
        DialState::RetryAt(now + RETRY)
    }
}

impl Controllers {
    /// Listens at and connects to `addresses`. Connections are made by [`Controllers::poll`].
    ///
    /// # Errors
    /// [`ErrorKind::System`] if an address cannot be listened at, [`ErrorKind::Address`] if a host
    /// is unknown, or if an address needs TLS and there is no identity.
    pub fn open(addresses: &[ControllerAddress], tls: Option<TlsIdentity>) -> Result<Self, Error> {
        if let Some(address) = addresses.iter().find(|address| address.is_tls() && tls.is_none()) {
            let needs = "needs --private-key, --certificate and --ca-cert";
            return Err(Error::new(ErrorKind::Address, format!("{address} {needs}")));
        }
        let mut all = Self {
            listeners: Vec::new(),
            tls,
            dials: Vec::new(),
            connections: Vec::new(),
            opened: 0,
            buffer: vec![0; READ_BYTES],
        };
        for address in addresses {
            match address {
                ControllerAddress::Listen(socket) | ControllerAddress::ListenTls(socket) => {
                    let socket = listen(*socket).map_err(|why| {
                        let hint = match why.kind() {
                            io::ErrorKind::AddrInUse => "; another process has this port",
                            io::ErrorKind::AddrNotAvailable => {
                                "; HOST has to be an address of this machine"
                            }
                            io::ErrorKind::PermissionDenied => "; ports below 1024 require root",
                            _ => "",
                        };
                        let message = format!("cannot listen for controllers at {address}{hint}");
                        Error::caused(ErrorKind::System, message, why)
                    })?;
                    all.listeners.push(Listener { socket, is_tls: address.is_tls() });
                }
                ControllerAddress::Connect(host, port)
                | ControllerAddress::ConnectTls(host, port) => all.dials.push(Dial {
                    address: address.clone(),
                    resolved: ControlAddress::resolve(Some(host), *port)?[0],
                    state: DialState::RetryAt(Duration::ZERO),
                }),
            }
        }
        Ok(all)
    }

    /// The addresses that it listens at, with the ports that the system chose for port 0.
    pub fn listening(&self) -> Vec<ControllerAddress> {
        let address = |listener: &Listener| {
            let address = listener.socket.local_addr().ok()?;
            Some(match listener.is_tls {
                true => ControllerAddress::ListenTls(address),
                false => ControllerAddress::Listen(address),
            })
        };
        self.listeners.iter().filter_map(address).collect()
    }

    /// Accepts, connects, reads and sends what is possible now; reports each event.
    pub fn poll(&mut self, now: Duration, event: &mut impl FnMut(ControllerEvent<'_>)) {
        self.accept(now, event);
        self.dial(now, event);
        let Self { connections, buffer, dials, .. } = self;
        connections.retain_mut(|connection| {
            let is_open = connection.is_reported;
            let Some(why) = connection.poll(now, buffer, event) else { return true };
            if is_open || connection.is_reported {
                event(ControllerEvent::Closed(connection.number, why));
            } else if let Some(dial) = dials.iter_mut().find(|dial| dial.is_for(connection.number))
            {
                dial.state = dial.failed(now, why, event);
            }
            false
        });
        self.redial(now);
    }

    fn accept(&mut self, now: Duration, event: &mut impl FnMut(ControllerEvent<'_>)) {
        for at in 0..self.listeners.len() {
            while let Ok((stream, _)) = self.listeners[at].socket.accept() {
                if self.connections.len() < CONNECTIONS_MAX || self.end_silent(event) {
                    // A peer whose connection failed already sees it closed.
                    _ = self.add(stream, None, self.listeners[at].is_tls, now);
                }
            }
        }
    }

    /// Ends the oldest connection whose peer sent no hello message. Whether there was one.
    fn end_silent(&mut self, event: &mut impl FnMut(ControllerEvent<'_>)) -> bool {
        let Some(at) = self.connections.iter().position(|connection| connection.is_silent) else {
            return false;
        };
        let Connection { number, is_reported, .. } = self.connections.remove(at);
        if is_reported {
            let why = "no hello message, and another controller connects";
            event(ControllerEvent::Closed(number, why.to_owned()));
        }
        true
    }

    /// Records that the peer sent a hello message: no other connection takes its place.
    pub fn greeted(&mut self, number: ConnectionNumber) {
        if let Some(connection) = self.connections.iter_mut().find(|c| c.number == number) {
            connection.is_silent = false;
        }
    }

    fn add(
        &mut self,
        stream: TcpStream,
        address: Option<ControllerAddress>,
        is_tls: bool,
        now: Duration,
    ) -> io::Result<ConnectionNumber> {
        // Without both the connection would block the data path, or delay each small message.
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let stream = match &self.tls {
            Some(tls) if is_tls => tls.connect(stream, address.is_some())?,
            _ => ControllerStream::Plain(stream),
        };
        self.opened += 1;
        self.connections.push(Connection {
            number: self.opened,
            stream,
            is_silent: address.is_none(),
            address,
            since: now,
            is_reported: false,
            unsent: Vec::new(),
            is_paused: false,
        });
        Ok(self.opened)
    }

    fn dial(&mut self, now: Duration, event: &mut impl FnMut(ControllerEvent<'_>)) {
        for at in 0..self.dials.len() {
            let dial = &mut self.dials[at];
            match &dial.state {
                DialState::RetryAt(time) if *time <= now => {
                    dial.state = match start(dial.resolved) {
                        Ok(socket) => DialState::Connecting(socket, now),
                        Err(why) => dial.failed(now, why.to_string(), event),
                    };
                }
                DialState::Connecting(socket, since) => match result_of(socket) {
                    Some(Ok(())) => {
                        let DialState::Connecting(socket, _) =
                            std::mem::replace(&mut dial.state, DialState::RetryAt(now + RETRY))
                        else {
                            continue;
                        };
                        let (address, is_tls) = (dial.address.clone(), dial.address.is_tls());
                        let added = self.add(TcpStream::from(socket), Some(address), is_tls, now);
                        let dial = &mut self.dials[at];
                        dial.state = match added {
                            Ok(number) => DialState::Connected(number),
                            Err(why) => dial.failed(now, why.to_string(), event),
                        };
                    }
                    Some(Err(why)) => dial.state = dial.failed(now, why.to_string(), event),
                    None if now.saturating_sub(*since) > CONNECT_TIMEOUT => {
                        dial.state = dial.failed(now, "no answer".to_owned(), event);
                    }
                    None => {}
                },
                DialState::RetryAt(_) | DialState::Connected(_) => {}
            }
        }
    }

    /// Lets controllers whose connection ended be dialled again.
    fn redial(&mut self, now: Duration) {
        for dial in &mut self.dials {
            if let DialState::Connected(number) = dial.state
                && !self.connections.iter().any(|connection| connection.number == number)
            {
                dial.state = DialState::RetryAt(now + RETRY);
            }
        }
    }

    /// Sends `bytes`, as many as the peer takes now; keeps the rest. Returns how many bytes the
    /// connection keeps in all. A connection that ended takes nothing.
    pub fn send(&mut self, number: ConnectionNumber, bytes: &[u8]) -> usize {
        let Some(connection) = self.connections.iter_mut().find(|c| c.number == number) else {
            return 0;
        };
        connection.unsent.extend_from_slice(bytes);
        // An error shows again when the connection is read.
        _ = connection.flush();
        connection.unsent.len()
    }

    /// Stops reading from a connection, so that its peer has to wait, or goes on.
    pub fn pause(&mut self, number: ConnectionNumber, is_paused: bool) {
        if let Some(connection) = self.connections.iter_mut().find(|c| c.number == number) {
            connection.is_paused = is_paused;
        }
    }

    /// Bytes that the peer did not take yet.
    pub fn unsent(&self, number: ConnectionNumber) -> usize {
        let found = self.connections.iter().find(|connection| connection.number == number);
        found.map_or(0, |connection| connection.unsent.len())
    }

    /// Ends a connection.
    pub fn close(&mut self, number: ConnectionNumber, now: Duration) {
        self.connections.retain(|connection| connection.number != number);
        self.redial(now);
    }

    /// Descriptors, and what to wait for at each.
    pub fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let listeners = self.listeners.iter();
        let listeners = listeners.map(|listener| (listener.socket.as_fd(), PollFlags::IN));
        let dials = self.dials.iter().filter_map(|dial| match &dial.state {
            DialState::Connecting(socket, _) => Some((socket.as_fd(), PollFlags::OUT)),
            _ => None,
        });
        let open = self.connections.iter().map(|c| (c.stream.fd(), c.wanted()));
        let open = open.filter(|(_, wanted)| !wanted.is_empty());
        listeners.chain(dials).chain(open)
    }
}

impl Connection {
    /// What to wait for: bytes unless it is paused, room only if bytes wait for it.
    fn wanted(&self) -> PollFlags {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, !self.is_paused);
        wanted.set(PollFlags::OUT, self.wants_room());
        wanted
    }

    /// Whether it waits until the peer takes more.
    fn wants_room(&self) -> bool {
        self.stream.has_unsent() || self.stream.is_ready() && !self.unsent.is_empty()
    }

    /// Reads and sends what is possible, and reports it as open once it is; the reason if the
    /// connection ended.
    fn poll(
        &mut self,
        now: Duration,
        buffer: &mut [u8],
        event: &mut impl FnMut(ControllerEvent<'_>),
    ) -> Option<String> {
        if !self.is_reported && self.stream.is_ready() {
            self.report(event);
        }
        let read = if self.is_paused { None } else { self.read(buffer, event) };
        if let Some(why) = read.or_else(|| self.flush()) {
            return Some(why);
        }
        if self.is_reported {
            return None;
        }
        if self.stream.is_ready() {
            self.report(event);
        } else if now.saturating_sub(self.since) > CONNECT_TIMEOUT {
            return Some("no end of the TLS handshake".to_owned());
        }
        None
    }

    fn report(&mut self, event: &mut impl FnMut(ControllerEvent<'_>)) {
        self.is_reported = true;
        event(ControllerEvent::Opened(self.number, self.address.clone()));
    }

    /// Reads what came; the reason if the connection ended.
    fn read(
        &mut self,
        buffer: &mut [u8],
        event: &mut impl FnMut(ControllerEvent<'_>),
    ) -> Option<String> {
        match self.stream.read(buffer) {
            Ok(0) => Some("the controller closed it".to_owned()),
            Ok(len) => {
                if !self.is_reported {
                    self.report(event);
                }
                event(ControllerEvent::Received(self.number, &buffer[..len]));
                None
            }
            Err(error) if is_later(&error) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    /// Sends what waits; the reason if the connection ended.
    fn flush(&mut self) -> Option<String> {
        let mut sent = 0;
        let mut ended = None;
        while ended.is_none() && sent < self.unsent.len() {
            match self.stream.write(&self.unsent[sent..]) {
                Ok(len) => sent += len,
                Err(error) if is_later(&error) => break,
                Err(error) => {
                    ended = Some(error.to_string());
                    break;
                }
            }
        }
        self.unsent.drain(..sent);
        match self.stream.flush() {
            Err(error) if !is_later(&error) => ended.or_else(|| Some(error.to_string())),
            _ => ended,
        }
    }
}

/// Whether a call may succeed later.
fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Starts to connect.
fn start(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// How an attempt to connect ended, if it did.
fn result_of(socket: &OwnedFd) -> Option<io::Result<()>> {
    match sockopt::socket_error(socket) {
        Ok(Err(error)) => return Some(Err(error.into())),
        Err(error) => return Some(Err(error.into())),
        Ok(Ok(())) => {}
    }
    match rustix::net::getpeername(socket) {
        Ok(Some(_)) => Some(Ok(())),
        Ok(None) | Err(Errno::NOTCONN) => None,
        Err(error) => Some(Err(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Ipv4Addr;

    use super::*;

    fn listening() -> (Controllers, SocketAddr) {
        let address = ControllerAddress::Listen(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0));
        let controllers = Controllers::open(&[address], None).unwrap();
        let ControllerAddress::Listen(address) = controllers.listening()[0] else {
            panic!("{:?}", controllers.listening());
        };
        (controllers, address)
    }

    /// Polls both until `done` returns true, with time that goes on.
    fn run(
        parties: &mut [&mut Controllers],
        mut done: impl FnMut(usize, ControllerEvent<'_>) -> bool,
    ) {
        let start = std::time::Duration::ZERO;
        for step in 0..10_000 {
            let mut is_done = false;
            for (party, controllers) in parties.iter_mut().enumerate() {
                let now = start + Duration::from_millis(step);
                controllers.poll(now, &mut |event| is_done |= done(party, event));
            }
            if is_done {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        panic!("it did not come to that");
    }

    #[test]
    fn bytes_go_both_ways_and_a_lost_controller_is_connected_again() {
        let (mut server, address) = listening();
        let dial = ControllerAddress::Connect(address.ip().to_string(), address.port());
        let mut client = Controllers::open(&[dial], None).unwrap();
        let mut accepted = None;
        run(&mut [&mut server, &mut client], |party, event| match event {
            ControllerEvent::Opened(number, None) if party == 0 => {
                accepted = Some(number);
                true
            }
            _ => false,
        });
        // More than a socket takes at once.
        let bytes = vec![7u8; 8 << 20];
        server.send(accepted.unwrap(), &bytes);
        let mut received = 0;
        run(&mut [&mut server, &mut client], |_, event| {
            if let ControllerEvent::Received(_, bytes) = event {
                received += bytes.len();
            }
            received == 8 << 20
        });
        server.close(accepted.unwrap(), Duration::ZERO);
        let mut again = false;
        run(&mut [&mut server, &mut client], |party, event| {
            again |= party == 0 && matches!(event, ControllerEvent::Opened(..));
            again
        });
    }

    #[test]
    fn a_paused_connection_waits_for_room_alone() {
        let (mut server, address) = listening();
        let _peer = TcpStream::connect(address).expect("the server listens");
        let mut number = 0;
        run(&mut [&mut server], |_, event| match event {
            ControllerEvent::Opened(opened, None) => {
                number = opened;
                true
            }
            _ => false,
        });
        let wanted = |server: &Controllers| server.descriptors().skip(1).map(|(_, f)| f).next();
        assert_eq!(wanted(&server), Some(PollFlags::IN));
        server.pause(number, true);
        assert_eq!(wanted(&server), None);
        server.send(number, &vec![7; 8 << 20]);
        assert_eq!(wanted(&server), Some(PollFlags::OUT));
        server.pause(number, false);
        assert_eq!(wanted(&server), Some(PollFlags::IN | PollFlags::OUT));
    }

    #[test]
    fn silent_connections_make_room_for_others() {
        let (mut server, address) = listening();
        let (mut opened, mut closed) = (Vec::new(), Vec::new());
        let mut peers = Vec::new();
        for at in 0..CONNECTIONS_MAX + 3 {
            peers.push(TcpStream::connect(address).expect("the server listens"));
            // Ends with the last connection; the next ones find the first one greeted.
            run(&mut [&mut server], |_, event| match event {
                ControllerEvent::Opened(number, None) => {
                    opened.push(number);
                    true
                }
                ControllerEvent::Closed(number, _) => {
                    closed.push(number);
                    false
                }
                _ => false,
            });
            if at == 0 {
                server.greeted(opened[0]);
            }
        }
        assert_eq!(closed, opened[1..4], "the oldest ones but the one that greeted");
        opened.iter().for_each(|number| server.greeted(*number));
        let mut last = TcpStream::connect(address).expect("the server listens");
        last.set_nonblocking(true).expect("a socket");
        let is_refused = (0..10_000).any(|_| {
            server.poll(Duration::ZERO, &mut |event| panic!("{event:?}"));
            std::thread::sleep(Duration::from_micros(100));
            matches!(last.read(&mut [0]), Ok(0))
        });
        assert!(is_refused);
    }

    #[test]
    fn addresses_are_those_of_open_vswitch() {
        let text = |text: &str| text.parse::<ControllerAddress>().map(|a| a.to_string());
        assert_eq!(text("ptcp:"), Ok("ptcp:6653:127.0.0.1".to_owned()));
        assert_eq!(text("ptcp:6633:0.0.0.0"), Ok("ptcp:6633:0.0.0.0".to_owned()));
        assert_eq!(text("ptcp:1:[::1]"), Ok("ptcp:1:[::1]".to_owned()));
        assert_eq!(text("tcp:10.0.0.1"), Ok("tcp:10.0.0.1:6653".to_owned()));
        assert_eq!(text("tcp:[::1]:6633"), Ok("tcp:[::1]:6633".to_owned()));
        assert_eq!(text("tcp:[::1]"), Ok("tcp:[::1]:6653".to_owned()));
        assert_eq!(text("ssl:h:1"), Ok("ssl:h:1".to_owned()));
        assert_eq!(text("pssl:"), Ok("pssl:6653:127.0.0.1".to_owned()));
        assert!(Controllers::open(&["pssl:0".parse().unwrap()], None).is_err());
        for wrong in ["", "tcp:", "ptcp:70000", "tcp:h:70000", "unix:x", "ptcp:1:name"] {
            assert!(text(wrong).is_err(), "{wrong}");
        }
    }
}
