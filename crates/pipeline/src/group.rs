//! Groups: buckets, liveness, and the choice of a bucket by a hash (specification 1.3.5, 5.6).

use std::collections::BTreeMap;

use warpswitch_rules::openflow::{Bucket, FLOW_WORDS, FlowAction, FlowKey, Group, port};

use crate::ports::Ports;

/// Groups that are looked at for the liveness of one bucket.
const WATCHED_MAX: usize = 16;

/// What a group has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStats {
    /// The group.
    pub group: Group,
    /// Flows and groups that refer to it.
    pub references: u32,
    /// Packets that it processed.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds since it was added.
    pub age_ns: u64,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

/// Packets and bytes.
pub(crate) type Count = (u64, u64);

/// What a group has counted, beside it so that a packet can count while it reads the group.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupCounters {
    pub(crate) created_ns: u64,
    pub(crate) total: Count,
    pub(crate) buckets: Vec<Count>,
}

/// Groups by number.
pub(crate) type Groups = BTreeMap<u32, Group>;

/// Their counters.
pub(crate) type GroupCounts = BTreeMap<u32, GroupCounters>;

/// The words of a key that the choice of a bucket depends on, and their bits: Ethernet and IP
/// addresses, protocol and ports.
const HASHED: [(usize, u32); 13] = [
    (25, u32::MAX),
    (26, u32::MAX),
    (27, u32::MAX),
    (31, u32::MAX),
    (32, u32::MAX),
    (33, u32::MAX),
    (34, u32::MAX),
    (35, u32::MAX),
    (36, u32::MAX),
    (37, u32::MAX),
    (38, u32::MAX),
    (39, u32::MAX),
    (40, 0xff00_0000),
];

/// The bits that [`select`] looks at.
pub(crate) fn selected_bits() -> FlowKey {
    let mut bits = [0; FLOW_WORDS];
    for (word, mask) in HASHED {
        bits[word] = mask;
    }
    bits
}

/// The place of the bucket that a packet uses: packets of one flow use the same one, flows spread
/// over the live buckets in proportion to the weights.
///
/// Buckets without weight get packets only if no live bucket has one.
pub(crate) fn select(group: &Group, groups: &Groups, ports: &Ports, key: &FlowKey) -> Option<u32> {
    let live = || {
        let buckets = group.buckets.iter().enumerate();
        buckets.filter(|(_, bucket)| is_live(bucket, groups, ports))
    };
    let total: u64 = live().map(|(_, bucket)| u64::from(bucket.weight)).sum();
    let weight = |bucket: &Bucket| if total == 0 { 1 } else { u64::from(bucket.weight) };
    let end = if total == 0 { live().count() as u64 } else { total };
    let mut left = ((u128::from(hash(key)) * u128::from(end)) >> 64) as u64;
    for (place, bucket) in live() {
        match left.checked_sub(weight(bucket)) {
            Some(rest) => left = rest,
            None => return Some(place as u32),
        }
    }
    None
}

fn hash(key: &FlowKey) -> u64 {
    let words = HASHED.iter().map(|&(word, mask)| u64::from(key[word] & mask));
    let mixed = words.fold(0x243f_6a88_85a3_08d3, |hash: u64, word| {
        let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
        ((product >> 64) as u64 ^ product as u64).rotate_left(23)
    });
    (mixed ^ mixed >> 32).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// The place of the first live bucket.
pub(crate) fn first_live(group: &Group, groups: &Groups, ports: &Ports) -> Option<u32> {
    let is_live = |bucket: &Bucket| is_live(bucket, groups, ports);
    group.buckets.iter().position(is_live).map(|place| place as u32)
}

/// Whether what the bucket watches is live; a bucket that watches nothing is.
///
/// Each group is looked at once, however many buckets watch it, and at most [`WATCHED_MAX`] groups
/// in all: what lies beyond counts as not live.
fn is_live(bucket: &Bucket, groups: &Groups, ports: &Ports) -> bool {
    is_live_beside(bucket, groups, ports, &mut Vec::new())
}

/// The same, where the groups in `seen` are known not to be live, or are being looked at.
fn is_live_beside(bucket: &Bucket, groups: &Groups, ports: &Ports, seen: &mut Vec<u32>) -> bool {
    let watches_port = bucket.watch_port != port::ANY;
    let watches_group = bucket.watch_group != port::GROUP_ANY;
    if !watches_port && !watches_group {
        return true;
    }
    if watches_port && ports.get(&bucket.watch_port).is_some_and(|port| port.is_live) {
        return true;
    }
    if !watches_group || seen.len() >= WATCHED_MAX || seen.contains(&bucket.watch_group) {
        return false;
    }
    seen.push(bucket.watch_group);
    let Some(group) = groups.get(&bucket.watch_group) else { return false };
    group.buckets.iter().any(|bucket| is_live_beside(bucket, groups, ports, seen))
}

/// The groups to which the actions of a group send packets.
pub(crate) fn targets(group: &Group) -> impl Iterator<Item = u32> + '_ {
    group.buckets.iter().flat_map(|bucket| &bucket.actions).filter_map(|action| match action {
        FlowAction::Group(id) => Some(*id),
        _ => None,
    })
}

