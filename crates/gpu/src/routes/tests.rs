//! Against the plain reference: whatever a table holds, whatever became of it, whatever fails.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use warpswitch_routes::{ErrorKind as RouteErrorKind, RouteTable};

use super::*;
use crate::deadline::Deadline;
use crate::error::{ErrorKind, GpuError};
use crate::host::{FaultPlan, HostPool};
use crate::testing::readers_see_whole_versions;
use crate::work::Lookup;

fn pool(threads: usize) -> Arc<Device> {
    Device::from_pool(HostPool::new(threads, &mut |worker| _ = thread::spawn(worker)))
}

/// Numbers that are the same everywhere.
struct Seeds(u64);

impl Seeds {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end
    }

    /// A prefix among few neighbourhoods, so that many lie in others and blocks fill up.
    fn prefix<A: Address>(&mut self) -> Prefix<A> {
        let len = match self.below(20) {
            0 => self.below(17),
            1..=3 => usize::from(A::BITS) - self.below(9),
            _ => 16 + self.below(usize::from(A::BITS.min(64)) - 15),
        };
        let (top, low) = (self.below(3) as u128, self.next() as u128);
        // Bytes of few values first, then of any.
        let few = (0..16).fold(0u128, |bits, _| (bits << 8) | (self.below(2) as u128 * 0x81));
        let spread = if self.below(2) == 0 { low << 64 | low } else { 0 };
        let at = 24 + self.below(16);
        let left = (top << 120 | few << 8 >> 8) ^ (spread >> at);
        Prefix::containing(A::from_left(left), len as u8)
    }

    /// Few hops, so that neighbours often agree; each of the largest now and then.
    fn hop(&mut self) -> NextHop {
        NextHop([0, 1, 2, 3, 254, 255, 256, 65_534][self.below(8)])
    }
}

/// Addresses at both ends of prefixes, beside them, and anywhere.
fn addresses<A: Address>(prefixes: &[Prefix<A>], seeds: &mut Seeds) -> Vec<A> {
    let mut addrs = vec![A::from_left(0), A::from_left(u128::MAX)];
    for prefix in prefixes {
        let one = 1u128 << (128 - u32::from(A::BITS));
        let first = prefix.addr().to_left();
        let last = first | u128::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0);
        let ends = [first, last, first.wrapping_sub(one), last.wrapping_add(one)];
        addrs.extend(ends.map(A::from_left));
        addrs.push(A::from_left(first | u128::from(seeds.next()) >> 16));
    }
    addrs.extend((0..100).map(|_| A::from_left(u128::from(seeds.next()) << 64)));
    addrs
}

fn check<A: Address>(routes: &LiveRoutes<A>, table: &RouteTable<A>, addrs: &[A], what: &str) {
    let mut out = vec![NextHop(7); addrs.len() + 1];
    routes.lookup_batch(addrs, &mut out);
    for (&addr, &hop) in addrs.iter().zip(&out) {
        assert_eq!(hop, table.lookup(addr), "{what}: {}", addr.to_std());
    }
    assert_eq!((out[addrs.len()], routes.len()), (NextHop(7), table.len()), "{what}");
}

/// A table that is built, then changed in groups; equal to the reference after each.
fn changes_equal_the_reference<A: Address>(seed: u64, routes: usize, groups: usize) {
    let mut seeds = Seeds(seed);
    let prefixes: Vec<Prefix<A>> = (0..routes + 60).map(|_| seeds.prefix()).collect();
    let addrs = addresses(&prefixes, &mut seeds);
    let given: Vec<_> = prefixes[..routes].iter().map(|&prefix| (prefix, seeds.hop())).collect();
    let mut table: RouteTable<A> = given.iter().copied().collect();
    let live = LiveRoutes::build(&pool(2), given, usize::MAX).unwrap();
    check(&live, &table, &addrs, "as built");
    for group in 0..groups {
        let mut list = Vec::new();
        for _ in 0..1 + seeds.below(30) {
            let (prefix, hop) = (prefixes[seeds.below(prefixes.len())], seeds.hop());
            if seeds.below(2) == 0 {
                table.remove(prefix);
                list.push(RouteChange::Remove(prefix));
            } else {
                table.insert(prefix, hop).unwrap();
                list.push(RouteChange::Insert(prefix, hop));
            }
        }
        live.change(&list).unwrap();
        check(&live, &table, &addrs, &format!("seed {seed}, group {group}"));
        let prefix = prefixes[seeds.below(prefixes.len())];
        assert_eq!(live.get(prefix), table.get(prefix), "seed {seed}, group {group}");
    }
    // R2: what changes led to is what a build of the same routes has, in other places.
    let built = LiveRoutes::build(&pool(1), table.iter(), usize::MAX).unwrap();
    assert_eq!(live.stats().lookup_bytes, built.stats().lookup_bytes, "seed {seed}");
    for (prefix, _) in table.iter() {
        live.remove(prefix).unwrap();
    }
    check(&live, &RouteTable::new(), &addrs, "emptied");
    assert_eq!(live.stats().lookup_bytes, 4 << 16, "nothing is left behind");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn ipv4_equals_the_reference(seed: u64, routes in 0usize..400) {
        changes_equal_the_reference::<u32>(seed, routes, 12);
    }

    #[test]
    fn ipv6_equals_the_reference(seed: u64, routes in 0usize..400) {
        changes_equal_the_reference::<u128>(seed, routes, 12);
    }
}

