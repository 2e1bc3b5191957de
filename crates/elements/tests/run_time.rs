//! What the run time promises, shown on whole configurations: nothing is lost when a configuration
//! is replaced, nothing is allocated once a run is under way, nothing is entered twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use warpswitch_graph::language::load;
use warpswitch_graph::simulate::{SIMULATED_START, SimulatedHost, Transcript, router, run};
use warpswitch_graph::{Ended, Host, Router, RouterOptions, Time};

/// Stops a run after so many looks at the clock.
struct StopsAfter(usize);

impl Host for StopsAfter {
    fn now(&mut self) -> Time {
        SIMULATED_START
    }

    fn wait(&mut self, _until: Option<Time>) -> bool {
        false
    }

    fn serve(&mut self, router: &mut Router) {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 {
            router.stop();
        }
    }
}

fn options() -> RouterOptions {
    let console = Box::new(Transcript::default());
    RouterOptions { console, seed: 1, now: SIMULATED_START, ticks: None }
}

/// A clock for costs that goes on by 10 ns each time it is read.
fn stepping_clock() -> u64 {
    static NOW_NS: AtomicU64 = AtomicU64::new(0);
    NOW_NS.fetch_add(10, Ordering::Relaxed)
}

#[test]
fn costs_are_counted_once_and_told_with_all_else_at_a_time() {
    let text = "source :: InfiniteSource(DATA abcd, LIMIT 10, BURST 10) -> queue :: Queue(8)
        -> Null -> Null -> Null -> Null -> Null -> unqueue :: Unqueue(BURST 8) -> Discard;";
    let registry = warpswitch_elements::registry();
    let loaded = load("config", text.as_bytes(), &registry, &BTreeMap::new(), None);
    let options = RouterOptions { ticks: Some(stepping_clock), ..options() };
    let mut router = Router::new(loaded.expect("it is right"), &registry, options).expect("so too");
    assert_eq!(router.run(&mut SimulatedHost::default()), Ended::Idle);
    let stats = router.read("stats").expect("a handler");
    let (clock, table) = stats.split_once('\n').expect("lines");
    let clock_ns: u64 = clock.strip_prefix("clock_ns\t").and_then(|n| n.parse().ok()).expect("ns");
    let expected = "\
        element\tclass\tpackets\tbytes\tbatches\town_ns\theld\tdrops\n\
        source\tInfiniteSource\t10\t40\t1\tT\t0\t0\n\
        queue\tQueue\t10\t40\t1\tT\t0\t2\t2 full\n\
        unqueue\tUnqueue\t8\t32\t1\tT\t0\t0\n";
    let mut own_ns = 0;
    let told: Vec<String> = table
        .lines()
        .map(|line| {
            let mut fields: Vec<&str> = line.split('\t').collect();
            if let Ok(ns) = fields[5].parse::<u64>() {
                own_ns += ns;
                fields[5] = "T";
            }
            fields.join("\t") + "\n"
        })
        .collect();
    let is_named = |line: &&String| !line.contains('@');
    assert_eq!(told.iter().filter(is_named).cloned().collect::<String>(), expected);
    // No time is counted twice, though the last of a chain that pulls waits for all others.
    assert!(own_ns > 0 && own_ns < clock_ns, "{own_ns} of {clock_ns} ns: {stats}");
    assert_eq!(router.read("queue.bytes"), Ok("40".into()));
    let cost =
        router.read("source.own_ns").and_then(|ns| Ok((ns, router.read("source.ns_per_packet")?)));
    let (own_ns, per_packet) = cost.expect("handlers");
    assert_eq!(per_packet, format!("{:.1}", own_ns.parse::<f64>().expect("ns") / 10.0));
}

const MILLION: &str = "source :: InfiniteSource(LIMIT 1000000, BURST 48)
    -> before :: Counter -> queue :: Queue(100000) -> Unqueue(64) -> after :: Counter -> Discard;";

