//! A sender and a sink over links in memory, with simulated time and faults between them.

use std::net::Ipv4Addr;

use warpswitch_io::MemoryPort;
use warpswitch_packet::{Pool, RxPort, TxPort};

use super::frames::{FlowSpec, FrameSet};
use super::rate::Rate;
use super::schedule::Schedule;
use super::sender::{Limit, Sender, Step};
use super::session::{Session, Trial};
use super::sink::Sink;
use super::sizes::FrameSize;
use super::station::{Addresses, Station};
use super::tracker::Tracker;
use warpswitch_wire::ethernet::MacAddr;

const RUN: u16 = 77;
const MS: u64 = 1_000_000;

/// A device between sender and sink: maps the frames received in a step to the frames forwarded.
type Fault = fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>;

fn frames(flows: u32) -> FrameSet {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 1, 2));
    FrameSet::generate(&FlowSpec { size: FrameSize::Fixed(64), flows, src, dst })
}

/// Sends 1,000 frames of `flows` flows, in bursts of 100 every 10 ms, through `fault`.
/// Checks frames received, lost, duplicates and reordered. Each frame takes 1 us.
fn check(flows: u32, first_sequence: u32, fault: Fault, expected: [u64; 4]) {
    let (mut tx, mut middle) = MemoryPort::pair(4096).unwrap();
    let (mut forward, mut rx) = MemoryPort::pair(4096).unwrap();
    let schedule = Schedule::new(Rate::Packets(10_000), 100, 0);
    let limit = Limit { count: Some(1_000), duration_ns: None };
    let mut sender = Sender::new(frames(flows), schedule, limit, RUN, first_sequence);
    let mut sink = Sink::new(Some(RUN), Tracker::new(flows, Some(first_sequence)));
    let mut pool = Pool::new();
    for step in 1..=11 {
        let mut now_ns = step * 10 * MS - 1;
        while sender.step(&mut || now_ns, &mut tx) == Step::Sent {}
        let mut batch = pool.batch();
        middle.receive(&mut pool, &mut batch, 4096);
        let received = batch.iter().map(|packet| packet.data().to_vec()).collect();
        pool.recycle_batch(batch);
        for frame in fault(received) {
            let packets = [pool.packet_of(&frame)];
            forward.send(&packets);
        }
        now_ns += 1_000;
        while sink.step(&mut || now_ns, &mut rx, |_| panic!("no other frames")) > 0 {}
    }
    assert_eq!(sender.step(&mut || 120 * MS, &mut tx), Step::Done);
    let sent: u64 = sender.sent_by_flow().iter().sum();
    assert_eq!((sent, sender.counts().frames), (1_000, 1_000));
    let counts: Vec<_> = sink.tracker().counts().collect();
    let sum = |of: fn(&super::tracker::FlowCounts) -> u64| counts.iter().map(of).sum::<u64>();
    let lost = sent - sum(|flow| flow.received);
    let found = [sum(|f| f.received), lost, sum(|f| f.duplicates), sum(|f| f.reordered)];
    assert_eq!(found, expected);
    let latency = sink.latency().unwrap();
    assert_eq!((latency.min_us, latency.p50_us, latency.max_us), (1.0, 1.0, 1.0));
}

#[test]
fn all_frames_arrive_once_and_in_order() {
    check(1, 0, |frames| frames, [1_000, 0, 0, 0]);
    check(7, 0, |frames| frames, [1_000, 0, 0, 0]);
}

#[test]
fn sequence_numbers_wrap() {
    check(1, u32::MAX - 500, |frames| frames, [1_000, 0, 0, 0]);
    check(3, u32::MAX - 1, |frames| frames, [1_000, 0, 0, 0]);
}

#[test]
fn detects_loss() {
    let drop_one_of_ten: Fault = |frames| {
        let kept = frames.into_iter().enumerate().filter(|(at, _)| at % 10 != 4);
        kept.map(|(_, frame)| frame).collect()
    };
    check(1, 0, drop_one_of_ten, [900, 100, 0, 0]);
    check(3, u32::MAX - 100, drop_one_of_ten, [900, 100, 0, 0]);
    let drop_the_last: Fault = |mut frames| {
        frames.pop();
        frames
    };
    check(1, 0, drop_the_last, [990, 10, 0, 0]);
}

#[test]
fn detects_duplicates() {
    let repeat_five: Fault = |frames| {
        let repeated = frames.iter().take(5);
        frames.iter().chain(repeated).cloned().collect()
    };
    check(1, 0, repeat_five, [1_000, 0, 50, 0]);
}

