//! A classifier over cores and a device: each batch goes where it costs less.
//!
//! Both have all rules. A change is made on the cores first, then on the device; it is visible to
//! all when both have it, and a batch sees one of the two sets as its path has it.

pub mod policy;

use std::sync::Arc;
use std::time::Duration;

use warpswitch_classify::parts::SeedStream;
use warpswitch_classify::{
    BuildOptions, Classifier, ClassifyError, Detail, Engine, Refused, RuleChange,
    build as build_on_cores,
};
use warpswitch_rules::{KeyBatch, KeyBuf, RuleId, RuleRef, Ruleset, Schema};

use crate::device::Device;
use crate::engine;
use crate::image::Algorithm;
use policy::{Measured, Path, Policy};

/// Lengths at which both paths are measured at the start.
const LENS: [usize; 5] = [1, 64, 1024, 8192, 65536];
/// How often each; the fastest counts.
const ROUNDS: usize = 4;

/// What the choice starts from.
#[derive(Clone, Copy, Debug)]
pub struct AutoOptions {
    /// The longest that a piece of a batch may take, as far as its length decides it.
    pub delay_max: Option<Duration>,
    /// The time since some moment that stays the same.
    pub now: fn() -> Duration,
}

/// See the module.
pub struct AutoEngine {
    cores: Box<dyn Classifier>,
    device: Option<(Arc<Device>, Box<dyn Classifier>)>,
    policy: Arc<Policy>,
    now: fn() -> Duration,
    /// Keys that go together at most.
    piece_len: usize,
}

impl AutoEngine {
    /// Builds `turbo` on the cores and, if there is one, on `device`, and measures both.
    ///
    /// # Errors
    /// [`warpswitch_classify::ErrorKind::MemoryBound`]: the bound is for both together.
    pub fn build(
        device: Option<&Arc<Device>>,
        ruleset: &Ruleset,
        options: &BuildOptions,
        auto: AutoOptions,
    ) -> Result<Self, ClassifyError> {
        let (cores, device) = match device {
            None => (build_on_cores(Engine::Turbo, ruleset, options)?, None),
            Some(device) => {
                let (cores, on_device) = build_both(device, ruleset, options)?;
                (cores, Some((device.clone(), on_device)))
            }
        };
        let keys = sample(ruleset);
        let of_cores = measure(cores.as_ref(), &keys, auto.now);
        let of_device = match &device {
            Some((device, on_device)) if device.retired().is_none() => {
                measure(on_device.as_ref(), &keys, auto.now)
            }
            _ => Vec::new(),
        };
        let policy = Arc::new(Policy::new(of_cores, of_device));
        let piece_len = auto.delay_max.map_or(usize::MAX, |delay_max| policy.batch_len(delay_max));
        Ok(Self { cores, device, policy, now: auto.now, piece_len })
    }

    /// What it chooses by, and has chosen so far.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.clone()
    }

    /// Keys that go together at most: longer batches are cut.
    pub fn piece_len(&self) -> usize {
        self.piece_len
    }

    fn classify_piece(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        let working = self.device.as_ref().filter(|(device, _)| device.retired().is_none());
        let choice = self.policy.choose(keys.len(), working.is_some());
        let began = (self.now)();
        match (choice.path, working) {
            (Path::Device, Some((_, on_device))) => on_device.classify(keys, out),
            _ => self.cores.classify(keys, out),
        }
        self.policy.note(choice, (self.now)().saturating_sub(began));
    }

    /// Takes changes back on the cores that the device refused.
    fn undo(&self, changes: &[RuleChange<'_>]) {
        let back: Vec<_> = changes.iter().rev().map(inverse).collect();
        self.cores.change(&back).expect("what was there a moment ago fits");
    }
}

/// What takes a change back.
fn inverse<'a>(change: &RuleChange<'a>) -> RuleChange<'a> {
    match *change {
        RuleChange::Insert(rule) => RuleChange::Remove(rule),
        RuleChange::Remove(rule) => RuleChange::Insert(rule),
    }
}

/// Engines on cores and device.
type Both = (Box<dyn Classifier>, Box<dyn Classifier>);

