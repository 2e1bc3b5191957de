//! Bits of fields in actions: `reg0[0..15]`, `NXM_NX_REG0[3]`, `metadata[]`.

use super::super::text::{self, Fault, Parsed, Token};
use super::names::{self, long_name};
use crate::openflow::{MatchField, Subfield};

/// How many bits Open vSwitch counts in a field: it keeps 16 of a port number and apart from a
/// VLAN id the bit that marks the tag as present.
fn bits_of(name: &str, field: &MatchField) -> u8 {
    match (name, field.name) {
        ("in_port" | "NXM_OF_IN_PORT", _) => 16,
        (_, "vlan_vid") => 12,
        _ => field.range.bits as u8,
    }
}

/// Reads bits of a field; without brackets, all of them.
pub(super) fn read(token: Token<'_>) -> Parsed<Subfield> {
    let (name, range) = match token.split_at_byte(b'[') {
        Some((name, range)) => (name, Some(range)),
        None => (token, None),
    };
    let text = name.text();
    let Some(found) = names::find(&text) else {
        let fault = Fault::new(name.span(), "unknown field", "a field as reg0 or NXM_NX_REG0");
        return Err(match names::suggest(&text) {
            Some(close) => fault.help(format!("is {close} meant?")),
            None => fault,
        });
    };
    let width = bits_of(&text, found.field);
    let Some(range) = range.filter(|range| range.bytes != b"]") else {
        return Ok(Subfield { field: found.field, offset: 0, bits: width });
    };
    let Some(inner) = range.bytes.strip_suffix(b"]") else {
        return Err(Fault::new(range.span(), "unmatched opening bracket", "] behind the bits"));
    };
    let inner = range.part(0..inner.len());
    let (first, last) = match memchr::memmem::find(inner.bytes, b"..") {
        Some(at) => (inner.part(0..at), inner.part(at + 2..inner.bytes.len())),
        None => (inner, inner),
    };
    let most = found.field.range.bits as u32 - 1;
    let first = text::decimal(first, most, "the first bit")? as u8;
    let last = text::decimal(last, most, "the last bit")? as u8;
    if last < first {
        let fault = Fault::new(inner.span(), "the last bit lies before the first", "FIRST..LAST");
        return Err(fault.help(format!("write [{last}..{first}]")));
    }
    Ok(Subfield { field: found.field, offset: first, bits: last - first + 1 })
}

/// Bits of a field as `ovs-ofctl` prints them.
pub(super) fn text(bits: Subfield) -> String {
    let Subfield { field, offset, bits } = bits;
    let end = u16::from(offset) + u16::from(bits);
    let is_short_port = field.name == "in_port" && end <= 16;
    let (name, width) = match is_short_port {
        true => ("NXM_OF_IN_PORT".to_owned(), 16),
        false => (long_name(field), bits_of("", field)),
    };
    match (offset, bits) {
        (0, bits) if bits == width => format!("{name}[]"),
        (offset, 1) => format!("{name}[{offset}]"),
        (offset, _) => format!("{name}[{offset}..{}]", end.saturating_sub(1)),
    }
}
