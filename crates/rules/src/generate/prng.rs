//! The generators' random numbers: streams that stay the same for ever, on every machine.
//!
//! [`Prng`] is xoshiro256** 1.0, seeded by four outputs of SplitMix64. Only integer arithmetic is
//! used anywhere in the generators, so a seed names the same bytes on any processor, and in every
//! later version that does not say otherwise in the changelog.
//!
//! # Source
//! Blackman, Vigna, "Scrambled linear pseudorandom number generators", ACM TOMS 47(4), 2021;
//! Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.

/// A stream of pseudorandom numbers. Not for secrets.
#[derive(Clone, Debug)]
pub struct Prng {
    state: [u64; 4],
}

/// SplitMix64's output function: every bit of the result depends on every bit of `x`.
#[inline]
pub(super) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Prng {
    /// The stream that `seed` names.
    pub fn new(seed: u64) -> Self {
        let step = 0x9e37_79b9_7f4a_7c15u64;
        let state = [0, 1, 2, 3].map(|i: u64| mix(seed.wrapping_add(step.wrapping_mul(i))));
        Self { state }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// The next 128 bits.
    #[inline]
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    /// A uniform number below `bound`, without bias.
    ///
    /// # Panics
    /// If `bound` is zero: a caller bug.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            // The low half tells whether this draw lies in the part that would favour some.
            if product as u64 >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// A uniform index of a list of `len` items.
    ///
    /// # Panics
    /// If the list is empty: a caller bug.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True `permille` times in a thousand.
    #[inline]
    pub fn chance(&mut self, permille: u32) -> bool {
        self.below(1000) < u64::from(permille)
    }

    /// Puts `items` into a uniformly random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }
}

/// Draws indices in proportion to given weights.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    ends: Vec<u32>,
}

impl Weights {
    /// One index per weight. The sum must be above zero and fit 32 bits.
    pub(super) fn new(weights: impl IntoIterator<Item = u32>) -> Self {
        let sums = weights.into_iter().scan(0u32, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        let ends: Vec<u32> = sums.collect();
        assert!(ends.last().is_some_and(|&sum| sum > 0), "weights that are all zero");
        Self { ends }
    }

    /// One index.
    #[inline]
    pub(super) fn draw(&self, prng: &mut Prng) -> usize {
        let sum = u64::from(self.ends[self.ends.len() - 1]);
        let at = prng.below(sum) as u32;
        self.ends.partition_point(|&end| end <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_the_published_ones() {
        // SplitMix64 from state 0: the first outputs of its reference implementation.
        let step = 0x9e37_79b9_7f4a_7c15u64;
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(step), 0x6e78_9e6a_a1b9_65f4);
        // xoshiro256** from state 1, 2, 3, 4: likewise.
        let mut prng = Prng { state: [1, 2, 3, 4] };
        assert_eq!([prng.next_u64(), prng.next_u64(), prng.next_u64()], [11520, 0, 1_509_978_240]);
    }

    #[test]
    fn draws_follow_their_weights_and_bounds() {
        let mut prng = Prng::new(1);
        let weights = Weights::new([1, 0, 3]);
        let mut hits = [0u32; 3];
        for _ in 0..40_000 {
            hits[weights.draw(&mut prng)] += 1;
            assert!(prng.below(7) < 7);
        }
        assert_eq!(hits[1], 0);
        assert!((9_000..11_000).contains(&hits[0]), "{hits:?}");
        let mut order: Vec<u32> = (0..100).collect();
        prng.shuffle(&mut order);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
