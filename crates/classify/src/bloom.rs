//! Tuple-space search behind Bloom filters: each tuple has a filter of bits in front of its cuckoo
//! table, and a table is read only where its filter says that the key may be in it.
//!
//! ```text
//! key & mask ─ keyed hash ─► x ─┬─ g0(x) ─► bit ─┐
//!                               └─ g1(x) ─► bit ─┴─ both set? ─► cuckoo table
//! ```
//! A filter has two functions `g(x) = (a * x + b) >> (32 - log2 bits)` with odd `a`, and at least
//! [`BITS_PER_ENTRY`] bits for each entry, so about one key in sixty passes in vain.
//!
//! # Invariants
//! - B1: every entry of the table has both its bits set: a filter never hides a match.
//! - B2: each bit has a counter of the entries that set it, so a removal clears what no other entry
//!   needs. A counter that reached its limit stays there, and so does its bit, until the filter is
//!   filled anew with the next growth or draw of the table.
//!
//! # Source
//! Varvello, Laufer, Zhang, Lakshman, "Multi-layer packet classification with graphics processing
//! units", CoNEXT 2014. Fan et al., "Summary cache", 2000 (counting filters).

use warpswitch_rules::Precedence;

use crate::classifier::Engine;
use crate::hash::SeedStream;
use crate::tuple::cuckoo::CuckooTable;
use crate::tuple::{Chunk, Table, masked};

/// Bits of filter for each entry, at least; the number of bits is a power of two.
const BITS_PER_ENTRY: usize = 16;

/// The smallest filter: one cache line.
const BITS_MIN: usize = 512;

/// Hash functions of a filter.
const HASHES: usize = 2;

/// A counting Bloom filter over 32-bit hashes.
#[derive(Clone, Debug)]
struct Filter {
    words: Vec<u64>,
    /// One for each bit (B2). Lookups never read them.
    counters: Vec<u8>,
    /// `32 - log2 bits`.
    shift: u32,
    a: [u32; HASHES],
    b: [u32; HASHES],
}

impl Filter {
    fn with_room(entries: usize, seeds: &mut SeedStream) -> Self {
        let bits = bits_for(entries);
        Self {
            words: vec![0; bits / 64],
            counters: vec![0; bits],
            shift: 32 - bits.trailing_zeros(),
            a: std::array::from_fn(|_| seeds.next() as u32 | 1),
            b: std::array::from_fn(|_| seeds.next() as u32),
        }
    }

    #[inline(always)]
    fn positions(&self, x: u32) -> [usize; HASHES] {
        std::array::from_fn(|hash| {
            (self.a[hash].wrapping_mul(x).wrapping_add(self.b[hash]) >> self.shift) as usize
        })
    }

    #[inline(always)]
    fn may_hold(&self, x: u32) -> bool {
        let bits = self.positions(x).map(|bit| self.words[bit / 64] >> (bit % 64) & 1);
        bits[0] & bits[1] != 0
    }

    fn add(&mut self, x: u32) {
        for bit in self.positions(x) {
            self.counters[bit] = self.counters[bit].saturating_add(1);
            self.words[bit / 64] |= 1 << (bit % 64);
        }
    }

    fn remove(&mut self, x: u32) {
        for bit in self.positions(x) {
            if self.counters[bit] < u8::MAX {
                self.counters[bit] -= 1;
            }
            if self.counters[bit] == 0 {
                self.words[bit / 64] &= !(1 << (bit % 64));
            }
        }
    }

    fn bytes(&self) -> usize {
        self.words.capacity() * 8 + self.counters.capacity()
    }
}

/// Bits of a filter for so many entries.
fn bits_for(entries: usize) -> usize {
    // More than 2^31 bits would need more than the 32 bits of the hash.
    (entries * BITS_PER_ENTRY).next_power_of_two().clamp(BITS_MIN, 1 << 31)
}

/// A cuckoo table and its filter.
#[derive(Clone, Debug)]
pub(crate) struct BloomTable<const W: usize> {
    filter: Filter,
    table: CuckooTable<W>,
    seeds: SeedStream,
}

