//! Tokens, and the reader that hands them out one at a time.
//!
//! The language is context-sensitive: after a class name a parenthesis opens a configuration
//! string, which follows other rules, elsewhere a group. So the parser asks for one or the other,
//! and no more than one token is read ahead.
//!
//! A configuration string ends at the parenthesis that balances. Quotes `"…"` (with escapes) and
//! `'…'`, comments and `\<…>` data shield what is in them. Line directives are cut out of it.

use logos::Logos;

use super::diagnostic::Diagnostics;
use super::source::{SourceMap, Span, offset};

/// Kinds of tokens. The words `elementclass`, `require`, `provide` and `define` are keywords.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\n\r\x0b\x0c]+")]
pub(super) enum Token {
    #[regex("[A-Za-z0-9_@]+(/[A-Za-z0-9_@]+)*", priority = 2)]
    Word,
    #[token("elementclass")]
    ElementClass,
    #[token("require")]
    Require,
    #[token("provide")]
    Provide,
    #[token("define")]
    Define,
    #[regex(r"\$[A-Za-z0-9_]+")]
    Variable,
    #[token("->")]
    Arrow,
    #[token("=>")]
    WideArrow,
    #[token("::")]
    Colons,
    #[token("||")]
    Bars,
    #[token("|")]
    Bar,
    #[token("...")]
    Dots,
    #[token("-")]
    Dash,
    #[token(";")]
    Semicolon,
    #[token(",")]
    Comma,
    #[token("(")]
    ParenOpen,
    #[token(")")]
    ParenClose,
    #[token("[")]
    BracketOpen,
    #[token("]")]
    BracketClose,
    #[token("{")]
    BraceOpen,
    #[token("}")]
    BraceClose,
    #[token("#")]
    Hash,
    #[token("//")]
    LineComment,
    #[token("/*")]
    BlockComment,
    /// A character that starts no token.
    Stray,
    /// The end of the text.
    End,
}

/// Reads one text of a configuration.
pub(super) struct Cursor<'a> {
    text: &'a str,
    source: u32,
    at: usize,
    /// End of the token that was handed out last.
    last_end: usize,
    peeked: Option<(Token, Span)>,
}

