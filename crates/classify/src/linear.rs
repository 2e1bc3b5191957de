//! The reference as an engine: the rules in order of precedence, tried one by one, plainly.
//!
//! The first rule that matches wins, because no later one can beat it. That order is all it has
//! over `warpswitch_rules::linear`; other engines are measured against it.

use warpswitch_rules::{KeyBatch, MatchRef, PortRange, RuleId};

use crate::classifier::{Detail, Engine};
use crate::index::{Index, TooLarge};
use crate::store::{RuleStore, dearest_rules};

/// All rules, the winner of all first.
#[derive(Debug)]
pub(crate) struct Linear {
    ports_word: usize,
    words_per_key: usize,
    /// `2 * words_per_key` a rule: value, then mask.
    words: Vec<u32>,
    ranges: Vec<[PortRange; 2]>,
    ids: Vec<RuleId>,
}

impl Linear {
    fn lookup(&self, key: &[u32]) -> RuleId {
        let rules = self.words.chunks_exact(2 * self.words_per_key).zip(&self.ranges);
        let winner = rules.zip(&self.ids).find(|((words, ranges), _)| {
            let (value, mask) = words.split_at(self.words_per_key);
            MatchRef { value, mask, ranges: **ranges, ports_word: self.ports_word }.matches(key)
        });
        winner.map_or(RuleId::NONE, |(_, &id)| id)
    }
}

impl Index for Linear {
    const ENGINE: Engine = Engine::Linear;

    type Device = ();

    fn build((): &(), store: &RuleStore, bytes_max: usize, _: u64) -> Result<Self, TooLarge> {
        let schema = store.schema();
        let rules = store.len();
        let rule_bytes = 8 * schema.words + size_of::<[PortRange; 2]>() + size_of::<RuleId>();
        if rules * rule_bytes > bytes_max {
            let ids = store.places_by_precedence().into_iter().map(|p| (1, store.rule(p).id));
            return Err(TooLarge { bytes: rules * rule_bytes, rules: dearest_rules(ids) });
        }
        let mut index = Self {
            ports_word: schema.ports_word,
            words_per_key: schema.words,
            words: Vec::with_capacity(rules * 2 * schema.words),
            ranges: Vec::with_capacity(rules),
            ids: Vec::with_capacity(rules),
        };
        for place in store.places_by_precedence() {
            let rule = store.rule(place);
            index.words.extend_from_slice(rule.matching.value);
            index.words.extend_from_slice(rule.matching.mask);
            index.ranges.push(rule.matching.ranges);
            index.ids.push(rule.id);
        }
        Ok(index)
    }

    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        for (key, winner) in keys.iter().zip(out) {
            *winner = self.lookup(key);
        }
    }

    fn bytes(&self) -> usize {
        self.words.capacity() * 4
            + self.ranges.capacity() * size_of::<[PortRange; 2]>()
            + self.ids.capacity() * size_of::<RuleId>()
    }

    fn details(&self) -> Vec<Detail> {
        vec![Detail { name: "rules", value: self.ids.len() as f64 }]
    }
}
