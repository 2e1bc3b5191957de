//! Looks IPv6 destinations of wide batches up on the device.
//!
//! # Synopsis
//! `GPUIP6Lookup(ADDR/MASK [GATEWAY] OUTPUT, ..., [FILE FILENAME, FORMAT, DEVICES, ANNO PLACE,
//! CHK_ANNO PLACE=NUMBER])`, `GPUIP6Lookup(FOR ELEMENT [, LOOKUP N])`
//!
//! # Ports
//! One input, one output; push. Takes wide batches, see `Batcher`.
//!
//! # Configuration
//! - routes, `FILE`, `FORMAT`, `DEVICES`: as for `LookupIP6Route`; outputs are those of a
//!   `Dispatcher` behind the chain
//! - `ANNO`: place of the annotation that gets the number of the output, four bytes; 40 by default.
//!   A packet without a route gets the number of no output
//! - `CHK_ANNO`: only packets whose annotation at `PLACE`, of four bytes, is `NUMBER` get an
//!   output: a predicate, which an element before in the chain has decided
//! - `FOR`: a `LookupIP6Route` behind the chain. Its routes are looked up ahead:
//!   it takes the answers for packets that nobody wrote to in between, and only if they are of its
//!   routes and about their destinations. Headers have to be marked, as `CheckIP6Header` does, or
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
//! | `table`, `lookup`, `add`, `set`, `remove`, `ctrl` | | as of `LookupIP6Route`, without `FOR` |
//! | `on_device` | read | packets whose answers came from the device |
//! | `on_cores` | read | packets that were looked up by the worker: without a device, or when routes had changed |
//! | `no_destination` | read | with `FOR`: packets whose header is not marked and which are no such frame: nothing to look up |
//!
//! # Drops
//! - `no wide batch`: packets that did not come through a `Batcher`
//!
//! # Threads
//! Belongs to the worker of its chain. Source: GPUIPLookup of Snap (Sun and Ricci, ANCS 2013,
//! section 4), which has IPv4 alone.
//!
//! # Example
//! ```text
//! ... -> CheckIP6Header -> GetIP6Address(24)
//!   -> Batcher -> HostToDeviceMemcpy -> GPUIP6Lookup(2001:db8::/64 0, ::/0 fe80::1 1)
//!   -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> out :: Dispatcher;
//! ```

use warpswitch_graph::ElementClass;

use super::anno::NUMBER_ANNO;
use super::device_element::{DeviceClass, Target};
use super::gpu_route_lookup::GpuRouteLookup;
use warpswitch_elements::LookupIp6Route;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("GPUIP6Lookup", "1/1", "h/h", || Box::<GpuIp6Lookup>::default())
        .drops(&["no wide batch"])
        .on_device()
        .extension(&DEVICE)
        .dear();

static DEVICE: DeviceClass = DeviceClass::new::<GpuIp6Lookup>(NUMBER_ANNO)
    .targets(&[Target { class: "LookupIP6Route", cost: 20 }]);

/// See the module.
pub type GpuIp6Lookup = GpuRouteLookup<LookupIp6Route>;
