//! Substitutions in the text of instructions: `$v`, `${v}`, `$(handler args)`.
//!
//! Text within `'…'` is unchanged, and undefined names remain as written. Within `"…"` a value is
//! escaped, so that the quoted text contains it unchanged. Values are not expanded again, but the
//! text between `$(` and `)` is expanded before the call.
//!
//! # Invariants
//! - S1: calls are at most [`DEPTH_MAX`] levels deep, and a text that would exceed
//!   [`TEXT_BYTES_MAX`] is truncated: this bounds variables that double each other in a loop.

use warpswitch_graph::language::args::split::escape_quoted;

/// The most levels of calls within calls.
const DEPTH_MAX: usize = 10;
/// The most bytes of a text.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// What names and calls stand for.
pub trait Lookup {
    /// The value of a variable.
    fn variable(&mut self, name: &str) -> Option<String>;
    /// The answer of a read handler, called with all that stands between the parentheses.
    fn call(&mut self, text: &str) -> Option<String>;
}

/// A name or call that was found: the text between its marks, and where it ends.
struct Found<'t> {
    inner: &'t str,
    is_call: bool,
    end: usize,
}

/// `text` with what stands for something else replaced. With `quote_bare` values outside quotes are
/// put in quotes.
pub fn expand(text: &str, quote_bare: bool, lookup: &mut dyn Lookup) -> String {
    expand_at(text, quote_bare, lookup, 0)
}

fn expand_at(text: &str, quote_bare: bool, lookup: &mut dyn Lookup, depth: usize) -> String {
    if !text.contains('$') || depth > DEPTH_MAX {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
    let mut quote = None;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match (quote, byte) {
            (Some(b'"'), b'\\') => at += 1,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            (None | Some(b'"'), b'$') => {
                let Some(found) = find(text, at) else { continue };
                out.push_str(&text[copied..at - 1]);
                let is_nested = found.inner.contains('$');
                let inner = match is_nested {
                    true => expand_at(found.inner, false, lookup, depth + 1),
                    false => found.inner.to_owned(),
                };
                let value =
                    if found.is_call { lookup.call(&inner) } else { lookup.variable(&inner) };
                match value {
                    Some(value) if quote.is_none() && !quote_bare => out.push_str(&value),
                    Some(value) => {
                        let marks = if quote.is_none() { "\"" } else { "" };
                        out.extend([marks, &escape_quoted(value.as_bytes()), marks]);
                    }
                    None if is_nested => {
                        let open = &text[at - 1..=at];
                        out.extend([open, &inner, &text[found.end - 1..found.end]]);
                    }
                    None => out.push_str(&text[at - 1..found.end]),
                }
                (at, copied) = (found.end, found.end);
                if out.len() > TEXT_BYTES_MAX {
                    cut(&mut out);
                    return out;
                }
            }
            _ => {}
        }
    }
    out.push_str(&text[copied..]);
    out
}

/// Shortens a text to what it may have.
fn cut(text: &mut String) {
    let mut end = TEXT_BYTES_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}

/// What stands behind a `$` at `at - 1`.
fn find(text: &str, at: usize) -> Option<Found<'_>> {
    let rest = &text[at..];
    let (is_call, start, len, end) = match rest.as_bytes().first()? {
        b'{' => {
            let len = rest[1..].find('}')?;
            (false, 1, len, len + 2)
        }
        b'(' => {
            let len = closing(&rest[1..])?;
            (true, 1, len, len + 2)
        }
        b'?' | b'#' | b'$' => (false, 0, 1, 1),
        byte if byte.is_ascii_alphanumeric() || *byte == b'_' => {
            let is_part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
            let len = rest.bytes().take_while(is_part).count();
            (false, 0, len, len)
        }
        _ => return None,
    };
    Some(Found { inner: &rest[start..start + len], is_call, end: at + end })
}

/// The place of the parenthesis that closes one which was opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let (mut level, mut quote, mut is_escaped) = (1, None, false);
    for (at, byte) in text.bytes().enumerate() {
        if std::mem::take(&mut is_escaped) {
            continue;
        }
        match (quote, byte) {
            (None, b'(') => level += 1,
            (None, b')') if level == 1 => return Some(at),
            (None, b')') => level -= 1,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            (None | Some(b'"'), b'\\') => is_escaped = true,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Names;

    impl Lookup for Names {
        fn variable(&mut self, name: &str) -> Option<String> {
            match name {
                "a" => Some("A B".into()),
                "q" => Some("say \"x\" $a".into()),
                "?" | "#" => Some("0".into()),
                "add" => Some("sum".into()),
                _ => None,
            }
        }

        fn call(&mut self, text: &str) -> Option<String> {
            (!text.starts_with("no")).then(|| format!("<{text}>"))
        }
    }

    #[test]
    fn each_form_is_replaced() {
        let check = |text: &str, expected: &str| {
            assert_eq!(expand(text, false, &mut Names), expected, "{text}");
        };
        check("$a ${a} $? $# $b ${b} $", "A B A B 0 0 $b ${b} $");
        check("'$a' \"$a\" \\$a", "'$a' \"A B\" \\A B");
        check("$(f $a (x) \")\")!", "<f A B (x) \")\">!");
        check("$($add $(g $a))", "<sum <g A B>>");
        check("$(no $a) $(no)", "$(no A B) $(no)");
        check("\"$q\" $q", "\"say \\\"x\\\" \\$a\" say \"x\" $a");
        check("$(open ${open \"\\", "$(open ${open \"\\");
        check("é$aé\"\\é$a\"", "éA Bé\"\\éA B\"");
        assert_eq!(expand("$a \"$a\"", true, &mut Names), "\"A B\" \"A B\"");
    }

    #[test]
    fn depth_and_growth_are_bounded() {
        let deep = format!("{}x{}", "$(f ".repeat(1000), ")".repeat(1000));
        assert!(expand(&deep, false, &mut Names).len() < 10_000);
        struct Long;
        impl Lookup for Long {
            fn variable(&mut self, _: &str) -> Option<String> {
                Some("é".repeat(TEXT_BYTES_MAX / 3))
            }
            fn call(&mut self, _: &str) -> Option<String> {
                None
            }
        }
        assert_eq!(expand("x$a$a$a$a", false, &mut Long).len(), TEXT_BYTES_MAX - 1);
    }
}
