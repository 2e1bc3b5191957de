//! Tests of default bursts of sources, and of output that must not depend on them.

use warpswitch_graph::Registry;
use warpswitch_graph::simulate::run;

use super::Folder;
use super::dumps::FRAMES;
use crate::bursts::{BURST, SINGLE_PACKETS};

/// Bursts in the capture behind the packets that come one by one.
const BURSTS: u64 = 10;
const PACKETS: u64 = SINGLE_PACKETS + BURSTS * BURST as u64;

fn capture(folder: &Folder) -> String {
    let file = folder.file("many.pcap");
    let config = format!("InfiniteSource(LIMIT {PACKETS}, BURST 256) -> ToDump({file})");
    run(&config, &crate::registry());
    file
}

/// Runs `config` and returns the batches that counter `c` got of all packets.
fn batches(config: &str, registry: &Registry) -> u64 {
    let (mut router, transcript) = run(config, registry);
    let mut read = |handler: &str| router.read(handler).expect("c is a counter");
    assert_eq!(read("c.count"), PACKETS.to_string(), "{config}: {}", transcript.said());
    assert_eq!(transcript.said(), "", "{config}");
    read("c.batches").parse().expect("a number")
}

#[test]
fn captures_come_in_bursts_unless_it_shows() {
    let folder = Folder::new("bursts");
    let file = capture(&folder);
    let (singly, in_bursts) = (PACKETS, SINGLE_PACKETS + BURSTS);
    let check = |arguments: &str, rest: &str, expected: u64| {
        let config = format!("FromDump({file}{arguments}) -> c :: Counter -> {rest}");
        assert_eq!(batches(&config, &crate::registry()), expected, "{config}");
    };
    check("", "Discard", in_bursts);
    check(", BURST 1", "Discard", singly);
    check(", BURST 64", "Discard", PACKETS / 64);
    check("", "Queue -> Discard", in_bursts);
    check("", "Queue(200) -> Counter -> ToDump(/dev/null)", in_bursts);
    check("", "Queue -> Unqueue(64) -> Discard", in_bursts);
    // A queue limits bursts to half of its capacity.
    check("", "Queue(8) -> Discard", SINGLE_PACKETS + BURSTS * BURST as u64 / 4);
    // These would overflow.
    check("", "Queue -> Unqueue -> Discard", singly);
    check("", "Queue -> Discard(BURST 1)", singly);
    // These act on queue lengths.
    check("", "q :: Queue -> s :: PrioSched -> Discard; Idle -> Queue -> [1]s", singly);
    check("", "RED(5000, 6000, 0.1) -> Queue(9000) -> Discard", singly);
    // These act between packets, and win over nothing but the default.
    check("", "Discard; Script(TYPE PASSIVE, return 1)", singly);
    check(", BURST 64", "Discard; Script(TYPE PASSIVE, return 1)", PACKETS / 64);
    check("", "Counter(COUNT_CALL 9999 x.reset_counts) -> x :: Counter -> Discard", singly);
}

#[test]
fn click_mode_delivers_packets_one_by_one() {
    let folder = Folder::new("click-bursts");
    let file = capture(&folder);
    let registry = crate::registry().in_click_order();
    let config = format!("FromDump({file}) -> c :: Counter -> Discard");
    assert_eq!(batches(&config, &registry), PACKETS);
    let config = format!("FromDump({file}, BURST 64) -> c :: Counter -> Discard");
    assert_eq!(batches(&config, &registry), PACKETS / 64, "an argument wins");
    let made = format!("InfiniteSource(LIMIT {PACKETS}) -> c :: Counter -> Discard");
    assert_eq!(batches(&made, &registry), PACKETS);
}

#[test]
fn other_sources_come_in_bursts_too() {
    let in_bursts = SINGLE_PACKETS + BURSTS;
    let made = format!("InfiniteSource(LIMIT {PACKETS}) -> c :: Counter -> ");
    let registry = crate::registry();
    assert_eq!(batches(&format!("{made}Discard"), &registry), in_bursts);
    // It waits for room in queues, and one packet of room is enough.
    assert_eq!(batches(&format!("{made}Queue -> Discard"), &registry), PACKETS);
    let device = format!("FromDevice(gen:64:{PACKETS}) -> c :: Counter -> Discard");
    assert_eq!(batches(&device, &registry), in_bursts);
    let lines = "1.0.0.1 60\n".repeat(PACKETS as usize);
    let summary =
        format!("FromIPSummaryDump(DATA '!data src len\n{lines}') -> c :: Counter -> Discard");
    assert_eq!(batches(&summary, &registry), in_bursts);
}

#[test]
fn a_call_at_the_end_comes_behind_the_packets_before_it() {
    let folder = Folder::new("late-call");
    let file = folder.file("a.pcap");
    run(&format!("{FRAMES} -> ToDump({file})"), &crate::registry());
    for burst in [1, 2, 3, 64] {
        let config = format!(
            "FromDump({file}, BURST {burst}, END 3, END_CALL s.switch 1) -> s :: Switch
             -> x :: Counter -> Discard; s[1] -> y :: Counter -> Discard"
        );
        let (mut router, _) = run(&config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("x and y are counters");
        let counts = (read("x.count"), read("y.count"));
        assert_eq!(counts, ("2".into(), "2".into()), "bursts of {burst}");
        assert_eq!(router.packets_unaccounted(), 0);
    }
}

#[test]
fn damage_is_reported_behind_the_packets_before_it() {
    let folder = Folder::new("late-damage");
    let file = folder.file("a.pcap");
    run(&format!("{FRAMES} -> ToDump({file})"), &crate::registry());
    let bytes = std::fs::read(&file).expect("it was written");
    std::fs::write(&file, &bytes[..bytes.len() - 1]).expect("a writable file");
    let said = |burst: u32| {
        let config = format!(
            "FromDump({file}, BURST {burst}, END_CALL c.reset_counts) -> Print(p, 0)
             -> c :: Counter -> Discard"
        );
        let (mut router, transcript) = run(&config, &crate::registry());
        assert_eq!(router.read("c.count"), Ok("0".into()), "bursts of {burst}");
        transcript.said()
    };
    let singly = said(1);
    assert_eq!(singly.lines().count(), 4);
    assert!(singly.lines().last().is_some_and(|line| line.contains("ends within")), "{singly}");
    assert_eq!(said(64), singly);
    assert_eq!(said(3), singly);
}
