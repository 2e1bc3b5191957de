//! A bounded ring between two threads: one pushes, one pops, neither waits.
//!
//! ```text
//! cells   │   │ a │ b │ c │   │   │       head ≤ tail ≤ head + capacity
//!               ▲           ▲             the consumer moves head, the producer moves tail
//!              head        tail
//! ```
//! # Invariants
//! - G1: positions count from the start of the ring and never wrap to 0 in practice; cell `n` of
//!   the ring is that of all positions `n` modulo the capacity, a power of two.
//! - G2: the producer touches only cells of positions `tail..head + capacity`, the consumer only
//!   those of `head..tail`. Each publishes its position with a release store after it left the
//!   cell, and the other loads it with acquire before it enters. So the lock of a cell is never
//!   contended: it is what makes the hand-over safe code, at the cost of one uncontended exchange.
//! - G3: a side that is dropped closes the ring after its last push or pop.
//!
//! # Why not a lock-free cell
//! An item is a batch of packets, so two atomic exchanges for each are nothing, and there is no
//! `unsafe` to audit. See [`LeftRight`](super::LeftRight) for the same choice.

use std::sync::Arc;

use super::primitives::{AtomicUsize, Mutex, Ordering};

/// Alone on its cache lines (two, for cores that fetch pairs).
#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicUsize);

#[derive(Debug)]
struct Ring<T> {
    cells: Box<[Mutex<Option<T>>]>,
    /// The next position to pop. Stored by the consumer, loaded by the producer.
    head: Padded,
    /// The next position to push. Stored by the producer, loaded by the consumer.
    tail: Padded,
    /// Not 0 once a side is dropped.
    closed: AtomicUsize,
}

impl<T> Ring<T> {
    /// Swaps the content of a cell that belongs to the caller (G2).
    fn swap(&self, position: usize, content: Option<T>) -> Option<T> {
        let cell = &self.cells[position & (self.cells.len() - 1)];
        let mut cell = cell.try_lock().expect("G2: a cell belongs to one side");
        std::mem::replace(&mut *cell, content)
    }

    fn close(&self) {
        // Partner: `is_closed`. All pushes and pops of the side come before.
        self.closed.store(1, Ordering::Release);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) != 0
    }
}

/// The side that pushes. One thread at a time.
#[derive(Debug)]
pub struct RingProducer<T> {
    ring: Arc<Ring<T>>,
    tail: usize,
    /// The consumer's position when last looked up.
    head_seen: usize,
}

/// The side that pops. One thread at a time.
#[derive(Debug)]
pub struct RingConsumer<T> {
    ring: Arc<Ring<T>>,
    head: usize,
    /// The producer's position when last looked up.
    tail_seen: usize,
}

/// A ring for `capacity` items, or the next power of two.
pub fn ring<T>(capacity: usize) -> (RingProducer<T>, RingConsumer<T>) {
    let cells = (0..capacity.max(1).next_power_of_two()).map(|_| Mutex::new(None)).collect();
    let position = || Padded(AtomicUsize::new(0));
    let ring =
        Arc::new(Ring { cells, head: position(), tail: position(), closed: AtomicUsize::new(0) });
    let producer = RingProducer { ring: ring.clone(), tail: 0, head_seen: 0 };
    (producer, RingConsumer { ring, head: 0, tail_seen: 0 })
}

impl<T> RingProducer<T> {
    /// Appends an item.
    ///
    /// # Errors
    /// The item, if the ring is full.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.tail - self.head_seen == self.capacity() && self.room() == 0 {
            return Err(item);
        }
        let former = self.ring.swap(self.tail, Some(item));
        debug_assert!(former.is_none(), "the consumer emptied the cell");
        self.tail += 1;
        // Partner: `RingConsumer::waiting`. The cell is left before.
        self.ring.tail.0.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Items that can be pushed now.
    pub fn room(&mut self) -> usize {
        // Partner: the store in `RingConsumer::pop`.
        self.head_seen = self.ring.head.0.load(Ordering::Acquire);
        self.capacity() - (self.tail - self.head_seen)
    }

    /// The most items in the ring.
    pub fn capacity(&self) -> usize {
        self.ring.cells.len()
    }

    /// Whether the consumer is gone: nobody takes what is pushed.
    pub fn is_closed(&self) -> bool {
        self.ring.is_closed()
    }
}

