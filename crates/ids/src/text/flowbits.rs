//! `flowbits`: its value, the numbers of its names, and rules whose bits nobody sets.
//!
//! # Bits that rules cannot rely on
//! A rule that was left out does nothing to bits. So of the rules that test a bit those are left
//! out too that could never hold, as nothing that is looked for sets it, and those that could hold
//! where they must not, as what would change the bit is not looked for.

use std::collections::HashMap;
use std::ops::Range;

use warpswitch_rules::diagnostic::Diagnostics;

use super::source::{Part, Skip, Source};
use crate::flowbits::{BIT_NAMES_MAX, BitChange, BitHow, BitTest, FlowBits};
use crate::rule::{LeftOut, Rules};

/// What one option says.
#[derive(Debug)]
pub(super) enum BitOption {
    NoAlert,
    Test { names: Vec<String>, all: bool, negated: bool },
    Change { how: BitHow, names: Vec<String> },
}

/// Reads `set,NAME[&NAME…]`, `unset`, `toggle`, `isset,NAME[|NAME…]`, `isnotset` or `noalert`.
pub(super) fn option(
    source: &Source<'_>,
    span: Range<usize>,
    errors: &mut Diagnostics,
) -> Part<BitOption> {
    let parts = source.split_commas(span.clone());
    let word = parts.first().map(|part| source.text(part)).unwrap_or_default();
    match (word.as_str(), parts.len()) {
        ("noalert", 1) => return Ok(BitOption::NoAlert),
        ("set" | "unset" | "toggle" | "isset" | "isnotset", 2) => {}
        ("set" | "unset" | "toggle" | "isset" | "isnotset", 3..) => {
            return Err(Skip::Unsupported("flowbits group".into()));
        }
        ("reset" | "setx", _) => return Err(Skip::Unsupported(format!("flowbits {word}"))),
        _ => {
            let message = "cannot be read as something about bits";
            let expected = "set, unset, toggle, isset or isnotset with a name, or noalert";
            return Err(source.tell(errors, span, message, expected, ""));
        }
    }
    let text = source.text(&parts[1]);
    let (all, any) = (text.contains('&'), text.contains('|'));
    let names: Vec<String> = text.split(['&', '|']).map(|name| name.trim().to_owned()).collect();
    let is_name = |name: &String| {
        !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    if all && any || !names.iter().all(is_name) {
        let message = "no names of bits";
        let expected = "a name without blanks, or several with & or with | between them";
        return Err(source.tell(errors, parts[1].clone(), message, expected, ""));
    }
    Ok(match word.as_str() {
        "isset" => BitOption::Test { names, all, negated: false },
        "isnotset" => BitOption::Test { names, all, negated: true },
        _ if any => return Err(Skip::Unsupported(format!("flowbits {word} with |"))),
        "set" => BitOption::Change { how: BitHow::Set, names },
        "unset" => BitOption::Change { how: BitHow::Unset, names },
        _ => BitOption::Change { how: BitHow::Toggle, names },
    })
}

/// What the rules that were left out would do to a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Missing {
    sets: bool,
    unsets: bool,
}

impl Missing {
    fn note(&mut self, how: BitHow) {
        self.sets |= how != BitHow::Unset;
        self.unsets |= how != BitHow::Set;
    }
}

/// Names of bits, by their numbers.
#[derive(Debug, Default)]
pub(super) struct BitNames {
    names: Vec<String>,
    numbers: HashMap<String, u16>,
    missing: Vec<Missing>,
}

impl BitNames {
    /// The options of a rule with numbers for names; none if there are too many names.
    pub(super) fn number(&mut self, options: Vec<BitOption>) -> Option<FlowBits> {
        let mut bits = FlowBits::default();
        for option in options {
            match option {
                BitOption::NoAlert => {}
                BitOption::Test { names, all, negated } => {
                    bits.tests.push(BitTest { names: self.numbers_of(names)?, all, negated });
                }
                BitOption::Change { how, names } => {
                    bits.changes.push(BitChange { how, names: self.numbers_of(names)? });
                }
            }
        }
        Some(bits)
    }

