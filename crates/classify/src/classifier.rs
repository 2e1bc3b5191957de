//! The one interface of every engine, and the list of engines.

use std::fmt;
use std::str::FromStr;

use warpswitch_rules::{KeyBatch, RuleId, RuleRef, Ruleset, Schema};

use crate::bloom::BloomTable;
use crate::error::{ClassifyError, ErrorKind};
use crate::hypercuts::HyperCuts;
use crate::left_right::TwoCopies;
use crate::linear::Linear;
use crate::linear_simd::LinearSimd;
use crate::maskhash::ProbeTable;
use crate::rebuild::Rebuild;
use crate::tuple::TupleSpace;
use crate::tuple::cuckoo::CuckooTable;
use crate::turbo::Turbo;

/// A set of rules, arranged for lookup.
///
/// Threads: any number may call [`Classifier::classify`] while others change the rules; changes are
/// put in order by a lock inside. Every lookup sees the rules exactly as they were before or after
/// each change. Readers never wait for writers.
pub trait Classifier: Send + Sync {
    /// Which engine this is.
    fn engine(&self) -> Engine;

    /// The layout of the keys it takes.
    fn schema(&self) -> &'static Schema;

    /// Number of rules in it.
    fn len(&self) -> usize;

    /// Whether there is no rule in it.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds the winning rule for every key: `out[i]` answers key `i` with a rule id, or
    /// [`RuleId::NONE`]; `out` beyond the batch is untouched. Batches of any length; no allocation.
    ///
    /// # Panics
    /// If `out` is shorter than the batch or the keys are of another length than the schema's: a
    /// caller bug, not an input.
    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]);

    /// Adds a rule.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateRule`], [`ErrorKind::SchemaMismatch`], [`ErrorKind::MemoryBound`];
    /// nothing has changed then.
    fn insert(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError>;

    /// Takes a rule out. `rule` must be as it was inserted.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownRule`] if no rule with this id, priority and match is there; nothing has
    /// changed then.
    fn remove(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError>;

    /// Makes several changes, in order. They become visible one by one or, in engines whose
    /// versions are published whole, all at once, which costs such engines far less than one by
    /// one. When this returns they are visible. Such engines look at the memory bound after all of
    /// them.
    ///
    /// # Errors
    /// The first change that is refused, as [`Classifier::insert`] and [`Classifier::remove`] would
    /// refuse it: those before it have been made, those behind it have not.
    fn change(&self, changes: &[RuleChange<'_>]) -> Result<(), Refused> {
        for (made, change) in changes.iter().enumerate() {
            let result = match *change {
                RuleChange::Insert(rule) => self.insert(rule),
                RuleChange::Remove(rule) => self.remove(rule),
            };
            result.map_err(|error| Refused { made, error })?;
        }
        Ok(())
    }

    /// Bytes of memory that lookups and changes use, all of it.
    fn bytes(&self) -> usize;

    /// Figures that describe the structure (tuples, entries, depth, …), for people who compare.
    fn details(&self) -> Vec<Detail>;
}

/// One change of a set of rules.
#[derive(Clone, Copy, Debug)]
pub enum RuleChange<'a> {
    /// A rule comes.
    Insert(RuleRef<'a>),
    /// A rule goes.
    Remove(RuleRef<'a>),
}

/// Why several changes were not all made.
#[derive(Debug)]
pub struct Refused {
    /// How many were made.
    pub made: usize,
    /// Why the next one was not.
    pub error: ClassifyError,
}

/// One figure that describes a structure.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// Its name, in the form `noun_unit`.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
}

/// What a build may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildOptions {
    /// The most bytes that the structure may take; a build that would pass it is refused.
    pub bytes_max: usize,
    /// Seed of the keyed hashes. Drawn at random by default, so that nobody can choose keys that
    /// collide; fixed where a run must be repeated exactly.
    pub hash_seed: u64,
}

impl Default for BuildOptions {
    fn default() -> Self {
        use std::hash::{BuildHasher, Hasher};
        let hash_seed = std::hash::RandomState::new().build_hasher().finish();
        Self { bytes_max: usize::MAX, hash_seed }
    }
}

/// The engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// The reference.
    Linear,
    /// The reference, sixteen rules at once.
    LinearSimd,
    /// A cuckoo hash table per mask.
    Tuple,
    /// The same behind a Bloom filter per mask.
    Bloom,
    /// An open-addressing table per mask.
    MaskHash,
    /// A decision tree that cuts several fields at once.
    HyperCuts,
    /// Hash tables and cuts walked for a batch at a time: the fastest, and the default.
    Turbo,
}

