//! Programs by exact keys.
//!
//! ```text
//! key ─► words that its shape may have ─► hash ─► two sets of two entries ─► place of a program
//!        12 (IPv4, ARP): 64 bytes an entry     28 (IPv6, tunnels): 128 bytes
//! ```
//! A key of 50 words is zero nearly everywhere. An entry holds only the words that frames of its
//! shape may have, so that IPv4 costs one cache line, two if the key is in the second place of its
//! set; a hash needs 12 multiplications. A key comes into its second set if the first has no room;
//! if neither has, a key there moves to its own other set (Pagh and Rodler, "Cuckoo hashing", 2004,
//! with one move at most). With one set of two, a tenth of the keys of a table that is 40 % full
//! had no place; with two sets up to one in 500, with a move none. All keys of a burst are hashed,
//! and their first sets prefetched, before the first is compared.
//! Keys with more than 28 words (neighbour discovery through tunnels) are not kept.
//!
//! # Bounds
//! Memory is fixed. A new key that finds no room displaces the one in its sets that was not found
//! for longest. If all were found lately, only one new key in 16 does, so that traffic of more
//! flows than entries keeps most of them.

use warpswitch_packet::pages::prefetch;

use crate::flow_hash::FlowHash;
use crate::packed_key::PackedKey;
use crate::programs::ProgramId;
use crate::traversal::Shape;

/// Places of a set.
const WAYS: usize = 2;
/// Words of a narrow entry.
const NARROW: usize = 12;
/// Words of a wide entry.
const WIDE: usize = 28;
/// Lookups of a burst that make a unit of the clock of entries.
const TICK_SHIFT: u32 = 14;
/// One new key in so many displaces a key that was used lately.
const KEEN: u32 = 16;

/// One key: a whole number of cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Entry<const N: usize> {
    words: [u32; N],
    /// [`Shape::NONE`] for an empty entry.
    shape: u32,
    program: u32,
    generation: u32,
    /// When it was last found.
    tick: u32,
}

/// Where a key may be: the first entries of its two sets.
#[derive(Clone, Copy, Debug)]
struct Sets([u32; 2]);

/// The entries of one size.
#[derive(Debug)]
struct Table<const N: usize> {
    entries: Vec<Entry<N>>,
    sets: usize,
    /// Keys that are looked up: their places in the burst, and their sets.
    probes: Vec<(u32, Sets)>,
}

/// An index by exact keys.
#[derive(Debug)]
pub(crate) struct MicroflowIndex {
    narrow: Table<NARROW>,
    wide: Table<WIDE>,
    hash: FlowHash,
    lookups: u64,
    inserts: u32,
}

impl Sets {
    /// The entries.
    #[inline]
    fn places(self) -> impl Iterator<Item = usize> {
        self.0.into_iter().flat_map(|set| (set as usize..).take(WAYS))
    }
}

impl<const N: usize> Entry<N> {
    #[inline]
    fn is_of(&self, key: &PackedKey) -> bool {
        let words = self.words.iter().zip(key.words());
        let differs = words.fold(self.shape ^ key.shape().number, |bits, (a, b)| bits | (a ^ b));
        differs == 0
    }
}

impl<const N: usize> Table<N> {
    /// Entries come with the first insert.
    fn new(entries_max: usize) -> Self {
        let sets = entries_max.div_ceil(WAYS).next_power_of_two();
        Self { entries: Vec::new(), sets, probes: Vec::new() }
    }

    #[inline]
    fn sets_of(&self, hash: &FlowHash, key: &PackedKey) -> Sets {
        Self::sets(self.sets, hash, words_of(key), key.shape().number)
    }

    #[inline]
    fn sets(sets: usize, hash: &FlowHash, words: &[u32; N], shape: u32) -> Sets {
        let hash = hash.hash_array(words, shape);
        let set = |hash: u64| ((hash as usize & (sets - 1)) * WAYS) as u32;
        Sets([set(hash), set(hash >> 32)])
    }

