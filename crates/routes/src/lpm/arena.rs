//! The room for blocks: which words are free, and which may not be used yet.

use std::collections::VecDeque;

use super::block::BLOCK_WORDS_MAX;

/// Blocks are a multiple of these many words, so that places count pairs, and one that grows a
/// little finds the room of one that did.
pub(crate) const GRAIN: usize = 4;

/// The same where blocks begin with cache lines.
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
    /// Free blocks by size, in grains.
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
        let free = vec![Vec::new(); BLOCK_WORDS_MAX / grain + 2];
        Self { next: first, end, free, retired: VecDeque::new(), live_words: 0, grain }
    }

    /// Words that a block of `words` takes.
    pub(crate) fn rounded(&self, words: usize) -> usize {
        // A power of two: changes ask often, and a division takes longer.
        (words + self.grain - 1) & !(self.grain - 1)
    }

    /// Whether blocks of `words` words in all can be had, however they are cut.
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
        let at = self.free[words >> self.grain.trailing_zeros()].pop().unwrap_or_else(|| {
            let at = self.next;
            self.next += words;
            assert!(self.next <= self.end, "room was not asked for");
            at as u32
        });
        Room { at, words: words as u16 }
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
            self.free[usize::from(room.words) >> self.grain.trailing_zeros()].push(room.at);
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
