//! How many ports each element has, and whether packets are pushed or pulled through them.
//!
//! Kinds spread from ports that are push or pull along connections, and through elements from
//! agnostic inputs to the agnostic outputs that the flow code links to them, until nothing changes.
//! What meets its opposite is an error. Then every push output and every pull input must be
//! connected once, and every port at least once.

use super::class::{ClassTable, FlowCode, PortCount, Processing, processing};
use super::diagnostic::Diagnostics;
use super::expand::{Connection, FlatGraph, PortRef};

/// The ports of an element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementPorts {
    /// Each input: push or pull. What is agnostic, and connected to nothing that is not, is push.
    pub inputs: Vec<Processing>,
    /// Each output.
    pub outputs: Vec<Processing>,
}

impl ElementPorts {
    fn side(&self, is_output: bool) -> &[Processing] {
        if is_output { &self.outputs } else { &self.inputs }
    }
}

/// A link along which a kind spreads: an output and an input, of two elements or within one.
struct Link {
    from: PortRef,
    to: PortRef,
    is_inner: bool,
    is_broken: bool,
}

/// Finds ports and kinds of all elements of `graph`, in its order.
///
/// Cost: links times the longest row of agnostic elements, at worst; usually a few passes.
///
/// # Errors
/// All errors that were found.
pub fn resolve(
    graph: &FlatGraph,
    classes: &dyn ClassTable,
) -> Result<Vec<ElementPorts>, Diagnostics> {
    let mut errors = Diagnostics::default();
    let mut ports = count_ports(graph, classes, &mut errors);
    let connections = in_range(graph, &ports, &mut errors);
    let mut links: Vec<Link> = connections
        .iter()
        .map(|c| Link { from: c.from, to: c.to, is_inner: false, is_broken: false })
        .collect();
    add_inner_links(graph, classes, &ports, &mut links);
    spread(graph, &mut ports, &mut links, &mut errors);
    for element in &mut ports {
        for port in element.inputs.iter_mut().chain(&mut element.outputs) {
            if *port == Processing::Agnostic {
                *port = Processing::Push;
            }
        }
    }
    check_use(graph, &ports, &mut errors);
    let mut in_order = Diagnostics::default();
    in_order.append(errors);
    in_order.into_result(ports)
}

fn error(graph: &FlatGraph, errors: &mut Diagnostics, element: usize, message: String) {
    if errors.wants_more() {
        let span = graph.elements[element].landmark.span;
        errors.push(graph.sources.error(span, message));
    } else {
        errors.count_only();
    }
}

fn count_ports(
    graph: &FlatGraph,
    classes: &dyn ClassTable,
    errors: &mut Diagnostics,
) -> Vec<ElementPorts> {
    let mut used = vec![(0, 0); graph.elements.len()];
    for Connection { from, to } in &graph.connections {
        let outputs = &mut used[from.element].1;
        *outputs = (*outputs).max(from.port + 1);
        let inputs = &mut used[to.element].0;
        *inputs = (*inputs).max(to.port + 1);
    }
    let mut all = Vec::with_capacity(used.len());
    for (idx, (element, (inputs, outputs))) in graph.elements.iter().zip(used).enumerate() {
        let Some(spec) = classes.get(&element.class) else {
            let message = format!("unknown element class '{}'", element.class);
            error(graph, errors, idx, message);
            all.push(ElementPorts::default());
            continue;
        };
        let found = PortCount::parse(spec.port_count).and_then(|count| {
            let (inputs, outputs) = count.ports(inputs, outputs);
            processing(spec.processing, inputs, outputs)
        });
        // The table is code: what it says of a class must make sense.
        let (inputs, outputs) =
            found.unwrap_or_else(|| panic!("bad codes of element class {}: {spec:?}", spec.name));
        all.push(ElementPorts { inputs, outputs });
    }
    all
}

/// The connections whose ports exist; others are told.
fn in_range(
    graph: &FlatGraph,
    ports: &[ElementPorts],
    errors: &mut Diagnostics,
) -> Vec<Connection> {
    let mut has_all = |port: PortRef, is_output: bool| {
        let is_there = port.port < ports[port.element].side(is_output).len();
        if !is_there {
            let what = if is_output { "output" } else { "input" };
            let declaration = graph.elements[port.element].declaration();
            let message = format!("'{declaration}' has no {what} {}", port.port);
            error(graph, errors, port.element, message);
        }
        is_there
    };
    let mut is_there = |c: &&Connection| {
        let (from, to) = (has_all(c.from, true), has_all(c.to, false));
        from && to
    };
    graph.connections.iter().filter(|c| is_there(c)).copied().collect()
}

