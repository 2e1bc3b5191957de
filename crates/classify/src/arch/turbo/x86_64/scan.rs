//! Scans of leaves: one key against eight or sixteen rules at once.
//!
//! A scan is bound by its loads: a column of a leaf starts anywhere, so a load of 64 bytes nearly
//! always touches two lines and counts twice, a load of 32 bytes not half as often. Small leaves
//! are therefore kept in a list of their own and compared with 256-bit vectors on any machine.

use std::arch::x86_64::*;
use std::sync::atomic::AtomicU32;

use warpswitch_rules::{Precedence, RuleId};

use super::super::{BATCH_LEN_MAX, List, OFFSET_BITS, View, long_leaf_rows, offset};

/// How far ahead of the scan a leaf is fetched.
const PREFETCH_AHEAD: usize = 8;

/// Asks for the first lines of a leaf: all of a leaf of ten prefix rows.
#[inline(always)]
fn prefetch(words: &[AtomicU32], reference: u32) {
    for line in 0..4 {
        let at = words.as_ptr().wrapping_add(offset(reference) + 16 * line);
        // SAFETY: a prefetch reads nothing; any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
}

/// A leaf: its columns and, by the layout of [`View::words`], at least
/// [`super::super::SLACK_WORDS`] words more.
#[derive(Clone, Copy)]
struct Leaf {
    first: *const u32,
    rows: usize,
}

impl Leaf {
    #[inline(always)]
    fn new(words: &[AtomicU32], reference: u32) -> Self {
        let (mut at, mut rows) = (offset(reference), (reference >> OFFSET_BITS) as usize);
        if rows == 0 {
            (at, rows) = long_leaf_rows(words, at, 1);
        }
        debug_assert!(rows > 0 && at + rows + super::super::SLACK_WORDS <= words.len());
        Self { first: words.as_ptr().wrapping_add(at).cast(), rows }
    }

    /// Where `row` of `column` lies.
    #[inline(always)]
    fn at(self, column: usize, row: usize) -> *const u32 {
        self.first.wrapping_add(column * self.rows + row)
    }

    /// The word of `row` in `column`.
    #[inline(always)]
    fn word(self, column: usize, row: usize) -> u32 {
        // SAFETY: `column` is a column, and `row` one of its rows or less than sixteen past them.
        unsafe { self.at(column, row).read() }
    }
}

/// What a scan must know of a row format.
pub(super) trait Format: Copy {
    /// Words with columns of value and mask; `None` for the prefix format.
    fn words(&self) -> Option<&[usize]>;
    fn ports_word(&self) -> usize;
    fn id_column(&self) -> usize;
}

/// The prefix format.
#[derive(Clone, Copy)]
pub(super) struct Prefix;

impl Format for Prefix {
    #[inline(always)]
    fn words(&self) -> Option<&[usize]> {
        None
    }
    #[inline(always)]
    fn ports_word(&self) -> usize {
        2
    }
    #[inline(always)]
    fn id_column(&self) -> usize {
        5
    }
}

/// Any masked format.
#[derive(Clone, Copy)]
pub(super) struct Masked<'a> {
    pub(super) words: &'a [usize],
    pub(super) ports_word: usize,
}

impl Format for Masked<'_> {
    #[inline(always)]
    fn words(&self) -> Option<&[usize]> {
        Some(self.words)
    }
    #[inline(always)]
    fn ports_word(&self) -> usize {
        self.ports_word
    }
    #[inline(always)]
    fn id_column(&self) -> usize {
        2 * self.words.len() + 2
    }
}

/// Where a scan notes what it finds. `put` reads the row whether it matches or not, so that nothing
/// branches on the outcome.
trait Sink {
    fn put(&mut self, idx: usize, leaf: Leaf, ids: usize, row: usize, found: bool);
}

/// The rule found is the answer, and none found is one too.
struct Only<'a>(&'a mut [RuleId]);

impl Sink for Only<'_> {
    #[inline(always)]
    fn put(&mut self, idx: usize, leaf: Leaf, ids: usize, row: usize, found: bool) {
        let id = leaf.word(ids, row);
        self.0[idx] = if found { RuleId(id) } else { RuleId::NONE };
    }
}

/// The rule found is one of several, of which the best is kept; all have one priority, whose part
/// of a precedence is `upper`.
struct BestOfOne<'a> {
    best: &'a mut [u64; BATCH_LEN_MAX],
    upper: u64,
}

