//! Tests of `ARPQuerier`: packets sent at once, held for a reply, and dropped without one.

use warpswitch_graph::simulate::SimulatedHost;
use warpswitch_graph::{Router, simulate};

use crate::ethernet::tests::{frames, registry, run_for};

/// Sends `packets` packets to `dst` when `name` is made active: `STOP`ped by its limit.
fn source(name: &str, dst: &str, packets: u32) -> String {
    let bytes: Vec<String> =
        dst.split('.').map(|b| format!("{:02x}", b.parse::<u8>().expect("a byte"))).collect();
    let annotations: String =
        bytes.iter().enumerate().map(|(at, byte)| format!("-> Paint(0x{byte}, {at}) ")).collect();
    format!("{name} :: InfiniteSource(DATA \\<45>, LIMIT {packets}, ACTIVE false) {annotations}")
}

fn send(router: &mut Router, name: &str) {
    router.write(&format!("{name}.reset"), "").expect("it obeys");
    router.write(&format!("{name}.active"), "true").expect("it obeys");
}

fn read(router: &mut Router, handler: &str) -> String {
    router.read(handler).expect("it is there")
}

/// Runs until nothing happens for `ms` milliseconds from now.
fn run_ms(router: &mut Router, host: &mut SimulatedHost, ms: i64) {
    let now = warpswitch_graph::Host::now(host);
    host.end = Some(warpswitch_graph::Time(now.0 + ms * 1_000_000));
    router.run(host);
    let _ = warpswitch_graph::Host::wait(host, host.end);
}

const ME: &str = "020000000001";

#[test]
fn special_addresses_need_no_query() {
    let mut config =
        "q :: ARPQuerier(1.0.0.1/24, 2:0:0:0:0:1) -> Tap -> Discard; Idle -> [1] q;".to_owned();
    let destinations = ["1.0.0.255", "255.255.255.255", "224.129.2.3", "0.0.0.0", "0.0.0.0"];
    for (idx, dst) in destinations.iter().enumerate() {
        let source = source(&format!("s{idx}"), dst, 1).replace("ACTIVE false", "ACTIVE true");
        config += &format!("{source} -> q;");
    }
    assert_eq!(
        frames(&config),
        [
            format!("ffffffffffff {ME} 0800 45"),
            format!("ffffffffffff {ME} 0800 45"),
            format!("01005e010203 {ME} 0800 45"),
            "q :: ARPQuerier: would query for 0.0.0.0; missing dest IP addr annotation?".to_owned(),
        ]
    );
    let (mut router, _) = run_for(&config, 1);
    assert_eq!(read(&mut router, "q.drops"), "2");
}

/// Two addresses that are answered for, one that is not.
#[test]
fn packets_wait_for_the_reply_and_keep_their_order() {
    let config = format!(
        "q :: ARPQuerier(1.0.0.1/24, 2:0:0:0:0:1) -> Tap -> Discard;
        q[1] -> Tap -> r :: ARPResponder(2.0.0.0/24 2:0:0:0:0:2) -> hold :: Queue
        -> u :: Unqueue(ACTIVE false) -> [1] q; r[1] -> Discard;
        {} -> q; {} -> q;",
        source("a", "2.0.0.9", 2),
        source("b", "3.0.0.9", 1),
    );
    let (mut router, said) = simulate::router(&config, &registry()).expect("it is right");
    let mut host = SimulatedHost::default();
    for (name, ms) in [("a", 10), ("b", 10), ("a", 10), ("a", 200)] {
        send(&mut router, name);
        run_ms(&mut router, &mut host, ms);
    }
    assert_eq!(read(&mut router, "q.length"), "7");
    assert_eq!(router.packets_unaccounted(), 0);
    assert_eq!(read(&mut router, "q.queries"), "2", "within a tenth of a second");
    router.write("u.active", "true").expect("it obeys");
    run_ms(&mut router, &mut host, 10);
    let ask =
        |ip: &str| format!("ffffffffffff {ME} 0806 0001080006040001{ME}01000001000000000000{ip}");
    let sent = format!("020000000002 {ME} 0800 45");
    let mut expected = vec![ask("02000009"), ask("03000009")];
    expected.extend(vec![sent; 6]);
    assert_eq!(said.said().lines().collect::<Vec<_>>(), expected);
    assert_eq!(read(&mut router, "q.stats"), "0 packets killed\n2 ARP queries sent\n");
    assert_eq!(
        (read(&mut router, "q.responses"), read(&mut router, "q.count")),
        ("1".into(), "2".into())
    );
    let table = read(&mut router, "q.table");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("3.0.0.9 0 FF-FF-FF-FF-FF-FF 0.2"), "{table}");
    assert!(lines[1].starts_with("2.0.0.9 1 02-00-00-00-00-02 0."), "{table}");
    // What waits is thrown away in the end, and the table forgets all.
    host.end = None;
    router.run(&mut host);
    assert_eq!(
        (read(&mut router, "q.length"), read(&mut router, "q.count")),
        ("0".into(), "0".into())
    );
    assert_eq!(read(&mut router, "q.stats"), "1 packets killed\n2 ARP queries sent\n");
    assert_eq!(router.packets_unaccounted(), 0);
}

