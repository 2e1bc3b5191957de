//! Random flows, groups, meters and frames, over few values so that they meet.

use warpswitch_rules::openflow::{
    Band, BandKind, Bucket, Flow, FlowAction, FlowMatch, Group, GroupType, Instructions,
    MetadataWrite, Meter, Subfield, port,
};
use warpswitch_testkit::random::Random;

use super::{PORTS, TABLES};
use crate::Ingress;
use crate::frame::Packet;
use crate::testing::{by_name, frames, output, set_field};

pub(super) fn pick<T: Clone>(random: &mut Random, items: &[T]) -> T {
    items[random.below(items.len())].clone()
}

/// Fields with few values, by the kind of packets that have them.
const ANY_FIELDS: [&str; 12] = [
    "in_port", "metadata", "reg0", "reg1", "eth_dst", "eth_src", "vlan_tci", "tun_id", "tun_src",
    "tun_dst", "pkt_mark", "xreg0",
];
const IP_FIELDS: [&str; 4] = ["ip_dscp", "nw_ttl", "nw_ecn", "ip_frag"];

fn matching(random: &mut Random) -> FlowMatch {
    let mut matching = FlowMatch::any();
    let mut demand = |random: &mut Random, name: &str| {
        let field = by_name(name);
        let value = match name {
            "nw_ttl" => pick(random, &[1, 2, 63, 64]),
            "vlan_tci" => pick(random, &[0, 0x1064, 0x7064]),
            "ip_src" => 0xc0a8_0a0a + random.below(2) as u128,
            "ip_dscp" => pick(random, &[8, 10, 12]),
            "mpls_label" => pick(random, &[0, 7, 100]),
            "mpls_bos" | "pbb_uca" => random.below(2) as u128,
            "pbb_isid" => pick(random, &[0, 100]),
            "tcp_flags" => pick(random, &[2, 0x12]),
            "ipv6_label" => pick(random, &[0, 100]),
            "ipv6_exthdr" => pick(random, &[0, 64]),
            "eth_dst" | "eth_src" | "tcp_dst" | "udp_dst" => random.below(3) as u128,
            _ => random.below(4) as u128,
        };
        let mask = match field.is_maskable && random.chance(1, 3) {
            true => 1 << random.below(4.min(field.range.bits)),
            false => u128::MAX,
        };
        matching.set(field, value, mask);
    };
    if random.chance(1, 2) {
        let name = pick(random, &ANY_FIELDS);
        demand(random, name);
    }
    let kind = random.below(12);
    let kinds: &[&str] = match kind {
        2..=5 => &["ip_src", "tcp_dst", "tcp_flags"],
        6 => &["udp_dst"],
        7 => &["mpls_label", "mpls_bos"],
        8 => &["arp_op"],
        10 => &["pbb_isid", "pbb_uca"],
        11 => &["ipv6_label", "ipv6_exthdr"],
        _ => &[],
    };
    for &name in kinds {
        if random.chance(1, 3) {
            demand(random, name);
        }
    }
    if (2..=6).contains(&kind) && random.chance(1, 2) {
        let name = pick(random, &IP_FIELDS);
        demand(random, name);
    }
    let mut set = |name: &str, value, mask| _ = matching.set(by_name(name), value, mask);
    let all = u128::MAX;
    match kind {
        2..=5 => (set("eth_type", 0x800, all), set("nw_proto", 6, all)),
        6 => (set("eth_type", 0x86dd, all), set("nw_proto", 17, all)),
        7 => (set("eth_type", 0x8847, all), ()),
        8 => (set("eth_type", 0x806, all), ()),
        9 => (set("vlan_vid", 0x1000, 0x1000), ()),
        10 => (set("eth_type", 0x88e7, all), ()),
        11 => (set("eth_type", 0x86dd, all), ()),
        _ => ((), ()),
    };
    matching
}

