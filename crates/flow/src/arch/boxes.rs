//! The match of a few boxes: a group of keys side by side against box after box.
//!
//! ```text
//! lane      0     1     2   …        for each box, the heaviest first:
//! column 0  key0  key1  key2           column - lo <= span in every column: a hit
//! column 1  key0  key1  key2           lanes without a hit go on; none left: done
//! ```
//! A *column* is a masked word of the keys. The comparison is `x - lo <= span`, in lanes of 32 bits
//! or, where a word holds two numbers (ports), of 16 bits: there as a saturating subtraction, whose
//! results of several columns are joined before one test. Wide columns come before those of halves.
//!
//! One algorithm in three forms: portable, AVX2 (8 keys) and AVX-512 (twice 16, which share the
//! loads of a box). The portable form is the definition. Lanes are keys, not boxes, since most keys
//! of skewed traffic hit one of the first boxes: a group then ends after these.
//!
//! Two ports for vectors are the limit: a box of an IPv4 5-tuple takes 10 instructions for 16 keys,
//! so 20 boxes take 6.25 cycles a key. Measured with AVX-512 at 3.05 GHz: 3.36 ns with a list of
//! the lanes that have hit, 3.07 with blocks of boxes in reverse, 2.92 with the protocol as a wide
//! column, 2.69 with two groups at once.

use crate::Answer;

/// The most columns of a layout.
pub(crate) const COLUMNS_MAX: usize = 20;

/// Keys that the widest form compares at once.
const GROUP_LEN: usize = 16;
/// Boxes that it compares before it looks whether keys are left.
const BLOCK_LEN: usize = 4;

/// Part of a key that is compared as a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// The word of the key.
    pub(crate) word: usize,
    /// The bits of the word that count.
    pub(crate) mask: u32,
}

/// The columns of a schema: wide ones first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) list: Vec<Column>,
    pub(crate) wide_len: usize,
    /// Words of a key.
    pub(crate) words: usize,
}

/// Boxes in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// For each box its lowest values by column, then the distances to its highest.
    pub(crate) lo_spans: Vec<u32>,
    pub(crate) answers: Vec<Answer>,
}

/// The instructions that a match uses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Matcher {
    /// The build target's.
    Portable,
    /// 256-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx2(x86_64::Avx2),
    /// 512-bit vectors and mask registers.
    #[cfg(target_arch = "x86_64")]
    Avx512(x86_64::Avx512),
}

impl Matcher {
    /// Every matcher that this machine can run, the best last.
    pub(crate) fn available() -> Vec<Self> {
        let mut matchers = vec![Matcher::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            matchers.extend(x86_64::Avx2::new().map(Matcher::Avx2));
            matchers.extend(x86_64::Avx512::new().map(Matcher::Avx512));
        }
        matchers
    }

    /// The best matcher that this machine can run.
    pub(crate) fn best() -> Self {
        Self::available().pop().unwrap_or(Matcher::Portable)
    }

    /// Writes the answer of the first box that contains each key, or [`Answer::MISS`].
    ///
    /// # Panics
    /// If `out` is shorter than the keys: a caller bug.
    pub(crate) fn run(self, columns: &Columns, bounds: &Bounds, keys: &[u32], out: &mut [Answer]) {
        let out = &mut out[..keys.len() / columns.words];
        // One or two lines for each schema.
        match (columns.words, columns.wide_len, columns.list.len()) {
            (4, 2, 4) => self.groups::<4, 2, 4>(columns, bounds, keys, out),
            (4, 3, 4) => self.groups::<4, 3, 4>(columns, bounds, keys, out),
            (10, 8, 10) => self.groups::<10, 8, 10>(columns, bounds, keys, out),
            (10, 9, 10) => self.groups::<10, 9, 10>(columns, bounds, keys, out),
            (10, 6, 10) => self.groups::<10, 6, 10>(columns, bounds, keys, out),
            (16, 12, 16) => self.groups::<16, 12, 16>(columns, bounds, keys, out),
            _ => portable(columns, bounds, keys, out),
        }
    }

