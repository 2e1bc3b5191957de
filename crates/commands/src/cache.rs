//! `--cache`: a flow cache in front of the engine of a command.

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use warpswitch_classify::Classifier;
use warpswitch_flow::storm::{CACHED_MAX_MAX, CACHED_MAX_MIN};
use warpswitch_flow::{Assignment, CachedClassifier, Partition, StormOptions};
use warpswitch_rules::Ruleset;

use crate::args::parse_range;
use crate::exit::bad_input;
use crate::human;
use crate::human::rounded;
use crate::pipeline::roles::{RolesResult, partition_at_start};
use crate::term;
use crate::threads::default_threads;

/// Roles of threads, each of at least one: cache, engine, updater.
const ROLES: usize = 3;

/// Which cache, and how work is divided among threads.
#[derive(Args, Clone, Debug)]
pub struct CacheArgs {
    /// Rule cache in front of the engine
    #[arg(long, value_name = "NAME", default_value = "none", value_parser = cache_parser())]
    cache: CacheChoice,

    /// How work is divided among threads, with --cache storm: 'fold' (each does everything),
    /// CACHE-ENGINE-1 such as 4-2-1 (the last is the updater), 'dynamic' (by free room in the
    /// queues) or 'auto' (by measured delays and hit ratio)
    #[arg(long, value_name = "PARTITION", default_value = "fold", requires = "cache")]
    partition: Assignment,

    /// Maximum number of rules in the cache, 10 to 30
    #[arg(long, value_name = "N", default_value_t = StormOptions::default().cached_max as u64,
          value_parser = parse_range::<u64>(CACHED_MAX_MIN as u64, CACHED_MAX_MAX as u64),
          requires = "cache")]
    cached_rules: u64,
}

/// The caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheChoice {
    None,
    Storm,
    Auto,
}

impl CacheChoice {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Storm => "storm",
            Self::Auto => "auto",
        }
    }
}

fn cache_parser() -> impl TypedValueParser<Value = CacheChoice> {
    PossibleValuesParser::new(["none", "storm", "auto"]).map(|name| match name.as_str() {
        "storm" => CacheChoice::Storm,
        "auto" => CacheChoice::Auto,
        _ => CacheChoice::None,
    })
}

/// An engine, and the cache in front of it if there is one.
pub enum FrontedEngine {
    /// The engine alone.
    Plain(Box<dyn Classifier>),
    /// Behind a cache.
    Cached(Box<CachedClassifier>, Box<CacheReport>),
}

impl CacheArgs {
    /// The roles of threads and their number by role at the start, if threads have roles.
    ///
    /// # Errors
    /// A combination with `--threads` or `--cache` that makes no sense.
    pub fn roles(&self, threads: Option<usize>) -> anyhow::Result<Option<(Assignment, Partition)>> {
        let partition = self.partition;
        if partition == Assignment::Fold {
            return Ok(None);
        }
        if self.cache != CacheChoice::Storm {
            let cache = self.cache.name();
            return Err(bad_input(format!(
                "--cache {cache} requires --partition fold; use --cache storm with {partition}"
            )));
        }
        if matches!(partition, Assignment::Static(_)) && threads.is_some() {
            return Err(bad_input(format!(
                "--partition {partition} sets the number of threads; remove --threads"
            )));
        }
        if let Some(threads) = threads.filter(|threads| *threads < ROLES) {
            return Err(bad_input(format!(
                "--partition {partition} requires at least {ROLES} threads, not {threads}: for the \
                 cache, for the engine, and one that derives rules"
            )));
        }
        let threads = threads.unwrap_or_else(default_threads);
        Ok(partition_at_start(partition, threads).map(|start| (partition, start)))
    }

    /// Puts the chosen cache in front of an engine over `ruleset`.
    pub fn front(&self, engine: Box<dyn Classifier>, ruleset: &Ruleset) -> FrontedEngine {
        if self.cache == CacheChoice::None {
            return FrontedEngine::Plain(engine);
        }
        let cached_max = self.cached_rules as usize;
        let options = StormOptions { cached_max, ..StormOptions::default() };
        let mut cached = CachedClassifier::new(engine, ruleset, &options);
        if self.cache == CacheChoice::Auto {
            cached = cached.with_gate();
            let start = Instant::now();
            cached.set_clock(Arc::new(move || start.elapsed()));
        }
        let report = CacheReport {
            name: self.cache.name(),
            partition: self.partition.to_string(),
            ..Default::default()
        };
        FrontedEngine::Cached(Box::new(cached), Box::new(report))
    }
}

impl FrontedEngine {
    /// What lookups go to.
    pub fn classifier(&self) -> &dyn Classifier {
        match self {
            Self::Plain(engine) => engine.as_ref(),
            Self::Cached(cached, _) => cached.as_ref(),
        }
    }

