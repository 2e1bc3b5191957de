//! Where packets can get to: searches along connections and through elements.
//!
//! Inside an element a packet goes from an input to the outputs that the class's flow code allows.
//! Elements that must know their neighbours ask here: a queue for the tasks to wake, a dropper for
//! the queues it looks at.

use std::collections::{BTreeMap, BTreeSet};

use super::class::{ClassTable, FlowCode};
use super::expand::{FlatGraph, PortRef};

/// A graph, prepared for searches. Cost: once over the graph; a search visits each port at most
/// once.
pub struct Flow {
    codes: Vec<FlowCode>,
    outputs: BTreeMap<PortRef, Vec<PortRef>>,
    inputs: BTreeMap<PortRef, Vec<PortRef>>,
    /// Inputs and outputs of each element, as far as they are connected.
    ports: Vec<(usize, usize)>,
}

/// One port that a search came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The port: an input downstream, an output upstream.
    pub at: PortRef,
    /// The port that it is connected to, on the way here.
    pub from: PortRef,
    /// Connections on the way, from 1.
    pub distance: usize,
}

impl Flow {
    /// Prepares `graph`. Classes that are not in the table pass packets from every input to every
    /// output.
    pub fn new(graph: &FlatGraph, classes: &dyn ClassTable) -> Self {
        let everything = FlowCode::parse("x/x").expect("it is one");
        let code = |class: &str| {
            let spec = classes.get(class);
            spec.and_then(|spec| FlowCode::parse(spec.flow_code)).unwrap_or(everything.clone())
        };
        let codes = graph.elements.iter().map(|element| code(&element.class)).collect();
        let mut flow = Self {
            codes,
            outputs: BTreeMap::new(),
            inputs: BTreeMap::new(),
            ports: vec![(0, 0); graph.elements.len()],
        };
        for connection in &graph.connections {
            let (from, to) = (connection.from, connection.to);
            flow.outputs.entry(from).or_default().push(to);
            flow.inputs.entry(to).or_default().push(from);
            let inputs = &mut flow.ports[to.element].0;
            *inputs = (*inputs).max(to.port + 1);
            let outputs = &mut flow.ports[from.element].1;
            *outputs = (*outputs).max(from.port + 1);
        }
        flow
    }

    /// The elements that packets of output `port` (none: any output) of `element` can get to, in
    /// the order in which they are found, the nearest first. `stops` is asked once for each input
    /// that is found, and ends the search there.
    pub fn downstream(
        &self,
        element: usize,
        port: Option<usize>,
        stops: impl FnMut(Visit) -> bool,
    ) -> Vec<usize> {
        self.search(element, port, true, stops)
    }

    /// The elements whose packets can get to input `port` (none: any input) of `element`; else as
    /// [`Self::downstream`], with outputs for inputs.
    pub fn upstream(
        &self,
        element: usize,
        port: Option<usize>,
        stops: impl FnMut(Visit) -> bool,
    ) -> Vec<usize> {
        self.search(element, port, false, stops)
    }

    /// The inputs that are connected to an output.
    pub fn targets(&self, output: PortRef) -> &[PortRef] {
        self.outputs.get(&output).map_or(&[], Vec::as_slice)
    }

    /// The outputs that are connected to an input.
    pub fn origins(&self, input: PortRef) -> &[PortRef] {
        self.inputs.get(&input).map_or(&[], Vec::as_slice)
    }

    /// Whether packets that enter `element` by `input` may leave it by `output`.
    pub fn leads(&self, element: usize, input: usize, output: usize) -> bool {
        self.codes.get(element).is_some_and(|code| code.leads(input, output))
    }

    fn search(
        &self,
        element: usize,
        port: Option<usize>,
        is_forward: bool,
        mut stops: impl FnMut(Visit) -> bool,
    ) -> Vec<usize> {
        let Some(&(inputs, outputs)) = self.ports.get(element) else { return Vec::new() };
        let count = if is_forward { outputs } else { inputs };
        let ports = match port {
            Some(port) => port..(port + 1).min(count.max(port)),
            None => 0..count,
        };
        let mut sources: Vec<PortRef> = ports.map(|port| PortRef { element, port }).collect();
        let mut seen = BTreeSet::new();
        let mut is_found = vec![false; self.ports.len()];
        let mut found = Vec::new();
        let mut distance = 1;
        while !sources.is_empty() {
            let mut next = Vec::new();
            for from in std::mem::take(&mut sources) {
                let reached = if is_forward { self.targets(from) } else { self.origins(from) };
                for &at in reached {
                    if !seen.insert(at) {
                        continue;
                    }
                    if !std::mem::replace(&mut is_found[at.element], true) {
                        found.push(at.element);
                    }
                    if !stops(Visit { at, from, distance }) {
                        self.through(at, is_forward, &mut next);
                    }
                }
            }
            sources = next;
            distance += 1;
        }
        found
    }

    /// Adds the ports by which packets leave (or, backward, come in) that pass port `at`.
    fn through(&self, at: PortRef, is_forward: bool, out: &mut Vec<PortRef>) {
        let (inputs, outputs) = self.ports[at.element];
        let code = &self.codes[at.element];
        let count = if is_forward { outputs } else { inputs };
        let leads = |&port: &usize| {
            if is_forward { code.leads(at.port, port) } else { code.leads(port, at.port) }
        };
        let element = at.element;
        out.extend((0..count).filter(leads).map(|port| PortRef { element, port }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{load_text, table};
    use super::*;

    #[test]
    fn searches_find_the_nearest_first() {
        let loaded = load_text(
            "far :: Idle -> near :: Null -> hub :: Hub; side :: Idle -> [1] hub;
             hub -> first :: Null -> second :: Null -> third :: Idle;
             hub [1] -> other :: Idle; hub [2] -> wall :: Idle -> Discard",
        )
        .unwrap_or_else(|errors| panic!("{errors}"));
        let graph = &loaded.graph;
        let flow = Flow::new(graph, &table());
        let n = graph.find("hub").unwrap();
        let check = |is_down: bool, port: Option<usize>, depth: usize, expected: &str| {
            let stops = |visit: Visit| visit.distance >= depth;
            let found = match is_down {
                true => flow.downstream(n, port, stops),
                false => flow.upstream(n, port, stops),
            };
            let names: Vec<&str> =
                found.iter().map(|&idx| graph.elements[idx].name.as_str()).collect();
            assert_eq!(names.join(" "), expected, "{is_down} {port:?} {depth}");
        };
        check(false, None, 1, "near side");
        check(true, None, 1, "first other wall");
        check(false, None, 2, "near side far");
        check(false, Some(0), 2, "near far");
        check(false, Some(1), 2, "side");
        check(true, Some(0), 1, "first");
        check(true, Some(1), 1, "other");
        check(true, Some(0), 99, "first second third");
        // Idle lets nothing through; ports that are not there lead nowhere.
        check(true, Some(2), 99, "wall");
        check(true, Some(7), 99, "");
        // The hub sends nothing back where it came from: up from the third, all but what enters
        // by 0.
        let up = flow.upstream(graph.find("third").unwrap(), None, |_| false);
        let names: Vec<&str> = up.iter().map(|&idx| graph.elements[idx].name.as_str()).collect();
        assert_eq!(names, ["second", "first", "hub", "side"]);
        assert!(flow.leads(n, 0, 1) && !flow.leads(n, 1, 1) && !flow.leads(99, 0, 0));
    }
}
