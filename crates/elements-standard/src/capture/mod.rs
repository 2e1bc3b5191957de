//! Elements that read packets from files and interfaces, and write them there.

mod device;
mod files;
mod from_device;
mod from_dump;
mod from_host;
mod from_ip_summary_dump;
mod kernel_tap;
mod link;
mod pace;
mod port;
mod summary;
mod to_device;
mod to_dump;
mod to_host;
mod to_host_sniffers;
mod to_ip_summary_dump;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &from_device::CLASS,
    &from_device::POLL_CLASS,
    &from_dump::CLASS,
    &from_host::CLASS,
    &from_ip_summary_dump::CLASS,
    &kernel_tap::TAP_CLASS,
    &kernel_tap::TUN_CLASS,
    &to_device::CLASS,
    &to_dump::CLASS,
    &to_host::CLASS,
    &to_host_sniffers::CLASS,
    &to_ip_summary_dump::CLASS,
];

#[cfg(test)]
mod tests;
