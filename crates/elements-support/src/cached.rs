//! Cached results, as used by elements: answers that a device, or a cache in front of a table, has
//! computed before the packet arrives.
//!
//! ```text
//! table ─ changes ─► followers: copies of the table on a device, caches of its answers
//!       ─ version ─► results: version, owner, key → answer ─► packets ─► the element
//! ```
//! An element that looks packets up in a table implements [`CachedLookup`] and publishes each
//! change of its table. It uses the result of a packet instead of a lookup if the result is of the
//! current version of the table, for this element, and for the key that the element itself would
//! look up. It looks up all other packets. Results thus change the cost of a packet, and nothing
//! else. The element does not depend on who computes them, and where.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use warpswitch_graph::Element;
use warpswitch_packet::{Batch, CACHED_RESULTS, CachedResult, Packet};

/// An element that uses cached results.
pub trait CachedLookup: Element {
    /// A change of its table.
    type Change: 'static;

    /// Its part in this: the versions that it publishes, and the results that it uses.
    fn results(&mut self) -> &mut CachedResults<Self::Change>;
}

/// The version of a table: a number that goes up with each change, from 1.
///
/// Threads: tables change in handlers, while no element is at work; nothing else is handed over
/// with it.
#[derive(Debug)]
pub struct TableVersion(AtomicU32);

impl Default for TableVersion {
    fn default() -> Self {
        Self(AtomicU32::new(1))
    }
}

impl TableVersion {
    /// The number; never 0.
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// The table has changed: earlier results are no longer valid.
    fn renew(&self) {
        if self.0.fetch_add(1, Ordering::Relaxed) == u32::MAX {
            self.renew();
        }
    }
}

/// Keeps a copy of a table up to date.
pub trait TableFollower<C>: Any + Debug + Send + Sync {
    /// Makes these changes in the copy; false if the copy has no room for them. It is not used any
    /// more then.
    fn follow(&self, changes: &[C]) -> bool;
}

/// Reads the time since a fixed moment.
pub type Clock = fn() -> Duration;

/// What lookups cost that elements do themselves, and what it costs to use results instead: for a
/// policy that decides which is cheaper.
///
/// Threads: sums of measurements; nothing else is handed over with them.
#[derive(Debug, Default)]
pub struct LookupCosts {
    clock: Option<Clock>,
    /// Nanoseconds and packets, by slot.
    lookups: [Sum; CACHED_RESULTS],
    results: [Sum; CACHED_RESULTS],
}

/// Nanoseconds, and how many packets took them.
#[derive(Debug, Default)]
struct Sum(AtomicU64, AtomicU64);

impl Sum {
    fn add(&self, took: Duration, packets: usize) {
        self.0.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        self.1.fetch_add(packets as u64, Ordering::Relaxed);
    }

    /// Nanoseconds a packet of all sums.
    fn packet_ns(sums: &[Self]) -> f64 {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed) as f64;
        sums.iter().map(|Self(ns, packets)| load(ns) / load(packets).max(1.0)).sum()
    }
}

impl LookupCosts {
    /// Measured by `clock`; nothing is measured without one.
    pub fn new(clock: Option<Clock>) -> Self {
        Self { clock, ..Self::default() }
    }

    /// The clock.
    pub fn clock(&self) -> Option<Clock> {
        self.clock
    }

    /// Nanoseconds that all lookups of a packet cost, as far as they were measured.
    pub fn packet_ns(&self) -> f64 {
        Sum::packet_ns(&self.lookups)
    }

    /// Nanoseconds that it costs to use results in their place: a packet that waited for a device
    /// has left the first cache.
    pub fn result_ns(&self) -> f64 {
        Sum::packet_ns(&self.results)
    }
}

/// Why results were not used, in the order of [`Unused`]. The last one is for results that refer to
/// a list, which only some do.
const REASONS: [&str; 5] = [
    "no cached result",
    "table has changed",
    "result of another element",
    "result for another key",
    "list was overwritten",
];
const OTHER_KEY: usize = 3;
const LIST_GONE: usize = 4;

/// Packets that were looked up although they could have had a result, by reason. As batches are
/// looked up whole, the first packet without a valid result stands for its batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unused([u64; REASONS.len()]);

