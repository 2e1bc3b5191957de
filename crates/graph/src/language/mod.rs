//! The configuration language: Click's, from text to a graph whose every port is known.
//!
//! ```text
//! text ─► parse ─► Ast ─► expand ─► FlatGraph ─► resolve ─► push or pull of each port
//!                    └── Diagnostics ──┴── Diagnostics ──────┴── Diagnostics
//!                                         └─► flatten (text)   └─► svg (a picture)
//! ```
//! Each step tells all errors that it finds, with file, line and caret, in Click's words.
//! [`load`] takes all steps at once. What must be known of element classes is handed in as a
//! [`ClassTable`]; this module knows none.
//!
//! # Invariants
//! - L1: no text causes a panic, unbounded recursion or unbounded memory: nesting, expansion and
//!   reports are limited, and each limit is told when it is met.
//! - L2: the same text and table give the same graph, bit for bit.
//!
//! # Source
//! The Click manual's chapter on the language, and the behaviour of the program where the manual
//! is silent: names of elements without names, the order of elements, the words of errors. We
//! differ in that ports may be given as ranges (`[0-3]`), and that errors do not hide others.

mod archive;
pub mod args;
pub mod ast;
mod class;
mod diagnostic;
mod expand;
mod flatten;
mod flow;
mod parser;
mod resolve;
mod source;
pub mod svg;
mod token;
mod variables;

use std::collections::BTreeMap;

pub use class::{ClassSpec, ClassTable, FlowCode, PortCount, Processing, processing};
pub use diagnostic::{DIAGNOSTICS_KEPT_MAX, Diagnostic, Diagnostics, Note, Severity};
pub use expand::{
    CONNECTIONS_MAX, Connection, ELEMENTS_MAX, EXPAND_DEPTH_MAX, FlatElement, FlatGraph, PortRef,
    TEXT_BYTES_MAX, expand,
};
pub use flatten::flatten;
pub use flow::{Flow, Visit};
pub use parser::{Ast, LIBRARIES_MAX, Library, NEST_DEPTH_MAX, parse, parse_with};
pub use resolve::{ElementPorts, WAYS_MAX, resolve};
pub use source::{Landmark, SOURCE_BYTES_MAX, Source, SourceMap, Span};
pub use token::ConfigText;

/// A configuration that passed every check of the language.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The graph.
    pub graph: FlatGraph,
    /// The ports of its elements, in their order.
    pub ports: Vec<ElementPorts>,
    /// Warnings.
    pub warnings: Diagnostics,
}

/// Reads, expands and resolves a configuration: `bytes` is its text, `name` what errors call it.
///
/// # Errors
/// All errors that were found. Those of ports come only once the text is right: a graph with parts
/// missing would have too many.
pub fn load(
    name: &str,
    bytes: &[u8],
    classes: &dyn ClassTable,
    globals: &BTreeMap<String, String>,
    library: &mut dyn Library,
) -> Result<Loaded, Diagnostics> {
    let source = Source::new(name, bytes)?;
    let (ast, mut found) = parse_with(source, library);
    match expand(&ast, classes, globals) {
        Ok(graph) if !found.has_errors() => match resolve(&graph, classes) {
            Ok(ports) => Ok(Loaded { graph, ports, warnings: found }),
            Err(errors) => {
                found.append(errors);
                Err(found)
            }
        },
        Ok(_) => Err(found),
        Err(errors) => {
            found.append(errors);
            Err(found)
        }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
