//! Elements that match packets against detection rules.
//!
//! [`IdsMatcher`] searches packets and streams itself or through another search
//! ([`IdsMatcher::searching_by`]), and uses [cached results](results) for payloads that were
//! searched before the packet arrives.
#![forbid(unsafe_code)]

mod detector;
mod ids_matcher;
pub mod results;
mod rules;

use warpswitch_elements_support::docs::Files;
use warpswitch_graph::Registry;

pub use ids_matcher::{Accepted, IdsMatcher, SearchCounts, SearchMaker, class, ids_packet};

/// The documentation of these elements.
pub static DOCS: Files = include!(concat!(env!("OUT_DIR"), "/docs.rs"));

/// `registry` with the classes of this crate.
pub fn register(registry: Registry) -> Registry {
    registry.with(&ids_matcher::CLASS)
}
