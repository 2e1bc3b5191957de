//! A tree over rules that answers containment and overlap questions: the index behind the checks.
//!
//! ```text
//!            bit b of word w:  0 │ 1 │ not examined
//!                  ┌─────────────┼───────────┐
//!             rules with 0   rules with 1   the others      … down to leaves of a few rules
//! ```
//! Every rule lies in exactly one leaf, so the tree is linear in the rules. Each node keeps a
//! summary: the bits that all its rules examine and agree on, the bits that all of them examine,
//! bounds of their port ranges and precedences, and their action if it is one. A question
//! descends only where the summary allows an answer. Where no bit tells rules apart, the bounds of
//! the ranges and then the precedence are halved, so that many rules with one mask, even equal
//! ones, stay cheap.
//!
//! # Invariants
//! - A1: a node's `value` and `mask` hold for each rule below it: bits of `mask` are examined by
//!   all, with the values in `value`.
//! - A2: `examined` are the bits that every rule below examines, so a container of a match whose
//!   mask lacks one of them is not below.
//! - A3: the rules below a node are in order of precedence while it is a leaf, before its split
//!   too, and the child with the best rule is the last.

use std::ops::Range;

use crate::matching::{MatchRef, PortRange};
use crate::rule::{Action, Precedence, RuleId};
use crate::ruleset::Ruleset;

/// Rules in a leaf before it is split.
const LEAF_RULES_MAX: usize = 8;

/// The rules of a set, arranged to find those that contain, overlap or match something.
///
/// Threads: read-only after [`RuleTree::new`]. Memory: about 50 bytes a rule for IPv4.
#[derive(Debug)]
pub struct RuleTree<'a> {
    ruleset: &'a Ruleset,
    /// Dense numbers of the actions, by rule.
    actions: Vec<u32>,
    nodes: Vec<Node>,
    /// `value`, `mask`, `examined` of each node.
    summaries: Vec<u32>,
    /// Rules, leaf after leaf.
    order: Vec<RuleId>,
}

/// What is known of all rules below a node, and where they are.
#[derive(Debug)]
struct Node {
    /// Lowest start and highest end of their ranges, `l4_src` and `l4_dst`.
    ranges: [PortRange; 2],
    best: Precedence,
    worst: Precedence,
    /// Their action, unless they have several.
    action: Option<u32>,
    children: Children,
}

#[derive(Debug)]
enum Children {
    Nodes(Range<u32>),
    Rules(Range<u32>),
}

/// How the rules of a node are told apart.
enum Split {
    Bit {
        word: usize,
        bit: u32,
    },
    /// By one bound of a range (0-3), or by precedence (4), at the middle.
    Middle(usize),
}

/// What is asked of other rules.
#[derive(Clone, Copy)]
enum Relation {
    Contains,
    /// Contains and is not equal.
    IsLarger,
    Overlaps,
}

/// Which actions an answer may have.
enum Actions {
    All,
    Only(u32),
    AllBut(u32),
}

/// Which of several answers is wanted.
#[derive(Clone, Copy)]
enum Which {
    Best,
    Any,
}

/// The bits of a node's summary.
struct Summary<'t> {
    value: &'t [u32],
    mask: &'t [u32],
    examined: &'t [u32],
}

impl<'a> RuleTree<'a> {
    /// Arranges `ruleset`. Cost: about `n log n` rule visits.
    pub fn new(ruleset: &'a Ruleset) -> Self {
        let actions = number_actions(ruleset);
        let order = ruleset.ids_by_precedence();
        let mut tree = Self { ruleset, actions, nodes: Vec::new(), summaries: Vec::new(), order };
        tree.grow();
        tree
    }

