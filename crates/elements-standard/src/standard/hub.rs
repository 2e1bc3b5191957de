//! Forwards each packet to all outputs except the one with the number of its input.
//!
//! # Synopsis
//! `Hub`
//!
//! # Ports
//! Any number of push inputs and as many push outputs: one pair per attached link.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `alone`: no other output exists
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDevice(eth0) -> h :: Hub -> Queue -> ToDevice(eth0);
//! FromDevice(eth1) -> [1]h[1] -> Queue -> ToDevice(eth1);
//! ```

use warpswitch_graph::{Context, Element, ElementClass, Sharing};
use warpswitch_packet::Batch;

use super::tee::copy_to;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Hub", "-/=", "h", || Box::new(Hub)).flow("#/[^#]").drops(&["alone"]);

/// See the module.
#[derive(Clone, Debug)]
pub struct Hub;

impl Element for Hub {
    fn push(&mut self, cx: &mut Context<'_>, input: usize, batch: Batch) {
        let outputs = cx.outputs();
        // The last one gets the packets themselves.
        let Some(last) = (0..outputs).rev().find(|output| *output != input) else {
            return cx.drop_batch(batch, 0);
        };
        for output in (0..last).filter(|output| *output != input) {
            copy_to(cx, &batch, output);
        }
        cx.emit_batch(last, batch);
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn all_but_the_sender_get_packets() {
        let config = "InfiniteSource(LIMIT 1) -> h :: Hub -> a :: Counter -> Discard;
            InfiniteSource(LIMIT 10) -> [1]h[1] -> b :: Counter -> Discard;
            InfiniteSource(LIMIT 100) -> [2]h[2] -> c :: Counter -> Discard;
            InfiniteSource(LIMIT 7) -> alone :: Hub -> d :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let counts = ["a", "b", "c", "d"].map(|name| router.read(&format!("{name}.count")));
        assert_eq!(counts, ["110", "101", "11", "0"].map(|count| Ok(count.into())));
        assert_eq!(router.read("alone.drops_by_reason"), Ok("7\talone\n".into()));
    }
}
