//! Rewriters in small configurations: packets in, packets out, and values of handlers.

use warpswitch_graph::simulate::{SimulatedHost, router};
use warpswitch_graph::{Router, RouterOptions};

use super::testing::{error, lines, registry, run, run_router, run_through};

/// Runs a configuration and compares what its `TestLog` wrote.
fn check(config: &str, expect: &str) {
    let said = run(config);
    assert_eq!(said.lines().collect::<Vec<_>>(), lines(expect), "{config}");
}

fn read(router: &mut Router, handler: &str) -> String {
    router.read(handler).unwrap_or_else(|error| panic!("{handler}: {error}"))
}

/// A rewriter with the inside at input 0 and the outside at input 1, and what `feed` sends to them.
fn two_sided(rewriter: &str, feed: &str) -> String {
    format!(
        "f :: TestFeed({feed}); rw :: {rewriter}; f[0] -> [0] rw [0] -> [0] log :: TestLog;
        f[1] -> [1] rw [1] -> [1] log;"
    )
}

#[test]
fn flows_go_out_and_answers_come_back() {
    let feed = "0 0 T 18.0.0.4 30 10.0.0.4 40, 1 0 T 18.0.0.4 30 10.0.0.4 40 len=3,
        2 0 U 18.0.0.4 20 10.0.0.8 80 len=1, 3 1 T 10.0.0.4 40 1.0.0.1 1024,
        4 1 U 10.0.0.8 80 1.0.0.1 1024, 5 1 U 10.0.0.8 80 1.0.0.1 1026,
        6 0 47 18.0.0.4 30 10.0.0.4 40, 7 0 U 18.0.0.4 1 10.0.0.4 2 frag=8,
        8 0 T 18.0.0.4 1 10.0.0.4 2 cut=7, 9 0 T 18.0.0.4 30 10.0.0.4 40 cut=17,
        10 0 U 18.0.0.4 20 10.0.0.8 80 nosum, 11 0 T 18.0.0.4 20 10.0.0.8 80";
    let config = two_sided("IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop)", feed);
    let (mut router, said) = run_router(&config, 20);
    let expect = "0 T 1.0.0.1 1024 10.0.0.4 40
        0 T 1.0.0.1 1024 10.0.0.4 40
        0 U 1.0.0.1 1025 10.0.0.8 80
        1 T 10.0.0.4 40 18.0.0.4 30
        0 T 1.0.0.1 1024 10.0.0.4 40 37 bytes
        0 U 1.0.0.1 1025 10.0.0.8 80 no checksum
        0 T 1.0.0.1 1026 10.0.0.8 80";
    assert_eq!(said.lines().collect::<Vec<_>>(), lines(expect));
    let drops = "0\tno IP header\n1\tnot to be rewritten\n1\tfragment\n1\tshort header\n\
        2\tno flow\n0\tnothing free\n0\tpattern does not fit\n0\tfull\n";
    assert_eq!(read(&mut router, "rw.drops_by_reason"), drops);
    assert_eq!(read(&mut router, "rw.nmappings"), "3");
    assert_eq!(read(&mut router, "rw.patterns"), "1.0.0.1 1024-65535 - - [3]\n<drop>\n");
}

#[test]
fn ports_are_free_by_destination_and_run_out() {
    let feed = "0 0 T 18.0.0.4 1 10.0.0.4 1, 1 0 T 18.0.0.4 2 10.0.0.8 2,
        2 0 T 18.0.0.4 3 10.0.0.4 3, 3 0 T 18.0.0.4 4 10.0.0.8 2, 4 0 T 18.0.0.4 5 10.0.0.8 2,
        5 0 T 18.0.0.4 6 10.0.0.8 2, 6 0 T 18.0.0.4 2 10.0.0.8 2, 7 1 T 10.0.0.8 2 1.0.0.1 1026,
        8 0 T 18.0.0.4 6 10.0.0.9 2";
    let config = two_sided("TCPRewriter(pattern 1.0.0.1 1024-1026# - - 0 1, drop)", feed);
    let (mut router, said) = run_router(&config, 20);
    let expect = "0 T 1.0.0.1 1024 10.0.0.4 1
        0 T 1.0.0.1 1025 10.0.0.8 2
        0 T 1.0.0.1 1026 10.0.0.4 3
        0 T 1.0.0.1 1024 10.0.0.8 2
        0 T 1.0.0.1 1026 10.0.0.8 2
        0 T 1.0.0.1 1025 10.0.0.8 2
        1 T 10.0.0.8 2 18.0.0.4 5
        0 T 1.0.0.1 1024 10.0.0.9 2";
    assert_eq!(said.lines().collect::<Vec<_>>(), lines(expect));
    assert_eq!(read(&mut router, "rw.mapping_failures"), "1");
    assert!(read(&mut router, "rw.drops_by_reason").contains("1\tnothing free"));
}

