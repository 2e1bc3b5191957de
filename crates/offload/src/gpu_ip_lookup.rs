//! Looks up IPv4 routes of wide batches on the device.
//!
//! # Synopsis
//! `GPUIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ..., [FILE FILENAME, FORMAT, DEVICES, ANNO PLACE,
//! CHK_ANNO PLACE=NUMBER])`, `GPUIPLookup(FOR ELEMENT [, LOOKUP N])`
//!
//! # Ports
//! One input, one output; push. Accepts wide batches, see `Batcher`.
//!
//! # Configuration
//! - routes, `FILE`, `FORMAT`, `DEVICES`: as for `StaticIPLookup`; outputs are those of a
//!   `Dispatcher` downstream of the chain
//! - `ANNO`: offset of the 4-byte annotation to write with the output number, or with 0xffffffff
//!   for packets without a route; default: 40
//! - `CHK_ANNO`: predicate; applies only to packets whose 4-byte annotation at `PLACE` is `NUMBER`,
//!   which an earlier element of the chain writes
//! - `FOR`: computes results for an element such as `StaticIPLookup` downstream of the chain, from
//!   its routes. The element uses a result unless the packet was modified, the routes changed or
//!   the destination differs. Requires marked headers, as from `CheckIPHeader`, or Ethernet frames
//! - `LOOKUP`: with `FOR`, the result slot of the packet (0 or 1) to write; default: the number of
//!   earlier lookups with `FOR` in the chain. All chains must use the same slot for one element
//!
//! Without `FOR`, looks up the destination annotation, and sets it to the gateway if the route has
//! one.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `table`, `lookup`, `add`, `set`, `remove`, `ctrl` | | as of `StaticIPLookup`, without `FOR` |
//! | `on_device` | read | packets whose results came from the device |
//! | `on_cores` | read | packets looked up by the worker: no device, or the routes had changed |
//! | `no_destination` | read | with `FOR`: packets that have no marked header and are not such frames, so there is no lookup |
//!
//! # Drops
//! - `no wide batch`: packets that did not pass a `Batcher`
//!
//! # Threads
//! Runs on the worker of its chain. Source: GPUIPLookup of Snap (Sun and Ricci, ANCS 2013, section
//! 4).
//!
//! # Example
//! ```text
//! Batcher -> HostToDeviceMemcpy -> GPUIPLookup(10.0.0.0/24 0, 0/0 10.0.0.2 1)
//!   -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> out :: Dispatcher;
//! ```

use warpswitch_elements_lookup::IpLookup;
use warpswitch_graph::ElementClass;

use super::anno::NUMBER_ANNO;
use super::device_element::{DeviceClass, Target};
use super::gpu_route_lookup::GpuRouteLookup;

/// The element class.
pub static CLASS: ElementClass =
    ElementClass::new("GPUIPLookup", "1/1", "h/h", || Box::<GpuIpLookup>::default())
        .drops(&["no wide batch"])
        .on_device()
        .extension(&DEVICE)
        .dear();

static DEVICE: DeviceClass = DeviceClass::new::<GpuIpLookup>(NUMBER_ANNO).targets(&[
    Target { class: "StaticIPLookup", cost: 10 },
    Target { class: "LinearIPLookup", cost: 10 },
    Target { class: "SortedIPLookup", cost: 10 },
    Target { class: "RadixIPLookup", cost: 10 },
    Target { class: "DirectIPLookup", cost: 10 },
    Target { class: "RangeIPLookup", cost: 10 },
]);

/// Element `GPUIPLookup`.
pub type GpuIpLookup = GpuRouteLookup<IpLookup>;
