//! One flow table: its lookup, its limit, and which flow it evicts for another.

use std::collections::BTreeSet;
use std::sync::Arc;

use warpswitch_flow::PackedKey;
use warpswitch_flow::flow_hash::FlowHash;
use warpswitch_flow::programs::NO_FLOW;

use crate::engines::TableEngines;
use crate::flows::{Entry, Flows};
use crate::lookup::{Index, Lookup, TableEngine};

/// What a table may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSettings {
    /// The most flows that it holds.
    pub flows_max: u32,
    /// Whether a full table evicts its flow of least importance for one of no less importance.
    pub is_evicting: bool,
}

/// What a table has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Its number.
    pub table: u8,
    /// Flows in it.
    pub flows: u32,
    /// Packets that were looked up.
    pub lookups: u64,
    /// Packets that matched.
    pub matches: u64,
}

/// A flow table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) index: Index,
    pub(crate) settings: TableSettings,
    pub(crate) len: u32,
    /// Flows by importance, then by age; kept only by a table that evicts.
    by_importance: BTreeSet<(u16, u64, u32)>,
    /// Built for the first burst; none if the lookup is another one.
    engine: Option<Box<TableEngine>>,
    lookup: Lookup,
    hash: Arc<FlowHash>,
    engines: TableEngines,
}

/// Flows from which an engine is worth its memory.
const ENGINE_FLOWS_MIN: u32 = 8;

impl Table {
    pub(crate) fn new(
        lookup: Lookup,
        hash: &Arc<FlowHash>,
        engines: &TableEngines,
        settings: TableSettings,
    ) -> Self {
        Self {
            index: Index::new(lookup, hash),
            settings,
            len: 0,
            by_importance: BTreeSet::new(),
            engine: None,
            lookup,
            hash: hash.clone(),
            engines: engines.clone(),
        }
    }

    /// The winners of the keys of `group`, in its order; `NO_FLOW` for none.
    pub(crate) fn find_burst(
        &mut self,
        flows: &Flows,
        keys: &[PackedKey],
        group: &[u32],
        winners: &mut Vec<u32>,
    ) {
        if self.lookup == Lookup::Engine {
            match &mut self.engine {
                None if self.len >= ENGINE_FLOWS_MIN => {
                    let places = self.index.places();
                    let engine = TableEngine::new(flows, &places, &self.hash, &self.engines);
                    self.engine = Some(Box::new(engine));
                }
                Some(engine) if engine.is_worn() => engine.build(flows, &self.index.places()),
                _ => {}
            }
        }
        if let Some(engine) = &mut self.engine {
            return engine.find(keys, group, winners);
        }
        let find = |&idx: &u32| self.index.find(flows, &keys[idx as usize].to_key(), None);
        winners.clear();
        winners.extend(group.iter().map(|idx| find(idx).unwrap_or(NO_FLOW)));
    }

    /// Changes what it may hold; flows above a lower limit stay.
    pub(crate) fn configure(&mut self, flows: &Flows, settings: TableSettings) {
        self.settings = settings;
        self.by_importance = match settings.is_evicting {
            false => BTreeSet::new(),
            true => {
                let places = self.index.places();
                places.into_iter().map(|place| rank(flows.get(place), place)).collect()
            }
        };
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.settings.flows_max
    }

    /// The flow that goes for one of this importance.
    pub(crate) fn victim(&self, importance: u16) -> Option<u32> {
        let &(least, _, place) = self.by_importance.first()?;
        (least <= importance).then_some(place)
    }

    pub(crate) fn insert(&mut self, flows: &Flows, place: u32) {
        self.index.insert(flows, place);
        if let Some(engine) = &mut self.engine {
            engine.insert(flows, place);
        }
        self.len += 1;
        if self.settings.is_evicting {
            self.by_importance.insert(rank(flows.get(place), place));
        }
    }

    pub(crate) fn remove(&mut self, flows: &Flows, place: u32) {
        self.index.remove(flows, place);
        if let Some(engine) = &mut self.engine {
            engine.remove(flows, place);
        }
        self.len -= 1;
        self.by_importance.remove(&rank(flows.get(place), place));
    }
}

fn rank(entry: &Entry, place: u32) -> (u16, u64, u32) {
    (entry.flow.importance, entry.order, place)
}
