//! Hash steps for AVX-512: sixteen keys at once.

use std::arch::x86_64::*;
use std::sync::atomic::AtomicU32;

use super::super::{BATCH_LEN_MAX, Column, HashTable, List, SHORT_FIRST, Scratch, View};

/// Sixteen words of `from`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_512(from: &[u32; 16]) -> __m512i {
    // SAFETY: the array has the 64 bytes that are read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

/// Stores sixteen words to `to`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_512(to: &mut [u32; 16], words: __m512i) {
    // SAFETY: the array has the 64 bytes that are written.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), words) }
}

/// Sixteen words of `list` from `at` on.
#[inline(always)]
fn sixteen(list: &mut [u32], at: usize) -> &mut [u32; 16] {
    list[at..].first_chunk_mut().expect("lists have room for one vector more")
}

#[target_feature(enable = "avx512f")]
pub(super) fn columns(keys: &[u32], columns: &mut [Column; 16]) {
    // Lane l of row r holds key 4r + l; after the 4 x 4 transposition inside lanes, word r of lane
    // l must go to place 4r + l.
    let places = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let mut chunks = keys.chunks_exact(64);
    let mut at = 0;
    for chunk in &mut chunks {
        let row = |r: usize| load_512(chunk[16 * r..].first_chunk().expect("64 words"));
        let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
        let (t0, t1) = (_mm512_unpacklo_epi32(r0, r1), _mm512_unpackhi_epi32(r0, r1));
        let (t2, t3) = (_mm512_unpacklo_epi32(r2, r3), _mm512_unpackhi_epi32(r2, r3));
        let words = [
            _mm512_unpacklo_epi64(t0, t2),
            _mm512_unpackhi_epi64(t0, t2),
            _mm512_unpacklo_epi64(t1, t3),
            _mm512_unpackhi_epi64(t1, t3),
        ];
        for (column, word) in columns.iter_mut().zip(words) {
            store_512(sixteen(column, at), _mm512_permutexvar_epi32(places, word));
        }
        at += 16;
    }
    for (idx, key) in chunks.remainder().chunks_exact(4).enumerate() {
        for (column, word) in columns.iter_mut().zip(key) {
            column[at + idx] = *word;
        }
    }
}

/// Appends the lanes of `keep`.
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
pub(super) fn append(list: &mut List, keep: __mmask16, references: __m512i, keys: __m512i) {
    let len = list.len;
    let packed = _mm512_maskz_compress_epi32(keep, references);
    store_512(sixteen(&mut list.references, len), packed);
    store_512(sixteen(&mut list.keys, len), _mm512_maskz_compress_epi32(keep, keys));
    list.len = len + keep.count_ones() as usize;
}

/// The entries number `index`, eight bytes each, split into references and tags.
#[inline]
#[target_feature(enable = "avx512f")]
fn entries(table: &[AtomicU32], index: __m512i) -> (__m512i, __m512i) {
    let base = table.as_ptr().cast();
    let (low, high) = (_mm512_castsi512_si256(index), _mm512_extracti64x4_epi64::<1>(index));
    // SAFETY: the caller's `table` holds two words for each index that the shift of a hash can
    // give. An entry may be under change: each of its halves is then the old or the new one, and
    // either mixture leads to the rules before or after the change.
    let low = unsafe { _mm512_i32gather_epi64::<8>(low, base) };
    // SAFETY: as above.
    let high = unsafe { _mm512_i32gather_epi64::<8>(high, base) };
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    (_mm512_permutex2var_epi32(low, even, high), _mm512_permutex2var_epi32(low, odd, high))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt")]
pub(super) fn hash_step(view: View<'_>, table: &HashTable, keys: usize, scratch: &mut Scratch) {
    assert!((1..32).contains(&table.shift) && keys <= BATCH_LEN_MAX);
    let entries_len = 1usize << (32 - table.shift);
    let slots = &view.words[table.at..][..2 * entries_len];
    let shift = _mm_cvtsi32_si128(table.shift as i32);
    let span = _mm512_set1_epi32(view.small_leaf.span() as i32);
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let Scratch { columns, orders, smalls, others, .. } = scratch;
    for at in (0..keys).step_by(16) {
        let mut sum = _mm512_setzero_si512();
        for (word, &mask) in table.masks.iter().enumerate() {
            if mask == 0 {
                continue;
            }
            let masked = _mm512_and_si512(
                load_512(sixteen(&mut columns[word], at)),
                _mm512_set1_epi32(mask as i32),
            );
            let multiplier = _mm512_set1_epi32(view.multipliers.words[word] as i32);
            sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(masked, multiplier));
        }
        let spread = _mm512_xor_si512(sum, _mm512_srli_epi32::<15>(sum));
        let last = _mm512_set1_epi32(view.multipliers.last as i32);
        let hash = _mm512_mullo_epi32(spread, last);
        let (references, tags) = entries(slots, _mm512_srl_epi32(hash, shift));

        let live = if keys - at < 16 { (1 << (keys - at)) - 1 } else { 0xffff };
        let bit = _mm512_and_si512(hash, _mm512_set1_epi32(15));
        let filter = _mm512_srlv_epi32(tags, bit);
        let visit = _mm512_mask_test_epi32_mask(live, filter, _mm512_set1_epi32(1 << 16));
        let order = _mm512_and_si512(tags, _mm512_set1_epi32(0xffff));
        let visit = _mm512_mask_cmple_epu32_mask(visit, order, load_512(sixteen(orders, at)));
        let first_small = _mm512_set1_epi32(SHORT_FIRST as i32);
        let above = _mm512_sub_epi32(references, first_small);
        let small = _mm512_mask_cmplt_epu32_mask(visit, above, span);
        let idx = _mm512_add_epi32(lanes, _mm512_set1_epi32(at as i32));
        append(smalls, small, references, idx);
        if visit != small {
            append(others, visit & !small, references, idx);
        }
    }
}
