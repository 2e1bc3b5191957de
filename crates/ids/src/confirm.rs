//! Confirmation: whether a rule's whole chain of payload options holds in a text.
//!
//! # Why nothing is tried twice
//! Options with `distance` and `within` hang on the occurrence before, of which there may be many,
//! and trying all ways through a chain takes time exponential in its length. So chains are worked
//! from the last option to the first: for each option, the ends of its occurrences from which the
//! rest of the chain holds, in order. Whether an occurrence of the option before is good is then
//! one look into that list, for any of them within its bounds will do. Options that count from the
//! start of the text begin a chain of their own, and chains do not hang on each other.
//!
//! A `byte_jump` goes on at one place, so it is followed like an expression. Variables go forward,
//! against this order: rules that have any are confirmed by [`forward`].
//!
//! # Fresh
//! A window of a stream has bytes that an earlier window had. A rule is told where something of it
//! ends behind these ([`Text::from`]): each answer is *stale* (all of it was there before) or
//! *fresh*, and a fresh way through is looked for among all.
//!
//! # Bounds
//! Work is counted in bytes looked at. Where it is used up, the answer is that there is none. What
//! literals of one byte look for is noted once for all of them, see [`singles`].

mod forward;
mod singles;

use memchr::memmem::Finder;
use regex::bytes::Regex;

use self::forward::{Forward, States};
use self::singles::{Known, Singles};
use crate::bytes::{ByteJump, ByteSet, ByteTest, VARIABLES_MAX, Values};
use crate::rule::{Content, DataAt, Place, Step};

/// A text that rules are confirmed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The same with letters in lower case, where somebody asks for it.
    pub folded: &'a [u8],
    /// Bytes of it that were looked at before.
    pub from: usize,
    /// Whether it begins where its packet's payload or its stream does.
    pub is_start: bool,
}

impl Text<'_> {
    /// What something says that ends at `end`.
    fn answer(&self, end: usize) -> Answer {
        if end > self.from { Answer::Fresh } else { Answer::Stale }
    }
}

/// The values of variables where there are none.
const NO_VALUES: Values = [0; VARIABLES_MAX];

/// What confirmation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    /// It does not hold.
    No,
    /// It holds in what was looked at before.
    Stale,
    /// It holds, and something of it is new.
    Fresh,
}

/// Work that is left for some texts: bytes that may still be looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    left: u64,
    singles: Singles,
}

impl Work {
    /// Begins with other texts, in the same memory. They stay as they are until the next ones.
    pub(crate) fn begin(&mut self, bytes: u64) {
        self.left = bytes;
        self.singles.clear();
    }

    /// Notes what literals of one byte look for as if many had looked.
    #[cfg(test)]
    pub(crate) fn note(&mut self, text: &Text<'_>) {
        self.singles.of(text).note(text.bytes);
    }

    fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64 + 8);
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.left == 0
    }
}

/// The options of a rule about its payload or a buffer, made ready.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What holds or not for the whole text.
    guards: Vec<Test>,
    chains: Vec<Chain>,
    /// All of it, in the place of these, where variables are asked for.
    forward: Option<Forward>,
}

/// A list of options, each of which hangs on the one before.
#[derive(Debug)]
struct Chain {
    nodes: Vec<Node>,
}

/// One link of a chain: something that must be there, and what is asked where it ends.
#[derive(Debug)]
struct Node {
    what: What,
    tests: Vec<Test>,
}

#[derive(Debug)]
enum What {
    /// The start of the text, for chains that begin with something relative.
    Start,
    Literal(Box<Literal>),
    Expression(Regex),
    Jump(ByteJump),
    /// Of a variable that nobody asks for.
    Set(ByteSet),
}

#[derive(Debug)]
struct Literal {
    finder: Finder<'static>,
    nocase: bool,
    place: Place,
    at_end: bool,
}

