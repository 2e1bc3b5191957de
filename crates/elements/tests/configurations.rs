//! The configurations under `conf/`, with the traffic that they are shipped with: what they say,
//! print and count. (`ipv6_router.rs` has the IPv6 router, frame by frame.)

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use warpswitch_graph::language::load;
use warpswitch_graph::simulate::{SIMULATED_START, SimulatedHost, Transcript};
use warpswitch_graph::{Router, RouterOptions};
use warpswitch_io::CaptureReader;

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
        "10.0.0.1 > 10.0.0.10: icmp 10.0.1.11 unreachable needfrag",
        "10.0.0.1 > 10.0.0.10: icmp parameterproblem erroratptr",
        // A neighbour that the sender could reach itself: the packet goes on, and it is told.
        "10.0.0.10.1000 > 10.0.0.99.2000: udp 29",
        "10.0.0.1 > 10.0.0.10: icmp redirect host",
        // A ping to the router.
        "10.0.0.1 > 10.0.0.10: icmp echo-reply (1, 1)",
    ];
    expected.sort_unstable();
    assert_eq!(sent, expected, "{said}");

    let drops = |router: &mut Router, element: &str| {
        let text = router.read(&format!("{element}.drops_by_reason")).expect("it is there");
        let reasons = text.lines().filter(|line| !line.starts_with("0\t"));
        reasons.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(drops(&mut router, "check"), ["1\tbad IP checksum", "1\tbad source address"]);
    assert_eq!(drops(&mut router, "routes"), ["1\tno route"]);
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

#[test]
fn the_flow_table_sends_each_packet_to_the_port_it_names() {
    let variables =
        [("IN", conf("captures/firewall.pcap")), ("RULES", conf("sdn-forwarder.rules"))];
    let (mut router, _) = run("sdn-forwarder", &variables);
    let counts = ["in.count", "port0.count", "port1.count"].map(|name| count(&mut router, name));
    assert_eq!(counts, [300, 284, 14]);
    assert_eq!(counts[0], counts[1] + counts[2] + 2, "telnet goes nowhere");
}

#[test]
fn the_rate_limiter_lets_through_what_it_may() {
    let (mut router, _) = run("rate-limiter", &[]);
    let [came, left] = ["in.count", "out.count"].map(|name| count(&mut router, name));
    assert!((9_990..=10_001).contains(&came), "{came} packets in ten seconds of 1000");
    assert!((3_990..=4_020).contains(&left), "{left} packets in ten seconds of 400");
    assert_eq!(count(&mut router, "queue.drops"), 0, "the queue never fills");
}

#[test]
fn the_gateway_hides_who_is_behind_it_and_lets_answers_in() {
    let inside = conf("captures/nat-inside.txt");
    let outside = conf("captures/nat-outside.txt");
    let (mut router, transcript) = run("nat-gateway", &[("INSIDE", inside), ("OUTSIDE", outside)]);
    let printed = String::from_utf8(transcript.printed()).expect("text");
    let lines: Vec<&str> = printed.lines().filter(|line| !line.starts_with('!')).collect();
    let (out, inward): (Vec<&str>, Vec<&str>) =
        lines.into_iter().partition(|line| line.starts_with("192.0.2.1 "));
    // Nobody outside sees an address of inside, and one port has one owner.
    assert_eq!(out.len(), 4);
    assert_eq!(out[0], "192.0.2.1 40000 198.51.100.7 80 T");
    assert!(out[1].ends_with(" 198.51.100.7 80 T") && out[1] != out[0], "{out:?}");
    assert_eq!(out[2..], ["192.0.2.1 5353 198.51.100.53 53 U", out[0]]);
    let answers = [
        "198.51.100.7 80 10.0.0.10 40000 T",
        "198.51.100.53 53 10.0.0.10 5353 U",
        "198.51.100.7 80 10.0.0.10 40000 T",
    ];
    assert_eq!(inward, answers);
    let drops = router.read("nat.drops_by_reason").expect("it is there");
    assert!(drops.contains("1\tno flow"), "{drops}");
}
