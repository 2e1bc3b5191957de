//! Search of the texts that wait, and confirmation of what was found.

use std::ops::Range;
use std::sync::Arc;

use warpswitch_scan::{PatternSets, Scratch};

use super::round::{Head, Job, Older, Round, StreamText};
use super::{Alert, Inspector};
use crate::confirm::{Answer, ChainScratch, Text, Work};
use crate::decode::{Carried, Decoded};
use crate::engine::Compiled;
use crate::flows::side;
use crate::rule::{Action, Streams};
use crate::stream::{Arrived, PENDING_MAX};

const PROTOCOLS: [Carried; 4] = [Carried::Tcp, Carried::Udp, Carried::Icmp, Carried::Other];

/// Memory of searches.
#[derive(Debug, Default)]
pub(super) struct Searched {
    scan: Scratch,
    sets: [PatternSets; 4],
    again: PatternSets,
    scratches: Scratches,
}

/// Memory of what one text is confirmed with.
#[derive(Debug, Default)]
struct Scratches {
    candidates: Vec<u32>,
    /// A text of a stream in one piece.
    text: Vec<u8>,
    folded: Vec<u8>,
    folded_payload: Vec<u8>,
    chain: ChainScratch,
}

impl Inspector {
    /// Searches all texts and confirms what was found.
    pub(super) fn search<'p>(
        &mut self,
        heads: &[Head<'p>],
        round: &mut Round<'p>,
        alerts: &mut Vec<Alert>,
    ) {
        self.searches += 1;
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut texts: [Vec<&[u8]>; 4] = Default::default();
        for job in &round.jobs {
            let carried = round.head(heads, job.head).decoded.carried;
            texts[carried as usize].extend(job.texts(&round.arena));
        }
        for (carried, texts) in PROTOCOLS.into_iter().zip(&texts) {
            let sets = &mut scratch.sets[carried as usize];
            match &mut self.search {
                Some(search) => search.scan_sets(carried as usize, texts, sets),
                None => {
                    self.engine.scanner(carried).scan_sets(texts, &mut scratch.scan, sets);
                }
            }
        }
        let mut at = [0; 4];
        for job in &round.jobs {
            let head = round.head(heads, job.head);
            let at = &mut at[head.decoded.carried as usize];
            let sets = *at..*at + job.texts(&round.arena).count();
            *at = sets.end;
            self.confirm((job, head), &round.arena, sets, &mut scratch, alerts);
            self.move_on(job);
        }
        self.scratch = scratch;
        round.clear();
    }

    /// Confirms the candidates of one job, which are in these sets.
    fn confirm(
        &mut self,
        (job, head): (&Job<'_>, &Head<'_>),
        arena: &[u8],
        sets: Range<usize>,
        scratch: &mut Searched,
        alerts: &mut Vec<Alert>,
    ) {
        let carried = head.decoded.carried;
        let Searched { scan, sets: found, again, scratches } = scratch;
        let engine = Arc::clone(&self.engine);
        let candidates = &mut scratches.candidates;
        candidates.clear();
        for set in sets {
            engine.candidates(carried, &found[carried as usize], set, candidates);
        }
        if let Some((_, text)) = &job.stream {
            let flow = self.flows.of_id(job.place, job.flow_id);
            let half = flow.map(|flow| &mut flow.halves[side(job.flow.direction)]);
            let is_searched = job.searched.len() == text.bytes || text.from == 0;
            if half.is_some_and(|half| half.is_pending_full) && !is_searched {
                // The stream does not remember all: the whole window counts.
                let whole = self.stream_text(job, arena, &mut scratches.text);
                engine.scanner(carried).scan_sets(&[whole], scan, again);
                candidates.clear();
                engine.candidates(carried, again, 0, candidates);
            }
            self.remember(job, text, candidates);
        }
        others(&engine, job, &head.decoded, candidates);
        if candidates.is_empty() {
            return;
        }
        candidates.sort_unstable();
        candidates.dedup();
        self.stats.candidates += candidates.len() as u64;
        let mut text = std::mem::take(&mut scratches.text);
        let arrived = job.stream.as_ref().map(|(_, arrived)| arrived);
        let stream = arrived.map(|arrived| (self.stream_text(job, arena, &mut text), arrived));
        self.confirm_candidates((job, head), stream, scratches, alerts);
        scratches.text = text;
    }

