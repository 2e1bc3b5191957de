//! Keys of crafted frames, and agreement of the three ways to make a key: fixed offsets, the
//! parser, and field by field.

use proptest::prelude::*;
use warpswitch_wire::ParseError;
use warpswitch_wire::arp::{Arp, ArpRepr};
use warpswitch_wire::ethernet::{Ethernet, EthernetRepr, MacAddr};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{Ipv4, Ipv4Repr};
use warpswitch_wire::ipv6::{Ipv6, Ipv6Repr};
use warpswitch_wire::tcp::{Tcp, TcpFlags, TcpRepr};
use warpswitch_wire::udp::{Udp, UdpRepr};

use super::*;
use crate::schema::{Field, FieldFormat, FieldSpec, SCHEMAS};

const ETH_SRC: u128 = 0x0200_0000_0001;
const ETH_DST: u128 = 0x0200_0000_0002;
const V4_SRC: u128 = 0x0a01_0203;
const V4_DST: u128 = 0xc0a8_0506;
const V6_SRC: u128 = 0x2001_0db8_0000_0000_0000_0000_0000_0001;
const V6_DST: u128 = 0x2001_0db8_ffff_0000_1234_0000_0000_0002;
const IN_PORT: u32 = 7;

fn eth(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let repr = EthernetRepr {
        src: MacAddr([2, 0, 0, 0, 0, 1]),
        dst: MacAddr([2, 0, 0, 0, 0, 2]),
        ether_type: EtherType(ether_type),
    };
    let mut frame = vec![0; repr.header_bytes()];
    repr.emit(&mut Ethernet::new_unchecked(&mut frame));
    frame.extend(payload);
    frame
}

