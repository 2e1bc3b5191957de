//! Errors in text from outside: where, what, what was expected instead, and how to mend it.
//!
//! A reader reports *every* error of its input, not the first alone, and keeps a bounded number of
//! them: a capture that is mistaken for a rule file has a million errors and must not become a
//! gigabyte of report.
//!
//! ```text
//! error: the port range is empty
//!   --> acl.rules:12:41
//!    |
//! 12 | @10.0.0.0/8 @0.0.0.0/0 0 : 65535 90 : 80 0x06/0xFF
//!    |                                  ^^^^^^^ expected the lower port first
//!    = help: write 80 : 90
//! ```
//!
//! # Invariants
//! - D1: a diagnostic's memory is bounded: its texts are cut to a window around the place, however
//!   long the line is.
//! - D2: columns count characters from 1; a tab is one character, so is each byte that is not
//!   valid UTF-8. Rendered text holds no control character of the input.

use std::fmt;
use std::ops::Range;

use serde::Serialize;
use unicode_width::UnicodeWidthChar;

/// The most diagnostics that are kept; the rest is counted.
pub const DIAGNOSTICS_KEPT_MAX: usize = 100;

/// The most diagnostics that a report shows; the rest is counted.
pub const DIAGNOSTICS_SHOWN_MAX: usize = 10;

/// The most characters of a source line that are kept around the place of an error.
const EXCERPT_CHARS_MAX: usize = 120;

/// The most characters of offending text that are kept.
const TEXT_CHARS_MAX: usize = 60;

/// One error in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Name of the input, as the user gave it.
    pub file: String,
    /// 1-based line; 0 where the error concerns the whole input.
    pub line: u32,
    /// 1-based column in characters; 0 where the error concerns the whole input.
    pub column: u32,
    /// The offending text, cut if it is long; empty where something is missing.
    pub text: String,
    /// What is wrong.
    pub message: String,
    /// What may stand there instead; empty where the message says it all.
    pub expected: String,
    /// How to mend it; empty where that is plain.
    pub help: String,
    /// The source line, or the part of it around the place.
    pub excerpt: String,
    /// Which characters of `excerpt` are meant.
    #[serde(skip)]
    marked: Range<usize>,
}

impl Diagnostic {
    /// An error at the bytes `span` of `line`, which is line number `line_no` (1-based) of `file`
    /// without its line end. An empty span, or one past the end, marks the place where something
    /// is missing.
    pub fn at(
        file: &str,
        line_no: u32,
        line: &[u8],
        span: Range<usize>,
        message: impl Into<String>,
    ) -> Self {
        let start = span.start.min(line.len());
        let end = span.end.clamp(start, line.len());
        let (start, end) = (char_around(line, start).start, char_around(line, end).end);
        // Only the neighbourhood is decoded: the line may be very long. The column needs a count
        // over all that stands before, which holds no memory.
        let before_chars = count_chars(&line[..start]);
        let marked = &line[start..bounded(line, start, end, TEXT_CHARS_MAX)];
        let text = printable(marked);
        let lead = tail_chars(&line[..start], EXCERPT_CHARS_MAX / 2);
        let lead_chars = lead.chars().count();
        let left = EXCERPT_CHARS_MAX - lead_chars;
        let rest = &line[start..bounded(line, start, line.len(), left)];
        let cut_left = lead_chars < before_chars;
        let cut_right = start + rest.len() < line.len();
        let mut excerpt = String::new();
        excerpt.push_str(if cut_left { "…" } else { "" });
        excerpt.push_str(&lead);
        excerpt.push_str(&printable(rest));
        excerpt.push_str(if cut_right { "…" } else { "" });
        let first = lead_chars + usize::from(cut_left);
        let width = text.chars().count().min(excerpt.chars().count() - first);
        Self {
            file: file.to_owned(),
            line: line_no,
            column: u32::try_from(before_chars + 1).unwrap_or(u32::MAX),
            text: if marked.len() < end - start { text + "…" } else { text },
            message: message.into(),
            expected: String::new(),
            help: String::new(),
            excerpt,
            marked: first..first + width,
        }
    }

