//! Live interfaces: our router between the network stacks of two hosts, in namespaces, over veth
//! pairs.
//!
//! ```text
//! host 0 ─ end ═ eth0 ─┐  warpswitch run conf/live/ip-router.click  ┌─ eth1 ═ end ─ host 1
//! 10.0.0.2             └────────────── namespace ───────────────────┘             10.0.1.2
//! ```
//! This needs root, network namespaces and `ip` of iproute2. Without them the tests report that
//! they are skipped; with `WARPSWITCH_NAMESPACES=1` that is a failure.
#![forbid(unsafe_code)]

mod demo;
mod faults;
mod gso;
mod hosts;
#[path = "../../../commands/src/netns.rs"]
mod netns;
#[path = "../packet_end/mod.rs"]
mod packet_end;
mod passes;
mod privileges;
mod run;
#[path = "../running/mod.rs"]
#[expect(dead_code, reason = "runs of another command")]
mod running;
mod traffic;

use std::io::{self, Write};
use std::net::UdpSocket;

use hosts::{Network, ROUTED, ping};
use run::Run;

/// Runs `test` on a network, or skips it.
fn with_network(arguments: &[&str], test: fn(&mut Network)) {
    with(Network::new("conf/live/ip-router.click", ROUTED, arguments), test);
}

/// Runs `test`, or skips it if there are no namespaces.
fn with<T>(made: Result<T, String>, test: impl FnOnce(&mut T)) {
    match made {
        Ok(mut made) => test(&mut made),
        Err(why) => {
            let is_needed = std::env::var_os("WARPSWITCH_NAMESPACES").is_some_and(|v| v == "1");
            assert!(!is_needed, "no hosts in namespaces: {why}");
            // Written past the harness, which keeps the output of passing tests.
            _ = writeln!(io::stderr(), "SKIPPED: no hosts in namespaces: {why}");
        }
    }
}

/// Pings through the router and to it, a TCP flow each way; counters equal those of the kernel.
fn route(network: &mut Network) {
    for (from, to) in [(0, "10.0.1.2"), (1, "10.0.0.2"), (0, "10.0.0.1"), (1, "10.0.0.1")] {
        network.hosts[from].ping(to).unwrap_or_else(|why| panic!("host {from} to {to}: {why}"));
    }
    network.transfer(0, 1, 16 << 20);
    network.transfer(1, 0, 16 << 20);
    for port in 0..2 {
        let sent = network.settled_count(port);
        assert!(sent > 200, "{sent} frames");
        let received: u64 = network.router.read(&format!("from{port}.count"));
        let unusable: u64 = network.router.read(&format!("from{port}.unusable"));
        assert_eq!(unusable, 0, "all long frames pass");
        // A long frame counts once, at the host that sent it and here.
        let host_sent = network.hosts[port].frames_sent();
        assert!(received >= host_sent, "{received} of {host_sent} frames");
        let segmented: u64 = network.router.read(&format!("from{port}.segmented"));
        assert!(segmented > 50, "{segmented} of {received} frames are long");
    }
    let said = network.router.stop();
    assert!(!said.contains("segmented in software"), "long frames pass whole: {said}");
}

/// The same where the kernel keeps no record of offloads, and has none but checksums.
fn route_by_xdp(network: &mut Network) {
    for (from, to) in [(0, "10.0.1.2"), (1, "10.0.0.2"), (0, "10.0.0.1")] {
        network.hosts[from].ping(to).unwrap_or_else(|why| panic!("host {from} to {to}: {why}"));
    }
    network.transfer(0, 1, 4 << 20);
    network.transfer(1, 0, 4 << 20);
    for port in 0..2 {
        network.settled_count(port);
        let completed: u64 = network.router.read(&format!("from{port}.checksums"));
        assert!(completed > 1_000, "{completed} checksums");
    }
    network.router.stop();
}

/// The same with two receive queues at each interface: all frames arrive, at one or the other.
fn route_with_queues(network: &mut Network) {
    for (from, to) in [(0, "10.0.1.2"), (1, "10.0.0.2"), (0, "10.0.0.1")] {
        network.hosts[from].ping(to).unwrap_or_else(|why| panic!("host {from} to {to}: {why}"));
    }
    for _ in 0..8 {
        network.transfer(0, 1, 1 << 20);
        network.transfer(1, 0, 1 << 20);
    }
    for port in 0..2 {
        network.settled_count(port);
        let counts: [u64; 2] =
            [0, 1].map(|queue| network.router.read(&format!("from{port}/{queue}.count")));
        assert!(counts.iter().sum::<u64>() >= network.hosts[port].frames_sent(), "{counts:?}");
    }
    let said = network.router.stop();
    assert!(!said.contains("error"), "{said}");
}

#[test]
fn routes_between_hosts() {
    with_network(&[], route);
}

#[test]
fn routes_between_hosts_with_two_workers() {
    with_network(&["-j", "2"], route);
}

#[test]
fn routes_between_hosts_with_two_queues_each() {
    with_network(&["QUEUES=2", "-j", "2"], route_with_queues);
}

#[test]
fn routes_between_hosts_by_blocks_of_frames() {
    with_network(&["METHOD=AFPACKET_BLOCKS"], route);
}

#[test]
fn routes_between_hosts_by_af_xdp() {
    with_network(&["METHOD=AFXDP"], route_by_xdp);
}

#[test]
fn the_graph_answers_pings_from_a_tun_device() {
    let config = "tun :: KernelTun(10.9.0.1/24) -> CheckIPHeader -> ICMPPingResponder -> tun;";
    with(Run::local(config), |run| {
        ping(&run.namespace, "10.9.0.7").expect("an answer");
        assert_eq!(run.read::<String>("tun.dev_name"), "tun0");
        assert_eq!((run.read::<u64>("tun.received"), run.read::<u64>("tun.sent")), (1, 1));
        run.stop();
    });
}

