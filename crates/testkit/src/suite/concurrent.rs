//! Readers while a writer changes rules.
//!
//! The writer's steps are fixed beforehand, so every version of the rules is known by its number.
//! It announces a version before it makes the change and confirms it afterwards; a batch that began
//! after version `a` was confirmed and ended before version `b + 1` was announced must equal the
//! reference at a version in `a..=b`: each answer for itself, which every engine promises; and for
//! engines that hold on to one version for a whole batch all answers at one version, which is none
//! before the last one that the reader saw.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use warpswitch_classify::Classifier;
use warpswitch_rules::schema::{IPV4_5TUPLE, OPENFLOW12_IPV6};
use warpswitch_rules::{KeyBuf, Precedence, RuleId, Ruleset, Schema};

use super::{Build, OPTIONS, answers};
use crate::dense;
use crate::random::Random;

/// Rules that come and go: one bit each.
const RULES: usize = 128;

/// Changes that the writer makes.
const CHANGES: usize = 1500;

const READERS: usize = 2;

/// All that is known beforehand.
struct Plan {
    ruleset: Ruleset,
    keys: KeyBuf,
    /// For each key the rules that match it, the winner of all first.
    matches: Vec<Vec<RuleId>>,
    /// For each version the rules that are present, as bits.
    versions: Vec<u128>,
}

impl Plan {
    fn new(schema: &'static Schema, wild: usize) -> Self {
        let ruleset = dense::ruleset(schema, RULES, wild, 121);
        let keys = dense::keys_near(&ruleset, 500, 122);
        let matches = keys.as_batch().iter().map(|key| {
            let hits = ruleset.iter().filter(|rule| rule.matching.matches(key));
            let mut hits: Vec<Precedence> = hits.map(|rule| rule.precedence()).collect();
            hits.sort_unstable();
            hits.into_iter().map(Precedence::id).collect()
        });
        let mut random = Random::new(123);
        // From no rule to nearly all and back, and again: structures grow and shrink meanwhile.
        let mut versions = vec![0u128];
        while versions.len() <= CHANGES {
            let last = versions[versions.len() - 1];
            let grows = versions.len() % 500 < 250;
            let changed = last ^ 1 << random.below(RULES);
            if (changed > last) == grows || random.chance(1, 4) {
                versions.push(changed);
            }
        }
        Self { matches: matches.collect(), ruleset, keys, versions }
    }

    fn answer(&self, key: usize, version: usize) -> RuleId {
        let present = self.versions[version];
        let there = |id: &&RuleId| present >> id.0 & 1 == 1;
        self.matches[key].iter().find(there).copied().unwrap_or(RuleId::NONE)
    }

    /// Makes the step to `version`.
    fn step(&self, classifier: &dyn Classifier, version: usize) {
        let (before, after) = (self.versions[version - 1], self.versions[version]);
        let rule = self.ruleset.rule(RuleId((before ^ after).trailing_zeros()));
        let changed =
            if after > before { classifier.insert(rule) } else { classifier.remove(rule) };
        changed.expect("a step that is possible");
    }
}

/// Announced and confirmed versions.
#[derive(Default)]
struct Progress {
    announced: AtomicUsize,
    confirmed: AtomicUsize,
    stop: AtomicBool,
}

/// Every lookup equals the reference at one version that was current while it ran.
pub fn lookups_see_single_versions(build: Build<'_>) {
    run(build, Unit::Lookup);
}

/// Every batch equals the reference at one version that was current while it ran.
pub fn batches_see_single_versions(build: Build<'_>) {
    run(build, Unit::Batch);
}

/// What belongs to one version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Lookup,
    Batch,
}

fn run(build: Build<'_>, unit: Unit) {
    for (schema, wild) in [(&IPV4_5TUPLE, 5), (&OPENFLOW12_IPV6, 7)] {
        let plan = Plan::new(schema, wild);
        let classifier = build(&Ruleset::empty(schema), &OPTIONS).expect("no bound was given");
        let progress = Progress::default();
        std::thread::scope(|scope| {
            // A reader that panics ends its thread, and the scope then fails the test.
            for seed in 0..READERS as u64 {
                let (plan, classifier, progress) = (&plan, &*classifier, &progress);
                let random = Random::new(seed);
                scope.spawn(move || read(plan, classifier, progress, random, unit));
            }
            for version in 1..plan.versions.len() {
                progress.announced.store(version, Ordering::SeqCst);
                plan.step(&*classifier, version);
                progress.confirmed.store(version, Ordering::SeqCst);
            }
            progress.stop.store(true, Ordering::SeqCst);
        });
        let last = plan.versions.len() - 1;
        let found = answers(&*classifier, plan.keys.as_batch());
        assert!(found.iter().enumerate().all(|(key, &id)| id == plan.answer(key, last)));
    }
}

fn read(
    plan: &Plan,
    classifier: &dyn Classifier,
    progress: &Progress,
    mut random: Random,
    unit: Unit,
) {
    let mut seen = 0;
    loop {
        // Read first: one whole batch runs after the last change too.
        let stop = progress.stop.load(Ordering::SeqCst);
        let len = 1 + random.below(200);
        let start = random.below(plan.keys.len() - len);
        let first = progress.confirmed.load(Ordering::SeqCst).max(seen);
        let found = answers(classifier, plan.keys.as_batch().slice(start, start + len));
        let last = progress.announced.load(Ordering::SeqCst);
        let exact = |(id, key): (&RuleId, usize), version| *id == plan.answer(key, version);
        if unit == Unit::Batch {
            let at = |version: &usize| found.iter().zip(start..).all(|pair| exact(pair, *version));
            seen = (first..=last).find(at).unwrap_or_else(|| {
                panic!("{len} keys from {start} are of no version in {first}..={last}: {found:?}")
            });
        }
        for pair in found.iter().zip(start..) {
            let known = (first..=last).any(|version| exact(pair, version));
            assert!(known, "{} for key {} is of no version in {first}..={last}", pair.0, pair.1);
        }
        if stop {
            return;
        }
    }
}
