//! The switch as an agent sees it: the pipeline and the ports.

use std::collections::VecDeque;

use warpswitch_flow::FlowCache;
use warpswitch_openflow::{
    Change, Counters, Datapath, FailedChange, FlowTotals, GroupFeatures, GroupStats, MeterFeatures,
    MeterStats, PortChange, PortDescription, PortMod, PortStats, PortStatus, TableFeatures,
    TableStats,
};
use warpswitch_packet::Pool;
use warpswitch_pipeline::{BANDS_MAX, Egress, Ingress, Output, Pipeline};
use warpswitch_rules::openflow::{
    FIELDS, FlowAction, FlowFilter, FlowKey, FlowMod, FlowRemoved, FlowStats, Group, GroupMod,
    Meter, MeterMod, PacketIn, Refusal,
};

use crate::learning::{Forward, LearningTable};
use crate::ports::Ports;

/// Packets for controllers that wait for the end of a burst; further ones are dropped and counted.
const PACKET_INS_MAX: usize = 1024;

/// What is to be reported to the agent.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) packet_ins: VecDeque<PacketIn>,
    pub(crate) removed: Vec<FlowRemoved>,
    pub(crate) ports: Vec<PortStatus>,
    /// Packets for controllers that were dropped because too many waited.
    pub(crate) packet_ins_dropped: u64,
}

/// Where the pipeline's frames go.
pub(crate) struct Outlet {
    pub(crate) ports: Ports,
    pub(crate) pool: Pool,
    pub(crate) learning: LearningTable,
    pub(crate) events: Events,
    /// Frames that a learning switch has no port for.
    pub(crate) stayed: u64,
    /// The time of the burst.
    pub(crate) now_ns: u64,
}

impl Outlet {
    /// Forwards a frame as a learning switch does.
    fn forward(&mut self, key: &FlowKey, frame: &[u8]) {
        let in_port = key[0];
        let egress = |port| Egress::new(port, None, key);
        match self.learning.forward(frame, vlan_of(key), in_port, self.now_ns) {
            Forward::Port(port) => self.ports.send(egress(port), frame, &mut self.pool),
            Forward::Flood => {
                let mut is_sent = false;
                for number in 1..=self.ports.len() as u32 {
                    let port = self.ports.get_mut(number);
                    if number != in_port && port.is_some_and(|port| port.settings().is_flooded) {
                        self.ports.send(egress(number), frame, &mut self.pool);
                        is_sent = true;
                    }
                }
                self.stayed += u64::from(!is_sent);
            }
            Forward::Drop => self.stayed += 1,
        }
    }
}

impl Output for Outlet {
    fn send(&mut self, egress: Egress, frame: &[u8]) {
        self.ports.send(egress, frame, &mut self.pool);
    }

    fn forward(&mut self, egress: Egress, number: usize, frame: &[u8]) {
        self.ports.forward(egress, number, frame, &mut self.pool);
    }

    fn packet_in(&mut self, packet: PacketIn) {
        let port = packet.key[0];
        if self.ports.get_mut(port).is_some_and(|port| port.config.no_packet_in) {
            return;
        }
        if self.events.packet_ins.len() >= PACKET_INS_MAX {
            self.events.packet_ins_dropped += 1;
        } else {
            self.events.packet_ins.push_back(packet);
        }
    }

    fn normal(&mut self, key: &FlowKey, frame: &[u8]) {
        self.forward(key, frame);
    }
}

/// The VLAN id of a packet; 0 without a tag.
pub(crate) fn vlan_of(key: &FlowKey) -> u16 {
    let tci = key[28] as u16;
    if tci & 0x1000 == 0 { 0 } else { tci & 0xfff }
}

/// The pipeline between the ports.
pub(crate) struct SwitchDatapath {
    pub(crate) pipeline: Pipeline,
    pub(crate) outlet: Outlet,
    /// Frames that were looked up in the tables because there is no cache.
    pub(crate) uncached: u64,
}

impl SwitchDatapath {
    /// Takes frames that came in together through the pipeline.
    pub(crate) fn execute(
        &mut self,
        cache: Option<&mut FlowCache>,
        frames: &[&[u8]],
        ingress: impl Into<Ingress>,
        now_ns: u64,
    ) {
        self.uncached += if cache.is_none() { frames.len() as u64 } else { 0 };
        self.pipeline.execute_burst(cache, frames, ingress, now_ns, &mut self.outlet);
    }

    /// Applies a change of a port to the pipeline, and reports it to the controllers later.
    pub(crate) fn port_changed(&mut self, number: u32) {
        let Some(port) = self.outlet.ports.get_mut(number) else { return };
        self.pipeline.set_port(number, port.settings());
        let port = port.description();
        if !port.state.is_live {
            self.outlet.learning.forget_port(number);
        }
        self.outlet.events.ports.push(PortStatus { change: PortChange::Modified, port });
    }

    /// Keeps removed flows for the agent.
    fn removed(&mut self, result: Result<Vec<FlowRemoved>, Refusal>) -> Result<(), Refusal> {
        self.outlet.events.removed.extend(result?);
        Ok(())
    }
}

impl Datapath for SwitchDatapath {
    fn flow_mod(&mut self, change: &FlowMod, now_ns: u64) -> Result<(), Refusal> {
        let result = self.pipeline.flow_mod(change, now_ns);
        self.removed(result)
    }

