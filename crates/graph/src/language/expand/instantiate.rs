//! Compounds become their parts.
//!
//! The file's elements come first; then each compound among them is replaced by its parts, and so
//! on, with a stack of what is still to be done in place of recursion. Arguments and variables are
//! substituted on the way.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use super::super::args::split::{split_args, split_words};
use super::super::ast::Formal;
use super::super::diagnostic::{DIAGNOSTICS_KEPT_MAX, Diagnostic, Diagnostics};
use super::super::source::{SourceMap, Span, offset};
use super::super::variables::{Env, scope_around, substitute};
use super::build::{Class, Compound, GATE_IN, GATE_OUT, Wire};
use super::{
    CONNECTIONS_MAX, ELEMENTS_MAX, EXPAND_DEPTH_MAX, SUBSTITUTED_BYTES_MAX, TEXT_BYTES_MAX,
};

/// The most overloads that are tried.
const OVERLOADS_MAX: usize = 1_000;

/// What a node of the flat graph is, before borders dissolve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An element of this primitive class.
    Element(String),
    /// A compound that was replaced: wires enter one gate and leave the other.
    Compound { enter: u32, leave: u32 },
    /// A border of what has this name.
    Gate { owner: String, is_input: bool },
    /// What could not be expanded; an error was told.
    Failed,
}

/// A node of the flat graph.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) config: String,
    /// Where the configuration string is written.
    pub(super) config_span: Span,
    pub(super) span: Span,
}

/// Nodes, and wires between them.
#[derive(Default)]
pub(super) struct Flat {
    pub(super) nodes: Vec<Node>,
    pub(super) wires: Vec<Wire>,
}

/// A compound that is still to be replaced.
struct Task {
    node: u32,
    compound: usize,
    /// Inputs and outputs that are used of it.
    ports: (u32, u32),
    env: Rc<Env>,
    depth: usize,
}

struct Instantiate<'a> {
    compounds: &'a [Compound],
    sources: &'a SourceMap,
    errors: &'a mut Diagnostics,
    flat: Flat,
    names: HashMap<String, u32>,
    tasks: Vec<Task>,
    text_bytes: usize,
    /// Bytes that variables brought in.
    substituted_bytes: usize,
    /// Whether a limit was exceeded: one error for all that follows.
    is_full: bool,
}

/// Expands all compounds, starting with the file.
pub(super) fn instantiate(
    compounds: &[Compound],
    sources: &SourceMap,
    globals: &BTreeMap<String, String>,
    errors: &mut Diagnostics,
) -> Flat {
    let mut work = Instantiate {
        compounds,
        sources,
        errors,
        flat: Flat::default(),
        names: HashMap::new(),
        tasks: Vec::new(),
        text_bytes: 0,
        substituted_bytes: 0,
        is_full: false,
    };
    let file = &compounds[0];
    let mut env = Env::default();
    work.define(file, &mut env, globals);
    work.add_parts(0, "", &Rc::new(env), 0, file.span);
    while let Some(task) = work.tasks.pop() {
        work.replace(task);
    }
    work.flat
}

