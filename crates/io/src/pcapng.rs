//! The pcapng format, read: blocks, of which a few kinds hold frames.
//!
//! ```text
//! block    type(4) block bytes(4) …body, in units of 4 bytes… block bytes(4)
//! section  byte-order magic(4) version(2+2) section bytes(8) options
//! interface  link type(2) 0(2) snap length(4) options (time resolution, time offset)
//! enhanced packet  interface(4) time(4+4) captured bytes(4) original bytes(4) …frame… options
//! simple packet    original bytes(4) …frame…
//! packet (obsolete)  interface(2) drops(2) time(4+4) captured bytes(4) original bytes(4) …frame…
//! ```
//! All other blocks are skipped, whatever their length, without holding them in memory.
//!
//! The block parsers are pcap-parser's, behind bounds that are checked here. Three things it does
//! not do, and are done here: time resolutions that are powers of two, time offsets in big-endian
//! sections, and the obsolete packet block.
//!
//! # Source
//! draft-ietf-opsawg-pcapng.

use pcap_parser::pcapng::{
    InterfaceDescriptionBlock, OptionCode, parse_enhancedpacketblock_be,
    parse_enhancedpacketblock_le, parse_interfacedescriptionblock_be,
    parse_interfacedescriptionblock_le, parse_sectionheaderblock, parse_simplepacketblock_be,
    parse_simplepacketblock_le,
};
use warpswitch_wire::link::LinkType;

use crate::error::{IoError, IoErrorKind};
use crate::reader::{FRAME_BYTES_MAX, Found};
use crate::source::Source;

/// The most bytes of a block that is read: the largest frame, and options.
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// The most interfaces in a section.
const INTERFACES_MAX: usize = 1 << 16;
/// Bytes of the smallest block.
const BLOCK_BYTES_MIN: usize = 12;

/// Block types.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET_OBSOLETE: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// The first bytes of every pcapng file: a palindrome.
pub(crate) const MAGIC: [u8; 4] = SECTION.to_be_bytes();

/// The byte-order magic, as it reads in the section's own order.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// What an interface block says of the frames captured there.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: LinkType,
    /// The most bytes captured of a frame; 0 for no limit.
    snap_bytes: u32,
    units_per_second: u64,
    offset_seconds: i64,
}

/// Where a pcapng file's reader is.
#[derive(Debug, Default)]
pub(crate) struct PcapNgReader {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    /// A block that is passed over, and its bytes that are left of it before the last four.
    passing: Option<(Head, u64)>,
}

/// A block's header, and what is known of the block.
#[derive(Clone, Copy, Debug)]
struct Head {
    kind: u32,
    bytes: u32,
}

impl PcapNgReader {
    /// Reads the first section's header; the source is known to start with the magic.
    pub(crate) fn open(source: &mut Source) -> Result<Self, IoError> {
        let mut reader = Self::default();
        if let Some(head) = reader.head(source)? {
            let bytes = reader.whole(source, head)?;
            reader.section(source)?;
            source.consume(bytes);
        }
        Ok(reader)
    }

    /// The next frame: it is within the source's window, and to be consumed by the caller.
    pub(crate) fn next(&mut self, source: &mut Source) -> Result<Option<Found>, IoError> {
        loop {
            self.pass(source)?;
            let Some(head) = self.head(source)? else { return Ok(None) };
            let is_known = matches!(
                head.kind,
                SECTION | INTERFACE | PACKET_OBSOLETE | SIMPLE_PACKET | ENHANCED_PACKET
            );
            if !is_known {
                self.passing = Some((head, u64::from(head.bytes) - 4));
                continue;
            }
            let bytes = self.whole(source, head)?;
            let found = match head.kind {
                SECTION => self.section(source).map(|()| None)?,
                INTERFACE => self.interface(source).map(|()| None)?,
                SIMPLE_PACKET => Some(self.simple_packet(source, bytes)?),
                ENHANCED_PACKET => Some(self.enhanced_packet(source, bytes)?),
                _ => Some(self.obsolete_packet(source, bytes)?),
            };
            if found.is_some() {
                return Ok(found);
            }
            source.consume(bytes);
        }
    }

    /// Type and length of the next block, or none at the end. A section header brings its own
    /// byte order.
    fn head(&mut self, source: &mut Source) -> Result<Option<Head>, IoError> {
        let found = source.peek(BLOCK_BYTES_MIN)?;
        if found == 0 && !source.is_cut() {
            return Ok(None);
        }
        if found < BLOCK_BYTES_MIN {
            let expected = BLOCK_BYTES_MIN as u64;
            return Err(source.truncated("a block's header", found as u64, expected));
        }
        let head = source.window();
        if head.starts_with(&MAGIC) {
            let magic = word_at(head, 8, false);
            if magic != BYTE_ORDER_MAGIC && magic != BYTE_ORDER_MAGIC.swap_bytes() {
                let message = format!(
                    "byte-order magic {magic:#010x}; expected {BYTE_ORDER_MAGIC:#010x} in either \
                     order"
                );
                return Err(source.error(IoErrorKind::Malformed, 8, message));
            }
            self.is_big_endian = magic != BYTE_ORDER_MAGIC;
        }
        let big = self.is_big_endian;
        let (kind, bytes) = (word_at(head, 0, big), word_at(head, 4, big));
        if (bytes as usize) < BLOCK_BYTES_MIN || !bytes.is_multiple_of(4) {
            let message = format!(
                "a block of {bytes} bytes; expected a multiple of 4 and at least {BLOCK_BYTES_MIN}"
            );
            return Err(source.error(IoErrorKind::Malformed, 4, message));
        }
        Ok(Some(Head { kind, bytes }))
    }

