//! A seeded simulator: lookups, samples, evolution, changes of rules in their phases, and rebuilds,
//! in random order. Every answer equals the linear reference at that moment.

use std::collections::HashMap;
use std::rc::Rc;

use warpswitch_classify::{BuildOptions, Classifier, Engine, RuleChange, build};
use warpswitch_flow::choices::{Copies, Sampling};
use warpswitch_flow::rule_index::Snapshot;
use warpswitch_flow::{Answer, Merge, Misses, StormCache, StormOptions};
use warpswitch_rules::schema::{IPV4_5TUPLE, OPENFLOW12};
use warpswitch_rules::{
    Action, Field, KeyBuf, Match, Precedence, Rule, RuleId, Ruleset, RulesetBuilder, Schema,
};
use warpswitch_testkit::random::Random;

/// Values of a field are `n << shift` for small `n`, so that rules and keys meet often.
const FIELDS: [(Field, usize); 4] =
    [(Field::Ipv4Src, 28), (Field::Ipv4Dst, 0), (Field::L4Dst, 4), (Field::IpProto, 0)];

fn random_match(schema: &'static Schema, random: &mut Random) -> Match {
    let mut matching = Match::any(schema);
    for (field, shift) in FIELDS {
        let value = random.below(8) as u128;
        let bits = schema.field(field).expect("a field of both schemas").bits;
        match random.below(6) {
            0 => _ = matching.set_exact(field, value << shift),
            1 => _ = matching.set_prefix(field, value << shift, bits - shift.min(2) - 1),
            2 => _ = matching.set_mask(field, value << shift, 5 << shift),
            3 if field == Field::L4Dst => {
                let (low, len) = (random.below(100) as u16, random.below(60) as u16);
                _ = matching.set_range(field, low, low + len);
            }
            _ => {}
        }
    }
    matching
}

/// Rules with priorities that tie, and few actions.
fn random_rules(schema: &'static Schema, rules: usize, random: &mut Random) -> Ruleset {
    let mut builder = RulesetBuilder::new(schema);
    for _ in 0..rules {
        let matching = random_match(schema, random);
        let action = Action::Mark(random.below(3) as u32);
        let priority = random.below(4) as u32;
        builder.push(Rule { priority, ..Rule::new(matching, action) });
    }
    builder.build()
}

struct Simulator {
    random: Random,
    /// All rules that may ever exist, by id.
    rules: Ruleset,
    live: Vec<bool>,
    answers: HashMap<RuleId, Answer>,
    full: Box<dyn Classifier>,
    cache: Rc<StormCache>,
    rebuild: Option<Snapshot>,
    /// Keys near a point, which moves.
    focus: usize,
    from_cache: u64,
    removed_while_cached: u64,
}

impl Simulator {
    fn new(seed: u64, schema: &'static Schema, merge: Merge) -> Self {
        let mut random = Random::new(seed);
        let rules = random_rules(schema, 1 + random.below(120), &mut random);
        // The first half exists at the start: ids, and so the numbers of actions, are the same.
        let mut first = RulesetBuilder::new(schema);
        let mut live = vec![false; rules.len()];
        for id in rules.ids().take(rules.len() / 2) {
            first.push(rules.to_rule(id));
            live[id.as_usize()] = true;
        }
        let first = first.build();
        let options = StormOptions {
            window_len: [1, 7, 64][random.below(3)],
            cached_max: 10 + random.below(21),
            keys_per_sample: 1 + random.below(8),
            samples_per_swap: 1 + random.below(4),
            is_adaptive: random.chance(1, 3),
            copies: if random.chance(1, 4) { Copies::One } else { Copies::Two },
            sampling: if random.chance(1, 4) { Sampling::Queue } else { Sampling::Slot },
            merge,
            ..StormOptions::default()
        };
        let mut answers = HashMap::new();
        for id in rules.ids() {
            let Action::Mark(mark) = rules.action(id) else { unreachable!("all are marks") };
            answers.insert(id, Answer(*mark));
        }
        if merge == Merge::ByAction {
            // The cache numbers actions by their first rule.
            let mut numbers: HashMap<Answer, Answer> = HashMap::new();
            for id in rules.ids() {
                let next = Answer(numbers.len() as u32);
                let number = *numbers.entry(answers[&id]).or_insert(next);
                answers.insert(id, number);
            }
        } else {
            answers.iter_mut().for_each(|(id, answer)| *answer = Answer(id.0));
        }
        let full = build(Engine::Linear, &first, &BuildOptions::default()).expect("no bound");
        let cache = Rc::new(StormCache::new(&first, &options));
        Self {
            random,
            rules,
            live,
            answers,
            full,
            cache,
            rebuild: None,
            focus: 0,
            from_cache: 0,
            removed_while_cached: 0,
        }
    }

    fn answer_of(&self, id: RuleId) -> Answer {
        self.answers.get(&id).copied().unwrap_or(Answer::NONE)
    }

    fn reference(&self, key: &[u32]) -> Answer {
        let live = self.rules.iter().filter(|rule| self.live[rule.id.as_usize()]);
        let matching = live.filter(|rule| rule.matching.matches(key));
        let best = matching.map(|rule| rule.precedence()).min().unwrap_or(Precedence::NONE);
        self.answer_of(best.id())
    }

    fn random_keys(&mut self) -> KeyBuf {
        let schema = self.rules.schema();
        let mut keys = KeyBuf::new(schema);
        for _ in 0..1 + self.random.below(20) {
            let mut key = vec![0; schema.words];
            for (at, (field, shift)) in FIELDS.into_iter().enumerate() {
                let near = self.focus >> (3 * at) & 7;
                let number = if self.random.chance(3, 4) { near } else { self.random.below(8) };
                let low = self.random.below(1 << shift.min(5)) as u128;
                let spec = schema.field(field).expect("a field of both schemas");
                spec.write(&mut key, (number as u128) << shift | low);
            }
            keys.push(&key);
        }
        keys
    }

