//! Actions of experimenters: those of Open vSwitch (Nicira), and the ONF's copy-field.
//!
//! `ovs-ofctl -O OpenFlow13` sends them for everything that OpenFlow 1.3 has no action for.

use warpswitch_rules::openflow::{FlowAction, MatchField, Oxm, Subfield, field, port};

use crate::ErrorCode;
use crate::bytes::{Append, Reader};
use crate::oxm::{IN_ACTION, read_entry, read_header, write_entry, write_header};

/// The experimenter id of Nicira, which Open vSwitch uses.
pub(crate) const NICIRA: u32 = 0x0000_2320;

/// Number of the ONF's action that copies bits between fields.
const ONF_COPY_FIELD: u16 = 3200;

/// The type of all experimenter actions.
const EXPERIMENTER_ACTION: u16 = 0xffff;

mod kind {
    pub const RESUBMIT: u16 = 1;
    pub const SET_TUNNEL: u16 = 2;
    pub const POP_QUEUE: u16 = 5;
    pub const REG_MOVE: u16 = 6;
    pub const REG_LOAD: u16 = 7;
    pub const NOTE: u16 = 8;
    pub const SET_TUNNEL64: u16 = 9;
    pub const RESUBMIT_TABLE: u16 = 14;
    pub const OUTPUT_REG: u16 = 15;
    pub const EXIT: u16 = 17;
    pub const DEC_TTL: u16 = 18;
    pub const CONTROLLER: u16 = 20;
    pub const DEC_TTL_IDS: u16 = 21;
    pub const STACK_PUSH: u16 = 27;
    pub const STACK_POP: u16 = 28;
    pub const OUTPUT_REG2: u16 = 32;
    pub const REG_LOAD2: u16 = 33;
}

/// Table number of a resubmit action that stands for the present table.
const PRESENT_TABLE: u8 = 0xff;

/// The bytes of note actions that fit in front of the first padding boundary.
const NOTE_BYTES: usize = 6;

/// Reads an experimenter action behind its type and length.
pub(crate) fn read_action(mut body: Reader<'_>) -> Result<FlowAction, ErrorCode> {
    let experimenter = body.u32()?;
    match experimenter {
        NICIRA => read_nicira(body.u16()?, body),
        Oxm::ONF_EXPERIMENTER => {
            if body.u16()? != ONF_COPY_FIELD {
                return Err(ErrorCode::ACTION_BAD_EXP_TYPE);
            }
            body.skip(2)?;
            let lens = [body.u16()?, body.u16()?, body.u16()?];
            body.skip(2)?;
            read_move(body, lens)
        }
        _ => Err(ErrorCode::ACTION_BAD_EXPERIMENTER),
    }
}

