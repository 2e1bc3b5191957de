//! The engine: versions, batches, and changes in order.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use warpswitch_packet::sync::{Epochs, LeftRight};
use warpswitch_rules::{KeyBatch, RuleId, RuleRef, Ruleset, Schema};

use super::build::{Bound, Built, Shape, build};
use super::change::{Change, IdSet, Writer, collect};
use super::list::Collected;
use super::log::{ChangeLog, Notes, Verdict};
use super::rows::Row;
use super::state::State;
use crate::arch::turbo::{BATCH_LEN_MAX, Kernel, Scratch};
use crate::classifier::{BuildOptions, Classifier, Detail, Engine, check_batch};
use crate::error::{ClassifyError, ErrorKind};

/// A thread's memory for walks, and where it looks for a free place among the readers.
struct Walker {
    scratch: Box<Scratch>,
    place: Option<usize>,
}

thread_local! {
    static WALKER: RefCell<Walker> =
        RefCell::new(Walker { scratch: Box::new(Scratch::new()), place: None });
}

/// The engine over keys of `W` words.
pub(crate) struct Turbo<const W: usize> {
    schema: &'static Schema,
    kernel: Kernel,
    published: LeftRight<Arc<State>>,
    epochs: Epochs,
    log: ChangeLog<W>,
    /// Held for the whole of a change.
    writer: Mutex<Writer>,
    /// Figures of the last build.
    shape: Mutex<Shape>,
    /// Mirrors the writer's count, so that asking does not wait for a change.
    rules: AtomicUsize,
    options: BuildOptions,
    /// Whether leaves may be lanes.
    lanes: bool,
}

impl<const W: usize> Turbo<W> {
    /// Builds the structure.
    pub(crate) fn build(ruleset: &Ruleset, options: &BuildOptions) -> Result<Self, ClassifyError> {
        let kernel = Kernel::best();
        Self::build_for(ruleset, options, kernel, kernel.prefers_lanes())
    }

    fn build_for(
        ruleset: &Ruleset,
        options: &BuildOptions,
        kernel: Kernel,
        lanes: bool,
    ) -> Result<Self, ClassifyError> {
        let (epochs, log) = (Epochs::new(), ChangeLog::new());
        let mut ids = IdSet::default();
        for id in ruleset.ids() {
            ids.insert(id);
        }
        let beside = epochs.bytes() + log.bytes() + ids.bytes();
        let bound = Bound { bytes_max: options.bytes_max, beside };
        let Built { state, allocator, shape } = build(ruleset, bound, options.hash_seed, lanes)?;
        let state = Arc::new(state);
        Ok(Self {
            schema: ruleset.schema(),
            kernel,
            published: LeftRight::new(state.clone(), state),
            epochs,
            log,
            rules: AtomicUsize::new(ids.len()),
            writer: Mutex::new(Writer::new(allocator, ids)),
            shape: Mutex::new(shape),
            options: *options,
            lanes,
        })
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("a change panicked")
    }

    /// Answers up to [`BATCH_LEN_MAX`] keys, each exactly.
    fn classify_batch(&self, keys: &[[u32; W]], out: &mut [RuleId], walker: &mut Walker) {
        let before = self.log.before();
        self.walk(keys, out, walker);
        match self.log.verdict(self.log.after(before)) {
            Verdict::Exact => {}
            Verdict::Recheck(notes) => self.recheck(&notes, keys, out, walker),
            Verdict::Unknown if keys.len() == 1 => {
                self.classify_key(&keys[0], &mut out[0], walker);
            }
            // Fewer changes begin while fewer keys are looked up.
            Verdict::Unknown => {
                let (keys, more_keys) = keys.split_at(keys.len() / 2);
                let (out, more_out) = out.split_at_mut(keys.len());
                self.classify_batch(keys, out, walker);
                self.classify_batch(more_keys, more_out, walker);
            }
        }
    }

    fn walk(&self, keys: &[[u32; W]], out: &mut [RuleId], walker: &mut Walker) {
        let state = self.published.read();
        let place = *walker.place.get_or_insert_with(|| self.epochs.place());
        let _pin = self.epochs.pin(place);
        state.classify(self.kernel, keys, out, &mut walker.scratch);
    }

