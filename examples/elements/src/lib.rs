//! Example elements: the code that `docs/writing-elements.md` quotes.
#![forbid(unsafe_code)]

pub mod gpu_flow_hash;
pub mod min_length;
pub mod source_count;

use warpswitch_graph::{ElementClass, Registry};

/// The classes of this crate.
pub const CLASSES: &[&ElementClass] =
    &[&gpu_flow_hash::CLASS, &min_length::CLASS, &source_count::CLASS];

/// Adds the classes of this crate to `registry`.
pub fn register(registry: Registry) -> Registry {
    CLASSES.iter().fold(registry, |registry, class| registry.with(class))
}
