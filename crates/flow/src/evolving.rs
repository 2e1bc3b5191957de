//! Evolving rules: boxes that grow around sampled keys as far as the rule set allows.
//!
//! # Invariants
//! The five properties of the paper, checked by [`EvolvingRules::verify`]:
//! - P1: an evolving rule is a box: one span for each dimension.
//! - P2: its answer is that of the rule set for every key in the box.
//! - P3: each cacheable sample of the window is assigned to one evolving rule that contains it; the
//!   weight of a rule is the number of its samples, and at least 1.
//! - P4: evolving rules that overlap have the same answer. It follows from P2.
//! - P5: it lies within one rule of the set, of the same answer, and no rule of another answer that
//!   overlaps it precedes that one.
//!
//! [`RuleIndex::accepts`] decides P2 and P5 for a box.
//!
//! # Growth ahead of samples
//! A box of the paper grows to the next sample that it lacks. Among n samples spread over d
//! dimensions, one in n / 2d lies outside of the box around the others, so it takes thousands of
//! samples until hardly a key misses. With [`Growth::Ahead`] a box that has changed is grown
//! further at once, within the rule of its last sample: to all of the rule, to aligned blocks
//! around it, and in each dimension for itself, as far as the conflict check accepts. Where most
//! samples start rules that no other sample will meet, growth waits for the second sample of a
//! rule: it is most of what such a sample costs.

use std::collections::VecDeque;

use warpswitch_classify::hypercuts::Span;

use crate::Answer;
use crate::rule_index::{RuleIndex, Winner};

/// Evolving rules that are tried for each sample: bounds the cost where nothing can merge.
const EXPANSIONS_MAX: usize = 32;

/// Additional bits of the aligned blocks around a box, in the order in which they are tried.
const BLOCK_BITS: [u32; 4] = [16, 8, 4, 2];

/// How far a box grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// To the sample, as in the paper.
    ToSample,
    /// As far as the rule of the sample and the conflict check allow.
    #[default]
    Ahead,
}

/// A box of keys with the same answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvolvingRule {
    /// One span for each dimension.
    pub region: Vec<Span>,
    /// The answer for every key in it.
    pub answer: Answer,
    /// Samples of the window that are assigned to it.
    pub weight: u32,
    /// Names it to its samples and to the cache; never used again.
    pub serial: u64,
    /// Whether it grows with its next sample.
    grows_later: bool,
}

impl EvolvingRule {
    fn contains(&self, point: &[Span]) -> bool {
        self.region.iter().zip(point).all(|(mine, point)| mine.covers(*point))
    }

    fn overlaps(&self, other: &Self) -> bool {
        let mut pairs = self.region.iter().zip(&other.region);
        pairs.all(|(a, b)| a.lo <= b.hi && b.lo <= a.hi)
    }
}

/// A key of the window.
#[derive(Clone, Debug)]
struct Sample {
    /// Its point or, where no rule examines a dimension, the whole span.
    point: Vec<Span>,
    /// The rule that it is assigned to; none if it is not cacheable or its rule was removed.
    serial: Option<u64>,
}

/// The effect of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evolution {
    /// An evolving rule contains the key.
    Counted,
    /// An evolving rule was expanded to contain it.
    Expanded,
    /// A new rule contains it.
    Started,
    /// No box around the key may be cached.
    Rejected,
}

/// The effect of a part of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The sample belongs to a rule now, or to none.
    Decided(Evolution),
    /// A box has grown.
    Grown,
    /// No rule has changed.
    Nothing,
}

/// What is left to do for the last sample. Each conflict check of a box is a part of its own: a
/// worker that evolves rules beside its packets must not stay away from them for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Nothing,
    /// The sample may join a rule of its answer: `tries` more, of this serial and later ones.
    Join {
        from: u64,
        tries: usize,
    },
    /// The rule of this serial may grow to the box of this number.
    Grow {
        serial: u64,
        number: usize,
    },
}

