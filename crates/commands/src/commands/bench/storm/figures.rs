//! Throughput: figures 6 and 7, tables 5 and 6, and the design choices.

use std::time::{Duration, Instant};

use serde::Serialize;
use warpswitch_flow::choices::{Copies, Sampling};
use warpswitch_flow::evolving::Growth;
use warpswitch_flow::model::Delays;
use warpswitch_flow::{Partition, StormCache, StormOptions};
use warpswitch_rules::KeyBuf;

use super::defs::{Experiments, RulesUnderTest};
use super::hits::{check, steady_hit_ratio};
use super::router::{Bench, Layout, Pace, RunCounts, Watch};
use super::traffic::{Clock, Traffic};
use crate::human::rounded;
use crate::term::Progress;

/// Cache sizes of table 5.
const CACHE_SIZES: [usize; 5] = [10, 15, 20, 25, 30];
/// The cache size of all other experiments.
pub const CACHE_SIZE: usize = 20;
/// Hit ratio at the end of the warm-up.
const WARM: f64 = 0.9;

/// How long and how exactly to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Packets of a trace in memory.
    pub keys: usize,
    /// Time of one run.
    pub time: Duration,
    /// Halvings of the range of rates.
    pub steps: usize,
    /// Searches of a rate in figures 6 and 7, whose medians count.
    pub searches: usize,
    /// Rule sets, from R1 on, and cases of the cost gate.
    pub rulesets: usize,
    /// Most rules of a case.
    pub rules_max: usize,
    /// Rounds of a comparison.
    pub rounds: usize,
    /// Packets that the receive queue of a worker holds.
    pub queue_len: usize,
}

/// A throughput.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    pub ruleset: String,
    pub layout: String,
    pub threads: usize,
    /// Million packets a second at the highest rate without loss; none if there was loss at all.
    pub mpps: Option<f64>,
    pub gbps: Option<f64>,
    /// Million packets a second where workers wait for room.
    pub waiting_mpps: f64,
    /// Both rates by those of the copies of the engine on all threads.
    pub times_copies: Option<f64>,
    pub waiting_times: Option<f64>,
    pub hit_ratio: Option<f64>,
}

/// The model's prediction beside the best partition found.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    pub ruleset: String,
    /// Measured times of a key, and the hit ratio.
    pub cache_ns: f64,
    pub full_ns: f64,
    pub hit_ratio: f64,
    pub model: String,
    pub model_mpps: Option<f64>,
    pub model_waiting_mpps: f64,
    pub best: String,
    pub best_mpps: Option<f64>,
    pub best_waiting_mpps: f64,
    /// The model's partition by the copies of the engine.
    pub model_times_copies: Option<f64>,
    pub model_waiting_times: Option<f64>,
}

/// A row of table 5.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CacheSize {
    pub cached_rules: usize,
    /// Nanoseconds per packet: 1 / throughput.
    pub ns_per_packet: f64,
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
    pub copies: &'static str,
    pub samples: &'static str,
    /// To the next sample, or ahead of samples.
    pub growth: &'static str,
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
    /// Threads of a router.
    pub threads: usize,
    /// When traces that move with the time began.
    pub began: Instant,
    pub progress: &'a Progress,
}

/// A rule set with the first trace.
pub struct Input {
    pub rules: RulesUnderTest,
    pub keys: KeyBuf,
}

