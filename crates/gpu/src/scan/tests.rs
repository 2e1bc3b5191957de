//! Scans through a pool of threads against the reference: by hand, at random, with what is made to
//! hurt, and with devices that fail.

use std::sync::Arc;
use std::thread;

use proptest::prelude::*;
use warpswitch_scan::{
    Case, Engine, PatternId, PatternSets, Patterns, ScanOptions, Scratch, naive,
};

use super::{DeviceScanner, FOUND_WORDS, PAGED_BYTES_MAX, ScanImage, write_pages};
use crate::Device;
use crate::host::{FaultPlan, HostPool};
use crate::image::abi::{NONE, PART_WORDS};
use crate::work::Lookup;

fn pool(faults: FaultPlan) -> Arc<Device> {
    let start = &mut |worker| _ = thread::spawn(worker);
    Device::from_pool(HostPool::with_faults(2, Some(faults), start))
}

fn list(patterns: &[(&[u8], Case)]) -> Patterns {
    let mut list = Patterns::new();
    for (bytes, case) in patterns {
        list.push(bytes, *case).unwrap();
    }
    list
}

fn build(patterns: &Patterns, matches_max: usize) -> Arc<DeviceScanner> {
    let options = ScanOptions { matches_max, engine: Engine::AUTOMATON };
    DeviceScanner::build(&pool(FaultPlan::default()), patterns, &options)
}

/// Holds a scan of all payloads, in small batches, against the reference; how many payloads the
/// host searched.
fn check(patterns: &Patterns, payloads: &[&[u8]]) -> u64 {
    let scanner = build(patterns, 1 << 16);
    let mut queue = scanner.queue(2, 2).unwrap();
    let mut out = PatternSets::new();
    // Twice, as what the first scan left in the pages must not matter.
    for _ in 0..2 {
        queue.scan_sets(payloads, &mut out);
        assert_eq!(out.len(), payloads.len());
        for (idx, payload) in payloads.iter().enumerate() {
            assert_eq!(out.of(idx), naive::set(patterns, payload), "payload {idx}: {payload:?}");
            assert!(!out.is_cut(idx));
        }
    }
    scanner.asked() / 2
}

/// The same where the reference would take minutes: against the cores' scan.
fn check_cores(scanner: &Arc<DeviceScanner>, payloads: &[&[u8]]) -> u64 {
    let (mut want, mut out) = (PatternSets::new(), PatternSets::new());
    scanner.scanner().scan_sets(payloads, &mut Scratch::new(), &mut want);
    let before = scanner.asked();
    scanner.queue(3, 3).unwrap().scan_sets(payloads, &mut out);
    for idx in 0..payloads.len() {
        assert_eq!(out.of(idx), want.of(idx), "payload {idx}");
        assert_eq!(out.is_cut(idx), want.is_cut(idx), "payload {idx}");
    }
    scanner.asked() - before
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
    assert_eq!(check(&patterns, &payloads), 0);
    assert_eq!(check(&list(&[]), &payloads), 0);
    assert_eq!(check(&patterns, &[]), 0);
}

