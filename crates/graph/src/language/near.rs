//! Which known name a wrong one was meant to be.

/// The name among `known` that `name` is but for one edit (a letter put in, left out, changed, or
/// two swapped) or the case of its letters; of several the first in alphabetical order, those that
/// differ in case alone before all others.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // A name of two letters is one edit from too many.
    let near = known.into_iter().filter(|other| other.len() > 2 && is_near(name, other));
    near.min_by_key(|other| (!name.eq_ignore_ascii_case(other), *other))
}

fn is_near(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let is_same = |(x, y): &(&u8, &u8)| x.eq_ignore_ascii_case(y);
    let head = a.iter().zip(b).take_while(is_same).count();
    let rest = (&a[head..], &b[head..]);
    let tail = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(is_same).count();
    let middle = (&rest.0[..rest.0.len() - tail], &rest.1[..rest.1.len() - tail]);
    match middle {
        ([x, y], [z, w]) => is_same(&(x, w)) && is_same(&(y, z)),
        (a, b) => a.len() <= 1 && b.len() <= 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_edit_away() {
        let known = ["LIMIT", "LIMITS", "STOP", "BURST", "IP"];
        for (name, expected) in [
            ("limit", Some("LIMIT")),
            ("LIMTI", Some("LIMIT")),
            ("LIMI", Some("LIMIT")),
            ("stopp", Some("STOP")),
            ("BRUST", Some("BURST")),
            ("BURTTS", None),
            ("IQ", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
    }
}
