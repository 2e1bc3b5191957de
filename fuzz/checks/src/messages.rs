//! Intrusion detection: messages of HTTP in a stream.

use std::sync::Arc;

use warpswitch_ids::{
    Engine, Inspector, InspectorOptions, RuleText, Variables, naive::http as naive, read_rules,
};

use crate::detection::{ip, packet};
use crate::split;

/// Rules about buffers that hold often.
const RULES: &str = "\
    alert tcp any any -> any any (http.uri; content:\"/\"; sid:1;)\n\
    alert tcp any any -> any any (http.uri.raw; content:\"%\"; sid:2;)\n\
    alert tcp any any -> any any (http.header; pcre:\"/^\\w+: .*\\r\\n/m\"; sid:3;)\n\
    alert tcp any any -> any any (http.request_body; content:!\"x\"; sid:4;)\n\
    alert tcp any any -> any any (http.host; content:\"a\"; bsize:<9; sid:5;)\n\
    alert tcp any any -> any any (http.header_names; content:\"|0d 0a|\"; http.cookie; \
    pcre:\"/./\"; sid:6;)\n\
    alert tcp any any -> any any (http.stat_code; bsize:>0; sid:7;)\n\
    alert tcp any any -> any any (http.start; content:\"|0a|\"; sid:8;)\n\
    alert tcp any any -> any any (http.protocol; content:\"HTTP/\"; isdataat:!4,relative; \
    sid:9;)\n";

/// The longest stream: the reference takes time by its square.
const STREAM_BYTES_MAX: usize = 4096;

/// A client's bytes in segments of two lengths in turn: what is told is what the reference says,
/// whatever these are.
pub fn messages(data: &[u8]) {
    let ([one, two], stream) = split(data);
    let stream = &stream[..stream.len().min(STREAM_BYTES_MAX)];
    let texts = [RuleText { name: "rules", bytes: RULES.as_bytes() }];
    let rules = read_rules(&texts, &Variables::default()).expect("they are right");
    let mut expected = Vec::new();
    for message in naive::messages(stream, &[]) {
        for with_body in [false, true] {
            if with_body && message.body.is_none() {
                continue;
            }
            let holds = |idx: &usize| naive::holds(&rules.rules[*idx], &message, with_body);
            expected.extend((0..rules.rules.len()).filter(holds).map(|idx| idx as u32));
        }
    }
    let engine = Arc::new(Engine::build(rules));
    for lens in [[usize::MAX; 2], [1 + usize::from(one), 1 + usize::from(two) % 8]] {
        let mut inspector = Inspector::new(Arc::clone(&engine), InspectorOptions::default());
        let (mut alerts, mut at, mut lens) = (Vec::new(), 0, lens.iter().cycle());
        while at < stream.len() {
            // A packet is shorter than the stream may be.
            let len = lens.next().map_or(1, |&len| len.min(1400)).min(stream.len() - at);
            let frame = segment(at as u32, &stream[at..at + len]);
            inspector.inspect([packet(&frame, at as u64)], &mut alerts);
            at += len;
        }
        inspector.finish(&mut alerts);
        let found: Vec<u32> = alerts.iter().map(|alert| alert.rule).collect();
        assert_eq!(found, expected);
        assert_eq!((inspector.flows(), inspector.stream_bytes()), (0, 0));
    }
}

/// The client's segment at a place in its stream.
fn segment(at: u32, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![9, 0, 0, 80];
    segment.extend((u32::MAX - 99).wrapping_add(at).to_be_bytes());
    segment.extend([0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    segment.extend(payload);
    ip(true, 6, &segment)
}
