//! Numbers as arguments: integers, reals, sizes, times, bandwidths.
//!
//! Fractions are read as decimal digits and scaled with integer arithmetic, so that the same text
//! is the same value on any machine.

use std::time::Duration;

use super::{ArgError, FromArg, Names};

fn invalid() -> ArgError {
    ArgError::new("invalid number")
}

/// An integer as written: sign, and magnitude (none if it exceeds 128 bits).
fn integer(text: &str) -> Option<(bool, Option<u128>)> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', _, ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    let is_digit = |c: char| c.is_digit(radix);
    // Underscores may stand between digits.
    let is_sound = digits.split('_').all(|part| !part.is_empty() && part.chars().all(is_digit));
    if !is_sound {
        return None;
    }
    let step = |value: Option<u128>, c: char| {
        value?.checked_mul(radix.into())?.checked_add(c.to_digit(radix)?.into())
    };
    Some((is_negative, digits.chars().filter(|&c| c != '_').fold(Some(0), step)))
}

fn bounded<T>(text: &str, min: T, max: T) -> Result<T, (ArgError, T)>
where
    T: Copy + std::fmt::Display + TryFrom<i128> + TryFrom<u128> + PartialEq + Default,
{
    let is_signed = min != T::default();
    let bound = |bound: T| (ArgError::new(format!("out of range, bound {bound}")), bound);
    match integer(text) {
        // An unsigned number has no minus, not even before 0.
        Some((true, _)) if !is_signed => Err((invalid(), min)),
        None => Err((invalid(), min)),
        Some((true, value)) => value
            .and_then(|value| i128::try_from(value).ok())
            .and_then(|value| T::try_from(-value).ok())
            .ok_or_else(|| bound(min)),
        Some((false, value)) => {
            value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| bound(max))
        }
    }
}

/// A number that is brought into range, where others are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saturating<T>(pub T);

macro_rules! integers {
    ($($kind:ty),*) => {$(
        /// Decimal, `0` octal, `0x` hexadecimal, `0b` binary.
        impl FromArg for $kind {
            const EXPECTED: &str = match <$kind>::MIN {
                0 => "a whole number from 0 up, such as 20 or 0x14",
                _ => "a whole number, such as 20, -1 or 0x14",
            };

            fn from_arg(text: &str, _: &dyn Names) -> Result<Self, ArgError> {
                bounded(text, <$kind>::MIN, <$kind>::MAX).map_err(|(error, _)| error)
            }
        }

        impl FromArg for Saturating<$kind> {
            const EXPECTED: &str = <$kind>::EXPECTED;

            fn from_arg(text: &str, _: &dyn Names) -> Result<Self, ArgError> {
                match bounded(text, <$kind>::MIN, <$kind>::MAX) {
                    Ok(value) => Ok(Self(value)),
                    Err((error, _)) if error == invalid() => Err(error),
                    Err((_, bound)) => Ok(Self(bound)),
                }
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64);

/// A number of bytes: an integer, and `K`, `M` or `G` behind it for 2^10, 2^20 or 2^30 of them, as
/// options of the command line have it. Click knows no such suffix for sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromArg for Size {
    const EXPECTED: &str = "a number of bytes, as 65536, 64K or 1G";

    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        let (digits, shift) = match text.as_bytes().last() {
            Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
            Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
            Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
            _ => (text, 0),
        };
        let number = u64::from_arg(digits, names)?;
        let bound = || ArgError::new(format!("out of range, bound {}", u64::MAX));
        number.checked_mul(1 << shift).map(Self).ok_or_else(bound)
    }
}

/// A decimal number: `digits * 10^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: u128,
    exponent: i32,
}

/// The most digits that count; more are dropped. With the largest unit they still fit 128 bits.
const DIGITS_MAX: u32 = 22;

impl Decimal {
    /// Reads a number, and how many bytes it takes.
    fn parse(text: &str) -> Option<(Self, usize)> {
        let bytes = text.as_bytes();
        let is_negative = bytes.first() == Some(&b'-');
        let mut at = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
        let (mut digits, mut count, mut exponent) = (0u128, 0u32, 0i32);
        let (mut has_digit, mut has_point) = (false, false);
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'0'..=b'9' => {
                    has_digit = true;
                    if count < DIGITS_MAX {
                        digits = digits * 10 + u128::from(byte - b'0');
                        count += u32::from(digits > 0);
                        exponent -= i32::from(has_point);
                    } else {
                        exponent = exponent.saturating_add(i32::from(!has_point));
                    }
                }
                b'.' if !has_point => has_point = true,
                _ => break,
            }
            at += 1;
        }
        if !has_digit {
            return None;
        }
        if let Some((power, len)) = exponent_part(&text[at..]) {
            exponent = exponent.saturating_add(power);
            at += len;
        }
        Some((Self { is_negative, digits, exponent }, at))
    }

    /// The magnitude times `numerator / denominator`, rounded to the nearest; none if it does not
    /// fit.
    fn scaled(self, numerator: u128, denominator: u128) -> Option<u128> {
        if self.digits == 0 {
            return Some(0);
        }
        let power = |exponent: i32| 10u128.checked_pow(exponent.unsigned_abs());
        let product = self.digits.checked_mul(numerator)?;
        let (up, down) = if self.exponent >= 0 {
            (product.checked_mul(power(self.exponent)?)?, denominator)
        } else {
            match power(self.exponent).and_then(|power| power.checked_mul(denominator)) {
                Some(down) => (product, down),
                // So small that it is nothing.
                None => return Some(0),
            }
        };
        up.checked_add(down / 2).map(|up| up / down)
    }
}

