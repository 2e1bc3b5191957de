//! Cut steps with BMI2: the bits under a mask are packed by one instruction for each two words.

use std::arch::x86_64::_pext_u64;
use std::sync::atomic::Ordering;

use super::super::portable::cut_masks;
use super::super::{All, List, Scratch, View, is_small, offset};

/// Two words as one, the lower first.
#[inline(always)]
fn pair(words: &[u32], at: usize) -> u64 {
    u64::from(words[at]) | u64::from(words[at + 1]) << 32
}

/// The bits of `key` under `masks`, packed.
#[inline]
#[target_feature(enable = "bmi1,bmi2,popcnt")]
pub(super) fn cut_index<const W: usize>(masks: &[u32; W], key: &[u32; W]) -> usize {
    let (mut index, mut filled) = (0, 0);
    for at in (0..W).step_by(2) {
        let mask = pair(masks, at);
        index |= _pext_u64(pair(key, at), mask) << (filled & 63);
        filled += mask.count_ones();
    }
    index as usize
}

#[target_feature(enable = "bmi1,bmi2,popcnt")]
pub(super) fn cut_all<const W: usize, const ORDERED: bool>(
    all: &All<'_, W>,
    keys: &[[u32; W]],
    scratch: &mut Scratch,
) {
    let Scratch { orders, smalls, others, .. } = scratch;
    let (mut smalls, mut others) = (smalls.appender(), others.appender());
    for ((idx, key), order) in keys.iter().enumerate().zip(orders) {
        let next = all.entries[cut_index(&all.masks, key)].load(Ordering::Acquire);
        let visit = !ORDERED | (all.order_min <= *order);
        let small = is_small(next, all.small_span);
        smalls.push_if(visit & small, next, idx as u32);
        others.push_if(visit & !small, next, idx as u32);
    }
}

#[target_feature(enable = "bmi1,bmi2,popcnt")]
pub(super) fn cut_step<const W: usize>(
    view: View<'_>,
    keys: &[[u32; W]],
    cuts: &List,
    smalls: &mut List,
    others: &mut List,
) {
    let (mut smalls, mut others) = (smalls.appender(), others.appender());
    let span = view.small_leaf.span();
    for (reference, idx) in cuts.pairs() {
        let masks = cut_masks::<W>(view.words, offset(reference));
        let entry = offset(reference) + W + cut_index(&masks, &keys[idx]);
        let next = view.words[entry].load(Ordering::Acquire);
        let small = is_small(next, span);
        smalls.push_if(small, next, idx as u32);
        others.push_if(!small, next, idx as u32);
    }
}