impl Unused {
    /// A line for each reason, `PACKETS<tab>REASON`, for results that have no lists.
    pub fn text(&self) -> String {
        self.lines(LIST_GONE)
    }

    /// The same for results that may refer to lists.
    pub fn text_with_lists(&self) -> String {
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

/// An element's part: the version and the followers of its table, and the results that it uses.
#[derive(Debug)]
pub struct CachedResults<C> {
    version: Arc<TableVersion>,
    followers: Vec<Arc<dyn TableFollower<C>>>,
    accepted: Option<Accepted>,
}

/// Which results an element uses.
#[derive(Clone, Debug)]
struct Accepted {
    slot: usize,
    owner: u16,
    costs: Arc<LookupCosts>,
    /// Whether some packets of a batch may have results, and others none.
    takes_parts: bool,
    used: u64,
    unused: Unused,
}

impl<C> Default for CachedResults<C> {
    fn default() -> Self {
        Self { version: Arc::default(), followers: Vec::new(), accepted: None }
    }
}

impl<C> Clone for CachedResults<C> {
    fn clone(&self) -> Self {
        let Self { version, followers, accepted } = self;
        Self { version: version.clone(), followers: followers.clone(), accepted: accepted.clone() }
    }
}

/// The number of an element that uses results: another one each time, never 0.
fn new_owner() -> u16 {
    static OWNERS: AtomicU32 = AtomicU32::new(0);
    // When numbers begin anew, no packet has results of so long ago.
    (OWNERS.fetch_add(1, Ordering::Relaxed) % u32::from(u16::MAX)) as u16 + 1
}

/// For who computes results.
impl<C: 'static> CachedResults<C> {
    /// Uses results in `slot` of packets from now on, and measures what lookups cost. Gives the
    /// owner that these have to have; `None` if the element uses another slot already.
    pub fn accept(&mut self, slot: usize, costs: &Arc<LookupCosts>) -> Option<u16> {
        let accepted = self.accepted.get_or_insert_with(|| Accepted {
            slot,
            owner: new_owner(),
            costs: costs.clone(),
            takes_parts: false,
            used: 0,
            unused: Unused::default(),
        });
        // A policy needs times; a cache on the host measures none.
        if accepted.costs.clock.is_none() {
            accepted.costs = costs.clone();
        }
        (accepted.slot == slot).then_some(accepted.owner)
    }

    /// The same where the results are of some packets of a batch: the element looks up the others
    /// only, and not the whole batch.
    pub fn accept_parts(&mut self, slot: usize, costs: &Arc<LookupCosts>) -> Option<u16> {
        let owner = self.accept(slot, costs)?;
        if let Some(accepted) = &mut self.accepted {
            accepted.takes_parts = true;
        }
        Some(owner)
    }

    /// The version of the table.
    pub fn version(&self) -> &Arc<TableVersion> {
        &self.version
    }

    /// The follower of a type, if there is one.
    pub fn follower<F: TableFollower<C>>(&self) -> Option<Arc<F>> {
        self.followers.iter().find_map(|follower| {
            let any: Arc<dyn Any + Send + Sync> = follower.clone();
            any.downcast().ok()
        })
    }

    /// Has `follower`, which is a copy of the table as it is now, make all changes from now on.
    pub fn follow(&mut self, follower: Arc<dyn TableFollower<C>>) {
        self.followers.push(follower);
    }

    /// Whether answers that were computed from `version` of a follower are what the table gives.
    pub fn holds(&self, version: u32) -> bool {
        !self.followers.is_empty() && self.version.get() == version
    }
}

/// For the element.
impl<C: 'static> CachedResults<C> {
    /// Whether changes have to be published.
    pub fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }

    /// Publishes changes of the table: followers make them, and earlier results are no longer used.
    /// If a follower has no room, no results are used from now on.
    pub fn publish(&mut self, changes: &[C]) {
        self.version.renew();
        // Each of them gets the changes, whatever becomes of another.
        let has_room =
            self.followers.iter().fold(true, |all, follower| follower.follow(changes) & all);
        if !has_room {
            (self.followers, self.accepted) = (Vec::new(), None);
        }
    }

    /// Fills `found` for the packets of `batch`: from their results if all have valid ones, else by
    /// `look_up`. `is_key` returns whether the element would look up a key for a packet.
    #[inline]
    pub fn find<T>(
        &mut self,
        batch: &Batch,
        found: &mut [T],
        is_key: impl Fn(&Packet, u32) -> bool,
        answer: impl Fn(u32) -> T,
        look_up: impl FnOnce(&mut [T]),
    ) {
        if self.take(batch, is_key, found, answer) {
            return;
        }
        let began = self.begin_timing();
        look_up(found);
        self.end_timing(began, batch.len());
    }

    /// Puts the results of all packets of `batch` into `found`; false, and `found` is undefined, if
    /// one has none that is valid. See [`CachedResults::find`].
    #[inline]
    pub fn take<T>(
        &mut self,
        batch: &Batch,
        is_key: impl Fn(&Packet, u32) -> bool,
        found: &mut [T],
        answer: impl Fn(u32) -> T,
    ) -> bool {
        let Some(accepted) = &mut self.accepted else { return false };
        if batch.lent_frames().is_some() {
            // No packet was touched yet: not to touch them now is half of what a batch costs that
            // has no results.
            accepted.unused.0[0] += batch.len() as u64;
            return false;
        }
        let clock = accepted.costs.clock;
        let (began, version) = (clock.map(|clock| clock()), self.version.get());
        let (slot, owner) = (accepted.slot, accepted.owner);
        for (packet, found) in batch.iter().zip(&mut *found) {
            match packet.cached(slot) {
                Some(result)
                    if result.version == version
                        && result.owner == owner
                        && is_key(packet, result.key) =>
                {
                    *found = answer(result.answer);
                }
                other => {
                    accepted.miss(other, version, batch.len());
                    return false;
                }
            }
        }
        accepted.used += batch.len() as u64;
        if let (Some(clock), Some(began)) = (clock, began) {
            accepted.costs.results[slot].add(clock().saturating_sub(began), batch.len());
        }
        true
    }

    /// The result of one packet; its key is for the caller to check. A packet without one is
    /// counted.
    #[inline]
    pub fn result_of<'p>(&mut self, packet: &'p Packet) -> Option<(&'p Packet, CachedResult)> {
        let (accepted, version) = (self.accepted.as_mut()?, self.version.get());
        match packet.cached(accepted.slot) {
            Some(result) if result.version == version && result.owner == accepted.owner => {
                accepted.used += 1;
                Some((packet, result))
            }
            other => {
                accepted.miss(other, version, 1);
                None
            }
        }
    }

    /// Counts results as not used: those whose lists were overwritten, and those for other keys.
    pub fn give_back(&mut self, gone: usize, others: usize) {
        if let Some(accepted) = &mut self.accepted {
            accepted.used -= (gone + others) as u64;
            accepted.unused.0[LIST_GONE] += gone as u64;
            accepted.unused.0[OTHER_KEY] += others as u64;
        }
    }

    /// Whether batches may have results for some of their packets only.
    pub fn takes_parts(&self) -> bool {
        self.accepted.as_ref().is_some_and(|accepted| accepted.takes_parts)
    }

    /// Whether results are used.
    pub fn is_accepting(&self) -> bool {
        self.accepted.is_some()
    }

    /// Before a lookup: when it begins, if that is measured.
    #[inline]
    pub fn begin_timing(&self) -> Option<Duration> {
        let clock = self.accepted.as_ref()?.costs.clock?;
        Some(clock())
    }

    /// Notes what the lookup of `packets` packets cost.
    #[inline]
    pub fn end_timing(&self, began: Option<Duration>, packets: usize) {
        if let (Some(accepted), Some(began)) = (&self.accepted, began)
            && let Some(clock) = accepted.costs.clock
        {
            self.note(clock().saturating_sub(began), packets);
        }
    }

    /// Notes that lookups of `packets` packets took so long.
    pub fn note(&self, took: Duration, packets: usize) {
        if let Some(accepted) = &self.accepted {
            accepted.costs.lookups[accepted.slot].add(took, packets);
        }
    }

    /// Packets whose results were used.
    pub fn used(&self) -> u64 {
        self.accepted.as_ref().map_or(0, |accepted| accepted.used)
    }

    /// Those whose results were not, by reason.
    pub fn unused(&self) -> Unused {
        self.accepted.as_ref().map(|accepted| accepted.unused).unwrap_or_default()
    }

    /// That of a copy of the element, which has counted nothing yet.
    pub fn of_copy(&self) -> Self {
        let accepted = self.accepted.clone();
        let accepted = accepted.map(|a| Accepted { used: 0, unused: Unused::default(), ..a });
        Self { accepted, ..self.clone() }
    }

    /// Adds what a copy has counted.
    pub fn absorb(&mut self, copy: &Self) {
        if let (Some(own), Some(copy)) = (&mut self.accepted, &copy.accepted) {
            own.used += copy.used;
            own.unused.absorb(&copy.unused);
        }
    }
}

