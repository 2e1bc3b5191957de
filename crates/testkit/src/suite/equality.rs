//! Whole sets against the reference.

use std::sync::OnceLock;

use warpswitch_rules::generate::{Family, Point, RulesetSpec, Style, SyntheticSpec, TraceSpec};
use warpswitch_rules::schema::SCHEMAS;
use warpswitch_rules::{KeyBuf, RuleId, Ruleset};

use super::{Build, OPTIONS, answers, assert_answers, expected};
use crate::dense;
use crate::random::Random;

/// A rule set, keys, and the reference's answers: made once, used for every engine.
struct Case {
    name: String,
    ruleset: Ruleset,
    keys: KeyBuf,
    expected: Vec<RuleId>,
}

impl Case {
    fn new(name: String, ruleset: Ruleset, keys: KeyBuf) -> Self {
        let expected = expected(&ruleset, keys.as_batch());
        Self { name, ruleset, keys, expected }
    }

    fn check(&self, build: Build<'_>) {
        let classifier = build(&self.ruleset, &OPTIONS).expect("no bound was given");
        assert_eq!(classifier.len(), self.ruleset.len(), "{}", self.name);
        assert_eq!(classifier.schema(), self.ruleset.schema(), "{}", self.name);
        let found = answers(&*classifier, self.keys.as_batch());
        assert_answers(&self.name, self.keys.as_batch(), &found, &self.expected);
    }
}

/// Dense rule sets of every schema, wildness and size agree with the reference, on keys of few
/// values and on keys beside the rules.
pub fn equals_reference_on_dense_rules(build: Build<'_>) {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    let cases = CASES.get_or_init(|| {
        let mut cases = Vec::new();
        for schema in SCHEMAS {
            for (wild, rules) in
                [(0, 0), (0, 1), (8, 1), (8, 5), (2, 10), (6, 10), (4, 100), (7, 100), (6, 700)]
            {
                let ruleset = dense::ruleset(schema, rules, wild, rules as u64);
                let name = format!("{} dense, {rules} rules, wild {wild}", schema.name);
                let mut keys = dense::keys_near(&ruleset, 600, 2);
                dense::keys(schema, 600, 3).as_batch().iter().for_each(|key| keys.push(key));
                cases.push(Case::new(name, ruleset, keys));
            }
        }
        cases
    });
    cases.iter().for_each(|case| case.check(build));
}

/// Generated rule sets of every style and family agree with the reference.
pub fn equals_reference_on_generated_rules(build: Build<'_>) {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(generated_cases).iter().for_each(|case| case.check(build));
}

fn generated_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    // The larger the set, the fewer keys: the reference tries every rule for each.
    for (rules, keys) in [(10, 1000), (100, 1000), (1000, 500), (10_000, 150)] {
        for style in [Style::Acl, Style::Fw, Style::Ipc] {
            for family in [Family::Ipv4, Family::Ipv6] {
                let ruleset = RulesetSpec { style, family, rules, seed: 5 }.generate();
                let name = format!("{style:?} {family:?}, {rules} rules");
                cases.push(generated_case(name, ruleset, keys));
            }
        }
        for (fields, seed) in [(5, 6), (12, 7)] {
            let tuples = 8 << (rules.ilog10() - 1);
            let (full, overlap) = (tuples / 4, tuples / 4);
            let spec = SyntheticSpec { rules, tuples, full, overlap, fields, seed };
            let ruleset = spec.generate().expect("a set of this shape exists");
            let name = format!("synthetic, {fields} fields, {rules} rules");
            cases.push(generated_case(name, ruleset, keys));
        }
    }
    cases
}

/// A set with keys at corners of its rules, keys inside them, and keys beside them.
fn generated_case(name: String, ruleset: Ruleset, count: usize) -> Case {
    let mut keys = dense::keys_near(&ruleset, count, 9);
    for point in [Point::Corner, Point::Inside] {
        let spec = TraceSpec { keys: count, point, locality: None, realisable: false, seed: 8 };
        spec.generate(&ruleset).fill(&mut keys, count);
    }
    assert_eq!(keys.len(), 3 * count);
    Case::new(name, ruleset, keys)
}

/// Bits that no rule examines do not change an answer.
pub fn unexamined_bits_change_nothing(build: Build<'_>) {
    for schema in SCHEMAS {
        let mut flips = 0;
        for seed in 0..20 {
            let ruleset = dense::ruleset(schema, 5, 5, 200 + seed);
            flips += check_unexamined_bits(build, &ruleset);
        }
        assert!(flips > 200, "{}: hardly any bit to flip", schema.name);
    }
}

/// Returns the number of free bits.
fn check_unexamined_bits(build: Build<'_>, ruleset: &Ruleset) -> u32 {
    let schema = ruleset.schema();
    let mut free = schema.used_bits();
    for rule in ruleset.iter() {
        free.iter_mut().zip(rule.matching.mask).for_each(|(free, mask)| *free &= !mask);
        if !rule.matching.ranges_are_prefixes() {
            free[schema.ports_word] = 0;
        }
    }
    let classifier = build(ruleset, &OPTIONS).expect("no bound was given");
    let keys = dense::keys_near(ruleset, 100, 22);
    let before = answers(&*classifier, keys.as_batch());
    let mut random = Random::new(23);
    let mut flipped = KeyBuf::new(schema);
    for key in keys.as_batch().iter() {
        let flip = |(word, free): (&u32, &u32)| word ^ free & random.draw() as u32;
        flipped.push(&key.iter().zip(&free).map(flip).collect::<Vec<u32>>());
    }
    let after = answers(&*classifier, flipped.as_batch());
    assert_answers(schema.name, flipped.as_batch(), &after, &before);
    free.iter().map(|free| free.count_ones()).sum()
}

/// Batches of any length are answered, and room beyond them is left alone.
pub fn answers_beyond_the_batch_stay(build: Build<'_>) {
    for schema in SCHEMAS {
        let ruleset = dense::ruleset(schema, 40, 5, 31);
        let classifier = build(&ruleset, &OPTIONS).expect("no bound was given");
        let keys = dense::keys_near(&ruleset, 300, 32);
        let expected = expected(&ruleset, keys.as_batch());
        let untouched = RuleId(0xdead);
        for len in (0..=35).chain([63, 64, 65, 127, 128, 129, 255, 256, 257, 300]) {
            let start = 300 - len;
            let batch = keys.as_batch().slice(start, 300);
            let mut out = vec![untouched; len + 3];
            classifier.classify(batch, &mut out);
            assert_answers(schema.name, batch, &out[..len], &expected[start..]);
            assert_eq!(out[len..], [untouched; 3], "{} keys", len);
        }
    }
}

/// Hashes are keyed: whatever the key is, the answers are the same.
pub fn seeds_do_not_change_answers(build: Build<'_>) {
    for schema in SCHEMAS {
        let ruleset = dense::ruleset(schema, 60, 5, 41);
        let keys = dense::keys_near(&ruleset, 300, 42);
        let expected = expected(&ruleset, keys.as_batch());
        for hash_seed in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            let options = warpswitch_classify::BuildOptions { hash_seed, ..OPTIONS };
            let classifier = build(&ruleset, &options).expect("no bound was given");
            let found = answers(&*classifier, keys.as_batch());
            assert_answers(schema.name, keys.as_batch(), &found, &expected);
        }
    }
}