    fn group_mod(&mut self, change: &GroupMod, now_ns: u64) -> Result<(), Refusal> {
        let result = self.pipeline.group_mod(change, now_ns);
        self.removed(result)
    }

    fn meter_mod(&mut self, change: &MeterMod, now_ns: u64) -> Result<(), Refusal> {
        let result = self.pipeline.meter_mod(change, now_ns);
        self.removed(result)
    }

    fn commit(&mut self, changes: &[Change], now_ns: u64) -> Result<(), FailedChange> {
        let reported = self.outlet.events.removed.len();
        self.pipeline.begin_group();
        for (index, change) in changes.iter().enumerate() {
            let result = match change {
                Change::Flow(change) => self.flow_mod(change, now_ns),
                Change::Group(change) => self.group_mod(change, now_ns),
                Change::Meter(change) => self.meter_mod(change, now_ns),
            };
            if let Err(refusal) = result {
                self.pipeline.end_group(false);
                self.outlet.events.removed.truncate(reported);
                return Err(FailedChange { index, refusal });
            }
        }
        self.pipeline.end_group(true);
        Ok(())
    }

    fn packet_out(
        &mut self,
        in_port: u32,
        actions: &[FlowAction],
        frame: &[u8],
        now_ns: u64,
    ) -> Result<(), Refusal> {
        self.outlet.now_ns = now_ns;
        self.pipeline.packet_out(frame, in_port, actions, now_ns, &mut self.outlet)
    }

    fn port_mod(&mut self, change: &PortMod) {
        if let Some(port) = self.outlet.ports.get_mut(change.number) {
            port.config = change.apply(port.config);
            self.port_changed(change.number);
        }
    }

    fn flows(&self, filter: &FlowFilter, now_ns: u64) -> Vec<FlowStats> {
        self.pipeline.flows(filter, now_ns)
    }

    fn aggregate(&self, filter: &FlowFilter, _now_ns: u64) -> FlowTotals {
        let (packets, bytes, flows) = self.pipeline.flow_totals(filter);
        FlowTotals { counters: Counters { packets, bytes }, flows }
    }

    fn tables_len(&self) -> u8 {
        self.pipeline.options().tables as u8
    }

    fn table_stats(&self) -> Vec<TableStats> {
        let stats = self.pipeline.table_stats().into_iter();
        let convert = |table: warpswitch_pipeline::TableStats| TableStats {
            table: table.table,
            active: table.flows,
            lookups: table.lookups,
            matches: table.matches,
        };
        stats.map(convert).collect()
    }

    fn table_features(&self) -> Vec<TableFeatures> {
        let options = self.pipeline.options();
        let tables = options.tables as u8;
        let fields = || FIELDS.iter().filter(|field| !field.is_view);
        (0..tables)
            .map(|table| TableFeatures {
                table,
                name: format!("table{table}"),
                flows_max: options.table.flows_max,
                next_tables: (table + 1..tables).collect(),
                match_fields: fields().collect(),
                set_fields: fields().filter(|field| field.is_settable).collect(),
            })
            .collect()
    }

    fn ports(&self) -> Vec<PortDescription> {
        self.outlet.ports.iter().map(crate::ports::Port::description).collect()
    }

    fn port_stats(&self, now_ns: u64) -> Vec<PortStats> {
        self.outlet.ports.iter().map(|port| port.stats(now_ns)).collect()
    }

    fn groups(&self) -> Vec<Group> {
        self.pipeline.group_stats(None, 0).into_iter().map(|stats| stats.group).collect()
    }

    fn group_stats(&self, now_ns: u64) -> Vec<GroupStats> {
        let stats = self.pipeline.group_stats(None, now_ns).into_iter();
        let convert = |group: warpswitch_pipeline::GroupStats| GroupStats {
            id: group.group.id,
            ref_count: group.references,
            total: Counters { packets: group.packets, bytes: group.bytes },
            age_ns: group.age_ns,
            buckets: counters(&group.buckets),
        };
        stats.map(convert).collect()
    }

    fn group_features(&self) -> GroupFeatures {
        GroupFeatures { groups_max: self.pipeline.options().groups_max as u32 }
    }

    fn meters(&self) -> Vec<Meter> {
        self.pipeline.meter_stats(None, 0).into_iter().map(|stats| stats.meter).collect()
    }

    fn meter_stats(&self, now_ns: u64) -> Vec<MeterStats> {
        let stats = self.pipeline.meter_stats(None, now_ns).into_iter();
        let convert = |meter: warpswitch_pipeline::MeterStats| MeterStats {
            id: meter.meter.id,
            flows: meter.flows,
            total: Counters { packets: meter.packets, bytes: meter.bytes },
            age_ns: meter.age_ns,
            bands: counters(&meter.bands),
        };
        stats.map(convert).collect()
    }

    fn meter_features(&self) -> MeterFeatures {
        let meters_max = self.pipeline.options().meters_max as u32;
        MeterFeatures { meters_max, bands_max: BANDS_MAX as u8 }
    }
}

fn counters(counts: &[(u64, u64)]) -> Vec<Counters> {
    counts.iter().map(|&(packets, bytes)| Counters { packets, bytes }).collect()
}
