//! Stateless matching: rules against single packets, without flows, reassembly or counters.
//!
//! ```text
//! packets ─► decode ─► ports of the patterns ─► search ─► candidates ─► confirm ─► alerts
//!              └─► hits that a device found ahead ──────────────┘
//! ```
//! A rule matches a packet if its header matches and its payload options match the packet's own
//! payload. [`Rules::without_state`](crate::Rules::without_state) defines which rules qualify.
//! `pass` suppresses the alerts of its own packet only.
//!
//! # Cost
//! Headers are parsed once. A payload is searched only if a rule with a pattern allows the packet's
//! protocol and ports, and once per packet; the search runs over a chunk of packets at a time. A
//! packet without candidates costs nothing beyond that. After warm-up no call allocates, except for
//! the payload excerpts of alerts ([`StatelessOptions::payload_bytes`]).
//!
//! # Invariants
//! - S1: the alerts of a packet depend on that packet alone, not on its neighbours, on batch
//!   boundaries, or on who searched it.
//! - S2: the alerts are those of [`naive`](crate::naive) on every rule, unless `work_cut` counts.

mod ports;
mod rules;

use std::sync::Arc;

use warpswitch_scan::{PatternId, PatternSets, Scratch};

use crate::confirm::{Answer, ChainScratch, Text, Work};
use crate::decode::{Carried, Decoded, decode, decode_network, usual_payload};
use crate::engine::{Engine, FlowFacts, GROUPS};
use crate::inspect::{Alert, Packet, PayloadPlace, Search, Uninspected, fold, renew};
use crate::rule::{Action, Direction, Rules};
use ports::PortFilter;

/// Packets per search by the engine's own scanners: their headers and results stay in the second
/// cache.
const CHUNK_LEN: usize = 128;

/// Packets per search by a [`Search`], which may be far away.
const CHUNK_LEN_SEARCH: usize = 4096;

const PROTOCOLS: [Carried; GROUPS] = [Carried::Tcp, Carried::Udp, Carried::Icmp, Carried::Other];

/// The set number of a packet whose payload was not searched.
const NO_SET: u32 = u32::MAX;

/// Flow facts of every packet: rules without state test none.
const NO_FLOW: FlowFacts = FlowFacts { direction: Direction::ToServer, is_established: false };

/// A rule set for stateless matching. Threads: immutable, shared by any number of them.
#[derive(Debug)]
pub struct StatelessEngine {
    engine: Arc<Engine>,
    /// Ports that rules with a pattern allow, by group.
    ports: [PortFilter; GROUPS],
    /// Whether there are rules without a pattern, by group.
    has_others: [bool; GROUPS],
}

/// Limits of a [`StatelessScratch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatelessOptions {
    /// Bytes that confirmation may examine per packet; beyond it, rules are not confirmed and
    /// [`StatelessStats::work_cut`] counts the packet.
    pub work_max: u64,
    /// Payload bytes that an alert keeps.
    pub payload_bytes: usize,
}

impl Default for StatelessOptions {
    fn default() -> Self {
        Self { work_max: 16 << 20, payload_bytes: 0 }
    }
}

/// Counters of a [`StatelessScratch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatelessStats {
    /// Packets.
    pub packets: u64,
    /// Captured bytes of them.
    pub bytes: u64,
    /// Packets that were not inspected, by [`Uninspected::ALL`].
    pub uninspected: [u64; 3],
    /// Packets whose payload was captured in part.
    pub cut: u64,
    /// Payloads with hits that were found ahead ([`Packet::found`]).
    pub known: u64,
    /// Payloads that were searched here.
    pub searched: u64,
    /// Rules that a hit or the packet's ports led to, before header checks.
    pub candidates: u64,
    /// Packets on which rules were left unconfirmed, see [`StatelessOptions::work_max`].
    pub work_cut: u64,
    /// Alerts that rules with `pass` suppressed.
    pub passed: u64,
    /// Alerts.
    pub alerts: u64,
    /// Packets with an alert.
    pub matched: u64,
}

