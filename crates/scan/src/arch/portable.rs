//! The kernels for any processor. Defines what the others must give.

use crate::filter::tables::{
    BitTable, LONG_STRIDE, Mask, TinyTable, long_bits, long_hash, short_bits, short_hash,
};

pub(super) fn fold(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
    to.make_ascii_lowercase();
}

#[inline(always)]
fn word(text: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(text[at..at + 4].try_into().expect("four bytes"))
}

/// Whether both bits are set.
#[inline(always)]
fn are_set(bits: u32, word: u32) -> u16 {
    u16::from(bits & !word == 0)
}

/// Sixteen answers as bits.
#[inline(always)]
fn mask(answer: impl Fn(usize) -> u16) -> u16 {
    (0..16).fold(0, |mask, idx| mask | answer(idx) << idx)
}

pub(super) fn long(table: &BitTable, text: &[u8], start: usize, masks: &mut [Mask]) {
    for (idx, masks) in masks.as_flattened_mut().iter_mut().enumerate() {
        let text = &text[start + 16 * LONG_STRIDE * idx..][..16 * LONG_STRIDE + 4];
        *masks = mask(|idx| {
            let at = LONG_STRIDE * idx;
            let hash = long_hash(word(text, at), word(text, at + 4));
            are_set(long_bits(hash), table.word(hash))
        });
    }
}

pub(super) fn short(table: &BitTable, text: &[u8], start: usize, masks: &mut [Mask]) {
    for (idx, masks) in masks.as_flattened_mut().as_chunks_mut().0.iter_mut().enumerate() {
        let text = &text[start + 32 * idx..][..36];
        let of = |at: usize| table.word(short_hash(word(text, at) & !0xff));
        let even = mask(|idx| are_set(short_bits(word(text, 2 * idx)), of(2 * idx)));
        let odd = mask(|idx| are_set(short_bits(word(text, 2 * idx + 1)), of(2 * idx)));
        *masks = [even, odd];
    }
}

pub(super) fn tiny(table: &TinyTable, text: &[u8], start: usize, masks: &mut [Mask]) {
    for (idx, masks) in masks.as_flattened_mut().iter_mut().enumerate() {
        let text = &text[start + 16 * idx..][..18];
        *masks = mask(|at| {
            u16::from(table.may_begin(text[at..at + 3].try_into().expect("three bytes")))
        });
    }
}
