//! Text formats of rule sets, traces and single packets, read and written.
//!
//! | format | rules | traces | looks as |
//! | --- | --- | --- | --- |
//! | `classbench` | [filter sets](classbench) | [header lists](trace) | `@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF` |
//! | `ovs` | [flow text](ovs) | – | `priority=10,tcp,nw_dst=10.0.0.0/8 actions=drop` |
//! | `canonical` | [ours](canonical) | [ours](canonical) | `priority=10, ip_proto=6 -> drop` |
//!
//! ```
//! use warpswitch_rules::format::{self, ReadOptions, RulesFormat};
//!
//! let text = "priority=10,tcp,nw_dst=10.0.0.0/8,tp_dst=80 actions=drop\n";
//! let rules = format::read_rules("web.flows", text, &ReadOptions::default())?;
//! let mut out = Vec::new();
//! format::write_rules(&rules, RulesFormat::Canonical, &mut out)?;
//! assert_eq!(
//!     String::from_utf8(out)?,
//!     "schema openflow12\n\
//!      priority=10, eth_type=0x0800, ipv4_dst=10.0.0.0/8, l4_dst=80, ip_proto=6 -> drop\n"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The format of a text is recognised by its content. Only the canonical form expresses every rule
//! set; a writer of another form refuses rules that it cannot express before it has written a
//! byte, and reports what it had to change. Readers collect *every* error ([`Diagnostics`]).

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

use crate::diagnostic::{Diagnostic, Diagnostics, grouped, utf8_text};
use crate::rule::RuleId;
use crate::ruleset::Ruleset;
use crate::schema::{self, Schema};

pub mod canonical;
pub mod classbench;
mod other_schema;
pub mod ovs;
pub mod packet;
#[cfg(test)]
mod properties;
mod text;
pub mod trace;
mod value;

pub use canonical::{format_key, format_match};
pub use packet::{parse_flow_key, parse_packet};
pub use trace::{TraceFormat, TraceReader, write_trace};

/// A text form of rule sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RulesFormat {
    /// ClassBench filter sets: [`classbench`].
    ClassBench,
    /// `ovs-ofctl` flow text: [`ovs`].
    Ovs,
    /// Ours, which expresses every rule set: [`canonical`].
    Canonical,
}

impl RulesFormat {
    /// Every format, in the order in which commands list them.
    pub const ALL: [RulesFormat; 3] =
        [RulesFormat::ClassBench, RulesFormat::Ovs, RulesFormat::Canonical];

    /// The name that commands use.
    pub fn name(self) -> &'static str {
        match self {
            RulesFormat::ClassBench => "classbench",
            RulesFormat::Ovs => "ovs",
            RulesFormat::Canonical => "canonical",
        }
    }
}

impl fmt::Display for RulesFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RulesFormat {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|f| f.name() == name);
        found.ok_or_else(|| {
            format!("unknown rule format '{name}'; expected classbench, ovs or canonical")
        })
    }
}

/// How to read a rule set.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// The format; recognised by content if `None`.
    pub format: Option<RulesFormat>,
    /// The schema of the set; chosen by content if `None`.
    pub schema: Option<&'static Schema>,
    /// Whether ClassBench's flags column is matched and not merely kept.
    pub tcp_flags: bool,
}

/// What a writer had to change, all of it without effect on which rule wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteReport {
    /// Rule lines written.
    pub lines: usize,
    /// Rules that became more than one line, because the format has no port ranges.
    pub rules_split: usize,
    /// Rules whose action the format cannot hold.
    pub actions_lost: usize,
    /// Rules with a flags column that says something which is not written, as they do not match it.
    pub flags_columns_lost: usize,
    /// Whether the lines stand in another order than the rules.
    pub reordered: bool,
    /// Whether the rules got other priorities.
    pub renumbered: bool,
    /// Rules that share their priority with another one, in a format whose other readers leave
    /// the winner of such a tie open.
    pub ties: usize,
}

/// Why rules or keys were not written.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The output failed.
    Io(io::Error),
    /// The format cannot express some rules; nothing was written.
    Rules(Inexpressible),
    /// The format cannot express keys of that schema; nothing was written.
    Schema(&'static Schema),
    /// The format has a priority for each of `most` rules only, and the order of this list of
    /// `rules` would be lost; nothing was written.
    TooMany {
        /// The format.
        format: RulesFormat,
        /// Length of the list.
        rules: usize,
        /// The longest list that the format can hold.
        most: usize,
    },
}

/// Rules that a format cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inexpressible {
    /// The format.
    pub format: RulesFormat,
    /// The first such rules: id, source line (0 if none), and the reason.
    pub rules: Vec<(RuleId, u32, String)>,
    /// How many such rules there are.
    pub count: usize,
}

