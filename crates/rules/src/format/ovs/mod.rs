//! The text of `ovs-ofctl`: flows, changes of flows, groups, meters, and single packets.
//!
//! ```text
//! table=1,priority=100,tcp,nw_src=10.0.0.0/8,tp_dst=80,tcp_flags=+syn-ack actions=output:3
//! cookie=0x0, duration=7.5s, table=0, n_packets=2, n_bytes=120, in_port=1 actions=NORMAL
//! group_id=1,type=select,bucket=weight:2,actions=output:1,bucket=actions=output:2
//! meter=1,kbps,bands=type=drop,rate=1000
//! ```
//! One flow a line: items between commas or blanks, `actions=` last. The priority is 32768 where
//! none is given. The layout of `dump-flows` is read too; its header line, empty lines and what
//! stands behind a `#` are skipped.
//!
//! ```
//! use warpswitch_rules::format::ovs;
//!
//! let flow = ovs::parse_flow("table=1,tcp,tp_dst=0x50/0xfff0,actions=mod_nw_dst:10.0.0.1,2")?;
//! assert_eq!(flow.instructions.apply.len(), 2);
//! let text = "table=1, tcp,tp_dst=0x50/0xfff0 actions=set_field:10.0.0.1->ip_dst,output:2";
//! assert_eq!(ovs::flow_text(&flow), text);
//! # Ok::<(), warpswitch_rules::diagnostic::Diagnostics>(())
//! ```
//!
//! ```text
//! line ─► items ─► demands: FlowMatch ─┬─► Flow, FlowMod, FlowFilter    lower ─► Match, Action
//!              └─► actions: Instructions ┘                               raise ◄─ rules
//! ```
//! # What is read
//! - Every field of [`FIELDS`](crate::openflow::FIELDS) with the aliases of `ovs-ofctl`, and the
//!   protocol words, with values as `ovs-ofctl` takes them: `*` for any, a leading zero for octal,
//!   masks where it allows them. A name that comes twice counts as it was given last.
//! - All actions of [`FlowAction`] and the instructions. Forms of OpenFlow 1.0 become what
//!   `ovs-ofctl -O OpenFlow13` makes of them: `mod_nw_dst` is `set_field`, `mod_vlan_vid` pushes a
//!   tag if the packet has none. Actions without a counterpart here, such as `learn`, are errors.
//! - Our own words in the same style: `pass` is `NORMAL`, `mark:N` sets the packet mark, and
//!   `push_pbb`, `pop_pbb`, `copy_ttl_in` and `copy_ttl_out`, which Open vSwitch lacks.
//!
//! # What is written
//! The spelling and order of `ovs-ofctl -O OpenFlow13 dump-flows --no-stats`. Bits of a field that
//! are set by a mask are written as `load`, as there, if they are adjacent.
//!
//! # Where this is stricter than `ovs-ofctl`
//! It drops a demand whose protocol is missing (`tp_dst=80` without `tcp`), cuts values that are
//! too large (`dl_vlan=4096`), and reads a VLAN match that no frame meets as another one. Each of
//! these changes silently which packets match, so each is an error here. The same holds for the
//! transport fields of another protocol than the flow's, as `udp,tcp_dst=80`.
//!
//! # Rule sets
//! A rule set for classification is one table of flows, in the schema `openflow12`, or
//! `openflow12_ipv6` as soon as a flow demands IPv6. A 5-tuple schema can be asked for: every flow
//! must then be of its family, or of none, and demand no field that it lacks. Time-outs, cookies
//! and flags are dropped. Actions that [`Action`](crate::Action) does not know are kept as text.
//! Ports have the 32-bit numbers of OpenFlow 1.1 and later: `LOCAL` is 4294967294.
//!
//! # Why no parser library
//! The text is a flat list of items. What is hard lies in the values and in reporting all errors
//! of a line with their places, which a grammar does not help with.

use std::io::{self, Write};

