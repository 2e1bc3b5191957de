//! Traffic of the live demo: pings and one TCP stream, from host 0 to host 1.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with, sockopt};
use warpswitch_wire::checksum::checksum;

use super::network::{Network, host_address};
use crate::netns::Namespace;

/// Time between two pings.
const PING_INTERVAL: Duration = Duration::from_millis(100);
/// How long a reply may take.
const PING_WAIT: Duration = Duration::from_secs(1);
const PING_BYTES: usize = 64;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// Port of the TCP stream.
const TCP_PORT: u16 = 5001;
const TCP_BLOCK_BYTES: usize = 64 << 10;
/// How long the TCP connection may take, and how long it may pause.
const TCP_WAIT: Duration = Duration::from_secs(5);
/// Largest round-trip time of the histogram.
const RTT_MAX: Duration = Duration::from_secs(60);

/// Counts of the traffic, updated while it flows.
#[derive(Default)]
struct Counters {
    stops: AtomicBool,
    pings_sent: AtomicU64,
    pings_answered: AtomicU64,
    bytes_received: AtomicU64,
}

/// Running traffic.
pub struct Traffic {
    counters: Arc<Counters>,
    start: Instant,
    pings: JoinHandle<io::Result<Histogram<u64>>>,
    sender: JoinHandle<TcpStream>,
    receiver: JoinHandle<()>,
}

/// Progress of the traffic.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub pings_sent: u64,
    pub pings_answered: u64,
    pub bytes_received: u64,
    pub elapsed: Duration,
}

/// Results of the traffic.
pub struct TrafficResult {
    pub progress: Progress,
    /// Round-trip times in nanoseconds.
    pub round_trips: Histogram<u64>,
}

impl Traffic {
    /// Starts the pings and the TCP stream.
    ///
    /// # Errors
    /// A socket cannot be opened; the TCP connection is not established.
    pub fn start(network: &Network) -> anyhow::Result<Self> {
        let (from, to) = (network.host(0), network.host(1));
        let counters = Arc::new(Counters::default());
        let socket = ping_socket(from).context("a socket for pings")?;
        let address = SocketAddr::from((host_address(1), TCP_PORT));
        let listener = to.inside(|| TcpListener::bind(address)).context("a TCP socket")?;
        let stream = from.inside(|| TcpStream::connect_timeout(&address, TCP_WAIT));
        let stream = stream.context("the TCP connection through the router")?;
        let (accepted, _) = listener.accept().context("the TCP connection")?;
        for socket in [&stream, &accepted] {
            socket.set_read_timeout(Some(TCP_WAIT))?;
            socket.set_write_timeout(Some(TCP_WAIT))?;
            // A process that is killed leaves no connection behind, which would keep its namespace
            // until the kernel has stopped retransmitting.
            sockopt::set_socket_linger(socket, Some(Duration::ZERO))?;
        }
        let [for_pings, for_sender, for_receiver] = [(); 3].map(|()| counters.clone());
        Ok(Self {
            start: Instant::now(),
            pings: thread::spawn(move || send_pings(&socket, &for_pings)),
            sender: thread::spawn(move || send_stream(stream, &for_sender)),
            receiver: thread::spawn(move || receive_stream(accepted, &for_receiver)),
            counters,
        })
    }

    /// Progress up to now.
    pub fn progress(&self) -> Progress {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Progress {
            pings_sent: load(&self.counters.pings_sent),
            pings_answered: load(&self.counters.pings_answered),
            bytes_received: load(&self.counters.bytes_received),
            elapsed: self.start.elapsed(),
        }
    }

    /// Stops the traffic.
    ///
    /// # Errors
    /// Pings could not be sent.
    pub fn stop(self) -> anyhow::Result<TrafficResult> {
        let elapsed = self.start.elapsed();
        let bytes_received = self.counters.bytes_received.load(Ordering::Relaxed);
        self.counters.stops.store(true, Ordering::Relaxed);
        let round_trips = join(self.pings).context("pings")?;
        // The sender keeps the connection until the receiver has read its end.
        let stream = join(self.sender);
        join(self.receiver);
        drop(stream);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let progress = Progress {
            pings_sent: load(&self.counters.pings_sent),
            pings_answered: load(&self.counters.pings_answered),
            bytes_received,
            elapsed,
        };
        Ok(TrafficResult { progress, round_trips })
    }
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A raw socket for ICMP. Its addresses are those of UDP sockets.
fn ping_socket(host: &Namespace) -> io::Result<UdpSocket> {
    host.inside(|| {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::ICMP))?;
        Ok(UdpSocket::from(socket))
    })
}

