//! Scopes in order of the text: which word is an element, which a class, and what is wired to what.
//!
//! As in Click, an element must be declared before it is used, by name or within the chain, and a
//! class holds from its `elementclass` to the end of the scope; a definition sees the class of its
//! own name as it was before.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::ast::{ClassExpr, CompoundExpr, Formal, Name, Requirement, Statement};
use super::super::class::ClassTable;
use super::super::diagnostic::{Diagnostic, Diagnostics};
use super::super::near::nearest;
use super::super::parser::Ast;
use super::super::source::{SourceMap, Span};
use super::super::token::ConfigText;

/// What a declaration says an element is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Of the class table, or unknown; the latter was told.
    Primitive(String),
    /// A compound: index in the program.
    Compound(usize),
    /// A border; the text names what it belongs to, in errors.
    Gate { owner: String, is_input: bool },
}

/// An element of a scope.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) class: Class,
    pub(super) config: ConfigText,
    pub(super) span: Span,
    /// One past the highest input and output that the scope uses.
    pub(super) inputs: u32,
    pub(super) outputs: u32,
}

/// A wire between elements of a scope: index and port of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    pub(super) from: (u32, u32),
    pub(super) to: (u32, u32),
    /// Where it is written.
    pub(super) span: Span,
}

/// A scope: the file, or one compound. The first two elements are its gates.
#[derive(Clone, Debug, Default)]
pub(super) struct Compound {
    pub(super) name: String,
    pub(super) span: Span,
    pub(super) formals: Vec<Formal>,
    pub(super) defines: Vec<(String, String)>,
    /// Scopes around it, by where it is written.
    pub(super) depth: usize,
    pub(super) elements: Vec<Element>,
    pub(super) wires: Vec<Wire>,
    pub(super) inputs: u32,
    pub(super) outputs: u32,
    /// What is tried next if arguments or ports do not fit.
    pub(super) overload: Option<Class>,
}

/// The whole configuration; the first compound is the file.
pub(super) struct Program {
    pub(super) compounds: Vec<Compound>,
    pub(super) requirements: Vec<Requirement>,
    pub(super) errors: Diagnostics,
}

/// Index of the gate for the inputs of a scope, and of the one for its outputs.
pub(super) const GATE_IN: u32 = 0;
pub(super) const GATE_OUT: u32 = 1;

/// Elements that are kept as the two ends of one name: wires enter the first, leave the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) enter: u32,
    pub(super) leave: u32,
}

/// A scope that is being read.
pub(super) struct Open {
    pub(super) compound: Compound,
    names: HashMap<String, Ends>,
    /// Names of the variables that it defines.
    defined: HashSet<String>,
    /// Elements so far, as Click counts them for `Class@n`: a group is three.
    count: usize,
    /// Elements without a name yet.
    unnamed: Vec<(u32, String, usize)>,
    /// Ports of gates that are wired: those that leave the first of a pair, enter the second.
    gate_ports: BTreeSet<(u32, u32)>,
    /// `input` and `output` as they are meant here; the file has none, a group its own.
    pub(super) gates: Option<(u32, u32)>,
}

pub(super) struct Builder<'a> {
    table: &'a dyn ClassTable,
    pub(super) sources: &'a SourceMap,
    pub(super) errors: Diagnostics,
    compounds: Vec<Compound>,
    requirements: Vec<Requirement>,
    /// Classes of each scope, the innermost last.
    classes: Vec<BTreeMap<String, Class>>,
    /// Names that were taken for classes on trust, see [`ClassTable::takes_any`].
    assumed: BTreeSet<String>,
    /// Wires of all scopes.
    pub(super) wire_count: u64,
    /// Whether there were too many.
    pub(super) is_full: bool,
}

