//! Inserts and removes by one thread.

use warpswitch_classify::{Classifier, ErrorKind};
use warpswitch_rules::generate::{Family, RulesetSpec, Style};
use warpswitch_rules::schema::{IPV4_5TUPLE, IPV6_5TUPLE, SCHEMAS};
use warpswitch_rules::{
    Field, KeyBuf, Match, Precedence, RuleId, RuleRef, Ruleset, RulesetBuilder, Schema,
};

use super::{Build, OPTIONS, answers, assert_answers, expected};
use crate::dense;
use crate::random::Random;

/// The reference over the rules of `ruleset` that are present.
fn expected_of(ruleset: &Ruleset, present: &[bool], keys: &KeyBuf) -> Vec<RuleId> {
    let winner = |key: &[u32]| {
        let rules = ruleset.iter().filter(|rule| present[rule.id.as_usize()]);
        let hits = rules.filter(|rule| rule.matching.matches(key));
        hits.map(|rule| rule.precedence()).min().unwrap_or(Precedence::NONE).id()
    };
    keys.as_batch().iter().map(winner).collect()
}

fn check(
    what: &str,
    classifier: &dyn Classifier,
    ruleset: &Ruleset,
    present: &[bool],
    keys: &KeyBuf,
) {
    assert_eq!(classifier.len(), present.iter().filter(|&&there| there).count(), "{what}");
    let found = answers(classifier, keys.as_batch());
    let expected = expected_of(ruleset, present, keys);
    assert_answers(what, keys.as_batch(), &found, &expected);
}

/// Random inserts and removes, down to no rule and up again.
pub fn changes_keep_answers_exact(build: Build<'_>) {
    for (schema, wild) in SCHEMAS.into_iter().zip([3, 5, 6, 7]) {
        let ruleset = dense::ruleset(schema, 80, wild, 51);
        let keys = dense::keys_near(&ruleset, 120, 52);
        let classifier = build(&ruleset, &OPTIONS).expect("no bound was given");
        let mut present = vec![true; ruleset.len()];
        let mut random = Random::new(53);
        for step in 0..400 {
            // Mostly removes, then mostly inserts.
            let wanted = random.chance(if step < 200 { 1 } else { 7 }, 8);
            let id = RuleId(random.below(ruleset.len()) as u32);
            if present[id.as_usize()] == wanted {
                continue;
            }
            present[id.as_usize()] = wanted;
            let rule = ruleset.rule(id);
            let changed = if wanted { classifier.insert(rule) } else { classifier.remove(rule) };
            changed.expect("a change that is possible");
            if step % 5 == 0 {
                let what = format!("{} after step {step}", schema.name);
                check(&what, &*classifier, &ruleset, &present, &keys);
            }
        }
        for rule in ruleset.iter().filter(|rule| present[rule.id.as_usize()]) {
            classifier.remove(rule).expect("the rule is there");
        }
        assert!(classifier.is_empty());
        check(schema.name, &*classifier, &ruleset, &vec![false; ruleset.len()], &keys);
    }
}

/// A rule that came and went leaves no trace in the answers.
pub fn insert_then_remove_is_identity(build: Build<'_>) {
    for schema in SCHEMAS {
        let ruleset = dense::ruleset(schema, 50, 5, 61);
        let keys = dense::keys_near(&ruleset, 200, 62);
        let expected = expected(&ruleset, keys.as_batch());
        let classifier = build(&ruleset, &OPTIONS).expect("no bound was given");
        let mut random = Random::new(63);
        for step in 0..40u32 {
            let matching = dense::matching(schema, 6, &mut random);
            let rule = RuleRef {
                id: RuleId(1000 + step),
                priority: random.below(5) as u32,
                matching: matching.as_ref(),
            };
            classifier.insert(rule).expect("a new id");
            classifier.remove(rule).expect("the rule is there");
            let found = answers(&*classifier, keys.as_batch());
            assert_answers(schema.name, keys.as_batch(), &found, &expected);
        }
        assert_eq!(classifier.len(), ruleset.len());
    }
}

/// A set built rule by rule in any order answers like the set built at once.
pub fn order_of_insertion_does_not_matter(build: Build<'_>) {
    for schema in SCHEMAS {
        check_orders(build, schema.name, &dense::ruleset(schema, 120, 5, 71));
    }
    for (style, family) in [(Style::Acl, Family::Ipv6), (Style::Fw, Family::Ipv4)] {
        let ruleset = RulesetSpec { style, family, rules: 300, seed: 73 }.generate();
        check_orders(build, &format!("{style:?} {family:?}"), &ruleset);
    }
}

