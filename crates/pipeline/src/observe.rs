//! Observation of one packet: what it meets, for a trace that people read.
//!
//! The events come from the interpreter itself, so a trace cannot differ from what happens to
//! packets. Only an [`Output`] with `IS_OBSERVER` pays for them.

use warpswitch_flow::Traversal;
use warpswitch_rules::openflow::{Flow, FlowAction, FlowKey, MetadataWrite, Subfield};

use crate::counts::{Counts, TableCounters};
use crate::flows::FlowCounters;
use crate::frame::Packet;
use crate::meter::Meters;
use crate::output::Output;
use crate::pipeline::Pipeline;
use crate::run::{Fixed, Run};
use crate::trace::Trace;

/// Something that a packet meets.
#[derive(Clone, Debug)]
pub enum Observed<'a> {
    /// Tables are about to be walked through; [`Observed::Leave`] ends it.
    Enter,
    /// The end of what began with the last [`Observed::Enter`] or [`Observed::Bucket`].
    Leave,
    /// A lookup in a table; none if no flow matched.
    Lookup(u8, Option<&'a Flow>),
    /// A meter measures the packet.
    Meter(u32),
    /// An action is about to be executed.
    Action(&'a FlowAction),
    /// The action set is emptied.
    Clear,
    /// Actions are written into the action set.
    Write(&'a [FlowAction]),
    /// The action set as it would be executed.
    ActionSet(&'a [FlowAction]),
    /// Metadata is written.
    Metadata(MetadataWrite),
    /// Processing goes on in another table.
    Goto(u8),
    /// The action set is about to be executed: these actions.
    Execute(&'a [FlowAction]),
    /// A group uses its bucket at this place; none if no bucket is live.
    Choose(Option<usize>),
    /// A copy is about to go through the bucket at this place.
    Bucket(usize),
    /// These bits have a new value, that no constant in the flow gives.
    Value(Subfield, u128),
    /// The value that bits of the packet have as the number of an output.
    OutputPort(u32),
    /// The packet does not leave by the port that it came in on.
    SkipInPort,
    /// The port is set not to forward.
    NoForward,
    /// The TTL of a packet of this EtherType ended.
    TtlEnded(u16),
    /// A pop of an empty stack.
    StackEmpty,
    /// The packet needed too much work.
    Limited,
}

/// What a packet met in [`Pipeline::observe`].
#[derive(Clone, Debug)]
pub struct Observation {
    /// The steps, and the bits examined.
    pub traversal: Traversal,
    /// The key of the packet at its end.
    pub final_key: FlowKey,
}

impl Pipeline {
    /// Takes a packet through the tables without any effect on counters and meters. Meters let it
    /// pass. `key` has the values of its pipeline fields, such as its port; its header fields are
    /// read from the frame.
    pub fn observe(&self, frame: &[u8], key: &FlowKey, out: &mut impl Output) -> Observation {
        let mut counts = Counts {
            flows: vec![FlowCounters::default(); self.counts.flows.len()],
            tables: vec![TableCounters::default(); self.tables.len()],
            ..Counts::default()
        };
        let is_tunneled = [4, 5, 6, 7, 24].iter().any(|&word| key[word] != 0);
        let mut packet = Packet::new(frame, *key, Vec::new());
        let trace = Trace::new(&packet.key().clone(), packet.shape(is_tunneled));
        let fixed = Fixed {
            tables: &self.tables,
            flows: &self.flows,
            groups: &self.groups,
            ports: &self.ports,
        };
        let mut meters = Meters::new();
        let mut run = Run::new(fixed, &mut counts, &mut meters, packet, 0, out);
        run.trace = Some(trace);
        run.pipeline();
        let final_key = *run.packet.key();
        let traversal = run.trace.take().expect("it was put there").traversal;
        Observation { traversal, final_key }
    }

    /// The flow at a place that a step or visit of this version of the pipeline names.
    pub fn flow_at(&self, place: u32) -> Option<&Flow> {
        self.flows.find(place).map(|entry| &entry.flow)
    }
}