/// The groups whose liveness decides on buckets of a group.
fn watched(group: &Group) -> impl Iterator<Item = u32> + '_ {
    group.buckets.iter().map(|bucket| bucket.watch_group).filter(|&id| id != port::GROUP_ANY)
}

/// Whether packets would come back to `group`, or its liveness depends on itself.
pub(crate) fn has_loop(group: &Group, groups: &Groups) -> bool {
    comes_back(group, groups, |group| targets(group).collect())
        || comes_back(group, groups, |group| watched(group).collect())
}

/// Whether `next` leads from `group` to itself.
fn comes_back(group: &Group, groups: &Groups, next: impl Fn(&Group) -> Vec<u32>) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    let mut waiting = next(group);
    while let Some(id) = waiting.pop() {
        if id == group.id {
            return true;
        }
        if seen.insert(id) {
            waiting.extend(groups.get(&id).into_iter().flat_map(&next));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::PortSettings;
    use warpswitch_rules::openflow::GroupType;
    use warpswitch_testkit::random::Random;

    fn bucket(weight: u16, watch_port: u32) -> Bucket {
        Bucket { weight, watch_port, watch_group: port::GROUP_ANY, actions: Vec::new() }
    }

    fn shares(group: &Group, ports: &Ports, mut vary: impl FnMut(&mut FlowKey, u32)) -> Vec<u32> {
        let mut counts = vec![0; group.buckets.len()];
        for turn in 0..6000 {
            let mut key = [0; FLOW_WORDS];
            vary(&mut key, turn);
            let place = select(group, &Groups::new(), ports, &key).unwrap();
            assert_eq!(select(group, &Groups::new(), ports, &key), Some(place));
            counts[place as usize] += 1;
        }
        counts
    }

    #[test]
    fn shares_follow_the_weights_whatever_varies() {
        let buckets = vec![bucket(1, port::ANY), bucket(2, port::ANY), bucket(3, port::ANY)];
        let group = Group { id: 1, kind: GroupType::Select, buckets };
        let mut random = Random::new(7);
        type Vary = Box<dyn FnMut(&mut FlowKey, u32)>;
        let mut vary: [Vary; 4] = [
            Box::new(|key, turn| key[39] = turn),
            Box::new(|key, turn| key[39] = turn << 16),
            Box::new(|key, turn| key[27] = turn),
            Box::new(move |key, _| (key[34], key[38]) = (random.draw() as u32, 9)),
        ];
        for vary in &mut vary {
            let counts = shares(&group, &Ports::new(), vary);
            for (count, expected) in counts.iter().zip([1000, 2000, 3000]) {
                assert!(count.abs_diff(expected) <= expected / 10, "{counts:?}");
            }
        }
    }

    #[test]
    fn liveness_costs_a_look_at_each_group_and_loops_of_it_are_found() {
        let watching = |id: u32, watched: u32| {
            let watch = Bucket { watch_group: watched, watch_port: port::ANY, ..bucket(1, 1) };
            Group { id, kind: GroupType::FastFailover, buckets: vec![watch; 256] }
        };
        // Sixteen groups of 256 buckets, each of which watches the next group; the last watches
        // nothing that exists.
        let groups: Groups = (1..=16).map(|id| (id, watching(id, id + 1))).collect();
        assert_eq!(first_live(&groups[&1], &groups, &Ports::new()), None);
        assert!(!has_loop(&groups[&1], &groups));
        assert!(has_loop(&watching(16, 1), &groups) && has_loop(&watching(1, 1), &groups));
    }

    #[test]
    fn buckets_that_are_not_live_get_nothing() {
        let buckets = vec![bucket(1, 1), bucket(1, 2), bucket(0, 2)];
        let group = Group { id: 1, kind: GroupType::Select, buckets };
        let down = PortSettings { is_live: false, ..PortSettings::default() };
        let ports = Ports::from([(1, down), (2, PortSettings::default())]);
        assert_eq!(shares(&group, &ports, |key, turn| key[39] = turn), [0, 6000, 0]);
        assert_eq!(first_live(&group, &Groups::new(), &ports), Some(1));
        assert_eq!(first_live(&group, &Groups::new(), &Ports::new()), None);
    }
}