    /// The cached engine, if there is a cache.
    pub fn cached(&self) -> Option<&CachedClassifier> {
        match self {
            Self::Plain(_) => None,
            Self::Cached(cached, _) => Some(cached),
        }
    }

    /// What the cache did, if there is one, and the threads with roles.
    pub fn report(&self, roles: Option<&RolesResult>) -> Option<CacheReport> {
        let Self::Cached(cached, report) = self else { return None };
        let stats = cached.stats();
        Some(CacheReport {
            gate: cached.gate().map(|gate| GateReport {
                on: gate.is_on(),
                switches: gate.switches(),
                cached_ns: rounded(gate.costs_ns()[0], 2),
                plain_ns: rounded(gate.costs_ns()[1], 2),
            }),
            roles: roles.map(|roles| RolesReport {
                cache: roles.partition.cache(),
                engine: roles.partition.full(),
                updater: 1,
                changes: roles.changes,
                cache_ms: rounded(roles.cache.as_secs_f64() * 1e3, 3),
                engine_ms: rounded(roles.full.as_secs_f64() * 1e3, 3),
                updater_ms: rounded(roles.updater.as_secs_f64() * 1e3, 3),
            }),
            hit_ratio: rounded(stats.hit_ratio(), 4),
            hits: stats.hits,
            misses: stats.misses,
            cached_rules: stats.weights.len(),
            evolving_rules: stats.evolving_rules,
            weights: stats.weights,
            samples: stats.samples,
            swaps: stats.swaps,
            ..CacheReport::clone(report)
        })
    }
}

/// The cache of a run, as `--json` prints it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CacheReport {
    /// Name of the cache.
    pub name: &'static str,
    /// Division of the work among threads.
    pub partition: String,
    /// Share of lookups that the cache answered.
    pub hit_ratio: f64,
    /// Lookups that it answered.
    pub hits: u64,
    /// Lookups that the engine answered.
    pub misses: u64,
    /// Rules in the cache at the end.
    pub cached_rules: usize,
    /// Evolving rules at the end, cached or not.
    pub evolving_rules: usize,
    /// Samples in the window of each cached rule when it was published, the heaviest first.
    pub weights: Vec<u32>,
    /// Keys sampled.
    pub samples: u64,
    /// Versions of the cache.
    pub swaps: u64,
    /// Whether the cache paid, for `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateReport>,
    /// Threads with roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles: Option<RolesReport>,
}

/// The decisions of `--cache auto`.
#[derive(Clone, Debug, Serialize)]
pub struct GateReport {
    /// Whether the cache was in use at the end.
    pub on: bool,
    /// How often that changed.
    pub switches: u64,
    /// Nanoseconds per key with the cache.
    pub cached_ns: f64,
    /// Nanoseconds per key without it.
    pub plain_ns: f64,
}

/// Threads by role at the end, and the time that each role took, its threads together.
#[derive(Clone, Debug, Serialize)]
pub struct RolesReport {
    /// Threads that ran the cache.
    pub cache: usize,
    /// Threads that ran the engine.
    pub engine: usize,
    /// Threads that evolved rules.
    pub updater: usize,
    /// How often threads changed roles.
    pub changes: usize,
    /// Time in the cache.
    pub cache_ms: f64,
    /// Time in the engine.
    pub engine_ms: f64,
    /// Time of evolution.
    pub updater_ms: f64,
}

impl CacheReport {
    /// Lines for people, on the standard error stream.
    pub fn print(&self) {
        let share = human::percent(self.hits, (self.hits + self.misses).max(1));
        let rules = human::counted(self.cached_rules, "cached rule");
        let swaps = human::counted(self.swaps as usize, "swap");
        term::note(format!(
            "  cache {} ({}): {share} hits, {rules}, {swaps}",
            self.name, self.partition
        ));
        if !self.weights.is_empty() {
            let weights: Vec<String> = self.weights.iter().map(u32::to_string).collect();
            term::note(format!("  weights of the cached rules: {}", weights.join(" ")));
        }
        if let Some(roles) = &self.roles {
            let changes = human::counted(roles.changes, "change");
            term::note(format!(
                "  roles {}-{}-{} at the end, {changes}: {} ms cache, {} ms engine, {} ms updater",
                roles.cache,
                roles.engine,
                roles.updater,
                roles.cache_ms,
                roles.engine_ms,
                roles.updater_ms
            ));
        }
        if let Some(gate) = &self.gate {
            let state = if gate.on { "on" } else { "off" };
            let ns = |cost: f64| match cost {
                0.0 => "not measured".to_owned(),
                cost => format!("{cost} ns a key"),
            };
            term::note(format!(
                "  cache {state} at the end: {} with it, {} without",
                ns(gate.cached_ns),
                ns(gate.plain_ns)
            ));
        }
    }
}
