//! From a rule set to the structure.
//!
//! A set is arranged in one of two ways, the first that fits its bounds:
//! - *one tail*: a single cut over all rules, its cells leaves or one further cut. Fastest while
//!   copies stay few and the whole stays in the second-level cache.
//! - *a chain*: hash tables, each over a mask that most of the rules left examine, until what is
//!   left is small enough for a tail of its own.

use warpswitch_rules::{Precedence, RuleId};

use super::arena::Draft;
use super::choose::{BUCKET_RULES_MAX, choose, index_bits};
use super::cut::{Cell, Cut, CutLimits, cut};
use super::list::{Place, RuleList};
use super::rows::{COLUMNS_MAX, RowFormat};
use super::state::{ORDER_MAX, Order, State, TAIL_AT, TAIL_ORDER_AT};
use crate::arch::turbo::{
    CUT_FLAG, HashTable, LONG_LEAF, Multipliers, OFFSET_BITS, SmallLeaf, UNIT, filter_bit,
};
use crate::error::ClassifyError;
use crate::hash::SeedStream;
use crate::turbo::arena::Allocator;

/// Bytes that references reach: 512 MiB.
const ADDRESSABLE_BYTES: usize = (UNIT * 4) << OFFSET_BITS;
/// Room left for the first changes, so that at a memory bound a remove needs no build.
const SLACK_BYTES_MAX: usize = 2048;
/// Leaves of a tail hold up to this many rules: one comparison with 512-bit vectors.
const LEAF_RULES: usize = 16;
/// Mean rules of a leaf up to which most visits are to leaves of eight at most.
const SMALL_LEAF_MEAN: f32 = 3.0;
/// The most rules that are tried as one tail.
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

/// How dear copies are in a tail: a small set stays in the nearest caches with many.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Rows that the first cut may make of each rule, on average.
    copies: usize,
    /// See [`CutLimits::copy_price`].
    copy_price: f32,
}

impl Effort {
    fn for_rules(rules: usize) -> Self {
        match rules {
            0..=1024 => Self { copies: 32, copy_price: 0.1 },
            1025..=4096 => Self { copies: 16, copy_price: 0.2 },
            _ => Self { copies: 5, copy_price: 0.5 },
        }
    }
}

/// The most bits that a second cut tests.
const SECOND_BITS_MAX: usize = 6;

/// Price of copies in the cut of an overfull bucket.
const BUCKET_COPY_PRICE: f32 = 0.05;

/// Bytes a rule that a set of `rules` rules may take in copies: small sets are allowed much, as
/// all of it stays in the nearest caches.
fn bytes_per_rule(rules: usize) -> usize {
    match rules {
        0..=1024 => 2000,
        1025..=4096 => 1500,
        4097..=TAIL_RULES_MAX => 600,
        _ => 60,
    }
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
) -> Result<Built, ClassifyError> {
    let bytes_max = bound.bytes_max.saturating_sub(bound.beside);
    let places = list.places_by_precedence();
    let mut builder = Builder::new(list, &places, hash_seed);
    builder.check_bound(places.len(), bound)?;
    let aim = bytes_per_rule(places.len()).saturating_mul(places.len()).min(bytes_max);
    let whole = places.len() <= TAIL_RULES_MAX && builder.tail(&places, aim, 32.0);
    if !whole {
        builder.restart();
        builder.chain(&places, aim);
    }
    if builder.draft.bytes() > ADDRESSABLE_BYTES {
        return Err(builder.too_large(builder.draft.bytes(), ADDRESSABLE_BYTES));
    }
    if builder.draft.bytes() > bytes_max {
        // No copies at all: one list, the slowest and smallest form.
        builder.restart();
        let tail = builder.leaf(&places);
        builder.set_tail(tail, &places);
    }
    let slack = bytes_max.saturating_sub(builder.draft.bytes()).min(SLACK_BYTES_MAX);
    Ok(builder.finish(slack / 4))
}

struct Builder<'a, L> {
    list: &'a L,
    format: RowFormat,
    multipliers: Multipliers,
    order: Order,
    draft: Draft,
    tables: Vec<HashTable>,
    shape: Shape,
    /// The leaf of places without rules.
    empty: u32,
}

impl<'a, L: RuleList> Builder<'a, L> {
    fn new(list: &'a L, places: &[Place], hash_seed: u64) -> Self {
        let mut seeds = SeedStream::new(hash_seed, 0x7475_7262);
        let mut odd = || seeds.next() as u32 | 1;
        let multipliers = Multipliers { words: std::array::from_fn(|_| odd()), last: odd() };
        let precedence = |place: Option<&Place>| place.map(|&at| list.rule(at).precedence());
        let first = precedence(places.first()).unwrap_or(Precedence(0));
        let last = precedence(places.last()).unwrap_or(Precedence(0));
        let mut builder = Self {
            list,
            format: RowFormat::for_rules(list),
            multipliers,
            order: Order::new(first, last),
            draft: Draft::default(),
            tables: Vec::new(),
            shape: Shape::default(),
            empty: 0,
        };
        builder.restart();
        builder
    }

    /// Drops all that was laid out; the first unit is the tail's.
    fn restart(&mut self) {
        self.draft.truncate(0);
        self.draft.take(UNIT);
        self.tables.clear();
        self.shape = Shape::default();
        self.empty = self.empty_leaf();
    }

