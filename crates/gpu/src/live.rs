//! A classifier on a device whose rules change while it is used.
//!
//! Rules change in the writer's model (`image::live`); the image lies on the device in three copies
//! (`copies`), one of which batches see while another one is patched.
//!
//! # What an update costs
//! For `turbo` the units of one leaf, mostly one to three, and one for each reference to it, all of
//! them three times, as each copy gets them: some 220 bytes; on a card 8 us for each group. The
//! floor for 100K rules that change at 10 M/s would be 2.2 GB/s, a twentieth of the link: it is the
//! writer that limits.
//!
//! What cannot be done in place (no room, a rule that the layout cannot hold, too many long leaves;
//! for `linear` every change) is a new image, one for a whole group; lookups go on in the former
//! one while it is built. Where that image is refused, as it would pass a bound, the group is taken
//! back and made change by change, so that those before the one that does not fit are there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use warpswitch_classify::parts::{RuleStore, TooLarge};
use warpswitch_classify::{
    BuildOptions, Classifier, ClassifyError, Detail, Engine, Refused, RuleChange,
};
use warpswitch_rules::{KeyBatch, RuleId, RuleRef, Ruleset, Schema};

use crate::copies::{COPIES, Copies, Idle};
use crate::device::{Device, Loaded};
use crate::engine::classify_on;
use crate::image::{Algorithm, Image, Live, Patch};
use crate::resident::{Lane, Lanes};

/// See the module. Threads: any number classify, changes are put in order by a lock.
#[derive(Debug)]
pub struct LiveEngine {
    device: Arc<Device>,
    algorithm: Algorithm,
    schema: &'static Schema,
    lanes: Lanes,
    copies: Copies<Image>,
    writer: Mutex<Writer>,
    /// Mirrors the store's count, so that asking does not wait for a change.
    rules: AtomicUsize,
    options: BuildOptions,
}

/// What the writer has.
#[derive(Debug)]
struct Writer {
    store: RuleStore,
    /// `None`: every change needs a new image.
    live: Option<Live>,
    /// The store has changes that neither the model nor what is published has.
    is_ahead: bool,
    idle: Idle<Image>,
    patch: Patch,
    figures: Figures,
}

/// What changes have cost so far.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    versions: usize,
    builds: usize,
    patched_units: usize,
    copies: usize,
}

/// What is built for `store` within `bytes_max`.
fn arrange(
    device: &Device,
    algorithm: Algorithm,
    store: &RuleStore,
    options: &BuildOptions,
) -> Result<(Image, Option<Live>), ClassifyError> {
    let bytes_max = match options.bytes_max {
        usize::MAX => usize::MAX,
        bytes => bytes.saturating_sub(store.bytes()),
    };
    let refused = |too_large: TooLarge| {
        let bytes = too_large.bytes.saturating_add(store.bytes());
        ClassifyError::memory_bound(bytes, options.bytes_max, too_large.rules)
    };
    let built = Image::build_live(algorithm, store, bytes_max, options.hash_seed);
    let (image, live) = built.map_err(refused)?;
    let bytes = image_bytes(device, &image, live.as_ref());
    if bytes > bytes_max {
        let rules = store.places_by_precedence().into_iter().take(8);
        let rules = rules.map(|place| store.rule(place).id).collect();
        return Err(refused(TooLarge { bytes, rules }));
    }
    Ok((image, live))
}

/// Bytes of all copies of an image and of what changes it, whether they are there yet or not.
fn image_bytes(device: &Device, image: &Image, live: Option<&Live>) -> usize {
    let on_device = if device.is_card() { 2 } else { 1 };
    match live {
        Some(live) => COPIES * on_device * image.bytes() + live.bytes(),
        None => on_device * image.bytes(),
    }
}

impl LiveEngine {
    /// Builds `algorithm` over `ruleset` on `device`.
    ///
    /// # Errors
    /// [`warpswitch_classify::ErrorKind::MemoryBound`]: the bound covers all copies.
    pub fn build(
        device: &Arc<Device>,
        algorithm: Algorithm,
        ruleset: &Ruleset,
        options: &BuildOptions,
    ) -> Result<Self, ClassifyError> {
        let store = RuleStore::build(ruleset, options.bytes_max)?;
        let (image, live) = arrange(device, algorithm, &store, options)?;
        let loaded = device.load_or_retire(Arc::new(image));
        device.prepare_patches();
        let figures = Figures { builds: 1, versions: 1, ..Figures::default() };
        let rules = AtomicUsize::new(store.len());
        let patch = Patch::default();
        Ok(Self {
            device: device.clone(),
            algorithm,
            schema: ruleset.schema(),
            lanes: Lanes::default(),
            copies: Copies::new(loaded),
            writer: Mutex::new(Writer {
                store,
                live,
                is_ahead: false,
                idle: Idle::none(),
                patch,
                figures,
            }),
            rules,
            options: *options,
        })
    }

