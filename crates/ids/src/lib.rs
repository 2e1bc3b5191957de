//! Intrusion detection: rules in the language of Snort and Suricata, flows whose streams are put
//! together, and alerts.
//!
//! ```text
//! rule text ─► Rules ─► Engine: a scanner for each protocol, rules behind their fast patterns
//!                          │
//! packets ─► decode ─► flows, streams ─► windows ─► scan ─► candidates ─► confirm ─► alerts ─► EVE
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | [`text`] | rule files: what is read, what is refused, and what is left out by keyword |
//! | [`rule`] | a rule, as the engine sees it |
//! | [`bytes`] | numbers that a payload holds, and variables |
//! | [`flowbits`] | what rules remember of a flow |
//! | [`threshold`] | how often a rule is told |
//! | [`http`] | messages of HTTP/1 in streams, and their buffers |
//! | [`engine`] | rules in groups, searched by [`warpswitch_scan`] and confirmed |
//! | [`inspect`] | packets in, alerts out: flows, TCP streams, and counters of all that was left |
//! | [`stateless`] | packets one by one: no flows, no streams, no counts between packets |
//! | [`eve`] | alerts and counters as JSON lines |
//! | [`naive`] | the reference: every rule on every text |
//!
//! # Invariants
//! - N1: any bytes are rules or diagnostics, any packets are inspected or counted by a reason;
//!   nothing panics, and memory is bounded by the limits that each module names.
//! - N2: what the engine finds is what [`naive`] finds, as long as no bound was met; where one was,
//!   a counter says so.
//! - N3: the same rules and packets give the same alerts, in the same order, on any machine,
//!   however the packets are cut into batches.
#![forbid(unsafe_code)]

mod addresses;
pub mod bytes;
mod confirm;
mod decode;
pub mod engine;
pub mod eve;
pub mod flowbits;
mod flows;
mod fragments;
mod gates;
pub mod http;
pub mod inspect;
mod messages;
pub mod naive;
mod ranges;
pub mod rule;
pub mod stateless;
mod stream;
pub mod text;
pub mod threshold;

#[cfg(test)]
mod tests;

pub use engine::{Engine, GROUPS};
pub use inspect::{
    Alert, Found, Inspector, InspectorOptions, OddBound, Packet, PayloadPlace, Search, SearchWork,
    captured_payload, payload, payload_place,
};
pub use rule::{Rule, Rules};
pub use stateless::{
    BatchPacket, StatelessEngine, StatelessMatches, StatelessOptions, StatelessScratch,
    StatelessStats,
};
pub use text::{RuleText, Variables, read_rules};
