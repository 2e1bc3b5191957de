//! Ports of a run. They survive the replacement of a configuration.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use warpswitch_io::{IoError, PortTable};
use warpswitch_packet::{
    Batch, LinkState, Packet, Pool, PortMethod, PortSpec, RxCounts, RxPort, Transmitted, TxCounts,
    TxPort,
};

/// All ports of a run.
#[derive(Default)]
pub(crate) struct RunPorts {
    table: PortTable,
    receivers: Vec<PortEntry<dyn RxPort>>,
    senders: Vec<PortEntry<dyn TxPort>>,
}

struct PortEntry<P: ?Sized> {
    spec: PortSpec,
    port: Weak<Mutex<Box<P>>>,
    /// The last generation of configurations that requested it.
    requested_by: u32,
}

impl RunPorts {
    /// Opens a receiving port for configuration `generation`, or reuses that of the previous one.
    pub fn open_rx(
        &mut self,
        spec: &PortSpec,
        generation: u32,
    ) -> Result<Box<dyn RxPort>, IoError> {
        let Self { table, receivers, .. } = self;
        let port = reuse_or(receivers, spec, generation, || table.open_rx(spec))?;
        Ok(Box::new(SharedPort(port)))
    }

    /// The same for a sending port.
    pub fn open_tx(
        &mut self,
        spec: &PortSpec,
        generation: u32,
    ) -> Result<Box<dyn TxPort>, IoError> {
        let method = self.sending_method(spec, generation);
        let spec = &PortSpec { method, ..spec.clone() };
        let Self { table, senders, .. } = self;
        let port = reuse_or(senders, spec, generation, || table.open_tx(spec))?;
        Ok(Box::new(SharedPort(port)))
    }

    /// The method of a sending port. With `AUTO` that of the receiving port of the same queue, if
    /// configuration `generation` requested one: that of the previous one goes with it.
    fn sending_method(&self, spec: &PortSpec, generation: u32) -> PortMethod {
        let is_beside = |entry: &&PortEntry<dyn RxPort>| {
            entry.requested_by == generation
                && (&entry.spec.device, entry.spec.queue.number)
                    == (&spec.device, spec.queue.number)
        };
        let beside =
            self.receivers.iter().filter(is_beside).filter_map(|entry| entry.port.upgrade());
        let has_xdp =
            |port: Arc<Mutex<Box<dyn RxPort>>>| SharedPort(port).method().starts_with("AFXDP");
        match spec.method {
            PortMethod::Auto if beside.into_iter().any(has_xdp) => PortMethod::AfXdp,
            PortMethod::Auto => PortMethod::AfPacket,
            method => method,
        }
    }

    /// Assigns all open ports to configuration `generation` after the switch to it, or after its
    /// failure.
    pub fn settle(&mut self, generation: u32) {
        self.receivers.iter_mut().for_each(|entry| entry.requested_by = generation);
        self.senders.iter_mut().for_each(|entry| entry.requested_by = generation);
    }
}

/// The port of `spec` that the previous configuration opened and this one has not requested yet, or
/// a new one.
fn reuse_or<P: ?Sized>(
    entries: &mut Vec<PortEntry<P>>,
    spec: &PortSpec,
    generation: u32,
    open: impl FnOnce() -> Result<Box<P>, IoError>,
) -> Result<Arc<Mutex<Box<P>>>, IoError> {
    entries.retain(|entry| entry.port.strong_count() > 0);
    let is_reusable =
        |entry: &&mut PortEntry<P>| entry.spec == *spec && entry.requested_by != generation;
    if let Some(entry) = entries.iter_mut().find(is_reusable)
        && let Some(port) = entry.port.upgrade()
    {
        entry.requested_by = generation;
        return Ok(port);
    }
    let port = Arc::new(Mutex::new(open()?));
    let (spec, weak) = (spec.clone(), Arc::downgrade(&port));
    entries.push(PortEntry { spec, port: weak, requested_by: generation });
    Ok(port)
}

