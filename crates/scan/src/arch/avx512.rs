//! The kernels for AVX-512 with VBMI: 64 bytes at once.
//!
//! Sixteen words from a table are one gather, or two of eight. AMD's cores take gathers apart, the
//! wide ones into more steps a word: by halves the filter does 1.3 to 1.6 times as much there.

use std::arch::x86_64::*;

use crate::filter::tables::{
    BitTable, LONG_BIT_SHIFT, LONG_ROTATE, MIX_LONG, MIX_SHORT, Mask, SHORT_BIT_SHIFT, TinyTable,
    WORD_SHIFT,
};

/// Proof that the machine has the instructions used here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512 {
    /// Whether words are gathered eight at a time.
    by_halves: bool,
}

impl Avx512 {
    /// Both ways to gather, the one that is faster here first.
    pub(super) fn both() -> [Option<Self>; 2] {
        // The vendor's name is in these registers, in this order: 'AuthenticAMD'.
        let id = __cpuid(0);
        let vendor = [id.ebx, id.edx, id.ecx].map(u32::to_le_bytes);
        let is_amd = vendor.as_flattened() == b"AuthenticAMD";
        [is_amd, !is_amd].map(Self::new)
    }

    /// Whether words are gathered eight at a time.
    pub(super) fn is_by_halves(self) -> bool {
        self.by_halves
    }

    fn new(by_halves: bool) -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("bmi2");
        has.then_some(Self { by_halves })
    }

    pub(super) fn fold(self, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len());
        // SAFETY: `self` proves that the machine has the features.
        unsafe { fold(from, to) };
    }

    pub(super) fn long(self, table: &BitTable, text: &[u8], start: usize, masks: &mut [Mask]) {
        match self.by_halves {
            // SAFETY: `self` proves that the machine has the features.
            true => unsafe { long::<true>(table, text, start, masks) },
            // SAFETY: as above.
            false => unsafe { long::<false>(table, text, start, masks) },
        }
    }

    pub(super) fn short(self, table: &BitTable, text: &[u8], start: usize, masks: &mut [Mask]) {
        match self.by_halves {
            // SAFETY: `self` proves that the machine has the features.
            true => unsafe { short::<true>(table, text, start, masks) },
            // SAFETY: as above.
            false => unsafe { short::<false>(table, text, start, masks) },
        }
    }

    pub(super) fn tiny(self, table: &TinyTable, text: &[u8], start: usize, masks: &mut [Mask]) {
        // SAFETY: `self` proves that the machine has the features.
        unsafe { tiny(table, text, start, masks) };
    }
}

/// `value` in every lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn set(value: u32) -> __m512i {
    _mm512_set1_epi32(value as i32)
}

/// The 64 bytes at `at`.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(text: &[u8], at: usize) -> __m512i {
    let bytes: &[u8; 64] = text[at..at + 64].try_into().expect("64 bytes");
    // SAFETY: the array has the 64 bytes that are read.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Letters in lower case.
#[inline]
#[target_feature(enable = "avx512bw")]
fn lower(bytes: __m512i) -> __m512i {
    let from_a = _mm512_sub_epi8(bytes, _mm512_set1_epi8(b'A' as i8));
    let upper = _mm512_cmplt_epu8_mask(from_a, _mm512_set1_epi8(26));
    _mm512_mask_add_epi8(bytes, upper, bytes, _mm512_set1_epi8(32))
}

#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn fold(from: &[u8], to: &mut [u8]) {
    let (blocks, tail) = from.as_chunks::<64>();
    let (to_blocks, to_tail) = to.as_chunks_mut::<64>();
    for (from, to) in blocks.iter().zip(to_blocks) {
        let folded = lower(load(from, 0));
        // SAFETY: the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), folded) };
    }
    let mask = _bzhi_u64(u64::MAX, tail.len() as u32);
    // SAFETY: as many lanes are read as the tail has bytes.
    let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, tail.as_ptr().cast()) };
    let folded = lower(bytes);
    // SAFETY: both tails are as long; as many lanes are written.
    unsafe { _mm512_mask_storeu_epi8(to_tail.as_mut_ptr().cast(), mask, folded) };
}

