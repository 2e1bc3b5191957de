//! The traffic that each live configuration forwards and drops between the kernels of two hosts.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};

use crate::hosts::{Addresses, Network, SERVICE_PORT};
use crate::with;

/// Hosts on one link, into which a forwarder or a firewall is put.
const ONE_LINK: Addresses = [("10.0.0.2/24", None), ("10.0.0.3/24", None)];
/// A host inside, and one outside that has no route to the inside.
const NAT: Addresses = [("10.0.0.2/24", Some("10.0.0.1")), ("192.0.2.254/24", None)];
const IPV6: Addresses = [
    ("2001:db8:0:a::2/64", Some("2001:db8:0:a::1")),
    ("2001:db8:0:b::2/64", Some("2001:db8:0:b::1")),
];
/// The outside address of the NAT gateway.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Longer than the MTU: it is sent in fragments.
const LONG_DATAGRAM: usize = 4000;

/// Asserts that TCP passes both ways and datagrams from host 0, with addresses as they are.
fn assert_transparent(network: &Network, bytes: usize) {
    for (from, to) in [(0, 1), (1, 0)] {
        assert_eq!(network.transfer(from, to, bytes), network.hosts[from].ip());
    }
    assert_eq!(network.exchange(0, 1, 100), network.hosts[0].ip());
}

#[test]
fn forwarder_passes_everything() {
    with(Network::new("conf/live/forwarder.click", ONE_LINK, &[]), |network| {
        network.hosts[0].ping("10.0.0.3").expect("a reply");
        assert_transparent(network, 4 << 20);
        network.exchange(1, 0, LONG_DATAGRAM);
        network.router.stop();
    });
}

#[test]
fn sdn_forwarder_obeys_its_table() {
    with(Network::new("conf/live/sdn-forwarder.click", ONE_LINK, &[]), |network| {
        network.hosts[0].ping("10.0.0.3").expect("a reply");
        assert_transparent(network, 4 << 20);
        assert_eq!(network.router.drops("table", "rule"), 0);
        let telnet = network.hosts[1].listen(23);
        network.hosts[0].assert_no_connection(telnet.local_addr().expect("an address"));
        assert!(network.router.drops("table", "rule") > 0, "telnet is dropped by a rule");

        let rule = format!("priority=400,udp,tp_dst={SERVICE_PORT} actions=drop");
        network.router.write("table.add", &rule);
        let dropped = network.router.drops("table", "rule");
        let to = (network.hosts[1].ip(), SERVICE_PORT);
        network.hosts[0].udp(0).send_to(b"dropped", to).expect("it is sent");
        network.router.wait_until("a datagram is dropped by the new rule", |router| {
            router.drops("table", "rule") > dropped
        });
        network.router.stop();
    });
}

#[test]
fn ipv6_router_passes_flows() {
    with(Network::new("conf/live/ipv6-router.click", IPV6, &[]), |network| {
        assert_transparent(network, 4 << 20);
        network.router.stop();
    });
}

/// Connections from inside have the gateway's address outside; unsolicited packets are dropped and
/// counted.
fn translate(network: &mut Network) {
    let [inside, outside] = &network.hosts;
    inside.ping("10.0.0.1").expect("a reply of the gateway");
    inside.ping("192.0.2.254").expect("a reply from outside");
    assert_eq!(network.transfer(0, 1, 4 << 20), GATEWAY);
    assert_eq!(network.exchange(0, 1, 100), GATEWAY);
    assert_eq!(network.exchange(0, 1, LONG_DATAGRAM), GATEWAY, "fragments are reassembled");

    // The error is about the translated datagram, and comes back to the socket of the original.
    let client = inside.udp(0);
    client.connect((outside.ip(), SERVICE_PORT)).expect("a route");
    client.send(b"nobody listens").expect("it is sent");
    let error = client.recv(&mut [0; 100]).expect_err("port unreachable");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
}

fn drop_unsolicited(network: &mut Network) {
    let [inside, outside] = &network.hosts;
    // With a route to the inside, the host could send there without the gateway's address.
    outside.namespace.ip("route add 10.0.0.0/24 via 192.0.2.1\n").expect("a route");
    let service = inside.listen(SERVICE_PORT);
    outside.assert_no_connection(SocketAddr::from((GATEWAY, SERVICE_PORT)));
    outside.assert_no_connection(service.local_addr().expect("an address"));
    let syns = network.router.drops("nat", "no flow");
    assert!(syns >= 2, "{syns} packets without a flow");
    outside.udp(0).send_to(b"unsolicited", (GATEWAY, SERVICE_PORT)).expect("it is sent");
    network
        .router
        .wait_until("a datagram is dropped", |router| router.drops("nat", "no flow") > syns);
    outside.send_ping("192.0.2.1");
    network.router.await_handler("unsolicited.count", "1");
    outside.send_ping("10.0.0.2");
    network.router.await_handler("unsolicited.count", "2");
}

#[test]
fn nat_gateway_translates_connections_from_inside() {
    with(Network::new("conf/live/nat-gateway.click", NAT, &[]), |network| {
        translate(network);
        drop_unsolicited(network);
        network.hosts[0].ping("192.0.2.254").expect("a reply, as before");
        network.router.stop();
    });
}

#[test]
fn firewall_lets_the_inside_connect() {
    with(Network::new("conf/live/firewall.click", ONE_LINK, &[]), |network| {
        let [inside, outside] = &network.hosts;
        inside.ping("10.0.0.3").expect("a reply");
        outside.ping("10.0.0.2").expect("a reply: pings are allowed by default");
        assert_eq!(network.transfer(0, 1, 4 << 20), inside.ip());
        assert_eq!(network.exchange(0, 1, 100), inside.ip());
        let client = inside.udp(0);
        client.connect((outside.ip(), SERVICE_PORT)).expect("a route");
        client.send(b"nobody listens").expect("it is sent");
        let error = client.recv(&mut [0; 100]).expect_err("port unreachable");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");

        assert_eq!(network.router.drops("state", "no flow"), 0);
        let service = inside.listen(SERVICE_PORT);
        outside.assert_no_connection(service.local_addr().expect("an address"));
        let syns = network.router.drops("state", "no flow");
        assert!(syns > 0, "the connection was denied by the firewall");
        outside.udp(0).send_to(b"denied", (inside.ip(), SERVICE_PORT)).expect("it is sent");
        network
            .router
            .wait_until("a datagram is denied", |router| router.drops("state", "no flow") > syns);
        network.router.stop();
    });
}

#[test]
fn firewall_obeys_the_lists_of_both_sides() {
    let arguments = [
        "INWARD=allow tcp and dst port 5001, allow udp and dst port 53",
        "OUTWARD=deny tcp and dst port 23, allow tcp or udp",
    ];
    with(Network::new("conf/live/firewall.click", ONE_LINK, &arguments), |network| {
        let [inside, outside] = &network.hosts;
        assert_eq!(network.transfer(1, 0, 4 << 20), outside.ip());
        let denied = inside.listen(SERVICE_PORT + 1);
        outside.assert_no_connection(denied.local_addr().expect("an address"));
        assert!(network.router.drops("state", "no flow") > 0);
        let telnet = outside.listen(23);
        inside.assert_no_connection(telnet.local_addr().expect("an address"));
        assert!(network.router.drops("filter0", "filtered") > 0, "telnet is denied by a line");
        outside.send_ping("10.0.0.2");
        network.router.wait_until("a ping from outside is denied", |router| {
            router.drops("pings", "no flow") == 1
        });
        network.router.stop();
    });
}
