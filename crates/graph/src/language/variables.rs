//! Variables in configuration strings.
//!
//! | form | means |
//! | --- | --- |
//! | `$v`, `${v}` | the value of `v`; as it stands if there is no such variable |
//! | `${v-text}` | the value of `v`, or `text` if there is none |
//! | `${v[i]}` | word `i` of the value, counted from 0; nothing if there are fewer |
//!
//! Nothing is replaced within `'…'`, comments and `\<…>`, nor behind a backslash. Within `"…"` the
//! value is escaped so that the quoted text holds it as it is. `$(…)` is left to scripts.
//!
//! # Invariants
//! - V1: values are substituted once and not read again, so no variable can refer to itself; the
//!   text of a default and of an index is read at most [`DEPTH_MAX`] levels deep.
//! - V2: a result never exceeds the limit that is given: variables that double each other are
//!   refused, not followed.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::args::split::{escape_quoted, split_words};
use super::token::{skip_data, skip_quote};

/// The most levels of `${v-${w-…}}`.
const DEPTH_MAX: usize = 10;

/// The variables of a scope, and the scope around it.
#[derive(Clone, Debug, Default)]
pub(super) struct Env {
    pub(super) values: BTreeMap<String, String>,
    pub(super) parent: Option<Rc<Env>>,
    /// Compounds around the scope, by where it is written.
    pub(super) depth: usize,
}

impl Env {
    /// The innermost value of a variable.
    fn get(&self, name: &str) -> Option<&str> {
        let mut env = Some(self);
        while let Some(here) = env {
            if let Some(value) = here.values.get(name) {
                return Some(value);
            }
            env = here.parent.as_deref();
        }
        None
    }
}

/// The innermost scope around a compound that is written at `depth`.
pub(super) fn scope_around(env: &Rc<Env>, depth: usize) -> Rc<Env> {
    let mut env = env.clone();
    while env.depth >= depth {
        match env.parent.clone() {
            Some(parent) => env = parent,
            None => break,
        }
    }
    env
}

/// A result that would exceed its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge;

/// `text` with its variables replaced, at most `limit` bytes.
pub(super) fn substitute(text: &str, env: &Env, limit: usize) -> Result<String, TooLarge> {
    let mut out = Output { text: String::new(), limit };
    expand(text, env, &mut out, 0)?;
    Ok(out.text)
}

struct Output {
    text: String,
    limit: usize,
}

impl Output {
    fn push(&mut self, text: &str) -> Result<(), TooLarge> {
        if self.text.len() + text.len() > self.limit {
            return Err(TooLarge);
        }
        self.text.push_str(text);
        Ok(())
    }
}

fn expand(text: &str, env: &Env, out: &mut Output, depth: usize) -> Result<(), TooLarge> {
    let bytes = text.as_bytes();
    let (mut at, mut copied, mut quoted) = (0, 0, false);
    let mut braces = Braces::default();
    while let Some(&byte) = bytes.get(at) {
        at = match (byte, bytes.get(at + 1)) {
            (b'"', _) => {
                quoted = !quoted;
                at + 1
            }
            (b'\'', _) if !quoted => skip_quote(text, at),
            (b'\\', Some(b'<')) => skip_data(text, at),
            (b'\\', Some(_)) => at + 2,
            (b'/', Some(b'/')) if !quoted => {
                text[at..].find(['\n', '\r']).map_or(text.len(), |len| at + len)
            }
            (b'/', Some(b'*')) if !quoted => {
                text[at + 2..].find("*/").map_or(text.len(), |len| at + len + 4)
            }
            (b'$', _) => match reference(text, at, &mut braces) {
                None => at + 1,
                Some(found) => {
                    out.push(&text[copied..at])?;
                    let whole = &text[at..found.end];
                    match found.value(env, out.limit, depth)? {
                        None => out.push(whole)?,
                        Some(value) if quoted => out.push(&escape_quoted(value.as_bytes()))?,
                        Some(value) => out.push(&value)?,
                    }
                    copied = found.end;
                    found.end
                }
            },
            _ => at + 1,
        };
    }
    out.push(&text[copied.min(text.len())..])
}

/// A variable as it is written.
struct Reference<'a> {
    name: &'a str,
    index: Option<&'a str>,
    default: Option<&'a str>,
    /// Where it ends.
    end: usize,
}

