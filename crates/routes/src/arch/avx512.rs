//! The steps of a lookup for AVX-512: eight addresses at once.
//!
//! # Safety of reading while the writer works
//! Every index comes from an entry, and the writer makes entries for blocks inside the words only.
//! Blocks that an entry leads to do not change, and entries are replaced by stores of whole aligned
//! words: an element of a gather is one access to an aligned word, which the processor does at
//! once. A reader's epoch keeps blocks from being used again while it looks at them.

use std::arch::x86_64::*;
use std::sync::atomic::AtomicU64;

use super::portable;
use crate::hop::NextHop;
use crate::lpm::entry::{COUNTS, Entry, INNER, LEAF};

/// Groups of eight addresses that go through a step together.
const GROUPS: usize = 16;

/// Steps that the first 64 bits of an address are enough for: 16 bits, then six bytes.
const STEPS: usize = 6;

/// Proof that the machine has the instructions used here.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx512 {
    pub(super) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vpopcntdq");
        has.then_some(Self(()))
    }

    pub(super) fn lookup_v4(self, words: &[AtomicU64], addrs: &[u32], out: &mut [NextHop]) {
        let (eights, tail) = addrs.as_chunks::<8>();
        let (out_eights, out_tail) = out[..addrs.len()].as_chunks_mut::<8>();
        // SAFETY: `self` proves that the machine has the features.
        unsafe { lookup_v4(words, eights, out_eights) };
        portable::lookup(words, tail, |addr| u128::from(addr) << 96, out_tail);
    }

    pub(super) fn lookup_v6(self, words: &[AtomicU64], addrs: &[u128], out: &mut [NextHop]) {
        let (eights, tail) = addrs.as_chunks::<8>();
        let (out_eights, out_tail) = out[..addrs.len()].as_chunks_mut::<8>();
        // SAFETY: `self` proves that the machine has the features.
        unsafe { lookup_v6(words, eights, out_eights) };
        portable::lookup(words, tail, |addr| addr, out_tail);
    }
}

/// The words number `index`.
#[inline]
#[target_feature(enable = "avx512f")]
fn gather(words: &[AtomicU64], index: __m512i) -> __m512i {
    // SAFETY: the caller's indices are first entries', of which there are as many as the 16 bits
    // that they were cut to can name, or come from entries; see the head of the file.
    unsafe { _mm512_i64gather_epi64::<8>(index, words.as_ptr().cast()) }
}

/// The words number `index` in the lanes of `mask`, `else_` in the others.
#[inline]
#[target_feature(enable = "avx512f")]
fn gather_some(else_: __m512i, mask: __mmask8, words: &[AtomicU64], index: __m512i) -> __m512i {
    // SAFETY: as in `gather`; lanes outside the mask are not read.
    unsafe { _mm512_mask_i64gather_epi64::<8>(else_, mask, index, words.as_ptr().cast()) }
}

/// Lanes that are no hop yet.
#[inline]
#[target_feature(enable = "avx512f")]
fn active(entries: __m512i) -> __mmask8 {
    _mm512_test_epi64_mask(entries, _mm512_set1_epi64((LEAF | INNER) as i64))
}

/// Where a step finds the slot of each lane, from the top byte of `rest`.
#[derive(Clone, Copy)]
struct Slots {
    /// The index of word 0 of the block.
    at: __m512i,
    slot: __m512i,
    /// Which word of starts has the slot.
    word_idx: __m512i,
}

#[inline]
#[target_feature(enable = "avx512f")]
fn slots(entries: __m512i, rest: __m512i) -> Slots {
    let shift = _mm512_and_si512(_mm512_srli_epi64::<56>(entries), _mm512_set1_epi64(3));
    let slot = _mm512_srlv_epi64(_mm512_srli_epi64::<56>(rest), shift);
    let at = _mm512_and_si512(entries, _mm512_set1_epi64(0xffff_ffff));
    Slots { at, slot, word_idx: _mm512_srli_epi64::<6>(slot) }
}

/// First half of a step: the words of starts. Lanes that are hops read nothing.
#[inline]
#[target_feature(enable = "avx512f")]
fn starts(words: &[AtomicU64], entries: __m512i, rest: __m512i) -> __m512i {
    let Slots { at, word_idx, .. } = slots(entries, rest);
    gather_some(entries, active(entries), words, _mm512_sub_epi64(at, word_idx))
}

/// Second half: what the entries lead to. Hops stay what they are.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
fn values(words: &[AtomicU64], entries: __m512i, rest: __m512i, starts: __m512i) -> __m512i {
    let set = |value: u64| _mm512_set1_epi64(value as i64);
    let Slots { at, slot, word_idx } = slots(entries, rest);
    // The bits up to the slot's own, moved to the top: 63 - slot % 64.
    let up = _mm512_andnot_si512(slot, set(63));
    let here = _mm512_popcnt_epi64(_mm512_sllv_epi64(starts, up));
    let count_at = _mm512_add_epi64(_mm512_slli_epi64::<3>(word_idx), set(24));
    let counts = _mm512_srlv_epi64(_mm512_and_si512(entries, set(COUNTS)), count_at);
    let before = _mm512_and_si512(counts, set(0xff));
    // Less one: runs are counted from 0.
    let run = _mm512_add_epi64(before, _mm512_sub_epi64(here, set(1)));
    let leaf = _mm512_test_epi64_mask(entries, set(LEAF));
    let ahead = _mm512_mask_srli_epi64::<2>(run, leaf, run);
    let value_at = _mm512_add_epi64(_mm512_add_epi64(at, set(1)), ahead);
    let values = gather_some(entries, active(entries), words, value_at);
    let hop_at = _mm512_slli_epi64::<4>(_mm512_and_si512(run, set(3)));
    let hops = _mm512_and_si512(_mm512_srlv_epi64(values, hop_at), set(0xffff));
    _mm512_mask_slli_epi64::<32>(values, leaf, hops)
}

