//! Which mask a hash table of the chain should have.
//!
//! A table can hold the rules that examine every bit of its mask; they are spread by the masked
//! key. A mask of more bits spreads better and holds fewer. The choice climbs: from a few starts,
//! one field at a time is given the prefix (or mask) that lowers the expected work of a lookup
//! most, until none does. Each candidate is tried out on the rules themselves, with the real hash.
//!
//! # Source
//! Tables over shared, coarsened masks: Daly et al., "TupleMerge" (2019). The choice by measured
//! bucket lengths is ours.

use warpswitch_rules::Schema;
use warpswitch_rules::schema::FieldSpec;

use super::list::{Place, RuleList};
use crate::arch::turbo::Multipliers;

/// Work of one table for every key, whatever it finds.
const TABLE_WORK: f32 = 2.0;
/// Work of a visit to a leaf, and of each rule in it.
const LEAF_WORK: f32 = 5.0;
const RULE_WORK: f32 = 0.4;
/// Work of a visit to a cut, and of each doubling of the rules below it.
const CUT_WORK: f32 = 4.0;
const DOUBLING_WORK: f32 = 2.0;
/// Work that rules outside a table bring: some for there being any, some for their share.
const REST_WORK: f32 = 4.0;
const REST_SHARE_WORK: f32 = 20.0;
/// Buckets of more rules are cut.
pub(crate) const BUCKET_RULES_MAX: usize = 16;
/// Buckets of this many rules and more are taken to cost the same for each rule.
const BUCKET_WORK_LEN: usize = 1 << 16;
/// The most masks that are tried for one field.
const MASKS_PER_FIELD: usize = 8;

/// A table's mask and the rules it holds.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) masks: Vec<u32>,
    pub(crate) held: Vec<Place>,
    pub(crate) rest: Vec<Place>,
}

/// Index bits for a table of `rules` rules: about as many buckets as rules, and at most twice; for
/// small sets four times that, as their tables stay in the nearest caches anyway.
pub(crate) fn index_bits(rules: usize) -> u32 {
    let bits = rules.max(2).next_power_of_two().trailing_zeros();
    if rules <= 16_384 { bits + 1 } else { bits }
}

/// Whether a rule examines every bit of `masks`.
pub(crate) fn covers(rule_mask: &[u32], masks: &[u32]) -> bool {
    rule_mask.iter().zip(masks).all(|(rule, mask)| rule & mask == *mask)
}

/// The best mask for `rules`, or `None` if no table would help.
pub(crate) fn choose(
    list: &impl RuleList,
    rules: &[Place],
    multipliers: &Multipliers,
) -> Option<Choice> {
    let candidates = field_masks(list, rules);
    let mut trial = Trial::new(list, rules, multipliers);
    let mut best: Option<(f32, Vec<u32>)> = None;
    for start in starts(&candidates) {
        if let Some((work, masks)) = climb(&candidates, start, &mut trial)
            && best.as_ref().is_none_or(|(least, _)| work < *least)
        {
            best = Some((work, masks));
        }
    }
    let (_, masks) = best?;
    let holds = |place: Place| covers(list.rule(place).matching.mask, &masks);
    let (held, rest): (Vec<_>, Vec<_>) = rules.iter().partition(|&&place| holds(place));
    (!held.is_empty()).then_some(Choice { masks, held, rest })
}

/// The masks that one field may take, each as the words of a key; the first is "not examined".
type FieldMasks = Vec<Vec<u32>>;

/// What is tried for each field that some rule examines.
fn field_masks(list: &impl RuleList, rules: &[Place]) -> Vec<FieldMasks> {
    let schema = list.schema();
    let of_field = |spec: &FieldSpec| {
        let mut values: Vec<u128> = if spec.bits >= 24 {
            let step = spec.bits.div_ceil(MASKS_PER_FIELD);
            (step..=spec.bits).step_by(step).map(|len| prefix(spec.bits, len)).collect()
        } else {
            frequent_masks(list, rules, spec)
        };
        values.retain(|&mask| mask != 0);
        let words = |mask: &u128| {
            let mut words = vec![0; schema.words];
            spec.write(&mut words, *mask);
            words
        };
        let mut masks: FieldMasks = vec![vec![0; schema.words]];
        masks.extend(values.iter().map(words));
        masks
    };
    let fields = distinct_fields(schema);
    fields.into_iter().map(of_field).filter(|masks| masks.len() > 1).collect()
}

/// Fields of which none is a view of another's bits.
fn distinct_fields(schema: &Schema) -> Vec<&'static FieldSpec> {
    let inside = |a: &FieldSpec, b: &FieldSpec| {
        a.bits < b.bits
            && b.bit_offset <= a.bit_offset
            && a.bit_offset + a.bits <= b.bit_offset + b.bits
    };
    let fields = schema.fields.iter();
    fields.filter(|spec| !schema.fields.iter().any(|other| inside(spec, other))).collect()
}

/// The first `len` of `bits` bits.
fn prefix(bits: usize, len: usize) -> u128 {
    let ones = |n: usize| if n == 128 { u128::MAX } else { (1 << n) - 1 };
    ones(bits) & !ones(bits - len)
}

