//! What the tests of this area share: packets to send, and a sink that shows what came.

use std::net::Ipv6Addr;

use warpswitch_graph::language::args::{Args, ArgsError, Word};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Registry, Router};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::{PacketType, annotation};
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::icmpv6::Icmpv6;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv6::{Ipv6, Ipv6Repr};

static CLASSES: [ElementClass; 3] = [
    ElementClass::new("Show", "1/0", "h/h", || Box::new(Show(String::new()))),
    ElementClass::new("AsMulticast", "1/1", "a/a", || Box::new(AsMulticast)),
    ElementClass::new("SetPointer", "1/1", "a/a", || Box::new(SetPointer)),
];

/// Tells each packet: `#LABEL ANNOTATIONS BYTES`.
struct Show(String);

impl Element for Show {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut label = Word::default();
        args.read_mp("LABEL", &mut label);
        self.0 = label.0;
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        for packet in batch.iter() {
            let (annotations, data) = (hex(packet.annotations()), hex(packet.data()));
            cx.say(&format!("#{} {annotations} {data}", self.0));
        }
        cx.consume_batch(batch);
    }
}

/// Says that packets came to a group on their link.
struct AsMulticast;

impl Element for AsMulticast {
    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| packet.set_packet_type(PacketType::Multicast));
    }
}

/// Says that the option at byte 42 is wrong.
struct SetPointer;

impl Element for SetPointer {
    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        let pointer = annotation::ICMP_POINTER;
        batch.iter_mut().for_each(|packet| packet.set_anno_u8(pointer, 42));
    }
}

/// A packet that was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) label: String,
    pub(super) annotations: Vec<u8>,
    pub(super) bytes: Vec<u8>,
}

impl Shown {
    /// The destination annotation.
    pub(super) fn dst(&self) -> Ipv6Addr {
        let bytes: [u8; 16] = self.annotations[..16].try_into().expect("sixteen bytes");
        bytes.into()
    }

    /// The packet as IPv6, `at` bytes behind its start, its lengths checked.
    pub(super) fn ipv6(&self, at: usize) -> Ipv6<&[u8]> {
        Ipv6::new_checked(&self.bytes[at..]).expect("a whole packet")
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

pub(super) fn addr(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// A source of one packet.
pub(super) fn source(bytes: &[u8]) -> String {
    format!("InfiniteSource(DATA \\<{}>, LIMIT 1)", hex(bytes))
}

/// An IPv6 packet from 2001:db8::1 to 2001:db8:1::2, of UDP unless it is edited.
pub(super) fn ipv6(payload: &[u8], edit: impl FnOnce(&mut Ipv6Repr)) -> Vec<u8> {
    let (src, dst) = (addr("2001:db8::1"), addr("2001:db8:1::2"));
    let mut repr = Ipv6Repr::new(src, dst, IpProto::UDP, payload.len());
    edit(&mut repr);
    let mut bytes = vec![0; 40];
    repr.emit(&mut Ipv6::new_unchecked(&mut bytes[..]));
    bytes.extend_from_slice(payload);
    bytes
}

/// An ICMPv6 message between `src` and `dst` with its checksum right.
pub(super) fn icmp(src: &str, dst: &str, hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let (src, dst) = (addr(src), addr(dst));
    let mut bytes = ipv6(message, |repr| {
        (repr.src, repr.dst, repr.hop_limit) = (src, dst, hop_limit);
        repr.next_header = IpProto::ICMPV6;
    });
    Icmpv6::new_unchecked(&mut bytes[40..]).fill_checksum(&PseudoHeader::V6 { src, dst });
    bytes
}

/// `packet` in an Ethernet frame.
pub(super) fn frame(dst: [u8; 6], src: [u8; 6], packet: &[u8]) -> Vec<u8> {
    [&dst[..], &src[..], &[0x86, 0xdd], packet].concat()
}

/// The ICMPv6 message of `packet`, whose checksum must be right.
pub(super) fn message(packet: &Ipv6<&[u8]>) -> Vec<u8> {
    let pseudo = PseudoHeader::V6 { src: packet.src(), dst: packet.dst() };
    let message = Icmpv6::new_checked(packet.payload()).expect("a message");
    assert_eq!(packet.next_header(), IpProto::ICMPV6);
    assert!(message.is_checksum_right(&pseudo), "{}", hex(packet.payload()));
    packet.payload().to_vec()
}

/// The classes and the sink.
pub(super) fn registry() -> Registry {
    let classes = crate::AREAS.iter().flat_map(|area| area.iter().copied());
    Registry::new(classes.chain(&CLASSES))
}

/// Reads what was shown out of what was said; what else was said is the second.
pub(super) fn shown(said: &str) -> (Vec<Shown>, Vec<String>) {
    let (mut shown, mut others) = (Vec::new(), Vec::new());
    for line in said.lines() {
        let Some(line) = line.strip_prefix('#') else {
            others.push(line.to_owned());
            continue;
        };
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or("");
        shown.push(Shown {
            label: word().to_owned(),
            annotations: unhex(word()),
            bytes: unhex(word()),
        });
    }
    (shown, others)
}

/// Runs `config`: what was shown, what else was said, and the router.
pub(super) fn run(config: &str) -> (Vec<Shown>, Vec<String>, Router) {
    let (router, transcript) = warpswitch_graph::simulate::run(config, &registry());
    let (shown, said) = shown(&transcript.said());
    (shown, said, router)
}

/// Runs one packet through `elements`: what came out; none if it was dropped.
pub(super) fn through(bytes: &[u8], elements: &str) -> Option<Shown> {
    let (mut shown, ..) = run(&format!("{} -> {elements} -> Show(0);", source(bytes)));
    assert!(shown.len() <= 1, "one packet, not {}", shown.len());
    shown.pop()
}

/// What is wrong with `config`.
pub(super) fn errors(config: &str) -> String {
    match warpswitch_graph::simulate::router(config, &registry()) {
        Ok(_) => String::new(),
        Err(errors) => errors.to_click(),
    }
}
