//! The documentation of all elements, including those of the crates `elements` and `inspect`.

use warpswitch_elements::docs::{Files, find};
use warpswitch_graph::ElementDoc;

static FILES: Files = include!(concat!(env!("OUT_DIR"), "/docs.rs"));

/// The documentation of a class, see [`warpswitch_elements::docs::doc`].
pub fn doc(class: &str) -> Option<ElementDoc> {
    find(FILES, class).or_else(|| warpswitch_inspect::docs::doc(class))
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::language::ClassTable;

    #[test]
    fn synopses_name_every_class() {
        let registry = crate::registry();
        let without: Vec<&str> =
            registry.names().into_iter().filter(|name| super::doc(name).is_none()).collect();
        assert!(without.is_empty(), "no synopsis names {without:?}");
        assert_eq!(super::doc("Batcher").map(|doc| doc.area), Some("offload"));
        assert_eq!(super::doc("IDSMatcher").map(|doc| doc.area), Some("inspect"));
    }
}
