//! A switch between ports in memory, and a controller that sends it bytes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use warpswitch_openflow::{ConnectionId, FlowModMessage, HEADER_BYTES, Header, Hello, Message};
use warpswitch_openflow::{NO_BUFFER, VERSION, message_type};
use warpswitch_packet::{Batch, Pool, RxPort};
use warpswitch_pipeline::{Lookup, PipelineOptions, TableEngines};
use warpswitch_rules::openflow::{Flow, FlowCommand, FlowFilter, FlowMatch, FlowMod, port};
use warpswitch_runtime::ticks;
use warpswitch_switch::{CacheKind, NewPort, Switch, SwitchOptions};

use super::flows::FRAME_BYTES;
use crate::commands::bench::graph::sink::Seen;
use crate::commands::bench::switch::ports::{
    Arrival, Drain, Feed, FeedCounts, FrameTable, PORTS, Sent, lock,
};

/// Bytes of control messages that are sent at once.
const CONTROL_BYTES: usize = 32 << 10;
/// Bursts between two looks at the clock.
const BURSTS: usize = 16;

/// What a bed is made of.
#[derive(Clone)]
pub struct BedSpec {
    pub cache: CacheKind,
    pub lookup: Lookup,
    pub engines: TableEngines,
    /// Frames that arrive at the first port, and how.
    pub frames: Arc<FrameTable>,
    pub arrival: Arrival,
    /// Frames that arrive at the last port.
    pub beside: Option<(Arc<FrameTable>, Arrival)>,
    pub is_checked: bool,
}

/// A switch with ports and a controller.
pub struct Bed {
    pub switch: Switch,
    sent: Arc<Mutex<Sent>>,
    counts: Arc<FeedCounts>,
    connection: ConnectionId,
    pending: Vec<u8>,
}

/// Frames by port in the order in which they left, and the packets of each flow.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    seen: [Seen; PORTS],
    flows: Vec<(u64, u64)>,
}

impl Bed {
    /// A switch without flows.
    pub fn new(spec: &BedSpec) -> anyhow::Result<Self> {
        // Keyed hashes with one seed: runs can be compared.
        let pipeline =
            PipelineOptions { lookup: spec.lookup, hash_seed: 1, ..PipelineOptions::default() };
        let (cache, engines) = (spec.cache, spec.engines.clone());
        let options = SwitchOptions { pipeline, engines, cache, ..SwitchOptions::default() };
        let mut switch = Switch::new(options);
        let sent = Arc::new(Mutex::new(Sent::new(spec.is_checked)));
        let feed = Feed::new(spec.frames.clone(), spec.arrival)?;
        let counts = feed.shared_counts();
        let mut feed = Some(feed);
        for number in 1..=PORTS as u32 {
            let rx: Box<dyn RxPort> = match (&spec.beside, feed.take()) {
                (_, Some(feed)) => Box::new(feed),
                (Some((frames, arrival)), None) if number == PORTS as u32 => {
                    Box::new(Feed::new(frames.clone(), *arrival)?)
                }
                _ => Box::new(Idle),
            };
            let drain = Drain::new(number as usize - 1, FRAME_BYTES, sent.clone());
            let (name, mac) = (format!("port{number}"), [2, 0, 0, 0, 0, number as u8]);
            switch.add_port(NewPort { name, mac, rx, tx: Box::new(drain) }, 0);
        }
        let connection = switch.connect(false, 0);
        let mut bed = Self { switch, sent, counts, connection, pending: Vec::new() };
        bed.send(&Message::Hello(Hello { version: VERSION, bitmap: None }).encode(0))?;
        Ok(bed)
    }

    /// Adds flows over the control connection.
    pub fn add_flows(&mut self, flows: &[Flow]) -> anyhow::Result<()> {
        let messages = flows.iter().map(|flow| flow_mod(FlowCommand::Add, flow.clone()));
        self.send_all(&messages.collect::<Vec<_>>())
    }

    /// Sends messages, as a controller does that never waits.
    pub fn send_all(&mut self, messages: &[Vec<u8>]) -> anyhow::Result<()> {
        let mut bytes = Vec::with_capacity(CONTROL_BYTES + 1024);
        for message in messages {
            bytes.extend_from_slice(message);
            if bytes.len() >= CONTROL_BYTES {
                self.send(&bytes)?;
                bytes.clear();
            }
        }
        self.send(&bytes).map(drop)
    }

