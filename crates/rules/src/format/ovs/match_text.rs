//! Matches as `ovs-ofctl dump-flows` prints them.

use std::fmt::Write as _;

use super::names::{ETH_ARP, ETH_RARP, Needs, SHORTHANDS, known};
use super::values::{self, demand_text};
use crate::openflow::{FieldNeeds, Flow, FlowMatch, MatchField};

/// Registers in the order in which they are written.
static REGISTERS: [&str; 16] = [
    "reg0", "reg1", "reg2", "reg3", "reg4", "reg5", "reg6", "reg7", "reg8", "reg9", "reg10",
    "reg11", "reg12", "reg13", "reg14", "reg15",
];

/// A match, with the priority in front unless it is the usual one. Every demand is written, also
/// one that has no meaning without another.
pub(super) fn text(priority: u16, matching: &FlowMatch) -> String {
    let mut out = Writer { matching, out: String::new() };
    if priority != Flow::DEFAULT_PRIORITY {
        out.push(format_args!("priority={priority}"));
    }
    out.field("pkt_mark", "pkt_mark");
    let is_named = out.protocol();
    REGISTERS.iter().for_each(|name| out.field(name, name));
    for name in ["tun_id", "tun_src", "tun_dst", "metadata", "in_port", "in_phy_port"] {
        out.field(name, name);
    }
    out.vlan();
    out.field("dl_src", "eth_src");
    out.field("dl_dst", "eth_dst");
    out.ether_type(is_named);
    out.network(is_named);
    out.transport();
    out.out
}

struct Writer<'a> {
    matching: &'a FlowMatch,
    out: String,
}

impl Writer<'_> {
    /// Appends an item.
    fn push(&mut self, item: std::fmt::Arguments<'_>) {
        let comma = if self.out.is_empty() { "" } else { "," };
        write!(self.out, "{comma}{item}").expect("a String takes every write");
    }

    fn get(&self, field: &str) -> (u128, u128) {
        self.matching.get(known(field))
    }

    /// Appends what is demanded of a field.
    fn field(&mut self, name: &str, field: &str) {
        let (value, mask) = self.get(field);
        if mask != 0 {
            self.push(format_args!("{name}={}", demand_text(known(field), value, mask)));
        }
    }

    fn is(&self, needs: FieldNeeds) -> bool {
        needs.are_met(self.matching)
    }

    /// Appends the protocol word, and returns whether it names the protocol of IP as well.
    fn protocol(&mut self) -> Named {
        let exact = |field: &'static MatchField| self.matching.exact(field);
        let eth_type = exact(known("eth_type")).map(|value| value as u16);
        let proto = exact(known("nw_proto")).map(|value| value as u8);
        if eth_type.is_none() {
            return Named { eth_type: false, proto: false };
        }
        let word = |proto| SHORTHANDS.iter().find(|s| s.1 == eth_type && s.2 == proto);
        let with_proto = proto.and_then(|proto| word(Some(proto)));
        let Some((name, ..)) = with_proto.or(word(None)) else {
            return Named { eth_type: false, proto: false };
        };
        self.push(format_args!("{name}"));
        Named { eth_type: true, proto: with_proto.is_some() }
    }

    fn vlan(&mut self) {
        let (tci, mask) = self.get("vlan_tci");
        let (id, priority) = (tci & 0xfff, tci >> 13);
        match mask {
            0 => {}
            0x1fff if tci & 0x1000 != 0 => self.push(format_args!("dl_vlan={id}")),
            0xf000 if tci & 0x1000 != 0 => self.push(format_args!("dl_vlan_pcp={priority}")),
            0xffff if tci & 0x1000 != 0 => {
                self.push(format_args!("dl_vlan={id},dl_vlan_pcp={priority}"));
            }
            0xffff => self.push(format_args!("vlan_tci={tci:#06x}")),
            _ => self.push(format_args!("vlan_tci={tci:#06x}/{mask:#06x}")),
        }
    }

    fn ether_type(&mut self, named: Named) {
        let (value, mask) = self.get("eth_type");
        match mask {
            0 => {}
            0xffff if named.eth_type => {}
            0xffff => self.push(format_args!("dl_type={value:#06x}")),
            _ => self.push(format_args!("dl_type={value:#06x}/{mask:#06x}")),
        }
        self.field("pbb_isid", "pbb_isid");
        self.field("pbb_uca", "pbb_uca");
    }

    fn network(&mut self, named: Named) {
        let eth_type = self.matching.exact(known("eth_type")).map(|value| value as u16);
        let is_arp = matches!(eth_type, Some(ETH_ARP | ETH_RARP));
        if self.is(FieldNeeds::Ipv6) {
            self.field("ipv6_src", "ipv6_src");
            self.field("ipv6_dst", "ipv6_dst");
            self.ipv6_label();
            self.field("ipv6_exthdr", "ipv6_exthdr");
        } else if is_arp {
            self.field("arp_spa", "arp_spa");
            self.field("arp_tpa", "arp_tpa");
        } else {
            self.field("nw_src", "ip_src");
            self.field("nw_dst", "ip_dst");
        }
        if !named.proto {
            self.field("nw_proto", "nw_proto");
        }
        self.field("arp_op", "arp_op");
        if !self.is(FieldNeeds::Nd) {
            self.field("arp_sha", "arp_sha");
            self.field("arp_tha", "arp_tha");
        }
        let (dscp, mask) = self.get("ip_dscp");
        match mask {
            0 => {}
            0x3f => self.push(format_args!("nw_tos={}", dscp << 2)),
            mask => self.push(format_args!("nw_tos={:#x}/{:#x}", dscp << 2, mask << 2)),
        }
        self.field("nw_ecn", "nw_ecn");
        self.field("nw_ttl", "nw_ttl");
        for name in ["mpls_label", "mpls_tc", "mpls_bos"] {
            self.field(name, name);
        }
        let (value, mask) = self.get("ip_frag");
        if mask != 0 {
            let text = values::fragments_text(value as u8, mask as u8);
            self.push(format_args!("nw_frag={text}"));
        }
    }

    fn ipv6_label(&mut self) {
        let (value, mask) = self.get("ipv6_label");
        match mask {
            0 => {}
            0xf_ffff => self.push(format_args!("ipv6_label={value:#07x}")),
            _ => self.push(format_args!("ipv6_label={value:#07x}/{mask:#07x}")),
        }
    }

    fn transport(&mut self) {
        let is_icmp = Needs::Icmp.are_met(self.matching);
        for (name, port, icmp_name) in
            [("tp_src", "tcp_src", "icmp_type"), ("tp_dst", "tcp_dst", "icmp_code")]
        {
            match self.get(port) {
                (_, 0) => {}
                (value, 0xff) if is_icmp => self.push(format_args!("{icmp_name}={value}")),
                (value, 0xffff) => self.push(format_args!("{name}={value}")),
                (value, mask) => self.push(format_args!("{name}={value:#x}/{mask:#x}")),
            }
        }
        if self.is(FieldNeeds::Nd) {
            for name in ["nd_target", "nd_sll", "nd_tll"] {
                self.field(name, name);
            }
        }
        let (flags, mask) = self.get("tcp_flags");
        if mask != 0 {
            let text = values::tcp_flags_text(flags as u16, mask as u16);
            self.push(format_args!("tcp_flags={text}"));
        }
    }
}

/// What a protocol word has named.
#[derive(Clone, Copy)]
struct Named {
    eth_type: bool,
    proto: bool,
}
