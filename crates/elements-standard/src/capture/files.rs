//! Text files: line reader.

use std::io::{self, BufRead, BufReader, Read};

use warpswitch_graph::{Context, Time};
use warpswitch_io::Unpacked;

/// The most bytes of a line or record.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Between two looks at a pipe that has nothing.
const LOOK_NS: i64 = 10_000_000;

/// Lines, records and frames that a look at a file passes over at most before others have their
/// turn.
pub(crate) const LOOKS_MAX: usize = 1024;

/// What a look at a source of packets brought.
#[derive(Debug)]
pub(crate) enum Look<T> {
    Found(T),
    /// Something that is no packet, or is not meant: there may be more.
    Passed,
    /// Nothing now: a timer is set, or this was the end.
    Nothing,
}

/// When to look again at a pipe that has nothing now.
pub(crate) fn next_look(cx: &Context<'_>) -> Time {
    Time(cx.now().0.saturating_add(LOOK_NS))
}

/// Whether `error` means that a pipe has no data yet.
pub(crate) fn is_later(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// A source of lines and records.
pub(crate) struct Lines {
    input: BufReader<Content>,
    /// What was read of a line or record that is not whole yet, as a pipe had no more.
    partial: Vec<u8>,
    name: String,
    number: u64,
    position: u64,
    /// A line that was looked at and not read.
    ahead: Option<String>,
}

/// Where lines come from.
enum Content {
    File(Unpacked),
    Data(io::Cursor<Vec<u8>>),
}

impl Read for Content {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(bytes),
            Self::Data(data) => data.read(bytes),
        }
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("name", &self.name).field("number", &self.number).finish()
    }
}

impl Lines {
    /// The lines of the file `name`, gzip'd or not; `-` is the standard input.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let shown = if name == "-" { "<stdin>" } else { name };
        Ok(Self::new(shown, Content::File(Unpacked::open(name)?)))
    }

    /// The lines of `data`.
    pub(crate) fn of(data: Vec<u8>) -> Self {
        Self::new("<data>", Content::Data(io::Cursor::new(data)))
    }

    fn new(name: &str, input: Content) -> Self {
        let (input, partial) = (BufReader::with_capacity(BUFFER_BYTES, input), Vec::new());
        Self { input, partial, name: name.to_owned(), number: 0, position: 0, ahead: None }
    }

    /// From now on reading fails where it would wait for who writes to a pipe ([`is_later`]), and
    /// may be tried again.
    pub(crate) fn never_wait(&mut self) {
        if let Content::File(file) = self.input.get_mut() {
            file.never_wait();
        }
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Which line, or record, was read last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Starts to count again.
    pub(crate) fn restart_numbers(&mut self) {
        self.number = 0;
    }

    /// Bytes that were read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The next line, without reading it; none at the end.
    pub(crate) fn peek(&mut self) -> io::Result<Option<&str>> {
        if self.ahead.is_none() {
            let mut line = String::new();
            self.ahead = self.line(&mut line)?.then_some(line);
            self.number -= u64::from(self.ahead.is_some());
        }
        Ok(self.ahead.as_deref())
    }

    /// Reads a line into `line`, without its line ending. Returns whether there was one.
    pub(crate) fn line(&mut self, line: &mut String) -> io::Result<bool> {
        if let Some(ahead) = self.ahead.take() {
            *line = ahead;
            self.number += 1;
            return Ok(true);
        }
        let left = LINE_BYTES_MAX - self.partial.len() as u64;
        self.input.by_ref().take(left).read_until(b'\n', &mut self.partial)?;
        let read = self.partial.len();
        if read as u64 == LINE_BYTES_MAX && self.partial.last() != Some(&b'\n') {
            return Err(io::Error::other(format!("a line of more than {LINE_BYTES_MAX} bytes")));
        }
        let mut bytes = std::mem::take(line).into_bytes();
        bytes.clear();
        std::mem::swap(&mut bytes, &mut self.partial);
        self.position += read as u64;
        self.number += u64::from(read > 0);
        let ends = [b'\n', b'\r'];
        for end in ends {
            if bytes.last() == Some(&end) {
                bytes.pop();
            }
        }
        *line = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        Ok(read > 0)
    }

    /// Reads a binary record into `record`, without its header. Returns whether it is a text
    /// record; none at the end.
    pub(crate) fn record(&mut self, record: &mut Vec<u8>) -> io::Result<Option<bool>> {
        if !self.has_partial(4)? && self.partial.is_empty() {
            return Ok(None);
        }
        let cut = || io::Error::other("the file ends within a record");
        let word = u32::from_be_bytes(*self.partial.first_chunk().ok_or_else(cut)?);
        let bytes = u64::from(word & 0x7fff_ffff);
        if !(4..=LINE_BYTES_MAX).contains(&bytes) {
            return Err(io::Error::other(format!("a binary record of {bytes} bytes")));
        }
        if !self.has_partial(bytes)? {
            return Err(cut());
        }
        record.clear();
        record.extend_from_slice(&self.partial[4..]);
        self.partial.clear();
        self.position += bytes;
        self.number += 1;
        Ok(Some(word >> 31 == 1))
    }

    /// Reads on until `bytes` bytes of a record are buffered; returns whether they are.
    fn has_partial(&mut self, bytes: u64) -> io::Result<bool> {
        let left = bytes.saturating_sub(self.partial.len() as u64);
        self.input.by_ref().take(left).read_to_end(&mut self.partial)?;
        Ok(self.partial.len() as u64 >= bytes)
    }
}
