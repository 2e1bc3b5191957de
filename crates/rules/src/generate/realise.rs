//! Which keys frames can have, and how to make a key one of them.
//!
//! Extraction leaves a field zero where a frame has no such header, so most combinations of field
//! values belong to no frame. The rules, for each schema's fields as far as it has them:
//!
//! | field | of frames is |
//! | --- | --- |
//! | `eth_type` | `0x05ff`, or at least `0x0600` and no VLAN tag's |
//! | `vlan_tci` | zero, or has the tag-present bit |
//! | addresses | zero unless IPv4, IPv6 or ARP; ARP has IPv4's |
//! | `ip_proto` | zero unless those; of IPv6, no extension header's |
//! | `ip_tos` | zero unless IPv4 or IPv6 |
//! | `l4_src`, `l4_dst` | zero unless TCP, UDP, SCTP; in the OpenFlow schemas a byte each for ICMP |
//! | `tcp_flags` | zero unless TCP |

use super::prng::Prng;
use crate::schema::{Field, FieldSpec, Schema};

/// EtherTypes that mean something here.
pub(super) const ETHER_TYPE_IPV4: u16 = 0x0800;
pub(super) const ETHER_TYPE_ARP: u16 = 0x0806;
pub(super) const ETHER_TYPE_IPV6: u16 = 0x86dd;
pub(super) const ETHER_TYPE_NONE: u16 = 0x05ff;
/// For local experiments; stands in for what cannot be.
const ETHER_TYPE_LOCAL: u16 = 0x88b5;

/// IP protocols that mean something here.
pub(super) const PROTO_ICMP: u8 = 1;
pub(super) const PROTO_TCP: u8 = 6;
pub(super) const PROTO_UDP: u8 = 17;
pub(super) const PROTO_ICMPV6: u8 = 58;
pub(super) const PROTO_SCTP: u8 = 132;
/// "No next header"; stands in for what cannot be.
const PROTO_NONE: u8 = 59;

/// The tag-present bit of `vlan_tci`.
pub(super) const VLAN_PRESENT: u16 = 0x1000;

/// What lies behind the Ethernet header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    Ipv4,
    Ipv6,
    Arp,
    /// Nothing that extraction looks into.
    Other,
}

