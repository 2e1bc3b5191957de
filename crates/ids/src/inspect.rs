//! Packets in, alerts out.
//!
//! Packets are taken in their order: each is taken apart, its flow noted, and what its stream gives
//! is put into one piece of memory behind what the packets before gave. Then all these texts are
//! searched at once, and what was found is confirmed, again in order.
//!
//! # Texts
//! A rule is looked for in the payload of each packet, in windows of streams, or in both, as its
//! [`Scope`](crate::rule::Scope) says. A window is the bytes in order that a packet made available,
//! with up to [`InspectorOptions::window_bytes`] that came before them; a rule is told where
//! something of it ends among the new ones, so once.
//!
//! A window's older bytes are not searched again: rules whose fast pattern was seen in them are
//! remembered by the stream as long as they may come true.

use std::net::IpAddr;
use std::sync::Arc;

use warpswitch_scan::{PatternSets, Scratch};
use warpswitch_wire::link::LinkType;

use crate::confirm::{Answer, ChainScratch, Text, Work};
pub use crate::decode::Uninspected;
use crate::decode::{Carried, Decoded, decode};
use crate::engine::{Compiled, Engine, FlowFacts};
pub use crate::flows::Timeouts;
use crate::flows::{Flows, Seen, side};
use crate::rule::{Action, Direction, Streams};
pub use crate::stream::StreamStats;
use crate::stream::{Arrived, Bounds, PENDING_MAX};

/// Texts are searched when there are so many bytes of them.
const ARENA_BYTES: usize = 1 << 20;

/// And when there are so many texts.
const JOBS_MAX: usize = 4096;

/// Bounds of an inspector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectorOptions {
    /// The most flows at a time; beyond it those that are missed least end.
    pub flows_max: usize,
    /// The most bytes of all streams together: windows, and segments that wait.
    pub stream_bytes_max: usize,
    /// The most bytes of segments that wait, in one direction of a flow.
    pub held_bytes_max: usize,
    /// Bytes of a stream that stay at hand.
    pub window_bytes: usize,
    /// When flows end that nothing is heard of.
    pub timeouts: Timeouts,
    /// The most bytes that may be looked at to confirm what was found in one text; beyond it rules
    /// are not confirmed, which is counted.
    pub work_max: u64,
    /// The most bytes of the text that an alert keeps.
    pub payload_bytes: usize,
}

impl Default for InspectorOptions {
    fn default() -> Self {
        Self {
            flows_max: 1 << 16,
            stream_bytes_max: 128 << 20,
            held_bytes_max: 256 << 10,
            window_bytes: 2048,
            timeouts: Timeouts::default(),
            work_max: 16 << 20,
            payload_bytes: 0,
        }
    }
}

impl InspectorOptions {
    /// The most bytes that flows and streams take, whatever comes.
    pub fn bytes_max(&self) -> usize {
        self.flows_max.saturating_mul(Flows::BYTES_EACH).saturating_add(self.stream_bytes_max)
    }
}

/// A frame.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// What was captured of it.
    pub bytes: &'a [u8],
    /// Bytes on the wire, at least as many.
    pub wire_bytes: usize,
    /// How it starts.
    pub link: LinkType,
    /// Nanoseconds since 1970.
    pub timestamp_ns: u64,
}

/// A rule that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The number of the rule in its engine.
    pub rule: u32,
    /// The packet of the batch that it was found in; none where a flow ended with segments that
    /// waited.
    pub packet: Option<u32>,
    /// The number of the packet in the run, from 1.
    pub number: u64,
    /// When that was: the packet's time.
    pub timestamp_ns: u64,
    /// The number of the flow in the run, from 1.
    pub flow_id: u64,
    /// Source.
    pub src: IpAddr,
    /// Destination.
    pub dst: IpAddr,
    /// Source and destination port, of what has them.
    pub ports: Option<(u16, u16)>,
    /// IP protocol.
    pub ip_proto: u8,
    /// ICMP type and code.
    pub icmp: Option<(u8, u8)>,
    /// The VLAN.
    pub vlan: Option<u16>,
    /// Which way the packet went.
    pub direction: Direction,
    /// Whether it was found in a stream.
    pub in_stream: bool,
    /// The start of the text that it was found in.
    pub payload: Vec<u8>,
}

