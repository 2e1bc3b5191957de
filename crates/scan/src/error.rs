//! The crate's one error: a list of patterns that cannot be.

use std::fmt;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A pattern of no bytes, which would occur everywhere.
    EmptyPattern,
    /// A pattern longer than [`PATTERN_BYTES_MAX`](crate::PATTERN_BYTES_MAX).
    PatternTooLong,
    /// More patterns, or bytes in all of them, than a list may hold.
    TooManyPatterns,
}

/// Why a pattern was not taken. The list is as it was before the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanError {
    kind: ErrorKind,
    message: String,
}

impl ScanError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ScanError {}
