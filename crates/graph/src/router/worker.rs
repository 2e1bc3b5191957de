//! The state of a run: what waits to be delivered, tasks, timers, counts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpswitch_packet::{Batch, Packet, Pool};

use super::plan::Home;
use super::random::Random;
use super::team::{LOOK, Link, Message};
use super::trace::{CROWDED, End, Tracer, UNCONNECTED};
use super::watch::{Spin, Watch};
use super::{Clock, TASKS_PER_LOOK};
use crate::context::{Blueprint, Console};
use crate::element::Element;
use crate::language::PortRef;
use crate::time::Time;

/// What was counted about an element.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Batches that came in, by being pushed or asked for; or that went out, of sources and of
    /// elements that are asked themselves.
    pub batches: u64,
    /// Packets in them.
    pub packets: u64,
    /// Bytes of these packets; counted with a clock for costs only, as every packet is looked at.
    pub bytes: u64,
    /// Nanoseconds of the clock for costs that were spent in the element itself, not in those that
    /// it asked for packets.
    pub own_ns: u64,
    /// Packets that were dropped, by reason.
    pub drops: Vec<u64>,
    /// Packets that were emitted to an output that is not connected.
    pub unconnected: u64,
    /// Packets that were emitted when very many waited to be delivered: in a loop, say.
    pub crowded: u64,
}

/// Packets that may wait to be delivered, of one worker; 128 MiB of them. A task makes 256.
const UNDER_WAY_MAX: usize = 1 << 16;

impl Stats {
    /// Drops for reasons that no class has, beside those of [`Stats::drops`].
    pub fn common_drops(&self) -> [(&'static str, u64); 2] {
        [(UNCONNECTED, self.unconnected), (CROWDED, self.crowded)]
    }

    /// Adds what another worker counted.
    pub(crate) fn add(&mut self, more: &Stats) {
        self.batches += more.batches;
        self.packets += more.packets;
        self.bytes += more.bytes;
        self.own_ns += more.own_ns;
        self.unconnected += more.unconnected;
        self.crowded += more.crowded;
        for (own, more) in self.drops.iter_mut().zip(&more.drops) {
            *own += more;
        }
    }

    /// Counts a packet whose output stands for a reason, or is none.
    #[inline]
    fn drop_for(&mut self, port: u32) {
        match self.drops.get_mut((u32::MAX - port) as usize) {
            Some(drops) if port >= DROPS => *drops += 1,
            _ => self.unconnected += 1,
        }
    }

    /// What was counted, which is 0 from now on.
    pub(crate) fn take(&mut self) -> Stats {
        let zero = Stats { drops: vec![0; self.drops.len()], ..Stats::default() };
        std::mem::replace(self, zero)
    }
}

/// Outputs from here on stand for reasons of drops.
pub(crate) const DROPS: u32 = u32::MAX - 15;

/// When an element began to work, and what those that another one asked had cost until then.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    start: u64,
    asked_ns: u64,
}

/// A push output, or another one, through which nothing is emitted.
#[derive(Clone, Copy)]
struct Output {
    element: usize,
    target: Option<PortRef>,
    /// Whether its element has no inputs: what it emits is counted, as nothing comes in.
    is_source: bool,
}

/// A batch on its way.
pub(super) struct Delivery {
    pub(super) slot: u32,
    /// Packets of the batch.
    packets: u32,
    pub(super) batch: Batch,
}

/// One setting of a timer: when, which setting, whose, which.
type Setting = Reverse<(Time, u64, u32, u32)>;

