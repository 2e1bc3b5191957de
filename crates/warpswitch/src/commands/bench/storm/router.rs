//! A router of threads fed by a paced source, and the highest rate at which it loses nothing.
//!
//! ```text
//! source ─► ring ─► cache worker ─┬─ hits: done
//!   │ full: lost       │          └─ misses ─► ring ─► full worker: done
//!   │                  └─► samples ─► updater        │ full: lost
//! ```
//! Without a cache every worker classifies. The source offers batches at fixed times and never
//! waits; with [`Pace::Flat`] it waits for room instead, and nothing is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpswitch_flow::exchange::{Backlog, ExchangePort, exchange};
use warpswitch_flow::partition::Balancer;
use warpswitch_flow::{Answer, Misses, Partition, Role, Roles, StormCache};
use warpswitch_packet::sync::{RingConsumer, RingProducer, ring};
use warpswitch_rules::{KeyBuf, RuleId};

use super::defs::{Experiments, RulesUnderTest};
use crate::threads;

/// Looks without work before a worker yields its core.
const SPINS: u32 = 200;

/// Time between two looks at the roles.
const BALANCE_EVERY: Duration = Duration::from_micros(500);

/// What the threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// So many copies of the engine.
    Plain(usize),
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
            Self::Static(partition) => format!("Storm {partition}"),
            Self::Dynamic(_) => "Storm dynamic".to_owned(),
        }
    }

    fn workers(self) -> usize {
        match self {
            Self::Plain(workers) => workers,
            Self::Static(partition) | Self::Dynamic(partition) => partition.workers(),
        }
    }
}

/// How the source sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Packets a second, whatever becomes of them.
    Rate(f64),
    /// As fast as queues have room.
    Flat,
}

/// A router to measure.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    pub experiments: &'a Experiments,
    pub rules: &'a RulesUnderTest,
    pub keys: &'a KeyBuf,
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
}

impl RunCounts {
    /// Packets a second that were classified.
    pub fn rate(&self) -> f64 {
        self.done as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// What the threads share.
struct Shared<'a> {
    bench: Bench<'a>,
    roles: Roles,
    backlog: &'a Backlog,
    pace: Pace,
    /// The source has ended.
    stop: AtomicBool,
    lost: AtomicU64,
    done: AtomicU64,
}

/// A batch: the number of its first key.
type FirstKey = usize;

impl Bench<'_> {
    /// Runs for a time; `watch` is called now and then and ends the run early by returning true.
    pub fn run(&self, pace: Pace, time: Duration, watch: &(dyn Fn() -> bool + Sync)) -> RunCounts {
        let workers = self.layout.workers();
        let batch = self.experiments.batch_keys;
        // A plain router has one kind of queue: each worker has its own.
        let (start, inputs) = match self.layout {
            Layout::Plain(workers) => (Partition::of(workers, 1), workers),
            Layout::Static(partition) => (partition, partition.cache()),
            Layout::Dynamic(partition) => (partition, partition.workers()),
        };
        let ring_len = |rings: usize| (self.experiments.queue_keys / batch / rings).max(2);
        let exchange_len = ring_len(start.cache() * start.full());
        let (ports, backlog) = exchange(workers.max(2), exchange_len);
        let shared = Shared {
            bench: *self,
            roles: Roles::new(start),
            backlog: &backlog,
            pace,
            stop: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            done: AtomicU64::new(0),
        };
        let shared = &shared;
        let took = thread::scope(|scope| {
            let mut to = Vec::new();
            for (idx, port) in ports.into_iter().take(workers).enumerate() {
                let (producer, input) = ring(ring_len(inputs));
                to.push(producer);
                let worker = Worker::new(shared, idx, port, input);
                scope.spawn(move || {
                    threads::pin(idx);
                    worker.work();
                });
            }
            if self.cache.is_some() {
                scope.spawn(move || {
                    threads::pin(workers);
                    update(shared);
                });
            }
            let source = scope.spawn(move || {
                threads::pin(workers + 1);
                let took = send(shared, &mut to, time, watch);
                shared.stop.store(true, Ordering::Release);
                took
            });
            source.join().expect("the source does not panic")
        });
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RunCounts { lost: read(&shared.lost), done: read(&shared.done), took }
    }

    /// The highest rate without loss, in packets a second, and the rate with waiting; the first is
    /// none if packets are lost at any rate that was tried. `steps` halves the range of rates.
    pub fn throughput(&self, time: Duration, steps: usize) -> (Option<f64>, f64) {
        let never = || false;
        // Fills the cache.
        self.run(Pace::Flat, time, &never);
        let flat = self.run(Pace::Flat, time, &never).rate();
        // A second try forgives one interruption of a thread.
        let is_lossless =
            |rate: f64| (0..2).any(|_| self.run(Pace::Rate(rate), time, &never).lost == 0);
        let (mut low, mut high) = (0.0, 1.2 * flat);
        for _ in 0..steps {
            let rate = (low + high) / 2.0;
            if is_lossless(rate) { low = rate } else { high = rate }
        }
        ((low > 0.0).then_some(low), flat)
    }
}