impl Instantiate<'_> {
    fn error(&mut self, span: Span, message: String) {
        self.errors.push_with(|| self.sources.error(span, message));
    }

    fn refuse(&mut self, span: Span, message: String) {
        if !self.is_full {
            self.error(span, message);
            self.is_full = true;
            self.tasks.clear();
        }
    }

    /// Adds the variables that a scope defines to `env`; `globals` override them.
    fn define(&mut self, scope: &Compound, env: &mut Env, globals: &BTreeMap<String, String>) {
        env.values.extend(globals.iter().map(|(name, value)| (name.clone(), value.clone())));
        for (name, value) in &scope.defines {
            if !globals.contains_key(name) {
                let value = self.substituted(value, env, scope.span);
                env.values.insert(name.clone(), value);
            }
        }
    }

    /// `text` with variables replaced, counted against the limits.
    fn substituted(&mut self, text: &str, env: &Env, span: Span) -> String {
        let left = TEXT_BYTES_MAX.saturating_sub(self.text_bytes);
        let grown_max = SUBSTITUTED_BYTES_MAX - self.substituted_bytes + text.len();
        match substitute(text, env, left.min(grown_max)) {
            Ok(grown) => {
                self.text_bytes += grown.len();
                self.substituted_bytes += grown.len().saturating_sub(text.len());
                grown
            }
            Err(_) if grown_max < left => {
                let message =
                    format!("variables expand to more than {SUBSTITUTED_BYTES_MAX} bytes");
                self.refuse(span, message);
                String::new()
            }
            Err(_) => {
                self.refuse(span, too_much_text());
                String::new()
            }
        }
    }

    /// Adds the elements of `compound`, part by part, under `prefix`.
    fn add_parts(
        &mut self,
        compound: usize,
        prefix: &str,
        env: &Rc<Env>,
        depth: usize,
        used: Span,
    ) {
        let scope = &self.compounds[compound];
        let base = offset(self.flat.nodes.len());
        if self.flat.nodes.len() + scope.elements.len() > ELEMENTS_MAX {
            let message = format!("the configuration expands to more than {ELEMENTS_MAX} elements");
            return self.refuse(used, message);
        }
        if self.flat.wires.len() + scope.wires.len() > CONNECTIONS_MAX {
            let message =
                format!("the configuration expands to more than {CONNECTIONS_MAX} connections");
            return self.refuse(used, message);
        }
        let mut tasks = Vec::new();
        for element in &scope.elements {
            let name = format!("{prefix}{}", element.name);
            self.text_bytes += name.len();
            if self.text_bytes > TEXT_BYTES_MAX {
                return self.refuse(used, too_much_text());
            }
            let config = self.substituted(&element.config.text, env, element.span);
            let node = offset(self.flat.nodes.len());
            let mut span = element.span;
            let kind = match &element.class {
                Class::Primitive(class) => Kind::Element(class.clone()),
                Class::Compound(compound) => {
                    let ports = (element.inputs, element.outputs);
                    let (compound, env) = (*compound, env.clone());
                    tasks.push(Task { node, compound, ports, env, depth });
                    Kind::Failed
                }
                Class::Gate { owner, is_input } => {
                    let is_of_scope = node < base + 2;
                    let owner = if is_of_scope {
                        // Errors are about the element that is the compound.
                        span = used;
                        prefix.trim_end_matches('/').to_owned()
                    } else {
                        owner.clone()
                    };
                    Kind::Gate { owner, is_input: *is_input }
                }
            };
            if !element.name.is_empty() {
                self.check_name(&name, node, element.span, used, prefix);
            }
            let config_span = element.config.span;
            self.flat.nodes.push(Node { name, kind, config, config_span, span });
        }
        let shift = |(element, port): (u32, u32)| (base + element, port);
        let wires = scope.wires.iter();
        self.flat.wires.extend(wires.map(|w| Wire { from: shift(w.from), to: shift(w.to), ..*w }));
        if !self.is_full {
            self.tasks.extend(tasks.into_iter().rev());
        }
    }

    /// Tells names that occur twice: a part may be called as an element of the file is.
    fn check_name(&mut self, name: &str, node: u32, span: Span, used: Span, prefix: &str) {
        let Some(before) = self.names.insert(name.to_owned(), node) else { return };
        let place = if prefix.is_empty() { span } else { used };
        let before = self.flat.nodes[before as usize].span;
        self.errors.push_with(|| {
            let error = self.sources.error(place, format!("redeclaration of element '{name}'"));
            let before = self.sources.landmark(before);
            error.note(Some(before), format!("'{name}' previously declared here"))
        });
    }

    fn replace(&mut self, task: Task) {
        let node = &self.flat.nodes[task.node as usize];
        let (span, prefix) = (node.span, format!("{}/", node.name));
        if task.depth >= EXPAND_DEPTH_MAX {
            let message = "maximum compound element nesting depth exceeded".to_owned();
            return self.error(span, message);
        }
        let args = split_args(&node.config);
        match self.choose(&task, &args, span) {
            None => {}
            Some((Class::Compound(compound), values)) => {
                let scope = &self.compounds[compound];
                let mut env = Env {
                    values: BTreeMap::new(),
                    parent: Some(scope_around(&task.env, scope.depth)),
                    depth: scope.depth,
                };
                let formals = scope.formals.iter().map(|formal| formal.name.clone());
                env.values.extend(formals.zip(values));
                self.define(scope, &mut env, &BTreeMap::new());
                let first = offset(self.flat.nodes.len());
                self.add_parts(compound, &prefix, &Rc::new(env), task.depth + 1, span);
                if !self.is_full {
                    let kind = Kind::Compound { enter: first + GATE_IN, leave: first + GATE_OUT };
                    self.flat.nodes[task.node as usize].kind = kind;
                }
            }
            Some((Class::Primitive(class), _)) => {
                self.flat.nodes[task.node as usize].kind = Kind::Element(class);
            }
            Some((Class::Gate { .. }, _)) => unreachable!("no class is a gate"),
        }
    }

    /// The first overload whose ports and arguments fit, with the values of its formals. If only
    /// the ports of one do not fit, it is taken all the same: what follows from it reads better
    /// than "no match".
    fn choose(&mut self, task: &Task, args: &[String], span: Span) -> Option<(Class, Vec<String>)> {
        let mut closest = None;
        let mut tried = Vec::new();
        let mut next = Some(Class::Compound(task.compound));
        while let Some(class) = next.filter(|_| tried.len() < OVERLOADS_MAX) {
            let Class::Compound(idx) = class else { return Some((class, Vec::new())) };
            let scope = &self.compounds[idx];
            tried.push(idx);
            if let Some(values) = assign(args, &scope.formals) {
                let chosen = (Class::Compound(idx), values);
                if (scope.inputs, scope.outputs) == task.ports {
                    return Some(chosen);
                }
                closest = Some(chosen);
            }
            next = scope.overload.clone();
        }
        if tried.len() != 1 || closest.is_none() {
            let error = || self.no_match(task, &tried, args.len(), span);
            if self.errors.wants_more() {
                let error = error();
                self.errors.push(error);
            } else {
                self.errors.count_only();
            }
        }
        closest
    }

    fn no_match(&self, task: &Task, tried: &[usize], args: usize, span: Span) -> Diagnostic {
        let wanted = signature(&self.compounds[task.compound], None, args, task.ports);
        let error = self.sources.error(span, format!("no match for '{wanted}'"));
        let mut error = error.note(Some(self.sources.landmark(span)), "candidates are:");
        for &idx in tried.iter().take(DIAGNOSTICS_KEPT_MAX) {
            let scope = &self.compounds[idx];
            let ports = (scope.inputs, scope.outputs);
            let candidate = signature(scope, Some(&scope.formals), 0, ports);
            error = error.note(Some(self.sources.landmark(scope.span)), format!("  {candidate}"));
        }
        error
    }
}

