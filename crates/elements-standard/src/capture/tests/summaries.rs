//! Tests of IP summary dumps: written lines, and packets made from lines.

use warpswitch_graph::simulate::{SIMULATED_START, SimulatedHost, router, run, run_until};
use warpswitch_graph::{Host, Router, Time};

/// What is printed of `dump`, with these arguments and fields; lines about the format left out.
fn convert(args: &str, dump: &str, fields: &str) -> String {
    let config = format!(
        "FromIPSummaryDump(STOP true{args}, DATA '{dump}') -> ToIPSummaryDump(-, FIELDS {fields})"
    );
    let (_, transcript) = run(&config, &crate::registry());
    let printed = String::from_utf8(transcript.printed()).expect("text");
    assert_eq!(transcript.said(), "");
    printed.lines().filter(|line| !line.starts_with('!')).map(|line| format!("{line}\n")).collect()
}

fn same(dump: &str, fields: &str) {
    let text: String = dump.lines().map(|line| format!("{}\n", line.trim())).collect();
    assert_eq!(convert("", &format!("!data {fields}\n{text}"), fields), text, "{fields}");
}

/// A run is not served before a task returns: files of which nothing is a packet are read bit by
/// bit.
#[test]
fn lines_that_are_no_packets_keep_nobody_waiting() {
    let data = "#\n".repeat(300_000) + "1.0.0.1\n";
    let sources =
        [format!("DATA '{data}'"), format!("SAMPLE 0, DATA '{}'", "1.0.0.1\n".repeat(100_000))];
    for source in sources {
        let config = format!(
            "f :: FromIPSummaryDump({source}, FIELDS src, BURST 64) -> c :: Counter -> Discard"
        );
        let (mut router, _) = router(&config, &crate::registry()).expect("it is right");
        let mut host = Looks(0);
        router.run(&mut host);
        assert!(host.0 > 3, "{} looks", host.0);
    }
}

/// Counts its looks at a run.
struct Looks(u32);

impl Host for Looks {
    fn now(&mut self) -> Time {
        SIMULATED_START
    }

    fn wait(&mut self, _until: Option<Time>) -> bool {
        false
    }

    fn serve(&mut self, _router: &mut Router) {
        self.0 += 1;
    }
}

#[test]
fn what_is_read_is_written_again() {
    same(
        "996033261.451094 18.26.4.44 53 10.0.0.4 65535 U 132 77 254 29
        -0.500000 0.0.0.0 0 255.255.255.255 1 T 40 65535 0 0
        1.000000001 1.2.3.4 - 5.6.7.8 - 47 20 0 1 255",
        "timestamp src sport dst dport proto len id ttl tos",
    );
    same("1.500000 3 > 7\n2.000000 1 < 0", "first_ts count direction aggregate");
    same("100 F 0+\n60 f 800\n40 ! 0!\n40 . 0", "ip_len ip_frag ip_fragoff");
    same(
        "T 10 20 SA 480 7 mss1400;sackok;ts5:0
        T 4294967295 0 . 0 0 .
        T 1 2 FSRPAUECN 65535 1 sack95-98;99=1:2",
        "proto tcp_seq tcp_ack tcp_flags tcp_window tcp_urp tcp_opt",
    );
    same("U 34 54\nT - 40", "ip_proto udp_len ip_len");
    same(
        "I echo 0 256 7 -\nI unreachable needfrag - - 576\nI 200 3 - - -",
        "ip_proto icmp_type_name icmp_code_name icmp_flowid icmp_seq icmp_nextmtu",
    );
    same("12 3 ce 30\n0 0 no 0", "ip_dscp ip_ttl ip_ecn link");
    same("00-0A-95-A6-D9-BC 02-00-00-00-00-01 0800 1.0.0.1", "eth_src eth_dst eth_type ip_src");
    same("32 rr{1.2.3.4};99=7 60\n20 . 40", "ip_hl ip_opt ip_len");
}

#[test]
fn what_is_missing_has_its_usual_value() {
    let check = |dump: &str, fields: &str, expected: &str| {
        assert_eq!(convert("", dump, fields), expected, "{dump}");
    };
    check(
        "!data src\n1.0.0.1",
        "src dst proto ttl len sport tcp_off id",
        "1.0.0.1 0.0.0.0 T 100 40 0 20 0\n",
    );
    check("!proto U\n!data src\n1.0.0.1", "proto sport udp_len len", "U 0 8 28\n");
    check("!proto I\n!data src icmp_type\n1.0.0.1 echo-reply", "proto icmp_type sport", "I 0 -\n");
    check("!data timestamp\n1.0", "timestamp src len sport wire_len", "1.000000 - 0 - 0\n");
    check(
        "!flowid 1.0.0.1 5 2.0.0.2 6 U\n!data dport\n7",
        "src sport dst dport proto",
        "1.0.0.1 5 2.0.0.2 7 U\n",
    );
    check(
        "!data src dst\n# no packet\n\n1.0.0.1\n2.0.0.2 3.0.0.3 4.0.0.4",
        "src dst",
        "1.0.0.1 0.0.0.0\n2.0.0.2 3.0.0.3\n",
    );
    check("!IPSummaryDump 1.0\n!data src fragoff\n1.0.0.1 10+", "fragoff", "80+\n");
    check(
        "!data src len payload_len\n1.0.0.1 60 16",
        "tcp_off ip_hl len payload_len",
        "24 20 60 16\n",
    );
    check("!data src proto len payload_len\n1.0.0.1 U 60 16", "ip_hl payload_len", "36 16\n");
}

