//! IPv6: checks, forwarding, errors, neighbour discovery, lookups.

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[];