/// The most rules that an [`Inexpressible`] names.
const INEXPRESSIBLE_KEPT_MAX: usize = 10;

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Io(error) => error.fmt(f),
            WriteError::Schema(schema) => {
                write!(f, "the format cannot express keys of schema {}", schema.name)
            }
            WriteError::TooMany { format, rules, most } => write!(
                f,
                "the order of {} rules requires as many priorities, but {format} flows have {}; \
                 use fewer rules, or the format canonical",
                grouped(*rules),
                grouped(*most),
            ),
            WriteError::Rules(Inexpressible { format, rules, count }) => {
                let noun = if *count == 1 { "rule" } else { "rules" };
                write!(f, "the format {format} cannot express {count} {noun}:")?;
                for (id, line, why) in rules {
                    match line {
                        0 => write!(f, "\n  rule {id}: {why}")?,
                        _ => write!(f, "\n  rule {id} (line {line}): {why}")?,
                    }
                }
                match count - rules.len() {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Io(error)
    }
}

/// Reads a rule set; `name` is what diagnostics call the text.
///
/// A text without any rule is an empty set, of `options.schema` or else `ipv4_5tuple`.
///
/// # Errors
/// Every error of the text.
pub fn read_rules(name: &str, text: &str, options: &ReadOptions) -> Result<Ruleset, Diagnostics> {
    let told = || match detection_rule(text) {
        Some((line_no, line)) => Err(no_classification(name, line_no, line)),
        None => Ok(detect(text)),
    };
    let format = match options.format.map_or_else(told, |format| Ok(Some(format)))? {
        Some(format) => format,
        None => return no_format(name, text, options),
    };
    match format {
        RulesFormat::ClassBench => classbench::read(name, text, options),
        RulesFormat::Ovs => ovs::read(name, text, options),
        RulesFormat::Canonical => canonical::read(name, text, options),
    }
}

/// [`read_rules`] for bytes that may be no text at all.
///
/// # Errors
/// Every place that is not valid UTF-8, or else every error of the text.
pub fn read_rules_bytes(
    name: &str,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<Ruleset, Diagnostics> {
    read_rules(name, utf8_text(name, bytes)?, options)
}

/// The most bytes of a rule file, unpacked: ten million rules of the usual kind. A small packed
/// file can be one that no memory holds.
pub const RULES_BYTES_MAX: u64 = 1 << 30;

/// The whole content of a rule file, which may have so many bytes, [`RULES_BYTES_MAX`] usually.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] with the bound, and those of `input`.
pub fn read_bounded(input: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let most = match bytes_max >> 30 {
            0 => format!("{} bytes", grouped(bytes_max as usize)),
            gib => format!("{gib} GiB"),
        };
        let message = format!("it has more than {most}, unpacked, the most of a rule file");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// The most lines with content that [`detect`] looks at.
const DETECT_LINES_MAX: usize = 64;

/// The format of a text, told by its first lines: one bad line must not hide the format of a
/// file, so that its error is reported in the terms of that format.
pub fn detect(text: &str) -> Option<RulesFormat> {
    let content = text::lines(text.as_bytes()).filter(|(_, l)| !text::is_blank_or_comment(l));
    let mut may_be_flows = false;
    let told = content.take(DETECT_LINES_MAX).find_map(|(_, line)| {
        // The words that tell stand early or not at all in any line of sane length.
        let line = String::from_utf8_lossy(&line[..line.len().min(4096)]);
        let line = line.trim_start();
        may_be_flows |= begins_a_flow(line);
        if line.starts_with('@') {
            Some(RulesFormat::ClassBench)
        } else if line.starts_with("schema ") || line.contains(" -> ") {
            Some(RulesFormat::Canonical)
        } else if ["actions=", "action=", "_FLOW reply"].iter().any(|w| line.contains(w)) {
            Some(RulesFormat::Ovs)
        } else {
            None
        }
    });
    told.or(may_be_flows.then_some(RulesFormat::Ovs))
}

/// Whether a line begins as flows do that have forgotten their actions.
fn begins_a_flow(line: &str) -> bool {
    const KEYS: [&str; 4] = ["priority=", "table=", "cookie=", "in_port="];
    KEYS.iter().any(|key| line.starts_with(key))
}

/// Rules that a text of another kind was expected in the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulesIn {
    /// Rules of Snort or Suricata.
    Detection,
    /// Rules that are read here.
    Classification(RulesFormat),
}

impl fmt::Display for RulesIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RulesIn::Detection => "rules of intrusion detection",
            RulesIn::Classification(RulesFormat::ClassBench) => "ClassBench rules",
            RulesIn::Classification(RulesFormat::Ovs) => "flows of ovs-ofctl",
            RulesIn::Classification(RulesFormat::Canonical) => "canonical rules",
        })
    }
}

