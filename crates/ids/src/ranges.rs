//! Sets of addresses and ports as ranges.

/// A value that ranges are made of: it has a next one, up to the last.
pub trait Value: Copy + Ord + std::fmt::Debug {
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
value!(u128);

/// A set of values: ranges, both ends included, in order, none touching another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges<T> {
    ranges: Vec<(T, T)>,
}

impl<T: Value> Ranges<T> {
    /// Every value.
    pub fn all() -> Self {
        Self { ranges: vec![(T::MIN, T::MAX)] }
    }

    /// No value.
    pub fn none() -> Self {
        Self { ranges: Vec::new() }
    }

    /// The values from `low` to `high`; none if `low` is above it.
    pub fn range(low: T, high: T) -> Self {
        if low > high { Self::none() } else { Self { ranges: vec![(low, high)] } }
    }

    /// Whether it is every value.
    pub fn is_all(&self) -> bool {
        self.ranges == [(T::MIN, T::MAX)]
    }

    /// Whether it has no value.
    pub fn is_none(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = (T, T)> + '_ {
        self.ranges.iter().copied()
    }

    /// Whether `value` is in it. Cost: logarithmic in the ranges.
    #[inline]
    pub fn contains(&self, value: T) -> bool {
        let behind = self.ranges.partition_point(|range| range.0 <= value);
        behind > 0 && value <= self.ranges[behind - 1].1
    }

    /// What is in either.
    pub fn union(mut self, other: &Self) -> Self {
        self.ranges.extend_from_slice(&other.ranges);
        self.ranges.sort_unstable();
        let mut joined: Vec<(T, T)> = Vec::with_capacity(self.ranges.len());
        for (low, high) in self.ranges {
            match joined.last_mut() {
                Some(last) if low <= last.1.next() => last.1 = last.1.max(high),
                _ => joined.push((low, high)),
            }
        }
        Self { ranges: joined }
    }

    /// What is not in it.
    pub fn complement(&self) -> Self {
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
        Self { ranges }
    }

    /// What is in this and not in `other`.
    pub fn without(&self, other: &Self) -> Self {
        self.complement().union(other).complement()
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
            prop_assert_eq!(left.clone().union(&right).contains(value), in_left || in_right);
            prop_assert_eq!(left.complement().complement(), left);
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
