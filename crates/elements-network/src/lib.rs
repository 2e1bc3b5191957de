//! Elements that work with headers and flows: Ethernet, IP, rules and routes, NAT, OpenFlow. One
//! file per element, in folders by area.
#![forbid(unsafe_code)]

mod analysis;
mod copies;
mod ethernet;
#[cfg(test)]
mod gso_tests;
mod ip;
mod ip6;
mod lack;
mod lines;
mod nat;
mod openflow;
mod patterns;
mod route_file;
pub mod route_lookup;
mod sockets;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use warpswitch_elements_support::docs::Files;
use warpswitch_graph::{ElementClass, Registry};

pub use ip::ip_lookup::IpLookup;
pub use ip6::lookup_ip6_route::LookupIp6Route;
pub use patterns::sdn_classifier::{KEYLESS, RuleChange, SdnClassifier, frame_key};

/// The documentation of these elements.
pub static DOCS: Files = include!(concat!(env!("OUT_DIR"), "/docs.rs"));

/// The classes of each area.
const AREAS: &[&[&ElementClass]] = &[
    ethernet::CLASSES,
    ip::CLASSES,
    ip6::CLASSES,
    patterns::CLASSES,
    nat::CLASSES,
    sockets::CLASSES,
    openflow::CLASSES,
    analysis::CLASSES,
];

/// `registry` with the classes of this crate.
pub fn register(registry: Registry) -> Registry {
    AREAS.iter().flat_map(|area| area.iter().copied()).fold(registry, Registry::with)
}

/// All classes that tests use.
#[cfg(test)]
fn registry() -> Registry {
    register(warpswitch_elements_standard::registry())
}
