//! All elements that need no GPU and no detection.
//!
//! | crate | elements |
//! | --- | --- |
//! | `elements-standard` | packets of any kind: queues, schedulers, captures, control |
//! | `elements-lookup` | lookups in tables: routes, rules, patterns |
//! | `elements-network` | headers and flows: Ethernet, IP, NAT, sockets, OpenFlow |
//!
//! An element's documentation has fixed headings, which `cargo xtask tidy` checks: *Synopsis*,
//! *Ports*, *Configuration*, *Handlers*, *Drops*, *Threads*, *Example*. Names, arguments, port
//! counts, handlers and units are Click's.
#![forbid(unsafe_code)]

use warpswitch_elements_support::docs::find;
use warpswitch_graph::{ElementDoc, Registry};

/// All classes.
pub fn registry() -> Registry {
    let registry = warpswitch_elements_lookup::register(warpswitch_elements_standard::registry());
    warpswitch_elements_network::register(registry)
}

/// The documentation of the class called `class`.
///
/// Cost: reads the texts, some 300 KB.
pub fn doc(class: &str) -> Option<ElementDoc> {
    let all = [
        warpswitch_elements_standard::DOCS,
        warpswitch_elements_lookup::DOCS,
        warpswitch_elements_network::DOCS,
    ];
    all.into_iter().find_map(|files| find(files, class))
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::language::{ClassTable, FlowCode, PortCount};

    /// The language relies on the codes of classes being valid.
    #[test]
    fn every_class_has_valid_codes() {
        let registry = super::registry();
        for name in registry.names() {
            let spec = registry.get(name).expect("it was named");
            assert!(PortCount::parse(spec.port_count).is_some(), "{name}: {}", spec.port_count);
            assert!(FlowCode::parse(spec.flow_code).is_some(), "{name}: {}", spec.flow_code);
        }
    }

    #[test]
    fn every_class_has_documentation_that_names_it() {
        let registry = super::registry();
        let without: Vec<&str> =
            registry.names().into_iter().filter(|name| super::doc(name).is_none()).collect();
        assert!(without.is_empty(), "no synopsis names {without:?}");
        let counter = super::doc("Counter").expect("it exists");
        assert_eq!(counter.area, "standard");
        assert!(counter.text.contains("COUNT_CALL") && !counter.summary().is_empty());
        assert_eq!(super::doc("Nothing"), None);
    }
}
