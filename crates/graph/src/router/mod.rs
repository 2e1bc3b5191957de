//! A configuration that runs.
//!
//! ```text
//! Router::new   make ─► configure (by phase) ─► initialize        all errors of a step at once
//! Router::run   timers that are due ─► a task ─► deliveries until none is left ─► the next task …
//! ```
//! One worker runs a router, or several do: see [`team`]. Deliveries follow a task at once and
//! depth first, so a packet is done with before the next task begins, and what lies in caches is
//! used while it is there.
//!
//! # Invariants
//! - W1: packets that were given out and not put back are held by elements or wait to be
//!   delivered: [`Router::packets_unaccounted`] is 0 whenever no element runs.
//! - W2: a run of one worker with the same host, seed and configuration does the same, packet for
//!   packet. More workers keep every flow's packets in order, and counts.

mod build;
pub mod gso;
pub(crate) mod handlers;
mod plan;
mod random;
mod team;
pub(crate) mod trace;
pub(crate) mod watch;
pub(crate) mod worker;

use std::sync::Arc;
use std::thread::JoinHandle;

use warpswitch_packet::gso::any_gso;
use warpswitch_packet::{Batch, Pool};

use crate::context::{Console, Context, Shared};
use crate::element::Registry;
use crate::handler::HandlerError;
use crate::language::{Diagnostics, FlatGraph, Loaded, PortRef, Processing};
use crate::time::Time;
use team::Team;
pub use trace::{
    PacketLook, TRACED_PACKETS_MAX, TracedElement, TracedEnd, TracedHop, TracedPacket, TracedWay,
};
pub use watch::{Readiness, Sleeper, Watch};
pub use worker::Stats;
use worker::Worker;

/// Deliveries that one task, timer or handler leads to before others get their turn.
const DELIVERIES_PER_LOOK: usize = 1 << 16;
/// Tasks that run between two looks at the clock, at most; fewer where they take long.
const TASKS_PER_LOOK: usize = 32;
/// Timers that run between two looks at the clock: one that is due at once again and again must not
/// keep all else from its turn.
const TIMERS_PER_LOOK: usize = 1024;

/// What runs a router: its clock, and whoever asks it things meanwhile.
pub trait Host {
    /// The time. Never goes back.
    fn now(&mut self) -> Time;

    /// Nothing can happen before `until`, or ever: waits until then, or less. Tells whether
    /// something may happen yet: if not, the run ends.
    fn wait(&mut self, until: Option<Time>) -> bool;

    /// Called after each round of the scheduler in which a task did work: a host with simulated
    /// time may let it pass.
    fn end_busy_round(&mut self) {}

    /// As [`Host::wait`], but ends also when one of `watches` is ready. A host that opens no ports
    /// is called without any.
    fn wait_for(&mut self, until: Option<Time>, _watches: &[Watch]) -> bool {
        self.wait(until)
    }

    /// Called between tasks, often: time to read and write handlers.
    fn serve(&mut self, _router: &mut Router) {}

    /// What [`Host::now`] reads, for all workers to read at once. Without it one worker runs.
    fn clock(&self) -> Option<Clock> {
        None
    }

    /// Called often while several workers run: whether [`Host::serve`] has something to do, for
    /// which all others have to rest.
    fn wants_to_serve(&mut self) -> bool {
        true
    }
}

/// A round of the scheduler.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Whether only sources that pause for a stop were scheduled: what the stop waits for may need
    /// time to pass.
    rests: bool,
    /// Whether a task did work. A task that polls a device does none until results arrive.
    has_worked: bool,
}

/// Tells the time to any thread.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// The workers of a router.
#[derive(Clone, Copy, Debug)]
pub struct Workers {
    /// How many there are, the thread that calls [`Router::run`] included.
    pub count: usize,
    /// Starts the thread of a worker, which does the work that it is given and ends.
    pub start: StartWorker,
    /// Makes what a worker sleeps by while it waits for descriptors. Without one it looks at them
    /// several thousand times a second.
    pub sleeper: fn() -> Option<Arc<dyn Sleeper>>,
}

/// Starts a thread for the worker of this number, for this work.
pub type StartWorker = fn(usize, Box<dyn FnOnce() + Send>) -> JoinHandle<()>;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to stop.
    Stopped,
    /// Nothing was left that could happen: no task was scheduled, no timer set.
    Idle,
}

/// A configuration that runs. See the module.
pub struct Router {
    shared: Shared,
    worker: Worker,
    /// None for one.
    workers: Option<Workers>,
    /// The workers beside worker 0, once there is something for them to do.
    team: Option<Box<Team>>,
}

