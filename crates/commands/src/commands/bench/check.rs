//! The answers that every engine must give, known before anything is measured.
//!
//! `linear` defines them, and at 100,000 rules and a million keys it would take minutes. So it
//! answers as many keys as [`LINEAR_PAIRS_MAX`] pairs of rule and key allow, and `linear-simd`,
//! which must agree with it on those, answers as many as [`SIMD_PAIRS_MAX`] allow. Where that is
//! less than the whole trace, keys are taken at even distances, the same ones on every machine.
//!
//! Where even that takes too long, two engines with nothing in common but the rules answer the
//! whole trace ([`CheckBy::Engines`]); they must agree on every key, and with `linear` on a sample.

use anyhow::bail;
use clap::ValueEnum;
use warpswitch_classify::{Classifier, Engine};
use warpswitch_rules::{KeyBatch, KeyBuf, RuleId, Ruleset, linear};

use crate::load::build_engine;
use crate::measure::{answer_all, classify_all};
use crate::term::Progress;
use crate::threads::default_threads;

/// Pairs of rule and key that the plain reference tries: a second or two.
const LINEAR_PAIRS_MAX: u64 = 1_000_000_000;

/// Pairs that `linear-simd` tries after that.
const SIMD_PAIRS_MAX: u64 = 10_000_000_000;

/// Pairs that the plain reference tries of the answers that two engines agree on.
const SAMPLE_PAIRS_MAX: u64 = 50_000_000;

/// Those two: one cuts the space of keys and compares rows, the other hashes keys under each mask.
const WITNESSES: [Engine; 2] = [Engine::Turbo, Engine::MaskHash];

/// Source of the right answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckBy {
    /// `linear` for as many keys as take a second or two, and what `linear-simd` adds
    #[default]
    Reference,
    /// `turbo` and `maskhash` on the cores for all keys, on which they must agree, and `linear` for
    /// a small sample: for sets of 100,000 rules and more
    Engines,
}

impl CheckBy {
    /// The name that options and reports use.
    pub fn name(self) -> &'static str {
        match self {
            CheckBy::Reference => "reference",
            CheckBy::Engines => "engines",
        }
    }

    /// Finds the right answers.
    ///
    /// # Errors
    /// If the references disagree, or cannot be built.
    pub fn find(self, ruleset: &Ruleset, keys: &KeyBuf) -> anyhow::Result<Reference> {
        match self {
            CheckBy::Reference => Reference::find(ruleset, keys),
            CheckBy::Engines => Reference::find_by_engines(ruleset, keys),
        }
    }
}

/// Keys of a trace and their right answers.
pub struct Reference {
    /// Places in the trace, ascending.
    places: Vec<usize>,
    answers: Vec<RuleId>,
    /// Keys that the plain reference answered too.
    pub by_linear: usize,
}

/// An answer that is not the reference's.
#[derive(Clone, Copy, Debug)]
pub struct WrongAnswer {
    /// The packet's place in the trace.
    pub packet: usize,
    /// The answer of the engine.
    pub got: RuleId,
    /// The answer of the reference.
    pub want: RuleId,
}

impl Reference {
    /// Finds the right answers.
    ///
    /// # Errors
    /// If `linear-simd` and `linear` disagree, or the former cannot be built.
    pub fn find(ruleset: &Ruleset, keys: &KeyBuf) -> anyhow::Result<Self> {
        let plain = Self::plain(ruleset, keys, LINEAR_PAIRS_MAX);
        if plain.places.len() == keys.len() {
            return Ok(plain);
        }
        let simd = build_engine(Engine::LinearSimd, ruleset, &Default::default())?.classifier;
        if let Some(wrong) = plain.first_wrong_of(simd.as_ref(), keys) {
            let WrongAnswer { packet, got, want } = wrong;
            bail!(
                "linear-simd, the reference for the others, is wrong: packet {packet}: got {got}, \
                    expected {want}"
            );
        }
        let places = sample(keys.len(), ruleset.len(), SIMD_PAIRS_MAX);
        let subset = pick(keys, &places);
        let progress = Progress::steps("checking: linear-simd", subset.len() as u64);
        let answers = classify_all(simd.as_ref(), subset.as_batch(), default_threads(), &|done| {
            progress.at(done);
        });
        Ok(Self { places, answers, by_linear: plain.by_linear })
    }