#[test]
fn every_number_of_runs_has_its_block() {
    for runs in 1..=40u32 {
        // Ends that are no neighbours make two runs each, the last value one.
        let ends: Vec<u32> = (0..runs / 2).map(|n| n * 6).chain([255]).collect();
        let routes = ends.iter().map(|&end| {
            (Prefix::new(0x0a01_0000 | end << 8, 24).unwrap(), NextHop(end as u16 + 1))
        });
        let table: RouteTable<u32> = routes.collect();
        let live = LiveRoutes::build(&pool(1), table.iter(), usize::MAX).unwrap();
        let addrs: Vec<u32> = (0..256).map(|byte| 0x0a01_0005 | byte << 8).collect();
        check(&live, &table, &addrs, &format!("{runs} ends"));
        // One more below: a leaf becomes an inner block.
        let (below, hop) = (Prefix::new(0x0a01_ff05, 32).unwrap(), NextHop(9));
        let mut table = table;
        table.insert(below, hop).unwrap();
        live.insert(below, hop).unwrap();
        check(&live, &table, &addrs, &format!("{runs} ends and one below"));
    }
}

#[test]
fn a_change_that_passes_the_bound_changes_nothing() {
    let mut seeds = Seeds(5);
    let prefixes: Vec<Prefix<u128>> = (0..2000).map(|_| seeds.prefix()).collect();
    let addrs = addresses(&prefixes[..200], &mut seeds);
    let first: Vec<_> = prefixes[..200].iter().map(|&prefix| (prefix, seeds.hop())).collect();
    let open = LiveRoutes::build(&pool(1), first.clone(), usize::MAX).unwrap();
    let bytes_max = open.stats().bytes + (64 << 10);
    let error = LiveRoutes::build(&pool(1), first.clone(), bytes_max / 3).unwrap_err();
    assert_eq!(error.kind(), RouteErrorKind::MemoryBound);
    let live = LiveRoutes::build(&pool(1), first.clone(), bytes_max).unwrap();
    let mut table: RouteTable<u128> = first.into_iter().collect();
    let mut refused = 0;
    for &prefix in &prefixes[200..] {
        let hop = seeds.hop();
        match live.insert(prefix, hop) {
            Ok(()) => _ = table.insert(prefix, hop).unwrap(),
            Err(error) => {
                assert_eq!(error.kind(), RouteErrorKind::MemoryBound);
                refused += 1;
                if refused == 20 {
                    break;
                }
            }
        }
        assert!(live.stats().bytes <= bytes_max, "{:?} of {bytes_max}", live.stats());
    }
    assert_eq!(refused, 20);
    check(&live, &table, &addrs, "after what was refused");
    let none = live.change(&[
        RouteChange::Remove(prefixes[0]),
        RouteChange::Insert(prefixes[1], NextHop::NONE),
        RouteChange::Remove(prefixes[2]),
    ]);
    let none = none.unwrap_err();
    assert_eq!((none.made, none.error.kind()), (1, RouteErrorKind::BadNextHop));
    table.remove(prefixes[0]);
    check(&live, &table, &addrs, "the first of three");
}

