//! Sets of addresses and ports as ranges.

use std::hash::Hash;
use std::sync::Arc;

/// A value that ranges are made of: it has a next one, up to the last.
pub trait Value: Copy + Ord + Hash + std::fmt::Debug {
    /// The least value.
    const MIN: Self;
    /// The largest value.
    const MAX: Self;
    /// The next value; the same at the end.
    fn next(self) -> Self;
    /// The value before; the same at the start.
    fn before(self) -> Self;
}

macro_rules! value {
    ($type:ty) => {
        impl Value for $type {
            const MIN: Self = <$type>::MIN;
            const MAX: Self = <$type>::MAX;

            fn next(self) -> Self {
                self.saturating_add(1)
            }

            fn before(self) -> Self {
                self.saturating_sub(1)
            }
        }
    };
}

value!(u16);
value!(u32);
value!(u128);

/// A set that lists of a rule's header are put together to.
pub trait Set: Clone + Eq + Hash {
    /// Every value.
    fn all() -> Self;
    /// What is not in it.
    fn complement(&self) -> Self;
    /// What is in either. Cost: linear in the ranges of both.
    fn union(&self, other: &Self) -> Self;
    /// How many ranges it has.
    fn ranges_len(&self) -> usize;

    /// No value.
    fn none() -> Self {
        Self::all().complement()
    }

    /// Whether it is every value.
    fn is_all(&self) -> bool {
        *self == Self::all()
    }

    /// Whether it has no value.
    fn is_none(&self) -> bool {
        self.ranges_len() == 0
    }

    /// What is in this and not in `other`.
    fn without(&self, other: &Self) -> Self {
        self.complement().union(other).complement()
    }
}

/// What is in any of many sets, given one by one. Of equal size ones two are put together, so each
/// range is looked at as often as the logarithm of how many there are.
#[derive(Debug)]
pub struct Union<S> {
    /// Each has more than twice the ranges of the next.
    parts: Vec<Arc<S>>,
}

impl<S: Set> Union<S> {
    /// Of no set.
    pub fn new() -> Self {
        Self { parts: Vec::new() }
    }

    /// Adds what is in a set.
    pub fn push(&mut self, mut set: Arc<S>) {
        while let Some(last) = self.parts.pop_if(|last| last.ranges_len() / 2 <= set.ranges_len()) {
            set = Arc::new(last.union(&set));
        }
        self.parts.push(set);
    }

    /// What is in any of them; none if there was no set.
    pub fn finish(self) -> Option<Arc<S>> {
        self.parts.into_iter().rev().reduce(|set, larger| Arc::new(larger.union(&set)))
    }
}

/// A set of values: ranges, both ends included, in order, none touching another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ranges<T> {
    ranges: Box<[(T, T)]>,
}

impl<T: Value> Ranges<T> {
    /// The values from `low` to `high`; none if `low` is above it.
    pub fn range(low: T, high: T) -> Self {
        let ranges = if low > high { Vec::new() } else { vec![(low, high)] };
        Self { ranges: ranges.into() }
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (T, T)> + '_ {
        self.ranges.iter().copied()
    }

    /// Whether `value` is in it. Cost: logarithmic in the ranges.
    #[inline]
    pub fn contains(&self, value: T) -> bool {
        let behind = self.ranges.partition_point(|range| range.0 <= value);
        behind > 0 && value <= self.ranges[behind - 1].1
    }
}

impl<T: Value> Set for Ranges<T> {
    fn all() -> Self {
        Self::range(T::MIN, T::MAX)
    }

    fn union(&self, other: &Self) -> Self {
        let mut ranges = [&*self.ranges, &*other.ranges].concat();
        // Two sorted parts, which this sort puts together in one pass.
        ranges.sort();
        let mut joined: Vec<(T, T)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match joined.last_mut() {
                Some(last) if low <= last.1.next() => last.1 = last.1.max(high),
                _ => joined.push((low, high)),
            }
        }
        Self { ranges: joined.into() }
    }

    fn complement(&self) -> Self {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut low = Some(T::MIN);
        for &(start, end) in &self.ranges {
            if let Some(low) = low.filter(|&low| low < start) {
                ranges.push((low, start.before()));
            }
            low = (end < T::MAX).then(|| end.next());
        }
        if let Some(low) = low {
            ranges.push((low, T::MAX));
        }
        Self { ranges: ranges.into() }
    }

    fn ranges_len(&self) -> usize {
        self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(parts: &[(u16, u16)]) -> Ranges<u16> {
        parts.iter().fold(Ranges::none(), |set, &(low, high)| {
            set.union(&Ranges::range(low.min(high), low.max(high)))
        })
    }

    proptest! {
        #[test]
        fn sets_are_what_membership_says(
            left in prop::collection::vec(any::<(u16, u16)>(), 0..6),
            right in prop::collection::vec(any::<(u16, u16)>(), 0..6),
            value in prop_oneof![any::<u16>(), Just(0), Just(u16::MAX)],
        ) {
            let inside = |parts: &[(u16, u16)]| {
                parts.iter().any(|&(a, b)| (a.min(b)..=a.max(b)).contains(&value))
            };
            let (in_left, in_right) = (inside(&left), inside(&right));
            let (left, right) = (set(&left), set(&right));
            prop_assert_eq!(left.contains(value), in_left);
            prop_assert_eq!(left.complement().contains(value), !in_left);
            prop_assert_eq!(left.without(&right).contains(value), in_left && !in_right);
            prop_assert_eq!(left.union(&right).contains(value), in_left || in_right);
            prop_assert_eq!(left.complement().complement(), left);
        }

        #[test]
        fn many_sets_are_put_together_in_any_order(
            parts in prop::collection::vec(any::<(u16, u8)>(), 0..200),
        ) {
            let ranges: Vec<_> =
                parts.iter().map(|&(low, len)| (low, low.saturating_add(len.into()))).collect();
            let mut union = Union::new();
            ranges.iter().for_each(|&(low, high)| union.push(Arc::new(Ranges::range(low, high))));
            let all = union.finish();
            prop_assert_eq!(all.is_none(), parts.is_empty());
            prop_assert_eq!(all.map_or(Ranges::none(), |set| set.as_ref().clone()), set(&ranges));
        }
    }

    #[test]
    fn ends_are_included() {
        assert!(Ranges::<u16>::all().complement().is_none());
        assert!(Ranges::<u16>::none().complement().is_all());
        assert!(Ranges::range(0u16, 9).union(&Ranges::range(10, u16::MAX)).is_all());
        assert_eq!(Ranges::range(5u16, 4), Ranges::none());
    }
}
