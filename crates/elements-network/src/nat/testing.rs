//! For tests: a source of packets described by words, and a sink that records packets.

use std::net::Ipv4Addr;
use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::simulate::{self, SIMULATED_START, SimulatedHost};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Registry, Router, Time};
use warpswitch_packet::packet::{Header, annotation};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum::{PseudoHeader, checksum, is_intact};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::Ipv4;
use warpswitch_wire::tcp::Tcp;
use warpswitch_wire::udp::Udp;

/// The classes of this module.
const OWN: &[&ElementClass] = &[
    &ElementClass::new("TestFeed", "0/-", "h/h", || Box::new(Feed { packets: Vec::new() })),
    &ElementClass::new("TestLog", "-/0", "h", || Box::<Log>::default()),
    &ElementClass::new("TestQuote", "1/1", "h/h", || Box::new(Quote { bytes: 28 })),
    &ElementClass::new("TestNoise", "0/1", "h/h", || Box::new(Noise)),
];

/// All classes, and those of this module.
pub(super) fn registry() -> Registry {
    OWN.iter().copied().fold(crate::registry(), Registry::with)
}

/// Runs a configuration and gives what its `TestLog` wrote.
pub(super) fn run(config: &str) -> String {
    simulate::run(config, &registry()).1.said()
}

/// Runs a configuration for so long, and gives the router, for its handlers, too.
pub(super) fn run_router(config: &str, ms: i64) -> (Router, String) {
    let end = Time(SIMULATED_START.0 + ms * 1_000_000);
    let mut host = SimulatedHost::default();
    host.end = Some(end);
    let (router, transcript) = simulate::run_until(config, &registry(), host);
    let said = transcript.said();
    (router, said)
}

/// Sends packets of more or less random bytes through a compound.
pub(super) fn run_through(compound: &str) {
    let config = format!("TestNoise -> {{ {compound} }} -> c :: Counter -> Discard;");
    let (mut router, _) = run_router(&config, 3_000);
    let count: u32 = number(&router.read("c.count").expect("it counts"));
    assert!(count > 0, "nothing passed {compound}");
}

/// The lines of an indented text.
pub(super) fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// What is wrong with a configuration, line by line.
pub(super) fn error(config: &str) -> Vec<String> {
    let Err(errors) = simulate::router(config, &registry()) else { panic!("nothing is wrong") };
    let text = errors.to_click();
    text.lines().filter(|line| line.starts_with("  ")).map(|line| line.trim().to_owned()).collect()
}

/// `TestFeed(MS OUTPUT PROTO SRC SPORT DST DPORT [WORD…], …)`: a packet at each time. Kinds:
/// `T`, `U`, `E` echo, `R` echo reply (identifier as source port), or a number. Words: `flags=N`,
/// `len=N` payload bytes, `frag=N` offset, `nosum`, `cut=N` bytes left behind the IP header,
/// `paint=N`, `seq=N`, `ack=N`, `opt=HEX`, `text=PAYLOAD` with `_` for spaces, `;` for
/// commas and a line end added.
struct Feed {
    packets: Vec<(u64, usize, Vec<u8>, u8)>,
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("'{word}' is no number"))
}

/// The value of `key` among words `key=value`.
fn value<'w>(words: &[&'w str], key: &str) -> Option<&'w str> {
    words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

