//! Rows of bits against gates asked one by one.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::decode::decode;
use crate::rule::Direction;
use crate::tests::frames::{ACK, End, RST, SYN, ip, tcp, udp};
use crate::tests::rules;
use warpswitch_wire::link::LinkType;

const HOSTS: [&str; 6] =
    ["0.0.0.0", "10.0.0.1", "10.0.0.2", "192.168.7.7", "255.255.255.255", "10.255.255.255"];
const HOSTS_6: [&str; 3] = ["2001:db8::1", "2001:db9::", "ff02::1"];
const PORTS: [u16; 9] = [0, 1, 79, 80, 81, 443, 8000, 9001, 65535];

fn rule() -> impl Strategy<Value = String> {
    let hosts = select(&[
        "any",
        "10.0.0.1",
        "!10.0.0.1",
        "10.0.0.0/8",
        "[10.0.0.1,192.168.0.0/16,!192.168.7.7]",
        "2001:db8::/32",
        "::/0",
        "[::/0,10.0.0.2,!2001:db9::]",
        "[255.255.255.255,0.0.0.0/31]",
    ]);
    let ports = select(&["any", "80", "!80", "[1:79,443]", "8000:", ":80", "65535", "0"]);
    let options = select(&[
        "",
        "flow:to_server;",
        "flow:to_client,established;",
        "flow:not_established;",
        "flags:S;",
        "ttl:<64;",
    ]);
    let proto = select(&["tcp", "udp", "icmp", "ip"]);
    (proto, [hosts.clone(), hosts], [ports.clone(), ports], any::<bool>(), options).prop_map(
        |(proto, hosts, ports, both_ways, options)| {
            let way = if both_ways { "<>" } else { "->" };
            let options = if proto == "tcp" { options } else { "" };
            format!(
                "alert {proto} {} {} {way} {} {} ({options}",
                hosts[0], ports[0], hosts[1], ports[1]
            )
        },
    )
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let ends = prop_oneof![(select(&HOSTS), select(&HOSTS)), (select(&HOSTS_6), select(&HOSTS_6))];
    let flags = select(&[SYN, SYN | ACK, ACK, RST]);
    (ends, [select(&PORTS), select(&PORTS)], 0..4u8, flags).prop_map(
        |((src, dst), [src_port, dst_port], proto, flags)| match proto {
            0 => udp(End(src, src_port), End(dst, dst_port), b"x"),
            1 => ip(src, dst, 1, &[8, 0, 0, 0, 0, 1, 0, 1]),
            2 => ip(src, dst, 50, &[0; 16]),
            _ => tcp(End(src, src_port), End(dst, dst_port), flags, 1, 1, b"x"),
        },
    )
}

proptest! {
    /// However little room rows have, the rules that are kept are those that their headers, flows
    /// and checks allow.
    #[test]
    fn rows_keep_what_each_gate_by_itself_allows(
        texts in proptest::collection::vec(rule(), 1..150),
        frames in proptest::collection::vec(frame(), 1..20),
        bytes in prop_oneof![Just(0), 0..2_000usize, Just(ROWS_BYTES_MAX)],
        gates in prop_oneof![Just(0), 0..100usize, Just(ROW_GATES_MAX)],
    ) {
        let numbered = |(sid, rule): (usize, &String)| format!("{rule} sid:{};)\n", sid + 1);
        let text: String = texts.iter().enumerate().map(numbered).collect();
        let rules = rules(&text).rules;
        let gates = Gates::within(rules.iter(), Room { gates, bytes });
        let flows_bytes = 16 * 8 * rules.len().div_ceil(64);
        prop_assert!(gates.rows.bytes() <= 6 * bytes + flows_bytes + 256);
        prop_assert!(gates.briefs.bytes() <= 128 * (gates.gates.len() - gates.left.len()));
        for frame in &frames {
            let Ok(packet) = decode(LinkType::Ethernet, frame, frame.len()) else { continue };
            for (_, (_, flow)) in rows::flow_classes() {
                let mut kept: Vec<u32> = (0..rules.len() as u32).rev().chain([0]).collect();
                let allows = |&rule: &u32| {
                    let rule = &rules[rule as usize];
                    let checks = rule.checks.iter().all(|check| packet.passes(check));
                    rule.flow.allows(&flow) && rule.header.allows(&packet) && checks
                };
                let expected: Vec<u32> = kept.iter().copied().filter(allows).collect();
                gates.keep((&packet, &flow), &mut kept, &mut Vec::new());
                prop_assert_eq!(kept, expected);
            }
        }
    }
}

