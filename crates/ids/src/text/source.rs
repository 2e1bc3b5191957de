//! A rule file as bytes with places: where errors are told.

use std::ops::Range;

use warpswitch_rules::diagnostic::{Diagnostic, Diagnostics};

use super::next_statement;
use crate::rule::RULE_BYTES_MAX;

/// A text and where its lines start.
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) bytes: &'a [u8],
    lines: Vec<usize>,
}

/// Why a part of a rule gave nothing.
pub(super) enum Skip {
    /// An error, which was told.
    Told,
    /// Something that is right and not supported, by its keyword.
    Unsupported(String),
}

/// What one part of a rule gives.
pub(super) type Part<T> = Result<T, Skip>;

impl<'a> Source<'a> {
    pub(super) fn new(name: &'a str, bytes: &'a [u8]) -> Self {
        let ends = memchr::memchr_iter(b'\n', bytes).map(|at| at + 1);
        Self { name, bytes, lines: std::iter::once(0).chain(ends).collect() }
    }

    /// The line of a byte, from 1.
    pub(super) fn line_of(&self, at: usize) -> usize {
        self.lines.partition_point(|&start| start <= at)
    }

    /// The text of a line without its end.
    fn line(&self, line_no: usize) -> &'a [u8] {
        let start = self.lines[line_no - 1];
        let end = self.lines.get(line_no).map_or(self.bytes.len(), |next| next - 1);
        let line = &self.bytes[start..end.max(start)];
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Tells an error at the bytes `span`; of several lines, at the first.
    pub(super) fn tell(
        &self,
        diagnostics: &mut Diagnostics,
        span: Range<usize>,
        message: &str,
        expected: &str,
        help: &str,
    ) -> Skip {
        if !diagnostics.wants_more() {
            diagnostics.count_only(1);
            return Skip::Told;
        }
        let at = span.start.min(self.bytes.len());
        let line_no = self.line_of(at);
        let start = self.lines[line_no - 1];
        let line = self.line(line_no);
        let span = at - start..(span.end.max(at) - start).min(line.len());
        let number = u32::try_from(line_no).unwrap_or(u32::MAX);
        let error = Diagnostic::at(self.name, number, line, span, message);
        diagnostics.push(error.expected(expected).help(help));
        Skip::Told
    }

    /// Tells that the rule at `at` is longer than rules may be, and how long.
    pub(super) fn tell_long_rule(&self, diagnostics: &mut Diagnostics, at: usize) {
        let rule = self.bytes[at..next_statement(self.bytes, at)].trim_ascii_end();
        let message = format!("a rule of {} bytes", rule.len());
        let expected = format!("at most {RULE_BYTES_MAX}");
        self.tell(diagnostics, at..at + 1, &message, &expected, "");
    }

    /// The bytes of a span as text; what is not UTF-8 is replaced.
    pub(super) fn text(&self, span: &Range<usize>) -> String {
        String::from_utf8_lossy(&self.bytes[span.clone()]).into_owned()
    }

    /// The span without blanks around it.
    pub(super) fn trim(&self, span: Range<usize>) -> Range<usize> {
        let (mut start, mut end) = (span.start, span.end);
        while start < end && self.blank_bytes(start, end) > 0 {
            start += self.blank_bytes(start, end);
        }
        while start < end && (self.bytes[end - 1].is_ascii_whitespace()) {
            end -= 1;
        }
        start..end
    }

    /// Bytes of the blank at `at`: white space, or a backslash before a line's end.
    pub(super) fn blank_bytes(&self, at: usize, end: usize) -> usize {
        match self.bytes[at..end] {
            [b'\\', b'\n', ..] => 2,
            [b'\\', b'\r', b'\n', ..] => 3,
            [byte, ..] if byte.is_ascii_whitespace() => 1,
            _ => 0,
        }
    }

    /// The parts of a span between commas that are neither quoted nor in brackets, trimmed.
    pub(super) fn split_commas(&self, span: Range<usize>) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let (mut start, mut at, mut depth, mut is_quoted) = (span.start, span.start, 0usize, false);
        while at < span.end {
            match self.bytes[at] {
                b'\\' => at += 1,
                b'"' => is_quoted = !is_quoted,
                b'[' if !is_quoted => depth += 1,
                b']' if !is_quoted => depth = depth.saturating_sub(1),
                b',' if !is_quoted && depth == 0 => {
                    parts.push(self.trim(start..at));
                    start = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        parts.push(self.trim(start..span.end));
        parts
    }
}
