//! Instructions (specification 1.3.5, section 7.2.4).

use warpswitch_rules::openflow::{Instructions, MetadataWrite, port};

use crate::ErrorCode;
use crate::actions::{read_actions, write_actions};
use crate::bytes::{Append, Reader};

mod kind {
    pub const GOTO_TABLE: u16 = 1;
    pub const WRITE_METADATA: u16 = 2;
    pub const WRITE_ACTIONS: u16 = 3;
    pub const APPLY_ACTIONS: u16 = 4;
    pub const CLEAR_ACTIONS: u16 = 5;
    pub const METER: u16 = 6;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// The numbers of the supported instructions.
pub(crate) const SUPPORTED: [u16; 6] = [
    kind::GOTO_TABLE,
    kind::WRITE_METADATA,
    kind::WRITE_ACTIONS,
    kind::APPLY_ACTIONS,
    kind::CLEAR_ACTIONS,
    kind::METER,
];

/// Bytes of instructions that a flow may have. A flow is reported in one message, together with
/// its match and counters.
const BYTES_MAX: usize = 64_000;

/// Reads the instructions that fill `bytes`.
pub(crate) fn read_instructions(bytes: &[u8]) -> Result<Instructions, ErrorCode> {
    if bytes.len() > BYTES_MAX {
        return Err(ErrorCode::ACTION_TOO_MANY);
    }
    let mut reader = Reader::new(bytes, ErrorCode::INSTRUCTION_BAD_LEN);
    let mut instructions = Instructions::default();
    let mut present = 0u32;
    while !reader.is_empty() {
        let mut body = reader.entry(2, 8, 8)?;
        let number = body.u16()?;
        body.skip(2)?;
        read_instruction(number, body, &mut instructions)?;
        if present & 1 << number != 0 {
            return Err(ErrorCode::INSTRUCTION_DUPLICATE);
        }
        present |= 1 << number;
    }
    Ok(instructions)
}

fn read_instruction(
    number: u16,
    mut body: Reader<'_>,
    instructions: &mut Instructions,
) -> Result<(), ErrorCode> {
    match number {
        kind::GOTO_TABLE => {
            let table = body.u8()?;
            if table > port::TABLE_MAX {
                return Err(ErrorCode::INSTRUCTION_BAD_TABLE_ID);
            }
            instructions.goto_table = Some(table);
            body.skip(3)?;
        }
        kind::WRITE_METADATA => {
            body.skip(4)?;
            let (value, mask) = (body.u64()?, body.u64()?);
            instructions.metadata = Some(MetadataWrite { value, mask });
        }
        kind::WRITE_ACTIONS => {
            body.skip(4)?;
            instructions.write = read_actions(body.rest())?;
            return Ok(());
        }
        kind::APPLY_ACTIONS => {
            body.skip(4)?;
            instructions.apply = read_actions(body.rest())?;
            return Ok(());
        }
        kind::CLEAR_ACTIONS => {
            body.skip(4)?;
            instructions.clear = true;
        }
        kind::METER => instructions.meter = Some(body.u32()?),
        kind::EXPERIMENTER => return Err(ErrorCode::INSTRUCTION_BAD_EXPERIMENTER),
        _ => return Err(ErrorCode::INSTRUCTION_UNKNOWN),
    }
    body.finish()
}

/// Appends instructions, in the order in which they are executed.
pub(crate) fn write_instructions(out: &mut Vec<u8>, instructions: &Instructions) {
    if let Some(meter) = instructions.meter {
        out.u16(kind::METER).u16(8).u32(meter);
    }
    write_list(out, kind::APPLY_ACTIONS, &instructions.apply);
    if instructions.clear {
        out.u16(kind::CLEAR_ACTIONS).u16(8).zeros(4);
    }
    write_list(out, kind::WRITE_ACTIONS, &instructions.write);
    if let Some(MetadataWrite { value, mask }) = instructions.metadata {
        out.u16(kind::WRITE_METADATA).u16(24).zeros(4).u64(value).u64(mask);
    }
    if let Some(table) = instructions.goto_table {
        out.u16(kind::GOTO_TABLE).u16(8).u8(table).zeros(3);
    }
}

fn write_list(out: &mut Vec<u8>, number: u16, actions: &[warpswitch_rules::openflow::FlowAction]) {
    if actions.is_empty() {
        return;
    }
    let start = out.len();
    out.u16(number).u16(0).zeros(4);
    write_actions(out, actions);
    out.length(start);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn instructions_keep_their_bytes() {
        let bytes =
            hex("0006 0008 00000001  0004 0010 00000000 0012 0008 00000000  0005 0008 00000000
             0003 0010 00000000 0016 0008 00000007
             0002 0018 00000000 0000000000000005 000000000000000f  0001 0008 03 000000");
        let instructions = read_instructions(&bytes).unwrap();
        let mut out = Vec::new();
        write_instructions(&mut out, &instructions);
        assert_eq!(out, bytes);
    }

    #[test]
    fn rejects_bad_instructions_with_the_code_of_the_standard() {
        use ErrorCode as E;
        for (bytes, code) in [
            ("0001", E::INSTRUCTION_BAD_LEN),
            ("0001 0000 00000000", E::INSTRUCTION_BAD_LEN),
            ("0001 0010 01000000", E::INSTRUCTION_BAD_LEN),
            ("0001 0010 01000000 0000000000000000", E::INSTRUCTION_BAD_LEN),
            ("0001 0008 ff000000", E::INSTRUCTION_BAD_TABLE_ID),
            ("0002 0010 00000000 0000000000000000", E::INSTRUCTION_BAD_LEN),
            ("0007 0008 00000000", E::INSTRUCTION_UNKNOWN),
            ("ffff 0008 00000000", E::INSTRUCTION_BAD_EXPERIMENTER),
            ("0001 0008 01000000 0001 0008 01000000", E::INSTRUCTION_DUPLICATE),
            ("0004 0010 00000000 0012 0010 00000000", E::ACTION_BAD_LEN),
        ] {
            assert_eq!(read_instructions(&hex(bytes)), Err(code), "{bytes}");
        }
    }
}
