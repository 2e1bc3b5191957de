//! Elements of several crates in one configuration.

use tempfile::TempDir;
use warpswitch_elements::registry;
use warpswitch_graph::simulate::{router, run};

/// A broadcast, a multicast, and two other frames; one of the four is ARP.
const FRAMES: &str = r#"FromIPSummaryDump(STOP true, CHECKSUM true, DATA
    '!data timestamp eth_dst eth_src eth_type src dst proto len
    1.5 02-00-00-00-00-01 02-00-00-00-00-02 0800 1.0.0.1 2.0.0.1 U 60
    2.0 FF-FF-FF-FF-FF-FF 02-00-00-00-00-02 0800 1.0.0.2 2.0.0.2 U 60
    3.0 02-00-00-00-00-01 02-00-00-00-00-02 0806 - - - -
    4.0 01-00-5E-00-00-01 02-00-00-00-00-02 0800 1.0.0.3 2.0.0.3 T 1000')"#;

/// The path of a file in `folder`.
fn file(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

/// The errors of `config`.
fn errors(config: &str) -> String {
    router(config, &registry()).err().map_or(String::new(), |errors| errors.to_click())
}

/// Writes the packets of `config` to a `ToDump`; returns the file's link type and the messages.
fn link_of_dump(folder: &TempDir, config: &str) -> (String, String) {
    let file = file(folder, "link.pcap");
    let (_, transcript) =
        run(&format!("{config} -> ToDump({})", file.clone() + ", SNAPLEN 0"), &registry());
    let (mut router, _) = run(&format!("f :: FromDump({file}, STOP true) -> Discard"), &registry());
    (router.read("f.encap").expect("it is there"), transcript.said())
}

#[test]
fn frames_have_no_packet_type_before_a_filter_sets_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = file(&folder, "a.pcap");
    run(&format!("{FRAMES} -> ToDump({file})"), &registry());
    let count = |between: &str| {
        let config =
            format!("FromDump({file}) -> {between} DropBroadcasts -> c :: Counter -> Discard");
        run(&config, &registry()).0.read("c.count").expect("it is there")
    };
    // One of the four frames goes to all, one to some.
    assert_eq!(count(""), "4");
    assert_eq!(count("HostEtherFilter(02-00-00-00-00-01) ->"), "2");
}

#[test]
fn a_capture_says_ip_where_its_packets_are_known_to_start_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let ether = file(&folder, "ether.pcap");
    run(&format!("{FRAMES} -> ToDump({ether})"), &registry());
    let check = |config: &str, encap: &str, said: &str| {
        let found = link_of_dump(&folder, &format!("FromDump({ether}, STOP true) -> {config}"));
        assert_eq!(found.0, encap, "{config}");
        assert_eq!(found.1.contains("declares Ethernet"), !said.is_empty(), "{config}: {found:?}");
        assert!(found.1.contains(said), "{config}: {found:?}");
    };
    check("Null", "ETHER", "");
    check("Strip(14) -> CheckIPHeader", "IP", "");
    check(
        "Strip(14) -> CheckIPHeader -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)",
        "ETHER",
        "",
    );
    // An offset alone, without a verified header, is not trusted.
    check("MarkIPHeader", "ETHER", "");
    // No element marked the IP header, but there is one.
    let odd = "declares Ethernet, but 3 of the first 4 packets are raw IP: set ENCAP IP";
    check("Strip(14)", "ETHER", odd);
    let (ip, again) = (file(&folder, "ip.pcap"), file(&folder, "again.pcap"));
    run(&format!("{FRAMES} -> Strip(14) -> ToDump({ip}, ENCAP IP)"), &registry());
    let config = format!("FromDump({ip}, STOP true) -> ToDump({again})");
    assert_eq!(run(&config, &registry()).1.said(), "");
    let (mut router, _) =
        run(&format!("f :: FromDump({again}, STOP true) -> Discard"), &registry());
    assert_eq!(router.read("f.encap"), Ok("IP".into()));
}

#[test]
fn a_name_may_say_which_of_its_addresses_is_meant() {
    let config = "AddressInfo(a 10.0.1.2/20 1:2:3:4:5:6 fe80::1/64);
        Idle -> r :: LinearIPLookup(a:ip 0, a:ipnet 1, a:bcast 2);
        r[0], r[1], r[2] -> e :: EtherEncap(0x0800, a:eth, a:eth) -> Discard;";
    let (mut router, _) = router(config, &registry()).expect("it is right");
    let table = router.read("r.table").expect("it is there");
    let routes: Vec<&str> = table.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(routes, ["10.0.1.2/32", "10.0.0.0/20", "10.0.15.255/32"], "{table}");
    assert_eq!(router.read("e.src"), Ok("01-02-03-04-05-06".into()));
    let config = "AddressInfo(a fe80::1/64); AddressInfo(b a:ip6, c a:ip6net); Idle -> Discard";
    assert_eq!(errors(config), "");
    for unknown in ["a:eth", "a:bcast", "a:ip", "a:colour", "b:ip6"] {
        let config = format!("AddressInfo(a fe80::1/64); AddressInfo(x {unknown});");
        assert!(errors(&config).contains("is not a recognizable address"), "{unknown}");
    }
}

/// Buffers are used again: what an earlier packet left in front stays unseen.
#[test]
fn bytes_that_were_never_there_are_zeros() {
    let config = "InfiniteSource(DATA abcde, LIMIT 100, BURST 4) -> switch :: RoundRobinSwitch;
        switch[0] -> Pad(60) -> EtherEncap(0x800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Discard;
        switch[1] -> Strip(14) -> Unstrip(14) -> same :: Counter
        -> c :: Classifier(0/000000000000000000 9/6162636465, -);
        c[0] -> zeros :: Counter -> Discard; c[1] -> Discard;";
    let (mut router, _) = run(config, &registry());
    let counts = ["same", "zeros"].map(|name| router.read(&format!("{name}.byte_count")));
    assert_eq!(counts, [Ok("700".into()), Ok("700".into())]);
}
