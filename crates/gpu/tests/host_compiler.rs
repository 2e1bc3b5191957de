//! The kernels' per-packet functions, built by the host's C++ compiler, against the reference.
//!
//! The very source that runs on cards answers keys over real images here, in a program of its own.
//! `WARPSWITCH_NEED_CXX`, which the checks before a change lands set, makes the compiler's absence
//! a failure.

mod support {
    pub mod header_cases;
    pub mod route_cases;
    pub mod scan_cases;
}

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{header_cases, route_cases, scan_cases};
use tempfile::TempDir;
use warpswitch_classify::parts::RuleStore;
use warpswitch_classify::{BuildOptions, Classifier};
use warpswitch_gpu::host::HostPool;
use warpswitch_gpu::image::abi;
use warpswitch_gpu::image::hashes::{HashFunction, Subject};
use warpswitch_gpu::kernels::{HEADERS, KernelShape};
use warpswitch_gpu::live::LiveEngine;
use warpswitch_gpu::packed::{PackedImage, put};
use warpswitch_gpu::routes::{LiveHeaders, LiveRoutes, RouteImage, SLICE_WORDS, Slice};
use warpswitch_gpu::scan::{FOUND_WORDS, PAGE_WORDS, ScanImage, read_pages, write_pages};
use warpswitch_gpu::split::RuleSplit;
use warpswitch_gpu::work::{Lookup, Work};
use warpswitch_gpu::{Algorithm, Device, Image};
use warpswitch_routes::{Address, NextHop, RouteTable};
use warpswitch_rules::generate::{Family, RulesetSpec, Style};
use warpswitch_rules::schema::SCHEMAS;
use warpswitch_rules::{KeyBuf, RuleId, Ruleset, RulesetBuilder, linear};
use warpswitch_testkit::dense;

const PROGRAM: &str = include_str!("../../../kernels/test/lookup.cpp");
const HASHES_PROGRAM: &str = include_str!("../../../kernels/test/hashes.cpp");
const SCAN_PROGRAM: &str = include_str!("../../../kernels/test/scan.cpp");
const GATHER_PROGRAM: &str = include_str!("../../../kernels/test/gather.cpp");
const SPLIT_PROGRAM: &str = include_str!("../../../kernels/test/split.cpp");
const ROUTES_PROGRAM: &str = include_str!("../../../kernels/test/routes.cpp");

fn has_compiler() -> bool {
    let found = Command::new("c++").arg("--version").output().is_ok_and(|out| out.status.success());
    let needed = std::env::var_os("WARPSWITCH_NEED_CXX").is_some();
    assert!(found || !needed, "there is no C++ compiler");
    found
}

/// The algorithm's header, and what it needs defined besides the shape.
fn header(algorithm: Algorithm) -> (&'static str, [&'static str; 2]) {
    match algorithm {
        Algorithm::Linear => ("linear", ["-DWS_CUCKOO=0", "-DWS_FILTERED=0"]),
        Algorithm::MaskHash => ("tables", ["-DWS_CUCKOO=0", "-DWS_FILTERED=0"]),
        Algorithm::Tuple => ("tables", ["-DWS_CUCKOO=1", "-DWS_FILTERED=0"]),
        Algorithm::Bloom => ("tables", ["-DWS_CUCKOO=1", "-DWS_FILTERED=1"]),
        Algorithm::Turbo => ("turbo", ["-DWS_CUCKOO=0", "-DWS_FILTERED=0"]),
    }
}

/// A program that answers keys over images of one shape.
fn compile(folder: &TempDir, algorithm: Algorithm, shape: &KernelShape) -> PathBuf {
    let (header, more) = header(algorithm);
    let header = format!("-DWS_ALGORITHM=\"warpswitch/{header}.cuh\"");
    compile_program(folder, PROGRAM, shape, &[more[0], more[1], &header])
}