    /// The image that is current: what a batch that begins now is looked up in. Hold it for one
    /// batch, not longer: the third version after it waits for it.
    pub fn current(&self) -> Arc<Loaded> {
        self.copies.current()
    }

    /// A lane for small batches of one thread that drives chains; `None` if the device has none
    /// left, or [`Device::set_resident_use`] was not called.
    pub fn lane(&self) -> Option<Lane> {
        self.lanes.take(&self.device, self.schema, &self.current())
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().expect("a change panicked")
    }

    fn publish(&self, writer: &mut Writer, loaded: Arc<Loaded>) {
        self.copies.publish(&mut writer.idle, loaded);
        writer.is_ahead = false;
        writer.figures.versions += 1;
        self.rules.store(writer.store.len(), Ordering::Relaxed);
    }

    /// Publishes what the model has that the published copy has not.
    fn publish_changes(&self, writer: &mut Writer) {
        let Some(live) = writer.live.as_mut().filter(|live| live.is_changed()) else {
            return self.rules.store(writer.store.len(), Ordering::Relaxed);
        };
        live.patch(&mut writer.patch);
        writer.figures.patched_units += writer.patch.units.len();
        let current = self.current();
        let whole = || current.image().with_words(live);
        let is_new =
            self.copies.publish_patch(&self.device, &mut writer.idle, &writer.patch, whole);
        writer.figures.copies += usize::from(is_new);
        writer.figures.versions += 1;
        self.rules.store(writer.store.len(), Ordering::Relaxed);
    }

    /// Builds a new image of the store's rules and publishes it.
    fn rebuild(&self, writer: &mut Writer) -> Result<(), ClassifyError> {
        writer.live = None;
        let (image, live) = arrange(&self.device, self.algorithm, &writer.store, &self.options)?;
        writer.figures.builds += 1;
        let loaded = self.device.load_or_retire(Arc::new(image));
        self.publish(writer, loaded);
        // All copies are of the former layout.
        writer.idle = Idle::none();
        writer.live = live;
        Ok(())
    }

    /// After a build that was refused: the store is as it was before, and what is published may be
    /// some changes behind it. Rows in order always fit.
    fn settle(&self, writer: &mut Writer) {
        if self.rebuild(writer).is_err() {
            let seed = self.options.hash_seed;
            let image = Image::build(Algorithm::Linear, &writer.store, usize::MAX, seed);
            let image = Arc::new(image.expect("rows in order take less than the rules did"));
            let loaded = self.device.load_or_retire(image);
            self.publish(writer, loaded);
            writer.idle = Idle::none();
        }
    }

    /// Makes a change in the store, and in the model if there is one that can.
    fn make(&self, writer: &mut Writer, change: &RuleChange<'_>) -> Result<(), ClassifyError> {
        if let Some(live) = &mut writer.live
            && live.is_idle()
        {
            live.start(self.current().image().words());
        }
        match *change {
            RuleChange::Insert(rule) => self.make_insert(writer, rule),
            RuleChange::Remove(rule) => self.make_remove(writer, rule),
        }
    }

    fn make_insert(&self, writer: &mut Writer, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        writer.store.check_insert(rule)?;
        if let (Some(live), true) = (&writer.live, self.options.bytes_max != usize::MAX) {
            let image = image_bytes(&self.device, self.current().image(), Some(live));
            // The writer's lists may double when they grow.
            let bytes = writer.store.bytes_after_insert() + image + live.lists_bytes();
            if bytes > self.options.bytes_max {
                let (max, rules) = (self.options.bytes_max, vec![rule.id]);
                return Err(ClassifyError::memory_bound(bytes, max, rules));
            }
        }
        writer.store.insert(rule);
        let live = writer.live.as_mut();
        if live.is_none_or(|live| live.insert(&writer.store, rule).is_err()) {
            writer.get_ahead();
        }
        Ok(())
    }

    fn make_remove(&self, writer: &mut Writer, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        writer.store.remove(rule)?;
        if writer.live.as_mut().is_none_or(|live| live.remove(rule).is_err()) {
            writer.get_ahead();
        }
        Ok(())
    }

