//! A classifier with the cache in front, in the folded form: each thread that looks keys up also
//! samples and evolves.
//!
//! Rules merge only with themselves, so that answers are rule ids: it replaces any classifier.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use warpswitch_classify::{Classifier, ClassifyError, Detail, Engine, Refused, RuleChange};
use warpswitch_rules::{KeyBatch, RuleId, RuleRef, Ruleset, Schema};

use crate::rule_index::Merge;
use crate::storm::{StormCache, StormOptions, StormStats};

/// A classifier behind a [`StormCache`]. See the module.
pub struct CachedClassifier {
    full: Box<dyn Classifier>,
    cache: StormCache,
    /// Puts changes in order.
    turn: Mutex<()>,
}

impl fmt::Debug for CachedClassifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedClassifier").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl CachedClassifier {
    /// Puts a cache in front of `full`, a classifier over `ruleset`. Ignores `options.merge`.
    ///
    /// # Panics
    /// If an option is outside of its limits: callers check.
    pub fn new(full: Box<dyn Classifier>, ruleset: &Ruleset, options: &StormOptions) -> Self {
        let options = StormOptions { merge: Merge::ByRule, ..*options };
        Self { full, cache: StormCache::new(ruleset, &options), turn: Mutex::new(()) }
    }

    /// What the cache has done so far.
    pub fn stats(&self) -> StormStats {
        self.cache.stats()
    }

    /// Builds a new tree for the conflict check if enough has changed. Lookups, samples and changes
    /// go on meanwhile.
    fn rebuild_if_due(&self) {
        if let Some(snapshot) = self.cache.begin_rebuild() {
            self.cache.finish_rebuild(snapshot.build());
        }
    }

    fn change_one(&self, change: RuleChange<'_>) -> Result<(), ClassifyError> {
        self.change(&[change]).map_err(|refused| refused.error)
    }
}

impl Classifier for CachedClassifier {
    fn engine(&self) -> Engine {
        self.full.engine()
    }

    fn schema(&self) -> &'static Schema {
        self.full.schema()
    }

    fn len(&self) -> usize {
        self.full.len()
    }

    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        self.cache.lookup(&*self.full, keys, out, |answer| RuleId(answer.0), |id| id);
        self.cache.sample_batch(keys, true);
    }

    fn insert(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        self.change_one(RuleChange::Insert(rule))
    }

    fn remove(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        self.change_one(RuleChange::Remove(rule))
    }

    fn change(&self, changes: &[RuleChange<'_>]) -> Result<(), Refused> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = self.cache.begin_change(changes);
        let result = self.full.change(changes);
        let made = result.as_ref().map_or_else(|refused| refused.made, |()| changes.len());
        pending.finish(&changes[..made], &[]);
        self.rebuild_if_due();
        result
    }

    fn bytes(&self) -> usize {
        self.full.bytes() + self.cache.bytes()
    }

    fn details(&self) -> Vec<Detail> {
        let stats = self.stats();
        let mut details = self.full.details();
        details.extend([
            Detail { name: "cache_hit_ratio", value: stats.hit_ratio() },
            Detail { name: "cached_rules", value: stats.weights.len() as f64 },
            Detail { name: "cache_swaps", value: stats.swaps as f64 },
        ]);
        details
    }
}
