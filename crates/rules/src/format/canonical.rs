//! The canonical form of rule sets, traces and single keys: ours, for tests, for diffs, and for
//! rule sets that no other format expresses.
//!
//! ```text
//! schema ipv4_5tuple
//! priority=7, ipv4_src=10.0.0.0/8, l4_dst=80..90, ip_proto=6, tcp_flags=0x002/0x012 -> drop
//! priority=0, flags_column=0x0000/0x0200 -> pass
//! ```
//! One rule a line: its priority (0 if absent), the fields that it examines in the order of the
//! schema, ClassBench's flags column if it has one, and behind the arrow its action: `pass`,
//! `drop`, `mark:N`, `output:N`, or a list of `ovs-ofctl` actions as a quoted string. A field is
//! demanded as `VALUE`, `VALUE/MASK`, for addresses `ADDRESS/LENGTH`, for ports `LOW..HIGH`. Empty
//! lines and lines that start with `#` are skipped; a reader takes fields in any order. Asked for
//! another schema, it makes rules of that one which say the same, or tells why it cannot: those of
//! a 5-tuple then demand their family's EtherType.
//!
//! ```text
//! keys ipv4_5tuple
//! ipv4_src=10.0.0.1,ipv4_dst=10.0.0.2,l4_src=1234,l4_dst=80,ip_proto=6
//! ```
//! One key a line; fields that are absent are zero.
//!
//! # Invariants
//! - C1: reading what was written yields an equal rule set (source lines aside), or equal keys.
//! - C2: equal rule sets are written as equal bytes.
//! - C3: where a schema has both families, the bits of an address are written once: as IPv4 if
//!   only its low 32 bits count and the EtherType is not exactly IPv6.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use super::other_schema::Schemas;
use super::text::{
    self, Fault, Faults, Parsed, Reporter, Token, is_blank_or_comment, is_space, lines,
};
use super::value;
use super::{ReadOptions, WriteReport};
use crate::diagnostic::Diagnostics;
use crate::key::KeyBatch;
use crate::matching::{Match, MatchKind, MatchRef};
use crate::rule::{Action, FlagsColumn, Rule, RuleId};
use crate::ruleset::{Ruleset, RulesetBuilder};
use crate::schema::{self, Field, FieldSpec, SCHEMAS, Schema};

/// Reads a rule set.
pub(super) fn read(file: &str, text: &str, options: &ReadOptions) -> Result<Ruleset, Diagnostics> {
    let mut reporter = Reporter::new(file);
    let mut set: Option<(Schemas, RulesetBuilder)> = None;
    let mut faults = Faults::default();
    for (line_no, line) in lines(text.as_bytes()) {
        if is_blank_or_comment(line) {
            continue;
        }
        if let Some((schemas, rules)) = &mut set {
            if reporter.is_full(rules.len(), line_no, line) {
                break;
            }
            match rule(line, *schemas, &mut faults) {
                Some(mut rule) if faults.is_empty() => {
                    rule.line = line_no;
                    rules.push(rule);
                }
                _ => reporter.faults(line_no, line, &mut faults),
            }
            continue;
        }
        let asked = |(schema, name)| Schemas::new(schema, options.schema.unwrap_or(schema), name);
        let schemas = match header(line, b"schema") {
            Ok(named) => asked(named),
            Err(fault) => {
                reporter.fault(line_no, line, *fault);
                // Without a schema no field has a meaning; the lines below are not looked at.
                let Some(schema) = options.schema else { break };
                asked((schema, 0..line.len()))
            }
        };
        match schemas {
            Ok(schemas) => set = Some((schemas, RulesetBuilder::new(schemas.of_rules))),
            Err(fault) => {
                reporter.fault(line_no, line, *fault);
                break;
            }
        }
    }
    let empty = || Ruleset::empty(options.schema.unwrap_or(&schema::IPV4_5TUPLE));
    reporter.diagnostics.into_result(set.map_or_else(empty, |(_, rules)| rules.build()))
}

