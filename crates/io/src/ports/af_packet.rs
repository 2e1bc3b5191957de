//! Ports on packet sockets (`AF_PACKET`).
//!
//! ```text
//! receive   interface ─► ring, mapped ─► Intake ─► packets of the pool
//! send      packets ─► sendmmsg, a burst a call, past the queueing discipline ─► interface
//! ```
//! A receiving port is woken by an error when its interface goes down; it works again when the
//! interface is up. A removed interface never comes back to the same socket, so the port opens a
//! new one when an interface of that name exists again.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::sockopt;
use warpswitch_packet::{
    Batch, LinkState, Packet, Pool, PortMethod, PortSpec, RxCounts, RxPort, Transmitted, TxCounts,
    TxPort,
};

use super::fanout::Fanout;
use super::intake::Intake;
use super::{EXCLUDE, open_error};
use crate::error::{IoError, IoErrorKind};
use crate::sys::block_ring::BlockRing;
use crate::sys::bpf::IngressDrop;
use crate::sys::frame_ring::FrameRing;
use crate::sys::interface::Interface;
use crate::sys::packet_socket::{self, RingFrame};

/// Bytes of the receive rings of an interface, all queues together: 16,384 slots, or 128 blocks. At
/// half a million frames a second they last for 30 ms; on shared cores a worker is late by
/// more than 10 ms at times.
const RING_BYTES: usize = 32 << 20;
/// Bytes of the ring of a queue, at least.
const RING_BYTES_MIN: usize = 8 << 20;
/// Bytes after which a burst ends: eight frames of 64 KiB. More would leave the cache before they
/// are sent, and have the receiver wait meanwhile; with three, TCP reached 0.72 to 0.87 of the
/// kernel's forwarding in five runs, with eight 0.83 to 0.87.
pub(super) const BURST_BYTES_MAX: usize = 512 << 10;
/// Bytes that wait to be sent, and that long frames may take in the socket of a receiver.
const SOCKET_BYTES: usize = 4 << 20;
/// `ETH_P_ALL`.
const ALL_PROTOCOLS: u16 = 3;

/// What fails without the privilege for packet sockets.
const OPEN: &str = "open a packet socket";

/// Opens a packet socket for `device`; returns it with the number of the interface. Errors state
/// that the port cannot do `what`.
pub(super) fn open_socket(device: &str, what: &'static str) -> Result<(OwnedFd, u32), IoError> {
    let fail = |what: &'static str| move |error| open_error(device, what, error);
    let interface = Interface::new(device).map_err(fail("open a socket"))?;
    let index = interface.index().map_err(fail("find the interface"))?;
    if !interface.is_ethernet().map_err(fail("read the kind of the interface"))? {
        let message = "not an Ethernet interface".to_owned();
        return Err(IoError::device(IoErrorKind::NoDevice, device, message));
    }
    let socket = packet_socket::open().map_err(fail(what))?;
    Ok((socket, index))
}

/// The error of frames that cannot be kept from the kernel.
fn exclusion_error(device: &str, error: io::Error) -> IoError {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => {
            let message = "the kernel cannot be kept from handling frames: that requires Linux 6.6 \
                           with BPF; use METHOD AFXDP, or a firewall that drops the frames";
            IoError::device(IoErrorKind::NotPermitted, device, message.to_owned())
        }
        _ => open_error(device, EXCLUDE, error),
    }
}

/// State of the interface called `device`; `Removed` if `socket` is not bound to it any more.
pub(super) fn link_state(device: &str, socket: &OwnedFd) -> LinkState {
    let state = || {
        let interface = Interface::new(device)?;
        match Some(interface.index()?) == packet_socket::bound_to(socket) {
            true => interface.is_running().map(Some),
            false => Ok(None),
        }
    };
    match state() {
        Ok(Some(true)) => LinkState::Up,
        Ok(Some(false)) => LinkState::Down,
        Ok(None) | Err(_) => LinkState::Removed,
    }
}

/// Why an interface that was added again cannot be opened.
#[derive(Debug, Default)]
pub(super) struct ReopenError(Option<String>);

impl ReopenError {
    /// Keeps the error of `opened`, except for a missing interface; returns what was opened.
    pub(super) fn note<T>(&mut self, opened: Result<T, IoError>) -> Option<T> {
        self.0 = None;
        opened.map_err(|error| self.keep(&error)).ok()
    }

