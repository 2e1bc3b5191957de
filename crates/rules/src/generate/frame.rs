//! Frames for keys: the shortest stack of headers that has a key, padded to a chosen size.
//!
//! Keys of the 5-tuple schemas get an Ethernet header of fixed, locally administered addresses.
//! All lengths and checksums are right; payload bytes count up, so that no two places in a packet
//! look alike, or are those of [`Payloads`].

use std::net::{Ipv4Addr, Ipv6Addr};

use warpswitch_wire::arp::{self, Arp, ArpRepr};
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::ethernet::{self, EtherType, Ethernet, EthernetRepr, LENGTH_MAX, MacAddr};
use warpswitch_wire::ipv4::{self, Ipv4, Ipv4Repr};
use warpswitch_wire::ipv6::{self, Ipv6, Ipv6Repr};
use warpswitch_wire::vlan::{TAG_BYTES, Vlan};

use super::payloads::Payloads;
use super::realise::{Network, Realiser, read};
use super::transport::TransportHeader;
use crate::schema::{Schema, WORDS_MAX};

/// The smallest Ethernet frame, without its check sequence.
pub const FRAME_BYTES_MIN: usize = 60;

/// The largest frame that is made, without its check sequence: a jumbo frame with a VLAN tag.
pub const FRAME_BYTES_MAX: usize = 9_018;

/// Addresses where keys have none: locally administered, unicast.
const MAC_SRC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);
const MAC_DST: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x02]);

/// The head of a label stack with one entry, label 16, behind which no IP packet seems to lie.
const MPLS_ENTRY: [u8; 5] = [0, 1, 1, 64, 0];

/// Writes a well-formed Ethernet frame of `frame_bytes` bytes with this key into `out`, whose
/// former content is lost.
///
/// Sizes do not count the frame check sequence, which captures do not hold. A size below what the
/// headers need, or below [`FRAME_BYTES_MIN`], is raised; one above [`FRAME_BYTES_MAX`] (or 1514
/// for a frame of IEEE 802.3) is lowered. A key's `in_port` is not in a frame: give it to
/// `extract`.
///
/// Tells whether the frame has exactly this key. No frame has, if the key claims for instance TCP
/// flags of UDP; the frame's key is then the nearest that is possible. Keys of a trace with
/// [`TraceSpec::realisable`](super::TraceSpec::realisable) are all possible.
///
/// # Panics
/// If `key` is shorter than the schema's keys: a caller bug, not an input.
pub fn frame_for_key(
    schema: &'static Schema,
    key: &[u32],
    frame_bytes: usize,
    out: &mut Vec<u8>,
) -> bool {
    FrameMaker::new(schema).frame(key, frame_bytes, out)
}

/// [`frame_for_key`] for many keys: finds the schema's fields once.
#[derive(Clone, Debug)]
pub struct FrameMaker {
    schema: &'static Schema,
    fields: Realiser,
}

impl FrameMaker {
    /// A maker of frames for keys of `schema`.
    pub fn new(schema: &'static Schema) -> Self {
        Self { schema, fields: Realiser::new(schema) }
    }

    /// See [`frame_for_key`].
    ///
    /// # Panics
    /// If `key` is shorter than the schema's keys: a caller bug, not an input.
    pub fn frame(&self, key: &[u32], frame_bytes: usize, out: &mut Vec<u8>) -> bool {
        self.frame_with(key, frame_bytes, &mut Payloads::default(), out)
    }

    /// [`frame`](Self::frame) with the next bytes of `payloads`.
    ///
    /// # Panics
    /// If `key` is shorter than the schema's keys: a caller bug, not an input.
    pub fn frame_with(
        &self,
        key: &[u32],
        frame_bytes: usize,
        payloads: &mut Payloads,
        out: &mut Vec<u8>,
    ) -> bool {
        let words = self.schema.words;
        let mut possible = [0; WORDS_MAX];
        possible[..words].copy_from_slice(&key[..words]);
        self.fields.realise(&mut possible[..words]);
        self.emit(&possible, frame_bytes, payloads, out);
        possible[..words] == key[..words]
    }

