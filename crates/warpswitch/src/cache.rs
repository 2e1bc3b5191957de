//! `--cache`: a flow cache in front of the engine of a command.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use serde::Serialize;
use warpswitch_classify::Classifier;
use warpswitch_flow::storm::{CACHED_MAX_MAX, CACHED_MAX_MIN};
use warpswitch_flow::{CachedClassifier, StormOptions};
use warpswitch_rules::Ruleset;

use crate::human;
use crate::human::rounded;
use crate::term;

/// Which cache, and how work is divided among threads.
#[derive(Args, Clone, Debug)]
pub struct CacheArgs {
    /// Rule cache in front of the engine
    #[arg(long, value_name = "NAME", default_value = "none", value_parser = cache_parser())]
    cache: CacheChoice,

    /// How threads share the cache: with 'fold' each has its own and derives its own rules
    #[arg(long, value_name = "PARTITION", default_value = "fold", value_parser = ["fold"],
          requires = "cache")]
    partition: String,

    /// Maximum number of rules in the cache
    #[arg(long, value_name = "N", default_value_t = StormOptions::default().cached_max as u64,
          value_parser = value_parser!(u64).range(CACHED_MAX_MIN as u64..=CACHED_MAX_MAX as u64),
          requires = "cache")]
    cached_rules: u64,
}

/// The caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheChoice {
    None,
    Storm,
}

fn cache_parser() -> impl TypedValueParser<Value = CacheChoice> {
    PossibleValuesParser::new(["none", "storm"]).map(|name| match name.as_str() {
        "storm" => CacheChoice::Storm,
        _ => CacheChoice::None,
    })
}

/// An engine, and the cache in front of it if there is one.
pub enum FrontedEngine {
    /// The engine alone.
    Plain(Box<dyn Classifier>),
    /// Behind a cache.
    Cached(Box<CachedClassifier>, CacheReport),
}

impl CacheArgs {
    /// Puts the chosen cache in front of an engine over `ruleset`.
    pub fn front(&self, engine: Box<dyn Classifier>, ruleset: &Ruleset) -> FrontedEngine {
        match self.cache {
            CacheChoice::None => FrontedEngine::Plain(engine),
            CacheChoice::Storm => {
                let cached_max = self.cached_rules as usize;
                let options = StormOptions { cached_max, ..StormOptions::default() };
                let report = CacheReport {
                    name: "storm",
                    partition: self.partition.clone(),
                    ..Default::default()
                };
                let cached = CachedClassifier::new(engine, ruleset, &options);
                FrontedEngine::Cached(Box::new(cached), report)
            }
        }
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

    /// What the cache did, if there is one.
    pub fn report(&self) -> Option<CacheReport> {
        let Self::Cached(cached, report) = self else { return None };
        let stats = cached.stats();
        Some(CacheReport {
            hit_ratio: rounded(stats.hit_ratio(), 4),
            hits: stats.hits,
            misses: stats.misses,
            cached_rules: stats.weights.len(),
            evolving_rules: stats.evolving_rules,
            weights: stats.weights,
            samples: stats.samples,
            swaps: stats.swaps,
            ..report.clone()
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
}

impl CacheReport {
    /// One line for people, on the standard error stream.
    pub fn print(&self) {
        let share = human::percent(self.hits, (self.hits + self.misses).max(1));
        let rules = human::counted(self.cached_rules, "cached rule");
        let swaps = human::counted(self.swaps as usize, "swap");
        term::note(format!(
            "  cache {} ({}): {share} hits, {rules}, {swaps}",
            self.name, self.partition
        ));
    }
}
