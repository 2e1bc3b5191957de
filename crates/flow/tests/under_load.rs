//! What must not matter: rules that change all the time, an updater that has stopped, traffic that
//! never hits. Answers stay those of the rules.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use warpswitch_classify::{BuildOptions, Classifier, Engine, RuleChange, build};
use warpswitch_flow::{CachedClassifier, StormCache, StormOptions};
use warpswitch_rules::schema::IPV4_5TUPLE;
use warpswitch_rules::{Action, Field, KeyBuf, Match, Rule, RuleId, Ruleset, RulesetBuilder};

const PORTS: u32 = 500;
const BATCH_KEYS: usize = 64;

/// A rule for each destination port, with its number.
fn rules_by_port() -> Ruleset {
    let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
    for port in 0..PORTS {
        let mut matching = Match::any(&IPV4_5TUPLE);
        matching.set_exact(Field::L4Dst, port.into());
        builder.push(Rule::new(matching, Action::Pass));
    }
    builder.build()
}

/// A rule that precedes those of all ports for sources in one of 256 networks.
fn network_rule(network: u32) -> Rule {
    let mut matching = Match::any(&IPV4_5TUPLE);
    matching.set_prefix(Field::Ipv4Src, u128::from(network) << 24, 8);
    Rule { priority: 1, ..Rule::new(matching, Action::Drop) }
}

/// Keys of few networks and ports, so that most hit; another batch for each number.
fn skewed_keys(number: u32) -> KeyBuf {
    let mut keys = KeyBuf::new(&IPV4_5TUPLE);
    for at in 0..BATCH_KEYS as u32 {
        let random = (number * BATCH_KEYS as u32 + at).wrapping_mul(0x9e37_79b9) >> 8;
        keys.push(&[(random % 4) << 24 | random, 0, random % 7, 0]);
    }
    keys
}

fn cached(engine: Engine, ruleset: &Ruleset) -> CachedClassifier {
    let full = build(engine, ruleset, &BuildOptions::default()).expect("no bound");
    let options =
        StormOptions { keys_per_sample: 16, samples_per_swap: 4, ..StormOptions::default() };
    CachedClassifier::new(full, ruleset, &options)
}

