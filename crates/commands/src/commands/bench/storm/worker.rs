//! The threads of a measured router: workers of all roles, and the updater.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use warpswitch_flow::exchange::ExchangePort;
use warpswitch_flow::model::Delays;
use warpswitch_flow::partition::Balancer;
use warpswitch_flow::{Answer, Misses, Role, StormCache};
use warpswitch_rules::{KeyBatch, RuleId};

use super::arrivals::Arrivals;
use super::router::{Layout, Pace, Shared};

/// Looks without work before a worker yields its core.
const SPINS: u32 = 200;

/// One batch in so many is timed.
const TIMED_EVERY: u32 = 16;

/// Misses wait at most so long for others of the same message.
const FLUSH_AFTER: Duration = Duration::from_micros(20);

/// Time between two looks at the roles.
const BALANCE_EVERY: Duration = Duration::from_micros(500);

/// What a worker did.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerCounts {
    pub lost: u64,
    pub done: u64,
    pub interrupted: Duration,
    /// Nanoseconds and keys of timed batches in the cache and in the engine.
    stages: [(u64, u64); 2],
}

impl WorkerCounts {
    /// Those of all workers.
    pub fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum.lost += one.lost;
            sum.done += one.done;
            sum.interrupted += one.interrupted;
            for (sum, one) in sum.stages.iter_mut().zip(one.stages) {
                *sum = (sum.0 + one.0, sum.1 + one.1);
            }
            sum
        })
    }

    /// The delays for the model, if both stages were timed.
    pub fn delays(&self, hit_ratio: f64) -> Option<Delays> {
        let [cache, full] = self.stages;
        (cache.1 > 0 && full.1 > 0).then(|| Delays {
            cache_ns: cache.0 as f64 / cache.1 as f64,
            full_ns: full.0 as f64 / full.1 as f64,
            hit_ratio,
        })
    }
}

/// A worker of any layout.
pub struct Worker<'a> {
    shared: &'a Shared<'a>,
    idx: usize,
    port: ExchangePort<Misses>,
    arrivals: Arrivals,
    /// The part of the trace that is being read, and whether it is of the traffic after a shift.
    part: Range<usize>,
    is_shifted: bool,
    /// Misses that are collected for one message, since `collected`.
    misses: Misses,
    collected: Instant,
    /// Empty messages that came back.
    spare: Vec<Misses>,
    out: Vec<Answer>,
    winners: Vec<RuleId>,
    batches: u32,
    counts: WorkerCounts,
    /// The end of the warm-up, and whether it is over.
    counts_from: Instant,
    is_counting: bool,
}

impl<'a> Worker<'a> {
    pub fn new(
        shared: &'a Shared<'a>,
        idx: usize,
        port: ExchangePort<Misses>,
        counts_from: Instant,
    ) -> Self {
        let now = Instant::now();
        let batch = shared.bench.experiments.batch_keys;
        Self {
            shared,
            idx,
            port,
            arrivals: Arrivals::new(shared.bench.queue_len, now),
            part: 0..0,
            is_shifted: false,
            misses: Misses::default(),
            collected: now,
            spare: Vec::new(),
            out: vec![Answer::MISS; batch],
            winners: vec![RuleId::NONE; batch],
            batches: 0,
            counts: WorkerCounts::default(),
            counts_from,
            is_counting: false,
        }
    }

    pub fn work(mut self) -> WorkerCounts {
        let mut idle = 0;
        loop {
            if !self.is_counting && Instant::now() >= self.counts_from {
                self.is_counting = true;
                self.counts = WorkerCounts::default();
                self.arrivals.forget_losses();
            }
            let is_full = self.shared.roles.role(self.idx) == Role::Full;
            let is_busy =
                is_full && self.serve_misses() || self.receive() || !is_full && self.serve_misses();
            if is_busy {
                idle = 0;
            } else if self.shared.stop.load(Ordering::Acquire) {
                self.counts.lost += self.arrivals.lost();
                self.counts.interrupted = self.arrivals.interrupted();
                return self.counts;
            } else {
                wait(&mut idle);
            }
        }
    }

    /// Takes packets, if any wait.
    fn receive(&mut self) -> bool {
        if self.shared.stop.load(Ordering::Acquire) {
            return false;
        }
        let now = Instant::now();
        let receivers = match self.shared.bench.layout {
            Layout::Plain(workers) | Layout::Fold(workers) => workers,
            Layout::Static(_) | Layout::Dynamic(_) => self.shared.roles.partition().cache(),
        };
        let is_receiver = self.idx < receivers;
        let batch = self.shared.bench.experiments.batch_keys;
        let count = match self.shared.pace {
            Pace::Rate(rate) => {
                let rate = if is_receiver { rate / receivers as f64 } else { 0.0 };
                self.arrivals.take(now, rate, batch)
            }
            Pace::Flat if is_receiver => batch,
            Pace::Flat => 0,
        };
        let mut left = count;
        while left > 0 {
            left -= self.look_up_part(left, now);
        }
        let is_late = !self.misses.is_empty() && now - self.collected > FLUSH_AFTER;
        if is_late || self.misses.len() >= self.shared.bench.experiments.miss_keys {
            self.send_misses();
        }
        count > 0
    }

