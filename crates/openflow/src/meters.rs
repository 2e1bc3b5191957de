//! Meters in messages (specification 1.3.5, sections 7.3.4.4 and 7.3.5.9 to 7.3.5.11).

use warpswitch_rules::openflow::{Band, BandKind, Meter, MeterMod};

use crate::ErrorCode;
use crate::bytes::{Append, Reader};
use crate::flows::{read_age, write_age};
use crate::groups::{Counters, read_counters, write_counters};

/// The largest number of a meter that controllers may add.
pub const METER_MAX: u32 = 0xffff_0000;

/// All meters, in requests and deletions.
pub const METER_ALL: u32 = 0xffff_ffff;

/// Bands that a meter may have: a meter is reported in one message.
const BANDS_MAX: usize = 4000;

const DROP: u16 = 1;
const DSCP_REMARK: u16 = 2;

mod flag {
    pub const KBPS: u16 = 1;
    pub const PACKETS: u16 = 2;
    pub const BURST: u16 = 4;
    pub const STATS: u16 = 8;
}

/// The counters of a meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterStats {
    /// The meter.
    pub id: u32,
    /// Flows that refer to it.
    pub flows: u32,
    /// What it measured.
    pub total: Counters,
    /// Nanoseconds since it was added.
    pub age_ns: u64,
    /// What each band applied to.
    pub bands: Vec<Counters>,
}

pub(crate) fn read_mod(mut body: Reader<'_>) -> Result<MeterMod, ErrorCode> {
    let command = body.u16()?;
    let flags = body.u16()?;
    let id = body.u32()?;
    if command == 2 {
        return Ok(MeterMod::Delete(id));
    }
    if command > 2 {
        return Err(ErrorCode::METER_BAD_COMMAND);
    }
    if id == 0 || id > METER_MAX {
        return Err(ErrorCode::METER_INVALID);
    }
    let meter = read_meter(flags, id, body)?;
    Ok(if command == 0 { MeterMod::Add(meter) } else { MeterMod::Modify(meter) })
}

fn read_meter(flags: u16, id: u32, mut body: Reader<'_>) -> Result<Meter, ErrorCode> {
    let known = flag::KBPS | flag::PACKETS | flag::BURST | flag::STATS;
    let units = flags & (flag::KBPS | flag::PACKETS);
    if flags & !known != 0 || units == flag::KBPS | flag::PACKETS {
        return Err(ErrorCode::METER_BAD_FLAGS);
    }
    let mut bands = Vec::new();
    while !body.is_empty() {
        if bands.len() == BANDS_MAX {
            return Err(ErrorCode::METER_OUT_OF_BANDS);
        }
        bands.push(read_band(body.entry(2, 16, 8)?)?);
    }
    Ok(Meter {
        id,
        in_packets: flags & flag::PACKETS != 0,
        has_burst: flags & flag::BURST != 0,
        has_stats: flags & flag::STATS != 0,
        bands,
    })
}

fn read_band(mut body: Reader<'_>) -> Result<Band, ErrorCode> {
    let kind = body.u16()?;
    body.skip(2)?;
    let (rate, burst) = (body.u32()?, body.u32()?);
    let argument = body.u8()?;
    body.skip(3)?;
    let kind = match kind {
        DROP => BandKind::Drop,
        DSCP_REMARK => BandKind::DscpRemark(argument),
        _ => return Err(ErrorCode::METER_BAD_BAND),
    };
    body.finish()?;
    Ok(Band { rate, burst, kind })
}

pub(crate) fn write_mod(out: &mut Vec<u8>, change: &MeterMod) {
    let (command, meter) = match change {
        MeterMod::Add(meter) => (0, meter),
        MeterMod::Modify(meter) => (1, meter),
        MeterMod::Delete(id) => {
            out.u16(2).u16(0).u32(*id);
            return;
        }
    };
    out.u16(command);
    write_meter(out, meter);
}

/// Appends a meter behind its first two bytes: the command, or the length of its description.
fn write_meter(out: &mut Vec<u8>, meter: &Meter) {
    let unit = if meter.in_packets { flag::PACKETS } else { flag::KBPS };
    let burst = if meter.has_burst { flag::BURST } else { 0 };
    let stats = if meter.has_stats { flag::STATS } else { 0 };
    out.u16(unit | burst | stats).u32(meter.id);
    for band in &meter.bands {
        let (kind, argument) = match band.kind {
            BandKind::Drop => (DROP, 0),
            BandKind::DscpRemark(levels) => (DSCP_REMARK, levels),
        };
        out.u16(kind).u16(16).u32(band.rate).u32(band.burst).u8(argument).zeros(3);
    }
}

/// Reads one meter of a multipart reply.
pub(crate) fn read_description(body: &mut Reader<'_>) -> Result<Meter, ErrorCode> {
    let mut body = body.entry(0, 8, 8)?;
    body.skip(2)?;
    let (flags, id) = (body.u16()?, body.u32()?);
    read_meter(flags, id, body)
}

pub(crate) fn write_description(out: &mut Vec<u8>, meter: &Meter) {
    out.u16((8 + 16 * meter.bands.len()) as u16);
    write_meter(out, meter);
}

pub(crate) fn read_stats(body: &mut Reader<'_>) -> Result<MeterStats, ErrorCode> {
    let mut body = body.entry(4, 40, 8)?;
    let id = body.u32()?;
    body.skip(8)?;
    let flows = body.u32()?;
    let total = read_counters(&mut body)?;
    let age_ns = read_age(&mut body)?;
    let mut bands = Vec::new();
    while !body.is_empty() {
        bands.push(read_counters(&mut body)?);
    }
    Ok(MeterStats { id, flows, total, age_ns, bands })
}

pub(crate) fn write_stats(out: &mut Vec<u8>, stats: &MeterStats) {
    let len = 40 + 16 * stats.bands.len();
    out.u32(stats.id).u16(len as u16).zeros(6).u32(stats.flows);
    write_counters(out, stats.total);
    write_age(out, stats.age_ns);
    stats.bands.iter().for_each(|&counters| write_counters(out, counters));
}

/// Limits of meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterFeatures {
    /// The most meters.
    pub meters_max: u32,
    /// The most bands of a meter.
    pub bands_max: u8,
}

impl MeterFeatures {
    /// Both band types and all capabilities.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        let flags = flag::KBPS | flag::PACKETS | flag::BURST | flag::STATS;
        out.u32(self.meters_max).u32(1 << DROP | 1 << DSCP_REMARK).u32(flags.into());
        out.u8(self.bands_max).u8(0).zeros(2);
    }
}
