//! HTTP/1: messages in the bytes of a TCP stream, and the buffers that rules look into.
//!
//! ```text
//! bytes in order ─► Speaker: heads and bodies of messages ─► Buffers: URI, headers, … ─► rules
//! ```
//! A *message* is a request or a response. Its *head* is its first line and its header fields; its
//! *body* what follows, without the marks of chunks. The words are those of RFC 9112.
//!
//! # Invariants
//! - H1: any bytes are messages or none; nothing panics. What is kept of a direction is at most
//!   [`HEAD_BYTES_MAX`] and [`BODY_BYTES_MAX`].
//! - H2: messages hang on the bytes alone, not on how they are cut into segments.

mod buffers;
mod speaker;

pub(crate) use buffers::Buffers;
pub(crate) use speaker::{Part, Speaker, Told, Wants, may_begin};

/// The most bytes of a head; what is behind them, and the rest of that direction, is not looked at.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// The most bytes of a body that are looked at, and of what a compressed one unpacks to.
pub const BODY_BYTES_MAX: usize = 100 << 10;
/// The most header fields of a head that are told apart.
pub const FIELDS_MAX: usize = 256;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client's.
    Request,
    /// A server's.
    Response,
}

/// A part of a message that rules look into. Of no bytes it is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Buffer {
    /// The target: without scheme and authority, percent-decoded, its path simplified.
    Uri,
    /// The target as it came.
    RawUri,
    /// `NAME: VALUE` and a line end for each field but cookies, those of one name joined.
    Header,
    /// All behind the first line as it came.
    RawHeader,
    /// The method.
    Method,
    /// What `Cookie` says, or `Set-Cookie`.
    Cookie,
    /// What `User-Agent` says.
    UserAgent,
    /// The host's name in lower case, without a port.
    Host,
    /// What `Host` says.
    RawHost,
    /// What `Accept` says.
    Accept,
    /// What `Accept-Encoding` says.
    AcceptEncoding,
    /// What `Accept-Language` says.
    AcceptLanguage,
    /// What `Referer` says.
    Referer,
    /// What `Connection` says.
    Connection,
    /// What `Content-Type` says.
    ContentType,
    /// What `Content-Length` says.
    ContentLength,
    /// What `Location` says.
    Location,
    /// What `Server` says.
    Server,
    /// A line end, each field's name with one, and one more.
    HeaderNames,
    /// A request's first line.
    RequestLine,
    /// A response's first line.
    ResponseLine,
    /// The version in the first line.
    Protocol,
    /// The head as it came.
    Start,
    /// A response's code.
    StatusCode,
    /// What a response says behind its code.
    StatusMessage,
    /// A request's body.
    RequestBody,
    /// A response's body, unpacked.
    ResponseBody,
    /// Head and body as they came, but for the marks of chunks: what payload options of a rule with
    /// buffers are about. The head alone as long as no body is there.
    Whole,
}

impl Buffer {
    /// All of them, in their order.
    pub const ALL: [Buffer; 28] = [
        Self::Uri,
        Self::RawUri,
        Self::Header,
        Self::RawHeader,
        Self::Method,
        Self::Cookie,
        Self::UserAgent,
        Self::Host,
        Self::RawHost,
        Self::Accept,
        Self::AcceptEncoding,
        Self::AcceptLanguage,
        Self::Referer,
        Self::Connection,
        Self::ContentType,
        Self::ContentLength,
        Self::Location,
        Self::Server,
        Self::HeaderNames,
        Self::RequestLine,
        Self::ResponseLine,
        Self::Protocol,
        Self::Start,
        Self::StatusCode,
        Self::StatusMessage,
        Self::RequestBody,
        Self::ResponseBody,
        Self::Whole,
    ];