/// A configuration string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigText {
    /// What stands between the parentheses, as it is but for line directives, which are cut out.
    pub text: String,
    /// Where that is.
    pub span: Span,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, source: u32) -> Self {
        Self { text, source, at: 0, last_end: 0, peeked: None }
    }

    pub(super) fn span(&self, start: usize, end: usize) -> Span {
        Span { source: self.source, start: offset(start), end: offset(end) }
    }

    /// What stands at `span`, a span of this text.
    pub(super) fn slice(&self, span: Span) -> &'a str {
        &self.text[super::source::range(span)]
    }

    /// Where reading stands, to come back to.
    pub(super) fn mark(&self) -> (usize, usize, Option<(Token, Span)>) {
        (self.at, self.last_end, self.peeked)
    }

    /// Goes back to a mark.
    pub(super) fn reset(&mut self, mark: (usize, usize, Option<(Token, Span)>)) {
        (self.at, self.last_end, self.peeked) = mark;
    }

    /// The place behind the last token: where something is missing.
    pub(super) fn here(&self) -> Span {
        self.span(self.last_end, self.last_end)
    }

    /// The next token, which stays the next.
    pub(super) fn peek(&mut self, map: &mut SourceMap, errors: &mut Diagnostics) -> (Token, Span) {
        if let Some(peeked) = self.peeked {
            return peeked;
        }
        let found = self.scan(map, errors);
        self.peeked = Some(found);
        found
    }

    /// Takes the next token.
    pub(super) fn next(&mut self, map: &mut SourceMap, errors: &mut Diagnostics) -> (Token, Span) {
        let found = self.peek(map, errors);
        self.peeked = None;
        self.at = found.1.end as usize;
        self.last_end = self.at;
        found
    }

    fn scan(&self, map: &mut SourceMap, errors: &mut Diagnostics) -> (Token, Span) {
        let mut at = self.at;
        loop {
            let mut lexer = Token::lexer(&self.text[at..]);
            let Some(token) = lexer.next() else {
                return (Token::End, self.span(self.text.len(), self.text.len()));
            };
            let (start, end) = (at + lexer.span().start, at + lexer.span().end);
            match token {
                Ok(Token::LineComment) => at = self.line_end(end),
                Ok(Token::BlockComment) => {
                    at = match self.text[end..].find("*/") {
                        Some(len) => end + len + 2,
                        None => {
                            let span = self.span(start, end);
                            errors.push(map.error(span, "unterminated comment").warning());
                            self.text.len()
                        }
                    };
                }
                Ok(Token::Hash) if self.at_line_start(start) => {
                    at = self.directive(start, map, errors);
                }
                Ok(token) => return (token, self.span(start, end)),
                Err(()) => {
                    // Errors may span several characters; one at a time is told.
                    let len = self.text[start..].chars().next().map_or(1, char::len_utf8);
                    return (Token::Stray, self.span(start, start + len));
                }
            }
        }
    }

    /// Reads a configuration string behind the parenthesis that was just taken; what is next then
    /// is the parenthesis that ends it, or the end of the text.
    pub(super) fn config(&mut self, map: &mut SourceMap, errors: &mut Diagnostics) -> ConfigText {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let (mut at, mut copied, mut depth) = (start, start, 0usize);
        let mut text = String::new();
        while let Some(&byte) = bytes.get(at) {
            let pair = &bytes[at..bytes.len().min(at + 2)];
            at = match (byte, pair) {
                (b'(', _) => {
                    depth += 1;
                    at + 1
                }
                (b')', _) if depth == 0 => break,
                (b')', _) => {
                    depth -= 1;
                    at + 1
                }
                (b'#', _) if self.at_line_start(at) => {
                    text.push_str(&self.text[copied..at]);
                    copied = self.directive(at, map, errors);
                    copied
                }
                (_, b"//") => self.line_end(at),
                (_, b"/*") => self.behind(at + 2, "*/"),
                (b'\'' | b'"', _) => skip_quote(self.text, at),
                (_, b"\\<") => skip_data(self.text, at),
                _ => at + 1,
            };
        }
        text.push_str(&self.text[copied.min(at)..at]);
        self.peeked = None;
        self.at = at;
        self.last_end = at;
        let span = self.span(start, at);
        self.check_stray(span, map, errors);
        ConfigText { text, span }
    }

    /// Bytes that are not UTF-8 have no place in a configuration string.
    fn check_stray(&self, span: Span, map: &SourceMap, errors: &mut Diagnostics) {
        let Some(source) = map.get(self.source) else { return };
        for (idx, c) in self.slice(span).char_indices() {
            if let Some(byte) = source.stray_byte(c) {
                let start = span.start as usize + idx;
                let place = self.span(start, start + c.len_utf8());
                errors.push_with(|| {
                    map.error(place, format!("byte 0x{byte:02X} is not valid UTF-8"))
                        .help(format!("write it as \"\\<{byte:02x}>\""))
                });
                return;
            }
        }
    }

    fn at_line_start(&self, at: usize) -> bool {
        at == 0 || matches!(self.text.as_bytes()[at - 1], b'\n' | b'\r')
    }

    fn line_end(&self, at: usize) -> usize {
        self.text[at..].find(['\n', '\r']).map_or(self.text.len(), |len| at + len)
    }

    fn behind(&self, at: usize, what: &str) -> usize {
        let at = at.min(self.text.len());
        self.text[at..].find(what).map_or(self.text.len(), |len| at + len + what.len())
    }

    /// Reads the directive at `start`; where its line ends.
    fn directive(&self, start: usize, map: &mut SourceMap, errors: &mut Diagnostics) -> usize {
        let end = self.line_end(start);
        let line = self.text[start + 1..end].trim_start_matches([' ', '\t']);
        let line = match line.strip_prefix("line") {
            Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start_matches([' ', '\t']),
            _ => line,
        };
        let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 {
            let span = self.span(start, end);
            errors.push_with(|| map.error(span, "unknown preprocessor directive"));
            return end;
        }
        let number = line[..digits].parse().unwrap_or(u32::MAX);
        let rest = line[digits..].trim_start_matches([' ', '\t']);
        let file = rest.strip_prefix('"').map(quoted_name);
        map.source_mut(self.source).add_directive(start, number, file);
        end
    }
}

/// A file name up to the closing quote; a backslash takes the next character as it is.
fn quoted_name(text: &str) -> String {
    let mut name = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => name.extend(chars.next()),
            c => name.push(c),
        }
    }
    name
}

