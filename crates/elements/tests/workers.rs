//! What several workers promise: the packets, counts and orders of one, nothing lost, and handlers
//! that find all in one place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use warpswitch_graph::language::load;
use warpswitch_graph::simulate::{SIMULATED_START, Transcript};
use warpswitch_graph::{Clock, Ended, Host, Router, RouterOptions, Time, Workers};

/// A host in real time; it stops the router after so many looks, if it is asked to.
struct RealHost {
    start: Instant,
    looks_left: Option<usize>,
}

impl RealHost {
    fn new(looks_left: Option<usize>) -> Self {
        Self { start: Instant::now(), looks_left }
    }
}

impl Host for RealHost {
    fn now(&mut self) -> Time {
        SIMULATED_START + self.start.elapsed()
    }

    fn wait(&mut self, until: Option<Time>) -> bool {
        let Some(until) = until else { return false };
        std::thread::sleep(until - self.now());
        true
    }

    fn clock(&self) -> Option<Clock> {
        let start = self.start;
        Some(Arc::new(move || SIMULATED_START + start.elapsed()))
    }

    fn wants_to_serve(&mut self) -> bool {
        let Some(left) = &mut self.looks_left else { return false };
        *left = left.saturating_sub(1);
        *left == 0
    }

    fn serve(&mut self, router: &mut Router) {
        if self.looks_left == Some(0) {
            router.stop();
        }
    }
}

