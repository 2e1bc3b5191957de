//! Numbers that a payload holds: `byte_test`, `byte_jump`, `byte_extract` and `byte_math`.
//!
//! All of them read a number at a place, which counts from the start of the text or from where the
//! option before ended. Values have 64 bits without a sign. What cannot be read, lies outside of
//! the text, or does not fit in 64 bits lets the option fail, also where it is negated.

/// The most variables of one rule.
pub const VARIABLES_MAX: usize = 4;

/// Values of a rule's variables.
pub(crate) type Values = [u64; VARIABLES_MAX];

/// A number that an option says, or the variable that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The number.
    Number(i64),
    /// The variable's number.
    Variable(u8),
}

impl Amount {
    /// The number, of 65 bits with its sign.
    pub(crate) fn get(self, values: &Values) -> i128 {
        match self {
            Self::Number(number) => number.into(),
            Self::Variable(variable) => values[usize::from(variable)].into(),
        }
    }

    /// The variable, if it is one.
    pub fn variable(self) -> Option<u8> {
        match self {
            Self::Number(_) => None,
            Self::Variable(variable) => Some(variable),
        }
    }
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The first byte is the most significant one.
    Big,
    /// The first byte is the least significant one.
    Little,
    /// Digits of this radix, as C's `strtoull` reads them: behind blanks and a sign, with `0x`
    /// before hexadecimal ones, as far as there are digits.
    Digits(u32),
}

/// Where a number is read, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Bytes that must be there: 1 to 8, of digits to 23; 0 reads nothing, and is 0.
    pub bytes: u8,
    /// The first of them.
    pub offset: Amount,
    /// It counts from where the option before ended.
    pub relative: bool,
    /// How it is written.
    pub form: Form,
    /// The bits of it that count, moved down to where the lowest of them is bit 0.
    pub mask: u64,
}

/// A number that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub value: u64,
    /// Where the bytes that were used begin and end.
    pub start: usize,
    pub end: usize,
}

impl Read {
    /// Reads the number, if it is there.
    pub(crate) fn read(&self, text: &[u8], position: usize, values: &Values) -> Option<Number> {
        let base = if self.relative { position as i128 } else { 0 };
        let start = usize::try_from(base + self.offset.get(values)).ok()?;
        let bytes = text.get(start..start.checked_add(usize::from(self.bytes))?)?;
        let (value, used) = match self.form {
            Form::Big => (bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)), None),
            Form::Little => {
                (bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)), None)
            }
            Form::Digits(_) if bytes.is_empty() => (0, None),
            Form::Digits(radix) => {
                let (value, used) = digits(bytes, radix)?;
                (value, Some(used))
            }
        };
        let value = (value & self.mask) >> self.mask.trailing_zeros().min(63);
        Some(Number { value, start, end: start + used.unwrap_or(bytes.len()) })
    }
}

/// The number that digits say, and how many bytes it is.
fn digits(bytes: &[u8], radix: u32) -> Option<(u64, usize)> {
    let is_digit = |byte: Option<&u8>| byte.and_then(|&byte| (byte as char).to_digit(radix));
    let is_blank = |byte: &&u8| byte.is_ascii_whitespace() || **byte == 0x0b;
    let mut at = bytes.iter().take_while(is_blank).count();
    let is_negative = bytes.get(at) == Some(&b'-');
    at += usize::from(is_negative || bytes.get(at) == Some(&b'+'));
    let is_marked = radix == 16
        && bytes.get(at) == Some(&b'0')
        && matches!(bytes.get(at + 1), Some(b'x' | b'X'))
        && is_digit(bytes.get(at + 2)).is_some();
    at += if is_marked { 2 } else { 0 };
    let mut value = u64::from(is_digit(bytes.get(at))?);
    at += 1;
    while let Some(digit) = is_digit(bytes.get(at)) {
        value = value.checked_mul(radix.into())?.checked_add(digit.into())?;
        at += 1;
    }
    Some((if is_negative { value.wrapping_neg() } else { value }, at))
}

/// `byte_test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteTest {
    /// The number.
    pub read: Read,
    /// How it is compared.
    pub compare: Compare,
    /// It must not be so.
    pub negated: bool,
    /// What it is compared with.
    pub value: Amount,
}

