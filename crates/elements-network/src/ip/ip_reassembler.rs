//! Reassembles fragmented IPv4 packets.
//!
//! # Synopsis
//! `IPReassembler(HIMEM, MAX_MTU_ANNO)`
//!
//! # Ports
//! One input, one or two outputs; push or pull, output 1 is push. Unfragmented packets are
//! forwarded. Fragments are held until their packet is complete, which is then emitted on output 0.
//! Of a packet that times out or is evicted, the first contiguous part is emitted on output 1, as a
//! fragment, if output 1 is connected.
//!
//! # Configuration
//! - `HIMEM`: memory limit for held fragments in bytes (suffix K, M or G); default: 256K. Above it,
//!   old packets are evicted until a quarter is free
//! - `MAX_MTU_ANNO`: two-byte annotation for the length of the longest fragment
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `dump` | read | counters, and the held fragments |
//!
//! # Drops
//! - `bad fragment`: invalid length, or in conflict with other fragments of the packet
//! - `timeout`: still incomplete 30 seconds after the first fragment arrived
//! - `no memory`: evicted
//! - `no header`: no IPv4 header
//!
//! # Threads
//! Runs on one worker. Timeouts use packet timestamps; packets without timestamp get the current
//! time.
//!
//! # Example
//! ```text
//! rt[0] -> IPReassembler -> ICMPPingResponder -> ...;
//! ```
//!
//! # Source
//! RFC 791, 3.2; RFC 815 for tracking the received parts. Where fragments overlap, the later one
//! overwrites.

use std::fmt::Write;
use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError, Size};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ipv4::{HEADER_BYTES, Ipv4};

use super::support::{get_u16, get_u32, ipv4, is_fragment, transport};
use warpswitch_elements_support::Anno;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("IPReassembler", "1/1-2", "a/ah", || Box::new(IpReassembler::new()))
        .consumes_as("joined with other fragments")
        .drops(&["bad fragment", "timeout", "no memory", "no header"]);

/// Reasons for drops, by number.
const BAD_FRAGMENT: usize = 0;
const TIMEOUT: usize = 1;
const NO_MEMORY: usize = 2;
const NO_HEADER: usize = 3;

/// Places that packets are sorted into.
const BUCKETS: usize = 256;
/// Bytes that holding a packet takes beside its own.
const OVERHEAD_BYTES: usize = 40;
/// How long fragments are held.
const HOLD_S: i64 = 30;
/// How often those that are too old are looked for.
const LOOK_S: i64 = 10;

const MORE_FRAGMENTS: u16 = 0x2000;
const DONT_FRAGMENT: u16 = 0x4000;

/// What all fragments of a packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    src: u32,
    dst: u32,
    id: u16,
    proto: u8,
}

impl Key {
    fn bucket(self) -> usize {
        let mixed = self.src ^ self.dst.rotate_left(16) ^ u32::from(self.id) << 8;
        (mixed.wrapping_mul(0x9e37_79b1) >> 24) as usize % BUCKETS
    }
}

/// One fragment: where its data belong.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start: usize,
    end: usize,
    is_last: bool,
    bytes: usize,
}

/// A packet that is not whole.
#[derive(Debug)]
struct Partial {
    key: Key,
    /// Its header, and room for the data up to the end of what came.
    packet: Packet,
    /// Bytes in front of the data: of the link and the header.
    front_bytes: usize,
    /// Runs of data received so far, in order and with gaps between them.
    runs: Vec<(usize, usize)>,
    /// Where the data end, once the last fragment came.
    end: Option<usize>,
    since_s: i64,
    longest_bytes: usize,
}

impl Partial {
    fn memory(&self) -> usize {
        OVERHEAD_BYTES + self.packet.len() - self.front_bytes
    }

    fn is_whole(&self) -> bool {
        self.end.is_some_and(|end| self.runs[..] == [(0, end)])
    }

