//! The crate's one error type.

use std::fmt;
use std::io;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IoErrorKind {
    /// The operating system refused to open, read, write or rename a file.
    System,
    /// The content is no capture in a known format.
    NotACapture,
    /// A capture in a known format, of a version or variant that is not supported.
    Unsupported,
    /// A length or a field that contradicts the format, or passes this crate's limits.
    Malformed,
    /// The capture ends in the middle of something. All whole frames before were delivered.
    Truncated,
    /// A frame or time stamp that the format being written has no room for.
    Unwritable,
    /// An interface that does not exist or cannot be used.
    NoDevice,
    /// An interface, or a queue of it, that another program uses.
    InUse,
    /// A missing privilege, or a feature that the kernel lacks.
    NotPermitted,
}

/// How to give this program `capabilities`, as `cap_net_raw`: to be appended to a message.
pub fn capability_fix(capabilities: &str) -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "warpswitch".into());
    let program = program.display();
    format!(
        "run as root, or give the program the capability: sudo setcap {capabilities}+ep {program}"
    )
}

/// Why a capture could not be read or written: which file, where in it, and what was expected.
#[derive(Debug)]
pub struct IoError {
    kind: IoErrorKind,
    name: String,
    offset: Option<u64>,
    message: String,
    source: Option<io::Error>,
}

impl IoError {
    /// An error at a byte of the capture.
    pub(crate) fn at(kind: IoErrorKind, name: &str, offset: u64, message: String) -> Self {
        Self { kind, name: name.to_owned(), offset: Some(offset), message, source: None }
    }

    /// A refusal of the operating system to do `what`.
    pub(crate) fn system(name: &str, what: &str, source: io::Error) -> Self {
        Self {
            kind: IoErrorKind::System,
            name: name.to_owned(),
            offset: None,
            message: format!("cannot {what}: {source}"),
            source: Some(source),
        }
    }

    /// An interface that cannot be opened.
    pub(crate) fn device(kind: IoErrorKind, name: &str, message: String) -> Self {
        Self { kind, name: name.to_owned(), offset: None, message, source: None }
    }

    /// A privilege that the process lacks. It names no interface: all of them fail alike.
    pub(crate) fn privilege(message: String) -> Self {
        Self::device(IoErrorKind::NotPermitted, "", message)
    }

    /// Something that cannot be written.
    pub(crate) fn unwritable(name: &str, message: String) -> Self {
        let kind = IoErrorKind::Unwritable;
        Self { kind, name: name.to_owned(), offset: None, message, source: None }
    }

    /// What went wrong.
    pub fn kind(&self) -> IoErrorKind {
        self.kind
    }

    /// Whether there is nothing to read now, of a reader that never waits: it may be later.
    pub fn is_later(&self) -> bool {
        self.source.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The name of the capture or interface; empty if the error concerns the whole process.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where in the capture, in bytes from its start; of a gzip'd one, of the unpacked content.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        if let Some(offset) = self.offset {
            write!(f, "at byte {offset}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for IoError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