fn transport(words: &[&str], proto: &str, ports: [u16; 2]) -> (u8, Vec<u8>) {
    let payload = match value(words, "text") {
        Some(text) => format!("{}\n", text.replace('_', " ").replace(';', ",")).into_bytes(),
        None => vec![b'x'; value(words, "len").map_or(0, number)],
    };
    let ports = [ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat();
    match proto {
        "T" => {
            let hex = value(words, "opt").unwrap_or("");
            let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            let options: Vec<u8> =
                digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
            let word = |key| value(words, key).map_or(0u32, number).to_be_bytes();
            let offset = (5 + options.len() as u8 / 4) << 4;
            let flags = value(words, "flags").map_or(16, number);
            let rest = [offset, flags, 0, 9, 0, 0, 0, 0];
            let header = [&ports[..], &word("seq"), &word("ack"), &rest, &options].concat();
            (6, [header, payload].concat())
        }
        "U" => {
            let bytes = (8 + payload.len() as u16).to_be_bytes();
            (17, [&ports[..], &bytes, &[0, 0], &payload].concat())
        }
        "E" | "R" => {
            let kind = if proto == "E" { 8 } else { 0 };
            (1, [&[kind, 0, 0, 0], &ports[..2], &[0, 1], &payload].concat())
        }
        proto => (number(proto), [&ports[..], &payload].concat()),
    }
}

/// Puts the right checksums into a packet, if there is room for them.
fn fill_checksums(packet: &mut [u8]) {
    let mut ip = Ipv4::new_unchecked(&mut *packet);
    ip.fill_checksum();
    let pseudo = PseudoHeader::V4 { src: ip.src(), dst: ip.dst() };
    match packet_proto(packet) {
        IpProto::TCP => Tcp::new_unchecked(&mut packet[20..]).fill_checksum(&pseudo),
        IpProto::UDP => Udp::new_unchecked(&mut packet[20..]).fill_checksum(&pseudo),
        IpProto(1) => {
            let sum = checksum(&packet[20..]);
            packet[22..24].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {}
    }
}

fn packet_proto(packet: &[u8]) -> IpProto {
    Ipv4::new_unchecked(packet).proto()
}

/// The bytes of a packet that is written as words.
pub(super) fn packet(words: &[&str]) -> Vec<u8> {
    let [proto, src, src_port, dst, dst_port, rest @ ..] = words else {
        panic!("PROTO SRC SPORT DST DPORT: {words:?}")
    };
    let (proto, l4) = transport(rest, proto, [number(src_port), number(dst_port)]);
    let total = (20 + l4.len() as u16).to_be_bytes();
    let frag = (value(rest, "frag").map_or(0u16, number) / 8).to_be_bytes();
    let [src, dst] = [src, dst].map(|address| number::<Ipv4Addr>(address).octets());
    let header = [0x45, 0, total[0], total[1], 0, 7, frag[0], frag[1], 64, proto, 0, 0];
    let mut bytes = [&header[..], &src, &dst, &l4].concat();
    fill_checksums(&mut bytes);
    if rest.contains(&"nosum") {
        bytes[26..28].fill(0);
    }
    bytes.truncate(20 + value(rest, "cut").map_or(usize::MAX - 20, number::<usize>));
    bytes
}

impl Element for Feed {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        for arg in args.rest() {
            let words: Vec<&str> = arg.split_whitespace().collect();
            let paint = value(&words, "paint").map_or(0, number);
            self.packets.push((number(words[0]), number(words[1]), packet(&words[2..]), paint));
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        for (timer, packet) in self.packets.iter().enumerate() {
            cx.set_timer(timer, cx.now() + Duration::from_millis(packet.0));
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, timer: usize) {
        let (_, output, bytes, paint) = &self.packets[timer];
        let mut packet = cx.pool().packet_of(bytes);
        packet.set_header(Header::Network, 0);
        packet.set_anno_u8(annotation::PAINT, *paint);
        cx.emit(*output, packet);
    }
}

/// `TestLog([QUOTED, PAYLOAD])`: writes down what comes: `INPUT PROTO SRC SPORT DST DPORT`, and
/// what is strange about it; of ICMP errors also the quoted packet; of TCP also sequence number,
/// acknowledgement, options and payload.
#[derive(Default)]
struct Log {
    is_quoted: bool,
    has_payload: bool,
}

/// A packet as words. Checksums are looked at where they are whole.
pub(super) fn describe(packet: &Packet) -> String {
    let bytes = packet.from_header(Header::Network);
    let ip = Ipv4::new_unchecked(bytes);
    let (src, dst) = (ip.src(), ip.dst());
    let l4 = &bytes[20..];
    let port = |at: usize| l4.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let is_whole = bytes.len() == ip.total_bytes() && ip.fragment_offset() == 0;
    let pseudo = PseudoHeader::V4 { src, dst };
    let (name, is_right) = match ip.proto() {
        IpProto::TCP => ("T", !is_whole || Tcp::new_unchecked(l4).is_checksum_right(&pseudo)),
        IpProto::UDP => ("U", !is_whole || Udp::new_unchecked(l4).is_checksum_right(&pseudo)),
        IpProto(1) => ("I", !is_whole || is_intact(l4)),
        _ => ("?", true),
    };
    let mut text = match name {
        "I" => format!("I{} {src} {} {dst}", l4[0], port(4)),
        name => format!("{name} {src} {} {dst} {}", port(0), port(2)),
    };
    let notes = [
        (!ip.is_checksum_right(), " bad IP checksum".to_owned()),
        (!is_right, " bad checksum".to_owned()),
        (!is_whole, format!(" {} bytes", bytes.len())),
        (name == "U" && is_whole && port(6) == 0, " no checksum".to_owned()),
        (packet.anno_u8(annotation::PAINT) != 0, {
            format!(" paint {}", packet.anno_u8(annotation::PAINT))
        }),
        (packet.dst_ipv4() != [0; 4] && packet.dst_ipv4() != dst.octets(), {
            format!(" to {}", Ipv4Addr::from(packet.dst_ipv4()))
        }),
    ];
    notes.into_iter().filter(|note| note.0).for_each(|note| text.push_str(&note.1));
    text
}

impl Element for Log {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read("QUOTED", &mut self.is_quoted).read("PAYLOAD", &mut self.has_payload).complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, batch: Batch) {
        for packet in batch.iter() {
            let mut line = format!("{input} {}", describe(packet));
            if self.has_payload {
                let tcp = Tcp::new_unchecked(&packet.data()[20..]);
                let options: String = tcp.options().iter().map(|b| format!("{b:02x}")).collect();
                let payload = String::from_utf8_lossy(tcp.payload()).into_owned();
                line += &format!(" {} {} {options}{}", tcp.seq(), tcp.ack(), payload.trim_end());
            }
            cx.say(&line);
            if self.is_quoted {
                let mut quoted = Packet::new();
                quoted.set_data(&packet.data()[28..]);
                quoted.set_header(Header::Network, 0);
                cx.say(&describe(&quoted));
            }
        }
        cx.consume_batch(batch);
    }
}

/// `TestQuote([CUT])`: makes of each packet an ICMP error about it, from 5.5.5.5 to its source,
/// that quotes up to so many bytes.
pub(super) struct Quote {
    bytes: u32,
}

impl Quote {
    /// What the quoted part of the packet that is written as words looks like.
    pub(super) fn describe_original(words: &str, bytes: usize) -> String {
        let words: Vec<&str> = words.split_whitespace().collect();
        let original = packet(&words);
        let mut quoted = Packet::new();
        quoted.set_data(&original[..original.len().min(bytes)]);
        quoted.set_header(Header::Network, 0);
        describe(&quoted)
    }
}

impl Element for Quote {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read("CUT", &mut self.bytes).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let src: [u8; 4] = packet.data().get(12..16).map_or([0; 4], |b| b.try_into().unwrap());
            packet.take(packet.len().saturating_sub(self.bytes as usize));
            let total = (28 + packet.len() as u16).to_be_bytes();
            let ip = [0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 1, 0, 0, 5, 5, 5, 5];
            packet.push(28).copy_from_slice(&[&ip[..], &src, &[3, 1, 0, 0, 0, 0, 0, 0]].concat());
            fill_checksums(packet.data_mut());
            packet.set_header(Header::Network, 0);
        }
    }
}

/// Sends packets that are nearly right: right ones with some bytes changed and some cut off.
struct Noise;

impl Element for Noise {
    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        cx.schedule_task();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        for round in 0..5000 {
            let proto = ["T", "U", "E", "R", "47"][round % 5];
            let words =
                [proto, "1.0.0.1", "5", "2.0.0.2", "6", "len=8", "opt=050a0000000000000000"];
            let mut bytes = packet(&words);
            for _ in 0..cx.random() % 4 {
                let at = cx.random() as usize % bytes.len();
                bytes[at] = cx.random() as u8;
            }
            bytes.truncate(if cx.random().is_multiple_of(2) {
                cx.random() as usize % 60
            } else {
                60
            });
            let mut packet = cx.pool().packet_of(&bytes);
            if round % 50 != 0 {
                packet.set_header(Header::Network, 0);
            }
            cx.emit(0, packet);
        }
        true
    }
}
