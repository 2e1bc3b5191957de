//! Elements that control other elements: scripts, the driver, control connections.

mod control_socket;
mod driver_manager;
mod error;
mod message;
mod poke_handlers;
mod script;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &control_socket::CLASS,
    &driver_manager::CLASS,
    &error::CLASS,
    &message::CLASS,
    &poke_handlers::CLASS,
    &script::CLASS,
];
