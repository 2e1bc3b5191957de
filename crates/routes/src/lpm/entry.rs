//! Entries and blocks: what a lookup reads.
//!
//! ```text
//! bits of an entry   31 30   29 28   27     26 … 0
//! hop                 0 0    0       0      number of the hop, 16 bits
//! leaf                0 1    shift   form   place of the block, in pairs of words
//! inner               1 0    shift   form   place of the block, in pairs of words
//! flat                1 1    0       0      place of a table of 65,536 entries, in pairs of words
//!
//! form 0, pairs      starts, base │ starts, base │ …  8 >> shift pairs │ value, value, …
//! form 1, direct     256 values
//! ```
//! A block answers for the 256 values of one byte of an address. Neighbours that lead to the same
//! place form a *run*; a block has a value for each run. Values are entries in an inner block; in a
//! leaf they are hops of 16 bits or, where all hops of a table are below 255 (254 for IPv4), of 8.
//!
//! - *Pairs*: the byte is shifted right by `shift` first, which makes a *slot*: where no run starts
//!   between multiples of 2, 4 or 8, fewer pairs are enough. A pair answers for 32 slots: `starts`
//!   has a bit for each, set where a run starts; the value of a slot stands at byte `base` of all
//!   words, plus a value's size for each start up to the slot.
//! - *Direct*: where runs are so many that looking for them costs more than it saves.
//!
//! Bits 32 to 47 of an address, which is where most IPv6 prefixes end, have forms of their own, so
//! that no more than two lines are touched for them. An entry for these bits is a hop, a leaf, or
//! a *table*: a direct inner block, whose entries are hops and leaves of the second byte.
//!
//! ```text
//! bits of a leaf     29 28 27
//! list                d  form   start - 1, start - 1, … (16 bits each) │ value, value, …
//! direct              d  0  0   256 values
//! d: deep             1  .  .   behind it a word, the entry of an inner block, and that block
//! ```
//! - *List*: where runs are few: the first run starts at 0, and the value of a key is that of the
//!   last start up to it. Keys are the bits that are left: 16 of them if no table came before. The
//!   forms 1, 2 and 3 take a quarter of a cache line, half of one and all of it; which part, the
//!   place says. With values of a byte they have 5, 10 and 21 starts, with wider ones 3, 7 and 15.
//! - *Deep*: where prefixes are longer than 48 bits, values of [`DEEP_BYTE`] or [`DEEP_HOP`] say
//!   that the inner block knows more. It answers for all values, so a hop of that number does too.
//!   A list that is deep takes a whole line.
//!
//! A flat table stands for two bytes at once. IPv6 tables have few values of the first 16 bits, and
//! many of the next 16 below these: for such a value, and there alone, the table is worth its size.
//!
//! # Invariants
//! - B1: bit 0 of a pair's `starts` is set: every slot has a run.
//! - B2: a block that an entry leads to never changes, but for the entries in an inner block or a
//!   flat table, each of which is replaced by one store.
//! - B3: only the entries of the first 16 bits lead to flat tables.
//! - B4: an entry for bits 32 to 47 leads to a table, a list or a direct leaf; lists stand nowhere
//!   else, and lie in one cache line each. What is larger begins with a cache line.

use std::sync::atomic::{AtomicU32, Ordering};

use warpswitch_packet::pages::SharedWords;

use super::dir24::Dir24;

/// Marks an entry of a leaf.
pub(crate) const LEAF: u32 = 1 << 30;
/// Marks an entry of an inner block.
pub(crate) const INNER: u32 = 1 << 31;
/// Where the shift stands, two bits.
pub(crate) const SHIFT_AT: u32 = 28;
/// Marks a block that is direct.
pub(crate) const DIRECT: u32 = 1 << 27;
/// The place of a block.
pub(crate) const PLACE: u32 = DIRECT - 1;

/// Marks an entry of a flat table; both bits.
pub(crate) const FLAT: u32 = LEAF | INNER;
/// Entries of a flat table.
pub(crate) const FLAT_LEN: usize = 1 << 16;
/// By how much the 16 bits are rotated that number the entries of a flat table. A line has sixteen
/// of these: values that differ in bits 6 to 9. Registries leave room behind what they give away,
/// so that values in use seldom have neighbours that are, but often others at such distances.
pub(crate) const FLAT_ROTATION: u32 = 6;

/// Which entry of a flat table `bits` have.
#[inline(always)]
pub(crate) fn flat_idx(bits: u16) -> usize {
    usize::from(bits.rotate_right(FLAT_ROTATION))
}

