//! The documentation of elements: those on the CPU, and those of this crate.

use warpswitch_elements::docs::{Files, find};
use warpswitch_graph::ElementDoc;

static FILES: Files = include!(concat!(env!("OUT_DIR"), "/docs.rs"));

/// Documentation of a class, see [`warpswitch_elements::docs::doc`].
pub fn doc(class: &str) -> Option<ElementDoc> {
    find(FILES, class).or_else(|| warpswitch_elements::docs::doc(class))
}