/// What an inspector counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets, and their captured bytes.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Packets that were not inspected, by [`Uninspected::ALL`].
    pub uninspected: [u64; 3],
    /// Packets whose payload is in the capture in part.
    pub cut: u64,
    /// Flows that began.
    pub flows: u64,
    /// TCP flows whose first packet was within a connection.
    pub flows_midstream: u64,
    /// Flows that ended as nothing was heard of them.
    pub flows_timed_out: u64,
    /// Flows that ended to make room for others.
    pub flows_evicted: u64,
    /// Flows that ended for the memory of streams.
    pub flows_evicted_for_memory: u64,
    /// What became of TCP segments.
    pub streams: StreamStats,
    /// The most bytes that streams held.
    pub stream_bytes_peak: u64,
    /// Rules that were looked at for a text.
    pub candidates: u64,
    /// Texts in which rules were not confirmed as there was too much work.
    pub work_cut: u64,
    /// Alerts that rules with `pass` took back.
    pub passed: u64,
    /// Alerts.
    pub alerts: u64,
}

/// What a text is confirmed with.
#[derive(Debug)]
struct Job {
    head: Decoded<'static>,
    flow: FlowFacts,
    flow_id: u64,
    place: u32,
    packet: Option<u32>,
    number: u64,
    timestamp_ns: u64,
    /// What is searched, in the arena.
    searched: std::ops::Range<usize>,
    /// The packet's payload in the arena.
    payload: Option<std::ops::Range<usize>>,
    /// The stream's text in the arena: where it starts.
    stream: Option<(usize, Arrived)>,
    /// Whether no text of the stream has the payload: rules of streams are looked for in it alone.
    is_aside: bool,
}

/// Who searches texts in the place of the engine's own scanners: on a device, say.
pub trait Search: std::fmt::Debug + Send {
    /// Writes to `sets` which patterns of group `group` of [`Engine::patterns`] occur in each text,
    /// just as [`warpswitch_scan::Scanner::scan_sets`] does.
    fn scan_sets(&mut self, group: usize, texts: &[&[u8]], sets: &mut PatternSets);
}

/// Inspects packets with an engine. Threads: one at a time.
#[derive(Debug)]
pub struct Inspector {
    engine: Arc<Engine>,
    options: InspectorOptions,
    flows: Flows,
    stream_bytes: usize,
    now_ns: u64,
    stats: Stats,
    by_rule: Vec<u64>,
    arena: Vec<u8>,
    jobs: Vec<Job>,
    /// The number of the search that texts wait for, from 1.
    searches: u64,
    scratch: Searched,
    search: Option<Box<dyn Search>>,
}

/// Memory of searches.
#[derive(Debug, Default)]
struct Searched {
    scan: Scratch,
    sets: [PatternSets; 4],
    again: PatternSets,
    candidates: Vec<u32>,
    folded: Vec<u8>,
    folded_payload: Vec<u8>,
    chain: ChainScratch,
}

const PROTOCOLS: [Carried; 4] = [Carried::Tcp, Carried::Udp, Carried::Icmp, Carried::Other];

