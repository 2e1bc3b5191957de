//! The graph of elements: the configuration language and, from it, connections with their kinds.
//!
//! This crate knows no protocol and no element: what it must know of element classes is handed in
//! as a [`language::ClassTable`].
#![forbid(unsafe_code)]

pub mod language;
