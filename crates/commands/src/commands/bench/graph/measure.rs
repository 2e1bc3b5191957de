//! Runs a case: checked first, then timed.

use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::time::{ClockId, clock_gettime};
use warpswitch_classify::{BuildOptions, Engine};
use warpswitch_graph::simulate::SIMULATED_START;
use warpswitch_graph::{Console, Ended, Host, Registry, Router, RouterOptions, Time};
use warpswitch_rules::extract::Extractor;
use warpswitch_rules::{KeyBatch, RuleId};
use warpswitch_wire::link::LinkType;

use super::cases::{Bare, Ready};
use super::sink::{self, Seen};
use super::source::{Feed, Source};
use crate::kit;
use crate::load::build_engine;
use crate::measure::median;
use crate::threads;
use warpswitch_runtime::config::{ConfigText, Libraries, make_router};
use warpswitch_runtime::ticks;

/// Keys of a batch that is looked up bare.
const BARE_BATCH: usize = 256;

/// What was measured with one length of batches.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Packets per second of each run, ascending.
    pub sorted: Vec<f64>,
    /// The share of the time that the thread had its core.
    pub had_core: f64,
}

impl Rates {
    /// The median.
    pub fn median(&self) -> f64 {
        median(&self.sorted)
    }
}

/// The share of one element.
#[derive(Clone, Debug)]
pub struct Share {
    /// Its name.
    pub element: String,
    /// Nanoseconds per packet that was replayed, whether it came to it or not.
    pub ns: f64,
    /// Its part of the time of all.
    pub part: f64,
}

/// Time that one thread had.
#[derive(Clone, Copy, Debug)]
struct Spent {
    cpu: Duration,
    wall: Duration,
}

/// Runs until its time is over.
struct BenchHost {
    end: Instant,
}

impl Host for BenchHost {
    /// Stands still: no entry of a table ages while its cost is measured.
    fn now(&mut self) -> Time {
        SIMULATED_START
    }

    fn wait(&mut self, _until: Option<Time>) -> bool {
        false
    }

    fn serve(&mut self, router: &mut Router) {
        if Instant::now() >= self.end {
            router.stop();
        }
    }
}

/// Keeps quiet.
struct Quiet;

impl Console for Quiet {
    fn say(&mut self, _line: &str) {}

    fn print(&mut self, _text: &[u8]) {}