/// Pings host 1 until the traffic stops; returns the round-trip times.
fn send_pings(socket: &UdpSocket, counters: &Counters) -> io::Result<Histogram<u64>> {
    let mut round_trips = Histogram::new_with_max(RTT_MAX.as_nanos() as u64, 3)
        .expect("a histogram of 60 s with 3 digits");
    let mut sequence = 0u16;
    while !counters.stops.load(Ordering::Relaxed) {
        let request = echo_request(sequence);
        let start = Instant::now();
        socket.send_to(&request, (host_address(1), 0))?;
        counters.pings_sent.fetch_add(1, Ordering::Relaxed);
        if receive_reply(socket, &request, start)? {
            counters.pings_answered.fetch_add(1, Ordering::Relaxed);
            round_trips.saturating_record(start.elapsed().as_nanos() as u64);
        }
        thread::sleep(PING_INTERVAL.saturating_sub(start.elapsed()));
        sequence = sequence.wrapping_add(1);
    }
    Ok(round_trips)
}

fn echo_request(sequence: u16) -> [u8; PING_BYTES] {
    let mut request: [u8; PING_BYTES] = std::array::from_fn(|at| at as u8);
    request[..4].copy_from_slice(&[ECHO_REQUEST, 0, 0, 0]);
    request[4..6].copy_from_slice(&(std::process::id() as u16).to_be_bytes());
    request[6..8].copy_from_slice(&sequence.to_be_bytes());
    let sum = checksum(&request);
    request[2..4].copy_from_slice(&sum.to_be_bytes());
    request
}

/// Waits for the reply to `request`; returns whether it arrived in time.
fn receive_reply(socket: &UdpSocket, request: &[u8], start: Instant) -> io::Result<bool> {
    let mut packet = [0; 256];
    loop {
        let left = PING_WAIT.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(false);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv_from(&mut packet) {
            Ok((bytes, _)) if is_reply(&packet[..bytes], request) => return Ok(true),
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether an IPv4 packet is the reply to `request`.
fn is_reply(packet: &[u8], request: &[u8]) -> bool {
    let header_bytes = packet.first().map_or(0, |first| usize::from(first & 15) * 4);
    packet.get(header_bytes..).is_some_and(|message| {
        message.first() == Some(&ECHO_REPLY) && message.get(4..) == request.get(4..)
    })
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Sends until the traffic stops, or the connection is lost.
fn send_stream(mut stream: TcpStream, counters: &Counters) -> TcpStream {
    let block = vec![0x5a; TCP_BLOCK_BYTES];
    while !counters.stops.load(Ordering::Relaxed) {
        match stream.write(&block) {
            Ok(_) => {}
            Err(error) if is_timeout(&error) => {}
            Err(_) => break,
        }
    }
    // Fails if the connection is lost, which the receiver sees as well.
    _ = stream.shutdown(std::net::Shutdown::Write);
    stream
}

/// Counts received bytes until the sender ends the stream, or nothing arrives after the stop.
fn receive_stream(mut stream: TcpStream, counters: &Counters) {
    let mut block = vec![0; TCP_BLOCK_BYTES];
    loop {
        match stream.read(&mut block) {
            Ok(0) => return,
            Ok(bytes) => {
                counters.bytes_received.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            Err(error) if is_timeout(&error) && !counters.stops.load(Ordering::Relaxed) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_its_own_replies() {
        let request = echo_request(7);
        assert_eq!(checksum(&request), 0);
        let reply = |sequence| {
            let mut message = echo_request(sequence);
            message[0] = ECHO_REPLY;
            let mut packet = vec![0x45; 20];
            packet.extend(message);
            packet
        };
        assert!(is_reply(&reply(7), &request));
        assert!(!is_reply(&reply(8), &request), "another sequence number");
        let unanswered = [&[0x45; 20][..], &request].concat();
        assert!(!is_reply(&unanswered, &request), "the request itself");
        for bytes in [0, 1, 19, 20, 27] {
            assert!(!is_reply(&reply(7)[..bytes], &request), "{bytes} bytes");
        }
    }
}
