//! The configuration as it is written, before names have a meaning.
//!
//! Whether a word is an element or a class depends on what was declared before and on the table of
//! classes, so the tree keeps words as they are.

use super::source::Span;
use super::token::ConfigText;

/// A word, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The word.
    pub text: String,
    /// Its place.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Elements, declared or connected.
    Chain(Chain),
    /// `elementclass name class`.
    ElementClass {
        /// The new class.
        name: Name,
        /// What it stands for.
        class: ClassExpr,
    },
    /// `require(…)` without libraries, and the place of its arguments.
    Require(Vec<Requirement>, Span),
    /// `define($name value, …)`.
    Define(Vec<Definition>),
}

/// A package or feature that a configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// `package` or `compact_config`.
    pub kind: String,
    /// What is asked for; empty where the kind says it all.
    pub value: String,
}

/// `$name value` of a `define`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The variable, without `$`.
    pub name: String,
    /// Its value, not yet substituted.
    pub value: String,
    /// Where the statement stands.
    pub span: Span,
}

/// Elements with arrows between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Elements between arrows.
    pub stages: Vec<Stage>,
}

/// Elements between two arrows, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The arrow before them: none before the first.
    pub arrow: Option<Arrow>,
    /// The elements.
    pub elements: Vec<ElementExpr>,
}

/// An arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Whether it is `=>`, which may connect many to many.
    pub is_wide: bool,
    /// Its place.
    pub span: Span,
}

/// One element of a chain, with the ports that are named beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementExpr {
    /// Ports before it.
    pub inputs: Ports,
    /// The element.
    pub target: Target,
    /// Ports behind it.
    pub outputs: Ports,
    /// Place of its name.
    pub span: Span,
}

/// What is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `input` or `output`, implied by an arrow that leads from or to nowhere.
    Implied,
    /// `name`, `name :: class`, `name(config)`; a name may be that of a class.
    Named {
        /// The word.
        name: String,
        /// The class that it is declared to have.
        class: Option<ClassExpr>,
        /// Its configuration string.
        config: Option<ConfigText>,
    },
    /// `{ … }`, an element of a class without a name.
    Anonymous {
        /// The class.
        class: ClassExpr,
        /// Its configuration string.
        config: Option<ConfigText>,
    },
    /// `( … )`.
    Group(Vec<Statement>),
}

/// Ports in brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// First and last number of each range; empty where there are no brackets. Ranges stay ranges
    /// here, or few characters would take much memory.
    pub ranges: Vec<(u32, u32)>,
    /// Whether more may follow the last: `[]`, `[2,]`.
    pub expands: bool,
}

impl Ports {
    /// Whether there are no brackets.
    pub fn is_absent(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ports are named.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|&(first, last)| u64::from(last - first) + 1).sum()
    }

    /// Whether no port is named.
    pub fn is_empty(&self) -> bool {
        self.is_absent()
    }

    /// The ports, in the order in which they are named.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| first..=last)
    }
}

/// A class in a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassExpr {
    /// A class by name.
    Name(Name),
    /// `{ … || … || "..." }`.
    Compound {
        /// The overloads, in the order in which they are tried.
        overloads: Vec<CompoundExpr>,
        /// Whether `...` ends the list: the class that had the name before is tried last.
        extends: Option<Span>,
    },
    /// What could not be read; an error was told.
    Missing,
}

/// One compound element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompoundExpr {
    /// What it takes as arguments.
    pub formals: Vec<Formal>,
    /// What it is made of.
    pub statements: Vec<Statement>,
    /// Place of its opening brace.
    pub span: Span,
}

/// A formal argument: `$name` or `KEYWORD $name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formal {
    /// The variable, without `$`.
    pub name: String,
    /// The keyword, empty for a positional argument, `__REST__` for all the rest.
    pub keyword: String,
}
