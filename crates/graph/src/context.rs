//! What an element can do while it runs: hand packets on, ask for packets, be woken, tell.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use warpswitch_packet::{BATCH_LEN_MAX, Batch, Packet, Pool, PortSpec, RxPort, TxPort};

use crate::control::Endpoint;
use crate::element::{Element, ElementClass};
use crate::handler::{HandlerError, HandlerSpec};
use crate::language::args::Names;
use crate::language::{ElementPorts, FlatGraph, Flow, PortRef, Processing};
use crate::names::{NameTable, Seen};
use crate::router::Clock;
use crate::router::gso::Accepting;
use crate::router::trace::End;
use crate::router::watch::Readiness;
use crate::router::worker::{DROPS, Worker};
use crate::time::Time;
use crate::transport::{Transport, Wire};

/// What of a router never changes while it runs. All workers have the same.
pub(crate) struct Blueprint {
    pub(crate) graph: FlatGraph,
    pub(crate) ports: Vec<ElementPorts>,
    pub(crate) classes: Vec<&'static ElementClass>,
    pub(crate) flow: Flow,
    pub(crate) index: BTreeMap<String, usize>,
    pub(crate) names: NameTable,
    /// Where each push output leads, and where each pull input asks.
    pub(crate) targets: Vec<Vec<Option<PortRef>>>,
    pub(crate) origins: Vec<Vec<Option<PortRef>>>,
    /// Those that give no packets while a stop waits: sources, and who takes packets from queues
    /// to where a stop waits for them.
    pub(crate) rests: Vec<bool>,
    /// Those that accept packets with work left to the network card.
    pub(crate) accepts_gso: Accepting,
    /// Whether packets keep the order that they have in Click, see [`Registry::in_click_order`].
    ///
    /// [`Registry::in_click_order`]: crate::Registry::in_click_order
    pub(crate) keeps_click_order: bool,
    /// What the class table says, for the handler `classes`.
    pub(crate) class_names: Vec<&'static str>,
}

/// The blueprint, and the elements that a worker runs.
pub(crate) struct Shared {
    pub(crate) blueprint: Arc<Blueprint>,
    /// Borrowed while an element runs; one element runs others only by asking them for packets or
    /// through handlers.
    pub(crate) elements: Vec<RefCell<Box<dyn Element>>>,
}

impl Deref for Shared {
    type Target = Blueprint;

    fn deref(&self) -> &Blueprint {
        &self.blueprint
    }
}

/// What an element can do while it runs.
pub struct Context<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) worker: &'a mut Worker,
    pub(crate) element: usize,
}

