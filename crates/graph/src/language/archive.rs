//! `ar` archives as configurations: the member `config` is the text.
//!
//! ```text
//! !<arch>\n
//! name/16 date/12 owner/6 group/6 mode/8 size/10 `\n   data   padding to an even place
//! ```
//! Names that are too long stand elsewhere: `#1/n` says that the first n bytes of the data are the
//! name, `/n` that it starts at byte n of the member `//` (each name there ends with `/` and a line
//! feed).

use std::fmt;

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER_BYTES: usize = 60;

/// What is wrong with an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    Broken(usize),
    Missing(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Broken(at) => write!(f, "bad archive: broken header at byte {at}"),
            Problem::Missing(name) => write!(f, "archive has no '{name}' section"),
        }
    }
}

/// Whether `bytes` begin as an archive does.
pub(super) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The data of the first member called `wanted`.
pub(super) fn member<'a>(bytes: &'a [u8], wanted: &str) -> Result<&'a [u8], Problem> {
    let mut long_names: &[u8] = &[];
    let mut at = MAGIC.len();
    while at < bytes.len() {
        let header = bytes.get(at..at + HEADER_BYTES).ok_or(Problem::Broken(at))?;
        let size = number(&header[48..58]).ok_or(Problem::Broken(at))?;
        let start = at + HEADER_BYTES;
        let end = start.checked_add(size).ok_or(Problem::Broken(at))?;
        let data = bytes.get(start..end).ok_or(Problem::Broken(at))?;
        if &header[58..60] != b"`\n" {
            return Err(Problem::Broken(at));
        }
        let name = header[..16].trim_ascii_end();
        if name == b"//" {
            long_names = data;
        } else {
            let (name, data) = resolve(name, data, long_names).ok_or(Problem::Broken(at))?;
            if name == wanted.as_bytes() {
                return Ok(data);
            }
        }
        at = end + end % 2;
    }
    Err(Problem::Missing(wanted.to_owned()))
}

/// The real name and data of a member.
fn resolve<'a>(
    name: &'a [u8],
    data: &'a [u8],
    long_names: &'a [u8],
) -> Option<(&'a [u8], &'a [u8])> {
    if let Some(digits) = name.strip_prefix(b"#1/") {
        let (name, data) = data.split_at_checked(number(digits)?)?;
        return Some((name.split(|&b| b == 0).next()?, data));
    }
    if let Some(digits) = name.strip_prefix(b"/")
        && digits.first().is_some_and(u8::is_ascii_digit)
    {
        let name = long_names.get(number(digits)?..)?.split(|&b| b == b'\n').next()?;
        return Some((name.strip_suffix(b"/").unwrap_or(name), data));
    }
    Some((name.strip_suffix(b"/").unwrap_or(name), data))
}

fn number(field: &[u8]) -> Option<usize> {
    std::str::from_utf8(field.trim_ascii()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, data: &[u8]) -> Vec<u8> {
        let mut out = format!("{name:<16}{:<32}{:<10}`\n", "", data.len()).into_bytes();
        out.extend_from_slice(data);
        out.resize(out.len().next_multiple_of(2), b'\n');
        out
    }

    fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        entries.iter().for_each(|(name, data)| out.extend(entry(name, data)));
        out
    }

    #[test]
    fn the_member_is_found_under_each_way_of_naming() {
        let check = |entries: &[(&str, &[u8])], expected: Result<&[u8], Problem>| {
            let bytes = archive(entries);
            assert!(is_archive(&bytes));
            assert_eq!(member(&bytes, "config"), expected, "{entries:?}");
        };
        let missing = || Err(Problem::Missing("config".into()));
        check(&[("config", b"a -> b;")], Ok(b"a -> b;"));
        check(&[("code.o/", b"123"), ("config/", b"x")], Ok(b"x"));
        check(&[("#1/6", b"configx")], Ok(b"x"));
        check(&[("#1/8", b"config\0\0x")], Ok(b"x"));
        check(&[("//", b"long/\nconfig/\n"), ("/6", b"x")], Ok(b"x"));
        check(&[("other", b"")], missing());
        check(&[], missing());
        check(&[("#1/9", b"config")], Err(Problem::Broken(8)));
        check(&[("/99", b"config")], Err(Problem::Broken(8)));
    }

    #[test]
    fn cut_archives_are_told() {
        let whole = archive(&[("config", b"abcd")]);
        for len in MAGIC.len() + 1..whole.len() {
            assert_eq!(member(&whole[..len], "config"), Err(Problem::Broken(8)), "{len}");
        }
        let mut huge = whole;
        huge[56..66].copy_from_slice(b"9999999999");
        assert_eq!(member(&huge, "config"), Err(Problem::Broken(8)));
    }
}
