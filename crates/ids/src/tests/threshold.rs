//! How often rules are told.

use proptest::prelude::*;

use super::frames::*;
use super::{inspector, packets, rules, told};
use crate::inspect::{InspectorOptions, Packet};
use crate::naive::{Datagram, Memory};
use crate::text::{RuleText, Variables, read_rules};

fn rule(options: &str) -> String {
    format!("alert udp any any -> any any (content:\"a\"; {options} sid:1;)\n")
}

/// Datagrams, by seconds, the last bytes of source and destination, and the source's port.
fn datagrams(sent: &[(u64, u8, u8, u16)]) -> Vec<Vec<u8>> {
    let address = |last: u8| format!("10.0.0.{last}");
    let frame = |&(_, src, dst, port): &(u64, u8, u8, u16)| {
        let (src, dst) = (address(src), address(dst));
        let mut datagram = Vec::new();
        datagram.extend(port.to_be_bytes());
        datagram.extend([0, 53, 0, 9, 0, 0, b'a']);
        ip(&src, &dst, 17, &datagram)
    };
    sent.iter().map(frame).collect()
}

fn timed<'a>(frames: &'a [Vec<u8>], sent: &[(u64, u8, u8, u16)]) -> Vec<Packet<'a>> {
    let mut packets = packets(frames);
    for (packet, sent) in packets.iter_mut().zip(sent) {
        packet.timestamp_ns = sent.0 * 1_000_000_000;
    }
    packets
}

/// The numbers of the datagrams that are told.
fn numbers(text: &str, sent: &[(u64, u8, u8, u16)], batch: usize) -> Vec<u64> {
    let frames = datagrams(sent);
    let (mut one, mut found) = (inspector(text, InspectorOptions::default()), Vec::new());
    for packets in timed(&frames, sent).chunks(batch) {
        one.inspect(packets.iter().copied(), &mut found);
    }
    one.finish(&mut found);
    let stats = one.stats();
    assert_eq!(stats.alerts, found.len() as u64);
    assert_eq!(stats.suppressed, sent.len() as u64 - stats.alerts);
    found.iter().map(|alert| alert.number).collect()
}

#[test]
fn addresses_of_ipv4_in_ipv6_are_others() {
    let text = "alert udp any any -> any any (content:\"evil\"; sid:1; \
        threshold:type limit, track by_src, count 1, seconds 60;)";
    let frames = [
        udp(End("10.0.0.1", 9), End("10.0.0.2", 53), b"evil"),
        udp(End("::ffff:10.0.0.1", 9), End("::ffff:10.0.0.2", 53), b"evil"),
    ];
    assert_eq!(told(text, &frames), [(1, 1), (2, 1)]);
}

#[test]
fn what_is_counted_apart() {
    let sent =
        [(0, 1, 2, 9), (1, 2, 1, 53), (2, 1, 2, 7), (3, 3, 2, 9), (4, 1, 4, 9), (5, 1, 2, 9)];
    let limit = |track: &str| {
        let text = rule(&format!("threshold:type limit, track {track}, count 1, seconds 60;"));
        numbers(&text, &sent, 100)
    };
    assert_eq!(limit("by_src"), [1, 2, 4]);
    assert_eq!(limit("by_dst"), [1, 2, 5]);
    assert_eq!(limit("by_both"), [1, 4, 5]);
    assert_eq!(limit("by_rule"), [1]);
    // Ports make flows; the second datagram is none of the first one's.
    assert_eq!(limit("by_flow"), [1, 2, 3, 4, 5]);
    let filter = rule("detection_filter:track by_src, count 2, seconds 4;");
    assert_eq!(numbers(&filter, &sent, 100), [] as [u64; 0]);
    let filter = rule("detection_filter:track by_src, count 2, seconds 5;");
    assert_eq!(numbers(&filter, &sent, 100), [5]);
}

#[test]
fn a_packet_counts_once_and_what_is_taken_back_does_not() {
    // Both the payload and the window that the segment makes have it, and are two texts.
    let text = "alert tcp any any -> any 80 (content:\"ab\"; depth:9; \
        threshold:type threshold, track by_src, count 2, seconds 60; sid:1;)";
    let frames = connection(&[(0, b"xa"), (1, b"abab"), (5, b"ab"), (7, b"ab")]);
    assert_eq!(told(text, &frames), [(6, 1)]);
    let text = "alert udp any any -> any any (content:\"a\"; \
        threshold:type limit, track by_src, count 1, seconds 60; sid:1;)\n\
        pass udp any any -> any any (content:\"p\"; sid:2;)\n\
        alert udp any any -> any any (content:\"a\"; noalert; \
        threshold:type limit, track by_src, count 1, seconds 60; sid:3;)";
    let frames = [udp(CLIENT, SERVER, b"pa"), udp(CLIENT, SERVER, b"a"), udp(CLIENT, SERVER, b"a")];
    assert_eq!(told(text, &frames), [(2, 1)]);
}

