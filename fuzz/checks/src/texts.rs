//! Text formats: any bytes are read or refused with a report, and what was read is written and read
//! back the same.

use warpswitch_rules::diagnostic::Diagnostics;
use warpswitch_rules::format::{
    ReadOptions, RulesFormat, TraceFormat, TraceReader, format_key, format_match, ovs,
    parse_flow_key, parse_packet, read_rules, write_rules, write_trace,
};
use warpswitch_rules::generate::{FRAME_BYTES_MIN, frame_for_flow};
use warpswitch_rules::openflow::{GroupMod, MeterMod};
use warpswitch_rules::schema::SCHEMAS;
use warpswitch_rules::{KeyBuf, Ruleset, Schema};

use crate::split;

/// ClassBench filter sets.
pub fn rules_classbench(data: &[u8]) {
    rules(RulesFormat::ClassBench, data);
}

/// `ovs-ofctl` flow text, as rules for classification.
pub fn rules_ovs(data: &[u8]) {
    rules(RulesFormat::Ovs, data);
}

/// All text of `ovs-ofctl`: what is read has one spelling, which is read back the same.
pub fn flow_text(data: &[u8]) {
    let ([choice], bytes) = split(data);
    let text = String::from_utf8_lossy(bytes);
    match choice % 6 {
        0 => one_spelling(&text, ovs::parse_flow, ovs::flow_text),
        1 => one_spelling(&text, ovs::parse_change, ovs::change_text),
        2 => one_spelling(&text, ovs::parse_group, |change| match change {
            GroupMod::Add(group) => ovs::group_text(group),
            GroupMod::Modify(group) => format!("modify {}", ovs::group_text(group)),
            GroupMod::Delete(id) => format!("delete group_id={id}"),
        }),
        3 => one_spelling(&text, ovs::parse_meter, |change| match change {
            MeterMod::Add(meter) => ovs::meter_text(meter),
            MeterMod::Modify(meter) => format!("modify {}", ovs::meter_text(meter)),
            MeterMod::Delete(u32::MAX) => "delete meter=all".to_owned(),
            MeterMod::Delete(id) => format!("delete meter={id}"),
        }),
        4 => {
            if let Ok(flows) = ovs::read_flows("input", &text) {
                let lines: Vec<String> = flows.iter().map(ovs::flow_text).collect();
                assert_eq!(ovs::read_flows("written", &lines.join("\n")), Ok(flows));
            }
        }
        _ => {
            let Ok(key) = parse_flow_key(&text) else { return };
            let mut frame = Vec::new();
            frame_for_flow(&key, bytes.len(), &mut frame);
            assert!(frame.len() >= FRAME_BYTES_MIN);
            ovs::key_text(&key);
        }
    }
}

fn one_spelling<T: PartialEq + std::fmt::Debug>(
    text: &str,
    read: impl Fn(&str) -> Result<T, Diagnostics>,
    write: impl Fn(&T) -> String,
) {
    match read(text) {
        Ok(value) => {
            let spelled = write(&value);
            assert_eq!(read(&spelled).as_ref(), Ok(&value), "{spelled}");
        }
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
}

/// The canonical form.
pub fn rules_canonical(data: &[u8]) {
    rules(RulesFormat::Canonical, data);
}

fn rules(format: RulesFormat, data: &[u8]) {
    let ([choice], bytes) = split(data);
    let text = String::from_utf8_lossy(bytes);
    let options = ReadOptions {
        // One bit leaves the format to be recognised.
        format: (choice & 1 == 0).then_some(format),
        schema: schema_of(choice >> 1 & 7),
        tcp_flags: choice & 16 != 0,
    };
    match read_rules("input", &text, &options) {
        Ok(ruleset) => write_and_read_back(&ruleset, options.tcp_flags),
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a reason");
            assert!(!errors.to_string().is_empty());
        }
    }
}

/// The canonical form holds everything; the other forms, where they can hold a set, hold what it
/// matches. A column of flags that was read and not matched is written as it was, so it is not
/// matched when it is read back either.
fn write_and_read_back(ruleset: &Ruleset, matches_flags: bool) {
    let canonical = written(ruleset, RulesFormat::Canonical).expect("canonical holds every set");
    let options = ReadOptions {
        format: Some(RulesFormat::Canonical),
        schema: Some(ruleset.schema()),
        ..ReadOptions::default()
    };
    let again = read_rules("canonical", &canonical, &options)
        .unwrap_or_else(|errors| panic!("cannot read back:\n{canonical}\n{errors}"));
    assert_eq!(again.len(), ruleset.len(), "{canonical}");
    for id in ruleset.ids() {
        assert_eq!(again.rule(id), ruleset.rule(id), "{canonical}");
        assert_eq!(again.action(id), ruleset.action(id), "{canonical}");
        format_match(ruleset.schema(), ruleset.matching(id));
    }
    let has_column = ruleset.ids().any(|id| ruleset.flags_column(id).is_some());
    let tcp_flags = matches_flags || !has_column;
    for format in [RulesFormat::ClassBench, RulesFormat::Ovs] {
        let Some(text) = written(ruleset, format) else { continue };
        let options = ReadOptions { format: Some(format), schema: None, tcp_flags };
        if let Err(errors) = read_rules("written", &text, &options) {
            panic!("{format} was written and cannot be read:\n{text}\n{errors}");
        }
    }
}

/// The text of a set, if the format can hold it.
fn written(ruleset: &Ruleset, format: RulesFormat) -> Option<String> {
    let mut out = Vec::new();
    write_rules(ruleset, format, &mut out).ok()?;
    Some(String::from_utf8(out).expect("formats are text"))
}

/// Traces, read in pieces.
pub fn trace(data: &[u8]) {
    let ([choice, piece], bytes) = split(data);
    let schema = schema_of(choice & 3).unwrap_or(SCHEMAS[0]);
    let format = match choice >> 2 & 3 {
        0 => Some(TraceFormat::ClassBench),
        1 => Some(TraceFormat::Canonical),
        _ => None,
    };
    let keys_max = usize::from(piece) + 1;
    let mut reader = TraceReader::new("input", bytes, schema, format);
    let mut keys = KeyBuf::new(schema);
    loop {
        let before = keys.len();
        match reader.read_batch(&mut keys, keys_max) {
            Ok(0) => break,
            Ok(count) => assert_eq!(keys.len(), before + count),
            Err(errors) => {
                assert!(!errors.to_string().is_empty());
                return;
            }
        }
    }
    let mut out = Vec::new();
    write_trace(keys.as_batch(), schema, TraceFormat::Canonical, &mut out)
        .expect("canonical holds every key");
    let mut reader = TraceReader::new("written", &out[..], schema, Some(TraceFormat::Canonical));
    let mut again = KeyBuf::new(schema);
    while reader.read_batch(&mut again, 7).expect("what was written") > 0 {}
    assert_eq!(again.as_batch().words(), keys.as_batch().words());
}

/// The text of one packet.
pub fn packet_text(data: &[u8]) {
    let ([choice], bytes) = split(data);
    let text = String::from_utf8_lossy(bytes);
    let schema = schema_of(choice & 3).unwrap_or(SCHEMAS[0]);
    match parse_packet(&text, schema) {
        Ok(key) => {
            assert_eq!(key.len(), schema.words);
            format_key(schema, &key);
        }
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
}

/// One of the schemas, or none.
fn schema_of(choice: u8) -> Option<&'static Schema> {
    SCHEMAS.get(usize::from(choice)).copied()
}
