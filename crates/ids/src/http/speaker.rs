//! Where messages begin and end in one direction of a connection.
//!
//! Bytes come in order, in pieces of any length. What is told hangs on them alone. A side that does
//! not begin as HTTP, or does not go on so, is not looked at any more.

use std::fmt;

use memchr::memchr;

use super::{
    BODY_BYTES_MAX, HEAD_BYTES_MAX, Kind, field, first_line, is_folded, join_folded, lines,
};
use crate::decode::Decoded;

/// Bytes of a head's memory that stay for the next one.
const HEAD_KEPT_BYTES: usize = 2048;

/// The most requests of which a side remembers how they asked, while their answers did not come.
const ASKED_MAX: u32 = 64;

/// Bytes of a method's name.
const METHOD_BYTES_MAX: usize = 32;

/// Methods by which a request is known that names no version.
const METHODS: [&[u8]; 18] = [
    b"GET",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"TRACE",
    b"CONNECT",
    b"PATCH",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"SEARCH",
    b"REPORT",
];

/// What of a message is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Its head.
    Head,
    /// Its body, or as much of it as is looked at.
    Body,
}

/// Which bodies are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    pub request_bodies: bool,
    pub response_bodies: bool,
}

/// What is told of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told<'a> {
    pub part: Part,
    pub kind: Kind,
    /// The number of the message in its direction, from 1.
    pub number: u64,
    pub head: &'a [u8],
    /// Empty where the part is the head.
    pub body: &'a [u8],
}

/// Requests whose answers did not come yet: by which methods some ask for answers without a body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// Those by HEAD; the oldest is the lowest bit.
    heads: u64,
    /// Those by CONNECT, the same: an answer that agrees begins a tunnel, others have bodies.
    tunnels: u64,
    count: u32,
}

impl Asked {
    /// Whether an answer may still come.
    pub(crate) fn waits(&self) -> bool {
        self.count > 0
    }

    /// Of more than [`ASKED_MAX`] it is not known how they asked, only that they did.
    fn push(&mut self, method: &[u8]) {
        if self.count < ASKED_MAX {
            self.heads |= u64::from(method == b"HEAD") << self.count;
            self.tunnels |= u64::from(method == b"CONNECT") << self.count;
        }
        self.count = self.count.saturating_add(1);
    }

    /// Takes out the oldest; tells whether its answer, which has this code, has no body.
    fn answer(&mut self, code: &[u8]) -> bool {
        let agrees = matches!(code, [b'2', ..]);
        let is_bodiless = self.heads & 1 != 0 || self.tunnels & 1 != 0 && agrees;
        (self.heads, self.tunnels) = (self.heads >> 1, self.tunnels >> 1);
        self.count = self.count.saturating_sub(1);
        is_bodiless
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A head is read.
    Head,
    /// So many bytes of a body follow, at least one.
    Length(u64),
    /// The line before a chunk: its number so far.
    ChunkLine { size: u64, has_digits: bool, is_over: bool },
    /// So many bytes of a chunk follow, at least one.
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    /// Fields behind the last chunk: whether the line has nothing yet.
    Trailer { is_blank: bool },
    /// The body lasts as long as the stream.
    UntilClose,
    /// Nothing is looked at any more.
    Off,
}

/// One direction of a connection that speaks HTTP.
pub(crate) struct Speaker {
    state: State,
    kind: Kind,
    /// Of the message at hand, from 1.
    number: u64,
    head: Vec<u8>,
    /// Where the line that is read begins.
    line_start: usize,
    body: Vec<u8>,
    /// The body was told, as far as it is looked at.
    is_body_told: bool,
    /// Where in the stream the next byte is.
    pub position: u64,
    /// What this side asked for.
    pub asked: Asked,
    /// Its last packet, for who looks at what is left when the flow ends.
    pub last: Option<Decoded<'static>>,
}

impl fmt::Debug for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, kind, number, .. } = self;
        write!(f, "Speaker({kind:?} {number}, {state:?})")
    }
}

/// Whether a stream that begins so may be HTTP.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let bytes = &bytes[bytes.iter().take_while(|byte| is_line_end(byte)).count()..];
    let version = b"HTTP/";
    let both = bytes.len().min(version.len());
    if bytes[..both] == version[..both] {
        return true;
    }
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || b"-_".contains(byte);
    let method = bytes.iter().take_while(|byte| is_letter(byte)).count();
    let is_ended = bytes.get(method).is_none_or(|byte| matches!(byte, b' ' | b'\t'));
    is_ended && (1..=METHOD_BYTES_MAX).contains(&method)
}

fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// What a message is that begins with this line, if it is one.
pub(super) fn kind_of(line: &[u8]) -> Option<Kind> {
    if let [b'H', b'T', b'T', b'P', b'/', version, ..] = line {
        return version.is_ascii_digit().then_some(Kind::Response);
    }
    let [method, target, version] = first_line(Kind::Request, line);
    if target.is_empty() || !may_begin(line) {
        return None;
    }
    // Other protocols took over its methods, and say so at the end.
    let is_other = |name: &[u8]| target.windows(name.len() + 1).any(|part| part[1..] == *name);
    let is_known = METHODS.contains(&method) && !is_other(b"RTSP/") && !is_other(b"SIP/");
    (is_known || !version.is_empty()).then_some(Kind::Request)
}

/// How a message goes on behind its head.
fn body_of(kind: Kind, head: &[u8], is_bodiless: bool) -> State {
    let mut lines = lines(head);
    let first = lines.next().unwrap_or(&[]);
    let code = first_line(kind, first)[1];
    let is_short = kind == Kind::Response && (matches!(code, [b'1', _, _] | b"204" | b"304"));
    if is_short || is_bodiless {
        return State::Head;
    }
    let (mut length, mut is_chunked) = (None, false);
    let (mut name, mut value): (&[u8], Vec<u8>) = (&[], Vec::new());
    // The last line is empty: no field is open behind it.
    for line in lines {
        if is_folded(line) {
            if !name.is_empty() {
                join_folded(&mut value, 0, line);
            }
            continue;
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            length = length.or_else(|| number(&value));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            is_chunked |= value.to_ascii_lowercase().windows(7).any(|part| part == b"chunked");
        }
        name = &[];
        // Most fields begin otherwise than these two.
        let first = line.trim_ascii_start().first();
        if first.is_some_and(|byte| b"CcTt".contains(byte))
            && let Some((its_name, its_value)) = field(line)
        {
            name = its_name;
            value.clear();
            value.extend_from_slice(its_value);
        }
    }
    match (is_chunked, length, kind) {
        (true, _, _) => State::ChunkLine { size: 0, has_digits: false, is_over: false },
        (_, Some(0), _) | (_, None, Kind::Request) => State::Head,
        (_, Some(length), _) => State::Length(length),
        (_, None, Kind::Response) => State::UntilClose,
    }
}

fn number(value: &[u8]) -> Option<u64> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&value[..digits]).ok()?.parse().ok()
}