    /// The rules that it was built from.
    pub fn ruleset(&self) -> &'a Ruleset {
        self.ruleset
    }

    /// Number of different actions.
    pub fn action_count(&self) -> usize {
        self.actions.iter().max().map_or(0, |&last| last as usize + 1)
    }

    /// Whether two rules have the same action.
    pub fn same_action(&self, a: RuleId, b: RuleId) -> bool {
        self.actions[a.as_usize()] == self.actions[b.as_usize()]
    }

    /// The best of the rules that contain rule `id` and win over it.
    /// `steps` grows by the nodes and rules visited.
    pub fn container_above(&self, id: RuleId, steps: &mut u64) -> Option<RuleId> {
        let window = (None, self.ruleset.rule(id).precedence());
        self.find(id, Relation::Contains, window, &Actions::All, Which::Best, steps)
    }

    /// The best of the rules that contain rule `id` and are larger, lose against it, and have its
    /// action.
    /// `steps` grows by the nodes and rules visited.
    pub fn container_below(&self, id: RuleId, steps: &mut u64) -> Option<RuleId> {
        let window = (Some(self.ruleset.rule(id).precedence()), Precedence::NONE);
        let same = Actions::Only(self.actions[id.as_usize()]);
        self.find(id, Relation::IsLarger, window, &same, Which::Best, steps)
    }

    /// Some rule between `above` and `below` in precedence that overlaps `above` and has another
    /// action than it. `steps` grows by the nodes and rules visited.
    pub fn conflict_between(
        &self,
        above: RuleId,
        below: RuleId,
        steps: &mut u64,
    ) -> Option<RuleId> {
        let start = self.ruleset.rule(above).precedence();
        let end = self.ruleset.rule(below).precedence();
        let others = Actions::AllBut(self.actions[above.as_usize()]);
        self.find(above, Relation::Overlaps, (Some(start), end), &others, Which::Any, steps)
    }

    /// A rule, within an open window of precedence, in a relation to rule `id`.
    fn find(
        &self,
        id: RuleId,
        relation: Relation,
        (start, end): (Option<Precedence>, Precedence),
        actions: &Actions,
        which: Which,
        steps: &mut u64,
    ) -> Option<RuleId> {
        let this = self.ruleset.matching(id);
        // Only what is better than the bound is of interest.
        let mut state = (end, None);
        self.search(
            &mut state,
            steps,
            |node, (bound, _)| {
                node.best < *bound
                    && start.is_none_or(|start| node.worst > start)
                    && node.action.is_none_or(|action| actions.allow(action))
            },
            |node, summary| relation.may_hold(node, summary, &this),
            |other, (bound, found)| {
                let rule = self.ruleset.rule(other);
                let precedence = rule.precedence();
                if precedence < *bound
                    && start.is_none_or(|start| precedence > start)
                    && actions.allow(self.actions[other.as_usize()])
                    && relation.holds(&rule.matching, &this)
                {
                    *found = Some(other);
                    *bound = match which {
                        Which::Best => precedence,
                        Which::Any => Precedence(0),
                    };
                }
            },
        );
        state.1
    }

    /// Number of rules that match `key`.
    ///
    /// # Panics
    /// If `key` is shorter than the schema's keys: a caller bug, not an input.
    pub fn match_count(&self, key: &[u32]) -> usize {
        let ports = key[self.ruleset.schema().ports_word];
        let ports = [(ports >> 16) as u16, ports as u16];
        let mut count = 0;
        self.search(
            &mut count,
            &mut 0,
            |_, _| true,
            |node, summary| {
                let mut bits = key.iter().zip(summary.mask).zip(summary.value);
                bits.all(|((k, m), v)| k & m == *v)
                    && (0..2).all(|side| node.ranges[side].contains(ports[side]))
            },
            |other, count| *count += usize::from(self.ruleset.matching(other).matches(key)),
        );
        count
    }

    /// Visits every rule below the nodes that `bounds` and `bits` let pass; `state` is what the
    /// visits have found so far.
    fn search<S>(
        &self,
        state: &mut S,
        steps: &mut u64,
        bounds: impl Fn(&Node, &S) -> bool,
        bits: impl Fn(&Node, Summary<'_>) -> bool,
        mut visit: impl FnMut(RuleId, &mut S),
    ) {
        let mut pending: Vec<u32> = Vec::with_capacity(64);
        pending.extend((!self.nodes.is_empty()).then_some(0));
        while let Some(idx) = pending.pop() {
            *steps += 1;
            let node = &self.nodes[idx as usize];
            if !bounds(node, state) || !bits(node, self.summary(idx)) {
                continue;
            }
            match &node.children {
                Children::Nodes(children) => pending.extend(children.clone()),
                Children::Rules(rules) => {
                    *steps += u64::from(rules.end - rules.start);
                    for &id in &self.order[rules.start as usize..rules.end as usize] {
                        visit(id, state);
                    }
                }
            }
        }
    }

    fn summary(&self, idx: u32) -> Summary<'_> {
        let words = self.ruleset.schema().words;
        let all = &self.summaries[idx as usize * 3 * words..][..3 * words];
        let (value, rest) = all.split_at(words);
        let (mask, examined) = rest.split_at(words);
        Summary { value, mask, examined }
    }

    /// Builds all nodes from the order of precedence.
    fn grow(&mut self) {
        if self.order.is_empty() {
            return;
        }
        let all = 0..self.order.len() as u32;
        self.push_node(all.clone());
        let mut pending = vec![(0u32, all)];
        while let Some((idx, rules)) = pending.pop() {
            let Some(split) = self.choose_split(&rules) else { continue };
            let first = self.nodes.len() as u32;
            let mut parts = self.partition(&rules, split);
            // A search takes the last child first: with the best rules there, an early answer
            // closes the others.
            parts.sort_by_key(|part| {
                let best = self.order[part.start as usize];
                std::cmp::Reverse(self.ruleset.rule(best).precedence())
            });
            for part in parts {
                let child = self.push_node(part.clone());
                pending.push((child, part));
            }
            self.nodes[idx as usize].children = Children::Nodes(first..self.nodes.len() as u32);
        }
    }

    /// Appends a leaf over `order[rules]`.
    fn push_node(&mut self, rules: Range<u32>) -> u32 {
        let words = self.ruleset.schema().words;
        let ids = &self.order[rules.start as usize..rules.end as usize];
        let first = self.ruleset.rule(ids[0]);
        let at = self.summaries.len();
        self.summaries.extend_from_slice(first.matching.value);
        self.summaries.extend_from_slice(first.matching.mask);
        self.summaries.extend_from_slice(first.matching.mask);
        let (value, rest) = self.summaries[at..].split_at_mut(words);
        let (mask, examined) = rest.split_at_mut(words);
        let mut node = Node {
            ranges: first.matching.ranges,
            best: first.precedence(),
            worst: first.precedence(),
            action: Some(self.actions[ids[0].as_usize()]),
            children: Children::Rules(rules.clone()),
        };
        for &id in &ids[1..] {
            let rule = self.ruleset.rule(id);
            for word in 0..words {
                let (v, m) = (rule.matching.value[word], rule.matching.mask[word]);
                examined[word] &= m;
                mask[word] &= m & !(v ^ value[word]);
                value[word] &= mask[word];
            }
            for (bound, range) in node.ranges.iter_mut().zip(rule.matching.ranges) {
                bound.lo = bound.lo.min(range.lo);
                bound.hi = bound.hi.max(range.hi);
            }
            node.best = node.best.min(rule.precedence());
            node.worst = node.worst.max(rule.precedence());
            node.action = node.action.filter(|&a| a == self.actions[id.as_usize()]);
        }
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// The bit that tells most pairs of rules apart, or the middle of what still differs.
    fn choose_split(&self, rules: &Range<u32>) -> Option<Split> {
        let ids = &self.order[rules.start as usize..rules.end as usize];
        if ids.len() <= LEAF_RULES_MAX {
            return None;
        }
        let words = self.ruleset.schema().words;
        let mut zeros = vec![[0u32; 32]; words];
        let mut ones = vec![[0u32; 32]; words];
        for &id in ids {
            let matching = self.ruleset.matching(id);
            for word in 0..words {
                let (value, mask) = (matching.value[word], matching.mask[word]);
                for bit in 0..32 {
                    ones[word][bit] += (value >> bit) & 1;
                    zeros[word][bit] += ((mask & !value) >> bit) & 1;
                }
            }
        }
        let mut best = (0, Split::Middle(4));
        for word in 0..words {
            // Higher bits first: the bits of one prefix length come and go together.
            for bit in (0..32).rev() {
                let (zero, one) = (u64::from(zeros[word][bit]), u64::from(ones[word][bit]));
                let others = ids.len() as u64 - zero - one;
                let score = 2 * zero * one + others * (zero + one);
                if score > best.0 {
                    best = (score, Split::Bit { word, bit: bit as u32 });
                }
            }
        }
        if best.0 > 0 {
            return Some(best.1);
        }
        let spread = |bound: usize| {
            let values = ids.iter().map(|&id| self.bound(id, bound));
            values.clone().max().unwrap_or(0) - values.min().unwrap_or(0)
        };
        let widest = (0..4).max_by_key(|&bound| spread(bound)).filter(|&bound| spread(bound) > 0);
        Some(Split::Middle(widest.unwrap_or(4)))
    }

    /// One bound of a rule's ranges (0-3), or its precedence (4).
    fn bound(&self, id: RuleId, bound: usize) -> u64 {
        let rule = self.ruleset.rule(id);
        let [src, dst] = rule.matching.ranges;
        match bound {
            0 => src.lo.into(),
            1 => src.hi.into(),
            2 => dst.lo.into(),
            3 => dst.hi.into(),
            _ => rule.precedence().0,
        }
    }

    /// Puts the rules of a node in the order of its children; tells each child's part.
    fn partition(&mut self, rules: &Range<u32>, split: Split) -> Vec<Range<u32>> {
        let range = rules.start as usize..rules.end as usize;
        let mut ids = self.order[range.clone()].to_vec();
        let cuts = match split {
            Split::Bit { word, bit } => {
                let side = |id: RuleId| {
                    let matching = self.ruleset.matching(id);
                    if (matching.mask[word] >> bit) & 1 == 0 {
                        return 2;
                    }
                    (matching.value[word] >> bit) & 1
                };
                ids.sort_by_key(|&id| side(id));
                [ids.partition_point(|&id| side(id) < 1), ids.partition_point(|&id| side(id) < 2)]
            }
            Split::Middle(bound) => {
                ids.sort_by_key(|&id| self.bound(id, bound));
                let middle = ids.len() / 2;
                for half in [0..middle, middle..ids.len()] {
                    ids[half].sort_by_key(|&id| self.ruleset.rule(id).precedence());
                }
                [middle, ids.len()]
            }
        };
        self.order[range].copy_from_slice(&ids);
        let ends = [cuts[0], cuts[1], ids.len()];
        let mut start = 0;
        let mut parts = Vec::with_capacity(3);
        for end in ends {
            if end > start {
                parts.push(rules.start + start as u32..rules.start + end as u32);
            }
            start = end;
        }
        parts
    }
}

