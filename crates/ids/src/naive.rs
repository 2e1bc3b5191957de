//! The reference: every way through a rule's options is tried, on every text. Defines what a rule
//! means; what confirms rules fast is held against it.

pub mod addresses;
pub mod http;
mod numbers;

use std::collections::{HashMap, HashSet};

use crate::bytes::VARIABLES_MAX;
pub(crate) use crate::confirm::Answer;
use crate::confirm::{Text, data_at, expression_text};
use crate::rule::{Action, Content, Expression, Place, Rule, Step};
use crate::threshold::{Kind, Threshold, Track};
use numbers::Variables;

/// Whether the payload options of a rule hold in `payload`, a text that begins where it begins. If
/// there are any, they do not in an empty one, whatever they ask.
///
/// Cost: exponential in the rule's options. For tests, and for checking before a measurement.
pub fn holds(rule: &Rule, payload: &[u8]) -> bool {
    let folded = payload.to_ascii_lowercase();
    let text = Text { bytes: payload, folded: &folded, from: 0, is_start: true };
    (!payload.is_empty() || rule.steps.is_empty()) && answer(rule, &text) != Answer::No
}

/// What rules remember of flows, kept plainly.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Flows, and numbers of names that are set.
    bits: HashSet<(u64, u16)>,
    /// Flows that a rule with `pass` took all back of.
    passed: HashSet<u64>,
    /// When each rule held, by what its threshold counts apart.
    times: HashMap<(usize, u128, u128), Vec<u64>>,
}

/// A datagram, as rules see it whose headers allow all.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// A number for its flow.
    pub flow: u64,
    /// A number for its source.
    pub src: u128,
    /// And for its destination.
    pub dst: u128,
    /// When it came; never before another one.
    pub time_ns: u64,
    /// What it holds.
    pub payload: &'a [u8],
}

impl Memory {
    /// The numbers of the rules that are told of a datagram.
    pub fn told(&mut self, rules: &[Rule], datagram: &Datagram<'_>) -> Vec<usize> {
        let &Datagram { flow, payload, .. } = datagram;
        let mut order: Vec<usize> = (0..rules.len()).collect();
        order.sort_by_key(|&idx| (rules[idx].bits.turn(), rules[idx].about.priority, idx));
        let (mut told, mut is_passed) = (Vec::new(), false);
        for idx in order {
            let rule = &rules[idx];
            let is_set = |name| self.bits.contains(&(flow, name));
            if !rule.bits.tests.iter().all(|test| test.holds(is_set)) || !holds(rule, payload) {
                continue;
            }
            for change in &rule.bits.changes {
                for &name in &change.names {
                    if change.how.of(self.bits.contains(&(flow, name))) {
                        self.bits.insert((flow, name));
                    } else {
                        self.bits.remove(&(flow, name));
                    }
                }
            }
            if rule.action == Action::Pass {
                is_passed = true;
                if rule.passes_flow(false) {
                    self.passed.insert(flow);
                }
            }
            if !rule.no_alert && rule.action != Action::Pass {
                told.push(idx);
            }
        }
        told.sort_unstable();
        if is_passed || self.passed.contains(&flow) {
            return Vec::new();
        }
        told.retain(|&idx| match &rules[idx].threshold {
            Some(threshold) => self.is_due(idx, threshold, datagram),
            None => true,
        });
        told
    }

    /// Whether a rule that holds is told: all that came before is counted anew.
    fn is_due(&mut self, idx: usize, threshold: &Threshold, datagram: &Datagram<'_>) -> bool {
        let Datagram { flow, src, dst, time_ns, .. } = *datagram;
        let key = match threshold.track {
            Track::Src => (idx, src, 0),
            Track::Dst => (idx, dst, 0),
            Track::Both => (idx, src.min(dst), src.max(dst)),
            Track::Rule => (idx, 0, 0),
            Track::Flow => (idx, flow.into(), 0),
        };
        let times = self.times.entry(key).or_default();
        times.push(time_ns);
        let (mut start_ns, mut in_window) = (times[0], 0);
        for &time_ns in times.iter() {
            if time_ns - start_ns >= u64::from(threshold.seconds) * 1_000_000_000 {
                (start_ns, in_window) = (time_ns, 0);
            }
            in_window += 1;
        }
        match threshold.kind {
            Kind::Limit => in_window <= threshold.count,
            Kind::Threshold => in_window % threshold.count == 0,
            Kind::Both => in_window == threshold.count,
            Kind::Filter => in_window > threshold.count,
        }
    }
}

/// Where a rule held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The number of the rule.
    pub rule: usize,
    /// Of its flow.
    pub flow: u64,
    /// Of the packet, and whether it held with that, and not with what stands for one.
    pub packet: (u64, bool),
    /// Whether the client said it.
    pub is_client: bool,
    /// Whether it held in a stream or a message.
    pub in_stream: bool,
}