    /// Notes that data from `start` to `end` are there.
    fn note_run(&mut self, mut start: usize, mut end: usize) {
        let first = self.runs.iter().take_while(|run| run.1 < start).count();
        let touching = self.runs[first..].iter().take_while(|run| run.0 <= end).count();
        for run in &self.runs[first..first + touching] {
            (start, end) = (start.min(run.0), end.max(run.1));
        }
        self.runs.splice(first..first + touching, [(start, end)]);
    }

    /// Whether a fragment contradicts those that came before.
    fn contradicts(&self, piece: &Piece) -> bool {
        let known_end = self.runs.last().map_or(0, |run| run.1);
        self.end.is_some_and(|end| piece.end > end || piece.is_last && piece.end != end)
            || piece.is_last && piece.end < known_end
    }

    /// Takes over what `fragment` brings.
    fn add(&mut self, fragment: &Packet, piece: &Piece, anno: Option<usize>) {
        let held_bytes = self.packet.len() - self.front_bytes;
        if piece.end > held_bytes {
            self.packet.put(piece.end - held_bytes);
        }
        if piece.start == 0 {
            self.take_front(fragment);
        }
        let data = transport(fragment);
        let target = &mut self.packet.data_mut()[self.front_bytes..];
        target[piece.start..piece.end].copy_from_slice(&data[..piece.end - piece.start]);
        self.note_run(piece.start, piece.end);
        if piece.is_last {
            self.end = Some(piece.end);
        }
        self.longest_bytes = self.longest_bytes.max(piece.bytes);
        if let Some(place) = anno {
            self.packet.set_anno_u16(place, self.longest_bytes as u16);
        }
    }

    /// Takes over the header, what is in front of it, and the annotations of the first fragment.
    fn take_front(&mut self, first: &Packet) {
        let Some(header_bytes) = ipv4(first).map(|view| view.header_bytes()) else { return };
        let at = first.header_offset(Header::Network).unwrap_or(0);
        let front_bytes = at + header_bytes;
        self.packet.pull(self.front_bytes);
        self.packet.push(front_bytes).copy_from_slice(&first.data()[..front_bytes]);
        self.front_bytes = front_bytes;
        self.packet.set_ip_header(at, header_bytes);
        match first.header_offset(Header::Mac) {
            Some(mac) if mac <= front_bytes => self.packet.set_header(Header::Mac, mac),
            _ => self.packet.clear_header(Header::Mac),
        }
        *self.packet.annotations_mut() = *first.annotations();
        self.packet.trace_as(first);
        self.packet.set_packet_type(first.packet_type());
    }

    /// Writes lengths and place of the packet into its header.
    fn finish_header(&mut self, flags_and_offset: u16) {
        let bytes = self.packet.from_header_mut(Header::Network);
        let total_bytes = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&total_bytes.to_be_bytes());
        let flags = get_u16(bytes, 6) & DONT_FRAGMENT | flags_and_offset;
        bytes[6..8].copy_from_slice(&flags.to_be_bytes());
        Ipv4::new_unchecked(bytes).fill_checksum();
    }

    /// The packet, which is whole.
    fn into_whole(mut self, last: &Packet) -> (Packet, Vec<(usize, usize)>) {
        self.finish_header(0);
        self.packet.set_timestamp_ns(last.timestamp_ns());
        (self.packet, self.runs)
    }

    /// Its first piece, as the fragment that it is.
    fn into_piece(mut self) -> (Packet, Vec<(usize, usize)>) {
        let (start, end) = self.runs.first().copied().unwrap_or((0, 0));
        let behind_bytes = self.packet.len() - self.front_bytes - end;
        self.packet.take(behind_bytes);
        let front = self.front_bytes;
        let data = self.packet.data_mut();
        data.copy_within(front + start.., front);
        self.packet.take(start);
        let is_last = self.end == Some(end);
        let more = if is_last { 0 } else { MORE_FRAGMENTS };
        self.finish_header(more | (start / 8) as u16);
        (self.packet, self.runs)
    }
}

/// See the module.
#[derive(Debug)]
pub struct IpReassembler {
    memory_max: usize,
    anno: Option<usize>,
    buckets: Vec<Vec<Partial>>,
    held: usize,
    memory: usize,
    look_at_s: i64,
    /// Kept to be used again.
    spare_runs: Vec<Vec<(usize, usize)>>,
    fragments: u64,
    wholes: u64,
    given_up: u64,
    bad: u64,
}

