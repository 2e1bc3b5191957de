//! The kernels for AVX2: eight positions at once, and 32 of tiny patterns.

use std::arch::x86_64::*;

use super::portable;
use crate::filter::tables::{
    BitTable, LONG_BIT_SHIFT, LONG_ROTATE, MIX_LONG, MIX_SHORT, Mask, SHORT_BIT_SHIFT, TinyTable,
    WORD_SHIFT,
};

/// Proof that the machine has the instructions used here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(super) fn new() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    pub(super) fn fold(self, from: &[u8], to: &mut [u8]) {
        // SAFETY: `self` proves that the machine has the feature.
        unsafe { fold(from, to) };
    }

    pub(super) fn long(self, table: &BitTable, text: &[u8], start: usize, masks: &mut [Mask]) {
        // SAFETY: `self` proves that the machine has the feature.
        unsafe { long(table, text, start, masks) };
    }

    pub(super) fn short(self, table: &BitTable, text: &[u8], start: usize, masks: &mut [Mask]) {
        // SAFETY: `self` proves that the machine has the feature.
        unsafe { short(table, text, start, masks) };
    }

    pub(super) fn tiny(self, table: &TinyTable, text: &[u8], start: usize, masks: &mut [Mask]) {
        // SAFETY: `self` proves that the machine has the feature.
        unsafe { tiny(table, text, start, masks) };
    }
}

/// `value` in every lane.
#[inline]
#[target_feature(enable = "avx2")]
fn set(value: u32) -> __m256i {
    _mm256_set1_epi32(value as i32)
}