use super::text::{Fault, Faults, Reporter, Token, is_blank_or_comment, lines};
use super::{ReadOptions, WriteError, WriteReport};
use crate::diagnostic::Diagnostics;
use crate::matching::Match;
use crate::openflow::{
    Flow, FlowAction, FlowFilter, FlowKey, FlowMatch, FlowMod, Group, GroupMod, Instructions,
    Meter, MeterMod, port,
};
use crate::rule::{Rule, RuleId};
use crate::ruleset::{Ruleset, RulesetBuilder};
use crate::schema::{OPENFLOW12, OPENFLOW12_IPV6, Schema};

mod action_text;
mod actions;
mod demands;
mod flow;
mod flow_text;
mod group;
mod item;
mod key_text;
mod lower;
mod match_text;
mod meter;
mod names;
mod raise;
mod subfield;
#[cfg(test)]
mod tests;
mod values;

use flow::{Line, Role};
pub(super) use lower::flow_field;

/// The most flows of one text, of about a kilobyte each.
const FLOWS_MAX: usize = 1 << 20;
const CLASSBENCH_RULE: &str = "a ClassBench rule in a list of flows";
const FLOWS_EXPECTED: &str = "flows in the text of ovs-ofctl";

/// Reads a file of flows, or the output of `dump-flows`.
///
/// # Errors
/// Every error of the text.
pub fn read_flows(file: &str, text: &str) -> Result<Vec<Flow>, Diagnostics> {
    read_lines(file, text, Role::Flow, |line| line.to_flow(0))
}

/// Reads a file of changes: flows, each behind `add`, `modify`, `modify_strict`, `delete`,
/// `delete_strict`, or alone to be added.
///
/// # Errors
/// Every error of the text.
pub fn read_changes(file: &str, text: &str) -> Result<Vec<FlowMod>, Diagnostics> {
    read_lines(file, text, Role::Change, Line::to_change)
}

/// Reads a file of changes of groups, one a line.
///
/// # Errors
/// Every error of the text.
pub fn read_groups(file: &str, text: &str) -> Result<Vec<GroupMod>, Diagnostics> {
    read_each(file, text, group::read)
}

/// Reads a file of changes of meters, one a line.
///
/// # Errors
/// Every error of the text.
pub fn read_meters(file: &str, text: &str) -> Result<Vec<MeterMod>, Diagnostics> {
    read_each(file, &join_bands(text), meter::read)
}

/// Bands that `dump-meters` prints on lines of their own, behind their meter; an empty line each
/// keeps the numbers of lines.
fn join_bands(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut taken = 0;
    for line in text.split('\n') {
        if taken > 0 && line.trim_start().starts_with("type=") {
            out.truncate(out.trim_end().len());
            if !out.ends_with("bands=") {
                out.push(',');
            }
            out.push_str(line.trim());
            taken += 1;
            continue;
        }
        (0..taken).for_each(|_| out.push('\n'));
        out.push_str(line);
        taken = 1;
    }
    out
}

fn read_each<T>(
    file: &str,
    text: &str,
    read: impl Fn(Token<'_>, &mut Faults) -> Option<T>,
) -> Result<Vec<T>, Diagnostics> {
    let mut reporter = Reporter::new(file);
    let mut faults = Faults::default();
    let mut values = Vec::new();
    for (line_no, whole) in lines(text.as_bytes()) {
        let Some(content) = content(whole) else { continue };
        if reporter.is_beyond(values.len(), FLOWS_MAX, line_no, whole) {
            break;
        }
        values.extend(read(content, &mut faults));
        reporter.faults(line_no, whole, &mut faults);
    }
    reporter.diagnostics.into_result(values)
}

fn read_lines<T>(
    file: &str,
    text: &str,
    role: Role,
    of: impl Fn(&Line) -> T,
) -> Result<Vec<T>, Diagnostics> {
    let mut reporter = Reporter::new(file);
    let mut faults = Faults::default();
    let mut line = Line::default();
    let mut flows = Vec::new();
    for (line_no, whole) in lines(text.as_bytes()) {
        let Some(content) = content(whole) else { continue };
        if reporter.is_beyond(flows.len(), FLOWS_MAX, line_no, whole) {
            break;
        }
        // In a file of another format each line has faults.
        if flows.is_empty() && content.bytes.starts_with(b"@") {
            let fault = Fault::new(content.span(), CLASSBENCH_RULE, FLOWS_EXPECTED);
            faults.push(fault.help("'warpswitch rules convert --to ovs FILE' writes flows"));
            reporter.faults(line_no, whole, &mut faults);
            break;
        }
        line.read(content, role, &mut faults);
        if faults.is_empty() {
            flows.push(of(&line));
        }
        reporter.faults(line_no, whole, &mut faults);
    }
    reporter.diagnostics.into_result(flows)
}

/// A line without its comment; `None` if nothing is left, or the header of a dump.
fn content(whole: &[u8]) -> Option<Token<'_>> {
    let line = &whole[..memchr::memchr(b'#', whole).unwrap_or(whole.len())];
    let is_content = !is_blank_or_comment(line) && !is_dump_header(line);
    is_content.then(|| Token::new(line, 0..line.len()))
}

