//! What the readers share: lines, faults inside a line, and numbers.
//!
//! Leaf parsers take one token and its offset in the line, and return a [`Fault`] with offsets
//! into that line. Only a fault that is kept becomes a [`Diagnostic`] with texts of its own, so
//! that a file of a million bad lines costs little more than one of good ones.

use std::borrow::Cow;
use std::ops::Range;

use crate::diagnostic::{DIAGNOSTICS_KEPT_MAX, Diagnostic, Diagnostics, grouped};

/// An error at some bytes of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Bytes of the line; empty where something is missing.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: Cow<'static, str>,
    /// What may stand there.
    pub expected: Cow<'static, str>,
    /// How to mend it.
    pub help: Cow<'static, str>,
}

/// What leaf parsers return: small while all is well.
pub(crate) type Parsed<T> = Result<T, Box<Fault>>;

impl Fault {
    /// A fault with what was expected instead.
    pub fn new(
        span: Range<usize>,
        message: impl Into<Cow<'static, str>>,
        expected: impl Into<Cow<'static, str>>,
    ) -> Box<Fault> {
        let (message, expected) = (message.into(), expected.into());
        Box::new(Fault { span, message, expected, help: Cow::Borrowed("") })
    }

    /// The same, with a way to mend it.
    pub fn help(mut self: Box<Self>, help: impl Into<Cow<'static, str>>) -> Box<Self> {
        self.help = help.into();
        self
    }
}

/// The faults of one line: the first ones, and how many more there are.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    kept: Vec<Fault>,
    more: usize,
}

impl Faults {
    #[expect(clippy::boxed_local, reason = "faults come boxed, so that results stay small")]
    pub fn push(&mut self, fault: Box<Fault>) {
        if self.is_full() {
            self.more += 1;
        } else {
            self.kept.push(*fault);
        }
    }

    /// The value, or `None` and one more fault.
    #[inline]
    pub fn note<T>(&mut self, parsed: Parsed<T>) -> Option<T> {
        parsed.map_err(|fault| self.push(fault)).ok()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether the next fault will only be counted, so that its texts need no care.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= DIAGNOSTICS_KEPT_MAX
    }
}

/// The most rules of a text: lines of a few bytes make rules of a hundred, and a small packed file
/// has very many of them.
const READ_RULES_MAX: usize = if cfg!(test) { 1 << 16 } else { 1 << 24 };

/// Collects the faults of one input.
#[derive(Debug)]
pub(crate) struct Reporter {
    file: String,
    pub diagnostics: Diagnostics,
}

impl Reporter {
    pub fn new(file: &str) -> Self {
        Self { file: file.to_owned(), diagnostics: Diagnostics::default() }
    }

    /// Name of the input.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Reports a fault of `line`, whose number is `line_no`.
    pub fn fault(&mut self, line_no: u32, line: &[u8], fault: Fault) {
        if self.diagnostics.wants_more() {
            let at = Diagnostic::at(&self.file, line_no, line, fault.span, fault.message);
            self.diagnostics.push(at.expected(fault.expected).help(fault.help));
        } else {
            self.diagnostics.count_only(1);
        }
    }

    /// Reports all faults of a line, in the order of their places, and forgets them.
    pub fn faults(&mut self, line_no: u32, line: &[u8], faults: &mut Faults) {
        faults.kept.sort_by_key(|fault| fault.span.start);
        faults.kept.drain(..).for_each(|fault| self.fault(line_no, line, fault));
        self.diagnostics.count_only(std::mem::take(&mut faults.more));
    }

    /// Whether a set of `rules` rules has no room for that of `line`, which is then reported. The
    /// lines below are not to be read.
    pub fn is_full(&mut self, rules: usize, line_no: u32, line: &[u8]) -> bool {
        self.is_beyond(rules, READ_RULES_MAX, line_no, line)
    }

    /// [`is_full`](Self::is_full) with another bound.
    pub fn is_beyond(&mut self, rules: usize, most: usize, line_no: u32, line: &[u8]) -> bool {
        if rules < most {
            return false;
        }
        let message = format!("too many rules: {} before this one", grouped(rules));
        let expected = format!("at most {} rules", grouped(most));
        self.fault(line_no, line, *Fault::new(0..line.len(), message, expected));
        true
    }

