//! A classifier on a device.
//!
//! A batch runs on the image that was current when it began, so it sees one version. A change of
//! rules is a patch where the algorithm's images can be changed ([`crate::live`]), and where the
//! bound on memory allows for the copies that this takes; else it builds a new image beside the one
//! in use. A call cuts its batch into pieces,
//! one a slot, and has as many under way as a ring has slots.

use std::marker::PhantomData;
use std::sync::Arc;

use warpswitch_classify::parts::{Index, Rebuild, RuleStore, TooLarge};
use warpswitch_classify::{BuildOptions, Classifier, ClassifyError, Detail, Engine};
use warpswitch_rules::{KeyBatch, RuleId, Ruleset, Schema};

use crate::device::{Device, Loaded};
use crate::image::{Algorithm, Image};
use crate::live::LiveEngine;
use crate::resident::Lanes;
use crate::ring::Ring;
use crate::work::Work;

/// Builds `algorithm` over `ruleset` on `device`.
///
/// A card that fails, now or later, is retired ([`Device::retired`] says why), and the classifier
/// answers on the host.
///
/// # Errors
/// [`warpswitch_classify::ErrorKind::MemoryBound`].
pub fn build(
    device: &Arc<Device>,
    algorithm: Algorithm,
    ruleset: &Ruleset,
    options: &BuildOptions,
) -> Result<Box<dyn Classifier>, ClassifyError> {
    if algorithm != Algorithm::Linear
        && let Ok(live) = LiveEngine::build(device, algorithm, ruleset, options)
    {
        return Ok(Box::new(live));
    }
    // One copy may fit where several do not.
    let device = device.clone();
    Ok(match algorithm {
        Algorithm::Linear => {
            Box::new(Rebuild::<OnDevice<Linear>>::build(device, ruleset, options)?)
        }
        Algorithm::Tuple => Box::new(Rebuild::<OnDevice<Tuple>>::build(device, ruleset, options)?),
        Algorithm::Bloom => Box::new(Rebuild::<OnDevice<Bloom>>::build(device, ruleset, options)?),
        Algorithm::MaskHash => {
            Box::new(Rebuild::<OnDevice<MaskHash>>::build(device, ruleset, options)?)
        }
        Algorithm::Turbo => Box::new(Rebuild::<OnDevice<Turbo>>::build(device, ruleset, options)?),
    })
}

/// Loads the image of `ruleset`, for those who drive slots themselves.
///
/// # Errors
/// [`warpswitch_classify::ErrorKind::MemoryBound`].
pub fn load(
    device: &Arc<Device>,
    algorithm: Algorithm,
    ruleset: &Ruleset,
    options: &BuildOptions,
) -> Result<Arc<Loaded>, ClassifyError> {
    let classified = |too_large: TooLarge| {
        ClassifyError::memory_bound(too_large.bytes, options.bytes_max, too_large.rules)
    };
    let store = RuleStore::build(ruleset, options.bytes_max)?;
    let image = Image::build(algorithm, &store, options.bytes_max, options.hash_seed);
    Ok(device.load_or_retire(Arc::new(image.map_err(classified)?)))
}

/// An algorithm as a type: an index knows its engine by type alone.
trait Named: Send + Sync + 'static {
    const ALGORITHM: Algorithm;
    const ENGINE: Engine;
}

macro_rules! named {
    ($($name:ident)*) => {$(
        struct $name;

        impl Named for $name {
            const ALGORITHM: Algorithm = Algorithm::$name;
            const ENGINE: Engine = Engine::$name;
        }
    )*};
}

named!(Linear Tuple Bloom MaskHash Turbo);

/// An image on a device.
struct OnDevice<A> {
    device: Arc<Device>,
    loaded: Arc<Loaded>,
    schema: &'static Schema,
    lanes: Lanes,
    algorithm: PhantomData<A>,
}

impl<A: Named> Index for OnDevice<A> {
    const ENGINE: Engine = A::ENGINE;

    type Device = Arc<Device>;

    fn build(
        device: &Arc<Device>,
        store: &RuleStore,
        bytes_max: usize,
        hash_seed: u64,
    ) -> Result<Self, TooLarge> {
        // A card holds a second copy.
        let copies = if device.is_card() { 2 } else { 1 };
        let bytes_each = if bytes_max == usize::MAX { bytes_max } else { bytes_max / copies };
        let image = Image::build(A::ALGORITHM, store, bytes_each, hash_seed);
        let image = image.map_err(|too_large| TooLarge {
            bytes: too_large.bytes.saturating_mul(copies),
            ..too_large
        })?;
        let loaded = device.load_or_retire(Arc::new(image));
        let (device, schema, lanes) = (device.clone(), store.schema(), Lanes::default());
        Ok(Self { device, loaded, schema, lanes, algorithm: PhantomData })
    }

    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        classify_on((&self.device, self.schema, &self.lanes), &self.loaded, keys, out);
    }

    fn bytes(&self) -> usize {
        self.loaded.bytes()
    }

    fn details(&self) -> Vec<Detail> {
        let mut details = self.loaded.image().details();
        details.push(Detail { name: "image_bytes", value: self.loaded.image().bytes() as f64 });
        details.extend(self.device.memory_details());
        details
    }
}

