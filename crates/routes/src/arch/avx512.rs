//! The steps of a lookup for AVX-512: sixteen addresses at once.
//!
//! # Safety of reading while the writer works
//! Every index comes from an entry, and the writer makes entries for blocks inside the words only.
//! Blocks that an entry leads to do not change, and entries are replaced by stores of whole aligned
//! words: an element of a gather is one access to an aligned word, which the processor does at
//! once. A reader's epoch keeps blocks from being used again while it looks at them. A load of a
//! hop may take bytes behind it that the writer is filling, and one of a cache line those of other
//! lists in it; they are masked off.

use std::arch::x86_64::*;
use std::sync::atomic::AtomicU32;

use super::dir24::GROUP;
use super::{dir24, portable};
use crate::hop::NextHop;
use crate::lpm::dir24::{BELOW, Dir24, Table};
use crate::lpm::entry::{
    DEEP, DIRECT, FLAT_ROTATION, FORM_AT, INNER, Image, LEAF, LINE_WORDS, LIST, NO_BYTE, PLACE,
    deep_hop, direct_words, hop_size, list_starts, list_values_at,
};

/// Groups of sixteen addresses that go through a step together.
const GROUPS: usize = 8;

/// So many addresses of a batch with routes longer than 48 bits are looked up together, fewer one
/// by one.
const DEEP_MIN: u32 = 8;

/// More addresses than so many of eight groups, whose routes are longer than 24 bits, are looked up
/// together: a router with few routes has its own addresses in every network.
const DEEP_LANES_MAX: u32 = 16;

/// Proof that the machine has the instructions used here.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx512 {
    pub(super) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vpopcntdq")
            && is_x86_feature_detected!("popcnt");
        has.then_some(Self(()))
    }

    /// By the table of the first 24 bits.
    pub(super) fn lookup_dir24(
        self,
        table: &Dir24,
        image: &Image,
        addrs: &[u32],
        out: &mut [NextHop],
    ) {
        // SAFETY: `self` proves that the machine has the features.
        unsafe { lookup_dir24(self, table, image, addrs, out) };
    }

    pub(super) fn lookup_v4(self, image: &Image, addrs: &[u32], out: &mut [NextHop]) {
        let (rows, tail) = addrs.as_chunks::<16>();
        let (out_rows, out_tail) = out[..addrs.len()].as_chunks_mut::<16>();
        if image.is_narrow {
            // SAFETY: `self` proves that the machine has the features.
            unsafe { lookup_v4::<true>(image, rows, out_rows) };
        } else {
            // SAFETY: as above.
            unsafe { lookup_v4::<false>(image, rows, out_rows) };
        }
        portable::lookup(image, tail, |addr| u128::from(addr) << 96, out_tail);
    }

    pub(super) fn lookup_v6(self, image: &Image, addrs: &[u128], out: &mut [NextHop]) {
        let (rows, tail) = addrs.as_chunks::<16>();
        let (out_rows, out_tail) = out[..addrs.len()].as_chunks_mut::<16>();
        if image.is_narrow {
            // SAFETY: `self` proves that the machine has the features.
            unsafe { lookup_v6::<true>(image, rows, out_rows) };
        } else {
            // SAFETY: as above.
            unsafe { lookup_v6::<false>(image, rows, out_rows) };
        }
        portable::lookup(image, tail, |addr| addr, out_tail);
    }
}

/// `value` in every lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn set(value: u32) -> __m512i {
    _mm512_set1_epi32(value as i32)
}

/// The four bytes at `SCALE * index` in the lanes of `mask`, `else_` in the others.
#[inline]
#[target_feature(enable = "avx512f")]
fn gather<const SCALE: i32>(
    else_: __m512i,
    mask: __mmask16,
    words: &[AtomicU32],
    index: __m512i,
) -> __m512i {
    // SAFETY: the indices come from entries, or are those of first entries, which all numbers of
    // 16 bits have; see the head of the file. Lanes outside the mask are not read.
    unsafe { _mm512_mask_i32gather_epi32::<SCALE>(else_, mask, index, words.as_ptr().cast()) }
}

