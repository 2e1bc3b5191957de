//! Keyed hashing of flow tables: senders of packets choose the keys, but cannot predict the hashes.
//!
//! Each word is mixed in by one multiplication of 64 by 64 bits whose halves are folded together.
//! The initial state and the multiplier are random, per set of flows.

use std::hash::{BuildHasher, Hasher};

/// What one set of flows hashes with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed {
    start: u64,
    multiplier: u64,
}

impl Seed {
    /// A seed out of random words.
    pub(super) fn new(mut random: impl FnMut() -> u32) -> Self {
        let mut word = || u64::from(random()) << 32 | u64::from(random());
        Self { start: word(), multiplier: word() | 1 }
    }
}

impl Default for Seed {
    /// A fixed, public seed, used until a random one replaces it.
    fn default() -> Self {
        Self { start: 0x9e37_79b9_7f4a_7c15, multiplier: 0xbf58_476d_1ce4_e5b9 }
    }
}

impl BuildHasher for Seed {
    type Hasher = KeyedHasher;

    #[inline]
    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { state: self.start, multiplier: self.multiplier }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct KeyedHasher {
    state: u64,
    multiplier: u64,
}

impl Hasher for KeyedHasher {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.multiplier);
        self.state = (product >> 64) as u64 ^ product as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        // A last step, so that the first word reaches all bits too.
        let product = u128::from(self.state) * u128::from(self.multiplier);
        (product >> 64) as u64 ^ product as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_decide_which_keys_meet() {
        let mut next = 0u32;
        let mut random = || {
            next = next.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            next
        };
        let hash = |seed: Seed, key: u64| {
            let mut hasher = seed.build_hasher();
            hasher.write_u64(key);
            hasher.write_u64(7);
            hasher.finish()
        };
        let (a, b) = (Seed::new(&mut random), Seed::new(&mut random));
        // Keys that share a slot of 256 under one seed are spread by the other.
        let slot = hash(a, 0) & 0xff;
        let met: Vec<u64> = (0..100_000).filter(|&key| hash(a, key) & 0xff == slot).collect();
        assert!((300..500).contains(&met.len()), "{}", met.len());
        let mut slots = [0; 256];
        for key in met {
            slots[(hash(b, key) & 0xff) as usize] += 1;
        }
        assert!(slots.iter().max() < Some(&12), "{slots:?}");
    }
}
