//! Strips and restores IPv4 headers.
//!
//! # Synopsis
//! `StripIPHeader`, `UnstripIPHeader`
//!
//! # Ports
//! One input, one output; push or pull. `StripIPHeader` removes all bytes up to the end of the IPv4
//! header. `UnstripIPHeader` restores the bytes from the start of the header on.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None. Packets without IPv4 header are forwarded unchanged.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> CheckIPHeader -> StripIPHeader -> ...;
//! ```

use warpswitch_graph::{Context, Element, ElementClass, Sharing};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::Header;

use super::support::ipv4;

/// The class `StripIPHeader`.
pub static STRIP: ElementClass =
    ElementClass::new("StripIPHeader", "1/1", "a/a", || Box::new(StripIpHeader { back: false }));
/// The class `UnstripIPHeader`.
pub static UNSTRIP: ElementClass =
    ElementClass::new("UnstripIPHeader", "1/1", "a/a", || Box::new(StripIpHeader { back: true }));

/// See the module.
#[derive(Clone, Debug)]
pub struct StripIpHeader {
    /// Whether headers are put back.
    back: bool,
}

impl Element for StripIpHeader {
    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            if self.back {
                packet.unpull(packet.stripped_bytes(Header::Network));
            } else if let Some(header_bytes) = ipv4(packet).map(|view| view.header_bytes()) {
                let at = packet.header_offset(Header::Network).unwrap_or(0);
                packet.pull(at + header_bytes);
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
        let options = [1; 8];
        let mut framed = vec![0xee; 14];
        framed.extend(ipv4(b"payload", |repr| repr.options = &options));
        let check = |elements: &str, bytes: &[u8]| {
            let shown = through(&framed, elements).expect("it passes");
            assert_eq!(shown.bytes, bytes, "{elements}");
        };
        check("MarkIPHeader(14) -> StripIPHeader", b"payload");
        check("MarkIPHeader(14) -> StripIPHeader -> UnstripIPHeader", &framed[14..]);
        check("MarkIPHeader(14) -> UnstripIPHeader", &framed);
        check("StripIPHeader -> UnstripIPHeader", &framed);
    }
}