/// `e5`, `E-3`: the power and its length.
fn exponent_part(text: &str) -> Option<(i32, usize)> {
    let rest = text.strip_prefix(['e', 'E'])?;
    let sign = usize::from(rest.starts_with(['-', '+']));
    let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return None;
    }
    let value: i32 = rest[sign..sign + digits].parse().unwrap_or(100_000).min(100_000);
    Some((if rest.starts_with('-') { -value } else { value }, 1 + sign + digits))
}

impl FromArg for f64 {
    const EXPECTED: &str = "a number, as 2 or 0.5";

    fn from_arg(text: &str, _: &dyn Names) -> Result<Self, ArgError> {
        match Decimal::parse(text) {
            Some((_, len)) if len == text.len() => text.parse().map_err(|_| invalid()),
            _ => Err(invalid()),
        }
    }
}

/// A fraction with `BITS` bits behind the point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fixed<const BITS: u32>(pub u32);

impl<const BITS: u32> FromArg for Fixed<BITS> {
    const EXPECTED: &str = "a number, as 2 or 0.5";

    fn from_arg(text: &str, _: &dyn Names) -> Result<Self, ArgError> {
        let (decimal, len) = Decimal::parse(text).ok_or_else(invalid)?;
        if len != text.len() || decimal.is_negative {
            return Err(invalid());
        }
        let value = decimal.scaled(1u128 << BITS, 1).and_then(|value| u32::try_from(value).ok());
        let bound = f64::from(u32::MAX) / f64::from(1u32 << (BITS % 32));
        value.map(Self).ok_or_else(|| ArgError::new(format!("out of range, bound {bound}")))
    }
}

/// Units of time, and nanoseconds in one.
const TIME_UNITS: [(&[&str], u64); 7] = [
    (&["", "s", "sec"], 1_000_000_000),
    (&["ms", "msec"], 1_000_000),
    (&["us", "usec"], 1_000),
    (&["ns", "nsec"], 1),
    (&["m", "min"], 60_000_000_000),
    (&["h", "hr"], 3_600_000_000_000),
    (&["d", "day"], 86_400_000_000_000),
];

/// A time: a number and `s ms us ns m h d` (or `sec msec usec nsec min hr day`); seconds without.
impl FromArg for Duration {
    const EXPECTED: &str = "a time, as 1.5s, 20ms or 2min";

    fn from_arg(text: &str, _: &dyn Names) -> Result<Self, ArgError> {
        let (decimal, len) = Decimal::parse(text).ok_or_else(invalid)?;
        let unit = text[len..].trim_ascii_start();
        let found = TIME_UNITS.iter().find(|(names, _)| names.contains(&unit));
        let &(_, unit_ns) = found.ok_or_else(invalid)?;
        if decimal.is_negative {
            return Err(ArgError::new("out of range, bound 0"));
        }
        let ns = decimal.scaled(unit_ns.into(), 1).and_then(|ns| u64::try_from(ns).ok());
        let bound = || ArgError::new(format!("out of range, bound {}", u64::MAX / 1_000_000_000));
        ns.map(Duration::from_nanos).ok_or_else(bound)
    }
}

/// A bandwidth in bytes per second: a number and `bps`, `Bps` or `baud`, with `k`, `M` or `G`
/// before it; bytes per second without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bandwidth {
    /// Bytes per second.
    pub bytes_per_second: u64,
    /// Whether the text named a unit; Click warns where it does not.
    pub has_unit: bool,
}

impl FromArg for Bandwidth {
    const EXPECTED: &str = "a rate, as 10Mbps or 500kBps";

    fn from_arg(text: &str, _: &dyn Names) -> Result<Self, ArgError> {
        let (decimal, len) = Decimal::parse(text).ok_or_else(invalid)?;
        if decimal.is_negative {
            return Err(ArgError::new("out of range, bound 0"));
        }
        let unit = text[len..].trim_ascii_start();
        let (prefix, rest) = match unit.as_bytes().first() {
            Some(b'k' | b'K') => (1_000, &unit[1..]),
            Some(b'M') => (1_000_000, &unit[1..]),
            Some(b'G') => (1_000_000_000, &unit[1..]),
            _ => (1, unit),
        };
        let bits = match rest {
            "bps" | "b/s" | "baud" => 8,
            "" | "Bps" | "B/s" => 1,
            _ => return Err(invalid()),
        };
        let value = decimal.scaled(prefix, bits).and_then(|value| u64::try_from(value).ok());
        let bound = || ArgError::new(format!("out of range, bound {}", u64::MAX));
        let bytes_per_second = value.ok_or_else(bound)?;
        Ok(Self { bytes_per_second, has_unit: !rest.is_empty() })
    }
}