/// The evolving rules over a sliding window. See the module.
#[derive(Debug)]
pub struct EvolvingRules {
    window_len: usize,
    window: VecDeque<Sample>,
    /// In the order in which they were started.
    rules: Vec<EvolvingRule>,
    next_serial: u64,
    growth: Growth,
    /// Whether rules grow with their second sample only.
    is_patient: bool,
    /// Points of samples that left the window.
    spare: Vec<Vec<Span>>,
    expanded: Vec<Span>,
    /// The rule of the last sample.
    winner: Winner,
    work: Work,
    /// The point of the last sample while it may join a rule.
    joining: Vec<Span>,
}

impl EvolvingRules {
    /// No rules, over a window of so many samples.
    ///
    /// # Panics
    /// If the window is empty.
    pub fn new(window_len: usize, growth: Growth) -> Self {
        assert!(window_len > 0, "a window holds at least one sample");
        Self {
            window_len,
            window: VecDeque::with_capacity(window_len),
            rules: Vec::new(),
            next_serial: 0,
            growth,
            is_patient: false,
            spare: Vec::new(),
            expanded: Vec::new(),
            winner: Winner::default(),
            work: Work::Nothing,
            joining: Vec::new(),
        }
    }

    /// The rules, in the order in which they were started.
    pub fn rules(&self) -> &[EvolvingRule] {
        &self.rules
    }

    /// Whether rules that start from now on grow with their second sample only.
    pub fn set_patient(&mut self, is_patient: bool) {
        self.is_patient = is_patient;
    }

    /// Moves the window by one key, with all that follows from it.
    ///
    /// Cost: a comparison with each rule; for a key outside of all, a conflict check for each of
    /// the first 32 of the same answer, and, to grow ahead, for each dimension and five more.
    pub fn sample(&mut self, key: &[u32], index: &RuleIndex) -> Evolution {
        let mut progress = self.begin(key, index);
        loop {
            if let Progress::Decided(evolution) = progress {
                self.finish(index);
                return evolution;
            }
            progress = self.step(index);
        }
    }

    /// Begins with a key, which ends what was left to do for the one before it; [`step`] does what
    /// is left for this one.
    ///
    /// Cost: a comparison with each rule; a search of the winner for a key outside of all, or of a
    /// rule that grows later; for a key outside of all, a conflict check of its point.
    ///
    /// [`step`]: Self::step
    pub fn begin(&mut self, key: &[u32], index: &RuleIndex) -> Progress {
        self.drop_work();
        self.trim(self.window_len - 1);
        let mut point = self.spare.pop().unwrap_or_default();
        index.point(key, &mut point);
        if let Some(rule) = self.rules.iter_mut().find(|rule| rule.contains(&point)) {
            rule.weight += 1;
            let (serial, grows) = (rule.serial, std::mem::take(&mut rule.grows_later));
            if grows {
                index.find_winner(&point, &mut self.winner);
            }
            return self.decide(point, Some(serial), Evolution::Counted, grows);
        }
        index.find_winner(&point, &mut self.winner);
        if !index.accepts(&point, index.answer(self.winner.id())) {
            return self.decide(point, None, Evolution::Rejected, false);
        }
        self.joining = point;
        self.work = Work::Join { from: 0, tries: EXPANSIONS_MAX };
        Progress::Nothing
    }

    /// Whether something is left to do for the last key.
    pub fn has_work(&self) -> bool {
        self.work != Work::Nothing
    }

    /// Does a part of what is left for the last key: at most one conflict check of a box, whose
    /// cost is bounded.
    pub fn step(&mut self, index: &RuleIndex) -> Progress {
        match self.work {
            Work::Nothing => Progress::Nothing,
            Work::Join { from, tries } => self.join(index, from, tries),
            Work::Grow { serial, number } => self.grow(index, serial, number),
        }
    }

    fn finish(&mut self, index: &RuleIndex) {
        while self.has_work() {
            self.step(index);
        }
    }

    /// Leaves what is left undone.
    fn drop_work(&mut self) {
        if let Work::Join { .. } = self.work {
            self.spare.push(std::mem::take(&mut self.joining));
        }
        self.work = Work::Nothing;
    }

