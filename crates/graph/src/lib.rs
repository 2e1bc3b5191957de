//! The graph of elements: the configuration language, and the run time that packets pass through.
//!
//! ```text
//! text ─► language ─► graph, every port push or pull ─► Router ─► tasks, deliveries, handlers
//! ```
//! This crate knows no protocol and no element: classes are handed in as a [`Registry`], time and
//! whoever asks questions as a [`Host`].
#![forbid(unsafe_code)]

mod context;
pub mod control;
mod doc;
mod element;
mod files;
mod handler;
pub mod language;
mod names;
mod router;
pub mod simulate;
mod time;
pub mod transport;

pub use context::{Console, Context, Fate, drop_for};
pub use doc::ElementDoc;
pub use element::{ConfigureContext, Element, ElementClass, Extension, Phase, Registry, Sharing};
pub use files::FileId;
pub use handler::{HandlerError, HandlerSpec};
pub use names::NameTable;
pub use router::gso;
pub use router::{
    Clock, Ended, Host, PacketLook, Readiness, Router, RouterOptions, Sleeper, StartWorker, Stats,
    TRACED_PACKETS_MAX, TracedElement, TracedEnd, TracedHop, TracedPacket, TracedWay, Watch,
    Workers,
};
pub use time::Time;
