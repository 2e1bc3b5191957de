//! The shared cache: any number of readers, one updater at a time.
//!
//! ```text
//! workers ─┬─ lookup ─► list, copy 0 or 1 ◄─ swap ─┬─ updater ─► evolving rules
//!          └─ offer ──► slot ─────────── take ─────┘                 ▲
//! writer ──── begin_change: remove overlaps ─────────────────────────┘
//! ```
//! # Invariants
//! - S1: a region in the list has one answer under the rules of the classifier behind the cache,
//!   at every moment while a reader holds the list.
//! - S2: so a change first removes overlapping regions from the evolving rules and from the list,
//!   and waits for the readers of the list before ([`StormCache::begin_change`]). Only then may the
//!   classifier change. The updater's lock is held until the change is in the index as well
//!   ([`PendingChange::finish`]), so nothing evolves under rules that are about to go.
//! - S3: a reader classifies the misses of a batch while it holds the list. A batch thus sees one
//!   version of the rules if the classifier behind the cache gives one for each batch. A batch that
//!   bypasses the cache has no answers of the list, and does not hold it.
//!   A lookup in two halves gives this up: [`StormCache::look_up_cached`] releases the list, and
//!   each miss is answered under the rules of the moment when it is resolved.
//! - S4: workers never wait for the updater's lock, nor for each other: a worker that evolves fills
//!   only copies of the list in which no reader is left. So readers may see different versions,
//!   which S1 allows. Sampling keeps the last key offered; a queue would let the cache evolve from
//!   old traffic.
//!
//! # Why two copies
//! The updater fills the copy without readers and swaps an index; the paper measured 1.5 to 4 times
//! the throughput of one locked copy.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use warpswitch_classify::hypercuts::{BoxTree, Span, TreeOptions};
use warpswitch_classify::{Classifier, RuleChange};
use warpswitch_rules::{KeyBatch, RuleId, Ruleset};

use crate::Answer;
use crate::box_list::BoxList;
use crate::choices::{Copies, Samples, Sampling, SharedList};
use crate::evolving::{Evolution, EvolvingRules, Growth, Progress};
use crate::misses::Misses;
use crate::pace::Pace;
use crate::readers::{Padded, Reader, Readers};
use crate::rule_index::{Merge, RuleIndex, Snapshot};

/// Fewest and most rules that a cache may hold.
pub const CACHED_MAX_MIN: usize = 10;
/// See [`CACHED_MAX_MIN`].
pub const CACHED_MAX_MAX: usize = 30;

/// Answers that are looked through for a miss together.
const ANSWER_GROUP: usize = 16;

/// How a cache is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StormOptions {
    /// Samples in the sliding window.
    pub window_len: usize,
    /// Most cached rules, [`CACHED_MAX_MIN`] to [`CACHED_MAX_MAX`].
    pub cached_max: usize,
    /// Keys between two samples, at least 1.
    pub keys_per_sample: usize,
    /// Samples between two versions of the list; fewer at the start.
    pub samples_per_swap: usize,
    /// Whether traffic without hits is sampled more rarely, and mostly bypasses the cache.
    pub is_adaptive: bool,
    /// Which rules may share a cached rule.
    pub merge: Merge,
    /// How far evolving rules grow.
    pub growth: Growth,
    /// The tree of the conflict check.
    pub tree: TreeOptions,
    /// Copies of the list, for measurements.
    pub copies: Copies,
    /// How samples wait, for measurements.
    pub sampling: Sampling,
}

impl Default for StormOptions {
    /// The paper's window and cache size; rules merge only with themselves.
    fn default() -> Self {
        Self {
            window_len: 1024,
            cached_max: 20,
            keys_per_sample: 256,
            samples_per_swap: 16,
            is_adaptive: true,
            merge: Merge::ByRule,
            growth: Growth::default(),
            tree: TreeOptions::default(),
            copies: Copies::default(),
            sampling: Sampling::default(),
        }
    }
}

/// What a cache has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StormStats {
    /// Keys answered by the cache.
    pub hits: u64,
    /// Keys answered by the classifier behind it.
    pub misses: u64,
    /// Versions of the list.
    pub swaps: u64,
    /// Samples taken.
    pub samples: u64,
    /// Evolving rules, cached or not.
    pub evolving_rules: usize,
    /// Weights of the cached rules, the heaviest first.
    pub weights: Vec<u32>,
}

