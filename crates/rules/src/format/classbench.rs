//! ClassBench filter sets, IPv4 and IPv6, read and written.
//!
//! ```text
//! @10.0.0.0/8  192.168.0.0/16  0 : 65535     80 : 80      0x06/0xFF  0x0200/0x0200
//!  source      destination     source ports  dest. ports  protocol   TCP flags
//! ```
//! One filter a line; the first line that matches wins, so every rule has priority 0 and its place
//! decides. The format has no actions: every rule passes. Any blanks separate the columns, empty
//! lines and lines that start with `#` are skipped, and the flags column may be absent. Address
//! bits beyond the prefix are ignored, as ClassBench's own tools and its other readers do.
//!
//! # The flags column
//! It is the 16-bit word that holds a TCP header's bytes 12 and 13, with its two bytes swapped:
//! `0x0200` is SYN, `0x1000` is ACK. It is kept as it was read and matched only on demand, because
//! no other program that reads these files matches it. In a rule for exactly ICMP the column holds
//! the ICMP type and code (`0x0303/0xffff` is type 3, code 3; every such column of the published
//! seeds is one); it is never matched then, as the 5-tuple schemas have no room for them.
//!
//! # Ports of ICMP
//! Filters are about 5-tuples, in which ICMP has zeros as ports: a rule for ICMP alone with ports
//! matches packets whose keys say so, and frames only if the ranges have the 0. In the OpenFlow
//! schemas ports of ICMP are its type and code, so such a rule is not read as one of these, nor
//! one that asks for a type written as a filter.
//!
//! # Families
//! An address with a colon is IPv6, as classbench-ng writes it. The first rule decides the schema;
//! one set of both families needs the schema `openflow12_ipv6`. In the OpenFlow schemas a rule
//! also demands its family's EtherType.
//!
//! # Source
//! Taylor, Turner, "ClassBench: A Packet Classification Benchmark", INFOCOM 2005.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::other_schema::{ICMP_PORTS, has_icmp_ports};
use super::text::{
    self, Fault, Faults, Parsed, Reporter, Token, is_blank_or_comment, is_space, lines,
};
use super::{ReadOptions, WriteReport};
use crate::diagnostic::Diagnostics;
use crate::matching::{Match, MatchKind, MatchRef, PortRange};
use crate::rule::{Action, FlagsColumn, Rule, RuleId};
use crate::ruleset::{Ruleset, RulesetBuilder};
use crate::schema::{self, Field, Schema};

/// EtherType of IPv4.
const ETH_IPV4: u128 = 0x0800;
/// EtherType of IPv6.
const ETH_IPV6: u128 = 0x86dd;
const PROTO_ICMP: u32 = 1;
const PROTO_ICMPV6: u32 = 58;
/// The flag bits of a TCP header's bytes 12 and 13.
const FLAG_BITS: u16 = 0x0fff;

/// Reads a filter set.
///
/// Cost: about a microsecond a rule, most of it for storing the rule.
pub(super) fn read(file: &str, text: &str, options: &ReadOptions) -> Result<Ruleset, Diagnostics> {
    let mut reporter = Reporter::new(file);
    let mut schema = options.schema;
    let mut rules: Option<RulesetBuilder> = None;
    for (line_no, line) in lines(text.as_bytes()) {
        if is_blank_or_comment(line) {
            continue;
        }
        let schema = *schema.get_or_insert_with(|| schema_of(line));
        let rules = rules.get_or_insert_with(|| RulesetBuilder::new(schema));
        if reporter.is_full(rules.len(), line_no, line) {
            break;
        }
        let mut reader =
            LineReader { schema, tcp_flags: options.tcp_flags, faults: Faults::default() };
        match reader.rule(line) {
            Some(mut rule) if reader.faults.is_empty() => {
                rule.line = line_no;
                rules.push(rule);
            }
            _ => reporter.faults(line_no, line, &mut reader.faults),
        }
    }
    let empty = || Ruleset::empty(options.schema.unwrap_or(&schema::IPV4_5TUPLE));
    reporter.diagnostics.into_result(rules.map_or_else(empty, RulesetBuilder::build))
}

