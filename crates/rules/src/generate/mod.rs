//! Rule sets, traces and frames that are made, not found.
//!
//! | what | specification |
//! | --- | --- |
//! | rule sets in the style of ClassBench: access lists, firewalls, IP chains | [`RulesetSpec`] |
//! | GSwitch's synthetic sets: N rules in C masks, Cm of which match a key | [`SyntheticSpec`] |
//! | traces: keys at the corners or inside of rules, independent or in runs | [`TraceSpec`] |
//! | frames that have given keys, in a mix of sizes | [`frame_for_key`], [`FrameSizes`] |
//!
//! A specification is plain data with a seed; the same one yields the same bytes on every machine
//! (see [`Prng`]).

mod address;
mod classbench;
mod frame;
mod locality;
mod prng;
mod realise;
mod sizes;
mod synthetic;
mod tables;
mod trace;

pub use classbench::{Family, RulesetSpec, Style, UnknownName};
pub use frame::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, FrameMaker, frame_for_key};
pub use locality::{BadPareto, Pareto, RUN_MAX};
pub use prng::Prng;
pub use sizes::{BadSizes, FrameSizes};
pub use synthetic::{SpecError, SyntheticSpec};
pub use trace::{Point, TraceGenerator, TraceSpec};
