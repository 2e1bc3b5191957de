//! Figures that describe a rule set: what engines and people want to know before they choose.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::RuleTree;
use crate::expand::entry_count;
use crate::matching::{MatchRef, PortRange};
use crate::rule::{Action, RuleId};
use crate::ruleset::Ruleset;
use crate::schema::{Field, WORDS_MAX};

/// The most rule corners for which overlap is counted.
const CORNERS_MAX: usize = 20_000;

/// Something and how many rules have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count<T> {
    /// What is counted.
    pub of: T,
    /// Rules that have it.
    pub rules: usize,
}

/// The five ways in which filter sets use a port, as ClassBench names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PortClass {
    /// Not examined.
    Any,
    /// The user ports, 1024 and above.
    High,
    /// The system ports, below 1024.
    Low,
    /// Any other range, or a mask.
    Range,
    /// One port.
    Exact,
}

impl PortClass {
    /// Every class, in the order in which tables list them.
    pub const ALL: [PortClass; 5] =
        [PortClass::Any, PortClass::High, PortClass::Low, PortClass::Range, PortClass::Exact];

    /// The name that tables use.
    pub fn name(self) -> &'static str {
        match self {
            PortClass::Any => "any",
            PortClass::High => "1024+",
            PortClass::Low => "0-1023",
            PortClass::Range => "range",
            PortClass::Exact => "exact",
        }
    }

    /// The class of one port of a match.
    fn of(matching: &MatchRef<'_>, side: usize) -> Self {
        let bits = matching.mask[matching.ports_word] >> (16 * (1 - side)) & 0xffff;
        match matching.ranges[side] {
            PortRange { lo: 1024, hi: u16::MAX } => PortClass::High,
            PortRange { lo: 0, hi: 1023 } => PortClass::Low,
            PortRange::ANY if bits == 0 => PortClass::Any,
            PortRange { lo, hi } if lo == hi => PortClass::Exact,
            _ => PortClass::Range,
        }
    }
}

/// Rules that share a mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TupleCount {
    /// The mask, as a match of all ones under it: format it for people as any match.
    pub mask: [u32; WORDS_MAX],
    /// Rules that have it.
    pub rules: usize,
}

/// What ranges cost engines that know only masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeCost {
    /// Rules with a range that is no prefix.
    pub rules: usize,
    /// Different ranges that are no prefixes, both ports together.
    pub ranges: usize,
    /// Masked entries that all rules become.
    pub entries: u64,
    /// The rule that becomes most entries, and how many.
    pub worst: Option<(RuleId, usize)>,
}

/// How many rules match at once, counted at the lowest corner of each rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlap {
    /// Corners that were tried: every rule's, or an even choice from a large set.
    pub corners: usize,
    /// Rules that match a corner, on average.
    pub mean: f64,
    /// Rules that match the corner with the most.
    pub max: usize,
}

/// Figures that describe a rule set.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Rules by action, the most frequent first.
    pub actions: Vec<Count<Action>>,
    /// Different priorities.
    pub priorities: usize,
    /// Rules by mask, the most frequent first. A range counts as the bits its ports share.
    pub tuples: Vec<TupleCount>,
    /// Rules by the prefix lengths of the source and the destination address, in order; a mask that
    /// is no prefix counts its ones. Empty if the schema has no addresses.
    pub prefix_pairs: Vec<Count<(usize, usize)>>,
    /// Width of an address in bits; 0 if the schema has none.
    pub address_bits: usize,
    /// Rules by the classes of the source and the destination port, in order.
    pub port_classes: Vec<Count<(PortClass, PortClass)>>,
    /// Rules by how they match the IP protocol, the most frequent first.
    pub protocols: Vec<Count<MatchProtocol>>,
    /// What ranges cost.
    pub ranges: RangeCost,
    /// How many rules match at once.
    pub overlap: Overlap,
}

