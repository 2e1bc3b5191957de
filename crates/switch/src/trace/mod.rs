//! The way of one described packet through the tables, in the layout of
//! `ovs-appctl ofproto/trace`.
//!
//! ```text
//! in_port=1,tcp,… [hex] ─► TraceRequest ─► Pipeline::observe ─┬─► lines    (tree, observer)
//!                          key and frame                       └─► steps ─► datapath actions
//! ```
//! The interpreter that executes packets executes this one too, without its effects: nothing is
//! counted, learned or sent, and meters let the packet pass.

mod datapath;
mod flow_text;
mod observer;
mod request;
mod tree;
mod tunnel;

use datapath::{DatapathText, NormalPorts};
pub(crate) use flow_text::cached_flow_text;
pub use request::TraceRequest;

use warpswitch_pipeline::{Observation, Pipeline};
use warpswitch_rules::format::ovs;
use warpswitch_rules::openflow::{FlowKey, FlowMatch};

use crate::learning::LearningTable;
use crate::tunnel::TunnelOptions;
use observer::Observer;

/// What a packet is traced through.
#[derive(Clone, Copy)]
pub struct Traced<'a> {
    /// The name of the switch.
    pub bridge: &'a str,
    /// Its tables.
    pub pipeline: &'a Pipeline,
    /// Where outputs to `NORMAL` lead.
    pub learning: &'a LearningTable,
    /// The tunnel behind a port, if there is one.
    pub tunnel: &'a dyn Fn(u32) -> Option<&'a TunnelOptions>,
    /// The present time.
    pub now_ns: u64,
}

impl Traced<'_> {
    /// The trace of a packet.
    pub fn trace(&self, request: &TraceRequest) -> String {
        let Self { pipeline, tunnel, .. } = *self;
        let mut observer = Observer::new(*self);
        let observation = pipeline.observe(&request.frame, &request.key, &mut observer);
        let Observation { traversal, final_key } = &observation;
        let final_flow = match *final_key == traversal.key {
            true => "unchanged".to_owned(),
            false => packet_text(final_key),
        };
        let actions = DatapathText::new(pipeline, traversal.key, traversal.shape.number)
            .tunnel(tunnel)
            .normal(NormalPorts::Queue(observer.normal))
            .text(&traversal.steps);
        let uncached = match traversal.is_cacheable {
            true => "",
            false => "This packet is not cached: its way depends on more than its header fields.\n",
        };
        format!(
            "Flow: {}\n{}\nFinal flow: {final_flow}\nMegaflow: {}\nDatapath actions: {actions}\n\
             {uncached}",
            packet_text(&traversal.key),
            observer.tree.text(),
            megaflow_text(&traversal.key, traversal.examined()),
        )
    }
}

/// A packet, without the number of the port under its port where both are the same.
fn packet_text(key: &FlowKey) -> String {
    let mut key = *key;
    if key[1] == key[0] {
        key[1] = 0;
    }
    ovs::key_text(&key)
}

/// A cached flow. The shape of a packet, which a cache compares too, shows in its EtherType.
fn megaflow_text(key: &FlowKey, mut examined: FlowKey) -> String {
    examined[1] = 0;
    examined[28] |= 0xffff_0000;
    format!("recirc_id=0,eth,{}", ovs::match_text(&FlowMatch::new(key, &examined)))
}
