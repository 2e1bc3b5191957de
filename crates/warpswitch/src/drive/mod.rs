//! Running configurations: what gives them a clock, a terminal, sockets and signals.
//!
//! ```text
//! config ─► Loaded ─► Router ◄─ Host: clock, control clients, signals, new configurations
//!                       └─► Console: messages, output, sockets to listen at
//! ```
//! Host and console share one [`World`]. Nothing here runs while packets are worked on: the router
//! calls the host between tasks, and the host never waits while there is something to do.

pub mod client;
pub mod config;
mod console;
mod datagrams;
mod host;
pub mod offload;
mod pace;
pub mod place;
mod reload;
mod signals;
mod sockets;
pub mod stats;
mod streams;
pub mod trace;
mod wires;

pub use console::World;
pub use host::{Clock, DriveHost};
pub use reload::Reload;