/// The rules that a text holds for sure, which was to be something else: told by its first line
/// with content, and stricter than [`detect`], for which nothing but rules may come.
pub fn rules_in(text: &str) -> Option<RulesIn> {
    if detection_rule(text).is_some() {
        return Some(RulesIn::Detection);
    }
    let mut content = text::lines(text.as_bytes()).filter(|(_, l)| !text::is_blank_or_comment(l));
    let (_, line) = content.next()?;
    let line = String::from_utf8_lossy(&line[..line.len().min(4096)]);
    let line = line.trim_start();
    let is_address = |c: char| c.is_ascii_hexdigit() || c == ':';
    let format = if line.strip_prefix('@').is_some_and(|rest| rest.starts_with(is_address)) {
        RulesFormat::ClassBench
    } else if line.starts_with("schema ") && line.split_ascii_whitespace().count() == 2 {
        RulesFormat::Canonical
    } else if ["actions=", "action="].iter().any(|word| line.contains(word)) {
        RulesFormat::Ovs
    } else {
        return None;
    };
    Some(RulesIn::Classification(format))
}

/// The first of the lines that [`detect`] looks at that is a rule of Snort or Suricata.
fn detection_rule(text: &str) -> Option<(u32, &[u8])> {
    const ACTIONS: [&str; 9] =
        ["alert", "drop", "pass", "log", "reject", "rejectsrc", "rejectdst", "rejectboth", "block"];
    let content = text::lines(text.as_bytes()).filter(|(_, l)| !text::is_blank_or_comment(l));
    content.take(DETECT_LINES_MAX).find(|(_, line)| {
        let line = String::from_utf8_lossy(&line[..line.len().min(4096)]);
        let mut words = line.split_ascii_whitespace();
        let has_action = words.next().is_some_and(|word| ACTIONS.contains(&word));
        let is_word = |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        has_action && words.next().is_some_and(is_word) && line.contains('(')
    })
}

fn no_classification(name: &str, line_no: u32, line: &[u8]) -> Diagnostics {
    let message = "unexpected intrusion detection rule; expected a classification rule";
    let action = line.iter().position(|&b| text::is_space(b)).unwrap_or(line.len());
    let diagnostic = Diagnostic::at(name, line_no, line, 0..action, message)
        .expected("a ClassBench filter (@...), a flow (... actions=...) or a canonical rule set")
        .help("use Snort and Suricata rules with 'warpswitch ids' or the element IDSMatcher");
    diagnostic.into()
}

/// The result for a text whose format cannot be told: no error if it is empty.
fn no_format(name: &str, text: &str, options: &ReadOptions) -> Result<Ruleset, Diagnostics> {
    let mut content = text::lines(text.as_bytes()).filter(|(_, l)| !text::is_blank_or_comment(l));
    match content.next() {
        None => Ok(Ruleset::empty(options.schema.unwrap_or(&schema::IPV4_5TUPLE))),
        Some((line_no, line)) => {
            let message = "unknown rule format";
            let diagnostic = Diagnostic::at(name, line_no, line, 0..line.len(), message)
                .expected(
                    "a ClassBench filter (@...), a flow (... actions=...) or a canonical rule set",
                )
                .help("if it is one of them, specify its format: classbench, ovs or canonical");
            Err(diagnostic.into())
        }
    }
}

/// Writes a rule set.
///
/// # Errors
/// As [`write_rules_report`].
pub fn write_rules(
    ruleset: &Ruleset,
    format: RulesFormat,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    write_rules_report(ruleset, format, out).map(|_| ())
}

/// Writes a rule set and tells what had to change.
///
/// # Errors
/// [`WriteError::Rules`] if the format cannot express some rule and [`WriteError::TooMany`] if
/// it cannot hold the order of so many: nothing is written then; [`WriteError::Io`] if the output
/// fails.
pub fn write_rules_report(
    ruleset: &Ruleset,
    format: RulesFormat,
    out: &mut dyn Write,
) -> Result<WriteReport, WriteError> {
    check_expressible(ruleset, format)?;
    if format == RulesFormat::Ovs {
        ovs::check_len(ruleset)?;
    }
    Ok(match format {
        RulesFormat::ClassBench => classbench::write(ruleset, out)?,
        RulesFormat::Ovs => ovs::write(ruleset, out)?,
        RulesFormat::Canonical => canonical::write(ruleset, out)?,
    })
}

