//! Elements that accept unsegmented packets: the segments that leave are equal, whether a packet is
//! segmented before or after the element.

use warpswitch_graph::simulate;
use warpswitch_graph::{Context, Element, ElementClass, Registry, Router};
use warpswitch_packet::packet::{Header, PacketType};
use warpswitch_packet::{Batch, Gso, Packet};
use warpswitch_wire::checksum::checksum;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::segment::{Layout, pseudo_header};

use crate::testing::{Shown, shown};

/// Payload of a segment, and of the whole packet.
const SEGMENT_BYTES: u16 = 1000;
const PAYLOAD_BYTES: usize = 2500;

static CLASSES: [ElementClass; 7] = [
    source("Tcp4", || Box::new(Source { is_v6: false, is_udp: false, may_fragment: false })),
    source("Tcp4Cut", || Box::new(Source { is_v6: false, is_udp: false, may_fragment: true })),
    source("Udp4", || Box::new(Source { is_v6: false, is_udp: true, may_fragment: true })),
    source("Tcp6", || Box::new(Source { is_v6: true, is_udp: false, may_fragment: false })),
    source("Udp6", || Box::new(Source { is_v6: true, is_udp: true, may_fragment: false })),
    ElementClass::new("Complete", "1/1", "a/a", || Box::new(Complete)),
    ElementClass::new("Whole", "1/1", "h/h", || Box::<Whole>::default()),
];

const fn source(name: &'static str, make: fn() -> Box<dyn Element>) -> ElementClass {
    ElementClass::new(name, "0/1", "h/h", make)
}

/// Emits one packet whose segmentation and checksum are left to the device.
struct Source {
    is_v6: bool,
    is_udp: bool,
    may_fragment: bool,
}

impl Source {
    /// Ethernet and IP headers, for `bytes` bytes behind them.
    fn headers(&self, bytes: usize) -> Vec<u8> {
        let mut data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        let proto = if self.is_udp { 17 } else { 6 };
        if self.is_v6 {
            data.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            data.extend((bytes as u16).to_be_bytes());
            data.extend([proto, 64]);
            for host in [1, 2] {
                data.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
            }
            return data;
        }
        data.extend([8, 0, 0x45, 0]);
        data.extend((bytes as u16 + 20).to_be_bytes());
        data.extend([0, 9, if self.may_fragment { 0 } else { 0x40 }, 0, 64, proto, 0, 0]);
        data.extend([10, 0, 0, 1, 10, 0, 1, 1]);
        let sum = checksum(&data[14..]);
        data[24..26].copy_from_slice(&sum.to_be_bytes());
        data
    }

    fn packet(&self, cx: &mut Context<'_>) -> Packet {
        let (transport_bytes, checksum_at) = if self.is_udp { (8, 6) } else { (20, 16) };
        let bytes = transport_bytes + PAYLOAD_BYTES;
        let mut data = self.headers(bytes);
        let transport_at = data.len();
        data.extend([0x04, 0x00, 0, 80]);
        match self.is_udp {
            true => data.extend((bytes as u16).to_be_bytes()),
            false => data.extend([0, 0, 0, 3, 0, 0, 0, 4, 0x50, 0x18, 1, 0]),
        }
        data.resize(transport_at + transport_bytes, 0);
        data.extend((0..PAYLOAD_BYTES).map(|at| (at ^ at >> 8) as u8));
        let proto = IpProto(if self.is_udp { 17 } else { 6 });
        let sum = pseudo_header(&data[14..], self.is_v6).sum(proto, bytes).fold();
        let field = transport_at + checksum_at;
        data[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        let mut packet = cx.pool().packet_of(&data);
        packet.set_header(Header::Mac, 0);
        packet.set_packet_type(PacketType::Host);
        packet.set_gso(Some(Gso {
            network_at: 14,
            transport_at,
            is_udp: self.is_udp,
            segment_bytes: SEGMENT_BYTES,
            has_ecn: false,
        }));
        packet
    }
}

impl Element for Source {
    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        cx.schedule_task();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let packet = self.packet(cx);
        cx.emit(0, packet);
        true
    }
}