impl Lab<'_> {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = self.experiments.rulesets.iter().take(self.effort.rulesets);
        all.map(|def| def.name.as_str())
    }

    /// A rule set with the first trace; answers of a cache have been checked on a part of it.
    pub fn input(&self, name: &str) -> anyhow::Result<Input> {
        self.progress.say(format!("{name}: rules"));
        let rules = self.experiments.rules(name, self.threads)?;
        let keys = self.experiments.traces[0].keys(&rules.ruleset, self.effort.keys)?;
        check(&rules, keys.as_batch())?;
        Ok(Input { rules, keys })
    }

    /// Workers of partitions: two threads less than there are copies, as in the paper 4-2-1 beside
    /// eight copies; at least 2.
    pub fn workers(&self) -> usize {
        self.threads.saturating_sub(2).max(2)
    }

    /// All partitions, from few cache workers to many.
    fn partitions(&self) -> impl Iterator<Item = Partition> {
        let workers = self.workers();
        (1..workers).map(move |cache| Partition::of(cache, workers - cache))
    }

    /// Two cache workers for each full one: 4-2-1.
    pub fn usual_partition(&self) -> Partition {
        let full = (self.workers() / 3).max(1);
        Partition::of(self.workers() - full, full)
    }

    pub fn bench<'a>(
        &'a self,
        input: &'a Input,
        layout: Layout,
        cache: &'a StormCache,
    ) -> Bench<'a> {
        let cache = (!matches!(layout, Layout::Plain(_))).then_some(cache);
        Bench {
            experiments: self.experiments,
            rules: &input.rules,
            traffic: [self.by_time(&input.keys); 2],
            queue_len: self.effort.queue_len,
            layout,
            cache,
        }
    }

    /// A trace with popular rules, which moves on with the time.
    pub fn by_time<'a>(&self, keys: &'a KeyBuf) -> Traffic<'a> {
        let keys_per_ms = self.experiments.keys_per_ms;
        Traffic::by_time(keys, Clock { began: self.began, keys_per_ms })
    }

    /// The throughput of layouts, searched in turns: medians, and the run without pace whose rate
    /// is the median.
    fn throughputs(&self, input: &Input, layouts: &[Layout]) -> Vec<(Throughput, RunCounts)> {
        let caches: Vec<StormCache> =
            layouts.iter().map(|_| input.rules.cache(CACHE_SIZE)).collect();
        let mut found = vec![Vec::new(); layouts.len()];
        for _ in 0..self.effort.searches {
            for ((layout, cache), found) in layouts.iter().zip(&caches).zip(&mut found) {
                self.progress.say(format!("{}: {}", input.rules.name, layout.name()));
                let bench = self.bench(input, *layout, cache);
                found.push(bench.throughput(self.effort.time, self.effort.steps));
            }
        }
        let all = layouts.iter().zip(&caches).zip(found);
        all.map(|((layout, cache), found)| self.median(input, *layout, cache, found)).collect()
    }

    fn median(
        &self,
        input: &Input,
        layout: Layout,
        cache: &StormCache,
        mut found: Vec<(Option<f64>, RunCounts)>,
    ) -> (Throughput, RunCounts) {
        found.sort_by(|(_, a), (_, b)| a.rate().total_cmp(&b.rate()));
        let flat = found[found.len() / 2].1;
        // None is the lowest.
        found.sort_by(|(a, _), (b, _)| a.partial_cmp(b).expect("a rate is a number"));
        let rate = found[found.len() / 2].0;
        let bits = 8.0 * self.experiments.frame_bytes as f64;
        let has_cache = !matches!(layout, Layout::Plain(_));
        let throughput = Throughput {
            ruleset: input.rules.name.clone(),
            layout: layout.name(),
            threads: layout.workers() + usize::from(layout.has_updater()),
            mpps: rate.map(|rate| rounded(rate / 1e6, 4)),
            gbps: rate.map(|rate| rounded(rate * bits / 1e9, 3)),
            waiting_mpps: rounded(flat.rate() / 1e6, 4),
            times_copies: None,
            waiting_times: None,
            hit_ratio: has_cache.then(|| rounded(cache.stats().hit_ratio(), 4)),
        };
        (throughput, flat)
    }

    /// Figure 6: throughput by rule set and layout, and the model's prediction.
    ///
    /// # Errors
    /// A bad definition, or answers of the cache that differ from those of the engine.
    pub fn figure_6(&self) -> anyhow::Result<(Vec<Throughput>, Vec<Prediction>)> {
        let (mut all, mut predictions) = (Vec::new(), Vec::new());
        for name in self.names() {
            let input = self.input(name)?;
            let workers = self.workers();
            let middle = Partition::of(workers.div_ceil(2), workers / 2);
            let one = (self.threads > 1).then_some(Layout::Plain(1));
            let whole =
                [Layout::Plain(self.threads), Layout::Fold(self.threads), Layout::Dynamic(middle)];
            let copies = one.iter().len();
            let partitions = copies + whole.len();
            let layouts: Vec<Layout> =
                one.into_iter().chain(whole).chain(self.partitions().map(Layout::Static)).collect();
            let (mut rows, flats): (Vec<_>, Vec<_>) =
                self.throughputs(&input, &layouts).into_iter().unzip();
            compare(&mut rows, copies);
            let of_middle = layouts.iter().position(|l| *l == Layout::Static(middle));
            if let Some(delays) = of_middle.and_then(|at| flats[at].delays) {
                let model = delays.propose(workers);
                predictions.push(predict(&rows[partitions..], &delays, model));
            }
            all.extend(rows);
        }
        Ok((all, predictions))
    }

    /// Figure 7: throughput by number of threads.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn figure_7(&self) -> anyhow::Result<Vec<Throughput>> {
        let sizes: Vec<usize> =
            [1, 2, 4, 8, 16].into_iter().filter(|size| *size <= self.threads.max(2)).collect();
        let halves = sizes.iter().filter(|size| **size > 1).map(|size| size / 2);
        let mut layouts: Vec<Layout> = sizes.iter().map(|size| Layout::Fold(*size)).collect();
        layouts.extend(halves.map(|half| Layout::Static(Partition::of(half, half))));
        let mut all = Vec::new();
        for name in self.names() {
            let input = self.input(name)?;
            all.extend(self.throughputs(&input, &layouts).into_iter().map(|(row, _)| row));
        }
        Ok(all)
    }

    /// Table 5: delay and hit ratio of R3 by the size of the cache.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn table_5(&self) -> anyhow::Result<Vec<CacheSize>> {
        let input = self.input("R3")?;
        let layout = Layout::Static(self.usual_partition());
        let row = |cached_rules| {
            self.progress.say(format!("{cached_rules} cached rules"));
            let keys = input.keys.as_batch();
            let hit_ratio = steady_hit_ratio(&input.rules, &input.rules.cache(cached_rules), keys)?;
            let cache = input.rules.cache(cached_rules);
            let bench = self.bench(&input, layout, &cache);
            let (found, flat) = bench.throughput(self.effort.time, self.effort.steps);
            let ns_per_packet = rounded(1e9 / found.unwrap_or(flat.rate()).max(1.0), 2);
            Ok(CacheSize { cached_rules, ns_per_packet, hit_ratio: rounded(hit_ratio, 4) })
        };
        CACHE_SIZES.into_iter().map(row).collect()
    }

    /// Table 6: time from an empty cache to a hit ratio of nine in ten, as fast as queues allow.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn table_6(&self) -> anyhow::Result<Vec<WarmUp>> {
        let mut all = Vec::new();
        for name in self.names() {
            let input = self.input(name)?;
            let layouts = [Layout::Static(self.usual_partition()), Layout::Fold(self.threads)];
            for layout in layouts {
                self.progress.say(format!("warm-up of {name}, {}", layout.name()));
                let ms = self.warm_up(&input, layout);
                let (ruleset, layout) = (name.to_owned(), layout.name());
                all.push(WarmUp { ruleset, layout, ms: ms.map(|ms| rounded(ms, 2)) });
            }
        }
        Ok(all)
    }

    fn warm_up(&self, input: &Input, layout: Layout) -> Option<f64> {
        let cache = input.rules.cache(CACHE_SIZE);
        let (mut seen, mut warm) = ((0, 0), None);
        let mut watch = |now: Duration| {
            let counts = cache.counts();
            let (hits, misses) = (counts.0 - seen.0, counts.1 - seen.1);
            seen = counts;
            if hits + misses > 0 && hits as f64 >= WARM * (hits + misses) as f64 {
                warm = Some(now.as_secs_f64() * 1e3);
                return Watch::End;
            }
            Watch::On
        };
        self.bench(input, layout, &cache).run(Pace::Flat, 10 * self.effort.time, &mut watch);
        warm
    }

    /// One copy of the list against two, a queue of samples against one slot, growth to the sample
    /// against growth ahead, for R3.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn choices(&self) -> anyhow::Result<Vec<Choice>> {
        let input = self.input("R3")?;
        let layout = Layout::Static(self.usual_partition());
        let all = [
            (Copies::Two, Sampling::Slot, Growth::Ahead),
            (Copies::One, Sampling::Slot, Growth::Ahead),
            (Copies::Two, Sampling::Queue, Growth::Ahead),
            (Copies::Two, Sampling::Slot, Growth::ToSample),
        ];
        let measure = |(copies, sampling, growth)| {
            let options = StormOptions { copies, sampling, growth, ..StormOptions::default() };
            let cache = input.rules.cache_with(&options);
            let bench = self.bench(&input, layout, &cache);
            let (found, flat) = bench.throughput(self.effort.time, self.effort.steps);
            Choice {
                copies: if copies == Copies::One { "one" } else { "two" },
                samples: if sampling == Sampling::Slot { "slot" } else { "queue" },
                growth: if growth == Growth::Ahead { "ahead" } else { "to sample" },
                mpps: found.map(|rate| rounded(rate / 1e6, 4)),
                waiting_mpps: rounded(flat.rate() / 1e6, 4),
                hit_ratio: rounded(cache.stats().hit_ratio(), 4),
            }
        };
        Ok(all.into_iter().map(measure).collect())
    }
}

