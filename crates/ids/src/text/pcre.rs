//! `pcre`: expressions of Perl, put into the words of the `regex` crate where they are in its
//! power.
//!
//! That crate searches in time linear in the text, whatever the expression is, and in return knows
//! neither looking around nor references back: rules that need these are left out. What both write
//! alike and mean otherwise is rewritten here: `\<`, brackets and set operators within classes,
//! braces that count nothing, and `$`, which in Perl also stands before a last line end.

use std::ops::Range;

use regex::bytes::RegexBuilder;
use regex_syntax::ast::ErrorKind;
use regex_syntax::hir::{Hir, Look};
use warpswitch_rules::diagnostic::Diagnostics;

use super::buffers::of_letter;
use super::payload::unquote;
use super::quotes;
use super::source::{Part, Skip, Source};
use crate::http::Buffer;
use crate::rule::{Expression, REGEX_BYTES_MAX};

/// What letters behind the expression say.
#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    nocase: bool,
    dot_all: bool,
    multi_line: bool,
    extended: bool,
    anchored: bool,
    ungreedy: bool,
    dollar_end_only: bool,
    relative: bool,
    /// What it is about, if a letter says so.
    buffer: Option<Buffer>,
}

/// Reads the value of `pcre`: `[!]"/EXPRESSION/FLAGS"`; and the buffer that a flag names.
pub(super) fn expression(
    source: &Source<'_>,
    span: Range<usize>,
    errors: &mut Diagnostics,
) -> Part<(Expression, Option<Buffer>)> {
    let (negated, quoted) = match source.bytes[span.clone()] {
        [b'/', ..] => (false, span.clone()),
        _ => unquote(source, span.clone(), errors)?,
    };
    let text = source.text(&quoted);
    let (delimiter, body) = match text.strip_prefix('m') {
        Some(rest) => (rest.chars().next().unwrap_or('/'), rest),
        None => ('/', text.as_str()),
    };
    if quoted != span {
        quotes::check_end_of_expression(source, quoted, delimiter, errors)?;
    }
    let whole = body.strip_prefix(delimiter).and_then(|rest| rest.rsplit_once(delimiter));
    let Some((pattern, letters)) = whole else {
        let message = "an expression without its delimiters";
        return Err(source.tell(errors, span, message, "\"/expression/flags\"", ""));
    };
    let (letters, captures) =
        letters.split_once(',').map_or((letters, None), |(letters, rest)| (letters, Some(rest)));
    let flags = read_flags(source, &span, letters, errors)?;
    if let Some(captures) = captures {
        if captures.split(',').all(is_capture) {
            return Err(Skip::Unsupported("pcre (captures to variables)".into()));
        }
        let expected = "flow:NAME or pkt:NAME for each group";
        return Err(source.tell(errors, span, "invalid capture of pcre", expected, ""));
    }
    let unsupported = || Skip::Unsupported("pcre (beyond linear time)".into());
    let rewritten = rewrite(pattern, &flags).ok_or_else(unsupported)?;
    let hir = match parse(&rewritten, &flags) {
        Ok(hir) => hir,
        Err(Some(kind)) if is_cut_off(&kind) => {
            let message = format!("an expression that is none: {kind}");
            return Err(source.tell(errors, span, &message, "an expression of PCRE", ""));
        }
        Err(_) => return Err(unsupported()),
    };
    let looks = hir.properties().look_set();
    let regex = RegexBuilder::new(&rewritten)
        .unicode(false)
        .case_insensitive(flags.nocase)
        .dot_matches_new_line(flags.dot_all)
        .multi_line(flags.multi_line)
        .ignore_whitespace(flags.extended)
        .swap_greed(flags.ungreedy)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|_| Skip::Unsupported("pcre (too large)".into()))?;
    let at_start = !flags.relative && looks.contains(Look::Start);
    let at_end = looks.contains(Look::End);
    let relative = flags.relative;
    Ok((Expression { regex, negated, relative, at_start, at_end }, flags.buffer))
}

/// Whether a word behind the flags names the variable of a group, as `flow:NAME`.
fn is_capture(word: &str) -> bool {
    let name = word.trim().split_once(':').filter(|(of, _)| matches!(*of, "flow" | "pkt"));
    name.is_some_and(|(_, name)| !name.is_empty() && !name.contains(char::is_whitespace))
}

/// Whether no kind of expression is like that: a bracket or an escape without its end.
fn is_cut_off(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::GroupUnclosed
            | ErrorKind::GroupUnopened
            | ErrorKind::ClassUnclosed
            | ErrorKind::EscapeUnexpectedEof
    )
}

/// The pattern, or what kind of error of its text stands in the way.
fn parse(pattern: &str, flags: &Flags) -> Result<Hir, Option<ErrorKind>> {
    regex_syntax::ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .case_insensitive(flags.nocase)
        .dot_matches_new_line(flags.dot_all)
        .multi_line(flags.multi_line)
        .ignore_whitespace(flags.extended)
        .swap_greed(flags.ungreedy)
        .build()
        .parse(pattern)
        .map_err(|error| match error {
            regex_syntax::Error::Parse(error) => Some(error.kind().clone()),
            _ => None,
        })
}