    /// Makes `changes`, which the rules allow, with a new image for each that needs one: what a
    /// group comes to whose image was refused. Ends at the first that does not fit.
    fn make_singly(&self, writer: &mut Writer, changes: &[RuleChange<'_>]) -> Result<(), Refused> {
        for (made, change) in changes.iter().enumerate() {
            let room = writer.store.room();
            let refused = |error| Refused { made, error };
            self.make(writer, change).map_err(refused)?;
            if writer.is_ahead {
                self.rebuild(writer).map_err(|error| {
                    writer.store.undo(std::slice::from_ref(change), room);
                    self.settle(writer);
                    Refused { made, error }
                })?;
            }
        }
        Ok(())
    }
}

impl Writer {
    /// The model is of no use any more.
    fn get_ahead(&mut self) {
        self.live = None;
        self.is_ahead = true;
    }
}

impl Classifier for LiveEngine {
    fn engine(&self) -> Engine {
        self.algorithm.engine()
    }

    fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn len(&self) -> usize {
        self.rules.load(Ordering::Relaxed)
    }

    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        assert_eq!(keys.words_per_key(), self.schema.words, "keys of another schema");
        let out = &mut out[..keys.len()];
        classify_on((&self.device, self.schema, &self.lanes), &self.current(), keys, out);
    }

    fn insert(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        self.change(&[RuleChange::Insert(rule)]).map_err(|refused| refused.error)
    }

    fn remove(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        self.change(&[RuleChange::Remove(rule)]).map_err(|refused| refused.error)
    }