    /// Groups of keys of `W` words, `WIDE` of `C` columns of 32 bits; the last is filled up.
    fn groups<const W: usize, const WIDE: usize, const C: usize>(
        self,
        columns: &Columns,
        bounds: &Bounds,
        keys: &[u32],
        out: &mut [Answer],
    ) {
        if let Matcher::Portable = self {
            return portable(columns, bounds, keys, out);
        }
        let list: [Column; C] = columns.list[..].try_into().expect("the columns of this shape");
        let (keys, _) = keys.as_chunks::<W>();
        let (boxes, _) = bounds.lo_spans.as_chunks::<C>();
        let (boxes, _) = boxes.as_chunks::<2>();
        let (full_keys, last_keys) = keys.as_chunks::<GROUP_LEN>();
        let (full_out, last_out) = out.as_chunks_mut::<GROUP_LEN>();
        let (pairs, single) = full_keys.as_chunks::<2>();
        let (pairs_out, single_out) = full_out.as_chunks_mut::<2>();
        for (keys, out) in pairs.iter().zip(pairs_out) {
            self.group::<2, W, WIDE, C>(&list, boxes, &bounds.answers, keys, out);
        }
        let (single, _) = single.as_chunks::<1>();
        for (keys, out) in single.iter().zip(single_out.as_chunks_mut::<1>().0) {
            self.group::<1, W, WIDE, C>(&list, boxes, &bounds.answers, keys, out);
        }
        if !last_keys.is_empty() {
            // Repeated: a key that hits none of the first boxes would make the group go on.
            let mut keys = [last_keys[0]; GROUP_LEN];
            keys[..last_keys.len()].copy_from_slice(last_keys);
            let mut out = [[Answer::MISS; GROUP_LEN]];
            self.group::<1, W, WIDE, C>(&list, boxes, &bounds.answers, &[keys], &mut out);
            last_out.copy_from_slice(&out[0][..last_out.len()]);
        }
    }

    #[inline(always)]
    fn group<const G: usize, const W: usize, const WIDE: usize, const C: usize>(
        self,
        columns: &[Column; C],
        boxes: &[[[u32; C]; 2]],
        answers: &[Answer],
        keys: &[[[u32; W]; GROUP_LEN]; G],
        out: &mut [[Answer; GROUP_LEN]; G],
    ) {
        match self {
            Matcher::Portable => unreachable!("the portable form has no groups"),
            #[cfg(target_arch = "x86_64")]
            Matcher::Avx2(avx2) => {
                avx2.group::<G, W, WIDE, C>(columns, boxes, answers, keys, out);
            }
            #[cfg(target_arch = "x86_64")]
            Matcher::Avx512(avx512) => {
                avx512.group::<G, W, WIDE, C>(columns, boxes, answers, keys, out);
            }
        }
    }
}

