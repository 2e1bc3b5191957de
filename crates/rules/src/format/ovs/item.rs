//! Pieces of flow text: items between commas and blanks, and parts of action lists.

use std::ops::Range;

use super::super::text::{Fault, Faults, Token, is_space};

/// An item: a name, and a value if there is one.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub name: Token<'a>,
    pub value: Option<Token<'a>>,
}

impl<'a> Item<'a> {
    /// Where it lies in the line.
    pub fn span(&self) -> Range<usize> {
        self.name.start..self.value.map_or(self.name.span().end, |value| value.span().end)
    }

    /// The value, or the fault of its absence.
    pub fn required(&self) -> Result<Token<'a>, Box<Fault>> {
        self.value.filter(|value| !value.bytes.is_empty()).ok_or_else(|| {
            let end = self.name.span().end;
            Fault::new(end..end, format!("{} without a value", self.name.text()), "=VALUE")
        })
    }
}

fn is_separator(byte: u8) -> bool {
    byte == b',' || is_space(byte)
}

/// The next item from `at` on, which moves behind it.
pub(super) fn next_item<'a>(line: Token<'a>, at: &mut usize) -> Option<Item<'a>> {
    let bytes = line.bytes;
    while *at < bytes.len() && is_separator(bytes[*at]) {
        *at += 1;
    }
    let start = *at;
    if start == bytes.len() {
        return None;
    }
    let ends_name = |b: &u8| is_separator(*b) || matches!(b, b'=' | b':' | b'(');
    let len = bytes[start..].iter().position(ends_name).unwrap_or(bytes.len() - start);
    let name = line.part(start..start + len);
    *at = start + len;
    let Some(delimiter) = bytes.get(*at).filter(|b| !is_separator(**b)) else {
        return Some(Item { name, value: None });
    };
    *at += 1;
    let from = *at;
    let is_end = |b: &u8| match delimiter {
        b'(' => *b == b')',
        _ => is_separator(*b),
    };
    let len = bytes[from..].iter().position(is_end).unwrap_or(bytes.len() - from);
    *at = from + len + usize::from(*delimiter == b'(' && from + len < bytes.len());
    Some(Item { name, value: Some(line.part(from..from + len)) })
}

/// All items of a text without nested lists.
pub(super) fn items<'a>(text: Token<'a>) -> impl Iterator<Item = Item<'a>> {
    let mut at = 0;
    std::iter::from_fn(move || next_item(text, &mut at))
}

/// The actions of a list: parts between commas and blanks that lie in no parentheses.
pub(super) fn actions<'a>(token: Token<'a>, faults: &mut Faults) -> Vec<Token<'a>> {
    let mut parts = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut start = None;
    for (at, &byte) in token.bytes.iter().enumerate() {
        match byte {
            b'(' => open.push(at),
            b')' if open.pop().is_none() => {
                let span = token.start + at..token.start + at + 1;
                faults.push(Fault::new(span, "unmatched closing parenthesis", "no )"));
                return Vec::new();
            }
            _ => {}
        }
        let separates = open.is_empty() && is_separator(byte);
        match (start, separates) {
            (None, false) => start = Some(at),
            (Some(from), true) => {
                parts.push(token.part(from..at));
                start = None;
            }
            _ => {}
        }
    }
    if let Some(&at) = open.first() {
        let span = token.start + at..token.start + at + 1;
        faults.push(Fault::new(span, "unmatched opening parenthesis", ") further on"));
        return Vec::new();
    }
    parts.extend(start.map(|from| token.part(from..token.bytes.len())));
    parts
}

/// Name and argument of an action: `name:argument`, `name=argument` or `name(argument)`.
pub(super) fn action(token: Token<'_>) -> Item<'_> {
    let at = token.bytes.iter().position(|b| matches!(b, b':' | b'=' | b'('));
    let Some(at) = at else { return Item { name: token, value: None } };
    let end = match token.bytes[at] {
        b'(' if token.bytes.ends_with(b")") => token.bytes.len() - 1,
        _ => token.bytes.len(),
    };
    Item { name: token.part(0..at), value: Some(token.part(at + 1..end)) }
}

/// A token without blanks at its ends.
pub(super) fn trim(token: Token<'_>) -> Token<'_> {
    let bytes = token.bytes;
    let start = bytes.iter().position(|b| !is_space(*b)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|b| !is_space(*b)).map_or(start, |at| at + 1);
    token.part(start..end)
}
