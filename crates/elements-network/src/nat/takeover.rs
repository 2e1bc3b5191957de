//! Hand-over of flows to a new configuration.
//!
//! The flows of a set go to the rewriters with the same names as before, in whatever sets these are
//! now. A flow is lost if its rewriter is missing or of another class, if its input spec or one of
//! its outputs no longer exists, or if there is no room.

use warpswitch_graph::Context;

use super::flow::{Flow, TableId};
use super::rewriter::{Rewriter, to_ms};
use super::set::{FlowSet, Member};

/// Gives the flows of `old` to `own` and those it shared the set with.
pub(super) fn take_over(own: &mut Rewriter, cx: &mut Context<'_>, old: FlowSet) {
    let (members, flows) = old.into_flows();
    for (number, member) in members.iter().enumerate() {
        let is_of = |flow: &&Flow| flow.table.member() == number;
        let of_member: Vec<Flow> = flows.iter().filter(is_of).map(Flow::moved).collect();
        let named = cx.graph().elements.iter().position(|element| element.name == member.name);
        let Some(element) = named else { continue };
        if element == cx.element() {
            receive(own, cx, member, of_member);
        } else {
            cx.with_element(element, |other: &mut Rewriter, cx| {
                receive(other, cx, member, of_member);
            });
        }
    }
}

fn receive(rewriter: &mut Rewriter, cx: &mut Context<'_>, was: &Member, flows: Vec<Flow>) {
    if rewriter.kind != was.kind {
        return;
    }
    let (outputs, now_ms) = (cx.outputs(), to_ms(cx.now()));
    let has_flows = rewriter.with_set(cx, |rewriter, set, _| {
        for (input, tally) in was.tallies.iter().enumerate().take(rewriter.specs.len()) {
            set.tally(rewriter.member, input).failures += tally.failures;
        }
        for mut flow in flows {
            let fits = flow.outputs.iter().all(|&output| (output as usize) < outputs)
                && (flow.input as usize) < rewriter.specs.len();
            flow.table = TableId::new(rewriter.member, flow.table.is_udp());
            if fits && flow.ids.iter().all(|&id| set.find(flow.table, id).is_none()) {
                set.store(flow, now_ms);
            }
        }
        set.len() > 0
    });
    if has_flows == Some(true) {
        rewriter.set_reaper(cx);
    }
}