impl StormStats {
    /// Share of hits among all lookups; 0 without any.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

/// The cache of evolving rules. See the module.
#[derive(Debug)]
pub struct StormCache {
    window_len: usize,
    cached_max: usize,
    samples_per_swap: usize,
    list: SharedList,
    samples: Padded<Samples>,
    updater: Padded<Mutex<Updater>>,
    readers: Readers,
    pace: Pace,
    /// Whether something is left to do for the last sample: a hint, read for each batch in the
    /// folded form. It changes with each sample.
    has_work: Padded<AtomicBool>,
}

#[derive(Debug)]
struct Updater {
    index: RuleIndex,
    evolving: EvolvingRules,
    /// Regions of the list and their weights when it was published.
    published: Vec<(Vec<Span>, u32)>,
    /// Their serials, in order.
    published_serials: Vec<u64>,
    /// Their list, and whether some readers still have one before it.
    published_list: BoxList,
    is_behind: bool,
    /// Whether regions changed since, or another rule has become heavier.
    is_changed: bool,
    samples_since: usize,
    samples: u64,
    swaps: u64,
    key: Vec<u32>,
}

/// A change for which the cache is ready and the classifier is not yet changed.
#[must_use = "the cache does not evolve until the change is finished"]
#[derive(Debug)]
pub struct PendingChange<'a> {
    updater: MutexGuard<'a, Updater>,
}

impl PendingChange<'_> {
    /// Notes the changes that the classifier has made, a prefix of those that were begun, with the
    /// answers of inserted rules by [`Merge::ByAction`].
    ///
    /// # Panics
    /// If the cache's rules do not allow a change: the classifier has other rules, a caller bug.
    pub fn finish(mut self, made: &[RuleChange<'_>], answers: &[Answer]) {
        for (at, change) in made.iter().enumerate() {
            self.updater.index.apply(change, answers.get(at).copied().unwrap_or(Answer::MISS));
        }
    }
}

/// Buffers of a lookup, kept by each thread.
#[derive(Default)]
struct Scratch {
    answers: Vec<Answer>,
    misses: Misses,
}

thread_local! {
    /// Boxed: a lookup takes a pointer only.
    static SCRATCH: Cell<Option<Box<Scratch>>> = Cell::default();
}

impl StormCache {
    /// An empty cache for a classifier over `ruleset`.
    ///
    /// # Panics
    /// If an option is outside of its limits: callers check.
    pub fn new(ruleset: &Ruleset, options: &StormOptions) -> Self {
        let allowed = CACHED_MAX_MIN..=CACHED_MAX_MAX;
        assert!(allowed.contains(&options.cached_max), "{} cached rules", options.cached_max);
        let schema = ruleset.schema();
        let list = BoxList::new(schema, options.cached_max);
        let updater = Updater {
            index: RuleIndex::new(ruleset, options.merge, options.tree),
            evolving: EvolvingRules::new(options.window_len, options.growth),
            published: Vec::new(),
            published_serials: Vec::new(),
            published_list: list.clone(),
            is_behind: false,
            is_changed: false,
            samples_since: 0,
            samples: 0,
            swaps: 0,
            key: vec![0; schema.words],
        };
        Self {
            window_len: options.window_len,
            cached_max: options.cached_max,
            samples_per_swap: options.samples_per_swap,
            list: SharedList::new(options.copies, list),
            samples: Padded(Samples::new(options.sampling, schema.words)),
            updater: Padded(Mutex::new(updater)),
            readers: Readers::default(),
            pace: Pace::new(options),
            has_work: Padded(AtomicBool::new(false)),
        }
    }

