//! The memory of one structure: an array of atomic words, handed out in blocks.
//!
//! Readers follow offsets into it while one writer fills fresh blocks and publishes them by storing
//! an offset. A block that is no longer reachable is kept aside until every reader that may still
//! look at it has left, then used again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};

use warpswitch_packet::pages::SharedWords;

/// Blocks are a whole number of these many words (32 bytes), so an offset fits 27 bits.
pub(crate) const UNIT_WORDS: usize = 8;

/// Words behind the last block, so that a vector load of the last column stays inside.
pub(crate) const TAIL_WORDS: usize = crate::arch::turbo::SLACK_WORDS;

/// Units of a block of `words` words: a multiple of `grain`, so that blocks start where one may;
/// exact for small blocks, a sixteenth coarser for large ones, so that a leaf that grows finds the
/// room of one that did.
fn block_units(words: usize, grain: usize) -> usize {
    let units = words.div_ceil(UNIT_WORDS);
    let step = (units.next_power_of_two() / 16).max(grain);
    units.next_multiple_of(step)
}

/// Shared words. Relaxed stores fill a block; the store that publishes it is a release, the load
/// that follows it an acquire.
#[derive(Debug)]
pub(crate) struct Words(SharedWords);

impl Words {
    pub(crate) fn as_slice(&self) -> &[AtomicU32] {
        &self.0
    }

    #[inline(always)]
    pub(crate) fn load(&self, at: usize) -> u32 {
        self.0[at].load(Ordering::Acquire)
    }

    pub(crate) fn fill(&self, at: usize, words: &[u32]) {
        for (slot, word) in self.0[at..][..words.len()].iter().zip(words) {
            slot.store(*word, Ordering::Relaxed);
        }
    }

    /// Makes everything that was filled before visible to whoever loads this word.
    pub(crate) fn publish(&self, at: usize, word: u32) {
        self.0[at].store(word, Ordering::Release);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * 4
    }
}

/// Hands out blocks of a [`Words`] of `capacity` words. The writer's alone.
#[derive(Debug, Default)]
pub(crate) struct Allocator {
    used: usize,
    capacity: usize,
    /// Blocks are a multiple of so many units: a power of two.
    grain: usize,
    /// Free blocks by their length in units.
    free: BTreeMap<usize, Vec<usize>>,
    /// Unreachable blocks with the epoch in which they became so, oldest first.
    retired: VecDeque<(u64, usize, usize)>,
}

impl Allocator {
    /// Units that a block of `words` words takes.
    pub(crate) fn units(&self, words: usize) -> usize {
        block_units(words, self.grain)
    }

    /// A block of at least `words` words: its first word, or `None` if there is no room.
    pub(crate) fn take(&mut self, words: usize) -> Option<usize> {
        let units = self.units(words);
        if let Some(at) = self.free.get_mut(&units).and_then(Vec::pop) {
            return Some(at);
        }
        let at = self.used;
        let end = at + units * UNIT_WORDS;
        (end + TAIL_WORDS <= self.capacity).then(|| {
            self.used = end;
            at
        })
    }

    /// Words that are certain to be had, in blocks of any length.
    pub(crate) fn room(&self) -> usize {
        self.capacity.saturating_sub(TAIL_WORDS).saturating_sub(self.used)
    }

    /// Free blocks of `units` units.
    pub(crate) fn free_blocks(&self, units: usize) -> usize {
        self.free.get(&units).map_or(0, Vec::len)
    }

    /// Whether more than half of what was handed out is free or put aside.
    pub(crate) fn is_mostly_free(&self) -> bool {
        let free: usize = self.free.iter().map(|(units, blocks)| units * blocks.len()).sum();
        let aside: usize = self.retired.iter().map(|(_, _, units)| units).sum();
        2 * (free + aside) * UNIT_WORDS > self.used
    }

    /// Puts a block aside until every reader of `epoch` and before has left.
    pub(crate) fn retire(&mut self, epoch: u64, at: usize, words: usize) {
        self.retired.push_back((epoch, at, self.units(words)));
    }

    /// Makes the blocks free that were retired before `oldest`, the oldest epoch with a reader.
    pub(crate) fn reclaim(&mut self, oldest: u64) {
        while let Some(&(epoch, at, units)) = self.retired.front()
            && epoch < oldest
        {
            self.retired.pop_front();
            self.free.entry(units).or_default().push(at);
        }
    }

    /// Number of blocks put aside.
    pub(crate) fn retired_len(&self) -> usize {
        self.retired.len()
    }

    /// An allocator for a copy of the same words with room for `capacity`: its blocks are in nobody
    /// else's hands, so all that is retired is free.
    pub(crate) fn grown(&self, capacity: usize) -> Self {
        let mut grown = Self {
            used: self.used,
            capacity,
            grain: self.grain,
            free: self.free.clone(),
            retired: self.retired.clone(),
        };
        grown.reclaim(u64::MAX);
        grown
    }

    pub(crate) fn bytes(&self) -> usize {
        let listed: usize = self.free.values().map(|list| list.capacity() * 8).sum();
        listed + self.free.len() * 48 + self.retired.capacity() * size_of::<(u64, usize, usize)>()
    }
}

/// Words that are still being laid out, and grow as needed.
#[derive(Debug)]
pub(crate) struct Draft {
    words: Vec<u32>,
    grain: usize,
}

impl Draft {
    /// Nothing yet; blocks will be a multiple of `grain` units.
    pub(crate) fn new(grain: usize) -> Self {
        Self { words: Vec::new(), grain }
    }

    /// A zeroed block of `words` words.
    pub(crate) fn take(&mut self, words: usize) -> usize {
        let at = self.words.len();
        self.words.resize(at + block_units(words, self.grain) * UNIT_WORDS, 0);
        at
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Forgets everything from word `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.words.truncate(len);
    }

    /// Bytes that the finished structure takes.
    pub(crate) fn bytes(&self) -> usize {
        (self.words.len() + TAIL_WORDS) * 4
    }

    /// The words, shared, with room for `slack` more, and their allocator.
    pub(crate) fn finish(self, slack: usize) -> (Words, Allocator) {
        let used = self.words.len();
        let capacity = used + slack + TAIL_WORDS;
        let shared = SharedWords::zeroed(capacity);
        for (slot, word) in shared.iter().zip(&self.words) {
            slot.store(*word, Ordering::Relaxed);
        }
        let grain = self.grain;
        (Words(shared), Allocator { used, capacity, grain, ..Allocator::default() })
    }
}

/// A copy of `words` with room for `capacity` words.
pub(crate) fn grow(words: &Words, capacity: usize) -> Words {
    let grown = SharedWords::zeroed(capacity.max(words.0.len()));
    for (slot, word) in grown.iter().zip(words.0.iter()) {
        slot.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    Words(grown)
}
