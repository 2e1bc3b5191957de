//! A cuckoo hash table: three subtables, one slot of each for every value, so that a search never
//! reads more than three slots.
//!
//! ```text
//! value ─ keyed hash ─► x ─┬─ h0(x) ─► subtable 0 ─┐
//!                          ├─ h1(x) ─► subtable 1 ─┼─► equal?
//!                          └─ h2(x) ─► subtable 2 ─┘
//! ```
//! An insert into three taken slots evicts one entry, which goes to another slot of its own, and so
//! on. After [`EVICTIONS_MAX`] evictions new hash functions are drawn and all entries placed again;
//! after [`DRAWS_MAX`] draws the table grows.
//!
//! # Invariants
//! - C1: `len <= 0.9 * slots`: just below the load at which three subtables stop working (0.918).
//! - C2: a free slot has precedence "none", so a search may compare with it: an equal value there
//!   improves nothing.
//!
//! # Source
//! Pagh, Rodler, "Cuckoo hashing", 2001; Fotakis et al., "Space efficient hash tables with worst
//! case constant access time", 2003 (more than two choices).

use warpswitch_rules::Precedence;

use super::{CHUNK_LEN, Chunk, Entry, Table, masked};
use crate::classifier::Engine;
use crate::hash::{KeyHash, SeedStream, UniversalHash};

/// Subtables, and slots that a value may lie in.
const SUBTABLES: usize = 3;

/// Evictions after which an insert gives up: a successful one at the highest load takes about a
/// tenth of it.
const EVICTIONS_MAX: usize = 500;

/// Draws of hash functions after which a table grows instead.
const DRAWS_MAX: usize = 8;

/// Three subtables, back to back.
#[derive(Clone, Debug)]
pub(crate) struct CuckooTable<const W: usize> {
    slots: Vec<Entry<W>>,
    /// Slots of one subtable.
    subtable_len: u32,
    len: usize,
    hash: KeyHash<W>,
    slot_hashes: [UniversalHash; SUBTABLES],
    seeds: SeedStream,
}

impl<const W: usize> CuckooTable<W> {
    /// The keyed hash of a masked key, for filters in front of the table.
    #[inline(always)]
    pub(crate) fn hash(&self, value: &[u32; W]) -> u32 {
        self.hash.hash(value)
    }

    /// Every entry.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry<W>> {
        self.slots.iter().filter(|entry| !entry.is_free())
    }

    /// [`Table::put`], and whether the hash functions are new ones now.
    pub(crate) fn put_and_tell(&mut self, value: &[u32; W], precedence: Precedence) -> bool {
        let x = self.hash(value);
        for slot in self.candidates(x) {
            let entry = &mut self.slots[slot];
            if !entry.is_free() && entry.value == *value {
                entry.precedence = precedence;
                return false;
            }
        }
        let entry = Entry { value: *value, precedence };
        self.len += 1;
        if self.len > capacity(self.subtable_len) {
            let grown = subtable_len_for(self.len + self.len / 2);
            self.place_all(Some(entry), grown);
            return true;
        }
        match self.place(entry) {
            Ok(()) => false,
            Err(homeless) => {
                self.place_all(Some(homeless), self.subtable_len);
                true
            }
        }
    }

    /// The position of each subtable's slot for a hash.
    #[inline(always)]
    fn candidates(&self, x: u32) -> [usize; SUBTABLES] {
        std::array::from_fn(|subtable| {
            subtable * self.subtable_len as usize
                + self.slot_hashes[subtable].slot(x, self.subtable_len)
        })
    }

    fn find(&self, value: &[u32; W]) -> Option<usize> {
        let candidates = self.candidates(self.hash(value));
        candidates.into_iter().find(|&slot| {
            let entry = &self.slots[slot];
            !entry.is_free() && entry.value == *value
        })
    }

    /// Puts an entry whose value is not there into a slot of its own.
    ///
    /// # Errors
    /// The entry that is left without a slot; all others have one.
    fn place(&mut self, mut entry: Entry<W>) -> Result<(), Entry<W>> {
        let mut came_from = usize::MAX;
        for _ in 0..EVICTIONS_MAX {
            let candidates = self.candidates(self.hash(&entry.value));
            if let Some(&slot) = candidates.iter().find(|&&slot| self.slots[slot].is_free()) {
                self.slots[slot] = entry;
                return Ok(());
            }
            // Any but the slot that the entry was just thrown out of.
            let pick = (self.seeds.next() >> 32) as usize;
            let mut victim = candidates[pick % SUBTABLES];
            if victim == came_from {
                victim = candidates[(pick + 1) % SUBTABLES];
            }
            std::mem::swap(&mut self.slots[victim], &mut entry);
            came_from = victim;
        }
        Err(entry)
    }

    /// Places all entries, and `extra`, with new hash functions in subtables of `subtable_len`
    /// slots, or more if that fails too often.
    fn place_all(&mut self, extra: Option<Entry<W>>, mut subtable_len: u32) {
        let mut entries: Vec<Entry<W>> = self.entries().copied().collect();
        entries.extend(extra);
        for draw in 0.. {
            if draw > 0 && draw % DRAWS_MAX == 0 {
                subtable_len += subtable_len / 8 + 1;
            }
            self.draw(subtable_len);
            if entries.iter().all(|&entry| self.place(entry).is_ok()) {
                return;
            }
        }
    }

    /// Empty subtables and new hash functions.
    fn draw(&mut self, subtable_len: u32) {
        self.slots = vec![Entry::FREE; SUBTABLES * subtable_len as usize];
        self.subtable_len = subtable_len;
        self.hash = KeyHash::draw(&mut self.seeds);
        self.slot_hashes = std::array::from_fn(|_| UniversalHash::draw(&mut self.seeds));
    }
}