/// How a rule matches the IP protocol: value and mask.
pub type MatchProtocol = (u8, u8);

/// Counts everything. Cost: `n log n`, and what [`RuleTree::match_count`] costs at up to 20,000
/// corners.
pub fn stats(ruleset: &Ruleset) -> Stats {
    let schema = ruleset.schema();
    let addresses = [(Field::Ipv6Src, Field::Ipv6Dst), (Field::Ipv4Src, Field::Ipv4Dst)]
        .into_iter()
        .find_map(|(src, dst)| Some((schema.field(src)?, schema.field(dst)?)));
    let protocol = schema.field(Field::IpProto);
    let ones =
        |words: &[u32], spec: &crate::schema::FieldSpec| spec.read(words).count_ones() as usize;
    let rules = || ruleset.iter().map(|rule| rule.matching);
    let tuples = counts(rules().map(|m| {
        let mut mask = [0; WORDS_MAX];
        mask[..m.mask.len()].copy_from_slice(m.mask);
        mask
    }));
    let pairs = addresses.map(|(src, dst)| {
        let pair = |m: MatchRef<'_>| (ones(m.mask, src), ones(m.mask, dst));
        counts(rules().map(pair))
    });
    let protocols = protocol
        .map(|spec| counts(rules().map(|m| (spec.read(m.value) as u8, spec.read(m.mask) as u8))));
    let ports = counts(rules().map(|m| (PortClass::of(&m, 0), PortClass::of(&m, 1))));
    Stats {
        actions: by_frequency(counts(ruleset.ids().map(|id| ruleset.action(id))))
            .into_iter()
            .map(|count| Count { of: count.of.clone(), rules: count.rules })
            .collect(),
        priorities: counts(ruleset.ids().map(|id| ruleset.priority(id))).len(),
        tuples: by_frequency(tuples)
            .into_iter()
            .map(|count| TupleCount { mask: count.of, rules: count.rules })
            .collect(),
        prefix_pairs: pairs.unwrap_or_default(),
        address_bits: addresses.map_or(0, |(src, _)| src.bits),
        port_classes: ports,
        protocols: by_frequency(protocols.unwrap_or_default()),
        ranges: range_cost(ruleset),
        overlap: overlap(ruleset),
    }
}

/// How often each item comes, in the order of the items.
fn counts<T: Ord>(items: impl Iterator<Item = T>) -> Vec<Count<T>> {
    let mut counted: BTreeMap<T, usize> = BTreeMap::new();
    for item in items {
        *counted.entry(item).or_insert(0) += 1;
    }
    counted.into_iter().map(|(of, rules)| Count { of, rules }).collect()
}

/// The most frequent first, equals in the order of the items.
fn by_frequency<T>(mut counts: Vec<Count<T>>) -> Vec<Count<T>> {
    counts.sort_by_key(|count| std::cmp::Reverse(count.rules));
    counts
}

fn range_cost(ruleset: &Ruleset) -> RangeCost {
    let mut distinct: BTreeSet<PortRange> = BTreeSet::new();
    let mut cost = RangeCost { rules: 0, ranges: 0, entries: 0, worst: None };
    for rule in ruleset.iter() {
        let ranges = rule.matching.ranges.iter().filter(|r| r.as_prefix_mask().is_none());
        distinct.extend(ranges);
        cost.rules += usize::from(!rule.matching.ranges_are_prefixes());
        let entries = entry_count(&rule.matching);
        cost.entries += entries as u64;
        if cost.worst.is_none_or(|(_, most)| entries > most) {
            cost.worst = Some((rule.id, entries));
        }
    }
    cost.ranges = distinct.len();
    cost
}

