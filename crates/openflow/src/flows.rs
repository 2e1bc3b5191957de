//! Flow-mod messages, and flows in multipart and flow-removed messages (specification 1.3.5,
//! sections 7.3.4.1, 7.3.5.2 and 7.4.3).

use warpswitch_rules::openflow::{
    Flow, FlowCommand, FlowFilter, FlowFlags, FlowMod, FlowRemoved, FlowStats, Instructions,
    RemovalReason, port,
};

use crate::ErrorCode;
use crate::bytes::{Append, Reader};
use crate::instructions::{read_instructions, write_instructions};
use crate::oxm::{read_match, write_match};

/// Buffer number of messages that refer to no buffered packet.
pub const NO_BUFFER: u32 = 0xffff_ffff;

const NANOS: u64 = 1_000_000_000;

/// A flow-mod message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowModMessage {
    /// The change.
    pub change: FlowMod,
    /// The buffered packet that is processed afterwards, or [`NO_BUFFER`].
    pub buffer_id: u32,
}

impl FlowModMessage {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let (cookie, cookie_mask, table) = (body.u64()?, body.u64()?, body.u8()?);
        let command = match body.u8()? {
            0 => FlowCommand::Add,
            1 => FlowCommand::Modify,
            2 => FlowCommand::ModifyStrict,
            3 => FlowCommand::Delete,
            4 => FlowCommand::DeleteStrict,
            _ => return Err(ErrorCode::FLOW_BAD_COMMAND),
        };
        if table > port::TABLE_MAX && !command.is_deletion() {
            return Err(ErrorCode::FLOW_BAD_TABLE_ID);
        }
        let (idle_timeout, hard_timeout, priority) = (body.u16()?, body.u16()?, body.u16()?);
        let (buffer_id, out_port, out_group) = (body.u32()?, body.u32()?, body.u32()?);
        let flags = read_flags(body.u16()?)?;
        body.skip(2)?;
        let matching = read_match(&mut body)?;
        let instructions = match command.is_deletion() {
            true => Instructions::default(),
            false => read_instructions(body.rest())?,
        };
        let flow = Flow {
            table,
            cookie,
            idle_timeout,
            hard_timeout,
            flags,
            ..Flow::new(priority, matching, instructions)
        };
        let change = FlowMod { command, flow, cookie_mask, out_port, out_group };
        Ok(Self { change, buffer_id })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let FlowMod { command, flow, cookie_mask, out_port, out_group } = &self.change;
        out.u64(flow.cookie).u64(*cookie_mask).u8(flow.table).u8(*command as u8);
        out.u16(flow.idle_timeout).u16(flow.hard_timeout).u16(flow.priority);
        out.u32(self.buffer_id).u32(*out_port).u32(*out_group).u16(flags_bits(flow.flags));
        out.zeros(2);
        write_match(out, &flow.matching);
        write_instructions(out, &flow.instructions);
    }
}

fn read_flags(bits: u16) -> Result<FlowFlags, ErrorCode> {
    if bits & !0x1f != 0 {
        return Err(ErrorCode::FLOW_BAD_FLAGS);
    }
    Ok(FlowFlags {
        send_flow_removed: bits & 1 != 0,
        check_overlap: bits & 2 != 0,
        reset_counts: bits & 4 != 0,
        no_packet_counts: bits & 8 != 0,
        no_byte_counts: bits & 16 != 0,
    })
}

fn flags_bits(flags: FlowFlags) -> u16 {
    u16::from(flags.send_flow_removed)
        | u16::from(flags.check_overlap) << 1
        | u16::from(flags.reset_counts) << 2
        | u16::from(flags.no_packet_counts) << 3
        | u16::from(flags.no_byte_counts) << 4
}

/// Reads the body of a request for flows or their sum.
pub(crate) fn read_filter(body: &mut Reader<'_>) -> Result<FlowFilter, ErrorCode> {
    let table = body.u8()?;
    body.skip(3)?;
    let (out_port, out_group) = (body.u32()?, body.u32()?);
    body.skip(4)?;
    let (cookie, cookie_mask) = (body.u64()?, body.u64()?);
    let matching = read_match(body)?;
    Ok(FlowFilter { table, matching, cookie, cookie_mask, out_port, out_group })
}

pub(crate) fn write_filter(out: &mut Vec<u8>, filter: &FlowFilter) {
    out.u8(filter.table).zeros(3).u32(filter.out_port).u32(filter.out_group).zeros(4);
    out.u64(filter.cookie).u64(filter.cookie_mask);
    write_match(out, &filter.matching);
}

