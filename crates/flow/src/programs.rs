//! Cached traversals: what a packet that hits has to do, and which changes affect it.
//!
//! ```text
//! index ─► place, generation ─► line of 64 bytes: version, flows to credit, port,  most packets
//!                                  │              packets and bytes
//!                                  └─► steps, visits, large counters               all others
//! ```
//! Most traversals credit a few flows and output once. All of that is in one cache line; the steps
//! of others, and what changes are compared with, lie behind a pointer in it. So a hit costs the
//! lines of its index entry, this line, and the counters of its flows.
//!
//! # Invariants
//! - P1: a place that is used again has another generation, so an index may keep the places of
//!   programs that are gone.
//! - P2: there are at most `programs_max` programs. Their steps and examined bits take at most
//!   `bytes_max` bytes and those of one program more. A full store evicts a program that no lookup
//!   found since the hand of a clock passed it.

use warpswitch_rules::openflow::{FLOW_WORDS, FlowKey, FlowMatch};

use crate::change_log::{Change, ChangeLog};
use crate::traversal::{Step, Traversal, Visit};

/// Flows that a plain program credits, at most.
pub const PLAIN_FLOWS_MAX: usize = 4;
/// In place of a flow: the table had none.
pub const NO_FLOW: u32 = u32::MAX;
/// In place of the number of flows: the program is not plain.
const NOT_PLAIN: u8 = u8::MAX;

/// A program that credits flows and then outputs at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    len: u8,
    tables: [u8; PLAIN_FLOWS_MAX],
    flows: [u32; PLAIN_FLOWS_MAX],
    /// The port; 0 for none.
    pub port: u32,
}

impl Plain {
    const NOT: Plain = Plain { len: NOT_PLAIN, tables: [0; _], flows: [0; _], port: 0 };

    fn of(steps: &[Step]) -> Self {
        let mut plain = Plain { len: 0, ..Plain::NOT };
        for step in steps {
            let (table, flow) = match *step {
                // Behind an output, the order of steps would matter.
                _ if plain.port != 0 => return Plain::NOT,
                Step::Match { table, flow } => (table, flow),
                Step::Miss { table } => (table, NO_FLOW),
                Step::Output(port) if port != 0 => {
                    plain.port = port;
                    continue;
                }
                _ => return Plain::NOT,
            };
            let len = usize::from(plain.len);
            if len == PLAIN_FLOWS_MAX {
                return Plain::NOT;
            }
            (plain.tables[len], plain.flows[len]) = (table, flow);
            plain.len += 1;
        }
        plain
    }

    /// Tables and the flows that matched there, or [`NO_FLOW`].
    #[inline]
    pub fn lookups(&self) -> impl Iterator<Item = (u8, u32)> + '_ {
        let len = usize::from(self.len).min(PLAIN_FLOWS_MAX);
        self.tables[..len].iter().copied().zip(self.flows[..len].iter().copied())
    }
}

/// A table that a packet visited, and what all packets of the traversal agree in there.
#[derive(Debug)]
struct Examined {
    table: u8,
    flow: u32,
    /// The priority of the flow; less than all without one.
    priority: i32,
    /// Words of the key in the table, their bits that were examined, and these.
    bits: Box<[(u8, u32, u32)]>,
}

impl Examined {
    fn of(visit: &Visit) -> Self {
        let words = visit.examined.iter().enumerate().filter(|(_, mask)| **mask != 0);
        let bits = words.map(|(word, &mask)| (word as u8, mask, visit.key[word] & mask));
        Self {
            table: visit.table,
            flow: visit.flow.map_or(NO_FLOW, |(flow, _)| flow),
            priority: visit.flow.map_or(-1, |(_, priority)| i32::from(priority)),
            bits: bits.collect(),
        }
    }

    /// Whether some packet of the traversal may match a new flow in place of its old one.
    fn admits(&self, table: u8, priority: u16, matching: &FlowMatch) -> bool {
        let differs = |&(word, mask, value): &(u8, u32, u32)| {
            let word = usize::from(word);
            (matching.value()[word] ^ value) & matching.mask()[word] & mask != 0
        };
        self.table == table && i32::from(priority) > self.priority && !self.bits.iter().any(differs)
    }
}

/// Counters of a line move to the larger ones when they reach this.
const COUNTS_MAX: u32 = 1 << 31;
/// A unit of the time of the last hit, in powers of two of a nanosecond: 17 ms, so that 32 bits
/// hold two years.
const USED_SHIFT: u32 = 24;

/// What most hits do not need.
#[derive(Debug)]
struct Cold {
    shape: u32,
    /// Words of the key at entry, their bits by which the index finds the program, and these.
    entry: Box<[(u8, u32, u32)]>,
    /// Packets and bytes that are not in the line any more.
    counts: (u64, u64),
    steps: Box<[Step]>,
    visits: Box<[Examined]>,
    has_group: bool,
    has_meter: bool,
    home: Home,
}

