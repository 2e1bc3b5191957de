//! 802.1Q and 802.1ad tags: the four bytes that start behind the tag's own EtherType.
//!
//! ```text
//! PCP(3) DEI(1) VID(12) | EtherType of what follows
//! ```
//! Source: IEEE 802.1Q-2022, 9.6.

use crate::ParseError;
use crate::ethernet::EtherType;
use crate::view::{get_u16, need, put, view};

/// Bytes of a tag behind its EtherType.
pub const TAG_BYTES: usize = 4;

view! {
    /// A view of one VLAN tag and what follows: the payload of a frame whose EtherType is a
    /// tag's.
    Vlan
}

impl<T: AsRef<[u8]>> Vlan<T> {
    /// Checks that the tag is there.
    ///
    /// # Errors
    /// [`ParseError::VlanTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), TAG_BYTES, ParseError::VlanTruncated)
    }

    /// All of the tag control information.
    #[inline]
    pub fn tci(&self) -> u16 {
        get_u16(self.raw(), 0)
    }

    /// Priority code point, 3 bits.
    pub fn priority(&self) -> u8 {
        self.raw()[0] >> 5
    }

    /// Drop eligible indicator.
    pub fn drop_eligible(&self) -> bool {
        self.raw()[0] & 0x10 != 0
    }

    /// VLAN identifier, 12 bits; zero in a tag that carries a priority alone.
    pub fn vid(&self) -> u16 {
        self.tci() & 0x0fff
    }

    /// EtherType of what follows the tag.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        EtherType(get_u16(self.raw(), 2))
    }

    /// What follows the tag.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[TAG_BYTES..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Vlan<T> {
    /// Sets the tag control information.
    pub fn set_tci(&mut self, tci: u16) {
        put(self.bytes.as_mut(), 0, &tci.to_be_bytes());
    }

    /// Sets the EtherType of what follows.
    pub fn set_ether_type(&mut self, ether_type: EtherType) {
        put(self.bytes.as_mut(), 2, &ether_type.0.to_be_bytes());
    }
}

/// What a VLAN tag says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlanRepr {
    /// Priority code point, 3 bits.
    pub priority: u8,
    /// Drop eligible indicator.
    pub drop_eligible: bool,
    /// VLAN identifier, 12 bits.
    pub vid: u16,
    /// EtherType of what follows.
    pub ether_type: EtherType,
}

impl VlanRepr {
    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        TAG_BYTES
    }

    /// Reads a tag.
    ///
    /// # Errors
    /// Those of [`Vlan::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &Vlan<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self {
            priority: view.priority(),
            drop_eligible: view.drop_eligible(),
            vid: view.vid(),
            ether_type: view.ether_type(),
        })
    }

    /// Writes the tag; bits past a field's width are cut off.
    ///
    /// # Panics
    /// If the view is shorter than [`VlanRepr::header_bytes`]: a caller bug, not an input.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Vlan<T>) {
        let flags = u16::from(self.priority) << 13 | u16::from(self.drop_eligible) << 12;
        view.set_tci(flags | self.vid & 0x0fff);
        view.set_ether_type(self.ether_type);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_where_the_standard_says() {
        let view = Vlan::new_checked([0xb0, 0x64, 0x08, 0x00, 7]).unwrap();
        assert_eq!((view.priority(), view.drop_eligible(), view.vid()), (5, true, 100));
        assert_eq!((view.tci(), view.ether_type()), (0xb064, EtherType::IPV4));
        assert_eq!(view.payload(), [7]);
        assert_eq!(Vlan::new_checked([0; 3]).unwrap_err(), ParseError::VlanTruncated);
    }

    proptest! {
        #[test]
        fn parse_then_emit_is_identity(bytes: [u8; TAG_BYTES]) {
            let repr = VlanRepr::parse(&Vlan::new_unchecked(bytes)).unwrap();
            let mut out = Vlan::new_unchecked([0; TAG_BYTES]);
            repr.emit(&mut out);
            prop_assert_eq!(out.into_inner(), bytes);
        }
    }
}