/// Whose entry number `idx` of a flat table is.
pub(crate) fn flat_bits(idx: usize) -> usize {
    usize::from((idx as u16).rotate_left(FLAT_ROTATION))
}

/// Where the form of a leaf of bits 32 to 47 stands, two bits.
pub(crate) const FORM_AT: u32 = 27;
/// The form of such a leaf, 0 if it is direct.
pub(crate) const LIST: u32 = 3 << FORM_AT;
/// The form of a list that takes a whole cache line.
pub(crate) const LIST_FORM_MAX: u32 = 3;
/// Marks a list or a direct leaf of bits 32 to 47 with an inner block behind it.
pub(crate) const DEEP: u32 = 2 << SHIFT_AT;
/// Words of a cache line.
pub(crate) const LINE_WORDS: usize = 16;

/// Words of a list.
#[inline(always)]
pub(crate) const fn list_words(form: u32) -> usize {
    2 << form
}

/// How many starts a list has; it has one value more. None for a direct leaf.
#[inline(always)]
pub(crate) const fn list_starts(form: u32, is_narrow: bool) -> usize {
    match (form, is_narrow) {
        (0, _) => 0,
        (_, true) => (4 * list_words(form) - 1) / 3,
        (_, false) => (4 * list_words(form) - 2) / 4,
    }
}

/// Where the values of a list begin, in bytes; 0 for a direct leaf.
#[inline(always)]
pub(crate) const fn list_values_at(form: u32, is_narrow: bool) -> usize {
    2 * list_starts(form, is_narrow)
}

/// Words of a direct leaf.
#[inline(always)]
pub(crate) const fn direct_words(is_narrow: bool) -> usize {
    if is_narrow { 64 } else { 128 }
}

/// "See the inner block behind", as a hop of 8 bits and of 16.
pub(crate) const DEEP_BYTE: u8 = u8::MAX - 1;
pub(crate) const DEEP_HOP: u16 = u16::MAX - 1;

/// "See the inner block behind", as a hop.
#[inline(always)]
pub(crate) fn deep_hop(is_narrow: bool) -> u16 {
    if is_narrow { u16::from(DEEP_BYTE) } else { DEEP_HOP }
}

/// No route, as a hop of 8 bits.
pub(crate) const NO_BYTE: u8 = u8::MAX;

/// Bytes of an entry, as a power of two.
pub(crate) const ENTRY_SIZE: u32 = 2;

/// Bytes of a hop in a leaf, as a power of two.
#[inline(always)]
pub(crate) fn hop_size(is_narrow: bool) -> u32 {
    if is_narrow { 0 } else { 1 }
}

/// What lookups read: first the entries of each value of 16 bits, then blocks.
#[derive(Debug)]
pub struct Image {
    pub(crate) words: SharedWords,
    /// Whether hops in leaves have 8 bits.
    pub(crate) is_narrow: bool,
    /// What the first 24 bits of an IPv4 address lead to, where that is kept too.
    pub(crate) dir24: Option<Dir24>,
}

/// One entry: a hop, or the place of a block. Zero is hop 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u32);

impl Entry {
    /// A lookup ends here.
    pub(crate) fn hop(hop: u16) -> Self {
        Self(u32::from(hop))
    }

    /// The hop; of an entry that is one.
    #[inline(always)]
    pub(crate) fn hop_number(self) -> u16 {
        self.0 as u16
    }

    #[inline(always)]
    pub(crate) fn is_hop(self) -> bool {
        self.0 & (LEAF | INNER) == 0
    }

    /// The index of the block's first word.
    #[inline(always)]
    pub(crate) fn at(self) -> usize {
        (self.0 & PLACE) as usize * 2
    }

    /// A flat table that begins at word `at`, an even one.
    pub(crate) fn flat(at: usize) -> Self {
        Self(FLAT | (at / 2) as u32)
    }

    #[inline(always)]
    pub(crate) fn is_flat(self) -> bool {
        self.0 & FLAT == FLAT
    }

    /// Where the run of `byte` has its value, in bytes; values have `1 << size` bytes.
    #[inline(always)]
    fn value_of(self, words: &[AtomicU32], byte: u8, size: u32) -> usize {
        let at = self.at();
        if self.0 & DIRECT != 0 {
            return 4 * at + (usize::from(byte) << size);
        }
        let slot = u32::from(byte) >> ((self.0 >> SHIFT_AT) & 3);
        let pair = at + 2 * (slot / 32) as usize;
        let starts = words[pair].load(Ordering::Relaxed);
        let base = words[pair + 1].load(Ordering::Relaxed);
        (base + ((starts << (!slot & 31)).count_ones() << size)) as usize
    }

