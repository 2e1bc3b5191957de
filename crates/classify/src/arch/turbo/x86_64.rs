//! The steps for AVX2 with BMI2, and for AVX-512.

use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU32, Ordering};

use warpswitch_rules::{Precedence, RuleId};

use super::portable::cut_masks;
use super::{All, BATCH_LEN_MAX, CUT_FLAG, Column, HashTable, List, Scratch, View};
use super::{leaf_rows, offset};

/// Proof that the machine has BMI2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bmi2(());

/// Proof that the machine has AVX2 and BMI2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(Bmi2);

/// Proof that the machine has AVX-512 F, BW, DQ and VL, and BMI2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(Bmi2);

impl Bmi2 {
    fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        has.then_some(Self(()))
    }

    pub(super) fn cut_all<const W: usize>(
        self,
        all: &All<'_, W>,
        keys: &[[u32; W]],
        scratch: &mut Scratch,
    ) {
        if all.order_min > 0 {
            // SAFETY: `self` proves that the machine has BMI2.
            unsafe { cut_all::<W, true>(all, keys, scratch) }
        } else {
            // SAFETY: `self` proves that the machine has BMI2.
            unsafe { cut_all::<W, false>(all, keys, scratch) }
        }
    }

    pub(super) fn cut_step<const W: usize>(
        self,
        view: View<'_>,
        keys: &[[u32; W]],
        cuts: &List,
        next: &mut List,
        leaves: &mut List,
    ) {
        // SAFETY: `self` proves that the machine has BMI2.
        unsafe { cut_step(view, keys, cuts, next, leaves) }
    }
}

impl Avx2 {
    pub(super) fn new() -> Option<Self> {
        is_x86_feature_detected!("avx2").then(Bmi2::new).flatten().map(Self)
    }

    pub(super) fn bits(self) -> Bmi2 {
        self.0
    }

    pub(super) fn scan_step<const W: usize>(
        self,
        view: View<'_>,
        keys: &[[u32; W]],
        leaves: &List,
        best: &mut [u64; BATCH_LEN_MAX],
    ) {
        // SAFETY: `self` proves that the machine has AVX2.
        unsafe { avx2::scan_step(view, keys, leaves, best) }
    }
}

impl Avx512 {
    pub(super) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        has.then(Bmi2::new).flatten().map(Self)
    }

    pub(super) fn bits(self) -> Bmi2 {
        self.0
    }

    pub(super) fn columns(self, keys: &[u32], columns: &mut [Column; 16]) {
        // SAFETY: `self` proves that the machine has the features.
        unsafe { avx512_columns(keys, columns) }
    }

    pub(super) fn hash_step(
        self,
        view: View<'_>,
        table: &HashTable,
        keys: usize,
        scratch: &mut Scratch,
    ) {
        // SAFETY: `self` proves that the machine has the features.
        unsafe { avx512_hash_step(view, table, keys, scratch) }
    }

    pub(super) fn scan_step<const W: usize>(
        self,
        view: View<'_>,
        keys: &[[u32; W]],
        leaves: &List,
        best: &mut [u64; BATCH_LEN_MAX],
    ) {
        // SAFETY: `self` proves that the machine has the features.
        unsafe { avx512::scan_step(view, keys, leaves, best) }
    }
}

/// Two words as one, the lower first.
#[inline(always)]
fn pair(words: &[u32], at: usize) -> u64 {
    u64::from(words[at]) | u64::from(words[at + 1]) << 32
}

/// The bits of `key` under `masks`, packed.
#[inline]
#[target_feature(enable = "bmi1,bmi2,popcnt")]
fn cut_index<const W: usize>(masks: &[u32; W], key: &[u32; W]) -> usize {
    let (mut index, mut filled) = (0, 0);
    for at in (0..W).step_by(2) {
        let mask = pair(masks, at);
        index |= _pext_u64(pair(key, at), mask) << (filled & 63);
        filled += mask.count_ones();
    }
    index as usize
}

#[target_feature(enable = "bmi1,bmi2,popcnt")]
fn cut_all<const W: usize, const ORDERED: bool>(
    all: &All<'_, W>,
    keys: &[[u32; W]],
    scratch: &mut Scratch,
) {
    let Scratch { orders, cuts: [cuts, _], leaves, .. } = scratch;
    let (mut cuts, mut leaves) = (cuts.appender(), leaves.appender());
    for ((idx, key), order) in keys.iter().enumerate().zip(orders) {
        let next = all.entries[cut_index(&all.masks, key)].load(Ordering::Acquire);
        let visit = !ORDERED | (all.order_min <= *order);
        let cut = next & CUT_FLAG != 0;
        leaves.push_if(visit & !cut, next, idx as u32);
        cuts.push_if(visit & cut, next, idx as u32);
    }
}

