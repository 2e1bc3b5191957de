//! Offload of packet processing to a device: Snap's elements, and results for lookups on the CPU.
//!
//! ```text
//! packets ─► Batcher ─► HostToDeviceMemcpy ─► GPU… ─► GPU… ─► DeviceToHostMemcpy ─┐
//!            slices       copies them         launch a kernel    copies results     │
//!      ┌───────────────────────────────────────────────────────────────────────────┘
//!      └─► GPUCompletionQueue ─► Debatcher ─► packets, in their order
//! ```
//! A wide batch is a batch of packets with a [`Load`]: the slices that the device reads, and its
//! results. Wide batches exist only between `Batcher` and `Debatcher`. Elements there enqueue work
//! on the stream of the load and return; only the `GPUCompletionQueue` waits. The `Debatcher`
//! applies the results to the packets, in the order of the chain.
//!
//! [Device elements](DeviceElement) come in two kinds. Some have routes or rules of their own, and
//! write annotations that a `Dispatcher` or other elements read. Others compute [cached
//! results](warpswitch_elements_support::cached) for an element downstream of the chain, which
//! skips only the lookup. [`plan`] inserts chains of the second kind. The elements that use results
//! do not depend on devices.
//!
//! | module | content |
//! | --- | --- |
//! | `device_element` | the trait of device elements, and the extension of their classes |
//! | `members`, `branches`, `annotated`, `anno` | structure of chains, and checks of them |
//! | `batcher`, `load`, `slices`, `texts`, `searches` | input of the device |
//! | `debatcher`, `dispatcher` | use of its results |
//! | `mirrors`, `place`, `on_device` | device mirrors of tables, and searches |
//! | `plan` | chains for configurations that have none |
//!
//! Without a device, after a device failure, and when packets arrive faster than the device
//! processes them, wide batches bypass it. The worker then does the lookups (host fallback), with
//! the same results and in the same order.
//!
//! Source: Sun and Ricci, "Fast and Flexible: Parallel Packet Processing with GPUs and Click", ANCS
//! 2013, sections 3 and 4.
#![forbid(unsafe_code)]

mod address;
mod anno;
mod annotated;
mod batcher;
mod branches;
mod debatcher;
mod device_element;
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
mod mirrors;
mod on_device;
mod place;
mod plan;
mod searches;
mod slices;
#[cfg(test)]
mod tests;
mod texts;

use warpswitch_elements_support::docs::{Files, find};
use warpswitch_graph::{ElementClass, ElementDoc, Registry};
use warpswitch_kit::Kit;

pub use anno::{Predicate, Written, read_anno};
pub use device_element::{DeviceClass, DeviceElement, Joined, Target};
pub use load::{Load, Step};
pub use members::expect_chain;
pub use place::Offload;
pub use plan::{looks_up_for, plan};
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
    // Replaces the class without device support.
    &on_device::IDS_MATCHER,
];

/// The documentation of these elements.
static DOCS: Files = include!(concat!(env!("OUT_DIR"), "/docs.rs"));

/// `registry` with the classes of this crate and of `inspect`.
pub fn register(registry: Registry) -> Registry {
    let registry = warpswitch_inspect::register(registry);
    CLASSES.iter().fold(registry, |registry, class| registry.with(class))
}

/// The documentation of the class called `class` of this crate or of `inspect`.
pub fn doc(class: &str) -> Option<ElementDoc> {
    find(DOCS, class).or_else(|| find(warpswitch_inspect::DOCS, class))
}

/// Elements and their offload for commands: `registry` returns all classes, `doc` the documentation
/// of a class.
pub fn kit(registry: fn() -> Registry, doc: fn(&str) -> Option<ElementDoc>) -> Kit {
    Kit {
        registry,
        doc,
        plan,
        looks_up_for,
        offload_to: |device, clock| Offload::new(device, clock),
    }
}

#[cfg(test)]
fn registry() -> Registry {
    register(warpswitch_elements::registry())
}
