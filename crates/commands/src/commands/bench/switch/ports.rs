//! Ports of the benchmark: frames that arrive from memory, at a rate, and leave to memory.
//!
//! ```text
//! FrameTable ─► Feed: a ring that fills by time ─► switch ─► Drain: a ring, latencies, counts
//! ```
//! They take the place of network cards with a queue for each worker: a received frame is copied
//! out of the ring into a packet, a sent one into the ring of the port, as with `AF_XDP` in copy
//! mode. Nobody else touches the rings, so no core is spent on senders and sinks.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;
use rustix::event::{EventfdFlags, eventfd};
use warpswitch_packet::packet::LINE_BYTES;
use warpswitch_packet::{
    Batch, Frames, Header, Lender, Packet, PacketType, Pool, RxCounts, RxPort, Transmitted,
    TxCounts, TxPort,
};
use warpswitch_runtime::ticks;

use crate::commands::bench::graph::sink::Seen;

/// Frames that the ring of a feed holds.
const RING_FRAMES: u64 = 4096;
/// Frames of the ring that sent frames are copied into.
const DRAIN_FRAMES: usize = 512;
/// Ports that a worker sends to.
pub const PORTS: usize = 4;
/// Larger latencies count as this one.
const LATENCY_NS_MAX: u64 = 10_000_000_000;
/// Significant digits of latencies: with more, the counters would fill the first cache.
const DIGITS: u8 = 2;

/// Frames of one size, each at the start of a cache line, as a network card leaves them.
#[derive(Debug)]
pub struct FrameTable {
    bytes: Vec<u8>,
    stride: usize,
    frame_bytes: usize,
}

impl FrameTable {
    /// A table without frames, for frames of `frame_bytes`.
    pub fn new(frame_bytes: usize) -> Self {
        Self { bytes: Vec::new(), stride: frame_bytes.next_multiple_of(LINE_BYTES), frame_bytes }
    }

    /// Appends a frame.
    ///
    /// # Panics
    /// If it has another size.
    pub fn push(&mut self, frame: &[u8]) {
        assert_eq!(frame.len(), self.frame_bytes, "frames of a table have one size");
        self.bytes.extend_from_slice(frame);
        self.bytes.resize(self.bytes.len().next_multiple_of(self.stride), 0);
    }

    /// Number of frames.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.stride
    }

    fn get(&self, idx: usize) -> &[u8] {
        &self.bytes[idx * self.stride..][..self.frame_bytes]
    }

    /// All frames in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|idx| self.get(idx))
    }

    /// The same frames, shared with packets.
    fn to_lender(&self) -> Lender {
        let mut frames = Frames::default();
        for frame in self.iter() {
            // A table is far smaller than what frames may take.
            assert!(frames.push(frame, 1, PacketType::Host), "too many frames");
        }
        Lender::new(frames)
    }
}

/// Counters of a feed that other threads read.
#[derive(Debug, Default)]
pub struct FeedCounts {
    pub received: AtomicU64,
    /// Frames that arrived while the ring was full.
    pub missed: AtomicU64,
}

/// How frames of a feed arrive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    /// Frames a second; as many as are received, if none: flow control holds the sender back.
    pub pps: Option<f64>,
    /// How many in all.
    pub frames_max: Option<u64>,
    /// Whether packets borrow the frames, which a receive from a network cannot.
    pub is_lent: bool,
}

/// A port that receives the frames of a table again and again.
pub struct Feed {
    frames: Arc<FrameTable>,
    lender: Option<Lender>,
    arrival: Arrival,
    start_ns: Option<u64>,
    /// Frames received or missed.
    taken: u64,
    counts: Arc<FeedCounts>,
    /// Always readable: the port is polled.
    wake: Arc<OwnedFd>,
}

impl Feed {
    /// A feed of `frames`.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn new(frames: Arc<FrameTable>, arrival: Arrival) -> io::Result<Self> {
        let lender = arrival.is_lent.then(|| frames.to_lender());
        let wake = Arc::new(eventfd(1, EventfdFlags::CLOEXEC)?);
        let counts = Arc::default();
        Ok(Self { frames, lender, arrival, start_ns: None, taken: 0, counts, wake })
    }

    /// Its counters.
    pub fn shared_counts(&self) -> Arc<FeedCounts> {
        self.counts.clone()
    }

    /// Frames that lie in the ring at `now_ns`; drops those that it has no room for.
    fn waiting(&mut self, now_ns: u64) -> u64 {
        let limit = self.arrival.frames_max.unwrap_or(u64::MAX);
        let Some(pps) = self.arrival.pps else { return limit - self.taken };
        let start_ns = *self.start_ns.get_or_insert(now_ns);
        let arrived = ((now_ns - start_ns) as f64 * pps / 1e9) as u64;
        let waiting = arrived.min(limit) - self.taken;
        let missed = waiting.saturating_sub(RING_FRAMES);
        self.taken += missed;
        self.counts.missed.fetch_add(missed, Ordering::Relaxed);
        waiting - missed
    }
}

impl RxPort for Feed {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        let now_ns = ticks().max(1);
        let frames = self.frames.len();
        // Once around the frames at most.
        let count = self.waiting(now_ns).min(frames_max.min(frames) as u64) as usize;
        let first = (self.taken % frames as u64) as usize;
        let mut received = match &mut self.lender {
            // A range: the rest follows next time.
            Some(lender) => pool.borrow(lender, first..(first + count).min(frames)),
            None => {
                let (table, taken) = (&*self.frames, self.taken);
                let start_ns = self.start_ns.unwrap_or_default();
                let ns_per_frame = self.arrival.pps.map(|pps| 1e9 / pps);
                pool.packets(count, |number, packet| {
                    let idx = first + number;
                    packet.set_data(table.get(if idx < frames { idx } else { idx - frames }));
                    packet.set_header(Header::Mac, 0);
                    let arrived = (taken + number as u64 + 1) as f64;
                    let time_ns = ns_per_frame.map(|ns| start_ns + (arrived * ns) as u64);
                    packet.set_timestamp_ns(time_ns.unwrap_or(now_ns) as i64);
                })
            }
        };
        let count = received.len();
        batch.append(&mut received);
        pool.recycle_empty(received);
        self.taken += count as u64;
        self.counts.received.fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    fn device(&self) -> String {
        "feed".to_owned()
    }

