//! Several workers on one router.
//!
//! ```text
//! worker 0    serve host, handlers ─► │ shift ................................ │ ─► serve host …
//! worker 1    (rests)        elements ▼ tasks, timers, what others hand over   ▲ elements, counts
//! ```
//! A router runs on worker 0 alone, as without others, except in *shifts*: for a shift each worker
//! gets the elements that [`plan`] gives it, with their tasks and timers, and gives them back at
//! its end. So handlers, a new configuration and the end of a run find all in one place and need no
//! locks, and the path of packets has none either: what crosses over is handed over, a batch at a
//! time. A shift ends when somebody wants to be served, a stop is asked for, an element has to be
//! alone, or all have come to rest.
//!
//! # Invariants
//! - S1: during a shift an element that is not copied is with one worker; between shifts all are
//!   with worker 0, and copies have been absorbed.
//! - S2: a worker with much waiting for others makes no new work: at most [`LOAD_MAX`] packets, and
//!   what one task makes, wait for each.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use warpswitch_packet::sync::{Bell, Handoff, Rested};
use warpswitch_packet::{Batch, Depot};

use super::plan::{self, Home};
use super::random::Random;
use super::watch::{self, Sleeper, Watch};
use super::worker::{Stats, Worker};
use super::{Clock, Host, Router, Workers};
use crate::context::{Blueprint, Console, Context, Shared};
use crate::element::{Element, Sharing};
use crate::language::PortRef;
use crate::time::Time;

/// Packets that may wait for a worker before others make no more.
pub(crate) const LOAD_MAX: usize = 1024;
/// Worker 0 asks its host this often whether somebody wants to be served.
pub(super) const LOOK: Duration = Duration::from_millis(1);
/// Bytes that are said or printed and count as much as one packet.
const BYTES_PER_LOAD: usize = 64;

/// What one worker tells another during a shift.
pub(crate) enum Message {
    /// Packets for an input.
    Packets(PortRef, Batch),
    /// The task of this element is to be scheduled.
    Task(usize),
    /// This element calls a handler.
    Call(usize, String),
    /// A line for who runs the configuration.
    Say(String),
    /// Output.
    Print(Vec<u8>),
}

/// What a worker knows of the others, during a shift.
#[derive(Clone)]
pub(crate) struct Link {
    worker: usize,
    homes: Arc<[Home]>,
    handoff: Arc<Handoff<Message>>,
    sleeper: Option<Arc<dyn Sleeper>>,
}

