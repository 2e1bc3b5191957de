//! Interfaces as sources: when they are looked at.

use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use warpswitch_graph::simulate::SIMULATED_START;
use warpswitch_graph::{Console, Host, Router, RouterOptions, Time, Watch, language};
use warpswitch_packet::{Batch, Pool, PortSpec, RxPort};

/// Time between two rounds of the router.
const ROUND: Duration = Duration::from_micros(1);
/// Rounds of the router.
const ROUNDS: usize = 1000;

/// A port that has `frames` frames on each look.
struct RestingPort {
    frames: usize,
    rest: Duration,
    looks: Arc<AtomicUsize>,
    fd: Arc<OwnedFd>,
}

impl RxPort for RestingPort {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, _frames_max: usize) -> usize {
        self.looks.fetch_add(1, Ordering::Relaxed);
        batch.extend((0..self.frames).map(|_| pool.packet_of(&[0; 60])));
        self.frames
    }

    fn device(&self) -> String {
        "resting".to_owned()
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        Some(self.fd.clone())
    }

    fn rest(&self) -> Duration {
        self.rest
    }
}

/// Opens the port.
struct PortConsole {
    port: Option<RestingPort>,
    is_time_simulated: bool,
}

impl Console for PortConsole {
    fn say(&mut self, line: &str) {
        panic!("{line}");
    }

    fn print(&mut self, _text: &[u8]) {}

    fn may_wait(&self) -> bool {
        self.is_time_simulated
    }

    fn open_rx(&mut self, _spec: &PortSpec) -> Result<Box<dyn RxPort>, String> {
        Ok(Box::new(self.port.take().expect("one port")))
    }
}

/// Has a fixed time pass in each round, and never sleeps.
struct SteadyHost {
    now: Time,
    round: Duration,
    rounds: usize,
}

impl Host for SteadyHost {
    fn now(&mut self) -> Time {
        self.now = self.now + self.round;
        self.now
    }

    fn wait(&mut self, _until: Option<Time>) -> bool {
        true
    }

    fn wait_for(&mut self, _until: Option<Time>, watches: &[Watch]) -> bool {
        assert_eq!(watches.len(), 1, "a resting port is watched");
        true
    }

    fn serve(&mut self, router: &mut Router) {
        self.rounds += 1;
        if self.rounds == ROUNDS {
            router.halt();
        }
    }
}

/// Looks at a port and frames from it in [`ROUNDS`] rounds, in bursts of up to `burst`.
fn looks(burst: usize, frames: usize, rest: Duration) -> (usize, usize) {
    looks_in_rounds_of(ROUND, burst, frames, rest)
}

/// The same in rounds of a time; time that stands still is simulated.
fn looks_in_rounds_of(
    round: Duration,
    burst: usize,
    frames: usize,
    rest: Duration,
) -> (usize, usize) {
    let config = format!("FromDevice(mem:in, BURST {burst}) -> c :: Counter -> Discard;");
    let registry = crate::registry();
    let loaded = language::load("config", config.as_bytes(), &registry, &Default::default(), None);
    let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    let looks = Arc::new(AtomicUsize::new(0));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = RestingPort { frames, rest, looks: looks.clone(), fd: Arc::new(socket.into()) };
    let console = Box::new(PortConsole { port: Some(port), is_time_simulated: round.is_zero() });
    let options = RouterOptions { console, seed: 1, now: SIMULATED_START, ticks: None };
    let router = Router::new(loaded, &registry, options);
    let mut router = router.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    router.run(&mut SteadyHost { now: SIMULATED_START, round, rounds: 0 });
    let count = router.read("c.count").expect("a handler").parse().expect("a number");
    (looks.load(Ordering::Relaxed), count)
}

#[test]
fn a_port_rests_after_a_small_burst_only() {
    // Several times a round, as long as there are frames.
    let always = looks(64, 1, Duration::ZERO);
    assert!(always.0 > ROUNDS && always.0 == always.1, "{always:?}");
    let rested = looks(64, 1, 5 * ROUND);
    assert!((ROUNDS / 6..=ROUNDS / 5).contains(&rested.0) && rested.0 == rested.1, "{rested:?}");
    let large = looks(64, 32, 5 * ROUND);
    assert_eq!(large, (always.0, 32 * always.0));
    // Simulated time does not pass while a port rests.
    assert_eq!(looks_in_rounds_of(Duration::ZERO, 64, 1, 5 * ROUND), always);
    // No burst is larger.
    assert_eq!(looks(1, 1, 5 * ROUND), always);
}
