//! Values of single fields as text: what all formats but ClassBench's share.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::text::{self, Fault, Parsed, Token};
use crate::matching::{Match, MatchKind, port_side};
use crate::schema::{Field, FieldFormat, FieldSpec};

/// What a text demands of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// Bits under a mask.
    Mask(u128, u128),
    /// An inclusive range of ports.
    Range(u16, u16),
}

impl Demand {
    /// Sets it in a match.
    pub fn set(self, matching: &mut Match, field: Field) {
        match self {
            Demand::Mask(value, mask) => matching.set_mask(field, value, mask),
            Demand::Range(lo, hi) => matching.set_range(field, lo, hi),
        };
    }
}

/// A field's value in the field's own notation, or as a number.
pub(super) fn parse_value(spec: &FieldSpec, token: Token<'_>) -> Parsed<u128> {
    match spec.format {
        FieldFormat::Mac => mac(token).map(u128::from),
        FieldFormat::Ipv4 => text::ipv4(token).map(u128::from),
        FieldFormat::Ipv6 => text::ipv6(token),
        FieldFormat::Decimal | FieldFormat::Hex => text::number(token, spec.value_max(), spec.name),
    }
}

/// `VALUE`, `VALUE/MASK`, for addresses `VALUE/LENGTH`, for ports `LOW..HIGH`.
pub(super) fn parse_demand(spec: &FieldSpec, token: Token<'_>) -> Parsed<Demand> {
    if port_side(spec.field).is_some()
        && let Some(at) = memchr::memmem::find(token.bytes, b"..")
    {
        let lo = text::number(token.part(0..at), 65535, "the lower port")? as u16;
        let hi = token.part(at + 2..token.bytes.len());
        let hi = text::number(hi, 65535, "the upper port")? as u16;
        if lo > hi {
            let fault = Fault::new(token.span(), "the range is empty", "the lower port first");
            return Err(fault.help(format!("write {hi}..{lo}")));
        }
        return Ok(Demand::Range(lo, hi));
    }
    let Some((value, mask)) = token.split_at_byte(b'/') else {
        return Ok(Demand::Mask(parse_value(spec, token)?, spec.value_max()));
    };
    let value = parse_value(spec, value)?;
    let is_address = matches!(spec.format, FieldFormat::Ipv4 | FieldFormat::Ipv6);
    if is_address && mask.bytes.iter().all(u8::is_ascii_digit) {
        let len = text::decimal(mask, spec.bits as u32, "the prefix length")? as usize;
        return Ok(Demand::Mask(value, prefix_mask(spec.bits, len)));
    }
    Ok(Demand::Mask(value, parse_value(spec, mask)?))
}

/// `len` ones at the top of `bits`.
pub(super) fn prefix_mask(bits: usize, len: usize) -> u128 {
    let host = if bits - len == 128 { u128::MAX } else { (1u128 << (bits - len)) - 1 };
    let all = if bits == 128 { u128::MAX } else { (1u128 << bits) - 1 };
    all & !host
}

/// `aa:bb:cc:dd:ee:ff`.
pub(super) fn mac(token: Token<'_>) -> Parsed<u64> {
    let mut address = 0u64;
    let mut parts = 0;
    let is_part =
        |part: &&[u8]| (1..=2).contains(&part.len()) && part.iter().all(u8::is_ascii_hexdigit);
    for part in token.bytes.split(|b| *b == b':').take(7).take_while(is_part) {
        for digit in part.iter().map(|b| (*b as char).to_digit(16).unwrap_or(0)) {
            address = (address << 4) | u64::from(digit);
        }
        // A part of one digit has an upper half of zero.
        if part.len() == 1 {
            let digit = address & 0xf;
            address = (address >> 4) << 8 | digit;
        }
        parts += 1;
    }
    let colons = token.bytes.iter().filter(|b| **b == b':').count();
    if parts != 6 || colons != 5 {
        let message = match token.bytes {
            [] => "the address is missing",
            _ => "not an Ethernet address",
        };
        return Err(Fault::new(token.span(), message, "an address as 02:00:00:00:00:01"));
    }
    Ok(address)
}

/// Writes a value in the field's own notation.
pub(super) fn write_value(out: &mut dyn fmt::Write, spec: &FieldSpec, value: u128) -> fmt::Result {
    match spec.format {
        FieldFormat::Decimal => write!(out, "{value}"),
        FieldFormat::Hex => write!(out, "{value:#0width$x}", width = 2 + spec.bits.div_ceil(4)),
        FieldFormat::Mac => write_mac(out, value as u64),
        FieldFormat::Ipv4 => write!(out, "{}", Ipv4Addr::from_bits(value as u32)),
        FieldFormat::Ipv6 => write!(out, "{}", Ipv6Addr::from_bits(value)),
    }
}

/// Writes what a match demands of a field; nothing for [`MatchKind::Any`].
pub(super) fn write_kind(
    out: &mut dyn fmt::Write,
    spec: &FieldSpec,
    kind: MatchKind,
) -> fmt::Result {
    let is_address = matches!(spec.format, FieldFormat::Ipv4 | FieldFormat::Ipv6);
    match kind {
        MatchKind::Any => Ok(()),
        MatchKind::Exact(value) => write_value(out, spec, value),
        MatchKind::Range(lo, hi) => write!(out, "{lo}..{hi}"),
        MatchKind::Prefix(value, len) if is_address => {
            write_value(out, spec, value)?;
            write!(out, "/{len}")
        }
        MatchKind::Prefix(value, len) if port_side(spec.field).is_some() => {
            let last = value | (spec.value_max() >> len);
            write!(out, "{value}..{last}")
        }
        MatchKind::Prefix(value, len) => {
            write_masked(out, spec, value, prefix_mask(spec.bits, len))
        }
        MatchKind::Mask(value, mask) => write_masked(out, spec, value, mask),
    }
}

/// Writes `VALUE/MASK`, numbers in hexadecimal.
pub(super) fn write_masked(
    out: &mut dyn fmt::Write,
    spec: &FieldSpec,
    value: u128,
    mask: u128,
) -> fmt::Result {
    if spec.format == FieldFormat::Decimal {
        let width = 2 + spec.bits.div_ceil(4);
        return write!(out, "{value:#0width$x}/{mask:#0width$x}");
    }
    write_value(out, spec, value)?;
    out.write_char('/')?;
    write_value(out, spec, mask)
}

/// Writes `aa:bb:cc:dd:ee:ff`.
pub(super) fn write_mac(out: &mut dyn fmt::Write, address: u64) -> fmt::Result {
    let b = address.to_be_bytes();
    write!(out, "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", b[2], b[3], b[4], b[5], b[6], b[7])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ethernet_addresses() {
        let check = |text: &str, expected: Option<u64>| {
            let token = Token { bytes: text.as_bytes(), start: 0 };
            assert_eq!(mac(token).ok(), expected, "{text}");
        };
        check("01:23:45:67:89:aB", Some(0x0123_4567_89ab));
        check("1:2:3:4:5:6", Some(0x0102_0304_0506));
        for bad in ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "1:2:3:4:5:", ":1:2:3:4:5", "1:2:3:4:5:g6"] {
            check(bad, None);
        }
        check("001:2:3:4:5:6", None);
    }
}