#[test]
fn payloads_are_quoted_and_digested() {
    // What stands within quotes is one word, spaces and all.
    let dump = "!data src proto payload\n1.0.0.1 U \"a\\t b\\\"\\\\c\\001\\377\"\n1.0.0.1 T \"\"\n";
    let config = format!(
        "FromIPSummaryDump(STOP true, CHECKSUM true, DATA '{dump}')
        -> ToIPSummaryDump(-, HEADER false, FIELDS payload payload_len payload_md5_hex payload_md5)"
    );
    let (_, transcript) = run(&config, &crate::registry());
    let printed = String::from_utf8(transcript.printed()).expect("text");
    let mut lines = printed.lines();
    let line = lines.next().expect("a line");
    assert!(line.starts_with("\"a\\t b\\\"\\\\c\\001\\377\" 9 "), "{line}");
    assert_eq!(line.split(' ').next_back().map(str::len), Some(22), "{line}");
    let empty = "d41d8cd98f00b204e9800998ecf8427e";
    assert!(lines.next().is_some_and(|line| line.starts_with(&format!("\"\" 0 {empty} "))));
}

#[test]
fn checksums_are_right_if_they_are_asked_for() {
    let dump = "!data src dst proto len\n1.0.0.1 2.0.0.2 T 90\n1.0.0.1 2.0.0.2 U 51\n\
                1.0.0.1 2.0.0.2 I 29\n";
    let config =
        format!("FromIPSummaryDump(STOP true, CHECKSUM true, DATA '{dump}') -> q :: Queue -> Idle");
    let (mut router, _) = run(&config, &crate::registry());
    assert_eq!(router.read("q.length"), Ok("3".into()));
    assert_eq!(
        convert(", CHECKSUM true", dump, "wire_len len ip_sum"),
        "90 90 21404\n51 51 21432\n29 29 21470\n"
    );
}

#[test]
fn what_is_wrong_with_packets_is_told() {
    let dump = "!data src proto sport dport tcp_opt\n1.0.0.1 T 1 2 wscale10\n1.0.0.1 U 1 2 -\n";
    let config = format!(
        "FromIPSummaryDump(STOP true, DATA '{dump}')
        -> ToIPSummaryDump(-, HEADER false, BAD_PACKETS true, FIELDS src tcp_opt)
        -> Strip(1)
        -> ToIPSummaryDump(-, HEADER false, BAD_PACKETS true, FIELDS src len)"
    );
    let (_, transcript) = run(&config, &crate::registry());
    let printed = String::from_utf8(transcript.printed()).expect("text");
    assert_eq!(
        printed,
        "1.0.0.1 wscale10\n!bad no IP header\n- 43\n1.0.0.1 -\n!bad no IP header\n- 27\n"
    );
}

#[test]
fn wrong_arguments_and_lines_are_told_in_clicks_words() {
    let check = |config: &str, expected: &str| {
        let result = warpswitch_graph::simulate::router(config, &crate::registry());
        let said = match result {
            Ok((mut router, transcript)) => {
                router.run(&mut SimulatedHost::default());
                assert_eq!(router.packets_unaccounted(), 0);
                transcript.said()
            }
            Err(errors) => errors.to_click(),
        };
        assert!(said.contains(expected), "{config}:\n{said}");
    };
    check("FromIPSummaryDump -> Discard", "FILENAME: required argument missing");
    check("FromIPSummaryDump(a, DATA b) -> Discard", "FILENAME and DATA conflict");
    check("FromIPSummaryDump(/none) -> Discard", "/none: No such file or directory");
    check("FromIPSummaryDump(/dev/null) -> Discard", "/dev/null: empty file");
    check("FromIPSummaryDump(/none, ALLOW_NONEXISTENT true) -> Discard", "");
    check("FromIPSummaryDump(DATA '1.0.0.1') -> Discard", "<data>:1: warning: missing banner line");
    check("FromIPSummaryDump(DATA '1.0.0.1') -> Discard", "<data>:1: no '!data' provided");
    check("FromIPSummaryDump(DATA '!data src\nx') -> Discard", "<data>:2: packet parse error");
    check(
        "FromIPSummaryDump(DATA '!data sorc\n1') -> Discard",
        "<data>:1: warning: unknown content type 'sorc'",
    );
    check("FromIPSummaryDump(DATA '!flowid 1\n') -> Discard", "bad !flowid specification");
    check("FromIPSummaryDump(DATA '!proto x\n') -> Discard", "bad protocol in !proto");
    check("FromIPSummaryDump(DATA '!data src\n!binary\n\u{1}') -> Discard", "<data>:record ");
    check("Idle -> ToIPSummaryDump(-, FIELDS sorc)", "unknown content type 'sorc'");
    check("Idle -> ToIPSummaryDump(-, FIELDS \"\")", "no contents specified");
    check(
        "Idle -> ToIPSummaryDump(-, FIELDS payload, BINARY true)",
        "cannot use field payload with BINARY",
    );
    check("Idle -> ToIPSummaryDump(/none/x)", "/none/x: there is no folder '/none'");
}

