//! What the pipeline has to track of ports: where a flood goes, and which buckets are live.

use std::collections::BTreeMap;

/// A port of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Whether its link is up and it is not switched off: buckets that watch it are live.
    pub is_live: bool,
    /// Whether a flood leaves by it.
    pub is_flooded: bool,
    /// Whether frames leave by it at all.
    pub is_forwarded: bool,
}

impl Default for PortSettings {
    fn default() -> Self {
        Self { is_live: true, is_flooded: true, is_forwarded: true }
    }
}

/// Ports by number.
pub(crate) type Ports = BTreeMap<u32, PortSettings>;
