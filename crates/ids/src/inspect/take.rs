//! From a packet to the texts that wait to be searched.

use std::num::NonZeroU32;
use std::ops::Range;

use super::messages::New;
use super::round::{Head, HeadOf, Job, Next, Older, Round, StreamText};
use super::{Alert, Inspector};
use crate::decode::{Carried, Decoded};
use crate::engine::FlowFacts;
use crate::flows::{Address, Seen, side};
use crate::rule::Direction;
use crate::stream::{Arrived, Bounds};

const FIN: u16 = 0x01;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
const ACK: u16 = 0x10;

impl Inspector {
    /// Takes packet `idx` of `heads`.
    pub(super) fn take<'p>(
        &mut self,
        heads: &[Head<'p>],
        idx: usize,
        next: Next,
        round: &mut Round<'p>,
        alerts: &mut Vec<Alert>,
    ) {
        let head = &heads[idx];
        (self.now_ns, self.number) = (next.now_ns, head.number);
        while let Some(place) = self.flows.timed_out(self.now_ns, &self.options.timeouts) {
            self.stats.flows_timed_out += 1;
            self.end_flow(place, heads, round, alerts);
        }
        let place = match self.known_place(&head.decoded, &next.address) {
            Ok(place) => place,
            Err(ended) => {
                if let Some(ended) = ended {
                    self.end_flow(ended, heads, round, alerts);
                }
                while self.flows.len() >= self.options.flows_max.max(1) {
                    let Some(least) = self.flows.least(None) else { break };
                    self.stats.flows_evicted += 1;
                    self.end_flow(least, heads, round, alerts);
                }
                self.flows.insert(&head.decoded, &next.address, self.now_ns)
            }
        };
        let seen = self.flows.note(place, &head.decoded, &next.address, self.now_ns);
        let of_packet = HeadOf::Packet(idx as u32);
        if head.decoded.carried == Carried::Tcp {
            self.take_tcp(head, of_packet, &seen, round);
        } else {
            self.add_payload(head, of_packet, &seen, round);
        }
        while self.stream_bytes > self.options.stream_bytes_max {
            let Some(least) = self.flows.least(Some(place)) else { break };
            self.stats.flows_evicted_for_memory += 1;
            self.end_flow(least, heads, round, alerts);
        }
    }

    /// The place of a packet's flow. An error if it begins with it: with the flow that ended, if
    /// there was one.
    fn known_place(&self, packet: &Decoded<'_>, address: &Address) -> Result<u32, Option<u32>> {
        let place = self.flows.find(address).ok_or(None)?;
        if self.flows.is_anew(place, packet) { Err(Some(place)) } else { Ok(place) }
    }

