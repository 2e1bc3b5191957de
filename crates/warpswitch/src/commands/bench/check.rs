//! The answers that every engine must give, known before anything is measured.
//!
//! `linear` defines them, and at 100,000 rules and a million keys it would take minutes. So it
//! answers as many keys as [`LINEAR_PAIRS_MAX`] pairs of rule and key allow, and `linear-simd`,
//! which must agree with it on those, answers as many as [`SIMD_PAIRS_MAX`] allow. Where that is
//! less than the whole trace, keys are taken at even distances, the same ones on every machine.

use anyhow::bail;
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
    /// What the engine said.
    pub got: RuleId,
    /// What the reference says.
    pub want: RuleId,
}

impl Reference {
    /// Finds the right answers.
    ///
    /// # Errors
    /// If `linear-simd` and `linear` disagree, or the former cannot be built.
    pub fn find(ruleset: &Ruleset, keys: &KeyBuf) -> anyhow::Result<Self> {
        let by_linear = sample(keys.len(), ruleset.len(), LINEAR_PAIRS_MAX);
        let subset = pick(keys, &by_linear);
        let progress = Progress::steps("checking: linear", subset.len() as u64);
        let mut linear_answers = vec![RuleId::NONE; subset.len()];
        answer_all(
            subset.as_batch(),
            default_threads(),
            &mut linear_answers,
            &|done| progress.at(done),
            &|keys, out| linear::classify(ruleset, keys, out),
        );
        drop(progress);
        let plain = Self { by_linear: by_linear.len(), places: by_linear, answers: linear_answers };
        if plain.places.len() == keys.len() {
            return Ok(plain);
        }
        let simd = build_engine(Engine::LinearSimd, ruleset, &Default::default())?.classifier;
        if let Some(wrong) = plain.first_wrong_of(simd.as_ref(), keys) {
            let WrongAnswer { packet, got, want } = wrong;
            bail!(
                "linear-simd, which checks the others, is wrong: packet {packet}: {got}, not {want}"
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

    /// The first wrong answer of an engine, which is asked for the known keys only.
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
    use super::*;

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