impl Inspector {
    /// An inspector that has seen nothing.
    pub fn new(engine: Arc<Engine>, options: InspectorOptions) -> Self {
        let by_rule = vec![0; engine.rules().len()];
        Self {
            engine,
            options,
            flows: Flows::new(),
            stream_bytes: 0,
            now_ns: 0,
            stats: Stats::default(),
            by_rule,
            arena: Vec::new(),
            jobs: Vec::new(),
            searches: 1,
            scratch: Searched::default(),
            search: None,
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Its bounds.
    pub fn options(&self) -> &InspectorOptions {
        &self.options
    }

    /// Has texts searched by `search` from now on.
    pub fn search_by(&mut self, search: Box<dyn Search>) {
        self.search = Some(search);
    }

    /// What was counted.
    pub fn stats(&self) -> Stats {
        let (flows, flows_midstream) = (self.flows.created, self.flows.midstream);
        Stats { flows, flows_midstream, ..self.stats.clone() }
    }

    /// Alerts of each rule, by its number.
    pub fn alerts_by_rule(&self) -> &[u64] {
        &self.by_rule
    }

    /// The time of the latest packet.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Flows at the moment.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Bytes that streams hold at the moment.
    pub fn stream_bytes(&self) -> usize {
        self.stream_bytes
    }

    /// The most texts that waited to be searched.
    #[cfg(test)]
    pub(crate) fn texts_peak(&self) -> usize {
        self.jobs.capacity()
    }

    /// Takes over the flows, streams and counts of another inspector, whose rules may be others:
    /// those with the same `gid` and `sid` keep their counts.
    pub fn take_flows(&mut self, old: &mut Inspector) {
        old.flows.forget_rules();
        let known = |rule: &crate::Rule| (rule.about.gid, rule.about.sid);
        let counts: std::collections::HashMap<(u32, u32), u64> =
            old.engine.rules().map(known).zip(old.by_rule.iter().copied()).collect();
        for (rule, count) in self.engine.rules().zip(&mut self.by_rule) {
            *count += counts.get(&known(rule)).copied().unwrap_or(0);
        }
        self.flows = std::mem::replace(&mut old.flows, Flows::new());
        self.stream_bytes = std::mem::take(&mut old.stream_bytes);
        self.now_ns = old.now_ns;
        self.stats = std::mem::take(&mut old.stats);
    }

    /// Inspects packets, in their order. Adds what was found, in the order of the packets, for one
    /// packet in the order of the rules.
    ///
    /// Cost: a packet's payload is searched once, and once more where it does not come in order;
    /// confirming is bounded by [`InspectorOptions::work_max`] for each text.
    pub fn inspect<'p>(
        &mut self,
        packets: impl IntoIterator<Item = Packet<'p>>,
        alerts: &mut Vec<Alert>,
    ) {
        for (idx, packet) in packets.into_iter().enumerate() {
            self.take(idx as u32, &packet, alerts);
            self.search_if_many(alerts);
        }
        self.search(alerts);
    }

    /// Ends all flows: segments that wait are inspected as they are.
    pub fn finish(&mut self, alerts: &mut Vec<Alert>) {
        while let Some(place) = self.flows.least(None) {
            self.end_flow(place, alerts);
        }
        self.search(alerts);
    }

    /// Searches what there is if there is much: texts that wait for it are bounded by that and by
    /// what one flow gives.
    fn search_if_many(&mut self, alerts: &mut Vec<Alert>) {
        if self.arena.len() >= ARENA_BYTES || self.jobs.len() >= JOBS_MAX {
            self.search(alerts);
        }
    }

    fn take(&mut self, idx: u32, packet: &Packet<'_>, alerts: &mut Vec<Alert>) {
        self.stats.packets += 1;
        self.stats.bytes += packet.bytes.len() as u64;
        // Times may go back where a capture was merged: flows end by the latest one.
        self.now_ns = self.now_ns.max(packet.timestamp_ns);
        let decoded = match decode(packet.link, packet.bytes, packet.wire_bytes) {
            Ok(decoded) => decoded,
            Err(reason) => {
                self.stats.uninspected[reason as usize] += 1;
                return;
            }
        };
        self.stats.cut += u64::from(decoded.payload_wire_bytes > decoded.payload.len());
        while let Some(place) = self.flows.timed_out(self.now_ns, &self.options.timeouts) {
            self.stats.flows_timed_out += 1;
            self.end_flow(place, alerts);
        }
        let place = self.place_of(&decoded, alerts);
        let seen = self.flows.note(place, &decoded, self.now_ns);
        let meta = (Some(idx), packet.timestamp_ns);
        match decoded.carried {
            Carried::Tcp => self.take_tcp(&decoded, &seen, meta),
            _ => {
                let start = self.arena.len();
                self.arena.extend_from_slice(decoded.payload);
                let payload = start..self.arena.len();
                self.add_job(&decoded, &seen, meta, payload.clone(), Some(payload), None);
            }
        }
        while self.stream_bytes > self.options.stream_bytes_max {
            let Some(least) = self.flows.least(Some(place)) else { break };
            self.stats.flows_evicted_for_memory += 1;
            self.end_flow(least, alerts);
        }
    }

    /// The place of a packet's flow, which may begin with it.
    fn place_of(&mut self, packet: &Decoded<'_>, alerts: &mut Vec<Alert>) -> u32 {
        if let Some(place) = self.flows.find(packet) {
            if !self.flows.is_anew(place, packet) {
                return place;
            }
            self.end_flow(place, alerts);
        }
        while self.flows.len() >= self.options.flows_max.max(1) {
            let Some(least) = self.flows.least(None) else { break };
            self.stats.flows_evicted += 1;
            self.end_flow(least, alerts);
        }
        self.flows.insert(packet, self.now_ns)
    }

    /// Adds the texts that a TCP packet gives.
    fn take_tcp(&mut self, packet: &Decoded<'_>, seen: &Seen, meta: (Option<u32>, u64)) {
        const SYN: u16 = 0x02;
        const ACK: u16 = 0x10;
        let bounds = self.bounds();
        let flow = self.flows.get_mut(seen.place);
        let before = flow.bytes();
        let (mine, other) = (side(seen.direction), 1 - side(seen.direction));
        let stats = &mut self.stats.streams;
        let mut start = self.arena.len();
        // What the other side has must not be waited for any more.
        if packet.tcp.flags & ACK != 0 {
            let half = &mut flow.halves[other];
            if let Some(text) = half.acknowledge(packet.tcp.ack, &bounds, &mut self.arena, stats) {
                self.add_stream_job(seen.place, 1 - side(seen.direction), start, text, meta.1);
                start = self.arena.len();
            }
        }
        let flow = self.flows.get_mut(seen.place);
        let half = &mut flow.halves[mine];
        let (mut arrived, mut is_aside) = (None, false);
        if packet.payload_wire_bytes > 0 && packet.tcp.flags & 0x04 == 0 {
            let is_syn = packet.tcp.flags & SYN != 0;
            let seq = packet.tcp.seq.wrapping_add(u32::from(is_syn));
            let stats = &mut self.stats.streams;
            is_aside = half.misses(seq, packet.payload.len());
            arrived = half.take(seq, packet.payload, &bounds, &mut self.arena, stats);
            if arrived.is_some() {
                let missing = packet.payload_wire_bytes - packet.payload.len();
                half.lose(seq.wrapping_add(packet.payload.len() as u32), missing, stats);
            }
        }
        self.stream_bytes = (self.stream_bytes + flow.bytes()).saturating_sub(before);
        self.stats.stream_bytes_peak = self.stats.stream_bytes_peak.max(self.stream_bytes as u64);
        self.add_tcp_jobs(packet, seen, meta, start, arrived);
        if is_aside && let Some(job) = self.job_of_payload(meta.0) {
            job.is_aside = true;
        }
        if seen.is_reset {
            self.flush(seen.place);
        }
    }

    /// One job where the payload is what is new in the stream; two where it is not.
    fn add_tcp_jobs(
        &mut self,
        packet: &Decoded<'_>,
        seen: &Seen,
        meta: (Option<u32>, u64),
        start: usize,
        arrived: Option<Arrived>,
    ) {
        let len = packet.payload.len();
        if let Some(text) = arrived {
            let new = start + text.from;
            let payload = new..(new + len).min(self.arena.len());
            if self.arena[payload.clone()] == *packet.payload {
                let searched = self.searched_of(seen.place, side(seen.direction), start, &text);
                let searched = searched.start.min(payload.start)..searched.end;
                self.add_job(packet, seen, meta, searched, Some(payload), Some((start, text)));
                return;
            }
        }
        let at = self.arena.len();
        self.arena.extend_from_slice(packet.payload);
        let payload = at..self.arena.len();
        self.add_job(packet, seen, meta, payload.clone(), Some(payload), None);
        if let Some(text) = arrived {
            let searched = self.searched_of(seen.place, side(seen.direction), start, &text);
            self.add_job(packet, seen, meta, searched, None, Some((start, text)));
        }
    }

    /// The job that has the payload of a packet, which came last.
    fn job_of_payload(&mut self, packet: Option<u32>) -> Option<&mut Job> {
        let mut of_packet = self.jobs.iter_mut().rev().take_while(|job| job.packet == packet);
        of_packet.find(|job| job.payload.is_some())
    }

    /// What of a stream's text must be searched: patterns that end among the new bytes.
    fn searched_of(
        &mut self,
        place: u32,
        half: usize,
        start: usize,
        text: &Arrived,
    ) -> std::ops::Range<usize> {
        let end = start + text.bytes;
        if self.flows.get_mut(place).halves[half].is_pending_full {
            return start..end;
        }
        let reach = self.engine.scanner(Carried::Tcp).longest_bytes().saturating_sub(1);
        start + text.from.saturating_sub(reach)..end
    }

    fn add_job(
        &mut self,
        packet: &Decoded<'_>,
        seen: &Seen,
        meta: (Option<u32>, u64),
        searched: std::ops::Range<usize>,
        payload: Option<std::ops::Range<usize>>,
        stream: Option<(usize, Arrived)>,
    ) {
        let flow = FlowFacts { direction: seen.direction, is_established: seen.is_established };
        let of_flow = self.flows.get_mut(seen.place);
        of_flow.search = self.searches;
        let flow_id = of_flow.id;
        self.jobs.push(Job {
            head: Decoded { payload: &[], ..*packet },
            flow,
            flow_id,
            place: seen.place,
            packet: meta.0,
            number: self.stats.packets,
            timestamp_ns: meta.1,
            searched,
            payload,
            stream,
            is_aside: false,
        });
    }

    /// A text of a stream without a packet of its own direction.
    fn add_stream_job(
        &mut self,
        place: u32,
        half: usize,
        start: usize,
        text: Arrived,
        timestamp_ns: u64,
    ) {
        let searched = self.searched_of(place, half, start, &text);
        let flow = self.flows.get_mut(place);
        let (mut head, direction) = flow.template;
        let wanted = if half == 0 { Direction::ToServer } else { Direction::ToClient };
        if direction != wanted {
            (head.src, head.dst) = (head.dst, head.src);
            (head.src_number, head.dst_number) = (head.dst_number, head.src_number);
            (head.src_port, head.dst_port) = (head.dst_port, head.src_port);
        }
        let seen = Seen {
            place,
            direction: wanted,
            is_established: flow.is_established(),
            is_reset: false,
        };
        self.add_job(&head, &seen, (None, timestamp_ns), searched, None, Some((start, text)));
    }

    fn bounds(&self) -> Bounds {
        let (window_bytes, held_bytes) = (self.options.window_bytes, self.options.held_bytes_max);
        Bounds { window_bytes, held_bytes }
    }

    /// Adds what waits in both directions of a flow.
    fn flush(&mut self, place: u32) {
        let bounds = self.bounds();
        for half in 0..2 {
            loop {
                let start = self.arena.len();
                let flow = self.flows.get_mut(place);
                let before = flow.bytes();
                let stats = &mut self.stats.streams;
                let text = flow.halves[half].flush(&bounds, &mut self.arena, stats);
                self.stream_bytes = (self.stream_bytes + flow.bytes()).saturating_sub(before);
                let Some(text) = text else { break };
                self.add_stream_job(place, half, start, text, self.now_ns);
            }
        }
    }

    /// Ends a flow. Its texts that wait are searched before: a text may need the rules that its
    /// stream remembers from another one, however packets are cut into batches.
    fn end_flow(&mut self, place: u32, alerts: &mut Vec<Alert>) {
        self.flush(place);
        if self.flows.get_mut(place).search == self.searches {
            self.search(alerts);
        }
        let flow = self.flows.get_mut(place);
        self.stream_bytes = self.stream_bytes.saturating_sub(flow.bytes());
        self.flows.remove(place);
    }

    /// Searches all texts and confirms what was found.
    fn search(&mut self, alerts: &mut Vec<Alert>) {
        self.searches += 1;
        let mut jobs = std::mem::take(&mut self.jobs);
        let mut scratch = std::mem::take(&mut self.scratch);
        let arena = std::mem::take(&mut self.arena);
        for carried in PROTOCOLS {
            let of_it = jobs.iter().filter(|job| job.head.carried == carried);
            let texts: Vec<&[u8]> = of_it.map(|job| &arena[job.searched.clone()]).collect();
            let sets = &mut scratch.sets[carried as usize];
            match &mut self.search {
                Some(search) => search.scan_sets(carried as usize, &texts, sets),
                None => {
                    self.engine.scanner(carried).scan_sets(&texts, &mut scratch.scan, sets);
                }
            }
        }
        let mut places = [0; 4];
        for job in &jobs {
            let place = &mut places[job.head.carried as usize];
            self.confirm(job, &arena, *place, &mut scratch, alerts);
            *place += 1;
        }
        jobs.clear();
        self.jobs = jobs;
        self.scratch = scratch;
        self.arena = arena;
        self.arena.clear();
    }

    /// Confirms the candidates of one job.
    fn confirm(
        &mut self,
        job: &Job,
        arena: &[u8],
        set: usize,
        scratch: &mut Searched,
        alerts: &mut Vec<Alert>,
    ) {
        let carried = job.head.carried;
        scratch.candidates.clear();
        let sets = &scratch.sets[carried as usize];
        self.engine.candidates(carried, sets, set, &mut scratch.candidates);
        if let Some((start, text)) = &job.stream {
            let whole = *start..start + text.bytes;
            let flow = self.flows.of_id(job.place, job.flow_id);
            let half = flow.map(|flow| &mut flow.halves[side(job.flow.direction)]);
            if half.is_some_and(|half| half.is_pending_full) && job.searched != whole {
                // It became full while this job waited: the whole window counts.
                let scanner = self.engine.scanner(carried);
                scanner.scan_sets(&[&arena[whole]], &mut scratch.scan, &mut scratch.again);
                scratch.candidates.clear();
                self.engine.candidates(carried, &scratch.again, 0, &mut scratch.candidates);
            }
            self.remember(job, text, &mut scratch.candidates);
        }
        if job.payload.is_some() {
            self.engine.others(&job.head, &mut scratch.candidates);
        } else {
            self.engine.others_of_streams(&job.head, &mut scratch.candidates);
        }
        scratch.candidates.sort_unstable();
        scratch.candidates.dedup();
        if scratch.candidates.is_empty() {
            return;
        }
        self.stats.candidates += scratch.candidates.len() as u64;
        self.confirm_candidates(job, arena, scratch, alerts);
    }

    /// Adds the rules that the stream remembers, and lets it remember those that may still come
    /// true.
    fn remember(&mut self, job: &Job, text: &Arrived, candidates: &mut Vec<u32>) {
        let Some(flow) = self.flows.of_id(job.place, job.flow_id) else { return };
        let half = &mut flow.halves[side(job.flow.direction)];
        let window_start = text.end - text.bytes as u64;
        half.pending.retain(|&(_, end)| end > window_start);
        if std::mem::take(&mut half.is_pending_full) {
            // All of the window was searched: what counts is what was found there.
            half.pending.clear();
        }
        let found = candidates.len();
        candidates.extend(half.pending.iter().map(|&(rule, _)| rule));
        for &rule in &candidates[..found] {
            let compiled = &self.engine.compiled[rule as usize];
            if compiled.scope.streams == Streams::No || !compiled.needs_more {
                continue;
            }
            match half.pending.iter().position(|pending| pending.0 == rule) {
                Some(place) => half.pending[place].1 = text.end,
                None if half.pending.len() < PENDING_MAX => half.pending.push((rule, text.end)),
                None => half.is_pending_full = true,
            }
        }
    }

    fn confirm_candidates(
        &mut self,
        job: &Job,
        arena: &[u8],
        scratch: &mut Searched,
        alerts: &mut Vec<Alert>,
    ) {
        let payload = job.payload.clone().map(|range| &arena[range]);
        let stream = job.stream.map(|(start, text)| (&arena[start..start + text.bytes], text));
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
            job.packet.is_some() && (alert.number, alert.packet) == (job.number, job.packet)
        });
        let mut told: Vec<u32> = others.map(|alert| alert.rule).collect();
        told.reverse();
        for &rule in &scratch.candidates {
            let compiled = &engine.compiled[rule as usize];
            if !compiled.allows(&job.head, &job.flow) {
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
                alerts.push(self.alert(rule, job, in_stream, text));
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

    fn alert(&self, rule: u32, job: &Job, in_stream: bool, text: &[u8]) -> Alert {
        let head = &job.head;
        let has_ports = matches!(head.carried, Carried::Tcp | Carried::Udp)
            || (head.src_port, head.dst_port) != (0, 0);
        Alert {
            rule,
            packet: job.packet,
            number: job.number,
            timestamp_ns: job.timestamp_ns,
            flow_id: job.flow_id,
            src: head.src,
            dst: head.dst,
            ports: has_ports.then_some((head.src_port, head.dst_port)),
            ip_proto: head.ip_proto,
            icmp: head.icmp,
            vlan: head.vlan,
            direction: job.flow.direction,
            in_stream,
            payload: text[..text.len().min(self.options.payload_bytes)].to_vec(),
        }
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
