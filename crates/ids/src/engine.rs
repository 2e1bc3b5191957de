//! Rules in groups: which may match a packet at all, by protocol, fast pattern and ports.
//!
//! ```text
//! payload ─► scanner of the protocol ─► patterns that occur ─► their rules ─┐
//! ports ────► rules of the protocol that have no pattern ──────────────────┴─► header ─► confirm
//! ```
//! Each rule with a positive content of two bytes or more has one *fast pattern*: the content that
//! says `fast_pattern`, else its longest, of the same length the one with the most different bytes.
//! One scanner for each protocol looks for all of them in one pass. Rules without one hang in lists
//! by their ports.

use warpswitch_scan::{Case, PATTERNS_BYTES_MAX, PatternId, Patterns, ScanOptions, Scanner};

use crate::confirm::Plan;
use crate::decode::{Carried, Decoded};
use crate::gates::Gates;
use crate::http::Buffer;
use crate::messages::Messages;
use crate::ranges::{Ranges, Set};
use crate::rule::{Action, Content, Direction, Proto, Rule, Rules, Scope, Step, Streams};

/// The most entries of the lists of rules without a fast pattern; rules beyond it are looked at for
/// every packet of their protocol.
const LISTED_MAX: usize = 1 << 22;

/// Bytes that a fast pattern has at least. One byte occurs in nearly every payload, where it is
/// found hundreds of times and tells nothing: its rules are asked whenever their ports allow.
const FAST_BYTES_MIN: usize = 2;

/// What the flow of a packet says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowFacts {
    pub direction: Direction,
    pub is_established: bool,
}

/// A rule and what was made of it.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub rule: Rule,
    pub plan: Plan,
    /// What is asked of buffers, in the order of the rule's.
    pub buffers: Box<[(Buffer, Plan)]>,
    pub scope: Scope,
    /// Whether more than one occurrence decides: it may hold only once more bytes have come.
    pub needs_more: bool,
    /// Whether the case of a content of the payload counts for nothing.
    pub ignores_case: bool,
}

/// Rules, ready to be looked for. Threads: shared by any number of inspectors.
#[derive(Debug)]
pub struct Engine {
    pub(crate) compiled: Vec<Compiled>,
    gates: Gates,
    groups: [Group; GROUPS],
    /// Rules about messages, if there are any.
    pub(crate) messages: Option<Messages>,
    left_out: Vec<crate::rule::LeftOut>,
    files: Vec<String>,
    bit_names: Vec<String>,
    /// When each rule has its turn for a text, if that is not the order of their numbers.
    turns: Vec<u32>,
    /// The most that a rule reaches back in a stream; none if one has no bound.
    reach: Option<usize>,
    /// Rules with `pass` that ask for no payload: they hold for what has no packet, too.
    passes_of_headers: Vec<u32>,
    /// Rules of `ip` that one IP header decides, see [`Engine::network_rules`].
    network_rules: Vec<u32>,
}

/// Groups of rules, each with patterns of its own: for TCP, UDP, ICMP, and other protocols.
pub const GROUPS: usize = 4;

/// The rules of one protocol, or of all messages.
#[derive(Debug)]
pub(crate) struct Group {
    scanner: Scanner,
    /// What it searches for, for those who search elsewhere.
    patterns: Patterns,
    /// The rules of each pattern: where its list starts; one more at the end.
    starts: Vec<u32>,
    by_pattern: Vec<u32>,
    others: ByPort,
}

/// Rules without a fast pattern, by one of their ports.
#[derive(Debug, Default)]
struct ByPort {
    any: Vec<u32>,
    dst: PortLists,
    src: PortLists,
}

/// Lists of rules, each for a range of ports.
#[derive(Debug, Default)]
struct PortLists {
    /// The first port of each list, in order, from port 0.
    firsts: Vec<u16>,
    lists: Vec<Vec<u32>>,
}

impl Engine {
    /// Makes rules ready.
    ///
    /// Cost: that of building a scanner for each protocol. Memory: see [`Engine::bytes`].
    pub fn build(rules: Rules) -> Self {
        Self::with_options(rules, &ScanOptions { matches_max: usize::MAX, ..Default::default() })
    }

