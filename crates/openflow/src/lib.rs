//! OpenFlow 1.3: messages as bytes, and the agent that answers them for a switch.
//!
//! ```text
//! bytes ─► Agent: split, version, role ─► Message::decode ─► Datapath: flows, groups, ports …
//! bytes ◄─ queue of the connection ◄───── Message::encode ◄─ answers, packet-in, flow-removed
//! ```
//!
//! No sockets, no clock, no tables: the caller moves bytes and passes the time, and implements
//! [`Datapath`]. The vocabulary of flows, groups and meters is that of [`warpswitch_rules`].
//!
//! # Invariants
//! - O1: no bytes of a peer cause a panic. Every malformed message gets the error type and code of
//!   the specification, with its first 64 bytes.
//! - O2: the memory of a connection is bounded ([`AgentConfig`]): packet-in messages beyond the
//!   limit are dropped and counted; requests beyond it wait until replies were sent.
//!
//! ```
//! use warpswitch_openflow::{Message, MultipartRequest};
//!
//! let bytes = Message::MultipartRequest(MultipartRequest::PortDescription).encode(7);
//! assert_eq!(bytes, [4, 18, 0, 16, 0, 0, 0, 7, 0, 13, 0, 0, 0, 0, 0, 0]);
//! assert!(Message::decode(&bytes[..15]).is_err());
//! ```
//! # Source
//! OpenFlow Switch Specification 1.3.5, and the header files of Open vSwitch for its extensions.
#![forbid(unsafe_code)]

mod actions;
mod agent;
mod bytes;
mod error;
mod experimenter;
mod flows;
mod groups;
mod header;
mod instructions;
mod message;
mod meters;
mod multipart;
mod nicira;
mod oxm;
mod packets;
mod ports;
mod session;
mod tables;
#[cfg(test)]
mod testing;

pub use agent::{
    Agent, AgentConfig, Change, ConnectionId, ConnectionStats, Datapath, FailedChange,
};
pub use error::ErrorCode;
pub use experimenter::{BundleControl, BundleStep, ExperimenterMessage};
pub use flows::{FlowModMessage, NO_BUFFER};
pub use groups::{Counters, GroupFeatures, GroupStats};
pub use header::{HEADER_BYTES, Header, MESSAGE_BYTES_MAX, VERSION, VERSION_1_0, message_type};
pub use message::Message;
pub use meters::{METER_ALL, METER_MAX, MeterFeatures, MeterStats};
pub use multipart::{FlowTotals, MultipartReply, MultipartRequest, QUEUE_ALL, SwitchDescription};
pub use packets::{PacketInMessage, PacketOut};
pub use ports::{
    PortChange, PortConfig, PortDescription, PortMod, PortState, PortStats, PortStatus, QueueStats,
    link,
};
pub use session::{
    AsyncConfig, AsyncMasks, ErrorMessage, Features, FragmentPolicy, Hello, Role, RoleMessage,
    SwitchConfig, capability,
};
pub use tables::{TableFeatures, TableMod, TableStats};
