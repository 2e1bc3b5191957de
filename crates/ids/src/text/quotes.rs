//! Quotes around texts, and what was meant where text goes on behind them: a `;` was forgotten.

use std::ops::Range;

use warpswitch_rules::diagnostic::Diagnostics;

use super::keywords::is_listed;
use super::source::{Part, Source};

/// What is told behind the second quote of a text that goes on there, and what was expected.
pub(super) const GOES_ON: (&str, &str) =
    ("text goes on behind its quotes", "; behind them, or \\\" for a quote in the text");

/// Sees to it that the quotes around `inner` are those of one text: where a `;` was forgotten, the
/// quotes of two options would be the first and the last.
pub(super) fn check_end(
    source: &Source<'_>,
    inner: Range<usize>,
    errors: &mut Diagnostics,
) -> Part<()> {
    match quotes(source.bytes, inner).next() {
        Some(at) => Err(source.tell(errors, at + 1..at + 1, GOES_ON.0, GOES_ON.1, "")),
        None => Ok(()),
    }
}

/// The same for an expression, which may have quotes within: only those behind its delimiter and
/// its flags end it, where an option follows.
pub(super) fn check_end_of_expression(
    source: &Source<'_>,
    inner: Range<usize>,
    delimiter: char,
    errors: &mut Diagnostics,
) -> Part<()> {
    let bytes = source.bytes;
    let is_end = |&at: &usize| {
        let flags = bytes[inner.start..at].iter().rev().take_while(|b| b.is_ascii_alphabetic());
        let last = at.checked_sub(flags.count() + 1).filter(|&last| last > inner.start);
        let has_blank = bytes.get(at + 1).is_some_and(u8::is_ascii_whitespace);
        let is_delimited = last.is_some_and(|last| char::from(bytes[last]) == delimiter);
        is_delimited && has_blank && begins_option(&bytes[at + 1..inner.end])
    };
    match quotes(bytes, inner.clone()).find(is_end) {
        Some(at) => Err(source.tell(errors, at + 1..at + 1, GOES_ON.0, GOES_ON.1, "")),
        None => Ok(()),
    }
}

/// The byte behind the quotes of a value that does not end, if it has two: those before an option,
/// or the rule's end. Without such a text ends at its second quote, unless that stands where
/// another text begins; an expression may have it within.
pub(super) fn behind(bytes: &[u8], span: Range<usize>, is_expression: bool) -> Option<usize> {
    let first = quotes(bytes, span.clone()).nth(1).filter(|&at| {
        let before = bytes[span.start..at].trim_ascii_end();
        let before = before.strip_suffix(b"!").unwrap_or(before).trim_ascii_end();
        !is_expression && !before.ends_with(b":")
    });
    let before_option = quotes(bytes, span.clone())
        .skip(1)
        .find(|at| ends_rule(&bytes[at + 1..span.end]) || begins_option(&bytes[at + 1..span.end]));
    before_option.or(first).map(|at| at + 1)
}

/// The quotes in `span` that no backslash stands before.
fn quotes(bytes: &[u8], span: Range<usize>) -> impl Iterator<Item = usize> {
    let mut is_quoted = false;
    span.filter(move |&at| {
        let is_quote = bytes[at] == b'"' && !is_quoted;
        is_quoted = bytes[at] == b'\\' && !is_quoted;
        is_quote
    })
}

/// Whether a rule ends before anything else of it comes.
pub(super) fn ends_rule(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b")")
}

/// Whether a text goes on with an option, or with one and the end of a rule.
fn begins_option(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let name_bytes = text.iter().take_while(|byte| is_name(**byte)).count();
    let (name, rest) = text.split_at(name_bytes);
    let is_ended = matches!(rest.trim_ascii_start().first(), Some(b':' | b';' | b')'));
    is_ended && str::from_utf8(name).is_ok_and(is_listed)
}

/// Whether a byte may stand in a keyword.
pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)
}