    /// Whether nothing was reported.
    pub fn is_clean(&self) -> bool {
        self.diagnostics.is_empty()
    }
}

/// The lines of a text with their 1-based numbers, without line ends (`\n` or `\r\n`) and without
/// a byte order mark.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut rest = Some(text).filter(|t| !t.is_empty());
    let mut line_no = 0u32;
    std::iter::from_fn(move || {
        let text = rest?;
        let line = match memchr::memchr(b'\n', text) {
            Some(at) => {
                rest = Some(&text[at + 1..]).filter(|t| !t.is_empty());
                &text[..at]
            }
            None => {
                rest = None;
                text
            }
        };
        line_no = line_no.saturating_add(1);
        Some((line_no, trim_end_of_line(line)))
    })
}

/// `line` without the `\r` of a `\r\n`.
pub(crate) fn trim_end_of_line(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Whether a line holds nothing, or a comment that starts with `#`.
pub(crate) fn is_blank_or_comment(line: &[u8]) -> bool {
    match line.iter().find(|b| !is_space(**b)) {
        None => true,
        Some(first) => *first == b'#',
    }
}

/// Space, tab and the other blanks within a line.
#[inline]
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

/// A token: its bytes and where they start in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub bytes: &'a [u8],
    pub start: usize,
}

impl<'a> Token<'a> {
    pub fn new(line: &'a [u8], span: Range<usize>) -> Self {
        Self { bytes: &line[span.clone()], start: span.start }
    }

    /// Where it lies in the line.
    pub fn span(&self) -> Range<usize> {
        self.start..self.start + self.bytes.len()
    }

    /// The part `range` of it.
    pub fn part(&self, range: Range<usize>) -> Token<'a> {
        Token { bytes: &self.bytes[range.clone()], start: self.start + range.start }
    }

    /// The parts before and behind the first `byte`.
    pub fn split_at_byte(&self, byte: u8) -> Option<(Token<'a>, Token<'a>)> {
        let at = memchr::memchr(byte, self.bytes)?;
        Some((self.part(0..at), self.part(at + 1..self.bytes.len())))
    }

    /// The token as text; faults never depend on it being exact.
    pub fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes)
    }
}

/// A decimal number without sign, at most `max`.
#[inline]
pub(crate) fn decimal(token: Token<'_>, max: u32, what: &'static str) -> Parsed<u32> {
    let mut value = 0u64;
    let mut is_number = !token.bytes.is_empty();
    for &byte in token.bytes {
        let digit = byte.wrapping_sub(b'0');
        is_number &= digit <= 9;
        value = (value * 10 + u64::from(digit)).min(u64::from(u32::MAX) + 1);
    }
    if is_number && value <= u64::from(max) {
        return Ok(value as u32);
    }
    Err(not_decimal(token, max, what, is_number))
}

#[cold]
fn not_decimal(token: Token<'_>, max: u32, what: &'static str, is_number: bool) -> Box<Fault> {
    let why = match token.bytes {
        [] => "is missing",
        _ if is_number => "is too large",
        _ => "is not a number",
    };
    Fault::new(token.span(), format!("{what} {why}"), format!("a number from 0 to {max}"))
}

/// A number as C writes it, decimal or hexadecimal with `0x`, at most `max`.
#[inline]
pub(crate) fn number(token: Token<'_>, max: u128, what: &'static str) -> Parsed<u128> {
    let (radix, digits) = match token.bytes {
        [b'0', b'x' | b'X', digits @ ..] => (16, digits),
        digits => (10, digits),
    };
    let missing = |message: String| {
        Fault::new(token.span(), message, format!("a number from 0 to {}", bound_text(max)))
    };
    if digits.is_empty() {
        return Err(missing(format!("{what} is missing")));
    }
    let mut value = Some(0u128);
    for &byte in digits {
        let Some(digit) = (byte as char).to_digit(radix) else {
            return Err(missing(format!("{what} is not a number")));
        };
        value = value
            .and_then(|v| v.checked_mul(u128::from(radix)))
            .and_then(|v| v.checked_add(u128::from(digit)));
    }
    value.filter(|v| *v <= max).ok_or_else(|| missing(format!("{what} is too large")))
}