    fn keep(&mut self, error: &IoError) {
        self.0 = (error.kind() != IoErrorKind::NoDevice).then(|| error.to_string());
    }

    /// The last error.
    pub(super) fn take(&mut self) -> Option<String> {
        self.0.take()
    }
}

#[derive(Debug)]
enum Ring {
    Frames(FrameRing),
    Blocks(BlockRing),
}

/// A bound socket and its ring.
#[derive(Debug)]
struct Receiver {
    // Unmapped before the socket is closed.
    ring: Ring,
    socket: Arc<OwnedFd>,
    /// Keeps frames from the kernel.
    _drop: Option<IngressDrop>,
}

impl Receiver {
    fn open(spec: &PortSpec, fanout: Option<&Fanout>) -> Result<Self, IoError> {
        let device = &spec.device;
        let (socket, index) = open_socket(device, OPEN)?;
        let prepared = Self::prepare(&socket, spec, index);
        let ring = prepared.map_err(|error| open_error(device, "set up a ring", error))?;
        let bound = match fanout {
            None => packet_socket::bind(&socket, index, ALL_PROTOCOLS),
            Some(fanout) => Self::bind_with(&socket, spec, index, fanout),
        };
        bound.map_err(|error| open_error(device, "bind a packet socket", error))?;
        let drop = spec.is_exclusive.then(|| IngressDrop::attach(index)).transpose();
        let drop = drop.map_err(|error| exclusion_error(device, error))?;
        Ok(Self { ring, socket: Arc::new(socket), _drop: drop })
    }

    /// Binds a socket that receives its share of the frames only.
    fn bind_with(socket: &OwnedFd, spec: &PortSpec, index: u32, fanout: &Fanout) -> io::Result<()> {
        // Between binding and joining it would receive all frames, as others do.
        packet_socket::accept_none(socket)?;
        packet_socket::bind(socket, index, ALL_PROTOCOLS)?;
        fanout.join(socket)?;
        match spec.ether_type {
            Some(ether_type) => packet_socket::filter_ether_type(socket, ether_type),
            None => packet_socket::accept_all(socket),
        }
    }

    fn prepare(socket: &OwnedFd, spec: &PortSpec, index: u32) -> io::Result<Ring> {
        let on: libc::c_int = 1;
        if !spec.receives_outgoing {
            packet_socket::set_option(socket, libc::PACKET_IGNORE_OUTGOING, &on)?;
        }
        if let Some(ether_type) = spec.ether_type {
            packet_socket::filter_ether_type(socket, ether_type)?;
        }
        packet_socket::set_option(socket, libc::PACKET_VNET_HDR, &on)?;
        if spec.is_promiscuous {
            packet_socket::set_promiscuous(socket, index)?;
        }
        // Only root may exceed the limit of the system, which is less than this.
        if sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BYTES).is_err() {
            sockopt::set_socket_recv_buffer_size(socket, SOCKET_BYTES)?;
        }
        let ring_bytes = (RING_BYTES / spec.queue.count as usize).max(RING_BYTES_MIN);
        if spec.method == PortMethod::AfPacketBlocks {
            return BlockRing::new(socket, ring_bytes).map(Ring::Blocks);
        }
        packet_socket::set_option(socket, libc::PACKET_COPY_THRESH, &on)?;
        FrameRing::new(socket, ring_bytes).map(Ring::Frames)
    }
}

/// A receiving port on a packet socket.
#[derive(Debug)]
pub(super) struct PacketRx {
    spec: PortSpec,
    /// The other queues of the interface, if there are several.
    fanout: Option<Arc<Fanout>>,
    receiver: Receiver,
    intake: Intake,
    dropped: u64,
    reopen_error: ReopenError,
}

impl PacketRx {
    pub(super) fn open(spec: &PortSpec, fanout: Option<Arc<Fanout>>) -> Result<Self, IoError> {
        let receiver = Receiver::open(spec, fanout.as_deref())?;
        let (intake, reopen_error) = (Intake::default(), ReopenError::default());
        Ok(Self { spec: spec.clone(), fanout, receiver, intake, dropped: 0, reopen_error })
    }

    /// Passes up to `frames_max` frames to `look`, in place; returns how many there were.
    #[cfg(test)]
    pub(super) fn look_at(&mut self, frames_max: usize, mut look: impl FnMut(&[u8])) -> usize {
        let take = |frame: &RingFrame<'_>| {
            look(frame.data);
            true
        };
        match &mut self.receiver.ring {
            Ring::Frames(ring) => ring.take(frames_max, take),
            Ring::Blocks(ring) => ring.take(frames_max, take),
        }
    }
}

