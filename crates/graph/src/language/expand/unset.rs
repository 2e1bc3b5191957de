//! Variables that stand in arguments as they are written, because nothing gives them a value.

use std::collections::BTreeSet;
use std::ops::Range;

use super::super::args::split::split_args;
use super::super::diagnostic::Diagnostic;
use super::super::source::{Span, offset};
use super::super::token::{skip_data, skip_quote};
use super::{FlatElement, FlatGraph};

impl FlatGraph {
    /// The variables that no definition, no argument of a compound and no command line gives a
    /// value, with a warning each where it is used first. What stands in quotes does not count, nor
    /// what is in arguments that have variables of their own, as `is_program` says.
    pub fn unset_variables(
        &self,
        is_program: impl Fn(&FlatElement, &str) -> bool,
    ) -> Vec<(String, Diagnostic)> {
        // A value from outside may hold what looks like a variable, and is left alone.
        let written: BTreeSet<&str> = self.sources.variables().collect();
        let (mut told, mut unset) = (BTreeSet::new(), Vec::new());
        for (idx, element) in self.elements.iter().enumerate() {
            if !element.config.contains('$') {
                continue;
            }
            let args = split_args(&element.config);
            for (at, arg) in args.iter().enumerate().filter(|(_, arg)| !is_program(element, arg)) {
                for (_, name) in references(arg) {
                    if written.contains(name) && told.insert(name.to_owned()) {
                        let place = self.reference_span(idx, name, (at, args.len()));
                        unset.push((name.to_owned(), self.unset(place, name)));
                    }
                }
            }
        }
        unset
    }

    fn unset(&self, place: Span, name: &str) -> Diagnostic {
        let warning = self.sources.error(place, format!("nothing gives ${name} a value")).warning();
        let help =
            format!("define it, define(${name} VALUE), or say {name}=VALUE on the command line");
        warning.help(help)
    }

    /// Where the variable `name` is written in argument `at` of so many of element `idx`; where it
    /// came there through a compound, the whole argument.
    fn reference_span(&self, idx: usize, name: &str, (at, args): (usize, usize)) -> Span {
        let spans = self.argument_spans(idx);
        let Some(&arg) = spans.get(at).filter(|_| spans.len() == args) else {
            return self.elements[idx].landmark.span;
        };
        let found =
            references(self.sources.text(arg)).into_iter().find(|(_, other)| *other == name);
        let span = |(range, _): (Range<usize>, &str)| Span {
            start: arg.start + offset(range.start),
            end: arg.start + offset(range.end),
            ..arg
        };
        found.map_or(arg, span)
    }
}

/// The variables `$name` and `${name}` of a text that are not in quotes, and where they stand.
/// Names begin with a letter: `$5` may be a price.
fn references(text: &str) -> Vec<(Range<usize>, &str)> {
    let bytes = text.as_bytes();
    let (mut at, mut found) = (0, Vec::new());
    while let Some(&byte) = bytes.get(at) {
        at = match (byte, bytes.get(at + 1)) {
            (b'"' | b'\'', _) => skip_quote(text, at),
            (b'\\', Some(b'<')) => skip_data(text, at),
            (b'\\', Some(_)) => at + 2,
            (b'$', next) => {
                let is_braced = next == Some(&b'{');
                let start = at + 1 + usize::from(is_braced);
                let is_part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
                let len = bytes[start..].iter().take_while(|b| is_part(b)).count();
                let name = &text[start..start + len];
                let end = start + len + usize::from(is_braced);
                let is_closed = !is_braced || bytes.get(end - 1) == Some(&b'}');
                if is_closed && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                    found.push((at..end, name));
                }
                start + len
            }
            _ => at + 1,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_stand_outside_of_quotes() {
        let check = |text: &str, expected: &[(usize, &str)]| {
            let found = references(text);
            let found: Vec<_> = found.iter().map(|(range, name)| (range.start, *name)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("$OUT", &[(0, "OUT")]);
        check("é$a.${b_1}$", &[(2, "a"), (5, "b_1")]);
        check("$(add $n 1)", &[(6, "n")]);
        check("\"$a\" '$b' \\$c \\<$d> $5 ${e ${f[0]} ${} ${", &[]);
        check("\\é$a", &[(3, "a")]);
    }
}
