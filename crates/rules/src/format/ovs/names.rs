//! The names of flow text: match fields with their aliases, how each value is written, what each
//! needs beside it, and the words that stand for protocols.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::openflow::{FIELDS, FieldNeeds, FlowMatch, MatchField, field};

/// How the value of a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// In the notation of the field.
    Plain,
    /// A switch port, by number or by reserved name.
    Port,
    /// A VLAN id, which also demands a tag; `0xffff` demands none.
    DlVlan,
    /// A VLAN id with the bit that marks a tag as present.
    VlanVid,
    /// A VLAN priority, which also demands a tag.
    VlanPcp,
    /// The whole VLAN tag control information.
    VlanTci,
    /// The former type-of-service byte, whose two low bits are ignored.
    Tos,
    /// TCP flags by name or number.
    TcpFlags,
    /// Which fragments, by name or number.
    Frag,
    /// A port, or the type or code of ICMP: OpenFlow 1.0 calls these `tp_src` and `tp_dst`.
    Transport,
    /// A protocol of IP, or the operation of ARP.
    Proto,
}

/// What a flow must demand for a name to have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// The needs of the field.
    Field(FieldNeeds),
    /// IPv4, ARP or RARP: flow text calls an ARP packet's addresses `nw_src` and `nw_dst` too.
    Ipv4OrArp,
    /// IPv4, IPv6, ARP or RARP.
    IpOrArp,
    /// A protocol with ports, or ICMP.
    Transport,
    /// ICMP over IPv4 or ICMPv6 over IPv6.
    Icmp,
}

impl Needs {
    /// Whether `matching` demands it.
    pub fn are_met(self, matching: &FlowMatch) -> bool {
        let any = |needs: &[FieldNeeds]| needs.iter().any(|needs| needs.are_met(matching));
        match self {
            Needs::Field(needs) => needs.are_met(matching),
            Needs::Ipv4OrArp => any(&[FieldNeeds::Ipv4, FieldNeeds::Arp]),
            Needs::IpOrArp => any(&[FieldNeeds::Ip, FieldNeeds::Arp]),
            Needs::Transport => {
                any(&[6, 17, 132].map(FieldNeeds::Proto)) || Needs::Icmp.are_met(matching)
            }
            Needs::Icmp => any(&[FieldNeeds::Icmpv4, FieldNeeds::Icmpv6]),
        }
    }

    /// What to add to a flow that lacks it.
    pub fn words(self) -> &'static str {
        match self {
            Needs::Field(needs) => needs.words(),
            Needs::Ipv4OrArp => "ip or arp (or dl_type=0x0800)",
            Needs::IpOrArp => "ip, ipv6 or arp",
            Needs::Transport => "tcp, udp, sctp or icmp (tcp6, udp6, sctp6 or icmp6)",
            Needs::Icmp => "icmp or icmp6",
        }
    }
}

pub(super) const ETH_IPV4: u16 = 0x0800;
pub(super) const ETH_ARP: u16 = 0x0806;
pub(super) const ETH_RARP: u16 = 0x8035;
pub(super) const ETH_IPV6: u16 = 0x86dd;

/// A name with a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub name: &'static str,
    pub field: &'static MatchField,
    pub style: Style,
    pub needs: Needs,
}

/// The name, if flow text has it.
pub(super) fn find(name: &str) -> Option<&'static Name> {
    static NAMES: LazyLock<HashMap<String, Name>> = LazyLock::new(|| {
        let own = FIELDS.iter().map(|field| (field.name, field.name));
        let short = own.chain(ALIASES).map(|(alias, field)| (alias.to_owned(), make(alias, field)));
        let written = FIELDS.iter().map(|f| (long_name(f), make(f.name, f.name)));
        let read = LONG_ALIASES.map(|(long, f)| (long.to_owned(), make(known(f).name, f)));
        short.chain(written).chain(read).collect()
    });
    NAMES.get(name)
}

/// A field that exists.
pub(super) fn known(name: &str) -> &'static MatchField {
    field(name).expect("the tables of names have fields that exist")
}