#[test]
fn times_are_kept_if_they_are_asked_for() {
    let config = "f :: FromIPSummaryDump(TIMING true, STOP true,
        DATA '!data timestamp src\n5.0 1.0.0.1\n5.25 1.0.0.2\n8.0 1.0.0.3') -> c :: Counter
        -> Discard;";
    let end = Some(warpswitch_graph::Time(SIMULATED_START.0 + 2_000_000_000));
    let mut host = SimulatedHost::default();
    host.end = end;
    let (mut router, _) = run_until(config, &crate::registry(), host);
    assert_eq!(router.read("c.count"), Ok("2".into()));
    assert_eq!(router.standing().len(), 1);
    let (mut router, _) = run(config, &crate::registry());
    assert_eq!((router.read("c.count"), router.read("f.count")), (Ok("3".into()), Ok("3".into())));
}

#[test]
fn a_line_may_stand_for_several_packets() {
    let dump =
        "!data first_ts ts count src proto len\n1.0 3.0 3 1.0.0.1 U 100\n- 5.0 1 1.0.0.2 U 40\n";
    assert_eq!(
        convert(", MULTIPACKET true", dump, "ts count src len udp_len"),
        "1.000000 1 1.0.0.1 33 13\n2.000000 1 1.0.0.1 33 13\n3.000000 1 1.0.0.1 34 14\n\
         5.000000 1 1.0.0.2 40 20\n"
    );
    let config = format!(
        "FromIPSummaryDump(STOP true, DATA '{dump}')
        -> ToIPSummaryDump(-, HEADER false, MULTIPACKET true, FIELDS ts src) -> Discard"
    );
    let (_, transcript) = run(&config, &crate::registry());
    let printed = String::from_utf8(transcript.printed()).expect("text");
    assert_eq!(printed, "1.000000 1.0.0.1\n2.000000 1.0.0.1\n3.000000 1.0.0.1\n5.000000 1.0.0.2\n");
}

#[test]
fn files_hold_what_was_written_in_text_and_binary() {
    let folder = super::Folder::new("summaries");
    let fields = "timestamp src sport dst dport proto len ip_opt tcp_opt tcp_flags frag eth_src";
    let dump = format!(
        "!data {fields}\n\
         1.5 1.0.0.1 30 10.0.0.4 40 T 80 rr{{2.3.4.5}}+1 ts1:2 SA . 01-02-03-04-05-06\n\
         2.25 1.0.0.2 53 10.0.0.4 53 U 28 . - - F 01-02-03-04-05-07\n"
    );
    let (text, binary) = (folder.file("a.dump"), folder.file("b.dump"));
    let config = format!(
        "FromIPSummaryDump(STOP true, DATA '{dump}')
        -> t :: ToIPSummaryDump({text}, FIELDS {fields}, BANNER \"us\")
        -> b :: ToIPSummaryDump({binary}, BINARY true, FIELDS {fields});"
    );
    run(&config, &crate::registry());
    let first = std::fs::read_to_string(&text).expect("it was written");
    assert!(
        first.starts_with("!IPSummaryDump 1.3\n!creator \"us\"\n!data timestamp ip_src "),
        "{first}"
    );
    let body = first.split_once("eth_src\n").expect("a header").1.to_owned();
    assert_eq!(body.lines().count(), 2);
    for file in [&text, &binary] {
        let config = format!(
            "f :: FromIPSummaryDump({file}, STOP true) -> ToIPSummaryDump(-, HEADER false,
            FIELDS {fields})"
        );
        let (mut router, transcript) = run(&config, &crate::registry());
        let printed = String::from_utf8(transcript.printed()).expect("text");
        assert_eq!(printed, body, "{file}");
        let bytes = std::fs::metadata(file).expect("it is there").len().to_string();
        assert_eq!(router.read("f.filesize"), Ok(bytes.clone()));
        assert_eq!((router.read("f.filepos"), transcript.said()), (Ok(bytes), String::new()));
    }
}