#[derive(Debug)]
enum Test {
    /// The literal must not be there.
    Absent(Box<Literal>),
    /// The expression must not match; whether it is looked at behind an occurrence.
    NoMatch(Regex, bool),
    DataAt(DataAt),
    Bytes(ByteTest),
}

/// Memory of confirmations.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChainScratch {
    /// For each node of a chain: ends from which the rest holds.
    nodes: Vec<Good>,
    /// What came of options whose places hang on variables.
    states: States,
}

#[derive(Clone, Debug, Default)]
struct Good {
    ends: Vec<u32>,
    /// Those of them from which the rest can be fresh.
    fresh: Vec<u32>,
}

impl Good {
    /// The best answer among ends from `low` to `high`.
    fn best(&self, low: i64, high: i64) -> Answer {
        let has = |ends: &[u32]| {
            let first = ends.partition_point(|&end| i64::from(end) < low);
            ends.get(first).is_some_and(|&end| i64::from(end) <= high)
        };
        match (has(&self.fresh), has(&self.ends)) {
            (true, _) => Answer::Fresh,
            (false, true) => Answer::Stale,
            (false, false) => Answer::No,
        }
    }
}

impl Literal {
    fn new(content: &Content) -> Self {
        Self {
            finder: Finder::new(&content.bytes).into_owned(),
            nocase: content.nocase,
            place: content.place,
            at_end: content.at_end,
        }
    }

    fn len(&self) -> usize {
        self.finder.needle().len()
    }

    /// The first byte and the last place of an end at `place`, seen from `position`.
    fn bounds(&self, place: Place, position: usize, text_bytes: usize) -> (i64, i64) {
        let (start, end) = match place {
            Place::Absolute { offset, depth } => {
                (i64::from(offset), depth.map(|depth| i64::from(offset) + i64::from(depth)))
            }
            Place::Relative { distance, within } => {
                let start = position as i64 + i64::from(distance);
                (start, within.map(|within| start + i64::from(within)))
            }
        };
        let text_bytes = text_bytes as i64;
        let start = start.max(0);
        let start = if self.at_end { start.max(text_bytes - self.len() as i64) } else { start };
        (start, end.map_or(text_bytes, |end| end.min(text_bytes)))
    }

    /// The end of the first occurrence that begins at `start` or behind and ends at `limit` or
    /// before.
    fn find(&self, text: &Text<'_>, start: i64, limit: i64, work: &mut Work) -> Option<usize> {
        let (start, limit) = (usize::try_from(start).ok()?, usize::try_from(limit).ok()?);
        let bytes = if self.nocase { text.folded } else { text.bytes };
        let part = bytes.get(start..limit)?;
        if let [byte] = *self.finder.needle() {
            return self.find_byte(byte, text, (part, start), work);
        }
        let found = self.finder.find(part);
        work.spend(found.map_or(part.len(), |at| at + self.len()));
        found.map(|at| start + at + self.len())
    }

    /// The same for one byte in a part of the text that begins at `start`.
    fn find_byte(
        &self,
        byte: u8,
        text: &Text<'_>,
        (part, start): (&[u8], usize),
        work: &mut Work,
    ) -> Option<usize> {
        let noted = work.singles.of(text);
        match noted.find(byte, self.nocase, &(start..start + part.len())) {
            Known::Absent => {
                work.spend(0);
                None
            }
            Known::At(first) => {
                work.spend(1);
                Some(first + 1)
            }
            Known::Unknown => {
                let found = memchr::memchr(byte, part);
                let looked = found.map_or(part.len(), |at| at + 1);
                if noted.is_worn(looked) {
                    noted.note(text.bytes);
                    work.spend(text.bytes.len());
                }
                work.spend(looked);
                found.map(|at| start + at + 1)
            }
        }
    }
}

