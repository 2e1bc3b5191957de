//! The configurations under `conf/`, with the traffic that they are shipped with: what leaves them.
//! (`ipv6_router.rs` has the IPv6 router, frame by frame; what they say, print and count is in
//! `tests/cases`.)

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use warpswitch_graph::language::load;
use warpswitch_graph::simulate::{SIMULATED_START, SimulatedHost, Transcript};
use warpswitch_graph::{Router, RouterOptions};
use warpswitch_io::CaptureReader;
use warpswitch_wire::ipv4::Ipv4;

fn conf(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf").join(name)
}

/// Where this test's outputs go.
fn output(case: &str, name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(case);
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

/// Runs `conf/{case}.click` to its end, with these variables, and checks that no packet was lost.
fn run(case: &str, variables: &[(&str, PathBuf)]) -> (Router, Transcript) {
    let text = std::fs::read(conf(&format!("{case}.click"))).expect("the configuration");
    let globals: BTreeMap<String, String> = variables
        .iter()
        .map(|(name, path)| ((*name).to_owned(), path.display().to_string()))
        .collect();
    let registry = warpswitch_elements::registry();
    let transcript = Transcript::default();
    let options = RouterOptions {
        console: Box::new(transcript.clone()),
        seed: 1,
        now: SIMULATED_START,
        ticks: None,
    };
    let loaded = load(&format!("{case}.click"), &text, &registry, &globals, None);
    let made = loaded.and_then(|loaded| Router::new(loaded, &registry, options));
    let mut router = made.map_err(|errors| errors.to_click()).expect("it is right");
    router.run(&mut SimulatedHost::default());
    router.finish().map_err(|errors| errors.to_click()).expect("it finishes");
    assert_eq!(router.packets_unaccounted(), 0);
    (router, transcript)
}

fn lans(case: &str) -> [(&'static str, PathBuf); 4] {
    [
        ("IN0", conf("captures/lan0.pcap")),
        ("IN1", conf("captures/lan1.pcap")),
        ("OUT0", output(case, "lan0.pcap")),
        ("OUT1", output(case, "lan1.pcap")),
    ]
}

fn frames(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().expect("a frame") {
        frames.push(frame.data.to_vec());
    }
    frames
}

fn count(router: &mut Router, handler: &str) -> u64 {
    let text = router.read(handler).unwrap_or_else(|error| panic!("{handler}: {error}"));
    text.trim().parse().unwrap_or_else(|_| panic!("{handler}: {text}"))
}

#[test]
fn the_forwarder_changes_no_byte() {
    let lans = lans("forwarder");
    run("forwarder", &lans);
    assert_eq!(frames(&lans[0].1), frames(&lans[3].1));
    assert_eq!(frames(&lans[1].1), frames(&lans[2].1));
}

/// Each line is a packet that the router sends, and why it must.
#[test]
fn the_ip_router_does_what_the_standards_ask() {
    let lans = lans("ip-router");
    let (mut router, transcript) = run("ip-router", &lans);
    let said = transcript.said();
    // Without times: packets that the router makes have none of their own.
    let mut sent: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("to lan"))
        .map(|line| match line.split_once(": ").and_then(|(_, rest)| rest.split_once(": ")) {
            Some((_, packet)) => packet,
            None => line,
        })
        .collect();
    sent.sort_unstable();
    let mut expected = [
        // Forwarded, both ways; the record route option too.
        "10.0.0.10.1000 > 10.0.1.11.2000: udp 29",
        "10.0.0.10.1000 > 10.0.1.11.2000: udp 29",
        "10.0.1.11.2000 > 10.0.0.10.1000: udp 29",
        "10.0.0.10 > 10.0.1.11: icmp echo (1, 2)",
        "10.0.1.11 > 10.0.0.10: icmp echo-reply (1, 2)",
        // Longer than the MTU: two fragments. A fragment that came in goes on as it is.
        "10.0.0.10.1000 > 10.0.1.11.2000: udp 2008 (frag 7:1480@0+)",
        "10.0.0.10 > 10.0.1.11: udp (frag 7:528@1480)",
        "10.0.0.10.1000 > 10.0.1.11.2000: udp 24 (frag 9:24@0+)",
        // A time to live of one; too long and not to be cut; an option that points nowhere.
        "10.0.0.1 > 10.0.0.10: icmp timeexceeded transit",
        "10.0.0.1 > 10.0.0.10: icmp 10.0.1.11 unreachable needfrag (mtu 1500)",
        "10.0.0.1 > 10.0.0.10: icmp parameterproblem erroratptr",
        // A neighbour that the sender could reach itself: the packet goes on, and it is told.
        "10.0.0.10.1000 > 10.0.0.99.2000: udp 29",
        "10.0.0.1 > 10.0.0.10: icmp redirect host",
        // A ping to the router.
        "10.0.0.1 > 10.0.0.10: icmp echo-reply (1, 1)",
        // To where no route leads.
        "10.0.0.1 > 10.0.0.10: icmp 10.9.9.9 unreachable net",
    ];
    expected.sort_unstable();
    assert_eq!(sent, expected, "{said}");

    let drops = |router: &mut Router, element: &str| {
        let text = router.read(&format!("{element}.drops_by_reason")).expect("it is there");
        let reasons = text.lines().filter(|line| !line.starts_with("0\t"));
        reasons.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(drops(&mut router, "check"), ["1\tbad IP checksum", "1\tbad source address"]);
    // All that left by lan1 goes to B, whose address an ARP reply told; by lan0 to A, but for a
    // query: nobody told of 10.0.0.99, which never answers.
    let is_arp = |frame: &Vec<u8>| frame[12..14] == [8, 6];
    let (arps, packets): (Vec<_>, Vec<_>) = frames(&lans[3].1).into_iter().partition(is_arp);
    assert!(arps.is_empty() && packets.iter().all(|frame| frame[..6] == [2, 0, 0, 0, 1, 0x0b]));
    let (arps, packets): (Vec<_>, Vec<_>) = frames(&lans[2].1).into_iter().partition(is_arp);
    assert!(packets.iter().all(|frame| frame[..6] == [2, 0, 0, 0, 0, 0x0a]));
    let asked: Vec<_> = arps.iter().map(|frame| (frame[0], frame[21], &frame[38..42])).collect();
    let expected = [(2, 2, [10, 0, 0, 10].as_slice()), (0xff, 1, [10, 0, 0, 99].as_slice())];
    assert_eq!(asked, expected, "the answer to A, and the query");
}

/// Who is who on the four links, by the last two bytes of Ethernet addresses: a frame as
/// `FROM>TO`, with what an IPv4 packet in it tells.
fn four_lans_frame(frame: &[u8]) -> String {
    let (to, from) = (&frame[4..6], &frame[10..12]);
    let mut line = format!("{}.{}>{}.{}", from[0], from[1], to[0], to[1]);
    if frame[12..14] == [8, 0] {
        let packet = Ipv4::new_checked(&frame[14..]).expect("a whole packet");
        assert!(packet.is_checksum_right());
        line += &format!(" {} > {} {}", packet.src(), packet.dst(), packet.total_bytes());
    }
    line
}

/// Frames leave by the right link, to the host or to the gateway that the route names.
#[test]
fn the_router_with_four_interfaces_takes_the_longest_route() {
    let names = ["IN0", "IN1", "IN2", "IN3", "OUT0", "OUT1", "OUT2", "OUT3"];
    let captures = (0..4).map(|lan| conf(&format!("captures/four-lan{lan}.pcap")));
    let outputs: Vec<PathBuf> =
        (0..4).map(|lan| output("ip-router-4", &format!("lan{lan}.pcap"))).collect();
    let paths = captures.chain(outputs.iter().cloned());
    let (mut router, _) = run("ip-router-4", &names.into_iter().zip(paths).collect::<Vec<_>>());
    let left = outputs.iter().map(|path| {
        let mut lines: Vec<String> =
            frames(path).iter().map(|frame| four_lans_frame(frame)).collect();
        lines.sort_unstable();
        lines
    });
    let expected: [&[&str]; 4] = [
        &[
            // Asked for, as nobody told of 10.0.0.77; and the answer to host 10.
            "0.0>0.10",
            "0.0>0.10 10.0.0.1 > 10.0.0.10 576",
            "0.0>0.10 10.0.0.1 > 10.0.0.10 72",
            "0.0>0.10 10.0.0.1 > 10.0.0.10 72",
            "0.0>0.10 10.0.1.11 > 10.0.0.10 44",
            "0.0>0.10 10.0.3.1 > 10.0.0.10 36",
            "0.0>0.10 172.16.5.5 > 10.0.0.10 44",
            "0.0>255.255",
        ],
        &[
            "1.0>1.11 10.0.0.10 > 10.0.1.11 44",
            "1.0>1.11 10.0.2.12 > 10.0.1.11 44",
            "1.0>1.11 192.0.2.80 > 10.0.1.11 40",
        ],
        &[
            // The MTU of this link is 1280; the gateway is 254, and host 12 is told of it.
            "2.0>2.12 10.0.0.10 > 10.0.2.12 1276",
            "2.0>2.12 10.0.0.10 > 10.0.2.12 72",
            "2.0>2.12 10.0.2.1 > 10.0.2.12 72",
            "2.0>2.12 10.0.3.13 > 10.0.2.12 44",
            "2.0>2.254 10.0.0.10 > 172.16.5.5 44",
            "2.0>2.254 10.0.2.12 > 172.16.9.9 44",
        ],
        &[
            "3.0>3.13 10.0.1.11 > 10.0.3.13 44",
            "3.0>3.254 10.0.0.10 > 192.0.2.80 44",
            "3.0>3.254 10.0.1.11 > 192.0.2.80 40",
        ],
    ];
    for (lan, (left, expected)) in left.zip(expected).enumerate() {
        assert_eq!(left, expected, "lan{lan}");
    }
    assert_eq!(count(&mut router, "if0/arp.length"), 1, "one packet waits for 10.0.0.77");
}

#[test]
fn the_firewall_decides_as_its_lines_do_one_by_one() {
    let out = output("firewall", "out.pcap");
    let capture = conf("captures/firewall.pcap");
    let (mut router, _) = run("firewall", &[("IN", capture.clone()), ("OUT", out.clone())]);
    assert_eq!((count(&mut router, "in.count"), count(&mut router, "out.count")), (300, 222));
    let (all, passed) = (frames(&capture), frames(&out));
    assert_eq!(passed.len(), 222);
    // In order, and unchanged.
    let mut left = all.iter();
    assert!(passed.iter().all(|frame| left.any(|other| other == frame)));
}