fn add_inner_links(
    graph: &FlatGraph,
    classes: &dyn ClassTable,
    ports: &[ElementPorts],
    links: &mut Vec<Link>,
) {
    for (element, (flat, ports)) in graph.elements.iter().zip(ports).enumerate() {
        let code = classes.get(&flat.class).map_or("x/x", |spec| spec.flow_code);
        let flow = FlowCode::parse(code).unwrap_or_else(|| panic!("bad flow code '{code}'"));
        let agnostic = |side: &[Processing]| -> Vec<usize> {
            let ports = side.iter().enumerate();
            ports.filter(|(_, p)| **p == Processing::Agnostic).map(|(port, _)| port).collect()
        };
        let outputs = agnostic(&ports.outputs);
        for input in agnostic(&ports.inputs) {
            let linked = outputs.iter().filter(|&&output| flow.leads(input, output));
            links.extend(linked.map(|&output| Link {
                from: PortRef { element, port: output },
                to: PortRef { element, port: input },
                is_inner: true,
                is_broken: false,
            }));
        }
    }
}

fn spread(
    graph: &FlatGraph,
    ports: &mut [ElementPorts],
    links: &mut [Link],
    errors: &mut Diagnostics,
) {
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for link in links.iter_mut().filter(|link| !link.is_broken) {
            let from = ports[link.from.element].outputs[link.from.port];
            let to = ports[link.to.element].inputs[link.to.port];
            match (from, to) {
                (from, to) if from == to => {}
                (Processing::Agnostic, to) => {
                    ports[link.from.element].outputs[link.from.port] = to;
                    has_changed = true;
                }
                (from, Processing::Agnostic) => {
                    ports[link.to.element].inputs[link.to.port] = from;
                    has_changed = true;
                }
                (from, _) => {
                    link.is_broken = true;
                    conflict(graph, link, from == Processing::Push, errors);
                }
            }
        }
    }
}

fn conflict(graph: &FlatGraph, link: &Link, from_is_push: bool, errors: &mut Diagnostics) {
    let (from_kind, to_kind) = if from_is_push { ("push", "pull") } else { ("pull", "push") };
    let from = graph.elements[link.from.element].declaration();
    let to = graph.elements[link.to.element].declaration();
    let (output, input) = (link.from.port, link.to.port);
    let span = graph.elements[link.from.element].landmark.span;
    let found = if link.is_inner {
        let message = format!(
            "agnostic '{from}' in mixed context: {to_kind} input {input}, \
             {from_kind} output {output}"
        );
        graph.sources.error(span, message)
    } else {
        let message = format!(
            "'{from}' {from_kind} output {output} connected to '{to}' {to_kind} input {input}"
        );
        let place = graph.elements[link.to.element].landmark.clone();
        let error = graph.sources.error(span, message);
        let help = if from_is_push { "a Queue" } else { "an Unqueue" };
        error
            .note(Some(place), format!("'{to}' is declared here"))
            .help(format!("{help} turns {from_kind} into {to_kind}"))
    };
    errors.push(found.without_landmark());
}

/// Each push output and pull input is connected once, each other port at least once. What is
/// connected to a port that does not exist counts as used: one error is enough.
fn check_use(graph: &FlatGraph, ports: &[ElementPorts], errors: &mut Diagnostics) {
    for is_output in [false, true] {
        let count = |element: &ElementPorts| vec![0u32; element.side(is_output).len()];
        let mut used: Vec<Vec<u32>> = ports.iter().map(count).collect();
        for connection in &graph.connections {
            let port = if is_output { connection.from } else { connection.to };
            if let Some(times) = used[port.element].get_mut(port.port) {
                *times += 1;
            }
        }
        let alone = if is_output { Processing::Push } else { Processing::Pull };
        let (what, kind) =
            if is_output { ("output", "push output") } else { ("input", "pull input") };
        for (idx, (used, element)) in used.iter().zip(ports).enumerate() {
            let declaration = graph.elements[idx].declaration();
            for (port, (&times, &processing)) in
                used.iter().zip(element.side(is_output)).enumerate()
            {
                if times == 0 {
                    error(graph, errors, idx, format!("'{declaration}' {what} {port} unused"));
                } else if times > 1 && processing == alone {
                    let message = format!("illegal reuse of '{declaration}' {kind} {port}");
                    error(graph, errors, idx, message);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
