//! The state of one controller's connection.

use super::bundles::Bundles;
use super::output::Output;
use crate::{AsyncConfig, AsyncMasks, Message, Role};

/// Bytes of a packet that controllers get by default without an output action.
const DEFAULT_MISS_LEN: u16 = 128;

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStats {
    /// Messages received.
    pub received: u64,
    /// Error messages sent.
    pub errors: u64,
    /// Packet-in messages sent or queued.
    pub packet_ins: u64,
    /// Packet-in messages dropped because too many were queued.
    pub packet_ins_dropped: u64,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The peer's hello is missing.
    Handshake,
    /// Messages are exchanged.
    Open,
    /// Nothing is read any more; what is queued is still sent.
    Closing(&'static str),
}

pub(super) struct Connection {
    pub stage: Stage,
    pub input: Vec<u8>,
    pub output: Output,
    pub role: Role,
    pub asynchronous: AsyncConfig,
    pub miss_len: u16,
    pub bundles: Bundles,
    pub stats: ConnectionStats,
    /// When the last bytes came in.
    pub received_ns: u64,
    /// When an echo request was sent that was not followed by any bytes.
    pub probed_ns: Option<u64>,
}

impl Connection {
    pub fn new(now_ns: u64) -> Self {
        Self {
            stage: Stage::Handshake,
            input: Vec::new(),
            output: Output::default(),
            role: Role::Equal,
            asynchronous: AsyncConfig::default(),
            miss_len: DEFAULT_MISS_LEN,
            bundles: Bundles::default(),
            stats: ConnectionStats::default(),
            received_ns: now_ns,
            probed_ns: None,
        }
    }

    pub fn send(&mut self, xid: u32, message: &Message) {
        self.output.push(&message.encode(xid));
    }

    pub fn close(&mut self, reason: &'static str) {
        if !matches!(self.stage, Stage::Closing(_)) {
            self.stage = Stage::Closing(reason);
            self.input = Vec::new();
        }
    }

    /// The asynchronous messages that the controller gets in its role.
    pub fn masks(&self) -> AsyncMasks {
        match self.role {
            Role::Slave => self.asynchronous.slave,
            _ => self.asynchronous.master,
        }
    }

    /// Sends a probe or closes the connection if the peer was silent for too long.
    pub fn probe(&mut self, now_ns: u64, interval_ns: u64) {
        let since = self.probed_ns.unwrap_or(self.received_ns);
        if now_ns.saturating_sub(since) < interval_ns {
            return;
        }
        match (self.stage, self.probed_ns) {
            (Stage::Handshake, _) => self.close("no hello message"),
            (Stage::Open, Some(_)) => self.close("no answer to an echo request"),
            (Stage::Open, None) => {
                self.probed_ns = Some(now_ns);
                self.send(0, &Message::EchoRequest(Vec::new()));
            }
            (Stage::Closing(_), _) => {}
        }
    }
}