/// The schema that suits a file with this first rule.
fn schema_of(line: &[u8]) -> &'static Schema {
    let address = line.split(|b| is_space(*b)).find(|t| !t.is_empty()).unwrap_or(b"");
    if address.contains(&b':') { &schema::IPV6_5TUPLE } else { &schema::IPV4_5TUPLE }
}

/// Reads one line, collecting every fault in it.
struct LineReader {
    schema: &'static Schema,
    tcp_flags: bool,
    faults: Faults,
}

/// An address prefix of either family.
#[derive(Clone, Copy)]
struct Prefix {
    value: u128,
    len: usize,
    is_ipv6: bool,
}

impl LineReader {
    /// The rule of a line. `None` if it is too broken to have one.
    fn rule(&mut self, line: &[u8]) -> Option<Rule> {
        let mut cursor = Cursor { line, at: 0 };
        let src = cursor.token(false);
        let src = match src.bytes {
            [b'@', ..] => src.part(1..src.bytes.len()),
            _ => {
                let at = src.start..src.start + src.bytes.len().min(1);
                let fault = Fault::new(at, "a filter starts with @", "@");
                let example = "@10.0.0.0/8 192.0.2.0/24 0 : 65535 80 : 80 0x06/0xFF";
                self.faults.push(fault.help(format!("example of a ClassBench line: {example}")));
                return None;
            }
        };
        let src = self.faults.note(prefix(src));
        let dst = self.faults.note(prefix(cursor.token(false)));
        let l4_src = self.ports(&mut cursor, "source")?;
        let l4_dst = self.ports(&mut cursor, "destination")?;
        let proto = self.faults.note(masked(cursor.token(false), 0xff, "the protocol"));
        let flags = cursor.token(false);
        let flags = match flags.bytes {
            [] => None,
            _ => Some(
                self.faults.note(masked(flags, 0xffff, "the flags column").map(|f| (f, flags)))?,
            ),
        };
        let extra = cursor.token(false);
        if !extra.bytes.is_empty() {
            let span = extra.start..line.len();
            self.faults.push(Fault::new(
                span,
                "unexpected columns after the flags",
                "the end of the line",
            ));
        }
        let mut matching = Match::any(self.schema);
        let (src, dst) = (src?, dst?);
        self.set_addresses(&mut matching, src, dst, line)?;
        set_ports(&mut matching, Field::L4Src, l4_src?);
        set_ports(&mut matching, Field::L4Dst, l4_dst?);
        let (proto, mask) = proto?;
        matching.set_mask(Field::IpProto, proto.into(), mask.into());
        let is_icmp = mask == 0xff && matches!(proto, PROTO_ICMP | PROTO_ICMPV6);
        let is_5tuple = self.schema.field(Field::EthType).is_none();
        if !is_5tuple && has_icmp_ports(self.schema, matching.as_ref()) {
            let fault = Fault::new(0..line.len(), ICMP_PORTS, "0 : 65535 twice beside ICMP");
            self.faults.push(fault.help("read the rules with the schema of their 5-tuple"));
        }
        let mut rule = Rule::new(matching, Action::Pass);
        if let Some(((value, mask), token)) = flags {
            let column = FlagsColumn { value: value as u16, mask: mask as u16 };
            rule.flags_column = Some(column);
            if self.tcp_flags && !is_icmp {
                let (value, mask) = self.faults.note(flags_match(column, token))?;
                rule.matching.set_mask(Field::TcpFlags, value.into(), mask.into());
            }
        }
        Some(rule)
    }

