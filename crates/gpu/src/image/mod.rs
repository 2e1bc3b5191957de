//! Images: rule sets as flat words that a kernel and the host read alike.
//!
//! An image is a list of 32-bit words without addresses, and fourteen numbers (the *view*) that say
//! what lies where. It is built on the host, copied to a card whole, and never changed: a change of
//! rules is a new image. [`Image::classify`] is the kernel's per-packet function in Rust; it is the
//! reference for the kernel and what answers when a card is lost.
//!
//! Rules are known by *rank*, their place in order of precedence, so that the better of two is the
//! smaller number whatever their priorities are. Where ranks are not the ids, a list maps them.
//!
//! | algorithm | structure | bytes a rule (four-word keys) |
//! | --- | --- | --- |
//! | `linear` | rows in order of rank | 32, or 48 with masks that are no prefixes |
//! | `maskhash` | for each mask open addressing, half full at most | 48 to 80 an entry |
//! | `tuple` | for each mask three parts of a cuckoo table | 41 an entry |
//! | `bloom` | the same behind a filter of 16 to 32 bits an entry | 45 an entry |
//! | `turbo` | the tables, cuts and leaves of the CPU's engine | 100 to 6000 |
//!
//! Ranges become prefixes for the three in the middle: a rule may be many entries.

pub mod abi;
mod linear;
mod rows;
mod tables;
mod turbo;

use std::fmt;
use std::str::FromStr;

use warpswitch_classify::parts::{RuleStore, TooLarge};
use warpswitch_classify::{ClassifyError, Detail, Engine};
use warpswitch_rules::{KeyBatch, RuleId, RuleRef};

pub use abi::VIEW_NUMBERS;

use crate::kernels::KernelShape;

/// How an image arranges rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Every rule in turn.
    Linear,
    /// A cuckoo table for each mask.
    Tuple,
    /// The same behind a filter.
    Bloom,
    /// Open addressing for each mask.
    MaskHash,
    /// Tables, cuts and leaves.
    Turbo,
}

impl Algorithm {
    /// Every algorithm, the fastest last.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::Linear,
        Algorithm::Tuple,
        Algorithm::Bloom,
        Algorithm::MaskHash,
        Algorithm::Turbo,
    ];

    /// The engine of a CPU that works alike, which also has its name.
    pub fn engine(self) -> Engine {
        match self {
            Algorithm::Linear => Engine::Linear,
            Algorithm::Tuple => Engine::Tuple,
            Algorithm::Bloom => Engine::Bloom,
            Algorithm::MaskHash => Engine::MaskHash,
            Algorithm::Turbo => Engine::Turbo,
        }
    }

    /// The name that commands use.
    pub fn name(self) -> &'static str {
        self.engine().name()
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = ClassifyError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let engine: Engine = name.parse()?;
        let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.engine() == engine);
        found.ok_or_else(|| {
            let known = Algorithm::ALL.map(Algorithm::name).join(", ");
            ClassifyError::unknown_engine(format!("'{name}' has no kernel; there are {known}"))
        })
    }
}

/// The rules that an image is made of, in order of rank.
struct Rules<'a> {
    store: &'a RuleStore,
    rules: Vec<RuleRef<'a>>,
}

impl<'a> Rules<'a> {
    fn new(store: &'a RuleStore) -> Self {
        let places = store.places_by_precedence().into_iter();
        Self { store, rules: places.map(|place| store.rule(place)).collect() }
    }

    fn words_per_key(&self) -> usize {
        self.store.schema().words
    }

    /// An error that names the first rules.
    fn too_large(&self, bytes: usize) -> TooLarge {
        TooLarge { bytes, rules: self.rules.iter().take(8).map(|rule| rule.id).collect() }
    }
}

/// Words in the making. Parts start on borders of 32 bytes, so that loads of 16 never straddle.
#[derive(Debug, Default)]
struct Draft {
    words: Vec<u32>,
    numbers: [u32; VIEW_NUMBERS],
}

impl Draft {
    /// Appends `words` and notes in number `which` where they lie.
    fn part(&mut self, which: usize, words: &[u32]) {
        self.align();
        self.numbers[which] = self.words.len() as u32;
        self.words.extend_from_slice(words);
    }

    fn align(&mut self) {
        let len = self.words.len().next_multiple_of(abi::UNIT_WORDS);
        self.words.resize(len, 0);
    }
}

/// A rule set laid out for a kernel.
#[derive(Clone, Debug)]
pub struct Image {
    algorithm: Algorithm,
    shape: KernelShape,
    words: Vec<u32>,
    numbers: [u32; VIEW_NUMBERS],
    details: Vec<Detail>,
    shared_words: usize,
}

