//! Elements that match packets against detection rules.
//!
//! [`IdsMatcher`] searches packets and streams itself or through another search
//! ([`IdsMatcher::searching_by`]), and uses [cached results](results) for payloads that were
//! searched before the packet arrives.
#![forbid(unsafe_code)]

mod detector;
pub mod docs;
mod ids_matcher;
pub mod results;
mod rules;

use warpswitch_graph::Registry;

pub use ids_matcher::{Accepted, IdsMatcher, SearchCounts, SearchMaker, class, ids_packet};

/// Element classes for the CPU, and those of this crate.
pub fn registry() -> Registry {
    warpswitch_elements::registry().with(&ids_matcher::CLASS)
}
