//! Handlers that the command line names, read after the run.

use warpswitch_graph::language::args::split::uncomment;
use warpswitch_graph::language::args::{FromArg, NoNames};
use warpswitch_graph::{HandlerError, Router};

use warpswitch_runtime::Environment;

/// The exit code that Click gives for an exit handler that fails.
const EXIT_FAILED: u8 = 255;

/// Prints what each of `names` answers. Returns whether all did.
pub fn print_all(router: &mut Router, names: &[String], environment: &Environment) -> bool {
    let has_heading = names.len() > 1;
    let mut is_right = true;
    for name in names {
        let Some((element, handler)) = name.split_once('.') else {
            is_right &= print_one(router, name, has_heading, environment);
            continue;
        };
        match elements(router, element, handler) {
            Ok((found, is_set)) => {
                for full_name in found {
                    is_right &= print_one(router, &full_name, has_heading || is_set, environment);
                }
            }
            Err(error) => {
                environment.message(&error);
                is_right = false;
            }
        }
    }
    is_right
}

/// The handlers that `element.handler` names, the element being one, a pattern, or a class; and
/// whether it is one of the latter.
fn elements(
    router: &mut Router,
    element: &str,
    handler: &str,
) -> Result<(Vec<String>, bool), String> {
    let known = router.graph().elements.iter();
    let known: Vec<(String, String)> =
        known.map(|element| (element.name.clone(), element.class.clone())).collect();
    if known.iter().any(|(name, _)| name == element) {
        return Ok((vec![format!("{element}.{handler}")], false));
    }
    let is_pattern = element.contains(['?', '*', '[']);
    let is_meant = |(name, class): &&(String, String)| match is_pattern {
        true => matches(name.as_bytes(), element.as_bytes()),
        false => class == element,
    };
    let meant: Vec<String> =
        known.iter().filter(is_meant).map(|(name, _)| format!("{name}.{handler}")).collect();
    if meant.is_empty() {
        let what = if is_pattern { "element matching" } else { "element" };
        return Err(format!("no {what} '{element}'"));
    }
    let can_be_read =
        |name: &String| router.handler(name).is_ok_and(|spec| spec.read && !spec.hidden);
    Ok((meant.into_iter().filter(can_be_read).collect(), true))
}

fn print_one(
    router: &mut Router,
    name: &str,
    has_heading: bool,
    environment: &Environment,
) -> bool {
    let spec = match router.handler(name) {
        Ok(spec) if !spec.hidden => spec,
        _ => {
            environment.message(&format!("no '{name}' handler"));
            return false;
        }
    };
    if !spec.read {
        environment.message(&format!("'{name}' is a write handler"));
        return false;
    }
    if has_heading {
        environment.print(format!("{name}:\n").as_bytes());
    }
    let answer = match router.read(name) {
        Ok(answer) => answer,
        Err(error) => {
            environment.message(&error.to_string());
            String::new()
        }
    };
    environment.print(answer.as_bytes());
    if !spec.raw && !answer.is_empty() && !answer.ends_with('\n') {
        environment.print(b"\n");
    }
    if has_heading {
        environment.print(b"\n");
    }
    true
}

/// The exit code that a read handler gives: a number, or whether all is well.
pub fn exit_code(router: &mut Router, text: &str, environment: &Environment) -> u8 {
    let answer = match router.read(text) {
        Ok(answer) => uncomment(&answer),
        Err(error) => {
            let name = text.split_ascii_whitespace().next().unwrap_or_default();
            environment.message(&match error {
                HandlerError::Missing | HandlerError::NotReadable => {
                    format!("no '{name}' read handler")
                }
                error => error.to_string(),
            });
            return EXIT_FAILED;
        }
    };
    if let Ok(code) = i32::from_arg(&answer, &NoNames) {
        return (code & 0xff) as u8;
    }
    match bool::from_arg(&answer, &NoNames) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(_) => {
            environment.message("exit handler value should be integer");
            EXIT_FAILED
        }
    }
}

/// Whether `name` matches `pattern`: `?` any character, `*` any text, `[a-z]` one of these.
fn matches(name: &[u8], pattern: &[u8]) -> bool {
    // Where to go on should the rest not fit: behind the last star, one character later.
    let (mut at, mut from, mut again) = (0, 0, None);
    loop {
        if pattern.get(from) == Some(&b'*') {
            from += 1;
            again = Some((at, from));
            continue;
        }
        if at == name.len() && from == pattern.len() {
            return true;
        }
        let step = name.get(at).and_then(|c| one_matches(*c, &pattern[from..]));
        match (step, again) {
            (Some(len), _) => (at, from) = (at + 1, from + len),
            (None, Some((start, behind))) if start < name.len() => {
                again = Some((start + 1, behind));
                (at, from) = (start + 1, behind);
            }
            _ => return false,
        }
    }
}

/// Whether `c` is what `pattern` begins with, and how long that is.
fn one_matches(c: u8, pattern: &[u8]) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            let end = rest.iter().skip(1).position(|b| *b == b']')? + 1;
            let (set, is_negated) = match &rest[..end] {
                [b'^' | b'!', set @ ..] if !set.is_empty() => (set, true),
                set => (set, false),
            };
            let mut is_in = false;
            let mut at = 0;
            while at < set.len() {
                if let [low, b'-', high, ..] = set[at..] {
                    is_in |= (low..=high).contains(&c);
                    at += 3;
                } else {
                    is_in |= set[at] == c;
                    at += 1;
                }
            }
            (is_in != is_negated).then_some(end + 2)
        }
        [b'\\', literal, ..] => (*literal == c).then_some(2),
        [literal, ..] => (*literal == c).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn names_match_patterns() {
        let cases = [
            ("counter1", "counter?", true),
            ("counter1", "c*1", true),
            ("counter1", "c*2", false),
            ("abcabd", "*ab[cd]", true),
            ("a", "[b-d]", false),
            ("a", "[^b-d]", true),
            ("a]", "a]", true),
            ("", "*", true),
            ("a", "", false),
            ("a*", "a\\*", true),
            ("aaaaaaaaaaaaaaaaaaaaaaaaab", "*a*a*a*a*a*a*c", false),
        ];
        for (name, pattern, expected) in cases {
            assert_eq!(matches(name.as_bytes(), pattern.as_bytes()), expected, "{name} {pattern}");
        }
    }
}