#[test]
fn an_address_is_asked_for_ten_times_a_second_and_then_less() {
    let config = format!(
        "q :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1) -> Discard; Idle -> [1] q; {} -> q;",
        source("a", "2.0.0.9", 1)
    );
    let (mut router, _) = simulate::router(&config, &registry()).expect("it is right");
    let mut host = SimulatedHost::default();
    for (steps, queries) in [(1, "1"), (49, "5"), (50, "10"), (49, "10"), (141, "10"), (2, "11")] {
        for _ in 0..steps {
            send(&mut router, "a");
            run_ms(&mut router, &mut host, 10);
        }
        assert_eq!(read(&mut router, "q.queries"), queries, "{steps}");
    }
    assert_eq!(read(&mut router, "q.length"), "292");
}

/// With a third output, an address is queried three times, regardless of the packets that arrive
/// meanwhile. Then the packets held for it leave by that output, and the next packet starts over.
#[test]
fn what_is_not_answered_leaves_by_the_third_output() {
    let config = format!(
        "q :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1) -> Tap -> Discard; q[1] -> Discard;
        q[2] -> lost :: Counter -> Tap -> Discard; Idle -> [1] q; {} -> q; {} -> q;",
        source("a", "2.0.0.9", 2),
        source("b", "2.0.0.10", 1)
    );
    let (mut router, said) = simulate::router(&config, &registry()).expect("it is right");
    let mut host = SimulatedHost::default();
    let mut check = |router: &mut Router, ms: i64, expected: [&str; 4]| {
        run_ms(router, &mut host, ms);
        let found = ["q.queries", "lost.count", "q.length", "q.count"].map(|at| read(router, at));
        assert_eq!(found, expected.map(str::to_owned), "{}", host_time(&mut host));
        assert_eq!(router.packets_unaccounted(), 0);
    };
    send(&mut router, "a");
    check(&mut router, 500, ["1", "0", "2", "1"]);
    send(&mut router, "a");
    send(&mut router, "b");
    check(&mut router, 499, ["2", "0", "5", "2"]);
    check(&mut router, 1_000, ["4", "0", "5", "2"]);
    check(&mut router, 1_000, ["6", "0", "5", "2"]);
    // The one has not answered; the other does.
    router.write("q.insert", "2.0.0.10 2:0:0:0:0:9").expect("it obeys");
    check(&mut router, 2, ["6", "4", "0", "1"]);
    send(&mut router, "a");
    send(&mut router, "b");
    check(&mut router, 999, ["7", "4", "2", "2"]);
    check(&mut router, 2_100, ["9", "6", "0", "1"]);
    // No address is left to query.
    check(&mut router, 60_000, ["9", "6", "0", "1"]);
    let to_b = format!("020000000009 {ME} 0800 45");
    assert_eq!(said.said().lines().filter(|line| **line == to_b).count(), 2);
    assert_eq!(said.said().lines().filter(|line| *line == "45").count(), 6);
}

fn host_time(host: &mut SimulatedHost) -> warpswitch_graph::Time {
    warpswitch_graph::Host::now(host)
}

/// An address that is deleted, or whose held packets were dropped, is not queried any more.
#[test]
fn nobody_asks_for_what_nobody_waits_for() {
    let config = format!(
        "q :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1, CAPACITY 1) -> Discard; q[1] -> Discard;
        q[2] -> lost :: Counter -> Discard; Idle -> [1] q; {} -> q; {} -> q; {} -> q;",
        source("a", "2.0.0.9", 1),
        source("b", "2.0.0.10", 1),
        source("c", "2.0.0.11", 1)
    );
    let (mut router, _) = simulate::router(&config, &registry()).expect("it is right");
    let mut host = SimulatedHost::default();
    for name in ["a", "b", "c"] {
        send(&mut router, name);
        run_ms(&mut router, &mut host, 10);
    }
    router.write("q.delete", "2.0.0.10").expect("it obeys");
    run_ms(&mut router, &mut host, 2_000);
    let all = ["q.queries", "lost.count", "q.length", "q.count"];
    let found = all.map(|handler| read(&mut router, handler));
    assert_eq!(found, ["5", "0", "1", "1"].map(str::to_owned));
    run_ms(&mut router, &mut host, 2_000);
    let found = all.map(|handler| read(&mut router, handler));
    assert_eq!(found, ["5", "1", "0", "0"].map(str::to_owned));
    assert_eq!(router.packets_unaccounted(), 0);
}