/// The pairs of words number `index` in the lanes of `mask`: their first and their second words.
#[inline]
#[target_feature(enable = "avx512f")]
fn gather_pairs(mask: __mmask16, words: &[AtomicU32], index: __m512i) -> (__m512i, __m512i) {
    let zero = _mm512_setzero_si512();
    let (low, high) = (_mm512_castsi512_si256(index), _mm512_extracti64x4_epi64::<1>(index));
    let (low_mask, high_mask) = (mask as __mmask8, (mask >> 8) as __mmask8);
    let first = words.as_ptr().cast();
    // SAFETY: as in `gather`.
    let low = unsafe { _mm512_mask_i32gather_epi64::<8>(zero, low_mask, low, first) };
    // SAFETY: as in `gather`.
    let high = unsafe { _mm512_mask_i32gather_epi64::<8>(zero, high_mask, high, first) };
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    (_mm512_permutex2var_epi32(low, even, high), _mm512_permutex2var_epi32(low, odd, high))
}

/// First half of a step by `bytes`: where the values stand, in the lanes of `mask`. `INNERS` says
/// whether entries of inner blocks may be among these.
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn values_at<const NARROW: bool, const INNERS: bool>(
    words: &[AtomicU32],
    entries: __m512i,
    bytes: __m512i,
    mask: __mmask16,
) -> __m512i {
    let direct = are(entries, DIRECT);
    let shift = _mm512_and_si512(_mm512_srli_epi32::<28>(entries), set(3));
    let slots = _mm512_srlv_epi32(bytes, shift);
    let place = _mm512_and_si512(entries, set(PLACE));
    let pair = _mm512_add_epi32(place, _mm512_srli_epi32::<5>(slots));
    let (starts, bases) = gather_pairs(mask & !direct, words, pair);
    // The bits up to the slot's own, moved to the top: 31 - slot % 32.
    let up = _mm512_andnot_si512(slots, set(31));
    let here = _mm512_popcnt_epi32(_mm512_sllv_epi32(starts, up));
    // A direct block has its first value in its first word.
    let first = _mm512_mask_slli_epi32::<3>(bases, direct, place);
    let mut ahead = _mm512_mask_mov_epi32(here, direct, bytes);
    if !NARROW {
        ahead = _mm512_slli_epi32::<1>(ahead);
    }
    if INNERS {
        // Entries have four bytes: four times as many as a hop, or twice.
        let inner = are(entries, INNER);
        ahead = if NARROW {
            _mm512_mask_slli_epi32::<2>(ahead, inner, ahead)
        } else {
            _mm512_mask_slli_epi32::<1>(ahead, inner, ahead)
        };
    }
    _mm512_add_epi32(first, ahead)
}

/// Lanes whose entry has one of the bits `kinds`.
#[inline]
#[target_feature(enable = "avx512f")]
fn are(entries: __m512i, kinds: u32) -> __mmask16 {
    _mm512_test_epi32_mask(entries, set(kinds))
}

/// Second half of a step: the values at bytes `at`, in the lanes of `mask`, of which those of
/// `leaf` are hops. The other lanes stay what they are.
#[inline]
#[target_feature(enable = "avx512f")]
fn values<const NARROW: bool>(
    words: &[AtomicU32],
    entries: __m512i,
    at: __m512i,
    mask: __mmask16,
    leaf: __mmask16,
) -> __m512i {
    let found = gather::<1>(entries, mask, words, at);
    if NARROW {
        let hops = _mm512_mask_and_epi32(found, leaf, found, set(0xff));
        let none = _mm512_mask_cmpeq_epi32_mask(leaf, hops, set(u32::from(NO_BYTE)));
        _mm512_mask_mov_epi32(hops, none, set(0xffff))
    } else {
        _mm512_mask_and_epi32(found, leaf, found, set(0xffff))
    }
}

/// Writes the hops of sixteen entries.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn store_hops(out: &mut [NextHop; 16], entries: __m512i) {
    let hops = _mm512_cvtepi32_epi16(entries);
    // SAFETY: `NextHop` is a `u16` in memory, and sixteen of them are the 32 bytes written.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), hops) };
}

