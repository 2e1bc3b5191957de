//! Offsets of annotations that the crate `packet` does not define.

/// The number of the flow or group of a packet, four bytes.
pub const AGGREGATE: usize = 20;
/// The number of packets that this one represents in addition to itself, four bytes.
pub const EXTRA_PACKETS: usize = 24;
