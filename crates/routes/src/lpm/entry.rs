//! Entries and blocks: what a lookup reads.
//!
//! ```text
//! bits of an entry   63 62   57 56   55 … 48   47 … 40   39 … 32   31 … 0
//! hop                 0 0    0       0         number of the hop    0
//! leaf                0 1    shift   starts before word 3, 2, 1     index of word 0
//! inner               1 0    shift   starts before word 3, 2, 1     index of word 0
//!
//! block              … word 3 │ word 2 │ word 1 │ word 0 │ value 0, value 1, …
//!                                                 └─ the entry's index
//! ```
//! A block answers for the 256 values of one byte of an address. Neighbours that lead to the same
//! place form a *run*; the words have a bit for each value, set where a run starts, and the values
//! are one for each run: 16-bit hops in a leaf, entries in an inner block. The byte is shifted
//! right by `shift` first, so where no run starts between multiples of 2 or 4, two words or one are
//! enough.
//!
//! # Invariants
//! - B1: bit 0 of word 0 is set: every byte has a run.
//! - B2: a block that an entry leads to never changes, but for the entries in an inner block, each
//!   of which is replaced by one store.

use std::sync::atomic::{AtomicU64, Ordering};

/// Marks an entry of a leaf.
pub(crate) const LEAF: u64 = 1 << 62;
/// Marks an entry of an inner block.
pub(crate) const INNER: u64 = 1 << 63;
/// Where the shift stands.
pub(crate) const SHIFT_AT: u32 = 56;
/// Where a hop stands.
pub(crate) const HOP_AT: u32 = 32;
/// The three counts of starts.
pub(crate) const COUNTS: u64 = 0x00ff_ffff_0000_0000;

/// One entry: a hop, or the place of a block. Zero is hop 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    /// A lookup ends here.
    pub(crate) fn hop(hop: u16) -> Self {
        Self(u64::from(hop) << HOP_AT)
    }

    /// The hop; of an entry that is one.
    #[inline(always)]
    pub(crate) fn hop_number(self) -> u16 {
        (self.0 >> HOP_AT) as u16
    }

    #[inline(always)]
    pub(crate) fn is_hop(self) -> bool {
        self.0 & (LEAF | INNER) == 0
    }

    /// The index of word 0.
    #[inline(always)]
    pub(crate) fn at(self) -> usize {
        self.0 as u32 as usize
    }

    /// Where the run of `byte` has its value, counted from word 0: 1 is the first.
    #[inline(always)]
    pub(crate) fn value_of(self, words: &[AtomicU64], byte: u8) -> usize {
        let slot = u32::from(byte) >> ((self.0 >> SHIFT_AT) & 3);
        let word = words[self.at() - (slot / 64) as usize].load(Ordering::Relaxed);
        let here = (word << (!slot & 63)).count_ones();
        let before = ((self.0 & COUNTS) >> (24 + 8 * (slot / 64))) as u8;
        usize::from(before) + here as usize
    }

    /// What follows for `byte`; of an entry that is no hop.
    #[cfg(test)]
    pub(crate) fn next(self, words: &[AtomicU64], byte: u8) -> Entry {
        let value = self.value_of(words, byte);
        if self.0 & INNER != 0 {
            // Partner: the release store that publishes a child.
            return Entry(words[self.at() + value].load(Ordering::Acquire));
        }
        let word = words[self.at() + 1 + (value - 1) / 4].load(Ordering::Relaxed);
        Entry::hop((word >> (16 * ((value - 1) % 4))) as u16)
    }
}
