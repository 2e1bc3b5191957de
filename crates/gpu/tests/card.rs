//! The suite of engines on a card, all algorithms; and what only a card can show.
//!
//! Without a card every test is ignored: the target has its own harness, as the built-in one
//! cannot ignore tests at run time. With `WARPSWITCH_NEED_CARD`, which the script that runs on a
//! card sets, a missing card is an error.

mod support {
    pub mod header_cases;
    pub mod route_cases;
    pub mod scan_cases;
    pub mod soak;
    pub mod split_cases;
}

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use support::soak::{Soak, Soaked};
use support::{header_cases, route_cases, scan_cases, split_cases};

use warpswitch_classify::{BuildOptions, Classifier, ClassifyError, RuleChange, parts::RuleStore};
use warpswitch_gpu::auto::{AutoEngine, AutoOptions};
use warpswitch_gpu::chain::ALIGN_WORDS;
use warpswitch_gpu::deadline::Deadline;
use warpswitch_gpu::device::TransferChoice;
use warpswitch_gpu::driver::Transfer;
use warpswitch_gpu::live::LiveEngine;
use warpswitch_gpu::packed::{PackedImage, put};
use warpswitch_gpu::resident::{FramesConfig, Hysteresis, ResidentChoice, ResidentUse};
use warpswitch_gpu::ring::Ring;
use warpswitch_gpu::routes::{
    HeaderImage, LiveHeaders, LiveRoutes, RouteImage, SLICE_WORDS, Slice,
};
use warpswitch_gpu::scan::{
    DeviceScanner, FOUND_WORDS, PAGE_WORDS, ScanImage, TextFindings, Texts, put_text, read_pages,
    text_words, write_pages,
};
use warpswitch_gpu::work::Work as _;
use warpswitch_gpu::{Algorithm, Chain, ChainRoom, Device, GpuError, Image, SharedBytes, engine};
use warpswitch_routes::{Address, NextHop, RouteChange, RouteTable};
use warpswitch_rules::generate::{Family, RulesetSpec, Style};
use warpswitch_rules::schema::{self, SCHEMAS, Schema};
use warpswitch_rules::{RuleId, Ruleset, RulesetBuilder, linear};
use warpswitch_scan::{PatternId, PatternSets, ScanOptions, Scratch};
use warpswitch_testkit::{classifier_suite, dense};

/// A name and the test.
type Test = (&'static str, fn());

/// Lists functions under their names.
macro_rules! tests {
    ($($test:ident),* $(,)?) => { [$((stringify!($test), $test as fn())),*] };
}

/// Tests of single properties, beside the suite of every engine.
const TESTS: [Test; 18] = tests![
    every_way_and_length_equals_the_reference,
    packed_keys_of_every_length_equal_the_reference,
    a_card_that_is_full_leaves_the_answers_right,
    frames_of_every_schema_and_engine_equal_the_reference,
    no_frame_is_torn_as_the_kernel_comes_and_goes,
    no_frame_is_torn_in_the_kernel,
    no_large_frame_is_torn_in_the_kernel,
    no_frame_of_wide_keys_is_torn_in_the_kernel,
    no_launch_waits_for_the_kernel_of_frames,
    changes_reach_the_card_whole,
    versions_take_no_more_memory,
    a_card_that_works_keeps_its_deadline,
    every_way_and_length_of_routes_equals_the_reference,
    chains_of_every_length_equal_the_references,
    changes_of_routes_reach_the_card_whole,
    every_way_and_length_of_headers_equals_the_reference,
    scans_equal_the_reference,
    texts_are_searched_where_they_lie,
];

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let missing = open_card().as_ref().err();
    if let Some(missing) = missing {
        if std::env::var_os("WARPSWITCH_NEED_CARD").is_some() {
            eprintln!("error: WARPSWITCH_NEED_CARD is set and no card can be opened: {missing}");
            return ExitCode::FAILURE;
        }
        eprintln!("no card, all tests are ignored: {missing}");
    }
    let trial = |(name, test): Test| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(missing.is_some())
    };
    let trials =
        engine_tests().into_iter().chain(split_cases::tests()).chain(TESTS).map(trial).collect();
    libtest_mimic::run(&args, trials).exit_code()
}

