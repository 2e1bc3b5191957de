//! Text notation of IP and TCP options.
//!
//! ```text
//! rr{1.0.0.1,1.0.0.2}+5     record route: recorded addresses, and free slots
//! ssrr{1.0.0.1^1.0.0.2}     source routes; ^ is the pointer
//! ts{1,!45}+2++3            times: ! is the top bit; free slots; overflow count
//! ts.ip{1.0.0.1=5}  ts.preip{1.0.0.1=5^1.0.0.2}
//! mss1400  wscale10  sackok  sack95-98  ts66:38       TCP options
//! 98  99=0:5:10             any other option, with its bytes
//! ```
//! Options are separated by `;`. `?` marks invalid options, `.` no options.

use std::fmt::Write;

/// The most bytes of options that a header has room for.
pub(crate) const OPTIONS_BYTES_MAX: usize = 40;

const END: u8 = 0;
const NOP: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIME: u8 = 68;
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;

const TCP_MSS: u8 = 2;
const TCP_WSCALE: u8 = 3;
const TCP_SACK_OK: u8 = 4;
const TCP_SACK: u8 = 5;
const TCP_TIME: u8 = 8;

/// Which TCP options are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All.
    All,
    /// All but padding and the timestamp.
    NoTime,
    /// Those of selective acknowledgment.
    Sack,
}

impl Which {
    fn holds(self, kind: u8) -> bool {
        match self {
            Which::All => true,
            Which::NoTime => kind > NOP && kind != TCP_TIME,
            Which::Sack => matches!(kind, TCP_SACK_OK | TCP_SACK),
        }
    }
}

/// An option, padding not counted: its kind, and all of its bytes.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = Result<(u8, &'a [u8]), ()>;

    fn next(&mut self) -> Option<Self::Item> {
        while let [NOP, rest @ ..] = self.0 {
            self.0 = rest;
        }
        let kind = *self.0.first().filter(|kind| **kind != END)?;
        let len = self.0.get(1).map_or(0, |len| usize::from(*len));
        if len < 2 || len > self.0.len() {
            self.0 = &[];
            return Some(Err(()));
        }
        let (option, rest) = self.0.split_at(len);
        self.0 = rest;
        Some(Ok((kind, option)))
    }
}

