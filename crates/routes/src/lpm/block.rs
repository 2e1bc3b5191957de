//! Making a block from what each of 256 values leads to.

use super::entry::{
    DEEP, DIRECT, ENTRY_SIZE, Entry, FORM_AT, INNER, LEAF, LINE_WORDS, LIST_FORM_MAX, NO_BYTE,
    SHIFT_AT, deep_hop, direct_words, hop_size, list_starts, list_values_at, list_words,
};
use super::rib::set_bits;

/// Values of one byte.
pub(crate) const SLOTS: usize = 256;

/// Slots that one pair answers for.
const PAIR_SLOTS: usize = 32;

/// The most words of a block of pairs: eight of these, and an entry for each slot.
pub(crate) const PAIRS_WORDS_MAX: usize = 16 + SLOTS;

/// The most words of a block: a deep leaf.
pub(crate) const BLOCK_WORDS_MAX: usize = direct_words(false) + BEHIND_WORDS + PAIRS_WORDS_MAX;

/// Words between a deep leaf and the inner block: its entry, and one to make their number even.
pub(crate) const BEHIND_WORDS: usize = 2;

/// Where a block stands, as the number of nodes that lead to it, that looks at bits 32 to 39: it is
/// a table or a leaf in one of the two forms. That of the next byte is such a leaf.
pub(crate) const TABLE_DEPTH: u8 = 2;
const LAST_DEPTH: u8 = TABLE_DEPTH + 1;

/// A block with so many runs or more is direct: as leaf with hops of a byte, the form that matters,
/// it is at most two thirds larger than as pairs.
const DIRECT_RUNS_MIN: u32 = 96;

/// No block with so many runs is direct.
pub(crate) const PAIR_RUNS_MAX: usize = DIRECT_RUNS_MIN as usize - 1;

/// A block, ready to be written.
#[derive(Debug, Default)]
pub(crate) struct Block {
    words: Vec<u32>,
    /// The entry of the block, but for its place.
    entry: u32,
    /// Where pairs begin, and how many there are.
    first_pair: usize,
    pairs: usize,
    /// The place of the word that leads to the inner block of a deep leaf.
    link: Option<usize>,
    /// Bytes of a value, as a power of two.
    size: u32,
    runs: Vec<(u16, u16)>,
}

impl Block {
    /// Plans the block of `slots` for a node that `depth` others lead to, where `children` (in
    /// order) replace some slots' hops. The hop that all slots share, if no block is needed.
    pub(crate) fn plan(
        &mut self,
        depth: u8,
        slots: &[u16; SLOTS],
        children: impl Iterator<Item = (u8, Entry)> + Clone,
        is_narrow: bool,
    ) -> Option<u16> {
        self.clear();
        let has_children = children.clone().next().is_some();
        match (depth, has_children) {
            (TABLE_DEPTH, true) => {
                self.entry = INNER | DIRECT;
                self.size = ENTRY_SIZE;
                self.put_values(slots, 0..SLOTS, children);
                None
            }
            (TABLE_DEPTH, false) => self.plan_leaf(slots, 8, is_narrow),
            (LAST_DEPTH, false) => self.plan_leaf(slots, 0, is_narrow),
            (LAST_DEPTH, true) => {
                self.plan_deep(slots, children, is_narrow);
                None
            }
            _ => self.plan_pairs(slots, children, is_narrow),
        }
    }

    /// Plans the list of `runs`, which have a first key and a hop each; there are at most
    /// [`list_runs_max`]. The hop, if there is but one.
    pub(crate) fn plan_list(&mut self, runs: &[(u16, u16)], is_narrow: bool) -> Option<u16> {
        self.clear();
        if let [(_, hop)] = runs {
            return Some(*hop);
        }
        self.put_list(runs, 1, is_narrow);
        None
    }

    fn clear(&mut self) {
        self.words.clear();
        self.link = None;
        self.pairs = 0;
        self.first_pair = 0;
    }

    /// A list or direct leaf; keys are slots shifted left by `shift`.
    fn plan_leaf(&mut self, slots: &[u16; SLOTS], shift: u32, is_narrow: bool) -> Option<u16> {
        let starts = run_starts(slots);
        if starts == [1, 0, 0, 0] {
            return Some(slots[0]);
        }
        self.put_leaf(slots, &starts, shift, 1, is_narrow);
        None
    }

