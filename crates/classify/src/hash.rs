//! Keyed hashes: nobody who does not know the seed can choose keys that collide.
//!
//! A flow key of W words is hashed by the multilinear function over pairs of words,
//!
//! ```text
//! h(s) = ((k + sum over i of (k[2i] + s[2i+1]) * (k[2i+1] + s[2i])) mod 2^64) div 2^32
//! ```
//!
//! with 64-bit random `k`. It is strongly universal: for any two different keys, fixed without
//! knowledge of `k`, the pair of hashes is uniform over all pairs. It costs W/2 multiplications
//! that do not wait for each other. Universal functions of the 32-bit result choose the slots.
//!
//! # Source
//! Lemire, Kaser, "Strongly universal string hashing is fast", 2014 (the pairwise variant).
//! Carter, Wegman, "Universal classes of hash functions", 1979.

/// A reproducible run of random numbers (SplitMix64): where all keys of hashes come from.
#[derive(Clone, Debug)]
pub struct SeedStream(u64);

impl SeedStream {
    /// The stream number `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut of_seed = Self(seed);
        let start = of_seed.next();
        Self(start ^ Self(stream).next())
    }

    /// The next number.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The keyed hash of a flow key of `W` words, `W` even.
#[derive(Clone, Debug)]
pub(crate) struct KeyHash<const W: usize> {
    add: u64,
    keys: [u64; W],
}

impl<const W: usize> KeyHash<W> {
    const PAIRS: () = assert!(W.is_multiple_of(2), "keys are hashed in pairs of words");

    pub(crate) fn draw(seeds: &mut SeedStream) -> Self {
        let () = Self::PAIRS;
        Self { add: seeds.next(), keys: std::array::from_fn(|_| seeds.next()) }
    }

    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u32; W]) -> u32 {
        let mut sum = self.add;
        for pair in 0..W / 2 {
            let left = self.keys[2 * pair].wrapping_add(key[2 * pair + 1].into());
            let right = self.keys[2 * pair + 1].wrapping_add(key[2 * pair].into());
            sum = sum.wrapping_add(left.wrapping_mul(right));
        }
        (sum >> 32) as u32
    }
}

/// The prime of [`UniversalHash`]: 2^61 - 1, by which division is a shift and an addition.
const PRIME: u64 = (1 << 61) - 1;

/// `h(x) = ((a * x + b) mod p)`, scaled to `0..slots`.
///
/// Scaling takes the upper bits times `slots` where a textbook takes the remainder: as even, and
/// without a division.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UniversalHash {
    a: u64,
    b: u64,
}

impl UniversalHash {
    pub(crate) fn draw(seeds: &mut SeedStream) -> Self {
        Self { a: 1 + seeds.next() % (PRIME - 1), b: seeds.next() % PRIME }
    }

    #[inline(always)]
    pub(crate) fn slot(&self, x: u32, slots: u32) -> usize {
        let sum = u128::from(self.a) * u128::from(x) + u128::from(self.b);
        // The sum is below 2^94: folding at bit 61 leaves less than 2^61 + 2^33.
        let folded = (sum as u64 & PRIME) + (sum >> 61) as u64;
        let reduced = if folded >= PRIME { folded - PRIME } else { folded };
        (((reduced >> 29) * u64::from(slots)) >> 32) as usize
    }
}

/// Mixes all bits of a hash into its low ones, for tables that take the low bits.
#[inline(always)]
pub(crate) fn finish(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    let x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_repeat_with_their_seed_and_only_with_it() {
        let draw = |seed, stream| KeyHash::<4>::draw(&mut SeedStream::new(seed, stream));
        let key = [1, 2, 3, 4];
        assert_eq!(draw(1, 1).hash(&key), draw(1, 1).hash(&key));
        assert_ne!(draw(1, 1).hash(&key), draw(2, 1).hash(&key));
        assert_ne!(draw(1, 1).hash(&key), draw(1, 2).hash(&key));
    }

    #[test]
    fn slots_of_consecutive_keys_are_even() {
        for seed in 0..4 {
            let mut seeds = SeedStream::new(seed, 0);
            let (hash, slot) = (KeyHash::<10>::draw(&mut seeds), UniversalHash::draw(&mut seeds));
            let mut counts = [0u32; 10];
            for n in 0..10_000 {
                let mut key = [7; 10];
                key[3] = n;
                counts[slot.slot(hash.hash(&key), 10)] += 1;
            }
            assert!(counts.iter().all(|&count| (700..1300).contains(&count)), "{counts:?}");
        }
    }

    #[test]
    fn the_fold_is_the_remainder() {
        for (a, b, x) in [(1, 0, 0), (PRIME - 1, PRIME - 1, u32::MAX), (3, PRIME - 3, 1)] {
            let exact = (u128::from(a) * u128::from(x) + u128::from(b)) % u128::from(PRIME);
            let expected = ((exact >> 29) * 1000) >> 32;
            assert_eq!(UniversalHash { a, b }.slot(x, 1000) as u128, expected);
        }
    }
}
