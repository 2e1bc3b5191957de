//! The keyed hash of masked flow keys.
//!
//! ```text
//! h(w) = ((k + sum over the words that a mask examines of k[i] * w[i]) mod 2^64) div 2^32
//! ```
//! with random 64-bit `k`. It is strongly universal, and the multiplications do not wait for each
//! other. The 32 bits are spread over 64 by a multiplication that keeps the low ones, as hash
//! tables take a few bits from each end.
//!
//! # Source
//! Lemire, Kaser, "Strongly universal string hashing is fast", 2014 (the multilinear function).

use warpswitch_classify::parts::SeedStream;
use warpswitch_rules::openflow::{FLOW_WORDS, FlowKey};

/// The words that a mask examines, and their bits.
pub type MaskedWords = Box<[(u8, u32)]>;

/// The words of `mask` that are not zero.
pub fn masked_words(mask: &FlowKey) -> MaskedWords {
    let words = (0..FLOW_WORDS).filter(|&word| mask[word] != 0);
    words.map(|word| (word as u8, mask[word])).collect()
}

/// A keyed hash of flow keys.
#[derive(Clone, Debug)]
pub struct FlowHash {
    seed: u64,
    add: u64,
    keys: [u64; FLOW_WORDS],
}

impl FlowHash {
    /// The hash of a seed.
    pub fn new(seed: u64) -> Self {
        let mut seeds = SeedStream::new(seed, 0);
        Self { seed, add: seeds.next(), keys: std::array::from_fn(|_| seeds.next()) }
    }

    /// Its seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The hash of a key under a mask; `salt` separates keys of different kinds.
    #[inline]
    pub fn hash(&self, words: &[(u8, u32)], key: &FlowKey, salt: u32) -> u64 {
        let salt = u64::from(salt).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let sum = words.iter().fold(self.add.wrapping_add(salt), |sum, &(word, mask)| {
            let (word, mask) = (usize::from(word), u64::from(mask));
            sum.wrapping_add(self.keys[word].wrapping_mul(u64::from(key[word]) & mask))
        });
        spread(sum)
    }

    /// The same of a key that was masked and packed before: `values[i]` is of `words[i]`.
    pub fn hash_packed(&self, words: &[(u8, u32)], values: &[u32], salt: u32) -> u64 {
        let salt = u64::from(salt).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let pairs = words.iter().zip(values);
        let sum = pairs.fold(self.add.wrapping_add(salt), |sum, (&(word, _), &value)| {
            sum.wrapping_add(self.keys[usize::from(word)].wrapping_mul(value.into()))
        });
        spread(sum)
    }

    /// The hash of words in the order of their places in an array.
    #[inline]
    pub fn hash_array<const N: usize>(&self, values: &[u32; N], salt: u32) -> u64 {
        let salt = u64::from(salt).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let pairs = values.iter().zip(&self.keys);
        let sum = pairs.fold(self.add.wrapping_add(salt), |sum, (&value, &k)| {
            sum.wrapping_add(k.wrapping_mul(value.into()))
        });
        spread(sum)
    }
}

#[inline]
fn spread(sum: u64) -> u64 {
    (sum >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The masked words of a key, to be packed.
pub fn pack(words: &[(u8, u32)], key: &FlowKey) -> impl Iterator<Item = u32> {
    words.iter().map(|&(word, mask)| key[usize::from(word)] & mask)
}

/// Whether the masked words of `key` are `values`.
#[inline]
pub fn is_packed(words: &[(u8, u32)], values: &[u32], key: &FlowKey) -> bool {
    words.iter().zip(values).all(|(&(word, mask), &value)| key[usize::from(word)] & mask == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_and_whole_keys_hash_alike() {
        let hash = FlowHash::new(7);
        let key: FlowKey = std::array::from_fn(|word| (word as u32).wrapping_mul(0x9e37_79b9));
        let mut mask = [0; FLOW_WORDS];
        (mask[3], mask[40]) = (0xff00, u32::MAX);
        let words = masked_words(&mask);
        let values: Vec<u32> = pack(&words, &key).collect();
        assert_eq!(hash.hash(&words, &key, 1), hash.hash_packed(&words, &values, 1));
        assert_ne!(hash.hash(&words, &key, 1), hash.hash(&words, &key, 2));
        assert!(is_packed(&words, &values, &key));
        let all = masked_words(&[u32::MAX; FLOW_WORDS]);
        assert_eq!(hash.hash(&all, &key, 1), hash.hash_array(&key, 1));
        let mut other = key;
        other[40] ^= 1;
        assert!(!is_packed(&words, &values, &other));
        assert_ne!(hash.hash(&words, &key, 1), hash.hash(&words, &other, 1));
    }
}
