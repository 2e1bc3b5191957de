//! Swaps source and destination.
//!
//! # Synopsis
//! `IPMirror([DST_ANNO])`
//!
//! # Ports
//! One input, one output; push or pull. For TCP and UDP the ports are swapped as well, for TCP also
//! the sequence and acknowledgement numbers. Checksums are not affected by this.
//!
//! # Configuration
//! - `DST_ANNO`: set the destination annotation; default: true
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `no header`: no IPv4 header
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> CheckIPHeader -> IPMirror -> rt;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Fate, Sharing};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ip::IpProto;

use super::support::{ipv4, ipv4_mut, transport_mut};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("IPMirror", "1/1", "a/a", || Box::new(IpMirror { sets_dst: true }))
        .drops(&["no header"]);

/// Reasons for drops, by number.
const NO_HEADER: usize = 0;

/// See the module.
#[derive(Clone, Debug)]
pub struct IpMirror {
    sets_dst: bool,
}

/// Swaps the `len` bytes at `at` with those behind them.
fn swap(bytes: &mut [u8], at: usize, len: usize) {
    let (first, second) = bytes[at..at + 2 * len].split_at_mut(len);
    first.swap_with_slice(second);
}

impl IpMirror {
    fn mirror(&self, packet: &mut Packet) -> Option<()> {
        let view = ipv4(packet)?;
        let (proto, offset, src) = (view.proto(), view.fragment_offset(), view.src());
        swap(ipv4_mut(packet)?.into_inner(), 12, 4);
        if self.sets_dst {
            packet.set_dst_ipv4(src.octets());
        }
        let bytes = transport_mut(packet);
        if matches!(proto, IpProto::TCP | IpProto::UDP) && offset == 0 && bytes.len() >= 8 {
            swap(bytes, 0, 2);
            if proto == IpProto::TCP && bytes.len() >= 12 {
                swap(bytes, 4, 4);
            }
        }
        Some(())
    }
}

impl Element for IpMirror {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("DST_ANNO", &mut self.sets_dst).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| match self.mirror(packet) {
            Some(()) => Fate::Pass,
            None => Fate::Drop(NO_HEADER),
        });
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ipv4, through};
    use warpswitch_wire::ip::IpProto;

    #[test]
    fn ends_and_numbers_change_sides() {
        let check = |proto: u8, offset: u16, payload: &[u8], then: &[u8]| {
            let bytes = ipv4(payload, |repr| {
                (repr.proto, repr.fragment_offset) = (IpProto(proto), offset);
            });
            let shown = through(&bytes, "MarkIPHeader -> IPMirror").expect("it passes");
            let view = shown.ipv4();
            assert_eq!(
                (view.src().octets(), view.dst().octets()),
                ([10, 0, 0, 4], [18, 26, 4, 44])
            );
            assert_eq!((shown.dst(), view.payload()), (view.dst(), then));
        };
        check(17, 0, b"aabbLLSSdata", b"bbaaLLSSdata");
        check(6, 0, b"aabbssssaaaaflags", b"bbaaaaaassssflags");
        check(6, 0, b"aabbssss", b"bbaassss");
        check(6, 0, b"aabbsss", b"aabbsss");
        check(17, 3, b"aabbLLSSdata", b"aabbLLSSdata");
        check(1, 0, b"aabbLLSSdata", b"aabbLLSSdata");
        let shown = through(&ipv4(b"", |_| {}), "MarkIPHeader -> IPMirror(false)");
        assert_eq!(shown.expect("it passes").dst().octets(), [0; 4]);
        assert!(through(b"nothing", "IPMirror").is_none());
    }
}
