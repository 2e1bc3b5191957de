//! Hit ratios on generated traffic, with rules that merge by action and with each for itself.

use warpswitch_classify::{BuildOptions, Engine, build};
use warpswitch_flow::{Answer, Merge, StormCache, StormOptions};
use warpswitch_rules::generate::{
    ActionMix, Family, HotRulesSpec, Point, PopularitySpec, RulesetSpec, Style, TraceSpec, Zipf,
};
use warpswitch_rules::schema::IPV4_5TUPLE;
use warpswitch_rules::{Action, Field, KeyBuf, Match, Rule, Ruleset, RulesetBuilder};

const BATCH_KEYS: usize = 256;

fn ruleset(style: Style) -> Ruleset {
    let spec = RulesetSpec { style, family: Family::Ipv4, rules: 1000, seed: 1 };
    let mix: ActionMix = "permit:deny=70:30,1".parse().expect("a mix");
    mix.apply(&spec.generate(), 1)
}

/// Hit ratio of the second half of a trace of so many flows.
fn hit_ratio(ruleset: &Ruleset, merge: Merge, zipf: &str, flows_len: usize) -> f64 {
    let spec = TraceSpec {
        keys: flows_len,
        point: Point::Inside,
        locality: None,
        realisable: true,
        seed: 2,
    };
    let mut flows = KeyBuf::new(ruleset.schema());
    spec.generate(ruleset).fill(&mut flows, flows_len);
    let zipf: Zipf = zipf.parse().expect("an exponent");
    let keys = 4000 * BATCH_KEYS;
    let mut trace = PopularitySpec { keys, zipf, keys_per_shift: None, seed: 3 }.generate(flows);
    let full = build(Engine::Turbo, ruleset, &BuildOptions::default()).expect("no bound");
    let cache = StormCache::new(ruleset, &StormOptions { merge, ..StormOptions::default() });
    let mut keys = KeyBuf::new(ruleset.schema());
    let mut out = vec![Answer::MISS; BATCH_KEYS];
    let mut before = cache.stats();
    while trace.fill(&mut keys, BATCH_KEYS) > 0 {
        let of_rule = |_| Answer::NONE;
        cache.lookup(&*full, keys.as_batch(), &mut out, |answer| answer, of_rule);
        cache.sample_batch(keys.as_batch(), true);
        keys.clear();
        if trace.keys_left() == 2000 * BATCH_KEYS {
            before = cache.stats();
        }
    }
    cache.verify().expect("the five properties");
    let after = cache.stats();
    (after.hits - before.hits) as f64 / (2000 * BATCH_KEYS) as f64
}

#[test]
fn skewed_traffic_hits_at_least_as_often_as_its_heaviest_flows() {
    // The share of the 20 heaviest flows of 2,000 is 0.63 by this exponent, and 0.88 by the other.
    for (style, zipf, least) in
        [(Style::Acl, "1.2", 0.58), (Style::Fw, "1.2", 0.58), (Style::Ipc, "1.6", 0.85)]
    {
        let ruleset = ruleset(style);
        for merge in [Merge::ByRule, Merge::ByAction] {
            let found = hit_ratio(&ruleset, merge, zipf, 2000);
            assert!(found > least, "{style:?} {merge:?}: {found}");
        }
    }
}

/// Hit ratio of a trace with hot rules that shift ten times, warm-up included.
fn hit_ratio_of_hot_rules(ruleset: &Ruleset, merge: Merge, zipf: &str, hot_rules: usize) -> f64 {
    let spec = HotRulesSpec {
        keys: 20_000 * BATCH_KEYS,
        zipf: zipf.parse().expect("an exponent"),
        hot_rules,
        flows: 10_000,
        keys_per_shift: Some(500_000),
        point: Point::Inside,
        realisable: false,
        seed: 3,
    };
    let mut trace = spec.generate(ruleset);
    let full = build(Engine::Turbo, ruleset, &BuildOptions::default()).expect("no bound");
    let cache = StormCache::new(ruleset, &StormOptions { merge, ..StormOptions::default() });
    let mut keys = KeyBuf::new(ruleset.schema());
    let mut out = vec![Answer::MISS; BATCH_KEYS];
    while trace.fill(&mut keys, BATCH_KEYS) > 0 {
        let of_rule = |_| Answer::NONE;
        cache.lookup(&*full, keys.as_batch(), &mut out, |answer| answer, of_rule);
        cache.sample_batch(keys.as_batch(), true);
        keys.clear();
    }
    cache.stats().hit_ratio()
}

/// The paper's traces: 10,000 flows, of which the cache has to find the few rules behind them.
#[test]
fn hot_rules_of_many_flows_are_cached_through_shifts() {
    for style in [Style::Acl, Style::Fw, Style::Ipc] {
        let ruleset = ruleset(style);
        for merge in [Merge::ByRule, Merge::ByAction] {
            let found = hit_ratio_of_hot_rules(&ruleset, merge, "1.1", 16);
            assert!(found > 0.95, "{style:?} {merge:?}: {found}");
        }
    }
}

/// Hosts that a network around them permits as well.
fn hosts_within_a_network() -> Ruleset {
    let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
    let mut push = |network: u32, bits: usize| {
        let mut matching = Match::any(&IPV4_5TUPLE);
        matching.set_prefix(Field::Ipv4Src, network.into(), bits);
        builder.push(Rule::new(matching, Action::Pass));
    };
    (0..500).for_each(|host| push(0x0a00_0000 + host * 77, 32));
    push(0x0a00_0000, 8);
    builder.build()
}

#[test]
fn boxes_grow_across_rules_of_the_same_action() {
    let ruleset = hosts_within_a_network();
    let by_rule = hit_ratio(&ruleset, Merge::ByRule, "0", 500);
    let by_action = hit_ratio(&ruleset, Merge::ByAction, "0", 500);
    assert!(by_rule < 0.2, "{by_rule}");
    assert!(by_action > 0.98, "{by_action}");
}
