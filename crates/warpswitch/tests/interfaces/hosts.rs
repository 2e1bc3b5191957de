//! Hosts with the kernel's network stack, each in a namespace, and the network of two of them.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use warpswitch_wire::checksum::checksum;

use crate::netns::Namespace;
use crate::run::Run;
use crate::running::PATIENCE;

/// Port of TCP and UDP services.
pub const SERVICE_PORT: u16 = 5001;
/// How long a connection waits that a configuration denies.
const DENIED_WAIT: Duration = Duration::from_millis(300);

/// A host with the interface `end`.
pub struct Host {
    pub namespace: Namespace,
    number: usize,
    /// Address and prefix length.
    address: &'static str,
    gateway: Option<&'static str>,
}

/// Two hosts and the configuration between them.
pub struct Network {
    pub hosts: [Host; 2],
    pub router: Run,
}

/// The hosts of a routed network: addresses, and gateways.
pub const ROUTED: Addresses =
    [("10.0.0.2/24", Some("10.0.0.1")), ("10.0.1.2/24", Some("10.0.1.1"))];

/// Addresses with prefix lengths, and gateways, of both hosts.
pub type Addresses = [(&'static str, Option<&'static str>); 2];

/// A ping socket for IPv4 in `namespace`.
fn ping_socket(namespace: &Namespace) -> Result<UdpSocket, String> {
    let socket = namespace.inside(|| {
        let flags = SockFlag::SOCK_CLOEXEC;
        socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Icmp)
    });
    // Raw sockets send to addresses like those of UDP.
    let socket = UdpSocket::from(socket.map_err(|error| error.to_string())?);
    socket.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    Ok(socket)
}

/// Pings `to` from a namespace.
///
/// # Errors
/// No reply arrives in time.
pub fn ping(from: &Namespace, to: &str) -> Result<(), String> {
    let to: Ipv4Addr = to.parse().expect("an address");
    let socket = ping_socket(from)?;
    let request = echo_request();
    let sent = socket.send_to(&request, SocketAddr::from((to, 0)));
    sent.map_err(|error| format!("send: {error}"))?;
    let mut packet = [0; 200];
    loop {
        let (bytes, _) = socket.recv_from(&mut packet).map_err(|error| error.to_string())?;
        let message = &packet[20..bytes];
        let is_reply = message.starts_with(&[0, 0]) && message[4..] == request[4..];
        if is_reply && packet[12..16] == to.octets() {
            return Ok(());
        }
    }
}

fn echo_request() -> Vec<u8> {
    let mut request = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    request.extend(0..56u8);
    let sum = checksum(&request);
    request[2..4].copy_from_slice(&sum.to_be_bytes());
    request
}

impl Host {
    fn new(number: usize, (address, gateway): (&'static str, Option<&'static str>)) -> Self {
        let namespace = Namespace::new().expect("the second namespace after the first");
        Self { namespace, number, address, gateway }
    }

    /// Its IP address.
    pub fn ip(&self) -> IpAddr {
        let (address, _) = self.address.split_once('/').expect("a prefix length");
        address.parse().expect("an address")
    }

    /// Configures the interface `end`.
    fn set_up(&self) {
        let (number, address) = (self.number, self.address);
        let is_ipv6 = address.contains(':');
        if is_ipv6 {
            self.namespace.set("ipv6/conf/end/disable_ipv6", 0).expect("IPv6");
        }
        let nodad = if is_ipv6 { "nodad" } else { "" };
        let mut lines = format!(
            "link set end address 02:00:00:00:0{number}:02\n\
             addr add {address} dev end {nodad}\nlink set end up\n"
        );
        if let Some(gateway) = self.gateway {
            lines += &format!("route add default via {gateway}\n");
        }
        self.namespace.ip(&lines).expect("an interface with an address");
    }

    /// Pings `to`.
    ///
    /// # Errors
    /// No reply arrives in time.
    pub fn ping(&self, to: &str) -> Result<(), String> {
        ping(&self.namespace, to)
    }

    /// Sends one ping to `to` and waits for nothing.
    pub fn send_ping(&self, to: &str) {
        let socket = ping_socket(&self.namespace).expect("a raw socket");
        let sent = socket.send_to(&echo_request(), (to, 0));
        sent.expect("a ping leaves");
    }

    /// A TCP service.
    pub fn listen(&self, port: u16) -> TcpListener {
        self.namespace.inside(|| TcpListener::bind((self.ip(), port))).expect("a free port")
    }

    /// Connects to a TCP service.
    pub fn connect(&self, to: SocketAddr) -> TcpStream {
        let stream = self.namespace.inside(|| TcpStream::connect_timeout(&to, PATIENCE));
        stream.expect("a connection")
    }

    /// Asserts that a connection gets no reply.
    pub fn assert_no_connection(&self, to: SocketAddr) {
        let connected = self.namespace.inside(|| TcpStream::connect_timeout(&to, DENIED_WAIT));
        let error = connected.expect_err("a connection that is denied");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }

