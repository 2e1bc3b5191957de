//! TCP headers with flags and options.
//!
//! Source: RFC 9293, 3.1; RFC 3540 for the ninth flag.

use core::fmt;

use crate::ParseError;
use crate::checksum::PseudoHeader;
use crate::ip::IpProto;
use crate::ipv4::Options;
use crate::view::{get_u16, get_u32, need, put, view};

/// Bytes of a header without options.
pub const HEADER_BYTES: usize = 20;
/// The most bytes of options.
pub const OPTIONS_BYTES_MAX: usize = 40;

/// The twelve bits behind the data offset: three reserved ones, NS, then CWR … FIN.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TcpFlags(pub u16);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: TcpFlags = TcpFlags(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: TcpFlags = TcpFlags(0x002);
    /// Reset the connection.
    pub const RST: TcpFlags = TcpFlags(0x004);
    /// Push.
    pub const PSH: TcpFlags = TcpFlags(0x008);
    /// The acknowledgment field counts.
    pub const ACK: TcpFlags = TcpFlags(0x010);
    /// The urgent pointer counts.
    pub const URG: TcpFlags = TcpFlags(0x020);
    /// Congestion experienced, echoed.
    pub const ECE: TcpFlags = TcpFlags(0x040);
    /// Congestion window reduced.
    pub const CWR: TcpFlags = TcpFlags(0x080);
    /// Nonce sum, now accurate ECN.
    pub const NS: TcpFlags = TcpFlags(0x100);
    /// All twelve bits.
    pub const MASK: u16 = 0x0fff;

    /// Whether all of `flags` are set.
    pub const fn contains(self, flags: TcpFlags) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl core::ops::BitOr for TcpFlags {
    type Output = TcpFlags;

    fn bitor(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpFlags(0x{:03x})", self.0)
    }
}

view! {
    /// A view of a TCP segment.
    Tcp
}

impl<T: AsRef<[u8]>> Tcp<T> {
    /// Checks that the header is there with its options.
    ///
    /// # Errors
    /// [`ParseError::TcpTruncated`], [`ParseError::TcpHeaderLength`].
    pub fn check(&self) -> Result<(), ParseError> {
        need(self.raw(), HEADER_BYTES, ParseError::TcpTruncated)?;
        if self.header_bytes() < HEADER_BYTES {
            return Err(ParseError::TcpHeaderLength);
        }
        need(self.raw(), self.header_bytes(), ParseError::TcpTruncated)
    }

    /// Source port.
    pub fn src_port(&self) -> u16 {
        get_u16(self.raw(), 0)
    }

    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        get_u16(self.raw(), 2)
    }

    /// Sequence number.
    pub fn seq(&self) -> u32 {
        get_u32(self.raw(), 4)
    }

    /// Acknowledgment number.
    pub fn ack(&self) -> u32 {
        get_u32(self.raw(), 8)
    }

    /// Bytes of the header, options included: four times the data offset.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        usize::from(self.raw()[12] >> 4) * 4
    }

    /// The flags.
    #[inline]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(get_u16(self.raw(), 12) & TcpFlags::MASK)
    }

    /// Window, not scaled.
    pub fn window(&self) -> u16 {
        get_u16(self.raw(), 14)
    }

    /// Checksum.
    pub fn checksum(&self) -> u16 {
        get_u16(self.raw(), 16)
    }

    /// Whether the checksum is right; the view must end where the segment does.
    pub fn is_checksum_right(&self, pseudo: &PseudoHeader) -> bool {
        pseudo.sum(IpProto::TCP, self.raw().len()).add_bytes(self.raw()).fold() == 0xffff
    }

    /// Urgent pointer.
    pub fn urgent(&self) -> u16 {
        get_u16(self.raw(), 18)
    }

    /// The options as they lie there, padding included.
    pub fn options(&self) -> &[u8] {
        &self.raw()[HEADER_BYTES..self.header_bytes()]
    }

    /// Each option in turn.
    pub fn options_iter(&self) -> Options<'_> {
        Options::new(self.options())
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        &self.raw()[self.header_bytes()..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Tcp<T> {
    /// Sets the source port. Like all setters, it leaves the checksum alone.
    pub fn set_src_port(&mut self, port: u16) {
        put(self.bytes.as_mut(), 0, &port.to_be_bytes());
    }

    /// Sets the destination port.
    pub fn set_dst_port(&mut self, port: u16) {
        put(self.bytes.as_mut(), 2, &port.to_be_bytes());
    }

    /// Sets the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        put(self.bytes.as_mut(), 16, &checksum.to_be_bytes());
    }

    /// Computes and sets the checksum; the view must end where the segment does.
    pub fn fill_checksum(&mut self, pseudo: &PseudoHeader) {
        self.set_checksum(0);
        let sum = pseudo.sum(IpProto::TCP, self.raw().len()).add_bytes(self.raw());
        self.set_checksum(sum.checksum());
    }
}

