//! Tails: one cut over many rules, its cells leaves or one further cut.

use super::build::{Builder, LEAF_RULES, WHOLE_RULES_MAX};
use super::cut::{Cell, CutLimits, Hiding, cut};
use super::leaf::{LANE_COLUMNS, Layout};
use super::list::{Place, RuleList};

/// Rules that a key meets on average, after the first cut, from which a second one would not do.
const FIRST_CUT_MEAN_MAX: f32 = 100.0;
/// The most bits that a second cut tests.
const SECOND_BITS_MAX: usize = 6;

/// What a tail may cost: a small set stays in the nearest caches with many copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Bits of the first cut beyond the logarithm of the number of rules.
    more_bits: usize,
    /// Rows that the first cut may make of each rule, on average.
    copies: usize,
    /// See [`CutLimits::copy_price`].
    copy_price: f32,
    /// See [`CutLimits::mean_rules`].
    mean_rules: f32,
    /// Cells of at most so many rules get no cut of their own.
    whole_rules: usize,
    /// Bytes a rule.
    pub(super) bytes: usize,
}

impl Effort {
    pub(super) fn columns(rules: usize) -> Self {
        let (copies, copy_price, bytes) = match rules {
            0..=1024 => (32, 0.1, 2000),
            1025..=4096 => (16, 0.2, 1500),
            _ => (5, 0.5, 600),
        };
        let (mean_rules, whole_rules) = (0.0, LEAF_RULES);
        Self { more_bits: 3, copies, copy_price, mean_rules, whole_rules, bytes }
    }

    /// In lanes copies are shared, and nearly every key is compared with eight rules only.
    fn lanes(rules: usize) -> Self {
        let (more_bits, copies, copy_price, bytes) = match rules {
            0..=1024 => (4, 100, 0.05, 2500),
            1025..=4096 => (3, 60, 0.1, 1500),
            _ => (2, 20, 0.1, 1500),
        };
        Self { more_bits, copies, copy_price, mean_rules: 8.0, whole_rules: 32, bytes }
    }
}

impl<L: RuleList> Builder<'_, L> {
    /// A leaf or a cut with leaves, with at most `rows_max` rows if that can be.
    pub(super) fn small_tree(
        &mut self,
        cell: &Cell,
        whole_rules: usize,
        rows_max: usize,
        copy_price: f32,
    ) -> u32 {
        let limits = CutLimits {
            leaf_rules: LEAF_RULES,
            mean_rules: 0.0,
            bits_max: SECOND_BITS_MAX,
            rows_max,
            copy_price,
        };
        let whole = cell.rules.len() <= whole_rules;
        let found =
            if whole { None } else { cut(self.list, cell, limits, self.hiding(self.fixed)) };
        match found {
            None => self.tail_leaf(cell),
            Some(found) => self.place_cut(&found, Self::tail_leaf),
        }
    }

    /// A leaf of a cell, counted among those that a key may meet.
    pub(super) fn tail_leaf(&mut self, cell: &Cell) -> u32 {
        self.shape.tail_rules += cell.expected();
        self.leaf_of(&cell.rules, &cell.hidden)
    }

    /// What a cut below the bits of `fixed` must know to hide rules, if leaves can have such.
    fn hiding(&self, fixed: [u32; 4]) -> (Option<Hiding<'_>>, [u32; 4]) {
        let hiding = (self.format.layout == Layout::Lanes).then_some(Hiding { rows: &self.rows });
        (hiding, fixed)
    }

    /// Arranges `places` as one tail, if that can be: in lanes if these may be, else in columns.
    pub(super) fn whole(&mut self, places: &[Place], bytes_max: usize, lanes: bool) -> bool {
        if places.len() > WHOLE_RULES_MAX {
            return false;
        }
        let format = self.columns.with_lanes(self.list).filter(|_| lanes);
        if let Some(format) = format.filter(|format| format.bytes() < bytes_max) {
            let effort = Effort::lanes(places.len());
            let bytes = (effort.bytes * places.len()).min(bytes_max - format.bytes());
            self.restart(format);
            self.rows = (0..self.list.len() as Place)
                .map(|place| {
                    let mut row = [0; LANE_COLUMNS];
                    self.format.encode(self.list.rule(place), &mut row);
                    row
                })
                .collect();
            if self.tail(places, effort, bytes, 32.0) {
                return true;
            }
            self.restart(self.columns.clone());
        }
        let effort = Effort::columns(places.len());
        let bytes = (effort.bytes * places.len()).min(bytes_max);
        self.tail(places, effort, bytes, 32.0)
    }

    /// Arranges `places` as a tail of at most `bytes` bytes in which a key meets at most
    /// `rules_max` rules on average. Tells whether it could; if not, what it laid out is to be
    /// dropped.
    pub(super) fn tail(
        &mut self,
        places: &[Place],
        effort: Effort,
        bytes: usize,
        rules_max: f32,
    ) -> bool {
        let row_bytes = self.format.columns() * 4;
        let rows_max = bytes / (row_bytes + 2);
        let weights = vec![1.0 / places.len() as f32; places.len()];
        let cell = Cell { rules: places.to_vec(), weights, hidden: Vec::new() };
        if places.len() <= LEAF_RULES {
            let tail = self.leaf(places);
            self.set_tail(tail, places);
            return true;
        }
        let limits = CutLimits {
            leaf_rules: LEAF_RULES,
            mean_rules: effort.mean_rules,
            bits_max: (places.len().ilog2() as usize + effort.more_bits).min(16),
            rows_max: match self.format.layout {
                Layout::Columns => (effort.copies * places.len()).min(rows_max / 2),
                // Shared copies take no memory.
                Layout::Lanes => effort.copies * places.len(),
            },
            copy_price: effort.copy_price,
        };
        let hiding = self.hiding([0; 4]);
        let Some(first) = cut(self.list, &cell, limits, hiding) else { return false };
        self.fixed = std::array::from_fn(|word| first.masks.get(word).copied().unwrap_or(0));
        let mean: f32 = first.cells.iter().map(Cell::expected).sum();
        if mean > FIRST_CUT_MEAN_MAX {
            return false;
        }
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
            builder.small_tree(cell, effort.whole_rules, rows_max, effort.copy_price / 2.0)
        });
        if grown(self) > grown_max || self.shape.tail_rules > rules_max {
            return false;
        }
        self.set_tail(tail, places);
        true
    }
}
