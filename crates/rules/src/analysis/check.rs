//! Rules that can never win, and rules that could go.
//!
//! With the terms of the source, made precise for rules with priorities; "above" and "below" are
//! in order of precedence:
//!
//! - **duplicate**: a rule above has exactly the same match. The rule can never win.
//! - **shadowed**: one rule above contains it and is larger. The rule can never win. (The source
//!   calls it shadowed only if the actions differ; here the report says whether they do.)
//! - **redundant**: it can win, but one larger rule below contains it and has the same action, and
//!   no rule between the two overlaps it with another action. Without it each packet keeps its
//!   action, if not its rule. (Of two equal rules only the lower is reported, as a duplicate.)
//!
//! All rules that a report names can be removed together and no packet's action changes: whatever
//! a removed rule leans on is either kept or itself leans on a rule that is. Only *one* covering
//! rule is looked for: a rule that is covered by several together is not found.
//!
//! Where every rule has one action, as in formats without actions, redundancy says nothing (all
//! rules above a default would be redundant) and is not looked for.
//!
//! # Source
//! Al-Shaer, Hamed, "Discovery of Policy Anomalies in Distributed Firewalls", INFOCOM 2004: there
//! shadowing and redundancy of pairs of rules in an ordered list.

use super::tree::RuleTree;
use crate::rule::RuleId;
use crate::ruleset::Ruleset;

/// What is wrong with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AnomalyKind {
    /// The same match stands above it.
    Duplicate,
    /// A larger rule above contains it.
    Shadowed,
    /// A rule below would do the same.
    Redundant,
}

impl AnomalyKind {
    /// Every kind, in the order in which reports list them.
    pub const ALL: [AnomalyKind; 3] =
        [AnomalyKind::Duplicate, AnomalyKind::Shadowed, AnomalyKind::Redundant];

    /// The name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            AnomalyKind::Duplicate => "duplicate",
            AnomalyKind::Shadowed => "shadowed",
            AnomalyKind::Redundant => "redundant",
        }
    }
}

/// A rule that is not needed, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// What it is.
    pub kind: AnomalyKind,
    /// The rule.
    pub rule: RuleId,
    /// The rule that covers it: the winner of those that do.
    pub by: RuleId,
    /// Whether both have the same action.
    pub same_action: bool,
}

/// Bounds of a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// The most tree nodes and rules that the check visits before it stops short.
    pub steps_max: u64,
}

