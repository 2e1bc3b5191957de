//! From a rule set to the structure.
//!
//! A set is arranged in one of two ways, the first that fits its bounds:
//! - *one tail*: a single cut over all rules, its cells leaves or one further cut. Fastest while
//!   copies stay few and the whole stays in the second-level cache.
//! - *a chain*: hash tables, each over a mask that most of the rules left examine, until what is
//!   left is small enough for a tail of its own.

use std::collections::HashMap;

use warpswitch_rules::{Precedence, RuleId};

use super::arena::Draft;
use super::choose::{BUCKET_RULES_MAX, choose, index_bits};
use super::cut::{Cell, Cut};
use super::leaf::{self, LANE_COLUMNS, Layout};
use super::list::{Place, RuleList};
use super::rows::{COLUMNS_MAX, RowFormat};
use super::state::{ORDER_MAX, Order, State, TAIL_AT, TAIL_ORDER_AT};
use super::tail::Effort;
use crate::arch::turbo::{
    CUT_FLAG, HashTable, LONG_LEAF, Multipliers, OFFSET_BITS, SmallLeaf, UNIT, filter_bit, offset,
};
use crate::error::ClassifyError;
use crate::hash::SeedStream;
use crate::turbo::arena::Allocator;

/// Bytes that references reach: 512 MiB.
const ADDRESSABLE_BYTES: usize = (UNIT * 4) << OFFSET_BITS;
/// Room left for the first changes, so that at a memory bound a remove needs no build.
const SLACK_BYTES_MAX: usize = 2048;
/// Leaves of a tail hold up to this many rules: one comparison with 512-bit vectors.
pub(super) const LEAF_RULES: usize = 16;
/// Mean rules of a leaf up to which most visits are to leaves of eight at most.
const SMALL_LEAF_MEAN: f32 = 3.0;
/// The most rules that are tried as one tail without tables: its cut costs more to find than
/// tables, and more rules would leave the second-level cache far behind.
pub(super) const WHOLE_RULES_MAX: usize = 32_768;
/// The most rules that are tried as the tail of a chain.
const TAIL_RULES_MAX: usize = 16_384;
/// The most tables in a chain; what is left then is the tail, however large.
const TABLES_MAX: usize = 12;

/// Figures of a finished structure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shape {
    pub(crate) leaves: usize,
    /// Rules in all leaves together, copies counted.
    pub(crate) rows: usize,
    pub(crate) cuts: usize,
    /// Entries of cuts and tables.
    pub(crate) entries: usize,
    /// Rules of the largest leaf.
    pub(crate) leaf_rules_max: usize,
    /// Rules in the leaf that a key drawn inside a rule of the tail meets there, on average.
    pub(crate) tail_rules: f32,
}

/// A structure and its writer's allocator.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) state: State,
    pub(crate) allocator: Allocator,
    pub(crate) shape: Shape,
}

/// Price of copies in the cut of an overfull bucket.
const BUCKET_COPY_PRICE: f32 = 0.05;

/// Bytes a rule that a chain may take.
fn bytes_per_rule(rules: usize) -> usize {
    if rules <= TAIL_RULES_MAX { Effort::columns(rules).bytes } else { 60 }
}

/// The caller's bound, and what of it is needed beside the structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) bytes_max: usize,
    pub(crate) beside: usize,
}

/// Arranges the rules of `list` within `bound`.
///
/// # Errors
/// [`crate::ErrorKind::MemoryBound`] if even the plainest arrangement is larger.
pub(crate) fn build(
    list: &impl RuleList,
    bound: Bound,
    hash_seed: u64,
    lanes: bool,
) -> Result<Built, ClassifyError> {
    let bytes_max = bound.bytes_max.saturating_sub(bound.beside);
    let places = list.places_by_precedence();
    let mut builder = Builder::new(list, &places, hash_seed);
    builder.check_bound(places.len(), bound)?;
    if !builder.whole(&places, bytes_max, lanes) {
        let aim = bytes_per_rule(places.len()).saturating_mul(places.len()).min(bytes_max);
        builder.restart(builder.columns.clone());
        builder.chain(&places, aim);
    }
    if builder.draft.bytes() > ADDRESSABLE_BYTES {
        return Err(builder.too_large(builder.draft.bytes(), ADDRESSABLE_BYTES));
    }
    if builder.bytes() > bytes_max {
        // No copies at all: one list, the slowest and smallest form.
        builder.restart(builder.columns.clone());
        let tail = builder.leaf(&places);
        builder.set_tail(tail, &places);
    }
    let slack = bytes_max.saturating_sub(builder.bytes()).min(SLACK_BYTES_MAX);
    Ok(builder.finish(slack / 4))
}