    fn look_up(&mut self) {
        let keys = self.random_keys();
        let mut out = vec![(Answer::MISS, false); keys.len()];
        let of_rule = |id: RuleId| (self.answer_of(id), false);
        let (full, batch) = (&*self.full, keys.as_batch());
        self.cache.lookup(full, batch, &mut out, |answer| (answer, true), of_rule);
        for (key, (answer, is_cached)) in batch.iter().zip(out) {
            assert_eq!(answer, self.reference(key), "{key:x?}, cached: {is_cached}");
            self.from_cache += u64::from(is_cached);
        }
        self.cache.sample_batch(batch, self.random.chance(1, 2));
    }

    /// A lookup in two halves, between which rules may change: hits are those of the first moment,
    /// misses those of the second.
    fn look_up_in_halves(&mut self) {
        let keys = self.random_keys();
        let batch = keys.as_batch();
        let mut out = vec![Answer::MISS; keys.len()];
        let mut misses = Misses::default();
        let middle = self.random.below(keys.len() + 1);
        for (start, end) in [(0, middle), (middle, keys.len())] {
            let part = batch.slice(start, end);
            let out = &mut out[start..end];
            self.cache.look_up_cached(part, out, |answer| answer, &mut misses);
        }
        let is_hit: Vec<bool> = out.iter().map(|answer| *answer != Answer::MISS).collect();
        assert_eq!(misses.len(), is_hit.iter().filter(|hit| !**hit).count());
        for (key, answer) in batch.iter().zip(&out).filter(|(_, answer)| **answer != Answer::MISS) {
            assert_eq!(*answer, self.reference(key), "{key:x?}, cached");
        }
        if self.random.chance(1, 2) {
            self.change();
        }
        misses.resolve(&*self.full, &mut out, |id| self.answer_of(id));
        for ((key, answer), _) in batch.iter().zip(out).zip(is_hit).filter(|(_, hit)| !hit) {
            assert_eq!(answer, self.reference(key), "{key:x?}, resolved");
        }
        self.cache.sample_batch(batch, false);
    }

    /// Some changes; lookups and evolution go on between their phases.
    fn change(&mut self) {
        let mut live = self.live.clone();
        let rules = self.rules.clone();
        let mut changes = Vec::new();
        let mut answers = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let id = RuleId(self.random.below(rules.len()) as u32);
            let rule = rules.rule(id);
            let is_live = &mut live[id.as_usize()];
            let insert = RuleChange::Insert(rule);
            changes.push(if *is_live { RuleChange::Remove(rule) } else { insert });
            answers.push(self.answer_of(id));
            *is_live = !*is_live;
        }
        let cache = self.cache.clone();
        let before = cache.stats().weights.len();
        let pending = cache.begin_change(&changes);
        assert!(!cache.evolve(), "no evolution while a change is pending");
        // The change is not visible yet: what is cached has the old answers.
        self.check_with(&cache);
        self.full.change(&changes).expect("the rules allow it");
        self.live = live;
        // It is visible, and not finished.
        self.check_with(&cache);
        pending.finish(&changes, &answers);
        self.removed_while_cached += u64::from(cache.stats().weights.len() < before);
    }

    fn check_with(&mut self, cache: &StormCache) {
        let keys = self.random_keys();
        let mut out = vec![Answer::MISS; keys.len()];
        let of_rule = |id: RuleId| self.answer_of(id);
        cache.lookup(&*self.full, keys.as_batch(), &mut out, |answer| answer, of_rule);
        for (key, answer) in keys.as_batch().iter().zip(out) {
            assert_eq!(answer, self.reference(key), "{key:x?} while a change is pending");
        }
    }

    fn step(&mut self) {
        match self.random.below(32) {
            0 => self.focus = self.random.below(1 << 12),
            1 | 2 => self.change(),
            // Some parts of a sample, or all of several.
            3..8 => (0..self.random.below(100)).for_each(|_| _ = self.cache.evolve()),
            8 if self.rebuild.is_none() => self.rebuild = self.cache.begin_rebuild(),
            9 => {
                if let Some(snapshot) = self.rebuild.take() {
                    self.cache.finish_rebuild(snapshot.build());
                }
            }
            10..15 => self.look_up_in_halves(),
            _ => self.look_up(),
        }
        self.cache.verify().expect("the five properties");
    }
}

fn simulate(schema: &'static Schema, merge: Merge) {
    let (mut hits, mut removals) = (0, 0);
    for seed in 0..30 {
        let mut simulator = Simulator::new(seed, schema, merge);
        let run = std::panic::AssertUnwindSafe(|| (0..300).for_each(|_| simulator.step()));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}, {} {merge:?}", schema.name);
            std::panic::resume_unwind(panic);
        }
        hits += simulator.from_cache;
        removals += simulator.removed_while_cached;
    }
    assert!(hits > 5_000, "the cache answered {hits} lookups");
    assert!(removals > 100, "changes removed cached rules {removals} times");
}

#[test]
fn no_answer_is_stale_by_action() {
    simulate(&IPV4_5TUPLE, Merge::ByAction);
    simulate(&OPENFLOW12, Merge::ByAction);
}

#[test]
fn no_answer_is_stale_by_rule() {
    simulate(&IPV4_5TUPLE, Merge::ByRule);
    simulate(&OPENFLOW12, Merge::ByRule);
}
