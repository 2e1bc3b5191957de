//! Elements that work with headers and flows: Ethernet, IP, NAT, sockets, OpenFlow. One
//! file per element, in folders by area.
#![forbid(unsafe_code)]

mod analysis;
mod ethernet;
#[cfg(test)]
mod gso_tests;
mod ip;
mod ip6;
mod lines;
mod nat;
mod openflow;
mod sockets;
#[cfg(test)]
mod testing;

use warpswitch_elements_support::docs::Files;
use warpswitch_graph::{ElementClass, Registry};

/// The documentation of these elements.
pub static DOCS: Files = include!(concat!(env!("OUT_DIR"), "/docs.rs"));

/// The classes of each area.
const AREAS: &[&[&ElementClass]] = &[
    ethernet::CLASSES,
    ip::CLASSES,
    ip6::CLASSES,
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
    let others = warpswitch_elements_lookup::register(warpswitch_elements_standard::registry());
    register(others)
}
