//! IPv4 headers with options and fragments.
//!
//! Source: RFC 791, 3.1; RFC 2474 and RFC 3168 for the former type-of-service byte.

use core::net::Ipv4Addr;

use crate::ParseError;
use crate::checksum::{self, PseudoHeader};
use crate::ip::{Fragment, IpProto};
use crate::view::{get_array, get_u16, need, put, view};

/// Bytes of a header without options.
pub const HEADER_BYTES: usize = 20;
/// The most bytes of options.
pub const OPTIONS_BYTES_MAX: usize = 40;

const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

view! {
    /// A view of an IPv4 packet.
    Ipv4
}

impl<T: AsRef<[u8]>> Ipv4<T> {
    /// Checks the header, and that the whole packet is there.
    ///
    /// # Errors
    /// Those of [`Ipv4::check_header`], and [`ParseError::Ipv4PayloadTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        self.check_header()?;
        need(self.raw(), self.total_bytes(), ParseError::Ipv4PayloadTruncated)
    }

    /// Checks the header alone, for packets that a capture cut short: all accessors but
    /// [`Ipv4::payload`] are safe then.
    ///
    /// # Errors
    /// [`ParseError::Ipv4Truncated`], [`ParseError::Ipv4Version`],
    /// [`ParseError::Ipv4HeaderLength`], [`ParseError::Ipv4TotalLength`].
    pub fn check_header(&self) -> Result<(), ParseError> {
        need(self.raw(), HEADER_BYTES, ParseError::Ipv4Truncated)?;
        if self.version() != 4 {
            return Err(ParseError::Ipv4Version);
        }
        if self.header_bytes() < HEADER_BYTES {
            return Err(ParseError::Ipv4HeaderLength);
        }
        if self.total_bytes() < self.header_bytes() {
            return Err(ParseError::Ipv4TotalLength);
        }
        need(self.raw(), self.header_bytes(), ParseError::Ipv4Truncated)
    }

    /// The version field.
    pub fn version(&self) -> u8 {
        self.raw()[0] >> 4
    }

    /// Bytes of the header, options included.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        usize::from(self.raw()[0] & 0x0f) * 4
    }

    /// DSCP and ECN.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.raw()[1]
    }

    /// Bytes of header and payload.
    #[inline]
    pub fn total_bytes(&self) -> usize {
        usize::from(get_u16(self.raw(), 2))
    }

    /// Identification: equal in all fragments of one packet.
    pub fn identification(&self) -> u16 {
        get_u16(self.raw(), 4)
    }

    /// Whether routers must not fragment it.
    pub fn dont_fragment(&self) -> bool {
        get_u16(self.raw(), 6) & DONT_FRAGMENT != 0
    }

    /// Whether fragments follow.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        get_u16(self.raw(), 6) & MORE_FRAGMENTS != 0
    }

    /// Fragment offset in units of 8 bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        get_u16(self.raw(), 6) & OFFSET_MASK
    }

    /// Which part of a packet this is.
    #[inline]
    pub fn fragment(&self) -> Fragment {
        Fragment::new(self.fragment_offset(), self.more_fragments())
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        self.raw()[8]
    }

    /// Protocol of the payload.
    #[inline]
    pub fn proto(&self) -> IpProto {
        IpProto(self.raw()[9])
    }

    /// Header checksum.
    pub fn checksum(&self) -> u16 {
        get_u16(self.raw(), 10)
    }

    /// Whether the header checksum is right.
    pub fn is_checksum_right(&self) -> bool {
        checksum::is_intact(&self.raw()[..self.header_bytes()])
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from(get_array(self.raw(), 12))
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from(get_array(self.raw(), 16))
    }

    /// The destination at the end of a source route: the last address of the first loose or strict
    /// source route option that still has hops to visit, else [`Ipv4::dst`].
    pub fn final_dst(&self) -> Ipv4Addr {
        if self.header_bytes() == HEADER_BYTES {
            return self.dst();
        }
        let mut routes = self.options_iter().filter(|(kind, _)| is_source_route(*kind));
        routes.next().and_then(|(_, data)| last_hop(data)).unwrap_or_else(|| self.dst())
    }

    /// The pseudo header of the transport checksum (RFC 9293, 3.1): the destination is that at the
    /// end of a source route.
    pub fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::V4 { src: self.src(), dst: self.final_dst() }
    }

    /// The options as they lie there, padding included.
    pub fn options(&self) -> &[u8] {
        &self.raw()[HEADER_BYTES..self.header_bytes()]
    }

    /// Each option in turn.
    pub fn options_iter(&self) -> Options<'_> {
        Options::new(self.options())
    }

    /// The payload, padding behind the packet not included.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[self.header_bytes()..self.total_bytes()]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv4<T> {
    /// Sets DSCP and ECN. Like all setters, it leaves the checksum alone.
    pub fn set_tos(&mut self, tos: u8) {
        self.bytes.as_mut()[1] = tos;
    }

    /// Sets the time to live.
    pub fn set_ttl(&mut self, ttl: u8) {
        self.bytes.as_mut()[8] = ttl;
    }

    /// Sets the source address.
    pub fn set_src(&mut self, address: Ipv4Addr) {
        put(self.bytes.as_mut(), 12, &address.octets());
    }

    /// Sets the destination address.
    pub fn set_dst(&mut self, address: Ipv4Addr) {
        put(self.bytes.as_mut(), 16, &address.octets());
    }

    /// Sets the header checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        put(self.bytes.as_mut(), 10, &checksum.to_be_bytes());
    }

    /// Computes and sets the header checksum.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::checksum(&self.raw()[..self.header_bytes()]);
        self.set_checksum(checksum);
    }

    /// The payload.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (start, end) = (self.header_bytes(), self.total_bytes());
        &mut self.bytes.as_mut()[start..end]
    }
}

