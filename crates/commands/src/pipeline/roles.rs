//! The pipeline of Storm: some workers run the cache, some the engine, one thread evolves rules.
//!
//! ```text
//!            ┌─► ring ─► worker, cache ──┬─ all hit ─────────────────► ring ─┐
//!   reader ──┤                           └─ misses ─► ring ─► worker, full ──┼─► writer
//!      ▲     └─► ring ─► worker, cache …                                     ┘     │
//!      │                       samples └─► updater ─► roles, cached rules          │
//!      └───────────────────── empty batches ───────────────────────────────────────┘
//! ```
//! A batch whose misses take the slow stage may be overtaken. The writer puts batches back in the
//! order of the input: it holds at most as many as go round. So packets of a flow keep their order.
//!
//! # Invariants
//! - P1: a worker that waits for room in a ring of misses serves its own misses meanwhile, so no
//!   ring of workers waits for each other.
//! - P2: the writer never waits with a job in hand that another one needs, so finished jobs always
//!   find room in the end.
//! - P3: when the reader is done, it publishes the number of jobs; after the last one the writer
//!   stops all threads. A thread that panics stops them too.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use warpswitch_classify::Classifier;
use warpswitch_flow::exchange::{Backlog, ExchangePort, exchange};
use warpswitch_flow::model::Delays;
use warpswitch_flow::partition::{Balancer, ModelBalancer};
use warpswitch_flow::{Assignment, CachedClassifier, Partition, Role, Roles};
use warpswitch_packet::sync::{RingConsumer, RingProducer, ring};
use warpswitch_rules::RuleId;

use super::{BATCHES_QUEUED, Finished, Job, Late, RunResult, print_answers, read, write};
use crate::output::Output;
use crate::packets::Source;
use crate::tally::Tally;
use crate::threads::{self, Backoff};

/// Keys of a batch between two samples at the earliest: a slot takes the last offer only.
const KEYS_AT_ONCE: usize = 256;

/// Time between two looks at the roles.
const BALANCE_EVERY: Duration = Duration::from_millis(2);

/// Keys that each stage must have seen since the last look before the model is used.
const MODEL_KEYS_MIN: u64 = 10_000;

/// Keys, and the time that they took.
#[derive(Debug, Default)]
struct StageTime {
    ns: AtomicU64,
    keys: AtomicU64,
}

impl StageTime {
    fn add(&self, keys: usize, took: Duration) {
        self.ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        self.keys.fetch_add(keys as u64, Ordering::Relaxed);
    }

    fn read(&self) -> (u64, u64) {
        (self.ns.load(Ordering::Relaxed), self.keys.load(Ordering::Relaxed))
    }
}

/// What the threads share.
struct Shared<'a> {
    classifier: &'a CachedClassifier,
    roles: Roles,
    assignment: Assignment,
    backlog: &'a Backlog,
    name: &'a str,
    with_text: bool,
    stop: AtomicBool,
    /// Jobs that the reader has sent, once it is done.
    jobs: AtomicUsize,
    cache_time: StageTime,
    full_time: StageTime,
    updater_time: StageTime,
}

impl Shared<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn report(&self) -> RolesResult {
        let time = |stage: &StageTime| Duration::from_nanos(stage.read().0);
        RolesResult {
            partition: self.roles.partition(),
            changes: self.roles.changes(),
            cache: time(&self.cache_time),
            full: time(&self.full_time),
            updater: time(&self.updater_time),
        }
    }
}

/// Stops all threads when the one that holds it ends.
struct StopsAll<'a>(&'a AtomicBool);

impl Drop for StopsAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The same only if the thread panics.
struct StopsAllOnPanic<'a>(&'a AtomicBool);

impl Drop for StopsAllOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// Number of threads by role, and their processing times.
#[derive(Clone, Debug)]
pub struct RolesResult {
    /// The partition at the end.
    pub partition: Partition,
    /// How often roles changed.
    pub changes: usize,
    /// Time in the cache, all workers together.
    pub cache: Duration,
    /// Time in the engine, all workers together.
    pub full: Duration,
    /// Time of the updater spent on samples.
    pub updater: Duration,
}

/// The partition of a run at its start, given so many threads for all roles.
pub fn partition_at_start(assignment: Assignment, threads: usize) -> Option<Partition> {
    match assignment {
        Assignment::Fold => None,
        Assignment::Static(partition) => Some(partition),
        Assignment::Dynamic | Assignment::Auto => {
            let workers = threads.saturating_sub(1).max(2);
            Some(Partition::of(workers.div_ceil(2), workers / 2))
        }
    }
}

