//! The ports of a switch: numbers, descriptions, counters, and the frames that wait to be sent.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use warpswitch_openflow::{PortConfig, PortDescription, PortState, PortStats, link};
use warpswitch_packet::{Batch, LinkState, Packet, Pool, RxCounts, RxPort, Transmitted, TxPort};
use warpswitch_pipeline::{Egress, PortSettings};

use crate::tunnel::{FromTunnel, TunnelDrop, TunnelOptions, Tunnels};

/// Frames that wait for a port that is full; further ones are dropped and counted.
const WAITING_MAX: usize = 4096;

/// Copies of a burst that depart together; further ones are dropped and counted. More than a burst
/// has frames.
const DEPARTING_MAX: usize = 4 * WAITING_MAX;

/// A port to add to a switch.
pub struct NewPort {
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The side that receives.
    pub rx: Box<dyn RxPort>,
    /// The side that sends.
    pub tx: Box<dyn TxPort>,
}

/// A tunnel port to add to a switch.
pub struct NewTunnel {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its name and options.
    pub options: TunnelOptions,
}

/// What is behind a port.
enum Device {
    /// A device that receives and sends frames.
    Frames {
        rx: Box<dyn RxPort>,
        tx: Box<dyn TxPort>,
        /// Frames to be sent, in order.
        waiting: Vec<Packet>,
    },
    /// A tunnel, whose sockets all tunnels share.
    Tunnel(TunnelOptions),
}

/// A port of a switch.
pub(crate) struct Port {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) mac: [u8; 6],
    pub(crate) config: PortConfig,
    pub(crate) link: LinkState,
    behind: Device,
    /// Counters, apart from those that the device keeps.
    stats: PortStats,
    /// Those of the device, as last read.
    device: RxCounts,
    added_ns: u64,
}

impl Port {
    /// Its description in messages.
    pub(crate) fn description(&self) -> PortDescription {
        let is_link_down = self.link != LinkState::Up;
        // Virtual devices have no speed; Open vSwitch reports 10 Gbit/s for them.
        let features = link::GB10 | link::COPPER;
        PortDescription {
            number: self.number,
            mac: self.mac,
            name: self.name.clone(),
            config: self.config,
            state: PortState { is_link_down, is_blocked: false, is_live: self.settings().is_live },
            current: features,
            supported: features,
            current_kbps: 10_000_000,
            max_kbps: 10_000_000,
            ..PortDescription::default()
        }
    }

    /// Its settings in the pipeline.
    pub(crate) fn settings(&self) -> PortSettings {
        let is_up = self.link == LinkState::Up && !self.config.is_down;
        let is_forwarded = !self.config.is_down && !self.config.no_forward;
        PortSettings { is_live: is_up, is_flooded: is_forwarded, is_forwarded }
    }

    /// Reads the link and the counters of the device. Whether the link changed.
    pub(crate) fn check(&mut self) -> bool {
        let Device::Frames { rx, tx, .. } = &mut self.behind else { return false };
        self.device = rx.counts();
        // Each side opens its socket again when the interface returns.
        let link = match (rx.check_link(), tx.check_link()) {
            (LinkState::Up, link) | (link, _) => link,
        };
        std::mem::replace(&mut self.link, link) != link
    }

    /// Its counters.
    pub(crate) fn stats(&self, now_ns: u64) -> PortStats {
        PortStats {
            number: self.number,
            rx_dropped: self.stats.rx_dropped + self.device.dropped,
            rx_errors: self.stats.rx_errors + self.device.unusable,
            age_ns: now_ns.saturating_sub(self.added_ns),
            ..self.stats
        }
    }
}

/// A frame that leaves by a device at the end of a burst.
enum Departure {
    /// One that was received, at this place in the burst.
    Received(usize),
    /// A changed one, or a copy.
    Made(Packet),
}

/// All ports, in the order of their numbers, which start with 1.
#[derive(Default)]
pub(crate) struct Ports {
    list: Vec<Port>,
    pub(crate) tunnels: Tunnels,
    /// Frames of a burst, since the first that leaves as it was received, with their ports' places.
    departing: Vec<(usize, Departure)>,
    /// Frames for ports that do not exist.
    pub(crate) missing: u64,
}

impl Ports {
    /// Adds a port with the next number.
    pub(crate) fn add(&mut self, port: NewPort, now_ns: u64) -> u32 {
        let NewPort { name, mac, mut rx, tx } = port;
        let link = rx.check_link();
        let behind = Device::Frames { rx, tx, waiting: Vec::new() };
        self.push(name, mac, link, behind, now_ns)
    }

    /// Adds a tunnel port with the next number.
    pub(crate) fn add_tunnel(&mut self, tunnel: NewTunnel, now_ns: u64) -> Result<u32, String> {
        let NewTunnel { mac, options } = tunnel;
        self.tunnels.add(&options, self.list.len() as u32 + 1)?;
        let (name, behind) = (options.name.clone(), Device::Tunnel(options));
        Ok(self.push(name, mac, LinkState::Up, behind, now_ns))
    }