fn compile_program(folder: &TempDir, text: &str, shape: &KernelShape, more: &[&str]) -> PathBuf {
    let root = folder.path();
    fs::create_dir_all(root.join("warpswitch")).unwrap();
    for (name, text) in HEADERS {
        fs::write(root.join(name), text).unwrap();
    }
    let source = root.join("lookup.cpp");
    fs::write(&source, text).unwrap();
    let program = root.join("lookup");
    let made = Command::new("c++")
        .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined"])
        .arg("-fno-sanitize-recover=all")
        .args(shape.definitions())
        .args(more)
        .arg("-I")
        .arg(root)
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{more:?} {shape:?}:\n{messages}");
    program
}

/// What the program answers.
fn run(program: &Path, image: &Image, keys: &KeyBuf) -> Vec<RuleId> {
    let mut input = vec![image.words().len() as u32, keys.len() as u32];
    input.extend(image.numbers());
    input.extend(image.words());
    input.extend(keys.as_batch().words());
    run_program(program, &input).into_iter().map(RuleId).collect()
}

fn run_program(program: &Path, input: &[u32]) -> Vec<u32> {
    let bytes: Vec<u8> = input.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Answers come when all input has been read, so no pipe fills up meanwhile.
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (answers, rest) = output.stdout.as_chunks::<4>();
    assert!(rest.is_empty());
    answers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

fn check_answers(program: &Path, image: &Image, ruleset: &Ruleset) {
    let keys = dense::keys_near(ruleset, 700, 9);
    let mut want = vec![RuleId::NONE; keys.len()];
    linear::classify(ruleset, keys.as_batch(), &mut want);
    let mut twin = vec![RuleId(7); keys.len()];
    image.classify(keys.as_batch(), &mut twin);
    let what = format!("{} {:?}", image.algorithm(), image.shape());
    assert_eq!(twin, want, "{what}, in Rust");
    assert_eq!(run(program, image, &keys), want, "{what}, in C++");
}

fn check(program: &Path, algorithm: Algorithm, ruleset: &Ruleset, shape: &KernelShape) {
    let store = RuleStore::build(ruleset, usize::MAX).unwrap();
    let image = Image::build(algorithm, &store, usize::MAX, 0x5eed).unwrap();
    if image.shape() != shape {
        return;
    }
    check_answers(program, &image, ruleset);
}

fn check_algorithm(algorithm: Algorithm) {
    if !has_compiler() {
        return;
    }
    for schema in SCHEMAS {
        for compact in [false, true] {
            let has_compact = matches!(algorithm, Algorithm::Linear | Algorithm::Turbo);
            if compact && !(schema.words == 4 && has_compact) {
                continue;
            }
            let (words, ports_word) = (schema.words, schema.ports_word);
            let shape = KernelShape { words, ports_word, compact, packed: false };
            let folder = tempfile::tempdir().unwrap();
            let program = compile(&folder, algorithm, &shape);
            for (rules, wild) in [(0, 4), (1, 4), (60, 4), (300, 6)] {
                check(&program, algorithm, &dense::ruleset(schema, rules, wild, 21), &shape);
            }
            for style in [Style::Acl, Style::Fw, Style::Ipc] {
                for family in [Family::Ipv4, Family::Ipv6] {
                    let rules = RulesetSpec { style, family, rules: 250, seed: 8 }.generate();
                    if rules.schema() == schema {
                        check(&program, algorithm, &rules, &shape);
                    }
                }
            }
        }
    }
}

/// Keys of 13 bytes.
#[test]
fn packed_keys_equal_the_reference() {
    if !has_compiler() {
        return;
    }
    let ruleset =
        RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 250, seed: 8 }.generate();
    let keys = dense::keys_near(&ruleset, 700, 9);
    let mut want = vec![RuleId::NONE; keys.len()];
    linear::classify(&ruleset, keys.as_batch(), &mut want);
    for algorithm in Algorithm::ALL {
        let store = RuleStore::build(&ruleset, usize::MAX).unwrap();
        let image = Image::build(algorithm, &store, usize::MAX, 0x5eed).unwrap();
        let image = PackedImage::new(image, &store).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let program = compile(&folder, algorithm, &image.shape());
        let mut packed = vec![0; image.form().keys_len(keys.len())];
        keys.as_batch().iter().enumerate().for_each(|(at, key)| put(&mut packed, at, key));
        let mut input = vec![image.words().len() as u32, keys.len() as u32];
        input.extend(image.numbers());
        input.extend(image.words());
        input.extend(packed);
        let found: Vec<RuleId> = run_program(&program, &input).into_iter().map(RuleId).collect();
        assert_eq!(found, want, "{algorithm}");
    }
}

