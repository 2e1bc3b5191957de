//! Functions of scripts: handlers that depend only on their parameters.

use warpswitch_graph::language::args::{FromArg, NoNames};

use super::format::{general, sprintf};
use super::words::{shift, unquoted};

/// A number as a script has it: an integer as long as it can be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Int(i64),
    Real(f64),
}

impl Number {
    fn parse(word: &str) -> Option<Self> {
        let real = || f64::from_arg(word, &NoNames).ok().map(Number::Real);
        i64::from_arg(word, &NoNames).ok().map(Number::Int).or_else(real)
    }

    fn real(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Real(value) => value,
        }
    }

    fn text(self) -> String {
        match self {
            Number::Int(value) => value.to_string(),
            Number::Real(value) => general(value, 12),
        }
    }
}

fn truth(word: &str) -> Result<bool, String> {
    bool::from_arg(word, &NoNames).map_err(|_| "syntax error".to_owned())
}

/// Words of a text, one by one.
struct Words<'t>(&'t str);

impl<'t> Iterator for Words<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let (word, rest) = shift(self.0);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// The answer of function `name`; none if there is no such function.
pub fn call(name: &str, text: &str) -> Option<Result<String, String>> {
    Some(match name {
        "add" | "sub" | "min" | "max" | "mul" | "div" | "idiv" => arithmetic(name, text),
        "mod" | "rem" => remainder(name, text),
        "neg" | "abs" => sign(name, text),
        "eq" | "ne" | "gt" | "ge" | "lt" | "le" => compare(name, text),
        "not" => truth(text.trim_ascii()).map(|value| (!value).to_string()),
        "and" | "or" | "nand" | "nor" => connect(name, text),
        "if" => choose(text),
        "in" => Ok(is_in(text).to_string()),
        "sprintf" => sprintf(text),
        "first" => Ok(shift(text).0.to_owned()),
        "length" => Ok(text.len().to_string()),
        "unquote" => Ok(unquoted(text)),
        "htons" | "ntohs" | "htonl" | "ntohl" => swap(name, text),
        _ => return None,
    })
}

fn arithmetic(name: &str, text: &str) -> Result<String, String> {
    // Division gives a real number; idiv cuts its end off.
    let mut sum = None;
    for word in Words(text) {
        let number = Number::parse(word).ok_or("expected list of numbers")?;
        let number = match name {
            "div" | "idiv" => Number::Real(number.real()),
            _ => number,
        };
        sum = Some(match sum {
            None => number,
            Some(sum) => combine(name, sum, number),
        });
    }
    let empty = if matches!(name, "add" | "sub") { 0 } else { 1 };
    let sum = sum.unwrap_or(Number::Int(empty));
    Ok(if name == "idiv" { (sum.real() as i64).to_string() } else { sum.text() })
}

fn combine(name: &str, left: Number, right: Number) -> Number {
    use Number::{Int, Real};
    if let (Int(left), Int(right)) = (left, right) {
        return Int(match name {
            "add" => left.wrapping_add(right),
            "sub" => left.wrapping_sub(right),
            "min" => left.min(right),
            "max" => left.max(right),
            _ => left.wrapping_mul(right),
        });
    }
    let (left, right) = (left.real(), right.real());
    Real(match name {
        "add" => left + right,
        "sub" => left - right,
        "min" => left.min(right),
        "max" => left.max(right),
        "mul" => left * right,
        _ => left / right,
    })
}

/// Two words, and nothing else.
fn two(text: &str) -> Result<(&str, &str), String> {
    let mut words = Words(text);
    match (words.next(), words.next(), words.next()) {
        (Some(left), Some(right), None) => Ok((left, right)),
        _ => Err("expected two numbers".to_owned()),
    }
}

fn remainder(name: &str, text: &str) -> Result<String, String> {
    let (left, right) = two(text)?;
    match (Number::parse(left), Number::parse(right)) {
        (Some(Number::Int(left)), Some(Number::Int(right))) => {
            left.checked_rem(right).map(|rest| rest.to_string()).ok_or("division by zero".into())
        }
        (Some(left), Some(right)) if name == "rem" => Ok(general(left.real() % right.real(), 12)),
        _ => Err("expected two numbers".to_owned()),
    }
}

fn sign(name: &str, text: &str) -> Result<String, String> {
    Ok(match Number::parse(text.trim_ascii()).ok_or("expected one number")? {
        Number::Int(value) if name == "neg" || value < 0 => value.wrapping_neg().to_string(),
        Number::Int(value) => value.to_string(),
        Number::Real(value) if name == "neg" => general(-value, 12),
        Number::Real(value) => general(value.abs(), 12),
    })
}