/// Packets.
impl Context<'_> {
    /// Hands `packet` on through output `port`, delivered after the element returns. Packets of one
    /// port stay in order. A port that is not connected, which only an optional one is, drops it.
    #[inline]
    pub fn emit(&mut self, port: usize, packet: Packet) {
        match self.worker.emission(self.element, port) {
            Some(batch) => batch.push(packet),
            None => self.worker.drop_unconnected(self.element, packet),
        }
    }

    /// Hands all of `batch` on through output `port`; as [`Context::emit`].
    #[inline]
    pub fn emit_batch(&mut self, port: usize, mut batch: Batch) {
        if batch.is_empty() {
            return self.worker.pool.recycle_empty(batch);
        }
        if !self.has_output(port) {
            for packet in batch.drain() {
                self.worker.drop_unconnected(self.element, packet);
            }
            return self.worker.pool.recycle_empty(batch);
        }
        self.worker.emit_batch(self.element, port, batch);
    }

    /// Hands each packet of `batch` on through the output that `outputs` has for it, in order, or
    /// drops it if that is what [`drop_for`] gave. Cheaper than [`Context::emit`] for each.
    ///
    /// # Panics
    /// If there are not as many outputs as packets.
    pub fn emit_each(&mut self, batch: Batch, outputs: &[u32]) {
        if let Some((&main, others)) = outputs.split_first()
            && batch.len() == outputs.len()
            && main < DROPS
            // Seldom are these alike where others differ.
            && others.last().is_none_or(|&last| last == main)
            && others.get(others.len() / 2).is_none_or(|&middle| middle == main)
            // Compared to the end: a search that ends early is slower where all are alike.
            && others.iter().fold(true, |all, &output| all & (output == main))
        {
            return self.emit_batch(main as usize, batch);
        }
        self.worker.emit_each(self.element, batch, outputs);
    }

    /// Asks input `port`, which is a pull input, for up to `packets_max` packets, at most
    /// [`BATCH_LEN_MAX`]: who wants more asks again.
    pub fn pull(&mut self, port: usize, packets_max: usize) -> Batch {
        let packets_max = packets_max.min(BATCH_LEN_MAX);
        let origin = self.shared.origins[self.element].get(port).copied().flatten();
        let to = PortRef { element: self.element, port };
        let Some(PortRef { element, port }) = origin else { return self.worker.pool.batch() };
        let Ok(mut upstream) = self.shared.elements[element].try_borrow_mut() else {
            // A loop of pulls: the asked one is waiting for the answer to a question of its own.
            return self.worker.pool.batch();
        };
        let span = self.worker.begin_span();
        let mut cx = Context { shared: self.shared, worker: &mut *self.worker, element };
        let mut batch = upstream.pull(&mut cx, port, packets_max);
        self.worker.end_span(element, span);
        if !batch.is_empty() {
            batch = self.worker.trace_moved(Some(PortRef { element, port }), to, batch);
            self.worker.pulled += 1;
            if !self.shared.ports[element].inputs.contains(&Processing::Push) {
                // Of a queue, what came in has been counted.
                self.worker.count(element, &batch);
            }
            if !self.shared.ports[self.element].outputs.contains(&Processing::Pull) {
                // Nobody asks it: what it asks for is what comes in.
                self.worker.count(self.element, &batch);
            }
        }
        batch
    }

    /// Drops `packet` for reason number `reason` of its class.
    #[inline]
    pub fn drop_packet(&mut self, packet: Packet, reason: usize) {
        self.worker.stats[self.element].drops[reason] += 1;
        let packet = self.worker.trace_end(self.element, packet, End::Dropped(reason));
        self.worker.pool.recycle(packet);
    }

    /// Drops all of `batch` for reason number `reason` of its class.
    pub fn drop_batch(&mut self, batch: Batch, reason: usize) {
        self.worker.stats[self.element].drops[reason] += batch.len() as u64;
        let batch = self.worker.trace_batch(self.element, batch, End::Dropped(reason));
        self.worker.pool.recycle_batch(batch);
    }

    /// Hands `packet` on through output `port` if that is connected, and else drops it for reason
    /// number `reason`: what elements with an optional error output do.
    #[inline]
    pub fn emit_or_drop(&mut self, port: usize, packet: Packet, reason: usize) {
        if self.has_output(port) {
            self.emit(port, packet)
        } else {
            self.drop_packet(packet, reason)
        }
    }

    /// Takes back a packet that did what it came for: not a drop. For sinks.
    pub fn consume(&mut self, packet: Packet) {
        let packet = self.worker.trace_end(self.element, packet, End::Consumed);
        self.worker.pool.recycle(packet);
    }

    /// Takes back a batch that did what it came for: not a drop. For sinks.
    pub fn consume_batch(&mut self, batch: Batch) {
        let batch = self.worker.trace_batch(self.element, batch, End::Consumed);
        self.worker.pool.recycle_batch(batch);
    }

    /// Where packets and batches come from.
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.worker.pool
    }

    /// Keeps in `batch` what `fate` says goes on; see [`Fate`] for the rest.
    ///
    /// Cost: one pass; no packet moves before the first that does not go on.
    #[inline]
    pub fn sort(
        &mut self,
        batch: &mut Batch,
        mut fate: impl FnMut(&mut Self, &mut Packet) -> Fate,
    ) {
        let mut stray = None;
        for (idx, packet) in batch.iter_mut().enumerate() {
            match fate(self, packet) {
                Fate::Pass => {}
                other => {
                    stray = Some((idx, other));
                    break;
                }
            }
        }
        let Some((first, its_fate)) = stray else { return };
        let mut rest = self.worker.pool.batch();
        rest.extend(batch.drain_from(first));
        let mut rest_packets = rest.drain();
        if let Some(packet) = rest_packets.next() {
            self.send(packet, its_fate);
        }
        for mut packet in rest_packets {
            match fate(self, &mut packet) {
                Fate::Pass => batch.push(packet),
                other => self.send(packet, other),
            }
        }
        self.worker.pool.recycle_empty(rest);
    }

    /// Does with a packet what was decided; one that passes has no place here.
    #[inline]
    fn send(&mut self, packet: Packet, fate: Fate) {
        match fate {
            Fate::Emit(port) => self.emit(port, packet),
            Fate::EmitOrDrop(port, reason) => self.emit_or_drop(port, packet, reason),
            Fate::Drop(reason) => self.drop_packet(packet, reason),
            Fate::Pass | Fate::Consume => self.consume(packet),
        }
    }
}

