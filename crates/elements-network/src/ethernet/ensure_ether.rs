//! Ensures that IP packets have an Ethernet header.
//!
//! # Synopsis
//! `EnsureEther([ETHERTYPE, SRC, DST])`
//!
//! # Ports
//! One input, one output; agnostic.
//!
//! # Configuration
//! - `ETHERTYPE`: EtherType of a new header, default: 0x0800
//! - `SRC`, `DST`: addresses of a new header, default: 1:1:1:1:1:1 and 2:2:2:2:2:2
//!
//! Packets without a network header and packets that start with an Ethernet header are forwarded
//! unchanged. If the packet starts with its network header and an Ethernet header was stripped
//! there, that one is restored. Otherwise a new header replaces all bytes before the network
//! header.
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
//! FromDump(ip.pcap, FORCE_IP true) -> EnsureEther -> ToDump(out.pcap);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ethernet::{EtherType, Ethernet, HEADER_BYTES};

use super::{header, push_header};

/// The class.
pub static CLASS: ElementClass = ElementClass::new("EnsureEther", "1/1", "a/a", || {
    Box::new(EnsureEther {
        ether_type: EtherType::IPV4.0,
        src: EtherAddress([1; 6]),
        dst: EtherAddress([2; 6]),
    })
});

/// See the module.
#[derive(Clone, Debug)]
pub struct EnsureEther {
    ether_type: u16,
    src: EtherAddress,
    dst: EtherAddress,
}

/// Whether `frame` begins with an Ethernet header of IP.
fn is_ip_frame(frame: &[u8]) -> bool {
    Ethernet::new_checked(frame)
        .is_ok_and(|frame| matches!(frame.ether_type(), EtherType::IPV4 | EtherType::IPV6))
}

impl EnsureEther {
    fn ensure(&self, packet: &mut Packet) {
        let Some(network) = packet.header_offset(Header::Network) else { return };
        if network == HEADER_BYTES && is_ip_frame(packet.data()) {
            return;
        }
        let stripped = packet.stripped_mac().filter(|_| network == 0);
        let was_stripped =
            stripped.is_some_and(|mac| mac.len() == HEADER_BYTES && is_ip_frame(mac));
        if was_stripped {
            return packet.unpull(HEADER_BYTES);
        }
        packet.pull(network);
        push_header(packet, &header(self.dst, self.src, self.ether_type));
    }
}

impl Element for EnsureEther {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("ETHERTYPE", &mut self.ether_type)
            .read_p("SRC", &mut self.src)
            .read_p("DST", &mut self.dst)
            .complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            self.ensure(packet);
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_packets_get_a_header_where_they_have_none() {
        let ensure = EnsureEther {
            ether_type: 0x0800,
            src: EtherAddress([1; 6]),
            dst: EtherAddress([2; 6]),
        };
        let mine = header(ensure.dst, ensure.src, 0x0800);
        let theirs = header(EtherAddress([3; 6]), EtherAddress([4; 6]), 0x86dd);
        let mut packet = Packet::new();
        packet.set_data(b"\x45 packet");
        ensure.ensure(&mut packet);
        assert_eq!(packet.data(), b"\x45 packet", "no network header");
        packet.set_header(Header::Network, 0);
        ensure.ensure(&mut packet);
        assert_eq!(packet.data(), [&mine[..], b"\x45 packet"].concat());
        ensure.ensure(&mut packet);
        assert_eq!(packet.len(), 22, "it has one");
        packet.data_mut()[..HEADER_BYTES].copy_from_slice(&theirs);
        packet.pull(HEADER_BYTES);
        ensure.ensure(&mut packet);
        assert_eq!(packet.data()[..HEADER_BYTES], theirs, "it had one");
        packet.data_mut()[12] = 0;
        packet.pull(HEADER_BYTES);
        ensure.ensure(&mut packet);
        assert_eq!(packet.data()[..HEADER_BYTES], mine, "what was there was no such header");
        packet.data_mut()[12] = 0;
        ensure.ensure(&mut packet);
        assert_eq!(packet.data(), [&mine[..], b"\x45 packet"].concat(), "nor is what is there");
    }
}