/// The fields of one schema, found once.
#[derive(Clone, Debug)]
pub(super) struct Realiser {
    eth_type: Option<&'static FieldSpec>,
    vlan_tci: Option<&'static FieldSpec>,
    ipv4: [Option<&'static FieldSpec>; 2],
    ipv6: [Option<&'static FieldSpec>; 2],
    ip_proto: Option<&'static FieldSpec>,
    ip_tos: Option<&'static FieldSpec>,
    l4: [Option<&'static FieldSpec>; 2],
    tcp_flags: Option<&'static FieldSpec>,
}

/// Reads a field, or zero where the schema has none.
fn read(spec: Option<&FieldSpec>, key: &[u32]) -> u128 {
    spec.map_or(0, |spec| spec.read(key))
}

/// Writes a field where the schema has it.
fn write(spec: Option<&FieldSpec>, key: &mut [u32], value: u128) {
    if let Some(spec) = spec {
        spec.write(key, value);
    }
}

impl Realiser {
    pub(super) fn new(schema: &'static Schema) -> Self {
        let field = |field| schema.field(field);
        Self {
            eth_type: field(Field::EthType),
            vlan_tci: field(Field::VlanTci),
            ipv4: [Field::Ipv4Src, Field::Ipv4Dst].map(field),
            ipv6: [Field::Ipv6Src, Field::Ipv6Dst].map(field),
            ip_proto: field(Field::IpProto),
            ip_tos: field(Field::IpTos),
            l4: [Field::L4Src, Field::L4Dst].map(field),
            tcp_flags: field(Field::TcpFlags),
        }
    }

    /// Whether keys say what kind of frame they are of.
    pub(super) fn is_openflow(&self) -> bool {
        self.eth_type.is_some()
    }

    /// What a frame with this key carries.
    pub(super) fn network(&self, key: &[u32]) -> Network {
        if !self.is_openflow() {
            return if self.ipv6[0].is_some() { Network::Ipv6 } else { Network::Ipv4 };
        }
        match read(self.eth_type, key) as u16 {
            ETHER_TYPE_IPV4 => Network::Ipv4,
            // A schema without IPv6 addresses sees of IPv6 only that it is.
            ETHER_TYPE_IPV6 => Network::Ipv6,
            ETHER_TYPE_ARP => Network::Arp,
            _ => Network::Other,
        }
    }

    /// Gives fields that `mask` leaves open values that traffic has: addresses belong to IP
    /// packets, ports and flags to TCP or UDP, and most frames have no tag.
    pub(super) fn fill_open(&self, key: &mut [u32], mask: &[u32], prng: &mut Prng) {
        let is_open = |spec: Option<&FieldSpec>| spec.is_some() && read(spec, mask) == 0;
        let any_examined =
            |specs: &[Option<&FieldSpec>]| specs.iter().any(|&spec| read(spec, mask) != 0);
        if is_open(self.vlan_tci) && prng.chance(900) {
            write(self.vlan_tci, key, 0);
        }
        let needs_ports = any_examined(&self.l4);
        let needs_flags = any_examined(&[self.tcp_flags]);
        if is_open(self.eth_type) {
            // A demand on bits that IPv4 addresses do not reach can only be IPv6's.
            let needs_ipv6 = self.ipv6.iter().any(|&spec| read(spec, mask) >> 32 != 0);
            let ether_type = if needs_ipv6 { ETHER_TYPE_IPV6 } else { ETHER_TYPE_IPV4 };
            let needs_ip = needs_ports || needs_flags || needs_ipv6;
            let needs_ip = needs_ip || any_examined(&[self.ip_proto, self.ip_tos]);
            let needs_ip = needs_ip || any_examined(&self.ipv4);
            let is_other = !needs_ip && prng.chance(20);
            let other = [ETHER_TYPE_ARP, ETHER_TYPE_NONE, ETHER_TYPE_LOCAL][prng.index(3)];
            let ether_type = if is_other { other } else { ether_type };
            write(self.eth_type, key, u128::from(ether_type));
        }
        let network = self.network(key);
        if is_open(self.ip_proto) {
            let icmp = if network == Network::Ipv6 { PROTO_ICMPV6 } else { PROTO_ICMP };
            let proto = match prng.below(100) {
                _ if needs_flags => PROTO_TCP,
                _ if network == Network::Arp => 1 + prng.below(2) as u8,
                0..60 => PROTO_TCP,
                60..95 => PROTO_UDP,
                _ if needs_ports => PROTO_UDP,
                _ => icmp,
            };
            write(self.ip_proto, key, u128::from(proto));
        }
        if is_open(self.tcp_flags) {
            // SYN, SYN ACK, ACK, PSH ACK, FIN ACK, RST: a connection's life.
            let flags = [0x02, 0x12, 0x10, 0x18, 0x11, 0x04][prng.index(6)];
            write(self.tcp_flags, key, flags);
        }
        let is_icmp = [PROTO_ICMP, PROTO_ICMPV6].contains(&(read(self.ip_proto, key) as u8));
        if self.is_openflow() && is_icmp {
            for spec in self.l4 {
                let kept = read(spec, mask);
                let value = read(spec, key) & (kept | 0x0f);
                write(spec, key, value);
            }
        }
    }

    /// Makes the key one that a frame has: what cannot be becomes zero, or the nearest thing.
    pub(super) fn realise(&self, key: &mut [u32]) {
        if read(self.vlan_tci, key) as u16 & VLAN_PRESENT == 0 {
            write(self.vlan_tci, key, 0);
        }
        if self.is_openflow() {
            let possible = possible_ether_type(read(self.eth_type, key) as u16);
            write(self.eth_type, key, u128::from(possible));
        }
        let network = self.network(key);
        self.realise_network(network, key);
        self.realise_transport(network, key);
    }

    fn realise_network(&self, network: Network, key: &mut [u32]) {
        match network {
            Network::Ipv4 | Network::Arp => {
                for spec in self.ipv6 {
                    let low = read(spec, key) as u32;
                    write(spec, key, u128::from(low));
                }
            }
            Network::Ipv6 if self.ipv6[0].is_some() => {}
            Network::Ipv6 | Network::Other => {
                for spec in self.ipv6.into_iter().chain(self.ipv4) {
                    write(spec, key, 0);
                }
            }
        }
        if matches!(network, Network::Arp | Network::Other) {
            write(self.ip_tos, key, 0);
        }
        if network == Network::Other {
            write(self.ip_proto, key, 0);
        }
        let proto = read(self.ip_proto, key) as u8;
        if network == Network::Ipv6 && is_ipv6_extension(proto) {
            write(self.ip_proto, key, u128::from(PROTO_NONE));
        }
    }

    fn realise_transport(&self, network: Network, key: &mut [u32]) {
        let is_ip = matches!(network, Network::Ipv4 | Network::Ipv6);
        let proto = read(self.ip_proto, key) as u8;
        let has_ports = is_ip && [PROTO_TCP, PROTO_UDP, PROTO_SCTP].contains(&proto);
        let is_icmp = match network {
            Network::Ipv4 => proto == PROTO_ICMP,
            Network::Ipv6 => proto == PROTO_ICMPV6,
            _ => false,
        };
        if !has_ports {
            for spec in self.l4 {
                let kept = if is_icmp && self.is_openflow() { 0xff } else { 0 };
                let value = read(spec, key) & kept;
                write(spec, key, value);
            }
        }
        if !(is_ip && proto == PROTO_TCP) {
            write(self.tcp_flags, key, 0);
        }
    }
}

/// `ether_type`, or the nearest that a frame can have behind its tags.
fn possible_ether_type(ether_type: u16) -> u16 {
    match ether_type {
        0x8100 | 0x88a8 | 0x9100 => ETHER_TYPE_LOCAL,
        0x0600.. => ether_type,
        _ => ETHER_TYPE_NONE,
    }
}

/// Whether the protocol number is that of an extension header, which extraction walks past.
fn is_ipv6_extension(proto: u8) -> bool {
    matches!(proto, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140)
}