/// The place behind the quoted text that starts at `at`.
pub(super) fn skip_quote(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let quote = bytes[at];
    let mut at = at + 1;
    while let Some(&byte) = bytes.get(at) {
        at = match byte {
            b'\\' if quote == b'"' && bytes.get(at + 1) == Some(&b'<') => skip_data(text, at),
            b'\\' if quote == b'"' => at + 2,
            byte if byte == quote => return at + 1,
            _ => at + 1,
        };
    }
    boundary(text, at)
}

/// The place behind the data `\<…>` that starts at `at`; comments within do not end it.
pub(super) fn skip_data(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = at + 2;
    while let Some(&byte) = bytes.get(at) {
        at = match (byte, bytes.get(at + 1)) {
            (b'>', _) => return at + 1,
            (b'/', Some(b'/')) => {
                let rest = bytes[at..].iter().position(|b| matches!(b, b'\n' | b'\r'));
                rest.map_or(bytes.len(), |len| at + len)
            }
            (b'/', Some(b'*')) => {
                let rest = bytes[at + 2..].windows(2).position(|pair| pair == b"*/");
                rest.map_or(bytes.len(), |len| at + len + 4)
            }
            _ => at + 1,
        };
    }
    boundary(text, at)
}

fn boundary(text: &str, at: usize) -> usize {
    at.min(text.len())
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;

    fn open(text: &str) -> SourceMap {
        let mut map = SourceMap::default();
        map.push(Source::new("f", text.as_bytes()).unwrap());
        map
    }

    fn tokens(text: &str) -> Vec<(Token, String)> {
        let (mut map, mut errors) = (open(text), Diagnostics::default());
        let mut cursor = Cursor::new(text, 0);
        let mut out = Vec::new();
        loop {
            let (token, span) = cursor.next(&mut map, &mut errors);
            if token == Token::End {
                return out;
            }
            out.push((token, cursor.slice(span).to_owned()));
        }
    }

    #[test]
    fn words_may_hold_slashes_within() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<String> = tokens(text).into_iter().map(|(_, text)| text).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("one/two/three//four/five", &["one/two/three"]);
        check("a/*x*/b", &["a", "b"]);
        check("a/ b", &["a", "/", "b"]);
        check("requirex require", &["requirex", "require"]);
        check(
            "a->b=>c::d||e|f...",
            &["a", "->", "b", "=>", "c", "::", "d", "||", "e", "|", "f", "..."],
        );
        check("$a$b $", &["$a", "$b", "$"]);
        check("a /* never", &["a"]);
        check("..x", &[".", ".", "x"]);
        check("é", &["é"]);
        check("a-b", &["a", "-", "b"]);
    }

    #[test]
    fn configuration_strings_end_where_parentheses_balance() {
        let check = |text: &str, expected: &str| {
            let (mut map, mut errors) = (open(text), Diagnostics::default());
            let mut cursor = Cursor::new(text, 0);
            assert_eq!(cursor.next(&mut map, &mut errors).0, Token::ParenOpen);
            assert_eq!(cursor.config(&mut map, &mut errors).text, expected, "{text}");
        };
        check("(simple string)", "simple string");
        check("(a (b) c)d", "a (b) c");
        check("(a \")\" b)", "a \")\" b");
        check("(a \"\\\")\" b)", "a \"\\\")\" b");
        check("('\\')x", "'\\'");
        check("(// )\n still)x", "// )\n still");
        check("(/* ) */ b)", "/* ) */ b");
        check("(\\<29 /* > */ 29 )> b)", "\\<29 /* > */ 29 )> b");
        check("(\n# 100 \"g\"\n\"test\")", "\n\n\"test\"");
        check("(never", "never");
        check("(\"never", "\"never");
        check("(\"\\", "\"\\");
        check("(\\<", "\\<");
        check("(/*", "/*");
    }

    #[test]
    fn strange_directives_and_bytes_are_told() {
        let (mut map, mut errors) = (open("#pragma\n# 5 \"a\\\"b\"\nx"), Diagnostics::default());
        let text = map.get(0).unwrap().text().clone();
        let mut cursor = Cursor::new(&text, 0);
        let (_, span) = cursor.next(&mut map, &mut errors);
        assert_eq!(map.landmark(span).to_string(), "a\"b:5");
        assert_eq!(errors.to_click(), "f:1: unknown preprocessor directive\n");
    }
}