    /// A UDP socket.
    pub fn udp(&self, port: u16) -> UdpSocket {
        let socket = self.namespace.inside(|| UdpSocket::bind((self.ip(), port)));
        let socket = socket.expect("a free port");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        socket
    }

    /// Frames that the interface sent, as its kernel counts.
    pub fn frames_sent(&self) -> u64 {
        self.counter(9)
    }

    /// Frames that the interface received, as its kernel counts.
    fn frames_received(&self) -> u64 {
        self.counter(1)
    }

    /// Column `column` of the interface in `/proc/net/dev`.
    fn counter(&self, column: usize) -> u64 {
        let table = self.namespace.inside(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        let table = table.expect("the kernel's counters");
        let line = table.lines().find(|line| line.trim_start().starts_with("end:"));
        let (_, counters) = line.and_then(|line| line.split_once(':')).expect("the interface");
        let counter = counters.split_ascii_whitespace().nth(column).expect("a column");
        counter.parse().expect("a number")
    }
}

impl Network {
    /// Two hosts with `addresses`, and `config` between them, started with `arguments`.
    ///
    /// # Errors
    /// The reason why namespaces are unavailable.
    pub fn new(config: &str, addresses: Addresses, arguments: &[&str]) -> Result<Self, String> {
        let router = Namespace::new()?;
        let hosts = [Host::new(0, addresses[0]), Host::new(1, addresses[1])];
        for host in &hosts {
            add_link(&router, host)?;
        }
        let mut all = vec![config, "ETH0=eth0", "ETH1=eth1"];
        all.extend(arguments);
        let network = Self { router: Run::new(router, &all), hosts };
        // The router receives from now on, so no frame is missed.
        network.hosts.iter().for_each(Host::set_up);
        Ok(network)
    }

    /// Sends `bytes` bytes from one host to the other by TCP and checks them; returns the address
    /// of the sender as the receiver sees it.
    pub fn transfer(&self, from: usize, to: usize, bytes: usize) -> IpAddr {
        let listener = self.hosts[to].listen(SERVICE_PORT);
        let address = listener.local_addr().expect("an address");
        let receiver = std::thread::spawn(move || {
            let (mut stream, peer) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("all bytes in time");
            (received, peer.ip())
        });
        let mut stream = self.hosts[from].connect(address);
        stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
        let sent: Vec<u8> = (0..bytes).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        stream.write_all(&sent).expect("all bytes are sent in time");
        drop(stream);
        let (received, peer) = receiver.join().expect("the receiver ends");
        assert!(received == sent, "{} of {bytes} bytes", received.len());
        peer
    }

    /// Sends a datagram of `bytes` bytes from one host to the other, and one back to its sender;
    /// returns the address of the sender as the receiver sees it.
    pub fn exchange(&self, from: usize, to: usize, bytes: usize) -> IpAddr {
        let (client, server) = (self.hosts[from].udp(0), self.hosts[to].udp(SERVICE_PORT));
        let sent: Vec<u8> = (0..bytes).map(|at| (at ^ (at >> 8)) as u8).collect();
        let mut received = vec![0; bytes + 1];
        client.send_to(&sent, server.local_addr().expect("an address")).expect("it is sent");
        let (got, peer) = server.recv_from(&mut received).expect("a datagram");
        assert!(received[..got] == sent, "{got} of {bytes} bytes");
        server.send_to(&sent, peer).expect("a reply is sent");
        let (got, replier) = client.recv_from(&mut received).expect("a reply");
        assert!(received[..got] == sent, "{got} of {bytes} bytes");
        assert_eq!(replier.ip(), self.hosts[to].ip());
        peer.ip()
    }

    /// Frames that the router sent to host `host`, once the kernel of the host counts as many
    /// received: the last ones of a flow may be under way.
    pub fn settled_count(&self, host: usize) -> u64 {
        let start = Instant::now();
        loop {
            let sent: u64 = self.router.read(&format!("to{host}.count"));
            let received = self.hosts[host].frames_received();
            if sent == received {
                return sent;
            }
            let is_late = start.elapsed() > PATIENCE;
            assert!(!is_late, "{sent} frames sent, {received} received by host {host}");
        }
    }

    /// Removes link `number` and adds it again; waits each time until the router has noticed.
    pub fn replace_link(&self, number: usize) {
        self.remove_link(number);
        self.router.await_handler(&format!("from{number}.link"), "removed");
        self.restore_link(number);
        self.router.await_handler(&format!("from{number}.link"), "up");
        self.router.await_handler(&format!("to{number}.link"), "up");
    }

    /// Removes link `number` of the router.
    fn remove_link(&self, number: usize) {
        self.router.namespace.ip(&format!("link del eth{number}\n")).expect("a link");
    }

    /// Adds link `number` again.
    fn restore_link(&self, number: usize) {
        add_link(&self.router.namespace, &self.hosts[number]).expect("a new link");
        self.hosts[number].set_up();
    }
}

fn add_link(router: &Namespace, host: &Host) -> Result<(), String> {
    let name = format!("eth{}", host.number);
    router.link(&name, &host.namespace, "end")?;
    router.ip(&format!("link set {name} up\n"))
}