/// A port that elements of the old and the new configuration share during the switch.
struct SharedPort<P: ?Sized>(Arc<Mutex<Box<P>>>);

impl<P: ?Sized> SharedPort<P> {
    fn lock(&self) -> MutexGuard<'_, Box<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RxPort for SharedPort<dyn RxPort> {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        self.lock().receive(pool, batch, frames_max)
    }

    fn device(&self) -> String {
        self.lock().device()
    }

    fn method(&self) -> &'static str {
        self.lock().method()
    }

    fn counts(&mut self) -> RxCounts {
        self.lock().counts()
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        self.lock().wake_fd()
    }

    fn rest(&self) -> Duration {
        self.lock().rest()
    }

    fn check_link(&mut self) -> LinkState {
        self.lock().check_link()
    }

    fn reopen_error(&mut self) -> Option<String> {
        self.lock().reopen_error()
    }
}

impl TxPort for SharedPort<dyn TxPort> {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        self.lock().send(packets)
    }

    fn accepts_gso(&self) -> bool {
        self.lock().accepts_gso()
    }

    fn counts(&mut self) -> TxCounts {
        self.lock().counts()
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        self.lock().wake_fd()
    }

    fn check_link(&mut self) -> LinkState {
        self.lock().check_link()
    }

    fn reopen_error(&mut self) -> Option<String> {
        self.lock().reopen_error()
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_io::MemoryPort;

    use super::*;

    /// A configuration that requests a port twice gets two; the next one gets the same two.
    #[test]
    fn ports_are_reused_by_the_next_configuration() {
        let mut entries: Vec<PortEntry<dyn RxPort>> = Vec::new();
        let spec = PortSpec { device: "eth0".to_owned(), ..PortSpec::default() };
        let mut open = |generation, spec: &PortSpec| {
            let open = || Ok(Box::new(MemoryPort::pair(1).unwrap().0) as Box<dyn RxPort>);
            reuse_or(&mut entries, spec, generation, open).unwrap()
        };
        let old = [open(0, &spec), open(0, &spec)];
        assert!(!Arc::ptr_eq(&old[0], &old[1]));
        let new = [open(1, &spec), open(1, &spec), open(1, &spec)];
        assert!(Arc::ptr_eq(&old[0], &new[0]) && Arc::ptr_eq(&old[1], &new[1]));
        assert!(old.iter().all(|port| !Arc::ptr_eq(port, &new[2])));
        let other = PortSpec { is_promiscuous: true, ..spec };
        assert!(!Arc::ptr_eq(&open(2, &other), &new[0]), "another specification");
    }

    /// `AUTO` sends as the receiving port of the new configuration receives, not as that of the old
    /// one.
    #[test]
    fn a_sending_port_follows_the_receiving_one_of_its_configuration() {
        struct Fake(&'static str);
        impl RxPort for Fake {
            fn receive(&mut self, _: &mut Pool, _: &mut Batch, _: usize) -> usize {
                0
            }
            fn device(&self) -> String {
                String::new()
            }
            fn method(&self) -> &'static str {
                self.0
            }
        }
        let port: Arc<Mutex<Box<dyn RxPort>>> =
            Arc::new(Mutex::new(Box::new(Fake("AFXDP, copies"))));
        let spec = PortSpec { device: "eth0".to_owned(), ..PortSpec::default() };
        let weak = Arc::downgrade(&port);
        let mut ports = RunPorts::default();
        ports.receivers.push(PortEntry { spec: spec.clone(), port: weak, requested_by: 3 });
        assert_eq!(ports.sending_method(&spec, 3), PortMethod::AfXdp);
        assert_eq!(ports.sending_method(&spec, 4), PortMethod::AfPacket);
        let other = PortSpec { device: "eth1".to_owned(), ..spec.clone() };
        assert_eq!(ports.sending_method(&other, 3), PortMethod::AfPacket);
        let blocks = PortSpec { method: PortMethod::AfPacketBlocks, ..spec };
        assert_eq!(ports.sending_method(&blocks, 3), PortMethod::AfPacketBlocks);
    }
}
