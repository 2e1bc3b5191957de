//! Elements that look into payloads.

mod ids_matcher;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[&ids_matcher::CLASS];
