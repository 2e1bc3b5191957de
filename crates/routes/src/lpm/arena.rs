//! The room for blocks: which words are free, and which may not be used yet.

use std::collections::VecDeque;

use super::block::BLOCK_WORDS_MAX;

/// Blocks are a multiple of these many words, so that places count pairs, and one that grows a
/// little finds the room of one that did.
const GRAIN: usize = 4;

/// Words that a block of `words` takes.
pub(crate) fn rounded(words: usize) -> usize {
    words.next_multiple_of(GRAIN)
}

/// A block's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) at: u32,
    pub(crate) words: u16,
}

/// Hands out the words from `first`, an even one, to `end` in blocks. The writer's alone.
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
}

impl Arena {
    pub(crate) fn new(first: usize, end: usize) -> Self {
        let free = vec![Vec::new(); BLOCK_WORDS_MAX / GRAIN + 1];
        Self { next: first, end, free, retired: VecDeque::new(), live_words: 0 }
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
        let words = rounded(words);
        self.live_words += words;
        let at = self.free[words / GRAIN].pop().unwrap_or_else(|| {
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
    fn a_block_is_used_again_once_its_readers_left() {
        let mut arena = Arena::new(10, 20);
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