/// What a batch needs on its way.
struct Batch {
    entries: [__m512i; GROUPS],
    rest: [__m512i; GROUPS],
    starts: [__m512i; GROUPS],
}

impl Batch {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        let zeros = [_mm512_setzero_si512(); GROUPS];
        Self { entries: zeros, rest: zeros, starts: zeros }
    }

    /// Looks up the first entry of group `idx`, whose addresses begin with the 64 bits `bits`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn start(&mut self, words: &[AtomicU64], idx: usize, bits: __m512i) {
        self.entries[idx] = gather(words, _mm512_srli_epi64::<48>(bits));
        self.rest[idx] = _mm512_slli_epi64::<16>(bits);
    }

    /// One step of the first `groups` groups. Each half is a loop of its own: the loads of a loop
    /// wait for nothing in it, so as many of them are under way as the core has room for.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
    fn step(&mut self, words: &[AtomicU64], groups: usize) {
        for idx in 0..groups {
            self.starts[idx] = starts(words, self.entries[idx], self.rest[idx]);
        }
        for idx in 0..groups {
            let (entries, rest) = (self.entries[idx], self.rest[idx]);
            self.entries[idx] = values(words, entries, rest, self.starts[idx]);
            self.rest[idx] = _mm512_slli_epi64::<8>(rest);
        }
    }

    /// A bit for each address that is not at a hop yet.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn left(&self, groups: usize) -> u128 {
        let masks = self.entries[..groups].iter().rev();
        masks.fold(0, |left, entries| left << 8 | u128::from(active(*entries)))
    }
}

/// Writes the hops of eight entries.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn store_hops(out: &mut [NextHop; 8], entries: __m512i) {
    let hops = _mm512_cvtepi64_epi16(_mm512_srli_epi64::<32>(entries));
    // SAFETY: `NextHop` is a `u16` in memory, and eight of them are the 16 bytes written.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), hops) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
fn lookup_v4(words: &[AtomicU64], addrs: &[[u32; 8]], out: &mut [[NextHop; 8]]) {
    let mut batch = Batch::new();
    for (addrs, out) in addrs.chunks(GROUPS).zip(out.chunks_mut(GROUPS)) {
        let groups = addrs.len();
        for (idx, addrs) in addrs.iter().enumerate() {
            // SAFETY: the array has the 32 bytes that are read.
            let addrs = unsafe { _mm256_loadu_si256(addrs.as_ptr().cast()) };
            let bits = _mm512_slli_epi64::<32>(_mm512_cvtepu32_epi64(addrs));
            batch.start(words, idx, bits);
        }
        batch.step(words, groups);
        for (entries, out) in batch.entries.iter().zip(out.iter_mut()) {
            store_hops(out, *entries);
        }
        let left = batch.left(groups);
        if left != 0 {
            finish_v4(words, addrs, &batch.entries, left, out);
        }
    }
}

/// Takes the third and the fourth step of the addresses that `left` has a bit for. Few need one:
/// a branch for them among the others would be foretold wrongly once or twice in a batch.
#[target_feature(enable = "avx512f")]
fn finish_v4(
    words: &[AtomicU64],
    addrs: &[[u32; 8]],
    entries: &[__m512i; GROUPS],
    mut left: u128,
    out: &mut [[NextHop; 8]],
) {
    while left != 0 {
        let (group, lane) =
            (left.trailing_zeros() as usize / 8, left.trailing_zeros() as usize % 8);
        left &= left - 1;
        let mut lanes = [0u64; 8];
        // SAFETY: the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), entries[group]) };
        let entry = Entry(lanes[lane]);
        out[group][lane] = portable::walk(words, entry, u128::from(addrs[group][lane]) << 120);
    }
}

/// The first 64 bits of eight addresses, in their order.
#[inline]
#[target_feature(enable = "avx512f")]
fn high_halves(addrs: &[u128; 8]) -> __m512i {
    let (low, high) = addrs.split_at(4);
    // SAFETY: four addresses are the 64 bytes that are read.
    let low = unsafe { _mm512_loadu_si512(low.as_ptr().cast()) };
    // SAFETY: as above.
    let high = unsafe { _mm512_loadu_si512(high.as_ptr().cast()) };
    // A number's high half comes second in memory.
    let odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    _mm512_permutex2var_epi64(low, odd, high)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
fn lookup_v6(words: &[AtomicU64], addrs: &[[u128; 8]], out: &mut [[NextHop; 8]]) {
    let mut batch = Batch::new();
    for (addrs, out) in addrs.chunks(GROUPS).zip(out.chunks_mut(GROUPS)) {
        let groups = addrs.len();
        for (idx, addrs) in addrs.iter().enumerate() {
            batch.start(words, idx, high_halves(addrs));
        }
        for _ in 0..STEPS {
            if batch.left(groups) == 0 {
                break;
            }
            batch.step(words, groups);
        }
        for (entries, out) in batch.entries.iter().zip(out.iter_mut()) {
            store_hops(out, *entries);
        }
        if batch.left(groups) != 0 {
            look_deeper(words, addrs, out);
        }
    }
}

/// Answers addresses for which 64 bits were not enough; few tables have such routes at all.
#[cold]
fn look_deeper(words: &[AtomicU64], addrs: &[[u128; 8]], out: &mut [[NextHop; 8]]) {
    for (addrs, out) in addrs.iter().zip(out) {
        portable::lookup(words, addrs, |addr| addr, out);
    }
}
