//! Patterns and payloads for scans: of many kinds, with many occurrences, and made to hurt.

use warpswitch_scan::{
    Case, Engine, PatternId, PatternSets, Patterns, ScanOptions, Scanner, Scratch,
};

use super::route_cases::Seeds;

/// Patterns, and payloads of 1 to 9,000 bytes to be searched for them.
pub struct ScanCase {
    /// For messages.
    pub name: &'static str,
    pub patterns: Patterns,
    pub payloads: Vec<Vec<u8>>,
    /// Payloads of which the host may be asked, at most.
    pub asked_max: usize,
}

/// Patterns of these lengths out of some letters, every second one insensitive.
fn patterns(
    seeds: &mut Seeds,
    count: usize,
    lens: std::ops::Range<u32>,
    letters: &[u8],
) -> Patterns {
    let mut list = Patterns::new();
    for idx in 0..count {
        let len = lens.start + seeds.next() as u32 % (lens.end - lens.start);
        let letter = |_| letters[seeds.next() as usize % letters.len()];
        let bytes: Vec<u8> = (0..len).map(letter).collect();
        let case = if idx % 2 == 0 { Case::Insensitive } else { Case::Sensitive };
        list.push(&bytes, case).unwrap();
    }
    list
}

/// Payloads of random bytes, each with some of the patterns in it, a few in other letters.
fn payloads(seeds: &mut Seeds, patterns: &Patterns, count: usize, letters: &[u8]) -> Vec<Vec<u8>> {
    let one = |idx| {
        let len = match idx % 4 {
            0 => 1 + seeds.next() as usize % 64,
            1 => 64,
            2 => 1500,
            _ => 1 + seeds.next() as usize % 9000,
        };
        let letter = |_| letters[seeds.next() as usize % letters.len()];
        let mut payload: Vec<u8> = (0..len).map(letter).collect();
        for _ in 0..(1 + len / 100).min(patterns.len()) {
            let id = PatternId(seeds.next() as u32 % patterns.len() as u32);
            let mut bytes = patterns.get(id).bytes.to_vec();
            if seeds.next().is_multiple_of(4) {
                bytes.make_ascii_uppercase();
            }
            let at = seeds.next() as usize % len;
            let kept = bytes.len().min(len - at);
            payload[at..at + kept].copy_from_slice(&bytes[..kept]);
        }
        payload
    };
    (0..count).map(one).collect()
}

/// Every case.
pub fn all() -> Vec<ScanCase> {
    let mut seeds = Seeds(5);
    let any: Vec<u8> = (0..=255).collect();
    let text = b"etaoinsrhlducmfETAOINSRHLDU/.-=&: 0123456789";
    let mut cases = Vec::new();
    let mut add = |name, count, lens: std::ops::Range<u32>, letters: &[u8], asked_max| {
        let patterns = patterns(&mut seeds, count, lens, letters);
        let payloads = payloads(&mut seeds, &patterns, 400, letters);
        cases.push(ScanCase { name, patterns, payloads, asked_max });
    };
    add("none", 0, 1..2, &any, 0);
    add("of four bytes and more", 1000, 4..40, &any, 0);
    add("many, as text", 10_000, 4..30, text, 40);
    add("tiny ones too", 60, 1..12, text, 300);
    add("few letters", 40, 2..20, b"abAB", 400);
    let mut zeros = Patterns::new();
    for len in 1..=60 {
        zeros.push(&vec![0; len], Case::Sensitive).unwrap();
    }
    let payloads = payloads(&mut seeds, &zeros, 100, b"\0\0\0a");
    cases.push(ScanCase { name: "zeros", patterns: zeros, payloads, asked_max: 100 });
    cases
}

/// Holds what was found against the cores' scan; `None` where the host was asked.
pub fn check(case: &ScanCase, found: &[Option<Vec<PatternId>>], what: &str) {
    let options = ScanOptions { engine: Engine::AUTOMATON, ..ScanOptions::default() };
    let scanner = Scanner::build(&case.patterns, &options);
    let payloads: Vec<&[u8]> = case.payloads.iter().map(Vec::as_slice).collect();
    let mut want = PatternSets::new();
    scanner.scan_sets(&payloads, &mut Scratch::new(), &mut want);
    assert_eq!(found.len(), payloads.len());
    let mut asked = 0;
    for (idx, found) in found.iter().enumerate() {
        match found {
            Some(ids) => assert_eq!(ids, want.of(idx), "{}, payload {idx}, {what}", case.name),
            None => asked += 1,
        }
    }
    assert!(asked <= case.asked_max, "{}: {asked} of {} asked", case.name, payloads.len());
}
