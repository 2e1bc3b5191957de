//! Stores packets until they are pulled; drops packets when full.
//!
//! # Synopsis
//! `Queue([CAPACITY])`, `FullNoteQueue`, `ThreadSafeQueue`, `QuickNoteQueue`, `NotifierQueue`,
//! `SimpleQueue`, `FrontDropQueue`, `MixedQueue`: all with the same argument
//!
//! # Ports
//! One push input (`MixedQueue`: two), one pull output, and an optional push output for dropped
//! packets.
//!
//! | class | when full | notifies sources when full |
//! | --- | --- | --- |
//! | `Queue`, `FullNoteQueue`, `ThreadSafeQueue`, `QuickNoteQueue` | drops new packets | yes |
//! | `NotifierQueue`, `SimpleQueue` | drops new packets | no |
//! | `FrontDropQueue` | drops the oldest packets | no |
//! | `MixedQueue` | input 0: drops new packets; input 1: inserts in front, drops the last | no |
//!
//! All classes wake the pulling elements when a packet arrives at an empty queue.
//!
//! # Configuration
//! - `CAPACITY`: maximum number of packets; default: 1000
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `length` | read | packets in the queue |
//! | `highwater_length` | read | maximum number of packets in the queue so far |
//! | `capacity` | read, write | packets |
//! | `drops` | read | packets |
//! | `reset_counts` | write | resets `drops` and `highwater_length` |
//! | `reset` | write | drops all packets in the queue |
//! | `config` | read | arguments, with the current capacity |
//!
//! # Drops
//! - `full`: the queue held `CAPACITY` packets
//! - `reset`: `reset` was written, or the capacity was reduced
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 10) -> q :: Queue(5) -> Unqueue -> Discard;
//! ```

use std::collections::VecDeque;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, gso,
};
use warpswitch_packet::{Batch, Packet};

/// The class.
pub static CLASS: ElementClass = class("Queue").signals_full();
/// The class `FullNoteQueue`.
pub static FULL_NOTE: ElementClass = class("FullNoteQueue").signals_full();
/// The class `ThreadSafeQueue`.
pub static THREAD_SAFE: ElementClass = class("ThreadSafeQueue").signals_full();
/// The class `QuickNoteQueue`.
pub static QUICK_NOTE: ElementClass = class("QuickNoteQueue").signals_full();
/// The class `NotifierQueue`.
pub static NOTIFIER: ElementClass = class("NotifierQueue");
/// The class `SimpleQueue`.
pub static SIMPLE: ElementClass = class("SimpleQueue");
/// The class `FrontDropQueue`.
pub static FRONT_DROP: ElementClass =
    ElementClass::new("FrontDropQueue", "1/1-2", "h/lh", || Box::new(Queue::new(Policy::Front)))
        .drops(DROPS);
/// The class `MixedQueue`.
pub static MIXED: ElementClass =
    ElementClass::new("MixedQueue", "2/1-2", "h/lh", || Box::new(Queue::new(Policy::Mixed)))
        .drops(DROPS);

const fn class(name: &'static str) -> ElementClass {
    ElementClass::new(name, "1/1-2", "h/lh", || Box::new(Queue::new(Policy::Tail))).drops(DROPS)
}

const DROPS: &[&str] = &["full", "reset"];
/// Reasons for drops, by number.
const FULL: usize = 0;
const RESET: usize = 1;

/// What is dropped when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Tail,
    Front,
    /// As `Tail` for input 0; input 1 puts packets in front.
    Mixed,
}

/// See the module.
#[derive(Debug)]
pub struct Queue {
    packets: VecDeque<Packet>,
    policy: Policy,
    capacity: u32,
    /// Whether the capacity is no longer the configured one.
    is_changed: bool,
    most: usize,
    drops: u64,
}

impl Queue {
    fn new(policy: Policy) -> Self {
        Self {
            packets: VecDeque::new(),
            policy,
            capacity: 1000,
            is_changed: false,
            most: 0,
            drops: 0,
        }
    }

