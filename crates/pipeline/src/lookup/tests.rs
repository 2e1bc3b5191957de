//! The fast lookup against the reference.

use super::*;
use crate::testing::{by_name, flow};
use warpswitch_testkit::random::Random;

/// A random match of few fields and values.
fn matching(random: &mut Random) -> FlowMatch {
    let mut matching = FlowMatch::any();
    for name in ["in_port", "reg0", "eth_dst", "ipv6_src"] {
        let mask = [0, 0, 1, 3, u128::MAX][random.below(5)];
        matching.set(by_name(name), random.below(4) as u128, mask);
    }
    matching
}

fn key(random: &mut Random) -> FlowKey {
    let mut key = [0; FLOW_WORDS];
    for name in ["in_port", "reg0", "eth_dst", "ipv6_src"] {
        by_name(name).range.write(&mut key, random.below(4) as u128);
    }
    key
}

/// Flows in both indices, under random changes.
fn check(seed: u64) {
    let mut random = Random::new(seed);
    let mut flows = Flows::default();
    let hash = Arc::new(FlowHash::new(0));
    let [mut linear, mut tuple] =
        [Lookup::Linear, Lookup::TupleSpace].map(|lookup| Index::new(lookup, &hash));
    for _ in 0..400 {
        let new = flow(0, random.below(6) as u16, matching(&mut random), Vec::new());
        let same = linear.find_same(&flows, &new);
        assert_eq!(same, tuple.find_same(&flows, &new));
        let gone = if random.chance(1, 3) { linear.places().first().copied() } else { None };
        if let Some(place) = same.or(gone) {
            linear.remove(&flows, place);
            tuple.remove(&flows, place);
            flows.remove(place);
        }
        if random.chance(5, 6) && linear.find_same(&flows, &new).is_none() {
            let place = flows.insert(new.clone(), 0);
            linear.insert(&flows, place);
            tuple.insert(&flows, place);
        }
        let filter = matching(&mut random);
        assert_eq!(linear.contained(&flows, &filter), tuple.contained(&flows, &filter));
        for _ in 0..4 {
            check_key(&flows, &linear, &tuple, &key(&mut random), &mut random);
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
fn both_lookups_agree_under_changes() {
    (0..20).for_each(check);
}
