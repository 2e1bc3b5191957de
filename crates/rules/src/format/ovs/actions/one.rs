//! Single actions, by name.

use super::super::super::text::{self, Fault, Parsed, Token};
use super::super::item::{self, Item};
use super::super::{names, subfield, values};
use super::{Reader, number};
use crate::openflow::{FlowAction, port};

/// Actions of Open vSwitch that have no meaning here.
static UNSUPPORTED: [&str; 22] = [
    "learn",
    "ct",
    "ct_clear",
    "nat",
    "conjunction",
    "bundle",
    "bundle_load",
    "multipath",
    "sample",
    "clone",
    "fin_timeout",
    "check_pkt_larger",
    "delete_field",
    "encap",
    "decap",
    "dec_nsh_ttl",
    "debug_recirc",
    "debug_slow",
    "unroll_xlate",
    "output_trunc",
    "trunc",
    "mod_nw_label",
];

/// Actions that are read, beside the reserved ports.
static KNOWN: [&str; 48] = [
    "output",
    "enqueue",
    "controller",
    "group",
    "set_queue",
    "pop_queue",
    "push_vlan",
    "pop_vlan",
    "strip_vlan",
    "mod_vlan_vid",
    "set_vlan_vid",
    "mod_vlan_pcp",
    "set_vlan_pcp",
    "push_mpls",
    "pop_mpls",
    "set_mpls_label",
    "set_mpls_tc",
    "set_mpls_ttl",
    "dec_mpls_ttl",
    "push_pbb",
    "pop_pbb",
    "mod_dl_src",
    "mod_dl_dst",
    "mod_nw_src",
    "mod_nw_dst",
    "mod_nw_tos",
    "mod_nw_ecn",
    "mod_nw_ttl",
    "mod_tp_src",
    "mod_tp_dst",
    "dec_ttl",
    "copy_ttl_out",
    "copy_ttl_in",
    "set_tunnel",
    "set_tunnel64",
    "set_field",
    "load",
    "move",
    "push",
    "pop",
    "resubmit",
    "note",
    "exit",
    "drop",
    "goto_table",
    "write_actions",
    "write_metadata",
    "clear_actions",
];

const ACTIONS_EXPECTED: &str = "drop, NORMAL, output:PORT or another action of ovs-ofctl";

/// Reasons of packet-in messages, by number.
pub(in super::super) static REASONS: [&str; 6] =
    ["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out"];
/// The usual one of them.
pub(in super::super) const REASON_ACTION: u8 = 1;

impl Reader<'_> {
    /// Appends what the action does.
    pub(super) fn action(
        &mut self,
        action: &Item<'_>,
        name: &str,
        out: &mut Vec<FlowAction>,
    ) -> Parsed<()> {
        let plain = match name {
            "set_queue" => FlowAction::SetQueue(number(action, u32::MAX, "the queue")?),
            "group" => FlowAction::Group(number(action, port::GROUP_MAX, "the group")?),
            "pop_queue" => bare(action, FlowAction::PopQueue)?,
            "push_mpls" => FlowAction::PushMpls(ether_type(action, &[0x8847, 0x8848])?),
            "pop_mpls" => FlowAction::PopMpls(ether_type(action, &[])?),
            "push_pbb" => FlowAction::PushPbb(ether_type(action, &[0x88e7])?),
            "pop_pbb" => bare(action, FlowAction::PopPbb)?,
            "set_mpls_ttl" => FlowAction::SetMplsTtl(number(action, 255, "the TTL")? as u8),
            "dec_mpls_ttl" => bare(action, FlowAction::DecMplsTtl)?,
            "mod_nw_ttl" => FlowAction::SetNwTtl(number(action, 255, "the TTL")? as u8),
            "copy_ttl_out" => bare(action, FlowAction::CopyTtlOut)?,
            "copy_ttl_in" => bare(action, FlowAction::CopyTtlIn)?,
            "exit" => bare(action, FlowAction::Exit)?,
            "pass" => bare(action, FlowAction::Output { port: port::NORMAL, max_len: 0 })?,
            "dec_ttl" => dec_ttl(action)?,
            "push" => FlowAction::StackPush(subfield::read(action.required()?)?),
            "pop" => FlowAction::StackPop(settable(subfield::read(action.required()?)?, action)?),
            "move" => self.move_bits(action)?,
            "resubmit" => resubmit(action)?,
            "note" => note(action)?,
            "output" => self.output(action)?,
            "controller" => controller(action)?,
            "push_vlan" => {
                let push = FlowAction::PushVlan(ether_type(action, &[0x8100, 0x88a8])?);
                self.has_tag = true;
                push
            }
            "pop_vlan" | "strip_vlan" => {
                self.has_tag = false;
                bare(action, FlowAction::PopVlan)?
            }
            "enqueue" => return enqueue(action, out),
            _ if action.value.is_none() && is_port(action.name) => to_port(action.name)?,
            _ => return self.field_action(action, name, out),
        };
        out.push(plain);
        Ok(())
    }

    fn output(&self, action: &Item<'_>) -> Parsed<FlowAction> {
        let Some(argument) = action.value else {
            let span = action.name.span();
            return Err(Fault::new(span, "output without a port", "output:PORT"));
        };
        if memchr::memchr(b'=', argument.bytes).is_some() {
            let message = "unsupported truncation of packets";
            return Err(Fault::new(argument.span(), message, "output:PORT"));
        }
        let name = argument.text();
        let name = name.split('[').next().unwrap_or_default();
        if names::find(name).is_some() && !is_port(argument) {
            let source = subfield::read(argument)?;
            return Ok(FlowAction::OutputBits { source, max_len: port::NO_BUFFER });
        }
        to_port(argument)
    }
}

