//! Pulls from its inputs in turn, or by priority.
//!
//! # Synopsis
//! `RoundRobinSched`, `SimpleRoundRobinSched`, `PrioSched`, `SimplePrioSched`
//!
//! # Ports
//! Any number of pull inputs, one pull output.
//!
//! # Configuration
//! None.
//!
//! The round robin classes pull one packet from each non-empty input in turn. The priority classes
//! pull from an input only while all inputs before it are empty. The `Simple` classes differ in
//! Click alone, where they also pull from inputs that signaled empty.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! a :: Queue -> [0]p :: PrioSched -> Unqueue -> Discard; b :: Queue -> [1]p;
//! ```

use warpswitch_graph::{Context, Element, ElementClass};
use warpswitch_packet::Batch;

/// The class `RoundRobinSched`.
pub static ROUND_ROBIN: ElementClass = round_robin("RoundRobinSched");
/// The class `SimpleRoundRobinSched`.
pub static SIMPLE_ROUND_ROBIN: ElementClass = round_robin("SimpleRoundRobinSched");
/// The class `PrioSched`.
pub static PRIORITY: ElementClass = priority("PrioSched");
/// The class `SimplePrioSched`.
pub static SIMPLE_PRIORITY: ElementClass = priority("SimplePrioSched");

const fn round_robin(name: &'static str) -> ElementClass {
    ElementClass::new(name, "-/1", "l/l", || Box::<RoundRobin>::default())
}

const fn priority(name: &'static str) -> ElementClass {
    ElementClass::new(name, "-/1", "l/l", || Box::new(Priority))
}

/// Pulls up to `packets_max` packets from input `port`, appends them to `batch` and returns their
/// number.
pub(super) fn pull_into(
    cx: &mut Context<'_>,
    port: usize,
    packets_max: usize,
    batch: &mut Batch,
) -> usize {
    let mut got = cx.pull(port, packets_max);
    let count = got.len();
    batch.append(&mut got);
    cx.pool().recycle_empty(got);
    count
}

/// See the module.
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: usize,
}

impl Element for RoundRobin {
    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let inputs = cx.inputs();
        let mut batch = cx.pool().batch();
        // Consecutive inputs without packets: no input can receive any during this call.
        let mut empty = 0;
        while batch.len() < packets_max && empty < inputs {
            let input = self.next % inputs;
            self.next = (input + 1) % inputs;
            empty = if pull_into(cx, input, 1, &mut batch) > 0 { 0 } else { empty + 1 };
        }
        batch
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.next = old.next;
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Priority;

impl Element for Priority {
    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pool().batch();
        for input in 0..cx.inputs() {
            if batch.len() >= packets_max {
                break;
            }
            let room = packets_max - batch.len();
            pull_into(cx, input, room, &mut batch);
        }
        batch
    }

    fn accepts_gso(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    /// The first bytes of packets in the order in which `sched` gives them: 3 of `a`, 1 of `b` and
    /// 4 of `c`.
    fn order(sched: &str, burst: u32) -> String {
        let config = format!(
            "s :: {sched} -> u :: Unqueue({burst}) -> Print(CONTENTS ASCII) -> Discard;
             InfiniteSource(a, 3, 3) -> Queue -> [0]s; InfiniteSource(b, 1) -> Queue -> [1]s;
             InfiniteSource(c, 4, 4) -> Queue -> [2]s;"
        );
        let (router, transcript) = run(&config, &crate::registry());
        assert_eq!(router.standing(), []);
        transcript.said().lines().filter_map(|line| line.chars().last()).collect()
    }

    #[test]
    fn who_asks_where_nothing_ever_comes_rests() {
        let classes = [
            "RoundRobinSched",
            "SimplePrioSched",
            "DRRSched",
            "TimeSortedSched",
            "PullSwitch",
            "StaticPullSwitch(0)",
            "Idle",
        ];
        for class in classes {
            for input in ["", "Idle -> "] {
                // A run that does not rest never ends here.
                run(&format!("{input}{class} -> Unqueue -> Discard"), &crate::registry());
            }
        }
    }

    #[test]
    fn packets_come_in_turn_or_the_first_ones_first() {
        // Sources are scheduled after the element that pulls, which is woken by the first one.
        for burst in [1, 3, 100] {
            assert_eq!(order("RoundRobinSched", burst), "abcacacc", "{burst}");
            assert_eq!(order("SimpleRoundRobinSched", burst), "abcacacc", "{burst}");
            assert_eq!(order("PrioSched", burst), "aaabcccc", "{burst}");
            assert_eq!(order("SimplePrioSched", burst), "aaabcccc", "{burst}");
        }
    }
}
