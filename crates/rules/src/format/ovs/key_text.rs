//! Packets as text: the fields that a packet of its protocol has, in the layout of
//! `ofproto/trace`.

use super::match_text;
use super::names::{ETH_ARP, ETH_IPV4, ETH_IPV6, ETH_RARP, known};
use crate::openflow::{Flow, FlowKey, FlowMatch};

/// Fields that every packet has, and those that are written if they are not zero.
static LINK: [&str; 5] = ["in_port", "vlan_tci", "eth_src", "eth_dst", "eth_type"];
static METADATA: [&str; 22] = [
    "in_phy_port",
    "metadata",
    "tun_id",
    "tun_src",
    "tun_dst",
    "pkt_mark",
    "reg0",
    "reg1",
    "reg2",
    "reg3",
    "reg4",
    "reg5",
    "reg6",
    "reg7",
    "reg8",
    "reg9",
    "reg10",
    "reg11",
    "reg12",
    "reg13",
    "reg14",
    "reg15",
];
static IP: [&str; 5] = ["nw_proto", "ip_dscp", "nw_ecn", "nw_ttl", "ip_frag"];

pub(super) fn text(key: &FlowKey) -> String {
    let mut mask = [0; crate::openflow::FLOW_WORDS];
    let read = |name: &str| known(name).range.read(key);
    let mut examine = |names: &[&str]| {
        names.iter().for_each(|name| known(name).range.write(&mut mask, u128::MAX));
    };
    examine(&LINK);
    METADATA.iter().filter(|name| read(name) != 0).for_each(|name| examine(&[name]));
    let is_first = read("ip_frag") & 2 == 0;
    let proto = read("nw_proto") as u8;
    match read("eth_type") as u16 {
        ETH_IPV4 => {
            examine(&["ip_src", "ip_dst"]);
            examine(&IP);
        }
        ETH_IPV6 => {
            examine(&["ipv6_src", "ipv6_dst", "ipv6_label"]);
            examine(&IP);
            if read("ipv6_exthdr") != 0 {
                examine(&["ipv6_exthdr"]);
            }
        }
        ETH_ARP | ETH_RARP => examine(&["arp_op", "arp_spa", "arp_tpa", "arp_sha", "arp_tha"]),
        0x8847 | 0x8848 => examine(&["mpls_label", "mpls_tc", "mpls_bos"]),
        0x88e7 => examine(&["pbb_isid", "pbb_uca"]),
        _ => {}
    }
    let is_v6 = read("eth_type") as u16 == ETH_IPV6;
    let is_ip = is_v6 || read("eth_type") as u16 == ETH_IPV4;
    match proto {
        _ if !is_ip || !is_first => {}
        6 => examine(&["tcp_src", "tcp_dst", "tcp_flags"]),
        17 | 132 => examine(&["tcp_src", "tcp_dst"]),
        1 if !is_v6 => examine(&["icmp_type", "icmp_code"]),
        58 if is_v6 => {
            examine(&["icmpv6_type", "icmpv6_code"]);
            match read("icmpv6_type") {
                135 => examine(&["nd_target", "nd_sll"]),
                136 => examine(&["nd_target", "nd_tll"]),
                _ => {}
            }
        }
        _ => {}
    }
    match_text::text(Flow::DEFAULT_PRIORITY, &FlowMatch::new(key, &mask))
}