/// One pattern of each length, at each offset of payloads around the sizes of units; and next to a
/// payload that goes on with it.
#[test]
fn every_place_of_a_payload_is_searched() {
    for len in 1..=40 {
        let bytes: Vec<u8> = (0..len as u8).map(|idx| b'a' + idx % 23).collect();
        let patterns = list(&[(&bytes, Case::Insensitive), (&bytes[len / 2..], Case::Sensitive)]);
        for payload_len in [len, len + 1, 15, 16, 17, 64] {
            let offsets = (0..=payload_len).filter(|at| at + len <= payload_len + len / 2);
            let payloads: Vec<Vec<u8>> = offsets
                .flat_map(|at| {
                    let mut whole = vec![b'.'; payload_len + len];
                    whole[at..at + len].copy_from_slice(&bytes);
                    let rest = whole.split_off(payload_len);
                    [whole, rest]
                })
                .collect();
            let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
            assert_eq!(check(&patterns, &payloads), 0);
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
    proptest::collection::vec((bytes(20), case), 0..60).prop_map(|chosen| {
        list(&chosen.iter().map(|(bytes, case)| (&bytes[..], *case)).collect::<Vec<_>>())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn equals_the_reference(
        patterns in patterns(),
        payloads in proptest::collection::vec(bytes(200), 0..20),
    ) {
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        check(&patterns, &payloads);
    }

    #[test]
    fn sets_are_cut_as_the_cores_cut_them(
        patterns in patterns(),
        payloads in proptest::collection::vec(bytes(200), 0..8),
        matches_max in 0..9usize,
    ) {
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        check_cores(&build(&patterns, matches_max), &payloads);
    }
}

/// Payloads of all lengths that pages take and do not take, so that pages end in many ways.
#[test]
fn payloads_of_any_length() {
    let patterns = list(&[(b"needle", Case::Insensitive), (b"e\xff\0", Case::Sensitive)]);
    let lens = [1, 16, 17, 1500, 9000, PAGED_BYTES_MAX - 16, PAGED_BYTES_MAX, PAGED_BYTES_MAX + 1];
    let payloads: Vec<Vec<u8>> = (0..60)
        .flat_map(|_| lens)
        .map(|len| {
            let mut payload = vec![0xff; len];
            let at = len.saturating_sub(6);
            payload[at..].copy_from_slice(&b"NeedLE"[..len - at]);
            payload[len / 2] = 0;
            payload
        })
        .collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    // The longest ones go to the host, the others do not.
    assert_eq!(check_cores(&build(&patterns, 9), &payloads), 60);
}

/// Sets that are made to hurt: bounded, whatever comes, and right.
#[test]
fn hostile_sets_are_asked_about() {
    let mut zeros = Patterns::new();
    for len in 1..=400 {
        zeros.push(&vec![0; len], Case::Sensitive).unwrap();
    }
    assert_eq!(check_cores(&build(&zeros, 1 << 16), &[&[0; 9000], &[1; 90], &[0; 3]]), 1);
    // Ten thousand patterns with the same end, which never occur but nearly; and the end.
    let mut alike = Patterns::new();
    for idx in 0..10_000u32 {
        let head = [b'A' + (idx % 26) as u8, b'0' + (idx / 26 % 10) as u8, (idx / 260) as u8];
        alike.push(&[&head[..], b"/common/path/of/all?"].concat(), Case::Sensitive).unwrap();
    }
    alike.push(b"/common/path/of/all?", Case::Insensitive).unwrap();
    let payload = b"--/common/path/of/all?".repeat(300);
    check_cores(&build(&alike, 1 << 16), &[&payload, b"A0\0/common/path/of/all?"]);
    // Every spelling of a word has one folded window.
    let mut spellings = Patterns::new();
    for idx in 0..4096u32 {
        let letter = |(bit, byte): (usize, &u8)| byte ^ ((idx >> bit & 1) << 5) as u8;
        let bytes: Vec<u8> = b"attackattack".iter().enumerate().map(letter).collect();
        spellings.push(&bytes, Case::Sensitive).unwrap();
    }
    let payload = b"attackATTACK".repeat(400);
    assert_eq!(check_cores(&build(&spellings, 1 << 16), &[&payload, b"attack"]), 1);
}

/// Each bound of what is searched for a position or a part is met, and not missed by others.
#[test]
fn bounds_are_met_and_told() {
    // Longer than what is compared, with equal and with other ends.
    let long = vec![b'q'; 300].into_iter().chain(*b"end!").collect::<Vec<u8>>();
    let other = [&long[..300], b"END?"].concat();
    let whole = build(&list(&[(&long, Case::Sensitive)]), 9);
    assert_eq!(check_cores(&whole, &[&long, &other, &long[..303]]), 2);
    // Nearly there at every place: 24 spellings of 200 letters that differ in their last ones.
    let mut near = Patterns::new();
    for idx in 1..=24u8 {
        let mut letters = b"abcd".repeat(50);
        letters.iter_mut().rev().take(5).enumerate().for_each(|(bit, letter)| {
            *letter ^= (idx >> bit & 1) << 5;
        });
        near.push(&letters, Case::Sensitive).unwrap();
    }
    assert_eq!(check_cores(&build(&near, 1 << 16), &[&b"abcd".repeat(400), b"abcdabcd"]), 1);
    // More than a part has room for: each two bytes another pattern.
    let mut pairs = Patterns::new();
    for idx in 0..2000u32 {
        pairs.push(&[(idx >> 6) as u8, 128 + (idx & 63) as u8], Case::Sensitive).unwrap();
    }
    let dense: Vec<u8> =
        (0..2000u32).flat_map(|idx| [(idx >> 6) as u8, 128 + (idx & 63) as u8]).collect();
    let payloads: Vec<&[u8]> = [&[99; 100][..]; 60].into_iter().chain(dense.chunks(100)).collect();
    let asked = check_cores(&build(&pairs, 1 << 16), &payloads);
    assert!((40..60).contains(&asked), "{asked} asked, of 40 that are full and 60 that are empty");
    let (pages, mut found) = (write_pages(payloads), vec![7; FOUND_WORDS]);
    ScanImage::new(&pairs).answer(&pages, &mut found);
    let lens: Vec<u32> = found.chunks(PART_WORDS).map(|part| part[0]).collect();
    assert_eq!((lens[0], lens[4], lens[15]), (0, NONE, 0), "{lens:?}");
}

/// A device that fails costs no set and no place.
#[test]
fn a_device_that_fails_costs_no_payload() {
    let patterns = list(&[(b"abra", Case::Insensitive), (b"cadabra", Case::Sensitive)]);
    for seed in 0..6 {
        let plan = FaultPlan { first_batch: seed, error_chance: 1.0, ..FaultPlan::default() };
        let device = pool(plan);
        let options = ScanOptions { matches_max: 9, engine: Engine::AUTOMATON };
        let scanner = DeviceScanner::build(&device, &patterns, &options);
        let payloads: Vec<Vec<u8>> =
            (0..400).map(|idx| b"xABRAcadabra"[idx % 12..].repeat(1 + idx % 700)).collect();
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        check_cores(&scanner, &payloads);
        assert!(device.retired().is_some(), "seed {seed}");
        assert_eq!(check_cores(&scanner, &payloads[..3]), 3, "the host searches from then on");
    }
}

/// Batches come back in the order in which they were sent off, whatever is in them.
#[test]
fn batches_come_back_in_order() {
    let patterns = list(&[(b"one", Case::Sensitive), (b"two", Case::Sensitive)]);
    let scanner = build(&patterns, 9);
    let mut queue = scanner.queue(1, 2).unwrap();
    let mut out = PatternSets::new();
    assert_eq!(queue.poll(), None);
    assert!(queue.push(b"") && queue.push(b"xone"));
    assert_eq!(queue.open_len(), 2);
    queue.submit();
    queue.submit();
    assert_eq!(queue.under_way(), 1, "an empty batch is none");
    assert!(queue.push(&[b"two", &[0; PAGED_BYTES_MAX][..]].concat()));
    queue.submit();
    assert!(!queue.push(b"no slot is free"));
    assert_eq!(queue.take(&mut out), 2);
    assert_eq!((out.of(0), out.of(1)), (&[][..], &[PatternId(0)][..]));
    assert!(queue.push(&[1; PAGED_BYTES_MAX]) && !queue.push(b"no page is free"));
    queue.submit();
    assert_eq!((queue.take(&mut out), out.of(0)), (1, &[PatternId(1)][..]));
    assert_eq!((queue.take(&mut out), out.of(0)), (1, &[][..]));
}

#[test]
fn an_image_is_as_large_as_its_patterns() {
    let mut many = Patterns::new();
    for idx in 0..5000u32 {
        many.push(format!("pattern-{idx:x}").as_bytes(), Case::Insensitive).unwrap();
    }
    let bytes = ScanImage::new(&many).bytes();
    assert!((200_000..400_000).contains(&bytes), "{bytes} bytes");
}