/// Per-thread memory and counters of [`StatelessEngine::match_batch`].
#[derive(Debug, Default)]
pub struct StatelessScratch {
    options: StatelessOptions,
    search: Option<Box<dyn Search>>,
    heads: Vec<Head<'static>>,
    /// Payloads to search, by group; empty between calls.
    texts: [Vec<&'static [u8]>; GROUPS],
    sets: [PatternSets; GROUPS],
    scan: Scratch,
    confirm: Confirm,
    stats: StatelessStats,
    by_rule: Vec<u64>,
}

/// Memory of confirmation.
#[derive(Debug, Default)]
struct Confirm {
    candidates: Vec<u32>,
    open: Vec<u64>,
    folded: Vec<u8>,
    chain: ChainScratch,
    work: Work,
}

/// A packet of a batch to match.
#[derive(Clone, Copy, Debug)]
pub enum BatchPacket<'p> {
    /// One to match.
    Packet(Packet<'p>),
    /// Some that no rule matches: all of their payloads was captured and searched, no pattern
    /// occurs, and [`StatelessEngine::needs_patterns`] holds for their groups.
    Free {
        /// How many there are.
        packets: usize,
        /// Captured bytes of all of them.
        bytes: u64,
    },
}

impl<'p> From<Packet<'p>> for BatchPacket<'p> {
    fn from(packet: Packet<'p>) -> Self {
        Self::Packet(packet)
    }
}

/// The result for one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatelessMatches {
    /// Whether packet `i` of the batch has an alert.
    pub hits: Vec<bool>,
    /// Alerts by packet, then by rule number. [`Alert::packet`] is the packet's index in the batch,
    /// [`Alert::flow_id`] is 0 and [`Alert::direction`] has no meaning.
    pub alerts: Vec<Alert>,
}

/// A decoded packet that waits for the search.
#[derive(Clone, Copy, Debug)]
struct Head<'p> {
    decoded: Decoded<'p>,
    /// Index in the batch.
    packet: u32,
    /// Index among the sets of its group, or [`NO_SET`].
    set: u32,
    number: u64,
    timestamp_ns: u64,
    found: Option<&'p [PatternId]>,
}

impl StatelessEngine {
    /// Builds an engine from the rules that need no state; the others are among
    /// [`Engine::left_out`] of [`engine`](Self::engine).
    ///
    /// Cost: as [`Engine::build`].
    pub fn build(rules: Rules) -> Self {
        let engine = Arc::new(Engine::build(rules.without_state()));
        let ports = PROTOCOLS.map(|carried| {
            let rules = engine.patterned(carried).iter();
            PortFilter::new(rules.map(|&rule| &engine.compiled[rule as usize].rule.header))
        });
        let has_others = PROTOCOLS.map(|carried| engine.has_others(carried));
        Self { engine, ports, has_others }
    }

    /// The rules and their patterns: for a device that searches payloads, and for `eve`.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Whether a packet without any of the patterns of a group matches no rule.
    pub fn needs_patterns(&self, group: usize) -> bool {
        !self.has_others[group]
    }