    /// A job's text of its stream, in `room` if it is not in one piece elsewhere.
    fn stream_text<'a>(
        &mut self,
        job: &Job<'a>,
        arena: &'a [u8],
        room: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let Some((kind, text)) = &job.stream else { return &[] };
        let payload = job.payload.unwrap_or(&[]);
        let old = match kind {
            StreamText::Whole(start) => return &arena[*start..*start + text.bytes],
            _ if text.from == 0 => return payload,
            StreamText::InPlace(Older::Copied(old)) => &arena[old.clone()],
            StreamText::InPlace(Older::Window) => {
                let flow = self.flows.of_id(job.place, job.flow_id);
                flow.map_or(&[][..], |flow| flow.halves[side(job.flow.direction)].window())
            }
        };
        room.clear();
        room.extend_from_slice(old);
        room.extend_from_slice(payload);
        room
    }

    /// Moves the window of a stream on whose last text was looked at.
    fn move_on(&mut self, job: &Job<'_>) {
        let Some((StreamText::InPlace(Older::Window), _)) = &job.stream else { return };
        let bounds = self.bounds();
        if let Some(flow) = self.flows.of_id(job.place, job.flow_id) {
            let half = &mut flow.halves[side(job.flow.direction)];
            half.waits = None;
            half.keep(job.payload.unwrap_or(&[]), &bounds);
        }
    }

    /// Adds the rules that the stream remembers, and lets it remember those that may still come
    /// true.
    fn remember(&mut self, job: &Job<'_>, text: &Arrived, candidates: &mut Vec<u32>) {
        let Some(flow) = self.flows.of_id(job.place, job.flow_id) else { return };
        let half = &mut flow.halves[side(job.flow.direction)];
        let window_start = text.end - text.bytes as u64;
        let was_full = std::mem::take(&mut half.is_pending_full);
        let found = candidates.len();
        if let Some(cold) = half.cold() {
            if was_full {
                // All of the window was searched: what counts is what was found there.
                cold.pending.clear();
            }
            cold.pending.retain(|&(_, end)| end > window_start);
            candidates.extend(cold.pending.iter().map(|&(rule, _)| rule));
        }
        for &rule in &candidates[..found] {
            let compiled = &self.engine.compiled[rule as usize];
            if compiled.scope.streams == Streams::No || !compiled.needs_more {
                continue;
            }
            let pending = &mut half.cold_or_new().pending;
            match pending.iter().position(|pending| pending.0 == rule) {
                Some(place) => pending[place].1 = text.end,
                None if pending.len() < PENDING_MAX => pending.push((rule, text.end)),
                None => half.is_pending_full = true,
            }
        }
    }

    fn confirm_candidates(
        &mut self,
        (job, head): (&Job<'_>, &Head<'_>),
        stream: Option<(&[u8], &Arrived)>,
        scratch: &mut Scratches,
        alerts: &mut Vec<Alert>,
    ) {
        let payload = job.payload;
        fold(payload.unwrap_or(&[]), &mut scratch.folded_payload);
        fold(stream.map_or(&[], |stream| stream.0), &mut scratch.folded);
        let payload = payload.map(|bytes| Text {
            bytes,
            folded: &scratch.folded_payload,
            from: 0,
            is_start: true,
        });
        let stream = stream.map(|(bytes, text)| Text {
            bytes,
            folded: &scratch.folded,
            from: text.from,
            is_start: text.is_start,
        });
        let engine = Arc::clone(&self.engine);
        let mut work = Work { left: self.options.work_max };
        let first = alerts.len();
        let mut is_passed = false;
        // Those of the packet's other text, which are in order.
        let others = alerts.iter().rev().take_while(|alert| {
            head.packet.is_some() && (alert.number, alert.packet) == (head.number, head.packet)
        });
        let mut told: Vec<u32> = others.map(|alert| alert.rule).collect();
        told.reverse();
        for &rule in &scratch.candidates {
            let compiled = &engine.compiled[rule as usize];
            if !compiled.allows(&head.decoded, &job.flow) {
                continue;
            }
            let chain = &mut scratch.chain;
            let alone = payload.filter(|_| compiled.is_for_payload(job.is_aside));
            let Some(in_stream) = found(compiled, alone, stream, chain, &mut work) else {
                continue;
            };
            if compiled.rule.action == Action::Pass {
                is_passed = true;
                continue;
            }
            if told.binary_search(&rule).is_err() {
                let text = if in_stream { stream } else { payload };
                let text = text.map_or(&[][..], |text| text.bytes);
                alerts.push(self.alert(rule, (job, head), in_stream, text));
            }
        }
        self.stats.work_cut += u64::from(work.is_used_up());
        if is_passed {
            self.stats.passed += (alerts.len() - first) as u64;
            alerts.truncate(first);
        }
        for alert in &alerts[first..] {
            self.by_rule[alert.rule as usize] += 1;
        }
        self.stats.alerts += (alerts.len() - first) as u64;
    }

    fn alert(
        &self,
        rule: u32,
        (job, head): (&Job<'_>, &Head<'_>),
        in_stream: bool,
        text: &[u8],
    ) -> Alert {
        let packet = &head.decoded;
        let has_ports = matches!(packet.carried, Carried::Tcp | Carried::Udp)
            || (packet.src_port, packet.dst_port) != (0, 0);
        Alert {
            rule,
            packet: head.packet,
            number: head.number,
            timestamp_ns: head.timestamp_ns,
            flow_id: job.flow_id,
            src: packet.address(packet.src_number),
            dst: packet.address(packet.dst_number),
            ports: has_ports.then_some((packet.src_port, packet.dst_port)),
            ip_proto: packet.ip_proto,
            icmp: packet.icmp,
            vlan: packet.vlan,
            direction: job.flow.direction,
            in_stream,
            payload: text[..text.len().min(self.options.payload_bytes)].to_vec(),
        }
    }
}

/// Adds rules without a fast pattern.
fn others(engine: &crate::Engine, job: &Job<'_>, packet: &Decoded<'_>, candidates: &mut Vec<u32>) {
    if job.payload.is_some() {
        engine.others(packet, candidates);
    } else {
        engine.others_of_streams(packet, candidates);
    }
}

/// Whether a rule holds in one of the texts that it is for; and whether that is the stream's.
fn found(
    compiled: &Compiled,
    payload: Option<Text<'_>>,
    stream: Option<Text<'_>>,
    chain: &mut ChainScratch,
    work: &mut Work,
) -> Option<bool> {
    if let Some(payload) = payload
        && compiled.plan.confirm(&payload, chain, work) != Answer::No
    {
        return Some(false);
    }
    let stream = stream.filter(|stream| match compiled.scope.streams {
        Streams::No => false,
        Streams::Start => stream.is_start,
        Streams::All => true,
    })?;
    (compiled.plan.confirm(&stream, chain, work) == Answer::Fresh).then_some(true)
}

fn fold(bytes: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend(bytes.iter().map(u8::to_ascii_lowercase));
}