/// The suite of every engine on the card.
fn engine_tests() -> Vec<Test> {
    [
        classifier_suite!(list batches: linear_on_card, &|rules, options| {
            build(Algorithm::Linear, rules, options)
        }),
        classifier_suite!(list batches: tuple_on_card, &|rules, options| {
            build(Algorithm::Tuple, rules, options)
        }),
        classifier_suite!(list batches: bloom_on_card, &|rules, options| {
            build(Algorithm::Bloom, rules, options)
        }),
        classifier_suite!(list batches: maskhash_on_card, &|rules, options| {
            build(Algorithm::MaskHash, rules, options)
        }),
        classifier_suite!(list batches: turbo_on_card, &|rules, options| {
            build(Algorithm::Turbo, rules, options)
        }),
    ]
    .concat()
}

/// The card of all tests, or why it cannot be opened.
fn open_card() -> &'static Result<Arc<Device>, GpuError> {
    static CARD: OnceLock<Result<Arc<Device>, GpuError>> = OnceLock::new();
    CARD.get_or_init(|| Device::open_card(0, None))
}

/// The card of all tests.
///
/// # Panics
/// Without a card, which `--ignored` leads to.
fn card() -> Arc<Device> {
    open_card().clone().unwrap_or_else(|missing| panic!("no card: {missing}"))
}

/// An engine on the card.
fn build(
    algorithm: Algorithm,
    rules: &Ruleset,
    options: &BuildOptions,
) -> Result<Box<dyn Classifier>, ClassifyError> {
    let card = card();
    let built = engine::build(&card, algorithm, rules, options);
    assert_eq!(card.retired(), None, "the card was retired");
    built
}

/// Both ways to the card, batches around the sizes of warps, blocks and tiles, larger sets.
fn every_way_and_length_equals_the_reference() {
    let card = card();
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

/// Keys of 13 bytes, both ways to the card.
fn packed_keys_of_every_length_equal_the_reference() {
    let card = card();
    let ruleset =
        RulesetSpec { style: Style::Fw, family: Family::Ipv4, rules: 1500, seed: 7 }.generate();
    let keys = dense::keys_near(&ruleset, 8191, 5);
    let mut want = vec![RuleId::NONE; keys.len()];
    linear::classify(&ruleset, keys.as_batch(), &mut want);
    let store = RuleStore::build(&ruleset, usize::MAX).unwrap();
    for algorithm in Algorithm::ALL {
        let image = Image::build(algorithm, &store, usize::MAX, 3).unwrap();
        let loaded = card.load(Arc::new(PackedImage::new(image, &store).unwrap())).unwrap();
        for transfer in [Transfer::Copies, Transfer::Direct] {
            let mut ring: Ring<PackedImage> =
                Ring::new(&card, PackedImage::FORM, keys.len(), 3).unwrap();
            ring.set_transfer(TransferChoice::Always(transfer));
            for len in [1, 31, 32, 33, 255, 256, 257, 1023, 4096, 8191] {
                let room = ring.keys_mut().unwrap();
                let some = keys.as_batch().iter().take(len).enumerate();
                some.for_each(|(at, key)| put(room, at, key));
                ring.submit(&loaded, len);
                let mut out = vec![RuleId(7); len];
                ring.take(&mut out);
                assert_eq!(out, want[..len], "{algorithm} {transfer:?} {len}");
                assert_eq!(card.retired(), None);
            }
        }
    }
}

/// An image that the card has no room for is refused by name, and the host answers.
fn a_card_that_is_full_leaves_the_answers_right() {
    let device = Device::open_card(0, None).unwrap();
    let ruleset =
        RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 100, seed: 1 }.generate();
    let classifier =
        engine::build(&device, Algorithm::Turbo, &ruleset, &BuildOptions::default()).unwrap();
    // Keys for which no card has memory.
    let refused = device.slot::<Image>(ruleset.schema(), 1 << 40).map(|_| ()).unwrap_err();
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

fn frames_of_every_schema_and_engine_equal_the_reference() {
    let card = card();
    for schema in SCHEMAS {
        for algorithm in Algorithm::ALL {
            let mut soak = Soak::new(schema, &[algorithm], 200, FramesConfig::default());
            soak.frames = 5000;
            let count = soak.run(&card, &mut clock()).count;
            let what = format!("{} {algorithm}: {count:?}", schema.name);
            assert_eq!((card.retired(), count.rescued), (None, 0), "{what}");
            assert!(count.resident > 500 && count.launched > 100, "{what}");
        }
    }
}

/// More streams than connections, opened after resident kernels came.
fn no_launch_waits_for_the_kernel_of_frames() {
    fn now() -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
    let device = Device::open_card(0, None).unwrap();
    device.set_deadline(Deadline { slack: Deadline::SLACK, now });
    device.set_resident_use(ResidentUse { choice: ResidentChoice::Always, now });
    let ruleset =
        RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 1000, seed: 4 }.generate();
    let options = BuildOptions::default();
    let resident = engine::build(&device, Algorithm::Turbo, &ruleset, &options).unwrap();
    let launched = engine::load(&device, Algorithm::Turbo, &ruleset, &options).unwrap();
    let keys = dense::keys_near(&ruleset, 300, 2);
    let mut want = vec![RuleId::NONE; keys.len()];
    linear::classify(&ruleset, keys.as_batch(), &mut want);
    let mut rings: Vec<Ring<Image>> = Vec::new();
    for _ in 0..24 {
        let mut out = vec![RuleId(7); keys.len()];
        resident.classify(keys.as_batch(), &mut out);
        assert_eq!(out, want);
        rings.push(Ring::new(&device, ruleset.schema(), keys.len(), 3).unwrap());
        for ring in &mut rings {
            let room = ring.keys_mut().unwrap();
            room[..keys.as_batch().words().len()].copy_from_slice(keys.as_batch().words());
            ring.submit(&launched, keys.len());
            ring.take(&mut out);
            assert_eq!(out, want);
        }
        assert_eq!(device.retired(), None, "after {} rings of 3 streams", rings.len());
    }
}

