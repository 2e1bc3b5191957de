//! Inserts and removes: what the writer does while readers walk.
//!
//! A leaf is never changed: a new one is written beside it and the word that refers to it is
//! stored over; the old one is put aside until its readers have left. So a change costs what the
//! leaves it touches cost, one for most rules; a rule that leaves bits of a cut open has a copy in
//! each of its cells.
//!
//! Room for all new leaves is made sure of before the first is written, so a change that cannot be
//! made changes nothing. If the words are full they are copied to a larger place; if leaves have
//! grown long, or rows of the format cannot hold the rule, everything is built anew. In both cases
//! readers go on in the former version until they come back for the next batch.

use std::collections::BTreeMap;

use warpswitch_packet::sync::Epochs;
use warpswitch_rules::{RuleId, RuleRef};

use super::arena::{Allocator, TAIL_WORDS, UNIT_WORDS, grow};
use super::build::leaf_reference;
use super::edit::Rows;
use super::leaf::{self, Layout};
use super::list::Collected;
use super::rows::{COLUMNS_MAX, Row, RowFormat};
use super::state::{Home, State, TAIL_AT, TAIL_ORDER_AT};
use crate::arch::turbo::{leaf_rows, offset};

/// Rows from which a leaf counts as crowded.
const CROWDED_ROWS: usize = 64;

/// Changes between two looks at which readers have left.
const RECLAIM_EVERY: usize = 32;

/// Ids in one page of an [`IdSet`].
const PAGE_IDS: u32 = 4096;

/// Bytes of a page, its place in the map included.
const PAGE_BYTES: usize = PAGE_IDS as usize / 8 + 32;

/// Ids that are in use: a bit each, in pages, so that ids far apart cost a page and no more.
#[derive(Debug, Default)]
pub(crate) struct IdSet {
    pages: BTreeMap<u32, Box<[u64; PAGE_IDS as usize / 64]>>,
    len: usize,
}

impl IdSet {
    fn place(id: RuleId) -> (u32, usize, u64) {
        let bit = id.0 % PAGE_IDS;
        (id.0 / PAGE_IDS, bit as usize / 64, 1 << (bit % 64))
    }

    pub(crate) fn contains(&self, id: RuleId) -> bool {
        let (page, word, bit) = Self::place(id);
        self.pages.get(&page).is_some_and(|page| page[word] & bit != 0)
    }

    /// Adds an id and tells whether it is new.
    pub(crate) fn insert(&mut self, id: RuleId) -> bool {
        let (page, word, bit) = Self::place(id);
        let page = self.pages.entry(page).or_insert_with(|| Box::new([0; _]));
        let is_new = page[word] & bit == 0;
        page[word] |= bit;
        self.len += usize::from(is_new);
        is_new
    }

    /// Takes an id out; a page without ids goes too.
    pub(crate) fn remove(&mut self, id: RuleId) {
        let (number, word, bit) = Self::place(id);
        let Some(page) = self.pages.get_mut(&number) else { return };
        self.len -= usize::from(page[word] & bit != 0);
        page[word] &= !bit;
        if page[word] == 0 && page.iter().all(|&word| word == 0) {
            self.pages.remove(&number);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes it would take with `id` in it.
    pub(crate) fn bytes_with(&self, id: RuleId) -> usize {
        let is_new = !self.pages.contains_key(&Self::place(id).0);
        self.bytes() + usize::from(is_new) * PAGE_BYTES
    }

    pub(crate) fn bytes(&self) -> usize {
        self.pages.len() * PAGE_BYTES
    }
}

/// What happens to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Insert,
    Remove,
}

/// A cell that a rule belongs to.
#[derive(Clone, Copy, Debug)]
struct CellOf {
    /// The leaf that it refers to.
    leaf: u32,
    /// The word that holds the reference.
    entry: usize,
    /// Bits of a key that decide the way to it.
    fixed: [u32; 4],
}

impl CellOf {
    /// Whether both cells will have one leaf after a change as before.
    fn shares_with(&self, other: &Self, format: &RowFormat) -> bool {
        // All places without rules refer to one leaf, be they cells of one cut or not.
        format.layout == Layout::Lanes && (self.leaf, self.fixed) == (other.leaf, other.fixed)
    }
}

/// What the writer keeps beside the structure.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) allocator: Allocator,
    pub(crate) ids: IdSet,
    /// Inserts since the last build that went to crowded leaves.
    crowded: usize,
    changes: usize,
    /// Rows of the leaf at hand, kept for its memory.
    rows: Rows,
    /// The same, laid out.
    leaf: Vec<u32>,
    /// Cells that a change concerns, kept for their memory.
    cells: Vec<CellOf>,
    /// Blocks that a change will take, kept for its memory.
    wanted: Vec<usize>,
}

