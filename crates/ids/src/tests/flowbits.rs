//! Bits of flows.

use proptest::prelude::*;

use super::agree::{bytes, step};
use super::frames::*;
use super::{inspector, packets, rules, told};
use crate::inspect::{Inspector, InspectorOptions};
use crate::naive::{Datagram, Memory};

const LOGIN: &str = "alert tcp any any -> any 80 (content:\"login\"; flowbits:set,user; \
    flowbits:noalert; sid:1;)\n\
    alert tcp any any -> any 80 (content:\"shell\"; flowbits:isset,user; sid:2;)\n\
    alert tcp any any -> any 80 (content:\"shell\"; flowbits:isnotset,user; sid:3;)\n\
    alert tcp any any -> any 80 (content:\"logout\"; flowbits:isset,user; \
    flowbits:unset,user; noalert; sid:4;)\n";

#[test]
fn bits_are_remembered_by_their_flow() {
    let frames = connection(&[(0, b"shell "), (6, b"login"), (11, b" shell"), (17, b" logout")]);
    assert_eq!(told(LOGIN, &frames), [(4, 3), (6, 2)]);
    // Across segments, and gone with the flow.
    let mut frames = connection(&[(0, b"lo"), (2, b"gin"), (5, b"sh"), (7, b"ell")]);
    frames.push(tcp(CLIENT, SERVER, RST, 1011, 0, b""));
    frames.extend(connection(&[(0, b"shell")]));
    assert_eq!(told(LOGIN, &frames), [(7, 2), (12, 3)]);
    // What the client does is seen on the way back, and in no other flow.
    let text = "alert tcp any any -> any 80 (content:\"GET\"; flowbits:set,asked; sid:1;)\n\
        alert tcp any 80 -> any any (content:\"root:\"; flowbits:isset,asked; sid:2;)";
    let mut frames = connection(&[(0, b"GET /")]);
    frames.push(tcp(SERVER, CLIENT, ACK, 5001, 1006, b"root:"));
    let other = End("10.0.0.9", 40000);
    frames.extend(handshake(other, SERVER));
    frames.push(tcp(SERVER, other, ACK, 5001, 1001, b"root:"));
    assert_eq!(told(text, &frames), [(4, 1), (5, 2)]);
}

#[test]
fn setters_have_their_turn_before_testers() {
    // Told in the order of the text; the second rule sets what the first one tests, and is itself
    // behind one that only sets.
    let text = "alert udp any any -> any any (content:\"c\"; flowbits:isset,y; sid:1;)\n\
        alert udp any any -> any any (content:\"b\"; flowbits:isset,x; flowbits:set,y; sid:2;)\n\
        alert udp any any -> any any (content:\"a\"; flowbits:set,x; sid:3;)\n\
        alert udp any any -> any any (content:\"c\"; flowbits:isnotset,y; sid:4;)";
    let sent = |payload: &[u8]| udp(CLIENT, SERVER, payload);
    assert_eq!(told(text, &[sent(b"abc")]), [(1, 1), (1, 2), (1, 3)]);
    assert_eq!(told(text, &[sent(b"bc"), sent(b"a"), sent(b"c")]), [(1, 4), (2, 3), (3, 4)]);
    // Of those that do both, by priority.
    let both = |first: u32, second: u32| {
        let text = format!(
            "alert udp any any -> any any (content:\"b\"; flowbits:isset,x; flowbits:set,y; \
             priority:{first}; sid:1;)\n\
             alert udp any any -> any any (content:\"c\"; flowbits:isset,y; flowbits:set,z; \
             priority:{second}; sid:2;)\n\
             alert udp any any -> any any (content:\"a\"; flowbits:set,x; noalert; sid:3;)"
        );
        told(&text, &[sent(b"abc")]).len()
    };
    assert_eq!((both(1, 2), both(2, 2), both(2, 1)), (2, 2, 1));
}

