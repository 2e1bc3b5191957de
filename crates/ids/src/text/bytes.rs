//! `byte_test`, `byte_jump`, `byte_extract`, `byte_math`, and variables where numbers are.

use std::ops::Range;

use warpswitch_rules::diagnostic::Diagnostics;

use super::source::{Part, Skip, Source};
use crate::bytes::{
    Amount, ByteJump, ByteSet, ByteTest, Compare, Form, From, Made, Operator, Read, VARIABLES_MAX,
};

/// The furthest that an offset may be, in either direction.
const OFFSET_MAX: i64 = 65535;
/// The most bytes of a number.
const BYTES_MAX: i64 = 8;
/// The most digits of one.
const DIGITS_MAX: i64 = 23;

/// Names of a rule's variables, by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    names: Vec<String>,
}

impl Names {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// The number of a variable that an option before has set.
    pub(super) fn get(&self, name: &str) -> Option<u8> {
        self.names.iter().position(|known| known == name).map(|number| number as u8)
    }

    fn get_or_new(&mut self, keyword: &str, name: &str) -> Part<u8> {
        if let Some(number) = self.get(name) {
            return Ok(number);
        }
        if self.names.len() == VARIABLES_MAX {
            let why = format!("{keyword} (beyond {VARIABLES_MAX} variables)");
            return Err(Skip::Unsupported(why));
        }
        self.names.push(name.to_owned());
        Ok((self.names.len() - 1) as u8)
    }
}

/// Whether a value is a name and no number.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// Reads the options of one rule, one after the other.
pub(super) struct Bytes<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) keyword: &'a str,
    pub(super) names: &'a mut Names,
    pub(super) errors: &'a mut Diagnostics,
}

/// What stands behind the numbers that come first.
struct Words {
    relative: bool,
    little: bool,
    radix: Option<u32>,
    has_string: bool,
    mask: u64,
    multiplier: u32,
    align: u8,
    from: From,
    post_offset: Amount,
}