impl Writer {
    pub(crate) fn new(allocator: Allocator, ids: IdSet) -> Self {
        let (rows, leaf) = (Rows::default(), Vec::new());
        let (cells, wanted) = (Vec::new(), Vec::new());
        Self { allocator, ids, crowded: 0, changes: 0, rows, leaf, cells, wanted }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.allocator.bytes()
            + self.ids.bytes()
            + (self.rows.words.capacity() + self.leaf.capacity()) * 4
            + self.wanted.capacity() * 8
            + self.cells.capacity() * size_of::<CellOf>()
    }

    /// Gives back the memory of the last leaf.
    pub(crate) fn forget_rows(&mut self) {
        self.rows = Rows::default();
        self.leaf = Vec::new();
        self.cells = Vec::new();
        self.wanted = Vec::new();
    }

    /// Whether enough has changed since the last build to do it again for want of room.
    pub(crate) fn build_is_due(&self) -> bool {
        self.changes > self.ids.len() / 4 + 64 || self.allocator.is_mostly_free()
    }

    /// Counts from a build on.
    pub(crate) fn start_afresh(&mut self) {
        self.crowded = 0;
        self.changes = 0;
    }

    /// Whether so many leaves have grown long that a build is due.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded > self.ids.len() / 8 + 256
    }

    /// Words that new leaves take once `rule` has come or gone, as far as there are no free blocks
    /// for them.
    pub(crate) fn words_needed(
        &mut self,
        state: &State,
        rule: RuleRef<'_>,
        change: Change,
    ) -> usize {
        self.wanted.clear();
        self.find_cells(state, rule);
        for cells in self.cells.chunk_by(|a, b| a.shares_with(b, &state.format)) {
            let rows = state.rows_len(cells[0].entry);
            let rows = match change {
                Change::Insert => rows + 1,
                Change::Remove => rows - 1,
            };
            if rows > 0 {
                self.wanted.push(self.allocator.units(leaf::words(&state.format, rows)));
            }
        }
        self.wanted.sort_unstable();
        let runs = self.wanted.chunk_by(|a, b| a == b);
        let lacking = runs.map(|run| {
            let units = run[0];
            run.len().saturating_sub(self.allocator.free_blocks(units)) * units
        });
        lacking.sum::<usize>() * UNIT_WORDS
    }

    /// Whether `words` more words are certain to be had.
    pub(crate) fn has_room(&self, words: usize) -> bool {
        self.allocator.room() >= words
    }

    /// A version with the same content and room for `words` more words, and its allocator.
    pub(crate) fn grown(&self, state: &State, words: usize) -> (State, Allocator) {
        let used = state.words.as_slice().len();
        let capacity = used + words.max(used / 4) + TAIL_WORDS;
        let grown = State {
            words: grow(&state.words, capacity),
            tables: state.tables.clone(),
            format: state.format.clone(),
            multipliers: state.multipliers.clone(),
            order: state.order,
            empty: state.empty,
            small_leaf: state.small_leaf,
        };
        (grown, self.allocator.grown(capacity))
    }

    /// Enters `rule`, for which there is room.
    pub(crate) fn insert(&mut self, state: &State, epochs: &Epochs, rule: RuleRef<'_>) {
        let order = state.order.of(rule.precedence().0);
        let home = state.home(&rule.matching);
        let (order_at, bit) = home.tag.unwrap_or((TAIL_ORDER_AT, 0));
        let tag = state.words.load(order_at);
        // First the tag lets readers in, then there is something to find.
        let wider = tag | bit;
        state.words.publish(order_at, wider & !0xffff | order.min(wider & 0xffff));
        state.format.note_priority(rule);
        let mut row = [0; COLUMNS_MAX];
        state.format.encode(rule, &mut row);
        let row = &row[..state.format.columns()];
        self.each_leaf(state, epochs, rule, |rows, fixed| {
            rows.insert(&state.format, row, fixed);
        });
        self.ids.insert(rule.id);
    }

    /// Takes `rule` out and tells whether it was there, as it is.
    pub(crate) fn remove(&mut self, state: &State, epochs: &Epochs, rule: RuleRef<'_>) {
        let mut row = [0; COLUMNS_MAX];
        state.format.encode(rule, &mut row);
        let row = &row[..state.format.columns()];
        self.each_leaf(state, epochs, rule, |rows, fixed| {
            rows.remove(&state.format, row, fixed);
        });
        self.ids.remove(rule.id);
    }

    /// Whether exactly this rule is in the structure.
    pub(crate) fn has(&mut self, state: &State, rule: RuleRef<'_>) -> bool {
        let format = &state.format;
        if !self.ids.contains(rule.id) || !format.fits(rule) || !format.has_priority(rule) {
            return false;
        }
        let columns = state.format.columns();
        let mut row = [0; COLUMNS_MAX];
        state.format.encode(rule, &mut row);
        let Home { entry, .. } = state.home(&rule.matching);
        let mut first = None;
        state.leaves_of(&rule.matching, entry, &mut |entry, _| _ = first.get_or_insert(entry));
        let Some(entry) = first else { return false };
        state.read_rows(entry, &mut self.rows.words);
        self.rows.words.chunks_exact(columns).any(|other| other == &row[..columns])
    }

    /// Lists the cells that `rule` belongs to, those with one leaf together.
    fn find_cells(&mut self, state: &State, rule: RuleRef<'_>) {
        let cells = &mut self.cells;
        cells.clear();
        let Home { entry, .. } = state.home(&rule.matching);
        state.leaves_of(&rule.matching, entry, &mut |entry, fixed| {
            let fixed = *fixed.first_chunk().expect("more words than lanes have");
            cells.push(CellOf { leaf: state.words.load(entry), entry, fixed });
        });
        if cells.len() > 1 {
            cells.sort_unstable_by_key(|cell| (cell.leaf, cell.fixed, cell.entry));
        }
    }

    /// Rewrites every leaf that `rule` belongs to.
    fn each_leaf(
        &mut self,
        state: &State,
        epochs: &Epochs,
        rule: RuleRef<'_>,
        mut edit: impl FnMut(&mut Rows, &[u32; 4]),
    ) {
        self.find_cells(state, rule);
        let (cells, mut rows) = (std::mem::take(&mut self.cells), std::mem::take(&mut self.rows));
        let mut largest = 0;
        for cells in cells.chunk_by(|a, b| a.shares_with(b, &state.format)) {
            let CellOf { leaf, entry, fixed } = cells[0];
            rows.visible = state.read_rows(entry, &mut rows.words);
            let len = rows.len(&state.format);
            edit(&mut rows, &fixed);
            largest = largest.max(rows.visible);
            let new = self.write_leaf(state, &rows, cells.len());
            for cell in cells {
                state.words.publish(cell.entry, new);
            }
            if leaf != state.empty {
                self.leave(state, epochs, (leaf, len), cells.len());
            }
        }
        self.cells = cells;
        self.rows = rows;
        self.crowded += usize::from(largest > CROWDED_ROWS);
        self.changes += 1;
        if self.changes.is_multiple_of(RECLAIM_EVERY) && self.allocator.retired_len() > 0 {
            self.allocator.reclaim(epochs.advance());
        }
    }

    /// Notes that `cells` cells no longer refer to a leaf of `len` rows.
    fn leave(&mut self, state: &State, epochs: &Epochs, (leaf, len): (u32, usize), cells: usize) {
        let (at, _) = leaf_rows(state.words.as_slice(), leaf, state.format.layout.header());
        let words = &state.words.as_slice()[at..];
        let left = leaf::sharers(&state.format, words) - cells;
        if left > 0 {
            return leaf::keep_sharers(words, left);
        }
        self.allocator.retire(epochs.now(), offset(leaf), leaf::words(&state.format, len));
    }

    /// Writes rows to a fresh block that `sharers` cells will refer to and gives the reference.
    fn write_leaf(&mut self, state: &State, rows: &Rows, sharers: usize) -> u32 {
        let len = rows.len(&state.format);
        if len == 0 {
            return state.empty;
        }
        leaf::write(&state.format, &rows.words, rows.visible, &mut self.leaf);
        if state.format.layout == Layout::Lanes {
            leaf::add_sharers(&mut self.leaf, rows.visible, sharers - 1);
        } else {
            debug_assert_eq!(sharers, 1, "only leaves of lanes are shared");
        }
        let words = leaf::words(&state.format, len);
        let at = self.allocator.take(words).expect("room was made sure of");
        state.words.fill(at, &self.leaf);
        leaf_reference(at, rows.visible)
    }
}

