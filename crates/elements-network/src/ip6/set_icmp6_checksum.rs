//! Sets the ICMPv6 checksum.
//!
//! # Synopsis
//! `SetICMP6Checksum`
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
//! None. Packets without a complete ICMPv6 header, and fragments, are forwarded unchanged.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! MarkIP6Header -> StoreIP6Address(2001:db8::1, src) -> SetICMP6Checksum -> Discard;
//! ```

use warpswitch_graph::{Context, Element, ElementClass, Sharing};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::icmpv6::{HEADER_BYTES, Icmpv6};
use warpswitch_wire::ip::{Fragment, IpProto};

use super::support::{Transport, ipv6, ipv6_mut};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("SetICMP6Checksum", "1/1", "a/a", || Box::new(SetIcmp6Checksum));

/// See the module.
#[derive(Clone, Debug)]
pub struct SetIcmp6Checksum;

impl SetIcmp6Checksum {
    fn set(packet: &mut Packet) {
        let Some(view) = ipv6(packet) else { return };
        let pseudo = PseudoHeader::V6 { src: view.src(), dst: view.dst() };
        let message = Transport::of(&view).filter(|transport| {
            (transport.proto, transport.fragment) == (IpProto::ICMPV6, Fragment::No)
                && transport.end >= transport.start + HEADER_BYTES
        });
        let (Some(Transport { start, end, .. }), Some(view)) = (message, ipv6_mut(packet)) else {
            return;
        };
        Icmpv6::new_unchecked(&mut view.into_inner()[start..end]).fill_checksum(&pseudo);
    }
}

impl Element for SetIcmp6Checksum {
    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(Self::set);
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{icmp, ipv6, message, through};
    use warpswitch_wire::ip::IpProto;

    #[test]
    fn checksums_become_right() {
        let set =
            |bytes: &[u8]| through(bytes, "MarkIP6Header -> SetICMP6Checksum").expect("it goes on");
        let right = icmp("2001:db8::1", "2001:db8::2", 64, &[128, 0, 0, 0, 1, 2, 3, 4, 5]);
        let mut wrong = right.clone();
        wrong[42..44].fill(0x77);
        wrong.extend([1; 5]);
        let shown = set(&wrong);
        assert_eq!(shown.bytes[..right.len()], right, "padding is not counted");
        message(&shown.ipv6(0));
        let options = [&[58, 0, 1, 4, 0, 0, 0, 0], &right[40..]].concat();
        let mut behind = ipv6(&options, |repr| repr.next_header = IpProto::DESTINATION);
        behind[8..40].copy_from_slice(&right[8..40]);
        let expected = behind.clone();
        behind[50..52].fill(0);
        assert_eq!(set(&behind).bytes, expected);
        for other in [&ipv6(&[9; 30], |_| {})[..], &right[..43], &[0x60; 10]] {
            assert_eq!(set(other).bytes, other);
        }
    }
}
