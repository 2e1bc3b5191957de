//! Leaves: how the rows of a few rules lie in memory.
//!
//! ```text
//! columns   column c of row r at c * n + r, no padding; any format
//!           | src r0 … | dst r0 … | lo r0 … | hi r0 … | shifts r0 … | id r0 … |
//!
//! lanes     four rows in two cache lines; prefix format, ids of 16 bits, no priorities (`rows`)
//!           | row 0: eight least values | row 1 … | row 2 … | row 3: 16 bytes |   64 bytes
//!           | row 0: eight spans        | row 1 … | row 2 … | row 3: 16 bytes |   64 bytes
//! ```
//! A *lane* is half a word. Prefixes, ranges and protocols are all ranges in both halves of their
//! words: a prefix of up to 16 bits leaves the lower half open, a longer one fixes the upper half.
//! So a rule matches if `key - least <= span` in every lane, which is two instructions for four
//! rules. The lower lane of the protocol's word belongs to TCP flags, which such rules leave open:
//! among the least values it holds the rule id.
//!
//! In lanes a row is *hidden* if a row before it matches every key that comes to this leaf and
//! matches it too. Hidden rows lie behind the others and are never compared; they are there for the
//! day when what hides them goes. Their number lies in the free lane of the first row's spans.
//! Half of the rows of a firewall's leaves are hidden.
//!
//! Cells of one cut that hold the same rows share a leaf; how many lies in the second row's spans.
//!
//! Columns take a quarter less memory, and nothing is spent on places for rules that are not there.
//!
//! A leaf of [`LONG_LEAF`] rules or more (in lanes: that are not hidden) starts with their number:
//! a word before columns, a line before lanes.
//!
//! # Invariants
//! - L1: leaves of lanes start on a cache line.
//! - L2: how much memory a leaf takes depends on the number of its rows alone, so room for it can
//!   be made sure of before it is known which rows are hidden.

use std::sync::atomic::{AtomicU32, Ordering};

use super::rows::RowFormat;
use crate::arch::turbo::LONG_LEAF;

/// Rows that lie together in lanes.
pub(crate) const GROUP_ROWS: usize = 4;
/// Words of a group: least values, then spans.
pub(crate) const GROUP_WORDS: usize = 32;
/// Words between a row's least values and its spans.
pub(crate) const SPANS_AT: usize = GROUP_WORDS / 2;
/// Words of a row of lanes in the prefix format.
pub(crate) const LANE_COLUMNS: usize = 6;
/// The word whose lower lanes hold the id.
pub(crate) const ID_WORD: usize = 3;

/// Where the parts of rows lie in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Columns,
    Lanes,
}

impl Layout {
    /// Words in front of the rows of a long leaf.
    #[inline(always)]
    pub(crate) fn header(self) -> usize {
        match self {
            Layout::Columns => 1,
            Layout::Lanes => 16,
        }
    }

    /// What the blocks of a structure are a multiple of, in units of the arena.
    pub(crate) fn grain(self) -> usize {
        match self {
            Layout::Columns => 1,
            Layout::Lanes => 2,
        }
    }
}

/// Where row `row` of lanes starts.
#[inline(always)]
pub(crate) fn lane_row(row: usize) -> usize {
    row / GROUP_ROWS * GROUP_WORDS + row % GROUP_ROWS * 4
}

/// The id of row `row` of a leaf of lanes.
pub(crate) fn id(leaf: &[AtomicU32], row: usize) -> u32 {
    leaf[lane_row(row) + ID_WORD].load(Ordering::Relaxed) & 0xffff
}

/// Lays out `rows`, one after the other in `format`, as a leaf: first `visible` rows, then hidden
/// ones.
pub(crate) fn write(format: &RowFormat, rows: &[u32], visible: usize, leaf: &mut Vec<u32>) {
    let columns = format.columns();
    let len = rows.len() / columns;
    leaf.clear();
    if visible >= LONG_LEAF {
        leaf.push(visible as u32);
        leaf.resize(format.layout.header(), 0);
    }
    match format.layout {
        Layout::Columns => {
            for column in 0..columns {
                leaf.extend(rows[column..].iter().step_by(columns));
            }
        }
        Layout::Lanes => {
            let first = leaf.len();
            leaf.resize(first + lane_row(len.next_multiple_of(GROUP_ROWS)), 0);
            for (number, row) in rows.chunks_exact(columns).enumerate() {
                let (least, spans) = lanes(row);
                let at = first + lane_row(number);
                leaf[at..at + 4].copy_from_slice(&least);
                leaf[at + SPANS_AT..at + SPANS_AT + 4].copy_from_slice(&spans);
            }
            leaf[first + SPANS_AT + ID_WORD] |= (len - visible) as u32;
        }
    }
}