/// Fills in the ratios to the row of the copies.
fn compare(rows: &mut [Throughput], copies: usize) {
    let (mpps, waiting) = (rows[copies].mpps, rows[copies].waiting_mpps);
    for row in rows {
        row.times_copies = row.mpps.zip(mpps).map(|(row, copies)| rounded(row / copies, 3));
        row.waiting_times = (waiting > 0.0).then(|| rounded(row.waiting_mpps / waiting, 3));
    }
}

/// The prediction beside the best of the measured partitions.
fn predict(rows: &[Throughput], delays: &Delays, model: Partition) -> Prediction {
    let name = Layout::Static(model).name();
    let of_model = rows.iter().find(|row| row.layout == name).unwrap_or(&rows[0]);
    let rate = |row: &&Throughput| row.mpps.unwrap_or_default();
    let best = rows.iter().max_by(|a, b| rate(a).total_cmp(&rate(b))).unwrap_or(of_model);
    Prediction {
        ruleset: best.ruleset.clone(),
        cache_ns: rounded(delays.cache_ns, 2),
        full_ns: rounded(delays.full_ns, 2),
        hit_ratio: rounded(delays.hit_ratio, 4),
        model: model.to_string(),
        model_mpps: of_model.mpps,
        model_waiting_mpps: of_model.waiting_mpps,
        best: best.layout.clone(),
        best_mpps: best.mpps,
        best_waiting_mpps: best.waiting_mpps,
        model_times_copies: of_model.times_copies,
        model_waiting_times: of_model.waiting_times,
    }
}