#[test]
fn ten_thousand_changes_while_others_look_up() {
    const CHANGES: u32 = 10_000;
    let ruleset = rules_by_port();
    let classifier = cached(Engine::Turbo, &ruleset);
    let stop = AtomicBool::new(false);
    let network_id = |network: u32| RuleId(PORTS + network);
    let lookups = thread::scope(|scope| {
        let reader = || {
            let mut lookups = 0;
            while !stop.load(Ordering::Relaxed) || lookups < 100 {
                let keys = skewed_keys(lookups);
                let mut out = vec![RuleId::NONE; keys.len()];
                classifier.classify(keys.as_batch(), &mut out);
                for (key, found) in keys.as_batch().iter().zip(out) {
                    let either = [RuleId(key[2]), network_id(key[0] >> 24)];
                    assert!(either.contains(&found), "{key:x?}: {found:?}");
                }
                lookups += 1;
            }
            lookups
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        for number in 0..CHANGES {
            let network = number / 2 % 4;
            let rule = network_rule(network);
            let id = network_id(network);
            let rule = warpswitch_rules::RuleRef {
                id,
                priority: rule.priority,
                matching: rule.matching.as_ref(),
            };
            let is_insert = number.is_multiple_of(2);
            let change =
                if is_insert { RuleChange::Insert(rule) } else { RuleChange::Remove(rule) };
            classifier.change(&[change]).expect("the rules allow it");
            // The change is visible at once, whatever was cached.
            let mut out = [RuleId::NONE];
            let mut key = KeyBuf::new(&IPV4_5TUPLE);
            key.push(&[network << 24 | 5, 0, 3, 0]);
            classifier.classify(key.as_batch(), &mut out);
            assert_eq!(out[0], if is_insert { id } else { RuleId(3) });
            // About 10,000 a second: without a pause rules hardly evolve between two changes.
            if number.is_multiple_of(10) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        stop.store(true, Ordering::Relaxed);
        readers.map(|reader| reader.join().expect("no wrong answer")).iter().sum::<u32>()
    });
    assert!(lookups >= 200, "{lookups} batches");
    assert!(classifier.stats().hits > 0, "the cache was in use");
    classifier.cache().verify().expect("the five properties");
}

/// Looks batches up as workers with roles do, while nobody evolves; the hits.
fn look_up_without_updater(cache: &StormCache, full: &dyn Classifier, ports_from: u32) -> u64 {
    let before = cache.counts().0;
    for number in 0..500 {
        let mut keys = KeyBuf::new(&IPV4_5TUPLE);
        skewed_keys(number)
            .as_batch()
            .iter()
            .for_each(|key| keys.push(&[key[0], key[1], key[2] + ports_from, key[3]]));
        let mut out = vec![RuleId::NONE; keys.len()];
        cache.lookup(full, keys.as_batch(), &mut out, |answer| RuleId(answer.0), |id| id);
        cache.sample_batch(keys.as_batch(), false);
        assert!(out.into_iter().eq(keys.as_batch().iter().map(|key| RuleId(key[2]))));
    }
    cache.counts().0 - before
}

#[test]
fn a_stopped_updater_leaves_answers_right() {
    let ruleset = rules_by_port();
    let full = build(Engine::HyperCuts, &ruleset, &BuildOptions::default()).expect("no bound");
    let cache = StormCache::new(&ruleset, &StormOptions::default());
    // It never ran: nothing is cached.
    assert_eq!(look_up_without_updater(&cache, &*full, 0), 0);
    // The updater ran for a while and stopped: rules that it published still hit.
    for number in 0..1000 {
        let keys = skewed_keys(number);
        cache.sample_batch(keys.as_batch(), false);
        cache.evolve();
    }
    assert!(look_up_without_updater(&cache, &*full, 0) > 0);
    // The traffic has moved on: most batches bypass the cache, and nothing hits.
    assert_eq!(look_up_without_updater(&cache, &*full, 100), 0);
    // Changes need no updater.
    let port = ruleset.rule(RuleId(100));
    let pending = cache.begin_change(&[RuleChange::Remove(port)]);
    full.remove(port).expect("it is there");
    pending.finish(&[RuleChange::Remove(port)], &[]);
    let mut keys = KeyBuf::new(&IPV4_5TUPLE);
    keys.push(&[0, 0, 100, 0]);
    let mut out = [RuleId(0)];
    cache.lookup(&*full, keys.as_batch(), &mut out, |answer| RuleId(answer.0), |id| id);
    assert_eq!(out[0], RuleId::NONE);
}

#[test]
fn one_rule_and_a_window_of_one_sample() {
    let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
    builder.push(network_rule(3));
    let ruleset = builder.build();
    let full = build(Engine::HyperCuts, &ruleset, &BuildOptions::default()).expect("no bound");
    let options = StormOptions {
        window_len: 1,
        keys_per_sample: 1,
        samples_per_swap: 1,
        ..StormOptions::default()
    };
    let cache = StormCache::new(&ruleset, &options);
    for number in 0..100 {
        let keys = skewed_keys(number);
        let mut out = vec![RuleId(9); keys.len()];
        let of_answer = |answer: warpswitch_flow::Answer| RuleId(answer.0);
        cache.lookup(&*full, keys.as_batch(), &mut out, of_answer, |id| id);
        cache.sample_batch(keys.as_batch(), true);
        let expected = |key: &[u32]| if key[0] >> 24 == 3 { RuleId(0) } else { RuleId::NONE };
        assert!(out.into_iter().eq(keys.as_batch().iter().map(expected)));
        cache.verify().expect("the five properties");
    }
    assert!(cache.stats().evolving_rules <= 1);
}
