//! Rules over flows and streams.

use proptest::prelude::*;

use super::agree::{bytes, numbers, rule_text, step, ways};
use super::frames::*;
use super::{alerts, inspect_ahead, inspector, packets, rules, told};
use crate::confirm::{Answer, Text};
use crate::inspect::InspectorOptions;
use crate::naive;
use crate::rule::Streams;

const EVIL: &str = "alert tcp any any -> any 80 (flow:to_server,established; \
    content:\"evil\"; nocase; sid:1;)\n\
    alert tcp any any -> any 80 (content:\"GET\"; startswith; \
    content:\"evil\"; distance:0; sid:2;)\n\
    alert tcp any any -> any any (flow:to_client; content:\"root\"; sid:3;)\n\
    alert tcp any any -> any any (dsize:4; content:\"ev\"; sid:4;)\n";

#[test]
fn a_match_across_segments_is_told_once() {
    let found = |segments: &[(u32, &[u8])]| told(EVIL, &connection(segments));
    assert_eq!(found(&[(0, b"GET /evil")]), [(4, 1), (4, 2)]);
    assert_eq!(found(&[(0, b"GET /ev"), (7, b"il")]), [(5, 1), (5, 2)]);
    assert_eq!(found(&[(0, b"G"), (1, b"ET /EvI"), (8, b"L"), (9, b"xx")]), [(6, 1)]);
    // Out of order, twice, and overlapping with other bytes: what came first is what counts.
    assert_eq!(found(&[(7, b"il"), (0, b"GET /ev"), (0, b"GET /ev")]), [(5, 1), (5, 2)]);
    assert_eq!(found(&[(7, b"il"), (0, b"GET /evXX"), (9, b".")]), [(5, 1), (5, 2)]);
    assert_eq!(found(&[(0, b"GET /ev"), (5, b"XXil")]), [(5, 1), (5, 2)]);
    assert_eq!(found(&[(0, b"GET /XX"), (5, b"evil")]), [(5, 4)]);
    // Behind a gap that the server's acknowledgment shows to be the capture's.
    let mut frames = connection(&[(0, b"ab"), (6, b"evil")]);
    assert_eq!(told(EVIL, &frames), [(5, 4), (5, 1)]);
    frames.push(tcp(SERVER, CLIENT, ACK, 5001, 1011, b""));
    frames.push(tcp(CLIENT, SERVER, ACK, 1011, 5001, b"evil"));
    assert_eq!(told(EVIL, &frames), [(5, 4), (6, 1), (7, 1), (7, 4)]);
}

/// More rules may still come true than a stream remembers: then its whole window is searched, and
/// as often however packets are cut into batches.
#[test]
fn more_rules_than_a_stream_remembers_are_found_in_batches_of_any_size() {
    let rule = |n: usize| {
        let contents = format!("content:\"k{n:02}\"; content:\"end\"; distance:0;");
        format!("alert tcp any any -> any any ({contents} sid:{};)", n + 1)
    };
    let text: Vec<String> = (0..40).map(rule).collect();
    let keys: String = (0..40).map(|n| format!("k{n:02} ")).collect();
    // The keys leave the window one by one, until a stream can remember those that are left.
    let parts = [keys.as_bytes()].into_iter().chain([&b"some more "[..]; 20]).chain([&b"end"[..]]);
    let mut seq = 0;
    let segments: Vec<(u32, &[u8])> = parts
        .map(|part| {
            seq += part.len() as u32;
            (seq - part.len() as u32, part)
        })
        .collect();
    let frames = connection(&segments);
    for window_bytes in [100, 180, 1000] {
        let runs = [1, 4, 7, 100].map(|batch| {
            let options = InspectorOptions {
                window_bytes: Some(window_bytes),
                ..InspectorOptions::default()
            };
            let (mut inspector, mut found) = (inspector(&text.concat(), options), Vec::new());
            for packets in packets(&frames).chunks(batch) {
                inspector.inspect(packets.iter().copied(), &mut found);
            }
            inspector.finish(&mut found);
            (found.len(), inspector.stats().candidates)
        });
        assert!(runs.iter().all(|run| *run == runs[0]), "{window_bytes}: {runs:?}");
        assert!(window_bytes < 1000 || runs[0].0 == 40, "{:?}", runs[0]);
    }
}

