//! `conf/ipv6-router.click` with the captures that it is shipped with: what leaves, frame by frame.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use warpswitch_graph::language::load;
use warpswitch_graph::simulate::{SIMULATED_START, SimulatedHost, Transcript};
use warpswitch_graph::{Ended, Router, RouterOptions};
use warpswitch_io::CaptureReader;
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::ethernet::Ethernet;
use warpswitch_wire::icmpv6::Icmpv6;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv6::Ipv6;
use warpswitch_wire::ipv6_ext::walk_chain;
use warpswitch_wire::udp::Udp;

fn conf(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf").join(name)
}

fn frames(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().expect("a frame") {
        frames.push(frame.data.to_vec());
    }
    frames
}

/// The router, and where it writes what leaves by lan0 and lan1.
fn router(case: &str) -> (Router, [PathBuf; 2]) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(case);
    std::fs::create_dir_all(&directory).expect("a directory");
    let outputs = ["lan0.pcap", "lan1.pcap"].map(|name| directory.join(name));
    let inputs = ["captures/lan0-ipv6.pcap", "captures/lan1-ipv6.pcap"].map(conf);
    let paths = ["IN0", "IN1", "OUT0", "OUT1"].into_iter().zip(inputs.iter().chain(&outputs));
    let globals: BTreeMap<String, String> =
        paths.map(|(name, path)| (name.into(), path.display().to_string())).collect();
    let text = std::fs::read(conf("ipv6-router.click")).expect("the configuration");
    let registry = warpswitch_elements::registry();
    let loaded = load("ipv6-router.click", &text, &registry, &globals, None);
    let options = RouterOptions {
        console: Box::new(Transcript::default()),
        seed: 1,
        now: SIMULATED_START,
        ticks: None,
    };
    let made = loaded.and_then(|loaded| Router::new(loaded, &registry, options));
    (made.map_err(|errors| errors.to_click()).expect("it is right"), outputs)
}

fn ether(address: [u8; 6]) -> String {
    match address {
        [2, 0, 0, 0, 0, 0] => "r0".into(),
        [2, 0, 0, 0, 1, 0] => "r1".into(),
        [2, 0xaa, 0, 0, 0, 5] => "A".into(),
        [2, 0xbb, 0, 0, 0, 7] => "B".into(),
        other => other.map(|byte| format!("{byte:02x}")).join(":"),
    }
}

/// What a frame says, in a line; its lengths and checksums are looked at.
fn describe(frame: &[u8]) -> String {
    let frame = Ethernet::new_checked(frame).expect("a frame");
    let packet = Ipv6::new_checked(frame.payload()).expect("a whole packet");
    assert_eq!(frame.payload().len(), 40 + packet.payload_bytes(), "nothing behind it");
    let pseudo = PseudoHeader::V6 { src: packet.src(), dst: packet.dst() };
    let chain = walk_chain(packet.next_header(), packet.payload()).expect("a chain");
    let payload = &packet.payload()[chain.bytes..];
    let content = match chain.proto {
        IpProto::UDP => {
            let view = Udp::new_checked(payload).expect("a datagram");
            assert!(view.is_checksum_right(&pseudo));
            format!("udp {}", String::from_utf8_lossy(view.payload()))
        }
        IpProto::ICMPV6 => {
            let view = Icmpv6::new_checked(payload).expect("a message");
            assert!(view.is_checksum_right(&pseudo));
            message(payload)
        }
        other => panic!("what left is of protocol {other}"),
    };
    let (from, to) = (ether(frame.src().0), ether(frame.dst().0));
    format!("{from}>{to} {} > {} {} {content}", packet.src(), packet.dst(), packet.hop_limit())
}

fn message(message: &[u8]) -> String {
    let word = u32::from_be_bytes(message[4..8].try_into().expect("a word"));
    let address = || Ipv6Addr::from(<[u8; 16]>::try_from(&message[8..24]).expect("an address"));
    match message[0] {
        kind @ 1..=4 => {
            let quoted = Ipv6::new_unchecked(&message[8..]);
            let hops = quoted.hop_limit();
            let dst = quoted.dst();
            format!("error {kind}/{} {word} of {dst} {hops}, {} B", message[1], message.len() + 40)
        }
        129 => format!("reply {}", String::from_utf8_lossy(&message[8..])),
        135 => format!("solicits {} {:02x?}", address(), &message[24..]),
        136 => format!("advertises {} {:02x} {:02x?}", address(), message[4], &message[24..]),
        other => panic!("a message of type {other} left"),
    }
}

