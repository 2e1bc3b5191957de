//! Match fields in messages: OXM and NXM (specification 1.3.5, section 7.2.3).

use warpswitch_rules::openflow::{
    FIELDS, FLOW_WORDS, FieldNeeds, FlowMatch, MatchField, Oxm, field, field_by_oxm,
};

use crate::ErrorCode;
use crate::bytes::{Append, Reader};

/// The match type of OXM lists.
const MATCH_OXM: u16 = 1;

/// The bit of `vlan_vid` that a tagged frame has.
pub(crate) const VLAN_PRESENT: u128 = 0x1000;

/// The errors for one use of fields.
pub(crate) struct FieldErrors {
    pub len: ErrorCode,
    pub field: ErrorCode,
    pub mask: ErrorCode,
    pub value: ErrorCode,
    pub wildcards: ErrorCode,
}

/// Errors of fields in matches.
pub(crate) static IN_MATCH: FieldErrors = FieldErrors {
    len: ErrorCode::MATCH_BAD_LEN,
    field: ErrorCode::MATCH_BAD_FIELD,
    mask: ErrorCode::MATCH_BAD_MASK,
    value: ErrorCode::MATCH_BAD_VALUE,
    wildcards: ErrorCode::MATCH_BAD_WILDCARDS,
};

/// Errors of fields in actions.
pub(crate) static IN_ACTION: FieldErrors = FieldErrors {
    len: ErrorCode::ACTION_BAD_SET_LEN,
    field: ErrorCode::ACTION_BAD_SET_TYPE,
    mask: ErrorCode::ACTION_BAD_SET_MASK,
    value: ErrorCode::ACTION_BAD_SET_ARGUMENT,
    wildcards: ErrorCode::ACTION_BAD_SET_ARGUMENT,
};

/// One field with value and mask.
pub(crate) struct Entry {
    pub field: &'static MatchField,
    pub value: u128,
    /// All bits of the field for an entry without a mask.
    pub mask: u128,
    pub has_mask: bool,
}

/// Reads a field's header: the field, and whether a mask follows its value.
pub(crate) fn read_header(
    reader: &mut Reader<'_>,
    errors: &FieldErrors,
) -> Result<(&'static MatchField, bool), ErrorCode> {
    let [class0, class1, number, len] = reader.array().map_err(|_| errors.len)?;
    let class = u16::from_be_bytes([class0, class1]);
    let has_mask = number & 1 != 0;
    let mut value_len = usize::from(len);
    if class == Oxm::EXPERIMENTER {
        value_len = value_len.checked_sub(4).ok_or(errors.len)?;
        let experimenter = reader.u32().map_err(|_| errors.len)?;
        if experimenter != Oxm::ONF_EXPERIMENTER {
            return Err(errors.field);
        }
    }
    let field = by_number(class, number >> 1).ok_or(errors.field)?;
    let copies = if has_mask { 2 } else { 1 };
    if value_len != copies * usize::from(field.oxm.len) {
        return Err(errors.len);
    }
    Ok((field, has_mask))
}

/// The field of a number. The fields of OpenFlow, which most messages have, are found at once.
fn by_number(class: u16, number: u8) -> Option<&'static MatchField> {
    let direct = FIELDS.get(usize::from(number)).filter(|_| class == Oxm::BASIC);
    direct.filter(|field| field.oxm.number == number).or_else(|| field_by_oxm(class, number))
}