    /// Two ports with a colon between them. The outer `None` says that the columns behind cannot
    /// be told apart any more.
    #[allow(clippy::option_option, reason = "the outer one ends the line, the inner one does not")]
    fn ports(&mut self, cursor: &mut Cursor<'_>, side: &'static str) -> Option<Option<PortRange>> {
        let lo = cursor.token(true);
        let colon = cursor.token(true);
        if colon.bytes != b":" {
            let message = format!("no colon between the two {side} ports");
            self.faults.push(Fault::new(colon.span(), message, "LOW : HIGH, as 0 : 65535"));
            return None;
        }
        let hi = cursor.token(true);
        let span = lo.start..hi.start + hi.bytes.len();
        let lo = self.faults.note(text::decimal(lo, 65535, "the lower port"));
        let hi = self.faults.note(text::decimal(hi, 65535, "the upper port"));
        let (Some(lo), Some(hi)) = (lo, hi) else { return Some(None) };
        if lo > hi {
            let message = format!("the range of {side} ports is empty");
            let fault = Fault::new(span, message, "the lower port first");
            self.faults.push(fault.help(format!("write {hi} : {lo}")));
            return Some(None);
        }
        Some(Some(PortRange { lo: lo as u16, hi: hi as u16 }))
    }

    /// Sets both addresses, and the EtherType where the schema has one.
    fn set_addresses(
        &mut self,
        matching: &mut Match,
        src: Prefix,
        dst: Prefix,
        line: &[u8],
    ) -> Option<()> {
        let schema = self.schema;
        if src.is_ipv6 != dst.is_ipv6 {
            let message = "one address is IPv4, the other IPv6";
            let fault = Fault::new(0..line.len(), message, "two addresses of one family");
            self.faults.push(fault);
            return None;
        }
        let fields = if src.is_ipv6 {
            [Field::Ipv6Src, Field::Ipv6Dst]
        } else {
            [Field::Ipv4Src, Field::Ipv4Dst]
        };
        if schema.field(fields[0]).is_none() {
            let family = if src.is_ipv6 { "IPv6" } else { "IPv4" };
            let message = format!("an {family} rule in a set of schema {}", schema.name);
            let fault = Fault::new(0..line.len(), message, "rules of the schema's family");
            let help = "read both families with the schema openflow12_ipv6, or split the file";
            self.faults.push(fault.help(help));
            return None;
        }
        matching.set_prefix(fields[0], src.value, src.len);
        matching.set_prefix(fields[1], dst.value, dst.len);
        if schema.field(Field::EthType).is_some() {
            matching.set_exact(Field::EthType, if src.is_ipv6 { ETH_IPV6 } else { ETH_IPV4 });
        }
        Some(())
    }
}

/// Cuts a line into tokens.
struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The next run of bytes without blanks; empty at the end. With `colons`, a colon is a token
    /// of its own.
    #[inline]
    fn token(&mut self, colons: bool) -> Token<'a> {
        let rest = &self.line[self.at..];
        let skip = rest.iter().position(|b| !is_space(*b)).unwrap_or(rest.len());
        let start = self.at + skip;
        let rest = &self.line[start..];
        let len = match rest.first() {
            Some(b':') if colons => 1,
            _ => {
                let ends = |b: &u8| is_space(*b) || colons && *b == b':';
                rest.iter().position(ends).unwrap_or(rest.len())
            }
        };
        self.at = start + len;
        Token::new(self.line, start..self.at)
    }
}

fn set_ports(matching: &mut Match, field: Field, range: PortRange) {
    if range != PortRange::ANY {
        matching.set_range(field, range.lo, range.hi);
    }
}

