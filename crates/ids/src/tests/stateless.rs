//! Stateless matching finds what every rule by itself does on every packet by itself.

use std::net::IpAddr;

use proptest::prelude::*;
use warpswitch_scan::{PatternId, PatternSets};

use super::agree::{bytes, step};
use super::frames::{ACK, End, SYN, cut, ip, tcp, udp};
use super::{ahead, packets, rules};
use crate::inspect::{Alert, Found, Inspector, InspectorOptions, Search, payload_place};
use crate::naive;
use crate::rule::{Action, Rules};
use crate::stateless::{StatelessEngine, StatelessMatches, StatelessOptions, StatelessScratch};
use crate::{Engine, GROUPS};

/// A packet as the reference sees it, without a frame.
#[derive(Clone, Debug)]
struct Model {
    proto: &'static str,
    src: (&'static str, u16),
    dst: (&'static str, u16),
    flags: u8,
    payload: Vec<u8>,
}

impl Model {
    fn frame(&self) -> Vec<u8> {
        let (src, dst) = (End(self.src.0, self.src.1), End(self.dst.0, self.dst.1));
        match self.proto {
            "tcp" => tcp(src, dst, self.flags, 1, 1, &self.payload),
            "udp" => udp(src, dst, &self.payload),
            "icmp" => ip(src.0, dst.0, 1, &[&[8, 0, 0, 0, 0, 1, 0, 2], &*self.payload].concat()),
            _ => ip(src.0, dst.0, 99, &self.payload),
        }
    }

    /// Source and destination port; those of a protocol without ports are 0.
    fn ports(&self) -> [u16; 2] {
        match self.proto {
            "tcp" | "udp" => [self.src.1, self.dst.1],
            _ => [0, 0],
        }
    }
}

/// A rule as the reference sees it: the parts of its text.
#[derive(Clone, Debug)]
struct Written {
    action: &'static str,
    proto: &'static str,
    ends: [(&'static str, &'static str); 2],
    arrow: &'static str,
    check: &'static str,
    /// What stateless matching ignores.
    ignored: &'static str,
    steps: Vec<String>,
}

impl Written {
    fn text(&self, sid: usize) -> String {
        let [(src, src_ports), (dst, dst_ports)] = self.ends;
        let Self { action, proto, arrow, check, ignored, .. } = self;
        let steps = self.steps.concat();
        format!(
            "{action} {proto} {src} {src_ports} {arrow} {dst} {dst_ports} \
             ({ignored} {check} {steps} sid:{sid};)\n"
        )
    }

    /// Whether the header and the check match: from the text, without the engine's sets.
    fn allows(&self, packet: &Model) -> bool {
        let address = |list: &str, (address, _): (&str, u16)| {
            naive::addresses::names(list, address.parse::<IpAddr>().unwrap()).unwrap()
        };
        let port = |list: &str, port: u16| match list {
            "any" => true,
            "80" => port == 80,
            "!80" => port != 80,
            "[50:90,5000]" => (50..=90).contains(&port) || port == 5000,
            other => panic!("{other}"),
        };
        let [src_port, dst_port] = packet.ports();
        let way = |src, src_port, dst, dst_port| {
            let [left, right] = self.ends;
            address(left.0, src)
                && address(right.0, dst)
                && (packet.proto == "icmp" && self.proto == "icmp"
                    || port(left.1, src_port) && port(right.1, dst_port))
        };
        let is_way = way(packet.src, src_port, packet.dst, dst_port)
            || self.arrow == "<>" && way(packet.dst, dst_port, packet.src, src_port);
        let is_checked = match self.check {
            "" => true,
            "dsize:<4;" => packet.payload.len() < 4,
            "dsize:3<>9;" => (4..9).contains(&packet.payload.len()),
            "ttl:64;" => true,
            "ttl:<64;" => false,
            "sameip;" => packet.src.0 == packet.dst.0,
            other => panic!("{other}"),
        };
        (self.proto == "ip" || self.proto == packet.proto) && is_way && is_checked
    }
}

fn host() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["10.0.0.1", "10.0.0.2", "192.0.2.80"])
}

fn model() -> impl Strategy<Value = Model> {
    let proto = prop::sample::select(vec!["tcp", "tcp", "udp", "icmp", "other"]);
    let port = || prop::sample::select(vec![0, 80, 81, 5000, 65535]);
    let flags = prop::sample::select(vec![SYN, ACK]);
    (proto, (host(), port()), (host(), port()), flags, bytes(24))
        .prop_map(|(proto, src, dst, flags, payload)| Model { proto, src, dst, flags, payload })
}

