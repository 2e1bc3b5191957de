//! The switch: frames from ports through the pipeline, and controllers.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use smallvec::SmallVec;
use warpswitch_flow::{CachedFlow, FlowCache, FlowCacheStats, TraversalCache};
use warpswitch_graph::gso;
use warpswitch_openflow::{Agent, AgentConfig, Change, ConnectionId, Datapath};
use warpswitch_packet::{Batch, Packet, Pool};
use warpswitch_pipeline::{Ingress, Pipeline, PipelineOptions, PipelineStats, TableEngines};
use warpswitch_rules::openflow::{
    Flow, FlowAction, FlowCommand, FlowMatch, FlowMod, Instructions, Refusal, port,
};

use crate::cache::{CacheKind, cache};
use crate::coverage::{self, Coverage};
use crate::datapath::{Events, Outlet, SwitchDatapath};
use crate::learning::LearningTable;
use crate::ports::{NewPort, NewTunnel, Ports};
use crate::trace::{TraceRequest, Traced};
use crate::tunnel::{FromTunnel, TunnelDrops, Underlay};

/// Frames that are received from a port at a time.
const BURST_LEN: usize = 64;
/// The longest datagram of a tunnel, with its IP header if the socket passes it.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Nanoseconds between two looks at time-outs, links and silent controllers.
const TICK_NS: u64 = 100_000_000;
/// Nanoseconds without a controller after which a standalone switch forwards by itself.
const STANDALONE_NS: u64 = 15_000_000_000;
/// The cookie of the flow by which it does.
const FAIL_MODE: u64 = 0x6661_696c_6d6f_6465;

/// What a switch does while no controller is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// It goes on with the flows that it has.
    #[default]
    Secure,
    /// It forwards as a learning switch where no other flow matches, by the flow
    /// `priority=0 actions=NORMAL`: from the start, and 15 s after the last controller left.
    Standalone,
}

/// How a switch is built.
#[derive(Clone, Debug)]
pub struct SwitchOptions {
    /// Its name, where Open vSwitch has that of a bridge.
    pub bridge: String,
    /// The agent.
    pub agent: AgentConfig,
    /// The pipeline.
    pub pipeline: PipelineOptions,
    /// The engines of its tables, and how many frames of a port are taken together.
    pub engines: TableEngines,
    /// The cache in front of its tables.
    pub cache: CacheKind,
    /// What happens without controllers.
    pub fail_mode: FailMode,
}

impl Default for SwitchOptions {
    fn default() -> Self {
        Self {
            bridge: "br0".to_owned(),
            agent: AgentConfig::default(),
            pipeline: PipelineOptions::default(),
            engines: TableEngines::default(),
            cache: CacheKind::default(),
            fail_mode: FailMode::default(),
        }
    }
}

/// What a switch has counted beside ports, tables and flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchStats {
    /// The cache; without one every packet is a miss.
    pub cache: FlowCacheStats,
    /// The pipeline.
    pub pipeline: PipelineStats,
    /// Packets for controllers that were dropped because too many waited.
    pub packet_ins_dropped: u64,
    /// Lookups in tables that found no flow.
    pub table_misses: u64,
    /// Packets that tunnels dropped.
    pub tunnel_drops: TunnelDrops,
    /// Exact keys, and traversals.
    pub cached: (usize, usize),
}

/// An OpenFlow switch. It belongs to one thread; no call blocks.
pub struct Switch {
    bridge: String,
    version: String,
    agent: Agent,
    datapath: SwitchDatapath,
    cache: Option<FlowCache>,
    fail_mode: FailMode,
    burst_len: usize,
    burst: Batch,
    /// The frames of a burst; none where one has left.
    frames: Vec<Option<Packet>>,
    /// A datagram of a tunnel.
    datagram: Vec<u8>,
    next_tick_ns: u64,
    /// Connections that the switch made: only these controllers end the fail mode.
    controllers: Vec<ConnectionId>,
    /// When such a controller was last connected.
    controlled_ns: u64,
    /// Whether the flow that forwards as a learning switch is there.
    is_standalone: bool,
    coverage: Coverage,
}

