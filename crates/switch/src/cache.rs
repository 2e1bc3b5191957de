//! Which cache is in front of the tables.

use warpswitch_flow::megaflow::{MegaflowCache, MegaflowOptions};
use warpswitch_flow::microflow::MicroflowCache;
use warpswitch_flow::traversal::{Step, Traversal, TraversalCache};
use warpswitch_rules::openflow::FlowKey;

/// Entries of a microflow cache, as Open vSwitch's exact-match cache has.
const MICROFLOWS_MAX: usize = 8192;
/// Entries of a megaflow cache.
const MEGAFLOWS_MAX: usize = 1 << 16;
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

/// How many packets the caches answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Packets that the microflow cache answered.
    pub micro_hits: u64,
    /// Packets that the megaflow cache answered.
    pub mega_hits: u64,
    /// Packets that went through the tables.
    pub misses: u64,
}

/// The caches of a switch: the exact one in front of that by examined bits.
#[derive(Debug)]
pub(crate) struct Caches {
    micro: MicroflowCache,
    mega: Option<MegaflowCache>,
    pub(crate) stats: CacheStats,
}

impl Caches {
    /// The caches of a kind; none for [`CacheKind::None`].
    pub(crate) fn new(kind: CacheKind, seed: u64) -> Option<Self> {
        let options = MegaflowOptions { entries_max: MEGAFLOWS_MAX, masks_max: MASKS_MAX, seed };
        let mega = (kind == CacheKind::Mega).then(|| MegaflowCache::new(options));
        let micro = MicroflowCache::new(MICROFLOWS_MAX, seed);
        (kind != CacheKind::None).then_some(Self { micro, mega, stats: CacheStats::default() })
    }

    /// Traversals by exact keys, and by examined bits.
    pub(crate) fn lens(&self) -> (usize, usize) {
        (self.micro.len(), self.mega.as_ref().map_or(0, TraversalCache::len))
    }
}

impl TraversalCache for Caches {
    fn lookup(&mut self, version: u64, key: &FlowKey, shape: u32) -> Option<&[Step]> {
        let Self { micro, mega, stats } = self;
        if let Some(steps) = micro.lookup(version, key, shape) {
            stats.micro_hits += 1;
            return Some(steps);
        }
        if let Some(steps) = mega.as_mut().and_then(|mega| mega.lookup(version, key, shape)) {
            stats.mega_hits += 1;
            return Some(steps);
        }
        stats.misses += 1;
        None
    }

    fn insert(&mut self, version: u64, traversal: &Traversal) {
        self.micro.insert(version, traversal);
        if let Some(mega) = &mut self.mega {
            mega.insert(version, traversal);
        }
    }

    fn len(&self) -> usize {
        let (micro, mega) = self.lens();
        micro + mega
    }
}
