//! The ways of some packets: which elements they came to, and what became of them.
//!
//! ```text
//! source ─► emitted ─► delivered ─► emitted ─► … ─► dropped, consumed, or held at the end
//!            a hop                   a hop           the end of the way
//! ```
//! A packet that is followed has a number, that of its way, which copies of it have as well. Where
//! the router hands batches from one element to the next, and where packets end, it looks for such
//! numbers and writes down what it sees. A packet with the number of a way that another packet is
//! on is a copy: it begins a way of its own there, which came of the other one.
//!
//! Cost: without tracing a look at a pointer, for a batch that is handed on and for a packet that
//! is dropped by itself. With it a look at the first line of each packet, but at none of batches
//! that are lent whole, and for packets that are followed a lock and some copies. Packets do as
//! they do without: elements do not know that they are followed.
//!
//! Memory: [`TRACED_PACKETS_MAX`] packets, [`HOPS_MAX`] hops and [`WAYS_MAX`] ways for each, and
//! [`HEAD_BYTES`] bytes with each hop that changed some: 75 MB at most, a few KB a packet as a
//! rule.
//!
//! # Invariants
//! - T1: a way is of one packet at most, which is where its last hop says; it has none once it has
//!   ended. So whoever has its number else is a copy.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpswitch_packet::{Batch, Header, Packet};

use super::Router;
use super::worker::{DROPS, Worker};
use crate::context::Blueprint;
use crate::language::{PortRef, nearest};
use crate::time::Time;

/// The most packets that are followed.
pub const TRACED_PACKETS_MAX: usize = 1000;
/// Hops of one packet and its copies that are written down; of more the last.
const HOPS_MAX: usize = 256;
/// Ways of one packet: its own, and those of copies.
const WAYS_MAX: usize = 64;
/// Bytes that are kept of a packet: all headers, as a rule.
const HEAD_BYTES: usize = 96;

/// A packet that was followed.
#[derive(Clone, Debug)]
pub struct TracedPacket {
    /// When it came.
    pub at: Time,
    /// When it was seen, as it says itself: a packet of a capture. None if it does not.
    pub seen: Option<Time>,
    /// Its own way, and those of what was made of it.
    pub ways: Vec<TracedWay>,
    /// Hops that were not written down, as there were too many.
    pub hops_left_out: u64,
    /// Copies that were not followed, as there were too many.
    pub copies_left_out: u64,
}

/// The way of a packet.
#[derive(Clone, Debug)]
pub struct TracedWay {
    /// What it was made of and where: the place of that way in [`TracedPacket::ways`], and an
    /// element.
    pub made: Option<(usize, TracedElement)>,
    /// What it was like at first.
    pub look: PacketLook,
    /// The elements that it came to.
    pub hops: Vec<TracedHop>,
    /// What became of it.
    pub end: TracedEnd,
}

/// An element, as it was called when a packet came there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedElement {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
}

/// An element that a packet came to.
#[derive(Clone, Debug)]
pub struct TracedHop {
    /// The element.
    pub element: TracedElement,
    /// When it came there, or left if it began there.
    pub at: Time,
    /// Where it came in; none where it began.
    pub input: Option<usize>,
    /// Where it left; none where it did not.
    pub output: Option<usize>,
    /// What it was like when it left, if the element changed that.
    pub look: Option<PacketLook>,
}

