//! One version of the structure, and the walk of a batch through it.

use warpswitch_rules::schema::WORDS_MAX;
use warpswitch_rules::{MatchRef, Precedence, RuleId};

use super::arena::Words;
use super::choose::covers;
use super::leaf::{self, Layout};
use super::rows::RowFormat;
use crate::arch::turbo::{
    BATCH_LEN_MAX, CUT_FLAG, HashTable, Kernel, Multipliers, Scratch, SmallLeaf, View, filter_bit,
    leaf_rows, offset,
};

/// The word that refers to the tail, and the one that bounds its order.
pub(crate) const TAIL_AT: usize = 0;
pub(crate) const TAIL_ORDER_AT: usize = 1;

/// The largest coarse order.
pub(crate) const ORDER_MAX: u32 = 0xffff;

/// Maps precedences to sixteen bits, never swapping two: enough to skip most visits that cannot
/// win, at two bytes a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    base: u64,
    shift: u32,
}

impl Order {
    /// Spreads `first..=last` over the orders.
    pub(crate) fn new(first: Precedence, last: Precedence) -> Self {
        let span = last.0 - first.0;
        let bits = 64 - span.leading_zeros();
        Self { base: first.0, shift: bits.saturating_sub(16) }
    }

    #[inline(always)]
    pub(crate) fn of(self, precedence: u64) -> u32 {
        let above = precedence.saturating_sub(self.base) >> self.shift;
        above.min(u64::from(ORDER_MAX)) as u32
    }
}

/// A chain of hash tables, then the tail: everything that lookups read.
///
/// The tables' masks and places never change; entries, the tail, and what they refer to do.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) words: Words,
    pub(crate) tables: Vec<HashTable>,
    pub(crate) format: RowFormat,
    pub(crate) multipliers: Multipliers,
    pub(crate) order: Order,
    /// The leaf of places without rules, shared by all of them.
    pub(crate) empty: u32,
    /// Which leaves most of its leaves are.
    pub(crate) small_leaf: SmallLeaf,
}

impl State {
    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.words.bytes() + self.format.bytes()
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            words: self.words.as_slice(),
            format: &self.format,
            multipliers: &self.multipliers,
            small_leaf: self.small_leaf,
        }
    }

    /// Answers at most [`BATCH_LEN_MAX`] keys.
    pub(crate) fn classify<const W: usize>(
        &self,
        kernel: Kernel,
        keys: &[[u32; W]],
        out: &mut [RuleId],
        scratch: &mut Scratch,
    ) {
        assert!(keys.len() <= BATCH_LEN_MAX);
        scratch.clear();
        if self.format.layout == Layout::Lanes {
            let keys = as_four_words(keys);
            let tail = self.words.load(TAIL_AT);
            return kernel.walk_lanes(self.view(), tail, keys, scratch, out);
        }
        if self.tables.is_empty() {
            self.enter_tail(kernel, keys, scratch);
            kernel.follow(self.view(), keys, scratch);
            kernel.scan_only(self.view(), keys, scratch, out);
            return;
        }
        scratch.best[..keys.len()].fill(Precedence::NONE.0);
        scratch.orders[..keys.len()].fill(ORDER_MAX);
        kernel.columns(keys, &mut scratch.columns);
        for table in &self.tables {
            kernel.hash_step(self.view(), table, keys, scratch);
            kernel.follow(self.view(), keys, scratch);
            kernel.scan_step(self.view(), keys, scratch);
            for (order, best) in scratch.orders.iter_mut().zip(&scratch.best[..keys.len()]) {
                *order = self.order.of(*best);
            }
        }
        if self.words.load(TAIL_AT) != self.empty {
            self.enter_tail(kernel, keys, scratch);
            kernel.follow(self.view(), keys, scratch);
            kernel.scan_step(self.view(), keys, scratch);
        }
        for (answer, best) in out.iter_mut().zip(&scratch.best[..keys.len()]) {
            *answer = Precedence(*best).id();
        }
    }

    /// Sends the keys to the tail: without tables every one of them, else those whose best rule so
    /// far it can beat.
    fn enter_tail<const W: usize>(&self, kernel: Kernel, keys: &[[u32; W]], scratch: &mut Scratch) {
        let tail = self.words.load(TAIL_AT);
        if tail & CUT_FLAG == 0 {
            return scratch.send_all(self.view(), tail, keys.len());
        }
        let order_min = if self.tables.is_empty() { 0 } else { self.words.load(TAIL_ORDER_AT) };
        kernel.cut_all(self.view(), (tail, order_min), keys, scratch);
    }
}

/// Keys of four words, as which those of the schema with lanes come.
fn as_four_words<const W: usize>(keys: &[[u32; W]]) -> &[[u32; 4]] {
    assert_eq!(W, 4, "lanes hold rules of four words");
    keys.as_flattened().as_chunks().0
}

