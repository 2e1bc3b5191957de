//! Walks of structures with leaves in lanes: one key against four rules with two instructions, see
//! `turbo::leaf`.
//!
//! A comparison gives a bit for each lane that fails, eight for each rule, so a rule that matches
//! is a byte of zeros. What bounds such a walk is the number of its instructions and of the lines
//! it loads. So it is three loops over the batch, and nothing is done for a single key that can be
//! done for sixteen:
//! - the cut, a dozen instructions a key;
//! - the comparisons with the first eight rules of each key's leaf, another dozen, which leave
//!   their bits in memory. The rule that wins is among these eight for nine keys in ten and more,
//!   as rules come by precedence and those that cannot win are hidden;
//! - the answers, sixteen keys at once. The few keys that are not sure of theirs go to a list.

use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU32, Ordering};

use warpswitch_rules::RuleId;

use super::super::portable::cut_masks;
use super::super::{All, BATCH_LEN_MAX, CUT_FLAG, Column, FIRST_GROUPS, List, OFFSET_BITS};
use super::super::{SHORT_FIRST, Scratch, UNIT, View, Visits, leaf_rows, offset, part};
use super::cuts::cut_index;
use super::hash::{append, load_512, store_512};
use crate::turbo::leaf::{GROUP_ROWS, GROUP_WORDS, ID_WORD, Layout, SPANS_AT};

/// The lowest bit of each byte.
const BYTES: u32 = 0x0101_0101;
/// The lanes that hold ids.
const ID_LANES: u32 = BYTES << (2 * ID_WORD);
/// Bytes of a group.
const GROUP_BYTES: usize = GROUP_WORDS * size_of::<u32>();

/// Answers every key, given that all rules are below `reference`.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
pub(super) fn walk(
    view: View<'_>,
    reference: u32,
    keys: &[[u32; 4]],
    scratch: &mut Scratch,
    out: &mut [RuleId],
) {
    let Scratch { visits, cuts, larges, .. } = scratch;
    let Visits { leaves, bits, others, unsure } = visits;
    if reference & CUT_FLAG == 0 {
        others.fill(reference, keys.len());
        sort(others, leaves, larges);
        others.clear();
    } else {
        cut_all(&All::new(view, reference, 0), keys, leaves, others);
        scan_first::<false>(view.words, keys, leaves, bits, unsure, out);
        leaves.clear();
    }
    while others.len > 0 {
        part(others, larges, cuts);
        cut_step(view.words, keys, cuts, leaves, others);
    }
    scan_first::<true>(view.words, keys, leaves, bits, unsure, out);
    scan_rest(view.words, keys, unsure, FIRST_GROUPS * GROUP_ROWS, out);
    scan_rest(view.words, keys, larges, 0, out);
    for list in [leaves, unsure, larges] {
        list.clear();
    }
}

/// Takes every key through the cut and notes in `all_keys` where it leads, and in `others` those
/// that it leads to no short leaf.
#[target_feature(enable = "avx512f,bmi1,bmi2,popcnt")]
fn cut_all(all: &All<'_, 4>, keys: &[[u32; 4]], all_keys: &mut List, others: &mut List) {
    for (key, reference) in keys.iter().zip(&mut all_keys.references) {
        *reference = all.entries[cut_index(&all.masks, key)].load(Ordering::Acquire);
    }
    all_keys.len = keys.len();
    let first = _mm512_set1_epi32(SHORT_FIRST as i32);
    let span = _mm512_set1_epi32((CUT_FLAG - SHORT_FIRST) as i32);
    for at in (0..keys.len()).step_by(16) {
        let next = load_512(sixteen(&all_keys.references, at));
        let above = _mm512_sub_epi32(next, first);
        let other = _mm512_mask_cmpge_epu32_mask(live(keys.len(), at), above, span);
        if other != 0 {
            append(others, other, next, lanes(at));
        }
    }
}

/// Takes every key of `cuts` through its cut: what leads to short leaves goes to `leaves`, the
/// rest to `others`.
#[target_feature(enable = "avx512f,bmi1,bmi2,popcnt")]
fn cut_step(
    words: &[AtomicU32],
    keys: &[[u32; 4]],
    cuts: &mut List,
    leaves: &mut List,
    others: &mut List,
) {
    for (reference, &idx) in cuts.references.iter_mut().zip(&cuts.keys[..cuts.len]) {
        let masks = cut_masks::<4>(words, offset(*reference));
        let entry = offset(*reference) + 4 + cut_index(&masks, &keys[idx as usize]);
        *reference = words[entry].load(Ordering::Acquire);
    }
    sort(cuts, leaves, others);
    cuts.clear();
}