    /// Answers each key from the cache or, for misses, by `full`; `out` beyond the batch is
    /// untouched.
    ///
    /// Cost: no allocation after a thread's largest batch. Threads: any number; never blocks.
    ///
    /// # Panics
    /// If `out` is shorter than the batch, or the keys are of another schema: a caller bug.
    pub fn lookup<T>(
        &self,
        full: &dyn Classifier,
        keys: KeyBatch<'_>,
        out: &mut [T],
        of_answer: impl Fn(Answer) -> T,
        of_rule: impl Fn(RuleId) -> T,
    ) {
        if self.bypasses(keys.len()) {
            let mut scratch = SCRATCH.take().unwrap_or_default();
            scratch.misses.resolve_batch(full, keys, out, of_rule);
            SCRATCH.set(Some(scratch));
        } else {
            self.look_through(full, keys, out, of_answer, of_rule);
        }
    }

    /// The same where answers are rule ids: the classifier writes those of a batch that bypasses
    /// the cache to `out` itself.
    ///
    /// # Panics
    /// As [`StormCache::lookup`].
    pub fn classify(&self, full: &dyn Classifier, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        if self.bypasses(keys.len()) {
            full.classify(keys, out);
        } else {
            self.look_through(full, keys, out, |answer| RuleId(answer.0), |id| id);
        }
    }

    /// A lookup that never bypasses the cache.
    pub(crate) fn look_through<T>(
        &self,
        full: &dyn Classifier,
        keys: KeyBatch<'_>,
        out: &mut [T],
        of_answer: impl Fn(Answer) -> T,
        of_rule: impl Fn(RuleId) -> T,
    ) {
        let mut scratch = SCRATCH.take().unwrap_or_default();
        let Scratch { answers, misses } = &mut *scratch;
        // S3: held until the misses are classified.
        let list = self.list.read();
        misses.clear();
        self.answer_hits(&list, keys, out, of_answer, answers, misses);
        misses.resolve(full, out, of_rule);
        drop(list);
        SCRATCH.set(Some(scratch));
    }

    /// Whether the next batch, of so many keys, bypasses the cache; then its keys are misses.
    fn bypasses(&self, keys: usize) -> bool {
        let reader = self.readers.own();
        let bypasses = reader.bypasses();
        if bypasses {
            reader.count_misses(keys);
        }
        bypasses
    }

    /// The first half of a lookup: answers hits in `out` and adds the others to `misses`, for
    /// [`Misses::resolve`]. A batch may be looked up in parts, in order, each with its part of
    /// `out`.
    /// See [`misses`](crate::misses) for what the two halves promise.
    ///
    /// # Panics
    /// As [`StormCache::lookup`].
    pub fn look_up_cached<T>(
        &self,
        keys: KeyBatch<'_>,
        out: &mut [T],
        of_answer: impl Fn(Answer) -> T,
        misses: &mut Misses,
    ) {
        if self.bypasses(keys.len()) {
            return misses.push_all(keys);
        }
        let mut scratch = SCRATCH.take().unwrap_or_default();
        self.answer_hits(&self.list.read(), keys, out, of_answer, &mut scratch.answers, misses);
        SCRATCH.set(Some(scratch));
    }

    fn answer_hits<T>(
        &self,
        list: &BoxList,
        keys: KeyBatch<'_>,
        out: &mut [T],
        of_answer: impl Fn(Answer) -> T,
        answers: &mut Vec<Answer>,
        misses: &mut Misses,
    ) {
        let out = &mut out[..keys.len()];
        answers.resize(keys.len(), Answer::MISS);
        let missed_before = misses.len();
        list.lookup(keys, answers);
        let groups = answers.chunks(ANSWER_GROUP).zip(out.chunks_mut(ANSWER_GROUP));
        for (group, (answers, out)) in groups.enumerate() {
            let has_misses = answers.iter().fold(false, |any, a| any | (*a == Answer::MISS));
            for (at, (answer, out)) in answers.iter().zip(out).enumerate() {
                if has_misses && *answer == Answer::MISS {
                    let place = group * ANSWER_GROUP + at;
                    misses.push(place, keys.key(place));
                } else {
                    *out = of_answer(*answer);
                }
            }
        }
        misses.end_part(keys.len());
        let missed = misses.len() - missed_before;
        let hits = keys.len() - missed;
        let reader = self.readers.own();
        self.pace.note_hits(reader, hits, keys.len());
        reader.count(hits, missed);
    }

    /// The state of the calling thread.
    pub(crate) fn reader(&self) -> &Reader {
        self.readers.own()
    }