fn loaded(config: &str) -> warpswitch_graph::language::Loaded {
    let registry = warpswitch_elements::registry();
    let loaded = load("config", config.as_bytes(), &registry, &BTreeMap::new(), None);
    loaded.map_err(|errors| errors.to_click()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn options(transcript: &Transcript) -> RouterOptions {
    let console = Box::new(transcript.clone());
    RouterOptions { console, seed: 1, now: SIMULATED_START, ticks: None }
}

fn router(config: &str, count: usize) -> (Router, Transcript) {
    let transcript = Transcript::default();
    let made = Router::new(loaded(config), &warpswitch_elements::registry(), options(&transcript));
    let mut router =
        made.map_err(|errors| errors.to_click()).unwrap_or_else(|errors| panic!("{errors}"));
    let start = |_, work| std::thread::spawn(work);
    router.use_workers(Workers { count, start, sleeper: || None });
    (router, transcript)
}

/// Runs `config` to its end with so many workers.
fn run(config: &str, count: usize) -> (Router, Transcript) {
    let (mut router, transcript) = router(config, count);
    router.run(&mut RealHost::new(None));
    router.finish().map_err(|errors| errors.to_click()).expect("the run finishes");
    assert_eq!(router.packets_unaccounted(), 0, "packets in = out + dropped + held");
    (router, transcript)
}

fn read(router: &mut Router, handler: &str) -> u64 {
    let text = router.read(handler).unwrap_or_else(|error| panic!("{handler}: {error}"));
    text.trim().parse().unwrap_or_else(|_| panic!("{handler} is '{text}'"))
}

#[test]
fn chains_side_by_side_count_what_they_are_given() {
    let config = "a :: InfiniteSource(LIMIT 300000, BURST 64) -> all :: Counter;
        b :: InfiniteSource(LIMIT 200000, BURST 32) -> all -> d :: Discard;";
    for workers in [1, 2, 3] {
        let (mut router, _) = run(config, workers);
        assert_eq!(read(&mut router, "all.count"), 500_000, "{workers} workers");
        assert_eq!(read(&mut router, "d.count"), 500_000, "{workers} workers");
        assert_eq!(router.read("all.packets"), Ok("500000".into()), "{workers} workers");
    }
}

#[test]
fn every_element_tells_its_worker() {
    let chain = "src :: InfiniteSource(ACTIVE false) -> n :: Null -> q :: Queue -> d :: Discard;";
    let config = format!(
        "a, b :: {{ {chain} StaticThreadSched(d 0) }}; c :: {{ {chain} }};
        StaticThreadSched(a 1, c/d 2, c 0, b/src 2)"
    );
    // A compound stands for what is not named; queues belong to those that ask them.
    let expected = [
        ("a/src", 1),
        ("a/q", 0),
        ("a/d", 0),
        ("b/src", 2),
        ("b/d", 0),
        ("c/src", 0),
        ("c/q", 2),
        ("c/d", 2),
        ("a/n", 1),
        ("c/n", 0),
    ];
    let (mut router, _) = router(&config, 3);
    for (element, worker) in expected {
        assert_eq!(read(&mut router, &format!("{element}.home_thread")), worker, "{element}");
    }
    router.run(&mut RealHost::new(None));
    assert_eq!(read(&mut router, "a/src.home_thread"), 1);
    let (mut router, _) = run(&config, 1);
    assert_eq!(read(&mut router, "a/src.home_thread"), 0);
    let (transcript, registry) = (Transcript::default(), warpswitch_elements::registry());
    let alone = Router::new(loaded(&config), &registry, options(&transcript));
    let mut alone = alone.map_err(|errors| errors.to_click()).expect("it is right");
    assert_eq!(read(&mut alone, "c/d.home_thread"), 0, "nobody asked for more workers");
}

/// An element's random choices go on where they were in the next configuration, unless that has a
/// seed of its own.
#[test]
fn choices_go_on_in_the_next_configuration() {
    let chain = |name: &str| {
        format!(
            "{name} :: InfiniteSource(LIMIT 10000, BURST 8) -> {name}q :: Queue(20000)
            -> {name}r :: RandomSample(0.5) -> {name}c :: Counter -> Discard;"
        )
    };
    let config = chain("a") + &chain("b");
    let counts = |router: &mut Router| ["ac.count", "bc.count"].map(|name| read(router, name));
    let (mut first, transcript) = run(&config, 1);
    let expected = counts(&mut first);

    let next = |old: Router, text: &str| {
        let registry = warpswitch_elements::registry();
        let replaced = Router::replacing(loaded(text), &registry, options(&transcript), old);
        let Ok((mut router, _)) = replaced else { panic!("it is refused") };
        for source in ["a.reset", "b.reset"] {
            router.write(source, "").expect("it obeys");
        }
        router.run(&mut RealHost::new(None));
        counts(&mut router)
    };
    let seeded = format!("RandomSeed(1); {config}");
    let (mut again, _) = run(&seeded, 1);
    assert_eq!(counts(&mut again), expected, "the seed of the run, once more");
    let [went_on, anew] = [(first, &config), (again, &seeded)].map(|(old, text)| next(old, text));
    let more = |all: [u64; 2]| [all[0] - expected[0], all[1] - expected[1]];
    assert_ne!(more(went_on), expected, "other choices");
    assert_eq!(more(anew), expected, "the same ones");
}

#[test]
fn queues_hand_over_and_lose_nothing() {
    // The source waits for room, which another worker makes.
    let config = "InfiniteSource(LIMIT 200000, BURST 64) -> q :: FullNoteQueue(1000)
            -> Unqueue(32) -> q2 :: Queue(300000) -> c :: Counter -> d :: Discard;
        StaticThreadSched(d 2);";
    for workers in [1, 2, 3] {
        let (mut router, _) = run(config, workers);
        // A burst finds room for a part of it at most, by one worker too.
        let (passed, dropped) = (read(&mut router, "c.count"), read(&mut router, "q.drops"));
        assert_eq!(passed + dropped, 200_000, "{workers} workers");
        assert!(passed > 20_000, "{workers} workers");
    }
}

/// Two ports: packets come in at both, are sorted by what they say, and change sides.
fn crossing(limit: u32) -> String {
    let data = |side: u32, to: u32| format!("DATA \\<0{side}0{to}>, LIMIT {limit}, BURST 16");
    format!(
        "rt :: Classifier(1/00, 1/01, -);
        InfiniteSource({}) -> Paint(0) -> in0 :: Counter -> rt;
        InfiniteSource({}) -> Paint(1) -> in1 :: Counter -> rt;
        InfiniteSource({}) -> rt; InfiniteSource({}) -> rt;
        rt -> q0 :: Queue(1000000) -> out0 :: Counter -> t0 :: Discard;
        rt [1] -> q1 :: Queue(1000000) -> out1 :: Counter -> t1 :: Discard;
        rt [2] -> lost :: Counter -> Discard;",
        data(0, 0),
        data(1, 1),
        data(0, 1),
        data(1, 0),
    )
}

#[test]
fn packets_change_sides() {
    for workers in [1, 2, 4] {
        let (mut router, _) = run(&crossing(50_000), workers);
        for (handler, expected) in
            [("out0.count", 100_000), ("out1.count", 100_000), ("lost.count", 0)]
        {
            assert_eq!(read(&mut router, handler), expected, "{handler}, {workers} workers");
        }
    }
}

/// What leaves in which order is written down by worker 1, while worker 0 makes it.
#[test]
fn order_is_kept() {
    let config = "f :: FromIPSummaryDump(\"<SUMMARY>\", STOP false, ZERO true)
            -> q :: Queue(100000) -> u :: Unqueue(7) -> t :: ToIPSummaryDump(-, FIELDS sport);
        StaticThreadSched(f 0, u 1);";
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("in.sum");
    let mut text = String::from("!data ip_proto ip_src sport ip_dst dport\n");
    for n in 0..20_000 {
        text.push_str(&format!("U 10.0.0.1 {} 10.0.0.2 53\n", n % 60_000));
    }
    std::fs::write(&path, text).expect("it can be written");
    let config = config.replace("<SUMMARY>", &path.display().to_string());
    let (_, transcript) = run(&config, 2);
    let printed = String::from_utf8(transcript.printed()).expect("text");
    let ports = printed.lines().filter(|line| !line.starts_with('!'));
    let ports: Vec<u32> = ports.map(|line| line.trim().parse().expect("a port")).collect();
    assert_eq!(ports, (0..20_000).collect::<Vec<u32>>());
}

#[test]
fn scripts_find_all_in_one_place() {
    let config = "InfiniteSource(LIMIT 400000, BURST 32) -> a :: Counter -> all :: Counter;
        InfiniteSource(LIMIT 400000, BURST 32) -> b :: Counter -> all -> Discard;
        Script(TYPE ACTIVE, set n 0, label again, wait 0.0001, set n $(add $n 1),
            set before $(add $(a.count) $(b.count)), set after $(all.count),
            goto done $(ne $before $after), goto again $(lt $n 200),
            print \"equal\", label done, end);";
    for workers in [1, 2] {
        let (mut router, transcript) = run(config, workers);
        assert_eq!(transcript.said(), "");
        assert_eq!(String::from_utf8(transcript.printed()), Ok("equal\n".into()));
        assert_eq!(read(&mut router, "all.count"), 800_000);
    }
}

#[test]
fn calls_and_stops_reach_the_whole() {
    let config = "InfiniteSource(BURST 32) -> a :: Discard;
        s :: InfiniteSource(LIMIT 1000, BURST 8, END_CALL c.reset_counts)
            -> c :: Counter(COUNT_CALL 500 d.active false) -> q :: Queue(2000) -> d :: Discard;
        StaticThreadSched(a 0, s 1);
        DriverManager(label wait, wait 1ms, goto wait $(lt $(s.count) 1000), wait 5ms, stop);";
    let (mut router, transcript) = run(config, 2);
    assert_eq!(transcript.said(), "");
    assert_eq!(router.read("d.active"), Ok("false".into()));
    assert_eq!(read(&mut router, "c.count"), 0);
}

#[test]
fn a_configuration_is_replaced_between_shifts() {
    let text = crossing(200_000);
    let (mut running, transcript) = router(&text, 2);
    for round in 0..10 {
        assert_eq!(running.run(&mut RealHost::new(Some(20 + round))), Ended::Stopped);
        let registry = warpswitch_elements::registry();
        let replaced = Router::replacing(loaded(&text), &registry, options(&transcript), running);
        let (next, lost) = replaced.map_err(|(errors, _)| errors.to_click()).expect("it starts");
        assert_eq!((lost, next.packets_unaccounted()), (0, 0));
        running = next;
    }
    assert_eq!(running.run(&mut RealHost::new(None)), Ended::Idle);
    assert_eq!(running.packets_unaccounted(), 0);
    let sum = read(&mut running, "out0.count") + read(&mut running, "out1.count");
    assert_eq!(sum, 800_000);
}

#[test]
fn workers_that_are_none_or_differ_are_refused() {
    for (line, told) in [
        ("d 0, d -2", "entry 2 'd -2': THREAD: expected a worker number, 0 or more"),
        ("d 0, e  0", "entry 2 'e 0': ELEMENT: no element named 'e'"),
        ("d 0, d 1", "entry 2 'd 1': already assigned to worker 0"),
        ("c 0, c 1", "entry 2 'c 1': already assigned to another worker"),
    ] {
        let config = format!(
            "InfiniteSource -> d :: Discard; c :: {{ Idle -> Discard }}; StaticThreadSched({line});"
        );
        let registry = warpswitch_elements::registry();
        let options = options(&Transcript::default());
        let Err(errors) = Router::new(loaded(&config), &registry, options) else {
            panic!("taken: {line}");
        };
        assert!(errors.to_click().contains(told), "{}", errors.to_click());
    }
}

/// As in Click the last one counts; but it is told.
#[test]
fn contradictions_are_told() {
    let check = |lists: &str, told: &[&str]| {
        let config = format!(
            "c :: {{ s :: InfiniteSource(ACTIVE false) -> q :: Queue -> u :: Unqueue -> Discard }};
            {lists}"
        );
        let (router, transcript) = router(&config, 2);
        let said = transcript.said();
        let warnings: Vec<&str> = said.lines().filter(|line| line.contains(" gets ")).collect();
        assert_eq!(warnings.len(), told.len(), "{said}");
        for (warning, told) in warnings.iter().zip(told) {
            assert!(warning.trim().ends_with(&format!("{told}: the last one counts")), "{said}");
        }
        router
    };
    check("StaticThreadSched(c 0); StaticThreadSched(c/u 1, c/s 0)", &[]);
    let lists = "a :: StaticThreadSched(c/s 0); b :: StaticThreadSched(c/s 1)";
    let told = "'c/s' gets worker 1 here, but worker 0 by 'a :: StaticThreadSched'";
    assert_eq!(read(&mut check(lists, &[told]), "c/s.home_thread"), 1);
    let told = "'c/u' gets worker 1 here, but 'c/q', which the same worker runs, worker 0 here too";
    let mut router = check("StaticThreadSched(c/q 0, c/u 1)", &[told]);
    assert_eq!(read(&mut router, "c/q.home_thread"), 1);
    let lists = "a :: StaticThreadSched(c 0); b :: StaticThreadSched(c 1)";
    check(lists, &["'c/s' gets worker 1 here, but worker 0 by 'a :: StaticThreadSched'"]);
    // A queue in one compound element, and who asks it in another.
    let lists = "x :: { Idle -> q :: Queue -> output }; y :: { input -> u :: Unqueue -> Discard };
        x -> y; StaticThreadSched(x 0, y 1)";
    let told = "'y/u' gets worker 1 here, but 'x/q', which the same worker runs, worker 0 here too";
    assert_eq!(read(&mut check(lists, &[told]), "x/q.home_thread"), 1);
}

/// In a list the inner name counts, also where the outer one stands behind it; -1 leaves it open.
#[test]
fn compound_elements_within_each_other_are_told_apart() {
    for list in ["o 0, o/i 1, o/i/s -1", "o/i/s -1, o/i 1, o 0"] {
        let config = format!(
            "o :: {{ i :: {{ s :: InfiniteSource(ACTIVE false) -> Discard;
                t :: InfiniteSource(ACTIVE false) -> Discard }};
                u :: InfiniteSource(ACTIVE false) -> Discard }};
            StaticThreadSched({list})"
        );
        let (mut router, transcript) = router(&config, 3);
        let homes = ["o/u", "o/i/t", "o/i/s"]
            .map(|element| read(&mut router, &format!("{element}.home_thread")));
        assert_eq!((homes, transcript.said().as_str()), ([0, 1, 2], ""), "{list}");
    }
}

