//! The suite of engines on a card, all algorithms; and what only a card can show.
//!
//! Without a card every test passes at once and says so; with `WARPSWITCH_NEED_CARD`, which the
//! script that runs on a card sets, its absence is a failure.

mod support {
    pub mod soak;
}

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use support::soak::Soak;

use warpswitch_classify::{
    BuildOptions, Classifier, ClassifyError, Engine, build as build_on_cores,
};
use warpswitch_gpu::device::TransferChoice;
use warpswitch_gpu::driver::Transfer;
use warpswitch_gpu::resident::{FramesConfig, Hysteresis};
use warpswitch_gpu::ring::Ring;
use warpswitch_gpu::{Algorithm, Device, GpuError, engine};
use warpswitch_rules::generate::{Family, RulesetSpec, Style};
use warpswitch_rules::schema::SCHEMAS;
use warpswitch_rules::{RuleId, Ruleset, linear};
use warpswitch_testkit::{classifier_suite, dense};

/// The card of all tests, or why there is none.
fn card() -> Result<Arc<Device>, GpuError> {
    static CARD: OnceLock<Result<Arc<Device>, GpuError>> = OnceLock::new();
    let card = CARD.get_or_init(|| Device::open_card(0, None)).clone();
    if let Err(missing) = &card {
        let needed = std::env::var_os("WARPSWITCH_NEED_CARD").is_some();
        assert!(!needed, "no card: {missing}");
    }
    card
}

/// An engine on the card. Without one an engine of the cores stands in, the cheapest whose batches
/// see one version each.
fn build(
    algorithm: Algorithm,
    rules: &Ruleset,
    options: &BuildOptions,
) -> Result<Box<dyn Classifier>, ClassifyError> {
    let Ok(card) = card() else { return build_on_cores(Engine::MaskHash, rules, options) };
    let built = engine::build(&card, algorithm, rules, options);
    assert_eq!(card.retired(), None, "the card was retired");
    built
}

classifier_suite!(batches: linear_on_card, &|rules, options| {
    build(Algorithm::Linear, rules, options)
});
classifier_suite!(batches: tuple_on_card, &|rules, options| {
    build(Algorithm::Tuple, rules, options)
});
classifier_suite!(batches: bloom_on_card, &|rules, options| {
    build(Algorithm::Bloom, rules, options)
});
classifier_suite!(batches: maskhash_on_card, &|rules, options| {
    build(Algorithm::MaskHash, rules, options)
});
classifier_suite!(batches: turbo_on_card, &|rules, options| {
    build(Algorithm::Turbo, rules, options)
});

/// Both ways to the card, batches around the sizes of warps, blocks and tiles, larger sets.
#[test]
fn every_way_and_length_equals_the_reference() {
    let Ok(card) = card() else { return };
    let lens = [1, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 4096, 8191];
    for (style, family, rules) in [
        (Style::Acl, Family::Ipv4, 3000),
        (Style::Fw, Family::Ipv4, 1500),
        (Style::Ipc, Family::Ipv6, 1200),
    ] {
        let ruleset = RulesetSpec { style, family, rules, seed: 77 }.generate();
        let keys = dense::keys_near(&ruleset, 8191, 5);
        let mut want = vec![RuleId::NONE; keys.len()];
        linear::classify(&ruleset, keys.as_batch(), &mut want);
        for algorithm in Algorithm::ALL {
            let loaded =
                engine::load(&card, algorithm, &ruleset, &BuildOptions::default()).unwrap();
            for transfer in [Transfer::Copies, Transfer::Direct] {
                let mut ring = Ring::new(&card, ruleset.schema(), keys.len(), 3).unwrap();
                ring.set_transfer(TransferChoice::Always(transfer));
                for len in lens {
                    let piece = keys.as_batch().slice(keys.len() - len, keys.len());
                    let room = ring.keys_mut().unwrap();
                    room[..piece.words().len()].copy_from_slice(piece.words());
                    ring.submit(&loaded, len);
                    let mut out = vec![RuleId(7); len];
                    ring.take(&mut out);
                    let what = format!("{algorithm} {style:?} {family:?} {transfer:?} {len}");
                    assert_eq!(out, want[keys.len() - len..], "{what}");
                    assert_eq!(card.retired(), None, "{what}");
                }
            }
        }
    }
}

/// An image that the card has no room for is refused by name, and the host answers.
#[test]
fn a_card_that_is_full_leaves_the_answers_right() {
    let Ok(_) = card() else { return };
    let device = Device::open_card(0, None).unwrap();
    let ruleset =
        RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 100, seed: 1 }.generate();
    let classifier =
        engine::build(&device, Algorithm::Turbo, &ruleset, &BuildOptions::default()).unwrap();
    // Keys for which no card has memory.
    let refused = device.slot(ruleset.schema(), 1 << 40).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), warpswitch_gpu::ErrorKind::OutOfMemory, "{refused}");
    device.retire(refused);
    let keys = dense::keys_near(&ruleset, 300, 2);
    let mut want = vec![RuleId::NONE; keys.len()];
    linear::classify(&ruleset, keys.as_batch(), &mut want);
    let mut out = vec![RuleId(7); keys.len()];
    classifier.classify(keys.as_batch(), &mut out);
    assert_eq!(out, want);
}

/// The time, and a pause of which a resident kernel tires where there has to be one.
fn clock() -> impl FnMut(bool) -> Duration {
    let start = Instant::now();
    move |pauses| {
        if pauses {
            std::thread::sleep(Duration::from_millis(25));
        }
        start.elapsed()
    }
}

#[test]
fn frames_of_every_schema_and_engine_equal_the_reference() {
    let Ok(card) = card() else { return };
    for schema in SCHEMAS {
        for algorithm in Algorithm::ALL {
            let mut soak = Soak::new(schema, &[algorithm], 200, FramesConfig::default());
            soak.frames = 5000;
            let count = soak.run(&card, &mut clock());
            let what = format!("{} {algorithm}: {count:?}", schema.name);
            assert_eq!((card.retired(), count.rescued), (None, 0), "{what}");
            assert!(count.resident > 500 && count.launched > 100, "{what}");
        }
    }
}

/// Frames of changing size, rules that change, the kernel stopped and started again in between.
/// `WARPSWITCH_SOAK_FRAMES` says how many frames.
#[test]
fn no_frame_is_torn_on_the_card() {
    let Ok(card) = card() else { return };
    let frames = std::env::var("WARPSWITCH_SOAK_FRAMES").ok().and_then(|n| n.parse().ok());
    let config = FramesConfig { frames: 8, ..FramesConfig::default() };
    let mut soak = Soak::new(SCHEMAS[0], &[Algorithm::Turbo], 1000, config);
    soak.frames = frames.unwrap_or(200_000);
    soak.change_every = 100;
    let start = Instant::now();
    let count = soak.run(&card, &mut clock());
    println!("{count:?}, {} s", start.elapsed().as_secs());
    assert_eq!((card.retired(), count.rescued), (None, 0), "{count:?}");
    assert!(count.starts > soak.frames / 20_000, "{count:?}");
    // The same without the launched way between, and with large frames.
    let config = FramesConfig { hysteresis: Hysteresis::always(), keys_max: 1024, ..config };
    let mut soak = Soak::new(SCHEMAS[0], &[Algorithm::MaskHash], 1000, config);
    soak.frames = frames.unwrap_or(200_000) / 10;
    let count = soak.run(&card, &mut clock());
    println!("{count:?}");
    assert_eq!((card.retired(), count.rescued), (None, 0), "{count:?}");
}