    /// The index of the word with the entry for `byte`; of an inner block.
    #[inline(always)]
    pub(crate) fn entry_of(self, words: &[AtomicU32], byte: u8) -> usize {
        self.value_of(words, byte, ENTRY_SIZE) / 4
    }
}

impl Image {
    /// The hop at byte `at`, of a leaf.
    #[inline(always)]
    fn leaf_hop(&self, at: usize) -> u16 {
        let bits = self.words[at / 4].load(Ordering::Relaxed) >> (8 * (at % 4));
        match (self.is_narrow, bits as u8) {
            (true, NO_BYTE) => u16::MAX,
            (true, byte) => u16::from(byte),
            (false, _) => bits as u16,
        }
    }

    /// What the first 32 bits of an address lead to.
    #[inline(always)]
    pub(crate) fn first_32(&self, bits: u32) -> Entry {
        // Partner: the release store that publishes a first entry.
        let first = Entry(self.words[(bits >> 16) as usize].load(Ordering::Acquire));
        if first.is_flat() {
            let at = first.at() + flat_idx(bits as u16);
            // Partner: the release store that publishes an entry of a flat table.
            return Entry(self.words[at].load(Ordering::Acquire));
        }
        self.next(self.next(first, (bits >> 8) as u8), bits as u8)
    }

    /// What follows `entry`, that of the first 32 bits, for the next 16.
    #[inline(always)]
    pub(crate) fn third_16(&self, entry: Entry, bits: u16) -> Entry {
        let (mut leaf, mut key, mut byte) = (entry, bits, (bits >> 8) as u8);
        if entry.0 & INNER != 0 {
            let at = entry.at() + usize::from(byte);
            // Partner: the release store that publishes an entry of a table.
            leaf = Entry(self.words[at].load(Ordering::Acquire));
            (key, byte) = (bits & 0xff, bits as u8);
        }
        if leaf.is_hop() {
            return leaf;
        }
        let (at, size) = (4 * leaf.at(), hop_size(self.is_narrow));
        let hop = match (leaf.0 & LIST) >> FORM_AT {
            0 => self.leaf_hop(at + (usize::from(byte) << size)),
            form => {
                let ahead = self.starts_up_to(leaf.at(), list_starts(form, self.is_narrow), key);
                self.leaf_hop(at + list_values_at(form, self.is_narrow) + (ahead << size))
            }
        };
        if leaf.0 & DEEP != 0 && hop == deep_hop(self.is_narrow) {
            return self.next(self.behind(leaf), bits as u8);
        }
        Entry::hop(hop)
    }

    /// The entry of the inner block behind `leaf`, a deep one.
    #[inline(always)]
    pub(crate) fn behind(&self, leaf: Entry) -> Entry {
        let is_list = leaf.0 & LIST != 0;
        let words = if is_list { LINE_WORDS } else { direct_words(self.is_narrow) };
        Entry(self.words[leaf.at() + words].load(Ordering::Relaxed))
    }

    /// How many of the list's `starts` at word `at` are `key` or less.
    #[inline(always)]
    fn starts_up_to(&self, at: usize, starts: usize, key: u16) -> usize {
        let mut count = 0;
        for step in [16, 8, 4, 2, 1] {
            let next = count + step;
            if next <= starts {
                let word = self.words[at + (next - 1) / 2].load(Ordering::Relaxed);
                let before = (word >> (16 * ((next - 1) % 2))) as u16;
                count = if before < key { next } else { count };
            }
        }
        count
    }

    /// What follows `entry`, no flat table and none of bits 32 to 47, for `byte`; a hop stays what
    /// it is.
    #[inline(always)]
    pub(crate) fn next(&self, entry: Entry, byte: u8) -> Entry {
        if entry.is_hop() {
            return entry;
        }
        if entry.0 & INNER != 0 {
            // Partner: the release store that publishes a child.
            let at = entry.entry_of(&self.words, byte);
            return Entry(self.words[at].load(Ordering::Acquire));
        }
        let at = entry.value_of(&self.words, byte, hop_size(self.is_narrow));
        Entry::hop(self.leaf_hop(at))
    }
}
