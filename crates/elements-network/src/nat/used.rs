//! Taken ports or addresses of a range, with a search for the next free one.
//!
//! ```text
//! level 2                      1 bit for 64 words of level 1
//! level 1        …│1│0│…       1 bit for a word of level 0: set if that word is full
//! level 0  …│11…1│0…1…│…       1 bit for a port or address
//! ```
//! Bits belong to one *line*: all flow identifiers that differ only in that port or address. A port
//! may thus be free towards one server and taken towards another. The words of all lines are in one
//! hash table, without the zero words: a line with one taken port costs one word.
//!
//! Cost: one step per level for each query and update, independent of the number of taken ports.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use super::flow::{FlowId, TableId};
use super::keyed::Seed;

/// Levels that 32 bits need.
const LEVELS: u8 = 6;

/// All flow identifiers that differ in one place: the destination port, or the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    table: TableId,
    is_port: bool,
    src: u32,
    src_port: u16,
    /// The destination or its port, whichever is not the place that differs.
    rest: u32,
}

impl Line {
    /// The line of `id` along destination ports.
    pub(super) fn of_ports(table: TableId, id: FlowId) -> Self {
        Self { table, is_port: true, src: id.src, src_port: id.src_port, rest: id.dst }
    }

    /// The line of `id` along destinations.
    pub(super) fn of_addresses(table: TableId, id: FlowId) -> Self {
        let rest = id.dst_port.into();
        Self { table, is_port: false, src: id.src, src_port: id.src_port, rest }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WordKey {
    line: Line,
    level: u8,
    word: u32,
}

impl Hash for WordKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Line { table, is_port, src, src_port, rest } = self.line;
        let small = u64::from(table.0) << 24 | u64::from(src_port) << 40;
        let small = small | u64::from(self.level) << 8 | u64::from(is_port);
        state.write_u64(u64::from(src) << 32 | u64::from(rest));
        state.write_u64(small);
        state.write_u64(self.word.into());
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct UsedSet {
    words: HashMap<WordKey, u64, Seed>,
}

impl UsedSet {
    /// An empty set.
    pub(super) fn new(seed: Seed) -> Self {
        Self { words: HashMap::with_hasher(seed) }
    }

    /// Forgets what is taken in `table`.
    pub(super) fn clear(&mut self, table: TableId) {
        self.words.retain(|key, _| key.line.table != table);
    }

    /// Notes that `at` is taken.
    pub(super) fn insert(&mut self, line: Line, mut at: u32) {
        for level in 0..LEVELS {
            let word = self.words.entry(WordKey { line, level, word: at >> 6 }).or_default();
            *word |= 1 << (at & 63);
            if *word != u64::MAX {
                break;
            }
            at >>= 6;
        }
    }

    /// Notes that `at` is free again.
    pub(super) fn remove(&mut self, line: Line, mut at: u32) {
        for level in 0..LEVELS {
            let key = WordKey { line, level, word: at >> 6 };
            let Some(word) = self.words.get_mut(&key) else { break };
            let was_full = *word == u64::MAX;
            *word &= !(1 << (at & 63));
            if *word == 0 {
                self.words.remove(&key);
            }
            if !was_full {
                break;
            }
            at >>= 6;
        }
    }

    /// Whether `at` is free.
    #[cfg(test)]
    pub(super) fn is_free(&self, line: Line, at: u32) -> bool {
        self.next_free(line, at, at).is_some()
    }

    /// The first of `from..=to` that is free.
    pub(super) fn next_free(&self, line: Line, from: u32, to: u32) -> Option<u32> {
        let (mut level, mut at) = (0u8, u64::from(from));
        while at << (6 * level) <= u64::from(to) {
            let key = WordKey { line, level, word: (at >> 6) as u32 };
            let word = self.words.get(&key).copied().unwrap_or(0);
            match !word & u64::MAX << (at & 63) {
                0 => {
                    // Nothing there: on with the next word, seen from above.
                    at = (at >> 6) + 1;
                    level += 1;
                }
                free => {
                    at = at & !63 | u64::from(free.trailing_zeros());
                    if level == 0 {
                        return (at <= u64::from(to)).then_some(at as u32);
                    }
                    at <<= 6;
                    level -= 1;
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line =
        Line { table: TableId(3), is_port: true, src: 0x0a00_0001, src_port: 80, rest: 7 };

    /// Against a plain list, over ranges at the corners, until all is taken and free again.
    #[test]
    fn the_next_free_one_is_found() {
        for (first, last) in [(0, 255), (1024, 9000), (u32::MAX - 5000, u32::MAX)] {
            let mut set = UsedSet::default();
            let mut taken = vec![false; (last - first) as usize + 1];
            let mut state = 1u32;
            for step in 0..30_000 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (state >> 8) as usize % taken.len();
                // Ever more is taken in the first half of the steps, less in the second.
                let take = state >> 28 < if step < 15_000 { 14 } else { 2 };
                let expect = taken[at..].iter().position(|taken| !taken).map(|n| n + at);
                let found = set.next_free(LINE, first + at as u32, last);
                assert_eq!(found, expect.map(|n| first + n as u32), "{first} {at}");
                match (take, found) {
                    (true, Some(found)) => {
                        taken[(found - first) as usize] = true;
                        set.insert(LINE, found);
                    }
                    _ => {
                        taken[at] = false;
                        set.remove(LINE, first + at as u32);
                    }
                }
            }
            for at in first..=last {
                set.insert(LINE, at);
                if at == u32::MAX {
                    break;
                }
            }
            assert_eq!(set.next_free(LINE, first, last), None);
            assert!(!set.is_free(LINE, last));
            for at in first..=last {
                set.remove(LINE, at);
                if at == u32::MAX {
                    break;
                }
            }
            assert!(set.words.is_empty(), "zero words are not kept");
        }
    }

    #[test]
    fn lines_do_not_touch() {
        let mut set = UsedSet::default();
        let other = Line { src_port: 81, ..LINE };
        set.insert(LINE, 5);
        assert!(!set.is_free(LINE, 5) && set.is_free(other, 5));
        set.insert(Line { table: TableId(4), ..LINE }, 5);
        set.clear(TableId(3));
        assert!(set.is_free(LINE, 5) && !set.is_free(Line { table: TableId(4), ..LINE }, 5));
    }
}