impl Switch {
    /// A switch without ports.
    pub fn new(options: SwitchOptions) -> Self {
        let seed = options.pipeline.hash_seed;
        let outlet = Outlet {
            ports: Ports::default(),
            pool: Pool::new(),
            learning: LearningTable::default(),
            events: Events::default(),
            now_ns: 0,
        };
        let burst_len = match options.cache {
            CacheKind::None => options.engines.burst_len(),
            _ => BURST_LEN,
        };
        let pipeline = Pipeline::with_engines(options.pipeline, options.engines);
        let mut switch = Self {
            bridge: options.bridge,
            version: options.agent.description.software.clone(),
            agent: Agent::new(options.agent),
            datapath: SwitchDatapath { pipeline, outlet, uncached: 0 },
            cache: cache(options.cache, seed),
            fail_mode: options.fail_mode,
            burst_len,
            burst: Batch::new(),
            frames: Vec::new(),
            datagram: vec![0; DATAGRAM_BYTES_MAX],
            next_tick_ns: 0,
            controllers: Vec::new(),
            controlled_ns: 0,
            is_standalone: false,
            coverage: Coverage::default(),
        };
        if switch.fail_mode == FailMode::Standalone {
            switch.set_standalone(true, 0);
        }
        switch
    }

    /// Adds or removes the flow that forwards as a learning switch.
    fn set_standalone(&mut self, is_standalone: bool, now_ns: u64) {
        if std::mem::replace(&mut self.is_standalone, is_standalone) == is_standalone {
            return;
        }
        let output = FlowAction::Output { port: port::NORMAL, max_len: 0 };
        let instructions = Instructions { apply: vec![output], ..Instructions::default() };
        let change = FlowMod {
            command: match is_standalone {
                true => FlowCommand::Add,
                false => FlowCommand::DeleteStrict,
            },
            flow: Flow { cookie: FAIL_MODE, ..Flow::new(0, FlowMatch::any(), instructions) },
            cookie_mask: if is_standalone { 0 } else { u64::MAX },
            out_port: port::ANY,
            out_group: port::GROUP_ANY,
        };
        // A table that is full of flows forwards by these.
        _ = self.datapath.flow_mod(&change, now_ns);
    }

    /// Adds a port; returns its number.
    pub fn add_port(&mut self, port: NewPort, now_ns: u64) -> u32 {
        let number = self.datapath.outlet.ports.add(port, now_ns);
        self.port_added(number);
        number
    }

    /// Adds a tunnel port; returns its number. Its packets pass through the underlay.
    ///
    /// # Errors
    /// Another port receives the same packets.
    pub fn add_tunnel(&mut self, tunnel: NewTunnel, now_ns: u64) -> Result<u32, String> {
        let number = self.datapath.outlet.ports.add_tunnel(tunnel, now_ns)?;
        self.port_added(number);
        Ok(number)
    }

    /// Sets the sockets of all tunnel ports.
    pub fn set_underlay(&mut self, underlay: Box<dyn Underlay>) {
        self.datapath.outlet.ports.tunnels.set_underlay(underlay);
    }

    fn port_added(&mut self, number: u32) {
        let ports = &mut self.datapath.outlet.ports;
        if let Some(port) = ports.get_mut(number) {
            self.datapath.pipeline.set_port(number, port.settings());
        }
    }

    /// Takes a burst from each port through the pipeline and sends what comes out; looks at
    /// time-outs when it is time. Whether there was anything to do.
    pub fn run(&mut self, now_ns: u64) -> bool {
        let mut is_busy = false;
        for index in 0..self.datapath.outlet.ports.len() {
            is_busy |= self.receive(index, now_ns);
        }
        is_busy |= self.receive_tunnels(now_ns);
        if now_ns >= self.next_tick_ns {
            self.next_tick_ns = now_ns + TICK_NS;
            self.tick(now_ns);
        }
        self.report(now_ns);
        let Outlet { ports, pool, .. } = &mut self.datapath.outlet;
        ports.flush(pool);
        is_busy
    }

