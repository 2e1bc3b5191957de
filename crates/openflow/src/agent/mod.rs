//! The agent: what a switch does with the connections of its controllers.
//!
//! ```text
//! Handshake ── hello with version 1.3 ──► Open ── silence, lost framing ──► Closing
//!     └─── other version, other message, silence ───────────────────────────►┘
//! ```
//!
//! # Bounds
//! A connection keeps one incomplete message, and at most [`AgentConfig::output_bytes_max`] bytes
//! of replies and the reply that went beyond. Then its requests wait: the caller stops reading
//! ([`Agent::wants_input`]). Packet-in messages beyond [`AgentConfig::packet_ins_max`] are dropped.

mod answers;
mod buffers;
mod bundles;
mod connection;
mod datapath;
mod events;
mod handshake;
mod output;
mod requests;

use std::collections::BTreeMap;

pub use connection::ConnectionStats;
pub use datapath::{Change, Datapath, FailedChange};

use buffers::Buffers;
use connection::{Connection, Stage};

use crate::{
    ErrorCode, ErrorMessage, FragmentPolicy, HEADER_BYTES, Header, MESSAGE_BYTES_MAX, Message,
    SwitchDescription, VERSION, message_type,
};

/// Messages that are processed in one call.
const MESSAGES_MAX: usize = 64;
/// Bytes of a failed message in the error message.
const ERROR_DATA_BYTES: usize = 64;

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The switch's identity.
    pub datapath_id: u64,
    /// Its names.
    pub description: SwitchDescription,
    /// Silence after which an echo request is sent, and again until the connection is closed.
    pub probe_interval_ns: u64,
    /// Packet-in messages that wait for one controller; [`AgentConfig::output_bytes_max`] limits
    /// their bytes.
    pub packet_ins_max: usize,
    /// Bytes of replies that wait for one controller before its requests wait.
    pub output_bytes_max: usize,
    /// Packets that are buffered for controllers.
    pub buffers: u32,
    /// Time for which a packet is buffered.
    pub buffer_timeout_ns: u64,
    /// Open bundles of one controller.
    pub bundles_max: usize,
    /// Bytes of the messages in all bundles of one controller.
    pub bundle_bytes_max: usize,
}

impl Default for AgentConfig {
    fn default() -> Self {
        const SECOND_NS: u64 = 1_000_000_000;
        Self {
            datapath_id: 1,
            description: SwitchDescription::default(),
            probe_interval_ns: 15 * SECOND_NS,
            packet_ins_max: 1024,
            output_bytes_max: 4 << 20,
            buffers: 256,
            buffer_timeout_ns: 5 * SECOND_NS,
            bundles_max: 16,
            bundle_bytes_max: 64 << 20,
        }
    }
}

/// A connection of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(u64);

/// Answers the controllers of one switch.
///
/// Threads: one owner. The cost of a call is that of the messages in it.
pub struct Agent {
    config: AgentConfig,
    connections: BTreeMap<ConnectionId, Connection>,
    next_id: u64,
    buffers: Buffers,
    /// The largest generation id of a role request.
    generation: Option<u64>,
    fragments: FragmentPolicy,
}

impl Agent {
    /// An agent without connections.
    pub fn new(config: AgentConfig) -> Self {
        let buffers = Buffers::new(config.buffers, config.buffer_timeout_ns);
        Self {
            config,
            connections: BTreeMap::new(),
            next_id: 0,
            buffers,
            generation: None,
            fragments: FragmentPolicy::default(),
        }
    }

    /// Adds a connection, whose hello message then waits to be sent.
    pub fn connect(&mut self, now_ns: u64) -> ConnectionId {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        let mut connection = Connection::new(now_ns);
        connection.send(0, &Message::Hello(handshake::HELLO));
        self.connections.insert(id, connection);
        id
    }

    /// Forgets a connection that the caller closed or lost.
    pub fn disconnect(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
    }

