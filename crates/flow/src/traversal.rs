//! Traversals of a pipeline: what one packet met, recorded so that others can repeat it.
//!
//! ```text
//! packet ─► table 0 ─► table 3 ─► table 7 ─► action set          visits: bits examined in each
//!             │ steps     │ steps     │ steps    │ steps         steps: primitive, in order
//!             └───────────┴───────────┴──────────┴──► any packet that agrees in all examined
//!                                                      bits takes the same steps
//! ```
//! # Invariants
//! - T1: examined bits are conservative: a packet of the same shape whose key agrees with
//!   [`Traversal::key`] in them takes the same steps. More bits cost hits, fewer cost correctness.
//! - T2: a step has no free choice left: fields get constants, a group its chosen bucket, a flood
//!   its ports. Only meters and TTLs are decided when a step is repeated; both end a packet.
//! - T3: what a step refers to by number (flows, groups, meters) holds until a change that affects
//!   the traversal. A cache answers with a traversal only if no change since its recording affects
//!   it ([`crate::change_log`]).
//! - T4: a traversal whose later lookups depend on bytes that the key at entry does not show is not
//!   cacheable, e.g. a lookup behind a pop that uncovers a header.

use warpswitch_rules::openflow::{FLOW_WORDS, FlowAction, FlowKey, MatchField, PacketInReason};

use crate::change_log::ChangeLog;
use crate::packed_key::PackedKey;
use crate::programs::{Program, ProgramId};

/// What a key does not show of the headers it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// A number that frames with the same headers share; not [`Shape::NONE`].
    pub number: u32,
    /// The words of a key that may be other than zero in packets of this number, ascending; always
    /// the same for one number.
    pub words: &'static [u8],
}

impl Shape {
    /// No shape has this number.
    pub const NONE: u32 = u32::MAX;
}

/// One primitive step of a traversal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A flow of a table matched: it and the table are credited, and packet-ins from now on are
    /// its own.
    Match {
        /// The table.
        table: u8,
        /// The flow's place in the pipeline.
        flow: u32,
    },
    /// No flow of the table matched.
    Miss {
        /// The table.
        table: u8,
    },
    /// Packet-ins from now on belong to this flow again.
    Origin {
        /// The table.
        table: u8,
        /// The flow's place in the pipeline.
        flow: u32,
    },
    /// A group is credited with the packet, and its bucket.
    Bucket {
        /// The group.
        group: u32,
        /// The bucket's place in it; none if the group has no live one.
        bucket: Option<u32>,
    },
    /// A meter measures the packet, and perhaps ends it.
    Meter(u32),
    /// Bits of a field get a constant.
    Set {
        /// The field.
        field: &'static MatchField,
        /// The bits.
        value: u128,
        /// Which.
        mask: u128,
    },
    /// An action that changes the headers: tags and TTLs. An ended TTL ends the packet.
    Edit(FlowAction),
    /// A copy leaves by a real port.
    Output(u32),
    /// A copy goes to the controllers.
    Controller {
        /// Bytes of it.
        max_len: u16,
        /// Why.
        reason: PacketInReason,
    },
    /// A copy goes to the learning switch of the caller.
    Normal,
    /// Copies from now on leave by this queue.
    Queue(Option<u32>),
    /// The packet as it is now is put aside.
    Save,
    /// It is taken up again; here goes on a packet that was ended since.
    Restore,
}

/// A table that a packet visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The table.
    pub table: u8,
    /// The place of the flow that matched, and its priority.
    pub flow: Option<(u32, u16)>,
    /// The key when the packet entered the table.
    pub key: FlowKey,
    /// The bits examined there: of the lookup, and of the actions up to the next visit.
    pub examined: FlowKey,
    /// The number of steps that had been made before.
    pub steps_before: u32,
}

/// What one packet met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traversal {
    /// The key at entry.
    pub key: FlowKey,
    /// The headers at entry.
    pub shape: Shape,
    /// The tables, in order.
    pub visits: Vec<Visit>,
    /// All steps, in order.
    pub steps: Vec<Step>,
    /// Whether others may repeat it.
    pub is_cacheable: bool,
}

impl Traversal {
    /// A traversal that has not begun.
    pub fn new(key: &FlowKey, shape: Shape) -> Self {
        Self { key: *key, shape, visits: Vec::new(), steps: Vec::new(), is_cacheable: true }
    }

    /// The bits of the key at entry that were examined in any table.
    pub fn examined(&self) -> FlowKey {
        let mut union = [0; FLOW_WORDS];
        for visit in &self.visits {
            for (bits, examined) in union.iter_mut().zip(visit.examined) {
                *bits |= examined;
            }
        }
        union
    }
}

/// A cache of traversals.
pub trait TraversalCache {
    /// Looks up a burst: `found[i]` gets the program of the packet with `keys[i]`, or
    /// [`ProgramId::NONE`]. No program is one that a change in `changes` affects.
    ///
    /// # Panics
    /// If the lists differ in length: a caller bug.
    fn lookup(&mut self, changes: &ChangeLog, keys: &[PackedKey], found: &mut [ProgramId]);

    /// Looks up one packet that a lookup did not find, after inserts; it counts once.
    fn lookup_again(&mut self, changes: &ChangeLog, key: &PackedKey) -> ProgramId;

    /// The program that a lookup found, unless an insert evicted it since.
    fn program(&self, id: ProgramId) -> Option<&Program>;

    /// The same; counts a packet of so many bytes.
    fn hit(&mut self, id: ProgramId, bytes: usize, now_ns: u64) -> Option<&Program>;

    /// Keeps a traversal of a pipeline of this version, if it is worth it.
    fn insert(&mut self, version: u64, traversal: &Traversal);

    /// Traversals that it holds, also those that a later change affects.
    fn len(&self) -> usize;

    /// Whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
