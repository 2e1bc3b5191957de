//! What routers are told, of IPv6, and what they send.

use std::net::Ipv6Addr;

use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::ethernet::{EtherType, MacAddr};
use warpswitch_wire::ip::IpProto;

use crate::compare::Expected::{Differ, Same};
use crate::compare::{Expected, Scenario};
use crate::frames::{
    Host, PAUSE, Step, advertisement, filling, host, icmpv6, packet_v6, ping_v6, tcp, to_mac,
    udp_v6, v6,
};

const A: Host = host(0, 10);
const B: Host = host(1, 11);
/// Hosts that no router knows before it has asked.
const STRANGER: Host = host(1, 99);
/// The router, on the link of A.
const ROUTER: Ipv6Addr = host(0, 1).v6;
const ROUTER_LINK: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 0);
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 5);
const GROUP_MAC: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 5]);

/// All scenarios.
pub fn scenarios() -> Vec<Scenario> {
    [
        forwarding(),
        hops_and_lengths(),
        extension_headers(),
        wrong_headers(),
        to_many(),
        strange_addresses(),
        to_the_router(),
        neighbours(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn scenario(name: &'static str, steps: Vec<Step>, expected: Expected) -> Scenario {
    Scenario { name, steps, expected }
}

/// A scenario in which nothing leaves.
fn silence(name: &'static str, steps: Vec<Step>) -> Scenario {
    scenario(name, steps, Same([&[], &[]]))
}

/// A datagram from A to B, changed.
fn a_to_b(bytes: usize, edit: impl FnOnce(&mut warpswitch_wire::ipv6::Ipv6Repr)) -> Step {
    v6(A, B.v6, udp_v6(A.v6, B.v6, bytes), edit)
}

/// A datagram from A to this address.
fn a_to(dst: Ipv6Addr) -> Step {
    v6(A, dst, udp_v6(A.v6, dst, 20), |_| {})
}

/// A datagram from this address to B, in a frame of A's.
fn from_to_b(src: Ipv6Addr) -> Step {
    v6(Host { v6: src, ..A }, B.v6, udp_v6(src, B.v6, 20), |_| {})
}

/// A datagram from A to B behind these bytes of headers, which `first` names.
fn behind(first: IpProto, headers: &[u8]) -> Step {
    let (_, datagram) = udp_v6(A.v6, B.v6, 20);
    v6(A, B.v6, (first, [headers, &datagram].concat()), |_| {})
}

fn forwarding() -> Vec<Scenario> {
    let b_to_a = v6(B, A.v6, udp_v6(B.v6, A.v6, 0), |_| {});
    let segment = tcp(&PseudoHeader::V6 { src: A.v6, dst: B.v6 });
    let marked = |class: u8, label: u32| {
        a_to_b(33, |repr| (repr.traffic_class, repr.flow_label) = (class, label))
    };
    let mut padded = a_to_b(1, |_| {});
    padded.frame.extend([0xee; 9]);
    vec![
        scenario(
            "UDP goes on",
            vec![a_to_b(100, |_| {})],
            Same([&[], &["2001:db8:0:a::a > 2001:db8:0:b::b hops 63 udp"]]),
        ),
        scenario(
            "and back",
            vec![b_to_a],
            Same([&["2001:db8:0:b::b > 2001:db8:0:a::a hops 63 udp"], &[]]),
        ),
        scenario(
            "TCP goes on",
            vec![v6(A, B.v6, segment, |repr| repr.hop_limit = 255)],
            Same([&[], &["2001:db8:0:a::a > 2001:db8:0:b::b hops 254 tcp"]]),
        ),
        scenario(
            "the traffic class and the flow label stay",
            vec![marked(0xb8, 0), marked(0x03, 0xfffff), marked(0xff, 0x12345)],
            Same([&[], &["2001:db8:0:a::a > 2001:db8:0:b::b hops 63 udp"; 3]]),
        ),
        scenario(
            "what nobody knows goes on",
            vec![v6(A, B.v6, (IpProto(253), filling(9)), |_| {})],
            Same([&[], &["2001:db8:0:a::a > 2001:db8:0:b::b hops 63 proto 253"]]),
        ),
        scenario(
            "a header alone goes on",
            vec![v6(A, B.v6, (IpProto::NO_NEXT, Vec::new()), |_| {})],
            Same([&[], &["2001:db8:0:a::a > 2001:db8:0:b::b hops 63 proto 59"]]),
        ),
        scenario(
            "bytes behind the packet stay behind",
            vec![padded],
            Same([&[], &["2001:db8:0:a::a > 2001:db8:0:b::b hops 63 udp"]]),
        ),
    ]
}

fn hops_and_lengths() -> Vec<Scenario> {
    let with = |hops: u8, bytes: usize| a_to_b(bytes, |repr| repr.hop_limit = hops);
    let message =
        |kind: u8| v6(A, B.v6, icmpv6(A.v6, B.v6, kind, &filling(40)), |repr| repr.hop_limit = 1);
    let exceeded: &[&str] = &["2001:db8:0:a::1 > 2001:db8:0:a::a icmp 3/0 0"; 2];
    vec![
        scenario(
            "two hops left",
            vec![with(2, 9)],
            Same([&[], &["2001:db8:0:a::a > 2001:db8:0:b::b hops 1 udp"]]),
        ),
        scenario("one hop left, and none", vec![with(1, 9), with(0, 9)], Same([exceeded, &[]])),
        scenario(
            "as much is quoted as every link can carry",
            vec![with(1, 1300)],
            Same([&exceeded[..1], &[]]),
        ),
        scenario(
            "questions and answers of ICMP are told of",
            vec![message(128), message(129)],
            Same([exceeded, &[]]),
        ),
        silence(
            "errors of ICMP are not, nor those of types to come",
            vec![message(1), message(2), message(3), message(4), message(101)],
        ),
        scenario(
            "as long as the link allows",
            vec![a_to_b(1400 - 48, |_| {})],
            Same([&[], &["2001:db8:0:a::a > 2001:db8:0:b::b hops 63 udp"]]),
        ),
        scenario(
            "longer than the link allows",
            vec![a_to_b(1400 - 47, |_| {})],
            Same([&["2001:db8:0:a::1 > 2001:db8:0:a::a icmp 2/0 1400"], &[]]),
        ),
        scenario("too long, and no hop left", vec![with(1, 1400)], Same([&exceeded[..1], &[]])),
    ]
}

fn extension_headers() -> Vec<Scenario> {
    let udp = IpProto::UDP.0;
    let fine = |name, first, headers: &[u8], line: &'static [&'static str]| {
        scenario(name, vec![behind(first, headers)], Same([&[], line]))
    };
    let eight: &[&str] = &["2001:db8:0:a::a > 2001:db8:0:b::b hops 63 udp behind 8 B"];
    let part: &[&str] = &["2001:db8:0:a::a > 2001:db8:0:b::b hops 63 udp behind 8 B"];
    let both: &[&str] = &["2001:db8:0:a::a > 2001:db8:0:b::b hops 63 udp behind 16 B"];
    let padding = [udp, 0, 1, 4, 0, 0, 0, 0];
    let alert = [udp, 0, 5, 2, 0, 9, 1, 0];
    let destination = [udp, 0, 0x9e, 4, 1, 2, 3, 4];
    let visited = [udp, 0, 4, 0, 0, 0, 0, 0];
    let first_part = [udp, 0, 0, 1, 0, 0, 0, 7];
    let two = [IpProto::DESTINATION.0, 0, 1, 4, 0, 0, 0, 0, udp, 0, 1, 4, 0, 0, 0, 0];
    let unknown_option = [udp, 0, 0x9e, 4, 1, 2, 3, 4];
    vec![
        fine("options for every hop that do nothing", IpProto::HOP_BY_HOP, &padding, eight),
        fine("a router alert", IpProto::HOP_BY_HOP, &alert, eight),
        fine("options for the destination", IpProto::DESTINATION, &destination, eight),
        fine("a route that is done with", IpProto::ROUTING, &visited, eight),
        fine("a first part", IpProto::FRAGMENT, &first_part, part),
        fine("two headers", IpProto::HOP_BY_HOP, &two, both),
        scenario(
            "an option for every hop that nobody knows, and that is to be answered",
            vec![behind(IpProto::HOP_BY_HOP, &unknown_option)],
            Differ {
                kernel: [&["2001:db8:0:a::1 > 2001:db8:0:a::a icmp 4/2 42"], &[]],
                ours: [&[], eight],
                why: "RFC 8200, 4: nodes on the way look at options for every hop only if they \
                      are told to; ours are not",
            },
        ),
    ]
}

fn wrong_headers() -> Vec<Scenario> {
    let broken = |edit: fn(&mut [u8])| {
        let mut step = a_to_b(40, |_| {});
        edit(&mut step.frame[14..]);
        step
    };
    let mut cut = a_to_b(40, |_| {});
    cut.frame.truncate(14 + 60);
    let mut tiny = a_to_b(40, |_| {});
    tiny.frame.truncate(14 + 39);
    vec![
        silence("version 4", vec![broken(|bytes| bytes[0] = 0x45)]),
        silence("version 7", vec![broken(|bytes| bytes[0] = 0x70)]),
        silence("a length of more than there is", vec![broken(|bytes| bytes[4] = 1), cut]),
        silence("not even a header", vec![tiny]),
    ]
}

fn to_many() -> Vec<Scenario> {
    let framed = |dst: Ipv6Addr, mac: MacAddr| {
        let (proto, payload) = udp_v6(A.v6, dst, 20);
        to_mac(A, mac, EtherType::IPV6, &packet_v6(A.v6, dst, proto, &payload, |_| {}))
    };
    let all_nodes: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let mut last_hop = framed(GROUP, GROUP_MAC);
    last_hop.frame[21] = 1;
    vec![
        silence("to one host, in a frame for a group", vec![framed(B.v6, GROUP_MAC)]),
        silence("to one host, in a frame for all", vec![framed(B.v6, MacAddr::BROADCAST)]),
        silence("to one host, in a frame for another router", vec![framed(B.v6, B.mac)]),
        silence("to a group", vec![framed(GROUP, GROUP_MAC), a_to(GROUP), last_hop]),
        silence("to all on the link", vec![framed(all_nodes, MacAddr([0x33, 0x33, 0, 0, 0, 1]))]),
    ]
}

fn strange_addresses() -> Vec<Scenario> {
    let on_link = |number: u16| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number);
    vec![
        scenario(
            "to a network without a route",
            vec![a_to(Ipv6Addr::new(0x2001, 0xdb9, 0, 0, 0, 0, 0, 1))],
            Same([&["2001:db8:0:a::1 > 2001:db8:0:a::a icmp 1/0 0"], &[]]),
        ),
        silence("from nowhere", vec![from_to_b(Ipv6Addr::UNSPECIFIED)]),
        silence("from the loopback", vec![from_to_b(Ipv6Addr::LOCALHOST)]),
        silence("from a group", vec![from_to_b(GROUP)]),
        silence("to the loopback", vec![a_to(Ipv6Addr::LOCALHOST)]),
        scenario(
            "to nowhere",
            vec![a_to(Ipv6Addr::UNSPECIFIED)],
            Differ {
                kernel: [&["2001:db8:0:a::1 > 2001:db8:0:a::a icmp 1/0 0"], &[]],
                ours: [&[], &[]],
                why: "RFC 4291, 2.5.2: neither forwards it; the kernel says so, as of any address \
                      without a route",
            },
        ),
        scenario(
            "from an address of the link",
            vec![from_to_b(on_link(0x10))],
            Differ {
                kernel: [&["fe80::ff:fe00:0 > ff02::1:ff00:10 hops 255 who has fe80::10"], &[]],
                ours: [&[], &[]],
                why: "RFC 4291, 2.5.6: neither forwards it; the kernel looks for the sender, to \
                      tell it that its address does not reach so far (RFC 4443, 3.1)",
            },
        ),
    ]
}

fn to_the_router() -> Vec<Scenario> {
    let far = host(1, 1).v6;
    let echo = |dst: Ipv6Addr| v6(A, dst, ping_v6(A.v6, dst, 56), |repr| repr.hop_limit = 1);
    let mut spoilt = echo(ROUTER);
    spoilt.frame[14 + 40 + 12] ^= 1;
    let (_, message) = ping_v6(A.v6, ROUTER, 40);
    let part = |from: usize, to: usize| {
        let more = u8::from(to < message.len());
        let header = [IpProto::ICMPV6.0, 0, 0, from as u8 | more, 0, 0, 0, 9];
        v6(A, ROUTER, (IpProto::FRAGMENT, [&header, &message[from..to]].concat()), |_| {})
    };
    vec![
        scenario(
            "pings to both addresses are answered, be it the last hop",
            vec![echo(ROUTER), echo(far)],
            Same([
                &[
                    "2001:db8:0:a::1 > 2001:db8:0:a::a icmp 129",
                    "2001:db8:0:b::1 > 2001:db8:0:a::a icmp 129",
                ],
                &[],
            ]),
        ),
        scenario(
            "a ping to the address for the link",
            vec![echo(ROUTER_LINK)],
            Same([&["fe80::ff:fe00:0 > 2001:db8:0:a::a icmp 129"], &[]]),
        ),
        scenario(
            "a ping from the other side",
            vec![v6(B, ROUTER, ping_v6(B.v6, ROUTER, 1000), |_| {})],
            Same([&[], &["2001:db8:0:a::1 > 2001:db8:0:b::b icmp 129"]]),
        ),
        silence("a ping with a wrong checksum", vec![spoilt]),
        scenario(
            "a ping in parts",
            vec![part(0, 24), part(24, 48)],
            Differ {
                kernel: [&["2001:db8:0:a::1 > 2001:db8:0:a::a icmp 129"], &[]],
                ours: [&[], &[]],
                why: "the kernel puts together what is for it (RFC 8200, 4.5); ours has nothing \
                      behind it that would want such packets, and answers whole pings alone",
            },
        ),
        scenario(
            "a port that nobody listens to",
            vec![a_to(ROUTER)],
            Differ {
                kernel: [&["2001:db8:0:a::1 > 2001:db8:0:a::a icmp 1/4 0"], &[]],
                ours: [&[], &[]],
                why: "RFC 4443, 3.1 asks for the answer, but not always: ours keeps silent",
            },
        ),
    ]
}

fn neighbours() -> Vec<Scenario> {
    let ask = |target: Ipv6Addr, hops: u8| {
        let [.., a, b, c] = target.octets();
        let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
        let mut rest = vec![0; 4];
        rest.extend(target.octets());
        rest.extend([1, 1]);
        rest.extend(A.mac.0);
        let (proto, message) = icmpv6(A.v6, group, 135, &rest);
        let packet = packet_v6(A.v6, group, proto, &message, |repr| repr.hop_limit = hops);
        to_mac(A, MacAddr([0x33, 0x33, 0xff, a, b, c]), EtherType::IPV6, &packet)
    };
    let to_stranger = || v6(A, STRANGER.v6, udp_v6(A.v6, STRANGER.v6, 20), |_| {});
    // The kernel tells one host of such things only now and then: this one is told once.
    let (near, other) = (host(0, 12), host(0, 13));
    vec![
        scenario(
            "who asks for the router is told",
            vec![ask(ROUTER, 255), ask(ROUTER_LINK, 255)],
            Same([
                &[
                    "2001:db8:0:a::1 > 2001:db8:0:a::a hops 255 2001:db8:0:a::1 is here",
                    "fe80::ff:fe00:0 > 2001:db8:0:a::a hops 255 fe80::ff:fe00:0 is here",
                ],
                &[],
            ]),
        ),
        silence("who asks for others is not", vec![ask(host(0, 77).v6, 255)]),
        silence("who asks from afar is not", vec![ask(ROUTER, 254)]),
        scenario(
            "an unknown neighbour is asked for, and packets wait for the answer",
            vec![to_stranger(), advertisement(STRANGER), to_stranger()],
            Same([
                &[],
                &[
                    "2001:db8:0:a::a > 2001:db8:0:b::63 hops 63 udp",
                    "2001:db8:0:a::a > 2001:db8:0:b::63 hops 63 udp",
                    "fe80::ff:fe00:100 > ff02::1:ff00:63 hops 255 who has 2001:db8:0:b::63",
                ],
            ]),
        ),
        scenario(
            "an unknown neighbour that never answers",
            vec![to_stranger(), PAUSE],
            Same([
                &["2001:db8:0:a::1 > 2001:db8:0:a::a icmp 1/3 0"],
                &["fe80::ff:fe00:100 > ff02::1:ff00:63 hops 255 who has 2001:db8:0:b::63"],
            ]),
        ),
        scenario(
            "a neighbour that the sender reaches itself",
            vec![v6(other, near.v6, (IpProto(253), filling(20)), |_| {})],
            Differ {
                kernel: [
                    &[
                        "2001:db8:0:a::d > 2001:db8:0:a::c hops 63 proto 253",
                        "fe80::ff:fe00:0 > 2001:db8:0:a::d hops 255 redirect to 2001:db8:0:a::c",
                    ],
                    &[],
                ],
                ours: [&["2001:db8:0:a::d > 2001:db8:0:a::c hops 63 proto 253"], &[]],
                why: "RFC 4861, 8.2: a router should redirect, the kernel does, ours does not",
            },
        ),
    ]
}