    /// Sends bytes and a barrier, and waits for its reply.
    pub fn send_with_barrier(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let barrier = Message::BarrierRequest.encode(2);
        let replies = self.send(&[bytes, &barrier].concat())?;
        ensure!(replies == 1, "{replies} replies to a barrier");
        Ok(())
    }

    /// Sends bytes and waits until all messages in them are handled; returns the number of barrier
    /// replies. An error of the switch is one of the benchmark.
    pub fn send(&mut self, bytes: &[u8]) -> anyhow::Result<usize> {
        self.switch.receive_control(self.connection, bytes, ticks());
        while self.switch.agent().has_input(self.connection) {
            self.switch.receive_control(self.connection, &[], ticks());
        }
        let agent = self.switch.agent();
        let output = agent.transmit(self.connection);
        self.pending.extend_from_slice(output);
        let len = output.len();
        agent.sent(self.connection, len);
        let mut rest = &self.pending[..];
        let mut barriers = 0;
        while let Some(header) = Header::read(rest) {
            let Some(message) = rest.get(..usize::from(header.len).max(HEADER_BYTES)) else {
                break;
            };
            if header.kind == message_type::ERROR {
                bail!("the switch refused a message: {:?}", Message::decode(message));
            }
            barriers += usize::from(header.kind == message_type::BARRIER_REPLY);
            rest = &rest[message.len()..];
        }
        self.pending = rest.to_vec();
        Ok(barriers)
    }

    /// Takes one burst from each port through the switch.
    pub fn step(&mut self) -> bool {
        self.switch.run(ticks())
    }

    /// Frames of the first port that the switch received.
    pub fn received(&self) -> u64 {
        self.counts.received.load(Ordering::Relaxed)
    }

    /// Frames a second of the first port, over at least this time.
    pub fn rate(&mut self, time: Duration) -> f64 {
        let (start, before) = (Instant::now(), self.received());
        while start.elapsed() < time {
            (0..BURSTS).for_each(|_| _ = self.step());
        }
        (self.received() - before) as f64 / start.elapsed().as_secs_f64()
    }

    /// The frames that each port sent.
    pub fn sent(&self) -> [u64; PORTS] {
        lock(&self.sent).frames
    }

    /// Runs until no frame comes, and returns what happened to all of them.
    pub fn outcome(&mut self) -> anyhow::Result<Outcome> {
        while self.step() {}
        let filter = FlowFilter {
            table: port::TABLE_ALL,
            matching: FlowMatch::any(),
            cookie: 0,
            cookie_mask: 0,
            out_port: port::ANY,
            out_group: port::GROUP_ANY,
        };
        let flows = self.switch.pipeline().flows(&filter, ticks());
        let flows = flows.iter().map(|stats| (stats.packets, stats.bytes)).collect();
        let seen = lock(&self.sent).seen.context("frames were not recorded")?;
        Ok(Outcome { seen, flows })
    }
}

impl Outcome {
    /// One number for all of it.
    pub fn digest(&self) -> String {
        let mut seen = Seen::default();
        for port in &self.seen {
            seen.add(&port.packets.to_le_bytes());
            seen.add(&port.digest.to_le_bytes());
        }
        for (packets, bytes) in &self.flows {
            seen.add(&packets.to_le_bytes());
            seen.add(&bytes.to_le_bytes());
        }
        format!("{:016x}", seen.digest)
    }
}

/// The bytes of a change of flows.
pub fn flow_mod(command: FlowCommand, flow: Flow) -> Vec<u8> {
    let change =
        FlowMod { command, flow, cookie_mask: 0, out_port: port::ANY, out_group: port::GROUP_ANY };
    Message::FlowMod(FlowModMessage { change, buffer_id: NO_BUFFER }).encode(1)
}

/// A port at which nothing arrives.
struct Idle;

impl RxPort for Idle {
    fn receive(&mut self, _pool: &mut Pool, _batch: &mut Batch, _frames_max: usize) -> usize {
        0
    }

    fn device(&self) -> String {
        "idle".to_owned()
    }
}

/// Frames that arrive as fast as they are received, up to a number.
pub fn at_once(frames_max: Option<u64>) -> Arrival {
    Arrival { frames_max, ..Arrival::default() }
}