/// The words that hashes lead to, in two gathers of eight if `BY_HALVES`.
#[inline]
#[target_feature(enable = "avx512f")]
fn words<const BY_HALVES: bool>(table: &BitTable, hashes: __m512i) -> __m512i {
    let moved = _mm512_srli_epi32::<WORD_SHIFT>(hashes);
    let numbers = _mm512_and_si512(moved, set(table.mask()));
    let words = table.words().as_ptr();
    if !BY_HALVES {
        // SAFETY: a table has as many words as numbers under its mask.
        return unsafe { _mm512_i32gather_epi32::<4>(numbers, words.cast()) };
    }
    let (low, high) = (_mm512_castsi512_si256(numbers), _mm512_extracti64x4_epi64::<1>(numbers));
    // SAFETY: as above.
    let low = unsafe { _mm256_i32gather_epi32::<4>(words.cast(), low) };
    // SAFETY: as above.
    let high = unsafe { _mm256_i32gather_epi32::<4>(words.cast(), high) };
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// Lanes whose two bits, by a hash, are both set in `words`.
#[inline]
#[target_feature(enable = "avx512f")]
fn are_set<const SHIFT: u32>(words: __m512i, hashes: __m512i) -> u16 {
    let one = set(1);
    let first = _mm512_rolv_epi32(one, hashes);
    let second = _mm512_rolv_epi32(one, _mm512_srli_epi32::<SHIFT>(hashes));
    let missing = _mm512_andnot_si512(words, _mm512_or_si512(first, second));
    _mm512_testn_epi32_mask(missing, missing)
}

#[target_feature(enable = "avx512f,avx512bw")]
fn long<const BY_HALVES: bool>(table: &BitTable, text: &[u8], start: usize, masks: &mut [Mask]) {
    let (mix_low, mix_high) = (set(MIX_LONG[0]), set(MIX_LONG[1]));
    for (idx, mask) in masks.as_flattened_mut().iter_mut().enumerate() {
        let at = start + 64 * idx;
        let low = _mm512_madd_epi16(load(text, at), mix_low);
        let high = _mm512_madd_epi16(load(text, at + 4), mix_high);
        let high = _mm512_rol_epi32::<{ LONG_ROTATE as i32 }>(high);
        let hashes = _mm512_add_epi32(low, high);
        *mask = are_set::<LONG_BIT_SHIFT>(words::<BY_HALVES>(table, hashes), hashes);
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn short<const BY_HALVES: bool>(table: &BitTable, text: &[u8], start: usize, masks: &mut [Mask]) {
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    // The 4 bytes at every second one: its half word and the next.
    let spread = _mm512_add_epi32(_mm512_mullo_epi32(lanes, set(0x1_0001)), set(0x1_0000));
    let (mix_common, mix) = (set(MIX_SHORT[0]), set(MIX_SHORT[1]));
    for (idx, masks) in masks.as_flattened_mut().as_chunks_mut().0.iter_mut().enumerate() {
        let at = start + 32 * idx;
        let here = _mm512_permutexvar_epi16(spread, load(text, at));
        let next = _mm512_permutexvar_epi16(spread, load(text, at + 1));
        let common = _mm512_andnot_si512(set(0xff), here);
        let found = words::<BY_HALVES>(table, _mm512_madd_epi16(common, mix_common));
        let even = are_set::<SHORT_BIT_SHIFT>(found, _mm512_madd_epi16(here, mix));
        let odd = are_set::<SHORT_BIT_SHIFT>(found, _mm512_madd_epi16(next, mix));
        *masks = [even, odd];
    }
}

/// Of bytes that were shifted to the left within their half words, what stayed their own.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn left_by_3(bytes: __m512i) -> __m512i {
    _mm512_and_si512(_mm512_slli_epi16::<3>(bytes), _mm512_set1_epi8(!7))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn tiny(table: &TinyTable, text: &[u8], start: usize, masks: &mut [Mask]) {
    let [one, two, three, four] = table.mixes.each_ref().map(|mix| load(mix, 0));
    for (idx, mask) in masks.iter_mut().enumerate() {
        let at = start + 64 * idx;
        let [a, b, c] = [load(text, at), load(text, at + 1), load(text, at + 2)];
        // Of each mix the lower six bits count, so what comes from the next byte does not.
        let half_b = _mm512_srli_epi16::<1>(b);
        let one = _mm512_permutexvar_epi8(a, one);
        let two = _mm512_permutexvar_epi8(_mm512_xor_si512(b, left_by_3(a)), two);
        let mix = _mm512_xor_si512(_mm512_srli_epi16::<2>(a), half_b);
        let three = _mm512_permutexvar_epi8(mix, three);
        let four = _mm512_permutexvar_epi8(_mm512_xor_si512(c, half_b), four);
        let groups = _mm512_and_si512(_mm512_and_si512(one, two), three);
        let bits = _mm512_test_epi8_mask(groups, four);
        *mask = [bits as u16, (bits >> 16) as u16, (bits >> 32) as u16, (bits >> 48) as u16];
    }
}
