//! IPv6 extension headers: each kind's length, the fragment header, and the bounded walk.
//!
//! | next header | bytes |
//! | --- | --- |
//! | 0 hop-by-hop, 43 routing, 60 destination options, 135 mobility, 139 HIP, 140 shim6 | 8 n + 8 |
//! | 44 fragment | 8 |
//! | 51 authentication | 4 n + 8 |
//! | 50 ESP, 59 no next, any other | the chain ends |
//!
//! where n is the header's second byte. A chain may be as long as the packet; the walk follows
//! [`EXTENSIONS_MAX`] headers and gives up with a name.
//!
//! Source: RFC 8200, 4; RFC 4302, 2.2; RFC 2675 (jumbograms); RFC 8504, 5.3 for the bound, which
//! asks hosts for far fewer.

use crate::ParseError;
use crate::ip::{Fragment, IpProto};
use crate::view::{get_u16, get_u32, need, put, view};

/// The most extension headers that a walk follows.
pub const EXTENSIONS_MAX: usize = 16;
/// Bytes of the smallest extension header, and of every fragment header.
pub const EXTENSION_BYTES_MIN: usize = 8;

/// The jumbo payload option of a hop-by-hop header.
const OPTION_JUMBO: u8 = 0xc2;
/// The one option without a length byte.
const OPTION_PAD1: u8 = 0;

view! {
    /// A view of one extension header of a kind counted in 8-byte units, and what follows.
    Ipv6Extension
}

impl<T: AsRef<[u8]>> Ipv6Extension<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`ParseError::Ipv6ExtensionTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), EXTENSION_BYTES_MIN, ParseError::Ipv6ExtensionTruncated)?;
        need(self.raw(), self.header_bytes(), ParseError::Ipv6ExtensionTruncated)
    }

    /// What follows.
    pub fn next_header(&self) -> IpProto {
        IpProto(self.raw()[0])
    }

    /// Bytes of the header.
    pub fn header_bytes(&self) -> usize {
        usize::from(self.raw()[1]) * 8 + 8
    }

    /// What lies behind the first two bytes: options, or routing data.
    pub fn data(&self) -> &[u8] {
        &self.raw()[2..self.header_bytes()]
    }

    /// The jumbo payload length, if the options of this hop-by-hop header hold one.
    pub fn jumbo_bytes(&self) -> Option<u32> {
        let mut options = self.data();
        loop {
            let (&kind, rest) = options.split_first()?;
            if kind == OPTION_PAD1 {
                options = rest;
                continue;
            }
            let (&length, rest) = rest.split_first()?;
            let (data, rest) = rest.split_at_checked(usize::from(length))?;
            if kind == OPTION_JUMBO && data.len() == 4 {
                return Some(get_u32(data, 0));
            }
            options = rest;
        }
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[self.header_bytes()..]
    }
}

/// What an extension header counted in 8-byte units says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6ExtensionRepr<'a> {
    /// What follows.
    pub next_header: IpProto,
    /// What lies behind the first two bytes: 8 n + 6 bytes, n at most 255.
    pub data: &'a [u8],
}

impl<'a> Ipv6ExtensionRepr<'a> {
    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        2 + self.data.len()
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Those of [`Ipv6Extension::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &'a Ipv6Extension<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self { next_header: view.next_header(), data: view.data() })
    }

    /// Writes the header.
    ///
    /// # Panics
    /// If the view is too short or `data` has another length than documented: caller bugs.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Ipv6Extension<T>) {
        let units = self.header_bytes() / 8;
        assert!(self.header_bytes().is_multiple_of(8) && (1..=256).contains(&units));
        let bytes = view.bytes.as_mut();
        put(bytes, 0, &[self.next_header.0, (units - 1) as u8]);
        put(bytes, 2, self.data);
    }
}

view! {
    /// A view of a fragment header and what follows.
    Ipv6Fragment
}

impl<T: AsRef<[u8]>> Ipv6Fragment<T> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`ParseError::Ipv6ExtensionTruncated`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), EXTENSION_BYTES_MIN, ParseError::Ipv6ExtensionTruncated)
    }

    /// What follows in the whole packet.
    pub fn next_header(&self) -> IpProto {
        IpProto(self.raw()[0])
    }

    /// Fragment offset in units of 8 bytes.
    pub fn fragment_offset(&self) -> u16 {
        get_u16(self.raw(), 2) >> 3
    }

    /// Whether fragments follow.
    pub fn more_fragments(&self) -> bool {
        self.raw()[3] & 1 != 0
    }

    /// Which part of a packet this is.
    pub fn fragment(&self) -> Fragment {
        Fragment::new(self.fragment_offset(), self.more_fragments())
    }

    /// Identification: equal in all fragments of one packet.
    pub fn identification(&self) -> u32 {
        get_u32(self.raw(), 4)
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[EXTENSION_BYTES_MIN..]
    }
}

