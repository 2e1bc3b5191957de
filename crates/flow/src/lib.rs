//! Flow caches in front of a classifier.
//!
//! *Storm* caches rules that it derives from sampled traffic and from the rule set: each cached
//! rule is a box of keys that all have the same answer. Twenty of them answer most packets of
//! skewed traffic, and a lookup compares a batch of keys with all of them by SIMD.
//!
//! ```text
//! keys ─► BoxList: 20 boxes ─┬─ hit ────────────────────────► answers
//!              ▲             └─ miss ─► classifier: all rules ──┘
//!              │ publish                 │ one key of 256
//!         EvolvingRules ◄── SampleSlot ◄─┘
//!              ▲
//!         RuleIndex: CheckConflict
//! ```
//! | module | purpose |
//! | --- | --- |
//! | [`rule_index`] | the rules as boxes: winner of a key, conflict check of a box, changes |
//! | [`evolving`] | evolving rules over a sliding window of samples |
//! | [`box_list`] | the heaviest evolving rules, arranged for lookup |
//! | [`storm`] | the shared cache: lookup, sampling, evolution, changes |
//! | [`choices`] | the alternatives to two copies and one slot, for measurements |
//! | [`misses`] | what the cache did not answer, for another thread |
//! | [`cached`] | a classifier with the cache in front |
//! | [`gate`] | whether the cache pays, by measured times |
//! | [`partition`] | roles of threads, fixed or dynamic |
//! | [`exchange`] | the queues between them |
//! | [`model`] | how many threads for each role |
//!
//! Pipelines of several tables have caches of their own: what one packet met is recorded as a
//! traversal, and repeated for others that agree with it in what was examined.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`traversal`] | recorded traversals, and the trait of caches of them |
//! | [`programs`] | cached traversals, and which of them changes affect |
//! | [`change_log`] | the last changes of a pipeline |
//! | `microflow` | programs by exact keys |
//! | `megaflow` | programs by examined bits |
//! | [`flow_cache`] | both in front of a pipeline |
//! | [`flow_hash`] | the keyed hash of both |
//!
//! # Source
//! Ma, Banerjee, Lu, Estan, "Leveraging parallelism for multi-dimensional packet classification on
//! software routers", SIGMETRICS 2010. Pfaff et al., "The Design and Implementation of Open
//! vSwitch", NSDI 2015, for microflows and megaflows.
#![deny(unsafe_op_in_unsafe_fn)]

mod arch;
pub mod box_list;
pub mod cached;
pub mod change_log;
pub mod choices;
pub mod evolving;
pub mod exchange;
pub mod flow_cache;
pub mod flow_hash;
pub mod gate;
mod megaflow;
mod microflow;
pub mod misses;
pub mod model;
mod pace;
pub mod packed_key;
pub mod partition;
pub mod programs;
mod readers;
pub mod rule_index;
pub mod storm;
pub mod traversal;

pub use box_list::BoxList;
pub use cached::CachedClassifier;
pub use change_log::{Change, ChangeLog};
pub use evolving::EvolvingRules;
pub use flow_cache::{FlowCache, FlowCacheOptions, FlowCacheStats};
pub use misses::Misses;
pub use packed_key::PackedKey;
pub use partition::{Assignment, Partition, Role, Roles};
pub use programs::{CachedFlow, Plain, Program, ProgramId};
pub use rule_index::{Merge, RuleIndex};
pub use storm::{StormCache, StormOptions, StormStats};
pub use traversal::{Shape, Step, Traversal, TraversalCache, Visit};

/// What a lookup returns: a rule id or the number of an action, see [`Merge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Answer(pub u32);

impl Answer {
    /// No rule matches.
    pub const NONE: Answer = Answer(u32::MAX);

    /// The cache has no answer.
    pub const MISS: Answer = Answer(u32::MAX - 1);
}