fn written() -> impl Strategy<Value = Written> {
    let action = prop::sample::select(vec!["alert", "alert", "alert", "drop", "pass"]);
    let proto = prop::sample::select(vec!["ip", "tcp", "udp", "icmp"]);
    let list = || prop::sample::select(vec!["any", "any", "10.0.0.0/24", "!10.0.0.1"]);
    let ports = || prop::sample::select(vec!["any", "any", "80", "!80", "[50:90,5000]"]);
    let arrow = prop::sample::select(vec!["->", "->", "<>"]);
    let check = vec!["", "", "", "dsize:<4;", "dsize:3<>9;", "ttl:64;", "ttl:<64;", "sameip;"];
    let ignored = vec![
        "",
        "flow:established,to_server;",
        "flow:to_client,no_stream;",
        "flow:stateless;",
        "flow:no_frag;",
        "flowbits:set,b;",
    ];
    let how = (prop::sample::select(check), prop::sample::select(ignored));
    let steps = prop::collection::vec(step(), 0..4);
    (action, proto, [(list(), ports()), (list(), ports())], arrow, how, steps).prop_map(
        |(action, proto, ends, arrow, (check, ignored), steps)| Written {
            action,
            proto,
            ends,
            arrow,
            check,
            ignored,
            steps,
        },
    )
}

/// Alerts of the reference: packet and rule, in order.
fn expected(written: &[Written], rules: &Rules, models: &[Model]) -> Vec<(u32, u32)> {
    let mut expected = Vec::new();
    for (packet, model) in (0..).zip(models) {
        let holds = |idx: usize| {
            let of = &written[rules.rules[idx].about.sid as usize - 1];
            of.allows(model) && naive::holds(&rules.rules[idx], &model.payload)
        };
        let holding: Vec<usize> = (0..rules.rules.len()).filter(|&idx| holds(idx)).collect();
        if holding.iter().all(|&idx| rules.rules[idx].action != Action::Pass) {
            expected.extend(holding.iter().map(|&idx| (packet, idx as u32)));
        }
    }
    expected
}

fn pairs(alerts: &[Alert]) -> Vec<(u32, u32)> {
    alerts.iter().map(|alert| (alert.packet.unwrap(), alert.rule)).collect()
}

/// A search that answers as a device does.
#[derive(Debug)]
struct Slow(Vec<warpswitch_scan::Patterns>);

impl Slow {
    fn new(engine: &Engine) -> Box<Self> {
        Box::new(Self(engine.patterns().map(Clone::clone).to_vec()))
    }
}