#[test]
fn the_own_port_is_preferred_unless_told_otherwise() {
    check(
        &two_sided(
            "UDPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, pattern 1.0.0.2 7-7? - - 0 1)",
            "0 0 U 18.0.0.4 2000 10.0.0.4 1, 1 1 U 18.0.0.4 2001 10.0.0.4 1,
            2 1 U 18.0.0.4 7 10.0.0.4 2",
        ),
        "0 U 1.0.0.1 2000 10.0.0.4 1
        0 U 1.0.0.2 7 10.0.0.4 1
        0 U 1.0.0.2 7 10.0.0.4 2",
    );
    // Taken already, or out of range: another one.
    let said = run(&two_sided(
        "UDPRewriter(pattern 1.0.0.1 2000-2001 - - 0 1, drop)",
        "0 0 U 18.0.0.4 2000 10.0.0.4 1, 1 0 U 18.0.0.5 2000 10.0.0.4 1,
        2 0 U 18.0.0.6 7 10.0.0.5 1, 3 0 U 18.0.0.7 2000 10.0.0.4 1",
    ));
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said[..2], ["0 U 1.0.0.1 2000 10.0.0.4 1", "0 U 1.0.0.1 2001 10.0.0.4 1"]);
    assert!(said[2].starts_with("0 U 1.0.0.1 200") && said.len() == 3, "{said:?}");
}

#[test]
fn all_kinds_of_specs() {
    check(
        "f :: TestFeed(0 0 T 1.0.0.1 1 2.0.0.2 2, 1 1 T 1.0.0.1 3 2.0.0.2 2,
            2 2 U 1.0.0.1 1 2.0.0.2 2,
            3 0 T 2.0.0.2 2 1.0.0.1 3, 4 0 47 1.0.0.1 1 2.0.0.2 2, 5 3 T 1.0.0.1 9 2.0.0.2 2,
            6 0 T 3.0.0.3 80 1.0.0.1 9);
        rw :: IPRewriter(pass 2, keep 1 0, discard, pattern - - 3.0.0.3 80 1 2);
        f[0] -> [0] rw [0] -> [0] log :: TestLog; f[1] -> [1] rw [1] -> [1] log;
        f[2] -> [2] rw [2] -> [2] log; f[3] -> [3] rw;",
        "2 T 1.0.0.1 1 2.0.0.2 2
        1 T 1.0.0.1 3 2.0.0.2 2
        0 T 2.0.0.2 2 1.0.0.1 3
        2 ? 1.0.0.1 1 2.0.0.2 2
        1 T 1.0.0.1 9 3.0.0.3 80
        2 T 2.0.0.2 2 1.0.0.1 9",
    );
}

#[test]
fn capacity_is_shared_and_guarantees_are_kept() {
    for class in ["IPRewriter", "UDPRewriter"] {
        let proto = if class == "IPRewriter" { "T" } else { "U" };
        let feed = "100 0 P 53.1.1.1 1 2.1.2.2 2, 200 1 P 2.1.2.2 2 1.0.0.2 1024,
            300 2 P 53.1.1.1 1 2.1.2.2 2, 400 2 P 53.1.1.2 1 2.1.2.2 2,
            500 2 P 53.1.1.3 1 2.1.2.2 2,
            600 1 P 2.1.2.2 2 1.0.0.2 1024, 700 3 P 2.1.2.2 2 1.0.0.3 1024,
            800 3 P 2.1.2.2 2 1.0.0.3 1025, 900 3 P 2.1.2.2 2 1.0.0.3 1026,
            5650 0 P 53.1.1.4 1 2.1.2.2 2, 5660 0 P 53.1.1.5 1 2.1.2.2 2,
            6100 1 P 2.1.2.2 2 1.0.0.2 1024, 6200 3 P 2.1.2.2 2 1.0.0.3 1024,
            6300 3 P 2.1.2.2 2 1.0.0.3 1025, 6500 1 P 2.1.2.2 2 1.0.0.2 1025";
        let config = format!(
            "f :: TestFeed({}); f[0] -> [0] a :: {class}(pattern 1.0.0.2 1024-65534# - - 0 1, drop,
                MAPPING_CAPACITY b) -> [0] log :: TestLog; f[1] -> [1] a [1] -> [1] log;
            f[2] -> [0] b :: {class}(pattern 1.0.0.3 1024-65534# - - 0 1, drop,
                MAPPING_CAPACITY 3) -> [2] log; f[3] -> [1] b [1] -> [3] log;",
            feed.replace('P', proto)
        );
        let (mut router, said) = run_router(&config, 7_000);
        let expect = "0 P 1.0.0.2 1024 2.1.2.2 2
            1 P 2.1.2.2 2 53.1.1.1 1
            2 P 1.0.0.3 1024 2.1.2.2 2
            2 P 1.0.0.3 1025 2.1.2.2 2
            1 P 2.1.2.2 2 53.1.1.1 1
            3 P 2.1.2.2 2 53.1.1.1 1
            3 P 2.1.2.2 2 53.1.1.2 1
            0 P 1.0.0.2 1025 2.1.2.2 2
            3 P 2.1.2.2 2 53.1.1.1 1
            3 P 2.1.2.2 2 53.1.1.2 1
            1 P 2.1.2.2 2 53.1.1.4 1";
        let expect = expect.replace('P', proto);
        assert_eq!(said.lines().collect::<Vec<_>>(), lines(&expect));
        let answers = ["a.size", "a.nmappings", "b.nmappings", "a.mapping_failures", "b.capacity"]
            .map(|handler| read(&mut router, handler));
        assert_eq!(answers, ["3", "1", "2", "1", "3"]);
        router.write("a.clear", "").expect("it obeys");
        assert_eq!((read(&mut router, "b.size"), read(&mut router, "b.nmappings")), {
            ("0".to_owned(), "0".to_owned())
        });
    }
}

