//! Flows and changes of flows as `ovs-ofctl dump-flows --no-stats` prints them.

use std::fmt::Write as _;

use super::flow::command_word;
use super::{action_text, match_text, values};
use crate::openflow::{Flow, FlowCommand, FlowFlags, FlowMod, port};

pub(super) fn flow(flow: &Flow) -> String {
    let mut out = String::new();
    if flow.cookie != 0 {
        property(&mut out, format_args!("cookie={:#x}", flow.cookie));
    }
    if flow.table != 0 {
        property(&mut out, format_args!("table={}", flow.table));
    }
    rest(flow, &mut out);
    write!(out, "actions={}", action_text::instructions(&flow.instructions))
        .expect("a String takes every write");
    out
}

/// Appends time-outs, flags and match, each with what separates it from the next.
fn rest(flow: &Flow, out: &mut String) {
    for (name, value) in [("idle_timeout", flow.idle_timeout), ("hard_timeout", flow.hard_timeout)]
    {
        if value != 0 {
            property(out, format_args!("{name}={value}"));
        }
    }
    for (is_set, word) in flag_words(flow.flags) {
        if is_set {
            out.push_str(word);
            out.push(' ');
        }
    }
    if flow.importance != 0 {
        property(out, format_args!("importance={}", flow.importance));
    }
    let matching = match_text::text(flow.priority, &flow.matching);
    if !matching.is_empty() {
        out.push_str(&matching);
        out.push(' ');
    }
}

fn flag_words(flags: FlowFlags) -> [(bool, &'static str); 5] {
    [
        (flags.send_flow_removed, "send_flow_rem"),
        (flags.check_overlap, "check_overlap"),
        (flags.reset_counts, "reset_counts"),
        (flags.no_packet_counts, "no_packet_counts"),
        (flags.no_byte_counts, "no_byte_counts"),
    ]
}

fn property(out: &mut String, text: std::fmt::Arguments<'_>) {
    write!(out, "{text}, ").expect("a String takes every write");
}

/// A line of a file of changes.
pub(super) fn change(change: &FlowMod) -> String {
    let FlowMod { command, flow, cookie_mask, out_port, out_group } = change;
    let mut out = format!("{} ", command_word(*command));
    let deletes = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    if *cookie_mask != 0 && *command != FlowCommand::Add {
        property(&mut out, format_args!("cookie={:#x}/{cookie_mask:#x}", flow.cookie));
    } else if flow.cookie != 0 && !deletes {
        property(&mut out, format_args!("cookie={:#x}", flow.cookie));
    }
    let any_table = if *command == FlowCommand::Add { 0 } else { port::TABLE_ALL };
    if flow.table != any_table {
        property(&mut out, format_args!("table={}", flow.table));
    }
    if *out_port != port::ANY {
        property(&mut out, format_args!("out_port={}", values::port_text(*out_port)));
    }
    if *out_group != port::GROUP_ANY {
        property(&mut out, format_args!("out_group={out_group}"));
    }
    rest(flow, &mut out);
    if !deletes {
        write!(out, "actions={}", action_text::instructions(&flow.instructions))
            .expect("a String takes every write");
    }
    out.truncate(out.trim_end_matches([' ', ',']).len());
    out
}