    /// Writes the frame of a key that is possible.
    fn emit(&self, key: &[u32], frame_bytes: usize, payloads: &mut Payloads, out: &mut Vec<u8>) {
        let tci = read(self.fields.vlan_tci, key) as u16;
        let link_bytes = ethernet::HEADER_BYTES + if tci == 0 { 0 } else { TAG_BYTES };
        let network = self.fields.network(key);
        let ether_type = self.ether_type(key, network);
        let bytes_max = match ether_type {
            EtherType::NONE => link_bytes + usize::from(LENGTH_MAX),
            _ => FRAME_BYTES_MAX,
        };
        let header_bytes = link_bytes + self.packet_bytes_min(key, network);
        let bytes_min = FRAME_BYTES_MIN.max(header_bytes);
        let frame_bytes = frame_bytes.clamp(bytes_min, bytes_max.max(bytes_min));

        out.clear();
        out.extend((0..frame_bytes).map(|idx| idx as u8));
        payloads.fill(&mut out[header_bytes..]);
        let packet = &mut out[link_bytes..];
        match network {
            Network::Ipv4 => self.emit_ipv4(key, packet),
            Network::Ipv6 => self.emit_ipv6(key, packet),
            Network::Arp => self.emit_arp(key, packet),
            Network::Other if ether_type == EtherType::NONE => {
                // Spanning tree's service access points, unnumbered information.
                packet[..3].copy_from_slice(&[0x42, 0x42, 0x03]);
            }
            Network::Other => {
                if ether_type.is_mpls() {
                    packet[..MPLS_ENTRY.len()].copy_from_slice(&MPLS_ENTRY);
                }
            }
        }
        self.emit_link(key, tci, ether_type, out);
    }

    fn ether_type(&self, key: &[u32], network: Network) -> EtherType {
        match (self.fields.eth_type, network) {
            (Some(spec), _) => EtherType(spec.read(key) as u16),
            (None, Network::Ipv6) => EtherType::IPV6,
            (None, _) => EtherType::IPV4,
        }
    }

    /// Bytes of the headers behind Ethernet.
    fn packet_bytes_min(&self, key: &[u32], network: Network) -> usize {
        let transport_bytes = self.transport(key).bytes();
        match network {
            Network::Ipv4 => ipv4::HEADER_BYTES + transport_bytes,
            Network::Ipv6 => ipv6::HEADER_BYTES + transport_bytes,
            Network::Arp => arp::PACKET_BYTES,
            Network::Other => MPLS_ENTRY.len(),
        }
    }

    fn emit_link(&self, key: &[u32], tci: u16, ether_type: EtherType, frame: &mut [u8]) {
        let address = |side: usize, default: MacAddr| match self.fields.eth[side] {
            Some(spec) => {
                let mut mac = [0; 6];
                mac.copy_from_slice(&spec.read(key).to_be_bytes()[10..]);
                MacAddr(mac)
            }
            None => default,
        };
        let (src, dst) = (address(0, MAC_SRC), address(1, MAC_DST));
        let tag_bytes = if tci == 0 { 0 } else { TAG_BYTES };
        let mut inner = ether_type;
        if ether_type == EtherType::NONE {
            // IEEE 802.3 has the payload's length there.
            inner = EtherType((frame.len() - ethernet::HEADER_BYTES - tag_bytes) as u16);
        }
        let outer = if tci == 0 { inner } else { EtherType::VLAN };
        EthernetRepr { dst, src, ether_type: outer }
            .emit(&mut Ethernet::new_unchecked(&mut *frame));
        if tci != 0 {
            let mut tag = Vlan::new_unchecked(&mut frame[ethernet::HEADER_BYTES..]);
            // The key's tag-present bit lies where the tag has its drop eligible indicator.
            tag.set_tci(tci & 0xefff);
            tag.set_ether_type(inner);
        }
    }