    /// Matches each packet of a batch by itself.
    ///
    /// Shapes: `out` is overwritten: `out.hits[i]` answers packet `i`. [`Packet::found`] replaces
    /// the search of that packet, as in [`Inspector::inspect`](crate::Inspector::inspect); hits for
    /// another place than the payload are ignored. Threads: any number, each with its own `scratch`
    /// and `out`. A scratch belongs to one engine: with another one, its counts by rule restart.
    pub fn match_batch<'p>(
        &self,
        packets: impl IntoIterator<Item = impl Into<BatchPacket<'p>>>,
        scratch: &mut StatelessScratch,
        out: &mut StatelessMatches,
    ) {
        out.hits.clear();
        out.alerts.clear();
        if scratch.by_rule.len() != self.engine.compiled.len() {
            scratch.by_rule.clear();
            scratch.by_rule.resize(self.engine.compiled.len(), 0);
        }
        let chunk_len = if scratch.search.is_some() { CHUNK_LEN_SEARCH } else { CHUNK_LEN };
        let mut heads = renew(std::mem::take(&mut scratch.heads));
        let mut texts = std::mem::take(&mut scratch.texts).map(renew);
        let mut packets = packets.into_iter();
        loop {
            let before = out.hits.len();
            for packet in packets.by_ref().take(chunk_len) {
                let idx = out.hits.len() as u32;
                match packet.into() {
                    BatchPacket::Free { packets, bytes } => {
                        out.hits.resize(out.hits.len() + packets, false);
                        scratch.stats.add_free(packets, bytes);
                    }
                    BatchPacket::Packet(packet) => {
                        out.hits.push(false);
                        let head = self.read(&packet, idx, &mut texts, &mut scratch.stats);
                        heads.extend(head);
                    }
                }
            }
            if out.hits.len() == before {
                break;
            }
            self.search(&mut texts, scratch);
            for head in &heads {
                self.confirm(head, scratch, out);
            }
            heads.clear();
        }
        scratch.heads = renew(heads);
        scratch.texts = texts.map(renew);
    }

    /// Decodes a packet and adds its payload to the texts of its group if it must be searched.
    /// Returns `None` for a packet that no rule can match; counts why it is not inspected.
    #[inline]
    fn read<'p>(
        &self,
        packet: &Packet<'p>,
        idx: u32,
        texts: &mut [Vec<&'p [u8]>; GROUPS],
        stats: &mut StatelessStats,
    ) -> Option<Head<'p>> {
        if self.is_free_of_hits(packet) {
            stats.add_free(1, packet.bytes.len() as u64);
            return None;
        }
        stats.packets += 1;
        stats.bytes += packet.bytes.len() as u64;
        let decoded = match decode(packet.link, packet.bytes, packet.wire_bytes) {
            Ok(decoded) => decoded,
            Err(reason) => {
                stats.uninspected[reason as usize] += 1;
                // Rules of `ip` need only the IP header.
                let has_rules =
                    reason == Uninspected::Malformed && !self.engine.network_rules().is_empty();
                let network = || decode_network(packet.link, packet.bytes, packet.wire_bytes);
                has_rules.then(network).flatten()?
            }
        };
        let payload = decoded.payload;
        stats.cut += u64::from(decoded.payload_wire_bytes > payload.len());
        let is_of = |place| place == PayloadPlace::of(packet.bytes, &decoded);
        let found = packet.found.filter(|found| found.place.is_none_or(is_of));
        let found = found.map(|found| found.patterns).filter(|_| !payload.is_empty());
        let mut set = NO_SET;
        if found.is_some() {
            stats.known += 1;
        } else if !payload.is_empty()
            && self.ports[decoded.carried as usize].allows(decoded.src_port, decoded.dst_port)
        {
            let texts = &mut texts[decoded.carried as usize];
            set = texts.len() as u32;
            texts.push(payload);
            stats.searched += 1;
        }
        // Without hits, only rules without a pattern remain.
        let has_hits = found.is_some_and(|found| !found.is_empty()) || set != NO_SET;
        if !has_hits && !self.has_others[decoded.carried as usize] {
            return None;
        }
        let (number, timestamp_ns) = (stats.packets, packet.timestamp_ns);
        Some(Head { decoded, packet: idx, set, number, timestamp_ns, found })
    }

    /// Whether a search found nothing in the payload of a packet that no other rule can match: most
    /// packets. Such a packet need not be decoded.
    #[inline]
    fn is_free_of_hits(&self, packet: &Packet<'_>) -> bool {
        packet.found.is_some_and(|found| found.patterns.is_empty() && found.place.is_none())
            && usual_payload(packet.link, packet.bytes, packet.wire_bytes)
                .is_some_and(|(carried, is_empty)| !is_empty && !self.has_others[carried as usize])
    }

    /// Searches the texts of all groups and empties their lists.
    fn search(&self, texts: &mut [Vec<&[u8]>; GROUPS], scratch: &mut StatelessScratch) {
        let StatelessScratch { search, sets, scan, .. } = scratch;
        for ((carried, texts), sets) in PROTOCOLS.into_iter().zip(texts).zip(sets) {
            if texts.is_empty() {
                continue;
            }
            match search {
                Some(search) => search.scan_sets(carried as usize, texts, sets),
                None => self.engine.scanner(carried).scan_sets(texts, scan, sets),
            }
            texts.clear();
        }
    }

    /// Confirms the candidates of a packet and adds its alerts.
    fn confirm(&self, head: &Head<'_>, scratch: &mut StatelessScratch, out: &mut StatelessMatches) {
        let (engine, packet) = (&*self.engine, &head.decoded);
        let Confirm { candidates, open, folded, chain, work } = &mut scratch.confirm;
        candidates.clear();
        if let Some(found) = head.found {
            engine.candidates(packet.carried, found, candidates);
        } else if head.set != NO_SET {
            let found = scratch.sets[packet.carried as usize].of(head.set as usize);
            engine.candidates(packet.carried, found, candidates);
        }
        if self.has_others[packet.carried as usize] {
            engine.others(packet, candidates);
        }
        if candidates.is_empty() {
            return;
        }
        scratch.stats.candidates += candidates.len() as u64;
        engine.in_turn((packet, &NO_FLOW), candidates, open);
        if candidates.is_empty() {
            return;
        }
        let payload = packet.payload;
        let is_folded = candidates.iter().any(|&rule| engine.compiled[rule as usize].ignores_case);
        let text = Text {
            bytes: payload,
            folded: fold(payload, is_folded, folded),
            from: 0,
            is_start: true,
        };
        work.begin(scratch.options.work_max);
        let (first, mut is_passed) = (out.alerts.len(), false);
        for &rule in candidates.iter() {
            let compiled = &engine.compiled[rule as usize];
            let is_match = (!payload.is_empty() || compiled.rule.steps.is_empty())
                && compiled.plan.confirm(&text, chain, work) != Answer::No;
            if is_match && compiled.rule.action == Action::Pass {
                is_passed = true;
            } else if is_match {
                out.alerts.push(head.alert(rule, scratch.options.payload_bytes));
            }
        }
        let stats = &mut scratch.stats;
        stats.work_cut += u64::from(work.is_used_up());
        if is_passed {
            stats.passed += (out.alerts.len() - first) as u64;
            out.alerts.truncate(first);
        }
        let alerts = &out.alerts[first..];
        alerts.iter().for_each(|alert| scratch.by_rule[alert.rule as usize] += 1);
        stats.alerts += alerts.len() as u64;
        stats.matched += u64::from(!alerts.is_empty());
        out.hits[head.packet as usize] = !alerts.is_empty();
    }
}