/// Reads a field with its value, and checks both.
pub(crate) fn read_entry(
    reader: &mut Reader<'_>,
    errors: &FieldErrors,
) -> Result<Entry, ErrorCode> {
    let (field, has_mask) = read_header(reader, errors)?;
    let len = usize::from(field.oxm.len);
    let value = number(reader.take(len).map_err(|_| errors.len)?);
    let all = field.range.value_max();
    let given = match has_mask {
        true => number(reader.take(len).map_err(|_| errors.len)?),
        false => all,
    };
    if has_mask && value & !given != 0 {
        return Err(errors.wildcards);
    }
    let mask = given & all;
    if value & !all != 0 {
        return Err(errors.value);
    }
    if mask != all && !field.is_maskable && !field.is_view {
        return Err(errors.mask);
    }
    let is_tag_lost = value != 0 && value & VLAN_PRESENT == 0 && mask == all;
    if field.name == "vlan_vid" && is_tag_lost {
        return Err(errors.value);
    }
    Ok(Entry { field, value, mask, has_mask })
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

/// Reads a match with its header and padding.
pub(crate) fn read_match(reader: &mut Reader<'_>) -> Result<FlowMatch, ErrorCode> {
    let bad_len = ErrorCode::MATCH_BAD_LEN;
    let kind = reader.u16().map_err(|_| bad_len)?;
    if kind != MATCH_OXM {
        return Err(ErrorCode::MATCH_BAD_TYPE);
    }
    let len = usize::from(reader.u16().map_err(|_| bad_len)?);
    let fields_len = len.checked_sub(4).ok_or(bad_len)?;
    let fields = reader.take(fields_len).map_err(|_| bad_len)?;
    reader.skip(len.next_multiple_of(8) - len).map_err(|_| bad_len)?;
    read_fields(fields)
}

/// Reads a list of fields. Whatever a field needs must stand in front of it.
pub(crate) fn read_fields(bytes: &[u8]) -> Result<FlowMatch, ErrorCode> {
    let mut matching = FlowMatch::any();
    let mut reader = Reader::new(bytes, ErrorCode::MATCH_BAD_LEN);
    while !reader.is_empty() {
        let mut entry = read_entry(&mut reader, &IN_MATCH)?;
        if !entry.field.needs.are_met(&matching) {
            return Err(ErrorCode::MATCH_BAD_PREREQ);
        }
        if entry.field.name == "nw_tos" {
            entry = dscp_of_tos(entry)?;
        }
        let (_, present) = matching.get(entry.field);
        if present != 0 {
            return Err(ErrorCode::MATCH_DUP_FIELD);
        }
        matching.set(entry.field, entry.value, entry.mask);
    }
    Ok(matching)
}

/// Open vSwitch's match on the TOS byte means its upper six bits.
fn dscp_of_tos(entry: Entry) -> Result<Entry, ErrorCode> {
    if entry.value & 3 != 0 {
        return Err(ErrorCode::MATCH_BAD_VALUE);
    }
    let dscp = field("ip_dscp").ok_or(ErrorCode::MATCH_BAD_FIELD)?;
    if entry.has_mask {
        return Err(ErrorCode::MATCH_BAD_MASK);
    }
    Ok(Entry {
        field: dscp,
        value: entry.value >> 2,
        mask: dscp.range.value_max(),
        has_mask: false,
    })
}

/// Appends a match with its header and padding.
pub(crate) fn write_match(out: &mut Vec<u8>, matching: &FlowMatch) {
    let start = out.len();
    out.u16(MATCH_OXM).u16(0);
    write_fields(out, matching);
    out.length(start).pad(start);
}

/// Appends a list of fields.
pub(crate) fn write_fields(out: &mut Vec<u8>, matching: &FlowMatch) {
    let tci = field("vlan_tci").filter(|tci| needs_tci(tci, matching));
    for (field, value, mask) in matching.fields() {
        let is_in_tci = tci.is_some() && matches!(field.name, "vlan_vid" | "vlan_pcp");
        if !is_in_tci {
            write_entry(out, field, value, mask);
        }
    }
    if let Some(tci) = tci {
        let (value, mask) = matching.get(tci);
        write_entry(out, tci, value, mask);
    }
}

/// Whether the bits of the VLAN tag need the field of Open vSwitch: OpenFlow's `vlan_pcp` has no
/// mask, and needs a tag, as a whole `vlan_vid` but zero does.
fn needs_tci(tci: &MatchField, matching: &FlowMatch) -> bool {
    const VID: u128 = 0x1fff;
    let (value, mask) = matching.get(tci);
    let has_tag = FieldNeeds::Vlan.are_met(matching);
    let (vid, pcp_mask) = (value & VID, mask >> 13);
    pcp_mask != 0 && (pcp_mask != 7 || !has_tag) || mask & VID == VID && vid != 0 && !has_tag
}

/// Appends a field with value and mask.
pub(crate) fn write_entry(out: &mut Vec<u8>, field: &MatchField, value: u128, mask: u128) {
    let has_mask = mask & field.range.value_max() != field.range.value_max();
    write_header(out, field, has_mask);
    write_value(out, field, value);
    if has_mask {
        write_value(out, field, mask);
    }
}

fn write_value(out: &mut Vec<u8>, field: &MatchField, value: u128) {
    let value = value & field.range.value_max();
    out.bytes(&value.to_be_bytes()[16 - usize::from(field.oxm.len)..]);
}

/// Appends a field's header.
pub(crate) fn write_header(out: &mut Vec<u8>, field: &MatchField, has_mask: bool) {
    let Oxm { class, number, len } = field.oxm;
    let len = if has_mask { 2 * len } else { len };
    let is_experimenter = class == Oxm::EXPERIMENTER;
    out.u16(class).u8(number << 1 | u8::from(has_mask));
    out.u8(if is_experimenter { len + 4 } else { len });
    if is_experimenter {
        out.u32(Oxm::ONF_EXPERIMENTER);
    }
}

/// The pipeline fields of a packet: those that a packet-in message carries.
pub(crate) fn pipeline_fields(key: &[u32; FLOW_WORDS]) -> FlowMatch {
    let mut matching = FlowMatch::any();
    for field in FIELDS.iter().filter(|field| is_pipeline_field(field)) {
        let value = field.range.read(key);
        if value != 0 || field.name == "in_port" {
            matching.set(field, value, field.range.value_max());
        }
    }
    matching
}

fn is_pipeline_field(field: &MatchField) -> bool {
    let is_register = field.oxm.class == Oxm::NICIRA && field.oxm.number < 16;
    let names = ["in_port", "in_phy_port", "metadata", "tun_id", "tun_src", "tun_dst", "pkt_mark"];
    is_register || names.contains(&field.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[track_caller]
    fn check(fields: &str, expected: Result<&str, ErrorCode>) {
        let found =
            read_fields(&hex(fields)).map(|matching| format!("{matching:?}").replace('"', ""));
        assert_eq!(found, expected.map(str::to_owned), "{fields}");
    }

    #[test]
    fn reads_fields_of_every_class() {
        check("80000004 00000007", Ok("{in_port: 0x7}"));
        let prefix = "{eth_type: 0x800, ip_src: 0xa000000/0xff000000}";
        check("80000a02 0800 80001708 0a000000 ff000000", Ok(prefix));
        check("00000602 0800 00000f08 0a000000 ff000000", Ok(prefix));
        check(
            "00014204 00000005 80010208 0000000100000002",
            Ok("{reg2: 0x1, reg3: 0x2, pkt_mark: 0x5}"),
        );
        check(
            "80000a02 86dd 80001401 06 ffff5408 4f4e4600 0002 0002",
            Err(ErrorCode::MATCH_BAD_LEN),
        );
    }

    #[test]
    fn rejects_bad_fields_with_the_code_of_the_standard() {
        use ErrorCode as E;
        for (fields, code) in [
            ("8000", E::MATCH_BAD_LEN),
            ("80000004 0000", E::MATCH_BAD_LEN),
            ("80000003 000000", E::MATCH_BAD_LEN),
            ("80005004 00000000", E::MATCH_BAD_FIELD),
            ("12340004 00000000", E::MATCH_BAD_FIELD),
            ("ffff5402", E::MATCH_BAD_LEN),
            ("ffff5406 00002320 0001", E::MATCH_BAD_FIELD),
            ("80000108 00000001 0000000f", E::MATCH_BAD_MASK),
            ("80000508 0000000000000001", E::MATCH_BAD_LEN),
            ("80000510 0000000000000003 0000000000000001", E::MATCH_BAD_WILDCARDS),
            ("80000c02 2001", E::MATCH_BAD_VALUE),
            ("80000c02 0001", E::MATCH_BAD_VALUE),
            ("80000e01 01", E::MATCH_BAD_PREREQ),
            ("80000c02 0000 80000e01 01", E::MATCH_BAD_PREREQ),
            ("80000a02 0806 80001604 0a000001", E::MATCH_BAD_PREREQ),
            ("80001604 0a000001 80000a02 0800", E::MATCH_BAD_PREREQ),
            ("80000a02 0800 80001001 40", E::MATCH_BAD_VALUE),
            ("80000004 00000001 80000004 00000001", E::MATCH_DUP_FIELD),
            ("00010004 00000001 80010008 0000000000000001", E::MATCH_DUP_FIELD),
        ] {
            check(fields, Err(code));
        }
    }

    #[test]
    fn a_mask_of_ones_is_none_and_of_zeros_omits_the_field() {
        check("80000510 0000000000000003 ffffffffffffffff", Ok("{metadata: 0x3}"));
        check("80000510 0000000000000000 0000000000000000", Ok("{}"));
    }

    #[test]
    fn tags_that_openflow_cannot_express_use_the_field_of_open_vswitch() {
        for fields in [
            "00000802 0000",
            "00000904 2000 2000",
            "00000904 0005 1fff",
            "80000c02 1005 80000e01 03",
        ] {
            let matching = read_fields(&hex(fields)).unwrap();
            let mut out = Vec::new();
            write_fields(&mut out, &matching);
            assert_eq!(out, hex(fields), "{fields}");
        }
    }
}
