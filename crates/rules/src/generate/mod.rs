//! Rule sets, traces and frames that are made, not found.
//!
//! | what | specification |
//! | --- | --- |
//! | rule sets in the style of ClassBench: access lists, firewalls, IP chains | [`RulesetSpec`] |
//!
//! A specification is plain data with a seed; the same one yields the same bytes on every machine
//! (see [`Prng`]).

mod address;
mod classbench;
mod prng;
mod tables;

pub use classbench::{Family, RulesetSpec, Style, UnknownName};
pub use prng::Prng;
