//! Captures, read frame by frame.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use warpswitch_wire::link::LinkType;

use crate::CaptureFormat;
use crate::error::{IoError, IoErrorKind};
use crate::input::{Input, Patience};
use crate::pcap::{PcapReader, is_pcap};
use crate::pcapng::{self, PcapNgReader};
use crate::source::Source;

/// The most captured bytes of a frame: what libpcap allows for Ethernet and IP.
pub const FRAME_BYTES_MAX: usize = 262_144;

/// One frame of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The captured bytes.
    pub data: &'a [u8],
    /// Nanoseconds since 1970, or 0 where the capture has no time.
    pub timestamp_ns: u64,
    /// Bytes on the wire, at least `data.len()`.
    pub original_bytes: usize,
    /// How the frame starts.
    pub link_type: LinkType,
}

/// Why a burst of frames ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstEnd {
    /// It has as many frames as were wanted.
    Full,
    /// There is nothing to read now; there may be more later.
    Later,
    /// The capture ended, or failed before.
    End,
}

/// Where in a source's window a frame is.
#[derive(Debug)]
pub(crate) struct Found {
    /// The frame's bytes in the window.
    pub data: Range<usize>,
    /// Bytes to consume before the next frame.
    pub record_bytes: usize,
    pub timestamp_ns: u64,
    pub original_bytes: usize,
    pub link_type: LinkType,
}

enum Format {
    Pcap(PcapReader),
    PcapNg(PcapNgReader),
}

/// Reads a capture, pcap or pcapng, gzip'd or not, which its content tells.
///
/// Memory: that of the largest frame, whatever the capture's length. Threads: one at a time.
pub struct CaptureReader {
    source: Source,
    format: Format,
    /// Bytes of the frame that was given out last.
    pending_bytes: usize,
    has_failed: bool,
    patience: Patience,
}

impl std::fmt::Debug for CaptureReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("CaptureReader");
        fields.field("format", &self.format()).field("offset", &self.source.offset()).finish()
    }
}

impl CaptureReader {
    /// Opens a capture file; `-` is the standard input. Waits for the first bytes of a pipe.
    ///
    /// # Errors
    /// As [`CaptureReader::from_read`], and if the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, IoError> {
        let path = path.as_ref();
        match path.as_os_str() == "-" {
            true => Self::open_as("standard input", path),
            false => Self::open_as(&path.display().to_string(), path),
        }
    }

    /// The same; errors call it `name`.
    ///
    /// # Errors
    /// As [`CaptureReader::open`].
    pub fn open_as(name: &str, path: &Path) -> Result<Self, IoError> {
        let patience = Patience::default();
        let input = Input::open(path, patience.clone())
            .map_err(|error| IoError::system(name, "open", error))?;
        Ok(Self { patience, ..Self::from_read(name, input)? })
    }

    /// From now on reading does not wait for who writes to a pipe: it fails with an error that
    /// [`IoError::is_later`], and may be tried again. Only of captures that were opened by name.
    pub fn never_wait(&mut self) {
        self.patience.end();
    }

    /// Reads a capture from `input`; errors call it `name`. No buffering is needed.
    ///
    /// # Errors
    /// [`IoErrorKind::NotACapture`], [`IoErrorKind::Truncated`] if it ends within its header, and
    /// the other kinds that reading can have.
    pub fn from_read(name: &str, input: impl Read + Send + 'static) -> Result<Self, IoError> {
        let mut source = Source::new(name, input)?;
        let found = source.peek(4)?;
        if found == 0 && !source.is_cut() {
            let message = "the file is empty; a capture has a header, even without frames";
            return Err(source.error(IoErrorKind::Truncated, 0, message.to_owned()));
        }
        let Some(&magic) = source.window().first_chunk::<4>() else {
            return Err(source.truncated("the magic number", found as u64, 4));
        };
        let format = if magic == pcapng::MAGIC {
            Format::PcapNg(PcapNgReader::open(&mut source)?)
        } else if is_pcap(magic) {
            Format::Pcap(PcapReader::open(&mut source)?)
        } else {
            let [a, b, c, d] = magic;
            let message = format!(
                "neither pcap nor pcapng, gzip'd or not: it starts with {a:02x} {b:02x} {c:02x} \
                 {d:02x}"
            );
            return Err(source.error(IoErrorKind::NotACapture, 0, message));
        };
        Ok(Self {
            source,
            format,
            pending_bytes: 0,
            has_failed: false,
            patience: Patience::default(),
        })
    }

    /// The format that the content told.
    pub fn format(&self) -> CaptureFormat {
        match self.format {
            Format::Pcap(_) => CaptureFormat::Pcap,
            Format::PcapNg(_) => CaptureFormat::PcapNg,
        }
    }

    /// Bytes of the capture that were read, unpacked: up to the end of the last frame.
    pub fn position(&self) -> u64 {
        self.source.offset() + self.pending_bytes as u64
    }

    /// Where the frame that was given out last begins, in bytes of the capture.
    pub fn frame_position(&self) -> u64 {
        self.source.offset()
    }

    /// Hands up to `frames_max` frames to `take`, which returns whether it wants more.
    ///
    /// # Errors
    /// As [`CaptureReader::next_frame`], behind the frames before, but none that is of now only.
    #[inline]
    pub fn read_burst(
        &mut self,
        frames_max: usize,
        mut take: impl FnMut(Frame<'_>) -> bool,
    ) -> Result<BurstEnd, IoError> {
        for _ in 0..frames_max {
            match self.next_frame() {
                Ok(Some(frame)) if take(frame) => {}
                Ok(Some(_)) => break,
                Ok(None) => return Ok(BurstEnd::End),
                Err(error) if error.is_later() => return Ok(BurstEnd::Later),
                Err(error) => return Err(error),
            }
        }
        Ok(BurstEnd::Full)
    }

    /// The next frame, or none at the end, and after an error that is not of now only.
    ///
    /// # Errors
    /// [`IoErrorKind::Truncated`] once all whole frames were given out, if something follows them;
    /// [`IoErrorKind::Malformed`], [`IoErrorKind::Unsupported`], [`IoErrorKind::System`].
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, IoError> {
        if self.has_failed {
            return Ok(None);
        }
        self.source.consume(std::mem::take(&mut self.pending_bytes));
        let found = match &mut self.format {
            Format::Pcap(reader) => reader.next(&mut self.source),
            Format::PcapNg(reader) => reader.next(&mut self.source),
        };
        self.has_failed = found.as_ref().is_err_and(|error| !error.is_later());
        let Some(found) = found? else { return Ok(None) };
        self.pending_bytes = found.record_bytes;
        Ok(Some(Frame {
            data: &self.source.window()[found.data],
            timestamp_ns: found.timestamp_ns,
            original_bytes: found.original_bytes,
            link_type: found.link_type,
        }))
    }
}
