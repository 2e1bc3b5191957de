//! `turbo`: the engine for speed, and the default.
//!
//! ```text
//! 256 keys ─► table under mask 0 ─► table under mask 1 ─► … ─► tail
//!                │ bucket              │ bucket                 │
//!                └─► leaf, or cut      └─► …                    └─► leaf, or cut
//!                          └─► leaf                                       └─► leaf, or one more
//! ```
//! Rules lie in *leaves*, in one of two layouts: *lanes*, four rules in two cache lines that two
//! instructions compare with a key, or *columns*, a part of sixteen rules in one vector (`leaf`).
//! A leaf is reached through a hash *table* (every rule in it examines all bits of the table's
//! mask) or through a *cut* (the values of a few bits, of any fields, are the index of a cell). A
//! set whose rules are specific enough is one cut, so that a key costs two dependent loads and one
//! comparison; a larger set is a chain of tables with a cut for the few rules that no table holds.
//!
//! Keys are taken through each step together, 256 at a time. A step has no branch that depends on a
//! key: what must be visited is appended to lists, so loads of different keys overlap, nothing is
//! mispredicted, and a bucket's filter and order (a bound on how its rules rank) save most visits
//! that cannot win.
//!
//! Bytes per key: 16 to 64 of the key, 4 of a cell or 8 of a bucket, then of one leaf 256 bytes
//! (lanes: the first eight rules, which hold the winner for nine keys in ten and more) or 24 a rule
//! (columns, IPv4).
//!
//! # Invariants
//! - T1: a rule lies in exactly one table's bucket, or the tail; below it, in every cell that it
//!   overlaps. So on a key's way it lies in one leaf at most.
//! - T2: the rows of a leaf are in order of precedence; the first that matches is the leaf's best.
//! - T3: a leaf, once referred to, never changes; see `change` for how rules come and go, and `log`
//!   for why every lookup sees one set of rules.
//! - T4: an entry's filter and order allow every rule below it: they are widened before a rule
//!   comes, and kept when it goes.
//!
//! # Why not a deeper tree
//! A comparison with sixteen rules costs about ten cycles, a level of a tree as much, and a branch
//! that is mispredicted twice that. So trees are shallow and leaves wide.
//!
//! # Source
//! The parts are old: tuple space search (Srinivasan et al., 1999) with coarsened masks
//! (TupleMerge, Daly et al., 2019), bit selection (BitCuts, 2018), wide leaves. What is ours is
//! how they are put together for batches and vectors.

pub(crate) mod arena;
mod build;
mod change;
mod choose;
mod cut;
mod edit;
mod engine;
pub(crate) mod leaf;
mod list;
mod log;
pub(crate) mod plan;
pub(crate) mod rows;
mod state;
mod tail;

pub(crate) use engine::Turbo;
