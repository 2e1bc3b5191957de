//! Scans allocate nothing once they have run: neither the filter nor what it falls back on.

use warpswitch_scan::{
    Carry, Case, Engine, Matches, PatternSets, Patterns, ScanOptions, Scanner, Scratch,
};

#[test]
fn scans_allocate_nothing_once_warm() {
    let mut patterns = Patterns::new();
    for len in [1, 2, 3, 4, 7, 10, 11, 16, 40] {
        patterns.push(&vec![0; len], Case::Sensitive).unwrap();
        patterns
            .push(&b"GET /index.html HTTP/1.1 Host: www.example"[..len], Case::Insensitive)
            .unwrap();
    }
    let request = b"get /index.html http/1.1 host: www.example.org".repeat(40);
    // Full of occurrences: too many for the filter.
    let zeros = vec![0; 5000];
    let mixed = [&request[..], &zeros[..300], &request[..100]].concat();
    let payloads: [&[u8]; 4] = [&request, &zeros, &mixed, b""];
    for engine in Engine::available() {
        let scanner = Scanner::build(&patterns, &ScanOptions { matches_max: 1 << 16, engine });
        let (mut scratch, mut carry) = (Scratch::new(), Carry::new());
        let (mut out, mut sets, mut firsts) = (Matches::new(), PatternSets::new(), Vec::new());
        let mut next = Matches::new();
        let mut run = || {
            scanner.scan(&payloads, &mut scratch, &mut out);
            scanner.scan_sets(&payloads, &mut scratch, &mut sets);
            scanner.scan_first(&payloads, &mut scratch, &mut firsts);
            for segment in payloads {
                scanner.scan_next(&mut carry, segment, &mut scratch, &mut next);
            }
        };
        run();
        run();
        let counted = allocation_counter::measure(&mut run);
        assert_eq!(counted.count_total, 0, "{engine:?}: {counted:?}");
        assert!(out.of(1).len() > 5000);
    }
}