/// Batches that run meanwhile see the routes as they were between two groups.
#[test]
fn batches_see_whole_groups() {
    let mut seeds = Seeds(8);
    let prefixes: Vec<Prefix<u32>> = (0..300).map(|_| seeds.prefix()).collect();
    let addrs = addresses(&prefixes[..60], &mut seeds);
    let answers =
        |table: &RouteTable<u32>| addrs.iter().map(|&addr| table.lookup(addr)).collect::<Vec<_>>();
    let mut table = RouteTable::new();
    let live = LiveRoutes::build(&pool(2), table.iter(), usize::MAX).unwrap();
    let (mut groups, mut versions) = (Vec::new(), vec![answers(&table)]);
    for _ in 0..300 {
        let group: Vec<_> = (0..8).map(|_| (prefixes[seeds.below(300)], seeds.hop())).collect();
        for &(prefix, hop) in &group {
            table.insert(prefix, hop).unwrap();
        }
        groups.push(group.iter().map(|&(p, hop)| RouteChange::Insert(p, hop)).collect::<Vec<_>>());
        versions.push(answers(&table));
    }
    let look_up = || {
        let mut found = vec![NextHop(7); addrs.len()];
        live.lookup_batch(&addrs, &mut found);
        found
    };
    let change = |number: usize| live.change(&groups[number]).unwrap();
    readers_see_whole_versions(&versions, look_up, change);
    let stats = live.stats();
    assert!(stats.whole_copies < 20 && stats.patched_bytes > 0, "{stats:?}");
}

/// The time since the first look at it.
fn now() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Passes `addrs` in batches of many lengths through a ring; the hops in order.
fn through_ring(device: &Device, live: &LiveRoutes<u32>, addrs: &[u32]) -> Vec<NextHop> {
    let mut ring: Ring<RouteImage<u32>> =
        Ring::new(device, RouteImage::<u32>::FORM, 64, 5).unwrap();
    let (mut sent, mut got) = (0, Vec::new());
    let take = |ring: &mut Ring<RouteImage<u32>>, got: &mut Vec<NextHop>| {
        let mut out = vec![NextHop(7); ring.oldest_len().unwrap()];
        ring.take(&mut out);
        got.extend(out);
    };
    for number in 0.. {
        let len = (number * 37 % 64 + 1).min(addrs.len() - sent);
        if len == 0 {
            break;
        }
        if ring.keys_mut().is_none() {
            take(&mut ring, &mut got);
        }
        RouteImage::write_addresses(&addrs[sent..sent + len], ring.keys_mut().unwrap());
        ring.submit(&live.current(), len);
        sent += len;
    }
    while ring.oldest_len().is_some() {
        take(&mut ring, &mut got);
    }
    got
}

/// Whatever a device does, each batch gets its hops, once and in order, and changes go on.
#[test]
fn no_fault_costs_a_hop_or_its_place() {
    let mut seeds = Seeds(3);
    let prefixes: Vec<Prefix<u32>> = (0..400).map(|_| seeds.prefix()).collect();
    let addrs = addresses(&prefixes, &mut seeds);
    let table: RouteTable<u32> = prefixes.iter().map(|&prefix| (prefix, seeds.hop())).collect();
    let want: Vec<NextHop> = addrs.iter().map(|&addr| table.lookup(addr)).collect();
    let (none, delay_max) = (FaultPlan::default(), Duration::from_micros(400));
    let slow = FaultPlan { delay_chance: 0.5, delay_max, ..none };
    let cases = [
        (None, slow, None),
        (Some(ErrorKind::Call), FaultPlan { error_chance: 0.1, ..slow }, None),
        (Some(ErrorKind::Hung), FaultPlan { hang_chance: 0.1, ..slow }, Some(10)),
    ];
    for (seed, (kind, plan, slack_ms)) in (0..4).flat_map(|seed| cases.map(|case| (seed, case))) {
        let plan = FaultPlan { seed, ..plan };
        let start = &mut |worker| _ = thread::spawn(worker);
        let device = Device::from_pool(HostPool::with_faults(2, Some(plan), start));
        if let Some(slack) = slack_ms.map(Duration::from_millis) {
            device.set_deadline(Deadline { slack, now });
        }
        let live = LiveRoutes::build(&device, table.iter(), usize::MAX).unwrap();
        assert_eq!(through_ring(&device, &live, &addrs), want, "seed {seed}, {plan:?}");
        assert_eq!(device.retired().map(GpuError::kind), kind, "seed {seed}, {plan:?}");
        let mut table = table.clone();
        for &prefix in &prefixes[..5] {
            table.remove(prefix);
            live.remove(prefix).unwrap();
            check(&live, &table, &addrs, "a change after it");
        }
    }
}

#[test]
fn two_hops_share_a_word() {
    let routes = [(Prefix::new(0x0a00_0000u32, 8).unwrap(), NextHop(0x1234))];
    let live = LiveRoutes::build(&pool(1), routes, usize::MAX).unwrap();
    let image = live.current();
    let mut out = [5; 3];
    image.image().answer(&[0x0a00_0001, 0, 0x0aff_0000, 0x0a00_0000, 1], &mut out);
    assert_eq!(out, [0xffff_1234, 0x1234_1234, 0xffff]);
}
