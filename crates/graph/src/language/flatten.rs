//! A flat graph as text: what Click's `flatconfig` handler prints.
//!
//! ```text
//! require(package fastclassifier);
//!
//! src :: InfiniteSource(LIMIT 5);
//! c/n@1 :: Null;
//!
//! src -> c/n@1
//!     -> [1] sink;
//! ```
//! Connections are joined into chains through ports 0: each that enters an element by input 0 is
//! followed by one that leaves it by output 0, if there is one, best one that enters the next by
//! input 0 too. The text reads back as the same graph, provided that parentheses balance in each
//! configuration string.

use std::collections::HashMap;
use std::fmt::Write;

use super::args::split::quote;
use super::expand::{Connection, FlatGraph, PortRef};

/// The text of `graph`. Cost: proportional to it.
pub fn flatten(graph: &FlatGraph) -> String {
    let mut out = String::new();
    write(graph, &mut out).expect("a String takes every write");
    out
}

fn write(graph: &FlatGraph, out: &mut String) -> std::fmt::Result {
    if !graph.requirements.is_empty() {
        let requirement = |r: &super::ast::Requirement| match r.value.as_str() {
            "" => r.kind.clone(),
            value => format!("{} {}", r.kind, quote(value.as_bytes())),
        };
        let all: Vec<String> = graph.requirements.iter().map(requirement).collect();
        writeln!(out, "require({});\n", all.join(", "))?;
    }
    for element in &graph.elements {
        write!(out, "{} :: {}", element.name, element.class)?;
        if !element.config.is_empty() {
            write!(out, "({})", element.config)?;
        }
        out.push_str(";\n");
    }
    if !graph.elements.is_empty() {
        out.push('\n');
    }
    let next = successors(&graph.connections);
    let mut starts = vec![true; next.len()];
    next.iter().flatten().for_each(|&follower| starts[follower] = false);
    let mut is_written = vec![false; next.len()];
    for idx in (0..next.len()).filter(|&idx| starts[idx]) {
        write_chain(graph, &next, &mut is_written, idx, out)?;
    }
    // What is left goes in circles, or was joined to a chain that another got first.
    for idx in 0..next.len() {
        if !is_written[idx] {
            write_chain(graph, &next, &mut is_written, idx, out)?;
        }
    }
    Ok(())
}

/// Which connection may follow each in a chain.
fn successors(connections: &[Connection]) -> Vec<Option<usize>> {
    let mut leaving: HashMap<usize, (usize, bool)> = HashMap::new();
    for (idx, connection) in connections.iter().enumerate() {
        if connection.from.port == 0 {
            let is_best = connection.to.port == 0;
            let entry = leaving.entry(connection.from.element).or_insert((idx, is_best));
            // The first that is best, else the last.
            if !entry.1 {
                *entry = (idx, is_best);
            }
        }
    }
    let follower = |(idx, connection): (usize, &Connection)| {
        let PortRef { element, port } = connection.to;
        let &(next, _) = leaving.get(&element).filter(|_| port == 0)?;
        (next != idx).then_some(next)
    };
    connections.iter().enumerate().map(follower).collect()
}

fn write_chain(
    graph: &FlatGraph,
    next: &[Option<usize>],
    is_written: &mut [bool],
    start: usize,
    out: &mut String,
) -> std::fmt::Result {
    let from = graph.connections[start].from;
    out.push_str(&graph.elements[from.element].name);
    if from.port > 0 {
        write!(out, " [{}]", from.port)?;
    }
    let mut arrow = " -> ";
    let mut at = Some(start);
    while let Some(idx) = at.filter(|&idx| !is_written[idx]) {
        is_written[idx] = true;
        let to = graph.connections[idx].to;
        out.push_str(arrow);
        if to.port > 0 {
            write!(out, "[{}] ", to.port)?;
        }
        out.push_str(&graph.elements[to.element].name);
        arrow = "\n    -> ";
        at = next[idx];
    }
    out.push_str(";\n");
    Ok(())
}
