//! Tunnel ports: VXLAN, Geneve and GRE.
//!
//! ```text
//! output:N ─► TunnelHeader ─► Underlay::send      outer UDP and IP header: the kernel's
//! tables ◄─ port, tun_id, tun_src, tun_dst ◄─ TunnelHeader ◄─ Underlay::receive
//! ```
//! The outer IP and UDP headers belong to the sockets of an [`Underlay`], so the kernel's routes,
//! neighbours, fragments and UDP checksums apply. All tunnel ports with the same protocol and UDP
//! port share what the underlay receives: the key and the addresses select the port.

mod header;
mod options;
mod outer;
mod table;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub use header::TunnelHeader;
pub use options::{TunnelOptions, TunnelValue};
pub(crate) use outer::key_of;
pub(crate) use table::{FromTunnel, Tunnels};

/// The protocol of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelKind {
    /// RFC 7348, over UDP.
    Vxlan,
    /// RFC 8926, over UDP. No option is processed.
    Geneve,
    /// RFC 2784 and 2890, over IP, with Ethernet frames as payload.
    Gre,
}

impl TunnelKind {
    /// Every protocol.
    pub const ALL: [Self; 3] = [Self::Vxlan, Self::Geneve, Self::Gre];

    /// Its name in arguments.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
        }
    }

    /// The registered UDP port; 0 for GRE.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Vxlan => 4789,
            Self::Geneve => 6081,
            Self::Gre => 0,
        }
    }

    /// The largest key.
    pub fn key_max(self) -> u32 {
        match self {
            Self::Vxlan | Self::Geneve => 0xff_ffff,
            Self::Gre => u32::MAX,
        }
    }
}

/// A datagram that an [`Underlay`] received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The protocol of the socket.
    pub kind: TunnelKind,
    /// The UDP port of the socket; 0 for GRE.
    pub dst_port: u16,
    /// Where the tunnel header and the inner frame are in the buffer.
    pub payload: Range<usize>,
    /// The sender.
    pub src: IpAddr,
    /// The local address that it was sent to.
    pub dst: IpAddr,
    /// Its type of service or traffic class.
    pub tos: u8,
}

/// What the outer headers of a datagram are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterHeader {
    /// The protocol.
    pub kind: TunnelKind,
    /// The UDP port of the receiver; 0 for GRE.
    pub dst_port: u16,
    /// The local address; the kernel chooses if none.
    pub src: Option<IpAddr>,
    /// The receiver.
    pub dst: IpAddr,
    /// Equal for all frames of an inner flow: selects the UDP source port.
    pub flow_hash: u16,
    /// Type of service or traffic class.
    pub tos: u8,
    /// TTL or hop limit, at least 1.
    pub ttl: u8,
    /// Whether routers must not fragment it. IPv6 routers never do.
    pub has_df: bool,
    /// Whether a UDP header over IPv4 has a checksum. Over IPv6 it always has.
    pub has_checksum: bool,
}

/// The result of [`Underlay::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The datagram is sent.
    Done,
    /// The socket is full.
    Full,
    /// It cannot be sent: no route, or too long.
    Refused,
}

/// The sockets below tunnel ports. No call blocks.
pub trait Underlay: Send {
    /// Receives a datagram into `bytes`, if one waits. A longer one is dropped.
    fn receive(&mut self, bytes: &mut [u8]) -> Option<Datagram>;

    /// Sends a tunnel header with its frame.
    fn send(&mut self, outer: &OuterHeader, bytes: &[u8]) -> Sending;

    /// Descriptors that become readable when datagrams arrive.
    fn wake_fds(&self) -> Vec<Arc<OwnedFd>>;
}

/// Why a tunnel dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelDrop {
    /// The packet ends within its tunnel header.
    Truncated,
    /// A Geneve or GRE version other than 0.
    BadVersion,
    /// VXLAN without VNI, or reserved GRE flags.
    BadFlags,
    /// The payload is not Ethernet.
    UnknownProtocol,
    /// The GRE checksum is wrong.
    BadChecksum,
    /// The lengths of Geneve options contradict each other.
    BadOptions,
    /// A Geneve option that the receiver must process, and is unknown.
    CriticalOption,
    /// A Geneve control packet.
    Control,
    /// The inner frame is shorter than an Ethernet header.
    ShortFrame,
    /// No tunnel port has this key and these addresses.
    UnknownTunnel,
    /// It comes from the address that it was sent to: a flow sent a packet back through its tunnel
    /// and left `tun_dst` as it was.
    OwnAddress,
    /// A router marked congestion on the outer header, and the inner frame cannot carry the mark
    /// (RFC 6040).
    Congestion,
    /// `remote_ip=flow`, and `tun_dst` of the frame is not set.
    NoRemote,
    /// The key of the frame does not fit into the header.
    KeyTooLarge,
    /// The kernel has no route, or the frame is too long for it.
    Refused,
    /// The socket is full.
    Full,
}

impl TunnelDrop {
    /// Every reason.
    pub const ALL: [Self; 16] = [
        Self::Truncated,
        Self::BadVersion,
        Self::BadFlags,
        Self::UnknownProtocol,
        Self::BadChecksum,
        Self::BadOptions,
        Self::CriticalOption,
        Self::Control,
        Self::ShortFrame,
        Self::UnknownTunnel,
        Self::OwnAddress,
        Self::Congestion,
        Self::NoRemote,
        Self::KeyTooLarge,
        Self::Refused,
        Self::Full,
    ];

    /// The reason, in words.
    pub fn name(self) -> &'static str {
        self.texts().1
    }

    /// Its counter in `coverage/show`.
    pub fn counter(self) -> &'static str {
        self.texts().0
    }

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Truncated => ("tunnel_drop_truncated", "truncated tunnel header"),
            Self::BadVersion => ("tunnel_drop_version", "unknown version of the tunnel header"),
            Self::BadFlags => ("tunnel_drop_flags", "invalid flags in the tunnel header"),
            Self::UnknownProtocol => ("tunnel_drop_protocol", "payload is not Ethernet"),
            Self::BadChecksum => ("tunnel_drop_checksum", "wrong GRE checksum"),
            Self::BadOptions => ("tunnel_drop_options", "malformed Geneve options"),
            Self::CriticalOption => ("tunnel_drop_critical", "unknown critical Geneve option"),
            Self::Control => ("tunnel_drop_control", "Geneve control packet"),
            Self::ShortFrame => ("tunnel_drop_short_frame", "inner frame too short"),
            Self::UnknownTunnel => ("tunnel_drop_no_port", "no tunnel port for key and addresses"),
            Self::OwnAddress => ("tunnel_drop_own_address", "sent by this machine to itself"),
            Self::Congestion => {
                ("tunnel_drop_congestion", "congestion mark for a frame without ECN")
            }
            Self::NoRemote => ("tunnel_drop_no_remote", "tun_dst not set"),
            Self::KeyTooLarge => ("tunnel_drop_key", "tun_id too large for the tunnel"),
            Self::Refused => ("tunnel_drop_refused", "no route, or too long for the underlay"),
            Self::Full => ("tunnel_drop_full", "socket full"),
        }
    }
}

/// Dropped packets by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelDrops([u64; TunnelDrop::ALL.len()]);

impl TunnelDrops {
    pub(crate) fn count(&mut self, reason: TunnelDrop) {
        self.0[reason as usize] += 1;
    }

    /// Packets dropped for a reason.
    pub fn get(&self, reason: TunnelDrop) -> u64 {
        self.0[reason as usize]
    }
}