fn compare(name: &str, text: &str) -> Result<String, String> {
    use std::cmp::Ordering;
    let (left, right) = two(text)?;
    let order = match (Number::parse(left), Number::parse(right)) {
        (Some(Number::Int(left)), Some(Number::Int(right))) => left.cmp(&right),
        (Some(left), Some(right)) => {
            left.real().partial_cmp(&right.real()).unwrap_or(Ordering::Greater)
        }
        _ => unquoted(left).cmp(&unquoted(right)),
    };
    let is_so = match name {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "gt" => order.is_gt(),
        "ge" => order.is_ge(),
        "lt" => order.is_lt(),
        _ => order.is_le(),
    };
    Ok(is_so.to_string())
}

fn connect(name: &str, text: &str) -> Result<String, String> {
    let is_and = matches!(name, "and" | "nand");
    let mut value = is_and;
    for word in Words(text) {
        value = truth(word)?;
        // What follows cannot change it, and is not looked at.
        if value != is_and {
            break;
        }
    }
    Ok((value != name.starts_with('n')).to_string())
}

fn choose(text: &str) -> Result<String, String> {
    let (condition, rest) = shift(text);
    let (then, rest) = shift(rest);
    Ok(if truth(condition)? { then.to_owned() } else { shift(rest).0.to_owned() })
}

fn is_in(text: &str) -> bool {
    let mut words = Words(text);
    let Some(wanted) = words.next().map(unquoted) else { return false };
    !wanted.is_empty() && words.any(|word| unquoted(word) == wanted)
}

/// Bytes of a number turned round: what a machine with the low byte first does for the network.
fn swap(name: &str, text: &str) -> Result<String, String> {
    let value = i64::from_arg(text.trim_ascii(), &NoNames).map_err(|_| "syntax error")?;
    Ok(if name.ends_with('s') {
        (value as u16).to_be().to_string()
    } else {
        (value as u32).to_be().to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_answer() {
        let cases = [
            ("add", "1 2 3", "6"),
            ("add", "", "0"),
            ("add", "1 0.5", "1.5"),
            ("sub", "10 2 2", "6"),
            ("min", "10 6 20", "6"),
            ("max", "-1 6 3", "6"),
            ("mul", "2 0x10", "32"),
            ("div", "75 2.5 5", "6"),
            ("div", "1 3", "0.333333333333"),
            ("idiv", "7 2", "3"),
            ("mod", "7 3", "1"),
            ("rem", "7.5 2", "1.5"),
            ("neg", "-3", "3"),
            ("abs", "-3.5", "3.5"),
            ("eq", "10 0xA", "true"),
            ("le", "9 8", "false"),
            ("eq", "10x 10x", "true"),
            ("lt", "abc \"abd\"", "true"),
            ("ge", "1.5 1.5", "true"),
            ("not", "false", "true"),
            ("and", "true 1 yes", "true"),
            ("or", "false no", "false"),
            ("nand", "true true", "false"),
            ("nor", "false", "true"),
            ("if", "true a b", "a"),
            ("if", "0 a \"b c\"", "\"b c\""),
            ("in", "foo bar \"foo\"", "true"),
            ("in", "foo bar", "false"),
            ("first", "a b", "a"),
            ("length", "abc", "3"),
            ("unquote", "\"a b\"", "a b"),
        ];
        for (name, text, expected) in cases {
            assert_eq!(call(name, text), Some(Ok(expected.into())), "{name} {text}");
        }
        assert_eq!(call("nothing", ""), None);
        let there = call("htonl", "6").unwrap().unwrap();
        assert_eq!(call("ntohl", &there), Some(Ok("6".into())));
    }

    #[test]
    fn what_cannot_be_computed_is_told() {
        let cases = [
            ("add", "1 x", "expected list of numbers"),
            ("mod", "1 0", "division by zero"),
            ("mod", "1.5 1", "expected two numbers"),
            ("mod", "1 2 3", "expected two numbers"),
            ("neg", "x", "expected one number"),
            ("eq", "1", "expected two numbers"),
            ("not", "maybe", "syntax error"),
            ("if", "maybe a b", "syntax error"),
        ];
        for (name, text, expected) in cases {
            assert_eq!(call(name, text), Some(Err(expected.into())), "{name} {text}");
        }
        let most = i64::MIN.to_string();
        assert_eq!(call("neg", &most), Some(Ok(most.clone())));
        assert_eq!(call("mod", &format!("{most} -1")), Some(Err("division by zero".into())));
        assert_eq!(call("idiv", "1 0"), Some(Ok(i64::MAX.to_string())));
    }
}
