//! Lookups that were done ahead, as the elements that they are for see them.
//!
//! ```text
//! frames ─► Batcher … GPUIPLookup(FOR rt) … Debatcher ─► Strip ─► CheckIPHeader ─► rt
//!                          answers travel with the packets ─────────────────────────┘
//! ```
//! The element makes sure of each answer: that its tables are those that the answer came from (the
//! *stamp*), and that the answer is about what it would look up itself (the *proof*). What is not
//! so it looks up. So the answers change what a packet costs, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use warpswitch_packet::{AHEAD_LOOKUPS, AheadAnswer, Batch, Packet};

/// The state of all tables that answers come from: a number that goes up with each change.
///
/// Threads: tables change in handlers, while no element is at work; nothing else is handed over
/// with it.
#[derive(Debug)]
pub(crate) struct Stamp(AtomicU32);

impl Default for Stamp {
    fn default() -> Self {
        // 0 is that of no answers.
        Self(AtomicU32::new(1))
    }
}

impl Stamp {
    /// The number.
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// A table has changed: answers of before hold no longer.
    pub(crate) fn renew(&self) {
        if self.0.fetch_add(1, Ordering::Relaxed) == u32::MAX {
            self.renew();
        }
    }
}

/// Tells the time since some moment that stays the same.
pub(crate) type Clock = fn() -> Duration;

/// What lookups cost that elements do themselves, to be compared with those ahead.
///
/// Threads: sums of measures; nothing else is handed over with them.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    /// None where nobody wants to know.
    pub(crate) clock: Option<Clock>,
    /// Nanoseconds and packets, of each lookup.
    sums: [(AtomicU64, AtomicU64); AHEAD_LOOKUPS],
    /// The same of answers that were taken in its place: packets that wait for a device are looked
    /// at once more, when caches have forgotten them.
    taken: [(AtomicU64, AtomicU64); AHEAD_LOOKUPS],
}

/// Nanoseconds a packet of all sums.
fn packet_ns(sums: &[(AtomicU64, AtomicU64)]) -> f64 {
    let load = |number: &AtomicU64| number.load(Ordering::Relaxed) as f64;
    sums.iter().map(|(ns, packets)| load(ns) / load(packets).max(1.0)).sum()
}

fn add((ns, count): &(AtomicU64, AtomicU64), took: Duration, packets: usize) {
    ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    count.fetch_add(packets as u64, Ordering::Relaxed);
}

impl Costs {
    /// Costs by `clock`.
    pub(crate) fn new(clock: Option<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Nanoseconds that all lookups of a packet cost, as far as is known.
    pub(crate) fn packet_ns(&self) -> f64 {
        packet_ns(&self.sums)
    }

    /// What it costs to take answers in their place, the same.
    pub(crate) fn taken_ns(&self) -> f64 {
        packet_ns(&self.taken)
    }
}

/// Why answers were not taken, in the order of [`Missed`]. The last one is of answers that say
/// where a list is, which only some have.
const REASONS: [&str; 5] = [
    "no answer",
    "tables have changed",
    "for another element",
    "about something else",
    "its list is gone",
];
const SOMETHING_ELSE: usize = 3;
const LIST_GONE: usize = 4;

/// Packets that were looked up although they might have had an answer, by reason. As batches are
/// looked up as a whole, the first packet without an answer that holds speaks for all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Missed([u64; REASONS.len()]);

impl Missed {
    /// A line for each reason, as `drops_by_reason` has them, of answers that have no lists.
    pub(crate) fn text(&self) -> String {
        self.lines(LIST_GONE)
    }

    /// The same of answers that may have some.
    pub(crate) fn text_with_lists(&self) -> String {
        self.lines(REASONS.len())
    }

    fn lines(&self, reasons: usize) -> String {
        let lines = self.0.iter().zip(REASONS).take(reasons);
        lines.map(|(packets, reason)| format!("{packets}\t{reason}\n")).collect()
    }

    fn absorb(&mut self, copy: &Self) {
        self.0.iter_mut().zip(copy.0).for_each(|(own, more)| *own += more);
    }
}

/// Where an element finds its answers.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    pub(crate) stamp: Arc<Stamp>,
    pub(crate) costs: Arc<Costs>,
    /// Where a packet has answers for it.
    pub(crate) lookup: usize,
    /// Whose these must be: its own.
    pub(crate) owner: u16,
    /// Packets whose answers it took.
    pub(crate) taken: u64,
    /// Those that it looked up itself.
    pub(crate) missed: Missed,
}

impl Ahead {
    /// The same with nothing counted.
    pub(crate) fn uncounted(&self) -> Self {
        Self { taken: 0, missed: Missed::default(), ..self.clone() }
    }

