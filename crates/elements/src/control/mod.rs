//! Elements that steer the others: scripts, the driver, control connections.

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[];
