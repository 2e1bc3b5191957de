//! A switch of lists, for tests of the agent.
#![allow(dead_code, reason = "each test file uses a part")]

use warpswitch_openflow::{
    Agent, Change, ConnectionId, Datapath, FailedChange, GroupFeatures, GroupStats, Message,
    MeterFeatures, MeterStats, PortDescription, PortMod, PortState, PortStats, QueueStats,
    TableFeatures, TableStats, link,
};
use warpswitch_rules::openflow::{
    FIELDS, Flow, FlowAction, FlowCommand, FlowFilter, FlowMod, FlowStats, Group, GroupMod, Meter,
    MeterMod, Refusal, port,
};

/// Tables of the switch.
pub const TABLES: u8 = 4;

/// Flows that a table may have.
pub const FLOWS_MAX: usize = 1000;

/// The state of the switch, and the packets that were sent out.
#[derive(Clone)]
pub struct ListSwitch {
    pub flows: Vec<Flow>,
    pub groups: Vec<Group>,
    pub meters: Vec<Meter>,
    pub ports: Vec<PortDescription>,
    pub sent: Vec<(u32, Vec<FlowAction>, Vec<u8>)>,
    pub barriers: u32,
}

impl Default for ListSwitch {
    fn default() -> Self {
        let ports = [1, 2, port::LOCAL].map(|number| PortDescription {
            number,
            mac: [2, 0, 0, 0, 0, number as u8],
            name: if number == port::LOCAL { "br0".into() } else { format!("eth{number}") },
            state: PortState { is_live: true, ..PortState::default() },
            current: link::GB10 | link::COPPER,
            supported: link::GB10,
            current_kbps: 10_000_000,
            max_kbps: 10_000_000,
            ..PortDescription::default()
        });
        Self {
            flows: Vec::new(),
            groups: Vec::new(),
            meters: Vec::new(),
            ports: ports.into(),
            sent: Vec::new(),
            barriers: 0,
        }
    }
}

fn is_selected(flow: &Flow, filter: &FlowFilter) -> bool {
    (filter.table == port::TABLE_ALL || filter.table == flow.table)
        && filter.matching.contains(&flow.matching)
        && (flow.cookie ^ filter.cookie) & filter.cookie_mask == 0
}

impl Datapath for ListSwitch {
    fn flow_mod(&mut self, change: &FlowMod, _now_ns: u64) -> Result<(), Refusal> {
        let flow = &change.flow;
        if flow.table >= TABLES && flow.table != port::TABLE_ALL {
            return Err(Refusal::NoSuchTable);
        }
        if flow.instructions.goto_table.is_some_and(|next| next <= flow.table) {
            return Err(Refusal::BadGoto);
        }
        let is_same = |other: &Flow| {
            other.table == flow.table
                && other.priority == flow.priority
                && other.matching == flow.matching
        };
        let filter = FlowFilter {
            table: flow.table,
            matching: flow.matching,
            cookie: flow.cookie,
            cookie_mask: change.cookie_mask,
            out_port: change.out_port,
            out_group: change.out_group,
        };
        match change.command {
            FlowCommand::Add => {
                self.flows.retain(|other| !is_same(other));
                if self.flows.len() == FLOWS_MAX {
                    return Err(Refusal::TableFull);
                }
                self.flows.push(flow.clone());
            }
            FlowCommand::Modify | FlowCommand::ModifyStrict => {
                let is_strict = change.command == FlowCommand::ModifyStrict;
                for other in &mut self.flows {
                    let is_meant =
                        if is_strict { is_same(other) } else { is_selected(other, &filter) };
                    if is_meant {
                        other.instructions = flow.instructions.clone();
                    }
                }
            }
            FlowCommand::Delete => self.flows.retain(|other| !is_selected(other, &filter)),
            FlowCommand::DeleteStrict => self.flows.retain(|other| !is_same(other)),
        }
        Ok(())
    }

    fn group_mod(&mut self, change: &GroupMod, _now_ns: u64) -> Result<(), Refusal> {
        let place = |id: u32| self.groups.iter().position(|group| group.id == id);
        match change {
            GroupMod::Add(group) if place(group.id).is_some() => return Err(Refusal::GroupExists),
            GroupMod::Add(group) => self.groups.push(group.clone()),
            GroupMod::Modify(group) => {
                let place = place(group.id).ok_or(Refusal::UnknownGroup)?;
                self.groups[place] = group.clone();
            }
            GroupMod::Delete(id) => {
                self.groups.retain(|group| *id != port::GROUP_ALL && group.id != *id);
            }
        }
        Ok(())
    }

    fn meter_mod(&mut self, change: &MeterMod, _now_ns: u64) -> Result<(), Refusal> {
        let place = |id: u32| self.meters.iter().position(|meter| meter.id == id);
        match change {
            MeterMod::Add(meter) if place(meter.id).is_some() => return Err(Refusal::MeterExists),
            MeterMod::Add(meter) => self.meters.push(meter.clone()),
            MeterMod::Modify(meter) => {
                let place = place(meter.id).ok_or(Refusal::UnknownMeter)?;
                self.meters[place] = meter.clone();
            }
            MeterMod::Delete(id) => {
                self.meters.retain(|meter| *id != u32::MAX && meter.id != *id);
            }
        }
        Ok(())
    }