#[test]
fn windows_are_bounded_and_survive_other_rules() {
    let options = InspectorOptions { thresholds_max: 2, ..InspectorOptions::default() };
    let both = rule("detection_filter:track by_src, count 1, seconds 60;");
    let sent = [(0, 1, 9, 1), (0, 2, 9, 1), (0, 3, 9, 1), (0, 1, 9, 1), (0, 3, 9, 1)];
    let frames = datagrams(&sent);
    let (mut one, mut found) = (inspector(&both, options.clone()), Vec::new());
    one.inspect(timed(&frames, &sent), &mut found);
    let told: Vec<u64> = found.iter().map(|alert| alert.number).collect();
    assert_eq!((told, one.stats().thresholds_evicted), (vec![5], 2));
    let more = one.bytes_max() - one.options().bytes_max();
    assert!((2 * 100..2 * 1000).contains(&more), "{more}");
    // The rule has another number; its text is the same, and so is what it counts.
    let more = format!("alert udp any any -> any any (content:\"q\"; sid:8;)\n{both}");
    let mut two = inspector(&more, options.clone());
    two.take_flows(&mut one);
    found.clear();
    two.inspect(timed(&frames[3..4], &sent[3..4]), &mut found);
    assert_eq!((found.len(), two.stats().thresholds_evicted), (1, 2));
    // Another count begins anew.
    let mut three = inspector(&both.replace("count 1", "count 2"), options);
    three.take_flows(&mut two);
    found.clear();
    three.inspect(timed(&frames[3..4], &sent[3..4]), &mut found);
    assert_eq!(found.len(), 0);
}

#[test]
fn thresholds_are_read_or_told() {
    let errors = |options: &str| {
        let text = rule(options);
        let texts = [RuleText { name: "x", bytes: text.as_bytes() }];
        let read = read_rules(&texts, &Variables::default());
        read.map(|rules| rules.left_out[0].keywords.clone()).map_err(|errors| errors.to_string())
    };
    for (options, message) in [
        ("threshold:type limit, track by_src, count 1;", "something is missing"),
        ("threshold:type some, track by_src, count 1, seconds 1;", "limit, threshold or both"),
        ("threshold:type limit, track by_src, count 0, seconds 1;", "a number from 1 on"),
        ("threshold:type limit, track by_me, count 1, seconds 1;", "by_src, by_dst"),
        ("threshold:type limit, count 1, count 2, seconds 1;", "count without a right value"),
        ("detection_filter:type limit, track by_src, count 1, seconds 1;", "track, count or"),
        (
            "detection_filter:track by_src, count 1, seconds 1; \
             threshold:type limit, track by_src, count 1, seconds 1;",
            "says more than once how often it is told",
        ),
    ] {
        let told = errors(options).expect_err(options);
        assert!(told.contains(message), "{told}");
    }
    let backoff = errors("threshold:type backoff, track by_src, count 1, multiplier 2;");
    assert_eq!(backoff, Ok(vec!["threshold type backoff".to_owned()]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn what_is_told_is_what_the_reference_tells(
        kind in prop::sample::select(vec!["limit", "threshold", "both", "filter"]),
        track in prop::sample::select(vec!["by_src", "by_dst", "by_both", "by_rule", "by_flow"]),
        (count, seconds) in (1..4u32, 1..6u32),
        sent in prop::collection::vec((0..3u64, 1..4u8, 1..4u8, 5..7u16), 1..30),
        batch in 1usize..6,
    ) {
        let options = match kind {
            "filter" => format!("detection_filter:track {track},"),
            _ => format!("threshold:type {kind}, track {track},"),
        };
        let text = rule(&format!("{options} count {count}, seconds {seconds};"));
        // From the pauses between them.
        let mut now = 100;
        let sent: Vec<(u64, u8, u8, u16)> = sent
            .iter()
            .map(|&(pause, src, dst, port)| {
                now += pause;
                (now, src, dst, port)
            })
            .collect();
        let (reference, mut memory) = (rules(&text), Memory::default());
        let mut expected = Vec::new();
        for (number, &(seconds, src, dst, port)) in (1..).zip(&sent) {
            let (src, dst) = (u128::from(src), u128::from(dst));
            // A datagram back is of the same flow where the ports are the other way round: here
            // they never are.
            let flow = (src as u64) << 32 | (dst as u64) << 16 | u64::from(port);
            let time_ns = seconds * 1_000_000_000;
            let datagram = Datagram { flow, src, dst, time_ns, payload: b"a" };
            let told = memory.told(&reference.rules, &datagram);
            expected.extend(told.into_iter().map(|_| number));
        }
        prop_assert_eq!(numbers(&text, &sent, 100), &expected[..], "{}", text);
        prop_assert_eq!(numbers(&text, &sent, batch), expected);
    }
}
