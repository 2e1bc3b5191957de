//! The reference: every rule is tried, the winner by precedence is kept. Every engine, cache and
//! device must agree with it bit for bit; it is written to be obviously right, not fast.

use crate::key::KeyBatch;
use crate::rule::{Precedence, RuleId};
use crate::ruleset::Ruleset;

/// The rule that wins for `key`, or [`RuleId::NONE`].
///
/// Cost: one comparison per rule.
///
/// # Panics
/// If `key` is shorter than the schema's keys: a caller bug, not an input.
pub fn lookup(ruleset: &Ruleset, key: &[u32]) -> RuleId {
    let matching = ruleset.iter().filter(|rule| rule.matching.matches(key));
    matching.map(|rule| rule.precedence()).min().unwrap_or(Precedence::NONE).id()
}

/// [`lookup`] for each key of a batch: `out[i]` answers key `i`.
///
/// # Panics
/// If `out` is shorter than the batch: a caller bug, not an input.
pub fn classify(ruleset: &Ruleset, keys: KeyBatch<'_>, out: &mut [RuleId]) {
    for (key, winner) in keys.iter().zip(&mut out[..keys.len()]) {
        *winner = lookup(ruleset, key);
    }
}
