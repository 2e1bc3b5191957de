//! Cached flows in the notation of `ovs-appctl dpctl/dump-flows`.
//!
//! ```text
//! recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(dst=10.0.0.0/255.0.0.0),
//!     packets:5, bytes:490, used:0.512s, actions:set(ipv4(dst=10.0.0.9)),2       (on one line)
//! ```
//! Only bits by which the cache finds the flow are shown; so are the headers that its packets have.

use std::fmt::Write as _;

use warpswitch_flow::CachedFlow;
use warpswitch_pipeline::Pipeline;
use warpswitch_pipeline::frame::shape_ether_type;
use warpswitch_rules::openflow::{FlowKey, field};

use super::datapath::{
    ARP, ARP_MEMBERS, DatapathText, ETHERNET, ICMP, IPV4, IPV4_MEMBERS, IPV6, IPV6_MEMBERS, Member,
    ND, PORTS, hex, is_mpls,
};

/// TCP flags, the lowest bit first.
const TCP_FLAGS: [&str; 9] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns"];

/// One line of the dump, without its end.
pub(crate) fn cached_flow_text(pipeline: &Pipeline, flow: &CachedFlow<'_>) -> String {
    let actions =
        DatapathText::new(pipeline, flow.key, flow.shape).known(flow.mask).text(flow.steps);
    let used = match flow.idle_ns {
        None => "never".to_owned(),
        Some(idle_ns) => format!("{:.3}s", idle_ns as f64 / 1e9),
    };
    let matching = MatchText { key: &flow.key, mask: &flow.mask }.text(flow.shape);
    let CachedFlow { packets, bytes, .. } = flow;
    format!("{matching}, packets:{packets}, bytes:{bytes}, used:{used}, actions:{actions}")
}

/// The bits of a key under a mask.
struct MatchText<'a> {
    key: &'a FlowKey,
    mask: &'a FlowKey,
}

