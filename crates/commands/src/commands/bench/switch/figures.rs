//! The experiments: GSwitch's figures 10 and 11, Snap's table 2 and section 4.4.

use std::time::Duration;

use warpswitch_gpu::Algorithm;

use super::bed::{Bed, Lookup, Setup};
use super::measure::{Effort, Measured, check, measure};
use super::paper::stated;
use super::report::{Paper, Row};
use crate::human::rounded;
use crate::interrupt;
use crate::term::Progress;

/// A delay that no packet waits for: batches leave when they are full.
const NO_DELAY_MAX: Duration = Duration::from_millis(100);
/// Frames of the paper's figure 11 and of Snap.
const SMALL: usize = 64;
/// Gbit/s that Snap's latencies are measured at, by packets of a batch (section 4.4).
const SNAP_LOADS: [(usize, f64); 2] = [(512, 24.0), (1024, 28.0)];
/// Runs of each load of figure 10; the one with the median p99 counts.
const LOADED_RUNS: usize = 3;
/// The rows of Snap's table 2: paths, and threads where not all.
const TABLE_2: [(&str, &str, usize, Option<usize>); 5] = [
    ("click", "1 path", 1, Some(1)),
    ("click", "4 paths, 1 thread", 4, Some(1)),
    ("click", "4 paths, 4 threads", 4, Some(4)),
    ("snap", "1 path", 1, Some(1)),
    ("snap", "4 paths", 4, None),
];

/// What is varied.
#[derive(Clone, Debug)]
pub struct Ranges {
    /// Frame sizes with check sequence.
    pub sizes: Vec<usize>,
    pub delays: Vec<Duration>,
    /// Gbit/s on the wire that all ports receive in figure 10.
    pub rates: Vec<f64>,
    /// The most packets of a wide batch.
    pub batch: usize,
}

/// Everything that the experiments share.
pub struct Lab<'a> {
    pub bed: Bed,
    pub ranges: Ranges,
    pub workers: usize,
    pub effort: Effort,
    pub progress: &'a Progress,
    /// What was checked.
    checked: Vec<(Lookup, usize, usize)>,
}

impl<'a> Lab<'a> {
    /// A lab in which nothing was measured yet.
    pub fn new(
        bed: Bed,
        ranges: Ranges,
        workers: usize,
        effort: Effort,
        progress: &'a Progress,
    ) -> Self {
        Self { bed, ranges, workers, effort, progress, checked: Vec::new() }
    }

    /// A switch of all workers, by cores, as fast as it can, with the first of the delays.
    fn setup(&self, lookup: Lookup) -> Setup {
        Setup {
            lookup,
            frame_bytes: SMALL,
            paths: self.workers,
            workers: self.workers,
            delay_max: self.ranges.delays[0],
            batch: self.ranges.batch,
            offered_pps: None,
            has_io: true,
        }
    }

    /// Who can look up on this machine.
    fn lookups(&self) -> Vec<Lookup> {
        let of_device = [Algorithm::Turbo, Algorithm::Tuple, Algorithm::Bloom].map(Lookup::Device);
        let all = [Lookup::Cores, Lookup::Auto].into_iter().chain(of_device);
        all.filter(|lookup| self.bed.device.is_some() || !lookup.has_device()).collect()
    }

    /// Checks a switch if it was not checked before, and measures it.
    fn run(&mut self, figure: &'static str, setup: Setup) -> anyhow::Result<Row> {
        if interrupt::is_ended() {
            anyhow::bail!("interrupted");
        }
        let Setup { lookup, frame_bytes, delay_max, paths, .. } = setup;
        self.progress.say(format!(
            "{figure}: {}, {frame_bytes} bytes, {} us",
            lookup.name(),
            delay_max.as_micros()
        ));
        let checked = (lookup, frame_bytes, paths);
        if !self.checked.contains(&checked) {
            check(&mut self.bed, &setup)?;
            self.checked.push(checked);
        }
        let measured = measure(&mut self.bed, &setup, self.effort)?;
        Ok(row(figure, &setup, &measured))
    }

    /// Snap's table 2: forwarding without lookups.
    ///
    /// # Errors
    /// Those of the switch; wrong results.
    pub fn table_2(&mut self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (whose, what, paths, threads) in TABLE_2 {
            let workers = threads.unwrap_or(self.workers).min(self.workers);
            let paths = paths.max(workers);
            let setup = Setup { paths, workers, ..self.setup(Lookup::Forward) };
            let mut row = self.run("table 2", setup)?;
            let value = what.replace(", ", " ");
            row.paper = stated("table2", &value, whose, "end-to-end").map(Paper::Gbps);
            row.note = format!("{whose}: {what}");
            rows.push(row);
        }
        Ok(rows)
    }