impl Default for CheckOptions {
    /// Enough for a million rules of any known kind, and about a minute where it is not.
    fn default() -> Self {
        Self { steps_max: 5_000_000_000 }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The findings in order of rule id, at most one a rule.
    pub anomalies: Vec<Anomaly>,
    /// Rules that were looked at; all of them unless [`CheckOptions::steps_max`] was reached.
    pub rules_checked: usize,
    /// Whether redundancy was looked for: there are two actions or more.
    pub redundancy_checked: bool,
}

impl CheckReport {
    /// Number of findings of one kind.
    pub fn count(&self, kind: AnomalyKind) -> usize {
        self.anomalies.iter().filter(|anomaly| anomaly.kind == kind).count()
    }
}

/// Looks at every rule of a set; `progress` is told how many are done, now and then.
///
/// Cost: `n log n` to build the index, then per rule what its containers cost, in practice some
/// hundred node visits.
pub fn check(
    ruleset: &Ruleset,
    options: &CheckOptions,
    mut progress: impl FnMut(usize),
) -> CheckReport {
    let tree = RuleTree::new(ruleset);
    let redundancy_checked = tree.action_count() > 1;
    let mut report = CheckReport { anomalies: Vec::new(), rules_checked: 0, redundancy_checked };
    let mut steps = 0;
    for id in ruleset.ids() {
        if steps > options.steps_max {
            break;
        }
        report.anomalies.extend(check_rule(&tree, id, redundancy_checked, &mut steps));
        report.rules_checked += 1;
        if report.rules_checked.is_multiple_of(1024) {
            progress(report.rules_checked);
        }
    }
    progress(report.rules_checked);
    report
}

/// What is wrong with one rule.
fn check_rule(
    tree: &RuleTree<'_>,
    rule: RuleId,
    redundancy: bool,
    steps: &mut u64,
) -> Option<Anomaly> {
    let ruleset = tree.ruleset();
    if let Some(by) = tree.container_above(rule, steps) {
        let equal = ruleset.matching(by) == ruleset.matching(rule);
        let kind = if equal { AnomalyKind::Duplicate } else { AnomalyKind::Shadowed };
        return Some(Anomaly { kind, rule, by, same_action: tree.same_action(rule, by) });
    }
    if !redundancy {
        return None;
    }
    // The best container is the one with the fewest rules between: if one of those conflicts, it
    // stands above every other container too.
    let by = tree.container_below(rule, steps)?;
    if tree.conflict_between(rule, by, steps).is_some() {
        return None;
    }
    Some(Anomaly { kind: AnomalyKind::Redundant, rule, by, same_action: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::random_ruleset;
    use crate::linear;
    use crate::matching::Match;
    use crate::rule::{Action, Rule};
    use crate::ruleset::RulesetBuilder;
    use crate::schema::{Field, IPV4_5TUPLE, SCHEMAS};

    fn set(rules: &[(usize, u16, u16, Action)]) -> Ruleset {
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        for (len, lo, hi, action) in rules {
            let mut matching = Match::any(&IPV4_5TUPLE);
            matching.set_prefix(Field::Ipv4Src, 0x0a00_0000, *len);
            matching.set_range(Field::L4Dst, *lo, *hi);
            builder.push(Rule::new(matching, action.clone()));
        }
        builder.build()
    }

    fn kinds(ruleset: &Ruleset) -> Vec<(AnomalyKind, u32, u32)> {
        let report = check(ruleset, &CheckOptions::default(), |_| {});
        report.anomalies.iter().map(|a| (a.kind, a.rule.0, a.by.0)).collect()
    }

    #[test]
    fn each_kind_is_told_with_the_rule_that_covers() {
        use Action::{Drop, Pass};
        use AnomalyKind::{Duplicate, Redundant, Shadowed};
        let cases: [(&[_], &[_]); 6] = [
            (&[], &[]),
            (&[(8, 0, 99, Pass), (8, 0, 99, Drop)], &[(Duplicate, 1, 0)]),
            (&[(8, 0, 99, Pass), (16, 5, 99, Drop)], &[(Shadowed, 1, 0)]),
            (&[(16, 5, 99, Drop), (8, 0, 99, Drop), (0, 0, 9, Pass)], &[(Redundant, 0, 1)]),
            // The rule between takes packets of the first to another action.
            (&[(16, 5, 99, Drop), (24, 80, 200, Pass), (8, 0, 99, Drop)], &[]),
            // One action only: redundancy would say nothing.
            (&[(16, 5, 99, Drop), (8, 0, 99, Drop)], &[]),
        ];
        for (rules, want) in cases {
            assert_eq!(kinds(&set(rules)), want, "{rules:?}");
        }
    }

    #[test]
    fn what_is_reported_can_go_without_changing_an_action() {
        for schema in SCHEMAS {
            for seed in 0..20 {
                let ruleset = random_ruleset(schema, 80, seed);
                let report = check(&ruleset, &CheckOptions::default(), |_| {});
                let mut kept = RulesetBuilder::new(schema);
                for id in ruleset.ids() {
                    if report.anomalies.iter().all(|anomaly| anomaly.rule != id) {
                        kept.push(ruleset.to_rule(id));
                    }
                }
                let kept = kept.build();
                for id in ruleset.ids() {
                    let key = ruleset.matching(id).value;
                    let (before, after) =
                        (linear::lookup(&ruleset, key), linear::lookup(&kept, key));
                    assert_eq!(ruleset.action(before), kept.action(after), "corner of {id}");
                    let never = matches!(
                        report.anomalies.iter().find(|anomaly| anomaly.rule == before),
                        Some(Anomaly { kind: AnomalyKind::Duplicate | AnomalyKind::Shadowed, .. })
                    );
                    assert!(!never, "{before} is reported as never winning and wins");
                }
            }
        }
    }

    #[test]
    fn a_bound_on_the_work_is_kept_and_told() {
        let ruleset = random_ruleset(&IPV4_5TUPLE, 500, 1);
        let report = check(&ruleset, &CheckOptions { steps_max: 100 }, |_| {});
        assert!(report.rules_checked < 500);
    }
}
