//! The tunnel ports of a switch: which port a packet belongs to, and where frames go.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use warpswitch_pipeline::{Egress, Ingress, frame};
use warpswitch_rules::openflow::FLOW_WORDS;

use super::{
    Datagram, OuterHeader, Sending, TunnelDrop, TunnelDrops, TunnelHeader, TunnelKind,
    TunnelOptions, TunnelValue, Underlay,
};

/// Words of a flow key that distinguish inner flows: addresses, EtherType, protocol.
const FLOW_HASH_WORDS: [Range<usize>; 2] = [25..29, 31..39];
/// Ports, unless the frame is a fragment.
const PORT_WORD: usize = 39;
/// EtherType with VLAN tag, protocol, and whether it is a fragment.
const PROTOCOL_WORD: usize = 40;
const FRAGMENT_WORD: usize = 30;

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
        let payload = &bytes[datagram.payload.clone()];
        let found =
            TunnelHeader::decapsulate(datagram.kind, payload).and_then(|(header, frame)| {
                let key = header.key.unwrap_or(0);
                let port = self.find(&datagram, key).ok_or(TunnelDrop::UnknownTunnel)?;
                let ingress = Ingress {
                    tun_id: key.into(),
                    tun_src: word(datagram.src),
                    tun_dst: word(datagram.dst),
                    ..Ingress::from(port)
                };
                let end = datagram.payload.end;
                Ok(FromTunnel { ingress, frame: end - frame.len()..end })
            });
        Some(found.map_err(|reason| self.drops.count(reason)).ok())
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
        let key = match options.out_key {
            None => None,
            Some(TunnelValue::Fixed(key)) => Some(key),
            Some(TunnelValue::Flow) => {
                let key = u32::try_from(egress.tun_id).ok();
                let key = key.filter(|key| *key <= options.kind.key_max());
                Some(key.ok_or(TunnelDrop::KeyTooLarge)?)
            }
        };
        let dst = options.remote.fixed().or(address(egress.tun_dst));
        let src = options.local.and_then(|local| local.fixed().or(address(egress.tun_src)));
        let outer = OuterHeader {
            kind: options.kind,
            dst_port: options.dst_port,
            src,
            dst: dst.ok_or(TunnelDrop::NoRemote)?,
            flow_hash: flow_hash(frame),
            ttl: options.ttl,
            has_df: options.has_df,
            has_checksum: options.has_checksum,
        };
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

/// The address in a word of a flow key, if it is set.
fn address(word: u32) -> Option<IpAddr> {
    (word != 0).then(|| Ipv4Addr::from(word).into())
}

/// A hash over addresses, protocol and ports.
fn flow_hash(bytes: &[u8]) -> u16 {
    let mut key = [0; FLOW_WORDS];
    frame::extract(bytes, &mut key);
    let mut hasher = DefaultHasher::new();
    let words = FLOW_HASH_WORDS.into_iter().flat_map(|words| &key[words]);
    words.for_each(|word| hasher.write_u32(*word));
    hasher.write_u32(key[PROTOCOL_WORD] >> 24);
    let is_fragment = key[FRAGMENT_WORD] & 3 != 0;
    if !is_fragment {
        hasher.write_u32(key[PORT_WORD]);
    }
    hasher.finish() as u16
}
