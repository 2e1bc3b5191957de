//! Multipart requests and replies (specification 1.3.5, section 7.3.5).

use warpswitch_rules::openflow::{FlowFilter, FlowStats, Group, Meter};

use crate::bytes::{Append, Reader};
use crate::experimenter::unknown_experimenter;
use crate::flows::{self, read_filter, write_filter};
use crate::groups::{self, Counters, GroupFeatures, GroupStats, read_counters, write_counters};
use crate::header::{MESSAGE_BYTES_MAX, finish, message_type, start};
use crate::meters::{self, MeterFeatures, MeterStats};
use crate::ports::{PortDescription, PortStats, QueueStats};
use crate::tables::{TableFeatures, TableStats};
use crate::{ErrorCode, HEADER_BYTES};

mod kind {
    pub const DESCRIPTION: u16 = 0;
    pub const FLOW: u16 = 1;
    pub const AGGREGATE: u16 = 2;
    pub const TABLE: u16 = 3;
    pub const PORT_STATS: u16 = 4;
    pub const QUEUE: u16 = 5;
    pub const GROUP: u16 = 6;
    pub const GROUP_DESCRIPTION: u16 = 7;
    pub const GROUP_FEATURES: u16 = 8;
    pub const METER: u16 = 9;
    pub const METER_CONFIG: u16 = 10;
    pub const METER_FEATURES: u16 = 11;
    pub const TABLE_FEATURES: u16 = 12;
    pub const PORT_DESCRIPTION: u16 = 13;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// The flag of a message that another one of the same request or reply follows.
const MORE: u16 = 1;

/// Bytes in front of the body of a multipart message.
const PREFIX_BYTES: usize = HEADER_BYTES + 8;

/// A request for state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultipartRequest {
    /// Names of the manufacturer and the like.
    Description,
    /// Flows.
    Flow(FlowFilter),
    /// The sum of flows.
    Aggregate(FlowFilter),
    /// Counters of all tables.
    Table,
    /// Counters of a port, or of all for [`warpswitch_rules::openflow::port::ANY`].
    PortStats(u32),
    /// Counters of queues.
    Queue {
        /// The port, or [`warpswitch_rules::openflow::port::ANY`].
        port: u32,
        /// The queue, or [`QUEUE_ALL`].
        queue: u32,
    },
    /// Counters of a group, or of all for [`warpswitch_rules::openflow::port::GROUP_ALL`].
    Group(u32),
    /// All groups.
    GroupDescription,
    /// Limits of groups.
    GroupFeatures,
    /// Counters of a meter, or of all for [`crate::METER_ALL`].
    Meter(u32),
    /// A meter, or all.
    MeterConfig(u32),
    /// Limits of meters.
    MeterFeatures,
    /// Abilities of all tables.
    TableFeatures,
    /// New abilities of tables.
    SetTableFeatures,
    /// All ports.
    PortDescription,
}

/// All queues of a port, in requests.
pub const QUEUE_ALL: u32 = 0xffff_ffff;

