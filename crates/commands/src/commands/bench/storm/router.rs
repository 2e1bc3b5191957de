//! A router of threads under paced traffic, and the highest rate at which it loses nothing.
//!
//! ```text
//! arrivals ─► cache worker ─┬─ hits: done
//!   │ full: lost            └─ misses ─► ring ─► full worker: done ─► empty message back
//!   │                  └─► samples ─► updater      │ full: lost
//! ```
//! Without a cache every worker classifies with an engine of its own. In the folded form every
//! worker does everything. Packets arrive at fixed times at each receiving worker, see
//! [`arrivals`](super::arrivals); with [`Pace::Flat`] workers take the next ones at once, wait for
//! room in rings, and lose nothing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpswitch_flow::exchange::{Backlog, exchange};
use warpswitch_flow::model::Delays;
use warpswitch_flow::{Partition, Roles, StormCache};

use super::defs::{Experiments, RulesUnderTest};
use super::traffic::Traffic;
use super::worker::{Worker, WorkerCounts, update, wait};
use crate::threads;

/// Time between two calls of a watcher.
const WATCH_EVERY: Duration = Duration::from_micros(250);

/// Time that threads run before a run with a fixed time counts: the caches of their cores fill.
const WARM_UP: Duration = Duration::from_millis(2);

/// Runs of a rate before it counts as lossy.
const TRIES: usize = 3;

/// Share of the offered packets that a lossless run handles in wall time, at least.
const DONE_MIN: f64 = 0.95;

/// What the threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// So many copies of the engine.
    Plain(usize),
    /// Storm, every worker with all roles.
    Fold(usize),
    /// Storm with fixed roles.
    Static(Partition),
    /// Storm with roles that follow the queues.
    Dynamic(Partition),
}

impl Layout {
    /// Name, as in the paper.
    pub fn name(self) -> String {
        match self {
            Self::Plain(workers) => format!("HyperCuts-{workers}"),
            Self::Fold(workers) => format!("Storm fold-{workers}"),
            Self::Static(partition) => format!("Storm {partition}"),
            Self::Dynamic(_) => "Storm dynamic".to_owned(),
        }
    }

    pub fn workers(self) -> usize {
        match self {
            Self::Plain(workers) | Self::Fold(workers) => workers,
            Self::Static(partition) | Self::Dynamic(partition) => partition.workers(),
        }
    }

    /// Whether one more thread evolves rules.
    pub fn has_updater(self) -> bool {
        matches!(self, Self::Static(_) | Self::Dynamic(_))
    }
}

/// How packets arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Packets a second, whatever becomes of them.
    Rate(f64),
    /// As fast as workers take them.
    Flat,
}

/// What a watcher wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Go on.
    On,
    /// Go on with the traffic after the shift.
    Shift,
    /// End the run.
    End,
}

/// A router to measure.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    pub experiments: &'a Experiments,
    pub rules: &'a RulesUnderTest,
    /// The traffic, and that after a shift.
    pub traffic: [Traffic<'a>; 2],
    /// Packets that the receive queue of a worker holds.
    pub queue_len: usize,
    pub layout: Layout,
    /// The cache, for the layouts of Storm.
    pub cache: Option<&'a StormCache>,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunCounts {
    pub lost: u64,
    pub done: u64,
    pub took: Duration,
    /// Interruptions of workers, together.
    pub interrupted: Duration,
    /// Times of both stages, as far as they were measured, and the hit ratio.
    pub delays: Option<Delays>,
}

impl RunCounts {
    /// Packets a second that were classified.
    pub fn rate(&self) -> f64 {
        self.done as f64 / self.took.as_secs_f64().max(1e-9)
    }

    fn is_lossless(&self, rate: f64) -> bool {
        self.lost == 0 && self.rate() >= DONE_MIN * rate
    }
}

/// What the threads share.
pub struct Shared<'a> {
    pub bench: Bench<'a>,
    pub roles: Roles,
    pub backlog: &'a Backlog,
    pub pace: Pace,
    /// Threads that run. Packets arrive from when all do.
    running: AtomicUsize,
    /// Workers count from then on. The cache's counts of hits contain what came before.
    counts_from: OnceLock<Instant>,
    /// The run has ended.
    pub stop: AtomicBool,
    /// Whether traffic has shifted.
    pub shifted: AtomicBool,
    pub cursor: Cursor,
}

impl Shared<'_> {
    /// Waits, as one of the threads, until all of them run: a router whose engine has no core yet
    /// loses packets. Returns when counts begin.
    fn wait_for_start(&self) -> Instant {
        self.running.fetch_add(1, Ordering::Relaxed);
        let mut idle = 0;
        loop {
            match self.counts_from.get() {
                Some(from) => return *from,
                None => wait(&mut idle),
            }
        }
    }

    /// Starts the run as soon as so many threads run. Returns when counts begin.
    fn start(&self, threads: usize, warm_up: Duration) -> Instant {
        let mut idle = 0;
        while self.running.load(Ordering::Relaxed) < threads {
            wait(&mut idle);
        }
        *self.counts_from.get_or_init(|| Instant::now() + warm_up)
    }
}