fn read_nicira(number: u16, mut body: Reader<'_>) -> Result<FlowAction, ErrorCode> {
    let action = match number {
        kind::RESUBMIT | kind::RESUBMIT_TABLE => read_resubmit(number, &mut body)?,
        kind::SET_TUNNEL => {
            body.skip(2)?;
            set_tunnel(body.u32()?.into())?
        }
        kind::SET_TUNNEL64 => {
            body.skip(6)?;
            set_tunnel(body.u64()?.into())?
        }
        kind::POP_QUEUE => FlowAction::PopQueue,
        kind::EXIT => FlowAction::Exit,
        kind::DEC_TTL | kind::DEC_TTL_IDS => return Ok(FlowAction::DecNwTtl),
        kind::REG_MOVE => {
            let lens = [body.u16()?, body.u16()?, body.u16()?];
            return read_move(body, lens);
        }
        kind::REG_LOAD => read_load(&mut body)?,
        kind::REG_LOAD2 => {
            let entry = read_entry(&mut body, &IN_ACTION)?;
            settable(entry.field)?;
            return Ok(FlowAction::SetField {
                field: entry.field,
                value: entry.value,
                mask: tos_mask(entry.field, entry.mask),
            });
        }
        kind::NOTE => return Ok(FlowAction::Note(body.rest().to_vec())),
        kind::OUTPUT_REG => {
            let bits = body.u16()?;
            let (field, _) = read_plain_header(&mut body)?;
            let source = packed_bits(field, bits)?;
            let max_len = body.u16()?;
            body.skip(6)?;
            FlowAction::OutputBits { source, max_len }
        }
        kind::OUTPUT_REG2 => {
            let (bits, max_len) = (body.u16()?, body.u16()?);
            let (field, _) = read_plain_header(&mut body)?;
            return Ok(FlowAction::OutputBits { source: packed_bits(field, bits)?, max_len });
        }
        kind::CONTROLLER => {
            let (max_len, id, reason) = (body.u16()?, body.u16()?, body.u8()?);
            FlowAction::Controller { max_len, id, reason }
        }
        kind::STACK_PUSH | kind::STACK_POP => {
            let offset = body.u16()?;
            let (field, _) = read_plain_header(&mut body)?;
            let bits = subfield(field, offset, body.u16()?)?;
            if number == kind::STACK_PUSH {
                return Ok(FlowAction::StackPush(bits));
            }
            settable(field)?;
            return Ok(FlowAction::StackPop(bits));
        }
        _ => return Err(ErrorCode::ACTION_BAD_EXP_TYPE),
    };
    if body.len() >= 8 { Err(ErrorCode::ACTION_BAD_LEN) } else { Ok(action) }
}

fn read_resubmit(number: u16, body: &mut Reader<'_>) -> Result<FlowAction, ErrorCode> {
    let in_port = wide_port(body.u16()?);
    let table = match number {
        kind::RESUBMIT_TABLE => Some(body.u8()?).filter(|&table| table != PRESENT_TABLE),
        _ => None,
    };
    Ok(FlowAction::Resubmit { port: Some(in_port).filter(|&p| p != port::IN_PORT), table })
}

/// A port number of OpenFlow 1.0; the reserved numbers are the last ones in both versions.
fn wide_port(number: u16) -> u32 {
    let number = u32::from(number);
    if number >= 0xff00 { number | 0xffff_0000 } else { number }
}

fn set_tunnel(value: u128) -> Result<FlowAction, ErrorCode> {
    let field = field("tun_id").ok_or(ErrorCode::ACTION_BAD_SET_TYPE)?;
    Ok(FlowAction::SetField { field, value, mask: field.range.value_max() })
}

/// Reads the two fields of a copy: `lens` are the number of bits and both offsets.
fn read_move(mut body: Reader<'_>, lens: [u16; 3]) -> Result<FlowAction, ErrorCode> {
    let [bits, source_offset, target_offset] = lens;
    let (source, _) = read_plain_header(&mut body)?;
    let (target, _) = read_plain_header(&mut body)?;
    settable(target)?;
    let source = subfield(source, source_offset, bits)?;
    Ok(FlowAction::Move { source, target: subfield(target, target_offset, bits)? })
}

fn read_load(body: &mut Reader<'_>) -> Result<FlowAction, ErrorCode> {
    let bits = body.u16()?;
    let (field, _) = read_plain_header(body)?;
    let value = u128::from(body.u64()?);
    settable(field)?;
    let target = packed_bits(field, bits)?;
    let ones = u128::MAX >> (128 - u32::from(target.bits));
    if value & !ones != 0 {
        return Err(ErrorCode::ACTION_BAD_SET_ARGUMENT);
    }
    let mask = tos_mask(field, ones << target.offset);
    Ok(FlowAction::SetField { field, value: value << target.offset & mask, mask })
}

/// The ECN bits do not belong to Open vSwitch's TOS field.
fn tos_mask(field: &MatchField, mask: u128) -> u128 {
    if field.name == "nw_tos" { mask & 0xfc } else { mask }
}

