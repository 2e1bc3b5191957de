//! The header of every message (specification 1.3.5, section 7.1), and splitting a byte stream.

use crate::bytes::Append;

/// The version number of OpenFlow 1.3 in messages.
pub const VERSION: u8 = 4;

/// The version number of OpenFlow 1.0 in messages.
pub const VERSION_1_0: u8 = 1;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 8;

/// The most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 65535;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Version of the protocol.
    pub version: u8,
    /// Type of the message: [`message_type`].
    pub kind: u8,
    /// Bytes of the message with this header.
    pub len: u16,
    /// Number that a reply repeats.
    pub xid: u32,
}

impl Header {
    /// Reads a header; `None` if bytes are missing.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [version, kind, len0, len1, xid @ ..] = *bytes.first_chunk::<HEADER_BYTES>()?;
        let len = u16::from_be_bytes([len0, len1]);
        Some(Self { version, kind, len, xid: u32::from_be_bytes(xid) })
    }
}

/// Starts a message; [`finish`] sets its length.
pub(crate) fn start(kind: u8, xid: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.u8(VERSION).u8(kind).u16(0).u32(xid);
    out
}

/// Sets the length of a message.
pub(crate) fn finish(mut out: Vec<u8>) -> Vec<u8> {
    out.length(0);
    out
}

/// Numbers of the message types (specification 1.3.5, section 7.1).
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod message_type {
    pub const HELLO: u8 = 0;
    pub const ERROR: u8 = 1;
    pub const ECHO_REQUEST: u8 = 2;
    pub const ECHO_REPLY: u8 = 3;
    pub const EXPERIMENTER: u8 = 4;
    pub const FEATURES_REQUEST: u8 = 5;
    pub const FEATURES_REPLY: u8 = 6;
    pub const GET_CONFIG_REQUEST: u8 = 7;
    pub const GET_CONFIG_REPLY: u8 = 8;
    pub const SET_CONFIG: u8 = 9;
    pub const PACKET_IN: u8 = 10;
    pub const FLOW_REMOVED: u8 = 11;
    pub const PORT_STATUS: u8 = 12;
    pub const PACKET_OUT: u8 = 13;
    pub const FLOW_MOD: u8 = 14;
    pub const GROUP_MOD: u8 = 15;
    pub const PORT_MOD: u8 = 16;
    pub const TABLE_MOD: u8 = 17;
    pub const MULTIPART_REQUEST: u8 = 18;
    pub const MULTIPART_REPLY: u8 = 19;
    pub const BARRIER_REQUEST: u8 = 20;
    pub const BARRIER_REPLY: u8 = 21;
    pub const QUEUE_GET_CONFIG_REQUEST: u8 = 22;
    pub const QUEUE_GET_CONFIG_REPLY: u8 = 23;
    pub const ROLE_REQUEST: u8 = 24;
    pub const ROLE_REPLY: u8 = 25;
    pub const GET_ASYNC_REQUEST: u8 = 26;
    pub const GET_ASYNC_REPLY: u8 = 27;
    pub const SET_ASYNC: u8 = 28;
    pub const METER_MOD: u8 = 29;

    /// Whether only switches send messages of this type.
    pub fn is_from_switch(kind: u8) -> bool {
        matches!(
            kind,
            FEATURES_REPLY
                | GET_CONFIG_REPLY
                | PACKET_IN
                | FLOW_REMOVED
                | PORT_STATUS
                | MULTIPART_REPLY
                | BARRIER_REPLY
                | QUEUE_GET_CONFIG_REPLY
                | ROLE_REPLY
                | GET_ASYNC_REPLY
        )
    }
}