    fn emit_ipv4(&self, key: &[u32], packet: &mut [u8]) {
        let address = |side: usize| Ipv4Addr::from(read(self.fields.ipv4[side], key) as u32);
        let (src, dst) = (address(0), address(1));
        let payload_bytes = packet.len() - ipv4::HEADER_BYTES;
        let mut repr = Ipv4Repr::new(src, dst, self.fields.proto(key), payload_bytes);
        repr.tos = read(self.fields.ip_tos, key) as u8;
        let mut view = Ipv4::new_unchecked(&mut *packet);
        repr.emit(&mut view);
        view.fill_checksum();
        let pseudo = PseudoHeader::V4 { src, dst };
        self.transport(key).emit(&pseudo, &mut packet[ipv4::HEADER_BYTES..]);
    }

    fn emit_ipv6(&self, key: &[u32], packet: &mut [u8]) {
        // A schema without IPv6 addresses knows nothing of them: the unspecified one will do.
        let address = |side: usize| Ipv6Addr::from(read(self.fields.ipv6[side], key));
        let (src, dst) = (address(0), address(1));
        let payload_bytes = packet.len() - ipv6::HEADER_BYTES;
        let mut repr = Ipv6Repr::new(src, dst, self.fields.proto(key), payload_bytes);
        repr.traffic_class = read(self.fields.ip_tos, key) as u8;
        repr.emit(&mut Ipv6::new_unchecked(&mut *packet));
        let pseudo = PseudoHeader::V6 { src, dst };
        self.transport(key).emit(&pseudo, &mut packet[ipv6::HEADER_BYTES..]);
    }

    fn transport(&self, key: &[u32]) -> TransportHeader {
        TransportHeader {
            proto: self.fields.proto(key),
            ports: self.fields.l4.map(|spec| read(spec, key) as u16),
            flags: read(self.fields.tcp_flags, key) as u16,
        }
    }