    pub(crate) fn with_options(rules: Rules, options: &ScanOptions) -> Self {
        let Rules { rules, left_out, files, bit_names, .. } = rules;
        let compiled: Vec<Compiled> = rules.into_iter().map(Compiled::new).collect();
        let protocols = [Carried::Tcp, Carried::Udp, Carried::Icmp, Carried::Other];
        let groups = protocols.map(|carried| Group::new(&compiled, carried, options));
        let messages = Messages::new(&compiled, options);
        let gates = Gates::new(compiled.iter().map(|compiled| &compiled.rule));
        let turns = if bit_names.is_empty() { Vec::new() } else { turns(&compiled) };
        let mut reaches = compiled.iter().map(|compiled| compiled.rule.reach());
        let reach = reaches.try_fold(0, |most: usize, reach| Some(most.max(reach?)));
        let is_pass_of_headers = |compiled: &Compiled| {
            compiled.rule.action == Action::Pass && compiled.rule.asks_headers_alone()
        };
        let passes = compiled.iter().zip(0..).filter(|(compiled, _)| is_pass_of_headers(compiled));
        let passes_of_headers = passes.map(|(_, idx)| idx).collect();
        let network_rules = compiled.iter().zip(0..);
        let network_rules =
            network_rules.filter(|(compiled, _)| compiled.rule.needs_network_only());
        let network_rules = network_rules.map(|(_, idx)| idx).collect();
        Self {
            compiled,
            gates,
            groups,
            messages,
            left_out,
            files,
            bit_names,
            turns,
            reach,
            passes_of_headers,
            network_rules,
        }
    }

    /// The most bytes that what a rule looks for takes of a stream, see [`Rule::reach`]; none if
    /// there is no bound.
    pub fn reach(&self) -> Option<usize> {
        self.reach
    }

    /// The rules, by the numbers that alerts have.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.compiled.iter().map(|compiled| &compiled.rule)
    }

    /// A rule.
    ///
    /// # Panics
    /// If no alert of this engine has that number.
    pub fn rule(&self, idx: u32) -> &Rule {
        &self.compiled[idx as usize].rule
    }

    /// The rules that were left out.
    pub fn left_out(&self) -> &[crate::rule::LeftOut] {
        &self.left_out
    }

    /// Names of the rule files, by their numbers.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Names of flows' bits, by their numbers.
    pub fn bit_names(&self) -> &[String] {
        &self.bit_names
    }

    /// Keeps the candidates that a packet's header allows, in the order of their turns, each once.
    /// `open` is room for [`Gates::keep`].
    pub(crate) fn in_turn(
        &self,
        about: (&Decoded<'_>, &FlowFacts),
        candidates: &mut Vec<u32>,
        open: &mut Vec<u64>,
    ) {
        // First of all: most are for other hosts and ports.
        self.gates.keep(about, candidates, open);
        match self.turns.is_empty() {
            true => candidates.sort_unstable(),
            false => candidates.sort_unstable_by_key(|&rule| self.turns[rule as usize]),
        }
        candidates.dedup();
    }

    /// The rules with `pass` that ask for no payload.
    pub(crate) fn passes_of_headers(&self) -> &[u32] {
        &self.passes_of_headers
    }

    /// Rules that need an IP header and no more: no payload, no flow.
    pub(crate) fn network_rules(&self) -> &[u32] {
        &self.network_rules
    }

    /// Bytes of the scanners and of the rows by which rules are refused: what grows with the rules,
    /// beside the rules themselves.
    pub fn bytes(&self) -> usize {
        let messages = self.messages.iter().map(|messages| &messages.group);
        let groups = self.groups.iter().chain(messages).map(|group| group.scanner.bytes());
        groups.sum::<usize>() + self.gates.bytes()
    }

    /// The patterns that texts are searched for, a list for each of [`GROUPS`]: for those who make
    /// a [`Search`](crate::inspect::Search).
    pub fn patterns(&self) -> [&Patterns; GROUPS] {
        [0, 1, 2, 3].map(|group: usize| &self.groups[group].patterns)
    }

    /// The patterns that parts of HTTP messages are searched for, if rules are about these.
    pub fn message_patterns(&self) -> Option<&Patterns> {
        self.messages.as_ref().map(|messages| &messages.group.patterns)
    }

    pub(crate) fn scanner(&self, carried: Carried) -> &Scanner {
        &self.group(carried).scanner
    }

    fn group(&self, carried: Carried) -> &Group {
        &self.groups[carried as usize]
    }

    /// The rules of a protocol that have a fast pattern.
    pub(crate) fn patterned(&self, carried: Carried) -> &[u32] {
        &self.group(carried).by_pattern
    }

    /// Whether a protocol has rules without a fast pattern.
    pub(crate) fn has_others(&self, carried: Carried) -> bool {
        let ByPort { any, dst, src } = &self.group(carried).others;
        let mut lists = dst.lists.iter().chain(&src.lists).chain([any]);
        lists.any(|list| !list.is_empty())
    }

    /// Adds the rules whose fast pattern is one of `found`.
    pub(crate) fn candidates(&self, carried: Carried, found: &[PatternId], out: &mut Vec<u32>) {
        let group = self.group(carried);
        found.iter().for_each(|&pattern| out.extend_from_slice(group.rules_of(pattern)));
    }

    /// The same for a text of a stream alone, which only rules of streams are for.
    pub(crate) fn others_of_streams(&self, packet: &Decoded<'_>, out: &mut Vec<u32>) {
        let from = out.len();
        self.others(packet, out);
        let mut kept = from;
        for idx in from..out.len() {
            if self.compiled[out[idx] as usize].scope.streams != Streams::No {
                out[kept] = out[idx];
                kept += 1;
            }
        }
        out.truncate(kept);
    }

    /// Adds the rules without a fast pattern that a packet's ports allow.
    pub(crate) fn others(&self, packet: &Decoded<'_>, out: &mut Vec<u32>) {
        self.group(packet.carried).others(packet, out);
    }
}

