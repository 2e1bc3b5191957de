//! Ranks of rules that come and go: numbers in order of precedence, with room between them.
//!
//! In a set of one priority precedence is the id, and so is the rank: nothing is kept. Otherwise
//! ranks are spread, and a list in the image maps them to ids; a rule that comes is given the
//! middle of its gap, and where there is none the next rules move up by one, until one finds its
//! next number free.

use std::collections::BTreeMap;
use std::ops::Bound;

use warpswitch_rules::{Precedence, RuleId, RuleRef};

use super::NoRoom;

/// Between the ranks of neighbours in a new image.
const GAP: u32 = 4;
/// Rules that move for one that comes, at most.
const MOVES_MAX: usize = 256;

/// The ranks of the rules of an image.
#[derive(Debug)]
pub(in crate::image) enum Ranks {
    /// All rules have this priority, if there are any: ranks are ids.
    Ids(Option<u32>),
    /// Spread over `0..end`.
    Spread { by_precedence: BTreeMap<Precedence, u32>, end: u32 },
}

/// What became of a rule that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// It has a rank.
    Rank(u32),
    /// First this rule has to move. Then it is to be tried again.
    Moved { id: RuleId, from: u32, to: u32 },
}

impl Ranks {
    /// The ranks of `rules`, which are in order of precedence, and one past the largest that there
    /// may ever be.
    pub(in crate::image) fn new(rules: &[RuleRef<'_>]) -> (Self, Vec<u32>, usize) {
        let first = rules.first().map(|rule| rule.priority);
        if rules.iter().all(|rule| Some(rule.priority) == first) {
            return (Self::Ids(first), rules.iter().map(|rule| rule.id.0).collect(), 0);
        }
        let ranks: Vec<u32> = (0..rules.len() as u32).map(|n| n * GAP + GAP / 2).collect();
        let pairs = rules.iter().zip(&ranks).map(|(rule, &rank)| (rule.precedence(), rank));
        let end = (rules.len() as u32 + rules.len() as u32 / 4 + 64) * GAP;
        (Self::Spread { by_precedence: pairs.collect(), end }, ranks, end as usize)
    }

    pub(super) fn enter(&mut self, rule: &RuleRef<'_>) -> Result<Entered, NoRoom> {
        let (by_precedence, end) = match self {
            Self::Ids(priority) => {
                let fits = *priority.get_or_insert(rule.priority) == rule.priority;
                return if fits { Ok(Entered::Rank(rule.id.0)) } else { Err(NoRoom) };
            }
            Self::Spread { by_precedence, end } => (by_precedence, *end),
        };
        let precedence = rule.precedence();
        let first = by_precedence.range(..precedence).next_back().map_or(0, |(_, rank)| rank + 1);
        let after = (Bound::Excluded(precedence), Bound::Unbounded);
        let mut above = by_precedence.range(after);
        let next = above.next();
        let past = next.map_or(end, |(_, &rank)| rank);
        if first < past {
            // At the end of all ranks there are mostly rules to come.
            let rank = if next.is_none() {
                (first + GAP / 2).min(past - 1)
            } else {
                first + (past - first) / 2
            };
            by_precedence.insert(precedence, rank);
            return Ok(Entered::Rank(rank));
        }
        // The last of the run of neighbours moves into the first free rank.
        let Some((&(mut last), &(mut from))) = next else { return Err(NoRoom) };
        for (moves, (&other, &rank)) in above.enumerate() {
            if rank > from + 1 {
                break;
            }
            if moves == MOVES_MAX {
                return Err(NoRoom);
            }
            (last, from) = (other, rank);
        }
        let to = from + 1;
        if to >= end {
            return Err(NoRoom);
        }
        by_precedence.insert(last, to);
        Ok(Entered::Moved { id: last.id(), from, to })
    }

    pub(super) fn leave(&mut self, rule: &RuleRef<'_>) -> Result<u32, NoRoom> {
        match self {
            Self::Ids(_) => Ok(rule.id.0),
            Self::Spread { by_precedence, .. } => {
                by_precedence.remove(&rule.precedence()).ok_or(NoRoom)
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Ids(_) => 0,
            // Nodes of the tree are at least half full.
            Self::Spread { by_precedence, .. } => by_precedence.len() * 24,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_classify::parts::SeedStream;
    use warpswitch_rules::Match;
    use warpswitch_rules::schema::IPV4_5TUPLE;

    /// Ranks stay in order of precedence whatever comes and goes.
    #[test]
    fn ranks_are_in_order_of_precedence() {
        let any = Match::any(&IPV4_5TUPLE);
        let rule = |n: u32| RuleRef {
            id: RuleId(n),
            priority: n.wrapping_mul(0x9e37_79b1) >> 28,
            matching: any.as_ref(),
        };
        let mut rules: Vec<_> = (0..200).map(rule).collect();
        rules.sort_unstable_by_key(RuleRef::precedence);
        let (mut ranks, list, _) = Ranks::new(&rules);
        let mut known: BTreeMap<Precedence, u32> =
            rules.iter().zip(&list).map(|(rule, &rank)| (rule.precedence(), rank)).collect();
        let (mut seeds, mut moves) = (SeedStream::new(4, 4), 0);
        for step in 0..4000 {
            let rule = rule(seeds.next() as u32 % 240);
            let precedence = rule.precedence();
            if known.contains_key(&precedence) {
                assert_eq!(ranks.leave(&rule), Ok(known[&precedence]));
                known.remove(&precedence);
                continue;
            }
            let rank = loop {
                match ranks.enter(&rule).expect("there is room for 250") {
                    Entered::Rank(rank) => break rank,
                    Entered::Moved { id, from, to } => {
                        let other = known.iter_mut().find(|(known, _)| known.id() == id).unwrap();
                        assert_eq!((*other.1, from + 1), (from, to));
                        *other.1 = to;
                        moves += 1;
                    }
                }
            };
            known.insert(precedence, rank);
            assert!(known.values().is_sorted_by(|a, b| a < b), "step {step}");
        }
        assert!(moves > 20, "{moves} moves");
    }

    #[test]
    fn ids_are_ranks_while_there_is_one_priority() {
        let any = Match::any(&IPV4_5TUPLE);
        let rule = |n: u32, priority| RuleRef { id: RuleId(n), priority, matching: any.as_ref() };
        let (mut ranks, list, end) = Ranks::new(&[rule(3, 7), rule(9, 7)]);
        assert_eq!((list, end), (vec![3, 9], 0));
        assert_eq!(ranks.enter(&rule(5, 7)), Ok(Entered::Rank(5)));
        assert_eq!(ranks.enter(&rule(6, 8)), Err(NoRoom));
        assert_eq!(ranks.leave(&rule(9, 7)), Ok(9));
        assert_eq!(Ranks::new(&[]).0.enter(&rule(1, 44)), Ok(Entered::Rank(1)));
    }
}
