//! Which engines look bursts up, and how long bursts are.

use std::fmt;
use std::sync::Arc;

use warpswitch_classify::{BuildOptions, Classifier, ClassifyError, Engine, build};
use warpswitch_rules::Ruleset;

/// Packets of a burst for an engine of the CPU: the more, the more loads overlap, until their keys
/// leave the first cache of the core.
const BURST_LEN: usize = 256;

/// Builds an engine over rules.
pub type BuildEngine =
    dyn Fn(&Ruleset, &BuildOptions) -> Result<Box<dyn Classifier>, ClassifyError> + Send + Sync;

/// How tables look bursts up with [`Lookup::Engine`](crate::Lookup::Engine): by default with
/// `turbo` on the calling thread, 256 packets at a time.
///
/// An engine of a device needs longer bursts. It gets changes of flows in place, as any other does.
#[derive(Clone)]
pub struct TableEngines {
    build: Arc<BuildEngine>,
    burst_len: usize,
}

impl TableEngines {
    /// Engines that `build` makes, for bursts of at most `burst_len` packets.
    ///
    /// # Panics
    /// If `burst_len` is 0: a caller bug, not an input.
    pub fn new(build: Arc<BuildEngine>, burst_len: usize) -> Self {
        assert!(burst_len > 0, "bursts without packets");
        Self { build, burst_len }
    }

    /// Packets that are looked up together at most, without a cache.
    pub fn burst_len(&self) -> usize {
        self.burst_len
    }

    pub(crate) fn build(
        &self,
        ruleset: &Ruleset,
        options: &BuildOptions,
    ) -> Result<Box<dyn Classifier>, ClassifyError> {
        (self.build)(ruleset, options)
    }
}

impl Default for TableEngines {
    fn default() -> Self {
        Self::new(Arc::new(|ruleset, options| build(Engine::Turbo, ruleset, options)), BURST_LEN)
    }
}

impl fmt::Debug for TableEngines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableEngines(bursts of {})", self.burst_len)
    }
}
