//! Packets in messages (specification 1.3.5, sections 7.3.7 and 7.4.1).

use warpswitch_rules::openflow::{FlowAction, FlowMatch, PacketInReason, port};

use crate::ErrorCode;
use crate::actions::{read_actions, write_actions};
use crate::bytes::{Append, Reader};
use crate::flows::NO_BUFFER;
use crate::oxm::{read_match, write_match};

/// A packet-in message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketInMessage {
    /// Number of the buffer that holds the packet, or [`NO_BUFFER`].
    pub buffer_id: u32,
    /// Length of the frame, of which `data` may be the beginning only.
    pub total_len: u16,
    /// Why the packet is sent.
    pub reason: PacketInReason,
    /// The table whose flow sent it.
    pub table: u8,
    /// That flow's cookie.
    pub cookie: u64,
    /// Input port, metadata, tunnel and registers.
    pub matching: FlowMatch,
    /// The frame or its beginning.
    pub data: Vec<u8>,
}

impl PacketInMessage {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let (buffer_id, total_len) = (body.u32()?, body.u16()?);
        let reason = match body.u8()? {
            0 => PacketInReason::NoMatch,
            1 => PacketInReason::Action,
            _ => PacketInReason::InvalidTtl,
        };
        let (table, cookie) = (body.u8()?, body.u64()?);
        let matching = read_match(&mut body)?;
        body.skip(2)?;
        let data = body.rest().to_vec();
        Ok(Self { buffer_id, total_len, reason, table, cookie, matching, data })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u32(self.buffer_id).u16(self.total_len).u8(self.reason as u8).u8(self.table);
        out.u64(self.cookie);
        write_match(out, &self.matching);
        out.zeros(2).bytes(&self.data);
    }
}

/// A packet-out message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Number of the buffer with the frame, or [`NO_BUFFER`].
    pub buffer_id: u32,
    /// The input port that the pipeline sees.
    pub in_port: u32,
    /// The actions on the frame.
    pub actions: Vec<FlowAction>,
    /// The frame if it is in no buffer.
    pub data: Vec<u8>,
}

impl PacketOut {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let (buffer_id, in_port) = (body.u32()?, body.u32()?);
        let actions_len = usize::from(body.u16()?);
        body.skip(6)?;
        let is_valid = matches!(in_port, 1..=port::MAX | port::CONTROLLER..=port::ANY);
        if !is_valid {
            return Err(ErrorCode::REQUEST_BAD_PORT);
        }
        let actions = read_actions(body.take(actions_len)?)?;
        let data = body.rest();
        let data = if buffer_id == NO_BUFFER { data.to_vec() } else { Vec::new() };
        Ok(Self { buffer_id, in_port, actions, data })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.u32(self.buffer_id).u32(self.in_port).zeros(8);
        let actions_start = out.len();
        write_actions(out, &self.actions);
        out.length_at(start + 8, actions_start);
        out.bytes(&self.data);
    }
}