#[test]
fn what_a_connection_did_decides_who_goes() {
    // Two places: a connection with payload both ways outlives others, until it is reset.
    let feed = "1000 0 T 1.0.0.1 10 2.0.0.2 20, 2000 0 T 1.0.0.2 11 2.0.0.2 21,
        3000 0 T 1.0.0.3 12 2.0.0.2 22, 4000 1 T 2.0.0.2 20 2.0.0.1 1024,
        7000 0 T 1.0.0.2 11 2.0.0.2 21 len=1, 8000 1 T 2.0.0.2 21 2.0.0.1 1025 len=1,
        9000 0 T 1.0.0.3 12 2.0.0.2 22 len=1, 11000 0 T 1.0.0.4 13 2.0.0.2 23,
        13000 0 T 1.0.0.5 14 2.0.0.2 24, 18000 1 T 2.0.0.2 21 2.0.0.1 1025,
        20000 1 T 2.0.0.2 23 2.0.0.1 1027, 21000 1 T 2.0.0.2 24 2.0.0.1 1028,
        23000 0 T 1.0.0.2 11 2.0.0.2 21 flags=4, 24000 0 T 1.0.0.7 16 2.0.0.2 26,
        26000 1 T 2.0.0.2 21 2.0.0.1 1025, 30000 1 T 2.0.0.2 24 2.0.0.1 1028";
    let spec = "pattern 2.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 2, GUARANTEE 0";
    check(
        &two_sided(&format!("TCPRewriter({spec})"), feed),
        "0 T 2.0.0.1 1024 2.0.0.2 20
        0 T 2.0.0.1 1025 2.0.0.2 21
        0 T 2.0.0.1 1026 2.0.0.2 22
        0 T 2.0.0.1 1025 2.0.0.2 21
        1 T 2.0.0.2 21 1.0.0.2 11
        0 T 2.0.0.1 1026 2.0.0.2 22
        0 T 2.0.0.1 1027 2.0.0.2 23
        0 T 2.0.0.1 1028 2.0.0.2 24
        1 T 2.0.0.2 21 1.0.0.2 11
        1 T 2.0.0.2 24 1.0.0.5 14
        0 T 2.0.0.1 1025 2.0.0.2 21
        0 T 2.0.0.1 1029 2.0.0.2 26
        1 T 2.0.0.2 24 1.0.0.5 14",
    );
}

#[test]
fn flows_that_stream_are_kept_longer() {
    let feed = "100 0 U 53.1.1.1 1 2.1.2.2 2, 200 1 U 2.1.2.2 2 1.0.0.2 1024,
        300 0 U 53.1.1.2 1 2.1.2.2 2, 400 0 U 53.1.1.3 1 2.1.2.2 2, 500 0 U 53.1.1.4 1 2.1.2.2 2,
        600 1 U 2.1.2.2 2 1.0.0.2 1024, 700 1 U 2.1.2.2 2 1.0.0.2 1025,
        800 1 U 2.1.2.2 2 1.0.0.2 1026, 900 1 U 2.1.2.2 2 1.0.0.2 1027,
        3650 0 U 53.1.1.5 1 2.1.2.2 2, 4100 1 U 2.1.2.2 2 1.0.0.2 1024,
        4200 1 U 2.1.2.2 2 1.0.0.2 1025, 4300 1 U 2.1.2.2 2 1.0.0.2 1026";
    check(
        &two_sided(
            "UDPRewriter(pattern 1.0.0.2 1024-65534# - - 0 1, drop, GUARANTEE 1, TIMEOUT 4,
                STREAMING_TIMEOUT 5, MAPPING_CAPACITY 3)",
            feed,
        ),
        "0 U 1.0.0.2 1024 2.1.2.2 2
        1 U 2.1.2.2 2 53.1.1.1 1
        0 U 1.0.0.2 1025 2.1.2.2 2
        0 U 1.0.0.2 1026 2.1.2.2 2
        1 U 2.1.2.2 2 53.1.1.1 1
        1 U 2.1.2.2 2 53.1.1.2 1
        1 U 2.1.2.2 2 53.1.1.3 1
        0 U 1.0.0.2 1028 2.1.2.2 2
        1 U 2.1.2.2 2 53.1.1.1 1
        1 U 2.1.2.2 2 53.1.1.3 1",
    );
}

