//! Whether outputs are what a test expects: line by line, with what does not count left out.

use std::path::Path;

use anyhow::Result;

use super::braces::{self, Pattern};
use super::format::{Mode, Section, Test};
use super::report::Outcome;

/// Lines that tests print to tell which part of them runs.
const SUBTEST: &[u8] = b"clicktest_subtest ";

/// Characters of a line that a report shows.
const SHOWN_MAX: usize = 160;

/// A line that differs: its place in the output, what was expected, its line in the test.
struct Difference {
    text_line: usize,
    told: String,
    line: usize,
}

/// The first difference between the outputs in `folder` and those that the test expects.
///
/// # Errors
/// An output that cannot be read, though it is there.
pub fn first_difference(test: &Test, folder: &Path) -> Result<Option<Outcome>> {
    let mut names: Vec<&str> = Vec::new();
    for section in &test.expects {
        if !names.contains(&section.name.as_str()) {
            names.push(&section.name);
        }
    }
    for name in names {
        let choices = || test.expects.iter().filter(|section| section.name == name);
        let path = folder.join(name);
        if !path.is_file() {
            let line = choices().next().map_or(0, |section| section.line);
            let told = format!("{name}: was not written");
            return Ok(Some(Outcome::Failed { at: format!("line {line}"), told }));
        }
        let text = std::fs::read(&path)?;
        let ignored = Ignored::of(test, name);
        // Of several choices, that which fits longest is told.
        let mut worst: Option<Difference> = None;
        let mut is_right = false;
        for section in choices() {
            match compare(&text, section, &ignored) {
                None => is_right = true,
                Some(other) => {
                    if worst.as_ref().is_none_or(|known| other.text_line > known.text_line) {
                        worst = Some(other);
                    }
                }
            }
        }
        if let Some(Difference { text_line, told, line }) = worst.filter(|_| !is_right) {
            let told = format!("{name}:{text_line}: {told}");
            return Ok(Some(Outcome::Failed { at: format!("line {line}"), told }));
        }
    }
    Ok(None)
}

/// Lines of one output that do not count.
struct Ignored {
    /// Each pattern, and whether blanks do not count for it.
    patterns: Vec<(Pattern, bool)>,
}

impl Ignored {
    fn of(test: &Test, name: &str) -> Self {
        let mut patterns = Vec::new();
        let is_meant = |section: &&Section| section.name == name || section.name == "all";
        for section in test.ignores.iter().filter(is_meant) {
            for line in braces::text(&section.text).lines() {
                let line = match section.any_blanks {
                    true => braces::without_blanks(line),
                    false => line.to_owned(),
                };
                if line.trim().is_empty() {
                    continue;
                }
                let pattern = match section.mode {
                    Mode::Verbatim => Pattern::literal(&line, section.any_case),
                    mode => Pattern::new(&line, mode == Mode::Braces, section.any_case),
                };
                // A pattern that cannot be read leaves its lines in, where they show up.
                if let Ok(pattern) = pattern {
                    patterns.push((pattern, section.any_blanks));
                }
            }
        }
        Self { patterns }
    }

    fn holds(&self, line: &[u8]) -> bool {
        self.patterns.iter().any(|(pattern, any_blanks)| match any_blanks {
            true => pattern.fits(&braces::text(&bare(line))),
            false => [line, trim_end(line)].iter().any(|line| pattern.fits(&braces::text(line))),
        })
    }
}

fn bare(line: &[u8]) -> Vec<u8> {
    line.iter().copied().filter(|byte| !b" \t\r\x0b\x0c".contains(byte)).collect()
}

fn trim_end(line: &[u8]) -> &[u8] {
    let blanks = line.iter().rev().take_while(|byte| b" \t\r\x0b\x0c".contains(byte)).count();
    &line[..line.len() - blanks]
}

/// The lines of a text, with their numbers; blanks at line ends count for verbatim texts alone.
fn lines(text: &[u8], mode: Mode) -> Vec<(usize, &[u8])> {
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let trimmed = |line| if mode == Mode::Verbatim { line } else { trim_end(line) };
    lines.into_iter().enumerate().map(|(idx, line)| (idx, trimmed(line))).collect()
}

