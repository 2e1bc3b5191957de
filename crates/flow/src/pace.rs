//! How often keys are sampled, and which batches bypass the cache for lack of hits.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::evolving::Evolution;
use crate::readers::Reader;
use crate::storm::StormOptions;

/// The interval between samples grows to so many times its start while samples start new rules.
const SAMPLE_BACKOFF_MAX: usize = 512;

/// From so many times its start on, hardly a sample meets a rule again: then the interval doubles
/// with each one that starts a rule, so that a few that do not are no reason for many more.
const SLOW_BACKOFF: usize = 64;

/// While all but one in so many keys hit, sampling is [`HITTING_BACKOFF`] times as rare.
const KEYS_PER_MISS_MIN: usize = 16;
/// See [`KEYS_PER_MISS_MIN`].
const HITTING_BACKOFF: usize = 4;

/// While less than half as many keys hit as before, the window is so much shorter: rules of former
/// traffic would keep those of new traffic out of the cache until all their samples have left it.
/// It is as short while hardly a sample meets a rule again.
const SHORT_SHARE: usize = 8;

/// Hits of all keys, and the weight of a batch in the mean of hits before: some 50,000 keys.
const ALL_HIT: usize = 1 << 16;
/// See [`ALL_HIT`].
const MEAN_BATCHES: usize = 256;

/// A batch with fewer hits than one in so many keys makes the next ones bypass the cache.
const KEYS_PER_HIT_MAX: usize = 8;

/// The number of batches that bypass the cache after the second one in a row with so few hits.
const BYPASS_SEVERAL: usize = 3;

/// The most batches that bypass the cache before it is tried again.
const BYPASS_MAX: usize = 127;

/// Parts of the last sample that a worker does with each batch while nearly all keys hit, or batch
/// after batch misses. A part takes one to three microseconds in which packets wait, so fewer parts
/// mean higher rates without loss, and later hits: with one part always, 97.2 % hit where 98.1 % do
/// now. Batches grow when packets wait, so that a key costs less the more the worker has to do.
const PARTS_PER_BATCH: usize = 2;

/// The same in between, where a sample that is done soon saves more than it takes. All parts at
/// once made no packet hit earlier, and took up to 400 us, in which a queue of 1,000 packets
/// overflows.
const MORE_PARTS_PER_BATCH: usize = 4;

/// How often keys are sampled and the cache is tried. Races between threads only change the pace,
/// so all accesses are relaxed.
#[derive(Debug)]
pub(crate) struct Pace {
    is_adaptive: bool,
    keys_per_sample: usize,
    /// Keys between two samples now.
    interval: AtomicUsize,
    /// What the window is divided by, as the reader of the last sample had it.
    window_share: AtomicUsize,
}

impl Pace {
    pub fn new(options: &StormOptions) -> Self {
        Self {
            is_adaptive: options.is_adaptive,
            keys_per_sample: options.keys_per_sample.max(1),
            interval: AtomicUsize::new(options.keys_per_sample.max(1)),
            window_share: AtomicUsize::new(1),
        }
    }

    /// Parts of a sample that the thread does with a batch: more where enough keys miss for the
    /// cache to be worth more, but not where batch after batch hardly hits.
    pub fn parts_per_batch(reader: &Reader) -> usize {
        let is_hitting = reader.is_hitting.load(Ordering::Relaxed);
        let is_between = !is_hitting && reader.bypass_len.load(Ordering::Relaxed) < BYPASS_SEVERAL;
        if is_between { MORE_PARTS_PER_BATCH } else { PARTS_PER_BATCH }
    }

    /// Whether samples are rare, as they start rules that no other sample meets.
    pub fn is_slow(&self) -> bool {
        self.interval.load(Ordering::Relaxed) >= self.keys_per_sample * SLOW_BACKOFF
    }

    /// Samples of the window now. Where sampling is rarer, it has fewer, so that it stands for
    /// about the same traffic; after a shift it has few, all of new traffic. Where hardly a sample
    /// meets a rule again, each is compared with all rules of the window in vain.
    pub fn window_len(&self, len: usize) -> usize {
        let share = match self.is_slow() {
            true => SHORT_SHARE,
            false => self.window_share.load(Ordering::Relaxed),
        };
        (len / share).max(1)
    }