impl Accepted {
    /// Counts packets whose results are not used because one has `result`.
    #[cold]
    fn miss(&mut self, result: Option<CachedResult>, version: u32, packets: usize) {
        let why = match result {
            None => 0,
            Some(result) if result.owner != self.owner => 2,
            Some(result) if result.version != version => 1,
            Some(_) => OTHER_KEY,
        };
        self.unused.0[why] += packets as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn packet(result: CachedResult) -> Packet {
        let mut packet = Packet::new();
        packet.set_data(&[0; 64]);
        packet.set_cached([result, CachedResult::NONE]);
        packet
    }

    #[derive(Debug)]
    struct Copy(Mutex<Vec<u32>>, usize);

    impl TableFollower<u32> for Copy {
        fn follow(&self, changes: &[u32]) -> bool {
            let mut made = self.0.lock().unwrap();
            made.extend(changes);
            made.len() <= self.1
        }
    }

    /// Only a result of this version, for this element and this key, is used.
    #[test]
    fn each_reason_has_its_own_count() {
        let mut results = CachedResults::<u32>::default();
        let owner = results.accept(0, &Arc::default()).expect("the first slot");
        assert_eq!(results.accept(0, &Arc::default()), Some(owner));
        assert_eq!(results.accept(1, &Arc::default()), None, "it uses another slot");
        let version = results.version().get();
        let valid = CachedResult { version, owner, key: 7, answer: 9 };
        let mut found = [0];
        let mut take = |results: &mut CachedResults<u32>, result| {
            let mut batch = Batch::new();
            batch.push(packet(result));
            found[0] = 0;
            results.find(
                &batch,
                &mut found,
                |_, key| key == 7,
                |answer| answer,
                |found| found[0] = 1,
            );
            found[0]
        };
        assert_eq!(take(&mut results, valid), 9);
        assert_eq!(take(&mut results, CachedResult::NONE), 1);
        assert_eq!(take(&mut results, CachedResult { version: version + 1, ..valid }), 1);
        assert_eq!(take(&mut results, CachedResult { owner: owner + 1, ..valid }), 1);
        assert_eq!(take(&mut results, CachedResult { key: 8, ..valid }), 1);
        let expected = "1\tno cached result\n1\ttable has changed\n1\tresult of another element\n\
            1\tresult for another key\n";
        assert_eq!((results.used(), results.unused().text().as_str()), (1, expected));
        results.publish(&[]);
        assert_eq!(take(&mut results, valid), 1, "the table has changed");
        let packet = packet(CachedResult { version: results.version().get(), ..valid });
        assert!(results.result_of(&packet).is_some() && results.result_of(&packet).is_some());
        results.give_back(1, 1);
        assert_eq!(results.used(), 1);
        assert!(results.unused().text_with_lists().ends_with("1\tlist was overwritten\n"));
    }

    #[test]
    fn results_are_not_used_once_a_follower_has_no_room() {
        let mut results = CachedResults::<u32>::default();
        results.accept(0, &Arc::default()).expect("the first slot");
        let (large, small) = [9, 2].map(|room| Arc::new(Copy(Mutex::default(), room))).into();
        results.follow(large.clone());
        results.follow(small);
        assert!(Arc::ptr_eq(&results.follower::<Copy>().expect("it follows"), &large));
        results.publish(&[1, 2]);
        let version = results.version().get();
        assert!(results.holds(version) && !results.holds(version - 1));
        results.publish(&[3]);
        assert_eq!(*large.0.lock().unwrap(), [1, 2, 3]);
        assert!(!results.has_followers() && !results.is_accepting());
        assert!(!results.holds(results.version().get()));
    }
}
