//! Runs the example elements, and compares the page that quotes them with their files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use warpswitch_example_elements::register;
use warpswitch_graph::language::load;
use warpswitch_graph::simulate::{self, SIMULATED_START, SimulatedHost, Transcript};
use warpswitch_graph::{Clock, Host, Registry, Router, RouterOptions, Time, Workers};

fn registry() -> Registry {
    register(warpswitch_elements::registry())
}

/// Runs `config` in simulated time. Panics if a packet is lost.
fn run(config: &str) -> Router {
    simulate::run(config, &registry()).0
}

fn read(router: &mut Router, handler: &str) -> String {
    router.read(handler).unwrap_or_else(|error| panic!("{handler}: {error}"))
}

/// Sends `packets` of IPv4 source `source` to the element `s`.
fn traffic(source: &str, packets: usize) -> String {
    let name = source.replace('.', "_");
    format!(
        "from_{name} :: InfiniteSource(LENGTH 20, LIMIT {packets}, BURST 16)
            -> UDPIPEncap({source}, 1, 10.0.0.9, 2) -> s;\n"
    )
}

#[test]
fn min_length_drops_short_packets() {
    for (length, passed, dropped) in [(20, "5", "0\ttoo short"), (21, "0", "5\ttoo short")] {
        let source = "InfiniteSource(LENGTH 20, LIMIT 5)";
        let config = format!("{source} -> m :: MinLength({length}) -> c :: Counter -> Discard;");
        let mut router = run(&config);
        assert_eq!(read(&mut router, "c.count"), passed);
        assert_eq!(read(&mut router, "m.drops_by_reason").trim(), dropped, "{length}");
    }
}

#[test]
fn min_length_emits_short_packets_to_output_1() {
    let mut router = run("InfiniteSource(LENGTH 20, LIMIT 5) -> m :: MinLength(60) -> Discard;
        m[1] -> c :: Counter -> Discard;");
    assert_eq!(read(&mut router, "c.count"), "5");
}

#[test]
fn min_length_requires_its_argument() {
    let errors = simulate::router("Idle -> MinLength -> Discard;", &registry()).err();
    let errors = errors.expect("LENGTH is mandatory").to_click();
    assert!(errors.contains("LENGTH"), "{errors}");
}

#[test]
fn source_count_lists_the_busiest_sources_first() {
    let config = traffic("10.0.0.1", 3) + &traffic("10.0.0.2", 40) + &traffic("10.0.0.3", 3);
    let mut router = run(&format!("s :: SourceCount -> Discard; {config}"));
    assert_eq!(read(&mut router, "s.top"), "10.0.0.2 40\n10.0.0.1 3\n10.0.0.3 3");
    assert_eq!(router.read_with("s.top", "1"), Ok("10.0.0.2 40".into()));
    let error = router.read_with("s.top", "many").expect_err("it is no number");
    assert!(error.to_string().contains("expected an integer"), "{error}");
    router.write("s.reset", "").expect("reset works");
    assert_eq!(read(&mut router, "s.sources"), "0");
}

#[test]
fn source_count_limits_its_table() {
    let config = traffic("10.0.0.1", 3) + &traffic("10.0.0.2", 4);
    let mut router = run(&format!("s :: SourceCount(1) -> Discard; {config}"));
    assert_eq!(read(&mut router, "s.sources"), "1");
    let counted: u64 = read(&mut router, "s.top").rsplit(' ').next().unwrap().parse().unwrap();
    let uncounted: u64 = read(&mut router, "s.uncounted").parse().unwrap();
    assert_eq!(counted + uncounted, 7);
}

#[test]
fn source_count_counts_packets_without_a_header_as_uncounted() {
    let mut router = run("InfiniteSource(LENGTH 20, LIMIT 5) -> s :: SourceCount -> Discard;");
    assert_eq!(read(&mut router, "s.uncounted"), "5");
}

fn options() -> RouterOptions {
    let console = Box::new(Transcript::default());
    RouterOptions { console, seed: 1, now: SIMULATED_START, ticks: None }
}

#[test]
fn source_count_keeps_its_counts_in_a_new_configuration() {
    let config = format!("s :: SourceCount -> Discard; {}", traffic("10.0.0.1", 3));
    let running = run(&config);
    let next = format!("s :: SourceCount -> Discard; {}", traffic("10.0.0.2", 1));
    let loaded = load("next", next.as_bytes(), &registry(), &BTreeMap::new(), None);
    let loaded = loaded.expect("the configuration is valid");
    let replaced = Router::replacing(loaded, &registry(), options(), running);
    let (mut router, lost) = replaced.map_err(|(errors, _)| errors.to_click()).expect("it starts");
    assert_eq!(lost, 0);
    router.run(&mut SimulatedHost::default());
    assert_eq!(read(&mut router, "s.top"), "10.0.0.1 3\n10.0.0.2 1");
}

/// A host in real time: several workers need one.
struct RealHost(Instant);

impl Host for RealHost {
    fn now(&mut self) -> Time {
        SIMULATED_START + self.0.elapsed()
    }

    fn wait(&mut self, _until: Option<Time>) -> bool {
        false
    }

    fn clock(&self) -> Option<Clock> {
        let start = self.0;
        Some(Arc::new(move || SIMULATED_START + start.elapsed()))
    }
}

#[test]
fn source_count_sums_the_copies_of_all_workers() {
    let config = traffic("10.0.0.1", 3000) + &traffic("10.0.0.2", 5000);
    let config = format!("s :: SourceCount -> Discard; {config}");
    let loaded = load("config", config.as_bytes(), &registry(), &BTreeMap::new(), None);
    let loaded = loaded.expect("the configuration is valid");
    let router = Router::new(loaded, &registry(), options());
    let mut router = router.map_err(|errors| errors.to_click()).expect("it starts");
    let start = |_, work| std::thread::spawn(work);
    router.use_workers(Workers { count: 2, start, sleeper: || None });
    router.run(&mut RealHost(Instant::now()));
    assert_eq!(read(&mut router, "s.top"), "10.0.0.2 5000\n10.0.0.1 3000");
}

/// A path of a source in backquotes, if `line` names one.
fn named_file(line: &str) -> Option<&str> {
    let is_source = |word: &&str| word.ends_with(".rs") || word.ends_with(".cu");
    line.split('`').find(|word| word.starts_with("examples/") && is_source(word))
}

#[test]
fn page_quotes_equal_the_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/writing-elements.md")).expect("the page");
    let (mut file, mut quote, mut quotes) = (None, None::<String>, 0);
    for line in page.lines() {
        match (&mut quote, line) {
            (None, "```rust" | "```cuda") => quote = Some(String::new()),
            (None, line) => file = named_file(line).or(file),
            (Some(text), "```") => {
                let path = file.expect("the page names a file before each quote");
                let source = std::fs::read_to_string(root.join(path)).expect(path);
                assert!(source.contains(text.as_str()), "{path} does not contain:\n{text}");
                (quote, quotes) = (None, quotes + 1);
            }
            (Some(text), line) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    assert!(quote.is_none() && quotes >= 3, "{quotes} quotes");
}
