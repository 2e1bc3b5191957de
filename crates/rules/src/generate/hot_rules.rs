//! Traces in which a few rules at a time are popular, and each of them by many near-by flows.
//!
//! ```text
//! period ─► hot rules, ranked ─► a network in each ─► its flows: low address bits, source ports
//! ```
//! In a router's traffic few services and networks carry most packets at a time, and each has many
//! clients. So popularity belongs to rules here: the hot rule of rank r has a share of the packets
//! proportional to r^-s, and its flows are equally popular. They lie close together, as the clients
//! of one network do. At each shift one hot rule in four makes way for another, at any rank: over
//! some tens of milliseconds popularity changes in part, not as a whole.
//!
//! Flows are computed, not stored: a trace takes memory for its hot rules only.

use super::popularity::{Ranks, Shifts, Zipf};
use super::prng::Prng;
use super::trace::{Point, TraceGenerator, TraceSpec};
use crate::RuleId;
use crate::key::KeyBuf;
use crate::ruleset::Ruleset;
use crate::schema::{Field, FieldSpec, WORDS_MAX};

/// The most hot rules of a trace.
pub const HOT_RULES_MAX: usize = 1 << 16;

/// Low bits of addresses in which the flows of a hot rule differ: a usual subnet.
const ADDRESS_BITS: u32 = 8;

/// Low bits of source ports in which they differ: a usual range of ephemeral ports.
const SOURCE_PORT_BITS: u32 = 14;

/// At a shift one hot rule in so many is replaced, at least one.
const RULES_PER_CHANGE: usize = 4;

/// Names one trace of a rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotRulesSpec {
    /// Number of keys.
    pub keys: usize,
    /// How the popularity of hot rules falls with the rank.
    pub zipf: Zipf,
    /// Rules that are hot at a time, 1 to [`HOT_RULES_MAX`].
    pub hot_rules: usize,
    /// Flows at a time, divided among the hot rules by their shares; at least one each.
    pub flows: usize,
    /// Keys between two shifts; none without shifts. At least 1.
    pub keys_per_shift: Option<u64>,
    /// Where in its rule a network lies.
    pub point: Point,
    /// Whether every key must be one that some frame has.
    pub realisable: bool,
    /// Which of all such traces.
    pub seed: u64,
}

impl HotRulesSpec {
    /// The trace over `ruleset`; of a set without rules, over the whole key space.
    ///
    /// # Panics
    /// If the number of hot rules is outside of its limits: callers check.
    pub fn generate<'a>(&self, ruleset: &'a Ruleset) -> HotRulesTrace<'a> {
        assert!((1..=HOT_RULES_MAX).contains(&self.hot_rules), "{} hot rules", self.hot_rules);
        let networks = TraceSpec {
            keys: usize::MAX,
            point: self.point,
            locality: None,
            realisable: self.realisable,
            seed: self.seed,
        };
        let ranks = Ranks::new(self.zipf, self.hot_rules);
        let flows = (0..self.hot_rules).map(|rank| ranks.part(rank, self.flows as u64).max(1));
        let mut trace = HotRulesTrace {
            flows: flows.collect(),
            ranks,
            networks: networks.generate(ruleset),
            hot: Vec::new(),
            prng: Prng::new(self.seed),
            keys_left: self.keys,
            shifts: Shifts::new(self.keys_per_shift),
        };
        for _ in 0..self.hot_rules {
            let hot = trace.draw_hot_rule();
            trace.hot.push(hot);
        }
        trace
    }
}

/// A network within a rule.
#[derive(Clone, Debug)]
struct HotRule {
    rule: RuleId,
    key: [u32; WORDS_MAX],
    /// Distinguishes its flows from those of other networks.
    seed: u64,
}

/// A trace that is being drawn.
#[derive(Clone, Debug)]
pub struct HotRulesTrace<'a> {
    ranks: Ranks,
    /// Flows of each rank.
    flows: Vec<u64>,
    networks: TraceGenerator<'a>,
    /// By rank.
    hot: Vec<HotRule>,
    prng: Prng,
    keys_left: usize,
    shifts: Shifts,
}

impl HotRulesTrace<'_> {
    /// Appends at most `keys_max` keys to `keys` and returns how many; 0 is the end.
    ///
    /// # Panics
    /// If `keys` is of another schema: a caller bug.
    pub fn fill(&mut self, keys: &mut KeyBuf, keys_max: usize) -> usize {
        assert_eq!(keys.schema(), self.networks.schema(), "keys of another schema");
        let count = keys_max.min(self.keys_left);
        self.keys_left -= count;
        for _ in 0..count {
            if self.shifts.is_due() {
                self.shift();
            }
            let rank = self.ranks.draw(&mut self.prng);
            let flow = self.prng.below(self.flows[rank]);
            let key = self.flow_key(rank, flow);
            keys.push(&key[..keys.schema().words]);
        }
        count
    }

    fn shift(&mut self) {
        for _ in 0..self.hot.len().div_ceil(RULES_PER_CHANGE) {
            let rank = self.prng.index(self.hot.len());
            self.hot[rank] = self.draw_hot_rule();
        }
    }

    fn draw_hot_rule(&mut self) -> HotRule {
        let rule = self.networks.draw();
        HotRule { rule, key: self.networks.drawn(), seed: self.prng.next_u64() }
    }

    /// A key near that of the hot rule which the rule matches too.
    fn flow_key(&self, rank: usize, flow: u64) -> [u32; WORDS_MAX] {
        let hot = &self.hot[rank];
        let mut prng = Prng::new(hot.seed ^ flow);
        let mut key = hot.key;
        let schema = self.networks.schema();
        let words = &mut key[..schema.words];
        let ruleset = self.networks.ruleset();
        let matching = hot.rule.is_some().then(|| ruleset.matching(hot.rule));
        for spec in schema.fields {
            let low = low_bits(spec);
            if low == 0 {
                continue;
            }
            let base = spec.read(words);
            let open = matching.map_or(spec.value_max(), |m| spec.value_max() & !spec.read(m.mask));
            let mut value = base ^ u128::from(prng.next_u64()) & open & low;
            if let (Field::L4Src, Some(matching)) = (spec.field, matching)
                && !matching.ranges[0].contains(value as u16)
            {
                value = base;
            }
            spec.write(words, value);
        }
        self.networks.realise(words);
        key
    }
}