fn check_orders(build: Build<'_>, what: &str, ruleset: &Ruleset) {
    let keys = dense::keys_near(ruleset, 300, 72);
    let whole = expected(ruleset, keys.as_batch());
    for seed in 0..3 {
        let empty = Ruleset::empty(ruleset.schema());
        let classifier = build(&empty, &OPTIONS).expect("no bound was given");
        let mut ids: Vec<RuleId> = ruleset.ids().collect();
        match seed {
            0 => ids.reverse(),
            _ => Random::new(seed).shuffle(&mut ids),
        }
        for &id in &ids {
            classifier.insert(ruleset.rule(id)).expect("a new id");
        }
        let found = answers(&*classifier, keys.as_batch());
        assert_answers(what, keys.as_batch(), &found, &whole);
        let (gone, kept) = ids.split_at(ids.len() / 2);
        for &id in gone {
            classifier.remove(ruleset.rule(id)).expect("the rule is there");
        }
        let mut present = vec![false; ruleset.len()];
        kept.iter().for_each(|id| present[id.as_usize()] = true);
        check(what, &*classifier, ruleset, &present, &keys);
    }
}

/// Of rules with equal matches the next one wins when the winner goes, whatever the match is.
pub fn duplicates_step_in_for_each_other(build: Build<'_>) {
    for schema in SCHEMAS {
        let mut ported = Match::any(schema);
        ported.set_range(Field::L4Dst, 3, 17).set_exact(Field::IpProto, 6);
        for matching in [Match::any(schema), ported] {
            check_duplicates(build, schema, matching);
        }
    }
}

fn check_duplicates(build: Build<'_>, schema: &'static Schema, matching: Match) {
    let rule = |n: u32| RuleRef {
        id: RuleId(n),
        priority: [5, 9, 5, 0, 9][n as usize % 5],
        matching: matching.as_ref(),
    };
    let mut key = vec![0; schema.words];
    schema.field(Field::L4Dst).expect("every schema has ports").write(&mut key, 10);
    schema.field(Field::IpProto).expect("every schema has a protocol").write(&mut key, 6);
    let mut keys = KeyBuf::new(schema);
    keys.push(&key);
    let classifier = build(&Ruleset::empty(schema), &OPTIONS).expect("no bound was given");
    let mut order: Vec<u32> = (0..20).collect();
    let mut random = Random::new(81);
    random.shuffle(&mut order);
    for &n in &order {
        classifier.insert(rule(n)).expect("a new id");
    }
    let mut present = order.clone();
    random.shuffle(&mut order);
    for n in order {
        let best = present.iter().map(|&n| rule(n).precedence()).min().expect("one is left");
        assert_eq!(answers(&*classifier, keys.as_batch()), [best.id()], "{}", schema.name);
        classifier.remove(rule(n)).expect("the rule is there");
        present.retain(|&other| other != n);
    }
    assert_eq!(answers(&*classifier, keys.as_batch()), [RuleId::NONE], "{}", schema.name);
}

/// A change that cannot be made says why, and nothing has changed.
pub fn errors_change_nothing(build: Build<'_>) {
    let ruleset = dense::ruleset(&IPV4_5TUPLE, 30, 5, 91);
    let keys = dense::keys_near(&ruleset, 200, 92);
    let classifier = build(&ruleset, &OPTIONS).expect("no bound was given");
    let present = vec![true; ruleset.len()];
    let other = Match::any(&IPV6_5TUPLE);
    let here = ruleset.rule(RuleId(4));
    let mut elsewhere = Match::any(&IPV4_5TUPLE);
    elsewhere.set_exact(Field::Ipv4Src, 0x0102_0304).set_range(Field::L4Src, 5, 9);
    let wrong = [
        (ErrorKind::DuplicateRule, classifier.insert(here)),
        (
            ErrorKind::DuplicateRule,
            classifier.insert(RuleRef { matching: elsewhere.as_ref(), ..here }),
        ),
        (
            ErrorKind::SchemaMismatch,
            classifier.insert(RuleRef { id: RuleId(99), priority: 0, matching: other.as_ref() }),
        ),
        (ErrorKind::SchemaMismatch, classifier.insert(RuleRef { id: RuleId::NONE, ..here })),
        (ErrorKind::UnknownRule, classifier.remove(RuleRef { id: RuleId(99), ..here })),
        (ErrorKind::UnknownRule, classifier.remove(RuleRef { priority: 77, ..here })),
        (
            ErrorKind::UnknownRule,
            classifier.remove(RuleRef { matching: elsewhere.as_ref(), ..here }),
        ),
        (ErrorKind::UnknownRule, classifier.remove(RuleRef { matching: other.as_ref(), ..here })),
    ];
    for (kind, result) in wrong {
        assert_eq!(result.expect_err("a wrong change").kind(), kind);
    }
    check("after errors", &*classifier, &ruleset, &present, &keys);

    let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
    builder.push(ruleset.to_rule(RuleId(4)));
    assert_eq!(builder.build().rule(RuleId(0)).matching, here.matching, "ids are not matches");
    classifier.remove(here).expect("the rule is still there");
}