fn bits(name: &str, offset: u8, bits: u8) -> Subfield {
    Subfield { field: by_name(name), offset, bits }
}

fn action(random: &mut Random, is_in_set: bool) -> FlowAction {
    let small = random.below(4) as u128;
    match random.below(if is_in_set { 29 } else { 43 }) {
        0..=4 => output(1 + random.below(PORTS as usize) as u32),
        5 => output(pick(random, &RESERVED_PORTS)),
        6 => FlowAction::Group(1 + random.below(4) as u32),
        7 => FlowAction::SetQueue(small as u32),
        8 => FlowAction::PushVlan(pick(random, &[0x8100, 0x88a8])),
        9 => FlowAction::PopVlan,
        10 => FlowAction::PushMpls(pick(random, &[0x8847, 0x8848])),
        11 => FlowAction::PopMpls(pick(random, &[0x800, 0x800, 0x86dd, 0x8847])),
        12 => FlowAction::DecNwTtl,
        13 => FlowAction::DecMplsTtl,
        14 => FlowAction::CopyTtlOut,
        15 => FlowAction::CopyTtlIn,
        16 => FlowAction::SetMplsTtl(pick(random, &[1, 2, 64])),
        17 => FlowAction::PushPbb(0x88e7),
        18 => FlowAction::PopPbb,
        19 => set_field("ip_src", 0xc0a8_0a0a + small),
        20 => set_field("tcp_dst", small),
        21 => set_field(pick(random, &["eth_dst", "eth_src"]), small),
        22 => set_field("ip_dscp", pick(random, &[8, 10, 12])),
        23 => set_field("vlan_vid", 0x1064 + small % 2),
        24 => set_field("reg0", small),
        25 => set_field(pick(random, &["tun_id", "tun_src", "tun_dst", "pkt_mark"]), small),
        26 => set_bits(random, &["eth_dst", "eth_src", "ip_src", "tcp_dst", "vlan_vid"]),
        27 => set_bits(random, &["reg0", "xreg0", "metadata", "tun_id", "tun_dst", "pkt_mark"]),
        28 => set_field("in_port", 1 + small),
        29 => set_field("vlan_tci", pick(random, &[0, 0x1064])),
        30 => copy(bits("eth_src", 0, 8), bits("reg1", 0, 8)),
        31 => copy(bits("reg0", 0, 2), bits("eth_dst", 1, 2)),
        32 => copy(bits("tun_id", 0, 2), bits("tun_dst", 30, 2)),
        33 => copy(bits("pkt_mark", 0, 2), bits("xreg0", 31, 2)),
        34 => copy(bits("xreg0", 0, 40), bits("metadata", 0, 40)),
        35 => FlowAction::OutputBits { source: bits("reg1", 0, 3), max_len: 9 },
        36 | 37 => resubmit(random),
        38 => FlowAction::StackPush(bits("reg0", 0, 2)),
        39 => FlowAction::StackPop(bits("metadata", 1, 2)),
        40 => FlowAction::Controller { max_len: 20, id: 0, reason: 1 },
        41 => FlowAction::PopQueue,
        _ => FlowAction::Exit,
    }
}

const RESERVED_PORTS: [u32; 7] =
    [port::FLOOD, port::ALL, port::IN_PORT, port::CONTROLLER, port::NORMAL, port::LOCAL, PORTS + 9];

/// Sets some bits of one of these fields.
fn set_bits(random: &mut Random, names: &[&str]) -> FlowAction {
    let field = by_name(pick(random, names));
    let mask = pick(random, &[1, 2, 3, 5]);
    FlowAction::SetField { field, value: random.below(8) as u128 & mask, mask }
}

fn copy(source: Subfield, target: Subfield) -> FlowAction {
    FlowAction::Move { source, target }
}

/// Another lookup of the packet as it is now.
fn resubmit(random: &mut Random) -> FlowAction {
    let port = random.chance(1, 3).then_some(2);
    let table = random.chance(7, 8).then(|| random.below(TABLES) as u8);
    FlowAction::Resubmit { port, table }
}