#[test]
fn a_configuration_is_replaced_in_the_middle_of_a_million_packets() {
    let registry = warpswitch_elements::registry();
    let (mut running, _) = router(MILLION, &registry).expect("it is right");
    // Many times, and into a configuration that has more to it.
    for round in 0..20 {
        assert_eq!(running.run(&mut StopsAfter(40 + round)), Ended::Stopped);
        let text = match round % 2 {
            0 => MILLION.replace("-> before", "-> Counter -> before"),
            _ => MILLION.to_owned(),
        };
        let loaded = load("next", text.as_bytes(), &registry, &BTreeMap::new(), None);
        let loaded = loaded.expect("it is right");
        let replaced = Router::replacing(loaded, &registry, options(), running);
        let (next, lost) = replaced.map_err(|(errors, _)| errors.to_click()).expect("it starts");
        assert_eq!(lost, 0);
        running = next;
        assert_eq!(running.packets_unaccounted(), 0);
    }
    assert_eq!(running.run(&mut SimulatedHost::default()), Ended::Idle);
    assert_eq!(running.read("before.count"), Ok("1000000".into()));
    assert_eq!(running.read("after.count"), Ok("1000000".into()));
    assert_eq!((running.read("queue.drops"), running.packets_unaccounted()), (Ok("0".into()), 0));
}

#[test]
fn a_configuration_with_errors_does_not_replace_the_one_that_runs() {
    let registry = warpswitch_elements::registry();
    let (mut running, _) = router(MILLION, &registry).expect("it is right");
    running.run(&mut StopsAfter(5));
    let text = MILLION.replace("Queue(100000)", "Queue(many)");
    let loaded = load("next", text.as_bytes(), &registry, &BTreeMap::new(), None);
    let replaced = Router::replacing(loaded.expect("it parses"), &registry, options(), running);
    let Err((errors, mut running)) = replaced else { panic!("it has an error") };
    assert!(errors.to_click().contains("CAPACITY"), "{}", errors.to_click());
    assert_eq!(running.run(&mut SimulatedHost::default()), Ended::Idle);
    assert_eq!(running.read("after.count"), Ok("1000000".into()));
}

#[test]
fn elements_that_are_gone_take_their_packets_and_it_is_said() {
    let registry = warpswitch_elements::registry();
    let text = "InfiniteSource(LIMIT 7) -> queue :: Queue -> Idle;";
    let (mut running, _) = router(text, &registry).expect("it is right");
    running.run(&mut SimulatedHost::default());
    let loaded = load("next", b"Idle -> Discard;", &registry, &BTreeMap::new(), None);
    let replaced = Router::replacing(loaded.expect("it parses"), &registry, options(), running);
    let (running, lost) = replaced.map_err(|(errors, _)| errors.to_click()).expect("it starts");
    assert_eq!((lost, running.packets_unaccounted()), (7, 0));
}

#[test]
fn nothing_is_allocated_once_a_run_is_under_way() {
    let registry = warpswitch_elements::registry();
    for burst in [1, 32, 256] {
        let text = format!(
            "InfiniteSource(BURST {burst}) -> Counter -> t :: Tee -> q :: Queue -> Unqueue(64)
             -> Strip(14) -> Unstrip(14) -> Discard; t[1] -> Counter -> Discard;"
        );
        let (mut running, _) = router(&text, &registry).expect("it is right");
        running.run(&mut StopsAfter(200));
        running.write("stop", "").expect("it obeys");
        let counted = allocation_counter::measure(|| {
            running.run(&mut StopsAfter(500));
        });
        assert_eq!(counted.count_total, 0, "batches of {burst}: {counted:?}");
    }
}

