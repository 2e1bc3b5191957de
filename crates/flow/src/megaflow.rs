//! The wildcard cache: traversals by the bits that any of their tables examined.
//!
//! ```text
//! key ─┬─ & union[0] ─► table[0] ─┐
//!      └─ & union[m] ─► table[m] ─┴─► the first hit ─► steps
//! ```
//! Any hit is right, because a traversal holds for all keys that agree in its examined bits. So
//! unions are probed in any order: those that were hit most come first, counted anew every
//! `SORT_INTERVAL` lookups.
//!
//! # Bounds
//! A lookup probes at most `masks_max` tables: a traversal that needs a further union is not kept,
//! so traffic chosen to make many unions cannot make lookups slow. Entries are bounded too; a full
//! cache forgets one that was not used since the hand of a clock passed it.

use std::collections::HashMap;

use hashbrown::HashTable;
use warpswitch_rules::openflow::FlowKey;

use crate::flow_hash::{FlowHash, MaskedWords, is_packed, masked_words, pack};
use crate::traversal::{Step, Traversal, TraversalCache};

/// Lookups between two orderings of the unions.
const SORT_INTERVAL: u32 = 1 << 16;

#[derive(Debug)]
struct Entry {
    union: u32,
    shape: u32,
    is_used: bool,
    values: Box<[u32]>,
    steps: Box<[Step]>,
}

/// The entries of one union of examined bits.
#[derive(Debug)]
struct Union {
    mask: FlowKey,
    words: MaskedWords,
    /// Places of entries.
    places: HashTable<u32>,
    hits: u64,
}

/// What a cache may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MegaflowOptions {
    /// The most entries.
    pub entries_max: usize,
    /// The most unions of examined bits.
    pub masks_max: usize,
    /// Seed of the hash.
    pub seed: u64,
}

/// A cache by examined bits.
#[derive(Debug)]
pub struct MegaflowCache {
    options: MegaflowOptions,
    hash: FlowHash,
    version: u64,
    entries: Vec<Entry>,
    /// Those with entries, in the order of probing.
    unions: Vec<Union>,
    by_mask: HashMap<FlowKey, u32>,
    /// The next entry that may go.
    hand: usize,
    lookups_left: u32,
    refused: u64,
}

impl MegaflowCache {
    /// An empty cache.
    pub fn new(options: MegaflowOptions) -> Self {
        Self {
            options,
            hash: FlowHash::new(options.seed),
            version: 0,
            entries: Vec::new(),
            unions: Vec::new(),
            by_mask: HashMap::new(),
            hand: 0,
            lookups_left: SORT_INTERVAL,
            refused: 0,
        }
    }

    /// Unions of examined bits.
    pub fn masks(&self) -> usize {
        self.unions.len()
    }

    /// Traversals that would have needed a union too many.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.unions.clear();
        self.by_mask.clear();
        self.hand = 0;
    }

    /// Orders the unions by hits, and halves their hit counts, so that recent hits weigh more.
    fn sort(&mut self) {
        let mut order: Vec<u32> = (0..self.unions.len() as u32).collect();
        order.sort_by_key(|&union| std::cmp::Reverse(self.unions[union as usize].hits));
        let mut new_place = vec![0; order.len()];
        for (place, &union) in order.iter().enumerate() {
            new_place[union as usize] = place as u32;
        }
        self.unions.sort_by_key(|union| std::cmp::Reverse(union.hits));
        for union in &mut self.unions {
            union.hits /= 2;
        }
        for entry in &mut self.entries {
            entry.union = new_place[entry.union as usize];
        }
        for place in self.by_mask.values_mut() {
            *place = new_place[*place as usize];
        }
    }

    /// The union of these bits, made if there is room.
    fn union_of(&mut self, mask: &FlowKey) -> Option<u32> {
        if let Some(&union) = self.by_mask.get(mask) {
            return Some(union);
        }
        let words = masked_words(mask);
        let new = Union { mask: *mask, words, places: HashTable::new(), hits: 0 };
        let place = if self.unions.len() < self.options.masks_max {
            self.unions.push(new);
            self.unions.len() - 1
        } else {
            let place = self.unions.iter().position(|union| union.places.is_empty())?;
            let old = std::mem::replace(&mut self.unions[place], new);
            self.by_mask.remove(&old.mask);
            place
        };
        self.by_mask.insert(*mask, place as u32);
        Some(place as u32)
    }

    /// Empties a place of a full cache.
    fn evict(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &mut self.entries[place];
            if !std::mem::take(&mut entry.is_used) {
                self.detach(place);
                return place;
            }
        }
    }

    /// Takes an entry out of its union, which stays even if it is empty, until its place is needed:
    /// its bits are likely to be examined again.
    fn detach(&mut self, place: usize) {
        let entry = &self.entries[place];
        let union = &mut self.unions[entry.union as usize];
        let hash = self.hash.hash_packed(&union.words, &entry.values, entry.shape);
        if let Ok(found) = union.places.find_entry(hash, |&other| other as usize == place) {
            found.remove();
        }
    }
}

