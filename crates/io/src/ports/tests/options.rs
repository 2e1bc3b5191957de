//! Tests of the options of receiving ports: exclusive use, outgoing frames, EtherTypes.

use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sched::{CloneFlags, setns, unshare};

use super::*;

/// Port of the UDP flows.
const UDP_PORT: u16 = 5000;
const KERNEL: [u8; 4] = [10, 0, 0, 1];
const PEER: [u8; 4] = [10, 0, 0, 2];
/// How long a datagram may take, or is expected not to arrive.
const PATIENCE: Duration = Duration::from_millis(500);
/// Datagrams sent until the kernel forwards: it drops frames until it has noticed that a new link
/// is up, which takes up to a second, and longer on a busy machine.
const FIRST_DATAGRAMS: usize = 40;

/// Runs `test` with a socket of the kernel on this side and one of the peer, when datagrams pass
/// both ways. The peer is in a namespace of its own: the kernel would deliver by itself otherwise.
fn with_addresses(test: fn(&UdpSocket, &UdpSocket)) {
    in_namespace("", move || {
        let home = File::open("/proc/thread-self/ns/net").unwrap();
        let peer = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let far = File::open("/proc/thread-self/ns/net").unwrap();
            let far_path = format!("/proc/{}/fd/{}", std::process::id(), far.as_raw_fd());
            setns(&home, CloneFlags::CLONE_NEWNET).unwrap();
            ip(&format!("link add pa type veth peer name pb netns {far_path}")).unwrap();
            ip("addr add 10.0.0.1/24 dev pa\nlink set pa up").unwrap();
            setns(&far, CloneFlags::CLONE_NEWNET).unwrap();
            ip("addr add 10.0.0.2/24 dev pb\nlink set pb up").unwrap();
            udp_socket()
        });
        let (kernel, peer) = (udp_socket(), peer.join().unwrap());
        let mut tries = 0..FIRST_DATAGRAMS;
        assert!(tries.any(|_| passes(&peer, &kernel, KERNEL)), "no datagram reaches the kernel");
        assert!(tries.any(|_| passes(&kernel, &peer, PEER)), "no datagram reaches the peer");
        test(&kernel, &peer);
    });
}

/// A socket in the namespace of this thread.
fn udp_socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, UDP_PORT)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Whether a datagram passes from `from` to `to`, at address `address`. Late ones, of earlier
/// calls, do not count.
fn passes(from: &UdpSocket, to: &UdpSocket, address: [u8; 4]) -> bool {
    static SENT: AtomicU64 = AtomicU64::new(0);
    let datagram = SENT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    from.send_to(&datagram, (Ipv4Addr::from(address), UDP_PORT)).unwrap();
    let mut received = [0; 8];
    while to.recv_from(&mut received).is_ok() {
        if received == datagram {
            return true;
        }
    }
    false
}

/// Packets that `rx` receives, at least one if it comes in time.
fn receive_all(rx: &mut dyn RxPort, pool: &mut Pool) -> Batch {
    let mut batch = pool.batch();
    let mut has_waited = false;
    loop {
        while rx.receive(pool, &mut batch, 64) > 0 {}
        if !batch.is_empty() || std::mem::replace(&mut has_waited, true) {
            return batch;
        }
        let fd = rx.wake_fd().expect("it has a descriptor");
        let timeout = Timespec::try_from(PATIENCE).unwrap();
        poll(&mut [PollFd::new(&*fd, PollFlags::IN)], Some(&timeout)).unwrap();
    }
}

/// EtherTypes of the packets that `rx` receives.
fn ether_types(rx: &mut dyn RxPort) -> Vec<[u8; 2]> {
    let batch = receive_all(rx, &mut Pool::new());
    batch.iter().map(|packet| packet.data()[12..14].try_into().expect("two bytes")).collect()
}

const IPV4: [u8; 2] = [8, 0];
const ARP: [u8; 2] = [8, 6];

#[test]
fn exclusive_ports_keep_frames_from_the_kernel() {
    with_addresses(|kernel, peer| {
        let exclusive = PortSpec { is_exclusive: true, ..spec("pa", PortMethod::Auto) };
        let mut rx = PortTable::default().open_rx(&exclusive).unwrap();
        assert!(!passes(peer, kernel, KERNEL), "the kernel handled a frame");
        let received = ether_types(&mut *rx);
        assert_eq!(received.iter().filter(|&&kind| kind == IPV4).count(), 1, "{received:?}");
        drop(rx);
        assert!(passes(peer, kernel, KERNEL), "the kernel handles frames again");
    });
}

#[test]
fn outgoing_frames_are_received_on_request() {
    with_addresses(|kernel, peer| {
        let mut table = PortTable::default();
        let mut inbound = table.open_rx(&spec("pa", PortMethod::Auto)).unwrap();
        let both = PortSpec { receives_outgoing: true, ..spec("pa", PortMethod::Auto) };
        let mut both = table.open_rx(&both).unwrap();
        let mut tx = table.open_tx(&spec("pa", PortMethod::Auto)).unwrap();
        assert!(passes(kernel, peer, PEER) && passes(peer, kernel, KERNEL));
        // Frames of a port are no frames of the kernel.
        let mut pool = Pool::new();
        send(&mut *tx, &packets(&mut pool, std::iter::once(frame(1, 60))));
        let received = ether_types(&mut *inbound);
        assert_eq!(received.iter().filter(|&&kind| kind == IPV4).count(), 1, "{received:?}");
        let batch = receive_all(&mut *both, &mut pool);
        let types = batch.iter().filter(|packet| packet.data()[12..14] == IPV4);
        let types: Vec<_> = types.map(|packet| packet.packet_type()).collect();
        assert_eq!(types, [PacketType::Outgoing, PacketType::Host]);
        assert!(batch.iter().all(|packet| packet.data()[12..14] != [0x88, 0xb5]));
    });
}

#[test]
fn only_frames_of_the_ether_type_are_received() {
    with_addresses(|kernel, peer| {
        let arp = PortSpec { ether_type: Some(0x0806), ..spec("pa", PortMethod::Auto) };
        let blocks = PortSpec { method: PortMethod::AfPacketBlocks, ..arp.clone() };
        let mut table = PortTable::default();
        let (mut arp, mut blocks) = (table.open_rx(&arp).unwrap(), table.open_rx(&blocks).unwrap());
        ip("neigh flush dev pa").unwrap();
        assert!(passes(kernel, peer, PEER) && passes(peer, kernel, KERNEL));
        for rx in [&mut arp, &mut blocks] {
            let received = ether_types(&mut **rx);
            assert!(received.iter().all(|&kind| kind == ARP), "{received:?}");
            assert!(!received.is_empty());
        }
    });
}