/// What stands for a drop for reason number `reason`, below 16, among the outputs of
/// [`Context::emit_each`].
pub const fn drop_for(reason: u32) -> u32 {
    u32::MAX - reason
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Pass,
    /// It leaves through this output.
    Emit(usize),
    /// It leaves through this output, or is dropped for this reason if that is not connected.
    EmitOrDrop(usize, usize),
    /// It is dropped, for this reason.
    Drop(usize),
    /// It did what it came for.
    Consume,
}

/// Ports and neighbours.
impl Context<'_> {
    /// Index of the element.
    pub fn element(&self) -> usize {
        self.element
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.graph.elements[self.element].name
    }

    /// The element as messages name it: `name :: Class`.
    pub fn declaration(&self) -> String {
        self.shared.graph.elements[self.element].declaration()
    }

    /// Number of its inputs.
    pub fn inputs(&self) -> usize {
        self.shared.ports[self.element].inputs.len()
    }

    /// Number of its outputs.
    pub fn outputs(&self) -> usize {
        self.shared.ports[self.element].outputs.len()
    }

    /// Whether it has output `port`.
    #[inline]
    pub fn has_output(&self, port: usize) -> bool {
        port < self.shared.targets[self.element].len()
    }

    /// Whether input `port` is a pull input: the element asks, and is not pushed to.
    pub fn input_is_pull(&self, port: usize) -> bool {
        self.shared.ports[self.element].inputs.get(port) == Some(&Processing::Pull)
    }

    /// Whether output `port` is a push output.
    pub fn output_is_push(&self, port: usize) -> bool {
        self.shared.ports[self.element].outputs.get(port) == Some(&Processing::Push)
    }

    /// Whether it, and all that pull from it, accept packets with work left to the network card:
    /// others get completed ones.
    pub fn accepts_gso(&self) -> bool {
        self.shared.accepts_gso.contains(self.element)
    }

    /// Ports of element `element`: push or pull.
    pub fn ports_of(&self, element: usize) -> &ElementPorts {
        &self.shared.ports[element]
    }

    /// Whether sources deliver one packet at a time by default, as Click's do.
    pub fn keeps_click_order(&self) -> bool {
        self.shared.keeps_click_order
    }

    /// Searches of the graph. Not for the data path: searches allocate.
    pub fn flow(&self) -> &Flow {
        &self.shared.flow
    }

    /// The class of an element.
    pub fn class_of(&self, element: usize) -> &'static ElementClass {
        self.shared.classes[element]
    }

    /// The graph.
    pub fn graph(&self) -> &FlatGraph {
        &self.shared.graph
    }

    /// Names as this element sees them.
    pub fn names(&self) -> impl Names + '_ {
        let Blueprint { names, graph, index, .. } = &**self.shared;
        Seen { table: names, graph, index, element: self.element }
    }

    /// Asks element `element`, given that it is a `T` and is not at work itself.
    ///
    /// Threads: whom an element asks while it is initialized is run by the same worker as the
    /// element from then on. Others may be out of reach while several workers run.
    pub fn with_element<T: Element, R>(
        &mut self,
        element: usize,
        ask: impl FnOnce(&mut T, &mut Context<'_>) -> R,
    ) -> Option<R> {
        self.worker.acquaint(self.element, element);
        let mut other = self.shared.elements.get(element)?.try_borrow_mut().ok()?;
        let mut cx = Context { shared: self.shared, worker: &mut *self.worker, element };
        other.downcast_mut::<T>().map(|other| ask(other, &mut cx))
    }
}

