//! The steps in plain code: what every other form must equal.

use std::sync::atomic::{AtomicU32, Ordering};

use warpswitch_rules::{Precedence, RuleId};

use super::{All, Answers, BATCH_LEN_MAX, Column, HashTable, List, Scratch, View};
use super::{filter_bit, is_small, leaf_rows, offset};
use crate::turbo::leaf::{self, ID_WORD, Layout, SPANS_AT, lane_row};
use crate::turbo::rows::RowFormat;

pub(super) fn columns<const W: usize>(keys: &[[u32; W]], columns: &mut [Column; 16]) {
    assert!(keys.len() <= BATCH_LEN_MAX, "{} keys in a batch", keys.len());
    for (word, column) in columns[..W].iter_mut().enumerate() {
        for (slot, key) in column.iter_mut().zip(keys) {
            *slot = key[word];
        }
    }
}

pub(super) fn hash_step<const W: usize>(
    view: View<'_>,
    table: &HashTable,
    keys: &[[u32; W]],
    scratch: &mut Scratch,
) {
    let Scratch { orders, smalls, others, .. } = scratch;
    let (mut smalls, mut others) = (smalls.appender(), others.appender());
    let span = view.small_leaf.span();
    for (idx, key) in keys.iter().enumerate() {
        let hash = view.multipliers.hash(key, &table.masks);
        let at = table.at + 2 * (hash >> table.shift) as usize;
        let reference = view.words[at].load(Ordering::Acquire);
        let tag = view.words[at + 1].load(Ordering::Acquire);
        let visit = tag >> (16 + filter_bit(hash)) & 1 != 0 && tag & 0xffff <= orders[idx];
        let small = is_small(reference, span);
        smalls.push_if(visit & small, reference, idx as u32);
        others.push_if(visit & !small, reference, idx as u32);
    }
}

/// The bits of `key` under the masks of a cut, packed: the index of its entry.
fn cut_index<const W: usize>(masks: &[u32; W], key: &[u32; W]) -> usize {
    let (mut index, mut filled) = (0, 0);
    for (word, mask) in key.iter().zip(masks) {
        let mut left = *mask;
        while left != 0 {
            let bit = left.trailing_zeros();
            index |= ((word >> bit & 1) as usize) << filled;
            filled += 1;
            left &= left - 1;
        }
    }
    index
}

/// The masks of the cut at word `at`.
#[inline(always)]
pub(super) fn cut_masks<const W: usize>(words: &[AtomicU32], at: usize) -> [u32; W] {
    let block: &[AtomicU32; W] = words[at..].first_chunk().expect("a cut starts with its masks");
    block.each_ref().map(|word| word.load(Ordering::Relaxed))
}

pub(super) fn cut_all<const W: usize>(all: &All<'_, W>, keys: &[[u32; W]], scratch: &mut Scratch) {
    let Scratch { orders, smalls, others, .. } = scratch;
    let (mut smalls, mut others) = (smalls.appender(), others.appender());
    for ((idx, key), order) in keys.iter().enumerate().zip(orders) {
        let next = all.entries[cut_index(&all.masks, key)].load(Ordering::Acquire);
        let visit = all.order_min <= *order;
        let small = is_small(next, all.small_span);
        smalls.push_if(visit & small, next, idx as u32);
        others.push_if(visit & !small, next, idx as u32);
    }
}

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

pub(super) fn scan<const W: usize>(
    view: View<'_>,
    keys: &[[u32; W]],
    list: &List,
    answers: &mut Answers<'_>,
) {
    for (reference, idx) in list.pairs() {
        let (at, rows) = leaf_rows(view.words, reference, Layout::Columns.header());
        let leaf = &view.words[at..at + rows * view.format.columns()];
        let hit = (0..rows).find(|row| row_matches(view.format, leaf, rows, *row, &keys[idx]));
        let found = hit.map(|row| precedence(view.format, leaf, rows, row));
        match answers {
            Answers::Only(out) => out[idx] = found.map_or(RuleId::NONE, Precedence::id),
            Answers::Best { best, .. } => {
                best[idx] = found.map_or(best[idx], |found| best[idx].min(found.0));
            }
        }
    }
}

/// Compares every key of the list with its leaf, which is in lanes; the rule found is the answer.
pub(super) fn scan_lanes(view: View<'_>, keys: &[[u32; 4]], list: &List, out: &mut [RuleId]) {
    for (reference, idx) in list.pairs() {
        let (at, rows) = leaf_rows(view.words, reference, Layout::Lanes.header());
        let word =
            |row: usize, n: usize| view.words[at + lane_row(row) + n].load(Ordering::Relaxed);
        let inside = |row: usize, n: usize| {
            let (key, least, span) = (keys[idx][n], word(row, n), word(row, SPANS_AT + n));
            let lane = |shift: u32| {
                let above = ((key >> shift) as u16).wrapping_sub((least >> shift) as u16);
                above <= (span >> shift) as u16
            };
            lane(16) && (n == ID_WORD || lane(0))
        };
        let hit = (0..rows).find(|&row| (0..4).all(|n| inside(row, n)));
        out[idx] = hit.map_or(RuleId::NONE, |row| RuleId(leaf::id(&view.words[at..], row)));
    }
}

/// The precedence of row `row` of a leaf of `rows` rules.
fn precedence(format: &RowFormat, leaf: &[AtomicU32], rows: usize, row: usize) -> Precedence {
    let column = |c: usize| leaf[c * rows + row].load(Ordering::Relaxed);
    let priority = format.priority(column);
    Precedence::new(priority, RuleId(column(format.id_column())))
}

fn row_matches<const W: usize>(
    format: &RowFormat,
    leaf: &[AtomicU32],
    rows: usize,
    row: usize,
    key: &[u32; W],
) -> bool {
    let column = |c: usize| leaf[c * rows + row].load(Ordering::Relaxed);
    let ports = key[format.ports_word];
    let inside = |lo: u32, hi: u32, port: u32| lo <= port && port <= hi;
    let in_ranges = |lo: u32, hi: u32| {
        inside(lo >> 16, hi >> 16, ports >> 16) && inside(lo & 0xffff, hi & 0xffff, ports & 0xffff)
    };
    match &format.masked {
        None => {
            let shifts = column(4);
            let agrees = |word: usize, shift: u32| {
                (key[word] ^ column(word)).checked_shr(shift).unwrap_or(0) == 0
            };
            let proto = (key[3] >> 24 ^ shifts >> 8) & shifts >> 16 & 0xff;
            agrees(0, shifts >> 24)
                && agrees(1, shifts & 0xff)
                && proto == 0
                && in_ranges(column(2), column(3))
        }
        Some(words) => {
            let mut pairs = words.iter().enumerate();
            pairs.all(|(pair, &word)| key[word] & column(2 * pair + 1) == column(2 * pair))
                && in_ranges(column(2 * words.len()), column(2 * words.len() + 1))
        }
    }
}
