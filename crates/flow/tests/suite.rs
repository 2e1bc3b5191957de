//! The classifier suite, stamped on engines behind the cache.

use warpswitch_classify::{BuildOptions, Classifier, ClassifyError, Engine, build};
use warpswitch_flow::{CachedClassifier, StormOptions};
use warpswitch_rules::Ruleset;
use warpswitch_testkit::suite;

/// A cache that evolves at every batch, over few samples.
fn cached(
    engine: Engine,
    ruleset: &Ruleset,
    options: &BuildOptions,
) -> Result<Box<dyn Classifier>, ClassifyError> {
    let storm = StormOptions {
        window_len: 50,
        keys_per_sample: 8,
        samples_per_swap: 1,
        is_adaptive: false,
        ..StormOptions::default()
    };
    let full = build(engine, ruleset, options)?;
    Ok(Box::new(CachedClassifier::new(full, ruleset, &storm)))
}

/// All of the suite but the bounds on memory: the cache is outside of the engine's bound.
macro_rules! stamp {
    ($engine:expr, $($test:ident)*) => {
        $(
            #[test]
            fn $test() {
                suite::$test(&|rules, options| cached($engine, rules, options));
            }
        )*
    };
}

mod hypercuts {
    use super::*;

    stamp! { Engine::HyperCuts,
        equals_reference_on_dense_rules
        equals_reference_on_generated_rules
        equals_reference_on_random_rules
        unexamined_bits_change_nothing
        answers_beyond_the_batch_stay
        seeds_do_not_change_answers
        changes_keep_answers_exact
        insert_then_remove_is_identity
        duplicates_step_in_for_each_other
        errors_change_nothing
        lookups_see_single_versions
        batches_see_single_versions
    }
}

mod turbo {
    use super::*;

    stamp! { Engine::Turbo,
        changes_keep_answers_exact
        duplicates_step_in_for_each_other
        lookups_see_single_versions
    }
}
