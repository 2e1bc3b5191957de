//! The fixed IPv6 header. What lies between it and the transport header is [`crate::ipv6_ext`].
//!
//! Source: RFC 8200, 3.

use core::net::Ipv6Addr;

use crate::ParseError;
use crate::ip::IpProto;
use crate::view::{get_array, get_u16, get_u32, need, put, view};

/// Bytes of the fixed header.
pub const HEADER_BYTES: usize = 40;

view! {
    /// A view of an IPv6 packet.
    Ipv6
}

impl<T: AsRef<[u8]>> Ipv6<T> {
    /// Checks the header, and that the whole packet is there. (A jumbogram says length zero here
    /// and its true length in an option.)
    ///
    /// # Errors
    /// Those of [`Ipv6::check_header`], and [`ParseError::Ipv6PayloadTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        self.check_header()?;
        let packet_bytes = HEADER_BYTES + self.payload_bytes();
        need(self.raw(), packet_bytes, ParseError::Ipv6PayloadTruncated)
    }

    /// Checks the header alone, for packets that a capture cut short: all accessors but
    /// [`Ipv6::payload`] are safe then.
    ///
    /// # Errors
    /// [`ParseError::Ipv6Truncated`], [`ParseError::Ipv6Version`].
    pub fn check_header(&self) -> Result<(), ParseError> {
        need(self.raw(), HEADER_BYTES, ParseError::Ipv6Truncated)?;
        if self.version() == 6 { Ok(()) } else { Err(ParseError::Ipv6Version) }
    }

    /// The version field.
    pub fn version(&self) -> u8 {
        self.raw()[0] >> 4
    }

    /// Traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (get_u16(self.raw(), 0) >> 4) as u8
    }

    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        get_u32(self.raw(), 0) & 0x000f_ffff
    }

    /// Bytes behind the fixed header, extension headers included.
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        usize::from(get_u16(self.raw(), 4))
    }

    /// What follows the fixed header.
    #[inline]
    pub fn next_header(&self) -> IpProto {
        IpProto(self.raw()[6])
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.raw()[7]
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from(get_array::<16>(self.raw(), 8))
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from(get_array::<16>(self.raw(), 24))
    }

    /// What follows the fixed header, padding behind the packet not included.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[HEADER_BYTES..HEADER_BYTES + self.payload_bytes()]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv6<T> {
    /// Sets the hop limit.
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        self.bytes.as_mut()[7] = hop_limit;
    }

    /// Sets the source address.
    pub fn set_src(&mut self, address: Ipv6Addr) {
        put(self.bytes.as_mut(), 8, &address.octets());
    }

    /// Sets the destination address.
    pub fn set_dst(&mut self, address: Ipv6Addr) {
        put(self.bytes.as_mut(), 24, &address.octets());
    }

    /// What follows the fixed header.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = HEADER_BYTES + self.payload_bytes();
        &mut self.bytes.as_mut()[HEADER_BYTES..end]
    }
}

/// What a fixed IPv6 header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// What follows.
    pub next_header: IpProto,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Bytes behind the fixed header, at most 65535.
    pub payload_bytes: usize,
}

impl Ipv6Repr {
    /// A packet with hop limit 64.
    pub const fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: IpProto, bytes: usize) -> Self {
        Self {
            src,
            dst,
            next_header,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            payload_bytes: bytes,
        }
    }

    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Those of [`Ipv6::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &Ipv6<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self {
            src: view.src(),
            dst: view.dst(),
            next_header: view.next_header(),
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            hop_limit: view.hop_limit(),
            payload_bytes: view.payload_bytes(),
        })
    }

    /// Writes the header; bits of the flow label past its width are cut off.
    ///
    /// # Panics
    /// If the view is shorter than the header or the payload longer than 65535 bytes: caller
    /// bugs, not inputs.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Ipv6<T>) {
        let payload_bytes = u16::try_from(self.payload_bytes).expect("a payload fits IPv6");
        let class = u32::from(self.traffic_class) << 20;
        let bytes = view.bytes.as_mut();
        put(bytes, 0, &(6 << 28 | class | self.flow_label & 0x000f_ffff).to_be_bytes());
        put(bytes, 4, &payload_bytes.to_be_bytes());
        put(bytes, 6, &[self.next_header.0, self.hop_limit]);
        view.set_src(self.src);
        view.set_dst(self.dst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_contradicts_itself_is_named() {
        let mut bytes = [0; 44];
        let repr = Ipv6Repr::new(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, IpProto::UDP, 4);
        repr.emit(&mut Ipv6::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes[..8], [0x60, 0, 0, 0, 0, 4, 17, 64]);
        assert_eq!(bytes[23], 1);
        assert!(Ipv6::new_checked(bytes).is_ok());
        let error = |bytes: &[u8]| Ipv6::new_checked(bytes).unwrap_err();
        assert_eq!(error(&bytes[..43]), ParseError::Ipv6PayloadTruncated);
        assert_eq!(error(&bytes[..39]), ParseError::Ipv6Truncated);
        bytes[0] = 0x50;
        assert_eq!(error(&bytes), ParseError::Ipv6Version);
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            (src, dst, next, class) in any::<(u128, u128, u8, u8)>(),
            (label, hop_limit, payload_bytes) in (0u32..1 << 20, any::<u8>(), 0usize..64),
        ) {
            let repr = Ipv6Repr {
                src: src.into(), dst: dst.into(), next_header: IpProto(next),
                traffic_class: class, flow_label: label, hop_limit, payload_bytes,
            };
            let mut bytes = std::vec![0xa5; HEADER_BYTES + payload_bytes];
            repr.emit(&mut Ipv6::new_unchecked(&mut bytes));
            prop_assert_eq!(Ipv6Repr::parse(&Ipv6::new_checked(&bytes).unwrap()), Ok(repr));
        }
    }
}