impl Sink for BestOfOne<'_> {
    #[inline(always)]
    fn put(&mut self, idx: usize, leaf: Leaf, ids: usize, row: usize, found: bool) {
        let precedence = self.upper | u64::from(leaf.word(ids, row));
        let best = &mut self.best[idx % BATCH_LEN_MAX];
        *best = (*best).min(if found { precedence } else { u64::MAX });
    }
}

/// The same with a column of priorities.
struct BestOfMany<'a>(&'a mut [u64; BATCH_LEN_MAX]);

impl Sink for BestOfMany<'_> {
    #[inline(always)]
    fn put(&mut self, idx: usize, leaf: Leaf, ids: usize, row: usize, found: bool) {
        let id = RuleId(leaf.word(ids, row));
        let precedence = Precedence::new(leaf.word(ids + 1, row), id).0;
        let best = &mut self.0[idx % BATCH_LEN_MAX];
        *best = (*best).min(if found { precedence } else { u64::MAX });
    }
}

/// The lowest bit that is set.
#[inline(always)]
fn first(bits: u32) -> usize {
    bits.trailing_zeros() as usize
}

/// The scan for one vector type: `$lanes` rules at once.
macro_rules! scan {
    ($name:ident, $features:literal, $vector:ty, $lanes:literal, $load:ident, $splat:ident,
     $xor:ident, $and:ident, $or:ident, $srlv:ident, $srli:ident, $min:ident, $max:ident,
     $zeros:ident) => {
        pub(super) mod $name {
            use super::super::super::Answers;
            use super::*;

            /// Row `row` and the next `$lanes - 1` of column `column`.
            #[inline]
            #[target_feature(enable = $features)]
            fn load(leaf: Leaf, column: usize, row: usize) -> $vector {
                // SAFETY: a leaf has at least sixteen words past its last column, and `row` is one
                // of its rows. Lanes past the column may be under change by the writer; callers
                // mask them off.
                unsafe { $load(leaf.at(column, row).cast()) }
            }

            /// Bit `r` is set if rule `row + r` of the leaf matches.
            #[inline]
            #[target_feature(enable = $features)]
            fn prefix_hits(leaf: Leaf, row: usize, key: &[u32]) -> u32 {
                let splat = |word: u32| $splat(word as i32);
                let shifts = load(leaf, 4, row);
                let src = $srlv($xor(load(leaf, 0, row), splat(key[0])), $srli::<24>(shifts));
                let dst_shift = $and(shifts, splat(0xff));
                let dst = $srlv($xor(load(leaf, 1, row), splat(key[1])), dst_shift);
                let ports = splat(key[2]);
                let clamped = $max($min(ports, load(leaf, 3, row)), load(leaf, 2, row));
                let proto = $and($xor(splat(key[3] >> 16), shifts), $srli::<8>(shifts));
                let proto = $and(proto, splat(0xff00));
                $zeros($or($or(src, dst), $or($xor(clamped, ports), proto)))
            }

            /// The same for the masked format.
            #[inline]
            #[target_feature(enable = $features)]
            fn masked_hits(leaf: Leaf, row: usize, words: &[usize], key: &[u32], at: usize) -> u32 {
                let ports = $splat(key[at] as i32);
                let (lo, hi) = (2 * words.len(), 2 * words.len() + 1);
                let clamped = $max($min(ports, load(leaf, hi, row)), load(leaf, lo, row));
                let mut differs = $xor(clamped, ports);
                for (pair, &word) in words.iter().enumerate() {
                    let under = $and($splat(key[word] as i32), load(leaf, 2 * pair + 1, row));
                    differs = $or(differs, $xor(under, load(leaf, 2 * pair, row)));
                }
                $zeros(differs)
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn hits<F: Format>(format: F, leaf: Leaf, row: usize, key: &[u32]) -> u32 {
                match format.words() {
                    None => prefix_hits(leaf, row, key),
                    Some(words) => masked_hits(leaf, row, words, key, format.ports_word()),
                }
            }

            /// Compares every key of the list with its leaf.
            #[inline]
            #[target_feature(enable = $features)]
            fn scan_to<const W: usize, F: Format>(
                view: View<'_>,
                format: F,
                keys: &[[u32; W]],
                list: &List,
                mut sink: impl Sink,
            ) {
                // Past the end lie references of former lists: fetched for nothing, rarely.
                let later = &list.references[PREFETCH_AHEAD..];
                for ((reference, idx), later) in list.pairs().zip(later) {
                    prefetch(view.words, *later);
                    let leaf = Leaf::new(view.words, reference);
                    let key = &keys[idx];
                    let mut row = 0;
                    loop {
                        let found = hits(format, leaf, row, key);
                        let left = leaf.rows - row;
                        if left <= $lanes {
                            // The usual leaf comes straight here: no branch on the outcome.
                            let found = _bzhi_u32(found, left as u32);
                            let row = row + first(found | 1 << ($lanes - 1));
                            sink.put(idx, leaf, format.id_column(), row, found != 0);
                            break;
                        }
                        if found != 0 {
                            sink.put(idx, leaf, format.id_column(), row + first(found), true);
                            break;
                        }
                        row += $lanes;
                    }
                }
            }

            #[target_feature(enable = $features)]
            pub(in super::super) fn scan<const W: usize, F: Format>(
                view: View<'_>,
                format: F,
                keys: &[[u32; W]],
                list: &List,
                answers: &mut Answers<'_>,
            ) {
                match answers {
                    Answers::Only(out) => scan_to(view, format, keys, list, Only(out)),
                    Answers::Best { best, one_priority: None } => {
                        scan_to(view, format, keys, list, BestOfMany(best))
                    }
                    Answers::Best { best, one_priority: Some(priority) } => {
                        let upper = Precedence::new(*priority, RuleId(0)).0;
                        scan_to(view, format, keys, list, BestOfOne { best, upper })
                    }
                }
            }
        }
    };
}

/// Which of eight words are zero.
#[inline]
#[target_feature(enable = "avx2")]
fn zeros_avx2(words: __m256i) -> u32 {
    let zero = _mm256_cmpeq_epi32(words, _mm256_setzero_si256());
    _mm256_movemask_ps(_mm256_castsi256_ps(zero)) as u32
}

/// The same with a mask register.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn zeros_256(words: __m256i) -> u32 {
    u32::from(_mm256_testn_epi32_mask(words, words))
}