    /// `form` is the smallest that a list may have.
    fn put_leaf(
        &mut self,
        slots: &[u16; SLOTS],
        starts: &[u64; 4],
        shift: u32,
        form: u32,
        is_narrow: bool,
    ) {
        if count(starts) as usize > list_runs_max(is_narrow) {
            self.entry = LEAF;
            self.size = hop_size(is_narrow);
            return self.put_values(slots, 0..SLOTS, std::iter::empty());
        }
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        let words = starts.iter().enumerate();
        let firsts = words.flat_map(|(idx, &word)| set_bits(word).map(move |bit| 64 * idx + bit));
        runs.extend(firsts.map(|slot| ((slot << shift) as u16, slots[slot])));
        self.put_list(&runs, form, is_narrow);
        self.runs = runs;
    }

    fn put_list(&mut self, runs: &[(u16, u16)], form_min: u32, is_narrow: bool) {
        let form = list_form(runs.len(), is_narrow).max(form_min);
        self.entry = LEAF | form << FORM_AT;
        // No key is above the largest number, so places of starts that are left count for nothing.
        let mut bytes = [u8::MAX; 4 * LINE_WORDS];
        let (starts, values) = bytes.split_at_mut(list_values_at(form, is_narrow));
        let starts = starts.as_chunks_mut::<2>().0.iter_mut();
        starts.zip(&runs[1..]).for_each(|(place, run)| *place = (run.0 - 1).to_le_bytes());
        if is_narrow {
            values.iter_mut().zip(runs).for_each(|(place, run)| *place = narrow(run.1) as u8);
        } else {
            let values = values.as_chunks_mut::<2>().0.iter_mut();
            values.zip(runs).for_each(|(place, run)| *place = run.1.to_le_bytes());
        }
        let words = &bytes.as_chunks::<4>().0[..list_words(form)];
        self.words.extend(words.iter().map(|word| u32::from_le_bytes(*word)));
    }

    /// A leaf that says where to look further, and an inner block behind it.
    fn plan_deep(
        &mut self,
        slots: &[u16; SLOTS],
        children: impl Iterator<Item = (u8, Entry)> + Clone,
        is_narrow: bool,
    ) {
        let mut seen = *slots;
        for (slot, _) in children.clone() {
            seen[usize::from(slot)] = deep_hop(is_narrow);
        }
        self.put_leaf(&seen, &run_starts(&seen), 0, LIST_FORM_MAX, is_narrow);
        let leaf = self.entry | DEEP;
        let link = self.words.len();
        self.words.extend([0; BEHIND_WORDS]);
        self.first_pair = self.words.len();
        let hop = self.plan_pairs(slots, children, is_narrow);
        debug_assert_eq!(hop, None, "it has a child");
        self.words[link] = self.entry;
        self.link = Some(link);
        self.entry = leaf;
    }

    /// A block of pairs, or a direct one if runs are many.
    fn plan_pairs(
        &mut self,
        slots: &[u16; SLOTS],
        children: impl Iterator<Item = (u8, Entry)> + Clone,
        is_narrow: bool,
    ) -> Option<u16> {
        let mut starts = run_starts(slots);
        for (slot, _) in children.clone() {
            set(&mut starts, usize::from(slot));
            set(&mut starts, usize::from(slot) + 1);
        }
        let is_leaf = children.clone().next().is_none();
        if is_leaf && starts == [1, 0, 0, 0] {
            return Some(slots[0]);
        }
        self.entry = if is_leaf { LEAF } else { INNER };
        self.size = if is_leaf { hop_size(is_narrow) } else { ENTRY_SIZE };
        if count(&starts) >= DIRECT_RUNS_MIN {
            self.entry |= DIRECT;
            self.put_direct(slots, children);
        } else {
            let shift = shift_of(&starts);
            let starts = packed(&starts, shift);
            self.put_pairs(&starts, shift);
            let firsts = starts_of(&starts[..self.pairs], shift);
            self.put_values(slots, firsts, children);
        }
        None
    }

