//! Compares programs and lookups with a direct evaluation of patterns, for all kinds of packets.

use warpswitch_graph::language::args::NoNames;
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};

use super::list::{List, Pattern, regions, whole_program};
use super::parse::{self, Problems};
use super::program::Way;
use super::run::DROP;
use super::words;

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

const ADDRESSES: &[&str] = &["10.0.0.1", "10.0.0.2", "10.1.0.1", "192.168.0.9"];
const RELATIONS: &[&str] = &["", "==", "!=", "<", ">", "<=", ">="];

/// A random test that rules can express.
fn rule_test(random: &mut Random) -> String {
    let side = random.one_of(&["src", "dst", "", "src and dst", "src or dst"]).to_owned();
    match random.below(9) {
        0 => format!("{side} host {}", random.one_of(ADDRESSES)),
        1 => format!("dst host != {}", random.one_of(ADDRESSES)),
        2 => {
            format!("{side} net {}/{}", random.one_of(ADDRESSES), [8, 16, 24, 31][random.below(4)])
        }
        3 => random.one_of(&["tcp", "udp", "icmp", "proto 47", "proto != tcp"]).to_owned(),
        4 | 5 => {
            let (proto, relation) = (random.one_of(&["tcp", "udp", ""]), random.one_of(RELATIONS));
            let port = [0, 1, 53, 80, 1023, 1024, 65534][random.below(7)];
            format!("{side} {proto} port {relation} {port}")
        }
        6 => random.one_of(&["syn", "ack fin", "tcp opt 18", "rst"]).to_owned(),
        7 => random.one_of(&["ip frag", "unfrag", "icmp type echo", "icmp type != 8"]).to_owned(),
        _ => random.one_of(&["true", "false", "ip proto > 6", "src port & 3 == 1"]).to_owned(),
    }
}

/// A random test of any kind.
fn any_test(random: &mut Random) -> String {
    let (relation, value) = (random.one_of(RELATIONS), random.below(16));
    match random.below(10) {
        0 => format!("ip ttl {relation} {value}"),
        1 => format!("ip[{}] & 13 {relation} {}", random.below(24), value.min(12)),
        2 => format!("transp[{}:2] {relation} {value}", 2 * random.below(8)),
        3 => format!("tcp[13] & 7 {relation} {}", value % 8),
        4 => random.one_of(&["ip ect", "ip ce", "ip hl 6", "ip vers != 4"]).to_owned(),
        5 => random
            .one_of(&["(src 0:1:2:3:4:5 unfrag)", "(ether host 0:1:2:3:4:6 or ip frag)"])
            .to_owned(),
        _ => rule_test(random),
    }
}

fn pattern_text(random: &mut Random, depth: usize, test: fn(&mut Random) -> String) -> String {
    let kind = if depth == 0 { 9 } else { random.below(10) };
    let mut part = || pattern_text(random, depth - 1, test);
    match kind {
        0 | 1 => format!("({}) && ({})", part(), part()),
        2 | 3 => format!("({}) or ({})", part(), part()),
        4 => format!("!({})", part()),
        5 => format!("({}) ? ({}) : ({})", part(), part(), part()),
        _ => test(random),
    }
}

fn read(text: &str, way: Way) -> Pattern {
    let mut problems = Problems::default();
    let expr = parse::expression(&words::split(text), &NoNames, &mut problems);
    assert_eq!(problems.errors, [""; 0], "{text}");
    Pattern { expr, way }
}

/// A packet with numbers that patterns test for: whole, or truncated at a word.
fn packet(random: &mut Random) -> Packet {
    let mut bytes =
        vec![0u8, 0x10, 0x20, 0x30, 0x40, 0x50, 0, 1, 2, 3, 4, 5 + random.below(2) as u8];
    bytes.extend([8, 0]);
    let options = 4 * [0, 0, 0, 1, 2][random.below(5)];
    let mut network = vec![0; 20 + options];
    network[0] = 0x45 + (options / 4) as u8;
    network[1] = random.below(4) as u8;
    let fragment = [0, 0, 0, 0x4000, 0x2000, 0x2001, 5][random.below(7)] as u16;
    network[6..8].copy_from_slice(&fragment.to_be_bytes());
    network[8] = random.below(16) as u8;
    network[9] = [6, 6, 17, 1, 47][random.below(5)];
    for at in [12, 16] {
        let address: std::net::Ipv4Addr = random.one_of(ADDRESSES).parse().unwrap();
        network[at..at + 4].copy_from_slice(&address.octets());
    }
    let mut transport = vec![0; 24];
    for at in [0, 2] {
        let port = [0u16, 1, 53, 80, 81, 1023, 1024, 65535, 0x0800][random.below(9)];
        transport[at..at + 2].copy_from_slice(&port.to_be_bytes());
    }
    transport[13] = random.below(64) as u8;
    transport[15] = random.below(16) as u8;
    let cut = random.below(8);
    if cut == 0 {
        network.truncate(4 * random.below(6));
        transport.clear();
    } else if cut == 1 {
        transport.truncate(4 * random.below(5));
    }
    let (network_at, transport_at) = (bytes.len(), bytes.len() + network.len());
    bytes.extend(network);
    bytes.extend(transport);
    let mut packet = Packet::new();
    packet.set_data(&bytes);
    packet.set_header(Header::Mac, 0);
    packet.set_header(Header::Network, network_at);
    packet.set_header(Header::Transport, transport_at);
    if random.below(2) == 0 {
        packet.pull(14);
    }
    packet
}

