//! Ports: interfaces of the kernel, TAP devices, and links in memory.
//!
//! ```text
//! PortSpec ─► PortTable ─┬─► PacketRx, PacketTx   packet sockets (AF_PACKET)
//!                        ├─► XdpPort              sockets of AF_XDP
//!                        ├─► TapPort              the other end of a TAP device
//!                        └─► MemoryPort           one of two ends of a link in memory
//! ```
//! Packet sockets and TAP devices pass frames as the kernel has them: checksums and segmentation
//! may be left to the device, see [`warpswitch_packet::gso`]. `sys::vnet` reads and writes
//! how the kernel describes that.

mod af_packet;
mod fanout;
mod intake;
mod memory;
mod tap;
mod xdp;

use std::sync::{Arc, Mutex, Weak};

use warpswitch_packet::{PortMethod, PortSpec, RxPort, TxPort};

use crate::error::{IoError, IoErrorKind, capability_fix};
use crate::sys::interface::{self, Interface};
use crate::sys::netdev::XdpFeatures;
use af_packet::{PacketRx, PacketTx};
use fanout::Fanout;
use memory::MemoryLink;
pub use memory::MemoryPort;
use tap::{Tap, TapPort};
use xdp::{Xdp, XdpInterface, XdpPort};

/// The prefix of TAP devices among names of devices.
pub const TAP_PREFIX: &str = "tap:";

/// The prefix of links in memory among names of devices: `mem:NAME` is one end of a link,
/// `mem:NAME:peer` the other.
pub const MEMORY_PREFIX: &str = "mem:";
/// The end of the name of the second end of a link in memory.
pub const PEER_SUFFIX: &str = ":peer";
/// Frames that a link in memory holds in each direction: as many as the ring of a packet socket.
const MEMORY_FRAMES_MAX: usize = 4096;

/// What [`PortSpec::is_exclusive`] does, for errors.
const EXCLUDE: &str = "keep frames from the kernel";

/// Opens ports. The receiving and the sending port of a TAP device share its descriptor.
#[derive(Debug, Default)]
pub struct PortTable {
    /// By name and owner.
    taps: Shared<(String, String), Mutex<Tap>>,
    /// By name.
    links: Shared<String, MemoryLink>,
    /// By name of the interface.
    fanouts: Shared<String, Fanout>,
    /// By name.
    xdp_interfaces: Shared<String, XdpInterface>,
    /// By name of the interface and number of the queue.
    xdps: Shared<(String, u32), Mutex<Xdp>>,
}

/// What ports share, by key; an entry lives as long as a port uses it.
type Shared<K, V> = Vec<(K, Weak<V>)>;

/// The entry of `key`, or a new one. Forgets entries that nobody uses.
fn entry_or<K: PartialEq, V>(
    entries: &mut Shared<K, V>,
    key: K,
    make: impl FnOnce() -> Result<V, IoError>,
) -> Result<Arc<V>, IoError> {
    entries.retain(|(_, value)| value.strong_count() > 0);
    let found = entries.iter().find(|(known, _)| *known == key);
    if let Some(value) = found.and_then(|(_, value)| value.upgrade()) {
        return Ok(value);
    }
    let value = Arc::new(make()?);
    entries.push((key, Arc::downgrade(&value)));
    Ok(value)
}

impl PortTable {
    /// Opens a receiving port.
    ///
    /// # Errors
    /// [`IoErrorKind::NoDevice`] with the known interfaces, [`IoErrorKind::NotPermitted`] with the
    /// missing capability, [`IoErrorKind::System`].
    pub fn open_rx(&mut self, spec: &PortSpec) -> Result<Box<dyn RxPort>, IoError> {
        if let Some(port) = self.memory(spec)? {
            return Ok(Box::new(port));
        }
        match spec.device.strip_prefix(TAP_PREFIX) {
            Some(name) => Ok(Box::new(TapPort::new(self.tap(name, spec)?))),
            None if spec.method == PortMethod::AfXdp => Ok(Box::new(XdpPort::new(self.xdp(spec)?))),
            None => {
                if spec.method == PortMethod::Auto
                    && prefers_xdp(spec)
                    && let Ok(xdp) = self.xdp(spec)
                {
                    return Ok(Box::new(XdpPort::new(xdp)));
                }
                Ok(Box::new(PacketRx::open(spec, self.fanout(spec)?)?))
            }
        }
    }

    /// Opens a sending port.
    ///
    /// # Errors
    /// As [`PortTable::open_rx`].
    pub fn open_tx(&mut self, spec: &PortSpec) -> Result<Box<dyn TxPort>, IoError> {
        if let Some(port) = self.memory(spec)? {
            return Ok(Box::new(port));
        }
        match spec.device.strip_prefix(TAP_PREFIX) {
            Some(name) => Ok(Box::new(TapPort::new(self.tap(name, spec)?))),
            None if spec.method == PortMethod::AfXdp || self.shares_xdp(spec) => {
                Ok(Box::new(XdpPort::new(self.xdp(spec)?)))
            }
            None => Ok(Box::new(PacketTx::open(spec)?)),
        }
    }

