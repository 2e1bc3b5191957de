//! Words of a command line as Click's programs take them: short options that can be joined, long
//! ones that can be shortened.

use std::ffi::OsString;

/// Whether an option takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    Value,
    /// With `=` only.
    Perhaps,
}

/// An option: name, letter or NUL, what it takes, and whether `no-` turns it off.
pub type Known = (&'static str, char, Takes, bool);

/// The words of a command line, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// An option, by its full name.
    Option { name: &'static str, value: Option<OsString>, negated: bool },
    /// `NAME=VALUE`.
    Variable(String, String),
    /// Anything else.
    Name(OsString),
}

/// Reads the arguments behind the name of a program that has these options.
///
/// # Errors
/// What is wrong.
pub fn read(args: &[OsString], known: &[Known]) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut args = args.iter();
    let mut only_names = false;
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy();
        if only_names || !text.starts_with('-') || text == "-" {
            words.push(name(arg));
        } else if text == "--" {
            only_names = true;
        } else if let Some(long) = text.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(OsString::from(value))),
                None => (long, None),
            };
            let (name, takes, negated) = find_long(name, known)?;
            let value = match (takes, value) {
                (Takes::Value, None) => Some(args.next().cloned().ok_or_else(|| missing(&text))?),
                (Takes::Nothing, Some(_)) => return Err(format!("'{text}' takes no value")),
                (_, value) => value,
            };
            words.push(Word::Option { name, value, negated });
        } else {
            short(&text, &mut args, known, &mut words)?;
        }
    }
    Ok(words)
}

fn missing(option: &str) -> String {
    format!("'{option}' requires an argument")
}

/// A variable, or something else.
fn name(arg: &OsString) -> Word {
    if let Some((name, value)) = arg.to_string_lossy().split_once('=')
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    {
        return Word::Variable(name.to_owned(), value.to_owned());
    }
    Word::Name(arg.clone())
}

/// The option that `name` is the beginning of, and whether it is turned off.
fn find_long(name: &str, known: &[Known]) -> Result<(&'static str, Takes, bool), String> {
    let find = |name: &str, negated: bool| {
        let known = known.iter().filter(|(_, _, _, negates)| *negates || !negated);
        let found: Vec<_> = known.filter(|(known, ..)| known.starts_with(name)).collect();
        let exact = found.iter().find(|(known, ..)| *known == name);
        // Two names of one thing are no choice.
        let one = match found[..] {
            [one] => Some(one),
            [one, other] if one.0[..3] == other.0[..3] && one.2 == other.2 => Some(one),
            _ => exact.copied(),
        };
        one.map(|(known, _, takes, _)| (*known, *takes, negated))
    };
    let off = || name.strip_prefix("no-").and_then(|name| find(name, true));
    find(name, false).or_else(off).ok_or_else(|| format!("unrecognized option '--{name}'"))
}

/// Letters behind one `-`; the first that takes a value takes the rest.
fn short(
    text: &str,
    args: &mut std::slice::Iter<'_, OsString>,
    known: &[Known],
    words: &mut Vec<Word>,
) -> Result<(), String> {
    for (at, letter) in text[1..].char_indices() {
        let letter = if letter == 'V' { 'v' } else { letter };
        let found = known.iter().find(|(_, known, ..)| *known == letter && letter != '\0');
        let Some((name, _, takes, _)) = found else {
            return Err(format!("unrecognized option '-{letter}'"));
        };
        if *takes != Takes::Value {
            // -w turns warnings off.
            words.push(Word::Option { name, value: None, negated: letter == 'w' });
            continue;
        }
        let value = match &text[1 + at + letter.len_utf8()..] {
            "" => args.next().cloned().ok_or_else(|| missing(&format!("-{letter}")))?,
            rest => rest.into(),
        };
        words.push(Word::Option { name, value: Some(value), negated: false });
        return Ok(());
    }
    Ok(())
}
