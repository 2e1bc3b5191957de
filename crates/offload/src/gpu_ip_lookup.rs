//! Looks destinations of wide batches up on the device.
//!
//! # Synopsis
//! `GPUIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ..., [FILE FILENAME, FORMAT, DEVICES, ANNO PLACE,
//! CHK_ANNO PLACE=NUMBER])`, `GPUIPLookup(FOR ELEMENT [, LOOKUP N])`
//!
//! # Ports
//! One input, one output; push. Takes wide batches, see `Batcher`.
//!
//! # Configuration
//! - routes, `FILE`, `FORMAT`, `DEVICES`: as for `StaticIPLookup`; outputs are those of a
//!   `Dispatcher` behind the chain
//! - `ANNO`: place of the annotation that gets the number of the output, four bytes; 40 by default.
//!   A packet without a route gets the number of no output
//! - `CHK_ANNO`: only packets whose annotation at `PLACE`, of four bytes, is `NUMBER` get an
//!   output: a predicate, which an element before in the chain has decided
//! - `FOR`: an element such as `StaticIPLookup` behind the chain. Its routes are looked up ahead:
//!   it takes the answers for packets that nobody wrote to in between, and only if they are of its
//!   routes and about their destinations. Headers have to be marked, as `CheckIPHeader` does, or
//!   packets to be frames, from the Ethernet header on
//! - `LOOKUP`: with `FOR`, which of the two answers that a packet has room for is its, 0 or 1; by
//!   default as many as are before it in the chain. Of one element it is the same in every chain
//!
//! Without `FOR` the destination annotation is looked up. If the route has a gateway, that becomes
//! the annotation.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `table`, `lookup`, `add`, `set`, `remove`, `ctrl` | | as of `StaticIPLookup`, without `FOR` |
//! | `on_device` | read | packets whose answers came from the device |
//! | `on_cores` | read | packets that were looked up by the worker: without a device, or when routes had changed |
//! | `no_destination` | read | with `FOR`: packets whose header is not marked and which are no such frame: nothing to look up |
//!
//! # Drops
//! - `no wide batch`: packets that did not come through a `Batcher`
//!
//! # Threads
//! Belongs to the worker of its chain. Source: GPUIPLookup of Snap (Sun and Ricci, ANCS 2013,
//! section 4).
//!
//! # Example
//! ```text
//! Batcher -> HostToDeviceMemcpy -> GPUIPLookup(10.0.0.0/24 0, 0/0 10.0.0.2 1)
//!   -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> out :: Dispatcher;
//! ```

use warpswitch_elements::IpLookup;
use warpswitch_graph::ElementClass;

use super::anno::NUMBER_ANNO;
use super::device_element::{DeviceClass, Target};
use super::gpu_route_lookup::GpuRouteLookup;

/// The class.
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

/// See the module.
pub type GpuIpLookup = GpuRouteLookup<IpLookup>;
