//! Changes of rules while batches are looked up: when they are seen, and what they cost lookups.
//!
//! Changes arrive at a fixed rate, whether the ones before are done or not. A thread lets them
//! gather for a while, takes all that have arrived, makes them as one group, and notes for each how
//! long it is since it arrived: from then on every new batch sees it. Other threads keep batches
//! under way all the while, each batch on the version that is current when it is sent off. Their
//! rate is taken alone before and after.
//!
//! Each group is a launch on the card, whatever its length, and small batches wait for launches: a
//! writer that makes each change as soon as it can takes a tenth of their rate. So a control plane
//! does well to hand over what came in some [`GATHER_US`].

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use hdrhistogram::Histogram;
use serde::Serialize;
use warpswitch_classify::{Classifier, RuleChange};
use warpswitch_gpu::device::Loaded;
use warpswitch_gpu::live::LiveEngine;
use warpswitch_gpu::ring::Ring;
use warpswitch_gpu::work::Work;
use warpswitch_gpu::{Algorithm, COPIES, Device};
use warpswitch_rules::{KeyBuf, RuleId, Ruleset};

use super::super::check::Reference;
use super::measure::{Setting, Words, check_answers};
use super::report::Mode;
use super::{BenchGpuArgs, rate_text, wrong_text};
use crate::human::{self, rounded};
use crate::measure::median;
use crate::table::{Align, Table, title};
use crate::threads;

/// Changes in one group at most.
const GROUP_MAX: usize = 8192;
/// Rules that are out at once at most.
const OUT_MAX: usize = 4096;
/// The longest time that the histogram separates from longer ones.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// How long the first change of a group waits for others by default, microseconds: a tenth
/// of the millisecond within which changes are to be seen.
pub const GATHER_US: &str = "100";

/// How changes come.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals {
    pub pace: Pace,
    /// How long the first change of a group waits for others.
    pub gather: Duration,
}

/// How many changes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// So many arrive.
    PerSecond(usize),
    /// Full groups, one after the other.
    Max,
}

impl std::str::FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => Ok(Self::Max),
            _ => match crate::args::parse_count(text)? {
                0 => Err("expected at least 1, or 'max'".to_owned()),
                rate => Ok(Self::PerSecond(rate)),
            },
        }
    }
}

/// What was measured at one pace.
#[derive(Debug, Serialize)]
pub struct UpdateRun {
    pub engine: String,
    batch: usize,
    /// As requested; none if as many as go.
    asked_per_s: Option<usize>,
    /// How long the first change of a group waited for others.
    gather_us: u64,
    updates_per_s: f64,
    /// Mean number of changes in a group.
    group: f64,
    /// From a change's arrival until every new batch sees it, microseconds.
    visible_p50_us: f64,
    visible_p99_us: f64,
    visible_p999_us: f64,
    visible_max_us: f64,
    /// Million lookups a second, end to end, without changes and beside them.
    alone_mpps: f64,
    beside_mpps: f64,
    /// The second as a share of the first; none if no batch ended in so short a run.
    kept: Option<f64>,
    /// Bytes of patches a change.
    patch_bytes: f64,
    /// Images that were built meanwhile.
    builds: f64,
}

/// What the writer did.
struct Written {
    changes: u64,
    groups: u64,
    time: Duration,
    visible: Histogram<u64>,
}

