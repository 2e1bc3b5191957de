//! IPv4: checks, forwarding, errors, lookups.

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[];