impl IpReassembler {
    fn new() -> Self {
        Self {
            memory_max: 256 * 1024,
            anno: None,
            buckets: (0..BUCKETS).map(|_| Vec::new()).collect(),
            held: 0,
            memory: 0,
            look_at_s: 0,
            spare_runs: Vec::new(),
            fragments: 0,
            wholes: 0,
            given_up: 0,
            bad: 0,
        }
    }

    /// What `packet` is a fragment of, and which; none if its lengths cannot be.
    fn piece_of(packet: &Packet) -> Option<(Key, Piece)> {
        let view = ipv4(packet)?;
        let bytes = view.total_bytes();
        let len = bytes.checked_sub(view.header_bytes()).filter(|&len| len > 0)?;
        let start = usize::from(view.fragment_offset()) * 8;
        let (end, is_last) = (start + len, !view.more_fragments());
        let is_there = transport(packet).len() == len;
        if end > 0xffff || !is_last && !len.is_multiple_of(8) || !is_there {
            return None;
        }
        let key = Key {
            src: view.src().into(),
            dst: view.dst().into(),
            id: view.identification(),
            proto: view.proto().0,
        };
        Some((key, Piece { start, end, is_last, bytes }))
    }

    /// Takes a fragment; the packet, if that makes it whole.
    fn take(&mut self, cx: &mut Context<'_>, mut packet: Packet) -> Option<Packet> {
        let Some(view) = ipv4(&packet) else {
            cx.drop_packet(packet, NO_HEADER);
            return None;
        };
        if !is_fragment(&view) {
            return Some(packet);
        }
        self.fragments += 1;
        if packet.timestamp_ns() == 0 {
            packet.set_timestamp_ns(cx.now().0);
        }
        let now_s = packet.timestamp_ns().div_euclid(Time::SECOND);
        if now_s >= self.look_at_s {
            self.give_up_older(cx, now_s - HOLD_S, 0, TIMEOUT);
            self.look_at_s = now_s + LOOK_S;
        }
        let Some((key, piece)) = Self::piece_of(&packet) else {
            return self.refuse(cx, packet);
        };
        if self.memory > self.memory_max {
            self.make_room(cx, now_s);
        }
        let found = self.buckets[key.bucket()].iter().position(|partial| partial.key == key);
        let idx = found.unwrap_or_else(|| self.begin(cx, key, &packet, now_s));
        let partial = &mut self.buckets[key.bucket()][idx];
        if partial.contradicts(&piece) {
            return self.refuse(cx, packet);
        }
        self.memory -= partial.memory();
        partial.add(&packet, &piece, self.anno);
        self.memory += partial.memory();
        if !partial.is_whole() {
            cx.consume(packet);
            return None;
        }
        let partial = self.forget(key.bucket(), idx);
        if partial.packet.from_header(Header::Network).len() > 0xffff {
            // The header made it longer than a packet can be.
            self.given_up += 1;
            cx.consume(packet);
            let (packet, runs) = partial.into_piece();
            self.keep_runs(runs);
            cx.drop_packet(packet, BAD_FRAGMENT);
            return None;
        }
        self.wholes += 1;
        let (whole, runs) = partial.into_whole(&packet);
        self.keep_runs(runs);
        cx.consume(packet);
        Some(whole)
    }

    fn refuse(&mut self, cx: &mut Context<'_>, packet: Packet) -> Option<Packet> {
        self.bad += 1;
        cx.drop_packet(packet, BAD_FRAGMENT);
        None
    }

