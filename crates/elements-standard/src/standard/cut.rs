//! Removes or restores bytes at the ends of packets, by length, network header or annotation.
//!
//! # Synopsis
//! `Truncate(LENGTH, EXTRA_LENGTH)`, `StripToNetworkHeader`, `UnstripAnno([ANNO])`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `LENGTH`: maximum packet length in bytes; `Truncate` removes the rest from the end
//! - `EXTRA_LENGTH`: whether to add the number of removed bytes to the extra length annotation;
//!   default: true
//! - `ANNO`: offset of the 2-byte annotation with the number of bytes to restore in front; default:
//!   18
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `nbytes` | read, write | bytes, `Truncate` only |
//!
//! # Drops
//! - `too long`: `UnstripAnno` would exceed the maximum packet length
//!
//! `StripToNetworkHeader` forwards a packet unchanged if it has no network header, or if that
//! header is outside of the data.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> MarkIPHeader(14) -> StripToNetworkHeader -> Truncate(64) -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::packet::{ANNOTATION_BYTES, PACKET_BYTES_MAX};
use warpswitch_packet::{Batch, Header, annotation};

/// The class `Truncate`.
pub static TRUNCATE: ElementClass =
    ElementClass::new("Truncate", "1/1", "a/a", || Box::<Truncate>::default());
/// The class `StripToNetworkHeader`.
pub static TO_NETWORK: ElementClass =
    ElementClass::new("StripToNetworkHeader", "1/1", "a/a", || Box::new(StripToNetworkHeader));
/// The class `UnstripAnno`.
pub static UNSTRIP_ANNO: ElementClass =
    ElementClass::new("UnstripAnno", "1/1", "a/a", || Box::new(UnstripAnno { place: 18 }))
        .drops(&["too long"]);

/// Reason for drops, by number.
const LONG: usize = 0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Truncate {
    bytes: u32,
    notes_extra: bool,
}

impl Element for Truncate {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.notes_extra = true;
        args.read_mp("LENGTH", &mut self.bytes)
            .read("EXTRA_LENGTH", &mut self.notes_extra)
            .complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let extra = packet.len().saturating_sub(self.bytes as usize);
            if extra == 0 {
                continue;
            }
            packet.take(extra);
            if self.notes_extra {
                let before = packet.anno_u32(annotation::EXTRA_LEN);
                packet.set_anno_u32(annotation::EXTRA_LEN, before.wrapping_add(extra as u32));
            }
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("nbytes")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.bytes.to_string())
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.bytes = warpswitch_elements_support::format::parse(value)?;
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct StripToNetworkHeader;

impl Element for StripToNetworkHeader {
    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            packet.pull(packet.header_offset(Header::Network).unwrap_or(0));
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct UnstripAnno {
    place: u32,
}

impl Element for UnstripAnno {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("ANNO", &mut self.place);
        if self.place as usize + 2 > ANNOTATION_BYTES {
            args.error_at("ANNO", "annotation offset out of range");
        }
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| {
            let bytes = usize::from(packet.anno_u16(self.place as usize));
            if packet.len() + bytes > PACKET_BYTES_MAX {
                return Fate::Drop(LONG);
            }
            packet.unpull(bytes);
            Fate::Pass
        });
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    fn said(elements: &str) -> String {
        let config = format!("InfiniteSource(abcdefgh, 1) -> {elements} -> Discard;");
        run(&config, &crate::registry()).1.said()
    }

    #[test]
    fn bytes_are_taken_behind_and_noted() {
        let print = "Print(CONTENTS ASCII, PRINTANNO true)";
        let five = said(&format!("Truncate(5) -> {print}"));
        assert!(five.ends_with("|  abcde\n") && five.contains("03000000"), "{five}");
        let silent = said(&format!("Truncate(5, EXTRA_LENGTH false) -> {print}"));
        assert!(silent.ends_with("|  abcde\n") && !silent.contains('3'), "{silent}");
        let none = said(&format!("Truncate(8) -> Truncate(0) -> Truncate(100) -> {print}"));
        assert!(none.starts_with("   0 |") && none.contains("08000000"), "{none}");
    }

    #[test]
    fn a_packet_without_network_header_stays_as_it_is() {
        let print = "Print(CONTENTS ASCII)";
        assert_eq!(said(&format!("StripToNetworkHeader -> {print}")), "   8 |  abcdefgh\n");
        assert_eq!(said(&format!("Strip(3) -> UnstripAnno -> {print}")), "   5 |  defgh\n");
        let config = "Idle -> UnstripAnno(47) -> Discard";
        assert!(router(config, &crate::registry()).is_err());
    }
}
