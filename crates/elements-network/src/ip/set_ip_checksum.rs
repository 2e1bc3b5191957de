//! Sets the checksum of the IPv4 header.
//!
//! # Synopsis
//! `SetIPChecksum`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `bad lengths`: no IPv4 header, or a truncated one
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> MarkIPHeader -> StoreData(8, \<40>) -> SetIPChecksum -> ...;
//! ```

use warpswitch_graph::{Context, Element, ElementClass, Fate, Sharing};
use warpswitch_packet::Batch;

use super::support::ipv4_mut;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("SetIPChecksum", "1/1", "a/a", || Box::<SetIpChecksum>::default())
        .drops(&["bad lengths"]);

/// Reasons for drops, by number.
const BAD_LENGTHS: usize = 0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct SetIpChecksum {
    has_told: bool,
}

impl Element for SetIpChecksum {
    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |cx, packet| match ipv4_mut(packet) {
            Some(mut view) => {
                view.fill_checksum();
                Fate::Pass
            }
            None => {
                if !std::mem::replace(&mut self.has_told, true) {
                    cx.say("SetIPChecksum: bad lengths");
                }
                Fate::Drop(BAD_LENGTHS)
            }
        });
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ipv4, through};

    #[test]
    fn the_sum_becomes_right() {
        let good = ipv4(b"data", |_| {});
        let mut bytes = good.clone();
        bytes[10..12].copy_from_slice(&[1, 2]);
        let shown = through(&bytes, "MarkIPHeader -> SetIPChecksum").expect("it passes");
        assert_eq!(shown.bytes, good);
        assert!(through(&bytes[..19], "MarkIPHeader -> SetIPChecksum").is_none());
        assert!(through(&good, "SetIPChecksum").is_none(), "no header is set");
        bytes[0] = 0x44;
        assert!(through(&bytes, "MarkIPHeader -> SetIPChecksum").is_none());
    }
}