impl Cold {
    fn of(traversal: &Traversal, mask: &FlowKey, home: Home) -> Self {
        let words = mask.iter().enumerate().filter(|(_, mask)| **mask != 0);
        let entry = words.map(|(word, &mask)| (word as u8, mask, traversal.key[word] & mask));
        let has = |is_it: fn(&Step) -> bool| traversal.steps.iter().any(is_it);
        Self {
            shape: traversal.shape.number,
            entry: entry.collect(),
            counts: (0, 0),
            steps: traversal.steps.as_slice().into(),
            visits: traversal.visits.iter().map(Examined::of).collect(),
            has_group: has(|step| matches!(step, Step::Bucket { .. })),
            has_meter: has(|step| matches!(step, Step::Meter(_))),
            home,
        }
    }

    /// Bytes that it takes in memory. Few steps have parts of their own, which are small.
    fn bytes(&self) -> usize {
        let bits = self.visits.iter().map(|visit| size_of_val(&*visit.bits)).sum::<usize>();
        size_of::<Self>()
            + size_of_val(&*self.entry)
            + size_of_val(&*self.steps)
            + size_of_val(&*self.visits)
            + bits
    }

    fn is_affected(&self, change: &Change) -> bool {
        match change {
            Change::Added { table, priority, matching } => {
                self.visits.iter().any(|visit| visit.admits(*table, *priority, matching))
            }
            Change::Flow(place) => self.visits.iter().any(|visit| visit.flow == *place),
            Change::Group => self.has_group,
            Change::Meter => self.has_meter,
            Change::All => true,
        }
    }
}

/// Where the index by examined bits has a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) union: u32,
    pub(crate) hash: u32,
}

/// What the packets of a traversal have to do.
#[derive(Debug)]
#[repr(align(64))]
pub struct Program {
    version: u64,
    cold: Option<Box<Cold>>,
    plain: Plain,
    generation: u32,
    packets: u32,
    bytes: u32,
    /// See [`USED_SHIFT`].
    used: u32,
    is_used: bool,
}

/// A cached traversal and its counters.
#[derive(Clone, Debug)]
pub struct CachedFlow<'a> {
    /// The shape of its packets ([`crate::Shape::number`]).
    pub shape: u32,
    /// Their key at entry, where `mask` is 1.
    pub key: FlowKey,
    /// The bits by which the cache finds it.
    pub mask: FlowKey,
    /// Their steps.
    pub steps: &'a [Step],
    /// Packets that it answered: not the first, which was recorded.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds since it last answered, to 17 ms; none if it never did.
    pub idle_ns: Option<u64>,
}

impl Program {
    fn cached_flow(&self, changes: &ChangeLog, now_ns: u64) -> Option<CachedFlow<'_>> {
        let cold = self.cold.as_deref()?;
        if changes.since(self.version)?.any(|change| cold.is_affected(change)) {
            return None;
        }
        let (mut key, mut mask) = ([0; FLOW_WORDS], [0; FLOW_WORDS]);
        for &(word, bits, value) in &cold.entry {
            (key[usize::from(word)], mask[usize::from(word)]) = (value, bits);
        }
        let (shape, steps) = (cold.shape, &*cold.steps);
        let (packets, bytes) = cold.counts;
        let (packets, bytes) = (packets + u64::from(self.packets), bytes + u64::from(self.bytes));
        let idle = ((now_ns >> USED_SHIFT) as u32).wrapping_sub(self.used);
        let idle_ns = (packets > 0).then_some(u64::from(idle) << USED_SHIFT);
        Some(CachedFlow { shape, key, mask, steps, packets, bytes, idle_ns })
    }

    #[cold]
    fn move_counts(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.counts.0 += u64::from(std::mem::take(&mut self.packets));
            cold.counts.1 += u64::from(std::mem::take(&mut self.bytes));
        }
    }

    /// The program in its short form, if it has one.
    #[inline]
    pub fn plain(&self) -> Option<&Plain> {
        (self.plain.len != NOT_PLAIN).then_some(&self.plain)
    }

    /// All its steps.
    pub fn steps(&self) -> &[Step] {
        self.cold.as_ref().map_or(&[], |cold| &cold.steps)
    }
}

/// Names a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramId {
    pub(crate) place: u32,
    pub(crate) generation: u32,
}

impl ProgramId {
    /// No program.
    pub const NONE: ProgramId = ProgramId { place: u32::MAX, generation: 0 };

    /// Whether it names a program.
    #[inline]
    pub fn is_some(self) -> bool {
        self.place != u32::MAX
    }
}

