//! Small random rule sets, random changes and random keys; a failure is shrunk to the smallest
//! case that still fails.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};
use warpswitch_rules::schema::SCHEMAS;
use warpswitch_rules::{
    Action, KeyBuf, Match, Precedence, Rule, RuleId, Ruleset, RulesetBuilder, Schema,
};

use super::{Build, OPTIONS, answers};
use crate::dense::{self, Demand, VALUES};

/// Rule sets for each engine.
const CASES: u32 = 150;

/// A rule: demands on some of the schema's fields, and a priority.
type RuleCase = (Vec<(usize, Demand)>, u32);

/// A key: the value number of each field.
type KeyCase = Vec<u8>;

#[derive(Clone, Debug)]
struct Case {
    schema: &'static Schema,
    rules: Vec<RuleCase>,
    /// Rules that are removed again, by their place modulo the number of rules.
    removed: Vec<usize>,
    keys: Vec<KeyCase>,
}

fn demands() -> impl Strategy<Value = Demand> {
    let value = || 0..VALUES;
    prop_oneof![
        value().prop_map(Demand::Exact),
        (value(), 0..3u8).prop_map(|(value, len)| Demand::Prefix(value, len)),
        (value(), value()).prop_map(|(value, mask)| Demand::Mask(value, mask)),
        (value(), value()).prop_map(|(a, b)| Demand::Range(a, b)),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    let schema = (0..SCHEMAS.len()).prop_map(|idx| SCHEMAS[idx]);
    schema.prop_flat_map(|schema| {
        let fields = schema.fields.len();
        let rule = (prop::collection::vec((0..fields, demands()), 0..4), 0..3u32);
        let rules = prop::collection::vec(rule, 0..24);
        let removed = prop::collection::vec(0..24usize, 0..12);
        let keys = prop::collection::vec(prop::collection::vec(0..VALUES, fields), 1..40);
        (rules, removed, keys).prop_map(move |(rules, removed, keys)| Case {
            schema,
            rules,
            removed,
            keys,
        })
    })
}

/// Random sets agree with the reference, at first and after each remove.
pub fn equals_reference_on_random_rules(build: Build<'_>) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    if let Err(failure) = runner.run(&cases(), |case| check(build, &case)) {
        panic!("{failure}");
    }
}

fn check(build: Build<'_>, case: &Case) -> TestCaseResult {
    let ruleset = ruleset(case);
    let mut keys = KeyBuf::new(case.schema);
    for values in &case.keys {
        let mut key = vec![0; case.schema.words];
        for (spec, &value) in case.schema.fields.iter().zip(values) {
            spec.write(&mut key, dense::spread(spec, value));
        }
        keys.push(&key);
    }
    let classifier = build(&ruleset, &OPTIONS).expect("no bound was given");
    let mut present = vec![true; ruleset.len()];
    let expected = |present: &[bool]| -> Vec<RuleId> {
        let winner = |key: &[u32]| {
            let rules = ruleset.iter().filter(|rule| present[rule.id.as_usize()]);
            let hits = rules.filter(|rule| rule.matching.matches(key));
            hits.map(|rule| rule.precedence()).min().unwrap_or(Precedence::NONE).id()
        };
        keys.as_batch().iter().map(winner).collect()
    };
    prop_assert_eq!(answers(&*classifier, keys.as_batch()), expected(&present));
    for &place in case.removed.iter().filter(|_| !ruleset.is_empty()) {
        let id = RuleId((place % ruleset.len()) as u32);
        if std::mem::replace(&mut present[id.as_usize()], false) {
            classifier.remove(ruleset.rule(id)).expect("the rule is there");
            prop_assert_eq!(answers(&*classifier, keys.as_batch()), expected(&present));
        }
    }
    Ok(())
}

fn ruleset(case: &Case) -> Ruleset {
    let mut builder = RulesetBuilder::new(case.schema);
    for (demands, priority) in &case.rules {
        let mut matching = Match::any(case.schema);
        for &(field, demand) in demands {
            dense::set_demand(&mut matching, &case.schema.fields[field], demand);
        }
        builder.push(Rule { priority: *priority, ..Rule::new(matching, Action::Pass) });
    }
    builder.build()
}