pub(super) struct Builder<'a, L> {
    pub(super) list: &'a L,
    /// The format with leaves in columns.
    pub(super) columns: RowFormat,
    /// The format at hand.
    pub(super) format: RowFormat,
    pub(super) multipliers: Multipliers,
    pub(super) order: Order,
    pub(super) draft: Draft,
    pub(super) tables: Vec<HashTable>,
    pub(super) shape: Shape,
    /// The leaf of places without rules.
    pub(super) empty: u32,
    /// The leaf at hand, kept for its memory.
    pub(super) leaf: Vec<u32>,
    /// Rows by place, where leaves are lanes.
    pub(super) rows: Vec<[u32; LANE_COLUMNS]>,
    /// Bits that the first cut tests.
    pub(super) fixed: [u32; 4],
    /// Number of the cut whose cells are laid out.
    pub(super) cut: usize,
    /// Leaves in lanes by their cut, number of rows that are not hidden, and rows.
    pub(super) shared: HashMap<(usize, usize, Vec<u32>), u32>,
}

impl<'a, L: RuleList> Builder<'a, L> {
    fn new(list: &'a L, places: &[Place], hash_seed: u64) -> Self {
        let mut seeds = SeedStream::new(hash_seed, 0x7475_7262);
        let mut odd = || seeds.next() as u32 | 1;
        let multipliers = Multipliers { words: std::array::from_fn(|_| odd()), last: odd() };
        let precedence = |place: Option<&Place>| place.map(|&at| list.rule(at).precedence());
        let first = precedence(places.first()).unwrap_or(Precedence(0));
        let last = precedence(places.last()).unwrap_or(Precedence(0));
        let columns = RowFormat::for_rules(list);
        let mut builder = Self {
            list,
            format: columns.clone(),
            columns,
            multipliers,
            order: Order::new(first, last),
            draft: Draft::new(1),
            tables: Vec::new(),
            shape: Shape::default(),
            empty: 0,
            leaf: Vec::new(),
            rows: Vec::new(),
            fixed: [0; 4],
            cut: 0,
            shared: HashMap::new(),
        };
        builder.restart(builder.columns.clone());
        builder
    }

    /// Bytes that the finished structure takes.
    fn bytes(&self) -> usize {
        self.draft.bytes() + self.format.bytes()
    }

    /// Drops all that was laid out; the first unit is the tail's.
    pub(super) fn restart(&mut self, format: RowFormat) {
        self.draft = Draft::new(format.layout.grain());
        self.format = format;
        self.draft.take(UNIT);
        self.tables.clear();
        self.shared.clear();
        self.shape = Shape::default();
        self.empty = self.empty_leaf();
    }

    /// A leaf of one row that names no rule and hardly matches a key: one whose bits are all set,
    /// or whose ports are.
    fn empty_leaf(&mut self) -> u32 {
        let (columns, ids) = (self.format.columns(), self.format.id_column());
        let mut row = [0; COLUMNS_MAX];
        row[ids] = RuleId::NONE.0;
        match self.format.masked {
            None => row[..ids].copy_from_slice(&[!0, !0, !0, !0, 0x00ff_ff00]),
            Some(_) => row[ids - 2] = u32::MAX,
        }
        self.push_leaf(&row[..columns], 1)
    }

