//! Packets in, alerts out.
//!
//! Packets are taken in their order: each is taken apart, its flow noted, and the texts that it and
//! its stream give are put behind those of the packets before. Then all these texts are searched at
//! once, and what was found is confirmed, again in order.
//!
//! ```text
//! some packets ─► take apart, ask for lines of the table ─► ask for records of flows
//!              ─► one by one: flow, stream, texts ─► search of all ─► confirm, move windows on
//! ```
//!
//! # What is copied
//! A payload is searched where it lies in its frame. Where a segment is what comes next in its
//! stream, only its *seam* is put together, as many of the stream's last bytes as the longest
//! pattern has and as many of its own; the stream's window moves on after the search, so that
//! confirming still has what was before. All else, segments that come out of order above all, is
//! copied into the round's memory.
//!
//! # Searched ahead
//! Whoever knows what occurs in a payload says so ([`Packet::found`]): it is not searched again
//! then, but for its seam. So a device can search payloads while flows are not known yet.
//!
//! # Fragments
//! The packet that a fragment completes takes its place: packets before it are searched, then it is
//! inspected by itself, then go on those behind it.
//!
//! # Texts
//! A rule is looked for in the payload of each packet, in windows of streams, or in both, as its
//! [`Scope`](crate::rule::Scope) says. A window is the bytes in order that a packet made available,
//! with up to [`InspectorOptions::window_bytes`] that came before them; a rule is told where
//! something of it ends among the new ones, so once.
//!
//! Rules about buffers are looked for in messages, which streams have: in the head when that is
//! whole, and in the body.
//!
//! A window's older bytes are not searched again: rules whose fast pattern was seen in them are
//! remembered by the stream as long as they may come true.

mod broken;
mod judge;
mod messages;
mod round;
mod search;
mod take;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use warpswitch_scan::{PatternId, PatternSets};
use warpswitch_wire::link::LinkType;

pub use crate::decode::Uninspected;
use crate::decode::{
    Carried, Decoded, NO_VLAN, decode, decode_fragment, decode_network, decode_payload,
    decode_whole,
};
use crate::engine::Engine;
use crate::flowbits::BitTable;
use crate::flows::Flows;
pub use crate::flows::Timeouts;
pub use crate::fragments::FragmentStats;
use crate::fragments::{Fragments, Whole};
use crate::rule::Direction;
pub use crate::stream::StreamStats;
use crate::threshold::{Threshold, Windows};
use broken::BrokenPacket;
pub(crate) use judge::fold;
pub(crate) use round::renew;
use round::{Head, Next, Round};
use search::Searched;

/// Texts are searched when there are so many bytes of them.
const TEXTS_BYTES: usize = 1 << 20;

/// And when there are so many texts: for somebody else, who may be far away; or for the engine's
/// own scanners, before what waits leaves the second cache.
const JOBS_MAX: usize = 4096;
const OWN_JOBS_MAX: usize = 256;

/// Packets that are taken apart before the first of them is looked at: as many lines as a core has
/// on their way, and no more than its first cache holds.
const AHEAD: usize = 32;

/// Windows are asked for so many packets ahead, when the records that name them are there.
const WINDOWS_AHEAD: usize = 3;

/// Bounds of an inspector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectorOptions {
    /// The most flows at a time; beyond it those that are missed least end.
    pub flows_max: usize,
    /// The most bytes of all streams together: windows, segments that wait, and messages.
    pub stream_bytes_max: usize,
    /// The most bytes of fragments whose packets are not whole; beyond it the oldest are given up.
    pub fragment_bytes_max: usize,
    /// The most bytes of segments that wait, in one direction of a flow.
    pub held_bytes_max: usize,
    /// Bytes of a stream that stay at hand; as many as rules can use if none are named, and at most
    /// [`WINDOW_BYTES_MAX`].
    pub window_bytes: Option<usize>,
    /// When flows end that nothing is heard of.
    pub timeouts: Timeouts,
    /// The most bytes that may be looked at to confirm what was found in one text; beyond it rules
    /// are not confirmed, which is counted.
    pub work_max: u64,
    /// The most windows of time of rules with a threshold; beyond it the one that was used longest
    /// ago is forgotten.
    pub thresholds_max: usize,
    /// The most bytes of the text that an alert keeps.
    pub payload_bytes: usize,
}

