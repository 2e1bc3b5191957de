//! The sockets below the tunnel ports of a switch.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use warpswitch_io::{
    OuterFields, OuterOptions, OuterProtocol, TunnelDatagram, TunnelReceiver, TunnelSender,
    capability_fix,
};
use warpswitch_switch::tunnel::{
    Datagram, OuterHeader, Sending, TunnelKind, TunnelOptions, TunnelValue, Underlay,
};

use crate::error::{Error, ErrorKind};

/// Receivers, one for each protocol, UDP port and IP version; senders, one for each kind of outer
/// header.
pub(crate) struct TunnelSockets {
    receivers: Vec<Receiver>,
    senders: Vec<(SenderKey, TunnelSender)>,
    /// The receiver to look at next.
    next: usize,
}

struct Receiver {
    kind: TunnelKind,
    dst_port: u16,
    socket: TunnelReceiver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SenderKey {
    kind: TunnelKind,
    dst_port: u16,
    is_ipv6: bool,
    options: OuterOptions,
}

impl SenderKey {
    fn of(outer: &OuterHeader) -> Self {
        let &OuterHeader { kind, dst_port, has_df, has_checksum, .. } = outer;
        let options = OuterOptions { has_df, has_checksum };
        Self { kind, dst_port, is_ipv6: outer.dst.is_ipv6(), options }
    }
}

fn protocol(kind: TunnelKind, port: u16) -> OuterProtocol {
    match kind {
        TunnelKind::Vxlan | TunnelKind::Geneve => OuterProtocol::Udp { port },
        TunnelKind::Gre => OuterProtocol::Gre,
    }
}

impl TunnelSockets {
    /// Opens the sockets that these ports need.
    ///
    /// # Errors
    /// [`ErrorKind::System`] with the port and how to open it.
    pub(crate) fn open(ports: &[TunnelOptions]) -> Result<Self, Error> {
        let mut sockets = Self { receivers: Vec::new(), senders: Vec::new(), next: 0 };
        for port in ports {
            sockets.add(port, ports).map_err(|why| {
                let mut message = format!("cannot open tunnel port '{}'", port.name);
                if why.kind() == io::ErrorKind::PermissionDenied {
                    message += "; ";
                    message += &capability_fix("cap_net_raw");
                } else if why.kind() == io::ErrorKind::AddrInUse {
                    message += &format!(
                        "; another program or the kernel has UDP port {}: choose another dst_port",
                        port.dst_port
                    );
                } else if why.kind() == io::ErrorKind::AddrNotAvailable {
                    message += "; local_ip requires an address of this machine";
                }
                Error::caused(ErrorKind::System, message, why)
            })?;
        }
        Ok(sockets)
    }

    fn add(&mut self, port: &TunnelOptions, all: &[TunnelOptions]) -> io::Result<()> {
        let shares_socket = |other: &&TunnelOptions| {
            (other.kind, other.dst_port, other.is_ipv6())
                == (port.kind, port.dst_port, port.is_ipv6())
        };
        let is_first = all.iter().find(shares_socket).is_some_and(|first| first.name == port.name);
        let protocol = protocol(port.kind, port.dst_port);
        if is_first {
            let local = common_local(all.iter().filter(shares_socket), port.is_ipv6());
            let socket = TunnelReceiver::open(protocol, local)?;
            self.receivers.push(Receiver { kind: port.kind, dst_port: port.dst_port, socket });
        }
        let key = SenderKey {
            kind: port.kind,
            dst_port: port.dst_port,
            is_ipv6: port.is_ipv6(),
            options: OuterOptions { has_df: port.has_df, has_checksum: port.has_checksum },
        };
        if !self.senders.iter().any(|(known, _)| *known == key) {
            let sender = TunnelSender::open(protocol, key.is_ipv6, key.options)?;
            self.senders.push((key, sender));
        }
        Ok(())
    }
}

/// The local address that all ports of a socket have, or the unspecified one.
fn common_local<'a>(ports: impl Iterator<Item = &'a TunnelOptions>, is_ipv6: bool) -> IpAddr {
    let any: IpAddr =
        if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let mut locals = ports.map(|port| port.local.and_then(TunnelValue::fixed));
    let first = locals.next().flatten();
    first.filter(|_| locals.all(|local| local == first)).unwrap_or(any)
}

impl Underlay for TunnelSockets {
    fn receive(&mut self, bytes: &mut [u8]) -> Option<Datagram> {
        let count = self.receivers.len();
        for _ in 0..count {
            let Receiver { kind, dst_port, socket } = &mut self.receivers[self.next];
            self.next = (self.next + 1) % count;
            if let Some(datagram) = socket.receive(bytes) {
                let TunnelDatagram { payload, src, dst, tos } = datagram;
                let (kind, dst_port) = (*kind, *dst_port);
                return Some(Datagram { kind, dst_port, payload, src, dst, tos });
            }
        }
        None
    }

    fn send(&mut self, outer: &OuterHeader, bytes: &[u8]) -> Sending {
        let key = SenderKey::of(outer);
        let found = self.senders.iter().find(|(known, _)| *known == key);
        let Some((_, sender)) = found else { return Sending::Refused };
        let &OuterHeader { src, dst, tos, ttl, flow_hash, .. } = outer;
        match sender.send(&OuterFields { src, dst, tos, ttl, flow_hash }, bytes) {
            Ok(()) => Sending::Done,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sending::Full,
            // The queue of the device, not the socket, is full.
            Err(error) if error.raw_os_error() == Some(NO_BUFFERS) => Sending::Full,
            Err(_) => Sending::Refused,
        }
    }

