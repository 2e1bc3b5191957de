//! Emits packets on its outputs in turn.
//!
//! # Synopsis
//! `RoundRobinSwitch`
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Configuration
//! None.
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
//! FromDevice(eth0) -> s :: RoundRobinSwitch; s[0] -> Queue -> …; s[1] -> Queue -> …;
//! ```

use warpswitch_graph::{Context, Element, ElementClass};
use warpswitch_packet::Batch;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("RoundRobinSwitch", "1/1-", "h/h", || Box::new(RoundRobinSwitch { next: 0 }));

/// See the module.
#[derive(Debug)]
pub struct RoundRobinSwitch {
    next: usize,
}

impl Element for RoundRobinSwitch {
    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let outputs = cx.outputs();
        for packet in batch.drain() {
            cx.emit(self.next, packet);
            self.next = if self.next + 1 >= outputs { 0 } else { self.next + 1 };
        }
        cx.pool().recycle_empty(batch);
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.next = old.next % cx.outputs().max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn outputs_take_turns_across_batches() {
        let config = "InfiniteSource(LIMIT 8, BURST 5) -> s :: RoundRobinSwitch;
            s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;
            s[2] -> c :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let counts = ["a", "b", "c"].map(|name| router.read(&format!("{name}.count")));
        assert_eq!(counts, [Ok("3".into()), Ok("3".into()), Ok("2".into())]);
    }
}
