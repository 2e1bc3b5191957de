//! What rules with `pass` take back.

use proptest::prelude::*;

use super::frames::*;
use super::{alerts, inspect_ahead, inspector, told};
use crate::inspect::InspectorOptions;
use crate::naive::{Held, untaken};
use crate::rule::Direction;

const EVIL: &str = "alert http any any -> any any (flow:established,to_server; http.uri; \
    content:\"/evil\"; sid:1;)\n\
    alert tcp any any -> any any (content:\"evil\"; sid:2;)\n";

/// A request in two segments: its second one completes the head.
const REQUEST: [(u32, &[u8]); 2] =
    [(0, b"GET /evil HTTP/1.1\r\nHost: good\r\n"), (32, b"Agent: x\r\n\r\n")];

/// Which of [`EVIL`] are told beside another rule.
fn beside(rule: &str, segments: &[(u32, &[u8])]) -> Vec<u32> {
    let found = told(&format!("{EVIL}{rule}"), &connection(segments));
    found.into_iter().map(|(_, sid)| sid).collect()
}

#[test]
fn a_host_is_let_pass_whatever_is_said_of_it() {
    assert_eq!(beside("", &REQUEST), [2, 1]);
    for rule in [
        "pass ip 10.0.0.1 any -> any any (sid:9;)",
        "pass tcp 10.0.0.1 any <> any any (sid:9;)",
        "pass http 10.0.0.1 any -> any any (sid:9;)",
        "pass tcp 10.0.0.1 any -> any 80 (sid:9;)",
        "pass http 10.0.0.1 any -> any any (flow:established,to_server; sid:9;)",
        "pass tcp any any -> any any (content:\"/evil\"; sid:9;)",
        "pass tcp any any -> any any (content:\"GET\"; depth:3; sid:9;)",
    ] {
        assert_eq!(beside(rule, &REQUEST), [] as [u32; 0], "{rule}");
    }
    assert_eq!(beside("pass ip 10.0.0.2 any -> any any (sid:9;)", &REQUEST), [2, 1]);
    // The message is known by its host with its head, which is later; from then on all passes.
    let by_host = "pass http any any -> any any (http.host; content:\"good\"; sid:9;)";
    assert_eq!(beside(by_host, &REQUEST), [2]);
    let more = [REQUEST[0], REQUEST[1], (44, b"POST /evil HTTP/1.1\r\n\r\n")];
    assert_eq!(beside(by_host, &more), [2]);
    // In one segment it takes back what the packet tells, too, though that was found before.
    let whole: Vec<u8> = REQUEST.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    assert_eq!(beside(by_host, &[(0, &whole)]), [] as [u32; 0]);
}

#[test]
fn what_is_asked_of_a_packet_takes_back_what_it_brings_alone() {
    // The packet with these bytes is not the one that completes the head.
    assert_eq!(beside("pass tcp any any -> any any (dsize:32; sid:9;)", &REQUEST), [1]);
    assert_eq!(beside("pass tcp any any -> any any (dsize:12; sid:9;)", &REQUEST), [2]);
    let packets = "pass tcp-pkt any any -> any any (content:\"good\"; sid:9;)";
    assert_eq!(beside(packets, &REQUEST), [1]);
    // Of datagrams each is by itself, unless addresses alone are asked for.
    let text = "alert udp any any -> any any (content:\"x\"; sid:1;)\n";
    let frames = [udp(CLIENT, SERVER, b"xp"), udp(SERVER, CLIENT, b"x")];
    let of = |rule: &str| told(&format!("{text}{rule}"), &frames);
    assert_eq!(of("pass udp any any -> any any (content:\"p\"; sid:9;)"), [(2, 1)]);
    assert_eq!(of("pass udp 10.0.0.1 any -> any 80 (sid:9;)"), [(2, 1)]);
    assert_eq!(of("pass udp 10.0.0.1 any -> any any (sid:9;)"), []);
    assert_eq!(of("pass udp any 80 -> any any (sid:9;)"), [(1, 1)]);
}

#[test]
fn what_no_packet_completes_is_let_pass_by_its_headers() {
    // Nothing ends this head but the flow.
    let open = [REQUEST[0]];
    assert_eq!(beside("pass tcp 10.0.0.1 any -> any 80 (sid:9;)", &open), [] as [u32; 0]);
    let to_server = "pass http 10.0.0.1 any -> any any (flow:established,to_server; sid:9;)";
    assert_eq!(beside(to_server, &open), [] as [u32; 0]);
    assert_eq!(beside(&to_server.replace("to_server", "to_client"), &open), [2, 1]);
    // A segment that waits for another one, and is looked at when the server has both.
    let mut frames = connection(&[(9, b"an evil")]);
    frames.push(tcp(SERVER, CLIENT, ACK, 5001, 1017, b""));
    let of = |rule: &str| told(&format!("{EVIL}{rule}"), &frames);
    assert_eq!(of(""), [(5, 2)]);
    assert_eq!(of("pass tcp 10.0.0.1 any -> any 80 (sid:9;)"), []);
}