    /// An error that concerns all of `file`.
    pub fn whole(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: 0,
            column: 0,
            text: String::new(),
            message: message.into(),
            expected: String::new(),
            help: String::new(),
            excerpt: String::new(),
            marked: 0..0,
        }
    }

    /// The same, with what may stand there instead.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = expected.into();
        self
    }

    /// The same, with a way to mend it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// Writes the report; `paint` says whether to colour it for a terminal.
    fn render(&self, out: &mut dyn fmt::Write, paint: &Paint) -> fmt::Result {
        let Paint { error, frame, mark, reset } = paint;
        writeln!(out, "{error}error{reset}: {}", self.message)?;
        let number = if self.line == 0 { String::new() } else { self.line.to_string() };
        let gutter = number.len();
        if self.line == 0 {
            writeln!(out, "{frame}{:gutter$}-->{reset} {}", "", self.file)?;
            if !self.expected.is_empty() {
                writeln!(out, "{frame}{:gutter$} ={reset} expected {}", "", self.expected)?;
            }
        } else {
            let (line, column) = (self.line, self.column);
            writeln!(out, "{frame}{:gutter$}-->{reset} {}:{line}:{column}", "", self.file)?;
            writeln!(out, "{frame}{:gutter$} |{reset}", "")?;
            let space = if self.excerpt.is_empty() { "" } else { " " };
            writeln!(out, "{frame}{number} |{reset}{space}{}", self.excerpt)?;
            let cells = |from: usize, to: usize| -> usize {
                let chars = self.excerpt.chars().skip(from).take(to - from);
                chars.map(|c| c.width().unwrap_or(0)).sum()
            };
            let indent = cells(0, self.marked.start);
            let carets = "^".repeat(cells(self.marked.start, self.marked.end).max(1));
            write!(out, "{frame}{:gutter$} |{reset} {:indent$}{mark}{carets}", "", "")?;
            match self.expected.as_str() {
                "" => writeln!(out, "{reset}")?,
                expected => writeln!(out, " expected {expected}{reset}")?,
            }
        }
        if !self.help.is_empty() {
            writeln!(out, "{frame}{:gutter$} ={reset} help: {}", "", self.help)?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.render(f, &Paint::PLAIN)
    }
}

/// Every error of an input: never empty when a reader returns it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diagnostics {
    kept: Vec<Diagnostic>,
    count: usize,
}

impl Diagnostics {
    /// Adds an error; past [`DIAGNOSTICS_KEPT_MAX`] it is only counted.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if self.wants_more() {
            self.kept.push(diagnostic);
        }
        self.count += 1;
    }

    /// Counts errors without keeping them: for readers that see [`Self::wants_more`] say no, and
    /// need not make the texts then.
    pub fn count_only(&mut self, errors: usize) {
        self.count += errors;
    }

    /// Whether the next error would still be kept.
    pub fn wants_more(&self) -> bool {
        self.kept.len() < DIAGNOSTICS_KEPT_MAX
    }

    /// Number of errors, the ones that were not kept included.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no error.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The errors that were kept, in the order of the input.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.kept.iter()
    }

    /// The report with colours for a terminal; [`fmt::Display`] writes it plain.
    pub fn to_coloured(&self) -> String {
        let mut out = String::new();
        self.render(&mut out, &Paint::COLOURED).expect("a String takes every write");
        out
    }

    /// `Err` with all errors, or `value` if there is none.
    ///
    /// # Errors
    /// The diagnostics themselves, if any.
    pub fn into_result<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    fn render(&self, out: &mut dyn fmt::Write, paint: &Paint) -> fmt::Result {
        for (idx, diagnostic) in self.kept.iter().take(DIAGNOSTICS_SHOWN_MAX).enumerate() {
            if idx > 0 {
                writeln!(out)?;
            }
            diagnostic.render(out, paint)?;
        }
        let more = self.count - self.kept.len().min(DIAGNOSTICS_SHOWN_MAX);
        if more > 0 {
            let noun = if more == 1 { "error" } else { "errors" };
            writeln!(out, "\nand {} more {noun}", grouped(more))?;
        }
        Ok(())
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self { kept: vec![diagnostic], count: 1 }
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.render(f, &Paint::PLAIN)
    }
}

impl std::error::Error for Diagnostics {}

/// A NUL among this many first bytes marks a binary file.
const BINARY_PREFIX_BYTES: usize = 1024;

