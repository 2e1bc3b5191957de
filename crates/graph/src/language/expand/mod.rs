//! From [`Ast`] to [`FlatGraph`]: names get a meaning, compounds and groups dissolve.
//!
//! ```text
//! Ast ─► build: per scope, in order of the text: elements, classes, wires ─► Program
//!     ─► instantiate: each compound element becomes its parts, compound/part
//!     ─► tunnel: wires through the borders of compounds and groups are joined
//!     ─► replicas: sources that are several, such as queues of an interface ─► FlatGraph
//! ```
//! A border is a *gate*: what goes into its port n comes out of its port n. A compound element has
//! one for its inputs and one for its outputs, so has a group.
//!
//! # Invariants
//! - E1: the order of elements is Click's: those of a scope in order of the text, then, for each
//!   compound among them in that order, its parts likewise. So `Class@n` names are Click's too.
//! - E2: connections are sorted by their target, then their origin, each once.
//! - E3: elements, wires, bytes of text and depth are bounded: compounds that double each other
//!   are refused ([`ELEMENTS_MAX`], [`CONNECTIONS_MAX`], [`TEXT_BYTES_MAX`]), and so are variables
//!   ([`SUBSTITUTED_BYTES_MAX`]).

mod build;
mod connect;
mod instantiate;
mod replicas;
mod tunnel;
mod unset;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::args::ArgsError;
use super::args::split::{arg_ranges, split_args};
use super::ast::Requirement;
use super::class::ClassTable;
use super::diagnostic::{Diagnostic, Diagnostics};
use super::parser::Ast;
use super::source::{Landmark, SourceMap, Span, offset};

/// The most elements of a flat graph, borders of compounds included.
pub const ELEMENTS_MAX: usize = 1 << 18;

/// The most connections.
pub const CONNECTIONS_MAX: usize = 1 << 20;

/// The most bytes of names and configuration strings together.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// The most bytes that variables bring in together: less than what stands in a text, as a few
/// lines whose variables double each other ask for any amount.
pub const SUBSTITUTED_BYTES_MAX: usize = 16 << 20;

/// The most levels of compound elements within each other.
pub const EXPAND_DEPTH_MAX: usize = 100;

/// A configuration without compounds, groups and variables.
#[derive(Clone, Debug, Default)]
pub struct FlatGraph {
    /// The elements; others refer to them by their index.
    pub elements: Vec<FlatElement>,
    /// The connections, sorted by target, then origin.
    pub connections: Vec<Connection>,
    /// Where each is written.
    pub connection_spans: Vec<Span>,
    /// What the configuration requires, in order.
    pub requirements: Vec<Requirement>,
    /// The texts it came from, for errors that are found later.
    pub sources: Arc<SourceMap>,
}

/// An element of a primitive class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatElement {
    /// Its name, `compound/part` for parts of compounds.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its configuration string, variables replaced.
    pub config: String,
    /// Where that is written.
    pub config_span: Span,
    /// Where it was declared.
    pub landmark: Landmark,
}

impl FlatElement {
    /// The element as errors name it: `name :: Class`.
    pub fn declaration(&self) -> String {
        format!("{} :: {}", self.name, self.class)
    }
}

/// A port of an element; whether input or output, the place says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRef {
    /// Index of the element.
    pub element: usize,
    /// Number of the port.
    pub port: usize,
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    /// The output it leaves.
    pub from: PortRef,
    /// The input it enters.
    pub to: PortRef,
}