impl Default for InspectorOptions {
    fn default() -> Self {
        Self {
            flows_max: 1 << 16,
            stream_bytes_max: 128 << 20,
            fragment_bytes_max: 4 << 20,
            held_bytes_max: 256 << 10,
            window_bytes: None,
            timeouts: Timeouts::default(),
            work_max: 16 << 20,
            thresholds_max: 1 << 16,
            payload_bytes: 0,
        }
    }
}

/// A bound that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddBound {
    /// The field of [`InspectorOptions`].
    pub field: &'static str,
    /// What it may be.
    pub expected: String,
}

/// Bytes of a stream that stay at hand where a rule has no bound.
pub const WINDOW_BYTES_MAX: usize = 2048;

/// The most bytes of an IP packet: as much is held of fragments beyond their bound at most.
const IP_BYTES_MAX: usize = 1 << 16;

/// The most flows that may be asked for.
pub const FLOWS_MAX: usize = 1 << 30;

impl InspectorOptions {
    /// Sees to it that flows can be found and streams kept within these bounds. An inspector takes
    /// any: with less its flows end as they begin.
    ///
    /// # Errors
    /// The first bound that is odd.
    pub fn check(&self) -> Result<(), OddBound> {
        let odd = |field, expected| Err(OddBound { field, expected });
        let (flows, window) = (self.flows_max, self.window_bytes.unwrap_or(WINDOW_BYTES_MAX));
        if !(1..=FLOWS_MAX).contains(&flows) {
            return odd("flows_max", format!("a number from 1 to {FLOWS_MAX}"));
        }
        if self.stream_bytes_max < window.max(1) {
            let expected = format!("at least the window of one stream, {} bytes", window.max(1));
            return odd("stream_bytes_max", expected);
        }
        Ok(())
    }

    /// The most bytes that flows, streams and fragments take, whatever comes, where no rule names
    /// bits.
    pub fn bytes_max(&self) -> usize {
        let flows = self.flows_max.saturating_mul(Flows::BYTES_EACH);
        // Of a packet that became whole there is a copy, until it was inspected.
        let fragments = self.fragment_bytes_max.saturating_add(2 * IP_BYTES_MAX);
        flows.saturating_add(self.stream_bytes_max).saturating_add(fragments)
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
    /// What a search of its [`payload`] found before, where somebody made one.
    pub found: Option<Found<'a>>,
}

/// What a search of a packet's payload found before.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// All patterns of its group that occur, each once.
    pub patterns: &'a [PatternId],
    /// What was searched, if that may be something else than what is the payload now; where it is,
    /// the payload is searched anew.
    pub place: Option<PayloadPlace>,
}

/// What of a packet's bytes is a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadPlace {
    /// The group of [`Engine::patterns`].
    pub group: usize,
    /// Where in the packet's bytes it begins.
    pub start: usize,
    /// How long it is.
    pub bytes: usize,
}

impl PayloadPlace {
    pub(crate) fn of(packet: &[u8], decoded: &Decoded<'_>) -> Self {
        let (group, payload) = (decoded.carried as usize, decoded.payload);
        let start = payload.as_ptr().addr().wrapping_sub(packet.as_ptr().addr());
        Self { group, start, bytes: payload.len() }
    }
}

/// Where the payload of a packet is; `None` if the packet has none that is inspected. Whoever
/// searches it ahead tells what was found in [`Packet::found`].
#[inline]
pub fn payload_place(packet: &Packet<'_>) -> Option<PayloadPlace> {
    Some(captured_payload(packet)?.0)
}

/// The same, and whether all of the payload was captured.
#[inline(always)]
pub fn captured_payload(packet: &Packet<'_>) -> Option<(PayloadPlace, bool)> {
    let found = decode_payload(packet.link, packet.bytes, packet.wire_bytes).ok()?;
    let (carried, start, bytes, is_whole) = found;
    Some((PayloadPlace { group: carried as usize, start, bytes }, is_whole))
}