/// An element that does not accept such packets.
struct Complete;

impl Element for Complete {
    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        assert!(batch.iter().all(|packet| !packet.has_gso()), "it accepts no such packets");
    }
}

/// Counts the packets that arrive whole.
#[derive(Default)]
struct Whole(usize);

impl Element for Whole {
    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        self.0 += batch.iter().filter(|packet| packet.has_gso()).count();
        cx.say(&format!("{} whole", self.0));
    }

    fn accepts_gso(&self) -> bool {
        true
    }
}

fn registry() -> Registry {
    CLASSES.iter().fold(crate::testing::registry(), Registry::with)
}

/// What arrives, other messages, and the router.
fn run(config: &str) -> (Vec<Shown>, Vec<String>, Router) {
    let (router, transcript) = simulate::run(config, &registry());
    assert_eq!(router.packets_unaccounted(), 0, "{config}");
    let (shown, said) = shown(&transcript.said());
    (shown, said, router)
}

/// Asserts that a packet of `source` passes through `chain` unsegmented, and that its segments
/// equal those of a packet that was segmented before `chain`.
fn check(source: &str, chain: &str) -> Vec<Shown> {
    let whole = format!("{source} -> {chain} -> Whole -> Show(0); x :: Idle -> Show(1);");
    let (whole, said, _) = run(&whole);
    assert!(said.contains(&"1 whole".to_owned()), "{source} -> {chain}: {said:?}");
    let (segments, ..) = run(&format!("{source} -> Complete -> {chain} -> Show(0);"));
    let bytes = |shown: &[Shown]| shown.iter().map(|one| one.bytes.clone()).collect::<Vec<_>>();
    assert_eq!(bytes(&whole), bytes(&segments), "{source} -> {chain}");
    assert_eq!(whole.len(), PAYLOAD_BYTES.div_ceil(SEGMENT_BYTES.into()), "{source} -> {chain}");
    whole
}

/// Whether the transport checksum of an Ethernet frame, or an IP packet, is right.
fn is_checksum_right(bytes: &[u8], is_udp: bool) -> bool {
    let network_at = if bytes[0] >> 4 == 4 || bytes[0] >> 4 == 6 { 0 } else { 14 };
    let network = &bytes[network_at..];
    let is_v6 = network[0] >> 4 == 6;
    let header_bytes = if is_v6 { 40 } else { usize::from(network[0] & 15) * 4 };
    let layout = Layout { network_at, transport_at: network_at + header_bytes, is_udp };
    assert!(layout.headers_end(bytes).is_some());
    let segment = &network[header_bytes..];
    let proto = IpProto(if is_udp { 17 } else { 6 });
    pseudo_header(network, is_v6).sum(proto, segment.len()).add_bytes(segment).fold() == 0xffff
}

#[test]
fn routers_pass_packets_whole() {
    for chain in [
        "HostEtherFilter(02:00:00:00:00:01) -> Classifier(12/0800) -> Paint(1) -> Strip(14) \
         -> CheckIPHeader -> StaticIPLookup(0/0 0) -> DropBroadcasts -> IPGWOptions(10.0.0.9) \
         -> FixIPSrc(10.0.0.9) -> DecIPTTL \
         -> { input -> t :: PaintTee(2) -> output; t[1] -> Discard } -> IPFragmenter(1500) \
         -> EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:0:4) -> Queue -> Unqueue",
        "Strip(14) -> CheckIPHeader -> SetIPDSCP(10) -> IPReassembler -> Unstrip(14)",
        "MarkIPHeader(14) -> IPClassifier(tcp or udp) -> VLANEncap(7)",
        "IPInputCombo(1) -> StaticIPLookup(0/0 0) \
         -> { input -> c :: IPOutputCombo(2, 10.0.0.9, 1500) -> output; \
              c[1], c[2], c[3], c[4] -> Discard }",
        "Strip(14) -> CheckIPHeader -> Tee(1) -> Null -> Counter",
    ] {
        check("Tcp4", chain);
        check("Udp4", chain);
    }
    for source in ["Tcp6", "Udp6"] {
        check(
            source,
            "Classifier(12/86dd) -> Strip(14) -> CheckIP6Header -> GetIP6Address(24) \
             -> LookupIP6Route(::/0 0) -> DropBroadcasts -> FixIP6Src(::1) -> DecIP6HLIM \
             -> CheckIP6MTU(1500)",
        );
    }
}