/// The fault of an action that is not read.
pub(super) fn unknown(name: Token<'_>, lower: &str) -> Box<Fault> {
    if UNSUPPORTED.contains(&lower) {
        let message = format!("unsupported action {lower}");
        return Fault::new(name.span(), message, "actions of OpenFlow 1.3, resubmit, move, load …");
    }
    let fault = Fault::new(name.span(), "unknown action", ACTIONS_EXPECTED);
    match names::closest(lower, KNOWN.iter().copied()) {
        Some(close) => fault.help(format!("is {close} meant?")),
        None => fault,
    }
}

/// An action that takes no argument.
fn bare(action: &Item<'_>, plain: FlowAction) -> Parsed<FlowAction> {
    match action.value.filter(|value| !value.bytes.is_empty()) {
        None => Ok(plain),
        Some(value) => {
            let message = format!("{} takes no argument", action.name.text());
            Err(Fault::new(value.span(), message, "the name alone"))
        }
    }
}

/// Bits that may be written.
pub(super) fn settable(
    bits: crate::openflow::Subfield,
    action: &Item<'_>,
) -> Parsed<crate::openflow::Subfield> {
    if bits.field.is_settable {
        return Ok(bits);
    }
    let message = format!("field {} is read-only", bits.field.name);
    Err(Fault::new(action.span(), message, "a field that can be set"))
}

/// Whether a token is a port and not another kind of argument.
fn is_port(token: Token<'_>) -> bool {
    let is_number = !token.bytes.is_empty() && token.bytes.iter().all(u8::is_ascii_digit);
    let name = token.text();
    is_number || values::RESERVED_PORTS.iter().any(|(n, _)| n.eq_ignore_ascii_case(&name))
}

fn to_port(token: Token<'_>) -> Parsed<FlowAction> {
    let port = values::port(token)?;
    let max_len = if port == port::CONTROLLER { port::NO_BUFFER } else { 0 };
    Ok(FlowAction::Output { port, max_len })
}

/// An EtherType, one of `allowed` unless that is empty.
fn ether_type(action: &Item<'_>, allowed: &[u16]) -> Parsed<u16> {
    let value = number(action, 0xffff, "the EtherType")? as u16;
    if allowed.is_empty() || allowed.contains(&value) {
        return Ok(value);
    }
    let expected: Vec<String> = allowed.iter().map(|value| format!("{value:#06x}")).collect();
    let message = format!("{} of EtherType {value:#06x}", action.name.text());
    Err(Fault::new(action.required()?.span(), message, expected.join(" or ")))
}

/// `dec_ttl`, also with the default controller as the one that gets expired packets.
fn dec_ttl(action: &Item<'_>) -> Parsed<FlowAction> {
    match action.value.map(item::trim).filter(|value| !matches!(value.bytes, b"" | b"0")) {
        None => Ok(FlowAction::DecNwTtl),
        Some(value) => {
            let message = "unsupported controllers of dec_ttl";
            Err(Fault::new(value.span(), message, "dec_ttl, which informs every controller"))
        }
    }
}