/// The turn of each rule: by what it does with bits, then by priority, then by its place in the
/// text.
fn turns(compiled: &[Compiled]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..compiled.len() as u32).collect();
    order.sort_by_key(|&idx| {
        let rule = &compiled[idx as usize].rule;
        (rule.bits.turn(), rule.about.priority)
    });
    let mut turns = vec![0; compiled.len()];
    (0..).zip(order).for_each(|(turn, idx): (u32, u32)| turns[idx as usize] = turn);
    turns
}

impl Compiled {
    fn new(rule: Rule) -> Self {
        let (plan, scope) = (Plan::new(&rule.steps), rule.scope());
        let buffers = rule.buffers.iter().map(|of| (of.buffer, Plan::new(&of.steps))).collect();
        let needs_more = rule.steps.iter().filter(|step| step.is_positive()).count() > 1;
        let ignores_case =
            rule.steps.iter().any(|step| matches!(step, Step::Content(content) if content.nocase));
        Self { rule, plan, buffers, scope, needs_more, ignores_case }
    }

    /// Whether it is looked for in a packet's payload, which may be one that no text of its stream
    /// has.
    pub(crate) fn is_for_payload(&self, carried: Carried, is_aside: bool) -> bool {
        let has_no_stream = is_aside || carried != Carried::Tcp;
        self.scope.packets || has_no_stream && self.scope.streams == Streams::All
    }
}

impl Group {
    fn new(compiled: &[Compiled], carried: Carried, options: &ScanOptions) -> Self {
        let mut wanted: Vec<(&[u8], bool, u32)> = Vec::new();
        let mut others = Vec::new();
        for (idx, compiled) in compiled.iter().enumerate() {
            let is_in = match compiled.rule.header.proto {
                _ if !compiled.buffers.is_empty() => false,
                Proto::Ip => true,
                Proto::Tcp => carried == Carried::Tcp,
                Proto::Udp => carried == Carried::Udp,
                Proto::Icmp => carried == Carried::Icmp,
            };
            match (is_in, fast_pattern(&compiled.rule.steps)) {
                (false, _) => {}
                (true, Some((bytes, nocase))) => wanted.push((bytes, nocase, idx as u32)),
                (true, None) => others.push(idx as u32),
            }
        }
        Self::of(compiled, wanted, others, options)
    }

    /// A group of rules with these patterns, each with whether its case counts for nothing, and of
    /// others without.
    pub(crate) fn of(
        compiled: &[Compiled],
        mut wanted: Vec<(&[u8], bool, u32)>,
        mut others: Vec<u32>,
        options: &ScanOptions,
    ) -> Self {
        wanted.sort_unstable();
        let mut patterns = Patterns::new();
        let (mut starts, mut by_pattern) = (Vec::new(), Vec::new());
        let mut last = None;
        for (bytes, nocase, rule) in wanted {
            if last != Some((bytes, nocase)) {
                let case = if nocase { Case::Insensitive } else { Case::Sensitive };
                // Where the list is full, the rule is looked at without its pattern.
                if patterns.push(bytes, case).is_err() {
                    others.push(rule);
                    continue;
                }
                starts.push(by_pattern.len() as u32);
                last = Some((bytes, nocase));
            }
            by_pattern.push(rule);
        }
        starts.push(by_pattern.len() as u32);
        others.sort_unstable();
        let others = ByPort::new(compiled, &others);
        let scanner = Scanner::build(&patterns, options);
        Self { scanner, patterns, starts, by_pattern, others }
    }

    pub(crate) fn scanner(&self) -> &Scanner {
        &self.scanner
    }