/// Writes `options` one by one; `.` for none, `?` if one is wrong.
fn write_all(
    options: &[u8],
    out: &mut String,
    mut write: impl FnMut(u8, &[u8], &mut String) -> Result<(), ()>,
) {
    let start = out.len();
    for option in Options(options) {
        let before = out.len();
        if before > start {
            out.push(';');
        }
        let separated = out.len();
        let written = option.and_then(|(kind, option)| write(kind, option, out));
        if written.is_err() {
            out.truncate(start);
            return out.push('?');
        }
        if out.len() == separated {
            out.truncate(before);
        }
    }
    if out.len() == start {
        out.push('.');
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn write_address(bytes: &[u8], out: &mut String) {
    let _ = write!(out, "{}", std::net::Ipv4Addr::from(word(bytes)));
}

fn write_other(kind: u8, option: &[u8], out: &mut String) {
    let _ = write!(out, "{kind}");
    for (at, byte) in option[2..].iter().enumerate() {
        let _ = write!(out, "{}{byte}", if at == 0 { '=' } else { ':' });
    }
}

/// Writes the options of an IP header.
pub(crate) fn write_ip(options: &[u8], out: &mut String) {
    write_all(options, out, |kind, option, out| {
        let name = match kind {
            RECORD_ROUTE => "rr",
            LOOSE_ROUTE => "lsrr",
            STRICT_ROUTE => "ssrr",
            TIME => return write_times(option, out),
            _ => {
                write_other(kind, option, out);
                return Ok(());
            }
        };
        let pointer = usize::from(*option.get(2).filter(|pointer| **pointer >= 4).ok_or(())?) - 1;
        out.push_str(name);
        out.push('{');
        let (mut at, mut separator) = (3, "");
        while at + 4 <= option.len() {
            if at == pointer {
                if kind == RECORD_ROUTE {
                    break;
                }
                separator = "^";
            }
            out.push_str(separator);
            write_address(&option[at..], out);
            separator = ",";
            at += 4;
        }
        if at == option.len() && at == pointer && kind != RECORD_ROUTE {
            out.push('^');
        }
        out.push('}');
        if at < option.len() && at == pointer && kind == RECORD_ROUTE {
            let _ = write!(out, "+{}", (option.len() - at) / 4);
        }
        Ok(())
    });
}

/// Writes an IP timestamp option.
fn write_times(option: &[u8], out: &mut String) -> Result<(), ()> {
    let [_, _, pointer, flags, ..] = *option else { return Err(()) };
    if pointer < 5 {
        return Err(());
    }
    let (pointer, flag) = (usize::from(pointer) - 1, flags & 15);
    let has_address = flag != 0;
    let entry_bytes = if has_address { 8 } else { 4 };
    match flag {
        0 => out.push_str("ts{"),
        1 => out.push_str("ts.ip{"),
        3 => out.push_str("ts.preip{"),
        other => _ = write!(out, "ts.{other}{{"),
    }
    let (mut at, mut separator) = (4, "");
    while at + entry_bytes <= option.len() {
        if at == pointer {
            if flag != 3 {
                break;
            }
            separator = "^";
        }
        out.push_str(separator);
        separator = ",";
        if has_address {
            write_address(&option[at..], out);
        }
        if flag != 3 || at < pointer {
            let time = word(&option[at + entry_bytes - 4..]);
            let equals = if has_address { "=" } else { "" };
            let mark = if time >> 31 == 1 { "!" } else { "" };
            let _ = write!(out, "{equals}{mark}{}", time & 0x7fff_ffff);
        }
        at += entry_bytes;
    }
    if at == option.len() && at == pointer {
        out.push('^');
    }
    out.push('}');
    if at + entry_bytes <= option.len() && at == pointer {
        let _ = write!(out, "+{}", (option.len() - at) / entry_bytes);
    }
    if flags >> 4 != 0 {
        let _ = write!(out, "++{}", flags >> 4);
    }
    Ok(())
}

/// Writes the options of a TCP header.
pub(crate) fn write_tcp(options: &[u8], which: Which, out: &mut String) {
    write_all(options, out, |kind, option, out| {
        let is_right = match kind {
            TCP_MSS => option.len() == 4,
            TCP_WSCALE => option.len() == 3,
            TCP_SACK_OK => option.len() == 2,
            TCP_SACK => option.len() % 8 == 2,
            TCP_TIME => option.len() == 10,
            _ => true,
        };
        if !is_right {
            return Err(());
        }
        if !which.holds(kind) {
            return Ok(());
        }
        let body = &option[2..];
        match kind {
            TCP_MSS => _ = write!(out, "mss{}", u16::from_be_bytes([body[0], body[1]])),
            TCP_WSCALE => _ = write!(out, "wscale{}", body[0]),
            TCP_SACK_OK => out.push_str("sackok"),
            TCP_SACK => {
                for (at, block) in body.chunks(8).enumerate() {
                    let separator = if at == 0 { "" } else { ";" };
                    let _ = write!(out, "{separator}sack{}-{}", word(block), word(&block[4..]));
                }
            }
            TCP_TIME => _ = write!(out, "ts{}:{}", word(body), word(&body[4..])),
            _ => write_other(kind, option, out),
        }
        Ok(())
    });
}

/// The options of a TCP header that are meant, as bytes.
pub(crate) fn select_tcp(options: &[u8], which: Which) -> Vec<u8> {
    if which == Which::All {
        return options.to_vec();
    }
    let options = Options(options).map_while(Result::ok);
    options.filter(|(kind, _)| which.holds(*kind)).flat_map(|(_, bytes)| bytes).copied().collect()
}

/// A place in text.
struct Cursor<'t>(&'t [u8]);

impl Cursor<'_> {
    fn eat(&mut self, text: &str) -> bool {
        let rest = self.0.strip_prefix(text.as_bytes());
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn is_at_digit(&self) -> bool {
        self.0.first().is_some_and(u8::is_ascii_digit)
    }

    /// A decimal number of at most `max`.
    fn number(&mut self, max: u32) -> Option<u32> {
        let len = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(len);
        let value: u32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        self.0 = rest;
        (value <= max).then_some(value)
    }

    fn address(&mut self, out: &mut Vec<u8>) -> Option<()> {
        for part in 0..4 {
            if part > 0 && !self.eat(".") {
                return None;
            }
            out.push(self.number(255)? as u8);
        }
        Some(())
    }
}

/// Reads options with `one` that reads one, and sees that they fit a header.
fn read_all(
    text: &str,
    mut one: impl FnMut(&mut Cursor<'_>, &mut Vec<u8>) -> Option<()>,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    if text.is_empty() || text == "." {
        return Some(out);
    }
    let mut cursor = Cursor(text.as_bytes());
    loop {
        if cursor.eat("nop") {
            out.push(NOP);
        } else if cursor.eat("eol") {
            out.push(END);
        } else {
            one(&mut cursor, &mut out)?;
        }
        if cursor.0.is_empty() {
            break;
        }
        if !cursor.eat(";") && !cursor.eat(",") {
            return None;
        }
    }
    // Padding in front gives way.
    while out.len() > OPTIONS_BYTES_MAX && out[0] == NOP {
        out.remove(0);
    }
    (out.len() <= OPTIONS_BYTES_MAX).then_some(out)
}

/// Reads `98` or `99=0:5:10`.
fn read_other(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let kind = cursor.number(255)?;
    let start = out.len();
    out.extend([kind as u8, 2]);
    let mut separator = "=";
    while cursor.eat(separator) {
        out.push(cursor.number(255)? as u8);
        separator = ":";
    }
    set_len(out, start)
}

fn set_len(out: &mut [u8], start: usize) -> Option<()> {
    out[start + 1] = u8::try_from(out.len() - start).ok()?;
    Some(())
}

/// Reads the options of an IP header; none if they are wrong or too many.
pub(crate) fn read_ip(text: &str) -> Option<Vec<u8>> {
    read_all(text, |cursor, out| {
        let routes = [("rr{", RECORD_ROUTE), ("ssrr{", STRICT_ROUTE), ("lsrr{", LOOSE_ROUTE)];
        for (name, kind) in routes {
            if cursor.eat(name) {
                return read_route(kind, cursor, out);
            }
        }
        if cursor.eat("ts{") {
            return read_times(None, cursor, out);
        }
        if cursor.eat("ts.") {
            let flag = if cursor.eat("ip") {
                1
            } else if cursor.eat("preip") {
                3
            } else {
                cursor.number(15)? as u8
            };
            return cursor
                .eat("{")
                .then_some(())
                .and_then(|()| read_times(Some(flag), cursor, out));
        }
        read_other(cursor, out)
    })
}

/// Reads a route from behind its `{`.
fn read_route(kind: u8, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend([kind, 0, 0]);
    let mut pointer = None;
    loop {
        if pointer.is_none() && cursor.eat("^") {
            pointer = Some(out.len() - start + 1);
        }
        if !cursor.is_at_digit() {
            break;
        }
        cursor.address(out)?;
        cursor.eat(",");
    }
    if !cursor.eat("}") {
        return None;
    }
    out[start + 2] = u8::try_from(pointer.unwrap_or(out.len() - start + 1)).ok()?;
    if cursor.eat("+") {
        out.resize(out.len() + cursor.number(63)? as usize * 4, 0);
    }
    set_len(out, start)
}

/// Reads timestamps after their `{`. Without a `flag`, the first entry determines their format.
fn read_times(flag: Option<u8>, cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.extend([TIME, 0, 0, 0]);
    let looks_like_address = |cursor: &Cursor<'_>| {
        let len = cursor.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        cursor.0.get(len) == Some(&b'.')
    };
    let is_known = flag.is_some();
    let mut flag = flag.unwrap_or(u8::from(looks_like_address(cursor)));
    let mut pointer = None;
    loop {
        if pointer.is_none() && cursor.eat("^") {
            pointer = Some(out.len() - start + 1);
        }
        if !cursor.is_at_digit() && !cursor.0.starts_with(b"!") {
            break;
        }
        let has_address = flag != 0;
        if has_address {
            cursor.address(out)?;
            if pointer.is_some() && !is_known {
                flag = 3;
            }
        }
        // Entries behind the pointer have no time yet.
        let is_open = has_address && pointer.is_some();
        let has_time = !has_address || cursor.eat("=");
        if is_open && (!has_time || cursor.eat("?")) {
            out.extend([0; 4]);
        } else if has_time {
            let top = u32::from(cursor.eat("!")) << 31;
            out.extend((cursor.number(u32::MAX)? | top).to_be_bytes());
        } else {
            return None;
        }
        cursor.eat(",");
    }
    if !cursor.eat("}") {
        return None;
    }
    out[start + 2] = u8::try_from(pointer.unwrap_or(out.len() - start + 1)).ok()?;
    if !cursor.0.starts_with(b"++") && cursor.eat("+") {
        let entry_bytes = if flag == 0 { 4 } else { 8 };
        out.resize(out.len() + cursor.number(63)? as usize * entry_bytes, 0);
    }
    let overflow = if cursor.eat("++") { cursor.number(15)? as u8 } else { 0 };
    out[start + 3] = overflow << 4 | flag;
    set_len(out, start)
}