/// Answers a batch on a device, or on this thread if the device cannot.
pub(crate) fn classify_on(
    (device, schema, lanes): (&Arc<Device>, &'static Schema, &Lanes),
    loaded: &Arc<Loaded>,
    keys: KeyBatch<'_>,
    out: &mut [RuleId],
) {
    let out = &mut out[..keys.len()];
    let launch = |out: &mut [RuleId]| launch_on(device, schema, loaded, keys, out);
    if !lanes.classify((device, schema), loaded, (keys, &mut *out), launch) {
        launch_on(device, schema, loaded, keys, out);
    }
}

/// The same by launches.
fn launch_on(
    device: &Device,
    schema: &'static Schema,
    loaded: &Arc<Loaded>,
    keys: KeyBatch<'_>,
    out: &mut [RuleId],
) {
    let fill = |from: usize, room: &mut [u32]| {
        room.copy_from_slice(&keys.words()[from * keys.words_per_key()..][..room.len()]);
    };
    let through = |ring: &mut Ring| pass(ring, loaded, &fill, &mut out[..keys.len()]);
    if device.retired().is_none() && device.with_ring(schema, through).is_some() {
        return;
    }
    loaded.image().classify(keys, out);
}

/// Passes a batch through a ring, piece by piece: `fill` writes the keys from a place of the batch
/// on, as many as there is room for.
pub(crate) fn pass<W: Work>(
    ring: &mut Ring<W>,
    loaded: &Arc<Loaded<W>>,
    fill: &dyn Fn(usize, &mut [u32]),
    out: &mut [W::Answer],
) {
    let form = ring.form();
    let (mut sent, mut answered) = (0, 0);
    while answered < out.len() {
        while sent < out.len()
            && let Some(room) = ring.keys_mut()
        {
            let len = (out.len() - sent).min(form.keys_in(room.len()));
            fill(sent, &mut room[..form.keys_len(len)]);
            ring.submit(loaded, len);
            sent += len;
        }
        let len = ring.oldest_len().expect("a piece is under way");
        ring.take(&mut out[answered..answered + len]);
        answered += len;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::error::{ErrorKind, GpuError};
    use crate::host::HostPool;
    use crate::resident::{LANE_LEN_MAX, ResidentChoice, ResidentUse};
    use crate::split::RuleSplit;
    use warpswitch_classify::{Refused, RuleChange};
    use warpswitch_rules::RuleRef;
    use warpswitch_rules::generate::{Family, RulesetSpec, Style};
    use warpswitch_rules::linear;
    use warpswitch_testkit::{classifier_suite, dense};

    fn pool(threads: usize) -> Arc<Device> {
        let pool = HostPool::new(threads, &mut |worker| _ = std::thread::spawn(worker));
        Device::from_pool(pool)
    }

    classifier_suite!(batches: linear_on_threads, &|rules, options| {
        build(&pool(2), Algorithm::Linear, rules, options)
    });
    classifier_suite!(batches: tuple_on_threads, &|rules, options| {
        build(&pool(2), Algorithm::Tuple, rules, options)
    });
    classifier_suite!(batches: bloom_on_threads, &|rules, options| {
        build(&pool(2), Algorithm::Bloom, rules, options)
    });
    classifier_suite!(batches: maskhash_on_threads, &|rules, options| {
        build(&pool(2), Algorithm::MaskHash, rules, options)
    });
    classifier_suite!(batches: turbo_on_threads, &|rules, options| {
        build(&pool(2), Algorithm::Turbo, rules, options)
    });

    /// A pool whose engines pass all small batches to a resident kernel.
    fn resident_pool() -> Arc<Device> {
        let device = pool(3);
        let (choice, now) = (ResidentChoice::Always, now as fn() -> Duration);
        device.set_resident_use(ResidentUse { choice, now });
        device
    }

    /// The time since the first call.
    fn now() -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    classifier_suite!(batches: turbo_resident, &|rules, options| {
        build(&resident_pool(), Algorithm::Turbo, rules, options)
    });

    /// Batches of all lengths up to the limit, by several threads, of which some have no lane.
    #[test]
    fn lanes_answer_batches_of_all_lengths() {
        let device = resident_pool();
        let spec = RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 200, seed: 3 };
        let ruleset = spec.generate();
        let engine = LiveEngine::build(&device, Algorithm::MaskHash, &ruleset, &<_>::default());
        let engine = engine.unwrap();
        let keys = dense::keys_near(&ruleset, LANE_LEN_MAX + 1, 4);
        let want = expected(&ruleset, keys.as_batch());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for len in [0, 1, 31, 33, 1024, 1025, LANE_LEN_MAX, LANE_LEN_MAX + 1] {
                        let mut out = vec![RuleId(7); len];
                        engine.classify(keys.as_batch().slice(0, len), &mut out);
                        assert_eq!(out, want[..len], "{len} keys");
                    }
                });
            }
        });
        let linear = build(&resident_pool(), Algorithm::Linear, &ruleset, &<_>::default());
        let mut out = vec![RuleId(7); 33];
        linear.unwrap().classify(keys.as_batch().slice(0, 33), &mut out);
        assert_eq!(out, want[..33]);
        let mut lane = engine.lane().expect("a lane is free again");
        let tickets = [0, 100, 300].map(|from| {
            let keys = keys.as_batch().slice(from, from + 200);
            (from, lane.submit(keys.words(), &engine.current()))
        });
        lane.abandon(tickets[0].1);
        for (from, ticket) in [tickets[2], tickets[1]] {
            let check = |answers: &[RuleId]| assert_eq!(answers, &want[from..from + 200]);
            while !lane.poll(ticket, check) {}
        }
        assert!(lane.resident_frames() >= 3, "{} frames", lane.resident_frames());
    }

    /// A live engine whose batches are searched as a rule-parallel kernel does.
    struct Divided(LiveEngine, RuleSplit);

    impl Divided {
        fn build(
            algorithm: Algorithm,
            rules: &Ruleset,
            options: &BuildOptions,
        ) -> Result<Box<dyn Classifier>, ClassifyError> {
            let split = RuleSplit { parts: 4, groups: 3, threads: 128, window_bytes: None };
            let live = LiveEngine::build(&pool(1), algorithm, rules, options)?;
            Ok(Box::new(Self(live, split)))
        }
    }

    impl Classifier for Divided {
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
            self.0.current().image().classify_split(&self.1, keys, out);
        }

        fn insert(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
            self.0.insert(rule)
        }

        fn remove(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
            self.0.remove(rule)
        }

        fn change(&self, changes: &[RuleChange<'_>]) -> Result<(), Refused> {
            self.0.change(changes)
        }

        fn bytes(&self) -> usize {
            self.0.bytes()
        }

        fn details(&self) -> Vec<Detail> {
            self.0.details()
        }
    }

    classifier_suite!(batches: divided_linear, &|rules, options| {
        Divided::build(Algorithm::Linear, rules, options)
    });
    classifier_suite!(batches: divided_tuple, &|rules, options| {
        Divided::build(Algorithm::Tuple, rules, options)
    });
    classifier_suite!(batches: divided_bloom, &|rules, options| {
        Divided::build(Algorithm::Bloom, rules, options)
    });

    fn expected(ruleset: &Ruleset, keys: KeyBatch<'_>) -> Vec<RuleId> {
        let mut out = vec![RuleId::NONE; keys.len()];
        linear::classify(ruleset, keys, &mut out);
        out
    }

    #[test]
    fn answers_come_in_the_order_of_submission() {
        let device = pool(3);
        let spec = RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 200, seed: 3 };
        let ruleset = spec.generate();
        let schema = ruleset.schema();
        let loaded = load(&device, Algorithm::Turbo, &ruleset, &BuildOptions::default()).unwrap();
        let keys = dense::keys_near(&ruleset, 5000, 4);
        let want = expected(&ruleset, keys.as_batch());
        let mut ring = Ring::new(&device, schema, 400, 5).unwrap();
        let (mut sent, mut got) = (0, Vec::new());
        // Batches of all lengths, so that later ones are often done first.
        for len in (0..).map(|n| n * 37 % 401) {
            let len = len.min(keys.len() - sent);
            if ring.keys_mut().is_none() {
                let mut out = vec![RuleId(7); ring.oldest_len().unwrap()];
                ring.take(&mut out);
                got.extend(out);
            }
            let piece = keys.as_batch().slice(sent, sent + len);
            ring.keys_mut().unwrap()[..piece.words().len()].copy_from_slice(piece.words());
            ring.submit(&loaded, len);
            sent += len;
            if sent == keys.len() {
                break;
            }
        }
        while let Some(len) = ring.oldest_len() {
            let mut out = vec![RuleId(7); len];
            ring.take(&mut out);
            got.extend(out);
        }
        assert_eq!(got, want);
        assert_eq!(ring.poll(), None);
    }

    #[test]
    fn a_device_that_is_retired_answers_all_the_same() {
        for algorithm in Algorithm::ALL {
            let device = pool(1);
            let spec = RulesetSpec { style: Style::Fw, family: Family::Ipv4, rules: 50, seed: 3 };
            let ruleset = spec.generate();
            let classifier = build(&device, algorithm, &ruleset, &BuildOptions::default()).unwrap();
            let keys = dense::keys_near(&ruleset, 500, 4);
            let mut out = vec![RuleId(7); keys.len()];
            classifier.classify(keys.as_batch(), &mut out);
            device.retire(GpuError::new(ErrorKind::CardLost, "pulled out"));
            device.retire(GpuError::new(ErrorKind::Call, "a later one"));
            let mut after = vec![RuleId(7); keys.len()];
            classifier.classify(keys.as_batch(), &mut after);
            assert_eq!((&out, &after), (&expected(&ruleset, keys.as_batch()), &out));
            assert_eq!(device.retired().map(GpuError::kind), Some(ErrorKind::CardLost));
        }
    }
}