#[test]
fn a_packet_changes_bits_once() {
    // The rule holds in the payload, and again in the window that the segment makes, which is
    // another text where the payload comes in part for the second time.
    let text = "alert tcp any any -> any 80 (content:\"ab\"; depth:9; flowbits:toggle,t; sid:1;)\n\
        alert tcp any any -> any 80 (content:\"?\"; flowbits:isset,t; sid:2;)";
    let frames = connection(&[(0, b"xa"), (1, b"abab"), (5, b"?")]);
    assert_eq!(told(text, &frames), [(5, 1), (6, 2)]);
}

#[test]
fn rules_that_cannot_rely_on_their_bits_are_left_out() {
    let text = "alert tcp any any -> any any (content:\"a\"; flowbits:isset,never; sid:1;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:isnotset,never; sid:2;)\n\
        alert tcp any any -> any any (content:\"a\"; base64_data; flowbits:set,out; sid:3;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:isset,out; flowbits:set,b; sid:4;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:isnotset,out; sid:5;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:isset,b; sid:6;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:set,c&d; sid:7;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:isset,b|c; sid:8;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:isset,b&c; sid:9;)\n\
        alert tcp any any -> any any (content:\"a\"; base64_data; flowbits:unset,d; sid:10;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:isset,d; sid:11;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:set,e,group; sid:12;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:set,e|f; sid:13;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:reset; sid:14;)\n\
        alert tcp any any -> any any (content:\"a\"; flowbits:isnotset,never; rev:2; sid:2;)";
    let rules = rules(text);
    let kept: Vec<u32> = rules.rules.iter().map(|rule| rule.about.sid).collect();
    assert_eq!(kept, [2, 7, 8]);
    assert_eq!(rules.bit_names, ["never", "c", "d", "b"]);
    let nobody = "flowbits isset (no rule that is looked for sets it)";
    let differs = "flowbits (a rule that is left out changes it)";
    let left: Vec<(u32, &str)> =
        rules.left_out.iter().map(|rule| (rule.sid, rule.keywords[0].as_str())).collect();
    let expected = [
        (1, nobody),
        (2, "sid (another rule has it)"),
        (3, "base64_data"),
        (4, nobody),
        (5, differs),
        (6, nobody),
        (9, nobody),
        (10, "base64_data"),
        (11, differs),
        (12, "flowbits group"),
        (13, "flowbits set with |"),
        (14, "flowbits reset"),
    ];
    assert_eq!(left, expected);
}

#[test]
fn bits_survive_other_rules() {
    let old = "alert udp any any -> any any (content:\"a\"; flowbits:set,other; sid:9;)\n\
        alert udp any any -> any any (content:\"a\"; flowbits:set,kept; sid:1;)";
    let new = "alert udp any any -> any any (content:\"z\"; flowbits:set,more; sid:3;)\n\
        alert udp any any -> any any (content:\"z\"; flowbits:set,kept; sid:1;)\n\
        alert udp any any -> any any (content:\"b\"; flowbits:isset,kept; sid:2;)\n\
        alert udp any any -> any any (content:\"b\"; flowbits:isset,more; sid:4;)";
    let frames = [udp(CLIENT, SERVER, b"a"), udp(CLIENT, SERVER, b"b")];
    let (mut one, mut found) = (inspector(old, InspectorOptions::default()), Vec::new());
    one.inspect(packets(&frames[..1]), &mut found);
    assert_eq!(found.len(), 2);
    let mut two = inspector(new, InspectorOptions::default());
    two.take_flows(&mut one);
    found.clear();
    two.inspect(packets(&frames[1..]), &mut found);
    let sids: Vec<u32> = found.iter().map(|a| two.engine().rule(a.rule).about.sid).collect();
    assert_eq!(sids, [2]);
    let options = two.options();
    assert_eq!(two.bytes_max(), options.bytes_max() + 65_536 * 16);
}