    /// The sample of `point` belongs to the rule of this serial, which now `grows` or not.
    fn decide(
        &mut self,
        point: Vec<Span>,
        serial: Option<u64>,
        evolution: Evolution,
        grows: bool,
    ) -> Progress {
        self.window.push_back(Sample { point, serial });
        self.work = match serial {
            Some(serial) if grows && self.growth == Growth::Ahead => {
                Work::Grow { serial, number: 0 }
            }
            _ => Work::Nothing,
        };
        Progress::Decided(evolution)
    }

    /// Tries to expand the next rule of the same answer; without one a rule is started.
    fn join(&mut self, index: &RuleIndex, from: u64, tries: usize) -> Progress {
        let answer = index.answer(self.winner.id());
        let first = self.rules.partition_point(|rule| rule.serial < from);
        let same = self.rules[first..].iter_mut().find(|rule| rule.answer == answer);
        let point = &self.joining;
        let (serial, evolution, grows) = match same.filter(|_| tries > 0) {
            Some(rule) => {
                self.expanded.clear();
                self.expanded.extend(rule.region.iter().zip(point).map(|(a, b)| a.joined(*b)));
                if !index.accepts_soon(&self.expanded, answer) {
                    self.work = Work::Join { from: rule.serial + 1, tries: tries - 1 };
                    return Progress::Nothing;
                }
                std::mem::swap(&mut rule.region, &mut self.expanded);
                rule.weight += 1;
                rule.grows_later = false;
                (rule.serial, Evolution::Expanded, true)
            }
            None => {
                let serial = self.next_serial;
                self.next_serial += 1;
                let (region, grows_later) = (point.clone(), self.is_patient);
                self.rules.push(EvolvingRule { region, answer, weight: 1, serial, grows_later });
                (serial, Evolution::Started, !grows_later)
            }
        };
        let point = std::mem::take(&mut self.joining);
        self.decide(point, Some(serial), evolution, grows)
    }

    /// Tries the next box within the rule of the last sample: all of the rule; aligned blocks,
    /// until one is accepted; each dimension for itself.
    fn grow(&mut self, index: &RuleIndex, serial: u64, number: usize) -> Progress {
        let reach = self.winner.reach();
        let at = self.rules.binary_search_by_key(&serial, |rule| rule.serial);
        let (Ok(at), true) = (at, number < 1 + BLOCK_BITS.len() + reach.len()) else {
            self.work = Work::Nothing;
            return Progress::Nothing;
        };
        let region = &mut self.rules[at].region;
        let target = |dim: usize, span: Span| match number.checked_sub(1) {
            None => reach[dim],
            Some(block) if block < BLOCK_BITS.len() => {
                aligned(span, BLOCK_BITS[block]).clipped(reach[dim])
            }
            Some(other) if other - BLOCK_BITS.len() == dim => reach[dim],
            Some(_) => span,
        };
        self.expanded.clear();
        let spans = region.iter().enumerate().map(|(dim, span)| span.joined(target(dim, *span)));
        self.expanded.extend(spans);
        let is_larger = self.expanded != *region;
        let is_accepted = is_larger && index.accepts_within(&self.expanded, &self.winner);
        let next = match number {
            0 if is_accepted || !is_larger => usize::MAX,
            // A block that does not reach further is as good as accepted.
            block if block <= BLOCK_BITS.len() && (is_accepted || !is_larger) => {
                1 + BLOCK_BITS.len()
            }
            _ => number + 1,
        };
        self.work = Work::Grow { serial, number: next };
        if !is_accepted {
            return Progress::Nothing;
        }
        std::mem::swap(region, &mut self.expanded);
        Progress::Grown
    }

    /// Forgets the oldest samples beyond so many.
    pub fn trim(&mut self, len: usize) {
        let excess = self.window.len().saturating_sub(len);
        let is_one_gone = (0..excess).fold(false, |any, _| self.forget_oldest() | any);
        if is_one_gone {
            self.rules.retain(|rule| rule.weight > 0);
        }
    }