/// Questions that are under way go on in the next configuration.
#[test]
fn a_question_outlives_a_configuration() {
    let config = format!(
        "q :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1) -> Discard; q[1] -> Discard;
        q[2] -> lost :: Counter -> Discard; Idle -> [1] q; {} -> q;",
        source("a", "2.0.0.9", 3),
    );
    let (mut router, _) = simulate::router(&config, &registry()).expect("it is right");
    let mut host = SimulatedHost::default();
    send(&mut router, "a");
    run_ms(&mut router, &mut host, 1_500);
    assert_eq!(read(&mut router, "q.queries"), "2");
    let mut router = replaced(router, &config, warpswitch_graph::Host::now(&mut host));
    run_ms(&mut router, &mut host, 1_600);
    let found = ["q.queries", "lost.count", "q.count"].map(|at| read(&mut router, at));
    assert_eq!(found, ["3", "3", "0"].map(str::to_owned));
    assert_eq!(router.packets_unaccounted(), 0);
}

/// A router of `config` in the place of `router`, which loses nothing.
fn replaced(router: Router, config: &str, now: warpswitch_graph::Time) -> Router {
    let (globals, registry) = (Default::default(), registry());
    let loaded =
        warpswitch_graph::language::load("new", config.as_bytes(), &registry, &globals, None);
    let console = Box::new(simulate::Transcript::default());
    let options = warpswitch_graph::RouterOptions { console, seed: 1, now, ticks: None };
    let replaced = Router::replacing(loaded.expect("it is right"), &registry, options, router);
    let (router, lost) = replaced.map_err(|(errors, _)| errors.to_click()).expect("it is right");
    assert_eq!(lost, 0);
    router
}

#[test]
fn what_waits_is_limited() {
    for (limits, packets, (stats, length, count)) in [
        ("ENTRY_PACKET_CAPACITY 10", 50, ("80 packets killed", "20", "2")),
        ("CAPACITY 10", 50, ("90 packets killed", "10", "2")),
        ("CAPACITY 10, CAPACITY_SLIM_FACTOR 10", 50, ("90 packets killed", "10", "2")),
        ("CAPACITY 1, ENTRY_CAPACITY 1", 3, ("5 packets killed", "1", "1")),
    ] {
        let config = format!(
            "q :: ARPQuerier({limits}, 1.0.0.3, 2:1:1:1:1:1) -> Discard; Idle -> [1] q;
            {} -> q; {} -> q;",
            source("a", "2.0.0.2", packets),
            source("b", "2.0.0.3", packets)
        );
        let (mut router, _) = simulate::router(&config, &registry()).expect("it is right");
        let mut host = SimulatedHost::default();
        for name in ["a", "b"] {
            send(&mut router, name);
            run_ms(&mut router, &mut host, 1);
        }
        let expected = format!("{stats}\n2 ARP queries sent\n");
        assert_eq!(read(&mut router, "q.stats"), expected, "{limits}");
        assert_eq!(read(&mut router, "q.length"), length, "{limits}");
        assert_eq!(read(&mut router, "q.count"), count, "{limits}");
        assert_eq!(router.packets_unaccounted(), 0);
    }
}

#[test]
fn an_address_in_use_is_asked_for_before_it_is_forgotten() {
    for (polls, to) in [("false", "020000000009"), ("true", "ffffffffffff")] {
        let config = format!(
            "q :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1, TIMEOUT 0.1s, POLL_TIMEOUT 0.08s,
            BROADCAST_POLL {polls}) -> Discard; q[1] -> Tap -> Discard; Idle -> [1] q; {} -> q;",
            source("a", "2.0.0.9", 1)
        );
        let (mut router, said) = simulate::router(&config, &registry()).expect("it is right");
        let mut host = SimulatedHost::default();
        router.write("q.insert", "2.0.0.9 2:0:0:0:0:9").expect("it obeys");
        for (ms, queries, length) in [(50, "0", "0"), (31, "0", "0"), (30, "1", "0"), (1, "1", "1")]
        {
            send(&mut router, "a");
            run_ms(&mut router, &mut host, ms);
            let found = (read(&mut router, "q.queries"), read(&mut router, "q.length"));
            assert_eq!(found, (queries.into(), length.into()), "{polls} {ms}");
        }
        let query = format!("{to} {ME} 0806 0001080006040001{ME}0100000100000000000002000009");
        assert!(said.said().starts_with(&query), "{}", said.said());
    }
}

