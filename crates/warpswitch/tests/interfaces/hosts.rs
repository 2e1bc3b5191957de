//! Two hosts and the router between them, each in a namespace.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use tempfile::TempDir;
use warpswitch_wire::checksum::checksum;

use crate::namespaces::Namespace;
use crate::running::{PATIENCE, connect, stop, talk};

/// Port of TCP flows.
const TCP_PORT: u16 = 5001;

/// A running configuration in a namespace.
pub struct Run {
    namespace: Namespace,
    child: Option<Child>,
    folder: TempDir,
}

/// See the module.
pub struct Network {
    hosts: [Namespace; 2],
    pub router: Run,
}

/// Lines of `ip` in the namespace of the router that link it to `host`.
fn link_lines(number: usize, host: &Namespace) -> String {
    format!(
        "link add eth{number} type veth peer name end netns {}\nlink set eth{number} up\n",
        host.path()
    )
}

/// Lines of `ip` on host `number`.
fn host_lines(number: usize) -> String {
    format!(
        "link set end address 02:00:00:00:0{number}:02\n\
         addr add 10.0.{number}.2/24 dev end\nlink set end up\n\
         route add default via 10.0.{number}.1\n"
    )
}

/// A namespace without links.
///
/// # Errors
/// Why there is none.
pub fn new_namespace() -> Result<Namespace, String> {
    let namespace = Namespace::new()?;
    // So that the kernel sends no frames by itself.
    namespace.set("ipv6/conf/default/disable_ipv6", 1)?;
    Ok(namespace)
}

impl Run {
    /// Runs the configuration in the file `config` in a namespace of its own.
    ///
    /// # Errors
    /// Why there is no namespace.
    pub fn local(config: &str) -> Result<Self, String> {
        let namespace = new_namespace()?;
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let file = folder.path().join("conf.click");
        std::fs::write(&file, config).map_err(|error| error.to_string())?;
        Ok(Self::start(namespace, folder, &[&file.display().to_string()]))
    }

    /// Starts `warpswitch run` with these arguments, and waits until it runs.
    pub fn start(namespace: Namespace, folder: TempDir, arguments: &[&str]) -> Self {
        let child = namespace.inside(|| {
            Command::new(env!("CARGO_BIN_EXE_warpswitch"))
                .arg("run")
                .args(arguments)
                .arg("--control")
                .arg(socket_in(&folder))
                .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it starts")
        });
        let run = Self { namespace, child: Some(child), folder };
        drop(connect(&socket_in(&run.folder)));
        run
    }

    /// The answer of read handler `name`.
    pub fn read<T: FromStr<Err: Debug>>(&self, name: &str) -> T {
        let answer = talk(&socket_in(&self.folder), &format!("read {name}\n"));
        let value = answer.lines().nth(2).unwrap_or_default();
        value.parse().unwrap_or_else(|error| panic!("{name}: {answer}: {error:?}"))
    }

    /// Waits until read handler `name` answers `expected`.
    pub fn await_handler(&self, name: &str, expected: &str) {
        let start = Instant::now();
        while self.read::<String>(name) != expected {
            assert!(start.elapsed() < PATIENCE, "{name} is never {expected}");
            sleep(Duration::from_millis(50));
        }
    }

    /// Pings `to` from the namespace.
    ///
    /// # Errors
    /// If no answer comes in time.
    pub fn ping(&self, to: &str) -> Result<(), String> {
        ping(&self.namespace, to)
    }

    /// Stops it; returns its messages.
    pub fn stop(&mut self) -> String {
        let child = self.child.take().expect("it runs");
        let (said, code) = stop(&socket_in(&self.folder), child);
        assert_eq!(code, Some(0), "{said}");
        said
    }