impl MultipartRequest {
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let (number, flags) = (body.u16()?, body.u16()?);
        body.skip(4)?;
        if flags & MORE != 0 {
            return Err(ErrorCode::REQUEST_MULTIPART_BUFFER_OVERFLOW);
        }
        let request = match number {
            kind::DESCRIPTION => Self::Description,
            kind::FLOW => Self::Flow(read_filter(&mut body)?),
            kind::AGGREGATE => Self::Aggregate(read_filter(&mut body)?),
            kind::TABLE => Self::Table,
            kind::PORT_STATS => Self::PortStats(read_id(&mut body)?),
            kind::QUEUE => Self::Queue { port: body.u32()?, queue: body.u32()? },
            kind::GROUP => Self::Group(read_id(&mut body)?),
            kind::GROUP_DESCRIPTION => Self::GroupDescription,
            kind::GROUP_FEATURES => Self::GroupFeatures,
            kind::METER => Self::Meter(read_id(&mut body)?),
            kind::METER_CONFIG => Self::MeterConfig(read_id(&mut body)?),
            kind::METER_FEATURES => Self::MeterFeatures,
            kind::TABLE_FEATURES if body.is_empty() => Self::TableFeatures,
            kind::TABLE_FEATURES => return Ok(Self::SetTableFeatures),
            kind::PORT_DESCRIPTION => Self::PortDescription,
            kind::EXPERIMENTER => return Err(unknown_experimenter(body.u32()?)),
            _ => return Err(ErrorCode::REQUEST_BAD_MULTIPART),
        };
        body.finish()?;
        Ok(request)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u16(self.number()).zeros(6);
        match self {
            Self::Flow(filter) | Self::Aggregate(filter) => write_filter(out, filter),
            Self::Queue { port, queue } => {
                out.u32(*port).u32(*queue);
            }
            Self::PortStats(id) | Self::Group(id) | Self::Meter(id) | Self::MeterConfig(id) => {
                out.u32(*id).zeros(4);
            }
            _ => {}
        }
    }

    fn number(&self) -> u16 {
        match self {
            Self::Description => kind::DESCRIPTION,
            Self::Flow(_) => kind::FLOW,
            Self::Aggregate(_) => kind::AGGREGATE,
            Self::Table => kind::TABLE,
            Self::PortStats(_) => kind::PORT_STATS,
            Self::Queue { .. } => kind::QUEUE,
            Self::Group(_) => kind::GROUP,
            Self::GroupDescription => kind::GROUP_DESCRIPTION,
            Self::GroupFeatures => kind::GROUP_FEATURES,
            Self::Meter(_) => kind::METER,
            Self::MeterConfig(_) => kind::METER_CONFIG,
            Self::MeterFeatures => kind::METER_FEATURES,
            Self::TableFeatures | Self::SetTableFeatures => kind::TABLE_FEATURES,
            Self::PortDescription => kind::PORT_DESCRIPTION,
        }
    }
}

fn read_id(body: &mut Reader<'_>) -> Result<u32, ErrorCode> {
    let id = body.u32()?;
    body.skip(4)?;
    Ok(id)
}

/// Names that a switch gives about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchDescription {
    /// Manufacturer.
    pub manufacturer: String,
    /// Hardware.
    pub hardware: String,
    /// Software.
    pub software: String,
    /// Serial number.
    pub serial: String,
    /// Name of this switch for people.
    pub datapath: String,
}

/// The sum of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTotals {
    /// Packets and bytes that they matched.
    pub counters: Counters,
    /// Number of flows.
    pub flows: u32,
}

/// State that a switch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the requests")]
pub enum MultipartReply {
    Description(SwitchDescription),
    Flow(Vec<FlowStats>),
    Aggregate(FlowTotals),
    Table(Vec<TableStats>),
    PortStats(Vec<PortStats>),
    Queue(Vec<QueueStats>),
    Group(Vec<GroupStats>),
    GroupDescription(Vec<Group>),
    GroupFeatures(GroupFeatures),
    Meter(Vec<MeterStats>),
    MeterConfig(Vec<Meter>),
    MeterFeatures(MeterFeatures),
    TableFeatures(Vec<TableFeatures>),
    PortDescription(Vec<PortDescription>),
}

