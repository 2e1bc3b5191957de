//! The flows of all tables, by place: a number that stays while the flow is there.

use warpswitch_rules::openflow::{Flow, FlowAction, FlowStats, Instructions, port};

/// A flow, and when it came.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The flow.
    pub(crate) flow: Flow,
    /// Grows with every flow: which of two was added first.
    pub(crate) order: u64,
    /// When it was added, in nanoseconds.
    pub(crate) created_ns: u64,
    /// Whether its packets that go to controllers count as missed by the table.
    pub(crate) is_table_miss: bool,
}

/// What a flow has counted: half of a cache line, never parts of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(32))]
pub(crate) struct FlowCounters {
    /// Packets that it matched.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// When the last one came, or the flow itself.
    pub(crate) used_ns: u64,
    /// What most packets need of the flow.
    pub(crate) plan: Plan,
}

/// What most packets need of a flow, beside its counters: a flow itself takes ten cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) counts_packets: bool,
    pub(crate) counts_bytes: bool,
    /// Whether the flow does nothing but output to `port` and go on with `next`.
    pub(crate) is_plain: bool,
    /// The table plus one in which the packet is looked up next with the same key; 0 for none.
    next: u8,
    /// A real port; 0 for none.
    pub(crate) port: u32,
}

impl Plan {
    pub(crate) fn of(flow: &Flow) -> Self {
        let Instructions { meter, apply, write, metadata, goto_table, .. } = &flow.instructions;
        let keeps_key = |action: &FlowAction| {
            use FlowAction::{Controller, Group, Note, Output, OutputBits, SetQueue};
            matches!(
                action,
                Output { .. }
                    | OutputBits { .. }
                    | Controller { .. }
                    | Group(_)
                    | Note(_)
                    | SetQueue(_)
                    | FlowAction::PopQueue
            )
        };
        let (is_plain, port) = match apply[..] {
            [] => (true, 0),
            [FlowAction::Output { port, .. }] => ((1..=port::MAX).contains(&port), port),
            _ => (false, 0),
        };
        let is_still = meter.is_none() && metadata.is_none();
        Self {
            counts_packets: !flow.flags.no_packet_counts,
            counts_bytes: !flow.flags.no_byte_counts,
            is_plain: is_plain && is_still && write.is_empty(),
            next: match goto_table {
                Some(next) if is_still && apply.iter().all(keeps_key) => next + 1,
                _ => 0,
            },
            port,
        }
    }

    /// A table in which the packet is looked up next with the same key.
    #[inline]
    pub(crate) fn next(self) -> Option<u8> {
        self.next.checked_sub(1)
    }
}

/// Flows by place. Counters lie beside, so that a packet can change them while it reads a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flows {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    added: u64,
}

impl Flows {
    /// The flow at a place that is in use.
    #[inline]
    pub(crate) fn get(&self, place: u32) -> &Entry {
        self.entries[place as usize].as_ref().expect("tables hold places in use")
    }

    /// The flow at a place, if the place is in use.
    pub(crate) fn find(&self, place: u32) -> Option<&Entry> {
        self.entries.get(place as usize)?.as_ref()
    }

    /// The same, to be changed: not its match or priority, by which tables find it.
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Entry {
        self.entries[place as usize].as_mut().expect("tables hold places in use")
    }

    /// The flow that was the `order`-th to be added, if it is still at `place`.
    pub(crate) fn get_if(&self, place: u32, order: u64) -> Option<&Entry> {
        self.entries.get(place as usize)?.as_ref().filter(|entry| entry.order == order)
    }

    /// Adds a flow.
    pub(crate) fn insert(&mut self, flow: Flow, now: u64) -> u32 {
        let is_table_miss =
            flow.priority == 0 && flow.matching.mask().iter().all(|&bits| bits == 0);
        let entry = Entry { flow, order: self.added, created_ns: now, is_table_miss };
        self.added += 1;
        if let Some(place) = self.free.pop() {
            self.entries[place as usize] = Some(entry);
            return place;
        }
        self.entries.push(Some(entry));
        self.entries.len() as u32 - 1
    }

    /// Puts a flow back that was the last to be taken out: at its place, and as old as it was.
    pub(crate) fn put_back(&mut self, entry: Entry) -> u32 {
        let place = self.free.pop().expect("it was taken out");
        self.entries[place as usize] = Some(entry);
        place
    }

    /// Takes a flow out; its place may be used again.
    pub(crate) fn remove(&mut self, place: u32) -> Entry {
        self.free.push(place);
        self.entries[place as usize].take().expect("tables hold places in use")
    }

    /// How many flows.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl Entry {
    /// The flow with its counters.
    pub(crate) fn into_stats(self, counters: FlowCounters, now: u64) -> FlowStats {
        FlowStats {
            packets: counters.packets,
            bytes: counters.bytes,
            age_ns: now.saturating_sub(self.created_ns),
            flow: self.flow,
        }
    }
}

const _: () = assert!(size_of::<FlowCounters>() == 32, "two flows in a cache line");
