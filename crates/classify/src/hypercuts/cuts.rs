//! Choosing the cuts of a node.
//!
//! Dimensions with at least as many distinct spans as the mean over all are candidates. The grid
//! starts as one cell; again and again that candidate's cells are halved which leaves the smallest
//! fullest cell, as long as it becomes smaller, the number of cells stays within
//! `SPACE_FACTOR * sqrt(rules)` (or [`CELLS_MIN`]) and the rules in all cells within
//! [`COPIES_MAX`] for each rule. The same is done with each candidate alone, and the best grid of
//! all is taken: one dimension leaves more rules to the common tree, but may be cut much finer,
//! since the grid need only cover the rules that do not span it.

use super::dims::{Boxes, Span};

/// Cells allowed for each square root of the number of rules.
const SPACE_FACTOR: usize = 8;

/// Cells allowed to the smallest nodes.
const CELLS_MIN: usize = 32;

/// The most cells of a node.
const CELLS_MAX: usize = 1 << 14;

/// Copies of the rules that are cut, on average.
const COPIES_MAX: usize = 3;

/// The most dimensions that one node cuts: counting costs two to their power.
const CUT_DIMS_MAX: usize = 4;

/// One dimension's cut: cells of `1 << shift`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) dim: usize,
    pub(super) shift: u32,
    pub(super) region: Span,
}

impl Choice {
    /// One cell.
    fn whole(dim: usize, region: Span) -> Self {
        Self { dim, shift: 32 - (region.hi - region.lo).leading_zeros(), region }
    }

    pub(super) fn cells(&self) -> usize {
        self.cell_of(self.region.hi) + 1
    }

    fn cell_of(&self, value: u32) -> usize {
        (u64::from(value - self.region.lo) >> self.shift) as usize
    }

    /// The first and last cell that a span meets, which meets the region.
    pub(super) fn cells_of(&self, span: Span) -> (usize, usize) {
        let span = span.clipped(self.region);
        (self.cell_of(span.lo), self.cell_of(span.hi))
    }

    /// The region of a cell.
    pub(super) fn span_of(&self, cell: usize) -> Span {
        let lo = u64::from(self.region.lo) + ((cell as u64) << self.shift);
        let hi = lo + (1u64 << self.shift) - 1;
        Span { lo: lo as u32, hi: hi.min(self.region.hi.into()) as u32 }
    }
}

/// What a grid does to the rules.
#[derive(Clone, Copy, Debug)]
struct Effect {
    /// Rules in the fullest cell, and rules in all of them: the longest search.
    fullest: usize,
    /// Rules in all cells, each as often as it is copied.
    copies: usize,
    /// Rules that span all cells, not in the others.
    common: usize,
}

/// The cuts of a node with these rules; none if cutting would not help.
pub(super) fn choose(boxes: &Boxes, rules: &[u32], region: &[Span]) -> Option<Vec<Choice>> {
    let dims = candidates(boxes, rules, region);
    let alone = dims.iter().map(std::slice::from_ref).filter(|_| dims.len() > 1);
    let grids = std::iter::once(&dims[..]).chain(alone);
    let found = grids.filter_map(|dims| grid(boxes, rules, region, dims));
    let (_, choices) = found.min_by_key(|(effect, _)| (effect.fullest, effect.copies))?;
    Some(choices)
}

/// The best grid over `dims`, if it is better than none.
fn grid(
    boxes: &Boxes,
    rules: &[u32],
    region: &[Span],
    dims: &[usize],
) -> Option<(Effect, Vec<Choice>)> {
    let mut choices = whole(boxes, rules, region, dims);
    let cells_max = (SPACE_FACTOR * rules.len().isqrt()).clamp(CELLS_MIN, CELLS_MAX);
    let mut effect: Option<Effect> = None;
    loop {
        let fullest = effect.map_or(rules.len(), |effect| effect.fullest);
        let mut best: Option<(Effect, usize, u32)> = None;
        for at in 0..choices.len() {
            let Some((found, shift)) = halve(boxes, rules, &mut choices, at, fullest, cells_max)
            else {
                continue;
            };
            let better = |(other, ..): &(Effect, usize, u32)| {
                (found.fullest, found.copies) < (other.fullest, other.copies)
            };
            if best.as_ref().is_none_or(better) {
                best = Some((found, at, shift));
            }
        }
        let Some((found, at, shift)) = best else { break };
        choices[at].shift = shift;
        effect = Some(found);
    }
    choices.retain(|choice| choice.cells() > 1);
    effect.map(|effect| (effect, choices))
}

/// One cell around all rules but those that span the region in each of `dims`: whatever the cuts,
/// these are common to all cells.
fn whole(boxes: &Boxes, rules: &[u32], region: &[Span], dims: &[usize]) -> Vec<Choice> {
    let spans = |rule: u32, dim: usize| boxes.of(rule)[dim].clipped(region[dim]);
    let cut = |rule: &u32| dims.iter().any(|&dim| spans(*rule, dim) != region[dim]);
    let cut: Vec<u32> = rules.iter().copied().filter(cut).collect();
    let choice = |&dim: &usize| {
        let parts = cut.iter().map(|&rule| spans(rule, dim));
        Choice::whole(dim, parts.reduce(Span::joined).unwrap_or(region[dim]))
    };
    dims.iter().map(choice).collect()
}