#[test]
fn loops_of_elements_end_without_a_stack() {
    // Every packet goes round for ever, and doubles: what stops it is the full queue.
    let text = "InfiniteSource(LIMIT 3) -> c :: Counter -> t :: Tee -> q :: Queue(1000) -> Idle;
        t[1] -> r :: Queue(1) -> u :: Unqueue(LIMIT 100000) -> c;";
    let (mut running, _) = router(text, &warpswitch_elements::registry()).expect("it is right");
    running.run(&mut SimulatedHost::default());
    assert_eq!(running.read("u.count"), Ok("100000".into()));
    assert_eq!(running.read("q.length"), Ok("1000".into()));
    assert_eq!(running.packets_unaccounted(), 0);
}

#[test]
fn arguments_change_while_it_runs() {
    let config = "i :: InfiniteSource(DATA \\<0102>, LIMIT 1) -> c :: Classifier(0/01, -)
        -> a :: Counter -> Discard; c[1] -> b :: Counter -> Discard; d :: Discard; Idle -> d;";
    let (mut router, _) = run(config, &warpswitch_elements::registry());
    router.write("c.config", "0/02, -").expect("it obeys");
    assert_eq!(router.read("c.config"), Ok("0/02, -".into()));
    let error = router.write("c.config", "0/0, -, x").unwrap_err().to_string();
    assert!(error.contains("outputs") || error.contains("pattern"), "{error}");
    router.write("i.reset", "").expect("it obeys");
    router.run(&mut SimulatedHost::default());
    let counts = ["a.count", "b.count", "c.packets"].map(|name| router.read(name));
    assert_eq!(counts, ["1", "1", "2"].map(|count| Ok(count.into())));
    assert!(router.read("flatconfig").expect("it is there").contains("c :: Classifier(0/02, -);"));
    assert!(router.read("c.handlers").expect("it is there").contains("config\trw\n"));
    assert!(router.write("d.config", "").is_err(), "not all can be given others");
}

#[test]
fn calls_reach_elements_that_are_at_work() {
    let config = "InfiniteSource(LIMIT 5) -> c :: Counter(COUNT_CALL 3 c.reset) -> Discard;
        InfiniteSource(LIMIT 5) -> q :: Queue -> d :: Counter(COUNT_CALL 2 s.switch 1)
        -> [0]s :: PullSwitch -> Discard; Idle -> [1]s;
        InfiniteSource(LIMIT 2) -> e :: Counter(COUNT_CALL 2 e.nothing) -> Discard;";
    let (mut router, transcript) = run(config, &warpswitch_elements::registry());
    assert_eq!(router.read("c.count"), Ok("2".into()));
    assert_eq!(router.read("q.length"), Ok("3".into()));
    let said = transcript.said();
    assert!(said.contains("warning: COUNT_CALL: no 'e.nothing' write handler\n"), "{said}");
    assert!(said.ends_with("e :: Counter: e.nothing: no such handler\n"), "{said}");
    assert_eq!(said.matches("warning").count(), 2, "{said}");
}

/// Loops of elements keep nobody from being served, and take no more memory than they may.
#[test]
fn loops_can_be_stopped_and_are_bounded() {
    let registry = warpswitch_elements::registry();
    let source = "InfiniteSource(LIMIT 1) -> a;";
    let round = format!("a :: Null -> b :: Null -> a; {source}");
    let (mut running, _) = router(&round, &registry).expect("it is right");
    assert_eq!(running.run(&mut StopsAfter(100)), Ended::Stopped);
    assert_eq!(running.packets_unaccounted(), 0);
    assert_eq!(running.standing(), [("connections, on their way".to_owned(), 1)]);

    let (mut running, _) =
        router(&format!("a :: Tee; a [0] -> a; a [1] -> a; {source}"), &registry).unwrap();
    assert_eq!(running.run(&mut StopsAfter(100)), Ended::Stopped);
    assert_eq!(running.packets_unaccounted(), 0);
    assert!(running.packets_made() <= (1 << 16) + 2, "{} packets", running.packets_made());
    let drops = running.read("a.drops_by_reason").expect("it is there");
    assert!(drops.contains("too many under way"), "{drops}");
}