    fn change(&self, changes: &[RuleChange<'_>]) -> Result<(), Refused> {
        let writer = &mut *self.writer();
        let room = writer.store.room();
        let mut all = changes.iter().enumerate();
        let mut result = all.try_for_each(|(made, change)| {
            self.make(writer, change).map_err(|error| Refused { made, error })
        });
        if writer.is_ahead && self.rebuild(writer).is_err() {
            let made = result.as_ref().map_or_else(|refused| refused.made, |()| changes.len());
            writer.store.undo(&changes[..made], room);
            result = self.make_singly(writer, &changes[..made]).and(result);
        }
        self.publish_changes(writer);
        result
    }

    fn bytes(&self) -> usize {
        let writer = self.writer();
        let image = image_bytes(&self.device, self.current().image(), writer.live.as_ref());
        writer.store.bytes() + image
    }

    fn details(&self) -> Vec<Detail> {
        let mut details = self.current().image().details();
        let image_bytes = self.current().image().bytes();
        let Figures { versions, builds, patched_units, copies } = self.writer().figures;
        let figures = [
            ("image_bytes", image_bytes),
            ("versions", versions),
            ("builds", builds),
            ("whole_copies", copies),
            ("patched_bytes", patched_units * 36),
        ];
        details.extend(figures.map(|(name, value)| Detail { name, value: value as f64 }));
        details.extend(self.device.memory_details());
        details
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostPool;
    use crate::testing::readers_see_whole_versions;
    use std::thread;
    use warpswitch_classify::ErrorKind;
    use warpswitch_classify::parts::SeedStream;
    use warpswitch_rules::generate::{Family, RulesetSpec, Style};
    use warpswitch_rules::schema::OPENFLOW12;
    use warpswitch_rules::{Action, KeyBuf, Match, Precedence, Rule, RulesetBuilder};
    use warpswitch_testkit::dense;

    fn pool(threads: usize) -> Arc<Device> {
        let pool = HostPool::new(threads, &mut |worker| _ = thread::spawn(worker));
        Device::from_pool(pool)
    }

    const OPTIONS: BuildOptions = BuildOptions { bytes_max: usize::MAX, hash_seed: 7 };

    /// Rules, keys, and for each key the rules that match it, the best first.
    struct Case {
        ruleset: Ruleset,
        keys: KeyBuf,
        matches: Vec<Vec<RuleId>>,
    }

    impl Case {
        fn new(ruleset: Ruleset, keys: usize) -> Self {
            let keys = dense::keys_near(&ruleset, keys, 12);
            let matches = keys.as_batch().iter().map(|key| {
                let hits = ruleset.iter().filter(|rule| rule.matching.matches(key));
                let mut hits: Vec<Precedence> = hits.map(|rule| rule.precedence()).collect();
                hits.sort_unstable();
                hits.into_iter().map(Precedence::id).collect()
            });
            let matches = matches.collect();
            Self { ruleset, keys, matches }
        }

        /// The rules of `present` that win.
        fn expected(&self, present: &[bool]) -> Vec<RuleId> {
            let there = |id: &&RuleId| present[id.as_usize()];
            let winner = |hits: &Vec<RuleId>| hits.iter().find(there).copied();
            self.matches.iter().map(|hits| winner(hits).unwrap_or(RuleId::NONE)).collect()
        }

        fn answers(&self, engine: &LiveEngine) -> Vec<RuleId> {
            let mut out = vec![RuleId(7); self.keys.len()];
            engine.classify(self.keys.as_batch(), &mut out);
            out
        }

        /// Draws a group of changes and notes them in `present`.
        fn draw(
            &self,
            len: usize,
            present: &mut [bool],
            seeds: &mut SeedStream,
        ) -> Vec<RuleChange<'_>> {
            let mut one = |_| {
                let id = seeds.next() as usize % present.len();
                present[id] = !present[id];
                let rule = self.ruleset.rule(RuleId(id as u32));
                if present[id] { RuleChange::Insert(rule) } else { RuleChange::Remove(rule) }
            };
            (0..len).map(&mut one).collect()
        }
    }

    /// The rules of `ruleset` with priorities, two to eight rules to each.
    fn with_priorities(ruleset: &Ruleset) -> Ruleset {
        let mut builder = RulesetBuilder::new(ruleset.schema());
        for id in ruleset.ids() {
            let mut rule = ruleset.to_rule(id);
            rule.priority = id.0.wrapping_mul(0x9e37_79b1) >> 23;
            builder.push(rule);
        }
        builder.build()
    }

    fn cases() -> Vec<Case> {
        let generated =
            |style, family, rules| RulesetSpec { style, family, rules, seed: 31 }.generate();
        let fw = generated(Style::Fw, Family::Ipv4, 900);
        vec![
            Case::new(with_priorities(&fw), 400),
            Case::new(fw, 400),
            Case::new(generated(Style::Acl, Family::Ipv4, 3000), 400),
            Case::new(generated(Style::Ipc, Family::Ipv6, 700), 300),
            Case::new(dense::ruleset(&OPENFLOW12, 200, 5, 3), 300),
        ]
    }

    /// After each group of changes the answers are the reference's, and mostly no image is built.
    #[test]
    fn groups_of_changes_equal_the_reference() {
        let device = pool(2);
        let cases = cases();
        let both = |one| cases.iter().map(move |case| (one, case));
        for (algorithm, case) in Algorithm::ALL.into_iter().flat_map(both) {
            // Each group of its changes is a new image.
            let is_rebuilt = algorithm == Algorithm::Linear;
            let ruleset = &case.ruleset;
            let engine = LiveEngine::build(&device, algorithm, ruleset, &OPTIONS).unwrap();
            let mut present = vec![true; ruleset.len()];
            let mut seeds = SeedStream::new(9, 9);
            for group in 0..120 {
                let len = 1 + seeds.next() as usize % 40;
                let changes = case.draw(len, &mut present, &mut seeds);
                engine.change(&changes).unwrap();
                let found = case.answers(&engine);
                let what = format!("{algorithm} {} {group}", ruleset.schema().name);
                assert_eq!(found, case.expected(&present), "{what}");
                assert_eq!(engine.len(), present.iter().filter(|&&there| there).count());
            }
            let details = engine.details();
            let figure = |name| details.iter().find(|detail| detail.name == name).unwrap().value;
            if is_rebuilt {
                assert_eq!((figure("builds"), figure("versions")), (121.0, 121.0));
                continue;
            }
            assert!(figure("builds") <= 5.0, "{algorithm} {details:?}");
            assert!(figure("versions") >= 120.0 && figure("patched_bytes") > 0.0, "{details:?}");
        }
    }

    /// Batches that run meanwhile see the rules as they were between two groups.
    #[test]
    fn batches_see_whole_groups() {
        let device = pool(2);
        let spec = RulesetSpec { style: Style::Fw, family: Family::Ipv4, rules: 400, seed: 5 };
        let case = Case::new(spec.generate(), 200);
        for algorithm in [Algorithm::Turbo, Algorithm::Linear] {
            whole_groups(&device, algorithm, &case);
        }
    }

    fn whole_groups(device: &Arc<Device>, algorithm: Algorithm, case: &Case) {
        let engine = LiveEngine::build(device, algorithm, &case.ruleset, &OPTIONS).unwrap();
        let mut present = vec![true; case.ruleset.len()];
        let mut seeds = SeedStream::new(2, 2);
        let (mut groups, mut versions) = (Vec::new(), vec![case.expected(&present)]);
        for _ in 0..300 {
            groups.push(case.draw(8, &mut present, &mut seeds));
            versions.push(case.expected(&present));
        }
        let change = |number: usize| engine.change(&groups[number]).unwrap();
        readers_see_whole_versions(&versions, || case.answers(&engine), change);
    }

    /// What cannot be made ends a group; what came before it is there.
    #[test]
    fn a_refused_change_ends_its_group() {
        let case = Case::new(dense::ruleset(&OPENFLOW12, 60, 4, 3), 100);
        let empty = Ruleset::empty(&OPENFLOW12);
        let engine = LiveEngine::build(&pool(1), Algorithm::Turbo, &empty, &OPTIONS).unwrap();
        let rule = |n| case.ruleset.rule(RuleId(n));
        let group = [
            RuleChange::Insert(rule(3)),
            RuleChange::Insert(rule(4)),
            RuleChange::Insert(rule(3)),
            RuleChange::Insert(rule(5)),
        ];
        let refused = engine.change(&group).unwrap_err();
        assert_eq!((refused.made, refused.error.kind()), (2, ErrorKind::DuplicateRule));
        let present: Vec<bool> = (0..case.ruleset.len()).map(|n| n == 3 || n == 4).collect();
        assert_eq!(case.answers(&engine), case.expected(&present));
    }

    /// An image of the whole group would pass the bound: as many changes as fit are there.
    #[test]
    fn a_group_that_does_not_fit_is_made_as_far_as_it_fits() {
        let spec = RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 400, seed: 3 };
        let case = Case::new(spec.generate(), 300);
        let ids: Vec<RuleId> = case.ruleset.ids().collect();
        let mut half = RulesetBuilder::new(case.ruleset.schema());
        ids[..200].iter().for_each(|&id| _ = half.push(case.ruleset.to_rule(id)));
        let half = half.build();
        let change = |id: &RuleId| {
            let rule = case.ruleset.rule(*id);
            if id.0.is_multiple_of(7) && id.0 < 200 {
                RuleChange::Remove(rule)
            } else {
                RuleChange::Insert(rule)
            }
        };
        let group: Vec<_> =
            ids.iter().filter(|id| id.0 >= 200 || id.0.is_multiple_of(7)).map(change).collect();
        for algorithm in Algorithm::ALL {
            let engine = LiveEngine::build(&pool(1), algorithm, &half, &OPTIONS).unwrap();
            let bytes_max = engine.bytes() * 5 / 4;
            let options = BuildOptions { bytes_max, ..OPTIONS };
            let engine = LiveEngine::build(&pool(1), algorithm, &half, &options).unwrap();
            let refused = engine.change(&group).unwrap_err();
            let what = format!("{algorithm} {refused:?}");
            assert_eq!(refused.error.kind(), ErrorKind::MemoryBound, "{what}");
            assert!(refused.made > 0 && engine.bytes() <= bytes_max, "{what}");
            let mut present: Vec<bool> = ids.iter().map(|id| id.0 < 200).collect();
            for change in &group[..refused.made] {
                match change {
                    RuleChange::Insert(rule) => present[rule.id.as_usize()] = true,
                    RuleChange::Remove(rule) => present[rule.id.as_usize()] = false,
                }
            }
            assert_eq!(case.answers(&engine), case.expected(&present), "{what}");
            assert_eq!(engine.len(), present.iter().filter(|&&there| there).count());
        }
    }

    /// Whoever holds on to a version keeps nobody from changing rules, and keeps that version.
    #[test]
    fn a_version_that_is_held_stays_as_it_was() {
        let mut builder = RulesetBuilder::new(&OPENFLOW12);
        for _ in 0..3 {
            builder.push(Rule::new(Match::any(&OPENFLOW12), Action::Pass));
        }
        let ruleset = builder.build();
        let engine = LiveEngine::build(&pool(1), Algorithm::Turbo, &ruleset, &OPTIONS).unwrap();
        let held = engine.current();
        for id in [0, 1] {
            engine.remove(ruleset.rule(RuleId(id))).unwrap();
        }
        let key = [0; 10];
        let mut out = [RuleId(7); 2];
        held.image().classify(KeyBatch::new(&OPENFLOW12, &key), &mut out[..1]);
        engine.classify(KeyBatch::new(&OPENFLOW12, &key), &mut out[1..]);
        assert_eq!(out, [RuleId(0), RuleId(2)]);
    }
}
