//! `turbo`: the tables, cuts and leaves that the CPU's engine plans, laid out for threads.
//!
//! ```text
//! unit (eight words)  0: nothing │ leaf: rows │ long leaf: length, rows │ cut: masks, cells │ …
//! table               entries of two words: reference, filter(8) | bound(24)
//! reference           cut(1) | rows(7) | unit(24); 0 refers to nothing
//! ```
//! A CPU compares a leaf's rows with one instruction, in columns; a thread of a card compares them
//! one by one and stops at the first that matches, so rows lie whole, one after the other.
//!
//! # Invariants
//! - U1: rows of a leaf are in order of rank.
//! - U2: an entry's bound and filter allow every rule below it.
//! - U3: what cannot be reached by 24 bits of units is refused.

use std::collections::HashMap;

use warpswitch_classify::Detail;
use warpswitch_classify::parts::{Plan, PlanNode, PlanTable, TooLarge};

use super::abi::{BOUND_MAX, CUT, REF_LEN_MAX, REF_SHIFT, REF_UNIT, UNIT_WORDS};
use super::live::turbo::{Leaf, Parts, Table, Turbo};
use super::{Built, Draft, Image, Rules, abi, live, rows};
use crate::kernels::KernelShape;

/// Lays out nodes.
struct Layout<'a> {
    rules: &'a Rules<'a>,
    shape: &'a KernelShape,
    plan: &'a Plan,
    units: Vec<u32>,
    /// References by node.
    known: HashMap<u32, u32>,
    leaves: HashMap<u32, Leaf>,
    /// Whether two references are to one cut: a change below one would show below the other.
    shares_cuts: bool,
    rows: usize,
    rows_max: usize,
    cuts: usize,
}

impl Layout<'_> {
    /// Room for `words` words: its unit.
    fn take(&mut self, words: usize) -> usize {
        let at = self.units.len();
        self.units.resize((at + words).next_multiple_of(UNIT_WORDS), 0);
        at / UNIT_WORDS
    }

    /// The reference of a node, which is laid out if it was not before. `None` if it lies too far
    /// off (U3).
    fn node(&mut self, node: u32) -> Option<u32> {
        if let Some(&reference) = self.known.get(&node) {
            self.shares_cuts |= reference & CUT != 0;
            if let Some(leaf) = self.leaves.get_mut(&(reference & REF_UNIT)) {
                leaf.sharers += 1;
            }
            return Some(reference);
        }
        let plan = self.plan;
        let reference = match &plan.nodes[node as usize] {
            PlanNode::Leaf { ranks, hidden } => self.leaf(ranks, hidden)?,
            PlanNode::Cut { masks, cells } => self.cut(masks, cells)?,
        };
        self.known.insert(node, reference);
        Some(reference)
    }

    /// Lays out a leaf with rules by their place in order of rank.
    fn leaf(&mut self, ranks: &[u32], hidden: &[u32]) -> Option<u32> {
        if ranks.is_empty() {
            return Some(0);
        }
        let row_words = abi::row_words(self.shape.words, self.shape.compact);
        let is_long = ranks.len() > REF_LEN_MAX;
        let header = if is_long { UNIT_WORDS } else { 0 };
        let unit = self.take(header + ranks.len() * row_words);
        let first = unit * UNIT_WORDS;
        if is_long {
            self.units[first] = ranks.len() as u32;
        }
        let list = self.units[first + header..].chunks_exact_mut(row_words);
        for (row, &rank) in list.zip(ranks) {
            self.rules.write_row(self.shape, rank, row);
        }
        let mut hidden_rows = vec![0; hidden.len() * row_words];
        for (row, &rank) in hidden_rows.chunks_exact_mut(row_words).zip(hidden) {
            self.rules.write_row(self.shape, rank, row);
        }
        let units = self.units.len() / UNIT_WORDS - unit;
        let leaf = Leaf { units, sharers: 1, hidden: hidden_rows };
        self.leaves.insert(unit as u32, leaf);
        self.rows += ranks.len();
        self.rows_max = self.rows_max.max(ranks.len());
        let len = if is_long { 0 } else { ranks.len() as u32 };
        reference(unit, len)
    }

    fn cut(&mut self, masks: &[u32], cells: &[u32]) -> Option<u32> {
        let header = abi::cut_words(masks.len());
        let unit = self.take(header + cells.len());
        let at = unit * UNIT_WORDS;
        self.units[at..at + masks.len()].copy_from_slice(masks);
        for (cell, &node) in cells.iter().enumerate() {
            let reference = self.node(node)?;
            self.units[at + header + cell] = reference;
        }
        self.cuts += 1;
        reference(unit, 0).map(|reference| CUT | reference)
    }

    /// Calls `each` with the place in order of rank of every rule below a node.
    fn ranks_below(&self, node: u32, each: &mut impl FnMut(u32)) {
        match &self.plan.nodes[node as usize] {
            PlanNode::Leaf { ranks, .. } => ranks.iter().copied().for_each(each),
            // Deeper than a cut in a cut none is planned.
            PlanNode::Cut { cells, .. } => {
                cells.iter().for_each(|&cell| self.ranks_below(cell, each));
            }
        }
    }

    /// The entries of a table.
    fn table(&mut self, table: &PlanTable) -> Option<Vec<u32>> {
        let mut entries = Vec::with_capacity(2 * table.buckets.len());
        for &node in &table.buckets {
            let reference = self.node(node)?;
            let (mut filter, mut bound) = (0u32, BOUND_MAX);
            self.ranks_below(node, &mut |rank| {
                let value = self.rules.rules[rank as usize].matching.value;
                filter |= 1 << (24 + (hash(self.plan, value, &table.masks) & 7));
                bound = bound.min(self.rules.ranks[rank as usize]);
            });
            entries.extend([reference, filter | bound]);
        }
        Some(entries)
    }
}