fn read_flags(
    source: &Source<'_>,
    span: &Range<usize>,
    letters: &str,
    errors: &mut Diagnostics,
) -> Part<Flags> {
    let mut flags = Flags::default();
    for letter in letters.chars() {
        match letter {
            'i' => flags.nocase = true,
            's' => flags.dot_all = true,
            'm' => flags.multi_line = true,
            'x' => flags.extended = true,
            'A' => flags.anchored = true,
            'G' => flags.ungreedy = true,
            'E' => flags.dollar_end_only = true,
            'R' => flags.relative = true,
            // The payload as it came, and no bounds of another library's: both are so anyway.
            'B' | 'O' => {}
            letter if of_letter(letter).is_some() => flags.buffer = of_letter(letter),
            letter if letter.is_ascii_alphabetic() => {
                return Err(Skip::Unsupported(format!("pcre flag {letter}")));
            }
            _ => {
                let message = "no flag of pcre";
                return Err(source.tell(
                    errors,
                    span.clone(),
                    message,
                    "letters as i, s, m, R",
                    "",
                ));
            }
        }
    }
    Ok(flags)
}

/// The same expression in the words of the other syntax; none where it has none.
fn rewrite(pattern: &str, flags: &Flags) -> Option<String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    if flags.anchored {
        out.push_str(r"\A(?:");
    }
    let chars: Vec<char> = pattern.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        match chars[at] {
            '\\' => at = escape(&chars, at, &mut out)?,
            '[' => at = class(&chars, at, flags, &mut out)?,
            '$' if !flags.multi_line && !flags.dollar_end_only => out.push_str(r"(?:\n?\z)"),
            '$' if !flags.multi_line => out.push_str(r"\z"),
            '{' if !counts(&chars[at + 1..]) => out.push_str(r"\{"),
            '(' if chars.get(at + 1) == Some(&'?') && !is_group(&chars[at + 2..]) => return None,
            // Possessive, which gives nothing back: another language of texts.
            '+' if at > 0 && repeats(&chars, at - 1) => return None,
            // Beyond ASCII the two disagree on what a character is.
            c if !c.is_ascii() => return None,
            c => out.push(c),
        }
        at += 1;
    }
    if flags.anchored {
        out.push(')');
    }
    Some(out)
}

/// Rewrites the escape at `at`; gives the place of its last character.
fn escape(chars: &[char], at: usize, out: &mut String) -> Option<usize> {
    match *chars.get(at + 1)? {
        c @ ('<' | '>') => out.push(c),
        'Z' => out.push_str(r"(?:\n?\z)"),
        // One character there, any vertical white space here.
        'v' => return None,
        'b' if chars.get(at + 2) == Some(&'{') => return None,
        'x' => {
            let digits = chars.get(at + 2..at + 4)?;
            if !digits.iter().all(char::is_ascii_hexdigit) {
                return None;
            }
            out.push_str(r"\x");
        }
        // Octal and references back, Unicode, and what is no escape of the other.
        '0'..='9' | 'u' | 'U' | 'p' | 'P' | 'K' | 'G' => return None,
        c if !c.is_ascii() => return None,
        c => {
            out.push('\\');
            out.push(c);
        }
    }
    Some(at + 1)
}

/// Rewrites the class that begins at `at`; gives the place of its closing bracket.
fn class(chars: &[char], mut at: usize, flags: &Flags, out: &mut String) -> Option<usize> {
    out.push('[');
    at += 1;
    if chars.get(at) == Some(&'^') {
        out.push('^');
        at += 1;
    }
    if chars.get(at) == Some(&']') {
        out.push_str(r"\]");
        at += 1;
    }
    loop {
        match *chars.get(at)? {
            ']' => break,
            '[' if chars.get(at + 1) == Some(&':') => {
                let end = (at + 2..chars.len()).find(|&i| chars[i] == ']')?;
                out.extend(&chars[at..=end]);
                at = end;
            }
            c @ ('[' | '&' | '~') => out.extend(['\\', c]),
            '-' if chars.get(at + 1) == Some(&'-') => return None,
            '\\' if chars.get(at + 1) == Some(&'b') => {
                out.push_str(r"\x08");
                at += 1;
            }
            '\\' => at = escape(chars, at, out)?,
            c if flags.extended && (c.is_whitespace() || c == '#') => out.extend(['\\', c]),
            c if !c.is_ascii() => return None,
            c => out.push(c),
        }
        at += 1;
    }
    out.push(']');
    Some(at)
}