/// Measures one engine at every pace and batch; nothing if its answers are wrong.
///
/// # Errors
/// If the engine cannot be built, a change is refused, or an answer is wrong.
pub fn measure_updates(
    device: &Arc<Device>,
    algorithm: Algorithm,
    args: &BenchGpuArgs,
    (ruleset, keys, reference): (&Ruleset, &KeyBuf, &Reference),
) -> anyhow::Result<Vec<UpdateRun>> {
    ensure!(!ruleset.is_empty(), "the rule set has no rule to update");
    let options = args.build.to_options();
    let engine = LiveEngine::build(device, algorithm, ruleset, &options)?;
    let mut writer = Writer::new(&engine, ruleset);
    // The first changes make the other copies.
    for _ in 1..COPIES {
        writer.group(2)?;
    }
    let current = || engine.current();
    let mut runs = Vec::new();
    for &batch in &args.batch {
        let setting = Setting {
            batch,
            slots: args.slots,
            threads: args.threads,
            runs: args.runs,
            run_time: Duration::from_millis(args.run_ms as u64),
        };
        for &pace in &args.updates {
            let gather = Duration::from_micros(args.gather_us as u64);
            let arrivals = Arrivals { pace, gather };
            let mut run =
                measure_pace(device, &mut writer, &current, keys.into(), &setting, arrivals)?;
            run.engine = format!("{}:{algorithm}", args.device.name());
            runs.push(run);
        }
    }
    writer.restore()?;
    for mode in Mode::ways(device) {
        let mut answers = vec![RuleId(RuleId::NONE.0 - 1); keys.len()];
        check_answers(device, &engine.current(), keys.into(), mode, &mut answers)?;
        if let Some(wrong) = reference.first_wrong(&answers) {
            anyhow::bail!("after all updates: {}, {mode}", wrong_text(wrong));
        }
    }
    match device.retired() {
        Some(cause) => Err(super::unusable(device, cause)),
        None => Ok(runs),
    }
}

/// Who changes what is looked up in.
pub trait Changing: Send {
    /// Makes `len` changes at once.
    ///
    /// # Errors
    /// If one is refused.
    fn group(&mut self, len: usize) -> anyhow::Result<()>;

    /// Bytes of patches so far, and whole images that were built.
    fn figures(&self) -> (f64, f64);
}

/// Source of the current version.
pub type Current<'a, W> = dyn Fn() -> Arc<Loaded<W>> + Sync + 'a;

/// Measures changes that arrive at one pace, beside lookups of `keys`.
///
/// # Errors
/// If a change is refused, or the device has no room for buffers.
pub fn measure_pace<W: Work>(
    device: &Device,
    writer: &mut dyn Changing,
    current: &Current<'_, W>,
    keys: Words<'_>,
    setting: &Setting,
    arrivals: Arrivals,
) -> anyhow::Result<UpdateRun> {
    let time = setting.run_time * setting.runs as u32;
    let before = read_for(device, current, keys, setting, time)?;
    let (bytes, builds) = writer.figures();
    let stop = AtomicBool::new(false);
    let batches = AtomicU64::new(0);
    let (written, beside) = thread::scope(|scope| {
        let writing = scope.spawn(|| {
            threads::pin(setting.threads);
            // Readers come up to speed first: to have their buffers made holds up a card.
            while batches.load(Ordering::Relaxed) < 4 * setting.slots as u64 {
                thread::yield_now();
            }
            let written = write(writer, arrivals, time);
            stop.store(true, Ordering::Relaxed);
            written
        });
        // Asked once a batch.
        let is_over = || {
            batches.fetch_add(1, Ordering::Relaxed);
            stop.load(Ordering::Relaxed)
        };
        let beside = read_until(device, current, keys, setting, &is_over);
        // If there was no room for buffers nobody has counted.
        batches.store(u64::MAX, Ordering::Relaxed);
        (writing.join(), beside)
    });
    let written = written.map_err(|_| anyhow!("the update thread panicked"))??;
    ensure!(
        written.changes > 0,
        "no update was applied in {} ms: increase --run-ms, --runs or --updates, or decrease \
            --gather-us",
        time.as_millis()
    );
    let after = read_for(device, current, keys, setting, time)?;
    let (bytes_after, builds_after) = writer.figures();
    let alone = median(&[before, after]);
    let us = |quantile| rounded(written.visible.value_at_quantile(quantile) as f64 / 1e3, 3);
    let changes = written.changes.max(1) as f64;
    Ok(UpdateRun {
        engine: String::new(),
        batch: setting.batch,
        asked_per_s: match arrivals.pace {
            Pace::PerSecond(rate) => Some(rate),
            Pace::Max => None,
        },
        gather_us: arrivals.gather.as_micros() as u64,
        updates_per_s: (written.changes as f64 / written.time.as_secs_f64()).round(),
        group: rounded(changes / written.groups.max(1) as f64, 3),
        visible_p50_us: us(0.5),
        visible_p99_us: us(0.99),
        visible_p999_us: us(0.999),
        visible_max_us: rounded(written.visible.max() as f64 / 1e3, 3),
        alone_mpps: rounded(alone / 1e6, 3),
        beside_mpps: rounded(beside? / 1e6, 3),
        kept: None,
        patch_bytes: rounded((bytes_after - bytes) / changes, 3),
        builds: builds_after - builds,
    }
    .with_kept())
}

