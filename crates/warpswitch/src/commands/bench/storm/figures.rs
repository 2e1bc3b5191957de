//! The figures and tables of the paper, measured here.

use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Serialize;
use warpswitch_flow::choices::{Copies, Sampling};
use warpswitch_flow::{Answer, Partition, StormCache, StormOptions};
use warpswitch_rules::{KeyBatch, RuleId};

use super::defs::{Experiments, RulesUnderTest};
use super::router::{Bench, Layout, Pace};
use crate::human::rounded;
use crate::term::Progress;

/// Keys of a lookup where one thread does everything.
const FOLD_KEYS: usize = 256;
/// Cache sizes of table 5.
const CACHE_SIZES: [usize; 5] = [10, 15, 20, 25, 30];
/// The cache size of all other experiments.
const CACHE_SIZE: usize = 20;
/// Hit ratio at the end of the warm-up.
const WARM: f64 = 0.9;
/// Packets that figure 10 samples.
const SAMPLED: usize = 1000;

/// How long and how exactly to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Packets of a trace in memory.
    pub keys: usize,
    /// Time of one run.
    pub time: Duration,
    /// Halvings of the range of rates.
    pub steps: usize,
    /// Rule sets, from R1 on.
    pub rulesets: usize,
}

/// A throughput.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    pub ruleset: String,
    pub layout: String,
    /// Million packets a second at the highest rate without loss; none if there was loss at all.
    pub mpps: Option<f64>,
    pub gbps: Option<f64>,
    /// Million packets a second with a source that waits for room.
    pub waiting_mpps: f64,
}

/// A hit ratio.
#[derive(Clone, Debug, Serialize)]
pub struct HitRatio {
    pub ruleset: String,
    pub trace: String,
    pub hit_ratio: f64,
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

/// A row of table 5.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CacheSize {
    pub cached_rules: usize,
    /// Nanoseconds per packet: 1 / throughput.
    pub delay_ns: f64,
    pub hit_ratio: f64,
}

/// A cell of table 6.
#[derive(Clone, Debug, Serialize)]
pub struct WarmUp {
    pub ruleset: String,
    pub layout: String,
    /// Time until nine keys in ten hit; none if they do not in the time of a run.
    pub ms: Option<f64>,
}

/// A design choice of the cache.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Choice {
    pub copies: usize,
    pub sampling: &'static str,
    /// Million packets a second at the highest rate without loss.
    pub mpps: Option<f64>,
    pub waiting_mpps: f64,
    /// Of all runs.
    pub hit_ratio: f64,
}

/// Measures, and reports progress.
pub struct Lab<'a> {
    pub experiments: &'a Experiments,
    pub effort: Effort,
    /// Threads for workers, the updater and the source.
    pub threads: usize,
    pub progress: &'a Progress,
}