impl Relation {
    /// Whether `other` is in this relation to `this`.
    fn holds(self, other: &MatchRef<'_>, this: &MatchRef<'_>) -> bool {
        match self {
            Relation::Contains => other.contains(this),
            Relation::IsLarger => other.contains(this) && other != this,
            Relation::Overlaps => other.overlaps(this),
        }
    }

    /// Whether a rule below a node may be in this relation to `this`.
    fn may_hold(self, node: &Node, summary: Summary<'_>, this: &MatchRef<'_>) -> bool {
        let mut sides = 0..2;
        match self {
            Relation::Contains | Relation::IsLarger => {
                let mut bits = summary.examined.iter().zip(this.mask);
                bits.all(|(examined, mask)| examined & !mask == 0)
                    && agree(&summary, this)
                    && sides.all(|side| {
                        let (outer, inner) = (node.ranges[side], this.bounding_range(side));
                        outer.lo <= inner.lo && inner.hi <= outer.hi
                    })
            }
            Relation::Overlaps => {
                agree(&summary, this)
                    && sides.all(|side| node.ranges[side].overlaps(this.ranges[side]))
            }
        }
    }
}

impl Actions {
    fn allow(&self, action: u32) -> bool {
        match *self {
            Actions::All => true,
            Actions::Only(only) => action == only,
            Actions::AllBut(but) => action != but,
        }
    }
}

