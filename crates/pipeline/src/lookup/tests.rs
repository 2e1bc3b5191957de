//! The fast lookup against the reference.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::engines::TableEngines;
use crate::testing::{by_name, flow};
use warpswitch_classify::{BuildOptions, Classifier, ClassifyError, Detail, Engine, build};
use warpswitch_flow::programs::NO_FLOW;
use warpswitch_flow::{PackedKey, Shape};
use warpswitch_rules::{KeyBatch, RuleId, RuleRef, Ruleset, Schema};
use warpswitch_testkit::random::Random;

/// Fields of random flows: any, those of a 5-tuple, and those of an access list for Ethernet.
const FIELDS: [&[&str]; 3] = [
    &["in_port", "reg0", "eth_dst", "ipv6_src"],
    &["ip_src", "ip_dst", "tcp_src", "tcp_dst"],
    &["vlan_vid", "eth_src", "metadata", "reg1", "reg2", "reg3", "arp_sha", "nd_target", "tun_id"],
];

/// A random match of few fields and values. Flows for IPv4 demand EtherType and protocol.
fn matching(random: &mut Random, fields: &[&str]) -> FlowMatch {
    let mut matching = FlowMatch::any();
    if fields.contains(&"ip_src") && !random.chance(1, 10) {
        matching.set(by_name("eth_type"), 0x0800, u128::MAX);
        let proto = if random.chance(1, 4) { 17 } else { 6 };
        matching.set(by_name("nw_proto"), proto, u128::MAX);
    }
    for name in fields {
        let mask = [0, 0, 1, 3, u128::MAX][random.below(5)];
        matching.set(by_name(name), random.below(4) as u128, mask);
    }
    matching
}

fn key(random: &mut Random, fields: &[&str]) -> FlowKey {
    let mut key = [0; FLOW_WORDS];
    for name in fields {
        by_name(name).range.write(&mut key, random.below(4) as u128);
    }
    if fields.contains(&"ip_src") {
        let ether_type = if random.chance(1, 8) { 0x86dd } else { 0x0800 };
        by_name("eth_type").range.write(&mut key, ether_type);
        by_name("nw_proto").range.write(&mut key, if random.chance(1, 3) { 17 } else { 6 });
    }
    key
}

/// Shapes by number: the words that are not zero in keys of `fields`, and fewer of them.
fn shapes(fields: &[&str]) -> [Shape; 3] {
    let mut bits = [0; FLOW_WORDS];
    for name in fields.iter().chain(&["eth_type", "nw_proto"]) {
        by_name(name).range.write(&mut bits, u128::MAX);
    }
    let words: Vec<u8> = (0..FLOW_WORDS as u8).filter(|&at| bits[usize::from(at)] != 0).collect();
    [0, 1, 2].map(|number| {
        let some = words.iter().copied().filter(|word| number == 0 || word % 3 != number as u8);
        Shape { number, words: Vec::leak(some.collect()) }
    })
}

/// The engine finds what the reference finds for a burst of packets of different shapes.
fn check_burst(flows: &Flows, linear: &Index, engine: &mut TableEngine, keys: &[PackedKey]) {
    let group: Vec<u32> = (0..keys.len() as u32).rev().collect();
    let mut winners = vec![7];
    engine.find(keys, &group, &mut winners);
    let keys: Vec<FlowKey> = keys.iter().map(PackedKey::to_key).collect();
    for (&idx, &winner) in group.iter().zip(&winners) {
        let expected = linear.find(flows, &keys[idx as usize], None);
        assert_eq!(winner, expected.unwrap_or(NO_FLOW), "{engine:?}");
    }
}

