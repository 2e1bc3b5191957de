//! Elements that look packets up in tables: routes, rules and patterns. One file per element, in
//! folders by area.
#![forbid(unsafe_code)]

mod lack;
pub mod names;
mod patterns;
pub mod routes;
mod system_names;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use warpswitch_elements_support::docs::Files;
use warpswitch_graph::{ElementClass, Registry};

pub use patterns::sdn_classifier::{KEYLESS, RuleChange, SdnClassifier, frame_key};
pub use routes::{IpLookup, LookupIp6Route};

/// The documentation of these elements.
pub static DOCS: Files = include!(concat!(env!("OUT_DIR"), "/docs.rs"));

/// The classes of each area.
const AREAS: &[&[&ElementClass]] = &[patterns::CLASSES, routes::CLASSES];

/// `registry` with the classes of this crate.
pub fn register(registry: Registry) -> Registry {
    AREAS.iter().flat_map(|area| area.iter().copied()).fold(registry, Registry::with)
}

/// All classes that tests use.
#[cfg(test)]
fn registry() -> Registry {
    let others = warpswitch_elements_network::register(warpswitch_elements_standard::registry());
    testing::with_classes(register(others))
}
