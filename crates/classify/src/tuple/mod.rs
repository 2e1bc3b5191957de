//! Tuple-space search: one table per distinct mask.
//!
//! ```text
//! key ─┬─ & mask[0] ─► table[0] ─┐
//!      └─ & mask[t] ─► table[t] ─┴─► best precedence ─► RuleId
//! ```
//! Port ranges become prefixes when a rule is inserted, so a rule may be many *entries* in many
//! tuples. What a table is, is left open: `tuple` takes a cuckoo table ([`cuckoo`]), `bloom` the
//! same behind a filter, `maskhash` open addressing.
//!
//! A batch is searched tuple by tuple for a chunk of keys, so that mask, hash keys and a small
//! table stay in the nearest cache and the misses of different keys overlap.
//!
//! # Invariants
//! - T1: `order` lists the tuples by `bound`, ascending; no entry of a tuple precedes its bound.
//!   A key leaves the search once its best entry precedes the next bound.
//! - T2: a stored value has no bit outside its tuple's mask, so masked keys compare by equality.
//! - T3: a table holds the winner of all entries with one value; the others wait in `losers` and
//!   move up when the winner is removed.
//! - T4: a tuple's bound may precede its best entry after removals; it is made exact again once
//!   half as many entries were removed as there are, so that a removal costs O(1) on average.
//!
//! # Source
//! Srinivasan, Suri, Varghese, "Packet classification using tuple space search", SIGCOMM 1999.
//! Varvello, Laufer, Zhang, Lakshman, "Multi-layer packet classification with graphics processing
//! units", CoNEXT 2014 (cuckoo tables and filters). We differ by the order and the early stop, by
//! tables of any size, and by changes in place.

mod build;
pub(crate) mod cuckoo;

use std::collections::{BTreeSet, HashMap};

use warpswitch_rules::expand::{entry_count, masked_entries};
use warpswitch_rules::{KeyBatch, Precedence, RuleId, RuleRef};

use crate::classifier::{Detail, Engine};
use crate::hash::SeedStream;
use crate::index::{ChangeIndex, Index, TooLarge};
use crate::store::{RuleStore, grown, map_buckets};

/// Keys that are searched side by side: enough to overlap their misses, few enough that their
/// state stays in the first cache.
pub(crate) const CHUNK_LEN: usize = 64;

/// One value of a table and the rule that wins there; [`Precedence::NONE`] marks a free slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<const W: usize> {
    pub(crate) value: [u32; W],
    pub(crate) precedence: Precedence,
}

impl<const W: usize> Entry<W> {
    pub(crate) const FREE: Self = Self { value: [0; W], precedence: Precedence::NONE };

    pub(crate) fn is_free(&self) -> bool {
        self.precedence == Precedence::NONE
    }
}

/// The state of a chunk of keys during the search.
pub(crate) struct Chunk<'a, const W: usize> {
    pub(crate) keys: &'a [[u32; W]],
    /// Indices of the keys that are still searched.
    pub(crate) active: [u8; CHUNK_LEN],
    pub(crate) active_len: usize,
    /// The best entry so far of each key.
    best: [Precedence; CHUNK_LEN],
    /// The smallest of `best` among active keys, or less: no bound before it settles a key.
    best_min: Precedence,
}

impl<'a, const W: usize> Chunk<'a, W> {
    fn new(keys: &'a [[u32; W]]) -> Self {
        Self {
            keys,
            active: std::array::from_fn(|idx| idx as u8),
            active_len: keys.len(),
            best: [Precedence::NONE; CHUNK_LEN],
            best_min: Precedence::NONE,
        }
    }

    /// Notes an entry that key number `key` equals.
    #[inline(always)]
    pub(crate) fn hit(&mut self, key: u8, precedence: Precedence) {
        let best = &mut self.best[usize::from(key)];
        *best = precedence.min(*best);
        self.best_min = precedence.min(self.best_min);
    }

    /// Drops the keys that no entry from `bound` on can improve.
    fn drop_settled(&mut self, bound: Precedence) {
        if bound < self.best_min {
            return;
        }
        let mut kept = 0;
        self.best_min = Precedence::NONE;
        for at in 0..self.active_len {
            let key = self.active[at];
            let best = self.best[usize::from(key)];
            if bound < best {
                self.active[kept] = key;
                kept += 1;
                self.best_min = best.min(self.best_min);
            }
        }
        self.active_len = kept;
    }

    pub(crate) fn active(&self) -> &[u8] {
        &self.active[..self.active_len]
    }
}

