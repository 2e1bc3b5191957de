//! The classifier suite, stamped on every engine.

use warpswitch_classify::{Engine, build};
use warpswitch_testkit::classifier_suite;

/// Stamps the suite on engines, and checks that none was forgotten.
macro_rules! engines {
    (
        a version a batch { $($name:ident: $engine:expr,)* }
        a version a lookup { $($other:ident: $more:expr,)* }
    ) => {
        $(classifier_suite!(batches: $name, &|rules, options| build($engine, rules, options));)*
        $(classifier_suite!($other, &|rules, options| build($more, rules, options));)*

        #[test]
        fn every_engine_is_here() {
            assert_eq!([$($engine,)* $($more),*], Engine::ALL);
        }
    };
}

engines! {
    a version a batch {
        linear: Engine::Linear,
        linear_simd: Engine::LinearSimd,
        tuple: Engine::Tuple,
        bloom: Engine::Bloom,
        maskhash: Engine::MaskHash,
        hypercuts: Engine::HyperCuts,
    }
    a version a lookup {
        turbo: Engine::Turbo,
    }
}
