//! The names that flow text uses, and what each one needs beside it.

use crate::schema::Field;

/// How the value of a name is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A switch port, by number or by reserved name.
    InPort,
    /// An Ethernet address, with or without a mask.
    Mac(Field),
    /// A number that fills the field, without a mask.
    Exact(Field),
    /// A number, with or without a mask.
    Masked(Field),
    /// An IPv4 address, with a prefix length, a mask, or neither.
    Ipv4(Field),
    /// An IPv6 address, with a prefix length, a mask, or neither.
    Ipv6(Field),
    /// A VLAN id, which also demands a tag; `0xffff` demands none.
    DlVlan,
    /// A VLAN id with the bit that says whether there is a tag, with or without a mask.
    VlanVid,
    /// A VLAN priority, which also demands a tag.
    VlanPcp,
    /// The whole VLAN tag control information, with or without a mask.
    VlanTci,
    /// The former type-of-service byte, whose two low bits are ignored.
    Tos,
    /// The upper six bits of that byte.
    Dscp,
    /// The lower two.
    Ecn,
    /// An ICMP type or code: one byte where ports have two.
    Icmp(Field),
    /// TCP flags by name or number.
    TcpFlags,
}

impl Kind {
    /// Whether a value may be followed by a mask.
    pub fn takes_masks(self) -> bool {
        match self {
            Kind::Mac(_)
            | Kind::Masked(_)
            | Kind::Ipv4(_)
            | Kind::Ipv6(_)
            | Kind::VlanVid
            | Kind::VlanTci
            | Kind::TcpFlags => true,
            Kind::InPort
            | Kind::Exact(_)
            | Kind::DlVlan
            | Kind::VlanPcp
            | Kind::Tos
            | Kind::Dscp
            | Kind::Ecn
            | Kind::Icmp(_) => false,
        }
    }
}

/// What a flow must demand for a name to have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing.
    Nothing,
    /// IPv4, ARP or RARP: flow text calls an ARP packet's addresses `nw_src` and `nw_dst` too.
    Ipv4OrArp,
    /// ARP or RARP.
    Arp,
    /// IPv6.
    Ipv6,
    /// IPv4, IPv6, ARP or RARP.
    IpOrArp,
    /// IPv4 or IPv6.
    Ip,
    /// A protocol with ports, or ICMP: OpenFlow 1.0 calls type and code `tp_src` and `tp_dst`.
    Transport,
    /// That IP protocol.
    Proto(u8),
    /// ICMP over IPv4 or ICMPv6 over IPv6.
    Icmp,
    /// ICMPv6 over IPv6.
    Icmpv6,
}

impl Needs {
    /// Whether a flow with this EtherType and IP protocol has it.
    pub fn are_met(self, eth_type: Option<u16>, proto: Option<u8>) -> bool {
        let is_v4 = eth_type == Some(ETH_IPV4);
        let is_v6 = eth_type == Some(ETH_IPV6);
        let is_arp = matches!(eth_type, Some(ETH_ARP | ETH_RARP));
        let is_icmp = is_v4 && proto == Some(1) || is_v6 && proto == Some(58);
        match self {
            Needs::Nothing => true,
            Needs::Ipv4OrArp => is_v4 || is_arp,
            Needs::Arp => is_arp,
            Needs::Ipv6 => is_v6,
            Needs::IpOrArp => is_v4 || is_v6 || is_arp,
            Needs::Ip => is_v4 || is_v6,
            Needs::Transport => (is_v4 || is_v6) && matches!(proto, Some(6 | 17 | 132)) || is_icmp,
            Needs::Proto(number) => (is_v4 || is_v6) && proto == Some(number),
            Needs::Icmp => is_icmp,
            Needs::Icmpv6 => is_v6 && is_icmp,
        }
    }

    /// What to add to a flow that lacks it.
    pub fn words(self) -> &'static str {
        match self {
            Needs::Nothing => "",
            Needs::Ipv4OrArp => "ip or arp (or dl_type=0x0800)",
            Needs::Arp => "arp or rarp (or dl_type=0x0806)",
            Needs::Ipv6 => "ipv6 (or dl_type=0x86dd)",
            Needs::IpOrArp => "ip, ipv6 or arp",
            Needs::Ip => "ip or ipv6",
            Needs::Transport => "tcp, udp, sctp or icmp (tcp6, udp6, sctp6 or icmp6)",
            Needs::Proto(6) => "tcp or tcp6",
            Needs::Proto(17) => "udp or udp6",
            Needs::Proto(_) => "sctp or sctp6",
            Needs::Icmp => "icmp or icmp6",
            Needs::Icmpv6 => "icmp6",
        }
    }
}

