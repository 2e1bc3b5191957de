//! Sets the packet type: how packets were addressed on their link.
//!
//! # Synopsis
//! `SetPacketType(TYPE)`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `TYPE`: `HOST`, `BROADCAST`, `MULTICAST`, `OTHERHOST`, `OUTGOING` or `LOOPBACK` (same as
//!   `HOST`)
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
//! ```text
//! FromDump(in.pcap) -> SetPacketType(BROADCAST) -> DropBroadcasts -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::{Batch, PacketType};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("SetPacketType", "1/1", "a/a", || Box::<SetPacketType>::default());

/// The type called `name`.
fn parse(name: &str) -> Option<PacketType> {
    Some(match name {
        // A packet to this host from itself is one to this host.
        "HOST" | "LOOPBACK" => PacketType::Host,
        "BROADCAST" => PacketType::Broadcast,
        "MULTICAST" => PacketType::Multicast,
        "OTHERHOST" => PacketType::OtherHost,
        "OUTGOING" => PacketType::Outgoing,
        _ => return None,
    })
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct SetPacketType {
    packet_type: PacketType,
}

impl Element for SetPacketType {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut name = String::new();
        args.read_mp("TYPE", &mut name);
        args.complete()?;
        match parse(&name) {
            Some(packet_type) => self.packet_type = packet_type,
            None => args.error_at("", "bad packet type"),
        }
        args.consume()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            packet.set_packet_type(self.packet_type);
        }
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
    use warpswitch_graph::simulate::router;

    use super::*;

    #[test]
    fn names_are_those_of_click() {
        for (name, expected) in [
            ("HOST", Some(PacketType::Host)),
            ("BROADCAST", Some(PacketType::Broadcast)),
            ("MULTICAST", Some(PacketType::Multicast)),
            ("OTHERHOST", Some(PacketType::OtherHost)),
            ("OUTGOING", Some(PacketType::Outgoing)),
            ("LOOPBACK", Some(PacketType::Host)),
            ("broadcast", None),
        ] {
            assert_eq!(parse(name), expected, "{name}");
            let config = format!("Idle -> SetPacketType({name}) -> Discard");
            assert_eq!(router(&config, &crate::registry()).is_ok(), expected.is_some(), "{name}");
        }
    }
}
