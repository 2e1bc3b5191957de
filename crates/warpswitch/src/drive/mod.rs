//! Running configurations: what gives them a clock, a terminal, sockets and signals.
//!
//! ```text
//! config ─► Loaded ─► Router ◄─ Host: clock, control clients, signals, new configurations
//!                       └─► Console: messages, output, sockets to listen at
//! ```
//! Host and console share one [`World`]. Nothing here runs while packets are worked on: the router
//! calls the host between tasks, and the host never waits while there is something to do.

#[path = "../../../runtime/src/client.rs"]
pub mod client;
#[path = "../../../runtime/src/config.rs"]
pub mod config;
#[path = "../../../runtime/src/environment.rs"]
mod console;
#[path = "../../../runtime/src/datagrams.rs"]
mod datagrams;
#[path = "../../../runtime/src/host.rs"]
mod host;
pub mod offload;
#[path = "../../../runtime/src/clock.rs"]
mod pace;
#[path = "../../../runtime/src/control_address.rs"]
pub mod place;
#[path = "../../../runtime/src/reconfigure.rs"]
mod reload;
#[path = "../../../runtime/src/signals.rs"]
mod signals;
#[path = "../../../runtime/src/control_server.rs"]
mod sockets;
pub mod stats;
#[path = "../../../runtime/src/streams.rs"]
mod streams;
pub mod trace;
#[path = "../../../runtime/src/packet_sockets.rs"]
mod wires;

pub use console::World;
pub use host::{Clock, DriveHost};
pub use reload::Reload;
