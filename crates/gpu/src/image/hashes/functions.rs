//! The hash functions of `hashes.cuh`, in Rust: the reference of its kernels.

use std::fmt;

use warpswitch_classify::parts::SeedStream;

use super::super::tables::{self, Form, HashKeys, Kind};

/// 2^61 - 1.
const PRIME: u64 = (1 << 61) - 1;

/// A hash function of masked keys, 32 bits wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HashFunction {
    /// A sum of products modulo a prime, as GSwitch's: Carter, Wegman, "Universal classes of hash
    /// functions", 1979.
    Universal,
    /// Appleby's, of 2011, x86 and 32 bits.
    Murmur3,
    /// Hsieh's, of 2004.
    SuperFast,
    /// That of `maskhash` and `tuple`: a sum of products, multiplied and shifted.
    Sum,
    /// That of `bloom`: a sum of shifted products, which tables can share.
    Terms,
}

impl HashFunction {
    /// All of them; the number of each in `hashes.cuh` is its place.
    pub const ALL: [HashFunction; 5] = [
        HashFunction::Universal,
        HashFunction::Murmur3,
        HashFunction::SuperFast,
        HashFunction::Sum,
        HashFunction::Terms,
    ];

    /// The name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            HashFunction::Universal => "universal",
            HashFunction::Murmur3 => "murmur3",
            HashFunction::SuperFast => "superfast",
            HashFunction::Sum => "sum",
            HashFunction::Terms => "terms",
        }
    }

    /// Its place in [`HashFunction::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for HashFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A function with what was drawn for it.
#[derive(Clone, Debug)]
pub(super) struct Keyed {
    pub(super) function: HashFunction,
    /// Words and ports of keys, and which of the engines' hashes it is, if one of these.
    form: Form,
    /// As kernels read it.
    pub(super) drawn: Vec<u32>,
}

impl Keyed {
    /// Draws what the function needs for keys of `words` words.
    pub(super) fn draw(
        function: HashFunction,
        (words, ports_word): (usize, usize),
        seed: u64,
    ) -> Self {
        let kind = if function == HashFunction::Terms { Kind::Filtered } else { Kind::Cuckoo };
        let form = Form { kind, words, ports_word };
        let mut seeds = SeedStream::new(seed, 0x6861_7368);
        let drawn = match function {
            HashFunction::Universal => {
                let below_prime = |_| seeds.next() % PRIME;
                let longs = (0..=words).map(below_prime);
                longs.flat_map(|long| [long as u32, (long >> 32) as u32]).collect()
            }
            HashFunction::Murmur3 => vec![seeds.next() as u32],
            HashFunction::SuperFast => Vec::new(),
            HashFunction::Sum | HashFunction::Terms => HashKeys::draw(form, seed, 0).0,
        };
        Self { function, form, drawn }
    }

    /// Words of a key.
    pub(super) fn words(&self) -> usize {
        self.form.words
    }

    /// The hash of a masked key.
    pub(super) fn hash(&self, masked: &[u32]) -> u32 {
        match self.function {
            HashFunction::Universal => universal(&self.drawn, masked),
            HashFunction::Murmur3 => murmur3(self.drawn[0], masked),
            HashFunction::SuperFast => superfast(masked),
            HashFunction::Sum | HashFunction::Terms => tables::hash(self.form, &self.drawn, masked),
        }
    }
}

/// `drawn` has a multiplier a word, then what is added, all of two words, low half first.
fn universal(drawn: &[u32], words: &[u32]) -> u32 {
    let (longs, _) = drawn.as_chunks::<2>();
    let mut longs = longs.iter().map(|&[low, high]| u64::from(high) << 32 | u64::from(low));
    let products = words.iter().zip(longs.by_ref().take(words.len()));
    // At most 16 products of 93 bits.
    let sum: u128 = products.map(|(&word, a)| u128::from(word) * u128::from(a)).sum();
    let added = longs.next().expect("a number for the sum");
    ((sum + u128::from(added)) % u128::from(PRIME)) as u32
}

