//! Rates of scans, on files that the peers read too; `cargo xtask bench scan` writes these and runs
//! both. By itself it is a test that all runs, on patterns and payloads of its own.
//!
//! ```text
//! scan --patterns FILE --payloads FILE [--payloads FILE]... [--case flagged|caseless]
//!      [--passes N] [--batch N] [--only TEXT]
//! scan --prepare FILE --capture FILE [--capture FILE]...
//! ```
//! Patterns are lines `i HEX` (insensitive) or `- HEX`; `--case caseless` makes all insensitive,
//! which is what one automaton of the `aho-corasick` crate can do. Payloads are records: four bytes
//! of length, the lowest first, and so many bytes. `--prepare` writes those of all TCP segments of
//! captures.
//!
//! One line of JSON for each engine and file of payloads. Every engine's occurrences are counted
//! and go into a digest, before it is timed; the first payloads are held against the reference.
//! What is timed is finding all occurrences: our engines write them to memory, the crate's are
//! counted. One pass to warm up, then the timed ones; the median counts.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use warpswitch_io::CaptureReader;
use warpswitch_scan::{
    Case, Engine, Matches, PatternSets, Patterns, ScanOptions, Scanner, Scratch, naive,
};
use warpswitch_wire::parse::{Transport, parse};

/// Bytes of payloads that are held against the reference.
const CHECKED_BYTES: usize = 4_000;

struct Options {
    patterns: Option<String>,
    payloads: Vec<String>,
    captures: Vec<String>,
    prepare: Option<String>,
    is_caseless: bool,
    passes: usize,
    batch: usize,
    only: String,
}

/// Payloads of one file.
struct Traffic {
    name: String,
    payloads: Vec<Vec<u8>>,
}

