//! The pipeline: tables, groups, meters and ports, and the packets that go through them.

use std::sync::Arc;

use warpswitch_flow::flow_hash::FlowHash;
use warpswitch_flow::{Change, ChangeLog, Traversal};
use warpswitch_rules::openflow::{FlowAction, FlowMatch, Refusal, field, port};

use crate::burst::Burst;
use crate::check::{ACTIONS_MAX, Known};
use crate::counts::{Counts, TableCounters};
use crate::engines::TableEngines;
use crate::expire::Deadlines;
use crate::flows::Flows;
use crate::frame::Packet;
use crate::group::Groups;
use crate::lookup::Lookup;
use crate::meter::Meters;
use crate::output::{Ingress, Output};
use crate::ports::{PortSettings, Ports};
use crate::references::References;
use crate::run::{Fixed, Run};
use crate::table::{Table, TableSettings};
use crate::undo::Undo;

/// The most tables: feature messages have a byte for their number, whose last value is reserved.
pub const TABLES_MAX: usize = port::TABLE_MAX as usize;

/// How a pipeline is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineOptions {
    /// Tables, at most 254.
    pub tables: usize,
    /// What each table may hold, until [`Pipeline::configure_table`].
    pub table: TableSettings,
    /// The most groups.
    pub groups_max: usize,
    /// The most meters.
    pub meters_max: usize,
    /// How tables look flows up.
    pub lookup: Lookup,
    /// Seed of the keyed hashes of lookups; random by default, so that nobody can choose keys that
    /// collide.
    pub hash_seed: u64,
}

impl Default for PipelineOptions {
    fn default() -> Self {
        use std::hash::{BuildHasher, Hasher};
        Self {
            tables: TABLES_MAX,
            table: TableSettings { flows_max: 1_000_000, is_evicting: false },
            groups_max: 65_536,
            meters_max: 65_536,
            lookup: Lookup::default(),
            hash_seed: std::hash::RandomState::new().build_hasher().finish(),
        }
    }
}

/// What a pipeline has counted beside flows, tables, groups and meters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineStats {
    /// Packets that needed more than [`crate::WORK_MAX`] lookups and actions, or resubmits and
    /// groups nested deeper than [`crate::DEPTH_MAX`].
    pub limited: u64,
    /// Packets that a meter or their TTL ended.
    pub ended: u64,
    /// Other received packets that no flow sent anywhere: none matched, or those that did have no
    /// output.
    pub unsent: u64,
}

/// A multi-table pipeline.
#[derive(Debug)]
pub struct Pipeline {
    pub(crate) options: PipelineOptions,
    pub(crate) tables: Vec<Table>,
    pub(crate) flows: Flows,
    pub(crate) groups: Groups,
    pub(crate) meters: Meters,
    pub(crate) ports: Ports,
    pub(crate) counts: Counts,
    pub(crate) deadlines: Deadlines,
    pub(crate) references: References,
    /// What may change what happens to a packet.
    pub(crate) changes: ChangeLog,
    /// How to take changes back, while that may be necessary.
    pub(crate) undo: Option<Vec<Undo>>,
    /// Buffers of the packets before.
    pub(crate) spare: Vec<Vec<u8>>,
    pub(crate) burst: Burst,
    pub(crate) engines: TableEngines,
}

impl Pipeline {
    /// An empty pipeline.
    ///
    /// # Panics
    /// If there are no tables or more than 254: a caller bug, not an input.
    pub fn new(options: PipelineOptions) -> Self {
        Self::with_engines(options, TableEngines::default())
    }

    /// An empty pipeline whose tables look bursts up with these engines.
    ///
    /// # Panics
    /// As [`Pipeline::new`].
    pub fn with_engines(options: PipelineOptions, engines: TableEngines) -> Self {
        assert!((1..=TABLES_MAX).contains(&options.tables), "1 to {TABLES_MAX} tables");
        let hash = Arc::new(FlowHash::new(options.hash_seed));
        let table = || Table::new(options.lookup, &hash, &engines, options.table);
        let tables = vec![TableCounters::default(); options.tables];
        Self {
            options,
            tables: std::iter::repeat_with(table).take(options.tables).collect(),
            flows: Flows::default(),
            groups: Groups::new(),
            meters: Meters::new(),
            ports: Ports::new(),
            counts: Counts { tables, ..Counts::default() },
            deadlines: Deadlines::default(),
            references: References::default(),
            changes: ChangeLog::default(),
            undo: None,
            spare: Vec::new(),
            burst: Burst::default(),
            engines,
        }
    }

