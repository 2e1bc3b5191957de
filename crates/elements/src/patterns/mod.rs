//! Elements that sort packets by patterns.

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[];