/// Time, tasks and timers.
impl Context<'_> {
    /// The time, as of when the task, timer or delivery began.
    #[inline]
    pub fn now(&self) -> Time {
        self.worker.now
    }

    /// The time right now, for whoever measures what goes on within a task: read from the clock,
    /// which costs some 25 ns. Simulated time stands still meanwhile, and is [`Self::now`].
    pub fn read_clock(&self) -> Time {
        self.worker.clock.as_ref().map_or(self.worker.now, |clock| clock())
    }

    /// The clock that [`Self::read_clock`] reads, for code below the element that measures itself;
    /// none if time is simulated.
    pub fn clock(&self) -> Option<Clock> {
        self.worker.clock.clone()
    }

    /// Schedules the element's task, if it is not.
    pub fn schedule_task(&mut self) {
        self.worker.schedule_task(self.element);
    }

    /// Unschedules the element's task.
    pub fn unschedule_task(&mut self) {
        self.worker.unschedule_task(self.element);
    }

    /// Schedules the element's task when `fd` is ready, or earlier, once: for ports that are empty
    /// or full. A busy worker schedules it with its next tasks, an idle one polls `fd`.
    pub fn watch(&mut self, fd: Arc<OwnedFd>, readiness: Readiness) {
        self.worker.watch(self.element, fd, readiness);
    }

    /// Whether the element's task is scheduled.
    pub fn task_is_scheduled(&self) -> bool {
        self.worker.task_is_scheduled(self.element)
    }

    /// Runs timer `timer` of the element at `at` or as soon after as can be, once. An earlier
    /// setting of this timer no longer holds.
    pub fn set_timer(&mut self, timer: usize, at: Time) {
        self.worker.set_timer(self.element, timer, at);
    }

    /// Clears timer `timer`.
    pub fn clear_timer(&mut self, timer: usize) {
        self.worker.clear_timer(self.element, timer);
    }

    /// Asks to be woken, its task scheduled, by those upstream of input `port` that hold packets.
    /// Tells whether there are such on every way: if not, the element must keep asking.
    ///
    /// Whoever holds packets calls [`Context::wake`] when its first one comes. Elements on the way
    /// may call it too: one that keeps packets back for a time, when that is over.
    pub fn listen_upstream(&mut self, port: usize) -> bool {
        let (classes, element) = (&self.shared.classes, self.element);
        let (mut ends, mut between) = (Vec::new(), Vec::new());
        let flow = &self.shared.flow;
        flow.upstream(element, Some(port), |visit| {
            let output = visit.at;
            let class = classes[output.element];
            // A pull output whose element is pushed to holds packets in between, unless the output
            // is what its input is.
            let outputs = class.spec.processing.split_once('/').map_or("a", |(_, outputs)| outputs);
            let code = outputs.chars().nth(output.port).or(outputs.chars().last());
            let is_pushed = self.shared.ports[output.element].inputs.contains(&Processing::Push);
            let holds = is_pushed && code != Some('a');
            let is_source = self.is_source(output.element);
            if holds || is_source {
                let wakes = class.wakes || holds && class.spec.processing.contains("h/l");
                ends.push((output.element, wakes));
            } else {
                between.push(output.element);
            }
            holds || is_source
        });
        let all = ends.iter().all(|(_, wakes)| *wakes);
        for holder in ends.into_iter().map(|(holder, _)| holder).chain(between) {
            self.worker.listen(holder, element);
        }
        all
    }

    /// Whether packets may begin at `element`: its class has no inputs. One that could have some
    /// and has none never gives a packet.
    fn is_source(&self, element: usize) -> bool {
        let inputs = &self.shared.ports[element].inputs;
        inputs.is_empty() && !self.shared.classes[element].spec.port_count.starts_with('-')
    }

    /// Whether those upstream of pull input `port` that may hold packets all have none, and call
    /// [`Context::wake`] when they do. Not for the data path: it searches the graph.
    pub fn is_quiet_upstream(&self, port: usize) -> bool {
        let shared = self.shared;
        let mut is_quiet = true;
        shared.flow.upstream(self.element, Some(port), |visit| {
            let idx = visit.at.element;
            let Ok(element) = shared.elements[idx].try_borrow() else { return false };
            if let Some(answer) = element.is_quiet() {
                is_quiet &= answer;
                return true;
            }
            let is_pushed = shared.ports[idx].inputs.contains(&Processing::Push);
            let may_hold = is_pushed || self.is_source(idx);
            let is_end = may_hold || element.held() > 0;
            is_quiet &= !is_end;
            is_end
        });
        is_quiet
    }

    /// Asks to be woken, its task scheduled, when one of those that packets of output `port` get to
    /// first has room again; gives them, for [`Context::are_full`]. None if packets may get to some
    /// that do not tell: these are never full.
    pub fn listen_downstream(&mut self, port: usize) -> Vec<usize> {
        let (classes, element) = (&self.shared.classes, self.element);
        let (mut ends, mut all_tell) = (Vec::new(), true);
        self.shared.flow.downstream(element, Some(port), |visit| {
            let input = visit.at.element;
            if classes[input].signals_full {
                ends.push(input);
                return true;
            }
            let ports = &self.shared.ports[input];
            // Packets come to rest here, or end here.
            let is_end = ports.outputs.is_empty() || ports.outputs.contains(&Processing::Pull);
            all_tell &= !is_end;
            is_end
        });
        if !all_tell {
            return Vec::new();
        }
        for &holder in &ends {
            self.worker.listen_for_room(holder, element);
        }
        ends
    }

    /// Whether all of `holders`, which [`Context::listen_downstream`] gave, are full; false for
    /// none.
    #[inline]
    pub fn are_full(&self, holders: &[usize]) -> bool {
        !holders.is_empty() && holders.iter().all(|&holder| self.worker.is_full(holder))
    }

    /// As [`Context::listen_downstream`], for sources that receive from live interfaces. Queues are
    /// no reason for them to pause, as these may drop what an interface would; only classes with
    /// [`ElementClass::pauses_interfaces`](crate::ElementClass::pauses_interfaces) are.
    pub fn listen_downstream_live(&mut self, port: usize) -> Vec<usize> {
        let (classes, element) = (&self.shared.classes, self.element);
        let mut holders = Vec::new();
        self.shared.flow.downstream(element, Some(port), |visit| {
            let input = visit.at.element;
            if classes[input].pauses_interfaces {
                holders.push(input);
            }
            self.shared.ports[input].outputs.contains(&Processing::Pull)
        });
        for &holder in &holders {
            self.worker.listen_for_room(holder, element);
        }
        holders
    }

    /// Whether one of `holders`, which [`Context::listen_downstream_live`] returned, is full.
    #[inline]
    pub fn is_any_full(&self, holders: &[usize]) -> bool {
        holders.iter().any(|&holder| self.worker.is_full(holder))
    }

    /// Tells whether the element takes packets: those that wait for room are woken when it does
    /// again.
    #[inline]
    pub fn set_full(&mut self, is_full: bool) {
        self.worker.set_full(self.element, is_full);
    }

    /// Schedules the tasks of those that listen: there are packets now.
    #[inline]
    pub fn wake(&mut self) {
        self.worker.wake(self.element);
    }

    /// Asks the run to stop.
    pub fn stop_driver(&mut self) {
        self.worker.stops += 1;
    }

    /// Has a stop that was asked for, or will be, wait until this element calls
    /// [`Context::release_stop`]: for those that packets are under way in, which would have left
    /// the graph by now had they not been held up. Tasks of sources rest meanwhile; an interrupted
    /// run does not wait.
    pub fn detain_stop(&mut self) {
        self.worker.detained += 1;
    }

    /// A stop need not wait for this element any more.
    pub fn release_stop(&mut self) {
        self.worker.detained -= 1;
    }

    /// Stops that were asked for and not yet answered.
    pub fn pending_stops(&self) -> u32 {
        self.worker.stops
    }

    /// Answers one stop.
    pub fn answer_stop(&mut self) {
        self.worker.stops = self.worker.stops.saturating_sub(1);
    }

    /// Makes this element the one that is asked whether a stop holds.
    pub fn manage_driver(&mut self) {
        self.worker.manager = Some(self.element);
    }

    /// Starts the sequences of all elements' random numbers anew, from `seed`.
    pub fn seed_random(&mut self, seed: u64) {
        self.worker.seed_random(seed);
    }

    /// A random number of the element's own sequence, which comes from the seed of the run and the
    /// element's name: what others draw changes nothing.
    pub fn random(&mut self) -> u32 {
        self.worker.randoms[self.element].draw()
    }
}

