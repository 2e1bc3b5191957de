//! Tests of ports: in memory, and, as root, on veth pairs and TAP devices in a namespace.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warpswitch_packet::{
    Batch, LinkState, PacketType, Pool, PortMethod, PortQueue, PortSpec, RxPort, Transmitted,
    TxPort,
};

use super::*;

mod copies;
mod options;

/// A frame that no kernel answers, with `number` in it.
fn frame(number: u16, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    frame[14..16].copy_from_slice(&number.to_be_bytes());
    frame
}

fn packets(pool: &mut Pool, frames: impl Iterator<Item = Vec<u8>>) -> Batch {
    let mut batch = pool.batch();
    frames.for_each(|frame| batch.push(pool.packet_of(&frame)));
    batch
}

/// Sends all of `batch`.
fn send(port: &mut dyn TxPort, batch: &Batch) {
    let mut left = batch.as_slice();
    while !left.is_empty() {
        match port.send(left) {
            Transmitted::Frames(count) => left = &left[count..],
            Transmitted::Full => std::thread::yield_now(),
            Transmitted::Refused => panic!("{} frames are left", left.len()),
        }
    }
}

/// Receives until `count` frames of [`frame`] came, or nothing came for two seconds.
fn receive(port: &mut dyn RxPort, pool: &mut Pool, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while frames.len() < count {
        let mut batch = pool.batch();
        if port.receive(pool, &mut batch, 64) == 0 {
            let fd = port.wake_fd().expect("it has a descriptor");
            let timeout = Timespec::try_from(Duration::from_secs(2)).unwrap();
            if poll(&mut [PollFd::new(&*fd, PollFlags::IN)], Some(&timeout)).unwrap() == 0 {
                break;
            }
        }
        let is_ours = |bytes: &&[u8]| bytes.get(12..14) == Some(&[0x88, 0xb5]);
        frames.extend(batch.iter().map(|packet| packet.data()).filter(is_ours).map(<[u8]>::to_vec));
        pool.recycle_batch(batch);
    }
    frames
}

fn spec(device: &str, method: PortMethod) -> PortSpec {
    PortSpec { device: device.to_owned(), method, is_promiscuous: true, ..PortSpec::default() }
}

#[test]
fn memory_keeps_order_and_reports_when_it_is_full() {
    let (mut a, mut b) = MemoryPort::pair(40).unwrap();
    let mut pool = Pool::new();
    let batch = packets(&mut pool, (0..50).map(|number| frame(number, 60)));
    assert_eq!(a.send(batch.as_slice()), Transmitted::Frames(40));
    assert_eq!(a.send(&batch.as_slice()[40..]), Transmitted::Full);
    assert_eq!(receive(&mut b, &mut pool, 40), (0..40).map(|n| frame(n, 60)).collect::<Vec<_>>());
    assert_eq!(a.send(&batch.as_slice()[40..]), Transmitted::Frames(10));
    assert_eq!(receive(&mut b, &mut pool, 10).len(), 10);
    let fd = RxPort::wake_fd(&mut b).unwrap();
    let now = Timespec::default();
    assert_eq!(poll(&mut [PollFd::new(&*fd, PollFlags::IN)], Some(&now)), Ok(0), "it is empty");
    assert_eq!((RxPort::counts(&mut b).frames, TxPort::counts(&mut a).frames), (50, 50));
}

#[test]
fn missing_interfaces_are_reported_with_the_known_ones() {
    let opened = PortTable::default().open_rx(&spec("none0", PortMethod::Auto));
    let error = opened.err().expect("there is no such interface");
    assert_eq!(error.kind(), IoErrorKind::NoDevice);
    assert!(error.to_string().starts_with("none0: no such interface; known interfaces: "));
    assert!(error.to_string().contains("lo"), "{error}");
    assert!(has_interface("lo") && !has_interface("none0"));
}

