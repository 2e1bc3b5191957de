//! Work that a device does for a graph: Snap's elements, and results for lookups on the CPU.
//!
//! ```text
//! packets ─► Batcher ─► HostToDeviceMemcpy ─► GPU… ─► GPU… ─► DeviceToHostMemcpy ─┐
//!            slices       copies them          a kernel each     copies answers     │
//!      ┌───────────────────────────────────────────────────────────────────────────┘
//!      └─► GPUCompletionQueue ─► Debatcher ─► packets, in their order
//! ```
//! Between `Batcher` and `Debatcher` wide batches travel: packets, and a load with the slices of
//! them that the device reads. Elements there put work into the load's stream and return; only the
//! queue waits. Answers are applied to packets behind it, in the order of the chain.
//!
//! [Device elements](DeviceElement) either have routes or rules of their own, and write annotations
//! that a `Dispatcher` or other elements read; or they compute [cached
//! results](warpswitch_elements::cached) for an element behind the chain, which does all that it
//! would do anyway, except for the lookup. [`plan`] inserts chains of the second kind. The elements
//! that use results know nothing of devices.
//!
//! | module | what it has |
//! | --- | --- |
//! | `device_element` | the trait of device elements, and what their classes register |
//! | `members`, `annotated`, `anno` | what chains are made of, and checks of them |
//! | `batcher`, `load`, `slices`, `texts`, `searches` | what goes to the device |
//! | `debatcher`, `dispatcher` | what becomes of its answers |
//! | `mirrors`, `place`, `on_device` | tables and searches on the device |
//! | `plan` | chains for configurations that have none |
//!
//! Without a device, with one that fails, and when more packets come than the device takes, wide
//! batches pass by it: the worker looks up itself, with the same results, in the same order.
//!
//! Source: Sun and Ricci, "Fast and Flexible: Parallel Packet Processing with GPUs and Click", ANCS
//! 2013, sections 3 and 4.
#![forbid(unsafe_code)]

mod address;
mod anno;
mod annotated;
mod batcher;
mod debatcher;
mod device_element;
mod device_to_host_memcpy;
mod dispatcher;
pub mod docs;
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
mod mirrors;
mod on_device;
mod place;
mod plan;
mod searches;
mod slices;
#[cfg(test)]
mod tests;
mod texts;

use warpswitch_graph::{ElementClass, Registry};

pub use anno::{Predicate, Written, read_anno};
pub use device_element::{DeviceClass, DeviceElement, Joined, Target};
pub use load::{Load, Step};
pub use members::expect_chain;
pub use place::Offload;
pub use plan::{Planned, Sources, looks_up_for, plan};
pub use slices::{Family, PacketSlice, Slice};

/// The classes of this crate.
const CLASSES: &[&ElementClass] = &[
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
    // In place of the one that knows no device.
    &on_device::IDS_MATCHER,
];

/// All classes: those of the elements on the CPU, of detection, and of this crate.
pub fn registry() -> Registry {
    let registry = warpswitch_inspect::registry();
    CLASSES.iter().fold(registry, |registry, class| registry.with(class))
}
