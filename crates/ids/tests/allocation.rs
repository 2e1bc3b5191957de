//! Stateless matching allocates nothing once its memory is warm.

use warpswitch_ids::{
    Packet, RuleText, StatelessEngine, StatelessMatches, StatelessScratch, Variables, read_rules,
};
use warpswitch_wire::link::LinkType;

/// A datagram to port 53.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((28 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 0, 53]);
    frame.extend((8 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

#[test]
fn matches_without_allocation_once_warm() {
    let text = "alert udp any any -> any 53 (content:\"abc\"; content:\"d\"; distance:1; sid:1;)\n\
                alert udp any any -> any 53 (content:\"xyz\"; nocase; pcre:\"/x.z/i\"; sid:2;)\n\
                alert ip any any -> any 53 (dsize:3; sid:3;)\n";
    let text = RuleText { name: "test", bytes: text.as_bytes() };
    let rules = read_rules(&[text], &Variables::default()).expect("good rules");
    let engine = StatelessEngine::build(rules);
    let payloads: [&[u8]; 4] = [b"..abc..d", b"XyZ", b"nothing of it", b""];
    let frames: Vec<Vec<u8>> =
        payloads.iter().cycle().take(300).map(|payload| datagram(payload)).collect();
    let packet = |frame| {
        let link = LinkType::Ethernet;
        let bytes: &Vec<u8> = frame;
        Packet { bytes, wire_bytes: bytes.len(), link, timestamp_ns: 0, found: None }
    };
    let (mut scratch, mut out) = (StatelessScratch::default(), StatelessMatches::default());
    let mut run = || engine.match_batch(frames.iter().map(packet), &mut scratch, &mut out);
    run();
    let counted = allocation_counter::measure(&mut run);
    assert_eq!(counted.count_total, 0, "{counted:?}");
    assert_eq!(out.alerts.len(), 3 * 75);
}