/// Reads one text with `read`; `name` is what diagnostics call it.
fn parse<T>(
    name: &str,
    text: &str,
    read: impl FnOnce(Token<'_>, &mut Faults) -> T,
) -> Result<T, Diagnostics> {
    let mut reporter = Reporter::new(name);
    let mut faults = Faults::default();
    let line = text.as_bytes();
    let value = read(Token::new(line, 0..line.len()), &mut faults);
    reporter.faults(1, line, &mut faults);
    reporter.diagnostics.into_result(value)
}

fn parse_line<T>(
    name: &str,
    text: &str,
    role: Role,
    of: impl FnOnce(&Line) -> T,
) -> Result<T, Diagnostics> {
    parse(name, text, |token, faults| {
        let mut line = Line::default();
        line.read(token, role, faults);
        of(&line)
    })
}

/// Reads one flow.
///
/// # Errors
/// Every error of the text.
pub fn parse_flow(text: &str) -> Result<Flow, Diagnostics> {
    parse_line("flow", text, Role::Flow, |line| line.to_flow(0))
}

/// Reads one change of flows. In modifications and deletions without a table it is
/// [`port::TABLE_ALL`].
///
/// # Errors
/// Every error of the text.
pub fn parse_change(text: &str) -> Result<FlowMod, Diagnostics> {
    parse_line("flow", text, Role::Change, Line::to_change)
}

/// Reads which flows a request is about, as `dump-flows` takes it.
///
/// # Errors
/// Every error of the text.
pub fn parse_filter(text: &str) -> Result<FlowFilter, Diagnostics> {
    parse_line("filter", text, Role::Filter, |line| {
        let flow = line.to_flow(port::TABLE_ALL);
        FlowFilter {
            table: flow.table,
            matching: flow.matching,
            cookie: flow.cookie,
            cookie_mask: line.cookie_mask.unwrap_or(0),
            out_port: line.out_port,
            out_group: line.out_group,
        }
    })
}

/// Reads the text behind `actions=` of a flow that matches every packet.
///
/// # Errors
/// Every error of the text.
pub fn parse_instructions(text: &str) -> Result<Instructions, Diagnostics> {
    parse("actions", text, |token, faults| {
        actions::Reader::new(&FlowMatch::any(), faults).instructions(token).unwrap_or_default()
    })
}

/// Reads a list of actions, as `packet-out` takes it.
///
/// # Errors
/// Every error of the text.
pub fn parse_actions(text: &str) -> Result<Vec<FlowAction>, Diagnostics> {
    parse("actions", text, |token, faults| {
        actions::Reader::new(&FlowMatch::any(), faults).list(token)
    })
}

/// Reads one change of groups: a group behind `add`, `modify` or `delete`, or alone to be added.
///
/// # Errors
/// Every error of the text.
pub fn parse_group(text: &str) -> Result<GroupMod, Diagnostics> {
    let group = parse("group", text, group::read)?;
    Ok(group.expect("a text without faults has a group"))
}

/// Reads one change of meters: a meter behind `add`, `modify` or `delete`, or alone to be added.
///
/// # Errors
/// Every error of the text.
pub fn parse_meter(text: &str) -> Result<MeterMod, Diagnostics> {
    let meter = parse("meter", text, meter::read)?;
    Ok(meter.expect("a text without faults has a meter"))
}

/// Reads one packet as `ofproto/trace` takes it: a flow without masks and actions. Fields that the
/// text does not name are zero.
///
/// # Errors
/// Every error of the text.
pub fn parse_key(text: &str) -> Result<FlowKey, Diagnostics> {
    parse_line("packet", text, Role::Packet, |line| *line.demands.matching.value())
}

/// A flow as `dump-flows --no-stats` prints it.
pub fn flow_text(flow: &Flow) -> String {
    flow_text::flow(flow)
}

/// A change of flows as a line of a file of them.
pub fn change_text(change: &FlowMod) -> String {
    flow_text::change(change)
}

/// A match as `dump-flows` prints it.
pub fn match_text(matching: &FlowMatch) -> String {
    match_text::text(Flow::DEFAULT_PRIORITY, matching)
}

/// Instructions as `dump-flows` prints them behind `actions=`.
pub fn instructions_text(instructions: &Instructions) -> String {
    action_text::instructions(instructions)
}

/// A list of actions as `dump-flows` prints it.
pub fn actions_text(actions: &[FlowAction]) -> String {
    action_text::list(actions)
}

/// A group as `dump-groups` prints it.
pub fn group_text(group: &Group) -> String {
    group::text(group)
}

/// A meter as `add-meter` takes it.
pub fn meter_text(meter: &Meter) -> String {
    meter::text(meter)
}

/// A packet as `ofproto/trace` prints it: every field that packets of its protocol have, and
/// metadata that is not zero.
pub fn key_text(key: &FlowKey) -> String {
    key_text::text(key)
}

/// Reads flow text as a rule set.
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
    let mut line = Line::default();
    let mut needs_ipv6 = false;
    for (line_no, whole) in lines(text.as_bytes()) {
        let Some(content) = content(whole) else { continue };
        if reporter.is_full(rules.len(), line_no, whole) {
            break;
        }
        line.read(content, Role::Flow, &mut faults);
        lower::check_table(line.table.as_ref(), &mut faults);
        if skips_ipv6 && line.demands.is_ipv6() {
            needs_ipv6 = true;
        } else if let Some(matching) = lower::to_schema(&line.demands, schema, &mut faults)
            && faults.is_empty()
        {
            let action = lower::to_action(&line.instructions);
            let priority = line.priority.into();
            rules.push(Rule { priority, line: line_no, ..Rule::new(matching, action) });
        }
        reporter.faults(line_no, whole, &mut faults);
    }
    reporter.diagnostics.into_result((rules.build(), needs_ipv6))
}