fn read_plain_header(body: &mut Reader<'_>) -> Result<(&'static MatchField, bool), ErrorCode> {
    let header = read_header(body, &IN_ACTION)?;
    if header.1 { Err(ErrorCode::ACTION_BAD_SET_MASK) } else { Ok(header) }
}

fn settable(field: &MatchField) -> Result<(), ErrorCode> {
    if field.is_settable { Ok(()) } else { Err(ErrorCode::ACTION_BAD_SET_ARGUMENT) }
}

/// The bits that an offset and a length, packed in 16 bits, name.
fn packed_bits(field: &'static MatchField, packed: u16) -> Result<Subfield, ErrorCode> {
    subfield(field, packed >> 6, (packed & 0x3f) + 1)
}

fn subfield(field: &'static MatchField, offset: u16, bits: u16) -> Result<Subfield, ErrorCode> {
    let end = usize::from(offset) + usize::from(bits);
    if bits == 0 || end > field.range.bits {
        return Err(ErrorCode::ACTION_BAD_SET_LEN);
    }
    Ok(Subfield { field, offset: offset as u8, bits: bits as u8 })
}

/// Appends an action of Open vSwitch, without padding, its length left open.
pub(crate) fn write_action(out: &mut Vec<u8>, action: &FlowAction) {
    match *action {
        FlowAction::OutputBits { source, max_len } => {
            if source.field.oxm.class == Oxm::EXPERIMENTER {
                start(out, kind::OUTPUT_REG2).u16(pack(source)).u16(max_len);
                write_header(out, source.field, false);
                out.zeros(2);
            } else {
                start(out, kind::OUTPUT_REG).u16(pack(source));
                write_header(out, source.field, false);
                out.u16(max_len).zeros(6);
            }
        }
        FlowAction::Controller { max_len, id, reason } => {
            start(out, kind::CONTROLLER).u16(max_len).u16(id).u8(reason);
        }
        FlowAction::PopQueue => {
            start(out, kind::POP_QUEUE);
        }
        FlowAction::Exit => {
            start(out, kind::EXIT);
        }
        FlowAction::SetField { field, value, mask } => write_load(out, field, value, mask),
        FlowAction::Move { source, target } => {
            let (from, to) = (u16::from(source.offset), u16::from(target.offset));
            start(out, kind::REG_MOVE).u16(source.bits.into()).u16(from).u16(to);
            write_header(out, source.field, false);
            write_header(out, target.field, false);
        }
        FlowAction::Resubmit { port, table } => {
            let number = if table.is_some() { kind::RESUBMIT_TABLE } else { kind::RESUBMIT };
            start(out, number).u16(port.unwrap_or(port::IN_PORT) as u16);
            out.u8(table.unwrap_or_default());
        }
        FlowAction::StackPush(bits) => write_stack(out, kind::STACK_PUSH, bits),
        FlowAction::StackPop(bits) => write_stack(out, kind::STACK_POP, bits),
        FlowAction::Note(ref bytes) => {
            start(out, kind::NOTE).bytes(bytes);
            out.zeros(NOTE_BYTES.saturating_sub(bytes.len()));
        }
        _ => debug_assert!(false, "an action of OpenFlow: {action:?}"),
    }
}

fn start(out: &mut Vec<u8>, number: u16) -> &mut Vec<u8> {
    out.u16(EXPERIMENTER_ACTION).u16(0).u32(NICIRA).u16(number)
}

fn pack(bits: Subfield) -> u16 {
    u16::from(bits.offset) << 6 | u16::from(bits.bits.saturating_sub(1))
}

