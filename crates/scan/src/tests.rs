//! Scanners against the reference: by hand, at random, and with what is made to hurt.

use proptest::prelude::*;

use crate::{
    Carry, Case, Engine, Match, Matches, PatternId, PatternSets, Patterns, ScanOptions, Scanner,
    Scratch, naive,
};

fn list(patterns: &[(&[u8], Case)]) -> Patterns {
    let mut list = Patterns::new();
    for (bytes, case) in patterns {
        list.push(bytes, *case).unwrap();
    }
    list
}

/// Every engine that this machine has, for the same patterns.
fn scanners(patterns: &Patterns, matches_max: usize) -> Vec<Scanner> {
    let build = |engine| Scanner::build(patterns, &ScanOptions { matches_max, engine });
    Engine::available().map(build).collect()
}

/// Holds every form of every engine against the reference, for payloads as one batch.
fn check(patterns: &Patterns, payloads: &[&[u8]], matches_max: usize) {
    let expected: Vec<Vec<Match>> =
        payloads.iter().map(|payload| naive::matches(patterns, payload)).collect();
    for scanner in scanners(patterns, matches_max) {
        let mut scratch = Scratch::new();
        let mut out = Matches::new();
        let mut sets = PatternSets::new();
        let mut firsts = Vec::new();
        // Twice, as what the first scan left behind must not matter.
        for _ in 0..2 {
            scanner.scan(payloads, &mut scratch, &mut out);
            scanner.scan_sets(payloads, &mut scratch, &mut sets);
            scanner.scan_first(payloads, &mut scratch, &mut firsts);
            assert_eq!([out.len(), sets.len(), firsts.len()], [payloads.len(); 3]);
            for (idx, expected) in expected.iter().enumerate() {
                let kept = &expected[..expected.len().min(matches_max)];
                assert_eq!(out.of(idx), kept, "{:?}, payload {idx}", scanner.engine());
                assert_eq!(out.is_cut(idx), kept.len() < expected.len(), "payload {idx}");
                check_set(expected, matches_max, sets.of(idx), sets.is_cut(idx));
                assert_eq!(firsts[idx], expected.first().copied(), "payload {idx}");
            }
        }
    }
}

/// The patterns that occur first, at most `max`, by number.
fn check_set(matches: &[Match], max: usize, set: &[PatternId], is_cut: bool) {
    let mut expected = Vec::new();
    for found in matches {
        if !expected.contains(&found.pattern) {
            expected.push(found.pattern);
        }
    }
    assert_eq!(is_cut, expected.len() > max);
    expected.truncate(max);
    expected.sort_unstable();
    assert_eq!(set, expected);
}

#[test]
fn the_usual_and_the_borders() {
    use Case::{Insensitive, Sensitive};
    let patterns = list(&[
        (b"he", Sensitive),
        (b"she", Sensitive),
        (b"HIS", Insensitive),
        (b"hers", Sensitive),
        (b"s", Insensitive),
        (b"he", Sensitive),
        (b"\0\0\0\0", Sensitive),
        (b"\0\0", Insensitive),
        (b"User-Agent: ", Insensitive),
        (b"/index.html?id=", Sensitive),
    ]);
    let long = [b"GET /index.html?id=1 HTTP/1.1\r\nuser-agent: x\r\n", &[0; 70][..]].concat();
    let payloads: [&[u8]; 8] =
        [b"ushers", b"", b"h", b"s", b"hisHIShIs", &long, &long[7..40], b"\0\0\0"];
    check(&patterns, &payloads, 1 << 16);
    check(&patterns, &payloads, 3);
    check(&patterns, &payloads, 0);
    check(&list(&[]), &payloads, 9);
}

#[test]
fn every_place_of_a_payload_is_searched() {
    // One pattern of each length, at each offset of payloads around the sizes of blocks.
    for len in 1..=40 {
        let bytes: Vec<u8> = (0..len as u8).map(|idx| b'a' + idx % 23).collect();
        let patterns = list(&[(&bytes, Case::Insensitive), (&bytes[len / 2..], Case::Sensitive)]);
        for payload_len in [len, len + 1, 63, 64, 65, 127, 130] {
            let offsets = 0..=payload_len.saturating_sub(len);
            let payloads: Vec<Vec<u8>> = offsets
                .filter(|at| at + len <= payload_len)
                .map(|at| {
                    let mut payload = vec![b'.'; payload_len];
                    payload[at..at + len].copy_from_slice(&bytes);
                    payload
                })
                .collect();
            let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
            check(&patterns, &payloads, 100);
        }
    }
}

/// Few different bytes, so that patterns are parts of each other and occur.
fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    let letter = prop_oneof![Just(b'a'), Just(b'A'), Just(b'b'), Just(0), any::<u8>()];
    prop_oneof![
        proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'B'), Just(b'A')], 1..max),
        proptest::collection::vec(letter, 1..max),
    ]
}