/// Handlers and messages.
impl Context<'_> {
    /// Reads handler `name` of `element`, none for the handlers of the whole.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn read_handler(
        &mut self,
        element: Option<usize>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        crate::router::handlers::read(self.shared, self.worker, element, name, param)
    }

    /// Writes handler `name` of `element`, none for the handlers of the whole.
    ///
    /// # Errors
    /// Why it did not obey.
    pub fn write_handler(
        &mut self,
        element: Option<usize>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        crate::router::handlers::write(self.shared, self.worker, element, name, value)
    }

    /// Writes `call`, `HANDLER [VALUE]`, as seen from this element; what goes wrong is said.
    ///
    /// Threads: while several workers run this happens as soon as they rest, after the element
    /// returned; else at once, or, if whom it calls is at work, as soon as no element is.
    pub fn call_handler(&mut self, call: &str) {
        if !self.worker.call_later(self.element, call) {
            crate::router::handlers::call(self.shared, self.worker, self.element, call);
        }
    }

    /// Runs `call` so that handlers of `element`, which is this very element, answer although it is
    /// at work: they see it, and what they change it has changed afterwards.
    ///
    /// Allocates: for what happens now and then.
    pub fn lend<E: Element + Default, T>(
        &mut self,
        element: &mut E,
        call: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.worker.lent.push((self.element, Some(Box::new(std::mem::take(element)))));
        let answer = call(self);
        let lent = self.worker.lent.pop().and_then(|(_, lent)| lent);
        let mut lent = lent.expect("it was lent, and handlers that ran within have ended");
        std::mem::swap(element, lent.downcast_mut().expect("it is what was lent"));
        answer
    }

    /// Which handler `text` means, as seen from this element: `element.handler`, `number.handler`
    /// counting from 1, or the handler of the whole.
    ///
    /// # Errors
    /// If there is no such element.
    pub fn find_handler<'t>(
        &self,
        text: &'t str,
    ) -> Result<(Option<usize>, &'t str), HandlerError> {
        crate::router::handlers::find(self.shared, Some(self.element), text)
    }

    /// What there is to know of handler `name` of `element`, none for the handlers of the whole.
    ///
    /// # Errors
    /// If there is no such handler.
    pub fn handler_spec(
        &self,
        element: Option<usize>,
        name: &str,
    ) -> Result<HandlerSpec, HandlerError> {
        if element.is_none() && name == "hotconfig" && self.worker.console.takes_configurations() {
            return Ok(HandlerSpec::write("hotconfig"));
        }
        crate::router::handlers::spec(self.shared, self.worker, element, name).map(|(spec, _)| spec)
    }

    /// The handlers that `element` has whatever its arguments are, none for those of the whole; of
    /// this very element those alone that every element has.
    pub fn handler_specs(&self, element: Option<usize>) -> Vec<HandlerSpec> {
        crate::router::handlers::specs(self.shared, self.worker, element)
    }

    /// What runs the configuration.
    pub fn console(&mut self) -> &mut dyn Console {
        &mut *self.worker.console
    }

    /// Says something to who runs the configuration: one line, on standard error as a rule.
    pub fn say(&mut self, line: &str) {
        self.worker.console.say(line);
    }

    /// Writes to standard output as a rule.
    pub fn print(&mut self, text: &[u8]) {
        self.worker.console.print(text);
    }
}

