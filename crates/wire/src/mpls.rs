//! MPLS label stack entries.
//!
//! ```text
//! label(20) traffic class(3) bottom of stack(1) TTL(8)
//! ```
//! The stack does not say what it carries. As is usual, the payload is guessed by its first four
//! bits: 4 is IPv4, 6 is IPv6 ([`Mpls::guess`]); a pseudowire that starts like that is why a guess
//! that does not hold is no error ([`crate::parse`]).
//!
//! Source: RFC 3032, 2.1; RFC 5462; RFC 4928, 3.

use crate::ParseError;
use crate::ethernet::EtherType;
use crate::view::{get_u32, need, put, view};

/// Bytes of one entry.
pub const ENTRY_BYTES: usize = 4;

view! {
    /// A view of one label stack entry and what follows.
    Mpls
}

impl<T: AsRef<[u8]>> Mpls<T> {
    /// Checks that the entry is there.
    ///
    /// # Errors
    /// [`ParseError::MplsTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), ENTRY_BYTES, ParseError::MplsTruncated)
    }

    /// The label, 20 bits.
    pub fn label(&self) -> u32 {
        get_u32(self.raw(), 0) >> 12
    }

    /// The traffic class, 3 bits.
    pub fn traffic_class(&self) -> u8 {
        self.raw()[2] >> 1 & 7
    }

    /// Whether this is the last entry.
    #[inline]
    pub fn is_bottom(&self) -> bool {
        self.raw()[2] & 1 != 0
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.raw()[3]
    }

    /// What follows the entry.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[ENTRY_BYTES..]
    }
}

impl Mpls<&[u8]> {
    /// The EtherType of `payload`, what follows a stack, guessed by its first four bits.
    pub fn guess(payload: &[u8]) -> Option<EtherType> {
        match payload.first()? >> 4 {
            4 => Some(EtherType::IPV4),
            6 => Some(EtherType::IPV6),
            _ => None,
        }
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Mpls<T> {
    /// Sets the time to live.
    pub fn set_ttl(&mut self, ttl: u8) {
        self.bytes.as_mut()[3] = ttl;
    }
}

/// What a label stack entry says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MplsRepr {
    /// The label, 20 bits.
    pub label: u32,
    /// The traffic class, 3 bits.
    pub traffic_class: u8,
    /// Whether this is the last entry.
    pub is_bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

impl MplsRepr {
    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        ENTRY_BYTES
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// Those of [`Mpls::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &Mpls<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self {
            label: view.label(),
            traffic_class: view.traffic_class(),
            is_bottom: view.is_bottom(),
            ttl: view.ttl(),
        })
    }

    /// Writes the entry; bits past a field's width are cut off.
    ///
    /// # Panics
    /// If the view is shorter than [`MplsRepr::header_bytes`]: a caller bug, not an input.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Mpls<T>) {
        let entry = self.label << 12
            | u32::from(self.traffic_class & 7) << 9
            | u32::from(self.is_bottom) << 8
            | u32::from(self.ttl);
        put(view.bytes.as_mut(), 0, &entry.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_where_the_rfc_says() {
        let view = Mpls::new_checked([0x12, 0x34, 0x5b, 64, 0x45]).unwrap();
        assert_eq!((view.label(), view.traffic_class(), view.is_bottom()), (0x12345, 5, true));
        assert_eq!((view.ttl(), view.payload()), (64, &[0x45][..]));
        assert_eq!(Mpls::guess(view.payload()), Some(EtherType::IPV4));
        assert_eq!(Mpls::guess(&[0x60]), Some(EtherType::IPV6));
        assert_eq!((Mpls::guess(&[0x00]), Mpls::guess(&[])), (None, None));
        assert_eq!(Mpls::new_checked([0; 3]).unwrap_err(), ParseError::MplsTruncated);
    }

    proptest! {
        #[test]
        fn parse_then_emit_is_identity(bytes: [u8; ENTRY_BYTES]) {
            let repr = MplsRepr::parse(&Mpls::new_unchecked(bytes)).unwrap();
            let mut out = Mpls::new_unchecked([0; ENTRY_BYTES]);
            repr.emit(&mut out);
            prop_assert_eq!(out.into_inner(), bytes);
        }
    }
}