/// The 16 bytes at `at`.
#[inline]
#[target_feature(enable = "avx2")]
fn load_half(text: &[u8], at: usize) -> __m128i {
    let bytes: &[u8; 16] = text[at..at + 16].try_into().expect("16 bytes");
    // SAFETY: the array has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// The 32 bytes at `at`.
#[inline]
#[target_feature(enable = "avx2")]
fn load(text: &[u8], at: usize) -> __m256i {
    let bytes: &[u8; 32] = text[at..at + 32].try_into().expect("32 bytes");
    // SAFETY: the array has the 32 bytes that are read.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// The 4 bytes at each second one from `at` on, eight times.
#[inline]
#[target_feature(enable = "avx2")]
fn load_spread(text: &[u8], at: usize) -> __m256i {
    let halves = _mm256_set_m128i(load_half(text, at + 8), load_half(text, at));
    let spread = _mm_setr_epi8(0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9);
    _mm256_shuffle_epi8(halves, _mm256_broadcastsi128_si256(spread))
}

/// The words that hashes lead to.
#[inline]
#[target_feature(enable = "avx2")]
fn words(table: &BitTable, hashes: __m256i) -> __m256i {
    let moved = _mm256_srli_epi32::<{ WORD_SHIFT as i32 }>(hashes);
    let numbers = _mm256_and_si256(moved, set(table.mask()));
    // SAFETY: a table has as many words as numbers under its mask.
    unsafe { _mm256_i32gather_epi32::<4>(table.words().as_ptr().cast(), numbers) }
}

/// Lanes whose two bits, by a hash, are both set in `words`.
#[inline]
#[target_feature(enable = "avx2")]
fn are_set<const SHIFT: i32>(words: __m256i, hashes: __m256i) -> u16 {
    let (one, lower) = (set(1), set(31));
    let first = _mm256_and_si256(hashes, lower);
    let second = _mm256_and_si256(_mm256_srli_epi32::<SHIFT>(hashes), lower);
    let bits = _mm256_or_si256(_mm256_sllv_epi32(one, first), _mm256_sllv_epi32(one, second));
    let missing = _mm256_andnot_si256(words, bits);
    let none = _mm256_cmpeq_epi32(missing, _mm256_setzero_si256());
    _mm256_movemask_ps(_mm256_castsi256_ps(none)) as u16
}

#[target_feature(enable = "avx2")]
fn fold(from: &[u8], to: &mut [u8]) {
    portable::fold(from, to);
}

#[target_feature(enable = "avx2")]
fn long(table: &BitTable, text: &[u8], start: usize, masks: &mut [Mask]) {
    const LEFT: i32 = LONG_ROTATE as i32;
    let (mix_low, mix_high) = (set(MIX_LONG[0]), set(MIX_LONG[1]));
    for (idx, mask) in masks.as_flattened_mut().iter_mut().enumerate() {
        *mask = 0;
        for half in 0..2 {
            let at = start + 64 * idx + 32 * half;
            let low = _mm256_madd_epi16(load(text, at), mix_low);
            let high = _mm256_madd_epi16(load(text, at + 4), mix_high);
            let left = _mm256_slli_epi32::<LEFT>(high);
            let high = _mm256_or_si256(left, _mm256_srli_epi32::<{ 32 - LEFT }>(high));
            let hashes = _mm256_add_epi32(low, high);
            let found = are_set::<{ LONG_BIT_SHIFT as i32 }>(words(table, hashes), hashes);
            *mask |= found << (8 * half);
        }
    }
}

#[target_feature(enable = "avx2")]
fn short(table: &BitTable, text: &[u8], start: usize, masks: &mut [Mask]) {
    const SHIFT: i32 = SHORT_BIT_SHIFT as i32;
    let (mix_common, mix) = (set(MIX_SHORT[0]), set(MIX_SHORT[1]));
    for (idx, masks) in masks.as_flattened_mut().as_chunks_mut().0.iter_mut().enumerate() {
        *masks = [0, 0];
        for half in 0..2 {
            let at = start + 32 * idx + 16 * half;
            let here = load_spread(text, at);
            let next = load_spread(text, at + 1);
            let common = _mm256_andnot_si256(set(0xff), here);
            let found = words(table, _mm256_madd_epi16(common, mix_common));
            let even = are_set::<SHIFT>(found, _mm256_madd_epi16(here, mix));
            let odd = are_set::<SHIFT>(found, _mm256_madd_epi16(next, mix));
            masks[0] |= even << (8 * half);
            masks[1] |= odd << (8 * half);
        }
    }
}

/// A table of 64 bytes, each quarter of it twice.
type Quarters = [__m256i; 4];

#[inline]
#[target_feature(enable = "avx2")]
fn quarters(table: &[u8; 64]) -> Quarters {
    [0, 16, 32, 48].map(|at| _mm256_broadcastsi128_si256(load_half(table, at)))
}

/// For each byte, what the table has at its lower six bits.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(table: &Quarters, numbers: __m256i) -> __m256i {
    // A shuffle takes the lower four bits, and gives nothing where the highest is set.
    let low = _mm256_and_si256(numbers, _mm256_set1_epi8(15));
    let [a, b, c, d] = table.map(|quarter| _mm256_shuffle_epi8(quarter, low));
    // Choices are by the highest bit of a byte: here bit 4, then bit 5.
    let (by_4, by_5) = (_mm256_slli_epi16::<3>(numbers), _mm256_slli_epi16::<2>(numbers));
    let lower = _mm256_blendv_epi8(a, b, by_4);
    let upper = _mm256_blendv_epi8(c, d, by_4);
    _mm256_blendv_epi8(lower, upper, by_5)
}

#[target_feature(enable = "avx2")]
fn tiny(table: &TinyTable, text: &[u8], start: usize, masks: &mut [Mask]) {
    let [one, two, three, four] = table.mixes.each_ref().map(|mix| quarters(mix));
    let left_by_3 = |bytes| _mm256_and_si256(_mm256_slli_epi16::<3>(bytes), _mm256_set1_epi8(!7));
    for (idx, mask) in masks.as_flattened_mut().as_chunks_mut().0.iter_mut().enumerate() {
        let at = start + 32 * idx;
        let [a, b, c] = [load(text, at), load(text, at + 1), load(text, at + 2)];
        let half_b = _mm256_srli_epi16::<1>(b);
        let one = look_up(&one, a);
        let two = look_up(&two, _mm256_xor_si256(b, left_by_3(a)));
        let three = look_up(&three, _mm256_xor_si256(_mm256_srli_epi16::<2>(a), half_b));
        let four = look_up(&four, _mm256_xor_si256(c, half_b));
        let groups = _mm256_and_si256(_mm256_and_si256(one, two), _mm256_and_si256(three, four));
        let none = _mm256_cmpeq_epi8(groups, _mm256_setzero_si256());
        let bits = !_mm256_movemask_epi8(none);
        *mask = [bits as u16, (bits >> 16) as u16];
    }
}
