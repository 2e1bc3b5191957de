//! Bits of flows: what rules remember of one packet for the next (`flowbits`).
//!
//! Names are numbered when rules are read; a flow has one bit for each, in one table beside the
//! flows, which takes no memory until a rule sets a bit. A rule's tests are answered when it is its
//! turn for a text, and its changes are made once for a packet, when all else of it holds: so what
//! a packet does to bits hangs on the packets before it, however they are cut into batches.

use std::collections::HashMap;

/// The most names of all rules together.
pub const BIT_NAMES_MAX: usize = 4096;

/// What a rule asks of its flow's bits, and what it does to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowBits {
    /// All of them must hold.
    pub tests: Vec<BitTest>,
    /// What is done when the rule holds, in this order.
    pub changes: Vec<BitChange>,
}

impl FlowBits {
    /// Whether the rule says nothing about bits.
    pub fn is_empty(&self) -> bool {
        self.tests.is_empty() && self.changes.is_empty()
    }

    /// When rules with these options have their turn: those that only change bits first, then
    /// those that test them too, then those that only test, then all others.
    pub fn turn(&self) -> u8 {
        match (self.changes.is_empty(), self.tests.is_empty()) {
            (false, true) => 0,
            (false, false) => 1,
            (true, false) => 2,
            (true, true) => 3,
        }
    }
}

/// `isset` or `isnotset`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitTest {
    /// Numbers of the names, at least one.
    pub names: Vec<u16>,
    /// Whether all of them must be set (`&`), or one of them (`|`).
    pub all: bool,
    /// `isnotset`: that must not be so.
    pub negated: bool,
}

impl BitTest {
    /// Whether it holds where `is_set` says which bits are set.
    pub fn holds(&self, is_set: impl Fn(u16) -> bool) -> bool {
        let mut names = self.names.iter();
        let is_so = match self.all {
            true => names.all(|&name| is_set(name)),
            false => names.any(|&name| is_set(name)),
        };
        is_so != self.negated
    }
}

/// `set`, `unset` or `toggle`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitChange {
    /// What is done.
    pub how: BitHow,
    /// Numbers of the names, at least one.
    pub names: Vec<u16>,
}

/// What is done to a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitHow {
    /// It is set from now on.
    Set,
    /// It is not set any more.
    Unset,
    /// It is set if it was not, and not if it was.
    Toggle,
}

impl BitHow {
    /// What becomes of a bit.
    pub fn of(self, is_set: bool) -> bool {
        match self {
            Self::Set => true,
            Self::Unset => false,
            Self::Toggle => !is_set,
        }
    }
}

/// The bits of all flows, by their places.
#[derive(Debug, Default)]
pub(crate) struct BitTable {
    /// Words of a flow.
    words: usize,
    bits: Vec<u64>,
}

impl BitTable {
    /// A table for so many names, without memory.
    pub(crate) fn new(names: usize) -> Self {
        Self { words: names.div_ceil(64), bits: Vec::new() }
    }

    /// The most bytes that it takes for a flow: twice its words, for growth.
    pub(crate) fn bytes_each(names: usize) -> usize {
        2 * names.div_ceil(64) * size_of::<u64>()
    }

    fn at(&self, place: u32, name: u16) -> (usize, u64) {
        let word = place as usize * self.words + usize::from(name / 64);
        (word, 1 << (name % 64))
    }

    pub(crate) fn is_set(&self, place: u32, name: u16) -> bool {
        let (word, bit) = self.at(place, name);
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }

    pub(crate) fn change(&mut self, place: u32, change: &BitChange) {
        for &name in &change.names {
            let will_be = change.how.of(self.is_set(place, name));
            let (word, bit) = self.at(place, name);
            if will_be && word >= self.bits.len() {
                self.bits.resize((place as usize + 1) * self.words, 0);
            }
            let Some(word) = self.bits.get_mut(word) else { continue };
            *word = if will_be { *word | bit } else { *word & !bit };
        }
    }

    /// The flow at a place has ended.
    pub(crate) fn clear(&mut self, place: u32) {
        let start = place as usize * self.words;
        if let Some(words) = self.bits.get_mut(start..start + self.words) {
            words.fill(0);
        }
    }

    /// The same bits where names have other numbers; those of names that are gone are gone.
    pub(crate) fn renamed(&self, from: &[String], to: &[String]) -> Self {
        let numbers: HashMap<&str, u16> = to.iter().map(String::as_str).zip(0..).collect();
        let known = (0u16..).zip(from).filter_map(|(old, name)| {
            numbers.get(name.as_str()).map(|&new| (old, BitHow::Set, vec![new]))
        });
        let known: Vec<(u16, BitChange)> =
            known.map(|(old, how, names)| (old, BitChange { how, names })).collect();
        let mut renamed = Self::new(to.len());
        let flows = self.bits.len().checked_div(self.words).unwrap_or(0);
        for place in 0..flows as u32 {
            for (old, change) in &known {
                if self.is_set(place, *old) {
                    renamed.change(place, change);
                }
            }
        }
        renamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn bits_are_of_their_flow_alone() {
        let mut table = BitTable::new(130);
        let change = |how, names: &[u16]| BitChange { how, names: names.to_vec() };
        table.change(3, &change(BitHow::Unset, &[5]));
        assert_eq!(table.bits.capacity(), 0);
        table.change(3, &change(BitHow::Set, &[0, 64, 129]));
        table.change(4, &change(BitHow::Toggle, &[0, 1]));
        table.change(4, &change(BitHow::Toggle, &[0]));
        let set = |table: &BitTable, place| -> Vec<u16> {
            (0..130).filter(|&name| table.is_set(place, name)).collect()
        };
        assert_eq!(
            (set(&table, 3), set(&table, 4), set(&table, 2)),
            (vec![0, 64, 129], vec![1], vec![])
        );
        table.clear(3);
        table.clear(99);
        assert_eq!((set(&table, 3), set(&table, 4)), (vec![], vec![1]));
    }

    #[test]
    fn bits_keep_their_names() {
        let mut table = BitTable::new(3);
        table.change(1, &BitChange { how: BitHow::Set, names: vec![0, 2] });
        let renamed = table.renamed(&names(&["a", "b", "c"]), &names(&["x", "c", "b"]));
        let set: Vec<bool> = (0..3).map(|name| renamed.is_set(1, name)).collect();
        assert_eq!(set, [false, true, false]);
        // Without names there, or here.
        assert!(!table.renamed(&names(&["a", "b", "c"]), &[]).is_set(1, 0));
        assert!(!BitTable::new(0).renamed(&[], &names(&["a"])).is_set(1, 0));
    }
}
