//! Flow keys of frames.
//!
//! ```text
//! frame ─► shape check ─► usual shape: fixed offsets ──────────────┐
//!               └───────► anything else: warpswitch_wire::parse ───┴─► what was found ─► key words
//! ```
//! Nearly all frames are untagged Ethernet with an IP header of its least size and TCP or UDP:
//! those are read at fixed offsets, after the same checks that the full parser makes. The rest
//! goes through the parser; both give the same key.
//!
//! # What a key says
//! | | the 5-tuples | the OpenFlow schemas |
//! | --- | --- | --- |
//! | frame that cannot be parsed | no key, with the reason | no key, with the reason |
//! | other network protocol | no key | zero in all fields above Ethernet |
//! | ICMP, ICMPv6 | ports zero | type and code as ports |
//! | later fragment | ports and flags zero | ports and flags zero |
//! | other transport | ports zero | ports zero |
//! | ARP, RARP | no key | addresses, and the operation's low byte as `ip_proto` |
//! | MPLS | that of the IP packet behind the labels | EtherType only, as OpenFlow looks no deeper |
//!
//! An IPv6 packet has zero addresses under `openflow12`, which has no room for them. SNAP frames of
//! organisation zero have the EtherType that SNAP names, other 802.3 frames `0x05ff`. Frames of
//! captures without Ethernet header have zero Ethernet addresses, but Linux cooked frames have
//! their sender's.
//!
//! # Source
//! OpenFlow Switch Specification 1.0.0, 3.4; `schema` for the layouts.

use warpswitch_wire::ethernet::EtherType;
use warpswitch_wire::link::{LinkType, Sll, Sll2};
use warpswitch_wire::parse::{Network, ParsedFrame, Transport, parse};

use crate::key::KeyBuf;
use crate::schema::{Field, IPV4_5TUPLE, IPV6_5TUPLE, OPENFLOW12, OPENFLOW12_IPV6, Schema};
use crate::schema::{FieldSpec, WORDS_MAX};

mod no_key;
#[cfg(test)]
mod tests;
mod usual;

pub use no_key::{NoKey, NoKeyCounts};

/// The bit of `vlan_tci` that says that there is a tag.
const VLAN_PRESENT: u16 = 0x1000;

/// Writes the key of a whole Ethernet frame into `key`: `schema.words` words; the rest is
/// untouched.
///
/// Shapes: `frame` from the Ethernet destination address on, without frame check sequence.
/// Cost: one pass over the headers, no allocation. With many frames of one kind, an [`Extractor`]
/// decides on the layout once.
///
/// # Errors
/// The reason why the frame has no key; `key` is then undefined within `schema.words`.
///
/// # Panics
/// If `key` is shorter than the schema's keys: a caller bug, not an input.
pub fn extract(
    schema: &'static Schema,
    frame: &[u8],
    in_port: u32,
    key: &mut [u32],
) -> Result<(), NoKey> {
    Extractor::new(schema, LinkType::Ethernet).extract(frame, frame.len(), in_port, key)
}

/// Makes keys of one schema from frames of one link type.
#[derive(Clone, Copy, Debug)]
pub struct Extractor {
    schema: &'static Schema,
    layout: Layout,
    link: LinkType,
}

/// The layouts that have code of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Ipv4Tuple,
    Ipv6Tuple,
    OpenFlow,
    OpenFlowIpv6,
    /// Any other schema, written field by field.
    Fields,
}

impl Layout {
    fn of(schema: &'static Schema) -> Self {
        let layouts = [
            (&IPV4_5TUPLE, Layout::Ipv4Tuple),
            (&IPV6_5TUPLE, Layout::Ipv6Tuple),
            (&OPENFLOW12, Layout::OpenFlow),
            (&OPENFLOW12_IPV6, Layout::OpenFlowIpv6),
        ];
        let known = layouts.into_iter().find(|(known, _)| std::ptr::eq(*known, schema));
        known.map_or(Layout::Fields, |(_, layout)| layout)
    }
}

impl Extractor {
    /// An extractor for keys of `schema`.
    #[inline]
    pub fn new(schema: &'static Schema, link: LinkType) -> Self {
        Self { schema, layout: Layout::of(schema), link }
    }

    /// The layout of the keys.
    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    /// Writes the key of a frame that had `wire_bytes` bytes when it was captured, `frame.len()`
    /// of which are there.
    ///
    /// # Errors
    /// The reason why the frame has no key; `key` is then undefined within the schema's words.
    ///
    /// # Panics
    /// If `key` is shorter than the schema's keys: a caller bug, not an input.
    #[inline]
    pub fn extract(
        &self,
        frame: &[u8],
        wire_bytes: usize,
        in_port: u32,
        key: &mut [u32],
    ) -> Result<(), NoKey> {
        let key = &mut key[..self.schema.words];
        let found = match self.link {
            LinkType::Ethernet => usual::find(frame, wire_bytes.max(frame.len())),
            _ => None,
        };
        let found = match found {
            Some(found) => found,
            None => self.parse(frame, wire_bytes)?,
        };
        match self.layout {
            Layout::Ipv4Tuple => fill_ipv4_tuple(frame, &found, key),
            Layout::Ipv6Tuple => fill_ipv6_tuple(frame, &found, key),
            Layout::OpenFlow => self.fill_openflow(frame, &found, in_port, key, false),
            Layout::OpenFlowIpv6 => self.fill_openflow(frame, &found, in_port, key, true),
            Layout::Fields => self.fill_fields(frame, &found, in_port, key),
        }
    }