/// A soak as a line of JSON.
fn json_of(soaked: &Soaked, what: &str, keys_max: usize, took: Duration) -> String {
    let count = soaked.count;
    let figures = [
        ("keys_max", keys_max as u64),
        ("resident", count.resident),
        ("launched", count.launched),
        ("rescued", count.rescued),
        ("keys", soaked.keys),
        ("changes", soaked.changes),
        ("starts", count.starts),
        ("interrupts", soaked.interrupts),
        ("interrupts_at_work", soaked.interrupts_at_work),
        ("left", count.left),
        ("slow_loads", soaked.slow_loads),
        ("slow_resident", soaked.slow_resident),
        ("slow_launched", soaked.slow_launched),
        ("slow_ms", soaked.slow.as_millis() as u64),
        ("doubts", count.doubts),
        ("doubts_at_start", count.doubts_at_start),
        ("pauses", count.pauses),
        ("took_ms", took.as_millis() as u64),
    ];
    let figures = figures.map(|(name, value)| format!("\"{name}\": {value}")).join(", ");
    format!("{{\"soak\": \"{what}\", {figures}}}")
}

/// How many frames: `WARPSWITCH_SOAK_FRAMES`, or some.
fn soak_frames() -> u64 {
    let frames = std::env::var("WARPSWITCH_SOAK_FRAMES").ok().and_then(|n| n.parse().ok());
    frames.unwrap_or(100_000)
}

