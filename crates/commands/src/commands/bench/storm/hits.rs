//! Hit ratios: figures 8, 9 and 10. They depend on the definitions only, not on the machine.

use std::thread;

use anyhow::{anyhow, ensure};
use serde::Serialize;
use warpswitch_flow::{Answer, StormCache};
use warpswitch_rules::{KeyBatch, RuleId};

use super::defs::RulesUnderTest;
use super::figures::{CACHE_SIZE, Lab};
use crate::human::rounded;

/// Keys of a lookup where one thread does everything.
const FOLD_KEYS: usize = 256;
/// Packets that figure 10 samples.
const SAMPLED: usize = 1000;
/// Hit ratio that a cache has to reach soon.
pub const HIGH: f64 = 0.95;
/// Time to reach it, in milliseconds.
const SOON_MS: usize = 50;

/// A hit ratio.
#[derive(Clone, Debug, Serialize)]
pub struct HitRatio {
    pub ruleset: String,
    pub trace: String,
    /// Of all packets after the first 50 ms at the nominal rate.
    pub hit_ratio: f64,
    /// The first millisecond in which 95 % of the packets hit; none if there is none.
    pub ms_to_95: Option<usize>,
}

/// A point of figure 8.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Moment {
    pub ms: usize,
    /// Of the packets since the point before.
    pub hit_ratio: f64,
}

/// A step of figure 10.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Compared {
    pub rules: usize,
    /// Share of packets that need at most so many comparisons.
    pub share: f64,
}

impl Lab<'_> {
    /// Figure 8: the hit ratio of R3 from the first packet on, at the nominal rate.
    ///
    /// # Errors
    /// A bad definition, or answers of the cache that differ from those of the engine.
    pub fn figure_8(&self) -> anyhow::Result<Vec<Moment>> {
        let rules = self.experiments.rules("R3", 1)?;
        let keys = self.experiments.traces[0].keys(&rules.ruleset, self.effort.keys)?;
        self.moments(&rules, keys.as_batch())
    }

    /// Hit ratios of each nominal millisecond of a trace.
    fn moments(&self, rules: &RulesUnderTest, keys: KeyBatch<'_>) -> anyhow::Result<Vec<Moment>> {
        let cache = rules.cache(CACHE_SIZE);
        let step = self.experiments.keys_per_ms.min(keys.len()).max(1);
        let mut moments = Vec::new();
        let mut before = 0;
        for (at, start) in (0..keys.len() + 1 - step).step_by(step).enumerate() {
            fold(rules, &cache, keys.slice(start, start + step))?;
            let hits = cache.counts().0;
            let hit_ratio = rounded((hits - before) as f64 / step as f64, 4);
            moments.push(Moment { ms: at + 1, hit_ratio });
            before = hits;
        }
        Ok(moments)
    }

    /// Figure 9: hit ratios of all rule sets and traces.
    ///
    /// # Errors
    /// As [`Lab::figure_8`].
    pub fn figure_9(&self) -> anyhow::Result<Vec<HitRatio>> {
        self.progress.say("hit ratios of all rule sets and traces".to_owned());
        let all: Vec<anyhow::Result<Vec<HitRatio>>> = thread::scope(|scope| {
            let names: Vec<&str> = self.names().collect();
            let spawn = |name| scope.spawn(move || self.hit_ratios(name));
            let handles: Vec<_> = names.into_iter().map(spawn).collect();
            let failed = |_| Err(anyhow!("a thread of figure 9 failed"));
            handles.into_iter().map(|handle| handle.join().unwrap_or_else(failed)).collect()
        });
        let all: anyhow::Result<Vec<Vec<HitRatio>>> = all.into_iter().collect();
        Ok(all?.into_iter().flatten().collect())
    }

    fn hit_ratios(&self, name: &str) -> anyhow::Result<Vec<HitRatio>> {
        let rules = self.experiments.rules(name, 1)?;
        let of_trace = |trace: &super::defs::TraceDef| {
            let keys = trace.keys(&rules.ruleset, self.effort.keys)?;
            let moments = self.moments(&rules, keys.as_batch())?;
            let high = moments.iter().find(|moment| moment.hit_ratio >= HIGH);
            let later = &moments[SOON_MS.min(moments.len() - 1)..];
            let sum: f64 = later.iter().map(|moment| moment.hit_ratio).sum();
            Ok(HitRatio {
                ruleset: name.to_owned(),
                trace: trace.name.clone(),
                hit_ratio: rounded(sum / later.len() as f64, 4),
                ms_to_95: high.map(|moment| moment.ms),
            })
        };
        self.experiments.traces.iter().map(of_trace).collect()
    }

    /// Figure 10: cached rules that a search in order compares, for sampled packets of R2.
    ///
    /// # Errors
    /// As [`Lab::figure_8`].
    pub fn figure_10(&self) -> anyhow::Result<Vec<Compared>> {
        let rules = self.experiments.rules("R2", 1)?;
        let keys = self.experiments.traces[0].keys(&rules.ruleset, self.effort.keys)?;
        let cache = rules.cache(CACHE_SIZE);
        let mut counts = [0; CACHE_SIZE + 1];
        let mut sampled = 0;
        let parts = keys.len() / FOLD_KEYS;
        let every = (parts / SAMPLED).max(1);
        for part in 0..parts {
            let batch = keys.as_batch().slice(part * FOLD_KEYS, (part + 1) * FOLD_KEYS);
            fold(&rules, &cache, batch)?;
            // The warm-up is left out.
            if part * 10 >= parts && part.is_multiple_of(every) {
                counts[cache.rules_compared(batch.key(part % FOLD_KEYS)).min(CACHE_SIZE)] += 1;
                sampled += 1;
            }
        }
        let mut sum = 0;
        let compared = counts.into_iter().enumerate().map(|(rules, count)| {
            sum += count;
            Compared { rules, share: rounded(f64::from(sum) / f64::from(sampled.max(1)), 4) }
        });
        Ok(compared.collect())
    }
}

