//! Which threads run the cache and which the classifier, and when that changes.
//!
//! ```text
//! workers  0 1 2 3 │ 4 5        4-2-1: workers 0 to 3 run the cache, 4 and 5 the classifier,
//!          cache   │ full       and one more thread is the updater
//!                  ▲
//!        Roles: one number        Balancer, ModelBalancer: the updater moves it
//! ```
//! Threads and clocks belong to the caller. A worker whose role has changed still finishes what
//! waits for it, so a change of roles needs no hand-over and loses nothing.
//!
//! # Difference from the paper
//! It starts as many threads of each kind as there may be, and puts some to sleep. Here each worker
//! can do both, and a thread for each core suffices. The paper prints the two directions of dynamic
//! assignment the other way round; a full queue means that classifiers are the bottleneck.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::model::Delays;

/// The most workers of a partition.
pub const WORKERS_MAX: usize = 256;

/// Workers by role, in the paper's notation `4-2-1`: cache, full classifier, updater.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    cache: usize,
    full: usize,
}

impl Partition {
    /// At least one worker of each kind.
    pub fn of(cache: usize, full: usize) -> Self {
        Self { cache: cache.max(1), full: full.max(1) }
    }

    /// Workers that run the cache.
    pub fn cache(self) -> usize {
        self.cache
    }

    /// Workers that run the classifier.
    pub fn full(self) -> usize {
        self.full
    }

    /// All workers; the updater is one more thread.
    pub fn workers(self) -> usize {
        self.cache + self.full
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-1", self.cache, self.full)
    }
}

/// How work is divided among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// Each thread does everything.
    Fold,
    /// Fixed roles.
    Static(Partition),
    /// Roles follow the free room in the queues.
    Dynamic,
    /// Roles follow the model and measured delays.
    Auto,
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fold => f.write_str("fold"),
            Self::Static(partition) => partition.fmt(f),
            Self::Dynamic => f.write_str("dynamic"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

/// An invalid assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadAssignment;

impl fmt::Display for BadAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected fold, dynamic, auto, or CACHE-ENGINE-1 such as 4-2-1: threads for the cache, \
             threads for the engine, {WORKERS_MAX} at most together, and one that derives rules"
        )
    }
}

impl std::error::Error for BadAssignment {}

impl FromStr for Assignment {
    type Err = BadAssignment;

    fn from_str(text: &str) -> Result<Self, BadAssignment> {
        match text {
            "fold" => return Ok(Self::Fold),
            "dynamic" => return Ok(Self::Dynamic),
            "auto" => return Ok(Self::Auto),
            _ => {}
        }
        let numbers: Result<Vec<usize>, _> = text.split('-').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[cache, full, 1])
                if cache >= 1 && full >= 1 && cache.saturating_add(full) <= WORKERS_MAX =>
            {
                Ok(Self::Static(Partition { cache, full }))
            }
            _ => Err(BadAssignment),
        }
    }
}

/// What a worker does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers hits and passes misses on.
    Cache,
    /// Answers misses.
    Full,
}

/// The roles of running workers, which the updater changes. All accesses are relaxed: a worker that
/// sees a change late does the other work a little longer.
#[derive(Debug)]
pub struct Roles {
    workers: usize,
    cache: AtomicUsize,
    changes: AtomicUsize,
}

impl Roles {
    /// The roles at the start.
    pub fn new(partition: Partition) -> Self {
        let cache = AtomicUsize::new(partition.cache);
        Self { workers: partition.workers(), cache, changes: AtomicUsize::new(0) }
    }

    /// The partition now.
    pub fn partition(&self) -> Partition {
        let cache = self.cache.load(Ordering::Relaxed);
        Partition { cache, full: self.workers - cache }
    }

    /// The role of a worker now.
    pub fn role(&self, worker: usize) -> Role {
        if worker < self.cache.load(Ordering::Relaxed) { Role::Cache } else { Role::Full }
    }

    /// The workers that run the classifier now.
    pub fn full_workers(&self) -> Range<usize> {
        self.cache.load(Ordering::Relaxed)..self.workers
    }