    fn push(
        &mut self,
        name: String,
        mac: [u8; 6],
        link: LinkState,
        behind: Device,
        now_ns: u64,
    ) -> u32 {
        let number = self.list.len() as u32 + 1;
        self.list.push(Port {
            number,
            name,
            mac,
            config: PortConfig::default(),
            link,
            behind,
            stats: PortStats::default(),
            device: RxCounts::default(),
            added_ns: now_ns,
        });
        number
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Port> {
        self.list.iter()
    }

    /// The port with a number.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Port> {
        self.list.get_mut((number as usize).checked_sub(1)?)
    }

    /// The tunnel behind a port, if there is one.
    pub(crate) fn tunnel(&self, number: u32) -> Option<&TunnelOptions> {
        match &self.list.get((number as usize).checked_sub(1)?)?.behind {
            Device::Tunnel(options) => Some(options),
            Device::Frames { .. } => None,
        }
    }

    /// The longest burst whose copies can depart together, one by each port.
    pub(crate) fn burst_max(&self) -> usize {
        (DEPARTING_MAX / self.list.len().max(1)).max(1)
    }

    /// Receives a burst from the port at `index`; counts it, or drops it if the port is set so.
    pub(crate) fn receive(&mut self, index: usize, pool: &mut Pool, burst: &mut Batch, max: usize) {
        let port = &mut self.list[index];
        let Device::Frames { rx, .. } = &mut port.behind else { return };
        rx.receive(pool, burst, max);
        port.stats.rx_packets += burst.len() as u64;
        port.stats.rx_bytes += burst.bytes();
        if port.config.is_down || port.config.no_receive {
            port.stats.rx_dropped += burst.len() as u64;
            burst.drain().for_each(|packet| pool.recycle(packet));
        }
    }

    /// Receives a packet of a tunnel into `bytes`. `None` if none waits, an inner `None` if it is
    /// dropped, which is counted.
    pub(crate) fn receive_tunnel(&mut self, bytes: &mut [u8]) -> Option<Option<FromTunnel>> {
        let received = self.tunnels.receive(bytes)?;
        Some(received.filter(|FromTunnel { ingress, frame }| {
            let Some(port) = self.get_mut(ingress.port) else { return false };
            port.stats.rx_packets += 1;
            port.stats.rx_bytes += frame.len() as u64;
            let is_closed = port.config.is_down || port.config.no_receive;
            port.stats.rx_dropped += u64::from(is_closed);
            !is_closed
        }))
    }

    /// Has a frame wait for a port, or sends it through a tunnel; it is counted as dropped if that
    /// is not possible.
    pub(crate) fn send(&mut self, egress: Egress, frame: &[u8], pool: &mut Pool) {
        let Self { list, tunnels, departing, missing } = self;
        let index = (egress.port as usize).wrapping_sub(1);
        let Some(port) = list.get_mut(index) else {
            *missing += 1;
            return;
        };
        match &mut port.behind {
            Device::Frames { .. } if departing.is_empty() => {
                port.wait(pool.packet_of(frame), pool);
            }
            Device::Frames { .. } if departing.len() >= DEPARTING_MAX => {
                port.stats.tx_dropped += 1;
            }
            Device::Frames { .. } => {
                departing.push((index, Departure::Made(pool.packet_of(frame))));
            }
            Device::Tunnel(options) => match tunnels.send(options, &egress, frame) {
                Ok(()) => {
                    port.stats.tx_packets += 1;
                    port.stats.tx_bytes += frame.len() as u64;
                }
                Err(TunnelDrop::Refused) => port.stats.tx_errors += 1,
                Err(_) => port.stats.tx_dropped += 1,
            },
        }
    }

    /// Has a received frame leave as it is: a device gets it at [`Ports::depart`].
    pub(crate) fn forward(&mut self, egress: Egress, number: usize, frame: &[u8], pool: &mut Pool) {
        let index = (egress.port as usize).wrapping_sub(1);
        match self.list.get(index) {
            Some(Port { behind: Device::Frames { .. }, .. }) => {
                self.departing.push((index, Departure::Received(number)));
            }
            Some(_) => self.send(egress, frame, pool),
            None => self.missing += 1,
        }
    }

    /// Has the frames of a burst wait for their ports, in order. `received` are those that came in;
    /// what is left of them goes back to the pool.
    pub(crate) fn depart(&mut self, received: &mut Vec<Option<Packet>>, pool: &mut Pool) {
        for (index, departure) in self.departing.drain(..) {
            let packet = match departure {
                Departure::Received(number) => received[number].take(),
                Departure::Made(packet) => Some(packet),
            };
            if let Some(packet) = packet {
                self.list[index].wait(packet, pool);
            }
        }
        received.drain(..).flatten().for_each(|packet| pool.recycle(packet));
    }

