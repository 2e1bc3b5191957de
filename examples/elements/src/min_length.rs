//! Drops packets that are too short.
//!
//! # Synopsis
//! `MinLength(LENGTH)`
//!
//! # Ports
//! One input, one or two outputs; push or pull. Short packets leave by output 1 if it is
//! connected.
//!
//! # Configuration
//! - `LENGTH`: minimum packet length in bytes
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `too short`: shorter than `LENGTH`, and output 1 is not connected
//!
//! # Threads
//! Each worker has a copy.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> MinLength(60) -> ToDump(out.pcap);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Fate, Sharing};
use warpswitch_packet::Batch;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("MinLength", "1/1-2", "a/ah", || Box::<MinLength>::default())
        .drops(&["too short"]);

/// Index of `too short` in the list of drop reasons.
const TOO_SHORT: usize = 0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct MinLength {
    bytes_min: usize,
}

impl Element for MinLength {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("LENGTH", &mut self.bytes_min).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| match packet.len() >= self.bytes_min {
            true => Fate::Pass,
            false => Fate::EmitOrDrop(1, TOO_SHORT),
        });
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}
