//! Extends packets to a minimum length.
//!
//! # Synopsis
//! `Pad([LENGTH], ZERO)`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `LENGTH`: minimum packet length in bytes; by default, or if 0, packets are extended by their
//!   extra length annotation, the bytes that were cut off
//! - `ZERO`: accepted for compatibility, ignored: added bytes are always zeros
//!
//! The extra length annotation is set to 0.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None. Packets are not extended beyond the maximum packet length.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> Pad(60) -> ToDump(out.pcap);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::packet::PACKET_BYTES_MAX;
use warpswitch_packet::{Batch, annotation};

/// The class.
pub static CLASS: ElementClass = ElementClass::new("Pad", "1/1", "a/a", || Box::<Pad>::default());

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Pad {
    bytes_min: u32,
}

impl Element for Pad {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut zero = true;
        args.read_p("LENGTH", &mut self.bytes_min).read("ZERO", &mut zero);
        if self.bytes_min as usize > PACKET_BYTES_MAX {
            args.error_at("LENGTH", &format!("out of range, bound {PACKET_BYTES_MAX}"));
        }
        args.complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let missing = match self.bytes_min {
                0 => packet.anno_u32(annotation::EXTRA_LEN) as usize,
                min => (min as usize).saturating_sub(packet.len()),
            };
            let missing = missing.min(PACKET_BYTES_MAX.saturating_sub(packet.len()));
            if missing > 0 {
                packet.put(missing);
            }
            packet.set_anno_u32(annotation::EXTRA_LEN, 0);
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn short_packets_get_longer() {
        for (elements, expected) in [
            ("Pad(6)", "   6 | 61626300 0000"),
            ("Pad(2)", "   3 | 616263"),
            ("Pad", "   3 | 616263"),
            ("Truncate(1) -> Pad", "   3 | 610000"),
            ("Truncate(1) -> Pad(2) -> Pad", "   2 | 6100"),
        ] {
            let config = format!("InfiniteSource(abc, 1) -> {elements} -> Print -> Discard;");
            let said = run(&config, &crate::registry()).1.said();
            assert_eq!(said, format!("{expected}\n"), "{elements}");
        }
    }

    #[test]
    fn no_annotation_makes_a_packet_too_long() {
        // Each round notes more bytes than a packet can have.
        let config = "InfiniteSource(LENGTH 200000, LIMIT 1) -> Truncate(0) -> t :: Truncate(0)
            -> Pad -> a :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("a.byte_count"), Ok("200000".into()));
    }
}