/// The first difference between an output and one of its choices.
fn compare(text: &[u8], section: &Section, ignored: &Ignored) -> Option<Difference> {
    let mode = section.mode;
    if text == section.text {
        return None;
    }
    let counts = |line: &(usize, &[u8])| {
        mode == Mode::Verbatim || !(line.1.is_empty() || ignored.holds(line.1))
    };
    let mut text_lines = lines(text, mode).into_iter().filter(counts).peekable();
    let is_there = |line: &(usize, &[u8])| mode == Mode::Verbatim || !line.1.is_empty();
    let mut expected = lines(&section.text, mode).into_iter().filter(is_there);
    let text_len = text.split(|&byte| byte == b'\n').count();
    let section_len = section.text.split(|&byte| byte == b'\n').count();
    loop {
        while text_lines.next_if(|(_, line)| line.starts_with(SUBTEST)).is_some() {}
        let (got, wanted) = (text_lines.next(), expected.next());
        let told = match (got, wanted) {
            (None, None) => return None,
            (None, Some((_, wanted))) => format!("expected '{}', got its end", shown(wanted)),
            (Some((_, got)), None) => format!("expected its end, got '{}'", shown(got)),
            (Some((_, got)), Some((_, wanted))) => match line_fits(got, wanted, section) {
                Ok(true) => continue,
                Ok(false) => format!("expected '{}', got '{}'", shown(wanted), shown(got)),
                Err(told) => format!("'{}' is no pattern: {told}", shown(wanted)),
            },
        };
        return Some(Difference {
            text_line: got.map_or(text_len, |(idx, _)| idx + 1),
            told,
            line: section.line + wanted.map_or(section_len - 1, |(idx, _)| idx),
        });
    }
}

fn line_fits(got: &[u8], wanted: &[u8], section: &Section) -> Result<bool, String> {
    if section.mode == Mode::Verbatim {
        return Ok(got == wanted);
    }
    let wanted_text = braces::text(wanted);
    let (got, wanted_text) = match section.any_blanks {
        true => (bare(got), braces::without_blanks(&wanted_text)),
        false => (got.to_vec(), wanted_text),
    };
    if section.mode == Mode::Regex || braces::has_braces(&wanted_text) {
        let is_literal = section.mode == Mode::Braces;
        return Ok(
            Pattern::new(&wanted_text, is_literal, section.any_case)?.fits(&braces::text(&got))
        );
    }
    let wanted = if section.any_blanks { bare(wanted) } else { wanted.to_vec() };
    Ok(got == wanted)
}

fn shown(line: &[u8]) -> String {
    let text = line.escape_ascii().to_string().replace("\\'", "'").replace("\\\"", "\"");
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clicktests::format;

    fn told(sections: &str, output: &str) -> Option<String> {
        let text = format!("%script\n:\n{sections}");
        let tests = format::parse(text.as_bytes(), Path::new("x")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("stdout"), output).unwrap();
        match first_difference(&tests[0], folder.path()).unwrap() {
            Some(Outcome::Failed { told, .. }) => Some(told),
            _ => None,
        }
    }

    #[test]
    fn outputs_are_compared() {
        let cases = [
            ("%expect\na\n\nb\n", "\na \nb\n\n", None),
            ("%expectv\na\n", "a \n", Some("stdout:1: expected 'a', got 'a '")),
            ("%expectv\na\n", "a", None),
            ("%expectx\na+\n\n(b|c)\n", "aaa\nc\n", None),
            ("%expectx\na+\n", "b\n", Some("stdout:1: expected 'a+', got 'b'")),
            ("%expect\nb\n%ignorex\n#.*\n", "# a\nb\n#c", None),
            ("%expect\nb\n%ignore stdout\n# {{.}} (x)\n", "# a (x)\nb\n", None),
            ("%expect\nb\n%ignore -w\na{{.}} c\n", "a b  c\nb\n", None),
            ("%expect\nb\n%ignorev\na.c\n", "a.c\nb\n", None),
            ("%expect\nb\n%ignorev\na.c\n", "abc\nb\n", Some("stdout:1: expected 'b', got 'abc'")),
            ("%expect -w\n a {{[b ]c}} d\n", "ab cd\n", None),
            ("%expect -i\n{{b}}\n", "B\n", None),
            ("%expect\na\nb\n%expect -a\nc\n", "c\n", None),
            ("%expect\na\nb\n%expect -a\nc\n", "a\nd\n", Some("stdout:2: expected 'b', got 'd'")),
            ("%expect\na\n", "clicktest_subtest one\na\n", None),
            ("%expect\n{{(}}\n", "a\n", Some("stdout:1: '{{(}}' is no pattern")),
            ("%expect\na\nb\n", "a\n", Some("stdout:2: expected 'b', got its end")),
        ];
        for (sections, output, expected) in cases {
            let told = told(sections, output);
            let fits = match (&told, expected) {
                (Some(told), Some(expected)) => told.starts_with(expected),
                (None, None) => true,
                _ => false,
            };
            assert!(fits, "{sections} / {output}: {told:?}");
        }
    }
}
