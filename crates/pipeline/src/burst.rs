//! Bursts: packets that are taken through each stage together.
//!
//! ```text
//! frames ─► packed keys ─┬─ cache ─► programs ─────────┬─► in order: credit, forward
//!                        └─ no cache: table by table ──┘      or the whole walk
//! ```
//! Lookups of a burst overlap their loads; results are executed packet by packet, in order, so
//! frames leave as they would one by one. Most packets credit some flows and leave as they came by
//! one port: they need neither a packet in work nor a whole key, and the receiver of the output may
//! move them instead of copying them ([`Output::forward`]).
//!
//! Without a cache a packet is looked up table by table as long as its key cannot change: up to a
//! flow that changes it, sends it to a meter, or resubmits it. The walk then starts with these
//! results and looks up the rest itself.

use warpswitch_flow::programs::NO_FLOW;
use warpswitch_flow::{PackedKey, ProgramId, TraversalCache};
use warpswitch_packet::pages::prefetch;
use warpswitch_rules::openflow::port;

use crate::flows::Plan;
use crate::frame::{Packet, quick};
use crate::output::{Ingress, Output};
use crate::pipeline::Pipeline;
use crate::trace::Trace;

/// Packets that a cache looks up together: more of them would leave the first cache of the core.
const BURST_LEN: usize = 64;
/// Tables in which a packet is looked up ahead.
const PATH_LEN_MAX: usize = 8;

/// The lookups of a packet that were made ahead.
#[derive(Clone, Copy, Debug)]
struct Path {
    len: u8,
    /// Whether all flows are plain and nothing is left but to output.
    is_plain: bool,
    /// The port of a plain path; 0 for none.
    port: u32,
    lookups: [(u8, u32); PATH_LEN_MAX],
}

impl Path {
    const NEW: Path = Path { len: 0, is_plain: true, port: 0, lookups: [(0, NO_FLOW); _] };

    /// Becomes a path without lookups.
    #[inline]
    fn clear(&mut self) {
        (self.len, self.is_plain, self.port) = (0, true, 0);
    }

    /// Adds the result of a lookup. Returns the next table if the key stays the same and the path
    /// has room.
    #[inline]
    fn push(&mut self, table: u8, flow: u32, plan: Option<Plan>) -> Option<u8> {
        self.lookups[usize::from(self.len)] = (table, flow);
        self.len += 1;
        let plan = plan?;
        self.is_plain &= plan.is_plain && (plan.port == 0 || self.port == 0);
        self.port |= plan.port;
        let next = plan.next()?;
        let has_room = usize::from(self.len) < PATH_LEN_MAX;
        self.is_plain &= has_room;
        has_room.then_some(next)
    }

    #[inline]
    fn lookups(&self) -> &[(u8, u32)] {
        &self.lookups[..usize::from(self.len).min(PATH_LEN_MAX)]
    }
}

/// Frames that are taken through the tables together.
#[derive(Clone, Copy)]
struct Arrived<'a> {
    frames: &'a [&'a [u8]],
    /// The number of the first among those of the call.
    first: usize,
    ingress: &'a Ingress,
    now: u64,
}

/// Memory of bursts.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    packed: Vec<PackedKey>,
    found: Vec<ProgramId>,
    paths: Vec<Path>,
    ahead: Ahead,
}

/// Memory of lookups ahead.
#[derive(Debug, Default)]
struct Ahead {
    /// Packets that are to be looked up, with the next table of each.
    active: Vec<(u32, u8)>,
    /// Those of one table.
    group: Vec<u32>,
    winners: Vec<u32>,
}

impl Ahead {
    /// Starts with all packets at the first table.
    fn start(&mut self, packets: usize) {
        self.active.clear();
        self.active.extend((0..packets as u32).map(|idx| (idx, 0)));
    }

    /// The lowest table that packets are to be looked up in; they become the group.
    fn next_table(&mut self) -> Option<u8> {
        let Self { active, group, .. } = self;
        let table = active.iter().map(|&(_, table)| table).min()?;
        group.clear();
        if active.iter().all(|&(_, other)| other == table) {
            group.extend(active.drain(..).map(|(idx, _)| idx));
        } else {
            group.extend(active.extract_if(.., |other| other.1 == table).map(|(idx, _)| idx));
        }
        Some(table)
    }
}

impl Burst {
    fn extract(&mut self, frames: &[&[u8]], ingress: &Ingress) {
        // Keys of the burst before are overwritten.
        self.packed.resize(frames.len(), PackedKey::EMPTY);
        for (packed, frame) in self.packed.iter_mut().zip(frames) {
            quick::pack(frame, ingress, packed);
        }
    }
}