/// The programs of a cache.
#[derive(Debug)]
pub(crate) struct Programs {
    slots: Vec<Program>,
    free: Vec<u32>,
    programs_max: usize,
    /// Bytes of the [`Cold`] parts.
    bytes: usize,
    bytes_max: usize,
    /// The next program that may go.
    hand: usize,
}

impl Programs {
    pub(crate) fn new(programs_max: usize, bytes_max: usize) -> Self {
        let (slots, free) = (Vec::new(), Vec::new());
        Self { slots, free, programs_max, bytes: 0, bytes_max, hand: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All slots, to be prefetched.
    #[inline]
    pub(crate) fn slots(&self) -> &[Program] {
        &self.slots
    }

    #[inline]
    pub(crate) fn get(&self, id: ProgramId) -> Option<&Program> {
        self.slots.get(id.place as usize).filter(|slot| slot.generation == id.generation)
    }

    /// Counts a packet of a program; returns the program.
    #[inline]
    pub(crate) fn hit(&mut self, id: ProgramId, bytes: usize, now_ns: u64) -> Option<&Program> {
        let slot = self.slots.get_mut(id.place as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        // A packet has less than 2^31 bytes.
        slot.packets += 1;
        slot.bytes += bytes as u32;
        slot.used = (now_ns >> USED_SHIFT) as u32;
        if slot.packets | slot.bytes >= COUNTS_MAX {
            slot.move_counts();
        }
        Some(slot)
    }

    /// The programs that no change affects.
    pub(crate) fn cached_flows<'a>(
        &'a self,
        changes: &'a ChangeLog,
        now_ns: u64,
    ) -> impl Iterator<Item = CachedFlow<'a>> {
        self.slots.iter().filter_map(move |slot| slot.cached_flow(changes, now_ns))
    }

    /// The present id of a place.
    #[inline]
    pub(crate) fn id(&self, place: u32) -> ProgramId {
        ProgramId { place, generation: self.slots[place as usize].generation }
    }

    /// Whether the program is there and no change affects it, which it notes. One that is affected
    /// must be removed.
    #[inline]
    pub(crate) fn check(&mut self, id: ProgramId, changes: &ChangeLog) -> Check {
        let Some(slot) = self.slots.get_mut(id.place as usize) else { return Check::Gone };
        if slot.generation != id.generation || slot.cold.is_none() {
            return Check::Gone;
        }
        if slot.version != changes.version() && !slot.survives(changes) {
            return Check::Affected;
        }
        if !slot.is_used {
            slot.is_used = true;
        }
        Check::Holds
    }

    /// A place for a program: `Err` names one that must be removed first.
    pub(crate) fn room(&mut self) -> Result<(), u32> {
        let has_bytes = self.bytes < self.bytes_max || self.len() == 0;
        if self.len() < self.programs_max && has_bytes {
            return Ok(());
        }
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[place];
            if slot.cold.is_some() && !std::mem::take(&mut slot.is_used) {
                return Err(place as u32);
            }
        }
    }

    /// Adds a program; there is room.
    pub(crate) fn insert(
        &mut self,
        version: u64,
        traversal: &Traversal,
        mask: &FlowKey,
        home: Home,
    ) -> ProgramId {
        let plain = Plain::of(&traversal.steps);
        let cold = Box::new(Cold::of(traversal, mask, home));
        self.bytes += cold.bytes();
        let cold = Some(cold);
        let place = match self.free.pop() {
            Some(place) => {
                let slot = &mut self.slots[place as usize];
                let generation = slot.generation;
                *slot = Program { generation, ..Program::new(version, cold, plain) };
                place
            }
            None => {
                self.slots.push(Program::new(version, cold, plain));
                self.slots.len() as u32 - 1
            }
        };
        self.id(place)
    }

    /// Removes a program; returns where the index by examined bits has it.
    pub(crate) fn remove(&mut self, place: u32) -> Option<Home> {
        let slot = self.slots.get_mut(place as usize)?;
        let cold = slot.cold.take()?;
        self.bytes -= cold.bytes();
        slot.generation = slot.generation.wrapping_add(1);
        slot.is_used = false;
        self.free.push(place);
        Some(cold.home)
    }
}

/// Whether a program may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Holds,
    Affected,
    Gone,
}

impl Program {
    fn new(version: u64, cold: Option<Box<Cold>>, plain: Plain) -> Self {
        let (packets, bytes, used) = (0, 0, 0);
        Self { version, cold, plain, generation: 0, packets, bytes, used, is_used: true }
    }

    /// Looks at the changes since it was last known to hold.
    #[cold]
    fn survives(&mut self, changes: &ChangeLog) -> bool {
        let (Some(cold), Some(mut since)) = (&self.cold, changes.since(self.version)) else {
            return false;
        };
        let survives = !since.any(|change| cold.is_affected(change));
        if survives {
            self.version = changes.version();
        }
        survives
    }
}

const _: () = assert!(size_of::<Program>() == 64, "a program takes one cache line");
