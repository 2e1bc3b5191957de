//! The four scenarios by which the `gpu_classify` plugin for VPP was measured: no match, first
//! match, last match, and a thousand prefixes of some lengths.
//!
//! There one packet was sent over and over. Here packets differ in all that their scenario leaves
//! open, and of the prefixes' packets half match one of the rules, drawn at random.

use warpswitch_rules::generate::{Point, TraceSpec};
use warpswitch_rules::schema::IPV4_5TUPLE;
use warpswitch_rules::{Action, Field, KeyBuf, Match, Rule, Ruleset, RulesetBuilder};

use crate::human;

/// Rules of the first three.
const RULES: [usize; 5] = [1, 8, 64, 256, 1024];
/// Prefix lengths of the fourth.
const MASKS: [usize; 6] = [1, 2, 4, 8, 16, 21];
/// Its rules.
const PREFIXES: usize = 1024;
/// TCP.
const PROTO: u128 = 6;
/// A destination port that no rule has.
const OTHER_PORT: u128 = 50_000;
/// The longest prefix; each further length is one shorter.
const PREFIX_LEN_MAX: usize = 32;

/// Rules and the packets that are sent through them.
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// Different masks among its rules.
    pub masks: usize,
    pub ruleset: Ruleset,
    pub keys: KeyBuf,
}

/// All of them, `keys` packets each.
pub fn all(keys: usize) -> Vec<Scenario> {
    let mut all = Vec::new();
    for (name, dst) in [("no match", None), ("first match", Some(0)), ("last match", Some(1))] {
        for rules in RULES {
            let dst = dst.map_or(OTHER_PORT, |last| port(last * (rules - 1)));
            all.push(Scenario {
                name: name.to_owned(),
                masks: 1,
                ruleset: build((0..rules).map(|idx| tcp_to(port(idx)))),
                keys: drawn(&build([tcp_to(dst)]), keys),
            });
        }
    }
    for masks in MASKS {
        let ruleset = build((0..PREFIXES).map(|idx| prefix(idx, masks)));
        let keys = alternating(&drawn(&ruleset, keys), &drawn(&build([far_off()]), keys));
        let name = human::counted(masks, "mask");
        all.push(Scenario { name, masks, ruleset, keys });
    }
    all
}

/// The destination port of rule `idx`.
fn port(idx: usize) -> u128 {
    1 + idx as u128
}

fn tcp_to(port: u128) -> Match {
    let mut matching = Match::any(&IPV4_5TUPLE);
    matching.set_exact(Field::IpProto, PROTO).set_exact(Field::L4Dst, port);
    matching
}

/// Prefix `idx` of `masks` lengths in turn.
fn prefix(idx: usize, masks: usize) -> Match {
    let len = PREFIX_LEN_MAX - idx % masks;
    let address = (idx as u128) << (PREFIX_LEN_MAX - len);
    let mut matching = Match::any(&IPV4_5TUPLE);
    matching.set_prefix(Field::Ipv4Dst, address, len);
    matching
}

/// Destinations that no prefix reaches: the highest is 1023 times 2^20.
fn far_off() -> Match {
    let mut matching = Match::any(&IPV4_5TUPLE);
    matching.set_prefix(Field::Ipv4Dst, 0xf << 28, 4);
    matching
}

fn build(matches: impl IntoIterator<Item = Match>) -> Ruleset {
    let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
    for matching in matches {
        builder.push(Rule::new(matching, Action::Drop));
    }
    builder.build()
}

/// Packets inside rules drawn at random.
fn drawn(ruleset: &Ruleset, keys: usize) -> KeyBuf {
    let spec = TraceSpec { keys, point: Point::Inside, locality: None, realisable: false, seed: 1 };
    let mut drawn = KeyBuf::with_capacity(ruleset.schema(), keys);
    spec.generate(ruleset).fill(&mut drawn, keys);
    drawn
}

/// Packets of the two in turn.
fn alternating(even: &KeyBuf, odd: &KeyBuf) -> KeyBuf {
    let mut keys = KeyBuf::with_capacity(even.schema(), even.len());
    for (idx, (even, odd)) in even.as_batch().iter().zip(odd.as_batch().iter()).enumerate() {
        keys.push(if idx % 2 == 0 { even } else { odd });
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::{RuleId, linear};

    #[test]
    fn packets_match_what_their_scenario_says() {
        let scenarios = all(300);
        assert_eq!(scenarios.len(), 3 * RULES.len() + MASKS.len());
        for Scenario { name, masks, ruleset, keys } in scenarios {
            let mut answers = vec![RuleId(7); keys.len()];
            linear::classify(&ruleset, keys.as_batch(), &mut answers);
            let none = answers.iter().filter(|&&answer| answer == RuleId::NONE).count();
            let last = RuleId(ruleset.len() as u32 - 1);
            match name.as_str() {
                "no match" => assert_eq!(none, keys.len()),
                "first match" => assert!(answers.iter().all(|&answer| answer == RuleId(0))),
                "last match" => assert!(answers.iter().all(|&answer| answer == last)),
                _ => {
                    assert_eq!((none, ruleset.len()), (keys.len() / 2, PREFIXES), "{name}");
                    let lens: std::collections::HashSet<u32> =
                        ruleset.iter().map(|rule| rule.matching.mask[1].count_ones()).collect();
                    assert_eq!(lens.len(), masks);
                }
            }
        }
    }
}