/// The masks under which most rules examine a short field.
fn frequent_masks(list: &impl RuleList, rules: &[Place], spec: &FieldSpec) -> Vec<u128> {
    let mut counts = std::collections::BTreeMap::new();
    for &place in rules {
        *counts.entry(spec.read(list.rule(place).matching.mask)).or_insert(0usize) += 1;
    }
    let mut masks: Vec<(usize, u128)> = counts.into_iter().map(|(mask, n)| (n, mask)).collect();
    masks.sort_unstable_by(|a, b| b.cmp(a));
    masks.into_iter().take(MASKS_PER_FIELD).map(|(_, mask)| mask).collect()
}

/// Places to start from: nothing, or the first half of one of the widest fields.
fn starts(candidates: &[FieldMasks]) -> Vec<Vec<usize>> {
    let mut starts = vec![vec![0; candidates.len()]];
    let widest = candidates.iter().map(Vec::len).max().unwrap_or(0);
    for (field, masks) in candidates.iter().enumerate() {
        if masks.len() == widest && widest > MASKS_PER_FIELD / 2 {
            let mut start = vec![0; candidates.len()];
            start[field] = masks.len() / 2;
            starts.push(start);
        }
    }
    starts.truncate(5);
    starts
}

fn union(candidates: &[FieldMasks], picks: &[usize]) -> Vec<u32> {
    let mut words = vec![0; candidates[0][0].len()];
    for (masks, &pick) in candidates.iter().zip(picks) {
        for (word, mask) in words.iter_mut().zip(&masks[pick]) {
            *word |= mask;
        }
    }
    words
}

/// Changes one field at a time for the better until none helps.
fn climb(
    candidates: &[FieldMasks],
    start: Vec<usize>,
    trial: &mut Trial<'_, impl RuleList>,
) -> Option<(f32, Vec<u32>)> {
    if candidates.is_empty() {
        return None;
    }
    let mut picks = start;
    let mut least = trial.work(&union(candidates, &picks)).unwrap_or(f32::INFINITY);
    loop {
        let mut next: Option<(f32, Vec<usize>)> = None;
        for (field, masks) in candidates.iter().enumerate() {
            for pick in (0..masks.len()).filter(|&pick| pick != picks[field]) {
                let mut tried = picks.clone();
                tried[field] = pick;
                let Some(work) = trial.work(&union(candidates, &tried)) else { continue };
                if work < next.as_ref().map_or(least, |(work, _)| *work) {
                    next = Some((work, tried));
                }
            }
        }
        match next {
            Some((work, tried)) => (least, picks) = (work, tried),
            None => break,
        }
    }
    least.is_finite().then(|| (least, union(candidates, &picks)))
}

/// Tries masks out on the rules.
struct Trial<'a, L> {
    list: &'a L,
    rules: &'a [Place],
    multipliers: &'a Multipliers,
    buckets: Vec<u32>,
    /// Work for a key in a bucket of so many rules.
    bucket_work: Vec<f32>,
}

impl<'a, L: RuleList> Trial<'a, L> {
    fn new(list: &'a L, rules: &'a [Place], multipliers: &'a Multipliers) -> Self {
        let work = |rules: usize| {
            if rules <= BUCKET_RULES_MAX {
                LEAF_WORK + RULE_WORK * rules as f32
            } else {
                // Halvings down to a leaf; no logarithm, whose last bit may differ by platform.
                let halvings = (rules / BUCKET_RULES_MAX).ilog2() as f32;
                let part = rules as f32 / (BUCKET_RULES_MAX << halvings as u32) as f32;
                let leaf = LEAF_WORK + RULE_WORK * BUCKET_RULES_MAX as f32;
                leaf + CUT_WORK + DOUBLING_WORK * (halvings + part - 1.0)
            }
        };
        let bucket_work = (0..BUCKET_WORK_LEN).map(work).collect();
        Self { list, rules, multipliers, buckets: Vec::new(), bucket_work }
    }

    /// The expected work of a lookup with a table under `masks`; `None` if it would not separate
    /// any two rules, or hold none.
    fn work(&mut self, masks: &[u32]) -> Option<f32> {
        let bits = index_bits(self.rules.len());
        self.buckets.clear();
        self.buckets.resize(1 << bits, 0);
        let mut held = 0usize;
        for &place in self.rules {
            let matching = self.list.rule(place).matching;
            if covers(matching.mask, masks) {
                held += 1;
                let hash = self.multipliers.hash(matching.value, masks);
                let bucket = &mut self.buckets[(hash >> (32 - bits)) as usize];
                *bucket += 1;
            }
        }
        let largest = self.buckets.iter().copied().max().unwrap_or(0);
        if held == 0 || largest as usize == self.rules.len() {
            return None;
        }
        let visits = self.buckets.iter().map(|&rules| {
            let work = self.bucket_work[(rules as usize).min(BUCKET_WORK_LEN - 1)];
            rules as f32 * work
        });
        let rules = self.rules.len() as f32;
        let rest = rules - held as f32;
        let rest_work = if rest == 0.0 { 0.0 } else { REST_WORK + REST_SHARE_WORK * rest / rules };
        Some(TABLE_WORK + visits.sum::<f32>() / rules + rest_work)
    }
}