impl Link {
    /// Who gets what is meant for `element`, if that is not this worker.
    #[inline]
    pub(crate) fn elsewhere(&self, element: usize) -> Option<usize> {
        match self.homes[element] {
            Home::Worker(worker) if worker != self.worker => Some(worker),
            Home::Alone => Some(0),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn home(&self, element: usize) -> Home {
        self.homes[element]
    }

    /// Whether this is worker 0, who runs what must be alone, only later.
    pub(crate) fn is_worker_0(&self) -> bool {
        self.worker == 0
    }

    /// Whether something waits for this worker.
    fn has_mail(&self) -> bool {
        self.handoff.load(self.worker) > 0
    }

    pub(crate) fn send(&self, to: usize, message: Message) {
        let weight = match &message {
            Message::Packets(_, batch) => batch.len(),
            Message::Print(text) => 1 + text.len() / BYTES_PER_LOAD,
            _ => 1,
        };
        self.handoff.send(to, message, weight);
    }

    /// Whether another has too much waiting for it.
    #[inline]
    fn is_congested(&self) -> bool {
        (0..self.handoff.workers()).any(|to| to != self.worker && self.handoff.load(to) >= LOAD_MAX)
    }

    pub(crate) fn stop(&self) {
        self.handoff.stop();
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.handoff.is_stopped()
    }
}

/// The console of all workers but worker 0, who tells it all.
struct Relay(Arc<Handoff<Message>>);

impl Console for Relay {
    fn say(&mut self, line: &str) {
        self.0.send(0, Message::Say(line.to_owned()), 1 + line.len() / BYTES_PER_LOAD);
    }

    fn print(&mut self, text: &[u8]) {
        self.0.send(0, Message::Print(text.to_owned()), 1 + text.len() / BYTES_PER_LOAD);
    }
}

fn bell_of(sleeper: Arc<dyn Sleeper>) -> Bell {
    Box::new(move || sleeper.wake())
}

/// Stands where an element is that another worker runs.
struct Absent;

impl Element for Absent {}

fn absent() -> Box<dyn Element> {
    Box::new(Absent)
}

/// What a worker gets for a shift, and gives back.
struct Shift {
    clock: Clock,
    /// Those that are no copies come with where their random numbers come from.
    elements: Vec<(usize, Box<dyn Element>, Option<Random>)>,
    tasks: Vec<usize>,
    timers: Vec<(Time, usize, usize)>,
    /// Descriptors that its elements wait for; none at the start, when their tasks are scheduled.
    watches: Vec<Watch>,
    /// Who wakes whom, and who tells whom of room.
    listeners: [Vec<Vec<u32>>; 2],
    stats: Vec<Stats>,
    stops: u32,
    detained: i32,
    pulled: u64,
    /// Packets that were given out and not put back, and are with this worker now.
    live: u64,
    /// Packets that its pool made in all.
    made: u64,
}

/// A worker beside worker 0.
struct Mate {
    orders: Option<Sender<Shift>>,
    answers: Receiver<Shift>,
    thread: Option<JoinHandle<()>>,
    /// Packets that its pool made.
    made: u64,
}

/// The workers of a router.
pub(super) struct Team {
    homes: Arc<[Home]>,
    handoff: Arc<Handoff<Message>>,
    /// What worker 0 sleeps by.
    sleeper: Option<Arc<dyn Sleeper>>,
    mates: Vec<Mate>,
}

impl Team {
    /// Workers for `router`, if there is something for more than one to do.
    pub(super) fn new(router: &mut Router, workers: Workers) -> Option<Self> {
        let count = workers.count.clamp(1, plan::WORKERS_MAX);
        let homes: Arc<[Home]> = router.homes(workers).into();
        router.worker.homes = homes.clone();
        let is_elsewhere = |home: &Home| matches!(home, Home::Worker(worker) if *worker != 0);
        if !homes.iter().any(is_elsewhere) {
            return None;
        }
        let sleepers: Vec<_> = (0..count).map(|_| (workers.sleeper)()).collect();
        let bells = sleepers.iter().map(|sleeper| sleeper.clone().map(bell_of)).collect();
        let handoff = Arc::new(Handoff::with_bells(bells));
        let depot = Arc::new(Depot::default());
        router.worker.pool.use_depot(depot.clone());
        let mate = |worker| {
            let (orders, to_do) = channel();
            let (done, answers) = channel();
            let (homes, handoff) = (homes.clone(), handoff.clone());
            let link = Link { worker, homes, handoff, sleeper: sleepers[worker].clone() };
            let (blueprint, depot) = (router.shared.blueprint.clone(), depot.clone());
            let (seed, ticks) = (router.worker.seed_for(worker), router.worker.ticks);
            let is_full = router.worker.is_full.clone();
            let tracer = router.worker.tracer.clone();
            let run = move || {
                let console = Box::new(Relay(link.handoff.clone()));
                let mut own = Worker::new(&blueprint, console, seed);
                (own.ticks, own.is_full, own.tracer) = (ticks, is_full, tracer);
                own.pool.use_depot(depot);
                work(&mut Router::of(blueprint, own), &link, &to_do, &done);
            };
            let thread = Some((workers.start)(worker, Box::new(run)));
            Mate { orders: Some(orders), answers, thread, made: 0 }
        };
        let mates = (1..count).map(mate).collect();
        let sleeper = sleepers[0].clone();
        Some(Self { homes, handoff, sleeper, mates })
    }

    fn link(&self) -> Link {
        let (homes, handoff) = (self.homes.clone(), self.handoff.clone());
        Link { worker: 0, homes, handoff, sleeper: self.sleeper.clone() }
    }

    /// Packets that the pools of others than worker 0 made.
    pub(super) fn packets_made(&self) -> u64 {
        self.mates.iter().map(|mate| mate.made).sum()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        // Had worker 0 panicked in a shift, the others would go on with it for ever.
        self.handoff.stop();
        for mate in &mut self.mates {
            mate.orders = None;
        }
        for thread in self.mates.iter_mut().filter_map(|mate| mate.thread.take()) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                resume_unwind(panic);
            }
        }
    }
}

