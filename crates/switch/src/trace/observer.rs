//! From what a packet meets to lines of a trace.

use std::collections::VecDeque;

use warpswitch_pipeline::{DEPTH_MAX, Egress, Observed, Output, WORK_MAX};
use warpswitch_rules::format::ovs;
use warpswitch_rules::openflow::{
    Flow, FlowAction, FlowKey, Instructions, PacketIn, Subfield, port,
};

use super::Traced;
use super::tree::{LineKind, Tree};
use crate::datapath::vlan_of;
use crate::learning::Forward;
use crate::tunnel::key_of;

/// An output that goes nowhere and keeps what is reported.
pub(super) struct Observer<'a> {
    traced: Traced<'a>,
    pub(super) tree: Tree,
    /// How many nodes were open when each list that is not finished began.
    marks: Vec<usize>,
    is_clearing: bool,
    /// The ports of each output to `NORMAL`.
    pub(super) normal: VecDeque<Vec<u32>>,
}

impl<'a> Observer<'a> {
    pub(super) fn new(traced: Traced<'a>) -> Self {
        let mut tree = Tree::new();
        tree.open(LineKind::Bridge, format!("bridge(\"{}\")", traced.bridge));
        Self { traced, tree, marks: Vec::new(), is_clearing: false, normal: VecDeque::new() }
    }

    fn action(&mut self, text: impl Into<String>) {
        self.tree.add(LineKind::Action, text);
    }

    fn detail(&mut self, text: impl Into<String>) {
        self.tree.add(LineKind::Detail, text);
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.tree.add(LineKind::Warning, text);
    }

    fn lookup(&mut self, table: u8, flow: Option<&Flow>) {
        let Some(flow) = flow else {
            self.tree.open(LineKind::Table, format!("{table:2}. No match."));
            return self.action("drop");
        };
        let mut text = ovs::match_text(&flow.matching);
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&format!("priority {}", flow.priority));
        if flow.cookie != 0 {
            text.push_str(&format!(", cookie {:#x}", flow.cookie));
        }
        self.tree.open(LineKind::Table, format!("{table:2}. {text}"));
        if flow.instructions.is_drop() {
            self.action("drop");
        }
    }

    fn action_set(&mut self, actions: &[FlowAction]) {
        let verb = if std::mem::take(&mut self.is_clearing) { "was" } else { "is" };
        self.detail(match actions {
            [] => format!("action set {verb} empty"),
            actions => format!("action set {verb}: {}", ovs::actions_text(actions)),
        });
    }

    /// The set is executed below the first table.
    fn execute(&mut self, actions: &[FlowAction]) {
        let first = self.marks.last().map_or(0, |mark| mark + 1);
        self.tree.close_to(first);
        self.tree.open(LineKind::Table, "--. Executing action set:");
        if actions.is_empty() {
            self.action("drop");
        }
    }
}

/// Instructions that have one part only, as text.
fn instruction(instructions: Instructions) -> String {
    ovs::instructions_text(&instructions)
}

/// Bits of a field as actions name them.
fn subfield_text(bits: Subfield) -> String {
    let text = ovs::actions_text(&[FlowAction::StackPush(bits)]);
    text.strip_prefix("push:").unwrap_or(&text).to_owned()
}

impl Output for Observer<'_> {
    const IS_OBSERVER: bool = true;

    fn send(&mut self, egress: Egress, frame: &[u8]) {
        if !self.traced.pipeline.ports().any(|(number, _)| number == egress.port) {
            return self.warn("Nonexistent output port");
        }
        let Some(tunnel) = (self.traced.tunnel)(egress.port) else { return };
        match tunnel.outer(&egress, &key_of(frame)) {
            Ok(_) => self.detail("output to kernel tunnel"),
            Err(why) => self.warn(why.name()),
        }
    }

    fn packet_in(&mut self, _packet: PacketIn) {}

    fn normal(&mut self, key: &FlowKey, frame: &[u8]) {
        let (traced, in_port) = (self.traced, key[0]);
        let ports = match traced.learning.find(frame, vlan_of(key), in_port, traced.now_ns) {
            Forward::Port(port) => {
                self.detail("forwarding to learned port");
                vec![port]
            }
            Forward::Flood => {
                self.detail("no learned MAC for destination, flooding");
                let ports = traced.pipeline.ports();
                let flooded = ports.filter(|(port, s)| s.is_flooded && *port != in_port);
                flooded.map(|(port, _)| port).collect()
            }
            Forward::Drop => {
                self.detail("learned port is input port, dropping");
                Vec::new()
            }
        };
        self.normal.push_back(ports);
    }

    fn observe(&mut self, observed: Observed<'_>) {
        match observed {
            Observed::Enter => self.marks.push(self.tree.depth()),
            Observed::Leave => {
                let mark = self.marks.pop().unwrap_or(0);
                self.tree.close_to(mark);
            }
            Observed::Lookup(table, flow) => self.lookup(table, flow),
            Observed::Meter(id) => self.action(format!("meter:{id}")),
            Observed::Action(action) => {
                self.action(ovs::actions_text(std::slice::from_ref(action)));
                if *action == FlowAction::PopQueue {
                    self.detail("queue = 0");
                }
            }
            Observed::Clear => {
                self.is_clearing = true;
                self.action("clear_actions");
            }
            Observed::Write(actions) => {
                self.action(format!("write_actions({})", ovs::actions_text(actions)));
            }
            Observed::ActionSet(actions) => self.action_set(actions),
            Observed::Metadata(write) => {
                let metadata = Some(write);
                self.action(instruction(Instructions { metadata, ..Instructions::default() }));
            }
            Observed::Goto(table) => self.action(format!("goto_table:{table}")),
            Observed::Execute(actions) => self.execute(actions),
            Observed::Choose(Some(place)) => self.detail(format!("using bucket {place}")),
            Observed::Choose(None) => self.detail("no live bucket"),
            Observed::Bucket(place) => {
                self.marks.push(self.tree.depth());
                self.tree.open(LineKind::Action, format!("bucket {place}"));
            }
            Observed::Value(bits, value) => {
                let value = if value == 0 { "0".to_owned() } else { format!("{value:#x}") };
                self.detail(format!("{} is now {value}", subfield_text(bits)));
            }
            Observed::OutputPort(port) => self.detail(format!("output port is {port}")),
            Observed::SkipInPort => self.warn("skipping output to input port"),
            Observed::NoForward => self.warn("OFPPC_NO_FWD set, skipping output"),
            Observed::TtlEnded(ether_type) => {
                let protocol = match ether_type {
                    0x0800 => "IPv4",
                    0x86dd => "IPv6",
                    _ => "MPLS",
                };
                self.warn(format!("{protocol} decrement TTL exception"));
            }
            Observed::StackEmpty => {
                self.tree.add(LineKind::Error, "stack underflow");
            }
            Observed::Limited => {
                let text = format!(
                    "more than {WORK_MAX} lookups and actions, or resubmits and groups nested \
                     deeper than {DEPTH_MAX}"
                );
                self.tree.add(LineKind::Error, text);
            }
        }
    }
}

/// Whether a number is that of a real port.
pub(super) fn is_real(port: u32) -> bool {
    (1..=port::MAX).contains(&port)
}