pub(super) fn build(ast: &Ast, table: &dyn ClassTable) -> Program {
    let mut builder = Builder {
        table,
        sources: &ast.sources,
        errors: Diagnostics::default(),
        compounds: vec![Compound::default()],
        requirements: Vec::new(),
        classes: vec![BTreeMap::new()],
        assumed: BTreeSet::new(),
        wire_count: 0,
        is_full: false,
    };
    let mut open = Open::new(Compound::default(), false);
    builder.statements(&ast.statements, &mut open);
    open.name_the_unnamed();
    builder.compounds[0] = open.compound;
    let Builder { compounds, requirements, errors, .. } = builder;
    Program { compounds, requirements, errors }
}

impl Builder<'_> {
    pub(super) fn statements(&mut self, statements: &[Statement], open: &mut Open) {
        for statement in statements {
            match statement {
                Statement::Chain(chain) => self.chain(chain, open),
                Statement::ElementClass { name, class } => {
                    if let Some(class) = self.class(class, &name.text, open) {
                        let innermost = self.classes.last_mut().expect("the file's are there");
                        innermost.insert(name.text.clone(), class);
                    }
                }
                Statement::Require(all, span) => self.require(all, *span),
                Statement::Define(definitions) => {
                    for definition in definitions {
                        let compound = &mut open.compound;
                        let is_known = !open.defined.insert(definition.name.clone())
                            || compound.formals.iter().any(|f| f.name == definition.name);
                        if is_known {
                            let message =
                                format!("parameter '${}' multiply defined", definition.name);
                            self.error(definition.span, message);
                        } else {
                            let pair = (definition.name.clone(), definition.value.clone());
                            compound.defines.push(pair);
                        }
                    }
                }
            }
        }
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.errors.push_with(|| self.sources.error(span, message));
    }

    /// Adds the error that `make` makes, if it would be kept.
    pub(super) fn error_with(&mut self, make: impl FnOnce(&Self) -> Diagnostic) {
        if self.errors.wants_more() {
            let error = make(self);
            self.errors.push(error);
        } else {
            self.errors.count_only();
        }
    }

    /// The class called `name` here, if there is one.
    pub(super) fn lookup(&self, name: &str) -> Option<Class> {
        let scoped = self.classes.iter().rev().find_map(|classes| classes.get(name).cloned());
        let known = || self.table.get(name).map(|spec| Class::Primitive(spec.name.to_owned()));
        let assumed = || self.assumed.get(name).map(|name| Class::Primitive(name.clone()));
        scoped.or_else(known).or_else(assumed)
    }

    /// Takes `name`, which is neither element nor class, for a class, where that is allowed.
    pub(super) fn assume(&mut self, name: &str) -> Option<Class> {
        self.table.takes_any().then(|| {
            self.assumed.insert(name.to_owned());
            Class::Primitive(name.to_owned())
        })
    }

    /// The class that `expr` means; `name` is what it is about to be called, empty if nothing.
    /// None where an error was told and nothing sensible can follow.
    pub(super) fn class(&mut self, expr: &ClassExpr, name: &str, open: &Open) -> Option<Class> {
        match expr {
            ClassExpr::Missing => None,
            ClassExpr::Name(Name { text, span }) => {
                let found = self.lookup(text).or_else(|| self.assume(text));
                if found.is_none() {
                    let error =
                        self.sources.error(*span, format!("unknown element class '{text}'"));
                    self.errors.push(self.suggest(error, text));
                }
                Some(found.unwrap_or_else(|| Class::Primitive(text.clone())))
            }
            ClassExpr::Compound { overloads, extends } => {
                let base = extends.and_then(|span| {
                    let found = self.lookup(name);
                    if found.is_none() {
                        self.error(span, format!("cannot extend unknown element class '{name}'"));
                    }
                    found
                });
                let depth = open.compound.depth + 1;
                let built: Vec<usize> =
                    overloads.iter().map(|overload| self.compound(overload, name, depth)).collect();
                let chain = built.iter().skip(1).map(|&idx| Some(Class::Compound(idx)));
                for (&idx, next) in built.iter().zip(chain.chain([base])) {
                    self.compounds[idx].overload = next;
                }
                built.first().map(|&idx| Class::Compound(idx))
            }
        }
    }

    fn compound(&mut self, expr: &CompoundExpr, name: &str, depth: usize) -> usize {
        let compound = Compound {
            name: name.to_owned(),
            span: expr.span,
            formals: expr.formals.clone(),
            depth,
            ..Compound::default()
        };
        let mut open = Open::new(compound, true);
        self.classes.push(BTreeMap::new());
        self.statements(&expr.statements, &mut open);
        self.classes.pop();
        let owner = if name.is_empty() { "<anonymous>" } else { name };
        let (inputs, outputs) = self.check_gates(&open, (GATE_IN, GATE_OUT), owner, expr.span);
        open.compound.inputs = inputs;
        open.compound.outputs = outputs;
        open.name_the_unnamed();
        self.compounds.push(open.compound);
        self.compounds.len() - 1
    }

    /// Checks that the gates of a scope are used without gaps and the right way round; how many
    /// inputs and outputs they make.
    pub(super) fn check_gates(
        &mut self,
        open: &Open,
        (gate_in, gate_out): (u32, u32),
        owner: &str,
        span: Span,
    ) -> (u32, u32) {
        let elements = &open.compound.elements;
        let (input, output) = (&elements[gate_in as usize], &elements[gate_out as usize]);
        let (inputs, outputs) = (input.outputs, output.inputs);
        if input.inputs > 0 {
            let message = format!("'{owner}' pseudoelement 'input' may only be used as output");
            self.error(span, message);
        }
        if output.outputs > 0 {
            let message = format!("'{owner}' pseudoelement 'output' may only be used as input");
            self.error(span, message);
        }
        for (side, gate, ports) in [("input", gate_in, inputs), ("output", gate_out, outputs)] {
            let is_missing = |port: &u32| !open.gate_ports.contains(&(gate, *port));
            let missing = (0..ports).filter(is_missing);
            for port in missing.take(super::super::diagnostic::DIAGNOSTICS_KEPT_MAX) {
                self.error(span, format!("'{owner}' {side} {port} missing"));
            }
        }
        (inputs, outputs)
    }

    /// Declares an element. All-digit parts of its name are told.
    pub(super) fn declare(
        &mut self,
        open: &mut Open,
        name: &str,
        class: Class,
        config: ConfigText,
        span: Span,
    ) -> Ends {
        if name.split('/').any(|part| part.bytes().all(|b| b.is_ascii_digit())) {
            self.error(span, format!("element name '{name}' has all-digit component"));
        }
        let ends = open.add(Element::new(name, class, config, span));
        open.names.insert(name.to_owned(), ends);
        ends
    }

    /// Adds the requirements `all`, and an error for each package that does not exist.
    fn require(&mut self, all: &[Requirement], span: Span) {
        self.requirements.extend(all.iter().cloned());
        let packages = self.table.packages();
        let is_missing = |requirement: &&Requirement| {
            requirement.kind == "package" && !packages.contains(&requirement.value.as_str())
        };
        if self.table.takes_any() {
            return;
        }
        for Requirement { value, .. } in all.iter().filter(is_missing) {
            let help = match (nearest(value, packages.iter().copied()), packages) {
                (Some(near), _) => format!("there is a package '{near}'"),
                (None, []) => "there are no packages".to_owned(),
                (None, _) => format!("the packages are {}", packages.join(", ")),
            };
            self.error_with(|builder| {
                let message = format!("requirement '{value}' not available");
                builder.sources.error(span, message).help(help)
            });
        }
    }

    /// Adds the help "did you mean" if a class has a similar name.
    pub(super) fn suggest(&self, error: Diagnostic, name: &str) -> Diagnostic {
        let scoped = self.classes.iter().flat_map(|classes| classes.keys().map(String::as_str));
        match nearest(name, scoped.chain(self.table.names())) {
            Some(other) => error.help(format!("there is a class '{other}'")),
            None => error,
        }
    }
}

