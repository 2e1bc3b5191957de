//! One open-addressing table per mask combination.
//!
//! ```text
//! key & mask ─ keyed hash ─► slot, slot + 1, … until the value or a free slot
//! ```
//! Tables have a power of two of slots, at least twice as many as entries, and are searched in the
//! order of their smallest precedence with an early stop (see [`crate::tuple`]).
//!
//! # Invariants
//! - H1: between a value's first slot and the slot it lies in there is no free one. A removal moves
//!   later entries of the run back, so no marks of former entries pile up.
//! - H2: at least half of the slots are free, so a search ends.
//!
//! # Source
//! Knuth, "The art of computer programming" volume 3, 6.4, algorithms L and R (linear probing and
//! its deletion).

use warpswitch_rules::Precedence;

use crate::classifier::Engine;
use crate::hash::{KeyHash, SeedStream, finish};
use crate::tuple::{CHUNK_LEN, Chunk, Entry, Table, masked};

/// A hash table with linear probing.
#[derive(Clone, Debug)]
pub(crate) struct ProbeTable<const W: usize> {
    slots: Vec<Entry<W>>,
    len: usize,
    hash: KeyHash<W>,
}

impl<const W: usize> ProbeTable<W> {
    #[inline(always)]
    fn first_slot(&self, value: &[u32; W]) -> usize {
        finish(self.hash.hash(value)) as usize & (self.slots.len() - 1)
    }

    /// The slot of `value`, or the free one that ends its run.
    fn find(&self, value: &[u32; W]) -> usize {
        let mut slot = self.first_slot(value);
        while !self.slots[slot].is_free() && self.slots[slot].value != *value {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }

    fn resize(&mut self, slots: usize) {
        let former = std::mem::replace(&mut self.slots, vec![Entry::FREE; slots]);
        for entry in former.into_iter().filter(|entry| !entry.is_free()) {
            let slot = self.find(&entry.value);
            self.slots[slot] = entry;
        }
    }
}

/// Slots of a table for so many entries.
fn slots_for(entries: usize) -> usize {
    (2 * entries).next_power_of_two().max(2)
}

impl<const W: usize> Table<W> for ProbeTable<W> {
    const ENGINE: Engine = Engine::MaskHash;

    fn with_room(entries: usize, mut seeds: SeedStream) -> Self {
        let slots = vec![Entry::FREE; slots_for(entries)];
        Self { slots, len: 0, hash: KeyHash::draw(&mut seeds) }
    }

    fn bytes_for(entries: usize) -> usize {
        size_of::<Self>() + slots_for(entries) * size_of::<Entry<W>>()
    }

    fn bytes_after(&self, added: usize) -> usize {
        Self::bytes_for(self.len + added).max(self.bytes())
    }

    fn len(&self) -> usize {
        self.len
    }

    fn slots(&self) -> usize {
        self.slots.len()
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.slots.capacity() * size_of::<Entry<W>>()
    }

    fn get(&self, value: &[u32; W]) -> Option<Precedence> {
        let entry = self.slots[self.find(value)];
        (!entry.is_free()).then_some(entry.precedence)
    }

    fn put(&mut self, value: &[u32; W], precedence: Precedence) {
        let mut slot = self.find(value);
        if self.slots[slot].is_free() {
            self.len += 1;
            if 2 * self.len > self.slots.len() {
                self.resize(slots_for(self.len));
                slot = self.find(value);
            }
        }
        self.slots[slot] = Entry { value: *value, precedence };
    }

    fn take(&mut self, value: &[u32; W]) {
        let wrap = self.slots.len() - 1;
        let mut gap = self.find(value);
        if self.slots[gap].is_free() {
            return;
        }
        self.len -= 1;
        self.slots[gap] = Entry::FREE;
        let mut slot = (gap + 1) & wrap;
        while !self.slots[slot].is_free() {
            let first = self.first_slot(&self.slots[slot].value);
            // H1: the entry may move back to the gap if the gap is in its run so far.
            if (slot.wrapping_sub(first) & wrap) >= (slot.wrapping_sub(gap) & wrap) {
                self.slots.swap(gap, slot);
                gap = slot;
            }
            slot = (slot + 1) & wrap;
        }
        // An eighth full: give memory back.
        if self.slots.len() > 4 * slots_for(self.len) {
            self.resize(2 * slots_for(self.len));
        }
    }

    fn best(&self) -> Precedence {
        self.slots.iter().map(|entry| entry.precedence).min().unwrap_or(Precedence::NONE)
    }

    fn search(&self, mask: &[u32; W], chunk: &mut Chunk<'_, W>) {
        let wrap = self.slots.len() - 1;
        // Two passes, so that the addresses of all keys are known before the first is needed.
        let mut values = [[0; W]; CHUNK_LEN];
        let mut slots = [0; CHUNK_LEN];
        let active = chunk.active().iter();
        for ((&key, value), slot) in active.zip(&mut values).zip(&mut slots) {
            *value = masked(&chunk.keys[usize::from(key)], mask);
            *slot = self.first_slot(value);
        }
        for at in 0..chunk.active_len {
            let mut slot = slots[at];
            loop {
                let entry = &self.slots[slot];
                if entry.is_free() {
                    break;
                }
                if entry.value == values[at] {
                    chunk.hit(chunk.active[at], entry.precedence);
                    break;
                }
                slot = (slot + 1) & wrap;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Each value is found, and nothing else is there.
    fn verify(table: &ProbeTable<4>, model: &BTreeMap<u32, u64>) {
        assert_eq!(table.len, model.len());
        assert!(2 * table.len <= table.slots.len());
        assert_eq!(table.slots.iter().filter(|entry| !entry.is_free()).count(), table.len);
        for (&n, &rank) in model {
            assert_eq!(table.get(&[0, n, 0, 1]), Some(Precedence(rank)));
        }
    }

    #[test]
    fn tables_agree_with_a_map_under_changes() {
        let mut random = SeedStream::new(11, 0);
        let mut table = ProbeTable::<4>::with_room(0, SeedStream::new(12, 0));
        let mut model = BTreeMap::new();
        for step in 0..6000u64 {
            let n = (random.next() % 300) as u32;
            // Growth, then decline.
            if random.next() % 6000 > step {
                assert!(table.bytes() <= table.bytes_after(1));
                table.put(&[0, n, 0, 1], Precedence(step));
                model.insert(n, step);
            } else {
                table.take(&[0, n, 0, 1]);
                model.remove(&n);
            }
            if step % 50 == 0 {
                verify(&table, &model);
            }
        }
        verify(&table, &model);
        let best = model.values().min().map_or(Precedence::NONE, |&rank| Precedence(rank));
        assert_eq!(table.best(), best);
    }
}