    /// Appends the keys of `frames`, each with its bytes on the wire, and one outcome per frame:
    /// a key is appended only where the outcome is `Ok`.
    pub fn extract_batch<'f>(
        &self,
        frames: impl IntoIterator<Item = (&'f [u8], usize)>,
        in_port: u32,
        keys: &mut KeyBuf,
        outcomes: &mut Vec<Result<(), NoKey>>,
    ) {
        assert_eq!(keys.schema(), self.schema, "keys of another schema");
        let mut key = [0; WORDS_MAX];
        for (frame, wire_bytes) in frames {
            let outcome = self.extract(frame, wire_bytes, in_port, &mut key);
            if outcome.is_ok() {
                keys.push(&key);
            }
            outcomes.push(outcome);
        }
    }

    /// What the full parser finds.
    #[inline(never)]
    fn parse(&self, frame: &[u8], wire_bytes: usize) -> Result<Found, NoKey> {
        let parsed = parse(self.link, frame, wire_bytes).map_err(NoKey::Unparsable)?;
        Ok(Found::new(&parsed, frame))
    }

    fn fill_openflow(
        &self,
        frame: &[u8],
        found: &Found,
        in_port: u32,
        key: &mut [u32],
        is_wide: bool,
    ) -> Result<(), NoKey> {
        let addresses = self.eth_addresses(frame);
        key[0] = in_port;
        for (word, bytes) in key[1..4].iter_mut().zip(addresses.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        key[4] = u32::from(found.ether_type.0) << 16 | u32::from(found.vlan_tci);
        let above = &mut key[5..];
        above.fill(0);
        // Behind MPLS labels OpenFlow sees nothing.
        if found.ether_type.is_mpls() {
            return Ok(());
        }
        let (src, dst, rest) = if is_wide { (0, 4, 8) } else { (0, 1, 2) };
        match (found.network, is_wide) {
            (Network::None, _) => return Ok(()),
            (Network::Ipv4 | Network::Arp, _) => {
                let [src_word, dst_word] = found.ipv4_addresses(frame);
                // The last word of the address field, be it narrow or wide.
                above[dst - 1] = src_word;
                above[rest - 1] = dst_word;
            }
            (Network::Ipv6, true) => {
                found.copy_ipv6(frame, 8, &mut above[src..][..4]);
                found.copy_ipv6(frame, 24, &mut above[dst..][..4]);
            }
            (Network::Ipv6, false) => {}
        }
        above[rest] = found.ports | found.icmp;
        above[rest + 1] = found.last_word() | u32::from(found.tos) << 16;
        Ok(())
    }

    /// Source and destination, 6 bytes each.
    fn eth_addresses(&self, frame: &[u8]) -> [u8; 12] {
        let mut addresses = [0; 12];
        let sender = match self.link {
            LinkType::Ethernet => {
                if let Some(header) = frame.first_chunk::<12>() {
                    addresses[..6].copy_from_slice(&header[6..]);
                    addresses[6..].copy_from_slice(&header[..6]);
                }
                None
            }
            LinkType::Sll => Sll::new_checked(frame).ok().and_then(|header| header.src()),
            LinkType::Sll2 => Sll2::new_checked(frame).ok().and_then(|header| header.src()),
            LinkType::RawIp | LinkType::Loopback | LinkType::Unsupported(_) => None,
        };
        if let Some(sender) = sender {
            addresses[..6].copy_from_slice(&sender.0);
        }
        addresses
    }

    /// Any schema, field by field: the plain way, and what the others must agree with. A schema
    /// without EtherType is for the one IP version that it has addresses of.
    fn fill_fields(
        &self,
        frame: &[u8],
        found: &Found,
        in_port: u32,
        key: &mut [u32],
    ) -> Result<(), NoKey> {
        let schema = self.schema;
        let is_openflow = schema.field(Field::EthType).is_some();
        if !is_openflow && schema.field(Field::Ipv4Src).is_some() && found.network != Network::Ipv4
        {
            return Err(NoKey::NotIpv4);
        }
        if !is_openflow && schema.field(Field::Ipv6Src).is_some() && found.network != Network::Ipv6
        {
            return Err(NoKey::NotIpv6);
        }
        key.fill(0);
        let looks_above = !(is_openflow && found.ether_type.is_mpls());
        for spec in schema.fields {
            if let Some(value) = self.field_value(spec, frame, found, in_port, is_openflow)
                && (looks_above || is_below_ip(spec.field))
            {
                spec.write(key, value);
            }
        }
        Ok(())
    }

    /// The value of one field, if the frame has it.
    fn field_value(
        &self,
        spec: &FieldSpec,
        frame: &[u8],
        found: &Found,
        in_port: u32,
        is_openflow: bool,
    ) -> Option<u128> {
        let addresses = self.eth_addresses(frame);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, &b| n << 8 | u128::from(b));
        let is_ipv4 = matches!(found.network, Network::Ipv4 | Network::Arp);
        let ipv6 = |at| {
            (found.network == Network::Ipv6)
                .then(|| number(&frame[found.network_offset + at..][..16]))
        };
        let ports = if is_openflow { found.ports | found.icmp } else { found.ports };
        match spec.field {
            Field::InPort => Some(in_port.into()),
            Field::EthSrc => Some(number(&addresses[..6])),
            Field::EthDst => Some(number(&addresses[6..])),
            Field::EthType => Some(found.ether_type.0.into()),
            Field::VlanTci => Some(found.vlan_tci.into()),
            Field::Ipv4Src => is_ipv4.then(|| found.ipv4_addresses(frame)[0].into()),
            Field::Ipv4Dst => is_ipv4.then(|| found.ipv4_addresses(frame)[1].into()),
            Field::Ipv6Src => ipv6(8),
            Field::Ipv6Dst => ipv6(24),
            Field::IpProto => Some(found.proto.into()),
            Field::IpTos => Some(found.tos.into()),
            Field::L4Src => Some((ports >> 16).into()),
            Field::L4Dst => Some((ports & 0xffff).into()),
            Field::TcpFlags => Some(found.tcp_flags.into()),
        }
    }
}