#[target_feature(enable = "bmi1,bmi2,popcnt")]
fn cut_step<const W: usize>(
    view: View<'_>,
    keys: &[[u32; W]],
    cuts: &List,
    next: &mut List,
    leaves: &mut List,
) {
    let (mut next, mut leaves) = (next.appender(), leaves.appender());
    for (reference, idx) in cuts.pairs() {
        let masks = cut_masks::<W>(view.words, offset(reference));
        let entry = offset(reference) + W + cut_index(&masks, &keys[idx]);
        let found = view.words[entry].load(Ordering::Acquire);
        let cut = found & CUT_FLAG != 0;
        leaves.push_if(!cut, found, idx as u32);
        next.push_if(cut, found, idx as u32);
    }
}

/// How far ahead of the scan a leaf is fetched.
const PREFETCH_AHEAD: usize = 8;

/// The pairs of `leaves`, each after a later one's leaf has been asked for.
#[inline(always)]
fn ahead<'a>(words: &'a [AtomicU32], leaves: &'a List) -> impl Iterator<Item = (u32, usize)> + 'a {
    // Past the end lie references of former lists: fetched for nothing, rarely.
    let later = &leaves.references[PREFETCH_AHEAD..][..BATCH_LEN_MAX];
    leaves.pairs().zip(later).map(|(pair, &later)| {
        prefetch(words, later);
        pair
    })
}

/// Asks for the first lines of a leaf: all of a leaf of ten prefix rows.
#[inline(always)]
fn prefetch(words: &[AtomicU32], reference: u32) {
    for line in 0..3 {
        let at = words.as_ptr().wrapping_add(offset(reference) + 16 * line);
        // SAFETY: a prefetch reads nothing; any address is allowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
}

/// A leaf: its columns and, by the layout of [`super::View::words`], at least
/// [`super::SLACK_WORDS`] words more.
#[derive(Clone, Copy)]
struct Leaf {
    first: *const u32,
    rows: usize,
}

impl Leaf {
    #[inline(always)]
    fn new(words: &[AtomicU32], reference: u32) -> Self {
        let (at, rows) = leaf_rows(words, reference);
        debug_assert!(rows > 0 && at + rows + super::SLACK_WORDS <= words.len());
        Self { first: words.as_ptr().wrapping_add(at).cast(), rows }
    }

    /// Where `row` of `column` lies.
    #[inline(always)]
    fn at(self, column: usize, row: usize) -> *const u32 {
        self.first.wrapping_add(column * self.rows + row)
    }

    /// The precedence of `row`, whose id is in column `ids`.
    #[inline(always)]
    fn precedence(self, ids: usize, one_priority: Option<u32>, row: usize) -> u64 {
        // SAFETY: `ids` is a column, and `row` one of its rows or less than sixteen past them.
        let id = RuleId(unsafe { self.at(ids, row).read() });
        let priority = match one_priority {
            Some(priority) => priority,
            // SAFETY: as above; there is a column of priorities behind that of ids.
            None => unsafe { self.at(ids + 1, row).read() },
        };
        Precedence::new(priority, id).0
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
     $zeros:expr) => {
        mod $name {
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

            /// Bit `r` is set if row `row + r` of the leaf matches.
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
            fn masked_hits(
                leaf: Leaf,
                row: usize,
                words: &[usize],
                key: &[u32],
                ports: u32,
            ) -> u32 {
                let ports = $splat(ports as i32);
                let (lo, hi) = (2 * words.len(), 2 * words.len() + 1);
                let clamped = $max($min(ports, load(leaf, hi, row)), load(leaf, lo, row));
                let mut differs = $xor(clamped, ports);
                for (pair, &word) in words.iter().enumerate() {
                    let under = $and($splat(key[word] as i32), load(leaf, 2 * pair + 1, row));
                    differs = $or(differs, $xor(under, load(leaf, 2 * pair, row)));
                }
                $zeros(differs)
            }

            /// The precedence of the first row of the leaf for which `hits` tells a match;
            /// `u64::MAX` if none does. `hits(row)` has a bit for each row from `row` on.
            #[inline]
            #[target_feature(enable = $features)]
            fn first_match(
                leaf: Leaf,
                ids: usize,
                one_priority: Option<u32>,
                hits: impl Fn(usize) -> u32,
            ) -> u64 {
                let mut row = 0;
                while leaf.rows - row > $lanes {
                    let found = hits(row);
                    if found != 0 {
                        return leaf.precedence(ids, one_priority, row + first(found));
                    }
                    row += $lanes;
                }
                // The usual leaf comes straight here, and there is no branch on the outcome:
                // without a hit the word after the last lane is read and dropped.
                let found = _bzhi_u32(hits(row), (leaf.rows - row) as u32);
                let lane = first(found | 1 << ($lanes - 1));
                let precedence = leaf.precedence(ids, one_priority, row + lane);
                if found == 0 { u64::MAX } else { precedence }
            }

            #[target_feature(enable = $features)]
            fn scan_prefix<const PRIORITIES: bool>(
                view: View<'_>,
                keys: &[[u32; 4]],
                leaves: &List,
                best: &mut [u64; BATCH_LEN_MAX],
            ) {
                let one_priority = if PRIORITIES { None } else { view.format.one_priority };
                for (reference, idx) in ahead(view.words, leaves) {
                    let leaf = Leaf::new(view.words, reference);
                    let key = &keys[idx];
                    let found =
                        first_match(leaf, 5, one_priority, |row| prefix_hits(leaf, row, key));
                    let best = &mut best[idx % BATCH_LEN_MAX];
                    *best = found.min(*best);
                }
            }

            #[target_feature(enable = $features)]
            fn scan_masked<const W: usize>(
                view: View<'_>,
                words: &[usize],
                keys: &[[u32; W]],
                leaves: &List,
                best: &mut [u64; BATCH_LEN_MAX],
            ) {
                let ids = view.format.id_column();
                for (reference, idx) in ahead(view.words, leaves) {
                    let leaf = Leaf::new(view.words, reference);
                    let key = &keys[idx];
                    let ports = key[view.format.ports_word];
                    let found = first_match(leaf, ids, view.format.one_priority, |row| {
                        masked_hits(leaf, row, words, key, ports)
                    });
                    let best = &mut best[idx % BATCH_LEN_MAX];
                    *best = found.min(*best);
                }
            }

            #[target_feature(enable = $features)]
            pub(super) fn scan_step<const W: usize>(
                view: View<'_>,
                keys: &[[u32; W]],
                leaves: &List,
                best: &mut [u64; BATCH_LEN_MAX],
            ) {
                match &view.format.masked {
                    Some(words) => scan_masked(view, words, keys, leaves, best),
                    None => {
                        // The format is that of four-word keys.
                        let (keys, _) = keys.as_flattened().as_chunks::<4>();
                        if view.format.one_priority.is_some() {
                            scan_prefix::<false>(view, keys, leaves, best);
                        } else {
                            scan_prefix::<true>(view, keys, leaves, best);
                        }
                    }
                }
            }
        }
    };
}

/// Which of eight words are zero.
#[inline]
#[target_feature(enable = "avx2")]
fn zeros_256(words: __m256i) -> u32 {
    let zero = _mm256_cmpeq_epi32(words, _mm256_setzero_si256());
    _mm256_movemask_ps(_mm256_castsi256_ps(zero)) as u32
}

/// Which of sixteen words are zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn zeros_512(words: __m512i) -> u32 {
    u32::from(_mm512_testn_epi32_mask(words, words))
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
    _mm256_srlv_epi32,
    _mm256_srli_epi32,
    _mm256_min_epu16,
    _mm256_max_epu16,
    zeros_256
);
scan!(
    avx512,
    "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,popcnt",
    __m512i,
    16,
    _mm512_loadu_si512,
    _mm512_set1_epi32,
    _mm512_xor_si512,
    _mm512_and_si512,
    _mm512_or_si512,
    _mm512_srlv_epi32,
    _mm512_srli_epi32,
    _mm512_min_epu16,
    _mm512_max_epu16,
    zeros_512
);

