//! The standard elements: one file each, in folders by area.
//!
//! An element's documentation has fixed headings, which `cargo xtask tidy` checks: *Synopsis*,
//! *Ports*, *Configuration*, *Handlers*, *Drops*, *Threads*, *Example*. Names, arguments, port
//! counts, handlers and units are Click's.
#![forbid(unsafe_code)]

mod analysis;
mod anno;
mod bucket;
mod bursts;
pub mod cached;
mod calls;
mod capture;
mod control;
mod copies;
mod digits;
pub mod docs;
mod ethernet;
mod format;
#[cfg(test)]
mod gso_tests;
mod ip;
mod ip6;
mod lack;
mod lines;
mod nat;
mod openflow;
mod outputs;
mod pacer;
mod paint;
mod patterns;
mod rate;
mod route_file;
pub mod route_lookup;
mod sockets;
mod standard;
pub mod support;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use ip::ip_lookup::IpLookup;
pub use ip6::lookup_ip6_route::LookupIp6Route;
pub use patterns::sdn_classifier::{KEYLESS, RuleChange, SdnClassifier, frame_key};
use warpswitch_graph::{ElementClass, Registry};

/// All classes, by area.
const AREAS: &[&[&ElementClass]] = &[
    standard::CLASSES,
    ethernet::CLASSES,
    paint::CLASSES,
    ip::CLASSES,
    ip6::CLASSES,
    patterns::CLASSES,
    nat::CLASSES,
    capture::CLASSES,
    sockets::CLASSES,
    openflow::CLASSES,
    analysis::CLASSES,
    control::CLASSES,
];

/// All classes of this crate.
pub fn registry() -> Registry {
    Registry::new(AREAS.iter().flat_map(|area| area.iter().copied()))
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::language::{ClassTable, FlowCode, PortCount};

    /// The language takes codes of classes for right.
    #[test]
    fn every_class_has_codes_that_can_be_read() {
        let registry = super::registry();
        for name in registry.names() {
            let spec = registry.get(name).expect("it was named");
            assert!(PortCount::parse(spec.port_count).is_some(), "{name}: {}", spec.port_count);
            assert!(FlowCode::parse(spec.flow_code).is_some(), "{name}: {}", spec.flow_code);
        }
    }
}
