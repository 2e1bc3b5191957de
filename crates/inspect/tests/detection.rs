//! Detection in the graph: the configurations under `conf/`, the outputs of `IDSMatcher`, and the
//! hand-over of state to a new configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use warpswitch_graph::language::load;
use warpswitch_graph::simulate::{SIMULATED_START, SimulatedHost, Transcript};
use warpswitch_graph::{Registry, Router, RouterOptions};
use warpswitch_io::{CaptureFormat, CaptureReader, CaptureWriter};

/// All classes.
fn registry() -> Registry {
    warpswitch_inspect::register(warpswitch_elements::registry())
}

/// All alerts for the shipped capture, in order.
const ALL: [u32; 7] = [1000001, 1000003, 1000002, 1000007, 1000004, 1000005, 1000006];

fn conf(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf").join(name);
    path.display().to_string()
}

fn output(case: &str, name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(case);
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

fn options() -> RouterOptions {
    let console = Box::new(Transcript::default());
    RouterOptions { console, seed: 1, now: SIMULATED_START, ticks: None }
}

fn loaded(text: &str, globals: &BTreeMap<String, String>) -> warpswitch_graph::language::Loaded {
    let registry = registry();
    let loaded = load("config", text.as_bytes(), &registry, globals, None);
    loaded.unwrap_or_else(|errors| panic!("{}", errors.to_click()))
}

fn router(text: &str, globals: &BTreeMap<String, String>) -> Router {
    let registry = registry();
    let made = Router::new(loaded(text, globals), &registry, options());
    made.unwrap_or_else(|errors| panic!("{}", errors.to_click()))
}

/// Runs the router to the end.
fn finish(router: &mut Router) {
    router.run(&mut SimulatedHost::default());
    router.finish().unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    assert_eq!(router.packets_unaccounted(), 0);
}

/// The `sid` of each alert in a file.
fn sids(path: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(path).expect("alerts");
    assert!(text.lines().last().is_some_and(|line| line.contains("\"event_type\":\"stats\"")));
    let sid = |line: &str| -> Option<u32> {
        let (_, rest) = line.split_once("\"signature_id\":")?;
        rest.split(',').next()?.parse().ok()
    };
    text.lines().filter_map(sid).collect()
}

fn frames(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut reader = CaptureReader::open(path).expect("a capture");
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().expect("a frame") {
        frames.push((frame.timestamp_ns, frame.data.to_vec()));
    }
    frames
}

/// Runs `conf/{case}.click`; returns the alerts of each file, and the packets sent on each side.
fn run(case: &str, eves: &[&str]) -> (Vec<Vec<u32>>, [Vec<Vec<u8>>; 2]) {
    let text = std::fs::read_to_string(conf(&format!("{case}.click"))).expect("the configuration");
    let mut globals = BTreeMap::new();
    let mut set = |name: &str, value: String| globals.insert(name.to_owned(), value);
    set("RULES", conf("ids.rules"));
    set("RULES_WEB", conf("ids.rules"));
    set("RULES_REST", conf("ids.rules"));
    set("FLOWS", conf("ids-router.rules"));
    set("IN", conf("captures/ids.pcap"));
    set("IN0", conf("captures/ids-lan0.pcap"));
    set("IN1", conf("captures/ids-lan1.pcap"));
    let outs = ["OUT0", "OUT1"].map(|name| output(case, name));
    set("OUT0", outs[0].display().to_string());
    set("OUT1", outs[1].display().to_string());
    let files: Vec<PathBuf> = eves.iter().map(|name| output(case, name)).collect();
    for (name, file) in eves.iter().zip(&files) {
        set(name, file.display().to_string());
    }
    finish(&mut router(&text, &globals));
    let alerts = files.iter().map(|file| sids(file)).collect();
    let left = outs.map(|out| {
        let is_ip = |frame: &Vec<u8>| frame[12..14] == [8, 0];
        let frames = frames(&out).into_iter().map(|(_, frame)| frame);
        frames.filter(is_ip).map(|frame| frame[14..].to_vec()).collect()
    });
    (alerts, left)
}

#[test]
fn configurations_find_the_same_and_forward_the_same() {
    let (alerts, left) = run("dpi-router", &["EVE"]);
    assert_eq!(alerts, [ALL]);
    assert_eq!([left[0].len(), left[1].len()], [16, 33]);
    // The full router sends the same packets, without ARP requests for known addresses.
    let (alerts, routed) = run("full-router-ids", &["EVE"]);
    assert_eq!(alerts, [ALL]);
    assert_eq!(routed, left);
    // Two matchers: the same alerts together.
    let (alerts, diverged) = run("ids-diverging", &["EVE_WEB", "EVE_REST"]);
    assert_eq!(alerts, [vec![1000001, 1000003, 1000002, 1000004], vec![1000007, 1000005, 1000006]]);
    let sorted = |mut left: [Vec<Vec<u8>>; 2]| {
        left.iter_mut().for_each(|frames| frames.sort());
        left
    };
    assert_eq!(sorted(diverged), sorted(left.clone()));
    // Without the pings, which the flow table drops.
    let (alerts, kept) = run("ids-router", &["EVE"]);
    assert_eq!(alerts, [ALL[..6].to_vec()]);
    assert_eq!([kept[0].len(), kept[1].len()], [16, 31]);
    assert!(kept[1].iter().all(|packet| left[1].contains(packet)));
}

#[test]
fn packets_that_alerted_leave_by_the_second_output() {
    let (rules, capture) = (conf("ids.rules"), conf("captures/ids.pcap"));
    let text = format!(
        "FromDump({capture}, STOP true) -> ids :: IDSMatcher(RULES {rules}, PAYLOAD 4);
        ids [0] -> clean :: Counter -> Discard; ids [1] -> told :: Counter -> Discard;"
    );
    let mut router = router(&text, &BTreeMap::new());
    finish(&mut router);
    let mut read = |handler: &str| router.read(handler).expect("it is there");
    assert_eq!([read("clean.count"), read("told.count")], ["45", "7"]);
    assert_eq!([read("ids.alerts"), read("ids.rules"), read("ids.flows")], ["7", "9", "0"]);
    assert!(read("ids.alerts_by_rule").starts_with("1000001 1\n1000002 1\n"));
    assert_eq!(read("ids.unsupported"), format!("{rules}:40 1000010 dce_iface\n"));
    let streams = read("ids.streams");
    for line in ["decoder.pkts 52", "decoder.not_ip 3", "tcp.overlap_diff_data 1", "flow.total 8"] {
        assert!(streams.lines().any(|found| found == line), "{line}: {streams}");
    }
}

/// Without state, each packet is matched by itself: no matches across segments, none in
/// reassembled fragments.
#[test]
fn without_state_packets_are_matched_one_by_one() {
    let (rules, capture) = (conf("ids.rules"), conf("captures/ids.pcap"));
    let text = format!(
        "FromDump({capture}, STOP true) -> ids :: IDSMatcher(RULES {rules}, STATE none);
        ids [0] -> Discard; ids [1] -> told :: Counter -> Discard;"
    );
    let mut router = router(&text, &BTreeMap::new());
    finish(&mut router);
    let mut read = |handler: &str| router.read(handler).expect("it is there");
    let by_rule = read("ids.alerts_by_rule");
    let sids: Vec<u32> =
        by_rule.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(!sids.is_empty() && sids.len() < ALL.len(), "{by_rule}");
    assert!(sids.iter().all(|sid| ALL.contains(sid)), "{by_rule}");
    assert_eq!((read("ids.flows"), read("ids.bytes_max")), ("0".into(), "0".into()));
    assert_ne!(read("told.count"), "0");
    let counters = read("ids.streams");
    assert!(counters.lines().any(|line| line == "decoder.pkts 52"), "{counters}");
    assert!(read("ids.unsupported").contains("needs state"), "{}", read("ids.unsupported"));
}

#[test]
fn a_new_configuration_goes_on_with_the_streams() {
    // Between the two segments with the password file.
    let all = frames(Path::new(&conf("captures/ids.pcap")));
    let cut = all.iter().position(|(_, frame)| frame.ends_with(b"root:x:")).expect("it is there");
    let parts = [&all[..=cut], &all[cut + 1..]];
    let paths = ["first.pcap", "second.pcap"].map(|name| output("swap", name));
    for (frames, path) in parts.into_iter().zip(&paths) {
        let file = std::fs::File::create(path).expect("a file");
        let mut writer = CaptureWriter::from_write(file, CaptureFormat::Pcap, false).unwrap();
        for (time, frame) in frames {
            writer.write_frame(*time, frame).expect("it is written");
        }
        writer.finish().expect("it is written");
    }
    let (rules, eve) = (conf("ids.rules"), output("swap", "eve.json"));
    let config = |path: &Path, more: &str| {
        format!(
            "FromDump({}, STOP true) -> ids :: IDSMatcher(RULES {rules}{more}, OUT {})
                -> Discard;",
            path.display(),
            eve.display()
        )
    };
    let mut first = router(&config(&paths[0], ""), &BTreeMap::new());
    first.run(&mut SimulatedHost::default());
    assert_eq!(first.read("ids.alerts"), Ok("1".into()));
    // With an additional rule before the others.
    let more = output("swap", "more.rules");
    std::fs::write(&more, "alert ip any any -> any any (ttl:1; sid:5;)\n").expect("a file");
    let text = config(&paths[1], &format!(" {}", more.display()));
    let registry = registry();
    let next = loaded(&text, &BTreeMap::new());
    let replaced = Router::replacing(next, &registry, options(), first);
    let (mut second, lost) = replaced.map_err(|(e, _)| e.to_click()).expect("it starts");
    assert_eq!(lost, 0);
    finish(&mut second);
    assert_eq!(sids(&eve), ALL);
    assert!(second.read("ids.alerts_by_rule").is_ok_and(|text| text.starts_with("1000001 1\n")));
}

#[test]
fn what_is_wrong_is_told() {
    let check = |args: String, part: &str| {
        let registry = registry();
        let text = format!("Idle -> IDSMatcher({args}) -> Idle;");
        let made = Router::new(loaded(&text, &BTreeMap::new()), &registry, options());
        let errors = made.err().expect("it is wrong").to_click();
        assert!(errors.contains(part), "{args}: {errors}");
    };
    let bad = output("wrong", "bad.rules");
    std::fs::write(&bad, "alert tcp any any -> $X any (sid:1;)\n").expect("a file");
    check(String::new(), "RULES: required argument missing");
    check("/no/such/file".into(), "RULES: /no/such/file: ");
    check(bad.display().to_string(), "no such variable");
    let rules = conf("ids.rules");
    check(format!("{rules}, VARS X"), "expected NAME=VALUE");
    check(
        format!("{rules}, LINK ppp, FLOWS_MAX 0"),
        "LINK: expected one of ethernet, ip, sll, sll2, null",
    );
    check(format!("{rules}, OUT /no/such/folder/eve.json"), "/no/such/folder/eve.json: ");
    check(format!("{rules}, MEMORY_MAX 64K, WINDOW 65K"), "MEMORY_MAX: expected at least");
    check(format!("{rules}, MEMORY_MAX 64KB"), "MEMORY_MAX: invalid number");
    check(format!("{rules}, STATE some"), "STATE: expected 'flows' or 'none'");
    check(format!("{rules}, STATE none, WINDOW 1K"), "WINDOW: invalid with STATE none");
}

/// Sizes accept the same suffixes as the options of the command.
#[test]
fn sizes_take_suffixes() {
    let bytes_max = |sizes: &str| {
        let text = format!("Idle -> ids :: IDSMatcher({}, {sizes}) -> Idle;", conf("ids.rules"));
        let registry = registry();
        let made = Router::new(loaded(&text, &BTreeMap::new()), &registry, options());
        let mut router = made.unwrap_or_else(|errors| panic!("{sizes}: {}", errors.to_click()));
        router.read("ids.bytes_max").expect("it is there")
    };
    let plain = bytes_max("MEMORY_MAX 1048576, WINDOW 2048, PAYLOAD 1024");
    assert_eq!(bytes_max("MEMORY_MAX 1M, WINDOW 2K, PAYLOAD 1K"), plain);
    assert_ne!(bytes_max("MEMORY_MAX 2M, WINDOW 2K"), plain);
}
