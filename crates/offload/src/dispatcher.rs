//! Sends packets where an annotation says, which an element of a device's chain wrote.
//!
//! # Synopsis
//! `Dispatcher([ANNO PLACE])`
//!
//! # Ports
//! One input, any number of outputs; push.
//!
//! # Configuration
//! - `ANNO`: place of the annotation, four bytes that hold a number; 40 by default, which is where
//!   `GPUIPLookup` and `GPUSDNClassifier` write by default
//!
//! A packet leaves by the output with the annotation's number.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `no output`: the number is that of no output: no route led on, or a rule said so
//! - `beyond outputs`: a route or rule names an output that this element does not have
//!
//! # Threads
//! Each worker has a copy.
//!
//! # Example
//! ```text
//! ... -> Debatcher -> out :: Dispatcher; out[0] -> ToDump(a.pcap); out[1] -> ToDump(b.pcap);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing, drop_for};
use warpswitch_packet::{BATCH_LEN_MAX, Batch};

use super::anno::{self, NO_OUTPUT, NUMBER_ANNO};
use super::annotated;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Dispatcher", "1/-", "h/h", || Box::<Dispatcher>::default())
        .drops(&["no output", "beyond outputs"]);

/// Reasons for drops, by number.
const NONE: usize = 0;
const BEYOND: usize = 1;

/// See the module.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    anno: usize,
    outputs: Vec<u32>,
}

impl Default for Dispatcher {
    fn default() -> Self {
        Self { anno: NUMBER_ANNO, outputs: Vec::with_capacity(BATCH_LEN_MAX) }
    }
}

impl Element for Dispatcher {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        anno::read_place(args, "ANNO", &mut self.anno);
        args.complete()
    }

    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        let asks = format!("ANNO {}", self.anno);
        let so = "so it is 0, and all packets leave by output 0";
        Ok(annotated::unwritten(cx, asks, self.anno, so).into_iter().collect())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        let outputs = cx.outputs() as u32;
        self.outputs.clear();
        batch.read_annos(self.anno, &mut self.outputs);
        for number in &mut self.outputs {
            *number = match *number {
                number if number < outputs => number,
                NO_OUTPUT => drop_for(NONE as u32),
                _ => drop_for(BEYOND as u32),
            };
        }
        cx.emit_each(batch, &self.outputs);
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::run_shown as run;

    #[test]
    fn numbers_beyond_the_outputs_are_told_apart_from_none() {
        let number = |byte: u8| -> String {
            (40..44).map(|at| format!("-> SetAnno({at}, {byte}) ")).collect()
        };
        let (beyond, none) = (number(2), number(255));
        let config = format!(
            "InfiniteSource(LIMIT 3) {beyond} -> by :: Dispatcher; InfiniteSource(LIMIT 2) {none}
            -> by; InfiniteSource(LIMIT 1) -> by; by[0] -> c :: Counter -> Discard;"
        );
        let (_, _, mut router) = run(&config);
        assert_eq!(router.read("c.count"), Ok("1".into()));
        assert_eq!(
            router.read("by.drops_by_reason"),
            Ok("2\tno output\n3\tbeyond outputs\n".into())
        );
    }
}