impl Element {
    pub(super) fn new(name: &str, class: Class, config: ConfigText, span: Span) -> Self {
        Self { name: name.to_owned(), class, config, span, inputs: 0, outputs: 0 }
    }
}

impl Open {
    /// A new scope, whose gates have names if it is a compound.
    fn new(compound: Compound, is_compound: bool) -> Self {
        let mut open = Self {
            compound,
            names: HashMap::new(),
            defined: HashSet::new(),
            count: 0,
            unnamed: Vec::new(),
            gate_ports: BTreeSet::new(),
            gates: is_compound.then_some((GATE_IN, GATE_OUT)),
        };
        let owner = open.compound.name.clone();
        let span = open.compound.span;
        open.add_gates(&owner, span);
        open.count = 0;
        open
    }

    /// Adds the two gates of a scope or group.
    pub(super) fn add_gates(&mut self, owner: &str, span: Span) -> (u32, u32) {
        let mut gate = |is_input| {
            let class = Class::Gate { owner: owner.to_owned(), is_input };
            self.add(Element::new("", class, ConfigText::default(), span)).enter
        };
        let gates = (gate(true), gate(false));
        // Click also counts the group itself.
        self.count += 1;
        gates
    }

    fn add(&mut self, element: Element) -> Ends {
        let idx = super::super::source::offset(self.compound.elements.len());
        self.compound.elements.push(element);
        self.count += 1;
        Ends { enter: idx, leave: idx }
    }