/// Actions whose later ones depend on what earlier ones found in the packet or made of it.
fn recipe(random: &mut Random) -> Vec<FlowAction> {
    let out = |source| FlowAction::OutputBits { source, max_len: 9 };
    let small = random.below(4) as u128;
    match random.below(13) {
        0 => vec![copy(bits("eth_src", 0, 8), bits("reg1", 0, 8)), out(bits("reg1", 0, 3))],
        1 => vec![FlowAction::DecNwTtl, copy(bits("nw_ttl", 0, 1), bits("reg0", 0, 1))],
        2 => vec![FlowAction::PopVlan, output(1)],
        3 => vec![FlowAction::PopMpls(0x800), output(2)],
        4 => vec![
            FlowAction::StackPush(bits("eth_src", 0, 2)),
            FlowAction::StackPop(bits("reg1", 0, 2)),
        ],
        5 => vec![
            FlowAction::PushMpls(0x8848),
            set_field("mpls_label", 7),
            FlowAction::PushMpls(0x8847),
            FlowAction::CopyTtlOut,
            FlowAction::DecMplsTtl,
            resubmit(random),
            FlowAction::PopMpls(0x8848),
            output(2),
            FlowAction::CopyTtlIn,
            FlowAction::PopMpls(0x800),
            resubmit(random),
        ],
        6 => vec![
            FlowAction::PushPbb(0x88e7),
            set_field("pbb_isid", 100 * (small % 2)),
            output(3),
            resubmit(random),
            FlowAction::PushVlan(0x88a8),
            set_bits(random, &["vlan_vid"]),
            output(4),
        ],
        7 => vec![FlowAction::PopPbb, resubmit(random), output(4)],
        8 => vec![
            FlowAction::PushVlan(0x88a8),
            set_bits(random, &["vlan_vid"]),
            FlowAction::PushVlan(0x8100),
            set_field("vlan_pcp", small),
            output(1),
            FlowAction::PopVlan,
            resubmit(random),
            output(2),
        ],
        9 => vec![
            set_field("tun_id", small),
            set_bits(random, &["tun_dst", "tun_src"]),
            resubmit(random),
            output(3),
        ],
        10 => vec![
            set_field("eth_type", pick(random, &[0x800, 0x86dd, 0x8847, 0x9000])),
            resubmit(random),
            output(1),
        ],
        11 => vec![set_field("nw_proto", pick(random, &[1, 6, 17])), resubmit(random), output(1)],
        _ => vec![FlowAction::Group(1 + random.below(4) as u32), output(3)],
    }
}

fn actions(random: &mut Random, is_in_set: bool) -> Vec<FlowAction> {
    if !is_in_set && random.chance(1, 3) {
        return recipe(random);
    }
    (0..random.below(4)).map(|_| action(random, is_in_set)).collect()
}

pub(super) fn flow(random: &mut Random) -> Flow {
    let table = random.below(TABLES) as u8;
    let goto = random.chance(3, 4).then(|| table + 1 + random.below(2) as u8);
    let metadata = MetadataWrite { value: random.below(4) as u64, mask: 3 };
    let instructions = Instructions {
        meter: random.chance(1, 6).then(|| 1 + random.below(2) as u32),
        apply: actions(random, false),
        clear: random.chance(1, 8),
        write: if random.chance(1, 2) { actions(random, true) } else { Vec::new() },
        metadata: random.chance(1, 4).then_some(metadata),
        goto_table: goto.filter(|&next| usize::from(next) < TABLES),
    };
    let mut flow = Flow::new(1 + random.below(4) as u16, matching(random), instructions);
    flow.table = table;
    flow.cookie = random.below(4) as u64;
    flow.idle_timeout = if random.chance(1, 5) { 2 } else { 0 };
    flow.hard_timeout = if random.chance(1, 8) { 5 } else { 0 };
    flow.flags.check_overlap = random.chance(1, 8);
    flow.flags.reset_counts = random.chance(1, 4);
    flow.flags.no_packet_counts = random.chance(1, 8);
    flow
}

