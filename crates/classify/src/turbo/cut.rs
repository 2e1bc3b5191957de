//! Which bits a cut should test.
//!
//! A cut of `k` bits has `2^k` cells; a rule goes to each cell that it overlaps, so a bit that a
//! rule does not examine doubles its copies. Bits are chosen greedily: each time the one that
//! lowers the expected work of a lookup most, less a price for the copies that it makes.
//!
//! The expectation is over keys drawn inside rules, each rule equally often: a rule in a cell
//! weighs `2^-c`, where `c` of the bits so far were not examined by it.
//!
//! # Source
//! Bits of any field instead of prefixes: after Qi et al., "Towards high-performance packet
//! classification on bit selection" (BitCuts, 2018). The price on copies, and whole leaves compared
//! by one instruction, are ours: a leaf of sixteen rules costs hardly more than one of four, which
//! makes two levels enough.

use super::leaf::{LANE_COLUMNS, hides};
use super::list::{Place, RuleList};

/// What splitting optimises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CutLimits {
    /// Cells of at most this many rules are left whole.
    pub(crate) leaf_rules: usize,
    /// Nothing is gained once a key meets so many rules on average.
    pub(crate) mean_rules: f32,
    /// The most bits that one cut tests.
    pub(crate) bits_max: usize,
    /// Rules in all cells together, copies counted, past which no further bit is taken.
    pub(crate) rows_max: usize,
    /// Share of the work that must be saved for each doubling of the copies.
    pub(crate) copy_price: f32,
}

/// The rules of one cell, by precedence, and their weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) rules: Vec<Place>,
    pub(crate) weights: Vec<f32>,
    /// Rules of which every key in the cell has a better one; see `leaf`.
    pub(crate) hidden: Vec<Place>,
}

impl Cell {
    /// What the cell adds to the number of rules that a key meets on average.
    pub(crate) fn expected(&self) -> f32 {
        self.weights.iter().sum::<f32>() * self.rules.len() as f32
    }

    /// Rules and hidden rules together.
    fn rows(&self) -> usize {
        self.rules.len() + self.hidden.len()
    }
}

/// What must be known to hide rules: rows of leaves in lanes, by place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hiding<'a> {
    pub(crate) rows: &'a [[u32; LANE_COLUMNS]],
}

/// The chosen bits and the cells they make, in the order of their index.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// 1 = tested; as many words as a key has.
    pub(crate) masks: Vec<u32>,
    pub(crate) cells: Vec<Cell>,
}

/// How each rule sees each bit that some rule examines: 0 and 2 for a 0 and a 1, 1 for either.
#[derive(Debug)]
pub(crate) struct BitTable {
    /// Index in the key, ascending, of each column: word and bit.
    bits: Vec<(usize, u32)>,
    /// A row for each rule.
    codes: Vec<u8>,
}

impl BitTable {
    /// Notes the bits of `rules`, which are rows in the order given.
    pub(crate) fn new(list: &impl RuleList, rules: &[Place]) -> Self {
        let words = list.schema().words;
        let mut used = vec![0u32; words];
        for &place in rules {
            for (used, mask) in used.iter_mut().zip(list.rule(place).matching.mask) {
                *used |= mask;
            }
        }
        let bits: Vec<(usize, u32)> = (0..words)
            .flat_map(|word| (0..32).map(move |bit| (word, bit)))
            .filter(|&(word, bit)| used[word] >> bit & 1 != 0)
            .collect();
        let mut codes = Vec::with_capacity(rules.len() * bits.len());
        for &place in rules {
            let matching = list.rule(place).matching;
            codes.extend(bits.iter().map(|&(word, bit)| {
                if matching.mask[word] >> bit & 1 == 0 {
                    1
                } else {
                    2 * (matching.value[word] >> bit & 1) as u8
                }
            }));
        }
        Self { bits, codes }
    }

    fn row(&self, rule: usize) -> &[u8] {
        &self.codes[rule * self.bits.len()..][..self.bits.len()]
    }
}

/// Cells while bits are being chosen; rules are rows of a [`BitTable`].
struct Splitting<'a> {
    table: &'a BitTable,
    cells: Vec<Cell>,
    taken: Vec<bool>,
    hiding: Option<Hiding<'a>>,
    /// The place of each row of the table.
    places: &'a [Place],
    /// Bits that decide the way to a cell, word by word; for hiding.
    fixed: [u32; 4],
}

