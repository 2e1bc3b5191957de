//! Chains behind a port whose bursts change in size: no lasting backlog.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use warpswitch_graph::simulate::{SIMULATED_START, SimulatedHost};
use warpswitch_graph::{Console, Host, Router, RouterOptions, Time, language};
use warpswitch_packet::{Batch, LinkState, Pool, PortSpec, RxCounts, RxPort};

use super::chain;

/// `SIZE` of the chain.
const SIZE: usize = 1000;
/// Frames of a burst once the first wide batch is on its way.
const BURST: usize = 250;
/// Bursts.
const BURSTS: usize = 400;

/// A port that has one frame per call at first, as when it is polled by an idle worker, and full
/// bursts from then on.
struct ChangingPort {
    calls: usize,
}

impl RxPort for ChangingPort {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        let count = match self.calls {
            ..SIZE => 1,
            call if call < SIZE + BURSTS => BURST,
            _ => 0,
        };
        assert!(count <= frames_max, "{frames_max} frames requested");
        self.calls += 1;
        batch.extend((0..count).map(|_| pool.packet_of(&[0; 60])));
        count
    }

    fn device(&self) -> String {
        "changing".to_owned()
    }

    fn counts(&mut self) -> RxCounts {
        RxCounts::default()
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        None
    }

    fn check_link(&mut self) -> LinkState {
        LinkState::Up
    }
}

struct PortConsole;

impl Console for PortConsole {
    fn say(&mut self, line: &str) {
        panic!("{line}");
    }

    fn print(&mut self, _text: &[u8]) {}

    fn device(&mut self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    fn open_rx(&mut self, _spec: &PortSpec) -> Result<Box<dyn RxPort>, String> {
        Ok(Box::new(ChangingPort { calls: 0 }))
    }
}

/// Notes how many packets the `Debatcher` holds, as far as is seen between tasks.
#[derive(Default)]
struct WatchingHost {
    inner: SimulatedHost,
    held_max: usize,
}

impl Host for WatchingHost {
    fn now(&mut self) -> Time {
        self.inner.now()
    }

    fn wait(&mut self, until: Option<Time>) -> bool {
        self.inner.wait(until)
    }

    fn serve(&mut self, router: &mut Router) {
        let held = router.read("d.length").expect("a handler");
        self.held_max = self.held_max.max(held.parse().expect("a number"));
        if router.read("c.count") == Ok((SIZE + BURST * BURSTS).to_string()) {
            router.halt();
        }
    }
}

/// The first wide batch consists of batches of one packet, later ones of full bursts. If each turn
/// received a burst and emitted one batch, 249 packets would be left over each time.
#[test]
fn a_wide_batch_of_small_batches_leaves_no_backlog() {
    let chain = chain(&format!("Batcher(SIZE {SIZE})"), "GPUIPLookup(0/0 0)");
    let chain = chain.replace("Debatcher", "d :: Debatcher");
    let config = format!("FromDevice(mem:in, BURST 256) -> {chain} -> c :: Counter -> Discard;");
    let registry = crate::registry();
    let globals = Default::default();
    let loaded = language::load("config", config.as_bytes(), &registry, &globals, None);
    let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    let console = Box::new(PortConsole);
    let options = RouterOptions { console, seed: 1, now: SIMULATED_START, ticks: None };
    let router = Router::new(loaded, &registry, options);
    let mut router = router.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    let mut host = WatchingHost::default();
    router.run(&mut host);
    assert_eq!(router.read("c.count"), Ok((SIZE + BURST * BURSTS).to_string()));
    assert_eq!(router.packets_unaccounted(), 0);
    assert!(host.held_max > SIZE / 2, "the chain held packets: {}", host.held_max);
    assert!(host.held_max <= 3 * SIZE, "{} packets in the Debatcher", host.held_max);
}
