//! The captures that are shipped for detection, `conf/captures/ids*.pcap`, frame by frame, and what
//! `conf/ids.rules` finds there.
//!
//! `UPDATE=1 cargo test -p warpswitch-ids --test capture` writes the captures anew.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpswitch_ids::{
    Engine, Inspector, InspectorOptions, Packet, RuleText, Variables, read_rules,
};
use warpswitch_io::{CaptureFormat, CaptureReader, CaptureWriter};
use warpswitch_wire::checksum::{PseudoHeader, checksum};
use warpswitch_wire::ipv4::Ipv4;
use warpswitch_wire::link::LinkType;
use warpswitch_wire::tcp::Tcp;
use warpswitch_wire::udp::Udp;

const START_NS: u64 = 1_700_000_000_000_000_000;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);
const HEALTH: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 11);

const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Frames of both sides of the router: which side each comes from.
#[derive(Default)]
struct Script {
    frames: Vec<(u8, Vec<u8>)>,
}

/// One connection.
struct Tcp4 {
    client: Ipv4Addr,
    ports: (u16, u16),
    seq: [u32; 2],
}

fn side(src: Ipv4Addr) -> u8 {
    src.octets()[2]
}

/// A station's address: the last two bytes are those of its IP address.
fn station(addr: Ipv4Addr) -> [u8; 6] {
    let [.., net, host] = addr.octets();
    [2, 0, 0, 0, net, host]
}

impl Script {
    fn ip(&mut self, src: Ipv4Addr, dst: Ipv4Addr, proto: u8, transport: &[u8]) {
        let mut frame = vec![2, 0, 0, 0, side(src), 0];
        frame.extend(station(src));
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((20 + transport.len() as u16).to_be_bytes());
        frame.extend((self.frames.len() as u16).to_be_bytes());
        frame.extend([0x40, 0, 64, proto, 0, 0]);
        frame.extend(src.octets());
        frame.extend(dst.octets());
        frame.extend(transport);
        Ipv4::new_unchecked(&mut frame[14..]).fill_checksum();
        frame.resize(frame.len().max(60), 0);
        self.frames.push((side(src), frame));
    }

    /// The answer to a question that the router asks: it comes before it is asked.
    fn arp(&mut self, addr: Ipv4Addr) {
        let router = Ipv4Addr::new(10, 0, side(addr), 1);
        let mut frame = vec![2, 0, 0, 0, side(addr), 0];
        frame.extend(station(addr));
        frame.extend([0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2]);
        frame.extend(station(addr));
        frame.extend(addr.octets());
        frame.extend([2, 0, 0, 0, side(addr), 0]);
        frame.extend(router.octets());
        frame.resize(60, 0);
        self.frames.push((side(addr), frame));
    }

    fn udp(&mut self, src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), payload: &[u8]) {
        let mut datagram = Vec::new();
        datagram.extend(src.1.to_be_bytes());
        datagram.extend(dst.1.to_be_bytes());
        datagram.extend((8 + payload.len() as u16).to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(payload);
        let pseudo = PseudoHeader::V4 { src: src.0, dst: dst.0 };
        Udp::new_unchecked(&mut datagram[..]).fill_checksum(&pseudo);
        self.ip(src.0, dst.0, 17, &datagram);
    }

    fn ping(&mut self, src: Ipv4Addr, dst: Ipv4Addr, payload: &[u8]) {
        let mut message = vec![8, 0, 0, 0, 0, 7, 0, 1];
        message.extend(payload);
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        self.ip(src, dst, 1, &message);
    }

    /// A segment of one side (0 is the client's), `ahead` bytes behind what it sent so far.
    fn segment(&mut self, tcp: &Tcp4, from: usize, flags: u8, ahead: u32, payload: &[u8]) {
        let (ends, ports) = match from {
            0 => ((tcp.client, SERVER), tcp.ports),
            _ => ((SERVER, tcp.client), (tcp.ports.1, tcp.ports.0)),
        };
        let ack = if flags & ACK == 0 { 0 } else { tcp.seq[1 - from] };
        let mut segment = Vec::new();
        segment.extend(ports.0.to_be_bytes());
        segment.extend(ports.1.to_be_bytes());
        segment.extend((tcp.seq[from] + ahead).to_be_bytes());
        segment.extend(ack.to_be_bytes());
        segment.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
        segment.extend(payload);
        let pseudo = PseudoHeader::V4 { src: ends.0, dst: ends.1 };
        Tcp::new_unchecked(&mut segment[..]).fill_checksum(&pseudo);
        self.ip(ends.0, ends.1, 6, &segment);
    }

    fn open(&mut self, client: Ipv4Addr, ports: (u16, u16)) -> Tcp4 {
        let port = u32::from(ports.0);
        let mut tcp = Tcp4 { client, ports, seq: [port * 1000, port * 2000] };
        self.segment(&tcp, 0, SYN, 0, b"");
        tcp.seq[0] += 1;
        self.segment(&tcp, 1, SYN | ACK, 0, b"");
        tcp.seq[1] += 1;
        self.segment(&tcp, 0, ACK, 0, b"");
        tcp
    }

    fn send(&mut self, tcp: &mut Tcp4, from: usize, payload: &[u8]) {
        self.segment(tcp, from, PSH | ACK, 0, payload);
        tcp.seq[from] += payload.len() as u32;
    }

    fn close(&mut self, mut tcp: Tcp4) {
        for from in [0, 1] {
            self.segment(&tcp, from, FIN | ACK, 0, b"");
            tcp.seq[from] += 1;
        }
        self.segment(&tcp, 0, ACK, 0, b"");
    }
}

