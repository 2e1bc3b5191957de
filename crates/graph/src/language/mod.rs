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
//! ```
//! use std::collections::BTreeMap;
//! use warpswitch_graph::language::{ClassSpec, ClassTable, flatten, load};
//!
//! struct Table([ClassSpec; 2]);
//! impl ClassTable for Table {
//!     fn get(&self, class: &str) -> Option<&ClassSpec> {
//!         self.0.iter().find(|spec| spec.name == class)
//!     }
//! }
//! let class = |name, port_count| ClassSpec { name, port_count, processing: "a", flow_code: "x" };
//! let table = Table([class("Source", "0/1"), class("Sink", "1/0")]);
//!
//! let load = |text: &[u8]| load("my.click", text, &table, &BTreeMap::new(), None);
//! let loaded = load(b"define($N 5) Source($N) -> s :: Sink").unwrap();
//! assert_eq!(
//!     flatten(&loaded.graph),
//!     "Source@1 :: Source(5);\ns :: Sink;\n\nSource@1 -> s;\n"
//! );
//! let errors = load(b"Source -> s;\nx :: Sin;").unwrap_err();
//! assert_eq!(
//!     errors.to_click(),
//!     "my.click:1: undeclared element 's'\nmy.click:2: unknown element class 'Sin'\n"
//! );
//! ```
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
mod near;
mod parser;
mod resolve;
mod source;
pub mod svg;
mod token;
mod variables;

use std::collections::BTreeMap;

pub use class::{ClassSpec, ClassTable, FlowCode, PortCount, Processing, processing};
pub(crate) use diagnostic::INITIALIZING;
pub use diagnostic::{DIAGNOSTICS_KEPT_MAX, Diagnostic, Diagnostics, Note, Severity};
pub use expand::{
    CONNECTIONS_MAX, Connection, ELEMENTS_MAX, EXPAND_DEPTH_MAX, FlatElement, FlatGraph, PortRef,
    SUBSTITUTED_BYTES_MAX, TEXT_BYTES_MAX, expand,
};
pub use flatten::flatten;
pub use flow::{Flow, Visit};
pub use near::nearest;
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

/// Reads, expands and resolves a configuration: `bytes` is its text, `name` what errors call it
/// (`config` if it is empty), `library` where `require(library …)` looks.
///
/// # Errors
/// All errors that were found. Those of ports come only once the text is right: a graph with parts
/// missing would have too many.
pub fn load(
    name: &str,
    bytes: &[u8],
    classes: &dyn ClassTable,
    globals: &BTreeMap<String, String>,
    library: Option<&mut dyn Library>,
) -> Result<Loaded, Diagnostics> {
    let source = Source::new(name, bytes)?;
    let (ast, mut found) = match library {
        Some(library) => parse_with(source, library),
        None => parse(source),
    };
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
