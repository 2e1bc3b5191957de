//! The exact cache: traversals by the whole flow key.
//!
//! Two places for each key, chosen by its hash. A new traversal takes the place that was used
//! longer ago, so memory is fixed and a flood of new keys displaces at most one of the two.

use warpswitch_rules::openflow::FlowKey;

use crate::flow_hash::FlowHash;
use crate::traversal::{Step, Traversal, TraversalCache};

/// Places for one hash.
const WAYS: usize = 2;

#[derive(Debug)]
struct Entry {
    key: FlowKey,
    shape: u32,
    version: u64,
    used: u64,
    steps: Box<[Step]>,
}

/// A cache by exact keys.
#[derive(Debug)]
pub struct MicroflowCache {
    sets: Vec<[Option<Entry>; WAYS]>,
    hash: FlowHash,
    /// Version of the last lookup: entries of others are void.
    version: u64,
    /// Lookups, as a clock.
    lookups: u64,
}

impl MicroflowCache {
    /// An empty cache for about `entries_max` traversals, rounded up to a power of two.
    pub fn new(entries_max: usize, seed: u64) -> Self {
        let sets = entries_max.div_ceil(WAYS).next_power_of_two();
        Self {
            sets: std::iter::repeat_with(|| [const { None }; WAYS]).take(sets).collect(),
            hash: FlowHash::new(seed),
            version: 0,
            lookups: 0,
        }
    }

    fn set_of(&self, key: &FlowKey, shape: u32) -> usize {
        self.hash.hash_key(key, shape) as usize & (self.sets.len() - 1)
    }
}

impl TraversalCache for MicroflowCache {
    fn lookup(&mut self, version: u64, key: &FlowKey, shape: u32) -> Option<&[Step]> {
        (self.version, self.lookups) = (version, self.lookups + 1);
        let (set, lookups) = (self.set_of(key, shape), self.lookups);
        let is_it =
            |entry: &Entry| entry.version == version && entry.shape == shape && entry.key == *key;
        let entry = self.sets[set].iter_mut().flatten().find(|entry| is_it(entry))?;
        entry.used = lookups;
        Some(&entry.steps)
    }

    fn insert(&mut self, version: u64, traversal: &Traversal) {
        if !traversal.is_cacheable {
            return;
        }
        let set = self.set_of(&traversal.key, traversal.shape);
        let age = |entry: &Option<Entry>| match entry {
            Some(entry) if entry.version == version => entry.used,
            _ => 0,
        };
        let place = self.sets[set].iter_mut().min_by_key(|entry| age(entry));
        let place = place.expect("a set has places");
        *place = Some(Entry {
            key: traversal.key,
            shape: traversal.shape,
            version,
            used: self.lookups,
            steps: traversal.steps.as_slice().into(),
        });
    }

    fn len(&self) -> usize {
        let entries = self.sets.iter().flatten().flatten();
        entries.filter(|entry| entry.version == self.version).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::openflow::FLOW_WORDS;

    fn traversal(in_port: u32) -> Traversal {
        let mut key = [0; FLOW_WORDS];
        key[0] = in_port;
        let steps = vec![Step::Output(in_port + 1)];
        Traversal { steps, ..Traversal::new(&key, 5) }
    }

    #[test]
    fn only_the_same_key_shape_and_version_hits() {
        let mut cache = MicroflowCache::new(16, 1);
        let one = traversal(1);
        cache.insert(3, &one);
        assert_eq!(cache.lookup(3, &one.key, 5), Some(&one.steps[..]));
        assert_eq!(cache.lookup(3, &one.key, 4), None);
        assert_eq!(cache.lookup(3, &traversal(2).key, 5), None);
        assert_eq!(cache.lookup(4, &one.key, 5), None);
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn what_was_used_longer_ago_goes() {
        let mut cache = MicroflowCache::new(2, 1);
        let all = [1, 2, 3].map(traversal);
        for traversal in &all {
            cache.lookup(0, &traversal.key, 5);
            cache.insert(0, traversal);
            cache.lookup(0, &all[0].key, 5);
        }
        let hits = all.each_ref().map(|traversal| cache.lookup(0, &traversal.key, 5).is_some());
        assert_eq!((hits, cache.len()), ([true, false, true], 2));
    }

    #[test]
    fn what_is_not_cacheable_is_not_kept() {
        let mut cache = MicroflowCache::new(2, 1);
        let other = Traversal { is_cacheable: false, ..traversal(1) };
        cache.insert(0, &other);
        assert_eq!(cache.lookup(0, &other.key, 5), None);
    }
}
