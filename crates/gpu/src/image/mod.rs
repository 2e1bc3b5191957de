//! Images: rule sets as flat words that a kernel and the host read alike.
//!
//! An image is a list of 32-bit words without addresses, and fourteen numbers (the *view*) that say
//! what lies where. It is built on the host, copied to a card whole, and never changed: a change of
//! rules is a new image. [`Image::classify`] is the kernel's per-packet function in Rust; it is the
//! reference for the kernel and what answers when a card is lost.
//!
//! Rules are known by *rank*, numbers in order of precedence, so that the better of two is the
//! smaller one whatever their priorities are. Where ranks are not the ids, a list maps them. Ranks
//! are places in that order, but in images that change, where there is room between them.
//!
//! | algorithm | structure | bytes a rule (four-word keys) |
//! | --- | --- | --- |
//! | `linear` | rows in order of rank | 32, or 48 with masks that are no prefixes |
//! | `maskhash` | for each mask open addressing, half full at most | 48 to 80 an entry |
//! | `tuple` | for each mask three parts of a cuckoo table | 41 an entry |
//! | `bloom` | the same behind a filter of 16 to 32 bits an entry, its hash in terms | 45 an entry |
//! | `turbo` | the tables, cuts and leaves of the CPU's engine | 100 to 6000 |
//!
//! Ranges become prefixes for the three in the middle: a rule may be many entries.

pub mod abi;
pub mod hashes;
mod linear;
pub(crate) mod live;
mod rows;
mod split;
mod tables;
mod terms;
mod turbo;

use std::fmt;
use std::str::FromStr;

use warpswitch_classify::parts::{RuleStore, TooLarge};
use warpswitch_classify::{ClassifyError, Detail, Engine};
use warpswitch_rules::{KeyBatch, RuleId, RuleRef};

pub use abi::VIEW_NUMBERS;
pub use live::Patch;
use live::Ranks;
pub(crate) use live::{Live, Model};

use crate::driver::LaunchShape;
use crate::kernels::{self, Kernel, KernelShape, Source};
use crate::split::{Divisible, RuleSplit};
use crate::work::{Form, Lookup, PatchWork, Work};

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
            ClassifyError::unknown_engine(format!(
                "no kernel for engine '{name}'; expected one of \
                {known}"
            ))
        })
    }
}

/// The rules that an image is made of, in order of rank.
struct Rules<'a> {
    store: &'a RuleStore,
    rules: Vec<RuleRef<'a>>,
    /// Of each.
    ranks: Vec<u32>,
}

impl<'a> Rules<'a> {
    fn new(store: &'a RuleStore) -> Self {
        let places = store.places_by_precedence();
        let ranks = (0..places.len() as u32).collect();
        Self { store, rules: places.into_iter().map(|place| store.rule(place)).collect(), ranks }
    }

    /// Writes the row of the rule at a place in order of rank.
    fn write_row(&self, shape: &KernelShape, place: u32, row: &mut [u32]) {
        rows::write(shape, &self.rules[place as usize], self.ranks[place as usize], row);
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
    id_max: u32,
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
        let len = rules.rules.len();
        Self::arrange(algorithm, &rules, (len, bytes_max), hash_seed, false).map(|(image, _)| image)
    }