    /// Which messages have it; none if both do.
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Uri | Self::RawUri | Self::Method | Self::UserAgent | Self::Host => {
                Some(Kind::Request)
            }
            Self::RawHost | Self::Accept | Self::AcceptEncoding | Self::AcceptLanguage => {
                Some(Kind::Request)
            }
            Self::Referer | Self::RequestLine | Self::RequestBody => Some(Kind::Request),
            Self::Location | Self::Server | Self::ResponseLine => Some(Kind::Response),
            Self::StatusCode | Self::StatusMessage | Self::ResponseBody => Some(Kind::Response),
            _ => None,
        }
    }

    /// Whether it is the body.
    pub fn is_body(self) -> bool {
        matches!(self, Self::RequestBody | Self::ResponseBody)
    }

    /// Whether fields of the head are told apart for it.
    fn needs_fields(self) -> bool {
        let has_value = self.field(Kind::Request).is_some();
        has_value
            || matches!(self, Self::Header | Self::HeaderNames | Self::Host | Self::ResponseBody)
    }

    /// The field whose value it is, in lower case, if it is one's.
    pub(crate) fn field(self, kind: Kind) -> Option<&'static [u8]> {
        Some(match (self, kind) {
            (Self::Cookie, Kind::Request) => b"cookie",
            (Self::Cookie, Kind::Response) => b"set-cookie",
            (Self::UserAgent, _) => b"user-agent",
            (Self::RawHost, _) => b"host",
            (Self::Accept, _) => b"accept",
            (Self::AcceptEncoding, _) => b"accept-encoding",
            (Self::AcceptLanguage, _) => b"accept-language",
            (Self::Referer, _) => b"referer",
            (Self::Connection, _) => b"connection",
            (Self::ContentType, _) => b"content-type",
            (Self::ContentLength, _) => b"content-length",
            (Self::Location, _) => b"location",
            (Self::Server, _) => b"server",
            _ => return None,
        })
    }
}

/// Some buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferSet(u32);

impl BufferSet {
    pub(crate) fn insert(&mut self, buffer: Buffer) {
        self.0 |= 1 << buffer as u32;
    }

    pub(crate) fn contains(self, buffer: Buffer) -> bool {
        self.0 >> buffer as u32 & 1 != 0
    }
}

/// A message, or its head alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub kind: Kind,
    pub head: &'a [u8],
    /// Without the marks of chunks, as far as it is looked at.
    pub body: &'a [u8],
}

/// The lines of a head, without their ends; the last is empty where the head is whole.
pub(crate) fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Whether a line goes on with the field before.
pub(crate) fn is_folded(line: &[u8]) -> bool {
    matches!(line, [b' ' | b'\t', ..])
}

/// Adds what a folded line says to a value that begins at `start`, with a blank between them where
/// both say something.
pub(crate) fn join_folded(values: &mut Vec<u8>, start: usize, line: &[u8]) {
    let more = line.trim_ascii();
    if !more.is_empty() && values.len() > start {
        values.push(b' ');
    }
    values.extend_from_slice(more);
}

/// The name and the value of a line that has both, without blanks around them.
pub(crate) fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    let name = line[..colon].trim_ascii();
    (!name.is_empty()).then_some((name, line[colon + 1..].trim_ascii()))
}

/// The three parts of a first line: of a request method, target and version, of a response version,
/// code and the rest. A target may have blanks; what is not there is empty.
pub(crate) fn first_line(kind: Kind, line: &[u8]) -> [&[u8]; 3] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let cut = |text: &[u8]| text.iter().position(is_blank).unwrap_or(text.len());
    let first = cut(line);
    let (one, rest) = (&line[..first], line[first..].trim_ascii());
    match kind {
        Kind::Response => {
            let second = cut(rest);
            [one, &rest[..second], rest[second..].trim_ascii()]
        }
        Kind::Request => {
            let last = rest.iter().rposition(is_blank).map_or(0, |at| at + 1);
            match rest[last..].starts_with(b"HTTP/") {
                true => [one, rest[..last].trim_ascii(), &rest[last..]],
                false => [one, rest, &[]],
            }
        }
    }
}
