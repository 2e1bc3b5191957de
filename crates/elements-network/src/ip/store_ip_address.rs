//! Writes an IPv4 address into packets.
//!
//! # Synopsis
//! `StoreIPAddress([ADDRESS,] OFFSET)`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `ADDRESS`: the address; default: the destination annotation. An annotation of 0.0.0.0 is only
//!   written to `src` and `dst`, not to a byte offset
//! - `OFFSET`: byte offset of the address; or `src` or `dst` of the IPv4 header, where the IPv4,
//!   TCP and UDP checksums are updated
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None. Packets that are too short or have no IPv4 header are forwarded unchanged.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> StoreIPAddress(10.0.0.1, src) -> ...;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError, FromArg};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::HEADER_BYTES;

use super::support::{get_u16, get_u32, ipv4, transport_mut};

/// The class.
pub static CLASS: ElementClass = ElementClass::new("StoreIPAddress", "1/1", "a/a", || {
    Box::new(StoreIpAddress { address: None, place: Place::Data(0) })
});

/// Where an address is written.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// So many bytes behind the start of the data.
    Data(usize),
    /// So many bytes behind the start of the IPv4 header.
    Header(usize),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct StoreIpAddress {
    address: Option<Ipv4Addr>,
    place: Place,
}

/// Where the checksum of a first fragment's transport header is, if it covers addresses and is
/// there.
fn transport_checksum(packet: &Packet) -> Option<(IpProto, usize)> {
    let view = ipv4(packet).filter(|view| view.fragment_offset() == 0)?;
    match view.proto() {
        IpProto::TCP => Some((IpProto::TCP, 16)),
        IpProto::UDP => Some((IpProto::UDP, 6)),
        _ => None,
    }
}

/// Writes `address` at `at` of the IPv4 header and keeps checksums right.
pub(super) fn store_in_header(packet: &mut Packet, at: usize, address: [u8; 4]) {
    let header = packet.from_header_mut(Header::Network);
    if header.len() < HEADER_BYTES {
        return;
    }
    let (old, new) = (get_u32(header, at), u32::from_be_bytes(address));
    let sum = checksum::update_u32(get_u16(header, 10), old, new);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header[at..at + 4].copy_from_slice(&address);
    let Some((proto, at)) = transport_checksum(packet) else { return };
    let bytes = transport_mut(packet);
    let header_bytes = if proto == IpProto::TCP { 20 } else { 8 };
    if bytes.len() < header_bytes {
        return;
    }
    let sum = get_u16(bytes, at);
    let sum = match proto {
        IpProto::TCP => checksum::update_u32(sum, old, new),
        _ => checksum::update_udp_u32(sum, old, new),
    };
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

impl Element for StoreIpAddress {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let arguments = args.rest();
        let (address, place) = match &arguments[..] {
            [place] => (None, place),
            [address, place] => (Some(address), place),
            _ => {
                args.error_at("", "expected [IP address, ] byte offset");
                return args.complete();
            }
        };
        if let Some(address) = address {
            match Ipv4Addr::from_arg(address, context.names) {
                Ok(address) => self.address = Some(address),
                Err(_) => args.error_at("", "first argument should be IP address"),
            }
        }
        match (place.to_ascii_lowercase().as_str(), u32::from_arg(place, context.names)) {
            ("src", _) => self.place = Place::Header(12),
            ("dst", _) => self.place = Place::Header(16),
            (_, Ok(offset)) => self.place = Place::Data(offset as usize),
            _ => args.error_at("", "last argument should be byte offset of IP address"),
        }
        args.complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let address =
                self.address.map_or_else(|| packet.dst_ipv4(), |address| address.octets());
            match self.place {
                Place::Header(at) => store_in_header(packet, at, address),
                Place::Data(at) if self.address.is_some() || address != [0; 4] => {
                    if let Some(place) = packet.data_mut().get_mut(at..at.saturating_add(4)) {
                        place.copy_from_slice(&address);
                    }
                }
                Place::Data(_) => {}
            }
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{hex, ipv4, through};
    use warpswitch_wire::checksum::PseudoHeader;
    use warpswitch_wire::ip::IpProto;
    use warpswitch_wire::tcp::Tcp;
    use warpswitch_wire::udp::Udp;

    #[test]
    fn bytes_are_written_and_the_header_stays_right() {
        let check = |arguments: &str, bytes: &str| {
            let element =
                format!("MarkIPHeader -> SetIPAddress(1.0.0.2) -> StoreIPAddress({arguments})");
            let shown = through(&[0x99; 20], &element).expect("it passes");
            assert_eq!(hex(&shown.bytes), bytes.replace(' ', ""), "{arguments}");
        };
        check("0", "01000002 99999999 99999999 99999999 99999999");
        check("1.0.0.3, 4", "99999999 01000003 99999999 99999999 99999999");
        check("src", "99999999 99999999 9999cbca 01000002 99999999");
        check("dst", "99999999 99999999 9999cbca 99999999 01000002");
        check("1.0.0.4, dst", "99999999 99999999 9999cbc8 99999999 01000004");
        check("0.0.0.0, 16", "99999999 99999999 99999999 99999999 00000000");
        check("17", &"99".repeat(20));
    }

    #[test]
    fn sums_of_tcp_and_udp_follow() {
        let (src, dst) = ([18, 26, 4, 44].into(), [10, 0, 0, 4].into());
        let pseudo = PseudoHeader::V4 { src, dst };
        let mut segment = [5; 29];
        segment[12] = 0x50;
        Tcp::new_unchecked(&mut segment[..]).fill_checksum(&pseudo);
        let mut datagram = [7; 29];
        datagram[4..6].copy_from_slice(&[0, 29]);
        Udp::new_unchecked(&mut datagram[..]).fill_checksum(&pseudo);
        let then = PseudoHeader::V4 { src: [1, 2, 3, 4].into(), dst };
        let store = "MarkIPHeader -> StoreIPAddress(1.2.3.4, src)";
        let shown = through(&ipv4(&segment, |repr| repr.proto = IpProto::TCP), store);
        let shown = shown.expect("it passes");
        assert!(Tcp::new_unchecked(shown.ipv4().payload()).is_checksum_right(&then));
        let shown = through(&ipv4(&datagram, |_| {}), store).expect("it passes");
        assert!(Udp::new_unchecked(shown.ipv4().payload()).is_checksum_right(&then));
        datagram[6..8].fill(0);
        let shown = through(&ipv4(&datagram, |_| {}), store).expect("it passes");
        assert_eq!(shown.ipv4().payload(), datagram, "no sum stays none");
        let later = ipv4(&datagram, |repr| repr.fragment_offset = 3);
        let shown = through(&later, store).expect("it passes");
        assert_eq!(shown.ipv4().payload(), datagram, "a later fragment has no header");
    }
}