    fn receive(&mut self, index: usize, now_ns: u64) -> bool {
        let Outlet { ports, pool, .. } = &mut self.datapath.outlet;
        let frames_max = self.burst_len.min(ports.burst_max());
        ports.receive(index, pool, &mut self.burst, frames_max);
        if self.burst.is_empty() {
            return false;
        }
        self.datapath.outlet.now_ns = now_ns;
        let mut burst = std::mem::take(&mut self.burst);
        // The pipeline sees frames as they are on a wire.
        let (pool, frames) = (&mut self.datapath.outlet.pool, &mut self.frames);
        for packet in burst.drain() {
            gso::complete(pool, packet, |_, frame| frames.push(Some(frame)));
        }
        self.burst = burst;
        self.execute(index as u32 + 1, now_ns);
        true
    }

    /// Takes frames that arrived through tunnels through the pipeline.
    fn receive_tunnels(&mut self, now_ns: u64) -> bool {
        self.datapath.outlet.now_ns = now_ns;
        let mut bytes = std::mem::take(&mut self.datagram);
        let mut count = 0;
        while count < BURST_LEN
            && let Some(received) = self.datapath.outlet.ports.receive_tunnel(&mut bytes)
        {
            count += 1;
            if let Some(FromTunnel { ingress, frame }) = received {
                // A packet, as devices receive it: the frame may leave by one without a copy.
                self.frames.push(Some(self.datapath.outlet.pool.packet_of(&bytes[frame])));
                self.execute(ingress, now_ns);
            }
        }
        self.datagram = bytes;
        count > 0
    }

    /// Takes the received frames through the pipeline.
    fn execute(&mut self, ingress: impl Into<Ingress>, now_ns: u64) {
        let bytes: SmallVec<[&[u8]; BURST_LEN]> =
            self.frames.iter().flatten().map(Packet::data).collect();
        self.datapath.execute(self.cache.as_mut(), &bytes, ingress, now_ns);
        drop(bytes);
        let Outlet { ports, pool, .. } = &mut self.datapath.outlet;
        ports.depart(&mut self.frames, pool);
    }

    fn tick(&mut self, now_ns: u64) {
        let removed = self.datapath.pipeline.expire(now_ns);
        self.datapath.outlet.events.removed.extend(removed);
        self.agent.tick(now_ns);
        for number in 1..=self.datapath.outlet.ports.len() as u32 {
            let Some(port) = self.datapath.outlet.ports.get_mut(number) else { continue };
            if port.check() {
                self.datapath.port_changed(number);
            }
        }
        if self.coverage.is_due(now_ns) {
            let counters = coverage::counters(self);
            self.coverage.sample(counters, now_ns);
        }
        if self.has_controller() {
            self.controlled_ns = now_ns;
        } else if self.fail_mode == FailMode::Standalone
            && now_ns.saturating_sub(self.controlled_ns) >= STANDALONE_NS
        {
            self.set_standalone(true, now_ns);
        }
    }

    /// Reports what happened to the controllers.
    fn report(&mut self, now_ns: u64) {
        let events = &mut self.datapath.outlet.events;
        events.packet_ins.drain(..).for_each(|packet| self.agent.packet_in(&packet, now_ns));
        events.removed.drain(..).for_each(|removed| self.agent.flow_removed(&removed));
        events.ports.drain(..).for_each(|status| self.agent.port_status(&status));
    }

    /// Whether the handshake with a controller succeeded that the switch connected to.
    pub fn has_controller(&self) -> bool {
        self.controllers.iter().any(|id| self.agent.is_open(*id))
    }

    /// A connection was made, by the switch or by its peer.
    pub fn connect(&mut self, is_ours: bool, now_ns: u64) -> ConnectionId {
        let id = self.agent.connect(now_ns);
        if is_ours {
            self.controllers.push(id);
        }
        id
    }

    /// A connection ended.
    pub fn disconnect(&mut self, id: ConnectionId) {
        self.agent.disconnect(id);
        self.controllers.retain(|known| *known != id);
    }

