//! The crate's one error type.

use std::fmt;

use warpswitch_rules::RuleId;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The structure would pass the caller's memory bound.
    MemoryBound,
    /// A rule of another schema than the engine's.
    SchemaMismatch,
    /// A rule with this id is already there.
    DuplicateRule,
    /// No such rule is there.
    UnknownRule,
    /// No engine has this name.
    UnknownEngine,
}

/// Why a classifier could not be built or changed. The classifier is as it was before the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassifyError {
    kind: ErrorKind,
    message: String,
    rules: Vec<RuleId>,
}

impl ClassifyError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), rules: Vec::new() }
    }

    /// A build or change that needs `bytes` where `bytes_max` are allowed, and the rules that take
    /// the most of it, the most expensive first.
    pub fn memory_bound(bytes: usize, bytes_max: usize, rules: Vec<RuleId>) -> Self {
        let message = format!(
            "needs at least {bytes} bytes, the limit is {bytes_max}: raise it, choose an engine \
             that does not expand port ranges, or narrow the listed rules"
        );
        Self { kind: ErrorKind::MemoryBound, message, rules }
    }

    /// No engine has the name asked for; `message` tells which there are.
    pub fn unknown_engine(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::UnknownEngine, message)
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The rules that caused it, the worst first; empty if it is not about rules.
    pub fn rules(&self) -> &[RuleId] {
        &self.rules
    }
}

impl fmt::Display for ClassifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let [first, rest @ ..] = self.rules.as_slice() {
            write!(f, " (rule {first}")?;
            for id in rest.iter().take(7) {
                write!(f, ", {id}")?;
            }
            f.write_str(if rest.len() > 7 { ", …)" } else { ")" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ClassifyError {}
