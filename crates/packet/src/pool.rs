//! The pool that packets and batches come from and go back to.
//!
//! A worker has a pool. What was used last is used next, so a short path stays in the nearest
//! cache, and once a run has met its largest load nothing is allocated any more.
//!
//! Where packets move between workers, one pool would run dry while another overflows: pools of one
//! [`Depot`] exchange their spares through it, a magazine at a time (Bonwick and Adams, "Magazines
//! and Vmem", USENIX 2001, section 3). A pool keeps as many spares as it had packets out at once:
//! all that come back to it are its own then, where none move. Packets that go round between
//! workers without need are dear: they lie in another core's cache, and who lent them their bytes
//! last is another one, see [`crate::lend`]. Spares are bounded by 65,536 packets for each worker,
//! and as many for all.
//!
//! # Invariants
//! - Q1: packets given out and not put back are counted: at the end of a run that number is what
//!   elements say they hold, or one was lost.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::batch::Batch;
use crate::deal::move_last;
use crate::lend::{Lender, Loaned};
use crate::packet::{HEADROOM_BYTES, Packet};

/// Spare packets that are kept for use; more go back to the system.
const SPARE_PACKETS_MAX: usize = 1 << 16;
/// Spare packets with a buffer of [`LARGE_BYTES`] that are kept for use: 4 MiB.
const LARGE_SPARES_MAX: usize = 64;
/// Bytes of the data of a packet that a sender left its device to segment: 64 KiB of IP, and
/// headers.
pub const LARGE_BYTES: usize = (1 << 16) + 256;
/// Spare batches that are kept for use.
const SPARE_BATCHES_MAX: usize = 1 << 12;
/// Packets, or batches, that move between a pool and its depot at once.
const MAGAZINE_LEN: usize = 256;
/// Spares of each kind that a pool with a depot keeps for itself at least: as many packets as a
/// core's own cache has room for.
const OWN_SPARES_MIN: usize = 4 * MAGAZINE_LEN;

/// Where pools leave spares that they have too many of, for others that have none.
///
/// Cost: one lock for each 256 packets. Memory: as much as one pool keeps.
#[derive(Debug, Default)]
pub struct Depot {
    packets: Mutex<Vec<Vec<Packet>>>,
    batches: Mutex<Vec<Vec<Batch>>>,
}

impl Depot {
    /// Moves the coldest of `spares`, those used longest ago, to `shelf`, which keeps so many.
    fn put<T>(shelf: &Mutex<Vec<Vec<T>>>, spares: &mut Vec<T>, spares_max: usize) {
        let magazine: Vec<T> = spares.drain(..MAGAZINE_LEN).collect();
        let mut shelf = Self::lock(shelf);
        if shelf.len() < spares_max / MAGAZINE_LEN {
            shelf.push(magazine);
        }
    }

    /// Moves a magazine from `shelf` to `spares`.
    fn get<T>(shelf: &Mutex<Vec<Vec<T>>>, spares: &mut Vec<T>) {
        let magazine = Self::lock(shelf).pop();
        spares.extend(magazine.into_iter().flatten());
    }

    fn lock<T>(shelf: &Mutex<Vec<Vec<T>>>) -> MutexGuard<'_, Vec<Vec<T>>> {
        // Who panicked with the lock held left a whole list.
        shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Pool {
    packets: Vec<Packet>,
    /// Spares of [`Pool::large_packet`].
    large: Vec<Packet>,
    batches: Vec<Batch>,
    live: u64,
    /// The most that were out at once.
    live_peak: u64,
    made: u64,
    depot: Option<Arc<Depot>>,
}

impl Pool {
    /// A pool without spares.
    pub fn new() -> Self {
        Self::default()
    }

    /// Exchanges spares with other pools through `depot` from now on.
    pub fn use_depot(&mut self, depot: Arc<Depot>) {
        self.depot = Some(depot);
    }

    /// Counts packets as given out.
    #[inline]
    fn count_out(&mut self, packets: u64) {
        self.live += packets;
        self.live_peak = self.live_peak.max(self.live);
    }

