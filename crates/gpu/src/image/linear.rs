//! `linear`: every rule in turn, in order of rank; the first that matches wins.

use warpswitch_classify::Detail;
use warpswitch_classify::parts::TooLarge;

use super::{Built, Draft, Image, Rules, abi, rows};
use crate::kernels::KernelShape;

pub(super) fn build(
    rules: &Rules<'_>,
    shape: &KernelShape,
    bytes_max: usize,
) -> Result<Built, TooLarge> {
    let row_words = abi::row_words(shape.words, shape.compact);
    let words = rules.rules.len().saturating_mul(row_words);
    if words.saturating_mul(4) > bytes_max {
        return Err(rules.too_large(words.saturating_mul(4)));
    }
    let mut list = vec![0; words];
    for (rank, (row, rule)) in list.chunks_exact_mut(row_words).zip(&rules.rules).enumerate() {
        rows::write(shape, rule, rank as u32, row);
    }
    let mut draft = Draft::default();
    draft.part(abi::LINEAR_ROWS, &list);
    let details = vec![Detail { name: "row_bytes", value: (row_words * 4) as f64 }];
    Ok(Built { draft, details, shared_words: 0, live: None })
}

pub(super) fn lookup(image: &Image, key: &[u32]) -> u32 {
    first_match(image, 0..image.numbers[abi::RULES] as usize, key)
}

/// The first of `ranks` whose row matches.
pub(super) fn first_match(
    image: &Image,
    mut ranks: impl Iterator<Item = usize>,
    key: &[u32],
) -> u32 {
    let shape = image.shape();
    let row_words = abi::row_words(shape.words, shape.compact);
    let rows = image.part(abi::LINEAR_ROWS);
    let row = |rank: usize| &rows[rank * row_words..][..row_words];
    let found = ranks.find(|&rank| rows::matches(shape, row(rank), key));
    found.map_or(abi::NONE, |rank| rank as u32)
}
