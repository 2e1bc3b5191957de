//! The values of flow text: numbers as C writes them, ports, and TCP flags.

use super::super::text::{self, Fault, Parsed, Token};

/// The switch's own port.
pub(super) const PORT_LOCAL: u32 = 0xffff_fffe;

/// Reserved ports by name, with their numbers in OpenFlow 1.1 and later. Several names may stand
/// for one port; the first is written.
pub(super) static RESERVED_PORTS: [(&str, u32); 10] = [
    ("UNSET", 0xffff_fff7),
    ("IN_PORT", 0xffff_fff8),
    ("TABLE", 0xffff_fff9),
    ("NORMAL", 0xffff_fffa),
    ("FLOOD", 0xffff_fffb),
    ("ALL", 0xffff_fffc),
    ("CONTROLLER", 0xffff_fffd),
    ("LOCAL", PORT_LOCAL),
    ("ANY", 0xffff_ffff),
    ("NONE", 0xffff_ffff),
];

/// The first of the reserved ports that OpenFlow 1.0 numbers in 16 bits, and their first number in
/// 32 bits.
const RESERVED_FIRST: [u32; 2] = [0xff00, 0xffff_ff00];

/// A number: decimal, hexadecimal with `0x`, octal with a leading zero.
pub(super) fn integer(token: Token<'_>, max: u128, what: &'static str) -> Parsed<u128> {
    let digits = match token.bytes {
        [b'0', digits @ ..] if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            digits
        }
        _ => return text::number(token, max, what),
    };
    let mut value = Some(0u128);
    for &digit in digits {
        if digit > b'7' {
            let message = format!("{what} is not a number");
            let fault = Fault::new(
                token.span(),
                message,
                "digits from 0 to 7 after a leading \
                zero",
            );
            return Err(fault.help("a leading zero makes a number octal here; leave it out"));
        }
        value = value.and_then(|v| v.checked_mul(8)).map(|v| v + u128::from(digit - b'0'));
    }
    value.filter(|v| *v <= max).ok_or_else(|| {
        Fault::new(token.span(), format!("{what} is too large"), format!("at most {max}"))
    })
}

/// `VALUE` or `VALUE/MASK`.
pub(super) fn masked(token: Token<'_>, max: u128, what: &'static str) -> Parsed<(u128, u128)> {
    match token.split_at_byte(b'/') {
        None => Ok((integer(token, max, what)?, max)),
        Some((value, mask)) => Ok((integer(value, max, what)?, integer(mask, max, "the mask")?)),
    }
}

/// A switch port by number or by reserved name in any case.
///
/// OpenFlow 1.0's reserved numbers (65280 to 65535) become those of later versions.
pub(super) fn port(token: Token<'_>) -> Parsed<u32> {
    let name = token.text();
    let reserved = RESERVED_PORTS.iter().find(|(n, _)| n.eq_ignore_ascii_case(&name));
    if let Some((_, number)) = reserved {
        return Ok(*number);
    }
    let wrong = |message| {
        let expected = "a number from 0 to 65535, or LOCAL, IN_PORT, CONTROLLER …";
        Err(Fault::new(token.span(), message, expected))
    };
    let Ok(number) = text::number(token, u32::MAX.into(), "the port") else {
        return wrong("unknown port");
    };
    match number as u32 {
        number if number < RESERVED_FIRST[0] || number >= RESERVED_FIRST[1] => Ok(number),
        number if number <= 0xffff => Ok(number - RESERVED_FIRST[0] + RESERVED_FIRST[1]),
        _ => wrong("flow text has unknown port"),
    }
}

/// A port as flow text writes it; `None` if it cannot.
pub(super) fn port_text(port: u32) -> Option<String> {
    if let Some((name, _)) = RESERVED_PORTS.iter().find(|(_, number)| *number == port) {
        return Some((*name).to_owned());
    }
    match port {
        port if port < RESERVED_FIRST[0] => Some(port.to_string()),
        port if port >= RESERVED_FIRST[1] => {
            Some((port - RESERVED_FIRST[1] + RESERVED_FIRST[0]).to_string())
        }
        _ => None,
    }
}

/// TCP flags by name, the least significant bit first.
pub(super) static FLAG_NAMES: [&str; 12] =
    ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];