fn reference(unit: usize, len: u32) -> Option<u32> {
    let unit = u32::try_from(unit).ok().filter(|&unit| unit <= REF_UNIT)?;
    Some(len << REF_SHIFT | unit)
}

/// The hash of a key under `masks`.
fn hash(plan: &Plan, key: &[u32], masks: &[u32]) -> u32 {
    mixed(key, masks, &plan.multipliers, plan.last)
}

pub(super) fn mixed(key: &[u32], masks: &[u32], multipliers: &[u32], last: u32) -> u32 {
    let words = key.iter().zip(masks).zip(multipliers);
    let sum = words.fold(0u32, |sum, ((k, m), by)| sum.wrapping_add((k & m).wrapping_mul(*by)));
    (sum ^ sum >> 15).wrapping_mul(last)
}

/// Lays out `rules`; with `room` there is some for rules to come.
pub(super) fn build(
    rules: &Rules<'_>,
    shape: &KernelShape,
    hash_seed: u64,
    room: bool,
) -> Result<Built, TooLarge> {
    let plan = Plan::build(rules.store, hash_seed).ok_or_else(|| rules.too_large(usize::MAX))?;
    let built = lay_out(rules, shape, &plan, room);
    built.ok_or_else(|| rules.too_large(REF_UNIT as usize * UNIT_WORDS * 4))
}

/// Units for leaves to come, in an image that has `used`.
fn room_units(used: usize) -> usize {
    (used / 2).max(1024).min((REF_UNIT as usize + 1).saturating_sub(used))
}