/// `WORD SCHEMA`, and where the schema's name stands.
fn header(line: &[u8], word: &'static [u8]) -> Parsed<(&'static Schema, Range<usize>)> {
    let line_token = trim(Token::new(line, 0..line.len()));
    let name = line_token
        .bytes
        .strip_prefix(word)
        .filter(|rest| rest.first().is_some_and(|b| is_space(*b)));
    let names: Vec<&str> = SCHEMAS.iter().map(|s| s.name).collect();
    let Some(name) = name else {
        let word = String::from_utf8_lossy(word);
        let expected = format!("{word} NAME");
        let fault =
            Fault::new(line_token.span(), "the first line does not name a schema", expected);
        return Err(fault.help(format!("NAME is one of {}", names.join(", "))));
    };
    let start = line_token.bytes.len() - name.len();
    let name = trim(line_token.part(start..line_token.bytes.len()));
    Schema::by_name(&name.text())
        .map(|schema| (schema, name.span()))
        .ok_or_else(|| Fault::new(name.span(), "unknown schema", names.join(", ")))
}

/// Checks the first line of a trace in canonical form.
pub(super) fn parse_keys_header(line: &[u8], schema: &'static Schema) -> Parsed<()> {
    let (found, _) = header(line, b"keys")?;
    if found == schema {
        return Ok(());
    }
    let message = format!("keys of schema {} for rules of schema {}", found.name, schema.name);
    Err(Fault::new(0..line.len(), message, format!("keys {}", schema.name)))
}

/// A token without blanks around it.
fn trim(token: Token<'_>) -> Token<'_> {
    let first = token.bytes.iter().position(|b| !is_space(*b)).unwrap_or(token.bytes.len());
    let last = token.bytes.iter().rposition(|b| !is_space(*b)).map_or(first, |at| at + 1);
    token.part(first..last)
}

/// The comma-separated `NAME=VALUE` items of a token.
fn items<'a>(token: Token<'a>) -> impl Iterator<Item = Token<'a>> {
    let mut start = Some(0).filter(|_| !trim(token).bytes.is_empty());
    std::iter::from_fn(move || {
        let from = start?;
        let comma = memchr::memchr(b',', &token.bytes[from..]);
        start = comma.map(|at| from + at + 1);
        Some(trim(token.part(from..comma.map_or(token.bytes.len(), |at| from + at))))
    })
}

/// Name and value of an item.
fn name_and_value<'a>(item: Token<'a>) -> Parsed<(Token<'a>, Token<'a>)> {
    let parts = item.split_at_byte(b'=').map(|(name, value)| (trim(name), trim(value)));
    parts.ok_or_else(|| match item.bytes {
        [] => Fault::new(item.span(), "empty item between two commas", "FIELD=VALUE"),
        _ => Fault::new(item.span(), "field without a value", "FIELD=VALUE"),
    })
}

/// The field of that name, and a check that no field of the same bits was set before.
fn field(name: Token<'_>, schema: &'static Schema, seen: &mut u32) -> Parsed<&'static FieldSpec> {
    let position = schema.fields.iter().position(|s| s.name.as_bytes() == name.bytes);
    let Some(position) = position else {
        let names: Vec<&str> = schema.fields.iter().map(|s| s.name).collect();
        let message = format!("unknown field for schema {}", schema.name);
        return Err(Fault::new(name.span(), message, names.join(", ")));
    };
    let spec = &schema.fields[position];
    let end = |s: &FieldSpec| s.bit_offset + s.bits;
    for (idx, other) in schema.fields.iter().enumerate() {
        let shares_bits = spec.bit_offset < end(other) && other.bit_offset < end(spec);
        if *seen & (1 << idx) != 0 && shares_bits {
            let message = format!("{} after {}: duplicate field", spec.name, other.name);
            return Err(Fault::new(name.span(), message, "each field at most once"));
        }
    }
    *seen |= 1 << position;
    Ok(spec)
}

