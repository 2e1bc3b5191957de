//! The reference: flows in the order in which they win, one after the other.

use warpswitch_rules::openflow::{Flow, FlowKey, FlowMatch};

use super::add_bits;
use crate::flows::Flows;

/// Places of flows: larger priorities first, at a tie the flow that was added first.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinearIndex {
    order: Vec<u32>,
}

impl LinearIndex {
    pub(super) fn find(
        &self,
        flows: &Flows,
        key: &FlowKey,
        mut examined: Option<&mut FlowKey>,
    ) -> Option<u32> {
        self.order.iter().copied().find(|&place| {
            let matching = &flows.get(place).flow.matching;
            add_bits(examined.as_deref_mut(), matching.mask());
            matching.matches(key)
        })
    }

    pub(super) fn find_same(&self, flows: &Flows, flow: &Flow) -> Option<u32> {
        let start = self.order.partition_point(|&p| flows.get(p).flow.priority > flow.priority);
        self.order[start..]
            .iter()
            .copied()
            .take_while(|&place| flows.get(place).flow.priority == flow.priority)
            .find(|&place| flows.get(place).flow.matching == flow.matching)
    }

    pub(super) fn has_overlap(&self, flows: &Flows, flow: &Flow) -> bool {
        self.order.iter().any(|&place| {
            let other = &flows.get(place).flow;
            other.priority == flow.priority && other.matching.overlaps(&flow.matching)
        })
    }

    pub(super) fn contained(&self, flows: &Flows, matching: &FlowMatch) -> Vec<u32> {
        let is_contained = |&place: &u32| matching.contains(&flows.get(place).flow.matching);
        self.order.iter().copied().filter(is_contained).collect()
    }

    pub(super) fn places(&self) -> &[u32] {
        &self.order
    }

    pub(super) fn insert(&mut self, flows: &Flows, place: u32) {
        let at = self.place_of(flows, place);
        self.order.insert(at, place);
    }

    pub(super) fn remove(&mut self, flows: &Flows, place: u32) {
        let at = self.place_of(flows, place);
        self.order.remove(at);
    }

    /// Where the flow is, or belongs.
    fn place_of(&self, flows: &Flows, place: u32) -> usize {
        let rank = |place: u32| {
            let entry = flows.get(place);
            (std::cmp::Reverse(entry.flow.priority), entry.order)
        };
        self.order.partition_point(|&other| rank(other) < rank(place))
    }
}