/// How a router is made.
pub struct RouterOptions {
    /// Where messages and output go.
    pub console: Box<dyn Console>,
    /// Seeds the random choices of elements.
    pub seed: u64,
    /// The time that it is when elements are initialized.
    pub now: Time,
    /// Reads a fast clock, in nanoseconds, to count what elements cost, and bytes; none counts
    /// neither.
    pub ticks: Option<fn() -> u64>,
}

impl Router {
    /// Makes the elements of `loaded` and gets them ready.
    ///
    /// # Errors
    /// What is wrong with the arguments of any element; if nothing is, what hinders any of them.
    pub fn new(
        loaded: Loaded,
        registry: &Registry,
        options: RouterOptions,
    ) -> Result<Self, Diagnostics> {
        let mut router = build::configure(loaded, registry, options)?;
        router.initialize()?;
        router.tell_contradictions();
        Ok(router)
    }

    /// Checks the arguments of all elements of `loaded`, and their places in the graph; they open
    /// nothing and do not run.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check(
        loaded: Loaded,
        registry: &Registry,
        options: RouterOptions,
    ) -> Result<(), Diagnostics> {
        let mut router = build::configure(loaded, registry, options)?;
        router.check_places()?;
        router.tell_contradictions();
        Ok(())
    }

    /// Makes the elements of `loaded`, which take over from those of `old` with the same name and
    /// class what these know and hold. Packets of others are lost: their number is given.
    ///
    /// # Errors
    /// As for [`Router::new`], with `old` as it was.
    pub fn replacing(
        loaded: Loaded,
        registry: &Registry,
        options: RouterOptions,
        old: Router,
    ) -> Result<(Self, u64), (Diagnostics, Box<Router>)> {
        let mut router = match build::configure(loaded, registry, options) {
            Ok(router) => router,
            Err(errors) => return Err((errors, Box::new(old))),
        };
        if let Err(errors) = router.initialize() {
            return Err((errors, Box::new(old)));
        }
        router.tell_contradictions();
        let lost = router.take_over(old);
        Ok((router, lost))
    }

    fn take_over(&mut self, mut old: Router) -> u64 {
        old.team = None;
        if let Some(workers) = old.workers {
            self.use_workers(workers);
        }
        let live = old.worker.pool.live();
        // The old pool's packets go on; those that initialization made are few.
        std::mem::swap(&mut self.worker.pool, &mut old.worker.pool);
        self.worker.pool.adopt(old.worker.pool.live());
        self.worker.timewarp = old.worker.timewarp;
        for idx in 0..self.shared.elements.len() {
            let element = &self.shared.graph.elements[idx];
            let Some(&was) = old.shared.index.get(&element.name) else { continue };
            if old.shared.graph.elements[was].class != element.class {
                continue;
            }
            if !self.worker.was_seeded {
                self.worker.randoms[idx] = old.worker.randoms[was];
            }
            let mut before = old.shared.elements[was].borrow_mut();
            let mut cx = Context { shared: &self.shared, worker: &mut self.worker, element: idx };
            self.shared.elements[idx].borrow_mut().take_state(&mut cx, &mut **before);
            // Counts go on where the class has the same reasons.
            let counts = old.worker.stats[was].clone();
            if counts.drops.len() == self.worker.stats[idx].drops.len() {
                self.worker.stats[idx] = counts;
            }
        }
        self.take_over_trace(&mut old);
        // Who lent frames may be gone.
        self.worker.forget_lenders();
        let left: usize = old.shared.elements.iter().map(|element| element.borrow().held()).sum();
        let lost = (left + old.worker.waiting()) as u64;
        debug_assert!(lost <= live, "more packets are held than were given out");
        self.worker.pool.release(lost);
        lost
    }

    /// Runs until it is asked to stop, or nothing is left that could happen.
    pub fn run(&mut self, host: &mut dyn Host) -> Ended {
        self.worker.runs = true;
        let clock = host.clock();
        self.worker.clock.clone_from(&clock);
        loop {
            self.worker.wake_watchers();
            if let Some(clock) = &clock
                && self.has_work_for_others()
            {
                self.run_shift(host, clock);
            }
            let now = host.now();
            match &clock {
                Some(_) => self.worker.look(now),
                // Where time is made up, it says nothing of how long tasks take.
                None => self.worker.now = now,
            }
            self.run_timers();
            let Round { rests, has_worked } = self.run_tasks();
            if has_worked {
                host.end_busy_round();
            }
            host.serve(self);
            if self.worker.may_stop() && self.stops() {
                (self.worker.stops, self.worker.halted) = (0, false);
                return Ended::Stopped;
            }
            if (rests || !self.worker.has_work()) && !self.worker.may_stop() {
                let until = self.worker.next_timer_at();
                let is_due = until.is_some_and(|until| until <= self.worker.now);
                if is_due || rests && until.is_none() || self.worker.spins() {
                    continue;
                }
                if !host.wait_for(until, &self.worker.watches) {
                    return Ended::Idle;
                }
            }
        }
    }

    /// Has so many workers run it from now on. Every host that has no [`Host::clock`] runs one.
    pub fn use_workers(&mut self, workers: Workers) {
        (self.workers, self.team) = (Some(workers), None);
        self.worker.homes = self.homes(workers).into();
    }

    /// Runs the timers that are due, or many of them.
    fn run_timers(&mut self) {
        for _ in 0..TIMERS_PER_LOOK {
            let Some((element, timer)) = self.worker.next_due_timer() else { return };
            if self.worker.must_wait(element) {
                self.worker.set_timer(element, timer, self.worker.now);
                return self.worker.end_shift();
            }
            self.enter(element, |element, cx| element.run_timer(cx, timer));
        }
    }

    /// Runs some tasks, if any are scheduled.
    fn run_tasks(&mut self) -> Round {
        let (mut rests, mut runs, mut works) = (false, false, false);
        for _ in 0..self.worker.tasks_per_look {
            if self.worker.may_stop() || self.worker.is_shift_over() {
                return Round { rests: false, has_worked: works };
            }
            if self.worker.has_deliveries() {
                self.deliver();
                return Round { rests: false, has_worked: works };
            }
            let Some(task) = self.worker.next_task() else { break };
            if self.worker.must_wait(task) {
                self.worker.schedule_task(task);
                self.worker.end_shift();
                return Round { rests: false, has_worked: works };
            }
            if self.worker.stops > 0 && self.shared.rests[task] {
                // The stop waits for packets that are under way: no more are to come. Who takes
                // packets from a queue behind them goes on, as they may need room there.
                self.worker.schedule_task(task);
                rests = true;
                continue;
            }
            runs = true;
            let pulled = self.worker.pulled;
            let has_worked = self.enter(task, |element, cx| element.run_task(cx));
            works |= has_worked;
            if has_worked {
                self.worker.spin.note_work(self.worker.now);
            }
            // It got nothing, but somebody on the way did and dropped or kept it: there may be
            // more where that came from, of which nobody will tell.
            if !has_worked && self.worker.pulled != pulled {
                self.worker.schedule_task(task);
            }
        }
        Round { rests: rests && !runs, has_worked: works }
    }

    /// Whether a stop that was asked for holds.
    fn stops(&mut self) -> bool {
        match self.worker.manager {
            _ if self.worker.halted => true,
            Some(manager) => self.enter(manager, |element, cx| element.driver_stops(cx)),
            None => true,
        }
    }

    /// Runs an element and delivers what it emits.
    fn enter<R>(
        &mut self,
        element: usize,
        run: impl FnOnce(&mut dyn crate::Element, &mut Context<'_>) -> R,
    ) -> R {
        let span = self.worker.begin_span();
        let result = {
            let mut cx = Context { shared: &self.shared, worker: &mut self.worker, element };
            run(&mut **self.shared.elements[element].borrow_mut(), &mut cx)
        };
        self.worker.end_span(element, span);
        self.deliver_now();
        result
    }

    /// Delivers what was emitted, and what that leads to.
    fn deliver(&mut self) {
        self.worker.read_ticks();
        self.deliver_now();
    }

    /// The same right after an element ended its work; the rest of very much waits for the next
    /// look at the clock, so that a loop of elements does not keep others from being served.
    fn deliver_now(&mut self) {
        self.write_what_waits();
        self.worker.settle();
        for _ in 0..DELIVERIES_PER_LOOK {
            let Some((target, batch)) = self.next_delivery() else { return };
            if let Some(batch) = self.worker.hand_over(target, batch) {
                self.push_to(target.element, target.port, batch);
                self.write_what_waits();
            }
            self.worker.settle();
        }
    }

    /// What is to be delivered next, and to which input.
    #[inline]
    fn next_delivery(&mut self) -> Option<(PortRef, Batch)> {
        let (delivery, target) = self.worker.next_delivery()?;
        if any_gso() && !self.shared.accepts_gso.contains(target.element) {
            return Some((target, self.completed(delivery, target.element)));
        }
        Some((target, delivery.batch))
    }

    /// Makes the calls that had to wait, as whom they call was at work.
    #[inline]
    fn write_what_waits(&mut self) {
        if !self.worker.later.is_empty() {
            self.write_all_that_waits();
        }
    }

    #[cold]
    #[inline(never)]
    fn write_all_that_waits(&mut self) {
        // What has to wait again does so until this is asked again.
        for (from, call) in std::mem::take(&mut self.worker.later) {
            handlers::call(&self.shared, &mut self.worker, from, &call);
        }
    }

    /// Has an element take a batch, right after another one ended its work or
    /// [`Worker::read_ticks`].
    #[inline]
    fn push_to(&mut self, element: usize, input: usize, batch: Batch) {
        let span = self.worker.follow_span();
        self.worker.count(element, &batch);
        let mut cx = Context { shared: &self.shared, worker: &mut self.worker, element };
        self.shared.elements[element].borrow_mut().push(&mut cx, input, batch);
        self.worker.end_span(element, span);
    }

    /// Pushes `batch`, made of packets of [`Router::pool`], to `input` of element `element` and
    /// delivers all that follows: for hosts that bring packets of their own.
    ///
    /// # Panics
    /// If there is no such element, or the input is none that is pushed to.
    pub fn push(&mut self, element: usize, input: usize, batch: Batch) {
        let kind = self.shared.ports[element].inputs[input];
        assert_eq!(kind, Processing::Push, "packets are pushed to push inputs");
        if batch.is_empty() {
            return self.worker.pool.recycle_empty(batch);
        }
        let to = PortRef { element, port: input };
        let batch = self.worker.trace_moved(None, to, batch);
        self.worker.read_ticks();
        self.push_to(element, input, batch);
        self.deliver_now();
    }

    /// Where packets come from.
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.worker.pool
    }

    /// Finishes: files are flushed. Comes last.
    ///
    /// # Errors
    /// What could not be finished, element by element.
    pub fn finish(&mut self) -> Result<(), Diagnostics> {
        let mut errors = Diagnostics::default();
        for idx in 0..self.shared.elements.len() {
            if let Err(message) = self.enter(idx, |element, cx| element.finish(cx)) {
                let graph = &self.shared.graph;
                errors.push(graph.element_error("While finishing", idx, &[message]));
            }
        }
        self.worker.console.flush();
        errors.into_result(())
    }

    /// Packets that are neither held nor on their way nor put back: 0, or an element lost some.
    pub fn packets_unaccounted(&self) -> i64 {
        let held: usize = self.shared.elements.iter().map(|element| element.borrow().held()).sum();
        self.worker.pool.live() as i64 - (held + self.worker.waiting()) as i64
    }

    /// Where packets stand: the elements that hold some, and how many; and those between elements.
    pub fn standing(&self) -> Vec<(String, usize)> {
        let held = self.shared.elements.iter().map(|element| element.borrow().held());
        let names = self.shared.graph.elements.iter().map(|element| element.declaration());
        let waiting = ("connections, on their way".to_owned(), self.worker.waiting());
        names.zip(held).chain([waiting]).filter(|(_, held)| *held > 0).collect()
    }

    /// The graph that runs.
    pub fn graph(&self) -> &FlatGraph {
        &self.shared.graph
    }

    /// What was counted about element `idx`.
    pub fn stats(&self, idx: usize) -> &Stats {
        &self.worker.stats[idx]
    }

    /// Why elements of the class of element `idx` drop packets, in the order of [`Stats::drops`].
    pub fn drop_reasons(&self, idx: usize) -> &'static [&'static str] {
        self.shared.classes[idx].drops
    }

    /// Packets that were allocated so far; a pool that grows no more has met its largest load.
    pub fn packets_made(&self) -> u64 {
        self.worker.pool.made() + self.team.as_ref().map_or(0, |team| team.packets_made())
    }

    /// Asks the run to stop.
    pub fn stop(&mut self) {
        self.worker.stops += 1;
    }

    /// Ends the run, whatever the configuration says.
    pub fn halt(&mut self) {
        self.worker.stops += 1;
        self.worker.halted = true;
    }

    /// Reads the handler `text`: `element.handler`, or one of the whole, a parameter behind a
    /// space.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn read(&mut self, text: &str) -> Result<String, HandlerError> {
        let (text, param) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        self.read_with(text, param.trim())
    }

    /// Reads the handler `text` with a parameter, which may be empty.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn read_with(&mut self, text: &str, param: &str) -> Result<String, HandlerError> {
        let (element, name) = handlers::find(&self.shared, None, text)?;
        let answer = handlers::read(&self.shared, &mut self.worker, element, name, param);
        self.deliver();
        answer
    }

    /// Writes `value` to the handler `text`, named as in [`Router::read`].
    ///
    /// # Errors
    /// Why it did not obey.
    pub fn write(&mut self, text: &str, value: &str) -> Result<String, HandlerError> {
        let (element, name) = handlers::find(&self.shared, None, text)?;
        let answer = handlers::write(&self.shared, &mut self.worker, element, name, value);
        self.deliver();
        answer
    }

    /// The handler `text`, named as in [`Router::read`].
    ///
    /// # Errors
    /// If there is no such handler.
    pub fn handler(&self, text: &str) -> Result<crate::handler::HandlerSpec, HandlerError> {
        let (element, name) = handlers::find(&self.shared, None, text)?;
        handlers::spec(&self.shared, &self.worker, element, name).map(|(spec, _)| spec)
    }
}
