//! Numbers of frames, as many as a batch has packets.
//!
//! A source lends frames that lie one behind the other: their numbers are a range, and nothing is
//! written or read for each. They become a list when packets are sorted.
//!
//! # Invariants
//! - N1: while there is a range that is not empty, the list is empty.

use std::ops::Range;

use crate::lend::Loaned;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    range: Range<u32>,
    list: Vec<u32>,
}

/// What numbers are.
#[derive(Clone, Debug)]
pub(crate) enum Form<'n> {
    /// Each is by one more than the one before.
    Range(Range<u32>),
    /// Any others.
    List(&'n [u32]),
}

impl Numbers {
    /// None, with room for so many.
    pub(crate) fn with_capacity(room: usize) -> Self {
        Self { range: 0..0, list: Vec::with_capacity(room) }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.range.len() + self.list.len()
    }

    #[inline(always)]
    pub(crate) fn form(&self) -> Form<'_> {
        if self.range.is_empty() { Form::List(&self.list) } else { Form::Range(self.range.clone()) }
    }

    /// Has these in place of those before.
    #[inline]
    pub(crate) fn set(&mut self, loaned: Loaned) {
        self.clear();
        match loaned {
            Loaned::Range(range) => self.range = range,
            Loaned::Same { number, count } => self.list.resize(count, number),
        }
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.range = 0..0;
        self.list.clear();
    }

    /// All of them one by one, to change.
    #[inline]
    pub(crate) fn as_list(&mut self) -> &mut Vec<u32> {
        if !self.range.is_empty() {
            self.list.extend(std::mem::take(&mut self.range));
        }
        &mut self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_becomes_a_list() {
        let mut numbers = Numbers::with_capacity(4);
        for _ in 0..2 {
            numbers.set(Loaned::Range(5..8));
            assert!(matches!(numbers.form(), Form::Range(range) if range == (5..8)));
            assert_eq!(numbers.len(), 3);
            numbers.as_list().push(2);
            assert!(matches!(numbers.form(), Form::List([5, 6, 7, 2])));
            assert_eq!(numbers.len(), 4);
        }
        numbers.set(Loaned::Same { number: 9, count: 2 });
        assert!(matches!(numbers.form(), Form::List([9, 9])));
        numbers.clear();
        assert_eq!((numbers.len(), numbers.as_list().len()), (0, 0));
    }
}