/// What a worker beside worker 0 does.
fn work(router: &mut Router, link: &Link, to_do: &Receiver<Shift>, done: &Sender<Shift>) {
    /// Wakes all if the worker panics: they would wait for it for ever.
    struct StopsAll<'a>(&'a Link);
    impl Drop for StopsAll<'_> {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    let _stops = StopsAll(link);
    while let Ok(shift) = to_do.recv() {
        let clock = shift.clock.clone();
        router.begin_shift(shift, link);
        while !link.is_stopped() {
            router.worker.look(clock());
            router.turn();
            router.rest();
        }
        if done.send(router.end_shift(clock, link)).is_err() {
            return;
        }
    }
}

impl Router {
    /// A router of a worker, which has no elements yet.
    fn of(blueprint: Arc<Blueprint>, worker: Worker) -> Self {
        let elements = (0..blueprint.classes.len()).map(|_| RefCell::new(absent())).collect();
        let shared = Shared { blueprint, elements };
        Self { shared, worker, workers: None, team: None }
    }

    /// Who runs which element, of so many workers.
    pub(super) fn homes(&self, workers: Workers) -> Vec<Home> {
        let count = workers.count.clamp(1, plan::WORKERS_MAX);
        plan::homes(&self.shared, count, &self.worker.friends)
    }

    /// Whether a worker beside worker 0 has something to do.
    pub(super) fn has_work_for_others(&mut self) -> bool {
        let Some(workers) = self.workers.filter(|_| self.worker.stops == 0) else { return false };
        if std::mem::take(&mut self.worker.has_changed)
            && self.team.as_ref().is_some_and(|team| *team.homes != *self.homes(workers))
        {
            // What was copied may belong to one worker now.
            self.team = None;
        }
        if self.team.is_none() {
            match Team::new(self, workers) {
                Some(team) => self.team = Some(Box::new(team)),
                None => self.workers = None,
            }
        }
        let Some(team) = &self.team else { return false };
        let is_others = |task| matches!(team.homes[task], Home::Worker(worker) if worker != 0);
        self.worker.any_task(is_others)
    }

    /// Runs with all workers until something needs all elements in one place.
    pub(super) fn run_shift(&mut self, host: &mut dyn Host, clock: &Clock) {
        let mut team = self.team.take().expect("there are others");
        team.handoff.begin();
        for worker in 1..team.handoff.workers() {
            let shift = self.share_for(worker, &team.homes, clock);
            let orders = team.mates[worker - 1].orders.as_ref().expect("the team is there");
            // Should the worker be gone, its answer is missed below.
            _ = orders.send(shift);
        }
        let link = team.link();
        self.worker.link = Some(team.link());
        while !link.is_stopped() {
            self.worker.look(host.now());
            self.turn();
            if host.wants_to_serve() || self.worker.stops > 0 || self.rest() == Rested::Quiet {
                break;
            }
        }
        link.stop();
        self.worker.link = None;
        for worker in 1..team.handoff.workers() {
            let mate = &mut team.mates[worker - 1];
            match mate.answers.recv() {
                Ok(shift) => {
                    mate.made = shift.made;
                    self.absorb(shift, &team.homes);
                }
                Err(_) => {
                    // It panicked, and so does the run.
                    let thread = mate.thread.take().expect("it was not joined");
                    let panic = thread.join().expect_err("a worker answers, or panicked");
                    resume_unwind(panic);
                }
            }
        }
        self.settle_messages(&team.handoff);
        self.team = Some(team);
    }

