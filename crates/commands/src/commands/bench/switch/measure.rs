//! Runs a switch: once with every frame to check what leaves, then for a while to measure.
//!
//! ```text
//! thread of the switch   router ─► workers until `stop`
//! this thread            warm-up ─► counts, latencies on ─► window ─► counts ─► stop
//! ```

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use warpswitch_graph::language;
use warpswitch_graph::{Clock, Console, Host, Router, RouterOptions, Time};
use warpswitch_kit::{OffloadDevice, Sources};
use warpswitch_packet::{PortSpec, RxPort, TxPort};
use warpswitch_runtime::config::{ConfigText, Libraries, load};
use warpswitch_runtime::ticks;

use super::bed::{Bed, Lookup, PathFrames, Setup};
use super::ports::{Arrival, Drain, Feed, FeedCounts, PORTS, Sent, lock};
use crate::devices;
use crate::kit;
use crate::threads;
use crate::traffic::Latency;

/// A switch that takes longer to start, or to pass all frames once, has failed.
const START_MAX: Duration = Duration::from_secs(30);
/// Delay bounds that a warm-up takes at least.
const START_DELAYS: u32 = 8;
/// Between two looks of the thread that measures.
const LOOK: Duration = Duration::from_millis(1);

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub warm: Duration,
    pub window: Duration,
}

/// Result of a measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Frames a second that left.
    pub pps: f64,
    /// Part of the arrived frames for which the receive rings had no room.
    pub missed_ratio: f64,
    /// From arrival to transmission; none without I/O.
    pub latency: Option<Latency>,
}

/// What threads share with the one that measures.
#[derive(Default)]
struct Shared {
    feeds: Vec<Arc<FeedCounts>>,
    sent: Vec<Arc<Mutex<Sent>>>,
    stop: Arc<AtomicBool>,
}

impl Shared {
    fn sum(&self, count: impl Fn(&FeedCounts) -> u64) -> u64 {
        self.feeds.iter().map(|feed| count(feed)).sum()
    }

    fn received(&self) -> u64 {
        self.sum(|feed| feed.received.load(Ordering::Relaxed))
    }

    fn missed(&self) -> u64 {
        self.sum(|feed| feed.missed.load(Ordering::Relaxed))
    }

    fn sent(&self) -> u64 {
        self.sent.iter().map(|sent| lock(sent).frames.iter().sum::<u64>()).sum()
    }
}

/// Ports by name, for a router that opens each once.
#[derive(Default)]
struct Ports {
    rx: HashMap<String, Box<dyn RxPort>>,
    tx: HashMap<String, Box<dyn TxPort>>,
}

struct BedConsole {
    ports: Rc<RefCell<Ports>>,
    device: Option<Arc<dyn OffloadDevice>>,
}

impl Console for BedConsole {
    fn say(&mut self, line: &str) {
        crate::term::note(line);
    }

    fn print(&mut self, _text: &[u8]) {}

    fn do_by_many(&self, work: &(dyn Fn() + Sync)) {
        threads::do_by_many(work);
    }

    fn device(&mut self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.device.clone().map(|device| device as _)
    }

    fn open_rx(&mut self, spec: &PortSpec) -> Result<Box<dyn RxPort>, String> {
        let port = self.ports.borrow_mut().rx.remove(&spec.device);
        port.ok_or_else(|| format!("no port {}", spec.device))
    }

    fn open_tx(&mut self, spec: &PortSpec) -> Result<Box<dyn TxPort>, String> {
        let port = self.ports.borrow_mut().tx.remove(&spec.device);
        port.ok_or_else(|| format!("no port {}", spec.device))
    }
}

/// Runs until it is stopped, and never sleeps: ports are polled.
struct BedHost(Arc<AtomicBool>);

fn now() -> Time {
    Time(ticks() as i64)
}

impl Host for BedHost {
    fn now(&mut self) -> Time {
        now()
    }

    fn wait(&mut self, _until: Option<Time>) -> bool {
        // Leaves the core to a thread that shares it.
        thread::yield_now();
        true
    }

    fn serve(&mut self, router: &mut Router) {
        if self.0.load(Ordering::Relaxed) {
            router.halt();
        }
    }

    fn clock(&self) -> Option<Clock> {
        Some(Arc::new(now))
    }