    fn do_by_many(&self, work: &(dyn Fn() + Sync)) {
        threads::do_by_many(work);
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// A router of `ready` that delivers its frames once or without end.
fn router(
    (ready, source): (&Ready, Source),
    is_endless: bool,
    registry: &Registry,
    ticks: Option<fn() -> u64>,
) -> anyhow::Result<Router> {
    let text = ConfigText { name: "graph".into(), bytes: ready.config(source).into_bytes() };
    let variables = ready.variables(source, is_endless);
    let options = RouterOptions { console: Box::new(Quiet), seed: 1, now: SIMULATED_START, ticks };
    let made = make_router(&text, registry, &variables, &mut Libraries::default(), options);
    let (mut router, _) = made.map_err(|errors| anyhow::Error::new(errors.into_diagnostics()))?;
    for (handler, value) in &ready.writes {
        router.write(handler, value).map_err(|error| anyhow::anyhow!("{handler}: {error}"))?;
    }
    Ok(router)
}

fn set_batch(router: &mut Router, ready: &Ready, batch: usize) -> anyhow::Result<()> {
    for feed in &ready.feeds {
        let handler = format!("{}.burst", feed.name);
        let set = router.write(&handler, &batch.to_string());
        set.map_err(|error| anyhow::anyhow!("{handler}: {error}"))?;
    }
    Ok(())
}

fn count(router: &mut Router, ready: &Ready) -> u64 {
    let read = |feed: &Feed| router.read(&format!("{}.count", feed.name)).ok()?.parse::<u64>().ok();
    ready.feeds.iter().filter_map(read).sum()
}

/// Replays all frames once with each length of batches, and compares what leaves through each
/// output with what must.
///
/// # Errors
/// If something else leaves.
pub fn check(ready: &Ready, source: Source, batches: &[usize]) -> anyhow::Result<()> {
    if ready.is_generated(source) {
        return Ok(());
    }
    let registry = kit::registry().with(&sink::CLASS);
    let mut router = router((ready, source), false, &registry, None)?;
    for &batch in batches {
        set_batch(&mut router, ready, batch)?;
        let mut host = BenchHost { end: Instant::now() + Duration::from_secs(600) };
        // Each source asks for a stop when it is done.
        while router.run(&mut host) != Ended::Idle {}
        if router.packets_unaccounted() != 0 {
            bail!("batches of {batch}: {} packets were lost", router.packets_unaccounted());
        }
        for (output, expected) in &ready.expected {
            let text = router.read(&format!("{output}.seen")).unwrap_or_default();
            let seen = Seen::parse(&text).unwrap_or_default();
            if seen != *expected {
                bail!(
                    "batches of {batch}: {output} received {} packets, digest {:#018x}, expected \
                     {} and {:#018x}",
                    seen.packets,
                    seen.digest,
                    expected.packets,
                    expected.digest
                );
            }
            let _ = router.write(&format!("{output}.reset_counts"), "");
        }
        for feed in &ready.feeds {
            let handler = format!("{}.{}", feed.name, source.restart());
            let restarted = router.write(&handler, "");
            restarted.map_err(|error| anyhow::anyhow!("{handler}: {error}"))?;
        }
    }
    Ok(())
}

/// A configuration that is timed.
pub struct Timed<'a> {
    ready: &'a Ready,
    router: Router,
    run_time: Duration,
}

impl<'a> Timed<'a> {
    /// Makes it and has it load its frames; with `ticks`, elements are timed too.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(
        ready: &'a Ready,
        source: Source,
        run_time: Duration,
        has_ticks: bool,
    ) -> anyhow::Result<Self> {
        let registry = kit::registry();
        let ticks = has_ticks.then_some(ticks as fn() -> u64);
        let router = router((ready, source), true, &registry, ticks)?;
        let mut timed = Self { ready, router, run_time };
        while !timed.has_begun() {
            timed.run();
        }
        Ok(timed)
    }

    fn has_begun(&mut self) -> bool {
        let begun = |feed: &Feed| {
            let count = self.router.read(&format!("{}.count", feed.name)).unwrap_or_default();
            !matches!(count.as_str(), "" | "0")
        };
        self.ready.feeds.iter().all(begun)
    }

    fn run(&mut self) -> (u64, Spent) {
        let before = count(&mut self.router, self.ready);
        let (start, cpu) = (Instant::now(), cpu_time());
        self.router.run(&mut BenchHost { end: start + self.run_time });
        let spent = Spent { cpu: cpu_time() - cpu, wall: start.elapsed() };
        (count(&mut self.router, self.ready) - before, spent)
    }

    /// Rates with batches of `batch`: one run to warm up, then `runs`.
    ///
    /// # Errors
    /// If a source takes no length of batches.
    pub fn rates(&mut self, batch: usize, runs: usize) -> anyhow::Result<Rates> {
        set_batch(&mut self.router, self.ready, batch)?;
        self.run();
        let (mut sorted, mut sum) = (Vec::new(), (0.0, 0.0));
        for _ in 0..runs {
            let (packets, spent) = self.run();
            sorted.push(packets as f64 / spent.cpu.as_secs_f64());
            sum = (sum.0 + spent.cpu.as_secs_f64(), sum.1 + spent.wall.as_secs_f64());
        }
        sorted.sort_by(f64::total_cmp);
        Ok(Rates { sorted, had_core: sum.0 / sum.1 })
    }

