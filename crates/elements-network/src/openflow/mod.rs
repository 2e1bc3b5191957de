//! Elements of OpenFlow.

mod controllers;
mod open_flow_switch;
mod queues;
#[cfg(test)]
mod tests;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[&open_flow_switch::CLASS];
