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

use warpswitch_wire::ethernet::{EtherType, MacAddr};
use warpswitch_wire::link::{LinkType, Sll, Sll2};
use warpswitch_wire::parse::{Network, ParsedFrame, Transport, parse};

use crate::key::KeyBuf;
use crate::schema::{IPV4_5TUPLE, IPV6_5TUPLE, OPENFLOW12, OPENFLOW12_IPV6, Schema, WORDS_MAX};

mod fields;
mod no_key;
#[cfg(test)]
mod tests;
mod usual;

pub use no_key::{NoKey, NoKeyCounts};
use usual::word_at;

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
    pub fn extract(
        &self,
        frame: &[u8],
        wire_bytes: usize,
        in_port: u32,
        key: &mut [u32],
    ) -> Result<(), NoKey> {
        let key = &mut key[..self.schema.words];
        if self.link == LinkType::Ethernet
            && let Some(found) = usual::find(frame, wire_bytes.max(frame.len()))
        {
            return self.fill(frame, &found, in_port, key);
        }
        let found = self.parse(frame, wire_bytes)?;
        self.fill(frame, &found, in_port, key)
    }

    /// Writes the keys of `frames`, which are whole, one behind the other into `keys`, and tells
    /// `keyless` the places of those that have none, whose words are undefined then.
    ///
    /// Frames of the usual shape are read in the caller's loop: a batch of them costs little.
    ///
    /// # Panics
    /// If `keys` has room for fewer keys than there are frames: a caller bug, not an input.
    #[inline]
    pub fn extract_each<'f>(
        &self,
        frames: impl ExactSizeIterator<Item = (&'f [u8], u32)> + Clone,
        keys: &mut [u32],
        mut keyless: impl FnMut(usize),
    ) {
        assert!(keys.len() >= frames.len() * self.schema.words, "room for every key");
        if self.layout == Layout::Ipv4Tuple && self.link == LinkType::Ethernet {
            return self.extract_tuples(frames, keys.as_chunks_mut().0, keyless);
        }
        let rooms = keys.chunks_exact_mut(self.schema.words);
        for (idx, ((frame, in_port), key)) in frames.zip(rooms).enumerate() {
            if self.extract(frame, frame.len(), in_port, key).is_err() {
                keyless(idx);
            }
        }
    }

    /// The same for the layout that is met most: frames of other shapes come after the others of
    /// their block, so that the loop over these calls nobody and keeps what it needs at hand.
    #[inline]
    fn extract_tuples<'f>(
        &self,
        mut frames: impl ExactSizeIterator<Item = (&'f [u8], u32)> + Clone,
        keys: &mut [[u32; 4]],
        mut keyless: impl FnMut(usize),
    ) {
        const BLOCK: usize = u64::BITS as usize;
        for (first, block) in (0..).step_by(BLOCK).zip(keys.chunks_mut(BLOCK)) {
            let again = frames.clone();
            let mut others = 0u64;
            // Keys come first: no frame is taken that has no room.
            for (idx, (key, (frame, _))) in block.iter_mut().zip(frames.by_ref()).enumerate() {
                let mut is_usual = false;
                if let Some(head) = frame.first_chunk() {
                    (*key, is_usual) = usual::ipv4_tuple(head, frame.len());
                }
                others |= u64::from(!is_usual) << idx;
            }
            if others != 0 {
                self.extract_others(again, others, block, |idx| keyless(first + idx));
            }
        }
    }

    /// Writes the keys of those of `frames` that `others` has a bit for.
    #[inline(never)]
    fn extract_others<'f>(
        &self,
        frames: impl Iterator<Item = (&'f [u8], u32)>,
        mut others: u64,
        keys: &mut [[u32; 4]],
        mut keyless: impl FnMut(usize),
    ) {
        for (idx, ((frame, in_port), key)) in frames.zip(keys).enumerate() {
            if others & 1 == 1 && self.extract(frame, frame.len(), in_port, key).is_err() {
                keyless(idx);
            }
            others >>= 1;
            if others == 0 {
                return;
            }
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

    /// Writes the key. Twice in line, so that each caller's layout of `found` is known to it.
    #[inline(always)]
    fn fill(
        &self,
        frame: &[u8],
        found: &Found,
        in_port: u32,
        key: &mut [u32],
    ) -> Result<(), NoKey> {
        match self.layout {
            Layout::Ipv4Tuple => fill_ipv4_tuple(frame, found, key),
            Layout::Ipv6Tuple => fill_ipv6_tuple(frame, found, key),
            Layout::OpenFlow => {
                self.fill_below_ip(frame, found, in_port, key);
                fill_above(frame, found, words_mut(key));
                Ok(())
            }
            Layout::OpenFlowIpv6 => {
                self.fill_below_ip(frame, found, in_port, key);
                fill_above_ipv6(frame, found, words_mut(key));
                Ok(())
            }
            Layout::Fields => self.fill_fields(frame, found, in_port, key),
        }
    }

    /// The first five words of both OpenFlow layouts.
    #[inline(always)]
    fn fill_below_ip(&self, frame: &[u8], found: &Found, in_port: u32, key: &mut [u32]) {
        let [word_0, macs @ .., word_4] = words_mut::<5>(key);
        *word_0 = in_port;
        *macs = self.eth_addresses(frame);
        *word_4 = u32::from(found.ether_type.0) << 16 | u32::from(found.vlan_tci);
    }

    /// Source and destination, 48 bits each, in three words.
    #[inline(always)]
    fn eth_addresses(&self, frame: &[u8]) -> [u32; 3] {
        let sender = match self.link {
            LinkType::Ethernet => {
                let Some(header) = frame.first_chunk::<12>() else { return [0; 3] };
                let middle = word_at(header, 8) << 16 | word_at(header, 0) >> 16;
                return [word_at(header, 6), middle, word_at(header, 2)];
            }
            LinkType::Sll => Sll::new_checked(frame).ok().and_then(|header| header.src()),
            LinkType::Sll2 => Sll2::new_checked(frame).ok().and_then(|header| header.src()),
            LinkType::RawIp | LinkType::Loopback | LinkType::Unsupported(_) => None,
        };
        let MacAddr([a, b, c, d, e, f]) = sender.unwrap_or_default();
        [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, 0, 0]), 0]
    }
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
    #[inline(always)]
    fn ipv4_addresses(&self, frame: &[u8]) -> [u32; 2] {
        let packet = &frame[self.network_offset..];
        match self.network {
            Network::Arp => [word_at(packet, 14), word_at(packet, 24)],
            _ => [word_at(packet, 12), word_at(packet, 16)],
        }
    }

    /// The two addresses of an IPv6 packet.
    #[inline(always)]
    fn ipv6_addresses(&self, frame: &[u8]) -> [u32; 8] {
        let bytes = &frame[self.network_offset + 8..][..32];
        std::array::from_fn(|i| word_at(bytes, i * 4))
    }

    /// Protocol and TCP flags, as all schemas lay them out.
    #[inline(always)]
    fn last_word(&self) -> u32 {
        u32::from(self.proto) << 24 | u32::from(self.tcp_flags)
    }

    /// [`Found::last_word`] with the type of service of the OpenFlow layouts.
    #[inline(always)]
    fn last_word_with_tos(&self) -> u32 {
        self.last_word() | u32::from(self.tos) << 16
    }
}