/// What goes round on a worker is with worker 0 when the run stops.
#[test]
fn loops_end_with_the_shift() {
    let config = "a :: Null -> b :: Null -> a; s :: InfiniteSource(LIMIT 1) -> a;
        t :: InfiniteSource(BURST 32) -> d :: Discard; StaticThreadSched(t 0, s 1);";
    let (mut router, _) = router(config, 2);
    assert_eq!(router.run(&mut RealHost::new(Some(50))), Ended::Stopped);
    assert_eq!(router.packets_unaccounted(), 0);
    assert_eq!(router.standing(), [("connections, on their way".to_owned(), 1)]);
}

/// A counter that is given a call while workers run belongs to one of them from then on.
#[test]
fn what_a_handler_changes_is_shared_anew() {
    let config = "InfiniteSource(LIMIT 2000000, BURST 32) -> all :: Counter;
        InfiniteSource(LIMIT 2000000, BURST 32) -> all -> d :: Discard;
        mark :: Script(TYPE PASSIVE, print called);
        Script(TYPE ACTIVE, wait 0.001, write all.count_call 3999000 mark.run, end);";
    let config = config.replace("print called", "print \"called\"");
    let (mut router, transcript) = run(&config, 2);
    assert_eq!((transcript.said(), read(&mut router, "all.count")), (String::new(), 4_000_000));
    assert_eq!(transcript.printed(), b"called\n");
}