pub(super) const ETH_IPV4: u16 = 0x0800;
pub(super) const ETH_ARP: u16 = 0x0806;
pub(super) const ETH_RARP: u16 = 0x8035;
pub(super) const ETH_IPV6: u16 = 0x86dd;

/// A name with a value.
pub(super) struct Name {
    pub name: &'static str,
    pub kind: Kind,
    pub needs: Needs,
}

const fn name(name: &'static str, kind: Kind, needs: Needs) -> Name {
    Name { name, kind, needs }
}

/// Every field name of flow text that a flow key has room for.
#[rustfmt::skip]
pub(super) static NAMES: [Name; 44] = [
    name("in_port",     Kind::InPort,                 Needs::Nothing),
    name("dl_src",      Kind::Mac(Field::EthSrc),     Needs::Nothing),
    name("eth_src",     Kind::Mac(Field::EthSrc),     Needs::Nothing),
    name("dl_dst",      Kind::Mac(Field::EthDst),     Needs::Nothing),
    name("eth_dst",     Kind::Mac(Field::EthDst),     Needs::Nothing),
    name("dl_type",     Kind::Exact(Field::EthType),  Needs::Nothing),
    name("eth_type",    Kind::Exact(Field::EthType),  Needs::Nothing),
    name("dl_vlan",     Kind::DlVlan,                 Needs::Nothing),
    name("vlan_vid",    Kind::VlanVid,                Needs::Nothing),
    name("dl_vlan_pcp", Kind::VlanPcp,                Needs::Nothing),
    name("vlan_pcp",    Kind::VlanPcp,                Needs::Nothing),
    name("vlan_tci",    Kind::VlanTci,                Needs::Nothing),
    name("nw_src",      Kind::Ipv4(Field::Ipv4Src),   Needs::Ipv4OrArp),
    name("ip_src",      Kind::Ipv4(Field::Ipv4Src),   Needs::Ipv4OrArp),
    name("nw_dst",      Kind::Ipv4(Field::Ipv4Dst),   Needs::Ipv4OrArp),
    name("ip_dst",      Kind::Ipv4(Field::Ipv4Dst),   Needs::Ipv4OrArp),
    name("arp_spa",     Kind::Ipv4(Field::Ipv4Src),   Needs::Arp),
    name("arp_tpa",     Kind::Ipv4(Field::Ipv4Dst),   Needs::Arp),
    name("ipv6_src",    Kind::Ipv6(Field::Ipv6Src),   Needs::Ipv6),
    name("ipv6_dst",    Kind::Ipv6(Field::Ipv6Dst),   Needs::Ipv6),
    name("nw_proto",    Kind::Exact(Field::IpProto),  Needs::IpOrArp),
    name("ip_proto",    Kind::Exact(Field::IpProto),  Needs::IpOrArp),
    name("arp_op",      Kind::Exact(Field::IpProto),  Needs::Arp),
    name("nw_tos",      Kind::Tos,                    Needs::Ip),
    name("ip_dscp",     Kind::Dscp,                   Needs::Ip),
    name("nw_ecn",      Kind::Ecn,                    Needs::Ip),
    name("ip_ecn",      Kind::Ecn,                    Needs::Ip),
    name("tp_src",      Kind::Masked(Field::L4Src),   Needs::Transport),
    name("tp_dst",      Kind::Masked(Field::L4Dst),   Needs::Transport),
    name("tcp_src",     Kind::Masked(Field::L4Src),   Needs::Proto(6)),
    name("tcp_dst",     Kind::Masked(Field::L4Dst),   Needs::Proto(6)),
    name("udp_src",     Kind::Masked(Field::L4Src),   Needs::Proto(17)),
    name("udp_dst",     Kind::Masked(Field::L4Dst),   Needs::Proto(17)),
    name("sctp_src",    Kind::Masked(Field::L4Src),   Needs::Proto(132)),
    name("sctp_dst",    Kind::Masked(Field::L4Dst),   Needs::Proto(132)),
    name("icmp_type",   Kind::Icmp(Field::L4Src),     Needs::Icmp),
    name("icmp_code",   Kind::Icmp(Field::L4Dst),     Needs::Icmp),
    name("icmpv6_type", Kind::Icmp(Field::L4Src),     Needs::Icmpv6),
    name("icmpv6_code", Kind::Icmp(Field::L4Dst),     Needs::Icmpv6),
    name("tcp_flags",   Kind::TcpFlags,               Needs::Proto(6)),
    // Names that other parts of this project use for the same fields.
    name("ipv4_src",    Kind::Ipv4(Field::Ipv4Src),   Needs::Ipv4OrArp),
    name("ipv4_dst",    Kind::Ipv4(Field::Ipv4Dst),   Needs::Ipv4OrArp),
    name("l4_src",      Kind::Masked(Field::L4Src),   Needs::Transport),
    name("l4_dst",      Kind::Masked(Field::L4Dst),   Needs::Transport),
];

