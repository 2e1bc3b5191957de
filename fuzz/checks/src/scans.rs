//! Searching for patterns: every form of a scan, by every engine, against the reference.
//!
//! The input is choices and patterns, then the payload. Each pattern begins with a byte that says
//! what it is: bytes that follow, or a part of the rest, so that it occurs; with its case rule.

use warpswitch_scan::{
    Carry, Case, Engine, Match, Matches, PatternSets, Patterns, ScanOptions, Scanner, Scratch,
    naive,
};

use crate::split;

/// The most patterns, and the most bytes of one.
const PATTERNS_MAX: usize = 64;
const PATTERN_MAX: usize = 31;

/// Reads patterns and a payload, and compares all forms of a scan.
pub fn scan(data: &[u8]) {
    let ([count, bound, cut], mut rest) = split(data);
    let mut patterns = Patterns::new();
    while patterns.len() < usize::from(count) % PATTERNS_MAX {
        let Some((&[kind, place], more)) = rest.split_first_chunk() else { break };
        let len = (usize::from(kind) & PATTERN_MAX).min(more.len());
        // The upper bits: the case rule, whether it is a copy, whether its letters are turned.
        let case = if kind & 0x80 == 0 { Case::Sensitive } else { Case::Insensitive };
        let start = if kind & 0x40 == 0 { 0 } else { usize::from(place).min(more.len() - len) };
        let mut bytes = more[start..start + len].to_vec();
        if kind & 0x20 != 0 {
            bytes.make_ascii_uppercase();
        }
        // An empty one is refused, and the list stays as it was.
        assert_eq!(patterns.push(&bytes, case).is_err(), len == 0);
        rest = if kind & 0x40 == 0 { &more[len..] } else { more };
    }
    let matches_max = if bound & 1 == 0 { 1 << 16 } else { usize::from(bound) };
    for engine in Engine::available() {
        let scanner = Scanner::build(&patterns, &ScanOptions { matches_max, engine });
        compare(&patterns, &scanner, rest, usize::from(cut), matches_max);
    }
}

fn compare(patterns: &Patterns, scanner: &Scanner, payload: &[u8], cut: usize, max: usize) {
    let (head, tail) = payload.split_at(cut.min(payload.len()));
    let mut scratch = Scratch::new();
    let (mut out, mut sets, mut firsts) = (Matches::new(), PatternSets::new(), Vec::new());
    let payloads = [head, payload, tail];
    scanner.scan(&payloads, &mut scratch, &mut out);
    scanner.scan_sets(&payloads, &mut scratch, &mut sets);
    scanner.scan_first(&payloads, &mut scratch, &mut firsts);
    for (idx, payload) in payloads.into_iter().enumerate() {
        let expected = naive::matches(patterns, payload);
        assert_eq!(out.of(idx), &expected[..expected.len().min(max)]);
        assert_eq!(out.is_cut(idx), expected.len() > max);
        assert_eq!(firsts[idx], expected.first().copied());
        if sets.is_cut(idx) {
            assert_eq!(sets.of(idx).len(), max);
        } else {
            assert_eq!(sets.of(idx), naive::set(patterns, payload));
        }
    }
    if max < 1 << 16 {
        return;
    }
    let mut carry = Carry::new();
    let mut found = Vec::new();
    for (start, segment) in [(0, head), (head.len(), tail)] {
        scanner.scan_next(&mut carry, segment, &mut scratch, &mut out);
        found.extend(out.of(0).iter().map(|one| Match { end: one.end + start as u32, ..*one }));
    }
    let whole = naive::matches(patterns, payload);
    assert_eq!(found, whole[..whole.len().min(found.len())]);
    assert!(whole.len() == found.len() || whole.len() > max);
}