impl UpdateRun {
    fn with_kept(self) -> Self {
        let (alone, beside) = (self.alone_mpps, self.beside_mpps);
        let kept = (alone > 0.0 && beside > 0.0).then(|| rounded(beside / alone, 3));
        Self { kept, ..self }
    }
}

/// Makes changes: rules go at random, and the one that is out for longest comes back.
struct Writer<'a> {
    engine: &'a LiveEngine,
    ruleset: &'a Ruleset,
    out: VecDeque<RuleId>,
    is_out: Vec<bool>,
    state: u64,
}

impl<'a> Writer<'a> {
    fn new(engine: &'a LiveEngine, ruleset: &'a Ruleset) -> Self {
        let (out, is_out) = (VecDeque::new(), vec![false; ruleset.len()]);
        Self { engine, ruleset, out, is_out, state: 1 }
    }

    fn make(&self, group: &[RuleChange<'_>]) -> anyhow::Result<()> {
        self.engine.change(group).map_err(|refused| refused.error).context("update rejected")
    }

    /// Puts all rules back.
    fn restore(&mut self) -> anyhow::Result<()> {
        let out: Vec<RuleId> = self.out.drain(..).collect();
        self.is_out.fill(false);
        let group: Vec<_> =
            out.iter().map(|&id| RuleChange::Insert(self.ruleset.rule(id))).collect();
        self.make(&group)
    }
}

impl Changing for Writer<'_> {
    fn figures(&self) -> (f64, f64) {
        let details = self.engine.details();
        let figure = |name: &str| {
            details.iter().find(|detail| detail.name == name).map_or(0.0, |detail| detail.value)
        };
        (figure("patched_bytes"), figure("builds"))
    }

    fn group(&mut self, len: usize) -> anyhow::Result<()> {
        let out_max = OUT_MAX.min(self.ruleset.len() / 4).max(1);
        let mut group = Vec::with_capacity(len);
        for _ in 0..len {
            if self.out.len() >= out_max {
                let id = self.out.pop_front().expect("some are out");
                self.is_out[id.as_usize()] = false;
                group.push(RuleChange::Insert(self.ruleset.rule(id)));
                continue;
            }
            let id = loop {
                // Xorshift: plain, and good enough to spread changes over a set.
                self.state ^= self.state << 13;
                self.state ^= self.state >> 7;
                self.state ^= self.state << 17;
                let id = (self.state % self.ruleset.len() as u64) as usize;
                if !self.is_out[id] {
                    break id;
                }
            };
            self.is_out[id] = true;
            self.out.push_back(RuleId(id as u32));
            group.push(RuleChange::Remove(self.ruleset.rule(RuleId(id as u32))));
        }
        self.make(&group)
    }
}

