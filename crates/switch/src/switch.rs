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
    /// It forwards as a learning switch: from the start where no other flow matches, by the flow
    /// `priority=0 actions=NORMAL`, and 15 s after the last controller left whatever flows it left
    /// behind, by `priority=65535 actions=NORMAL`.
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
    /// Packets for ports that do not exist.
    pub missing_port: u64,
    /// Packets for which `NORMAL` found no port: their destination is behind the port of arrival,
    /// or no other port is flooded.
    pub stayed: u64,
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
    /// Whether a controller was ever connected.
    had_controller: bool,
    /// The priority of the flow that forwards as a learning switch, while it is there.
    standalone: Option<u16>,
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
            stayed: 0,
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
            had_controller: false,
            standalone: None,
            coverage: Coverage::default(),
        };
        if switch.fail_mode == FailMode::Standalone {
            switch.stand_alone(0);
        }
        switch
    }

    /// Forwards as a learning switch, if it does not yet: by the last of all flows, or by the first
    /// one once a controller has left flows that need it.
    fn stand_alone(&mut self, now_ns: u64) {
        if self.standalone.is_none() {
            let priority = if self.had_controller { u16::MAX } else { 0 };
            self.standalone = Some(priority);
            self.change_standalone(FlowCommand::Add, priority, now_ns);
        }
    }

    /// A controller is connected.
    fn controlled(&mut self, now_ns: u64) {
        (self.had_controller, self.controlled_ns) = (true, now_ns);
        if let Some(priority) = self.standalone.take() {
            self.change_standalone(FlowCommand::DeleteStrict, priority, now_ns);
        }
    }

    fn change_standalone(&mut self, command: FlowCommand, priority: u16, now_ns: u64) {
        let output = FlowAction::Output { port: port::NORMAL, max_len: 0 };
        let instructions = Instructions { apply: vec![output], ..Instructions::default() };
        let flow = Flow::new(priority, FlowMatch::any(), instructions);
        let change = FlowMod {
            command,
            flow: Flow { cookie: FAIL_MODE, ..flow },
            cookie_mask: if command == FlowCommand::Add { 0 } else { u64::MAX },
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
            self.controlled(now_ns);
        } else if self.fail_mode == FailMode::Standalone
            && now_ns.saturating_sub(self.controlled_ns) >= STANDALONE_NS
        {
            self.stand_alone(now_ns);
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
        if self.standalone.is_some() && self.has_controller() {
            self.controlled(now_ns);
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

    /// Forgets the addresses behind the ports.
    pub fn forget_addresses(&mut self) {
        self.datapath.outlet.learning.clear();
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
            missing_port: self.datapath.outlet.ports.missing,
            stayed: self.datapath.outlet.stayed,
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

#[cfg(test)]
mod tests {
    use warpswitch_openflow::Datapath;
    use warpswitch_rules::format::ovs;

    use super::*;
    use crate::testing::Wire;

    const SECOND: u64 = 1_000_000_000;
    const HELLO: [u8; 8] = [4, 0, 0, 8, 0, 0, 0, 1];

    fn with_ports<const N: usize>(options: SwitchOptions) -> (Switch, [Wire; N]) {
        let mut switch = Switch::new(options);
        let wires = std::array::from_fn(|_| Wire::default());
        for (number, wire) in wires.iter().enumerate() {
            let (rx, tx) = (Box::new(wire.clone()), Box::new(wire.clone()));
            let mac = [2, 0, 0, 0, 0, number as u8];
            switch.add_port(NewPort { name: format!("p{number}"), mac, rx, tx }, 0);
        }
        (switch, wires)
    }

    /// What a controller left behind stays, and decides nothing until one is connected again.
    #[test]
    fn a_standalone_switch_forwards_whatever_controllers_left() {
        let fail_mode = FailMode::Standalone;
        let options = SwitchOptions { fail_mode, ..SwitchOptions::default() };
        let (mut switch, wires) = with_ports::<2>(options);
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
        frame.resize(60, 0);
        let passes = |switch: &mut Switch, now_ns| {
            wires[0].incoming.lock().unwrap().push_back(frame.clone());
            switch.run(now_ns);
            std::mem::take(&mut *wires[1].sent.lock().unwrap()).len() == 1
        };
        assert!(passes(&mut switch, 1));
        let drop_all = ovs::parse_change("priority=100,actions=drop").unwrap();
        switch.datapath().flow_mod(&drop_all, 0).unwrap();
        assert!(!passes(&mut switch, 2), "flows win before there was a controller");
        for round in [0, 100] {
            let controller = switch.connect(true, round * SECOND);
            switch.receive_control(controller, &HELLO, round * SECOND);
            assert!(switch.has_controller());
            assert!(!passes(&mut switch, (round + 1) * SECOND));
            switch.disconnect(controller);
            assert!(!passes(&mut switch, (round + 10) * SECOND), "it may come back");
            assert!(!passes(&mut switch, (round + 50) * SECOND), "this call notices");
            assert!(passes(&mut switch, (round + 51) * SECOND));
        }
    }

    /// Each received packet is sent or has a reason, by the tables and from a cache.
    #[test]
    fn dropped_packets_have_a_counted_reason() {
        for cache in CacheKind::ALL {
            let options = SwitchOptions { cache, ..SwitchOptions::default() };
            let (mut switch, wires) = with_ports::<2>(options);
            for flow in [
                "priority=1,eth_type=0x8801,actions=drop",
                "priority=1,eth_type=0x8802,actions=output:7",
                "priority=1,eth_type=0x8803,actions=set_field:2->reg0,output:7",
                "priority=1,eth_type=0x8804,actions=NORMAL",
                "priority=1,eth_type=0x8805,actions=output:2",
                "priority=1,eth_type=0x8806,actions=output:1",
                "priority=1,eth_type=0x8807,actions=set_field:2->reg0,clear_actions",
            ] {
                let change = ovs::parse_change(flow).expect(flow);
                switch.datapath().flow_mod(&change, 0).expect(flow);
            }
            for round in 0..3 {
                for protocol in 0..=7 {
                    // To the address that it comes from, which is behind the port of arrival.
                    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 9, 0x88, protocol];
                    frame.resize(60, 0);
                    wires[0].incoming.lock().unwrap().push_back(frame);
                    switch.run(round);
                }
            }
            let stats = switch.stats();
            assert_eq!(stats.cache.misses, if cache == CacheKind::None { 24 } else { 8 });
            let drops = (stats.pipeline.unsent, stats.missing_port, stats.stayed);
            assert_eq!(drops, (4 * 3, 2 * 3, 3), "{cache:?}");
            assert_eq!(wires[1].sent.lock().unwrap().len(), 3);
        }
    }

    #[test]
    fn a_flood_without_another_port_is_counted() {
        let (mut switch, wires) = with_ports::<1>(SwitchOptions::default());
        let normal = ovs::parse_change("actions=NORMAL").expect("a change");
        switch.datapath().flow_mod(&normal, 0).expect("room");
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
        frame.resize(60, 0);
        wires[0].incoming.lock().unwrap().push_back(frame);
        switch.run(1);
        assert_eq!(switch.stats().stayed, 1);
    }
}
