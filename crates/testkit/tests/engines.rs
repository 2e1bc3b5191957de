//! The classifier suite, stamped on every engine.

use warpswitch_classify::{Engine, build};
use warpswitch_testkit::classifier_suite;

/// Stamps the suite on engines, and checks that none was forgotten.
macro_rules! engines {
    ($($name:ident: $engine:expr,)*) => {
        $(classifier_suite!($name, &|rules, options| build($engine, rules, options));)*

        #[test]
        fn every_engine_is_here() {
            assert_eq!([$($engine),*], Engine::ALL);
        }
    };
}

engines! {
    linear: Engine::Linear,
    linear_simd: Engine::LinearSimd,
    tuple: Engine::Tuple,
    bloom: Engine::Bloom,
    maskhash: Engine::MaskHash,
    hypercuts: Engine::HyperCuts,
}
