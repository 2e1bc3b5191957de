//! What is measured: the parts of the benchmark.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use warpswitch_pipeline::{Lookup, TableEngines};
use warpswitch_rules::generate::Prng;
use warpswitch_rules::openflow::{Flow, FlowAction, FlowCommand, Instructions};
use warpswitch_rules::{KeyBuf, Ruleset};
use warpswitch_switch::CacheKind;

use super::bed::{Bed, BedSpec, at_once, flow_mod};
use super::flows::{exact, exploding, explosion, flows_of, frames_of, keys_inside, skewed};
use super::report::{Row, Unit};
use crate::commands::bench::switch::ports::{Arrival, FrameTable, PORTS};
use crate::measure::median;
use crate::term::Progress;
use crate::threads;

/// Flows of traffic that fits into an exact cache as Open vSwitch has it.
const FEW_FLOWS: usize = 1_000;
/// Frames that are compared with those of the interpreter, at most: it takes each through all
/// rules.
const CHECKED_FRAMES_MAX: usize = 2_000;
/// Frames a second of 1 Mbit/s on the wire, with preamble, check sequence and gap.
const ATTACK_PPS: f64 = 1e6 / (84.0 * 8.0);
/// The least share of the rate that the attack has to leave.
const SHARE_WANTED: f64 = 0.8;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Switches side by side, each on a core of its own.
    pub threads: usize,
    pub runs: usize,
    pub run_time: Duration,
    /// Flows of traffic.
    pub flows: usize,
    /// Flows in the table that is changed.
    pub changed_flows: usize,
    /// Timed changes.
    pub changes: usize,
}

/// The rules, and the rows so far.
pub struct Lab<'a> {
    pub effort: Effort,
    pub rules: &'a Ruleset,
    pub tables: &'a [Ruleset],
    /// Rules of other styles, with their names.
    pub styles: &'a [(&'static str, Ruleset)],
    /// Engines of the tables.
    pub engines: TableEngines,
    pub progress: &'a Progress,
    pub rows: Vec<Row>,
}