/// What a packet is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketLook {
    /// Its bytes.
    pub bytes: usize,
    /// The first of them.
    pub head: Vec<u8>,
    /// Where its network header starts, if somebody has said so.
    pub network: Option<usize>,
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracedEnd {
    /// This element dropped it, for this reason.
    Dropped(TracedElement, &'static str),
    /// It did what it came for, at this element, which calls that so.
    Consumed(TracedElement, &'static str),
    /// This element holds it.
    Held(TracedElement),
    /// It waits to be delivered to this element.
    Waits(TracedElement),
    /// It was with this element when another configuration took over that has no place for it.
    Replaced(TracedElement),
    /// It came to this element, which holds no packet and does not tell what it did.
    Unknown(TracedElement),
}

impl PacketLook {
    fn of(packet: &Packet) -> Self {
        let (head, network) = Self::parts(packet);
        Self { bytes: packet.len(), head: head.to_vec(), network }
    }

    fn parts(packet: &Packet) -> (&[u8], Option<usize>) {
        let data = packet.data();
        (&data[..data.len().min(HEAD_BYTES)], packet.header_offset(Header::Network))
    }

    fn is_of(&self, packet: &Packet) -> bool {
        (&*self.head, self.network) == Self::parts(packet) && self.bytes == packet.len()
    }
}

/// How a packet ends while the run goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// It did what it came for.
    Consumed,
    /// Dropped for the reason of the element's class that has this number.
    Dropped(usize),
    /// Dropped for this reason.
    For(&'static str),
}

/// The number of an element among those that packets came to.
type ElementId = u32;

#[derive(Debug)]
struct Hop {
    element: ElementId,
    at: Time,
    input: Option<u32>,
    output: Option<u32>,
    look: Option<Box<PacketLook>>,
}

#[derive(Debug)]
struct Way {
    packet: usize,
    /// The way that it came of, and the element that made it.
    made: Option<(usize, ElementId)>,
    first: Box<PacketLook>,
    hops: Vec<Hop>,
    /// Which packet is on it; none once it has ended.
    identity: Option<usize>,
    end: Option<(ElementId, Ended)>,
}

#[derive(Clone, Copy, Debug)]
enum Ended {
    Dropped(&'static str),
    Consumed(&'static str),
    Replaced,
}

#[derive(Debug)]
struct Traced {
    at: Time,
    seen: Option<Time>,
    hops: usize,
    ways: usize,
    hops_left_out: u64,
    copies_left_out: u64,
}

/// What all workers write down.
#[derive(Debug, Default)]
struct Log {
    packets: Vec<Traced>,
    /// Those of all packets; a packet's number is the place of its way, counted from 1.
    ways: Vec<Way>,
    /// Few, as packets came there.
    elements: Vec<TracedElement>,
}

impl Log {
    fn element(&mut self, element: TracedElement) -> ElementId {
        let found = self.elements.iter().position(|known| *known == element);
        let id = found.unwrap_or_else(|| {
            self.elements.push(element);
            self.elements.len() - 1
        });
        id as ElementId
    }

    /// Begins a way for `packet`, which has its number from now on.
    fn add_way(&mut self, number: usize, made: Option<(usize, ElementId)>, packet: &mut Packet) {
        self.ways.push(Way {
            packet: number,
            made,
            first: Box::new(PacketLook::of(packet)),
            hops: Vec::new(),
            identity: Some(packet.identity()),
            end: None,
        });
        self.packets[number].ways += 1;
        packet.set_trace(u32::try_from(self.ways.len()).ok().and_then(NonZeroU32::new));
    }

    /// Begins to follow `packet`; gives its way.
    fn begin(&mut self, packet: &mut Packet, at: Time) -> usize {
        let seen = Some(Time(packet.timestamp_ns())).filter(|seen| seen.0 != 0);
        let traced = Traced { at, seen, hops: 0, ways: 0, hops_left_out: 0, copies_left_out: 0 };
        self.packets.push(traced);
        self.add_way(self.packets.len() - 1, None, packet);
        self.ways.len() - 1
    }

    /// The way of `packet`, which `element` has. A copy gets one now, if there are not too many.
    fn way_of(&mut self, packet: &mut Packet, element: ElementId) -> Option<usize> {
        let idx = packet.trace()?.get() as usize - 1;
        let way = self.ways.get(idx)?;
        if way.identity == Some(packet.identity()) {
            return Some(idx);
        }
        let number = way.packet;
        let traced = &mut self.packets[number];
        if traced.ways >= WAYS_MAX {
            traced.copies_left_out += 1;
            packet.set_trace(None);
            return None;
        }
        self.add_way(number, Some((idx, element)), packet);
        Some(self.ways.len() - 1)
    }

    fn add_hop(&mut self, way: usize, element: ElementId, input: Option<usize>, at: Time) {
        let way = &mut self.ways[way];
        let traced = &mut self.packets[way.packet];
        let input = input.map(|input| input as u32);
        let hop = Hop { element, at, input, output: None, look: None };
        // The last one says where it is.
        match way.hops.last_mut() {
            Some(last) if traced.hops >= HOPS_MAX => {
                *last = hop;
                traced.hops_left_out += 1;
            }
            _ => {
                way.hops.push(hop);
                traced.hops += 1;
            }
        }
    }

    /// `packet`, on this way, leaves `element` by an output.
    fn leave(&mut self, idx: usize, packet: &Packet, element: ElementId, output: usize, at: Time) {
        let last = self.ways[idx].hops.last();
        if !last.is_some_and(|hop| hop.element == element && hop.output.is_none()) {
            self.add_hop(idx, element, None, at);
        }
        let way = &mut self.ways[idx];
        let Some((hop, before)) = way.hops.split_last_mut() else { return };
        hop.output = Some(output as u32);
        let was = before.iter().rev().find_map(|hop| hop.look.as_deref()).unwrap_or(&way.first);
        if !was.is_of(packet) {
            hop.look = Some(Box::new(PacketLook::of(packet)));
        }
    }
}

/// What a worker needs to follow packets.
#[derive(Clone)]
pub(crate) struct Tracer {
    log: Arc<Mutex<Log>>,
    /// Packets that are still to be followed.
    left: Arc<AtomicUsize>,
    blueprint: Arc<Blueprint>,
    begins: Begins,
    /// The numbers of elements in the log, as far as they are known.
    ids: Vec<Option<ElementId>>,
}

/// Where packets begin to be followed.
#[derive(Clone, Debug)]
enum Begins {
    /// Where they come from.
    AtSources,
    /// At the element of this name; none if there is none at present.
    At(String, Option<usize>),
}

impl Tracer {
    fn new(blueprint: Arc<Blueprint>, packets_max: usize, begins: Begins) -> Self {
        Self {
            log: Arc::default(),
            left: Arc::new(AtomicUsize::new(packets_max.min(TRACED_PACKETS_MAX))),
            ids: vec![None; blueprint.classes.len()],
            blueprint,
            begins,
        }
    }

    /// The same for another configuration, which takes over.
    fn moved_to(self, blueprint: Arc<Blueprint>) -> Self {
        let begins = match self.begins {
            Begins::AtSources => Begins::AtSources,
            Begins::At(name, _) => {
                let idx = blueprint.index.get(&name).copied();
                Begins::At(name, idx)
            }
        };
        Self { ids: vec![None; blueprint.classes.len()], blueprint, begins, ..self }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        // Who panicked with the lock held left a log that can be read.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of element `idx` in the log.
    fn id(ids: &mut [Option<ElementId>], graph: &Blueprint, log: &mut Log, idx: usize) -> u32 {
        *ids[idx].get_or_insert_with(|| log.element(element_of(graph, idx)))
    }

    /// Whether packets that go that way begin there.
    fn begins(&self, from: Option<PortRef>, to: PortRef) -> bool {
        match (&self.begins, from) {
            (Begins::At(_, at), _) => *at == Some(to.element),
            (Begins::AtSources, None) => true,
            (Begins::AtSources, Some(PortRef { element, port })) => {
                let mut inputs = 0..self.blueprint.ports[element].inputs.len();
                !inputs.any(|input| self.blueprint.flow.leads(element, input, port))
            }
        }
    }

    /// Packets move on; none brings them if they are the host's.
    fn moved(&mut self, now: Time, from: Option<PortRef>, to: PortRef, batch: &mut Batch) {
        let is_wanted = self.left.load(Ordering::Relaxed) > 0 && self.begins(from, to);
        if !is_wanted && !batch.has_traced() {
            return;
        }
        let Self { log, left, blueprint, begins, ids } = self;
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less_one).is_ok();
        let to_id = Self::id(ids, blueprint, &mut log, to.element);
        let from = from.map(|at| (Self::id(ids, blueprint, &mut log, at.element), at.port));
        for packet in batch.iter_mut() {
            let is_new = packet.trace().is_none();
            let way = if !is_new {
                log.way_of(packet, from.map_or(to_id, |from| from.0))
            } else if is_wanted && take() {
                Some(log.begin(packet, now))
            } else {
                None
            };
            let Some(way) = way else { continue };
            // Where a packet is first seen at an element that was asked for, it comes from nowhere.
            if let Some((from_id, output)) = from
                && !(is_new && matches!(begins, Begins::At(..)))
            {
                log.leave(way, packet, from_id, output, now);
            }
            log.add_hop(way, to_id, Some(to.port), now);
        }
    }

    /// A packet ends with `element`, which may be one that nobody follows.
    fn ended(&mut self, element: usize, packet: &mut Packet, end: End) {
        if packet.trace().is_none() {
            return;
        }
        let Self { log, blueprint, ids, .. } = self;
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let id = Self::id(ids, blueprint, &mut log, element);
        let Some(way) = log.way_of(packet, id) else { return };
        let class = blueprint.classes[element];
        let end = match end {
            End::Consumed => Ended::Consumed(class.consumed),
            End::Dropped(reason) => Ended::Dropped(class.drops.get(reason).copied().unwrap_or("")),
            End::For(reason) => Ended::Dropped(reason),
        };
        let way = &mut log.ways[way];
        (way.end, way.identity) = (Some((id, end)), None);
    }
}

/// One packet less is to be followed.
fn less_one(left: usize) -> Option<usize> {
    left.checked_sub(1)
}

fn element_of(graph: &Blueprint, idx: usize) -> TracedElement {
    let element = &graph.graph.elements[idx];
    TracedElement { name: element.name.clone(), class: element.class.clone() }
}

/// What is called where packets pass: a look at a pointer while nothing is traced. Packets are
/// given and taken back, as what is lent to a call that is hardly ever made has to lie in memory.
impl Worker {
    /// `batch` goes to `to` from an output, or from the host.
    #[inline(always)]
    pub(crate) fn trace_moved(
        &mut self,
        from: Option<PortRef>,
        to: PortRef,
        batch: Batch,
    ) -> Batch {
        if self.tracer.is_some() { self.moved(from, to, batch) } else { batch }
    }

    #[cold]
    #[inline(never)]
    fn moved(&mut self, from: Option<PortRef>, to: PortRef, mut batch: Batch) -> Batch {
        let now = self.clock.as_ref().map_or(self.now, |clock| clock());
        if let Some(tracer) = &mut self.tracer {
            tracer.moved(now, from, to, &mut batch);
        }
        batch
    }

    /// `packet` ends with `element`.
    #[inline(always)]
    pub(crate) fn trace_end(&mut self, element: usize, packet: Packet, end: End) -> Packet {
        if self.tracer.is_some() { self.ended(element, packet, end) } else { packet }
    }

    #[cold]
    #[inline(never)]
    fn ended(&mut self, element: usize, mut packet: Packet, end: End) -> Packet {
        if let Some(tracer) = &mut self.tracer {
            tracer.ended(element, &mut packet, end);
        }
        packet
    }

    /// All of `batch` ends with `element`.
    #[inline(always)]
    pub(crate) fn trace_batch(&mut self, element: usize, batch: Batch, end: End) -> Batch {
        if self.tracer.is_some() { self.batch_ended(element, batch, |_| end) } else { batch }
    }

    /// All that is left of a batch with outputs for each packet ends with `element`, which has
    /// `ports` outputs.
    #[inline(always)]
    pub(crate) fn trace_left(
        &mut self,
        element: usize,
        batch: Batch,
        outputs: &[u32],
        ports: u32,
    ) -> Batch {
        if self.tracer.is_none() {
            return batch;
        }
        let mut left = outputs.iter().filter(|&&port| port >= ports);
        self.batch_ended(element, batch, |_| match left.next() {
            Some(&port) if port >= DROPS => End::Dropped((u32::MAX - port) as usize),
            _ => End::For(UNCONNECTED),
        })
    }

    #[cold]
    #[inline(never)]
    fn batch_ended(
        &mut self,
        element: usize,
        mut batch: Batch,
        mut end: impl FnMut(&Packet) -> End,
    ) -> Batch {
        if let Some(tracer) = &mut self.tracer
            && batch.has_traced()
        {
            for packet in batch.iter_mut() {
                let end = end(packet);
                tracer.ended(element, packet, end);
            }
        }
        batch
    }
}

/// A reason that no class has.
pub(crate) const UNCONNECTED: &str = "unconnected output";
/// The same.
pub(crate) const CROWDED: &str = "too many under way";

impl Router {
    /// Follows the first `packets_max` packets that sources give, or that come to the element
    /// `at`; [`TRACED_PACKETS_MAX`] at most. For once, before the run.
    ///
    /// # Errors
    /// If there is no such element.
    pub fn trace(&mut self, packets_max: usize, at: Option<&str>) -> Result<(), String> {
        let blueprint = self.shared.blueprint.clone();
        let begins = match at {
            None => Begins::AtSources,
            Some(name) => match blueprint.index.get(name) {
                Some(&idx) => Begins::At(name.to_owned(), Some(idx)),
                None => {
                    let near = nearest(name, blueprint.index.keys().map(String::as_str));
                    let near =
                        near.map_or(String::new(), |near| format!(": did you mean '{near}'?"));
                    return Err(format!("no element is called '{name}'{near}"));
                }
            },
        };
        self.worker.tracer = Some(Box::new(Tracer::new(blueprint, packets_max, begins)));
        self.team = None;
        Ok(())
    }

    /// The packets that were followed, and what became of them so far; none if none are.
    pub fn traced(&self) -> Option<Vec<TracedPacket>> {
        let tracer = self.worker.tracer.as_deref()?;
        let log = tracer.lock();
        // The place of each way among those of its packet.
        let (mut places, mut packets) = (Vec::new(), Vec::<TracedPacket>::new());
        for traced in &log.packets {
            packets.push(TracedPacket {
                at: traced.at,
                seen: traced.seen,
                ways: Vec::new(),
                hops_left_out: traced.hops_left_out,
                copies_left_out: traced.copies_left_out,
            });
        }
        for way in &log.ways {
            let packet = &mut packets[way.packet];
            places.push(packet.ways.len());
            packet.ways.push(self.traced_way(&log, way, &places));
        }
        packets.iter_mut().for_each(|packet| in_order(&mut packet.ways));
        Some(packets)
    }

    fn traced_way(&self, log: &Log, way: &Way, places: &[usize]) -> TracedWay {
        let element = |id: ElementId| log.elements[id as usize].clone();
        let hop = |hop: &Hop| TracedHop {
            element: element(hop.element),
            at: hop.at,
            input: hop.input.map(|input| input as usize),
            output: hop.output.map(|output| output as usize),
            look: hop.look.as_deref().cloned(),
        };
        let end = match way.end {
            Some((id, Ended::Dropped(why))) => TracedEnd::Dropped(element(id), why),
            Some((id, Ended::Consumed(how))) => TracedEnd::Consumed(element(id), how),
            Some((id, Ended::Replaced)) => TracedEnd::Replaced(element(id)),
            None => {
                let id = way.hops.last().map_or(0, |hop| hop.element);
                self.where_it_stands(element(id))
            }
        };
        TracedWay {
            made: way.made.map(|(of, by)| (places[of], element(by))),
            look: (*way.first).clone(),
            hops: way.hops.iter().map(hop).collect(),
            end,
        }
    }

    /// What is with a packet whose way has not ended.
    fn where_it_stands(&self, element: TracedElement) -> TracedEnd {
        let idx = self.shared.index.get(&element.name).copied();
        let idx = idx.filter(|&idx| self.shared.graph.elements[idx].class == element.class);
        match idx {
            Some(idx) if self.shared.elements[idx].borrow().held() > 0 => TracedEnd::Held(element),
            Some(_) if self.worker.waiting() > 0 => TracedEnd::Waits(element),
            Some(_) => TracedEnd::Unknown(element),
            None => TracedEnd::Replaced(element),
        }
    }

    /// Goes on following what `old` followed. Packets of elements that `left` says have some left
    /// are gone.
    pub(super) fn take_over_trace(&mut self, old: &mut Router) {
        let Some(tracer) = old.worker.tracer.take() else { return };
        for (idx, element) in old.shared.elements.iter().enumerate() {
            if element.borrow().held() == 0 {
                continue;
            }
            let gone = element_of(&old.shared.blueprint, idx);
            // What found a place is there now, and it is not told apart.
            let has_place = self.shared.index.get(&gone.name).is_some_and(|&new| {
                self.shared.graph.elements[new].class == gone.class
                    && self.shared.elements[new].borrow().held() > 0
            });
            let mut log = tracer.lock();
            let id = log.element(gone);
            let stand = |way: &&mut Way| way.hops.last().is_some_and(|hop| hop.element == id);
            for way in log.ways.iter_mut().filter(|way| way.end.is_none()).filter(stand) {
                if !has_place {
                    (way.end, way.identity) = (Some((id, Ended::Replaced)), None);
                }
            }
        }
        let blueprint = self.shared.blueprint.clone();
        self.worker.tracer = Some(Box::new(tracer.moved_to(blueprint)));
    }
}

/// Puts copies that were made in one place in the order of the outputs that they left by.
fn in_order(ways: &mut Vec<TracedWay>) {
    let first_output = |way: &TracedWay| way.hops.first().and_then(|hop| hop.output);
    let mut order: Vec<usize> = (0..ways.len()).collect();
    // A run of copies of one way by one element; what is made of a copy comes behind the copy.
    for run in order.chunk_by_mut(|&a, &b| ways[a].made.is_some() && ways[a].made == ways[b].made) {
        run.sort_by_key(|&idx| first_output(&ways[idx]));
    }
    let mut place = vec![0; ways.len()];
    order.iter().enumerate().for_each(|(at, &idx)| place[idx] = at);
    let mut moved: Vec<(usize, TracedWay)> = place.iter().copied().zip(ways.drain(..)).collect();
    moved.sort_by_key(|(at, _)| *at);
    ways.extend(moved.into_iter().map(|(_, mut way)| {
        way.made = way.made.map(|(of, by)| (place[of], by));
        way
    }));
}