    /// Brings the whole block into the window; its length.
    fn whole(&self, source: &mut Source, head: Head) -> Result<usize, IoError> {
        let bytes = head.bytes as usize;
        if bytes > BLOCK_BYTES_MAX {
            let message = format!(
                "a block of type {} with {bytes} bytes; expected at most {BLOCK_BYTES_MAX}",
                head.kind
            );
            return Err(source.error(IoErrorKind::Malformed, 4, message));
        }
        let found = source.peek(bytes)?;
        if found < bytes {
            return Err(source.truncated("a block", found as u64, bytes as u64));
        }
        let trailer = word_at(source.window(), bytes - 4, self.is_big_endian);
        self.check_trailer(source, head, trailer, bytes - 4)?;
        Ok(bytes)
    }

    /// Passes over a block of no interest, if there is one.
    fn pass(&mut self, source: &mut Source) -> Result<(), IoError> {
        let Some((head, left)) = &mut self.passing else { return Ok(()) };
        source.skip(left)?;
        let trailer_bytes = source.peek(4)? as u64;
        let (head, left) = (*head, *left);
        if left > 0 || trailer_bytes < 4 {
            let expected = u64::from(head.bytes);
            return Err(source.truncated("a block", expected - 4 - left + trailer_bytes, expected));
        }
        let trailer = word_at(source.window(), 0, self.is_big_endian);
        self.check_trailer(source, head, trailer, 0)?;
        source.consume(4);
        self.passing = None;
        Ok(())
    }

    fn check_trailer(
        &self,
        source: &Source,
        head: Head,
        trailer: u32,
        ahead: usize,
    ) -> Result<(), IoError> {
        if trailer == head.bytes {
            return Ok(());
        }
        let message = format!("a block that starts with length {} ends with {trailer}", head.bytes);
        Err(source.error(IoErrorKind::Malformed, ahead, message))
    }

    /// A new section forgets the interfaces of the last.
    fn section(&mut self, source: &Source) -> Result<(), IoError> {
        let Ok((_, section)) = parse_sectionheaderblock(source.window()) else {
            let message = "a section header that is too short or malformed".into();
            return Err(source.error(IoErrorKind::Malformed, 0, message));
        };
        if section.major_version != 1 {
            let (major, minor) = (section.major_version, section.minor_version);
            let message = format!("pcapng version {major}.{minor}; supported is version 1");
            return Err(source.error(IoErrorKind::Unsupported, 12, message));
        }
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, source: &Source) -> Result<(), IoError> {
        let parsed = match self.is_big_endian {
            true => parse_interfacedescriptionblock_be(source.window()),
            false => parse_interfacedescriptionblock_le(source.window()),
        };
        let Ok((_, block)) = parsed else {
            let message = "an interface description that is too short or malformed".into();
            return Err(source.error(IoErrorKind::Malformed, 0, message));
        };
        if self.interfaces.len() == INTERFACES_MAX {
            let message = format!("more than {INTERFACES_MAX} interfaces in a section");
            return Err(source.error(IoErrorKind::Malformed, 0, message));
        }
        let interface = self.described(&block).map_err(|resolution| {
            let message = format!(
                "time resolution {resolution:#04x}; expected a power of ten up to 19 or of two up \
                 to 63"
            );
            source.error(IoErrorKind::Malformed, 0, message)
        })?;
        self.interfaces.push(interface);
        Ok(())
    }

    /// What an interface block says, or the time resolution that makes no sense.
    fn described(&self, block: &InterfaceDescriptionBlock<'_>) -> Result<Interface, u8> {
        let mut resolution = 6;
        let mut offset_seconds = 0;
        for option in &block.options {
            let value: &[u8] = &option.value;
            match option.code {
                OptionCode::EndOfOpt => break,
                OptionCode::IfTsresol if !value.is_empty() => resolution = value[0],
                OptionCode::IfTsoffset => {
                    if let Some(&bytes) = value.first_chunk::<8>() {
                        offset_seconds = match self.is_big_endian {
                            true => i64::from_be_bytes(bytes),
                            false => i64::from_le_bytes(bytes),
                        };
                    }
                }
                _ => {}
            }
        }
        let exponent = u32::from(resolution & 0x7f);
        let is_binary = resolution & 0x80 != 0;
        let units_per_second = match is_binary {
            true => 1u64.checked_shl(exponent),
            false => 10u64.checked_pow(exponent),
        };
        Ok(Interface {
            link_type: LinkType::from_capture(block.linktype.0 as u32),
            snap_bytes: block.snaplen,
            units_per_second: units_per_second.ok_or(resolution)?,
            offset_seconds,
        })
    }