impl Image {
    /// Lays out the rules of `store` in at most `bytes_max` bytes.
    ///
    /// # Errors
    /// If it would pass the bound, or the 2^32 words that kernels can reach.
    pub fn build(
        algorithm: Algorithm,
        store: &RuleStore,
        bytes_max: usize,
        hash_seed: u64,
    ) -> Result<Self, TooLarge> {
        let rules = Rules::new(store);
        let schema = store.schema();
        let compact = rules.rules.iter().all(|rule| rows::fits_compact(schema.words, rule));
        let compact = compact
            && schema.words == 4
            && matches!(algorithm, Algorithm::Linear | Algorithm::Turbo);
        let shape = KernelShape { words: schema.words, ports_word: schema.ports_word, compact };
        let bytes_max = bytes_max.min(u32::MAX as usize);
        let built = match algorithm {
            Algorithm::Linear => linear::build(&rules, &shape, bytes_max)?,
            Algorithm::MaskHash => tables::build(&rules, tables::Kind::Open, bytes_max, hash_seed)?,
            Algorithm::Tuple => tables::build(&rules, tables::Kind::Cuckoo, bytes_max, hash_seed)?,
            Algorithm::Bloom => {
                tables::build(&rules, tables::Kind::Filtered, bytes_max, hash_seed)?
            }
            Algorithm::Turbo => turbo::build(&rules, &shape, hash_seed)?,
        };
        let Built { mut draft, details, shared_words } = built;
        draft.numbers[abi::RULES] = rules.rules.len() as u32;
        draft.numbers[abi::IDS] = abi::NONE;
        if rules.rules.iter().enumerate().any(|(rank, rule)| rule.id.as_usize() != rank) {
            let ids: Vec<u32> = rules.rules.iter().map(|rule| rule.id.0).collect();
            draft.part(abi::IDS, &ids);
        }
        draft.align();
        let bytes = draft.words.len() * 4;
        if bytes > bytes_max {
            return Err(rules.too_large(bytes));
        }
        let Draft { mut words, numbers } = draft;
        words.shrink_to_fit();
        Ok(Self { algorithm, shape, words, numbers, details, shared_words })
    }

    /// How it arranges rules.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// What its kernel is compiled for.
    pub fn shape(&self) -> &KernelShape {
        &self.shape
    }

    /// Its words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The numbers of its view.
    pub fn numbers(&self) -> [u32; VIEW_NUMBERS] {
        self.numbers
    }

    /// Words of shared memory that a block needs for it.
    pub fn shared_words(&self) -> usize {
        self.shared_words
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 4
    }

    /// Figures that describe it.
    pub fn details(&self) -> Vec<Detail> {
        self.details.clone()
    }

    /// Answers every key: `out[i]` is the winner's id for key `i`. No allocation.
    ///
    /// # Panics
    /// If `out` is shorter than the batch or keys are of another length: a caller bug.
    pub fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        assert_eq!(keys.words_per_key(), self.shape.words, "keys of another schema");
        for (key, winner) in keys.iter().zip(&mut out[..keys.len()]) {
            *winner = RuleId(self.id(self.lookup(key)));
        }
    }

    /// The rank of the winner for `key`.
    fn lookup(&self, key: &[u32]) -> u32 {
        match self.algorithm {
            Algorithm::Linear => linear::lookup(self, key),
            Algorithm::MaskHash => tables::lookup(self, tables::Kind::Open, key),
            Algorithm::Tuple => tables::lookup(self, tables::Kind::Cuckoo, key),
            Algorithm::Bloom => tables::lookup(self, tables::Kind::Filtered, key),
            Algorithm::Turbo => turbo::lookup(self, key),
        }
    }

    fn id(&self, rank: u32) -> u32 {
        match self.numbers[abi::IDS] {
            _ if rank == abi::NONE => rank,
            abi::NONE => rank,
            ids => self.words[ids as usize + rank as usize],
        }
    }

    /// The largest id of a rule; 0 if there is none.
    pub(crate) fn id_max(&self) -> u32 {
        let rules = self.numbers[abi::RULES];
        match self.numbers[abi::IDS] {
            abi::NONE => rules.saturating_sub(1),
            _ => self.part(abi::IDS)[..rules as usize].iter().copied().max().unwrap_or(0),
        }
    }

    /// The words from number `which` of the view on.
    fn part(&self, which: usize) -> &[u32] {
        &self.words[self.numbers[which] as usize..]
    }
}

/// What a builder gives.
struct Built {
    draft: Draft,
    details: Vec<Detail>,
    shared_words: usize,
}
