//! Messages in streams: from bytes in order to alerts.
//!
//! Where a message ends is known when its packet is taken, so that memory is counted then, however
//! packets are cut into batches. Its parts are copied into the round's memory; they are searched
//! and confirmed when it is the packet's turn.

use std::num::NonZeroU32;
use std::ops::Range;

use super::round::{Head, HeadOf, Job, Round};
use super::search::{Scratches, Searched};
use super::{Inspector, Stats};
use crate::engine::Engine;
use crate::flows::{Flow, Seen, side};
use crate::http::{Buffer, Kind, Message, Part, Speaker, Told, may_begin};
use crate::rule::{Action, Direction};
use crate::stream::Speaks;

/// A part of a message that waits.
#[derive(Clone, Debug)]
pub(super) struct MessageText {
    part: Part,
    kind: Kind,
    /// In the round's memory.
    head: Range<usize>,
    body: Range<usize>,
}

/// New bytes of a stream.
#[derive(Clone, Debug)]
pub(super) enum New<'p> {
    /// The payload of their packet.
    Payload(&'p [u8]),
    /// In the round's memory.
    Arena(Range<usize>),
}

impl New<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Payload(bytes) => bytes.len(),
            Self::Arena(place) => place.len(),
        }
    }
}

impl Round<'_> {
    /// Puts a part of a message into the round's memory.
    fn put(&mut self, told: &Told<'_>) {
        let start = self.arena.len();
        self.arena.extend_from_slice(told.head);
        let head = start..self.arena.len();
        self.arena.extend_from_slice(told.body);
        let body = head.end..self.arena.len();
        let Told { part, kind, .. } = *told;
        self.messages.push(MessageText { part, kind, head, body });
    }
}

impl Stats {
    /// Counts a message, by its head.
    fn note_message(&mut self, told: &Told<'_>) {
        match (told.part, told.kind) {
            (Part::Head, Kind::Request) => self.http_requests += 1,
            (Part::Head, Kind::Response) => self.http_responses += 1,
            (Part::Body, _) => {}
        }
    }
}