    /// Spare packets that it keeps for itself.
    #[inline]
    fn own_spares_max(&self) -> usize {
        let own = (self.live_peak as usize).clamp(OWN_SPARES_MIN, SPARE_PACKETS_MAX);
        if self.depot.is_some() { own } else { SPARE_PACKETS_MAX }
    }

    /// An empty packet, as new.
    #[inline]
    pub fn packet(&mut self) -> Packet {
        self.count_out(1);
        match self.packets.pop() {
            Some(mut packet) => {
                packet.reset();
                packet
            }
            None => self.other_packet(),
        }
    }

    /// An empty packet, as new, with room for [`LARGE_BYTES`] behind.
    pub fn large_packet(&mut self) -> Packet {
        let Some(mut packet) = self.large.pop() else {
            let mut packet = self.packet();
            packet.grow(HEADROOM_BYTES, LARGE_BYTES);
            return packet;
        };
        self.count_out(1);
        packet.reset();
        packet
    }

    /// A packet when there is no spare.
    #[cold]
    fn other_packet(&mut self) -> Packet {
        if let Some(depot) = &self.depot {
            Depot::get(&depot.packets, &mut self.packets);
            if let Some(mut packet) = self.packets.pop() {
                packet.reset();
                return packet;
            }
        }
        self.made += 1;
        Packet::new()
    }

    /// A batch of `count` packets, each as new and then made by `make`, which is told its number.
    #[inline]
    pub fn packets(&mut self, count: usize, mut make: impl FnMut(usize, &mut Packet)) -> Batch {
        let mut batch = self.used(count);
        for (number, packet) in batch.iter_mut().enumerate() {
            packet.reset();
            make(number, packet);
        }
        batch
    }

    /// A batch of packets with the frames of `range` that `lender` has, each as new.
    ///
    /// # Panics
    /// If there are no such frames.
    #[inline]
    pub fn borrow(&mut self, lender: &mut Lender, range: Range<usize>) -> Batch {
        assert!(range.end <= lender.frames().len(), "frames {range:?}");
        let mut batch = self.used(range.len());
        lender.serve(&mut batch, Loaned::Range(range.start as u32..range.end as u32), None);
        batch
    }

    /// A batch of `count` packets with frame `number` that `lender` has, each as new but for the
    /// time when it was seen.
    ///
    /// # Panics
    /// If there is no such frame.
    #[inline]
    pub fn borrow_one(
        &mut self,
        lender: &mut Lender,
        number: usize,
        count: usize,
        timestamp_ns: i64,
    ) -> Batch {
        assert!(number < lender.frames().len(), "frame {number}");
        let mut batch = self.used(count);
        let numbers = Loaned::Same { number: number as u32, count };
        lender.serve(&mut batch, numbers, Some(timestamp_ns));
        batch
    }

    /// A batch of `count` packets as they were left.
    #[inline]
    fn used(&mut self, count: usize) -> Batch {
        let mut batch = self.batch();
        let spare = count.min(self.packets.len());
        move_last(&mut self.packets, spare, batch.packets_mut());
        while batch.len() < count {
            let packet = self.packets.pop().unwrap_or_else(|| self.other_packet());
            batch.push(packet);
        }
        self.count_out(count as u64);
        batch
    }

    /// A packet with `bytes`.
    pub fn packet_of(&mut self, bytes: &[u8]) -> Packet {
        let mut packet = self.packet();
        packet.set_data(bytes);
        packet
    }

    /// A copy of `packet`, annotations and all.
    pub fn copy(&mut self, packet: &Packet) -> Packet {
        self.count_out(1);
        let mut copy = self.packets.pop().unwrap_or_else(|| self.other_packet());
        copy.copy_from(packet);
        copy
    }

