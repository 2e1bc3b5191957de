//! Intrusion detection: rule texts, and packets through streams.

use std::sync::Arc;

use warpswitch_ids::{
    Alert, Engine, Inspector, InspectorOptions, Packet, RuleText, StatelessEngine,
    StatelessMatches, StatelessScratch, Variables, naive, read_rules,
};
use warpswitch_wire::link::LinkType;

use crate::split;

/// Rules of every kind, for packets that are made up of few letters.
const RULES: &str = "\
    alert tcp any any -> any any (content:\"ab\"; sid:1;)\n\
    alert tcp any any -> any any (content:\"a\"; startswith; content:\"b\"; distance:1; sid:2;)\n\
    alert tcp any any -> any any (content:\"a\"; content:!\"c\"; within:4; \
    isdataat:3,relative; sid:3;)\n\
    alert tcp any any -> any any (flow:to_server,established; pcre:\"/a[bc]+a/i\"; sid:4;)\n\
    alert tcp any any -> any any (flow:to_client; content:\"B\"; nocase; pcre:\"/^c/R\"; sid:5;)\n\
    alert tcp any any -> any 1: (dsize:2<>9; flags:A+; content:\"c\"; endswith; sid:6;)\n\
    pass tcp any any -> any any (content:\"|00 00|\"; sid:7;)\n\
    alert udp any any -> any any (content:\"a\"; content:\"b\"; distance:0; \
    content:\"c\"; sid:8;)\n\
    alert udp any any -> any any (content:!\"a\"; pcre:!\"/b$/\"; sid:9;)\n\
    alert udp any any -> any any (content:\"a\"; offset:1; depth:5; isdataat:!6; sid:10;)\n\
    alert ip any any -> any any (ttl:<9; sid:11;)\n\
    alert tcp any any -> any any (content:\"ab\"; flowbits:toggle,x; flowbits:set,y; sid:12;)\n\
    alert tcp any any -> any any (content:\"c\"; flowbits:isset,x&y; flowbits:unset,y; sid:13;)\n\
    alert udp any any -> any any (content:\"b\"; flowbits:isnotset,x|y; flowbits:set,x; \
    noalert; sid:14;)\n\
    alert tcp any any -> any any (content:\"a\"; detection_filter:track by_flow, count 2, \
    seconds 3; sid:15;)\n\
    alert ip any any -> any any (threshold:type both, track by_src, count 2, seconds 1; sid:16;)\n\
    alert tcp any any -> any any (content:\"a\"; byte_extract:1,0,n,relative; content:\"b\"; \
    distance:n; byte_test:1,>,n,0,relative; sid:17;)\n\
    alert tcp any any -> any any (content:\"a\"; byte_jump:1,0,relative,bitmask 0x3; \
    isdataat:1,relative; sid:18;)\n\
    alert udp any any -> any any (byte_math:bytes 1, offset 0, oper >>, rvalue 4, result m, \
    bitmask 0x7f; content:\"a\"; offset:m; depth:m; sid:19;)\n\
    alert udp any any -> any any (byte_jump:2,0,string,hex,from_end,post_offset -9; \
    content:!\"c\"; within:4; sid:20;)\n";

/// Reads rule files; what can be read can be built.
pub fn rules(data: &[u8]) {
    let texts = [RuleText { name: "rules", bytes: data }];
    let Ok(rules) = read_rules(&texts, &Variables::default()) else { return };
    let (kept, left_out) = (rules.rules.len(), rules.left_out.len());
    assert!(kept + left_out <= data.len(), "more rules than bytes");
    for rule in &rules.left_out {
        assert!(!rule.keywords.is_empty(), "left out for nothing: line {}", rule.line);
    }
    // Two files of the same rules: the second ones are there before.
    let twice = [texts[0], RuleText { name: "again", bytes: data }];
    if let Ok(twice) = read_rules(&twice, &Variables::default()) {
        assert_eq!(twice.rules.len(), kept);
    }
    let engine = Engine::build(rules);
    let mut inspector = Inspector::new(Arc::new(engine), options(0));
    inspector.inspect([packet(&datagram(data), 1)], &mut Vec::new());
}

