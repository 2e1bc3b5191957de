//! Keys that the cache did not answer, on their way to the classifier.
//!
//! The two halves of a lookup may run on different threads: [`StormCache::look_up_cached`] answers
//! the hits of a batch and collects its misses, [`Misses::resolve`] answers those. Each answer is
//! that of the rules at some moment between the two, and a batch whose halves come in order keeps
//! its order.
//!
//! [`StormCache::look_up_cached`]: crate::StormCache::look_up_cached

use warpswitch_classify::Classifier;
use warpswitch_rules::{KeyBatch, RuleId};

/// The misses of a batch. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct Misses {
    keys: Vec<u32>,
    /// The place of each in its batch.
    places: Vec<u32>,
    /// Keys of the batch that have been looked up.
    seen: usize,
    winners: Vec<RuleId>,
}

impl Misses {
    /// Number of misses.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether all keys hit.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Keys of the batch that have been looked up: its answers need so much room.
    pub fn batch_len(&self) -> usize {
        self.seen
    }

    /// Starts a new batch.
    pub fn clear(&mut self) {
        self.seen = 0;
        self.keys.clear();
        self.places.clear();
    }

    /// Adds the key of a place in the part of the batch that is looked up now.
    pub(crate) fn push(&mut self, place: usize, key: &[u32]) {
        self.places.push((self.seen + place) as u32);
        self.keys.extend_from_slice(key);
    }

    /// Adds all keys of the next part of the batch, and ends it.
    pub(crate) fn push_all(&mut self, keys: KeyBatch<'_>) {
        self.places.extend((self.seen..self.seen + keys.len()).map(|place| place as u32));
        self.keys.extend_from_slice(keys.words());
        self.end_part(keys.len());
    }

    /// Ends a part of so many keys.
    pub(crate) fn end_part(&mut self, keys: usize) {
        self.seen += keys;
    }

    /// Answers the misses in `out`, which is of the whole batch, and clears them.
    ///
    /// # Panics
    /// If `out` is shorter than the batch, or `full` is of another schema: a caller bug.
    pub fn resolve<T>(
        &mut self,
        full: &dyn Classifier,
        out: &mut [T],
        of_rule: impl Fn(RuleId) -> T,
    ) {
        if self.is_empty() {
            return;
        }
        self.winners.resize(self.places.len(), RuleId::NONE);
        full.classify(KeyBatch::new(full.schema(), &self.keys), &mut self.winners);
        for (place, winner) in self.places.iter().zip(&self.winners) {
            out[*place as usize] = of_rule(*winner);
        }
        self.clear();
    }

    /// Answers a batch of which all keys miss, without a copy of them.
    ///
    /// # Panics
    /// As [`Misses::resolve`].
    pub(crate) fn resolve_batch<T>(
        &mut self,
        full: &dyn Classifier,
        keys: KeyBatch<'_>,
        out: &mut [T],
        of_rule: impl Fn(RuleId) -> T,
    ) {
        self.winners.resize(keys.len(), RuleId::NONE);
        full.classify(keys, &mut self.winners);
        for (out, winner) in out[..keys.len()].iter_mut().zip(&self.winners) {
            *out = of_rule(*winner);
        }
    }
}
