//! Merges the packets of its inputs in timestamp order.
//!
//! # Synopsis
//! `TimeSortedSched(STOP, BUFFER)`
//!
//! # Ports
//! Any number of pull inputs, one pull output.
//!
//! # Configuration
//! - `STOP`: whether to stop the run when no packets are left; default: false
//! - `BUFFER`: packets per input to sort; default: 1
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `well_ordered` | read | whether all packets were emitted in order |
//!
//! # Drops
//! None. At most `BUFFER` packets per input are held.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! FromDump(a.pcap) -> [0]t :: TimeSortedSched -> Discard; FromDump(b.pcap) -> [1]t;
//! ```

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, Packet};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("TimeSortedSched", "-/1", "l/l", || Box::<TimeSorted>::default());

/// A packet that waits: those that came first leave first where times are alike.
#[derive(Debug)]
struct Waiting {
    timestamp_ns: i64,
    number: u64,
    input: usize,
    packet: Packet,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.timestamp_ns, self.number).cmp(&(other.timestamp_ns, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

/// See the module.
#[derive(Debug)]
pub struct TimeSorted {
    stop: bool,
    buffer: u32,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Packets that each input may yet give.
    room: Vec<usize>,
    taken: u64,
    /// Whether it has stopped the driver since the last packet left.
    has_stopped: bool,
    last_ns: i64,
    is_well_ordered: bool,
}

impl Default for TimeSorted {
    fn default() -> Self {
        Self {
            stop: false,
            buffer: 1,
            waiting: BinaryHeap::new(),
            room: Vec::new(),
            taken: 0,
            has_stopped: false,
            last_ns: 0,
            is_well_ordered: true,
        }
    }
}

impl TimeSorted {
    fn insert(&mut self, input: usize, packet: Packet) {
        let (timestamp_ns, number) = (packet.timestamp_ns(), self.taken);
        self.taken += 1;
        self.waiting.push(Reverse(Waiting { timestamp_ns, number, input, packet }));
    }

    fn fill(&mut self, cx: &mut Context<'_>) {
        for input in 0..self.room.len() {
            if self.room[input] == 0 {
                continue;
            }
            let mut got = cx.pull(input, self.room[input]);
            self.room[input] -= got.len();
            for packet in got.drain() {
                self.insert(input, packet);
            }
            cx.pool().recycle_empty(got);
        }
    }
}

impl Element for TimeSorted {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read("STOP", &mut self.stop).read("BUFFER", &mut self.buffer);
        args.consume()?;
        if self.buffer == 0 {
            args.error_at("", "BUFFER must be at least 1");
        }
        self.room = vec![self.buffer as usize; context.inputs];
        args.complete()
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pool().batch();
        while batch.len() < packets_max {
            self.fill(cx);
            let Some(Reverse(first)) = self.waiting.pop() else { break };
            self.room[first.input] += 1;
            if first.timestamp_ns != 0 {
                self.is_well_ordered &= first.timestamp_ns >= self.last_ns;
                self.last_ns = first.timestamp_ns;
            }
            batch.push(first.packet);
        }
        if !batch.is_empty() {
            self.has_stopped = false;
        } else if self.stop && self.taken > 0 && !std::mem::replace(&mut self.has_stopped, true) {
            // Once, however often it is pulled: the configuration may go on, and come here again.
            cx.stop_driver();
        }
        batch
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("well_ordered")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.is_well_ordered.to_string())
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        (self.taken, self.last_ns) = (old.taken, old.last_ns);
        self.is_well_ordered = old.is_well_ordered;
        if old.room.len() == self.room.len() {
            self.waiting.append(&mut old.waiting);
            let buffer = self.buffer as usize;
            for (input, room) in self.room.iter_mut().enumerate() {
                let held = self.waiting.iter().filter(|waiting| waiting.0.input == input).count();
                *room = buffer.saturating_sub(held);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    /// The first bytes of packets, which leave queues 0 and 1 with the seconds that are given.
    fn order(arguments: &str, seconds: [&[u32]; 2]) -> (String, String) {
        let mut config = format!(
            "t :: TimeSortedSched({arguments}) -> u :: Unqueue(1) -> Print(CONTENTS ASCII)
             -> Discard; a :: Queue -> [0]t; b :: Queue -> [1]t; Idle -> a; Idle -> b;"
        );
        for (queue, seconds) in ["a", "b"].iter().zip(seconds) {
            for second in seconds {
                let set = format!("SetTimestamp({second})");
                config += &format!("InfiniteSource({second}, 1) -> {set} -> {queue};");
            }
        }
        // All packets are queued before the first one is pulled.
        let config = config.replace("Unqueue(1)", "Unqueue(1, ACTIVE false)");
        let (mut router, transcript) = router(&config, &crate::registry()).expect("it is right");
        router.run(&mut warpswitch_graph::simulate::SimulatedHost::default());
        router.write("u.active", "true").expect("it obeys");
        router.run(&mut warpswitch_graph::simulate::SimulatedHost::default());
        assert_eq!(router.packets_unaccounted(), 0);
        let said = transcript.said();
        let order = said.lines().filter_map(|line| line.chars().last()).collect();
        (order, router.read("t.well_ordered").expect("it is there"))
    }

    #[test]
    fn packets_leave_in_the_order_of_their_times() {
        assert_eq!(order("", [&[1, 4, 5], &[2, 3, 6]]), ("123456".into(), "true".into()));
        assert_eq!(order("", [&[1, 4, 2], &[3, 6]]), ("13426".into(), "false".into()));
        assert_eq!(order("BUFFER 2", [&[1, 4, 2], &[3, 6]]), ("12346".into(), "true".into()));
        assert_eq!(order("BUFFER 9", [&[5, 1], &[]]), ("15".into(), "true".into()));
    }

    #[test]
    fn it_stops_the_run_when_nothing_is_left() {
        let config = "InfiniteSource(LIMIT 3) -> [0]t :: TimeSortedSched(STOP true)
            -> c :: Counter -> Discard; RatedSource(RATE 1) -> Queue -> Unqueue -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("c.count"), Ok("3".into()));
    }

    #[test]
    fn each_time_that_nothing_is_left_is_one_stop() {
        let config = "i :: InfiniteSource(LIMIT 3) -> [0]t :: TimeSortedSched(STOP true)
            -> c :: Counter -> Discard(BURST 2);
            j :: InfiniteSource(LIMIT 4, ACTIVE false) -> q :: Queue -> [1]t;
            DriverManager(wait, print c.count, write j.active true, wait, print c.count);";
        let (_, transcript) = run(config, &crate::registry());
        assert_eq!(String::from_utf8(transcript.printed()), Ok("3\n7\n".into()));
    }
}
