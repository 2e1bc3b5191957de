//! UDP headers.
//!
//! Source: RFC 768; RFC 8200, 8.1 for the checksum over IPv6.

use crate::ParseError;
use crate::checksum::PseudoHeader;
use crate::ip::IpProto;
use crate::view::{get_u16, need, put, view};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;

view! {
    /// A view of a UDP datagram.
    Udp
}

impl<T: AsRef<[u8]>> Udp<T> {
    /// Checks the header, and that the whole datagram is there.
    ///
    /// # Errors
    /// Those of [`Udp::check_header`]; [`ParseError::UdpLength`] if it is not whole.
    pub fn check(&self) -> Result<(), ParseError> {
        self.check_header()?;
        need(self.raw(), self.datagram_bytes(), ParseError::UdpLength)
    }

    /// Checks the header alone, for fragments and packets that a capture cut short: all accessors
    /// but [`Udp::payload`] and the checksum are safe then.
    ///
    /// # Errors
    /// [`ParseError::UdpTruncated`]; [`ParseError::UdpLength`] for a length below the header's.
    pub fn check_header(&self) -> Result<(), ParseError> {
        need(self.raw(), HEADER_BYTES, ParseError::UdpTruncated)?;
        if self.datagram_bytes() < HEADER_BYTES {
            return Err(ParseError::UdpLength);
        }
        Ok(())
    }

    /// Source port.
    pub fn src_port(&self) -> u16 {
        get_u16(self.raw(), 0)
    }

    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        get_u16(self.raw(), 2)
    }

    /// Bytes of header and payload.
    #[inline]
    pub fn datagram_bytes(&self) -> usize {
        usize::from(get_u16(self.raw(), 4))
    }

    /// Checksum; zero says that there is none.
    pub fn checksum(&self) -> u16 {
        get_u16(self.raw(), 6)
    }

    /// Whether the checksum is right; zero ("none") is, over IPv4 only.
    pub fn is_checksum_right(&self, pseudo: &PseudoHeader) -> bool {
        if self.checksum() == 0 {
            return matches!(pseudo, PseudoHeader::V4 { .. });
        }
        let datagram = &self.raw()[..self.datagram_bytes()];
        pseudo.sum(IpProto::UDP, datagram.len()).add_bytes(datagram).fold() == 0xffff
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[HEADER_BYTES..self.datagram_bytes()]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Udp<T> {
    /// Sets the source port. Like all setters, it leaves the checksum alone.
    pub fn set_src_port(&mut self, port: u16) {
        put(self.bytes.as_mut(), 0, &port.to_be_bytes());
    }

    /// Sets the destination port.
    pub fn set_dst_port(&mut self, port: u16) {
        put(self.bytes.as_mut(), 2, &port.to_be_bytes());
    }

    /// Sets the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        put(self.bytes.as_mut(), 6, &checksum.to_be_bytes());
    }

    /// Computes and sets the checksum, never to zero.
    pub fn fill_checksum(&mut self, pseudo: &PseudoHeader) {
        self.set_checksum(0);
        let datagram = &self.raw()[..self.datagram_bytes()];
        let sum = pseudo.sum(IpProto::UDP, datagram.len()).add_bytes(datagram);
        self.set_checksum(match sum.checksum() {
            0 => 0xffff,
            checksum => checksum,
        });
    }
}

/// What a UDP header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpRepr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes behind the header, at most 65527.
    pub payload_bytes: usize,
}

impl UdpRepr {
    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    /// Reads a header. The checksum is not looked at ([`Udp::is_checksum_right`]).
    ///
    /// # Errors
    /// Those of [`Udp::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &Udp<T>) -> Result<Self, ParseError> {
        view.check()?;
        let payload_bytes = view.datagram_bytes() - HEADER_BYTES;
        Ok(Self { src_port: view.src_port(), dst_port: view.dst_port(), payload_bytes })
    }

    /// Writes the header with checksum zero, "none": see [`Udp::fill_checksum`].
    ///
    /// # Panics
    /// If the view is shorter than the header, or the payload longer than documented: caller
    /// bugs, not inputs.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Udp<T>) {
        let bytes = u16::try_from(HEADER_BYTES + self.payload_bytes).expect("a payload fits UDP");
        view.set_src_port(self.src_port);
        view.set_dst_port(self.dst_port);
        put(view.bytes.as_mut(), 4, &bytes.to_be_bytes());
        view.set_checksum(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    const V4: PseudoHeader =
        PseudoHeader::V4 { src: Ipv4Addr::UNSPECIFIED, dst: Ipv4Addr::UNSPECIFIED };
    const V6: PseudoHeader =
        PseudoHeader::V6 { src: Ipv6Addr::UNSPECIFIED, dst: Ipv6Addr::UNSPECIFIED };

    #[test]
    fn what_contradicts_itself_is_named() {
        let check = |length: u8, bytes: usize, error: Option<ParseError>| {
            let datagram = [0, 1, 0, 2, 0, length, 0, 0, 9, 9];
            assert_eq!(Udp::new_checked(&datagram[..bytes]).err(), error, "{length} {bytes}");
        };
        check(8, 8, None);
        check(10, 10, None);
        check(8, 7, Some(ParseError::UdpTruncated));
        check(7, 10, Some(ParseError::UdpLength));
        check(0, 10, Some(ParseError::UdpLength));
        check(11, 10, Some(ParseError::UdpLength));
    }

    #[test]
    fn a_sum_of_zero_is_written_as_ones() {
        // Ports such that the sum of everything else is ffff: 17 + 8 (pseudo) + 8 (length).
        let mut view = Udp::new_unchecked([0; 8]);
        UdpRepr { src_port: 0xffff - 33, dst_port: 0, payload_bytes: 0 }.emit(&mut view);
        view.fill_checksum(&V4);
        assert_eq!(view.checksum(), 0xffff);
        assert!(view.is_checksum_right(&V4));
        view.set_checksum(0);
        assert!(view.is_checksum_right(&V4) && !view.is_checksum_right(&V6));
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            (src_port, dst_port) in any::<(u16, u16)>(),
            payload in prop::collection::vec(any::<u8>(), 0..40),
            (src, dst) in any::<(u128, u128)>(),
        ) {
            let repr = UdpRepr { src_port, dst_port, payload_bytes: payload.len() };
            let mut bytes = std::vec![0xa5; HEADER_BYTES];
            bytes.extend(&payload);
            let pseudo = PseudoHeader::V6 { src: src.into(), dst: dst.into() };
            let mut view = Udp::new_unchecked(&mut bytes[..]);
            repr.emit(&mut view);
            view.fill_checksum(&pseudo);
            prop_assert!(view.is_checksum_right(&pseudo));
            let view = Udp::new_checked(&bytes).unwrap();
            prop_assert_eq!(UdpRepr::parse(&view), Ok(repr));
            prop_assert_eq!(view.payload(), &payload[..]);
        }
    }
}