/// Makes changes at their pace for `time`.
fn write(writer: &mut dyn Changing, arrivals: Arrivals, time: Duration) -> anyhow::Result<Written> {
    let visible = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)?;
    let mut written = Written { changes: 0, groups: 0, time, visible };
    let start = Instant::now();
    while start.elapsed() < time {
        let began = start.elapsed();
        let len = arrivals.group(began, written.changes);
        if len == 0 {
            std::hint::spin_loop();
            continue;
        }
        writer.group(len)?;
        let seen = start.elapsed();
        for change in written.changes..written.changes + len as u64 {
            let arrival = arrivals.pace.arrival(change).unwrap_or(began);
            let waited = seen.saturating_sub(arrival).as_nanos() as u64;
            written.visible.saturating_record(waited.max(1));
        }
        written.changes += len as u64;
        written.groups += 1;
    }
    written.time = start.elapsed();
    Ok(written)
}

impl Arrivals {
    /// How many changes are to be made as a group at `now`, if so many have been made.
    fn group(&self, now: Duration, made: u64) -> usize {
        let Pace::PerSecond(rate) = self.pace else { return GROUP_MAX };
        let first = self.pace.arrival(made).expect("changes of a rate arrive one by one");
        let arrived = ((now.as_secs_f64() * rate as f64) as u64).saturating_sub(made);
        let is_due = arrived >= GROUP_MAX as u64 || now >= first + self.gather;
        if is_due { arrived.min(GROUP_MAX as u64) as usize } else { 0 }
    }
}

impl Pace {
    /// When a change arrives, by its number; none if on request.
    fn arrival(self, change: u64) -> Option<Duration> {
        match self {
            Self::PerSecond(rate) => {
                Some(Duration::from_secs_f64((change + 1) as f64 / rate as f64))
            }
            Self::Max => None,
        }
    }
}

fn read_for<W: Work>(
    device: &Device,
    current: &Current<'_, W>,
    keys: Words<'_>,
    setting: &Setting,
    time: Duration,
) -> anyhow::Result<f64> {
    let start = Instant::now();
    read_until(device, current, keys, setting, &|| start.elapsed() >= time + setting.run_time / 2)
}

/// Keeps batches under way on all threads until `stop`; gives lookups per second after the first
/// half run.
fn read_until<W: Work>(
    device: &Device,
    current: &Current<'_, W>,
    keys: Words<'_>,
    setting: &Setting,
    stop: &(dyn Fn() -> bool + Sync),
) -> anyhow::Result<f64> {
    let count = setting.threads.min(setting.slots);
    let rings = (0..count).map(|idx| {
        let slots = setting.slots / count + usize::from(idx < setting.slots % count);
        Ring::new(device, keys.form(), setting.batch, slots)
    });
    let rings: Vec<Ring<W>> = rings.collect::<Result<_, _>>()?;
    let rates = thread::scope(|scope| {
        let spawn = |(idx, ring): (usize, Ring<W>)| {
            scope.spawn(move || {
                threads::pin(idx);
                read(ring, current, keys, setting, idx, stop)
            })
        };
        let readers: Vec<_> = rings.into_iter().enumerate().map(spawn).collect();
        readers.into_iter().map(|reader| reader.join()).collect::<Result<Vec<f64>, _>>()
    });
    Ok(rates.map_err(|_| anyhow!("a lookup thread panicked"))?.iter().sum())
}

fn read<W: Work>(
    mut ring: Ring<W>,
    current: &Current<'_, W>,
    keys: Words<'_>,
    setting: &Setting,
    idx: usize,
    stop: &(dyn Fn() -> bool + Sync),
) -> f64 {
    let mut place = idx * setting.slots * setting.batch;
    while let Some(room) = ring.keys_mut() {
        keys.fill(room, place, setting.batch);
        ring.submit(&current(), setting.batch);
        place += setting.batch;
    }
    let start = Instant::now();
    let (mut done, mut counted_from) = (0u64, None);
    while !stop() {
        done += ring.finish() as u64;
        ring.submit(&current(), setting.batch);
        if counted_from.is_none() && start.elapsed() >= setting.run_time / 2 {
            (done, counted_from) = (0, Some(Instant::now()));
        }
    }
    let time = counted_from.unwrap_or(start).elapsed();
    while ring.under_way() > 0 {
        ring.finish();
    }
    done as f64 / time.as_secs_f64().max(1e-9)
}

