//! The cost gate: each engine without a cache, with one, and with the gate, on the same threads.
//!
//! The three take turns within each round, in changing order, so that noise of the machine hits all
//! alike; the ratio is the median over rounds.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use warpswitch_classify::Classifier;
use warpswitch_flow::{CachedClassifier, StormCache, StormOptions};
use warpswitch_rules::{KeyBatch, RuleId, Ruleset};

use super::defs::{CaseDef, spread_keys};
use super::figures::Lab;
use super::traffic::Traffic;
use crate::human::rounded;
use crate::measure::median;
use crate::threads;

/// Keys of a lookup.
const BATCH_KEYS: usize = 256;

/// Parts of the traffic between two looks at the clock.
const PARTS_PER_LOOK: usize = 4;

/// So many times the rounds of other figures: here a hundredth matters. Rounds are short: what
/// slows the machine for a tenth of a second then slows all forms of a round alike.
const MORE_ROUNDS: usize = 9;

/// What takes turns.
const FORMS: usize = 3;

/// A comparison.
#[derive(Clone, Debug, Serialize)]
pub struct GateRow {
    pub case: String,
    /// Hot rules, flows drawn from all rules, or keys that hardly repeat.
    pub trace: &'static str,
    pub threads: usize,
    /// Nanoseconds a key of one thread: the engine, with the cache, with the gate.
    pub plain_ns: f64,
    pub storm_ns: f64,
    pub auto_ns: f64,
    /// Throughput with the cache and with the gate by that of the engine.
    pub storm_times: f64,
    pub auto_times: f64,
    /// Of the cache without the gate.
    pub hit_ratio: f64,
    /// Whether the gate uses the cache at the end.
    pub cache_on: String,
}

/// The forms over one engine.
struct Forms<'a> {
    gated: &'a CachedClassifier,
    cache: &'a StormCache,
}

impl Forms<'_> {
    fn classify(&self, form: usize, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        match form {
            0 => self.gated.full().classify(keys, out),
            1 => {
                self.cache.classify(self.gated.full(), keys, out);
                self.cache.sample_batch(keys, true);
            }
            _ => self.gated.classify(keys, out),
        }
    }
}