/// The most entries of a table: nine tenths of its slots.
fn capacity(subtable_len: u32) -> usize {
    SUBTABLES * subtable_len as usize * 9 / 10
}

/// The smallest subtables for so many entries.
fn subtable_len_for(entries: usize) -> u32 {
    let slots = (entries * 10).div_ceil(9);
    slots.div_ceil(SUBTABLES).max(1) as u32
}

impl<const W: usize> Table<W> for CuckooTable<W> {
    const ENGINE: Engine = Engine::Tuple;

    fn with_room(entries: usize, mut seeds: SeedStream) -> Self {
        let subtable_len = subtable_len_for(entries);
        Self {
            slots: vec![Entry::FREE; SUBTABLES * subtable_len as usize],
            subtable_len,
            len: 0,
            hash: KeyHash::draw(&mut seeds),
            slot_hashes: std::array::from_fn(|_| UniversalHash::draw(&mut seeds)),
            seeds,
        }
    }

    fn bytes_for(entries: usize) -> usize {
        let slots = SUBTABLES * subtable_len_for(entries) as usize;
        size_of::<Self>() + slots * size_of::<Entry<W>>()
    }

    fn bytes_after(&self, added: usize) -> usize {
        let len = self.len + added;
        if len <= capacity(self.subtable_len) {
            return self.bytes();
        }
        Self::bytes_for(len + len / 2)
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
        self.find(value).map(|slot| self.slots[slot].precedence)
    }

    fn put(&mut self, value: &[u32; W], precedence: Precedence) {
        self.put_and_tell(value, precedence);
    }

    fn take(&mut self, value: &[u32; W]) {
        let Some(slot) = self.find(value) else { return };
        self.slots[slot] = Entry::FREE;
        self.len -= 1;
        // A quarter full: give memory back, and leave room for a few more.
        let wanted = subtable_len_for(self.len + self.len / 2);
        if wanted * 2 < self.subtable_len && self.len > 0 {
            self.place_all(None, wanted);
        }
    }

    fn best(&self) -> Precedence {
        self.slots.iter().map(|entry| entry.precedence).min().unwrap_or(Precedence::NONE)
    }

    fn search(&self, mask: &[u32; W], chunk: &mut Chunk<'_, W>) {
        // Two passes, so that the addresses of all keys are known before the first is needed.
        let mut values = [[0; W]; CHUNK_LEN];
        let mut slots = [[0; SUBTABLES]; CHUNK_LEN];
        let active = chunk.active().iter();
        for ((&key, value), slots) in active.zip(&mut values).zip(&mut slots) {
            *value = masked(&chunk.keys[usize::from(key)], mask);
            *slots = self.candidates(self.hash(value));
        }
        for at in 0..chunk.active_len {
            for slot in slots[at] {
                let entry = &self.slots[slot];
                if entry.value == values[at] {
                    chunk.hit(chunk.active[at], entry.precedence);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(n: u32) -> [u32; 4] {
        [n, 0, n << 16, 6]
    }

    fn rank(n: u32) -> Precedence {
        Precedence(u64::from(n))
    }

    /// Each entry lies in a slot of its own value, and the load is as promised.
    fn verify(table: &CuckooTable<4>) {
        assert_eq!(table.entries().count(), table.len);
        assert!(table.len <= capacity(table.subtable_len));
        for (slot, entry) in table.slots.iter().enumerate().filter(|(_, entry)| !entry.is_free()) {
            assert!(table.candidates(table.hash(&entry.value)).contains(&slot));
        }
    }

    #[test]
    fn tables_of_every_size_hold_what_they_are_made_for() {
        for entries in (0..40).chain([100, 1000, 20_000]) {
            let mut table =
                CuckooTable::<4>::with_room(entries, SeedStream::new(1, entries as u64));
            (0..entries as u32).for_each(|n| table.put(&value(n), rank(n)));
            verify(&table);
            assert!(table.bytes() <= CuckooTable::<4>::bytes_for(entries + entries / 2 + 2));
            for n in 0..entries as u32 {
                assert_eq!(table.get(&value(n)), Some(rank(n)));
            }
            assert_eq!(table.get(&value(entries as u32)), None);
        }
    }

    #[test]
    fn tables_grow_and_shrink_with_their_entries() {
        let mut table = CuckooTable::<4>::with_room(1, SeedStream::new(3, 0));
        for n in 0..3000 {
            let bound = table.bytes_after(1);
            table.put(&value(n), rank(n));
            assert!(table.bytes() <= bound, "{n} entries: {} > {bound}", table.bytes());
        }
        verify(&table);
        let full = table.bytes();
        for n in 0..2990 {
            table.take(&value(n));
            table.take(&value(n));
        }
        verify(&table);
        assert!(table.bytes() < full / 50);
        assert_eq!(table.best(), rank(2990));
        (2990..3000).for_each(|n| assert_eq!(table.get(&value(n)), Some(rank(n))));
    }
}
