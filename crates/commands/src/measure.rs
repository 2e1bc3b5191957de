//! How fast an engine answers: rates and times per lookup.
//!
//! Every thread is pinned, walks through the trace in batches from a place of its own, and starts
//! again at its end. A *run* lasts a fixed time; a clock is read every few batches only, so that
//! reading it costs nothing that could be seen. First a run that is not counted warms caches and
//! branch predictors up, then come the runs whose median is the rate, and at last one in which
//! each batch is timed: its time divided by its keys is one sample of the time per lookup. So p50
//! and p99 are over batches, not over single lookups, which overlap within a batch.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use warpswitch_classify::Classifier;
use warpswitch_rules::{KeyBatch, RuleId};

use crate::threads;

/// The clock is read about this often.
const CLOCK_EVERY: Duration = Duration::from_micros(50);

/// Samples of one thread that are kept; a run that would pass it ends.
const SAMPLES_MAX: usize = 4 << 20;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct MeasureOptions {
    /// Threads that look up at once.
    pub threads: usize,
    /// Keys in a batch.
    pub batch_len: usize,
    /// Counted runs.
    pub runs: usize,
    /// How long each lasts.
    pub run_time: Duration,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Lookups per second of each counted run, all threads together, in ascending order.
    pub rates: Vec<f64>,
    /// Nanoseconds per lookup, over batches: the median.
    pub p50_ns: f64,
    /// The same: 99 in 100 batches are faster.
    pub p99_ns: f64,
}

impl Measurement {
    /// Median lookups per second.
    pub fn rate(&self) -> f64 {
        median(&self.rates)
    }
}

/// Lookups of one thread in one run.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    /// Lookups.
    pub lookups: u64,
    /// Time that they took.
    pub time: Duration,
}

impl Lap {
    /// Lookups per second.
    pub fn rate(&self) -> f64 {
        self.lookups as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// Measures `classifier` on `keys`; `progress` gets the rate of each run as it ends.
///
/// # Panics
/// If there are no keys: a caller bug, commands refuse empty traces.
pub fn measure(
    classifier: &dyn Classifier,
    keys: KeyBatch<'_>,
    options: &MeasureOptions,
    progress: &(dyn Fn(f64) + Sync),
) -> Measurement {
    let barrier = Barrier::new(options.threads);
    let per_thread: Vec<(Vec<Lap>, Vec<u32>)> = thread::scope(|scope| {
        let spawn = |idx: usize| {
            let barrier = &barrier;
            scope.spawn(move || {
                threads::pin(idx);
                let mut walk = Walk::new(classifier, keys, options, idx);
                barrier.wait();
                walk.lap(options.run_time);
                let mut laps = Vec::new();
                for _ in 0..options.runs {
                    barrier.wait();
                    let lap = walk.lap(options.run_time);
                    if idx == 0 {
                        progress(lap.rate() * options.threads as f64);
                    }
                    laps.push(lap);
                }
                barrier.wait();
                (laps, walk.samples(options.run_time))
            })
        };
        let handles: Vec<_> = (0..options.threads).map(spawn).collect();
        let join = |handle: thread::ScopedJoinHandle<'_, _>| handle.join();
        handles.into_iter().map(|h| join(h).expect("a measuring thread panicked")).collect()
    });
    let mut rates: Vec<f64> = (0..options.runs)
        .map(|run| per_thread.iter().map(|(laps, _)| laps[run].rate()).sum())
        .collect();
    rates.sort_by(f64::total_cmp);
    let mut samples: Vec<u32> = per_thread.into_iter().flat_map(|(_, samples)| samples).collect();
    samples.sort_unstable();
    let at = |part: f64| {
        let idx = ((samples.len() - 1) as f64 * part).round() as usize;
        f64::from(samples[idx]) / 1e3
    };
    Measurement { rates, p50_ns: at(0.5), p99_ns: at(0.99) }
}

/// The middle of an ascending list; the mean of both middles if there are two.
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// One thread's endless walk through a trace.
pub struct Walk<'a> {
    classifier: &'a dyn Classifier,
    keys: KeyBatch<'a>,
    batch_len: usize,
    cursor: usize,
    answers: Vec<RuleId>,
    /// Batches between two looks at the clock.
    stride: usize,
}

impl<'a> Walk<'a> {
    /// The walk of thread `idx`, which starts in its own part of the trace.
    pub fn new(
        classifier: &'a dyn Classifier,
        keys: KeyBatch<'a>,
        options: &MeasureOptions,
        idx: usize,
    ) -> Self {
        assert!(!keys.is_empty(), "nothing to measure");
        let batch_len = options.batch_len.min(keys.len());
        let cursor = keys.len() / options.threads * idx;
        let answers = vec![RuleId::NONE; batch_len];
        Self { classifier, keys, batch_len, cursor, answers, stride: 1 }
    }