    /// The connections.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.connections.keys().copied()
    }

    /// Whether the handshake succeeded and the connection is not being closed.
    pub fn is_open(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.stage == Stage::Open)
    }

    /// Why the connection has to be closed, once its last bytes were sent.
    pub fn close_reason(&self, id: ConnectionId) -> Option<&'static str> {
        match self.connections.get(&id)?.stage {
            Stage::Closing(reason) => Some(reason),
            _ => None,
        }
    }

    /// Counters of a connection.
    pub fn stats(&self, id: ConnectionId) -> Option<ConnectionStats> {
        self.connections.get(&id).map(|connection| connection.stats)
    }

    /// Whether the caller may read more from the connection. If not, it calls
    /// [`Agent::receive`] again, without new bytes, after it has sent some, or at once while
    /// [`Agent::has_input`].
    pub fn wants_input(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| {
            let is_closing = matches!(connection.stage, Stage::Closing(_));
            !is_closing && connection.output.waiting().len() <= self.config.output_bytes_max
        })
    }

    /// The bytes that wait to be sent; [`Agent::sent`] removes those that were.
    pub fn transmit(&self, id: ConnectionId) -> &[u8] {
        self.connections.get(&id).map_or(&[], |connection| connection.output.waiting())
    }

    /// Removes bytes that were sent.
    pub fn sent(&mut self, id: ConnectionId, len: usize) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.output.advance(len);
        }
    }

    /// Whether messages of the connection wait for the next call of [`Agent::receive`].
    pub fn has_input(&self, id: ConnectionId) -> bool {
        let is_whole = |input: &[u8]| {
            Header::read(input).is_some_and(|header| input.len() >= header.len.into())
        };
        self.connections.get(&id).is_some_and(|connection| is_whole(&connection.input))
            && self.wants_input(id)
    }

    /// Processes received bytes: the messages that are complete, up to 64 of them, so that the
    /// caller's other work is not kept waiting. [`Agent::has_input`] is true if more wait.
    pub fn receive(
        &mut self,
        id: ConnectionId,
        bytes: &[u8],
        now_ns: u64,
        datapath: &mut dyn Datapath,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !bytes.is_empty() {
            connection.received_ns = now_ns;
            connection.probed_ns = None;
        }
        let mut input = std::mem::take(&mut connection.input);
        input.extend_from_slice(bytes);
        let (mut start, mut handled) = (0, 0);
        while self.wants_input(id) && handled < MESSAGES_MAX {
            handled += 1;
            let Some(header) = Header::read(&input[start..]) else { break };
            let len = usize::from(header.len);
            if len < HEADER_BYTES {
                let data = &input[start..start + HEADER_BYTES];
                self.refuse(id, header.xid, ErrorCode::REQUEST_BAD_LEN, data);
                self.close(id, "a message shorter than its header");
                return;
            }
            let Some(message) = input.get(start..start + len) else { break };
            self.handle(id, header, message, now_ns, datapath);
            start += len;
        }
        input.drain(..start);
        let limit = self.config.output_bytes_max + MESSAGE_BYTES_MAX;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if input.len() > limit {
            connection.close("too many requests wait");
        } else if !matches!(connection.stage, Stage::Closing(_)) {
            connection.input = input;
        }
    }

    /// Sends probes, closes silent connections, and frees old buffers. To be called about every
    /// second.
    pub fn tick(&mut self, now_ns: u64) {
        let interval_ns = self.config.probe_interval_ns;
        self.connections.values_mut().for_each(|c| c.probe(now_ns, interval_ns));
        self.buffers.expire(now_ns);
    }

    fn handle(
        &mut self,
        id: ConnectionId,
        header: Header,
        message: &[u8],
        now_ns: u64,
        datapath: &mut dyn Datapath,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.stats.received += 1;
        if connection.stage == Stage::Handshake {
            handshake::receive(connection, header, message);
            return;
        }
        let is_version_free = matches!(header.kind, message_type::HELLO | message_type::ERROR);
        if is_version_free {
            return;
        }
        let result = match header.version {
            // Their content does not matter, so it is not read.
            VERSION if message_type::is_from_switch(header.kind) => {
                Err(ErrorCode::REQUEST_BAD_TYPE)
            }
            VERSION => Message::decode(message)
                .and_then(|decoded| self.request(id, header.xid, decoded, now_ns, datapath)),
            _ => Err(ErrorCode::REQUEST_BAD_VERSION),
        };
        if let Err(error) = result {
            self.refuse(id, header.xid, error, message);
        }
    }

    fn refuse(&mut self, id: ConnectionId, xid: u32, error: ErrorCode, message: &[u8]) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let data = message[..message.len().min(ERROR_DATA_BYTES)].to_vec();
        connection.stats.errors += 1;
        connection.send(xid, &Message::Error(ErrorMessage { error, data }));
    }

    fn close(&mut self, id: ConnectionId, reason: &'static str) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.close(reason);
        }
    }
}