#[test]
fn tables_are_told_looked_up_and_changed() {
    let feed = "0 0 T 53.1.1.1 1 2.1.2.2 2, 1 0 U 53.1.1.4 1 2.1.2.2 2, 2 0 T 53.1.1.2 1 2.1.2.2 2";
    let config = two_sided("IPRewriter(pattern 1.0.0.2 1024-65534# - - 0 1, drop)", feed);
    let (mut router, _) = run_router(&config, 1_400);
    let tcp = "(53.1.1.1, 1, 2.1.2.2, 2) => (1.0.0.2, 1024, 2.1.2.2, 2) [*0 1] i0 exp300
        (2.1.2.2, 2, 1.0.0.2, 1024) => (2.1.2.2, 2, 53.1.1.1, 1) [0 *1] i0 exp300
        (53.1.1.2, 1, 2.1.2.2, 2) => (1.0.0.2, 1026, 2.1.2.2, 2) [*0 1] i0 exp300
        (2.1.2.2, 2, 1.0.0.2, 1026) => (2.1.2.2, 2, 53.1.1.2, 1) [0 *1] i0 exp300";
    assert_eq!(read(&mut router, "rw.tcp_table").lines().collect::<Vec<_>>(), lines(tcp));
    assert_eq!(read(&mut router, "rw.udp_mappings").lines().count(), 2);
    assert_eq!(read(&mut router, "rw.tcp_lookup 53.1.1.1 1 2.1.2.2 2"), "1.0.0.2 1024 2.1.2.2 2");
    assert_eq!(read(&mut router, "rw.tcp_lookup 2.1.2.2 2 1.0.0.2 1026"), "2.1.2.2 2 53.1.1.2 1");
    assert_eq!(read(&mut router, "rw.tcp_lookup 9.1.2.2 2 1.0.0.2 1026"), "");
    let wrong = router.read("rw.tcp_lookup 9.1.2.2 2").map_err(|error| error.to_string());
    let missing = "DADDR: required argument missing\nDPORT: required argument missing";
    assert_eq!(wrong, Err(missing.to_owned()));

    router.write("rw.capacity", "2").expect("it obeys");
    assert_eq!((read(&mut router, "rw.size"), read(&mut router, "rw.capacity")), {
        ("2".to_owned(), "2".to_owned())
    });
    router.write("rw.pattern0", "pattern 1.0.0.4 5 - - 0 1").expect("it obeys");
    assert_eq!(read(&mut router, "rw.patterns"), "1.0.0.4 5 - -\n<drop>\n");
    assert_eq!((read(&mut router, "rw.size"), read(&mut router, "rw.pattern1")), {
        ("0".to_owned(), "<drop>\n".to_owned())
    });
    let wrong = router.write("rw.pattern0", "pattern 1.0.0.4 5 - - 0 9");
    assert_eq!(
        wrong.map_err(|error| error.to_string()),
        Err("input spec 0: output port 9 out of range, expected 0 to 1".to_owned())
    );
    assert!(router.read("rw.pattern2").is_err(), "there are two inputs");
}

#[test]
fn a_flow_to_itself_is_no_harm() {
    check(
        &two_sided(
            "UDPRewriter(pattern 1.0.0.2 1024-65534# - - 0 1, drop, GUARANTEE 1, TIMEOUT 4,
                MAPPING_CAPACITY 3)",
            "1000 0 U 1.0.0.2 1024 1.0.0.2 1024, 1500 1 U 1.0.0.2 1024 1.0.0.2 1024,
            2000 0 U 1.0.0.2 1 1.0.0.2 1024, 3000 0 U 1.0.0.2 2 2.0.0.2 1024,
            4000 0 U 1.0.0.2 3 2.0.0.2 1024, 5000 0 U 1.0.0.2 4 2.0.0.2 1024,
            6000 0 U 1.0.0.2 5 1.0.0.2 1024",
        ),
        "0 U 1.0.0.2 1024 1.0.0.2 1024
        1 U 1.0.0.2 1024 1.0.0.2 1024
        0 U 1.0.0.2 1025 1.0.0.2 1024
        0 U 1.0.0.2 1026 2.0.0.2 1024
        0 U 1.0.0.2 1027 2.0.0.2 1024
        0 U 1.0.0.2 1028 2.0.0.2 1024
        0 U 1.0.0.2 1029 1.0.0.2 1024",
    );
}