fn ipv4_with(proto: u8, payload: &[u8], set: impl FnOnce(&mut Ipv4Repr<'_>)) -> Vec<u8> {
    let (src, dst) = ((V4_SRC as u32).into(), (V4_DST as u32).into());
    let mut repr = Ipv4Repr::new(src, dst, IpProto(proto), payload.len());
    repr.tos = 0xb9;
    set(&mut repr);
    let mut packet = vec![0; repr.header_bytes()];
    repr.emit(&mut Ipv4::new_unchecked(&mut packet));
    packet.extend(payload);
    packet
}

fn ipv4(proto: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_with(proto, payload, |_| {})
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut repr = Ipv6Repr::new(V6_SRC.into(), V6_DST.into(), IpProto(next), payload.len());
    repr.traffic_class = 0xb9;
    let mut packet = vec![0; repr.header_bytes()];
    repr.emit(&mut Ipv6::new_unchecked(&mut packet));
    packet.extend(payload);
    packet
}

fn tcp() -> Vec<u8> {
    let flags = TcpFlags::SYN | TcpFlags::ECE | TcpFlags(0xa00);
    let repr = TcpRepr { src_port: 4660, dst_port: 443, flags, ..TcpRepr::default() };
    let mut segment = vec![0; repr.header_bytes()];
    repr.emit(&mut Tcp::new_unchecked(&mut segment));
    segment.extend([1; 40]);
    segment
}

fn udp() -> Vec<u8> {
    let repr = UdpRepr { src_port: 53, dst_port: 1024, payload_bytes: 2 };
    let mut datagram = vec![0; repr.header_bytes()];
    repr.emit(&mut Udp::new_unchecked(&mut datagram));
    datagram.extend([9, 9]);
    datagram
}

fn arp() -> Vec<u8> {
    let repr = ArpRepr {
        operation: 0x0102,
        sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        sender_ip: (V4_SRC as u32).into(),
        target_mac: MacAddr::default(),
        target_ip: (V4_DST as u32).into(),
    };
    let mut packet = vec![0; repr.header_bytes()];
    repr.emit(&mut Arp::new_unchecked(&mut packet));
    packet
}

const ETHERNET: &[(Field, u128)] = &[(Field::EthSrc, ETH_SRC), (Field::EthDst, ETH_DST)];
const V4: &[(Field, u128)] =
    &[(Field::Ipv4Src, V4_SRC), (Field::Ipv4Dst, V4_DST), (Field::IpTos, 0xb9)];
const V6: &[(Field, u128)] =
    &[(Field::Ipv6Src, V6_SRC), (Field::Ipv6Dst, V6_DST), (Field::IpTos, 0xb9)];

/// Checks the key of `frame` under `schema`: the listed fields as far as the schema has them, all
/// others zero.
fn check(schema: &'static Schema, link: LinkType, frame: &[u8], fields: &[&[(Field, u128)]]) {
    let mut expected = vec![0; schema.words];
    if let Some(spec) = schema.field(Field::InPort) {
        spec.write(&mut expected, IN_PORT.into());
    }
    for &(field, value) in fields.iter().copied().flatten() {
        if let Some(spec) = schema.field(field) {
            spec.write(&mut expected, value);
        }
    }
    let mut key = [u32::MAX; WORDS_MAX];
    let extractor = Extractor::new(schema, link);
    let outcome = extractor.extract(frame, frame.len(), IN_PORT, &mut key);
    assert_eq!(outcome, Ok(()), "{} {frame:x?}", schema.name);
    assert_eq!(key[..schema.words], expected, "{} {frame:x?}", schema.name);
    assert!(key[schema.words..].iter().all(|&w| w == u32::MAX), "words past the key");
}

/// [`check`] of an IPv4 frame under every schema but the one for IPv6.
fn check_v4(frame: &[u8], below: &[(Field, u128)], above: &[(Field, u128)]) {
    for schema in [&IPV4_5TUPLE, &OPENFLOW12, &OPENFLOW12_IPV6] {
        check(schema, LinkType::Ethernet, frame, &[ETHERNET, below, V4, above]);
    }
    check_none(&IPV6_5TUPLE, frame, NoKey::NotIpv6);
}

/// [`check`] of an IPv6 frame under every schema but the one for IPv4.
fn check_v6(frame: &[u8], below: &[(Field, u128)], above: &[(Field, u128)]) {
    for schema in [&IPV6_5TUPLE, &OPENFLOW12, &OPENFLOW12_IPV6] {
        check(schema, LinkType::Ethernet, frame, &[ETHERNET, below, V6, above]);
    }
    check_none(&IPV4_5TUPLE, frame, NoKey::NotIpv4);
}

fn check_none(schema: &'static Schema, frame: &[u8], reason: NoKey) {
    let mut key = [0; WORDS_MAX];
    assert_eq!(
        extract(schema, frame, IN_PORT, &mut key),
        Err(reason),
        "{} {frame:x?}",
        schema.name
    );
}

const TCP: &[(Field, u128)] =
    &[(Field::IpProto, 6), (Field::L4Src, 4660), (Field::L4Dst, 443), (Field::TcpFlags, 0xa42)];
const UDP: &[(Field, u128)] =
    &[(Field::IpProto, 17), (Field::L4Src, 53), (Field::L4Dst, 1024), (Field::TcpFlags, 0)];
const IS_V4: &[(Field, u128)] = &[(Field::EthType, 0x0800)];
const IS_V6: &[(Field, u128)] = &[(Field::EthType, 0x86dd)];

#[test]
fn usual_frames() {
    check_v4(&eth(0x0800, &ipv4(6, &tcp())), IS_V4, TCP);
    check_v4(&eth(0x0800, &ipv4(17, &udp())), IS_V4, UDP);
    check_v6(&eth(0x86dd, &ipv6(6, &tcp())), IS_V6, TCP);
    check_v6(&eth(0x86dd, &ipv6(17, &udp())), IS_V6, UDP);
    let mut padded = eth(0x0800, &ipv4(17, &udp()));
    padded.resize(60, 0xee);
    check_v4(&padded, IS_V4, UDP);
}

#[test]
fn options_fragments_and_other_protocols() {
    let options = ipv4_with(6, &tcp(), |repr| repr.options = &[1; 8]);
    check_v4(&eth(0x0800, &options), IS_V4, TCP);
    let first = ipv4_with(17, &udp(), |repr| repr.more_fragments = true);
    check_v4(&eth(0x0800, &first), IS_V4, UDP);
    let later = ipv4_with(6, &tcp(), |repr| repr.fragment_offset = 8191);
    check_v4(&eth(0x0800, &later), IS_V4, &[(Field::IpProto, 6)]);
    let sctp = [0, 80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let ports = [(Field::IpProto, 132), (Field::L4Src, 80), (Field::L4Dst, 256)];
    check_v4(&eth(0x0800, &ipv4(132, &sctp)), IS_V4, &ports);
    check_v4(&eth(0x0800, &ipv4(47, &[1; 8])), IS_V4, &[(Field::IpProto, 47)]);
    let extensions = [&[43, 0, 5, 2, 0, 0, 0, 0][..], &[6, 0, 0, 0, 0, 0, 0, 0], &tcp()].concat();
    check_v6(&eth(0x86dd, &ipv6(0, &extensions)), IS_V6, TCP);
    let later = [17, 0, 0, 8, 0, 0, 0, 1, 9, 9, 9, 9];
    check_v6(&eth(0x86dd, &ipv6(44, &later)), IS_V6, &[(Field::IpProto, 17)]);
    check_v6(&eth(0x86dd, &ipv6(59, &[])), IS_V6, &[(Field::IpProto, 59)]);
}

#[test]
fn icmp_has_ports_in_openflow_only() {
    let message = [3, 13, 0, 0, 0, 0, 0, 0];
    let v4 = eth(0x0800, &ipv4(1, &message));
    let v6 = eth(0x86dd, &ipv6(58, &message));
    let as_ports = [(Field::L4Src, 3), (Field::L4Dst, 13)];
    for schema in [&OPENFLOW12, &OPENFLOW12_IPV6] {
        let proto: &[_] = &[(Field::IpProto, 1)];
        check(schema, LinkType::Ethernet, &v4, &[ETHERNET, IS_V4, V4, proto, &as_ports]);
        let proto: &[_] = &[(Field::IpProto, 58)];
        check(schema, LinkType::Ethernet, &v6, &[ETHERNET, IS_V6, V6, proto, &as_ports]);
    }
    check(&IPV4_5TUPLE, LinkType::Ethernet, &v4, &[V4, &[(Field::IpProto, 1)]]);
    check(&IPV6_5TUPLE, LinkType::Ethernet, &v6, &[V6, &[(Field::IpProto, 58)]]);
}

#[test]
fn tags_and_labels() {
    let packet = ipv4(6, &tcp());
    let tagged = eth(0x8100, &[&[0x20, 0x64, 0x08, 0x00], &packet[..]].concat());
    check_v4(&tagged, &[(Field::EthType, 0x0800), (Field::VlanTci, 0x3064)], TCP);
    // The outermost tag counts; a tag of zeros is still a tag.
    let tags = [0, 0, 0x81, 0x00, 0x20, 0x64, 0x08, 0x00];
    let stacked = eth(0x88a8, &[&tags, &packet[..]].concat());
    check_v4(&stacked, &[(Field::EthType, 0x0800), (Field::VlanTci, 0x1000)], TCP);
    let labels = [0, 1, 0x10, 64, 0, 2, 0x01, 64];
    let labelled = eth(0x8847, &[&labels, &packet[..]].concat());
    check(&IPV4_5TUPLE, LinkType::Ethernet, &labelled, &[V4, TCP]);
    for schema in [&OPENFLOW12, &OPENFLOW12_IPV6] {
        let below: &[_] = &[(Field::EthType, 0x8847)];
        check(schema, LinkType::Ethernet, &labelled, &[ETHERNET, below]);
    }
    check_none(&IPV6_5TUPLE, &labelled, NoKey::NotIpv6);
}

#[test]
fn frames_without_ip() {
    let openflow = |frame: &[u8], ether_type: u128, above: &[(Field, u128)]| {
        for schema in [&OPENFLOW12, &OPENFLOW12_IPV6] {
            let below: &[_] = &[(Field::EthType, ether_type)];
            check(schema, LinkType::Ethernet, frame, &[ETHERNET, below, above]);
        }
        check_none(&IPV4_5TUPLE, frame, NoKey::NotIpv4);
        check_none(&IPV6_5TUPLE, frame, NoKey::NotIpv6);
    };
    let addresses = [(Field::Ipv4Src, V4_SRC), (Field::Ipv4Dst, V4_DST), (Field::IpProto, 2)];
    openflow(&eth(0x0806, &arp()), 0x0806, &addresses);
    openflow(&eth(0x8035, &arp()), 0x8035, &addresses);
    openflow(&eth(0x88cc, &[1, 2, 3]), 0x88cc, &[]);
    openflow(&eth(0x0600, &[]), 0x0600, &[]);
    openflow(&eth(5, &[0x42, 0x42, 3, 0, 0, 0xff, 0xff]), 0x05ff, &[]);
    openflow(&eth(8, &[0xaa, 0xaa, 3, 0, 0, 0, 0x88, 0xcc]), 0x88cc, &[]);
    openflow(&eth(8, &[0xaa, 0xaa, 3, 0, 0, 9, 0x88, 0xcc]), 0x05ff, &[]);
    let mut infiniband = arp();
    infiniband[1] = 32;
    openflow(&eth(0x0806, &infiniband), 0x0806, &[]);
}

#[test]
fn other_link_types() {
    let packet = ipv4(6, &tcp());
    let sll = [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0][..], &packet].concat();
    let sll2 =
        [&[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &packet].concat();
    let loopback = [&[2, 0, 0, 0][..], &packet].concat();
    let sender: &[_] = &[(Field::EthSrc, ETH_SRC)];
    for schema in [&IPV4_5TUPLE, &OPENFLOW12, &OPENFLOW12_IPV6] {
        check(schema, LinkType::RawIp, &packet, &[IS_V4, V4, TCP]);
        check(schema, LinkType::Loopback, &loopback, &[IS_V4, V4, TCP]);
        check(schema, LinkType::Sll, &sll, &[sender, IS_V4, V4, TCP]);
        check(schema, LinkType::Sll2, &sll2, &[sender, IS_V4, V4, TCP]);
    }
    let extractor = Extractor::new(&OPENFLOW12, LinkType::from_capture(105));
    let reason = NoKey::Unparsable(ParseError::LinkUnsupported);
    assert_eq!(extractor.extract(&sll, sll.len(), 1, &mut [0; WORDS_MAX]), Err(reason));
}

/// A layout without code of its own: written field by field.
static ETHER_TYPE_AND_PORTS: Schema = Schema {
    name: "ether_type_and_ports",
    words: 2,
    ports_word: 1,
    fields: &[
        FieldSpec {
            field: Field::EthType,
            name: "eth_type",
            bit_offset: 16,
            bits: 16,
            format: FieldFormat::Hex,
        },
        FieldSpec {
            field: Field::L4Dst,
            name: "l4_dst",
            bit_offset: 48,
            bits: 16,
            format: FieldFormat::Decimal,
        },
    ],
};

#[test]
fn schemas_without_code_of_their_own() {
    let schema = &ETHER_TYPE_AND_PORTS;
    check(schema, LinkType::Ethernet, &eth(0x0800, &ipv4(6, &tcp())), &[IS_V4, TCP]);
    check(schema, LinkType::Ethernet, &eth(0x86dd, &ipv6(17, &udp())), &[IS_V6, UDP]);
    check(schema, LinkType::Ethernet, &eth(0x88cc, &[1]), &[&[(Field::EthType, 0x88cc)]]);
}

#[test]
fn frames_cut_short() {
    let mut packet = eth(0x0800, &ipv4(17, &udp()));
    let wire_bytes = packet.len();
    packet.truncate(14 + 20 + 8);
    for schema in SCHEMAS {
        let unparsable = NoKey::Unparsable(ParseError::Ipv4PayloadTruncated);
        check_none(schema, &packet, unparsable);
        let mut key = [0; WORDS_MAX];
        let outcome = Extractor::new(schema, LinkType::Ethernet)
            .extract(&packet, wire_bytes, IN_PORT, &mut key);
        let has_key = schema != &IPV6_5TUPLE;
        assert_eq!(outcome.is_ok(), has_key, "{}", schema.name);
        if has_key {
            assert_eq!(key[schema.ports_word], 53 << 16 | 1024);
        }
    }
}

#[test]
fn batches_keep_order_and_count_reasons() {
    let frames = [
        eth(0x0800, &ipv4(6, &tcp())),
        eth(0x0806, &arp()),
        vec![1, 2, 3],
        eth(0x0800, &ipv4(17, &udp())),
    ];
    let mut keys = KeyBuf::new(&IPV4_5TUPLE);
    let mut outcomes = Vec::new();
    let extractor = Extractor::new(&IPV4_5TUPLE, LinkType::Ethernet);
    let batch = frames.iter().map(|frame| (&frame[..], frame.len()));
    extractor.extract_batch(batch, 0, &mut keys, &mut outcomes);
    let truncated = NoKey::Unparsable(ParseError::EthernetTruncated);
    assert_eq!(outcomes, [Ok(()), Err(NoKey::NotIpv4), Err(truncated), Ok(())]);
    assert_eq!(keys.len(), 2);
    assert_eq!(keys.as_batch().key(1)[2], 53 << 16 | 1024);
    let mut counts = NoKeyCounts::default();
    outcomes.into_iter().filter_map(Result::err).for_each(|reason| counts.add(reason));
    assert_eq!(counts.total(), 2);
    assert_eq!(counts.iter().collect::<Vec<_>>(), [(NoKey::NotIpv4, 1), (truncated, 1)]);
}

#[test]
fn reasons_are_numbered() {
    for (i, reason) in NoKey::ALL.into_iter().enumerate() {
        assert_eq!(reason.as_usize(), i);
        assert_eq!(NoKey::ALL.iter().filter(|other| other.name() == reason.name()).count(), 1);
    }
}

/// The key by each way; they must agree, errors included.
fn check_agreement(frame: &[u8], wire_bytes: usize, link: LinkType) {
    for schema in SCHEMAS {
        let extractor = Extractor::new(schema, link);
        let mut key = [0; WORDS_MAX];
        let outcome = extractor.extract(frame, wire_bytes, IN_PORT, &mut key);
        let mut plain = [0; WORDS_MAX];
        let expected = extractor.parse(frame, wire_bytes).and_then(|found| {
            extractor.fill_fields(frame, &found, IN_PORT, &mut plain[..schema.words])
        });
        assert_eq!(outcome, expected, "{} {frame:x?}", schema.name);
        if wire_bytes == frame.len() {
            let (mut each, mut keyless) = ([0; WORDS_MAX], false);
            let frames = [(frame, IN_PORT)].into_iter();
            extractor.extract_each(frames, &mut each[..schema.words], |_| keyless = true);
            assert_eq!(keyless, expected.is_err(), "{} {frame:x?}", schema.name);
            assert!(keyless || each == plain, "{} {frame:x?}", schema.name);
        }
        if outcome.is_ok() {
            assert_eq!(key, plain, "{} {frame:x?}", schema.name);
            let used = schema.used_bits();
            assert!(key.iter().zip(used).all(|(word, used)| word & !used == 0), "S2");
        }
    }
}

/// Well-formed frames of many kinds, to mutate.
fn frames() -> Vec<Vec<u8>> {
    let (v4, v6) = (ipv4(6, &tcp()), ipv6(17, &udp()));
    vec![
        eth(0x0800, &v4),
        eth(0x0800, &ipv4(17, &udp())),
        eth(0x86dd, &v6),
        eth(0x86dd, &ipv6(6, &tcp())),
        eth(0x86dd, &ipv6(0, &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &udp()].concat())),
        eth(0x8100, &[&[0, 5, 0x86, 0xdd], &v6[..]].concat()),
        eth(0x8847, &[&[0, 1, 1, 64], &v4[..]].concat()),
        eth(0x0800, &ipv4(1, &[8, 0, 0, 0, 0, 0, 0, 0])),
        eth(0x0800, &ipv4(17, &[&udp()[..], &[0; 12]].concat())),
        eth(0x0800, &[&ipv4(1, &[8, 0, 0, 0, 0, 0, 0, 0])[..], &[0; 18]].concat()),
        eth(0x0800, &ipv4(47, &[7; 30])),
        eth(0x0800, &ipv4(132, &[7; 30])),
        eth(0x86dd, &ipv6(58, &[128, 0, 0, 0])),
        eth(0x0806, &arp()),
    ]
}

/// Values at which lengths, versions, offsets and flags change their meaning.
const EDGES: [u8; 18] =
    [0, 1, 4, 5, 7, 8, 16, 20, 0x20, 0x22, 0x40, 0x44, 0x45, 0x46, 0x50, 0x60, 0x80, 0xff];

#[test]
fn all_ways_agree_when_one_byte_changes_and_the_capture_is_cut() {
    for frame in frames() {
        for captured in 0..=frame.len() {
            let mut cut = frame[..captured].to_vec();
            for at in 12..captured.max(12) {
                for value in EDGES {
                    let former = std::mem::replace(&mut cut[at], value);
                    check_agreement(&cut, frame.len(), LinkType::Ethernet);
                    cut[at] = former;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn all_ways_agree_on_mutated_frames(
        kind in 0usize..14,
        changes in prop::collection::vec((0usize..80, any::<u8>()), 0..4),
        length in 0usize..120,
        beyond in prop_oneof![Just(0usize), 0usize..40],
    ) {
        let mut frame = frames().swap_remove(kind);
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        // Cut, as it is, or padded.
        frame.resize(if length < 80 { length } else { frame.len() + (length - 80) / 2 }, 0);
        check_agreement(&frame, frame.len() + beyond, LinkType::Ethernet);
        if frame.len() > 14 {
            check_agreement(&frame[14..], frame.len() - 14 + beyond, LinkType::RawIp);
        }
    }
}