    /// An end of a link in memory, if `spec` names one.
    fn memory(&mut self, spec: &PortSpec) -> Result<Option<MemoryPort>, IoError> {
        let Some(name) = spec.device.strip_prefix(MEMORY_PREFIX) else { return Ok(None) };
        let (name, is_second) = match name.strip_suffix(PEER_SUFFIX) {
            Some(name) => (name, true),
            None => (name, false),
        };
        let make = || {
            let link = MemoryLink::new(MEMORY_FRAMES_MAX);
            link.map_err(|error| open_error(name, "make a link in memory", error))
        };
        let link = entry_or(&mut self.links, name.to_owned(), make)?;
        Ok(Some(MemoryPort::new(link, is_second)))
    }

    /// The other queues of an interface that has several.
    fn fanout(&mut self, spec: &PortSpec) -> Result<Option<Arc<Fanout>>, IoError> {
        if spec.queue.count <= 1 {
            return Ok(None);
        }
        let make = || Ok(Fanout::default());
        entry_or(&mut self.fanouts, spec.device.clone(), make).map(Some)
    }

    /// Whether a sending port whose method is chosen shares the socket of a receiving one.
    fn shares_xdp(&self, spec: &PortSpec) -> bool {
        let key = (&spec.device, spec.queue.number);
        let is_open = |((device, queue), xdp): &((String, u32), Weak<_>)| {
            (device, *queue) == key && xdp.strong_count() > 0
        };
        spec.method == PortMethod::Auto && self.xdps.iter().any(is_open)
    }

    fn xdp(&mut self, spec: &PortSpec) -> Result<Arc<Mutex<Xdp>>, IoError> {
        let device = &spec.device;
        let make = || Ok(XdpInterface::new(device));
        let interface = entry_or(&mut self.xdp_interfaces, device.clone(), make)?;
        let queue = spec.queue.number;
        let open = || Xdp::open(interface, queue).map(Mutex::new);
        entry_or(&mut self.xdps, (device.clone(), queue), open)
    }

    fn tap(&mut self, name: &str, spec: &PortSpec) -> Result<Arc<Mutex<Tap>>, IoError> {
        let options = spec.tap.clone().unwrap_or_default();
        let key = (name.to_owned(), options.owner.clone());
        entry_or(&mut self.taps, key, || Tap::open(name, &options).map(Mutex::new))
    }
}

/// Whether `AF_XDP` serves a receiving port best, and nothing but its speed differs: the driver
/// supports it natively, all queues are received, the port needs nothing of packet sockets, and
/// the kernel has no address on the interface, so it does not miss the frames.
fn prefers_xdp(spec: &PortSpec) -> bool {
    let suits = |interface: &Interface<'_>| {
        let features = XdpFeatures::of(interface.index().ok()?).ok()?;
        let is_native = features.has_zero_copy || features.redirects && interface.is_hardware();
        Some(is_native && interface.rx_queues() == spec.queue.count && !interface.has_address())
    };
    let needs_packet_socket = spec.receives_outgoing || spec.ether_type.is_some();
    let interface = Interface::new(&spec.device).ok().filter(|_| !needs_packet_socket);
    interface.as_ref().and_then(suits).unwrap_or(false)
}

/// Whether an interface of this name exists.
pub fn has_interface(name: &str) -> bool {
    interface::names().iter().any(|known| known == name)
}

/// The Ethernet address of an interface.
///
/// # Errors
/// As [`PortTable::open_rx`].
pub fn ethernet_address(name: &str) -> Result<[u8; 6], IoError> {
    let address = interface::Interface::new(name).and_then(|found| found.ethernet_address());
    address.map_err(|error| open_error(name, "read the Ethernet address", error))
}

/// The error of an interface that cannot be opened.
fn open_error(name: &str, what: &str, error: std::io::Error) -> IoError {
    match error.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => {
            let known = interface::names().join(", ");
            let known = if known.is_empty() { "none".to_owned() } else { known };
            let message = format!("no such interface; known interfaces: {known}");
            IoError::device(IoErrorKind::NoDevice, name, message)
        }
        Some(libc::EPERM | libc::EACCES) => {
            let capability = match what {
                _ if what.contains("TAP") => "cap_net_admin",
                EXCLUDE => "cap_net_raw,cap_net_admin,cap_bpf",
                _ if what.contains("XDP") => "cap_net_raw,cap_net_admin,cap_bpf",
                _ => "cap_net_raw",
            };
            let message = format!("cannot {what}: not permitted; {}", capability_fix(capability));
            IoError::privilege(message)
        }
        Some(libc::EAFNOSUPPORT) => {
            let message =
                format!("cannot {what}: the kernel has no packet sockets (CONFIG_PACKET)");
            IoError::device(IoErrorKind::NotPermitted, name, message)
        }
        _ => IoError::system(name, what, error),
    }
}

#[cfg(test)]
mod tests;