pub(crate) struct Worker {
    pub(crate) pool: Pool,
    pub(crate) now: Time,
    /// Tasks that run before the next look at the clock.
    pub(crate) tasks_per_look: usize,
    /// What `now` was read from, if it can be read at any time.
    pub(crate) clock: Option<Clock>,
    pub(crate) stats: Vec<Stats>,
    pub(crate) stops: u32,
    /// Elements that have a stop wait for them, see [`crate::Context::detain_stop`]; of a worker in
    /// a shift, how many more than before.
    pub(crate) detained: i32,
    /// Whether the run is to stop whatever the configuration says.
    pub(crate) halted: bool,
    pub(crate) manager: Option<usize>,
    pub(crate) console: Box<dyn Console>,
    /// Elements at work that handlers may reach all the same, the last one that was lent last; none
    /// while a handler of it runs.
    pub(crate) lent: Vec<(usize, Option<Box<dyn Element>>)>,
    /// Arguments that elements were given since they were configured first.
    pub(crate) configs: BTreeMap<usize, String>,
    /// Who calls which handler once no element is at work.
    pub(crate) later: Vec<(usize, String)>,
    /// Who runs which element, once several workers were asked for.
    pub(crate) homes: Arc<[Home]>,
    /// How much faster than real time the run's time passes.
    pub(crate) timewarp: f64,
    /// Follows some packets, if that was asked for.
    pub(crate) tracer: Option<Box<Tracer>>,
    /// Reads a fast clock, in nanoseconds, for counts.
    pub(crate) ticks: Option<fn() -> u64>,
    /// What those cost that the element at work asked, so far.
    asked_ns: u64,
    /// What the clock for counts said when the last element ended its work.
    ended_at: u64,
    /// All outputs, element by element.
    outputs: Vec<Output>,
    /// What waits at each of them since the last delivery. Each has room for a whole batch from the
    /// start, 2 KB an output, as nothing may be allocated later.
    slots: Vec<Batch>,
    /// Where each element's outputs begin in `slots`.
    slot_base: Vec<u32>,
    /// The slots that have something, in the order in which it came; some more than once.
    filled: Vec<u32>,
    /// What is to be delivered, the next one last.
    stack: Vec<Delivery>,
    /// Packets in it.
    under_way: usize,
    tasks: VecDeque<u32>,
    is_scheduled: Vec<bool>,
    timers: BinaryHeap<Setting>,
    /// The setting of each element's timers that holds.
    timer_of: Vec<Vec<Option<u64>>>,
    settings: u64,
    /// Tasks that each element wakes, and those that it wakes when it has room again.
    pub(crate) listeners: [Vec<Vec<u32>>; 2],
    /// Which elements take no packets; all workers see it.
    pub(crate) is_full: Arc<[AtomicBool]>,
    /// Elements that asked each other before the run began.
    pub(crate) friends: Vec<(usize, usize)>,
    /// The other workers, during a shift.
    pub(crate) link: Option<Link>,
    /// What other workers sent; empty but for its room.
    pub(crate) mail: Vec<Message>,
    /// What has to wait for the end of the shift.
    pub(crate) aside: Vec<Message>,
    /// Descriptors that elements wait for, see [`super::watch`].
    pub(crate) watches: Vec<Watch>,
    /// Whether it spins while it waits for ports.
    pub(super) spin: Spin,
    /// Whether the run has begun.
    pub(crate) runs: bool,
    /// Whether handlers changed elements since workers were given theirs.
    pub(crate) has_changed: bool,
    /// Pulls that gave packets, so far.
    pub(crate) pulled: u64,
    /// Where the random numbers of each element come from.
    pub(crate) randoms: Vec<Random>,
    seed: u64,
    /// Whether an element gave the seed.
    pub(crate) was_seeded: bool,
    /// Whether it was reported that packets are segmented.
    pub(super) has_segmented: bool,
}

