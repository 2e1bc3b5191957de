//! Which known name a wrong one was meant to be.

/// The known name that is nearest to `name`: letters that are left out, too many, others, or two in
/// the wrong order, one in three of them at most; of several the first.
///
/// Cost: the product of both lengths for each known name whose length is near; names of more than
/// 64 bytes have none.
pub(super) fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let most = name.len().div_ceil(3).min(EDITS_MAX);
    let near = known.into_iter().filter(|other| other.len().abs_diff(name.len()) <= most);
    let far = near.map(|other| (edits(name.as_bytes(), other.as_bytes()), other));
    let (_, other) = far.filter(|&(edits, _)| edits <= most).min_by_key(|&(edits, _)| edits)?;
    Some(other)
}

/// The longest name that is looked at.
const NAME_BYTES_MAX: usize = 64;
/// The most letters that may be wrong.
const EDITS_MAX: usize = 3;

/// How many letters have to be put in, left out, changed, or swapped with the next one; letters of
/// either case are the same.
///
/// Source: F. J. Damerau, "A technique for computer detection and correction of spelling errors",
/// CACM 7(3), 1964, with each place changed once.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let same = |i: usize, j: usize| a[i].eq_ignore_ascii_case(&b[j]);
    // Row i: from the first i letters of `a` to those of `b`.
    let (mut two_before, mut before) = (Vec::new(), (0..=b.len()).collect::<Vec<usize>>());
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let changed = before[j] + usize::from(!same(i, j));
            let mut least = changed.min(before[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && same(i, j - 1) && same(i - 1, j) {
                let swapped: &Vec<usize> = &two_before;
                least = least.min(swapped[j - 1] + 1);
            }
            row.push(least);
        }
        two_before = std::mem::replace(&mut before, row);
    }
    before[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_letters_are_counted() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "ABC", 0),
            ("contnet", "content", 1),
            ("conten", "content", 1),
            ("kontents", "content", 2),
            ("ca", "abc", 3),
        ] {
            assert_eq!(edits(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
            assert_eq!(edits(b.as_bytes(), a.as_bytes()), expected, "{b} {a}");
        }
    }

    #[test]
    fn the_nearest_name_is_not_too_far() {
        let known = ["HOME_NET", "HTTP_PORTS", "sid"];
        assert_eq!(nearest("HOMENET", known), Some("HOME_NET"));
        assert_eq!(nearest("home_net", known), Some("HOME_NET"));
        assert_eq!(nearest("HTTP_PROTS", known), Some("HTTP_PORTS"));
        assert_eq!(nearest("sdi", known), Some("sid"));
        assert_eq!(nearest("EXTERNAL_NET", known), None);
        assert_eq!(nearest(&"sid".repeat(100), known), None);
        assert_eq!(nearest("", known), None);
    }
}
