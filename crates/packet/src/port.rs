//! Ports: devices that receive and send bursts of frames.
//!
//! ```text
//! element ─PortSpec─► host ─► Box<dyn RxPort> ◄─ receive ─ task of the element
//!                             Box<dyn TxPort> ◄─ send ──── task of the element
//! ```
//! `warpswitch-io` implements the traits, the host of a router opens ports, elements use them.
//!
//! # Invariants
//! - N1: no call blocks. [`RxPort::wake_fd`] and [`TxPort::wake_fd`] return what to poll.
//! - N2: received frames are copied into packets of the pool. A slow element never holds buffers of
//!   the device.
//!
//! # Why not borrow
//! A copy of 64 bytes costs up to 12 ns, one of 1518 bytes some 65 ns. Packets
//! that borrowed from a ring would have to be copied when an element keeps them, and each queue
//! does. `docs/interfaces.md` has the figures, `cost_of_copies` in `warpswitch-io` takes them.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::Batch;
use crate::packet::Packet;
use crate::pool::Pool;

/// How the host reaches an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PortMethod {
    /// The host chooses.
    #[default]
    Auto,
    /// A packet socket; received frames are available at once (`TPACKET_V2`).
    AfPacket,
    /// A packet socket that hands over blocks of frames, at least every millisecond
    /// (`TPACKET_V3`).
    AfPacketBlocks,
    /// A program at the driver and a socket that shares memory with it (`AF_XDP`). The kernel does
    /// not see the frames.
    AfXdp,
}

/// A TAP or TUN device to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapOptions {
    /// The element that owns it: distinguishes devices whose names the kernel chooses.
    pub owner: String,
    /// Whether its packets start with an Ethernet header (TAP), or an IP header (TUN).
    pub has_ethernet: bool,
    /// The IPv4 address of the kernel on it, and the length of its prefix.
    pub address: Option<(Ipv4Addr, u8)>,
    /// The Ethernet address of the kernel on it; the kernel chooses if none.
    pub ethernet_address: Option<[u8; 6]>,
    /// The most bytes of a packet; the kernel's default if none.
    pub mtu: Option<u32>,
    /// Where the kernel's default route leads, through the device.
    pub gateway: Option<Ipv4Addr>,
}

impl Default for TapOptions {
    /// A TAP device without addresses.
    fn default() -> Self {
        Self {
            owner: String::new(),
            has_ethernet: true,
            address: None,
            ethernet_address: None,
            mtu: None,
            gateway: None,
        }
    }
}

/// One of several receive queues of an interface. The kernel, or the card, distributes frames by a
/// hash of their flow, so each flow arrives at one queue, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortQueue {
    /// Its number, less than `count`.
    pub number: u32,
    /// How many queues there are.
    pub count: u32,
}

impl Default for PortQueue {
    /// The only one.
    fn default() -> Self {
        Self { number: 0, count: 1 }
    }
}

/// A port to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSpec {
    /// Name of an interface; `tap:NAME`, where the kernel chooses an empty name; `mem:NAME` or
    /// `mem:NAME:peer`, an end of a link in memory.
    pub device: String,
    /// How to reach it.
    pub method: PortMethod,
    /// The receive queue, for receiving ports.
    pub queue: PortQueue,
    /// Whether frames for other hosts are received, too.
    pub is_promiscuous: bool,
    /// Whether the kernel must not handle received frames as well.
    pub is_exclusive: bool,
    /// Whether frames that the kernel sends are received, too.
    pub receives_outgoing: bool,
    /// The EtherType of received frames; any if none.
    pub ether_type: Option<u16>,
    /// How a TAP device is created; the default if none.
    pub tap: Option<TapOptions>,
}

/// State of the link of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Frames can pass.
    Up,
    /// The interface is down or has no carrier.
    Down,
    /// The interface does not exist.
    Removed,
}

/// Counters of a receiving port since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxCounts {
    /// Frames received.
    pub frames: u64,
    /// Frames that the kernel dropped because the port was full.
    pub dropped: u64,
    /// Frames whose checksum the sender had left to the device.
    pub checksums: u64,
    /// Frames of several segments: the sender had left segmentation to the device.
    pub segmented: u64,
    /// Frames dropped because they were longer than the port can hold, or to be segmented in an
    /// unknown way.
    pub unusable: u64,
}

/// Counters of a sending port since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCounts {
    /// Frames sent.
    pub frames: u64,
    /// Frames that the kernel refused.
    pub refused: u64,
}

/// The result of [`TxPort::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmitted {
    /// So many of the first frames are sent, at least one.
    Frames(usize),
    /// The first frame cannot be sent: it is too long, or the link is down.
    Refused,
    /// The port is full.
    Full,
}

/// A port that receives frames. See the module.
pub trait RxPort: Send {
    /// Appends up to `frames_max` frames to `batch`; returns how many it took. Sets packet type,
    /// timestamp and MAC header of each packet, and what its sender left to do: [`crate::gso`].
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize;

    /// The name of the interface.
    fn device(&self) -> String;

    /// How it receives, for people; empty if there is one way only.
    fn method(&self) -> &'static str {
        ""
    }

    /// The counters; all 0 for a port that keeps none.
    fn counts(&mut self) -> RxCounts {
        RxCounts::default()
    }

    /// The descriptor that becomes readable when frames arrive. Call it after
    /// [`RxPort::receive`] returned 0: it also clears errors that would wake the caller again.
    /// None for a port whose frames the caller itself puts in or makes.
    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        None
    }

    /// How long to leave a port alone that had only a few frames, where each look takes time of the
    /// sender. Frames that arrive meanwhile come in one burst.
    fn rest(&self) -> Duration {
        Duration::ZERO
    }

    /// Checks the link. Opens an interface again that was removed and added. Takes some
    /// microseconds: call it about once a second. A port without a link is always up.
    fn check_link(&mut self) -> LinkState {
        LinkState::Up
    }

    /// Why an interface that was added again cannot be opened, as the last check found; `None` if
    /// nothing is wrong.
    fn reopen_error(&mut self) -> Option<String> {
        None
    }
}

/// A port that sends frames. See the module.
pub trait TxPort: Send {
    /// Sends the first of `packets`, as many as the port accepts at once. It refuses packets with
    /// [`crate::Gso`] unless [`TxPort::accepts_gso`].
    fn send(&mut self, packets: &[Packet]) -> Transmitted;

    /// Whether checksums and segmentation of packets may be left to it.
    fn accepts_gso(&self) -> bool {
        false
    }

    /// The counters; all 0 for a port that keeps none.
    fn counts(&mut self) -> TxCounts {
        TxCounts::default()
    }

    /// The descriptor that becomes writable when the port has room again. None for a port that is
    /// never full, or whose receiver reports no room.
    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        None
    }

    /// As [`RxPort::check_link`].
    fn check_link(&mut self) -> LinkState {
        LinkState::Up
    }

    /// As [`RxPort::reopen_error`].
    fn reopen_error(&mut self) -> Option<String> {
        None
    }
}
