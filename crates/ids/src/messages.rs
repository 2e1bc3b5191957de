//! Rules about buffers of messages: which may hold in a message at all.
//!
//! One scanner looks for the fast patterns of all of them, in each buffer that one of them is of. A
//! pattern leads to rules that look for it in the buffer it was found in.

use warpswitch_scan::{PatternId, ScanOptions, Scanner};

use crate::confirm::{Answer, ChainScratch, Text, Work};
use crate::decode::Decoded;
use crate::engine::{Compiled, Fast, Group, fast_of};
use crate::http::{Buffer, BufferSet, Buffers, Part, Wants};
use crate::rule::ToldWith;

/// Rules about messages.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) group: Group,
    /// The buffer of each rule's fast pattern, if it has one.
    fast: Vec<Option<Buffer>>,
    /// With which part each rule is told.
    told_with: Vec<ToldWith>,
    wanted: ByPart,
    searched: ByPart,
    pub(crate) wants: Wants,
}

/// Buffers, of heads alone and where there is a body.
#[derive(Clone, Copy, Debug, Default)]
struct ByPart([BufferSet; 2]);

impl ByPart {
    fn of(self, part: Part) -> BufferSet {
        self.0[part as usize]
    }
}

impl Messages {
    /// The rules that are about messages; none if there are none.
    pub(crate) fn new(compiled: &[Compiled], options: &ScanOptions) -> Option<Self> {
        let (mut patterns, mut others) = (Vec::new(), Vec::new());
        let (mut fast, mut told_with) = (Vec::new(), Vec::new());
        let (mut wanted, mut searched) = (ByPart::default(), ByPart::default());
        let mut wants = Wants::default();
        for (compiled, idx) in compiled.iter().zip(0..) {
            let buffers = &compiled.rule.buffers;
            let with = compiled.rule.told_with();
            told_with.push(with);
            for part in [Part::Head, Part::Body].into_iter().filter(|&part| is_about(with, part)) {
                buffers.iter().for_each(|of| wanted.0[part as usize].insert(of.buffer));
            }
            let [of_requests, of_responses] = compiled.rule.bodies();
            wants.request_bodies |= of_requests;
            wants.response_bodies |= of_responses;
            let found = buffers.iter().filter_map(|of| Some((of.buffer, fast_of(&of.steps)?)));
            // Of equals the first one; whole messages are long.
            let rank = |(buffer, fast): &(Buffer, Fast<'_>)| {
                let (is_said, bytes, kinds) = fast.rank;
                (is_said, *buffer != Buffer::Whole, bytes, kinds)
            };
            let best = found.rev().max_by_key(rank);
            fast.push(best.map(|(buffer, _)| buffer));
            match best {
                Some((buffer, fast)) => {
                    for part in [Part::Head, Part::Body] {
                        if is_about(with, part) {
                            searched.0[part as usize].insert(buffer);
                        }
                    }
                    patterns.push((fast.bytes, fast.nocase, idx));
                }
                None if !buffers.is_empty() => others.push(idx),
                None => {}
            }
        }
        if patterns.is_empty() && others.is_empty() {
            return None;
        }
        let group = Group::of(compiled, patterns, others, options);
        Some(Self { group, fast, told_with, wanted, searched, wants })
    }

    pub(crate) fn scanner(&self) -> &Scanner {
        self.group.scanner()
    }

    /// The buffers that rules about this part ask for.
    pub(crate) fn wanted(&self, part: Part) -> BufferSet {
        self.wanted.of(part)
    }

    /// Whether patterns of rules about this part are looked for in a buffer.
    pub(crate) fn is_searched(&self, part: Part, buffer: Buffer) -> bool {
        self.searched.of(part).contains(buffer)
    }

    /// Adds the rules about a part whose fast pattern was found in `buffer`.
    pub(crate) fn candidates(
        &self,
        (part, buffer): (Part, Buffer),
        found: &[PatternId],
        out: &mut Vec<u32>,
    ) {
        for &pattern in found {
            let rules = self.group.rules_of(pattern).iter().copied();
            out.extend(rules.filter(|&rule| {
                self.fast[rule as usize] == Some(buffer) && self.is_about(rule, part)
            }));
        }
    }

    /// Adds the rules about a part that have no fast pattern.
    pub(crate) fn others(&self, part: Part, packet: &Decoded<'_>, out: &mut Vec<u32>) {
        let from = out.len();
        self.group.others(packet, out);
        let mut kept = from;
        for idx in from..out.len() {
            if self.is_about(out[idx], part) {
                out[kept] = out[idx];
                kept += 1;
            }
        }
        out.truncate(kept);
    }

    fn is_about(&self, rule: u32, part: Part) -> bool {
        is_about(self.told_with[rule as usize], part)
    }

    /// Whether a rule holds in a part of a message, and did not before. [`Buffers::fold`] must have
    /// been called.
    pub(crate) fn holds(
        &self,
        (rule, compiled): (u32, &Compiled),
        (part, head_bytes): (Part, usize),
        buffers: &Buffers,
        (chain, work): (&mut ChainScratch, &mut Work),
    ) -> bool {
        let is_late = part == Part::Body && self.told_with[rule as usize] == ToldWith::Either;
        compiled.holds_in(buffers, usize::MAX, chain, work)
            && !(is_late && compiled.holds_in(buffers, head_bytes, chain, work))
    }
}

fn is_about(with: ToldWith, part: Part) -> bool {
    match with {
        ToldWith::Head => part == Part::Head,
        ToldWith::Body => part == Part::Body,
        ToldWith::Either => true,
    }
}

impl Compiled {
    /// Whether all that the rule asks of buffers is so, where so much of the message is there.
    fn holds_in(
        &self,
        buffers: &Buffers,
        whole_bytes: usize,
        chain: &mut ChainScratch,
        work: &mut Work,
    ) -> bool {
        self.buffers.iter().zip(&self.rule.buffers).all(|((buffer, plan), of)| {
            let (mut bytes, mut folded) = (buffers.bytes(*buffer), buffers.folded(*buffer));
            if *buffer == Buffer::Whole {
                let kept = whole_bytes.min(bytes.len());
                (bytes, folded) = (&bytes[..kept], &folded[..kept]);
            }
            let text = Text { bytes, folded, from: 0, is_start: true };
            !bytes.is_empty()
                && of.sizes.iter().all(|size| size.holds(bytes.len()))
                && plan.confirm(&text, chain, work) != Answer::No
        })
    }
}
