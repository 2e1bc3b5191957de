//! The OpenFlow switch: ports, pipeline and caches, and the agent that controllers talk to.
//!
//! ```text
//! RxPort ─burst─► caches ─miss─► pipeline ─► frames that wait ─► TxPort
//!                    ▲              │ ▲
//!                    └──traversal───┘ └── flow-mod, group-mod, … ◄── Agent ◄─bytes─ controllers
//!                                   └───── packet-in, flow-removed ──► Agent ─bytes─►
//! ```
//! A switch belongs to one thread and neither blocks nor reads a clock: the caller moves the bytes
//! of controllers and hands the time in. So a change is in force for every packet after it, and a
//! barrier has nothing to wait for.
//!
//! # Invariants
//! - W1: frames leave a port in the order in which they were executed.
//! - W2: frames and packet-ins that wait are bounded; what does not fit is counted.
#![forbid(unsafe_code)]

mod appctl;
mod cache;
mod coverage;
mod datapath;
pub mod learning;
mod ports;
mod switch;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod tunnel;

pub use appctl::AppctlReply;
pub use cache::CacheKind;
pub use ports::{NewPort, NewTunnel};
pub use switch::{FailMode, Switch, SwitchOptions, SwitchStats};
pub use warpswitch_flow::FlowCacheStats;
