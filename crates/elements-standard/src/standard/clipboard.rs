//! Copies byte ranges of packets into other packets.
//!
//! # Synopsis
//! `Clipboard(OFFSET/LENGTH, …)`
//!
//! # Ports
//! Two inputs, two outputs; each pair is push or pull. Ranges are copied from packets between
//! input 0 and output 0, and written to packets between input 1 and output 1.
//!
//! # Configuration
//! - `OFFSET/LENGTH`: byte range, relative to the start of the packet data
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `config` | read, write | arguments |
//!
//! # Drops
//! None. A range that is not entirely within a packet is neither copied from it nor written to it.
//! A range is not written before it was copied once.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! Idle -> c :: Clipboard(6/6) -> Discard; Idle -> [1]c[1] -> Discard;
//! ```

use std::ops::Range;

use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass};
use warpswitch_packet::packet::PACKET_BYTES_MAX;
use warpswitch_packet::{Batch, Packet};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Clipboard", "2/2", "a/a", || Box::<Clipboard>::default()).live().flow("#/#");

/// A range of bytes and what was copied from it.
#[derive(Debug)]
struct Piece {
    range: Range<usize>,
    bytes: Vec<u8>,
    is_copied: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Clipboard {
    pieces: Vec<Piece>,
}

impl Clipboard {
    fn pass(&mut self, pair: usize, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            match pair {
                0 => self.copy(packet),
                _ => self.paste(packet),
            }
        }
    }

    fn copy(&mut self, packet: &Packet) {
        for piece in &mut self.pieces {
            if let Some(bytes) = packet.data().get(piece.range.clone()) {
                piece.bytes.copy_from_slice(bytes);
                piece.is_copied = true;
            }
        }
    }

    fn paste(&self, packet: &mut Packet) {
        for piece in self.pieces.iter().filter(|piece| piece.is_copied) {
            if let Some(bytes) = packet.data_mut().get_mut(piece.range.clone()) {
                bytes.copy_from_slice(&piece.bytes);
            }
        }
    }
}

/// Reads `OFFSET/LENGTH`.
fn read_range(text: &str) -> Option<Range<usize>> {
    let (offset, length) = text.split_once('/')?;
    let number = |text| u32::from_arg(text, &NoNames).ok().map(|number| number as usize);
    let (offset, length) = (number(offset)?, number(length)?);
    let end = offset.checked_add(length)?;
    (end <= PACKET_BYTES_MAX).then_some(offset..end)
}

impl Element for Clipboard {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let ranges = args.rest();
        if ranges.is_empty() {
            args.error_at("", "at least one range 'OFFSET/LENGTH' is required");
        }
        for text in ranges {
            match read_range(text.trim()) {
                Some(range) => {
                    let bytes = vec![0; range.len()];
                    self.pieces.push(Piece { range, bytes, is_copied: false });
                }
                None => args.error_at("", &format!("'{text}' should be a range 'OFFSET/LENGTH'")),
            }
        }
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, mut batch: Batch) {
        self.pass(input, &mut batch);
        cx.emit_batch(input, batch);
    }

    fn pull(&mut self, cx: &mut Context<'_>, output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pull(output, packets_max);
        self.pass(output, &mut batch);
        batch
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        for piece in &mut self.pieces {
            if let Some(known) = old.pieces.iter().find(|known| known.range == piece.range) {
                piece.bytes.copy_from_slice(&known.bytes);
                piece.is_copied = known.is_copied;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    #[test]
    fn bytes_go_from_one_packet_into_the_next() {
        let config = "c :: Clipboard(0/2, 3/0x1, 6/9);
            TimedSource(0.001, abcdef, LIMIT 1) -> [0]c[0] -> Discard;
            TimedSource(0.003, xy, LIMIT 1) -> [0]c; TimedSource(0.005, z, LIMIT 1) -> [0]c;
            InfiniteSource(DATA 123456, LIMIT 1) -> m :: Queue;
            TimedSource(0.002, 123456, LIMIT 3) -> m -> [1]c[1] -> Print(CONTENTS ASCII)
            -> Discard;";
        let (_, transcript) = run(config, &crate::registry());
        let said = transcript.said();
        let lines: Vec<&str> = said.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            ["123456", "ab3d56", "xy3d56", "xy3d56"].map(|text| format!("6 |  {text}"))
        );
    }

    #[test]
    fn ranges_are_checked() {
        let config =
            "Idle -> c :: Clipboard(1/2, 3, 4/300000) -> Discard; Idle -> [1]c[1] -> Discard;";
        let errors = router(config, &crate::registry()).err().expect("it is wrong").to_click();
        for wrong in ["'3'", "'4/300000'"] {
            assert!(
                errors.contains(&format!("{wrong} should be a range 'OFFSET/LENGTH'")),
                "{errors}"
            );
        }
    }
}
