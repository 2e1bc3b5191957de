//! The classic pcap format, read: a file header, then a header and the bytes of each frame.
//!
//! ```text
//! file   magic(4) version(2+2) 0(8) snap length(4) link type(4)
//! frame  seconds(4) fraction(4) captured bytes(4) original bytes(4) …captured bytes
//! ```
//! The magic tells byte order and unit of the fraction. "Modified" files, of Kuznetzov's libpcap,
//! have 8 more bytes in each frame's header.
//!
//! # Source
//! The tcpdump project's pcap-savefile(5); draft-ietf-opsawg-pcap.

use pcap_parser::{PcapHeader, parse_pcap_header};
use warpswitch_wire::link::LinkType;

use crate::error::{IoError, IoErrorKind};
use crate::reader::{FRAME_BYTES_MAX, Found};
use crate::source::Source;

/// Bytes of the file header.
const FILE_HEADER_BYTES: usize = 24;

/// The first bytes of each variant in file order: micro- and nanoseconds in both byte orders, and
/// the modified one.
const MAGICS: [[u8; 4]; 5] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x34, 0xcd, 0xb2, 0xa1],
];

/// The modified variant in the other byte order, which no known system wrote.
const MAGIC_MODIFIED_BIG: [u8; 4] = [0xa1, 0xb2, 0xcd, 0x34];

/// Where a pcap file's reader is.
#[derive(Debug)]
pub(crate) struct PcapReader {
    link_type: LinkType,
    is_big_endian: bool,
    is_modified: bool,
    /// Nanoseconds in a unit of the fraction.
    fraction_ns: u64,
}

/// Whether a file that starts so is a pcap file.
pub(crate) fn is_pcap(magic: [u8; 4]) -> bool {
    MAGICS.contains(&magic) || magic == MAGIC_MODIFIED_BIG
}

impl PcapReader {
    /// Reads the file header; the source is known to start with a magic.
    pub(crate) fn open(source: &mut Source) -> Result<Self, IoError> {
        let found = source.peek(FILE_HEADER_BYTES)?;
        if source.window().starts_with(&MAGIC_MODIFIED_BIG) {
            let message = "a modified pcap file in big-endian byte order is not supported".into();
            return Err(source.error(IoErrorKind::Unsupported, 0, message));
        }
        if found < FILE_HEADER_BYTES {
            let expected = FILE_HEADER_BYTES as u64;
            return Err(source.truncated("the file header", found as u64, expected));
        }
        let Ok((_, header)) = parse_pcap_header(source.window()) else {
            let message = "invalid pcap file header after a valid magic number".into();
            return Err(source.error(IoErrorKind::Malformed, 0, message));
        };
        if header.version_major != 2 {
            let (major, minor) = (header.version_major, header.version_minor);
            let message = format!("pcap version {major}.{minor}; supported is version 2");
            return Err(source.error(IoErrorKind::Unsupported, 4, message));
        }
        source.consume(FILE_HEADER_BYTES);
        Ok(Self::new(&header))
    }

    fn new(header: &PcapHeader) -> Self {
        // The upper half of the field tells about frame check sequences.
        let number = header.network.0 as u32 & 0xffff;
        Self {
            link_type: LinkType::from_capture(number),
            is_big_endian: header.is_bigendian(),
            is_modified: header.is_modified_format(),
            fraction_ns: if header.is_nanosecond_precision() { 1 } else { 1000 },
        }
    }

    /// The next frame: it is within the source's window, and to be consumed by the caller.
    pub(crate) fn next(&mut self, source: &mut Source) -> Result<Option<Found>, IoError> {
        let header_bytes = if self.is_modified { 24 } else { 16 };
        let head_bytes = source.peek(header_bytes)?;
        if head_bytes == 0 && !source.is_cut() {
            return Ok(None);
        }
        if head_bytes < header_bytes {
            let (found, expected) = (head_bytes as u64, header_bytes as u64);
            return Err(source.truncated("a frame's header", found, expected));
        }
        let head = source.window();
        let [seconds, fraction, captured, original] = self.words(head);
        if captured as usize > FRAME_BYTES_MAX {
            let message =
                format!("a frame of {captured} captured bytes; expected at most {FRAME_BYTES_MAX}");
            return Err(source.error(IoErrorKind::Malformed, 8, message));
        }
        let record_bytes = header_bytes + captured as usize;
        let found = source.peek(record_bytes)?;
        if found < record_bytes {
            return Err(source.truncated("a frame", found as u64, record_bytes as u64));
        }
        let seconds_ns = u64::from(seconds) * 1_000_000_000;
        Ok(Some(Found {
            data: header_bytes..record_bytes,
            record_bytes,
            timestamp_ns: seconds_ns + u64::from(fraction) * self.fraction_ns,
            original_bytes: original.max(captured) as usize,
            link_type: self.link_type,
        }))
    }

    /// The four words that start a frame's header, which is `head` and what follows.
    #[inline]
    fn words(&self, head: &[u8]) -> [u32; 4] {
        let word = |at: usize| {
            let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        [word(0), word(4), word(8), word(12)]
    }
}
