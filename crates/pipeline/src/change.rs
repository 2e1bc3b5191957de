//! Changes of flows, groups and meters (specification 1.3.5, sections 6.4 to 6.7).

use std::collections::BTreeSet;

use warpswitch_flow::Change;
use warpswitch_rules::openflow::{
    Flow, FlowAction, FlowCommand, FlowFilter, FlowMod, FlowRemoved, FlowStats, Group, GroupMod,
    Instructions, Meter, MeterMod, Refusal, RemovalReason, port,
};

use crate::check::check_meter;
use crate::flows::{Entry, FlowCounters, Plan};
use crate::group::GroupCounters;
use crate::meter::MeterState;
use crate::pipeline::Pipeline;
use crate::table::TableSettings;
use crate::undo::Undo;

/// All meters, in deletions.
pub const METER_ALL: u32 = u32::MAX;

impl Pipeline {
    /// Changes flows. All or nothing is changed. Gives the flows that went away, whether or not
    /// their flags request a message; a replaced flow is none of them.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn flow_mod(&mut self, change: &FlowMod, now: u64) -> Result<Vec<FlowRemoved>, Refusal> {
        let table = change.flow.table;
        let is_deletion = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let is_all = table == port::TABLE_ALL && is_deletion;
        if usize::from(table) >= self.tables.len() && !is_all {
            return Err(Refusal::NoSuchTable);
        }
        match change.command {
            FlowCommand::Add => self.add_flow(&change.flow, now),
            FlowCommand::Modify | FlowCommand::ModifyStrict => {
                self.modify_flows(change)?;
                Ok(Vec::new())
            }
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                let places = self.chosen(change);
                Ok(self.remove_flows(places, RemovalReason::Delete, now))
            }
        }
    }

    fn add_flow(&mut self, flow: &Flow, now: u64) -> Result<Vec<FlowRemoved>, Refusal> {
        self.known().check_flow(flow)?;
        let table = &self.tables[usize::from(flow.table)];
        if flow.flags.check_overlap && self.has_overlap(flow) {
            return Err(Refusal::Overlap);
        }
        let old = table.index.find_same(&self.flows, flow);
        let mut removed = Vec::new();
        let mut counters = FlowCounters::default();
        match old {
            Some(place) => {
                let kept = self.take_out(place).1;
                if !flow.flags.reset_counts {
                    counters = kept;
                }
            }
            None if table.is_full() => {
                let victim = table.victim(flow.importance).ok_or(Refusal::TableFull)?;
                removed = self.remove_flows(vec![victim], RemovalReason::Eviction, now);
            }
            None => {}
        }
        counters.used_ns = now;
        self.put_in(flow.clone(), counters, now);
        Ok(removed)
    }

    /// Whether some packet may match `flow` and another flow of the same priority.
    fn has_overlap(&self, flow: &Flow) -> bool {
        self.tables[usize::from(flow.table)].index.has_overlap(&self.flows, flow)
    }

    fn modify_flows(&mut self, change: &FlowMod) -> Result<(), Refusal> {
        let places = self.chosen(change);
        for &place in &places {
            let flow = &self.flows.get(place).flow;
            let instructions = &change.flow.instructions;
            self.known().check_instructions(flow.table, &flow.matching, instructions)?;
        }
        // A change of nothing is checked for itself, so that its mistakes show.
        self.known().check_flow(&change.flow)?;
        for place in places {
            let old = self.counts.flows[place as usize];
            let instructions = self.set_instructions(place, &change.flow.instructions);
            self.note_undo(|| Undo::Modify(place, Box::new((instructions, old))));
            if change.flow.flags.reset_counts {
                let counters = &mut self.counts.flows[place as usize];
                (counters.packets, counters.bytes) = (0, 0);
            }
            self.changes.push(Change::Flow(place));
        }
        Ok(())
    }

    /// Gives a flow other instructions; returns the old ones.
    pub(crate) fn set_instructions(&mut self, place: u32, new: &Instructions) -> Instructions {
        let flow = &mut self.flows.get_mut(place).flow;
        self.references.remove(place, flow);
        let old = std::mem::replace(&mut flow.instructions, new.clone());
        self.references.add(place, flow);
        self.counts.flows[place as usize].plan = Plan::of(flow);
        old
    }

    /// The flows that a modification or deletion is about.
    fn chosen(&self, change: &FlowMod) -> Vec<u32> {
        let is_strict =
            matches!(change.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
        let is_deletion = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let filter = FlowFilter {
            table: change.flow.table,
            matching: change.flow.matching,
            cookie: change.flow.cookie,
            cookie_mask: change.cookie_mask,
            out_port: if is_deletion { change.out_port } else { port::ANY },
            out_group: if is_deletion { change.out_group } else { port::GROUP_ANY },
        };
        if !is_strict {
            return self.filtered(&filter);
        }
        let tables = self.tables_of(change.flow.table);
        let same = tables
            .filter_map(|table| self.tables[table].index.find_same(&self.flows, &change.flow));
        same.filter(|&place| passes(&self.flows.get(place).flow, &filter)).collect()
    }

    fn tables_of(&self, table: u8) -> std::ops::Range<usize> {
        match usize::from(table) {
            _ if table == port::TABLE_ALL => 0..self.tables.len(),
            table if table < self.tables.len() => table..table + 1,
            _ => 0..0,
        }
    }

    fn filtered(&self, filter: &FlowFilter) -> Vec<u32> {
        let tables = self.tables_of(filter.table);
        let contained = tables
            .flat_map(|table| self.tables[table].index.contained(&self.flows, &filter.matching));
        contained.filter(|&place| passes(&self.flows.get(place).flow, filter)).collect()
    }

    /// The flows that a filter lets pass: by table, and in the order in which they were added.
    pub fn flows(&self, filter: &FlowFilter, now: u64) -> Vec<FlowStats> {
        let stats = |place: u32| {
            let (entry, counters) = (self.flows.get(place), self.counts.flows[place as usize]);
            FlowStats {
                flow: entry.flow.clone(),
                packets: counters.packets,
                bytes: counters.bytes,
                age_ns: now.saturating_sub(entry.created_ns),
            }
        };
        self.filtered(filter).into_iter().map(stats).collect()
    }

    /// Flows in all tables.
    pub fn flows_len(&self) -> usize {
        self.flows.len()
    }

    /// Packets, bytes and number of the flows that a filter lets pass.
    pub fn flow_totals(&self, filter: &FlowFilter) -> (u64, u64, u32) {
        self.filtered(filter).into_iter().fold((0, 0, 0), |(packets, bytes, flows), place| {
            let counters = &self.counts.flows[place as usize];
            (packets.wrapping_add(counters.packets), bytes.wrapping_add(counters.bytes), flows + 1)
        })
    }

    fn put_in(&mut self, flow: Flow, counters: FlowCounters, now: u64) {
        let place = self.flows.insert(flow, now);
        self.enter(place, counters);
        self.deadlines.add(place, self.flows.get(place), now);
        self.note_undo(|| Undo::TakeOut(place));
    }

    /// Puts a flow back that was taken out last, with its time-outs.
    pub(crate) fn put_back(&mut self, entry: Entry, counters: FlowCounters) {
        let place = self.flows.put_back(entry);
        self.enter(place, counters);
        self.deadlines.remember(self.flows.get(place));
    }

    /// Enters a flow into its table, and notes the change.
    fn enter(&mut self, place: u32, counters: FlowCounters) {
        if self.counts.flows.len() <= place as usize {
            self.counts.flows.resize(place as usize + 1, FlowCounters::default());
        }
        let flow = &self.flows.get(place).flow;
        let (table, priority, matching) = (flow.table, flow.priority, flow.matching);
        self.counts.flows[place as usize] = FlowCounters { plan: Plan::of(flow), ..counters };
        self.references.add(place, flow);
        self.tables[usize::from(table)].insert(&self.flows, place);
        self.changes.push(Change::Added { table, priority, matching });
    }

    pub(crate) fn take_out(&mut self, place: u32) -> (Entry, FlowCounters) {
        let flow = &self.flows.get(place).flow;
        self.references.remove(place, flow);
        self.tables[usize::from(flow.table)].remove(&self.flows, place);
        self.deadlines.forget(self.flows.get(place));
        let counters = self.counts.flows[place as usize];
        let entry = self.flows.remove(place);
        self.changes.push(Change::Flow(place));
        self.note_undo(|| Undo::PutBack(Box::new((entry.clone(), counters))));
        (entry, counters)
    }

    pub(crate) fn remove_flows(
        &mut self,
        places: Vec<u32>,
        reason: RemovalReason,
        now: u64,
    ) -> Vec<FlowRemoved> {
        let mut removed = Vec::with_capacity(places.len());
        for place in places {
            let (entry, counters) = self.take_out(place);
            removed.push(FlowRemoved { stats: entry.into_stats(counters, now), reason });
        }
        removed
    }

    /// Changes what a table may hold.
    ///
    /// # Errors
    /// [`Refusal::NoSuchTable`].
    pub fn configure_table(&mut self, table: u8, settings: TableSettings) -> Result<(), Refusal> {
        let slot = self.tables.get_mut(usize::from(table)).ok_or(Refusal::NoSuchTable)?;
        slot.configure(&self.flows, settings);
        Ok(())
    }

    /// Changes groups. Gives the flows that went away with a group.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn group_mod(&mut self, change: &GroupMod, now: u64) -> Result<Vec<FlowRemoved>, Refusal> {
        match change {
            GroupMod::Add(group) => {
                if self.groups.contains_key(&group.id) {
                    return Err(Refusal::GroupExists);
                }
                if self.groups.len() >= self.options.groups_max {
                    return Err(Refusal::OutOfGroups);
                }
                self.put_group(group, now)?;
                Ok(Vec::new())
            }
            GroupMod::Modify(group) => {
                if !self.groups.contains_key(&group.id) {
                    return Err(Refusal::UnknownGroup);
                }
                self.put_group(group, now)?;
                Ok(Vec::new())
            }
            GroupMod::Delete(id) => Ok(self.delete_groups(*id, now)),
        }
    }

    /// A modified group starts to count anew, but keeps its age.
    fn put_group(&mut self, group: &Group, now: u64) -> Result<(), Refusal> {
        self.known().check_group(group)?;
        let created_ns = self.counts.groups.get(&group.id).map_or(now, |old| old.created_ns);
        let buckets = vec![(0, 0); group.buckets.len()];
        let counters = GroupCounters { created_ns, total: (0, 0), buckets };
        let old = self.replace_group(group.id, Some((group.clone(), counters)));
        self.note_undo(|| Undo::Group(group.id, old));
        Ok(())
    }

    /// Adds, replaces or removes a group; returns the old one.
    pub(crate) fn replace_group(
        &mut self,
        id: u32,
        new: Option<(Group, GroupCounters)>,
    ) -> Option<(Group, GroupCounters)> {
        self.changes.push(Change::Group);
        let old = self.groups.remove(&id).zip(self.counts.groups.remove(&id));
        if let Some((group, counters)) = new {
            self.counts.groups.insert(id, counters);
            self.groups.insert(id, group);
        }
        old
    }

    fn delete_groups(&mut self, id: u32, now: u64) -> Vec<FlowRemoved> {
        let gone: Vec<u32> = match id {
            port::GROUP_ALL => self.groups.keys().copied().collect(),
            id => self.groups.contains_key(&id).then_some(id).into_iter().collect(),
        };
        for &id in &gone {
            let old = self.replace_group(id, None);
            self.note_undo(|| Undo::Group(id, old));
        }
        let users: BTreeSet<u32> =
            gone.iter().flat_map(|&id| self.references.of_group(id)).collect();
        self.remove_flows(users.into_iter().collect(), RemovalReason::GroupDelete, now)
    }

    /// Changes meters. Gives the flows that went away with a meter.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn meter_mod(&mut self, change: &MeterMod, now: u64) -> Result<Vec<FlowRemoved>, Refusal> {
        match change {
            MeterMod::Add(meter) => {
                if self.meters.contains_key(&meter.id) {
                    return Err(Refusal::MeterExists);
                }
                if self.meters.len() >= self.options.meters_max {
                    return Err(Refusal::OutOfMeters);
                }
                self.put_meter(meter, now)?;
                Ok(Vec::new())
            }
            MeterMod::Modify(meter) => {
                if !self.meters.contains_key(&meter.id) {
                    return Err(Refusal::UnknownMeter);
                }
                self.put_meter(meter, now)?;
                Ok(Vec::new())
            }
            MeterMod::Delete(id) => Ok(self.delete_meters(*id, now)),
        }
    }

    /// A modified meter starts to count anew, but keeps its age.
    fn put_meter(&mut self, meter: &Meter, now: u64) -> Result<(), Refusal> {
        check_meter(meter)?;
        let created_ns = self.meters.get(&meter.id).map_or(now, |old| old.created_ns);
        let state = MeterState { created_ns, ..MeterState::new(meter.clone(), now) };
        let old = self.replace_meter(meter.id, Some(state));
        self.note_undo(|| Undo::Meter(meter.id, old.map(Box::new)));
        Ok(())
    }

    /// Adds, replaces or removes a meter; returns the old one.
    pub(crate) fn replace_meter(&mut self, id: u32, new: Option<MeterState>) -> Option<MeterState> {
        self.changes.push(Change::Meter);
        match new {
            Some(meter) => self.meters.insert(id, meter),
            None => self.meters.remove(&id),
        }
    }

    fn delete_meters(&mut self, id: u32, now: u64) -> Vec<FlowRemoved> {
        let gone: Vec<u32> = match id {
            METER_ALL => self.meters.keys().copied().collect(),
            id => self.meters.contains_key(&id).then_some(id).into_iter().collect(),
        };
        for &id in &gone {
            let old = self.replace_meter(id, None);
            self.note_undo(|| Undo::Meter(id, old.map(Box::new)));
        }
        let users: BTreeSet<u32> =
            gone.iter().flat_map(|&id| self.references.of_meter(id)).collect();
        self.remove_flows(users.into_iter().collect(), RemovalReason::MeterDelete, now)
    }
}

/// All actions of a flow.
pub(crate) fn actions(flow: &Flow) -> impl Iterator<Item = &FlowAction> {
    flow.instructions.apply.iter().chain(&flow.instructions.write)
}

/// Whether a flow has the cookie, output and group that a filter demands.
fn passes(flow: &Flow, filter: &FlowFilter) -> bool {
    let has_port = |action: &FlowAction| match action {
        FlowAction::Output { port, .. } => *port == filter.out_port,
        _ => false,
    };
    let has_group = |action: &FlowAction| *action == FlowAction::Group(filter.out_group);
    (flow.cookie ^ filter.cookie) & filter.cookie_mask == 0
        && (filter.out_port == port::ANY || actions(flow).any(has_port))
        && (filter.out_group == port::GROUP_ANY || actions(flow).any(has_group))
}
