//! Patterns of expected lines: literal text with regexes in `{{…}}`.
//!
//! Inside of the braces also stand `? words` (a comment, which goes away with the blanks around it)
//! and ranges of whole numbers: `~ 5 - 15`, `~ 100 +- 5`, `~ 100 +- 5%`. A range is a group of
//! digits in the regex whose number is compared afterwards.

use fancy_regex::{Regex, escape};

/// A pattern for one line.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    /// Group number, lowest and highest number of each range.
    ranges: Vec<(String, u64, u64)>,
}

/// What is between the braces of a text, and the text around it.
struct Split<'a> {
    before: &'a str,
    middle: &'a str,
    after: &'a str,
}

/// The first `{{…}}` of a text; braces may stand inside of braces once.
fn split(text: &str) -> Option<Split<'_>> {
    let open = text.find("{{")?;
    let (mut depth, mut at) = (1, open + 2);
    while depth > 0 {
        let rest = &text[at..];
        let (opens, closes) = (rest.find("{{"), rest.find("}}"));
        let is_open = opens.is_some_and(|o| closes.is_none_or(|c| o < c));
        let next = if is_open { opens } else { closes }?;
        depth = if is_open { depth + 1 } else { depth - 1 };
        if depth > 2 {
            return None;
        }
        at += next + 2;
    }
    let (before, middle, after) = (&text[..open], &text[open + 2..at - 2], &text[at..]);
    Some(Split { before, middle, after })
}

/// Whether a line has text in braces.
pub fn has_braces(line: &str) -> bool {
    line.contains("{{")
}

/// The lines without blanks, but for those in braces.
pub fn without_blanks(line: &str) -> String {
    let bare = |text: &str| text.replace([' ', '\t', '\r', '\x0b', '\x0c'], "");
    match split(line) {
        Some(parts) => {
            let rest = without_blanks(parts.after);
            format!("{}{{{{{}}}}}{rest}", bare(parts.before), parts.middle)
        }
        None => bare(line),
    }
}

/// A range of numbers, if that is what stands between braces.
fn range(middle: &str) -> Option<(u64, u64)> {
    let text = middle.strip_prefix('~')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    if let Some((value, spread)) = text.split_once("+-") {
        let (value, spread) = (number(value)?, spread.trim());
        let spread = match spread.strip_suffix('%') {
            Some(percent) => value.checked_mul(number(percent)?)? / 100,
            None => number(spread)?,
        };
        return Some((value.saturating_sub(spread), value.saturating_add(spread)));
    }
    let (low, high) = text.split_once('-')?;
    let (low, high) = (number(low)?, number(high)?);
    Some((low.min(high), low.max(high)))
}

impl Pattern {
    /// Reads a line; `is_literal` tells whether the text outside of braces is, or else a regex.
    ///
    /// # Errors
    /// What the regex crate cannot read.
    pub fn new(line: &str, is_literal: bool, any_case: bool) -> Result<Self, String> {
        let mut ranges = Vec::new();
        let body = Self::body(line, is_literal, &mut ranges);
        Self::build(&body, ranges, any_case)
    }

    /// The line itself, braces and all.
    ///
    /// # Errors
    /// None that a line can cause.
    pub fn literal(line: &str, any_case: bool) -> Result<Self, String> {
        Self::build(&escape(line), Vec::new(), any_case)
    }

    fn build(body: &str, ranges: Vec<(String, u64, u64)>, any_case: bool) -> Result<Self, String> {
        let flags = if any_case { "(?i)" } else { "" };
        let regex = Regex::new(&format!(r"{flags}\A(?:{body})\z"));
        let told = |error: fancy_regex::Error| error.to_string().replace('\n', " ");
        let regex = regex.map_err(told)?;
        Ok(Self { regex, ranges })
    }

    fn body(line: &str, is_literal: bool, ranges: &mut Vec<(String, u64, u64)>) -> String {
        let quoted =
            |text: &str| if is_literal { escape(text).into_owned() } else { text.to_owned() };
        let Some(Split { before, middle, after }) = split(line) else { return quoted(line) };
        if middle.starts_with('?') {
            let joined = format!("{}{}", before.trim_end(), after.trim_start());
            return Self::body(&joined, is_literal, ranges);
        }
        let inner = match range(middle) {
            Some((low, high)) => {
                let name = format!("range{}", ranges.len());
                ranges.push((name.clone(), low, high));
                format!("(?P<{name}>[0-9]+)")
            }
            // What is in the braces is a regex; ranges may be in it.
            None if has_braces(middle) => format!("(?:{})", Self::body(middle, false, ranges)),
            None => format!("(?:{middle})"),
        };
        format!("{}{inner}{}", quoted(before), Self::body(after, is_literal, ranges))
    }

    /// Whether the whole line fits. One that takes too long to tell does not.
    pub fn fits(&self, line: &str) -> bool {
        let Ok(Some(found)) = self.regex.captures(line) else { return false };
        self.ranges.iter().all(|(name, low, high)| {
            let Some(digits) = found.name(name) else { return true };
            let number = digits.as_str().parse();
            number.is_ok_and(|number: u64| (*low..=*high).contains(&number))
        })
    }
}

/// Bytes as characters, one each, so that a line is a text whatever it holds.
pub fn text(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit() {
        let cases = [
            ("a.b", "a.b", true),
            ("a.b", "axb", false),
            ("a{{.}}b", "axb", true),
            ("a{{x|y}}b {{[0-9]+}}", "ayb 17", true),
            ("a{{x|y}}b", "ayb ", false),
            ("value {{? why}} 3", "value3", true),
            ("{{~ 5 - 15}}", "15", true),
            ("{{~ 15 - 5}}", "16", false),
            ("n={{~ 100 +- 5%}};", "n=95;", true),
            ("n={{~ 100 +- 5}};", "n=94;", false),
            ("{{a|{{~1-2}}x}}", "2x", true),
            ("{{a|{{~1-2}}x}}", "3x", false),
            ("{{a|{{~1-2}}x}}", "a", true),
            ("}} {{x", "}} {{x", true),
            ("{{", "{{", true),
            ("\u{e9}{{.*}}", "\u{e9}tude", true),
            ("n {{(?!10)\\d+}}", "n 11", true),
            ("n {{(?!10)\\d+}}", "n 10", false),
        ];
        for (line, text, fits) in cases {
            let pattern = Pattern::new(line, true, false).unwrap();
            assert_eq!(pattern.fits(text), fits, "{line} / {text}");
        }
        assert!(Pattern::new("a.c{{~1-3}}", false, true).unwrap().fits("ABC2"));
        assert!(Pattern::new("a{{(}}", true, false).unwrap_err().contains("paren"));
    }

    #[test]
    fn blanks_go_outside_of_braces() {
        assert_eq!(without_blanks("a b {{ c d }} e\t{{f g}} "), "ab{{ c d }}e{{f g}}");
    }
}