/// Reads one flow of a multipart reply.
pub(crate) fn read_stats(body: &mut Reader<'_>) -> Result<FlowStats, ErrorCode> {
    let mut body = body.entry(0, 56, 8)?;
    body.skip(2)?;
    let table = body.u8()?;
    body.skip(1)?;
    let age_ns = read_age(&mut body)?;
    let (priority, idle_timeout, hard_timeout) = (body.u16()?, body.u16()?, body.u16()?);
    let flags = read_flags(body.u16()?)?;
    body.skip(4)?;
    let (cookie, packets, bytes) = (body.u64()?, body.u64()?, body.u64()?);
    let matching = read_match(&mut body)?;
    let instructions = read_instructions(body.rest())?;
    let flow = Flow {
        table,
        cookie,
        idle_timeout,
        hard_timeout,
        flags,
        ..Flow::new(priority, matching, instructions)
    };
    Ok(FlowStats { flow, packets, bytes, age_ns })
}

pub(crate) fn write_stats(out: &mut Vec<u8>, stats: &FlowStats) {
    let flow = &stats.flow;
    let start = out.len();
    out.u16(0).u8(flow.table).u8(0);
    write_age(out, stats.age_ns);
    out.u16(flow.priority).u16(flow.idle_timeout).u16(flow.hard_timeout);
    out.u16(flags_bits(flow.flags)).zeros(4);
    out.u64(flow.cookie).u64(stats.packets).u64(stats.bytes);
    write_match(out, &flow.matching);
    write_instructions(out, &flow.instructions);
    out.length_at(start, start);
}

/// Appends a duration as seconds and nanoseconds.
pub(crate) fn write_age(out: &mut Vec<u8>, age_ns: u64) {
    let seconds = u32::try_from(age_ns / NANOS).unwrap_or(u32::MAX);
    out.u32(seconds).u32((age_ns % NANOS) as u32);
}

pub(crate) fn read_age(body: &mut Reader<'_>) -> Result<u64, ErrorCode> {
    let (seconds, nanos) = (u64::from(body.u32()?), u64::from(body.u32()?));
    Ok(seconds * NANOS + nanos)
}

/// The number of a removal's reason. OpenFlow 1.3 has no number for evictions and meters.
fn reason_number(reason: RemovalReason) -> u8 {
    match reason {
        RemovalReason::IdleTimeout => 0,
        RemovalReason::HardTimeout => 1,
        RemovalReason::Delete | RemovalReason::MeterDelete | RemovalReason::Eviction => 2,
        RemovalReason::GroupDelete => 3,
    }
}

/// The bit of a removal's reason in the configuration of asynchronous messages.
pub(crate) fn reason_bit(reason: RemovalReason) -> u32 {
    1 << reason_number(reason)
}

/// Reads a flow-removed message. Flags and instructions of the flow are not part of it.
pub(crate) fn read_removed(mut body: Reader<'_>) -> Result<FlowRemoved, ErrorCode> {
    let (cookie, priority) = (body.u64()?, body.u16()?);
    let reason = match body.u8()? {
        0 => RemovalReason::IdleTimeout,
        1 => RemovalReason::HardTimeout,
        3 => RemovalReason::GroupDelete,
        _ => RemovalReason::Delete,
    };
    let table = body.u8()?;
    let age_ns = read_age(&mut body)?;
    let (idle_timeout, hard_timeout) = (body.u16()?, body.u16()?);
    let (packets, bytes) = (body.u64()?, body.u64()?);
    let matching = read_match(&mut body)?;
    body.finish()?;
    let flow = Flow {
        table,
        cookie,
        idle_timeout,
        hard_timeout,
        ..Flow::new(priority, matching, Instructions::default())
    };
    Ok(FlowRemoved { stats: FlowStats { flow, packets, bytes, age_ns }, reason })
}

pub(crate) fn write_removed(out: &mut Vec<u8>, removed: &FlowRemoved) {
    let FlowStats { flow, packets, bytes, age_ns } = &removed.stats;
    out.u64(flow.cookie).u16(flow.priority).u8(reason_number(removed.reason)).u8(flow.table);
    write_age(out, *age_ns);
    out.u16(flow.idle_timeout).u16(flow.hard_timeout).u64(*packets).u64(*bytes);
    write_match(out, &flow.matching);
}
