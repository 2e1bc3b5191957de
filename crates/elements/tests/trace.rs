//! What following packets promises: each way as it was, what became of the packet and why, and
//! that nothing else is other than without.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use warpswitch_graph::language::{Loaded, load};
use warpswitch_graph::simulate::{self, SIMULATED_START, SimulatedHost, Transcript};
use warpswitch_graph::{
    Clock, Host, Router, RouterOptions, Time, TracedElement, TracedEnd, TracedPacket, TracedWay,
    Workers,
};

/// A UDP packet of 100 bytes from 10.0.0.1, port 1, to 10.0.0.2, port 2.
const UDP: &str = "InfiniteSource(LENGTH 72) -> UDPIPEncap(10.0.0.1, 1, 10.0.0.2, 2)";

/// A way as `input:element>output …: what became of it`, behind `OF/` if it was made of another.
fn told(way: &TracedWay) -> String {
    let port = |port: Option<usize>| port.map_or(String::new(), |port| port.to_string());
    let mut text = way.made.as_ref().map_or(String::new(), |(of, by)| format!("{of}/{} ", by.name));
    for hop in &way.hops {
        let look = hop.look.as_ref().map_or(String::new(), |look| format!("={}", look.bytes));
        text += &format!("{}:{}>{}{look} ", port(hop.input), hop.element.name, port(hop.output));
    }
    text + &match &way.end {
        TracedEnd::Dropped(by, reason) => format!("dropped by {} ({reason})", by.name),
        TracedEnd::Consumed(by, how) => format!("{how} by {}", by.name),
        TracedEnd::Held(by) => format!("held by {}", by.name),
        TracedEnd::Waits(by) => format!("waits for {}", by.name),
        TracedEnd::Replaced(by) => format!("gone with {}", by.name),
        TracedEnd::Unknown(by) => format!("lost in {}", by.name),
    }
}

fn ways(packets: &[TracedPacket]) -> Vec<String> {
    packets.iter().flat_map(|packet| packet.ways.iter().map(told)).collect()
}

/// Runs `config` in simulated time, with packets followed from sources or from an element on.
fn traced(config: &str, packets_max: usize, at: Option<&str>) -> Vec<TracedPacket> {
    let registry = warpswitch_elements::registry();
    let made = simulate::router(config, &registry).map_err(|errors| errors.to_click());
    let (mut router, _) = made.unwrap_or_else(|errors| panic!("{errors}"));
    router.trace(packets_max, at).expect("the element is there");
    router.run(&mut SimulatedHost::default());
    router.finish().map_err(|errors| errors.to_click()).expect("the run finishes");
    assert_eq!(router.packets_unaccounted(), 0);
    router.traced().expect("packets are followed")
}

#[track_caller]
fn check(config: &str, packets_max: usize, expected: &[&str]) {
    assert_eq!(ways(&traced(config, packets_max, None)), expected, "{config}");
}

#[test]
fn what_became_of_a_packet_is_told_however_it_ends() {
    let s = "s :: InfiniteSource(LIMIT 2, LENGTH 60)";
    check(&format!("{s} -> d :: Discard;"), 1, &[":s>0 0:d> discarded by d"]);
    // One by one, as a batch, sorted, by output: every way to drop.
    check(
        &format!("{s} -> q :: SimpleQueue(1) -> Idle;"),
        9,
        &[":s>0 0:q> held by q", ":s>0 0:q> dropped by q (full)"],
    );
    check(
        &format!("{s} -> h :: CheckIPHeader -> Discard;"),
        1,
        &[":s>0 0:h> dropped by h (bad IP version)"],
    );
    check(
        &format!("{s} -> f :: IPFilter(deny all) -> Discard;"),
        1,
        &[":s>0 0:f> dropped by f (filtered)"],
    );
    check(
        &format!("{s} -> c :: Classifier(0/ff) -> Discard;"),
        1,
        &[":s>0 0:c> dropped by c (no_match)"],
    );
    check(
        &format!("{s} -> q :: Queue -> u :: Unqueue -> p :: Paint(1) -> Idle;"),
        1,
        &[":s>0 0:q>0 0:u>0 0:p>0 0:Idle@5> dropped by Idle@5 (idle)"],
    );
    check(
        &format!("{s} -> q :: Queue -> n :: Counter -> d :: Discard;"),
        1,
        &[":s>0 0:q>0 0:n>0 0:d> discarded by d"],
    );
}