fn too_much_text() -> String {
    format!("the configuration expands to more than {TEXT_BYTES_MAX} bytes of text")
}

/// The values of `formals` if `args` fit them: each positional one takes the next argument, each
/// keyword its own, `__REST__` what is left.
fn assign(args: &[String], formals: &[Formal]) -> Option<Vec<String>> {
    let mut left: VecDeque<&str> = args.iter().map(String::as_str).collect();
    let mut values = Vec::with_capacity(formals.len());
    for formal in formals {
        match formal.keyword.as_str() {
            "" => values.push(left.pop_front()?.to_owned()),
            "__REST__" => values.push(Vec::from(std::mem::take(&mut left)).join(", ")),
            keyword => {
                let has_keyword = |arg: &&str| {
                    let words = split_words(arg);
                    words.len() > 1 && words[0] == keyword
                };
                let at = left.iter().rposition(has_keyword)?;
                let value = left.remove(at)?.strip_prefix(keyword)?.trim_ascii_start();
                values.push(value.to_owned());
            }
        }
    }
    left.is_empty().then_some(values)
}

/// `Class(<arg>, KEYWORD, ...)[1 input, 2 outputs]`, or with a number of arguments.
fn signature(
    scope: &Compound,
    formals: Option<&[Formal]>,
    args: usize,
    (inputs, outputs): (u32, u32),
) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut out = if scope.name.is_empty() { "<anonymous>".to_owned() } else { scope.name.clone() };
    if let Some(formals) = formals.filter(|formals| !formals.is_empty()) {
        let names = formals.iter().map(|formal| match formal.keyword.as_str() {
            "" => "<arg>",
            "__REST__" => "...",
            keyword => keyword,
        });
        out.push_str(&format!("({})", names.collect::<Vec<_>>().join(", ")));
    }
    let args =
        if formals.is_none() && args > 0 { count(args, "argument") + ", " } else { String::new() };
    let (inputs, outputs) = (count(inputs as usize, "input"), count(outputs as usize, "output"));
    out.push_str(&format!("[{args}{inputs}, {outputs}]"));
    out
}