#[test]
fn other_rules_let_pass_anew() {
    let text = format!("{EVIL}pass tcp any any -> any any (content:\"good\"; sid:9;)");
    let frames = connection(&[(0, b"good"), (4, b"evil"), (8, b"evil"), (12, b"evil")]);
    let mut one = inspector(&text, InspectorOptions::default());
    let mut found = Vec::new();
    inspect_ahead(&mut one, &frames[..5], 0, &mut found);
    assert_eq!((found.len(), one.stats().passed, one.stats().alerts), (0, 1, 0));
    let mut other = inspector(EVIL, InspectorOptions::default());
    other.take_flows(&mut one);
    inspect_ahead(&mut other, &frames[5..], 0, &mut found);
    assert_eq!((found.len(), other.stats().passed), (2, 1));
}

/// Rules whose texts are of one kind each: `pass` or `alert`, and what they ask.
const ASKED: [&str; 8] = [
    "tcp 10.0.0.1 any -> any any (",
    "tcp any any -> any any (content:\"evil\";",
    "tcp any any -> any any (content:\"POST\";",
    "tcp any any -> any any (dsize:<20;",
    "tcp any 80 -> any any (flow:established;",
    "http any any -> any any (http.uri; content:\"/evil\";",
    "http any any -> any any (http.method; content:\"POST\";",
    "http any any -> any any (file_data; content:\"evil\";",
];

/// What sides say, in words that the rules ask for.
fn said() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    let words = prop::sample::select(vec![
        (true, "GET /evil HTTP/1.1\r\n\r\n"),
        (true, "POST / HTTP/1.1\r\nContent-Length: 6\r\n\r\nan"),
        (true, " evil"),
        (true, "GET / HTTP/1.1\r\nX: y"),
        (true, "\r\n\r\n"),
        (false, "HTTP/1.1 200 x\r\nContent-Length: 4\r\n\r\nev"),
        (false, "il"),
        (false, "HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n"),
    ]);
    let said = words.prop_map(|(is_client, bytes)| (is_client, bytes.as_bytes().to_vec()));
    prop::collection::vec(said, 1..8)
}

/// A packet's frame for each.
fn frames(said: &[(bool, Vec<u8>)]) -> Vec<Vec<u8>> {
    let (mut frames, mut seqs) = (handshake(CLIENT, SERVER), [1001u32, 5001]);
    for (is_client, bytes) in said {
        let [client, server] = seqs;
        frames.push(match is_client {
            true => tcp(CLIENT, SERVER, ACK, client, server, bytes),
            false => tcp(SERVER, CLIENT, ACK, server, client, bytes),
        });
        seqs[usize::from(!is_client)] += bytes.len() as u32;
    }
    frames
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    /// Where each rule holds is what it tells as an alert; the reference says what is left of that.
    #[test]
    fn what_is_left_is_what_the_reference_leaves(
        picked in prop::collection::vec((0..ASKED.len(), any::<bool>()), 1..7),
        said in said(),
        batch in 1usize..5,
        ahead in any::<u32>(),
    ) {
        let text = |pass: &str| -> String {
            let rules = picked.iter().zip(1..).map(|(&(asked, is_pass), sid)| {
                let action = if is_pass { pass } else { "alert" };
                format!("{action} {} sid:{sid};)\n", ASKED[asked])
            });
            rules.collect()
        };
        let frames = frames(&said);
        let held = |found: &[crate::Alert]| -> Vec<Held> {
            let held = |alert: &crate::Alert| Held {
                rule: alert.rule as usize,
                flow: alert.flow_id,
                packet: (alert.number, alert.packet.is_some()),
                is_client: alert.direction == Direction::ToServer,
                in_stream: alert.in_stream,
            };
            found.iter().map(held).collect()
        };
        let mut all = inspector(&text("alert"), InspectorOptions::default());
        let found = alerts(&mut all, &frames);
        let mut one = inspector(&text("pass"), InspectorOptions::default());
        let rules: Vec<crate::Rule> = one.engine().rules().cloned().collect();
        let expected = untaken(&rules, &held(&found));
        prop_assert_eq!(held(&alerts(&mut one, &frames)), &expected[..]);
        let mut other = inspector(&text("pass"), InspectorOptions::default());
        let mut found = Vec::new();
        for frames in frames.chunks(batch) {
            inspect_ahead(&mut other, frames, ahead, &mut found);
        }
        other.finish(&mut found);
        prop_assert_eq!(held(&found), expected);
        prop_assert_eq!(other.stats().passed, one.stats().passed);
    }
}
