//! Changes while readers run, for engines that do not change in place: a new index is built aside
//! and published with one swap.
//!
//! A change costs a build. Readers notice nothing of it: a batch runs on the index that was
//! current when it began, which is freed once the writer has swapped it out of both sides and the
//! last batch on it has ended. The memory bound covers the index and the writer's list of rules;
//! while a change is being built the former index exists beside the new one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use warpswitch_packet::sync::LeftRight;
use warpswitch_rules::{KeyBatch, RuleId, RuleRef, Ruleset, Schema};

use crate::classifier::{BuildOptions, Classifier, Detail, Engine, check_batch};
use crate::error::ClassifyError;
use crate::index::Index;
use crate::store::RuleStore;

/// A classifier that replaces its index whole.
pub struct Rebuild<I: Index> {
    device: I::Device,
    schema: &'static Schema,
    published: LeftRight<Arc<I>>,
    /// The writer's rules; its lock puts changes in order.
    store: Mutex<RuleStore>,
    /// Mirrors `store.len()`, so that asking does not wait for a build.
    rules: AtomicUsize,
    options: BuildOptions,
}

impl<I: Index> Rebuild<I> {
    /// Builds the first index, on `device`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::MemoryBound`].
    pub fn build(
        device: I::Device,
        ruleset: &Ruleset,
        options: &BuildOptions,
    ) -> Result<Self, ClassifyError> {
        let store = RuleStore::build(ruleset, options.bytes_max)?;
        let index = Arc::new(build_index::<I>(&device, &store, options)?);
        Ok(Self {
            device,
            schema: ruleset.schema(),
            rules: AtomicUsize::new(store.len()),
            published: LeftRight::new(index.clone(), index),
            store: Mutex::new(store),
            options: *options,
        })
    }

    /// The index that is current: what a batch that begins now is looked up in.
    pub fn current(&self) -> Arc<I> {
        self.published.read().clone()
    }

    fn store(&self) -> MutexGuard<'_, RuleStore> {
        self.store.lock().expect("a change panicked")
    }

    fn publish(&self, index: I, store: &RuleStore) {
        let index = Arc::new(index);
        self.published.change_always(|side| *side = index.clone());
        self.rules.store(store.len(), Ordering::Relaxed);
    }
}

fn build_index<I: Index>(
    device: &I::Device,
    store: &RuleStore,
    options: &BuildOptions,
) -> Result<I, ClassifyError> {
    let index_max = options.bytes_max.saturating_sub(store.bytes());
    I::build(device, store, index_max, options.hash_seed).map_err(|too_large| {
        let bytes = too_large.bytes.saturating_add(store.bytes());
        ClassifyError::memory_bound(bytes, options.bytes_max, too_large.rules)
    })
}

impl<I: Index> Classifier for Rebuild<I> {
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
        self.published.read().classify(keys, &mut out[..keys.len()]);
    }

    fn insert(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        let mut store = self.store();
        store.check_insert(rule)?;
        let room = store.room();
        store.insert(rule);
        match build_index(&self.device, &store, &self.options) {
            Ok(index) => {
                self.publish(index, &store);
                Ok(())
            }
            Err(refused) => {
                store.take_back(rule, room);
                Err(refused)
            }
        }
    }

    fn remove(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        let mut store = self.store();
        store.remove(rule)?;
        match build_index(&self.device, &store, &self.options) {
            Ok(index) => {
                self.publish(index, &store);
                Ok(())
            }
            Err(refused) => {
                store.insert(rule);
                Err(refused)
            }
        }
    }

    fn bytes(&self) -> usize {
        self.store().bytes() + self.published.read().bytes()
    }

    fn details(&self) -> Vec<Detail> {
        self.published.read().details()
    }
}