    /// Prefetches the set of a key that is looked up later.
    #[inline]
    fn prepare(&mut self, hash: &FlowHash, key: &PackedKey, idx: usize) {
        if self.entries.is_empty() {
            return;
        }
        let sets = self.sets_of(hash, key);
        for way in 0..WAYS {
            prefetch(&self.entries, sets.0[0] as usize + way);
        }
        self.probes.push((idx as u32, sets));
    }

    #[inline]
    fn find(&mut self, keys: &[PackedKey], tick: u32, found: &mut [ProgramId]) {
        for (idx, sets) in self.probes.drain(..) {
            let key = &keys[idx as usize];
            if let Some(at) = sets.places().find(|&at| self.entries[at].is_of(key)) {
                let entry = &mut self.entries[at];
                if entry.tick != tick {
                    entry.tick = tick;
                }
                let (place, generation) = (entry.program, entry.generation);
                found[idx as usize] = ProgramId { place, generation };
            }
        }
    }

    fn insert(&mut self, hash: &FlowHash, key: &PackedKey, id: ProgramId, now: (u32, bool)) {
        let ((tick, is_keen), sets) = (now, self.sets_of(hash, key));
        if self.entries.is_empty() {
            let empty =
                Entry { words: [0; N], shape: Shape::NONE, program: 0, generation: 0, tick: 0 };
            self.entries = vec![empty; self.sets * WAYS];
        }
        let entries = &self.entries;
        let is_empty = |at: &usize| entries[*at].shape == Shape::NONE;
        let same = sets.places().find(|&at| entries[at].is_of(key));
        let mut at = same.or_else(|| sets.places().find(is_empty));
        if at.is_none() {
            // One of the keys there may have room in its other set.
            let other = |at: &usize| {
                let Entry { words, shape, .. } = &entries[*at];
                Self::sets(self.sets, hash, words, *shape).places().find(is_empty)
            };
            if let Some((from, to)) = sets.places().find_map(|at| Some((at, other(&at)?))) {
                self.entries[to] = self.entries[from];
                at = Some(from);
            }
        }
        let entries = &mut self.entries;
        let age = |at: usize| tick.wrapping_sub(entries[at].tick);
        let at = match at {
            Some(at) => at,
            None => {
                let oldest = sets.places().max_by_key(|&at| age(at)).expect("sets have places");
                if age(oldest) < 2 && !is_keen {
                    return;
                }
                oldest
            }
        };
        let ProgramId { place: program, generation } = id;
        let (words, shape) = (*words_of(key), key.shape().number);
        entries[at] = Entry { words, shape, program, generation, tick };
    }

    fn len(&self) -> usize {
        self.entries.iter().filter(|entry| entry.shape != Shape::NONE).count()
    }
}

impl MicroflowIndex {
    /// An empty index for about `entries_max` keys, rounded up to a power of two.
    pub(crate) fn new(entries_max: usize, seed: u64) -> Self {
        Self {
            narrow: Table::new(entries_max),
            wide: Table::new(entries_max),
            hash: FlowHash::new(seed),
            lookups: 0,
            inserts: 0,
        }
    }

    fn tick(&self) -> u32 {
        (self.lookups >> TICK_SHIFT) as u32
    }

    /// Sets `found[i]` where a key is known; programs may be gone.
    pub(crate) fn lookup(&mut self, keys: &[PackedKey], found: &mut [ProgramId]) {
        self.lookups += keys.len() as u64;
        for (idx, key) in keys.iter().enumerate() {
            match key.shape().words.len() {
                len if len <= NARROW => self.narrow.prepare(&self.hash, key, idx),
                len if len <= WIDE => self.wide.prepare(&self.hash, key, idx),
                _ => {}
            }
        }
        let tick = self.tick();
        self.narrow.find(keys, tick, found);
        self.wide.find(keys, tick, found);
    }

    /// Notes the program of a key.
    pub(crate) fn insert(&mut self, key: &PackedKey, id: ProgramId) {
        self.inserts = self.inserts.wrapping_add(1);
        let now = (self.tick(), self.inserts.is_multiple_of(KEEN));
        match key.shape().words.len() {
            len if len <= NARROW => self.narrow.insert(&self.hash, key, id, now),
            len if len <= WIDE => self.wide.insert(&self.hash, key, id, now),
            _ => {}
        }
    }

