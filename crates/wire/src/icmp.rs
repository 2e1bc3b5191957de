//! ICMP for IPv4: type, code, checksum, and four bytes whose meaning depends on the type.
//!
//! Source: RFC 792.

use crate::ParseError;
use crate::checksum;
use crate::view::{get_u16, get_u32, need, put, view};

/// Bytes of the header; every message of RFC 792 has at least these.
pub const HEADER_BYTES: usize = 8;
/// The type "echo reply".
pub const TYPE_ECHO_REPLY: u8 = 0;
/// The type "destination unreachable".
pub const TYPE_UNREACHABLE: u8 = 3;
/// The type "echo request".
pub const TYPE_ECHO_REQUEST: u8 = 8;
/// The type "time exceeded".
pub const TYPE_TIME_EXCEEDED: u8 = 11;

view! {
    /// A view of an ICMP message.
    Icmp
}

impl<T: AsRef<[u8]>> Icmp<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`ParseError::IcmpTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), HEADER_BYTES, ParseError::IcmpTruncated)
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
    pub fn is_checksum_right(&self) -> bool {
        checksum::is_intact(self.raw())
    }

    /// The second word: identifier and sequence number of an echo, gateway, MTU, or unused.
    pub fn rest(&self) -> u32 {
        get_u32(self.raw(), 4)
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[HEADER_BYTES..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmp<T> {
    /// Sets type and code. Like all setters, it leaves the checksum alone.
    pub fn set_kind_and_code(&mut self, kind: u8, code: u8) {
        put(self.bytes.as_mut(), 0, &[kind, code]);
    }

    /// Computes and sets the checksum; the view must end where the message does.
    pub fn fill_checksum(&mut self) {
        put(self.bytes.as_mut(), 2, &[0; 2]);
        let checksum = checksum::checksum(self.raw());
        put(self.bytes.as_mut(), 2, &checksum.to_be_bytes());
    }
}

/// What an ICMP header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IcmpRepr {
    /// Type of the message.
    pub kind: u8,
    /// Code within the type.
    pub code: u8,
    /// The second word, whatever it means.
    pub rest: u32,
}

impl IcmpRepr {
    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    /// Reads a header. The checksum is not looked at ([`Icmp::is_checksum_right`]).
    ///
    /// # Errors
    /// Those of [`Icmp::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &Icmp<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self { kind: view.kind(), code: view.code(), rest: view.rest() })
    }

    /// Writes the header with checksum zero: see [`Icmp::fill_checksum`].
    ///
    /// # Panics
    /// If the view is shorter than the header: a caller bug, not an input.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Icmp<T>) {
        view.set_kind_and_code(self.kind, self.code);
        put(view.bytes.as_mut(), 2, &[0; 2]);
        put(view.bytes.as_mut(), 4, &self.rest.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_messages_are_named() {
        for bytes in 0..HEADER_BYTES {
            let error = Icmp::new_checked(&[0; HEADER_BYTES][..bytes]).unwrap_err();
            assert_eq!(error, ParseError::IcmpTruncated);
        }
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            (kind, code, rest) in any::<(u8, u8, u32)>(),
            payload in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let repr = IcmpRepr { kind, code, rest };
            let mut bytes = std::vec![0xa5; HEADER_BYTES];
            bytes.extend(&payload);
            let mut view = Icmp::new_unchecked(&mut bytes[..]);
            repr.emit(&mut view);
            view.fill_checksum();
            prop_assert!(view.is_checksum_right());
            let view = Icmp::new_checked(&bytes).unwrap();
            prop_assert_eq!(IcmpRepr::parse(&view), Ok(repr));
            prop_assert_eq!(view.payload(), &payload[..]);
        }
    }
}