    /// What two engines answer that must agree on each key, and with the plain reference on a
    /// sample.
    ///
    /// # Errors
    /// If they disagree, or cannot be built.
    fn find_by_engines(ruleset: &Ruleset, keys: &KeyBuf) -> anyhow::Result<Self> {
        let plain = Self::plain(ruleset, keys, SAMPLE_PAIRS_MAX);
        let mut said = Vec::new();
        for engine in WITNESSES {
            let built = build_engine(engine, ruleset, &Default::default())?.classifier;
            let progress = Progress::steps(&format!("checking: {engine}"), keys.len() as u64);
            let tell = |done| progress.at(done);
            said.push(classify_all(&*built, keys.as_batch(), default_threads(), &tell));
        }
        let [first, second] = said.try_into().expect("an answer of each");
        plain.with_witnesses([&first, &second])?;
        let places = (0..keys.len()).collect();
        Ok(Self { places, answers: first, by_linear: plain.by_linear })
    }

    /// Whether both witnesses agree with these answers and, on every key, with each other.
    fn with_witnesses(&self, said: [&[RuleId]; 2]) -> anyhow::Result<()> {
        for (engine, answers) in WITNESSES.into_iter().zip(said) {
            if let Some(WrongAnswer { packet, got, want }) = self.first_wrong(answers) {
                bail!(
                    "{engine}, a reference for the others, is wrong: packet {packet}: got {got}, \
                     expected {want}"
                );
            }
        }
        let mut both = said[0].iter().zip(said[1]);
        if let Some(packet) = both.position(|(one, other)| one != other) {
            let ([first, second], [one, other]) = (WITNESSES, said.map(|answers| answers[packet]));
            bail!(
                "{first} and {second}, the references for the others, disagree: packet {packet}: \
                 {one} and {other}"
            );
        }
        Ok(())
    }

    /// What the plain reference answers, to as many keys as `pairs_max` allows.
    fn plain(ruleset: &Ruleset, keys: &KeyBuf, pairs_max: u64) -> Self {
        let places = sample(keys.len(), ruleset.len(), pairs_max);
        let subset = pick(keys, &places);
        let progress = Progress::steps("checking: linear", subset.len() as u64);
        let mut answers = vec![RuleId::NONE; subset.len()];
        answer_all(
            subset.as_batch(),
            default_threads(),
            &mut answers,
            &|done| progress.at(done),
            &|keys, out| linear::classify(ruleset, keys, out),
        );
        Self { by_linear: places.len(), places, answers }
    }

    /// Number of keys whose answers are known.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The first of an engine's answers to the whole trace that is wrong.
    pub fn first_wrong(&self, answers: &[RuleId]) -> Option<WrongAnswer> {
        let mut known = self.places.iter().zip(&self.answers);
        let (&packet, &want) = known.find(|&(&packet, want)| answers[packet] != *want)?;
        Some(WrongAnswer { packet, got: answers[packet], want })
    }

    /// The first wrong answer of an engine, for the known keys only.
    pub fn first_wrong_of(
        &self,
        classifier: &dyn Classifier,
        keys: &KeyBuf,
    ) -> Option<WrongAnswer> {
        let subset = pick(keys, &self.places);
        let progress =
            Progress::steps(&format!("checking {}", classifier.engine()), subset.len() as u64);
        let tell = |done| progress.at(done);
        let answers = classify_all(classifier, subset.as_batch(), default_threads(), &tell);
        let mut both = self.places.iter().zip(answers.iter().zip(&self.answers));
        let (&packet, (&got, &want)) = both.find(|(_, (got, want))| got != want)?;
        Some(WrongAnswer { packet, got, want })
    }
}