    /// A value for each slot.
    fn put_direct(&mut self, slots: &[u16; SLOTS], children: impl Iterator<Item = (u8, Entry)>) {
        if self.entry & INNER != 0 || self.size > 0 {
            return self.put_values(slots, 0..SLOTS, children);
        }
        // Bytes first: this loop has a vector form.
        let mut bytes = [0; SLOTS];
        for (byte, &hop) in bytes.iter_mut().zip(slots) {
            *byte = hop.min(u16::from(NO_BYTE)) as u8;
        }
        self.words.extend(bytes.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four)));
    }

    /// The pairs of `starts`, of slots of `2^shift` bytes.
    fn put_pairs(&mut self, starts: &[u32; 8], shift: u32) {
        self.pairs = 8 >> shift;
        self.entry |= shift << SHIFT_AT;
        let mut before = 0;
        for part in &starts[..self.pairs] {
            self.words.extend([*part, before]);
            before += part.count_ones();
        }
    }

    /// The values of the runs that start at `firsts`. Changes spend much of their time here.
    #[inline(always)]
    fn put_values(
        &mut self,
        slots: &[u16; SLOTS],
        firsts: impl Iterator<Item = usize>,
        children: impl Iterator<Item = (u8, Entry)>,
    ) {
        if self.entry & INNER != 0 {
            let mut children = children.peekable();
            self.words.extend(firsts.map(|slot| {
                let child = children.next_if(|(at, _)| usize::from(*at) == slot);
                child.map_or(Entry::hop(slots[slot]), |(_, entry)| entry).0
            }));
            return;
        }
        if self.size == 0 {
            self.put_packed::<4>(firsts.map(|slot| narrow(slots[slot])));
        } else {
            self.put_packed::<2>(firsts.map(|slot| u32::from(slots[slot])));
        }
    }

    /// Values, `PER_WORD` to a word.
    #[inline(always)]
    fn put_packed<const PER_WORD: usize>(&mut self, values: impl Iterator<Item = u32>) {
        let mut word = 0;
        let mut len = 0;
        for value in values {
            word |= value << (32 / PER_WORD * len);
            len = (len + 1) % PER_WORD;
            if len == 0 {
                self.words.push(std::mem::take(&mut word));
            }
        }
        if len != 0 {
            self.words.push(word);
        }
    }

    /// How many words it has.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The words of the block if it lies at word `at`; asked for once.
    pub(crate) fn words_at(&mut self, at: usize) -> &[u32] {
        let (first, end) = (self.first_pair, self.first_pair + 2 * self.pairs);
        // Less one value: the first one is that of the first start.
        let base = (4 * (at + end) as u32).wrapping_sub(1 << self.size);
        for pair in self.words[first..end].as_chunks_mut::<2>().0 {
            pair[1] = base + (pair[1] << self.size);
        }
        if let Some(link) = self.link {
            self.words[link] |= ((at + first) / 2) as u32;
        }
        &self.words
    }

    /// The entry that leads to the block if it lies at word `at`, an even one.
    pub(crate) fn entry(&self, at: usize) -> Entry {
        Entry(self.entry | (at / 2) as u32)
    }
}

/// The smallest form of a list of so many runs.
fn list_form(runs: usize, is_narrow: bool) -> u32 {
    match is_narrow {
        true if runs <= list_starts(1, true) + 1 => 1,
        true if runs <= list_starts(2, true) + 1 => 2,
        false if runs <= list_starts(1, false) + 1 => 1,
        false if runs <= list_starts(2, false) + 1 => 2,
        _ => LIST_FORM_MAX,
    }
}

/// The most runs of a list.
pub(crate) const fn list_runs_max(is_narrow: bool) -> usize {
    list_starts(LIST_FORM_MAX, is_narrow) + 1
}

/// A hop in 8 bits.
fn narrow(hop: u16) -> u32 {
    u32::from(u8::try_from(hop).unwrap_or(NO_BYTE))
}

fn count(starts: &[u64; 4]) -> u32 {
    starts.iter().map(|word| word.count_ones()).sum()
}

/// The first byte of each run, of slots of `2^shift` bytes.
fn starts_of(words: &[u32], shift: u32) -> impl Iterator<Item = usize> {
    let words = words.iter().enumerate();
    words.flat_map(move |(idx, &word)| {
        set_bits(u64::from(word)).map(move |bit| (PAIR_SLOTS * idx + bit) << shift)
    })
}

/// By how many bits slots can be told apart less finely.
fn shift_of(starts: &[u64; 4]) -> u32 {
    let all = starts.iter().fold(0, |all, word| all | word);
    match all {
        _ if all & 0xfefe_fefe_fefe_fefe == 0 => 3,
        _ if all & 0xeeee_eeee_eeee_eeee == 0 => 2,
        _ if all & 0xaaaa_aaaa_aaaa_aaaa == 0 => 1,
        _ => 0,
    }
}

/// Every `2^shift`th bit of `starts`, 32 to a word, each word's first bit set.
fn packed(starts: &[u64; 4], shift: u32) -> [u32; 8] {
    let mut words = [0; 8];
    for (idx, &word) in starts.iter().enumerate() {
        let bits = every(word, shift);
        let at = (64 * idx) >> shift;
        words[at / PAIR_SLOTS] |= (bits << (at % PAIR_SLOTS)) as u32;
        if shift == 0 {
            words[at / PAIR_SLOTS + 1] = (bits >> 32) as u32;
        }
    }
    words.map(|word| word | 1)
}