/// A protocol word, the EtherType that it demands, and the IP protocol.
pub(super) type Shorthand = (&'static str, Option<u16>, Option<u8>);

/// Every protocol word.
pub(super) static SHORTHANDS: [Shorthand; 18] = [
    ("eth", None, None),
    ("ip", Some(ETH_IPV4), None),
    ("ipv4", Some(ETH_IPV4), None),
    ("ip4", Some(ETH_IPV4), None),
    ("icmp", Some(ETH_IPV4), Some(1)),
    ("tcp", Some(ETH_IPV4), Some(6)),
    ("udp", Some(ETH_IPV4), Some(17)),
    ("sctp", Some(ETH_IPV4), Some(132)),
    ("arp", Some(ETH_ARP), None),
    ("rarp", Some(ETH_RARP), None),
    ("ipv6", Some(ETH_IPV6), None),
    ("ip6", Some(ETH_IPV6), None),
    ("icmp6", Some(ETH_IPV6), Some(58)),
    ("tcp6", Some(ETH_IPV6), Some(6)),
    ("udp6", Some(ETH_IPV6), Some(17)),
    ("sctp6", Some(ETH_IPV6), Some(132)),
    ("mpls", Some(0x8847), None),
    ("mplsm", Some(0x8848), None),
];

/// Names with a value that say nothing about which packets match: read over.
pub(super) static IGNORED: [&str; 9] = [
    "cookie",
    "duration",
    "n_packets",
    "n_bytes",
    "idle_age",
    "hard_age",
    "idle_timeout",
    "hard_timeout",
    "importance",
];

/// Words without a value that say nothing about which packets match: read over.
pub(super) static IGNORED_WORDS: [&str; 6] = [
    "send_flow_rem",
    "check_overlap",
    "reset_counts",
    "no_packet_counts",
    "no_byte_counts",
    "allow_hidden_fields",
];

/// How the names of Open vSwitch's other fields start: known, but no part of a flow key here.
pub(super) static ELSEWHERE: [&str; 24] = [
    "metadata",
    "reg",
    "xreg",
    "xxreg",
    "tun_",
    "tunnel_",
    "ct_",
    "pkt_mark",
    "ip_frag",
    "nw_frag",
    "nw_ttl",
    "mpls_",
    "ipv6_label",
    "nd_",
    "arp_sha",
    "arp_tha",
    "packet_type",
    "conj_id",
    "recirc_id",
    "skb_priority",
    "dp_hash",
    "actset_output",
    "nsh_",
    "in_port_oxm",
];

/// The name closest to `wrong`, if one is close.
pub(super) fn suggest(wrong: &str) -> Option<&'static str> {
    let names = NAMES.iter().map(|n| n.name);
    let all = names.chain(SHORTHANDS.iter().map(|s| s.0)).chain(["priority", "table", "actions"]);
    let best = all.map(|name| (distance(wrong, name), name)).min()?;
    (best.0 <= 2 && best.0 < wrong.len()).then_some(best.1)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other;
/// bounded by the length of our own names.
fn distance(wrong: &str, right: &str) -> usize {
    let wrong: Vec<char> = wrong.chars().take(16).collect();
    let right: Vec<char> = right.chars().collect();
    let is_same = |i: usize, j: usize| wrong[i].eq_ignore_ascii_case(&right[j]);
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for i in 0..wrong.len() {
        let mut row = vec![i + 1];
        for j in 0..right.len() {
            let replaced = rows[i][j] + usize::from(!is_same(i, j));
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && is_same(i, j - 1) && is_same(i - 1, j) {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[wrong.len()][right.len()]
}
