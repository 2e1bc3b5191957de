//! Round-trip tests of captures: write, then read.

use warpswitch_graph::simulate::{SIMULATED_START, run};

use super::Folder;

/// Three IP packets in Ethernet frames: to one, to all, and to some, and one frame of ARP.
pub(super) const FRAMES: &str = r#"FromIPSummaryDump(STOP true, CHECKSUM true, DATA
    '!data timestamp eth_dst eth_src eth_type src dst proto len
    1.5 02-00-00-00-00-01 02-00-00-00-00-02 0800 1.0.0.1 2.0.0.1 U 60
    2.0 FF-FF-FF-FF-FF-FF 02-00-00-00-00-02 0800 1.0.0.2 2.0.0.2 U 60
    3.0 02-00-00-00-00-01 02-00-00-00-00-02 0806 - - - -
    4.0 01-00-5E-00-00-01 02-00-00-00-00-02 0800 1.0.0.3 2.0.0.3 T 1000')"#;

#[test]
fn captures_come_back_as_they_went() {
    let folder = Folder::new("dumps");
    for name in ["a.pcap", "a.pcapng", "a.pcap.gz", "a.pcapng.gz"] {
        let file = folder.file(name);
        let config = format!("{FRAMES} -> d :: ToDump({file}, SNAPLEN 100)");
        let (mut router, _) = run(&config, &crate::registry());
        assert_eq!(router.read("d.count"), Ok("4".into()));
        let bytes = std::fs::read(&file).expect("it was written");
        let magic: &[u8] = match name {
            "a.pcap" => &[0x4d, 0x3c, 0xb2, 0xa1],
            "a.pcapng" => &[0x0a, 0x0d, 0x0d, 0x0a],
            _ => &[0x1f, 0x8b],
        };
        assert!(bytes.starts_with(magic), "{name}");
        let config = format!(
            "f :: FromDump({file}, STOP true, FORCE_IP true)
            -> ToIPSummaryDump(-, HEADER false, FIELDS timestamp src len wire_len eth_dst)
            -> Discard; f[1] -> c :: Counter -> Discard;"
        );
        let (mut router, transcript) = run(&config, &crate::registry());
        assert_eq!(
            String::from_utf8(transcript.printed()).expect("text"),
            "1.500000 1.0.0.1 60 74 02-00-00-00-00-01\n\
             2.000000 1.0.0.2 60 74 FF-FF-FF-FF-FF-FF\n\
             4.000000 1.0.0.3 1000 100 01-00-5E-00-00-01\n",
            "{name}"
        );
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!((read("c.count"), read("f.count")), ("1".into(), "3".into()));
        assert_eq!((read("f.encap"), read("f.filename")), ("ETHER".into(), file.clone()));
        assert_eq!(read("f.filesize"), bytes.len().to_string());
        if name == "a.pcap" {
            assert_eq!(read("f.filepos"), bytes.len().to_string());
        }
    }
}

#[test]
fn a_capture_that_is_asked_for_lets_who_asks_rest_at_its_end() {
    let folder = Folder::new("asked");
    let file = folder.file("a.pcap");
    run(&format!("{FRAMES} -> ToDump({file})"), &crate::registry());
    let sources =
        [format!("FromDump({file})"), format!("FromDump({file}, TIMING true)"), FRAMES.into()];
    for source in sources {
        // A run that does not rest never ends here.
        let config = format!("{source} -> Unqueue -> c :: Counter -> Discard");
        let (mut router, _) = run(&config.replace("STOP true, ", ""), &crate::registry());
        assert_eq!(router.read("c.count"), Ok("4".into()), "{source}");
    }
}

