//! What can be said about a rule set without a packet, and about a packet without an engine.
//!
//! - [`check`]: rules that can never win, and rules that could go without changing any verdict.
//! - [`stats`]: masks, prefix lengths, port classes, expansion cost and overlap.
//! - [`explain`]: why a key is won by one rule and not by the others.
//!
//! The first two rest on [`RuleTree`], which finds the rules that contain, overlap or match
//! something without trying all of them.

mod check;
mod explain;
mod stats;
mod tree;

pub use check::{Anomaly, AnomalyKind, CheckOptions, CheckReport, check};
pub use explain::{Explanation, Failure, Loser, explain};
pub use stats::{Count, MatchProtocol, Overlap, PortClass, RangeCost, Stats, TupleCount, stats};
pub use tree::RuleTree;

#[cfg(test)]
mod tests {
    use crate::matching::Match;
    use crate::rule::{Action, Rule};
    use crate::ruleset::{Ruleset, RulesetBuilder};
    use crate::schema::{Field, Schema};

    /// Rules that often contain, overlap and equal each other, of every match kind.
    pub(super) fn random_ruleset(schema: &'static Schema, rules: usize, seed: u64) -> Ruleset {
        let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
        let mut next = |limit: u64| {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % limit
        };
        let mut builder = RulesetBuilder::new(schema);
        for line in 0..rules {
            let mut matching = Match::any(schema);
            for spec in schema.fields {
                let is_view = schema.field(Field::Ipv6Src).is_some()
                    && matches!(spec.field, Field::Ipv4Src | Field::Ipv4Dst);
                if is_view || next(2) == 0 {
                    continue;
                }
                // Few different values, so that matches meet.
                let value = (u128::from(next(4)) << spec.bits.saturating_sub(2)) | 5;
                match next(4) {
                    0 => matching.set_exact(spec.field, value),
                    1 => matching.set_mask(spec.field, value, u128::from(next(8))),
                    2 if matches!(spec.field, Field::L4Src | Field::L4Dst) => {
                        let lo = next(9) as u16;
                        matching.set_range(spec.field, lo, lo + next(9) as u16)
                    }
                    _ => matching.set_prefix(spec.field, value, next(4) as usize),
                };
            }
            let action = if next(2) == 0 { Action::Pass } else { Action::Drop };
            let (priority, line) = (next(3) as u32, line as u32 + 1);
            builder.push(Rule { priority, line, ..Rule::new(matching, action) });
        }
        let mut all = Rule::new(Match::any(schema), Action::Drop);
        all.line = rules as u32 + 1;
        if rules > 1 {
            builder.push(all);
        }
        builder.build()
    }
}