/// The bits of a field in which flows of one network differ.
fn low_bits(spec: &FieldSpec) -> u128 {
    let bits = match spec.field {
        Field::Ipv4Src | Field::Ipv4Dst | Field::Ipv6Src | Field::Ipv6Dst => ADDRESS_BITS,
        Field::L4Src => SOURCE_PORT_BITS,
        _ => 0,
    };
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::generate::{Family, RulesetSpec, Style};
    use crate::linear;
    use crate::schema::SCHEMAS;

    fn ruleset() -> Ruleset {
        RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 2_000, seed: 1 }.generate()
    }

    fn spec(keys_per_shift: Option<u64>) -> HotRulesSpec {
        HotRulesSpec {
            keys: 30_000,
            zipf: Zipf::new(1000).unwrap(),
            hot_rules: 12,
            flows: 3_000,
            keys_per_shift,
            point: Point::Inside,
            realisable: false,
            seed: 7,
        }
    }

    fn drawn(spec: &HotRulesSpec, ruleset: &Ruleset, batch: usize) -> KeyBuf {
        let mut trace = spec.generate(ruleset);
        let mut keys = KeyBuf::new(ruleset.schema());
        while trace.fill(&mut keys, batch) > 0 {}
        assert_eq!(keys.len(), spec.keys);
        keys
    }

    /// Keys of each winner, the most popular first.
    fn winners(ruleset: &Ruleset, keys: &KeyBuf) -> Vec<(RuleId, usize)> {
        let mut counts: HashMap<RuleId, usize> = HashMap::new();
        for key in keys.as_batch().iter() {
            *counts.entry(linear::lookup(ruleset, key)).or_insert(0) += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|&(id, count)| (std::cmp::Reverse(count), id));
        counts
    }

    #[test]
    fn few_rules_carry_many_flows() {
        let ruleset = ruleset();
        let keys = drawn(&spec(None), &ruleset, 500);
        let winners = winners(&ruleset, &keys);
        assert!(winners.iter().all(|(id, _)| id.is_some()));
        let top: usize = winners.iter().take(12).map(|(_, count)| count).sum();
        assert!(top * 10 > keys.len() * 9, "{top} of {}", keys.len());
        let flows: HashSet<&[u32]> = keys.as_batch().iter().collect();
        assert!(flows.len() > 300, "{} flows", flows.len());
    }

    #[test]
    fn a_shift_replaces_some_hot_rules() {
        let ruleset = ruleset();
        // The rules with at least one packet in 100, before and after one and ten shifts.
        let spec = HotRulesSpec { keys: 33_000, ..spec(Some(3_000)) };
        let keys = drawn(&spec, &ruleset, 777);
        let words = ruleset.schema().words;
        let hot = |period: usize| -> HashSet<RuleId> {
            let mut part = KeyBuf::new(ruleset.schema());
            let start = period * 3_000;
            let batch = keys.as_batch().slice(start, start + 3_000);
            batch.words().chunks(words).for_each(|key| part.push(key));
            let all = winners(&ruleset, &part);
            all.into_iter().filter(|(_, count)| *count > 30).map(|(id, _)| id).collect()
        };
        let [first, second, last] = [hot(0), hot(1), hot(10)];
        assert!(first.intersection(&second).count() >= 7, "{first:?} {second:?}");
        assert_ne!(first, second);
        assert!(first.intersection(&last).count() < 7, "{first:?} {last:?}");
    }

    #[test]
    fn batches_do_not_change_a_trace_and_seeds_do() {
        let ruleset = ruleset();
        let spec = HotRulesSpec { keys: 2_000, ..spec(Some(333)) };
        let whole = drawn(&spec, &ruleset, 4096);
        assert_eq!(whole.as_batch().words(), drawn(&spec, &ruleset, 1).as_batch().words());
        let other = drawn(&HotRulesSpec { seed: 8, ..spec }, &ruleset, 4096);
        assert_ne!(whole.as_batch().words(), other.as_batch().words());
    }

    #[test]
    fn every_schema_has_such_traces() {
        for schema in SCHEMAS {
            for realisable in [false, true] {
                let spec = HotRulesSpec { keys: 100, realisable, ..spec(Some(9)) };
                drawn(&spec, &Ruleset::empty(schema), 30);
            }
        }
    }
}