/// What happens in the captures.
fn script() -> Script {
    let mut s = Script::default();
    for addr in [CLIENT, HEALTH, SERVER] {
        s.arp(addr);
    }
    // Nothing to be found.
    let mut tcp = s.open(CLIENT, (40001, 80));
    s.send(&mut tcp, 0, b"GET /index.html HTTP/1.1\r\nHost: www.example.net\r\n\r\n");
    s.send(&mut tcp, 1, b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n");
    s.close(tcp);
    // A path out of the root; the answer, with the password file across two segments.
    let mut tcp = s.open(CLIENT, (40002, 80));
    s.send(&mut tcp, 0, b"GET /a/../../etc/passwd HTTP/1.0\r\n\r\n");
    s.send(&mut tcp, 1, b"HTTP/1.0 200 OK\r\n\r\nroot:x:");
    s.send(&mut tcp, 1, b"0:0:root:/root:/bin/sh\n");
    s.close(tcp);
    // A request in three segments: the last comes first, and one contradicts another.
    let mut tcp = s.open(CLIENT, (40003, 80));
    s.segment(&tcp, 0, PSH | ACK, 17, b"exe?/c+dir HTTP/1.0\r\n\r\n");
    s.segment(&tcp, 0, PSH | ACK, 0, b"GET /scripts/CM");
    s.segment(&tcp, 0, PSH | ACK, 13, b"xxd.");
    tcp.seq[0] += 40;
    s.send(&mut tcp, 1, b"HTTP/1.0 404 Not Found\r\n\r\n");
    s.close(tcp);
    // A user name that does not end, in three segments.
    let mut tcp = s.open(CLIENT, (40004, 21));
    s.send(&mut tcp, 1, b"220 ready\r\n");
    s.send(&mut tcp, 0, b"USER aaaaaaaa");
    s.send(&mut tcp, 0, &[b'a'; 30]);
    s.send(&mut tcp, 0, &[b'a'; 30]);
    s.close(tcp);
    // The health check: found, and let pass.
    let mut tcp = s.open(HEALTH, (40005, 80));
    s.send(&mut tcp, 0, b"GET /../ HTTP/1.0\r\nX-Health: yes\r\n\r\n");
    s.send(&mut tcp, 1, b"HTTP/1.0 200 OK\r\n\r\nok\n");
    s.close(tcp);
    // A scan, a name, a ping.
    let scan = Tcp4 { client: CLIENT, ports: (40006, 80), seq: [1, 1] };
    s.segment(&scan, 0, SYN | FIN, 0, b"");
    let mut query = vec![0, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(b"\x08EVIL-c2c\x04test\x00\x00\x01\x00\x01");
    s.udp((CLIENT, 5353), (SERVER, 53), &query);
    s.ping(CLIENT, SERVER, b"abcdefghijklmnopqrstuvwabcdefghi");
    s.ping(CLIENT, SERVER, b"\x90\x90\x90\x90\x90\x90\x90\x90/bin/sh\x00\x90\x90\x90\x90\x90\x90");
    s
}

fn conf(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf").join(name)
}

/// The bytes of a capture: all frames, or those of one side.
fn capture(side: Option<u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = CaptureWriter::from_write(&mut bytes, CaptureFormat::Pcap, false).unwrap();
    for (idx, (from, frame)) in script().frames.iter().enumerate() {
        if side.is_none_or(|side| side == *from) {
            // The first three come at once: both sides begin at one time, from which replay counts.
            let time_ns = START_NS + idx.saturating_sub(2) as u64 * 10_000_000;
            writer.write_frame(time_ns, frame).unwrap();
        }
    }
    writer.finish().unwrap();
    bytes
}

#[test]
fn captures_are_those_that_are_shipped() {
    let update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    for (name, side) in [("ids", None), ("ids-lan0", Some(0)), ("ids-lan1", Some(1))] {
        let path = conf(&format!("captures/{name}.pcap"));
        if update {
            std::fs::write(&path, capture(side)).expect("a writable capture");
        }
        let shipped = std::fs::read(&path).expect("a capture");
        assert_eq!(shipped, capture(side), "UPDATE=1 writes {name} anew");
    }
}

#[test]
fn shipped_rules_find_what_the_script_says() {
    let text = std::fs::read(conf("ids.rules")).expect("the rules");
    let texts = [RuleText { name: "ids.rules", bytes: &text }];
    let rules = read_rules(&texts, &Variables::default()).expect("no errors");
    assert_eq!((rules.rules.len(), rules.left_out.len()), (9, 1));
    let engine = Arc::new(Engine::build(rules));
    let mut inspector = Inspector::new(Arc::clone(&engine), InspectorOptions::default());
    let mut reader = CaptureReader::open(conf("captures/ids.pcap")).expect("a capture");
    let mut alerts = Vec::new();
    while let Some(frame) = reader.next_frame().expect("a frame") {
        let packet = Packet {
            bytes: frame.data,
            wire_bytes: frame.original_bytes,
            link: LinkType::Ethernet,
            timestamp_ns: frame.timestamp_ns,
            found: None,
        };
        inspector.inspect([packet], &mut alerts);
    }
    inspector.finish(&mut alerts);
    let sids: Vec<u32> = alerts.iter().map(|alert| engine.rule(alert.rule).about.sid).collect();
    assert_eq!(sids, [1000001, 1000003, 1000002, 1000007, 1000004, 1000005, 1000006]);
    let stats = inspector.stats();
    assert_eq!((stats.passed, stats.streams.conflicts, stats.work_cut), (1, 1, 0));
}
