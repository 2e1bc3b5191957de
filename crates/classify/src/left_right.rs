//! Changes while readers run, for engines that change in place: the index exists twice.
//!
//! Readers use one copy while the writer changes the other; see [`LeftRight`] for why a batch sees
//! exactly one version. The memory bound covers both copies and the writer's list of rules.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpswitch_packet::sync::LeftRight;
use warpswitch_rules::{KeyBatch, RuleId, RuleRef, Ruleset, Schema};

use crate::classifier::{BuildOptions, Classifier, Detail, Engine, check_batch};
use crate::error::ClassifyError;
use crate::index::{ChangeIndex, TooLarge};
use crate::store::RuleStore;

/// A classifier over two copies of `I`.
pub(crate) struct TwoCopies<I> {
    schema: &'static Schema,
    copies: LeftRight<I>,
    /// The writer's rules; its lock puts changes in order.
    store: Mutex<RuleStore>,
    /// Mirrors `store.len()`, so that asking does not wait for a writer.
    rules: AtomicUsize,
    bytes_max: usize,
}

impl<I: ChangeIndex> TwoCopies<I> {
    /// Builds the index once and copies it.
    pub(crate) fn build(ruleset: &Ruleset, options: &BuildOptions) -> Result<Self, ClassifyError> {
        let store = RuleStore::build(ruleset, options.bytes_max)?;
        let bytes_max = copy_max(options.bytes_max, store.bytes());
        let index = I::build(&(), &store, bytes_max, options.hash_seed)
            .map_err(|too_large| refusal(too_large, store.bytes(), options.bytes_max))?;
        Ok(Self {
            schema: ruleset.schema(),
            rules: AtomicUsize::new(store.len()),
            copies: LeftRight::new(index.clone(), index),
            store: Mutex::new(store),
            bytes_max: options.bytes_max,
        })
    }

    fn store(&self) -> std::sync::MutexGuard<'_, RuleStore> {
        self.store.lock().expect("a change panicked")
    }
}

/// What one copy may take beside a store of `store_bytes`.
fn copy_max(bytes_max: usize, store_bytes: usize) -> usize {
    match bytes_max {
        usize::MAX => usize::MAX,
        _ => bytes_max.saturating_sub(store_bytes) / 2,
    }
}

/// The error for the whole, from what one copy would take.
fn refusal(too_large: TooLarge, store_bytes: usize, bytes_max: usize) -> ClassifyError {
    let bytes = too_large.bytes.saturating_mul(2).saturating_add(store_bytes);
    ClassifyError::memory_bound(bytes, bytes_max, too_large.rules)
}

impl<I: ChangeIndex> Classifier for TwoCopies<I> {
    fn engine(&self) -> Engine {
        I::ENGINE
    }

    fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn len(&self) -> usize {
        self.rules.load(Ordering::Relaxed)
    }

    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        check_batch(self.schema, keys, out);
        self.copies.read().classify(keys, &mut out[..keys.len()]);
    }

    fn insert(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        let mut store = self.store();
        store.check_insert(rule)?;
        let store_bytes = store.bytes_after_insert();
        if store_bytes > self.bytes_max {
            return Err(ClassifyError::memory_bound(store_bytes, self.bytes_max, vec![rule.id]));
        }
        let copy_max = copy_max(self.bytes_max, store_bytes);
        let changed = self.copies.change(
            |copy| copy.insert(rule, copy_max),
            // The first copy took it within the bound, and this one is its equal.
            |copy| copy.insert(rule, usize::MAX).expect("no bound to pass"),
        );
        changed.map_err(|too_large| refusal(too_large, store_bytes, self.bytes_max))?;
        store.insert(rule);
        self.rules.store(store.len(), Ordering::Relaxed);
        Ok(())
    }

    fn remove(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        let mut store = self.store();
        store.remove(rule)?;
        self.copies.change_always(|copy| copy.remove(rule));
        self.rules.store(store.len(), Ordering::Relaxed);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.store().bytes() + 2 * self.copies.read().bytes()
    }

    fn details(&self) -> Vec<Detail> {
        self.copies.read().details()
    }
}