/// What a fragment header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6FragmentRepr {
    /// What follows in the whole packet.
    pub next_header: IpProto,
    /// Fragment offset in units of 8 bytes, 13 bits.
    pub fragment_offset: u16,
    /// Whether fragments follow.
    pub more_fragments: bool,
    /// Identification: equal in all fragments of one packet.
    pub identification: u32,
}

impl Ipv6FragmentRepr {
    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        EXTENSION_BYTES_MIN
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Those of [`Ipv6Fragment::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &Ipv6Fragment<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self {
            next_header: view.next_header(),
            fragment_offset: view.fragment_offset(),
            more_fragments: view.more_fragments(),
            identification: view.identification(),
        })
    }

    /// Writes the header; bits past a field's width are cut off.
    ///
    /// # Panics
    /// If the view is shorter than the header: a caller bug, not an input.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Ipv6Fragment<T>) {
        let bytes = view.bytes.as_mut();
        let offset = self.fragment_offset << 3 | u16::from(self.more_fragments);
        put(bytes, 0, &[self.next_header.0, 0]);
        put(bytes, 2, &offset.to_be_bytes());
        put(bytes, 4, &self.identification.to_be_bytes());
    }
}

/// Bytes of an extension header of kind `proto`, by its first two; `None` if they are not there, or
/// say a length that it cannot have.
pub(crate) fn extension_bytes(proto: IpProto, header: &[u8]) -> Option<usize> {
    let length = usize::from(*header.get(1)?);
    match proto {
        IpProto::FRAGMENT => Some(EXTENSION_BYTES_MIN),
        // Counted in 4-byte units less two; RFC 4302 has 12 bytes of fixed fields.
        IpProto::AH => (length > 0).then_some(length * 4 + 8),
        _ => Some(length * 8 + 8),
    }
}

/// Where a chain of extension headers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainEnd {
    /// The last next-header value: the transport, or why the walk stopped.
    pub proto: IpProto,
    /// Bytes of all extension headers.
    pub bytes: usize,
    /// Number of extension headers.
    pub headers: usize,
    /// Whether this is a fragment; behind a later fragment's header nothing can be read.
    pub fragment: Fragment,
}

/// Walks the extension headers in `payload`, what follows a fixed header that says `first`.
///
/// Cost: at most [`EXTENSIONS_MAX`] steps. `bytes <= payload.len()` in the answer.
///
/// # Errors
/// [`ParseError::Ipv6ExtensionTruncated`], [`ParseError::Ipv6HopByHopOrder`],
/// [`ParseError::Ipv6ExtensionLength`], [`ParseError::Ipv6ExtensionTooMany`].
pub fn walk_chain(first: IpProto, payload: &[u8]) -> Result<ChainEnd, ParseError> {
    let mut end = ChainEnd { proto: first, bytes: 0, headers: 0, fragment: Fragment::No };
    while end.proto.is_ipv6_extension() {
        if end.headers == EXTENSIONS_MAX {
            return Err(ParseError::Ipv6ExtensionTooMany);
        }
        if end.proto == IpProto::HOP_BY_HOP && end.headers > 0 {
            return Err(ParseError::Ipv6HopByHopOrder);
        }
        let rest = &payload[end.bytes..];
        need(rest, EXTENSION_BYTES_MIN, ParseError::Ipv6ExtensionTruncated)?;
        let Some(header_bytes) = extension_bytes(end.proto, rest) else {
            return Err(ParseError::Ipv6ExtensionLength);
        };
        need(rest, header_bytes, ParseError::Ipv6ExtensionTruncated)?;
        if end.proto == IpProto::FRAGMENT {
            end.fragment = end.fragment.max(Ipv6Fragment::new_unchecked(rest).fragment());
        }
        end.proto = IpProto(rest[0]);
        end.bytes += header_bytes;
        end.headers += 1;
        if end.fragment == Fragment::Later {
            break;
        }
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// A chain of the given kinds, 8 bytes each (12 for AH), that ends in UDP.
    fn chain(kinds: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for i in 0..kinds.len() {
            let next = *kinds.get(i + 1).unwrap_or(&17);
            match kinds[i] {
                51 => bytes.extend([next, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]),
                _ => bytes.extend([next, 0, 0, 0, 0, 0, 0, 0]),
            }
        }
        bytes
    }

    fn check(first: u8, bytes: &[u8], proto: u8, chain_bytes: usize, fragment: Fragment) {
        let end = walk_chain(IpProto(first), bytes).unwrap();
        assert_eq!((end.proto, end.bytes), (IpProto(proto), chain_bytes), "{first} {bytes:?}");
        assert_eq!(end.fragment, fragment);
    }

    #[test]
    fn chains_end_at_the_transport() {
        check(17, &[], 17, 0, Fragment::No);
        check(59, &[1], 59, 0, Fragment::No);
        check(50, &[1; 40], 50, 0, Fragment::No);
        let all = [0, 60, 43, 44, 51, 60, 135, 139, 140];
        check(0, &chain(&all), 17, 76, Fragment::No);
        check(44, &[6, 0, 0, 1, 0, 0, 0, 0], 6, 8, Fragment::First);
        // Behind a later fragment nothing is read, not even an extension header.
        check(44, &[60, 0, 0, 8, 0, 0, 0, 0], 60, 8, Fragment::Later);
        // A second fragment header does not make the first fragment a whole packet.
        let twice = [44, 0, 0, 1, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0];
        check(44, &twice, 6, 16, Fragment::First);
        // An atomic fragment is a whole packet.
        check(44, &[6, 0, 0, 0, 0, 0, 0, 0], 6, 8, Fragment::No);
    }

    #[test]
    fn broken_chains_are_named() {
        let error = |first: u8, bytes: &[u8]| walk_chain(IpProto(first), bytes).unwrap_err();
        assert_eq!(error(0, &[17, 0, 0, 0, 0, 0, 0]), ParseError::Ipv6ExtensionTruncated);
        assert_eq!(error(60, &[17, 1, 0, 0, 0, 0, 0, 0]), ParseError::Ipv6ExtensionTruncated);
        assert_eq!(error(51, &[17, 0, 0, 0, 0, 0, 0, 0]), ParseError::Ipv6ExtensionLength);
        assert_eq!(error(60, &chain(&[60, 0])), ParseError::Ipv6HopByHopOrder);
        let bytes = chain(&[60; EXTENSIONS_MAX + 1]);
        assert_eq!(error(60, &bytes), ParseError::Ipv6ExtensionTooMany);
        assert!(walk_chain(IpProto(60), &chain(&[60; EXTENSIONS_MAX])).is_ok());
    }

    #[test]
    fn jumbo_lengths_are_found() {
        let check = |data: [u8; 6], jumbo: Option<u32>| {
            let mut bytes = [0; 8];
            bytes[0] = 17;
            bytes[2..].copy_from_slice(&data);
            assert_eq!(Ipv6Extension::new_checked(bytes).unwrap().jumbo_bytes(), jumbo, "{data:?}");
        };
        check([0xc2, 4, 0, 1, 0, 2], Some(0x10002));
        check([1, 4, 0, 1, 0, 2], None);
        check([0; 6], None);
        check([0xc2, 3, 0, 1, 0, 2], None);
        check([0xc2, 5, 0, 1, 0, 2], None);
    }

    proptest! {
        #[test]
        fn fragments_emit_then_parse(
            (next, identification, more) in any::<(u8, u32, bool)>(), offset in 0u16..1 << 13,
        ) {
            let repr = Ipv6FragmentRepr {
                next_header: IpProto(next), fragment_offset: offset, more_fragments: more,
                identification,
            };
            let mut view = Ipv6Fragment::new_unchecked([0xa5; 8]);
            repr.emit(&mut view);
            prop_assert_eq!(Ipv6FragmentRepr::parse(&view), Ok(repr));
        }

        #[test]
        fn extensions_emit_then_parse(next: u8, units in 0usize..4, fill: u8) {
            let data = std::vec![fill; units * 8 + 6];
            let repr = Ipv6ExtensionRepr { next_header: IpProto(next), data: &data };
            let mut bytes = std::vec![0; repr.header_bytes()];
            repr.emit(&mut Ipv6Extension::new_unchecked(&mut bytes));
            let view = Ipv6Extension::new_checked(&bytes).unwrap();
            prop_assert_eq!(Ipv6ExtensionRepr::parse(&view), Ok(repr));
        }

        #[test]
        fn walks_stay_inside(first: u8, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(end) = walk_chain(IpProto(first), &bytes) {
                prop_assert!(end.bytes <= bytes.len() && end.headers <= EXTENSIONS_MAX);
            }
        }
    }
}
