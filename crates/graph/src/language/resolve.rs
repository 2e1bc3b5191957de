//! How many ports each element has, and whether packets are pushed or pulled through them.
//!
//! Kinds spread from ports that are push or pull along connections, and through elements from
//! agnostic inputs to the agnostic outputs that the flow code links to them, nearest first. Where
//! push meets pull is an error. Then every push output and every pull input must be connected once,
//! and every port at least once.
//!
//! # Invariants
//! - R1: each port takes a kind at most once, so the work is bounded by ports and links; both are
//!   limited by [`WAYS_MAX`], since a port number is short to write and long to list.

use std::collections::{HashMap, HashSet, VecDeque};

use super::class::{ClassTable, FlowCode, PortCount, Processing, processing};
use super::diagnostic::{Diagnostic, Diagnostics};
use super::expand::{Connection, FlatGraph, PortRef};

/// The most ports of all elements together, and ways through them from an input to an output.
pub const WAYS_MAX: usize = 1 << 22;

/// The ports of an element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementPorts {
    /// Each input: push or pull. What is agnostic, and connected to nothing that is not, is push.
    pub inputs: Vec<Processing>,
    /// Each output.
    pub outputs: Vec<Processing>,
}

impl ElementPorts {
    /// Whether packets begin to be pushed here: nobody pushes to the element, and it pushes.
    pub fn is_push_source(&self) -> bool {
        !self.inputs.contains(&Processing::Push) && self.outputs.contains(&Processing::Push)
    }

    fn side(&self, is_output: bool) -> &[Processing] {
        if is_output { &self.outputs } else { &self.inputs }
    }

    fn side_mut(&mut self, is_output: bool) -> &mut [Processing] {
        if is_output { &mut self.outputs } else { &mut self.inputs }
    }
}

/// A link along which a kind spreads: an output and an input, of two elements or within one.
struct Link {
    from: PortRef,
    to: PortRef,
    is_inner: bool,
}

/// Finds ports and kinds of all elements of `graph`, in its order.
///
/// Cost: proportional to connections, ports and ways through elements (R1).
///
/// # Errors
/// All errors that were found.
/// # Panics
/// If a code of a class is not one: the table is code, not input.
pub fn resolve(
    graph: &FlatGraph,
    classes: &dyn ClassTable,
) -> Result<Vec<ElementPorts>, Diagnostics> {
    let mut errors = Diagnostics::default();
    let mut ports = count_ports(graph, classes, &mut errors);
    if errors.has_errors() {
        // Unknown classes and too many ports: what follows from them is not worth telling.
        return Err(errors);
    }
    let connections = in_range(graph, &ports, &mut errors);
    let mut links: Vec<Link> =
        connections.iter().map(|c| Link { from: c.from, to: c.to, is_inner: false }).collect();
    add_inner_links(graph, classes, &ports, &mut links);
    spread(&mut ports, &links);
    conflicts(graph, &ports, &links, &mut errors);
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

/// The same, shown where connection `idx` is written.
fn error_at(
    graph: &FlatGraph,
    errors: &mut Diagnostics,
    element: usize,
    connection: usize,
    message: String,
) {
    let span = graph.elements[element].landmark.span;
    let shown = graph.connection_spans.get(connection).copied();
    errors.push_with(|| {
        let error = graph.sources.error(span, message);
        match shown {
            Some(shown) => error.shown_at(&graph.sources, shown),
            None => error,
        }
    });
}

fn error(graph: &FlatGraph, errors: &mut Diagnostics, element: usize, message: String) {
    let span = graph.elements[element].landmark.span;
    errors.push_with(|| graph.sources.error(span, message));
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
    let mut ways = 0usize;
    for (idx, (element, (inputs, outputs))) in graph.elements.iter().zip(used).enumerate() {
        let Some(spec) = classes.get(&element.class) else {
            let message = format!("unknown element class '{}'", element.class);
            error(graph, errors, idx, message);
            all.push(ElementPorts::default());
            continue;
        };
        // The table is code: what it says of a class must make sense.
        let bad = || -> ! { panic!("bad codes of element class {}: {spec:?}", spec.name) };
        let count = PortCount::parse(spec.port_count).unwrap_or_else(|| bad());
        let (inputs, outputs) = count.ports(inputs, outputs);
        ways = ways.saturating_add(inputs + outputs + inputs * outputs);
        if ways > WAYS_MAX {
            let declaration = element.declaration();
            error(graph, errors, idx, format!("'{declaration}' has too many ports"));
            all.resize(graph.elements.len(), ElementPorts::default());
            return all;
        }
        let (inputs, outputs) =
            processing(spec.processing, inputs, outputs).unwrap_or_else(|| bad());
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
    let mut has_all = |idx: usize, port: PortRef, is_output: bool| {
        let is_there = port.port < ports[port.element].side(is_output).len();
        if !is_there {
            let what = if is_output { "output" } else { "input" };
            let declaration = graph.elements[port.element].declaration();
            let message = format!("'{declaration}' has no {what} {}", port.port);
            error_at(graph, errors, port.element, idx, message);
        }
        is_there
    };
    let mut is_there = |(idx, c): &(usize, &Connection)| {
        let (from, to) = (has_all(*idx, c.from, true), has_all(*idx, c.to, false));
        from && to
    };
    let connections = graph.connections.iter().enumerate();
    connections.filter(|c| is_there(c)).map(|(_, c)| *c).collect()
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
            }));
        }
    }
}

/// Gives agnostic ports the kind of the nearest port that has one.
fn spread(ports: &mut [ElementPorts], links: &[Link]) {
    // The links at each output and at each input, by index.
    let mut at: [HashMap<PortRef, Vec<usize>>; 2] = Default::default();
    for (idx, link) in links.iter().enumerate() {
        at[0].entry(link.to).or_default().push(idx);
        at[1].entry(link.from).or_default().push(idx);
    }
    let ends = links.iter().flat_map(|link| [(link.from, true), (link.to, false)]);
    let has_kind = |&(port, is_output): &(PortRef, bool)| {
        ports[port.element].side(is_output)[port.port] != Processing::Agnostic
    };
    let mut is_queued = HashSet::new();
    let mut queue: VecDeque<_> =
        ends.filter(has_kind).filter(|&end| is_queued.insert(end)).collect();
    while let Some((port, is_output)) = queue.pop_front() {
        let kind = ports[port.element].side(is_output)[port.port];
        for &idx in at[usize::from(is_output)].get(&port).into_iter().flatten() {
            let other = if is_output { links[idx].to } else { links[idx].from };
            let other_kind = &mut ports[other.element].side_mut(!is_output)[other.port];
            if *other_kind == Processing::Agnostic {
                *other_kind = kind;
                // It takes its kind along what else leads to it.
                queue.push_back((other, !is_output));
            }
        }
    }
}

fn conflicts(graph: &FlatGraph, ports: &[ElementPorts], links: &[Link], errors: &mut Diagnostics) {
    for link in links {
        let from = ports[link.from.element].outputs[link.from.port];
        let to = ports[link.to.element].inputs[link.to.port];
        let is_sound = from == to || from == Processing::Agnostic || to == Processing::Agnostic;
        if !is_sound {
            errors.push_with(|| conflict(graph, link, from == Processing::Push));
        }
    }
}

fn conflict(graph: &FlatGraph, link: &Link, from_is_push: bool) -> Diagnostic {
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
    found.without_landmark()
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