    /// Offers keys of a batch as samples, one of 256 or fewer. With `is_folded` the calling thread
    /// is also the updater for each of them, unless another one is.
    pub fn sample_batch(&self, keys: KeyBatch<'_>, is_folded: bool) {
        let reader = self.readers.own();
        let parts = Pace::parts_per_batch(reader);
        if is_folded {
            self.go_on(parts);
        }
        let (first, interval) = self.pace.due(reader, keys.len());
        for (nth, at) in (first..keys.len()).step_by(interval).enumerate() {
            // Each sample has its parts, else large batches would leave most samples undone.
            if is_folded && nth > 0 {
                self.go_on(parts);
            }
            self.samples.0.offer(keys.key(at));
            if is_folded && !self.evolve() {
                return;
            }
        }
    }

    /// Does what is left for the last sample, unless another thread updates.
    pub fn finish_sample(&self) {
        self.go_on(usize::MAX);
    }

    /// Does so many parts of it.
    fn go_on(&self, parts: usize) {
        for _ in 0..parts {
            if !self.has_work.0.load(Ordering::Relaxed) || !self.evolve() {
                return;
            }
        }
    }

    /// Does the next part of what is left for the last sample or, if nothing is left, takes the one
    /// of the slot. Returns whether it did either: the loop of an updater thread. It does neither
    /// if another thread updates.
    ///
    /// Cost: some microseconds, so that a worker can do it beside its packets.
    pub fn evolve(&self) -> bool {
        let Ok(mut updater) = self.updater.0.try_lock() else { return false };
        let is_swap_due = self.is_swap_due(&updater);
        let Updater { index, evolving, key, samples, samples_since, .. } = &mut *updater;
        if evolving.has_work() {
            let progress = evolving.step(index);
            self.note_progress(&mut updater, progress);
        } else if is_swap_due {
            self.publish(&mut updater, false);
        } else if self.samples.0.take(key) {
            evolving.trim(self.pace.window_len(self.window_len));
            evolving.set_patient(self.pace.is_slow());
            (*samples, *samples_since) = (*samples + 1, *samples_since + 1);
            let progress = evolving.begin(key, index);
            self.note_progress(&mut updater, progress);
        } else {
            return false;
        }
        let has_work = updater.evolving.has_work() || self.is_swap_due(&updater);
        if self.has_work.0.load(Ordering::Relaxed) != has_work {
            self.has_work.0.store(has_work, Ordering::Relaxed);
        }
        true
    }

    fn note_progress(&self, updater: &mut Updater, progress: Progress) {
        updater.is_changed |= match progress {
            Progress::Decided(evolution) => {
                self.pace.note_sample(evolution);
                let Updater { evolving, published_serials, samples_since, .. } = updater;
                let is_look_due = samples_since.is_multiple_of(self.samples_per_swap);
                matches!(evolution, Evolution::Expanded | Evolution::Started)
                    || is_look_due && evolving.outweighs(published_serials, self.cached_max)
            }
            Progress::Grown => true,
            Progress::Nothing => false,
        };
    }

    fn is_swap_due(&self, updater: &Updater) -> bool {
        // The first samples are worth a version each: what is cached so far is little.
        let due = self.samples_per_swap.min(1 + updater.samples as usize / 4);
        updater.samples_since >= due && updater.is_changed
    }

    /// Publishes the heaviest rules, without waiting for readers or, with `waits`, so that none
    /// sees a version before.
    fn publish(&self, updater: &mut Updater, waits: bool) {
        let Updater { evolving, published_list, .. } = updater;
        let heaviest = evolving.heaviest(self.cached_max);
        published_list.fill(heaviest.iter().map(|rule| (&rule.region[..], rule.answer)));
        updater.is_behind = if waits {
            self.list.replace(published_list);
            false
        } else {
            !self.list.try_replace(published_list)
        };
        updater.published_serials = heaviest.iter().map(|rule| rule.serial).collect();
        updater.published_serials.sort_unstable();
        updater.published =
            heaviest.into_iter().map(|rule| (rule.region.clone(), rule.weight)).collect();
        // Who is behind gets the next version.
        updater.is_changed = updater.is_behind;
        updater.samples_since = 0;
        updater.swaps += 1;
    }