/// Views `bytes` as text.
///
/// # Errors
/// One diagnostic for each run of bytes that is not valid UTF-8, or one for a binary file.
pub fn utf8_text<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, Diagnostics> {
    let Err(_) = std::str::from_utf8(bytes) else {
        return Ok(std::str::from_utf8(bytes).expect("it was valid above"));
    };
    let mut diagnostics = Diagnostics::default();
    if bytes.iter().take(BINARY_PREFIX_BYTES).any(|&byte| byte == 0) {
        diagnostics.push(Diagnostic::whole(file, "a binary file, not text"));
        return Err(diagnostics);
    }
    for (idx, line) in bytes.split(|&b| b == b'\n').enumerate() {
        let line_no = u32::try_from(idx + 1).unwrap_or(u32::MAX);
        let mut at = 0;
        for chunk in line.utf8_chunks() {
            at += chunk.valid().len();
            let bad = chunk.invalid();
            if !bad.is_empty() && diagnostics.wants_more() {
                let hex: Vec<String> = bad.iter().map(|b| format!("0x{b:02x}")).collect();
                let message = format!("{} is not valid UTF-8", hex.join(" "));
                let span = at..at + bad.len();
                diagnostics.push(
                    Diagnostic::at(file, line_no, line, span, message).expected("text").help(
                        "save the file as UTF-8; compressed or binary files are not \
                            accepted",
                    ),
                );
            } else if !bad.is_empty() {
                diagnostics.count_only(1);
            }
            at += bad.len();
        }
    }
    Err(diagnostics)
}

/// Escape sequences around the parts of a report.
struct Paint {
    error: &'static str,
    frame: &'static str,
    mark: &'static str,
    reset: &'static str,
}

impl Paint {
    const PLAIN: Paint = Paint { error: "", frame: "", mark: "", reset: "" };
    const COLOURED: Paint =
        Paint { error: "\x1b[1;31m", frame: "\x1b[1;34m", mark: "\x1b[1;31m", reset: "\x1b[0m" };
}

/// The character whose bytes lie on both sides of `at`; empty if none does.
fn char_around(line: &[u8], at: usize) -> Range<usize> {
    for first in (at.saturating_sub(3)..at).rev() {
        for len in 2..=4.min(line.len() - first) {
            if first + len > at && std::str::from_utf8(&line[first..first + len]).is_ok() {
                // Shorter text that is whole by itself would end before `at`.
                let is_one = std::str::from_utf8(&line[first..at]).is_err();
                return if is_one { first..first + len } else { at..at };
            }
        }
    }
    at..at
}

/// Characters in `bytes`, a run that is not valid UTF-8 counting one for each byte.
fn count_chars(bytes: &[u8]) -> usize {
    let chunks = bytes.utf8_chunks();
    chunks.map(|chunk| chunk.valid().chars().count() + chunk.invalid().len()).sum()
}

/// Text that is safe to print, one character for each character of [`count_chars`].
fn printable(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.extend(chunk.valid().chars().map(|c| match c {
            '\t' => ' ',
            c if c.is_control() || c.width().is_none() => char::REPLACEMENT_CHARACTER,
            c => c,
        }));
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out
}

/// Where to cut `line[start..end]` so that at most `chars_max` characters stay.
fn bounded(line: &[u8], start: usize, end: usize, chars_max: usize) -> usize {
    // A character has at most 4 bytes, so the window that is decoded stays small.
    let window = &line[start..end.min(start + 4 * chars_max)];
    let mut at = start;
    let mut left = chars_max;
    for chunk in window.utf8_chunks() {
        for c in chunk.valid().chars().take(left) {
            at += c.len_utf8();
            left -= 1;
        }
        let bad = chunk.invalid().len().min(left);
        at += bad;
        left -= bad;
    }
    at
}

/// The last characters of `bytes`, printable, at most `chars_max`.
fn tail_chars(bytes: &[u8], chars_max: usize) -> String {
    let mut from = bytes.len().saturating_sub(4 * chars_max);
    while from > 0 && from < bytes.len() && bytes[from] & 0xc0 == 0x80 {
        from += 1;
    }
    let text = printable(&bytes[from..]);
    let skip = text.chars().count().saturating_sub(chars_max);
    text.chars().skip(skip).collect()
}