/// The payload of a packet, and the group of [`Engine::patterns`] that is looked for in it.
pub fn payload<'a>(packet: &Packet<'a>) -> Option<(usize, &'a [u8])> {
    let decoded = decode(packet.link, packet.bytes, packet.wire_bytes).ok()?;
    Some((decoded.carried as usize, decoded.payload))
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
    /// The number of the flow in the run, from 1; 0 without flows.
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
    /// The VLANs of the outermost tag and of the next.
    pub vlans: [Option<u16>; 2],
    /// Which way the packet went.
    pub direction: Direction,
    /// Whether it was found in a stream.
    pub in_stream: bool,
    /// The start of the text that it was found in.
    pub payload: Vec<u8>,
}

impl Alert {
    /// An alert of a rule in a packet without a flow; the caller sets what the headers do not have.
    pub(crate) fn of_packet(rule: u32, packet: &Decoded<'_>) -> Self {
        let has_ports = matches!(packet.carried, Carried::Tcp | Carried::Udp)
            || (packet.src_port, packet.dst_port) != (0, 0);
        Self {
            rule,
            packet: None,
            number: 0,
            timestamp_ns: 0,
            flow_id: 0,
            src: packet.src(),
            dst: packet.dst(),
            ports: has_ports.then_some((packet.src_port, packet.dst_port)),
            ip_proto: packet.ip_proto,
            icmp: packet.icmp,
            vlans: packet.vlans.map(|vlan| (vlan != NO_VLAN).then_some(vlan)),
            direction: Direction::ToServer,
            in_stream: false,
            payload: Vec::new(),
        }
    }
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
    /// What became of fragments.
    pub fragments: FragmentStats,
    /// What became of TCP segments.
    pub streams: StreamStats,
    /// The most bytes that streams held.
    pub stream_bytes_peak: u64,
    /// Requests of HTTP whose heads were looked at.
    pub http_requests: u64,
    /// Responses, the same.
    pub http_responses: u64,
    /// Sides that spoke HTTP and were not looked at any more before their stream ended.
    pub http_given_up: u64,
    /// Rules that were looked at for a text.
    pub candidates: u64,
    /// Texts in which rules were not confirmed as there was too much work.
    pub work_cut: u64,
    /// Alerts that rules with `pass` took back.
    pub passed: u64,
    /// Alerts that thresholds kept quiet.
    pub suppressed: u64,
    /// Windows of thresholds that were forgotten for others.
    pub thresholds_evicted: u64,
    /// Alerts.
    pub alerts: u64,
}

/// What searching took of an inspector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchWork {
    /// Payloads of which it was known before what occurs in them.
    pub known: u64,
    /// Texts that were searched.
    pub texts: u64,
    /// How long that took, if somebody gave a clock.
    pub time: Duration,
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
    /// Bytes of a stream that stay at hand.
    window_bytes: usize,
    flows: Flows,
    fragments: Fragments,
    /// A packet that a fragment has just completed.
    whole: Option<Completed>,
    /// A packet without a readable transport header in which rules were just found.
    broken: Option<BrokenPacket>,
    stream_bytes: usize,
    now_ns: u64,
    stats: Stats,
    by_rule: Vec<u64>,
    /// What thresholds count.
    windows: Windows,
    /// The number of the packet at hand, from 1.
    number: u64,
    /// Memory of what waits; nothing does between calls.
    round: Round<'static>,
    heads: Vec<Head<'static>>,
    nexts: Vec<Next>,
    /// The number of the search that texts wait for, from 1.
    searches: u64,
    scratch: Searched,
    search: Option<Box<dyn Search>>,
    /// What tells the time for `work`.
    clock: Option<fn() -> Duration>,
    work: SearchWork,
}

/// A packet that was put together, and the last of its fragments.
#[derive(Debug)]
struct Completed {
    whole: Whole,
    /// The packet of the batch.
    packet: u32,
    timestamp_ns: u64,
}

