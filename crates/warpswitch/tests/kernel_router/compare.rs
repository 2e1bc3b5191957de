//! What left two routers, made comparable frame by frame.
//!
//! Frames that a router forwards are compared as they are. Of those that it makes itself the
//! standards leave some fields to it; these, and no others, are made equal:
//!
//! | field | why |
//! | --- | --- |
//! | identification of packets that may not be fragments | RFC 6864, 4: any value |
//! | time to live, hop limit | RFC 1812, 4.2.2.9, RFC 4861, 13 excepted: any default will do |
//! | flow label | RFC 6437, 3: the source's affair |
//! | time to live, hop limit and header checksum of a quoted packet | RFC 1812, 4.3.2.3: what forwarding changed need not be undone |
//! | how often a neighbour is asked for | RFC 1122, 2.3.2.1 and RFC 4861, 10 limit it, no more |
//! | the order of a forwarded packet and what is sent because of it | none is given |

use warpswitch_wire::arp::Arp;
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::ethernet::{EtherType, Ethernet, HEADER_BYTES};
use warpswitch_wire::icmp::Icmp;
use warpswitch_wire::icmpv6::Icmpv6;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::Ipv4;
use warpswitch_wire::ipv6::Ipv6;
use warpswitch_wire::ipv6_ext::walk_chain;

use crate::frames::{Step, host};

/// The fewest hops that a packet of a router's own has before it: 64 (RFC 1700), less the one that
/// ours takes from all that leave.
const OWN_HOPS_MIN: u8 = 63;

/// A frame that left.
#[derive(Clone, Debug)]
pub struct Left {
    /// What it is, for people.
    pub line: String,
    /// Its bytes, with what is left open made equal.
    pub bytes: Vec<u8>,
    /// Whether the router made it.
    is_made: bool,
}

