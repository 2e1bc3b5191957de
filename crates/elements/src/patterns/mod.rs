//! Elements that sort packets by patterns.
//!
//! ```text
//! text ─words─► tests ─primitive─► Expr ─► Program ─optimize─► Tests, run for each packet
//!                                    └───► cubes ─► rules of a classifier, looked up in batches
//! ```

mod classifier;
mod cubes;
mod expr;
mod ip_filter;
mod list;
mod optimize;
mod parse;
mod primitive;
mod program;
mod run;
pub(crate) mod sdn_classifier;
#[cfg(test)]
mod tests;
mod verdicts;
mod words;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] =
    &[&classifier::CLASS, &ip_filter::CLASS, &ip_filter::CLASSIFIER, &sdn_classifier::CLASS];