impl FlatGraph {
    /// Index of the element called `name`. Cost: one pass.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|element| element.name == name)
    }

    /// Index of the element that `name` means in the configuration of element `from`: the one in
    /// the same compound, else the one in the compound around that, and so on. Cost: one pass.
    pub fn find_from(&self, from: usize, name: &str) -> Option<usize> {
        let scope = self.elements.get(from)?.name.rsplit_once('/').map_or("", |(scope, _)| scope);
        let mut best: Option<(usize, usize)> = None;
        for (idx, element) in self.elements.iter().enumerate() {
            let Some(prefix) = element.name.strip_suffix(name) else { continue };
            let is_around = match prefix.strip_suffix('/') {
                None => prefix.is_empty(),
                Some(prefix) => scope
                    .strip_prefix(prefix)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            };
            if is_around && best.is_none_or(|(_, len)| len < prefix.len()) {
                best = Some((idx, prefix.len()));
            }
        }
        best.map(|(idx, _)| idx)
    }

    /// An error of element `idx`: `doing` says what failed, such as "While configuring", and
    /// `lines` how.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn element_error(&self, doing: &str, idx: usize, lines: &[String]) -> Diagnostic {
        let element = &self.elements[idx];
        let message = format!("{doing} '{}':", element.declaration());
        let error = self.sources.error(element.landmark.span, message);
        lines.iter().fold(error, |error, line| error.detail(line.as_str()))
    }

    /// An error of the arguments of element `idx`, at those that are wrong where they are known.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn argument_error(&self, idx: usize, wrong: &ArgsError) -> Diagnostic {
        let element = &self.elements[idx];
        let (values, places) = (split_args(&element.config), self.argument_spans(idx));
        let mut error = self.element_error("While configuring", idx, &wrong.messages);
        for (at, message) in wrong.messages.iter().enumerate() {
            let Some(arg) = wrong.args.get(at).copied().flatten() else { continue };
            let Some(value) = values.get(arg) else { continue };
            let mut others = wrong.args.iter().enumerate().filter(|(other, _)| *other != at);
            let is_alone = others.all(|(_, other)| *other != Some(arg));
            let is_first = wrong.args.iter().position(|other| *other == Some(arg)) == Some(at);
            let unset = variable_in(value);
            if let Some(name) = unset.filter(|_| is_first) {
                error = error.help(format!(
                    "the variable '{name}' has no value here: it is neither defined, nor an \
                     argument of the compound, nor given on the command line"
                ));
            }
            let meant = wrong.meant.get(&arg).map(|meant| format!("{message}; is {meant} meant?"));
            let message = meant.as_ref().unwrap_or(message);
            // A comment makes one text of several lines.
            let shown = places.get(arg).filter(|_| places.len() == values.len());
            let is_as_written = shown.is_some_and(|&span| self.sources.text(span) == value);
            let told = match is_as_written || unset.is_some() {
                true => message.clone(),
                false => format!("{message}: '{}'", excerpt(value)),
            };
            error = match shown {
                Some(&span) if is_alone => error.detail_at(&self.sources, span, at, told),
                // Many messages about one argument, such as those of a file, are read below it.
                Some(&span) if is_first => error.shown_at(&self.sources, span),
                None if is_alone => error.detail_shown_as(at, told),
                _ => error,
            };
        }
        match wrong.help.is_empty() || !error.help.is_empty() {
            true => error,
            false => error.help(wrong.help.join("\n")),
        }
    }

    /// Where the arguments of element `idx` are written.
    fn argument_spans(&self, idx: usize) -> Vec<Span> {
        let whole = self.elements[idx].config_span;
        let text = self.sources.text(whole);
        let span = |range: std::ops::Range<usize>| Span {
            start: whole.start + offset(range.start),
            end: whole.start + offset(range.end),
            ..whole
        };
        arg_ranges(text).into_iter().map(span).collect()
    }

    /// Whether `other` has the same elements, connections and requirements; places in the text do
    /// not count.
    pub fn is_same(&self, other: &FlatGraph) -> bool {
        let key = |e: &FlatElement| (e.name.clone(), e.class.clone(), e.config.clone());
        self.elements.iter().map(key).eq(other.elements.iter().map(key))
            && self.connections == other.connections
            && self.requirements == other.requirements
    }
}

/// The name of a variable that stands in an argument, as it has no value.
fn variable_in(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once('$')?;
    let rest = rest.strip_prefix('{').unwrap_or(rest);
    let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    (len > 0).then_some(&rest[..len])
}

/// The beginning of a value, for a message.
fn excerpt(value: &str) -> String {
    const CHARS_MAX: usize = 60;
    match value.char_indices().nth(CHARS_MAX) {
        None => value.to_owned(),
        Some((end, _)) => format!("{}…", &value[..end]),
    }
}

/// Gives the names of `ast` a meaning and expands what is compound.
///
/// `globals` are the variables of the command line, which override those that the file defines.
/// Cost: proportional to the result, which is bounded (E3).
///
/// # Errors
/// All errors that were found, [`Diagnostics`] in the order of the text.
pub fn expand(
    ast: &Ast,
    classes: &dyn ClassTable,
    globals: &BTreeMap<String, String>,
) -> Result<FlatGraph, Diagnostics> {
    let program = build::build(ast, classes);
    let mut errors = program.errors;
    let flat = instantiate::instantiate(&program.compounds, &ast.sources, globals, &mut errors);
    let (elements, connections) = tunnel::join(flat, &ast.sources, &mut errors);
    let requirements = program.requirements;
    let mut in_order = Diagnostics::default();
    in_order.append(errors);
    let (connections, connection_spans) = connections.into_iter().unzip();
    let sources = ast.sources.clone();
    let graph = FlatGraph { elements, connections, connection_spans, requirements, sources };
    in_order.into_result(graph).map(|graph| replicas::replicate(graph, classes))
}

#[cfg(test)]
mod tests;
