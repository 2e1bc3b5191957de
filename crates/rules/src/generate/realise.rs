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

use warpswitch_wire::ethernet::{ETHER_TYPE_MIN, EtherType};
use warpswitch_wire::ip::IpProto;

use super::prng::Prng;
use crate::schema::{Field, FieldSpec, Schema};

/// For local experiments; stands in for what cannot be.
const ETHER_TYPE_LOCAL: u16 = 0x88b5;

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
    pub(super) eth: [Option<&'static FieldSpec>; 2],
    pub(super) eth_type: Option<&'static FieldSpec>,
    pub(super) vlan_tci: Option<&'static FieldSpec>,
    pub(super) ipv4: [Option<&'static FieldSpec>; 2],
    pub(super) ipv6: [Option<&'static FieldSpec>; 2],
    pub(super) ip_proto: Option<&'static FieldSpec>,
    pub(super) ip_tos: Option<&'static FieldSpec>,
    pub(super) l4: [Option<&'static FieldSpec>; 2],
    pub(super) tcp_flags: Option<&'static FieldSpec>,
}

/// Reads a field, or zero where the schema has none.
pub(super) fn read(spec: Option<&FieldSpec>, key: &[u32]) -> u128 {
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
            eth: [Field::EthSrc, Field::EthDst].map(field),
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

    /// The key's IP protocol; zero where the schema has none.
    pub(super) fn proto(&self, key: &[u32]) -> IpProto {
        IpProto(read(self.ip_proto, key) as u8)
    }

    /// What a frame with this key carries.
    pub(super) fn network(&self, key: &[u32]) -> Network {
        if !self.is_openflow() {
            return if self.ipv6[0].is_some() { Network::Ipv6 } else { Network::Ipv4 };
        }
        match EtherType(read(self.eth_type, key) as u16) {
            EtherType::IPV4 => Network::Ipv4,
            // A schema without IPv6 addresses sees of IPv6 only that it is.
            EtherType::IPV6 => Network::Ipv6,
            EtherType::ARP | EtherType::RARP => Network::Arp,
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
            let ether_type = if needs_ipv6 { EtherType::IPV6 } else { EtherType::IPV4 };
            let needs_ip = needs_ports || needs_flags || needs_ipv6;
            let needs_ip = needs_ip || any_examined(&[self.ip_proto, self.ip_tos]);
            let needs_ip = needs_ip || any_examined(&self.ipv4);
            let is_other = !needs_ip && prng.chance(20);
            let others = [EtherType::ARP, EtherType::NONE, EtherType(ETHER_TYPE_LOCAL)];
            let other = others[prng.index(3)];
            let ether_type = if is_other { other } else { ether_type };
            write(self.eth_type, key, u128::from(ether_type.0));
        }
        let network = self.network(key);
        if is_open(self.ip_proto) {
            let icmp = if network == Network::Ipv6 { IpProto::ICMPV6 } else { IpProto::ICMP };
            let proto = match prng.below(100) {
                _ if needs_flags => IpProto::TCP,
                _ if network == Network::Arp => IpProto(1 + prng.below(2) as u8),
                0..60 => IpProto::TCP,
                60..95 => IpProto::UDP,
                _ if needs_ports => IpProto::UDP,
                _ => icmp,
            };
            write(self.ip_proto, key, u128::from(proto.0));
        }
        if is_open(self.tcp_flags) {
            // SYN, SYN ACK, ACK, PSH ACK, FIN ACK, RST: a connection's life.
            let flags = [0x02, 0x12, 0x10, 0x18, 0x11, 0x04][prng.index(6)];
            write(self.tcp_flags, key, flags);
        }
        let is_icmp = [IpProto::ICMP, IpProto::ICMPV6].contains(&self.proto(key));
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
        let proto = self.proto(key);
        if network == Network::Ipv6 && proto.is_ipv6_extension() {
            write(self.ip_proto, key, u128::from(IpProto::NO_NEXT.0));
        }
    }

    fn realise_transport(&self, network: Network, key: &mut [u32]) {
        let is_ip = matches!(network, Network::Ipv4 | Network::Ipv6);
        let proto = self.proto(key);
        let has_ports = is_ip && [IpProto::TCP, IpProto::UDP, IpProto::SCTP].contains(&proto);
        let is_icmp = match network {
            Network::Ipv4 => proto == IpProto::ICMP,
            Network::Ipv6 => proto == IpProto::ICMPV6,
            _ => false,
        };
        if !has_ports {
            for spec in self.l4 {
                let kept = if is_icmp && self.is_openflow() { 0xff } else { 0 };
                let value = read(spec, key) & kept;
                write(spec, key, value);
            }
        }
        if !(is_ip && proto == IpProto::TCP) {
            write(self.tcp_flags, key, 0);
        }
    }
}

/// `ether_type`, or the nearest that a frame can have behind its tags.
fn possible_ether_type(ether_type: u16) -> u16 {
    match ether_type {
        tag if EtherType(tag).is_vlan() => ETHER_TYPE_LOCAL,
        ETHER_TYPE_MIN.. => ether_type,
        _ => EtherType::NONE.0,
    }
}
