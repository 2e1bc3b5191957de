//! `turbo` while rules come and go: leaves that are edited, as the CPU's engine edits its own.
//!
//! A rule lies below one table's entry, or below the tail; there in each cell that it overlaps. A
//! change reads the leaf of each such cell, edits its rows and writes it back where it was if it
//! fits, else into a free block. Nobody reads the copy that a patch goes to, so nothing has to be
//! kept for readers.
//!
//! Rows that a better one of their leaf hides (they can never win there) are kept beside the image,
//! for the day when that one goes: a card never loads them.
//!
//! A rule that leaves a cut's bits open lies in thousands of leaves, hidden in most of them: to
//! reach these is what such a change costs, so memory is asked for some leaves ahead, and a leaf
//! whose visible rows stay is not written.
//!
//! # Invariants
//! - L1: each hidden row is hidden by a row of its leaf that is not. What hides a row hides also
//!   what that row would have hidden, so the order of changes does not matter.
//! - L2: cells share a leaf only if the same bits of a key decide the way to them.
//! - L3: an entry's bound and filter allow every rule below it: they are widened when one comes and
//!   kept when one goes.

use std::collections::HashMap;

use warpswitch_packet::pages::prefetch;
use warpswitch_rules::schema::WORDS_MAX;
use warpswitch_rules::{MatchRef, RuleRef};

use super::super::abi::{self, BOUND_MAX, CUT, REF_LEN_MAX, REF_SHIFT, REF_UNIT, UNIT_WORDS};
use super::super::rows;
use super::super::turbo::mixed;
use super::space::Space;
use super::{Model, NoRoom};
use crate::kernels::KernelShape;

/// Rows from which a leaf counts as crowded.
const CROWDED_ROWS: usize = 64;

/// Cells ahead whose rows are asked for, whose leaf, and the hidden rows of that: each is found by
/// what was asked for before.
const AHEAD: [usize; 3] = [24, 16, 8];
/// Lines of a leaf's rows that are asked for at most: later ones follow by themselves.
const LINES_AHEAD_MAX: usize = 8;
/// Words of a cache line.
const LINE_WORDS: usize = 16;

/// The place of the tail's reference: not a word, but a number of the view.
const TAIL: u32 = u32::MAX;

/// Bits of a key that decide a way.
type Fixed = [u32; WORDS_MAX];

/// What a reference's leaf has beside its rows in the image.
#[derive(Clone, Debug, Default)]
pub(in crate::image) struct Leaf {
    /// Units of its block.
    pub(in crate::image) units: usize,
    /// Cells and entries that refer to it.
    pub(in crate::image) sharers: u32,
    /// Its hidden rows, in order of rank.
    pub(in crate::image) hidden: Vec<u32>,
}

/// Leaves by their first unit. Not a map that hashes: it would be made anew every now and then,
/// milliseconds in which no change is seen.
#[derive(Debug)]
struct Leaves {
    /// By unit: the number of the leaf plus one.
    numbers: Vec<u32>,
    list: Vec<Leaf>,
    free: Vec<u32>,
}

impl Leaves {
    fn new(known: HashMap<u32, Leaf>, units: usize) -> Self {
        let mut leaves = Self {
            numbers: vec![0; units],
            list: Vec::with_capacity(2 * known.len()),
            free: Vec::with_capacity(known.len()),
        };
        known.into_iter().for_each(|(unit, leaf)| leaves.insert(unit, leaf));
        leaves
    }

    fn number(&self, unit: u32) -> Option<usize> {
        self.numbers[unit as usize].checked_sub(1).map(|number| number as usize)
    }

    fn get(&self, unit: u32) -> Option<&Leaf> {
        Some(&self.list[self.number(unit)?])
    }

    fn get_mut(&mut self, unit: u32) -> Option<&mut Leaf> {
        let number = self.number(unit)?;
        Some(&mut self.list[number])
    }

    fn insert(&mut self, unit: u32, leaf: Leaf) {
        let number = match self.free.pop() {
            Some(number) => {
                self.list[number as usize] = leaf;
                number
            }
            None => {
                self.list.push(leaf);
                self.list.len() as u32 - 1
            }
        };
        self.numbers[unit as usize] = number + 1;
    }