/// Frames of changing size, rules that change, the kernel stopped, interrupted at work and started
/// again in between. Prints a line of JSON.
fn soak(
    what: &str,
    (schema, frames): (&'static Schema, u64),
    algorithm: Algorithm,
    rules: usize,
    config: FramesConfig,
) {
    let card = card();
    let mut soak = Soak::new(schema, &[algorithm], rules, config);
    soak.frames = frames;
    soak.resident_only = config.hysteresis == Hysteresis::always();
    soak.change_every = if frames > 1_000_000 { 1000 } else { 100 };
    soak.interrupt_every = if frames > 1_000_000 { 5000 } else { 500 };
    let start = Instant::now();
    let soaked = soak.run(&card, &mut clock());
    println!("{}", json_of(&soaked, what, config.keys_max, start.elapsed()));
    let count = soaked.count;
    assert_eq!((card.retired(), count.rescued), (None, 0), "{soaked:?}");
    assert!(count.starts > frames / 20_000 && soaked.interrupts_at_work > 0, "{soaked:?}");
    assert!(!soak.resident_only || count.resident >= frames, "{soaked:?}");
}

fn always(keys_max: usize) -> FramesConfig {
    FramesConfig { hysteresis: Hysteresis::always(), keys_max, ..FramesConfig::default() }
}

fn no_frame_is_torn_as_the_kernel_comes_and_goes() {
    let frames = (SCHEMAS[0], soak_frames());
    soak("hysteresis", frames, Algorithm::Turbo, 1000, FramesConfig::default());
}

fn no_frame_is_torn_in_the_kernel() {
    soak("always, small", (SCHEMAS[0], soak_frames()), Algorithm::Turbo, 1000, always(256));
}

fn no_large_frame_is_torn_in_the_kernel() {
    soak("always, large", (SCHEMAS[0], soak_frames()), Algorithm::MaskHash, 50, always(1024));
}

/// Their keys are of several pieces, each with its tag.
fn no_frame_of_wide_keys_is_torn_in_the_kernel() {
    for schema in [&schema::IPV6_5TUPLE, &schema::OPENFLOW12_IPV6] {
        let what = format!("always, {}", schema.name);
        soak(&what, (schema, soak_frames() / 10), Algorithm::Turbo, 200, always(256));
    }
}

/// Rules that go and come in groups while batches are looked up: each batch equals the reference at
/// a version that was current meanwhile, and after every group the card has what the host has.
fn changes_reach_the_card_whole() {
    let card = card();
    for (style, family, rules) in [
        (Style::Acl, Family::Ipv4, 20_000),
        (Style::Fw, Family::Ipv4, 1500),
        (Style::Ipc, Family::Ipv6, 1200),
    ] {
        let ruleset = RulesetSpec { style, family, rules, seed: 5 }.generate();
        let engine =
            LiveEngine::build(&card, Algorithm::Turbo, &ruleset, &BuildOptions::default()).unwrap();
        let keys = dense::keys_near(&ruleset, 5000, 6);
        let mut present = vec![true; ruleset.len()];
        let mut state = 7u64;
        for group in 0..60 {
            let changes: Vec<RuleChange<'_>> = (0..1 + group * 7)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let id = (state >> 33) as usize % ruleset.len();
                    present[id] = !present[id];
                    let rule = ruleset.rule(RuleId(id as u32));
                    if present[id] { RuleChange::Insert(rule) } else { RuleChange::Remove(rule) }
                })
                .collect();
            engine.change(&changes).unwrap();
            let mut out = vec![RuleId(7); keys.len()];
            engine.classify(keys.as_batch(), &mut out);
            let mut want = vec![RuleId(7); keys.len()];
            engine.current().image().classify(keys.as_batch(), &mut want);
            assert_eq!(out, want, "{style:?} {family:?} after group {group}");
            assert_eq!(card.retired(), None);
        }
        let there = ruleset.iter().filter(|rule| present[rule.id.as_usize()]);
        let mut kept = RulesetBuilder::new(ruleset.schema());
        let ids: Vec<RuleId> = there.map(|rule| rule.id).collect();
        ids.iter().for_each(|&id| _ = kept.push(ruleset.to_rule(id)));
        let kept = kept.build();
        let mut want = vec![RuleId::NONE; keys.len()];
        linear::classify(&kept, keys.as_batch(), &mut want);
        let want: Vec<RuleId> =
            want.iter().map(|id| if id.is_some() { ids[id.as_usize()] } else { *id }).collect();
        let mut out = vec![RuleId(7); keys.len()];
        engine.classify(keys.as_batch(), &mut out);
        assert_eq!(out, want, "{style:?} {family:?}");
    }
}

/// Versions come and go without the driver being asked for memory.
fn versions_take_no_more_memory() {
    let device = Device::open_card(0, None).unwrap();
    let spec = RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 2000, seed: 1 };
    let ruleset = spec.generate();
    let taken = || device.memory_use().unwrap().taken_bytes;
    let options = BuildOptions::default();
    let classifier = engine::build(&device, Algorithm::Turbo, &ruleset, &options).unwrap();
    // This one is built anew for each change.
    let rebuilt = engine::build(&device, Algorithm::Linear, &ruleset, &options).unwrap();
    let mut before = 0;
    for id in 0..50 {
        for classifier in [&classifier, &rebuilt] {
            classifier.remove(ruleset.rule(RuleId(id))).unwrap();
        }
        if id == 5 {
            before = taken();
        }
    }
    assert_eq!(taken(), before);
    assert!(before <= device.memory_use().unwrap().bytes_max);
}