/// Halves the cells of one candidate until the fullest is smaller than `fullest`: values that lie
/// close together part only after several halvings. Returns the cells' shift then; `choices` are
/// left as they were.
fn halve(
    boxes: &Boxes,
    rules: &[u32],
    choices: &mut [Choice],
    at: usize,
    fullest: usize,
    cells_max: usize,
) -> Option<(Effect, u32)> {
    let shift = choices[at].shift;
    let mut found = None;
    while found.is_none() && choices[at].shift > 0 {
        choices[at].shift -= 1;
        if choices.iter().map(Choice::cells).product::<usize>() > cells_max {
            break;
        }
        let effect = count(boxes, rules, choices);
        if effect.copies > COPIES_MAX * (rules.len() - effect.common) {
            break;
        }
        if effect.fullest < fullest {
            found = Some((effect, choices[at].shift));
        }
    }
    choices[at].shift = shift;
    found
}

/// Dimensions worth cutting, those with the most distinct spans first.
fn candidates(boxes: &Boxes, rules: &[u32], region: &[Span]) -> Vec<usize> {
    let distinct = |dim: usize| {
        let mut spans: Vec<Span> =
            rules.iter().map(|&rule| boxes.of(rule)[dim].clipped(region[dim])).collect();
        spans.sort_unstable();
        spans.dedup();
        spans.len()
    };
    let counts: Vec<usize> = (0..region.len()).map(distinct).collect();
    let sum: usize = counts.iter().sum();
    let mut dims: Vec<usize> = (0..region.len())
        .filter(|&dim| counts[dim] > 1 && counts[dim] * region.len() >= sum)
        .collect();
    dims.sort_by_key(|&dim| std::cmp::Reverse(counts[dim]));
    dims.truncate(CUT_DIMS_MAX);
    dims
}

/// Counts the rules of every cell: each rule changes the corners of its block of cells, and sums
/// along each dimension turn the changes into counts.
fn count(boxes: &Boxes, rules: &[u32], choices: &[Choice]) -> Effect {
    // One more in each dimension: the change behind a block may lie there.
    let sizes: Vec<usize> = choices.iter().map(|choice| choice.cells() + 1).collect();
    let mut counts = vec![0i32; sizes.iter().product()];
    let mut common = 0;
    for &rule in rules {
        let spans = boxes.of(rule);
        let mut blocks = [(0, 0); CUT_DIMS_MAX];
        for (block, choice) in blocks.iter_mut().zip(choices) {
            *block = choice.cells_of(spans[choice.dim]);
        }
        let blocks = &blocks[..choices.len()];
        if spans_all(blocks, choices) {
            common += 1;
            continue;
        }
        for corner in 0..1usize << choices.len() {
            let mut at = 0;
            for (dim, &(first, last)) in blocks.iter().enumerate() {
                at = at * sizes[dim] + if corner >> dim & 1 == 0 { first } else { last + 1 };
            }
            counts[at] += if corner.count_ones().is_multiple_of(2) { 1 } else { -1 };
        }
    }
    let mut stride = 1;
    for &size in sizes.iter().rev() {
        for at in 0..counts.len() {
            if at / stride % size != 0 {
                counts[at] += counts[at - stride];
            }
        }
        stride *= size;
    }
    let fullest = counts.iter().copied().max().unwrap_or(0) as usize + common;
    // Behind the last cell of a dimension every count is back to zero.
    let copies = counts.iter().map(|&count| count as usize).sum();
    Effect { fullest, copies, common }
}

/// Whether a block of cells is the whole grid.
pub(super) fn spans_all(blocks: &[(usize, usize)], choices: &[Choice]) -> bool {
    let mut pairs = blocks.iter().zip(choices);
    pairs.all(|(&(first, last), choice)| first == 0 && last + 1 == choice.cells())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_tile_the_region() {
        for (lo, hi) in [(0, u32::MAX), (5, 5), (7, 1000), (0x8000_0000, 0x8000_00ff), (0, 1)] {
            let region = Span { lo, hi };
            let mut choice = Choice::whole(0, region);
            assert_eq!(choice.cells(), 1);
            while choice.shift > 0 && choice.cells() < 100 {
                choice.shift -= 1;
                let mut next = u64::from(lo);
                for cell in 0..choice.cells() {
                    let span = choice.span_of(cell);
                    assert_eq!(u64::from(span.lo), next);
                    assert_eq!(choice.cells_of(span), (cell, cell));
                    next = u64::from(span.hi) + 1;
                }
                assert_eq!(next, u64::from(hi) + 1);
            }
        }
    }
}