    fn remove(&mut self, unit: u32) {
        if let Some(number) = std::mem::take(&mut self.numbers[unit as usize]).checked_sub(1) {
            self.list[number as usize] = Leaf::default();
            self.free.push(number);
        }
    }

    fn bytes(&self) -> usize {
        self.numbers.len() * 4 + self.list.capacity() * size_of::<Leaf>() + self.free.capacity() * 4
    }
}

/// A table, as changes need it.
#[derive(Clone, Debug)]
pub(in crate::image) struct Table {
    pub(in crate::image) masks: Vec<u32>,
    pub(in crate::image) shift: u32,
    /// The word of its first entry.
    pub(in crate::image) first: usize,
}

/// A cell that a rule belongs to.
#[derive(Clone, Copy, Debug)]
struct CellOf {
    reference: u32,
    /// Which of the ways to leaves.
    way: u32,
    /// The word that holds the reference, or [`TAIL`].
    place: u32,
}

/// The rows of one leaf.
#[derive(Debug, Default)]
struct Rows {
    visible: Vec<u32>,
    hidden: Vec<u32>,
}

/// What changes need beside the model.
#[derive(Debug)]
pub(in crate::image) struct Turbo {
    shape: KernelShape,
    multipliers: [u32; 16],
    last: u32,
    tables: Vec<Table>,
    /// The word from which units are counted.
    units_at: usize,
    space: Space,
    leaves: Leaves,
    /// Words of all hidden rows.
    hidden_words: usize,
    rules: usize,
    /// Inserts since the image was built that went to crowded leaves.
    crowded: usize,
    cells: Vec<CellOf>,
    ways: Vec<Fixed>,
    rows: Rows,
}

/// What a build knows of an image of turbo.
pub(in crate::image) struct Parts {
    pub(in crate::image) shape: KernelShape,
    pub(in crate::image) multipliers: [u32; 16],
    pub(in crate::image) last: u32,
    pub(in crate::image) tables: Vec<Table>,
    pub(in crate::image) units_at: usize,
    /// Units in use, and all.
    pub(in crate::image) units: (usize, usize),
    pub(in crate::image) leaves: HashMap<u32, Leaf>,
    pub(in crate::image) rules: usize,
}