/// Reads one rule, collecting every fault.
fn rule(line: &[u8], schemas: Schemas, faults: &mut Faults) -> Option<Rule> {
    let Some(arrow) = memchr::memmem::find(line, b"->") else {
        let at = line.len()..line.len();
        let fault = Fault::new(at, "missing action", "-> ACTION");
        faults.push(fault.help("ACTION is pass, drop, mark:N, output:N or a quoted list"));
        return None;
    };
    let mut rule = Rule::new(Match::any(schemas.of_text), Action::Pass);
    let mut seen = 0u32;
    let mut has_priority = false;
    for item in items(Token::new(line, 0..arrow)) {
        let mut one = || -> Parsed<()> {
            let (name, value) = name_and_value(item)?;
            match name.bytes {
                b"priority" if has_priority => {
                    let message = "duplicate priority";
                    return Err(Fault::new(item.span(), message, "one priority"));
                }
                b"priority" => {
                    has_priority = true;
                    rule.priority = text::decimal(value, u32::MAX, "the priority")?;
                }
                b"flags_column" => rule.flags_column = Some(flags_column(value)?),
                _ => {
                    let spec = field(name, schemas.of_text, &mut seen)?;
                    schemas.check_field(spec, name.span())?;
                    value::parse_demand(spec, value)?.set(&mut rule.matching, spec.field);
                }
            }
            Ok(())
        };
        if let Err(fault) = one() {
            faults.push(fault);
        }
    }
    let demands = trim(Token::new(line, 0..arrow)).span();
    if let Some(matching) = faults.note(schemas.convert(rule.matching, demands)) {
        rule.matching = matching;
    }
    match action(trim(Token::new(line, arrow + 2..line.len()))) {
        Ok(action) => rule.action = action,
        Err(fault) => faults.push(fault),
    }
    Some(rule)
}

fn flags_column(token: Token<'_>) -> Parsed<FlagsColumn> {
    let Some((value, mask)) = token.split_at_byte(b'/') else {
        return Err(Fault::new(token.span(), "the flags column has no mask", "VALUE/MASK"));
    };
    let value = text::number(value, 0xffff, "the flags column")? as u16;
    let mask = text::number(mask, 0xffff, "the mask")? as u16;
    Ok(FlagsColumn { value, mask })
}

fn action(token: Token<'_>) -> Parsed<Action> {
    let expected = "pass, drop, mark:N, output:N or a quoted list";
    match token.bytes {
        b"pass" => return Ok(Action::Pass),
        b"drop" => return Ok(Action::Drop),
        [b'"', ..] => return quoted(token).map(|text| Action::List(text.into())),
        [] => return Err(Fault::new(token.span(), "the action is missing", expected)),
        _ => {}
    }
    if let Some((name, argument)) = token.split_at_byte(b':') {
        match name.bytes {
            b"mark" => return text::decimal(argument, u32::MAX, "the mark").map(Action::Mark),
            b"output" => return text::decimal(argument, u32::MAX, "the port").map(Action::Output),
            _ => {}
        }
    }
    Err(Fault::new(token.span(), "unknown action", expected))
}

/// The text of a quoted string.
fn quoted(token: Token<'_>) -> Parsed<String> {
    let text = token.text();
    let wrong = |message: &'static str| Fault::new(token.span(), message, "\"ACTIONS\"");
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    let inner = inner.ok_or_else(|| wrong("unterminated quote"))?;
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        let c = match c {
            '"' => return Err(wrong("unexpected text after the closing quote")),
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some(c @ ('\\' | '"')) => c,
                _ => return Err(wrong("a backslash before none of \\ \" n r")),
            },
            c => c,
        };
        out.push(c);
    }
    Ok(out)
}

/// Adds the fields of a key, `line[from..]`, to `key`, which is zero, and every fault to `faults`.
pub(super) fn parse_key(
    line: &[u8],
    from: usize,
    schema: &'static Schema,
    key: &mut [u32],
    faults: &mut Faults,
) {
    let mut seen = 0u32;
    for item in items(Token::new(line, from..line.len())) {
        let mut one = || -> Parsed<()> {
            let (name, value) = name_and_value(item)?;
            let spec = field(name, schema, &mut seen)?;
            spec.write(key, value::parse_value(spec, value)?);
            Ok(())
        };
        if let Err(fault) = one() {
            faults.push(fault);
        }
    }
}

