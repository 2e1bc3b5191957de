//! The suite that every classifier must pass.
//!
//! Each function takes the way to build a classifier and panics where it errs. The reference is
//! `warpswitch_rules::linear`. All inputs come from fixed seeds.

mod changes;
mod concurrent;
mod equality;
mod limits;
mod random_rules;

use warpswitch_classify::{BuildOptions, Classifier, ClassifyError};
use warpswitch_rules::{KeyBatch, RuleId, Ruleset, linear};

pub use changes::{
    changes_keep_answers_exact, duplicates_step_in_for_each_other, errors_change_nothing,
    insert_then_remove_is_identity, order_of_insertion_does_not_matter,
};
pub use concurrent::{batches_see_single_versions, lookups_see_single_versions};
pub use equality::{
    answers_beyond_the_batch_stay, equals_reference_on_dense_rules,
    equals_reference_on_generated_rules, seeds_do_not_change_answers,
    unexamined_bits_change_nothing,
};
pub use limits::{memory_bounds_hold, wide_rules_are_refused_not_fatal};
pub use random_rules::equals_reference_on_random_rules;

/// How a classifier is built.
pub type Build<'a> =
    &'a (dyn Fn(&Ruleset, &BuildOptions) -> Result<Box<dyn Classifier>, ClassifyError> + Sync);

/// No bound, fixed hashes.
pub(crate) const OPTIONS: BuildOptions = BuildOptions { bytes_max: usize::MAX, hash_seed: 0x5eed };

/// The classifier's answers.
pub(crate) fn answers(classifier: &dyn Classifier, keys: KeyBatch<'_>) -> Vec<RuleId> {
    let mut out = vec![RuleId::NONE; keys.len()];
    classifier.classify(keys, &mut out);
    out
}

/// The reference's answers.
pub(crate) fn expected(ruleset: &Ruleset, keys: KeyBatch<'_>) -> Vec<RuleId> {
    let mut out = vec![RuleId::NONE; keys.len()];
    linear::classify(ruleset, keys, &mut out);
    out
}

/// Panics at the first answer that differs.
#[track_caller]
pub(crate) fn assert_answers(
    what: &str,
    keys: KeyBatch<'_>,
    answers: &[RuleId],
    expected: &[RuleId],
) {
    assert_eq!(answers.len(), expected.len(), "{what}");
    for (idx, (answer, expected)) in answers.iter().zip(expected).enumerate() {
        assert!(
            answer == expected,
            "{what}: key {idx} {:08x?}: rule {answer}, the reference has {expected}",
            keys.key(idx)
        );
    }
}

/// Stamps the whole suite on one way to build a classifier, as module `$name`; with `batches:` also
/// that a whole batch sees one version, which is more than the trait promises.
///
/// With `list` in front it is an array of `(name, fn())` instead, for a test target that has its
/// own harness.
#[macro_export]
macro_rules! classifier_suite {
    (list batches: $name:ident, $build:expr) => {
        $crate::classifier_suite!(@suite list $name, $build, batches_see_single_versions)
    };
    (batches: $name:ident, $build:expr) => {
        $crate::classifier_suite!(@suite tests $name, $build, batches_see_single_versions);
    };
    ($name:ident, $build:expr) => {
        $crate::classifier_suite!(@suite tests $name, $build,);
    };
    (@suite $form:ident $name:ident, $build:expr, $($more:ident)*) => {
        $crate::classifier_suite! { @$form $name, $build,
            $($more)*
            equals_reference_on_dense_rules
            equals_reference_on_generated_rules
            equals_reference_on_random_rules
            unexamined_bits_change_nothing
            answers_beyond_the_batch_stay
            seeds_do_not_change_answers
            changes_keep_answers_exact
            insert_then_remove_is_identity
            order_of_insertion_does_not_matter
            duplicates_step_in_for_each_other
            errors_change_nothing
            memory_bounds_hold
            wide_rules_are_refused_not_fatal
            lookups_see_single_versions
        }
    };
    (@list $name:ident, $build:expr, $($test:ident)*) => {
        [$(
            (
                concat!(stringify!($name), "::", stringify!($test)),
                (|| $crate::suite::$test($build)) as fn(),
            ),
        )*]
    };
    (@tests $name:ident, $build:expr, $($test:ident)*) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $(
                #[test]
                fn $test() {
                    $crate::suite::$test($build);
                }
            )*
        }
    };
}