    /// Takes a packet back.
    #[inline]
    pub fn recycle(&mut self, packet: Packet) {
        self.live -= 1;
        // Larger buffers are rare: keeping all would let memory grow without bound.
        if packet.is_large() {
            let is_usual = packet.buffer_bytes() == HEADROOM_BYTES + LARGE_BYTES;
            if is_usual && self.large.len() < LARGE_SPARES_MAX {
                self.large.push(packet);
            }
        } else if self.packets.len() < SPARE_PACKETS_MAX {
            self.packets.push(packet);
            if self.packets.len() > self.own_spares_max()
                && let Some(depot) = &self.depot
            {
                Depot::put(&depot.packets, &mut self.packets, SPARE_PACKETS_MAX);
            }
        }
    }

    /// An empty batch with room.
    #[inline]
    pub fn batch(&mut self) -> Batch {
        self.batches.pop().unwrap_or_else(|| self.other_batch())
    }

    /// A batch when there is no spare.
    #[cold]
    fn other_batch(&mut self) -> Batch {
        if let Some(depot) = &self.depot {
            Depot::get(&depot.batches, &mut self.batches);
        }
        let spare = self.batches.pop();
        spare.unwrap_or_else(Batch::with_room)
    }

    /// Takes a batch back, packets and all.
    #[inline]
    pub fn recycle_batch(&mut self, mut batch: Batch) {
        // With a depot some may go there: that is seen to one by one.
        let has_room = self.packets.len() + batch.len() <= self.own_spares_max();
        let packets = batch.as_left();
        if has_room && !(Packet::any_is_large() && packets.iter().any(Packet::is_large)) {
            self.live -= packets.len() as u64;
            self.packets.append(packets);
        } else {
            packets.drain(..).for_each(|packet| self.recycle(packet));
        }
        self.recycle_empty(batch);
    }

    /// Takes back a batch whose packets went elsewhere.
    ///
    /// # Panics
    /// If there are packets in it.
    #[inline]
    pub fn recycle_empty(&mut self, mut batch: Batch) {
        assert!(batch.is_empty(), "{} packets would be lost", batch.len());
        drop(batch.detach());
        if batch.as_left().capacity() > 0 && self.batches.len() < SPARE_BATCHES_MAX {
            self.batches.push(batch);
            if self.batches.len() > OWN_SPARES_MIN
                && let Some(depot) = &self.depot
            {
                Depot::put(&depot.batches, &mut self.batches, SPARE_BATCHES_MAX);
            }
        }
    }

    /// Spares let go of whom they borrowed from: nobody plays these frames any more.
    pub fn forget_lenders(&mut self) {
        self.packets.iter_mut().for_each(Packet::forget_lender);
        self.batches.iter_mut().for_each(Batch::forget_lender);
        if let Some(depot) = &self.depot {
            let mut shelf = Depot::lock(&depot.packets);
            shelf.iter_mut().flatten().for_each(Packet::forget_lender);
            let mut shelf = Depot::lock(&depot.batches);
            shelf.iter_mut().flatten().for_each(Batch::forget_lender);
        }
    }

    /// Packets that were given out and not put back.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Packets that were allocated so far.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Counts `packets` packets as given out that another pool gave out, which must count them as
    /// put back: packets move between workers.
    pub fn adopt(&mut self, packets: u64) {
        self.live += packets;
    }