/// A rule that came true in parts, in a flow that times out, or ends for others, while its texts
/// wait to be searched.
#[test]
fn what_a_stream_remembers_is_not_lost_with_its_flow() {
    let text = "alert tcp any any -> any any (content:\"ab\"; content:\"cd\"; distance:1; sid:1;)";
    let mut frames = connection(&[(0, b"ab"), (2, b"x"), (3, b"cd")]);
    let count = frames.len();
    let late = End("10.0.0.9", 40000);
    frames.push(tcp(late, SERVER, ACK, 1, 1, b"z"));
    for (gap_s, flows_max) in [(1, 100), (7000, 100), (1, 1)] {
        for batch in [1, 2, 100] {
            let options = InspectorOptions { flows_max, ..InspectorOptions::default() };
            let (mut inspector, mut found) = (inspector(text, options), Vec::new());
            let mut packets = packets(&frames);
            packets[count].timestamp_ns += gap_s * 1_000_000_000;
            for packets in packets.chunks(batch) {
                inspector.inspect(packets.iter().copied(), &mut found);
            }
            inspector.finish(&mut found);
            let numbers: Vec<u64> = found.iter().map(|alert| alert.number).collect();
            assert_eq!(numbers, [6], "{gap_s} s, {flows_max} flows, batches of {batch}");
        }
    }
}

#[test]
fn alerts_of_a_packet_with_two_texts_are_in_the_order_of_the_rules() {
    let text = "alert tcp any any -> any any (content:\"b\"; sid:1;)\n\
        alert tcp any any -> any any (dsize:4; sid:2;)\n\
        alert tcp any any -> any any (content:\"ab\"; sid:3;)\n\
        alert tcp any any -> any any (dsize:4; content:\"bb\"; sid:4;)";
    let all = [(5, 1), (5, 2), (5, 3), (5, 4)];
    assert_eq!(told(text, &connection(&[(0, b"xaa"), (3, b"abbb")])), all);
    // A segment with old and new bytes is one text, and what is new in the stream the other.
    assert_eq!(told(text, &connection(&[(0, b"xaa"), (2, b"abbb")])), all);
}

#[test]
fn directions_and_states_are_those_of_the_connection() {
    // From the server, and where the capture begins within the connection.
    let mut frames = handshake(CLIENT, SERVER);
    frames.push(tcp(SERVER, CLIENT, ACK, 5001, 1001, b"ro"));
    frames.push(tcp(SERVER, CLIENT, ACK, 5003, 1001, b"ot evil"));
    assert_eq!(told(EVIL, &frames), [(5, 3)]);
    assert_eq!(told(EVIL, &frames[3..]), [(2, 3)]);
    // A payload before the connection stands; and a SYN with one.
    let early = [tcp(CLIENT, SERVER, SYN, 1000, 0, b"evil")];
    assert_eq!(told(EVIL, &early), [(1, 4)]);
    let text = "alert tcp any any -> any any (flow:not_established; flags:S; sid:9;)\n\
        alert tcp any any -> any any (flow:established,to_client; flags:A; sid:8;)";
    let frames = handshake(CLIENT, SERVER);
    assert_eq!(told(text, &frames), [(1, 9)]);
    // After a reset the same ports are another flow; one that is not expected resets nothing.
    let mut frames = connection(&[(0, b"ev")]);
    frames.push(tcp(CLIENT, SERVER, RST, 77, 0, b""));
    frames.push(tcp(CLIENT, SERVER, ACK, 1003, 5001, b"il"));
    frames.push(tcp(CLIENT, SERVER, RST, 1005, 0, b""));
    frames.extend(connection(&[(0, b"ev"), (2, b"il")]));
    assert_eq!(told(EVIL, &frames), [(6, 1), (12, 1)]);
}

/// What comes with a reset is a text by itself, for the rules of streams too, and no part of one.
#[test]
fn bytes_of_a_reset_are_no_way_past_the_rules() {
    for flags in [RST, RST | ACK] {
        let mut frames = connection(&[(0, b"ev")]);
        frames.push(tcp(CLIENT, SERVER, flags, 1003, 5001, b"il, evil"));
        assert_eq!(told(EVIL, &frames), [(5, 1)]);
        let first = [tcp(CLIENT, SERVER, flags, 1, 0, b"..root")];
        assert_eq!(told(&EVIL.replace("flow:to_client;", ""), &first), [(1, 3)]);
    }
}