/// Which of sixteen words are zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn zeros_512(words: __m512i) -> u32 {
    u32::from(_mm512_testn_epi32_mask(words, words))
}

/// `words >> shifts`, 0 from 32 on. The compiler knows this instruction, but in front of it
/// compares shifts whose range it knows, for nothing.
#[inline]
#[target_feature(enable = "avx512f")]
fn srlv_512(words: __m512i, shifts: __m512i) -> __m512i {
    let shifted;
    // SAFETY: the instruction reads and writes registers only.
    unsafe {
        std::arch::asm!(
            "vpsrlvd {0}, {1}, {2}", out(zmm_reg) shifted, in(zmm_reg) words, in(zmm_reg) shifts,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    shifted
}

/// The same for eight words.
#[inline]
#[target_feature(enable = "avx2")]
fn srlv_256(words: __m256i, shifts: __m256i) -> __m256i {
    let shifted;
    // SAFETY: the instruction reads and writes registers only.
    unsafe {
        std::arch::asm!(
            "vpsrlvd {0}, {1}, {2}", out(ymm_reg) shifted, in(ymm_reg) words, in(ymm_reg) shifts,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    shifted
}

scan!(
    avx2,
    "avx2,bmi1,bmi2,popcnt",
    __m256i,
    8,
    _mm256_loadu_si256,
    _mm256_set1_epi32,
    _mm256_xor_si256,
    _mm256_and_si256,
    _mm256_or_si256,
    srlv_256,
    _mm256_srli_epi32,
    _mm256_min_epu16,
    _mm256_max_epu16,
    zeros_avx2
);
scan!(
    small,
    "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,popcnt",
    __m256i,
    8,
    _mm256_loadu_si256,
    _mm256_set1_epi32,
    _mm256_xor_si256,
    _mm256_and_si256,
    _mm256_or_si256,
    srlv_256,
    _mm256_srli_epi32,
    _mm256_min_epu16,
    _mm256_max_epu16,
    zeros_256
);
scan!(
    large,
    "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,popcnt",
    __m512i,
    16,
    _mm512_loadu_si512,
    _mm512_set1_epi32,
    _mm512_xor_si512,
    _mm512_and_si512,
    _mm512_or_si512,
    srlv_512,
    _mm512_srli_epi32,
    _mm512_min_epu16,
    _mm512_max_epu16,
    zeros_512
);