    fn counts(&mut self) -> RxCounts {
        let frames = self.counts.received.load(Ordering::Relaxed);
        RxCounts { frames, ..RxCounts::default() }
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        Some(self.wake.clone())
    }
}

/// What the ports of one worker sent.
#[derive(Debug)]
pub struct Sent {
    /// Frames by port.
    pub frames: [u64; PORTS],
    /// Nanoseconds from arrival to transmission, while they are recorded.
    pub latency: Histogram<u64>,
    pub is_recording: bool,
    /// The frames of each port, while they are checked.
    pub seen: Option<[Seen; PORTS]>,
}

impl Sent {
    /// Nothing yet; records digests if `is_checked`.
    pub fn new(is_checked: bool) -> Self {
        Self {
            frames: [0; PORTS],
            latency: Histogram::new_with_max(LATENCY_NS_MAX, DIGITS).expect("fixed bounds"),
            is_recording: false,
            seen: is_checked.then(<[Seen; PORTS]>::default),
        }
    }

    fn record(&mut self, packets: &[Packet]) {
        let now_ns = ticks() as i64;
        // Frames of a burst often have one time of arrival.
        for same in packets.chunk_by(|a, b| a.timestamp_ns() == b.timestamp_ns()) {
            let ns = now_ns.saturating_sub(same[0].timestamp_ns());
            self.latency.saturating_record_n(ns.max(0) as u64, same.len() as u64);
        }
    }
}

/// Locks what is shared with the thread that measures, which holds it for a moment only.
pub fn lock(sent: &Mutex<Sent>) -> MutexGuard<'_, Sent> {
    sent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port that copies frames into a ring, and no further.
pub struct Drain {
    ring: Vec<u8>,
    stride: usize,
    next: usize,
    port: usize,
    sent: Arc<Mutex<Sent>>,
    frames: u64,
}

impl Drain {
    /// Port `port` of a worker, for frames of up to `frame_bytes`.
    pub fn new(port: usize, frame_bytes: usize, sent: Arc<Mutex<Sent>>) -> Self {
        let stride = frame_bytes.next_multiple_of(LINE_BYTES);
        Self { ring: vec![0; stride * DRAIN_FRAMES], stride, next: 0, port, sent, frames: 0 }
    }
}

impl TxPort for Drain {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        for packet in packets {
            let data = packet.data();
            self.ring[self.next * self.stride..][..data.len()].copy_from_slice(data);
            self.next = (self.next + 1) % DRAIN_FRAMES;
        }
        let mut sent = lock(&self.sent);
        sent.frames[self.port] += packets.len() as u64;
        if sent.is_recording {
            sent.record(packets);
        }
        if let Some(seen) = &mut sent.seen {
            packets.iter().for_each(|packet| seen[self.port].add(packet.data()));
        }
        self.frames += packets.len() as u64;
        Transmitted::Frames(packets.len())
    }

    fn counts(&mut self) -> TxCounts {
        TxCounts { frames: self.frames, ..TxCounts::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Arc<FrameTable> {
        let mut table = FrameTable::new(60);
        (0..100).for_each(|number| table.push(&[number; 60]));
        Arc::new(table)
    }

    #[test]
    fn frames_come_in_order_again_and_again() {
        for is_lent in [false, true] {
            let arrival = Arrival { frames_max: Some(250), is_lent, ..Arrival::default() };
            let mut feed = Feed::new(table(), arrival).unwrap();
            let (mut pool, mut first_bytes) = (Pool::new(), Vec::new());
            loop {
                let mut batch = pool.batch();
                if feed.receive(&mut pool, &mut batch, 64) == 0 {
                    break;
                }
                first_bytes.extend(batch.iter().map(|packet| packet.data()[0]));
                pool.recycle_batch(batch);
            }
            let expected: Vec<u8> = (0..250).map(|number| (number % 100) as u8).collect();
            assert_eq!(first_bytes, expected);
        }
    }

    #[test]
    fn a_full_ring_misses_frames_that_arrive_by_time() {
        let arrival = Arrival { pps: Some(1e9), ..Arrival::default() };
        let mut feed = Feed::new(table(), arrival).unwrap();
        assert_eq!(feed.waiting(1_000), 0, "time starts with the first look");
        assert_eq!(feed.waiting(1_500), 500);
        assert_eq!(feed.waiting(1_000 + RING_FRAMES + 10), RING_FRAMES);
        assert_eq!(feed.counts.missed.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn a_drain_counts_and_records_from_arrival() {
        let sent = Arc::new(Mutex::new(Sent::new(true)));
        let mut drain = Drain::new(1, 60, sent.clone());
        let mut pool = Pool::new();
        let packets: Vec<Packet> = (0..600).map(|_| pool.packet_of(&[7; 60])).collect();
        drain.send(&packets);
        lock(&sent).is_recording = true;
        drain.send(&packets[..3]);
        let sent = lock(&sent);
        assert_eq!((sent.frames, sent.latency.len()), ([0, 603, 0, 0], 3));
        assert_eq!(sent.seen.map(|seen| seen[1].packets), Some(603));
    }
}
