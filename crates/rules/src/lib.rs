//! The rule model: field schemas, flow keys, rules and rule sets, and the linear reference that
//! defines what classification means.
//!
//! A [`schema::Schema`] says which header fields a flow key holds and where. A [`Rule`] demands
//! bits under masks, and port ranges, of such a key; a [`Ruleset`] is an immutable list of rules.
//! The rule that wins is the one with the largest priority, at a tie the one with the lowest id.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod diagnostic;
pub mod expand;
pub mod extract;
pub mod format;
pub mod generate;
pub mod key;
pub mod linear;
pub mod matching;
pub mod openflow;
pub mod rule;
pub mod ruleset;
pub mod schema;

pub use key::{KeyBatch, KeyBuf};
pub use matching::{Match, MatchKind, MatchRef, PortRange};
pub use rule::{Action, FlagsColumn, Precedence, Rule, RuleId, RuleRef};
pub use ruleset::{Ruleset, RulesetBuilder};
pub use schema::{Field, Schema};
