//! Rows: one rule, as leaves and lists keep it; the layouts are in `rows.cuh`.

use warpswitch_rules::{MatchRef, RuleRef};

use crate::kernels::KernelShape;

/// Whether a compact row can hold the rule.
pub(super) fn fits_compact(words: usize, rule: &RuleRef<'_>) -> bool {
    let matching = &rule.matching;
    if words != 4 {
        return false;
    }
    let shared = |side: usize| u32::from(matching.ranges[side].common_mask());
    let of_ranges = shared(0) << 16 | shared(1);
    // A port under a mask that is no prefix says more than its range does.
    matching.mask[3] & 0x00ff_ffff == 0 && matching.mask[matching.ports_word] == of_ranges
}

/// Writes the row of `rule`, whose rank is `rank`.
pub(super) fn write(shape: &KernelShape, rule: &RuleRef<'_>, rank: u32, row: &mut [u32]) {
    let MatchRef { value, mask, ranges: [src, dst], .. } = rule.matching;
    let lo = u32::from(src.lo) << 16 | u32::from(dst.lo);
    let span = u32::from(src.hi - src.lo) << 16 | u32::from(dst.hi - dst.lo);
    if shape.compact {
        let proto = mask[3] >> 24 << 8 | value[3] >> 24;
        row.copy_from_slice(&[value[0], mask[0], value[1], mask[1], lo, span, proto, rank]);
    } else {
        let words = shape.words;
        row[..words].copy_from_slice(value);
        row[words..2 * words].copy_from_slice(mask);
        row[2 * words..2 * words + 3].copy_from_slice(&[lo, span, rank]);
    }
}

/// Whether a row matches a key.
pub(super) fn matches(shape: &KernelShape, row: &[u32], key: &[u32]) -> bool {
    let words = shape.words;
    let (differing, lo, span) = if shape.compact {
        let differing = (key[0] ^ row[0]) & row[1]
            | (key[1] ^ row[2]) & row[3]
            | (key[3] >> 24 ^ row[6]) & (row[6] >> 8);
        (differing, row[4], row[5])
    } else {
        let masked = key.iter().zip(&row[..words]).zip(&row[words..]);
        let differing = masked.fold(0, |all, ((key, value), mask)| all | (key ^ value) & mask);
        (differing, row[2 * words], row[2 * words + 1])
    };
    let ports = key[shape.ports_word];
    let src = (ports >> 16).wrapping_sub(lo >> 16);
    let dst = (ports & 0xffff).wrapping_sub(lo & 0xffff);
    differing == 0 && src <= span >> 16 && dst <= span & 0xffff
}

/// The rank of a row's rule.
pub(super) fn rank(shape: &KernelShape, row: &[u32]) -> u32 {
    if shape.compact { row[7] } else { row[2 * shape.words + 2] }
}

/// Whether the row `above` matches every key that `below` matches and that agrees with both in the
/// bits of `fixed`: those on which the way to their leaf depends. For rows of one leaf it is
/// transitive.
pub(super) fn hides(shape: &KernelShape, above: &[u32], below: &[u32], fixed: &[u32]) -> bool {
    let words = shape.words;
    let wider = |mask: u32, other: u32, value: u32, others: u32, fixed: u32| {
        mask & !(other | fixed) | (value ^ others) & mask & other
    };
    let (wider, ports) = if let (true, [Some(above), Some(below)]) =
        (shape.compact, [above, below].map(<[u32]>::first_chunk::<8>))
    {
        let address = |at: usize| {
            wider(above[2 * at + 1], below[2 * at + 1], above[2 * at], below[2 * at], fixed[at])
        };
        let (a, b) = (above[6], below[6]);
        let proto = wider(a >> 8 & 0xff, b >> 8 & 0xff, a & 0xff, b & 0xff, fixed[3] >> 24);
        (address(0) | address(1) | proto, 4)
    } else {
        let word = |at: usize| {
            wider(above[words + at], below[words + at], above[at], below[at], fixed[at])
        };
        ((0..words).fold(0, |all, at| all | word(at)), 2 * words)
    };
    let inside = |shift: u32| {
        let ends = |row: &[u32]| {
            let lo = row[ports] >> shift & 0xffff;
            (lo, lo + (row[ports + 1] >> shift & 0xffff))
        };
        let (above, below) = (ends(above), ends(below));
        above.0 <= below.0 && above.1 >= below.1
    };
    wider == 0 && inside(0) && inside(16)
}