/// Flows in both indices, under random changes.
fn check(seed: u64, fields: &[&str], engines: &TableEngines) {
    let mut random = Random::new(seed);
    let mut flows = Flows::default();
    let hash = Arc::new(FlowHash::new(0));
    let [mut linear, mut tuple] =
        [Lookup::Linear, Lookup::TupleSpace].map(|lookup| Index::new(lookup, &hash));
    let mut engine = TableEngine::new(&flows, &[], &hash, engines);
    let shapes = shapes(fields);
    for _ in 0..400 {
        let new = flow(0, random.below(6) as u16, matching(&mut random, fields), Vec::new());
        let has_overlap = linear.has_overlap(&flows, &new);
        assert_eq!(has_overlap, tuple.has_overlap(&flows, &new));
        let same = linear.find_same(&flows, &new);
        assert_eq!(same, tuple.find_same(&flows, &new));
        let gone = if random.chance(1, 3) { linear.places().first().copied() } else { None };
        if let Some(place) = same.or(gone) {
            linear.remove(&flows, place);
            tuple.remove(&flows, place);
            engine.remove(&flows, place);
            flows.remove(place);
        }
        if random.chance(5, 6) && linear.find_same(&flows, &new).is_none() {
            let place = flows.insert(new.clone(), 0);
            linear.insert(&flows, place);
            tuple.insert(&flows, place);
            engine.insert(&flows, place);
        }
        if engine.is_worn() || random.chance(1, 50) {
            engine.build(&flows, &linear.places());
        }
        let mut packed = |_| {
            let shape = shapes[random.below(3)];
            PackedKey::new(&key(&mut random, fields), shape)
        };
        let keys: Vec<PackedKey> = (0..9).map(&mut packed).collect();
        check_burst(&flows, &linear, &mut engine, &keys);
        let filter = matching(&mut random, fields);
        assert_eq!(linear.contained(&flows, &filter), tuple.contained(&flows, &filter));
        for _ in 0..4 {
            check_key(&flows, &linear, &tuple, &key(&mut random, fields), &mut random);
        }
    }
    let mut places = [linear.places(), tuple.places()];
    places.iter_mut().for_each(|places| places.sort_unstable());
    assert_eq!(places[0], places[1]);
}

/// Both find the same flow, and no bit outside the examined ones decides.
fn check_key(flows: &Flows, linear: &Index, tuple: &Index, key: &FlowKey, random: &mut Random) {
    let found = linear.find(flows, key, None);
    for index in [linear, tuple] {
        let mut examined = [0; FLOW_WORDS];
        assert_eq!(index.find(flows, key, Some(&mut examined)), found);
        let mut other = *key;
        for word in 0..FLOW_WORDS {
            other[word] ^= random.draw() as u32 & !examined[word];
        }
        assert_eq!(index.find(flows, &other, None), found);
    }
}

#[test]
fn all_lookups_agree_under_changes() {
    for fields in FIELDS {
        (0..12).for_each(|seed| check(seed, fields, &TableEngines::default()));
    }
}

/// `turbo` that refuses every fifth change, as an engine without memory for it may.
struct Refusing(Box<dyn Classifier>, AtomicU32);

impl Refusing {
    fn check(&self) -> Result<(), ClassifyError> {
        match self.1.fetch_add(1, Ordering::Relaxed) % 5 {
            4 => Err(ClassifyError::memory_bound(2, 1, Vec::new())),
            _ => Ok(()),
        }
    }
}

impl Classifier for Refusing {
    fn engine(&self) -> Engine {
        self.0.engine()
    }

    fn schema(&self) -> &'static Schema {
        self.0.schema()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        self.0.classify(keys, out);
    }

    fn insert(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        self.check().and_then(|()| self.0.insert(rule))
    }

    fn remove(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        self.check().and_then(|()| self.0.remove(rule))
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn details(&self) -> Vec<Detail> {
        self.0.details()
    }
}

#[test]
fn an_engine_may_refuse_changes() {
    let build = |ruleset: &Ruleset, options: &BuildOptions| {
        let turbo = build(Engine::Turbo, ruleset, options)?;
        Ok(Box::new(Refusing(turbo, AtomicU32::new(0))) as Box<dyn Classifier>)
    };
    let engines = TableEngines::new(Arc::new(build), 64);
    for fields in FIELDS {
        (0..4).for_each(|seed| check(seed, fields, &engines));
    }
}

/// The bits that a lookup of `key` notes in a table with these matches, of falling priorities.
fn examined(matches: &[FlowMatch], key: &FlowKey) -> FlowKey {
    let mut flows = Flows::default();
    let mut index = Index::new(Lookup::TupleSpace, &Arc::new(FlowHash::new(0)));
    for (number, matching) in matches.iter().enumerate() {
        let place = flows.insert(flow(0, 100 - number as u16, *matching, Vec::new()), 0);
        index.insert(&flows, place);
    }
    let mut examined = [0; FLOW_WORDS];
    index.find(&flows, key, Some(&mut examined));
    examined
}