impl Lab<'_> {
    /// All cases, traces and numbers of threads.
    ///
    /// # Errors
    /// A bad definition, or answers of a cache that differ from those of the engine.
    pub fn gates(&self) -> anyhow::Result<Vec<GateRow>> {
        let mut all = Vec::new();
        for case in self.experiments.cases.iter().take(self.effort.rulesets.max(2)) {
            self.progress.say(format!("{}: rules", case.name));
            let ruleset = case.ruleset(self.effort.rules_max)?;
            let trace = &self.experiments.traces[0];
            let traces = [
                ("hot rules", trace.keys(&ruleset, self.effort.keys)?),
                ("flows", trace.flow_keys(&ruleset, self.effort.keys)?),
                ("spread", spread_keys(&ruleset, self.effort.keys, 1)),
            ];
            for (name, keys) in &traces {
                let mut sizes = vec![1, self.threads];
                sizes.dedup();
                for threads in sizes {
                    self.progress.say(format!("{}, {name}, {threads} threads", case.name));
                    let traffic = match *name {
                        "hot rules" => self.by_time(keys),
                        _ => Traffic::in_order(keys),
                    };
                    all.push(self.gate(case, &ruleset, (*name, &traffic), threads)?);
                }
            }
        }
        Ok(all)
    }

    fn gate(
        &self,
        case: &CaseDef,
        ruleset: &Ruleset,
        (trace, traffic): (&'static str, &Traffic<'_>),
        threads: usize,
    ) -> anyhow::Result<GateRow> {
        let options = StormOptions::default();
        let gated = CachedClassifier::new(case.build(ruleset)?, ruleset, &options).with_gate();
        let start = Instant::now();
        gated.set_clock(Arc::new(move || start.elapsed()));
        let cache = StormCache::new(ruleset, &options);
        let forms = Forms { gated: &gated, cache: &cache };
        check(&forms, traffic.keys, &case.name)?;
        let rounds = self.rounds(&forms, traffic, threads);
        let mut ratios = [Vec::new(), Vec::new()];
        for round in &rounds {
            ratios[0].push(round[0] / round[1]);
            ratios[1].push(round[0] / round[2]);
        }
        let middle = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            median(&values)
        };
        let ns = |form: usize| rounded(middle(rounds.iter().map(|r| r[form]).collect()), 3);
        let [storm, auto] = ratios.map(middle);
        Ok(GateRow {
            case: case.name.clone(),
            trace,
            threads,
            plain_ns: ns(0),
            storm_ns: ns(1),
            auto_ns: ns(2),
            storm_times: rounded(storm, 3),
            auto_times: rounded(auto, 3),
            hit_ratio: rounded(cache.stats().hit_ratio(), 4),
            cache_on: gated.gate().is_some_and(|gate| gate.is_on()).to_string(),
        })
    }

    /// Nanoseconds a key of each form in each round, the mean of all threads.
    fn rounds(
        &self,
        forms: &Forms<'_>,
        traffic: &Traffic<'_>,
        threads: usize,
    ) -> Vec<[f64; FORMS]> {
        let barrier = Barrier::new(threads);
        let time = self.effort.time / 6;
        let rounds = MORE_ROUNDS * self.effort.rounds;
        let all: Vec<Vec<[f64; FORMS]>> = thread::scope(|scope| {
            let spawn = |idx: usize| {
                let barrier = &barrier;
                scope.spawn(move || {
                    threads::pin(idx);
                    let mut turns = [traffic.parts() / threads * idx; FORMS];
                    let mut found = Vec::new();
                    // The first round warms up.
                    for round in 0..=rounds {
                        let mut costs = [0.0; FORMS];
                        for step in 0..FORMS {
                            let form = turn(round, step);
                            barrier.wait();
                            costs[form] = look_up(forms, form, traffic, &mut turns[form], time);
                        }
                        if round > 0 {
                            found.push(costs);
                        }
                    }
                    found
                })
            };
            let handles: Vec<_> = (0..threads).map(spawn).collect();
            handles.into_iter().map(|h| h.join().expect("a thread does not panic")).collect()
        });
        let mean = |round: usize, form: usize| {
            // Rates add up.
            let rate: f64 = all.iter().map(|thread| 1.0 / thread[round][form]).sum();
            threads as f64 / rate
        };
        (0..rounds).map(|round| std::array::from_fn(|form| mean(round, form))).collect()
    }
}

/// The form of a step: each is first, second and last, and follows each other one, equally often.
/// One that runs after the cache finds less of its memory in the core's caches.
fn turn(round: usize, step: usize) -> usize {
    let ahead = if round.is_multiple_of(2) { step } else { FORMS - step };
    (round / 2 + ahead) % FORMS
}

/// Looks up parts of the traffic for a time, from `turn` on; nanoseconds a key.
fn look_up(
    forms: &Forms<'_>,
    form: usize,
    traffic: &Traffic<'_>,
    turn: &mut usize,
    time: Duration,
) -> f64 {
    let mut out = [RuleId::NONE; BATCH_KEYS];
    let (start, mut done) = (Instant::now(), 0);
    let mut now = start;
    loop {
        for _ in 0..PARTS_PER_LOOK {
            let part = traffic.part(*turn, now);
            *turn += 1;
            let keys = traffic.keys.slice(part.start, part.end);
            for first in (0..keys.len()).step_by(BATCH_KEYS) {
                let batch = keys.slice(first, keys.len().min(first + BATCH_KEYS));
                forms.classify(form, batch, std::hint::black_box(&mut out));
            }
            done += keys.len();
        }
        now = Instant::now();
        let took = now - start;
        if took >= time {
            return took.as_nanos() as f64 / done as f64;
        }
    }
}

/// Compares all forms on a part of the trace.
fn check(forms: &Forms<'_>, keys: KeyBatch<'_>, name: &str) -> anyhow::Result<()> {
    let end = keys.len().min(100_000);
    for start in (0..end).step_by(BATCH_KEYS) {
        let batch = keys.slice(start, end.min(start + BATCH_KEYS));
        let mut out = [[RuleId::NONE; BATCH_KEYS]; FORMS];
        for (form, out) in out.iter_mut().enumerate() {
            forms.classify(form, batch, out);
        }
        let is_equal = out.iter().all(|answers| answers[..batch.len()] == out[0][..batch.len()]);
        anyhow::ensure!(is_equal, "{name}: answers differ in the batch from key {start} on");
    }
    Ok(())
}
