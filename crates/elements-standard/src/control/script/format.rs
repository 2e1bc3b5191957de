//! Numbers as text, like `%.12g` and `sprintf` of C.

use warpswitch_graph::language::args::{FromArg, NoNames};

use super::words::{shift, unquoted};

/// The most characters that a field may be padded to.
const WIDTH_MAX: usize = 1 << 12;

/// `value` with at most so many significant digits, zeros at the end left out; as a power of ten
/// where that is far shorter.
pub fn general(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        let text = if value.is_nan() { "nan" } else { "inf" };
        return format!("{}{text}", if value.is_sign_negative() { "-" } else { "" });
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_zeros(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

/// One conversion of a format.
#[derive(Clone, Debug, Default)]
struct Conversion {
    zero: bool,
    alternate: bool,
    left: bool,
    space: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
    is_short: bool,
}

/// The first word of `text` with its conversions replaced by the other words.
pub fn sprintf(text: &str) -> Result<String, String> {
    let syntax = || "syntax error".to_owned();
    let (format, mut rest) = shift(text);
    let format = unquoted(format);
    let mut next = || -> &str {
        let (word, left) = shift(rest);
        rest = left;
        word
    };
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut conversion = Conversion::default();
        while let Some(flag) = chars.next_if(|c| "0#- +".contains(*c)) {
            match flag {
                '0' => conversion.zero = true,
                '#' => conversion.alternate = true,
                '-' => conversion.left = true,
                ' ' => conversion.space = true,
                _ => conversion.plus = true,
            }
        }
        if chars.next_if_eq(&'*').is_some() {
            let width = i32::from_arg(next(), &NoNames).map_err(|_| syntax())?;
            conversion.left |= width < 0;
            conversion.width = width.unsigned_abs() as usize;
        } else {
            conversion.width = number(&mut chars);
        }
        if chars.next_if_eq(&'.').is_some() {
            conversion.precision = Some(match chars.next_if_eq(&'*') {
                Some(_) => u32::from_arg(next(), &NoNames).map_err(|_| syntax())? as usize,
                None => number(&mut chars),
            });
        }
        while let Some(c) = chars.next_if(|c| "hlLq".contains(*c)) {
            conversion.is_short = c == 'h';
        }
        match chars.next().ok_or_else(syntax)? {
            '%' => out.push('%'),
            's' => out.push_str(&conversion.string(&unquoted(next()))),
            kind @ ('d' | 'i' | 'u' | 'o' | 'x' | 'X') => {
                out.push_str(&conversion.integer(kind, next()).ok_or_else(syntax)?);
            }
            _ => return Err(syntax()),
        }
        if conversion.width > WIDTH_MAX {
            return Err(syntax());
        }
    }
    if rest.is_empty() { Ok(out) } else { Err(syntax()) }
}

/// The digits that come next, as a number; one that is too large to be a width stays so.
fn number(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> usize {
    let mut value = 0usize;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        value = value.saturating_mul(10).saturating_add(digit as usize);
        chars.next();
    }
    value
}

impl Conversion {
    fn string(&self, text: &str) -> String {
        let text: String = text.chars().take(self.precision.unwrap_or(usize::MAX)).collect();
        self.padded(&text)
    }

    fn integer(&self, kind: char, word: &str) -> Option<String> {
        let (sign, mut digits) = if matches!(kind, 'd' | 'i') {
            let value = i64::from_arg(word, &NoNames).ok()?;
            let value = if self.is_short { i64::from(value as i16) } else { value };
            let sign = match value {
                value if value < 0 => "-",
                _ if self.plus => "+",
                _ if self.space => " ",
                _ => "",
            };
            (sign, value.unsigned_abs().to_string())
        } else {
            let value = u64::from_arg(word, &NoNames).ok()?;
            let value = if self.is_short { u64::from(value as u16) } else { value };
            let digits = match kind {
                'o' => format!("{value:o}"),
                'x' => format!("{value:x}"),
                'X' => format!("{value:X}"),
                _ => value.to_string(),
            };
            let mark = match kind {
                'x' if self.alternate && value > 0 => "0x",
                'X' if self.alternate && value > 0 => "0X",
                'o' if self.alternate && value > 0 => "0",
                _ => "",
            };
            (mark, digits)
        };
        let room = self.width.min(WIDTH_MAX).saturating_sub(sign.len());
        let wanted = match self.precision {
            Some(precision) => precision.min(WIDTH_MAX),
            None if self.zero && !self.left => room,
            None => 0,
        };
        digits.insert_str(0, &"0".repeat(wanted.saturating_sub(digits.len())));
        Some(self.padded(&format!("{sign}{digits}")))
    }

    fn padded(&self, text: &str) -> String {
        let width = self.width.min(WIDTH_MAX);
        if self.left { format!("{text:<width$}") } else { format!("{text:>width$}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_in_c() {
        let cases = [
            (0.0, "0"),
            (6.0, "6"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.333333333333"),
            (1e15, "1e+15"),
            (123456789012.0, "123456789012"),
            (1.5e-7, "1.5e-07"),
            (-0.0001, "-0.0001"),
            (f64::INFINITY, "inf"),
        ];
        for (value, expected) in cases {
            assert_eq!(general(value, 12), expected);
        }
    }

    #[test]
    fn formats_are_filled() {
        let cases = [
            ("\"%05x\" 127", "0007f"),
            ("%X-%o 255 8", "FF-10"),
            ("\"%-4s|%4s|%.2s\" ab cd efg", "ab  |  cd|ef"),
            ("%d%% 7", "7%"),
            ("\"%+d % d\" 5 6", "+5  6"),
            ("%*d 4 7", "   7"),
            ("%#x 255", "0xff"),
            ("%hd 65537", "1"),
            ("%.3d 5", "005"),
            ("%lld -5", "-5"),
        ];
        for (text, expected) in cases {
            assert_eq!(sprintf(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["%d x", "%f 1", "%", "a b", "%u -1", "%99999999999999999999d 1"] {
            assert_eq!(sprintf(text), Err("syntax error".into()), "{text}");
        }
    }
}
