//! Whether instructions and actions are possible, and fit the packets that a flow matches
//! (specification 1.3.5, 7.2.2.4 and 7.4.3).
//!
//! A list of actions is walked with the match of the flow, which each action changes as it will
//! change the packet. What a field needs beside it is then what the match demands. An action set is
//! executed behind flows of other tables, so of its actions only the kinds and values are checked.

use warpswitch_rules::openflow::{
    FieldNeeds, Flow, FlowAction, FlowMatch, Group, GroupType, Instructions, MatchField, Meter,
    Oxm, Refusal, Subfield, field, port,
};

use crate::action_set::rank;
use crate::frame::PBB;
use crate::group::{Groups, has_loop};
use crate::meter::Meters;
use crate::ports::Ports;

/// Actions of one flow, bucket or packet-out.
pub const ACTIONS_MAX: usize = 1024;
/// Buckets of a group.
pub const BUCKETS_MAX: usize = 256;
/// Bands of a meter.
pub const BANDS_MAX: usize = 16;
/// The largest number of a real meter.
pub const METER_MAX: u32 = 0xffff_0000;

/// What actions may refer to.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) tables: usize,
    pub(crate) groups: &'a Groups,
    pub(crate) meters: &'a Meters,
    pub(crate) ports: &'a Ports,
}

impl Known<'_> {
    /// Checks a flow.
    pub(crate) fn check_flow(&self, flow: &Flow) -> Result<(), Refusal> {
        self.check_instructions(flow.table, &flow.matching, &flow.instructions)
    }

    /// Checks what flows of `table` with this match get as instructions.
    pub(crate) fn check_instructions(
        &self,
        table: u8,
        matching: &FlowMatch,
        instructions: &Instructions,
    ) -> Result<(), Refusal> {
        if let Some(next) = instructions.goto_table
            && (next <= table || usize::from(next) >= self.tables)
        {
            return Err(Refusal::BadGoto);
        }
        if let Some(meter) = instructions.meter
            && !self.meters.contains_key(&meter)
        {
            return Err(Refusal::BadMeter);
        }
        if instructions.apply.len() + instructions.write.len() > ACTIONS_MAX {
            return Err(Refusal::TooManyActions);
        }
        self.check_list(&instructions.apply, matching)?;
        self.check_set(&instructions.write, |_| false)
    }

    /// Checks a list of actions for packets of a match.
    pub(crate) fn check_list(
        &self,
        actions: &[FlowAction],
        matching: &FlowMatch,
    ) -> Result<(), Refusal> {
        let mut packet = *matching;
        for action in actions {
            self.check_values(action)?;
            check_needs(action, &packet)?;
            change(action, &mut packet);
        }
        Ok(())
    }

    /// Checks an action set; actions that `is_skipped` accepts may stand in it without a place.
    fn check_set(
        &self,
        actions: &[FlowAction],
        is_skipped: fn(&FlowAction) -> bool,
    ) -> Result<(), Refusal> {
        for action in actions.iter().filter(|action| !is_skipped(action)) {
            self.check_values(action)?;
            rank(action).ok_or(Refusal::BadActionSet)?;
        }
        Ok(())
    }

    /// Checks the values of an action, for any packet.
    fn check_values(&self, action: &FlowAction) -> Result<(), Refusal> {
        let require = |is_right, refusal| if is_right { Ok(()) } else { Err(refusal) };
        match *action {
            FlowAction::Output { port, .. } => require(is_output(port), Refusal::BadOutPort),
            FlowAction::Group(id) => require(self.groups.contains_key(&id), Refusal::BadOutGroup),
            FlowAction::PushVlan(ether_type) => {
                require(matches!(ether_type, 0x8100 | 0x88a8), Refusal::BadActionArgument)
            }
            FlowAction::PushMpls(ether_type) => {
                require(matches!(ether_type, 0x8847 | 0x8848), Refusal::BadActionArgument)
            }
            FlowAction::PushPbb(ether_type) => {
                require(ether_type == PBB, Refusal::BadActionArgument)
            }
            FlowAction::SetField { field, value, mask } => {
                require(field.is_settable, Refusal::BadSetField)?;
                let max = field.range.value_max();
                require(value <= max && mask <= max, Refusal::BadActionArgument)
            }
            FlowAction::Move { source, target } => {
                check_bits(source)?;
                check_bits(target)?;
                require(target.field.is_settable, Refusal::BadSetField)?;
                require(source.bits == target.bits, Refusal::BadActionArgument)
            }
            FlowAction::OutputBits { source, .. } | FlowAction::StackPush(source) => {
                check_bits(source)
            }
            FlowAction::StackPop(target) => {
                check_bits(target)?;
                require(target.field.is_settable, Refusal::BadSetField)
            }
            FlowAction::Resubmit { table, .. } => {
                let is_there = table.is_none_or(|table| usize::from(table) < self.tables);
                require(is_there, Refusal::BadActionArgument)
            }
            _ => Ok(()),
        }
    }

    /// Checks a group; `Groups` may have an older one with its number.
    pub(crate) fn check_group(&self, group: &Group) -> Result<(), Refusal> {
        if group.id > port::GROUP_MAX {
            return Err(Refusal::InvalidGroup);
        }
        if group.buckets.len() > BUCKETS_MAX {
            return Err(Refusal::OutOfBuckets);
        }
        if group.kind == GroupType::Indirect && group.buckets.len() != 1 {
            return Err(Refusal::InvalidGroup);
        }
        let has_weights = group.kind == GroupType::Select;
        for bucket in &group.buckets {
            if bucket.weight != 0 && !has_weights {
                return Err(Refusal::InvalidGroup);
            }
            let watches = (bucket.watch_port != port::ANY, bucket.watch_group != port::GROUP_ANY);
            if group.kind == GroupType::FastFailover && watches == (false, false) {
                return Err(Refusal::InvalidGroup);
            }
            let is_port_known = !watches.0 || self.ports.contains_key(&bucket.watch_port);
            let is_group_known = !watches.1 || self.groups.contains_key(&bucket.watch_group);
            if !is_port_known || !is_group_known {
                return Err(Refusal::BadWatch);
            }
            let is_self = |action: &FlowAction| *action == FlowAction::Group(group.id);
            if bucket.actions.iter().any(is_self) {
                return Err(Refusal::GroupLoop);
            }
            if bucket.actions.len() > ACTIONS_MAX {
                return Err(Refusal::TooManyActions);
            }
            // `enqueue` has a pop_queue, which has no effect in a bucket.
            self.check_set(&bucket.actions, |action| *action == FlowAction::PopQueue)?;
        }
        if has_loop(group, self.groups) { Err(Refusal::GroupLoop) } else { Ok(()) }
    }
}

