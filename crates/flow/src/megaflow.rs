//! Programs by the bits that any of their tables examined.
//!
//! ```text
//! keys ─┬─ & union[0] ─► table[0] ─ misses ─┐
//!       └──────────────────────────────────┴─ & union[m] ─► table[m] ─► place of a program
//! ```
//! Any hit is right, because a traversal holds for all keys that agree in its examined bits. So
//! unions are probed in any order: those that were hit most come first, counted anew every
//! `SORT_INTERVAL` lookups. All keys of a burst that are left are hashed under a union, and their
//! slots prefetched, before the first is compared.
//!
//! A table is open addressing with linear probing, at most half full. A slot holds everything that
//! a probe compares: hash, shape, program and the masked words. For a union of ten words that is
//! 52 bytes, one or two cache lines; a probe that misses mostly reads an empty slot.
//!
//! # Bounds
//! A lookup probes at most `masks_max` tables. A traversal that needs a further union gets an
//! existing one that has all of its bits; the last one has all bits of a key. So traffic chosen to
//! make many unions is cached by wider unions, or exactly, and cannot make lookups slow.

use std::collections::HashMap;

use warpswitch_packet::pages::prefetch;
use warpswitch_rules::openflow::{FLOW_WORDS, FlowKey};

use crate::flow_hash::{FlowHash, MaskedWords, masked_words, pack};
use crate::packed_key::PackedKey;
use crate::programs::Home;
use crate::traversal::Shape;

/// Lookups between two orderings of the unions.
const SORT_INTERVAL: u64 = 1 << 16;
/// Words of a slot in front of the masked words: hash, shape, program.
const HEAD: usize = 3;
/// Slots of a new table.
const SLOTS_MIN: usize = 16;
/// In place of the hash of an empty slot.
const EMPTY: u32 = 0;

/// The programs with one union of examined bits.
#[derive(Debug)]
struct Union {
    mask: FlowKey,
    words: MaskedWords,
    /// `stride` words a slot.
    slots: Vec<u32>,
    stride: usize,
    len: usize,
    hits: u64,
}

/// An index by examined bits.
#[derive(Debug)]
pub(crate) struct MegaflowIndex {
    masks_max: usize,
    hash: FlowHash,
    unions: Vec<Union>,
    /// Numbers of unions in the order of probing.
    order: Vec<u32>,
    by_mask: HashMap<FlowKey, u32>,
    lookups_left: u64,
    widened: u64,
    /// Keys that are still looked up: their places in the burst, and in `keys`, and their hashes.
    pending: Vec<(u32, u32, u32)>,
    /// The whole keys.
    keys: Vec<FlowKey>,
}

impl Union {
    fn new(mask: &FlowKey) -> Self {
        let words = masked_words(mask);
        let stride = HEAD + words.len();
        let slots = vec![EMPTY; SLOTS_MIN * stride];
        Self { mask: *mask, words, slots, stride, len: 0, hits: 0 }
    }

    fn slots_len(&self) -> usize {
        self.slots.len() / self.stride
    }

    #[inline]
    fn hash(&self, hash: &FlowHash, key: &FlowKey, shape: u32) -> u32 {
        (hash.hash(&self.words, key, shape) >> 32) as u32 | 1
    }

    /// Where the search for a hash begins.
    #[inline]
    fn start(&self, hash: u32) -> usize {
        hash as usize >> 1 & (self.slots_len() - 1)
    }

    #[inline]
    fn slot(&self, number: usize) -> &[u32] {
        &self.slots[number * self.stride..][..self.stride]
    }

    /// The slot of a key, and its program.
    #[inline]
    fn find(&self, hash: u32, key: &FlowKey, shape: u32) -> Option<(usize, u32)> {
        let last = self.slots_len() - 1;
        let mut number = self.start(hash);
        loop {
            let slot = self.slot(number);
            match slot[0] {
                EMPTY => return None,
                found if found == hash && slot[1] == shape => {
                    let mut words = self.words.iter().zip(&slot[HEAD..]);
                    if words.all(|(&(word, mask), &value)| key[usize::from(word)] & mask == value) {
                        return Some((number, slot[2]));
                    }
                }
                _ => {}
            }
            number = (number + 1) & last;
        }
    }

