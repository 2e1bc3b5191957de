//! Configuration strings: arguments, words and quotes.
//!
//! ```text
//! CAPACITY 10, "a, b" /* comment */ c, \<00 ff>
//! └─argument─┘ └──────argument──────┘ └argument┘       argument: words between spaces
//! ```
//! Commas separate arguments and spaces words, except within `"…"`, `'…'`, `\<…>` and comments.
//! A comment with the spaces around it counts as one space. Quotes stay in arguments and words;
//! [`unquote`] takes them away and decodes what they hold.

use std::ops::Range;

use super::super::token::{skip_data, skip_quote};

/// What stands at a place of a configuration string.
enum Piece {
    /// Text that is taken as it is, up to the given place.
    Shielded(usize),
    /// A comment, up to the given place.
    Comment(usize),
    /// A character of its own.
    Char(char),
}

fn piece(text: &str, at: usize) -> Option<Piece> {
    let rest = &text.as_bytes()[at..];
    Some(match rest {
        [] => return None,
        [b'"' | b'\'', ..] => Piece::Shielded(skip_quote(text, at)),
        [b'\\', b'<', ..] => Piece::Shielded(skip_data(text, at)),
        [b'/', b'/', ..] => {
            let len = rest.iter().position(|b| matches!(b, b'\n' | b'\r'));
            Piece::Comment(len.map_or(text.len(), |len| at + len))
        }
        [b'/', b'*', ..] => {
            Piece::Comment(text[at + 2..].find("*/").map_or(text.len(), |len| at + len + 4))
        }
        _ => Piece::Char(text[at..].chars().next()?),
    })
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

/// Splits `text` at `is_separator`, comments taken out. Empty parts are kept.
fn split(text: &str, is_separator: fn(char) -> bool) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    // A comment eats the spaces around it and becomes one.
    let mut after_comment = false;
    let mut at = 0;
    while let Some(piece) = piece(text, at) {
        match piece {
            Piece::Char(c) if is_separator(c) => {
                parts.push(std::mem::take(&mut part));
                after_comment = false;
                at += c.len_utf8();
            }
            Piece::Char(c) if is_space(c) && after_comment => at += c.len_utf8(),
            Piece::Char(c) => {
                part.push(c);
                after_comment = false;
                at += c.len_utf8();
            }
            Piece::Shielded(end) => {
                part.push_str(&text[at..end]);
                after_comment = false;
                at = end;
            }
            Piece::Comment(end) => {
                part.truncate(part.trim_end_matches(is_space).len());
                if is_separator(' ') {
                    parts.push(std::mem::take(&mut part));
                } else {
                    part.push(' ');
                }
                after_comment = true;
                at = end;
            }
        }
    }
    parts.push(part);
    parts
}

/// The arguments of a configuration string: split at commas, without comments and without spaces
/// at their ends. An empty last one is not counted.
pub fn split_args(text: &str) -> Vec<String> {
    let mut args: Vec<String> =
        split(text, |c| c == ',').iter().map(|arg| arg.trim_matches(is_space).to_owned()).collect();
    if args.last().is_some_and(String::is_empty) {
        args.pop();
    }
    args
}

/// Where a string begins that does not end, or not on its line: what is behind it may have been
/// meant otherwise.
pub(crate) fn long_quote(text: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(piece) = piece(text, at) {
        at = match piece {
            Piece::Char(c) => at + c.len_utf8(),
            Piece::Comment(end) => end,
            Piece::Shielded(end) => {
                let quoted = &text[at..end];
                let quote = quoted.chars().next().filter(|c| matches!(c, '"' | '\''));
                let is_closed = quote.is_none_or(|quote| quoted[1..].ends_with(quote));
                if quote.is_some() && (!is_closed || quoted.contains('\n')) {
                    return Some(at);
                }
                end
            }
        };
    }
    None
}

/// Where the arguments of a configuration string are, without spaces and comments at their ends: as
/// many as [`split_args`] gives.
pub(crate) fn arg_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    // From the first to behind the last character of what is neither space nor comment.
    let (mut start, mut end, mut at) = (None, 0, 0);
    while let Some(piece) = piece(text, at) {
        match piece {
            Piece::Char(',') => {
                let from = start.take().unwrap_or(at);
                ranges.push(from..end.max(from));
                at += 1;
            }
            Piece::Char(c) if is_space(c) => at += c.len_utf8(),
            Piece::Comment(next) => at = next,
            Piece::Char(c) => {
                start.get_or_insert(at);
                at += c.len_utf8();
                end = at;
            }
            Piece::Shielded(next) => {
                start.get_or_insert(at);
                (at, end) = (next, next);
            }
        }
    }
    ranges.extend(start.map(|start| start..end));
    ranges
}