/// Checks a meter by itself.
pub(crate) fn check_meter(meter: &Meter) -> Result<(), Refusal> {
    if meter.id == 0 || meter.id > METER_MAX {
        return Err(Refusal::InvalidMeter);
    }
    if meter.bands.len() > BANDS_MAX {
        return Err(Refusal::OutOfBands);
    }
    match meter.bands.iter().any(|band| band.rate == 0) {
        true => Err(Refusal::BadRate),
        false => Ok(()),
    }
}

/// Whether an output may name the port.
fn is_output(number: u32) -> bool {
    matches!(number, 1..=port::MAX | port::IN_PORT..=port::LOCAL)
}

fn check_bits(bits: Subfield) -> Result<(), Refusal> {
    let end = usize::from(bits.offset) + usize::from(bits.bits);
    match bits.bits > 0 && end <= bits.field.range.bits {
        true => Ok(()),
        false => Err(Refusal::BadActionArgument),
    }
}

/// Whether packets of the match have what the action changes.
fn check_needs(action: &FlowAction, packet: &FlowMatch) -> Result<(), Refusal> {
    let field_needs = |bits: Subfield| bits.field.needs;
    let needs = match *action {
        FlowAction::PopVlan => [FieldNeeds::Vlan, FieldNeeds::Nothing],
        FlowAction::PopMpls(_)
        | FlowAction::SetMplsTtl(_)
        | FlowAction::DecMplsTtl
        | FlowAction::CopyTtlOut
        | FlowAction::CopyTtlIn => [FieldNeeds::Mpls, FieldNeeds::Nothing],
        FlowAction::PopPbb => [FieldNeeds::Pbb, FieldNeeds::Nothing],
        FlowAction::SetNwTtl(_) | FlowAction::DecNwTtl => [FieldNeeds::Ip, FieldNeeds::Nothing],
        FlowAction::SetField { field, .. } => [field.needs, FieldNeeds::Nothing],
        FlowAction::Move { source, target } => [field_needs(source), field_needs(target)],
        FlowAction::OutputBits { source, .. } | FlowAction::StackPush(source) => {
            [field_needs(source), FieldNeeds::Nothing]
        }
        FlowAction::StackPop(target) => [field_needs(target), FieldNeeds::Nothing],
        _ => return Ok(()),
    };
    // The tag of a flow that sets it is there, whatever bits of it the match looks at.
    let is_met = |needs: FieldNeeds| needs == FieldNeeds::InPort || needs.are_met(packet);
    let is_vid = matches!(action, FlowAction::SetField { field, .. } if is_vlan_vid(field));
    let is_right = needs.into_iter().all(is_met) && (!is_vid || FieldNeeds::Vlan.are_met(packet));
    if is_right { Ok(()) } else { Err(Refusal::BadActionMatch) }
}

fn is_vlan_vid(field: &MatchField) -> bool {
    (field.oxm.class, field.oxm.number) == (Oxm::BASIC, 6)
}

/// Changes the match to what it is of packets behind the action.
fn change(action: &FlowAction, packet: &mut FlowMatch) {
    let mut set = |name: &str, value: u16, mask: u128| {
        packet.set(field(name).expect("a field of OpenFlow"), u128::from(value), mask);
    };
    let all = u128::MAX;
    match *action {
        FlowAction::PushVlan(_) => set("vlan_vid", 0x1000, 0x1000),
        // What was under the tag is not known, so a further tag may be.
        FlowAction::PopVlan => set("vlan_vid", 0, 0),
        FlowAction::PushMpls(ether_type) | FlowAction::PushPbb(ether_type) => {
            set("eth_type", ether_type, all);
            set("vlan_vid", 0, 0);
        }
        FlowAction::PopMpls(ether_type) => set("eth_type", ether_type, all),
        FlowAction::PopPbb => {
            set("eth_type", 0, 0);
            set("vlan_vid", 0, 0);
        }
        FlowAction::SetField { field, value, mask } if is_kind(field) => {
            let (old, old_mask) = packet.get(field);
            packet.set(field, old & !mask | value & mask, old_mask | mask);
        }
        _ => {}
    }
}

/// Whether other fields need this one.
fn is_kind(field: &MatchField) -> bool {
    let is_tag = (field.oxm.class, field.oxm.number) == (Oxm::NXM, 4);
    is_tag || field.oxm.class == Oxm::BASIC && matches!(field.oxm.number, 5 | 10 | 29)
}