    fn numbers_of(&mut self, names: Vec<String>) -> Option<Vec<u16>> {
        let number = |name: String| {
            if let Some(&number) = self.numbers.get(&name) {
                return Some(number);
            }
            let number = u16::try_from(self.names.len()).ok()?;
            if self.names.len() == BIT_NAMES_MAX {
                return None;
            }
            self.names.push(name.clone());
            self.missing.push(Missing::default());
            self.numbers.insert(name, number);
            Some(number)
        };
        names.into_iter().map(number).collect()
    }

    /// A rule with these options is left out.
    pub(super) fn miss(&mut self, bits: &FlowBits) {
        for change in &bits.changes {
            for &name in &change.names {
                self.missing[usize::from(name)].note(change.how);
            }
        }
    }

    /// Leaves out the rules that cannot rely on their bits, and numbers the names of the others.
    pub(super) fn settle(mut self, rules: &mut Rules) {
        let out = self.unreliable(rules);
        let mut numbers = out.iter();
        let mut kept = Vec::with_capacity(rules.rules.len());
        for rule in std::mem::take(&mut rules.rules) {
            match numbers.next().copied().flatten() {
                None => kept.push(rule),
                Some(keyword) => {
                    let about = &rule.about;
                    let keywords = vec![keyword.to_owned()];
                    let (file, line, sid) = (about.file, about.line, about.sid);
                    rules.left_out.push(LeftOut { file, line, sid, keywords });
                }
            }
        }
        rules.rules = kept;
        let mut renumbered: Vec<Option<u16>> = vec![None; self.names.len()];
        for rule in &mut rules.rules {
            let tests = rule.bits.tests.iter_mut().flat_map(|test| &mut test.names);
            let changes = rule.bits.changes.iter_mut().flat_map(|change| &mut change.names);
            for name in tests.chain(changes) {
                let new = &mut renumbered[usize::from(*name)];
                *name = *new.get_or_insert_with(|| {
                    rules.bit_names.push(std::mem::take(&mut self.names[usize::from(*name)]));
                    (rules.bit_names.len() - 1) as u16
                });
            }
        }
    }

    /// Why each rule must be left out, if it must.
    fn unreliable(&mut self, rules: &Rules) -> Vec<Option<&'static str>> {
        let rules = &rules.rules;
        let mut out: Vec<Option<&'static str>> = vec![None; rules.len()];
        let mut setters = vec![0usize; self.names.len()];
        let mut testers = vec![Vec::new(); self.names.len()];
        for (idx, rule) in rules.iter().enumerate() {
            for name in rule.bits.tests.iter().flat_map(|test| &test.names) {
                testers[usize::from(*name)].push(idx);
            }
            for name in setting(&rule.bits) {
                setters[usize::from(name)] += 1;
            }
        }
        let mut to_look_at: Vec<usize> = (0..rules.len()).collect();
        while let Some(idx) = to_look_at.pop() {
            let bits = &rules[idx].bits;
            let reason = bits.tests.iter().find_map(|test| self.reason(test, &setters));
            if out[idx].is_some() || reason.is_none() {
                continue;
            }
            out[idx] = reason;
            // Who tests a bit is looked at again only where something became otherwise.
            for change in &bits.changes {
                for &name in &change.names {
                    let name = usize::from(name);
                    let before = self.missing[name];
                    self.missing[name].note(change.how);
                    if before != self.missing[name] {
                        to_look_at.extend(&testers[name]);
                    }
                }
            }
            for name in setting(bits) {
                let name = usize::from(name);
                setters[name] -= 1;
                if setters[name] == 0 {
                    to_look_at.extend(&testers[name]);
                }
            }
        }
        out
    }

    fn reason(&self, test: &BitTest, setters: &[usize]) -> Option<&'static str> {
        let names = || test.names.iter().map(|&name| usize::from(name));
        let can_be_set = match test.all {
            true => names().all(|name| setters[name] > 0),
            false => names().any(|name| setters[name] > 0),
        };
        let may_differ = match test.negated {
            true => names().any(|name| self.missing[name].sets),
            false => names().any(|name| self.missing[name].unsets),
        };
        if !test.negated && !can_be_set {
            Some("flowbits isset (no rule that is looked for sets it)")
        } else if may_differ {
            Some("flowbits (a rule that is left out changes it)")
        } else {
            None
        }
    }
}

/// The names that may be set, once for each time.
fn setting(bits: &FlowBits) -> impl Iterator<Item = u16> {
    let sets = bits.changes.iter().filter(|change| change.how != BitHow::Unset);
    sets.flat_map(|change| &change.names).copied()
}
