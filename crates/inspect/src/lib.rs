//! Elements that look for the rules of detection in packets.
//!
//! [`IdsMatcher`] searches texts of packets and streams itself, or where it is told to
//! ([`IdsMatcher::searching_by`]), and uses [cached results](results) for payloads that were
//! searched before the packet came.
#![forbid(unsafe_code)]

mod detector;
pub mod docs;
mod ids_matcher;
pub mod results;
mod rules;

use warpswitch_graph::Registry;

pub use ids_matcher::{Accepted, IdsMatcher, SearchCounts, SearchMaker, class, ids_packet};

/// The classes of the elements on the CPU and of this crate.
pub fn registry() -> Registry {
    warpswitch_elements::registry().with(&ids_matcher::CLASS)
}