    /// The other side of [`Pool::adopt`].
    ///
    /// # Panics
    /// If fewer are given out.
    pub fn release(&mut self, packets: u64) {
        self.live = self.live.checked_sub(packets).expect("packets of this pool");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BATCH_LEN_MAX;
    use crate::lend::Frames;
    use crate::packet::PacketType;

    #[test]
    fn what_comes_back_is_used_again() {
        let mut pool = Pool::new();
        let mut batch = pool.batch();
        for n in 0..10u8 {
            batch.push(pool.packet_of(&[n; 60]));
        }
        let copy = pool.copy(&batch.as_slice()[3]);
        assert_eq!((copy.data(), pool.live(), pool.made()), ([3; 60].as_slice(), 11, 11));
        pool.recycle(copy);
        batch.sift(|packet| {
            let keep = packet.data()[0] % 2 == 0;
            if keep {
                Some(packet)
            } else {
                pool.recycle(packet);
                None
            }
        });
        assert_eq!(batch.iter().map(|p| p.data()[0]).collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
        pool.recycle_batch(batch);
        assert_eq!(pool.live(), 0);
        let mut batch = pool.packets(13, |number, packet| packet.set_data(&vec![7; number]));
        assert!(batch.iter().enumerate().all(|(number, packet)| packet.len() == number));
        assert_eq!((pool.live(), pool.made()), (13, 13));
        batch.as_mut_slice()[5].put(10_000);
        pool.recycle_batch(batch);
        assert_eq!((pool.live(), pool.packets.len()), (0, 12), "large buffers are not kept");
        let again: Vec<Packet> = (0..11).map(|_| pool.packet()).collect();
        assert_eq!(pool.made(), 13);
        assert!(again.iter().all(Packet::is_empty));
    }

    #[test]
    fn large_packets_are_used_again() {
        let mut pool = Pool::new();
        let mut packet = pool.large_packet();
        let bytes = packet.fill_data(LARGE_BYTES, |data| {
            data[..3000].fill(7);
            3000
        });
        assert_eq!((bytes, packet.data()), (3000, &[7; 3000][..]));
        let identity = packet.identity();
        pool.recycle(packet);
        let again = pool.large_packet();
        assert_eq!((again.identity(), again.len(), pool.live()), (identity, 0, 1));
        let others: Vec<Packet> = (0..100).map(|_| pool.large_packet()).collect();
        others.into_iter().for_each(|packet| pool.recycle(packet));
        assert_eq!((pool.large.len(), pool.live()), (LARGE_SPARES_MAX, 1));
    }

    /// Packets that one pool gives out and another takes back go round: none is made twice.
    #[test]
    fn spares_go_round_through_the_depot() {
        let depot = Arc::new(Depot::default());
        let (mut giver, mut taker) = (Pool::new(), Pool::new());
        giver.use_depot(depot.clone());
        taker.use_depot(depot);
        for _ in 0..100 {
            let mut batch = giver.batch();
            for _ in 0..BATCH_LEN_MAX {
                batch.push(giver.packet());
            }
            giver.release(batch.len() as u64);
            taker.adopt(batch.len() as u64);
            taker.recycle_batch(batch);
        }
        assert_eq!((giver.live(), taker.live(), taker.made()), (0, 0, 0));
        let bound = (OWN_SPARES_MIN + 2 * MAGAZINE_LEN) as u64;
        assert!(giver.made() <= bound, "{} packets made", giver.made());
    }

    /// Pools that have many packets out, as where chains of a device hold wide batches, and get
    /// all of them back exchange none: whoever lent a packet its bytes lends it others next.
    #[test]
    fn what_a_pool_gets_back_stays_with_it() {
        let depot = Arc::new(Depot::default());
        let mut pools = [0u8, 1].map(|number| {
            let mut pool = Pool::new();
            pool.use_depot(depot.clone());
            let mut frames = Frames::default();
            for _ in 0..BATCH_LEN_MAX {
                assert!(frames.push(&[number; 200], 0, PacketType::Host));
            }
            (pool, Lender::new(frames))
        });
        for _ in 0..40 {
            let held = pools.each_mut().map(|(pool, lender)| -> Vec<Batch> {
                (0..40).map(|_| pool.borrow(lender, 0..BATCH_LEN_MAX)).collect()
            });
            for (number, (batches, (pool, _))) in held.into_iter().zip(&mut pools).enumerate() {
                for batch in batches {
                    let is_own = |packet: &Packet| packet.data() == [number as u8; 200];
                    assert!(batch.iter().all(|packet| is_own(packet) && packet.lender().is_some()));
                    pool.recycle_batch(batch);
                }
            }
        }
        assert!(Depot::lock(&depot.packets).is_empty(), "none had to move");
        for (pool, _) in &pools {
            assert_eq!((pool.live(), pool.made()), (0, 40 * BATCH_LEN_MAX as u64));
        }
    }
}
