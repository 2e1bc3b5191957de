//! Packet classification: batches of flow keys in, ids of the winning rules out.
//!
//! Every engine implements [`Classifier`] and answers exactly as `warpswitch_rules::linear` does.
//! [`Engine`] names them; [`build`] makes one from a rule set within a memory bound.
//!
//! | engine | structure | changes |
//! | --- | --- | --- |
//! | `linear` | the rules in order, one by one: the reference | rebuild |
//! | `linear-simd` | the same, 16 rules at once | rebuild |
//! | `tuple` | a cuckoo hash table per mask | in place |
//! | `bloom` | the same behind a Bloom filter per mask | in place |
//! | `maskhash` | open addressing per mask, in order of the smallest rule index | in place |
//! | `hypercuts` | a decision tree that cuts several fields at once | rebuild |
//! | `turbo` | bucket tables walked for a batch at a time, leaves compared with SIMD | in place |
#![deny(unsafe_op_in_unsafe_fn)]

mod arch;
mod bloom;
mod classifier;
mod error;
mod hash;
pub mod hypercuts;
mod index;
mod left_right;
mod linear;
mod linear_simd;
mod maskhash;
mod rebuild;
mod store;
mod tuple;
mod turbo;

/// What engines outside of this crate are made from: the rules as a writer knows them, versions
/// that are swapped whole, random numbers for hashes, and the shape that `turbo` gives a set.
pub mod parts {
    pub use crate::hash::SeedStream;
    pub use crate::index::{Index, TooLarge};
    pub use crate::rebuild::Rebuild;
    pub use crate::store::RuleStore;
    pub use crate::turbo::plan::{Plan, PlanNode, PlanTable};
}

pub use classifier::{BuildOptions, Classifier, Detail, Engine, Refused, RuleChange, build};
pub use error::{ClassifyError, ErrorKind};
