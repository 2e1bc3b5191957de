//! Tuple-space search: one hash table per distinct mask.
//!
//! ```text
//! key ─┬─ words & mask[0] ─► table[0] ─┐
//!      └─ words & mask[t] ─► table[t] ─┴─► best (priority, then order of adding) ─► flow
//! ```
//! A tuple looks at the words that its mask has bits in, and no others. Changes touch one tuple,
//! and the order of tuples if its largest priority changes.
//!
//! # Invariants
//! - I1: `order` holds the tuples by their largest priority, descending; a search stops once the
//!   best hit is strictly above the next tuple (not at a tie, which may hold an older flow).
//! - I2: flows of one match are one chain, the largest priority first: the head wins among them.
//! - I3: a stored key has no bit outside its tuple's mask.
//! - I4: stages and prefixes hold each match of a tuple once, whatever flows have it.
//!
//! # Source
//! Srinivasan, Suri, Varghese, "Packet Classification using Tuple Space Search", SIGCOMM 1999.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hashbrown::HashTable;
use smallvec::SmallVec;
use warpswitch_flow::flow_hash::{FlowHash, MaskedWords, is_packed, masked_words, pack};
use warpswitch_rules::openflow::{FLOW_WORDS, Flow, FlowKey, FlowMatch};

use super::stages::{Prefixes, Stages, Ways};
use crate::flows::Flows;

/// Words of a key that lie in the hash table itself: most masks examine no more.
const WORDS_INLINE: usize = 8;

/// The flows of one match.
#[derive(Clone, Debug)]
struct Chain {
    /// The masked words of the key.
    key: SmallVec<[u32; WORDS_INLINE]>,
    /// Priority and order of adding of the head: what decides between tuples.
    rank: Rank,
    /// The flow with the largest priority.
    head: u32,
    /// The others with their priorities, largest first.
    rest: Vec<(u16, u32)>,
}

/// Larger wins: a larger priority, then a smaller order of adding.
pub(crate) type Rank = (u16, std::cmp::Reverse<u64>);

/// The flows with one mask.
#[derive(Clone, Debug)]
struct Tuple {
    mask: FlowKey,
    /// Words of the mask that are not zero, and their bits.
    words: MaskedWords,
    chains: HashTable<Chain>,
    stages: Stages,
    /// How many flows have each priority.
    priorities: BTreeMap<u16, u32>,
    /// The largest priority.
    priority_max: u16,
}

/// A table's flows by mask.
#[derive(Clone, Debug)]
pub(crate) struct TupleIndex {
    hash: Arc<FlowHash>,
    tuples: Vec<Tuple>,
    /// Indices of tuples: I1.
    order: Vec<u32>,
    by_mask: HashMap<FlowKey, u32>,
    prefixes: Prefixes,
}

impl Tuple {
    fn new(mask: &FlowKey) -> Self {
        Self {
            mask: *mask,
            words: masked_words(mask),
            chains: HashTable::new(),
            stages: Stages::new(mask),
            priorities: BTreeMap::new(),
            priority_max: 0,
        }
    }

    #[inline]
    fn chain(&self, hash: &FlowHash, key: &FlowKey) -> Option<&Chain> {
        let is_of = |chain: &Chain| is_packed(&self.words, &chain.key, key);
        self.chains.find(hash.hash(&self.words, key, 0), is_of)
    }
}

impl Chain {
    fn places(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        std::iter::once((self.rank.0, self.head)).chain(self.rest.iter().copied())
    }
}

fn rank(flows: &Flows, place: u32) -> Rank {
    let entry = flows.get(place);
    (entry.flow.priority, std::cmp::Reverse(entry.order))
}

impl TupleIndex {
    pub(super) fn new(hash: Arc<FlowHash>) -> Self {
        Self {
            hash,
            tuples: Vec::new(),
            order: Vec::new(),
            by_mask: HashMap::new(),
            prefixes: Prefixes::default(),
        }
    }

    #[inline]
    pub(super) fn find(&self, key: &FlowKey, examined: Option<&mut FlowKey>) -> Option<u32> {
        self.search(key, examined).map(|(_, place)| place)
    }

    /// The flow that wins, and its rank.
    pub(super) fn best(&self, key: &FlowKey) -> Option<(Rank, u32)> {
        self.search(key, None)
    }

    #[inline]
    fn search(&self, key: &FlowKey, mut examined: Option<&mut FlowKey>) -> Option<(Rank, u32)> {
        let mut best: Option<(Rank, u32)> = None;
        let mut ways = Ways::default();
        for &index in &self.order {
            let tuple = &self.tuples[index as usize];
            if best.is_some_and(|((priority, _), _)| priority > tuple.priority_max) {
                break;
            }
            if let Some(examined) = examined.as_deref_mut()
                && !tuple.stages.may_match(&self.hash, &self.prefixes, &mut ways, key, examined)
            {
                continue;
            }
            if let Some(chain) = tuple.chain(&self.hash, key)
                && best.is_none_or(|(rank, _)| chain.rank > rank)
            {
                best = Some((chain.rank, chain.head));
            }
        }
        best
    }

    pub(super) fn find_same(&self, flow: &Flow) -> Option<u32> {
        let &index = self.by_mask.get(flow.matching.mask())?;
        let chain = self.tuples[index as usize].chain(&self.hash, flow.matching.value())?;
        chain.places().find(|&(priority, _)| priority == flow.priority).map(|(_, place)| place)
    }