#[test]
fn rewriters_keep_checksums_right() {
    for (source, is_udp) in [("Tcp4", false), ("Udp4", true)] {
        for rewriter in [
            "IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0)",
            "IPRewriter(pattern 192.0.2.1 77 192.0.2.9 88 0 0)",
            "IPAddrRewriter(pattern 192.0.2.1 - 0 0)",
        ] {
            let chain = format!("Strip(14) -> CheckIPHeader -> {rewriter}");
            let shown = check(source, &chain);
            assert!(shown.iter().all(|one| is_checksum_right(&one.bytes, is_udp)), "{chain}");
            assert_eq!(shown[0].bytes[12..16], [192, 0, 2, 1], "{chain}");
        }
    }
}

#[test]
fn elements_that_need_complete_packets_get_them() {
    for chain in ["CheckTCPHeader", "SetTCPChecksum", "CheckLength(1040)", "IPMirror"] {
        let config = format!("Tcp4 -> Strip(14) -> CheckIPHeader -> {chain} -> Show(0);");
        let (shown, said, _) = run(&config);
        assert_eq!(shown.len(), 3, "{chain}");
        assert!(said.iter().any(|line| line.contains("segmented in software")), "{said:?}");
        assert!(shown.iter().all(|one| is_checksum_right(&one.bytes, false)), "{chain}");
    }
    // Packets are completed before they enter a queue, if the element that pulls needs that.
    let (_, said, mut router) =
        run("Tcp4 -> q :: Queue -> Shaper(1) -> Unqueue -> Whole -> Discard;");
    assert!(said.iter().all(|line| line != "1 whole"), "{said:?}");
    assert_eq!(router.read("q.highwater_length"), Ok("3".into()));
}

#[test]
fn lengths_are_those_of_segments() {
    // Fragments of segments, where they may be cut; else one error.
    let fragments = "Strip(14) -> CheckIPHeader -> f :: IPFragmenter(600) -> Show(0);
                     f[1] -> Show(1);";
    let (whole, ..) = run(&format!("Tcp4Cut -> {fragments}"));
    let (segments, ..) = run(&format!("Tcp4Cut -> Complete -> {fragments}"));
    assert_eq!((whole.len(), &whole), (5, &segments));
    let (shown, ..) = run(&format!("Tcp4 -> {fragments}"));
    assert!(!shown.is_empty() && shown.iter().all(|one| one.label == "1"), "{}", shown.len());
    let too_big =
        "Strip(14) -> CheckIP6Header -> c :: CheckIP6MTU(1000) -> Show(0); c[1] -> Show(1);";
    let (shown, ..) = run(&format!("Tcp6 -> {too_big}"));
    assert!(!shown.is_empty() && shown.iter().all(|one| one.label == "1"), "{}", shown.len());

    let counter = "c :: Counter -> Whole -> Discard;";
    for source in ["Tcp4 ->", "Tcp4 -> Complete ->"] {
        let (_, _, mut router) = run(&format!("{source} {counter}"));
        let expected = (PAYLOAD_BYTES + 3 * 54).to_string();
        assert_eq!(
            (router.read("c.count"), router.read("c.byte_count")),
            (Ok("3".into()), Ok(expected))
        );
    }
    let length = "Strip(14) -> CheckIPHeader -> c :: IPClassifier(ip[2:2] <= 1040, -) -> Show(0);
                  c[1] -> Show(1);";
    let (shown, ..) = run(&format!("Tcp4 -> {length}"));
    assert!(shown.len() == 3 && shown.iter().all(|one| one.label == "0"), "{}", shown.len());
}
