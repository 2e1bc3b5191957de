//! Where flows are by their keys: a hash table in cache lines.
//!
//! ```text
//! key ─► hash ─► home bucket: 8 tags ─► places with the same tag ─► the key in the flow's record
//!                     └─ full: the bucket behind it, and so on
//! ```
//! A bucket is one line: eight tags of 32 bits and eight places. A place whose tag is another's is
//! never looked at, so a flow is found with one line of the table and one of its record, and both
//! can be asked for ahead: [`Table::prefetch`], then [`Table::hint`].
//!
//! # Invariants
//! - I1: entries of a bucket lie at its front.
//! - I2: if an entry lies behind its home bucket, all buckets between are full. So who searches may
//!   stop at the first bucket that is not.
//! - I3: at most half of all entries are in use.
//!
//! # Hostile keys
//! The hash has secret numbers that each table draws for itself, so nobody can choose keys that
//! meet. Should they meet nevertheless, an entry that would lie [`REACH_MAX`] buckets or more
//! behind its home has the table draw others: once for each doubling of entries, so that it costs
//! no more than growing. What is found never hangs on these numbers.
//!
//! # Source
//! Multiplying to twice the width and folding: as in wyhash (Wang Yi, 2019), each word under a
//! secret. Removal closes holes as Knuth's algorithm R does (The Art of Computer Programming 3,
//! 6.4), by buckets.

use std::hash::{BuildHasher, RandomState};

use warpswitch_packet::pages;

/// What tells flows apart: both ends and what is between them.
pub(crate) type Key = [u64; 5];

/// No place.
pub(crate) const NONE: u32 = u32::MAX;

/// Entries of a bucket.
const WAYS: usize = 8;

/// An entry that lies so many buckets behind its home makes the table draw another hash.
const REACH_MAX: usize = 16;

/// Secret numbers of a hash.
type Secrets = [u64; 6];

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Bucket {
    tags: [u32; WAYS],
    places: [u32; WAYS],
}

const EMPTY: Bucket = Bucket { tags: [0; WAYS], places: [NONE; WAYS] };

impl Bucket {
    fn is_full(&self) -> bool {
        self.places[WAYS - 1] != NONE
    }

    fn len(&self) -> usize {
        self.places.iter().take_while(|&&place| place != NONE).count()
    }

    /// A bit for each entry that has the tag; one that is not in use may have it too.
    fn with_tag(&self, tag: u32) -> u32 {
        let each = self.tags.iter().enumerate();
        each.fold(0, |bits, (way, &other)| bits | u32::from(other == tag) << way)
    }

    fn put(&mut self, tag: u32, place: u32) {
        let way = self.len();
        (self.tags[way], self.places[way]) = (tag, place);
    }

    fn take(&mut self, way: usize) -> (u32, u32) {
        let (taken, last) = ((self.tags[way], self.places[way]), self.len() - 1);
        (self.tags[way], self.places[way]) = (self.tags[last], self.places[last]);
        (self.tags[last], self.places[last]) = (0, NONE);
        taken
    }
}

/// A table of places. Threads: one at a time.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// A power of two of them.
    buckets: Vec<Bucket>,
    len: usize,
    secrets: Secrets,
    /// Entries that there must be before others are drawn again.
    redraw_len: usize,
    /// How often that was.
    pub redrawn: u64,
}

impl Table {
    /// The most bytes an entry takes: those of a table that has just doubled.
    pub(crate) const BYTES_EACH: usize = 4 * size_of::<Bucket>() / WAYS;

    pub(crate) fn new() -> Self {
        Self::with_secrets(draw())
    }