#[test]
fn what_packets_start_with_is_told_and_taken_over() {
    let folder = Folder::new("encap");
    let (ip, again) = (folder.file("ip.pcap"), folder.file("again.pcap"));
    let source = "FromIPSummaryDump(STOP true, CHECKSUM true, DATA '!data src len\n1.0.0.1 60\n')";
    run(&format!("{source} -> ToDump({ip}, ENCAP IP)"), &crate::registry());
    let config = format!("f :: FromDump({ip}, STOP true) -> ToDump({again}, USE_ENCAP_FROM f)");
    run(&config, &crate::registry());
    // Packets of an IP capture have their headers set by default.
    let config = format!(
        "f :: FromDump({again}, STOP true) -> ToIPSummaryDump(-, HEADER false, FIELDS src len)"
    );
    let (mut router, transcript) = run(&config, &crate::registry());
    assert_eq!(router.read("f.encap"), Ok("IP".into()));
    assert_eq!(transcript.printed(), b"1.0.0.1 60\n");
}

#[test]
fn a_capture_may_go_to_the_standard_output() {
    let (_, transcript) = run(&format!("{FRAMES} -> ToDump(-)"), &crate::registry());
    let printed = transcript.printed();
    assert_eq!(printed.len(), 24 + 4 * 16 + 74 + 74 + 14 + 1014);
    assert_eq!(printed[..4], [0x4d, 0x3c, 0xb2, 0xa1]);
}

#[test]
fn times_choose_packets_and_end_the_capture() {
    let folder = Folder::new("times");
    let file = folder.file("a.pcap");
    run(&format!("{FRAMES} -> ToDump({file})"), &crate::registry());
    let check = |args: &str, times: &str| {
        let config = format!(
            "f :: FromDump({file}, {args}) -> t :: ToIPSummaryDump(-, HEADER false, FIELDS ts);"
        );
        let (router, transcript) = run(&config, &crate::registry());
        let printed = String::from_utf8(transcript.printed()).expect("text");
        let found: Vec<&str> = printed.lines().map(|line| &line[..3]).collect();
        assert_eq!(found.join(" "), times, "{args}: {}", transcript.said());
        assert_eq!(router.packets_unaccounted(), 0);
    };
    check("START 2, END 4", "2.0 3.0");
    check("START_AFTER 1.5", "3.0 4.0");
    check("END_AFTER 0.5", "1.5");
    check("START 2, INTERVAL 1.5", "2.0 3.0");
    check("END 3, END_CALL stop", "1.5 2.0 3.0");
    check("END 3, END_CALL f.active false", "1.5 2.0");
    check("END 2, END_CALL f.extend_interval 1.5", "1.5 2.0 3.0 4.0");
    check("SAMPLE 0", "");
    check("FILEPOS 40", "2.0 3.0 4.0");
    check("BURST 3", "1.5 2.0 3.0 4.0");
    check("ACTIVE false", "");
}

#[test]
fn times_are_kept_if_they_are_asked_for() {
    let folder = Folder::new("timing");
    let file = folder.file("a.pcap");
    run(&format!("{FRAMES} -> ToDump({file})"), &crate::registry());
    let config = format!("FromDump({file}, TIMING true, STOP true) -> c :: Counter -> Discard;");
    let mut host = warpswitch_graph::simulate::SimulatedHost::default();
    host.end = Some(warpswitch_graph::Time(SIMULATED_START.0 + 1_600_000_000));
    let (mut router, _) = warpswitch_graph::simulate::run_until(&config, &crate::registry(), host);
    // Due: at once, after 0.5 s and 1.5 s; the last after 2.5 s.
    assert_eq!(router.read("c.count"), Ok("3".into()));
    assert_eq!(router.standing().len(), 1);
}

