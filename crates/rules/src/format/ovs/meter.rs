//! Meters as text: `meter=1,kbps,burst,stats,bands=type=drop,rate=1000,burst_size=100`.

use std::fmt::Write as _;

use super::super::text::{Fault, Faults, Parsed, Token};
use super::item::{self, Item};
use super::values;
use crate::openflow::{Band, BandKind, Meter, MeterMod};

/// The largest number of a real meter.
const METER_MAX: u32 = 0xffff_0000;
/// Every meter, in deletions.
const METER_ALL: u32 = 0xffff_ffff;

/// Meters that are no real ones, by name.
static VIRTUAL: [(&str, u32); 3] =
    [("slowpath", 0xffff_fffd), ("controller", 0xffff_fffe), ("all", METER_ALL)];

/// The parts of a line about a meter.
#[derive(Default)]
struct Line {
    id: Option<u32>,
    in_packets: Option<bool>,
    has_burst: bool,
    has_stats: bool,
    bands: Vec<Partial>,
}

/// A band whose items are still being read.
struct Partial {
    kind: BandKind,
    rate: Option<u32>,
    burst: u32,
}

/// Reads a change: a meter behind `add`, `modify` or `delete`, or alone to be added.
pub(super) fn read(text: Token<'_>, faults: &mut Faults) -> Option<MeterMod> {
    let mut line = Line::default();
    let mut command = &b"add"[..];
    let mut is_clean = true;
    for (idx, item) in item::items(text).enumerate() {
        if idx == 0 && item.value.is_none() && matches!(item.name.bytes, b"modify" | b"delete") {
            command = item.name.bytes;
        } else if idx > 0 || item.value.is_some() || item.name.bytes != b"add" {
            let result = line.item(&item);
            is_clean &= faults.note(result).is_some();
        }
    }
    if command == b"delete" {
        return Some(MeterMod::Delete(line.id.unwrap_or(METER_ALL)));
    }
    if !is_clean {
        return None;
    }
    let meter = line.meter(text, faults)?;
    Some(if command == b"modify" { MeterMod::Modify(meter) } else { MeterMod::Add(meter) })
}

impl Line {
    fn item(&mut self, item: &Item<'_>) -> Parsed<()> {
        let number = |what| {
            values::integer(item.required()?, u32::MAX.into(), what).map(|value| value as u32)
        };
        match item.name.bytes {
            b"meter" => self.id = Some(meter_id(item.required()?)?),
            b"kbps" | b"pktps" => {
                let in_packets = item.name.bytes == b"pktps";
                if self.in_packets.is_some_and(|former| former != in_packets) {
                    let message = "two units of rates";
                    return Err(Fault::new(item.span(), message, "either kbps or pktps"));
                }
                self.in_packets = Some(in_packets);
            }
            b"burst" => self.has_burst = true,
            b"stats" => self.has_stats = true,
            // Bands follow; the first may stand right behind.
            b"bands" | b"band" => {
                let Some(value) = item.value else { return Ok(()) };
                for inner in item::items(value) {
                    self.item(&inner)?;
                }
            }
            b"type" => {
                let kind = match item.required()?.bytes {
                    b"drop" => BandKind::Drop,
                    b"dscp_remark" => BandKind::DscpRemark(1),
                    _ => {
                        let span = item.required()?.span();
                        return Err(Fault::new(
                            span,
                            "unknown type of band",
                            "drop or dscp_remark",
                        ));
                    }
                };
                self.bands.push(Partial { kind, rate: None, burst: 0 });
            }
            b"rate" => self.band(item)?.rate = Some(number("the rate")?),
            b"burst_size" => self.band(item)?.burst = number("the burst size")?,
            b"prec_level" => {
                let level = values::integer(item.required()?, 0xff, "the level")? as u8;
                let band = self.band(item)?;
                if band.kind == BandKind::Drop {
                    let message = "a level in a band that drops";
                    return Err(Fault::new(item.span(), message, "type=dscp_remark before it"));
                }
                band.kind = BandKind::DscpRemark(level);
            }
            _ => {
                let expected = "meter, kbps, pktps, burst, stats, bands, type, rate, burst_size or \
                                prec_level";
                return Err(Fault::new(item.span(), "unknown property of meters", expected));
            }
        }
        Ok(())
    }

    /// The band that is being read.
    fn band(&mut self, item: &Item<'_>) -> Parsed<&mut Partial> {
        self.bands.last_mut().ok_or_else(|| {
            let message = format!("{} outside a band", item.name.text());
            Fault::new(item.span(), message, "bands=type=TYPE before it")
        })
    }

    fn meter(self, text: Token<'_>, faults: &mut Faults) -> Option<Meter> {
        let end = text.span().end;
        let mut missing = |what: &str, expected: &'static str| {
            faults.push(Fault::new(end..end, format!("missing {what}"), expected));
        };
        if self.id.is_none_or(|id| id == 0 || id == METER_ALL) {
            missing("number of the meter", "meter=NUMBER, from 1 on");
        }
        if self.in_packets.is_none() {
            missing("unit of rates", "kbps or pktps");
        }
        if self.bands.is_empty() {
            missing("band", "bands=type=drop,rate=RATE");
        }
        if self.bands.iter().any(|band| band.rate.is_none()) {
            missing("rate of a band", "rate=RATE");
        }
        let bands = self
            .bands
            .iter()
            .map(|band| Some(Band { rate: band.rate?, burst: band.burst, kind: band.kind }));
        Some(Meter {
            id: self.id?,
            in_packets: self.in_packets?,
            has_burst: self.has_burst,
            has_stats: self.has_stats,
            bands: bands.collect::<Option<_>>()?,
        })
    }
}

fn meter_id(token: Token<'_>) -> Parsed<u32> {
    if let Some((_, id)) = VIRTUAL.iter().find(|(name, _)| name.as_bytes() == token.bytes) {
        return Ok(*id);
    }
    let id = values::integer(token, u32::MAX.into(), "the meter")? as u32;
    let is_virtual = VIRTUAL.iter().any(|(_, known)| *known == id);
    if id > METER_MAX && !is_virtual {
        let expected = format!("at most {METER_MAX}");
        return Err(Fault::new(token.span(), "a reserved number of meters", expected));
    }
    Ok(id)
}

/// A meter as `add-meter` takes it; the words and their order are those of `dump-meters`.
pub(super) fn text(meter: &Meter) -> String {
    let id = match VIRTUAL.iter().find(|(_, id)| *id == meter.id) {
        Some((name, _)) => (*name).to_owned(),
        None => meter.id.to_string(),
    };
    let unit = if meter.in_packets { "pktps" } else { "kbps" };
    let burst = if meter.has_burst { ",burst" } else { "" };
    let stats = if meter.has_stats { ",stats" } else { "" };
    let mut out = format!("meter={id},{unit}{burst}{stats},bands=");
    for (idx, band) in meter.bands.iter().enumerate() {
        let comma = if idx == 0 { "" } else { "," };
        let name = if band.kind == BandKind::Drop { "drop" } else { "dscp_remark" };
        write!(out, "{comma}type={name},rate={}", band.rate).expect("a String takes every write");
        if meter.has_burst || band.burst != 0 {
            write!(out, ",burst_size={}", band.burst).expect("a String takes every write");
        }
        if let BandKind::DscpRemark(level) = band.kind {
            write!(out, ",prec_level={level}").expect("a String takes every write");
        }
    }
    out
}