fn main() {
    let options = options(std::env::args().skip(1));
    if let Some(path) = &options.prepare {
        prepare(path, &options.captures);
        return;
    }
    let patterns = match &options.patterns {
        Some(path) => read_patterns(path, options.is_caseless),
        None => own_patterns(options.is_caseless),
    };
    let mut traffic: Vec<Traffic> = options.payloads.iter().map(|path| read(path)).collect();
    if traffic.is_empty() {
        traffic.push(own_traffic(&patterns));
    }
    for one in &traffic {
        for engine in Engine::available() {
            run_ours(engine, &patterns, one, &options);
        }
        if options.is_caseless {
            run_crate(AhoCorasickKind::DFA, "aho-corasick DFA crate", &patterns, one, &options);
            let kind = AhoCorasickKind::ContiguousNFA;
            run_crate(kind, "aho-corasick NFA crate", &patterns, one, &options);
        }
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Options {
    let mut options = Options {
        patterns: None,
        payloads: Vec::new(),
        captures: Vec::new(),
        prepare: None,
        is_caseless: true,
        passes: 9,
        batch: 64,
        only: String::new(),
    };
    while let Some(arg) = args.next() {
        // What cargo adds.
        if arg == "--bench" {
            continue;
        }
        let value = args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--patterns" => options.patterns = Some(value),
            "--payloads" => options.payloads.push(value),
            "--capture" => options.captures.push(value),
            "--prepare" => options.prepare = Some(value),
            "--case" => options.is_caseless = value == "caseless",
            "--passes" => options.passes = value.parse().expect("a number"),
            "--batch" => options.batch = value.parse().expect("a number"),
            "--only" => options.only = value,
            _ => panic!("no option is called {arg}"),
        }
    }
    options
}

fn case(is_insensitive: bool) -> Case {
    if is_insensitive { Case::Insensitive } else { Case::Sensitive }
}

fn read_patterns(path: &str, is_caseless: bool) -> Patterns {
    let text = std::fs::read_to_string(path).expect("the patterns cannot be read");
    let mut patterns = Patterns::new();
    for line in text.lines() {
        let (flag, hex) = line.split_once(' ').expect("a flag and hex digits");
        let digits = hex.as_bytes().chunks(2);
        let bytes: Vec<u8> = digits
            .map(|two| {
                let two = str::from_utf8(two).expect("digits");
                u8::from_str_radix(two, 16).expect("digits")
            })
            .collect();
        patterns.push(&bytes, case(flag == "i" || is_caseless)).expect("a pattern");
    }
    patterns
}

fn read(path: &str) -> Traffic {
    let bytes = std::fs::read(path).expect("the payloads cannot be read");
    let mut payloads = Vec::new();
    let mut rest = &bytes[..];
    while let Some((len, behind)) = rest.split_first_chunk() {
        let (payload, behind) = behind.split_at(u32::from_le_bytes(*len) as usize);
        payloads.push(payload.to_vec());
        rest = behind;
    }
    let name = std::path::Path::new(path).file_stem().unwrap_or_default();
    Traffic { name: name.to_string_lossy().into_owned(), payloads }
}

/// Writes the payloads of all TCP segments.
fn prepare(path: &str, captures: &[String]) {
    let mut out = Vec::new();
    for capture in captures {
        let mut reader = CaptureReader::open(capture).expect("the capture cannot be read");
        while let Ok(Some(frame)) = reader.next_frame() {
            let Ok(found) = parse(frame.link_type, frame.data, frame.original_bytes) else {
                continue;
            };
            let payload = found.payload(frame.data);
            if matches!(found.transport, Transport::Tcp { .. }) && !payload.is_empty() {
                out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
                out.extend_from_slice(payload);
            }
        }
    }
    let mut file = std::fs::File::create(path).expect("the payloads cannot be written");
    file.write_all(&out).expect("the payloads cannot be written");
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

fn own_patterns(is_caseless: bool) -> Patterns {
    let mut state = 1;
    let mut patterns = Patterns::new();
    for idx in 0..500 {
        let len = 1 + random(&mut state) % 24;
        let bytes: Vec<u8> = (0..len).map(|_| b'a' + (random(&mut state) % 26) as u8).collect();
        patterns.push(&bytes, case(idx % 2 == 0 || is_caseless)).expect("a pattern");
    }
    patterns
}

fn own_traffic(patterns: &Patterns) -> Traffic {
    let mut state = 2;
    let mut payload = |_| {
        let mut bytes: Vec<u8> = (0..1400).map(|_| (random(&mut state) >> 20) as u8).collect();
        let id = random(&mut state) % patterns.len() as u64;
        let pattern = patterns.get(warpswitch_scan::PatternId(id as u32));
        bytes[100..100 + pattern.bytes.len()].copy_from_slice(pattern.bytes);
        bytes
    };
    Traffic { name: "own".to_owned(), payloads: (0..200).map(&mut payload).collect() }
}

/// A number for an occurrence; their sum hangs on no order.
fn digest(payload_idx: usize, pattern: u32, end: u32) -> u64 {
    let mut state = (payload_idx as u64) << 32 | u64::from(end);
    state = random(&mut state) ^ u64::from(pattern);
    random(&mut state)
}

fn run_ours(engine: Engine, patterns: &Patterns, traffic: &Traffic, options: &Options) {
    let name = format!("warpswitch {}", engine.name());
    let sets_name = format!("{name} sets");
    if !name.contains(&options.only) && !sets_name.contains(&options.only) {
        return;
    }
    let start = Instant::now();
    let scanner = Scanner::build(patterns, &ScanOptions { engine, ..ScanOptions::default() });
    let build_ms = start.elapsed().as_secs_f64() * 1e3;
    let slices: Vec<&[u8]> = traffic.payloads.iter().map(Vec::as_slice).collect();
    let (mut scratch, mut out) = (Scratch::new(), Matches::new());
    let (mut found, mut sum) = (0, 0u64);
    let mut checked = 0;
    for (batch_idx, batch) in slices.chunks(options.batch).enumerate() {
        scanner.scan(batch, &mut scratch, &mut out);
        for (idx, payload) in batch.iter().enumerate() {
            if checked < CHECKED_BYTES {
                checked += payload.len();
                assert_eq!(out.of(idx), naive::matches(patterns, payload), "{name} is wrong");
            }
            found += out.of(idx).len();
            for one in out.of(idx) {
                let payload_idx = batch_idx * options.batch + idx;
                sum = sum.wrapping_add(digest(payload_idx, one.pattern.0, one.end));
            }
        }
    }
    let report = Report { traffic, build_ms, bytes: scanner.bytes(), found, sum: Some(sum) };
    report.print(&name, options, || {
        for batch in slices.chunks(options.batch) {
            scanner.scan(black_box(batch), &mut scratch, &mut out);
            black_box(&out);
        }
    });
    let mut sets = PatternSets::new();
    let report = Report { sum: None, ..report };
    report.print(&sets_name, options, || {
        for batch in slices.chunks(options.batch) {
            scanner.scan_sets(black_box(batch), &mut scratch, &mut sets);
            black_box(&sets);
        }
    });
}

fn run_crate(
    kind: AhoCorasickKind,
    name: &str,
    patterns: &Patterns,
    traffic: &Traffic,
    options: &Options,
) {
    if !name.contains(&options.only) {
        return;
    }
    let start = Instant::now();
    let mut builder = AhoCorasick::builder();
    builder.kind(Some(kind)).match_kind(MatchKind::Standard).ascii_case_insensitive(true);
    let built = builder.build(patterns.iter().map(|(_, pattern)| pattern.bytes));
    let built = built.expect("the crate builds it");
    let build_ms = start.elapsed().as_secs_f64() * 1e3;
    let (mut found, mut sum) = (0, 0u64);
    for (idx, payload) in traffic.payloads.iter().enumerate() {
        for one in built.find_overlapping_iter(payload) {
            found += 1;
            sum = sum.wrapping_add(digest(idx, one.pattern().as_u32(), one.end() as u32));
        }
    }
    let report = Report { traffic, build_ms, bytes: built.memory_usage(), found, sum: Some(sum) };
    report.print(name, options, || {
        for payload in &traffic.payloads {
            black_box(built.find_overlapping_iter(black_box(payload)).count());
        }
    });
}

/// What is said of an engine beside its rate.
struct Report<'a> {
    traffic: &'a Traffic,
    build_ms: f64,
    bytes: usize,
    found: usize,
    /// Of the occurrences, if they were listed.
    sum: Option<u64>,
}

impl Report<'_> {
    /// Times passes and prints the line.
    fn print(&self, name: &str, options: &Options, mut pass: impl FnMut()) {
        if !name.contains(&options.only) {
            return;
        }
        pass();
        let mut seconds: Vec<f64> = (0..options.passes)
            .map(|_| {
                let start = cpu_seconds();
                pass();
                cpu_seconds() - start
            })
            .collect();
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        let bytes: usize = self.traffic.payloads.iter().map(Vec::len).sum();
        let payloads = self.traffic.payloads.len();
        let digest = self.sum.map(|sum| format!(",\"digest\":\"{sum:#018x}\""));
        let digest = digest.unwrap_or_default();
        println!(
            "{{\"name\":\"{name}\",\"payloads\":\"{}\",\"gbps\":{:.3},\"gbps_best\":{:.3},\
             \"mpps\":{:.4},\"p50_ns\":{:.1},\"build_ms\":{:.2},\"bytes\":{},\"found\":{}\
             {digest}}}",
            self.traffic.name,
            8e-9 * bytes as f64 / median,
            8e-9 * bytes as f64 / seconds[0],
            1e-6 * payloads as f64 / median,
            1e9 * median / payloads as f64,
            self.build_ms,
            self.bytes,
            self.found,
        );
    }
}

/// The thread's time on a core, as the peers' clock.
fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}