    /// The same with room for changes, and what makes them; `None` for that if each change of this
    /// image needs a new one.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn build_live(
        algorithm: Algorithm,
        store: &RuleStore,
        bytes_max: usize,
        hash_seed: u64,
    ) -> Result<(Self, Option<Live>), TooLarge> {
        if algorithm == Algorithm::Linear {
            // Its answer is a row's place, so ranks cannot leave room for others between them.
            return Ok((Self::build(algorithm, store, bytes_max, hash_seed)?, None));
        }
        let mut rules = Rules::new(store);
        let (ranks, list, end) = Ranks::new(&rules.rules);
        rules.ranks = list;
        let (image, layout) = Self::arrange(algorithm, &rules, (end, bytes_max), hash_seed, true)?;
        let live = layout.map(|l| Live::new(image.numbers, image.words.len(), ranks, l));
        Ok((image, live))
    }

    /// Lays out `rules` in an image whose list of ids, if it needs one, is for `ids` ranks.
    fn arrange(
        algorithm: Algorithm,
        rules: &Rules<'_>,
        (ids, bytes_max): (usize, usize),
        hash_seed: u64,
        room: bool,
    ) -> Result<(Self, Option<live::Layout>), TooLarge> {
        let schema = rules.store.schema();
        let compact = rules.rules.iter().all(|rule| rows::fits_compact(schema.words, rule));
        let compact = compact
            && schema.words == 4
            && matches!(algorithm, Algorithm::Linear | Algorithm::Turbo);
        let shape = KernelShape {
            words: schema.words,
            ports_word: schema.ports_word,
            compact,
            packed: false,
        };
        let bytes_max = bytes_max.min(u32::MAX as usize);
        let built = match algorithm {
            Algorithm::Linear => linear::build(rules, &shape, bytes_max)?,
            Algorithm::MaskHash => {
                tables::build(rules, tables::Kind::Open, bytes_max, hash_seed, room)?
            }
            Algorithm::Tuple => {
                tables::build(rules, tables::Kind::Cuckoo, bytes_max, hash_seed, room)?
            }
            Algorithm::Bloom => {
                tables::build(rules, tables::Kind::Filtered, bytes_max, hash_seed, room)?
            }
            Algorithm::Turbo => turbo::build(rules, &shape, hash_seed, room)?,
        };
        let Built { mut draft, details, shared_words, live } = built;
        draft.numbers[abi::RULES] = rules.rules.len() as u32;
        draft.numbers[abi::IDS] = abi::NONE;
        let mut ranked = rules.rules.iter().zip(&rules.ranks);
        if ids > 0 && ranked.any(|(rule, &rank)| rule.id.0 != rank) {
            let mut list = vec![abi::NONE; ids];
            for (rule, &rank) in rules.rules.iter().zip(&rules.ranks) {
                list[rank as usize] = rule.id.0;
            }
            draft.part(abi::IDS, &list);
        }
        draft.align();
        let bytes = draft.words.len() * 4;
        if bytes > bytes_max {
            return Err(rules.too_large(bytes));
        }
        let Draft { mut words, numbers } = draft;
        words.shrink_to_fit();
        let id_max = rules.rules.iter().map(|rule| rule.id.0).max().unwrap_or(0);
        let image = Self { algorithm, shape, words, numbers, details, shared_words, id_max };
        Ok((image, live))
    }

    /// An image of the same layout at a later version, which is what `live` has now.
    pub(crate) fn with_words(&self, live: &Live) -> Self {
        let (words, numbers, id_max) = live.whole();
        let (details, words) = (self.details.clone(), words.to_vec());
        Self { words, numbers, details, id_max: id_max.max(self.id_max), ..*self }
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

    /// The same as a kernel finds it that divides rules: each group and each part of it finds the
    /// best rank among its own, and these are merged.
    ///
    /// # Panics
    /// As [`Image::classify`], and if the algorithm has no such kernel.
    pub fn classify_split(&self, split: &RuleSplit, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        assert_eq!(keys.words_per_key(), self.shape.words, "keys of another schema");
        for (key, winner) in keys.iter().zip(&mut out[..keys.len()]) {
            *winner = RuleId(self.id(split::lookup(self, split, key)));
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

    /// No id of a rule is larger.
    pub(crate) fn id_max(&self) -> u32 {
        self.id_max
    }

    /// The words from number `which` of the view on.
    fn part(&self, which: usize) -> &[u32] {
        &self.words[self.numbers[which] as usize..]
    }
}

impl Lookup for Image {
    fn answer(&self, keys: &[u32], out: &mut [u32]) {
        for (key, out) in keys.chunks_exact(self.shape.words).zip(out) {
            *out = self.id(self.lookup(key));
        }
    }
}

impl Work for Image {
    type Answer = RuleId;

    fn form(&self) -> Form {
        Form { key_words: self.shape.words, answer_bytes: 4, packed: false }
    }

    fn kernel(&self) -> Kernel {
        Kernel::Rules(self.algorithm)
    }

    fn shape(&self) -> KernelShape {
        self.shape
    }

    fn launch_shape(&self, shared_bytes_max: usize) -> LaunchShape {
        kernels::launch_shape(self, shared_bytes_max)
    }

    fn divisible(&self) -> Option<(Divisible, Source)> {
        Divisible::of(self.algorithm, &self.shape).zip(Source::split(self.algorithm))
    }

    fn words(&self) -> &[u32] {
        &self.words
    }

    fn numbers(&self) -> [u32; VIEW_NUMBERS] {
        self.numbers
    }

    fn unpack(words: &[u32], out: &mut [RuleId]) {
        out.iter_mut().zip(words).for_each(|(out, &id)| *out = RuleId(id));
    }
}

impl PatchWork for Image {
    fn patch(&mut self, patch: &Patch) {
        patch.apply(&mut self.words);
        self.numbers = patch.numbers;
        self.id_max = self.id_max.max(patch.id_max);
    }
}

/// What a builder gives.
struct Built {
    draft: Draft,
    details: Vec<Detail>,
    shared_words: usize,
    /// What changes it, if it has room for changes.
    live: Option<live::Layout>,
}
