//! The reference: every pattern is compared at every offset. Defines what a scan must give.

use crate::matches::Match;
use crate::pattern::{PatternId, Patterns};

/// All occurrences, by end, at one end by number.
///
/// Cost: offsets times patterns. For tests, and for checking before a measurement.
pub fn matches(patterns: &Patterns, payload: &[u8]) -> Vec<Match> {
    let mut found = Vec::new();
    for end in 1..=payload.len() {
        let ending = patterns.iter().filter(|(_, pattern)| pattern.ends(&payload[..end]));
        found.extend(ending.map(|(id, _)| Match { end: end as u32, pattern: id }));
    }
    found
}

/// The patterns that occur, by number.
pub fn set(patterns: &Patterns, payload: &[u8]) -> Vec<PatternId> {
    let mut ids: Vec<PatternId> =
        matches(patterns, payload).into_iter().map(|found| found.pattern).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
