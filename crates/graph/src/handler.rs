//! Handlers: the names under which a running configuration is asked and told.
//!
//! A handler belongs to an element (`counter.count`) or to the whole (`version`). The handlers of
//! every element are answered here; what a class adds is its own.

use std::fmt;

/// One handler of a class. Made by [`HandlerSpec::read`] and its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerSpec {
    /// Its name.
    pub name: &'static str,
    /// Whether it can be read.
    pub read: bool,
    /// Whether it can be written.
    pub write: bool,
    /// Whether a read takes a parameter.
    pub param: bool,
    /// Whether an answer is given as it is, without the newline at the end.
    pub raw: bool,
    /// Whether writing it needs no value: a button.
    pub button: bool,
    /// Whether an answer may be long, or take long: nobody should ask often.
    pub expensive: bool,
    /// Whether only the configuration itself may use it, and nobody who asks from outside.
    pub hidden: bool,
}

impl HandlerSpec {
    /// A handler that can be read.
    pub const fn read(name: &'static str) -> Self {
        let (write, param, raw, button, expensive, hidden) =
            (false, false, false, false, false, false);
        Self { name, read: true, write, param, raw, button, expensive, hidden }
    }

    /// A handler that can be written.
    pub const fn write(name: &'static str) -> Self {
        Self { read: false, write: true, ..Self::read(name) }
    }

    /// A handler that can be read and written.
    pub const fn both(name: &'static str) -> Self {
        Self { write: true, ..Self::read(name) }
    }

    /// A handler that is written without a value.
    pub const fn button(name: &'static str) -> Self {
        Self { button: true, ..Self::write(name) }
    }

    /// The same, reads taking a parameter.
    pub const fn with_param(self) -> Self {
        Self { param: true, ..self }
    }

    /// The same, answers being long, or taking long.
    pub const fn expensive(self) -> Self {
        Self { expensive: true, ..self }
    }

    /// The same, for the configuration itself alone.
    pub const fn hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    /// The same, answers given as they are.
    pub const fn as_is(self) -> Self {
        Self { raw: true, ..self }
    }
}

/// Handlers that every element has.
pub(crate) const ELEMENT_HANDLERS: &[HandlerSpec] = &[
    HandlerSpec::read("name"),
    HandlerSpec::read("class"),
    HandlerSpec::read("config"),
    HandlerSpec::read("ports"),
    HandlerSpec::read("handlers"),
    HandlerSpec::read("packets"),
    HandlerSpec::read("bytes"),
    HandlerSpec::read("batches"),
    HandlerSpec::read("mean_batch"),
    HandlerSpec::read("drops_by_reason"),
    HandlerSpec::read("held"),
    HandlerSpec::read("own_ns"),
    HandlerSpec::read("ns_per_packet"),
    HandlerSpec::read("home_thread"),
];

/// Handlers of the whole.
pub(crate) const GLOBAL_HANDLERS: &[HandlerSpec] = &[
    HandlerSpec::read("version"),
    HandlerSpec::read("list"),
    HandlerSpec::read("classes"),
    HandlerSpec::read("config"),
    HandlerSpec::read("flatconfig"),
    HandlerSpec::read("requirements"),
    HandlerSpec::read("packages"),
    HandlerSpec::read("handlers"),
    HandlerSpec::read("active_ports"),
    HandlerSpec::read("driver"),
    HandlerSpec::both("timewarp"),
    HandlerSpec::read("stats"),
    HandlerSpec::write("stop"),
];

/// Why a handler did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerError {
    /// There is no such element.
    NoElement(String),
    /// The element has no such handler.
    Missing,
    /// It is there, but not to be read.
    NotReadable,
    /// It is there, but not to be written.
    NotWritable,
    /// The element is at work and cannot be asked: it asked for itself.
    Busy,
    /// It failed, for this reason.
    Failed(String),
}

impl HandlerError {
    /// A failure for this reason.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed(reason.into())
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandlerError::NoElement(name) => write!(f, "no element named '{name}'"),
            HandlerError::Missing => f.write_str("no such handler"),
            HandlerError::NotReadable => f.write_str("not a read handler"),
            HandlerError::NotWritable => f.write_str("not a write handler"),
            HandlerError::Busy => f.write_str("the element called its own handler"),
            HandlerError::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for HandlerError {}