#[test]
fn addresses_alone() {
    let feed =
        "0 0 T 1.0.0.1 5 9.9.9.9 6, 1 0 U 1.0.0.2 5 9.9.9.8 6 len=3, 2 0 47 1.0.0.1 5 9.9.9.7 6,
        3 1 U 9.9.9.6 6 3.0.0.1 5 len=1, 4 1 U 9.9.9.6 6 3.0.0.2 5 frag=16,
        5 0 U 1.0.0.2 5 9.9.9.8 6 nosum, 6 0 E 1.0.0.9 5 9.9.9.8 0, 7 1 U 9.9.9.6 6 3.0.0.4 5";
    let config = two_sided("IPAddrRewriter(pattern 3.0.0.1-3.0.0.2# - 0 1, drop)", feed);
    let (mut router, said) = run_router(&config, 20);
    let expect = "0 T 3.0.0.1 5 9.9.9.9 6
        0 U 3.0.0.2 5 9.9.9.8 6
        0 ? 3.0.0.1 5 9.9.9.7 6
        1 U 9.9.9.6 6 1.0.0.1 5
        1 U 9.9.9.6 6 1.0.0.2 5 28 bytes
        0 U 3.0.0.2 5 9.9.9.8 6 no checksum";
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said.len(), 6, "{said:?}");
    for (line, expect) in said.iter().zip(lines(expect)) {
        assert!(line.starts_with(expect.trim_end_matches(" 28 bytes")), "{line} for {expect}");
        assert!(!line.contains("bad"), "{line}");
    }
    let table = "1.0.0.1 => 3.0.0.1 [*0 1] i0 exp7200
        0.0.0.0 => 0.0.0.0 [0 *1] i0 exp7200
        1.0.0.2 => 3.0.0.2 [*0 1] i0 exp7200
        0.0.0.0 => 0.0.0.0 [0 *1] i0 exp7200";
    assert_eq!(read(&mut router, "rw.table").lines().collect::<Vec<_>>(), lines(table));
    assert!(read(&mut router, "rw.drops_by_reason").contains("1\tno flow\n1\tnothing free"));
}

#[test]
fn pairs_of_addresses() {
    let feed = "0 0 T 1.0.0.1 5 9.9.9.9 6, 1 0 T 1.0.0.2 5 9.9.9.8 6, 2 0 T 1.0.0.1 5 9.9.9.9 6,
        3 0 U 1.0.0.1 5 9.9.9.7 6, 4 0 T 9.9.9.6 6 3.0.0.1 5, 5 1 T 9.9.9.7 6 3.0.0.3 5";
    let config = two_sided("IPAddrPairRewriter(pattern 3.0.0.0/24# - 0 1, drop)", feed);
    let (mut router, said) = run_router(&config, 20);
    let expect = "0 T 3.0.0.1 5 9.9.9.9 6
        0 T 3.0.0.2 5 9.9.9.8 6
        0 T 3.0.0.1 5 9.9.9.9 6
        0 U 3.0.0.3 5 9.9.9.7 6
        0 T 3.0.0.4 6 3.0.0.1 5
        1 T 9.9.9.7 6 1.0.0.1 5";
    assert_eq!(said.lines().collect::<Vec<_>>(), lines(expect));
    let table = read(&mut router, "rw.table");
    let first = "(1.0.0.1, 9.9.9.9) => (3.0.0.1, 9.9.9.9) [*0 1] i0 exp7200";
    assert_eq!(table.lines().next(), Some(first));
    assert_eq!(read(&mut router, "rw.patterns"), "3.0.0.1-3.0.0.254 - [4]\n<drop>\n");
}