    /// Snap's section 4.4: latency of batches without a delay bound.
    ///
    /// # Errors
    /// Those of the switch; wrong results.
    pub fn latency(&mut self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (batch, gbps) in SNAP_LOADS {
            for lookup in [Lookup::Cores, Lookup::Device(Algorithm::Turbo)] {
                if !self.has(lookup) {
                    continue;
                }
                let mut setup = Setup { batch, delay_max: NO_DELAY_MAX, ..self.setup(lookup) };
                setup.offered_pps = Some(setup.pps(gbps));
                let mut row = self.run("4.4", setup)?;
                let kind = if lookup == Lookup::Cores { "cpu" } else { "end-to-end" };
                row.paper = stated("latency", &batch.to_string(), "mean", kind).map(Paper::MeanUs);
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn has(&self, lookup: Lookup) -> bool {
        self.lookups().contains(&lookup)
    }

    /// GSwitch's figure 10: a load, by frame size and delay bound; also by other lookups, with the
    /// first delay bound.
    ///
    /// # Errors
    /// Those of the switch; wrong results.
    pub fn figure_10(&mut self) -> anyhow::Result<Vec<Row>> {
        let Ranges { rates, sizes, delays, .. } = self.ranges.clone();
        let bloom = Lookup::Device(Algorithm::Bloom);
        let all = [bloom, Lookup::Device(Algorithm::Turbo), Lookup::Auto, Lookup::Cores];
        let lookups: Vec<Lookup> = all.into_iter().filter(|lookup| self.has(*lookup)).collect();
        let mut rows = Vec::new();
        for gbps in rates {
            for &lookup in &lookups {
                let delays = if lookup == bloom { &delays } else { &delays[..1] };
                for &frame_bytes in &sizes {
                    for &delay_max in delays {
                        let mut setup = Setup { frame_bytes, delay_max, ..self.setup(lookup) };
                        setup.offered_pps = Some(setup.pps(gbps));
                        let mut row = self.median_run("10", setup)?;
                        let value = format!("{gbps}/{frame_bytes}/{}", delay_max.as_micros());
                        let paper = stated("10", &value, lookup.name(), "end-to-end");
                        row.paper = paper.map(Paper::Gbps);
                        rows.push(row);
                    }
                }
            }
        }
        Ok(rows)
    }

    /// The run with the median p99 of several, each of a switch of its own.
    fn median_run(&mut self, figure: &'static str, setup: Setup) -> anyhow::Result<Row> {
        let mut runs = Vec::with_capacity(LOADED_RUNS);
        for _ in 0..LOADED_RUNS {
            runs.push(self.run(figure, setup)?);
        }
        let p99 = |row: &Row| row.latency.as_ref().map_or(f64::INFINITY, |latency| latency.p99_us);
        runs.sort_by(|a, b| p99(a).total_cmp(&p99(b)));
        Ok(runs.swap_remove(LOADED_RUNS / 2))
    }

    /// GSwitch's figure 11: the highest throughput by delay bound, with input and output and
    /// without, and by frame size.
    ///
    /// # Errors
    /// Those of the switch; wrong results.
    pub fn figure_11(&mut self) -> anyhow::Result<Vec<Row>> {
        let Ranges { sizes, delays, .. } = self.ranges.clone();
        let mut rows = Vec::new();
        for lookup in self.lookups() {
            for &delay_max in delays_of(lookup, &delays) {
                for has_io in [true, false] {
                    let setup = Setup { delay_max, has_io, ..self.setup(lookup) };
                    rows.push(self.run("11", setup)?);
                }
            }
            for &frame_bytes in sizes.iter().filter(|&&bytes| bytes != SMALL) {
                rows.push(self.run("11", Setup { frame_bytes, ..self.setup(lookup) })?);
            }
        }
        for row in &mut rows {
            let kind = if row.has_io { "end-to-end" } else { "without-io" };
            let value = row.frame_bytes.to_string();
            row.paper = stated("11", &value, row.lookup, kind).map(Paper::Gbps);
        }
        Ok(rows)
    }
}

/// The delay bounds that matter to `lookup`: without batches nothing waits.
fn delays_of(lookup: Lookup, delays: &[Duration]) -> &[Duration] {
    if lookup.has_device() { delays } else { &delays[..1] }
}

fn row(figure: &'static str, setup: &Setup, measured: &Measured) -> Row {
    let is_batched = setup.lookup.has_device();
    Row {
        figure,
        lookup: setup.lookup.name(),
        paths: setup.paths,
        workers: setup.workers,
        has_io: setup.has_io,
        frame_bytes: setup.frame_bytes,
        delay_max_us: is_batched.then_some(setup.delay_max.as_micros() as u64),
        batch: is_batched.then_some(setup.batch),
        offered_gbps: setup.offered_pps.map(|pps| rounded(setup.gbps(pps), 3)),
        mpps: rounded(measured.pps / 1e6, 4),
        gbps: rounded(setup.gbps(measured.pps), 3),
        missed_ratio: rounded(measured.missed_ratio, 6),
        latency: measured.latency,
        paper: None,
        note: String::new(),
    }
}
