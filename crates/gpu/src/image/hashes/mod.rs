//! Hash functions beside each other: what they cost on a card, and what tables they make.
//!
//! GSwitch chose among three functions; this compares them with the engines' own on any rule set.
//! A [`HashImage`] has the masks of a set; its kernel (`hashes.cuh`) folds the hashes of each key
//! under all of them into a word, and reads nothing else, so its rate is what hashing costs.
//! [`Subject::quality`] puts the entries of the set into the engines' tables by each function.

mod functions;
mod quality;

use warpswitch_classify::parts::{RuleStore, TooLarge};
use warpswitch_rules::{KeyBatch, Schema};

pub use functions::HashFunction;
use functions::Keyed;
pub use quality::Quality;

use super::tables::{self, Tuple};
use super::terms::Value;
use super::{Draft, Rules, VIEW_NUMBERS, abi};
use crate::driver::LaunchShape;
use crate::kernels::{Kernel, KernelShape};
use crate::work::{Form, Lookup, Work};

/// Threads of a block.
const THREADS: usize = 256;

/// The masked entries of a rule set, one table a mask, as `tuple` has them.
pub struct Subject {
    schema: &'static Schema,
    tuples: Vec<Tuple>,
}

impl Subject {
    /// Of the rules of `store`, in at most `bytes_max` bytes.
    ///
    /// # Errors
    /// If they would take more: ranges become prefixes.
    pub fn new(store: &RuleStore, bytes_max: usize) -> Result<Self, TooLarge> {
        let (tuples, _) = tables::tuples(&Rules::new(store), bytes_max)?;
        Ok(Self { schema: store.schema(), tuples })
    }

    /// Number of masks.
    pub fn masks(&self) -> usize {
        self.tuples.len()
    }

    /// Number of entries under all masks.
    pub fn entries(&self) -> usize {
        self.tuples.iter().map(|tuple| tuple.values.len()).sum()
    }

    /// What a kernel hashes keys by.
    pub fn image(&self, function: HashFunction, seed: u64) -> HashImage {
        HashImage::new(self.keyed(function, seed), self.schema, &self.tuples)
    }

    /// How well a function serves tables, with false positives of filters for `keys`. Cost: a hash
    /// and three bits for each pair of key and mask, on this thread.
    ///
    /// # Panics
    /// If keys are of another schema: a caller bug.
    pub fn quality(&self, function: HashFunction, keys: KeyBatch<'_>, seed: u64) -> Quality {
        assert_eq!(keys.words_per_key(), self.schema.words, "keys of another schema");
        Quality::of(&self.keyed(function, seed), &self.tuples, keys, seed)
    }

    fn keyed(&self, function: HashFunction, seed: u64) -> Keyed {
        Keyed::draw(function, (self.schema.words, self.schema.ports_word), seed)
    }
}

/// A key under a mask; words beyond the key's are 0.
fn masked(key: &[u32], mask: &Value) -> Value {
    let mut value = Value::default();
    for ((to, &key), &mask) in value.iter_mut().zip(key).zip(mask) {
        *to = key & mask;
    }
    value
}

/// The masks of a rule set, and what was drawn for a hash function.
#[derive(Clone, Debug)]
pub struct HashImage {
    keyed: Keyed,
    shape: KernelShape,
    words: Vec<u32>,
    numbers: [u32; VIEW_NUMBERS],
}

impl HashImage {
    fn new(keyed: Keyed, schema: &Schema, tuples: &[Tuple]) -> Self {
        let words = schema.words;
        let mut draft = Draft::default();
        draft.part(abi::HASH, &keyed.drawn);
        let descs = tuples.iter().flat_map(|tuple| abi::desc(words, &tuple.mask, 0));
        draft.part(abi::TABLE_DESCS, &descs.collect::<Vec<u32>>());
        draft.align();
        draft.numbers[abi::TABLES] = tuples.len() as u32;
        // A card takes no image of nothing.
        if draft.words.is_empty() {
            draft.words.resize(abi::UNIT_WORDS, 0);
        }
        let shape =
            KernelShape { words, ports_word: schema.ports_word, compact: false, packed: false };
        Self { keyed, shape, words: draft.words, numbers: draft.numbers }
    }
}

impl Lookup for HashImage {
    fn answer(&self, keys: &[u32], out: &mut [u32]) {
        let words = self.shape.words;
        let desc_words = abi::table_desc_words(words);
        let descs = &self.words[self.numbers[abi::TABLE_DESCS] as usize..];
        let descs = &descs[..self.numbers[abi::TABLES] as usize * desc_words];
        for (key, out) in keys.chunks_exact(words).zip(out) {
            *out = descs.chunks_exact(desc_words).fold(0, |fold: u32, desc| {
                let mut value = Value::default();
                for ((to, &key), &mask) in value.iter_mut().zip(key).zip(&desc[..words]) {
                    *to = key & mask;
                }
                fold.rotate_left(1) ^ self.keyed.hash(&value[..words])
            });
        }
    }
}

impl Work for HashImage {
    /// The fold of a key's hashes.
    type Answer = u32;

    fn form(&self) -> Form {
        Form { key_words: self.shape.words, answer_bytes: 4, packed: false }
    }

    fn kernel(&self) -> Kernel {
        Kernel::Hash(self.keyed.function)
    }

    fn shape(&self) -> KernelShape {
        self.shape
    }

    fn launch_shape(&self, _: usize) -> LaunchShape {
        // WS_KEYS of the source.
        let per_thread = if self.shape.words <= 10 { 2 } else { 1 };
        LaunchShape {
            threads: THREADS,
            keys_per_block: THREADS * per_thread,
            shared_bytes: 0,
            persistent: false,
        }
    }

    fn words(&self) -> &[u32] {
        &self.words
    }

    fn numbers(&self) -> [u32; VIEW_NUMBERS] {
        self.numbers
    }

    fn unpack(words: &[u32], out: &mut [u32]) {
        out.copy_from_slice(&words[..out.len()]);
    }
}
