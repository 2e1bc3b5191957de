//! The crate's one error of control operations. What is wrong in a text is a
//! [`Diagnostic`](crate::text::Diagnostic).

use std::fmt;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A length that the family has not, or bits behind the length.
    BadPrefix,
    /// The structure would pass the caller's memory bound.
    MemoryBound,
    /// The next hop that stands for no route.
    BadNextHop,
    /// A route that a text syntax cannot say.
    NotInSyntax,
}

/// Why a table could not be built or changed. It is as it was before the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteError {
    kind: ErrorKind,
    message: String,
}

impl RouteError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// That a structure needs `bytes` bytes where `bytes_max` are allowed.
    pub fn memory_bound(bytes: usize, bytes_max: usize) -> Self {
        let message = format!("needs {bytes} bytes, limit {bytes_max}; raise the limit");
        Self::new(ErrorKind::MemoryBound, message)
    }

    /// That [`NextHop::NONE`](crate::NextHop::NONE) was given as a next hop.
    pub fn no_hop() -> Self {
        let message = "next hop 65535 is reserved for 'no route'; use a smaller number";
        Self::new(ErrorKind::BadNextHop, message)
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RouteError {}