#[test]
fn pings() {
    let feed = "0 0 E 1.0.0.1 10 5.0.0.5 0, 1 0 E 1.0.0.2 10 5.0.0.5 0 len=3,
        2 1 R 5.0.0.5 100 2.0.0.2 0, 3 1 R 5.0.0.5 101 2.0.0.2 0, 4 1 R 5.0.0.5 102 2.0.0.2 0,
        5 0 E 1.0.0.1 10 5.0.0.6 0, 6 0 E 1.0.0.2 10 5.0.0.5 0, 7 0 U 1.0.0.2 10 5.0.0.5 0,
        8 0 E 1.0.0.3 9 5.0.0.5 0, 9 0 E 1.0.0.4 9 5.0.0.5 0, 10 0 E 1.0.0.4 9 5.0.0.5 0 cut=5";
    let config = two_sided("ICMPPingRewriter(pattern 2.0.0.2 - 100-102# 0 1, drop)", feed);
    let (mut router, said) = run_router(&config, 20);
    let expect = "0 I8 2.0.0.2 100 5.0.0.5
        0 I8 2.0.0.2 101 5.0.0.5
        1 I0 5.0.0.5 10 1.0.0.1
        1 I0 5.0.0.5 10 1.0.0.2
        0 I8 2.0.0.2 102 5.0.0.6
        0 I8 2.0.0.2 101 5.0.0.5
        0 I8 2.0.0.2 102 5.0.0.5";
    assert_eq!(said.lines().collect::<Vec<_>>(), lines(expect));
    let table = read(&mut router, "rw.table");
    let first = "(1.0.0.1, 5.0.0.5, 10) => (2.0.0.2, 5.0.0.5, 100) [*0 1] i0 exp300";
    assert_eq!(table.lines().next(), Some(first));
    let drops = read(&mut router, "rw.drops_by_reason");
    assert!(
        drops.contains("1\tnot to be rewritten\n0\tfragment\n1\tshort header\n1\tno flow\n1\t")
    );
}

/// Its checksum has all bits set, where that of other messages may be zero.
#[test]
fn an_answer_that_is_all_zero_has_the_right_checksum() {
    let feed = "0 0 E 1.0.0.1 7 5.0.0.5 0, 1 0 E 1.0.0.2 0 5.0.0.5 0,
        2 1 R 5.0.0.5 1 2.0.0.2 0, 3 1 R 5.0.0.5 0 2.0.0.2 0";
    let config = two_sided("ICMPPingRewriter(pattern 2.0.0.2 - 0-65535# 0 1, drop)", feed);
    let (_, said) = run_router(&config, 20);
    let expect = "0 I8 2.0.0.2 0 5.0.0.5
        0 I8 2.0.0.2 1 5.0.0.5
        1 I0 5.0.0.5 0 1.0.0.2
        1 I0 5.0.0.5 7 1.0.0.1";
    assert_eq!(said.lines().collect::<Vec<_>>(), lines(expect));
}

#[test]
fn replies_get_the_annotation_of_the_first_packet() {
    let feed = "0 0 T 18.0.0.4 30 10.0.0.4 40 paint=3, 1 0 T 18.0.0.4 31 10.0.0.4 40 paint=4,
        2 0 T 18.0.0.4 30 10.0.0.4 40 paint=5, 3 1 T 10.0.0.4 40 1.0.0.1 1024,
        4 1 T 10.0.0.4 40 1.0.0.1 1025 paint=9";
    let rewriter = "IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop, REPLY_ANNO PAINT)";
    check(
        &two_sided(rewriter, feed),
        "0 T 1.0.0.1 1024 10.0.0.4 40 paint 3
        0 T 1.0.0.1 1025 10.0.0.4 40 paint 4
        0 T 1.0.0.1 1024 10.0.0.4 40 paint 5
        1 T 10.0.0.4 40 18.0.0.4 30 paint 3
        1 T 10.0.0.4 40 18.0.0.4 31 paint 4",
    );
}

#[test]
fn mappers_choose() {
    check(
        "m :: RoundRobinIPMapper(- - - - 0 0, - - - - 1 0, - 5-6# - - 2 0);
        f :: TestFeed(0 0 U 1.0.0.1 1 1.0.0.2 2, 1 0 U 1.0.0.1 1 1.0.0.2 3,
            2 0 U 1.0.0.1 1 1.0.0.2 2,
            3 0 U 1.0.0.1 1 1.0.0.3 2, 4 0 U 1.0.0.1 1 1.0.0.4 2, 5 0 U 1.0.0.1 1 1.0.0.5 2,
            6 0 U 1.0.0.1 9 1.0.0.3 2, 7 0 U 1.0.0.3 2 1.0.0.1 5, 8 0 U 1.0.0.1 1 1.0.0.6 2,
            9 0 U 1.0.0.1 1 1.0.0.7 2, 10 0 U 1.0.0.1 8 1.0.0.3 2);
        f -> rw :: IPRewriter(m); rw -> log :: TestLog; rw[1] -> [1] log; rw[2] -> [2] log;",
        "0 U 1.0.0.1 1 1.0.0.2 2
        1 U 1.0.0.1 1 1.0.0.2 3
        0 U 1.0.0.1 1 1.0.0.2 2
        2 U 1.0.0.1 5 1.0.0.3 2
        0 U 1.0.0.1 1 1.0.0.4 2
        1 U 1.0.0.1 1 1.0.0.5 2
        2 U 1.0.0.1 6 1.0.0.3 2
        0 U 1.0.0.3 2 1.0.0.1 1
        0 U 1.0.0.1 1 1.0.0.6 2
        1 U 1.0.0.1 1 1.0.0.7 2
        0 U 1.0.0.1 8 1.0.0.3 2",
    );
}

