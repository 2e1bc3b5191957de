//! Min-heap of flows by expiry time.
//!
//! Each packet moves the expiry of its flow, nearly always to later. Entries are updated lazily: an
//! entry may hold an earlier time than its flow, and is corrected when it reaches the top. A packet
//! therefore only touches its own flow.
//!
//! # Invariants
//! - H1: an entry's expiry is at most that of its flow, and the entries form a heap by expiry.
//! - H2: `flows[entry.flow].place` is the index of the entry.

use super::flow::Flow;

#[derive(Clone, Copy, Debug)]
struct Entry {
    end_ms: i64,
    flow: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Heap {
    entries: Vec<Entry>,
}

impl Heap {
    /// Number of flows.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds `flow`.
    pub(super) fn push(&mut self, flows: &mut [Flow], flow: u32) {
        self.entries.push(Entry { end_ms: flows[flow as usize].expiry_ms, flow });
        self.rise(flows, self.entries.len() - 1);
    }

    /// Takes out the flow at `place`.
    pub(super) fn remove(&mut self, flows: &mut [Flow], place: usize) {
        self.entries.swap_remove(place);
        if place < self.entries.len() {
            self.settle(flows, place);
        }
    }

    /// Puts right what is at `place` after the end of its flow changed. Needed only if the end is
    /// earlier than it was.
    pub(super) fn changed(&mut self, flows: &mut [Flow], place: usize) {
        let entry = &mut self.entries[place];
        let end_ms = flows[entry.flow as usize].expiry_ms;
        if end_ms < entry.end_ms {
            entry.end_ms = end_ms;
            self.rise(flows, place);
        }
    }

    /// The flow that ends first.
    pub(super) fn first(&mut self, flows: &mut [Flow]) -> Option<u32> {
        loop {
            let Entry { end_ms, flow } = *self.entries.first()?;
            let real_ms = flows[flow as usize].expiry_ms;
            if real_ms == end_ms {
                return Some(flow);
            }
            self.entries[0].end_ms = real_ms;
            self.sink(flows, 0);
        }
    }

    /// The flows, in no order.
    pub(super) fn flows(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|entry| entry.flow)
    }

    fn settle(&mut self, flows: &mut [Flow], place: usize) {
        let place = self.rise(flows, place);
        self.sink(flows, place);
    }

    fn rise(&mut self, flows: &mut [Flow], mut place: usize) -> usize {
        let entry = self.entries[place];
        while place > 0 {
            let above = (place - 1) / 2;
            if self.entries[above].end_ms <= entry.end_ms {
                break;
            }
            self.put(flows, place, self.entries[above]);
            place = above;
        }
        self.put(flows, place, entry);
        place
    }

    fn sink(&mut self, flows: &mut [Flow], mut place: usize) {
        let entry = self.entries[place];
        loop {
            let mut below = 2 * place + 1;
            if below >= self.entries.len() {
                break;
            }
            if let Some(right) = self.entries.get(below + 1)
                && right.end_ms < self.entries[below].end_ms
            {
                below += 1;
            }
            if entry.end_ms <= self.entries[below].end_ms {
                break;
            }
            self.put(flows, place, self.entries[below]);
            place = below;
        }
        self.put(flows, place, entry);
    }

    fn put(&mut self, flows: &mut [Flow], place: usize, entry: Entry) {
        self.entries[place] = entry;
        flows[entry.flow as usize].place = place as u32;
    }
}