#[test]
fn damaged_captures_give_what_is_whole_and_say_so() {
    let folder = Folder::new("damaged");
    let file = folder.file("a.pcap");
    run(&format!("{FRAMES} -> ToDump({file})"), &crate::registry());
    let bytes = std::fs::read(&file).expect("it is there");
    std::fs::write(&file, &bytes[..bytes.len() - 1]).expect("it can be written");
    let config = format!("f :: FromDump({file}, STOP true) -> Discard");
    let (mut router, transcript) = run(&config, &crate::registry());
    assert_eq!(router.read("f.count"), Ok("3".into()));
    assert!(transcript.said().contains("the capture ends within"), "{}", transcript.said());
    std::fs::write(&file, b"no capture at all").expect("it can be written");
    let check = |config: &str, expected: &str| {
        let errors = warpswitch_graph::simulate::router(config, &crate::registry());
        let errors = errors.err().map_or(String::new(), |errors| errors.to_click());
        assert!(errors.contains(expected), "{config}: {errors}");
    };
    check(&config, "not a tcpdump file (bad magic number)");
    check("FromDump(/none) -> Discard", "/none: No such file or directory");
    check("FromDump -> Discard", "FILENAME: required argument missing");
    check("FromDump(a, STOP true, END_CALL b.c) -> Discard", "END_CALL and STOP are mutually");
    check("FromDump(a, END 1, INTERVAL 2) -> Discard", "END, END_AFTER, and INTERVAL are mutually");
    check("Idle -> ToDump(/none/a)", "/none/a: there is no folder '/none'");
    check("Idle -> ToDump(a, ENCAP X)", "bad encapsulation type");
    check("i :: Idle -> ToDump(a, USE_ENCAP_FROM i)", "'i' has no 'encap' read handler");
}

#[test]
fn a_file_is_whole_or_not_there() {
    let folder = Folder::new("whole");
    let file = folder.file("a.pcap");
    let config = format!("InfiniteSource(LIMIT 3, LENGTH 64) -> ToDump({file})");
    let (mut router, _) =
        warpswitch_graph::simulate::router(&config, &crate::registry()).expect("it is right");
    router.run(&mut warpswitch_graph::simulate::SimulatedHost::default());
    assert!(!std::path::Path::new(&file).exists());
    router.finish().expect("it can be written");
    assert_eq!(std::fs::metadata(&file).expect("it is there").len(), 24 + 3 * (16 + 64));
}

#[test]
fn devices_are_captures_and_the_generator() {
    let folder = Folder::new("devices");
    let (first, second) = (folder.file("a.pcap"), folder.file("b.pcapng"));
    let config = format!(
        "f :: FromDevice(gen:100:7, BURST 3) -> Queue -> t :: ToDevice({first}) -> c :: Counter
        -> Discard"
    );
    let (mut router, _) = run(&config, &crate::registry());
    let mut read = |handler: &str| router.read(handler).expect("it is there");
    assert_eq!((read("c.count"), read("c.byte_count")), ("7".into(), "700".into()));
    assert_eq!((read("f.count"), read("t.count")), ("7".into(), "7".into()));
    let config = format!(
        "FromDevice({first}, FORCE_IP true)
        -> ToIPSummaryDump(-, HEADER false, FIELDS src sport dst dport len udp_len ip_sum)
        -> Queue -> ToDevice({second}, BURST 8)"
    );
    let (_, transcript) = run(&config, &crate::registry());
    let printed = String::from_utf8(transcript.printed()).expect("text");
    assert_eq!(printed.lines().count(), 7);
    // 0x4500 + 0x0056 + 0x4011 + 0x0a00 + 0x0001 + 0x0a00 + 0x0101 is 0x9a69.
    let sum = !0x9a69u16;
    let line = format!("10.0.0.1 1026 10.0.1.1 1025 86 66 {sum}");
    assert_eq!(printed.lines().nth(2), Some(line.as_str()));
    assert!(std::fs::read(&second).expect("it is there").starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]));
    let check = |config: &str, expected: &str| {
        let errors = warpswitch_graph::simulate::router(config, &crate::registry());
        let errors = errors.err().map_or(String::new(), |errors| errors.to_click());
        assert!(errors.contains(expected), "{config}: {errors}");
    };
    check("FromDevice(eth0) -> Discard", "no interfaces are opened here");
    check("FromDevice(eth0, SNIFFER false, OUTBOUND true) -> Discard", "no interfaces are opened");
    check("FromDevice(eth0, PROTOCOL 0x0800) -> Discard", "no interfaces are opened here");
    check("FromDevice(eth0, PROTOCOL 65536) -> Discard", "PROTOCOL: out of range");
    check(
        "FromDevice(eth0, BPF_FILTER 'udp') -> Discard",
        "BPF_FILTER: not supported on interfaces",
    );
    check("FromDevice(eth0, BPF_FILTER '') -> Discard", "no interfaces are opened here");
    check("FromDevice(tap:t0, OUTBOUND true) -> Discard", "OUTBOUND: not supported on TAP devices");
    check(
        "FromDevice(eth0, METHOD AFXDP, PROTOCOL 0x0800) -> Discard",
        "PROTOCOL: not supported with METHOD AFXDP; use AFPACKET",
    );
    check("FromDevice(eth0, METHOD X) -> Discard", "METHOD: expected AUTO, AFPACKET, ");
    check("FromDevice(longer-than-names-are) -> Discard", "no device 'longer-than-names-are': a ");
    check("Idle -> ToDevice(eth0)", "no interfaces are opened here");
    check("FromDevice -> Discard", "DEVNAME: required argument missing");
    check("FromDevice(gen:1) -> Discard", "expected gen:[BYTES[:COUNT]]");
    check("FromDevice(/none/x) -> Discard", "/none/x: there is no folder '/none'");
    check("Idle -> ToDevice(gen:)", "the generator takes no packets");
    check("Idle -> ToDevice(/none/x)", "/none/x: there is no folder '/none'");
}

