//! Groups in messages (specification 1.3.5, sections 7.3.4.2 and 7.3.5.6 to 7.3.5.8).

use warpswitch_rules::openflow::{Bucket, Group, GroupMod, GroupType, port};

use crate::ErrorCode;
use crate::actions::{SUPPORTED, read_actions, write_actions};
use crate::bytes::{Append, Reader};
use crate::flows::{read_age, write_age};

/// Bytes of buckets that a group may have: a group is reported in one message.
const BYTES_MAX: usize = 64_000;

/// The numbers of the group types, in their order.
const TYPES: [GroupType; 4] =
    [GroupType::All, GroupType::Select, GroupType::Indirect, GroupType::FastFailover];

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

/// The counters of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// The group.
    pub id: u32,
    /// Flows and groups that refer to it.
    pub ref_count: u32,
    /// What it processed.
    pub total: Counters,
    /// Nanoseconds since it was added.
    pub age_ns: u64,
    /// What each bucket processed.
    pub buckets: Vec<Counters>,
}

pub(crate) fn read_mod(mut body: Reader<'_>) -> Result<GroupMod, ErrorCode> {
    let command = body.u16()?;
    let kind = body.u8()?;
    body.skip(1)?;
    let id = body.u32()?;
    if command == 2 {
        return Ok(GroupMod::Delete(id));
    }
    if command > 2 {
        return Err(ErrorCode::GROUP_BAD_COMMAND);
    }
    let kind = *TYPES.get(usize::from(kind)).ok_or(ErrorCode::GROUP_BAD_TYPE)?;
    if id > port::GROUP_MAX {
        return Err(ErrorCode::GROUP_INVALID);
    }
    let group = Group { id, kind, buckets: read_buckets(body.rest())? };
    Ok(if command == 0 { GroupMod::Add(group) } else { GroupMod::Modify(group) })
}

pub(crate) fn write_mod(out: &mut Vec<u8>, change: &GroupMod) {
    match change {
        GroupMod::Add(group) => write_group(out.u16(0), group),
        GroupMod::Modify(group) => write_group(out.u16(1), group),
        GroupMod::Delete(id) => {
            out.u16(2).zeros(2).u32(*id);
        }
    }
}

/// Appends a group behind its first two bytes: the command, or the length of its description.
fn write_group(out: &mut Vec<u8>, group: &Group) {
    out.u8(group.kind as u8).zeros(1).u32(group.id);
    for bucket in &group.buckets {
        let start = out.len();
        out.u16(0).u16(bucket.weight).u32(bucket.watch_port).u32(bucket.watch_group).zeros(4);
        write_actions(out, &bucket.actions);
        out.length_at(start, start);
    }
}

fn read_buckets(bytes: &[u8]) -> Result<Vec<Bucket>, ErrorCode> {
    if bytes.len() > BYTES_MAX {
        return Err(ErrorCode::GROUP_OUT_OF_BUCKETS);
    }
    let mut reader = Reader::new(bytes, ErrorCode::GROUP_BAD_BUCKET);
    let mut buckets = Vec::new();
    while !reader.is_empty() {
        let mut body = reader.entry(0, 16, 8)?;
        body.skip(2)?;
        let (weight, watch_port, watch_group) = (body.u16()?, body.u32()?, body.u32()?);
        body.skip(4)?;
        let actions = read_actions(body.rest())?;
        buckets.push(Bucket { weight, watch_port, watch_group, actions });
    }
    Ok(buckets)
}

/// Reads one group of a multipart reply.
pub(crate) fn read_description(body: &mut Reader<'_>) -> Result<Group, ErrorCode> {
    let mut body = body.entry(0, 8, 8)?;
    body.skip(2)?;
    let kind = *TYPES.get(usize::from(body.u8()?)).ok_or(ErrorCode::GROUP_BAD_TYPE)?;
    body.skip(1)?;
    Ok(Group { id: body.u32()?, kind, buckets: read_buckets(body.rest())? })
}

pub(crate) fn write_description(out: &mut Vec<u8>, group: &Group) {
    let start = out.len();
    write_group(out.u16(0), group);
    out.length_at(start, start);
}

pub(crate) fn read_stats(body: &mut Reader<'_>) -> Result<GroupStats, ErrorCode> {
    let mut body = body.entry(0, 40, 8)?;
    body.skip(4)?;
    let (id, ref_count) = (body.u32()?, body.u32()?);
    body.skip(4)?;
    let total = read_counters(&mut body)?;
    let age_ns = read_age(&mut body)?;
    let mut buckets = Vec::new();
    while !body.is_empty() {
        buckets.push(read_counters(&mut body)?);
    }
    Ok(GroupStats { id, ref_count, total, age_ns, buckets })
}

pub(crate) fn write_stats(out: &mut Vec<u8>, stats: &GroupStats) {
    let len = 40 + 16 * stats.buckets.len();
    out.u16(len as u16).zeros(2).u32(stats.id).u32(stats.ref_count).zeros(4);
    write_counters(out, stats.total);
    write_age(out, stats.age_ns);
    stats.buckets.iter().for_each(|&counters| write_counters(out, counters));
}

pub(crate) fn read_counters(body: &mut Reader<'_>) -> Result<Counters, ErrorCode> {
    Ok(Counters { packets: body.u64()?, bytes: body.u64()? })
}

pub(crate) fn write_counters(out: &mut Vec<u8>, counters: Counters) {
    out.u64(counters.packets).u64(counters.bytes);
}

/// Limits of groups, for each type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupFeatures {
    /// The most groups of each type.
    pub groups_max: u32,
}

impl GroupFeatures {
    /// All group types, all capabilities, all actions in each type.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        const ALL_FOUR: u32 = 0xf;
        out.u32(ALL_FOUR).u32(ALL_FOUR);
        for _ in TYPES {
            out.u32(self.groups_max);
        }
        let actions = SUPPORTED.iter().fold(0, |bits, &number| bits | 1u32 << number);
        for _ in TYPES {
            out.u32(actions);
        }
    }
}
