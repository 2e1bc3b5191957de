//! What an engine gives, apart from sharing it between threads.
//!
//! Engines of other crates (those on a device) implement [`Index`] too, and get changes, versions
//! and memory bounds from [`crate::parts::Rebuild`].

use warpswitch_rules::{KeyBatch, RuleId, RuleRef};

use crate::classifier::{Detail, Engine};
use crate::store::RuleStore;

/// An index that would pass its bound: the sharing around it adds its own bytes and makes the
/// caller's error of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// What it would take, at least.
    pub bytes: usize,
    /// The rules that take most of it, dearest first.
    pub rules: Vec<RuleId>,
}

/// A structure for lookup, owned by one thread or read by many.
pub trait Index: Send + Sync + Sized + 'static {
    /// Which engine it is.
    const ENGINE: Engine;

    /// Where it runs: the device that it is loaded to, or `()` for the calling thread's core.
    type Device: Clone + Send + Sync;

    /// Arranges the rules of `store` for `device` within `bytes_max`.
    ///
    /// # Errors
    /// If it would pass the bound; found out before much more than that is taken.
    fn build(
        device: &Self::Device,
        store: &RuleStore,
        bytes_max: usize,
        hash_seed: u64,
    ) -> Result<Self, TooLarge>;

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
pub(crate) trait ChangeIndex: Index<Device = ()> + Clone {
    /// Adds a rule whose id is new.
    ///
    /// # Errors
    /// If the index would pass `bytes_max`; nothing has changed then.
    fn insert(&mut self, rule: RuleRef<'_>, bytes_max: usize) -> Result<(), TooLarge>;

    /// Takes out a rule that is there.
    fn remove(&mut self, rule: RuleRef<'_>);
}