/// What is told of all places where rules held, in their order: what no rule with `pass` takes
/// back, that held with the same packet, or before in the flow if it is one that passes flows.
pub fn untaken(rules: &[Rule], held: &[Held]) -> Vec<Held> {
    let is_pass = |one: &Held| rules[one.rule].action == Action::Pass;
    let takes = |at: usize, pass: &Held, one: &Held| {
        let is_with =
            (pass.flow, pass.packet, pass.is_client) == (one.flow, one.packet, one.is_client);
        let is_before = held[..at].contains(pass) && pass.flow == one.flow;
        is_with || is_before && rules[pass.rule].passes_flow(pass.in_stream)
    };
    let is_taken = |at: usize, one: &Held| {
        let passes = held.iter().filter(|pass| is_pass(pass));
        passes.into_iter().any(|pass| takes(at, pass, one))
    };
    let left = held.iter().enumerate().filter(|(at, one)| !is_pass(one) && !is_taken(*at, one));
    left.map(|(_, one)| *one).collect()
}

/// The same for a text of which `from` bytes were looked at before.
pub(crate) fn answer(rule: &Rule, text: &Text<'_>) -> Answer {
    answer_of(&rule.steps, text)
}

/// The same for options about one text.
fn answer_of(options: &[Step], text: &Text<'_>) -> Answer {
    steps(options, 0, &[0; VARIABLES_MAX], Answer::Stale, text)
}

/// The best answer for `rest` where the occurrence before ended at `position`.
fn steps(
    rest: &[Step],
    position: usize,
    variables: &Variables,
    so_far: Answer,
    text: &Text<'_>,
) -> Answer {
    let Some((step, rest)) = rest.split_first() else { return so_far };
    let to = |end: usize| if end > text.from { Answer::Fresh } else { Answer::Stale };
    let ends: Vec<usize> = match step {
        Step::Content(content) => occurrences(content, position, variables, text),
        Step::Expression(expression) => matches(expression, position, text),
        Step::DataAt(data) => {
            return match data_at(data, text, position, variables) {
                Answer::No => Answer::No,
                answer => steps(rest, position, variables, so_far.max(answer), text),
            };
        }
        Step::ByteTest(test) => {
            let Some(end) = numbers::test(test, text.bytes, position, variables) else {
                return Answer::No;
            };
            return steps(rest, position, variables, so_far.max(to(end)), text);
        }
        Step::ByteJump(jump) => {
            let Some((landing, end)) = numbers::jump(jump, text.bytes, position, variables) else {
                return Answer::No;
            };
            return steps(rest, landing, variables, so_far.max(to(landing)).max(to(end)), text);
        }
        Step::ByteSet(set) => {
            let Some((value, end)) = numbers::value(set, text.bytes, position, variables) else {
                return Answer::No;
            };
            let mut variables = *variables;
            variables[set.variable as usize] = value;
            return steps(rest, end, &variables, so_far.max(to(end)), text);
        }
    };
    if !step.is_positive() {
        let is_absent = ends.is_empty();
        return if is_absent { steps(rest, position, variables, so_far, text) } else { Answer::No };
    }
    let on = |&end: &usize| steps(rest, end, variables, so_far.max(to(end)), text);
    ends.iter().map(on).max().unwrap_or(Answer::No)
}

/// Ends of the matches of an expression, from left to right, none overlapping another.
fn matches(expression: &Expression, position: usize, text: &Text<'_>) -> Vec<usize> {
    let position = if expression.relative { position } else { 0 };
    let (bytes, mut at) = expression_text(text, position);
    if expression.relative {
        at = 0;
    }
    let mut ends = Vec::new();
    while let Some(found) = expression.regex.find_at(bytes, at) {
        ends.push(position + found.end());
        at = found.end() + usize::from(found.is_empty());
        if at > bytes.len() {
            break;
        }
    }
    ends
}

/// Ends of all occurrences that are in their place.
fn occurrences(
    content: &Content,
    position: usize,
    variables: &Variables,
    text: &Text<'_>,
) -> Vec<usize> {
    let value = |by: Option<u8>| by.map(|by| i128::from(variables[by as usize]));
    let (by_start, by_len) = (value(content.by.start), value(content.by.len));
    let len = content.bytes.len();
    let is_there = |start: usize| {
        let part = &text.bytes[start..start + len];
        let is_same = if content.nocase {
            part.eq_ignore_ascii_case(&content.bytes)
        } else {
            part == content.bytes
        };
        let end = start + len;
        let (start, within) = (start as i128, end as i128);
        let (from, bound) = match content.place {
            Place::Absolute { offset, depth } => {
                (by_start.unwrap_or(offset.into()), by_len.or(depth.map(i128::from)))
            }
            Place::Relative { distance, within } => {
                let distance = by_start.unwrap_or(distance.into());
                (position as i128 + distance, by_len.or(within.map(i128::from)))
            }
        };
        let is_placed = start >= from && bound.is_none_or(|bound| within <= from + bound);
        is_same && is_placed && (!content.at_end || end == text.bytes.len())
    };
    let starts = 0..(text.bytes.len() + 1).saturating_sub(len);
    starts.filter(|&start| is_there(start)).map(|start| start + len).collect()
}