    /// Sends what waits, as far as the devices accept it. Whether frames are left.
    pub(crate) fn flush(&mut self, pool: &mut Pool) -> bool {
        let mut is_left = false;
        for port in &mut self.list {
            is_left |= port.flush(pool);
        }
        is_left
    }

    /// Descriptors that wake the caller: ports that receive, and ports with frames that wait.
    pub(crate) fn wake_fds(&mut self) -> impl Iterator<Item = (Arc<OwnedFd>, bool)> {
        let tunnels = self.tunnels.wake_fds().into_iter().map(|fd| (fd, false));
        let ports = self.list.iter_mut().flat_map(|port| {
            let Device::Frames { rx, tx, waiting } = &mut port.behind else { return [None, None] };
            let rx = rx.wake_fd().map(|fd| (fd, false));
            let is_full = !waiting.is_empty();
            let tx = is_full.then(|| tx.wake_fd()).flatten().map(|fd| (fd, true));
            [rx, tx]
        });
        ports.flatten().chain(tunnels)
    }
}

impl Port {
    /// Has a frame wait for the device. If too many do, the device gets those first; drops and
    /// counts the frame if it does not take any.
    #[inline]
    fn wait(&mut self, packet: Packet, pool: &mut Pool) {
        if matches!(&self.behind, Device::Frames { waiting, .. } if waiting.len() >= WAITING_MAX) {
            self.flush(pool);
        }
        match &mut self.behind {
            Device::Frames { waiting, .. } if waiting.len() < WAITING_MAX => waiting.push(packet),
            _ => {
                self.stats.tx_dropped += 1;
                pool.recycle(packet);
            }
        }
    }

    /// Whether frames are left.
    fn flush(&mut self, pool: &mut Pool) -> bool {
        let Device::Frames { tx, waiting: frames, .. } = &mut self.behind else { return false };
        let mut sent = 0;
        while sent < frames.len() {
            match tx.send(&frames[sent..]) {
                Transmitted::Frames(count) => {
                    let frames = &frames[sent..sent + count];
                    self.stats.tx_packets += count as u64;
                    self.stats.tx_bytes += frames.iter().map(|f| f.len() as u64).sum::<u64>();
                    sent += count;
                }
                Transmitted::Refused => {
                    self.stats.tx_errors += 1;
                    sent += 1;
                }
                Transmitted::Full => break,
            }
        }
        frames.drain(..sent).for_each(|packet| pool.recycle(packet));
        !frames.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_openflow::Datapath;
    use warpswitch_rules::format::ovs;

    use super::*;
    use crate::testing::Wire;
    use crate::{CacheKind, Switch, SwitchOptions};

    /// A switch without a cache, whose bursts are long, and its devices.
    fn switch(ports: usize, flows: &[&str]) -> (Switch, Vec<Wire>) {
        let cache = CacheKind::None;
        let mut switch = Switch::new(SwitchOptions { cache, ..SwitchOptions::default() });
        let wires = vec![(); ports].into_iter().map(|()| Wire::default()).collect::<Vec<_>>();
        for (number, wire) in wires.iter().enumerate() {
            let (rx, tx) = (Box::new(wire.clone()), Box::new(wire.clone()));
            let name = format!("p{}", number + 1);
            switch.add_port(NewPort { name, mac: [2, 0, 0, 0, 0, number as u8], rx, tx }, 0);
        }
        for flow in flows {
            switch.datapath().flow_mod(&ovs::parse_change(flow).unwrap(), 0).unwrap();
        }
        (switch, wires)
    }

    fn frame(source: u8) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, source, 0x88, 0xb5];
        frame.resize(60, 0);
        frame
    }

    /// The first frame leaves unchanged, so copies of the others wait for the end of the burst.
    #[test]
    fn copies_of_a_long_burst_reach_all_ports() {
        let flows = ["dl_src=02:00:00:00:00:01,actions=output:2", "priority=1,actions=flood"];
        let (mut switch, wires) = switch(100, &flows);
        wires[0].incoming.lock().unwrap().push_back(frame(1));
        wires[0].incoming.lock().unwrap().extend(vec![frame(9); 600]);
        while switch.run(1) {}
        let sent = |at: usize| wires[at].sent.lock().unwrap().len();
        assert_eq!((sent(0), sent(1)), (0, 601));
        assert!((2..100).all(|at| sent(at) == 600));
    }

    /// More frames in one turn than wait for a port.
    #[test]
    fn bursts_of_many_ports_leave_by_one() {
        let (mut switch, wires) = switch(41, &["actions=output:41"]);
        for wire in &wires[..40] {
            wire.incoming.lock().unwrap().extend(vec![frame(7); 256]);
        }
        while switch.run(1) {}
        assert_eq!(wires[40].sent.lock().unwrap().len(), 40 * 256);
        assert_eq!(switch.stats().cache.misses, 40 * 256, "without a cache all are misses");
    }
}