    fn commit(&mut self, changes: &[Change], now_ns: u64) -> Result<(), FailedChange> {
        let before = self.clone();
        for (index, change) in changes.iter().enumerate() {
            let result = match change {
                Change::Flow(change) => self.flow_mod(change, now_ns),
                Change::Group(change) => self.group_mod(change, now_ns),
                Change::Meter(change) => self.meter_mod(change, now_ns),
            };
            if let Err(refusal) = result {
                *self = before;
                return Err(FailedChange { index, refusal });
            }
        }
        Ok(())
    }

    fn barrier(&mut self) {
        self.barriers += 1;
    }

    fn packet_out(
        &mut self,
        in_port: u32,
        actions: &[FlowAction],
        frame: &[u8],
        _now_ns: u64,
    ) -> Result<(), Refusal> {
        self.sent.push((in_port, actions.to_vec(), frame.to_vec()));
        Ok(())
    }

    fn port_mod(&mut self, change: &PortMod) {
        for port in self.ports.iter_mut().filter(|port| port.number == change.number) {
            port.config = change.apply(port.config);
        }
    }

    fn flows(&self, filter: &FlowFilter, now_ns: u64) -> Vec<FlowStats> {
        let selected = self.flows.iter().filter(|flow| is_selected(flow, filter));
        let stats = selected.map(|flow| FlowStats {
            flow: flow.clone(),
            packets: 3,
            bytes: 180,
            age_ns: now_ns,
        });
        stats.collect()
    }

    fn tables_len(&self) -> u8 {
        TABLES
    }

    fn table_stats(&self) -> Vec<TableStats> {
        let active = |table| self.flows.iter().filter(|flow| flow.table == table).count() as u32;
        let stats = |table| TableStats { table, active: active(table), lookups: 7, matches: 5 };
        (0..TABLES).map(stats).collect()
    }

    fn table_features(&self) -> Vec<TableFeatures> {
        let features = |table| TableFeatures {
            table,
            name: format!("table{table}"),
            flows_max: FLOWS_MAX as u32,
            next_tables: (table + 1..TABLES).collect(),
            match_fields: FIELDS.iter().filter(|field| !field.is_view).collect(),
            set_fields: FIELDS.iter().filter(|field| field.is_settable && !field.is_view).collect(),
        };
        (0..TABLES).map(features).collect()
    }

    fn ports(&self) -> Vec<PortDescription> {
        self.ports.clone()
    }

    fn port_stats(&self, now_ns: u64) -> Vec<PortStats> {
        let stats = |port: &PortDescription| PortStats {
            number: port.number,
            rx_packets: 10,
            tx_packets: 20,
            rx_bytes: 640,
            tx_bytes: 1280,
            age_ns: now_ns,
            ..PortStats::default()
        };
        self.ports.iter().map(stats).collect()
    }

    fn queues(&self, _now_ns: u64) -> Vec<QueueStats> {
        vec![QueueStats {
            port: 1,
            queue: 5,
            tx_packets: 2,
            tx_bytes: 128,
            ..QueueStats::default()
        }]
    }

    fn groups(&self) -> Vec<Group> {
        self.groups.clone()
    }

    fn group_stats(&self, now_ns: u64) -> Vec<GroupStats> {
        let stats = |group: &Group| GroupStats {
            id: group.id,
            ref_count: 1,
            age_ns: now_ns,
            buckets: vec![Default::default(); group.buckets.len()],
            ..GroupStats::default()
        };
        self.groups.iter().map(stats).collect()
    }

    fn group_features(&self) -> GroupFeatures {
        GroupFeatures { groups_max: 256 }
    }

    fn meters(&self) -> Vec<Meter> {
        self.meters.clone()
    }

    fn meter_stats(&self, now_ns: u64) -> Vec<MeterStats> {
        let stats = |meter: &Meter| MeterStats {
            id: meter.id,
            age_ns: now_ns,
            bands: vec![Default::default(); meter.bands.len()],
            ..MeterStats::default()
        };
        self.meters.iter().map(stats).collect()
    }

    fn meter_features(&self) -> MeterFeatures {
        MeterFeatures { meters_max: 64, bands_max: 8 }
    }
}

/// Takes what waits for a controller, as messages with their transaction ids.
pub fn received(agent: &mut Agent, id: ConnectionId) -> Vec<(u32, Message)> {
    let bytes = agent.transmit(id).to_vec();
    agent.sent(id, bytes.len());
    let mut rest = &bytes[..];
    let mut messages = Vec::new();
    while let Some(header) = warpswitch_openflow::Header::read(rest) {
        let (message, behind) = rest.split_at(header.len.into());
        messages.push((header.xid, Message::decode(message).expect("valid message")));
        rest = behind;
    }
    messages
}

/// Bytes of hexadecimal digits; spaces are ignored.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| char::from(byte).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Hexadecimal digits of bytes.
pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