    fn insert(&mut self, hash: u32, shape: u32, program: u32, values: &[u32]) {
        if (self.len + 1) * 2 > self.slots_len() {
            self.grow();
        }
        let last = self.slots_len() - 1;
        let mut number = self.start(hash);
        while self.slot(number)[0] != EMPTY {
            number = (number + 1) & last;
        }
        let slot = &mut self.slots[number * self.stride..][..self.stride];
        slot[..HEAD].copy_from_slice(&[hash, shape, program]);
        slot[HEAD..].copy_from_slice(values);
        self.len += 1;
    }

    fn grow(&mut self) {
        let new = vec![EMPTY; self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, new);
        self.len = 0;
        for slot in old.chunks_exact(self.stride).filter(|slot| slot[0] != EMPTY) {
            self.insert(slot[0], slot[1], slot[2], &slot[HEAD..]);
        }
    }

    /// Takes out the slot with this hash and program; those behind it that it kept from their
    /// places move up.
    fn remove(&mut self, hash: u32, program: u32) {
        let last = self.slots_len() - 1;
        let mut hole = self.start(hash);
        loop {
            let slot = self.slot(hole);
            match slot[0] {
                EMPTY => return,
                found if found == hash && slot[2] == program => break,
                _ => hole = (hole + 1) & last,
            }
        }
        let mut number = hole;
        loop {
            number = (number + 1) & last;
            let found = self.slot(number)[0];
            if found == EMPTY {
                break;
            }
            // It may move unless its start lies behind the hole.
            let from_start = number.wrapping_sub(self.start(found)) & last;
            if from_start >= number.wrapping_sub(hole) & last {
                let start = number * self.stride;
                self.slots.copy_within(start..start + self.stride, hole * self.stride);
                hole = number;
            }
        }
        self.slots[hole * self.stride] = EMPTY;
        self.len -= 1;
    }
}