/// Packets made up: whole frames, datagrams, segments of few connections. However they are cut into
/// batches, the same is found; memory stays within its bounds; datagrams are what the reference
/// says.
pub fn packets(data: &[u8]) {
    let ([choice, batch], rest) = split(data);
    let frames = frames(rest);
    let texts = [RuleText { name: "rules", bytes: RULES.as_bytes() }];
    let rules = read_rules(&texts, &Variables::default()).expect("they are right");
    let reference = rules.clone();
    stateless(&StatelessEngine::build(rules.clone()), &frames, 1 + usize::from(batch) % 16);
    let engine = Arc::new(Engine::build(rules));
    let mut found: Vec<Vec<Alert>> = Vec::new();
    for batch in [1, 1 + usize::from(batch) % 16] {
        let mut inspector = Inspector::new(Arc::clone(&engine), options(choice));
        let (mut alerts, mut time) = (Vec::new(), 0);
        for frames in frames.chunks(batch) {
            let packets = frames.iter().map(|(frame, pause)| {
                time += u64::from(*pause) << 28;
                packet(frame, time)
            });
            inspector.inspect(packets, &mut alerts);
            let options = inspector.options();
            assert!(inspector.flows() <= options.flows_max);
            // A flow is never ended for the memory that its own packets take.
            assert!(inspector.stream_bytes() <= options.stream_bytes_max + (1 << 20));
            assert!(inspector.fragment_bytes() <= options.fragment_bytes_max);
        }
        inspector.finish(&mut alerts);
        assert_eq!((inspector.flows(), inspector.stream_bytes()), (0, 0));
        assert_eq!(inspector.fragment_bytes(), 0);
        // The packet's place in its batch is all that may differ.
        alerts.iter_mut().for_each(|alert| alert.packet = None);
        found.push(alerts);
    }
    assert_eq!(found[0], found[1]);
    for (idx, (frame, _)) in frames.iter().enumerate() {
        let Some(payload) = is_datagram(frame) else { continue };
        for (rule, of_rule) in reference.rules.iter().enumerate().skip(7).take(3) {
            let number = idx as u64 + 1;
            let told = found[0].iter().any(|a| (a.number, a.rule) == (number, rule as u32));
            assert_eq!(told, naive::holds(of_rule, payload), "rule {rule} on packet {number}");
        }
    }
}

/// Matches frames one by one and in batches: the alerts of a packet depend on it alone, and
/// datagrams are what the reference says.
fn stateless(engine: &StatelessEngine, frames: &[(Vec<u8>, u8)], batch: usize) {
    let mut found: Vec<Vec<(u64, u32)>> = Vec::new();
    for batch in [1, batch] {
        let (mut scratch, mut out) = (StatelessScratch::default(), StatelessMatches::default());
        let mut alerts = Vec::new();
        for frames in frames.chunks(batch) {
            let packets = frames.iter().map(|(frame, _)| packet(frame, 0));
            engine.match_batch(packets, &mut scratch, &mut out);
            assert_eq!(out.hits.len(), frames.len());
            for (idx, &hit) in (0..).zip(&out.hits) {
                assert_eq!(hit, out.alerts.iter().any(|alert| alert.packet == Some(idx)));
            }
            alerts.extend(out.alerts.iter().map(|alert| (alert.number, alert.rule)));
        }
        assert_eq!(scratch.stats().packets, frames.len() as u64);
        found.push(alerts);
    }
    assert_eq!(found[0], found[1]);
    for ((frame, _), number) in frames.iter().zip(1..) {
        let Some(payload) = is_datagram(frame) else { continue };
        let rules = engine.engine().rules().zip(0..);
        for (rule, idx) in rules.filter(|(rule, _)| (8..=10).contains(&rule.about.sid)) {
            let is_found = found[0].contains(&(number, idx));
            assert_eq!(is_found, naive::holds(rule, payload), "rule {idx} on packet {number}");
        }
    }
}