#[test]
fn copies_go_ways_of_their_own() {
    check(
        "s :: InfiniteSource(LIMIT 1) -> t :: Tee(3);
         t[0] -> a :: Discard; t[1] -> b :: Discard; t[2] -> c :: Queue -> Idle;",
        5,
        &[
            ":s>0 0:t>2 0:c> held by c",
            "0/t :t>0 0:a> discarded by a",
            "0/t :t>1 0:b> discarded by b",
        ],
    );
}

#[test]
fn fragments_and_answers_are_made_of_the_packet() {
    let text = format!(
        "s :: {UDP} -> h :: MarkIPHeader -> f :: IPFragmenter(48) -> q :: Queue -> Idle;
        f[1] -> Discard;"
    );
    let text = text.replace("LENGTH 72", "LENGTH 72, LIMIT 1");
    check(
        &text,
        1,
        &[
            ":s>0 0:UDPIPEncap@2>0=100 0:h>0 0:f>0=44 0:q> held by q",
            "0/f :f>0 0:q> held by q",
            "0/f :f>0 0:q> held by q",
            "0/f :f>0 0:q> held by q",
        ],
    );
}

/// What is joined of fragments came of the first one; an answer is the request, made over.
#[test]
fn what_is_joined_or_answered_goes_on() {
    let text =
        format!("{UDP} -> MarkIPHeader -> IPFragmenter(60) -> r :: IPReassembler -> Discard;");
    let found = ways(&traced(&text.replace("LENGTH 72", "LENGTH 72, LIMIT 1"), 1, Some("r")));
    assert_eq!(
        found,
        ["0:r> joined with other fragments by r", "0/r :r>0 0:Discard@6> discarded by Discard@6"]
    );
    let request = "\\<ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 0a000001 \
        000000000000 0a000002>";
    check(
        &format!(
            "s :: InfiniteSource(DATA {request}, LIMIT 1)
                -> a :: ARPResponder(10.0.0.2 2:2:2:2:2:2) -> d :: Discard;"
        ),
        1,
        &[":s>0 0:a>0=42 0:d> discarded by d"],
    );
}

/// A packet that goes round for ever, and one that is copied for ever, take no more memory.
#[test]
fn what_is_written_down_is_bounded() {
    let text = "s :: InfiniteSource(LIMIT 2) -> n :: Null -> m :: Null -> n;
        Script(wait 1s, stop);";
    let registry = warpswitch_elements::registry();
    let (mut router, _) =
        simulate::router(text, &registry).map_err(|errors| errors.to_click()).expect("it is right");
    router.trace(1, None).expect("it begins");
    let mut host = SimulatedHost::default();
    host.step_ns = 200_000_000;
    router.run(&mut host.clone());
    let packets = router.traced().expect("it was asked for");
    let way = &packets[0].ways[0];
    assert!((way.hops.len(), packets.len()) == (256, 1) && packets[0].hops_left_out > 1000);
    assert!(matches!(way.end, TracedEnd::Waits(_)), "{:?}", way.end);

    let text = "s :: InfiniteSource(LIMIT 1) -> j :: Null -> t :: Tee -> q :: Queue(300) -> Idle;
        t[1] -> j;";
    let text = format!("{text} Script(wait 1s, stop);");
    let (mut router, _) = simulate::router(&text, &registry)
        .map_err(|errors| errors.to_click())
        .expect("it is right");
    router.trace(1, None).expect("it begins");
    router.run(&mut host);
    let packets = router.traced().expect("it was asked for");
    assert_eq!(packets[0].ways.len(), 64);
    assert!(packets[0].copies_left_out > 100, "{}", packets[0].copies_left_out);
}

#[test]
fn packets_may_be_followed_from_an_element_on() {
    let text = "s :: InfiniteSource(LIMIT 5) -> w :: RoundRobinSwitch;
        w[0] -> Discard; w[1] -> d :: Counter -> Discard;";
    let expected = "0:d>0 0:Discard@5> discarded by Discard@5";
    assert_eq!(ways(&traced(text, 9, Some("d"))), [expected, expected]);
    let registry = warpswitch_elements::registry();
    let (mut router, _) =
        simulate::router(text, &registry).map_err(|errors| errors.to_click()).expect("it is right");
    let error = router.trace(1, Some("Discard@6")).expect_err("there is none");
    assert_eq!(error, "no element is called 'Discard@6': did you mean 'Discard@3'?");
}

