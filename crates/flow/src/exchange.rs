//! Queues from every worker to every other one, each with one producer and one consumer.
//!
//! ```text
//!            to 0   to 1   to 2
//! worker 0  ring   ring   ring      a port holds the producers of its row
//! worker 1  ring   ring   ring      and the consumers of its column
//! worker 2  ring   ring   ring
//! ```
//! So any worker may become a classifier, and no number of cache workers must be a multiple of that
//! of classifiers, as the paper's shared queues require.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpswitch_packet::sync::{RingConsumer, RingProducer, ring};

/// Number of items queued for each worker. It only guides decisions, so accesses are relaxed.
#[derive(Debug)]
pub struct Backlog {
    waiting: Box<[Padded]>,
    /// The most items in one ring.
    ring_len_max: usize,
}

/// Alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(AtomicUsize);

impl Backlog {
    /// Items that wait for a worker.
    pub fn waiting(&self, worker: usize) -> usize {
        self.waiting[worker].0.load(Ordering::Relaxed)
    }

    /// The free share of the room that `senders` workers have towards `receivers`, 0 to 1.
    pub fn free_share(&self, senders: usize, receivers: Range<usize>) -> f64 {
        let room = self.ring_len_max * senders * receivers.len();
        if room == 0 {
            return 1.0;
        }
        let waiting: usize = receivers.map(|worker| self.waiting(worker)).sum();
        1.0 - waiting.min(room) as f64 / room as f64
    }
}

/// A worker's ends of the queues.
#[derive(Debug)]
pub struct ExchangePort<T> {
    worker: usize,
    to: Vec<RingProducer<T>>,
    from: Vec<RingConsumer<T>>,
    next_from: usize,
    next_to: usize,
    backlog: Arc<Backlog>,
}

/// Ports for so many workers, whose rings hold `capacity` items each, or the next power of two.
pub fn exchange<T>(workers: usize, capacity: usize) -> (Vec<ExchangePort<T>>, Arc<Backlog>) {
    let capacity = capacity.max(1).next_power_of_two();
    let waiting = (0..workers).map(|_| Padded::default()).collect();
    let backlog = Arc::new(Backlog { waiting, ring_len_max: capacity });
    let mut from: Vec<Vec<RingConsumer<T>>> = (0..workers).map(|_| Vec::new()).collect();
    let to: Vec<Vec<RingProducer<T>>> = (0..workers)
        .map(|_| {
            let row = (0..workers).map(|receiver| {
                let (producer, consumer) = ring(capacity);
                from[receiver].push(consumer);
                producer
            });
            row.collect()
        })
        .collect();
    let port = |(worker, (to, from))| ExchangePort {
        worker,
        to,
        from,
        next_from: 0,
        next_to: worker,
        backlog: backlog.clone(),
    };
    (to.into_iter().zip(from).enumerate().map(port).collect(), backlog)
}

impl<T> ExchangePort<T> {
    /// Sends an item to the next of `receivers` with room, in turns.
    ///
    /// # Errors
    /// The item, if no receiver has room.
    pub fn push(&mut self, receivers: Range<usize>, item: T) -> Result<(), T> {
        let mut item = item;
        for _ in 0..receivers.len() {
            self.next_to += 1;
            let receiver = receivers.start + self.next_to % receivers.len();
            // Counted first: the receiver never counts below 0.
            self.backlog.waiting[receiver].0.fetch_add(1, Ordering::Relaxed);
            match self.to[receiver].push(item) {
                Ok(()) => return Ok(()),
                Err(refused) => item = refused,
            }
            self.backlog.waiting[receiver].0.fetch_sub(1, Ordering::Relaxed);
        }
        Err(item)
    }

    /// Takes an item that some worker sent to this one, in turns; in order from each.
    pub fn pop(&mut self) -> Option<T> {
        self.pop_with_sender().map(|(_, item)| item)
    }

    /// The same, with the worker that sent it.
    pub fn pop_with_sender(&mut self) -> Option<(usize, T)> {
        for _ in 0..self.from.len() {
            self.next_from = (self.next_from + 1) % self.from.len();
            if let Some(item) = self.from[self.next_from].pop() {
                self.backlog.waiting[self.worker].0.fetch_sub(1, Ordering::Relaxed);
                return Some((self.next_from, item));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_reach_the_receivers_in_turns_and_in_order() {
        let (mut ports, backlog) = exchange(3, 2);
        for n in 0..4 {
            ports[0].push(1..3, n).expect("room");
        }
        assert_eq!(ports[0].push(1..3, 9), Err(9));
        assert_eq!(ports[0].push(0..0, 9), Err(9));
        assert_eq!((backlog.waiting(0), backlog.waiting(1), backlog.waiting(2)), (0, 2, 2));
        assert_eq!(backlog.free_share(1, 1..3), 0.0);
        let first: Vec<u32> = std::iter::from_fn(|| ports[1].pop()).collect();
        let second: Vec<u32> = std::iter::from_fn(|| ports[2].pop()).collect();
        assert!(first[0] < first[1] && second[0] < second[1], "{first:?} {second:?}");
        assert_eq!((backlog.waiting(1), backlog.free_share(1, 1..3)), (0, 1.0));
    }

    #[test]
    fn a_worker_may_send_to_itself() {
        let (mut ports, _) = exchange(1, 1);
        ports[0].push(0..1, 7).expect("room");
        assert_eq!((ports[0].pop_with_sender(), ports[0].pop()), (Some((0, 7)), None));
    }
}