/// Every rule of `state`, each once.
pub(crate) fn collect(state: &State, schema: &'static warpswitch_rules::Schema) -> Collected {
    let (mut seen, mut rows, mut leaf) = (IdSet::default(), Vec::new(), Vec::new());
    state.all_leaves(&mut |entry| {
        state.read_rows(entry, &mut leaf);
        for row in leaf.chunks_exact(state.format.columns()) {
            if seen.insert(RuleId(row[state.format.id_column()])) {
                rows.push(state.format.decode(row));
            }
        }
    });
    rows.sort_unstable_by_key(|row: &Row| row.id);
    Collected { schema, rows }
}

const _: () = assert!(TAIL_AT == 0, "offset 0 is the tail's, so no leaf is referred to as 0");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_and_go_and_far_ones_cost_a_page() {
        let mut ids = IdSet::default();
        for id in [0, 63, 64, 4095, 4096, u32::MAX - 1] {
            assert!(ids.insert(RuleId(id)) && !ids.insert(RuleId(id)));
        }
        assert_eq!((ids.len(), ids.bytes()), (6, 3 * PAGE_BYTES));
        assert_eq!(ids.bytes_with(RuleId(9000)), 4 * PAGE_BYTES);
        ids.remove(RuleId(4096));
        ids.remove(RuleId(5000));
        assert_eq!((ids.len(), ids.bytes()), (5, 2 * PAGE_BYTES));
        assert!(ids.contains(RuleId(u32::MAX - 1)) && !ids.contains(RuleId(4096)));
    }
}