impl Search for Slow {
    fn scan_sets(&mut self, group: usize, texts: &[&[u8]], sets: &mut PatternSets) {
        sets.clear();
        for text in texts {
            sets.add(&warpswitch_scan::naive::set(&self.0[group], text), false);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn stateless_matching_finds_what_every_rule_by_itself_does(
        // Few rules most of the time: each one alone decides which payloads are searched.
        written in prop_oneof![
            3 => prop::collection::vec(written(), 1..3),
            1 => prop::collection::vec(written(), 1..12),
        ],
        models in prop::collection::vec(model(), 1..12),
        which in any::<u32>(),
    ) {
        let text: String = written.iter().zip(1..).map(|(rule, sid)| rule.text(sid)).collect();
        let rules = rules(&text);
        let frames: Vec<Vec<u8>> = models.iter().map(Model::frame).collect();
        let expected = expected(&written, &rules, &models);
        let engine = StatelessEngine::build(rules.clone());
        prop_assert_eq!(engine.engine().rules().len(), rules.rules.len());
        let mut scratch = StatelessScratch::default();
        let mut out = StatelessMatches::default();
        engine.match_batch(packets(&frames), &mut scratch, &mut out);
        prop_assert_eq!(pairs(&out.alerts), &expected[..], "{}", text);
        let hits: Vec<bool> =
            (0..models.len() as u32).map(|idx| expected.iter().any(|it| it.0 == idx)).collect();
        prop_assert_eq!(&out.hits, &hits);
        prop_assert_eq!(scratch.stats().alerts, expected.len() as u64);
        // The same with hits of a device, for some packets ahead and for the others now.
        let mut packets = packets(&frames);
        let ahead: Vec<Option<Vec<PatternId>>> = ahead(engine.engine(), &packets, which);
        for (idx, (packet, ahead)) in packets.iter_mut().zip(&ahead).enumerate() {
            let mut place = payload_place(packet);
            packet.found = ahead.as_ref().map(|patterns| Found { patterns, place });
            if let (None, Some(place)) = (ahead, &mut place) {
                place.group = (place.group + 1 + idx % 3) % GROUPS;
                packet.found = Some(Found { patterns: &[], place: Some(*place) });
            }
        }
        let mut other = StatelessScratch::default();
        other.search_by(Some(Slow::new(engine.engine())));
        let mut again = StatelessMatches::default();
        engine.match_batch(packets, &mut other, &mut again);
        prop_assert_eq!(pairs(&again.alerts), &expected[..]);
        prop_assert_eq!(again.hits, hits);
    }
}

/// Numbers of the rules that are kept, and of those left out with why.
fn kept(text: &str) -> (Vec<u32>, Vec<(u32, String)>) {
    let engine = StatelessEngine::build(rules(text));
    let kept = engine.engine().rules().map(|rule| rule.about.sid).collect();
    let left_out = engine.engine().left_out().iter();
    (kept, left_out.map(|rule| (rule.sid, rule.keywords.join(", "))).collect())
}

#[test]
fn leaves_out_rules_that_need_state() {
    let rule = |sid: u32, options: &str| {
        format!("alert tcp any any -> any any (content:\"ab\"; {options} sid:{sid};)\n")
    };
    let text = [
        rule(1, "flow:established,to_server;"),
        rule(2, "flowbits:isset,x;"),
        rule(3, "flowbits:set,x;"),
        rule(4, "flowbits:set,x; flowbits:noalert;"),
        rule(5, "threshold:type limit,track by_src,count 1,seconds 60;"),
        rule(6, "detection_filter:track by_src,count 1,seconds 60;"),
        rule(7, "flow:not_established;"),
        rule(8, "flow:only_stream;"),
        rule(9, "flow:only_frag;"),
        rule(10, "http.uri; content:\"cd\";"),
        rule(11, "flow:no_stream,to_client;"),
        rule(12, "urilen_; "),
    ];
    let (kept, left_out) = kept(&text.concat());
    assert_eq!(kept, [1, 3, 11]);
    let left_out: Vec<(u32, &str)> = left_out.iter().map(|(sid, why)| (*sid, &**why)).collect();
    let expected = [
        (2, "flowbits needs state"),
        (4, "noalert needs state"),
        (5, "threshold needs state"),
        (6, "detection_filter needs state"),
        (7, "flow:not_established needs state"),
        (8, "only_stream needs state"),
        (9, "only_frag needs state"),
        (10, "a buffer of HTTP needs state"),
        (12, "urilen_ (no keyword of Snort or Suricata)"),
    ];
    assert_eq!(left_out, expected);
}

#[test]
fn ignores_what_other_packets_hold() {
    let text = "alert tcp any any -> any 80 (content:\"abcd\"; sid:1;)\n\
                alert tcp any any -> any 80 (content:\"cd\"; offset:1; depth:3; sid:2;)\n";
    let (client, server) = (End("10.0.0.1", 4000), End("10.0.0.2", 80));
    let segment = |seq, payload: &[u8]| tcp(client, server, ACK, seq, 1, payload);
    let whole = udp(client, server, &[b'x'; 64]);
    let mut frames = vec![segment(1, b"ab"), segment(3, b"cd"), segment(5, b"abcd")];
    frames.extend(cut(&whole, &[3], 9));
    frames.push(vec![0x88; 20]);
    frames.push(vec![0; 5]);
    let engine = StatelessEngine::build(rules(text));
    let mut scratch =
        StatelessScratch::new(StatelessOptions { payload_bytes: 3, ..Default::default() });
    let mut out = StatelessMatches::default();
    for _ in 0..2 {
        engine.match_batch(packets(&frames), &mut scratch, &mut out);
        assert_eq!(pairs(&out.alerts), [(2, 0), (2, 1)]);
        assert_eq!(out.alerts[0].payload, b"abc");
        assert_eq!(out.alerts[0].ports, Some((4000, 80)));
    }
    let stats = scratch.stats();
    assert_eq!((stats.packets, stats.matched, stats.alerts), (14, 2, 4));
    assert_eq!(stats.uninspected, [2, 2, 4]);
    assert_eq!(scratch.alerts_by_rule(), [2, 2]);
}

#[test]
fn searches_only_payloads_whose_ports_a_pattern_allows() {
    let text = "alert udp any any -> any 53 (content:\"ab\"; sid:1;)\n\
                alert udp any any -> any any (dsize:>1000; sid:2;)\n";
    let engine = StatelessEngine::build(rules(text));
    let to = |port| udp(End("10.0.0.1", 4000), End("10.0.0.2", port), b"xxabxx");
    let frames = [to(53), to(54), tcp(End("10.0.0.1", 1), End("10.0.0.2", 53), ACK, 1, 1, b"ab")];
    let (mut scratch, mut out) = (StatelessScratch::default(), StatelessMatches::default());
    engine.match_batch(packets(&frames), &mut scratch, &mut out);
    assert_eq!((scratch.stats().searched, out.hits), (1, vec![true, false, false]));
}

/// A stateful inspector and the stateless matcher agree on datagrams whose rules have no state.
#[test]
fn agrees_with_the_inspector_on_datagrams() {
    let text = "alert udp any any -> any 53 (content:\"ab\"; content:\"cd\"; distance:1; sid:1;)\n\
                alert ip 10.0.0.0/8 any -> any any (ttl:64; sid:2;)\n\
                pass udp any 7 -> any any (sid:3;)\n";
    let datagram = |from, payload: &[u8]| udp(End("10.0.0.1", from), End("10.0.0.2", 53), payload);
    let frames = [datagram(9, b"abxcd"), datagram(10, b"abcd"), datagram(7, b"abxcd")];
    let engine = StatelessEngine::build(rules(text));
    let (mut scratch, mut out) = (StatelessScratch::default(), StatelessMatches::default());
    engine.match_batch(packets(&frames), &mut scratch, &mut out);
    let mut alerts = Vec::new();
    Inspector::new(engine.engine().clone(), InspectorOptions::default())
        .inspect(packets(&frames), &mut alerts);
    assert_eq!(pairs(&out.alerts), pairs(&alerts));
    assert_eq!(pairs(&alerts), [(0, 0), (0, 1), (1, 1)]);
    assert_eq!(scratch.stats().passed, 2);
}
