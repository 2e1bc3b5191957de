//! Inserts and removes per second while a reader looks keys up, and what that does to the reader.
//!
//! One thread removes rules picked at random and inserts them again, in groups: first a group is
//! removed, then the same is inserted, so each kind can be timed by itself and the set is whole
//! again at the end. Another thread looks keys up all the while. The reader's rate is measured
//! alone first, on the same core.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use warpswitch_classify::Classifier;
use warpswitch_rules::{KeyBatch, RuleId, Ruleset};

use crate::measure::{Lap, MeasureOptions, Walk, classify_all};
use crate::threads;

/// Rules that are out at once.
const GROUP_RULES: usize = 1024;

/// Rates of changes, and of a reader beside them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UpdateRates {
    /// Inserts per second with a reader running.
    pub inserts_per_s: f64,
    /// Removes per second with a reader running.
    pub removes_per_s: f64,
    /// Million lookups per second of one thread with nothing else going on.
    pub reader_alone_mpps: f64,
    /// The same while rules change.
    pub reader_mpps: f64,
    /// The latter as a part of the former.
    pub reader_kept: f64,
}

/// Time spent in one kind of change.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    changes: u64,
    time: Duration,
}

impl Spent {
    fn rate(&self) -> f64 {
        if self.time.is_zero() { 0.0 } else { self.changes as f64 / self.time.as_secs_f64() }
    }
}

/// Changes rules for as long as all runs of a measurement last.
///
/// # Errors
/// If a change is refused, or the answers differ afterwards from those before.
pub fn measure_updates(
    classifier: &dyn Classifier,
    ruleset: &Ruleset,
    keys: KeyBatch<'_>,
    options: &MeasureOptions,
) -> anyhow::Result<UpdateRates> {
    ensure!(!ruleset.is_empty(), "the rule set has no rule to update");
    let time = options.run_time * options.runs as u32;
    let probe = keys.slice(0, keys.len().min(20_000));
    let before = classify_all(classifier, probe, 1, &|_| {});
    let one = MeasureOptions { threads: 1, ..*options };
    let read = |time: Duration, stop: Option<&AtomicBool>| {
        threads::pin(0);
        let mut walk = Walk::new(classifier, keys, &one, 0);
        walk.lap(options.run_time);
        let Some(stop) = stop else { return walk.lap(time) };
        let mut sum = Lap { lookups: 0, time: Duration::ZERO };
        // Pairs with the store in the writer: nothing else is handed over.
        while !stop.load(Ordering::Relaxed) {
            let lap = walk.lap(Duration::from_millis(5));
            sum = Lap { lookups: sum.lookups + lap.lookups, time: sum.time + lap.time };
        }
        sum
    };
    let stop = AtomicBool::new(false);
    let (alone, beside, changes) = thread::scope(|scope| {
        let join = "a measuring thread panicked";
        let alone = scope.spawn(|| read(time, None)).join().expect(join);
        let reader = scope.spawn(|| read(time, Some(&stop)));
        let writer = scope.spawn(|| {
            threads::pin(1);
            let changes = change(classifier, ruleset, time);
            stop.store(true, Ordering::Relaxed);
            changes
        });
        let changes = writer.join().expect(join);
        (alone, reader.join().expect(join), changes)
    });
    let (removes, inserts) = changes?;
    let after = classify_all(classifier, probe, 1, &|_| {});
    ensure!(before == after, "results differ after all rules were reinserted");
    Ok(UpdateRates {
        inserts_per_s: inserts.rate().round(),
        removes_per_s: removes.rate().round(),
        reader_alone_mpps: alone.rate() / 1e6,
        reader_mpps: beside.rate() / 1e6,
        reader_kept: beside.rate() / alone.rate(),
    })
}

/// Removes and inserts groups of rules for `time`; ends with every rule in.
fn change(
    classifier: &dyn Classifier,
    ruleset: &Ruleset,
    time: Duration,
) -> anyhow::Result<(Spent, Spent)> {
    let (mut removes, mut inserts) = (Spent::default(), Spent::default());
    let mut state = 1u64;
    let mut group: Vec<RuleId> = Vec::new();
    // An engine that rebuilds takes long for one change; a large group would take forever.
    let mut group_len = 1;
    let start = Instant::now();
    while start.elapsed() < time {
        pick_group(&mut group, group_len.min(ruleset.len()), ruleset.len(), &mut state);
        let began = Instant::now();
        for &id in &group {
            classifier.remove(ruleset.rule(id)).with_context(|| format!("removing rule {id}"))?;
        }
        let removed = Instant::now();
        for &id in &group {
            classifier.insert(ruleset.rule(id)).with_context(|| format!("inserting rule {id}"))?;
        }
        removes.time += removed - began;
        inserts.time += removed.elapsed();
        removes.changes += group.len() as u64;
        inserts.changes += group.len() as u64;
        if began.elapsed() < time / 64 {
            group_len = (group_len * 2).min(GROUP_RULES);
        }
    }
    Ok((removes, inserts))
}

/// Picks different rules at random.
fn pick_group(group: &mut Vec<RuleId>, len: usize, rules: usize, state: &mut u64) {
    group.clear();
    while group.len() < len {
        // Xorshift: plain, and good enough to spread changes over a set.
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        group.push(RuleId((*state % rules as u64) as u32));
        if group.len() == len {
            group.sort_unstable();
            group.dedup();
            // Few repeats; where rules are few, fewer than asked for is fine.
            if group.len() * 2 >= len {
                break;
            }
        }
    }
    // In random order again: neighbours in the set are often neighbours in a structure.
    let len = group.len();
    for idx in (1..len).rev() {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        group.swap(idx, (*state % (idx as u64 + 1)) as usize);
    }
}