fn options(choice: u8) -> InspectorOptions {
    InspectorOptions {
        flows_max: 1 + usize::from(choice & 3),
        stream_bytes_max: if choice & 4 == 0 { 1 << 20 } else { 64 },
        fragment_bytes_max: if choice & 8 == 0 { 1 << 20 } else { 2048 },
        held_bytes_max: 16 << (choice >> 6),
        window_bytes: Some(usize::from(choice >> 3 & 7)).filter(|bytes| *bytes < 7),
        thresholds_max: 1 + usize::from(choice & 1),
        ..InspectorOptions::default()
    }
}

pub(crate) fn packet(bytes: &[u8], timestamp_ns: u64) -> Packet<'_> {
    Packet { bytes, wire_bytes: bytes.len(), link: LinkType::Ethernet, timestamp_ns, found: None }
}

/// Frames and the pauses before them: each begins with its kind, pause, two bytes and a length.
/// Some are in two fragments.
fn frames(mut rest: &[u8]) -> Vec<(Vec<u8>, u8)> {
    let mut frames = Vec::new();
    while let Some((&[kind, pause, place, flags, len], more)) = rest.split_first_chunk() {
        let (payload, more) = more.split_at(usize::from(len & 63).min(more.len()));
        let frame = match kind % 8 {
            0 => payload.to_vec(),
            1 => datagram(payload),
            kind => segment(kind & 1 == 0, place, flags & 0x17, payload),
        };
        if kind & 0x40 != 0 && kind % 8 != 0 {
            let parts = halves(&frame, place, kind & 0x80 != 0);
            frames.extend(parts.map(|part| (part, pause)));
        } else {
            frames.push((frame, pause));
        }
        rest = more;
    }
    frames
}

pub(crate) fn ip(from_client: bool, proto: u8, transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((20 + transport.len() as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, proto, 0, 0]);
    frame.extend([10, 0, 0, if from_client { 1 } else { 2 }]);
    frame.extend([10, 0, 0, if from_client { 2 } else { 1 }]);
    frame.extend(transport);
    frame
}

/// Two fragments of an IPv4 frame, which may overlap, or leave a gap.
fn halves(frame: &[u8], place: u8, turned: bool) -> [Vec<u8>; 2] {
    let (front, data) = frame.split_at(34);
    let eighths = |number: u8| usize::from(number & 3) * 8;
    let (end, start) =
        (eighths(place).min(data.len()), eighths(place >> 2).min(data.len() / 8 * 8));
    let part = |start: usize, end: usize, more: bool| {
        let mut part = front.to_vec();
        part[16..18].copy_from_slice(&((20 + end - start) as u16).to_be_bytes());
        part[18] = place >> 4;
        let field = (start as u16 / 8) | (u16::from(more) << 13);
        part[20..22].copy_from_slice(&field.to_be_bytes());
        part.extend(&data[start..end]);
        part
    };
    let parts = [part(0, end, true), part(start, data.len(), false)];
    if turned { [parts[1].clone(), parts[0].clone()] } else { parts }
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(1400)];
    let mut datagram = vec![0, 9, 0, 7];
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    ip(true, 17, &datagram)
}

/// The payload of a frame that [`datagram`] made, or would make.
fn is_datagram(frame: &[u8]) -> Option<&[u8]> {
    let payload = frame.get(42..)?;
    (frame == datagram(payload)).then_some(payload)
}

/// A segment somewhere in the first bytes of one of two connections; sequence numbers wrap there.
fn segment(from_client: bool, place: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let (client, server) = (1000 + u16::from(place & 1), 80);
    let mut segment = Vec::new();
    for port in if from_client { [client, server] } else { [server, client] } {
        segment.extend(port.to_be_bytes());
    }
    segment.extend((u32::MAX - 8).wrapping_add(u32::from(place >> 1 & 31)).to_be_bytes());
    segment.extend((u32::MAX - 8).wrapping_add(u32::from(place >> 6) * 9).to_be_bytes());
    segment.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    segment.extend(payload);
    ip(from_client, 6, &segment)
}
