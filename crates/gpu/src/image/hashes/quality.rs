//! What a hash function makes of a rule set: filters that let too much pass, runs in tables with
//! open addressing, moves in cuckoo tables.

use std::collections::HashSet;

use warpswitch_classify::parts::SeedStream;
use warpswitch_rules::KeyBatch;

use super::super::tables::{self, Slot, Tuple};
use super::{Keyed, masked};

/// Draws of the multipliers of cuckoo tables before a mask counts as one without a table.
const DRAWS_MAX: u64 = 4;

/// How well a function serves the tables of a rule set. All tables are as the engines': filters of
/// 16 to 32 bits an entry in whole words, open addressing half full at most, cuckoo tables of three
/// parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Entries whose hash another entry of their mask has, too: their keys are compared in vain.
    pub equal_hashes: usize,
    /// Bits of all filters.
    pub filter_bits: u64,
    /// Pairs of a key and a mask that has no entry for the key.
    pub absent: u64,
    /// Those of them that pass the filter of the mask.
    pub passed: u64,
    /// Slots with open addressing that are looked at to find every entry once.
    pub probes: u64,
    /// The most for one entry.
    pub probes_max: usize,
    /// Entries in cuckoo tables: all, but for masks that failed.
    pub cuckoo_entries: usize,
    /// Slots of all cuckoo tables.
    pub cuckoo_slots: usize,
    /// Entries that were put out of their slots to make these tables.
    pub moves: usize,
    /// Masks whose entries found no places, however large their tables were made.
    pub failed: usize,
}

impl Quality {
    /// Of `hash` over tables and keys.
    pub(super) fn of(keyed: &Keyed, tuples: &[Tuple], keys: KeyBatch<'_>, seed: u64) -> Self {
        let mut quality = Self::default();
        for tuple in tuples {
            quality.add(keyed, tuple, keys, seed);
        }
        quality
    }

    /// Of pairs that have no entry, the part that passes a filter.
    pub fn false_positives(&self) -> f64 {
        self.passed as f64 / self.absent.max(1) as f64
    }

    fn add(&mut self, keyed: &Keyed, tuple: &Tuple, keys: KeyBatch<'_>, seed: u64) {
        let words = keyed.words();
        let hashes: Vec<u32> =
            tuple.values.iter().map(|(value, _)| keyed.hash(&value[..words])).collect();
        self.add_equal(&hashes);
        let items: Vec<Slot> = hashes.iter().zip(1..).map(|(&hash, at)| [hash, at]).collect();
        self.add_runs(&items);
        self.add_cuckoo(&items, seed);
        let (filter, shift) = tables::filter(&hashes);
        self.filter_bits += 32 * filter.len() as u64;
        let is_set = |place: u32| filter[place as usize / 32] >> (place % 32) & 1 == 1;
        let values: HashSet<&[u32]> =
            tuple.values.iter().map(|(value, _)| &value[..words]).collect();
        for key in keys.iter() {
            let value = masked(key, &tuple.mask);
            let passes =
                tables::filter_places(keyed.hash(&value[..words]), shift).into_iter().all(is_set);
            // What is there passes, so the rest need not be looked for.
            if !passes {
                self.absent += 1;
            } else if !values.contains(&value[..words]) {
                self.absent += 1;
                self.passed += 1;
            }
        }
    }

    fn add_equal(&mut self, hashes: &[u32]) {
        let mut sorted = hashes.to_vec();
        sorted.sort_unstable();
        let runs = sorted.chunk_by(|one, other| one == other);
        self.equal_hashes += runs.map(<[u32]>::len).filter(|&len| len > 1).sum::<usize>();
    }

    fn add_runs(&mut self, items: &[Slot]) {
        let (slots, shift) = tables::open_slots(items, 2 * items.len());
        for (at, slot) in slots.iter().enumerate().filter(|(_, slot)| slot[1] != 0) {
            let first = (slot[0] >> shift) as usize;
            let probes = (at + slots.len() - first) % slots.len() + 1;
            self.probes += probes as u64;
            self.probes_max = self.probes_max.max(probes);
        }
    }

    fn add_cuckoo(&mut self, items: &[Slot], seed: u64) {
        for draw in 0..DRAWS_MAX {
            let mut seeds = SeedStream::new(seed, 0x6375_636b + draw);
            let by: [u32; 4] = std::array::from_fn(|_| seeds.next() as u32 | 1);
            let made = tables::cuckoo(&by, items, items.len());
            self.moves += made.moves;
            if let Some((slots, _)) = made.table {
                self.cuckoo_entries += items.len();
                self.cuckoo_slots += slots.len();
                return;
            }
        }
        self.failed += 1;
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_rules::schema::IPV4_5TUPLE;

    use super::super::super::terms::Value;
    use super::super::HashFunction;
    use super::*;

    /// One mask with `len` values in the first word.
    fn tuple(len: u32) -> Tuple {
        let value = |n: u32| {
            let mut value: Value = Default::default();
            value[0] = n.wrapping_mul(0x9e37_79b9);
            (value, n)
        };
        let mut mask: Value = Default::default();
        mask[0] = u32::MAX;
        Tuple { mask, values: (0..len).map(value).collect() }
    }

    #[test]
    fn figures_are_those_of_one_table() {
        let tuples = [tuple(1000)];
        let present: Vec<u32> =
            tuples[0].values.iter().flat_map(|(value, _)| [value[0], 1, 2, 3]).collect();
        let absent: Vec<u32> = (0..50_000u32).flat_map(|n| [n << 1 | 1, n, 2, 3]).collect();
        for function in HashFunction::ALL {
            let keyed = Keyed::draw(function, (4, 2), 5);
            let found = Quality::of(&keyed, &tuples, KeyBatch::new(&IPV4_5TUPLE, &present), 1);
            assert_eq!((found.absent, found.passed), (0, 0), "{function}: what is there passes");
            assert_eq!((found.failed, found.filter_bits), (0, 16_384), "{function}");
            assert_eq!(found.cuckoo_entries, 1000, "{function}");
            assert!(found.cuckoo_slots >= 1000 && found.cuckoo_slots < 2000, "{function}");
            assert!(found.probes >= 1000 && found.probes_max >= 1, "{function}");
            let other = Quality::of(&keyed, &tuples, KeyBatch::new(&IPV4_5TUPLE, &absent), 1);
            let known: HashSet<u32> = tuples[0].values.iter().map(|(value, _)| value[0]).collect();
            let away = absent.chunks(4).filter(|key| !known.contains(&key[0])).count() as u64;
            assert_eq!(other.absent, away, "{function}");
            assert_eq!(other.equal_hashes, found.equal_hashes);
            // 16 bits an entry in words of 32: some 1.1 % for a function without a flaw.
            assert!(other.false_positives() < 0.1, "{function}: {}", other.false_positives());
        }
    }

    #[test]
    fn a_function_that_tells_nothing_apart_is_seen() {
        let mut quality = Quality::default();
        let items: Vec<Slot> = (1..=8).map(|at| [5, at]).collect();
        quality.add_equal(&[5; 8]);
        quality.add_runs(&items);
        quality.add_cuckoo(&items, 1);
        assert_eq!((quality.equal_hashes, quality.probes, quality.probes_max), (8, 36, 8));
        assert_eq!((quality.failed, quality.cuckoo_slots), (1, 0));
        assert!(quality.moves > 512);
    }
}
