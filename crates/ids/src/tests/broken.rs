//! Packets whose transport header is broken or cut off: rules of `ip` need only the IP header.

use super::frames::{ACK, End, cut, ip, tcp, udp};
use super::*;
use crate::stateless::{StatelessEngine, StatelessMatches, StatelessScratch};

const RULES: &str = "\
    alert ip 10.0.0.0/8 any -> any any (ip_proto:6; sid:1;)\n\
    alert ip any any -> any any (ttl:64; dsize:0; sid:2;)\n\
    alert ip any any -> any any (content:\"ab\"; sid:3;)\n\
    alert ip any any -> any any (content:!\"zz\"; sid:4;)\n\
    alert tcp any any -> any any (ttl:64; sid:5;)\n\
    alert ip any any -> any 80 (sid:6;)\n\
    alert ip any any -> any any (flow:to_server; ttl:64; sid:7;)\n\
    alert ip any any -> any any (ttl:64; flowbits:set,x; sid:8;)\n\
    alert ip any any -> any any (ttl:64; ip_proto:!6; sid:9;)\n";

const A: End = End("10.0.0.1", 4000);
const B: End = End("10.0.0.2", 80);

/// Frames with broken TCP, UDP, ICMP and ICMPv6 headers.
fn broken() -> Vec<Vec<u8>> {
    let segment = |offset: u8, bytes: &[u8]| {
        let mut header =
            vec![15, 160, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, offset, ACK, 1, 0, 0, 0, 0, 0];
        header.extend(bytes);
        header
    };
    vec![
        // A header length below the least, beyond the packet, and too few bytes for a header.
        ip(A.0, B.0, 6, &segment(0x10, b"ab")),
        ip(A.0, B.0, 6, &segment(0xf0, b"ab")),
        ip(A.0, B.0, 6, b"ab"),
        // A datagram that is longer than its packet.
        ip(A.0, B.0, 17, &[15, 160, 0, 80, 0, 99, 0, 0, b'a', b'b']),
        ip(A.0, B.0, 1, b"ab"),
        ip("2001:db8::1", "2001:db8::2", 58, b"ab"),
    ]
}

#[test]
fn ip_rules_match_packets_with_a_broken_transport_header() {
    let frames = broken();
    let mut inspector = inspector(RULES, InspectorOptions::default());
    let found = alerts(&mut inspector, &frames);
    let sid = |alert: &Alert| inspector.engine().rule(alert.rule).about.sid;
    let pairs: Vec<(u64, u32)> = found.iter().map(|alert| (alert.number, sid(alert))).collect();
    let of_tcp = (1..=3).flat_map(|number| [(number, 1), (number, 2)]);
    let of_others = (4..=6).flat_map(|number| [(number, 2), (number, 9)]);
    assert_eq!(pairs, of_tcp.chain(of_others).collect::<Vec<_>>());
    assert_eq!((found[0].ip_proto, found[0].ports, found[0].flow_id), (6, None, 0));
    assert_eq!(inspector.flows(), 0);
    // They still count as unreadable.
    assert_eq!(inspector.stats().uninspected, [6, 0, 0]);
}

#[test]
fn alerts_of_broken_packets_stand_in_order() {
    let good = |seq| tcp(A, B, ACK, seq, 1, b"..ab..");
    let broken = broken();
    let mut frames = Vec::new();
    for (idx, broken) in broken.iter().enumerate() {
        frames.push(good(1 + 6 * idx as u32));
        frames.push(broken.clone());
    }
    let mut whole = inspector(RULES, InspectorOptions::default());
    let all = alerts(&mut whole, &frames);
    let numbers: Vec<u64> = all.iter().map(|alert| alert.number).collect();
    assert!(numbers.is_sorted() && numbers.contains(&11) && numbers.contains(&12), "{numbers:?}");
    // However they are cut into batches.
    let mut cut = inspector(RULES, InspectorOptions::default());
    let mut found = Vec::new();
    for frame in frames.chunks(1) {
        cut.inspect(packets(frame), &mut found);
    }
    cut.finish(&mut found);
    let key = |alert: &Alert| (alert.number, alert.rule, alert.flow_id);
    let keys = |alerts: &[Alert]| alerts.iter().map(key).collect::<Vec<_>>();
    assert_eq!(keys(&found), keys(&all));
}

#[test]
fn pass_and_threshold_hold_for_broken_packets() {
    let frames = vec![ip(A.0, B.0, 6, b"ab"); 3];
    let rule = "alert ip any any -> any any (ttl:64; \
                threshold:type limit,track by_src,count 2,seconds 60; sid:1;)\n";
    assert_eq!(told(rule, &frames), [(1, 1), (2, 1)]);
    let pass = "pass ip 10.0.0.1 any -> any any (sid:2;)\n";
    assert_eq!(told(&format!("{rule}{pass}"), &frames), []);
}

#[test]
fn fragments_and_broken_ip_headers_are_no_such_packets() {
    let rule = "alert ip any any -> any any (ttl:64; sid:1;)\n";
    let mut short = ip(A.0, B.0, 6, b"ab");
    short[17] = 200;
    let mut frames = vec![short];
    // Eight bytes of a TCP header in the first fragment: matched once it is whole.
    frames.extend(cut(&tcp(A, B, ACK, 1, 1, b"abcdefgh"), &[1], 7));
    assert_eq!(told(rule, &frames), [(3, 1)]);
    // A whole one that is broken is matched, too.
    let whole = ip(A.0, B.0, 17, &[&[15, 160, 0, 80, 0, 99, 0, 0][..], &[b'x'; 16]].concat());
    assert_eq!(told(rule, &cut(&whole, &[2], 8)), [(2, 1)]);
    let only = "alert ip any any -> any any (flow:only_frag; sid:1;)\n";
    assert_eq!(told(only, &cut(&udp(A, B, &[b'x'; 16]), &[2], 9)), [(2, 1)]);
}

#[test]
fn stateless_matching_finds_broken_packets_too() {
    let mut frames = broken();
    frames.push(tcp(A, B, ACK, 1, 1, b"ab"));
    let engine = StatelessEngine::build(rules(RULES));
    let (mut scratch, mut out) = (StatelessScratch::default(), StatelessMatches::default());
    engine.match_batch(packets(&frames), &mut scratch, &mut out);
    let sid = |alert: &Alert| engine.engine().rule(alert.rule).about.sid;
    let of = |packet: u32| -> Vec<u32> {
        out.alerts.iter().filter(|alert| alert.packet == Some(packet)).map(sid).collect()
    };
    assert_eq!(of(0), [1, 2, 7, 8]);
    assert_eq!(of(3), [2, 7, 8, 9]);
    assert_eq!(of(6), [1, 3, 4, 5, 6, 7, 8]);
    assert_eq!(scratch.stats().uninspected, [6, 0, 0]);
}