#[test]
fn detects_reordering() {
    let swap: Fault = |mut frames| {
        if frames.len() > 9 {
            frames.swap(8, 9);
        }
        frames
    };
    check(1, 0, swap, [1_000, 0, 0, 10]);
    // Neighbours belong to different flows: the order within each is kept.
    check(2, 0, swap, [1_000, 0, 0, 0]);
}

#[test]
fn sends_the_exact_count_of_the_rate_however_late_some_steps_are() {
    let (mut tx, _rx) = MemoryPort::pair(10_000).unwrap();
    let schedule = Schedule::new(Rate::Packets(1_234), 1, 0);
    let limit = Limit { count: None, duration_ns: Some(5_000 * MS) };
    let mut sender = Sender::new(frames(1), schedule, limit, RUN, 0);
    let (mut now_ns, mut steps) = (0, 0u64);
    loop {
        match sender.step(&mut || now_ns, &mut tx) {
            Step::Done => break,
            Step::Sent => {}
            Step::Wait(until_ns) if until_ns > now_ns => {
                // Up to 40 ms late at times, but not at the end.
                steps += 1;
                let is_late = steps.is_multiple_of(100) && until_ns < 4_900 * MS;
                let late_ns_max = if is_late { 40 * MS } else { MS / 10 };
                now_ns = until_ns + (steps * 7_919_777) % late_ns_max;
            }
            step => panic!("{step:?}"),
        }
    }
    assert_eq!(sender.counts().frames, 5 * 1_234);
}

#[test]
fn stops_when_it_is_too_late_to_keep_the_rate() {
    let (mut tx, _rx) = MemoryPort::pair(10).unwrap();
    let schedule = Schedule::new(Rate::Packets(1_000), 100, 0);
    let limit = Limit { count: None, duration_ns: Some(1_000 * MS) };
    let mut sender = Sender::new(frames(1), schedule, limit, RUN, 0);
    assert_eq!(sender.step(&mut || 500 * MS, &mut tx), Step::Sent);
    assert_eq!(sender.step(&mut || 500 * MS, &mut tx), Step::Full);
    assert_eq!(sender.step(&mut || 1_100 * MS, &mut tx), Step::Done);
    // Frames that were prepared and did not fit the port are not sent.
    assert_eq!((sender.counts().frames, sender.sent_by_flow()), (10, vec![10]));
}

#[test]
fn frames_of_another_run_are_foreign() {
    let (mut tx, mut rx) = MemoryPort::pair(100).unwrap();
    let schedule = Schedule::new(Rate::Max, 1, 0);
    let limit = Limit { count: Some(10), duration_ns: None };
    let mut sender = Sender::new(frames(1), schedule, limit, RUN, 0);
    assert_eq!(sender.step(&mut || 1, &mut tx), Step::Sent);
    let mut sink = Sink::new(Some(RUN + 1), Tracker::new(1, Some(0)));
    sink.step(&mut || 2, &mut rx, |_| panic!("they have probes"));
    assert_eq!((sink.counts().frames, sink.counts().foreign), (0, 10));
    assert!(sink.latency().is_none());
}

/// A station with a port of a link in memory.
fn station(port: &MemoryPort, address: Ipv4Addr) -> Station {
    let mac = MacAddr([2, 0, 0, 0, 0, address.octets()[3]]);
    Station::new(Box::new(port.clone()), Box::new(port.clone()), mac, Addresses::Range(address, 1))
}

#[test]
fn a_session_learns_sends_and_checks() {
    let (a, b) = MemoryPort::pair(4096).unwrap();
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut session = Session::new(RUN, || false);
    session.tx = Some((station(&a, src), Box::new(a.clone())));
    session.rx = Some(station(&b, dst));
    assert_eq!(session.resolve(dst, src), Some(MacAddr([2, 0, 0, 0, 0, 2])));
    assert!(session.learn(&frames(1)));
    let limit = Limit { count: Some(3_000), duration_ns: None };
    let wait = std::time::Duration::from_secs(20);
    let trial = Trial { rate: Rate::Max, burst: 1, limit, wait };
    for _ in 0..2 {
        let result = session.run(&trial, frames(5), &mut |_, _| {});
        assert!(result.is_clean(), "{result:?}");
        assert_eq!((result.sent.frames, result.flows.received), (3_000, 3_000));
    }
}