/// Sixteen words.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(from: &[u32; 16]) -> __m512i {
    // SAFETY: the array has the 64 bytes that are read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt")]
fn lookup_dir24(avx512: Avx512, table: &Dir24, image: &Image, addrs: &[u32], out: &mut [NextHop]) {
    let look = |table: &_, addrs: &_, out: &mut _| look_dir24(table, addrs, out);
    dir24::lookup((table, image), addrs, out, look, |addrs, out| {
        avx512.lookup_v4(image, addrs, out)
    });
}

/// Looks up a group by the first 24 bits; the lanes whose addresses have longer prefixes.
///
/// Bytes go into registers: a row of them in memory, written byte by byte, could be read as a
/// vector only once all have been written, which is when the slowest load of the group is done.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn look_dir24(table: &Table, addrs: &[u32; GROUP], out: &mut [NextHop; GROUP]) -> u64 {
    let (rows, _) = addrs.as_chunks::<16>();
    let (low, high) = (
        _mm256_set_m128i(sixteen_bytes(table, &rows[1]), sixteen_bytes(table, &rows[0])),
        _mm256_set_m128i(sixteen_bytes(table, &rows[3]), sixteen_bytes(table, &rows[2])),
    );
    let bytes = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
    let none = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(NO_BYTE as i8));
    let (out, _) = out.as_chunks_mut::<32>();
    store_bytes(&mut out[0], low, none as u32);
    store_bytes(&mut out[1], high, (none >> 32) as u32);
    _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(BELOW as i8))
}

/// What is known of the first 24 bits of sixteen addresses.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn sixteen_bytes(table: &Table, addrs: &[u32; 16]) -> __m128i {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] =
        addrs.map(|addr| dir24::byte(table, addr) as i8);
    _mm_setr_epi8(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
}

/// Writes the hops of 32 bytes, of which those of `none` are none.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn store_bytes(out: &mut [NextHop; 32], bytes: __m256i, none: u32) {
    let hops = _mm512_mask_set1_epi16(_mm512_cvtepu8_epi16(bytes), none, -1);
    // SAFETY: `NextHop` is a `u16` in memory, and 32 of them are the 64 bytes written.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), hops) };
}

/// Each loop's loads wait for nothing in it, so as many of them are under way as the core has room
/// for.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,popcnt")]
fn lookup_v4<const NARROW: bool>(image: &Image, addrs: &[[u32; 16]], out: &mut [[NextHop; 16]]) {
    let words = &*image.words;
    let zero = _mm512_setzero_si512();
    let (mut firsts, mut at) = ([zero; GROUPS], [zero; GROUPS]);
    for (addrs, out) in addrs.chunks(GROUPS).zip(out.chunks_mut(GROUPS)) {
        for (first, addrs) in firsts.iter_mut().zip(addrs) {
            prefetch_next(addrs);
            *first = gather::<4>(zero, !0, words, _mm512_srli_epi32::<16>(load(addrs)));
        }
        for ((first, at), addrs) in firsts.iter().zip(&mut at).zip(addrs) {
            let bytes = _mm512_and_si512(_mm512_srli_epi32::<8>(load(addrs)), set(0xff));
            *at = values_at::<NARROW, false>(words, *first, bytes, are(*first, LEAF));
        }
        let mut inner = 0u128;
        for (idx, ((first, at), out)) in firsts.iter().zip(&at).zip(out.iter_mut()).enumerate() {
            let leaf = are(*first, LEAF);
            store_hops(out, values::<NARROW>(words, *first, *at, leaf, leaf));
            inner |= u128::from(are(*first, INNER)) << (16 * idx);
        }
        look_inner::<NARROW>(image, &firsts, addrs, inner, out);
    }
}