impl MatchText<'_> {
    /// Value and mask of a field, unless the mask has none of its bits.
    fn read(&self, name: &str) -> Option<(u128, u128, u128)> {
        let range = &field(name).expect("a field of OpenFlow").range;
        let (value, mask) = (range.read(self.key), range.read(self.mask));
        (mask != 0).then_some((value & mask, mask, range.value_max()))
    }

    fn text(&self, shape: u32) -> String {
        let mut parts = vec!["recirc_id(0)".to_owned()];
        parts.extend(self.tunnel());
        parts.extend(self.one("pkt_mark", |value| format!("{value:#x}"), "skb_mark"));
        parts.extend(self.one("in_port", |value| value.to_string(), "in_port"));
        parts.push("packet_type(ns=0,id=0)".to_owned());
        parts.extend(self.header("eth", ETHERNET));
        let tags = shape >> 8 & 0xff;
        if tags > 0 {
            parts.push(format!("eth_type(0x8100),{}", self.vlan()));
        }
        let is_examined = self.mask[28] >> 16 != 0;
        let ether_type = match shape_ether_type(shape) {
            Some(ether_type) if !is_examined => ether_type,
            _ => (self.key[28] >> 16) as u16,
        };
        let mut inner = vec![format!("eth_type({ether_type:#06x})")];
        self.network(ether_type, &mut inner);
        let inner = inner.join(",");
        parts.push(if tags > 0 { format!("encap({inner})") } else { inner });
        parts.join(",")
    }

    fn one(&self, name: &str, text: fn(u128) -> String, shown: &str) -> Option<String> {
        let (value, mask, all) = self.read(name)?;
        let slash = if mask == all { String::new() } else { format!("/{mask:#x}") };
        Some(format!("{shown}({}{slash})", text(value)))
    }

    fn tunnel(&self) -> Option<String> {
        let mut members = Vec::new();
        if let Some((value, mask, all)) = self.read("tun_id") {
            let slash = if mask == all { String::new() } else { format!("/{mask:#x}") };
            members.push(format!("tun_id={value:#x}{slash}"));
        }
        for (name, shown) in [("tun_src", "src"), ("tun_dst", "dst")] {
            let address = |value: u128| std::net::Ipv4Addr::from(value as u32);
            if let Some((value, mask, all)) = self.read(name) {
                let slash = if mask == all { String::new() } else { format!("/{}", address(mask)) };
                members.push(format!("{shown}={}{slash}", address(value)));
            }
        }
        (!members.is_empty()).then(|| format!("tunnel({})", members.join(",")))
    }

    fn vlan(&self) -> String {
        let member = |shift: u32, all: u32| {
            let (value, mask) = (self.key[28] >> shift & all, self.mask[28] >> shift & all);
            let slash = if mask == all { String::new() } else { format!("/{mask:#x}") };
            format!("{}{slash}", value & mask)
        };
        format!("vlan(vid={},pcp={})", member(0, 0xfff), member(13, 7))
    }

    fn network(&self, ether_type: u16, parts: &mut Vec<String>) {
        match ether_type {
            IPV4 => parts.extend(self.ip("ipv4", IPV4_MEMBERS)),
            IPV6 => parts.extend(self.ip("ipv6", IPV6_MEMBERS)),
            ARP => parts.extend(self.header("arp", ARP_MEMBERS)),
            _ if is_mpls(ether_type) => {
                let (key, mask) = (self.key[29], self.mask[29]);
                let part = |shift: u32, all: u32| (key >> shift & all, mask >> shift & all);
                let ((label, labels), (class, classes), (bottom, bottoms)) =
                    (part(12, 0xf_ffff), part(9, 7), part(8, 1));
                parts.push(format!(
                    "mpls(label={label}/{labels:#x},tc={class}/{classes:x},ttl=0/0x0,\
                     bos={bottom}/{bottoms:x})"
                ));
            }
            _ => {}
        }
        if !matches!(ether_type, IPV4 | IPV6) {
            return;
        }
        let Some((proto, ..)) = self.read("nw_proto") else { return };
        match proto {
            6 => {
                parts.extend(self.header("tcp", PORTS));
                parts.extend(self.tcp_flags());
            }
            17 => parts.extend(self.header("udp", PORTS)),
            132 => parts.extend(self.header("sctp", PORTS)),
            1 => parts.extend(self.header("icmp", ICMP)),
            58 => {
                parts.extend(self.header("icmpv6", ICMP));
                parts.extend(self.header("nd", ND));
            }
            _ => {}
        }
    }

    fn members(&self, members: &[Member]) -> Vec<String> {
        let mut parts = Vec::new();
        for &(shown, name, text) in members {
            if name == "ip_dscp" {
                let tos = |key: &FlowKey| key[40] >> 16 & 0xff;
                let (value, mask) = (tos(self.key), tos(self.mask));
                let value = hex(value & mask);
                match mask {
                    0 => {}
                    0xff => parts.push(format!("{shown}={value}")),
                    mask => parts.push(format!("{shown}={value}/{mask:#x}")),
                }
            } else if let Some((value, mask, all)) = self.read(name) {
                let mut part = format!("{shown}={}", text(value));
                if mask != all {
                    // Addresses have masks like addresses, numbers have them in hexadecimal.
                    let mask = match text(all).contains(['.', ':']) {
                        true => text(mask),
                        false => format!("{mask:#x}"),
                    };
                    _ = write!(part, "/{mask}");
                }
                parts.push(part);
            }
        }
        parts
    }

    fn header(&self, name: &str, members: &[Member]) -> Option<String> {
        let parts = self.members(members);
        (!parts.is_empty()).then(|| format!("{name}({})", parts.join(",")))
    }

    fn ip(&self, name: &str, members: &[Member]) -> Option<String> {
        let mut parts = self.members(members);
        let (bits, known) = (self.key[30] & self.mask[30] & 3, self.mask[30] & 3);
        match (bits, known) {
            (0, known) if known & 1 != 0 => parts.push("frag=no".to_owned()),
            (1, 3) => parts.push("frag=first".to_owned()),
            (bits, _) if bits & 2 != 0 => parts.push("frag=later".to_owned()),
            _ => {}
        }
        (!parts.is_empty()).then(|| format!("{name}({})", parts.join(",")))
    }

    fn tcp_flags(&self) -> Option<String> {
        let (value, mask) = (self.key[40] & 0xfff, self.mask[40] & 0xfff);
        let name = |bit: u32| match TCP_FLAGS.get(bit as usize) {
            Some(name) => (*name).to_owned(),
            None => format!("[{}]", 1 << bit),
        };
        let bits = |of: u32| (0..12).filter(move |bit| of >> bit & 1 != 0);
        match mask {
            0 => None,
            0xfff if value == 0 => Some("tcp_flags(0)".to_owned()),
            0xfff => {
                Some(format!("tcp_flags({})", bits(value).map(name).collect::<Vec<_>>().join("|")))
            }
            mask => {
                let signed = |bit: u32| {
                    format!("{}{}", if value >> bit & 1 != 0 { '+' } else { '-' }, name(bit))
                };
                Some(format!("tcp_flags({})", bits(mask).map(signed).collect::<String>()))
            }
        }
    }
}