/// `address/length` of either family.
#[inline]
fn prefix(token: Token<'_>) -> Parsed<Prefix> {
    let Some((address, len)) = token.split_at_byte(b'/') else {
        let message = match token.bytes {
            [] => "an address is missing",
            _ => "the prefix length is missing",
        };
        return Err(Fault::new(token.span(), message, "ADDRESS/LENGTH, as 10.0.0.0/8"));
    };
    if address.bytes.contains(&b':') {
        let value = text::ipv6(address)?;
        let len = text::decimal(len, 128, "the prefix length")? as usize;
        Ok(Prefix { value, len, is_ipv6: true })
    } else {
        let value = text::ipv4(address)?.into();
        let len = text::decimal(len, 32, "the prefix length")? as usize;
        Ok(Prefix { value, len, is_ipv6: false })
    }
}

/// `value/mask`, numbers as C writes them.
#[inline]
fn masked(token: Token<'_>, max: u32, what: &'static str) -> Parsed<(u32, u32)> {
    let Some((value, mask)) = token.split_at_byte(b'/') else {
        let message = match token.bytes {
            [] => format!("{what} is missing"),
            _ => format!("missing mask of {what}"),
        };
        let example =
            if max == 0xff { "VALUE/MASK, as 0x06/0xFF" } else { "VALUE/MASK, as 0x0000/0x0200" };
        return Err(Fault::new(token.span(), message, example));
    };
    let value = text::number(value, max.into(), what)? as u32;
    let mask = text::number(mask, max.into(), "the mask")? as u32;
    Ok((value, mask))
}

/// Value and mask of the twelve flag bits that a column demands.
fn flags_match(column: FlagsColumn, token: Token<'_>) -> Parsed<(u16, u16)> {
    let (value, mask) = (column.value.swap_bytes(), column.mask.swap_bytes());
    if mask & !FLAG_BITS != 0 {
        let message = "the flags column requires bits that are not TCP flags";
        let expected = "a mask within 0xff0f";
        let help = "its low byte's upper half is the TCP data offset, which no flow key holds";
        return Err(Fault::new(token.span(), message, expected).help(help));
    }
    Ok((value & mask, mask))
}

/// Why a rule cannot be a ClassBench line; `None` if it can.
pub(super) fn why_inexpressible(ruleset: &Ruleset, id: RuleId) -> Option<String> {
    let (schema, matching) = (ruleset.schema(), ruleset.matching(id));
    let Some([src, dst]) = address_fields(schema, &matching) else {
        return Some("its EtherType is neither exactly IPv4 nor exactly IPv6".to_owned());
    };
    if schema.field(Field::EthType).is_some() && has_icmp_ports(schema, matching) {
        return Some("type or code of ICMP are matched, which filters do not have".to_owned());
    }
    for spec in schema.fields {
        let kind = matching.kind(schema, spec.field);
        let alias = |mine: Field| {
            let mine = schema.field(mine).expect("the schema's own address field");
            let end = mine.bit_offset + mine.bits;
            mine.bit_offset <= spec.bit_offset && spec.bit_offset + spec.bits <= end
        };
        match (spec.field, kind) {
            (_, MatchKind::Any) => {}
            (field, MatchKind::Mask(..)) if field == src || field == dst => {
                return Some(format!("{} is matched under a mask that is no prefix", spec.name));
            }
            (Field::L4Src | Field::L4Dst, MatchKind::Mask(..)) => {
                return Some(format!("{} is matched under a mask, not as a range", spec.name));
            }
            (Field::L4Src | Field::L4Dst | Field::IpProto | Field::TcpFlags, _) => {}
            (Field::EthType, _) => {}
            (field, _) if field == src || field == dst => {}
            // IPv4 addresses are a view of IPv6 ones where a schema has both.
            (Field::Ipv4Src, _) if alias(src) => {}
            (Field::Ipv4Dst, _) if alias(dst) => {}
            (Field::Ipv6Src | Field::Ipv6Dst, _) if ipv6_is_ipv4(schema, &matching, src) => {}
            _ => return Some(format!("{} is matched, which filters do not have", spec.name)),
        }
    }
    None
}

