//! Chains behind ports that receive without end: bounded, and no lasting backlog.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;
use std::thread;

use warpswitch_gpu::Device;
use warpswitch_gpu::host::HostPool;
use warpswitch_graph::simulate::{SIMULATED_START, SimulatedHost};
use warpswitch_graph::{Console, Host, Router, RouterOptions, Time, language};
use warpswitch_packet::{Batch, Pool, PortSpec, RxPort};

use super::{Offload, chain};

/// `SIZE` of the chain.
const SIZE: usize = 1000;
/// Frames of a burst once the first wide batch is on its way.
const BURST: usize = 250;
/// Bursts.
const BURSTS: usize = 400;

/// A port that has as many frames as `bursts` returns for the number of a call.
struct BurstPort {
    bursts: fn(usize) -> usize,
    calls: usize,
}

impl RxPort for BurstPort {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        let count = (self.bursts)(self.calls);
        assert!(count <= frames_max, "{frames_max} frames requested");
        self.calls += 1;
        batch.extend((0..count).map(|_| pool.packet_of(&[0; 60])));
        count
    }

    fn device(&self) -> String {
        "bursts".to_owned()
    }
}

struct PortConsole {
    bursts: fn(usize) -> usize,
    device: Option<Arc<Offload>>,
}

impl Console for PortConsole {
    fn say(&mut self, line: &str) {
        panic!("{line}");
    }

    fn print(&mut self, _text: &[u8]) {}

    fn device(&mut self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.device.clone().map(|device| device as _)
    }

    fn open_rx(&mut self, _spec: &PortSpec) -> Result<Box<dyn RxPort>, String> {
        Ok(Box::new(BurstPort { bursts: self.bursts, calls: 0 }))
    }
}

/// A router of a chain behind the port.
fn chain_router(bursts: fn(usize) -> usize, device: Option<Arc<Offload>>) -> Router {
    let chain = chain(&format!("Batcher(SIZE {SIZE})"), "GPUIPLookup(0/0 0)");
    let chain = chain.replace("Debatcher", "d :: Debatcher");
    let config = format!("FromDevice(mem:in, BURST 256) -> {chain} -> c :: Counter -> Discard;");
    let registry = crate::registry();
    let globals = Default::default();
    let loaded = language::load("config", config.as_bytes(), &registry, &globals, None);
    let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    let console = Box::new(PortConsole { bursts, device });
    let options = RouterOptions { console, seed: 1, now: SIMULATED_START, ticks: None };
    let router = Router::new(loaded, &registry, options);
    router.unwrap_or_else(|errors| panic!("{}", errors.to_click()))
}

fn count(router: &mut Router) -> usize {
    router.read("c.count").expect("a handler").parse().expect("a number")
}

/// Notes how many packets the `Debatcher` and the whole chain hold, as far as is seen between
/// tasks, until `passed` packets have passed or `serve` was called `calls` times.
#[derive(Default)]
struct WatchingHost {
    inner: SimulatedHost,
    held_max: usize,
    in_chain_max: usize,
    passed: usize,
    calls: usize,
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
        let in_chain = router.standing().iter().map(|(_, packets)| packets).sum();
        self.in_chain_max = self.in_chain_max.max(in_chain);
        self.calls -= 1;
        if self.calls == 0 || count(router) >= self.passed {
            router.halt();
        }
    }
}

/// The first wide batch consists of batches of one packet, later ones of full bursts. If each turn
/// received a burst and emitted one batch, 249 packets would be left over each time.
#[test]
fn a_wide_batch_of_small_batches_leaves_no_backlog() {
    let bursts = |call| match call {
        ..SIZE => 1,
        call if call < SIZE + BURSTS => BURST,
        _ => 0,
    };
    let mut router = chain_router(bursts, None);
    let passed = SIZE + BURST * BURSTS;
    let mut host = WatchingHost { passed, calls: usize::MAX, ..WatchingHost::default() };
    router.run(&mut host);
    assert_eq!((count(&mut router), router.packets_unaccounted()), (passed, 0));
    assert!(host.held_max > SIZE / 2, "the chain held packets: {}", host.held_max);
    assert!(host.held_max <= 3 * SIZE, "{} packets in the Debatcher", host.held_max);
}

/// While a device does not answer, as before its first batch, frames stay at the port: a batch that
/// bypassed the device would wait behind those in flight.
#[test]
fn a_chain_holds_few_packets_while_its_device_starts() {
    let workers = RefCell::new(Vec::new());
    let pool = HostPool::new(1, &mut |worker| workers.borrow_mut().push(worker));
    let mut router = chain_router(|_| BURST, Some(Offload::to(Device::from_pool(pool))));
    let mut host = WatchingHost { passed: usize::MAX, calls: 2000, ..WatchingHost::default() };
    router.run(&mut host);
    assert_eq!((count(&mut router), router.packets_unaccounted()), (0, 0));
    // Four wide batches in flight, one that is being filled, and two that wait.
    assert!(host.in_chain_max > 6 * SIZE, "{} packets in the chain", host.in_chain_max);
    assert!(host.in_chain_max <= 8 * SIZE, "{} packets in the chain", host.in_chain_max);
    for worker in workers.take() {
        thread::spawn(worker);
    }
    let passed = 100 * SIZE;
    let mut host = WatchingHost { passed, calls: usize::MAX, ..WatchingHost::default() };
    router.run(&mut host);
    assert!(count(&mut router) >= passed);
    assert_eq!(router.packets_unaccounted(), 0);
}