impl MultipartReply {
    /// The messages of the reply, one behind the other. Entries are never split; one that no
    /// message can hold is left out.
    pub fn encode(&self, xid: u32) -> Vec<u8> {
        match self {
            Self::Description(description) => {
                one(kind::DESCRIPTION, xid, |out| write_description(out, description))
            }
            Self::Flow(flows) => list(kind::FLOW, xid, flows, flows::write_stats),
            Self::Aggregate(totals) => one(kind::AGGREGATE, xid, |out| {
                write_counters(out, totals.counters);
                out.u32(totals.flows).zeros(4);
            }),
            Self::Table(tables) => list(kind::TABLE, xid, tables, |out, t| t.write(out)),
            Self::PortStats(ports) => list(kind::PORT_STATS, xid, ports, |out, p| p.write(out)),
            Self::Queue(queues) => list(kind::QUEUE, xid, queues, |out, q| q.write(out)),
            Self::Group(groups) => list(kind::GROUP, xid, groups, groups::write_stats),
            Self::GroupDescription(groups) => {
                list(kind::GROUP_DESCRIPTION, xid, groups, groups::write_description)
            }
            Self::GroupFeatures(limits) => one(kind::GROUP_FEATURES, xid, |out| limits.write(out)),
            Self::Meter(meters) => list(kind::METER, xid, meters, meters::write_stats),
            Self::MeterConfig(meters) => {
                list(kind::METER_CONFIG, xid, meters, meters::write_description)
            }
            Self::MeterFeatures(limits) => one(kind::METER_FEATURES, xid, |out| limits.write(out)),
            Self::TableFeatures(tables) => {
                list(kind::TABLE_FEATURES, xid, tables, |out, t| t.write(out))
            }
            Self::PortDescription(ports) => {
                list(kind::PORT_DESCRIPTION, xid, ports, |out, p| p.write(out))
            }
        }
    }

    /// Reads one message of a reply; of the kinds that clients of this crate request.
    pub(crate) fn read(mut body: Reader<'_>) -> Result<Self, ErrorCode> {
        let number = body.u16()?;
        body.skip(6)?;
        Ok(match number {
            kind::FLOW => Self::Flow(read_list(body, flows::read_stats)?),
            kind::AGGREGATE => {
                let totals = FlowTotals { counters: read_counters(&mut body)?, flows: body.u32()? };
                Self::Aggregate(totals)
            }
            kind::TABLE => Self::Table(read_list(body, TableStats::read)?),
            kind::GROUP => Self::Group(read_list(body, groups::read_stats)?),
            kind::GROUP_DESCRIPTION => {
                Self::GroupDescription(read_list(body, groups::read_description)?)
            }
            kind::METER => Self::Meter(read_list(body, meters::read_stats)?),
            kind::METER_CONFIG => Self::MeterConfig(read_list(body, meters::read_description)?),
            kind::PORT_DESCRIPTION => {
                Self::PortDescription(read_list(body, PortDescription::read)?)
            }
            _ => return Err(ErrorCode::REQUEST_BAD_MULTIPART),
        })
    }
}

fn read_list<T>(
    mut body: Reader<'_>,
    read: impl Fn(&mut Reader<'_>) -> Result<T, ErrorCode>,
) -> Result<Vec<T>, ErrorCode> {
    let mut entries = Vec::new();
    while !body.is_empty() {
        entries.push(read(&mut body)?);
    }
    Ok(entries)
}

fn prefix(number: u16, xid: u32) -> Vec<u8> {
    let mut out = start(message_type::MULTIPART_REPLY, xid);
    out.u16(number).zeros(6);
    out
}

fn one(number: u16, xid: u32, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = prefix(number, xid);
    body(&mut out);
    finish(out)
}

fn list<T>(number: u16, xid: u32, entries: &[T], write: impl Fn(&mut Vec<u8>, &T)) -> Vec<u8> {
    let mut out = prefix(number, xid);
    let mut message_start = 0;
    for entry in entries {
        let entry_start = out.len();
        write(&mut out, entry);
        let entry_len = out.len() - entry_start;
        if PREFIX_BYTES + entry_len > MESSAGE_BYTES_MAX {
            out.truncate(entry_start);
        } else if out.len() - message_start > MESSAGE_BYTES_MAX {
            let next = out.split_off(entry_start);
            out.length(message_start);
            let flags_at = message_start + HEADER_BYTES + 2;
            out[flags_at..flags_at + 2].copy_from_slice(&MORE.to_be_bytes());
            message_start = out.len();
            out.bytes(&prefix(number, xid)).bytes(&next);
        }
    }
    out.length(message_start);
    out
}

fn write_description(out: &mut Vec<u8>, description: &SwitchDescription) {
    out.text(&description.manufacturer, 256).text(&description.hardware, 256);
    out.text(&description.software, 256).text(&description.serial, 32);
    out.text(&description.datapath, 256);
}