    /// Looks up again, one by one, the keys that two of the changes match.
    fn recheck(
        &self,
        notes: &Notes<W>,
        keys: &[[u32; W]],
        out: &mut [RuleId],
        walker: &mut Walker,
    ) {
        for (key, answer) in keys.iter().zip(out) {
            if notes.doubt(key) {
                self.classify_key(key, answer, walker);
            }
        }
    }

    /// Answers one key, until no two changes that match it began meanwhile.
    fn classify_key(&self, key: &[u32; W], answer: &mut RuleId, walker: &mut Walker) {
        loop {
            let before = self.log.before();
            self.walk(std::slice::from_ref(key), std::slice::from_mut(answer), walker);
            if !self.log.doubts(self.log.after(before), key) {
                return;
            }
        }
    }

    /// Bytes that are not the structure's own.
    fn bytes_beside(&self, writer: &Writer) -> usize {
        writer.bytes() + self.bytes_beside_empty()
    }

    /// The same, without the writer's lists, which a build starts afresh.
    fn bytes_beside_empty(&self) -> usize {
        self.epochs.bytes() + self.log.bytes()
    }

    fn check_rule(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        if rule.matching.value.len() != W || rule.matching.ports_word != self.schema.ports_word {
            let message = format!("a rule of another schema than {}", self.schema.name);
            return Err(ClassifyError::new(ErrorKind::SchemaMismatch, message));
        }
        if !rule.id.is_some() {
            let message = "the id that stands for no rule";
            return Err(ClassifyError::new(ErrorKind::SchemaMismatch, message));
        }
        Ok(())
    }

    /// Publishes a version that another allocator belongs to.
    fn publish(&self, writer: &mut Writer, state: State, allocator: super::arena::Allocator) {
        let state = Arc::new(state);
        self.published.change_always(|side| *side = state.clone());
        writer.allocator = allocator;
        writer.forget_rows();
    }

    /// Builds everything anew from the rules of `list`, of which `changed` is new or gone.
    fn rebuild(
        &self,
        writer: &mut Writer,
        list: &Collected,
        changed: RuleRef<'_>,
    ) -> Result<(), ClassifyError> {
        let ids = writer.ids.bytes_with(changed.id) - writer.ids.bytes();
        let beside = self.bytes_beside_empty() + writer.ids.bytes() + ids;
        let bound = Bound { bytes_max: self.options.bytes_max, beside };
        let Built { state, allocator, shape } =
            build(list, bound, self.options.hash_seed, self.lanes)?;
        self.log.start(&changed.matching);
        self.publish(writer, state, allocator);
        self.log.finish();
        writer.start_afresh();
        *self.shape.lock().expect("a change panicked") = shape;
        Ok(())
    }

    /// Makes sure that `rule` can be entered or taken out in place, and gives the version to do it
    /// in; `None` if only a build can.
    fn make_room(
        &self,
        writer: &mut Writer,
        state: Arc<State>,
        rule: RuleRef<'_>,
        change: Change,
    ) -> Option<Arc<State>> {
        let words = writer.words_needed(&state, rule, change);
        // Lists may double when one more block is put aside.
        let lists = 2 * self.bytes_beside(writer) + writer.ids.bytes_with(rule.id) + words * 4;
        let fits = |state: &State| state.bytes() + lists <= self.options.bytes_max;
        if writer.has_room(words) {
            return fits(&state).then_some(state);
        }
        writer.allocator.reclaim(self.epochs.advance());
        let words = writer.words_needed(&state, rule, change);
        if writer.has_room(words) && fits(&state) {
            return Some(state);
        }
        let (grown, allocator) = writer.grown(&state, words);
        if !fits(&grown) || !addressable(&grown) {
            return None;
        }
        self.publish(writer, grown, allocator);
        Some(self.published.read().clone())
    }
}

/// Whether references reach every word.
fn addressable(state: &State) -> bool {
    let units = state.words.as_slice().len() / crate::arch::turbo::UNIT;
    units < 1 << crate::arch::turbo::OFFSET_BITS
}

impl<const W: usize> Classifier for Turbo<W> {
    fn engine(&self) -> Engine {
        Engine::Turbo
    }

    fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn len(&self) -> usize {
        self.rules.load(Ordering::Relaxed)
    }

    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        check_batch(self.schema, keys, out);
        let (keys, _) = keys.words().as_chunks::<W>();
        WALKER.with_borrow_mut(|walker| {
            for (keys, out) in keys.chunks(BATCH_LEN_MAX).zip(out.chunks_mut(BATCH_LEN_MAX)) {
                self.classify_batch(keys, out, walker);
            }
        });
    }

    fn insert(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        self.check_rule(rule)?;
        let mut writer = self.writer();
        if writer.ids.contains(rule.id) {
            let message = format!("a rule with id {} already exists", rule.id);
            return Err(ClassifyError::new(ErrorKind::DuplicateRule, message));
        }
        let state = self.published.read().clone();
        let fits = state.format.fits(rule) && !writer.is_crowded();
        let room = if fits {
            self.make_room(&mut writer, state.clone(), rule, Change::Insert)
        } else {
            None
        };
        match room {
            Some(state) => {
                self.log.start(&rule.matching);
                writer.insert(&state, &self.epochs, rule);
                self.log.finish();
            }
            None => {
                // At the bound, a build a change would be a change for the price of all rules.
                if fits && !writer.build_is_due() {
                    let bytes = state.bytes() + 2 * self.bytes_beside(&writer);
                    let rules = vec![rule.id];
                    return Err(ClassifyError::memory_bound(bytes, self.options.bytes_max, rules));
                }
                let mut list = collect(&state, self.schema);
                list.rows.push(Row::of(rule));
                self.rebuild(&mut writer, &list, rule)?;
                writer.ids.insert(rule.id);
            }
        }
        self.rules.store(writer.ids.len(), Ordering::Relaxed);
        Ok(())
    }

    fn remove(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        let mut writer = self.writer();
        let state = self.published.read().clone();
        if self.check_rule(rule).is_err() || !writer.has(&state, rule) {
            let message = format!("no rule with id {} and this priority and match exists", rule.id);
            return Err(ClassifyError::new(ErrorKind::UnknownRule, message));
        }
        match self.make_room(&mut writer, state.clone(), rule, Change::Remove) {
            Some(state) => {
                self.log.start(&rule.matching);
                writer.remove(&state, &self.epochs, rule);
                self.log.finish();
            }
            None => {
                let mut list = collect(&state, self.schema);
                list.rows.retain(|row| row.id != rule.id);
                self.rebuild(&mut writer, &list, rule)?;
                writer.ids.remove(rule.id);
            }
        }
        self.rules.store(writer.ids.len(), Ordering::Relaxed);
        Ok(())
    }

    fn bytes(&self) -> usize {
        let writer = self.writer();
        self.published.read().bytes() + self.bytes_beside(&writer)
    }

    fn details(&self) -> Vec<Detail> {
        let shape = *self.shape.lock().expect("a change panicked");
        let tables = self.published.read().tables.len();
        let rules = self.len().max(1) as f64;
        [
            ("tables", tables as f64),
            ("cuts", shape.cuts as f64),
            ("leaves", shape.leaves as f64),
            ("rows_per_rule", shape.rows as f64 / rules),
            ("leaf_rules_max", shape.leaf_rules_max as f64),
            ("vector_bits", f64::from(self.kernel.bits())),
        ]
        .map(|(name, value)| Detail { name, value })
        .to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turbo::leaf::Layout;
    use crate::turbo::rows::nested;
    use warpswitch_rules::generate::{Family, Point, RulesetSpec, Style, SyntheticSpec, TraceSpec};
    use warpswitch_rules::{KeyBuf, linear};

    fn check<const W: usize>(ruleset: &Ruleset) {
        let keys = keys_inside(ruleset, 1500);
        let mut expected = vec![RuleId::NONE; keys.len()];
        linear::classify(ruleset, keys.as_batch(), &mut expected);
        let kernels = Kernel::available();
        for (kernel, lanes) in kernels.into_iter().flat_map(|k| [(k, false), (k, true)]) {
            let options = BuildOptions { hash_seed: 5, ..BuildOptions::default() };
            let turbo = Turbo::<W>::build_for(ruleset, &options, kernel, lanes).expect("no bound");
            let mut found = vec![RuleId::NONE; keys.len()];
            turbo.classify(keys.as_batch(), &mut found);
            assert!(found == expected, "{kernel:?}, lanes: {lanes}, on {} rules", ruleset.len());
        }
    }

    /// Leaves that are shared and rows that are hidden come apart and together again as rules come
    /// and go.
    #[test]
    fn changes_in_lanes_answer_as_the_reference() {
        let mut seeds = crate::hash::SeedStream::new(11, 11);
        let kernels = Kernel::available().into_iter();
        for (kernel, priorities) in kernels.flat_map(|kernel| [(kernel, 1), (kernel, 5)]) {
            let (all, options) = (nested(400, priorities), BuildOptions::default());
            let mut there = vec![true; all.len()];
            let turbo = Turbo::<4>::build_for(&all, &options, kernel, true).expect("no bound");
            assert_eq!(turbo.published.read().format.layout, Layout::Lanes);
            let keys = keys_inside(&all, 600);
            for round in 0..40 {
                for _ in 0..10 {
                    let id = RuleId((seeds.next() % all.len() as u64) as u32);
                    let is_there = &mut there[id.0 as usize];
                    let changed = match *is_there {
                        true => turbo.remove(all.rule(id)),
                        false => turbo.insert(all.rule(id)),
                    };
                    changed.expect("no bound");
                    *is_there = !*is_there;
                }
                check_answers(&turbo, &all, &there, &keys, round);
            }
        }
    }

    /// A rule whose id has no place in the list of priorities comes by a build, in lanes again.
    #[test]
    fn lanes_take_rules_of_later_ids_and_other_priorities() {
        let (all, options) = (nested(400, 5), BuildOptions::default());
        let keys = keys_inside(&all, 600);
        for kernel in Kernel::available() {
            let turbo = Turbo::<4>::build_for(&all, &options, kernel, true).expect("no bound");
            let later = |rule: RuleRef<'_>| RuleId(rule.id.0 + 5_000);
            for rule in all.iter() {
                turbo.remove(rule).expect("it is there");
                let moved = RuleRef { id: later(rule), priority: 4 - rule.priority, ..rule };
                assert!(turbo.remove(moved).is_err(), "it is not there yet");
                turbo.insert(moved).expect("no bound");
                assert!(turbo.remove(RuleRef { priority: 9, ..moved }).is_err(), "it has another");
            }
            assert_eq!(turbo.published.read().format.layout, Layout::Lanes);
            let mut found = vec![RuleId::NONE; keys.len()];
            turbo.classify(keys.as_batch(), &mut found);
            for (key, id) in keys.as_batch().iter().zip(found) {
                let matches = all.iter().filter(|rule| rule.matching.matches(key));
                let best = matches.min_by_key(|&rule| {
                    RuleRef { id: later(rule), priority: 4 - rule.priority, ..rule }.precedence()
                });
                assert_eq!(id, best.map_or(RuleId::NONE, later), "{key:x?}");
            }
        }
    }

    fn keys_inside(ruleset: &Ruleset, keys_max: usize) -> KeyBuf {
        let trace = TraceSpec {
            keys: keys_max,
            point: Point::Inside,
            locality: None,
            realisable: false,
            seed: 3,
        };
        let mut keys = KeyBuf::new(ruleset.schema());
        trace.generate(ruleset).fill(&mut keys, usize::MAX);
        keys
    }

    fn check_answers(turbo: &Turbo<4>, all: &Ruleset, there: &[bool], keys: &KeyBuf, round: usize) {
        let mut found = vec![RuleId::NONE; keys.len()];
        turbo.classify(keys.as_batch(), &mut found);
        for (idx, id) in found.iter().enumerate() {
            let key = keys.as_batch().key(idx);
            let matches = all.iter().filter(|rule| there[rule.id.0 as usize]);
            let matches = matches.filter(|rule| rule.matching.matches(key));
            let best = matches.min_by_key(|rule| rule.precedence());
            assert_eq!(*id, best.map_or(RuleId::NONE, |rule| rule.id), "round {round}, {key:x?}");
        }
    }

    #[test]
    fn every_kernel_answers_as_the_reference() {
        for rules in [1, 16, 17, 40, 300, 1000, 3000] {
            for style in [Style::Acl, Style::Fw, Style::Ipc] {
                let spec = |family| RulesetSpec { style, family, rules, seed: 7 };
                check::<4>(&spec(Family::Ipv4).generate());
                check::<10>(&spec(Family::Ipv6).generate());
            }
        }
        let synthetic =
            SyntheticSpec { rules: 800, tuples: 40, full: 10, overlap: 3, fields: 12, seed: 9 };
        check::<10>(&synthetic.generate().expect("a possible set"));
    }
}