    /// What is still on its way between workers after a shift.
    fn settle_messages(&mut self, handoff: &Handoff<Message>) {
        for message in std::mem::take(&mut self.worker.aside) {
            self.accept(message);
        }
        let mut messages = Vec::new();
        for worker in 0..handoff.workers() {
            handoff.take(worker, &mut messages);
            for message in messages.drain(..) {
                self.accept(message);
            }
        }
    }

    /// What `worker` gets for a shift.
    fn share_for(&mut self, worker: usize, homes: &[Home], clock: &Clock) -> Shift {
        let (mut elements, mut live) = (Vec::new(), 0);
        for (idx, element) in self.shared.elements.iter().enumerate() {
            match homes[idx] {
                Home::Worker(home) if home == worker => {
                    live += element.borrow().held() as u64;
                    let random = self.worker.randoms[idx];
                    elements.push((idx, element.replace(absent()), Some(random)));
                }
                Home::Each => match element.borrow().sharing() {
                    Sharing::Copies(copy) => elements.push((idx, copy, None)),
                    _ => unreachable!("what can be copied stays so"),
                },
                _ => {}
            }
        }
        self.worker.pool.release(live);
        let is_there = |element: usize| homes[element] == Home::Worker(worker);
        Shift {
            clock: clock.clone(),
            elements,
            tasks: self.worker.take_tasks(is_there),
            timers: self.worker.take_timers(is_there),
            watches: Vec::new(),
            listeners: self.worker.listeners.clone(),
            stats: Vec::new(),
            stops: 0,
            detained: 0,
            pulled: 0,
            live,
            made: 0,
        }
    }

    /// Gets what was given for a shift.
    fn begin_shift(&mut self, shift: Shift, link: &Link) {
        for (idx, element, random) in shift.elements {
            self.shared.elements[idx].replace(element);
            if let Some(random) = random {
                self.worker.randoms[idx] = random;
            }
        }
        self.worker.now = (shift.clock)();
        self.worker.clock = Some(shift.clock);
        self.worker.pool.adopt(shift.live);
        self.worker.listeners = shift.listeners;
        shift.tasks.into_iter().for_each(|task| self.worker.schedule_task(task));
        for (at, element, timer) in shift.timers {
            self.worker.set_timer(element, timer, at);
        }
        self.worker.link = Some(link.clone());
    }

    /// Gives all back.
    fn end_shift(&mut self, clock: Clock, link: &Link) -> Shift {
        // Worker 0 goes on with what waits to be delivered.
        while let Some((target, batch)) = self.next_delivery() {
            self.worker.pool.release(batch.len() as u64);
            link.send(0, Message::Packets(target, batch));
        }
        let homes = link.homes.iter().enumerate();
        let own = homes.filter(|(_, home)| match home {
            Home::Worker(worker) => *worker == link.worker,
            home => **home == Home::Each,
        });
        let elements = own.map(|(idx, home)| {
            let random = (*home != Home::Each).then(|| self.worker.randoms[idx]);
            (idx, self.shared.elements[idx].replace(absent()), random)
        });
        let elements = elements.collect();
        self.worker.link = None;
        let live = self.worker.pool.live();
        self.worker.pool.release(live);
        Shift {
            clock,
            elements,
            tasks: self.worker.take_tasks(|_| true),
            timers: self.worker.take_timers(|_| true),
            watches: std::mem::take(&mut self.worker.watches),
            listeners: Default::default(),
            stats: self.worker.stats.iter_mut().map(Stats::take).collect(),
            stops: std::mem::take(&mut self.worker.stops),
            detained: std::mem::take(&mut self.worker.detained),
            pulled: std::mem::take(&mut self.worker.pulled),
            live,
            made: self.worker.pool.made(),
        }
    }