impl Head<'_> {
    fn alert(&self, rule: u32, payload_bytes: usize) -> Alert {
        let payload = self.decoded.payload;
        Alert {
            packet: Some(self.packet),
            number: self.number,
            timestamp_ns: self.timestamp_ns,
            payload: payload[..payload.len().min(payload_bytes)].to_vec(),
            ..Alert::of_packet(rule, &self.decoded)
        }
    }
}

impl StatelessScratch {
    /// Empty memory and counters.
    pub fn new(options: StatelessOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Searches payloads with `search` from now on; `None` selects the engine's own scanners.
    pub fn search_by(&mut self, search: Option<Box<dyn Search>>) {
        self.search = search;
    }

    /// The counters.
    pub fn stats(&self) -> StatelessStats {
        self.stats
    }

    /// Alerts by rule number; empty before the first batch.
    pub fn alerts_by_rule(&self) -> &[u64] {
        &self.by_rule
    }
}

impl StatelessStats {
    /// Counts packets that need no matching, as a search has found nothing in them.
    #[inline]
    fn add_free(&mut self, packets: usize, bytes: u64) {
        self.packets += packets as u64;
        self.bytes += bytes;
        self.known += packets as u64;
    }

    /// The counters by the names of the event `stats` (`docs/ids.md`), where it has them.
    pub fn counters(&self) -> [(&'static str, u64); 12] {
        let uninspected = |reason: Uninspected| self.uninspected[reason as usize];
        [
            ("decoder.bytes", self.bytes),
            ("decoder.cut", self.cut),
            ("decoder.fragments", uninspected(Uninspected::Fragment)),
            ("decoder.invalid", uninspected(Uninspected::Malformed)),
            ("decoder.not_ip", uninspected(Uninspected::NotIp)),
            ("decoder.pkts", self.packets),
            ("detect.alert", self.alerts),
            ("detect.alerts_passed", self.passed),
            ("detect.candidates", self.candidates),
            ("detect.matched_pkts", self.matched),
            ("detect.searched_pkts", self.searched),
            ("detect.work_cut", self.work_cut),
        ]
    }
}