fn patterns() -> impl Strategy<Value = Patterns> {
    let case = prop_oneof![Just(Case::Sensitive), Just(Case::Insensitive)];
    proptest::collection::vec((bytes(20), case), 0..30).prop_map(|chosen| {
        list(&chosen.iter().map(|(bytes, case)| (&bytes[..], *case)).collect::<Vec<_>>())
    })
}

proptest! {
    #[test]
    fn equals_the_reference(
        patterns in patterns(),
        payloads in proptest::collection::vec(bytes(200), 0..8),
        matches_max in prop_oneof![Just(1 << 16), 0..40usize],
    ) {
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        check(&patterns, &payloads, matches_max);
    }

    #[test]
    fn segments_give_what_the_whole_gives(
        patterns in patterns(),
        whole in bytes(300),
        cuts in proptest::collection::vec(0..40usize, 0..30),
    ) {
        let expected = naive::matches(&patterns, &whole);
        for scanner in scanners(&patterns, 1 << 16) {
            let (mut carry, mut scratch) = (Carry::new(), Scratch::new());
            let (mut out, mut found) = (Matches::new(), Vec::new());
            let mut start = 0;
            for len in cuts.iter().copied().chain([whole.len()]) {
                let end = (start + len).min(whole.len());
                scanner.scan_next(&mut carry, &whole[start..end], &mut scratch, &mut out);
                prop_assert!(carry.bytes().len() < scanner.longest_bytes().max(1));
                let moved = |one: &Match| Match { end: one.end + start as u32, ..*one };
                found.extend(out.of(0).iter().map(moved));
                start = end;
            }
            prop_assert_eq!(&found, &expected);
        }
    }
}

#[test]
fn a_gap_ends_what_was_begun() {
    let scanner = &scanners(&list(&[(b"abcd", Case::Sensitive)]), 9)[0];
    let (mut carry, mut scratch, mut out) = (Carry::new(), Scratch::new(), Matches::new());
    scanner.scan_next(&mut carry, b"xxab", &mut scratch, &mut out);
    carry.clear();
    scanner.scan_next(&mut carry, b"cd", &mut scratch, &mut out);
    assert!(out.of(0).is_empty());
    scanner.scan_next(&mut carry, b"ab", &mut scratch, &mut out);
    scanner.scan_next(&mut carry, b"cd", &mut scratch, &mut out);
    assert_eq!(out.of(0), [Match { end: 2, pattern: PatternId(0) }]);
}

/// Sets that are made to hurt, and the payload that does. The reference would take minutes, so what
/// is found is counted instead.
#[test]
fn hostile_sets_take_bounded_time() {
    // All zeros, of every length up to 4,000: each offset ends up to 4,000 of them.
    let mut zeros = Patterns::new();
    for len in 1..=4000 {
        zeros.push(&vec![0; len], Case::Sensitive).unwrap();
    }
    let payload = vec![0; 65_536];
    for scanner in scanners(&zeros, 1 << 16) {
        let (out, set) = scan_one(&scanner, &payload);
        // 1 + 2 + ... + n passes 65,536 at n = 362.
        let last = out.of(0).last().unwrap();
        assert_eq!((out.of(0).len(), last.end, out.is_cut(0)), (1 << 16, 362, true));
        assert_eq!((set.of(0).len(), set.is_cut(0)), (4000, false));
    }
    // Ten thousand patterns with the same end, which never occur but nearly.
    let mut alike = Patterns::new();
    for idx in 0..10_000u32 {
        let head = [b'A' + (idx % 26) as u8, b'0' + (idx / 26 % 10) as u8, (idx / 260) as u8];
        alike.push(&[&head[..], b"/common/path/of/all?"].concat(), Case::Sensitive).unwrap();
    }
    alike.push(b"/common/path/of/all?", Case::Insensitive).unwrap();
    let payload = b"--/common/path/of/all?".repeat(3000);
    for scanner in scanners(&alike, 1 << 16) {
        let (out, set) = scan_one(&scanner, &payload);
        assert_eq!((out.of(0).len(), set.of(0)), (3000, &[PatternId(10_000)][..]));
    }
    // Every spelling of a word.
    let mut spellings = Patterns::new();
    for idx in 0..4096u32 {
        let letter = |(bit, byte): (usize, &u8)| byte ^ ((idx >> bit & 1) << 5) as u8;
        let bytes: Vec<u8> = b"attackattack".iter().enumerate().map(letter).collect();
        spellings.push(&bytes, Case::Sensitive).unwrap();
    }
    let payload = b"attackATTACK".repeat(4000);
    for scanner in scanners(&spellings, 1 << 16) {
        let (out, set) = scan_one(&scanner, &payload);
        assert_eq!((out.of(0).len(), set.of(0).len()), (2 * 4000 - 1, 2));
    }
}

fn scan_one(scanner: &Scanner, payload: &[u8]) -> (Matches, PatternSets) {
    let (mut scratch, mut out, mut set) = (Scratch::new(), Matches::new(), PatternSets::new());
    scanner.scan(&[payload], &mut scratch, &mut out);
    scanner.scan_sets(&[payload], &mut scratch, &mut set);
    (out, set)
}