    fn wants_to_serve(&mut self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A switch that has ports but does not run yet.
struct Switch {
    setup: Setup,
    config: String,
    ports: Ports,
    offload: Option<Arc<dyn OffloadDevice>>,
    stop: Arc<AtomicBool>,
}

impl Switch {
    fn new(
        bed: &Bed,
        setup: &Setup,
        frames: &[PathFrames],
        is_checked: bool,
    ) -> anyhow::Result<(Self, Shared)> {
        let (mut ports, mut shared) = (Ports::default(), Shared::default());
        for (number, path) in frames.iter().enumerate() {
            let arrival = Arrival {
                pps: setup.offered_pps.map(|pps| pps / frames.len() as f64),
                frames_max: is_checked.then_some(path.frames.len() as u64),
                is_lent: !setup.has_io,
            };
            let feed = Feed::new(path.frames.clone(), arrival)?;
            shared.feeds.push(feed.shared_counts());
            ports.rx.insert(format!("mem:rx{number}"), Box::new(feed));
            let sent = Arc::new(Mutex::new(Sent::new(is_checked)));
            for port in 0..PORTS {
                let drain = Drain::new(port, setup.frame_bytes, sent.clone());
                ports.tx.insert(format!("mem:tx{number}p{port}"), Box::new(drain));
            }
            shared.sent.push(sent);
        }
        let device = bed.device.clone().filter(|_| setup.lookup.has_device());
        let clock = (setup.lookup == Lookup::Auto).then_some(devices::now as fn() -> Duration);
        let offload = device.map(|device| kit::offload_to(device, clock));
        let config = setup.config(&bed.rules_file());
        let stop = shared.stop.clone();
        Ok((Self { setup: *setup, config, ports, offload, stop }, shared))
    }

    /// Builds the router and runs it until it is stopped.
    fn run(self) -> anyhow::Result<()> {
        let registry = kit::registry();
        let text = ConfigText { name: "switch".into(), bytes: self.config.into_bytes() };
        let loaded = load(&text, &registry, &BTreeMap::new(), &mut Libraries::default());
        let mut loaded = loaded.map_err(|errors| anyhow::Error::new(errors.into_diagnostics()))?;
        if self.setup.lookup == Lookup::Auto {
            let arguments = self.setup.batcher();
            let planned = kit::plan(
                &mut loaded.graph,
                &loaded.ports,
                &registry,
                &arguments,
                Sources::Ordered,
            );
            if planned.sources.is_empty() {
                bail!("no path of the switch can be offloaded");
            }
            let ports = language::resolve(&loaded.graph, &registry);
            loaded.ports = ports.map_err(anyhow::Error::new)?;
        }
        let console =
            BedConsole { ports: Rc::new(RefCell::new(self.ports)), device: self.offload.clone() };
        let options =
            RouterOptions { console: Box::new(console), seed: 1, now: now(), ticks: None };
        let mut router = Router::new(loaded, &registry, options).map_err(anyhow::Error::new)?;
        warpswitch_runtime::threads::use_workers(&mut router, self.setup.workers);
        router.run(&mut BedHost(self.stop));
        let lost = router.packets_unaccounted();
        if lost != 0 {
            bail!("{lost} packets were lost in the switch: this is a bug");
        }
        match self.offload.as_ref().and_then(|offload| offload.device().retired()) {
            Some(cause) => Err(anyhow!("the device failed: {cause}")),
            None => Ok(()),
        }
    }
}

/// Runs a switch on a thread of its own while `watch` looks at it.
fn run_while<R>(
    (switch, shared): (Switch, Shared),
    watch: impl FnOnce(&Shared, &dyn Fn() -> bool) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    thread::scope(|scope| {
        // A fresh thread: its pinning to a core ends with it.
        let running = scope.spawn(|| switch.run());
        let result = watch(&shared, &|| running.is_finished());
        shared.stop.store(true, Ordering::Relaxed);
        let ended = running.join().map_err(|_| anyhow!("the switch panicked"))?;
        ended.and(result)
    })
}

/// Waits until `is_done`.
fn wait_until(
    is_done: impl Fn() -> bool,
    has_ended: &dyn Fn() -> bool,
    what: &str,
) -> anyhow::Result<()> {
    let start = Instant::now();
    while !is_done() {
        if has_ended() || start.elapsed() > START_MAX {
            bail!("the switch ended or stalled before {what}");
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Passes each frame once and compares what left every port, in order, with a linear search.
///
/// # Errors
/// If something else left; those of the switch.
pub fn check(bed: &mut Bed, setup: &Setup) -> anyhow::Result<()> {
    let setup = Setup { offered_pps: None, has_io: true, ..*setup };
    let frames = bed.paths(setup.frame_bytes, setup.paths)?;
    let is_forward = setup.lookup == Lookup::Forward;
    let expected = |path: &PathFrames| match is_forward {
        true => path.frames.len() as u64,
        false => path.expected.iter().map(|seen| seen.packets).sum(),
    };
    let total: u64 = frames.iter().map(expected).sum();
    let switch = Switch::new(bed, &setup, &frames, true)?;
    run_while(switch, |shared, has_ended| {
        wait_until(|| shared.sent() >= total, has_ended, "all frames had left")?;
        for (number, (path, sent)) in frames.iter().zip(&shared.sent).enumerate() {
            let seen = lock(sent).seen.unwrap_or_default();
            if !is_forward && seen != path.expected {
                bail!(
                    "{}: frames of path {number} left by other ports or in another order than by \
                     a linear search: {seen:?}, expected {:?}",
                    setup.lookup.name(),
                    path.expected
                );
            }
        }
        Ok(())
    })
}

/// Measures a switch.
///
/// # Errors
/// Those of the switch.
pub fn measure(bed: &mut Bed, setup: &Setup, effort: Effort) -> anyhow::Result<Measured> {
    let frames = bed.paths(setup.frame_bytes, setup.paths)?;
    let switch = Switch::new(bed, setup, &frames, false)?;
    run_while(switch, |shared, has_ended| {
        wait_until(|| shared.received() > 0, has_ended, "the first frame was received")?;
        // A chain stalls for some delay bounds after its start.
        thread::sleep(effort.warm.max(setup.delay_max * START_DELAYS));
        shared.sent.iter().for_each(|sent| lock(sent).is_recording = setup.has_io);
        let count = || if setup.has_io { shared.sent() } else { shared.received() };
        let (before, missed, start) = (count(), shared.missed(), Instant::now());
        thread::sleep(effort.window);
        let (after, missed_after, time) = (count(), shared.missed(), start.elapsed());
        shared.sent.iter().for_each(|sent| lock(sent).is_recording = false);
        let (frames, missed) = ((after - before) as f64, (missed_after - missed) as f64);
        let mut latency = lock(&shared.sent[0]).latency.clone();
        for sent in &shared.sent[1..] {
            latency.add(&lock(sent).latency).map_err(|error| anyhow!("latencies: {error}"))?;
        }
        Ok(Measured {
            pps: frames / time.as_secs_f64(),
            missed_ratio: missed / (frames + missed).max(1.0),
            latency: Latency::of(&latency),
        })
    })
}
