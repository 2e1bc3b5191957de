//! Whole headers on a pool of threads: every verdict, under changes, and when the device fails.

mod support {
    pub mod header_cases;
    pub mod route_cases;
}

use std::sync::Arc;
use std::thread;

use support::{header_cases, route_cases};
use warpswitch_gpu::Device;
use warpswitch_gpu::host::{FaultPlan, HostPool};
use warpswitch_gpu::routes::{LiveHeaders, Slice};
use warpswitch_routes::{NextHop, Prefix, RouteChange};

fn pool(faults: FaultPlan) -> Arc<Device> {
    let start = &mut |worker| _ = thread::spawn(worker);
    Device::from_pool(HostPool::with_faults(2, Some(faults), start))
}

fn forward(live: &LiveHeaders, packets: &[Vec<u8>]) -> Vec<Slice> {
    let slices: Vec<Slice> = packets.iter().map(|packet| Slice::new(packet)).collect();
    let mut out = vec![Slice::new(&[]); slices.len()];
    live.forward_batch(&slices, &mut out);
    out
}

#[test]
fn headers_equal_the_reference_while_routes_change() {
    let mut table = header_cases::table(2000, 1);
    let live =
        LiveHeaders::build_for_headers(&pool(FaultPlan::default()), table.iter(), usize::MAX)
            .unwrap();
    let mut seeds = route_cases::Seeds(2);
    for round in 0..8 {
        let packets = header_cases::packets(&table, 4001, round);
        let counts = header_cases::check(&forward(&live, &packets), &packets, &table, "");
        assert!(counts.iter().all(|&count| count > 20), "round {round}: {counts:?}");
        let prefix: Prefix<u32> = route_cases::prefix(&mut seeds);
        let prefix = Prefix::containing(prefix.addr(), prefix.len().max(13));
        table.insert(prefix, NextHop(round as u16)).unwrap();
        live.change(&[RouteChange::Insert(prefix, NextHop(round as u16))]).unwrap();
    }
}

#[test]
fn a_device_that_fails_costs_no_packet() {
    let table = header_cases::table(500, 3);
    let plan = FaultPlan { error_chance: 0.2, first_batch: 2, ..FaultPlan::default() };
    let device = pool(plan);
    let live = LiveHeaders::build_for_headers(&device, table.iter(), usize::MAX).unwrap();
    for round in 0..10 {
        let packets = header_cases::packets(&table, 3000, round);
        header_cases::check(&forward(&live, &packets), &packets, &table, "a device that fails");
    }
    assert!(device.retired().is_some());
}
