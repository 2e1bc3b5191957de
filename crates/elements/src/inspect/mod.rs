//! Elements that look into payloads.

pub(crate) mod ids_matcher;
mod on_device;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[&ids_matcher::CLASS];