    /// Packets that it holds.
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    fn is_full(&self) -> bool {
        self.packets.len() >= self.capacity as usize
    }

    /// Drops what does not fit: what came last, or first.
    fn shrink_to(&mut self, cx: &mut Context<'_>, len: usize) {
        while self.packets.len() > len {
            let packet = match self.policy {
                Policy::Front => self.packets.pop_front(),
                Policy::Tail | Policy::Mixed => self.packets.pop_back(),
            };
            if let Some(packet) = packet {
                cx.emit_or_drop(1, packet, RESET);
            }
        }
        cx.set_full(self.is_full());
    }

    #[cold]
    fn drop_full(&mut self, cx: &mut Context<'_>, packet: Packet) {
        if self.drops == 0 && self.capacity > 0 {
            cx.say(&format!("{}: overflow", cx.declaration()));
        }
        self.drops += 1;
        cx.emit_or_drop(1, packet, FULL);
    }

    /// Takes packets behind, as many as there is room for.
    fn push_back(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let room = (self.capacity as usize).saturating_sub(self.packets.len());
        if self.policy == Policy::Front {
            // Those that wait leave first, then the first of those that come.
            let gone = batch.len().saturating_sub(room).min(self.packets.len());
            for _ in 0..gone {
                if let Some(packet) = self.packets.pop_front() {
                    self.drop_full(cx, packet);
                }
            }
            let skipped = batch.len().saturating_sub(self.capacity as usize);
            for (at, packet) in batch.drain().enumerate() {
                if at < skipped {
                    self.drop_full(cx, packet);
                } else {
                    self.packets.push_back(packet);
                }
            }
            return;
        }
        if batch.len() > room {
            for packet in batch.drain_from(room) {
                self.drop_full(cx, packet);
            }
        }
        self.packets.extend(batch.drain());
    }

    /// Takes packets in front, those behind giving way.
    fn push_front(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.drain() {
            self.packets.push_front(packet);
            if self.packets.len() > self.capacity as usize
                && let Some(packet) = self.packets.pop_back()
            {
                self.drop_full(cx, packet);
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

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        // Room is taken up front, as far as it is little; else it grows to the largest load.
        self.packets.reserve((self.capacity as usize).min(1 << 16));
        cx.set_full(self.is_full());
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, mut batch: Batch) {
        let was_empty = self.packets.is_empty();
        if input == 0 {
            self.push_back(cx, &mut batch);
        } else {
            self.push_front(cx, &mut batch);
        }
        self.most = self.most.max(self.packets.len());
        cx.pool().recycle_empty(batch);
        cx.set_full(self.is_full());
        if was_empty && !self.packets.is_empty() {
            cx.wake();
        }
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pool().batch();
        for packet in self.packets.drain(..packets_max.min(self.packets.len())) {
            batch.push(packet);
        }
        if !batch.is_empty() {
            cx.set_full(self.is_full());
        }
        batch
    }

    fn accepts_gso(&self) -> bool {
        true
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
                HandlerSpec::read("config"),
            ]
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "length" => self.packets.len().to_string(),
            "highwater_length" => self.most.to_string(),
            "capacity" => self.capacity.to_string(),
            "config" if self.is_changed => format!("CAPACITY {}", self.capacity),
            "config" => cx.graph().elements[cx.element()].config.clone(),
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
                self.capacity = warpswitch_elements_support::format::parse(value)?;
                self.is_changed = true;
                self.shrink_to(cx, self.capacity as usize);
            }
            "reset_counts" => (self.drops, self.most) = (0, self.packets.len()),
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
        if cx.accepts_gso() {
            self.packets.extend(old.packets.drain(..));
        } else {
            for packet in old.packets.drain(..) {
                gso::complete(cx.pool(), packet, |_, packet| self.packets.push_back(packet));
            }
        }
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
        let config = "InfiniteSource(LIMIT 10) -> q :: NotifierQueue(4) -> Idle;";
        let (mut router, transcript) = run(config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!((read("q.length"), read("q.drops")), ("4".into(), "6".into()));
        assert_eq!(read("q.drops_by_reason"), "6\tfull\n0\treset\n");
        assert_eq!(transcript.said(), "q :: NotifierQueue: overflow\n");
        assert_eq!(router.standing(), [("q :: NotifierQueue".to_owned(), 4)]);
        router.write("q.capacity", "1").expect("it obeys");
        assert_eq!((router.read("q.held"), router.packets_unaccounted()), (Ok("1".into()), 0));
        assert_eq!(router.read("q.config"), Ok("CAPACITY 1".into()));
    }

    #[test]
    fn a_source_waits_while_the_queue_is_full() {
        for (class, made) in
            [("Queue", 7), ("FullNoteQueue", 7), ("ThreadSafeQueue", 7), ("SimpleQueue", 15)]
        {
            let config = format!(
                "i :: InfiniteSource(LIMIT 15) -> c :: Counter -> q :: {class}(5)
                 -> u :: Unqueue(LIMIT 2) -> d :: Discard;"
            );
            let (mut router, _) = run(&config, &crate::registry());
            assert_eq!(router.read("c.count"), Ok(made.to_string()), "{class}");
            assert_eq!(router.read("q.drops"), Ok((made.max(7) - 7).to_string()), "{class}");
        }
        // What may go elsewhere too is never held back.
        let config =
            "i :: InfiniteSource(LIMIT 15) -> t :: Tee -> Queue(5) -> Idle; t[1] -> Discard";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("i.count"), Ok("15".into()));
    }