pub(super) fn group(random: &mut Random) -> Group {
    let kinds = [GroupType::All, GroupType::Select, GroupType::Indirect, GroupType::FastFailover];
    let kind = pick(random, &kinds);
    let count = if kind == GroupType::Indirect { 1 } else { 1 + random.below(3) };
    let bucket = |random: &mut Random| Bucket {
        weight: match kind {
            GroupType::Select => random.below(3) as u16,
            _ => 0,
        },
        watch_port: match kind {
            GroupType::FastFailover => 1 + random.below(PORTS as usize) as u32,
            _ => port::ANY,
        },
        watch_group: match random.chance(1, 4) {
            true => 1 + random.below(4) as u32,
            false => port::GROUP_ANY,
        },
        actions: match random.chance(1, 3) {
            true => actions(random, true),
            false => vec![set_field("reg0", 1), output(1 + random.below(4) as u32)],
        },
    };
    let buckets = (0..count).map(|_| bucket(random)).collect();
    Group { id: 1 + random.below(4) as u32, kind, buckets }
}

pub(super) fn meter(random: &mut Random) -> Meter {
    let kind = pick(random, &[BandKind::Drop, BandKind::DscpRemark(1)]);
    let band = Band { rate: 1 + random.below(8) as u32, burst: 2, kind };
    let id = 1 + random.below(2) as u32;
    Meter { id, in_packets: true, has_burst: true, has_stats: true, bands: vec![band] }
}

pub(super) fn frame(random: &mut Random) -> Vec<u8> {
    let frame = pick(random, &frames());
    let mut packet = Packet::new(&frame, [0; _], Vec::new());
    let mut set = |name: &str, value: u128| packet.set(by_name(name), value, u128::MAX);
    let small = random.below(3) as u128;
    set("eth_dst", small);
    set("eth_src", random.below(4) as u128);
    set("tcp_dst", random.below(3) as u128);
    set("nw_ttl", pick(random, &[1, 2, 63, 64, 64, 64]));
    set("ip_dscp", pick(random, &[8, 10, 12]));
    set("ip_src", 0xc0a8_0a0a + small % 2);
    set("vlan_vid", 0x1064 + small);
    set("ip_frag", pick(random, &[0, 0, 0, 1, 3]));
    // The same outer headers over different inner ones.
    match random.below(8) {
        0 => {
            packet.edit(&FlowAction::PushVlan(0x8100));
            packet.set(by_name("vlan_tci"), 0x1064, u128::MAX);
        }
        1 => {
            packet.edit(&FlowAction::PushMpls(0x8847));
            packet.edit(&FlowAction::SetMplsTtl(9));
        }
        2 => {
            packet.edit(&FlowAction::PushPbb(0x88e7));
            packet.set(by_name("pbb_isid"), 100, u128::MAX);
        }
        3 => {
            packet.edit(&FlowAction::PushMpls(0x8847));
            packet.edit(&FlowAction::PushMpls(0x8848));
            packet.set(by_name("mpls_label"), 7, u128::MAX);
        }
        _ => {}
    }
    let mut frame = packet.frame().to_vec();
    if random.chance(1, 8) {
        frame.truncate(random.below(54));
    }
    frame
}

/// Where packets come from: a port, and half of them through a tunnel.
pub(super) fn ingress(random: &mut Random) -> Ingress {
    let from = Ingress::from(1 + random.below(PORTS as usize) as u32);
    if random.chance(1, 2) {
        return from;
    }
    let mut small = || random.below(4) as u32;
    let (tun_id, tun_src, tun_dst, pkt_mark) = (small().into(), small(), small(), small());
    Ingress { tun_id, tun_src, tun_dst, pkt_mark, ..from }
}
