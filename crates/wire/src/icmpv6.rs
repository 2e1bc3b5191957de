//! ICMPv6: type, code, checksum over a pseudo header, and a body that depends on the type.
//!
//! Source: RFC 4443, 2.1.

use crate::ParseError;
use crate::checksum::PseudoHeader;
use crate::ip::IpProto;
use crate::view::{get_u16, need, put, view};

/// Bytes of the header; all else is body.
pub const HEADER_BYTES: usize = 4;
/// The type "echo request".
pub const TYPE_ECHO_REQUEST: u8 = 128;
/// The type "echo reply".
pub const TYPE_ECHO_REPLY: u8 = 129;
/// The type "neighbour solicitation".
pub const TYPE_NEIGHBOUR_SOLICITATION: u8 = 135;
/// The type "neighbour advertisement".
pub const TYPE_NEIGHBOUR_ADVERTISEMENT: u8 = 136;

view! {
    /// A view of an ICMPv6 message.
    Icmpv6
}

impl<T: AsRef<[u8]>> Icmpv6<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`ParseError::Icmpv6Truncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), HEADER_BYTES, ParseError::Icmpv6Truncated)
    }

    /// Type of the message.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.raw()[0]
    }

    /// Code within the type.
    #[inline]
    pub fn code(&self) -> u8 {
        self.raw()[1]
    }

    /// Checksum.
    pub fn checksum(&self) -> u16 {
        get_u16(self.raw(), 2)
    }

    /// Whether the checksum is right; the view must end where the message does.
    pub fn is_checksum_right(&self, pseudo: &PseudoHeader) -> bool {
        pseudo.sum(IpProto::ICMPV6, self.raw().len()).add_bytes(self.raw()).fold() == 0xffff
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[HEADER_BYTES..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmpv6<T> {
    /// Sets type and code. Like all setters, it leaves the checksum alone.
    pub fn set_kind_and_code(&mut self, kind: u8, code: u8) {
        put(self.bytes.as_mut(), 0, &[kind, code]);
    }

    /// Computes and sets the checksum; the view must end where the message does.
    pub fn fill_checksum(&mut self, pseudo: &PseudoHeader) {
        put(self.bytes.as_mut(), 2, &[0; 2]);
        let sum = pseudo.sum(IpProto::ICMPV6, self.raw().len()).add_bytes(self.raw());
        put(self.bytes.as_mut(), 2, &sum.checksum().to_be_bytes());
    }
}

/// What an ICMPv6 header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Icmpv6Repr {
    /// Type of the message.
    pub kind: u8,
    /// Code within the type.
    pub code: u8,
}

impl Icmpv6Repr {
    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    /// Reads a header. The checksum is not looked at ([`Icmpv6::is_checksum_right`]).
    ///
    /// # Errors
    /// Those of [`Icmpv6::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &Icmpv6<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self { kind: view.kind(), code: view.code() })
    }

    /// Writes the header with checksum zero: see [`Icmpv6::fill_checksum`].
    ///
    /// # Panics
    /// If the view is shorter than the header: a caller bug, not an input.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Icmpv6<T>) {
        view.set_kind_and_code(self.kind, self.code);
        put(view.bytes.as_mut(), 2, &[0; 2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_messages_are_named() {
        for bytes in 0..HEADER_BYTES {
            let error = Icmpv6::new_checked(&[0; HEADER_BYTES][..bytes]).unwrap_err();
            assert_eq!(error, ParseError::Icmpv6Truncated);
        }
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            (kind, code, src, dst) in any::<(u8, u8, u128, u128)>(),
            payload in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let repr = Icmpv6Repr { kind, code };
            let mut bytes = std::vec![0xa5; HEADER_BYTES];
            bytes.extend(&payload);
            let pseudo = PseudoHeader::V6 { src: src.into(), dst: dst.into() };
            let mut view = Icmpv6::new_unchecked(&mut bytes[..]);
            repr.emit(&mut view);
            view.fill_checksum(&pseudo);
            prop_assert!(view.is_checksum_right(&pseudo));
            let view = Icmpv6::new_checked(&bytes).unwrap();
            prop_assert_eq!(Icmpv6Repr::parse(&view), Ok(repr));
            prop_assert_eq!(view.payload(), &payload[..]);
        }
    }
}