/// Words of a leaf of `rows` rows, however many of them are hidden.
pub(crate) fn words(format: &RowFormat, rows: usize) -> usize {
    let header = if rows >= LONG_LEAF { format.layout.header() } else { 0 };
    header
        + match format.layout {
            Layout::Columns => rows * format.columns(),
            Layout::Lanes => lane_row(rows.next_multiple_of(GROUP_ROWS)),
        }
}

/// How many rows are hidden in a leaf that starts with `leaf`, behind any header.
pub(crate) fn hidden(format: &RowFormat, leaf: &[AtomicU32]) -> usize {
    match format.layout {
        Layout::Columns => 0,
        Layout::Lanes => (leaf[SPANS_AT + ID_WORD].load(Ordering::Relaxed) & 0xffff) as usize,
    }
}

/// Where the number of sharers beyond the first lies in a leaf of lanes: the free lane of the
/// second row's spans. Only who changes leaves reads it.
const SHARERS_AT: usize = SPANS_AT + 4 + ID_WORD;

/// Cells that refer to a leaf that starts with `leaf`, behind any header.
pub(crate) fn sharers(format: &RowFormat, leaf: &[AtomicU32]) -> usize {
    match format.layout {
        Layout::Columns => 1,
        Layout::Lanes => (leaf[SHARERS_AT].load(Ordering::Relaxed) & 0xffff) as usize + 1,
    }
}

/// Notes that `left` cells still refer to a leaf of lanes that more cells shared.
pub(crate) fn keep_sharers(leaf: &[AtomicU32], left: usize) {
    let word = leaf[SHARERS_AT].load(Ordering::Relaxed);
    leaf[SHARERS_AT].store(word & !0xffff | (left - 1) as u32, Ordering::Relaxed);
}

/// Notes `more` cells that refer to a leaf of lanes with `visible` rows, given from its header
/// on.
pub(crate) fn add_sharers(leaf: &mut [u32], visible: usize, more: usize) {
    let header = if visible >= LONG_LEAF { Layout::Lanes.header() } else { 0 };
    leaf[header + SHARERS_AT] += more as u32;
}

/// Appends the rows of a leaf of `len` rows, hidden ones counted, that starts with `leaf`, behind
/// any header.
pub(crate) fn read(format: &RowFormat, leaf: &[AtomicU32], len: usize, rows: &mut Vec<u32>) {
    let word = |at: usize| leaf[at].load(Ordering::Relaxed);
    for row in 0..len {
        match format.layout {
            Layout::Columns => rows.extend((0..format.columns()).map(|c| word(c * len + row))),
            Layout::Lanes => {
                let at = lane_row(row);
                let least = std::array::from_fn(|n| word(at + n));
                let spans = std::array::from_fn(|n| word(at + SPANS_AT + n));
                rows.extend(from_lanes(least, spans));
            }
        }
    }
}

/// Whether the row `above` matches every key that `below` matches and that agrees with both in the
/// bits of `fixed`: those on which the way to their leaf depends. For rows of one leaf in lanes;
/// for these it is transitive.
pub(crate) fn hides(above: &[u32], below: &[u32], fixed: &[u32; 4]) -> bool {
    let prefix = |shift: u32| u32::MAX.checked_shl(shift).unwrap_or(0);
    let wider = |word: usize, shift: u32| {
        let (mask, other) = (prefix(above[4] >> shift & 0xff), prefix(below[4] >> shift & 0xff));
        let differ = (above[word] ^ below[word]) & mask & other;
        mask & !(other | fixed[word]) | differ
    };
    let proto = {
        let (mask, other) = (above[4] >> 16 & 0xff, below[4] >> 16 & 0xff);
        let differ = (above[4] ^ below[4]) >> 8 & mask & other;
        mask & !(other | fixed[3] >> 24) | differ
    };
    let inside = |half: u32| {
        above[2] >> half & 0xffff <= below[2] >> half & 0xffff
            && above[3] >> half & 0xffff >= below[3] >> half & 0xffff
    };
    wider(0, 24) | wider(1, 0) | proto == 0 && inside(0) && inside(16)
}

