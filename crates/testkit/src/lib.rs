//! Oracles and generators for the tests of other crates; nothing here ships.
//!
//! [`suite`] is the one suite that every classifier must pass, on a CPU or on a device. It is
//! stamped on an engine with [`classifier_suite!`]:
//!
//! ```
//! # use warpswitch_classify::{Engine, build};
//! warpswitch_testkit::classifier_suite!(linear, &|rules, options| {
//!     build(Engine::Linear, rules, options)
//! });
//! # fn main() {}
//! ```
#![forbid(unsafe_code)]

pub mod dense;
pub mod random;
pub mod suite;