/// What should leave, by link: a line per frame.
pub type Lines<'a> = [&'a [&'a str]; 2];

/// What leaves routers that a scenario is played to.
pub enum Expected {
    /// The same leaves both.
    Same(Lines<'static>),
    /// The standards leave a choice, and this is why they differ.
    Differ { kernel: Lines<'static>, ours: Lines<'static>, why: &'static str },
}

/// Frames, and what they lead to.
pub struct Scenario {
    pub name: &'static str,
    pub steps: Vec<Step>,
    pub expected: Expected,
}

/// Tells how what left differs from what should have.
pub fn check(
    scenario: &Scenario,
    kernel: [Vec<Vec<u8>>; 2],
    ours: [Vec<Vec<u8>>; 2],
) -> Result<(), String> {
    let (kernel, ours) = (kernel.map(normal), ours.map(normal));
    let (by_kernel, by_us) = match &scenario.expected {
        Expected::Same(lines) => (lines, lines),
        Expected::Differ { kernel, ours, why } => {
            assert!(!why.is_empty() && kernel != ours, "{}: why?", scenario.name);
            (kernel, ours)
        }
    };
    let mut wrong = String::new();
    for (who, left, expected) in [("kernel", &kernel, by_kernel), ("ours", &ours, by_us)] {
        for (lan, (left, expected)) in left.iter().zip(expected).enumerate() {
            let lines: Vec<&str> = left.iter().map(|left| &left.line[..]).collect();
            if lines != *expected {
                wrong += &format!(
                    "  {who}, lan{lan}:\n    expected {expected:?}\n    got      {lines:?}\n"
                );
            }
        }
    }
    let same = matches!(scenario.expected, Expected::Same(_)).then_some(()).into_iter();
    for ((), lan) in same.flat_map(|()| [((), 0), ((), 1)]) {
        for (kernel, ours) in kernel[lan].iter().zip(&ours[lan]) {
            if kernel.bytes != ours.bytes {
                wrong += &format!(
                    "  lan{lan}, {}:\n    kernel {}\n    ours   {}\n",
                    kernel.line,
                    hex(&kernel.bytes),
                    hex(&ours.bytes)
                );
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{}:\n{wrong}", scenario.name)) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Forwarded frames first, and then what the router made, each in order; repeated questions once.
fn normal(frames: Vec<Vec<u8>>) -> Vec<Left> {
    let mut left: Vec<Left> = frames.into_iter().map(normal_frame).collect();
    left.sort_by_key(|left| left.is_made);
    left.dedup_by(|later, earlier| later.line.contains("who has") && later.bytes == earlier.bytes);
    left
}

fn normal_frame(mut bytes: Vec<u8>) -> Left {
    let (line, is_made) = match Ethernet::new_unchecked(&bytes[..]).ether_type() {
        EtherType::ARP => (describe_arp(&bytes[HEADER_BYTES..]), true),
        EtherType::IPV4 => normal_v4(&mut bytes[HEADER_BYTES..]),
        EtherType::IPV6 => normal_v6(&mut bytes[HEADER_BYTES..]),
        other => (format!("a frame of type {:04x}", other.0), false),
    };
    Left { line, bytes, is_made }
}

fn describe_arp(bytes: &[u8]) -> String {
    let arp = Arp::new_checked(bytes).expect("a whole ARP packet");
    match arp.operation() {
        1 => format!("arp who has {}", arp.target_ip()),
        2 => format!("arp {} is at {}", arp.sender_ip(), arp.sender_mac()),
        other => format!("arp operation {other}"),
    }
}

/// What an IPv4 packet is, and whether the router made it.
fn normal_v4(bytes: &mut [u8]) -> (String, bool) {
    let view = Ipv4::new_checked(&*bytes).expect("a whole packet leaves");
    assert!(view.is_checksum_right(), "{}", hex(bytes));
    let (src, dst, proto) = (view.src(), view.dst(), view.proto());
    let (offset, more) = (view.fragment_offset(), view.more_fragments());
    let (ttl, header_bytes) = (view.ttl(), view.header_bytes());
    // What claims to come from the router, but has come some way, does not.
    let is_made = ttl >= OWN_HOPS_MIN && (0..2).any(|lan| src == host(lan, 1).v4);
    let tos = view.tos();
    let mut line = format!("{src} > {dst} ");
    if is_made && tos & 0x1f != 0 {
        line += &format!("({:02x}) ", tos & 0x1f);
    }
    if is_made {
        bytes[8] = 0;
        bytes[10..12].fill(0);
        if offset == 0 && !more {
            bytes[4..6].fill(0);
        }
    } else {
        line += &format!("ttl {ttl} ");
    }
    line += &match proto {
        IpProto::ICMP if offset == 0 => normal_icmp(&mut bytes[header_bytes..], more),
        IpProto::UDP => "udp".into(),
        IpProto::TCP => "tcp".into(),
        other => format!("proto {}", other.0),
    };
    if offset > 0 || more {
        let data_bytes = bytes.len() - header_bytes;
        let more = if more { "+" } else { "" };
        line += &format!(" frag {data_bytes}@{}{more}", usize::from(offset) * 8);
        if header_bytes > warpswitch_wire::ipv4::HEADER_BYTES {
            line += &format!(" behind {header_bytes} B");
        }
    }
    (line, is_made)
}

/// What an ICMP message says; what it quotes is made comparable.
fn normal_icmp(bytes: &mut [u8], is_fragment: bool) -> String {
    let view = Icmp::new_checked(&*bytes).expect("a whole message");
    let is_right = is_fragment || view.is_checksum_right();
    let (kind, code, rest) = (view.kind(), view.code(), view.rest());
    if !is_right {
        return format!("icmp {kind} with a wrong checksum");
    }
    if !matches!(kind, 3 | 4 | 5 | 11 | 12) {
        return format!("icmp {kind}");
    }
    // The message's own checksum was looked at; it covers what is left open.
    bytes[2..4].fill(0);
    bytes[8 + 8] = 0;
    bytes[8 + 10..8 + 12].fill(0);
    match (kind, code) {
        (3, 4) => format!("icmp 3/4 mtu {rest}"),
        (5, _) => format!("icmp 5/{code} {}", std::net::Ipv4Addr::from(rest)),
        (12, 0) => format!("icmp 12/0 at {}", rest >> 24),
        _ => format!("icmp {kind}/{code}"),
    }
}

/// What an IPv6 packet is, and whether the router made it.
fn normal_v6(bytes: &mut [u8]) -> (String, bool) {
    let view = Ipv6::new_checked(&*bytes).expect("a whole packet leaves");
    let (src, dst, hop_limit) = (view.src(), view.dst(), view.hop_limit());
    let is_link_local = src.is_unicast_link_local();
    let is_own = is_link_local || (0..2).any(|lan| src == host(lan, 1).v6);
    let is_made = is_own && hop_limit >= OWN_HOPS_MIN;
    let chain = walk_chain(view.next_header(), view.payload()).expect("a chain of headers");
    let at = warpswitch_wire::ipv6::HEADER_BYTES + chain.bytes;
    let mut line = format!("{src} > {dst} ");
    // Neighbours are found with 255 alone (RFC 4861, 7.1); so it stays.
    let is_discovery = is_made && chain.proto == IpProto::ICMPV6 && bytes[at] >= 133;
    if is_made {
        bytes[1] &= 0xf0;
        bytes[2..4].fill(0);
    }
    if !is_made || is_discovery {
        line += &format!("hops {hop_limit} ");
    } else {
        bytes[7] = 0;
    }
    line += &match chain.proto {
        IpProto::ICMPV6 => {
            let view = Icmpv6::new_checked(&bytes[at..]).expect("a whole message");
            assert!(view.is_checksum_right(&PseudoHeader::V6 { src, dst }), "{}", hex(bytes));
            normal_icmpv6(&mut bytes[at..])
        }
        IpProto::UDP => "udp".into(),
        IpProto::TCP => "tcp".into(),
        other => format!("proto {}", other.0),
    };
    if chain.bytes > 0 {
        line += &format!(" behind {} B", chain.bytes);
    }
    (line, is_made)
}

fn normal_icmpv6(bytes: &mut [u8]) -> String {
    let (kind, code) = (bytes[0], bytes[1]);
    let word = u32::from_be_bytes(*bytes[4..].first_chunk().expect("a second word"));
    let target = || {
        let octets: [u8; 16] = *bytes[8..].first_chunk().expect("a target");
        std::net::Ipv6Addr::from(octets)
    };
    match kind {
        1..=4 => {
            bytes[2..4].fill(0);
            bytes[8 + 7] = 0;
            format!("icmp {kind}/{code} {word}")
        }
        135 => format!("who has {}", target()),
        136 => format!("{} is here", target()),
        137 => format!("redirect to {}", target()),
        _ => format!("icmp {kind}"),
    }
}
