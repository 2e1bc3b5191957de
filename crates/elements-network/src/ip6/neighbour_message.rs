//! Neighbour solicitations and advertisements in Ethernet frames: parsing, validation,
//! construction.
//!
//! Source: RFC 4861, 4.3, 4.4; 7.1.1 and 7.1.2 for validation.

use std::net::Ipv6Addr;

use warpswitch_packet::packet::Header;
use warpswitch_packet::{Packet, Pool};
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::ethernet::{EtherType, Ethernet, EthernetRepr, HEADER_BYTES, MacAddr};
use warpswitch_wire::icmpv6::{Icmpv6, TYPE_NEIGHBOUR_ADVERTISEMENT, TYPE_NEIGHBOUR_SOLICITATION};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv6::{self, Ipv6, Ipv6Repr};

use super::support::{HOP_LIMIT_MAX, set_ipv6_header, solicited_node};

/// The flag of an advertisement by a router.
pub(super) const FLAG_ROUTER: u8 = 0x80;
/// The flag of an advertisement that answers a solicitation.
pub(super) const FLAG_SOLICITED: u8 = 0x40;
/// The flag of an advertisement that counts more than what is known.
pub(super) const FLAG_OVERRIDE: u8 = 0x20;

/// The option with the sender's link address.
const OPTION_SOURCE: u8 = 1;
/// The option with the target's link address.
const OPTION_TARGET: u8 = 2;
/// Bytes of a message without options.
const MESSAGE_BYTES: usize = 24;
/// Bytes of an option with an Ethernet address.
const OPTION_BYTES: usize = 8;

/// Which message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Who has this address?
    Solicitation,
    /// I have this address.
    Advertisement,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Solicitation => TYPE_NEIGHBOUR_SOLICITATION,
            Kind::Advertisement => TYPE_NEIGHBOUR_ADVERTISEMENT,
        }
    }

    fn option(self) -> u8 {
        match self {
            Kind::Solicitation => OPTION_SOURCE,
            Kind::Advertisement => OPTION_TARGET,
        }
    }
}

/// A message and what it came, or is to go, in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NeighbourMessage {
    pub(super) kind: Kind,
    pub(super) ether_src: [u8; 6],
    pub(super) ether_dst: [u8; 6],
    pub(super) src: Ipv6Addr,
    pub(super) dst: Ipv6Addr,
    pub(super) target: Ipv6Addr,
    /// Of advertisements; 0 else.
    pub(super) flags: u8,
    /// The link address in the options: the sender's of a solicitation, the target's of an
    /// advertisement.
    pub(super) link: Option<[u8; 6]>,
}

impl NeighbourMessage {
    /// Reads a frame; none if it is no such message or there is something wrong with it.
    pub(super) fn parse(frame: &[u8], kind: Kind) -> Option<Self> {
        let frame = Ethernet::new_checked(frame).ok()?;
        if frame.ether_type() != EtherType::IPV6 {
            return None;
        }
        let packet = Ipv6::new_checked(frame.payload()).ok()?;
        let message = Icmpv6::new_checked(packet.payload()).ok()?;
        let (src, dst) = (packet.src(), packet.dst());
        let is_one = (packet.next_header(), packet.hop_limit()) == (IpProto::ICMPV6, HOP_LIMIT_MAX)
            && (message.kind(), message.code()) == (kind.number(), 0)
            && message.is_checksum_right(&PseudoHeader::V6 { src, dst });
        let (fixed, options) = packet.payload().split_at_checked(MESSAGE_BYTES)?;
        let target: [u8; 16] = fixed[8..].try_into().ok()?;
        let parsed = Self {
            kind,
            ether_src: frame.src().0,
            ether_dst: frame.dst().0,
            src,
            dst,
            target: target.into(),
            flags: if kind == Kind::Advertisement { fixed[4] } else { 0 },
            link: link_option(options, kind.option())?,
        };
        (is_one && parsed.makes_sense()).then_some(parsed)
    }

    fn makes_sense(&self) -> bool {
        let is_right = match self.kind {
            // A sender without an address checks whether its tentative one is a duplicate.
            Kind::Solicitation if self.src.is_unspecified() => {
                self.dst == solicited_node(self.target) && self.link.is_none()
            }
            Kind::Solicitation => true,
            Kind::Advertisement => !self.dst.is_multicast() || self.flags & FLAG_SOLICITED == 0,
        };
        is_right && !self.target.is_multicast() && !self.src.is_multicast()
    }

