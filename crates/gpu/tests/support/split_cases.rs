//! Rule-parallel kernels on a card: the suite of every engine, and every division and length.

use std::sync::{Arc, OnceLock};

use warpswitch_classify::parts::RuleStore;
use warpswitch_classify::{BuildOptions, Classifier, ClassifyError};
use warpswitch_gpu::device::TransferChoice;
use warpswitch_gpu::driver::Transfer;
use warpswitch_gpu::packed::{PackedImage, put};
use warpswitch_gpu::ring::Ring;
use warpswitch_gpu::split::SplitChoice;
use warpswitch_gpu::work::Work as _;
use warpswitch_gpu::{Algorithm, Device, Image, engine};
use warpswitch_rules::generate::{Family, RulesetSpec, Style};
use warpswitch_rules::schema::SCHEMAS;
use warpswitch_rules::{RuleId, Ruleset, linear};
use warpswitch_testkit::{classifier_suite, dense};

/// Algorithms that have such kernels.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::Linear, Algorithm::Tuple, Algorithm::Bloom];
/// Smallest and largest blocks, clusters of all sizes, windows over nothing, a part and all.
const CHOICES: [&str; 9] = [
    "auto",
    "2x1/64",
    "4x1/1024",
    "8x1/256@0",
    "16x2/512",
    "32x4/1024@2048",
    "4x8/128@512",
    "32x8/1024",
    "2x3/1024",
];
/// Around the sizes of warps and blocks, and more than a card takes at a time.
const LENS: [usize; 14] = [1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 513, 1000, 4097, 30_011];

/// A card of these tests alone, whose setting no other test changes.
///
/// # Panics
/// Without a card.
fn card(choice: &str) -> Arc<Device> {
    let device = Device::open_card(0, None).unwrap_or_else(|missing| panic!("no card: {missing}"));
    device.set_split(choice.parse().unwrap());
    device
}

/// Small blocks, each of which has a part of the rules.
fn build(
    algorithm: Algorithm,
    rules: &Ruleset,
    options: &BuildOptions,
) -> Result<Box<dyn Classifier>, ClassifyError> {
    static CARD: OnceLock<Arc<Device>> = OnceLock::new();
    let card = CARD.get_or_init(|| card("4x4/256"));
    let built = engine::build(card, algorithm, rules, options);
    assert_eq!(card.retired(), None, "the card was retired");
    built
}

/// Names and tests.
pub fn tests() -> Vec<(&'static str, fn())> {
    let mut tests = [
        classifier_suite!(list batches: divided_linear_on_card, &|rules, options| {
            build(Algorithm::Linear, rules, options)
        }),
        classifier_suite!(list batches: divided_tuple_on_card, &|rules, options| {
            build(Algorithm::Tuple, rules, options)
        }),
        classifier_suite!(list batches: divided_bloom_on_card, &|rules, options| {
            build(Algorithm::Bloom, rules, options)
        }),
    ]
    .concat();
    tests.push(("divided_batches_equal_the_reference", batches_equal_the_reference));
    tests.push(("divided_packed_keys_equal_the_reference", packed_keys_equal_the_reference));
    tests
}

/// Sets of all schemas, some with more units than a stage holds.
fn rulesets() -> Vec<Ruleset> {
    let spec = |style, family, rules| RulesetSpec { style, family, rules, seed: 77 }.generate();
    let mut sets = vec![
        spec(Style::Acl, Family::Ipv4, 3000),
        spec(Style::Fw, Family::Ipv4, 8000),
        spec(Style::Ipc, Family::Ipv6, 1200),
    ];
    sets.extend(SCHEMAS.map(|schema| dense::ruleset(schema, 200, 6, 21)));
    sets.extend([0, 1, 5].map(|rules| dense::ruleset(SCHEMAS[0], rules, 4, 21)));
    sets
}

fn batches_equal_the_reference() {
    let device = card("auto");
    for ruleset in rulesets() {
        let keys = dense::keys_near(&ruleset, LENS[LENS.len() - 1], 5);
        let mut want = vec![RuleId::NONE; keys.len()];
        linear::classify(&ruleset, keys.as_batch(), &mut want);
        for algorithm in ALGORITHMS {
            for choice in CHOICES {
                device.set_split(choice.parse::<SplitChoice>().unwrap());
                let loaded =
                    engine::load(&device, algorithm, &ruleset, &BuildOptions::default()).unwrap();
                for transfer in [Transfer::Copies, Transfer::Direct] {
                    let mut ring = Ring::new(&device, ruleset.schema(), keys.len(), 3).unwrap();
                    ring.set_transfer(TransferChoice::Always(transfer));
                    for len in LENS {
                        let piece = keys.as_batch().slice(keys.len() - len, keys.len());
                        let room = ring.keys_mut().unwrap();
                        room[..piece.words().len()].copy_from_slice(piece.words());
                        ring.submit(&loaded, len);
                        let mut out = vec![RuleId(7); len];
                        ring.take(&mut out);
                        let (name, rules) = (ruleset.schema().name, ruleset.len());
                        let what =
                            format!("{algorithm} {choice}, {rules} of {name}, {transfer:?} {len}");
                        assert_eq!(out, want[keys.len() - len..], "{what}");
                        assert_eq!(device.retired(), None, "{what}");
                    }
                }
            }
        }
    }
}

fn packed_keys_equal_the_reference() {
    let device = card("auto");
    let ruleset =
        RulesetSpec { style: Style::Fw, family: Family::Ipv4, rules: 1500, seed: 7 }.generate();
    let keys = dense::keys_near(&ruleset, 4097, 5);
    let mut want = vec![RuleId::NONE; keys.len()];
    linear::classify(&ruleset, keys.as_batch(), &mut want);
    let store = RuleStore::build(&ruleset, usize::MAX).unwrap();
    for algorithm in ALGORITHMS {
        for choice in CHOICES {
            device.set_split(choice.parse().unwrap());
            let image = Image::build(algorithm, &store, usize::MAX, 3).unwrap();
            let work = PackedImage::new(image, &store).unwrap();
            let form = work.form();
            let loaded = device.load(Arc::new(work)).unwrap();
            let mut ring: Ring<PackedImage> = Ring::new(&device, form, keys.len(), 1).unwrap();
            for len in [1, 31, 33, 64, 1023, 4097] {
                let room = ring.keys_mut().unwrap();
                let some = keys.as_batch().iter().take(len).enumerate();
                some.for_each(|(at, key)| put(room, at, key));
                ring.submit(&loaded, len);
                let mut out = vec![RuleId(7); len];
                ring.take(&mut out);
                assert_eq!(out, want[..len], "{algorithm} {choice} {len}");
                assert_eq!(device.retired(), None);
            }
        }
    }
}