    fn enhanced_packet(&self, source: &Source, bytes: usize) -> Result<Found, IoError> {
        const DATA_AT: usize = 28;
        if bytes < DATA_AT + 4 {
            return Err(self.too_short(source, "an enhanced packet", bytes, DATA_AT + 4));
        }
        let block = &source.window()[..bytes];
        let captured = word_at(block, 20, self.is_big_endian) as usize;
        self.check_captured(source, captured, bytes - DATA_AT - 4, 20)?;
        let parsed = match self.is_big_endian {
            true => parse_enhancedpacketblock_be(block),
            false => parse_enhancedpacketblock_le(block),
        };
        let Ok((_, packet)) = parsed else {
            let message = "a malformed enhanced packet".into();
            return Err(source.error(IoErrorKind::Malformed, 0, message));
        };
        let interface = self.interface_of(source, packet.if_id)?;
        let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
        Ok(Found {
            data: DATA_AT..DATA_AT + captured,
            record_bytes: bytes,
            timestamp_ns: interface.timestamp_ns(ticks),
            original_bytes: captured.max(packet.origlen as usize),
            link_type: interface.link_type,
        })
    }

    fn simple_packet(&self, source: &Source, bytes: usize) -> Result<Found, IoError> {
        const DATA_AT: usize = 12;
        if bytes < DATA_AT + 4 {
            return Err(self.too_short(source, "a simple packet", bytes, DATA_AT + 4));
        }
        let block = &source.window()[..bytes];
        let parsed = match self.is_big_endian {
            true => parse_simplepacketblock_be(block),
            false => parse_simplepacketblock_le(block),
        };
        let Ok((_, packet)) = parsed else {
            let message = "a malformed simple packet".into();
            return Err(source.error(IoErrorKind::Malformed, 0, message));
        };
        let interface = self.interface_of(source, 0)?;
        let original = packet.origlen as usize;
        let snap = match interface.snap_bytes {
            0 => usize::MAX,
            snap => snap as usize,
        };
        let captured = original.min(snap).min(bytes - DATA_AT - 4);
        self.check_captured(source, captured, bytes - DATA_AT - 4, 8)?;
        Ok(Found {
            data: DATA_AT..DATA_AT + captured,
            record_bytes: bytes,
            timestamp_ns: 0,
            original_bytes: original,
            link_type: interface.link_type,
        })
    }

    fn obsolete_packet(&self, source: &Source, bytes: usize) -> Result<Found, IoError> {
        const DATA_AT: usize = 28;
        if bytes < DATA_AT + 4 {
            return Err(self.too_short(source, "a packet", bytes, DATA_AT + 4));
        }
        let big = self.is_big_endian;
        let block = &source.window()[..bytes];
        let word = |at| word_at(block, at, big);
        let captured = word(20) as usize;
        self.check_captured(source, captured, bytes - DATA_AT - 4, 20)?;
        let pair = [block[8], block[9]];
        let id = if big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) };
        let interface = self.interface_of(source, u32::from(id))?;
        let ticks = u64::from(word(12)) << 32 | u64::from(word(16));
        Ok(Found {
            data: DATA_AT..DATA_AT + captured,
            record_bytes: bytes,
            timestamp_ns: interface.timestamp_ns(ticks),
            original_bytes: captured.max(word(24) as usize),
            link_type: interface.link_type,
        })
    }

    fn too_short(&self, source: &Source, what: &str, bytes: usize, bytes_min: usize) -> IoError {
        let message = format!("{what} block of {bytes} bytes; expected at least {bytes_min}");
        source.error(IoErrorKind::Malformed, 4, message)
    }

    fn check_captured(
        &self,
        source: &Source,
        captured: usize,
        room: usize,
        ahead: usize,
    ) -> Result<(), IoError> {
        let bytes_max = room.min(FRAME_BYTES_MAX);
        if captured <= bytes_max {
            return Ok(());
        }
        let message = format!("a frame of {captured} captured bytes; expected at most {bytes_max}");
        Err(source.error(IoErrorKind::Malformed, ahead, message))
    }

    fn interface_of(&self, source: &Source, id: u32) -> Result<Interface, IoError> {
        self.interfaces.get(id as usize).copied().ok_or_else(|| {
            let message = format!(
                "frame of undeclared interface {id}; the section has declared {} so far",
                self.interfaces.len()
            );
            source.error(IoErrorKind::Malformed, 8, message)
        })
    }
}

impl Interface {
    /// Nanoseconds since 1970; times before that and after 2554 are cut to those limits.
    fn timestamp_ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.units_per_second);
        let offset_ns = i128::from(self.offset_seconds) * 1_000_000_000;
        (ns as i128 + offset_ns).clamp(0, i128::from(u64::MAX)) as u64
    }
}

/// The word at `at`; the bytes are known to be there.
fn word_at(bytes: &[u8], at: usize, is_big_endian: bool) -> u32 {
    let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}
