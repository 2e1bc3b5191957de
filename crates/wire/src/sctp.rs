//! The common header of SCTP packets; chunks are not interpreted.
//!
//! Source: RFC 9260, 3.1 and appendix A for the checksum, CRC-32C.

use crate::ParseError;
use crate::view::{get_array, get_u16, get_u32, need, put, view};

/// Bytes of the common header.
pub const HEADER_BYTES: usize = 12;

view! {
    /// A view of an SCTP packet.
    Sctp
}

impl<T: AsRef<[u8]>> Sctp<T> {
    /// Checks that the common header is there.
    ///
    /// # Errors
    /// [`ParseError::SctpTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), HEADER_BYTES, ParseError::SctpTruncated)
    }

    /// Source port.
    pub fn src_port(&self) -> u16 {
        get_u16(self.raw(), 0)
    }

    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        get_u16(self.raw(), 2)
    }

    /// Verification tag.
    pub fn verification_tag(&self) -> u32 {
        get_u32(self.raw(), 4)
    }

    /// Checksum. It alone is little-endian on the wire.
    pub fn checksum(&self) -> u32 {
        u32::from_le_bytes(get_array(self.raw(), 8))
    }

    /// Whether the checksum is right; the view must end where the packet does.
    pub fn is_checksum_right(&self) -> bool {
        self.checksum() == self.computed_checksum()
    }

    /// The chunks.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[HEADER_BYTES..]
    }

    /// CRC-32C of the packet with its checksum field taken as zero.
    fn computed_checksum(&self) -> u32 {
        let state = crc32c_update(!0, &self.raw()[..8]);
        let state = crc32c_update(state, &[0; 4]);
        !crc32c_update(state, self.payload())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Sctp<T> {
    /// Sets the source port. Like all setters, it leaves the checksum alone.
    pub fn set_src_port(&mut self, port: u16) {
        put(self.bytes.as_mut(), 0, &port.to_be_bytes());
    }

    /// Sets the destination port.
    pub fn set_dst_port(&mut self, port: u16) {
        put(self.bytes.as_mut(), 2, &port.to_be_bytes());
    }

    /// Computes and sets the checksum; the view must end where the packet does.
    pub fn fill_checksum(&mut self) {
        let checksum = self.computed_checksum();
        put(self.bytes.as_mut(), 8, &checksum.to_le_bytes());
    }
}

/// What the common header of an SCTP packet says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SctpRepr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Verification tag.
    pub verification_tag: u32,
}

impl SctpRepr {
    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    /// Reads a header. The checksum is not looked at ([`Sctp::is_checksum_right`]).
    ///
    /// # Errors
    /// Those of [`Sctp::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &Sctp<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self {
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            verification_tag: view.verification_tag(),
        })
    }

    /// Writes the header with checksum zero: see [`Sctp::fill_checksum`].
    ///
    /// # Panics
    /// If the view is shorter than the header: a caller bug, not an input.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Sctp<T>) {
        view.set_src_port(self.src_port);
        view.set_dst_port(self.dst_port);
        put(view.bytes.as_mut(), 4, &self.verification_tag.to_be_bytes());
        put(view.bytes.as_mut(), 8, &[0; 4]);
    }
}

/// CRC-32C, the Castagnoli polynomial, reflected.
const CRC32C_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut state = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            state = if state & 1 == 1 { state >> 1 ^ 0x82f6_3b78 } else { state >> 1 };
            bit += 1;
        }
        table[byte] = state;
        byte += 1;
    }
    table
};

/// Advances a CRC-32C state over `bytes`. A checksum starts at all ones and is complemented.
fn crc32c_update(state: u32, bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(state, |state, &byte| state >> 8 ^ CRC32C_TABLE[usize::from(state as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_checksums() {
        // RFC 3720, B.4.
        assert_eq!(!crc32c_update(!0, &[0; 32]), 0x8a91_36aa);
        assert_eq!(!crc32c_update(!0, &[0xff; 32]), 0x62a8_ab43);
        assert_eq!(!crc32c_update(!0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn short_packets_are_named() {
        for bytes in 0..HEADER_BYTES {
            let error = Sctp::new_checked(&[0; HEADER_BYTES][..bytes]).unwrap_err();
            assert_eq!(error, ParseError::SctpTruncated);
        }
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            (src_port, dst_port, verification_tag) in any::<(u16, u16, u32)>(),
            payload in prop::collection::vec(any::<u8>(), 0..40),
            flip in 0usize..96,
        ) {
            let repr = SctpRepr { src_port, dst_port, verification_tag };
            let mut bytes = std::vec![0xa5; HEADER_BYTES];
            bytes.extend(&payload);
            let mut view = Sctp::new_unchecked(&mut bytes[..]);
            repr.emit(&mut view);
            view.fill_checksum();
            prop_assert!(view.is_checksum_right());
            let view = Sctp::new_checked(&bytes).unwrap();
            prop_assert_eq!(SctpRepr::parse(&view), Ok(repr));
            bytes[flip / 8] ^= 1 << (flip % 8);
            prop_assert!(!Sctp::new_checked(&bytes).unwrap().is_checksum_right());
        }
    }
}