    /// A controller sent bytes, or its messages wait ([`Agent::has_input`]). Every change that the
    /// agent has processed is in force when this returns.
    pub fn receive_control(&mut self, id: ConnectionId, bytes: &[u8], now_ns: u64) {
        self.agent.receive(id, bytes, now_ns, &mut self.datapath);
        self.report(now_ns);
        if self.is_standalone && self.has_controller() {
            self.controlled_ns = now_ns;
            self.set_standalone(false, now_ns);
        }
        let Outlet { ports, pool, .. } = &mut self.datapath.outlet;
        ports.flush(pool);
    }

    /// The agent: what it has to send, and whether it wants more bytes.
    pub fn agent(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// The datapath, to change flows without a controller.
    #[cfg(test)]
    pub(crate) fn datapath(&mut self) -> &mut SwitchDatapath {
        &mut self.datapath
    }

    /// Descriptors to wait for, and whether they are to become writable. Call it when
    /// [`Switch::run`] had nothing to do.
    pub fn wake_fds(&mut self) -> impl Iterator<Item = (Arc<OwnedFd>, bool)> {
        self.datapath.outlet.ports.wake_fds()
    }

    /// Nanoseconds until [`Switch::run`] has to be called even if no descriptor is ready.
    pub fn wait_ns(&self, now_ns: u64) -> u64 {
        self.next_tick_ns.saturating_sub(now_ns)
    }

    /// When [`Switch::run`] has to be called for the time-out of a flow, if any flow has one.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        let expiry = self.datapath.pipeline.next_expiry_ns();
        expiry.map(|expiry| expiry.max(self.next_tick_ns))
    }

    /// Its name.
    pub fn bridge(&self) -> &str {
        &self.bridge
    }

    /// The version of the software, as controllers see it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The tables, groups and meters.
    pub fn pipeline(&self) -> &Pipeline {
        &self.datapath.pipeline
    }

    /// The traversals that the cache holds; none without one.
    pub fn cached_flows(&self, now_ns: u64) -> impl Iterator<Item = CachedFlow<'_>> {
        let changes = self.datapath.pipeline.changes();
        self.cache.iter().flat_map(move |cache| cache.flows(changes, now_ns))
    }

    /// The addresses behind the ports.
    pub fn learning(&self) -> &LearningTable {
        &self.datapath.outlet.learning
    }

    pub(crate) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// What happens to a packet, without any effect.
    pub fn trace(&self, request: &TraceRequest, now_ns: u64) -> String {
        let (bridge, pipeline, learning) = (&*self.bridge, self.pipeline(), self.learning());
        let tunnel = |port| self.datapath.outlet.ports.tunnel(port);
        Traced { bridge, pipeline, learning, tunnel: &tunnel, now_ns }.trace(request)
    }

    /// Has caches forget all traversals.
    pub fn purge(&mut self) {
        self.datapath.pipeline.invalidate();
    }

    /// Changes flows, groups or meters, as a controller does.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn change(&mut self, change: &Change, now_ns: u64) -> Result<(), Refusal> {
        let result = match change {
            Change::Flow(change) => self.datapath.flow_mod(change, now_ns),
            Change::Group(change) => self.datapath.group_mod(change, now_ns),
            Change::Meter(change) => self.datapath.meter_mod(change, now_ns),
        };
        self.report(now_ns);
        result
    }

    /// Its counters.
    pub fn stats(&self) -> SwitchStats {
        let tables = self.datapath.pipeline.table_stats();
        let no_cache = FlowCacheStats { misses: self.datapath.uncached, ..Default::default() };
        SwitchStats {
            cache: self.cache.as_ref().map_or(no_cache, FlowCache::stats),
            table_misses: tables.iter().map(|table| table.lookups - table.matches).sum(),
            pipeline: self.datapath.pipeline.stats(),
            tunnel_drops: self.datapath.outlet.ports.tunnels.drops,
            packet_ins_dropped: self.datapath.outlet.events.packet_ins_dropped,
            cached: self.cache.as_ref().map_or((0, 0), |cache| (cache.sizes().0, cache.len())),
        }
    }

    /// The ports, with their counters.
    pub fn ports(&self, now_ns: u64) -> Vec<(String, warpswitch_openflow::PortStats)> {
        let ports = self.datapath.outlet.ports.iter();
        ports.map(|port| (port.name.clone(), port.stats(now_ns))).collect()
    }
}