/// Classifies everything from `source` as [`run`](super::run) does, by workers with roles.
///
/// # Errors
/// As [`run`](super::run).
pub fn run(
    classifier: &CachedClassifier,
    (assignment, start): (Assignment, Partition),
    source: &mut Source,
    output: &mut Output,
    progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<(RunResult, RolesResult)> {
    let workers = start.workers();
    let jobs = workers * (2 * BATCHES_QUEUED + 1) + 2;
    let (empty_in, empty_out) = Job::channel(classifier.schema(), jobs);
    let (ports, backlog) = exchange(workers, BATCHES_QUEUED);
    let name = source.name().to_owned();
    let with_text = output.is_somewhere();
    let shared = &Shared {
        classifier,
        roles: Roles::new(start),
        assignment,
        backlog: &backlog,
        name: &name,
        with_text,
        stop: AtomicBool::new(false),
        jobs: AtomicUsize::new(usize::MAX),
        cache_time: StageTime::default(),
        full_time: StageTime::default(),
        updater_time: StageTime::default(),
    };
    let result = thread::scope(|scope| {
        let _stops = StopsAllOnPanic(&shared.stop);
        let (mut to_workers, mut from_workers, mut handles) = (Vec::new(), Vec::new(), Vec::new());
        for (idx, port) in ports.into_iter().enumerate() {
            let (in_tx, input) = ring(BATCHES_QUEUED);
            let (done, out_rx) = ring(jobs);
            to_workers.push(in_tx);
            from_workers.push(out_rx);
            let tally = Tally::new(classifier.len());
            let worker = Worker { shared, idx, port, input, done, tally, is_good: true };
            handles.push(scope.spawn(move || {
                threads::pin(idx);
                worker.work()
            }));
        }
        scope.spawn(move || {
            threads::pin(workers);
            update(shared);
        });
        let writer = scope.spawn(move || {
            let _stops = StopsAll(&shared.stop);
            let finished = Reordered { shared, from_workers, early: VecDeque::new(), turn: 0 };
            write(output, finished, empty_in, progress)
        });
        let (mut sent, mut next) = (0, 0);
        let read = read(source, empty_out, |job| {
            let is_sent = send(shared, &mut to_workers, &mut next, job);
            sent += usize::from(is_sent);
            is_sent
        });
        // P3. Partner: `Reordered::next`.
        shared.jobs.store(sent, Ordering::Release);
        let written = writer.join().map_err(|_| anyhow!("the writer thread failed"))?;
        let mut tally = Tally::new(classifier.len());
        for handle in handles {
            tally.add(&handle.join().map_err(|_| anyhow!("a worker thread failed"))?);
        }
        let digest = written?;
        read?;
        anyhow::Ok(RunResult { tally, digest })
    })?;
    Ok((result, shared.report()))
}

/// Sends a job to a cache worker with room, in turns; false once all threads stop.
fn send(shared: &Shared<'_>, to: &mut [RingProducer<Job>], next: &mut usize, job: Job) -> bool {
    let mut job = job;
    let mut backoff = Backoff::default();
    while !shared.is_stopped() {
        let cache = shared.roles.partition().cache();
        for _ in 0..cache {
            *next += 1;
            match to[*next % cache].push(job) {
                Ok(()) => return true,
                Err(refused) => job = refused,
            }
        }
        backoff.wait();
    }
    false
}

/// A thread with either role.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    idx: usize,
    port: ExchangePort<Job>,
    input: RingConsumer<Job>,
    done: RingProducer<Job>,
    tally: Tally,
    /// Whether no line was bad so far.
    is_good: bool,
}

impl Worker<'_> {
    /// Serves both queues until all threads stop. Roles only decide who fills which queue.
    fn work(mut self) -> Tally {
        let stop = &self.shared.stop;
        let _stops = StopsAllOnPanic(stop);
        let mut backoff = Backoff::default();
        loop {
            let job = match self.shared.roles.role(self.idx) {
                Role::Cache => self.input.pop().map(|job| (job, true)),
                Role::Full => None,
            };
            let job = job.or_else(|| self.port.pop().map(|job| (job, false)));
            match job.or_else(|| self.input.pop().map(|job| (job, true))) {
                Some((job, true)) => self.look_up_cached(job),
                Some((job, false)) => self.resolve(job),
                None if self.shared.is_stopped() => return self.tally,
                None => {
                    backoff.wait();
                    continue;
                }
            }
            backoff = Backoff::default();
        }
    }

    fn look_up_cached(&mut self, mut job: Job) {
        job.errors = job.batch.make_keys(self.shared.name).err();
        job.text.clear();
        job.misses.clear();
        self.is_good &= job.errors.is_none();
        if !self.is_good {
            return self.finish(job);
        }
        let batch = &mut job.batch;
        batch.winners.resize(batch.keys.len(), RuleId::NONE);
        let began = Instant::now();
        let keys = batch.keys.as_batch();
        for start in (0..keys.len()).step_by(KEYS_AT_ONCE) {
            let end = keys.len().min(start + KEYS_AT_ONCE);
            let winners = &mut batch.winners[start..end];
            self.shared.classifier.look_up_cached(keys.slice(start, end), winners, &mut job.misses);
        }
        let took = began.elapsed();
        self.shared.cache_time.add(keys.len(), took);
        self.tally.lookup_time += took;
        if job.misses.is_empty() { self.count(job) } else { self.send_misses(job) }
    }

    /// P1.
    fn send_misses(&mut self, job: Job) {
        let mut job = job;
        let mut backoff = Backoff::default();
        while !self.shared.is_stopped() {
            match self.port.push(self.shared.roles.full_workers(), job) {
                Ok(()) => return,
                Err(refused) => job = refused,
            }
            match self.port.pop() {
                Some(other) => self.resolve(other),
                None => backoff.wait(),
            }
        }
    }

    fn resolve(&mut self, mut job: Job) {
        let began = Instant::now();
        let keys = job.misses.len();
        self.shared.classifier.resolve(&mut job.misses, &mut job.batch.winners);
        let took = began.elapsed();
        self.shared.full_time.add(keys, took);
        self.tally.lookup_time += took;
        self.count(job);
    }

    /// Counts and prints answers.
    fn count(&mut self, mut job: Job) {
        self.tally.count_batch(&job.batch);
        if self.shared.with_text {
            print_answers(&job.batch, &mut job.text);
        }
        self.finish(job);
    }

    fn finish(&mut self, job: Job) {
        // P2: the ring has room for all jobs.
        if self.done.push(job).is_err() {
            assert!(self.done.is_closed(), "P2: room for all jobs");
        }
    }
}