#[test]
fn a_panic_of_a_worker_ends_the_run() {
    // The clock of this host is wrong for all but worker 0.
    struct Broken(std::thread::ThreadId);
    impl Host for Broken {
        fn now(&mut self) -> Time {
            SIMULATED_START
        }
        fn wait(&mut self, _until: Option<Time>) -> bool {
            false
        }
        fn clock(&self) -> Option<Clock> {
            let own = self.0;
            Some(Arc::new(move || {
                assert_eq!(std::thread::current().id(), own, "no clock here");
                SIMULATED_START
            }))
        }
        fn wants_to_serve(&mut self) -> bool {
            std::thread::sleep(Duration::from_micros(10));
            false
        }
    }
    let (mut router, _) = router(&crossing(10), 2);
    let run = || router.run(&mut Broken(std::thread::current().id()));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    assert!(ended.is_err(), "the run goes on without a worker");
}

#[test]
fn a_panic_of_worker_0_ends_the_others() {
    /// A host that fails in the middle of a shift.
    struct Fails(Instant);
    impl Host for Fails {
        fn now(&mut self) -> Time {
            SIMULATED_START + self.0.elapsed()
        }
        fn wait(&mut self, _until: Option<Time>) -> bool {
            true
        }
        fn clock(&self) -> Option<Clock> {
            let start = self.0;
            Some(Arc::new(move || SIMULATED_START + start.elapsed()))
        }
        fn wants_to_serve(&mut self) -> bool {
            panic!("this host fails");
        }
    }
    let (mut router, _) = router(&crossing(1_000_000_000), 2);
    let run = || router.run(&mut Fails(Instant::now()));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    assert!(ended.is_err(), "the run goes on without worker 0");
}