const FLAGS_EXPECTED: &str = "a number up to 0xfff, VALUE/MASK, syn|ack, or +syn-ack";

/// TCP flags: a number, `VALUE/MASK`, `syn|ack` (exactly these), or `+syn-ack` (these set, those
/// not).
pub(super) fn tcp_flags(token: Token<'_>) -> Parsed<(u16, u16)> {
    let wrong = |message: &'static str| Fault::new(token.span(), message, FLAGS_EXPECTED);
    match token.bytes {
        [] => Err(wrong("the flags are missing")),
        [b'0'..=b'9', ..] => {
            let (value, mask) = masked(token, 0xfff, "the flags")?;
            Ok((value as u16, mask as u16))
        }
        [b'+' | b'-', ..] => signed_flags(token),
        _ => {
            let mut value = 0;
            let mut from = 0;
            for part in token.bytes.split(|b| *b == b'|') {
                value |= flag(token.part(from..from + part.len()))?;
                from += part.len() + 1;
            }
            Ok((value, 0xfff))
        }
    }
}

fn signed_flags(token: Token<'_>) -> Parsed<(u16, u16)> {
    let (mut value, mut mask) = (0, 0);
    let mut at = 0;
    while at < token.bytes.len() {
        let rest = &token.bytes[at + 1..];
        let len = rest.iter().position(|b| matches!(b, b'+' | b'-')).unwrap_or(rest.len());
        let name = token.part(at + 1..at + 1 + len);
        let bit = flag(name)?;
        if mask & bit != 0 {
            let message = "duplicate flag";
            return Err(Fault::new(name.span(), message, "each flag at most once"));
        }
        mask |= bit;
        if token.bytes[at] == b'+' {
            value |= bit;
        }
        at += 1 + len;
    }
    Ok((value, mask))
}

fn flag(token: Token<'_>) -> Parsed<u16> {
    let position = FLAG_NAMES.iter().position(|name| name.as_bytes() == token.bytes);
    position
        .map(|bit| 1 << bit)
        .ok_or_else(|| Fault::new(token.span(), "unknown TCP flag", FLAG_NAMES.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token<'_> {
        Token { bytes: text.as_bytes(), start: 0 }
    }

    #[test]
    fn numbers_as_in_c() {
        let check = |text: &str, expected: Option<u128>| {
            assert_eq!(integer(token(text), 65535, "n").ok(), expected, "{text}");
        };
        check("0", Some(0));
        check("010", Some(8));
        check("0x10", Some(16));
        check("10", Some(10));
        for bad in ["08", "0200000", "", "x", "65536"] {
            check(bad, None);
        }
        let octal = format!("0{}", "7".repeat(500));
        check(&octal, None);
    }

    #[test]
    fn ports_have_names_and_two_numberings() {
        let check = |text: &str, expected: Option<u32>| {
            assert_eq!(port(token(text)).ok(), expected, "{text}");
        };
        check("0", Some(0));
        check("65279", Some(65279));
        check("65280", Some(0xffff_ff00));
        check("65534", Some(PORT_LOCAL));
        check("local", Some(PORT_LOCAL));
        check("4294967294", Some(PORT_LOCAL));
        for bad in ["65536", "eth0", "-1", "", "1/3"] {
            check(bad, None);
        }
        for number in [0, 5, 65279, 0xffff_ff00, 0xffff_fffe, 0xffff_fffd, u32::MAX] {
            assert_eq!(port(token(&port_text(number).unwrap())), Ok(number));
        }
        assert_eq!(port_text(0x1_0000), None);
    }

    #[test]
    fn flags_in_every_form() {
        let check = |text: &str, expected: Option<(u16, u16)>| {
            assert_eq!(tcp_flags(token(text)).ok(), expected, "{text}");
        };
        check("0x2/0x12", Some((2, 0x12)));
        check("0x12", Some((0x12, 0xfff)));
        check("syn|ack", Some((0x12, 0xfff)));
        check("+syn-ack", Some((2, 0x12)));
        check("-fin", Some((0, 1)));
        check("+[200]", Some((0x200, 0x200)));
        for bad in ["", "0x1000", "+", "+syn-syn", "+SYN", "foo", "syn|", "+syn/0x2", "4096/4096"] {
            check(bad, None);
        }
    }
}