    /// Adds what a copy has counted.
    pub(crate) fn absorb(&mut self, copy: &Self) {
        self.taken += copy.taken;
        self.missed.absorb(&copy.missed);
    }

    /// The answer for a packet, and the packet; what a packet without one misses is counted. What
    /// the answer proves is for the caller to look at.
    #[inline]
    pub(crate) fn answer<'p>(&mut self, packet: &'p Packet) -> Option<(&'p Packet, AheadAnswer)> {
        let ahead = packet.ahead(self.stamp.get(), self.lookup);
        let Some(ahead) = ahead.filter(|ahead| ahead.owner == self.owner) else {
            self.miss(packet, 1);
            return None;
        };
        self.taken += 1;
        Some((packet, ahead))
    }

    /// Counts answers that were taken as none: those whose lists are gone, and those that are about
    /// other bytes.
    pub(crate) fn give_back(&mut self, gone: usize, others: usize) {
        self.taken -= (gone + others) as u64;
        self.missed.0[LIST_GONE] += gone as u64;
        self.missed.0[SOMETHING_ELSE] += others as u64;
    }

    /// Counts a batch whose answers are not taken because of `packet`.
    #[cold]
    fn miss(&mut self, packet: &Packet, packets: usize) {
        let why = match packet.ahead_from(self.lookup) {
            None => 0,
            Some((_, stamp)) if stamp != self.stamp.get() => 1,
            Some((owner, _)) if owner != self.owner => 2,
            Some(_) => SOMETHING_ELSE,
        };
        self.missed.0[why] += packets as u64;
    }

    /// Before a lookup that was not done ahead: when it begins, if anybody wants to know.
    #[inline]
    pub(crate) fn begin_timing(ahead: Option<&Self>) -> Option<Duration> {
        let clock = ahead?.costs.clock?;
        Some(clock())
    }

    /// Notes what the lookup of `packets` packets cost.
    #[inline]
    pub(crate) fn end_timing(ahead: Option<&Self>, began: Option<Duration>, packets: usize) {
        if let (Some(ahead), Some(began)) = (ahead, began)
            && let Some(clock) = ahead.costs.clock
        {
            ahead.note(clock().saturating_sub(began), packets);
        }
    }

    /// Notes that lookups of `packets` packets, not done ahead, took so long.
    #[inline]
    pub(crate) fn note(&self, took: Duration, packets: usize) {
        add(&self.costs.sums[self.lookup], took, packets);
    }

    /// Puts the answers for all packets of `batch` into `found`; false, and `found` is undefined,
    /// if one has none that holds. `is_proven` tells whether what the element would look up is what
    /// an answer's proof says.
    #[inline]
    pub(crate) fn take<T>(
        &mut self,
        batch: &Batch,
        is_proven: impl Fn(&Packet, u32) -> bool,
        found: &mut [T],
        answer: impl Fn(u32) -> T,
    ) -> bool {
        if batch.lent_frames().is_some() {
            // Nobody has looked at any packet yet: not to do so now is half of what a batch costs
            // that passed by the device.
            self.missed.0[0] += batch.len() as u64;
            return false;
        }
        let began = self.costs.clock.map(|clock| clock());
        let stamp = self.stamp.get();
        for (packet, found) in batch.iter().zip(&mut *found) {
            match packet.ahead(stamp, self.lookup) {
                Some(ahead) if ahead.owner == self.owner && is_proven(packet, ahead.proof) => {
                    *found = answer(ahead.answer);
                }
                _ => {
                    self.miss(packet, batch.len());
                    return false;
                }
            }
        }
        self.taken += batch.len() as u64;
        if let (Some(clock), Some(began)) = (self.costs.clock, began) {
            let took = clock().saturating_sub(began);
            add(&self.costs.taken[self.lookup], took, batch.len());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer whose list is gone is told apart from none, and from one about other bytes.
    #[test]
    fn each_reason_has_its_own_count() {
        let (stamp, costs) = (Arc::default(), Arc::default());
        let missed = Missed::default();
        let mut ahead = Ahead { stamp, costs, lookup: 0, owner: 1, taken: 0, missed };
        let mut packet = Packet::new();
        packet.set_data(&[0; 64]);
        assert!(ahead.answer(&packet).is_none());
        ahead.taken = 9;
        ahead.give_back(2, 3);
        assert_eq!(ahead.taken, 4);
        let shared = "1\tno answer\n0\ttables have changed\n0\tfor another element\n\
            3\tabout something else\n";
        assert_eq!(ahead.missed.text(), shared);
        assert_eq!(ahead.missed.text_with_lists(), format!("{shared}2\tits list is gone\n"));
    }
}