    /// How it was built.
    pub fn options(&self) -> &PipelineOptions {
        &self.options
    }

    /// Adds a port or changes it.
    pub fn set_port(&mut self, port: u32, settings: PortSettings) {
        if self.ports.insert(port, settings) != Some(settings) {
            self.changes.push(Change::All);
        }
    }

    /// Removes a port.
    pub fn remove_port(&mut self, port: u32) {
        if self.ports.remove(&port).is_some() {
            self.changes.push(Change::All);
        }
    }

    /// Makes all cached traversals void.
    pub fn invalidate(&mut self) {
        self.changes.push(Change::All);
    }

    /// The ports, by number.
    pub fn ports(&self) -> impl Iterator<Item = (u32, PortSettings)> + '_ {
        self.ports.iter().map(|(&number, &settings)| (number, settings))
    }

    /// The last changes.
    pub fn changes(&self) -> &ChangeLog {
        &self.changes
    }

    /// The version: it grows with every change that may change what happens to a packet.
    pub fn version(&self) -> u64 {
        self.changes.version()
    }

    /// Its counters.
    pub fn stats(&self) -> PipelineStats {
        let Counts { limited, ended, unsent, .. } = self.counts;
        PipelineStats { limited, ended, unsent }
    }

    /// Takes a packet through the tables.
    pub fn execute(
        &mut self,
        frame: &[u8],
        ingress: impl Into<Ingress>,
        now: u64,
        out: &mut impl Output,
    ) {
        let packet = Packet::new(frame, ingress.into().key(), std::mem::take(&mut self.spare));
        let mut run = self.run(packet, now, out);
        run.pipeline();
        self.spare = run.finish();
    }

    /// Executes a packet by the tables and records its traversal.
    pub fn trace(
        &mut self,
        frame: &[u8],
        ingress: impl Into<Ingress>,
        now: u64,
        out: &mut impl Output,
    ) -> Traversal {
        self.record(frame, &ingress.into(), now, out).traversal
    }

    /// Executes the actions of a packet that a controller sends.
    ///
    /// # Errors
    /// An action that is impossible; the packet goes nowhere then. Actions on headers that it does
    /// not have change nothing.
    pub fn packet_out(
        &mut self,
        frame: &[u8],
        ingress: impl Into<Ingress>,
        actions: &[FlowAction],
        now: u64,
        out: &mut impl Output,
    ) -> Result<(), Refusal> {
        if actions.len() > ACTIONS_MAX {
            return Err(Refusal::TooManyActions);
        }
        let spare = std::mem::take(&mut self.spare);
        let mut packet = Packet::new(frame, ingress.into().key(), spare);
        let matching = kind_of(&mut packet);
        self.known().check_list(actions, &matching)?;
        let mut run = self.run(packet, now, out);
        run.packet_out(actions);
        self.spare = run.packet.into_spare();
        Ok(())
    }

    /// What actions may refer to.
    pub(crate) fn known(&self) -> Known<'_> {
        Known {
            tables: self.tables.len(),
            groups: &self.groups,
            meters: &self.meters,
            ports: &self.ports,
        }
    }

    pub(crate) fn run<'a, O: Output>(
        &'a mut self,
        packet: Packet<'a>,
        now: u64,
        out: &'a mut O,
    ) -> Run<'a, O> {
        let fixed = Fixed {
            tables: &self.tables,
            flows: &self.flows,
            groups: &self.groups,
            ports: &self.ports,
        };
        Run::new(fixed, &mut self.counts, &mut self.meters, packet, now, out)
    }
}

/// A match on what other fields need, as one packet has it.
fn kind_of(packet: &mut Packet<'_>) -> FlowMatch {
    let mut matching = FlowMatch::any();
    for name in ["eth_type", "vlan_vid", "nw_proto", "icmpv6_type"] {
        let field = field(name).expect("a field of OpenFlow");
        matching.set(field, field.range.read(packet.key()), u128::MAX);
    }
    matching
}