/// A key under a mask.
#[inline(always)]
pub(crate) fn masked<const W: usize>(key: &[u32; W], mask: &[u32; W]) -> [u32; W] {
    std::array::from_fn(|word| key[word] & mask[word])
}

/// A table from masked keys to precedences.
pub(crate) trait Table<const W: usize>: Clone + Send + Sync + 'static {
    /// The engine that searches such tables.
    const ENGINE: Engine;

    /// A table with room for `entries` entries.
    fn with_room(entries: usize, seeds: SeedStream) -> Self;

    /// Bytes of a table made for `entries` entries, itself included.
    fn bytes_for(entries: usize) -> usize;

    /// Bytes of a table of `bytes` once `added` entries joined its `len`: at most this.
    fn bytes_after(&self, added: usize) -> usize;

    /// Number of entries.
    fn len(&self) -> usize;

    /// Room for entries, used or free.
    fn slots(&self) -> usize;

    /// Bytes of memory, itself included.
    fn bytes(&self) -> usize;

    /// The precedence stored for `value`.
    fn get(&self, value: &[u32; W]) -> Option<Precedence>;

    /// Stores `precedence` for `value`, instead of what was there.
    fn put(&mut self, value: &[u32; W], precedence: Precedence);

    /// Takes out the entry of `value`.
    fn take(&mut self, value: &[u32; W]);

    /// The smallest precedence stored.
    fn best(&self) -> Precedence;

    /// Improves `best` of each active key by the entry that equals it under `mask`.
    fn search(&self, mask: &[u32; W], chunk: &mut Chunk<'_, W>);
}

/// A mask and its table.
#[derive(Clone, Debug)]
struct Tuple<const W: usize, T> {
    mask: [u32; W],
    table: T,
    /// As in `order`.
    bound: Precedence,
    /// Entries removed since the bound was exact.
    removed: usize,
}

/// Where an entry that lost to a rule with the same mask and value waits (T3).
type Loser<const W: usize> = (u32, [u32; W], Precedence);

/// All tuples of a rule set.
#[derive(Clone, Debug)]
pub(crate) struct TupleSpace<const W: usize, T> {
    /// By index; the indices of removed tuples are used again.
    tuples: Vec<Option<Tuple<W, T>>>,
    free: Vec<u32>,
    /// Bound and index of each tuple (T1).
    order: Vec<(Precedence, u32)>,
    by_mask: HashMap<[u32; W], u32>,
    losers: BTreeSet<Loser<W>>,
    rules: usize,
    /// Entries, losers included.
    entries: usize,
    /// Sum over the tables.
    table_bytes: usize,
    hash_seed: u64,
    /// Tables made so far: each draws its hashes from a stream of its own.
    tables_made: u64,
}

impl<const W: usize, T: Table<W>> TupleSpace<W, T> {
    fn empty(hash_seed: u64) -> Self {
        Self {
            tuples: Vec::new(),
            free: Vec::new(),
            order: Vec::new(),
            by_mask: HashMap::new(),
            losers: BTreeSet::new(),
            rules: 0,
            entries: 0,
            table_bytes: 0,
            hash_seed,
            tables_made: 0,
        }
    }

    fn tuple(&mut self, idx: u32) -> &mut Tuple<W, T> {
        self.tuples[idx as usize].as_mut().expect("a tuple in use")
    }

    /// Makes the tuple of `mask`, not yet in `order`.
    fn add_tuple(&mut self, mask: [u32; W], room: usize) -> u32 {
        let seeds = SeedStream::new(self.hash_seed, self.tables_made);
        self.tables_made += 1;
        let table = T::with_room(room, seeds);
        self.table_bytes += table.bytes();
        let tuple = Tuple { mask, table, bound: Precedence::NONE, removed: 0 };
        self.reserve_tuple();
        let idx = self.free.pop().unwrap_or_else(|| {
            self.tuples.push(None);
            self.tuples.len() as u32 - 1
        });
        self.tuples[idx as usize] = Some(tuple);
        self.by_mask.insert(mask, idx);
        idx
    }

    /// Adds an entry without regard to bounds and order.
    fn put(&mut self, idx: u32, value: &[u32; W], precedence: Precedence) {
        self.entries += 1;
        let tuple = self.tuple(idx);
        let loser = match tuple.table.get(value) {
            Some(present) if present < precedence => Some(precedence),
            present => {
                let before = tuple.table.bytes();
                tuple.table.put(value, precedence);
                let after = tuple.table.bytes();
                self.table_bytes = self.table_bytes + after - before;
                present
            }
        };
        if let Some(loser) = loser {
            self.losers.insert((idx, *value, loser));
        }
    }

