//! Holds packets until they are asked for; drops those that come when it is full.
//!
//! # Synopsis
//! `Queue([CAPACITY])`, `SimpleQueue([CAPACITY])`
//!
//! # Ports
//! One push input, one pull output. `Queue` wakes those that ask for its packets when the first one
//! comes.
//!
//! # Configuration
//! - `CAPACITY`: packets that it holds at most, 1000 by default
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `length` | read | packets it holds |
//! | `highwater_length` | read | the most that it held |
//! | `capacity` | read, write | packets |
//! | `drops` | read | packets |
//! | `reset_counts` | write | forgets drops and the most that it held |
//! | `reset` | write | drops what it holds |
//!
//! # Drops
//! - `full`: it held `CAPACITY` packets
//! - `reset`: it was told to drop what it held, or holds fewer than before
//!
//! # Threads
//! Belongs to one worker.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 10) -> q :: Queue(5) -> Unqueue -> Discard;
//! ```

use std::collections::VecDeque;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, Packet};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Queue", "1/1", "h/l", || Box::new(Queue::new())).drops(&["full", "reset"]);
/// The same under the name of the class without notification.
pub static SIMPLE: ElementClass = CLASS_AS_SIMPLE;
const CLASS_AS_SIMPLE: ElementClass =
    ElementClass::new("SimpleQueue", "1/1", "h/l", || Box::new(Queue::new()))
        .drops(&["full", "reset"]);

/// Reasons for drops, by number.
const FULL: usize = 0;
const RESET: usize = 1;

/// See the module.
#[derive(Debug)]
pub struct Queue {
    packets: VecDeque<Packet>,
    capacity: u32,
    most: usize,
    drops: u64,
}

impl Queue {
    fn new() -> Self {
        Self { packets: VecDeque::new(), capacity: 1000, most: 0, drops: 0 }
    }

    fn shrink_to(&mut self, cx: &mut Context<'_>, packets: usize) {
        while self.packets.len() > packets {
            if let Some(packet) = self.packets.pop_back() {
                cx.drop_packet(packet, RESET);
            }
        }
    }
}

impl Element for Queue {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("CAPACITY", &mut self.capacity).complete()
    }

    fn initialize(&mut self, _cx: &mut Context<'_>) -> Result<(), String> {
        // Room is taken up front, as far as it is little; else it grows to the largest load.
        self.packets.reserve((self.capacity as usize).min(1 << 16));
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let was_empty = self.packets.is_empty();
        let room = (self.capacity as usize).saturating_sub(self.packets.len());
        for packet in batch.drain_from(room) {
            self.drops += 1;
            cx.drop_packet(packet, FULL);
        }
        self.packets.extend(batch.drain());
        self.most = self.most.max(self.packets.len());
        cx.pool().recycle_empty(batch);
        if was_empty && !self.packets.is_empty() {
            cx.wake();
        }
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pool().batch();
        for packet in self.packets.drain(..packets_max.min(self.packets.len())) {
            batch.push(packet);
        }
        batch
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("length"),
                HandlerSpec::read("highwater_length"),
                HandlerSpec::both("capacity"),
                HandlerSpec::read("drops"),
                HandlerSpec::button("reset_counts"),
                HandlerSpec::button("reset"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "length" => self.packets.len().to_string(),
            "highwater_length" => self.most.to_string(),
            "capacity" => self.capacity.to_string(),
            _ => self.drops.to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "capacity" => {
                let bad = |_| HandlerError::failed("expected a number of packets");
                self.capacity = value.trim().parse().map_err(bad)?;
                self.shrink_to(cx, self.capacity as usize);
            }
            "reset_counts" => (self.drops, self.most) = (0, 0),
            _ => self.shrink_to(cx, 0),
        }
        Ok(String::new())
    }

    fn held(&self) -> usize {
        self.packets.len()
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        (self.most, self.drops) = (old.most, old.drops);
        self.packets.extend(old.packets.drain(..));
        self.shrink_to(cx, self.capacity as usize);
        if !self.packets.is_empty() {
            cx.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, router, run};

    #[test]
    fn it_holds_what_fits_and_counts_what_does_not() {
        let config = "InfiniteSource(LIMIT 10) -> q :: Queue(4) -> Idle;";
        let (mut router, _) = run(config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!((read("q.length"), read("q.drops")), ("4".into(), "6".into()));
        assert_eq!(read("q.drops_by_reason"), "6\tfull\n0\treset\n");
        assert_eq!(router.standing(), [("q :: Queue".to_owned(), 4)]);
        router.write("q.capacity", "1").expect("it obeys");
        assert_eq!((router.read("q.held"), router.packets_unaccounted()), (Ok("1".into()), 0));
    }

    #[test]
    fn who_asks_sleeps_and_is_woken_and_packets_stay_in_order() {
        let config = "s :: InfiniteSource(LIMIT 3, ACTIVE false) -> q :: Queue
            -> u :: Unqueue -> c :: Counter -> Discard;";
        let (mut router, _) = router(config, &crate::registry()).expect("it is right");
        router.run(&mut SimulatedHost::default());
        assert_eq!(router.read("c.count"), Ok("0".into()));
        router.write("s.active", "true").expect("it obeys");
        router.run(&mut SimulatedHost::default());
        assert_eq!(router.read("c.count"), Ok("3".into()));
        assert_eq!(router.packets_unaccounted(), 0);
    }
}
