//! From candidates to alerts: rules in their turns, bits of flows, and what is told.

use super::round::{Head, Job};
use super::search::Scratches;
use super::{Alert, Inspector};
use crate::confirm::{Answer, ChainScratch, Text, Work};
use crate::decode::Carried;
use crate::engine::{Compiled, Engine};
use crate::rule::{Action, Streams};
use crate::stream::Arrived;
use crate::threshold::Occurrence;

/// Memory of what one packet does to bits, and of what holds for one text.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// Rules that hold, and whether in a stream.
    found: Vec<(u32, bool)>,
    /// The packet at hand, and the rules that have changed bits for it.
    number: u64,
    changed: Vec<u32>,
    /// Rules whose threshold has counted it.
    counted: Vec<u32>,
}

impl Judged {
    /// What is done once for a packet, which may have two texts, begins with this text of it.
    fn begin(&mut self, head: &Head<'_>) {
        if head.packet.is_none() || self.number != head.number {
            self.changed.clear();
            self.counted.clear();
        }
        // Numbers count from 1: what stands for no packet is alone.
        self.number = if head.packet.is_some() { head.number } else { 0 };
        self.found.clear();
    }
}

/// Notes a rule; tells whether it was not there.
fn is_first(noted: &mut Vec<u32>, rule: u32) -> bool {
    let is_first = !noted.contains(&rule);
    if is_first {
        noted.push(rule);
    }
    is_first
}

impl Inspector {
    /// Confirms the candidates, which the packet's header allows, in their turns.
    pub(super) fn confirm_candidates(
        &mut self,
        engine: &Engine,
        (job, head): (&Job<'_>, &Head<'_>),
        stream: Option<(&[u8], &Arrived)>,
        scratch: &mut Scratches,
        alerts: &mut Vec<Alert>,
    ) {
        let is_folded =
            scratch.candidates.iter().any(|&rule| engine.compiled[rule as usize].ignores_case);
        let payload = job.payload.map(|bytes| Text {
            bytes,
            folded: fold(bytes, is_folded, &mut scratch.folded_payload),
            from: 0,
            is_start: true,
        });
        let stream = stream.map(|(bytes, text)| Text {
            bytes,
            folded: match payload {
                // A stream's first text is that of its packet.
                Some(payload) if std::ptr::eq(payload.bytes, bytes) => payload.folded,
                _ => fold(bytes, is_folded, &mut scratch.folded),
            },
            from: text.from,
            is_start: text.is_start,
        });
        let work = &mut scratch.work;
        work.begin(self.options.work_max);
        let mut is_passed = false;
        // Those of the packet's other text, which are in order.
        let others = alerts.iter().rev().take_while(|alert| {
            head.packet.is_some() && (alert.number, alert.packet) == (head.number, head.packet)
        });
        let mut told: Vec<u32> = others.map(|alert| alert.rule).collect();
        told.reverse();
        let judged = &mut scratch.judged;
        judged.begin(head);
        for &rule in &scratch.candidates {
            let compiled = &engine.compiled[rule as usize];
            if !self.bits_allow(compiled, job) {
                continue;
            }
            let chain = &mut scratch.chain;
            let alone = payload.filter(|_| compiled.is_for_payload(job.is_aside));
            let Some(in_stream) = found(compiled, alone, stream, chain, work) else {
                continue;
            };
            let changes = &compiled.rule.bits.changes;
            if !changes.is_empty() && is_first(&mut judged.changed, rule) {
                changes.iter().for_each(|change| self.flows.bits.change(job.place, change));
            }
            if compiled.rule.action == Action::Pass {
                is_passed = true;
            } else if !compiled.rule.no_alert && told.binary_search(&rule).is_err() {
                judged.found.push((rule, in_stream));
            }
        }
        self.stats.work_cut += u64::from(work.is_used_up());
        if is_passed {
            self.stats.passed += judged.found.len() as u64;
            return;
        }
        let first = alerts.len() - told.len();
        self.tell((job, head), [payload, stream], judged, alerts);
        if !told.is_empty() {
            alerts[first..].sort_by_key(|alert| alert.rule);
        }
    }

    /// Tells what was found in the packet's payload and in the text of its stream.
    fn tell(
        &mut self,
        (job, head): (&Job<'_>, &Head<'_>),
        [payload, stream]: [Option<Text<'_>>; 2],
        judged: &mut Judged,
        alerts: &mut Vec<Alert>,
    ) {
        // Turns may be others than the order of the rules.
        judged.found.sort_unstable();
        for &(rule, in_stream) in &judged.found {
            if let Some(threshold) = &self.engine.rule(rule).threshold {
                if !is_first(&mut judged.counted, rule) {
                    continue;
                }
                if !self.windows.tells(threshold, &occurrence(rule, job, head)) {
                    self.stats.suppressed += 1;
                    continue;
                }
            }
            let text = if in_stream { stream } else { payload };
            let text = text.map_or(&[][..], |text| text.bytes);
            alerts.push(self.alert(rule, (job, head), in_stream, text));
            self.by_rule[rule as usize] += 1;
            self.stats.alerts += 1;
        }
    }

    /// Whether the flow's bits are as a rule wants them. A flow does not end while texts of it
    /// wait.
    pub(super) fn bits_allow(&self, compiled: &Compiled, job: &Job<'_>) -> bool {
        let is_set = |name| self.flows.bits.is_set(job.place, name);
        compiled.rule.bits.tests.iter().all(|test| test.holds(is_set))
    }

    pub(super) fn alert(
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

pub(super) fn occurrence(rule: u32, job: &Job<'_>, head: &Head<'_>) -> Occurrence {
    let (src, dst) = (head.decoded.src_number, head.decoded.dst_number);
    Occurrence { rule, src, dst, flow_id: job.flow_id, time_ns: head.timestamp_ns }
}

/// Whether a rule holds in one of the texts that it is for; and whether that is the stream's. What
/// it asks of a payload, an absence too, no empty one has.
fn found(
    compiled: &Compiled,
    payload: Option<Text<'_>>,
    stream: Option<Text<'_>>,
    chain: &mut ChainScratch,
    work: &mut Work,
) -> Option<bool> {
    if let Some(payload) = payload
        && (!payload.bytes.is_empty() || compiled.rule.steps.is_empty())
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

/// A text in lower case; as it is if nobody asks for that.
fn fold<'t>(bytes: &'t [u8], is_asked_for: bool, out: &'t mut Vec<u8>) -> &'t [u8] {
    if !is_asked_for {
        return bytes;
    }
    out.clear();
    out.extend(bytes.iter().map(u8::to_ascii_lowercase));
    out
}