impl Plan {
    /// Makes options about one text ready.
    pub(crate) fn new(steps: &[Step]) -> Self {
        let mut plan = Self { guards: Vec::new(), chains: Vec::new(), forward: None };
        if steps.iter().any(|step| step.variables().next().is_some()) {
            plan.forward = Some(Forward::new(steps));
            return plan;
        }
        for step in steps {
            if !step.is_relative() && step.moves() {
                let node = Node { what: what(step), tests: Vec::new() };
                plan.chains.push(Chain { nodes: vec![node] });
            } else if !step.is_relative() {
                plan.guards.push(test(step));
            } else {
                if plan.chains.is_empty() {
                    let start = Node { what: What::Start, tests: Vec::new() };
                    plan.chains.push(Chain { nodes: vec![start] });
                }
                // There is a last chain, and every chain has a node.
                let Some(chain) = plan.chains.last_mut() else { continue };
                if step.moves() {
                    chain.nodes.push(Node { what: what(step), tests: Vec::new() });
                } else if let Some(node) = chain.nodes.last_mut() {
                    node.tests.push(test(step));
                }
            }
        }
        plan
    }

    /// Whether the options hold in `text`. A rule without any holds, and is stale.
    pub(crate) fn confirm(
        &self,
        text: &Text<'_>,
        scratch: &mut ChainScratch,
        work: &mut Work,
    ) -> Answer {
        if let Some(forward) = &self.forward {
            let answer = forward.confirm(text, &mut scratch.states, work);
            return if work.is_used_up() { Answer::No } else { answer };
        }
        let mut best = Answer::Stale;
        for guard in &self.guards {
            match guard.holds(text, 0, work) {
                Answer::No => return Answer::No,
                answer => best = best.max(answer),
            }
        }
        // Cheap looks at all chains first: most candidates lack something.
        let mut lows = [0i64; crate::rule::STEPS_MAX + 1];
        for chain in &self.chains {
            if !chain.may_hold(text, &mut lows, work) {
                return Answer::No;
            }
        }
        for chain in &self.chains {
            if self.chains.len() > 1 && !chain.may_hold(text, &mut lows, work) {
                return Answer::No;
            }
            match chain.confirm(text, &lows, scratch, work) {
                Answer::No => return Answer::No,
                answer => best = best.max(answer),
            }
        }
        if work.is_used_up() { Answer::No } else { best }
    }
}

fn what(step: &Step) -> What {
    match step {
        Step::Content(content) => What::Literal(Box::new(Literal::new(content))),
        Step::Expression(expression) => What::Expression(expression.regex.clone()),
        Step::ByteJump(jump) => What::Jump(*jump),
        Step::ByteSet(set) => What::Set(*set),
        // These move nothing, so they are tests.
        Step::DataAt(_) | Step::ByteTest(_) => What::Start,
    }
}

fn test(step: &Step) -> Test {
    match step {
        Step::Content(content) => Test::Absent(Box::new(Literal::new(content))),
        Step::Expression(expression) => {
            Test::NoMatch(expression.regex.clone(), expression.relative)
        }
        Step::DataAt(data) => Test::DataAt(*data),
        Step::ByteTest(test) => Test::Bytes(*test),
        // These move, so they are links of chains.
        Step::ByteJump(_) | Step::ByteSet(_) => unreachable!("a link of a chain"),
    }
}

impl Test {
    /// Whether it holds where an occurrence ends at `position`, or for the whole text.
    fn holds(&self, text: &Text<'_>, position: usize, work: &mut Work) -> Answer {
        let holds = match self {
            Test::Absent(literal) => {
                let (start, limit) = literal.bounds(literal.place, position, text.bytes.len());
                literal.find(text, start, limit, work).is_none()
            }
            Test::NoMatch(regex, relative) => {
                let (bytes, at) = expression_text(text, position);
                work.spend(bytes.len());
                !regex.is_match_at(bytes, if *relative { 0 } else { at })
            }
            Test::DataAt(data) => return data_at(data, text, position, &NO_VALUES),
            Test::Bytes(test) => {
                work.spend(0);
                let end = test.holds(text.bytes, position, &NO_VALUES);
                return end.map_or(Answer::No, |end| text.answer(end));
            }
        };
        if holds { Answer::Stale } else { Answer::No }
    }
}

