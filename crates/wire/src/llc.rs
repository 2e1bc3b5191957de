//! 802.2 LLC headers of 802.3 frames, and the SNAP extension that brings an EtherType back.
//!
//! ```text
//! DSAP SSAP control(1 or 2) | with DSAP = SSAP = 0xaa, control = 3: OUI(3) protocol(2)
//! ```
//! Source: IEEE 802.2-1998, 3 and IEEE 802-2014, 9.2.

use crate::ParseError;
use crate::ethernet::{ETHER_TYPE_MIN, EtherType};
use crate::view::{get_array, get_u16, need, put, view};

/// Bytes of an LLC header with the one-byte control field of unnumbered frames.
pub const HEADER_BYTES: usize = 3;
/// Bytes of an LLC header with its SNAP extension.
pub const SNAP_BYTES: usize = 8;
/// The service access point of SNAP.
pub const SAP_SNAP: u8 = 0xaa;
/// The control field of an unnumbered information frame.
pub const CONTROL_UI: u8 = 0x03;

view! {
    /// A view of an LLC header and what follows.
    Llc
}

impl<T: AsRef<[u8]>> Llc<T> {
    /// Checks that the header is there, and its SNAP extension if it says that there is one.
    ///
    /// # Errors
    /// [`ParseError::LlcTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), HEADER_BYTES, ParseError::LlcTruncated)?;
        need(self.raw(), self.header_bytes(), ParseError::LlcTruncated)
    }

    /// Destination service access point.
    pub fn dsap(&self) -> u8 {
        self.raw()[0]
    }

    /// Source service access point.
    pub fn ssap(&self) -> u8 {
        self.raw()[1]
    }

    /// First byte of the control field.
    pub fn control(&self) -> u8 {
        self.raw()[2]
    }

    /// Whether a SNAP extension follows.
    pub fn is_snap(&self) -> bool {
        self.dsap() == SAP_SNAP && self.ssap() == SAP_SNAP && self.control() == CONTROL_UI
    }

    /// Bytes of the header: 8 with SNAP, 3 for other unnumbered frames, else 4.
    pub fn header_bytes(&self) -> usize {
        match self.control() & 3 {
            3 if self.is_snap() => SNAP_BYTES,
            3 => HEADER_BYTES,
            _ => HEADER_BYTES + 1,
        }
    }

    /// The organisation that assigned the SNAP protocol, if there is SNAP.
    pub fn snap_oui(&self) -> Option<[u8; 3]> {
        self.is_snap().then(|| get_array(self.raw(), 3))
    }

    /// The SNAP protocol, if there is SNAP.
    pub fn snap_protocol(&self) -> Option<u16> {
        self.is_snap().then(|| get_u16(self.raw(), 6))
    }

    /// The EtherType of the payload, if a SNAP header of organisation zero names one.
    pub fn ether_type(&self) -> Option<EtherType> {
        let protocol = self.snap_protocol()?;
        let named = self.snap_oui() == Some([0; 3]) && protocol >= ETHER_TYPE_MIN;
        named.then_some(EtherType(protocol))
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[self.header_bytes()..]
    }
}

/// What an LLC header of unnumbered information says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlcRepr {
    /// Service access points and the first control byte; what follows is not interpreted.
    Plain {
        /// Destination service access point.
        dsap: u8,
        /// Source service access point.
        ssap: u8,
        /// First byte of the control field.
        control: u8,
    },
    /// SNAP.
    Snap {
        /// The organisation that assigned `protocol`.
        oui: [u8; 3],
        /// The protocol: an EtherType if `oui` is zero.
        protocol: u16,
    },
}

impl LlcRepr {
    /// Bytes that `emit` writes: the second control byte of a numbered frame is not counted.
    pub const fn header_bytes(&self) -> usize {
        match self {
            LlcRepr::Plain { .. } => HEADER_BYTES,
            LlcRepr::Snap { .. } => SNAP_BYTES,
        }
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Those of [`Llc::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &Llc<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(match (view.snap_oui(), view.snap_protocol()) {
            (Some(oui), Some(protocol)) => LlcRepr::Snap { oui, protocol },
            _ => LlcRepr::Plain { dsap: view.dsap(), ssap: view.ssap(), control: view.control() },
        })
    }

    /// Writes the header.
    ///
    /// # Panics
    /// If the view is shorter than [`LlcRepr::header_bytes`]: a caller bug, not an input.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Llc<T>) {
        let bytes = view.bytes.as_mut();
        match *self {
            LlcRepr::Plain { dsap, ssap, control } => put(bytes, 0, &[dsap, ssap, control]),
            LlcRepr::Snap { oui, protocol } => {
                put(bytes, 0, &[SAP_SNAP, SAP_SNAP, CONTROL_UI]);
                put(bytes, 3, &oui);
                put(bytes, 6, &protocol.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_each_kind() {
        let check = |bytes: &[u8], header_bytes: usize, ether_type: Option<u16>| {
            let view = Llc::new_checked(bytes).unwrap();
            assert_eq!(view.header_bytes(), header_bytes, "{bytes:x?}");
            assert_eq!(view.ether_type().map(|e| e.0), ether_type, "{bytes:x?}");
            assert_eq!(view.payload(), &bytes[header_bytes..]);
            let repr = LlcRepr::parse(&view).unwrap();
            let mut out = Llc::new_unchecked([0; SNAP_BYTES]);
            repr.emit(&mut out);
            assert_eq!(out.into_inner()[..repr.header_bytes()], bytes[..repr.header_bytes()]);
        };
        check(&[0x42, 0x42, 0x03, 9, 9], 3, None);
        check(&[0x42, 0x42, 0x01, 0x02, 9], 4, None);
        check(&[0xaa, 0xaa, 0x03, 0, 0, 0, 0x08, 0x00, 0x45], 8, Some(0x0800));
        check(&[0xaa, 0xaa, 0x03, 0, 0, 0, 0x01, 0x00], 8, None);
        check(&[0xaa, 0xaa, 0x03, 0, 0, 0xc, 0x20, 0x00], 8, None);
        for short in [&[0xaa, 0xaa, 0x03, 0, 0, 0, 8][..], &[1, 2], &[1, 2, 0], &[]] {
            assert_eq!(Llc::new_checked(short).unwrap_err(), ParseError::LlcTruncated);
        }
    }
}
