//! Drops packets received as link-level broadcast or multicast.
//!
//! # Synopsis
//! `DropBroadcasts`
//!
//! # Ports
//! One input, one or two outputs; push or pull, output 1 is push. Broadcast and multicast packets
//! are emitted on output 1 if it is connected.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `drops` | read | packets, also those on output 1 |
//!
//! # Drops
//! - `broadcast`: the packet type is broadcast or multicast
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! rt[1] -> DropBroadcasts -> ...;
//! ```

use warpswitch_graph::{Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing};
use warpswitch_packet::packet::PacketType;
use warpswitch_packet::{Batch, Packet};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("DropBroadcasts", "1/1-2", "a/ah", || Box::<DropBroadcasts>::default())
        .drops(&["broadcast"]);

/// Reasons for drops, by number.
const BROADCAST: usize = 0;

/// Whether the packet came to more than one host.
#[inline]
pub(super) fn is_broadcast(packet: &Packet) -> bool {
    matches!(packet.packet_type(), PacketType::Broadcast | PacketType::Multicast)
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct DropBroadcasts {
    drops: u64,
}

impl Element for DropBroadcasts {
    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        if !batch.iter().any(is_broadcast) {
            return;
        }
        cx.sort(batch, |_, packet| {
            if is_broadcast(packet) {
                self.drops += 1;
                Fate::EmitOrDrop(1, BROADCAST)
            } else {
                Fate::Pass
            }
        });
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("drops")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.drops.to_string())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.drops = old.drops;
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self { drops: 0 })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.drops += copy.drops;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::run;

    #[test]
    fn what_came_to_many_goes_no_further() {
        let check = |packet_type: &str, label: &str| {
            let config = format!(
                "InfiniteSource(LIMIT 1) -> SetType({packet_type}) -> d :: DropBroadcasts
                 -> Show(0); d[1] -> Show(1);"
            );
            let (shown, _, mut router) = run(&config);
            assert_eq!(shown[0].label, label, "{packet_type}");
            assert_eq!(router.read("d.drops"), Ok(label.into()));
        };
        check("host", "0");
        check("otherhost", "0");
        check("broadcast", "1");
        check("multicast", "1");
    }
}