/// Reads the options of a TCP header; none if they are wrong, too many, or not meant.
pub(crate) fn read_tcp(text: &str, which: Which) -> Option<Vec<u8>> {
    read_all(text, |cursor, out| {
        let start = out.len();
        if cursor.eat("mss") {
            out.extend([TCP_MSS, 4]);
            out.extend((cursor.number(0xffff)? as u16).to_be_bytes());
        } else if cursor.eat("wscale") {
            out.extend([TCP_WSCALE, 3, cursor.number(255)? as u8]);
        } else if cursor.eat("sackok") {
            out.extend([TCP_SACK_OK, 2]);
        } else if cursor.eat("sack") {
            out.extend([TCP_SACK, 0]);
            loop {
                read_pair(cursor, out)?;
                if !cursor.eat(",sack") {
                    break;
                }
            }
            set_len(out, start)?;
        } else if cursor.eat("ts") {
            // In front of all, it lies on a word.
            if start == 0 {
                out.extend([NOP, NOP]);
            }
            out.extend([TCP_TIME, 10]);
            read_pair(cursor, out)?;
        } else {
            read_other(cursor, out)?;
        }
        let kind = out[start..].iter().find(|byte| **byte != NOP)?;
        which.holds(*kind).then_some(())
    })
}

/// Reads two numbers, with `:` or `-` between.
fn read_pair(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    out.extend(cursor.number(u32::MAX)?.to_be_bytes());
    if !cursor.eat(":") && !cursor.eat("-") {
        return None;
    }
    out.extend(cursor.number(u32::MAX)?.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_options_are_read_and_written() {
        let check = |text: &str, written: &str| {
            let bytes = read_ip(text).unwrap_or_else(|| panic!("{text}"));
            let mut out = "x ".to_owned();
            write_ip(&bytes, &mut out);
            assert_eq!(&out[2..], written, "{text}: {bytes:?}");
            assert_eq!(read_ip(written).is_some(), written != "?", "{written}");
        };
        check(".", ".");
        check("nop;nop;eol", ".");
        check("ssrr{1.0.0.1,1.0.0.2^1.1.1.1,2.2.2.2}", "ssrr{1.0.0.1,1.0.0.2^1.1.1.1,2.2.2.2}");
        check("ssrr{1.0.0.1,^1.1.1.1}", "ssrr{1.0.0.1^1.1.1.1}");
        check("lsrr{1.0.0.1}", "lsrr{1.0.0.1^}");
        check("rr{2.3.4.5}+3", "rr{2.3.4.5}+3");
        check("rr{}+1;nop;98", "rr{}+1;98");
        check("ts{1.0.0.1=!8320,1.0.0.2=8321}++5", "ts.ip{1.0.0.1=!8320,1.0.0.2=8321^}++5");
        check(
            "ts.3{1.0.0.1=1,^1.0.0.3,1.0.0.4=?}+1",
            "ts.preip{1.0.0.1=1^1.0.0.3,1.0.0.4,0.0.0.0}",
        );
        check("ts.preip{1.0.0.1=1^1.0.0.3}", "ts.preip{1.0.0.1=1^1.0.0.3}");
        check("ts{1,10000,!45^0,0};rr{}+1", "ts{1,10000,!45}+2;rr{}+1");
        check("ts{1,10000,!45}+2++3", "ts{1,10000,!45}+2++3");
        check("99=0:5:10", "99=0:5:10");
    }

    #[test]
    fn tcp_options_are_read_and_written() {
        let check = |text: &str, which: Which, written: Option<&str>| {
            let bytes = read_tcp(text, which);
            let mut out = String::new();
            write_tcp(bytes.as_deref().unwrap_or_default(), which, &mut out);
            assert_eq!(bytes.map(|_| out.as_str()), written, "{text}");
        };
        check(".", Which::All, Some("."));
        check("mss1400;wscale10;sackok;nop", Which::All, Some("mss1400;wscale10;sackok"));
        check("sack95-98;sack1:2", Which::All, Some("sack95-98;sack1-2"));
        check("ts669063908:38382731", Which::All, Some("ts669063908:38382731"));
        check("ts1:2", Which::NoTime, None);
        check("mss1", Which::Sack, None);
        check("mss65536", Which::All, None);
        check("sack5", Which::All, None);
        check("99=1:2;98", Which::NoTime, Some("99=1:2;98"));
        check("99=256", Which::All, None);
        check(&"nop;".repeat(30), Which::All, None);
        assert_eq!(read_tcp("ts1:2", Which::All).map(|bytes| bytes.len()), Some(12));
        // With a comma blocks are of one option, with a semicolon of several.
        let lens = ["sack1-2,sack3-4", "sack1-2;sack3-4"].map(|text| read_tcp(text, Which::All));
        assert_eq!(lens.map(|bytes| bytes.map_or(0, |bytes| bytes.len())), [18, 20]);
        let two = read_tcp("sack1-2;sack3-4", Which::All).unwrap();
        assert_eq!((two[1], two[11]), (10, 10));
        assert_eq!(select_tcp(&read_tcp("ts1:2;sackok", Which::All).unwrap(), Which::Sack), [4, 2]);
    }

    #[test]
    fn wrong_bytes_are_a_question_mark() {
        for options in [&[7][..], &[7, 1], &[7, 40, 4], &[7, 3, 3], &[68, 4, 4, 0], &[68, 3, 9]] {
            let mut out = String::new();
            write_ip(options, &mut out);
            assert_eq!(out, "?", "{options:?}");
        }
        for options in [&[2][..], &[2, 3, 1], &[8, 2], &[5, 9, 0, 0, 0, 0, 0, 0, 0]] {
            let mut out = String::new();
            write_tcp(options, Which::All, &mut out);
            assert_eq!(out, "?", "{options:?}");
        }
        // Any bytes are something.
        let mut bytes = [0u8; 40];
        for seed in 0..20_000u32 {
            let mut word = seed.wrapping_mul(0x9e37_79b9);
            for byte in &mut bytes {
                word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (word >> 24) as u8 & if seed % 2 == 0 { 0x0f } else { 0xff };
            }
            bytes[0] = [7, 68, 131, 137, 5, 2][seed as usize % 6];
            let mut out = String::new();
            write_ip(&bytes, &mut out);
            write_tcp(&bytes, Which::All, &mut out);
            assert!(!out.is_empty());
        }
    }
}
