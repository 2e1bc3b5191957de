//! Common part of the socket elements: the queue of packets to send, and the task that polls the
//! socket.
//!
//! # Invariants
//! - T1: at most `capacity` packets are queued; later ones are dropped. A peer that does not read
//!   or never sends costs only that memory and one poll of the socket each millisecond.
//! - T2: a stream sends a packet as a whole to one peer, or the packet is dropped. If the rest of a
//!   partly sent packet is lost with another element, the connection is closed.
//! - T3: packets of a server for one peer are not sent to the next. A task receives from one peer
//!   at most, so replies that are pushed at once precede the next peer. After the peer of a stream
//!   disconnects, a poll without replies to it precedes the next accept, within limits.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use warpswitch_graph::language::args::Args;
use warpswitch_graph::transport::{Protocol, Received, Sent, Transport, Wire};
use warpswitch_graph::{Context, HandlerError, HandlerSpec, Time};
use warpswitch_packet::packet::PACKET_BYTES_MAX;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::link::LinkType;

use warpswitch_elements_support::link::find_ip;

/// Reasons for drops, by number.
pub(super) const REASONS: [&str; 4] =
    ["no peer", "too many wait", "connection lost", "refused by the system"];
/// The same for raw sockets.
pub(super) const RAW_REASONS: [&str; 5] =
    ["no peer", "too many wait", "connection lost", "refused by the system", "no IP header"];
const NO_PEER: usize = 0;
const TOO_MANY: usize = 1;
const LOST: usize = 2;
const REFUSED: usize = 3;
const NO_IP: usize = 4;

/// Packets that are received, or pulled, at a look.
const BURST: usize = 32;
/// Idle looks in a row, once a peer has finished sending, until the connection is closed.
const LAST_LOOKS: u32 = 2;
/// Between two looks at a socket that has nothing to give and takes nothing.
const LOOK: Duration = Duration::from_millis(1);
/// The most looks of a server's rest after a peer went, each [`LOOK`] behind the one before, if
/// what may be answers to it goes on coming. Looks are counted, not time: between two of them all
/// others have their turns, however seldom the process is run.
const REST_LOOKS: u32 = 20;
/// Looks in a row before which nothing came that end it.
const QUIET_LOOKS: u32 = 2;
/// Packets that a server pulls and drops at most after a peer went: they may be answers to it.
const ANSWERS_MAX: usize = 1 << 16;
/// The most packets that may be let wait.
const CAPACITY_MAX: usize = 1 << 16;

/// The handlers of elements with a socket.
pub(super) const HANDLERS: &[HandlerSpec] = &[
    HandlerSpec::read("local"),
    HandlerSpec::read("peer"),
    HandlerSpec::read("length"),
    HandlerSpec::read("sent"),
    HandlerSpec::read("received"),
];

/// A server's rest after a peer went.
#[derive(Clone, Copy, Debug)]
struct Rest {
    since: Time,
    /// Packets that were pulled and dropped.
    dropped: usize,
    /// Looks that pulled none, and of these the last ones before which none was pushed either.
    looks: u32,
    quiet: u32,
}

/// See the module.
pub(super) struct Traffic {
    pub(super) transport: Option<Transport>,
    pub(super) is_verbose: bool,
    snap_bytes: usize,
    sets_times: bool,
    capacity: usize,
    wire: Option<Box<dyn Wire>>,
    waiting: VecDeque<Packet>,
    /// Of the first that waits, bytes that a stream has taken already.
    taken_bytes: usize,
    /// And by which of its peers.
    taken_by: u64,
    /// The peer, by number, that what waits is for.
    waiting_for: u64,
    /// The last peer, by number, after which a server had its rest.
    rested_after: u64,
    rest: Option<Rest>,
    /// Whether packets were pushed since the last look of a rest.
    came: bool,
    /// Idle looks in a row since the peer finished sending.
    last_looks: u32,
    /// Where datagrams go by their destination annotation.
    goes_by_annotation: bool,
    asks: bool,
    /// Whether packets start with an IP header, as those of raw sockets do.
    is_raw_ip: bool,
    bytes: Vec<u8>,
    sent: u64,
    received: u64,
}