fn make(alias: &'static str, field_name: &str) -> Name {
    let field = known(field_name);
    let plain = Needs::Field(field.needs);
    let nothing = Needs::Field(FieldNeeds::Nothing);
    let (style, needs) = match alias {
        "dl_vlan" => (Style::DlVlan, nothing),
        "dl_vlan_pcp" | "vlan_pcp" => (Style::VlanPcp, nothing),
        "nw_src" | "ip_src" | "ipv4_src" | "nw_dst" | "ip_dst" | "ipv4_dst" => {
            (Style::Plain, Needs::Ipv4OrArp)
        }
        "nw_proto" | "ip_proto" => (Style::Proto, Needs::IpOrArp),
        "tp_src" | "tp_dst" | "l4_src" | "l4_dst" => (Style::Transport, Needs::Transport),
        "icmp_type" | "icmp_code" => (Style::Plain, Needs::Icmp),
        _ => match field.name {
            "in_port" | "in_phy_port" => (Style::Port, plain),
            "vlan_vid" => (Style::VlanVid, plain),
            "vlan_pcp" => (Style::VlanPcp, nothing),
            "vlan_tci" => (Style::VlanTci, plain),
            "nw_tos" => (Style::Tos, plain),
            "tcp_flags" => (Style::TcpFlags, plain),
            "ip_frag" => (Style::Frag, plain),
            _ => (Style::Plain, plain),
        },
    };
    Name { name: alias, field, style, needs }
}

/// Other names of fields.
#[rustfmt::skip]
static ALIASES: [(&str, &str); 18] = [
    ("dl_src", "eth_src"),       ("dl_dst", "eth_dst"),       ("dl_type", "eth_type"),
    ("dl_vlan", "vlan_vid"),     ("dl_vlan_pcp", "vlan_pcp"), ("in_port_oxm", "in_port"),
    ("nw_src", "ip_src"),        ("nw_dst", "ip_dst"),        ("ip_proto", "nw_proto"),
    ("ip_ecn", "nw_ecn"),        ("nw_frag", "ip_frag"),      ("tunnel_id", "tun_id"),
    ("tp_src", "tcp_src"),       ("tp_dst", "tcp_dst"),
    // Names that other parts of this project use for the same fields.
    ("ipv4_src", "ip_src"),      ("ipv4_dst", "ip_dst"),
    ("l4_src", "tcp_src"),       ("l4_dst", "tcp_dst"),
];

/// The name of a field in actions that name bits, as `ovs-ofctl` prints it.
pub(super) fn long_name(field: &MatchField) -> String {
    match LONG_NAMES.iter().find(|(name, _)| *name == field.name) {
        Some((_, long)) => (*long).to_owned(),
        None if field.name.starts_with("xreg") => format!("OXM_OF_PKT_REG{}", &field.name[4..]),
        None if field.name.contains("reg") => format!("NXM_NX_{}", field.name.to_uppercase()),
        None => format!("OXM_OF_{}", field.name.to_uppercase()),
    }
}

/// The long names that do not follow from the field's name.
#[rustfmt::skip]
static LONG_NAMES: [(&str, &str); 39] = [
    ("eth_dst", "NXM_OF_ETH_DST"),           ("eth_src", "NXM_OF_ETH_SRC"),
    ("eth_type", "NXM_OF_ETH_TYPE"),         ("nw_ecn", "NXM_NX_IP_ECN"),
    ("nw_proto", "NXM_OF_IP_PROTO"),         ("ip_src", "NXM_OF_IP_SRC"),
    ("ip_dst", "NXM_OF_IP_DST"),             ("tcp_src", "NXM_OF_TCP_SRC"),
    ("tcp_dst", "NXM_OF_TCP_DST"),           ("udp_src", "NXM_OF_UDP_SRC"),
    ("udp_dst", "NXM_OF_UDP_DST"),           ("icmp_type", "NXM_OF_ICMP_TYPE"),
    ("icmp_code", "NXM_OF_ICMP_CODE"),       ("arp_op", "NXM_OF_ARP_OP"),
    ("arp_spa", "NXM_OF_ARP_SPA"),           ("arp_tpa", "NXM_OF_ARP_TPA"),
    ("arp_sha", "NXM_NX_ARP_SHA"),           ("arp_tha", "NXM_NX_ARP_THA"),
    ("ipv6_src", "NXM_NX_IPV6_SRC"),         ("ipv6_dst", "NXM_NX_IPV6_DST"),
    ("ipv6_label", "NXM_NX_IPV6_LABEL"),     ("icmpv6_type", "NXM_NX_ICMPV6_TYPE"),
    ("icmpv6_code", "NXM_NX_ICMPV6_CODE"),   ("nd_target", "NXM_NX_ND_TARGET"),
    ("nd_sll", "NXM_NX_ND_SLL"),             ("nd_tll", "NXM_NX_ND_TLL"),
    ("tun_id", "NXM_NX_TUN_ID"),             ("ip_frag", "NXM_NX_IP_FRAG"),
    ("nw_ttl", "NXM_NX_IP_TTL"),             ("tun_src", "NXM_NX_TUN_IPV4_SRC"),
    ("tun_dst", "NXM_NX_TUN_IPV4_DST"),      ("pkt_mark", "NXM_NX_PKT_MARK"),
    ("tcp_flags", "NXM_NX_TCP_FLAGS"),       ("vlan_tci", "NXM_OF_VLAN_TCI"),
    ("nw_tos", "NXM_OF_IP_TOS"),             ("in_port", "OXM_OF_IN_PORT"),
    ("in_phy_port", "OXM_OF_IN_PHY_PORT"),   ("metadata", "OXM_OF_METADATA"),
    ("vlan_vid", "OXM_OF_VLAN_VID"),
];