    /// Worker 0 gets back what another had.
    fn absorb(&mut self, shift: Shift, homes: &[Home]) {
        for (idx, mut element, random) in shift.elements {
            if let Some(random) = random {
                self.worker.randoms[idx] = random;
            }
            match homes[idx] {
                Home::Each => self.shared.elements[idx].borrow_mut().absorb(&mut *element),
                _ => drop(self.shared.elements[idx].replace(element)),
            }
        }
        for (own, more) in self.worker.stats.iter_mut().zip(&shift.stats) {
            own.add(more);
        }
        self.worker.stops += shift.stops;
        self.worker.detained += shift.detained;
        self.worker.pulled += shift.pulled;
        self.worker.pool.adopt(shift.live);
        shift.tasks.into_iter().for_each(|task| self.worker.schedule_task(task));
        self.worker.watches.extend(shift.watches);
        for (at, element, timer) in shift.timers {
            self.worker.set_timer(element, timer, at);
        }
    }

    /// One turn of a worker: what came from others, timers that are due, some tasks.
    fn turn(&mut self) {
        self.worker.wake_watchers();
        self.receive();
        self.run_timers();
        match &self.worker.link {
            Some(link) if link.is_congested() => {
                if !link.has_mail() {
                    // Others have to catch up; they may share this worker's core.
                    std::thread::yield_now();
                }
            }
            _ => _ = self.run_tasks(),
        }
        if self.worker.stops > 0
            && let Some(link) = &self.worker.link
        {
            link.stop();
        }
    }

    /// Rests if there is nothing to do.
    fn rest(&mut self) -> Rested {
        if self.worker.has_work() || self.worker.spins() {
            return Rested::Woken;
        }
        let timer = self.worker.next_timer_at().map(|at| at - self.worker.now);
        let Some(link) = &self.worker.link else { return Rested::Woken };
        // The host can be asked by worker 0 alone, however long others are at work.
        let look = link.is_worker_0().then_some(LOOK);
        let timeout = timer.into_iter().chain(look).min();
        let watches = &self.worker.watches;
        match &link.sleeper {
            _ if watches.is_empty() => link.handoff.rest(link.worker, timeout),
            Some(sleeper) => {
                link.handoff.rest_until_rung(link.worker, || sleeper.sleep(watches, timeout))
            }
            None => {
                let timeout = timeout.map_or(watch::REST, |timeout| timeout.min(watch::REST));
                link.handoff.rest(link.worker, Some(timeout))
            }
        }
    }

    /// Takes what others sent.
    fn receive(&mut self) {
        let Some(link) = &self.worker.link else { return };
        let mut messages = std::mem::take(&mut self.worker.mail);
        link.handoff.take(link.worker, &mut messages);
        for message in messages.drain(..) {
            self.accept(message);
        }
        self.worker.mail = messages;
    }

    fn accept(&mut self, message: Message) {
        match message {
            Message::Packets(to, batch) => {
                if self.worker.must_wait(to.element) {
                    return self.worker.put_aside(Message::Packets(to, batch));
                }
                self.worker.pool.adopt(batch.len() as u64);
                self.worker.read_ticks();
                self.push_to(to.element, to.port, batch);
                self.deliver_now();
            }
            Message::Task(element) => self.worker.schedule_task(element),
            Message::Call(element, call) => {
                if self.worker.link.is_some() {
                    return self.worker.put_aside(Message::Call(element, call));
                }
                let mut cx = Context { shared: &self.shared, worker: &mut self.worker, element };
                cx.call_handler(&call);
                self.deliver();
            }
            Message::Say(line) => self.worker.console.say(&line),
            Message::Print(text) => self.worker.console.print(&text),
        }
    }
}
