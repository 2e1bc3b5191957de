//! A classifier with the cache in front, in the folded form: each thread that looks keys up also
//! samples and evolves.
//!
//! Rules merge only with themselves, so that answers are rule ids: it replaces any classifier. With
//! a clock, batches bypass the cache while it does not pay; see [`gate`](crate::gate).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use warpswitch_classify::{Classifier, ClassifyError, Detail, Engine, Refused, RuleChange};
use warpswitch_rules::{KeyBatch, RuleId, RuleRef, Ruleset, Schema};

use crate::Answer;
use crate::gate::{CostGate, LookupPath};
use crate::misses::Misses;
use crate::readers::{Padded, Reader};
use crate::rule_index::Merge;
use crate::storm::{StormCache, StormOptions, StormStats};

/// Time since some fixed moment.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// With the cache, one batch in so many is timed, and all of a trial: reading the clock and passing
/// the gate costs a tenth of a batch of a fast engine.
const TIMED_EVERY: usize = 8;

/// The same without the cache, where nothing else pays for the gate: timed batches of 256 keys cost
/// it 0.1 % then.
const PLAIN_TIMED_EVERY: usize = 256;

/// A classifier behind a [`StormCache`]. See the module.
pub struct CachedClassifier {
    full: Box<dyn Classifier>,
    cache: StormCache,
    /// Away from what each batch reads.
    gate: Option<Padded<Mutex<CostGate>>>,
    /// Whether batches take the plain path by the gate. Read without it, so that workers do not
    /// wait for each other; it hands nothing over.
    is_plain: AtomicBool,
    /// Read if there is a gate.
    clock: OnceLock<Clock>,
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
        let cache = StormCache::new(ruleset, &options);
        let is_plain = AtomicBool::new(false);
        Self { full, cache, gate: None, is_plain, clock: OnceLock::new(), turn: Mutex::new(()) }
    }

    /// The same, with a gate: once there is a clock, batches bypass the cache while it does not
    /// pay.
    pub fn with_gate(self) -> Self {
        Self { gate: Some(Padded::default()), ..self }
    }

    /// Whether there is a gate that has no clock yet.
    pub fn wants_clock(&self) -> bool {
        self.gate.is_some() && self.clock.get().is_none()
    }

    /// Gives the gate its clock, if it has none.
    pub fn set_clock(&self, clock: Clock) {
        _ = self.clock.set(clock);
    }

    /// The gate's state, if there is one.
    pub fn gate(&self) -> Option<CostGate> {
        let Padded(gate) = self.gate.as_ref()?;
        Some(gate.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The cache alone.
    pub fn cache(&self) -> &StormCache {
        &self.cache
    }

    /// The classifier behind the cache.
    pub fn full(&self) -> &dyn Classifier {
        &*self.full
    }

    /// The first half of [`Classifier::classify`], for a thread that runs the cache only. Offers
    /// samples to the thread that calls [`StormCache::evolve`].
    pub fn look_up_cached(&self, keys: KeyBatch<'_>, out: &mut [RuleId], misses: &mut Misses) {
        self.cache.look_up_cached(keys, out, |answer| RuleId(answer.0), misses);
        self.cache.sample_batch(keys, false);
    }

    /// The second half, for a thread that runs the classifier.
    pub fn resolve(&self, misses: &mut Misses, out: &mut [RuleId]) {
        misses.resolve(&*self.full, out, |id| id);
    }

    /// A lookup through the gate. Out of line: batches that pass without it need no stack for it.
    #[inline(never)]
    fn classify_gated(
        &self,
        gate: &Mutex<CostGate>,
        clock: &Clock,
        keys: KeyBatch<'_>,
        out: &mut [RuleId],
    ) {
        let reader = self.cache.reader();
        let (path, every) = match self.is_plain.load(Ordering::Relaxed) {
            true => (LookupPath::Plain, PLAIN_TIMED_EVERY),
            false => (LookupPath::Cached, TIMED_EVERY),
        };
        if !reader.is_timed(every) {
            return self.classify_on(path, reader, keys, out);
        }
        // If another worker is at the gate just now, it learns enough for both.
        let Ok(path) = gate.try_lock().map(|mut gate| gate.choose()) else {
            return self.classify_on(path, reader, keys, out);
        };
        let began = clock();
        self.classify_on(path, reader, keys, out);
        let ended = clock();
        let ns_since = |start: Duration, now: Duration| {
            u64::try_from(now.saturating_sub(start).as_nanos()).unwrap_or(u64::MAX)
        };
        let Ok(mut gate) = gate.try_lock() else { return };
        gate.note(path, keys.len(), ns_since(began, ended), every);
        if path == LookupPath::Plain && gate.may_sample() {
            // A sample of 65,536 keys is enough to find that traffic has become skewed; the gate
            // skips some where samples are expensive.
            self.cache.sample_batch(keys, true);
            self.cache.finish_sample();
            gate.note_sampling(ns_since(ended, clock()));
        }
        if gate.is_trying() {
            reader.time_next();
        }
        // Written only if it changes: all workers read it.
        if self.is_plain.load(Ordering::Relaxed) == gate.is_on() {
            self.is_plain.store(!gate.is_on(), Ordering::Relaxed);
        }
    }

    /// A lookup on the path of the gate; `reader` is that of the thread.
    fn classify_on(
        &self,
        path: LookupPath,
        reader: &Reader,
        keys: KeyBatch<'_>,
        out: &mut [RuleId],
    ) {
        match path {
            LookupPath::Cached => {
                // A batch that bypasses the cache would tell the gate nothing about its cost.
                let cache = &self.cache;
                let of_answer = |answer: Answer| RuleId(answer.0);
                cache.look_through(&*self.full, keys, out, of_answer, |id| id);
                cache.sample_batch(keys, true);
            }
            LookupPath::Plain => {
                self.full.classify(keys, out);
                reader.count_misses(keys.len());
            }
        }
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
        let reader = self.cache.reader();
        // Most batches while the cache is off: all that is done for them counts.
        if self.is_plain.load(Ordering::Relaxed) && reader.passes_untimed() {
            self.full.classify(keys, out);
            return reader.count_misses(keys.len());
        }
        match (&self.gate, self.clock.get()) {
            (Some(Padded(gate)), Some(clock)) => self.classify_gated(gate, clock, keys, out),
            _ => {
                self.cache.classify(&*self.full, keys, out);
                self.cache.sample_batch(keys, true);
            }
        }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use warpswitch_classify::{BuildOptions, build};
    use warpswitch_rules::KeyBuf;
    use warpswitch_rules::schema::IPV4_5TUPLE;

    use super::*;
    use crate::storm::tests::rules_by_port;

    const PORTS: u32 = 5_000;

    /// A cached engine with a gate, and how much time each reading of its clock adds.
    fn gated() -> (CachedClassifier, Arc<AtomicU64>) {
        let ruleset = rules_by_port(PORTS);
        let full = build(Engine::Turbo, &ruleset, &BuildOptions::default()).expect("no bound");
        let cached = CachedClassifier::new(full, &ruleset, &StormOptions::default()).with_gate();
        assert!(cached.wants_clock());
        let (now, step) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
        let clock_step = step.clone();
        let clock = move || {
            let step = clock_step.load(Ordering::Relaxed);
            Duration::from_nanos(now.fetch_add(step, Ordering::Relaxed))
        };
        cached.set_clock(Arc::new(clock));
        assert!(!cached.wants_clock());
        (cached, step)
    }

    /// Looks up batches over so many ports; batches cost `cached` with the cache, else `plain`.
    fn run(cached: &CachedClassifier, step: &AtomicU64, ports: u32, costs: (u64, u64)) {
        let mut next = 0u32;
        for _ in 0..2_000 {
            let mut keys = KeyBuf::new(&IPV4_5TUPLE);
            for _ in 0..64 {
                next = next.wrapping_mul(0x9e37_79b9).wrapping_add(12_345);
                keys.push(&[next, 0, (next >> 16) % ports, 0]);
            }
            // The next choice, foreseen by a copy of the gate.
            let path = cached.gate().expect("a gate").choose();
            let cost = if path == LookupPath::Cached { costs.0 } else { costs.1 };
            step.store(cost, Ordering::Relaxed);
            let mut out = vec![RuleId::NONE; keys.len()];
            cached.classify(keys.as_batch(), &mut out);
            let expected = keys.as_batch().iter().map(|key| RuleId(key[2]));
            assert!(out.into_iter().eq(expected));
        }
    }

    #[test]
    fn the_gate_turns_the_cache_off_and_on_by_cost() {
        let (cached, step) = gated();
        run(&cached, &step, 10, (500, 2000));
        assert!(cached.gate().expect("a gate").is_on());
        let hits = cached.stats().hits;
        assert!(hits > 2_000 * 64 / 2, "{hits}");
        // It stays in use as long as it has gained before.
        for _ in 0..4 {
            run(&cached, &step, PORTS, (3000, 2000));
        }
        assert!(!cached.gate().expect("a gate").is_on());
        // Keys that bypass the cache count as misses.
        let stats = cached.stats();
        assert_eq!(stats.hits + stats.misses, 5 * 2_000 * 64);
        // The next trial is as far away as it must be to cost little.
        for _ in 0..4 {
            run(&cached, &step, 10, (500, 2000));
        }
        assert!(cached.gate().expect("a gate").is_on());
    }

    #[test]
    fn without_a_clock_the_gate_is_open() {
        let ruleset = rules_by_port(PORTS);
        let full = build(Engine::Turbo, &ruleset, &BuildOptions::default()).expect("no bound");
        let cached = CachedClassifier::new(full, &ruleset, &StormOptions::default()).with_gate();
        run(&cached, &AtomicU64::new(0), 10, (0, 0));
        assert!(cached.stats().hit_ratio() > 0.5);
    }
}
