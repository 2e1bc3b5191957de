//! What commands print about configurations: warnings, statistics, traces, offload.
//!
//! `warpswitch-runtime` reads and runs configurations.

pub mod config;
pub mod offload;
pub mod stats;
pub mod trace;