#[test]
fn what_leaves_is_what_the_standards_say() {
    let (mut router, outputs) = router("what_leaves");
    assert_eq!(router.run(&mut SimulatedHost::default()), Ended::Idle);
    router.finish().map_err(|errors| errors.to_click()).expect("it finishes");
    assert_eq!(router.packets_unaccounted(), 0);
    let left = outputs
        .each_ref()
        .map(|path| frames(path).iter().map(|frame| describe(frame)).collect::<Vec<String>>());
    let (r0, r1) = ("[02, 01, 02, 00, 00, 00, 00, 00]", "[02, 01, 02, 00, 00, 00, 01, 00]");
    let (s0, s1) = ("[01, 01, 02, 00, 00, 00, 00, 00]", "[01, 01, 02, 00, 00, 00, 01, 00]");
    let (i0, i1, a, b) =
        ("2001:db8:0:a::1", "2001:db8:0:b::1", "2001:db8:0:a::5", "2001:db8:0:b::7");
    let expected = [
        format!("r0>A {i0} > {a} 255 advertises {i0} e0 {r0}"),
        format!("r0>33:33:ff:00:00:05 fe80::ff:fe00:0 > ff02::1:ff00:5 255 solicits {a} {s0}"),
        format!("r0>A {i0} > {a} 254 error 3/0 0 of {b} 1, 108 B"),
        format!("r0>A {i0} > {a} 254 error 2/0 1400 of {b} 63, 1280 B"),
        format!("r0>A {b} > {a} 63 udp an answer"),
        format!("r0>A {i0} > {a} 63 reply who is there"),
        format!("r0>A {i0} > {a} 254 error 1/0 0 of 2001:db9::1 64, 116 B"),
        format!(
            "r0>33:33:ff:aa:00:05 fe80::ff:fe00:0 > ff02::1:ffaa:5 255 solicits fe80::aa:5 {s0}"
        ),
        "r0>A fe80::ff:fe00:0 > fe80::aa:5 64 reply on the link".to_owned(),
        format!("r0>A {i0} > {a} 254 error 1/3 0 of 2001:db8:0:b::99 63, 111 B"),
    ];
    assert_eq!(left[0], expected);
    let lost = "r1>33:33:ff:00:00:99 fe80::ff:fe00:100 > ff02::1:ff00:99 255 solicits";
    let lost = format!("{lost} 2001:db8:0:b::99 {s1}");
    let expected = [
        format!("r1>B {i1} > {b} 255 advertises {i1} e0 {r1}"),
        format!("r1>33:33:ff:00:00:07 fe80::ff:fe00:100 > ff02::1:ff00:7 255 solicits {b} {s1}"),
        format!("r1>B {a} > {b} 63 udp forwarded, once B is known"),
        format!("r1>B {i0} > {b} 63 reply the far side of the router"),
        lost.clone(),
        format!("r1>B {a} > {b} 63 udp forwarded at once"),
        format!("r1>B {a} > {b} 63 udp behind options"),
        lost.clone(),
        lost,
    ];
    assert_eq!(left[1], expected);
    let mut read = |handler: &str| router.read(handler).expect("it is there");
    assert_eq!((read("port0/check.drops"), read("port1/check.drops")), ("3".into(), "0".into()));
    assert_eq!((read("nd0.length"), read("nd1.length")), ("0".into(), "0".into()));
    assert_eq!(read("nd1.table"), format!("{b} 1 02-BB-00-00-00-07\n"));
}

#[test]
fn frames_that_are_cut_or_wrong_are_dropped_or_forwarded_and_none_is_lost() {
    let (mut router, _) = router("cut_or_wrong");
    let sort = router.graph().elements.iter().position(|e| e.name == "port0/sort");
    let sort = sort.expect("it is there");
    let mut push = |bytes: &[u8]| {
        let mut batch = router.pool().batch();
        batch.push(router.pool().packet_of(bytes));
        router.push(sort, 0, batch);
        assert_eq!(router.packets_unaccounted(), 0);
    };
    for frame in frames(&conf("captures/lan0-ipv6.pcap")) {
        for len in (0..frame.len()).filter(|len| *len < 150) {
            push(&frame[..len]);
            let mut frame = frame.clone();
            frame[len] ^= 0xff;
            push(&frame);
            frame[len] = 0;
            push(&frame);
        }
    }
    router.run(&mut SimulatedHost::default());
    router.finish().map_err(|errors| errors.to_click()).expect("it finishes");
    assert_eq!(router.packets_unaccounted(), 0);
}
