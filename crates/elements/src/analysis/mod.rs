//! Packets in groups: which flow or group each belongs to, and how many there are of each.

mod aggregate_counter;
mod aggregate_ip_flows;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] =
    &[&aggregate_counter::CLASS, &aggregate_ip_flows::CLASS];
