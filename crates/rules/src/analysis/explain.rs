//! Why a key is won by one rule and not by the others.
//!
//! Every rule is tried, field by field: this answers one question at a time and shares no code
//! with the engines.

use std::collections::BinaryHeap;

use crate::matching::{MatchKind, MatchRef, port_side};
use crate::rule::{Precedence, RuleId};
use crate::ruleset::Ruleset;
use crate::schema::{Field, FieldSpec, Schema};

/// What became of every rule for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The rules that match, the winner first.
    pub matching: Vec<RuleId>,
    /// The nearest of the rules that do not: fewest failed fields first, then by precedence; last
    /// those for packets of another family.
    pub losers: Vec<Loser>,
    /// Number of rules that do not match, those in `losers` included.
    pub losers_len: usize,
}

/// A rule that does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loser {
    /// The rule.
    pub rule: RuleId,
    /// Each field that failed, in the order of the schema. Addresses of different families are not
    /// compared: of such a rule the EtherType failed.
    pub failures: Vec<Failure>,
}

/// A field of a key that is not what a rule demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The field.
    pub spec: &'static FieldSpec,
    /// What the key has.
    pub value: u128,
    /// What the rule demands.
    pub wanted: MatchKind,
}

impl Explanation {
    /// The winner, or [`RuleId::NONE`].
    pub fn winner(&self) -> RuleId {
        self.matching.first().copied().unwrap_or(RuleId::NONE)
    }
}

/// Tries every rule on `key` and keeps the `losers_max` nearest losers.
///
/// # Panics
/// If `key` is shorter than the schema's keys: a caller bug, not an input.
pub fn explain(ruleset: &Ruleset, key: &[u32], losers_max: usize) -> Explanation {
    let schema = ruleset.schema();
    let mut matching = Vec::new();
    let mut nearest: BinaryHeap<(bool, usize, Precedence)> = BinaryHeap::new();
    for rule in ruleset.iter() {
        if rule.matching.matches(key) {
            matching.push(rule.precedence());
            continue;
        }
        let failed_len = failures(schema, &rule.matching, key).len();
        let is_other = is_of_other_family(schema, &rule.matching, key);
        nearest.push((is_other, failed_len, rule.precedence()));
        if nearest.len() > losers_max {
            nearest.pop();
        }
    }
    matching.sort();
    let loser = |(_, _, precedence): (bool, usize, Precedence)| {
        let rule = precedence.id();
        Loser { rule, failures: failures(schema, &ruleset.matching(rule), key) }
    };
    Explanation {
        losers_len: ruleset.len() - matching.len(),
        matching: matching.into_iter().map(Precedence::id).collect(),
        losers: nearest.into_sorted_vec().into_iter().map(loser).collect(),
    }
}

/// Every field of `key` that fails `matching`.
fn failures(schema: &'static Schema, matching: &MatchRef<'_>, key: &[u32]) -> Vec<Failure> {
    let is_other_family = is_of_other_family(schema, matching, key);
    let fields = schema.fields.iter().filter(|spec| {
        let is_address = is_ipv4_address(spec.field) || is_ipv6_address(spec.field);
        !(is_other_view(schema, matching, spec.field) || is_other_family && is_address)
    });
    let failure = |spec: &'static FieldSpec| {
        let value = spec.read(key);
        let bits_differ = (value ^ spec.read(matching.value)) & spec.read(matching.mask) != 0;
        let outside =
            port_side(spec.field).is_some_and(|side| !matching.ranges[side].contains(value as u16));
        let wanted = matching.kind(schema, spec.field);
        (bits_differ || outside).then_some(Failure { spec, value, wanted })
    };
    fields.filter_map(failure).collect()
}

/// Whether `field` shows address bits that another field of the schema shows better: where one
/// layout holds both families, a rule for IPv4 is told in IPv4 fields and any other in IPv6 ones.
fn is_other_view(schema: &Schema, matching: &MatchRef<'_>, field: Field) -> bool {
    let is_ipv4 = is_ipv4_address(field);
    if !has_both_families(schema) || !(is_ipv4 || is_ipv6_address(field)) {
        return false;
    }
    let rule_is_ipv4 = match matching.kind(schema, Field::EthType) {
        MatchKind::Exact(ether_type) => family(ether_type) == Some(Family::Ipv4),
        _ => false,
    };
    is_ipv4 != rule_is_ipv4
}

