//! Runs configurations with all classes of tests; packets to send and what arrives.

use warpswitch_elements_lookup::testing;
use warpswitch_graph::{Registry, Router};

pub(crate) use warpswitch_elements_lookup::testing::{Shown, hex, ipv4, shown, source, unhex};

/// All classes that tests of this crate use.
pub(crate) fn registry() -> Registry {
    testing::with_classes(crate::registry())
}

/// [`testing::run_with`] these classes.
pub(crate) fn run(config: &str) -> (Vec<Shown>, Vec<String>, Router) {
    testing::run_with(&registry(), config)
}

/// [`testing::through_with`] these classes.
pub(crate) fn through(bytes: &[u8], elements: &str) -> Option<Shown> {
    testing::through_with(&registry(), bytes, elements)
}

/// [`testing::errors_with`] these classes.
pub(crate) fn errors(config: &str) -> String {
    testing::errors_with(&registry(), config)
}