/// Answers the addresses of `inner`, those of all groups, whose first entries lead to inner blocks:
/// IPv4 has no flat tables.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,popcnt")]
fn look_inner<const NARROW: bool>(
    image: &Image,
    firsts: &[__m512i; GROUPS],
    addrs: &[[u32; 16]],
    mut inner: u128,
    out: &mut [[NextHop; 16]],
) {
    if inner.count_ones() > DEEP_LANES_MAX {
        for ((first, addrs), out) in firsts.iter().zip(addrs).zip(out) {
            look_deep::<NARROW>(&image.words, *first, load(addrs), are(*first, INNER), out);
        }
        return;
    }
    // Few addresses have longer prefixes below their first three bytes: a branch for them among the
    // others would be foretold wrongly once or twice in a batch.
    while inner != 0 {
        let (row, lane) =
            (inner.trailing_zeros() as usize / 16, inner.trailing_zeros() as usize % 16);
        inner &= inner - 1;
        out[row][lane] = portable::lookup_one_v4(image, addrs[row][lane]);
    }
}

/// Whether a load for each address is faster than a gather for sixteen: AMD's processors up to
/// Zen 5 take long for these, and read their third-level cache quickly. See `docs/routes.md`.
pub(super) fn gathers_are_slow() -> bool {
    let vendor = __cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
}

/// Asks for the sixteen addresses that stand `GROUPS` groups further on: those of the next batch of
/// loops, or what follows the caller's addresses, where a caller that goes through many goes on.
#[inline]
#[target_feature(enable = "avx512f")]
fn prefetch_next<A>(addrs: &[A; 16]) {
    let next = addrs.as_ptr().wrapping_add(16 * GROUPS).cast::<i8>();
    for line in 0..size_of::<[A; 16]>() / 64 {
        _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(64 * line));
    }
}

/// Answers the addresses of `lanes`, whose first entries lead to inner blocks: by their third byte,
/// then by their fourth.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
fn look_deep<const NARROW: bool>(
    words: &[AtomicU32],
    firsts: __m512i,
    addrs: __m512i,
    lanes: __mmask16,
    out: &mut [NextHop; 16],
) {
    let mut entries = _mm512_maskz_mov_epi32(lanes, firsts);
    for bytes in [_mm512_srli_epi32::<8>(addrs), addrs] {
        let bytes = _mm512_and_si512(bytes, set(0xff));
        let left = are(entries, LEAF | INNER);
        let at = values_at::<NARROW, true>(words, entries, bytes, left);
        entries = values::<NARROW>(words, entries, at, left, are(entries, LEAF));
    }
    let hops = _mm512_cvtepi32_epi16(entries);
    // SAFETY: `NextHop` is a `u16` in memory, and sixteen of them are the 32 bytes written.
    unsafe { _mm256_mask_storeu_epi16(out.as_mut_ptr().cast(), lanes, hops) };
}

/// The first and the second 32 bits of sixteen addresses.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn first_words(addrs: &[u128; 16]) -> [__m512i; 2] {
    let (fours, _) = addrs.as_chunks::<4>();
    let row = |idx: usize| {
        let four: &[u128; 4] = &fours[idx];
        // SAFETY: four addresses are the 64 bytes that are read.
        unsafe { _mm512_loadu_si512(four.as_ptr().cast()) }
    };
    let rows = [row(0), row(1), row(2), row(3)];
    // A number's first word comes last in memory.
    let pick = |word: i32| {
        let idx = |at: i32| 4 * at + word;
        let order = _mm512_setr_epi32(
            idx(0),
            idx(1),
            idx(2),
            idx(3),
            idx(4),
            idx(5),
            idx(6),
            idx(7),
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        );
        let low = _mm512_permutex2var_epi32(rows[0], order, rows[1]);
        let high = _mm512_permutex2var_epi32(rows[2], order, rows[3]);
        _mm512_inserti64x4::<1>(low, _mm512_castsi512_si256(high))
    };
    [pick(3), pick(2)]
}

/// Sixteen numbers, as a vector and one by one.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Row([u32; 16]);