impl Worker {
    /// A worker for the elements of a blueprint.
    pub(crate) fn new(blueprint: &Blueprint, console: Box<dyn Console>, seed: u64) -> Self {
        let elements = blueprint.classes.len();
        let mut slot_base = Vec::with_capacity(elements + 1);
        let mut outputs = Vec::new();
        for (element, targets) in blueprint.targets.iter().enumerate() {
            slot_base.push(outputs.len() as u32);
            let is_source = blueprint.ports[element].inputs.is_empty();
            outputs.extend(targets.iter().map(|&target| Output { element, target, is_source }));
        }
        slot_base.push(outputs.len() as u32);
        let mut pool = Pool::new();
        let reasons = blueprint.classes.iter().map(|class| class.drops.len());
        let stats = reasons.map(|reasons| Stats { drops: vec![0; reasons], ..Stats::default() });
        let names = blueprint.graph.elements.iter();
        Self {
            slots: outputs.iter().map(|_| pool.batch()).collect(),
            pool,
            now: Time::default(),
            tasks_per_look: TASKS_PER_LOOK,
            clock: None,
            stats: stats.collect(),
            stops: 0,
            detained: 0,
            halted: false,
            manager: None,
            console,
            lent: Vec::new(),
            configs: BTreeMap::new(),
            later: Vec::new(),
            homes: Arc::new([]),
            timewarp: 1.0,
            tracer: None,
            ticks: None,
            asked_ns: 0,
            ended_at: 0,
            filled: Vec::with_capacity(2 * outputs.len()),
            outputs,
            slot_base,
            stack: Vec::with_capacity(64),
            under_way: 0,
            tasks: VecDeque::with_capacity(elements),
            is_scheduled: vec![false; elements],
            timers: BinaryHeap::with_capacity(64),
            timer_of: vec![Vec::new(); elements],
            settings: 0,
            listeners: [vec![Vec::new(); elements], vec![Vec::new(); elements]],
            is_full: (0..elements).map(|_| AtomicBool::new(false)).collect(),
            friends: Vec::new(),
            link: None,
            mail: Vec::new(),
            aside: Vec::new(),
            watches: Vec::new(),
            spin: Spin::default(),
            runs: false,
            has_changed: false,
            pulled: 0,
            randoms: names.map(|element| Random::new(seed, &element.name)).collect(),
            seed,
            was_seeded: false,
            has_segmented: false,
        }
    }

    /// Looks at the clock, which says `now`, and says how many tasks run before the next look.
    pub(crate) fn look(&mut self, now: Time) {
        let gone = now - std::mem::replace(&mut self.now, now);
        self.tasks_per_look = tasks_after(self.tasks_per_look, gone);
    }