    /// Processor time that it has used, in hundredths of a second.
    pub fn cpu_ticks(&self) -> u64 {
        let child = self.child.as_ref().expect("it runs");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
        let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
        let ticks = fields.split(' ').skip(11).take(2);
        ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// Pings `to` from a namespace.
fn ping(from: &Namespace, to: &str) -> Result<(), String> {
    let to: Ipv4Addr = to.parse().expect("an address");
    let socket = from.inside(|| {
        let flags = SockFlag::SOCK_CLOEXEC;
        socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Icmp)
    });
    // Raw sockets send to addresses as those of UDP do.
    let socket = UdpSocket::from(socket.map_err(|error| error.to_string())?);
    socket.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    let mut request = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    request.extend(0..56u8);
    let sum = checksum(&request);
    request[2..4].copy_from_slice(&sum.to_be_bytes());
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

impl Network {
    /// Hosts, links, and a router that was started with these arguments and runs.
    ///
    /// # Errors
    /// Why there are no namespaces.
    pub fn new(arguments: &[&str]) -> Result<Self, String> {
        let hosts = [new_namespace()?, new_namespace()?];
        let router = new_namespace()?;
        for (number, host) in hosts.iter().enumerate() {
            router.ip(&link_lines(number, host))?;
        }
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut all = vec!["conf/live/ip-router.click", "ETH0=eth0", "ETH1=eth1"];
        all.extend(arguments);
        let network = Self { router: Run::start(router, folder, &all), hosts };
        // It receives from now on, so no frame is missed.
        for (number, host) in network.hosts.iter().enumerate() {
            host.ip(&host_lines(number))?;
        }
        Ok(network)
    }

    /// Pings `to` from host `from`.
    ///
    /// # Errors
    /// If no answer comes in time.
    pub fn ping(&self, from: usize, to: &str) -> Result<(), String> {
        ping(&self.hosts[from], to)
    }

    /// Sends `bytes` bytes from one host to the other by TCP and checks them.
    pub fn transfer(&self, from: usize, to: usize, bytes: usize) {
        let address = SocketAddr::from((Ipv4Addr::new(10, 0, to as u8, 2), TCP_PORT));
        let listener = self.hosts[to].inside(|| TcpListener::bind(address)).expect("a port");
        let receiver = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("all bytes in time");
            received
        });
        let stream = self.hosts[from].inside(|| TcpStream::connect_timeout(&address, PATIENCE));
        let mut stream = stream.expect("a connection");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
        let sent: Vec<u8> = (0..bytes).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        stream.write_all(&sent).expect("it is sent in time");
        drop(stream);
        let received = receiver.join().expect("it receives");
        assert!(received == sent, "{} of {bytes} bytes", received.len());
    }

    /// Frames that the router sent to host `host`, once the kernel of the host counts as many
    /// received: the last ones of a flow may be under way.
    pub fn settled_count(&self, host: usize) -> u64 {
        let start = Instant::now();
        loop {
            let sent: u64 = self.router.read(&format!("to{host}.count"));
            let received = self.counter(host, 1);
            if sent == received {
                return sent;
            }
            let is_late = start.elapsed() > PATIENCE;
            assert!(!is_late, "{sent} frames sent, {received} received by host {host}");
        }
    }

    /// Frames that the interface of host `host` sent, as its kernel counts.
    pub fn frames_sent(&self, host: usize) -> u64 {
        self.counter(host, 9)
    }

    /// Column `column` of the interface in `/proc/net/dev`.
    fn counter(&self, host: usize, column: usize) -> u64 {
        let table =
            self.hosts[host].inside(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
        let table = table.expect("the kernel's counters");
        let line = table.lines().find(|line| line.trim_start().starts_with("end:"));
        let (_, counters) = line.and_then(|line| line.split_once(':')).expect("the interface");
        let counter = counters.split_ascii_whitespace().nth(column).expect("a column");
        counter.parse().expect("a number")
    }

    /// Removes link `number` and adds it again.
    pub fn replace_link(&self, number: usize) {
        self.router.namespace.ip(&format!("link del eth{number}\n")).expect("it is there");
        self.router.await_handler(&format!("from{number}.link"), "removed");
        self.router.namespace.ip(&link_lines(number, &self.hosts[number])).expect("a new link");
        self.hosts[number].ip(&host_lines(number)).expect("its address");
    }
}

fn socket_in(folder: &TempDir) -> PathBuf {
    folder.path().join("control")
}