/// Sixteen words of `from`.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_512(from: &[u32; 16]) -> __m512i {
    // SAFETY: the array has the 64 bytes that are read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

/// Stores sixteen words to `to`.
#[inline]
#[target_feature(enable = "avx512f")]
fn store_512(to: &mut [u32; 16], words: __m512i) {
    // SAFETY: the array has the 64 bytes that are written.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), words) }
}

/// Sixteen words of `list` from `at` on.
#[inline(always)]
fn sixteen(list: &mut [u32], at: usize) -> &mut [u32; 16] {
    list[at..].first_chunk_mut().expect("lists have room for one vector more")
}

#[target_feature(enable = "avx512f")]
fn avx512_columns(keys: &[u32], columns: &mut [Column; 16]) {
    // Lane l of row r holds key 4r + l; after the 4 x 4 transposition inside lanes, word r of lane l
    // must go to place 4r + l.
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
fn append(list: &mut List, keep: __mmask16, references: __m512i, keys: __m512i) {
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
    // SAFETY: the caller's `table` holds two words for each index that the shift of a hash can give.
    // An entry may be under change: each of its halves is then the old or the new one, and either
    // mixture leads to the rules before or after the change.
    let low = unsafe { _mm512_i32gather_epi64::<8>(low, base) };
    // SAFETY: as above.
    let high = unsafe { _mm512_i32gather_epi64::<8>(high, base) };
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    (_mm512_permutex2var_epi32(low, even, high), _mm512_permutex2var_epi32(low, odd, high))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt")]
fn avx512_hash_step(view: View<'_>, table: &HashTable, keys: usize, scratch: &mut Scratch) {
    assert!((1..32).contains(&table.shift) && keys <= BATCH_LEN_MAX);
    let entries_len = 1usize << (32 - table.shift);
    let slots = &view.words[table.at..][..2 * entries_len];
    let shift = _mm_cvtsi32_si128(table.shift as i32);
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let Scratch { columns, orders, cuts: [cuts, _], leaves, .. } = scratch;
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
        let cut = visit & _mm512_movepi32_mask(references);
        let idx = _mm512_add_epi32(lanes, _mm512_set1_epi32(at as i32));
        append(leaves, visit & !cut, references, idx);
        if cut != 0 {
            append(cuts, cut, references, idx);
        }
    }
}

const _: () = assert!(CUT_FLAG == 1 << 31, "the sign bit tells cuts from leaves");