impl Row {
    const ZERO: Self = Self([0; 16]);

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn set(&mut self, value: __m512i) {
        // SAFETY: the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(self.0.as_mut_ptr().cast(), value) };
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn get(&self) -> __m512i {
        load(&self.0)
    }
}

/// Of each form of leaf, the halfwords that are starts, as bits; with hops of 16 bits and of 8.
const STARTS: [[u32; 4]; 2] = {
    let mut starts = [[0; 4]; 2];
    let mut form = 0;
    while form < 4 {
        starts[0][form] = (1 << list_starts(form as u32, false)) - 1;
        starts[1][form] = (1 << list_starts(form as u32, true)) - 1;
        form += 1;
    }
    starts
};

/// The same for where the values begin, in bytes.
const VALUES_AT: [[u32; 4]; 2] = {
    let mut values_at = [[0; 4]; 2];
    let mut form = 0;
    while form < 4 {
        values_at[0][form] = list_values_at(form as u32, false) as u32;
        values_at[1][form] = list_values_at(form as u32, true) as u32;
        form += 1;
    }
    values_at
};

/// What is known by form, for the upper four bits of an entry: nothing without [`LEAF`], the second
/// of these, and [`DEEP`], the third, does not matter.
const fn by_kind(by_form: [u32; 4]) -> [u32; 16] {
    let mut by_kind = [0; 16];
    let mut kind = 8;
    while kind < 16 {
        by_kind[kind] = by_form[kind % 4];
        kind += 1;
    }
    by_kind
}

/// Where sixteen addresses find their values by bits 32 to 47.
#[derive(Clone, Copy)]
struct Leaves {
    /// The keys to compare with the starts of a list, twice each.
    keys: Row,
    /// A bit for each halfword of the value's cache line that is a start of the list; none if there
    /// is no list.
    starts: Row,
    /// Where the value stands, in bytes, or the first one of a list; if there is no leaf, in the
    /// last line, which nobody writes.
    at: Row,
}

impl Leaves {
    const ZERO: Self = Self { keys: Row::ZERO, starts: Row::ZERO, at: Row::ZERO };

    /// Of `entries`, those of the first 32 bits; `bits` are the second 32. Entries of tables are
    /// replaced by what they lead to.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn find<const NARROW: bool>(
        &mut self,
        words: &[AtomicU32],
        entries: &mut __m512i,
        bits: __m512i,
    ) {
        let (both, first) = (_mm512_srli_epi32::<16>(bits), _mm512_srli_epi32::<24>(bits));
        let second = _mm512_and_si512(both, set(0xff));
        let tables = are(*entries, INNER);
        let table = _mm512_slli_epi32::<1>(_mm512_and_si512(*entries, set(PLACE)));
        *entries = gather::<4>(*entries, tables, words, _mm512_add_epi32(table, first));
        let leaf = are(*entries, LEAF);
        let place = _mm512_and_si512(*entries, set(PLACE));
        let nowhere = set((4 * (words.len() - LINE_WORDS)) as u32);
        let mut ahead = _mm512_mask_mov_epi32(first, tables, second);
        if !NARROW {
            ahead = _mm512_slli_epi32::<1>(ahead);
        }
        // Four bits: whether it is a leaf, a deep one, and its form.
        let kind = _mm512_srli_epi32::<FORM_AT>(*entries);
        let list = are(*entries, LIST);
        let values_at =
            _mm512_permutexvar_epi32(kind, load(&const { by_kind(VALUES_AT[NARROW as usize]) }));
        ahead = _mm512_mask_mov_epi32(ahead, list, values_at);
        let at = _mm512_add_epi32(_mm512_slli_epi32::<3>(place), ahead);
        let starts =
            _mm512_permutexvar_epi32(kind, load(&const { by_kind(STARTS[NARROW as usize]) }));
        // A line has eight places of eight bytes; a halfword is a fourth of one.
        let halfwords = _mm512_slli_epi32::<2>(_mm512_and_si512(*entries, set(7)));
        let keys = _mm512_mask_mov_epi32(both, tables, second);
        self.keys.set(_mm512_or_si512(keys, _mm512_slli_epi32::<16>(keys)));
        self.starts.set(_mm512_sllv_epi32(starts, halfwords));
        self.at.set(_mm512_mask_mov_epi32(nowhere, leaf, at));
    }