    /// Prepares changes of the classifier: removes every cached rule that one of them touches.
    /// When this returns no reader sees such a rule, and none comes until the change is finished.
    ///
    /// Waits for readers: the calling thread must not be within a lookup.
    pub fn begin_change(&self, changes: &[RuleChange<'_>]) -> PendingChange<'_> {
        let mut updater = self.updater();
        let Updater { index, evolving, published, is_behind, .. } = &mut *updater;
        let is_dirty = |region: &[Span]| changes.iter().any(|change| index.touches(change, region));
        evolving.remove_dirty(is_dirty);
        // The list may still hold rules that have left the window, and so may versions before it.
        if *is_behind || published.iter().any(|(region, _)| is_dirty(region)) {
            self.publish(&mut updater, true);
        } else {
            self.list.wait_for_old_readers();
        }
        PendingChange { updater }
    }

    /// Starts a new tree for the conflict check if enough has changed; see [`RuleIndex`].
    pub fn begin_rebuild(&self) -> Option<Snapshot> {
        let mut updater = self.updater();
        if updater.index.wants_rebuild() { updater.index.begin_rebuild() } else { None }
    }

    /// Ends a rebuild.
    ///
    /// # Panics
    /// If none was begun: a caller bug.
    pub fn finish_rebuild(&self, tree: BoxTree) {
        self.updater().index.finish_rebuild(tree);
    }

    /// Checks the five properties of the evolving rules.
    ///
    /// # Errors
    /// The first property that does not hold.
    pub fn verify(&self) -> Result<(), String> {
        let updater = self.updater();
        updater.evolving.verify(&updater.index)
    }

    /// Cached rules that a search in order compares with a key: up to the one that contains it, all
    /// of them for a miss. For measurements; it takes the updater's lock.
    pub fn rules_compared(&self, key: &[u32]) -> usize {
        let updater = self.updater();
        let mut point = Vec::new();
        updater.index.point(key, &mut point);
        let contains = |region: &[Span]| region.iter().zip(&point).all(|(a, b)| a.covers(*b));
        let found = updater.published.iter().position(|(region, _)| contains(region));
        found.map_or(updater.published.len(), |at| at + 1)
    }

    /// Hits and misses so far, without the updater's lock.
    pub fn counts(&self) -> (u64, u64) {
        self.readers.counts()
    }

    /// What the cache has done so far.
    pub fn stats(&self) -> StormStats {
        let updater = self.updater();
        let (hits, misses) = self.counts();
        StormStats {
            hits,
            misses,
            swaps: updater.swaps,
            samples: updater.samples,
            evolving_rules: updater.evolving.rules().len(),
            weights: updater.published.iter().map(|(_, weight)| *weight).collect(),
        }
    }

    /// Bytes of memory it takes, but for samples.
    pub fn bytes(&self) -> usize {
        self.updater().index.bytes() + size_of::<Self>()
    }

    /// A panic of an updater leaves the list as it was published.
    fn updater(&self) -> MutexGuard<'_, Updater> {
        self.updater.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::thread;
    use std::time::Duration;

    use warpswitch_classify::{BuildOptions, Engine, build};
    use warpswitch_rules::schema::IPV4_5TUPLE;
    use warpswitch_rules::{Action, Field, KeyBuf, Match, Rule, RulesetBuilder};

    use super::*;

    const PORTS: u32 = 60_000;

    /// A rule for each destination port, so that no two keys of different ports share a box.
    pub(crate) fn rules_by_port(ports: u32) -> Ruleset {
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        for port in 0..ports {
            let mut matching = Match::any(&IPV4_5TUPLE);
            matching.set_exact(Field::L4Dst, port.into());
            builder.push(Rule::new(matching, Action::Pass));
        }
        builder.build()
    }

    /// Looks up batches of keys whose ports `port_of` gives, every other one in two halves; samples
    /// and hits that it took.
    fn run(
        cache: &StormCache,
        full: &dyn Classifier,
        batches: u32,
        port_of: impl Fn(u32) -> u32,
    ) -> (u64, f64) {
        let before = cache.stats();
        let mut misses = Misses::default();
        for batch in 0..batches {
            let mut keys = KeyBuf::new(&IPV4_5TUPLE);
            (0..256).for_each(|n| keys.push(&[n, 0, port_of(batch * 256 + n), 0]));
            let mut out = vec![RuleId::NONE; keys.len()];
            let of_answer = |answer: Answer| RuleId(answer.0);
            if batch % 2 == 0 {
                cache.lookup(full, keys.as_batch(), &mut out, of_answer, |id| id);
            } else {
                cache.look_up_cached(keys.as_batch(), &mut out, of_answer, &mut misses);
                misses.resolve(full, &mut out, |id| id);
            }
            let expected = keys.as_batch().iter().map(|key| RuleId(key[2]));
            assert!(out.iter().copied().eq(expected));
            cache.sample_batch(keys.as_batch(), true);
        }
        let after = cache.stats();
        let hits = (after.hits - before.hits) as f64 / f64::from(batches * 256);
        (after.samples - before.samples, hits)
    }

    #[test]
    fn traffic_without_hits_is_sampled_rarely_until_it_is_skewed_again() {
        let ruleset = rules_by_port(PORTS);
        let full = build(Engine::Turbo, &ruleset, &BuildOptions::default()).expect("no bound");
        let cache = StormCache::new(&ruleset, &StormOptions::default());
        let skewed = |n: u32| n % 7;
        let (_, hits) = run(&cache, &*full, 200, skewed);
        assert!(hits > 0.8, "{hits}");
        let uniform = |n: u32| n.wrapping_mul(0x9e37_79b9) % PORTS;
        let (samples, hits) = run(&cache, &*full, 2000, uniform);
        assert!(samples < 200, "{samples} samples of 2000 batches");
        assert!(hits < 0.05, "{hits}");
        run(&cache, &*full, 2000, skewed);
        let (_, hits) = run(&cache, &*full, 100, skewed);
        assert!(hits > 0.99, "{hits}");
    }

    #[test]
    fn rules_that_become_heavier_are_cached_though_no_region_changes() {
        let ruleset = rules_by_port(100);
        let full = build(Engine::Turbo, &ruleset, &BuildOptions::default()).expect("no bound");
        let cache = StormCache::new(&ruleset, &StormOptions::default());
        let mixed = |n: u32| n.wrapping_mul(0x9e37_79b9) >> 16;
        // Twenty ports in most packets, five in one of eight.
        let port = |n: u32| if mixed(n) % 8 == 0 { 20 + mixed(n) / 8 % 5 } else { mixed(n) % 20 };
        let (_, hits) = run(&cache, &*full, 1000, port);
        assert!(hits > 0.7, "{hits}");
        let stats = cache.stats();
        assert!(stats.evolving_rules == 25 && stats.weights.len() == 20, "{stats:?}");
        run(&cache, &*full, 500, |n| 20 + mixed(n) % 5);
        let (_, hits) = run(&cache, &*full, 100, |n| 20 + mixed(n) % 5);
        assert!(hits > 0.99, "{hits}");
    }

    /// A reader may hold a version that later ones have replaced without waiting for it.
    #[test]
    fn a_change_waits_for_readers_of_replaced_versions() {
        let ruleset = rules_by_port(100);
        let full = build(Engine::Turbo, &ruleset, &BuildOptions::default()).expect("no bound");
        let cache = StormCache::new(&ruleset, &StormOptions::default());
        run(&cache, &*full, 50, |n| n % 7);
        let swaps = || cache.stats().swaps;
        let change = || _ = cache.begin_change(&[RuleChange::Remove(ruleset.rule(RuleId(3)))]);
        let (old, before) = (cache.list.read(), swaps());
        thread::scope(|scope| {
            // The thread that evolves never waits for the reader.
            scope.spawn(|| run(&cache, &*full, 50, |n| 50 + n % 30)).join().unwrap();
            assert!(swaps() > before + 1, "{} swaps", swaps());
            let writer = scope.spawn(change);
            thread::sleep(Duration::from_millis(20));
            assert!(!writer.is_finished(), "an old version is still read");
            drop(old);
            writer.join().unwrap();
        });
    }
}
