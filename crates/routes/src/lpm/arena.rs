//! The room for blocks: which words are free, and which may not be used yet.

use std::collections::VecDeque;

use super::block::BLOCK_WORDS_MAX;

/// Blocks are a multiple of these many words, so that places count pairs, and one that grows a
/// little finds the room of one that did.
pub(crate) const GRAIN: usize = 4;

/// The same where blocks begin with cache lines; those of half a line or less share one.
pub(crate) const LINE_GRAIN: usize = 16;

/// A block's place. Six bytes, so that a node takes two cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(2))]
pub(crate) struct Room {
    pub(crate) at: u32,
    pub(crate) words: u16,
}

/// Hands out words in blocks. The writer's alone.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    /// From here on nothing was handed out yet.
    next: usize,
    end: usize,
    /// Free blocks by size, in [`GRAIN`]s.
    free: Vec<Vec<u32>>,
    /// Blocks that readers may still look at, with the epoch in which they became unreachable.
    retired: VecDeque<(u64, Room)>,
    live_words: usize,
    /// [`GRAIN`] or [`LINE_GRAIN`].
    grain: usize,
}

impl Arena {
    /// `first` is a multiple of `grain`, a power of two.
    pub(crate) fn new(first: usize, end: usize, grain: usize) -> Self {
        let free = vec![Vec::new(); BLOCK_WORDS_MAX.next_multiple_of(LINE_GRAIN) / GRAIN + 1];
        Self { next: first, end, free, retired: VecDeque::new(), live_words: 0, grain }
    }

    /// Words that a block of `words` takes.
    pub(crate) fn rounded(&self, words: usize) -> usize {
        if words <= self.grain / 2 {
            return words.next_power_of_two().max(GRAIN);
        }
        // A power of two: changes ask often, and a division takes longer.
        (words + self.grain - 1) & !(self.grain - 1)
    }

    /// Whether blocks of `words` words in all can be had, each counted as whole grains, however
    /// they are cut.
    pub(crate) fn has_room(&self, words: usize) -> bool {
        self.end - self.next >= words
    }

    /// Words in blocks that are reachable.
    pub(crate) fn live_words(&self) -> usize {
        self.live_words
    }

    /// A block; [`Arena::has_room`] was asked before.
    pub(crate) fn take(&mut self, words: usize) -> Room {
        let words = self.rounded(words);
        self.live_words += words;
        let at = match self.free[words / GRAIN].pop() {
            Some(at) => at,
            None if words < self.grain => self.cut(words),
            None => self.take_new(words),
        };
        Room { at, words: words as u16 }
    }

    fn take_new(&mut self, words: usize) -> u32 {
        let at = self.next;
        self.next += words;
        assert!(self.next <= self.end, "room was not asked for");
        at as u32
    }

    /// The first part of a cache line; its other parts become free.
    fn cut(&mut self, words: usize) -> u32 {
        let line = self.free[self.grain / GRAIN].pop();
        let at = line.unwrap_or_else(|| self.take_new(self.grain));
        let others = (words..self.grain).step_by(words).rev();
        self.free[words / GRAIN].extend(others.map(|part| at + part as u32));
        at
    }

    /// Puts aside a block that became unreachable in `epoch`.
    pub(crate) fn retire(&mut self, room: Room, epoch: u64) {
        self.live_words -= usize::from(room.words);
        self.retired.push_back((epoch, room));
    }

    /// How many blocks are put aside.
    pub(crate) fn retired_len(&self) -> usize {
        self.retired.len()
    }

    /// Makes free what became unreachable before `epoch`, the oldest that a reader is in.
    pub(crate) fn reclaim(&mut self, epoch: u64) {
        while let Some((_, room)) = self.retired.pop_front_if(|(tag, _)| *tag < epoch) {
            self.free[usize::from(room.words) / GRAIN].push(room.at);
        }
    }

    /// Bytes of its own lists.
    pub(crate) fn bytes(&self) -> usize {
        let free: usize = self.free.iter().map(|list| 24 + list.capacity() * 4).sum();
        free + self.retired.capacity() * size_of::<(u64, Room)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_shares_lines_and_what_is_not_begins_with_one() {
        let mut arena = Arena::new(32, 32 + 64 * LINE_GRAIN, LINE_GRAIN);
        let mut taken = Vec::new();
        for words in [3, 8, 40, 1, 4, 9, 5, 2, 16, 4, 7, 17, 6] {
            let room = arena.take(words);
            let (at, len) = (room.at as usize, usize::from(room.words));
            assert!(len >= words && len == arena.rounded(words), "{words}");
            let is_small = words <= LINE_GRAIN / 2;
            let is_in_one_line = at / LINE_GRAIN == (at + len - 1) / LINE_GRAIN;
            assert!(if is_small { is_in_one_line } else { at % LINE_GRAIN == 0 }, "{words}");
            taken.push(at..at + len);
        }
        taken.sort_by_key(|room| room.start);
        assert!(taken.windows(2).all(|pair| pair[0].end <= pair[1].start), "{taken:?}");
        // Five quarters and four halves have lines of their own kind.
        let lines = 2 + 2 + [3, 1, 1, 2].iter().sum::<usize>();
        assert!(arena.has_room((64 - lines) * LINE_GRAIN), "{taken:?}");
        assert!(!arena.has_room((64 - lines) * LINE_GRAIN + 1), "{taken:?}");
    }

    #[test]
    fn a_block_is_used_again_once_its_readers_left() {
        let mut arena = Arena::new(10, 20, GRAIN);
        let room = arena.take(3);
        assert_eq!((room, arena.live_words()), (Room { at: 10, words: 4 }, 4));
        arena.retire(room, 5);
        arena.reclaim(5);
        assert_eq!((arena.retired_len(), arena.take(4).at), (1, 14));
        arena.reclaim(6);
        assert_eq!((arena.retired_len(), arena.take(4).at), (0, 10));
        assert!(arena.has_room(2) && !arena.has_room(3));
    }
}
