//! Time-outs of flows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use warpswitch_rules::openflow::{FlowRemoved, RemovalReason};

use crate::flows::{Entry, FlowCounters};
use crate::pipeline::Pipeline;

const SECOND_NS: u64 = 1_000_000_000;
/// Entries of former flows are swept when they outnumber those of present ones, and are more than
/// this.
const SWEEP_MIN: usize = 1024;

/// When which flow must be looked at: no later than its time-out ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    /// Time, then order of adding and place of the flow. A flow that is used gets a later time only
    /// when the earlier one comes.
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Flows with a time-out.
    flows: usize,
}

/// The time at which a flow's time-out ends, and which one it is.
fn deadline(entry: &Entry, used_ns: u64) -> Option<(u64, RemovalReason)> {
    let after = |start: u64, seconds: u16, reason| {
        (seconds > 0).then(|| (start.saturating_add(u64::from(seconds) * SECOND_NS), reason))
    };
    let hard = after(entry.created_ns, entry.flow.hard_timeout, RemovalReason::HardTimeout);
    let idle = after(used_ns, entry.flow.idle_timeout, RemovalReason::IdleTimeout);
    hard.into_iter().chain(idle).min_by_key(|&(time, _)| time)
}

impl Deadlines {
    pub(crate) fn add(&mut self, place: u32, entry: &Entry, used_ns: u64) {
        if let Some((time, _)) = deadline(entry, used_ns) {
            self.heap.push(Reverse((time, entry.order, place)));
            self.flows += 1;
        }
    }

    /// Entries, also of flows that are gone.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Counts that a flow that went comes back; its entry is still there.
    pub(crate) fn remember(&mut self, entry: &Entry) {
        self.flows += usize::from(deadline(entry, 0).is_some());
    }

    /// Counts that a flow goes; its entry stays until its time, or a sweep.
    pub(crate) fn forget(&mut self, entry: &Entry) {
        self.flows -= usize::from(deadline(entry, 0).is_some());
    }
}

impl Pipeline {
    /// Removes the flows whose time-outs have ended.
    pub fn expire(&mut self, now: u64) -> Vec<FlowRemoved> {
        let mut removed = Vec::new();
        while let Some(&Reverse((time, order, place))) = self.deadlines.heap.peek() {
            if time > now {
                break;
            }
            self.deadlines.heap.pop();
            let Some(entry) = self.flows.get_if(place, order) else { continue };
            let counters: FlowCounters = self.counts.flows[place as usize];
            match deadline(entry, counters.used_ns) {
                Some((time, reason)) if time <= now => {
                    removed.extend(self.remove_flows(vec![place], reason, now));
                }
                Some((time, _)) => self.deadlines.heap.push(Reverse((time, order, place))),
                None => {}
            }
        }
        self.sweep();
        removed
    }

    /// When [`Pipeline::expire`] may have something to do again; none if no flow has a time-out.
    pub fn next_expiry_ns(&self) -> Option<u64> {
        let next = self.deadlines.heap.peek().filter(|_| self.deadlines.flows > 0);
        next.map(|&Reverse((time, ..))| time)
    }

    fn sweep(&mut self) {
        if self.deadlines.heap.len() > SWEEP_MIN + 2 * self.deadlines.flows {
            let flows = &self.flows;
            self.deadlines
                .heap
                .retain(|&Reverse((_, order, place))| flows.get_if(place, order).is_some());
        }
    }
}