fn overlap(ruleset: &Ruleset) -> Overlap {
    let tree = RuleTree::new(ruleset);
    let stride = ruleset.len().div_ceil(CORNERS_MAX).max(1);
    let (mut corners, mut sum, mut max) = (0, 0u64, 0);
    let mut key = [0; WORDS_MAX];
    for id in ruleset.ids().step_by(stride) {
        let count = tree.match_count(lowest_corner(&ruleset.matching(id), &mut key));
        corners += 1;
        sum += count as u64;
        max = max.max(count);
    }
    let mean = if corners == 0 { 0.0 } else { sum as f64 / corners as f64 };
    Overlap { corners, mean, max }
}

/// The smallest key that a rule matches.
fn lowest_corner<'k>(matching: &MatchRef<'_>, key: &'k mut [u32; WORDS_MAX]) -> &'k [u32] {
    let words = matching.value.len();
    key[..words].copy_from_slice(matching.value);
    for (side, range) in matching.ranges.iter().enumerate() {
        // A mask that is no prefix has the range "any": its value is the lowest port.
        let shift = 16 * (1 - side);
        key[matching.ports_word] |= u32::from(range.lo) << shift;
    }
    &key[..words]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::random_ruleset;
    use crate::matching::Match;
    use crate::rule::Rule;
    use crate::ruleset::RulesetBuilder;
    use crate::schema::{IPV4_5TUPLE, SCHEMAS};

    #[test]
    fn every_rule_is_counted_once_in_each_table() {
        for schema in SCHEMAS {
            for rules in [0, 1, 200] {
                let ruleset = random_ruleset(schema, rules, 3);
                let stats = stats(&ruleset);
                let sums = [
                    stats.actions.iter().map(|c| c.rules).sum::<usize>(),
                    stats.tuples.iter().map(|c| c.rules).sum(),
                    stats.prefix_pairs.iter().map(|c| c.rules).sum(),
                    stats.port_classes.iter().map(|c| c.rules).sum(),
                    stats.protocols.iter().map(|c| c.rules).sum(),
                ];
                assert_eq!(sums, [ruleset.len(); 5]);
                assert!(stats.tuples.is_sorted_by_key(|c| std::cmp::Reverse(c.rules)));
                assert!(stats.ranges.entries >= ruleset.len() as u64);
                assert_eq!(stats.overlap.corners, ruleset.len());
            }
        }
    }

    #[test]
    fn a_corner_is_matched_by_its_own_rule() {
        for schema in SCHEMAS {
            let ruleset = random_ruleset(schema, 100, 4);
            for rule in ruleset.iter() {
                let mut key = [0; WORDS_MAX];
                assert!(rule.matching.matches(lowest_corner(&rule.matching, &mut key)));
            }
        }
    }

    #[test]
    fn ports_fall_into_the_five_classes() {
        let class = |lo, hi| {
            let mut m = Match::any(&IPV4_5TUPLE);
            m.set_range(Field::L4Dst, lo, hi);
            PortClass::of(&m.as_ref(), 1)
        };
        assert_eq!(class(0, 65535), PortClass::Any);
        assert_eq!(class(1024, 65535), PortClass::High);
        assert_eq!(class(0, 1023), PortClass::Low);
        assert_eq!(class(80, 80), PortClass::Exact);
        assert_eq!(class(0, 65534), PortClass::Range);
        let mut m = Match::any(&IPV4_5TUPLE);
        m.set_mask(Field::L4Dst, 1, 1);
        assert_eq!(PortClass::of(&m.as_ref(), 1), PortClass::Range);
        assert_eq!(PortClass::of(&m.as_ref(), 0), PortClass::Any);
    }

    #[test]
    fn expansion_is_counted() {
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        for range in [(0, 65535), (1, 65534), (1, 65534)] {
            let mut m = Match::any(&IPV4_5TUPLE);
            m.set_range(Field::L4Src, range.0, range.1);
            builder.push(Rule::new(m, Action::Pass));
        }
        let cost = range_cost(&builder.build());
        assert_eq!((cost.rules, cost.ranges, cost.entries), (2, 1, 61));
        assert_eq!(cost.worst, Some((RuleId(1), 30)));
    }
}