/// Finished jobs, put in the order of the input.
struct Reordered<'a> {
    shared: &'a Shared<'a>,
    from_workers: Vec<RingConsumer<Job>>,
    /// Jobs that came before their turn, by turn from `turn` on.
    early: VecDeque<Option<Job>>,
    turn: usize,
}

impl Finished for Reordered<'_> {
    fn next(&mut self, wait: Option<Duration>) -> Result<Option<Job>, Late> {
        let began = Instant::now();
        let mut backoff = Backoff::default();
        loop {
            if let Some(Some(_)) = self.early.front() {
                self.turn += 1;
                return Ok(self.early.pop_front().flatten());
            }
            // Partner: the store after the last job was sent.
            let is_last = self.shared.jobs.load(Ordering::Acquire) == self.turn;
            let mut is_idle = true;
            for idx in 0..self.from_workers.len() {
                while let Some(job) = self.from_workers[idx].pop() {
                    is_idle = false;
                    let at = job.turn - self.turn;
                    if self.early.len() <= at {
                        self.early.resize_with(at + 1, || None);
                    }
                    self.early[at] = Some(job);
                }
            }
            if is_last || is_idle && self.shared.is_stopped() {
                return Ok(None);
            }
            if is_idle {
                if wait.is_some_and(|wait| began.elapsed() > wait) {
                    return Err(Late);
                }
                backoff.wait();
            }
        }
    }
}

/// Evolves rules and changes roles until all threads stop.
fn update(shared: &Shared<'_>) {
    let _stops = StopsAllOnPanic(&shared.stop);
    let mut backoff = Backoff::default();
    let mut rebalance = Rebalance::new();
    while !shared.is_stopped() {
        let began = Instant::now();
        if shared.classifier.cache().evolve() {
            shared.updater_time.add(1, began.elapsed());
            backoff = Backoff::default();
        } else {
            backoff.wait();
        }
        rebalance.run_if_due(shared);
    }
}

/// The updater's view of the roles.
struct Rebalance {
    due: Instant,
    balancer: Balancer,
    model: ModelBalancer,
    /// Nanoseconds and keys of both stages at the last look of the model.
    seen: [(u64, u64); 2],
}

impl Rebalance {
    fn new() -> Self {
        let (balancer, model) = (Balancer::default(), ModelBalancer);
        Self { due: Instant::now() + BALANCE_EVERY, balancer, model, seen: [(0, 0); 2] }
    }

    fn run_if_due(&mut self, shared: &Shared<'_>) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + BALANCE_EVERY;
        let partition = shared.roles.partition();
        let next = match shared.assignment {
            Assignment::Dynamic => {
                let full = shared.roles.full_workers();
                let free = shared.backlog.free_share(partition.cache(), full);
                self.balancer.observe(partition, free)
            }
            Assignment::Auto => {
                self.delays(shared).and_then(|delays| self.model.observe(partition, &delays))
            }
            Assignment::Fold | Assignment::Static(_) => None,
        };
        if let Some(next) = next {
            shared.roles.change(next);
        }
    }

    /// Delays and hit ratio since the last look, once there are enough keys.
    fn delays(&mut self, shared: &Shared<'_>) -> Option<Delays> {
        let now = [shared.cache_time.read(), shared.full_time.read()];
        let since = |at: usize| (now[at].0 - self.seen[at].0, now[at].1 - self.seen[at].1);
        let ((cache_ns, cache_keys), (full_ns, full_keys)) = (since(0), since(1));
        if cache_keys < MODEL_KEYS_MIN || full_keys == 0 {
            return None;
        }
        self.seen = now;
        let hit_ratio = 1.0 - (full_keys as f64 / cache_keys as f64).min(1.0);
        Some(Delays {
            cache_ns: cache_ns as f64 / cache_keys as f64,
            full_ns: full_ns as f64 / full_keys as f64,
            hit_ratio,
        })
    }
}
