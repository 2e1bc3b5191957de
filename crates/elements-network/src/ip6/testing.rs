//! Test helpers for the IPv6 elements: packet builders and message parsing.

use std::net::Ipv6Addr;

use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::icmpv6::Icmpv6;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv6::{Ipv6, Ipv6Repr};

pub(super) use crate::testing::{Shown, errors, hex, registry, run, shown, source, through};

pub(super) fn addr(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// An IPv6 packet from 2001:db8::1 to 2001:db8:1::2, of UDP unless it is edited.
pub(super) fn ipv6(payload: &[u8], edit: impl FnOnce(&mut Ipv6Repr)) -> Vec<u8> {
    let (src, dst) = (addr("2001:db8::1"), addr("2001:db8:1::2"));
    let mut repr = Ipv6Repr::new(src, dst, IpProto::UDP, payload.len());
    edit(&mut repr);
    let mut bytes = vec![0; 40];
    repr.emit(&mut Ipv6::new_unchecked(&mut bytes[..]));
    bytes.extend_from_slice(payload);
    bytes
}

/// An ICMPv6 message between `src` and `dst` with its checksum right.
pub(super) fn icmp(src: &str, dst: &str, hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let (src, dst) = (addr(src), addr(dst));
    let mut bytes = ipv6(message, |repr| {
        (repr.src, repr.dst, repr.hop_limit) = (src, dst, hop_limit);
        repr.next_header = IpProto::ICMPV6;
    });
    Icmpv6::new_unchecked(&mut bytes[40..]).fill_checksum(&PseudoHeader::V6 { src, dst });
    bytes
}

/// `packet` in an Ethernet frame.
pub(super) fn frame(dst: [u8; 6], src: [u8; 6], packet: &[u8]) -> Vec<u8> {
    [&dst[..], &src[..], &[0x86, 0xdd], packet].concat()
}

/// The ICMPv6 message of `packet`, whose checksum must be right.
pub(super) fn message(packet: &Ipv6<&[u8]>) -> Vec<u8> {
    let pseudo = PseudoHeader::V6 { src: packet.src(), dst: packet.dst() };
    let message = Icmpv6::new_checked(packet.payload()).expect("a message");
    assert_eq!(packet.next_header(), IpProto::ICMPV6);
    assert!(message.is_checksum_right(&pseudo), "{}", hex(packet.payload()));
    packet.payload().to_vec()
}