/// Whether a line is what `dump-flows`, `dump-groups` or `dump-meters` prints first.
fn is_dump_header(line: &[u8]) -> bool {
    let replies: [&[u8]; 3] = [b"ST_FLOW reply", b"ST_GROUP_DESC reply", b"ST_METER_CONFIG reply"];
    let is_reply = replies.iter().any(|word| memchr::memmem::find(line, word).is_some());
    is_reply && memchr::memchr(b'=', line).is_some()
}

/// What flow text without actions demands: for single packets.
pub(super) fn read_match(
    text: Token<'_>,
    schema: &'static Schema,
    faults: &mut Faults,
) -> Option<Match> {
    let mut line = Line::default();
    line.read(text, Role::Packet, faults);
    lower::to_schema(&line.demands, schema, faults)
}

/// TCP flags in any form that flow text has; `(value, mask)`.
pub(super) fn tcp_flags(token: Token<'_>) -> super::text::Parsed<(u16, u16)> {
    values::tcp_flags(token)
}

/// Why a rule cannot be flow text; `None` if it can.
pub(super) fn why_inexpressible(ruleset: &Ruleset, id: RuleId) -> Option<String> {
    raise::why_inexpressible(ruleset, id)
}

/// Refuses a list that is longer than flow text has priorities.
pub(super) fn check_len(ruleset: &Ruleset) -> Result<(), WriteError> {
    raise::check_len(ruleset)
}

/// Writes rules that [`why_inexpressible`] has nothing against.
pub(super) fn write(ruleset: &Ruleset, out: &mut dyn Write) -> io::Result<WriteReport> {
    raise::write(ruleset, out)
}