impl TraversalCache for MegaflowCache {
    #[inline]
    fn lookup(&mut self, version: u64, key: &FlowKey, shape: u32) -> Option<&[Step]> {
        if version != self.version {
            self.clear();
            self.version = version;
        }
        self.lookups_left -= 1;
        if self.lookups_left == 0 {
            self.lookups_left = SORT_INTERVAL;
            self.sort();
        }
        for union in &mut self.unions {
            let hash = self.hash.hash(&union.words, key, shape);
            let is_it = |&place: &u32| {
                let entry = &self.entries[place as usize];
                entry.shape == shape && is_packed(&union.words, &entry.values, key)
            };
            if let Some(&place) = union.places.find(hash, is_it) {
                union.hits += 1;
                let entry = &mut self.entries[place as usize];
                entry.is_used = true;
                return Some(&entry.steps);
            }
        }
        None
    }

    fn insert(&mut self, version: u64, traversal: &Traversal) {
        if !traversal.is_cacheable || self.options.entries_max == 0 {
            return;
        }
        if version != self.version {
            self.clear();
            self.version = version;
        }
        let Some(union) = self.union_of(&traversal.examined()) else {
            self.refused += 1;
            return;
        };
        let is_full = self.entries.len() >= self.options.entries_max;
        let place = if is_full { self.evict() } else { self.entries.len() };
        let words = &self.unions[union as usize].words;
        let entry = Entry {
            union,
            shape: traversal.shape,
            is_used: true,
            values: pack(words, &traversal.key).collect(),
            steps: traversal.steps.as_slice().into(),
        };
        let hash = self.hash.hash(words, &traversal.key, traversal.shape);
        match self.entries.get_mut(place) {
            Some(slot) => *slot = entry,
            None => self.entries.push(entry),
        }
        let (entries, hasher) = (&self.entries, &self.hash);
        let Union { words, places, .. } = &mut self.unions[union as usize];
        places.insert_unique(hash, place as u32, |&place| {
            let entry = &entries[place as usize];
            hasher.hash_packed(words, &entry.values, entry.shape)
        });
    }

    fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traversal::Visit;
    use warpswitch_rules::openflow::FLOW_WORDS;

    /// A traversal of `key[0]`, that examined `mask` of it.
    fn traversal(value: u32, mask: u32) -> Traversal {
        let (mut key, mut examined) = ([0; FLOW_WORDS], [0; FLOW_WORDS]);
        (key[0], examined[0]) = (value, mask);
        let visit = Visit { table: 0, flow: None, key, examined, steps_before: 0 };
        let steps = vec![Step::Output(value & mask)];
        Traversal { visits: vec![visit], steps, ..Traversal::new(&key, 5) }
    }

    fn cache(entries_max: usize, masks_max: usize) -> MegaflowCache {
        MegaflowCache::new(MegaflowOptions { entries_max, masks_max, seed: 1 })
    }

    fn key(value: u32) -> FlowKey {
        traversal(value, 0).key
    }

    #[test]
    fn keys_that_agree_in_examined_bits_hit() {
        let mut cache = cache(8, 8);
        cache.insert(2, &traversal(0x1234, 0xff00));
        assert_eq!(cache.lookup(2, &key(0x12ff), 5), Some(&[Step::Output(0x1200)][..]));
        assert_eq!(cache.lookup(2, &key(0x12ff), 6), None);
        assert_eq!(cache.lookup(2, &key(0x1334), 5), None);
        assert_eq!(cache.lookup(3, &key(0x12ff), 5), None);
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn entries_and_unions_are_bounded() {
        let mut cache = cache(2, 2);
        for value in 0..100 {
            cache.insert(0, &traversal(value, u32::MAX));
            assert!(cache.lookup(0, &key(value), 5).is_some());
        }
        assert_eq!(cache.len(), 2);
        cache.insert(0, &traversal(1, 1));
        cache.insert(0, &traversal(2, 2));
        assert_eq!((cache.masks(), cache.refused()), (2, 1));
        assert_eq!(cache.lookup(0, &key(1 << 8 | 1), 5), Some(&[Step::Output(1)][..]));
        assert_eq!(cache.lookup(0, &key(2), 5), None);
        // Once a union is empty, another may take its place.
        cache.insert(0, &traversal(3, 1));
        cache.insert(0, &traversal(4, 1));
        cache.insert(0, &traversal(2, 2));
        assert_eq!((cache.masks(), cache.refused()), (2, 1));
        assert_eq!(cache.lookup(0, &key(2), 5), Some(&[Step::Output(2)][..]));
    }

    #[test]
    fn order_of_unions_changes_no_answer() {
        let mut cache = cache(64, 64);
        for bit in 0..20 {
            cache.insert(0, &traversal(1 << bit, 1 << bit));
        }
        for turn in 0..3 * SORT_INTERVAL {
            let bit = turn % 7 + 13;
            let expected = [Step::Output(1 << bit)];
            assert_eq!(cache.lookup(0, &key(1 << bit), 5), Some(&expected[..]));
        }
        assert_eq!(cache.unions.len(), 20);
        assert!(cache.unions[..7].iter().all(|union| union.hits > 0));
        cache.insert(0, &traversal(0x8000_0001, u32::MAX));
        for bit in 0..20 {
            assert!(cache.lookup(0, &key(1 << bit), 5).is_some());
        }
    }
}