/// A pcapng file with an empty frame of each of these link types.
fn of_links(links: &[u16]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let bytes = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &bytes, body, &bytes].concat()
    };
    let mut file =
        block(0x0a0d_0d0a, &[&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0], &[0xff; 8][..]].concat());
    for link in links {
        file.extend(block(1, &[&link.to_le_bytes()[..], &[0; 6]].concat()));
    }
    for interface in 0..links.len() as u8 {
        file.extend(block(6, &[&[interface], &[0; 19][..]].concat()));
    }
    file
}

#[test]
fn frames_of_several_links_are_told_once() {
    let folder = Folder::new("links");
    let file = folder.file("x.pcapng");
    let check = |links: &[u16], arguments: &str, expected: &[&str]| {
        std::fs::write(&file, of_links(links)).unwrap();
        let config = format!("FromDump({file}, STOP true{arguments}) -> Discard");
        let (_, transcript) = run(&config, &crate::registry());
        let said = transcript.said();
        assert_eq!(said.lines().count(), expected.len(), "{links:?}: {said}");
        assert!(expected.iter().all(|part| said.contains(part)), "{links:?}: {said}");
    };
    check(&[1, 1, 1], "", &[]);
    check(&[1, 113, 105, 113], "", &["frames of Linux cooked among those of Ethernet"]);
    check(&[105, 1], "", &["frames of Ethernet among those of"]);
    check(&[1, 113], ", FORCE_IP true", &[]);
}

#[test]
fn rewind_at_the_end_reads_the_file_again_and_again() {
    let folder = Folder::new("rewind");
    let file = folder.file("a.pcap");
    run(&format!("{FRAMES} -> ToDump({file})"), &crate::registry());
    for burst in [1, 3, 64] {
        let config = format!(
            "f :: FromDump({file}, BURST {burst}, END_CALL f.rewind)
             -> c :: Counter(COUNT_CALL 9 stop) -> Discard"
        );
        let (mut router, transcript) = run(&config, &crate::registry());
        assert_eq!(transcript.said(), "");
        let count: u64 = router.read("c.count").unwrap().parse().unwrap();
        assert!((9..9 + burst).contains(&count), "bursts of {burst}: {count}");
        assert_eq!(router.packets_unaccounted(), 0);
    }
}

#[test]
fn burst_handler_sets_the_packets_of_a_batch() {
    let folder = Folder::new("burst-handler");
    let file = folder.file("a.pcap");
    run(&format!("{FRAMES} -> ToDump({file})"), &crate::registry());
    let config = format!(
        "f :: FromDump({file}, ACTIVE false) -> c :: Counter -> Discard;
         Script(write f.burst 4, write f.active true)"
    );
    let (mut router, _) = run(&config, &crate::registry());
    let mut read = |handler: &str| router.read(handler).unwrap();
    let found = (read("f.burst"), read("c.count"), read("c.batches"));
    assert_eq!(found, ("4".into(), "4".into(), "1".into()));
    for wrong in ["0", "x"] {
        assert!(router.write("f.burst", wrong).is_err(), "{wrong}");
    }
}