/// Long names that are read beside those that are written.
#[rustfmt::skip]
static LONG_ALIASES: [(&str, &str); 30] = [
    ("NXM_OF_IN_PORT", "in_port"),       ("OXM_OF_ETH_DST", "eth_dst"),
    ("OXM_OF_ETH_SRC", "eth_src"),       ("OXM_OF_ETH_TYPE", "eth_type"),
    ("OXM_OF_IP_ECN", "nw_ecn"),         ("OXM_OF_IP_PROTO", "nw_proto"),
    ("OXM_OF_IPV4_SRC", "ip_src"),       ("OXM_OF_IPV4_DST", "ip_dst"),
    ("OXM_OF_TCP_SRC", "tcp_src"),       ("OXM_OF_TCP_DST", "tcp_dst"),
    ("OXM_OF_UDP_SRC", "udp_src"),       ("OXM_OF_UDP_DST", "udp_dst"),
    ("OXM_OF_ICMPV4_TYPE", "icmp_type"), ("OXM_OF_ICMPV4_CODE", "icmp_code"),
    ("OXM_OF_ARP_OP", "arp_op"),         ("OXM_OF_ARP_SPA", "arp_spa"),
    ("OXM_OF_ARP_TPA", "arp_tpa"),       ("OXM_OF_ARP_SHA", "arp_sha"),
    ("OXM_OF_ARP_THA", "arp_tha"),       ("OXM_OF_IPV6_SRC", "ipv6_src"),
    ("OXM_OF_IPV6_DST", "ipv6_dst"),     ("OXM_OF_IPV6_FLABEL", "ipv6_label"),
    ("OXM_OF_ICMPV6_TYPE", "icmpv6_type"), ("OXM_OF_ICMPV6_CODE", "icmpv6_code"),
    ("OXM_OF_IPV6_ND_TARGET", "nd_target"), ("OXM_OF_IPV6_ND_SLL", "nd_sll"),
    ("OXM_OF_IPV6_ND_TLL", "nd_tll"),    ("OXM_OF_TUNNEL_ID", "tun_id"),
    ("OXM_OF_TCP_FLAGS", "tcp_flags"),   ("ONFOXM_ET_TCP_FLAGS", "tcp_flags"),
];

/// A protocol word, the EtherType that it demands, and the IP protocol.
pub(super) type Shorthand = (&'static str, Option<u16>, Option<u8>);

/// Every protocol word; of several with one meaning the first is written.
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

/// How the names of Open vSwitch's other fields start: known, but no part of a flow key here.
pub(super) static ELSEWHERE: [&str; 14] = [
    "tun_",
    "tunnel_",
    "ct_",
    "nw_frag",
    "mpls_ttl",
    "nd_",
    "packet_type",
    "conj_id",
    "recirc_id",
    "skb_priority",
    "dp_hash",
    "actset_output",
    "nsh_",
    "dl_vlan1",
];

/// The name closest to `wrong`, if one is close.
pub(super) fn suggest(wrong: &str) -> Option<&'static str> {
    let own = FIELDS.iter().map(|field| field.name);
    let words = SHORTHANDS.iter().map(|s| s.0).chain(["priority", "table", "actions"]);
    closest(wrong, own.chain(ALIASES.iter().map(|a| a.0)).chain(words))
}

/// The candidate closest to `wrong`, if one is close.
pub(super) fn closest(
    wrong: &str,
    candidates: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    let best = candidates.map(|name| (distance(wrong, name), name)).min()?;
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