fn is_source_route(kind: u8) -> bool {
    matches!(kind, LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE)
}

/// The last address of a source route whose data are a pointer and addresses; `None` if the route
/// is empty or exhausted, which the pointer states.
fn last_hop(data: &[u8]) -> Option<Ipv4Addr> {
    let (&pointer, addresses) = data.split_first()?;
    let option_bytes = data.len() + 2;
    let last = *addresses.last_chunk::<4>()?;
    (usize::from(pointer) <= option_bytes).then(|| last.into())
}

/// One option: its type byte, and its data without type and length.
pub type Ipv4Option<'a> = (u8, &'a [u8]);

/// The options of an IPv4 or TCP header: both write them as type, length, data, with the
/// one-byte types 0 (end) and 1 (no operation).
///
/// Stops at the end option, and at an option whose length is below 2 or passes the header.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// The options in `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Ipv4Option<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, after) = self.rest.split_first()?;
        let option_bytes = match kind {
            0 => 0,
            1 => 1,
            _ => after.first().map_or(0, |&length| usize::from(length)),
        };
        let option = match kind {
            1 => Some((1, &[][..])),
            _ => self.rest.get(2..option_bytes).map(|data| (kind, data)),
        };
        self.rest = if option.is_some() { &self.rest[option_bytes..] } else { &[] };
        option
    }
}

/// What an IPv4 header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Repr<'a> {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol of the payload.
    pub proto: IpProto,
    /// DSCP and ECN.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// Identification: equal in all fragments of one packet.
    pub identification: u16,
    /// Whether routers must not fragment it.
    pub dont_fragment: bool,
    /// Whether fragments follow.
    pub more_fragments: bool,
    /// Fragment offset in units of 8 bytes, 13 bits.
    pub fragment_offset: u16,
    /// Options, as they lie in the header: a multiple of 4 bytes, at most
    /// [`OPTIONS_BYTES_MAX`].
    pub options: &'a [u8],
    /// Bytes behind the header.
    pub payload_bytes: usize,
}