/// The turn of the next part of the trace, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Cursor(pub AtomicUsize);

impl Bench<'_> {
    /// Runs for a time; `watch` is called now and then with the time since the start.
    pub fn run(
        &self,
        pace: Pace,
        time: Duration,
        watch: &mut dyn FnMut(Duration) -> Watch,
    ) -> RunCounts {
        self.run_while(pace, Duration::ZERO, |shared, _| watch_run(shared, time, watch))
    }

    /// The same after a warm-up, without a watcher, which would take a worker's core now and then.
    pub fn run_for(&self, pace: Pace, time: Duration) -> RunCounts {
        self.run_while(pace, WARM_UP, |_, counts_from| {
            thread::sleep(time + counts_from.saturating_duration_since(Instant::now()));
            counts_from.elapsed()
        })
    }

    /// Runs until `watch` returns with the time of the run.
    fn run_while(
        &self,
        pace: Pace,
        warm_up: Duration,
        watch: impl FnOnce(&Shared<'_>, Instant) -> Duration,
    ) -> RunCounts {
        let workers = self.layout.workers();
        let start = match self.layout {
            Layout::Plain(workers) | Layout::Fold(workers) => Partition::of(workers, 1),
            Layout::Static(partition) | Layout::Dynamic(partition) => partition,
        };
        let messages = self.experiments.queue_keys / self.experiments.miss_keys;
        let (ports, backlog) = exchange(start.workers(), messages.max(2));
        let shared = Shared {
            bench: *self,
            roles: Roles::new(start),
            backlog: &backlog,
            pace,
            running: AtomicUsize::new(0),
            counts_from: OnceLock::new(),
            stop: AtomicBool::new(false),
            shifted: AtomicBool::new(false),
            cursor: Cursor::default(),
        };
        let shared = &shared;
        let before = self.cache.map(StormCache::counts);
        let (took, all) = thread::scope(|scope| {
            let mut handles = Vec::new();
            for (idx, port) in ports.into_iter().take(workers).enumerate() {
                handles.push(scope.spawn(move || {
                    threads::pin(idx);
                    let counts_from = shared.wait_for_start();
                    Worker::new(shared, idx, port, counts_from).work()
                }));
            }
            if self.layout.has_updater() {
                scope.spawn(move || {
                    threads::pin(workers);
                    shared.wait_for_start();
                    update(shared);
                });
            }
            let threads = workers + usize::from(self.layout.has_updater());
            let took = watch(shared, shared.start(threads, warm_up));
            shared.stop.store(true, Ordering::Release);
            let join = |handle: thread::ScopedJoinHandle<'_, _>| handle.join();
            let all = handles.into_iter().map(|h| join(h).expect("a worker does not panic"));
            (took, WorkerCounts::sum(all))
        });
        let hits = self.cache.zip(before).map(|(cache, (hits, misses))| {
            let after = cache.counts();
            let (hits, misses) = (after.0 - hits, after.1 - misses);
            hits as f64 / (hits + misses).max(1) as f64
        });
        RunCounts {
            lost: all.lost,
            done: all.done,
            took,
            interrupted: all.interrupted,
            delays: hits.and_then(|hit_ratio| all.delays(hit_ratio)),
        }
    }

    /// The highest rate without loss, in packets a second, and a run without pace; the first is
    /// none if packets are lost at any rate that was tried. `steps` halves the range of rates.
    pub fn throughput(&self, time: Duration, steps: usize) -> (Option<f64>, RunCounts) {
        // Fills the cache.
        self.run_for(Pace::Flat, time);
        let flat = self.run_for(Pace::Flat, time);
        let is_lossless =
            |rate: f64| (0..TRIES).any(|_| self.run_for(Pace::Rate(rate), time).is_lossless(rate));
        let (mut low, mut high) = (0.0, 1.1 * flat.rate());
        for step in 0..steps {
            // The result is mostly near the rate without pace.
            let rate = if step == 0 { 0.75 * high } else { (low + high) / 2.0 };
            if is_lossless(rate) { low = rate } else { high = rate }
        }
        ((low > 0.0).then_some(low), flat)
    }
}

/// Waits for the end of a run; the time that it took.
fn watch_run(
    shared: &Shared<'_>,
    time: Duration,
    watch: &mut dyn FnMut(Duration) -> Watch,
) -> Duration {
    let began = Instant::now();
    loop {
        thread::sleep(WATCH_EVERY);
        let now = began.elapsed();
        match watch(now) {
            Watch::Shift => shared.shifted.store(true, Ordering::Relaxed),
            Watch::On if now < time => {}
            Watch::On | Watch::End => return now,
        }
    }
}