/// With the usual deadline a card that works is not retired, and 'auto' uses it.
fn a_card_that_works_keeps_its_deadline() {
    fn now() -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
    let device = Device::open_card(0, None).unwrap();
    device.set_deadline(Deadline { slack: Deadline::SLACK, now });
    let spec = RulesetSpec { style: Style::Fw, family: Family::Ipv4, rules: 2000, seed: 1 };
    let ruleset = spec.generate();
    let keys = dense::keys_near(&ruleset, 200_000, 3);
    let auto = AutoOptions { delay_max: None, now };
    let options = BuildOptions::default();
    let engine = AutoEngine::build(Some(&device), &ruleset, &options, auto).unwrap();
    let mut first = Vec::new();
    for len in [200_000, 64, 150_000, 1, 200_000] {
        let mut out = vec![RuleId(7); len];
        engine.classify(keys.as_batch().slice(0, len), &mut out);
        if first.is_empty() {
            first = out;
        } else {
            assert_eq!(out, first[..len]);
        }
    }
    assert_eq!(device.retired(), None);
    let rows = engine.policy().rows();
    assert!(rows.iter().any(|row| row.device_batches > 0), "{rows:?}");
}

/// Both ways to the card, batches around what a thread, a warp and a block take.
fn routes_of_every_length<A: Address>(card: &Arc<Device>) {
    let lens = [1, 2, 3, 4, 5, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 4095, 8191];
    for routes in [0, 1, 500, 60_000] {
        let table: RouteTable<A> = route_cases::table(routes, 5);
        let live = LiveRoutes::build(card, table.iter(), usize::MAX).unwrap();
        let addrs = route_cases::addresses(&table, 8191, 6);
        let want: Vec<NextHop> = addrs.iter().map(|&addr| table.lookup(addr)).collect();
        for transfer in [Transfer::Copies, Transfer::Direct] {
            let form = RouteImage::<A>::FORM;
            let mut ring: Ring<RouteImage<A>> = Ring::new(card, form, addrs.len(), 3).unwrap();
            ring.set_transfer(TransferChoice::Always(transfer));
            for len in lens {
                let from = addrs.len() - len;
                RouteImage::write_addresses(&addrs[from..], ring.keys_mut().unwrap());
                ring.submit(&live.current(), len);
                let mut out = vec![NextHop(7); len];
                ring.take(&mut out);
                let what = format!("{} bits, {routes} routes, {transfer:?} {len}", A::BITS);
                assert_eq!(out, want[from..], "{what}");
                assert_eq!(card.retired(), None, "{what}");
            }
        }
    }
}

fn every_way_and_length_of_routes_equals_the_reference() {
    let card = card();
    routes_of_every_length::<u32>(&card);
    routes_of_every_length::<u128>(&card);
}

/// Routes that go and come in groups, others beside them: after every group the card answers as the
/// plain table.
/// Several lookups of one batch, small ones read where they are and large ones copied.
fn chains_of_every_length_equal_the_references() {
    let card = card();
    let spec = RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 2000, seed: 3 };
    let ruleset = spec.generate();
    let keys = dense::keys_near(&ruleset, 40_000, 4);
    let mut ids = vec![RuleId::NONE; keys.len()];
    linear::classify(&ruleset, keys.as_batch(), &mut ids);
    let table: RouteTable<u32> = route_cases::table(5000, 5);
    let live = LiveRoutes::build(&card, table.iter(), usize::MAX).unwrap();
    let mut chains: Vec<Chain> = (0..3)
        .map(|_| card.chain(ChainRoom::of(6 * keys.len(), 3 * keys.len())).unwrap())
        .collect();
    for algorithm in Algorithm::ALL {
        let rules = engine::load(&card, algorithm, &ruleset, &BuildOptions::default()).unwrap();
        for (number, len) in [1, 2, 31, 33, 1023, 8192, 40_000].into_iter().enumerate() {
            let chain = &mut chains[number % 3];
            let words = &keys.as_batch().words()[..4 * len];
            let room = chain.words_mut();
            room[..words.len()].copy_from_slice(words);
            let routes_at = words.len().next_multiple_of(ALIGN_WORDS);
            for (word, key) in room[routes_at..].iter_mut().zip(words.chunks(4)) {
                *word = key[1];
            }
            chain.begin(routes_at + len);
            let first = chain.step(&rules, 0, len);
            let hops = chain.step(&live.current(), routes_at, len);
            let second = chain.step(&rules, 0, len);
            chain.end();
            chain.wait();
            let (what, answers) = (format!("{algorithm}, {len}"), chain.answers());
            let want: Vec<u32> = ids[..len].iter().map(|id| id.0).collect();
            assert_eq!((&answers[first], &answers[second]), (&want[..], &want[..]), "{what}");
            let mut found = vec![NextHop(7); len];
            RouteImage::<u32>::unpack(&answers[hops], &mut found);
            let want: Vec<NextHop> = words.chunks(4).map(|key| table.lookup(key[1])).collect();
            assert_eq!(found, want, "{what}");
            assert_eq!(card.retired(), None, "{what}");
        }
    }
}