#[test]
fn a_table_is_shared_and_outlives_a_configuration() {
    let config = |table: &str, queriers: &str| {
        format!(
            "{table} p :: ARPQuerier({queriers} 1.0.0.1, 2:0:0:0:0:1) -> Discard; Idle -> [1] p;
            q :: ARPQuerier(2.0.0.1, 2:0:0:0:0:2, {queriers}) -> c :: Counter -> Discard;
            Idle -> [1] q; {} -> p; {} -> q;",
            source("a", "2.0.0.8", 3),
            source("b", "2.0.0.9", 4)
        )
    };
    let text = config("t :: ARPTable(TIMEOUT 0);", "TABLE t,");
    let (mut router, _) = simulate::router(&text, &registry()).expect("it is right");
    send(&mut router, "a");
    send(&mut router, "b");
    router.run(&mut SimulatedHost::default());
    for handler in ["t.length", "p.length", "q.length"] {
        assert_eq!(read(&mut router, handler), "7", "{handler}");
    }
    assert_eq!(
        (read(&mut router, "t.held"), read(&mut router, "p.held")),
        ("7".into(), "0".into())
    );
    assert_eq!(router.packets_unaccounted(), 0);
    router.write("q.insert", "2.0.0.9 2:0:0:0:0:9").expect("it obeys");
    router.run(&mut SimulatedHost::default());
    assert_eq!(
        (read(&mut router, "c.count"), read(&mut router, "t.length")),
        ("5".into(), "3".into())
    );

    let mut router = replaced(router, &text, simulate::SIMULATED_START);
    assert_eq!(read(&mut router, "t.length"), "3");
    let table = read(&mut router, "t.table");
    assert!(table.contains("2.0.0.9 1 02-00-00-00-00-09"), "{table}");
    router.write("t.delete", "2.0.0.8").expect("it obeys");
    router.write("t.clear", "").expect("it obeys");
    assert_eq!(
        (read(&mut router, "t.count"), read(&mut router, "t.drops")),
        ("0".into(), "3".into())
    );
    assert_eq!(router.packets_unaccounted(), 0);
}

#[test]
fn replies_must_be_replies() {
    let reply = |ether_type: &str, operation: &str, mac: &str, end: &str| {
        format!(
            "InfiniteSource(DATA \\<{ME} 020000000009 {ether_type} 0001 0800 0604 {operation} {mac}
            02000009 {ME} 0100{end}>, LIMIT 1) -> [1] q;"
        )
    };
    let replies = [
        ("0806", "0001", "020000000009", "0001"),
        ("0806", "0002", "ffffffffffff", "0001"),
        ("0806", "0002", "010000000009", "0001"),
        ("0800", "0002", "020000000009", "0001"),
        ("0806", "0002", "020000000009", "00"),
    ];
    let mut config = "q :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1) -> Discard; Idle -> q;".to_owned();
    for (ether_type, operation, mac, end) in replies {
        config += &reply(ether_type, operation, mac, end);
    }
    let (mut router, _) = run_for(&config, 1);
    assert_eq!(
        (read(&mut router, "q.responses"), read(&mut router, "q.count")),
        ("4".into(), "0".into())
    );
    config += &reply("0806", "0002", "020000000009", "0001");
    let (mut router, _) = run_for(&config, 1);
    assert!(read(&mut router, "q.table").starts_with("2.0.0.9 1 02-00-00-00-00-09"));
}

#[test]
fn arguments_are_checked() {
    let check = |args: &str, error: &str| {
        let config = format!("Idle -> [0] q :: ARPQuerier({args}) -> d :: Discard; Idle -> [1] q;");
        let errors = simulate::router(&config, &registry()).err().expect("it is wrong").to_click();
        assert!(errors.contains(error), "{args}: {errors}");
    };
    check("", "IP: required argument missing");
    check("1.0.0.1", "ETH: parse error");
    check("1.0.0.1, 1:1:1:1:1:1, TABLE d", "TABLE: type mismatch, expected ARPTable");
    check("1.0.0.1, 1:1:1:1:1:1, CAPACITY_SLIM_FACTOR 0", "CAPACITY_SLIM_FACTOR cannot be zero");
    check("1.0.0.1, 1:1:1:1:1:1, FOO 2", "FOO: unknown argument");
}