/// The reference that starts with the `$` at `at`, if it is one.
fn reference<'t>(text: &'t str, at: usize, braces: &mut Braces) -> Option<Reference<'t>> {
    let name_len =
        |text: &str| text.bytes().take_while(|&b| b.is_ascii_alphanumeric() || b == b'_').count();
    let rest = &text[at + 1..];
    if !rest.starts_with('{') {
        let len = name_len(rest);
        let reference =
            Reference { name: &rest[..len], index: None, default: None, end: at + 1 + len };
        return (len > 0).then_some(reference);
    }
    let close = braces.closing(text, at + 1)?;
    let (body, end) = (&text[at + 2..close], close + 1);
    let (name, rest) = body.split_at(name_len(body));
    let (index, rest) = match rest.strip_prefix('[') {
        Some(rest) => {
            let close = rest.find(']')?;
            (Some(&rest[..close]), &rest[close + 1..])
        }
        None => (None, rest),
    };
    let default = match rest {
        "" => None,
        rest => Some(rest.strip_prefix('-')?),
    };
    (!name.is_empty()).then_some(Reference { name, index, default, end })
}

/// The braces of a text, found once: texts of many that are not closed take no longer.
#[derive(Default)]
struct Braces(Option<HashMap<usize, usize>>);

impl Braces {
    /// The place of the brace that closes the one at `open`.
    fn closing(&mut self, text: &str, open: usize) -> Option<usize> {
        let pairs = self.0.get_or_insert_with(|| {
            let (mut pairs, mut opened) = (HashMap::new(), Vec::new());
            for (at, byte) in text.bytes().enumerate() {
                match byte {
                    b'{' => opened.push(at),
                    b'}' => pairs.extend(opened.pop().map(|open| (open, at))),
                    _ => {}
                }
            }
            pairs
        });
        pairs.get(&open).copied()
    }
}

impl Reference<'_> {
    /// What it stands for; none if it is to be left as it is.
    fn value(&self, env: &Env, limit: usize, depth: usize) -> Result<Option<String>, TooLarge> {
        if depth >= DEPTH_MAX {
            return Ok(None);
        }
        let inner = |text: &str| -> Result<String, TooLarge> {
            let mut out = Output { text: String::new(), limit };
            expand(text, env, &mut out, depth + 1)?;
            Ok(out.text)
        };
        let value = match (env.get(self.name), self.default) {
            (Some(value), _) => value.to_owned(),
            (None, Some(default)) => inner(default)?,
            (None, None) => return Ok(None),
        };
        let Some(index) = self.index else { return Ok(Some(value)) };
        let Ok(index) = inner(index)?.trim().parse::<usize>() else { return Ok(None) };
        Ok(Some(split_words(&value).into_iter().nth(index).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(values: &[(&str, &str)]) -> Env {
        let values = values.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        Env { values, ..Env::default() }
    }

    #[test]
    fn each_form_is_replaced() {
        let env =
            env(&[("a", "A B C"), ("n", "2"), ("q", "say \"x\""), ("s", "$n"), ("ab", "long")]);
        let check = |text: &str, expected: &str| {
            assert_eq!(substitute(text, &env, 1_000).as_deref(), Ok(expected), "{text}");
        };
        check("$a", "A B C");
        check("${a}$n", "A B C2");
        check("$ab", "long");
        check("${a[0]} ${a[$n]} ${a[3]}.", "A C .");
        check("$x ${x} ${x-} ${x-d$n} ${x-${y-z}}", "$x ${x}  d2 z");
        check("${a[x]} ${} $ $", "${a[x]} ${} $ $");
        check(
            "'$a' \"$a\" \\$a \\<$a> // $a\n/* $a */ $n",
            "'$a' \"A B C\" \\$a \\<$a> // $a\n/* $a */ 2",
        );
        check("\"$q '$n'\" $q", "\"say \\\"x\\\" '2'\" say \"x\"");
        check("\"//$n\"", "\"//2\"");
        check("$s $(add $n 1)", "$n $(add 2 1)");
        check("${a", "${a");
        check("é$né", "é2é");
        check("\"\\", "\"\\");
    }

    #[test]
    fn growth_and_depth_are_bounded() {
        let env = env(&[("a", "0123456789")]);
        assert_eq!(substitute("$a$a", &env, 19), Err(TooLarge));
        assert!(substitute("$a$a", &env, 20).is_ok());
        let deep = format!("{}z{}", "${x-".repeat(100_000), "}".repeat(100_000));
        assert!(substitute(&deep, &env, 1 << 20).is_ok());
        // Quadratic, this would not end in a minute.
        let open = "${x-".repeat(1 << 20);
        assert_eq!(substitute(&open, &env, 1 << 23).as_deref(), Ok(&*open));
    }

    #[test]
    fn inner_scopes_come_first() {
        let outer = Rc::new(env(&[("a", "1"), ("b", "2")]));
        let inner = Rc::new(Env { parent: Some(outer.clone()), depth: 1, ..env(&[("a", "3")]) });
        assert_eq!(substitute("$a$b", &inner, 10).as_deref(), Ok("32"));
        assert!(Rc::ptr_eq(&scope_around(&inner, 1), &outer));
        assert!(Rc::ptr_eq(&scope_around(&inner, 2), &inner));
    }
}