/// Compares a part of a trace under the cache with the engine alone.
///
/// # Errors
/// An answer of the cache that differs from that of the engine.
pub fn check(rules: &RulesUnderTest, keys: KeyBatch<'_>) -> anyhow::Result<()> {
    fold(rules, &rules.cache(CACHE_SIZE), keys.slice(0, keys.len().min(100_000)))
}

/// Looks keys up as one thread that does everything, and checks the answers of hits.
fn fold(rules: &RulesUnderTest, cache: &StormCache, keys: KeyBatch<'_>) -> anyhow::Result<()> {
    let full = rules.copy(0);
    let mut out = [Answer::MISS; FOLD_KEYS];
    let mut winners = [RuleId::NONE; FOLD_KEYS];
    for start in (0..keys.len()).step_by(FOLD_KEYS) {
        let batch = keys.slice(start, keys.len().min(start + FOLD_KEYS));
        cache.lookup(full, batch, &mut out, |answer| answer, |id| rules.answer(id));
        cache.sample_batch(batch, true);
        full.classify(batch, &mut winners);
        for (at, key) in batch.iter().enumerate() {
            let (found, expected) = (out[at], rules.answer(winners[at]));
            ensure!(found == expected, "{}: {key:x?} has {found:?}, not {expected:?}", rules.name);
        }
    }
    Ok(())
}

/// The hit ratio without the first tenth of the keys.
///
/// # Errors
/// As [`check`].
pub fn steady_hit_ratio(
    rules: &RulesUnderTest,
    cache: &StormCache,
    keys: KeyBatch<'_>,
) -> anyhow::Result<f64> {
    let warm = keys.len() / 10;
    fold(rules, cache, keys.slice(0, warm))?;
    let before = cache.stats();
    fold(rules, cache, keys.slice(warm, keys.len()))?;
    let after = cache.stats();
    Ok((after.hits - before.hits) as f64 / (keys.len() - warm).max(1) as f64)
}