impl Inspector {
    /// Reads messages from new bytes of a stream, which ends with them at `end`.
    pub(super) fn read_messages<'p>(
        &mut self,
        head: (&Head<'_>, HeadOf),
        seen: &Seen,
        (new, end): (New<'p>, u64),
        round: &mut Round<'p>,
    ) {
        if self.engine.messages.is_none() || new.len() == 0 {
            return;
        }
        let half = &self.flows.get_mut(seen.place).halves[side(seen.direction)];
        if half.speaks == Speaks::Other {
            return;
        }
        match new {
            New::Payload(bytes) => self.read_bytes(head, seen, (bytes, end), round),
            New::Arena(place) => {
                let bytes = round.arena[place].to_vec();
                self.read_bytes(head, seen, (&bytes, end), round);
            }
        }
    }

    fn read_bytes(
        &mut self,
        (head, of): (&Head<'_>, HeadOf),
        seen: &Seen,
        (bytes, end): (&[u8], u64),
        round: &mut Round<'_>,
    ) {
        let Some(wants) = self.engine.messages.as_ref().map(|messages| messages.wants) else {
            return;
        };
        let start = end - bytes.len() as u64;
        let flow = self.flows.get_mut(seen.place);
        let before = flow.bytes();
        let [client, server] = &mut flow.halves;
        let (half, other) = match seen.direction {
            Direction::ToServer => (client, server),
            Direction::ToClient => (server, client),
        };
        if half.speaks == Speaks::Unknown {
            if start > 0 || !may_begin(bytes) {
                half.speaks = Speaks::Other;
                return;
            }
            half.speaks = Speaks::Http;
            half.cold_or_new().speaker = Some(Box::new(Speaker::new(start)));
        }
        let Some(speaker) = half.speaker() else { return };
        let first = round.messages.len();
        let stats = &mut self.stats;
        let mut told = |told: Told<'_>| {
            stats.note_message(&told);
            round.put(&told);
        };
        if speaker.position == start {
            let asked = other.speaker().map(|speaker| &mut speaker.asked);
            speaker.feed(bytes, asked, wants, &mut told);
        } else {
            speaker.close(&mut told);
        }
        let is_given_up = speaker.is_off() && speaker.has_spoken();
        self.stats.http_given_up += u64::from(is_given_up);
        speaker.last = Some(head.decoded.head());
        drop_if_off(flow, seen.direction);
        self.stream_bytes = (self.stream_bytes + flow.bytes()).saturating_sub(before);
        self.add_messages(of, seen, first, round);
    }

    /// The side of `seen` says no more.
    pub(super) fn close_messages(&mut self, of: HeadOf, seen: &Seen, round: &mut Round<'_>) {
        let flow = self.flows.get_mut(seen.place);
        let before = flow.bytes();
        let first = round.messages.len();
        let Some(speaker) = flow.halves[side(seen.direction)].speaker() else { return };
        let stats = &mut self.stats;
        speaker.close(&mut |told| {
            stats.note_message(&told);
            round.put(&told);
        });
        drop_if_off(flow, seen.direction);
        self.stream_bytes = (self.stream_bytes + flow.bytes()).saturating_sub(before);
        self.add_messages(of, seen, first, round);
    }

    /// A flow ends, whose messages have not.
    pub(super) fn end_messages(&mut self, place: u32, round: &mut Round<'_>) {
        for direction in [Direction::ToServer, Direction::ToClient] {
            let flow = self.flows.get_mut(place);
            let is_established = flow.is_established();
            let speaker = flow.halves[side(direction)].speaker();
            let Some(decoded) = speaker.and_then(|speaker| speaker.last) else { continue };
            let (number, timestamp_ns) = (self.number, self.now_ns);
            round.strays.push(Head { decoded, packet: None, number, timestamp_ns, found: None });
            let of = HeadOf::Stray(round.strays.len() as u32 - 1);
            let seen = Seen { place, direction, is_established, is_reset: false };
            let first = round.messages.len();
            self.close_messages(of, &seen, round);
            if round.messages.len() == first {
                round.strays.pop();
            }
        }
    }

    fn add_messages(&mut self, of: HeadOf, seen: &Seen, first: usize, round: &mut Round<'_>) {
        for idx in first..round.messages.len() {
            let message = NonZeroU32::new(idx as u32 + 1);
            self.add_job(Job { message, ..Job::of(of, seen, None) }, round);
        }
    }

    /// Searches a part of a message and confirms what was found.
    pub(super) fn confirm_message(
        &mut self,
        engine: &Engine,
        (job, head): (&Job<'_>, &Head<'_>),
        (text, arena): (&MessageText, &[u8]),
        scratch: &mut Searched,
    ) {
        let Some(messages) = &engine.messages else { return };
        let Searched { scan, again, scratches, buffers, .. } = scratch;
        let message = Message {
            kind: text.kind,
            head: &arena[text.head.clone()],
            body: &arena[text.body.clone()],
        };
        buffers.fill(&message, messages.wanted(text.part));
        let is_searched = |buffer: &Buffer| {
            messages.is_searched(text.part, *buffer) && !buffers.bytes(*buffer).is_empty()
        };
        let searched: Vec<Buffer> = Buffer::ALL.into_iter().filter(is_searched).collect();
        let texts: Vec<&[u8]> = searched.iter().map(|&buffer| buffers.bytes(buffer)).collect();
        messages.scanner().scan_sets(&texts, scan, again);
        let Scratches { candidates, open, .. } = scratches;
        candidates.clear();
        for (idx, &buffer) in searched.iter().enumerate() {
            messages.candidates((text.part, buffer), again.of(idx), candidates);
        }
        messages.others(text.part, &head.decoded, candidates);
        self.stats.candidates += candidates.len() as u64;
        engine.in_turn((&head.decoded, &job.flow), candidates, open);
        if candidates.is_empty() {
            return;
        }
        buffers.fold();
        let work = &mut scratches.work;
        work.begin(self.options.work_max);
        let mut found = Vec::new();
        for &rule in candidates.iter() {
            let compiled = &engine.compiled[rule as usize];
            if !self.bits_allow(compiled, job) {
                continue;
            }
            let part = (text.part, text.head.len());
            let memory = (&mut scratches.chain, &mut *work);
            if !messages.holds((rule, compiled), part, buffers, memory) {
                continue;
            }
            let changes = &compiled.rule.bits.changes;
            changes.iter().for_each(|change| self.flows.bits.change(job.place, change));
            if compiled.rule.action == Action::Pass {
                self.pass(job, &compiled.rule, true, &mut scratches.judged);
            } else if !compiled.rule.no_alert {
                found.push(rule);
            }
        }
        self.stats.work_cut += u64::from(work.is_used_up());
        found.sort_unstable();
        let bytes = &arena[text.head.start..text.body.end];
        for rule in found {
            let alert = self.alert(rule, (job, head), true, bytes);
            scratches.judged.in_messages.push(alert);
        }
    }
}

/// Gives back the memory of a side that is not looked at any more.
fn drop_if_off(flow: &mut Flow, direction: Direction) {
    let half = &mut flow.halves[side(direction)];
    let Some(speaker) = half.speaker().filter(|speaker| speaker.is_off()) else { return };
    // The other side is asked what it answers, also by who says no more.
    let is_idle = !speaker.asked.waits();
    half.speaks = Speaks::Other;
    if let (Some(cold), true) = (half.cold(), is_idle) {
        cold.speaker = None;
    }
}