    /// Learns from a batch that did not bypass the cache.
    pub fn note_hits(&self, reader: &Reader, hits: usize, keys: usize) {
        let is_hitting = self.is_adaptive && (keys - hits) * KEYS_PER_MISS_MIN <= keys;
        reader.is_hitting.store(is_hitting, Ordering::Relaxed);
        let share = hits * ALL_HIT / keys.max(1);
        let mean = reader.hits_mean.load(Ordering::Relaxed);
        reader.is_shifted.store(self.is_adaptive && 2 * share < mean, Ordering::Relaxed);
        reader
            .hits_mean
            .store(mean - mean / MEAN_BATCHES + share / MEAN_BATCHES, Ordering::Relaxed);
        if hits * KEYS_PER_HIT_MAX >= keys {
            reader.bypass_len.store(0, Ordering::Relaxed);
        } else if self.is_adaptive {
            let len = (2 * reader.bypass_len.load(Ordering::Relaxed) + 1).min(BYPASS_MAX);
            reader.bypass_len.store(len, Ordering::Relaxed);
            reader.bypass.store(len, Ordering::Relaxed);
        }
    }

    /// Learns from a sample: where most samples start rules, little can be cached.
    pub fn note_sample(&self, evolution: Evolution) {
        let interval = self.interval.load(Ordering::Relaxed);
        let next = match evolution {
            Evolution::Counted | Evolution::Expanded => interval / 2,
            Evolution::Started | Evolution::Rejected if self.is_adaptive => match self.is_slow() {
                true => 2 * interval,
                false => interval + interval.div_ceil(8),
            },
            Evolution::Started | Evolution::Rejected => interval,
        };
        let limits = (self.keys_per_sample, self.keys_per_sample * SAMPLE_BACKOFF_MAX);
        let next = next.clamp(limits.0, limits.1);
        // Readers load it: they keep its line while it stays the same.
        if next != interval {
            self.interval.store(next, Ordering::Relaxed);
        }
    }

    /// The first key of a batch to sample, and the distance to further ones.
    pub fn due(&self, reader: &Reader, keys: usize) -> (usize, usize) {
        let is_hitting = reader.is_hitting.load(Ordering::Relaxed);
        let backoff = if is_hitting { HITTING_BACKOFF } else { 1 };
        let interval = self.interval.load(Ordering::Relaxed) * backoff;
        let since = reader.since.load(Ordering::Relaxed);
        let first = interval.saturating_sub(since + 1);
        let after = if first < keys { (keys - 1 - first) % interval } else { since + keys };
        reader.since.store(after, Ordering::Relaxed);
        let share = match reader.is_shifted.load(Ordering::Relaxed) {
            true => SHORT_SHARE,
            false => backoff,
        };
        // Readers load it: they keep its line while it stays the same.
        if first < keys && self.window_share.load(Ordering::Relaxed) != share {
            self.window_share.store(share, Ordering::Relaxed);
        }
        (first, interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_parts_are_done_between_hits_and_misses() {
        const KEYS: usize = 256;
        let (pace, reader) = (Pace::new(&StormOptions::default()), Reader::default());
        for (hits, does_more) in [
            (KEYS, false),
            (KEYS / 2, true),
            (0, true),
            (0, false),
            (0, false),
            (KEYS / 2, true),
            (KEYS, false),
        ] {
            pace.note_hits(&reader, hits, KEYS);
            let parts = if does_more { MORE_PARTS_PER_BATCH } else { PARTS_PER_BATCH };
            assert_eq!(Pace::parts_per_batch(&reader), parts, "{hits} hits");
        }
    }

    #[test]
    fn the_window_is_short_while_samples_start_rules() {
        let pace = Pace::new(&StormOptions::default());
        assert_eq!(pace.window_len(1024), 1024);
        (0..100).for_each(|_| pace.note_sample(Evolution::Started));
        assert_eq!(pace.window_len(1024), 128);
        (0..100).for_each(|_| pace.note_sample(Evolution::Counted));
        assert_eq!(pace.window_len(1024), 1024);
    }

    #[test]
    fn a_few_samples_that_meet_rules_do_not_make_sampling_frequent() {
        let pace = Pace::new(&StormOptions::default());
        (0..100).for_each(|_| pace.note_sample(Evolution::Started));
        let slowest = pace.interval.load(Ordering::Relaxed);
        for _ in 0..100 {
            pace.note_sample(Evolution::Counted);
            (0..2).for_each(|_| pace.note_sample(Evolution::Started));
            assert_eq!(pace.interval.load(Ordering::Relaxed), slowest);
        }
    }
}