/// Whether what follows a brace makes it a count: `3}`, `3,}` or `3,5}`.
fn counts(rest: &[char]) -> bool {
    let text: String = rest.iter().take_while(|&&c| c != '}').take(16).collect();
    let has_end = rest.get(text.len()) == Some(&'}');
    let (low, high) = text.split_once(',').unwrap_or((&text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    has_end && !low.is_empty() && is_number(low) && is_number(high)
}

/// Whether what follows `(?` is a group, named or not, or sets flags that both know.
fn is_group(rest: &[char]) -> bool {
    match rest {
        [':', ..] | ['P', '<', ..] => true,
        ['<', next, ..] => next.is_ascii_alphabetic(),
        _ => {
            let letters = rest.iter().take_while(|c| matches!(c, 'i' | 's')).count();
            letters > 0 && matches!(rest.get(letters), Some(')' | ':'))
        }
    }
}

/// Whether the character at `at` repeats what stands before it.
fn repeats(chars: &[char], at: usize) -> bool {
    let quoted = chars[..at].iter().rev().take_while(|&&c| c == '\\').count() % 2 == 1;
    let opens = at == 0 || matches!(chars[at - 1], '(' | '|') && !quoted;
    match chars[at] {
        '*' | '+' | '?' => !quoted && !opens,
        '}' => {
            let open = chars[..at].iter().rposition(|&c| c == '{');
            !quoted && open.is_some_and(|open| counts(&chars[open + 1..]))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Expression, String> {
        let mut errors = Diagnostics::default();
        let source = Source::new("x", text.as_bytes());
        match expression(&source, 0..text.len(), &mut errors) {
            Ok((expression, _)) => Ok(expression),
            Err(Skip::Unsupported(keyword)) => Err(keyword),
            Err(Skip::Told) => Err(errors.to_string()),
        }
    }

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        let expression =
            read(&format!("\"{pattern}\"")).unwrap_or_else(|e| panic!("{pattern} {e}"));
        for text in yes {
            assert!(expression.regex.is_match(text.as_bytes()), "{pattern} on {text:?}");
        }
        for text in no {
            assert!(!expression.regex.is_match(text.as_bytes()), "{pattern} on {text:?}");
        }
    }

    #[test]
    fn expressions_mean_what_perl_means() {
        check("/^GET \\x2f/i", &["get /x"], &["x get /"]);
        check("/end$/", &["the end", "end\n"], &["end\n\n", "end."]);
        check("/end$/E", &["the end"], &["end\n"]);
        check("/^b$/m", &["a\nb\nc"], &["ab"]);
        check("/a.b/", &["axb"], &["a\nb"]);
        check("/a.b/s", &["a\nb"], &[]);
        check("/a b/x", &["ab"], &["a b"]);
        check("/[a b]c/x", &[" c"], &["xc"]);
        check("/\\<b\\>/", &["<b>"], &["b"]);
        check("/[[]&&~]/", &["[&&~]"], &["x"]);
        check("/[^]]x/", &["ax"], &["]x"]);
        check("/[[:digit:]_]x/", &["1x", "_x"], &["ax"]);
        check("/a{x}{2}/", &["a{x}}"], &["aa"]);
        check("/b/A", &["b"], &["ab"]);
        check("m#a/b#i", &["A/B"], &["ab"]);
        check("/\\d+?[^\\r\\n]{2,}/", &["1ab"], &["1a\n"]);
        check("/a\\/\\;\\\"/", &["a/;\""], &["a"]);
    }

    #[test]
    fn what_needs_more_is_left_out_by_name() {
        for pattern in ["/(?=a)b/", "/(a)\\1/", "/a++/", "/(?>a)/", "/a*+b/", "/(?m)a/", "/\\v/"] {
            assert_eq!(read(&format!("\"{pattern}\"")).unwrap_err(), "pcre (beyond linear time)");
        }
        assert_eq!(read("\"/a/X\"").unwrap_err(), "pcre flag X");
        let captures = "pcre (captures to variables)";
        assert_eq!(read("\"/(a)(b)/Ri, flow:one, pkt:two\"").unwrap_err(), captures);
        assert_eq!(read("\"/(a)/,flow:one\"").unwrap_err(), captures);
        for wrong in ["\"/(a)/R,\"", "\"/(a)/, flow:\"", "\"/(a)/, other:one\""] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("invalid capture"), "{wrong}: {error}");
        }
        assert_eq!(read("\"/(a{1000}){1000}/\"").unwrap_err(), "pcre (too large)");
        for pattern in ["/(/", "/a)/"] {
            let told = read(&format!("\"{pattern}\"")).unwrap_err();
            assert!(told.contains("an expression that is none"), "{pattern}: {told}");
        }
        assert!(read("\"/a\"").unwrap_err().contains("delimiters"));
        assert!(read("\"/a/!\"").unwrap_err().contains("no flag"));
        assert!(read("a").unwrap_err().contains("quoted"));
    }

    #[test]
    fn ends_of_the_text_are_noticed() {
        let ends = |text: &str| {
            let found = read(text).unwrap();
            (found.at_start, found.at_end, found.relative)
        };
        assert_eq!(ends("\"/^a/\""), (true, false, false));
        assert_eq!(ends("\"/^a/R\""), (false, false, true));
        assert_eq!(ends("\"/a$/\""), (false, true, false));
        assert_eq!(ends("\"/^a/m\""), (false, false, false));
    }
}
