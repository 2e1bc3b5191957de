//! Tables in messages (specification 1.3.5, sections 7.3.3, 7.3.5.4 and 7.3.5.5).

use warpswitch_rules::openflow::MatchField;

use crate::ErrorCode;
use crate::actions::SUPPORTED as ACTIONS;
use crate::bytes::{Append, Reader};
use crate::instructions::SUPPORTED as INSTRUCTIONS;
use crate::oxm::write_header;

/// Bytes of a table's name in messages.
const NAME_BYTES: usize = 32;

/// The number of the instruction that names the next table.
const GOTO_TABLE: u16 = 1;

/// Numbers of the properties. The one for table-miss flows follows each by one, and is left out
/// because it equals it.
mod property {
    pub const INSTRUCTIONS: u16 = 0;
    pub const NEXT_TABLES: u16 = 2;
    pub const WRITE_ACTIONS: u16 = 4;
    pub const APPLY_ACTIONS: u16 = 6;
    pub const MATCH: u16 = 8;
    pub const WILDCARDS: u16 = 10;
    pub const WRITE_SETFIELD: u16 = 12;
    pub const APPLY_SETFIELD: u16 = 14;
}

/// The counters of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// The table.
    pub table: u8,
    /// Flows in it.
    pub active: u32,
    /// Packets that it looked up.
    pub lookups: u64,
    /// Packets that a flow matched.
    pub matches: u64,
}

impl TableStats {
    pub(crate) fn read(body: &mut Reader<'_>) -> Result<Self, ErrorCode> {
        let table = body.u8()?;
        body.skip(3)?;
        Ok(Self { table, active: body.u32()?, lookups: body.u64()?, matches: body.u64()? })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u8(self.table).zeros(3).u32(self.active).u64(self.lookups).u64(self.matches);
    }
}

/// What a table can do. All instructions and actions are supported in every table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFeatures {
    /// The table.
    pub table: u8,
    /// Its name, of which messages hold 31 bytes.
    pub name: String,
    /// The most flows in it.
    pub flows_max: u32,
    /// Tables that flows may go to.
    pub next_tables: Vec<u8>,
    /// Fields that flows may match; each may be left out.
    pub match_fields: Vec<&'static MatchField>,
    /// Fields that actions may set.
    pub set_fields: Vec<&'static MatchField>,
}

impl TableFeatures {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.u16(0).u8(self.table).zeros(5).text(&self.name, NAME_BYTES);
        out.u64(u64::MAX).u64(u64::MAX).u32(0).u32(self.flows_max);
        let goto = !self.next_tables.is_empty();
        let instructions = INSTRUCTIONS.iter().filter(|&&number| goto || number != GOTO_TABLE);
        write_property(out, property::INSTRUCTIONS, |out| {
            for &number in instructions {
                out.u16(number).u16(4);
            }
        });
        write_property(out, property::NEXT_TABLES, |out| {
            out.bytes(&self.next_tables);
        });
        for number in [property::WRITE_ACTIONS, property::APPLY_ACTIONS] {
            write_property(out, number, |out| {
                for number in ACTIONS {
                    out.u16(number).u16(4);
                }
            });
        }
        write_fields(out, property::MATCH, &self.match_fields, true);
        write_fields(out, property::WILDCARDS, &self.match_fields, false);
        write_fields(out, property::WRITE_SETFIELD, &self.set_fields, false);
        write_fields(out, property::APPLY_SETFIELD, &self.set_fields, false);
        out.length_at(start, start);
    }
}

fn write_property(out: &mut Vec<u8>, number: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.u16(number).u16(0);
    body(out);
    out.length(start).pad(start);
}

/// A property with fields; `masks` marks those that can be matched in part.
fn write_fields(out: &mut Vec<u8>, number: u16, fields: &[&MatchField], masks: bool) {
    write_property(out, number, |out| {
        fields.iter().for_each(|field| write_header(out, field, masks && field.is_maskable));
    });
}

/// A table-mod message. OpenFlow 1.3 defines no setting of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMod {
    /// The table, or [`warpswitch_rules::openflow::port::TABLE_ALL`].
    pub table: u8,
    /// The setting.
    pub config: u32,
}

impl TableMod {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let table = body.u8()?;
        body.skip(3)?;
        let config = body.u32()?;
        body.finish()?;
        Ok(Self { table, config })
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.u8(self.table).zeros(3).u32(self.config);
    }
}