    fn too_large(&self, bytes: usize, bytes_max: usize) -> ClassifyError {
        let named = (0..self.list.len().min(8) as Place).map(|place| self.list.rule(place).id);
        ClassifyError::memory_bound(bytes, bytes_max, named.collect())
    }

    /// Refuses what cannot fit however it is arranged.
    fn check_bound(&self, rules: usize, bound: Bound) -> Result<(), ClassifyError> {
        let structure = (rules + 2) * self.format.columns() * 4 + 256;
        let bytes = structure + bound.beside;
        if bytes > bound.bytes_max || structure > ADDRESSABLE_BYTES {
            return Err(self.too_large(bytes, bound.bytes_max.min(ADDRESSABLE_BYTES)));
        }
        Ok(())
    }

    fn finish(self, slack_words: usize) -> Built {
        let few = self.mean_leaf() <= SMALL_LEAF_MEAN;
        let small_leaf = if few { SmallLeaf::Rows8 } else { SmallLeaf::Rows16 };
        let (words, allocator) = self.draft.finish(slack_words);
        let state = State {
            words,
            tables: self.tables,
            format: self.format,
            multipliers: self.multipliers,
            order: self.order,
            empty: self.empty,
            small_leaf,
        };
        Built { state, allocator, shape: self.shape }
    }

    fn order_of(&self, place: Place) -> u32 {
        self.order.of(self.list.rule(place).precedence().0)
    }

    /// Lays out a leaf of `places`, which are in order of precedence.
    pub(super) fn leaf(&mut self, places: &[Place]) -> u32 {
        self.leaf_of(places, &[])
    }

    /// The same with hidden ones.
    pub(super) fn leaf_of(&mut self, places: &[Place], hidden: &[Place]) -> u32 {
        if places.is_empty() {
            return self.empty;
        }
        let columns = self.format.columns();
        let mut hidden = hidden.to_vec();
        hidden.sort_unstable_by_key(|&place| self.list.rule(place).precedence());
        let mut rows = vec![0; (places.len() + hidden.len()) * columns];
        for (row, &place) in rows.chunks_exact_mut(columns).zip(places.iter().chain(&hidden)) {
            self.format.encode(self.list.rule(place), row);
        }
        self.shape.leaves += 1;
        self.shape.rows += places.len() + hidden.len();
        self.shape.leaf_rules_max = self.shape.leaf_rules_max.max(places.len());
        self.push_leaf(&rows, places.len())
    }

    /// Lays out a leaf of rows, one after the other: `visible` ones, then hidden ones. In lanes the
    /// cells of a cut share leaves that are equal.
    fn push_leaf(&mut self, rows: &[u32], visible: usize) -> u32 {
        if self.format.layout == Layout::Columns {
            return self.push_own_leaf(rows, visible);
        }
        let content = (self.cut, visible, rows.to_vec());
        if let Some(&shared) = self.shared.get(&content) {
            let at = offset(shared);
            leaf::add_sharers(&mut self.draft.words_mut()[at..], visible, 1);
            return shared;
        }
        let reference = self.push_own_leaf(rows, visible);
        self.shared.insert(content, reference);
        reference
    }

    fn push_own_leaf(&mut self, rows: &[u32], visible: usize) -> u32 {
        let mut leaf = std::mem::take(&mut self.leaf);
        leaf::write(&self.format, rows, visible, &mut leaf);
        let at = self.draft.take(leaf::words(&self.format, rows.len() / self.format.columns()));
        self.draft.words_mut()[at..at + leaf.len()].copy_from_slice(&leaf);
        self.leaf = leaf;
        leaf_reference(at, visible)
    }

    /// Lays out the cells of a cut, `cell` by `cell`.
    pub(super) fn place_cut(
        &mut self,
        cut: &Cut,
        mut cell: impl FnMut(&mut Self, &Cell) -> u32,
    ) -> u32 {
        let words = cut.masks.len();
        let at = self.draft.take(words + cut.cells.len());
        self.draft.words_mut()[at..at + words].copy_from_slice(&cut.masks);
        self.shape.cuts += 1;
        let (own, outer) = (self.shape.cuts, self.cut);
        for (idx, rules) in cut.cells.iter().enumerate() {
            self.cut = own;
            let reference = cell(self, rules);
            self.draft.words_mut()[at + words + idx] = reference;
        }
        self.cut = outer;
        self.shape.entries += cut.cells.len();
        CUT_FLAG | (at / UNIT) as u32
    }

