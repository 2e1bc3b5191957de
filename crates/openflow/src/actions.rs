//! Actions (specification 1.3.5, section 7.2.5).

use warpswitch_rules::openflow::{FlowAction, MatchField, port};

use crate::ErrorCode;
use crate::bytes::{Append, Reader};
use crate::nicira;
use crate::oxm::{IN_ACTION, VLAN_PRESENT, read_entry, write_entry};

mod kind {
    pub const OUTPUT: u16 = 0;
    pub const COPY_TTL_OUT: u16 = 11;
    pub const COPY_TTL_IN: u16 = 12;
    pub const SET_MPLS_TTL: u16 = 15;
    pub const DEC_MPLS_TTL: u16 = 16;
    pub const PUSH_VLAN: u16 = 17;
    pub const POP_VLAN: u16 = 18;
    pub const PUSH_MPLS: u16 = 19;
    pub const POP_MPLS: u16 = 20;
    pub const SET_QUEUE: u16 = 21;
    pub const GROUP: u16 = 22;
    pub const SET_NW_TTL: u16 = 23;
    pub const DEC_NW_TTL: u16 = 24;
    pub const SET_FIELD: u16 = 25;
    pub const PUSH_PBB: u16 = 26;
    pub const POP_PBB: u16 = 27;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// The numbers of the actions of OpenFlow that this codec supports.
pub(crate) const SUPPORTED: [u16; 16] = [
    kind::OUTPUT,
    kind::COPY_TTL_OUT,
    kind::COPY_TTL_IN,
    kind::SET_MPLS_TTL,
    kind::DEC_MPLS_TTL,
    kind::PUSH_VLAN,
    kind::POP_VLAN,
    kind::PUSH_MPLS,
    kind::POP_MPLS,
    kind::SET_QUEUE,
    kind::GROUP,
    kind::SET_NW_TTL,
    kind::DEC_NW_TTL,
    kind::SET_FIELD,
    kind::PUSH_PBB,
    kind::POP_PBB,
];

const BAD_LEN: ErrorCode = ErrorCode::ACTION_BAD_LEN;

/// Reads a list of actions that fills `bytes`.
pub(crate) fn read_actions(bytes: &[u8]) -> Result<Vec<FlowAction>, ErrorCode> {
    let mut reader = Reader::new(bytes, BAD_LEN);
    let mut actions = Vec::new();
    while !reader.is_empty() {
        actions.push(read_action(reader.entry(2, 8, 8)?)?);
    }
    Ok(actions)
}

fn read_action(mut body: Reader<'_>) -> Result<FlowAction, ErrorCode> {
    let number = body.u16()?;
    body.skip(2)?;
    let action = match number {
        kind::OUTPUT => {
            let action =
                FlowAction::Output { port: output_port(body.u32()?)?, max_len: body.u16()? };
            body.skip(6)?;
            action
        }
        kind::SET_FIELD => return read_set_field(body),
        kind::EXPERIMENTER => return nicira::read_action(body),
        _ => read_short(number, body.array()?)?,
    };
    body.finish()?;
    Ok(action)
}

/// Reads an action with an argument of at most four bytes.
fn read_short(number: u16, argument: [u8; 4]) -> Result<FlowAction, ErrorCode> {
    let word = u32::from_be_bytes(argument);
    let [byte, second, ..] = argument;
    let eth_type = u16::from_be_bytes([byte, second]);
    Ok(match number {
        kind::COPY_TTL_OUT => FlowAction::CopyTtlOut,
        kind::COPY_TTL_IN => FlowAction::CopyTtlIn,
        kind::SET_MPLS_TTL => FlowAction::SetMplsTtl(byte),
        kind::DEC_MPLS_TTL => FlowAction::DecMplsTtl,
        kind::PUSH_VLAN => FlowAction::PushVlan(one_of(eth_type, &[0x8100, 0x88a8])?),
        kind::POP_VLAN => FlowAction::PopVlan,
        kind::PUSH_MPLS => FlowAction::PushMpls(one_of(eth_type, &[0x8847, 0x8848])?),
        kind::POP_MPLS => FlowAction::PopMpls(eth_type),
        kind::SET_QUEUE => FlowAction::SetQueue(word),
        kind::GROUP if word > port::GROUP_MAX => return Err(ErrorCode::ACTION_BAD_OUT_GROUP),
        kind::GROUP => FlowAction::Group(word),
        kind::SET_NW_TTL => FlowAction::SetNwTtl(byte),
        kind::DEC_NW_TTL => FlowAction::DecNwTtl,
        kind::PUSH_PBB => FlowAction::PushPbb(one_of(eth_type, &[0x88e7])?),
        kind::POP_PBB => FlowAction::PopPbb,
        _ => return Err(ErrorCode::ACTION_BAD_TYPE),
    })
}

fn one_of(eth_type: u16, valid: &[u16]) -> Result<u16, ErrorCode> {
    if valid.contains(&eth_type) { Ok(eth_type) } else { Err(ErrorCode::ACTION_BAD_ARGUMENT) }
}

/// Rejects port numbers that no output can have.
fn output_port(number: u32) -> Result<u32, ErrorCode> {
    let is_valid = matches!(number, 1..=port::MAX | port::IN_PORT..=port::LOCAL);
    if is_valid { Ok(number) } else { Err(ErrorCode::ACTION_BAD_OUT_PORT) }
}

fn read_set_field(mut body: Reader<'_>) -> Result<FlowAction, ErrorCode> {
    let entry = read_entry(&mut body, &IN_ACTION)?;
    if entry.has_mask {
        return Err(ErrorCode::ACTION_BAD_SET_MASK);
    }
    if !entry.field.is_settable {
        return Err(ErrorCode::ACTION_BAD_SET_TYPE);
    }
    if body.len() >= 8 {
        return Err(ErrorCode::ACTION_BAD_SET_LEN);
    }
    if entry.field.name == "vlan_vid" && entry.value == 0 {
        return Err(ErrorCode::ACTION_BAD_SET_ARGUMENT);
    }
    Ok(FlowAction::SetField { field: entry.field, value: entry.value, mask: entry.mask })
}

/// Appends a list of actions.
pub(crate) fn write_actions(out: &mut Vec<u8>, actions: &[FlowAction]) {
    for action in actions {
        match *action {
            // Adjacent bits can be loaded into any field, others need a mask.
            FlowAction::SetField { field, value, mask } if !field.is_maskable => {
                for mask in runs(mask & field.range.value_max()) {
                    write_padded(out, &FlowAction::SetField { field, value: value & mask, mask });
                }
            }
            _ => write_padded(out, action),
        }
    }
}

/// The runs of adjacent ones of a mask, each as a mask.
fn runs(mut mask: u128) -> impl Iterator<Item = u128> {
    std::iter::from_fn(move || {
        let offset = mask.trailing_zeros();
        let ones = (!mask.checked_shr(offset)?).trailing_zeros();
        let run = u128::MAX.checked_shr(128 - ones).unwrap_or(0) << offset;
        mask &= !run;
        Some(run)
    })
}

fn write_padded(out: &mut Vec<u8>, action: &FlowAction) {
    let start = out.len();
    write_action(out, action);
    out.pad(start).length(start);
}

/// Appends one action, without padding, its length left open.
fn write_action(out: &mut Vec<u8>, action: &FlowAction) {
    let mut short = |number: u16, word: u32| {
        out.u16(number).u16(0).u32(word);
    };
    let byte = |byte: u8| u32::from(byte) << 24;
    let half = |half: u16| u32::from(half) << 16;
    match *action {
        FlowAction::Output { port, max_len } => {
            out.u16(kind::OUTPUT).u16(0).u32(port).u16(max_len).zeros(6);
        }
        FlowAction::Group(id) => short(kind::GROUP, id),
        FlowAction::SetQueue(id) => short(kind::SET_QUEUE, id),
        FlowAction::PushVlan(eth_type) => short(kind::PUSH_VLAN, half(eth_type)),
        FlowAction::PopVlan => short(kind::POP_VLAN, 0),
        FlowAction::PushMpls(eth_type) => short(kind::PUSH_MPLS, half(eth_type)),
        FlowAction::PopMpls(eth_type) => short(kind::POP_MPLS, half(eth_type)),
        FlowAction::PushPbb(eth_type) => short(kind::PUSH_PBB, half(eth_type)),
        FlowAction::PopPbb => short(kind::POP_PBB, 0),
        FlowAction::SetMplsTtl(ttl) => short(kind::SET_MPLS_TTL, byte(ttl)),
        FlowAction::DecMplsTtl => short(kind::DEC_MPLS_TTL, 0),
        FlowAction::SetNwTtl(ttl) => short(kind::SET_NW_TTL, byte(ttl)),
        FlowAction::DecNwTtl => short(kind::DEC_NW_TTL, 0),
        FlowAction::CopyTtlOut => short(kind::COPY_TTL_OUT, 0),
        FlowAction::CopyTtlIn => short(kind::COPY_TTL_IN, 0),
        FlowAction::SetField { field, value, mask } if is_standard_set(field, value, mask) => {
            out.u16(kind::SET_FIELD).u16(0);
            write_entry(out, field, value, mask);
        }
        _ => nicira::write_action(out, action),
    }
}

/// Whether OpenFlow's set-field can express a change: it sets whole fields, no input port
/// (specification 1.3.5, section 7.2.5), and no VLAN id without the bit of a tag.
fn is_standard_set(field: &MatchField, value: u128, mask: u128) -> bool {
    let all = field.range.value_max();
    let is_expressible = match field.name {
        "in_port" => false,
        "vlan_vid" => value & VLAN_PRESENT != 0,
        _ => true,
    };
    mask & all == all && is_expressible
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn actions_keep_their_bytes() {
        for bytes in [
            "0000 0010 00000002 ffe5 000000000000",
            "0011 0008 8100 0000  0019 0010 80000c02 1005 000000000000  0012 0008 00000000",
            "0013 0008 8847 0000  000f 0008 40000000  0010 0008 00000000  0014 0008 0800 0000",
            "0016 0008 00000007  0015 0008 00000003  0017 0008 05000000  0018 0008 00000000",
            "000b 0008 00000000  000c 0008 00000000  001a 0008 88e7 0000  001b 0008 00000000",
        ] {
            let actions = read_actions(&hex(bytes)).unwrap();
            let mut out = Vec::new();
            write_actions(&mut out, &actions);
            assert_eq!(out, hex(bytes), "{actions:?}");
        }
    }

    #[test]
    fn masks_with_gaps_are_split_where_a_field_has_no_mask() {
        for (mask, expected) in [
            (0, &[][..]),
            (1, &[1]),
            (0b0110_1000, &[0b1000, 0b0110_0000]),
            (u128::MAX, &[u128::MAX]),
            (1 << 127 | 3, &[3, 1 << 127]),
        ] {
            assert!(runs(mask).eq(expected.iter().copied()), "{mask:#x}");
        }
    }

    #[test]
    fn rejects_bad_actions_with_the_code_of_the_standard() {
        use ErrorCode as E;
        for (bytes, code) in [
            ("0000", E::ACTION_BAD_LEN),
            ("0000 0000 00000000", E::ACTION_BAD_LEN),
            ("0000 0008 00000001", E::ACTION_BAD_LEN),
            ("0012 000c 00000000 00000000", E::ACTION_BAD_LEN),
            ("0012 0010 00000000 0000000000000000", E::ACTION_BAD_LEN),
            ("0000 0010 00000000 0000 000000000000", E::ACTION_BAD_OUT_PORT),
            ("0000 0010 ffffffff 0000 000000000000", E::ACTION_BAD_OUT_PORT),
            ("0016 0008 ffffff01", E::ACTION_BAD_OUT_GROUP),
            ("0011 0008 0800 0000", E::ACTION_BAD_ARGUMENT),
            ("0001 0008 00000000", E::ACTION_BAD_TYPE),
            ("0019 0010 80005004 00000000 00000000", E::ACTION_BAD_SET_TYPE),
            ("0019 0010 80000204 00000001 00000000", E::ACTION_BAD_SET_TYPE),
            ("0019 0008 80000c02", E::ACTION_BAD_SET_LEN),
            ("0019 0010 80000c01 1005 000000000000", E::ACTION_BAD_SET_LEN),
            ("0019 0018 80000c02 1005 000000000000 0000000000000000", E::ACTION_BAD_SET_LEN),
            ("0019 0010 80000c02 3005 000000000000", E::ACTION_BAD_SET_ARGUMENT),
            ("0019 0010 80000d04 1005 1fff 00000000", E::ACTION_BAD_SET_MASK),
            ("ffff 0010 00001234 0001 000000000000", E::ACTION_BAD_EXPERIMENTER),
            ("ffff 0010 00002320 7fff 000000000000", E::ACTION_BAD_EXP_TYPE),
        ] {
            assert_eq!(read_actions(&hex(bytes)), Err(code), "{bytes}");
        }
    }
}