/// The numbers in `to` of those rules of `from` that have the same threshold there.
fn same_thresholds(from: &Engine, to: &Engine) -> HashMap<u32, u32> {
    let counted = |engine: &Engine| -> Vec<((u32, u32, Threshold), u32)> {
        let rules = engine.rules().zip(0..);
        let key = |rule: &crate::Rule| Some((rule.about.gid, rule.about.sid, rule.threshold?));
        rules.filter_map(|(rule, idx)| Some((key(rule)?, idx))).collect()
    };
    let to: HashMap<(u32, u32, Threshold), u32> = counted(to).into_iter().collect();
    let known = counted(from).into_iter();
    known.filter_map(|(key, idx)| Some((idx, *to.get(&key)?))).collect()
}

impl Inspector {
    /// An inspector that has seen nothing.
    pub fn new(engine: Arc<Engine>, options: InspectorOptions) -> Self {
        let by_rule = vec![0; engine.rules().len()];
        let flows = Flows::new(engine.bit_names().len());
        let windows = Windows::new(options.thresholds_max);
        // What ends among new bytes begins at most so many before them.
        let used = engine.reach().map_or(usize::MAX, |reach| reach.saturating_sub(1));
        let window_bytes = options.window_bytes.unwrap_or(used.min(WINDOW_BYTES_MAX));
        Self {
            engine,
            options,
            window_bytes,
            flows,
            fragments: Fragments::default(),
            whole: None,
            broken: None,
            stream_bytes: 0,
            now_ns: 0,
            stats: Stats::default(),
            by_rule,
            windows,
            number: 0,
            round: Round::default(),
            heads: Vec::new(),
            nexts: Vec::new(),
            searches: 1,
            scratch: Searched::default(),
            search: None,
            clock: None,
            work: SearchWork::default(),
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

    /// Has texts searched by `search` from now on; by the engine's own scanners if that is none.
    pub fn search_by(&mut self, search: Option<Box<dyn Search>>) {
        self.search = search;
    }

    /// Has searches timed from now on. `clock` tells the time since some moment that stays the
    /// same.
    pub fn time_searches(&mut self, clock: fn() -> Duration) {
        self.clock = Some(clock);
    }

    /// What searching took so far.
    pub fn search_work(&self) -> SearchWork {
        self.work
    }

    /// What was counted.
    pub fn stats(&self) -> Stats {
        let (flows, flows_midstream) = (self.flows.created, self.flows.midstream);
        let thresholds_evicted = self.windows.evicted;
        let fragments = self.fragments.stats();
        let mut uninspected = self.stats.uninspected;
        uninspected[Uninspected::Fragment as usize] += self.fragments.lost;
        let counted = self.stats.clone();
        Stats { flows, flows_midstream, thresholds_evicted, fragments, uninspected, ..counted }
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

    /// Bytes that fragments take at the moment.
    pub fn fragment_bytes(&self) -> usize {
        self.fragments.bytes()
    }

    /// The most texts that waited to be searched.
    #[cfg(test)]
    pub(crate) fn texts_peak(&self) -> usize {
        self.round.jobs.capacity()
    }

    /// The most bytes that flows and streams take, whatever comes: as
    /// [`InspectorOptions::bytes_max`] says, the bits of flows that the rules name, and the windows
    /// of thresholds, if rules have any.
    pub fn bytes_max(&self) -> usize {
        let bits = BitTable::bytes_each(self.engine.bit_names().len());
        let bits = self.options.flows_max.saturating_mul(bits);
        let has_thresholds = self.engine.rules().any(|rule| rule.threshold.is_some());
        let windows = if has_thresholds { self.options.thresholds_max.max(1) } else { 0 };
        let windows = windows.saturating_mul(Windows::BYTES_EACH);
        self.options.bytes_max().saturating_add(bits).saturating_add(windows)
    }

    /// Takes over the flows, streams and counts of another inspector, whose rules may be others:
    /// those with the same `gid` and `sid` keep their counts, and what a threshold counts that both
    /// have; bits of flows those stay whose names both know.
    pub fn take_flows(&mut self, old: &mut Inspector) {
        old.flows.forget_rules();
        let known = |rule: &crate::Rule| (rule.about.gid, rule.about.sid);
        let counts: HashMap<(u32, u32), u64> =
            old.engine.rules().map(known).zip(old.by_rule.iter().copied()).collect();
        for (rule, count) in self.engine.rules().zip(&mut self.by_rule) {
            *count += counts.get(&known(rule)).copied().unwrap_or(0);
        }
        let (old_names, names) = (old.engine.bit_names(), self.engine.bit_names());
        self.flows = std::mem::replace(&mut old.flows, Flows::new(old_names.len()));
        self.flows.bits = self.flows.bits.renamed(old_names, names);
        self.flows.forget_timeouts();
        self.fragments = std::mem::take(&mut old.fragments);
        self.windows.take(&old.windows, &same_thresholds(&old.engine, &self.engine));
        old.windows = Windows::new(old.options.thresholds_max);
        self.stream_bytes = std::mem::take(&mut old.stream_bytes);
        self.now_ns = old.now_ns;
        self.stats = std::mem::take(&mut old.stats);
        self.number = old.number;
    }

    /// Inspects packets, in their order. Adds what was found, in the order of the packets, for one
    /// packet in the order of the rules; behind that, message by message, what messages hold.
    ///
    /// Cost: a packet's payload is searched once, and once more where it does not come in order;
    /// confirming is bounded by [`InspectorOptions::work_max`] for each text.
    pub fn inspect<'p>(
        &mut self,
        packets: impl IntoIterator<Item = Packet<'p>>,
        alerts: &mut Vec<Alert>,
    ) {
        let mut packets = packets.into_iter().zip(0..);
        self.inspect_whole_ones(&mut packets, alerts);
        loop {
            if let Some(completed) = self.whole.take() {
                self.inspect_completed(&completed, alerts);
            } else if let Some(broken) = self.broken.take() {
                self.report_broken(&broken, alerts);
            } else {
                break;
            }
            self.inspect_whole_ones(&mut packets, alerts);
        }
    }

    /// Inspects packets up to a fragment that completes one, a broken one that rules match, or the
    /// end.
    fn inspect_whole_ones<'p>(
        &mut self,
        packets: &mut impl Iterator<Item = (Packet<'p>, u32)>,
        alerts: &mut Vec<Alert>,
    ) {
        let mut round = std::mem::take(&mut self.round).renew();
        let mut heads = renew(std::mem::take(&mut self.heads));
        while self.whole.is_none() && self.broken.is_none() {
            let Some(packet) = packets.next() else { break };
            if round.jobs.is_empty() {
                heads.clear();
            }
            let first = heads.len();
            let some = std::iter::once(packet).chain(packets.by_ref().take(AHEAD - 1));
            let now_ns = self.read(some, &mut heads);
            for idx in first..heads.len() {
                self.take(&heads, idx, self.nexts[idx - first], &mut round, alerts);
                if let Some(next) = self.nexts.get(idx - first + WINDOWS_AHEAD) {
                    self.flows.prefetch_window(next.hint, &next.address);
                    heads[idx + WINDOWS_AHEAD].prefetch_end();
                }
                self.search_if_many(&heads, &mut round, alerts);
            }
            (self.now_ns, self.number) = (now_ns, self.stats.packets);
        }
        self.search(&heads, &mut round, alerts);
        self.round = round.renew();
        self.heads = renew(heads);
    }

    /// Inspects a packet that was put together, in the place of the fragment that completed it.
    fn inspect_completed(&mut self, completed: &Completed, alerts: &mut Vec<Alert>) {
        let Completed { whole, packet, timestamp_ns } = completed;
        let decoded = match decode_whole(whole) {
            Ok(decoded) => decoded,
            Err(reason) => {
                self.stats.uninspected[reason as usize] += 1;
                let bytes = &whole.bytes;
                let decoded = decode_network(LinkType::RawIp, bytes, bytes.len());
                if let Some(decoded) = decoded {
                    let decoded = Decoded { vlans: whole.vlans, is_rebuilt: true, ..decoded };
                    let number = self.number;
                    let broken = self.match_broken(decoded, *packet, number, *timestamp_ns);
                    broken.iter().for_each(|broken| self.report_broken(broken, alerts));
                }
                return;
            }
        };
        let mut round = std::mem::take(&mut self.round).renew();
        let mut heads = renew(std::mem::take(&mut self.heads));
        let address = self.flows.address(&decoded);
        let next = Next { address, now_ns: self.now_ns, hint: u32::MAX };
        let (packet, number) = (Some(*packet), self.number);
        heads.push(Head { decoded, packet, number, timestamp_ns: *timestamp_ns, found: None });
        self.take(&heads, 0, next, &mut round, alerts);
        self.search(&heads, &mut round, alerts);
        self.round = round.renew();
        self.heads = renew(heads);
    }

    /// Takes a packet that is a fragment, or one that cannot be read for `reason`; tells whether
    /// another one is whole by it.
    fn take_fragment(
        &mut self,
        (packet, idx): (&Packet<'_>, u32),
        reason: Uninspected,
        now_ns: u64,
    ) -> bool {
        // A first fragment with a part of a transport header is none that can be read, either.
        let Some((of, part)) = decode_fragment(packet.link, packet.bytes, packet.wire_bytes) else {
            self.stats.uninspected[reason as usize] += 1;
            return false;
        };
        let whole = self.fragments.take(&of, &part, now_ns, self.options.fragment_bytes_max);
        let timestamp_ns = packet.timestamp_ns;
        self.whole = whole.map(|whole| Completed { whole, packet: idx, timestamp_ns });
        self.whole.is_some()
    }

    /// Ends all flows: segments that wait are inspected as they are. Fragments that wait are given
    /// up.
    pub fn finish(&mut self, alerts: &mut Vec<Alert>) {
        self.fragments.finish();
        let mut round = std::mem::take(&mut self.round);
        while let Some(place) = self.flows.least(None) {
            self.end_flow(place, &[], &mut round, alerts);
        }
        self.search(&[], &mut round, alerts);
        self.round = round;
    }

    /// Takes packets apart, up to a fragment that completes one, and asks for the lines of memory
    /// that their flows are in. Gives the time of the latest packet.
    fn read<'p>(
        &mut self,
        packets: impl Iterator<Item = (Packet<'p>, u32)>,
        heads: &mut Vec<Head<'p>>,
    ) -> u64 {
        self.nexts.clear();
        // Times may go back where a capture was merged: flows end by the latest one.
        let mut now_ns = self.now_ns;
        for (packet, idx) in packets {
            self.stats.packets += 1;
            self.stats.bytes += packet.bytes.len() as u64;
            now_ns = now_ns.max(packet.timestamp_ns);
            let decoded = match decode(packet.link, packet.bytes, packet.wire_bytes) {
                Ok(decoded) => decoded,
                Err(reason) => {
                    let is_whole = self.take_fragment((&packet, idx), reason, now_ns);
                    if is_whole || self.take_broken(&packet, idx, reason) {
                        break;
                    }
                    continue;
                }
            };
            self.stats.cut += u64::from(decoded.payload_wire_bytes > decoded.payload.len());
            let address = self.flows.address(&decoded);
            self.nexts.push(Next { address, now_ns, hint: u32::MAX });
            let Packet { timestamp_ns, found, .. } = packet;
            let is_of = |place| place == PayloadPlace::of(packet.bytes, &decoded);
            let found = found.filter(|found| found.place.is_none_or(is_of));
            let found = found.map(|found| found.patterns);
            self.work.known += u64::from(found.is_some() && !decoded.payload.is_empty());
            let number = self.stats.packets;
            heads.push(Head { decoded, packet: Some(idx), number, timestamp_ns, found });
        }
        let first = heads.len() - self.nexts.len();
        for (next, head) in self.nexts.iter_mut().zip(&heads[first..]) {
            let is_tcp = head.decoded.carried == Carried::Tcp;
            next.hint = self.flows.prefetch(&next.address, is_tcp);
        }
        now_ns
    }

    /// Searches what there is if there is much: texts that wait for it are bounded by that and by
    /// what one flow gives.
    fn search_if_many<'p>(
        &mut self,
        heads: &[Head<'p>],
        round: &mut Round<'p>,
        alerts: &mut Vec<Alert>,
    ) {
        let bytes = round.bytes.max(round.arena.len());
        let jobs_max = if self.search.is_some() { JOBS_MAX } else { OWN_JOBS_MAX };
        if bytes >= TEXTS_BYTES || round.jobs.len() >= jobs_max {
            self.search(heads, round, alerts);
        }
    }
}