/// Per-bit sums over one cell.
struct Sums {
    zeros: Vec<f32>,
    ones: Vec<f32>,
    weight_ones: Vec<f32>,
}

/// Larger cells hide nothing yet: every rule would have to be compared with every other.
const HIDING_RULES_MAX: usize = 256;

/// Copies of each rule by which a key must meet few enough of them: what does not then never does,
/// and to try on takes the longest.
const HOPE_COPIES: usize = 8;
/// Few enough.
const HOPE_MEAN: f32 = 200.0;

/// Work of a visit to a leaf of `rules` rules, in units of about a nanosecond.
fn leaf_work(rules: f32) -> f32 {
    4.0 + rules.max(1.0)
}

impl Splitting<'_> {
    fn rows(&self) -> usize {
        self.cells.iter().map(Cell::rows).sum()
    }

    /// Rules that a key meets on average.
    fn mean(&self) -> f32 {
        self.cells.iter().map(Cell::expected).sum()
    }

    fn largest(&self) -> usize {
        self.cells.iter().map(|cell| cell.rules.len()).max().unwrap_or(0)
    }

    /// The bit that gains most, if one gains at all.
    fn best_bit(&self, copy_price: f32) -> Option<usize> {
        let columns = self.table.bits.len();
        let mut work = vec![0f32; columns];
        let mut copies = vec![0f32; columns];
        let (mut work_now, mut rows_now) = (0f32, 0f32);
        let fresh = || vec![0f32; columns];
        let mut sums = Sums { zeros: fresh(), ones: fresh(), weight_ones: fresh() };
        for Cell { rules, weights, .. } in &self.cells {
            let rows = rules.len() as f32;
            let weight: f32 = weights.iter().sum();
            work_now += leaf_work(rows) * weight;
            rows_now += rows;
            if rules.is_empty() {
                continue;
            }
            sums.count(self.table, rules, weights);
            for column in 0..columns {
                let (zeros, ones) = (sums.zeros[column], sums.ones[column]);
                let weight_ones = sums.weight_ones[column];
                work[column] +=
                    leaf_work(zeros) * (weight - weight_ones) + leaf_work(ones) * weight_ones;
                copies[column] += zeros + ones;
            }
        }
        let score = |column: usize| {
            let saved = (work_now - work[column]) / work_now;
            let price = copy_price * (copies[column] / rows_now - 1.0);
            if saved > 1e-4 { saved - price } else { 0.0 }
        };
        let open = (0..columns).filter(|&column| !self.taken[column]);
        let best = open.map(|column| (score(column), column)).max_by(|a, b| a.0.total_cmp(&b.0));
        best.filter(|&(score, _)| score > 0.0).map(|(_, column)| column)
    }

    /// Splits every cell by `column`; a cell's two halves stay neighbours.
    fn split(&mut self, column: usize) {
        self.taken[column] = true;
        if let (word @ 0..4, bit) = self.table.bits[column] {
            self.fixed[word] |= 1 << bit;
        }
        let cells = std::mem::take(&mut self.cells);
        for cell in cells {
            for side in [0, 2] {
                let half = self.half(&cell, column, side);
                self.cells.push(half);
            }
        }
    }

    /// What lies in the half of `cell` where `column` has the code `side`.
    fn half(&self, cell: &Cell, column: usize, side: u8) -> Cell {
        let code = |rule: u32| self.table.row(rule as usize)[column];
        let here = |rule: &&u32| [1, side].contains(&code(**rule));
        let mut half =
            Cell { hidden: cell.hidden.iter().filter(here).copied().collect(), ..Cell::default() };
        for (&rule, &weight) in cell.rules.iter().zip(&cell.weights).filter(|(r, _)| here(r)) {
            half.rules.push(rule);
            half.weights.push(if code(rule) == 1 { weight / 2.0 } else { weight });
        }
        match (cell.rules.len() <= HIDING_RULES_MAX, half.rules.len() <= HIDING_RULES_MAX) {
            _ if self.hiding.is_none() => {}
            (false, true) => self.hide(&mut half, |_| true, |_| true),
            // Only rules that examine the bit hide what was not hidden before: such as do not.
            (true, true) => self.hide(&mut half, |rule| code(rule) != 1, |rule| code(rule) == 1),
            (_, false) => {}
        }
        half
    }

    /// Moves the rules that are hidden, of those that `may_be` are, by those that `may_hide`.
    fn hide(&self, cell: &mut Cell, may_hide: impl Fn(u32) -> bool, may_be: impl Fn(u32) -> bool) {
        let (mut kept, mut weights, mut above) = (Vec::new(), Vec::new(), Vec::new());
        for (&rule, &weight) in cell.rules.iter().zip(&cell.weights) {
            if may_be(rule) && self.hides_any(&above, rule) {
                cell.hidden.push(rule);
                continue;
            }
            kept.push(rule);
            weights.push(weight);
            if may_hide(rule) {
                above.push(rule);
            }
        }
        (cell.rules, cell.weights) = (kept, weights);
    }

    /// Whether one of `above` hides `below` in a cell.
    fn hides_any(&self, above: &[u32], below: u32) -> bool {
        let Some(Hiding { rows }) = self.hiding else { return false };
        let row = |rule: u32| &rows[self.places[rule as usize] as usize];
        above.iter().any(|&rule| hides(row(rule), row(below), &self.fixed))
    }
}

