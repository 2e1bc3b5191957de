//! ARP for Ethernet and IPv4; reverse ARP has the same layout.
//!
//! ```text
//! hardware type(2) = 1, protocol(2) = 0x0800, lengths(1, 1) = 6, 4, operation(2),
//! sender MAC(6) IPv4(4), target MAC(6) IPv4(4)
//! ```
//! Source: RFC 826.

use core::net::Ipv4Addr;

use crate::ParseError;
use crate::ethernet::MacAddr;
use crate::view::{get_array, get_u16, need, put, view};

/// Bytes of the fixed part, which says how long the rest is.
pub const FIXED_BYTES: usize = 8;
/// Bytes of an ARP packet for Ethernet and IPv4.
pub const PACKET_BYTES: usize = 28;
/// The operation "request".
pub const OPERATION_REQUEST: u16 = 1;
/// The operation "reply".
pub const OPERATION_REPLY: u16 = 2;

/// Hardware type, protocol and both lengths of ARP for Ethernet and IPv4.
const FORMAT: [u8; 6] = [0, 1, 8, 0, 6, 4];

view! {
    /// A view of an ARP packet for Ethernet and IPv4.
    Arp
}

impl<T: AsRef<[u8]>> Arp<T> {
    /// Checks that the packet is for Ethernet and IPv4, and that it is there.
    ///
    /// # Errors
    /// [`ParseError::ArpTruncated`], [`ParseError::ArpFormat`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), FIXED_BYTES, ParseError::ArpTruncated)?;
        if !self.raw().starts_with(&FORMAT) {
            return Err(ParseError::ArpFormat);
        }
        need(self.raw(), PACKET_BYTES, ParseError::ArpTruncated)
    }

    /// What is asked or answered.
    #[inline]
    pub fn operation(&self) -> u16 {
        get_u16(self.raw(), 6)
    }

    /// Hardware address of the sender.
    pub fn sender_mac(&self) -> MacAddr {
        MacAddr(get_array(self.raw(), 8))
    }

    /// Protocol address of the sender.
    #[inline]
    pub fn sender_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(get_array(self.raw(), 14))
    }

    /// Hardware address of the target.
    pub fn target_mac(&self) -> MacAddr {
        MacAddr(get_array(self.raw(), 18))
    }

    /// Protocol address of the target.
    #[inline]
    pub fn target_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(get_array(self.raw(), 24))
    }
}

/// What an ARP packet for Ethernet and IPv4 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpRepr {
    /// What is asked or answered.
    pub operation: u16,
    /// Hardware address of the sender.
    pub sender_mac: MacAddr,
    /// Protocol address of the sender.
    pub sender_ip: Ipv4Addr,
    /// Hardware address of the target.
    pub target_mac: MacAddr,
    /// Protocol address of the target.
    pub target_ip: Ipv4Addr,
}

impl ArpRepr {
    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        PACKET_BYTES
    }

    /// Reads a packet.
    ///
    /// # Errors
    /// Those of [`Arp::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &Arp<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self {
            operation: view.operation(),
            sender_mac: view.sender_mac(),
            sender_ip: view.sender_ip(),
            target_mac: view.target_mac(),
            target_ip: view.target_ip(),
        })
    }

    /// Writes the packet.
    ///
    /// # Panics
    /// If the view is shorter than [`ArpRepr::header_bytes`]: a caller bug, not an input.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Arp<T>) {
        let bytes = view.bytes.as_mut();
        put(bytes, 0, &FORMAT);
        put(bytes, 6, &self.operation.to_be_bytes());
        put(bytes, 8, &self.sender_mac.0);
        put(bytes, 14, &self.sender_ip.octets());
        put(bytes, 18, &self.target_mac.0);
        put(bytes, 24, &self.target_ip.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_packets_parse_back() {
        let repr = ArpRepr {
            operation: OPERATION_REPLY,
            sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            sender_ip: Ipv4Addr::new(10, 0, 0, 1),
            target_mac: MacAddr::BROADCAST,
            target_ip: Ipv4Addr::new(10, 0, 0, 2),
        };
        let mut bytes = [0; PACKET_BYTES];
        repr.emit(&mut Arp::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes[..8], [0, 1, 8, 0, 6, 4, 0, 2]);
        assert_eq!(bytes[24..], [10, 0, 0, 2]);
        assert_eq!(ArpRepr::parse(&Arp::new_unchecked(&bytes)), Ok(repr));
        for len in 0..PACKET_BYTES {
            assert_eq!(Arp::new_checked(&bytes[..len]).unwrap_err(), ParseError::ArpTruncated);
        }
        bytes[4] = 8;
        assert_eq!(Arp::new_checked(bytes).unwrap_err(), ParseError::ArpFormat);
    }
}