    /// Lowers the weight of the oldest sample's rule; returns whether none is left.
    fn forget_oldest(&mut self) -> bool {
        let Some(sample) = self.window.pop_front() else { return false };
        self.spare.push(sample.point);
        let Some(serial) = sample.serial else { return false };
        // Serials grow with the place.
        let found = self.rules.binary_search_by_key(&serial, |rule| rule.serial);
        let rule = &mut self.rules[found.expect("P3: the rule of a sample")];
        rule.weight -= 1;
        rule.weight == 0
    }

    /// Removes the rules whose region is dirty; their samples stay in the window unassigned.
    pub fn remove_dirty(&mut self, is_dirty: impl Fn(&[Span]) -> bool) -> usize {
        // The rule of the last sample may go.
        self.drop_work();
        let before = self.rules.len();
        self.rules.retain(|rule| !is_dirty(&rule.region));
        let removed = before - self.rules.len();
        if removed > 0 {
            for sample in &mut self.window {
                let is_there = |serial: &u64| {
                    self.rules.binary_search_by_key(serial, |rule| rule.serial).is_ok()
                };
                sample.serial = sample.serial.filter(is_there);
            }
        }
        removed
    }

    /// The `len_max` heaviest rules, the heaviest first.
    pub fn heaviest(&self, len_max: usize) -> Vec<&EvolvingRule> {
        let mut rules: Vec<&EvolvingRule> = self.rules.iter().collect();
        // Of the same weight, the older one first.
        let rank = |rule: &&EvolvingRule| (std::cmp::Reverse(rule.weight), rule.serial);
        if len_max > 0 && len_max < rules.len() {
            rules.select_nth_unstable_by_key(len_max - 1, rank);
        }
        rules.truncate(len_max);
        rules.sort_unstable_by_key(rank);
        rules
    }

    /// Whether a rule outside of `cached`, which are serials in order, is clearly heavier than one
    /// of these `cached_max` rules. Rules that have gone weigh nothing.
    pub fn outweighs(&self, cached: &[u64], cached_max: usize) -> bool {
        let (mut present, mut lightest, mut heaviest) = (0, u32::MAX, 0);
        for rule in &self.rules {
            if cached.binary_search(&rule.serial).is_ok() {
                present += 1;
                lightest = lightest.min(rule.weight);
            } else {
                heaviest = heaviest.max(rule.weight);
            }
        }
        let lightest = if present < cached_max { 0 } else { lightest };
        heaviest > lightest + lightest / 4 + 1
    }

    /// Checks the five properties.
    ///
    /// # Errors
    /// The first property that does not hold.
    pub fn verify(&self, index: &RuleIndex) -> Result<(), String> {
        let dims_len = index.dims().len();
        let mut samples = vec![0; self.rules.len()];
        for sample in &self.window {
            let Some(serial) = sample.serial else { continue };
            let at = self.rules.iter().position(|rule| rule.serial == serial);
            let at = at.ok_or_else(|| format!("P3: a sample of the missing rule {serial}"))?;
            samples[at] += 1;
            if !self.rules[at].contains(&sample.point) {
                return Err(format!("P3: rule {serial} lacks its sample {:?}", sample.point));
            }
        }
        for (rule, samples) in self.rules.iter().zip(samples) {
            if rule.region.len() != dims_len || rule.region.iter().any(|span| span.lo > span.hi) {
                return Err(format!("P1: {:?}", rule.region));
            }
            if rule.weight != samples || samples == 0 {
                return Err(format!("P3: weight {}, {samples} samples", rule.weight));
            }
            if !index.accepts(&rule.region, rule.answer) {
                return Err(format!("P2, P5: {:?} under {:?}", rule.region, rule.answer));
            }
            let apart = |other: &&EvolvingRule| other.answer != rule.answer && other.overlaps(rule);
            if let Some(other) = self.rules.iter().find(apart) {
                return Err(format!("P4: {:?} and {:?}", rule.region, other.region));
            }
        }
        Ok(())
    }
}