#[test]
fn flows_are_told_apart() {
    let other = End("10.0.0.9", 40000);
    let mut frames = connection(&[(0, b"ev")]);
    frames.extend(handshake(other, SERVER));
    frames.push(tcp(other, SERVER, ACK, 1001, 5001, b"il"));
    let mut in_vlan = connection(&[(0, b"ev")]);
    in_vlan.push(tcp(CLIENT, SERVER, ACK, 1003, 5001, b"il"));
    frames.extend(in_vlan.iter().map(|frame| tagged(frame, 7)));
    assert_eq!(told(EVIL, &frames), [(13, 1)]);
    // Customers of one provider have the same addresses, each behind a tag of its own.
    let customer = |frame: &Vec<u8>, vlan| tagged(&tagged(frame, vlan), 7);
    let half: Vec<_> = connection(&[(0, b"ev")]).iter().map(|frame| customer(frame, 9)).collect();
    let rest = tcp(CLIENT, SERVER, ACK, 1003, 5001, b"il");
    for (vlan, expected) in [(10, vec![]), (9, vec![(5, 1)])] {
        let mut frames = half.clone();
        frames.push(customer(&rest, vlan));
        assert_eq!(told(EVIL, &frames), expected);
    }
    let (six, seven) = (End("2001:db8::1", 9), End("2001:db8::2", 80));
    let mut frames = handshake(six, seven);
    frames.push(tcp(six, seven, ACK, 1001, 5001, b"evi"));
    frames.push(tcp(six, seven, ACK, 1004, 5001, b"l"));
    assert_eq!(told(EVIL, &frames), [(5, 1)]);
}

#[test]
fn headers_and_datagrams() {
    let text = "alert udp 10.0.0.0/8 any -> !10.0.0.0/8 53 (content:\"q\"; sid:1;)\n\
        alert udp any 53 -> any any (flow:to_client,established; content:\"r\"; sid:2;)\n\
        alert ip any any -> any any (ip_proto:17; ttl:64; content:\"q\"; sid:3;)\n\
        alert icmp any any -> any any (itype:8; icode:0; icmp_id:258; content:\"ping\"; sid:4;)\n\
        pass udp any any -> any any (content:\"quiet\"; sid:5;)\n\
        alert tcp any any <> any 22 (flags:S,12; sid:6;)\n\
        alert udp any any -> any any (content:\"r\"; dsize:>1; sid:7;)";
    let (host, dns) = (End("10.0.0.1", 999), End("192.0.2.53", 53));
    let mut echo = vec![8, 0, 0, 0, 1, 2, 0, 1];
    echo.extend(b"ping");
    let frames = [
        udp(host, dns, b"q"),
        udp(dns, host, b"r"),
        udp(host, dns, b"quiet"),
        ip("10.0.0.1", "10.0.0.2", 1, &echo),
        tcp(End("10.0.0.1", 22), End("10.0.0.2", 50000), SYN | 0x40, 5, 0, b""),
        ip("10.0.0.1", "10.0.0.2", 17, b"\0"),
    ];
    assert_eq!(told(text, &frames), [(1, 1), (1, 3), (2, 2), (4, 4), (5, 6)]);
}

#[test]
fn rules_of_ip_are_looked_for_in_streams_and_in_what_has_none() {
    let text = "alert ip any any -> any any (content:\"evil\"; sid:1;)\n\
        alert ip any any -> any any (content:\"ev\"; depth:2; sid:2;)\n\
        alert ip any any -> any any (content:\"ev\"; dsize:2; sid:3;)";
    let segments = connection(&[(0, b"ev"), (2, b"il"), (4, b"ev"), (6, b"evil")]);
    assert_eq!(told(text, &segments), [(4, 2), (4, 3), (5, 1), (6, 2), (6, 3), (7, 1), (7, 2)]);
    let frames = [udp(CLIENT, SERVER, b"evil"), udp(CLIENT, SERVER, b"an evil")];
    assert_eq!(told(text, &frames), [(1, 1), (1, 2), (2, 1)]);
}