    /// Adds a wire between ports of elements, written at `span`.
    pub(super) fn add_wire(&mut self, from: (u32, u32), to: (u32, u32), span: Span) {
        let elements = &mut self.compound.elements;
        let origin = &mut elements[from.0 as usize];
        origin.outputs = origin.outputs.max(from.1.saturating_add(1));
        if matches!(origin.class, Class::Gate { is_input: true, .. }) {
            self.gate_ports.insert(from);
        }
        let target = &mut elements[to.0 as usize];
        target.inputs = target.inputs.max(to.1.saturating_add(1));
        if matches!(target.class, Class::Gate { is_input: false, .. }) {
            self.gate_ports.insert(to);
        }
        self.compound.wires.push(Wire { from, to, span });
    }

    /// Adds an element that is called `class_name@n` once all names of the scope are known.
    pub(super) fn add_unnamed(
        &mut self,
        class_name: &str,
        class: Class,
        config: ConfigText,
        span: Span,
    ) -> Ends {
        let number = self.count + 1;
        let ends = self.add(Element::new("", class, config, span));
        self.unnamed.push((ends.enter, class_name.to_owned(), number));
        ends
    }

    fn name_the_unnamed(&mut self) {
        // The next number to try for a class, so that many clashes cost no more than few.
        let mut next: HashMap<String, usize> = HashMap::new();
        for (idx, class_name, number) in std::mem::take(&mut self.unnamed) {
            let mut number = number;
            let mut name = format!("{class_name}@{number}");
            if self.names.contains_key(&name) {
                number = number.max(next.get(&class_name).copied().unwrap_or(0));
                while self.names.contains_key(&name) {
                    number += 1;
                    name = format!("{class_name}@{number}");
                }
                next.insert(class_name, number);
            }
            self.names.insert(name.clone(), Ends { enter: idx, leave: idx });
            self.compound.elements[idx as usize].name = name;
        }
    }

    /// The element called `name` here.
    pub(super) fn element(&self, name: &str) -> Option<Ends> {
        match (name, self.gates) {
            ("input", Some((gate, _))) | ("output", Some((_, gate))) => {
                Some(Ends { enter: gate, leave: gate })
            }
            _ => self.names.get(name).copied(),
        }
    }
}
