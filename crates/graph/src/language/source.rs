//! Texts of a configuration, and where in them something stands.
//!
//! A configuration may come from several texts: the file itself and the libraries that it
//! requires. A [`Span`] is a range of bytes in one of them. A [`Landmark`] is what a person is
//! told: a file name and a line, after `# n "file"` and `#line` directives had their say.
//!
//! # Invariants
//! - S1: a text is valid UTF-8. Bytes that were not are kept, each as one character of a private
//!   range ([`Source::stray_byte`]): an author's name in another encoding within a comment does no
//!   harm, and the same byte anywhere else can be told with its value.
//! - S2: directives are sorted by their place and found while reading, in order.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::archive;
use super::diagnostic::{Diagnostic, Diagnostics};

/// The most bytes of one text of a configuration.
pub const SOURCE_BYTES_MAX: usize = 256 << 20;

/// Stands for byte 0 of a text that is not UTF-8; further bytes follow.
const STRAY_FIRST: u32 = 0xf_f700;

/// A range of bytes in one text of a [`SourceMap`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Index of the text in its map.
    pub source: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// From the first byte of `self` to the last of `other`, which is in the same text.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { source: self.source, start: self.start, end: other.end.max(self.end) }
    }
}

/// A place as a person is told it: `file:line`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Landmark {
    /// Name of the file, as the user or a line directive gave it.
    pub file: Arc<str>,
    /// 1-based line.
    pub line: u32,
    /// Where that is in the text that was read.
    pub span: Span,
}

impl fmt::Display for Landmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A line directive: what follows it is said to be `line` of `file`.
#[derive(Clone, Debug)]
struct Directive {
    start: u32,
    file: Arc<str>,
    line: u32,
}

/// One text of a configuration.
#[derive(Clone, Debug)]
pub struct Source {
    name: Arc<str>,
    text: Arc<str>,
    has_stray: bool,
    /// First byte of each line.
    lines: Vec<u32>,
    directives: Vec<Directive>,
}

impl Source {
    /// The text `bytes` under `name`, as errors shall tell it. An `ar` archive stands for its
    /// member `config`. Without a name it is called `config`.
    ///
    /// # Errors
    /// A diagnostic if the archive is broken, has no such member, or the text exceeds
    /// [`SOURCE_BYTES_MAX`].
    pub fn new(name: &str, bytes: &[u8]) -> Result<Self, Diagnostics> {
        let name: Arc<str> = if name.is_empty() { "config".into() } else { name.into() };
        let bytes = if archive::is_archive(bytes) {
            archive::member(bytes, "config")
                .map_err(|problem| Diagnostic::whole(&name, problem.to_string()))?
        } else {
            bytes
        };
        if bytes.len() > SOURCE_BYTES_MAX {
            let message = format!("text of {} bytes exceeds {SOURCE_BYTES_MAX}", bytes.len());
            return Err(Diagnostic::whole(&name, message).into());
        }
        let (text, has_stray) = decode(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
        let lines = line_starts(&text);
        Ok(Self { name, text: text.into(), has_stray, lines, directives: Vec::new() })
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The byte that `c` stands for, if it was one that is not UTF-8.
    pub fn stray_byte(&self, c: char) -> Option<u8> {
        let byte = u32::from(c).checked_sub(STRAY_FIRST)?;
        if self.has_stray { u8::try_from(byte).ok() } else { None }
    }

    /// Notes a line directive that starts at byte `start`. One that lies before the last is known
    /// already: readers look ahead and come back.
    pub(super) fn add_directive(&mut self, start: usize, line: u32, file: Option<String>) {
        let start = offset(start);
        let last = self.directives.last();
        if last.is_some_and(|last| last.start >= start) {
            return;
        }
        let file = match file {
            None => last.map_or_else(|| self.name.clone(), |last| last.file.clone()),
            Some(name) if name.is_empty() => self.name.clone(),
            Some(name) => name.into(),
        };
        self.directives.push(Directive { start, file, line });
    }

    fn line_idx(&self, at: u32) -> usize {
        self.lines.partition_point(|&start| start <= at).saturating_sub(1)
    }

    /// File and line of byte `at`.
    fn place(&self, at: u32) -> (Arc<str>, u32) {
        let line_idx = self.line_idx(at);
        let known = self.directives.partition_point(|directive| directive.start <= at);
        match known.checked_sub(1).map(|idx| &self.directives[idx]) {
            None => (self.name.clone(), offset(line_idx + 1)),
            Some(directive) => {
                let behind = offset(line_idx - self.line_idx(directive.start));
                (directive.file.clone(), (directive.line.saturating_add(behind)).saturating_sub(1))
            }
        }
    }

    /// The line that holds byte `at`, without its end, and where it starts.
    fn line_around(&self, at: u32) -> (usize, &str) {
        let idx = self.line_idx(at);
        let start = self.lines.get(idx).map_or(0, |&start| start as usize);
        let end = self.lines.get(idx + 1).map_or(self.text.len(), |&next| next as usize);
        (start, self.text[start..end].trim_end_matches(['\n', '\r']))
    }
}

/// All texts of one configuration.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    sources: Vec<Source>,
}

impl SourceMap {
    /// Adds a text; its index.
    pub(super) fn push(&mut self, source: Source) -> u32 {
        self.sources.push(source);
        offset(self.sources.len() - 1)
    }

