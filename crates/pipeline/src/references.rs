//! Which flows refer to which groups and meters.

use std::collections::{BTreeSet, HashMap};

use warpswitch_rules::openflow::{Flow, FlowAction};

use crate::change::actions;

/// Places of flows by the groups and meters that they refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct References {
    groups: HashMap<u32, BTreeSet<u32>>,
    meters: HashMap<u32, BTreeSet<u32>>,
}

impl References {
    pub(crate) fn add(&mut self, place: u32, flow: &Flow) {
        for id in groups_of(flow) {
            self.groups.entry(id).or_default().insert(place);
        }
        if let Some(id) = flow.instructions.meter {
            self.meters.entry(id).or_default().insert(place);
        }
    }

    pub(crate) fn remove(&mut self, place: u32, flow: &Flow) {
        let forget = |places: &mut HashMap<u32, BTreeSet<u32>>, id: u32| {
            if let Some(known) = places.get_mut(&id) {
                known.remove(&place);
                if known.is_empty() {
                    places.remove(&id);
                }
            }
        };
        groups_of(flow).for_each(|id| forget(&mut self.groups, id));
        if let Some(id) = flow.instructions.meter {
            forget(&mut self.meters, id);
        }
    }

    /// Places of the flows that refer to a group.
    pub(crate) fn of_group(&self, id: u32) -> impl ExactSizeIterator<Item = u32> + '_ {
        static NONE: BTreeSet<u32> = BTreeSet::new();
        self.groups.get(&id).unwrap_or(&NONE).iter().copied()
    }

    /// Places of the flows that refer to a meter.
    pub(crate) fn of_meter(&self, id: u32) -> impl ExactSizeIterator<Item = u32> + '_ {
        static NONE: BTreeSet<u32> = BTreeSet::new();
        self.meters.get(&id).unwrap_or(&NONE).iter().copied()
    }
}

fn groups_of(flow: &Flow) -> impl Iterator<Item = u32> + '_ {
    actions(flow).filter_map(|action| match action {
        FlowAction::Group(id) => Some(*id),
        _ => None,
    })
}