#[test]
fn echo_starts_with_the_same_header_in_both_families() {
    let text = "alert icmp any any -> any any (content:\"ping\"; startswith; dsize:4; sid:1;)\n\
        alert icmp any any -> any any (dsize:0; sid:2;)\n\
        alert icmp any any -> any any (itype:133; content:\"|00 00 00 00|\"; startswith; sid:3;)";
    let echo = |kind, data: &[u8]| [&[kind, 0, 0, 0, 1, 2, 0, 1], data].concat();
    let frames = [
        ip("10.0.0.1", "10.0.0.2", 1, &echo(8, b"ping")),
        ip("2001:db8::1", "2001:db8::2", 58, &echo(128, b"ping")),
        ip("2001:db8::2", "2001:db8::1", 58, &echo(129, b"")),
        ip("2001:db8::2", "2001:db8::1", 58, &[1, 4, 0, 0]),
        // Of other messages what follows is their body.
        ip("2001:db8::2", "2001:db8::1", 58, &[133, 0, 0, 0, 0, 0, 0, 0]),
    ];
    assert_eq!(told(text, &frames), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)]);
}

#[test]
fn ports_of_icmp_rules_are_ignored() {
    let text = "alert icmp any any -> any 80 (itype:8; sid:1;)\n\
        alert icmp any !any <> any any (content:\"ping\"; sid:2;)\n\
        alert icmp any any -> any any (itype:8; sid:3;)\n\
        alert icmp (itype:8; sid:4;)\n\
        alert ip any any -> any 80 (itype:8; sid:5;)";
    let mut echo = vec![8, 0, 0, 0, 1, 2, 0, 1];
    echo.extend(b"ping");
    let frames = [ip("10.0.0.1", "10.0.0.2", 1, &echo)];
    assert_eq!(told(text, &frames), [(1, 1), (1, 2), (1, 3), (1, 4)]);
    let rules = super::rules(text);
    let remarks: Vec<String> = rules.remarks.iter().map(|remark| rules.remark(remark)).collect();
    let ignored = |sid| format!("sid {sid}: ICMP has no ports: those of the rule are ignored");
    assert_eq!(remarks, [ignored(1), ignored(2)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Segments in any order, overlapping with other bytes: each rule is found in each packet's
    /// payload, and in each window that the model below makes, as the reference finds it.
    #[test]
    fn streams_are_searched_as_a_plain_model_says(
        bodies in prop::collection::vec(
            prop_oneof![2 => prop::collection::vec(step(), 1..4), 1 => ways()],
            1..8,
        ),
        segments in prop::collection::vec((0u32..24, prop_oneof![bytes(9), numbers(9)]), 1..10),
        window_bytes in 1usize..12,
        batch in 1usize..5,
        ahead in any::<u32>(),
        proto in prop::sample::select(vec!["tcp", "ip"]),
    ) {
        let text: String =
            bodies.iter().enumerate().map(|(i, steps)| rule_text(proto, i + 1, steps)).collect();
        let options =
            InspectorOptions { window_bytes: Some(window_bytes), ..InspectorOptions::default() };
        let parts: Vec<(u32, &[u8])> = segments.iter().map(|(at, b)| (*at, &b[..])).collect();
        let frames = connection(&parts);
        let mut inspector = inspector(&text, options);
        let mut found = Vec::new();
        for frames in frames.chunks(batch) {
            inspect_ahead(&mut inspector, frames, ahead, &mut found);
        }
        let found: Vec<(u64, u32)> = found.iter().map(|a| (a.number, a.rule)).collect();
        prop_assert_eq!(found, model(&text, &segments, window_bytes));
    }

    /// Of rules that reach back so far and no further no more of a stream need be at hand.
    #[test]
    fn windows_that_rules_can_use_are_long_enough(
        bodies in prop::collection::vec(bounded(), 1..3),
        stream in prop::collection::vec(prop::sample::select(b"aAb\0x".to_vec()), 40),
        lens in prop::collection::vec(1usize..7, 9),
        again in 0usize..9,
        batch in 1usize..5,
    ) {
        let text_of = |(sid, body)| rule_text("tcp", sid, std::slice::from_ref(body));
        let text: String = (1..).zip(&bodies).map(text_of).collect();
        let (mut segments, mut at) = (Vec::new(), 0);
        for len in lens {
            segments.push((at as u32, stream[at.min(40)..(at + len).min(40)].to_vec()));
            at += len;
        }
        // One comes later, and so all behind it wait.
        segments[..=again].rotate_left(1);
        segments.retain(|(_, bytes)| !bytes.is_empty());
        let parts: Vec<(u32, &[u8])> = segments.iter().map(|(at, b)| (*at, &b[..])).collect();
        let mut inspector = inspector(&text, InspectorOptions::default());
        prop_assert!(inspector.engine().reach().is_some_and(|reach| reach < 40));
        let mut found = Vec::new();
        for frames in connection(&parts).chunks(batch) {
            inspector.inspect(super::packets(frames), &mut found);
        }
        let found: Vec<(u64, u32)> = found.iter().map(|a| (a.number, a.rule)).collect();
        prop_assert_eq!(found, model(&text, &segments, usize::MAX));
    }
}

/// Contents with bounds of what they reach back for.
fn bounded() -> impl Strategy<Value = String> {
    let text = || prop::collection::vec(prop::sample::select(vec!["a", "A", "b", "|00|"]), 1..4);
    let more = (text(), -2i32..4, 0usize..3).prop_map(|(text, distance, more)| {
        let within = text.len() + more;
        format!("content:\"{}\"; distance:{distance}; within:{within}; ", text.concat())
    });
    let placed = (text(), 0usize..6, 0usize..4).prop_map(|(text, offset, more)| {
        let depth = text.len() + more;
        format!("content:\"{}\"; offset:{offset}; depth:{depth}; ", text.concat())
    });
    let first = text().prop_map(|text| format!("content:\"{}\"; nocase; ", text.concat()));
    (prop_oneof![3 => first, 1 => placed], prop::collection::vec(more, 0..3))
        .prop_map(|(first, more)| first + &more.concat())
}

/// Packet number and rule of all that is to be found in a connection.
fn model(text: &str, segments: &[(u32, Vec<u8>)], window_bytes: usize) -> Vec<(u64, u32)> {
    let rules = rules(text).rules;
    let mut bytes: Vec<Option<u8>> = vec![None; 64];
    let mut in_order = 0;
    let mut expected = Vec::new();
    let on = |bytes: &[u8], from, is_start, rule: &crate::Rule| {
        let folded = bytes.to_ascii_lowercase();
        naive::answer(rule, &Text { bytes, folded: &folded, from, is_start })
    };
    for number in 1..=3 {
        for (idx, rule) in rules.iter().enumerate() {
            if rule.scope().packets && naive::holds(rule, b"") {
                expected.push((number, idx as u32));
            }
        }
    }
    for (number, (at, payload)) in segments.iter().enumerate() {
        for (idx, &byte) in payload.iter().enumerate() {
            bytes[*at as usize + idx].get_or_insert(byte);
        }
        let before = in_order;
        while bytes.get(in_order).copied().flatten().is_some() {
            in_order += 1;
        }
        let start = before - before.min(window_bytes);
        let window: Vec<u8> = bytes[start..in_order].iter().map_while(|byte| *byte).collect();
        let in_payload = |rule: &crate::Rule| rule.scope().packets && naive::holds(rule, payload);
        let in_stream = |rule: &crate::Rule| {
            let is_for = match rule.scope().streams {
                Streams::No => false,
                Streams::Start => start == 0,
                Streams::All => true,
            };
            is_for && on(&window, before - start, start == 0, rule) == Answer::Fresh
        };
        let number = number as u64 + 4;
        // The packet's payload and the window may be two texts: rules come in order all the same.
        let holds =
            |idx: &usize| in_payload(&rules[*idx]) || in_order > before && in_stream(&rules[*idx]);
        expected.extend((0..rules.len()).filter(holds).map(|idx| (number, idx as u32)));
    }
    expected
}

#[test]
fn what_waits_is_inspected_when_its_flow_ends() {
    let mut one = inspector(EVIL, InspectorOptions::default());
    let found = alerts(&mut one, &connection(&[(5, b"evil")]));
    assert_eq!(found.len(), 2);
    assert_eq!((found[1].packet, found[1].rule, found[1].in_stream), (None, 0, true));
    assert_eq!((one.flows(), one.stream_bytes()), (0, 0));
    assert_eq!(one.stats().streams.gaps, 1);
}

#[test]
fn what_comes_too_late_for_its_gap_is_looked_at_by_itself() {
    // So many segments wait that the stream goes on; the bytes before them follow.
    let mut frames = handshake(CLIENT, SERVER);
    frames.extend((0..600).map(|n| tcp(CLIENT, SERVER, ACK, 1101 + n, 5001, b"x")));
    frames.push(tcp(CLIENT, SERVER, ACK, 1001, 5001, b"GET /evil"));
    assert_eq!(told(EVIL, &frames), [(604, 1), (604, 2)]);
    // Once: those bytes are known then.
    frames.push(tcp(CLIENT, SERVER, ACK, 1001, 5001, b"GET /evil"));
    frames.push(tcp(CLIENT, SERVER, ACK, 1005, 5001, b"evil"));
    assert_eq!(told(EVIL, &frames), [(604, 1), (604, 2), (605, 2), (606, 4)]);
    // More gaps than are remembered: what is before them may be new.
    let mut frames = connection(&[(0, b"ab")]);
    for n in 1..20 {
        frames.push(tcp(SERVER, CLIENT, ACK, 5001, 1011 + 10 * n, b""));
        frames.push(tcp(CLIENT, SERVER, ACK, 1009 + 10 * n, 5001, b"xx"));
    }
    frames.push(tcp(CLIENT, SERVER, ACK, 1003, 5001, b"an evil"));
    frames.push(tcp(CLIENT, SERVER, ACK, 1192, 5001, b"an evil"));
    assert_eq!(told(EVIL, &frames), [(43, 1), (44, 1)]);
    // Met midway, and what was before comes.
    let frames = [(100, &b"xx"[..]), (0, b"an evil")].map(|(at, b)| (at, b));
    assert_eq!(told(EVIL, &connection(&frames)[3..]), [(2, 1)]);
}

#[test]
fn what_is_none_of_the_stream_is_looked_at_by_itself() {
    let far = 1001u32.wrapping_add(1 << 30);
    let mut frames = connection(&[(0, b"ab")]);
    frames.push(tcp(CLIENT, SERVER, SYN, far - 1, 0, b""));
    frames.push(tcp(CLIENT, SERVER, ACK, far, 5001, b"an evil"));
    frames.push(tcp(CLIENT, SERVER, ACK, far + 7, 5001, b"ev"));
    frames.push(tcp(CLIENT, SERVER, ACK, 1003, 5001, b"il evil"));
    assert_eq!(told(EVIL, &frames), [(6, 1), (8, 1)]);
}

#[test]
fn of_several_syns_the_answered_one_counts() {
    let other = 0x7000_0000;
    let end = |first: u32, flags, payload: &[u8]| tcp(CLIENT, SERVER, flags, first, 5001, payload);
    let halves = |first: u32| [end(first + 1, ACK, b"GET /ev"), end(first + 8, ACK, b"il")];
    // Nothing answers the first one; the second is the connection's.
    let mut frames = vec![end(1000, SYN, b""), end(other, SYN, b"")];
    frames.push(tcp(SERVER, CLIENT, SYN | ACK, 5000, other + 1, b""));
    frames.push(end(other + 1, ACK, b""));
    frames.extend(halves(other));
    assert_eq!(told(EVIL, &frames), [(6, 1), (6, 2)]);
    // The first one is answered after all; and one behind the answer changes nothing.
    let mut frames = vec![end(1000, SYN, b""), end(other, SYN, b"")];
    frames.push(tcp(SERVER, CLIENT, SYN | ACK, 5000, 1001, b""));
    frames.push(end(other, SYN, b""));
    frames.push(end(1001, ACK, b""));
    frames.extend(halves(1000));
    assert_eq!(told(EVIL, &frames), [(7, 1), (7, 2)]);
    // Where the server is not in the capture, the last one.
    let mut frames = vec![end(1000, SYN, b""), end(other, SYN, b""), end(other + 1, ACK, b"")];
    frames.extend(halves(other));
    assert_eq!(told(EVIL, &frames), [(5, 1), (5, 2)]);
}

#[test]
fn only_what_did_not_come_is_lost() {
    // A capture has the first segment in part, and the rest of it from another one.
    let frames = connection(&[(4, b"evil"), (0, b"abcd"), (8, b" an evil")]);
    let mut all = super::packets(&frames);
    all[4].wire_bytes += 4;
    let mut one = inspector(EVIL, InspectorOptions::default());
    // The length of the header says what was on the wire.
    let mut longer = frames[4].clone();
    longer[17] += 4;
    all[4].bytes = &longer;
    let mut found = Vec::new();
    one.inspect(all, &mut found);
    assert_eq!(one.stats().streams.gaps, 0);
    assert_eq!(found.iter().filter(|alert| alert.rule == 0).count(), 2);
}
