//! What routers are told, of IPv4, and what they send.

use std::net::Ipv4Addr;

use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::ethernet::{EtherType, MacAddr};
use warpswitch_wire::ip::IpProto;

use crate::compare::Expected::{Differ, Same};
use crate::compare::{Expected, Scenario};
use crate::frames::{
    Host, PAUSE, Step, arp, arp_reply, filling, host, icmp, packet_v4, ping, router_mac, tcp,
    to_mac, to_router, udp_v4, v4, v4_broken,
};

const A: Host = host(0, 10);
const B: Host = host(1, 11);
/// Hosts that no router knows before it has asked.
const STRANGER: Host = host(1, 99);
const MULTICAST: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

/// All scenarios.
pub fn scenarios() -> Vec<Scenario> {
    [
        forwarding(),
        time_to_live(),
        too_long(),
        fragments(),
        redirects(),
        wrong_headers(),
        to_many(),
        strange_sources(),
        strange_destinations(),
        to_the_router(),
        neighbours(),
        options(),
        options_and_fragments(),
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
fn a_to_b(bytes: usize, edit: impl FnOnce(&mut warpswitch_wire::ipv4::Ipv4Repr<'_>)) -> Step {
    v4(A, B.v4, udp_v4(A.v4, B.v4, bytes), edit)
}

/// A datagram from A to this address.
fn a_to(dst: Ipv4Addr) -> Step {
    v4(A, dst, udp_v4(A.v4, dst, 20), |_| {})
}

/// A datagram from this address to B, in a frame of A's.
fn from_to_b(src: Ipv4Addr) -> Step {
    v4(Host { v4: src, ..A }, B.v4, udp_v4(src, B.v4, 20), |_| {})
}

fn forwarding() -> Vec<Scenario> {
    let b_to_a = v4(B, A.v4, udp_v4(B.v4, A.v4, 0), |_| {});
    let segment = tcp(&PseudoHeader::V4 { src: A.v4, dst: B.v4 });
    let marked = |tos: u8| a_to_b(33, |repr| repr.tos = tos);
    let mut padded = a_to_b(1, |_| {});
    padded.frame.resize(60, 0xee);
    let one: Expected = Same([&[], &["10.0.0.10 > 10.0.1.11 ttl 63 udp"]]);
    vec![
        scenario("UDP goes on", vec![a_to_b(100, |repr| repr.dont_fragment = true)], one),
        scenario("and back", vec![b_to_a], Same([&["10.0.1.11 > 10.0.0.10 ttl 63 udp"], &[]])),
        scenario(
            "TCP with options goes on",
            vec![v4(A, B.v4, segment, |repr| repr.ttl = 255)],
            Same([&[], &["10.0.0.10 > 10.0.1.11 ttl 254 tcp"]]),
        ),
        scenario(
            "DSCP and ECN stay",
            vec![marked(0xb8), marked(0x01), marked(0x02), marked(0xff)],
            Same([&[], &["10.0.0.10 > 10.0.1.11 ttl 63 udp"; 4]]),
        ),
        scenario(
            "a protocol that nobody knows goes on",
            vec![v4(A, B.v4, (IpProto(253), filling(9)), |_| {})],
            Same([&[], &["10.0.0.10 > 10.0.1.11 ttl 63 proto 253"]]),
        ),
        scenario(
            "a header alone goes on",
            vec![v4(A, B.v4, (IpProto(253), Vec::new()), |_| {})],
            Same([&[], &["10.0.0.10 > 10.0.1.11 ttl 63 proto 253"]]),
        ),
        scenario(
            "a wrong UDP checksum is not the router's affair",
            vec![v4_broken(A, B.v4, true, |bytes| bytes[26] ^= 1)],
            Same([&[], &["10.0.0.10 > 10.0.1.11 ttl 63 udp"]]),
        ),
        scenario(
            "bytes behind the packet stay behind",
            vec![padded],
            Same([&[], &["10.0.0.10 > 10.0.1.11 ttl 63 udp"]]),
        ),
        scenario(
            "as long as the link allows",
            vec![a_to_b(1500 - 28, |repr| repr.dont_fragment = true)],
            Same([&[], &["10.0.0.10 > 10.0.1.11 ttl 63 udp"]]),
        ),
    ]
}

fn time_to_live() -> Vec<Scenario> {
    let with = |ttl: u8, bytes: usize| a_to_b(bytes, |repr| repr.ttl = ttl);
    let message = |kind: u8| v4(A, B.v4, icmp(kind, 0, &filling(40)), |repr| repr.ttl = 1);
    let exceeded: Expected = Same([&["10.0.0.1 > 10.0.0.10 icmp 11/0"], &[]]);
    vec![
        scenario(
            "two hops left",
            vec![with(2, 9)],
            Same([&[], &["10.0.0.10 > 10.0.1.11 ttl 1 udp"]]),
        ),
        scenario("one hop left", vec![with(1, 9)], exceeded),
        scenario(
            "no hop left, and as much is quoted as 576 bytes hold",
            vec![with(0, 1400)],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 11/0"], &[]]),
        ),
        scenario(
            "with options, and of high precedence: the answer has that of control",
            vec![a_to_b(9, |repr| (repr.ttl, repr.tos, repr.options) = (1, 0xe1, &[1; 8]))],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 11/0"], &[]]),
        ),
        scenario(
            "with the former bits for the type of service, and able to notify of congestion",
            vec![a_to_b(9, |repr| (repr.ttl, repr.tos) = (1, 0x12))],
            Differ {
                kernel: [&["10.0.0.1 > 10.0.0.10 (12) icmp 11/0"], &[]],
                ours: [&["10.0.0.1 > 10.0.0.10 icmp 11/0"], &[]],
                why: "RFC 1812, 4.3.2.5 gives errors the type of service of the packet, and the \
                      kernel does; RFC 2474 and RFC 3168 made other fields of these bits, and \
                      errors are class selector 6, not able to notify of congestion",
            },
        ),
        scenario(
            "questions and answers of ICMP are told of",
            vec![message(8), message(0), message(13)],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 11/0"; 3], &[]]),
        ),
        silence(
            "errors of ICMP are not",
            vec![message(3), message(4), message(5), message(11), message(12)],
        ),
        scenario(
            "of a packet that is cut, the first part is told of",
            vec![
                a_to_b(16, |repr| (repr.ttl, repr.more_fragments) = (1, true)),
                a_to_b(16, |repr| (repr.ttl, repr.fragment_offset) = (1, 3)),
            ],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 11/0"], &[]]),
        ),
        scenario(
            "messages of types that nobody knows",
            vec![message(200)],
            Differ {
                kernel: [&[], &[]],
                ours: [&["10.0.0.1 > 10.0.0.10 icmp 11/0"], &[]],
                why: "RFC 1812, 4.3.2.7 forbids answers to errors; the kernel takes unknown types \
                      for some, we do not",
            },
        ),
    ]
}

fn too_long() -> Vec<Scenario> {
    vec![
        scenario(
            "a packet that must not be cut",
            vec![a_to_b(1500 - 27, |repr| repr.dont_fragment = true)],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 3/4 mtu 1500"], &[]]),
        ),
        scenario(
            "one that may be",
            vec![a_to_b(3000, |_| {})],
            Same([
                &[],
                &[
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 1480@0+",
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 1480@1480+",
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 48@2960",
                ],
            ]),
        ),
        scenario(
            "too long, and no hop left",
            vec![a_to_b(3000, |repr| (repr.ttl, repr.dont_fragment) = (1, true))],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 11/0"], &[]]),
        ),
        scenario(
            "marked, and cut",
            vec![a_to_b(1600, |repr| repr.tos = 0xba)],
            Same([
                &[],
                &[
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 1480@0+",
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 128@1480",
                ],
            ]),
        ),
    ]
}

fn fragments() -> Vec<Scenario> {
    vec![
        scenario(
            "parts go on as they are",
            vec![
                a_to_b(16, |repr| repr.more_fragments = true),
                a_to_b(16, |repr| (repr.more_fragments, repr.fragment_offset) = (true, 3)),
                a_to_b(3, |repr| repr.fragment_offset = 6),
            ],
            Same([
                &[],
                &[
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 24@0+",
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 24@24+",
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 11@48",
                ],
            ]),
        ),
        scenario(
            "a part that is too long is cut",
            vec![a_to_b(1992, |repr| (repr.more_fragments, repr.fragment_offset) = (true, 250))],
            Same([
                &[],
                &[
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 1480@2000+",
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 520@3480+",
                ],
            ]),
        ),
        scenario(
            "a last part that is too long is cut",
            vec![a_to_b(1993, |repr| repr.fragment_offset = 250)],
            Same([
                &[],
                &[
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 1480@2000+",
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 521@3480",
                ],
            ]),
        ),
    ]
}

fn redirects() -> Vec<Scenario> {
    // The kernel tells one host of such things only now and then: each is told once.
    let (peer, near, other) = (host(0, 12).v4, host(0, 15), host(0, 13));
    let third = host(0, 16);
    let too_long = v4(third, peer, udp_v4(third.v4, peer, 1600), |repr| repr.dont_fragment = true);
    let guest = Host { v4: B.v4, ..A };
    let far = Host { v4: Ipv4Addr::new(192, 0, 2, 1), ..A };
    vec![
        scenario(
            "a neighbour that the sender reaches itself",
            vec![v4(near, peer, udp_v4(near.v4, peer, 20), |_| {})],
            Same([
                &["10.0.0.15 > 10.0.0.12 ttl 63 udp", "10.0.0.1 > 10.0.0.15 icmp 5/1 10.0.0.12"],
                &[],
            ]),
        ),
        scenario(
            "the same without a hop left: it is not forwarded, so nothing is redirected",
            vec![v4(other, peer, udp_v4(other.v4, peer, 20), |repr| repr.ttl = 1)],
            Same([&["10.0.0.1 > 10.0.0.13 icmp 11/0"], &[]]),
        ),
        scenario(
            "the same, too long: nor is this forwarded",
            vec![too_long],
            Same([&["10.0.0.1 > 10.0.0.16 icmp 3/4 mtu 1500"], &[]]),
        ),
        scenario(
            "from a sender that is not of that link: it is not told",
            vec![
                v4(guest, peer, udp_v4(guest.v4, peer, 20), |_| {}),
                v4(far, peer, udp_v4(far.v4, peer, 20), |_| {}),
            ],
            Same([&["10.0.1.11 > 10.0.0.12 ttl 63 udp", "192.0.2.1 > 10.0.0.12 ttl 63 udp"], &[]]),
        ),
    ]
}

fn wrong_headers() -> Vec<Scenario> {
    let broken = |edit: fn(&mut [u8])| v4_broken(A, B.v4, true, edit);
    let mut cut = a_to_b(40, |_| {});
    cut.frame.truncate(14 + 30);
    let mut tiny = a_to_b(40, |_| {});
    tiny.frame.truncate(14 + 19);
    vec![
        silence("a wrong checksum", vec![v4_broken(A, B.v4, false, |bytes| bytes[10] ^= 1)]),
        silence("version 5", vec![broken(|bytes| bytes[0] = 0x55)]),
        silence("version 6", vec![broken(|bytes| bytes[0] = 0x65)]),
        silence("a header of 16 bytes", vec![broken(|bytes| bytes[0] = 0x44)]),
        silence("shorter than its header", vec![broken(|bytes| bytes[3] = 19)]),
        silence("a length of more than there is", vec![broken(|bytes| bytes[2] = 1), cut]),
        silence("not even a header", vec![tiny]),
        silence(
            "a header of more than there is",
            vec![to_router(
                A,
                EtherType::IPV4,
                &packet_v4(A.v4, B.v4, IpProto::UDP, &[], |repr| repr.options = &[1; 40])[..40],
            )],
        ),
    ]
}

fn to_many() -> Vec<Scenario> {
    let all = MacAddr::BROADCAST;
    let group = MacAddr([1, 0, 0x5e, 1, 2, 3]);
    let framed = |dst: Ipv4Addr, mac: MacAddr| {
        let (proto, payload) = udp_v4(A.v4, dst, 20);
        to_mac(A, mac, EtherType::IPV4, &packet_v4(A.v4, dst, proto, &payload, |_| {}))
    };
    let ping_to = |dst: Ipv4Addr, mac: MacAddr| {
        let (proto, payload) = ping(20);
        to_mac(A, mac, EtherType::IPV4, &packet_v4(A.v4, dst, proto, &payload, |_| {}))
    };
    let mut last_hop = framed(MULTICAST, group);
    last_hop.frame[22] = 1;
    vec![
        silence("to one host, in a frame for all", vec![framed(B.v4, all)]),
        silence("to one host, in a frame for a group", vec![framed(B.v4, group)]),
        silence("to one host, in a frame for another router", vec![framed(B.v4, B.mac)]),
        silence("to all on the link", vec![framed(Ipv4Addr::BROADCAST, all)]),
        silence(
            "to all on the own link, by its network",
            vec![framed([10, 0, 0, 255].into(), all)],
        ),
        silence(
            "to all on the other link",
            vec![framed([10, 0, 1, 255].into(), router_mac(0)), a_to([10, 0, 1, 255].into())],
        ),
        silence("to a group", vec![framed(MULTICAST, group), a_to(MULTICAST)]),
        silence("to a group, without a hop left", vec![last_hop]),
        silence(
            "pings to all and to groups",
            vec![
                ping_to(Ipv4Addr::BROADCAST, all),
                ping_to([10, 0, 0, 255].into(), all),
                ping_to([10, 0, 1, 255].into(), router_mac(0)),
                ping_to([224, 0, 0, 1].into(), MacAddr([1, 0, 0x5e, 0, 0, 1])),
            ],
        ),
    ]
}

fn strange_sources() -> Vec<Scenario> {
    vec![
        silence("from nowhere", vec![from_to_b(Ipv4Addr::UNSPECIFIED)]),
        silence("from all", vec![from_to_b(Ipv4Addr::BROADCAST)]),
        silence("from a group", vec![from_to_b(MULTICAST)]),
        silence("from the loopback", vec![from_to_b(Ipv4Addr::LOCALHOST)]),
        scenario(
            "from all on a link",
            vec![from_to_b([10, 0, 0, 255].into()), from_to_b([10, 0, 1, 255].into())],
            Differ {
                kernel: [
                    &[],
                    &["10.0.0.255 > 10.0.1.11 ttl 63 udp", "10.0.1.255 > 10.0.1.11 ttl 63 udp"],
                ],
                ours: [&[], &[]],
                why: "RFC 1812, 4.2.2.11 and 5.3.7: no host has such an address; the kernel sees \
                      to it where it validates sources by their route (rp_filter)",
            },
        ),
        scenario(
            "from this network",
            vec![from_to_b([0, 1, 2, 3].into())],
            Differ {
                kernel: [&[], &["0.1.2.3 > 10.0.1.11 ttl 63 udp"]],
                ours: [&[], &[]],
                why: "RFC 1812, 5.3.7 counts 0.0.0.0/8 among the martians; the kernel forwards \
                      it, but for 0.0.0.0, for those who want to make it usable",
            },
        ),
        silence(
            "from the router's own addresses",
            vec![from_to_b([10, 0, 0, 1].into()), from_to_b([10, 0, 1, 1].into())],
        ),
        scenario(
            "from the range that is reserved",
            vec![from_to_b([240, 0, 0, 9].into())],
            Differ {
                kernel: [&[], &["240.0.0.9 > 10.0.1.11 ttl 63 udp"]],
                ours: [&[], &[]],
                why: "RFC 1812, 5.3.7 counts 240.0.0.0/4 among the martians; the kernel forwards \
                      it, for those who want to make it usable",
            },
        ),
    ]
}

fn strange_destinations() -> Vec<Scenario> {
    let lost: Ipv4Addr = [198, 51, 100, 9].into();
    let reserved: Ipv4Addr = [240, 0, 0, 9].into();
    let this_network: Ipv4Addr = [0, 1, 2, 3].into();
    // The kernel tells one host of such things only now and then: each is told once.
    let (one, two, three) = (host(0, 17), host(0, 18), host(0, 19));
    vec![
        scenario(
            "to a network without a route",
            vec![v4(one, lost, udp_v4(one.v4, lost, 20), |_| {})],
            Same([&["10.0.0.1 > 10.0.0.17 icmp 3/0"], &[]]),
        ),
        silence("to the loopback", vec![a_to(Ipv4Addr::LOCALHOST)]),
        silence("to nowhere", vec![a_to(Ipv4Addr::UNSPECIFIED)]),
        scenario(
            "to this network",
            vec![v4(three, this_network, udp_v4(three.v4, this_network, 20), |_| {})],
            Differ {
                kernel: [&["10.0.0.1 > 10.0.0.19 icmp 3/0"], &[]],
                ours: [&[], &[]],
                why: "RFC 1812, 5.3.7: neither forwards it; the kernel says so, as of any network \
                      without a route",
            },
        ),
        silence("to and from nowhere", vec![from_to_b([0; 4].into())]),
        scenario(
            "to the range that is reserved",
            vec![v4(two, reserved, udp_v4(two.v4, reserved, 20), |_| {})],
            Differ {
                kernel: [&["10.0.0.1 > 10.0.0.18 icmp 3/0"], &[]],
                ours: [&[], &[]],
                why: "RFC 1812, 5.3.7: neither forwards it; the kernel says so, as of any network \
                      without a route",
            },
        ),
    ]
}

fn to_the_router() -> Vec<Scenario> {
    let (near, far) = (host(0, 1).v4, host(1, 1).v4);
    let echo = |dst: Ipv4Addr| v4(A, dst, ping(56), |repr| repr.ttl = 1);
    let mut spoilt = echo(near);
    spoilt.frame[50] ^= 1;
    let (proto, message) = ping(40);
    let part = |from: usize, to: usize| {
        let part = message[from..to].to_vec();
        v4(A, near, (proto, part), |repr| {
            repr.fragment_offset = (from / 8) as u16;
            repr.more_fragments = to < message.len();
        })
    };
    let segment = tcp(&PseudoHeader::V4 { src: A.v4, dst: near });
    vec![
        scenario(
            "pings to both addresses are answered, be it the last hop",
            vec![echo(near), echo(far)],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 0", "10.0.1.1 > 10.0.0.10 icmp 0"], &[]]),
        ),
        scenario(
            "a ping from the other side",
            vec![v4(B, near, ping(1000), |repr| repr.tos = 0x20)],
            Same([&[], &["10.0.0.1 > 10.0.1.11 icmp 0"]]),
        ),
        silence("a ping with a wrong checksum", vec![spoilt]),
        scenario(
            "a ping in parts",
            vec![part(24, 48), part(0, 24)],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 0"], &[]]),
        ),
        silence("a ping's answer", vec![v4(A, near, icmp(0, 0, &filling(20)), |_| {})]),
        scenario(
            "a port that nobody listens to",
            vec![a_to(near)],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 3/3"], &[]]),
        ),
        silence("the same, with a wrong checksum", vec![v4_broken(A, near, true, |b| b[26] ^= 1)]),
        scenario(
            "the same of its address on the other link",
            vec![a_to(far)],
            Differ {
                kernel: [&["10.0.1.1 > 10.0.0.10 icmp 3/3"], &[]],
                ours: [&["10.0.0.1 > 10.0.0.10 icmp 3/3"], &[]],
                why: "RFC 1812, 4.3.2.4 gives errors an address of the interface that they leave \
                      by; the kernel speaks as the host that was addressed",
            },
        ),
        scenario(
            "a protocol that it does not speak",
            vec![v4(A, near, (IpProto(253), filling(20)), |_| {})],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 3/2"], &[]]),
        ),
        scenario(
            "a connection that nobody takes",
            vec![v4(A, near, segment, |_| {})],
            Differ {
                kernel: [&["10.0.0.1 > 10.0.0.10 tcp"], &[]],
                ours: [&[], &[]],
                why: "a reset is TCP's answer, and no TCP is behind this router: it stays silent, \
                      as a firewall's stealth mode does",
            },
        ),
    ]
}

fn neighbours() -> Vec<Scenario> {
    let (router, near) = (router_mac(0), host(0, 1).v4);
    let ask = |dst: MacAddr, target: Ipv4Addr| arp(A, dst, 1, (MacAddr([0; 6]), target));
    let to_stranger = || v4(A, STRANGER.v4, udp_v4(A.v4, STRANGER.v4, 20), |_| {});
    let mut short = ask(MacAddr::BROADCAST, near);
    short.frame.truncate(30);
    let probe = Host { v4: Ipv4Addr::UNSPECIFIED, ..A };
    vec![
        scenario(
            "who asks for the router is told",
            vec![ask(MacAddr::BROADCAST, near), ask(router, near)],
            Same([&["arp 10.0.0.1 is at 02:00:00:00:00:00"; 2], &[]]),
        ),
        silence("who asks for others is not", vec![ask(MacAddr::BROADCAST, host(0, 77).v4)]),
        scenario(
            "who has no address yet is told that this one is taken",
            vec![arp(probe, MacAddr::BROADCAST, 1, (MacAddr([0; 6]), near))],
            Same([&["arp 10.0.0.1 is at 02:00:00:00:00:00"], &[]]),
        ),
        silence("half a question", vec![short]),
        scenario(
            "an unknown neighbour is asked for, and packets wait for the answer",
            vec![to_stranger(), arp_reply(STRANGER), to_stranger()],
            Same([
                &[],
                &[
                    "10.0.0.10 > 10.0.1.99 ttl 63 udp",
                    "10.0.0.10 > 10.0.1.99 ttl 63 udp",
                    "arp who has 10.0.1.99",
                ],
            ]),
        ),
        scenario(
            "an unknown neighbour that never answers",
            vec![to_stranger(), PAUSE],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 3/1"], &["arp who has 10.0.1.99"]]),
        ),
    ]
}

fn with_options(options: &'static [u8]) -> Step {
    a_to_b(24, |repr| repr.options = options)
}

fn options() -> Vec<Scenario> {
    let on: &[&str] = &["10.0.0.10 > 10.0.1.11 ttl 63 udp"];
    let problem = |at: u8| match at {
        22 => Same([&["10.0.0.1 > 10.0.0.10 icmp 12/0 at 22"], &[]]),
        _ => Same([&["10.0.0.1 > 10.0.0.10 icmp 12/0 at 23"], &[]]),
    };
    let wrong = |name, options, at| scenario(name, vec![with_options(options)], problem(at));
    let fine = |name, options| scenario(name, vec![with_options(options)], Same([&[], on]));
    vec![
        fine("options that do nothing", &[1, 1, 1, 0]),
        fine("the route is recorded", &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        fine("behind others", &[1, 7, 11, 8, 9, 9, 9, 9, 0, 0, 0, 0]),
        fine("a route that is full", &[7, 7, 8, 9, 9, 9, 9, 0]),
        fine("times that are full: who found no room is counted", &[68, 8, 9, 0x30, 0, 0, 0, 9]),
        fine("a time that others are asked for", &[68, 12, 5, 3, 9, 9, 9, 9, 0, 0, 0, 0]),
        fine("a router alert", &[148, 4, 0, 0]),
        fine("an option that nobody knows", &[30, 4, 1, 2]),
        scenario(
            "options whose length cannot be",
            vec![with_options(&[7, 0, 4, 0]), with_options(&[7, 12, 4, 0, 0, 0, 0, 0])],
            Differ {
                kernel: [&["10.0.0.1 > 10.0.0.10 icmp 12/0 at 20"; 2], &[]],
                ours: [&["10.0.0.1 > 10.0.0.10 icmp 12/0 at 21"; 2], &[]],
                why: "RFC 792 points to the octet where the error is: to us the length, to the \
                      kernel the option",
            },
        ),
        wrong("an option that ends behind its kind", &[1, 1, 1, 7], 23),
        wrong("a route that points before its start", &[7, 7, 3, 0, 0, 0, 0, 0], 22),
        wrong("a route that points across its end", &[7, 7, 6, 0, 0, 0, 0, 0], 22),
        wrong("times that point before their start", &[68, 8, 4, 0, 0, 0, 0, 0], 22),
        wrong("too many found no room", &[68, 8, 9, 0xf0, 0, 0, 0, 9], 23),
        scenario(
            "a wrong option without a hop left",
            vec![a_to_b(9, |repr| (repr.ttl, repr.options) = (1, &[7, 7, 3, 0, 0, 0, 0, 0]))],
            Same([&["10.0.0.1 > 10.0.0.10 icmp 12/0 at 22"], &[]]),
        ),
        scenario(
            "a source route that leads through others",
            vec![with_options(&[131, 7, 4, 10, 0, 1, 12, 0])],
            Differ {
                kernel: [&[], &[]],
                ours: [&[], on],
                why: "RFC 1812, 5.3.13.4 wants source routes obeyed, RFC 7126, 4.3 dropped; the \
                      kernel drops all, ours forwards those whose next stop is another host",
            },
        ),
    ]
}

fn options_and_fragments() -> Vec<Scenario> {
    vec![scenario(
        "options that are not copied",
        vec![a_to_b(1600, |repr| repr.options = &[7, 7, 4, 0, 0, 0, 0, 0])],
        Differ {
            kernel: [
                &[],
                &[
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 1472@0+ behind 28 B",
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 136@1472 behind 28 B",
                ],
            ],
            ours: [
                &[],
                &[
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 1472@0+ behind 28 B",
                    "10.0.0.10 > 10.0.1.11 ttl 63 udp frag 136@1472",
                ],
            ],
            why: "RFC 791, 3.2 copies options that ask for it; in later parts the kernel writes \
                  no-operations in place of others, we leave them out",
        },
    )]
}
