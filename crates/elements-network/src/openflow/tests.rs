//! The switch in a graph.

use warpswitch_graph::simulate;

use crate::testing::{errors, hex, registry, run, shown, source};

/// A UDP datagram to 10.0.0.1.
fn frame(source: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, source, 8, 0];
    frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0x66, 0xcf, 0, 0, 0, 0, 10, 0, 0, 1]);
    frame.extend([0, 7, 0, 9, 0, 8, 0, 0]);
    frame
}

/// A file of flows.
fn flows(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows");
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

#[test]
fn frames_leave_where_flows_lead() {
    let (_folder, path) = flows("udp actions=dec_ttl,output:2,IN_PORT\narp actions=FLOOD\n");
    for cache in ["none", "micro", "mega"] {
        let config = format!(
            "sw :: OpenFlowSwitch(PORTS 2, FLOWS {path}, CACHE {cache});
             InfiniteSource(DATA \\<{}>, LIMIT 100, BURST 40) -> [0] sw [0] -> Show(0);
             Idle -> [1] sw [1] -> Show(1);",
            hex(&frame(1))
        );
        let (shown, said, _) = run(&config);
        assert!(said.is_empty(), "{said:?}");
        let count = |label: &str| shown.iter().filter(|shown| shown.label == label).count();
        assert_eq!((count("0"), count("1")), (100, 100), "{cache}");
        assert!(shown.iter().all(|shown| shown.bytes[22] == 63), "the TTL");
    }
}

#[test]
fn handlers_change_read_and_trace() {
    let config = format!(
        "sw :: OpenFlowSwitch; {} -> [0] sw [0] -> Show(0); Idle -> [1] sw [1] -> Show(1);
         Script(write sw.add_flow udp actions=output:2,
                print sw.flows, print $(sw.trace udp), wait 1s,
                print sw.flows table=0, print $(sw.appctl version),
                write sw.del_flows, print sw.flows, print sw.misses);",
        source(&frame(1))
    );
    let (_, transcript) = simulate::run(&config, &registry());
    let (shown, _) = shown(&transcript.said());
    assert_eq!(shown.iter().map(|s| &*s.label).collect::<Vec<_>>(), ["1"]);
    let printed = String::from_utf8(transcript.printed()).expect("text");
    assert!(printed.contains("n_packets=0, n_bytes=0, udp actions=output:2"), "{printed}");
    assert!(printed.contains("n_packets=1, n_bytes=42, udp actions=output:2"), "{printed}");
    assert!(printed.contains("Datapath actions: 2"), "{printed}");
    assert!(printed.contains("\nwarpswitch "), "{printed}");
    assert!(printed.ends_with("\n\n1\n"), "no flows, one miss: {printed}");
}

/// What `dpctl/dump-flows` prints for packets of [`frame`], after so many.
fn dumped(flows_text: &str, cache: &str, limit: u32) -> String {
    let (_folder, path) = flows(flows_text);
    let config = format!(
        "sw :: OpenFlowSwitch(FLOWS {path}, CACHE {cache});
         InfiniteSource(DATA \\<{}>, LIMIT {limit}) -> [0] sw [0] -> Discard;
         Idle -> [1] sw [1] -> Discard;
         Script(wait 1s, print $(sw.appctl dpctl/dump-flows));",
        hex(&frame(1))
    );
    let (_, transcript) = simulate::run(&config, &registry());
    String::from_utf8(transcript.printed()).expect("text").trim_end().to_owned()
}

#[test]
fn cached_flows_are_dumped_as_open_vswitch_does() {
    let ended = "userspace(pid=0,controller(reason=2,dont_send=0,continuation=0,recirc_id=0,\
                 rule_cookie=0,controller_id=0,max_len=65535))";
    let never = ", packets:0, bytes:0, used:never, actions:";
    for (flows, cache, frames, expected) in [
        (
            "udp,nw_dst=10.0.0.0/8 actions=output:2",
            "mega",
            3,
            "eth_type(0x0800),ipv4(dst=10.0.0.0/255.0.0.0,proto=17), packets:2, bytes:84, \
             used:0.990s, actions:2"
                .to_owned(),
        ),
        (
            // What the packets had is not known: all is written.
            "udp actions=mod_nw_dst:0.0.0.0,mod_nw_tos:0,dec_ttl,output:2",
            "mega",
            1,
            format!(
                "eth_type(0x0800),ipv4(proto=17){never}set(ipv4(dst=0.0.0.0,tos=0/0xfc)),\
                 dec_ttl(le_1({ended})),2"
            ),
        ),
        (
            "udp actions=load:5->NXM_OF_IP_SRC[0..7],output:2",
            "mega",
            1,
            format!("eth_type(0x0800),ipv4(proto=17){never}set(ipv4(src=0.0.0.5/0.0.0.255)),2"),
        ),
        ("arp actions=output:2", "mega", 1, format!("eth_type(0x0800){never}drop")),
        (
            "udp actions=mod_vlan_vid:5,output:2",
            "micro",
            1,
            format!(
                "eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:09),eth_type(0x0800),\
                 ipv4(src=0.0.0.0,dst=10.0.0.1,proto=17,tos=0,ttl=64,frag=no),udp(src=7,dst=9)\
                 {never}push_vlan(vid=5,pcp=0),2"
            ),
        ),
    ] {
        let expected = format!("recirc_id(0),in_port(1),packet_type(ns=0,id=0),{expected}");
        assert_eq!(dumped(flows, cache, frames), expected);
    }
    assert_eq!(dumped("udp actions=output:2", "none", 5), "", "there is no cache");
}

#[test]
fn flows_time_out_without_frames_before_the_run_ends() {
    let (_folder, path) = flows("udp,hard_timeout=2 actions=output:2\n");
    let config = format!(
        "sw :: OpenFlowSwitch(FLOWS {path}); {} -> [0] sw [0] -> Show(0);
         Idle -> [1] sw [1] -> Show(1);
         Script(write sw.add_flow arp idle_timeout=5 actions=drop,
                write sw.add_flow sctp actions=drop,
                wait 1.9s, print $(sw.flows udp), wait 0.3s, print $(sw.flows udp),
                print $(sw.flows arp));",
        source(&frame(1))
    );
    let (mut router, transcript) = simulate::run(&config, &registry());
    let printed = String::from_utf8(transcript.printed()).expect("text");
    let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
    let [udp, arp] = &lines[..] else { panic!("{printed}") };
    assert!(udp.starts_with("n_packets=1, ") && udp.contains(" udp "), "{udp}");
    assert!(arp.contains(" arp "), "{arp}");
    let left = router.read("sw.flows").expect("a handler");
    assert!(
        left.starts_with("n_packets=0, n_bytes=0, sctp ") && left.lines().count() == 1,
        "{left}"
    );
}

#[test]
fn errors_name_the_argument() {
    let (_folder, path) = flows("udp actions=nonsense\n");
    let ports = "Idle -> sw -> Discard;";
    for (arguments, expected) in [
        ("PORTS 2", "PORTS: must be the number of inputs, 1"),
        ("CACHE storm", "CACHE: expected one of none, micro, mega"),
        ("LISTEN tcp:1", "LISTEN: expected ptcp:PORT[:ADDRESS]"),
        ("CONTROLLER tcp:host", "CONTROLLER: expected tcp:ADDRESS[:PORT]"),
        ("TABLES 300", "TABLES: must be 1 to 254"),
        ("FLOWS /nowhere", "FLOWS: cannot read /nowhere"),
        (&format!("FLOWS {path}"), "nonsense"),
    ] {
        let errors = errors(&format!("sw :: OpenFlowSwitch({arguments}); {ports}"));
        assert!(errors.contains(expected), "{arguments}: {errors}");
    }
    let (_folder, path) = flows("udp actions=group:1\n");
    let errors = errors(&format!("sw :: OpenFlowSwitch(FLOWS {path}); {ports}"));
    assert!(errors.contains("group that does not exist"), "{errors}");
}

#[test]
fn a_handler_rejects_what_a_controller_could_not_add() {
    let config = "sw :: OpenFlowSwitch; Idle -> sw -> Discard;";
    let (mut router, _) = simulate::router(config, &registry()).ok().unwrap();
    for (handler, value) in [
        ("sw.add_flow", "udp actions=group:7"),
        ("sw.add_flow", "udp"),
        ("sw.del_flows", "udp actions=drop"),
        ("sw.add_group", "group_id=x"),
    ] {
        assert!(router.write(handler, value).is_err(), "{handler} {value}");
    }
}
