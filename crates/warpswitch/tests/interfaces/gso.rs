//! TCP whose segmentation and checksums hosts leave to their interfaces, where the switch cannot
//! pass it on as it is: smaller links, elements that need complete packets, TAP devices.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::hosts::{Addresses, Network, ROUTED, SERVICE_PORT};
use crate::running::PATIENCE;
use crate::{with, with_network};

/// Bytes of a flow.
const FLOW_BYTES: usize = 4 << 20;
/// Hosts on one link.
const ONE_LINK: Addresses = [("10.0.0.2/24", None), ("10.0.0.3/24", None)];

/// Writes a configuration to a file, and passes its path to `test`.
fn with_config(text: &str, test: impl FnOnce(&str)) {
    let file = tempfile::Builder::new().suffix(".click").tempfile().expect("a temporary file");
    std::fs::write(file.path(), text).expect("it is written");
    test(&file.path().display().to_string());
}

#[test]
fn packets_are_segmented_in_front_of_elements_that_need_that() {
    let config = "
        define($ETH0 eth0, $ETH1 eth1);
        elementclass Check { input -> c :: Classifier(12/0800 23/06, -);
          c[0] -> Strip(14) -> CheckIPHeader -> CheckTCPHeader -> Unstrip(14) -> output;
          c[1] -> output; }
        FromDevice($ETH0, PROMISC true) -> c0 :: Check -> Queue -> ToDevice($ETH1);
        FromDevice($ETH1, PROMISC true) -> c1 :: Check -> Queue -> ToDevice($ETH0);";
    with_config(config, |path| {
        with(Network::new(path, ONE_LINK, &[]), |network| {
            network.transfer(0, 1, FLOW_BYTES);
            network.exchange(1, 0, 1000);
            assert_eq!(network.router.drops("", "bad TCP checksum"), 0);
            let said = network.router.stop();
            assert!(said.contains("segmented in software") && said.contains("ethtool"), "{said}");
        });
    });
}

#[test]
fn smaller_links_are_reported_to_senders() {
    with_network(&["MTU1=1000"], |network| {
        network.transfer(0, 1, FLOW_BYTES);
        network.transfer(1, 0, FLOW_BYTES);
        network.router.stop();
    });
}

#[test]
fn options_of_the_kernel_are_respected() {
    with_network(&[], |network| {
        // Its segments are left to it, so frames arrive as on a wire.
        network.hosts[0].namespace.ip("link set end gso_max_segs 1\n").expect("a setting");
        network.transfer(0, 1, FLOW_BYTES);
        assert_eq!(network.router.read::<u64>("from0.segmented"), 0);
        assert!(network.router.read::<u64>("from0.checksums") > 1000);
        network.router.stop();
    });
}

/// Sends `FLOW_BYTES` bytes over a connection from `from` to `to`.
fn transfer(mut from: TcpStream, listener: &TcpListener) {
    let (mut to, _) = listener.accept().expect("a connection");
    for stream in [&from, &to] {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
    }
    let sent: Vec<u8> = (0..FLOW_BYTES).map(|at| (at ^ (at >> 8)) as u8).collect();
    let receiver = std::thread::spawn(move || {
        let mut received = Vec::new();
        to.read_to_end(&mut received).expect("all bytes in time");
        received
    });
    from.write_all(&sent).expect("all bytes are sent in time");
    drop(from);
    assert!(receiver.join().expect("the receiver ends") == sent, "other bytes arrive");
}

#[test]
fn tap_devices_pass_packets_whole() {
    let config = "
        define($ETH0 eth0, $ETH1 eth1);
        from :: FromDevice($ETH0, PROMISC true) -> Queue -> tap :: KernelTap(10.0.0.1/24)
        -> Queue -> to :: ToDevice($ETH0);";
    with_config(config, |path| {
        with(Network::new(path, ROUTED, &[]), |network| {
            let here: SocketAddr = ([10, 0, 0, 1], SERVICE_PORT).into();
            let listener = network.router.inside(|| TcpListener::bind(here)).expect("a free port");
            transfer(network.hosts[0].connect(here), &listener);
            let listener = network.hosts[0].listen(SERVICE_PORT);
            let there = listener.local_addr().expect("an address");
            let stream = network.router.inside(|| TcpStream::connect_timeout(&there, PATIENCE));
            transfer(stream.expect("a connection"), &listener);
            assert!(network.router.read::<u64>("from.segmented") > 20);
            // Each way takes some hundred frames where segments of 1,448 bytes would be thousands.
            let frames = FLOW_BYTES as u64 / 1448;
            assert!(network.router.read::<u64>("to.count") < frames);
            let said = network.router.stop();
            assert!(!said.contains("segmented in software"), "{said}");
        });
    });
}
