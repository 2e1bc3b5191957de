//! Removes bytes from the front of packets, or restores them.
//!
//! # Synopsis
//! `Strip(LENGTH)`, `Unstrip(LENGTH)`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `LENGTH`: number of bytes
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `too long`: `Unstrip` would exceed the maximum packet length
//!
//! `Strip` removes all bytes of a packet shorter than `LENGTH`. `Unstrip` restores the old bytes;
//! if fewer than `LENGTH` were removed, the others are zeros.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> Strip(14) -> CheckIPHeader -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Fate, Sharing};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::PACKET_BYTES_MAX;

/// The class `Strip`.
pub static CLASS: ElementClass =
    ElementClass::new("Strip", "1/1", "a/a", || Box::new(Strip { bytes: 0, back: false }));
/// The class `Unstrip`.
pub static UNSTRIP: ElementClass =
    ElementClass::new("Unstrip", "1/1", "a/a", || Box::new(Strip { bytes: 0, back: true }))
        .drops(&["too long"]);

/// Reason for drops, by number.
const LONG: usize = 0;

/// See the module.
#[derive(Clone, Debug)]
pub struct Strip {
    bytes: u32,
    /// Whether bytes are put back.
    back: bool,
}

impl Element for Strip {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("LENGTH", &mut self.bytes);
        if self.bytes as usize > PACKET_BYTES_MAX / 2 {
            args.error_at("LENGTH", "more bytes than a packet has");
        }
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let bytes = self.bytes as usize;
        if !self.back {
            return batch.iter_mut().for_each(|packet| packet.pull(bytes));
        }
        cx.sort(batch, |_, packet| {
            if packet.len() + bytes > PACKET_BYTES_MAX {
                return Fate::Drop(LONG);
            }
            packet.unpull(bytes);
            Fate::Pass
        });
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
    fn bytes_go_and_come_back() {
        let config = "InfiniteSource(DATA abcdefgh, LIMIT 1) -> Strip(3) -> c :: Counter
            -> Unstrip(2) -> d :: Counter -> Strip(100) -> e :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let counts = ["c", "d", "e"].map(|name| router.read(&format!("{name}.byte_count")));
        assert_eq!(counts, [Ok("5".into()), Ok("7".into()), Ok("0".into())]);
    }
}
