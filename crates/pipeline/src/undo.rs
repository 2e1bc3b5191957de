//! Changes that are made all or not at all: what it takes to undo each of them.
//!
//! While a group of changes is open, each step that a change consists of notes its inverse. To
//! undo a group costs what its changes cost, whatever the tables hold; no packet is executed
//! meanwhile, so nobody has seen what is taken back. Steps are undone in the reverse order: a flow
//! comes back to its place, which no other flow has by then.

use warpswitch_flow::Change;
use warpswitch_rules::openflow::{Group, Instructions};

use crate::flows::{Entry, FlowCounters};
use crate::group::GroupCounters;
use crate::meter::MeterState;
use crate::pipeline::Pipeline;

/// How to undo a step.
#[derive(Debug)]
pub(crate) enum Undo {
    /// The flow at this place goes.
    TakeOut(u32),
    /// A flow comes back.
    PutBack(Box<(Entry, FlowCounters)>),
    /// A flow gets its instructions and counters back.
    Modify(u32, Box<(Instructions, FlowCounters)>),
    /// A group is as it was, or goes.
    Group(u32, Option<(Group, GroupCounters)>),
    /// A meter is as it was, or goes.
    Meter(u32, Option<Box<MeterState>>),
}

impl Pipeline {
    /// Begins a group of changes. No packet may be executed before its end.
    pub fn begin_group(&mut self) {
        self.undo = Some(Vec::new());
    }

    /// Ends a group of changes: they stay, or all of them are undone.
    pub fn end_group(&mut self, is_kept: bool) {
        let steps = self.undo.take().unwrap_or_default();
        if is_kept {
            return;
        }
        for step in steps.into_iter().rev() {
            match step {
                Undo::TakeOut(place) => drop(self.take_out(place)),
                Undo::PutBack(flow) => self.put_back(flow.0, flow.1),
                Undo::Modify(place, old) => {
                    self.set_instructions(place, &old.0);
                    self.counts.flows[place as usize] = old.1;
                }
                Undo::Group(id, old) => drop(self.replace_group(id, old)),
                Undo::Meter(id, old) => drop(self.replace_meter(id, old.map(|old| *old))),
            }
        }
        self.changes.push(Change::All);
    }

    /// Notes how to undo a step, if that may be necessary.
    pub(crate) fn note_undo(&mut self, step: impl FnOnce() -> Undo) {
        if let Some(steps) = &mut self.undo {
            steps.push(step());
        }
    }
}