    /// Whether a shift is on, and somebody asked all workers to end it.
    #[inline]
    pub(crate) fn is_shift_over(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_stopped)
    }

    /// Whether a stop was asked for, and nobody has it wait.
    pub(crate) fn may_stop(&self) -> bool {
        self.stops > 0 && (self.detained <= 0 || self.halted)
    }

    /// The batch that waits at an output; none if there is no such output.
    #[inline]
    pub(crate) fn emission(&mut self, element: usize, port: usize) -> Option<&mut Batch> {
        let base = self.slot_base[element] as usize;
        if port >= self.slot_base[element + 1] as usize - base {
            return None;
        }
        let batch = &mut self.slots[base + port];
        if batch.is_empty() {
            self.filled.push((base + port) as u32);
        }
        Some(batch)
    }

    /// Nobody plays frames any more that packets borrowed before.
    pub(crate) fn forget_lenders(&mut self) {
        self.pool.forget_lenders();
        self.slots.iter_mut().for_each(Batch::forget_lender);
    }

    /// Lets `batch` wait at an output, which there is.
    #[inline]
    pub(crate) fn emit_batch(&mut self, element: usize, port: usize, mut batch: Batch) {
        let slot = self.slot_base[element] as usize + port;
        let waiting = &mut self.slots[slot];
        if waiting.is_empty() {
            std::mem::swap(waiting, &mut batch);
            self.filled.push(slot as u32);
        } else {
            waiting.append(&mut batch);
        }
        self.pool.recycle_empty(batch);
    }

    /// Lets each packet of `batch` wait at the output that `outputs` has for it; an output from
    /// [`DROPS`] on stands for the reason why it is dropped.
    ///
    /// # Panics
    /// If there are not as many outputs as packets.
    pub(crate) fn emit_each(&mut self, element: usize, mut batch: Batch, outputs: &[u32]) {
        let base = self.slot_base[element];
        let slots = &mut self.slots[base as usize..self.slot_base[element + 1] as usize];
        // Those that have nothing are written down before, and struck out if that stays so.
        let before = self.filled.len();
        self.filled
            .extend((base..).zip(&*slots).filter(|slot| slot.1.is_empty()).map(|slot| slot.0));
        batch.deal(outputs, slots);
        let mut kept = before;
        for at in before..self.filled.len() {
            let slot = self.filled[at];
            self.filled[kept] = slot;
            kept += usize::from(!self.slots[slot as usize].is_empty());
        }
        self.filled.truncate(kept);
        if !batch.is_empty() {
            let ports = self.slot_base[element + 1] - base;
            let stats = &mut self.stats[element];
            outputs.iter().filter(|&&port| port >= ports).for_each(|&port| stats.drop_for(port));
            batch = self.trace_left(element, batch, outputs, ports);
        }
        self.pool.recycle_batch(batch);
    }

    #[cold]
    pub(crate) fn drop_unconnected(&mut self, element: usize, packet: Packet) {
        self.stats[element].unconnected += 1;
        let packet = self.trace_end(element, packet, End::For(UNCONNECTED));
        self.pool.recycle(packet);
    }

    /// Moves what was emitted to what is to be delivered, the first output to be delivered first.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if !self.filled.is_empty() {
            self.settle_filled();
        }
    }

    fn settle_filled(&mut self) {
        while let Some(slot) = self.filled.pop() {
            let waiting = &mut self.slots[slot as usize];
            let packets = waiting.len();
            if packets == 0 {
                continue;
            }
            let mut batch = std::mem::replace(waiting, self.pool.batch());
            let Output { element, is_source, .. } = self.outputs[slot as usize];
            if is_source {
                self.count(element, &batch);
            }
            if self.tracer.is_some() {
                batch = self.trace_slot(slot, batch);
            }
            if self.under_way >= UNDER_WAY_MAX {
                self.drop_crowded(element, batch);
                continue;
            }
            self.under_way += packets;
            // Packets take two lines each: more do not fit in memory.
            self.stack.push(Delivery { slot, packets: packets as u32, batch });
        }
    }

    /// Notes whose way `batch` is on, which was emitted at an output.
    #[cold]
    #[inline(never)]
    fn trace_slot(&mut self, slot: u32, batch: Batch) -> Batch {
        let Output { element, target, .. } = self.outputs[slot as usize];
        let Some(target) = target else { return batch };
        let port = (slot - self.slot_base[element]) as usize;
        self.trace_moved(Some(PortRef { element, port }), target, batch)
    }

    #[cold]
    fn drop_crowded(&mut self, element: usize, batch: Batch) {
        let batch = self.trace_batch(element, batch, End::For(CROWDED));
        self.stats[element].crowded += batch.len() as u64;
        self.pool.recycle_batch(batch);
    }

    /// What is to be delivered next, and to which input.
    #[inline]
    pub(super) fn next_delivery(&mut self) -> Option<(Delivery, PortRef)> {
        let delivery = self.stack.pop()?;
        self.under_way -= delivery.packets as usize;
        let target = self.outputs[delivery.slot as usize].target;
        Some((delivery, target.expect("push outputs are connected, or are no ports")))
    }

    /// Delivers it next.
    pub(super) fn deliver_next(&mut self, slot: u32, batch: Batch) {
        let packets = batch.len() as u32;
        self.under_way += packets as usize;
        self.stack.push(Delivery { slot, packets, batch });
    }

    /// Whether something waits to be delivered.
    #[inline]
    pub(crate) fn has_deliveries(&self) -> bool {
        !self.stack.is_empty()
    }

    /// Whether there is something to do at once.
    pub(crate) fn has_work(&self) -> bool {
        self.has_deliveries() || self.has_tasks()
    }

    /// Packets that wait to be delivered.
    pub(crate) fn waiting(&self) -> usize {
        let emitted: usize = self.slots.iter().map(Batch::len).sum();
        self.under_way + emitted
    }

    /// Reads the clock for counts: no element has ended its work just now.
    pub(crate) fn read_ticks(&mut self) {
        self.ended_at = self.ticks.map_or(0, |ticks| ticks());
    }

    /// An element begins to work right after another one ended: the clock need not be read again.
    #[inline]
    pub(crate) fn follow_span(&mut self) -> Span {
        Span { start: self.ended_at, asked_ns: std::mem::take(&mut self.asked_ns) }
    }

    /// An element begins to work.
    #[inline]
    pub(crate) fn begin_span(&mut self) -> Span {
        let start = self.ticks.map_or(0, |ticks| ticks());
        Span { start, asked_ns: std::mem::take(&mut self.asked_ns) }
    }

    /// `element` has worked since `span` began.
    #[inline]
    pub(crate) fn end_span(&mut self, element: usize, span: Span) {
        let Some(ticks) = self.ticks else { return };
        self.ended_at = ticks();
        let spent_ns = self.ended_at.saturating_sub(span.start);
        self.stats[element].own_ns += spent_ns.saturating_sub(self.asked_ns);
        self.asked_ns = span.asked_ns + spent_ns;
    }

    /// Counts a batch of `element`.
    #[inline]
    pub(crate) fn count(&mut self, element: usize, batch: &Batch) {
        let stats = &mut self.stats[element];
        stats.batches += 1;
        stats.packets += batch.len() as u64;
        if self.ticks.is_some() {
            stats.bytes += batch.bytes();
        }
    }

    pub(crate) fn schedule_task(&mut self, element: usize) {
        if let Some(link) = &self.link
            && let Some(worker) = link.elsewhere(element)
            && !(worker == 0 && link.is_worker_0())
        {
            return link.send(worker, Message::Task(element));
        }
        if !std::mem::replace(&mut self.is_scheduled[element], true) {
            self.tasks.push_back(element as u32);
        }
    }

    pub(crate) fn unschedule_task(&mut self, element: usize) {
        self.is_scheduled[element] = false;
    }

    pub(crate) fn task_is_scheduled(&self, element: usize) -> bool {
        self.is_scheduled[element]
    }

    /// The task that runs next; it is no longer scheduled.
    pub(crate) fn next_task(&mut self) -> Option<usize> {
        while let Some(element) = self.tasks.pop_front() {
            // An unscheduled task stays in the queue until its turn comes.
            if std::mem::replace(&mut self.is_scheduled[element as usize], false) {
                return Some(element as usize);
            }
        }
        None
    }

    pub(crate) fn has_tasks(&self) -> bool {
        self.any_task(|_| true)
    }

    /// Whether one of the tasks that are scheduled is such.
    pub(crate) fn any_task(&self, is_such: impl Fn(usize) -> bool) -> bool {
        let mut tasks = self.tasks.iter().map(|&task| task as usize);
        tasks.any(|task| self.is_scheduled[task] && is_such(task))
    }

    /// Takes such tasks away, in the order in which they would run.
    pub(crate) fn take_tasks(&mut self, is_such: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut taken = Vec::new();
        self.tasks.retain(|&task| {
            let task = task as usize;
            let is_taken = self.is_scheduled[task] && is_such(task);
            if is_taken {
                self.is_scheduled[task] = false;
                taken.push(task);
            }
            !is_taken
        });
        taken
    }

    /// Takes the timers of such elements away, in the order of their times.
    pub(crate) fn take_timers(
        &mut self,
        is_such: impl Fn(usize) -> bool,
    ) -> Vec<(Time, usize, usize)> {
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        while let Some(Reverse((at, setting, element, timer))) = self.timers.pop() {
            let holder = &mut self.timer_of[element as usize][timer as usize];
            if *holder != Some(setting) {
                continue;
            }
            if is_such(element as usize) {
                *holder = None;
                taken.push((at, element as usize, timer as usize));
            } else {
                left.push(Reverse((at, setting, element, timer)));
            }
        }
        self.timers.extend(left);
        taken
    }

    pub(crate) fn set_timer(&mut self, element: usize, timer: usize, at: Time) {
        let timers = &mut self.timer_of[element];
        if timers.len() <= timer {
            timers.resize(timer + 1, None);
        }
        self.settings += 1;
        timers[timer] = Some(self.settings);
        self.timers.push(Reverse((at, self.settings, element as u32, timer as u32)));
    }

    pub(crate) fn clear_timer(&mut self, element: usize, timer: usize) {
        if let Some(setting) = self.timer_of[element].get_mut(timer) {
            *setting = None;
        }
    }

    /// When the next timer is due.
    pub(crate) fn next_timer_at(&mut self) -> Option<Time> {
        while let Some(&Reverse((at, setting, element, timer))) = self.timers.peek() {
            if self.timer_of[element as usize][timer as usize] == Some(setting) {
                return Some(at);
            }
            self.timers.pop();
        }
        None
    }

    /// The next timer that is due, which is set no longer.
    pub(crate) fn next_due_timer(&mut self) -> Option<(usize, usize)> {
        if self.next_timer_at()? > self.now {
            return None;
        }
        let Reverse((_, _, element, timer)) = self.timers.pop()?;
        self.timer_of[element as usize][timer as usize] = None;
        Some((element as usize, timer as usize))
    }

    pub(crate) fn listen(&mut self, holder: usize, listener: usize) {
        let listeners = &mut self.listeners[0][holder];
        if !listeners.contains(&(listener as u32)) {
            listeners.push(listener as u32);
        }
    }

    #[inline]
    pub(crate) fn wake(&mut self, holder: usize) {
        for at in 0..self.listeners[0][holder].len() {
            self.schedule_task(self.listeners[0][holder][at] as usize);
        }
    }

    pub(crate) fn listen_for_room(&mut self, holder: usize, listener: usize) {
        let listeners = &mut self.listeners[1][holder];
        if !listeners.contains(&(listener as u32)) {
            listeners.push(listener as u32);
        }
    }

    #[inline]
    pub(crate) fn is_full(&self, holder: usize) -> bool {
        self.is_full[holder].load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn set_full(&mut self, holder: usize, is_full: bool) {
        // One worker alone sets it, so it need not be changed in one step.
        if self.is_full(holder) == is_full {
            return;
        }
        self.is_full[holder].store(is_full, Ordering::Release);
        if !is_full {
            for at in 0..self.listeners[1][holder].len() {
                self.schedule_task(self.listeners[1][holder][at] as usize);
            }
        }
    }

    /// `element` asks `other`: they stay together, if the run has not begun.
    pub(crate) fn acquaint(&mut self, element: usize, other: usize) {
        if !self.runs && other < self.stats.len() {
            self.friends.push((element, other));
        }
    }

    /// Hands `batch` to the worker of `to`, if that is another one.
    #[inline]
    pub(crate) fn hand_over(&mut self, to: PortRef, batch: Batch) -> Option<Batch> {
        let Some(link) = &self.link else { return Some(batch) };
        let Some(worker) = link.elsewhere(to.element) else { return Some(batch) };
        self.pool.release(batch.len() as u64);
        link.send(worker, Message::Packets(to, batch));
        None
    }

    /// Lets a handler be called after the shift, if there is one.
    pub(crate) fn call_later(&mut self, element: usize, call: &str) -> bool {
        let Some(link) = &self.link else { return false };
        link.send(0, Message::Call(element, call.to_owned()));
        true
    }

    /// Whether `element` has to be alone and is not: during a shift.
    #[inline]
    pub(crate) fn must_wait(&self, element: usize) -> bool {
        self.link.as_ref().is_some_and(|link| link.home(element) == Home::Alone)
    }

    /// Keeps `message` for after the shift, which ends.
    pub(crate) fn put_aside(&mut self, message: Message) {
        self.aside.push(message);
        self.end_shift();
    }

    /// Asks all workers to end the shift.
    pub(crate) fn end_shift(&self) {
        if let Some(link) = &self.link {
            link.stop();
        }
    }

    /// The seed of the random choices of another worker's copies.
    pub(crate) fn seed_for(&self, worker: usize) -> u64 {
        self.seed ^ (worker as u64).wrapping_mul(0xd1b5_4a32_d192_ed03)
    }

    /// Starts all sequences of random numbers anew.
    pub(crate) fn seed_random(&mut self, seed: u64) {
        (self.seed, self.was_seeded) = (seed, true);
        self.randoms.iter_mut().for_each(|random| random.start(seed));
    }
}

/// How many tasks run before the next look at the clock, if so many took so long: fewer if that was
/// more than [`LOOK`], as who wants to be served waits for them; more if there is time.
fn tasks_after(tasks: usize, gone: Duration) -> usize {
    if gone > LOOK {
        (tasks / 2).max(1)
    } else if gone < LOOK / 4 {
        (2 * tasks).min(TASKS_PER_LOOK)
    } else {
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_the_clock_come_often_enough() {
        for task_us in [0, 1, 20, 100, 400, 3000] {
            let took = |tasks: usize| Duration::from_micros(task_us * tasks as u64);
            let mut tasks = TASKS_PER_LOOK;
            for _ in 0..8 {
                tasks = tasks_after(tasks, took(tasks));
            }
            assert!(took(tasks) <= LOOK || tasks == 1, "{tasks} tasks of {task_us} us");
            assert!(took(tasks) >= LOOK / 4 || tasks == TASKS_PER_LOOK, "{tasks} of {task_us} us");
        }
    }
}