impl Lab<'_> {
    /// One table, every cache.
    pub fn caches(&mut self) -> anyhow::Result<()> {
        let flows = flows_of(self.rules, 0, None);
        let keys = keys_inside(&[self.rules], self.effort.flows, 1);
        let few = keys_inside(&[self.rules], FEW_FLOWS.min(self.effort.flows), 2);
        let cases = [
            ("uniform", self.effort.flows, frames_of(&keys), [None, Some(8.6), Some(4.56)]),
            ("skewed", self.effort.flows, frames_of(&skewed(keys, 3)), [None, None, None]),
            ("few flows", few.len(), frames_of(&few), [None, Some(11.9), Some(11.9)]),
        ];
        for (case, count, frames, wanted) in cases {
            for (cache, wanted) in CacheKind::ALL.into_iter().zip(wanted) {
                let row = Row::new("caches", case, cache, flows.len(), count);
                self.rate(row, &[&flows], frames.clone(), wanted)?;
            }
        }
        Ok(())
    }

    /// Three tables and no cache, and with it for comparison.
    pub fn tables(&mut self) -> anyhow::Result<()> {
        let last = self.tables.len() - 1;
        let lists: Vec<Vec<Flow>> = (0..=last)
            .map(|table| {
                let next = (table < last).then_some(table as u8 + 1);
                flows_of(&self.tables[table], table as u8, next)
            })
            .collect();
        let lists: Vec<&[Flow]> = lists.iter().map(Vec::as_slice).collect();
        let rulesets: Vec<&Ruleset> = self.tables.iter().collect();
        let keys = keys_inside(&rulesets, self.effort.flows, 4);
        let (count, frames) = (keys.len(), frames_of(&keys));
        let rules = lists.iter().map(|flows| flows.len()).sum();
        for cache in [CacheKind::None, CacheKind::Mega] {
            let wanted = (cache == CacheKind::None).then_some(8.0);
            let row = Row::new("tables", "uniform", cache, rules, count);
            self.rate(row, &lists, frames.clone(), wanted)?;
        }
        Ok(())
    }

    /// One table of each style and no cache: what the engine gives.
    pub fn styles(&mut self) -> anyhow::Result<()> {
        for (style, rules) in self.styles {
            let flows = flows_of(rules, 0, None);
            let keys = keys_inside(&[rules], self.effort.flows, 9);
            let row = Row::new("styles", style, CacheKind::None, flows.len(), keys.len());
            self.rate(row, &[&flows], frames_of(&keys), None)?;
        }
        Ok(())
    }

    /// The rate of a switch, after its frames and counters were compared with the interpreter's.
    fn rate(
        &mut self,
        mut row: Row,
        flows: &[&[Flow]],
        frames: Arc<FrameTable>,
        wanted: Option<f64>,
    ) -> anyhow::Result<()> {
        self.progress.say(format!("{}, {}, cache {}", row.part, row.case, row.cache));
        row.digest = self.check(row.kind, flows, &frames)?;
        let spec = self.spec(row.kind, frames, at_once(None));
        let measured = switches(&spec, flows, &self.effort)?;
        let all = measured.lookups();
        if all > 0 {
            row.micro_hits = Some(measured.micro_hits as f64 / all as f64);
            row.mega_hits = Some(measured.mega_hits as f64 / all as f64);
        }
        self.rows.push(row.with(Unit::Mpps, &measured.mpps, wanted));
        Ok(())
    }

    /// Compares frames, ports and counters with those of the interpreter over linear tables; the
    /// frames pass twice, so that caches answer. Returns their digest.
    fn check(
        &self,
        kind: CacheKind,
        flows: &[&[Flow]],
        frames: &Arc<FrameTable>,
    ) -> anyhow::Result<String> {
        let mut some = FrameTable::new(super::flows::FRAME_BYTES);
        frames.iter().take(CHECKED_FRAMES_MAX).for_each(|frame| some.push(frame));
        let arrival = at_once(Some(2 * some.len() as u64));
        let some = Arc::new(some);
        let run = |kind, lookup| {
            let is_checked = true;
            let spec = BedSpec { lookup, is_checked, ..self.spec(kind, some.clone(), arrival) };
            let mut bed = Bed::new(&spec)?;
            flows.iter().try_for_each(|flows| bed.add_flows(flows))?;
            bed.outcome()
        };
        let reference = run(CacheKind::None, Lookup::Linear)?;
        let found = run(kind, Lookup::default())?;
        ensure!(
            found == reference,
            "cache {}: other frames, ports or counters than those of the interpreter",
            kind.name()
        );
        Ok(found.digest())
    }

    fn spec(&self, cache: CacheKind, frames: Arc<FrameTable>, arrival: Arrival) -> BedSpec {
        let (lookup, engines) = (Lookup::default(), self.engines.clone());
        BedSpec { cache, lookup, engines, frames, arrival, beside: None, is_checked: false }
    }

    fn repeat(&self, mut run: impl FnMut(Duration) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> =
            (0..self.effort.runs).map(|_| run(self.effort.run_time)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// Flow-mods over the control connection into many flows, and the time until one is in force.
    pub fn changes(&mut self) -> anyhow::Result<()> {
        self.progress.say("changes of flows");
        let count = self.effort.changed_flows;
        let keys = distinct(keys_inside(&[self.rules], 2 * count, 5), 2 * count);
        let key = |idx: usize| keys.as_batch().key(idx).to_vec();
        let half = keys.len() / 2;
        let flow = |idx: usize, port| {
            let apply = vec![FlowAction::Output { port, max_len: 0 }];
            let instructions = Instructions { apply, ..Instructions::default() };
            Flow::new(Flow::DEFAULT_PRIORITY, exact(&key(idx)), instructions)
        };
        let mut present = KeyBuf::with_capacity(keys.schema(), half);
        (0..half).for_each(|idx| present.push(keys.as_batch().key(idx)));
        let frames = frames_of(&present);
        for cache in CacheKind::ALL {
            let mut bed = Bed::new(&self.spec(cache, frames.clone(), at_once(None)))?;
            bed.add_flows(&(0..half).map(|idx| flow(idx, 2)).collect::<Vec<_>>())?;
            self.churn(&mut bed, cache, half, &flow)?;
            self.latency(&mut bed, cache, half, frames.len(), &flow)?;
        }
        Ok(())
    }

    /// Adds as many flows as there are, and deletes them again.
    fn churn(
        &mut self,
        bed: &mut Bed,
        cache: CacheKind,
        half: usize,
        flow: &impl Fn(usize, u32) -> Flow,
    ) -> anyhow::Result<()> {
        let turn = |command| {
            (half..2 * half).map(|idx| flow_mod(command, flow(idx, 2))).collect::<Vec<_>>()
        };
        for command in [FlowCommand::Add, FlowCommand::DeleteStrict] {
            let mut rates = Vec::new();
            for _ in 0..self.effort.runs {
                let other = match command {
                    FlowCommand::Add => FlowCommand::DeleteStrict,
                    _ => FlowCommand::Add,
                };
                if command != FlowCommand::Add {
                    bed.send_all(&turn(other))?;
                }
                let messages = turn(command);
                let start = Instant::now();
                bed.send_all(&messages)?;
                rates.push(messages.len() as f64 / start.elapsed().as_secs_f64() / 1e3);
                if command == FlowCommand::Add {
                    bed.send_all(&turn(other))?;
                }
            }
            rates.sort_by(f64::total_cmp);
            let case = if command == FlowCommand::Add { "adds" } else { "deletes" };
            let row = Row::new("changes", case, cache, half, 0);
            self.rows.push(row.with(Unit::ThousandPerSecond, &rates, Some(100.0)));
        }
        Ok(())
    }

    /// The time from a flow-mod with a barrier behind it to the reply, while every flow is cached;
    /// then all frames pass, and as many as the flow has leave by its new port.
    fn latency(
        &mut self,
        bed: &mut Bed,
        cache: CacheKind,
        half: usize,
        frames: usize,
        flow: &impl Fn(usize, u32) -> Flow,
    ) -> anyhow::Result<()> {
        let pass = |bed: &mut Bed| {
            let end = bed.received() + frames as u64;
            while bed.received() < end {
                bed.step();
            }
        };
        pass(bed);
        pass(bed);
        let mut random = Prng::new(6);
        let mut times = Vec::new();
        for _ in 0..self.effort.changes {
            // The flow that is changed outputs to a port that no other flow has.
            let idx = random.index(half);
            let change = flow_mod(FlowCommand::ModifyStrict, flow(idx, 3));
            let start = Instant::now();
            bed.send_with_barrier(&change)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            let before = bed.sent()[2];
            pass(bed);
            // Bursts end after the last frame: some frames pass twice.
            ensure!(bed.sent()[2] > before, "a flow-mod was not in force after its barrier");
            bed.send(&flow_mod(FlowCommand::ModifyStrict, flow(idx, 2)))?;
        }
        times.sort_by(f64::total_cmp);
        let row = Row::new("changes", "until the barrier", cache, half, frames);
        self.rows.push(row.with(Unit::Milliseconds, &times, Some(1.0)));
        Ok(())
    }

    /// Traffic that is made to need many masks beside normal traffic.
    pub fn explosion(&mut self) -> anyhow::Result<()> {
        let flows = exploding(self.rules);
        let keys = keys_inside(&[self.rules], self.effort.flows, 7);
        let (count, frames) = (keys.len(), frames_of(&keys));
        let attack = frames_of(&explosion(self.rules, 8));
        let arrival = Arrival { pps: Some(ATTACK_PPS), ..Arrival::default() };
        for cache in CacheKind::ALL {
            self.progress.say(format!("tuple-space explosion, cache {}", cache.name()));
            let mut mixed = FrameTable::new(super::flows::FRAME_BYTES);
            for (frame, attack) in frames.iter().zip(attack.iter().cycle()) {
                mixed.push(frame);
                mixed.push(attack);
            }
            let digest = self.check(cache, &[&flows], &Arc::new(mixed))?;
            let beds = [None, Some((attack.clone(), arrival))].map(|beside| {
                let spec = BedSpec { beside, ..self.spec(cache, frames.clone(), at_once(None)) };
                let mut bed = Bed::new(&spec)?;
                bed.add_flows(&flows)?;
                // The attack needs some seconds to fill a cache.
                bed.rate(self.effort.run_time * 8);
                anyhow::Ok(bed)
            });
            let [alone, beside] = beds;
            let (mut alone, mut beside) = (alone?, beside?);
            let ratios = self.repeat(|time| beside.rate(time) / alone.rate(time));
            let mut row = Row::new("explosion", "rate left", cache, flows.len(), count);
            row.digest = digest;
            self.rows.push(row.with(Unit::Share, &ratios, Some(SHARE_WANTED)));
        }
        Ok(())
    }
}

/// What switches did during the runs.
#[derive(Debug, Default)]
struct Measured {
    /// Rates of the runs; in ascending order at the end.
    mpps: Vec<f64>,
    micro_hits: u64,
    mega_hits: u64,
    misses: u64,
}

impl Measured {
    fn lookups(&self) -> u64 {
        self.micro_hits + self.mega_hits + self.misses
    }
}

/// Runs of as many switches as there are threads, side by side: their rates together.
fn switches(spec: &BedSpec, flows: &[&[Flow]], effort: &Effort) -> anyhow::Result<Measured> {
    let start = Barrier::new(effort.threads);
    let run = |core| {
        threads::pin(core);
        switch(spec, flows, effort, &start)
    };
    let each: Vec<anyhow::Result<Measured>> = thread::scope(|scope| {
        let others: Vec<_> =
            (1..effort.threads).map(|core| scope.spawn(move || run(core))).collect();
        let first = run(0);
        let others = others.into_iter().map(|other| other.join().expect("no switch panics"));
        std::iter::once(first).chain(others).collect()
    });
    let mut all = Measured { mpps: vec![0.0; effort.runs], ..Measured::default() };
    for one in each {
        let one = one?;
        all.mpps.iter_mut().zip(&one.mpps).for_each(|(all, mpps)| *all += mpps);
        all.micro_hits += one.micro_hits;
        all.mega_hits += one.mega_hits;
        all.misses += one.misses;
    }
    all.mpps.sort_by(f64::total_cmp);
    Ok(all)
}

/// Runs of one switch, which begin when all are ready.
fn switch(
    spec: &BedSpec,
    flows: &[&[Flow]],
    effort: &Effort,
    start: &Barrier,
) -> anyhow::Result<Measured> {
    let bed = warm_bed(spec, flows);
    start.wait();
    let mut bed = bed?;
    let before = bed.switch.stats().cache;
    let mpps = (0..effort.runs).map(|_| bed.rate(effort.run_time) / 1e6).collect();
    let after = bed.switch.stats().cache;
    Ok(Measured {
        mpps,
        micro_hits: after.micro_hits - before.micro_hits,
        mega_hits: after.mega_hits - before.mega_hits,
        misses: after.misses - before.misses,
    })
}

/// A switch with flows and full caches: a miss costs a hundred hits.
fn warm_bed(spec: &BedSpec, flows: &[&[Flow]]) -> anyhow::Result<Bed> {
    let mut bed = Bed::new(spec)?;
    flows.iter().try_for_each(|flows| bed.add_flows(flows))?;
    let frames = 2 * spec.frames.len() as u64;
    while bed.received() < frames {
        bed.step();
    }
    Ok(bed)
}

/// The first keys, each once.
fn distinct(keys: KeyBuf, count: usize) -> KeyBuf {
    let mut seen = std::collections::HashSet::new();
    let mut result = KeyBuf::with_capacity(keys.schema(), count);
    for key in keys.as_batch().iter() {
        // Exact flows do not match on TCP flags.
        if seen.insert([key[0], key[1], key[2], key[3] >> 24]) {
            result.push(key);
        }
    }
    result
}

/// The middle and the ends of values in ascending order.
pub fn summary(sorted: &[f64]) -> (f64, f64, f64) {
    let ends = sorted.first().zip(sorted.last());
    let (min, max) = ends.map_or((0.0, 0.0), |(&min, &max)| (min, max));
    (median(sorted), min, max)
}

const _: () = assert!(PORTS == 4, "flows output to ports 2 to 4");