/// Places at even distances, so many that the pairs with `rules` stay within `pairs_max`.
fn sample(keys: usize, rules: usize, pairs_max: u64) -> Vec<usize> {
    let keys_max = (pairs_max / rules.max(1) as u64).max(1) as usize;
    let count = keys.min(keys_max);
    (0..count).map(|idx| (idx as u128 * keys as u128 / count as u128) as usize).collect()
}

fn pick(keys: &KeyBuf, places: &[usize]) -> KeyBuf {
    let batch: KeyBatch<'_> = keys.as_batch();
    let mut picked = KeyBuf::with_capacity(keys.schema(), places.len());
    for &place in places {
        picked.push(batch.key(place));
    }
    picked
}

#[cfg(test)]
mod tests {
    use warpswitch_rules::generate::{Family, Point, RulesetSpec, Style, TraceSpec};

    use super::*;

    fn rules_and_keys() -> (Ruleset, KeyBuf) {
        let spec = RulesetSpec { style: Style::Fw, family: Family::Ipv4, rules: 300, seed: 5 };
        let ruleset = spec.generate();
        let (keys, point) = (700, Point::Corner);
        let spec = TraceSpec { keys, point, locality: None, realisable: false, seed: 6 };
        let mut drawn = KeyBuf::with_capacity(ruleset.schema(), keys);
        spec.generate(&ruleset).fill(&mut drawn, keys);
        (ruleset, drawn)
    }

    #[test]
    fn engines_know_what_the_reference_knows() {
        let (ruleset, keys) = rules_and_keys();
        let plain = CheckBy::Reference.find(&ruleset, &keys).unwrap();
        let engines = CheckBy::Engines.find(&ruleset, &keys).unwrap();
        assert_eq!((plain.len(), engines.len()), (keys.len(), keys.len()));
        assert_eq!(engines.first_wrong(&plain.answers).map(|wrong| wrong.packet), None);
        assert!(engines.by_linear > 0);
    }

    #[test]
    fn witnesses_that_err_are_found() {
        let (ruleset, keys) = rules_and_keys();
        let plain = Reference::plain(&ruleset, &keys, 30_000);
        assert_eq!(plain.len(), 100);
        let right = Reference::plain(&ruleset, &keys, u64::MAX).answers;
        let wrong_at = |packet: usize| {
            let mut answers = right.clone();
            answers[packet] = RuleId(answers[packet].0 ^ 1);
            answers
        };
        plain.with_witnesses([&right, &right]).unwrap();
        let seen = plain.places[7];
        for said in [[&wrong_at(seen), &right], [&right, &wrong_at(seen)]] {
            let error = plain.with_witnesses(said.map(Vec::as_slice)).unwrap_err().to_string();
            assert!(error.contains(&format!("is wrong: packet {seen}:")), "{error}");
        }
        // One that the reference has not seen.
        let error = plain.with_witnesses([&right, &wrong_at(seen + 1)]).unwrap_err().to_string();
        assert!(error.contains(&format!("disagree: packet {}:", seen + 1)), "{error}");
    }

    #[test]
    fn samples_are_even_distinct_and_bounded() {
        for (keys, rules, pairs) in [(10, 1, 100), (10, 5, 20), (1_000_000, 100_000, 1 << 30)] {
            let places = sample(keys, rules, pairs);
            assert_eq!(places.len(), keys.min((pairs / rules as u64) as usize));
            assert!(places.is_sorted_by(|a, b| a < b));
            assert!(places.iter().all(|&place| place < keys));
        }
        assert_eq!(sample(10, 0, 5), [0, 2, 4, 6, 8]);
        assert!(sample(0, 5, 5).is_empty());
    }
}