/// A graph of stages, each a choice of what packets may pass, over which some sources are spread.
fn graph() -> impl Strategy<Value = String> {
    let stage = prop_oneof![
        Just("Counter"),
        Just("Null"),
        Just("Queue(100000) -> Unqueue(16)"),
        Just("Paint(3)"),
        Just("Queue(100000) -> Counter -> Unqueue(5)"),
        Just("Tee(1)"),
        Just("Strip(0)"),
    ];
    let chain = prop::collection::vec(stage, 0..4);
    let chains = prop::collection::vec((chain, 0usize..3), 1..5);
    chains.prop_map(|chains| {
        let mut text = String::from(
            "h :: HashSwitch(0, 2); q :: Queue(100000); d :: Counter -> end :: Discard;\n\
             Idle -> h; Idle -> q; Idle -> d;\n",
        );
        for (idx, (stages, to)) in chains.iter().enumerate() {
            let middle: String = stages.iter().map(|stage| format!("-> {stage} ")).collect();
            text += &format!(
                "InfiniteSource(DATA \\<{idx:02x}{to:02x}>, LIMIT 5000, BURST 9) {middle}\
                 -> c{idx} :: Counter -> {};\n",
                ["h", "q", "d"][*to]
            );
        }
        text += "h -> h0 :: Counter -> q; h [1] -> h1 :: Counter -> d; q -> Unqueue(11) -> d;";
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_graph_counts_the_same_with_more_workers(text in graph(), workers in 2usize..5) {
        let (mut one, _) = run(&text, 1);
        let (mut more, _) = run(&text, workers);
        for element in 0..one.graph().elements.len() {
            let name = one.graph().elements[element].name.clone();
            if let Ok(count) = one.read(&format!("{name}.count")) {
                prop_assert_eq!(more.read(&format!("{name}.count")), Ok(count), "{}", name);
            }
        }
    }
}
