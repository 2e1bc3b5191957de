//! Errors in route texts: where, what, and what was expected instead.
//!
//! A reader reports every error of its input, and keeps a bounded number of them.

use std::fmt;
use std::ops::Range;

/// The most diagnostics that are kept; the rest is counted.
pub const DIAGNOSTICS_KEPT_MAX: usize = 100;

/// The most diagnostics that are printed; the rest is counted.
const SHOWN_MAX: usize = 10;

/// The most characters of offending text that are kept.
const TEXT_CHARS_MAX: usize = 60;

/// One error in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Name of the input, as the user gave it.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// 1-based column in characters; each byte that is not UTF-8 counts as one.
    pub column: usize,
    /// The offending text, cut if it is long; empty where something is missing.
    pub text: String,
    /// What is wrong.
    pub message: String,
    /// What may stand there instead; empty where the message says it all.
    pub expected: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, .. } = self;
        write!(f, "{file}:{line}:{column}: {message}")?;
        if !self.text.is_empty() {
            write!(f, ": '{}'", self.text)?;
        }
        if self.expected.is_empty() { Ok(()) } else { write!(f, "; expected {}", self.expected) }
    }
}

/// All errors of a text, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    kept: Vec<Diagnostic>,
    total: usize,
}

impl Diagnostics {
    /// The first ones, up to [`DIAGNOSTICS_KEPT_MAX`].
    pub fn kept(&self) -> &[Diagnostic] {
        &self.kept
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Adds the error at the bytes `span` of `line`, which is line number `line_no` of `file`.
    pub(super) fn add(
        &mut self,
        place: &Place<'_>,
        span: Range<usize>,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.total += 1;
        if self.kept.len() == DIAGNOSTICS_KEPT_MAX {
            return;
        }
        let start = span.start.min(place.line.len());
        let end = span.end.clamp(start, place.line.len());
        let text = String::from_utf8_lossy(&place.line[start..end]);
        let mut cut: String = text.chars().map(printable).take(TEXT_CHARS_MAX).collect();
        if text.chars().nth(TEXT_CHARS_MAX).is_some() {
            cut.push('…');
        }
        self.kept.push(Diagnostic {
            file: place.file.to_owned(),
            line: place.line_no,
            column: String::from_utf8_lossy(&place.line[..start]).chars().count() + 1,
            text: cut,
            message: message.into(),
            expected: expected.into(),
        });
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, diagnostic) in self.kept.iter().take(SHOWN_MAX).enumerate() {
            let end = if idx == 0 { "" } else { "\n" };
            write!(f, "{end}{diagnostic}")?;
        }
        match self.total.saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Diagnostics {}

/// A character that cannot play with a terminal.
fn printable(c: char) -> char {
    if c.is_control() { '\u{fffd}' } else { c }
}

/// A line and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) file: &'a str,
    pub(super) line_no: usize,
    pub(super) line: &'a [u8],
}

/// A word of a line, and its bytes there.
#[derive(Clone, Debug)]
pub(super) struct Word<'a> {
    /// The word; empty if it is not UTF-8, which no word that is expected is.
    pub(super) text: &'a str,
    pub(super) span: Range<usize>,
}

/// The words of the bytes `part` of a line.
pub(super) fn words<'a>(line: &'a [u8], part: Range<usize>) -> Vec<Word<'a>> {
    let mut words = Vec::new();
    let mut at = part.start;
    while at < part.end {
        if line[at].is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let len = line[at..part.end].iter().take_while(|b| !b.is_ascii_whitespace()).count();
        let text = std::str::from_utf8(&line[at..at + len]).unwrap_or("");
        words.push(Word { text, span: at..at + len });
        at += len;
    }
    words
}
