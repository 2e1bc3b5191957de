//! Rules of ClassBench's kind as patterns of `IPFilter`.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use warpswitch_rules::matching::{MatchKind, PortRange};
use warpswitch_rules::schema::IPV4_5TUPLE;
use warpswitch_rules::{Field, MatchRef, Ruleset, RulesetBuilder};

const TCP: u128 = 6;
const UDP: u128 = 17;
const ICMP: u128 = 1;

/// What `matching` demands, as a pattern. A demand of ports is one of TCP or UDP, too.
fn pattern(matching: &MatchRef<'_>) -> String {
    let kind = |field| matching.kind(&IPV4_5TUPLE, field);
    let mut tests = Vec::new();
    match kind(Field::IpProto) {
        MatchKind::Exact(TCP) => tests.push("tcp".to_owned()),
        MatchKind::Exact(UDP) => tests.push("udp".to_owned()),
        MatchKind::Exact(ICMP) => tests.push("icmp".to_owned()),
        MatchKind::Exact(proto) => tests.push(format!("ip proto {proto}")),
        _ => {}
    }
    for (side, field) in [("src", Field::Ipv4Src), ("dst", Field::Ipv4Dst)] {
        let shown = |address: u128| Ipv4Addr::from(address as u32);
        match kind(field) {
            MatchKind::Exact(address) => tests.push(format!("{side} host {}", shown(address))),
            MatchKind::Prefix(address, len) => {
                tests.push(format!("{side} net {}/{len}", shown(address)));
            }
            _ => {}
        }
    }
    for (side, range) in ["src", "dst"].into_iter().zip(matching.ranges) {
        match (range.lo, range.hi) {
            (0, u16::MAX) => {}
            (lo, hi) if lo == hi => tests.push(format!("{side} port {lo}")),
            (lo, u16::MAX) => tests.push(format!("{side} port >= {lo}")),
            (0, hi) => tests.push(format!("{side} port <= {hi}")),
            (lo, hi) => tests.push(format!("{side} port >= {lo} and {side} port <= {hi}")),
        }
    }
    if tests.is_empty() { "any".to_owned() } else { tests.join(" and ") }
}

/// `rules` as arguments of `IPFilter`: rule `n` sends to output `n` modulo `outputs`.
pub fn patterns(rules: &Ruleset, outputs: usize) -> String {
    let mut text = String::new();
    for rule in rules.iter() {
        let separator = if text.is_empty() { "" } else { ",\n" };
        let output = rule.id.as_usize() % outputs;
        let _ = write!(text, "{separator}  {output} {}", pattern(&rule.matching));
    }
    text
}

/// The rules equal to the patterns, and the pattern of each: ports are those of TCP and
/// UDP alone, so a rule that demands some becomes one for each of the two protocols.
pub fn reference(rules: &Ruleset) -> (Ruleset, Vec<usize>) {
    let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
    let mut patterns = Vec::new();
    for rule in rules.iter() {
        let has_ports = rule.matching.ranges.iter().any(|range| *range != PortRange::ANY);
        let protos: &[u128] = match rule.matching.kind(&IPV4_5TUPLE, Field::IpProto) {
            _ if !has_ports => &[],
            MatchKind::Any => &[TCP, UDP],
            MatchKind::Exact(TCP) => &[TCP],
            MatchKind::Exact(UDP) => &[UDP],
            _ => continue,
        };
        let mut add = |proto: Option<u128>| {
            let mut one = rules.to_rule(rule.id);
            if let Some(proto) = proto {
                one.matching.set_exact(Field::IpProto, proto);
            }
            // The first one that matches decides, whatever they said before.
            one.priority = 0;
            builder.push(one);
            patterns.push(rule.id.as_usize());
        };
        if protos.is_empty() {
            add(None);
        }
        protos.iter().for_each(|&proto| add(Some(proto)));
    }
    (builder.build(), patterns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::format::{ReadOptions, read_rules};

    #[test]
    fn rules_become_patterns_that_say_the_same() {
        let text = "@10.0.0.0/8 1.2.3.4/32 0 : 65535 80 : 80 0x06/0xFF\n\
                    @0.0.0.0/0 0.0.0.0/0 1024 : 65535 0 : 99 0x00/0x00\n\
                    @0.0.0.0/0 0.0.0.0/0 0 : 65535 5 : 7 0x01/0xFF\n\
                    @0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x2f/0xFF\n\
                    @0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n";
        let rules = read_rules("r", text, &ReadOptions::default()).unwrap();
        let expected = "  0 tcp and src net 10.0.0.0/8 and dst host 1.2.3.4 and dst port 80,\n  \
                        1 src port >= 1024 and dst port <= 99,\n  \
                        0 icmp and dst port >= 5 and dst port <= 7,\n  \
                        1 ip proto 47,\n  0 any";
        assert_eq!(patterns(&rules, 2), expected);
        let (reference, patterns) = reference(&rules);
        assert_eq!((reference.len(), patterns), (5, vec![0, 1, 1, 3, 4]));
    }
}
