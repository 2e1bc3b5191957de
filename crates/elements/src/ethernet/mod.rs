//! Links: Ethernet, ARP, VLANs.

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[];
