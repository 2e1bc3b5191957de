//! Bad input, lost interfaces, killed routers and overload.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpswitch_wire::ipv4::Ipv4;

use crate::hosts::{Network, ROUTED, SERVICE_PORT};
use crate::packet_end::{open_end, send_frame};
use crate::with;

const ROUTER: &str = "conf/live/ip-router.click";
/// Ethernet addresses of the router and of host 0 on their link, then the type of IPv4.
const HEADER: [u8; 14] = [2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 8, 0];
/// Frames of each kind that are injected.
const COPIES: u64 = 5;
/// Largest frame that the links of the tests carry.
const JUMBO_BYTES: usize = 9000;

/// A UDP datagram from host 0 to host 1, in a frame to the router, of so many bytes in all; changed
/// by `edit`, with a correct header checksum if `is_summed`.
fn frame(bytes: usize, is_summed: bool, edit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut frame = HEADER.to_vec();
    frame.resize(bytes, 0);
    let packet = &mut frame[14..];
    let length = (packet.len() as u16).to_be_bytes();
    packet[..2].copy_from_slice(&[0x45, 0]);
    packet[2..4].copy_from_slice(&length);
    packet[8..10].copy_from_slice(&[64, 17]);
    packet[12..20].copy_from_slice(&[10, 0, 0, 2, 10, 0, 1, 2]);
    if is_summed {
        Ipv4::new_unchecked(&mut packet[..]).fill_checksum();
    }
    edit(packet);
    frame
}

/// Malformed frames, and the element and reason of their drops.
fn malformed() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let summed = |edit: fn(&mut [u8])| {
        frame(60, false, |packet| {
            edit(packet);
            Ipv4::new_unchecked(packet).fill_checksum();
        })
    };
    let mut header_only = HEADER.to_vec();
    header_only.truncate(14);
    let mut to_another = frame(60, true, |_| {});
    to_another[5] = 9;
    vec![
        ("check", "tiny packet", header_only),
        ("check", "tiny packet", frame(14 + 20, true, |_| {})[..14 + 19].to_vec()),
        ("check", "bad IP version", summed(|packet| packet[0] = 0x65)),
        ("check", "bad IP header length", summed(|packet| packet[0] = 0x44)),
        ("check", "bad IP length", summed(|packet| packet[2..4].copy_from_slice(&[0, 19]))),
        ("check", "bad IP length", summed(|packet| packet[2..4].copy_from_slice(&[5, 0]))),
        ("check", "bad IP checksum", frame(60, true, |packet| packet[10] ^= 1)),
        ("check", "bad source address", summed(|packet| packet[12] = 224)),
        ("port0/HostEtherFilter@1", "other host", to_another),
    ]
}

/// The next value of a sequence of pseudo-random numbers (xorshift).
fn next_random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state as usize
}

#[test]
fn malformed_frames_are_dropped_and_counted() {
    with(Network::new(ROUTER, ROUTED, &[]), |network| {
        network.hosts[0].ping("10.0.1.2").expect("a reply");
        let end = open_end(&network.hosts[0].namespace).expect("a packet socket");
        for (element, reason, frame) in malformed() {
            let before = network.router.drops(element, reason);
            for _ in 0..COPIES {
                send_frame(&end, &frame);
            }
            network.router.wait_until(&format!("{element} counts '{reason}'"), |router| {
                router.drops(element, reason) == before + COPIES
            });
        }
        network.hosts[0].ping("10.0.1.2").expect("a reply, as before");
        network.router.stop();
    });
}

