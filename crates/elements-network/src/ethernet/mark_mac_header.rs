//! Sets the MAC header of packets.
//!
//! # Synopsis
//! `MarkMACHeader([OFFSET, LENGTH])`
//!
//! # Ports
//! One input, one output; agnostic.
//!
//! # Configuration
//! - `OFFSET`: offset of the header, default: 0
//! - `LENGTH`: header length in bytes; parsed and ignored, as elements derive the length themselves
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None. A packet shorter than `OFFSET` is forwarded with its MAC header cleared.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! Idle -> MarkMACHeader -> Strip(14) -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::{Batch, Header};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("MarkMACHeader", "1/1", "a/a", || Box::<MarkMacHeader>::default());

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct MarkMacHeader {
    offset: u32,
}

impl Element for MarkMacHeader {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut length = 0u32;
        args.read_p("OFFSET", &mut self.offset).read_p("LENGTH", &mut length).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        let at = self.offset as usize;
        for packet in batch.iter_mut() {
            match at <= packet.len() {
                true => packet.set_header(Header::Mac, at),
                false => packet.clear_header(Header::Mac),
            }
        }
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
    fn the_header_is_known_when_it_was_taken_away() {
        let shown = |mark: &str| {
            let config = format!(
                "InfiniteSource(DATA aaaaaabbbbbbccEEEEEEEEEEEEEEEEEEEEEE, LIMIT 1) -> {mark}
                 -> Strip(14) -> MarkIPHeader -> ToIPSummaryDump(-, FIELDS eth_src eth_dst);"
            );
            String::from_utf8(run(&config, &crate::registry()).1.printed()).expect("it is text")
        };
        assert!(shown("MarkMACHeader").ends_with("\n62-62-62-62-62-62 61-61-61-61-61-61\n"));
        assert!(shown("MarkMACHeader(50, 14)").ends_with("\n- -\n"));
    }
}