    /// Looks keys up for `time`, at least one batch.
    pub fn lap(&mut self, time: Duration) -> Lap {
        let start = Instant::now();
        let (mut lookups, mut last) = (0, Duration::ZERO);
        loop {
            for _ in 0..self.stride {
                lookups += self.step();
            }
            let now = start.elapsed();
            if now >= time {
                return Lap { lookups, time: now };
            }
            if now - last < CLOCK_EVERY / 2 {
                self.stride *= 2;
            } else if now - last > CLOCK_EVERY * 2 {
                self.stride = (self.stride / 2).max(1);
            }
            last = now;
        }
    }

    /// Times each batch for `time`: picoseconds per lookup.
    fn samples(&mut self, time: Duration) -> Vec<u32> {
        let mut samples = Vec::new();
        let start = Instant::now();
        let mut last = start;
        while last - start < time && samples.len() < SAMPLES_MAX {
            let lookups = self.step();
            let now = Instant::now();
            let picoseconds = (now - last).as_nanos() as u64 * 1000 / lookups;
            samples.push(u32::try_from(picoseconds).unwrap_or(u32::MAX));
            last = now;
        }
        samples
    }

    /// Looks up one batch and returns its length.
    fn step(&mut self) -> u64 {
        let end = (self.cursor + self.batch_len).min(self.keys.len());
        let batch = self.keys.slice(self.cursor, end);
        self.cursor = if end == self.keys.len() { 0 } else { end };
        self.classifier.classify(batch, &mut self.answers);
        std::hint::black_box(&mut self.answers);
        batch.len() as u64
    }
}

/// Classifies all of `keys` with all `threads`; `progress` gets the keys done by the first.
pub fn classify_all(
    classifier: &dyn Classifier,
    keys: KeyBatch<'_>,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<RuleId> {
    let mut answers = vec![RuleId::NONE; keys.len()];
    answer_all(keys, threads, &mut answers, progress, &|keys, answers| {
        classifier.classify(keys, answers);
    });
    answers
}

/// Keys that a thread takes at once: little for the slow reference, whose progress is to be seen.
const PIECE_KEYS: usize = 2048;

/// Answers all of `keys` piece by piece with all `threads`.
pub fn answer_all(
    keys: KeyBatch<'_>,
    threads: usize,
    answers: &mut [RuleId],
    progress: &(dyn Fn(u64) + Sync),
    answer: &(dyn Fn(KeyBatch<'_>, &mut [RuleId]) + Sync),
) {
    let per_thread = keys.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        for (idx, part) in answers.chunks_mut(per_thread).enumerate() {
            scope.spawn(move || {
                threads::pin(idx);
                let start = idx * per_thread;
                for (piece, out) in part.chunks_mut(PIECE_KEYS).enumerate() {
                    let at = start + piece * PIECE_KEYS;
                    answer(keys.slice(at, at + out.len()), out);
                    if idx == 0 {
                        progress(((at + out.len()) * threads) as u64);
                    }
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_classify::{BuildOptions, Engine, build};
    use warpswitch_rules::schema::IPV4_5TUPLE;
    use warpswitch_rules::{Action, KeyBuf, Match, Rule, RulesetBuilder};

    #[test]
    fn a_walk_covers_the_trace_and_comes_back() {
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        builder.push(Rule::new(Match::any(&IPV4_5TUPLE), Action::Pass));
        let ruleset = builder.build();
        let classifier = build(Engine::Linear, &ruleset, &BuildOptions::default()).unwrap();
        let mut keys = KeyBuf::new(&IPV4_5TUPLE);
        for idx in 0..5000 {
            keys.push(&[idx, 0, 0, 0]);
        }
        let run_time = Duration::from_millis(2);
        let options = MeasureOptions { threads: 2, batch_len: 256, runs: 3, run_time };
        let mut walk = Walk::new(classifier.as_ref(), keys.as_batch(), &options, 0);
        let steps: Vec<u64> = (0..20).map(|_| walk.step()).collect();
        assert_eq!(steps.iter().sum::<u64>(), 5000);
        assert_eq!(walk.cursor, 0);
        let measured = measure(classifier.as_ref(), keys.as_batch(), &options, &|_| {});
        assert_eq!(measured.rates.len(), 3);
        assert!(measured.rate() > 0.0 && measured.p50_ns <= measured.p99_ns);
        let answers = classify_all(classifier.as_ref(), keys.as_batch(), 3, &|_| {});
        assert_eq!(answers, vec![RuleId(0); 5000]);
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
    }
}