    /// What elements cost with batches of `batch`, largest first: in the quietest of `runs` runs,
    /// as elements are timed by the clock on the wall.
    ///
    /// # Errors
    /// If a source takes no length of batches.
    pub fn shares(&mut self, batch: usize, runs: usize) -> anyhow::Result<Vec<Share>> {
        set_batch(&mut self.router, self.ready, batch)?;
        self.run();
        let elements = self.router.graph().elements.len();
        let counts =
            |router: &Router| (0..elements).map(|idx| router.stats(idx).own_ns).collect::<Vec<_>>();
        let mut spent: Vec<f64> = Vec::new();
        let mut least = f64::MAX;
        for _ in 0..runs {
            let before = counts(&self.router);
            let (packets, time) = self.run();
            let after = counts(&self.router);
            let cost = time.wall.as_secs_f64() / packets.max(1) as f64;
            if cost < least {
                let both = before.iter().zip(&after);
                let per_packet = |ticks: u64| ticks as f64 / packets.max(1) as f64;
                spent = both.map(|(old, new)| per_packet(new - old)).collect();
                least = cost;
            }
        }
        let total: f64 = spent.iter().sum();
        let share = |(idx, &ns): (usize, &f64)| Share {
            element: self.router.graph().elements[idx].name.clone(),
            ns,
            part: ns / total.max(1e-9),
        };
        let mut shares: Vec<Share> = spent.iter().enumerate().map(share).collect();
        shares.sort_by(|a, b| b.part.total_cmp(&a.part));
        Ok(shares)
    }
}

/// Lookups without the graph, on the same thread and by the same clock: of keys with a match, and
/// of frames whose keys are made first.
///
/// # Errors
/// If the engine cannot be built, or frames have other keys than they were made for.
pub fn bare(bare: &Bare, runs: usize, run_time: Duration) -> anyhow::Result<[Rates; 2]> {
    let Bare { rules, keys, frames } = bare;
    let engine = build_engine(Engine::Turbo, rules, &BuildOptions::default())?.classifier;
    let schema = rules.schema();
    let extractor = Extractor::new(schema, LinkType::Ethernet);
    let mut room = vec![0; BARE_BATCH * schema.words];
    let mut make_keys = |from: usize, to: usize, look_up: &mut dyn FnMut(KeyBatch<'_>)| {
        let room = &mut room[..(to - from) * schema.words];
        let frames = frames.span(from, to).map(|frame| (frame, 0));
        let mut keyless = 0;
        extractor.extract_each(frames, room, |_| keyless += 1);
        look_up(KeyBatch::new(schema, room));
        keyless
    };
    for from in (0..keys.len()).step_by(BARE_BATCH) {
        let to = (from + BARE_BATCH).min(keys.len());
        let mut is_same = true;
        let keyless = make_keys(from, to, &mut |made| {
            is_same = made.words() == keys.as_batch().slice(from, to).words();
        });
        if keyless > 0 || !is_same {
            bail!(
                "the keys of frames {from} to {to} differ from those that they were generated \
                for"
            );
        }
    }
    let mut found = vec![RuleId::NONE; BARE_BATCH];
    let mut look_up = |keys: KeyBatch<'_>| {
        engine.classify(keys, &mut found);
        std::hint::black_box(&mut found);
    };
    let alone = spans(keys.len(), runs, run_time, |from, to| {
        look_up(keys.as_batch().slice(from, to));
    });
    let parsed = spans(keys.len(), runs, run_time, |from, to| {
        make_keys(from, to, &mut look_up);
    });
    Ok([alone, parsed])
}

/// Rates of `work` with spans of [`BARE_BATCH`] of `count` things, over and over.
fn spans(
    count: usize,
    runs: usize,
    run_time: Duration,
    mut work: impl FnMut(usize, usize),
) -> Rates {
    let mut at = 0;
    let mut run = || {
        let (start, cpu, mut done) = (Instant::now(), cpu_time(), 0);
        while start.elapsed() < run_time {
            for _ in 0..32 {
                let end = (at + BARE_BATCH).min(count);
                work(at, end);
                done += end - at;
                at = if end == count { 0 } else { end };
            }
        }
        let cpu = cpu_time() - cpu;
        (done as f64 / cpu.as_secs_f64(), cpu.as_secs_f64() / start.elapsed().as_secs_f64())
    };
    run();
    let results: Vec<(f64, f64)> = (0..runs).map(|_| run()).collect();
    let mut sorted: Vec<f64> = results.iter().map(|(rate, _)| *rate).collect();
    sorted.sort_by(f64::total_cmp);
    let had_core = results.iter().map(|(_, share)| share).sum::<f64>() / runs as f64;
    Rates { sorted, had_core }
}
