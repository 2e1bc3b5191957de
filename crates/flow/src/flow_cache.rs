//! The cache in front of a pipeline: by exact keys, then by examined bits, over one store of
//! programs.
//!
//! ```text
//! burst ─► microflow ─ misses ─► megaflow ─ misses ─► the tables, recorded ─┐
//!             ▲ └──────────┬────────┘ │                                     │
//!             │            ▼          │ hit                                 │
//!             │     programs ◄────────┼─────────────────────────────────────┘
//!             └───────────────────────┘
//! ```
//! # Bytes for a packet
//! | hit | cache lines |
//! | --- | --- |
//! | microflow, IPv4 | 1 or 2 of its set, 1 of the program, 1 for the counters of each flow |
//! | microflow, IPv6 | 2 or 4, 1, 1 each |
//! | megaflow | 1 or 2 of a slot for each union up to that of the hit, 1, 1 each |
//!
//! Beside them the packed key, which stays in the first cache: 48 bytes for IPv4. The lower bound
//! is the frame's own line, and one line for the answer and its counters. With everything in the
//! second cache a line costs about 14 cycles, which overlap for a burst; so the instructions count:
//! extraction and hashing of 12 words.
//!
//! # Invariants
//! - C1: a program is in the index by examined bits as long as it is stored, if there is one.
//! - C2: a lookup answers with no program that a change affects ([`crate::change_log`]).

use warpswitch_packet::pages::prefetch;
use warpswitch_rules::openflow::{FLOW_WORDS, FlowKey};

use crate::change_log::ChangeLog;
use crate::megaflow::MegaflowIndex;
use crate::microflow::MicroflowIndex;
use crate::packed_key::PackedKey;
use crate::programs::{CachedFlow, Check, Home, Program, ProgramId, Programs};
use crate::traversal::{Shape, Traversal, TraversalCache};

/// What a cache may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCacheOptions {
    /// Exact keys, rounded up to a power of two.
    pub microflows_max: usize,
    /// The most traversals.
    pub traversals_max: usize,
    /// The most bytes of their steps and of the bits they examined; the newest may go beyond.
    pub bytes_max: usize,
    /// The most unions of examined bits; 0 for a cache by exact keys only.
    pub masks_max: usize,
    /// Seed of the keyed hashes.
    pub seed: u64,
}

/// What a cache has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCacheStats {
    /// Packets found by their exact keys.
    pub micro_hits: u64,
    /// Packets found by examined bits.
    pub mega_hits: u64,
    /// Packets that were not found.
    pub misses: u64,
    /// Traversals that would have needed a union too many, and were kept by more bits.
    pub widened: u64,
}

/// A cache of traversals.
#[derive(Debug)]
pub struct FlowCache {
    micro: MicroflowIndex,
    mega: Option<MegaflowIndex>,
    programs: Programs,
    stats: FlowCacheStats,
    /// Programs that a lookup found to be affected.
    affected: Vec<u32>,
}

impl FlowCache {
    /// An empty cache.
    pub fn new(options: FlowCacheOptions) -> Self {
        let FlowCacheOptions { microflows_max, traversals_max, bytes_max, masks_max, seed } =
            options;
        Self {
            micro: MicroflowIndex::new(microflows_max, seed),
            mega: (masks_max > 0).then(|| MegaflowIndex::new(masks_max, seed)),
            programs: Programs::new(traversals_max.max(1), bytes_max),
            stats: FlowCacheStats::default(),
            affected: Vec::new(),
        }
    }

    /// Its counters.
    pub fn stats(&self) -> FlowCacheStats {
        let widened = self.mega.as_ref().map_or(0, MegaflowIndex::widened);
        FlowCacheStats { widened, ..self.stats }
    }

    /// Exact keys, and unions of examined bits.
    pub fn sizes(&self) -> (usize, usize) {
        (self.micro.len(), self.mega.as_ref().map_or(0, MegaflowIndex::masks))
    }