impl Traffic {
    pub(super) fn new() -> Self {
        Self {
            transport: None,
            is_verbose: false,
            snap_bytes: 2048,
            sets_times: true,
            capacity: 1000,
            wire: None,
            waiting: VecDeque::new(),
            taken_bytes: 0,
            taken_by: 0,
            waiting_for: 0,
            rested_after: 0,
            rest: None,
            came: false,
            last_looks: 0,
            goes_by_annotation: false,
            asks: false,
            is_raw_ip: false,
            bytes: Vec::new(),
            sent: 0,
            received: 0,
        }
    }

    /// Reads the keywords that all have; the sizes of the system's buffers.
    pub(super) fn read(&mut self, args: &mut Args<'_>) -> [Option<u32>; 2] {
        let (mut send_bytes, mut receive_bytes, mut headroom) = (None, None, 0u32);
        args.read("SNAPLEN", &mut self.snap_bytes)
            .read("TIMESTAMP", &mut self.sets_times)
            .read("CAPACITY", &mut self.capacity)
            .read("VERBOSE", &mut self.is_verbose)
            .read("SNDBUF", &mut send_bytes)
            .read("RCVBUF", &mut receive_bytes)
            .read("HEADROOM", &mut headroom);
        if !(1..=PACKET_BYTES_MAX).contains(&self.snap_bytes) {
            args.error_at("SNAPLEN", &format!("must be 1 to {PACKET_BYTES_MAX}"));
        }
        if !(1..=CAPACITY_MAX).contains(&self.capacity) {
            args.error_at("CAPACITY", &format!("must be 1 to {CAPACITY_MAX}"));
        }
        [send_bytes, receive_bytes]
    }

    /// Opens the socket.
    pub(super) fn open(
        &mut self,
        cx: &mut Context<'_>,
        goes_by_annotation: bool,
    ) -> Result<(), String> {
        let Some(transport) = &self.transport else { return Err("FILENAME is empty".into()) };
        self.wire = Some(cx.console().open(transport)?);
        self.is_raw_ip = matches!(transport.protocol, Protocol::RawIp(_));
        self.goes_by_annotation = goes_by_annotation;
        self.bytes = vec![0; self.snap_bytes];
        if cx.inputs() > 0 && cx.input_is_pull(0) {
            self.asks = true;
            // It looks at the socket anyway, so nobody has to be able to wake it.
            cx.listen_upstream(0);
        }
        cx.schedule_task();
        Ok(())
    }

    /// Goes on with the socket of `old`, if that is the very same.
    pub(super) fn take(&mut self, cx: &mut Context<'_>, old: &mut Self) {
        if self.transport != old.transport {
            return;
        }
        while self.waiting.len() < self.capacity
            && let Some(packet) = old.waiting.pop_front()
        {
            self.waiting.push_back(packet);
        }
        (self.taken_bytes, self.taken_by) = (std::mem::take(&mut old.taken_bytes), old.taken_by);
        (self.waiting_for, self.rested_after) = (old.waiting_for, old.rested_after);
        (self.sent, self.received) = (old.sent, old.received);
        cx.schedule_task();
    }

    /// Takes packets that are pushed.
    pub(super) fn push(&mut self, cx: &mut Context<'_>, mut batch: Batch) {
        self.keep_to_peer(cx);
        (self.last_looks, self.came) = (0, true);
        for packet in batch.drain() {
            if self.waiting.len() >= self.capacity {
                self.send(cx);
            }
            if self.waiting.len() < self.capacity {
                self.waiting.push_back(packet);
            } else {
                cx.drop_packet(packet, TOO_MANY);
            }
        }
        cx.consume_batch(batch);
        self.send(cx);
    }

