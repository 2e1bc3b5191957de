//! The error type of this crate.

use std::error::Error as StdError;
use std::fmt;

/// Why an operation of this crate failed.
///
/// Display prints the failed operation, `{:#}` its causes as well, which
/// [`source`](StdError::source) returns one by one.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The part that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration cannot be read or has errors, or the builder has no configuration.
    Configuration,
    /// The address of a control connection is invalid, or its host is unknown.
    Address,
    /// No router listens at the address, or it speaks another protocol.
    Connection,
    /// A handler does not exist, or failed.
    Handler,
    /// An element failed when the run ended: for instance a file that cannot be written.
    Finish,
    /// The operating system has no socket, signal handler or thread left.
    System,
    /// The run has ended and serves no more requests.
    Ended,
}

impl Error {
    /// An error without a cause.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// An error that `source` caused.
    pub(crate) fn caused(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self { kind, message: message.into(), source: Some(source.into()) }
    }

    /// The part that failed.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the input of the caller is at fault: a configuration or an address.
    pub fn is_input(&self) -> bool {
        matches!(self.kind, ErrorKind::Configuration | ErrorKind::Address)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause = self.source().filter(|_| f.alternate());
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternate_display_adds_the_causes() {
        let inner = Error::new(ErrorKind::Address, "no host 'x'");
        let outer = Error::caused(ErrorKind::Connection, "cannot connect", inner);
        assert_eq!(outer.to_string(), "cannot connect");
        assert_eq!(format!("{outer:#}"), "cannot connect: no host 'x'");
        assert_eq!(outer.kind(), ErrorKind::Connection);
        assert!(!outer.is_input() && Error::new(ErrorKind::Configuration, "").is_input());
    }
}
