//! What an engine gives, apart from sharing it between threads.

use warpswitch_rules::{KeyBatch, RuleId, RuleRef};

use crate::classifier::{Detail, Engine};
use crate::error::ClassifyError;
use crate::store::RuleStore;

/// A structure for lookup, owned by one thread or read by many.
pub(crate) trait Index: Send + Sync + Sized + 'static {
    /// Which engine it is.
    const ENGINE: Engine;

    /// Arranges the rules of `store` within `bytes_max`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::MemoryBound`], found out before the memory is taken.
    fn build(store: &RuleStore, bytes_max: usize, hash_seed: u64) -> Result<Self, ClassifyError>;

    /// [`crate::Classifier::classify`], for keys and room that were checked.
    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]);

    /// Bytes of memory it takes.
    fn bytes(&self) -> usize;

    /// Figures that describe it.
    fn details(&self) -> Vec<Detail>;
}

/// An index that changes at the cost of the change.
///
/// Two clones that are given the same changes stay equal.
pub(crate) trait ChangeIndex: Index + Clone {
    /// Adds a rule whose id is new.
    ///
    /// # Errors
    /// [`crate::ErrorKind::MemoryBound`] if the index would pass `bytes_max`; nothing has changed
    /// then.
    fn insert(&mut self, rule: RuleRef<'_>, bytes_max: usize) -> Result<(), ClassifyError>;

    /// Takes out a rule that is there.
    fn remove(&mut self, rule: RuleRef<'_>);
}
