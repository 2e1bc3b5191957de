//! The run loop's host: clock, signals, control connections and requests of the embedding program.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warpswitch_graph::language::Diagnostics;
use warpswitch_graph::{Clock, Ended, Host, Router, Time, Watch};

use crate::clock::RunClock;
use crate::environment::Environment;
use crate::progress::ProgressReporter;
use crate::reconfigure::{ReconfigurableRouter, RouterFactory};
use crate::requests::RequestQueue;
use crate::signals::SignalEvent;
use crate::sleeper::poll_fd;
use crate::stats::RunEnd;

/// Interval between two polls of sockets and signals while tasks run.
const POLL_NS: i64 = 1_000_000;
/// Calls of `serve` that force a poll even if the clock stands still.
const CALLS_PER_POLL: u32 = 1024;

/// Serves a router between its tasks. Never blocks while a task is runnable.
pub struct SystemHost {
    environment: Rc<Environment>,
    clock: RunClock,
    /// Whether the run continues when only a signal can wake it.
    keeps_running: bool,
    factory: Option<RouterFactory>,
    requests: Option<RequestQueue>,
    progress: Option<ProgressReporter>,
    now: Time,
    next_poll: Time,
    calls: u32,
    /// Whether the workers are parked for a pending event.
    has_event: bool,
    /// Whether a signal ended the run.
    was_interrupted: bool,
}

/// The result of a finished run.
#[derive(Debug)]
pub struct FinishedRun {
    /// Why it ended.
    pub end: RunEnd,
    /// Its wall-clock time.
    pub seconds: f64,
    /// Errors of elements in [`Router::finish`].
    pub finished: Result<(), Diagnostics>,
}

impl SystemHost {
    /// A host in `environment`. With a `factory`, clients can replace the configuration.
    pub fn new(
        environment: Rc<Environment>,
        clock: RunClock,
        keeps_running: bool,
        factory: Option<RouterFactory>,
    ) -> Self {
        let now = clock.now();
        environment.allows_reconfigure.set(factory.is_some());
        Self {
            environment,
            clock,
            keeps_running,
            factory,
            requests: None,
            progress: None,
            now,
            next_poll: now,
            calls: 0,
            has_event: false,
            was_interrupted: false,
        }
    }

    /// Serves the requests of an embedding program, too.
    pub(crate) fn with_requests(mut self, requests: RequestQueue) -> Self {
        self.requests = Some(requests);
        self
    }

    /// Reports progress while tasks run.
    pub(crate) fn with_progress(mut self, progress: Option<ProgressReporter>) -> Self {
        self.progress = progress;
        self
    }

    /// Runs `router` until it ends, finishes its elements and flushes the output.
    pub fn run(&mut self, router: &mut Router) -> FinishedRun {
        let start = Instant::now();
        let ended = router.run(self);
        let seconds = start.elapsed().as_secs_f64();
        let finished = router.finish();
        self.environment.flush();
        let end = match ended {
            _ if self.was_interrupted => RunEnd::Interrupted,
            Ended::Idle => RunEnd::Idle,
            _ => RunEnd::Stopped,
        };
        FinishedRun { end, seconds, finished }
    }

    /// Serves requests after the run until the embedding program stops it.
    pub(crate) fn serve_after_run(&mut self, router: &mut Router, end: RunEnd) {
        let Some(mut requests) = self.requests.take() else { return };
        requests.finish(end);
        while requests.wait() {
            self.serve_from(&mut requests, router);
        }
        self.requests = Some(requests);
    }

    fn serve_signals(&mut self, router: &mut Router) {
        loop {
            let event = self.environment.signals.borrow_mut().next();
            match event {
                None => return,
                Some(SignalEvent::Stop) => {
                    self.was_interrupted = true;
                    router.halt();
                }
                Some(SignalEvent::Handlers(handlers, signal)) => {
                    for handler in handlers {
                        if let Err(error) = router.write(&handler, "") {
                            self.environment.message(&format!("{handler}: {error}"));
                        }
                    }
                    self.environment.signals.borrow_mut().release(signal);
                }
            }
        }
    }

    fn serve_clients(&mut self, router: &mut Router) {
        let mut messages = Vec::new();
        // Detached while they are served: a command may open and close sockets.
        let mut clients = self.environment.sockets.borrow_mut().take_clients(&mut messages);
        for client in &mut clients {
            let (factory, environment) = (self.factory.as_mut(), &self.environment);
            let router = &mut *router;
            client.serve(&mut ReconfigurableRouter { router, factory, environment, now: self.now });
        }
        self.environment.sockets.borrow_mut().put_back(clients, &mut messages);
        messages.iter().for_each(|line| self.environment.message(line));
    }