impl Engine {
    /// Every engine, in the order in which commands list them.
    pub const ALL: [Engine; 7] = [
        Engine::Linear,
        Engine::LinearSimd,
        Engine::Tuple,
        Engine::Bloom,
        Engine::MaskHash,
        Engine::HyperCuts,
        Engine::Turbo,
    ];

    /// The name that commands use.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Linear => "linear",
            Engine::LinearSimd => "linear-simd",
            Engine::Tuple => "tuple",
            Engine::Bloom => "bloom",
            Engine::MaskHash => "maskhash",
            Engine::HyperCuts => "hypercuts",
            Engine::Turbo => "turbo",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Engine {
    type Err = ClassifyError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name).ok_or_else(|| {
            let known = Engine::ALL.map(Engine::name).join(", ");
            let message = format!("unknown engine '{name}'; expected one of {known}");
            ClassifyError::new(ErrorKind::UnknownEngine, message)
        })
    }
}

/// Builds `engine` over `ruleset`.
///
/// # Errors
/// [`ErrorKind::MemoryBound`], with the rules that cost most, if it would pass
/// [`BuildOptions::bytes_max`].
pub fn build(
    engine: Engine,
    ruleset: &Ruleset,
    options: &BuildOptions,
) -> Result<Box<dyn Classifier>, ClassifyError> {
    match ruleset.schema().words {
        4 => build_for_words::<4>(engine, ruleset, options),
        10 => build_for_words::<10>(engine, ruleset, options),
        16 => build_for_words::<16>(engine, ruleset, options),
        words => {
            let message = format!("keys of {words} words; engines take 4, 10 or 16");
            Err(ClassifyError::new(ErrorKind::SchemaMismatch, message))
        }
    }
}

/// [`build`] for keys of `W` words: hashes and comparisons are unrolled for each length.
fn build_for_words<const W: usize>(
    engine: Engine,
    ruleset: &Ruleset,
    options: &BuildOptions,
) -> Result<Box<dyn Classifier>, ClassifyError> {
    Ok(match engine {
        Engine::Linear => Box::new(Rebuild::<Linear>::build((), ruleset, options)?),
        Engine::LinearSimd => Box::new(Rebuild::<LinearSimd>::build((), ruleset, options)?),
        Engine::Tuple => {
            Box::new(TwoCopies::<TupleSpace<W, CuckooTable<W>>>::build(ruleset, options)?)
        }
        Engine::Bloom => {
            Box::new(TwoCopies::<TupleSpace<W, BloomTable<W>>>::build(ruleset, options)?)
        }
        Engine::MaskHash => {
            Box::new(TwoCopies::<TupleSpace<W, ProbeTable<W>>>::build(ruleset, options)?)
        }
        Engine::Turbo => Box::new(Turbo::<W>::build(ruleset, options)?),
        Engine::HyperCuts => Box::new(Rebuild::<HyperCuts<W>>::build((), ruleset, options)?),
    })
}

/// Asserts what [`Classifier::classify`] demands of its caller.
pub(crate) fn check_batch(schema: &Schema, keys: KeyBatch<'_>, out: &[RuleId]) {
    assert_eq!(keys.words_per_key(), schema.words, "keys of another schema than {}", schema.name);
    assert!(out.len() >= keys.len(), "{} keys, room for {} answers", keys.len(), out.len());
}
