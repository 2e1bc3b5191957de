//! Search for many patterns at once: payloads in, the patterns that occur in them out.
//!
//! | type | what it is |
//! | --- | --- |
//! | [`Patterns`] | byte strings with their case rules; what is searched for |
//! | [`Scanner`] | finds them in batches of payloads: all occurrences, the set, the first, or any |
//! | [`Carry`] | what a flow leaves behind, so that occurrences across segments are found |
//! | [`Engine`] | how it is searched: all give the same |
//! | [`naive`] | the reference |
//! | [`parts`] | what searches elsewhere share with this one |
//!
//! A scan takes time in proportion to its bytes and to what it finds, whatever the patterns and
//! payloads are, and what it finds is bounded.
#![deny(unsafe_op_in_unsafe_fn)]

mod arch;
mod automaton;
mod collect;
mod engine;
mod error;
mod filter;
mod matches;
pub mod naive;
pub mod parts;
mod pattern;
mod scanner;
mod stream;
#[cfg(test)]
mod tests;

pub use engine::Engine;
pub use error::{ErrorKind, ScanError};
pub use matches::{Lists, Match, Matches, PatternSets};
pub use pattern::{
    Case, PATTERN_BYTES_MAX, PATTERNS_BYTES_MAX, PATTERNS_MAX, Pattern, PatternId, Patterns,
};
pub use scanner::{ScanOptions, Scanner, Scratch};
pub use stream::Carry;