    /// A leaf of one row that names no rule and, but for both ports 65535, matches no key.
    fn empty_leaf(&mut self) -> u32 {
        let (columns, ids) = (self.format.columns(), self.format.id_column());
        let at = self.draft.take(columns);
        let row = &mut self.draft.words_mut()[at..at + columns];
        row.fill(0);
        row[ids] = RuleId::NONE.0;
        let lo = if self.format.masked.is_some() { ids - 2 } else { 2 };
        row[lo] = u32::MAX;
        leaf_reference(at, 1)
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
    fn leaf(&mut self, places: &[Place]) -> u32 {
        if places.is_empty() {
            return self.empty;
        }
        let columns = self.format.columns();
        let long = usize::from(places.len() >= LONG_LEAF);
        let at = self.draft.take(long + places.len() * columns);
        let mut row = [0; COLUMNS_MAX];
        for (idx, &place) in places.iter().enumerate() {
            self.format.encode(self.list.rule(place), &mut row);
            for (column, word) in row[..columns].iter().enumerate() {
                self.draft.words_mut()[at + long + column * places.len() + idx] = *word;
            }
        }
        if long == 1 {
            self.draft.words_mut()[at] = places.len() as u32;
        }
        self.shape.leaves += 1;
        self.shape.rows += places.len();
        self.shape.leaf_rules_max = self.shape.leaf_rules_max.max(places.len());
        leaf_reference(at, places.len())
    }

    /// Lays out the cells of a cut, `cell` by `cell`.
    fn place_cut(&mut self, cut: &Cut, mut cell: impl FnMut(&mut Self, &Cell) -> u32) -> u32 {
        let words = cut.masks.len();
        let at = self.draft.take(words + cut.cells.len());
        self.draft.words_mut()[at..at + words].copy_from_slice(&cut.masks);
        for (idx, rules) in cut.cells.iter().enumerate() {
            let reference = cell(self, rules);
            self.draft.words_mut()[at + words + idx] = reference;
        }
        self.shape.cuts += 1;
        self.shape.entries += cut.cells.len();
        CUT_FLAG | (at / UNIT) as u32
    }

    /// A leaf or a cut with leaves, with at most `rows_max` rows if that can be.
    fn small_tree(&mut self, cell: &Cell, rows_max: usize, copy_price: f32) -> u32 {
        let limits =
            CutLimits { leaf_rules: LEAF_RULES, bits_max: SECOND_BITS_MAX, rows_max, copy_price };
        let whole = cell.rules.len() <= LEAF_RULES;
        let found = if whole { None } else { cut(self.list, cell, limits) };
        match found {
            None => self.tail_leaf(cell),
            Some(found) => self.place_cut(&found, Self::tail_leaf),
        }
    }

    /// A leaf of a cell, counted among those that a key may meet.
    fn tail_leaf(&mut self, cell: &Cell) -> u32 {
        self.shape.tail_rules += cell.weights.iter().sum::<f32>() * cell.rules.len() as f32;
        self.leaf(&cell.rules)
    }

    /// Arranges `places` as a tail of at most `bytes` bytes in which a key meets at most
    /// `rules_max` rules on average. Tells whether it could; if not, what it laid out is to be
    /// dropped.
    fn tail(&mut self, places: &[Place], bytes: usize, rules_max: f32) -> bool {
        let row_bytes = self.format.columns() * 4;
        let rows_max = bytes / (row_bytes + 2);
        let cell =
            Cell { rules: places.to_vec(), weights: vec![1.0 / places.len() as f32; places.len()] };
        if places.len() <= LEAF_RULES {
            let tail = self.leaf(places);
            self.set_tail(tail, places);
            return true;
        }
        let effort = Effort::for_rules(places.len());
        let limits = CutLimits {
            leaf_rules: LEAF_RULES,
            bits_max: (places.len().ilog2() as usize + 3).min(16),
            rows_max: (effort.copies * places.len()).min(rows_max / 2),
            copy_price: effort.copy_price,
        };
        let Some(first) = cut(self.list, &cell, limits) else { return false };
        let rows: usize = first.cells.iter().map(|cell| cell.rules.len()).sum();
        // Each cell may grow by the same factor; the last bit of each may go past it.
        let growth = rows_max as f32 / rows.max(1) as f32;
        self.shape.tail_rules = 0.0;
        let start = self.draft.len();
        let grown = |builder: &Self| (builder.draft.len() - start) * 4;
        let grown_max = if places.len() <= 4096 { 3 * bytes } else { bytes };
        let tail = self.place_cut(&first, |builder, cell| {
            if grown(builder) > grown_max {
                return builder.empty;
            }
            let rows_max = (growth * cell.rules.len() as f32) as usize;
            builder.small_tree(cell, rows_max, effort.copy_price / 2.0)
        });
        if grown(self) > grown_max || self.shape.tail_rules > rules_max {
            return false;
        }
        self.set_tail(tail, places);
        true
    }

    /// Rows a leaf holds on average.
    fn mean_leaf(&self) -> f32 {
        self.shape.rows as f32 / self.shape.leaves.max(1) as f32
    }

    fn set_tail(&mut self, tail: u32, places: &[Place]) {
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
                if self.tail(&left, room, 24.0) {
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
            let cell = Cell { weights: vec![1.0; rules.len()], rules };
            let entry = if cell.rules.len() <= BUCKET_RULES_MAX {
                self.leaf(&cell.rules)
            } else {
                let rows_max = 2 * cell.rules.len();
                self.small_tree(&cell, rows_max, BUCKET_COPY_PRICE)
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
