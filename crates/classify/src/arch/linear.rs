//! The scan of `linear-simd`: one key against blocks of sixteen rules.
//!
//! One algorithm in three forms: portable, AVX2 (two vectors a row) and AVX-512 (one). Each gives
//! the position of the first rule that matches. The portable form is the definition.

/// Rules in a block.
pub(crate) const ROW_LEN: usize = 16;

/// One number of each of a block's rules.
pub(crate) type Row = [u32; ROW_LEN];

/// Which rows a block has, and in which order: value and mask of each used word; then, if ranges
/// are used, lowest and highest source port, lowest and highest destination port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Words of the key that are compared: an even number, as they are compared in pairs.
    pub(crate) words: Vec<usize>,
    /// The word that holds both ports, `l4_src` in the upper half.
    pub(crate) ports_word: usize,
    /// Whether the four rows of port bounds are there.
    pub(crate) ranges: bool,
}

impl Layout {
    pub(crate) fn rows_per_block(&self) -> usize {
        2 * self.words.len() + if self.ranges { 4 } else { 0 }
    }
}

/// The instructions that a scan uses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scanner {
    /// Whatever the target of the build has.
    Portable,
    /// 256-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx2(x86_64::Avx2),
    /// 512-bit vectors and mask registers.
    #[cfg(target_arch = "x86_64")]
    Avx512(x86_64::Avx512),
}

impl Scanner {
    /// Every scanner that this machine can run, the best last.
    pub(crate) fn available() -> Vec<Self> {
        let mut scanners = vec![Scanner::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            scanners.extend(x86_64::Avx2::new().map(Scanner::Avx2));
            scanners.extend(x86_64::Avx512::new().map(Scanner::Avx512));
        }
        scanners
    }

    /// The best scanner that this machine can run.
    pub(crate) fn best() -> Self {
        Self::available().pop().unwrap_or(Scanner::Portable)
    }

    /// Width of its vectors; 0 for the portable form.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Scanner::Portable => 0,
            #[cfg(target_arch = "x86_64")]
            Scanner::Avx2(_) => 256,
            #[cfg(target_arch = "x86_64")]
            Scanner::Avx512(_) => 512,
        }
    }

    /// Position of the first rule that `key` matches. `rows` is a whole number of blocks.
    ///
    /// # Panics
    /// If the key is shorter than the layout's words: a bug of the index.
    #[inline]
    pub(crate) fn first_match(self, layout: &Layout, rows: &[Row], key: &[u32]) -> Option<usize> {
        match self {
            Scanner::Portable => portable_first_match(layout, rows, key),
            #[cfg(target_arch = "x86_64")]
            Scanner::Avx2(avx2) => avx2.first_match(layout, rows, key),
            #[cfg(target_arch = "x86_64")]
            Scanner::Avx512(avx512) => avx512.first_match(layout, rows, key),
        }
    }
}

