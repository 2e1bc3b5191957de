//! What an agent needs of the switch behind it.

use warpswitch_rules::openflow::{
    FlowAction, FlowFilter, FlowMod, FlowStats, Group, GroupMod, Meter, MeterMod, Refusal,
};

use crate::{
    Counters, FlowTotals, FragmentPolicy, GroupFeatures, GroupStats, MeterFeatures, MeterStats,
    PortDescription, PortMod, PortStats, QueueStats, TableFeatures, TableStats,
};

/// One change of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "nearly all changes of bundles are of flows")]
pub enum Change {
    /// A change of flows.
    Flow(FlowMod),
    /// A change of a group.
    Group(GroupMod),
    /// A change of a meter.
    Meter(MeterMod),
}

/// The change of a bundle that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedChange {
    /// Its place in the bundle.
    pub index: usize,
    /// Why.
    pub refusal: Refusal,
}

/// The switch behind an agent.
///
/// All times are nanoseconds of the caller's clock. What a call causes beside its result (removed
/// flows, packets for controllers) must not reach the agent during the call: the caller hands it
/// over afterwards ([`super::Agent::flow_removed`], [`super::Agent::packet_in`]).
pub trait Datapath {
    /// Changes flows.
    ///
    /// # Errors
    /// The reason for which nothing was changed.
    fn flow_mod(&mut self, change: &FlowMod, now_ns: u64) -> Result<(), Refusal>;

    /// Changes a group.
    ///
    /// # Errors
    /// The reason for which nothing was changed.
    fn group_mod(&mut self, change: &GroupMod, now_ns: u64) -> Result<(), Refusal>;

    /// Changes a meter.
    ///
    /// # Errors
    /// The reason for which nothing was changed.
    fn meter_mod(&mut self, change: &MeterMod, now_ns: u64) -> Result<(), Refusal>;

    /// Makes all changes, in this order, or none of them. Packets see the state before or after.
    ///
    /// # Errors
    /// The first change that is refused.
    fn commit(&mut self, changes: &[Change], now_ns: u64) -> Result<(), FailedChange>;

    /// Returns when every change before it is in force for every packet after it.
    fn barrier(&mut self) {}

    /// Processes a frame by a list of actions.
    ///
    /// # Errors
    /// The reason for which nothing was done.
    fn packet_out(
        &mut self,
        in_port: u32,
        actions: &[FlowAction],
        frame: &[u8],
        now_ns: u64,
    ) -> Result<(), Refusal>;

    /// Changes the settings of a port that exists; [`PortMod::apply`] has the new ones. The
    /// caller reports the change by [`super::Agent::port_status`].
    fn port_mod(&mut self, change: &PortMod);

    /// Whether fragments are handled like that from now on.
    fn set_fragments(&mut self, policy: FragmentPolicy) -> bool {
        policy == FragmentPolicy::Normal
    }

    /// The flows that a filter selects.
    fn flows(&self, filter: &FlowFilter, now_ns: u64) -> Vec<FlowStats>;

    /// The sum over the flows that a filter selects.
    fn aggregate(&self, filter: &FlowFilter, now_ns: u64) -> FlowTotals {
        let mut totals = FlowTotals::default();
        for flow in self.flows(filter, now_ns) {
            let Counters { packets, bytes } = &mut totals.counters;
            *packets = packets.saturating_add(flow.packets);
            *bytes = bytes.saturating_add(flow.bytes);
            totals.flows += 1;
        }
        totals
    }

    /// The number of tables; they are numbered from 0.
    fn tables_len(&self) -> u8;

    /// Counters of every table.
    fn table_stats(&self) -> Vec<TableStats>;

    /// Abilities of every table.
    fn table_features(&self) -> Vec<TableFeatures>;

    /// Every port.
    fn ports(&self) -> Vec<PortDescription>;

    /// Counters of every port.
    fn port_stats(&self, now_ns: u64) -> Vec<PortStats>;

    /// Counters of every queue. By default ports have none, as those of Open vSwitch without QoS.
    fn queues(&self, _now_ns: u64) -> Vec<QueueStats> {
        Vec::new()
    }

    /// Every group.
    fn groups(&self) -> Vec<Group>;

    /// Counters of every group.
    fn group_stats(&self, now_ns: u64) -> Vec<GroupStats>;

    /// Limits of groups.
    fn group_features(&self) -> GroupFeatures;

    /// Every meter.
    fn meters(&self) -> Vec<Meter>;

    /// Counters of every meter.
    fn meter_stats(&self, now_ns: u64) -> Vec<MeterStats>;

    /// Limits of meters.
    fn meter_features(&self) -> MeterFeatures;
}