/// Where a packet goes, pattern by pattern.
fn by_the_book(patterns: &[Pattern], packet: &Packet) -> u32 {
    let mut ethernet = [0; 16];
    let regions = regions(packet, true, &mut ethernet);
    let found = patterns.iter().find(|pattern| pattern.expr.holds(&regions, false));
    match found.map(|pattern| pattern.way) {
        Some(Way::Output(output)) => output,
        _ => DROP,
    }
}

fn check(
    patterns: &[Pattern],
    texts: &[String],
    mut list: List,
    random: &mut Random,
    packets: usize,
) {
    let mut batch = Batch::new();
    (0..packets).for_each(|_| batch.push(packet(random)));
    let mut outputs = Vec::new();
    list.run(&batch, &mut outputs);
    assert_eq!(outputs.len(), packets);
    for (packet, &output) in batch.iter().zip(&outputs) {
        let expected = by_the_book(patterns, packet);
        assert_eq!(
            output,
            expected,
            "{texts:#?}\n{:02x?}, transport at {:?}\n{}",
            packet.from_header(Header::Network),
            packet.header_offset(Header::Transport),
            list.text(),
        );
    }
}

fn random_patterns(
    random: &mut Random,
    count: usize,
    depth: usize,
    test: fn(&mut Random) -> String,
) -> (Vec<Pattern>, Vec<String>) {
    let texts: Vec<String> = (0..count).map(|_| pattern_text(random, depth, test)).collect();
    let way = |idx: usize| if idx % 4 == 3 { Way::Drop } else { Way::Output(idx as u32 % 7) };
    let patterns = texts.iter().enumerate().map(|(idx, text)| read(text, way(idx))).collect();
    (patterns, texts)
}

#[test]
fn programs_do_what_patterns_mean() {
    let mut random = Random(1);
    for _ in 0..1500 {
        let count = 1 + random.below(7);
        let (patterns, texts) = random_patterns(&mut random, count, 3, any_test);
        let list = List::by_program(patterns.clone());
        check(&patterns, &texts, list, &mut random, 60);
    }
}

#[test]
fn lookups_do_what_patterns_mean() {
    let mut random = Random(2);
    let mut looked_up = 0;
    for _ in 0..120 {
        let count = 40 + random.below(60);
        let mut parts = random_patterns(&mut random, count, 1, rule_test);
        // One in eight tests a field that rules cannot express.
        for idx in (0..parts.0.len()).step_by(8) {
            let text = format!("({}) && ip ttl < 8", rule_test(&mut random));
            let way = parts.0[idx].way;
            (parts.0[idx], parts.1[idx]) = (read(&text, way), text);
        }
        // Patterns that match much would leave those behind them without packets.
        let (patterns, texts): (Vec<_>, Vec<_>) = parts
            .0
            .into_iter()
            .zip(parts.1)
            .filter(|(pattern, _)| {
                let hits = (0..20).filter(|_| {
                    let packet = packet(&mut random);
                    by_the_book(std::slice::from_ref(pattern), &packet) != DROP
                });
                hits.count() < 8
            })
            .unzip();
        let list = List::new(patterns.clone());
        looked_up += u32::from(list.engine().starts_with("turbo"));
        check(&patterns, &texts, list, &mut random, 300);
    }
    assert!(looked_up > 60, "{looked_up} of 120 lists are looked up");
}