    /// Looks only at tuples that have flows of the priority; in one whose mask the match examines
    /// whole, a single chain can overlap.
    pub(super) fn has_overlap(&self, flows: &Flows, flow: &Flow) -> bool {
        let overlaps = |chain: &Chain| {
            let mut places = chain.places();
            places.any(|(priority, _)| priority == flow.priority)
                && flows.get(chain.head).flow.matching.overlaps(&flow.matching)
        };
        let mask = flow.matching.mask();
        let tuples = self.tuples.iter().filter(|t| t.priorities.contains_key(&flow.priority));
        tuples.into_iter().any(|tuple| {
            let is_whole = (0..FLOW_WORDS).all(|word| tuple.mask[word] & !mask[word] == 0);
            match is_whole {
                true => tuple.chain(&self.hash, flow.matching.value()).is_some_and(overlaps),
                false => tuple.chains.iter().any(overlaps),
            }
        })
    }

    pub(super) fn contained(&self, flows: &Flows, matching: &FlowMatch) -> Vec<u32> {
        let mask = matching.mask();
        let mut found = Vec::new();
        for tuple in &self.tuples {
            if (0..FLOW_WORDS).any(|word| mask[word] & !tuple.mask[word] != 0) {
                continue;
            }
            if tuple.mask == *mask {
                let chain = tuple.chain(&self.hash, matching.value());
                found.extend(chain.into_iter().flat_map(Chain::places).map(|(_, place)| place));
                continue;
            }
            for chain in &tuple.chains {
                if matching.contains(&flows.get(chain.head).flow.matching) {
                    found.extend(chain.places().map(|(_, place)| place));
                }
            }
        }
        found
    }

    pub(super) fn places(&self) -> Vec<u32> {
        let chains = self.tuples.iter().flat_map(|tuple| &tuple.chains);
        chains.flat_map(Chain::places).map(|(_, place)| place).collect()
    }

    pub(super) fn insert(&mut self, flows: &Flows, place: u32) {
        let matching = &flows.get(place).flow.matching;
        let rank = rank(flows, place);
        let index = self.tuple_of(matching.mask());
        let (hasher, tuple) = (&self.hash, &mut self.tuples[index as usize]);
        *tuple.priorities.entry(rank.0).or_default() += 1;
        let key = matching.value();
        let Tuple { words, chains, stages, .. } = tuple;
        let hash = hasher.hash(words, key, 0);
        let is_same = |chain: &Chain| is_packed(words, &chain.key, key);
        match chains.find_mut(hash, is_same) {
            Some(chain) if rank > chain.rank => {
                chain.rest.insert(0, (chain.rank.0, chain.head));
                (chain.rank, chain.head) = (rank, place);
            }
            Some(chain) => {
                let at = chain.rest.partition_point(|&(priority, _)| priority > rank.0);
                chain.rest.insert(at, (rank.0, place));
            }
            None => {
                let chain =
                    Chain { key: pack(words, key).collect(), rank, head: place, rest: Vec::new() };
                chains.insert_unique(hash, chain, |chain| hasher.hash_packed(words, &chain.key, 0));
                stages.insert(hasher, key);
                self.prefixes.insert(stages, key);
            }
        }
        self.settle(index);
    }

    pub(super) fn remove(&mut self, flows: &Flows, place: u32) {
        let matching = &flows.get(place).flow.matching;
        let priority = flows.get(place).flow.priority;
        let index = self.by_mask[matching.mask()];
        let tuple = &mut self.tuples[index as usize];
        let count = tuple.priorities.get_mut(&priority).expect("it was counted when it came");
        *count -= 1;
        if *count == 0 {
            tuple.priorities.remove(&priority);
        }
        let hash = self.hash.hash(&tuple.words, matching.value(), 0);
        let has_it = |chain: &Chain| chain.places().any(|(_, other)| other == place);
        let Ok(mut entry) = tuple.chains.find_entry(hash, has_it) else {
            unreachable!("a flow is in the tuple of its mask")
        };
        let chain = entry.get_mut();
        if chain.head != place {
            chain.rest.retain(|&(_, other)| other != place);
        } else if chain.rest.is_empty() {
            entry.remove();
            tuple.stages.remove(&self.hash, matching.value());
            self.prefixes.remove(&tuple.stages, matching.value());
        } else {
            let (_, head) = chain.rest.remove(0);
            (chain.rank, chain.head) = (rank(flows, head), head);
        }
        self.settle(index);
    }

    /// The tuple of a mask, made if there is none.
    fn tuple_of(&mut self, mask: &FlowKey) -> u32 {
        if let Some(&index) = self.by_mask.get(mask) {
            return index;
        }
        let index = self.tuples.len() as u32;
        self.tuples.push(Tuple::new(mask));
        self.by_mask.insert(*mask, index);
        self.order.push(index);
        index
    }

    /// Restores I1 after a change of one tuple, and drops it if it is empty.
    fn settle(&mut self, index: u32) {
        let tuple = &mut self.tuples[index as usize];
        let Some((&priority_max, _)) = tuple.priorities.last_key_value() else {
            return self.drop_tuple(index);
        };
        let is_in_place = tuple.priority_max == priority_max && tuple.chains.len() > 1;
        tuple.priority_max = priority_max;
        if !is_in_place {
            self.order.retain(|&other| other != index);
            let tuples = &self.tuples;
            let is_before = |&other: &u32| tuples[other as usize].priority_max >= priority_max;
            self.order.insert(self.order.partition_point(is_before), index);
        }
    }

    fn drop_tuple(&mut self, index: u32) {
        let last = self.tuples.len() as u32 - 1;
        let tuple = self.tuples.swap_remove(index as usize);
        self.by_mask.remove(&tuple.mask);
        self.order.retain(|&other| other != index);
        if index != last {
            self.by_mask.insert(self.tuples[index as usize].mask, index);
            for other in &mut self.order {
                *other = if *other == last { index } else { *other };
            }
        }
    }
}