/// A dotted quad.
#[inline]
pub(crate) fn ipv4(token: Token<'_>) -> Parsed<u32> {
    let wrong = || {
        let message = match token.bytes {
            [] => "the address is missing",
            _ => "not an IPv4 address",
        };
        Fault::new(token.span(), message, "four numbers from 0 to 255 with dots, as 10.0.0.1")
    };
    let mut address = 0u32;
    let mut part = 0u32;
    let mut digits = 0;
    let mut dots = 0;
    for &byte in token.bytes {
        match byte {
            b'0'..=b'9' if digits < 3 => {
                part = part * 10 + u32::from(byte - b'0');
                digits += 1;
            }
            b'.' if digits > 0 && part <= 255 && dots < 3 => {
                address = address << 8 | part;
                (part, digits) = (0, 0);
                dots += 1;
            }
            _ => return Err(wrong()),
        }
    }
    if dots != 3 || digits == 0 || part > 255 {
        return Err(wrong());
    }
    Ok(address << 8 | part)
}

/// An IPv6 address as RFC 4291 writes it.
pub(crate) fn ipv6(token: Token<'_>) -> Parsed<u128> {
    let address = std::str::from_utf8(token.bytes).ok().and_then(|text| text.parse().ok());
    address.map(|a: std::net::Ipv6Addr| a.to_bits()).ok_or_else(|| {
        let message = match token.bytes {
            [] => "the address is missing",
            _ => "not an IPv6 address",
        };
        Fault::new(token.span(), message, "an address as 2001:db8::1")
    })
}

fn bound_text(max: u128) -> String {
    if max > 0xffff_ffff { format!("{max:#x}") } else { max.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token<'_> {
        Token { bytes: text.as_bytes(), start: 0 }
    }

    #[test]
    fn lines_end_in_any_way() {
        let check = |text: &str, expected: &[&str]| {
            let got: Vec<_> = lines(text.as_bytes()).collect();
            let expected: Vec<_> =
                expected.iter().enumerate().map(|(i, l)| (i as u32 + 1, l.as_bytes())).collect();
            assert_eq!(got, expected, "{text:?}");
        };
        check("", &[]);
        check("\n", &[""]);
        check("a", &["a"]);
        check("a\nb\n", &["a", "b"]);
        check("a\r\n\r\nb", &["a", "", "b"]);
        check("\u{feff}a\n", &["a"]);
    }

    #[test]
    fn numbers_are_read_whole_or_not_at_all() {
        assert_eq!(decimal(token("65535"), 65535, "n"), Ok(65535));
        assert_eq!(number(token("0xfF"), 255, "n"), Ok(255));
        assert_eq!(number(token("340282366920938463463374607431768211455"), u128::MAX, "n"), {
            Ok(u128::MAX)
        });
        for bad in ["", "65536", "-1", "1x", "0x", "99999999999999999999999", "+1", " 1"] {
            assert!(decimal(token(bad), 65535, "n").is_err(), "{bad}");
            assert!(number(token(bad), 65535, "n").is_err(), "{bad}");
        }
        let huge = "9".repeat(1000);
        assert!(decimal(token(&huge), u32::MAX, "n").is_err());
        assert!(number(token(&huge), u128::MAX, "n").is_err());
    }

    #[test]
    fn addresses_are_read_whole_or_not_at_all() {
        assert_eq!(ipv4(token("10.0.0.255")), Ok(0x0a00_00ff));
        for bad in
            ["", "1.2.3", "1.2.3.4.5", "256.0.0.0", "1..2.3", "1.2.3.", "a.b.c.d", "1.2.3.0004"]
        {
            assert!(ipv4(token(bad)).is_err(), "{bad}");
        }
        assert_eq!(ipv6(token("::1")), Ok(1));
        assert!(ipv6(token("::g")).is_err());
    }
}