impl<T> RingConsumer<T> {
    /// Takes the oldest item.
    pub fn pop(&mut self) -> Option<T> {
        if self.head == self.tail_seen && self.waiting() == 0 {
            return None;
        }
        let item = self.ring.swap(self.head, None);
        debug_assert!(item.is_some(), "the producer filled the cell");
        self.head += 1;
        // Partner: `RingProducer::room`. The cell is left before.
        self.ring.head.0.store(self.head, Ordering::Release);
        item
    }

    /// Items that can be popped now.
    pub fn waiting(&mut self) -> usize {
        // Partner: the store in `RingProducer::push`.
        self.tail_seen = self.ring.tail.0.load(Ordering::Acquire);
        self.tail_seen - self.head
    }

    /// Whether the producer is gone. What it pushed before can still be popped: once this is true
    /// and then nothing is popped, nothing ever comes.
    pub fn is_closed(&self) -> bool {
        self.ring.is_closed()
    }
}

impl<T> Drop for RingProducer<T> {
    fn drop(&mut self) {
        self.ring.close();
    }
}

impl<T> Drop for RingConsumer<T> {
    fn drop(&mut self) {
        self.ring.close();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn items_come_in_order_and_no_more_than_fit() {
        let (mut producer, mut consumer) = ring(3);
        assert_eq!((producer.capacity(), consumer.pop()), (4, None));
        for round in 0..10 {
            for n in 0..4 {
                assert_eq!((producer.room(), consumer.waiting()), (4 - n, n));
                assert_eq!(producer.push(round * 4 + n), Ok(()));
            }
            assert_eq!(producer.push(99), Err(99));
            for n in 0..4 {
                assert_eq!(consumer.pop(), Some(round * 4 + n));
            }
            assert_eq!(consumer.pop(), None);
        }
    }

    #[test]
    fn a_closed_ring_gives_its_items_and_frees_the_rest() {
        let item = Arc::new(());
        let (mut producer, mut consumer) = ring(4);
        (0..3).for_each(|_| producer.push(item.clone()).expect("room"));
        assert!(!consumer.is_closed());
        drop(producer);
        assert!(consumer.is_closed());
        assert!(consumer.pop().is_some());
        drop(consumer);
        assert_eq!(Arc::strong_count(&item), 1);
        let (producer, consumer) = ring::<u32>(1);
        drop(consumer);
        assert!(producer.is_closed());
    }

    #[test]
    fn two_threads_pass_every_item_once() {
        let (mut producer, mut consumer) = ring(8);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for n in 0..100_000u32 {
                    while producer.push(n).is_err() {
                        std::hint::spin_loop();
                    }
                }
            });
            for expected in 0..100_000 {
                let item = std::iter::repeat_with(|| consumer.pop()).find_map(|item| item);
                assert_eq!(item, Some(expected));
            }
        });
        assert_eq!(consumer.pop(), None);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;

    /// Pushes three items through a ring of `capacity`, in every order of steps, and closes.
    fn check(capacity: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let (mut producer, mut consumer) = ring(capacity);
            let thread = loom::thread::spawn(move || {
                for n in 0..3 {
                    while producer.push(n).is_err() {
                        loom::thread::yield_now();
                    }
                }
            });
            let mut popped = Vec::new();
            loop {
                let is_closed = consumer.is_closed();
                match consumer.pop() {
                    Some(item) => popped.push(item),
                    None if is_closed => break,
                    None => loom::thread::yield_now(),
                }
            }
            assert_eq!(popped, [0, 1, 2]);
            thread.join().expect("the producer");
        });
    }

    #[test]
    fn items_pass_in_order_through_one_cell() {
        check(1);
    }

    #[test]
    fn items_pass_in_order_through_two_cells() {
        check(2);
    }
}
