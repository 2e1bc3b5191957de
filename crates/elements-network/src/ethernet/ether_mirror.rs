//! Swaps the source and destination addresses of Ethernet frames.
//!
//! # Synopsis
//! `EtherMirror`
//!
//! # Ports
//! One input, one output; agnostic.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `too short`: shorter than two Ethernet addresses
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDevice(eth0) -> EtherMirror -> Queue -> ToDevice(eth0);
//! ```

use warpswitch_graph::{Context, Element, ElementClass, Fate, Sharing};
use warpswitch_packet::Batch;

use super::ADDRESS_BYTES;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("EtherMirror", "1/1", "a/a", || Box::new(EtherMirror)).drops(&["too short"]);

/// Reason for drops, by number.
const SHORT: usize = 0;

/// See the module.
#[derive(Clone, Debug)]
pub struct EtherMirror;

impl Element for EtherMirror {
    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| match packet.data_mut().get_mut(..ADDRESS_BYTES) {
            Some(addresses) => {
                addresses.rotate_left(ADDRESS_BYTES / 2);
                Fate::Pass
            }
            None => Fate::Drop(SHORT),
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
    use crate::ethernet::tests::frames;

    #[test]
    fn addresses_change_places() {
        let config = r"InfiniteSource(DATA \<000102030405 0a0b0c0d0e0f 0800 77>, LIMIT 1)
            -> m :: EtherMirror -> Tap -> Discard;
            InfiniteSource(DATA \<000102030405 0a0b0c0d0e>, LIMIT 2) -> m;";
        assert_eq!(frames(config), ["0a0b0c0d0e0f 000102030405 0800 77"]);
    }
}