    fn with_secrets(secrets: Secrets) -> Self {
        Self { buckets: vec![EMPTY; 2], len: 0, secrets, redraw_len: 0, redrawn: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The tag of a key, which its home bucket follows from.
    pub(crate) fn tag(&self, key: &Key) -> u32 {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let secret = &self.secrets;
        let low = fold(key[0] ^ secret[0], key[1] ^ secret[1]);
        let high = fold(key[2] ^ secret[2], key[3] ^ secret[3]);
        let hash = fold(low ^ key[4] ^ secret[4], high ^ secret[5]);
        (hash ^ hash >> 32) as u32
    }

    fn home(&self, tag: u32) -> usize {
        tag as usize & (self.buckets.len() - 1)
    }

    /// The bucket behind another.
    fn behind(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    /// Asks for the line that a key's place is in.
    pub(crate) fn prefetch(&self, tag: u32) {
        pages::prefetch(&self.buckets, self.home(tag));
    }

    /// Where a key may well be: to ask for its record ahead.
    pub(crate) fn hint(&self, tag: u32) -> u32 {
        let bucket = &self.buckets[self.home(tag)];
        let way = bucket.with_tag(tag).trailing_zeros() as usize;
        bucket.places.get(way).copied().unwrap_or(NONE)
    }

    /// The place of a key: of those with its tag the one that `is_it`.
    pub(crate) fn find(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(tag);
        loop {
            let bucket = &self.buckets[at];
            let mut ways = bucket.with_tag(tag);
            while ways != 0 {
                let place = bucket.places[ways.trailing_zeros() as usize];
                if place != NONE && is_it(place) {
                    return Some(place);
                }
                ways &= ways - 1;
            }
            if !bucket.is_full() {
                return None;
            }
            at = self.behind(at);
        }
    }

    /// Puts in a place whose key is not there. `key_of` tells the keys of places that are, for
    /// tables that draw another hash: tags are others then.
    pub(crate) fn insert(&mut self, key: &Key, place: u32, key_of: impl Fn(u32) -> Key) {
        if 2 * (self.len + 1) > WAYS * self.buckets.len() {
            let buckets = vec![EMPTY; 2 * self.buckets.len()];
            let old = std::mem::replace(&mut self.buckets, buckets);
            for_each(&old, |tag, place| {
                self.put(tag, place);
            });
        }
        let reach = self.put(self.tag(key), place);
        self.len += 1;
        if reach >= REACH_MAX && self.len >= self.redraw_len {
            self.redraw_len = 2 * self.len;
            self.redrawn += 1;
            self.secrets = draw();
            let buckets = vec![EMPTY; self.buckets.len()];
            let old = std::mem::replace(&mut self.buckets, buckets);
            for_each(&old, |_, other| {
                let key = if other == place { *key } else { key_of(other) };
                self.put(self.tag(&key), other);
            });
        }
    }

    /// Puts an entry in; tells how many buckets behind its home.
    fn put(&mut self, tag: u32, place: u32) -> usize {
        let (mut at, mut reach) = (self.home(tag), 0);
        // There is room: I3.
        while self.buckets[at].is_full() {
            at = self.behind(at);
            reach += 1;
        }
        self.buckets[at].put(tag, place);
        reach
    }

    /// Takes out a place.
    ///
    /// # Panics
    /// If it is not there: a caller bug.
    pub(crate) fn remove(&mut self, key: &Key, place: u32) {
        let mut hole = self.home(self.tag(key));
        let way = loop {
            let bucket = &self.buckets[hole];
            match bucket.places.iter().position(|&other| other == place) {
                Some(way) => break way,
                None => assert!(bucket.is_full(), "no place {place} in the table of flows"),
            }
            hole = self.behind(hole);
        };
        let mut was_full = self.buckets[hole].is_full();
        self.buckets[hole].take(way);
        self.len -= 1;
        // An entry that had to pass the bucket by, or passed by another that did, goes there.
        let mut at = self.behind(hole);
        while was_full {
            let mask = self.buckets.len() - 1;
            let back = at.wrapping_sub(hole) & mask;
            let bucket = &mut self.buckets[at];
            was_full = bucket.is_full();
            let tags = &bucket.tags[..bucket.len()];
            let passed = tags.iter().position(|&tag| at.wrapping_sub(tag as usize) & mask >= back);
            if let Some(way) = passed {
                let (tag, place) = bucket.take(way);
                self.buckets[hole].put(tag, place);
                hole = at;
            }
            at = self.behind(at);
        }
    }
}

fn for_each(buckets: &[Bucket], mut each: impl FnMut(u32, u32)) {
    for bucket in buckets {
        let entries = bucket.tags.iter().zip(&bucket.places);
        entries.take_while(|&(_, &place)| place != NONE).for_each(|(&tag, &place)| {
            each(tag, place);
        });
    }
}

fn draw() -> Secrets {
    let state = RandomState::new();
    std::array::from_fn(|idx| state.hash_one(idx))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// With these all keys have the same tag whose first and third word are 0.
    const BROKEN: Secrets = [0; 6];

    impl Table {
        /// A table in which keys of IPv4 meet.
        pub(in crate::flows) fn broken() -> Self {
            Self::with_secrets(BROKEN)
        }

        /// I1, I2 and I3, and that each place is found by its key.
        fn check(&self, keys: &[Key], expected: &HashMap<Key, u32>) {
            let mut len = 0;
            for (at, bucket) in self.buckets.iter().enumerate() {
                let used = bucket.len();
                assert!(bucket.places[used..].iter().all(|&place| place == NONE));
                len += used;
                for &tag in &bucket.tags[..used] {
                    let mut before = self.home(tag);
                    while before != at {
                        assert!(self.buckets[before].is_full());
                        before = self.behind(before);
                    }
                }
            }
            assert_eq!((len, self.len), (expected.len(), expected.len()));
            assert!(2 * len <= WAYS * self.buckets.len());
            for (place, key) in keys.iter().enumerate() {
                let found = self.find(self.tag(key), |place| keys[place as usize] == *key);
                assert_eq!(found, expected.get(key).copied(), "{place}");
            }
        }
    }

    fn key(number: usize) -> Key {
        [0, number as u64, 0, 7, number as u64 % 3]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        /// Whatever is put in and taken out, in a table with few tags too, it has what a map has.
        #[test]
        fn it_has_what_a_map_has(
            steps in prop::collection::vec((any::<bool>(), 0usize..160), 1..400),
            is_broken in any::<bool>(),
        ) {
            let keys: Vec<Key> = (0..160).map(key).collect();
            let mut table = if is_broken {
                // It may not mend itself here: holes in long runs are what this is about.
                Table { redraw_len: usize::MAX, ..Table::with_secrets(BROKEN) }
            } else {
                Table::new()
            };
            let mut expected = HashMap::new();
            for (is_in, number) in steps {
                let (key, place) = (keys[number], number as u32);
                if is_in && expected.insert(key, place).is_none() {
                    table.insert(&key, place, |place| keys[place as usize]);
                } else if !is_in && expected.remove(&key).is_some() {
                    table.remove(&key, place);
                }
            }
            table.check(&keys, &expected);
        }
    }

    #[test]
    fn keys_that_meet_make_it_draw_another_hash() {
        let keys: Vec<Key> = (0..20_000).map(key).collect();
        let mut table = Table::with_secrets(BROKEN);
        let mut expected = HashMap::new();
        for (place, key) in keys.iter().enumerate() {
            table.insert(key, place as u32, |place| keys[place as usize]);
            expected.insert(*key, place as u32);
        }
        assert_eq!(table.redrawn, 1);
        table.check(&keys, &expected);
        let far = |at: usize, tag: u32| at.wrapping_sub(tag as usize) & (table.buckets.len() - 1);
        let buckets = table.buckets.iter().enumerate();
        let reach = buckets.flat_map(|(at, b)| b.tags[..b.len()].iter().map(move |&t| far(at, t)));
        assert!(reach.max() < Some(REACH_MAX));
    }

    #[test]
    fn a_table_full_of_one_tag_is_right_and_stays_in_its_bounds() {
        let keys: Vec<Key> = (0..2000).map(key).collect();
        let never = Table { redraw_len: usize::MAX, ..Table::with_secrets(BROKEN) };
        let (mut table, mut expected) = (never, HashMap::new());
        for (place, key) in keys.iter().enumerate() {
            table.insert(key, place as u32, |place| keys[place as usize]);
            expected.insert(*key, place as u32);
        }
        let bytes = table.buckets.len() * size_of::<Bucket>();
        assert!(bytes <= Table::BYTES_EACH * keys.len());
        for (place, key) in keys.iter().enumerate().filter(|(place, _)| place % 3 != 0) {
            table.remove(key, place as u32);
            expected.remove(key);
        }
        table.check(&keys, &expected);
    }
}