fn portable(columns: &Columns, bounds: &Bounds, keys: &[u32], out: &mut [Answer]) {
    let columns_len = columns.list.len();
    for (key, out) in keys.chunks_exact(columns.words).zip(out) {
        let mut parts = [0; COLUMNS_MAX];
        for (part, column) in parts.iter_mut().zip(&columns.list) {
            *part = key[column.word] & column.mask;
        }
        let contains = |lo_spans: &[u32]| {
            let (lo, span) = lo_spans.split_at(columns_len);
            let bounds = lo.iter().zip(span).enumerate();
            bounds.zip(parts).all(|((column, (&lo, &span)), part)| {
                if column < columns.wide_len {
                    return part.wrapping_sub(lo) <= span;
                }
                let half = |shift: u32| {
                    let of = |word: u32| (word >> shift) as u16;
                    of(part).wrapping_sub(of(lo)) <= of(span)
                };
                half(0) & half(16)
            })
        };
        let mut boxes = bounds.lo_spans.chunks_exact(2 * columns_len).zip(&bounds.answers);
        *out = boxes.find(|(box_, _)| contains(box_)).map_or(Answer::MISS, |(_, answer)| *answer);
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64 {
    //! The same with AVX2 and AVX-512. A value of [`Avx2`] or [`Avx512`] is the proof that the
    //! machine has the instructions.

    use std::arch::x86_64::*;

    use super::{Answer, BLOCK_LEN, Column, GROUP_LEN};

    /// Proof that AVX2 is there.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Avx2(());

    /// Proof that AVX-512 F and BW are there.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Avx512(());

    impl Avx2 {
        /// Whether this machine has the instructions.
        pub(crate) fn is_available() -> bool {
            is_x86_feature_detected!("avx2")
        }

        /// The matcher, if [`Avx2::is_available`].
        pub(crate) fn new() -> Option<Self> {
            Self::is_available().then_some(Self(()))
        }

        /// One group, or more that are taken through the boxes together.
        #[inline(always)]
        pub(crate) fn group<const G: usize, const W: usize, const WIDE: usize, const C: usize>(
            self,
            columns: &[Column; C],
            boxes: &[[[u32; C]; 2]],
            answers: &[Answer],
            keys: &[[[u32; W]; GROUP_LEN]; G],
            out: &mut [[Answer; GROUP_LEN]; G],
        ) {
            let (keys, _) = keys.as_flattened().as_chunks::<8>();
            let (out, _) = out.as_flattened_mut().as_chunks_mut::<8>();
            for (keys, out) in keys.iter().zip(out) {
                // SAFETY: the target features of the callee (avx2) are there: `self` exists only
                // if `is_available` returned true.
                unsafe { avx2_group::<W, WIDE, C>(columns, boxes, answers, keys, out) }
            }
        }
    }

    impl Avx512 {
        /// Whether this machine has the instructions.
        pub(crate) fn is_available() -> bool {
            is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
        }

        /// The matcher, if [`Avx512::is_available`].
        pub(crate) fn new() -> Option<Self> {
            Self::is_available().then_some(Self(()))
        }

        /// One group, or more that are taken through the boxes together.
        #[inline(always)]
        pub(crate) fn group<const G: usize, const W: usize, const WIDE: usize, const C: usize>(
            self,
            columns: &[Column; C],
            boxes: &[[[u32; C]; 2]],
            answers: &[Answer],
            keys: &[[[u32; W]; GROUP_LEN]; G],
            out: &mut [[Answer; GROUP_LEN]; G],
        ) {
            // SAFETY: the target features of the callee (avx512f, avx512bw) are there: `self`
            // exists only if `is_available` returned true.
            unsafe { avx512_group::<G, W, WIDE, C>(columns, boxes, answers, keys, out) }
        }
    }

    #[target_feature(enable = "avx2")]
    fn avx2_group<const W: usize, const WIDE: usize, const C: usize>(
        columns: &[Column; C],
        boxes: &[[[u32; C]; 2]],
        answers: &[Answer],
        keys: &[[u32; W]; 8],
        out: &mut [Answer; 8],
    ) {
        let mut parts = [_mm256_setzero_si256(); C];
        for (part, column) in parts.iter_mut().zip(columns) {
            let words = avx2_words(keys, column.word);
            *part = _mm256_and_si256(words, _mm256_set1_epi32(column.mask as i32));
        }
        let mut open = _mm256_set1_epi32(-1);
        let mut found = _mm256_set1_epi32(Answer::MISS.0 as i32);
        for ([lo, span], answer) in boxes.iter().zip(answers) {
            // No box waits for the one before but in the last step.
            let mut wide = _mm256_set1_epi32(-1);
            let mut excess = _mm256_setzero_si256();
            for column in 0..C {
                let lo = _mm256_set1_epi32(lo[column] as i32);
                let span = _mm256_set1_epi32(span[column] as i32);
                if column < WIDE {
                    let above = _mm256_sub_epi32(parts[column], lo);
                    let least = _mm256_min_epu32(above, span);
                    wide = _mm256_and_si256(wide, _mm256_cmpeq_epi32(above, least));
                } else {
                    let above = _mm256_sub_epi16(parts[column], lo);
                    excess = _mm256_or_si256(excess, _mm256_subs_epu16(above, span));
                }
            }
            let halves = _mm256_cmpeq_epi32(excess, _mm256_setzero_si256());
            let hit = _mm256_and_si256(_mm256_and_si256(wide, halves), open);
            found = _mm256_blendv_epi8(found, _mm256_set1_epi32(answer.0 as i32), hit);
            open = _mm256_andnot_si256(hit, open);
            if _mm256_testz_si256(open, open) != 0 {
                break;
            }
        }
        let out: *mut Answer = out.as_mut_ptr();
        // SAFETY:
        // - the pointer is valid for writes of 32 bytes: `out` borrows eight answers, each a
        //   transparent `u32`;
        // - the store needs no alignment.
        unsafe { _mm256_storeu_si256(out.cast(), found) }
    }

    /// One word of each key.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn avx2_words<const W: usize>(keys: &[[u32; W]; 8], word: usize) -> __m256i {
        let words: [u32; 8] = std::array::from_fn(|lane| keys[lane][word]);
        // SAFETY:
        // - the pointer is valid for reads of 32 bytes: `words` is eight words;
        // - the load needs no alignment.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    fn avx512_group<const G: usize, const W: usize, const WIDE: usize, const C: usize>(
        columns: &[Column; C],
        boxes: &[[[u32; C]; 2]],
        answers: &[Answer],
        keys: &[[[u32; W]; GROUP_LEN]; G],
        out: &mut [[Answer; GROUP_LEN]; G],
    ) {
        let mut parts = [[_mm512_setzero_si512(); C]; G];
        for (parts, keys) in parts.iter_mut().zip(keys) {
            *parts = avx512_parts(columns, keys);
        }
        let mut open: [__mmask16; G] = [!0; G];
        let miss = _mm512_set1_epi32(Answer::MISS.0 as i32);
        let mut found = [miss; G];
        for (boxes, answers) in boxes.chunks(BLOCK_LEN).zip(answers.chunks(BLOCK_LEN)) {
            // The last box comes first, and those before it overwrite its answers: so no comparison
            // waits for another, and nothing keeps a list of the lanes that have hit.
            let mut of_block = [miss; G];
            for ([lo, span], answer) in boxes.iter().zip(answers).rev() {
                let lo = lo.map(|lo| _mm512_set1_epi32(lo as i32));
                let span = span.map(|span| _mm512_set1_epi32(span as i32));
                let answer = _mm512_set1_epi32(answer.0 as i32);
                for g in 0..G {
                    let mut wide: __mmask16 = !0;
                    let mut excess = _mm512_setzero_si512();
                    for column in 0..C {
                        let part = parts[g][column];
                        if column < WIDE {
                            let above = _mm512_sub_epi32(part, lo[column]);
                            wide = _mm512_mask_cmple_epu32_mask(wide, above, span[column]);
                        } else {
                            let above = _mm512_sub_epi16(part, lo[column]);
                            excess =
                                _mm512_or_si512(excess, _mm512_subs_epu16(above, span[column]));
                        }
                    }
                    let hit = _mm512_mask_testn_epi32_mask(wide, excess, excess);
                    of_block[g] = _mm512_mask_mov_epi32(of_block[g], hit, answer);
                }
            }
            let mut any = 0;
            for g in 0..G {
                found[g] = _mm512_mask_mov_epi32(found[g], open[g], of_block[g]);
                open[g] = _mm512_cmpeq_epi32_mask(found[g], miss);
                any |= open[g];
            }
            if any == 0 {
                break;
            }
        }
        for (found, out) in found.iter_mut().zip(out) {
            if W == 4 {
                // Lane 4j + i of a transposed word has key 4i + j, and the reverse.
                let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
                *found = _mm512_permutexvar_epi32(order, *found);
            }
            let out: *mut Answer = out.as_mut_ptr();
            // SAFETY:
            // - the pointer is valid for writes of 64 bytes: `out` borrows sixteen answers, each a
            //   transparent `u32`;
            // - the store needs no alignment.
            unsafe { _mm512_storeu_si512(out.cast(), *found) }
        }
    }

    /// The columns of keys; those of four words are transposed.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn avx512_parts<const W: usize, const C: usize>(
        columns: &[Column; C],
        keys: &[[u32; W]; GROUP_LEN],
    ) -> [__m512i; C] {
        let mut parts = [_mm512_setzero_si512(); C];
        let four = if W == 4 { avx512_transposed(keys.as_flattened()) } else { [parts[0]; 4] };
        for (part, column) in parts.iter_mut().zip(columns) {
            let words =
                if W == 4 { four[column.word & 3] } else { avx512_words(keys, column.word) };
            *part = _mm512_and_si512(words, _mm512_set1_epi32(column.mask as i32));
        }
        parts
    }

    /// One word of each key.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn avx512_words<const W: usize>(keys: &[[u32; W]; GROUP_LEN], word: usize) -> __m512i {
        let words: [u32; GROUP_LEN] = std::array::from_fn(|lane| keys[lane][word]);
        avx512_load(&words)
    }

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn avx512_load(words: &[u32; GROUP_LEN]) -> __m512i {
        // SAFETY:
        // - the pointer is valid for reads of 64 bytes: `words` borrows sixteen words;
        // - the load needs no alignment.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    /// The four words of sixteen keys of four words, each by key, with key 4i + j in lane 4j + i.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn avx512_transposed(words: &[u32]) -> [__m512i; 4] {
        let (rows, _) = words.as_chunks::<GROUP_LEN>();
        let row = |at: usize| avx512_load(&rows[at]);
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let (low_ab, high_ab) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (low_cd, high_cd) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(low_ab, low_cd),
            _mm512_unpackhi_epi64(low_ab, low_cd),
            _mm512_unpacklo_epi64(high_ab, high_cd),
            _mm512_unpackhi_epi64(high_ab, high_cd),
        ]
    }
}
