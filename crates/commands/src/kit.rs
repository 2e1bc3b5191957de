//! The elements that the binary handed over, see [`warpswitch_kit`].

use std::sync::{Arc, OnceLock};

use warpswitch_gpu::Device;
use warpswitch_graph::language::{ElementPorts, FlatElement, FlatGraph};
use warpswitch_graph::{ElementDoc, Registry};
use warpswitch_kit::{Clock, Kit, OffloadDevice, Planned, Sources};

/// Set once, by `main`.
static KIT: OnceLock<Kit> = OnceLock::new();

/// Uses the elements of `kit`.
pub fn set(kit: Kit) {
    KIT.set(kit).expect("main runs once");
}

fn kit() -> Kit {
    #[cfg(test)]
    KIT.get_or_init(|| {
        let registry = || warpswitch_offload::register(warpswitch_elements::registry());
        let doc = |class: &str| {
            warpswitch_offload::doc(class).or_else(|| warpswitch_elements::doc(class))
        };
        warpswitch_offload::kit(registry, doc)
    });
    *KIT.get().expect("main sets it before a command runs")
}

/// All classes.
pub fn registry() -> Registry {
    (kit().registry)()
}

/// The documentation of a class.
pub fn doc(class: &str) -> Option<ElementDoc> {
    (kit().doc)(class)
}

/// Inserts chains into a graph, see [`warpswitch_kit::Plan`].
pub fn plan(
    graph: &mut FlatGraph,
    ports: &[ElementPorts],
    registry: &Registry,
    arguments: &str,
    wanted: Sources,
) -> Planned {
    (kit().plan)(graph, ports, registry, arguments, wanted)
}

/// The element that a member of a chain computes results for.
pub fn looks_up_for(element: &FlatElement, registry: &Registry) -> Option<String> {
    (kit().looks_up_for)(element, registry)
}

/// Offloads to a device: always, or with a clock where that is cheaper.
pub fn offload_to(device: Arc<Device>, clock: Option<Clock>) -> Arc<dyn OffloadDevice> {
    (kit().offload_to)(device, clock)
}