    /// Takes an entry out; the next one of its value moves up.
    fn take(&mut self, idx: u32, value: &[u32; W], precedence: Precedence) {
        self.entries -= 1;
        if self.losers.remove(&(idx, *value, precedence)) {
            return;
        }
        let waiting = (idx, *value, Precedence(0))..=(idx, *value, Precedence::NONE);
        let next = self.losers.range(waiting).next().copied();
        let tuple = self.tuple(idx);
        debug_assert_eq!(tuple.table.get(value), Some(precedence));
        tuple.removed += 1;
        match next {
            Some(loser) => {
                tuple.table.put(value, loser.2);
                self.losers.remove(&loser);
            }
            None => {
                let before = tuple.table.bytes();
                tuple.table.take(value);
                let after = tuple.table.bytes();
                self.table_bytes = self.table_bytes + after - before;
            }
        }
    }

    /// Moves a tuple to where `bound` belongs.
    fn set_bound(&mut self, idx: u32, bound: Precedence) {
        let tuple = self.tuple(idx);
        let former = std::mem::replace(&mut tuple.bound, bound);
        let from = self.order.binary_search(&(former, idx)).expect("every tuple is in order");
        let to = self.order.partition_point(|&place| place < (bound, idx));
        if to <= from {
            self.order[to..=from].rotate_right(1);
            self.order[to] = (bound, idx);
        } else {
            self.order[from..to].rotate_left(1);
            self.order[to - 1] = (bound, idx);
        }
    }

    /// Frees an empty tuple and keeps the bound of any other useful (T4).
    fn settle_removal(&mut self, idx: u32) {
        let tuple = self.tuple(idx);
        if tuple.table.len() == 0 {
            let (mask, bound, bytes) = (tuple.mask, tuple.bound, tuple.table.bytes());
            self.table_bytes -= bytes;
            let at = self.order.binary_search(&(bound, idx)).expect("every tuple is in order");
            self.order.remove(at);
            self.by_mask.remove(&mask);
            self.tuples[idx as usize] = None;
            self.free.push(idx);
        } else if tuple.removed > tuple.table.len() / 2 {
            tuple.removed = 0;
            let best = tuple.table.best();
            self.set_bound(idx, best);
        }
    }

    fn search(&self, keys: &[[u32; W]], out: &mut [RuleId]) {
        let mut chunk = Chunk::new(keys);
        for &(bound, idx) in &self.order {
            chunk.drop_settled(bound);
            if chunk.active_len == 0 {
                break;
            }
            if let Some(tuple) = &self.tuples[idx as usize] {
                tuple.table.search(&tuple.mask, &mut chunk);
            }
        }
        for (winner, best) in out.iter_mut().zip(&chunk.best) {
            *winner = best.id();
        }
    }

    /// Bytes that are not in tables.
    fn frame_bytes(&self) -> usize {
        Self::frame_bytes_for(self.tuples.capacity(), self.by_mask.capacity())
            + losers_bytes::<W>(self.losers.len())
    }

    /// Bytes around the tables: the list of tuples, its order, the free indices, the map by mask.
    fn frame_bytes_for(tuples: usize, masks: usize) -> usize {
        let beside_table = size_of::<Option<Tuple<W, T>>>() - size_of::<T>();
        let listed = tuples * (beside_table + size_of::<(Precedence, u32)>() + 4);
        listed + map_buckets(masks) * (size_of::<([u32; W], u32)>() + 1)
    }

    /// Makes room for one more tuple in all lists.
    fn reserve_tuple(&mut self) {
        if self.free.is_empty() && self.tuples.len() == self.tuples.capacity() {
            let added = grown(self.tuples.len()) - self.tuples.len();
            self.tuples.reserve_exact(added);
            let room = self.tuples.capacity();
            self.order.reserve_exact(room - self.order.len());
            self.free.reserve_exact(room - self.free.len());
        }
    }