/// The figures for people.
pub fn render(device: &str, what: &str, runs: &[UpdateRun]) -> String {
    let mut text = title("Updates during lookups", device);
    let mut table = Table::new(&[
        ("engine", Align::Left),
        ("batch", Align::Right),
        ("updates/s", Align::Right),
        ("group", Align::Right),
        ("seen p50 us", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("max", Align::Right),
        ("alone", Align::Right),
        ("beside", Align::Right),
        ("kept", Align::Right),
        ("B/update", Align::Right),
    ])
    .with_keys(3);
    for run in runs {
        table.row([
            run.engine.clone(),
            human::count(run.batch as u64),
            human::count(run.updates_per_s as u64),
            human::significant(run.group),
            human::significant(run.visible_p50_us),
            human::significant(run.visible_p99_us),
            human::significant(run.visible_p999_us),
            human::significant(run.visible_max_us),
            rate_text(run.alone_mpps),
            rate_text(run.beside_mpps),
            run.kept.map_or_else(|| "-".to_owned(), |kept| format!("{:.0} %", kept * 100.0)),
            human::significant(run.patch_bytes),
        ]);
    }
    text += &table.render();
    text + &format!("{what}\n")
}

/// A line for each run.
pub fn to_csv(ruleset: &str, rules: usize, setting: (usize, usize), runs: &[UpdateRun]) -> String {
    let mut text = "ruleset,rules,engine,batch,slots,threads,asked_per_s,updates_per_s,group,\
                    visible_p50_us,visible_p99_us,visible_p999_us,visible_max_us,alone_mpps,\
                    beside_mpps,kept,patch_bytes,builds,gather_us\n"
        .to_owned();
    let (slots, threads) = setting;
    for run in runs {
        let asked = run.asked_per_s.map_or_else(|| "max".to_owned(), |rate| rate.to_string());
        _ = writeln!(
            text,
            "{ruleset},{rules},{},{},{slots},{threads},{asked},{},{},{},{},{},{},{},{},{},{},{},{}",
            run.engine,
            run.batch,
            run.updates_per_s,
            run.group,
            run.visible_p50_us,
            run.visible_p99_us,
            run.visible_p999_us,
            run.visible_max_us,
            run.alone_mpps,
            run.beside_mpps,
            run.kept.map_or_else(String::new, |kept| kept.to_string()),
            run.patch_bytes,
            run.builds,
            run.gather_us
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_counts_or_max() {
        assert_eq!("100K".parse(), Ok(Pace::PerSecond(100_000)));
        assert_eq!("max".parse(), Ok(Pace::Max));
        assert!("0".parse::<Pace>().is_err() && "fast".parse::<Pace>().is_err());
    }

    #[test]
    fn a_group_is_due_once_its_first_change_has_waited() {
        let pace = Pace::PerSecond(100_000);
        let group = |gather, now, made| {
            let gather = Duration::from_micros(gather);
            Arrivals { pace, gather }.group(Duration::from_nanos(now), made)
        };
        // A change each 10 us, the first after as long.
        assert_eq!(group(0, 9_000, 0), 0, "none has arrived");
        assert_eq!(group(0, 10_500, 0), 1);
        assert_eq!(group(100, 10_500, 0), 0, "it waits for others");
        assert_eq!(group(100, 109_000, 0), 0);
        assert_eq!(group(100, 110_500, 0), 11);
        assert_eq!(group(100, 115_000, 11), 0, "they are made");
        assert_eq!(group(100, 10_000_000_000, 11), GROUP_MAX, "the rest is another group");
        assert_eq!(
            Arrivals { pace: Pace::Max, gather: Duration::MAX }.group(Duration::ZERO, 7),
            GROUP_MAX
        );
    }
}