impl Speaker {
    /// A side whose stream begins at `position`.
    pub(crate) fn new(position: u64) -> Self {
        Self {
            state: State::Head,
            kind: Kind::Request,
            number: 1,
            head: Vec::new(),
            line_start: 0,
            body: Vec::new(),
            is_body_told: false,
            position,
            asked: Asked::default(),
            last: None,
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.head.capacity() + self.body.capacity()
    }

    /// Whether nothing is looked at any more.
    pub(crate) fn is_off(&self) -> bool {
        self.state == State::Off
    }

    /// Whether a first line of a message came: what begins as HTTP may be none.
    pub(crate) fn has_spoken(&self) -> bool {
        self.number > 1 || self.line_start > 0
    }

    /// Takes the next bytes of the stream; tells all parts of messages that are whole then. `asked`
    /// is what the other side asked for, if it speaks HTTP.
    pub(crate) fn feed(
        &mut self,
        mut bytes: &[u8],
        mut asked: Option<&mut Asked>,
        wants: Wants,
        told: &mut impl FnMut(Told<'_>),
    ) {
        self.position += bytes.len() as u64;
        while let Some(&first) = bytes.first() {
            let used = match self.state {
                State::Head => self.take_head(bytes, asked.as_deref_mut(), told),
                State::Length(left) => {
                    let used = self.take_body(bytes, left, wants, told);
                    match left - used as u64 {
                        0 => self.end_message(told),
                        left => self.state = State::Length(left),
                    }
                    used
                }
                State::Chunk(left) => {
                    let used = self.take_body(bytes, left, wants, told);
                    self.state = match left - used as u64 {
                        0 => State::ChunkEnd,
                        left => State::Chunk(left),
                    };
                    used
                }
                State::UntilClose => self.take_body(bytes, u64::MAX, wants, told),
                State::Off => return,
                _ => {
                    self.take_mark(first, told);
                    1
                }
            };
            bytes = &bytes[used..];
        }
    }

    /// The stream ends, or misses bytes: tells what there is.
    pub(crate) fn close(&mut self, told: &mut impl FnMut(Told<'_>)) {
        match self.state {
            State::Head if self.line_start > 0 => self.tell(Part::Head, told),
            State::Head | State::Off => {}
            _ => self.tell_body(told),
        }
        self.turn_off();
    }

    fn turn_off(&mut self) {
        self.state = State::Off;
        (self.head, self.body) = (Vec::new(), Vec::new());
    }

    fn tell(&self, part: Part, told: &mut impl FnMut(Told<'_>)) {
        let body = if part == Part::Body { &self.body[..] } else { &[] };
        told(Told { part, kind: self.kind, number: self.number, head: &self.head, body });
    }

    /// Tells the body, once, if there is one.
    fn tell_body(&mut self, told: &mut impl FnMut(Told<'_>)) {
        if !self.body.is_empty() {
            self.tell(Part::Body, told);
            self.body = Vec::new();
        }
    }

    fn end_message(&mut self, told: &mut impl FnMut(Told<'_>)) {
        self.tell_body(told);
        self.head.clear();
        self.head.shrink_to(HEAD_KEPT_BYTES);
        self.line_start = 0;
        self.is_body_told = false;
        self.number += 1;
        self.state = State::Head;
    }

    /// Takes bytes of a head up to the end of a line; gives how many.
    fn take_head(
        &mut self,
        bytes: &[u8],
        asked: Option<&mut Asked>,
        told: &mut impl FnMut(Told<'_>),
    ) -> usize {
        if self.head.is_empty() && is_line_end(&bytes[0]) {
            return 1;
        }
        let end = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
        let used = end.min(HEAD_BYTES_MAX - self.head.len());
        self.head.extend_from_slice(&bytes[..used]);
        let line = &self.head[self.line_start..];
        if let Some(line) = line.strip_suffix(b"\n") {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if self.line_start == 0 {
                match kind_of(line) {
                    Some(kind) => self.kind = kind,
                    None => {
                        self.turn_off();
                        return used;
                    }
                }
            }
            let is_end = line.is_empty();
            self.line_start = self.head.len();
            if is_end {
                self.end_head(asked, told);
                return used;
            }
        } else if self.line_start == 0 && !may_begin(line) {
            self.turn_off();
            return used;
        }
        if self.head.len() == HEAD_BYTES_MAX {
            if self.line_start > 0 {
                self.tell(Part::Head, told);
            }
            self.turn_off();
        }
        used
    }

    fn end_head(&mut self, asked: Option<&mut Asked>, told: &mut impl FnMut(Told<'_>)) {
        self.tell(Part::Head, told);
        let [one, two, _] = first_line(self.kind, lines(&self.head).next().unwrap_or(&[]));
        let mut is_bodiless = false;
        match self.kind {
            Kind::Request => self.asked.push(one),
            Kind::Response if two == b"101" => return self.turn_off(),
            // What goes before an answer answers nothing.
            Kind::Response if matches!(two, [b'1', _, _]) => {}
            Kind::Response => is_bodiless = asked.is_some_and(|asked| asked.answer(two)),
        }
        match body_of(self.kind, &self.head, is_bodiless) {
            State::Head => self.end_message(told),
            state => self.state = state,
        }
    }

    /// Takes at most `left` bytes of a body; gives how many.
    fn take_body(
        &mut self,
        bytes: &[u8],
        left: u64,
        wants: Wants,
        told: &mut impl FnMut(Told<'_>),
    ) -> usize {
        let used = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let is_wanted = match self.kind {
            Kind::Request => wants.request_bodies,
            Kind::Response => wants.response_bodies,
        };
        if is_wanted && !self.is_body_told {
            let kept = used.min(BODY_BYTES_MAX - self.body.len());
            self.body.extend_from_slice(&bytes[..kept]);
            if self.body.len() == BODY_BYTES_MAX {
                self.tell_body(told);
                self.is_body_told = true;
            }
        }
        used
    }

    /// Takes a byte between chunks, or behind them.
    fn take_mark(&mut self, byte: u8, told: &mut impl FnMut(Told<'_>)) {
        let fresh = State::ChunkLine { size: 0, has_digits: false, is_over: false };
        self.state = match (self.state, byte) {
            (State::ChunkLine { has_digits: false, .. }, b' ' | b'\t') => self.state,
            (State::ChunkLine { has_digits: false, .. }, _) if !byte.is_ascii_hexdigit() => {
                return self.close(told);
            }
            (State::ChunkLine { size: 0, .. }, b'\n') => State::Trailer { is_blank: true },
            (State::ChunkLine { size, .. }, b'\n') => State::Chunk(size),
            (State::ChunkLine { size, is_over: false, .. }, _) if byte.is_ascii_hexdigit() => {
                let digit = (byte as char).to_digit(16).unwrap_or(0).into();
                let size = size.saturating_mul(16).saturating_add(digit);
                State::ChunkLine { size, has_digits: true, is_over: false }
            }
            // What is said of a chunk behind its length counts for nothing.
            (State::ChunkLine { size, has_digits, .. }, _) => {
                State::ChunkLine { size, has_digits, is_over: true }
            }
            (State::ChunkEnd, b'\r') => State::ChunkEnd,
            (State::ChunkEnd, b'\n') => fresh,
            (State::ChunkEnd, _) => return self.close(told),
            (State::Trailer { is_blank: true }, b'\n') => return self.end_message(told),
            (State::Trailer { .. }, b'\n') => State::Trailer { is_blank: true },
            (State::Trailer { is_blank }, b'\r') => State::Trailer { is_blank },
            (State::Trailer { .. }, _) => State::Trailer { is_blank: false },
            (state, _) => state,
        };
    }
}