    /// The rules whose fast pattern this one is.
    pub(crate) fn rules_of(&self, pattern: PatternId) -> &[u32] {
        let pattern = pattern.0 as usize;
        &self.by_pattern[self.starts[pattern] as usize..self.starts[pattern + 1] as usize]
    }

    /// Adds the rules without a fast pattern that a packet's ports allow.
    pub(crate) fn others(&self, packet: &Decoded<'_>, out: &mut Vec<u32>) {
        out.extend_from_slice(&self.others.any);
        out.extend_from_slice(self.others.dst.of(packet.dst_port));
        out.extend_from_slice(self.others.src.of(packet.src_port));
    }
}

/// The bytes of options that are searched first, and whether their case counts for nothing.
fn fast_pattern(steps: &[Step]) -> Option<(&[u8], bool)> {
    let fast = fast_of(steps)?;
    Some((fast.bytes, fast.nocase))
}

/// What of some options is searched first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fast<'a> {
    pub bytes: &'a [u8],
    /// Whether their case counts for nothing.
    pub nocase: bool,
    /// How good that is: whether the rule says so, bytes, and different ones.
    pub rank: (bool, usize, usize),
}

/// The same with how good they are; of equals the first ones.
pub(crate) fn fast_of(steps: &[Step]) -> Option<Fast<'_>> {
    let contents = steps.iter().filter_map(|step| match step {
        Step::Content(content) if !content.negated => Some(content),
        _ => None,
    });
    let contents = contents.filter(|content| searched_bytes(content).len() >= FAST_BYTES_MIN);
    let rank = |content: &Content| {
        let mut seen = [false; 256];
        content.bytes.iter().for_each(|&byte| seen[usize::from(byte)] = true);
        let kinds = seen.iter().filter(|seen| **seen).count();
        (content.fast.is_some(), content.bytes.len(), kinds)
    };
    let best = contents.rev().max_by_key(|content| rank(content))?;
    Some(Fast { bytes: searched_bytes(best), nocase: best.nocase, rank: rank(best) })
}

/// What of a content would be searched first.
fn searched_bytes(content: &Content) -> &[u8] {
    match content.fast {
        Some((offset, len)) => &content.bytes[offset as usize..(offset + len) as usize],
        None => &content.bytes,
    }
}

impl ByPort {
    fn new(compiled: &[Compiled], rules: &[u32]) -> Self {
        let mut by_port = Self::default();
        let (mut dst, mut src) = (Vec::new(), Vec::new());
        for &rule in rules {
            let header = &compiled[rule as usize].rule.header;
            let is_plain = !header.both_ways && header.proto != Proto::Ip;
            if is_plain && !header.dst_ports.is_all() {
                dst.push((rule, &*header.dst_ports));
            } else if is_plain && !header.src_ports.is_all() {
                src.push((rule, &*header.src_ports));
            } else {
                by_port.any.push(rule);
            }
        }
        by_port.dst = PortLists::new(&dst, &mut by_port.any);
        by_port.src = PortLists::new(&src, &mut by_port.any);
        by_port.any.sort_unstable();
        by_port
    }
}

impl PortLists {
    fn new(rules: &[(u32, &Ranges<u16>)], too_many: &mut Vec<u32>) -> Self {
        let mut firsts = vec![0u16];
        for (_, ports) in rules {
            for (low, high) in ports.iter() {
                firsts.push(low);
                firsts.extend(high.checked_add(1));
            }
        }
        firsts.sort_unstable();
        firsts.dedup();
        let mut lists = vec![Vec::new(); firsts.len()];
        let mut listed = 0;
        for &(rule, ports) in rules {
            let places = |low: u16, high: u16| {
                let from = firsts.partition_point(|&first| first < low);
                from..firsts.partition_point(|&first| first <= high)
            };
            listed += ports.iter().map(|(low, high)| places(low, high).len()).sum::<usize>();
            if listed > LISTED_MAX {
                too_many.push(rule);
                continue;
            }
            for (low, high) in ports.iter() {
                lists[places(low, high)].iter_mut().for_each(|list: &mut Vec<u32>| list.push(rule));
            }
        }
        Self { firsts, lists }
    }

    fn of(&self, port: u16) -> &[u32] {
        let behind = self.firsts.partition_point(|&first| first <= port);
        self.lists.get(behind.wrapping_sub(1)).map_or(&[], Vec::as_slice)
    }
}

// A full list of patterns is met by rules alone that are as long as they may be.
const _: () = assert!(PATTERNS_BYTES_MAX >= crate::rule::CONTENT_BYTES_MAX);