    fn wake_fds(&self) -> Vec<Arc<OwnedFd>> {
        self.receivers.iter().map(|receiver| receiver.socket.wake_fd()).collect()
    }
}

/// The number of `ENOBUFS`.
const NO_BUFFERS: i32 = rustix::io::Errno::NOBUFS.raw_os_error();

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};
    use warpswitch_io::MemoryPort;
    use warpswitch_openflow::{FlowModMessage, Hello, Message, NO_BUFFER};
    use warpswitch_packet::{Batch, Pool, RxPort, TxPort};
    use warpswitch_rules::format::ovs;
    use warpswitch_switch::tunnel::TunnelDrop;
    use warpswitch_switch::{NewPort, NewTunnel, Switch, SwitchOptions};

    use super::*;

    /// A switch with a port in memory and a tunnel port, and the other end of the former.
    struct Site {
        switch: Switch,
        host: MemoryPort,
    }

    impl Site {
        fn new(tunnel: &str, flows: &[&str]) -> Result<Self, Error> {
            let mut switch = Switch::new(SwitchOptions::default());
            let (port, host) = MemoryPort::pair(8).expect("descriptors");
            let (rx, tx) = (Box::new(port.clone()), Box::new(port));
            switch.add_port(NewPort { name: "host".to_owned(), mac: [2; 6], rx, tx }, 0);
            let options: TunnelOptions = tunnel.parse().expect("options");
            let new = NewTunnel { mac: [2; 6], options: options.clone() };
            switch.add_tunnel(new, 0).expect("the only tunnel");
            switch.set_underlay(Box::new(TunnelSockets::open(&[options])?));
            let controller = switch.connect(true, 0);
            let hello = Message::Hello(Hello { version: 4, bitmap: Some(1 << 4) });
            let mods = flows.iter().map(|flow| {
                let change = ovs::parse_change(flow).expect("flow text");
                Message::FlowMod(FlowModMessage { change, buffer_id: NO_BUFFER })
            });
            for message in std::iter::once(hello).chain(mods) {
                switch.receive_control(controller, &message.encode(1), 0);
            }
            Ok(Self { switch, host })
        }

        fn send(&mut self, frame: &[u8]) {
            let packet = Pool::new().packet_of(frame);
            TxPort::send(&mut self.host, &[packet]);
            self.switch.run(0);
        }

        /// The next frame for the host.
        fn receive(&mut self) -> Vec<u8> {
            let fds: Vec<_> = self.switch.wake_fds().map(|(fd, _)| fd).collect();
            let mut fds: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            poll(&mut fds, None).expect("it becomes readable");
            self.switch.run(0);
            let (mut pool, mut batch) = (Pool::new(), Batch::new());
            self.host.receive(&mut pool, &mut batch, 8);
            let frames: Vec<_> = batch.drain().map(|packet| packet.data().to_vec()).collect();
            frames.concat()
        }
    }

    /// UDP ports to try: another process may use one.
    const PORTS: std::ops::Range<u16> = 20_789..20_889;

    #[test]
    fn two_switches_exchange_frames_through_vxlan_and_geneve_without_privileges() {
        let frame: Vec<u8> = (0..100).collect();
        for kind in ["vxlan", "geneve"] {
            let open = |port: u16| {
                let [a, b] = [("127.0.0.1", "127.0.0.2"), ("127.0.0.2", "127.0.0.1")].map(
                    |(local, remote)| {
                        let tunnel = format!(
                            "{kind}:t:local_ip={local},remote_ip={remote},key=flow,dst_port={port}"
                        );
                        Site::new(
                            &tunnel,
                            &[
                                "in_port=1 actions=set_field:7->tun_id,output:2",
                                &format!("in_port=2,tun_id=7,tun_src={remote} actions=output:1"),
                            ],
                        )
                    },
                );
                Some((a.ok()?, b.ok()?))
            };
            let (mut a, mut b) = PORTS.clone().find_map(open).expect("a free port");
            a.send(&frame);
            assert_eq!(b.receive(), frame, "{kind}");
            b.send(&frame[..60]);
            assert_eq!(a.receive(), frame[..60], "{kind}");
            let drops = a.switch.stats().tunnel_drops;
            assert!(TunnelDrop::ALL.iter().all(|reason| drops.get(*reason) == 0), "{drops:?}");
        }
    }

    #[test]
    fn a_socket_is_bound_to_the_local_address_that_all_ports_share() {
        let ports = |texts: &[&str]| -> Vec<TunnelOptions> {
            texts.iter().map(|text| text.parse().expect("options")).collect()
        };
        let local = |texts: &[&str]| common_local(ports(texts).iter(), false).to_string();
        let (a, b) = ("vxlan:a:remote_ip=flow,local_ip=127.0.0.1", "vxlan:b:remote_ip=flow");
        assert_eq!(local(&[a, a]), "127.0.0.1");
        assert_eq!(local(&[a, b]), "0.0.0.0");
        assert_eq!(local(&[b, a]), "0.0.0.0");
        let foreign = ports(&["vxlan:a:remote_ip=flow,local_ip=192.0.2.1"]);
        let error = TunnelSockets::open(&foreign).err().expect("not an address of this machine");
        assert!(error.to_string().contains("tunnel port 'a'; local_ip requires"), "{error}");
    }
}