/// What is kept in shared memory: units at a time, words of the window, findings of the queue.
type Stage = (u32, u32, u32);

/// Divisions of rules: all units at a time and one by one, windows over nothing, a part and all,
/// queues that are large and too small.
const SPLITS: [(RuleSplit, Stage); 4] = [
    (RuleSplit { parts: 2, groups: 1, threads: 64, window_bytes: None }, (4096, 1 << 20, 4096)),
    (RuleSplit { parts: 2, groups: 3, threads: 128, window_bytes: None }, (7, 64, 128)),
    (RuleSplit { parts: 8, groups: 1, threads: 256, window_bytes: None }, (1, 0, 0)),
    (RuleSplit { parts: 4, groups: 8, threads: 256, window_bytes: None }, (4096, 1000, 10)),
];

/// The words that `split.cpp` reads.
fn split_input(
    image: &Image,
    (split, (staged, window, queue)): (RuleSplit, Stage),
    keys_len: usize,
    keys: &[u32],
) -> Vec<u32> {
    let mut input = vec![image.words().len() as u32, keys_len as u32];
    input.extend(image.numbers());
    input.extend([split.parts as u32, split.groups as u32, staged, window]);
    input.extend([split.threads as u32 / 32, queue]);
    input.extend(image.words());
    input.extend(keys);
    input
}

fn compile_split(folder: &TempDir, algorithm: Algorithm, shape: &KernelShape) -> PathBuf {
    let (_, more) = header(algorithm);
    let stage = if algorithm == Algorithm::Linear { "rows" } else { "tables" };
    let header = format!("-DWS_ALGORITHM=\"warpswitch/stage_{stage}.cuh\"");
    compile_program(folder, SPLIT_PROGRAM, shape, &[more[0], more[1], &header])
}

/// The rule-parallel search in C++ and in Rust, for each way to divide the rules.
fn check_splits(program: &Path, image: &Image, ruleset: &Ruleset) {
    let keys = dense::keys_near(ruleset, 333, 9);
    let mut want = vec![RuleId::NONE; keys.len()];
    linear::classify(ruleset, keys.as_batch(), &mut want);
    for (split, stage) in SPLITS {
        let what = format!("{} {:?} {split} {stage:?}", image.algorithm(), image.shape());
        let mut twin = vec![RuleId(7); keys.len()];
        image.classify_split(&split, keys.as_batch(), &mut twin);
        assert_eq!(twin, want, "{what}, in Rust");
        let input = split_input(image, (split, stage), keys.len(), keys.as_batch().words());
        let found: Vec<RuleId> = run_program(program, &input).into_iter().map(RuleId).collect();
        assert_eq!(found, want, "{what}, in C++");
    }
}

fn check_split_algorithm(algorithm: Algorithm) {
    if !has_compiler() {
        return;
    }
    for schema in SCHEMAS {
        for compact in [false, true] {
            if compact && (schema.words != 4 || algorithm != Algorithm::Linear) {
                continue;
            }
            let (words, ports_word) = (schema.words, schema.ports_word);
            let shape = KernelShape { words, ports_word, compact, packed: false };
            let folder = tempfile::tempdir().unwrap();
            let program = compile_split(&folder, algorithm, &shape);
            let mut sets: Vec<Ruleset> = [(0, 4), (1, 4), (60, 4), (300, 6)]
                .map(|(rules, wild)| dense::ruleset(schema, rules, wild, 21))
                .into();
            for style in [Style::Acl, Style::Fw, Style::Ipc] {
                for family in [Family::Ipv4, Family::Ipv6] {
                    sets.push(RulesetSpec { style, family, rules: 250, seed: 8 }.generate());
                }
            }
            let mut checked = 0;
            for ruleset in sets.iter().filter(|ruleset| ruleset.schema() == schema) {
                let store = RuleStore::build(ruleset, usize::MAX).unwrap();
                let image = Image::build(algorithm, &store, usize::MAX, 0x5eed).unwrap();
                if image.shape() == &shape {
                    check_splits(&program, &image, ruleset);
                    checked += 1;
                }
            }
            assert!(checked > 0, "{} {shape:?}", schema.name);
        }
    }
}