fn changing_routes<A: Address>(card: &Arc<Device>) {
    let mut seeds = route_cases::Seeds(9);
    let mut table: RouteTable<A> = route_cases::table(20_000, 8);
    let live = LiveRoutes::build(card, table.iter(), usize::MAX).unwrap();
    let prefixes: Vec<_> = (0..5000).map(|_| route_cases::prefix(&mut seeds)).collect();
    let known: Vec<_> = table.iter().map(|(prefix, _)| prefix).collect();
    let prefixes = [prefixes, known].concat();
    for group in 0..60usize {
        let changes: Vec<RouteChange<A>> = (0..1 + group * 7)
            .map(|_| {
                let prefix = prefixes[seeds.next() as usize % prefixes.len()];
                if table.remove(prefix).is_some() {
                    return RouteChange::Remove(prefix);
                }
                let hop = NextHop(seeds.next() as u16 % 300);
                table.insert(prefix, hop).unwrap();
                RouteChange::Insert(prefix, hop)
            })
            .collect();
        live.change(&changes).unwrap();
        let addrs = route_cases::addresses(&table, 5000, group as u64);
        let mut out = vec![NextHop(7); addrs.len()];
        live.lookup_batch(&addrs, &mut out);
        let want: Vec<NextHop> = addrs.iter().map(|&addr| table.lookup(addr)).collect();
        assert_eq!(out, want, "{} bits, after group {group}", A::BITS);
        assert_eq!(card.retired(), None);
    }
    let stats = live.stats();
    assert!(stats.whole_copies < 10 && stats.patched_bytes > 0, "{stats:?}");
}

fn changes_of_routes_reach_the_card_whole() {
    let card = card();
    changing_routes::<u32>(&card);
    changing_routes::<u128>(&card);
}

/// Whole headers, both ways to the card, batches around what a warp and a block take.
fn every_way_and_length_of_headers_equals_the_reference() {
    let card = card();
    let table = header_cases::table(60_000, 5);
    let live = LiveHeaders::build_for_headers(&card, table.iter(), usize::MAX).unwrap();
    let packets = header_cases::packets(&table, 20_001, 6);
    for transfer in [Transfer::Copies, Transfer::Direct] {
        let mut ring: Ring<HeaderImage> =
            Ring::new(&card, HeaderImage::FORM, packets.len(), 3).unwrap();
        ring.set_transfer(TransferChoice::Always(transfer));
        for len in [1, 31, 32, 33, 255, 256, 257, 1024, 8191, 20_001] {
            let packets = &packets[packets.len() - len..];
            let room = ring.keys_mut().unwrap().as_chunks_mut::<SLICE_WORDS>().0;
            for (words, packet) in room.iter_mut().zip(packets) {
                *words = *Slice::new(packet).words();
            }
            ring.submit(&live.current(), len);
            let mut out = vec![Slice::new(&[]); len];
            ring.take(&mut out);
            header_cases::check(&out, packets, &table, &format!("{transfer:?} {len}"));
            assert_eq!(card.retired(), None);
        }
    }
}

