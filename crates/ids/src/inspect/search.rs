//! Search of the texts that wait, and the candidates of each.

use std::ops::Range;
use std::sync::Arc;

use warpswitch_scan::{PatternSets, Scratch};

use super::judge::Judged;
use super::round::{Head, Job, Older, Round, StreamText, renew};
use super::{Alert, Inspector};
use crate::Engine;
use crate::confirm::{ChainScratch, Work};
use crate::decode::{Carried, Decoded};
use crate::flows::side;
use crate::http::Buffers;
use crate::rule::Streams;
use crate::stream::{Arrived, PENDING_MAX};

const PROTOCOLS: [Carried; 4] = [Carried::Tcp, Carried::Udp, Carried::Icmp, Carried::Other];

/// Memory of searches.
#[derive(Debug, Default)]
pub(super) struct Searched {
    /// What is searched, by protocol; nothing between calls.
    texts: [Vec<&'static [u8]>; 4],
    pub(super) scan: Scratch,
    sets: [PatternSets; 4],
    pub(super) again: PatternSets,
    pub(super) scratches: Scratches,
    pub(super) buffers: Buffers,
}

/// Memory of what one text is confirmed with.
#[derive(Debug, Default)]
pub(super) struct Scratches {
    pub(super) candidates: Vec<u32>,
    pub(super) open: Vec<u64>,
    /// A text of a stream in one piece.
    text: Vec<u8>,
    pub(super) folded: Vec<u8>,
    pub(super) folded_payload: Vec<u8>,
    pub(super) chain: ChainScratch,
    pub(super) work: Work,
    pub(super) judged: Judged,
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
        // Once for all texts: those who share rules would wait for the count of who has them.
        let engine = Arc::clone(&self.engine);
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut texts: [Vec<&[u8]>; 4] = std::mem::take(&mut scratch.texts).map(renew);
        for job in &round.jobs {
            let carried = round.head(heads, job.head).decoded.carried;
            texts[carried as usize].extend(job.texts(&round.arena));
        }
        let began = self.clock.map(|clock| clock());
        for (carried, texts) in PROTOCOLS.into_iter().zip(&texts) {
            if !engine.patterns()[carried as usize].is_empty() {
                self.work.texts += texts.len() as u64;
            }
            let sets = &mut scratch.sets[carried as usize];
            match &mut self.search {
                Some(search) => search.scan_sets(carried as usize, texts, sets),
                None => {
                    engine.scanner(carried).scan_sets(texts, &mut scratch.scan, sets);
                }
            }
        }
        if let (Some(clock), Some(began)) = (self.clock, began) {
            self.work.time += clock().saturating_sub(began);
        }
        scratch.texts = texts.map(renew);
        let mut at = [0; 4];
        for (idx, job) in round.jobs.iter().enumerate() {
            let head = round.head(heads, job.head);
            let at = &mut at[head.decoded.carried as usize];
            let sets = *at..*at + job.texts(&round.arena).count();
            *at = sets.end;
            if let Some(message) = job.message {
                let text = &round.messages[message.get() as usize - 1];
                let text = (text, &round.arena[..]);
                self.confirm_message(&engine, (job, head), text, &mut scratch);
            } else {
                self.confirm(&engine, (job, head), &round.arena, sets, &mut scratch);
                self.move_on(job);
            }
            // All texts of a packet are in one round, one behind the other.
            if round.jobs.get(idx + 1).is_none_or(|next| next.head != job.head) {
                self.tell(&engine, (job, head), &mut scratch.scratches, alerts);
            }
        }
        self.scratch = scratch;
        round.clear();
    }

    /// Confirms the candidates of one job, which are in these sets.
    fn confirm(
        &mut self,
        engine: &Engine,
        (job, head): (&Job<'_>, &Head<'_>),
        arena: &[u8],
        sets: Range<usize>,
        scratch: &mut Searched,
    ) {
        let carried = head.decoded.carried;
        let Searched { scan, sets: found, again, scratches, .. } = scratch;
        let Scratches { candidates, open, .. } = scratches;
        candidates.clear();
        if let Some(found) = job.found.filter(|_| job.searches_payload) {
            engine.candidates(carried, found, candidates);
        }
        for set in sets {
            engine.candidates(carried, found[carried as usize].of(set), candidates);
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
                engine.candidates(carried, again.of(0), candidates);
            }
            self.remember(job, text, candidates);
        }
        others(engine, job, &head.decoded, candidates);
        self.stats.candidates += candidates.len() as u64;
        engine.in_turn((&head.decoded, &job.flow), candidates, open);
        if candidates.is_empty() {
            return;
        }
        let mut text = std::mem::take(&mut scratches.text);
        let arrived = job.stream.as_ref().map(|(_, arrived)| arrived);
        let stream = arrived.map(|arrived| (self.stream_text(job, arena, &mut text), arrived));
        self.confirm_candidates(engine, (job, head), stream, scratches);
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
}

/// Adds rules without a fast pattern.
fn others(engine: &Engine, job: &Job<'_>, packet: &Decoded<'_>, candidates: &mut Vec<u32>) {
    if job.payload.is_some() {
        engine.others(packet, candidates);
    } else {
        engine.others_of_streams(packet, candidates);
    }
}