#[test]
fn gates_are_shared_by_rules_that_ask_the_same_and_rows_tell_of_most() {
    let text = (1..=200)
        .map(|sid| {
            let ports = if sid % 2 == 0 { "80" } else { "[443,8443]" };
            format!("alert tcp any any -> any {ports} (content:\"abcd{sid}\"; sid:{sid};)\n")
        })
        .collect::<String>()
        + "alert tcp any any -> any 80 (flags:S; content:\"efgh\"; sid:201;)\n";
    let rules = rules(&text).rules;
    let gates = Gates::new(rules.iter());
    assert_eq!(gates.gates.len(), 3);
    assert_eq!(gates.left, [Left::Nothing, Left::Nothing, Left::Checks]);
    // Without room for all of them those have rows that most rules share.
    let gates = Gates::within(rules.iter(), Room { gates: 2, bytes: ROWS_BYTES_MAX });
    assert_eq!(gates.left, [Left::Nothing; 2]);
    let left = |gates: &Gates| gates.briefs.v4.iter().map(|brief| brief.left).collect::<Vec<_>>();
    assert_eq!(left(&gates), [Left::Checks]);
    let gates = Gates::within(rules.iter(), Room { gates: 2, bytes: 0 });
    assert_eq!(left(&gates), [Left::All, Left::Nothing, Left::Checks]);
}

#[test]
fn directions_have_rows_of_their_own() {
    let text = "alert tcp any any -> any any (flow:to_client; content:\"abcd\"; sid:1;)\n";
    let rules = rules(text).rules;
    let gates = Gates::new(rules.iter());
    let frame = tcp(End("10.0.0.1", 80), End("10.0.0.2", 81), ACK, 1, 1, b"x");
    let packet = decode(LinkType::Ethernet, &frame, frame.len()).unwrap();
    for (direction, expected) in [(Direction::ToServer, vec![]), (Direction::ToClient, vec![0])] {
        let mut kept = vec![0];
        let flow = FlowFacts { direction, is_established: true };
        gates.keep((&packet, &flow), &mut kept, &mut Vec::new());
        assert_eq!(kept, expected);
    }
}

#[test]
fn addresses_of_one_family_say_nothing_of_the_other() {
    let text =
        ["any", "::/0", "0.0.0.0/0", "!::/0", "!10.0.0.1", "::ffff:0:0/96", "::ffff:10.0.0.1"]
            .map(|hosts| format!("alert udp {hosts} any -> any any (content:\"x\"; sid:1;)\n"));
    let mapped = ("::ffff:10.0.0.1", "2001:db8::1");
    let frames = [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2"), mapped];
    let expected = [
        [true; 3],
        [false, true, true],
        [true, false, false],
        [true, false, false],
        [false, true, true],
        [false, false, true],
        [false, false, true],
    ];
    for (text, expected) in text.iter().zip(expected) {
        for (bytes_max, ((src, dst), expected)) in [0, ROWS_BYTES_MAX]
            .into_iter()
            .flat_map(|max| frames.iter().zip(expected).map(move |it| (max, it)))
        {
            let rules = rules(text).rules;
            let gates =
                Gates::within(rules.iter(), Room { gates: ROW_GATES_MAX, bytes: bytes_max });
            let frame = udp(End(src, 80), End(dst, 81), b"x");
            let packet = decode(LinkType::Ethernet, &frame, frame.len()).unwrap();
            let mut kept = vec![0];
            let flow = FlowFacts { direction: Direction::ToServer, is_established: true };
            gates.keep((&packet, &flow), &mut kept, &mut Vec::new());
            assert_eq!(kept.len(), usize::from(expected), "{text} {src}");
        }
    }
}