/// Least values and spans of a row in the prefix format.
fn lanes(row: &[u32]) -> ([u32; 4], [u32; 4]) {
    let &[src, dst, lo, hi, shifts, id] = row else { panic!("lanes hold rows without priorities") };
    let span = |shift: u32| ((1u64 << shift) - 1) as u32;
    let (proto, open) = (shifts >> 8 & 0xff, !(shifts >> 16) & 0xff);
    (
        [src, dst, lo, proto << 24 | id & 0xffff],
        // Ends of ranges are in order, so no half borrows from the other.
        [span(shifts >> 24), span(shifts & 0xff), hi - lo, open << 24],
    )
}

/// The inverse of [`lanes`].
fn from_lanes(least: [u32; 4], spans: [u32; 4]) -> [u32; 6] {
    let shift = |span: u32| 32 - span.leading_zeros();
    let proto = (!spans[ID_WORD] >> 24) << 16 | (least[ID_WORD] >> 24) << 8;
    let shifts = shift(spans[0]) << 24 | proto | shift(spans[1]);
    [least[0], least[1], least[2], least[2] + spans[2], shifts, least[ID_WORD] & 0xffff]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turbo::rows::{nested, sample};
    use warpswitch_rules::schema::SCHEMAS;

    #[test]
    fn rows_hide_what_no_key_of_the_cell_reaches() {
        let set = nested(60, 1);
        let format = RowFormat::for_rules(&set).with_lanes(&set).expect("plain rules fit lanes");
        let mut seeds = crate::hash::SeedStream::new(7, 7);
        let mut hidden_pairs = 0;
        for (above, below) in set.iter().flat_map(|a| set.iter().map(move |b| (a, b))) {
            let fixed: [u32; 4] = std::array::from_fn(|_| (seeds.next() | seeds.next()) as u32);
            let (mut upper, mut lower) = ([0; 6], [0; 6]);
            format.encode(above, &mut upper);
            format.encode(below, &mut lower);
            let hides = hides(&upper, &lower, &fixed);
            hidden_pairs += usize::from(hides);
            // Keys inside `below` that agree with `above` where bits are fixed.
            for _ in 0..20 {
                let Some(key) = key_in_both(&above.matching, &below.matching, &fixed, &mut seeds)
                else {
                    continue;
                };
                assert!(!hides || above.matching.matches(&key), "{upper:x?} {lower:x?} {key:x?}");
            }
        }
        assert!(hidden_pairs > 2 * set.len(), "{hidden_pairs} pairs");
    }

    fn key_in_both(
        above: &warpswitch_rules::MatchRef<'_>,
        below: &warpswitch_rules::MatchRef<'_>,
        fixed: &[u32; 4],
        seeds: &mut crate::hash::SeedStream,
    ) -> Option<[u32; 4]> {
        let key = std::array::from_fn(|word| {
            let (own, theirs) = (below.mask[word], above.mask[word] & fixed[word]);
            let rest = above.value[word] & theirs & !own;
            below.value[word] & own | rest | seeds.next() as u32 & !own & !theirs
        });
        below.matches(&key).then_some(key)
    }

    #[test]
    fn leaves_read_back_as_the_rows_they_were() {
        for (schema, priorities) in
            SCHEMAS.iter().flat_map(|schema| [(schema, false), (schema, true)])
        {
            for plain in [false, true] {
                let set = sample(schema, plain, priorities);
                let columns = RowFormat::for_rules(&set);
                check(&set, &columns);
                if let Some(lanes) = columns.with_lanes(&set) {
                    assert!(plain);
                    check(&set, &lanes);
                } else {
                    assert!(!plain || schema.words != 4);
                }
            }
        }
    }

    fn check(set: &warpswitch_rules::Ruleset, format: &RowFormat) {
        let columns = format.columns();
        for len in [1, 2, 3, 4, 5, 16, 17, LONG_LEAF - 1, LONG_LEAF, 2 * LONG_LEAF] {
            let mut rows = vec![0; len * columns];
            for (row, rule) in
                rows.chunks_exact_mut(columns).zip(std::iter::repeat_with(|| set.iter()).flatten())
            {
                format.encode(rule, row);
            }
            let mut leaf = Vec::new();
            let visible = if format.layout == Layout::Lanes { len.div_ceil(2) } else { len };
            write(format, &rows, visible, &mut leaf);
            assert!(leaf.len() <= words(format, len));
            let start = if visible >= LONG_LEAF { format.layout.header() } else { 0 };
            let shared: Vec<AtomicU32> = leaf[start..].iter().copied().map(Into::into).collect();
            let mut again = Vec::new();
            assert_eq!(hidden(format, &shared), len - visible);
            read(format, &shared, len, &mut again);
            assert_eq!(again, rows, "{len} rows, {:?}", format.layout);
        }
    }
}
