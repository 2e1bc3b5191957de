//! Which cache is in front of the tables.

use warpswitch_flow::{FlowCache, FlowCacheOptions};

/// Exact keys: 8 MiB if all packets are IPv4, touched only as far as there are flows.
const MICROFLOWS_MAX: usize = 1 << 17;
/// Traversals that are kept.
const TRAVERSALS_MAX: usize = 1 << 17;
/// Memory for their steps and for the bits they examined: 2 KiB each if the cache is full. Most
/// take less than 1 KiB; a flow table may make traversals of thousands of steps.
const BYTES_MAX: usize = 256 << 20;
/// Unions of examined bits in a megaflow cache: the most probes of a packet, whatever arrives.
const MASKS_MAX: usize = 64;

/// The cache that a switch uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheKind {
    /// None: every packet is looked up in the tables.
    None,
    /// By exact flow keys.
    Micro,
    /// By exact flow keys, then by examined bits.
    #[default]
    Mega,
}

impl CacheKind {
    /// All kinds, in the order of help texts.
    pub const ALL: [CacheKind; 3] = [CacheKind::None, CacheKind::Micro, CacheKind::Mega];

    /// Its name in arguments.
    pub fn name(self) -> &'static str {
        match self {
            CacheKind::None => "none",
            CacheKind::Micro => "micro",
            CacheKind::Mega => "mega",
        }
    }
}

/// The cache of a kind; none for [`CacheKind::None`].
pub(crate) fn cache(kind: CacheKind, seed: u64) -> Option<FlowCache> {
    let masks_max = match kind {
        CacheKind::None => return None,
        CacheKind::Micro => 0,
        CacheKind::Mega => MASKS_MAX,
    };
    Some(FlowCache::new(FlowCacheOptions {
        microflows_max: MICROFLOWS_MAX,
        traversals_max: TRAVERSALS_MAX,
        bytes_max: BYTES_MAX,
        masks_max,
        seed,
    }))
}