/// What runs a configuration, as the configuration sees it: where messages and output go, and what
/// can be had of the world outside.
pub trait Console {
    /// One line for who runs the configuration, without its newline.
    fn say(&mut self, line: &str);

    /// Output.
    fn print(&mut self, text: &[u8]);

    /// The device that work may be offloaded to; what that is, is between those who run the
    /// configuration and the elements that ask.
    fn device(&mut self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// Has as many threads do `work` as it pays for, this one among them, and ends when all have.
    fn do_by_many(&self, work: &(dyn Fn() + Sync)) {
        work();
    }

    /// Makes sure that all output is out.
    fn flush(&mut self) {}

    /// Whether elements may wait for who writes to a pipe: not where others are served meanwhile,
    /// but where time is simulated, as every run is to be the same.
    fn may_wait(&self) -> bool {
        true
    }

    /// Awaits control connections at `endpoint`; where that is, as handlers tell it: the number of
    /// the port, the path. Who asks again for the same endpoint takes it over.
    ///
    /// # Errors
    /// Why that cannot be.
    fn listen(&mut self, endpoint: &Endpoint) -> Result<String, String> {
        let _ = endpoint;
        Err("no control connections are served here".to_owned())
    }

    /// Opens a socket for packets, or goes on with the same one of the configuration before.
    ///
    /// # Errors
    /// Why that cannot be.
    fn open(&mut self, transport: &Transport) -> Result<Box<dyn Wire>, String> {
        let _ = transport;
        Err("no sockets are opened here".to_owned())
    }

    /// Opens a port that receives frames, or continues with that of the previous configuration.
    ///
    /// # Errors
    /// The reason, with the fix if it is known.
    fn open_rx(&mut self, spec: &PortSpec) -> Result<Box<dyn RxPort>, String> {
        let _ = spec;
        Err("no interfaces are opened here".to_owned())
    }

    /// Opens a port that sends frames; as [`Console::open_rx`].
    ///
    /// # Errors
    /// The reason, with the fix if it is known.
    fn open_tx(&mut self, spec: &PortSpec) -> Result<Box<dyn TxPort>, String> {
        let _ = spec;
        Err("no interfaces are opened here".to_owned())
    }

    /// Writes handler `handler` once when the process is sent the signal called `signal`, such as
    /// `USR1`.
    ///
    /// # Errors
    /// Why that cannot be.
    fn watch_signal(&mut self, signal: &str, handler: &str) -> Result<(), String> {
        let _ = (signal, handler);
        Err("no signals are watched here".to_owned())
    }

    /// Whether [`Console::reconfigure`] may be asked.
    fn takes_configurations(&self) -> bool {
        false
    }

    /// Has the configuration `text` run in place of this one as soon as no element is at work. What
    /// is wrong with it is said then, and this one goes on.
    ///
    /// # Errors
    /// Why that cannot be.
    fn reconfigure(&mut self, text: &str) -> Result<(), String> {
        let _ = text;
        Err("the configuration cannot be replaced".to_owned())
    }

    /// Lets time pass `factor` times as fast as real time from now on; a positive number.
    ///
    /// # Errors
    /// Why that cannot be.
    fn warp_time(&mut self, factor: f64) -> Result<(), String> {
        let _ = factor;
        Err("the time of this run is not real".to_owned())
    }

    /// Sends the signal called `signal` to process `process`.
    ///
    /// # Errors
    /// Why that cannot be.
    fn send_signal(&mut self, signal: &str, process: u32) -> Result<(), String> {
        let _ = (signal, process);
        Err("no signals are sent from here".to_owned())
    }
}