/// What a TCP header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpRepr<'a> {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// The flags, 12 bits.
    pub flags: TcpFlags,
    /// Window, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options, as they lie in the header: a multiple of 4 bytes, at most
    /// [`OPTIONS_BYTES_MAX`].
    pub options: &'a [u8],
}

impl<'a> TcpRepr<'a> {
    /// Bytes that `emit` writes.
    pub const fn header_bytes(&self) -> usize {
        HEADER_BYTES + self.options.len()
    }

    /// Reads a header. The checksum is not looked at ([`Tcp::is_checksum_right`]).
    ///
    /// # Errors
    /// Those of [`Tcp::check`].
    pub fn parse<T: AsRef<[u8]>>(view: &'a Tcp<T>) -> Result<Self, ParseError> {
        view.check()?;
        Ok(Self {
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            seq: view.seq(),
            ack: view.ack(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            options: view.options(),
        })
    }

    /// Writes the header with checksum zero: see [`Tcp::fill_checksum`].
    ///
    /// # Panics
    /// If the view is shorter than the header, or the options break their rule: caller bugs.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut Tcp<T>) {
        assert!(self.options.len().is_multiple_of(4) && self.options.len() <= OPTIONS_BYTES_MAX);
        let offset = (self.header_bytes() / 4) as u16;
        view.set_src_port(self.src_port);
        view.set_dst_port(self.dst_port);
        let bytes = view.bytes.as_mut();
        put(bytes, 4, &self.seq.to_be_bytes());
        put(bytes, 8, &self.ack.to_be_bytes());
        put(bytes, 12, &(offset << 12 | self.flags.0 & TcpFlags::MASK).to_be_bytes());
        put(bytes, 14, &self.window.to_be_bytes());
        put(bytes, 16, &[0; 2]);
        put(bytes, 18, &self.urgent.to_be_bytes());
        put(bytes, HEADER_BYTES, self.options);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn what_contradicts_itself_is_named() {
        let check = |offset: u8, bytes: usize, error: Option<ParseError>| {
            let mut segment = [0; 60];
            segment[12] = offset << 4;
            assert_eq!(Tcp::new_checked(&segment[..bytes]).err(), error, "{offset} {bytes}");
        };
        check(5, 20, None);
        check(5, 19, Some(ParseError::TcpTruncated));
        check(5, 0, Some(ParseError::TcpTruncated));
        check(4, 60, Some(ParseError::TcpHeaderLength));
        check(0, 60, Some(ParseError::TcpHeaderLength));
        check(15, 60, None);
        check(15, 59, Some(ParseError::TcpTruncated));
    }

    #[test]
    fn options_are_read_in_turn() {
        let options = [2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 0, 0];
        let repr = TcpRepr { options: &options, flags: TcpFlags::SYN, ..TcpRepr::default() };
        let mut bytes = [0; 32];
        repr.emit(&mut Tcp::new_unchecked(&mut bytes[..]));
        let view = Tcp::new_checked(bytes).unwrap();
        let found: Vec<_> = view.options_iter().collect();
        assert_eq!(found, [(2, &[5, 0xb4][..]), (1, &[]), (3, &[7]), (4, &[])]);
        assert!(view.flags().contains(TcpFlags::SYN) && !view.flags().contains(TcpFlags::ACK));
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_identity(
            (src_port, dst_port, seq, ack) in any::<(u16, u16, u32, u32)>(),
            (flags, window, urgent) in (0u16..1 << 12, any::<u16>(), any::<u16>()),
            mut options in prop::collection::vec(any::<u8>(), 0..=OPTIONS_BYTES_MAX),
            payload in prop::collection::vec(any::<u8>(), 0..40),
            (src, dst) in any::<(u32, u32)>(),
        ) {
            options.truncate(options.len() / 4 * 4);
            let flags = TcpFlags(flags);
            let repr = TcpRepr {
                src_port, dst_port, seq, ack, flags, window, urgent, options: &options,
            };
            let mut bytes = std::vec![0xa5; repr.header_bytes()];
            bytes.extend(&payload);
            let pseudo = PseudoHeader::V4 { src: src.into(), dst: dst.into() };
            let mut view = Tcp::new_unchecked(&mut bytes[..]);
            repr.emit(&mut view);
            view.fill_checksum(&pseudo);
            prop_assert!(view.is_checksum_right(&pseudo));
            let view = Tcp::new_checked(&bytes).unwrap();
            prop_assert_eq!(TcpRepr::parse(&view), Ok(repr));
            prop_assert_eq!(view.payload(), &payload[..]);
        }
    }
}
