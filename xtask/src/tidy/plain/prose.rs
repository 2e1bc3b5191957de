//! What people read of a file: its text with everything else blanked out, line by line.

use proc_macro2::{Span, TokenStream, TokenTree};

use crate::tidy::rust::{is_punct, is_test_attribute, path_is_test};

/// Separates texts that do not belong together; no phrase contains it.
const BREAK: char = '\u{1f}';

/// The prose of a file on the lines where it stands; nothing for files without any.
pub fn of(path: &str, text: &str) -> Option<String> {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let prose = match ending {
        _ if path == ".ci/run" => shell(text),
        "md" | "toml" => text.to_owned(),
        "sh" => shell(text),
        "rs" => rust(path, text),
        "c" | "h" | "cpp" | "cu" | "cuh" | "click" => comments(text),
        _ => return None,
    };
    Some(without_names(&prose))
}

/// Blanks out `code` spans of one line; a fence of three backticks is not one. Ends paragraphs.
fn without_names(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if line.trim().is_empty() {
            out.push(BREAK);
        } else if line.trim_start().starts_with("```") || line.matches('`').count() % 2 == 1 {
            out.push_str(line);
        } else {
            let pieces = line.split('`').enumerate();
            pieces.for_each(|(idx, piece)| match idx % 2 {
                0 => out.push_str(piece),
                _ => out.push(BREAK),
            });
        }
        out.push('\n');
    }
    out
}

/// Comments, and lines that print.
fn shell(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let prints = ["echo ", "printf "].iter().any(|command| line.contains(command));
        let comment = line.trim_start().strip_prefix('#').or_else(|| {
            let (_, comment) = line.split_once(" # ")?;
            Some(comment)
        });
        out.push_str(if prints { line } else { comment.unwrap_or("") });
        out.push('\n');
    }
    out
}

/// Comments of languages with `//`, `/* */` and strings in double quotes.
fn comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    // Copies `len` bytes as prose, or the line breaks among them alone.
    let mut pass = |rest: &mut &str, len: usize, is_prose: bool| {
        let (piece, after) = rest.split_at(len);
        let lines = piece.split_inclusive('\n');
        // The stars that begin a comment's lines would split its sentences.
        let text = |line: &str| line.trim_start_matches([' ', '\t', '*', '/']).to_owned();
        let prose = lines.map(|line| match (is_prose, line.ends_with('\n')) {
            (true, _) if line.trim().is_empty() => "\n".to_owned(),
            (true, _) => text(line),
            (false, true) => "\n".to_owned(),
            (false, false) => String::new(),
        });
        out.extend(prose);
        *rest = after;
    };
    while let Some(at) = rest.find(['/', '"', '\'']) {
        pass(&mut rest, at, false);
        if rest.starts_with("//") {
            let len = rest.find('\n').unwrap_or(rest.len());
            pass(&mut rest, len, true);
        } else if rest.starts_with("/*") {
            let len = rest.find("*/").map_or(rest.len(), |end| end + 2);
            pass(&mut rest, len, true);
        } else if rest.starts_with('"') {
            let len = quoted_bytes(rest);
            pass(&mut rest, len, false);
        } else {
            // A quote as a character does not begin a string.
            let len = if rest.starts_with("'\"'") { 3 } else { 1 };
            pass(&mut rest, len, false);
        }
    }
    let len = rest.len();
    pass(&mut rest, len, false);
    out
}

/// The length of the string that `text` begins with, quotes included.
fn quoted_bytes(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return at + 1,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// Doc comments, and strings outside of tests.
fn rust(path: &str, text: &str) -> String {
    let source: Vec<&str> = text.lines().collect();
    let mut prose = Rust { prose: vec![String::new(); source.len()], source };
    // What does not parse is reported by another check.
    if let Ok(tokens) = text.parse::<TokenStream>() {
        prose.walk(tokens, path_is_test(path));
    }
    prose.prose.join("\n")
}

struct Rust<'a> {
    source: Vec<&'a str>,
    /// By line.
    prose: Vec<String>,
}

impl Rust<'_> {
    fn walk(&mut self, tokens: TokenStream, in_test: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut test_item = false;
        for (idx, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) if is_doc(group.stream()) => self.doc(group.span()),
                TokenTree::Group(group) => {
                    test_item |= is_test_attribute(&tokens, idx);
                    self.walk(group.stream(), in_test || test_item);
                    test_item &= group.delimiter() != proc_macro2::Delimiter::Brace;
                }
                TokenTree::Literal(literal) if !in_test => {
                    let text = literal.to_string();
                    if text.starts_with('"') || text.starts_with("r\"") || text.starts_with("r#") {
                        self.string(literal.span());
                    }
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => test_item = false,
                _ => {}
            }
        }
    }

    fn doc(&mut self, span: Span) {
        for (line, text) in self.lines(span) {
            let text = text.trim_start().trim_start_matches(['/', '!', '*']).to_owned();
            self.prose[line].push_str(&text);
        }
    }

    /// A string: no phrase continues from one into the next.
    fn string(&mut self, span: Span) {
        for (at, (line, text)) in self.lines(span).into_iter().enumerate() {
            let text = without_escapes(&text);
            let prose = &mut self.prose[line];
            if at == 0 {
                prose.push(BREAK);
            }
            prose.push_str(&text);
        }
    }

    /// The source of a span, line by line.
    fn lines(&self, span: Span) -> Vec<(usize, String)> {
        let (start, end) = (span.start(), span.end());
        let part = |line: usize| {
            let from = if line == start.line { start.column } else { 0 };
            let to = if line == end.line { end.column } else { usize::MAX };
            let text = self.source.get(line - 1)?;
            Some((line - 1, text.chars().take(to).skip(from).collect()))
        };
        (start.line..=end.line).filter_map(part).collect()
    }
}