/// Whether there are so many bytes; fresh if the last of them is new.
pub(crate) fn data_at(data: &DataAt, text: &Text<'_>, position: usize, values: &Values) -> Answer {
    let base = if data.relative { position as i128 } else { 1 };
    let end = base + data.bytes.get(values);
    let (is_there, is_old) = (end <= text.bytes.len() as i128, end <= text.from as i128);
    match (is_there != data.negated, data.negated || is_old) {
        (false, _) => Answer::No,
        (true, true) => Answer::Stale,
        (true, false) => Answer::Fresh,
    }
}

/// Where an expression is looked for: behind `position`; in the whole text, behind its first byte
/// if something stood before it that the expression cannot see.
pub(crate) fn expression_text<'a>(text: &Text<'a>, position: usize) -> (&'a [u8], usize) {
    let at = usize::from(!text.is_start && position == 0).min(text.bytes.len());
    (&text.bytes[position.min(text.bytes.len())..], at)
}

impl Chain {
    /// Whether each literal occurs behind the first possible end of the one before. Leaves the
    /// first possible start of each in `lows`.
    fn may_hold(&self, text: &Text<'_>, lows: &mut [i64], work: &mut Work) -> bool {
        let mut position = 0;
        for (node, low) in self.nodes.iter().zip(lows) {
            *low = position as i64;
            if let What::Literal(literal) = &node.what {
                // Bounds of ends hang on which occurrence comes before: only the start is sure.
                let (start, limit) = literal.bounds(literal.place, position, text.bytes.len());
                let limit =
                    if literal.place.is_relative() { text.bytes.len() as i64 } else { limit };
                let Some(end) = literal.find(text, start, limit, work) else { return false };
                *low = (end - literal.len()) as i64;
                position = end;
            } else if let What::Jump(_) | What::Set(_) = &node.what {
                // They may go back.
                position = 0;
            }
        }
        true
    }

    fn confirm(
        &self,
        text: &Text<'_>,
        lows: &[i64],
        scratch: &mut ChainScratch,
        work: &mut Work,
    ) -> Answer {
        if scratch.nodes.len() < self.nodes.len() {
            scratch.nodes.resize_with(self.nodes.len(), Good::default);
        }
        for idx in (1..self.nodes.len()).rev() {
            let What::Literal(literal) = &self.nodes[idx].what else { continue };
            let (head, rest) = scratch.nodes.split_at_mut(idx + 1);
            let good = &mut head[idx];
            good.ends.clear();
            good.fresh.clear();
            let mut start = lows[idx];
            if literal.at_end {
                start = start.max(text.bytes.len() as i64 - literal.len() as i64);
            }
            let limit = text.bytes.len() as i64;
            while let Some(end) = literal.find(text, start, limit, work) {
                match self.follow(idx, end, text, rest, work) {
                    Answer::No => {}
                    answer => {
                        good.ends.push(end as u32);
                        if answer == Answer::Fresh {
                            good.fresh.push(end as u32);
                        }
                    }
                }
                start = (end - literal.len()) as i64 + 1;
                if work.is_used_up() {
                    return Answer::No;
                }
            }
        }
        self.head(text, &scratch.nodes[1.min(scratch.nodes.len())..], work)
    }

