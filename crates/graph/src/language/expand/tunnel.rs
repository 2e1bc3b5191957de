//! Wires through the borders of compounds and groups are joined.
//!
//! Each wire that leaves an element is followed through gates to every element it reaches. A gate
//! port that is wired on one side alone is an error, told in terms of the compound: what is used
//! outside and not there within, or the other way round. Wires in a circle of gates reach nobody.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::diagnostic::Diagnostics;
use super::super::source::{SourceMap, Span};
use super::instantiate::{Flat, Kind, Node};
use super::{CONNECTIONS_MAX, Connection, FlatElement, PortRef};

/// The most steps through gates, all wires together.
const STEPS_MAX: usize = 1 << 24;

/// What is wired to a port of a gate.
#[derive(Default)]
struct GatePort {
    is_entered: bool,
    /// Where one of its wires is written.
    span: Span,
    leads_to: Vec<(u32, u32)>,
}

pub(super) fn join(
    flat: Flat,
    sources: &SourceMap,
    errors: &mut Diagnostics,
) -> (Vec<FlatElement>, Vec<(Connection, Span)>) {
    let nodes = &flat.nodes;
    let enter = |(node, port): (u32, u32)| match nodes[node as usize].kind {
        Kind::Compound { enter, .. } => (enter, port),
        _ => (node, port),
    };
    let leave = |(node, port): (u32, u32)| match nodes[node as usize].kind {
        Kind::Compound { leave, .. } => (leave, port),
        _ => (node, port),
    };
    let wires: Vec<_> = flat.wires.iter().map(|w| (leave(w.from), enter(w.to), w.span)).collect();
    let is_gate = |node: u32| matches!(nodes[node as usize].kind, Kind::Gate { .. });
    let mut gates: BTreeMap<(u32, u32), GatePort> = BTreeMap::new();
    for &(from, to, span) in &wires {
        if is_gate(from.0) {
            let gate = gates.entry(from).or_insert(GatePort { span, ..GatePort::default() });
            gate.leads_to.push(to);
        }
        if is_gate(to.0) {
            let gate = gates.entry(to).or_insert(GatePort { span, ..GatePort::default() });
            gate.is_entered = true;
        }
    }
    check_gates(nodes, &gates, sources, errors);
    let index = element_indices(nodes);
    let mut connections = Vec::new();
    let mut steps = 0;
    for &(from, to, span) in wires.iter().filter(|(from, ..)| index.contains_key(&from.0)) {
        let before = connections.len();
        follow(to, &gates, &mut steps, |(node, port)| {
            if let Some(&element) = index.get(&node) {
                let from = PortRef { element: index[&from.0], port: from.1 as usize };
                let to = PortRef { element, port: port as usize };
                connections.push((Connection { from, to }, span));
            }
        });
        if connections.len() > CONNECTIONS_MAX || steps > STEPS_MAX {
            connections.truncate(before);
            let span = nodes[from.0 as usize].span;
            let message =
                format!("the configuration expands to more than {CONNECTIONS_MAX} connections");
            errors.push(sources.error(span, message));
            break;
        }
    }
    connections.sort_by_key(|(c, _)| (c.to, c.from));
    connections.dedup_by_key(|(c, _)| *c);
    (elements(flat.nodes, sources), connections)
}

/// Calls `reached` for every element port that is wired to `start` through gates.
fn follow(
    start: (u32, u32),
    gates: &BTreeMap<(u32, u32), GatePort>,
    steps: &mut usize,
    mut reached: impl FnMut((u32, u32)),
) {
    let mut stack = vec![start];
    let mut seen = HashSet::new();
    while let Some(place) = stack.pop() {
        *steps += 1;
        if *steps > STEPS_MAX {
            return;
        }
        match gates.get(&place) {
            None => reached(place),
            Some(_) if !seen.insert(place) => {}
            Some(gate) => stack.extend(&gate.leads_to),
        }
    }
}

fn check_gates(
    nodes: &[Node],
    gates: &BTreeMap<(u32, u32), GatePort>,
    sources: &SourceMap,
    errors: &mut Diagnostics,
) {
    for (&(node, port), gate) in gates {
        let Node { kind: Kind::Gate { owner, is_input }, span, .. } = &nodes[node as usize] else {
            continue;
        };
        let message = match (gate.is_entered, gate.leads_to.is_empty(), is_input) {
            (true, true, true) => format!("'{owner}' has no input {port}"),
            (false, false, true) => format!("'{owner}' input {port} unused"),
            (true, true, false) => format!("'{owner}' output {port} unused"),
            (false, false, false) => format!("'{owner}' has no output {port}"),
            _ => continue,
        };
        errors.push_with(|| {
            let error = sources.error(*span, message);
            // What is used from outside is wrong there.
            let is_outside = gate.is_entered == *is_input;
            if is_outside { error.shown_at(sources, gate.span) } else { error }
        });
    }
}

/// Index of each element among elements alone.
fn element_indices(nodes: &[Node]) -> HashMap<u32, usize> {
    let elements = (0u32..).zip(nodes).filter(|(_, node)| matches!(node.kind, Kind::Element(_)));
    elements.enumerate().map(|(idx, (node, _))| (node, idx)).collect()
}

fn elements(nodes: Vec<Node>, sources: &SourceMap) -> Vec<FlatElement> {
    let element = |node: Node| match node.kind {
        Kind::Element(class) => {
            let Node { name, config, config_span, span, .. } = node;
            let landmark = sources.landmark(span);
            Some(FlatElement { name, class, config, config_span, landmark })
        }
        _ => None,
    };
    nodes.into_iter().filter_map(element).collect()
}