/// Refuses rules that `format` cannot express.
fn check_expressible(ruleset: &Ruleset, format: RulesFormat) -> Result<(), WriteError> {
    let mut refused = Inexpressible { format, rules: Vec::new(), count: 0 };
    for id in ruleset.ids() {
        let why = match format {
            RulesFormat::ClassBench => classbench::why_inexpressible(ruleset, id),
            RulesFormat::Ovs => ovs::why_inexpressible(ruleset, id),
            RulesFormat::Canonical => None,
        };
        let Some(why) = why else { continue };
        refused.count += 1;
        if refused.rules.len() < INEXPRESSIBLE_KEPT_MAX {
            refused.rules.push((id, ruleset.line(id), why));
        }
    }
    if refused.count == 0 { Ok(()) } else { Err(WriteError::Rules(refused)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_as_a_flow_is_one_if_no_line_says_something_else() {
        for (text, expected) in [
            ("priority=20,udp\n", Some(RulesFormat::Ovs)),
            ("in_port=3\n@1.2.3.4/32 0.0.0.0/0 0 : 9 0 : 9 0/0\n", Some(RulesFormat::ClassBench)),
            ("priority=1, ip_proto=6\nip_proto=6 -> drop\n", Some(RulesFormat::Canonical)),
            ("ip_proto=6\n", None),
        ] {
            assert_eq!(detect(text), expected, "{text}");
        }
    }

    #[test]
    fn rules_of_detection_are_told_from_others() {
        let told = |text: &str| {
            let read = read_rules("r", text, &ReadOptions::default());
            read.err().map(|errors| errors.to_string()).unwrap_or_default()
        };
        for text in [
            "# by hand\n\nalert tcp any any -> any 80 (msg:\"x\"; sid:1;)\n",
            "\talert http ( content:\"x\"; sid:2; )\n",
            "drop dcerpc-stub any any <> any any (sid:3;)\n",
        ] {
            assert!(told(text).contains("warpswitch ids"), "{text}: {}", told(text));
        }
        for text in ["alert\n", "alert (x)\n", "ip_proto=6 -> drop\n", "tcp,actions=drop\n", "@"] {
            assert!(!told(text).contains("warpswitch ids"), "{text}: {}", told(text));
        }
        let named = ReadOptions { format: Some(RulesFormat::Ovs), ..Default::default() };
        let errors = read_rules("r", "alert tcp (sid:1;)\n", &named).expect_err("it is none");
        assert!(!errors.to_string().contains("warpswitch ids"), "{errors}");
    }

    #[test]
    fn a_file_has_so_many_bytes_and_no_more() {
        let text = &b"# 10 bytes"[..];
        assert_eq!(read_bounded(text, 10).unwrap(), text);
        let error = read_bounded(text, 9).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().starts_with("it has more than 9 bytes, unpacked"), "{error}");
        let error = read_bounded(io::repeat(b' ').take(1 << 31), 0).unwrap_err();
        assert!(error.to_string().starts_with("it has more than 0 bytes"), "{error}");
    }

    #[test]
    fn a_text_has_so_many_rules_and_no_more() {
        let check = |head: &str, line: &str| {
            let read =
                |rules| read_rules("r", &(head.to_owned() + &line.repeat(rules)), &default());
            assert_eq!(read(1 << 16).unwrap().len(), 1 << 16);
            let errors = read((1 << 16) + 9).unwrap_err();
            let place = errors.iter().next().map(|error| error.line as usize);
            assert_eq!((errors.len(), place), (1, Some(head.lines().count() + (1 << 16) + 1)));
            assert!(errors.to_string().contains("at most 65,536 rules"), "{errors}");
        };
        check("schema ipv4_5tuple\n", "->drop\n");
        check("", "actions=drop\n");
        check("", "@0.0.0.0/0 0.0.0.0/0 0:1 0:1 0/0\n");
    }

    fn default() -> ReadOptions {
        ReadOptions::default()
    }

    #[test]
    fn rules_are_told_from_configurations() {
        use RulesFormat::{Canonical, ClassBench, Ovs};
        let of = |format| Some(RulesIn::Classification(format));
        for (text, expected) in [
            ("# by hand\n\nalert tcp any any -> any 80 (sid:1;)\n", Some(RulesIn::Detection)),
            ("\n@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF\n", of(ClassBench)),
            ("@2001:db8::/32 ::/0\n", of(ClassBench)),
            ("# the web\npriority=9,tcp,tp_dst=80 actions=output:0\n", of(Ovs)),
            ("schema openflow12\n", of(Canonical)),
            ("schema :: Queue -> Discard;\n", None),
            ("a -> b;\npriority=9 actions=drop\n", None),
            ("@x :: Idle;\n", None),
            ("", None),
        ] {
            assert_eq!(rules_in(text), expected, "{text}");
        }
    }
}
