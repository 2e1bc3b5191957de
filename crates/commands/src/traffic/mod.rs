//! Test traffic: frames that a paced sender numbers and a sink checks.
//!
//! ```text
//! FrameSet ─► Sender ─► TxPort ═ device under test ═ RxPort ─► Sink ─► flows, latency
//!   flows, trace, capture  ▲                                    │
//!                       Schedule                             Station: answers ARP
//! ```
//! Each frame carries a [`probe::Probe`] in its payload: the run, the flow, its number in the flow
//! and the time of transmission. [`session`] runs a sender and a sink on two threads; all other
//! modules take the time as a parameter.

mod args;
mod frames;
mod load;
mod probe;
mod rate;
mod schedule;
mod sender;
mod session;
mod sink;
mod sizes;
mod station;
mod tracker;

#[cfg(test)]
mod tests;

pub use args::{Interfaces, LinkArgs, Macs, Method};
pub use frames::{FLOWS_MAX, FrameSet};
pub use load::{LoadArgs, load};
pub use rate::Rate;
pub use sender::Limit;
pub use session::{Session, Trial, TrialResult};
pub use sink::Latency;
pub use sizes::{FrameSize, mean_wire_bytes};
