//! The tunnel ports of a switch: which port a packet belongs to, and where frames go.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use warpswitch_pipeline::{Egress, Ingress};

use super::outer::{copy_congestion, key_of};
use super::{
    Datagram, Sending, TunnelDrop, TunnelDrops, TunnelHeader, TunnelKind, TunnelOptions,
    TunnelValue, Underlay,
};

/// What selects the port of a received packet. `None`: any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Selector {
    kind: TunnelKind,
    dst_port: u16,
    key: Option<u32>,
    remote: Option<IpAddr>,
    local: Option<IpAddr>,
}

/// Tunnel ports, and the sockets below them.
#[derive(Default)]
pub(crate) struct Tunnels {
    underlay: Option<Box<dyn Underlay>>,
    /// Numbers of ports.
    ports: HashMap<Selector, u32>,
    pub(crate) drops: TunnelDrops,
    /// The header and frame to send.
    outgoing: Vec<u8>,
}

/// A packet that arrived for a tunnel port.
#[derive(Debug)]
pub(crate) struct FromTunnel {
    pub(crate) ingress: Ingress,
    /// The inner frame in the buffer.
    pub(crate) frame: Range<usize>,
}

impl Tunnels {
    pub(crate) fn set_underlay(&mut self, underlay: Box<dyn Underlay>) {
        self.underlay = Some(underlay);
    }

    /// Adds a port. Fails if another port receives exactly the same packets.
    pub(crate) fn add(&mut self, options: &TunnelOptions, number: u32) -> Result<(), String> {
        let selector = Selector {
            kind: options.kind,
            dst_port: options.dst_port,
            key: options.in_key.map_or(Some(0), TunnelValue::fixed),
            remote: options.remote.fixed(),
            local: options.local.and_then(TunnelValue::fixed),
        };
        match self.ports.insert(selector, number) {
            None => Ok(()),
            Some(other) => {
                self.ports.insert(selector, other);
                Err(format!("port {other} receives the same packets; use another key"))
            }
        }
    }

    /// The port of a packet: a set key counts most, then the remote address, then the local one.
    fn find(&self, datagram: &Datagram, key: u32) -> Option<u32> {
        let choices = (0..8).map(|any: u8| Selector {
            kind: datagram.kind,
            dst_port: datagram.dst_port,
            key: (any & 4 == 0).then_some(key),
            remote: (any & 2 == 0).then_some(datagram.src),
            local: (any & 1 == 0).then_some(datagram.dst),
        });
        choices.into_iter().find_map(|selector| self.ports.get(&selector).copied())
    }

    /// Receives a datagram into `bytes`. `None` if none waits, an inner `None` if it is dropped.
    pub(crate) fn receive(&mut self, bytes: &mut [u8]) -> Option<Option<FromTunnel>> {
        let datagram = self.underlay.as_mut()?.receive(bytes)?;
        let found = self.unpack(&datagram, bytes);
        Some(found.map_err(|reason| self.drops.count(reason)).ok())
    }

    fn unpack(&self, datagram: &Datagram, bytes: &mut [u8]) -> Result<FromTunnel, TunnelDrop> {
        let Range { start, end } = datagram.payload;
        let (header, frame) = TunnelHeader::decapsulate(datagram.kind, &bytes[start..end])?;
        let frame = end - frame.len()..end;
        if datagram.src == datagram.dst {
            return Err(TunnelDrop::OwnAddress);
        }
        let key = header.key.unwrap_or(0);
        let port = self.find(datagram, key).ok_or(TunnelDrop::UnknownTunnel)?;
        copy_congestion(datagram.tos, &mut bytes[frame.clone()])?;
        let ingress = Ingress {
            tun_id: key.into(),
            tun_src: word(datagram.src),
            tun_dst: word(datagram.dst),
            ..Ingress::from(port)
        };
        Ok(FromTunnel { ingress, frame })
    }

    /// Sends a frame through a tunnel.
    pub(crate) fn send(
        &mut self,
        options: &TunnelOptions,
        egress: &Egress,
        frame: &[u8],
    ) -> Result<(), TunnelDrop> {
        self.try_send(options, egress, frame).inspect_err(|reason| self.drops.count(*reason))
    }

    fn try_send(
        &mut self,
        options: &TunnelOptions,
        egress: &Egress,
        frame: &[u8],
    ) -> Result<(), TunnelDrop> {
        let (key, outer) = options.outer(egress, &key_of(frame))?;
        let header = TunnelHeader { kind: options.kind, key, has_checksum: options.has_checksum };
        header.encapsulate(frame, &mut self.outgoing);
        let underlay = self.underlay.as_mut().ok_or(TunnelDrop::Refused)?;
        match underlay.send(&outer, &self.outgoing) {
            Sending::Done => Ok(()),
            Sending::Full => Err(TunnelDrop::Full),
            Sending::Refused => Err(TunnelDrop::Refused),
        }
    }

    /// Descriptors to wait for.
    pub(crate) fn wake_fds(&self) -> Vec<Arc<OwnedFd>> {
        self.underlay.as_ref().map(|underlay| underlay.wake_fds()).unwrap_or_default()
    }
}

/// An IPv4 address as a word of a flow key; 0 for IPv6, for which there is no field.
fn word(ip: IpAddr) -> u32 {
    match ip {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(_) => 0,
    }
}