    /// Adds the texts that a TCP packet gives.
    fn take_tcp<'p>(
        &mut self,
        head: &Head<'p>,
        of_packet: HeadOf,
        seen: &Seen,
        round: &mut Round<'p>,
    ) {
        let packet = &head.decoded;
        let bounds = self.bounds();
        let (mine, other) = (side(seen.direction), 1 - side(seen.direction));
        // What the other side has must not be waited for any more.
        if packet.tcp.flags & ACK != 0 {
            self.acknowledge((packet, head.timestamp_ns), seen, other, round);
        }
        let has_data = packet.payload_wire_bytes > 0 && packet.tcp.flags & RST == 0;
        let is_whole =
            !packet.payload.is_empty() && packet.payload_wire_bytes == packet.payload.len();
        let seq = packet.tcp.seq.wrapping_add(u32::from(packet.tcp.flags & SYN != 0));
        let half = &mut self.flows.get_mut(seen.place).halves[mine];
        if !has_data {
            // What comes with a reset is no part of the stream: nobody takes it. It is not to be a
            // way past the rules either.
            self.add_payload(head, of_packet, seen, round).is_aside = !packet.payload.is_empty();
        } else if is_whole && half.is_next(seq) {
            self.settle(seen.place, mine, round);
            let half = &mut self.flows.get_mut(seen.place).halves[mine];
            let before = half.bytes();
            let text = half.arrive(seq, packet.payload.len(), &bounds);
            self.stream_bytes += half.bytes() - before;
            self.add_in_place(head, of_packet, seen, text, round);
            let new = (New::Payload(packet.payload), text.end);
            self.read_messages((head, of_packet), seen, new, round);
        } else {
            self.take_segment(head, seq, of_packet, seen, round);
        }
        if packet.tcp.flags & FIN != 0 {
            let end = seq.wrapping_add(packet.payload_wire_bytes as u32);
            if self.flows.get_mut(seen.place).halves[mine].is_next(end) {
                self.close_messages(of_packet, seen, round);
            }
        }
        self.stats.stream_bytes_peak = self.stats.stream_bytes_peak.max(self.stream_bytes as u64);
        if seen.is_reset {
            self.flush(seen.place, Some((packet, seen.direction)), round);
        }
        for half in &mut self.flows.get_mut(seen.place).halves {
            if half.holds() {
                half.cold_or_new().last = Some((packet.head(), seen.direction));
            }
        }
    }

    fn acknowledge<'p>(
        &mut self,
        (packet, timestamp_ns): (&Decoded<'p>, u64),
        seen: &Seen,
        other: usize,
        round: &mut Round<'p>,
    ) {
        let bounds = self.bounds();
        if self.flows.get_mut(seen.place).halves[other].holds() {
            self.settle(seen.place, other, round);
        }
        let (start, stats) = (round.arena.len(), &mut self.stats.streams);
        let flow = self.flows.get_mut(seen.place);
        if !flow.halves[other].holds() {
            flow.halves[other].acknowledge(packet.tcp.ack, &bounds, &mut round.arena, stats);
            return;
        }
        let before = flow.bytes();
        let half = &mut flow.halves[other];
        let text = half.acknowledge(packet.tcp.ack, &bounds, &mut round.arena, stats);
        self.stream_bytes = (self.stream_bytes + flow.bytes()).saturating_sub(before);
        if let Some(text) = text {
            let last = (packet.head(), seen.direction, timestamp_ns);
            self.add_stream_job(seen.place, other, last, (start, text), round);
        }
    }

    /// Takes a segment that is not just what comes next.
    fn take_segment<'p>(
        &mut self,
        head: &Head<'p>,
        seq: u32,
        of_packet: HeadOf,
        seen: &Seen,
        round: &mut Round<'p>,
    ) {
        let packet = &head.decoded;
        let bounds = self.bounds();
        let mine = side(seen.direction);
        self.settle(seen.place, mine, round);
        let (start, stats) = (round.arena.len(), &mut self.stats.streams);
        let flow = self.flows.get_mut(seen.place);
        let before = flow.bytes();
        let half = &mut flow.halves[mine];
        let is_aside = half.misses(seq, packet.payload.len());
        let arrived = half.take(seq, packet.payload, &bounds, &mut round.arena, stats);
        if arrived.is_some() {
            let missing = packet.payload_wire_bytes - packet.payload.len();
            half.lose(seq.wrapping_add(packet.payload.len() as u32), missing, stats);
        }
        self.stream_bytes = (self.stream_bytes + flow.bytes()).saturating_sub(before);
        let Some(text) = arrived else {
            self.add_payload(head, of_packet, seen, round).is_aside = is_aside;
            return;
        };
        let searched = self.searched_of(start, &text);
        let new = start + text.from;
        let payload = new..(new + packet.payload.len()).min(round.arena.len());
        // One job where the payload is what is new in the stream; two where it is not.
        if round.arena[payload.clone()] == *packet.payload {
            let mut job = Job { is_aside, ..Job::of(of_packet, seen, Some(packet.payload)) };
            job.searched = searched.start.min(payload.start)..searched.end;
            job.stream = Some((StreamText::Whole(start), text));
            self.add_job(job, round);
            let new = (New::Arena(new..start + text.bytes), text.end);
            self.read_messages((head, of_packet), seen, new, round);
            return;
        }
        self.add_payload(head, of_packet, seen, round).is_aside = is_aside;
        let mut job = Job::of(of_packet, seen, None);
        job.searched = searched;
        job.stream = Some((StreamText::Whole(start), text));
        self.add_job(job, round);
        let new = (New::Arena(new..start + text.bytes), text.end);
        self.read_messages((head, of_packet), seen, new, round);
    }

    /// Adds the text of a segment that is what comes next: its bytes stay where they lie.
    fn add_in_place<'p>(
        &mut self,
        head: &Head<'p>,
        of_packet: HeadOf,
        seen: &Seen,
        text: Arrived,
        round: &mut Round<'p>,
    ) {
        let payload = head.decoded.payload;
        let mut job = Job::of(of_packet, seen, Some(payload));
        let reach = self.engine.scanner(Carried::Tcp).longest_bytes().saturating_sub(1);
        let half = &mut self.flows.get_mut(seen.place).halves[side(seen.direction)];
        let window = half.window();
        let old = &window[window.len() - window.len().min(reach)..];
        if !old.is_empty() {
            // What begins among the old bytes ends among so many new ones.
            let start = round.arena.len();
            round.arena.extend_from_slice(old);
            round.arena.extend_from_slice(&payload[..payload.len().min(reach)]);
            job.searched = start..round.arena.len();
        }
        job.searches_payload = old.is_empty() || payload.len() > reach;
        job.found = head.found;
        half.waits = NonZeroU32::new(round.jobs.len() as u32 + 1);
        job.stream = Some((StreamText::InPlace(Older::Window), text));
        self.add_job(job, round);
    }

    /// Moves the window of a half on whose last text still waits: that gets a copy of it.
    fn settle(&mut self, place: u32, half: usize, round: &mut Round<'_>) {
        let bounds = self.bounds();
        let half = &mut self.flows.get_mut(place).halves[half];
        let Some(waits) = half.waits.take() else { return };
        let job = &mut round.jobs[waits.get() as usize - 1];
        if let Some((StreamText::InPlace(older), _)) = &mut job.stream {
            let start = round.arena.len();
            round.arena.extend_from_slice(half.window());
            *older = Older::Copied(start..round.arena.len());
        }
        half.keep(job.payload.unwrap_or(&[]), &bounds);
    }

    /// What of a stream's text must be searched: patterns that end among the new bytes. Whether all
    /// of it must, as the stream cannot remember all rules, is known when it is its turn.
    fn searched_of(&self, start: usize, text: &Arrived) -> Range<usize> {
        let reach = self.engine.scanner(Carried::Tcp).longest_bytes().saturating_sub(1);
        start + text.from.saturating_sub(reach)..start + text.bytes
    }

    /// A packet's payload by itself.
    fn add_payload<'a, 'p>(
        &mut self,
        head: &Head<'p>,
        of_packet: HeadOf,
        seen: &Seen,
        round: &'a mut Round<'p>,
    ) -> &'a mut Job<'p> {
        let job = Job::of(of_packet, seen, Some(head.decoded.payload));
        self.add_job(Job { searches_payload: true, found: head.found, ..job }, round)
    }

    pub(super) fn add_job<'a, 'p>(
        &mut self,
        job: Job<'p>,
        round: &'a mut Round<'p>,
    ) -> &'a mut Job<'p> {
        let of_flow = self.flows.get_mut(job.place);
        of_flow.search = self.searches as u32;
        round.bytes += job.texts(&round.arena).map(<[u8]>::len).sum::<usize>();
        round.jobs.push(Job { flow_id: of_flow.id, ..job });
        let last = round.jobs.len() - 1;
        &mut round.jobs[last]
    }

    /// A text of a stream without a packet of its own direction: `last` is the last one of the
    /// flow, which way it went, and the time to tell.
    fn add_stream_job(
        &mut self,
        place: u32,
        half: usize,
        last: (Decoded<'static>, Direction, u64),
        (start, text): (usize, Arrived),
        round: &mut Round<'_>,
    ) {
        let searched = self.searched_of(start, &text);
        let direction = if half == 0 { Direction::ToServer } else { Direction::ToClient };
        let decoded = if last.1 == direction { last.0 } else { last.0.turned() };
        let number = self.number;
        let timestamp_ns = last.2;
        let of_stray = Head { decoded, packet: None, number, timestamp_ns, found: None };
        round.strays.push(of_stray);
        let head = HeadOf::Stray(round.strays.len() as u32 - 1);
        let is_established = self.flows.get_mut(place).is_established();
        let seen = Seen { place, direction, is_established, is_reset: false };
        let mut job = Job::of(head, &seen, None);
        job.searched = searched;
        job.stream = Some((StreamText::Whole(start), text));
        self.add_job(job, round);
        let new = (New::Arena(start + text.from..start + text.bytes), text.end);
        self.read_messages((&of_stray, head), &seen, new, round);
    }

    pub(super) fn bounds(&self) -> Bounds {
        // Room is counted in 32 bits.
        let window_bytes = self.window_bytes.min(u32::MAX as usize);
        Bounds { window_bytes, held_bytes: self.options.held_bytes_max }
    }

    /// Adds what waits in both directions of a flow: `last` is its last packet, where that is at
    /// hand.
    fn flush(
        &mut self,
        place: u32,
        last: Option<(&Decoded<'_>, Direction)>,
        round: &mut Round<'_>,
    ) {
        let bounds = self.bounds();
        for half in 0..2 {
            while self.flows.get_mut(place).halves[half].holds() {
                self.settle(place, half, round);
                let start = round.arena.len();
                let flow = self.flows.get_mut(place);
                let before = flow.bytes();
                let of_flow = flow.halves[half].cold().and_then(|cold| cold.last);
                let stats = &mut self.stats.streams;
                let text = flow.halves[half].flush(&bounds, &mut round.arena, stats);
                self.stream_bytes = (self.stream_bytes + flow.bytes()).saturating_sub(before);
                let last = last.map(|(packet, direction)| (packet.head(), direction)).or(of_flow);
                let (Some(text), Some((head, direction))) = (text, last) else { break };
                let last = (head, direction, self.now_ns);
                self.add_stream_job(place, half, last, (start, text), round);
            }
        }
    }

    /// Ends a flow. Its texts that wait are searched before: a text may need the rules that its
    /// stream remembers from another one, however packets are cut into batches.
    pub(super) fn end_flow<'p>(
        &mut self,
        place: u32,
        heads: &[Head<'p>],
        round: &mut Round<'p>,
        alerts: &mut Vec<Alert>,
    ) {
        self.flush(place, None, round);
        self.end_messages(place, round);
        if self.flows.get_mut(place).search == self.searches as u32 {
            self.search(heads, round, alerts);
        }
        let flow = self.flows.get_mut(place);
        self.stream_bytes = self.stream_bytes.saturating_sub(flow.bytes());
        self.flows.remove(place);
    }
}

impl<'p> Job<'p> {
    /// A job that searches nothing yet.
    pub(super) fn of(head: HeadOf, seen: &Seen, payload: Option<&'p [u8]>) -> Self {
        Self {
            head,
            flow: FlowFacts { direction: seen.direction, is_established: seen.is_established },
            flow_id: 0,
            place: seen.place,
            payload,
            searches_payload: false,
            found: None,
            searched: 0..0,
            stream: None,
            is_aside: false,
            message: None,
        }
    }
}