impl Lab<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.experiments.rulesets.iter().take(self.effort.rulesets);
        all.map(|def| def.name.as_str())
    }

    /// Workers beside the updater and the source, at least 2.
    fn workers(&self) -> usize {
        self.threads.saturating_sub(2).max(2)
    }

    /// Partitions as 4-2-1, 3-3-1 and 2-4-1 of 6 workers.
    fn partitions(&self) -> Vec<Partition> {
        let workers = self.workers();
        let third = (workers / 3).max(1);
        let mut all = Vec::new();
        for cache in [third, workers / 2, workers - third] {
            let partition = Partition::of(cache, workers - cache);
            if !all.contains(&partition) {
                all.push(partition);
            }
        }
        all
    }

    /// Figure 6: throughput by rule set and layout.
    ///
    /// # Errors
    /// A bad definition, or answers of the cache that differ from those of the engine.
    pub fn figure_6(&self) -> anyhow::Result<Vec<Throughput>> {
        let mut layouts = vec![Layout::Plain(1), Layout::Plain(self.workers() + 1)];
        layouts.extend(self.partitions().into_iter().map(Layout::Static));
        layouts
            .push(Layout::Dynamic(Partition::of(self.workers().div_ceil(2), self.workers() / 2)));
        self.throughputs(&layouts)
    }

    /// Figure 7: throughput with as many threads as there are, and with fewer.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn figure_7(&self) -> anyhow::Result<Vec<Throughput>> {
        let halves =
            [1, 2, 4, 8].into_iter().filter(|half| *half == 1 || 2 * half <= self.workers());
        let layouts: Vec<Layout> =
            halves.map(|half| Layout::Static(Partition::of(half, half))).collect();
        self.throughputs(&layouts)
    }

    fn throughputs(&self, layouts: &[Layout]) -> anyhow::Result<Vec<Throughput>> {
        let mut all = Vec::new();
        for name in self.names() {
            let rules = self.experiments.rules(name)?;
            let keys =
                self.experiments.keys(&self.experiments.traces[0], &rules, self.effort.keys)?;
            check(&rules, keys.as_batch())?;
            for &layout in layouts {
                self.progress.say(format!("{name}: {}", layout.name()));
                let cache = rules.cache(CACHE_SIZE);
                let cache = (!matches!(layout, Layout::Plain(_))).then_some(&cache);
                let bench = Bench {
                    experiments: self.experiments,
                    rules: &rules,
                    keys: &keys,
                    layout,
                    cache,
                };
                let (found, waiting) = bench.throughput(self.effort.time, self.effort.steps);
                let bits = 8.0 * self.experiments.frame_bytes as f64;
                all.push(Throughput {
                    ruleset: name.to_owned(),
                    layout: layout.name(),
                    mpps: found.map(|rate| rounded(rate / 1e6, 4)),
                    gbps: found.map(|rate| rounded(rate * bits / 1e9, 3)),
                    waiting_mpps: rounded(waiting / 1e6, 4),
                });
            }
        }
        Ok(all)
    }

    /// Figure 8: the hit ratio of R3 from the first packet on, at a nominal rate.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn figure_8(&self) -> anyhow::Result<Vec<Moment>> {
        let rules = self.experiments.rules("R3")?;
        let keys = self.experiments.keys(&self.experiments.traces[0], &rules, self.effort.keys)?;
        let cache = rules.cache(CACHE_SIZE);
        let mut moments = Vec::new();
        let step = self.experiments.keys_per_ms.min(keys.len()).max(1);
        for (at, start) in (0..keys.len() + 1 - step).step_by(step).enumerate() {
            let before = cache.stats();
            fold(&rules, &cache, keys.as_batch().slice(start, start + step))?;
            let hits = cache.stats().hits - before.hits;
            moments.push(Moment { ms: at + 1, hit_ratio: rounded(hits as f64 / step as f64, 4) });
        }
        Ok(moments)
    }

    /// Figure 9: hit ratios of all rule sets and traces, without the first tenth.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn figure_9(&self) -> anyhow::Result<Vec<HitRatio>> {
        let mut all = Vec::new();
        for name in self.names() {
            let rules = self.experiments.rules(name)?;
            for trace in &self.experiments.traces {
                self.progress.say(format!("hit ratio of {name} and {}", trace.name));
                let keys = self.experiments.keys(trace, &rules, self.effort.keys)?;
                let hit_ratio =
                    steady_hit_ratio(&rules, &rules.cache(CACHE_SIZE), keys.as_batch())?;
                let (ruleset, trace) = (name.to_owned(), trace.name.clone());
                all.push(HitRatio { ruleset, trace, hit_ratio: rounded(hit_ratio, 4) });
            }
        }
        Ok(all)
    }

    /// Figure 10: cached rules that a search in order compares, for sampled packets of R2.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn figure_10(&self) -> anyhow::Result<Vec<Compared>> {
        let rules = self.experiments.rules("R2")?;
        let keys = self.experiments.keys(&self.experiments.traces[0], &rules, self.effort.keys)?;
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

    /// Table 5: delay and hit ratio of R3 by the size of the cache.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn table_5(&self) -> anyhow::Result<Vec<CacheSize>> {
        let rules = self.experiments.rules("R3")?;
        let keys = self.experiments.keys(&self.experiments.traces[0], &rules, self.effort.keys)?;
        let layout = Layout::Static(self.partitions().pop().unwrap_or(Partition::of(1, 1)));
        let row = |cached_rules| {
            self.progress.say(format!("{cached_rules} cached rules"));
            let hit_ratio = steady_hit_ratio(&rules, &rules.cache(cached_rules), keys.as_batch())?;
            let cache = rules.cache(cached_rules);
            let cache = Some(&cache);
            let bench =
                Bench { experiments: self.experiments, rules: &rules, keys: &keys, layout, cache };
            let (found, waiting) = bench.throughput(self.effort.time, self.effort.steps);
            let delay_ns = rounded(1e9 / found.unwrap_or(waiting).max(1.0), 2);
            Ok(CacheSize { cached_rules, delay_ns, hit_ratio: rounded(hit_ratio, 4) })
        };
        CACHE_SIZES.into_iter().map(row).collect()
    }

    /// Table 6: time from an empty cache to a hit ratio of nine in ten, as fast as queues allow.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn table_6(&self) -> anyhow::Result<Vec<WarmUp>> {
        let mut all = Vec::new();
        let partitions = self.partitions();
        let ends = partitions
            .first()
            .into_iter()
            .chain(partitions.last().filter(|_| partitions.len() > 1));
        for name in self.names() {
            let rules = self.experiments.rules(name)?;
            let keys =
                self.experiments.keys(&self.experiments.traces[0], &rules, self.effort.keys)?;
            for partition in ends.clone() {
                let layout = Layout::Static(*partition);
                self.progress.say(format!("warm-up of {name}, {}", layout.name()));
                let ms = self.warm_up(&rules, &keys, layout);
                let (ruleset, layout) = (name.to_owned(), layout.name());
                all.push(WarmUp { ruleset, layout, ms: ms.map(|ms| rounded(ms, 2)) });
            }
        }
        Ok(all)
    }

    /// One copy of the list against two, a queue of samples against one slot, for R3.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn choices(&self) -> anyhow::Result<Vec<Choice>> {
        let rules = self.experiments.rules("R3")?;
        let keys = self.experiments.keys(&self.experiments.traces[0], &rules, self.effort.keys)?;
        check(&rules, keys.as_batch())?;
        let layout = Layout::Static(self.partitions().pop().unwrap_or(Partition::of(1, 1)));
        let all = [
            (Copies::Two, Sampling::Slot),
            (Copies::One, Sampling::Slot),
            (Copies::Two, Sampling::Queue),
        ];
        let measure = |(copies, sampling)| {
            let cache =
                rules.cache_with(&StormOptions { copies, sampling, ..StormOptions::default() });
            let (experiments, rules, keys) = (self.experiments, &rules, &keys);
            let bench = Bench { experiments, rules, keys, layout, cache: Some(&cache) };
            let (found, waiting) = bench.throughput(self.effort.time, self.effort.steps);
            Choice {
                copies: if copies == Copies::One { 1 } else { 2 },
                sampling: if sampling == Sampling::Slot { "slot" } else { "queue" },
                mpps: found.map(|rate| rounded(rate / 1e6, 4)),
                waiting_mpps: rounded(waiting / 1e6, 4),
                hit_ratio: rounded(cache.stats().hit_ratio(), 4),
            }
        };
        Ok(all.into_iter().map(measure).collect())
    }

    fn warm_up(
        &self,
        rules: &RulesUnderTest,
        keys: &warpswitch_rules::KeyBuf,
        layout: Layout,
    ) -> Option<f64> {
        let cache = rules.cache(CACHE_SIZE);
        let began = Instant::now();
        let seen = std::sync::Mutex::new((0, 0, None));
        let watch = || {
            let stats = cache.counts();
            let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (hits, misses) = (stats.0 - seen.0, stats.1 - seen.1);
            if hits + misses < 4096 {
                return false;
            }
            let is_warm = hits as f64 >= WARM * (hits + misses) as f64;
            *seen = (stats.0, stats.1, is_warm.then(|| began.elapsed()));
            is_warm
        };
        let bench =
            Bench { experiments: self.experiments, rules, keys, layout, cache: Some(&cache) };
        bench.run(Pace::Flat, 10 * self.effort.time, &watch);
        let seen = seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        seen.2.map(|time| time.as_secs_f64() * 1e3)
    }
}

/// Compares a part of a trace under the cache with the engine alone.
fn check(rules: &RulesUnderTest, keys: KeyBatch<'_>) -> anyhow::Result<()> {
    fold(rules, &rules.cache(CACHE_SIZE), keys.slice(0, keys.len().min(100_000)))
}

/// Looks keys up as one thread that does everything, and checks the answers of hits.
fn fold(rules: &RulesUnderTest, cache: &StormCache, keys: KeyBatch<'_>) -> anyhow::Result<()> {
    let mut out = [Answer::MISS; FOLD_KEYS];
    let mut winners = [RuleId::NONE; FOLD_KEYS];
    for start in (0..keys.len()).step_by(FOLD_KEYS) {
        let batch = keys.slice(start, keys.len().min(start + FOLD_KEYS));
        cache.lookup(&*rules.full, batch, &mut out, |answer| answer, |id| rules.answer(id));
        cache.sample_batch(batch, true);
        rules.full.classify(batch, &mut winners);
        for (at, key) in batch.iter().enumerate() {
            let (found, expected) = (out[at], rules.answer(winners[at]));
            ensure!(found == expected, "{}: {key:x?} has {found:?}, not {expected:?}", rules.name);
        }
    }
    Ok(())
}

fn steady_hit_ratio(
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