    /// Looks at the socket; packets that came leave by output 0. Of a server's peers those may send
    /// that `is_allowed`.
    pub(super) fn run(
        &mut self,
        cx: &mut Context<'_>,
        mut is_allowed: impl FnMut(&mut Context<'_>, Ipv4Addr) -> bool,
    ) -> bool {
        let mut worked = match self.rest(cx) {
            Some(worked) => worked,
            None => self.receive(cx, &mut is_allowed),
        };
        self.keep_to_peer(cx);
        let has_peer = self.wire.as_ref().is_some_and(|wire| wire.has_peer());
        if self.asks && has_peer && self.waiting.is_empty() {
            let mut batch = cx.pull(0, BURST.min(self.capacity));
            worked |= !batch.is_empty();
            self.waiting.extend(batch.drain());
            cx.consume_batch(batch);
        }
        worked |= self.send(cx);
        self.hang_up(worked);
        while let Some(news) = self.wire.as_mut().and_then(|wire| wire.news()) {
            if self.is_verbose {
                cx.say(&format!("{}: {news}", cx.declaration()));
            }
        }
        match worked {
            true => cx.schedule_task(),
            false => cx.set_timer(0, cx.now() + LOOK),
        }
        worked
    }

    fn receive(
        &mut self,
        cx: &mut Context<'_>,
        is_allowed: &mut impl FnMut(&mut Context<'_>, Ipv4Addr) -> bool,
    ) -> bool {
        let Some(wire) = &mut self.wire else { return false };
        let mut worked = false;
        for _ in 0..BURST {
            let got = wire.receive(&mut self.bytes, &mut |address| is_allowed(cx, address));
            match got {
                Received::Nothing => break,
                Received::Passed => {}
                Received::PeerChanges => return true,
                Received::Bytes(len) => {
                    self.received += 1;
                    if cx.has_output(0) {
                        let mut packet = cx.pool().packet();
                        packet.set_data(&self.bytes[..len]);
                        // A reply to a packet of the same turn came later than the turn began.
                        let now = if self.sets_times { cx.read_clock().0 } else { 0 };
                        packet.set_timestamp_ns(now);
                        if self.is_raw_ip && !find_ip(&mut packet, LinkType::RawIp) {
                            cx.drop_packet(packet, NO_IP);
                        } else {
                            cx.emit(0, packet);
                        }
                    }
                }
            }
            worked = true;
        }
        worked
    }

    /// Drops what waits for another peer than the one that is there now, and breaks off a
    /// connection which has a part of a packet that is not here.
    fn keep_to_peer(&mut self, cx: &mut Context<'_>) {
        let Some(wire) = &mut self.wire else { return };
        if self.taken_bytes == 0 && wire.is_within() {
            wire.close(": the rest of a partly sent packet is lost");
        }
        let peers = wire.peers();
        if peers != self.waiting_for && !self.is_client() {
            let mut reason = if self.taken_bytes > 0 { LOST } else { NO_PEER };
            for packet in self.waiting.drain(..) {
                cx.drop_packet(packet, reason);
                reason = NO_PEER;
            }
            self.taken_bytes = 0;
        }
        self.waiting_for = peers;
    }

    /// Lets a stream's server, whose peer went, have its rest: nobody is let in, and answers to
    /// that peer which are still on their way, or can be pulled, are dropped. None if it has no
    /// need of it, else whether there was something to do.
    fn rest(&mut self, cx: &mut Context<'_>) -> Option<bool> {
        let is_server = self.is_stream() && !self.is_client();
        let wire = self.wire.as_ref().filter(|_| is_server)?;
        let peers = wire.peers();
        if wire.has_peer() || peers == self.rested_after {
            self.rest = None;
            return None;
        }
        let now = cx.now();
        let mut rest = self.rest.unwrap_or(Rest { since: now, dropped: 0, looks: 0, quiet: 0 });
        let mut pulled = 0;
        if self.asks && cx.has_output(0) && rest.dropped < ANSWERS_MAX {
            let mut batch = cx.pull(0, BURST);
            pulled = batch.len();
            for packet in batch.drain() {
                cx.drop_packet(packet, NO_PEER);
            }
            cx.consume_batch(batch);
        }
        rest.dropped += pulled;
        let has_come = std::mem::take(&mut self.came) || pulled > 0;
        rest.looks += u32::from(pulled == 0);
        rest.quiet = if has_come { 0 } else { rest.quiet + 1 };
        let is_over = rest.quiet >= QUIET_LOOKS || rest.looks >= REST_LOOKS;
        if !is_over || now < rest.since + LOOK {
            self.rest = Some(rest);
            return Some(pulled > 0);
        }
        (self.rest, self.rested_after) = (None, peers);
        None
    }

    /// Closes the connection with a peer that has finished sending and received everything;
    /// `worked` if there was something to do for it at this look.
    fn hang_up(&mut self, worked: bool) {
        let Some(wire) = &mut self.wire else { return };
        if worked || !self.waiting.is_empty() || !wire.has_ended() {
            self.last_looks = 0;
            return;
        }
        self.last_looks += 1;
        if self.last_looks >= LAST_LOOKS {
            self.last_looks = 0;
            wire.close("");
        }
    }

    fn is_stream(&self) -> bool {
        self.transport.as_ref().is_some_and(|transport| transport.protocol.is_stream())
    }

    fn is_client(&self) -> bool {
        self.transport.as_ref().is_some_and(|transport| transport.is_client)
    }

    /// Sends what waits, as far as the socket takes it.
    fn send(&mut self, cx: &mut Context<'_>) -> bool {
        let (is_stream, is_client) = (self.is_stream(), self.is_client());
        let Some(wire) = &mut self.wire else { return false };
        let mut worked = false;
        while let Some(packet) = self.waiting.front() {
            let to = self.goes_by_annotation.then(|| packet.dst_ipv4().into());
            let (bytes, taken) = (packet.data(), self.taken_bytes);
            let sent = match (taken, bytes.len()) {
                (1.., _) if wire.peers() != self.taken_by => Sent::NoPeer,
                // A stream has no use for a packet without bytes.
                (_, 0) if is_stream => Sent::Bytes(0),
                _ => wire.send(&bytes[taken..], to),
            };
            let is_whole = |len: usize| !is_stream || taken + len >= bytes.len();
            let fate = match sent {
                Sent::Later => break,
                Sent::Bytes(len) if !is_whole(len) => {
                    (self.taken_bytes, self.taken_by) = (taken + len, wire.peers());
                    worked = true;
                    continue;
                }
                Sent::Bytes(_) => None,
                Sent::Refused => Some(REFUSED),
                Sent::NoPeer if taken > 0 => Some(LOST),
                // The client reconnects, and sends the packet then.
                Sent::NoPeer if is_client => break,
                Sent::NoPeer => Some(NO_PEER),
            };
            (self.taken_bytes, worked) = (0, true);
            let packet = self.waiting.pop_front().expect("it is the first");
            match fate {
                None => {
                    self.sent += 1;
                    cx.consume(packet);
                }
                Some(reason) => cx.drop_packet(packet, reason),
            }
        }
        worked
    }

    /// The handlers.
    pub(super) fn read_handler(&self, name: &str) -> Result<String, HandlerError> {
        let wire = self.wire.as_ref();
        Ok(match name {
            "local" => wire.map(|wire| wire.local()).unwrap_or_default(),
            "peer" => wire.map(|wire| wire.peer()).unwrap_or_default(),
            "length" => self.waiting.len().to_string(),
            "sent" => self.sent.to_string(),
            "received" => self.received.to_string(),
            _ => return Err(HandlerError::Missing),
        })
    }

    pub(super) fn held(&self) -> usize {
        self.waiting.len()
    }
}
