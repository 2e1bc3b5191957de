//! Rates of stateless matching on one core, per packet.
//!
//! ```text
//! stateless [--rules N] [--packets N] [--batch N] [--passes N]
//! ```
//! Rules look for words that traffic does not hold (`bench/gpu/offload.sh` has the same); packets
//! are UDP datagrams of as many flows, with random payloads. Before a rate is measured, a packet
//! with each of a few words must be found, and no other. One line of JSON for each frame size: the
//! median of the passes.

use std::hint::black_box;
use std::time::Instant;

use warpswitch_ids::{
    Packet, RuleText, StatelessEngine, StatelessMatches, StatelessScratch, Variables, read_rules,
};
use warpswitch_wire::link::LinkType;

/// Bytes of frames, without their checksums, and what they are called.
const FRAMES: [(usize, usize); 3] = [(60, 64), (252, 256), (1510, 1514)];

/// Bytes of the headers of Ethernet, IPv4 and UDP.
const HEADER_BYTES: usize = 42;

/// Packets with a word that is looked for.
const CHECKED: usize = 16;

struct Options {
    rules: usize,
    packets: usize,
    batch: usize,
    passes: usize,
}

/// A generator of numbers: the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }
}

fn main() {
    let options = options(std::env::args().skip(1));
    let mut random = Random(7);
    let words: Vec<String> = (0..options.rules).map(|_| word(&mut random)).collect();
    let engine = engine(&words);
    for (bytes, size) in FRAMES {
        check(&engine, &words, bytes);
        let frames: Vec<Vec<u8>> =
            (0..options.packets).map(|n| frame(n as u32, bytes, &mut random, b"")).collect();
        let (ns, hits) = measure(&engine, &frames, &options);
        println!(
            "{{\"rules\":{},\"frame_bytes\":{size},\"packets\":{},\"batch\":{},\"hits\":{hits},\
             \"ns_per_packet\":{ns:.1}}}",
            options.rules, options.packets, options.batch
        );
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Options {
    let mut options = Options { rules: 1000, packets: 1000, batch: 256, passes: 3 };
    while let Some(name) = args.next() {
        let field = match name.as_str() {
            "--rules" => &mut options.rules,
            "--packets" => &mut options.packets,
            "--batch" => &mut options.batch,
            "--passes" => &mut options.passes,
            // `cargo bench` adds this one.
            "--bench" => continue,
            other => panic!("unknown argument {other}"),
        };
        let value = args.next().and_then(|value| value.parse().ok());
        *field = value.filter(|value| *value > 0).expect("a number above 0");
    }
    options
}

fn word(random: &mut Random) -> String {
    let len = 6 + random.below(12);
    (0..len).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}

fn engine(words: &[String]) -> StatelessEngine {
    let rules = words.iter().zip(1..);
    let text: String = rules
        .map(|(word, sid)| {
            format!("alert ip any any -> any any (content:\"{word}\"; sid:{sid};)\n")
        })
        .collect();
    let text = RuleText { name: "words", bytes: text.as_bytes() };
    StatelessEngine::build(read_rules(&[text], &Variables::default()).expect("good rules"))
}

/// A datagram of a flow, whose payload begins with `start`.
fn frame(flow: u32, bytes: usize, random: &mut Random, start: &[u8]) -> Vec<u8> {
    let ip_bytes = (bytes - 14) as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(ip_bytes.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend((0x0a00_0000 + flow).to_be_bytes());
    frame.extend([192, 0, 2, 1]);
    frame.extend([0x9c, 0x40, 0, 53]);
    frame.extend((ip_bytes - 20).to_be_bytes());
    frame.extend([0, 0]);
    assert_eq!(frame.len(), HEADER_BYTES);
    frame.extend(start.iter().take(bytes - HEADER_BYTES));
    frame.resize_with(bytes, || random.below(256) as u8);
    frame
}

fn packet(frame: &Vec<u8>) -> Packet<'_> {
    let (wire_bytes, link) = (frame.len(), LinkType::Ethernet);
    Packet { bytes: frame, wire_bytes, link, timestamp_ns: 0, found: None }
}

/// Words must be found, in the packets that begin with them alone.
fn check(engine: &StatelessEngine, words: &[String], bytes: usize) {
    let mut random = Random(9);
    let mut frames = Vec::new();
    for (word, flow) in words.iter().take(CHECKED).zip(0..) {
        frames.push(frame(flow, bytes, &mut random, word.as_bytes()));
        frames.push(frame(flow, bytes, &mut random, b""));
    }
    let (mut scratch, mut out) = (StatelessScratch::default(), StatelessMatches::default());
    engine.match_batch(frames.iter().map(packet), &mut scratch, &mut out);
    let expected: Vec<bool> = (0..frames.len()).map(|idx| idx % 2 == 0).collect();
    assert_eq!(out.hits, expected, "wrong matches, so no rate");
}

/// Nanoseconds a packet, the median of the passes, and packets that matched in one.
fn measure(engine: &StatelessEngine, frames: &[Vec<u8>], options: &Options) -> (f64, usize) {
    let (mut scratch, mut out) = (StatelessScratch::default(), StatelessMatches::default());
    let (mut times, mut hits) = (Vec::new(), 0);
    for pass in 0..=options.passes {
        hits = 0;
        let began = Instant::now();
        for batch in frames.chunks(options.batch) {
            engine.match_batch(batch.iter().map(packet), &mut scratch, &mut out);
            hits += black_box(&out).alerts.len();
        }
        // The first pass warms up.
        if pass > 0 {
            times.push(began.elapsed().as_nanos() as f64 / frames.len() as f64);
        }
    }
    times.sort_unstable_by(f64::total_cmp);
    (times[times.len() / 2], hits)
}