/// How a number is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `=`
    Equal,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    Greater,
    /// `&`: they have a bit in common.
    And,
    /// `^`: they differ in a bit.
    Xor,
}

impl ByteTest {
    /// Where the bytes that it used end, if it holds.
    pub(crate) fn holds(&self, text: &[u8], position: usize, values: &Values) -> Option<usize> {
        let number = self.read.read(text, position, values)?;
        let (value, other) = (i128::from(number.value), self.value.get(values));
        let is_so = match self.compare {
            Compare::Less => value < other,
            Compare::LessOrEqual => value <= other,
            Compare::Equal => value == other,
            Compare::GreaterOrEqual => value >= other,
            Compare::Greater => value > other,
            Compare::And => value & other != 0,
            Compare::Xor => value ^ other != 0,
        };
        (is_so != self.negated).then_some(number.end)
    }
}

/// `byte_jump`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteJump {
    /// The number.
    pub read: Read,
    /// What it is multiplied by.
    pub multiplier: u32,
    /// The product is made a multiple of four.
    pub align: bool,
    /// Where the jump starts.
    pub from: From,
    /// What is added.
    pub post_offset: Amount,
}

/// Where a jump starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// Behind the number.
    Number,
    /// Where the text begins.
    Beginning,
    /// Where it ends.
    End,
}

impl ByteJump {
    /// Where it lands, at most at the end of the text; and where the bytes that it used end.
    pub(crate) fn land(
        &self,
        text: &[u8],
        position: usize,
        values: &Values,
    ) -> Option<(usize, usize)> {
        let number = self.read.read(text, position, values)?;
        let far = scaled(number.value, self.multiplier, if self.align { 4 } else { 1 })?;
        let start = match self.from {
            From::Number => number.end,
            From::Beginning => 0,
            From::End => text.len(),
        };
        let landing = start as i128 + i128::from(far) + self.post_offset.get(values);
        let landing = usize::try_from(landing).ok().filter(|&landing| landing <= text.len())?;
        Some((landing, number.end))
    }
}

/// A value, multiplied and rounded up.
fn scaled(value: u64, multiplier: u32, align: u64) -> Option<u64> {
    value.checked_mul(multiplier.into())?.checked_next_multiple_of(align)
}

/// `byte_extract` and `byte_math`: what a variable is from now on. What is relative goes on behind
/// the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSet {
    /// The number.
    pub read: Read,
    /// What becomes of it.
    pub how: Made,
    /// The variable.
    pub variable: u8,
}

/// What is made of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// `byte_extract`: multiplied, and rounded up to a multiple of 1, 2 or 4.
    Scaled {
        /// The factor.
        multiplier: u32,
        /// What it is a multiple of then.
        align: u8,
    },
    /// `byte_math`.
    Math {
        /// The operator.
        operator: Operator,
        /// What stands behind it.
        right: Amount,
    },
}

/// An operator of `byte_math`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}