    /// The cached traversals that no change affects, in no particular order.
    pub fn flows<'a>(
        &'a self,
        changes: &'a ChangeLog,
        now_ns: u64,
    ) -> impl Iterator<Item = CachedFlow<'a>> {
        self.programs.cached_flows(changes, now_ns)
    }

    fn remove(&mut self, place: u32) {
        if let (Some(home), Some(mega)) = (self.programs.remove(place), &mut self.mega) {
            mega.remove(home, place);
        }
    }

    /// Checks what the exact keys found; returns the number of hits.
    fn check_micro(&mut self, changes: &ChangeLog, found: &mut [ProgramId]) -> u64 {
        for id in found.iter().filter(|id| id.is_some()) {
            prefetch(self.programs.slots(), id.place as usize);
        }
        let mut hits = 0;
        for id in found.iter_mut().filter(|id| id.is_some()) {
            match self.programs.check(*id, changes) {
                Check::Holds => {
                    hits += 1;
                    continue;
                }
                Check::Affected => self.affected.push(id.place),
                Check::Gone => {}
            }
            *id = ProgramId::NONE;
        }
        hits
    }

    /// Looks up by examined bits what is not found yet; returns the number of hits.
    fn find_mega(
        &mut self,
        changes: &ChangeLog,
        keys: &[PackedKey],
        found: &mut [ProgramId],
    ) -> u64 {
        let Self { micro, mega: Some(mega), programs, affected, .. } = self else { return 0 };
        let mut hits = 0;
        let missing = (0..found.len()).filter(|&idx| !found[idx].is_some());
        let missing: smallvec::SmallVec<[u32; 64]> = missing.map(|idx| idx as u32).collect();
        mega.lookup(keys, &missing, |idx, place| {
            let id = programs.id(place);
            let holds = programs.check(id, changes) == Check::Holds;
            if holds {
                found[idx as usize] = id;
                hits += 1;
            } else {
                affected.push(place);
            }
            holds
        });
        for idx in missing {
            let idx = idx as usize;
            if found[idx].is_some() {
                micro.insert(&keys[idx], found[idx]);
            }
        }
        hits
    }
}

impl TraversalCache for FlowCache {
    fn lookup(&mut self, changes: &ChangeLog, keys: &[PackedKey], found: &mut [ProgramId]) {
        assert_eq!(keys.len(), found.len(), "lists of one burst");
        found.fill(ProgramId::NONE);
        self.micro.lookup(keys, found);
        let micro_hits = self.check_micro(changes, found);
        let mut hits = micro_hits;
        if hits < keys.len() as u64 {
            hits += self.find_mega(changes, keys, found);
        }
        while let Some(place) = self.affected.pop() {
            self.remove(place);
        }
        self.stats.micro_hits += micro_hits;
        self.stats.mega_hits += hits - micro_hits;
        self.stats.misses += keys.len() as u64 - hits;
    }

    fn lookup_again(&mut self, changes: &ChangeLog, key: &PackedKey) -> ProgramId {
        let mut found = [ProgramId::NONE];
        self.stats.misses = self.stats.misses.saturating_sub(1);
        self.lookup(changes, std::slice::from_ref(key), &mut found);
        found[0]
    }

    #[inline]
    fn program(&self, id: ProgramId) -> Option<&Program> {
        self.programs.get(id)
    }

    #[inline]
    fn hit(&mut self, id: ProgramId, bytes: usize, now_ns: u64) -> Option<&Program> {
        self.programs.hit(id, bytes, now_ns)
    }

    fn insert(&mut self, version: u64, traversal: &Traversal) {
        if !traversal.is_cacheable {
            return;
        }
        let (key, shape) = (&traversal.key, traversal.shape);
        let mut home = Home::default();
        if let Some(mega) = &mut self.mega {
            let (place, old) = mega.home(&traversal.examined(), key, shape);
            home = place;
            if let Some(old) = old {
                self.remove(old);
            }
        }
        while let Err(place) = self.programs.room() {
            self.remove(place);
        }
        let mask = match &self.mega {
            Some(mega) => *mega.mask(home),
            None => exact_mask(shape),
        };
        let id = self.programs.insert(version, traversal, &mask, home);
        if let Some(mega) = &mut self.mega {
            mega.insert(home, key, shape, id.place);
        }
        self.micro.insert(&PackedKey::new(key, shape), id);
    }

