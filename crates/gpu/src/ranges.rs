//! Free ranges of a space of places: who takes some gives them back later.
//!
//! First fit in order of place, neighbours joined. Space is whatever the owner counts: bytes of a
//! card's memory, units of an image. The order of calls alone decides what is given out, so two
//! spaces that are used alike stay equal.

use std::collections::BTreeMap;

/// The ranges of a space that nobody uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    /// Length by start; no two touch.
    free: BTreeMap<usize, usize>,
    len: usize,
}

impl Ranges {
    /// A space of which `start..end` is free.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        let mut ranges = Self::default();
        if start < end {
            ranges.give(start, end - start);
        }
        ranges
    }

    /// The start of `len` places that are now the caller's, or `None` if there are none in a row.
    ///
    /// Cost: linear in the number of free ranges before the first that fits.
    pub(crate) fn take(&mut self, len: usize) -> Option<usize> {
        debug_assert!(len > 0);
        let (&start, &there) = self.free.iter().find(|&(_, &there)| there >= len)?;
        self.free.remove(&start);
        if there > len {
            self.free.insert(start + len, there - len);
        }
        self.len -= len;
        Some(start)
    }

    /// Takes back `len` places from `start` on.
    ///
    /// # Panics
    /// If some of them are free already: a caller bug.
    pub(crate) fn give(&mut self, mut start: usize, mut len: usize) {
        self.len += len;
        if let Some((&next, &next_len)) = self.free.range(start..).next() {
            assert!(start + len <= next, "places are given back twice");
            if start + len == next {
                self.free.remove(&next);
                len += next_len;
            }
        }
        if let Some((&former, &former_len)) = self.free.range(..start).next_back() {
            assert!(former + former_len <= start, "places are given back twice");
            if former + former_len == start {
                (start, len) = (former, former_len + len);
            }
        }
        self.free.insert(start, len);
    }

    /// How many places are free, in a row or not.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_classify::parts::SeedStream;

    #[test]
    fn what_is_given_back_joins_its_neighbours() {
        let mut ranges = Ranges::new(8, 108);
        let starts: Vec<usize> = (0..10).map(|_| ranges.take(10).unwrap()).collect();
        assert_eq!((starts[9], ranges.take(1), ranges.len()), (98, None, 0));
        for at in [1, 3, 2] {
            ranges.give(starts[at], 10);
        }
        assert_eq!((ranges.take(31), ranges.take(30), ranges.take(1)), (None, Some(18), None));
    }

    #[test]
    fn nobody_is_given_what_another_has() {
        let mut seeds = SeedStream::new(3, 3);
        let (mut ranges, mut used) = (Ranges::new(0, 1000), vec![false; 1000]);
        let mut held: Vec<(usize, usize)> = Vec::new();
        for _ in 0..5000 {
            if seeds.next().is_multiple_of(2) {
                let len = 1 + seeds.next() as usize % 40;
                let Some(start) = ranges.take(len) else { continue };
                assert!(used[start..start + len].iter().all(|used| !used));
                used[start..start + len].fill(true);
                held.push((start, len));
            } else if !held.is_empty() {
                let (start, len) = held.swap_remove(seeds.next() as usize % held.len());
                used[start..start + len].fill(false);
                ranges.give(start, len);
            }
            assert_eq!(ranges.len(), used.iter().filter(|used| !**used).count());
        }
        held.iter().for_each(|&(start, len)| ranges.give(start, len));
        assert_eq!(ranges.take(1000), Some(0));
    }
}
