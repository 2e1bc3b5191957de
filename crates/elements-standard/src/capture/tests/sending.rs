//! When `ToDevice` sends to an interface: at once, or in bursts.

use std::sync::{Arc, Mutex};

use warpswitch_graph::language;
use warpswitch_graph::simulate::{SIMULATED_START, SimulatedHost};
use warpswitch_graph::{Console, Router, RouterOptions, Time};
use warpswitch_packet::{Packet, PortSpec, Transmitted, TxPort};

/// The bursts that a port was given: the first byte of each frame.
type Bursts = Arc<Mutex<Vec<Vec<u8>>>>;

/// A port that sends everything.
struct Recorder(Bursts);

impl TxPort for Recorder {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        let burst = packets.iter().map(|packet| packet.data()[0]).collect();
        self.0.lock().expect("nobody panics with it").push(burst);
        Transmitted::Frames(packets.len())
    }
}

struct RecorderConsole(Bursts);

impl Console for RecorderConsole {
    fn say(&mut self, line: &str) {
        panic!("{line}");
    }

    fn print(&mut self, _text: &[u8]) {}

    fn open_tx(&mut self, _spec: &PortSpec) -> Result<Box<dyn TxPort>, String> {
        Ok(Box::new(Recorder(self.0.clone())))
    }
}

/// The bursts that `config` sends within `ms` milliseconds; the last ones when the run ends.
fn bursts(config: &str, ms: i64) -> Vec<Vec<u8>> {
    let bursts = Bursts::default();
    let registry = crate::registry();
    let globals = Default::default();
    let loaded = language::load("config", config.as_bytes(), &registry, &globals, None);
    let options = RouterOptions {
        console: Box::new(RecorderConsole(bursts.clone())),
        seed: 1,
        now: SIMULATED_START,
        ticks: None,
    };
    let router = Router::new(loaded.expect("it is valid"), &registry, options);
    let mut router = router.map_err(|errors| errors.to_click()).expect("it starts");
    let mut host = SimulatedHost::default();
    host.end = Some(Time(SIMULATED_START.0 + ms * 1_000_000));
    router.run(&mut host);
    assert_eq!(router.packets_unaccounted(), 0);
    router.finish().map_err(|errors| errors.to_click()).expect("it finishes");
    assert_eq!(router.read("to.held"), Ok("0".into()), "all is sent at the end");
    bursts.lock().expect("nobody panics with it").clone()
}

/// A packet each millisecond, with its number as its first byte.
const SOURCES: &str = "a :: TimedSource(0.001, \"a\", LIMIT 3) -> q :: Queue;
    b :: InfiniteSource(\"b\", LIMIT 5, ACTIVE false) -> q;
    Script(wait 10ms, write b.active true);";

#[test]
fn sends_at_once_by_default() {
    let config = format!("{SOURCES} q -> to :: ToDevice(eth0, BURST 4);");
    let sent = bursts(&config, 100);
    assert_eq!(sent[..3], [b"a", b"a", b"a"]);
    assert_eq!(sent.concat(), b"aaabbbbb");
}

#[test]
fn sends_full_bursts_and_after_the_delay() {
    let config = format!("{SOURCES} q -> to :: ToDevice(eth0, BURST 4, DELAY_MAX 5ms);");
    assert_eq!(bursts(&config, 100), [&b"aaa"[..], b"bbbb", b"b"]);
    // The first one has waited for 1.5 ms when the second comes, and the third is late.
    let config = format!("{SOURCES} q -> to :: ToDevice(eth0, BURST 4, DELAY_MAX 1.5ms);");
    assert_eq!(bursts(&config, 100), [&b"aa"[..], b"a", b"bbbb", b"b"]);
}

#[test]
fn sends_what_waits_when_the_run_ends() {
    let config = format!("{SOURCES} q -> to :: ToDevice(eth0, BURST 4, DELAY_MAX 1s);");
    assert_eq!(bursts(&config, 5), [b"aaa"]);
}