/// Mask bits of a field in examined bits.
fn bits(examined: &FlowKey, name: &str) -> u128 {
    by_name(name).range.read(examined)
}

fn demands(demands: &[(&str, u128, u128)]) -> FlowMatch {
    let mut matching = FlowMatch::any();
    for &(name, value, mask) in demands {
        matching.set(by_name(name), value, mask);
    }
    matching
}

fn packet(fields: &[(&str, u128)]) -> FlowKey {
    let mut key = [0; FLOW_WORDS];
    for &(name, value) in fields {
        by_name(name).range.write(&mut key, value);
    }
    key
}

const ALL: u128 = u128::MAX;

#[test]
fn prefixes_are_examined_as_far_as_they_differ() {
    let route = |address, len: u32| {
        let mask = !(u128::from(u32::MAX.checked_shr(len).unwrap_or(0)));
        demands(&[("eth_type", 0x800, ALL), ("ip_dst", address, mask)])
    };
    let routes = [route(0x1402_1500, 24), route(0x0a00_0000, 8), route(0, 1)];
    let to = |address| packet(&[("eth_type", 0x800), ("ip_dst", address)]);
    // 20.2.22.9 leaves the path to 20.2.21.0/24 at its 23rd bit.
    let found = examined(&routes, &to(0x1402_1609));
    assert_eq!(bits(&found, "ip_dst"), 0xffff_fe00);
    // 192.0.0.1 differs from all in its first bit.
    assert_eq!(bits(&examined(&routes, &to(0xc000_0001)), "ip_dst"), 0x8000_0000);
    // What wins is examined whole.
    assert_eq!(bits(&examined(&routes, &to(0x1402_1505)), "ip_dst"), 0xffff_ff00);
}

#[test]
fn ports_are_examined_as_far_as_they_differ() {
    let tcp = |port, mask| {
        let proto = ("nw_proto", 6, ALL);
        demands(&[("eth_type", 0x800, ALL), proto, ("tcp_dst", port, mask)])
    };
    let key = |port| packet(&[("eth_type", 0x800), ("nw_proto", 6), ("tcp_dst", port)]);
    let table = [tcp(80, ALL)];
    // 0x8050 differs from 80 in the first bit.
    assert_eq!(bits(&examined(&table, &key(0x8050)), "tcp_dst"), 0x8000);
    assert_eq!(bits(&examined(&table, &key(81)), "tcp_dst"), 0xffff);
    assert_eq!(bits(&examined(&table, &key(80)), "tcp_dst"), 0xffff);
}

#[test]
fn later_stages_are_not_examined_in_vain() {
    let acl = demands(&[
        ("in_port", 1, ALL),
        ("eth_type", 0x800, ALL),
        ("nw_proto", 6, ALL),
        ("ip_src", 7, 0xff),
        ("tcp_src", 0x1234, ALL),
    ]);
    let other = demands(&[("eth_dst", 5, ALL)]);
    let table = [acl, other];
    // Another port: nothing of the first flow but the port; the second is examined whole.
    let key = packet(&[("in_port", 2), ("eth_dst", 5), ("eth_type", 0x800)]);
    let found = examined(&table, &key);
    let names = ["in_port", "eth_type", "nw_proto", "ip_src", "tcp_src"];
    assert_eq!(names.map(|name| bits(&found, name) != 0), [true, false, false, false, false]);
    // Another EtherType; another address.
    let key = packet(&[("in_port", 1), ("eth_dst", 5), ("eth_type", 0x806)]);
    let found = names.map(|name| bits(&examined(&table, &key), name) != 0);
    assert_eq!(found, [true, true, false, false, false]);
    let key = packet(&[("in_port", 1), ("eth_type", 0x800), ("nw_proto", 6), ("ip_src", 8)]);
    let found = names.map(|name| bits(&examined(&table, &key), name) != 0);
    assert_eq!(found, [true, true, true, true, false]);
}