fn portable_first_match(layout: &Layout, rows: &[Row], key: &[u32]) -> Option<usize> {
    let ports = key[layout.ports_word];
    for (block, rows) in rows.chunks_exact(layout.rows_per_block()).enumerate() {
        let (words, bounds) = rows.split_at(2 * layout.words.len());
        let mut hit = [u32::MAX; ROW_LEN];
        for (&word, pair) in layout.words.iter().zip(words.as_chunks::<2>().0) {
            let [value, mask] = pair;
            for lane in 0..ROW_LEN {
                let equal = key[word] & mask[lane] == value[lane];
                hit[lane] &= u32::from(equal).wrapping_neg();
            }
        }
        for (port, pair) in [ports >> 16, ports & 0xffff].into_iter().zip(bounds.as_chunks::<2>().0)
        {
            let [lo, hi] = pair;
            for lane in 0..ROW_LEN {
                let inside = (lo[lane] <= port) & (port <= hi[lane]);
                hit[lane] &= u32::from(inside).wrapping_neg();
            }
        }
        if let Some(lane) = hit.iter().position(|&hit| hit != 0) {
            return Some(block * ROW_LEN + lane);
        }
    }
    None
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64 {
    //! The same with AVX2 and AVX-512. A value of [`Avx2`] or [`Avx512`] is the proof that the
    //! machine has the instructions.

    use std::arch::x86_64::*;

    use warpswitch_rules::schema::WORDS_MAX;

    use super::{Layout, ROW_LEN, Row};

    /// Proof that AVX2 is there.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Avx2(());

    /// Proof that AVX-512 F is there.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Avx512(());

    impl Avx2 {
        /// Whether this machine has the instructions.
        pub(crate) fn is_available() -> bool {
            is_x86_feature_detected!("avx2")
        }

        /// The scanner, if [`Avx2::is_available`].
        pub(crate) fn new() -> Option<Self> {
            Self::is_available().then_some(Self(()))
        }

        /// [`super::Scanner::first_match`].
        pub(crate) fn first_match(
            self,
            layout: &Layout,
            rows: &[Row],
            key: &[u32],
        ) -> Option<usize> {
            // SAFETY: the target features of the callee (avx2) are there: `self` exists only if
            // `is_available` said so.
            unsafe { avx2_first_match(layout, rows, key) }
        }
    }

    impl Avx512 {
        /// Whether this machine has the instructions.
        pub(crate) fn is_available() -> bool {
            is_x86_feature_detected!("avx512f")
        }

        /// The scanner, if [`Avx512::is_available`].
        pub(crate) fn new() -> Option<Self> {
            Self::is_available().then_some(Self(()))
        }

        /// [`super::Scanner::first_match`].
        pub(crate) fn first_match(
            self,
            layout: &Layout,
            rows: &[Row],
            key: &[u32],
        ) -> Option<usize> {
            // SAFETY: the target features of the callee (avx512f) are there: `self` exists only
            // if `is_available` said so.
            unsafe { avx512_first_match(layout, rows, key) }
        }
    }

    #[target_feature(enable = "avx2")]
    fn avx2_first_match(layout: &Layout, rows: &[Row], key: &[u32]) -> Option<usize> {
        let ports = key[layout.ports_word];
        let ports = [ports >> 16, ports & 0xffff].map(|port| _mm256_set1_epi32(port as i32));
        let mut spread = [_mm256_setzero_si256(); WORDS_MAX];
        for (spread, &word) in spread.iter_mut().zip(&layout.words) {
            *spread = _mm256_set1_epi32(key[word] as i32);
        }
        let spread = spread[..layout.words.len()].as_chunks::<2>().0;
        'blocks: for (block, rows) in rows.chunks_exact(layout.rows_per_block()).enumerate() {
            let (words, bounds) = rows.split_at(2 * layout.words.len());
            let mut hit = [_mm256_set1_epi32(-1); 2];
            for (keys, rows) in spread.iter().zip(words.as_chunks::<4>().0) {
                for (half, hit) in hit.iter_mut().enumerate() {
                    for (key, [value, mask]) in keys.iter().zip(rows.as_chunks::<2>().0) {
                        let masked = _mm256_and_si256(*key, load_half(mask, half));
                        let equal = _mm256_cmpeq_epi32(masked, load_half(value, half));
                        *hit = _mm256_and_si256(*hit, equal);
                    }
                }
                let any = _mm256_or_si256(hit[0], hit[1]);
                if _mm256_testz_si256(any, any) != 0 {
                    continue 'blocks;
                }
            }
            for (port, [lo, hi]) in ports.into_iter().zip(bounds.as_chunks::<2>().0) {
                for (half, hit) in hit.iter_mut().enumerate() {
                    // Ports have 16 bits, so signed comparison orders them.
                    let below = _mm256_cmpgt_epi32(load_half(lo, half), port);
                    let above = _mm256_cmpgt_epi32(port, load_half(hi, half));
                    let outside = _mm256_or_si256(below, above);
                    *hit = _mm256_andnot_si256(outside, *hit);
                }
            }
            let [low, high] = hit.map(|half| _mm256_movemask_ps(_mm256_castsi256_ps(half)) as u32);
            let bits = low | high << 8;
            if bits != 0 {
                return Some(block * ROW_LEN + bits.trailing_zeros() as usize);
            }
        }
        None
    }

    #[target_feature(enable = "avx2")]
    fn load_half(row: &Row, half: usize) -> __m256i {
        let half: &[u32; ROW_LEN / 2] = &row.as_chunks().0[half];
        // SAFETY:
        // - the pointer is valid for reads of 32 bytes: `half` borrows eight words;
        // - the load needs no alignment.
        unsafe { _mm256_loadu_si256(half.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f")]
    fn avx512_first_match(layout: &Layout, rows: &[Row], key: &[u32]) -> Option<usize> {
        let ports = key[layout.ports_word];
        let ports = [ports >> 16, ports & 0xffff].map(|port| _mm512_set1_epi32(port as i32));
        let mut spread = [_mm512_setzero_si512(); WORDS_MAX];
        for (spread, &word) in spread.iter_mut().zip(&layout.words) {
            *spread = _mm512_set1_epi32(key[word] as i32);
        }
        let spread = spread[..layout.words.len()].as_chunks::<2>().0;
        'blocks: for (block, rows) in rows.chunks_exact(layout.rows_per_block()).enumerate() {
            let (words, bounds) = rows.split_at(2 * layout.words.len());
            let mut hit: __mmask16 = !0;
            for (keys, rows) in spread.iter().zip(words.as_chunks::<4>().0) {
                for (key, [value, mask]) in keys.iter().zip(rows.as_chunks::<2>().0) {
                    let masked = _mm512_and_si512(*key, load(mask));
                    hit = _mm512_mask_cmpeq_epi32_mask(hit, masked, load(value));
                }
                if hit == 0 {
                    continue 'blocks;
                }
            }
            for (port, [lo, hi]) in ports.into_iter().zip(bounds.as_chunks::<2>().0) {
                hit = _mm512_mask_cmple_epu32_mask(hit, load(lo), port);
                hit = _mm512_mask_cmple_epu32_mask(hit, port, load(hi));
            }
            if hit != 0 {
                return Some(block * ROW_LEN + hit.trailing_zeros() as usize);
            }
        }
        None
    }

    #[target_feature(enable = "avx512f")]
    fn load(row: &Row) -> __m512i {
        // SAFETY:
        // - the pointer is valid for reads of 64 bytes: `row` borrows sixteen words;
        // - the load needs no alignment.
        unsafe { _mm512_loadu_si512(row.as_ptr().cast()) }
    }
}
