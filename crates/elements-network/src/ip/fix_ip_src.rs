//! Sets the source address of packets that have the fix-source annotation.
//!
//! # Synopsis
//! `FixIPSrc(IPADDR)`
//!
//! # Ports
//! One input, one output; push or pull. If the fix-source annotation is set, the element clears it,
//! sets the source address to `IPADDR` and recomputes the header checksum. ICMP errors thus get the
//! address of the interface that sends them.
//!
//! # Configuration
//! - `IPADDR`: the address
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
//! ... -> IPGWOptions(10.0.0.1) -> FixIPSrc(10.0.0.1) -> DecIPTTL -> ...;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::packet::annotation;
use warpswitch_packet::{Batch, Packet};

use super::support::ipv4_mut;

/// The class.
pub static CLASS: ElementClass = ElementClass::new("FixIPSrc", "1/1", "a/a", || {
    Box::new(FixIpSrc { address: Ipv4Addr::UNSPECIFIED })
});

/// See the module.
#[derive(Clone, Debug)]
pub struct FixIpSrc {
    address: Ipv4Addr,
}

/// Does so to one packet.
#[inline]
pub(super) fn fix(packet: &mut Packet, address: Ipv4Addr) {
    if packet.anno_u8(annotation::FIX_SRC) == 0 {
        return;
    }
    packet.set_anno_u8(annotation::FIX_SRC, 0);
    if let Some(mut view) = ipv4_mut(packet) {
        view.set_src(address);
        view.fill_checksum();
    }
}

impl Element for FixIpSrc {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("IPADDR", &mut self.address).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| fix(packet, self.address));
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
    use super::super::testing::{ipv4, through};

    #[test]
    fn only_those_that_ask_get_the_address() {
        let bytes = ipv4(b"data", |repr| repr.ttl = 1);
        let plain = through(&bytes, "MarkIPHeader -> FixIPSrc(10.0.0.9)").expect("it passes");
        assert_eq!(plain.bytes, bytes);
        let asked = "MarkIPHeader -> ICMPError(10.0.0.1, timeexceeded) -> FixIPSrc(10.0.0.9)";
        let shown = through(&bytes, asked).expect("an error");
        assert_eq!(shown.ipv4().src().octets(), [10, 0, 0, 9]);
        assert_eq!(shown.annotations[19], 0);
    }
}