impl<'a> Ipv4Repr<'a> {
    /// A whole packet without options, TTL 64.
    pub const fn new(src: Ipv4Addr, dst: Ipv4Addr, proto: IpProto, payload_bytes: usize) -> Self {
        Self {
            src,
            dst,
            proto,
            tos: 0,
            ttl: 64,
            identification: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            options: &[],
            payload_bytes,
        }
    }

    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES + self.options.len()
    }

    /// Reads a header. The checksum is not looked at ([`Ipv4::is_checksum_right`]).
    ///
    /// # Errors
    /// Those of [`Ipv4::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &'a Ipv4<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self {
            src: view.src(),
            dst: view.dst(),
            proto: view.proto(),
            tos: view.tos(),
            ttl: view.ttl(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            options: view.options(),
            payload_bytes: view.total_bytes() - view.header_bytes(),
        })
    }

    /// Writes the header with its checksum. The reserved flag bit is zero.
    ///
    /// # Panics
    /// If the view is shorter than the header, the packet longer than 65535 bytes, or the options
    /// break their rule: caller bugs, not inputs.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Ipv4<T>) {
        let header_bytes = self.header_bytes();
        assert!(self.options.len().is_multiple_of(4) && self.options.len() <= OPTIONS_BYTES_MAX);
        let total = u16::try_from(header_bytes + self.payload_bytes).expect("a packet fits IPv4");
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 }
            | if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        let bytes = view.bytes.as_mut();
        put(bytes, 0, &[0x40 | (header_bytes / 4) as u8, self.tos]);
        put(bytes, 2, &total.to_be_bytes());
        put(bytes, 4, &self.identification.to_be_bytes());
        put(bytes, 6, &(flags | self.fragment_offset & OFFSET_MASK).to_be_bytes());
        put(bytes, 8, &[self.ttl, self.proto.0]);
        put(bytes, 12, &self.src.octets());
        put(bytes, 16, &self.dst.octets());
        put(bytes, HEADER_BYTES, self.options);
        view.fill_checksum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const SAMPLE: [u8; 24] = [
        0x45, 0x00, 0x00, 0x18, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0x14, 0x9f, 10, 0, 0, 1, 10, 0,
        0, 2, 1, 2, 3, 4,
    ];

    #[test]
    fn fields_lie_where_the_rfc_says() {
        let view = Ipv4::new_checked(SAMPLE).unwrap();
        assert_eq!((view.version(), view.header_bytes(), view.total_bytes()), (4, 20, 24));
        assert_eq!((view.identification(), view.ttl(), view.proto()), (0x1234, 64, IpProto::UDP));
        assert!(view.dont_fragment() && !view.more_fragments() && view.is_checksum_right());
        assert_eq!(view.src(), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(view.dst(), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(view.payload(), [1, 2, 3, 4]);
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        let check = |at: usize, value: u8, bytes: usize, error: ParseError| {
            let mut packet = SAMPLE;
            packet[at] = value;
            assert_eq!(Ipv4::new_checked(&packet[..bytes]).unwrap_err(), error, "{at} {value}");
        };
        check(0, 0x45, 19, ParseError::Ipv4Truncated);
        check(0, 0x45, 0, ParseError::Ipv4Truncated);
        check(0, 0x55, 24, ParseError::Ipv4Version);
        check(0, 0x44, 24, ParseError::Ipv4HeaderLength);
        check(0, 0x47, 24, ParseError::Ipv4TotalLength);
        check(3, 19, 24, ParseError::Ipv4TotalLength);
        check(3, 25, 24, ParseError::Ipv4PayloadTruncated);
        check(0, 0x45, 23, ParseError::Ipv4PayloadTruncated);
        let mut long = SAMPLE;
        (long[0], long[3]) = (0x47, 60);
        assert_eq!(Ipv4::new_checked(long).unwrap_err(), ParseError::Ipv4Truncated);
    }

    #[test]
    fn finds_the_end_of_a_source_route() {
        let final_dst = |options: &[u8]| {
            let mut header = SAMPLE[..HEADER_BYTES].to_vec();
            header[16..20].copy_from_slice(&[9, 9, 9, 9]);
            header.extend(options);
            header[0] = 0x40 | (header.len() / 4) as u8;
            Ipv4::new_unchecked(header).final_dst().octets()
        };
        assert_eq!(final_dst(&[]), [9, 9, 9, 9]);
        // Loose, strict, behind another option, with one hop visited.
        assert_eq!(final_dst(&[131, 7, 4, 1, 2, 3, 4, 0]), [1, 2, 3, 4]);
        assert_eq!(final_dst(&[1, 137, 11, 8, 5, 5, 5, 5, 1, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(final_dst(&[148, 4, 0, 0, 131, 7, 4, 1, 2, 3, 4, 0]), [1, 2, 3, 4]);
        // Exhausted, recorded, empty and broken routes leave the destination of the header.
        assert_eq!(final_dst(&[131, 7, 8, 1, 2, 3, 4, 0]), [9, 9, 9, 9]);
        assert_eq!(final_dst(&[7, 7, 4, 1, 2, 3, 4, 0]), [9, 9, 9, 9]);
        assert_eq!(final_dst(&[131, 3, 4, 0]), [9, 9, 9, 9]);
        assert_eq!(final_dst(&[131, 20, 4, 1, 2, 3, 4, 0]), [9, 9, 9, 9]);
    }

    #[test]
    fn options_end_where_they_break() {
        let check = |bytes: &[u8], options: &[(u8, &[u8])]| {
            assert_eq!(Options::new(bytes).collect::<Vec<_>>(), options, "{bytes:?}");
        };
        check(&[], &[]);
        check(&[0, 1, 1], &[]);
        check(&[1, 7, 3, 9, 0, 5], &[(1, &[]), (7, &[9])]);
        check(&[148, 4, 0, 0, 2], &[(148, &[0, 0])]);
        check(&[7, 1, 1, 1], &[]);
        check(&[7, 0, 1, 1], &[]);
        check(&[1, 7, 4, 9], &[(1, &[])]);
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            (src, dst, proto, tos, ttl) in any::<(u32, u32, u8, u8, u8)>(),
            (identification, flags) in any::<(u16, u16)>(),
            mut options in prop::collection::vec(any::<u8>(), 0..=OPTIONS_BYTES_MAX),
            payload_bytes in 0usize..64,
        ) {
            options.truncate(options.len() / 4 * 4);
            let repr = Ipv4Repr {
                src: src.into(), dst: dst.into(), proto: IpProto(proto), tos, ttl, identification,
                dont_fragment: flags & 1 != 0, more_fragments: flags & 2 != 0,
                fragment_offset: flags >> 3, options: &options, payload_bytes,
            };
            let mut bytes = std::vec![0xa5; repr.header_bytes() + payload_bytes];
            repr.emit(&mut Ipv4::new_unchecked(&mut bytes));
            let view = Ipv4::new_checked(&bytes).unwrap();
            prop_assert!(view.is_checksum_right());
            prop_assert_eq!(Ipv4Repr::parse(&view), Ok(repr));
        }
    }
}
