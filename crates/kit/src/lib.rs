//! What commands need of the crates with elements.
//!
//! ```text
//! elements ─► inspect ─► offload ─► Kit ─► binary ─► commands
//! ```
//! `offload` makes a [`Kit`] and the binary hands it to `commands`. So the commands depend on no
//! crate with elements: after a change to an element only the binary, which is small, is compiled
//! again.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use warpswitch_gpu::Device;
use warpswitch_gpu::auto::policy::Policy;
use warpswitch_graph::language::{ElementPorts, FlatElement, FlatGraph};
use warpswitch_graph::{ElementDoc, Registry};

/// The element classes, their documentation and their offload.
#[derive(Clone, Copy, Debug)]
pub struct Kit {
    /// All classes.
    pub registry: fn() -> Registry,
    /// The documentation of a class.
    pub doc: fn(&str) -> Option<ElementDoc>,
    /// Inserts chains into a graph.
    pub plan: Plan,
    /// The element that a member of a chain computes results for.
    pub looks_up_for: fn(&FlatElement, &Registry) -> Option<String>,
    /// Offloads to a device: always, or with a clock where that is cheaper.
    pub offload_to: OffloadTo,
}

/// Inserts chains downstream of the wanted sources of a graph with these ports. The text has the
/// arguments of each `Batcher`.
pub type Plan = fn(&mut FlatGraph, &[ElementPorts], &Registry, &str, Sources) -> Planned;

/// The time since a fixed moment.
pub type Clock = fn() -> Duration;

/// Makes the device of a configuration.
pub type OffloadTo = fn(Arc<Device>, Option<Clock>) -> Arc<dyn OffloadDevice>;

/// The device of a configuration. The console of a run returns it as an opaque value.
pub trait OffloadDevice: Any + Debug + Send + Sync {
    /// The device.
    fn device(&self) -> &Arc<Device>;
    /// The policy, with counts of its choices; empty without a clock.
    fn policy(&self) -> &Policy;
}

/// The sources that get a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sources {
    /// All that lead to lookups. Where packets of several sources, or of several paths of one
    /// source through queues, meet, chains change their relative order.
    All,
    /// Those whose packets meet no packets of the same source that took another path around a
    /// queue: the packets of each source keep their order.
    Ordered,
}

/// The chains inserted into a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// The sources that lead to lookups, by name.
    pub sources: Vec<String>,
    /// The elements whose lookups are done ahead, including those of existing chains.
    pub lookups: Vec<String>,
    /// Elements left out because packets have too few result slots.
    pub left_out: Vec<String>,
    /// Elements left out because the configuration has chains of its own.
    pub left_alone: Vec<String>,
}