/// Appends what leads to short leaves to `leaves`, the rest to `others`.
#[target_feature(enable = "avx512f,popcnt")]
fn sort(list: &List, leaves: &mut List, others: &mut List) {
    let first = _mm512_set1_epi32(SHORT_FIRST as i32);
    let span = _mm512_set1_epi32((CUT_FLAG - SHORT_FIRST) as i32);
    for at in (0..list.len).step_by(16) {
        let (next, live) = (load_512(sixteen(&list.references, at)), live(list.len, at));
        let short = _mm512_cmplt_epu32_mask(_mm512_sub_epi32(next, first), span);
        let keys = load_512(sixteen(&list.keys, at));
        append(leaves, live & short, next, keys);
        append(others, live & !short, next, keys);
    }
}

/// The numbers from `at` on.
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes(at: usize) -> __m512i {
    let first = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm512_add_epi32(first, _mm512_set1_epi32(at as i32))
}

/// The lanes of the sixteen from `at` on that are below `len`.
#[inline(always)]
fn live(len: usize, at: usize) -> __mmask16 {
    let left = len.saturating_sub(at);
    if left < 16 { (1 << left) - 1 } else { 0xffff }
}

/// Eight lanes of each of the four rules from `at` on: a bit is set where the key lies outside.
///
/// # Safety
/// From `at` on lie [`GROUP_BYTES`] bytes of the structure, on a cache line.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn outside(at: *const u8, key: __m512i) -> u32 {
    // SAFETY: as the caller says.
    let least = unsafe { _mm512_load_si512(at.cast()) };
    // SAFETY: as the caller says.
    let spans = unsafe { _mm512_load_si512(at.wrapping_add(4 * SPANS_AT).cast()) };
    _mm512_cmpgt_epu16_mask(_mm512_sub_epi16(key, least), spans)
}

/// Four words, four times.
#[inline]
#[target_feature(enable = "avx512f")]
fn splat(key: &[u32; 4]) -> __m512i {
    // SAFETY: the array has the 16 bytes that are read.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(key.as_ptr().cast()) })
}

/// The byte at which the leaf of a short reference starts.
#[inline(always)]
fn start(reference: u32) -> usize {
    (reference & ((1 << OFFSET_BITS) - 1)) as usize * (UNIT * size_of::<u32>())
}

/// Compares keys with the first eight rules of their leaves. One that matches is the answer; keys
/// that match none and have more rules to be compared with are appended to `unsure`. Of keys whose
/// reference leads to no short leaf the answer means nothing.
///
/// With `LISTED` the keys are those of `list`, else the first `list.len` ones.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
fn scan_first<const LISTED: bool>(
    words: &[AtomicU32],
    keys: &[[u32; 4]],
    list: &List,
    bits: &mut [Column; FIRST_GROUPS],
    unsure: &mut List,
    out: &mut [RuleId],
) {
    let len = list.len;
    assert!(len <= BATCH_LEN_MAX && (LISTED || len <= keys.len().min(out.len())));
    let base = words.as_ptr().cast::<u8>();
    for (at, &reference) in list.references[..len].iter().enumerate() {
        let key = if LISTED { &keys[list.keys[at] as usize] } else { &keys[at] };
        let (key, leaf) = (splat(key), base.wrapping_add(start(reference)));
        for (group, bits) in bits.iter_mut().enumerate() {
            // SAFETY: the reference leads to a block of the structure, be it a leaf or a cut, and
            // behind every block lie `SLACK_WORDS` words more.
            bits[at] = unsafe { outside(leaf.wrapping_add(group * GROUP_BYTES), key) };
        }
    }
    for at in (0..len).step_by(16) {
        let (live, next) = (live(len, at), load_512(sixteen(&list.references, at)));
        // SAFETY: the references lead to blocks of the structure.
        let (ids, open) = unsafe { answers(base, next, bits, at) };
        let idx = if LISTED { load_512(sixteen(&list.keys, at)) } else { lanes(at) };
        if open & live != 0 {
            append(unsure, open & live, next, idx);
        }
        if LISTED {
            let mut found = [0; 16];
            store_512(&mut found, ids);
            for (&idx, id) in list.keys[at..len].iter().zip(found) {
                out[idx as usize] = RuleId(id);
            }
        } else {
            let at = out.as_mut_ptr().wrapping_add(at);
            // SAFETY: only the answers to keys that there are are written.
            unsafe { _mm512_mask_storeu_epi32(at.cast(), live, ids) };
        }
    }
}