/// Both ways to the card, batches of one page and of many, over and over the same slots.
fn scans_equal_the_reference() {
    let card = card();
    for case in scan_cases::all() {
        let loaded = card.load(Arc::new(ScanImage::new(&case.patterns))).unwrap();
        let pages = write_pages(case.payloads.iter().map(Vec::as_slice));
        for transfer in [Transfer::Copies, Transfer::Direct] {
            for batch in [1, 3, 70] {
                let mut ring = Ring::new(&card, ScanImage::FORM, batch, 2).unwrap();
                ring.set_transfer(TransferChoice::Always(transfer));
                let mut found = Vec::new();
                for pages in pages.chunks(batch * PAGE_WORDS) {
                    let len = pages.len() / PAGE_WORDS;
                    ring.keys_mut().unwrap()[..pages.len()].copy_from_slice(pages);
                    ring.submit(&loaded, len);
                    let mut out = vec![[7; FOUND_WORDS]; len];
                    ring.take(&mut out);
                    found.extend(out.as_flattened());
                }
                let what = format!("{transfer:?}, batches of {batch}");
                scan_cases::check(&case, &read_pages(&pages, &found), &what);
                assert_eq!(card.retired(), None, "{what}");
            }
        }
        let scanner = DeviceScanner::build(&card, &case.patterns, &ScanOptions::default());
        let payloads: Vec<&[u8]> = case.payloads.iter().map(Vec::as_slice).collect();
        let (mut want, mut got) = (PatternSets::new(), PatternSets::new());
        scanner.scanner().scan_sets(&payloads, &mut Scratch::new(), &mut want);
        let mut queue = scanner.queue(2, 4).unwrap();
        for _ in 0..3 {
            queue.scan_sets(&payloads, &mut got);
            for idx in 0..payloads.len() {
                assert_eq!(got.of(idx), want.of(idx), "{}, payload {idx}", case.name);
            }
        }
    }
}

/// Bytes of a test, which a card reads where they are.
#[derive(Debug)]
struct Frames(Vec<u8>);

impl SharedBytes for Frames {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Texts that lie in memory of the host, at any place of a unit, and in the room of a chain; small
/// columns are read where they are, large ones copied.
fn texts_are_searched_where_they_lie() {
    let card = card();
    for case in scan_cases::all() {
        let loaded = card.load(Arc::new(ScanImage::new(&case.patterns))).unwrap();
        let mut frames = Frames(Vec::new());
        let mut places = Vec::new();
        for (idx, payload) in case.payloads.iter().enumerate() {
            frames.0.resize(frames.0.len().next_multiple_of(64) + idx % 37, 0xee);
            places.push(frames.0.len()..frames.0.len() + payload.len());
            frames.0.extend(payload);
        }
        frames.0.resize(frames.0.len() + (1 << 20), 0);
        let frames: Arc<Frames> = Arc::new(frames);
        let memory = card.reach(frames.clone()).unwrap().expect("it is a card");
        assert_eq!(memory.place(&case.payloads[0]), None, "it lies elsewhere");
        let room = ChainRoom { words: 4096, texts: 1 << 20, answers: 1 << 18, pages: 120 };
        let mut chain = card.chain(room).unwrap();
        let mut scratch = TextFindings::default();
        for batch in [1, 3, 40, 400] {
            let mut got: [_; 2] = std::array::from_fn(|_| vec![Some(Vec::new()); places.len()]);
            for first in (0..places.len()).step_by(batch) {
                let mut texts = Texts::new(800, 120, 1);
                let (words, mut at) = (chain.words_mut(), room.words);
                for (idx, place) in places.iter().enumerate().skip(first).take(batch) {
                    let text = &frames.0[place.clone()];
                    let mut place = memory.place(text).expect("it lies there");
                    if (idx + batch) % 3 == 0 {
                        place = put_text(words, at, text);
                        at += text_words(text.len());
                    }
                    assert!(texts.push(0, idx as u32, place, text.len()), "there is room");
                }
                let sent = texts.end(words);
                chain.begin(sent);
                chain.gather(&texts, 0, at - room.words);
                let found = [0, 1].map(|_| chain.scan(&loaded, texts.pages_of(0)));
                chain.end();
                chain.wait();
                assert_eq!(card.retired(), None, "{}", case.name);
                for (found, got) in found.into_iter().zip(&mut got) {
                    texts.read(0, &chain.answers()[found], &mut scratch, |owner, ids| {
                        got[owner as usize] = ids.map(<[PatternId]>::to_vec);
                    });
                }
            }
            got.iter().for_each(|got| scan_cases::check(&case, got, "where they lie"));
        }
    }
}