/// Whether the tokens in an attribute's brackets are `doc = "…"`.
fn is_doc(tokens: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().take(3).collect();
    let is_literal = matches!(tokens.get(2), Some(TokenTree::Literal(_)));
    let is_named = matches!(tokens.first(), Some(TokenTree::Ident(ident)) if ident == "doc");
    is_named && is_literal && is_punct(tokens.get(1), '=')
}

/// A string's line without escapes, and without the names that are formatted into it.
fn without_escapes(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
                out.push(' ');
            }
            '{' if chars.as_str().starts_with('{') => {
                chars.next();
            }
            '{' => {
                let name = chars.as_str().split_once('}').map(|(name, _)| name);
                match name.filter(|name| !name.contains(' ')) {
                    Some(name) => {
                        chars = chars.as_str()[name.len() + 1..].chars();
                        out.push(BREAK);
                    }
                    None => out.push(c),
                }
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a file that are prose, with their lines.
    fn words(path: &str, text: &str) -> Vec<(usize, String)> {
        let prose = of(path, text).unwrap_or_default();
        let words = |(idx, line): (usize, &str)| {
            let words = line.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
            words.map(|word| (idx + 1, word.to_owned())).collect::<Vec<_>>()
        };
        prose.lines().enumerate().flat_map(words).collect()
    }

    fn check(path: &str, text: &str, expected: &[(usize, &str)]) {
        let expected: Vec<_> = expected.iter().map(|&(line, w)| (line, w.to_owned())).collect();
        assert_eq!(words(path, text), expected, "{path}: {text}");
    }

    #[test]
    fn rust_has_doc_comments_and_strings() {
        let code =
            "//! Module\n// note\n/// Item\npub fn name() -> &'static str {\n    \"text\"\n}";
        check("a.rs", code, &[(1, "Module"), (3, "Item"), (5, "text")]);
        check("a.rs", "/** Long\n * one */\nfn f() {}", &[(1, "Long"), (2, "one")]);
        check("a.rs", "const A: &str = \"one \\\n    two\";", &[(1, "one"), (2, "two")]);
        check("a.rs", "const A: &str = r#\"raw\"#;", &[(1, "r"), (1, "raw")]);
        check("a.rs", "const A: &[u8] = b\"bytes\"; const C: char = 'c';", &[]);
        check("a.rs", "f!(\"{said} and {} {{x}}\\nend\");", &[(1, "and"), (1, "x"), (1, "end")]);
    }

    #[test]
    fn rust_tests_have_doc_comments_only() {
        let test =
            "#[cfg(test)]\nmod tests {\n/// Doc\nfn f() { g(\"t\") }\n}\nfn h() { g(\"u\") }";
        check("a.rs", test, &[(3, "Doc"), (6, "u")]);
        check("crates/a/tests/x.rs", "//! Doc\nfn f() { g(\"t\") }", &[(1, "Doc")]);
    }

    #[test]
    fn c_and_click_have_comments() {
        let code = "int a; // one\n/* two\n * three */ char *s = \"no // no\"; char q = '\"'; // f";
        check("a.c", code, &[(1, "one"), (2, "two"), (3, "three"), (3, "f")]);
        check("a.click", "Idle -> Print(say, \"/*\"); // note\n", &[(1, "note")]);
    }

    #[test]
    fn shell_has_comments_and_messages() {
        let script = "#!/bin/sh\n# note\nsaid=1 # more\necho \"text $said\"\nrun > run.said\n";
        let expected = [
            (1, "bin"),
            (1, "sh"),
            (2, "note"),
            (3, "more"),
            (4, "echo"),
            (4, "text"),
            (4, "said"),
        ];
        check("a.sh", script, &expected);
        assert_eq!(words(".ci/run", script), words("a.sh", script));
    }

    #[test]
    fn markdown_is_prose_but_for_names() {
        check(
            "a.md",
            "One `name` two\n```sh\nrun\n```\n",
            &[(1, "One"), (1, "two"), (2, "sh"), (3, "run")],
        );
        assert_eq!(of("a.pcap", "data"), None);
        assert!(!of("a.md", "that is\n\nnone").unwrap().contains("is\n\nnone"));
    }
}
