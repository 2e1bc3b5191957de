//! The cache of evolving rules in front of an element's engine: the argument `CACHE`.

use std::str::FromStr;
use std::sync::Arc;

use warpswitch_classify::Classifier;
use warpswitch_flow::{CachedClassifier, StormOptions};
use warpswitch_graph::{Context, HandlerSpec, Time};
use warpswitch_rules::Ruleset;

/// When the cache is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CacheUse {
    /// Never.
    #[default]
    None,
    /// Always.
    Storm,
    /// While it pays by measured times.
    Auto,
}

impl FromStr for CacheUse {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "storm" => Ok(Self::Storm),
            "auto" => Ok(Self::Auto),
            _ => Err(format!("unknown cache '{text}', expected storm, none or auto")),
        }
    }
}

/// The cache of an element, shared by its workers; none is a valid state.
#[derive(Clone, Debug, Default)]
pub(super) struct EngineCache(Option<Arc<CachedClassifier>>);

impl EngineCache {
    /// The read handlers of elements with a cache.
    pub(super) const HANDLERS: [HandlerSpec; 4] = [
        HandlerSpec::read("cache_hit_ratio"),
        HandlerSpec::read("cached_rules"),
        HandlerSpec::read("cache_swaps"),
        HandlerSpec::read("cache_on"),
    ];

    /// Puts the cache in front of `engine`, which has the rules of `ruleset`. Returns what lookups
    /// and changes go to.
    pub(super) fn front(
        cache_use: CacheUse,
        engine: Box<dyn Classifier>,
        ruleset: &Ruleset,
    ) -> (Arc<dyn Classifier>, Self) {
        if cache_use == CacheUse::None {
            return (engine.into(), Self(None));
        }
        let mut cached = CachedClassifier::new(engine, ruleset, &StormOptions::default());
        if cache_use == CacheUse::Auto {
            cached = cached.with_gate();
        }
        let cached = Arc::new(cached);
        (cached.clone(), Self(Some(cached)))
    }

    /// Gives the cache the router's clock, once there is one. Simulated time measures nothing: the
    /// cache then stays in use.
    pub(super) fn set_clock(&self, cx: &Context<'_>) {
        if let Some(cached) = &self.0
            && cached.wants_clock()
            && let Some(clock) = cx.clock()
        {
            cached.set_clock(Arc::new(move || clock() - Time::default()));
        }
    }

    /// The value of a handler of [`EngineCache::HANDLERS`]; none for others.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        let stats = || self.0.as_ref().map(|cached| cached.stats()).unwrap_or_default();
        Some(match name {
            "cache_hit_ratio" => format!("{:.4}", stats().hit_ratio()),
            "cached_rules" => stats().weights.len().to_string(),
            "cache_swaps" => stats().swaps.to_string(),
            "cache_on" => {
                let gate = |cached: &Arc<CachedClassifier>| cached.gate();
                let is_on = self
                    .0
                    .as_ref()
                    .is_some_and(|cached| gate(cached).is_none_or(|gate| gate.is_on()));
                is_on.to_string()
            }
            _ => return None,
        })
    }
}