/// Whether an IPv4 rule of a schema with both families examines IPv4 bits alone.
fn ipv6_is_ipv4(schema: &Schema, matching: &MatchRef<'_>, src: Field) -> bool {
    let upper = |field| {
        let spec = schema.field(field).expect("a schema with both families");
        spec.read(matching.mask) >> 32 == 0
    };
    src == Field::Ipv4Src && upper(Field::Ipv6Src) && upper(Field::Ipv6Dst)
}

/// The address fields that hold the rule's family.
fn address_fields(schema: &Schema, matching: &MatchRef<'_>) -> Option<[Field; 2]> {
    let (v4, v6) = ([Field::Ipv4Src, Field::Ipv4Dst], [Field::Ipv6Src, Field::Ipv6Dst]);
    let family = match schema.field(Field::EthType) {
        None if schema.field(Field::Ipv6Src).is_some() => v6,
        None => v4,
        Some(_) => match matching.kind(schema, Field::EthType) {
            MatchKind::Exact(ETH_IPV4) => v4,
            MatchKind::Exact(ETH_IPV6) => v6,
            _ => return None,
        },
    };
    schema.field(family[0]).map(|_| family)
}

/// Writes rules that [`why_inexpressible`] has nothing against, the winner of all first.
pub(super) fn write(ruleset: &Ruleset, out: &mut dyn Write) -> io::Result<WriteReport> {
    let mut report = WriteReport { lines: ruleset.len(), ..WriteReport::default() };
    let ids = ruleset.ids_by_precedence();
    report.reordered = ids.iter().zip(ruleset.ids()).any(|(a, b)| *a != b);
    for &id in &ids {
        report.actions_lost += usize::from(*ruleset.action(id) != Action::Pass);
        write_rule(ruleset, id, out)?;
    }
    Ok(report)
}

fn write_rule(ruleset: &Ruleset, id: RuleId, out: &mut dyn Write) -> io::Result<()> {
    let (schema, matching) = (ruleset.schema(), ruleset.matching(id));
    let fields = address_fields(schema, &matching).expect("checked before writing");
    out.write_all(b"@")?;
    for field in fields {
        let spec = schema.field(field).expect("checked before writing");
        let (value, len) = (spec.read(matching.value), spec.read(matching.mask).count_ones());
        match spec.bits {
            32 => write!(out, "{}/{len}\t", Ipv4Addr::from_bits(value as u32))?,
            _ => write!(out, "{}/{len}\t", Ipv6Addr::from_bits(value))?,
        }
    }
    let [src, dst] = matching.ranges;
    write!(out, "{} : {}\t{} : {}\t", src.lo, src.hi, dst.lo, dst.hi)?;
    let proto = schema.field(Field::IpProto).expect("every schema has it");
    write!(out, "{:#04x}/", proto.read(matching.value))?;
    match proto.read(matching.mask) {
        0xff => write!(out, "0xFF")?,
        mask => write!(out, "{mask:#04x}")?,
    }
    match flags_column(ruleset, id) {
        Some(column) => writeln!(out, "\t{:#06x}/{:#06x}", column.value, column.mask),
        None => writeln!(out),
    }
}

/// The column to write: as it was read, unless the rule matches other flags.
fn flags_column(ruleset: &Ruleset, id: RuleId) -> Option<FlagsColumn> {
    let (schema, matching) = (ruleset.schema(), ruleset.matching(id));
    let spec = schema.field(Field::TcpFlags).expect("every schema has it");
    let (value, mask) = (spec.read(matching.value) as u16, spec.read(matching.mask) as u16);
    let kept = ruleset.flags_column(id);
    if mask == 0 {
        return kept;
    }
    let means = |c: &FlagsColumn| {
        let (v, m) = (c.value.swap_bytes(), c.mask.swap_bytes());
        (v & m, m) == (value, mask)
    };
    let derived = FlagsColumn { value: value.swap_bytes(), mask: mask.swap_bytes() };
    Some(kept.filter(means).unwrap_or(derived))
}