/// Whether a field belongs to the frame, not to the packet in it.
fn is_below_ip(field: Field) -> bool {
    matches!(field, Field::InPort | Field::EthSrc | Field::EthDst | Field::EthType | Field::VlanTci)
}

/// What keys are made of, whichever way it was found. The addresses stay in the frame: the
/// network header that `network` names passed its check at `network_offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    ether_type: EtherType,
    /// With [`VLAN_PRESENT`], or zero.
    vlan_tci: u16,
    network: Network,
    network_offset: usize,
    /// IP protocol, or the low byte of an ARP operation.
    proto: u8,
    tos: u8,
    tcp_flags: u16,
    /// Source port in the upper half, destination port in the lower.
    ports: u32,
    /// ICMP type in the upper half, code in the lower; only one of this and `ports` is not zero.
    icmp: u32,
}

impl Found {
    fn new(parsed: &ParsedFrame, frame: &[u8]) -> Self {
        let pair = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
        let (mut ports, mut icmp, mut tcp_flags) = (0, 0, 0);
        match parsed.transport {
            Transport::None => {}
            Transport::Tcp { src, dst, flags } => {
                (ports, tcp_flags) = (pair(src, dst), flags.0);
            }
            Transport::Udp { src, dst } | Transport::Sctp { src, dst } => ports = pair(src, dst),
            Transport::Icmp { kind, code } | Transport::Icmpv6 { kind, code } => {
                icmp = pair(kind.into(), code.into());
            }
        }
        let packet = parsed.network_bytes(frame);
        let (proto, tos) = match parsed.network {
            Network::None => (0, 0),
            Network::Arp => (packet[7], 0),
            Network::Ipv4 => (parsed.ip_proto.0, packet[1]),
            Network::Ipv6 => (parsed.ip_proto.0, packet[0] << 4 | packet[1] >> 4),
        };
        Self {
            ether_type: parsed.ether_type,
            vlan_tci: parsed.vlan_tci.map_or(0, |tci| tci | VLAN_PRESENT),
            network: parsed.network,
            network_offset: parsed.network_offset,
            proto,
            tos,
            tcp_flags,
            ports,
            icmp,
        }
    }

    /// The two addresses of an IPv4 or ARP packet.
    fn ipv4_addresses(&self, frame: &[u8]) -> [u32; 2] {
        let (src, dst) = if self.network == Network::Arp { (14, 24) } else { (12, 16) };
        [src, dst].map(|at| usual::word_at(frame, self.network_offset + at))
    }

    /// Copies the address at `at` of an IPv6 header.
    fn copy_ipv6(&self, frame: &[u8], at: usize, words: &mut [u32]) {
        let bytes = &frame[self.network_offset + at..][..16];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
    }

    /// Protocol and TCP flags, as all schemas lay them out.
    fn last_word(&self) -> u32 {
        u32::from(self.proto) << 24 | u32::from(self.tcp_flags)
    }
}

fn fill_ipv4_tuple(frame: &[u8], found: &Found, key: &mut [u32]) -> Result<(), NoKey> {
    if found.network != Network::Ipv4 {
        return Err(NoKey::NotIpv4);
    }
    let [src, dst] = found.ipv4_addresses(frame);
    key.copy_from_slice(&[src, dst, found.ports, found.last_word()]);
    Ok(())
}

fn fill_ipv6_tuple(frame: &[u8], found: &Found, key: &mut [u32]) -> Result<(), NoKey> {
    if found.network != Network::Ipv6 {
        return Err(NoKey::NotIpv6);
    }
    found.copy_ipv6(frame, 8, &mut key[..4]);
    found.copy_ipv6(frame, 24, &mut key[4..8]);
    key[8] = found.ports;
    key[9] = found.last_word();
    Ok(())
}