/// MurmurHash3 of words, in the order of their bytes in memory.
fn murmur3(seed: u32, words: &[u32]) -> u32 {
    let mut hash = words.iter().fold(seed, |hash, &word| {
        let mixed = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (hash ^ mixed).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    hash ^= 4 * words.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// SuperFastHash of words, in the order of their bytes in memory.
fn superfast(words: &[u32]) -> u32 {
    let hash = words.iter().fold(4 * words.len() as u32, |hash, &word| {
        let hash = hash.wrapping_add(word & 0xffff);
        let hash = hash << 16 ^ (word >> 16) << 11 ^ hash;
        hash.wrapping_add(hash >> 11)
    });
    let hash = hash ^ hash << 3;
    let hash = hash.wrapping_add(hash >> 5);
    let hash = hash ^ hash << 4;
    let hash = hash.wrapping_add(hash >> 17);
    let hash = hash ^ hash << 25;
    hash.wrapping_add(hash >> 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(bytes: &[u8]) -> Vec<u32> {
        let (words, rest) = bytes.as_chunks::<4>();
        assert!(rest.is_empty());
        words.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
    }

    /// From the published verification values of the function, those of whole words.
    #[test]
    fn murmur3_has_the_published_values() {
        for (bytes, seed, want) in [
            (&b""[..], 0, 0),
            (b"", 1, 0x514e_28b7),
            (b"", 0xffff_ffff, 0x81f1_6f39),
            (b"\xff\xff\xff\xff", 0, 0x7629_3b50),
            (b"!Ce\x87", 0, 0xf55b_516b),
            (b"!Ce\x87", 0x5082_edee, 0x2362_f9de),
            (b"\0\0\0\0", 0, 0x2362_f9de),
            (b"aaaa", 0x9747_b28c, 0x5a97_808a),
        ] {
            assert_eq!(murmur3(seed, &words(bytes)), want, "{bytes:?}, {seed:#x}");
        }
        // By another implementation (PyPI's mmh3 5).
        let four = [0x0102_0304, 0xdead_beef, 0, u32::MAX];
        assert_eq!(murmur3(0x9747_b28c, &four), 0xcc77_7788);
    }

    /// The definition over bytes, as it is published, step by step.
    fn superfast_of_bytes(data: &[u8]) -> u32 {
        let get16 = |at: usize| u32::from(data[at]) + 256 * u32::from(data[at + 1]);
        let mut hash = data.len() as u32;
        for at in (0..data.len()).step_by(4) {
            hash = hash.wrapping_add(get16(at));
            let mixed = (get16(at + 2) << 11) ^ hash;
            hash = (hash << 16) ^ mixed;
            hash = hash.wrapping_add(hash >> 11);
        }
        for (left, right) in [(3, 5), (4, 17), (25, 6)] {
            hash ^= hash << left;
            hash = hash.wrapping_add(hash >> right);
        }
        hash
    }

    #[test]
    fn superfast_is_as_defined() {
        let mut seeds = SeedStream::new(7, 7);
        for len in 0..200 {
            let bytes: Vec<u8> = (0..4 * (len % 17)).map(|_| seeds.next() as u8).collect();
            assert_eq!(superfast(&words(&bytes)), superfast_of_bytes(&bytes), "{bytes:?}");
        }
    }

    #[test]
    fn universal_is_the_sum_of_products_modulo_the_prime() {
        // One word under the multiplier 1, and 2^61 as 2^31 times 2^30: 1 modulo the prime.
        assert_eq!(universal(&[1, 0, 0, 0], &[77]), 77);
        assert_eq!(universal(&[1 << 30, 0, 5, 0], &[1 << 31]), 6);
        // p - 1 is -1: 0xffff_ffff of them and 1 added are 2 - 2^32, whose lower half is 1.
        let minus_one = [(PRIME - 1) as u32, ((PRIME - 1) >> 32) as u32, 1, 0];
        assert_eq!(universal(&minus_one, &[u32::MAX]), 1);
    }

    #[test]
    fn functions_differ_and_depend_on_their_seeds() {
        let masked = [0x0a00_0001, 0xc0a8_0000, 0x0050_0000, 0x0600_0000];
        let hash = |function, seed| Keyed::draw(function, (4, 2), seed).hash(&masked);
        let mut seen: Vec<u32> = HashFunction::ALL.map(|function| hash(function, 1)).into();
        for function in HashFunction::ALL {
            assert_eq!(HashFunction::ALL[function.index()], function);
            let is_keyed = function != HashFunction::SuperFast;
            assert_eq!(hash(function, 1) != hash(function, 2), is_keyed, "{function}");
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), HashFunction::ALL.len());
    }
}