/// The aligned block of a power of two around `span` with so many bits more than it needs.
fn aligned(span: Span, bits: u32) -> Span {
    let varying = 32 - (span.lo ^ span.hi).leading_zeros() + bits;
    let low = 1u32.checked_shl(varying).map_or(u32::MAX, |block| block - 1);
    Span { lo: span.lo & !low, hi: span.hi | low }
}

#[cfg(test)]
mod tests {
    use warpswitch_classify::hypercuts::TreeOptions;
    use warpswitch_rules::schema::IPV4_5TUPLE;
    use warpswitch_rules::{Action, Field, Match, Rule, Ruleset, RulesetBuilder};

    use super::*;
    use crate::Merge;

    /// Table 3 of the paper: two fields, here the ports, and four actions.
    fn paper_rules() -> Ruleset {
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        let rows = [((1, 9), (4, 10)), ((7, 14), (3, 8)), ((3, 11), (1, 6)), ((0, 15), (0, 11))];
        for (number, (x, y)) in rows.into_iter().enumerate() {
            let mut matching = Match::any(&IPV4_5TUPLE);
            matching.set_range(Field::L4Src, x.0, x.1).set_range(Field::L4Dst, y.0, y.1);
            builder.push(Rule::new(matching, Action::Mark(number as u32)));
        }
        builder.build()
    }

    fn key(x: u32, y: u32) -> [u32; 4] {
        [10, 20, x << 16 | y, 6 << 24]
    }

    /// The ports of each rule's region, and its weight.
    fn boxes(evolving: &EvolvingRules) -> Vec<([u32; 4], u32)> {
        let ports = |rule: &EvolvingRule| {
            let (x, y) = (rule.region[2], rule.region[3]);
            ([x.lo, x.hi, y.lo, y.hi], rule.weight)
        };
        evolving.rules().iter().map(ports).collect()
    }

    /// Samples points, checking the properties after each.
    fn sample(
        evolving: &mut EvolvingRules,
        index: &RuleIndex,
        points: &[(u32, u32)],
    ) -> Vec<Evolution> {
        let one = |&(x, y): &(u32, u32)| {
            let evolution = evolving.sample(&key(x, y), index);
            evolving.verify(index).expect("the five properties");
            evolution
        };
        points.iter().map(one).collect()
    }

    #[test]
    fn rules_evolve_as_in_figure_4_of_the_paper() {
        use Evolution::{Counted, Expanded, Started};
        let index = RuleIndex::new(&paper_rules(), Merge::ByAction, TreeOptions::default());
        let mut evolving = EvolvingRules::new(1024, Growth::ToSample);
        // Two points of R0; one of R3, which no box with them may contain; R3 again on the same
        // side; R1; R1 again.
        let points = [(2, 5), (6, 9), (13, 10), (15, 11), (10, 7), (13, 4)];
        let expected = [Started, Expanded, Started, Expanded, Started, Expanded];
        assert_eq!(sample(&mut evolving, &index, &points), expected);
        let regions = [([2, 6, 5, 9], 2), ([13, 15, 10, 11], 2), ([10, 13, 4, 7], 2)];
        assert_eq!(boxes(&evolving), regions);
        // R3 to the left of R0 cannot join R3 to the right.
        assert_eq!(
            sample(&mut evolving, &index, &[(0, 0), (3, 6), (0, 1)]),
            [Started, Counted, Expanded,]
        );
    }

    #[test]
    fn keys_without_a_rule_and_unexamined_fields_are_cached_too() {
        let index = RuleIndex::new(&paper_rules(), Merge::ByRule, TreeOptions::default());
        let mut evolving = EvolvingRules::new(8, Growth::ToSample);
        let outside = [(100, 100), (300, 200)];
        let expected = [Evolution::Started, Evolution::Expanded];
        assert_eq!(sample(&mut evolving, &index, &outside), expected);
        assert_eq!(evolving.rules()[0].answer, Answer::NONE);
        // The rules do not examine addresses: any packet with these ports hits.
        let other = [7, 8, 200 << 16 | 150, 17 << 24];
        assert_eq!(evolving.sample(&other, &index), Evolution::Counted);
    }