impl ByteSet {
    /// The variable's value, and where the bytes that were used end.
    pub(crate) fn value(
        &self,
        text: &[u8],
        position: usize,
        values: &Values,
    ) -> Option<(u64, usize)> {
        let number = self.read.read(text, position, values)?;
        let value = match self.how {
            Made::Scaled { multiplier, align } => scaled(number.value, multiplier, align.into())?,
            Made::Math { operator, right } => {
                let right = u64::try_from(right.get(values)).ok()?;
                match operator {
                    Operator::Add => number.value.checked_add(right)?,
                    Operator::Subtract => number.value.checked_sub(right)?,
                    Operator::Multiply => number.value.checked_mul(right)?,
                    Operator::Divide => number.value.checked_div(right)?,
                    Operator::ShiftLeft => number.value.checked_shl(u32::try_from(right).ok()?)?,
                    Operator::ShiftRight => number.value.checked_shr(u32::try_from(right).ok()?)?,
                }
            }
        };
        Some((value, number.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Values = [0; VARIABLES_MAX];

    fn read(bytes: u8, offset: i64, form: Form) -> Read {
        Read { bytes, offset: Amount::Number(offset), relative: false, form, mask: u64::MAX }
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let text = b"\x01\x02\xff 0x1Fg -12 077";
        let value = |bytes, offset, form| {
            let number = read(bytes, offset, form).read(text, 0, &NONE);
            number.map(|number| (number.value, number.end))
        };
        assert_eq!(value(2, 0, Form::Big), Some((0x0102, 2)));
        assert_eq!(value(3, 0, Form::Little), Some((0xff_0201, 3)));
        assert_eq!(value(0, 5, Form::Big), Some((0, 5)));
        // As far as there are digits.
        assert_eq!(value(6, 3, Form::Digits(16)), Some((0x1f, 8)));
        assert_eq!(value(5, 3, Form::Digits(10)), Some((0, 5)));
        assert_eq!(value(4, 9, Form::Digits(10)), Some((12u64.wrapping_neg(), 13)));
        assert_eq!(value(4, 13, Form::Digits(8)), Some((0o77, 17)));
        // All bytes must be there, with a digit, and the number must fit.
        assert_eq!(value(5, 13, Form::Digits(8)), None);
        assert_eq!(value(1, 8, Form::Digits(10)), None);
        assert_eq!(value(2, -1, Form::Big), None);
        let long = read(23, 0, Form::Digits(10));
        assert_eq!(
            long.read(b"18446744073709551615   ", 0, &NONE).map(|n| n.value),
            Some(u64::MAX)
        );
        assert_eq!(long.read(b"18446744073709551616   ", 0, &NONE), None);
        let masked = Read { mask: 0x0ff0, ..read(2, 0, Form::Big) };
        assert_eq!(masked.read(b"\x12\x34", 0, &NONE).map(|n| n.value), Some(0x23));
    }

    #[test]
    fn jumps_land_within_the_text() {
        let jump = ByteJump {
            read: read(1, 1, Form::Big),
            multiplier: 1,
            align: false,
            from: From::Number,
            post_offset: Amount::Number(0),
        };
        let land = |jump: ByteJump, text: &[u8]| jump.land(text, 0, &NONE).map(|(at, _)| at);
        assert_eq!(land(jump, b"\0\x03abc"), Some(5));
        assert_eq!(land(jump, b"\0\x04abc"), None);
        assert_eq!(land(ByteJump { from: From::Beginning, ..jump }, b"\0\x03abc"), Some(3));
        let back = Amount::Number(-4);
        let from_end = ByteJump { from: From::End, post_offset: back, ..jump };
        assert_eq!(land(from_end, b"\0\x01abc"), Some(2));
        assert_eq!(land(ByteJump { multiplier: 3, ..jump }, b"\0\x01abc"), Some(5));
        assert_eq!(land(ByteJump { align: true, ..jump }, b"\0\x01abcd"), Some(6));
        assert_eq!(land(ByteJump { post_offset: back, ..jump }, b"\0\x01abc"), None);
    }

    #[test]
    fn variables_are_numbers_that_fit() {
        let value = |how| {
            let set = ByteSet { read: read(1, 0, Form::Big), how, variable: 0 };
            set.value(b"\x05", 0, &[7, 0, 0, 0]).map(|(value, _)| value)
        };
        let math = |operator, right| value(Made::Math { operator, right: Amount::Number(right) });
        assert_eq!(value(Made::Scaled { multiplier: 3, align: 4 }), Some(16));
        assert_eq!(value(Made::Scaled { multiplier: 3, align: 2 }), Some(16));
        assert_eq!(math(Operator::Add, 2), Some(7));
        assert_eq!(math(Operator::Subtract, 6), None);
        assert_eq!(math(Operator::Divide, 2), Some(2));
        assert_eq!(math(Operator::Divide, 0), None);
        assert_eq!(math(Operator::ShiftLeft, 2), Some(20));
        assert_eq!(math(Operator::ShiftLeft, 64), None);
        assert_eq!(math(Operator::ShiftRight, 1), Some(2));
        let by = Made::Math { operator: Operator::Multiply, right: Amount::Variable(0) };
        assert_eq!(value(by), Some(35));
    }
}