#[inline(always)]
fn fill_ipv4_tuple(frame: &[u8], found: &Found, key: &mut [u32]) -> Result<(), NoKey> {
    if found.network != Network::Ipv4 {
        return Err(NoKey::NotIpv4);
    }
    let [src, dst] = found.ipv4_addresses(frame);
    *words_mut(key) = [src, dst, found.ports, found.last_word()];
    Ok(())
}

#[inline(always)]
fn fill_ipv6_tuple(frame: &[u8], found: &Found, key: &mut [u32]) -> Result<(), NoKey> {
    if found.network != Network::Ipv6 {
        return Err(NoKey::NotIpv6);
    }
    let [addresses @ .., ports, last] = words_mut::<10>(key);
    *addresses = found.ipv6_addresses(frame);
    (*ports, *last) = (found.ports, found.last_word());
    Ok(())
}

/// The words from the addresses on of `openflow12`. Behind MPLS labels OpenFlow sees nothing.
#[inline(always)]
fn fill_above(frame: &[u8], found: &Found, key: &mut [u32; 10]) {
    let [_, _, _, _, _, above @ ..] = key;
    *above = [0; 5];
    if found.network == Network::None || found.ether_type.is_mpls() {
        return;
    }
    let [src, dst] = match found.network {
        Network::Ipv6 => [0; 2],
        _ => found.ipv4_addresses(frame),
    };
    *above = [src, dst, found.ports | found.icmp, found.last_word_with_tos(), 0];
}

/// The words from the addresses on of `openflow12_ipv6`.
#[inline(always)]
fn fill_above_ipv6(frame: &[u8], found: &Found, key: &mut [u32; 16]) {
    let [_, _, _, _, _, addresses @ .., ports, last, zero] = key;
    (*addresses, *ports, *last, *zero) = ([0; 8], 0, 0, 0);
    if found.network == Network::None || found.ether_type.is_mpls() {
        return;
    }
    if found.network == Network::Ipv6 {
        *addresses = found.ipv6_addresses(frame);
    } else {
        // An IPv4 address is the last word of its field.
        [addresses[3], addresses[7]] = found.ipv4_addresses(frame);
    }
    (*ports, *last) = (found.ports | found.icmp, found.last_word_with_tos());
}

/// The first `N` words of a key, which the layout says are there.
#[inline(always)]
fn words_mut<const N: usize>(key: &mut [u32]) -> &mut [u32; N] {
    key.first_chunk_mut().expect("a key of the schema's length")
}