    #[test]
    fn boxes_grow_ahead_within_their_rule() {
        let index = RuleIndex::new(&paper_rules(), Merge::ByRule, TreeOptions::default());
        let mut evolving = EvolvingRules::new(8, Growth::Ahead);
        // All of R0 at once; of R1 a block to the right of R0, and from there up and down; of R3
        // all below the others.
        let points = [(5, 5), (12, 5), (9, 4), (2, 0)];
        let expected = [Evolution::Started, Evolution::Started, Evolution::Counted];
        assert_eq!(sample(&mut evolving, &index, &points)[..3], expected);
        let regions = [([1, 9, 4, 10], 2), ([12, 14, 3, 8], 1), ([0, 15, 0, 0], 1)];
        assert_eq!(boxes(&evolving), regions);
    }

    #[test]
    fn patient_rules_grow_with_their_second_sample() {
        let index = RuleIndex::new(&paper_rules(), Merge::ByRule, TreeOptions::default());
        let mut evolving = EvolvingRules::new(8, Growth::Ahead);
        evolving.set_patient(true);
        sample(&mut evolving, &index, &[(5, 5), (12, 5)]);
        assert_eq!(boxes(&evolving), [([5, 5, 5, 5], 1), ([12, 12, 5, 5], 1)]);
        // One joins its rule, the other meets the same point again.
        let found = sample(&mut evolving, &index, &[(6, 5), (12, 5)]);
        assert_eq!(found, [Evolution::Expanded, Evolution::Counted]);
        assert_eq!(boxes(&evolving), [([1, 9, 4, 10], 2), ([12, 14, 3, 8], 2)]);
    }

    #[test]
    fn blocks_are_aligned_and_stay_within_a_word() {
        let all = Span { lo: 0, hi: u32::MAX };
        assert_eq!(aligned(Span { lo: 5, hi: 6 }, 2), Span { lo: 0, hi: 15 });
        assert_eq!(aligned(Span { lo: 0x100, hi: 0x100 }, 4), Span { lo: 0x100, hi: 0x10f });
        assert_eq!(aligned(Span { lo: 1, hi: 1 << 20 }, 16), all);
        assert_eq!(aligned(all, 2), all);
    }

    #[test]
    fn a_rule_goes_with_its_last_sample() {
        let index = RuleIndex::new(&paper_rules(), Merge::ByAction, TreeOptions::default());
        let mut evolving = EvolvingRules::new(3, Growth::ToSample);
        sample(&mut evolving, &index, &[(2, 5), (2, 5), (13, 10)]);
        assert_eq!(boxes(&evolving), [([2, 2, 5, 5], 2), ([13, 13, 10, 10], 1)]);
        sample(&mut evolving, &index, &[(13, 10), (13, 10)]);
        assert_eq!(boxes(&evolving), [([13, 13, 10, 10], 3)]);
        // Dirty regions go at once, their samples stay as places of the window.
        assert_eq!(evolving.remove_dirty(|region| region[2].lo == 13), 1);
        evolving.verify(&index).expect("the five properties");
        sample(&mut evolving, &index, &[(2, 5), (2, 6), (2, 7), (2, 8)]);
        assert_eq!(boxes(&evolving), [([2, 2, 5, 8], 3)]);
    }

    #[test]
    fn nothing_merges_where_all_actions_differ() {
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        for port in 0..200 {
            let mut matching = Match::any(&IPV4_5TUPLE);
            matching.set_exact(Field::L4Dst, port);
            builder.push(Rule::new(matching, Action::Mark(port as u32)));
        }
        let ruleset = builder.build();
        let index = RuleIndex::new(&ruleset, Merge::ByAction, TreeOptions::default());
        let mut evolving = EvolvingRules::new(64, Growth::ToSample);
        let points: Vec<(u32, u32)> = (0..200).map(|port| (0, port)).collect();
        let found = sample(&mut evolving, &index, &points);
        assert!(found.iter().all(|evolution| *evolution == Evolution::Started));
        assert_eq!((evolving.rules().len(), evolving.heaviest(20).len()), (64, 20));
    }
}
