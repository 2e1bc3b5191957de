//! Swaps source and destination of IPv6 packets: addresses, and TCP or UDP ports.
//!
//! # Synopsis
//! `IP6Mirror`
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
//! None. A packet without an IPv6 header is forwarded unchanged.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! CheckIP6Header -> IP6Mirror -> GetIP6Address(24) -> rt :: LookupIP6Route(::/0 0);
//! ```

use warpswitch_graph::{Context, Element, ElementClass, Sharing};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ip::{Fragment, IpProto};

use super::support::{Transport, ipv6, ipv6_mut};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("IP6Mirror", "1/1", "a/a", || Box::new(Ip6Mirror));

/// See the module. Checksums stay right: a sum does not care about order.
#[derive(Clone, Debug)]
pub struct Ip6Mirror;

impl Ip6Mirror {
    fn mirror(packet: &mut Packet) {
        let Some(view) = ipv6(packet) else { return };
        let ports = Transport::of(&view).filter(|transport| {
            matches!(transport.proto, IpProto::TCP | IpProto::UDP)
                && transport.fragment != Fragment::Later
                && transport.end >= transport.start + 8
        });
        let Some(view) = ipv6_mut(packet) else { return };
        let bytes = view.into_inner();
        let (src, dst) = bytes[8..40].split_at_mut(16);
        src.swap_with_slice(dst);
        if let Some(Transport { start, .. }) = ports {
            let (src, dst) = bytes[start..start + 4].split_at_mut(2);
            src.swap_with_slice(dst);
        }
    }
}

impl Element for Ip6Mirror {
    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(Self::mirror);
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{addr, ipv6, through};
    use warpswitch_wire::ip::IpProto;

    #[test]
    fn addresses_and_ports_change_places() {
        let udp = [0, 53, 0x12, 0x34, 0, 8, 0xab, 0xcd];
        let check = |bytes: &[u8], ports_at: Option<usize>| {
            let shown = through(bytes, "MarkIP6Header -> IP6Mirror").expect("it goes on");
            let view = shown.ipv6(0);
            assert_eq!((view.src(), view.dst()), (addr("2001:db8:1::2"), addr("2001:db8::1")));
            let mut expected = bytes[40..].to_vec();
            if let Some(at) = ports_at {
                expected[at..at + 4].rotate_left(2);
            }
            assert_eq!(view.payload(), expected);
        };
        check(&ipv6(&udp, |_| {}), Some(0));
        check(&ipv6(&udp[..7], |_| {}), None);
        check(&ipv6(&udp, |repr| repr.next_header = IpProto::SCTP), None);
        let behind_options = [&[17, 0, 1, 4, 0, 0, 0, 0], &udp[..]].concat();
        check(&ipv6(&behind_options, |repr| repr.next_header = IpProto::DESTINATION), Some(8));
        let later = [&[17, 0, 0, 8, 0, 0, 0, 0], &udp[..]].concat();
        check(&ipv6(&later, |repr| repr.next_header = IpProto::FRAGMENT), None);
        let short = [0x60; 39];
        assert_eq!(through(&short, "MarkIP6Header -> IP6Mirror").expect("as it is").bytes, short);
    }
}