/// The words of an argument: split at spaces and comments.
pub fn split_words(text: &str) -> Vec<String> {
    split(text, is_space).into_iter().filter(|word| !word.is_empty()).collect()
}

/// The text without comments, as one argument.
pub fn uncomment(text: &str) -> String {
    split(text, |_| false).concat().trim_matches(is_space).to_owned()
}

/// The bytes that an argument means: quotes taken off, escapes and `\<…>` data decoded.
///
/// Within `"…"`: `\a \b \t \n \v \f \r`, one to three octal digits, `\x` with hex digits of which
/// the last two count, `\<…>`, a backslash before a line end is nothing, and before any other
/// character that character.
pub fn unquote(text: &str) -> Vec<u8> {
    let text = &uncomment(text);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match (byte, bytes.get(at + 1)) {
            (b'\'', _) => {
                let end = skip_quote(text, at);
                let body = text[at + 1..end].strip_suffix('\'').unwrap_or(&text[at + 1..end]);
                out.extend_from_slice(body.as_bytes());
                at = end;
            }
            (b'"', _) => at = unquote_escaped(text, at + 1, &mut out),
            (b'\\', Some(b'<')) => {
                let end = skip_data(text, at);
                hex_data(&text[at + 2..end], &mut out);
                at = end;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// Decodes text within `"…"` from `at` on; the place behind the closing quote.
fn unquote_escaped(text: &str, mut at: usize, out: &mut Vec<u8>) -> usize {
    let bytes = text.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        match (byte, bytes.get(at + 1)) {
            (b'"', _) => return at + 1,
            (b'\\', Some(b'<')) => {
                let end = skip_data(text, at);
                hex_data(&text[at + 2..end], out);
                at = end;
            }
            (b'\\', Some(_)) => at = escape(bytes, at + 1, out),
            (b'\\', None) => at += 1,
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    at
}

/// Decodes the escape whose letter is at `at`; the place behind it.
fn escape(bytes: &[u8], at: usize, out: &mut Vec<u8>) -> usize {
    let simple = match bytes[at] {
        b'a' => 0x07,
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 0x0b,
        b'f' => 0x0c,
        b'r' => b'\r',
        b'\n' => return at + 1,
        b'\r' => return at + 1 + usize::from(bytes.get(at + 1) == Some(&b'\n')),
        b'0'..=b'7' => {
            let digits = bytes[at..].iter().take(3).take_while(|b| matches!(b, b'0'..=b'7'));
            let (value, len) = digits.fold((0u32, 0), |(value, len), &digit| {
                (value * 8 + u32::from(digit - b'0'), len + 1)
            });
            out.push((value & 0xff) as u8);
            return at + len;
        }
        b'x' => {
            let digits = bytes[at + 1..].iter().map_while(|&b| (b as char).to_digit(16));
            let (value, len) = digits
                .fold((0u32, 0), |(value, len), digit| ((value << 4 | digit) & 0xff, len + 1));
            if len > 0 {
                out.push(value as u8);
            }
            return at + 1 + len;
        }
        other => other,
    };
    out.push(simple);
    at + 1
}

/// Decodes what stands between `\<` and `>`; all but hex digits and comments is passed over. A
/// digit without partner counts as if 0 followed.
fn hex_data(text: &str, out: &mut Vec<u8>) {
    let mut half = None;
    let mut at = 0;
    let text = text.strip_suffix('>').unwrap_or(text);
    while let Some(found) = text.as_bytes().get(at..).filter(|rest| !rest.is_empty()) {
        at = match found {
            [b'/', b'/' | b'*', ..] => match piece(text, at) {
                Some(Piece::Comment(end)) => end,
                _ => at + 1,
            },
            [byte, ..] => {
                if let Some(digit) = (*byte as char).to_digit(16) {
                    half = match half {
                        None => Some(digit),
                        Some(high) => {
                            out.push((high << 4 | digit) as u8);
                            None
                        }
                    };
                }
                at + 1
            }
            [] => at,
        };
    }
    out.extend(half.map(|high| (high << 4) as u8));
}

/// Text that [`unquote`] takes back to `bytes`: as it is where that is safe, else in quotes.
pub fn quote(bytes: &[u8]) -> String {
    let plain = |b: &u8| {
        b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'-' | b'@' | b'+' | b'%')
    };
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return bytes.iter().map(|&b| b as char).collect();
    }
    format!("\"{}\"", escape_quoted(bytes))
}

/// The same between the quotes: fit to stand within `"…"`.
pub fn escape_quoted(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' | '$' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                c if c.is_control() => {
                    let mut utf8 = [0; 4];
                    let hex = c.encode_utf8(&mut utf8).bytes().map(|b| format!("{b:02X}"));
                    out.push_str(&format!("\\<{}>", hex.collect::<String>()));
                }
                c => out.push(c),
            }
        }
        let hex: String = chunk.invalid().iter().map(|b| format!("{b:02X}")).collect();
        if !hex.is_empty() {
            out.push_str(&format!("\\<{hex}>"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arguments_are_split_at_commas() {
        let check =
            |text: &str, expected: &[&str]| assert_eq!(split_args(text), expected, "{text}");
        check("", &[]);
        check("  ", &[]);
        check("one, two, three", &["one", "two", "three"]);
        check("  one /* 1 */ two,  three, ", &["one two", "three"]);
        check("\"one, two\" // 3", &["\"one, two\""]);
        check("a,,b", &["a", "", "b"]);
        check(",", &[""]);
        check("'a, b', \\<00, 11>", &["'a, b'", "\\<00, 11>"]);
        check("a/**/b", &["a b"]);
        check("a  b", &["a  b"]);
        check("KEY a // one\n , x", &["KEY a", "x"]);
        check("\"never, ", &["\"never,"]);
    }

    #[test]
    fn arguments_are_found_where_they_stand() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<&str> = arg_ranges(text).into_iter().map(|r| &text[r]).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("", &[]);
        check(" one, two three\n,\"a, b\" ", &["one", "two three", "\"a, b\""]);
        check("a /* , */, // x\n b c // d", &["a", "b c"]);
        check("a,,b", &["a", "", "b"]);
        check(",", &[""]);
        check("/* a */", &[]);
    }

    #[test]
    fn strings_that_are_longer_than_their_line_are_found() {
        assert_eq!(long_quote("a, \"b\", 'c'"), None);
        assert_eq!(long_quote("\"b\", 'c) -> d;\n e('f"), Some(5));
        assert_eq!(long_quote("a // '\n, \""), Some(9));
        assert_eq!(long_quote("'"), Some(0));
    }

    #[test]
    fn words_are_split_at_spaces() {
        let check =
            |text: &str, expected: &[&str]| assert_eq!(split_words(text), expected, "{text}");
        check("one  two, three", &["one", "two,", "three"]);
        check("  'one /* 1 */ two'x ", &["'one /* 1 */ two'x"]);
        check("a/**/b", &["a", "b"]);
        check("", &[]);
    }

    #[test]
    fn quotes_and_escapes_are_decoded() {
        let check = |text: &str, expected: &[u8]| assert_eq!(unquote(text), expected, "{text}");
        check("plain", b"plain");
        check("\"\\t\" one /* 2 */ '/* three */'", b"\t one /* three */");
        check(r#""\a\b\t\n\v\f\r\\\"\q""#, b"\x07\x08\t\n\x0b\x0c\r\\\"q");
        check(r#""\101\60\7z""#, b"A0\x07z");
        check(r#""\x41\x12345z\xg""#, b"A\x45zg");
        check("\"a\\\nb\\\r\nc\"", b"abc");
        check(r"\<66 4C 6f 77>", b"fLow");
        check(r#""a\<00/* ff */01>b""#, b"a\x00\x01b");
        check(r"\<4", b"\x40");
        check(r"'\n'", br"\n");
        check("\"never", b"never");
        check("'never", b"never");
        check("\"\\", b"");
        check("a\"b\"'c'", b"abc");
    }

    proptest! {
        #[test]
        fn what_is_quoted_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(unquote(&quote(&bytes)), bytes.clone());
            prop_assert_eq!(split_args(&quote(&bytes)), vec![quote(&bytes)]);
        }

        #[test]
        fn no_text_panics(text in r#"[a, "'\\</*>$\n0x]{0,30}|.{0,20}"#) {
            let args = split_args(&text);
            prop_assert_eq!(arg_ranges(&text).len(), args.len(), "{}", text);
            prop_assert!(args.iter().map(String::len).sum::<usize>() <= text.len() + 1);
            split_words(&text).iter().for_each(|word| drop(unquote(word)));
            unquote(&text);
        }
    }
}