/// Whether no bit that both examine differs.
fn agree(summary: &Summary<'_>, other: &MatchRef<'_>) -> bool {
    let masks = summary.mask.iter().zip(other.mask);
    let values = summary.value.iter().zip(other.value);
    masks.zip(values).all(|((m, n), (v, w))| (v ^ w) & m & n == 0)
}

/// Numbers the actions in the order of their first use.
fn number_actions(ruleset: &Ruleset) -> Vec<u32> {
    let mut known: std::collections::HashMap<&Action, u32> = std::collections::HashMap::new();
    let number = |id: RuleId| {
        let next = known.len() as u32;
        *known.entry(ruleset.action(id)).or_insert(next)
    };
    ruleset.ids().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::random_ruleset;

    /// The answer to a question, found by trying every rule.
    fn best(ruleset: &Ruleset, accept: impl Fn(RuleId) -> bool) -> Option<RuleId> {
        ruleset.ids_by_precedence().into_iter().find(|&id| accept(id))
    }

    fn check(ruleset: &Ruleset) {
        let tree = RuleTree::new(ruleset);
        let steps = &mut 0;
        let precedence = |id| ruleset.rule(id).precedence();
        for id in ruleset.ids() {
            let this = ruleset.matching(id);
            let contains = |other| other != id && ruleset.matching(other).contains(&this);
            let larger = |other| contains(other) && ruleset.matching(other) != this;
            let same = |other| ruleset.action(other) == ruleset.action(id);
            let above = |other| precedence(other) < precedence(id);
            let want = best(ruleset, |other| above(other) && contains(other));
            assert_eq!(tree.container_above(id, steps), want, "above {id}");
            let want = best(ruleset, |other| !above(other) && larger(other) && same(other));
            assert_eq!(tree.container_below(id, steps), want, "below {id}");
            let Some(last) = ruleset.ids_by_precedence().pop() else { continue };
            let conflicts = |other| {
                precedence(other) > precedence(id)
                    && precedence(other) < precedence(last)
                    && !same(other)
                    && ruleset.matching(other).overlaps(&this)
            };
            let got = tree.conflict_between(id, last, steps);
            assert!(got.is_none_or(conflicts), "between {id} and {last}");
            assert_eq!(got.is_some(), best(ruleset, conflicts).is_some(), "{id}, {last}");
            let key: Vec<u32> = this.value.to_vec();
            let want = ruleset.iter().filter(|rule| rule.matching.matches(&key)).count();
            assert_eq!(tree.match_count(&key), want, "matches of the corner of {id}");
        }
    }

    #[test]
    fn answers_are_those_of_trying_every_rule() {
        for schema in crate::schema::SCHEMAS {
            for (rules, seed) in [(0, 1), (1, 2), (9, 3), (60, 4), (300, 5)] {
                check(&random_ruleset(schema, rules, seed));
            }
        }
    }

    #[test]
    fn equal_rules_do_not_cost_the_square() {
        let mut builder = crate::RulesetBuilder::new(&crate::schema::IPV4_5TUPLE);
        for _ in 0..20_000 {
            let matching = crate::Match::any(&crate::schema::IPV4_5TUPLE);
            builder.push(crate::Rule::new(matching, Action::Pass));
        }
        let ruleset = builder.build();
        let tree = RuleTree::new(&ruleset);
        let mut steps = 0;
        for id in ruleset.ids().skip(1) {
            assert_eq!(tree.container_above(id, &mut steps), Some(RuleId(0)));
        }
        assert!(steps < 20_000 * 100, "{steps} steps");
    }
}