#[test]
fn divided_linear_equals_the_reference() {
    check_split_algorithm(Algorithm::Linear);
}

#[test]
fn divided_tuple_equals_the_reference() {
    check_split_algorithm(Algorithm::Tuple);
}

#[test]
fn divided_bloom_equals_the_reference() {
    check_split_algorithm(Algorithm::Bloom);
}

/// Changes move tables out of the order in which they were built, and out of the window.
#[test]
fn divided_tables_equal_the_reference_after_changes() {
    if !has_compiler() {
        return;
    }
    let schema = SCHEMAS[0];
    let (words, ports_word) = (schema.words, schema.ports_word);
    let shape = KernelShape { words, ports_word, compact: false, packed: false };
    let all = dense::ruleset(schema, 400, 5, 33);
    let first_rules = |count: usize| {
        let mut builder = RulesetBuilder::new(schema);
        all.iter().take(count).for_each(|rule| _ = builder.push(all.to_rule(rule.id)));
        builder.build()
    };
    for algorithm in [Algorithm::Tuple, Algorithm::Bloom] {
        let folder = tempfile::tempdir().unwrap();
        let program = compile_split(&folder, algorithm, &shape);
        let pool = HostPool::new(1, &mut |worker| _ = std::thread::spawn(worker));
        let device = Device::from_pool(pool);
        let options = BuildOptions::default();
        let engine = LiveEngine::build(&device, algorithm, &first_rules(100), &options).unwrap();
        let (mut patched, mut words_len) = (0, engine.current().image().words().len());
        for id in 100..all.len() {
            engine.insert(all.rule(RuleId(id as u32))).unwrap();
            let loaded = engine.current();
            patched += usize::from(loaded.image().words().len() == words_len);
            words_len = loaded.image().words().len();
            if id % 60 == 1 {
                check_splits(&program, loaded.image(), &first_rules(id + 1));
            }
        }
        assert!(patched > 100, "{algorithm}: {patched} changes were patches");
        let last = all.rule(RuleId(all.len() as u32 - 1));
        engine.remove(last).unwrap();
        check_splits(&program, engine.current().image(), &first_rules(all.len() - 1));
    }
}

/// Keys of 13 bytes, a batch that ends within a block.
#[test]
fn divided_packed_keys_equal_the_reference() {
    if !has_compiler() {
        return;
    }
    let ruleset =
        RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 250, seed: 8 }.generate();
    let keys = dense::keys_near(&ruleset, 301, 9);
    let mut want = vec![RuleId::NONE; keys.len()];
    linear::classify(&ruleset, keys.as_batch(), &mut want);
    for algorithm in [Algorithm::Linear, Algorithm::Tuple, Algorithm::Bloom] {
        let store = RuleStore::build(&ruleset, usize::MAX).unwrap();
        let image = Image::build(algorithm, &store, usize::MAX, 0x5eed).unwrap();
        let work = PackedImage::new(image.clone(), &store).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let program = compile_split(&folder, algorithm, &work.shape());
        let mut packed = vec![0; work.form().keys_len(keys.len())];
        keys.as_batch().iter().enumerate().for_each(|(at, key)| put(&mut packed, at, key));
        for split in SPLITS {
            let input = split_input(&image, split, keys.len(), &packed);
            let found: Vec<RuleId> =
                run_program(&program, &input).into_iter().map(RuleId).collect();
            assert_eq!(found, want, "{algorithm} {split:?}");
        }
    }
}

#[test]
fn linear_equals_the_reference() {
    check_algorithm(Algorithm::Linear);
}