#[test]
fn any_bytes_and_jumbo_frames_are_accounted_for() {
    const FRAMES: u64 = 2000;
    with(Network::new(ROUTER, ROUTED, &[]), |network| {
        network.hosts[0].ping("10.0.1.2").expect("a reply");
        network.hosts[0].namespace.ip("link set end mtu 9000\n").expect("an MTU");
        network.router.namespace.ip("link set eth0 mtu 9000\n").expect("an MTU");
        let end = open_end(&network.hosts[0].namespace).expect("a packet socket");
        let received = |router: &crate::run::Run| -> u64 {
            let counters = ["from0.count", "from0.unusable", "from0.kernel_drops"];
            counters.iter().map(|name| router.read::<u64>(name)).sum()
        };
        let before = received(&network.router);
        let mut state = 0x2545_f491_4f6c_dd1d;
        for idx in 0..FRAMES {
            let bytes = 14 + next_random(&mut state) % (JUMBO_BYTES - 14);
            // To the router, of types that it handles, with any bytes behind them.
            let mut frame: Vec<u8> = HEADER.to_vec();
            frame[13] = [0, 6, 0xdd, 0][idx as usize % 4];
            frame.extend((14..bytes).map(|_| next_random(&mut state) as u8));
            if idx % 4 == 3 && bytes >= 34 {
                frame[14] = 0x45;
                Ipv4::new_unchecked(&mut frame[14..]).fill_checksum();
            }
            send_frame(&end, &frame);
            if idx % 64 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let long = frame(14 + JUMBO_BYTES, true, |_| {});
        send_frame(&end, &long);
        network.router.wait_until("each frame is counted", |router| {
            // Hosts may send ARP meanwhile.
            received(router) > before + FRAMES
        });
        network.hosts[0].ping("10.0.1.2").expect("a reply, as before");
        network.router.stop();
    });
}

/// Sends datagrams from host 0 to host 1 until `stops`.
fn blast(socket: &UdpSocket, to: (std::net::IpAddr, u16), stops: &AtomicBool) -> u64 {
    let mut sent = 0;
    while !stops.load(Ordering::Relaxed) {
        // Fails while a link is missing.
        sent += u64::from(socket.send_to(&[0; 18], to).is_ok());
    }
    sent
}

/// Runs `work` while `senders` threads of host 0 send datagrams to host 1; returns their number.
fn under_load(network: &Network, senders: usize, work: impl FnOnce()) -> u64 {
    let stops = Arc::new(AtomicBool::new(false));
    let to = (network.hosts[1].ip(), SERVICE_PORT);
    let threads: Vec<_> = (0..senders)
        .map(|_| {
            let (socket, stops) = (network.hosts[0].udp(0), stops.clone());
            thread::spawn(move || blast(&socket, to, &stops))
        })
        .collect();
    work();
    stops.store(true, Ordering::Relaxed);
    threads.into_iter().map(|thread| thread.join().expect("a sender ends")).sum()
}

#[test]
fn continues_when_an_interface_is_replaced_under_load() {
    with(Network::new(ROUTER, ROUTED, &[]), |network| {
        // With a listener the host does not answer each datagram with an error.
        let _listener = network.hosts[1].udp(SERVICE_PORT);
        network.hosts[0].ping("10.0.1.2").expect("a reply");
        under_load(network, 1, || {
            network.replace_link(1);
        });
        network.hosts[0].ping("10.0.1.2").expect("a reply over the new link");
        let messages = network.router.stop();
        assert!(messages.contains("eth1: interface removed"), "{messages}");
        assert!(messages.contains("eth1: link up"), "{messages}");
    });
}

#[test]
fn control_socket_answers_during_a_flood() {
    with(Network::new(ROUTER, ROUTED, &["QUEUE=10"]), |network| {
        let _listener = network.hosts[1].udp(SERVICE_PORT);
        network.hosts[0].ping("10.0.1.2").expect("a reply");
        let mut longest = Duration::ZERO;
        let sent = under_load(network, 2, || {
            for _ in 0..50 {
                let start = Instant::now();
                network.router.read::<u64>("to1.count");
                longest = longest.max(start.elapsed());
                thread::sleep(Duration::from_millis(10));
            }
        });
        let forwarded: u64 = network.router.read("to1.count");
        let unread: u64 = network.router.read("from0.kernel_drops");
        let full = network.router.drops("send1", "full");
        println!(
            "{sent} datagrams sent, {forwarded} forwarded, {unread} dropped by the kernel, {full} \
             by the queue; slowest of 50 replies: {longest:?}"
        );
        network.hosts[0].ping("10.0.1.2").expect("a reply after the flood");
        network.router.stop();
    });
}

/// Kills the router; nothing of it stays in the kernel, and the next start works.
fn kill_and_restart(network: &mut Network) {
    network.hosts[0].ping("10.0.1.2").expect("a reply");
    let links = |network: &Network| {
        let output = network.router.namespace.inside(|| {
            Command::new("ip").args(["-details", "link", "show", "eth0"]).output().expect("ip")
        });
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let running = links(network);
    assert!(running.contains("promiscuity 1"), "{running}");
    network.router.kill();
    let killed = links(network);
    assert!(killed.contains("promiscuity 0") && !killed.contains("xdp"), "{killed}");
    network.router.start();
    network.hosts[0].ping("10.0.1.2").expect("a reply of the next router");
    network.router.stop();
}

#[test]
fn a_killed_router_leaves_nothing_behind() {
    with(Network::new(ROUTER, ROUTED, &[]), kill_and_restart);
}

#[test]
fn a_killed_router_with_af_xdp_leaves_nothing_behind() {
    with(Network::new(ROUTER, ROUTED, &["METHOD=AFXDP"]), kill_and_restart);
}