#[cfg(test)]
mod tests {
    use super::super::{
        RulesFormat, TraceFormat, TraceReader, WriteError, read_rules, write_rules,
        write_rules_report,
    };
    use super::*;
    use crate::schema::{IPV4_5TUPLE, IPV6_5TUPLE, OPENFLOW12, OPENFLOW12_IPV6};

    fn parse(text: &str) -> Ruleset {
        read_rules("f", text, &ReadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
    }

    fn with_flags() -> ReadOptions {
        ReadOptions { tcp_flags: true, ..ReadOptions::default() }
    }

    fn written(ruleset: &Ruleset) -> String {
        let mut out = Vec::new();
        write_rules(ruleset, RulesFormat::ClassBench, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_filter_demands_its_columns() {
        let line = "@10.1.2.3/8\t1.2.3.4/32\t0 : 65535\t80 : 90\t0x06/0xFF\t0x0200/0x1200\n";
        let rules = parse(line);
        let mut expected = Match::any(&IPV4_5TUPLE);
        expected.set_prefix(Field::Ipv4Src, 0x0a00_0000, 8);
        expected.set_exact(Field::Ipv4Dst, 0x0102_0304);
        expected.set_range(Field::L4Dst, 80, 90).set_exact(Field::IpProto, 6);
        let rule = rules.to_rule(RuleId(0));
        assert_eq!(rule.matching, expected);
        assert_eq!((rule.priority, rule.line, rule.action), (0, 1, Action::Pass));
        assert_eq!(rule.flags_column, Some(FlagsColumn { value: 0x0200, mask: 0x1200 }));
        // In an ICMP rule it is type and code, and no demand on TCP flags.
        let icmp = line.replace("0x06/0xFF\t0x0200/0x1200", "0x01/0xFF\t0x0303/0xffff");
        let rule = read_rules("f", &icmp, &with_flags()).unwrap().to_rule(RuleId(0));
        assert_eq!(rule.matching.as_ref().kind(&IPV4_5TUPLE, Field::TcpFlags), MatchKind::Any);
        assert_eq!(rule.flags_column, Some(FlagsColumn { value: 0x0303, mask: 0xffff }));
        // The column's bytes are swapped: SYN without ACK.
        expected.set_mask(Field::TcpFlags, 0x002, 0x012);
        let rules = read_rules("f", line, &with_flags()).unwrap();
        assert_eq!(rules.to_rule(RuleId(0)).matching, expected);
    }

    #[test]
    fn blanks_comments_and_line_ends_do_not_matter() {
        let plain = parse("@1.0.0.0/8 2.0.0.0/8 1 : 2 3 : 4 0x11/0xFF\n");
        let odd = parse("\u{feff}# set\r\n\r\n  @1.0.0.0/8\t2.0.0.0/8 1:2 3 :4\t17/255 \t");
        assert_eq!(plain.to_rule(RuleId(0)).matching, odd.to_rule(RuleId(0)).matching);
        assert_eq!(odd.line(RuleId(0)), 3);
        assert_eq!(odd.flags_column(RuleId(0)), None);
        assert!(parse("").is_empty() && parse("\n#\n").is_empty());
    }

    #[test]
    fn families_choose_the_schema() {
        let v4 = "@1.0.0.0/8 2.0.0.0/8 1 : 2 3 : 4 0x11/0xFF\n";
        let v6 = "@2001:db8::/32 ::/0 0 : 65535 443 : 443 0x06/0xFF 0x0000/0x0000\n";
        assert_eq!(parse(v4).schema(), &IPV4_5TUPLE);
        assert_eq!(parse(v6).schema(), &IPV6_5TUPLE);
        let both = format!("{v4}{v6}");
        let error = read_rules("f", &both, &ReadOptions::default()).unwrap_err();
        assert_eq!((error.len(), error.iter().next().unwrap().line), (1, 2));
        let schema = Some(&OPENFLOW12_IPV6);
        let options = ReadOptions { schema, ..ReadOptions::default() };
        let rules = read_rules("f", &both, &options).unwrap();
        let eth_type = |id| rules.matching(RuleId(id)).kind(rules.schema(), Field::EthType);
        assert_eq!(eth_type(0), MatchKind::Exact(0x0800));
        assert_eq!(eth_type(1), MatchKind::Exact(0x86dd));
        assert_eq!(written(&rules), both.replace(' ', "\t").replace("\t:\t", " : "));
    }

    #[test]
    fn every_error_of_a_file_is_reported_at_its_place() {
        let check = |line: &str, expected: &[(u32, &str)]| {
            let text = format!("@0.0.0.0/0 0.0.0.0/0 0 : 1 0 : 1 0x00/0x00\n{line}\n@");
            let errors = read_rules("f", &text, &with_flags()).unwrap_err();
            let second = errors.iter().filter(|d| d.line == 2);
            let places: Vec<_> = second.map(|d| (d.column, d.text.as_str())).collect();
            assert_eq!(places, expected, "{errors}");
            assert!(errors.iter().any(|d| d.line == 3), "{errors}");
        };
        let good = "@1.2.3.4/32 1.2.3.4/32 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000";
        check(&good[1..], &[(1, "1")]);
        check(&good.replace("4/32 1", "4/33 1"), &[(10, "33")]);
        check(&good.replace("/32 1.2.3.4", "/32 1.2.3"), &[(13, "1.2.3")]);
        check(&good.replace("80 : 80", "90 : 80"), &[(34, "90 : 80")]);
        check(&good.replace("80 : 80", "80 - 80"), &[(37, "-")]);
        check(&good.replace("65535", "65536"), &[(28, "65536")]);
        check(&good.replace("0x06/", "0x106/"), &[(42, "0x106")]);
        check(&good.replace("0x0000/0x0000", "0x0000/0x0010"), &[(52, "0x0000/0x0010")]);
        check(&format!("{good} 7 8"), &[(66, "7 8")]);
        check("@1.2.3.4/x ö/8 1 : y 0 : 0 6/9", &[(10, "x"), (12, "ö"), (20, "y")]);
        check("@1.2.3.4/1 1.2.3.4/1 1 : 1 0 : 0", &[(33, "")]);
    }

    #[test]
    fn what_was_written_reads_back_equal() {
        let text = "@1.2.3.4/32\t2.0.0.0/7\t0 : 65535\t7 : 8\t0x06/0xFF\t0x0000/0x0200\n\
                    @0.0.0.0/0\t0.0.0.0/0\t80 : 80\t1024 : 65535\t0x00/0x00\n";
        assert_eq!(written(&parse(text)), text);
        let flags = read_rules("f", text, &with_flags()).unwrap();
        assert_eq!(written(&flags), text);
    }

    #[test]
    fn rules_that_are_no_filters_are_refused_before_a_byte_is_written() {
        let check = |schema: &'static Schema, why: Option<&str>, set: &dyn Fn(&mut Match)| {
            let mut matching = Match::any(schema);
            set(&mut matching);
            let mut rules = RulesetBuilder::new(schema);
            rules.push(Rule::new(matching, Action::Pass));
            let mut out = Vec::new();
            match (write_rules(&rules.build(), RulesFormat::ClassBench, &mut out), why) {
                (Ok(()), None) => assert!(!out.is_empty()),
                (Err(error @ WriteError::Rules(_)), Some(why)) => {
                    assert!(error.to_string().contains(why), "{error}");
                    assert!(out.is_empty());
                }
                (result, why) => panic!("{result:?} instead of {why:?}"),
            }
        };
        check(&IPV4_5TUPLE, None, &|_| ());
        check(&IPV4_5TUPLE, Some("no prefix"), &|m| _ = m.set_mask(Field::Ipv4Src, 1, 1));
        check(&IPV4_5TUPLE, Some("as a range"), &|m| _ = m.set_mask(Field::L4Src, 1, 1));
        check(&OPENFLOW12, Some("EtherType"), &|_| ());
        check(&OPENFLOW12, None, &|m| _ = m.set_exact(Field::EthType, ETH_IPV4));
        check(&OPENFLOW12, Some("in_port"), &|m| {
            m.set_exact(Field::EthType, ETH_IPV4).set_exact(Field::InPort, 1);
        });
        check(&OPENFLOW12_IPV6, None, &|m| {
            m.set_exact(Field::EthType, ETH_IPV4).set_exact(Field::Ipv4Src, 1);
        });
        check(&OPENFLOW12_IPV6, None, &|m| {
            m.set_exact(Field::EthType, ETH_IPV6).set_exact(Field::Ipv6Src, 1);
        });
    }

    #[test]
    fn priorities_become_an_order() {
        let mut rules = RulesetBuilder::new(&IPV4_5TUPLE);
        for (priority, proto) in [(1, 1), (5, 2), (5, 3)] {
            let mut rule = Rule::new(Match::any(&IPV4_5TUPLE), Action::Drop);
            rule.matching.set_exact(Field::IpProto, proto);
            rule.priority = priority;
            rules.push(rule);
        }
        let mut out = Vec::new();
        let report = write_rules_report(&rules.build(), RulesFormat::ClassBench, &mut out).unwrap();
        assert!(report.reordered && report.actions_lost == 3);
        let text = String::from_utf8(out).unwrap();
        let protos: Vec<&str> = text.lines().map(|l| l.split('\t').nth(4).unwrap()).collect();
        assert_eq!(protos, ["0x02/0xFF", "0x03/0xFF", "0x01/0xFF"]);
    }

    /// In a 5-tuple ICMP has zeros as ports, in the OpenFlow schemas its type and code: a rule that
    /// says ports says another thing there.
    #[test]
    fn ports_of_icmp_are_those_of_5_tuples() {
        let line = |ports: &str, proto: &str| format!("@10.0.0.0/8 0.0.0.0/0 {ports} {proto}\n");
        let of = |schema, line: &str| {
            read_rules("f", line, &ReadOptions { schema: Some(schema), ..Default::default() })
        };
        let web = line("0 : 65535 80 : 80", "0x01/0xFF");
        let errors = of(&OPENFLOW12, &web).unwrap_err().to_string();
        assert!(errors.contains("zeros as ports in 5-tuples"), "{errors}");
        assert!(of(&OPENFLOW12_IPV6, &web).is_err());
        for line in [line("0 : 65535 0 : 65535", "0x01/0xFF"), line("0 : 1 80 : 80", "0x00/0x00")] {
            assert!(of(&OPENFLOW12, &line).is_ok(), "{line}");
        }
        // As keys say it, and as frames have it.
        let rules = of(&IPV4_5TUPLE, &web).unwrap();
        let found = |port: u16| {
            let mut key = crate::KeyBuf::new(&IPV4_5TUPLE);
            let text = format!("{}\t1\t0\t{port}\t1\t0\t0\n", 0x0a00_0001);
            let (text, format) = (text.as_bytes(), Some(TraceFormat::ClassBench));
            let mut trace = TraceReader::new("t", text, &IPV4_5TUPLE, format);
            assert_eq!(trace.read_batch(&mut key, 9).unwrap(), 1);
            crate::linear::lookup(&rules, key.as_batch().key(0))
        };
        assert_eq!((found(80), found(0)), (RuleId(0), RuleId::NONE));
        let flows = "icmp,icmp_type=8 actions=NORMAL\n";
        let rules = read_rules("f", flows, &ReadOptions::default()).unwrap();
        let refused = write_rules(&rules, RulesFormat::ClassBench, &mut Vec::new()).unwrap_err();
        assert!(refused.to_string().contains("type or code of ICMP"), "{refused}");
    }
}