#[test]
fn tuple_equals_the_reference() {
    check_algorithm(Algorithm::Tuple);
}

#[test]
fn bloom_equals_the_reference() {
    check_algorithm(Algorithm::Bloom);
}

/// Rules with masks that no table had: such tables are chunks of their own, behind the others.
#[test]
fn bloom_equals_the_reference_after_changes() {
    if !has_compiler() {
        return;
    }
    for schema in SCHEMAS {
        let (words, ports_word) = (schema.words, schema.ports_word);
        let folder = tempfile::tempdir().unwrap();
        let shape = KernelShape { words, ports_word, compact: false, packed: false };
        let program = compile(&folder, Algorithm::Bloom, &shape);
        let all = dense::ruleset(schema, 52, 4, 33);
        let first_rules = |count: usize| {
            let mut builder = RulesetBuilder::new(schema);
            all.iter().take(count).for_each(|rule| _ = builder.push(all.to_rule(rule.id)));
            builder.build()
        };
        let pool = HostPool::new(1, &mut |worker| _ = std::thread::spawn(worker));
        let device = Device::from_pool(pool);
        let options = BuildOptions::default();
        let engine =
            LiveEngine::build(&device, Algorithm::Bloom, &first_rules(40), &options).unwrap();
        let of_image = || {
            let loaded = engine.current();
            (loaded.image().words().len(), loaded.image().numbers()[abi::TABLES])
        };
        let mut grown = 0;
        for id in 40..all.len() {
            let before = of_image();
            engine.insert(all.rule(RuleId(id as u32))).unwrap();
            let after = of_image();
            grown += u32::from(before.0 == after.0 && after.1 > before.1);
            if id % 5 == 1 {
                check_answers(&program, engine.current().image(), &first_rules(id + 1));
            }
        }
        assert!(grown > 2, "{}: tables came with a new image only", schema.name);
    }
}

#[test]
fn maskhash_equals_the_reference() {
    check_algorithm(Algorithm::MaskHash);
}

#[test]
fn turbo_equals_the_reference() {
    check_algorithm(Algorithm::Turbo);
}

#[test]
fn hash_functions_equal_the_reference() {
    if !has_compiler() {
        return;
    }
    for schema in SCHEMAS {
        let (words, ports_word) = (schema.words, schema.ports_word);
        let shape = KernelShape { words, ports_word, compact: false, packed: false };
        for function in HashFunction::ALL {
            let folder = tempfile::tempdir().unwrap();
            let number = format!("-DWS_HASH_FUNCTION={}", function.index());
            let program = compile_program(&folder, HASHES_PROGRAM, &shape, &[&number]);
            for (rules, seed) in [(0, 1), (1, 2), (300, 3), (300, 4)] {
                let ruleset = dense::ruleset(schema, rules, 6, 21);
                let store = RuleStore::build(&ruleset, usize::MAX).unwrap();
                let image = Subject::new(&store, usize::MAX).unwrap().image(function, seed);
                assert_eq!(image.shape(), shape);
                let keys = dense::keys_near(&ruleset, 301, 9);
                let mut want = vec![7; keys.len()];
                image.answer(keys.as_batch().words(), &mut want);
                let mut input = vec![image.words().len() as u32, keys.len() as u32];
                input.extend(image.numbers());
                input.extend(image.words());
                input.extend(keys.as_batch().words());
                let got = run_program(&program, &input);
                assert_eq!(got, want, "{function}, {rules} rules of {}", schema.name);
                assert!(rules == 0 || want.iter().any(|&fold| fold != 0), "{function}");
            }
        }
    }
}

