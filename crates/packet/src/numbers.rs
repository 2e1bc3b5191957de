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

    /// Moves those of `other` behind. Frames that follow one another stay a range.
    #[inline]
    pub(crate) fn append(&mut self, other: &mut Numbers) {
        if other.len() == 0 {
            return;
        }
        if self.len() == 0 {
            return std::mem::swap(self, other);
        }
        if !other.range.is_empty() && self.range.end == other.range.start && self.list.is_empty() {
            self.range.end = std::mem::take(&mut other.range).end;
            return;
        }
        self.as_list().append(other.as_list());
    }

    /// Moves the last `count` to `to`, which has others no longer.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn split_last(&mut self, count: usize, to: &mut Numbers) {
        let start = self.len().checked_sub(count).expect("as many numbers as are to move");
        to.clear();
        if self.range.is_empty() {
            to.list.extend_from_slice(&self.list[start..]);
            return self.list.truncate(start);
        }
        let middle = self.range.start + start as u32;
        to.range = middle..self.range.end;
        self.range.end = middle;
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

    #[test]
    fn neighbours_stay_a_range() {
        let all = |numbers: &Numbers| match numbers.form() {
            Form::Range(range) => (true, range.collect::<Vec<u32>>()),
            Form::List(list) => (false, list.to_vec()),
        };
        for (second, is_range) in [(8..11, true), (4..6, false), (8..8, true)] {
            let (mut numbers, mut other, mut end) = <(Numbers, Numbers, Numbers)>::default();
            numbers.set(Loaned::Range(5..8));
            other.set(Loaned::Range(second.clone()));
            let expected: Vec<u32> = (5..8).chain(second).collect();
            numbers.append(&mut other);
            assert_eq!((all(&numbers), other.len()), ((is_range, expected.clone()), 0));
            numbers.split_last(2, &mut end);
            let (start, last) = expected.split_at(expected.len() - 2);
            assert_eq!((all(&numbers).1, all(&end).1), (start.to_vec(), last.to_vec()));
            numbers.append(&mut end);
            assert_eq!((all(&numbers).1, end.len()), (expected, 0));
        }
    }
}