impl Bytes<'_> {
    /// `BYTES,[!]OPERATOR,VALUE,OFFSET[,…]`
    pub(super) fn test(&mut self, span: Range<usize>) -> Part<ByteTest> {
        let parts = self.parts(&span, 4, "BYTES,OPERATOR,VALUE,OFFSET")?;
        let operator = self.source.text(&parts[1]);
        let (negated, operator) =
            operator.strip_prefix('!').map_or((false, &operator[..]), |rest| (true, rest.trim()));
        let compare = match operator {
            "<" => Compare::Less,
            "<=" => Compare::LessOrEqual,
            "=" => Compare::Equal,
            "" if negated => Compare::Equal,
            ">=" => Compare::GreaterOrEqual,
            ">" => Compare::Greater,
            "&" => Compare::And,
            "^" => Compare::Xor,
            _ => {
                let expected = "<, <=, =, >=, >, & or ^, with ! before it to negate";
                return self.wrong(&parts[1], "no comparison", expected);
            }
        };
        if self.is_negative(&parts[2]) {
            return Err(Skip::Unsupported(format!("{} value below 0", self.keyword)));
        }
        if self.unsigned(&parts[2]).is_some_and(|value| i64::try_from(value).is_err()) {
            return Err(Skip::Unsupported(format!("{} value beyond {}", self.keyword, i64::MAX)));
        }
        let value = self.amount(&parts[2], "value", 0, i64::MAX)?;
        let words = self.words(&parts[4..])?;
        let read = self.read(&parts[0], &parts[3], &words)?;
        Ok(ByteTest { read, compare, negated, value })
    }

    /// `BYTES,OFFSET[,…]`
    pub(super) fn jump(&mut self, span: Range<usize>) -> Part<ByteJump> {
        let parts = self.parts(&span, 2, "BYTES,OFFSET")?;
        let words = self.words(&parts[2..])?;
        let read = self.read(&parts[0], &parts[1], &words)?;
        let Words { multiplier, align, from, post_offset, .. } = words;
        Ok(ByteJump { read, multiplier, align: align > 1, from, post_offset })
    }

    /// `BYTES,OFFSET,NAME[,…]`
    pub(super) fn extract(&mut self, span: Range<usize>) -> Part<ByteSet> {
        let parts = self.parts(&span, 3, "BYTES,OFFSET,NAME")?;
        let words = self.words(&parts[3..])?;
        let read = self.read(&parts[0], &parts[1], &words)?;
        let how = Made::Scaled { multiplier: words.multiplier, align: words.align };
        Ok(ByteSet { read, how, variable: self.variable(&parts[2])? })
    }

    /// `bytes BYTES, offset OFFSET, oper OPERATOR, rvalue VALUE, result NAME[, …]`
    pub(super) fn math(&mut self, span: Range<usize>) -> Part<ByteSet> {
        let parts = self.source.split_commas(span.clone());
        let (mut named, mut rest) = ([None, None, None, None, None], Vec::new());
        for part in parts {
            let text = self.source.text(&part);
            let word = text.split_whitespace().next().unwrap_or("");
            let places = ["bytes", "offset", "oper", "rvalue", "result"];
            match places.iter().position(|place| *place == word) {
                Some(place) => {
                    named[place] = Some(self.source.trim(part.start + word.len()..part.end));
                }
                None => rest.push(part),
            }
        }
        let [Some(bytes), Some(offset), Some(operator), Some(right), Some(name)] = named else {
            let expected = "bytes, offset, oper, rvalue and result, each with its value";
            return self.wrong(&span, "something is missing", expected);
        };
        let operator = match self.source.text(&operator).as_str() {
            "+" => Operator::Add,
            "-" => Operator::Subtract,
            "*" => Operator::Multiply,
            "/" => Operator::Divide,
            "<<" => Operator::ShiftLeft,
            ">>" => Operator::ShiftRight,
            _ => return self.wrong(&operator, "no operator", "+, -, *, /, << or >>"),
        };
        let least = i64::from(operator == Operator::Divide);
        let right = self.amount(&right, "rvalue", least, i64::from(u32::MAX))?;
        let words = self.words(&rest)?;
        let read = self.read(&bytes, &offset, &words)?;
        let how = Made::Math { operator, right };
        Ok(ByteSet { read, how, variable: self.variable(&name)? })
    }

    fn wrong<T>(&mut self, span: &Range<usize>, message: &str, expected: &str) -> Part<T> {
        Err(self.source.tell(self.errors, span.clone(), message, expected, ""))
    }

    fn parts(&mut self, span: &Range<usize>, n: usize, expected: &str) -> Part<Vec<Range<usize>>> {
        let parts = self.source.split_commas(span.clone());
        if parts.len() < n {
            return self.wrong(span, "something is missing", expected);
        }
        Ok(parts)
    }

    /// A number, or a variable that is known.
    fn amount(&mut self, span: &Range<usize>, what: &str, low: i64, high: i64) -> Part<Amount> {
        let text = self.source.text(span);
        if is_name(&text) {
            let why =
                || Skip::Unsupported(format!("{} {what} by an unknown variable", self.keyword));
            return self.names.get(&text).map(Amount::Variable).ok_or_else(why);
        }
        self.number(span, &text, what, low, high).map(Amount::Number)
    }

    /// Whether a number below 0 stands there, which Suricata takes for one of 64 bits.
    fn is_negative(&self, span: &Range<usize>) -> bool {
        let text = self.source.text(span);
        let digits = text.strip_prefix('-').unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The number of 64 bits without a sign that stands there.
    fn unsigned(&self, span: &Range<usize>) -> Option<u64> {
        let text = self.source.text(span);
        match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// Leaves the rule out for an offset that Suricata reads and that is beyond the limit here.
    fn refuse_far(&self, text: &str, what: &str) -> Part<()> {
        let is_wide = matches!(self.keyword, "byte_test" | "byte_jump");
        let number = text.parse::<i32>().ok().filter(|_| is_wide);
        match number.is_some_and(|number| i64::from(number).abs() > OFFSET_MAX) {
            true => {
                let why = format!("{} {what} beyond {OFFSET_MAX}", self.keyword);
                Err(Skip::Unsupported(why))
            }
            false => Ok(()),
        }
    }

    fn number(
        &mut self,
        span: &Range<usize>,
        text: &str,
        what: &str,
        low: i64,
        high: i64,
    ) -> Part<i64> {
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) if digits.starts_with('+') => None,
            Some(digits) => i64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        match number.filter(|number| (low..=high).contains(number)) {
            Some(number) => Ok(number),
            None => {
                let expected = format!("a number from {low} to {high}");
                self.wrong(span, &format!("no right {what}"), &expected)
            }
        }
    }

    fn read(&mut self, bytes: &Range<usize>, offset: &Range<usize>, words: &Words) -> Part<Read> {
        let text = self.source.text(bytes);
        if is_name(&text) {
            return Err(Skip::Unsupported(format!("{} bytes by a variable", self.keyword)));
        }
        let least = i64::from(self.keyword != "byte_jump");
        let most = if words.has_string { DIGITS_MAX } else { BYTES_MAX };
        if words.has_string && least > 0 && text.parse() == Ok(0) {
            // Suricata reads as many digits as there are then.
            return Err(Skip::Unsupported(format!("{} of 0 bytes", self.keyword)));
        }
        let count = self.number(bytes, &text, "number of bytes", least, most)? as u8;
        self.refuse_far(&self.source.text(offset), "offset")?;
        let offset = self.amount(offset, "offset", -OFFSET_MAX, OFFSET_MAX)?;
        let form = match (words.has_string, words.little) {
            (true, _) => Form::Digits(words.radix.unwrap_or(10)),
            (false, true) => Form::Little,
            (false, false) => Form::Big,
        };
        if words.radix.is_some() && !words.has_string {
            let message = "digits of what is no string";
            return self.wrong(bytes, message, "string beside hex, dec or oct");
        }
        Ok(Read { bytes: count, offset, relative: words.relative, form, mask: words.mask })
    }

    /// The words behind the numbers.
    fn words(&mut self, parts: &[Range<usize>]) -> Part<Words> {
        let mut words = Words {
            relative: false,
            little: false,
            radix: None,
            has_string: false,
            mask: u64::MAX,
            multiplier: 1,
            align: 1,
            from: From::Number,
            post_offset: Amount::Number(0),
        };
        for part in parts {
            self.word(part, &mut words)?;
        }
        Ok(words)
    }

    fn word(&mut self, part: &Range<usize>, words: &mut Words) -> Part<()> {
        let text = self.source.text(part).to_ascii_lowercase();
        let (word, value) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
        let value = value.trim();
        let (is_jump, is_extract) = (self.keyword == "byte_jump", self.keyword == "byte_extract");
        let radix = |word: &str| match word {
            "hex" => Some(16),
            "dec" => Some(10),
            "oct" => Some(8),
            _ => None,
        };
        match (word, value) {
            ("relative", "") => words.relative = true,
            ("big", "") | ("endian", "big") => words.little = false,
            ("little", "") | ("endian", "little") => words.little = true,
            ("dce", "") | ("endian", "dce") => {
                return Err(Skip::Unsupported(format!("{} dce", self.keyword)));
            }
            ("string", "") => words.has_string = true,
            ("string", value) if radix(value).is_some() => {
                (words.has_string, words.radix) = (true, radix(value));
            }
            (word, "") if radix(word).is_some() => words.radix = radix(word),
            ("bitmask", value) => {
                let digits = value.strip_prefix("0x").unwrap_or(value);
                let mask = u64::from_str_radix(digits, 16).ok().filter(|&mask| mask > 0);
                let Some(mask) = mask else {
                    return self.wrong(part, "no right bitmask", "a hexadecimal number, as 0x3f");
                };
                words.mask = mask;
            }
            ("multiplier", value) if is_jump || is_extract => {
                words.multiplier = self.number(part, value, "multiplier", 1, OFFSET_MAX)? as u32;
            }
            ("align", "") if is_jump => words.align = 4,
            ("align", "2") if is_extract => words.align = 2,
            ("align", "4") if is_extract => words.align = 4,
            ("from_beginning", "") if is_jump => words.from = From::Beginning,
            ("from_end", "") if is_jump => words.from = From::End,
            ("post_offset", value) if is_jump => {
                self.refuse_far(value, "post_offset")?;
                let value_span = self.source.trim(part.start + word.len()..part.end);
                words.post_offset = match is_name(value) {
                    true => self.amount(&value_span, "post_offset", 0, 0)?,
                    false => Amount::Number(self.number(
                        part,
                        value,
                        "post_offset",
                        -OFFSET_MAX,
                        OFFSET_MAX,
                    )?),
                };
            }
            _ => {
                let message = format!("no such word of {}", self.keyword);
                let expected = "relative, big, little, string with hex, dec or oct, bitmask, or \
                                what docs/ids.md names";
                return self.wrong(part, &message, expected);
            }
        }
        Ok(())
    }

    fn variable(&mut self, span: &Range<usize>) -> Part<u8> {
        let name = self.source.text(span);
        let is_right = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        if !is_name(&name) || !name.chars().all(is_right) {
            return self.wrong(span, "no name of a variable", "a letter, then letters and digits");
        }
        self.names.get_or_new(self.keyword, &name)
    }
}