/// Routes in both families' images, against the plain table.
fn check_routes<A: Address>() {
    if !has_compiler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = RouteImage::<A>::ADDRESS_WORDS;
    let shape = KernelShape { words, ports_word: 0, compact: false, packed: false };
    let program = compile_program(&folder, ROUTES_PROGRAM, &shape, &[]);
    let pool = HostPool::new(1, &mut |worker| _ = std::thread::spawn(worker));
    let device = Device::from_pool(pool);
    for routes in [0, 1, 300, 5000] {
        let table: RouteTable<A> = route_cases::table(routes, 3);
        let live = LiveRoutes::build(&device, table.iter(), usize::MAX).unwrap();
        let addrs = route_cases::addresses(&table, 4001, 4);
        let image = live.current();
        let image_words = image.image().words();
        let mut input = vec![image_words.len() as u32, addrs.len() as u32];
        input.extend(image_words);
        let at = input.len();
        input.resize(at + addrs.len() * words, 0);
        RouteImage::write_addresses(&addrs, &mut input[at..]);
        let hops = run_program(&program, &input);
        let want: Vec<u32> = addrs.iter().map(|&addr| u32::from(table.lookup(addr).0)).collect();
        assert_eq!(hops, want, "{routes} routes, in C++");
        let mut twin = vec![NextHop(7); addrs.len()];
        image.image().lookup_batch(&addrs, &mut twin);
        let twin: Vec<u32> = twin.iter().map(|hop| u32::from(hop.0)).collect();
        assert_eq!(twin, want, "{routes} routes, in Rust");
    }
}

#[test]
fn ipv4_routes_equal_the_reference() {
    check_routes::<u32>();
}

#[test]
fn ipv6_routes_equal_the_reference() {
    check_routes::<u128>();
}

#[test]
fn whole_headers_equal_the_reference() {
    if !has_compiler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shape = KernelShape { words: SLICE_WORDS, ports_word: 0, compact: false, packed: false };
    let program = compile_program(&folder, ROUTES_PROGRAM, &shape, &[]);
    let pool = HostPool::new(1, &mut |worker| _ = std::thread::spawn(worker));
    let table = header_cases::table(3000, 3);
    let device = Device::from_pool(pool);
    let live = LiveHeaders::build_for_headers(&device, table.iter(), usize::MAX).unwrap();
    let packets = header_cases::packets(&table, 20_001, 4);
    let image = live.current();
    let mut input = vec![image.image().words().len() as u32, packets.len() as u32];
    input.extend(image.image().words());
    packets.iter().for_each(|packet| input.extend(Slice::new(packet).words()));
    let out = run_program(&program, &input);
    let out: Vec<Slice> =
        out.as_chunks::<SLICE_WORDS>().0.iter().map(|words| Slice::from_words(*words)).collect();
    let counts = header_cases::check(&out, &packets, &table, "in C++");
    assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
}

#[test]
fn scans_equal_the_reference() {
    if !has_compiler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shape = KernelShape { words: 4, ports_word: 0, compact: false, packed: false };
    let program = compile_program(&folder, SCAN_PROGRAM, &shape, &[]);
    for case in scan_cases::all() {
        let image = ScanImage::new(&case.patterns);
        let pages = write_pages(case.payloads.iter().map(Vec::as_slice));
        let mut twin = vec![7; pages.len() / PAGE_WORDS * FOUND_WORDS];
        image.answer(&pages, &mut twin);
        let mut input = vec![image.words().len() as u32, (pages.len() / PAGE_WORDS) as u32];
        input.extend(image.numbers());
        input.extend(image.words());
        input.extend(&pages);
        let found = run_program(&program, &input);
        assert_eq!(read_pages(&pages, &found), read_pages(&pages, &twin), "{}", case.name);
        scan_cases::check(&case, &read_pages(&pages, &found), "in C++");
    }
}

#[test]
fn units_of_texts_are_shifted_as_bytes_are() {
    if !has_compiler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shape = KernelShape { words: 4, ports_word: 0, compact: false, packed: false };
    let program = compile_program(&folder, GATHER_PROGRAM, &shape, &[]);
    let bytes: Vec<u8> = (0..32).map(|byte| byte * 7 + 1).collect();
    let words = |bytes: &[u8]| -> Vec<u32> {
        bytes.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four)).collect()
    };
    let mut input = vec![16];
    for at in 0..16 {
        input.push(at);
        input.extend(words(&bytes));
    }
    let want: Vec<u32> = (0..16).flat_map(|at| words(&bytes[at..at + 16])).collect();
    assert_eq!(run_program(&program, &input), want);
}
