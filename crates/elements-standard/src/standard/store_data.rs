//! Overwrites bytes of packets.
//!
//! # Synopsis
//! `StoreData(OFFSET, DATA, MASK, GROW)`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `OFFSET`: offset of the first byte to overwrite
//! - `DATA`: bytes to write
//! - `MASK`: bits to change, at most as many bytes as `DATA`; default, also for bytes beyond its
//!   end: all bits
//! - `GROW`: whether to extend a short packet, with zeros up to `OFFSET`; default: false (bytes
//!   beyond the end of the packet are not written)
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
//! Replaces the Ethernet type.
//! ```text
//! FromDump(in.pcap) -> StoreData(12, \<88b5>) -> ToDump(out.pcap);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Bytes};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::PACKET_BYTES_MAX;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("StoreData", "1/1", "a/a", || Box::<StoreData>::default());

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct StoreData {
    offset: u32,
    /// Each byte, and the bits that change.
    data: Vec<(u8, u8)>,
    grows: bool,
}

impl Element for StoreData {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut data, mut mask) = (Bytes::default(), Bytes::default());
        args.read_mp("OFFSET", &mut self.offset)
            .read_mp("DATA", &mut data)
            .read_p("MASK", &mut mask)
            .read("GROW", &mut self.grows);
        if mask.0.len() > data.0.len() {
            args.error_at("MASK", "more bytes than DATA has");
        }
        if (self.offset as usize).saturating_add(data.0.len()) > PACKET_BYTES_MAX / 2 {
            args.error_at("OFFSET", "more bytes than a packet has");
        }
        let masks = mask.0.into_iter().chain(std::iter::repeat(0xff));
        self.data = data.0.into_iter().zip(masks).collect();
        args.complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        let start = self.offset as usize;
        for packet in batch.iter_mut() {
            let missing = (start + self.data.len()).saturating_sub(packet.len());
            if self.grows && missing > 0 {
                packet.put(missing).fill(0);
            }
            let stored = packet.data_mut().iter_mut().skip(start).zip(&self.data);
            stored.for_each(|(byte, (new, mask))| *byte = *byte & !mask | new & mask);
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    fn stored(arguments: &str) -> String {
        let config = format!(
            "InfiniteSource(\\<00112233>, 1) -> StoreData({arguments}) -> Print -> Discard"
        );
        run(&config, &crate::registry()).1.said()
    }

    #[test]
    fn bytes_and_bits_change_where_there_are_any() {
        for (arguments, shown) in [
            ("0, ABC", "   4 | 41424333\n"),
            ("OFFSET 1, DATA \\<ffff>, MASK \\<0f>", "   4 | 001fff33\n"),
            ("3, \\<aabb>", "   4 | 001122aa\n"),
            ("9, \\<aabb>", "   4 | 00112233\n"),
            ("3, \\<aabb>, GROW true", "   5 | 001122aa bb\n"),
            ("5, \\<aa>, GROW true", "   6 | 00112233 00aa\n"),
            ("0, ''", "   4 | 00112233\n"),
        ] {
            assert_eq!(stored(arguments), shown, "{arguments}");
        }
    }

    #[test]
    fn what_cannot_be_stored_is_told() {
        for wrong in ["0", "0, \\<00>, \\<0000>", "4000000, A, GROW true"] {
            let config = format!("Idle -> StoreData({wrong}) -> Discard");
            assert!(router(&config, &crate::registry()).is_err(), "{wrong}");
        }
    }
}