    fn len(&self) -> usize {
        self.programs.len()
    }
}

/// All bits of a key of this shape.
fn exact_mask(shape: Shape) -> FlowKey {
    let mut mask = [0; FLOW_WORDS];
    shape.words.iter().for_each(|&word| mask[usize::from(word)] = u32::MAX);
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change_log::Change;
    use crate::traversal::{Step, Visit};
    use warpswitch_rules::openflow::FlowMatch;

    const SHAPE: Shape = Shape { number: 5, words: &[0] };

    /// A traversal of `key[0]` that examined `mask` of it and found flow `value & mask`, of
    /// priority 10, in table 2.
    fn traversal(value: u32, mask: u32) -> Traversal {
        let (mut key, mut examined) = ([0; FLOW_WORDS], [0; FLOW_WORDS]);
        (key[0], examined[0]) = (value, mask);
        let flow = value & mask;
        let visit = Visit { table: 2, flow: Some((flow, 10)), key, examined, steps_before: 0 };
        let steps = vec![Step::Match { table: 2, flow }, Step::Output(flow + 1)];
        Traversal { visits: vec![visit], steps, ..Traversal::new(&key, SHAPE) }
    }

    fn cache(traversals_max: usize, masks_max: usize) -> FlowCache {
        cache_of(traversals_max, usize::MAX, masks_max)
    }

    fn cache_of(traversals_max: usize, bytes_max: usize, masks_max: usize) -> FlowCache {
        let microflows_max = 64;
        FlowCache::new(FlowCacheOptions {
            microflows_max,
            traversals_max,
            bytes_max,
            masks_max,
            seed: 1,
        })
    }

    /// The port that a packet leaves by.
    fn find(cache: &mut FlowCache, changes: &ChangeLog, value: u32) -> Option<u32> {
        let mut key = [0; FLOW_WORDS];
        key[0] = value;
        let mut found = [ProgramId::NONE];
        cache.lookup(changes, &[PackedKey::new(&key, SHAPE)], &mut found);
        let program = cache.program(found[0])?;
        let plain = program.plain().expect("it credits a flow and outputs");
        assert_eq!(plain.lookups().count(), 1);
        assert_eq!(program.steps().len(), 2);
        Some(plain.port)
    }

    #[test]
    fn keys_that_agree_in_examined_bits_hit() {
        let log = ChangeLog::default();
        let mut cache = cache(8, 8);
        cache.insert(0, &traversal(0x1234, 0xff00));
        assert_eq!(find(&mut cache, &log, 0x12ff), Some(0x1201));
        assert_eq!(find(&mut cache, &log, 0x12ff), Some(0x1201));
        assert_eq!(find(&mut cache, &log, 0x1334), None);
        let stats = cache.stats();
        assert_eq!((stats.micro_hits, stats.mega_hits, stats.misses), (1, 1, 1));
        let mut exact = super::tests::cache(8, 0);
        exact.insert(0, &traversal(0x1234, 0xff00));
        assert_eq!(find(&mut exact, &log, 0x1234), Some(0x1201));
        assert_eq!(find(&mut exact, &log, 0x12ff), None);
    }

    /// Traversals of many steps leave room for few others, and changes give it back.
    #[test]
    fn bytes_of_traversals_are_bounded() {
        for masks_max in [0, 8] {
            let mut log = ChangeLog::default();
            let mut cache = cache_of(1000, 64 << 10, masks_max);
            for value in 0..500 {
                let mut long = traversal(value, u32::MAX);
                long.steps.splice(0..0, vec![Step::Miss { table: 1 }; 100]);
                cache.insert(0, &long);
            }
            let few = cache.len();
            assert!((5..60).contains(&few), "{few}");
            log.push(Change::All);
            for value in 0..500 {
                let mut found = [ProgramId::NONE];
                let mut key = [0; FLOW_WORDS];
                key[0] = value;
                cache.lookup(&log, &[PackedKey::new(&key, SHAPE)], &mut found);
            }
            for value in 0..1000 {
                cache.insert(log.version(), &traversal(value, u32::MAX));
            }
            assert!(cache.len() > 2 * few, "{}", cache.len());
        }
    }

    #[test]
    fn hits_are_counted_and_shown() {
        let (mut log, mut cache) = (ChangeLog::default(), cache(8, 8));
        cache.insert(0, &traversal(0x1234, 0xff00));
        let mut key = [0; FLOW_WORDS];
        key[0] = 0x12ff;
        let mut found = [ProgramId::NONE];
        cache.lookup(&log, &[PackedKey::new(&key, SHAPE)], &mut found);
        let flow = cache.flows(&log, 7 << 30).next().unwrap();
        assert_eq!((flow.key[0], flow.mask[0], flow.shape), (0x1200, 0xff00, SHAPE.number));
        assert_eq!((flow.packets, flow.bytes, flow.idle_ns), (0, 0, None));
        // More bytes than the line has room for.
        for _ in 0..40_000 {
            assert!(cache.hit(found[0], 1 << 18, 5 << 30).is_some());
        }
        let flow = cache.flows(&log, 7 << 30).next().unwrap();
        assert_eq!((flow.packets, flow.bytes), (40_000, 40_000 << 18));
        assert_eq!(flow.idle_ns, Some(2 << 30));
        log.push(Change::Flow(0x1200));
        assert_eq!(cache.flows(&log, 0).count(), 0, "a change affects it");
    }

    #[test]
    fn traversals_and_unions_are_bounded() {
        let log = ChangeLog::default();
        let mut cache = cache(2, 2);
        for value in 0..100 {
            cache.insert(0, &traversal(value, u32::MAX));
            assert_eq!(find(&mut cache, &log, value), Some(value + 1));
        }
        assert_eq!(cache.len(), 2);
        let mut cache = super::tests::cache(8, 2);
        for bit in [1, 2, 4] {
            cache.insert(0, &traversal(bit, bit));
        }
        // The second and third are kept by all bits.
        assert_eq!((cache.sizes().1, cache.stats().widened), (2, 2));
        let ports = [0x101, 2, 0x102, 4, 0x104].map(|value| find(&mut cache, &log, value));
        assert_eq!(ports, [Some(2), Some(3), None, Some(5), None]);
    }

    #[test]
    fn changes_remove_what_they_affect() {
        let value = |value: u32| {
            let (mut key, mut mask) = ([0; FLOW_WORDS], [0; FLOW_WORDS]);
            (key[0], mask[0]) = (value, u32::MAX);
            FlowMatch::new(&key, &mask)
        };
        let added =
            |table, priority, number| Change::Added { table, priority, matching: value(number) };
        let cases = [
            (added(2, 11, 0x1299), true),
            (added(2, 10, 0x1299), false),
            (added(2, 11, 0x1399), false),
            (added(1, 11, 0x1299), false),
            (Change::Flow(0x1200), true),
            (Change::Flow(0x1300), false),
            (Change::Group, false),
            (Change::Meter, false),
            (Change::All, true),
        ];
        for (change, is_affected) in cases {
            for masks_max in [0, 8] {
                let (mut log, mut cache) = (ChangeLog::default(), cache(8, masks_max));
                cache.insert(0, &traversal(0x1234, 0xff00));
                log.push(change.clone());
                let expected = if is_affected { None } else { Some(0x1201) };
                assert_eq!(find(&mut cache, &log, 0x1234), expected, "{change:?}");
                assert_eq!(cache.len(), usize::from(!is_affected));
            }
        }
    }

    #[test]
    fn too_many_changes_remove_all() {
        let (mut log, mut cache) = (ChangeLog::default(), cache(8, 8));
        cache.insert(0, &traversal(0x1234, 0xff00));
        (0..crate::change_log::CHANGES_MAX).for_each(|_| log.push(Change::Group));
        assert_eq!(find(&mut cache, &log, 0x1234), Some(0x1201));
        (0..=crate::change_log::CHANGES_MAX).for_each(|_| log.push(Change::Group));
        assert_eq!(find(&mut cache, &log, 0x1234), None);
    }
}
