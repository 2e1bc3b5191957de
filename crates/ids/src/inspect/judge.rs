//! From candidates to alerts: rules in their turns, bits of flows, and what is told.

use super::round::{Head, Job};
use super::search::Scratches;
use super::{Alert, Inspector};
use crate::confirm::{Answer, ChainScratch, Text, Work};
use crate::engine::{Compiled, Engine};
use crate::rule::{Action, Rule, Streams};
use crate::stream::Arrived;
use crate::threshold::Occurrence;

/// What one packet, or what stands for one, does and tells, until all its texts were looked at:
/// a rule with `pass` may hold in any of them.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// What holds in its payload, and in the text of its stream.
    found: Vec<Alert>,
    /// What holds in messages, one behind the other.
    pub(super) in_messages: Vec<Alert>,
    /// Rules that have changed bits for it.
    changed: Vec<u32>,
    /// Whether nothing is told.
    is_passed: bool,
}

impl Judged {
    /// Whether nothing holds that could be told.
    fn is_silent(&self) -> bool {
        self.found.is_empty() && self.in_messages.is_empty()
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
        let judged = &mut scratch.judged;
        for &rule in &scratch.candidates {
            let compiled = &engine.compiled[rule as usize];
            if !self.bits_allow(compiled, job) {
                continue;
            }
            let chain = &mut scratch.chain;
            let carried = head.decoded.carried;
            let alone = payload.filter(|_| compiled.is_for_payload(carried, job.is_aside));
            let Some(in_stream) = found(compiled, alone, stream, chain, work) else {
                continue;
            };
            let changes = &compiled.rule.bits.changes;
            if !changes.is_empty() && is_first(&mut judged.changed, rule) {
                changes.iter().for_each(|change| self.flows.bits.change(job.place, change));
            }
            if compiled.rule.action == Action::Pass {
                self.pass(job, &compiled.rule, in_stream, judged);
            } else if !compiled.rule.no_alert {
                let text = if in_stream { stream } else { payload };
                let text = text.map_or(&[][..], |text| text.bytes);
                judged.found.push(self.alert(rule, (job, head), in_stream, text));
            }
        }
        self.stats.work_cut += u64::from(work.is_used_up());
    }

    /// A rule with `pass` holds.
    pub(super) fn pass(
        &mut self,
        job: &Job<'_>,
        rule: &Rule,
        in_stream: bool,
        judged: &mut Judged,
    ) {
        judged.is_passed = true;
        if rule.passes_flow(in_stream)
            && let Some(flow) = self.flows.of_id(job.place, job.flow_id)
        {
            flow.is_passed = true;
        }
    }

    /// Tells what was found in all texts of a packet, whose last one this job has.
    pub(super) fn tell(
        &mut self,
        engine: &Engine,
        (job, head): (&Job<'_>, &Head<'_>),
        scratch: &mut Scratches,
        alerts: &mut Vec<Alert>,
    ) {
        scratch.judged.changed.clear();
        if scratch.judged.is_silent() {
            scratch.judged.is_passed = false;
            return;
        }
        let mut judged = std::mem::take(&mut scratch.judged);
        let is_passed = std::mem::take(&mut judged.is_passed);
        // Turns may be others than the order of the rules; and two texts may have the same.
        judged.found.sort_by_key(|alert| alert.rule);
        judged.found.dedup_by_key(|alert| alert.rule);
        let found = judged.found.len() + judged.in_messages.len();
        if is_passed || self.is_passed(engine, (job, head), scratch) {
            self.stats.passed += found as u64;
            judged.found.clear();
            judged.in_messages.clear();
        }
        for alert in judged.found.drain(..).chain(judged.in_messages.drain(..)) {
            let rule = alert.rule;
            if let Some(threshold) = &engine.rule(rule).threshold
                && !self.windows.tells(threshold, &occurrence(rule, job, head))
            {
                self.stats.suppressed += 1;
                continue;
            }
            alerts.push(alert);
            self.by_rule[rule as usize] += 1;
            self.stats.alerts += 1;
        }
        scratch.judged = judged;
    }

    /// Whether a flow was let pass before, or what stands for a packet is by its headers: rules
    /// that ask for nothing else are looked for in packets alone.
    fn is_passed(
        &mut self,
        engine: &Engine,
        (job, head): (&Job<'_>, &Head<'_>),
        scratch: &mut Scratches,
    ) -> bool {
        let flow = self.flows.of_id(job.place, job.flow_id);
        let is_flow_passed = flow.is_some_and(|flow| flow.is_passed);
        if head.packet.is_some() || is_flow_passed {
            return is_flow_passed;
        }
        let Scratches { candidates, open, .. } = scratch;
        candidates.clear();
        candidates.extend_from_slice(engine.passes_of_headers());
        engine.in_turn((&head.decoded, &job.flow), candidates, open);
        candidates.iter().any(|&rule| self.bits_allow(&engine.compiled[rule as usize], job))
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
        Alert {
            packet: head.packet,
            number: head.number,
            timestamp_ns: head.timestamp_ns,
            flow_id: job.flow_id,
            direction: job.flow.direction,
            in_stream,
            payload: text[..text.len().min(self.options.payload_bytes)].to_vec(),
            ..Alert::of_packet(rule, &head.decoded)
        }
    }
}

pub(super) fn occurrence(rule: u32, job: &Job<'_>, head: &Head<'_>) -> Occurrence {
    let (src, dst) = (head.decoded.src_number, head.decoded.dst_number);
    let (is_ipv6, flow_id) = (head.decoded.is_ipv6, job.flow_id);
    Occurrence { rule, src, dst, is_ipv6, flow_id, time_ns: head.timestamp_ns }
}

/// Whether a rule holds in one of the texts that it is for; and whether that is the stream's, which
/// counts first where it says `pass`. What it asks of a payload, an absence too, no empty one has.
fn found(
    compiled: &Compiled,
    payload: Option<Text<'_>>,
    stream: Option<Text<'_>>,
    chain: &mut ChainScratch,
    work: &mut Work,
) -> Option<bool> {
    let is_in_payload = payload.is_some_and(|payload| {
        (!payload.bytes.is_empty() || compiled.rule.steps.is_empty())
            && compiled.plan.confirm(&payload, chain, work) != Answer::No
    });
    if is_in_payload && compiled.rule.action != Action::Pass {
        return Some(false);
    }
    let stream = stream.filter(|stream| match compiled.scope.streams {
        Streams::No => false,
        Streams::Start => stream.is_start,
        Streams::All => true,
    });
    let is_in_stream =
        stream.is_some_and(|stream| compiled.plan.confirm(&stream, chain, work) == Answer::Fresh);
    (is_in_payload || is_in_stream).then_some(is_in_stream)
}

/// A text in lower case; as it is if nobody asks for that.
pub(crate) fn fold<'t>(bytes: &'t [u8], is_asked_for: bool, out: &'t mut Vec<u8>) -> &'t [u8] {
    if !is_asked_for {
        return bytes;
    }
    out.clear();
    out.extend(bytes.iter().map(u8::to_ascii_lowercase));
    out
}