/// Every `2^shift`th bit of `word`, packed.
fn every(word: u64, shift: u32) -> u64 {
    let mut bits = word;
    for _ in 0..shift {
        // Bits move to half their place, in ever larger groups.
        bits &= 0x5555_5555_5555_5555;
        bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
        bits = (bits | bits >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
        bits = (bits | bits >> 4) & 0x00ff_00ff_00ff_00ff;
        bits = (bits | bits >> 8) & 0x0000_ffff_0000_ffff;
        bits = (bits | bits >> 16) & 0x0000_0000_ffff_ffff;
    }
    bits
}

fn set(bits: &mut [u64; 4], at: usize) {
    if at < SLOTS {
        bits[at / 64] |= 1 << (at % 64);
    }
}

/// A bit for each slot that differs from the one before; the first always does.
fn run_starts(slots: &[u16; SLOTS]) -> [u64; 4] {
    // Bytes first: this loop has a vector form.
    let mut differs = [0u8; SLOTS];
    for ((differs, slot), before) in differs[1..].iter_mut().zip(&slots[1..]).zip(slots) {
        *differs = u8::from(slot != before);
    }
    differs[0] = 1;
    let mut starts = [0; 4];
    for (idx, eight) in differs.as_chunks::<8>().0.iter().enumerate() {
        // The product has the eight lowest bits side by side in its top byte.
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        starts[idx / 8] |= bits << (8 * (idx % 8));
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpm::entry::Image;
    use std::sync::atomic::Ordering;
    use warpswitch_packet::pages::SharedWords;

    /// Every byte must lead to its slot, or to the child in it.
    fn check(slots: &[u16; SLOTS], children: &[(u8, Entry)], words_expected: usize) {
        for is_narrow in [false, true] {
            let mut block = Block::default();
            assert_eq!(block.plan(0, slots, children.iter().copied(), is_narrow), None);
            assert!(block.len() <= PAIRS_WORDS_MAX);
            if is_narrow {
                assert_eq!(block.len(), words_expected);
            }
            let (pad, words) = (6, SharedWords::zeroed(300));
            for (slot, word) in words[pad..].iter().zip(block.words_at(pad)) {
                slot.store(*word, Ordering::Relaxed);
            }
            let image = Image { words, is_narrow, dir24: None };
            for byte in 0..=255u8 {
                let child = children.iter().find(|(slot, _)| *slot == byte);
                let hop = slots[usize::from(byte)];
                let is_cut = is_narrow && children.is_empty() && hop >= 255;
                let hop = if is_cut { u16::MAX } else { hop };
                let expected = child.map_or(Entry::hop(hop), |child| child.1);
                assert_eq!(image.next(block.entry(pad), byte), expected, "byte {byte}");
            }
        }
    }

    #[test]
    fn each_byte_leads_to_its_run() {
        let mut slots = [7; SLOTS];
        assert_eq!(Block::default().plan(0, &slots, std::iter::empty(), true), Some(7));
        slots[128..].fill(9);
        check(&slots, &[], 2 + 1);
        slots[64..72].fill(3);
        check(&slots, &[], 2 + 1);
        slots[68..72].fill(4);
        check(&slots, &[], 4 + 2);
        slots[70..72].fill(u16::MAX);
        check(&slots, &[], 8 + 2);
        slots[255] = 1;
        check(&slots, &[], 16 + 3);
        slots[1] = 2;
        check(&slots, &[], 16 + 4);
        for (slot, value) in slots.iter_mut().enumerate() {
            *value = u16::MAX - (slot / 3) as u16;
        }
        check(&slots, &[], 16 + (86 + 5_usize).div_ceil(4));
        for (slot, value) in slots.iter_mut().enumerate() {
            *value = u16::MAX - slot as u16;
        }
        check(&slots, &[], 64);
        check(&slots, &[(0, Entry(5)), (255, Entry(INNER | 9))], 256);
        let all: Vec<_> = (0..=255).map(|slot| (slot, Entry(u32::from(slot)))).collect();
        check(&[3; SLOTS], &all, 256);
        check(&[3; SLOTS], &[(200, Entry(LEAF))], 16 + 8 + 2);
        check(&[3; SLOTS], &[(252, Entry(LEAF)), (253, Entry(LEAF))], 16 + 8 + 3);
    }
}