/// Writes every rule.
pub(super) fn write(ruleset: &Ruleset, out: &mut dyn Write) -> io::Result<WriteReport> {
    writeln!(out, "schema {}", ruleset.schema().name)?;
    let mut line = String::new();
    for id in ruleset.ids() {
        line.clear();
        write_rule(ruleset, id, &mut line).expect("a String takes every write");
        out.write_all(line.as_bytes())?;
    }
    Ok(WriteReport { lines: ruleset.len(), ..WriteReport::default() })
}

fn write_rule(ruleset: &Ruleset, id: RuleId, out: &mut String) -> fmt::Result {
    write!(out, "priority={}", ruleset.priority(id))?;
    let matching = format_match(ruleset.schema(), ruleset.matching(id));
    if !matching.is_empty() {
        write!(out, ", {matching}")?;
    }
    if let Some(FlagsColumn { value, mask }) = ruleset.flags_column(id) {
        write!(out, ", flags_column={value:#06x}/{mask:#06x}")?;
    }
    match ruleset.action(id) {
        Action::List(text) => writeln!(out, " -> {}", quote(text)),
        action => writeln!(out, " -> {action}"),
    }
}

fn quote(text: &Arc<str>) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' | '"' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether an address field is written, given the bits that count and the EtherType (C3).
fn is_written(schema: &Schema, spec: &FieldSpec, bits: &[u32], is_ipv6: bool) -> bool {
    let wide = match spec.field {
        Field::Ipv4Src | Field::Ipv6Src => Field::Ipv6Src,
        Field::Ipv4Dst | Field::Ipv6Dst => Field::Ipv6Dst,
        _ => return true,
    };
    let narrow = if wide == Field::Ipv6Src { Field::Ipv4Src } else { Field::Ipv4Dst };
    let (Some(wide), Some(_)) = (schema.field(wide), schema.field(narrow)) else { return true };
    let as_ipv4 = wide.read(bits) >> 32 == 0 && !is_ipv6;
    as_ipv4 == (spec.field == narrow)
}

/// The canonical text of what a rule demands, as in `ipv4_src=10.0.0.0/8, l4_dst=80..90`; empty if
/// it demands nothing.
///
/// # Panics
/// If the match is not of `schema`: a caller bug, not an input.
pub fn format_match(schema: &Schema, matching: MatchRef<'_>) -> String {
    let is_ipv6 = matches!(matching.kind(schema, Field::EthType), MatchKind::Exact(0x86dd));
    let mut out = String::new();
    for spec in schema.fields {
        let kind = matching.kind(schema, spec.field);
        if kind == MatchKind::Any || !is_written(schema, spec, matching.mask, is_ipv6) {
            continue;
        }
        let comma = if out.is_empty() { "" } else { ", " };
        write!(out, "{comma}{}=", spec.name).expect("a String takes every write");
        value::write_kind(&mut out, spec, kind).expect("a String takes every write");
    }
    out
}

/// The canonical text of a key, as in `ipv4_src=10.0.0.1,l4_dst=80`; fields that are zero are
/// left out, all but the first if all are.
///
/// # Panics
/// If `key` is shorter than the schema's keys: a caller bug, not an input.
pub fn format_key(schema: &Schema, key: &[u32]) -> String {
    let mut out = String::new();
    write_key(schema, key, &mut out).expect("a String takes every write");
    out
}

fn write_key(schema: &Schema, key: &[u32], out: &mut String) -> fmt::Result {
    let start = out.len();
    let is_ipv6 = schema.field(Field::EthType).is_some_and(|spec| spec.read(key) == 0x86dd);
    for spec in schema.fields {
        let value = spec.read(key);
        if value == 0 || !is_written(schema, spec, key, is_ipv6) {
            continue;
        }
        let comma = if out.len() == start { "" } else { "," };
        write!(out, "{comma}{}=", spec.name)?;
        value::write_value(out, spec, value)?;
    }
    if out.len() == start {
        let spec = &schema.fields[0];
        write!(out, "{}=", spec.name)?;
        value::write_value(out, spec, 0)?;
    }
    Ok(())
}

/// Writes a trace.
pub(super) fn write_keys(
    keys: KeyBatch<'_>,
    schema: &'static Schema,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "keys {}", schema.name)?;
    let mut line = String::new();
    for key in keys.iter() {
        line.clear();
        write_key(schema, key, &mut line).expect("a String takes every write");
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}