#[test]
fn sources_stay_with_their_pattern() {
    let packets: Vec<String> =
        (0..200).map(|n| format!("{n} 0 U 1.0.{}.{n} {n} 1.0.0.2 2", n % 7)).collect();
    let run_with = |patterns: &str| {
        let said = run(&format!(
            "m :: SourceIPHashMapper(50 77, {patterns}); f :: TestFeed({}) -> rw :: UDPRewriter(m);
            rw[0] -> [0] log :: TestLog; rw[1] -> [1] log; rw[2] -> [2] log;",
            packets.join(", ")
        ));
        said.lines().map(|line| line[..1].parse().expect("a digit")).collect::<Vec<usize>>()
    };
    let three = run_with("- - - - 0 0 11, - - - - 1 0 22, - - - - 2 0 33");
    let two = run_with("- - - - 0 0 11, - - - - 2 0 33");
    let count = |of: &[usize], output| of.iter().filter(|&&found| found == output).count();
    assert!((0..3).all(|output| count(&three, output) > 30), "{three:?}");
    // Those of the pattern that went are spread; nobody else moves.
    assert!(three.iter().zip(&two).all(|(was, is)| *was == 1 || was == is));
}

#[test]
fn configurations_that_are_wrong() {
    let check = |class: &str, specs: &str, inputs: usize, expect: &[&str]| {
        let links: String = (0..inputs).map(|n| format!("Idle -> [{n}] rw; ")).collect();
        let config = format!(
            "rw :: {class}({specs}); {links} rw[0] -> Idle; rw[1] -> Idle;
            m :: RoundRobinIPMapper(- - 0 5, - - - - 0 1); c :: Idle;"
        );
        assert_eq!(error(&config), expect, "{class}({specs})");
    };
    check(
        "IPAddrRewriter",
        "pattern 1.0.0.1 1x - - 0 1, pattern 1.0.0.0 0-255 - - 0 1,
            pattern 1.0.0.0 456-19 - - 0 1, pattern 1.0.0.0 456-65536 - - 0 1",
        4,
        &[
            "input spec 0: bad source port",
            "input spec 2: bad source port",
            "input spec 3: bad source port",
        ],
    );
    check(
        "IPRewriter",
        "pattern 1.0.0.5-1.0.0.1 - 0 1, pattern - 1 x - 0 1, pattern - 1 - x 0 1, pattern a 0 1,
            pattern - - 0 2, pattern - - 0 x, pattern - - x 0, keep 0, keep 0 -1, pass 2, pass x,
            drop 1, x, c, m 1, pattern 1 2",
        16,
        &[
            "input spec 0: bad source address",
            "input spec 1: bad destination address",
            "input spec 2: bad destination port",
            "input spec 3: no such pattern 'a'",
            "input spec 4: output port 2 out of range, expected 0 to 1",
            "input spec 5: bad reply port",
            "input spec 6: bad forward port",
            "input spec 7: bad forward port",
            "input spec 8: output port -1 out of range, expected 0 to 1",
            "input spec 9: output port 2 out of range, expected 0 to 1",
            "input spec 10: syntax error, expected 'nochange [OUTPUT]'",
            "input spec 11: syntax error, expected 'drop'",
            "input spec 12: unknown specification",
            "input spec 13: element is not an IPMapper",
            "input spec 14: syntax error, expected element name",
            "input spec 15: syntax error",
        ],
    );
    check("TCPRewriter", "drop", 2, &["need 2 arguments, one per input port"]);
    check("UDPRewriter", "drop, MAPPING_CAPACITY c", 1, &["bad MAPPING_CAPACITY"]);
    check("UDPRewriter", "drop, TCP_TIMEOUT 5", 1, &["need 1 arguments, one per input port"]);
    check("UDPRewriter", "drop, REPLY_ANNO 48", 1, &["REPLY_ANNO: annotation offset out of range"]);
    let range = "input spec 0: output port out of range in m :: RoundRobinIPMapper pattern 0, \
                 expected 0 to 1";
    check("UDPRewriter", "m", 1, &[range]);
}