#[test]
fn the_graph_answers_pings_from_a_tap_device() {
    let config = "
        tap :: KernelTap(10.9.0.1/24, DEVNAME test0, ETHER 02:00:00:00:00:09)
        -> c :: Classifier(12/0806 20/0001, 12/0800);
        c[0] -> ARPResponder(10.9.0.0/24 02:00:00:00:00:01) -> tap;
        c[1] -> Strip(14) -> CheckIPHeader -> ICMPPingResponder
        -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:09) -> tap;";
    with(Run::local(config), |run| {
        ping(&run.namespace, "10.9.0.7").expect("an answer");
        assert_eq!(run.read::<String>("tap.dev_name"), "test0");
        run.stop();
    });
}

#[test]
fn from_host_and_to_host_connect_the_kernel_to_the_graph() {
    let config = "
        from :: FromHost(test0, 10.9.0.1/24, ETHER 02:00:00:00:00:09, GATEWAY 10.9.0.2)
        -> c :: Classifier(12/0806 20/0001, 12/0800);
        to :: ToHost(test0);
        c[0] -> ARPResponder(0.0.0.0/0 02:00:00:00:00:01) -> to;
        c[1] -> Strip(14) -> CheckIPHeader -> ICMPPingResponder
        -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:09) -> to;";
    with(Run::local(config), |run| {
        ping(&run.namespace, "10.9.0.7").expect("an answer");
        ping(&run.namespace, "192.0.2.1").expect("an answer by the default route");
        let read =
            ["from.dev_name", "to.dev_name", "to.drops"].map(|name| run.read::<String>(name));
        assert_eq!(read, ["test0", "test0", "0"]);
        // Two pings and two ARP requests.
        assert_eq!((run.read::<u64>("from.received"), run.read::<u64>("to.sent")), (4, 4));
        run.stop();
    });
}

#[test]
fn the_kernel_answers_pings_of_the_graph() {
    let config = "p :: ICMPPingSource(127.0.0.1, 127.0.0.1, INTERVAL 0.05, IDENTIFIER 4660,
            LIMIT 3, DATA abc) -> Queue -> s :: RawSocket(ICMP, 4660) -> p;";
    with(Run::local(config), |run| {
        let expected = "3 packets transmitted, 3 received, 0% packet loss";
        run.await_handler("p.summary", expected);
        // The socket receives requests and replies.
        assert_eq!((run.read::<u64>("s.sent"), run.read::<u64>("s.received")), (3, 6));
        let said = run.stop();
        assert!(said.contains("3 bytes from 127.0.0.1: icmp_seq=3 ttl=64 time="), "{said}");
        assert!(said.contains(expected) && said.contains("rtt min/avg/max/mdev = "), "{said}");
    });
}

#[test]
fn the_graph_answers_datagrams_from_a_raw_socket() {
    let config = "s :: RawSocket(UDP, 7777) -> CheckIPHeader -> IPMirror -> SetUDPChecksum
            -> Queue -> s;";
    with(Run::local(config), |run| {
        let (other, reply) = run.inside(|| {
            let exchange = |port: u16| {
                let socket = UdpSocket::bind("127.0.0.1:0")?;
                socket.set_read_timeout(Some(running::PATIENCE))?;
                socket.connect(("127.0.0.1", port))?;
                socket.send(b"hello")?;
                let mut reply = [0; 10];
                socket.recv(&mut reply).map(|bytes| reply[..bytes].to_vec())
            };
            (exchange(7778), exchange(7777))
        });
        assert_eq!(other.expect_err("nobody").kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(reply.expect("an echo"), b"hello");
        assert_eq!((run.read::<u64>("s.sent"), run.read::<u64>("s.received")), (1, 1));
        run.stop();
    });
}

#[test]
fn an_exclusive_device_keeps_frames_from_the_kernel() {
    let config = "
        from :: FromDevice(lo, SNIFFER false, PROTOCOL 0x0800) -> Strip(14) -> CheckIPHeader
        -> c :: Counter -> IPPrint(frame) -> Discard;";
    with(Run::local(config), |run| {
        let sent = run.inside(|| {
            let receiver = UdpSocket::bind("127.0.0.1:0")?;
            receiver.set_read_timeout(Some(std::time::Duration::from_millis(300)))?;
            let sender = UdpSocket::bind("127.0.0.1:0")?;
            sender.send_to(b"hello", receiver.local_addr()?)?;
            receiver.recv(&mut [0; 10])
        });
        let error = sent.expect_err("the kernel delivered a frame").kind();
        assert!(matches!(error, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{error:?}");
        run.await_handler("c.count", "1");
        run.stop();
    });
}

#[test]
fn continues_when_an_interface_returns() {
    with_network(&[], |network| {
        network.hosts[0].ping("10.0.1.2").expect("an answer");
        network.replace_link(1);
        network.hosts[0].ping("10.0.1.2").expect("an answer over the new link");
        let said = network.router.stop();
        assert!(said.contains("eth1: interface removed"), "{said}");
        assert!(said.contains("eth1: link up"), "{said}");
    });
}

#[test]
fn sleeps_while_nothing_arrives() {
    with_network(&[], |network| {
        network.hosts[0].ping("10.0.1.2").expect("an answer");
        let before = network.router.cpu_ticks();
        std::thread::sleep(std::time::Duration::from_secs(2));
        let ticks = network.router.cpu_ticks() - before;
        // A tick is a hundredth of a second: 2 % of a core.
        assert!(ticks <= 4, "{ticks} of 200 ticks");
        network.router.stop();
    });
}
