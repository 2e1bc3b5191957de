//! A shift of traffic that makes the cache worthless, and traffic that never hits.

use std::time::Duration;

use serde::Serialize;
use warpswitch_flow::StormCache;

use super::defs::spread_keys;
use super::figures::{CACHE_SIZE, Lab};
use super::hits::HIGH;
use super::router::{Bench, Layout, Pace, RunCounts, Watch};
use super::traffic::Traffic;
use crate::human::rounded;

/// Share of the lower rate at which a shift must lose nothing.
const SAFE: f64 = 0.8;

/// Shifts of each layout.
const RUNS: usize = 3;

/// A shift in the middle of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ShiftRow {
    pub ruleset: String,
    pub layout: String,
    /// Of [`RUNS`], each with a cache that starts empty.
    pub run: usize,
    /// Highest rate without loss of traffic that mostly misses, and with a warm cache.
    pub missing_mpps: Option<f64>,
    pub warm_mpps: Option<f64>,
    /// Rate of the run: 0.8 of the lower one.
    pub offered_mpps: f64,
    pub lost: u64,
    /// Time without the core that does not count, all workers together.
    pub interrupted_ms: f64,
    pub hits_before: f64,
    /// In the first millisecond after the shift.
    pub hits_at_shift: f64,
    /// From the shift to the first millisecond in which 95 % of the packets hit.
    pub ms_to_95: Option<f64>,
}

impl Lab<'_> {
    /// Shifts of the first, the middle and the last rule set, with roles and folded.
    ///
    /// # Errors
    /// As [`Lab::figure_6`].
    pub fn shifts(&self) -> anyhow::Result<Vec<ShiftRow>> {
        let names: Vec<&str> = self.names().collect();
        let mut chosen = vec![names[0], names[names.len() / 2], names[names.len() - 1]];
        chosen.dedup();
        let mut all = Vec::new();
        for name in chosen {
            for layout in [Layout::Static(self.usual_partition()), Layout::Fold(self.threads)] {
                all.extend(self.shift(name, layout)?);
            }
        }
        Ok(all)
    }

    fn shift(&self, name: &str, layout: Layout) -> anyhow::Result<Vec<ShiftRow>> {
        let input = self.input(name)?;
        self.progress.say(format!("shift of {name}: {}", layout.name()));
        let (time, steps) = (self.effort.time, self.effort.steps);
        let ruleset = &input.rules.ruleset;
        // Other hot rules of the same law.
        let other = &self.experiments.traces[1 % self.experiments.traces.len()];
        let other = other.keys(ruleset, self.effort.keys)?;
        let missing = spread_keys(ruleset, self.effort.keys, 1);
        let rate = |traffic| {
            let cache = input.rules.cache(CACHE_SIZE);
            let bench = Bench { traffic: [traffic; 2], ..self.bench(&input, layout, &cache) };
            let (found, flat) = bench.throughput(time, steps);
            (found, found.unwrap_or(flat.rate()))
        };
        let traffic = [self.by_time(&input.keys), self.by_time(&other)];
        let (missing, warm) = (rate(Traffic::in_order(&missing)), rate(traffic[0]));
        let offered = SAFE * missing.1.min(warm.1);
        let rows = (1..=RUNS).map(|run| {
            let cache = input.rules.cache(CACHE_SIZE);
            let bench = Bench { traffic, ..self.bench(&input, layout, &cache) };
            let seen = shift_once(&bench, &cache, offered, time);
            ShiftRow {
                ruleset: name.to_owned(),
                layout: layout.name(),
                run,
                missing_mpps: missing.0.map(|rate| rounded(rate / 1e6, 3)),
                warm_mpps: warm.0.map(|rate| rounded(rate / 1e6, 3)),
                offered_mpps: rounded(offered / 1e6, 3),
                lost: seen.counts.lost,
                interrupted_ms: rounded(seen.counts.interrupted.as_secs_f64() * 1e3, 2),
                hits_before: rounded(seen.hits_before, 4),
                hits_at_shift: rounded(seen.hits_at_shift, 4),
                ms_to_95: seen.to_high.map(|time| rounded(time.as_secs_f64() * 1e3, 2)),
            }
        });
        Ok(rows.collect())
    }
}

/// What a run with a shift did; hits are shares of a millisecond.
struct Seen {
    counts: RunCounts,
    hits_before: f64,
    hits_at_shift: f64,
    /// From the shift until [`HIGH`].
    to_high: Option<Duration>,
}

/// A run with a shift in the middle; each half takes `time`, but enough to see 50 ms.
fn shift_once(bench: &Bench<'_>, cache: &StormCache, offered: f64, time: Duration) -> Seen {
    let half = time.max(Duration::from_millis(100));
    let (mut seen, mut at, mut ratios) = ((0, 0), Duration::ZERO, Vec::new());
    let mut watch = |now: Duration| {
        let counts = cache.counts();
        let (hits, misses) = (counts.0 - seen.0, counts.1 - seen.1);
        if now - at >= Duration::from_millis(1) && hits + misses > 0 {
            ratios.push((now, hits as f64 / (hits + misses) as f64));
            (seen, at) = (counts, now);
        }
        match now {
            _ if now >= 2 * half => Watch::End,
            _ if now >= half => Watch::Shift,
            _ => Watch::On,
        }
    };
    let counts = bench.run(Pace::Rate(offered), 2 * half, &mut watch);
    let before = ratios.iter().rev().find(|(now, _)| *now <= half);
    let mut after = ratios.iter().filter(|(now, _)| *now > half).skip(1);
    let ratio = |found: Option<&(Duration, f64)>| found.map_or(0.0, |(_, ratio)| *ratio);
    Seen {
        counts,
        hits_before: ratio(before),
        hits_at_shift: ratio(after.clone().next()),
        to_high: after.find(|(_, ratio)| *ratio >= HIGH).map(|(now, _)| *now - half),
    }
}
