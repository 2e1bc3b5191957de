//! Shared by tests of several areas: packets to send, and a sink that records what arrives.

use std::net::{Ipv4Addr, Ipv6Addr};

use warpswitch_graph::language::args::{Args, ArgsError, Word};
use warpswitch_graph::simulate;
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Registry, Router};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::PacketType;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{Ipv4, Ipv4Repr};
use warpswitch_wire::ipv6::Ipv6;

static CLASSES: [ElementClass; 4] = [
    ElementClass::new("Show", "1/0", "h/h", || Box::new(Show(String::new()))),
    ElementClass::new("SetType", "1/1", "a/a", || Box::new(SetType(PacketType::Host))),
    ElementClass::new("SetTime", "1/1", "a/a", || Box::new(SetTime(0))),
    ElementClass::new("SetAnno", "1/1", "a/a", || Box::new(SetAnno(0, 0))),
];

/// Prints each packet: `#LABEL ANNOTATIONS BYTES`.
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
            let line = format!("#{} {} {}", self.0, hex(packet.annotations()), hex(packet.data()));
            cx.say(&line);
        }
        cx.consume_batch(batch);
    }
}

/// Sets how packets came on their link.
struct SetType(PacketType);

impl Element for SetType {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut name = Word::default();
        args.read_mp("TYPE", &mut name);
        self.0 = match name.0.as_str() {
            "broadcast" => PacketType::Broadcast,
            "multicast" => PacketType::Multicast,
            "otherhost" => PacketType::OtherHost,
            _ => PacketType::Host,
        };
        args.complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| packet.set_packet_type(self.0));
    }
}

/// Sets the times of packets, in seconds.
struct SetTime(i64);

impl Element for SetTime {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("SECONDS", &mut self.0).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| packet.set_timestamp_ns(self.0 * 1_000_000_000));
    }
}

/// Sets a byte of annotations.
struct SetAnno(u32, u8);

impl Element for SetAnno {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("AT", &mut self.0).read_mp("VALUE", &mut self.1).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| packet.set_anno_u8(self.0 as usize, self.1));
    }
}

/// A packet that was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Where it came.
    pub label: String,
    /// All of them.
    pub annotations: Vec<u8>,
    /// Its data.
    pub bytes: Vec<u8>,
}

impl Shown {
    /// The destination annotation, of IPv4.
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::new(
            self.annotations[0],
            self.annotations[1],
            self.annotations[2],
            self.annotations[3],
        )
    }

    /// The destination annotation, of IPv6.
    pub fn dst6(&self) -> Ipv6Addr {
        let bytes: [u8; 16] = self.annotations[..16].try_into().expect("sixteen bytes");
        bytes.into()
    }

    /// The packet as IPv6, `at` bytes behind its start, its lengths checked.
    pub fn ipv6(&self, at: usize) -> Ipv6<&[u8]> {
        Ipv6::new_checked(&self.bytes[at..]).expect("a whole packet")
    }

    /// The packet as IPv4, its lengths and checksum checked.
    pub fn ipv4(&self) -> Ipv4<&[u8]> {
        let view = Ipv4::new_checked(&self.bytes[..]).expect("a whole packet");
        assert!(view.is_checksum_right(), "{}", hex(&self.bytes));
        view
    }
}

/// Bytes as digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Digits as bytes.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A source of one packet.
pub fn source(bytes: &[u8]) -> String {
    format!("InfiniteSource(DATA \\<{}>, LIMIT 1)", hex(bytes))
}

/// `registry` with the classes for tests: `Show`, `SetType`, `SetTime` and `SetAnno`.
pub fn with_classes(registry: Registry) -> Registry {
    CLASSES.iter().fold(registry, Registry::with)
}

/// Parses the packets that `Show` printed; the other printed lines are the second result.
pub fn shown(said: &str) -> (Vec<Shown>, Vec<String>) {
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

/// Runs `config` with the classes of `registry`; returns the packets shown, the other printed
/// lines, and the router.
pub fn run_with(registry: &Registry, config: &str) -> (Vec<Shown>, Vec<String>, Router) {
    let (router, transcript) = simulate::run(config, registry);
    let (shown, said) = shown(&transcript.said());
    (shown, said, router)
}

/// Runs one packet through `elements`, a chain whose second output, if any, is called `e`. Returns
/// the packet with the output that it left by (`0` or `1`) as its label; none if it was dropped.
///
/// # Panics
/// If several packets come out.
pub fn through_with(registry: &Registry, bytes: &[u8], elements: &str) -> Option<Shown> {
    let config = format!("{} -> {elements} -> Show(0);", source(bytes));
    let (mut shown, ..) = run_with(registry, &config);
    assert!(shown.len() <= 1, "one packet, not {}", shown.len());
    shown.pop()
}

/// What is wrong with `config`.
pub fn errors_with(registry: &Registry, config: &str) -> String {
    simulate::router(config, registry).err().map_or(String::new(), |errors| errors.to_click())
}

/// An IPv4 packet from 18.26.4.44 to 10.0.0.4.
pub fn ipv4<'a>(payload: &[u8], edit: impl FnOnce(&mut Ipv4Repr<'a>)) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(18, 26, 4, 44), Ipv4Addr::new(10, 0, 0, 4));
    let mut repr = Ipv4Repr::new(src, dst, IpProto::UDP, payload.len());
    edit(&mut repr);
    let mut bytes = vec![0; repr.header_bytes()];
    repr.emit(&mut Ipv4::new_unchecked(&mut bytes[..]));
    bytes.extend_from_slice(payload);
    bytes
}