    /// Changes the roles.
    ///
    /// # Panics
    /// If the partition has another number of workers: a caller bug.
    pub fn change(&self, partition: Partition) {
        assert_eq!(partition.workers(), self.workers, "workers of {partition}");
        if self.cache.swap(partition.cache, Ordering::Relaxed) != partition.cache {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often roles have changed.
    pub fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }
}

/// Free room below which classifiers are too few, and above which they are too many: r1 and r2.
const FREE_LOW: f64 = 0.2;
/// See [`FREE_LOW`].
const FREE_HIGH: f64 = 0.8;
/// Observations in a row that a change requires at first.
const VOTES_MIN: u32 = 3;
/// The same after many changes that were soon reversed.
const VOTES_MAX: u32 = 1024;

/// Dynamic assignment by the free room in the queues, one worker at a time.
///
/// Hysteresis: a change needs several observations in a row, and twice as many each time that it
/// reverses the one before. Steady traffic thus settles.
#[derive(Clone, Debug)]
pub struct Balancer {
    /// Observations in a row for more cache workers, or, below 0, for fewer.
    votes: i32,
    votes_needed: u32,
    /// Whether the last change added a cache worker.
    last_grew: Option<bool>,
}

impl Default for Balancer {
    fn default() -> Self {
        Self { votes: 0, votes_needed: VOTES_MIN, last_grew: None }
    }
}

impl Balancer {
    /// Learns from the share of free room in the queues to the classifiers, 0 to 1. Returns the new
    /// partition if roles change.
    pub fn observe(&mut self, now: Partition, free: f64) -> Option<Partition> {
        self.votes = match free {
            free if free > FREE_HIGH && now.full > 1 => self.votes.max(0) + 1,
            free if free < FREE_LOW && now.cache > 1 => self.votes.min(0) - 1,
            _ => 0,
        };
        if self.votes.unsigned_abs() < self.votes_needed {
            return None;
        }
        let grows = self.votes > 0;
        self.votes = 0;
        self.votes_needed = match self.last_grew {
            Some(last) if last != grows => (2 * self.votes_needed).min(VOTES_MAX),
            _ => (self.votes_needed / 2).max(VOTES_MIN),
        };
        self.last_grew = Some(grows);
        let cache = if grows { now.cache + 1 } else { now.cache - 1 };
        Some(Partition { cache, full: now.workers() - cache })
    }
}

/// Gain of time per key, as a share, from which the model changes roles.
const GAIN_MIN: f64 = 0.1;

/// Assignment by the model. Hysteresis: a change must gain a tenth of the time per key.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelBalancer;

impl ModelBalancer {
    /// Returns the new partition if measured delays call for one.
    pub fn observe(self, now: Partition, delays: &Delays) -> Option<Partition> {
        let best = delays.propose(now.workers());
        let gains = delays.key_ns(best) < (1.0 - GAIN_MIN) * delays.key_ns(now);
        (best != now && gains).then_some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_assignments() {
        for text in ["fold", "dynamic", "auto", "4-2-1", "1-1-1", "8-8-1", "128-128-1"] {
            let read: Assignment = text.parse().expect(text);
            assert_eq!(read.to_string(), text);
        }
        let bad = ["", "4-2", "4-2-2", "0-2-1", "4-0-1", "4-2-1-1", "x", "200-57-1", "-1-1-1"];
        for text in bad.into_iter().chain(["18446744073709551615-1-1", "4 -2-1"]) {
            assert!(text.parse::<Assignment>().is_err(), "{text}");
        }
    }

    #[test]
    fn roles_follow_the_partition() {
        let roles = Roles::new(Partition::of(2, 3));
        assert_eq!((roles.role(1), roles.role(2)), (Role::Cache, Role::Full));
        roles.change(Partition::of(4, 1));
        roles.change(Partition::of(4, 1));
        assert_eq!((roles.role(3), roles.full_workers(), roles.changes()), (Role::Cache, 4..5, 1));
    }

    /// The partition after each of some runs of equal observations.
    fn balance(start: &str, runs: &[(f64, usize)]) -> Vec<String> {
        let Ok(Assignment::Static(mut now)) = start.parse() else { panic!("{start}") };
        let mut balancer = Balancer::default();
        let mut run = |&(free, times): &(f64, usize)| {
            for _ in 0..times {
                now = balancer.observe(now, free).unwrap_or(now);
            }
            now.to_string()
        };
        runs.iter().map(&mut run).collect()
    }

    #[test]
    fn full_queues_get_classifiers_and_empty_ones_cache_workers() {
        assert_eq!(balance("3-3-1", &[(0.1, 2), (0.1, 1), (0.1, 30)]), ["3-3-1", "2-4-1", "1-5-1"]);
        assert_eq!(balance("3-3-1", &[(0.9, 3), (0.9, 30)]), ["4-2-1", "5-1-1"]);
        // Neither at the thresholds nor between them, and not for short changes.
        assert_eq!(balance("3-3-1", &[(0.2, 9), (0.5, 9), (0.8, 9)]), ["3-3-1"; 3]);
        assert_eq!(balance("3-3-1", &[(0.9, 2), (0.5, 1), (0.9, 2), (0.1, 2)]), ["3-3-1"; 4]);
    }

    #[test]
    fn reversals_need_more_observations_each_time() {
        let mut balancer = Balancer::default();
        let mut now = Partition::of(3, 3);
        let mut steps = Vec::new();
        // Each change makes the opposite one seem right.
        for _ in 0..1000 {
            let free = if now.cache() > 3 { 0.0 } else { 1.0 };
            if let Some(next) = balancer.observe(now, free) {
                now = next;
                steps.push(now);
            }
        }
        assert!((6..12).contains(&steps.len()), "{} changes", steps.len());
    }

    #[test]
    fn the_model_changes_roles_for_a_gain_only() {
        let delays = |hit_ratio| Delays { cache_ns: 200.0, full_ns: 2000.0, hit_ratio };
        let observe = |now, hit_ratio| ModelBalancer.observe(now, &delays(hit_ratio));
        assert_eq!(observe(Partition::of(2, 4), 0.97), Some(Partition::of(4, 2)));
        assert_eq!(observe(Partition::of(4, 2), 0.97), None);
        assert_eq!(observe(Partition::of(4, 2), 0.93), None, "a small gain");
        assert_eq!(observe(Partition::of(4, 2), 0.5), Some(Partition::of(1, 5)));
    }
}