/// Results of patterns for packets whose headers end early.
#[test]
fn missing_bytes_do_not_match() {
    let check = |text: &str, network: usize, transport: usize, expected: bool| {
        let mut data = vec![0; 20];
        (data[0], data[9]) = (0x45, 6);
        data.truncate(network);
        data.resize(network + transport, 0);
        let mut packet = Packet::new();
        packet.set_data(&data);
        packet.set_header(Header::Network, 0);
        packet.set_header(Header::Transport, network);
        let mut batch = Batch::new();
        batch.push(packet);
        let mut outputs = Vec::new();
        List::by_program(vec![read(text, Way::Output(0))]).run(&batch, &mut outputs);
        assert_eq!(outputs == [0], expected, "{text}: {network} + {transport} bytes");
    };
    for (transport, is_there) in [(0, false), (1, false), (2, true), (3, true)] {
        check("transp[1] & 128 == 0", 20, transport, is_there);
        check("transp[1] & 128 != 128", 20, transport, is_there);
        check("transp[1] & 128 == 0 or transp[1] & 128 == 128", 20, transport, is_there);
        check("transp[1] >= 0", 20, transport, true);
        check("transp[1] > 0 or transp[1] <= 0", 20, transport, is_there);
        check("not (transp[1] & 128 == 0)", 20, transport, !is_there);
        check("src port 0", 20, transport, is_there);
        check("src port != 1", 20, transport, is_there);
        check("!(src port 1)", 20, transport, true);
        check("dst port 0", 20, transport, false);
    }
    check("ip[19] & 128 == 0", 19, 0, false);
    check("ip[19] & 128 == 0", 20, 0, true);
    check("dst host != 1.2.3.4", 19, 0, false);
    check("!dst host 1.2.3.4", 19, 0, true);
    check("unfrag or ip frag", 7, 0, false);
    check("true", 0, 0, true);
}

/// Words in any order: errors or a program, and that does what it means.
#[test]
fn any_words_pass() {
    const WORDS: &[&str] = &[
        "src",
        "dst",
        "and",
        "or",
        "not",
        "!",
        "(",
        ")",
        "?",
        ":",
        "tcp",
        "udp",
        "icmp",
        "transp",
        "port",
        "host",
        "net",
        "proto",
        "type",
        "opt",
        "frag",
        "ip",
        "ether",
        "ttl",
        "win",
        "syn",
        "echo",
        "10.0.0.1",
        "10.0.0.0/8",
        "0:1:2:3:4:5",
        "mask",
        "255.0.0.0",
        "80",
        "0",
        "-1",
        "&",
        "==",
        "!=",
        "<",
        ">=",
        "[",
        "4",
        "2:2",
        "]",
        "0x10000",
        "true",
        "false",
        "ect",
        "é",
        "tcpudp",
    ];
    let mut random = Random(4);
    let mut read = 0;
    for _ in 0..60_000 {
        let words = (0..1 + random.below(7)).map(|_| random.one_of(WORDS).to_owned());
        let words: Vec<String> = words.collect();
        let mut problems = Problems::default();
        let expr = parse::expression(&words, &NoNames, &mut problems);
        let patterns = [Pattern { expr, way: Way::Output(0) }];
        let list = List::by_program(patterns.to_vec());
        if problems.errors.is_empty() {
            read += 1;
            check(&patterns, &words, list, &mut random, 5);
        }
    }
    assert!(read > 1000, "{read} of 60000 patterns can be read");
}

/// Packets truncated at any byte cause no panic, and each result is an output of the list or a
/// drop.
#[test]
fn any_bytes_pass() {
    let mut random = Random(3);
    let (patterns, _) = random_patterns(&mut random, 40, 3, any_test);
    let mut lists = [List::by_program(patterns.clone()), List::new(patterns)];
    let mut batch = Batch::new();
    for _ in 0..3000 {
        let mut whole = packet(&mut random);
        whole.take(random.below(70));
        if random.below(4) == 0 {
            whole.clear_header(Header::Transport);
        }
        if random.below(8) == 0 {
            whole.clear_header(Header::Network);
        }
        batch.push(whole);
    }
    let mut outputs = Vec::new();
    for list in &mut lists {
        list.run(&batch, &mut outputs);
        assert!(outputs.iter().all(|&output| output < 7 || output == DROP));
    }
}

#[test]
fn what_is_equal_is_asked_once() {
    let text = "tcp && dst port 80 && src 10.0.0.1";
    let patterns = [read(text, Way::Output(0)), read(text, Way::Output(1))];
    assert_eq!(whole_program(&patterns).len(), whole_program(&patterns[..1]).len());
    let many = |n: u32| format!("tcp dst port {}", n + 100);
    let patterns: Vec<Pattern> = (0..16).map(|n| read(&many(n), Way::Output(0))).collect();
    // Protocol and fragment once, then ports, of which pairs may be one step.
    assert!(whole_program(&patterns).len() <= 18, "{}", List::by_program(patterns).text());
}
