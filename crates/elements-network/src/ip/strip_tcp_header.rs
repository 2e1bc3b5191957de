//! Strips and restores TCP headers.
//!
//! # Synopsis
//! `StripTCPHeader`, `UnstripTCPHeader`
//!
//! # Ports
//! One input, one output; push or pull. `StripTCPHeader` removes all bytes up to the end of the TCP
//! header, including options. `UnstripTCPHeader` restores the bytes from the start of the header
//! on.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None. Packets without transport header, or with a truncated one, are forwarded unchanged.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> CheckTCPHeader -> StripTCPHeader -> ...;
//! ```

use warpswitch_graph::{Context, Element, ElementClass, Sharing};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::tcp::HEADER_BYTES;

/// The class `StripTCPHeader`.
pub static STRIP: ElementClass =
    ElementClass::new("StripTCPHeader", "1/1", "a/a", || Box::new(StripTcpHeader { back: false }));
/// The class `UnstripTCPHeader`.
pub static UNSTRIP: ElementClass =
    ElementClass::new("UnstripTCPHeader", "1/1", "a/a", || Box::new(StripTcpHeader { back: true }));

/// See the module.
#[derive(Clone, Debug)]
pub struct StripTcpHeader {
    /// Whether headers are put back.
    back: bool,
}

/// Where the TCP header ends.
fn header_end(packet: &Packet) -> Option<usize> {
    let at = packet.header_offset(Header::Transport)?;
    let bytes = packet.from_header(Header::Transport);
    let header_bytes = usize::from(bytes.get(12)? >> 4) * 4;
    (HEADER_BYTES..=bytes.len()).contains(&header_bytes).then_some(at + header_bytes)
}

impl Element for StripTcpHeader {
    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            if self.back {
                packet.unpull(packet.stripped_bytes(Header::Transport));
            } else if let Some(end) = header_end(packet) {
                packet.pull(end);
            }
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ipv4, through};

    #[test]
    fn the_header_goes_and_comes_back() {
        let mut segment = [9; 31];
        segment[12] = 0x70;
        let check = |segment: &[u8], elements: &str, bytes: &[u8]| {
            let packet = ipv4(segment, |repr| repr.proto.0 = 6);
            let shown = through(&packet, &format!("MarkIPHeader -> {elements}"));
            assert_eq!(shown.expect("it passes").bytes, bytes, "{elements}");
        };
        check(&segment, "StripIPHeader -> StripTCPHeader", &[9; 3]);
        check(&segment, "StripTCPHeader", &[9; 3]);
        check(&segment, "StripTCPHeader -> UnstripTCPHeader", &segment);
        check(&segment[..27], "StripIPHeader -> StripTCPHeader", &segment[..27]);
        segment[12] = 0x40;
        check(&segment, "StripIPHeader -> StripTCPHeader", &segment);
        let whole = ipv4(&segment, |repr| repr.proto.0 = 6);
        check(&segment, "StripIPHeader -> StripTCPHeader -> UnstripIPHeader", &whole);
    }
}
