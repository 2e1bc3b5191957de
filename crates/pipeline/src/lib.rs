//! A multi-table match-action pipeline with the semantics of OpenFlow 1.3, without sockets, clock
//! or threads: time is handed in, frames and messages are handed out.
//!
//! ```text
//! frame ─► key ─► table 0 ─goto─► table n ─► action set ─► Output: frames, packet-ins
//!          ▲        │ apply actions: change frame and key
//!          │        └─► groups, resubmits, meters
//!          └─ cache of traversals (crate flow): repeats the recorded steps
//! ```
//! | module | purpose |
//! | --- | --- |
//! | `frame` | from bytes to a flow key, and the actions on bytes and key |
//! | `lookup` | the flow that wins in a table: the reference and the fast one |
//! | `run` | one packet on its way: the walk, and the steps it consists of |
//! | `burst` | packets of one port, looked up together |
//! | `trace` | recording of a walk |
//! | `observe` | a walk without effect, reported step by step |
//! | `change`, `check`, `expire`, `undo` | flows, groups and meters come, change and go |
//! | `group`, `meter`, `action_set` | groups, meters, and the actions at the end of a pipeline |
//!
//! # Example
//! ```
//! use warpswitch_pipeline::{Egress, Output, Pipeline, PipelineOptions};
//! use warpswitch_rules::openflow::{
//!     Flow, FlowAction, FlowCommand, FlowKey, FlowMatch, FlowMod, Instructions, PacketIn, port,
//! };
//!
//! struct Sent(Vec<u32>);
//! impl Output for Sent {
//!     fn send(&mut self, egress: Egress, _frame: &[u8]) {
//!         self.0.push(egress.port);
//!     }
//!     fn packet_in(&mut self, _packet: PacketIn) {}
//!     fn normal(&mut self, _key: &FlowKey, _frame: &[u8]) {}
//! }
//!
//! let mut pipeline = Pipeline::new(PipelineOptions::default());
//! let apply = vec![FlowAction::Output { port: 2, max_len: 0 }];
//! let instructions = Instructions { apply, ..Instructions::default() };
//! let flow = Flow::new(1, FlowMatch::any(), instructions);
//! let change = FlowMod {
//!     command: FlowCommand::Add,
//!     flow,
//!     cookie_mask: 0,
//!     out_port: port::ANY,
//!     out_group: port::GROUP_ANY,
//! };
//! pipeline.flow_mod(&change, 0).unwrap();
//! let mut sent = Sent(Vec::new());
//! pipeline.execute(&[0; 60], 1, 0, &mut sent);
//! pipeline.execute(&[0; 60], 2, 0, &mut sent);
//! assert_eq!(sent.0, [2], "never back to where it came from");
//! ```
#![forbid(unsafe_code)]

mod action_set;
mod burst;
mod change;
mod check;
mod counts;
mod engines;
mod expire;
mod flows;
pub mod frame;
mod group;
mod lookup;
mod meter;
mod observe;
mod output;
mod pipeline;
mod ports;
mod references;
mod run;
mod stats;
mod table;
mod trace;
mod undo;

pub use change::METER_ALL;
pub use check::{ACTIONS_MAX, BANDS_MAX, BUCKETS_MAX, METER_MAX};
pub use engines::{BuildEngine, TableEngines};
pub use group::GroupStats;
pub use lookup::Lookup;
pub use meter::MeterStats;
pub use observe::{Observation, Observed};
pub use output::{Egress, Ingress, Output};
pub use pipeline::{Pipeline, PipelineOptions, PipelineStats, TABLES_MAX};
pub use ports::PortSettings;
pub use run::{DEPTH_MAX, WORK_MAX};
pub use table::{TableSettings, TableStats};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