impl RxPort for PacketRx {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        let (socket, intake) = (&*self.receiver.socket, &mut self.intake);
        let mut bytes = 0;
        let take = |frame: &RingFrame<'_>| {
            intake.accept(socket, frame, pool, batch);
            bytes += frame.wire_bytes;
            bytes < BURST_BYTES_MAX
        };
        match &mut self.receiver.ring {
            Ring::Frames(ring) => ring.take(frames_max, take),
            Ring::Blocks(ring) => ring.take(frames_max, take),
        }
    }

    fn device(&self) -> String {
        self.spec.device.clone()
    }

    fn method(&self) -> &'static str {
        match self.receiver.ring {
            Ring::Frames(_) => "AFPACKET",
            Ring::Blocks(_) => "AFPACKET_BLOCKS",
        }
    }

    fn counts(&mut self) -> RxCounts {
        self.dropped += packet_socket::take_drops(&self.receiver.socket);
        RxCounts { dropped: self.dropped, ..self.intake.counts() }
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        // Reading the error clears it.
        _ = sockopt::socket_error(&*self.receiver.socket);
        Some(self.receiver.socket.clone())
    }

    fn check_link(&mut self) -> LinkState {
        let state = link_state(&self.spec.device, &self.receiver.socket);
        if state == LinkState::Removed
            && let Some(receiver) =
                self.reopen_error.note(Receiver::open(&self.spec, self.fanout.as_deref()))
        {
            self.dropped += packet_socket::take_drops(&self.receiver.socket);
            self.receiver = receiver;
            return link_state(&self.spec.device, &self.receiver.socket);
        }
        state
    }

    fn reopen_error(&mut self) -> Option<String> {
        self.reopen_error.take()
    }
}

/// A sending port on a packet socket.
#[derive(Debug)]
pub(super) struct PacketTx {
    device: String,
    socket: Arc<OwnedFd>,
    counts: TxCounts,
    reopen_error: ReopenError,
}

impl PacketTx {
    pub(super) fn open(spec: &PortSpec) -> Result<Self, IoError> {
        let socket = Self::open_sender(&spec.device)?;
        let (counts, reopen_error) = (TxCounts::default(), ReopenError::default());
        Ok(Self { device: spec.device.clone(), socket, counts, reopen_error })
    }

    fn open_sender(device: &str) -> Result<Arc<OwnedFd>, IoError> {
        let fail = |what: &'static str| move |error| open_error(device, what, error);
        let (socket, index) = open_socket(device, OPEN)?;
        let on: libc::c_int = 1;
        // Without it frames pass the queueing discipline, which is slower and no worse.
        _ = packet_socket::set_option(&socket, libc::PACKET_QDISC_BYPASS, &on);
        let has_vnet = packet_socket::set_option(&socket, libc::PACKET_VNET_HDR, &on);
        has_vnet.map_err(fail("leave checksums to the interface"))?;
        if sockopt::set_socket_send_buffer_size(&socket, SOCKET_BYTES).is_err() {
            return Err(fail("set the send buffer")(io::Error::last_os_error()));
        }
        packet_socket::bind(&socket, index, 0).map_err(fail("bind a packet socket"))?;
        Ok(Arc::new(socket))
    }
}

impl TxPort for PacketTx {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        loop {
            let error = match packet_socket::send_burst(&self.socket, packets) {
                Ok(count) => {
                    self.counts.frames += count as u64;
                    return Transmitted::Frames(count);
                }
                Err(error) => error,
            };
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return Transmitted::Full,
                _ => {
                    self.counts.refused += 1;
                    return Transmitted::Refused;
                }
            }
        }
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn counts(&mut self) -> TxCounts {
        self.counts
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        _ = sockopt::socket_error(&*self.socket);
        Some(self.socket.clone())
    }

    fn check_link(&mut self) -> LinkState {
        let state = link_state(&self.device, &self.socket);
        if state == LinkState::Removed
            && let Some(socket) = self.reopen_error.note(Self::open_sender(&self.device))
        {
            self.socket = socket;
            return link_state(&self.device, &self.socket);
        }
        state
    }

    fn reopen_error(&mut self) -> Option<String> {
        self.reopen_error.take()
    }
}