/// A number with a comma between groups of three digits.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (idx, digit) in digits.chars().enumerate() {
        if idx > 0 && (digits.len() - idx).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_place_cause_and_remedy() {
        let line = b"@1.2.3.4/32\t90 : 80";
        let diagnostic = Diagnostic::at("acl.rules", 12, line, 12..19, "the port range is empty")
            .expected("the lower port first")
            .help("write 80 : 90");
        assert_eq!(
            diagnostic.to_string(),
            "error: the port range is empty\n  \
             --> acl.rules:12:13\n   |\n\
             12 | @1.2.3.4/32 90 : 80\n   \
             |             ^^^^^^^ expected the lower port first\n   \
             = help: write 80 : 90\n"
        );
        assert_eq!(diagnostic.text, "90 : 80");
    }

    #[test]
    fn columns_count_characters() {
        let check = |line: &[u8], span: Range<usize>, column: u32, text: &str| {
            let diagnostic = Diagnostic::at("f", 1, line, span, "m");
            assert_eq!((diagnostic.column, diagnostic.text.as_str()), (column, text));
            let carets: Vec<&str> = diagnostic.excerpt.split(text).collect();
            assert!(text.is_empty() || carets.len() > 1, "{diagnostic}");
        };
        check(b"abc", 1..2, 2, "b");
        check(b"\tabc", 1..2, 2, "a");
        check("äöü".as_bytes(), 2..4, 2, "ö");
        check(b"\xff\xfeabc", 2..3, 3, "a");
        check(b"abc", 3..3, 4, "");
        check(b"abc", 7..9, 4, "");
        check(b"", 0..0, 1, "");
        check("aö".as_bytes(), 1..2, 2, "ö");
        check("aöb".as_bytes(), 2..3, 2, "ö");
        check("aöb".as_bytes(), 3..4, 3, "b");
        check(b"a\x80\x80b", 2..3, 3, "\u{fffd}");
        check(b"\x1b[31m", 0..1, 1, "\u{fffd}");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let mut line = vec![b'x'; 1_000_000];
        line[500_000..500_003].copy_from_slice(b"bad");
        let diagnostic = Diagnostic::at("f", 1, &line, 500_000..500_003, "m");
        assert_eq!((diagnostic.column, diagnostic.text.as_str()), (500_001, "bad"));
        assert!(diagnostic.excerpt.chars().count() <= EXCERPT_CHARS_MAX + 2);
        let marked = diagnostic.marked.clone();
        let chars = diagnostic.excerpt.chars().skip(marked.start).take(marked.len());
        assert_eq!(chars.collect::<String>(), "bad");
        let all = Diagnostic::at("f", 1, &line, 0..line.len(), "m");
        assert_eq!(all.text.chars().count(), TEXT_CHARS_MAX + 1);
    }

    #[test]
    fn wide_characters_move_the_caret() {
        let line = "漢字 x".as_bytes();
        let report = Diagnostic::at("f", 1, line, 7..8, "m").to_string();
        assert!(report.contains("\n  |      ^\n"), "{report}");
    }

    #[test]
    fn the_number_of_kept_errors_is_bounded() {
        let mut all = Diagnostics::default();
        for line in 1..=4_311 {
            all.push(Diagnostic::at("f", line, b"x", 0..1, "m"));
        }
        assert_eq!((all.len(), all.iter().count()), (4_311, DIAGNOSTICS_KEPT_MAX));
        assert!(all.to_string().ends_with("\nand 4,301 more errors\n"), "{all}");
    }

    #[test]
    fn invalid_utf8_is_reported_at_each_place() {
        assert_eq!(utf8_text("f", "ä\n".as_bytes()), Ok("ä\n"));
        let binary = utf8_text("f", b"\xd4\xc3\0\n\xff").unwrap_err();
        assert_eq!(binary.to_string(), "error: a binary file, not text\n--> f\n");
        let error = utf8_text("f", b"ok\nab\xffcd\xc3\n\x80").unwrap_err();
        let places: Vec<_> = error.iter().map(|d| (d.line, d.column)).collect();
        assert_eq!(places, [(2, 3), (2, 6), (3, 1)]);
    }

    #[test]
    fn colours_only_on_demand() {
        let all = Diagnostics::from(Diagnostic::whole("f", "cannot be read").help("h"));
        assert_eq!(all.to_string(), "error: cannot be read\n--> f\n = help: h\n");
        assert!(all.to_coloured().contains("\x1b["));
        assert!(!all.to_string().contains('\x1b'));
    }
}
