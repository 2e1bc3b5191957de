//! Forwards each packet to all outputs.
//!
//! # Synopsis
//! `Tee([N])`, `PullTee([N])`
//!
//! # Ports
//! One input, any number of outputs. `Tee`: push. `PullTee`: output 0 is pull; copies are pushed to
//! the other outputs.
//!
//! # Configuration
//! - `N`: number of outputs, checked against the connections; default: not checked
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 10) -> t :: Tee -> Discard; t[1] -> Counter -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::Batch;

/// The class `Tee`.
pub static CLASS: ElementClass = ElementClass::new("Tee", "1/1-", "h/h", || Box::new(Tee));
/// The class `PullTee`.
pub static PULL: ElementClass = ElementClass::new("PullTee", "1/1-", "l/lh", || Box::new(Tee));

/// See the module.
#[derive(Clone, Debug)]
pub struct Tee;

/// Sends copies of packets through an output.
pub(super) fn copy_to(cx: &mut Context<'_>, batch: &Batch, output: usize) {
    let mut copies = cx.pool().batch();
    for packet in batch.iter() {
        copies.push(cx.pool().copy(packet));
    }
    cx.emit_batch(output, copies);
}

impl Element for Tee {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut outputs = None::<u32>;
        args.read_p("N", &mut outputs);
        if outputs.is_some_and(|n| n as usize != context.outputs) {
            let message = format!("expected {}, the number of connected outputs", context.outputs);
            args.error_at("N", &message);
        }
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        // The last output gets the packets themselves.
        let last = cx.outputs() - 1;
        (0..last).for_each(|output| copy_to(cx, &batch, output));
        cx.emit_batch(last, batch);
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let batch = cx.pull(0, packets_max);
        (1..cx.outputs()).for_each(|output| copy_to(cx, &batch, output));
        batch
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
    fn all_outputs_get_all() {
        let config = "InfiniteSource(LIMIT 5) -> t :: Tee(3);
            t[0] -> a :: Counter -> Discard; t[1] -> b :: Counter -> Discard; t[2] -> q :: Queue
            -> p :: PullTee -> c :: Counter -> Discard; p[1] -> d :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let counts = ["a", "b", "c", "d"].map(|name| router.read(&format!("{name}.count")));
        assert_eq!(counts, [(); 4].map(|()| Ok("5".into())));
    }
}