    /// Bytes that the index would take with the entries of `rule` too: at most this.
    fn bytes_with(&self, rule: RuleRef<'_>) -> usize {
        let mut added: HashMap<[u32; W], usize> = HashMap::new();
        for entry in masked_entries(rule.matching) {
            let mask = std::array::from_fn(|word| entry.mask[word]);
            *added.entry(mask).or_default() += 1;
        }
        let mut bytes = self.bytes();
        let mut tuples_new = 0;
        let mut entries_new = 0;
        for (mask, count) in added {
            entries_new += count;
            match self.by_mask.get(&mask).and_then(|&idx| self.tuples[idx as usize].as_ref()) {
                Some(tuple) => bytes += tuple.table.bytes_after(count) - tuple.table.bytes(),
                None => {
                    tuples_new += 1;
                    bytes += T::bytes_for(count);
                }
            }
        }
        let mut tuples = self.tuples.capacity();
        while tuples < self.order.len() + tuples_new {
            tuples = grown(tuples);
        }
        let masks = self.by_mask.capacity().max(self.order.len() + tuples_new);
        bytes - self.frame_bytes()
            + Self::frame_bytes_for(tuples, masks)
            + losers_bytes::<W>(self.losers.len() + entries_new)
    }
}

/// Bytes of a B-tree of so many losers: its nodes are at least half full.
fn losers_bytes<const W: usize>(losers: usize) -> usize {
    losers * size_of::<Loser<W>>() * 3 / 2
}

impl<const W: usize, T: Table<W>> Index for TupleSpace<W, T> {
    const ENGINE: Engine = T::ENGINE;

    type Device = ();

    fn build(
        (): &(),
        store: &RuleStore,
        bytes_max: usize,
        hash_seed: u64,
    ) -> Result<Self, TooLarge> {
        build::build(store, bytes_max, hash_seed)
    }

    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        let (keys, _) = keys.words().as_chunks::<W>();
        for (keys, out) in keys.chunks(CHUNK_LEN).zip(out.chunks_mut(CHUNK_LEN)) {
            self.search(keys, out);
        }
    }

    fn bytes(&self) -> usize {
        self.table_bytes + self.frame_bytes()
    }

    fn details(&self) -> Vec<Detail> {
        let tables = || self.tuples.iter().flatten().map(|tuple| &tuple.table);
        let slots: usize = tables().map(Table::slots).sum();
        let used: usize = tables().map(Table::len).sum();
        let ratio = |a: usize, b: usize| if b == 0 { 0.0 } else { a as f64 / b as f64 };
        vec![
            Detail { name: "tuples", value: self.order.len() as f64 },
            Detail { name: "entries", value: self.entries as f64 },
            Detail { name: "duplicate_entries", value: self.losers.len() as f64 },
            Detail { name: "entries_per_rule", value: ratio(self.entries, self.rules) },
            Detail {
                name: "tuple_entries_max",
                value: tables().map(Table::len).max().unwrap_or(0) as f64,
            },
            Detail { name: "load", value: ratio(used, slots) },
        ]
    }
}

impl<const W: usize, T: Table<W>> ChangeIndex for TupleSpace<W, T> {
    fn insert(&mut self, rule: RuleRef<'_>, bytes_max: usize) -> Result<(), TooLarge> {
        if bytes_max != usize::MAX {
            let bytes = self.bytes_with(rule);
            if bytes > bytes_max {
                return Err(TooLarge { bytes, rules: vec![rule.id] });
            }
        }
        let precedence = rule.precedence();
        self.rules += 1;
        for entry in masked_entries(rule.matching) {
            let mask = std::array::from_fn(|word| entry.mask[word]);
            let value = std::array::from_fn(|word| entry.value[word]);
            let idx = self.by_mask.get(&mask).copied().unwrap_or_else(|| {
                let idx = self.add_tuple(mask, 1);
                let place = (Precedence::NONE, idx);
                self.order.insert(self.order.partition_point(|&other| other < place), place);
                idx
            });
            self.put(idx, &value, precedence);
            if precedence < self.tuple(idx).bound {
                self.set_bound(idx, precedence);
            }
        }
        Ok(())
    }

    fn remove(&mut self, rule: RuleRef<'_>) {
        self.rules -= 1;
        for entry in masked_entries(rule.matching) {
            let mask: [u32; W] = std::array::from_fn(|word| entry.mask[word]);
            let value = std::array::from_fn(|word| entry.value[word]);
            let idx = *self.by_mask.get(&mask).expect("a rule's masks are there with the rule");
            self.take(idx, &value, rule.precedence());
            self.settle_removal(idx);
        }
    }
}

/// Entries that a rule becomes: its cost, when rules are blamed for memory.
fn rule_cost(rule: RuleRef<'_>) -> (usize, RuleId) {
    (entry_count(&rule.matching), rule.id)
}
