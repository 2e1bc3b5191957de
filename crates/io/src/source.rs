//! A window over a stream of bytes, gzip'd or not: what both capture formats are read through.
//!
//! The window holds what is being parsed and no more, so a capture of any length takes the memory
//! of its largest frame or block, which the formats bound before they ask for it.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::{IoError, IoErrorKind};
use crate::input::{Input, Patience};

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// The first bytes of gzip'd content: the magic and "deflate".
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// The content of `input`, unpacked if it is gzip'd, and whether it is.
pub(crate) fn unpacked(
    input: impl Read + Send + 'static,
) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut input: Box<dyn Read + Send> = Box::new(input);
    let mut head = [0; GZIP_MAGIC.len()];
    let mut head_bytes = 0;
    while head_bytes < head.len() {
        match input.read(&mut head[head_bytes..]) {
            Ok(0) => break,
            Ok(bytes) => head_bytes += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let is_gzip = head[..head_bytes] == GZIP_MAGIC;
    let input = io::Cursor::new(head).take(head_bytes as u64).chain(input);
    let input: Box<dyn Read + Send> =
        if is_gzip { Box::new(MultiGzDecoder::new(input)) } else { Box::new(input) };
    Ok((input, is_gzip))
}

/// A file of any content, which is unpacked if it is gzip'd.
pub struct Unpacked {
    input: Box<dyn Read + Send>,
    patience: Patience,
}

impl Unpacked {
    /// Opens a file; `-` is the standard input. Waits for the first bytes of a pipe.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let patience = Patience::default();
        let (input, _) = unpacked(Input::open(path.as_ref(), patience.clone())?)?;
        Ok(Self { input, patience })
    }

    /// From now on reading does not wait for who writes to a pipe: it fails with
    /// [`io::ErrorKind::WouldBlock`], and may be tried again.
    pub fn never_wait(&mut self) {
        self.patience.end();
    }
}

impl Read for Unpacked {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.input.read(bytes)
    }
}

/// A stream of bytes and the part of it that is at hand.
pub(crate) struct Source {
    input: Box<dyn Read + Send>,
    name: String,
    is_gzip: bool,
    /// The gzip stream stopped before its end mark.
    is_cut: bool,
    is_at_end: bool,
    buffer: Vec<u8>,
    /// The window: bytes that were read and not consumed.
    start: usize,
    end: usize,
    /// Where in the stream the window starts.
    offset: u64,
}

impl Source {
    /// Wraps `input`, which is called `name`; looks whether it is gzip'd.
    pub(crate) fn new(name: &str, input: impl Read + Send + 'static) -> Result<Self, IoError> {
        let unpacked = unpacked(input).map_err(|error| IoError::system(name, "read", error))?;
        let (input, is_gzip) = unpacked;
        Ok(Self {
            input,
            name: name.to_owned(),
            is_gzip,
            is_cut: false,
            is_at_end: false,
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
            offset: 0,
        })
    }

    /// The bytes at hand.
    pub(crate) fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Where in the stream the window starts.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Brings the next `bytes` bytes into the window; tells how many of them there are, which is
    /// fewer if the stream ends before. `bytes` is bounded by callers.
    pub(crate) fn peek(&mut self, bytes: usize) -> Result<usize, IoError> {
        if self.end - self.start < bytes {
            self.fill(bytes)?;
        }
        Ok(bytes.min(self.end - self.start))
    }

    /// Drops bytes that were peeked at.
    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "consumed more than was read");
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Drops the next `left` bytes, at hand or not; `left` is what there is still to drop, after an
    /// error too, and more than nothing if the stream ends before.
    pub(crate) fn skip(&mut self, left: &mut u64) -> Result<(), IoError> {
        while *left > 0 {
            let step = (*left).min(READ_BYTES as u64) as usize;
            let found = self.peek(step)?;
            if found == 0 {
                break;
            }
            self.consume(found);
            *left -= found as u64;
        }
        Ok(())
    }

    /// An error at the start of the window, or `ahead` bytes into it.
    pub(crate) fn error(&self, kind: IoErrorKind, ahead: usize, message: String) -> IoError {
        IoError::at(kind, &self.name, self.offset + ahead as u64, message)
    }

    /// The error of a stream that ended `found` bytes into `what`, which has `expected`.
    pub(crate) fn truncated(&self, what: &str, found: u64, expected: u64) -> IoError {
        let cut = if self.is_cut { ", where its gzip stream is truncated" } else { "" };
        let message =
            format!("the capture ends within {what}{cut}: {found} of {expected} bytes present");
        self.error(IoErrorKind::Truncated, 0, message)
    }

    /// Whether a gzip stream stopped before its end mark.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Reads until `bytes` bytes are at hand or the stream ends.
    fn fill(&mut self, bytes: usize) -> Result<(), IoError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        while self.end < bytes && !self.is_at_end {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.is_at_end = true,
                Ok(read) => self.end += read,
                Err(error) => self.note_failure(error)?,
            }
        }
        Ok(())
    }

    fn note_failure(&mut self, error: io::Error) -> Result<(), IoError> {
        match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            io::ErrorKind::UnexpectedEof if self.is_gzip => {
                (self.is_at_end, self.is_cut) = (true, true);
                Ok(())
            }
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput if self.is_gzip => {
                let unpacked = self.end - self.start;
                let message = format!("the gzip stream is damaged from here on: {error}");
                Err(self.error(IoErrorKind::Malformed, unpacked, message))
            }
            _ => Err(IoError::system(&self.name, "read", error)),
        }
    }
}