    /// Rows a leaf holds on average.
    fn mean_leaf(&self) -> f32 {
        self.shape.rows as f32 / self.shape.leaves.max(1) as f32
    }

    pub(super) fn set_tail(&mut self, tail: u32, places: &[Place]) {
        let order = places.first().map_or(ORDER_MAX, |&place| self.order_of(place));
        self.draft.words_mut()[TAIL_AT] = tail;
        self.draft.words_mut()[TAIL_ORDER_AT] = order;
    }

    /// Arranges `places` as hash tables and a tail, with at most about `bytes` bytes.
    fn chain(&mut self, places: &[Place], bytes: usize) {
        let mut left = places.to_vec();
        while !left.is_empty() && self.tables.len() < TABLES_MAX {
            let share = if places.len() <= 4096 { 12 } else { 80 };
            let few = left.len() * share <= places.len() || left.len() <= 64;
            if few && left.len() <= TAIL_RULES_MAX {
                let (len, shape) = (self.draft.len(), self.shape);
                let room = bytes.saturating_sub(self.draft.bytes());
                if self.tail(&left, Effort::columns(left.len()), room, 24.0) {
                    return;
                }
                self.draft.truncate(len);
                self.shape = shape;
            }
            let Some(choice) = choose(self.list, &left, &self.multipliers) else { break };
            self.table(&choice.masks, &choice.held);
            left = choice.rest;
        }
        let tail = self.leaf(&left);
        self.set_tail(tail, &left);
    }

    /// Lays out a hash table of `places` under `masks`.
    fn table(&mut self, masks: &[u32], places: &[Place]) {
        let bits = index_bits(places.len());
        let shift = 32 - bits;
        let mut buckets: Vec<(u32, Place, u32)> = places
            .iter()
            .map(|&place| {
                let hash = self.multipliers.hash(self.list.rule(place).matching.value, masks);
                (hash >> shift, place, filter_bit(hash))
            })
            .collect();
        // Stable, so a bucket's rules stay in order of precedence.
        buckets.sort_by_key(|&(bucket, ..)| bucket);
        let at = self.draft.take(2 << bits);
        // A reader may see a bucket's new tag and its old reference: that one must lead somewhere.
        for entry in self.draft.words_mut()[at..at + (2 << bits)].chunks_exact_mut(2) {
            entry[0] = self.empty;
        }
        self.tables.push(HashTable { masks: masks.to_vec(), shift, at });
        self.shape.entries += 1 << bits;
        for run in buckets.chunk_by(|a, b| a.0 == b.0) {
            let rules: Vec<Place> = run.iter().map(|&(_, place, _)| place).collect();
            let filter = run.iter().fold(0, |filter, &(.., bit)| filter | 1u32 << bit);
            let tag = filter << 16 | self.order_of(rules[0]);
            let cell = Cell { weights: vec![1.0; rules.len()], rules, hidden: Vec::new() };
            let entry = if cell.rules.len() <= BUCKET_RULES_MAX {
                self.leaf_of(&cell.rules, &cell.hidden)
            } else {
                let rows_max = 2 * cell.rules.len();
                self.small_tree(&cell, LEAF_RULES, rows_max, BUCKET_COPY_PRICE)
            };
            let slot = at + 2 * run[0].0 as usize;
            self.draft.words_mut()[slot..slot + 2].copy_from_slice(&[entry, tag]);
        }
    }
}

/// The reference to a leaf of `rules` rules at word `at`.
pub(crate) fn leaf_reference(at: usize, rules: usize) -> u32 {
    let short = if rules < LONG_LEAF { rules as u32 } else { 0 };
    short << OFFSET_BITS | (at / UNIT) as u32
}
