//! Elements that classify packets by patterns.
//!
//! ```text
//! text ─words─► tests ─primitive─► Expr ─► Program ─optimize─► Tests, run for each packet
//!                                    └───► cubes ─► rules of a classifier, looked up in batches
//! ```

mod cache_argument;
mod classifier;
mod cubes;
mod expr;
mod ip_filter;
mod list;
mod optimize;
mod parse;
mod primitive;
mod program;
mod rule_cache;
mod run;
pub(crate) mod sdn_classifier;
#[cfg(test)]
mod tests;
mod verdicts;
mod words;

use warpswitch_graph::ElementClass;

/// What to do where there are not as many patterns as outputs.
fn one_for_each(outputs: usize) -> String {
    let outputs = match outputs {
        0 => "no output is connected".to_owned(),
        1 => "one output is connected".to_owned(),
        outputs => format!("{outputs} outputs are connected"),
    };
    format!("{outputs}, and each requires a pattern: the last may be -, for all other packets")
}

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &classifier::CLASS,
    &ip_filter::CLASS,
    &ip_filter::CLASSIFIER,
    &rule_cache::CLASS,
    &sdn_classifier::CLASS,
];
