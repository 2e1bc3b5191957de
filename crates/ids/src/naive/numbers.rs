//! `byte_test`, `byte_jump`, `byte_extract` and `byte_math`, digit by digit.

use crate::bytes::{
    Amount, ByteJump, ByteSet, ByteTest, Compare, Form, From, Made, Operator, Read, VARIABLES_MAX,
};

/// The values of variables.
pub(super) type Variables = [u64; VARIABLES_MAX];

pub(super) fn amount(amount: Amount, variables: &Variables) -> i128 {
    match amount {
        Amount::Number(number) => i128::from(number),
        Amount::Variable(variable) => i128::from(variables[variable as usize]),
    }
}

/// The number, and where it ends.
fn number(
    read: &Read,
    text: &[u8],
    position: usize,
    variables: &Variables,
) -> Option<(u64, usize)> {
    let mut start = amount(read.offset, variables);
    if read.relative {
        start += position as i128;
    }
    let end = start + i128::from(read.bytes);
    if start < 0 || end > text.len() as i128 {
        return None;
    }
    let (start, mut end) = (start as usize, end as usize);
    let bytes = &text[start..end];
    let mut value = 0;
    match read.form {
        _ if bytes.is_empty() => {}
        Form::Big | Form::Little => {
            for idx in 0..bytes.len() {
                let power = if read.form == Form::Big { bytes.len() - 1 - idx } else { idx };
                value += u64::from(bytes[idx]) * 256u64.pow(power as u32);
            }
        }
        Form::Digits(radix) => {
            let string: String = bytes.iter().map(|&byte| byte as char).collect();
            let rest = string.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
            let unsigned = rest.strip_prefix(['-', '+']).unwrap_or(rest);
            let is_hex_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_hexdigit());
            let marked = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X"));
            let marked = marked.filter(|rest| radix == 16 && is_hex_digit(rest.chars().next()));
            let digits = marked.unwrap_or(unsigned);
            let after = digits.trim_start_matches(|c: char| c.is_digit(radix));
            let digits = &digits[..digits.len() - after.len()];
            value = u64::from_str_radix(digits, radix).ok()?;
            if rest.starts_with('-') {
                value = 0u64.wrapping_sub(value);
            }
            end -= after.chars().count();
        }
    }
    value &= read.mask;
    let mut mask = read.mask;
    while mask & 1 == 0 {
        (mask, value) = (mask >> 1, value >> 1);
    }
    Some((value, end))
}

/// Where the number ends, if the test holds.
pub(super) fn test(
    test: &ByteTest,
    text: &[u8],
    position: usize,
    variables: &Variables,
) -> Option<usize> {
    let (value, end) = number(&test.read, text, position, variables)?;
    let (left, right) = (i128::from(value), amount(test.value, variables));
    let holds = match test.compare {
        Compare::Less => left < right,
        Compare::LessOrEqual => left <= right,
        Compare::Equal => left == right,
        Compare::GreaterOrEqual => left >= right,
        Compare::Greater => left > right,
        Compare::And => left & right > 0,
        Compare::Xor => left != right,
    };
    if holds == test.negated { None } else { Some(end) }
}

fn scaled(value: u64, multiplier: u32, align: u128) -> Option<u64> {
    let value = u128::from(value) * u128::from(multiplier);
    u64::try_from(value.div_ceil(align) * align).ok()
}

/// Where a jump lands, and where the number ends.
pub(super) fn jump(
    jump: &ByteJump,
    text: &[u8],
    position: usize,
    variables: &Variables,
) -> Option<(usize, usize)> {
    let (value, end) = number(&jump.read, text, position, variables)?;
    let value = scaled(value, jump.multiplier, if jump.align { 4 } else { 1 })?;
    let start = match jump.from {
        From::Number => end,
        From::Beginning => 0,
        From::End => text.len(),
    };
    let landing = start as i128 + i128::from(value) + amount(jump.post_offset, variables);
    let is_within = (0..=text.len() as i128).contains(&landing);
    is_within.then_some((landing as usize, end))
}

/// What a variable is then, and where the number ends.
pub(super) fn value(
    set: &ByteSet,
    text: &[u8],
    position: usize,
    variables: &Variables,
) -> Option<(u64, usize)> {
    let (value, end) = number(&set.read, text, position, variables)?;
    let value = match set.how {
        Made::Scaled { multiplier, align } => scaled(value, multiplier, u128::from(align))?,
        Made::Math { operator, right } => {
            let (left, right) = (i128::from(value), amount(right, variables));
            let made = match operator {
                Operator::Add => left + right,
                Operator::Subtract => left - right,
                Operator::Multiply => left.checked_mul(right)?,
                Operator::Divide => left.checked_div(right)?,
                Operator::ShiftLeft if right < 64 => (left << right) & i128::from(u64::MAX),
                Operator::ShiftRight if right < 64 => left >> right,
                Operator::ShiftLeft | Operator::ShiftRight => return None,
            };
            u64::try_from(made).ok()?
        }
    };
    Some((value, end))
}