/// Bits of a key that decide a way, word by word.
pub(crate) type Fixed = [u32; WORDS_MAX];

/// Where the rules that a match belongs to are entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    /// The word that holds the reference.
    pub(crate) entry: usize,
    /// The word with the order of the entry, and the filter bit a rule needs there; for a table.
    pub(crate) tag: Option<(usize, u32)>,
}

impl State {
    /// The one table entry, or the tail, below which every copy of a rule lies.
    pub(crate) fn home(&self, matching: &MatchRef<'_>) -> Home {
        for table in &self.tables {
            if covers(matching.mask, &table.masks) {
                let hash = self.multipliers.hash(matching.value, &table.masks);
                let entry = table.at + 2 * (hash >> table.shift) as usize;
                return Home { entry, tag: Some((entry + 1, 1 << (16 + filter_bit(hash)))) };
            }
        }
        Home { entry: TAIL_AT, tag: None }
    }

    /// Calls `leaf` with every word that refers to a leaf below `entry` which a rule with this
    /// match belongs to, and with the bits of a key that decide the way there.
    pub(crate) fn leaves_of(
        &self,
        matching: &MatchRef<'_>,
        entry: usize,
        leaf: &mut impl FnMut(usize, &Fixed),
    ) {
        self.leaves_below_of(matching, entry, &[0; WORDS_MAX], leaf);
    }

    fn leaves_below_of(
        &self,
        matching: &MatchRef<'_>,
        entry: usize,
        fixed_above: &Fixed,
        leaf: &mut impl FnMut(usize, &Fixed),
    ) {
        let reference = self.words.load(entry);
        if reference & CUT_FLAG == 0 {
            return leaf(entry, fixed_above);
        }
        let mut fixed_below = *fixed_above;
        let at = offset(reference);
        let words = matching.mask.len();
        // Index bits that the rule fixes, and those that it leaves open.
        let (mut fixed, mut open, mut bits) = (0usize, 0usize, 0u32);
        for (word, fixed_below) in fixed_below[..words].iter_mut().enumerate() {
            let mut left = self.words.load(at + word);
            *fixed_below |= left;
            while left != 0 {
                let bit = left.trailing_zeros();
                match matching.mask[word] >> bit & 1 {
                    0 => open |= 1 << bits,
                    _ => fixed |= ((matching.value[word] >> bit & 1) as usize) << bits,
                }
                bits += 1;
                left &= left - 1;
            }
        }
        let mut subset = open;
        loop {
            self.leaves_below_of(matching, at + words + (fixed | subset), &fixed_below, leaf);
            if subset == 0 {
                return;
            }
            subset = (subset - 1) & open;
        }
    }

    /// The rows of the leaf that the word `entry` refers to, one after the other, without the row
    /// that stands for no rule; gives the number of those that are not hidden, which come first.
    pub(crate) fn read_rows(&self, entry: usize, rows: &mut Vec<u32>) -> usize {
        rows.clear();
        let reference = self.words.load(entry);
        if reference == self.empty {
            return 0;
        }
        let (at, len) = leaf_rows(self.words.as_slice(), reference, self.format.layout.header());
        let leaf = &self.words.as_slice()[at..];
        let hidden = leaf::hidden(&self.format, leaf);
        leaf::read(&self.format, leaf, len + hidden, rows);
        len
    }

    /// Rows of the leaf that the word `entry` refers to, hidden ones counted.
    pub(crate) fn rows_len(&self, entry: usize) -> usize {
        let reference = self.words.load(entry);
        if reference == self.empty {
            return 0;
        }
        let (at, len) = leaf_rows(self.words.as_slice(), reference, self.format.layout.header());
        len + leaf::hidden(&self.format, &self.words.as_slice()[at..])
    }

    /// Calls `leaf` with every word that refers to a leaf.
    pub(crate) fn all_leaves(&self, leaf: &mut impl FnMut(usize)) {
        let entries = |table: &HashTable| (0..1usize << (32 - table.shift)).map(|n| 2 * n);
        for table in &self.tables {
            for entry in entries(table) {
                self.leaves_below(table.at + entry, leaf);
            }
        }
        self.leaves_below(TAIL_AT, leaf);
    }

    fn leaves_below(&self, entry: usize, leaf: &mut impl FnMut(usize)) {
        let reference = self.words.load(entry);
        if reference & CUT_FLAG == 0 {
            return leaf(entry);
        }
        let (at, words) = (offset(reference), self.format.words);
        let bits: u32 = (0..words).map(|word| self.words.load(at + word).count_ones()).sum();
        for cell in 0..1usize << bits {
            self.leaves_below(at + words + cell, leaf);
        }
    }
}
