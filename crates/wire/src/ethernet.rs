//! Ethernet II (DIX) frames, and the first 14 bytes of 802.3 frames.
//!
//! The two bytes behind the addresses are an EtherType from `0x0600` on; up to [`LENGTH_MAX`] they
//! are the length of an 802.3 payload, which starts with an LLC header ([`crate::llc`]). The
//! values between mean neither.
//!
//! Source: IEEE 802.3-2022, 3.2.6.

use core::fmt;

use crate::ParseError;
use crate::view::{get_array, get_u16, need, put, view};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 14;
/// The largest value of the type field that is an 802.3 length.
pub const LENGTH_MAX: u16 = 1500;
/// The smallest value of the type field that is an EtherType.
pub const ETHER_TYPE_MIN: u16 = 0x0600;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All ones.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Whether the group bit is set; broadcast is a group, too.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    /// `aa:bb:cc:dd:ee:ff`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// What an Ethernet payload is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP.
    pub const ARP: EtherType = EtherType(0x0806);
    /// Reverse ARP: same layout as ARP.
    pub const RARP: EtherType = EtherType(0x8035);
    /// 802.1Q tag.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// 802.1ad service tag.
    pub const VLAN_SERVICE: EtherType = EtherType(0x88a8);
    /// Stacked tag as written before 802.1ad.
    pub const VLAN_OLD: EtherType = EtherType(0x9100);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// MPLS unicast.
    pub const MPLS: EtherType = EtherType(0x8847);
    /// MPLS with upstream-assigned label, formerly multicast.
    pub const MPLS_MULTICAST: EtherType = EtherType(0x8848);
    /// What OpenFlow says for an 802.3 frame that carries no EtherType.
    pub const NONE: EtherType = EtherType(0x05ff);

    /// Whether a VLAN tag follows.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::VLAN_SERVICE | Self::VLAN_OLD)
    }

    /// Whether an MPLS label stack follows.
    #[inline]
    pub const fn is_mpls(self) -> bool {
        matches!(self, Self::MPLS | Self::MPLS_MULTICAST)
    }
}

impl fmt::Display for EtherType {
    /// Hexadecimal with `0x` and four digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

view! {
    /// A view of an Ethernet frame, without preamble and frame check sequence.
    Ethernet
}

impl<T: AsRef<[u8]>> Ethernet<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`ParseError::EthernetTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), HEADER_BYTES, ParseError::EthernetTruncated)
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> MacAddr {
        MacAddr(get_array(self.raw(), 0))
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> MacAddr {
        MacAddr(get_array(self.raw(), 6))
    }

    /// The type field, whatever it means: see the module documentation.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        EtherType(get_u16(self.raw(), 12))
    }

    /// Everything behind the header, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.raw()[HEADER_BYTES..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ethernet<T> {
    /// Sets the destination address.
    pub fn set_dst(&mut self, address: MacAddr) {
        put(self.bytes.as_mut(), 0, &address.0);
    }

    /// Sets the source address.
    pub fn set_src(&mut self, address: MacAddr) {
        put(self.bytes.as_mut(), 6, &address.0);
    }

    /// Sets the type field.
    pub fn set_ether_type(&mut self, ether_type: EtherType) {
        put(self.bytes.as_mut(), 12, &ether_type.0.to_be_bytes());
    }

    /// Everything behind the header.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes.as_mut()[HEADER_BYTES..]
    }
}

/// What an Ethernet header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthernetRepr {
    /// Destination address.
    pub dst: MacAddr,
    /// Source address.
    pub src: MacAddr,
    /// The type field; an 802.3 length where it is at most [`LENGTH_MAX`].
    pub ether_type: EtherType,
}

impl EthernetRepr {
    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Those of [`Ethernet::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &Ethernet<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self { dst: view.dst(), src: view.src(), ether_type: view.ether_type() })
    }

    /// Writes the header.
    ///
    /// # Panics
    /// If the view is shorter than [`EthernetRepr::header_bytes`]: a caller bug, not an input.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Ethernet<T>) {
        view.set_dst(self.dst);
        view.set_src(self.src);
        view.set_ether_type(self.ether_type);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn fields_lie_where_the_standard_says() {
        let bytes = [1, 2, 3, 4, 5, 6, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 0x86, 0xdd, 99];
        let view = Ethernet::new_checked(&bytes[..]).unwrap();
        assert_eq!(view.dst().to_string(), "01:02:03:04:05:06");
        assert_eq!(view.src(), MacAddr([0xa, 0xb, 0xc, 0xd, 0xe, 0xf]));
        assert_eq!(view.ether_type(), EtherType::IPV6);
        assert_eq!(view.payload(), [99]);
        assert!(view.dst().is_multicast() && !view.src().is_multicast());
        let repr = EthernetRepr::parse(&view).unwrap();
        let mut out = Ethernet::new_unchecked([0; HEADER_BYTES]);
        repr.emit(&mut out);
        assert_eq!(out.into_inner(), bytes[..HEADER_BYTES]);
        let short = Ethernet::new_checked(&bytes[..13]);
        assert_eq!(short.unwrap_err(), ParseError::EthernetTruncated);
    }
}
