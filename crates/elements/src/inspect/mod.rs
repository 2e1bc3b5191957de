//! Elements that look into payloads.

pub(crate) mod ids_matcher;
pub(crate) mod on_device;
mod rules;
pub(crate) mod told;

use warpswitch_graph::ElementClass;

pub(crate) use ids_matcher::ids_packet;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[&ids_matcher::CLASS];
