//! Never emits packets, never pulls, and drops packets that are pushed to it.
//!
//! # Synopsis
//! `Idle`, `SimpleIdle`
//!
//! # Ports
//! Any number of inputs and outputs, push or pull; `SimpleIdle` has one of each.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `idle`: every packet that is pushed to it
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! Idle -> Discard;
//! ```

use warpswitch_graph::{Context, Element, ElementClass};
use warpswitch_packet::Batch;

/// The class. Packets never pass from an input to an output.
pub static CLASS: ElementClass =
    ElementClass::new("Idle", "-/-", "a/a", || Box::new(Idle)).flow("x/y").drops(&["idle"]).wakes();
/// The class `SimpleIdle`.
pub static SIMPLE: ElementClass = ElementClass::new("SimpleIdle", "1/1", "a/a", || Box::new(Idle))
    .flow("x/y")
    .drops(&["idle"])
    .wakes();

/// See the module.
#[derive(Debug)]
pub struct Idle;

impl Element for Idle {
    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        cx.drop_batch(batch, 0);
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, _packets_max: usize) -> Batch {
        cx.pool().batch()
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn is_quiet(&self) -> Option<bool> {
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn nothing_comes_out_and_what_goes_in_is_counted() {
        let config = "InfiniteSource(LIMIT 5) -> i :: Idle; Idle -> c :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("i.drops_by_reason"), Ok("5\tidle\n".into()));
        assert_eq!(router.read("c.count"), Ok("0".into()));
    }
}