impl MegaflowIndex {
    pub(crate) fn new(masks_max: usize, seed: u64) -> Self {
        Self {
            masks_max,
            hash: FlowHash::new(seed),
            unions: Vec::new(),
            order: Vec::new(),
            by_mask: HashMap::new(),
            lookups_left: SORT_INTERVAL,
            widened: 0,
            pending: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Unions of examined bits.
    pub(crate) fn masks(&self) -> usize {
        self.unions.len()
    }

    /// Traversals that would have needed a union too many, and got a wider one.
    pub(crate) fn widened(&self) -> u64 {
        self.widened
    }

    /// Looks up the keys whose places in the burst are in `wanted`. Each match goes to `hit` with
    /// its place and its program; for a key whose match `hit` rejects, the search goes on. The
    /// caller removes rejected programs afterwards.
    pub(crate) fn lookup(
        &mut self,
        packed: &[PackedKey],
        wanted: &[u32],
        mut hit: impl FnMut(u32, u32) -> bool,
    ) {
        let Self { unions, order, hash, pending, keys, .. } = self;
        pending.clear();
        pending.extend(wanted.iter().zip(0..).map(|(&idx, key)| (idx, key, 0)));
        keys.resize(wanted.len(), [0; FLOW_WORDS]);
        for (key, &idx) in keys.iter_mut().zip(wanted) {
            packed[idx as usize].write(key);
        }
        let shape = |idx: u32| packed[idx as usize].shape().number;
        let count = pending.len() as u64;
        for &number in &*order {
            if pending.is_empty() {
                break;
            }
            let union = &mut unions[number as usize];
            if union.len == 0 {
                continue;
            }
            for (idx, key, key_hash) in pending.iter_mut() {
                *key_hash = union.hash(hash, &keys[*key as usize], shape(*idx));
                prefetch(&union.slots, union.start(*key_hash) * union.stride);
            }
            let before = pending.len();
            pending.retain(|&(idx, key, key_hash)| {
                let found = union.find(key_hash, &keys[key as usize], shape(idx));
                !found.is_some_and(|(_, program)| hit(idx, program))
            });
            union.hits += (before - pending.len()) as u64;
        }
        self.lookups_left = self.lookups_left.saturating_sub(count);
        if self.lookups_left == 0 {
            self.lookups_left = SORT_INTERVAL;
            self.sort();
        }
    }

    /// Orders the unions by hits, and halves their hit counts, so that recent hits weigh more.
    fn sort(&mut self) {
        let unions = &self.unions;
        self.order.sort_by_key(|&number| std::cmp::Reverse(unions[number as usize].hits));
        self.unions.iter_mut().for_each(|union| union.hits /= 2);
    }

    /// Where a program of these examined bits belongs, and which one is there already.
    pub(crate) fn home(
        &mut self,
        mask: &FlowKey,
        key: &FlowKey,
        shape: Shape,
    ) -> (Home, Option<u32>) {
        let number = self.union_of(mask);
        let union = &self.unions[number as usize];
        let hash = union.hash(&self.hash, key, shape.number);
        let old = union.find(hash, key, shape.number).map(|(_, program)| program);
        (Home { union: number, hash }, old)
    }

    /// The bits of a home's union.
    pub(crate) fn mask(&self, home: Home) -> &FlowKey {
        &self.unions[home.union as usize].mask
    }

    /// Adds a program at its home.
    pub(crate) fn insert(&mut self, home: Home, key: &FlowKey, shape: Shape, program: u32) {
        let union = &mut self.unions[home.union as usize];
        let values: smallvec::SmallVec<[u32; 16]> = pack(&union.words, key).collect();
        union.insert(home.hash, shape.number, program, &values);
    }

    /// Takes a program out of its union, which stays even if it is empty, until its place is
    /// needed: its bits are likely to be examined again.
    pub(crate) fn remove(&mut self, home: Home, program: u32) {
        self.unions[home.union as usize].remove(home.hash, program);
    }

    /// The union of these bits, made if there is room, or one of more bits.
    fn union_of(&mut self, mask: &FlowKey) -> u32 {
        if let Some(&number) = self.by_mask.get(mask) {
            return number;
        }
        if self.unions.len() + 1 < self.masks_max {
            return self.add(mask);
        }
        if let Some(number) = self.unions.iter().position(|union| union.len == 0) {
            let old = std::mem::replace(&mut self.unions[number], Union::new(mask));
            self.by_mask.remove(&old.mask);
            self.by_mask.insert(*mask, number as u32);
            return number as u32;
        }
        self.widened += 1;
        let has_all = |union: &Union| mask.iter().zip(&union.mask).all(|(&m, &u)| m & !u == 0);
        let bits = |union: &Union| union.mask.iter().map(|word| word.count_ones()).sum::<u32>();
        let wider = self.unions.iter().enumerate().filter(|(_, union)| has_all(union));
        match wider.min_by_key(|(_, union)| bits(union)) {
            Some((number, _)) => number as u32,
            None => self.add(&[u32::MAX; FLOW_WORDS]),
        }
    }

    fn add(&mut self, mask: &FlowKey) -> u32 {
        let number = self.unions.len() as u32;
        self.unions.push(Union::new(mask));
        self.order.push(number);
        self.by_mask.insert(*mask, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_testkit::random::Random;

    #[test]
    fn tables_hold_what_was_inserted_and_not_removed() {
        let mut random = Random::new(5);
        let mut mask = [0; FLOW_WORDS];
        (mask[3], mask[40]) = (0xff, 0xff00);
        let (hash, mut union) = (FlowHash::new(1), Union::new(&mask));
        let mut there = HashMap::new();
        for step in 0..20_000 {
            let mut key = [0; FLOW_WORDS];
            (key[3], key[40]) = (random.below(40) as u32, (random.below(40) as u32) << 8);
            let key_hash = union.hash(&hash, &key, 7);
            let values: Vec<u32> = pack(&union.words, &key).collect();
            let found = union.find(key_hash, &key, 7).map(|(_, program)| program);
            assert_eq!(found, there.get(&values).copied(), "step {step}");
            match found {
                Some(program) if random.chance(1, 2) => {
                    union.remove(key_hash, program);
                    there.remove(&values);
                }
                None => {
                    union.insert(key_hash, 7, step, &values);
                    there.insert(values, step);
                }
                Some(_) => {}
            }
            assert_eq!(union.len, there.len());
        }
        assert!(union.len > 500, "too few to mean anything");
    }
}