/// Whether a rule is for packets whose addresses are of another family than those of `key`, where
/// one layout holds both.
fn is_of_other_family(schema: &Schema, matching: &MatchRef<'_>, key: &[u32]) -> bool {
    let Some(spec) = schema.field(Field::EthType) else { return false };
    let of_rule = match matching.kind(schema, Field::EthType) {
        MatchKind::Exact(ether_type) => family(ether_type),
        _ => None,
    };
    has_both_families(schema) && of_rule.is_some() && of_rule != family(spec.read(key))
}

/// A family of addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Ipv4,
    Ipv6,
}

/// The family of the addresses that packets of an EtherType have.
fn family(ether_type: u128) -> Option<Family> {
    match ether_type {
        // IPv4, ARP and RARP.
        0x0800 | 0x0806 | 0x8035 => Some(Family::Ipv4),
        0x86dd => Some(Family::Ipv6),
        _ => None,
    }
}

fn has_both_families(schema: &Schema) -> bool {
    schema.field(Field::Ipv4Src).is_some() && schema.field(Field::Ipv6Src).is_some()
}

fn is_ipv4_address(field: Field) -> bool {
    matches!(field, Field::Ipv4Src | Field::Ipv4Dst)
}

fn is_ipv6_address(field: Field) -> bool {
    matches!(field, Field::Ipv6Src | Field::Ipv6Dst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::random_ruleset;
    use crate::linear;
    use crate::schema::SCHEMAS;

    #[test]
    fn winners_and_losers_are_told_apart_and_in_order() {
        for schema in SCHEMAS {
            let ruleset = random_ruleset(schema, 60, 9);
            for id in ruleset.ids() {
                let key = ruleset.matching(id).value;
                let told = explain(&ruleset, key, 7);
                assert_eq!(told.winner(), linear::lookup(&ruleset, key));
                assert_eq!(told.matching.len() + told.losers_len, ruleset.len());
                let ranks: Vec<_> = told
                    .losers
                    .iter()
                    .map(|l| {
                        let rule = ruleset.rule(l.rule);
                        let is_other = is_of_other_family(schema, &rule.matching, key);
                        (is_other, l.failures.len(), rule.precedence())
                    })
                    .collect();
                assert!(ranks.is_sorted() && told.losers.len() == told.losers_len.min(7));
                for loser in &told.losers {
                    assert!(!ruleset.matching(loser.rule).matches(key));
                    assert!(!loser.failures.is_empty(), "{loser:?}");
                }
            }
        }
    }

    #[test]
    fn addresses_of_different_families_are_not_compared() {
        let schema = &crate::schema::OPENFLOW12_IPV6;
        let mut builder = crate::RulesetBuilder::new(schema);
        let mut push = |ether_type, dst, address| {
            let mut matching = crate::Match::any(schema);
            matching.set_exact(Field::EthType, ether_type).set_exact(dst, address);
            matching.set_exact(Field::L4Dst, 80);
            builder.push(crate::Rule::new(matching, crate::Action::Pass));
            matching.as_ref().value.to_vec()
        };
        push(0x86dd, Field::Ipv6Dst, 1);
        let key = push(0x0800, Field::Ipv4Dst, 0x0102_0304);
        push(0x0800, Field::Ipv4Dst, 0x0102_0305);
        let told = explain(&builder.build(), &key, 5);
        let fields = |at: usize| -> Vec<Field> {
            told.losers[at].failures.iter().map(|failure| failure.spec.field).collect()
        };
        assert_eq!((told.winner(), fields(0)), (RuleId(1), vec![Field::Ipv4Dst]));
        assert_eq!((told.losers[1].rule, fields(1)), (RuleId(0), vec![Field::EthType]));
    }

    #[test]
    fn a_failed_port_is_told_as_it_was_demanded() {
        let schema = &crate::schema::IPV4_5TUPLE;
        let mut matching = crate::Match::any(schema);
        matching.set_range(Field::L4Dst, 100, 200).set_prefix(Field::Ipv4Src, 0x0a00_0000, 8);
        let mut builder = crate::RulesetBuilder::new(schema);
        builder.push(crate::Rule::new(matching, crate::Action::Pass));
        let told = explain(&builder.build(), &[0x0a01_0101, 0, 99, 0], 5);
        let [failure] = told.losers[0].failures.as_slice() else { panic!("{told:?}") };
        assert_eq!((failure.spec.field, failure.value), (Field::L4Dst, 99));
        assert_eq!(failure.wanted, MatchKind::Range(100, 200));
    }
}