    /// Makes a place for the packet that `fragment` is of, with a header that will do until the
    /// first one comes.
    fn begin(&mut self, cx: &mut Context<'_>, key: Key, fragment: &Packet, now_s: i64) -> usize {
        let mut packet = cx.pool().packet();
        let header = packet.put(HEADER_BYTES);
        header.copy_from_slice(&fragment.from_header(Header::Network)[..HEADER_BYTES]);
        header[0] = 0x45;
        packet.set_ip_header(0, HEADER_BYTES);
        let partial = Partial {
            key,
            packet,
            front_bytes: HEADER_BYTES,
            runs: self.spare_runs.pop().unwrap_or_default(),
            end: None,
            since_s: now_s,
            longest_bytes: 0,
        };
        self.held += 1;
        self.memory += partial.memory();
        let bucket = &mut self.buckets[key.bucket()];
        bucket.push(partial);
        bucket.len() - 1
    }

    fn forget(&mut self, bucket: usize, idx: usize) -> Partial {
        let partial = self.buckets[bucket].remove(idx);
        self.held -= 1;
        self.memory -= partial.memory();
        partial
    }

    fn keep_runs(&mut self, mut runs: Vec<(usize, usize)>) {
        runs.clear();
        self.spare_runs.push(runs);
    }

    /// Evicts packets whose first fragment came before `before_s`, until no more than `memory_min`
    /// bytes are held.
    fn give_up_older(
        &mut self,
        cx: &mut Context<'_>,
        before_s: i64,
        memory_min: usize,
        reason: usize,
    ) {
        for bucket in 0..BUCKETS {
            let mut idx = 0;
            while idx < self.buckets[bucket].len() {
                if self.memory <= memory_min {
                    return;
                }
                if self.buckets[bucket][idx].since_s >= before_s {
                    idx += 1;
                    continue;
                }
                let (piece, runs) = self.forget(bucket, idx).into_piece();
                self.keep_runs(runs);
                self.given_up += 1;
                cx.emit_or_drop(1, piece, reason);
            }
        }
    }

    /// Evicts packets, old ones first, until a quarter of the memory is free.
    fn make_room(&mut self, cx: &mut Context<'_>, now_s: i64) {
        let enough = self.memory_max / 4 * 3;
        for before_s in [now_s - 10, now_s - 5, i64::MAX] {
            self.give_up_older(cx, before_s, enough, NO_MEMORY);
        }
    }

    fn dump(&self) -> String {
        let mut text = format!(
            "frags seen total:    {}\ngood reassemblies:   {}\nfailed reassemblies: {}\n\
             bad fragments seen:  {}\ncached chunk data:\n",
            self.fragments, self.wholes, self.given_up, self.bad
        );
        for partial in self.buckets.iter().flatten() {
            let (src, dst) = (Ipv4Addr::from(partial.key.src), Ipv4Addr::from(partial.key.dst));
            let data = &partial.packet.data()[partial.front_bytes..];
            // Ports of what has them, once they are there.
            let ports = if data.len() >= 4 { get_u32(data, 0) } else { 0 };
            let id = partial.key.id;
            let _ = write!(text, " ({src}, {}, {dst}, {}) {id}", ports >> 16, ports & 0xffff);
            for (start, end) in &partial.runs {
                let _ = write!(text, " ({start},{end})");
            }
            text.push('\n');
        }
        text
    }
}

impl Element for IpReassembler {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut anno, mut memory) = (None::<Anno<2>>, None::<Size>);
        args.read("HIMEM", &mut memory).read("MAX_MTU_ANNO", &mut anno);
        if let Some(Size(bytes)) = memory {
            self.memory_max = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        self.anno = anno.map(|anno| anno.0);
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let passes = |packet: &Packet| ipv4(packet).is_some_and(|view| !is_fragment(&view));
        if batch.iter().all(passes) {
            return;
        }
        let mut whole = cx.pool().batch();
        for packet in batch.drain() {
            if let Some(packet) = self.take(cx, packet) {
                whole.push(packet);
            }
        }
        std::mem::swap(batch, &mut whole);
        cx.pool().recycle_empty(whole);
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("dump").expensive().as_is()] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.dump())
    }

    fn held(&self) -> usize {
        self.held
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        let (memory_max, anno) = (self.memory_max, self.anno);
        std::mem::swap(self, old);
        (self.memory_max, self.anno) = (memory_max, anno);
    }
}