    /// The values.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,popcnt")]
    fn values<const NARROW: bool>(&self, words: &[AtomicU32], values: &mut Row) {
        let first = words.as_ptr();
        for (lane, value) in values.0.iter_mut().enumerate() {
            let at = self.at.0[lane] as usize;
            // SAFETY: entries lead into the words, as does what stands for none; these begin with a
            // cache line and are whole ones.
            let line = unsafe { first.byte_add(at & !(4 * LINE_WORDS - 1)) };
            // SAFETY: the line has the 64 bytes that are read; see the head of the file.
            let line = unsafe { _mm512_loadu_si512(line.cast()) };
            let key = set(self.keys.0[lane]);
            let before = _mm512_cmplt_epu16_mask(line, key) & self.starts.0[lane];
            let ahead = before.count_ones() << hop_size(NARROW);
            // SAFETY: a leaf has a value for each run and each slot.
            let at = unsafe { first.byte_add(at + ahead as usize) };
            *value = if NARROW {
                // SAFETY: as above; it does not change.
                u32::from(unsafe { at.cast::<u8>().read() })
            } else {
                // SAFETY: as above; values of 16 bits are aligned.
                u32::from(unsafe { at.cast::<u16>().read() })
            };
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,popcnt")]
fn lookup_v6<const NARROW: bool>(image: &Image, addrs: &[[u128; 16]], out: &mut [[NextHop; 16]]) {
    let words = &*image.words;
    let zero = _mm512_setzero_si512();
    let mut entries = [zero; GROUPS];
    let mut bits = [[zero; 2]; GROUPS];
    let mut leaves = [Leaves::ZERO; GROUPS];
    let mut found = [Row::ZERO; GROUPS];
    for (addrs, out) in addrs.chunks(GROUPS).zip(out.chunks_mut(GROUPS)) {
        let groups = addrs.len();
        for ((entries, bits), addrs) in entries.iter_mut().zip(&mut bits).zip(addrs) {
            prefetch_next(addrs);
            *bits = first_words(addrs);
            *entries = gather::<4>(zero, !0, words, _mm512_srli_epi32::<16>(bits[0]));
        }
        // Random addresses seldom lead beyond their first entries, hardly ever to leaves; and where
        // gathers are slow, those of no lane are as well.
        for (entries, bits) in entries.iter_mut().zip(&bits).take(groups) {
            if are(*entries, LEAF | INNER) != 0 {
                *entries = second_16::<NARROW>(words, *entries, bits[0]);
            }
        }
        for ((entries, bits), leaves) in entries.iter_mut().zip(&bits).zip(&mut leaves).take(groups)
        {
            if are(*entries, LEAF | INNER) != 0 {
                leaves.find::<NARROW>(words, entries, bits[1]);
            }
        }
        for ((leaves, found), entries) in leaves.iter().zip(&mut found).zip(&entries).take(groups) {
            if are(*entries, LEAF) != 0 {
                leaves.values::<NARROW>(words, found);
            }
        }
        let mut deep = 0u128;
        for (idx, ((entries, found), out)) in
            entries.iter().zip(&found).zip(out.iter_mut()).enumerate()
        {
            let found = found.get();
            let leaf = are(*entries, LEAF);
            let is_deep = set(u32::from(deep_hop(NARROW)));
            let below = _mm512_mask_cmpeq_epi32_mask(leaf & are(*entries, DEEP), found, is_deep);
            deep |= u128::from(below) << (16 * idx);
            let mut hops = _mm512_mask_mov_epi32(*entries, leaf, found);
            if NARROW {
                let none = _mm512_mask_cmpeq_epi32_mask(leaf, found, set(u32::from(NO_BYTE)));
                hops = _mm512_mask_mov_epi32(hops, none, set(0xffff));
            }
            store_hops(out, hops);
        }
        if deep.count_ones() >= DEEP_MIN {
            look_deeper::<NARROW>(image, addrs, &bits, &entries, deep, out);
            continue;
        }
        while deep != 0 {
            let (row, lane) =
                (deep.trailing_zeros() as usize / 16, deep.trailing_zeros() as usize % 16);
            deep &= deep - 1;
            out[row][lane] = portable::lookup_one(image, addrs[row][lane]);
        }
    }
}

/// Answers the addresses of `deep`, whose leaves are among `entries`, from byte 5 on.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,popcnt")]
fn look_deeper<const NARROW: bool>(
    image: &Image,
    addrs: &[[u128; 16]],
    bits: &[[__m512i; 2]; GROUPS],
    leaves: &[__m512i; GROUPS],
    deep: u128,
    out: &mut [[NextHop; 16]],
) {
    let words = &*image.words;
    let zero = _mm512_setzero_si512();
    let (mut entries, mut at) = ([zero; GROUPS], [zero; GROUPS]);
    for (idx, (entries, leaves)) in entries.iter_mut().zip(leaves).enumerate() {
        let mask = (deep >> (16 * idx)) as u16;
        let direct = set(direct_words(NARROW) as u32);
        let behind = _mm512_mask_mov_epi32(direct, are(*leaves, LIST), set(LINE_WORDS as u32));
        let leaf = _mm512_slli_epi32::<1>(_mm512_and_si512(*leaves, set(PLACE)));
        *entries = gather::<4>(zero, mask, words, _mm512_add_epi32(leaf, behind));
    }
    for down in [16, 8, 0] {
        for ((entries, bits), at) in entries.iter().zip(bits).zip(&mut at) {
            let bytes = _mm512_and_si512(_mm512_srlv_epi32(bits[1], set(down)), set(0xff));
            *at = values_at::<NARROW, true>(words, *entries, bytes, are(*entries, LEAF | INNER));
        }
        for (entries, at) in entries.iter_mut().zip(&at) {
            let (mask, leaf) = (are(*entries, LEAF | INNER), are(*entries, LEAF));
            *entries = values::<NARROW>(words, *entries, *at, mask, leaf);
        }
    }
    for (idx, (entries, (addrs, out))) in entries.iter().zip(addrs.iter().zip(out)).enumerate() {
        let mask = (deep >> (16 * idx)) as u16;
        let left = are(*entries, LEAF | INNER);
        let mut hops = Row::ZERO;
        hops.set(*entries);
        for lane in (0..16).filter(|lane| mask >> lane & 1 != 0) {
            // Few tables have routes longer than 64 bits in number.
            out[lane] = if left >> lane & 1 != 0 {
                portable::lookup_one(image, addrs[lane])
            } else {
                NextHop(hops.0[lane] as u16)
            };
        }
    }
}

/// What first entries lead to by the second 16 of `bits`: one load in flat tables, two steps
/// elsewhere.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
fn second_16<const NARROW: bool>(words: &[AtomicU32], firsts: __m512i, bits: __m512i) -> __m512i {
    let flat = are(firsts, LEAF) & are(firsts, INNER);
    let table = _mm512_slli_epi32::<1>(_mm512_and_si512(firsts, set(PLACE)));
    let low = _mm512_srli_epi32::<FLAT_ROTATION>(_mm512_and_si512(bits, set(0xffff)));
    let high = _mm512_slli_epi32::<{ 16 - FLAT_ROTATION }>(bits);
    // Of `high` what is below bit 16: (low | high) & 0xffff.
    let idx = _mm512_ternarylogic_epi32::<0xa8>(low, high, set(0xffff));
    let at = _mm512_add_epi32(table, idx);
    let found = gather::<4>(firsts, flat, words, at);
    let others = are(firsts, LEAF | INNER) & !flat;
    // Rare in tables of the Internet; without a flat table at all, always.
    if others == 0 {
        return found;
    }
    let mut entries = _mm512_maskz_mov_epi32(others, firsts);
    for bytes in [_mm512_srli_epi32::<8>(bits), bits] {
        let bytes = _mm512_and_si512(bytes, set(0xff));
        let left = are(entries, LEAF | INNER);
        let at = values_at::<NARROW, true>(words, entries, bytes, left);
        entries = values::<NARROW>(words, entries, at, left, are(entries, LEAF));
    }
    _mm512_mask_mov_epi32(found, others, entries)
}
