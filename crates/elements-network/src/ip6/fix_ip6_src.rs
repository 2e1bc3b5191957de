//! Sets the source address of ICMPv6 messages that have the fix-source annotation.
//!
//! # Synopsis
//! `FixIP6Src(IPADDR)`
//!
//! # Ports
//! One input, one output; agnostic. If the fix-source annotation is set, it is cleared, the source
//! becomes `IPADDR`, and the checksum is updated. An ICMPv6 error thus carries the address of its
//! outgoing interface.
//!
//! # Configuration
//! - `IPADDR`: source address
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None. The source of other packets, and of ICMPv6 messages with extension headers, is not
//! changed.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! rt[1] -> FixIP6Src(2001:db8::1) -> DecIP6HLIM -> [0]nd;
//! ```

use std::net::Ipv6Addr;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::packet::annotation;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum;
use warpswitch_wire::icmpv6::{HEADER_BYTES, Icmpv6};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv6::{self, Ipv6};

use super::support::ipv6_mut;

/// The class.
pub static CLASS: ElementClass = ElementClass::new("FixIP6Src", "1/1", "a/a", || {
    Box::new(FixIp6Src { address: Ipv6Addr::UNSPECIFIED })
});

/// See the module.
#[derive(Clone, Debug)]
pub struct FixIp6Src {
    address: Ipv6Addr,
}

impl FixIp6Src {
    #[inline]
    fn fix(&self, packet: &mut Packet) {
        if packet.anno_u8(annotation::FIX_SRC) == 0 {
            return;
        }
        packet.set_anno_u8(annotation::FIX_SRC, 0);
        let Some(view) = ipv6_mut(packet) else { return };
        let old = view.src();
        if view.next_header() != IpProto::ICMPV6 {
            return;
        }
        let bytes = view.into_inner();
        let Some(message) = bytes.get_mut(ipv6::HEADER_BYTES..ipv6::HEADER_BYTES + HEADER_BYTES)
        else {
            return;
        };
        // The source is part of what the checksum covers.
        let sum = Icmpv6::new_unchecked(&*message).checksum();
        let sum = checksum::update_bytes(sum, &old.octets(), &self.address.octets());
        message[2..].copy_from_slice(&sum.to_be_bytes());
        Ipv6::new_unchecked(bytes).set_src(self.address);
    }
}

impl Element for FixIp6Src {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("IPADDR", &mut self.address).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| self.fix(packet));
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
    use super::super::testing::{addr, ipv6, message, through};

    #[test]
    fn errors_get_the_address_of_their_interface() {
        let bytes = ipv6(&[9; 33], |_| {});
        let fixed = |chain: &str| {
            let chain = format!("MarkIP6Header -> {chain} -> FixIP6Src(2001:db8:77::1)");
            through(&bytes, &chain).expect("it goes on")
        };
        let shown = fixed("ICMP6Error(2001:db8::9, timeexceeded)");
        let view = shown.ipv6(0);
        assert_eq!((view.src(), shown.annotations[19]), (addr("2001:db8:77::1"), 0));
        assert_eq!(message(&view)[8..], bytes, "and its checksum is right");
        let shown = fixed("ICMP6Error(2001:db8::9, timeexceeded, USE_FIX_ANNO false)");
        assert_eq!(shown.ipv6(0).src(), addr("2001:db8::9"));
        assert_eq!(fixed("DecIP6HLIM").ipv6(0).src(), addr("2001:db8::1"));
    }
}