fn loaded(config: &str) -> Loaded {
    let registry = warpswitch_elements::registry();
    let loaded = load("config", config.as_bytes(), &registry, &BTreeMap::new(), None);
    loaded.map_err(|errors| errors.to_click()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn options() -> RouterOptions {
    let console = Box::new(Transcript::default());
    RouterOptions { console, seed: 1, now: SIMULATED_START, ticks: None }
}

#[test]
fn ways_go_on_in_the_next_configuration() {
    let registry = warpswitch_elements::registry();
    let text = "s :: InfiniteSource(LIMIT 1) -> t :: Tee -> stays :: Queue -> Idle;
        t[1] -> goes :: Queue -> Idle;";
    let (mut first, _) =
        simulate::router(text, &registry).map_err(|errors| errors.to_click()).expect("it is right");
    first.trace(2, None).expect("it begins");
    first.run(&mut SimulatedHost::default());
    let next = "Idle -> new :: Counter -> stays :: Queue -> d :: Discard;
        other :: InfiniteSource(LIMIT 3) -> goes :: Counter -> Discard;";
    let replaced = Router::replacing(loaded(next), &registry, options(), first);
    let (mut next, lost) = replaced.map_err(|(errors, _)| errors.to_click()).expect("it starts");
    next.run(&mut SimulatedHost::default());
    assert_eq!(lost, 1);
    assert_eq!(
        ways(&next.traced().expect("it goes on")),
        [
            ":s>0 0:t>1 0:goes> gone with goes",
            "0/t :t>0 0:stays>0 0:d> discarded by d",
            ":other>0 0:goes>0 0:Discard@7> discarded by Discard@7",
        ]
    );
}

/// A host in real time.
struct RealHost(Instant);

impl Host for RealHost {
    fn now(&mut self) -> Time {
        SIMULATED_START + self.0.elapsed()
    }

    fn wait(&mut self, until: Option<Time>) -> bool {
        let Some(until) = until else { return false };
        std::thread::sleep(until - self.now());
        true
    }

    fn clock(&self) -> Option<Clock> {
        let start = self.0;
        Some(Arc::new(move || SIMULATED_START + start.elapsed()))
    }

    fn wants_to_serve(&mut self) -> bool {
        false
    }
}

#[test]
fn workers_write_one_log() {
    let text = "a :: InfiniteSource(LIMIT 20000, BURST 7) -> ac :: Counter -> q :: Queue(50000);
        b :: InfiniteSource(LIMIT 20000, BURST 5) -> bt :: Tee -> q; bt[1] -> bd :: Discard;
        q -> u :: Unqueue -> e :: Counter -> d :: Discard;
        StaticThreadSched(a 0, b 1, u 2)";
    for count in [1, 2, 3] {
        let registry = warpswitch_elements::registry();
        let made = Router::new(loaded(text), &registry, options());
        let mut router = made.map_err(|errors| errors.to_click()).expect("it is right");
        let start = |_, work| std::thread::spawn(work);
        router.use_workers(Workers { count, start, sleeper: || None });
        router.trace(500, None).expect("it begins");
        router.run(&mut RealHost(Instant::now()));
        router.finish().map_err(|errors| errors.to_click()).expect("the run finishes");
        assert_eq!(router.packets_unaccounted(), 0);
        let packets = router.traced().expect("they are followed");
        assert_eq!(packets.len(), 500, "{count} workers");
        let seen: BTreeSet<Vec<String>> =
            packets.iter().map(|packet| packet.ways.iter().map(told).collect()).collect();
        let rest = "0:q>0 0:u>0 0:e>0 0:d> discarded by d";
        let expected: [Vec<String>; 2] = [
            vec![format!(":a>0 0:ac>0 {rest}")],
            vec![":b>0 0:bt>1 0:bd> discarded by bd".to_owned(), format!("0/bt :bt>0 {rest}")],
        ];
        for way in &seen {
            assert!(expected.contains(way), "{count} workers: {way:?}");
        }
        for way in packets.iter().flat_map(|packet| &packet.ways) {
            let times: Vec<Time> = way.hops.iter().map(|hop| hop.at).collect();
            assert!(times.is_sorted(), "{times:?}");
        }
    }
}

#[test]
fn elements_are_called_what_they_were_called() {
    let packets = traced("InfiniteSource(LIMIT 1) -> Discard;", 1, None);
    let element =
        |name: &str, class: &str| TracedElement { name: name.into(), class: class.into() };
    let hops: Vec<TracedElement> =
        packets[0].ways[0].hops.iter().map(|hop| hop.element.clone()).collect();
    let source = element("InfiniteSource@1", "InfiniteSource");
    assert_eq!(hops, [source, element("Discard@2", "Discard")]);
}