/// A load of adjacent bits, as `load` and `set_field` of bits send it, else of any bits.
fn write_load(out: &mut Vec<u8>, field: &'static MatchField, value: u128, mask: u128) {
    let offset = mask.trailing_zeros();
    let ones = mask.checked_shr(offset).unwrap_or(0);
    let is_adjacent = ones != 0 && ones & ones.wrapping_add(1) == 0;
    if is_adjacent && ones <= u128::from(u64::MAX) && field.range.bits <= 64 {
        let bits = Subfield { field, offset: offset as u8, bits: ones.count_ones() as u8 };
        start(out, kind::REG_LOAD).u16(pack(bits));
        write_header(out, field, false);
        out.u64((value >> offset & ones) as u64);
    } else {
        start(out, kind::REG_LOAD2);
        write_entry(out, field, value & mask, mask);
    }
}

fn write_stack(out: &mut Vec<u8>, number: u16, bits: Subfield) {
    start(out, number).u16(bits.offset.into());
    write_header(out, bits.field, false);
    out.u16(bits.bits.into());
}

#[cfg(test)]
mod tests {
    use crate::ErrorCode;
    use crate::actions::{read_actions, write_actions};
    use crate::testing::hex;

    #[test]
    fn actions_of_open_vswitch_keep_their_bytes() {
        for bytes in [
            "ffff0010 00002320 0001 0003 00000000",
            "ffff0010 00002320 000e fff8 05000000",
            "ffff0010 00002320 000e fff8 05000000",
            "ffff0018 00002320 0006 0010 0000 0010 00010004 00010204",
            "ffff0018 00002320 0007 040f 00010004 0000000000000005",
            "ffff0018 00002320 0021 00010108 00000005 0000ff0f 0000",
            "ffff0018 00002320 000f 001f 00010004 ffff 000000000000",
            "ffff0010 00002320 0014 0080 0002 01 00",
            "ffff0018 00002320 001b 0000 00010004 0020 000000000000",
            "ffff0018 00002320 001c 0000 00010004 0020 000000000000",
            "ffff0018 00002320 0007 000c 80000c02 0000000000000005",
            "ffff0010 00002320 0008 010203040506",
            "ffff0010 00002320 0011 000000000000 ffff0010 00002320 0005 000000000000",
        ] {
            let actions = read_actions(&hex(bytes)).unwrap();
            let mut out = Vec::new();
            write_actions(&mut out, &actions);
            assert_eq!(out, hex(bytes), "{actions:?}");
        }
    }

    #[test]
    fn reads_copy_field_of_the_onf_as_a_move() {
        let onf = "ffff0020 4f4e4600 0c80 0000 0010 0000 0010 0000 00010004 00010204 00000000";
        let nicira = "ffff0018 00002320 0006 0010 0000 0010 00010004 00010204";
        assert_eq!(read_actions(&hex(onf)), read_actions(&hex(nicira)));
        assert!(read_actions(&hex(onf)).is_ok());
    }

    #[test]
    fn rejects_bad_bits_and_fields() {
        use ErrorCode as E;
        for (bytes, code) in [
            ("ffff0018 00002320 0006 0021 0000 0000 00010004 00010204", E::ACTION_BAD_SET_LEN),
            ("ffff0018 00002320 0006 0000 0000 0000 00010004 00010204", E::ACTION_BAD_SET_LEN),
            ("ffff0018 00002320 0006 0009 0000 0000 00010004 80004e02", E::ACTION_BAD_SET_ARGUMENT),
            ("ffff0018 00002320 0007 0000 00010004 0000000000000002", E::ACTION_BAD_SET_ARGUMENT),
            ("ffff0018 00002320 0007 0000 00010108 0000000000000002", E::ACTION_BAD_SET_MASK),
            ("ffff0018 00002320 0007 0000 0001fe04 0000000000000002", E::ACTION_BAD_SET_TYPE),
            ("ffff0010 00002320 0006 0010 0000 0010", E::ACTION_BAD_SET_LEN),
            ("ffff0018 00002320 0011 000000000000 0000000000000000", E::ACTION_BAD_LEN),
        ] {
            assert_eq!(read_actions(&hex(bytes)), Err(code), "{bytes}");
        }
    }
}