#[test]
fn flows_end_by_themselves() {
    let feed = "0 0 U 1.0.0.1 1 2.0.0.2 2, 50000 0 U 1.0.0.1 3 2.0.0.2 2";
    let config = two_sided("UDPRewriter(keep 0 1, drop, TIMEOUT 60, REAP_INTERVAL 10)", feed);
    for (ms, flows) in [(59_000, "2"), (61_000, "1"), (109_000, "1"), (111_000, "0")] {
        let (mut router, _) = run_router(&config, ms);
        assert_eq!(read(&mut router, "rw.size"), flows, "after {ms} ms");
    }
    // With nothing left to end, nothing is left to do: the run comes to its end.
    assert_eq!(run(&config).lines().count(), 2);
}

#[test]
fn flows_go_on_in_another_configuration() {
    let old = "f :: TestFeed(0 0 T 1.0.0.1 1 2.0.0.2 2, 1 0 U 1.0.0.1 1 2.0.0.2 2,
            2 1 T 1.0.0.1 3 2.0.0.2 2, 3 2 U 1.0.0.1 3 2.0.0.2 2);
        f[0] -> [0] a :: IPRewriter(pattern 9.9.9.9 100-200# - - 0 1, drop, MAPPING_CAPACITY b);
        f[1] -> [0] b :: TCPRewriter(pattern 8.8.8.8 100-200# - - 0 1, drop);
        f[2] -> [0] c :: UDPRewriter(pattern 7.7.7.7 100-200# - - 0 0);
        a[0] -> Discard; a[1] -> Discard; b[0] -> Discard; b[1] -> Discard; c -> Discard;
        Idle -> [1] a; Idle -> [1] b;";
    let (was, _) = run_router(old, 100);
    // Now they share no more, and one has another class.
    let new = "f :: TestFeed(0 0 T 2.0.0.2 2 9.9.9.9 100, 1 0 U 2.0.0.2 2 9.9.9.9 101,
            2 1 T 2.0.0.2 2 8.8.8.8 100, 3 1 T 1.0.0.7 3 2.0.0.2 2, 4 2 T 2.0.0.2 2 7.7.7.7 100,
            5 0 T 2.0.0.2 2 9.9.9.9 100);
        a :: IPRewriter(pass 2, pattern 9.9.9.9 100-200# - - 0 1);
        b :: TCPRewriter(pattern 8.8.8.8 100-200# - - 0 1);
        c :: TCPRewriter(drop);
        f[0] -> [1] a; f[1] -> [0] b; f[2] -> [0] c; Idle -> [0] a;
        a[0] -> [0] log :: TestLog; a[1] -> [1] log; b[0] -> [2] log; b[1] -> [3] log; c -> [4] log;
        a[2] -> [5] log;";
    let loaded = warpswitch_graph::language::load(
        "config",
        new.as_bytes(),
        &registry(),
        &Default::default(),
        None,
    );
    let Ok(loaded) = loaded else { panic!("it is right") };
    let (_, transcript) = router("Idle -> Discard;", &registry()).expect("it is right");
    let options = RouterOptions {
        console: Box::new(transcript.clone()),
        seed: 2,
        now: warpswitch_graph::simulate::SIMULATED_START,
        ticks: None,
    };
    let Ok((mut now, lost)) = Router::replacing(loaded, &registry(), options, was) else {
        panic!("it is right")
    };
    assert_eq!((lost, read(&mut now, "a.size"), read(&mut now, "b.size")), {
        (0, "2".to_owned(), "1".to_owned())
    });
    now.run(&mut SimulatedHost::default());
    let expect = "1 T 2.0.0.2 2 1.0.0.1 1
        1 U 2.0.0.2 2 1.0.0.1 1
        3 T 2.0.0.2 2 1.0.0.1 3
        2 T 8.8.8.8 101 2.0.0.2 2
        1 T 2.0.0.2 2 1.0.0.1 1";
    assert_eq!(transcript.said().lines().collect::<Vec<_>>(), lines(expect));
}

#[test]
fn any_bytes_pass() {
    for rewriter in [
        "IPRewriter(pattern 9.9.9.9 1-65535 - - 0 0)",
        "TCPRewriter(pattern 9.9.9.9 1-65535# - 8 0 0)",
        "UDPRewriter(pattern - 1-65535? 3.3.3.3 - 0 0, MAPPING_CAPACITY 5)",
        "IPAddrRewriter(pattern 9.9.9.0/24 - 0 0)",
        "IPAddrPairRewriter(pattern 9.9.9.0/24 7.7.7.7 0 0)",
        "ICMPPingRewriter(pattern 9.9.9.9 - 0-65535 0 0)",
        "IPRewriter(pass 0)",
    ] {
        run_through(&format!("input -> {rewriter} -> output"));
    }
}