    /// The best answer over all occurrences of the first node.
    fn head(&self, text: &Text<'_>, rest: &[Good], work: &mut Work) -> Answer {
        let mut best = Answer::No;
        match &self.nodes[0].what {
            What::Start => return self.follow(0, 0, text, rest, work),
            What::Literal(literal) => {
                let (mut start, limit) = literal.bounds(literal.place, 0, text.bytes.len());
                if self.nodes.len() == 1 && self.nodes[0].tests.is_empty() {
                    // Nothing hangs on which one it is: of the stale ones, any will do.
                    let fresh = start.max(text.from as i64 + 1 - literal.len() as i64);
                    let mut is_behind = |start| literal.find(text, start, limit, work).is_some();
                    return match is_behind(fresh) {
                        true => Answer::Fresh,
                        false if is_behind(start) => Answer::Stale,
                        false => Answer::No,
                    };
                }
                while let Some(end) = literal.find(text, start, limit, work) {
                    best = best.max(self.follow(0, end, text, rest, work));
                    start = (end - literal.len()) as i64 + 1;
                    if best == Answer::Fresh || work.is_used_up() {
                        break;
                    }
                }
            }
            What::Expression(regex) => {
                let (bytes, at) = expression_text(text, 0);
                best = self.matches(0, regex, bytes, at, 0, text, rest, work);
            }
            What::Jump(_) | What::Set(_) => best = self.jump(0, 0, text, rest, work),
        }
        best
    }

    /// The best answer over the matches of the expression of node `idx`, left to right, none
    /// overlapping another.
    #[allow(clippy::too_many_arguments)]
    fn matches(
        &self,
        idx: usize,
        regex: &Regex,
        bytes: &[u8],
        mut at: usize,
        shift: usize,
        text: &Text<'_>,
        rest: &[Good],
        work: &mut Work,
    ) -> Answer {
        let mut best = Answer::No;
        while at <= bytes.len() && !work.is_used_up() {
            let Some(found) = regex.find_at(bytes, at) else {
                work.spend(bytes.len() - at);
                break;
            };
            work.spend(found.end() - at);
            best = best.max(self.follow(idx, shift + found.end(), text, rest, work));
            if best == Answer::Fresh {
                break;
            }
            at = found.end() + usize::from(found.is_empty());
        }
        best
    }

    /// What comes of node `idx`, which reads a number, where the one before ended at `position`.
    fn jump(
        &self,
        idx: usize,
        position: usize,
        text: &Text<'_>,
        rest: &[Good],
        work: &mut Work,
    ) -> Answer {
        work.spend(0);
        let landed = match &self.nodes[idx].what {
            What::Jump(jump) => jump.land(text.bytes, position, &NO_VALUES),
            What::Set(set) => {
                set.value(text.bytes, position, &NO_VALUES).map(|(_, end)| (end, end))
            }
            What::Start | What::Literal(_) | What::Expression(_) => None,
        };
        let Some((landing, end)) = landed.filter(|_| !work.is_used_up()) else {
            return Answer::No;
        };
        match self.follow(idx, landing, text, rest, work) {
            Answer::No => Answer::No,
            onward => onward.max(text.answer(end)),
        }
    }

    /// What comes of an occurrence of node `idx` that ends at `position`; `rest` has the lists of
    /// the nodes behind it.
    fn follow(
        &self,
        idx: usize,
        position: usize,
        text: &Text<'_>,
        rest: &[Good],
        work: &mut Work,
    ) -> Answer {
        let mut here = text.answer(position);
        for test in &self.nodes[idx].tests {
            match test.holds(text, position, work) {
                Answer::No => return Answer::No,
                answer => here = here.max(answer),
            }
        }
        let Some(next) = self.nodes.get(idx + 1) else { return here };
        let onward = match &next.what {
            What::Start => Answer::No,
            What::Literal(literal) => {
                let (start, limit) = literal.bounds(literal.place, position, text.bytes.len());
                rest[0].best(start + literal.len() as i64, limit)
            }
            What::Expression(regex) => {
                let (bytes, _) = expression_text(text, position);
                let rest = rest.get(1..).unwrap_or(&[]);
                self.matches(idx + 1, regex, bytes, 0, position, text, rest, work)
            }
            What::Jump(_) | What::Set(_) => {
                self.jump(idx + 1, position, text, rest.get(1..).unwrap_or(&[]), work)
            }
        };
        if onward == Answer::No { Answer::No } else { here.max(onward) }
    }
}