impl<const W: usize> BloomTable<W> {
    /// Fills a new filter from the table, whose hashes or size have changed.
    fn refill(&mut self) {
        let room = self.table.len().max(self.table.slots() * 9 / 10);
        self.filter = Filter::with_room(room, &mut self.seeds);
        for entry in self.table.entries() {
            self.filter.add(self.table.hash(&entry.value));
        }
    }
}

impl<const W: usize> Table<W> for BloomTable<W> {
    const ENGINE: Engine = Engine::Bloom;

    fn with_room(entries: usize, mut seeds: SeedStream) -> Self {
        let table = CuckooTable::with_room(entries, SeedStream::new(seeds.next(), 0));
        let filter = Filter::with_room(table.slots() * 9 / 10, &mut seeds);
        Self { filter, table, seeds }
    }

    fn bytes_for(entries: usize) -> usize {
        // The filter has room for what the table can hold, at most three more than asked for.
        let bits = bits_for(entries + 3);
        CuckooTable::<W>::bytes_for(entries) + size_of::<Self>() - size_of::<CuckooTable<W>>()
            + bits / 8
            + bits
    }

    fn bytes_after(&self, added: usize) -> usize {
        let table_bytes = self.table.bytes_after(added);
        if table_bytes == self.table.bytes() {
            return self.bytes();
        }
        let len = self.table.len() + added;
        Self::bytes_for(len + len / 2).max(self.bytes())
    }

    fn len(&self) -> usize {
        self.table.len()
    }

    fn slots(&self) -> usize {
        self.table.slots()
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() - size_of::<CuckooTable<W>>() + self.table.bytes() + self.filter.bytes()
    }

    fn get(&self, value: &[u32; W]) -> Option<Precedence> {
        self.table.get(value)
    }

    fn put(&mut self, value: &[u32; W], precedence: Precedence) {
        let len = self.table.len();
        if self.table.put_and_tell(value, precedence) {
            self.refill();
        } else if self.table.len() > len {
            self.filter.add(self.table.hash(value));
        }
    }

    fn take(&mut self, value: &[u32; W]) {
        let (len, slots) = (self.table.len(), self.table.slots());
        let x = self.table.hash(value);
        self.table.take(value);
        if self.table.slots() != slots {
            self.refill();
        } else if self.table.len() < len {
            self.filter.remove(x);
        }
    }

    fn best(&self) -> Precedence {
        self.table.best()
    }

    fn search(&self, mask: &[u32; W], chunk: &mut Chunk<'_, W>) {
        let (active, active_len) = (chunk.active, chunk.active_len);
        // Only keys that pass the filter go on to the table.
        chunk.active_len = 0;
        for &key in &active[..active_len] {
            let x = self.table.hash(&masked(&chunk.keys[usize::from(key)], mask));
            chunk.active[chunk.active_len] = key;
            chunk.active_len += usize::from(self.filter.may_hold(x));
        }
        if chunk.active_len > 0 {
            self.table.search(mask, chunk);
        }
        (chunk.active, chunk.active_len) = (active, active_len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_hide_nothing_and_pass_little() {
        for entries in [1, 30, 1000, 5000] {
            let mut filter = Filter::with_room(entries, &mut SeedStream::new(5, 0));
            let mut hashes = SeedStream::new(6, 0);
            let present: Vec<u32> = (0..entries).map(|_| hashes.next() as u32).collect();
            present.iter().for_each(|&x| filter.add(x));
            assert!(present.iter().all(|&x| filter.may_hold(x)));
            let passed = (0..10_000).filter(|_| filter.may_hold(hashes.next() as u32)).count();
            assert!(passed < 300, "{passed} of 10000 with {entries} entries");
            let (gone, kept) = present.split_at(entries / 2);
            gone.iter().for_each(|&x| filter.remove(x));
            assert!(kept.iter().all(|&x| filter.may_hold(x)));
            kept.iter().for_each(|&x| filter.remove(x));
            assert!(filter.words.iter().all(|&word| word == 0));
        }
    }

    #[test]
    fn a_full_counter_keeps_its_bit() {
        let mut filter = Filter::with_room(1, &mut SeedStream::new(7, 0));
        (0..300).for_each(|_| filter.add(9));
        (0..299).for_each(|_| filter.remove(9));
        assert!(filter.may_hold(9));
    }
}