    #[test]
    fn room_wakes_the_source() {
        let config = "i :: InfiniteSource -> q :: Queue -> Idle;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("i.count"), Ok("1000".into()));
        for (capacity, count) in [("10", "1000"), ("1000", "1990")] {
            router.write("q.capacity", capacity).expect("it obeys");
            router.run(&mut SimulatedHost::default());
            assert_eq!(router.read("i.count"), Ok(count.into()), "{capacity}");
        }
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

    /// Returns the printed data of the packets that leave `queue` at the end, from one source per
    /// entry of `pushes`.
    fn left(queue: &str, pushes: &[(&str, usize)], dropped: &str) -> String {
        let mut config = format!("q :: {queue} -> u :: Unqueue(ACTIVE false) -> Print -> Discard;");
        config += dropped;
        for (at, (data, input)) in pushes.iter().enumerate() {
            config += &format!("InfiniteSource({data}, 1) -> q{at} :: Null -> [{input}]q;");
        }
        let (mut router, transcript) = router(&config, &crate::registry()).expect("it is right");
        router.run(&mut SimulatedHost::default());
        router.write("u.active", "true").expect("it obeys");
        router.run(&mut SimulatedHost::default());
        assert_eq!(router.packets_unaccounted(), 0);
        let said = transcript.said();
        let lines = said.lines().filter_map(|line| line.split_once("| ").map(|(_, data)| data));
        lines.map(|data| data.trim_start_matches('3')).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn who_gives_way_depends_on_the_class() {
        let five = [("1", 0), ("2", 0), ("3", 0), ("4", 0), ("5", 0)];
        assert_eq!(left("SimpleQueue(3)", &five, ""), "1 2 ".to_owned());
        assert_eq!(left("FrontDropQueue(3)", &five, ""), " 4 5");
        let mixed = [("1", 0), ("2", 0), ("3", 1), ("4", 0), ("5", 1), ("6", 0), ("7", 1)];
        assert_eq!(left("MixedQueue(5)", &mixed, ""), "7 5  1 2");
    }

    #[test]
    fn the_second_output_gets_what_is_dropped() {
        let config = "InfiniteSource(LIMIT 10, BURST 10) -> q :: FrontDropQueue(4) -> Idle;
            q[1] -> c :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!(
            (read("c.count"), read("q.drops"), read("q.length")),
            ("6".into(), "6".into(), "4".into())
        );
        router.write("q.reset", "").expect("it obeys");
        assert_eq!(router.read("c.count"), Ok("10".into()));
    }
}