/// `enqueue:PORT:QUEUE` or `enqueue(PORT,QUEUE)`: a queue for this one output.
fn enqueue(action: &Item<'_>, out: &mut Vec<FlowAction>) -> Parsed<()> {
    let argument = action.required()?;
    let Some(at) = argument.bytes.iter().position(|b| matches!(b, b':' | b',')) else {
        return Err(Fault::new(argument.span(), "enqueue without a queue", "enqueue:PORT:QUEUE"));
    };
    let queue = item::trim(argument.part(at + 1..argument.bytes.len()));
    let output = to_port(item::trim(argument.part(0..at)))?;
    let queue = values::integer(queue, u32::MAX.into(), "the queue")? as u32;
    out.extend([FlowAction::SetQueue(queue), output, FlowAction::PopQueue]);
    Ok(())
}

/// `resubmit:PORT` or `resubmit([PORT],[TABLE])`.
fn resubmit(action: &Item<'_>) -> Parsed<FlowAction> {
    let argument = action.required()?;
    let mut parts = argument.bytes.split(|b| *b == b',');
    let mut at = 0;
    let mut next = || {
        let part = parts.next()?;
        let token = item::trim(argument.part(at..at + part.len()));
        at += part.len() + 1;
        Some(token)
    };
    let (port, table) = (next(), next());
    if let Some(more) = next() {
        let expected = "resubmit(PORT,TABLE)";
        return Err(Fault::new(more.span(), "unsupported argument of resubmit", expected));
    }
    let given = |token: &Token<'_>| !token.bytes.is_empty();
    let port = port.filter(given).map(values::port).transpose()?;
    let table = table.filter(given);
    let table = table.map(|table| values::integer(table, 255, "the table")).transpose()?;
    Ok(FlowAction::Resubmit {
        port: port.filter(|port| *port != port::IN_PORT),
        table: table.map(|table| table as u8).filter(|table| *table != port::TABLE_ALL),
    })
}

/// `note:00.01.02`; messages pad the bytes with zeros to 6, 14, 22 …, and so does this.
fn note(action: &Item<'_>) -> Parsed<FlowAction> {
    let argument = action.value.unwrap_or(Token { bytes: b"", start: action.name.span().end });
    let wrong = || {
        Fault::new(
            argument.span(),
            "invalid bytes of a note",
            "pairs of hexadecimal digits, as 00.0f",
        )
    };
    let digits: Vec<u8> = argument.bytes.iter().copied().filter(|b| *b != b'.').collect();
    let mut bytes = Vec::with_capacity(digits.len() / 2 + 8);
    for pair in digits.chunks(2) {
        let [high, low] = pair else { return Err(wrong()) };
        let digit = |byte: u8| (byte as char).to_digit(16).ok_or_else(wrong);
        bytes.push((digit(*high)? << 4 | digit(*low)?) as u8);
    }
    let padded = (bytes.len() + 2).next_multiple_of(8).max(8) - 2;
    bytes.resize(padded, 0);
    Ok(FlowAction::Note(bytes))
}

/// `controller`, `controller:BYTES`, `controller(reason=…,max_len=…,id=…)`.
fn controller(action: &Item<'_>) -> Parsed<FlowAction> {
    let output = |max_len| FlowAction::Output { port: port::CONTROLLER, max_len };
    let Some(argument) = action.value else { return Ok(output(port::NO_BUFFER)) };
    if !argument.bytes.is_empty() && argument.bytes.iter().all(u8::is_ascii_digit) {
        return text::decimal(argument, 0xffff, "the length").map(|len| output(len as u16));
    }
    let (mut max_len, mut id, mut reason) = (port::NO_BUFFER, 0, REASON_ACTION);
    for option in item::items(argument) {
        match option.name.bytes {
            b"max_len" => max_len = number(&option, 0xffff, "the length")? as u16,
            b"id" => id = number(&option, 0xffff, "the controller id")? as u16,
            b"reason" => {
                let value = option.required()?;
                let place = REASONS.iter().position(|r| r.as_bytes() == value.bytes);
                reason = match place {
                    Some(place) => place as u8,
                    None if value.bytes.iter().all(u8::is_ascii_digit) => {
                        number(&option, 255, "the reason")? as u8
                    }
                    None => {
                        let expected = REASONS.join(", ");
                        return Err(Fault::new(value.span(), "unknown reason", expected));
                    }
                };
            }
            _ => {
                let message = format!("unsupported option {} of controller", option.name.text());
                return Err(Fault::new(option.name.span(), message, "reason, max_len or id"));
            }
        }
    }
    Ok(match (id, reason) {
        (0, REASON_ACTION) => output(max_len),
        _ => FlowAction::Controller { max_len, id, reason },
    })
}