/// Sixteen words of `list` from `at` on.
#[inline(always)]
fn sixteen(list: &[u32], at: usize) -> &[u32; 16] {
    list[at..].first_chunk().expect("lists have room for one vector more")
}

/// The answers of the sixteen keys from `at` on, and which of them have more rules to be compared
/// with.
///
/// # Safety
/// `base` is the first byte of the structure that the references `next` lead into.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
unsafe fn answers(
    base: *const u8,
    next: __m512i,
    bits: &[Column; FIRST_GROUPS],
    at: usize,
) -> (__m512i, __mmask16) {
    let splat = |word: u32| _mm512_set1_epi32(word as i32);
    // Eight times the number of the first row that matches.
    let mut first = splat(u32::MAX);
    for (group, bits) in bits.iter().enumerate().rev() {
        let fails = load_512(sixteen(bits, at));
        let fails = _mm512_andnot_si512(splat(ID_LANES), fails);
        // The top bit of each byte that is zero; of several, at least the lowest is right.
        let below = _mm512_sub_epi32(fails, splat(BYTES));
        let zeros = _mm512_and_si512(_mm512_andnot_si512(fails, below), splat(BYTES << 7));
        // The bits below the lowest.
        let below = _mm512_andnot_si512(zeros, _mm512_sub_epi32(zeros, splat(1)));
        let found = _mm512_test_epi32_mask(zeros, zeros);
        let last = splat(32 * group as u32 + 25);
        first = _mm512_mask_sub_epi32(first, found, last, _mm512_lzcnt_epi32(below));
    }
    // Behind the last row may lie anything.
    let end = _mm512_slli_epi32::<3>(_mm512_srli_epi32::<OFFSET_BITS>(next));
    let leaves = !_mm512_movepi32_mask(next);
    let found = _mm512_mask_cmplt_epu32_mask(leaves, first, end);
    let open = leaves & !found & _mm512_cmpgt_epu32_mask(end, splat(32 * FIRST_GROUPS as u32));
    let start = _mm512_slli_epi32::<5>(_mm512_and_si512(next, splat((1 << OFFSET_BITS) - 1)));
    // Rows are 16 bytes apart, groups of four 128.
    let row = _mm512_add_epi32(first, _mm512_and_si512(first, splat(!31)));
    let place = _mm512_add_epi32(start, _mm512_slli_epi32::<1>(row));
    let base = base.wrapping_add(4 * ID_WORD).cast();
    // SAFETY: only ids of rows of leaves are read, or words less than eight rows past one.
    let ids = unsafe { _mm512_mask_i32gather_epi32::<1>(splat(0), found, place, base) };
    let ids = _mm512_and_si512(ids, splat(0xffff));
    (_mm512_mask_mov_epi32(splat(RuleId::NONE.0), found, ids), open)
}

/// Compares every key of the list with its leaf, of any length, from row `from` on; the rule found
/// is the answer.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
fn scan_rest(words: &[AtomicU32], keys: &[[u32; 4]], list: &List, from: usize, out: &mut [RuleId]) {
    for (reference, idx) in list.pairs() {
        let (at, rows) = leaf_rows(words, reference, Layout::Lanes.header());
        let (leaf, key) = (words[at..].as_ptr().cast::<u8>(), splat(&keys[idx]));
        out[idx] = RuleId::NONE;
        for row in (from..rows).step_by(GROUP_ROWS) {
            let group = leaf.wrapping_add(row / GROUP_ROWS * GROUP_BYTES);
            // SAFETY: the group holds a row of the leaf.
            let fails = unsafe { outside(group, key) } & !ID_LANES;
            let zeros = fails.wrapping_sub(BYTES) & !fails & BYTES << 7;
            let first = row + zeros.trailing_zeros() as usize / 8;
            if zeros != 0 && first < rows {
                out[idx] = RuleId(crate::turbo::leaf::id(&words[at..], first));
                break;
            }
        }
    }
}