impl Turbo {
    pub(in crate::image) fn new(parts: Parts) -> Self {
        let Parts { shape, multipliers, last, tables, units_at, units, leaves, rules } = parts;
        let (cells, ways, rows) = (Vec::new(), Vec::new(), Rows::default());
        let (space, crowded) = (Space::new(units.0, units.1), 0);
        let hidden_words = leaves.values().map(|leaf| leaf.hidden.len()).sum();
        let leaves = Leaves::new(leaves, units.1);
        Self {
            shape,
            multipliers,
            last,
            tables,
            units_at,
            space,
            leaves,
            hidden_words,
            rules,
            crowded,
            cells,
            ways,
            rows,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.leaves.bytes() + self.hidden_words * 4 + self.space.bytes()
    }

    pub(super) fn insert(
        &mut self,
        model: &mut Model,
        rule: &RuleRef<'_>,
        rank: u32,
    ) -> Result<(), NoRoom> {
        if self.shape.compact && !rows::fits_compact(self.shape.words, rule) {
            return Err(NoRoom);
        }
        if self.crowded > self.rules / 8 + 256 {
            return Err(NoRoom);
        }
        let (place, tag) = self.home(&rule.matching);
        match tag {
            Some((at, bit)) => {
                let tag = model.get(at) | bit;
                let bound = (tag & BOUND_MAX).min(rank.min(BOUND_MAX));
                model.set(at, tag & !BOUND_MAX | bound);
            }
            None => {
                let bound = rank.min(model.numbers[abi::TURBO_BOUND]);
                model.set_number(abi::TURBO_BOUND, bound);
            }
        }
        let mut row = [0; abi::row_words(WORDS_MAX, false)];
        let row = &mut row[..self.row_words()];
        rows::write(&self.shape, rule, rank, row);
        let shape = self.shape;
        self.each_leaf(model, &rule.matching, place, |rows, fixed| {
            Ok(rows.insert(&shape, row, fixed))
        })
    }

    pub(super) fn remove(
        &mut self,
        model: &mut Model,
        rule: &RuleRef<'_>,
        rank: u32,
    ) -> Result<(), NoRoom> {
        let (place, _) = self.home(&rule.matching);
        let shape = self.shape;
        self.each_leaf(model, &rule.matching, place, |rows, fixed| rows.remove(&shape, rank, fixed))
    }

    fn row_words(&self) -> usize {
        abi::row_words(self.shape.words, self.shape.compact)
    }

    /// The reference below which a rule lies and, in a table, the word with the entry's bound and
    /// the filter's bit that the rule needs there.
    fn home(&self, matching: &MatchRef<'_>) -> (u32, Option<(usize, u32)>) {
        let covers = |table: &&Table| {
            matching.mask.iter().zip(&table.masks).all(|(rule, mask)| rule & mask == *mask)
        };
        match self.tables.iter().find(covers) {
            None => (TAIL, None),
            Some(table) => {
                let hash = mixed(matching.value, &table.masks, &self.multipliers, self.last);
                let entry = table.first + 2 * (hash >> table.shift) as usize;
                (entry as u32, Some((entry + 1, 1 << (24 + (hash & 7)))))
            }
        }
    }

    /// Lists the cells below a reference that a rule belongs to.
    fn find_cells(&mut self, model: &Model, matching: &MatchRef<'_>, place: u32) {
        self.cells.clear();
        self.ways.clear();
        self.ways.push([0; WORDS_MAX]);
        self.cells_below(model, matching, place, 0);
        if self.cells.len() > 1 {
            // One number to compare: there may be thousands. Cells of one leaf have one way (L2).
            self.cells.sort_unstable_by_key(|cell| {
                u64::from(cell.reference) << 32 | u64::from(cell.place)
            });
        }
    }

    fn cells_below(&mut self, model: &Model, matching: &MatchRef<'_>, place: u32, way: u32) {
        let reference = match place {
            TAIL => model.numbers[abi::TURBO_TAIL],
            at => model.get(at as usize),
        };
        if reference & CUT == 0 {
            return self.cells.push(CellOf { reference, way, place });
        }
        let at = self.units_at + (reference & REF_UNIT) as usize * UNIT_WORDS;
        let mut fixed_below = self.ways[way as usize];
        // Bits of a cell's number that the rule fixes, and those that it leaves open.
        let (mut fixed, mut open, mut bits) = (0usize, 0usize, 0u32);
        for (word, below) in fixed_below[..self.shape.words].iter_mut().enumerate() {
            let mut left = model.get(at + word);
            *below |= left;
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
        let way = self.ways.len() as u32;
        self.ways.push(fixed_below);
        let first = at + abi::cut_words(self.shape.words);
        let mut subset = open;
        // A cut in a cut is the deepest there is, so this ends.
        loop {
            self.cells_below(model, matching, (first + (fixed | subset)) as u32, way);
            if subset == 0 {
                return;
            }
            subset = (subset - 1) & open;
        }
    }

    /// Edits every leaf that a rule belongs to; `edit` tells whether visible rows changed.
    fn each_leaf(
        &mut self,
        model: &mut Model,
        matching: &MatchRef<'_>,
        place: u32,
        mut edit: impl FnMut(&mut Rows, &Fixed) -> Result<bool, NoRoom>,
    ) -> Result<(), NoRoom> {
        self.find_cells(model, matching, place);
        let (cells, mut rows) = (std::mem::take(&mut self.cells), std::mem::take(&mut self.rows));
        let (mut largest, mut begin) = (0, 0);
        for group in cells.chunk_by(|a, b| (a.reference, a.way) == (b.reference, b.way)) {
            self.ask_for(model, &cells[begin..]);
            begin += group.len();
            let CellOf { reference, way, .. } = group[0];
            let sharers = group.len() as u32;
            let is_whole = self.read(model, reference, sharers, &mut rows);
            let is_changed = edit(&mut rows, &self.ways[way as usize])?;
            largest = largest.max(rows.visible.len() / self.row_words());
            if is_whole && !is_changed {
                self.put_back(reference, &mut rows);
                continue;
            }
            let new = self.write(model, reference, sharers, &mut rows)?;
            for cell in group.iter().filter(|_| new != reference) {
                match cell.place {
                    TAIL => model.set_number(abi::TURBO_TAIL, new),
                    at => model.set(at as usize, new),
                }
            }
        }
        self.cells = cells;
        self.rows = rows;
        self.crowded += usize::from(largest > CROWDED_ROWS);
        Ok(())
    }

    /// Asks memory for what the leaves of later cells will be read from.
    fn ask_for(&self, model: &Model, cells: &[CellOf]) {
        let unit = |ahead: usize| {
            let cell = cells.get(ahead).filter(|cell| cell.reference != 0)?;
            Some((cell.reference >> REF_SHIFT, cell.reference & REF_UNIT))
        };
        let lines = |words: usize| 0..words.div_ceil(LINE_WORDS).min(LINES_AHEAD_MAX);
        if let Some((len, unit)) = unit(AHEAD[0]) {
            prefetch(&self.leaves.numbers, unit as usize);
            let at = self.units_at + unit as usize * UNIT_WORDS;
            // A long leaf, of which the reference does not tell the length, has many.
            let words = if len == 0 { usize::MAX } else { len as usize * self.row_words() };
            lines(words).for_each(|line| prefetch(&model.words, at + line * LINE_WORDS));
        }
        if let Some(number) = unit(AHEAD[1]).and_then(|(_, unit)| self.leaves.number(unit)) {
            prefetch(&self.leaves.list, number);
        }
        if let Some(leaf) = unit(AHEAD[2]).and_then(|(_, unit)| self.leaves.get(unit)) {
            let hidden = &leaf.hidden;
            lines(hidden.len()).for_each(|line| prefetch(hidden, line * LINE_WORDS));
        }
    }

    /// Reads the rows of the leaf that a reference is to, for `sharers` cells that refer to it.
    /// Tells whether they are all that do: hidden rows are taken out of it then, to be put back or
    /// written.
    fn read(&mut self, model: &Model, reference: u32, sharers: u32, rows: &mut Rows) -> bool {
        rows.visible.clear();
        rows.hidden.clear();
        if reference == 0 {
            return false;
        }
        let unit = reference & REF_UNIT;
        let at = self.units_at + unit as usize * UNIT_WORDS;
        let (len, at) = match (reference >> REF_SHIFT) as usize {
            0 => (model.get(at) as usize, at + UNIT_WORDS),
            len => (len, at),
        };
        rows.visible.extend_from_slice(&model.words[at..at + len * self.row_words()]);
        let Some(leaf) = self.leaves.get_mut(unit) else { return false };
        if leaf.sharers != sharers {
            rows.hidden.extend_from_slice(&leaf.hidden);
            return false;
        }
        std::mem::swap(&mut leaf.hidden, &mut rows.hidden);
        self.hidden_words -= rows.hidden.len();
        true
    }

    /// Gives a leaf its hidden rows, which were taken out of it.
    fn put_back(&mut self, reference: u32, rows: &mut Rows) {
        if let Some(leaf) = self.leaves.get_mut(reference & REF_UNIT) {
            self.hidden_words += rows.hidden.len();
            std::mem::swap(&mut leaf.hidden, &mut rows.hidden);
        }
    }

    /// Writes rows to where `sharers` cells will refer to, which referred to `former`; gives the
    /// reference. Takes the hidden ones.
    fn write(
        &mut self,
        model: &mut Model,
        former: u32,
        sharers: u32,
        rows: &mut Rows,
    ) -> Result<u32, NoRoom> {
        let len = rows.visible.len() / self.row_words();
        if len == 0 {
            self.leave(former, sharers)?;
            return Ok(0);
        }
        let is_long = len > REF_LEN_MAX;
        let header = if is_long { UNIT_WORDS } else { 0 };
        let units = (header + rows.visible.len()).div_ceil(UNIT_WORDS);
        let known = self.leaves.get(former & REF_UNIT).filter(|_| former != 0);
        let unit = match known {
            Some(leaf) if leaf.sharers == sharers && leaf.units >= units => former & REF_UNIT,
            _ => {
                self.leave(former, sharers)?;
                let (unit, units) = self.space.take(units).ok_or(NoRoom)?;
                self.leaves.insert(unit, Leaf { units, sharers, hidden: Vec::new() });
                unit
            }
        };
        self.put_back(unit, rows);
        let at = self.units_at + unit as usize * UNIT_WORDS;
        if is_long {
            model.set(at, len as u32);
        }
        model.write(at + header, &rows.visible);
        let len = if is_long { 0 } else { len as u32 };
        Ok(len << REF_SHIFT | unit)
    }

    /// Notes that `cells` cells refer no longer to a leaf.
    fn leave(&mut self, reference: u32, cells: u32) -> Result<(), NoRoom> {
        if reference == 0 {
            return Ok(());
        }
        let unit = reference & REF_UNIT;
        let leaf = self.leaves.get_mut(unit).ok_or(NoRoom)?;
        leaf.sharers -= cells;
        if leaf.sharers == 0 {
            let units = leaf.units;
            self.hidden_words -= leaf.hidden.len();
            self.leaves.remove(unit);
            self.space.give(unit, units);
        }
        Ok(())
    }
}

impl Rows {
    /// Enters a row, given the bits that decide the way to this leaf; tells whether it is visible.
    fn insert(&mut self, shape: &KernelShape, row: &[u32], fixed: &Fixed) -> bool {
        let at = place(shape, &self.visible, row);
        let mut above = self.visible[..at].chunks_exact(row.len());
        if above.any(|above| rows::hides(shape, above, row, fixed)) {
            put(shape, &mut self.hidden, row);
            return false;
        }
        put_at(&mut self.visible, at, row);
        let mut below = at + row.len();
        while below < self.visible.len() {
            let end = below + row.len();
            if rows::hides(shape, row, &self.visible[below..end], fixed) {
                put(shape, &mut self.hidden, &self.visible[below..end]);
                self.visible.drain(below..end);
            } else {
                below = end;
            }
        }
        true
    }

    /// Takes the row of a rank out; tells whether it was visible.
    fn remove(&mut self, shape: &KernelShape, rank: u32, fixed: &Fixed) -> Result<bool, NoRoom> {
        let row_words = abi::row_words(shape.words, shape.compact);
        let find = |list: &[u32]| {
            let mut rows = list.chunks_exact(row_words);
            rows.position(|row| rows::rank(shape, row) == rank).map(|row| row * row_words)
        };
        let Some(at) = find(&self.visible) else {
            let at = find(&self.hidden).ok_or(NoRoom)?;
            self.hidden.drain(at..at + row_words);
            return Ok(false);
        };
        // On the stack: a wide rule goes from thousands of leaves.
        let mut room = [0; abi::row_words(WORDS_MAX, false)];
        let gone = &mut room[..row_words];
        gone.copy_from_slice(&self.visible[at..at + row_words]);
        self.visible.drain(at..at + row_words);
        // In order of rank, so what appears hides what it must before that is looked at.
        let mut hidden = 0;
        while hidden < self.hidden.len() {
            let end = hidden + row_words;
            let row = &self.hidden[hidden..end];
            let appears = rows::hides(shape, gone, row, fixed) && {
                let at = place(shape, &self.visible, row);
                let mut above = self.visible[..at].chunks_exact(row_words);
                !above.any(|above| rows::hides(shape, above, row, fixed))
            };
            if appears {
                put(shape, &mut self.visible, row);
                self.hidden.drain(hidden..end);
            } else {
                hidden = end;
            }
        }
        Ok(true)
    }
}

/// Where a row belongs in a list in order of rank.
fn place(shape: &KernelShape, list: &[u32], row: &[u32]) -> usize {
    let rank = rows::rank(shape, row);
    let rows = list.chunks_exact(row.len());
    rows.take_while(|other| rows::rank(shape, other) < rank).count() * row.len()
}

fn put(shape: &KernelShape, list: &mut Vec<u32>, row: &[u32]) {
    let at = place(shape, list, row);
    put_at(list, at, row);
}

fn put_at(list: &mut Vec<u32>, at: usize, row: &[u32]) {
    list.extend_from_slice(row);
    list[at..].rotate_right(row.len());
}