    fn emit_arp(&self, key: &[u32], packet: &mut [u8]) {
        let address = |side: usize| Ipv4Addr::from(read(self.fields.ipv4[side], key) as u32);
        let repr = ArpRepr {
            operation: u16::from(self.fields.proto(key).0),
            sender_mac: MAC_SRC,
            sender_ip: address(0),
            target_mac: MAC_DST,
            target_ip: address(1),
        };
        repr.emit(&mut Arp::new_unchecked(&mut packet[..arp::PACKET_BYTES]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extract::extract;
    use crate::generate::{Family, FrameSizes, Point, Prng, RulesetSpec, Style, TraceSpec};
    use crate::schema::{IPV4_5TUPLE, IPV6_5TUPLE, OPENFLOW12, OPENFLOW12_IPV6, SCHEMAS};
    use crate::{Field, KeyBuf, Ruleset};
    use warpswitch_wire::icmp::Icmp;
    use warpswitch_wire::icmpv6::Icmpv6;
    use warpswitch_wire::parse::{self, Transport, parse_ethernet};
    use warpswitch_wire::sctp::Sctp;

    /// Holds a frame against its key with the parser, and verifies every checksum.
    fn check(schema: &'static Schema, key: &[u32], frame: &[u8]) {
        let fields = Realiser::new(schema);
        let parsed = parse_ethernet(frame).unwrap_or_else(|error| panic!("{error}: {key:x?}"));
        if schema.field(Field::EthType).is_some() {
            assert_eq!(u128::from(parsed.ether_type.0), read(fields.eth_type, key));
        }
        let tci = parsed.vlan_tci.map_or(0, |tci| tci | 0x1000);
        assert_eq!(u128::from(tci), read(fields.vlan_tci, key), "{key:x?}");
        let network = fields.network(key);
        let expected = match network {
            Network::Ipv4 => parse::Network::Ipv4,
            Network::Ipv6 => parse::Network::Ipv6,
            Network::Arp => parse::Network::Arp,
            Network::Other => parse::Network::None,
        };
        assert_eq!(parsed.network, expected, "{key:x?}");
        if matches!(network, Network::Ipv4 | Network::Ipv6) {
            assert_eq!(parsed.ip_proto, fields.proto(key));
        }
        let mut pseudo = None;
        if let Some(packet) = parsed.ipv4(frame) {
            assert!(packet.is_checksum_right());
            assert_eq!(u128::from(u32::from(packet.src())), read(fields.ipv4[0], key));
            assert_eq!(u128::from(u32::from(packet.dst())), read(fields.ipv4[1], key));
            pseudo = Some(PseudoHeader::V4 { src: packet.src(), dst: packet.dst() });
        }
        if let Some(packet) = parsed.ipv6(frame) {
            assert_eq!(u128::from(packet.src()), read(fields.ipv6[0], key));
            assert_eq!(u128::from(packet.dst()), read(fields.ipv6[1], key));
            pseudo = Some(PseudoHeader::V6 { src: packet.src(), dst: packet.dst() });
        }
        let ports = match parsed.transport {
            Transport::Tcp { src, dst, flags } => {
                assert_eq!(u128::from(flags.0), read(fields.tcp_flags, key));
                assert!(parsed.tcp(frame).unwrap().is_checksum_right(&pseudo.unwrap()));
                [src, dst]
            }
            Transport::Udp { src, dst } => {
                assert!(parsed.udp(frame).unwrap().is_checksum_right(&pseudo.unwrap()));
                [src, dst]
            }
            Transport::Sctp { src, dst } => {
                assert!(Sctp::new_unchecked(parsed.transport_bytes(frame)).is_checksum_right());
                [src, dst]
            }
            Transport::Icmp { kind, code } => {
                assert!(Icmp::new_unchecked(parsed.transport_bytes(frame)).is_checksum_right());
                if fields.is_openflow() { [kind.into(), code.into()] } else { [0, 0] }
            }
            Transport::Icmpv6 { kind, code } => {
                let view = Icmpv6::new_unchecked(parsed.transport_bytes(frame));
                assert!(view.is_checksum_right(&pseudo.unwrap()));
                if fields.is_openflow() { [kind.into(), code.into()] } else { [0, 0] }
            }
            _ => [0, 0],
        };
        for (port, spec) in ports.into_iter().zip(fields.l4) {
            assert_eq!(u128::from(port), read(spec, key), "{key:x?}");
        }
    }

    fn realisable(ruleset: &Ruleset, keys: usize) -> KeyBuf {
        let spec =
            TraceSpec { keys, point: Point::Inside, locality: None, realisable: true, seed: 8 };
        let mut buf = KeyBuf::new(ruleset.schema());
        spec.generate(ruleset).fill(&mut buf, keys);
        buf
    }

    #[test]
    fn frames_have_their_keys_sizes_and_checksums() {
        let mut sets: Vec<Ruleset> = SCHEMAS.into_iter().map(Ruleset::empty).collect();
        for (style, family) in [(Style::Fw, Family::Ipv4), (Style::Acl, Family::Ipv6)] {
            sets.push(RulesetSpec { style, family, rules: 200, seed: 1 }.generate());
        }
        let mut prng = Prng::new(4);
        let mut frame = Vec::new();
        for ruleset in &sets {
            for key in realisable(ruleset, 1_000).as_batch().iter() {
                let bytes = FrameSizes::Uniform(100, 1_514).draw(&mut prng);
                assert!(frame_for_key(ruleset.schema(), key, bytes, &mut frame), "{key:x?}");
                assert_eq!(frame.len(), bytes);
                check(ruleset.schema(), key, &frame);
            }
        }
    }

    #[test]
    fn any_words_give_a_sound_frame_and_the_answer_is_honest() {
        let mut prng = Prng::new(6);
        let mut frame = Vec::new();
        for schema in SCHEMAS {
            let used = schema.used_bits();
            let maker = FrameMaker::new(schema);
            for round in 0..2_000 {
                let mut key: Vec<u32> =
                    used[..schema.words].iter().map(|used| prng.next_u64() as u32 & used).collect();
                if let (Some(spec), true) = (maker.fields.eth_type, round % 2 == 0) {
                    let types = [0x0800, 0x0806, 0x86dd, 0x05ff, 0x8847, 0x8100, 0x8035];
                    spec.write(&mut key, types[prng.index(types.len())]);
                }
                let has_key = maker.frame(&key, prng.index(2_000), &mut frame);
                let mut possible = key.clone();
                maker.fields.realise(&mut possible);
                assert_eq!(has_key, possible == key);
                check(schema, &possible, &frame);
                let mut again = possible.clone();
                maker.fields.realise(&mut again);
                assert_eq!(again, possible, "what is possible stays as it is");
            }
        }
    }

    #[test]
    fn sizes_are_brought_within_what_frames_can_have() {
        let tcp = [1, 2, 80 << 16 | 443, 6 << 24];
        let ipv6_tcp = [0x2001_0db8, 0, 0, 1, 0x2001_0db8, 0, 0, 2, 443, 6 << 24];
        let llc = [1, 0, 0, 0, 0x05ff_0000, 0, 0, 0, 0, 0];
        let cases: [(&'static Schema, &[u32], usize, usize); 7] = [
            (&IPV4_5TUPLE, &tcp, 0, FRAME_BYTES_MIN),
            (&IPV4_5TUPLE, &tcp, 61, 61),
            (&IPV4_5TUPLE, &tcp, usize::MAX, FRAME_BYTES_MAX),
            (&IPV6_5TUPLE, &ipv6_tcp, 0, 14 + 40 + 20),
            (&OPENFLOW12, &llc, 0, FRAME_BYTES_MIN),
            (&OPENFLOW12, &llc, 1_515, 1_514),
            (&OPENFLOW12_IPV6, &[0; 16], 64, 64),
        ];
        let mut frame = vec![1, 2, 3];
        for (schema, key, asked, expected) in cases {
            frame_for_key(schema, key, asked, &mut frame);
            assert_eq!(frame.len(), expected, "{} {asked}", schema.name);
        }
    }

    #[test]
    fn frames_are_extracted_to_their_keys() {
        let mut prng = Prng::new(7);
        let mut sets: Vec<Ruleset> = SCHEMAS.into_iter().map(Ruleset::empty).collect();
        for (style, family) in [(Style::Ipc, Family::Ipv4), (Style::Fw, Family::Ipv6)] {
            sets.push(RulesetSpec { style, family, rules: 200, seed: 2 }.generate());
        }
        let mut frame = Vec::new();
        let mut found = [0; WORDS_MAX];
        for ruleset in &sets {
            let schema = ruleset.schema();
            for key in realisable(ruleset, 2_000).as_batch().iter() {
                let in_port = schema.field(Field::InPort).map_or(0, |spec| spec.read(key)) as u32;
                frame_for_key(schema, key, FrameSizes::Imix.draw(&mut prng), &mut frame);
                extract(schema, &frame, in_port, &mut found).unwrap();
                assert_eq!(&found[..schema.words], key, "{}", schema.name);
            }
        }
    }

    #[test]
    fn payloads_are_filled_one_behind_the_other() {
        let maker = FrameMaker::new(&IPV4_5TUPLE);
        let text: Vec<u8> = (0..100).map(|idx| b'a' + idx % 26).collect();
        let mut payloads = Payloads::from(text.clone());
        let mut expected = text.iter().copied().cycle();
        let mut frame = Vec::new();
        for (proto, header_bytes) in [(6, 54), (17, 42), (1, 42), (47, 34)] {
            let key = [1, 2, 0, proto << 24];
            assert!(maker.frame_with(&key, 200, &mut payloads, &mut frame));
            check(&IPV4_5TUPLE, &key, &frame);
            let wanted: Vec<u8> = expected.by_ref().take(200 - header_bytes).collect();
            assert_eq!(frame[header_bytes..], wanted);
        }
    }

    #[test]
    fn impossible_keys_are_told() {
        let mut frame = Vec::new();
        let mut check = |key: [u32; 4], expected: bool| {
            assert_eq!(frame_for_key(&IPV4_5TUPLE, &key, 64, &mut frame), expected, "{key:x?}");
        };
        check([1, 2, 3, 6 << 24 | 0x12], true);
        check([1, 2, 3, 17 << 24], true);
        check([1, 2, 3, 17 << 24 | 0x12], false);
        check([1, 2, 0, 1 << 24], true);
        check([1, 2, 3, 1 << 24], false);
    }
}