/// Sends batches until the time is over; the time that it took.
fn send(
    shared: &Shared<'_>,
    to: &mut [RingProducer<FirstKey>],
    time: Duration,
    watch: &dyn Fn() -> bool,
) -> Duration {
    let batch = shared.bench.experiments.batch_keys;
    let batches = (shared.bench.keys.len() / batch).max(1);
    let pace = shared.pace;
    let began = Instant::now();
    let (mut sent, mut next, mut at) = (0, 0, 0usize);
    let mut idle = 0;
    loop {
        let now = began.elapsed();
        if now >= time || at.is_multiple_of(64) && watch() {
            return now;
        }
        if let Pace::Rate(rate) = pace
            && now.as_secs_f64() * rate < sent as f64
        {
            wait(&mut idle);
            continue;
        }
        let receivers = match shared.bench.layout {
            Layout::Plain(workers) => workers,
            _ => shared.roles.partition().cache(),
        };
        let mut refused = true;
        for _ in 0..receivers {
            next += 1;
            if to[next % receivers].push(at % batches * batch).is_ok() {
                refused = false;
                break;
            }
        }
        if refused && pace == Pace::Flat {
            wait(&mut idle);
            continue;
        }
        idle = 0;
        if refused {
            shared.lost.fetch_add(batch as u64, Ordering::Relaxed);
        }
        sent += batch as u64;
        at += 1;
    }
}

fn wait(idle: &mut u32) {
    *idle += 1;
    if idle.is_multiple_of(SPINS) { thread::yield_now() } else { std::hint::spin_loop() }
}

/// A worker of any layout.
struct Worker<'a> {
    shared: &'a Shared<'a>,
    idx: usize,
    port: ExchangePort<Misses>,
    input: RingConsumer<FirstKey>,
    /// Misses that are collected for one message.
    misses: Misses,
    out: Vec<Answer>,
    winners: Vec<RuleId>,
    done: u64,
}

impl<'a> Worker<'a> {
    fn new(
        shared: &'a Shared<'a>,
        idx: usize,
        port: ExchangePort<Misses>,
        input: RingConsumer<FirstKey>,
    ) -> Self {
        let (out, winners) = (Vec::new(), Vec::new());
        Self { shared, idx, port, input, misses: Misses::default(), out, winners, done: 0 }
    }

    fn work(mut self) {
        let mut idle = 0;
        loop {
            let role = self.shared.roles.role(self.idx);
            let full = if role == Role::Full { self.port.pop() } else { None };
            if let Some(misses) = full {
                self.resolve(misses);
            } else if let Some(first) = self.input.pop() {
                self.look_up(first);
            } else if let Some(misses) = self.port.pop() {
                self.resolve(misses);
            } else if !self.misses.is_empty() {
                self.send_misses();
            } else if self.shared.stop.load(Ordering::Acquire) {
                self.shared.done.fetch_add(self.done, Ordering::Relaxed);
                return;
            } else {
                wait(&mut idle);
                continue;
            }
            idle = 0;
        }
    }

    fn look_up(&mut self, first: FirstKey) {
        let bench = self.shared.bench;
        let batch = bench.experiments.batch_keys;
        let all = bench.keys.as_batch();
        let keys = all.slice(first, (first + batch).min(all.len()));
        self.out.resize(self.out.len().max(keys.len()), Answer::MISS);
        let Some(cache) = bench.cache else {
            self.winners.resize(keys.len(), RuleId::NONE);
            bench.rules.full.classify(keys, &mut self.winners);
            for (out, id) in self.out.iter_mut().zip(&self.winners) {
                *out = bench.rules.answer(*id);
            }
            self.done += keys.len() as u64;
            return;
        };
        let before = self.misses.len();
        cache.look_up_cached(keys, &mut self.out, |answer| answer, &mut self.misses);
        cache.sample_batch(keys, false);
        self.done += (keys.len() - (self.misses.len() - before)) as u64;
        if self.misses.len() >= batch {
            self.send_misses();
        }
    }

    fn send_misses(&mut self) {
        let mut misses = std::mem::take(&mut self.misses);
        let mut idle = 0;
        while let Err(refused) = self.port.push(self.shared.roles.full_workers(), misses) {
            if self.shared.pace != Pace::Flat {
                self.shared.lost.fetch_add(refused.len() as u64, Ordering::Relaxed);
                return;
            }
            // The receivers may have left.
            if self.shared.stop.load(Ordering::Acquire) {
                return;
            }
            misses = refused;
            // A worker that waits serves its own queue, so that no two wait for each other.
            match self.port.pop() {
                Some(other) => self.resolve(other),
                None => wait(&mut idle),
            }
        }
    }

    fn resolve(&mut self, mut misses: Misses) {
        let rules = self.shared.bench.rules;
        let count = misses.len();
        self.out.resize(self.out.len().max(misses.batch_len()), Answer::MISS);
        misses.resolve(&*rules.full, &mut self.out, |id| rules.answer(id));
        self.done += count as u64;
    }
}

/// Evolves rules and moves roles until the source ends.
fn update(shared: &Shared<'_>) {
    let Some(cache) = shared.bench.cache else { return };
    let (mut balancer, mut due, mut idle) = (Balancer::default(), Instant::now(), 0);
    while !shared.stop.load(Ordering::Acquire) {
        if cache.evolve() {
            idle = 0;
        } else {
            wait(&mut idle);
        }
        if matches!(shared.bench.layout, Layout::Dynamic(_)) && due.elapsed() >= BALANCE_EVERY {
            due = Instant::now();
            let partition = shared.roles.partition();
            let full = shared.roles.full_workers();
            let free = shared.backlog.free_share(partition.cache(), full);
            if let Some(next) = balancer.observe(partition, free) {
                shared.roles.change(next);
            }
        }
    }
}
