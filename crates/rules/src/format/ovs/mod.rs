//! `ovs-ofctl` flow text: the twelve fields of OpenFlow 1.0, IPv6 addresses and TCP flags.
//!
//! ```text
//! priority=100,tcp,nw_src=10.0.0.0/8,tp_dst=0x50/0xfff0,tcp_flags=+syn-ack actions=output:3
//! cookie=0x0, duration=7.5s, table=0, n_packets=2, n_bytes=120, in_port=1 actions=NORMAL
//! ```
//! One flow a line: items between commas or blanks, `actions=` last. The priority is 32768 where
//! none is given. The layout of `dump-flows` is read too; its header line, empty lines and what
//! stands behind a `#` are skipped. A line may start with `add`.
//!
//! # What is read
//! - Every name in the table of `fields.rs` and the protocol words there, with values as
//!   `ovs-ofctl` takes them: `*` for any, a leading zero for octal, masks where it allows them. A
//!   name that comes twice counts as it was given last.
//! - `table=0` alone (and 255, which says "any"): a rule set is one table.
//! - Read over, as they say nothing about which packets match: `cookie`, the timeouts (a rule here
//!   never expires), `importance`, the flags such as `send_flow_rem`, and all statistics.
//! - Actions: `drop`, `NORMAL` and `pass` (the same: [`Action::Pass`]), `output:PORT`, a load of
//!   the whole packet mark alone or before `NORMAL` ([`Action::Mark`], also `mark:N`). Every other
//!   list of known actions is kept as text ([`Action::List`]).
//!
//! # Where this is stricter than `ovs-ofctl`
//! It drops a demand whose protocol is missing (`tp_dst=80` without `tcp`), cuts values that are
//! too large (`dl_vlan=4096`), and reads a VLAN match that no frame meets as another one. Each of
//! these changes silently which packets match, so each is an error here. The same holds for the
//! transport fields of another protocol than the flow's, as `udp,tcp_dst=80`.
//!
//! # Schemas
//! `openflow12`, or `openflow12_ipv6` as soon as a flow demands IPv6. A 5-tuple schema can be asked
//! for: every flow must then be of its family, or of none, and demand no field that it lacks.
//! Ports have the 32-bit numbers of OpenFlow 1.1 and later: `LOCAL` is 4294967294.
//!
//! # Why no parser library
//! The text is a flat list of items. What is hard lies in the values and in reporting all errors
//! of a line with their places, which a grammar does not help with.

use std::io::{self, Write};

use super::text::{Faults, Reporter, Token, is_blank_or_comment, lines};
use super::{ReadOptions, WriteError, WriteReport};
use crate::diagnostic::Diagnostics;
use crate::matching::Match;
use crate::rule::{Action, Rule, RuleId};
use crate::ruleset::{Ruleset, RulesetBuilder};
use crate::schema::{OPENFLOW12, OPENFLOW12_IPV6, Schema};

mod actions;
mod fields;
mod flow;
mod lower;
#[cfg(test)]
mod tests;
mod values;
mod write;

/// The priority of a flow that names none.
pub const PRIORITY_DEFAULT: u32 = 32768;

/// Reads flow text.
pub(super) fn read(file: &str, text: &str, options: &ReadOptions) -> Result<Ruleset, Diagnostics> {
    match options.schema {
        Some(schema) => Ok(read_as(file, text, schema, false)?.0),
        // A set seldom has IPv6 flows late and not early: reading twice costs little on average,
        // and keeping every flow until the schema is known would cost memory always.
        None => match read_as(file, text, &OPENFLOW12, true)? {
            (ruleset, false) => Ok(ruleset),
            (_, true) => Ok(read_as(file, text, &OPENFLOW12_IPV6, false)?.0),
        },
    }
}

/// Reads flow text as rules of `schema`. With `skips_ipv6`, IPv6 flows are left out, and the second
/// value tells whether there are any.
fn read_as(
    file: &str,
    text: &str,
    schema: &'static Schema,
    skips_ipv6: bool,
) -> Result<(Ruleset, bool), Diagnostics> {
    let mut reporter = Reporter::new(file);
    let mut rules = RulesetBuilder::new(schema);
    let mut faults = Faults::default();
    let mut flow = flow::Flow::new();
    let mut needs_ipv6 = false;
    for (line_no, whole) in lines(text.as_bytes()) {
        let line = &whole[..memchr::memchr(b'#', whole).unwrap_or(whole.len())];
        if is_blank_or_comment(line) || is_dump_header(line) {
            continue;
        }
        if reporter.is_full(rules.len(), line_no, whole) {
            break;
        }
        flow.read(Token::new(line, 0..line.len()), flow::Kind::Rule, &mut faults);
        if skips_ipv6 && flow.is_ipv6() {
            needs_ipv6 = true;
        } else if let Some(matching) = lower::to_schema(&flow, schema, &mut faults) {
            let action = flow.action.take().unwrap_or(Action::Drop);
            let priority = flow.priority;
            let rule = Rule { priority, line: line_no, ..Rule::new(matching, action) };
            if faults.is_empty() {
                rules.push(rule);
            }
        }
        reporter.faults(line_no, whole, &mut faults);
    }
    reporter.diagnostics.into_result((rules.build(), needs_ipv6))
}

/// Whether a line is what `dump-flows` prints first.
fn is_dump_header(line: &[u8]) -> bool {
    let is_reply = |word: &[u8]| memchr::memmem::find(line, word).is_some();
    is_reply(b"ST_FLOW reply") && memchr::memchr(b'=', line).is_some()
}

/// What flow text without actions demands: for single packets.
pub(super) fn read_match(
    text: Token<'_>,
    schema: &'static Schema,
    faults: &mut Faults,
) -> Option<Match> {
    let mut flow = flow::Flow::new();
    flow.read(text, flow::Kind::Packet, faults);
    lower::to_schema(&flow, schema, faults)
}

/// TCP flags in any form that flow text has; `(value, mask)`.
pub(super) fn tcp_flags(token: Token<'_>) -> super::text::Parsed<(u16, u16)> {
    values::tcp_flags(token)
}

/// Why a rule cannot be flow text; `None` if it can.
pub(super) fn why_inexpressible(ruleset: &Ruleset, id: RuleId) -> Option<String> {
    write::why_inexpressible(ruleset, id)
}

/// Refuses a list that is longer than flow text has priorities.
pub(super) fn check_len(ruleset: &Ruleset) -> Result<(), WriteError> {
    write::check_len(ruleset)
}

/// Writes rules that [`why_inexpressible`] has nothing against.
pub(super) fn write(ruleset: &Ruleset, out: &mut dyn Write) -> io::Result<WriteReport> {
    write::write(ruleset, out)
}
