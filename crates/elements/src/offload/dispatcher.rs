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

use super::anno::{self, NUMBER_ANNO};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Dispatcher", "1/-", "h/h", || Box::<Dispatcher>::default())
        .drops(&["no output"]);

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

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        let (outputs, no_output) = (cx.outputs() as u32, drop_for(0));
        self.outputs.clear();
        self.outputs.extend(batch.iter().map(|packet| {
            let number = packet.anno_u32(self.anno);
            if number < outputs { number } else { no_output }
        }));
        cx.emit_each(batch, &self.outputs);
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}
