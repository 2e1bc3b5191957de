//! Lookups of one table: the plain reference, a tuple-space search that also returns the bits that
//! it examined, and an engine for bursts. All find the same flow for every key.

mod engine;
mod form;
mod linear;
mod stages;
mod trie;
mod tuple;

pub(crate) use engine::TableEngine;
pub(crate) use linear::LinearIndex;
pub(crate) use tuple::TupleIndex;

use std::sync::Arc;

use warpswitch_flow::flow_hash::FlowHash;
use warpswitch_rules::openflow::{FLOW_WORDS, Flow, FlowKey, FlowMatch};

use crate::flows::Flows;

/// Which lookup the tables use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// The flows in order of priority, one after the other: the reference.
    Linear,
    /// A hash table per mask.
    TupleSpace,
    /// The same, and an engine of `classify` for bursts that no cache answers.
    #[default]
    Engine,
}

/// The flows of a table, arranged for lookup. A flow is its place in [`Flows`].
#[derive(Clone, Debug)]
pub(crate) enum Index {
    /// See [`Lookup::Linear`].
    Linear(LinearIndex),
    /// See [`Lookup::TupleSpace`] and [`Lookup::Engine`].
    Tuple(Box<TupleIndex>),
}

impl Index {
    /// An empty one with this hash.
    pub(crate) fn new(lookup: Lookup, hash: &Arc<FlowHash>) -> Self {
        match lookup {
            Lookup::Linear => Index::Linear(LinearIndex::default()),
            Lookup::TupleSpace | Lookup::Engine => {
                Index::Tuple(Box::new(TupleIndex::new(hash.clone())))
            }
        }
    }

    /// The flow that wins for `key`; the bits that were looked at are added to `examined`.
    #[inline]
    pub(crate) fn find(
        &self,
        flows: &Flows,
        key: &FlowKey,
        examined: Option<&mut FlowKey>,
    ) -> Option<u32> {
        match self {
            Index::Linear(index) => index.find(flows, key, examined),
            Index::Tuple(index) => index.find(key, examined),
        }
    }

    /// The flow with exactly this match and priority.
    pub(crate) fn find_same(&self, flows: &Flows, flow: &Flow) -> Option<u32> {
        match self {
            Index::Linear(index) => index.find_same(flows, flow),
            Index::Tuple(index) => index.find_same(flow),
        }
    }

    /// The flows that `matching` contains, in the order in which they were added.
    pub(crate) fn contained(&self, flows: &Flows, matching: &FlowMatch) -> Vec<u32> {
        let mut found = match self {
            Index::Linear(index) => index.contained(flows, matching),
            Index::Tuple(index) => index.contained(flows, matching),
        };
        found.sort_unstable_by_key(|&place| flows.get(place).order);
        found
    }

    /// Whether some packet may match `flow` and another flow of its priority.
    pub(crate) fn has_overlap(&self, flows: &Flows, flow: &Flow) -> bool {
        match self {
            Index::Linear(index) => index.has_overlap(flows, flow),
            Index::Tuple(index) => index.has_overlap(flows, flow),
        }
    }

    /// All flows, in no particular order.
    pub(crate) fn places(&self) -> Vec<u32> {
        match self {
            Index::Linear(index) => index.places().to_vec(),
            Index::Tuple(index) => index.places(),
        }
    }

    /// Takes up the flow at `place`; none of the same match and priority may be there.
    pub(crate) fn insert(&mut self, flows: &Flows, place: u32) {
        match self {
            Index::Linear(index) => index.insert(flows, place),
            Index::Tuple(index) => index.insert(flows, place),
        }
    }

    /// Forgets the flow at `place`.
    pub(crate) fn remove(&mut self, flows: &Flows, place: u32) {
        match self {
            Index::Linear(index) => index.remove(flows, place),
            Index::Tuple(index) => index.remove(flows, place),
        }
    }
}

/// Adds the bits of `mask` to `examined`.
fn add_bits(examined: Option<&mut FlowKey>, mask: &FlowKey) {
    if let Some(examined) = examined {
        for word in 0..FLOW_WORDS {
            examined[word] |= mask[word];
        }
    }
}

#[cfg(test)]
mod tests;