impl Sums {
    /// Counts, for each bit, the rules on either side, and the weight on the side of ones.
    fn count(&mut self, table: &BitTable, rules: &[u32], weights: &[f32]) {
        self.zeros.fill(0.0);
        self.ones.fill(0.0);
        self.weight_ones.fill(0.0);
        for (&rule, &weight) in rules.iter().zip(weights) {
            let codes = table.row(rule as usize);
            let half = weight / 2.0;
            let sums = self.zeros.iter_mut().zip(&mut self.ones).zip(&mut self.weight_ones);
            for (((zeros, ones), weight_ones), &code) in sums.zip(codes) {
                *zeros += f32::from(u8::from(code < 2));
                *ones += f32::from(u8::from(code > 0));
                *weight_ones += half * f32::from(code);
            }
        }
    }
}

/// Cuts the rules of `cell`; `None` if no bit is worth it.
///
/// Cost: rules × copies × bits of the key, for each bit chosen.
pub(crate) fn cut(
    list: &impl RuleList,
    cell: &Cell,
    limits: CutLimits,
    (hiding, fixed): (Option<Hiding<'_>>, [u32; 4]),
) -> Option<Cut> {
    let places: Vec<Place> = cell.rules.iter().chain(&cell.hidden).copied().collect();
    let table = BitTable::new(list, &places);
    let (rules, all) = (cell.rules.len() as u32, places.len() as u32);
    let weights = cell.weights.clone();
    let mut splitting = Splitting {
        taken: vec![false; table.bits.len()],
        cells: vec![Cell { rules: (0..rules).collect(), weights, hidden: (rules..all).collect() }],
        table: &table,
        hiding,
        places: &places,
        fixed,
    };
    if hiding.is_some() && rules as usize <= HIDING_RULES_MAX {
        let mut whole = std::mem::take(&mut splitting.cells[0]);
        splitting.hide(&mut whole, |_| true, |_| true);
        splitting.cells[0] = whole;
    }
    let mut chosen = Vec::new();
    let hopeless = |splitting: &Splitting<'_>| {
        splitting.rows() > HOPE_COPIES * places.len() && splitting.mean() > HOPE_MEAN
    };
    while chosen.len() < limits.bits_max
        && !hopeless(&splitting)
        && splitting.largest() > limits.leaf_rules
        && splitting.rows() <= limits.rows_max
        && splitting.mean() > limits.mean_rules
        && let Some(column) = splitting.best_bit(limits.copy_price)
    {
        splitting.split(column);
        chosen.push(column);
    }
    if chosen.is_empty() {
        return None;
    }
    let mut masks = vec![0; list.schema().words];
    for &column in &chosen {
        let (word, bit) = table.bits[column];
        masks[word] |= 1 << bit;
    }
    // Cells lie in the order in which bits were chosen, the first one leading; their index packs
    // the bits in the order of the key, the lowest one last.
    let place = |idx: usize| {
        let bit_of = |(step, column): (usize, &usize)| {
            let rank = chosen.iter().filter(|other| *other < column).count();
            (idx >> (chosen.len() - 1 - step) & 1) << rank
        };
        chosen.iter().enumerate().map(bit_of).sum::<usize>()
    };
    let mut cells = vec![Cell::default(); splitting.cells.len()];
    let place_of = |&row: &u32| places[row as usize];
    for (idx, Cell { rules, weights, hidden }) in splitting.cells.into_iter().enumerate() {
        let rules = rules.iter().map(place_of).collect();
        let hidden = hidden.iter().map(place_of).collect();
        cells[place(idx)] = Cell { rules, weights, hidden };
    }
    Some(Cut { masks, cells })
}
