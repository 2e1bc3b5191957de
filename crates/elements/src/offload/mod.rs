//! Work that a device does for a graph: Snap's elements, and lookups ahead.
//!
//! ```text
//! packets ─► Batcher ─► HostToDeviceMemcpy ─► GPU… ─► GPU… ─► DeviceToHostMemcpy ─┐
//!            slices       words on their way   a kernel each     answers, too      │
//!      ┌───────────────────────────────────────────────────────────────────────────┘
//!      └─► GPUCompletionQueue ─► Debatcher ─► packets, in their order
//! ```
//! Between `Batcher` and `Debatcher` wide batches travel: packets, and a [`load`] with what of them
//! the device sees. Elements there put work into the load's stream and return; nobody waits but the
//! queue. What the answers mean for packets is decided behind it, in the order of the chain.
//!
//! Elements of a chain either have routes or rules of their own, and write annotations that a
//! `Dispatcher` or other elements look at; or they look up [ahead](crate::ahead) for an element
//! behind the chain, which then does all that it would do anyway, but the lookup.
//!
//! Without a device, with one that fails, and when more packets come than the device takes, wide
//! batches pass by it: the worker looks up itself, with the same results, in the same order.
//!
//! Source: Sun and Ricci, "Fast and Flexible: Parallel Packet Processing with GPUs and Click", ANCS
//! 2013, sections 3 and 4.

mod anno;
mod annotated;
mod batcher;
mod debatcher;
mod device_to_host_memcpy;
mod dispatcher;
mod gpu_completion_queue;
mod gpu_ids_matcher;
mod gpu_ip6_lookup;
mod gpu_ip_forward;
mod gpu_ip_lookup;
mod gpu_route_lookup;
mod gpu_sdn_classifier;
mod host_to_device_memcpy;
mod load;
mod members;
mod place;
mod plan;
mod searches;
mod slices;
#[cfg(test)]
mod tests;
mod texts;
pub(crate) mod twin;

use warpswitch_graph::ElementClass;

pub use place::Offload;
pub use plan::{Planned, Sources, looks_up_for, plan};

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &batcher::CLASS,
    &debatcher::CLASS,
    &device_to_host_memcpy::CLASS,
    &dispatcher::CLASS,
    &gpu_completion_queue::CLASS,
    &gpu_ids_matcher::CLASS,
    &gpu_ip6_lookup::CLASS,
    &gpu_ip_forward::CLASS,
    &gpu_ip_lookup::CLASS,
    &gpu_sdn_classifier::CLASS,
    &host_to_device_memcpy::CLASS,
];
