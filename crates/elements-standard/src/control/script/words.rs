//! Words of an instruction: text between blanks, quoted text kept together.

use warpswitch_graph::language::args::split::unquote;

/// The first word of `text` and what follows it, without blanks before either.
pub fn shift(text: &str) -> (&str, &str) {
    let text = text.trim_ascii_start();
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut quote = None;
    while let Some(&byte) = bytes.get(at) {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            (Some(b'"') | None, b'\\') if bytes.get(at + 1) == Some(&b'<') => {
                let rest = &bytes[at..];
                at += rest.iter().position(|&b| b == b'>').unwrap_or(rest.len() - 1);
            }
            // Whatever is escaped ends nothing.
            (Some(b'"'), b'\\') => at += 1,
            (None, byte) if byte.is_ascii_whitespace() => break,
            _ => {}
        }
        at += 1;
    }
    // An escaped character may have more bytes than were passed over.
    let mut at = at.min(bytes.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    (&text[..at], text[at..].trim_ascii_start())
}

/// The text that `quoted` means.
pub fn unquoted(quoted: &str) -> String {
    match String::from_utf8(unquote(quoted)) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_blanks_outside_quotes() {
        assert_eq!(shift("  a b  c"), ("a", "b  c"));
        assert_eq!(shift("\"a b\" c"), ("\"a b\"", "c"));
        assert_eq!(shift(r#""a\" b"x 'c d"#), (r#""a\" b"x"#, "'c d"));
        assert_eq!(shift("\\<0a 09> x"), ("\\<0a 09>", "x"));
        assert_eq!(shift(""), ("", ""));
        assert_eq!(shift("\"\\é"), ("\"\\é", ""));
        assert_eq!(unquoted("\"a\\n\" 'b'"), "a\n b");
    }
}