    /// Looks up at most `count` keys of the trace; returns how many.
    fn look_up_part(&mut self, count: usize, now: Instant) -> usize {
        let shared = self.shared;
        let is_shifted = shared.shifted.load(Ordering::Relaxed);
        let traffic = &shared.bench.traffic[usize::from(is_shifted)];
        if self.part.is_empty() || is_shifted != self.is_shifted {
            self.part = traffic.part(shared.cursor.0.fetch_add(1, Ordering::Relaxed), now);
            self.is_shifted = is_shifted;
        }
        let first = self.part.start;
        self.part.start = (first + count).min(self.part.end);
        let keys = traffic.keys.slice(first, self.part.start);
        self.batches = self.batches.wrapping_add(1);
        match shared.bench.cache {
            None => self.classify(keys),
            Some(cache) if matches!(shared.bench.layout, Layout::Fold(_)) => self.fold(cache, keys),
            Some(cache) => self.look_up_cached(cache, keys, now),
        }
        keys.len()
    }

    /// The engine alone, a copy for each worker.
    fn classify(&mut self, keys: KeyBatch<'_>) {
        let rules = self.shared.bench.rules;
        rules.copy(self.idx).classify(keys, &mut self.winners);
        for (out, id) in self.out.iter_mut().zip(&self.winners[..keys.len()]) {
            *out = rules.answer(*id);
        }
        self.counts.done += keys.len() as u64;
    }

    /// All roles.
    fn fold(&mut self, cache: &StormCache, keys: KeyBatch<'_>) {
        let rules = self.shared.bench.rules;
        let of_rule = |id| rules.answer(id);
        cache.lookup(rules.copy(self.idx), keys, &mut self.out, |answer| answer, of_rule);
        cache.sample_batch(keys, true);
        self.counts.done += keys.len() as u64;
    }

    fn look_up_cached(&mut self, cache: &StormCache, keys: KeyBatch<'_>, now: Instant) {
        let timed = self.batches.is_multiple_of(TIMED_EVERY).then(Instant::now);
        let before = self.misses.len();
        if before == 0 {
            self.collected = now;
        }
        cache.look_up_cached(keys, &mut self.out, |answer| answer, &mut self.misses);
        cache.sample_batch(keys, false);
        self.counts.done += (keys.len() - (self.misses.len() - before)) as u64;
        self.note_time(0, timed, keys.len());
    }

    fn note_time(&mut self, stage: usize, began: Option<Instant>, keys: usize) {
        if let Some(began) = began {
            let sum = &mut self.counts.stages[stage];
            *sum = (sum.0 + began.elapsed().as_nanos() as u64, sum.1 + keys as u64);
        }
    }

    fn send_misses(&mut self) {
        if self.spare.is_empty() {
            self.serve_misses();
        }
        let spare = self.spare.pop().unwrap_or_default();
        let mut misses = std::mem::replace(&mut self.misses, spare);
        let mut idle = 0;
        while let Err(refused) = self.port.push(self.shared.roles.full_workers(), misses) {
            if self.shared.pace != Pace::Flat {
                self.counts.lost += refused.len() as u64;
                return;
            }
            // The receivers may have left.
            if self.shared.stop.load(Ordering::Acquire) {
                return;
            }
            misses = refused;
            // A worker that waits serves its own queue, so that no two wait for each other.
            if !self.serve_misses() {
                wait(&mut idle);
            }
        }
    }

    /// Classifies a message of misses, if one waits, and sends it back empty: memory that one
    /// thread allocates and another one frees makes them wait for each other.
    fn serve_misses(&mut self) -> bool {
        let Some((sender, mut misses)) = self.port.pop_with_sender() else { return false };
        if misses.is_empty() {
            self.spare.push(misses);
            return true;
        }
        self.batches = self.batches.wrapping_add(1);
        let timed = self.batches.is_multiple_of(TIMED_EVERY).then(Instant::now);
        let rules = self.shared.bench.rules;
        let count = misses.len();
        self.out.resize(self.out.len().max(misses.batch_len()), Answer::MISS);
        misses.resolve(rules.copy(self.idx), &mut self.out, |id| rules.answer(id));
        self.note_time(1, timed, count);
        self.counts.done += count as u64;
        self.arrivals.note_handled(count);
        // Without room it is freed.
        _ = self.port.push(sender..sender + 1, misses);
        true
    }
}

/// Evolves rules and moves roles until the run ends.
pub fn update(shared: &Shared<'_>) {
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

/// One look without work.
pub fn wait(idle: &mut u32) {
    *idle += 1;
    if idle.is_multiple_of(SPINS) { thread::yield_now() } else { std::hint::spin_loop() }
}