#[test]
fn errors_name_the_missing_capability() {
    for (what, capability) in [
        ("open a packet socket", "cap_net_raw+"),
        ("create the TAP device", "cap_net_admin+"),
        ("attach an XDP program", "cap_bpf+"),
        (EXCLUDE, "cap_bpf+"),
    ] {
        let error = open_error("eth0", what, std::io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(error.kind(), IoErrorKind::NotPermitted);
        assert!(error.to_string().contains(capability), "{error}");
    }
}

/// Runs `test` with the veth pair `pa`, `pb` in a namespace of its own; skips it without root.
fn with_veth(test: fn()) {
    in_namespace("link add pa type veth peer name pb\nlink set pa up\nlink set pb up\n", test);
}

/// Runs `test` in a namespace of its own, set up by lines of `ip`.
fn in_namespace(setup: &'static str, test: impl FnOnce() + Send + 'static) {
    let run = move || {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
            .map_err(|error| format!("unshare: {error}"))?;
        // So that the kernel sends no frames by itself; it fails if there is no IPv6.
        _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        ip(setup)?;
        test();
        Ok::<(), String>(())
    };
    // The namespace ends with the thread.
    match std::thread::spawn(run).join() {
        Ok(Ok(())) => {}
        Ok(Err(why)) => {
            let is_needed = std::env::var_os("WARPSWITCH_NAMESPACES").is_some_and(|v| v == "1");
            assert!(!is_needed, "no namespace: {why}");
            eprintln!("SKIPPED: no namespace: {why}");
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Runs lines of `ip` in the namespace of this thread.
fn ip(lines: &str) -> Result<(), String> {
    for line in lines.lines() {
        let output = std::process::Command::new("ip").args(line.split_whitespace()).output();
        let output = output.map_err(|error| format!("ip (of iproute2): {error}"))?;
        if !output.status.success() {
            return Err(format!("ip {line}: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(())
}

/// Frames of all lengths pass in order by `method`, also more than a ring holds in sum.
fn check_frames(method: PortMethod) {
    let mut table = PortTable::default();
    let mut rx = table.open_rx(&spec("pa", method)).unwrap();
    let mut tx = table.open_tx(&spec("pb", method)).unwrap();
    let mut pool = Pool::new();
    let mut number = 0;
    for _ in 0..200 {
        let range = number..number + 64;
        let bytes = |number: u16| 60 + usize::from(number) % 1455;
        let expected: Vec<Vec<u8>> = range.clone().map(|n| frame(n, bytes(n))).collect();
        let batch = packets(&mut pool, expected.iter().cloned());
        send(&mut *tx, &batch);
        assert!(receive(&mut *rx, &mut pool, 64) == expected, "frames {range:?}");
        pool.recycle_batch(batch);
        number += 64;
    }
    assert_eq!((tx.counts().frames, rx.counts().dropped), (200 * 64, 0));
}

#[test]
fn frames_pass_a_veth_pair_in_order() {
    with_veth(|| check_frames(PortMethod::AfPacket));
    with_veth(|| check_frames(PortMethod::AfPacketBlocks));
    with_veth(|| check_frames(PortMethod::AfXdp));
}

#[test]
fn a_full_ring_drops_and_counts() {
    with_veth(|| {
        let mut table = PortTable::default();
        let mut rx = table.open_rx(&spec("pa", PortMethod::Auto)).unwrap();
        let mut tx = table.open_tx(&spec("pb", PortMethod::Auto)).unwrap();
        let mut pool = Pool::new();
        let batch = packets(&mut pool, (0..64).map(|number| frame(number, 60)));
        // The ring holds 16,384 frames.
        (0..300).for_each(|_| send(&mut *tx, &batch));
        let received = receive(&mut *rx, &mut pool, 300 * 64).len() as u64;
        let counts = rx.counts();
        assert!(counts.dropped > 1000, "{counts:?}");
        assert_eq!(received + counts.dropped, 300 * 64);
    });
}

#[test]
fn tags_that_the_kernel_strips_are_restored() {
    with_veth(|| {
        let mut table = PortTable::default();
        let mut rx = table.open_rx(&spec("pa", PortMethod::Auto)).unwrap();
        let mut tx = table.open_tx(&spec("pb", PortMethod::Auto)).unwrap();
        let mut pool = Pool::new();
        let mut tagged = frame(1, 64);
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        let batch = packets(&mut pool, [tagged.clone(), frame(2, 64)].into_iter());
        send(&mut *tx, &batch);
        let mut received = Vec::new();
        while received.len() < 2 {
            let mut batch = pool.batch();
            rx.receive(&mut pool, &mut batch, 64);
            let ours = batch.iter().filter(|packet| packet.data().starts_with(&tagged[..12]));
            received.extend(ours.map(|packet| packet.data().to_vec()));
        }
        assert_eq!(received, [tagged, frame(2, 64)]);
    });
}

/// A UDP packet from port `flow`, with `number` in it.
fn datagram(flow: u16, number: u16) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = warpswitch_wire::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..36].copy_from_slice(&flow.to_be_bytes());
    frame[36..40].copy_from_slice(&[0, 9, 0, 26]);
    frame[42..44].copy_from_slice(&number.to_be_bytes());
    frame
}

/// The queues of `pa`, by `method`.
fn queues(table: &mut PortTable, method: PortMethod, count: u32) -> Vec<Box<dyn RxPort>> {
    let queue = |number| PortSpec { queue: PortQueue { number, count }, ..spec("pa", method) };
    (0..count).map(|number| table.open_rx(&queue(number)).unwrap()).collect()
}

/// Each packet arrives once, those of a flow at one queue and in order; all queues get packets.
/// Each of `senders` sends flows of its own.
fn check_queues(mut queues: Vec<Box<dyn RxPort>>, mut senders: Vec<Box<dyn TxPort>>) {
    const FLOWS: u16 = 64;
    let (mut pool, mut next, mut queue_of) = (Pool::new(), [0; FLOWS as usize], [None; 64]);
    for number in 0..20 {
        let (count, flows) = (senders.len(), (0..FLOWS).collect::<Vec<_>>());
        for (at, sender) in senders.iter_mut().enumerate() {
            let own = flows.iter().skip(at).step_by(count);
            let batch = packets(&mut pool, own.map(|flow| datagram(1000 + flow, number)));
            send(&mut **sender, &batch);
            pool.recycle_batch(batch);
        }
        let mut received = 0;
        let start = std::time::Instant::now();
        while received < FLOWS && start.elapsed() < Duration::from_secs(2) {
            for (at, queue) in queues.iter_mut().enumerate() {
                let mut batch = pool.batch();
                queue.receive(&mut pool, &mut batch, 64);
                for packet in batch.iter().map(|packet| packet.data()) {
                    if packet[12..14] != [8, 0] {
                        continue;
                    }
                    let flow = u16::from_be_bytes([packet[34], packet[35]]) - 1000;
                    assert_eq!(packet, datagram(1000 + flow, next[flow as usize]));
                    next[flow as usize] += 1;
                    assert_eq!(*queue_of[flow as usize].get_or_insert(at), at, "flow {flow}");
                    received += 1;
                }
                pool.recycle_batch(batch);
            }
        }
        assert_eq!(received, FLOWS, "round {number}");
    }
    for at in 0..queues.len() {
        assert!(queue_of.contains(&Some(at)), "queue {at} of {queue_of:?}");
    }
}

#[test]
fn queues_share_the_flows_of_an_interface() {
    with_veth(|| {
        for method in [PortMethod::AfPacket, PortMethod::AfPacketBlocks] {
            let mut table = PortTable::default();
            let queues = queues(&mut table, method, 3);
            check_queues(queues, vec![table.open_tx(&spec("pb", method)).unwrap()]);
        }
    });
}

#[test]
fn queues_find_each_other_after_an_interface_returns() {
    with_veth(|| {
        let mut table = PortTable::default();
        let mut queues = queues(&mut table, PortMethod::AfPacket, 2);
        ip("link del pa\nlink add pa type veth peer name pb\nlink set pa up\nlink set pb up")
            .unwrap();
        assert!(queues.iter_mut().all(|queue| queue.check_link() == LinkState::Up));
        check_queues(queues, vec![table.open_tx(&spec("pb", PortMethod::Auto)).unwrap()]);
    });
}

#[test]
fn af_xdp_serves_the_queues_that_an_interface_has() {
    let setup = "link add pa numrxqueues 2 numtxqueues 2 type veth peer name pb numrxqueues 2 \
                 numtxqueues 2\nlink set pa up\nlink set pb up\n";
    in_namespace(setup, || {
        let mut table = PortTable::default();
        let receivers = queues(&mut table, PortMethod::AfXdp, 2);
        // What is sent by a queue of `pb` arrives at the same queue of `pa`.
        let sender = |number| PortSpec {
            queue: PortQueue { number, count: 2 },
            ..spec("pb", PortMethod::AfXdp)
        };
        let senders = [0, 1].map(|number| table.open_tx(&sender(number)).unwrap());
        check_queues(receivers, senders.into());
    });
    with_veth(|| {
        let queue = PortQueue { number: 1, count: 2 };
        let spec = PortSpec { queue, ..spec("pa", PortMethod::AfXdp) };
        let error = PortTable::default().open_rx(&spec).err().expect("there is one queue");
        assert!(error.to_string().contains("ethtool -L pa combined 2"), "{error}");
    });
}

/// As after the end of another process: the kernel releases a queue some time later.
#[test]
fn af_xdp_waits_for_the_release_of_a_queue() {
    with_veth(|| {
        let spec = spec("pa", PortMethod::AfXdp);
        let used = PortTable::default().open_rx(&spec).unwrap();
        let error = PortTable::default().open_rx(&spec).err().expect("it is in use");
        assert_eq!(error.kind(), IoErrorKind::InUse, "{error}");
        let release = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(used);
        });
        assert!(PortTable::default().open_rx(&spec).is_ok());
        release.join().unwrap();
    });
}

#[test]
fn links_go_down_and_interfaces_disappear_and_come_back() {
    with_veth(|| links_come_back(PortMethod::Auto));
    with_veth(|| links_come_back(PortMethod::AfPacketBlocks));
    with_veth(|| links_come_back(PortMethod::AfXdp));
}

fn links_come_back(method: PortMethod) {
    let mut table = PortTable::default();
    let mut rx = table.open_rx(&spec("pa", method)).unwrap();
    let mut tx = table.open_tx(&spec("pb", method)).unwrap();
    let mut pool = Pool::new();
    assert_eq!(rx.check_link(), LinkState::Up);
    ip("link set pb down").unwrap();
    // The kernel reports the carrier of the other end some time later.
    while rx.check_link() == LinkState::Up {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((rx.check_link(), tx.check_link()), (LinkState::Down, LinkState::Down));
    let batch = packets(&mut pool, std::iter::once(frame(1, 60)));
    assert_eq!(tx.send(batch.as_slice()), Transmitted::Refused);
    ip("link del pa").unwrap();
    assert_eq!((rx.check_link(), tx.check_link()), (LinkState::Removed, LinkState::Removed));
    assert_eq!(rx.receive(&mut pool, &mut Batch::new(), 64), 0);
    assert_eq!(tx.send(batch.as_slice()), Transmitted::Refused);
    let add =
        "link add pa index 70 type veth peer name pb index 71\nlink set pa up\nlink set pb up";
    ip(add).unwrap();
    while (rx.check_link(), tx.check_link()) != (LinkState::Up, LinkState::Up) {
        std::thread::sleep(Duration::from_millis(1));
    }
    send(&mut *tx, &batch);
    assert_eq!(receive(&mut *rx, &mut pool, 1), [frame(1, 60)]);
    // Others with the same numbers, between two checks.
    ip("link del pa").unwrap();
    ip(add).unwrap();
    while (rx.check_link(), tx.check_link()) != (LinkState::Up, LinkState::Up) {
        std::thread::sleep(Duration::from_millis(1));
    }
    send(&mut *tx, &batch);
    assert_eq!(receive(&mut *rx, &mut pool, 1), [frame(1, 60)]);
}

#[test]
fn a_renamed_interface_is_served() {
    with_veth(|| {
        let mut rx = PortTable::default().open_rx(&spec("pa", PortMethod::AfXdp)).unwrap();
        let mut tx = PortTable::default().open_tx(&spec("pb", PortMethod::Auto)).unwrap();
        ip("link set pa down\nlink set pa name px\nlink set px up").unwrap();
        assert_eq!(rx.check_link(), LinkState::Removed);
        while tx.check_link() != LinkState::Up {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut pool = Pool::new();
        send(&mut *tx, &packets(&mut pool, std::iter::once(frame(1, 60))));
        assert_eq!(receive(&mut *rx, &mut pool, 1), [frame(1, 60)]);
    });
}

#[test]
fn an_interface_that_cannot_be_opened_again_reports_why() {
    with_veth(|| {
        let mut rx = PortTable::default().open_rx(&spec("pa", PortMethod::AfXdp)).unwrap();
        ip("link del pa").unwrap();
        assert_eq!((rx.check_link(), rx.reopen_error()), (LinkState::Removed, None));
        ip("link add pa mtu 9000 type veth peer name pb mtu 9000\nlink set pa up\nlink set pb up")
            .unwrap();
        assert_eq!(rx.check_link(), LinkState::Removed);
        let error = rx.reopen_error().expect("the MTU is too large");
        assert!(error.contains("ip link set pa mtu 1500"), "{error}");
        ip("link set pb mtu 1500\nlink set pa mtu 1500").unwrap();
        assert_eq!((rx.check_link(), rx.reopen_error()), (LinkState::Up, None));
    });
}

#[test]
fn af_xdp_refuses_what_the_interface_does_not_send() {
    with_veth(|| {
        let mut tx = PortTable::default().open_tx(&spec("pa", PortMethod::AfXdp)).unwrap();
        ip("link set pa mtu 576").unwrap();
        assert_eq!(tx.check_link(), LinkState::Up);
        let mut pool = Pool::new();
        for (bytes, expected) in [
            (0, Transmitted::Refused),
            (13, Transmitted::Refused),
            (14 + 576, Transmitted::Frames(1)),
            (14 + 577, Transmitted::Refused),
        ] {
            let batch = packets(&mut pool, std::iter::once(vec![2; bytes]));
            assert_eq!(tx.send(batch.as_slice()), expected, "{bytes} bytes");
        }
    });
}

#[test]
fn an_idle_port_wakes_nobody() {
    with_veth(|| {
        // Without IPv6 nothing is sent by itself.
        ip("link set pb down").unwrap();
        let mut rx = PortTable::default().open_rx(&spec("pa", PortMethod::Auto)).unwrap();
        let mut pool = Pool::new();
        let mut batch = pool.batch();
        while rx.receive(&mut pool, &mut batch, 64) > 0 {}
        let fd = rx.wake_fd().unwrap();
        let timeout = Timespec::try_from(Duration::from_millis(50)).unwrap();
        let ready = poll(&mut [PollFd::new(&*fd, PollFlags::IN)], Some(&timeout)).unwrap();
        assert_eq!(ready, 0, "the link is down and that error is cleared");
    });
}

#[test]
fn both_ends_of_a_tap_device_exchange_frames() {
    in_namespace("", || {
        let mut table = PortTable::default();
        let mut rx = table.open_rx(&spec("tap:t0", PortMethod::Auto)).unwrap();
        let mut tx = table.open_tx(&spec("tap:t0", PortMethod::Auto)).unwrap();
        let mut host_rx = table.open_rx(&spec("t0", PortMethod::Auto)).unwrap();
        let mut host_tx = table.open_tx(&spec("t0", PortMethod::Auto)).unwrap();
        let mut pool = Pool::new();
        let frames: Vec<Vec<u8>> = (0..50).map(|number| frame(number, 100)).collect();
        let batch = packets(&mut pool, frames.iter().cloned());
        send(&mut *tx, &batch);
        assert_eq!(receive(&mut *host_rx, &mut pool, 50), frames);
        send(&mut *host_tx, &batch);
        assert_eq!(receive(&mut *rx, &mut pool, 50), frames);
        drop((rx, tx, table));
        assert!(!has_interface("t0"), "it disappears with its last port");
    });
}

#[test]
fn a_removed_tap_device_wakes_nobody() {
    in_namespace("", || {
        let mut table = PortTable::default();
        let mut rx = table.open_rx(&spec("tap:t0", PortMethod::Auto)).unwrap();
        let mut tx = table.open_tx(&spec("tap:t0", PortMethod::Auto)).unwrap();
        assert!(rx.wake_fd().is_some());
        ip("link del t0").unwrap();
        let mut pool = Pool::new();
        while rx.receive(&mut pool, &mut Batch::new(), 64) > 0 {}
        assert!(rx.wake_fd().is_none() && tx.wake_fd().is_none());
        assert_eq!((rx.check_link(), tx.check_link()), (LinkState::Removed, LinkState::Removed));
    });
}

#[test]
fn names_of_links_in_memory_connect_their_ends() {
    let mut table = PortTable::default();
    let open = |table: &mut PortTable, name: &str| {
        let spec = spec(name, PortMethod::Auto);
        (table.open_rx(&spec).unwrap(), table.open_tx(&spec).unwrap())
    };
    let (mut a_rx, mut a_tx) = open(&mut table, "mem:0");
    let (mut b_rx, mut b_tx) = open(&mut table, "mem:0:peer");
    let (mut other_rx, _) = open(&mut table, "mem:1:peer");
    let mut pool = Pool::new();
    let batch = packets(&mut pool, [frame(1, 60), frame(2, 1514)].into_iter());
    for (tx, rx) in [(&mut a_tx, &mut b_rx), (&mut b_tx, &mut a_rx)] {
        // Buffers of earlier frames are used again.
        for _ in 0..3 {
            assert_eq!(tx.send(batch.as_slice()), Transmitted::Frames(2));
            assert_eq!(receive(&mut **rx, &mut pool, 2), [frame(1, 60), frame(2, 1514)]);
        }
    }
    let mut none = pool.batch();
    assert_eq!(other_rx.receive(&mut pool, &mut none, 9), 0);
}
