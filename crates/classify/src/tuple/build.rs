//! Building a tuple space from a whole rule set: count, check the bound, then fill tables of the
//! right size.

use std::collections::HashMap;

use warpswitch_rules::expand::masked_entries;

use super::{Entry, Table, TupleSpace, losers_bytes, rule_cost};
use crate::index::{Index, TooLarge};
use crate::store::{RuleStore, dearest_rules};

/// What the count found: entries per mask, in the order in which the masks were met.
struct Count<const W: usize> {
    by_mask: HashMap<[u32; W], usize>,
    masks: Vec<([u32; W], usize)>,
}

pub(super) fn build<const W: usize, T: Table<W>>(
    store: &RuleStore,
    bytes_max: usize,
    hash_seed: u64,
) -> Result<TupleSpace<W, T>, TooLarge> {
    let places = store.places_by_precedence();
    let refuse = |bytes| {
        let costs = places.iter().map(|&place| rule_cost(store.rule(place)));
        TooLarge { bytes, rules: dearest_rules(costs) }
    };
    let count = count::<W, T>(store, &places, bytes_max).map_err(refuse)?;
    let bytes = bytes_at_least::<W, T>(&count);
    if bytes > bytes_max {
        return Err(refuse(bytes));
    }
    let mut space = TupleSpace::empty(hash_seed);
    space.tuples.reserve_exact(count.masks.len());
    space.order.reserve_exact(count.masks.len());
    space.free.reserve_exact(count.masks.len());
    space.by_mask.reserve(count.masks.len());
    for &(mask, entries) in &count.masks {
        space.add_tuple(mask, entries);
    }
    drop(count);
    space.rules = places.len();
    for &place in &places {
        let rule = store.rule(place);
        let precedence = rule.precedence();
        for entry in masked_entries(rule.matching) {
            let mask: [u32; W] = std::array::from_fn(|word| entry.mask[word]);
            let value = std::array::from_fn(|word| entry.value[word]);
            let idx = space.by_mask[&mask];
            space.put(idx, &value, precedence);
            let tuple = space.tuple(idx);
            tuple.bound = tuple.bound.min(precedence);
        }
        // Entries with equal values were counted as entries of the table and wait as losers.
        if space.bytes() > bytes_max {
            return Err(refuse(space.bytes()));
        }
    }
    let bounds = space.tuples.iter().zip(0..).map(|(tuple, idx)| {
        let bound = tuple.as_ref().expect("no tuple was removed yet").bound;
        (bound, idx)
    });
    space.order.extend(bounds);
    space.order.sort_unstable();
    Ok(space)
}

/// Counts entries and masks.
///
/// # Errors
/// The bytes needed at least, if they pass the bound. The sum of all entries is known long before
/// they are listed: rules of wide ranges are refused at once.
fn count<const W: usize, T: Table<W>>(
    store: &RuleStore,
    places: &[u32],
    bytes_max: usize,
) -> Result<Count<W>, usize> {
    // An entry that loses to an equal one waits elsewhere, and takes no less there.
    let entry_bytes = size_of::<Entry<W>>().min(losers_bytes::<W>(1));
    let entries: usize = places.iter().map(|&place| rule_cost(store.rule(place)).0).sum();
    if entries * entry_bytes > bytes_max {
        return Err(entries * entry_bytes);
    }
    let mut count = Count::<W> { by_mask: HashMap::new(), masks: Vec::new() };
    for &place in places {
        for entry in masked_entries(store.rule(place).matching) {
            let mask: [u32; W] = std::array::from_fn(|word| entry.mask[word]);
            let masks = &mut count.masks;
            let idx = *count.by_mask.entry(mask).or_insert_with(|| {
                masks.push((mask, 0));
                masks.len() - 1
            });
            masks[idx].1 += 1;
        }
        let bytes = entries * entry_bytes + count.masks.len() * size_of::<T>();
        if bytes > bytes_max {
            return Err(bytes);
        }
    }
    Ok(count)
}

/// Bytes of the finished space, the losers not counted.
fn bytes_at_least<const W: usize, T: Table<W>>(count: &Count<W>) -> usize {
    let tables: usize = count.masks.iter().map(|&(_, entries)| T::bytes_for(entries)).sum();
    tables + TupleSpace::<W, T>::frame_bytes_for(count.masks.len(), count.masks.len())
}