/// Builds for cores and device, each with a share of the bound that it keeps by itself: halves, or
/// whatever shares in sixteenths are enough for both.
fn build_both(
    device: &Arc<Device>,
    ruleset: &Ruleset,
    options: &BuildOptions,
) -> Result<Both, ClassifyError> {
    let with = |sixteenths: usize| {
        let bytes_max = match options.bytes_max {
            usize::MAX => usize::MAX,
            bytes => bytes / 16 * sixteenths,
        };
        BuildOptions { bytes_max, ..*options }
    };
    let both = |for_cores: usize| {
        let cores = build_on_cores(Engine::Turbo, ruleset, &with(for_cores))?;
        let on_device = engine::build(device, Algorithm::Turbo, ruleset, &with(16 - for_cores))?;
        Ok((cores, on_device))
    };
    let mut built = both(8);
    for for_cores in [7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15] {
        match built {
            Err(_) => built = both(for_cores),
            Ok(_) => break,
        }
    }
    built
}

/// Keys that rules match, more than the longest batch that is measured.
fn sample(ruleset: &Ruleset) -> KeyBuf {
    let schema = ruleset.schema();
    let len = LENS[LENS.len() - 1];
    let mut keys = KeyBuf::with_capacity(schema, len);
    let mut seeds = SeedStream::new(1, 0x6175_746f);
    let mut key = vec![0; schema.words];
    for _ in 0..len {
        key.iter_mut().for_each(|word| *word = seeds.next() as u32);
        if !ruleset.is_empty() {
            let id = RuleId((seeds.next() % ruleset.len() as u64) as u32);
            let matching = ruleset.rule(id).matching;
            for (word, (value, mask)) in
                key.iter_mut().zip(matching.value.iter().zip(matching.mask))
            {
                *word = *word & !mask | value;
            }
        }
        keys.push(&key);
    }
    keys
}

/// What batches of [`LENS`] keys take.
fn measure(classifier: &dyn Classifier, keys: &KeyBuf, now: fn() -> Duration) -> Measured {
    let mut out = vec![RuleId::NONE; keys.len()];
    // Memory, threads and kernels come into being with the first batch.
    classifier.classify(keys.as_batch(), &mut out);
    let time = |len: usize| {
        let once = || {
            let began = now();
            classifier.classify(keys.as_batch().slice(0, len), &mut out[..len]);
            now().saturating_sub(began)
        };
        std::iter::repeat_with(once).take(ROUNDS).min().unwrap_or_default()
    };
    LENS.into_iter().zip(LENS.map(time)).collect()
}

impl Classifier for AutoEngine {
    fn engine(&self) -> Engine {
        self.cores.engine()
    }

