//! Assigns packets to flows or groups, and counts the packets of each.

mod aggregate_counter;
mod aggregate_ip_flows;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] =
    &[&aggregate_counter::CLASS, &aggregate_ip_flows::CLASS];