    pub(super) fn source_mut(&mut self, idx: u32) -> &mut Source {
        &mut self.sources[idx as usize]
    }

    /// The text with index `idx`, if there is one.
    pub fn get(&self, idx: u32) -> Option<&Source> {
        self.sources.get(idx as usize)
    }

    /// The variables that the texts refer to, as `$name` or `${name`; comments count too, and a
    /// name comes as often as it is written.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.sources.iter().flat_map(|source| source.text.split('$').skip(1)).filter_map(
            move |rest| {
                let rest = rest.strip_prefix('{').unwrap_or(rest);
                let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                (end > 0).then_some(&rest[..end])
            },
        )
    }

    /// What stands at `span`.
    pub fn text(&self, span: Span) -> &str {
        self.get(span.source)
            .and_then(|source| source.text.get(span.start as usize..span.end as usize))
            .unwrap_or("")
    }

    /// The landmark of `span`.
    pub fn landmark(&self, span: Span) -> Landmark {
        let (file, line) = match self.get(span.source) {
            Some(source) => source.place(span.start),
            None => ("<unknown>".into(), 0),
        };
        Landmark { file, line, span }
    }

    /// An error at `span`.
    pub fn error(&self, span: Span, message: impl Into<String>) -> Diagnostic {
        let landmark = self.landmark(span);
        match self.get(span.source) {
            None => Diagnostic::whole(&landmark.file, message),
            Some(source) => {
                let (start, line) = source.line_around(span.start);
                let marked = (span.start as usize).saturating_sub(start)
                    ..(span.end as usize).saturating_sub(start);
                Diagnostic::at(landmark, line, marked, message)
            }
        }
    }
}

/// A place in a text, which has at most [`SOURCE_BYTES_MAX`] bytes.
pub(super) fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("texts are bounded")
}

/// The range of bytes of `span`.
pub(super) fn range(span: Span) -> Range<usize> {
    span.start as usize..span.end as usize
}

/// `bytes` as text, and whether some were not UTF-8 (S1).
fn decode(bytes: &[u8]) -> (String, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), false),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                let stray = chunk.invalid().iter().map(|&b| STRAY_FIRST + u32::from(b));
                text.extend(stray.filter_map(char::from_u32));
            }
            (text, true)
        }
    }
}

/// Lines end with `\n`, `\r\n` or `\r`.
fn line_starts(text: &str) -> Vec<u32> {
    let bytes = text.as_bytes();
    let ends = bytes
        .iter()
        .enumerate()
        .filter(|&(at, &byte)| byte == b'\n' || byte == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
    std::iter::once(0).chain(ends.map(|(at, _)| offset(at + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(bytes: &[u8]) -> Source {
        Source::new("f", bytes).unwrap()
    }

    #[test]
    fn lines_end_in_three_ways() {
        let text = source(b"a\nb\r\nc\rd");
        let lines: Vec<u32> = [0, 2, 5, 7].iter().map(|&at| text.place(at).1).collect();
        assert_eq!(lines, [1, 2, 3, 4]);
        assert_eq!(text.line_around(5), (5, "c"));
    }

    #[test]
    fn directives_rename_what_follows() {
        let mut text = source(b"a\n# 100 \"g\"\nb\nc\n#line 5\nd\n# 1 \"\"\ne");
        text.add_directive(2, 100, Some("g".into()));
        text.add_directive(16, 5, None);
        text.add_directive(2, 7, Some("again".into()));
        text.add_directive(26, 1, Some(String::new()));
        let place = |at| {
            let (file, line) = text.place(at);
            format!("{file}:{line}")
        };
        assert_eq!(place(0), "f:1");
        assert_eq!((place(12), place(14)), ("g:100".into(), "g:101".into()));
        assert_eq!(place(24), "g:5");
        assert_eq!(place(33), "f:1");
    }

    #[test]
    fn stray_bytes_are_kept_apart() {
        let text = source(b"caf\xe9 \xc3\xa9");
        let found: Vec<u8> = text.text().chars().filter_map(|c| text.stray_byte(c)).collect();
        assert_eq!(found, [0xe9]);
        assert!(text.text().ends_with('é'));
        assert_eq!(source("\u{ff7e9}".as_bytes()).stray_byte('\u{ff7e9}'), None);
    }

    #[test]
    fn an_unnamed_text_is_called_config() {
        let mut map = SourceMap::default();
        let idx = map.push(Source::new("", b"x").unwrap());
        let span = Span { source: idx, start: 0, end: 1 };
        assert_eq!(map.landmark(span).to_string(), "config:1");
        assert_eq!(map.text(span), "x");
        assert_eq!(map.text(Span { end: 9, ..span }), "");
    }
}
