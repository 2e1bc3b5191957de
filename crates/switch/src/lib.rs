//! The OpenFlow switch.
#![forbid(unsafe_code)]

pub mod learning;
