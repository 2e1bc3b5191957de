//! The values of flow text: numbers as C writes them, values of fields, ports, and TCP flags.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::super::text::{self, Fault, Parsed, Token};
use super::super::value::{mac, prefix_mask, write_mac};
use crate::openflow::{MatchField, port};
use crate::schema::FieldFormat;

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
    ("LOCAL", port::LOCAL),
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

/// A value of a field in the field's own notation.
pub(super) fn value(field: &'static MatchField, token: Token<'_>) -> Parsed<u128> {
    match field.format {
        FieldFormat::Mac => mac(token).map(u128::from),
        FieldFormat::Ipv4 => text::ipv4(token).map(u128::from),
        FieldFormat::Ipv6 => text::ipv6(token),
        FieldFormat::Decimal | FieldFormat::Hex => {
            integer(token, field.range.value_max(), field.name)
        }
    }
}

/// A value with a mask, for IP addresses also with a prefix length, or neither; `*` for any.
pub(super) fn demand(field: &'static MatchField, token: Token<'_>) -> Parsed<(u128, u128)> {
    if token.bytes == b"*" {
        return Ok((0, 0));
    }
    let Some((bits, mask)) = token.split_at_byte(b'/') else {
        return Ok((value(field, token)?, field.range.value_max()));
    };
    let bits = value(field, bits)?;
    let is_address = matches!(field.format, FieldFormat::Ipv4 | FieldFormat::Ipv6);
    if is_address && mask.bytes.iter().all(u8::is_ascii_digit) {
        let len = text::decimal(mask, field.range.bits as u32, "the prefix length")? as usize;
        return Ok((bits, prefix_mask(field.range.bits, len)));
    }
    Ok((bits, value(field, mask)?))
}

/// A value as flow text writes it in an action.
pub(super) fn value_text(field: &MatchField, value: u128) -> String {
    match field.format {
        _ if matches!(field.name, "in_port" | "in_phy_port") => port_text(value as u32),
        FieldFormat::Decimal => value.to_string(),
        FieldFormat::Hex => hex(value),
        FieldFormat::Mac => {
            let mut text = String::new();
            write_mac(&mut text, value as u64).expect("a String takes every write");
            text
        }
        FieldFormat::Ipv4 => Ipv4Addr::from_bits(value as u32).to_string(),
        FieldFormat::Ipv6 => Ipv6Addr::from_bits(value).to_string(),
    }
}

/// An address with what its mask needs: nothing, a prefix length, or the mask.
pub(super) fn demand_text(field: &MatchField, value: u128, mask: u128) -> String {
    let all = field.range.value_max();
    let text = value_text(field, value);
    let is_address = matches!(field.format, FieldFormat::Ipv4 | FieldFormat::Ipv6);
    let len = mask.count_ones() as usize;
    match mask {
        mask if mask == all => text,
        mask if is_address && mask == prefix_mask(field.range.bits, len) => format!("{text}/{len}"),
        mask => format!("{text}/{}", value_text(field, mask)),
    }
}

/// A hexadecimal number as C's `%#x` writes it: zero has no `0x`.
pub(super) fn hex(value: u128) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
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

/// Whether flow text has a name or number for a port.
pub(super) fn has_port_text(port: u32) -> bool {
    !(RESERVED_FIRST[0]..RESERVED_FIRST[1]).contains(&port)
}

/// A port as flow text writes it. What it has no number for is written as it is.
pub(super) fn port_text(port: u32) -> String {
    match RESERVED_PORTS.iter().find(|(_, number)| *number == port) {
        Some((name, _)) => (*name).to_owned(),
        None if port >= RESERVED_FIRST[1] => {
            (port - RESERVED_FIRST[1] + RESERVED_FIRST[0]).to_string()
        }
        None => port.to_string(),
    }
}

/// TCP flags by name, the least significant bit first.
pub(super) static FLAG_NAMES: [&str; 12] =
    ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];

const FLAGS_EXPECTED: &str = "a number up to 0xfff, VALUE/MASK, syn|ack, or +syn-ack";

/// TCP flags as flow text writes a demand on them.
pub(super) fn tcp_flags_text(value: u16, mask: u16) -> String {
    let named = |bits: u16| (0..12).filter(move |bit| bits >> bit & 1 != 0);
    if mask == 0xfff {
        let names: Vec<&str> = named(value).map(|bit| FLAG_NAMES[bit]).collect();
        return if names.is_empty() { "0".to_owned() } else { names.join("|") };
    }
    let sign = |bit: usize| if value >> bit & 1 == 1 { '+' } else { '-' };
    named(mask).map(|bit| format!("{}{}", sign(bit), FLAG_NAMES[bit])).collect()
}

/// What flow text calls fragments, with value and mask. Where several have a name, the first is
/// read.
static FRAGMENTS: [(&str, u8, u8); 7] = [
    ("no", 0, 3),
    ("first", 1, 3),
    ("later", 3, 3),
    ("yes", 1, 1),
    ("not_later", 0, 2),
    ("no", 0, 1),
    ("later", 2, 2),
];

/// Which fragments, by name or number.
pub(super) fn fragments(token: Token<'_>) -> Parsed<(u8, u8)> {
    if let Some((_, value, mask)) = FRAGMENTS.iter().find(|f| f.0.as_bytes() == token.bytes) {
        return Ok((*value, *mask));
    }
    let is_number = token.bytes.first().is_some_and(u8::is_ascii_digit);
    if !is_number {
        let expected = "no, yes, first, later or not_later";
        return Err(Fault::new(token.span(), "unknown kind of fragments", expected));
    }
    let (value, mask) = masked(token, 3, "the fragment bits")?;
    // A later fragment is a fragment, and what is none is no later one.
    Ok(match (value & mask, mask) {
        (0, 1) => (0, 3),
        (2, 2) => (3, 3),
        (value, mask) => (value as u8, mask as u8),
    })
}

/// A demand on fragment bits as flow text writes it.
pub(super) fn fragments_text(value: u8, mask: u8) -> String {
    match FRAGMENTS.iter().find(|f| (f.1, f.2) == (value, mask)) {
        Some((name, ..)) => (*name).to_owned(),
        None => format!("{value:#x}/{mask:#x}"),
    }
}

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
    use crate::openflow::port as numbers;

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
        check("65534", Some(numbers::LOCAL));
        check("local", Some(numbers::LOCAL));
        check("4294967294", Some(numbers::LOCAL));
        for bad in ["65536", "eth0", "-1", "", "1/3"] {
            check(bad, None);
        }
        for number in [0, 5, 65279, 0xffff_ff00, 0xffff_fffe, 0xffff_fffd, u32::MAX] {
            assert_eq!(port(token(&port_text(number))), Ok(number));
            assert!(has_port_text(number));
        }
        assert!(!has_port_text(0x1_0000));
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