/// Something about bits, of few names.
pub fn bit() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["x", "y", "z"]);
    (0..7u8, name.clone(), name, any::<bool>()).prop_map(|(what, one, two, all)| {
        let joint = if all { "&" } else { "|" };
        match what {
            0 => format!("flowbits:set,{one};"),
            1 => format!("flowbits:unset,{one}&{two};"),
            2 => format!("flowbits:toggle,{one};"),
            3 => format!("flowbits:isset,{one}{joint}{two};"),
            4 => format!("flowbits:isnotset,{one}{joint}{two};"),
            5 => "flowbits:noalert;".to_owned(),
            _ => String::new(),
        }
    })
}

/// Packet numbers and rules, however packets are cut into batches.
fn in_batches(text: &str, frames: &[Vec<u8>], batch: usize) -> Vec<(u64, u32)> {
    let (mut one, mut found) = (inspector_of(text), Vec::new());
    for packets in packets(frames).chunks(batch) {
        one.inspect(packets.iter().copied(), &mut found);
    }
    one.finish(&mut found);
    found.iter().map(|alert| (alert.number, alert.rule)).collect()
}

fn inspector_of(text: &str) -> Inspector {
    let engine = crate::Engine::build(rules(text));
    Inspector::new(std::sync::Arc::new(engine), InspectorOptions::default())
}

fn rule(action: bool, proto: &str, sid: usize, options: &[String], priority: u32) -> String {
    let action = if action { "pass" } else { "alert" };
    let options = options.concat();
    format!("{action} {proto} any any -> any any ({options} priority:{priority}; sid:{sid};)\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn bits_are_what_the_reference_remembers(
        bodies in prop::collection::vec(
            (prop::collection::vec(step(), 0..2), prop::collection::vec(bit(), 1..4),
                0..9u8, 1..4u32),
            1..8,
        ),
        sent in prop::collection::vec((0..3u16, bytes(8)), 1..12),
        batch in 1usize..6,
    ) {
        let bodies = bodies.iter().enumerate();
        let text: String = bodies
            .map(|(idx, (steps, bits, pass, priority))| {
                rule(*pass == 0, "udp", idx + 1, &[steps.concat(), bits.concat()], *priority)
            })
            .collect();
        let client = |flow: u16| End("10.0.0.1", 5000 + flow);
        let frames: Vec<Vec<u8>> =
            sent.iter().map(|(flow, payload)| udp(client(*flow), SERVER, payload)).collect();
        let (reference, mut memory) = (rules(&text), Memory::default());
        let mut expected = Vec::new();
        for (number, (flow, payload)) in (1..).zip(&sent) {
            let flow = u64::from(*flow);
            let datagram = Datagram { flow, src: 0, dst: 0, time_ns: number, payload };
            let told = memory.told(&reference.rules, &datagram);
            expected.extend(told.into_iter().map(|rule| (number, rule as u32)));
        }
        prop_assert_eq!(in_batches(&text, &frames, 100), &expected[..], "{}", text);
        prop_assert_eq!(in_batches(&text, &frames, batch), expected);
    }

    #[test]
    fn bits_of_streams_hang_on_no_batch(
        bodies in prop::collection::vec(
            (prop::collection::vec(step(), 1..3), prop::collection::vec(bit(), 1..3)),
            1..6,
        ),
        segments in prop::collection::vec((0..12u32, bytes(8)), 1..10),
        batch in 1usize..6,
    ) {
        let text: String = bodies
            .iter()
            .enumerate()
            .map(|(idx, (steps, bits))| {
                rule(false, "tcp", idx + 1, &[steps.concat(), bits.concat()], 3)
            })
            .collect();
        let segments: Vec<(u32, &[u8])> =
            segments.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect();
        let frames = connection(&segments);
        let whole = in_batches(&text, &frames, 100);
        prop_assert_eq!(in_batches(&text, &frames, batch), &whole[..]);
        prop_assert_eq!(in_batches(&text, &frames, 1), whole);
    }
}
