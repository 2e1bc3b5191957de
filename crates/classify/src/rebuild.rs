//! Changes while readers run, for engines that do not change in place: a new index is built aside
//! and published with one swap.
//!
//! A change costs a build, a group of changes one as well; where that would pass the memory bound,
//! one for each change up to the one that does not fit. Readers notice nothing of it: a batch runs
//! on the index that was current when it began, which is freed once the writer has swapped it out
//! of both sides and the last batch on it has ended. The memory bound covers the index and the
//! writer's list of rules; while a change is being built the former index exists beside the new
//! one.

use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use warpswitch_packet::sync::LeftRight;
use warpswitch_rules::{KeyBatch, RuleId, RuleRef, Ruleset, Schema};

use crate::classifier::{
    BuildOptions, Classifier, Detail, Engine, Refused, RuleChange, check_batch,
};
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

    /// Makes one change, with an index of its own.
    fn make(&self, store: &mut RuleStore, change: &RuleChange<'_>) -> Result<(), ClassifyError> {
        let room = store.room();
        store.make(change)?;
        let built = build_index(&self.device, store, &self.options);
        let index = built.inspect_err(|_| store.undo(slice::from_ref(change), room))?;
        self.publish(index, store);
        Ok(())
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
        self.make(&mut self.store(), &RuleChange::Insert(rule))
    }

    fn remove(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        self.make(&mut self.store(), &RuleChange::Remove(rule))
    }

    fn change(&self, changes: &[RuleChange<'_>]) -> Result<(), Refused> {
        let mut store = self.store();
        let room = store.room();
        let mut all = changes.iter().enumerate();
        let result = all.try_for_each(|(made, change)| {
            store.make(change).map_err(|error| Refused { made, error })
        });
        let made = result.as_ref().map_or_else(|refused| refused.made, |()| changes.len());
        if made == 0 {
            return result;
        }
        if let Ok(index) = build_index(&self.device, &store, &self.options) {
            self.publish(index, &store);
            return result;
        }
        // As many as fit.
        store.undo(&changes[..made], room);
        for (made, change) in changes[..made].iter().enumerate() {
            self.make(&mut store, change).map_err(|error| Refused { made, error })?;
        }
        result
    }

    fn bytes(&self) -> usize {
        self.store().bytes() + self.published.read().bytes()
    }

    fn details(&self) -> Vec<Detail> {
        self.published.read().details()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::index::TooLarge;
    use warpswitch_rules::schema::OPENFLOW12;
    use warpswitch_rules::{Action, Match, Rule, RulesetBuilder};

    /// An index that knows how many rules it was built of; its device counts builds.
    struct Counted(usize);

    const RULES_MAX: usize = 12;

    impl Index for Counted {
        const ENGINE: Engine = Engine::Linear;

        type Device = Arc<AtomicUsize>;

        fn build(
            device: &Self::Device,
            store: &RuleStore,
            _: usize,
            _: u64,
        ) -> Result<Self, TooLarge> {
            device.fetch_add(1, Ordering::Relaxed);
            match store.len() {
                rules if rules > RULES_MAX => Err(TooLarge { bytes: rules, rules: Vec::new() }),
                rules => Ok(Self(rules)),
            }
        }

        fn classify(&self, _: KeyBatch<'_>, out: &mut [RuleId]) {
            out.fill(RuleId(self.0 as u32));
        }

        fn bytes(&self) -> usize {
            self.0
        }

        fn details(&self) -> Vec<Detail> {
            Vec::new()
        }
    }

    fn ruleset(rules: usize) -> Ruleset {
        let mut builder = RulesetBuilder::new(&OPENFLOW12);
        for _ in 0..rules {
            builder.push(Rule::new(Match::any(&OPENFLOW12), Action::Pass));
        }
        builder.build()
    }

    /// Makes a group over ten rules; what came of it, builds and rules after it.
    fn check(group: &[RuleChange<'_>]) -> (Result<(), (usize, ErrorKind)>, usize, usize) {
        let builds = Arc::new(AtomicUsize::new(0));
        let options = BuildOptions { bytes_max: usize::MAX, hash_seed: 1 };
        let engine = Rebuild::<Counted>::build(builds.clone(), &ruleset(10), &options).unwrap();
        let result = engine.change(group).map_err(|refused| (refused.made, refused.error.kind()));
        let mut out = [RuleId(0)];
        engine.classify(KeyBatch::new(&OPENFLOW12, &[0; 10]), &mut out);
        assert_eq!((out[0].as_usize(), engine.store().len()), (engine.len(), engine.len()));
        (result, builds.load(Ordering::Relaxed) - 1, engine.len())
    }

    #[test]
    fn a_group_is_one_build_and_as_much_of_it_as_fits() {
        let all = ruleset(20);
        let insert = |id| RuleChange::Insert(all.rule(RuleId(id)));
        let remove = |id| RuleChange::Remove(all.rule(RuleId(id)));
        assert_eq!(check(&[]), (Ok(()), 0, 10));
        assert_eq!(check(&[insert(10), remove(3), insert(11), insert(12)]), (Ok(()), 1, 12));
        // Too many in between, but not in the end.
        let group = [insert(10), insert(11), insert(12), remove(0)];
        assert_eq!(check(&group), (Ok(()), 1, 12));
        let unknown = Err((1, ErrorKind::UnknownRule));
        assert_eq!(check(&[insert(10), remove(15), insert(11)]), (unknown, 1, 11));
        let unknown = Err((0, ErrorKind::UnknownRule));
        assert_eq!(check(&[remove(15), insert(11)]), (unknown, 0, 10));
        // One build of the group, four of its changes; the last one does not fit.
        let group = [insert(10), remove(1), insert(1), insert(11), insert(12), insert(13)];
        let bound = Err((4, ErrorKind::MemoryBound));
        assert_eq!(check(&group), (bound, 6, 12));
    }
}