impl Pipeline {
    /// Takes packets that came in at one port through the tables, in order, with a cache in front
    /// of them or without. They leave as they would one by one, without a cache.
    pub fn execute_burst<C: TraversalCache>(
        &mut self,
        mut cache: Option<&mut C>,
        frames: &[&[u8]],
        ingress: impl Into<Ingress>,
        now: u64,
        out: &mut impl Output,
    ) {
        let ingress = ingress.into();
        let mut burst = std::mem::take(&mut self.burst);
        let burst_len = match cache {
            Some(_) => BURST_LEN,
            None => self.engines.burst_len(),
        };
        for (number, frames) in frames.chunks(burst_len).enumerate() {
            let arrived = Arrived { frames, first: number * burst_len, ingress: &ingress, now };
            burst.extract(frames, &ingress);
            match &mut cache {
                Some(cache) => self.repeat(*cache, &mut burst, arrived, out),
                None => {
                    self.look_ahead(&mut burst);
                    self.walk_paths(&burst, arrived, out);
                }
            }
        }
        self.burst = burst;
    }

    /// Repeats cached programs, and records the others.
    fn repeat<C: TraversalCache>(
        &mut self,
        cache: &mut C,
        burst: &mut Burst,
        Arrived { frames, first, ingress, now }: Arrived<'_>,
        out: &mut impl Output,
    ) {
        let Burst { packed, found, .. } = burst;
        found.resize(frames.len(), ProgramId::NONE);
        cache.lookup(&self.changes, packed, found);
        for plain in found.iter().filter_map(|&id| cache.program(id)?.plain()) {
            for (_, flow) in plain.lookups() {
                prefetch(&self.counts.flows, flow as usize);
            }
        }
        let mut has_recorded = false;
        for (idx, frame) in frames.iter().enumerate() {
            let mut id = found[idx];
            if has_recorded && cache.program(id).is_none() {
                id = cache.lookup_again(&self.changes, &packed[idx]);
            }
            let Some(program) = cache.hit(id, frame.len(), now) else {
                let traversal = self.record(frame, ingress, now, out).traversal;
                if traversal.is_cacheable {
                    cache.insert(self.changes.version(), &traversal);
                    has_recorded = true;
                }
                continue;
            };
            if let Some(plain) = program.plain() {
                self.counts.credit_all(plain.lookups(), frame.len(), now);
                match plain.port {
                    0 => self.counts.unsent += 1,
                    port => out.forward(ingress.egress(port), first + idx, frame),
                }
                continue;
            }
            let spare = std::mem::take(&mut self.spare);
            let packet = Packet::new(frame, ingress.key(), spare);
            let mut run = self.run(packet, now, out);
            run.replay(program.steps());
            self.spare = run.finish();
        }
    }

    /// Executes a packet by the tables and records its traversal.
    pub(crate) fn record(
        &mut self,
        frame: &[u8],
        ingress: &Ingress,
        now: u64,
        out: &mut impl Output,
    ) -> Trace {
        let spare = std::mem::take(&mut self.spare);
        let mut packet = Packet::new(frame, ingress.key(), spare);
        let trace = Trace::new(&packet.key().clone(), packet.shape(ingress.is_tunneled()));
        let mut run = self.run(packet, now, out);
        run.trace = Some(trace);
        run.pipeline();
        let trace = run.trace.take().expect("it was put there");
        self.spare = run.finish();
        trace
    }

    /// Looks the packets of a burst up, table by table, as far as their keys stay.
    fn look_ahead(&mut self, burst: &mut Burst) {
        let Burst { packed, paths, ahead, .. } = burst;
        paths.resize(packed.len(), Path::NEW);
        paths.iter_mut().for_each(Path::clear);
        ahead.start(packed.len());
        while let Some(table) = ahead.next_table() {
            let Ahead { active, group, winners } = ahead;
            self.tables[usize::from(table)].find_burst(&self.flows, packed, group, winners);
            for &flow in winners.iter().filter(|&&flow| flow != NO_FLOW) {
                prefetch(&self.counts.flows, flow as usize);
            }
            for (&idx, &flow) in group.iter().zip(&*winners) {
                let plan = self.counts.flows.get(flow as usize).map(|counters| counters.plan);
                let next = paths[idx as usize].push(table, flow, plan);
                active.extend(next.map(|table| (idx, table)));
            }
        }
    }

    /// Executes what was looked up ahead.
    fn walk_paths(
        &mut self,
        burst: &Burst,
        Arrived { frames, first, ingress, now }: Arrived<'_>,
        out: &mut impl Output,
    ) {
        for (idx, (path, frame)) in burst.paths.iter().zip(frames).enumerate() {
            if path.is_plain {
                self.counts.credit_all(path.lookups().iter().copied(), frame.len(), now);
                if path.port != 0 && path.port != ingress.port && self.forwards(path.port) {
                    out.forward(ingress.egress(path.port), first + idx, frame);
                } else {
                    self.counts.unsent += 1;
                }
                continue;
            }
            let spare = std::mem::take(&mut self.spare);
            let packet = Packet::new(frame, ingress.key(), spare);
            let mut run = self.run(packet, now, out).with_known(path.lookups());
            run.pipeline();
            self.spare = run.finish();
        }
    }

    /// Whether frames leave by a real port, which need not exist.
    fn forwards(&self, number: u32) -> bool {
        debug_assert!((1..=port::MAX).contains(&number), "plain flows output to real ports");
        self.ports.get(&number).is_none_or(|settings| settings.is_forwarded)
    }
}