fn lay_out(rules: &Rules<'_>, shape: &KernelShape, plan: &Plan, room: bool) -> Option<Built> {
    let mut layout = Layout {
        rules,
        shape,
        plan,
        units: vec![0; UNIT_WORDS],
        known: HashMap::new(),
        leaves: HashMap::new(),
        shares_cuts: false,
        rows: 0,
        rows_max: 0,
        cuts: 0,
    };
    let tail = layout.node(plan.tail)?;
    let mut bound = abi::NONE;
    layout.ranks_below(plan.tail, &mut |rank| bound = bound.min(rules.ranks[rank as usize]));
    let tables: Vec<Vec<u32>> =
        plan.tables.iter().map(|table| layout.table(table)).collect::<Option<_>>()?;
    let mut draft = Draft::default();
    let mut multipliers = plan.multipliers.to_vec();
    multipliers.push(plan.last);
    draft.part(abi::TURBO_HASH, &multipliers);
    let leaves = layout.leaves.len();
    let (mut descs, mut known) = (Vec::new(), Vec::new());
    for (table, entries) in plan.tables.iter().zip(&tables) {
        draft.align();
        let first = draft.words.len() as u32;
        draft.words.extend(entries);
        let end = descs.len() + abi::turbo_desc_words(shape.words);
        descs.extend_from_slice(&table.masks);
        descs.extend([table.shift, first]);
        descs.resize(end, 0);
        let (masks, shift) = (table.masks.clone(), table.shift);
        known.push(Table { masks, shift, first: first as usize });
    }
    draft.part(abi::TURBO_DESCS, &descs);
    let used = layout.units.len() / UNIT_WORDS;
    let units = if room { used + room_units(used) } else { used };
    layout.units.resize(units * UNIT_WORDS, 0);
    draft.part(abi::TURBO_UNITS, &layout.units);
    draft.numbers[abi::TURBO_TABLES] = plan.tables.len() as u32;
    draft.numbers[abi::TURBO_TAIL] = tail;
    draft.numbers[abi::TURBO_BOUND] = bound;
    let details = vec![
        Detail { name: "tables", value: plan.tables.len() as f64 },
        Detail { name: "cuts", value: layout.cuts as f64 },
        Detail { name: "leaves", value: leaves as f64 },
        Detail { name: "leaf_rules_mean", value: layout.rows as f64 / leaves.max(1) as f64 },
        Detail { name: "leaf_rules_max", value: layout.rows_max as f64 },
        Detail { name: "copies", value: layout.rows as f64 / rules.rules.len().max(1) as f64 },
    ];
    let live = (room && !layout.shares_cuts).then(|| {
        live::Layout::Turbo(Turbo::new(Parts {
            shape: *shape,
            multipliers: plan.multipliers,
            last: plan.last,
            tables: known,
            units_at: draft.numbers[abi::TURBO_UNITS] as usize,
            units: (used, units),
            leaves: layout.leaves,
            rules: rules.rules.len(),
        }))
    });
    Some(Built { draft, details, shared_words: 0, live })
}

/// The kernel's walk, in Rust.
pub(super) fn lookup(image: &Image, key: &[u32]) -> u32 {
    let words = image.shape.words;
    let by = image.part(abi::TURBO_HASH);
    let tables = image.numbers[abi::TURBO_TABLES] as usize;
    let descs = image.part(abi::TURBO_DESCS).chunks_exact(abi::turbo_desc_words(words));
    let mut best = abi::NONE;
    for desc in descs.take(tables) {
        let hash = mixed(key, &desc[..words], by, by[16]);
        let entry = desc[words + 1] as usize + 2 * (hash >> desc[words]) as usize;
        let (reference, tag) = (image.words[entry], image.words[entry + 1]);
        if tag >> (24 + (hash & 7)) & 1 != 0 && tag & BOUND_MAX < best {
            best = follow(image, reference, key, best);
        }
    }
    if image.numbers[abi::TURBO_BOUND] < best {
        best = follow(image, image.numbers[abi::TURBO_TAIL], key, best);
    }
    best
}

/// Follows a reference for a key whose best rank so far is `best`, and gives the better one.
fn follow(image: &Image, mut reference: u32, key: &[u32], best: u32) -> u32 {
    let units = image.part(abi::TURBO_UNITS);
    let at = |reference: u32| &units[(reference & REF_UNIT) as usize * UNIT_WORDS..];
    while reference & CUT != 0 {
        let cut = at(reference);
        let (mut cell, mut place) = (0, 0);
        for (word, mask) in key.iter().zip(cut) {
            for bit in (0..32).filter(|bit| mask >> bit & 1 == 1) {
                cell |= ((word >> bit & 1) as usize) << place;
                place += 1;
            }
        }
        reference = cut[abi::cut_words(key.len()) + cell];
    }
    if reference == 0 {
        return best;
    }
    let leaf = at(reference);
    let (len, list) = match (reference >> REF_SHIFT) as usize {
        0 => (leaf[0] as usize, &leaf[UNIT_WORDS..]),
        len => (len, leaf),
    };
    let shape = &image.shape;
    let row_words = abi::row_words(shape.words, shape.compact);
    for row in list.chunks_exact(row_words).take(len) {
        let rank = rows::rank(shape, row);
        if rank >= best {
            return best;
        }
        if rows::matches(shape, row, key) {
            return rank;
        }
    }
    best
}
