//! The host of a run: its clock, and whoever asks meanwhile.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warpswitch_graph::simulate::SIMULATED_START;
use warpswitch_graph::{Clock as SharedClock, Host, Router, Time};

use super::console::World;
use super::pace::Pace;
use super::reload::{Reload, Reloadable};
use super::signals::Came;

/// Sockets are looked at this often while packets are worked on.
const LOOK_NS: i64 = 1_000_000;
/// And at the latest after so many calls, should the clock stand still.
const CALLS_PER_LOOK: u32 = 1024;

/// What tells the time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// Time that passes as real time does, or at another pace.
    Real(Arc<Pace>),
    /// Time that passes only while there is nothing to do, and then at once.
    Simulated(Time),
}

impl Clock {
    /// The time of the day.
    pub fn real() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::Real(Arc::new(Pace::new(Time::default() + since)))
    }

    /// Simulated time, from `seconds` since 1970 on.
    pub fn simulated(seconds: Option<f64>) -> Self {
        Self::Simulated(match seconds {
            Some(seconds) => Time((seconds * Time::SECOND as f64) as i64),
            None => SIMULATED_START,
        })
    }

    /// The time.
    pub fn now(&self) -> Time {
        match self {
            Clock::Real(pace) => pace.now(),
            Clock::Simulated(now) => *now,
        }
    }

    /// The pace of time, if it has one.
    pub(super) fn pace(&self) -> Option<Arc<Pace>> {
        match self {
            Clock::Real(pace) => Some(pace.clone()),
            Clock::Simulated(_) => None,
        }
    }
}

/// The host of a run. See the module.
pub struct DriveHost {
    world: Rc<World>,
    clock: Clock,
    /// Whether the run goes on though nothing can happen but a signal.
    stays: bool,
    reload: Option<Reload>,
    now: Time,
    next_look: Time,
    calls: u32,
    /// Whether all workers rest because of somebody who waits.
    asked: bool,
    /// Whether a signal ended the run.
    pub interrupted: bool,
}

impl DriveHost {
    /// A host of this world; with `reload` its configuration can be written.
    pub fn new(world: Rc<World>, clock: Clock, stays: bool, reload: Option<Reload>) -> Self {
        let now = clock.now();
        world.reconfigures.set(reload.is_some());
        let (next_look, calls, asked, interrupted) = (now, 0, false, false);
        Self { world, clock, stays, reload, now, next_look, calls, asked, interrupted }
    }

    fn serve_signals(&mut self, router: &mut Router) {
        loop {
            let came = self.world.signals.borrow_mut().next();
            match came {
                None => return,
                Some(Came::Stop) => {
                    self.interrupted = true;
                    router.halt();
                }
                Some(Came::Handlers(handlers, signal)) => {
                    for handler in handlers {
                        if let Err(error) = router.write(&handler, "") {
                            self.world.say(&format!("{handler}: {error}"));
                        }
                    }
                    self.world.signals.borrow_mut().give_back(signal);
                }
            }
        }
    }

    fn serve_clients(&mut self, router: &mut Router) {
        let mut told = Vec::new();
        // They are out while they are served: a command may open and close sockets.
        let mut clients = self.world.sockets.borrow_mut().take_clients(&mut told);
        for client in &mut clients {
            let reload = self.reload.as_mut();
            let world = &self.world;
            client.serve(&mut Reloadable { router: &mut *router, reload, world, now: self.now });
        }
        self.world.sockets.borrow_mut().put_back(clients, &mut told);
        told.iter().for_each(|line| self.world.say(line));
    }

    /// Runs the configuration that the one that runs asked for in its place.
    fn serve_reconfiguration(&mut self, router: &mut Router) {
        let Some(text) = self.world.next_config.borrow_mut().take() else { return };
        let Some(reload) = &mut self.reload else { return };
        if let Err(errors) = reload.replace(router, &self.world, self.now, &text) {
            self.world.say(&errors);
        }
    }

    /// Sleeps until `until`, or until a signal or a client comes.
    fn sleep(&mut self, until: Option<Time>) {
        let sockets = self.world.sockets.borrow();
        let signals = self.world.signals.borrow();
        let mut fds = sockets.poll_fds();
        fds.push(PollFd::new(&signals.wake, PollFlags::IN));
        let wait = match until {
            _ if sockets.has_work() => Some(Duration::ZERO),
            until => until.map(|until| match &self.clock {
                Clock::Real(pace) => pace.real_until(until),
                Clock::Simulated(now) => until - *now,
            }),
        };
        let timeout = wait.and_then(|wait| Timespec::try_from(wait).ok());
        // Interrupted or not: whoever called looks at all there is.
        _ = poll(&mut fds, timeout.as_ref());
    }
}

impl DriveHost {
    /// Whether a signal or a client waits.
    fn has_come(&self) -> bool {
        let sockets = self.world.sockets.borrow();
        let signals = self.world.signals.borrow();
        let mut fds = sockets.poll_fds();
        fds.push(PollFd::new(&signals.wake, PollFlags::IN));
        sockets.has_work()
            || poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

impl Host for DriveHost {
    fn now(&mut self) -> Time {
        self.now = self.clock.now();
        self.now
    }

    fn wait(&mut self, until: Option<Time>) -> bool {
        self.world.flush();
        self.next_look = self.now;
        let is_open = self.stays
            || !self.world.sockets.borrow().is_empty()
            || self.world.signals.borrow().is_watching();
        match (&mut self.clock, until) {
            (Clock::Simulated(now), Some(until)) => *now = until.max(*now),
            (_, None) if !is_open => return false,
            (_, until) => self.sleep(until),
        }
        true
    }

    fn clock(&self) -> Option<SharedClock> {
        match &self.clock {
            Clock::Real(pace) => {
                let pace = pace.clone();
                Some(Arc::new(move || pace.now()))
            }
            // Simulated time is worth having because every run is the same.
            Clock::Simulated(_) => None,
        }
    }

    fn wants_to_serve(&mut self) -> bool {
        if self.now < self.next_look {
            return false;
        }
        self.next_look = Time(self.now.0.saturating_add(LOOK_NS));
        self.world.flush();
        self.asked = self.world.is_closed() || self.has_come();
        self.asked
    }

    fn serve(&mut self, router: &mut Router) {
        self.serve_reconfiguration(router);
        self.calls += 1;
        let asked = std::mem::take(&mut self.asked);
        if !asked && self.now < self.next_look && self.calls < CALLS_PER_LOOK {
            return;
        }
        (self.calls, self.next_look) = (0, Time(self.now.0.saturating_add(LOOK_NS)));
        self.serve_signals(router);
        if !self.world.sockets.borrow().is_empty() {
            self.serve_clients(router);
        }
        self.world.flush();
        if self.world.is_closed() {
            router.halt();
        }
    }
}