    fn serve_requests(&mut self, router: &mut Router) {
        let Some(mut requests) = self.requests.take() else { return };
        self.serve_from(&mut requests, router);
        if requests.is_stopped() {
            router.halt();
        }
        self.requests = Some(requests);
    }

    fn serve_from(&mut self, requests: &mut RequestQueue, router: &mut Router) {
        let (factory, environment) = (self.factory.as_mut(), &self.environment);
        let now = self.now;
        requests.serve(&mut ReconfigurableRouter { router, factory, environment, now });
    }

    /// Replaces the configuration at its own request.
    fn serve_reconfiguration(&mut self, router: &mut Router) {
        let Some(text) = self.environment.next_config.borrow_mut().take() else { return };
        let Some(factory) = &mut self.factory else { return };
        if let Err(errors) = factory.replace(router, &self.environment, self.now, &text) {
            self.environment.message(&errors);
        }
    }

    /// Polls sockets, signals, requests and `watches` for up to `timeout`; returns whether any is
    /// ready.
    fn poll(&self, watches: &[Watch], timeout: Option<&Timespec>) -> bool {
        let sockets = self.environment.sockets.borrow();
        let signals = self.environment.signals.borrow();
        let mut fds = sockets.poll_fds();
        fds.push(PollFd::new(&signals.wake, PollFlags::IN));
        if let Some(requests) = &self.requests {
            fds.push(PollFd::new(requests.wake_fd(), PollFlags::IN));
        }
        fds.extend(watches.iter().map(poll_fd));
        poll(&mut fds, timeout).is_ok_and(|ready| ready > 0)
    }

    /// Sleeps until `until`, or until an event arrives or one of `watches` is ready.
    fn sleep(&mut self, until: Option<Time>, watches: &[Watch]) {
        let wait = match until {
            _ if self.environment.sockets.borrow().has_work() => Some(Duration::ZERO),
            until => until.map(|until| match &self.clock {
                RunClock::Real(clock) => clock.real_until(until),
                RunClock::Simulated(clock) => until - clock.now(),
            }),
        };
        let timeout = wait.and_then(|wait| Timespec::try_from(wait).ok());
        // The caller checks every source afterwards, so an interrupted poll needs no retry.
        self.poll(watches, timeout.as_ref());
    }

    /// Whether a signal, a client or a request is pending.
    fn is_event_pending(&self) -> bool {
        self.environment.sockets.borrow().has_work() || self.poll(&[], Some(&Timespec::default()))
    }
}

impl Host for SystemHost {
    fn now(&mut self) -> Time {
        self.now = self.clock.now();
        self.now
    }

    fn end_busy_round(&mut self) {
        self.clock.end_busy_round();
    }

    fn wait(&mut self, until: Option<Time>) -> bool {
        self.wait_for(until, &[])
    }

    fn wait_for(&mut self, until: Option<Time>, watches: &[Watch]) -> bool {
        self.environment.flush();
        self.next_poll = self.now;
        let is_open = self.keeps_running
            || !watches.is_empty()
            || !self.environment.sockets.borrow().is_empty()
            || self.environment.signals.borrow().is_watching();
        match (&mut self.clock, until) {
            (RunClock::Simulated(clock), Some(until)) => clock.rest_until(until),
            (_, None) if !is_open => return false,
            (_, until) => self.sleep(until, watches),
        }
        true
    }

    fn clock(&self) -> Option<Clock> {
        match &self.clock {
            RunClock::Real(clock) => {
                let clock = clock.clone();
                Some(Arc::new(move || clock.now()))
            }
            // Simulated time makes runs deterministic, which several workers would not be.
            RunClock::Simulated(_) => None,
        }
    }

    fn wants_to_serve(&mut self) -> bool {
        if self.now < self.next_poll {
            return false;
        }
        self.next_poll = Time(self.now.0.saturating_add(POLL_NS));
        self.environment.flush();
        self.has_event = self.environment.is_closed()
            || self.is_event_pending()
            || self.progress.as_ref().is_some_and(ProgressReporter::is_due);
        self.has_event
    }

    fn serve(&mut self, router: &mut Router) {
        self.serve_reconfiguration(router);
        self.calls += 1;
        let has_event = std::mem::take(&mut self.has_event);
        if !has_event && self.now < self.next_poll && self.calls < CALLS_PER_POLL {
            return;
        }
        (self.calls, self.next_poll) = (0, Time(self.now.0.saturating_add(POLL_NS)));
        self.serve_signals(router);
        if !self.environment.sockets.borrow().is_empty() {
            self.serve_clients(router);
        }
        self.serve_requests(router);
        if let Some(progress) = &mut self.progress {
            progress.report_if_due(router);
        }
        self.environment.flush();
        if self.environment.is_closed() {
            router.halt();
        }
    }
}
