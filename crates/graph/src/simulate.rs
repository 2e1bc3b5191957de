//! A host whose time is simulated: nothing waits, and every run is the same.
//!
//! # Time
//! Time stands still while tasks run and jumps to the next timer when none is runnable, so a finite
//! amount of work takes none. A router that never rests, as with an endless source, would keep its
//! timers from their turn. So after [`FREE_ROUNDS`] busy rounds of the scheduler without rest, each
//! further one takes [`ROUND_NS`]. A round runs up to 32 tasks; it is busy if one of them did work.
//! Rounds that only poll a device take no time, so the results do not depend on its speed. Click
//! advances its simulated time by the least unit at each read of the clock, for the same purpose.

use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::context::Console;
use crate::element::Registry;
use crate::language::{self, Diagnostics};
use crate::router::{Ended, Host, Router, RouterOptions};
use crate::time::Time;

/// When simulated time begins: Click's does at this second.
pub const SIMULATED_START: Time = Time(1_000_000_000 * Time::SECOND);

/// Rounds of the scheduler without rest that take no time: some 8,000 tasks.
pub const FREE_ROUNDS: u32 = 256;
/// What each further round takes, in nanoseconds: about 3 us a task, as on a real machine.
pub const ROUND_NS: i64 = 100_000;

/// Simulated time. See the module.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedClock {
    now: Time,
    /// Rounds since the last rest.
    busy_rounds: u32,
}

impl SimulatedClock {
    /// A clock that shows `now`.
    pub fn new(now: Time) -> Self {
        Self { now, busy_rounds: 0 }
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Ends a round of the scheduler in which a task did work.
    pub fn end_busy_round(&mut self) {
        if self.busy_rounds < FREE_ROUNDS {
            self.busy_rounds += 1;
        } else {
            self.now.0 = self.now.0.saturating_add(ROUND_NS);
        }
    }

    /// Jumps to `until` if that is in the future: nothing is runnable before.
    pub fn rest_until(&mut self, until: Time) {
        *self = Self::new(self.now.max(until));
    }
}

/// A host with a [`SimulatedClock`].
#[derive(Clone, Copy, Debug)]
pub struct SimulatedHost {
    clock: SimulatedClock,
    /// The run ends when time would pass this.
    pub end: Option<Time>,
    /// Further time that each round takes, nothing by default: for tests of work without end.
    pub step_ns: i64,
}

impl Default for SimulatedHost {
    fn default() -> Self {
        Self { clock: SimulatedClock::new(SIMULATED_START), end: None, step_ns: 0 }
    }
}

impl SimulatedHost {
    /// A host whose time begins and ends so many nanoseconds after [`SIMULATED_START`].
    pub fn running(from_ns: i64, until_ns: i64) -> Self {
        let at = |ns: i64| Time(SIMULATED_START.0.saturating_add(ns));
        Self { clock: SimulatedClock::new(at(from_ns)), end: Some(at(until_ns)), step_ns: 0 }
    }
}

impl Host for SimulatedHost {
    fn now(&mut self) -> Time {
        self.clock.now.0 += self.step_ns;
        self.clock.now()
    }

    fn end_busy_round(&mut self) {
        self.clock.end_busy_round();
    }

    fn wait(&mut self, until: Option<Time>) -> bool {
        match until {
            Some(until) if self.end.is_none_or(|end| until <= end) => {
                self.clock.rest_until(until);
                true
            }
            _ => false,
        }
    }
}

/// What a configuration said and printed.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    lines: Rc<RefCell<String>>,
    output: Rc<RefCell<Vec<u8>>>,
    device: Option<Arc<dyn Any + Send + Sync>>,
}

impl Transcript {
    /// One that hands `device` to the elements that ask for one.
    pub fn with_device(device: Arc<dyn Any + Send + Sync>) -> Self {
        Self { device: Some(device), ..Self::default() }
    }

    /// What it said, line by line.
    pub fn said(&self) -> String {
        self.lines.borrow().clone()
    }

    /// What it printed.
    pub fn printed(&self) -> Vec<u8> {
        self.output.borrow().clone()
    }
}

impl Console for Transcript {
    fn say(&mut self, line: &str) {
        let mut lines = self.lines.borrow_mut();
        lines.push_str(line);
        lines.push('\n');
    }

    fn print(&mut self, text: &[u8]) {
        self.output.borrow_mut().extend_from_slice(text);
    }

    fn device(&mut self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.device.clone()
    }
}

/// A router of `config` that says and prints to the transcript.
///
/// # Errors
/// All that is wrong with it.
pub fn router(config: &str, registry: &Registry) -> Result<(Router, Transcript), Diagnostics> {
    let transcript = Transcript::default();
    router_for(config, registry, &transcript).map(|router| (router, transcript))
}

/// A router of `config` for a transcript of one's own.
///
/// # Errors
/// All that is wrong with it.
pub fn router_for(
    config: &str,
    registry: &Registry,
    transcript: &Transcript,
) -> Result<Router, Diagnostics> {
    let globals = Default::default();
    let loaded = language::load("config", config.as_bytes(), registry, &globals, None)?;
    let options = RouterOptions {
        console: Box::new(transcript.clone()),
        seed: 1,
        now: SIMULATED_START,
        ticks: None,
    };
    Router::new(loaded, registry, options)
}

/// Runs `config` to its end and checks that no packet was lost: for tests.
///
/// # Panics
/// If something is wrong with the configuration, or a packet was lost.
pub fn run(config: &str, registry: &Registry) -> (Router, Transcript) {
    run_until(config, registry, SimulatedHost::default())
}

/// The same with a host of one's own.
///
/// # Panics
/// As [`run`].
pub fn run_until(
    config: &str,
    registry: &Registry,
    mut host: SimulatedHost,
) -> (Router, Transcript) {
    let made = router(config, registry).map_err(|errors| errors.to_click());
    let (mut router, transcript) = made.unwrap_or_else(|errors| panic!("{errors}"));
    let _: Ended = router.run(&mut host);
    router.finish().map_err(|errors| errors.to_click()).expect("the run finishes");
    assert_eq!(router.packets_unaccounted(), 0, "packets in = out + dropped + held");
    (router, transcript)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_only_without_rest() {
        let mut clock = SimulatedClock::new(Time(0));
        for _ in 0..FREE_ROUNDS {
            clock.end_busy_round();
            assert_eq!(clock.now(), Time(0));
        }
        clock.end_busy_round();
        clock.end_busy_round();
        assert_eq!(clock.now(), Time(2 * ROUND_NS));
        clock.rest_until(Time(5));
        assert_eq!(clock.now(), Time(2 * ROUND_NS), "time never goes back");
        clock.rest_until(Time(9 * ROUND_NS));
        assert_eq!(clock.now(), Time(9 * ROUND_NS));
    }
}