    /// Keys, also those whose programs are gone.
    pub(crate) fn len(&self) -> usize {
        self.narrow.len() + self.wide.len()
    }
}

/// The words of a key that an entry holds.
#[inline]
fn words_of<const N: usize>(key: &PackedKey) -> &[u32; N] {
    key.words().first_chunk().expect("entries have fewer words than keys")
}

const _: () = assert!(size_of::<Entry<NARROW>>() == 64 && size_of::<Entry<WIDE>>() == 128);

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::openflow::{FLOW_WORDS, FlowKey};

    const IPV4: Shape = Shape { number: 5, words: &[0, 25, 34] };
    const IPV6: Shape = Shape {
        number: 6,
        words: &[0, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40],
    };

    fn key(in_port: u32, last: u32) -> FlowKey {
        let mut key = [0; FLOW_WORDS];
        (key[0], key[34]) = (in_port, last);
        key
    }

    fn find(index: &mut MicroflowIndex, key: FlowKey, shape: Shape) -> Option<u32> {
        let mut found = [ProgramId::NONE];
        index.lookup(&[PackedKey::new(&key, shape)], &mut found);
        found[0].is_some().then_some(found[0].place)
    }

    fn id(place: u32) -> ProgramId {
        ProgramId { place, generation: 0 }
    }

    #[test]
    fn only_the_same_key_and_shape_hits() {
        let mut index = MicroflowIndex::new(16, 1);
        for (shape, place) in [(IPV4, 3), (IPV6, 4)] {
            index.insert(&PackedKey::new(&key(1, 2), shape), id(place));
            assert_eq!(find(&mut index, key(1, 2), shape), Some(place));
            assert_eq!(find(&mut index, key(2, 2), shape), None);
            assert_eq!(find(&mut index, key(1, 1), shape), None);
            let other = Shape { number: 7, ..shape };
            assert_eq!(find(&mut index, key(1, 2), other), None);
        }
        assert_eq!(index.len(), 2);
        index.insert(&PackedKey::new(&key(1, 2), IPV4), id(9));
        assert_eq!((find(&mut index, key(1, 2), IPV4), index.len()), (Some(9), 2));
    }

    #[test]
    fn displaces_keys_that_were_used_longer_ago() {
        let mut index = MicroflowIndex::new(2, 1);
        index.insert(&PackedKey::new(&key(1, 0), IPV4), id(1));
        index.insert(&PackedKey::new(&key(2, 0), IPV4), id(2));
        index.lookups += 3 << TICK_SHIFT;
        assert_eq!(find(&mut index, key(1, 0), IPV4), Some(1));
        index.insert(&PackedKey::new(&key(3, 0), IPV4), id(3));
        let places = [1, 2, 3].map(|port| find(&mut index, key(port, 0), IPV4));
        assert_eq!(places, [Some(1), None, Some(3)]);
    }

    #[test]
    fn keys_for_two_fifths_of_the_places_all_stay() {
        let mut index = MicroflowIndex::new(1 << 14, 1);
        let count = (1u32 << 14) * 2 / 5;
        (0..count)
            .for_each(|number| index.insert(&PackedKey::new(&key(number, 0), IPV4), id(number)));
        let kept = (0..count).filter(|&number| find(&mut index, key(number, 0), IPV4).is_some());
        assert_eq!(kept.count(), count as usize, "keys that found no place");
    }

    #[test]
    fn many_new_keys_displace_few_that_are_in_use() {
        let mut index = MicroflowIndex::new(256, 1);
        for number in 0..3000 {
            index.insert(&PackedKey::new(&key(number, 0), IPV4), id(number));
        }
        let kept = (0..1000).filter(|&number| find(&mut index, key(number, 0), IPV4).is_some());
        assert!(kept.count() > 50, "a flood of new keys displaced those in use");
    }
}
