//! Runs configurations: worker threads, run loop, clock, sockets, signals and statistics.
//!
//! `warpswitch-graph` builds and runs a router, but reads no clock, opens no socket and starts no
//! thread. This crate supplies all of them, for the command `warpswitch` and for programs that
//! embed a configuration.
//!
//! ```
//! use warpswitch_runtime::{RunBuilder, RunEnd};
//!
//! # fn main() -> Result<(), warpswitch_runtime::Error> {
//! let run = RunBuilder::new(warpswitch_elements::registry())
//!     .text("InfiniteSource(LIMIT $N) -> c :: Counter -> Discard;")
//!     .variable("N", "1000")
//!     .threads(2)
//!     .start()?;
//! assert_eq!(run.wait()?, RunEnd::Idle);
//! assert_eq!(run.read("c.count")?, "1000");
//! let stats = run.stop()?;
//! assert_eq!(stats.element("c").map(|c| c.packets), Some(1000));
//! # Ok(())
//! # }
//! ```
//!
//! # Structure
//!
//! ```text
//! config ─► RouterFactory ─► Router ◄── SystemHost: clock, clients, signals, requests, progress
//!                              │             │
//!                              └─ Console ─► Environment: output, sockets, signals, device
//! ```
//! [`RunBuilder`] assembles these parts on a thread of its own. Programs that need the parts on
//! their own thread build a [`RouterFactory`], an [`Environment`] and a [`SystemHost`].
//!
//! # Invariants
//! - R1: nothing here runs while an element works: the router calls the host between tasks, and the
//!   host never blocks while a task is runnable.
//! - R2: the crate prints nothing itself; output and messages go to the streams of the environment.
//! - R3: a device is an opaque value ([`Device`]), so the crate works without any device code.
#![forbid(unsafe_code)]

pub mod appctl;
mod capture_ports;
pub mod client;
mod clock;
pub mod config;
mod control_address;
mod control_server;
pub mod controllers;
mod datagrams;
mod environment;
mod error;
pub mod files;
mod host;
mod packet_sockets;
mod ports;
mod progress;
mod raw_ip;
mod reconfigure;
mod requests;
mod run;
mod signals;
mod sleeper;
mod stats;
mod streams;
pub mod switch;
pub mod threads;
pub mod tls;
mod tunnels;

pub use clock::{RunClock, ScaledClock};
pub use control_address::ControlAddress;
pub use environment::{Device, Environment};
pub use error::{Error, ErrorKind};
pub use host::{FinishedRun, SystemHost};
pub use progress::{Progress, RunProgress};
pub use reconfigure::RouterFactory;
pub use run::{RunBuilder, RunHandle};
pub use signals::{StopSignals, is_ignored};
pub use stats::{DropStats, ElementStats, RunEnd, RunStats, ticks};