    /// The message as a frame of the pool.
    pub(super) fn packet(&self, pool: &mut Pool) -> Packet {
        let message_bytes = MESSAGE_BYTES + self.link.map_or(0, |_| OPTION_BYTES);
        let mut packet = pool.packet();
        let bytes = packet.put(HEADER_BYTES + ipv6::HEADER_BYTES + message_bytes);
        let ethernet = EthernetRepr {
            dst: MacAddr(self.ether_dst),
            src: MacAddr(self.ether_src),
            ether_type: EtherType::IPV6,
        };
        ethernet.emit(&mut Ethernet::new_unchecked(&mut bytes[..]));
        let (header, message) = bytes[HEADER_BYTES..].split_at_mut(ipv6::HEADER_BYTES);
        let repr = Ipv6Repr {
            hop_limit: HOP_LIMIT_MAX,
            ..Ipv6Repr::new(self.src, self.dst, IpProto::ICMPV6, message_bytes)
        };
        repr.emit(&mut Ipv6::new_unchecked(header));
        message[0] = self.kind.number();
        message[4] = self.flags;
        message[8..MESSAGE_BYTES].copy_from_slice(&self.target.octets());
        if let Some(link) = self.link {
            message[MESSAGE_BYTES..][..2].copy_from_slice(&[self.kind.option(), 1]);
            message[MESSAGE_BYTES + 2..].copy_from_slice(&link);
        }
        let pseudo = PseudoHeader::V6 { src: self.src, dst: self.dst };
        Icmpv6::new_unchecked(message).fill_checksum(&pseudo);
        packet.set_header(Header::Mac, 0);
        set_ipv6_header(&mut packet, HEADER_BYTES);
        packet.set_dst_ipv6(self.dst.octets());
        packet
    }
}

/// The Ethernet address in option `kind`, if there is one; none at all if the options are
/// malformed.
fn link_option(mut options: &[u8], kind: u8) -> Option<Option<[u8; 6]>> {
    let mut found = None;
    while let [option, words, ..] = *options {
        let (data, rest) = options.split_at_checked(usize::from(words) * 8)?;
        if data.is_empty() {
            return None;
        }
        if option == kind && data.len() == OPTION_BYTES {
            found = data[2..].first_chunk::<6>().copied();
        }
        options = rest;
    }
    options.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{addr, frame, icmp};
    use super::*;

    fn solicitation() -> NeighbourMessage {
        NeighbourMessage {
            kind: Kind::Solicitation,
            ether_src: [2, 0, 0, 0, 0, 1],
            ether_dst: [0x33, 0x33, 0xff, 0, 0, 9],
            src: addr("2001:db8::1"),
            dst: solicited_node(addr("2001:db8::9")),
            target: addr("2001:db8::9"),
            flags: 0,
            link: Some([2, 0, 0, 0, 0, 1]),
        }
    }

    #[test]
    fn what_is_made_is_read_back() {
        let advertisement = NeighbourMessage {
            kind: Kind::Advertisement,
            dst: addr("2001:db8::2"),
            flags: FLAG_ROUTER | FLAG_SOLICITED,
            ..solicitation()
        };
        let anonymous = NeighbourMessage { src: addr("::"), link: None, ..solicitation() };
        for message in [solicitation(), advertisement, anonymous] {
            let packet = message.packet(&mut Pool::new());
            assert_eq!(NeighbourMessage::parse(packet.data(), message.kind), Some(message));
            let other = match message.kind {
                Kind::Solicitation => Kind::Advertisement,
                Kind::Advertisement => Kind::Solicitation,
            };
            assert_eq!(NeighbourMessage::parse(packet.data(), other), None);
            for end in 0..packet.len() {
                assert_eq!(NeighbourMessage::parse(&packet.data()[..end], message.kind), None);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_no_message() {
        let body =
            |target: &str| [&[135, 0, 0, 0, 0, 0, 0, 0][..], &addr(target).octets()].concat();
        let check = |src: &str, dst: &str, hops: u8, message: &[u8], is_right: bool| {
            let frame = frame([2; 6], [4; 6], &icmp(src, dst, hops, message));
            let parsed = NeighbourMessage::parse(&frame, Kind::Solicitation);
            assert_eq!(parsed.is_some(), is_right, "{src} {dst} {hops} {message:?}");
        };
        let (src, dst, group) = ("2001:db8::1", "2001:db8::9", "ff02::1:ff00:9");
        let plain = body(dst);
        check(src, dst, 255, &plain, true);
        check(src, dst, 254, &plain, false);
        check("ff02::1", dst, 255, &plain, false);
        check(src, group, 255, &body("ff02::1"), false);
        check("::", group, 255, &plain, true);
        check("::", dst, 255, &plain, false);
        check("::", group, 255, &[&plain[..], &[1, 1, 2, 2, 2, 2, 2, 2]].concat(), false);
        check(src, dst, 255, &plain[..23], false);
        for (options, is_right) in [
            (&[1, 1, 2, 2, 2, 2, 2, 2][..], true),
            (&[77, 1, 0, 0, 0, 0, 0, 0], true),
            (&[1, 0, 2, 2, 2, 2, 2, 2], false),
            (&[1, 2, 2, 2, 2, 2, 2, 2], false),
            (&[1], false),
        ] {
            check(src, dst, 255, &[&plain[..], options].concat(), is_right);
        }
        let mut coded = plain.clone();
        coded[1] = 1;
        check(src, dst, 255, &coded, false);
        let mut frame = frame([2; 6], [4; 6], &icmp(src, dst, 255, &plain));
        frame[60] ^= 1;
        assert_eq!(NeighbourMessage::parse(&frame, Kind::Solicitation), None, "checksum");
    }
}
