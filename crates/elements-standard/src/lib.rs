//! Elements that work with packets of any kind, or with none: queues, schedulers, captures and
//! interfaces, control of a run. One file per element, in folders by area.
//!
//! They depend on no table and on no protocol but those of links.
#![forbid(unsafe_code)]

mod bursts;
mod capture;
mod control;
mod paint;
mod rate;
mod standard;

use warpswitch_elements_support::docs::Files;
use warpswitch_graph::{ElementClass, Registry};

/// The documentation of these elements.
pub static DOCS: Files = include!(concat!(env!("OUT_DIR"), "/docs.rs"));

/// The classes of each area.
const AREAS: &[&[&ElementClass]] =
    &[standard::CLASSES, paint::CLASSES, capture::CLASSES, control::CLASSES];

/// The classes of this crate.
pub fn registry() -> Registry {
    Registry::new(AREAS.iter().flat_map(|area| area.iter().copied()))
}
