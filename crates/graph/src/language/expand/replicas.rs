//! Replaces sources that are several by one element each.

use super::super::class::ClassTable;
use super::{Connection, FlatElement, FlatGraph, PortRef};

/// Replaces each element without inputs that has replicas ([`ClassTable::replicas`]): element
/// `name` becomes `name/0`, `name/1` and so on, with the same connections.
pub(super) fn replicate(graph: FlatGraph, classes: &dyn ClassTable) -> FlatGraph {
    let has_inputs = |element: usize| graph.connections.iter().any(|c| c.to.element == element);
    let elements = graph.elements.iter().enumerate();
    let configs: Vec<Vec<String>> = elements
        .map(|(idx, element)| {
            let configs = classes.replicas(&element.class, &element.config);
            if !configs.is_empty() && has_inputs(idx) { Vec::new() } else { configs }
        })
        .collect();
    if configs.iter().all(Vec::is_empty) {
        return graph;
    }

    let mut elements = Vec::new();
    // The new indices of each element.
    let mut places = Vec::with_capacity(configs.len());
    for (element, configs) in graph.elements.into_iter().zip(configs) {
        let first = elements.len();
        if configs.is_empty() {
            elements.push(element);
        } else {
            let replica = |(number, config)| FlatElement {
                name: format!("{}/{number}", element.name),
                config,
                ..element.clone()
            };
            elements.extend(configs.into_iter().enumerate().map(replica));
        }
        places.push(first..elements.len());
    }

    let mut connections = Vec::new();
    for (connection, span) in graph.connections.into_iter().zip(graph.connection_spans) {
        let Connection { from, to } = connection;
        let to = PortRef { element: places[to.element].start, ..to };
        let from_each = places[from.element].clone().map(|element| PortRef { element, ..from });
        connections.extend(from_each.map(|from| (Connection { from, to }, span)));
    }
    connections.sort_by_key(|(connection, _)| (connection.to, connection.from));
    let (connections, connection_spans) = connections.into_iter().unzip();
    FlatGraph { elements, connections, connection_spans, ..graph }
}