    fn schema(&self) -> &'static Schema {
        self.cores.schema()
    }

    fn len(&self) -> usize {
        self.cores.len()
    }

    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        let mut start = 0;
        while start < keys.len() {
            let end = start.saturating_add(self.piece_len).min(keys.len());
            self.classify_piece(keys.slice(start, end), &mut out[start..end]);
            start = end;
        }
    }

    fn insert(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        self.change(&[RuleChange::Insert(rule)]).map_err(|refused| refused.error)
    }

    fn remove(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        self.change(&[RuleChange::Remove(rule)]).map_err(|refused| refused.error)
    }

    fn change(&self, changes: &[RuleChange<'_>]) -> Result<(), Refused> {
        let on_cores = self.cores.change(changes);
        let made = on_cores.as_ref().map_or_else(|refused| refused.made, |()| changes.len());
        if let Some((_, on_device)) = &self.device {
            on_device.change(&changes[..made]).inspect_err(|refused| {
                self.undo(&changes[refused.made..made]);
            })?;
        }
        on_cores
    }

    fn bytes(&self) -> usize {
        self.cores.bytes() + self.device.as_ref().map_or(0, |(_, on_device)| on_device.bytes())
    }

    fn details(&self) -> Vec<Detail> {
        let mut details = self.cores.details();
        if self.piece_len != usize::MAX {
            details.push(Detail { name: "batch_len_max", value: self.piece_len as f64 });
        }
        details
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::Deadline;
    use crate::error::{ErrorKind, GpuError};
    use crate::host::{FaultPlan, HostPool};
    use std::sync::OnceLock;
    use std::thread;
    use std::time::Instant;
    use warpswitch_rules::generate::{Family, RulesetSpec, Style};
    use warpswitch_rules::linear;
    use warpswitch_testkit::{classifier_suite, dense};

    fn now() -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    const AUTO: AutoOptions = AutoOptions { delay_max: None, now };

    fn pool(faults: Option<FaultPlan>) -> Arc<Device> {
        let start = &mut |worker| _ = thread::spawn(worker);
        Device::from_pool(HostPool::with_faults(2, faults, start))
    }

    /// Every second batch goes to the device, whatever it costs.
    struct InTurn(AutoEngine, std::sync::atomic::AtomicUsize);

    impl InTurn {
        fn is_turn(&self) -> bool {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed).is_multiple_of(2)
        }
    }

    impl Classifier for InTurn {
        fn engine(&self) -> Engine {
            self.0.engine()
        }

        fn schema(&self) -> &'static Schema {
            self.0.schema()
        }

        fn len(&self) -> usize {
            self.0.len()
        }

        fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
            match &self.0.device {
                Some((_, on_device)) if self.is_turn() => on_device.classify(keys, out),
                _ => self.0.cores.classify(keys, out),
            }
        }

        fn insert(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
            self.0.insert(rule)
        }

        fn remove(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
            self.0.remove(rule)
        }

        fn bytes(&self) -> usize {
            self.0.bytes()
        }

        fn details(&self) -> Vec<Detail> {
            self.0.details()
        }
    }

    classifier_suite!(both_paths, &|rules, options| {
        let engine = AutoEngine::build(Some(&pool(None)), rules, options, AUTO)?;
        Ok(Box::new(InTurn(engine, Default::default())))
    });

    #[test]
    fn answers_do_not_depend_on_the_path_nor_on_the_device() {
        let spec = RulesetSpec { style: Style::Fw, family: Family::Ipv4, rules: 200, seed: 3 };
        let ruleset = spec.generate();
        let keys = dense::keys_near(&ruleset, 3000, 4);
        let mut want = vec![RuleId::NONE; keys.len()];
        linear::classify(&ruleset, keys.as_batch(), &mut want);
        let error = FaultPlan { error_chance: 1.0, ..FaultPlan::default() };
        let options = BuildOptions::default();
        let pools = [None, Some(pool(None)), Some(pool(Some(error)))];
        for device in &pools {
            let auto = AutoOptions { delay_max: Some(Duration::from_micros(200)), ..AUTO };
            let engine = AutoEngine::build(device.as_ref(), &ruleset, &options, auto).unwrap();
            assert!(engine.piece_len().is_power_of_two());
            let mut out = vec![RuleId(7); keys.len()];
            engine.classify(keys.as_batch(), &mut out);
            assert_eq!(out, want);
            let rows = engine.policy().rows();
            let batches: u64 = rows.iter().map(|row| row.cores_batches + row.device_batches).sum();
            assert_eq!(batches, keys.len().div_ceil(engine.piece_len()) as u64);
        }
        let cause = pools[2].as_ref().unwrap().retired().map(GpuError::kind);
        assert_eq!(cause, Some(ErrorKind::Call));
    }

    /// A device that hangs is left, with its batches answered.
    #[test]
    fn a_device_that_hangs_is_left() {
        let spec = RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 100, seed: 3 };
        let ruleset = spec.generate();
        let keys = dense::keys_near(&ruleset, 300, 4);
        let mut want = vec![RuleId::NONE; keys.len()];
        linear::classify(&ruleset, keys.as_batch(), &mut want);
        let device = pool(Some(FaultPlan { hang_chance: 0.05, ..FaultPlan::default() }));
        device.set_deadline(Deadline { slack: Duration::from_millis(5), now });
        let engine =
            AutoEngine::build(Some(&device), &ruleset, &BuildOptions::default(), AUTO).unwrap();
        let engine = InTurn(engine, Default::default());
        for _ in 0..100 {
            let mut out = vec![RuleId(7); keys.len()];
            engine.classify(keys.as_batch(), &mut out);
            assert_eq!(out, want);
        }
        assert_eq!(device.retired().map(GpuError::kind), Some(ErrorKind::Hung));
        assert_eq!(engine.0.policy.choose(1 << 20, false).path, Path::Cores);
    }
}
